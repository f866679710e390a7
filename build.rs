//! Notes which compiler builds the binary, for the record of every run, and makes the program that loads the driver of a GPU.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "src/sys/gpu/words.rs"]
#[allow(dead_code, reason = "the build needs the names of the calls only")]
mod words;

/// What the program needs of the C library, the memory functions of the compiler's code among it.
const OF_C: [&str; 13] = [
    "__libc_start_main",
    "read",
    "write",
    "prctl",
    "clock_gettime",
    "getrusage",
    "mmap",
    "_exit",
    "memcpy",
    "memmove",
    "memset",
    "memcmp",
    "bcmp",
];

fn main() {
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(&compiler)
        .arg("--version")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .unwrap_or_else(|| "unknown compiler".to_owned());
    println!("cargo:rustc-env=SYSDYNO_RUSTC={}", version.trim());
    println!("cargo:rustc-env=SYSDYNO_TARGET={}", variable("TARGET"));
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/sys/gpu");
    let out = PathBuf::from(variable("OUT_DIR"));
    let program = out.join("loader");
    if let Err(why) = loader(&compiler, &out, &program) {
        println!("cargo:warning=sysdyno is built without results of GPUs: {why}");
        // Without the program its experiments are skipped.
        fs::write(&program, b"").expect("the build has a directory for its files");
    }
    println!("cargo:rustc-env=SYSDYNO_GPU_LOADER={}", program.display());
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Makes the program. It is linked with libraries that have names and nothing else: so it needs no library of a driver to be built, and no
/// version of the C library to be started.
fn loader(compiler: &str, out: &Path, program: &Path) -> Result<(), String> {
    if variable("CARGO_CFG_TARGET_ENV") != "gnu" {
        return Err("drivers of GPUs are for the GNU C library".to_owned());
    }
    let libraries = out.join("names");
    fs::create_dir_all(&libraries).map_err(|error| error.to_string())?;
    for (name, file, symbols) in [("cuda", "libcuda.so.1", &words::CALLS[..]), ("c", "libc.so.6", &OF_C[..])] {
        let functions =
            symbols.iter().map(|symbol| format!("#[unsafe(no_mangle)] pub extern \"C\" fn {symbol}() {{}}\n"));
        let text = format!("{WITHOUT_LIBRARY}{}", functions.collect::<String>());
        let source = libraries.join(format!("{name}.rs"));
        fs::write(&source, text).map_err(|error| error.to_string())?;
        let library = libraries.join(format!("lib{name}.so"));
        compile(compiler, &source, &library, &["--crate-type=cdylib", &format!("-Clink-arg=-Wl,-soname,{file}")])?;
    }
    let place = format!("-L{}", libraries.display());
    let source = Path::new("src/sys/gpu/loader.rs");
    compile(compiler, source, program, &["-Cstrip=symbols", &place, "-ldylib=cuda", "-ldylib=c"])
}

/// Begins the source of a library that has names only.
const WITHOUT_LIBRARY: &str =
    "#![no_std]\n#[panic_handler] fn panicked(_: &core::panic::PanicInfo<'_>) -> ! { loop {} }\n";

/// Compiles a file without any library of Rust or C, for the target, with its linker.
fn compile(compiler: &str, source: &Path, into: &Path, options: &[&str]) -> Result<(), String> {
    let linker =
        ["RUSTC_LINKER", &format!("CARGO_TARGET_{}_LINKER", variable("TARGET").to_uppercase().replace('-', "_"))]
            .iter()
            .find_map(|name| std::env::var(name).ok());
    let output = Command::new(compiler)
        .args(["--edition=2024", "--target", &variable("TARGET"), "-Copt-level=3", "-Cpanic=abort", "-Cdebuginfo=0"])
        .args(["-Ctarget-feature=-crt-static", "-Clink-arg=-nostdlib", "-Clink-arg=-nostartfiles"])
        .args(linker.map(|linker| format!("-Clinker={linker}")))
        .args(options)
        .arg("-o")
        .args([into, source])
        .output()
        .map_err(|error| format!("cannot start {compiler}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().find(|line| line.starts_with("error")).unwrap_or("the compiler failed");
    if output.status.success() { Ok(()) } else { Err(first.to_owned()) }
}
