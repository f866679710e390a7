//! Captured trees: the files under /proc, /sys and /etc of a machine, all in one text file `tests/trees/NAME.tree`.
//!
//! ```text
//! == proc/cpuinfo                       a file: its lines follow, up to the next line that begins with =
//! processor  : 0
//! =- sys/devices/system/cpu/online      a file whose last line has no newline
//! 0-7
//! =x sys/firmware/dmi/tables/DMI        a file that is no text: its bytes in hexadecimal, over several lines
//! 01240000
//! => sys/class/net/eth0                 a symbolic link: its target follows
//! ../../devices/virtual/net/eth0
//! ```
//!
//! No line of a captured file begins with `=`; the kernel writes no such file. One file per machine, because a thousand
//! tiny ones are slow to check out and impossible to review.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Every captured machine.
pub const MACHINES: [&str; 9] = [
    "desktop-hybrid",
    "two-socket",
    "arm-server",
    "container-quota",
    "guest-false-model",
    "arm-board",
    "gvisor-sandbox",
    "riscv-board",
    "server-memory-node",
];

/// The captured tree of a machine, to be read only. It stays in the build directory, under a name made from its content.
pub fn tree(name: &str) -> PathBuf {
    let text = packed(name);
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{:016x}", hasher.finish()));
    if !place.is_dir() {
        let partial = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap().keep();
        unpack(&text, &partial);
        // Of two that unpack at the same time one is the first; both are the same.
        if fs::rename(&partial, &place).is_err() {
            fs::remove_dir_all(&partial).unwrap();
        }
    }
    place
}

/// A copy of a captured tree, for tests that change it.
pub fn copy_of(name: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    unpack(&packed(name), directory.path());
    directory
}

fn packed(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees").join(format!("{name}.tree"));
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn unpack(text: &str, directory: &Path) {
    for (mark, path, content) in entries(text) {
        let place = directory.join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        match mark {
            "==" => fs::write(place, content).unwrap(),
            "=-" => fs::write(place, content.strip_suffix('\n').unwrap_or(content)).unwrap(),
            "=x" => fs::write(place, bytes(content)).unwrap(),
            "=>" => std::os::unix::fs::symlink(content.trim_end(), place).unwrap(),
            _ => panic!("unknown mark {mark} before {path}"),
        }
    }
}

/// `(mark, path, content)` of every file in the text.
fn entries(text: &str) -> Vec<(&str, &str, &str)> {
    let mut starts: Vec<usize> = text.match_indices("\n=").map(|(position, _)| position + 1).collect();
    starts.insert(0, 0);
    starts.push(text.len());
    starts
        .windows(2)
        .map(|window| {
            let (head, content) = text[window[0]..window[1]].split_once('\n').unwrap();
            let (mark, path) = head.split_once(' ').unwrap();
            (mark, path, content)
        })
        .collect()
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits: Vec<u8> = hexadecimal.bytes().filter(|digit| !digit.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// All files below a directory, sorted.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}
