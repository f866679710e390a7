//! Files that are whole or not there, in directories that somebody else may have prepared.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes a new file beside its place and gives it its name: what had the name before is replaced, were it a link. Nothing
/// half-written stays.
pub fn write(place: &Path, text: &str) -> io::Result<()> {
    write_with(0o666, place, text)
}

/// The same for this user's eyes alone.
pub fn write_private(place: &Path, text: &str) -> io::Result<()> {
    write_with(0o600, place, text)
}

fn write_with(mode: u32, place: &Path, text: &str) -> io::Result<()> {
    let name = place.file_name().ok_or(ErrorKind::InvalidFilename)?.to_string_lossy();
    let partial = place.with_file_name(format!(".{name}.partial"));
    let written = write_new(mode, &partial, text).and_then(|()| fs::rename(&partial, place));
    if written.is_err() {
        // Where it cannot be removed the next writer does.
        let _ = fs::remove_file(&partial);
    }
    written
}

/// Writes a file that is new: whatever has its name, such as what a killed run left or a link that somebody prepared, goes first
/// and is not opened.
fn write_new(mode: u32, place: &Path, text: &str) -> io::Result<()> {
    match fs::remove_file(place) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).mode(mode).open(place)?.write_all(text.as_bytes())
}
