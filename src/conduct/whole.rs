//! Files that are whole or not there, in directories that somebody else may have prepared.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::setup::FILE_SIZE;

/// Writes a new file beside its place and gives it its name: what had the name before is replaced, were it a link. Nothing
/// half-written stays.
pub fn write(place: &Path, text: &str) -> io::Result<()> {
    write_with(0o666, place, text)
}

/// Writes a file that a user named. A regular file stays as it was where the text does not fit. A device, a pipe, a link, or a file
/// in a directory that takes no new files is written directly.
pub fn write_named(place: &Path, text: &str) -> io::Result<()> {
    let mode = match place.symlink_metadata() {
        Ok(found) if !found.is_file() => return fs::write(place, text),
        Ok(found) => found.permissions().mode() & 0o777,
        Err(_) => 0o666,
    };
    match write_with(mode, place, text) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => fs::write(place, text),
        written => written,
    }
}

/// What a user can do about a file that cannot be written.
pub fn hint(error: &io::Error, otherwise: &str) -> String {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => format!("free some space there, or {otherwise}"),
        ErrorKind::FileTooLarge => format!("raise {FILE_SIZE}. Then {otherwise}"),
        _ => otherwise.to_owned(),
    }
}

/// The same as [`write`] for this user's eyes alone.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_file_keeps_its_mode_and_a_device_stays_one() {
        let keep = tempfile::tempdir().unwrap();
        let file = keep.path().join("page.html");
        write_named(&file, "one").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        write_named(&file, "two").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let link = keep.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_named(&link, "three").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "three");
        let full = write_named(Path::new("/dev/full"), "four").unwrap_err();
        assert_eq!(hint(&full, "go on"), "free some space there, or go on");
        assert!(hint(&ErrorKind::FileTooLarge.into(), "go on").contains("ulimit -f"));
        assert_eq!(hint(&ErrorKind::NotFound.into(), "go on"), "go on");
    }
}
