//! Every file and directory that sysdyno makes, in places that others may have prepared. What is made is new: no link is followed,
//! and nothing that exists is opened for it. No other code creates or opens for writing, which `tests/unmeasured/creating.rs` checks.
//!
//! Under sudo, what others may read goes to the user who called it, where the directory above is that user's.

use std::ffi::CStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::file::REGULAR_ONLY;
use super::{naming, process};

/// Who may use what is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everyone whom the user's mask allows.
    Shared,
    /// This user alone.
    Private,
}

impl Access {
    fn mode(self, shared: u32) -> u32 {
        if self == Access::Private { shared & 0o700 } else { shared }
    }
}

/// The limit of file size, as users know it.
pub const FILE_SIZE: &str = "the limit of file size: ulimit -f";

/// Beginning of the names of files that have a name for a moment only. A unique name follows.
pub const MOMENTARY: &str = ".sysdyno-";

/// A new file, to be written and read. An error where anything has the name.
pub fn file(place: &Path, access: Access) -> io::Result<File> {
    new_file(place, access, access.mode(0o666))
}

fn new_file(place: &Path, access: Access, mode: u32) -> io::Result<File> {
    let file = File::options().read(true).write(true).create_new(true).mode(mode).open(place)?;
    give(&file, place, access);
    Ok(file)
}

/// A file in memory alone.
pub fn in_memory(name: &CStr) -> io::Result<File> {
    Ok(memfd_create(name, MFdFlags::MFD_CLOEXEC)?.into())
}

/// A file without a name in a directory: it is gone when it is closed, however the process ends.
pub fn nameless(directory: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    if let Ok(file) = options.custom_flags(libc::O_TMPFILE).open(directory) {
        return Ok(file);
    }
    // Not every file system can make files without a name. The name then lives for a moment.
    let place = directory.join(format!("{MOMENTARY}{}", naming::unique()));
    let file = file(&place, Access::Private)?;
    fs::remove_file(&place)?;
    Ok(file)
}

/// Opens a regular file that exists, to read it and to append. A symbolic link is an error.
pub fn existing(place: &Path) -> io::Result<File> {
    let file = File::options().read(true).append(true).custom_flags(REGULAR_ONLY).open(place)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Writes a new file next to its place and gives it its name. What had the name before is replaced, also a link. Nothing
/// half-written stays.
pub fn whole(place: &Path, access: Access, text: &str) -> io::Result<()> {
    replace(place, access, access.mode(0o666), text.as_bytes(), access == Access::Private)
}

/// The same of bytes that take the place of another file: they are on the disk before the other file is removed.
pub fn whole_on_disk(place: &Path, access: Access, bytes: &[u8]) -> io::Result<()> {
    replace(place, access, access.mode(0o666), bytes, true)
}

/// Writes a file that a user named. A regular file stays as it was where the text does not fit. A device, a pipe, a link, or a file
/// in a directory that takes no new files is written directly.
pub fn named(place: &Path, text: &str) -> io::Result<()> {
    let directly = || {
        let mut file = reach(place)?;
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        file.write_all(text.as_bytes())
    };
    let mode = match place.symlink_metadata() {
        Ok(found) if !found.is_file() => return directly(),
        Ok(found) => found.permissions().mode() & 0o777,
        Err(_) => 0o666,
    };
    match replace(place, Access::Shared, mode, text.as_bytes(), false) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => directly(),
        written => written,
    }
}

/// Opens what a user named and what exists, to append to it. Opening does not wait for the reader of a pipe, and writing does. A link
/// of another user is refused, because it can lead anywhere.
pub fn reach(place: &Path) -> io::Result<File> {
    no_foreign_link(place)?;
    let opened = File::options().append(true).custom_flags(libc::O_NONBLOCK).open(place);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ENXIO) => io::Error::other("no process reads this pipe"),
        _ => error,
    })?;
    if file.metadata()?.file_type().is_fifo() {
        // Where the mode stays, a full pipe ends in an error message.
        let _ = fcntl(&file, FcntlArg::F_SETFL(OFlag::empty()));
    }
    Ok(file)
}

/// Refuses a link of another user than root.
pub fn no_foreign_link(place: &Path) -> io::Result<()> {
    let found = name_of(place).symlink_metadata()?;
    if found.is_symlink() && found.uid() != 0 && !is_own(found.uid()) {
        return Err(io::Error::other(format!("it is a link of user {}", found.uid())));
    }
    Ok(())
}

fn replace(place: &Path, access: Access, mode: u32, bytes: &[u8], on_disk: bool) -> io::Result<()> {
    let name = place.file_name().ok_or(ErrorKind::InvalidFilename)?.to_string_lossy();
    let partial = place.with_file_name(format!(".{name}.partial"));
    // What a killed process left, or a link that another user prepared, goes first and is not opened.
    match fs::remove_file(&partial) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = new_file(&partial, access, mode).and_then(|mut file| {
        file.write_all(bytes)?;
        if on_disk {
            // A later step relies on it: an error that comes late, as on a file server, is to be known now.
            file.sync_all()?;
        }
        fs::rename(&partial, place)
    });
    if written.is_err() {
        // Where it cannot be removed the next writer does.
        let _ = fs::remove_file(&partial);
    }
    written
}

/// One new directory.
pub fn directory(place: &Path, access: Access) -> io::Result<()> {
    DirBuilder::new().mode(access.mode(0o777)).create(place)?;
    if let Ok(made) = open_directory(place) {
        give(&made, place, access);
    }
    Ok(())
}

/// A directory with those above it, each made where it is missing.
pub fn directories(place: &Path, access: Access) -> io::Result<()> {
    if let Some(above) = place.parent().filter(|above| !above.as_os_str().is_empty() && !above.exists()) {
        directories(above, access)?;
    }
    match directory(place, access) {
        Err(_) if place.is_dir() => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(io::Error::new(ErrorKind::NotADirectory, "it is not a directory"))
        }
        made => made,
    }
}

/// Opens a directory. A symbolic link is an error.
pub fn open_directory(place: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_DIRECTORY | REGULAR_ONLY).open(place)
}

/// A directory for files of this user, made where it is missing. One of another user is refused, because that user could change
/// what is written there. A link to one must also be this user's.
pub fn own_directory(place: &Path) -> io::Result<()> {
    directories(place, Access::Shared)?;
    owned(place)
}

/// Refuses a directory of another user, or behind a link of one.
pub fn owned(place: &Path) -> io::Result<()> {
    let (name, found) = (name_of(place).symlink_metadata()?, place.metadata()?);
    match [name.uid(), found.uid()].into_iter().find(|&owner| !is_own(owner)) {
        Some(owner) => Err(io::Error::new(
            ErrorKind::PermissionDenied,
            format!("it belongs to user {owner}, and sysdyno runs as user {}", process::effective_user()),
        )),
        None => Ok(()),
    }
}

/// The path without a slash at its end. Shells also add one to links, and behind it the kernel sees what the link leads to.
fn name_of(place: &Path) -> &Path {
    place.components().as_path()
}

/// Whether this is the user of this process, or the one who called sudo. That user has root's rights already.
fn is_own(user: u32) -> bool {
    user == process::effective_user() || process::sudo_user().is_some_and(|(caller, _)| caller == user)
}

/// Gives what was just made to the user who called sudo, if the directory above is that user's. It is given by its descriptor, so that
/// no link is followed.
fn give(made: &File, place: &Path, access: Access) {
    let Some((user, group)) = process::sudo_user().filter(|_| access == Access::Shared) else { return };
    let above = place.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if above.metadata().is_ok_and(|above| above.uid() == user) {
        // Where the file system has no owners, or root has no rights there, nothing is lost.
        let _ = fchown(made, Some(user), Some(group));
    }
}

/// What a user can do about a file or a directory that cannot be written.
pub fn hint(error: &io::Error, otherwise: &str) -> String {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => format!("free some space there, or {otherwise}"),
        ErrorKind::FileTooLarge => format!("raise {FILE_SIZE}. Then {otherwise}"),
        _ => otherwise.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    #[test]
    fn a_named_file_keeps_its_mode_and_a_device_stays_one() {
        let keep = tempfile::tempdir().unwrap();
        let file = keep.path().join("page.html");
        named(&file, "one").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        named(&file, "two").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let link = keep.path().join("link");
        symlink(&file, &link).unwrap();
        named(&link, "3").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "3");
        let full = named(Path::new("/dev/full"), "four").unwrap_err();
        assert_eq!(hint(&full, "go on"), "free some space there, or go on");
        assert!(hint(&ErrorKind::FileTooLarge.into(), "go on").contains("ulimit -f"));
        assert_eq!(hint(&ErrorKind::NotFound.into(), "go on"), "go on");
    }

    #[test]
    fn a_planted_link_is_replaced_and_never_followed() {
        let keep = tempfile::tempdir().unwrap();
        let place = |name: &str| keep.path().join(name);
        fs::write(place("victim"), "precious").unwrap();
        for name in ["page", ".page.partial", "new"] {
            symlink(place("victim"), place(name)).unwrap();
        }
        assert!(file(&place("new"), Access::Shared).is_err() && existing(&place("new")).is_err());
        whole(&place("page"), Access::Shared, "text").unwrap();
        assert_eq!(fs::read_to_string(place("page")).unwrap(), "text");
        assert_eq!(fs::read_to_string(place("victim")).unwrap(), "precious");
        // Only root can give a link away.
        if std::os::unix::fs::lchown(place("new"), Some(54_321), None).is_ok() {
            let refused = named(&place("new"), "text").unwrap_err();
            assert_eq!(refused.to_string(), "it is a link of user 54321");
            assert_eq!(fs::read_to_string(place("victim")).unwrap(), "precious");
        }
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        let keep = tempfile::tempdir().unwrap();
        let place = keep.path().join("one/two");
        own_directory(&place).unwrap();
        own_directory(&place).unwrap();
        let link = keep.path().join("link");
        symlink(&place, &link).unwrap();
        own_directory(&link).unwrap();
        // Only root can give a directory away.
        if chown(&place, Some(54_321), None).is_ok() {
            for refused in [&place, &link] {
                let why = own_directory(refused).unwrap_err().to_string();
                assert!(why.starts_with("it belongs to user 54321"), "{why}");
            }
        }
    }

    #[test]
    fn a_slash_behind_a_foreign_link_hides_nothing() {
        let keep = tempfile::tempdir().unwrap();
        let (place, link) = (keep.path().join("place"), keep.path().join("link"));
        fs::create_dir(&place).unwrap();
        symlink(&place, &link).unwrap();
        // Only root can give a link away.
        if std::os::unix::fs::lchown(&link, Some(54_321), None).is_ok() {
            for end in ["", "/", "//", "/.", "/./"] {
                let named = format!("{}{end}", link.display());
                assert!(own_directory(Path::new(&named)).is_err(), "{named}");
                assert!(no_foreign_link(Path::new(&named)).is_err(), "{named}");
            }
        }
    }
}
