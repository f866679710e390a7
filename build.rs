//! Notes which compiler builds the binary, for the record of every run.

use std::process::Command;

fn main() {
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(compiler)
        .arg("--version")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .unwrap_or_else(|| "unknown compiler".to_owned());
    println!("cargo:rustc-env=SYSDYNO_RUSTC={}", version.trim());
    println!("cargo:rustc-env=SYSDYNO_TARGET={}", std::env::var("TARGET").unwrap_or_default());
    println!("cargo:rerun-if-changed=build.rs");
}
