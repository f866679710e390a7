//! Changes of names in a directory, each of which leaves the directory as it was and removes no file.

use std::ffi::{CStr, c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::arch::system_call;
use super::create;
use super::operation::Operation;

/// A name that does not exist between operations, and one that does.
const NEW: &CStr = c"new";
const THERE: &CStr = c"there";
/// A symbolic link, and what it holds.
const LINK: &CStr = c"link";
/// Entries of the directory: its names, itself and the directory above.
pub const ENTRIES: usize = 100;

/// What is done to names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Makes a second name of a file and removes it.
    HardLink,
    /// Gives a file another name, and the first one again.
    Name,
    /// Sets the permissions of a file, which they are already.
    Permissions,
    /// Opens the directory, reads all of its entries, and closes it.
    List,
}

/// Makes the directory below a place, or opens it. An operation that ended early may have left the new name, which is removed. All names
/// are those of one file, because removed files slow down the making of others (ext4).
fn directory_below(above: &Path) -> io::Result<File> {
    let place = above.join("names");
    let once = |made: io::Result<()>| match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    };
    once(create::directory(&place, create::Access::Private))?;
    let [there, new] = ["there", "new"].map(|name| place.join(name));
    once(create::file(&there, create::Access::Private).map(drop))?;
    let _ = std::fs::remove_file(new);
    once(symlink("there", place.join("link")))?;
    for number in 4..ENTRIES {
        let name = place.join(format!("entry-{number}"));
        // Some file systems have no hard links.
        let linked = once(std::fs::hard_link(&there, &name));
        linked.or_else(|_| once(create::file(&name, create::Access::Private).map(drop)))?;
    }
    create::open_directory(&place)
}

/// The descriptor of the directory, which is the argument of the functions.
fn directory(argument: *mut c_void) -> c_int {
    argument.addr() as c_int
}

/// 0 if both answers are.
fn both(first: c_int, second: c_int) -> i64 {
    i64::from(first | second)
}

extern "C" fn hard_link(argument: *mut c_void) -> i64 {
    let at = directory(argument);
    // SAFETY: the names are static.
    unsafe { both(libc::linkat(at, THERE.as_ptr(), at, NEW.as_ptr(), 0), libc::unlinkat(at, NEW.as_ptr(), 0)) }
}

extern "C" fn name(argument: *mut c_void) -> i64 {
    let at = directory(argument);
    // SAFETY: the names are static.
    unsafe {
        both(libc::renameat(at, THERE.as_ptr(), at, NEW.as_ptr()), libc::renameat(at, NEW.as_ptr(), at, THERE.as_ptr()))
    }
}

extern "C" fn permissions(argument: *mut c_void) -> i64 {
    // SAFETY: the name is static.
    i64::from(unsafe { libc::fchmodat(directory(argument), THERE.as_ptr(), 0o600, 0) })
}

extern "C" fn list(argument: *mut c_void) -> i64 {
    const BYTES: usize = 8 << 10;
    let mut entries = [const { std::mem::MaybeUninit::<u64>::uninit() }; BYTES / 8];
    let mut read = 0;
    // SAFETY: the kernel writes at most the length of the array. The descriptor is new, and nothing else knows it.
    unsafe {
        let opened =
            libc::openat(directory(argument), c".".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC);
        loop {
            let answer =
                system_call(libc::SYS_getdents64, [i64::from(opened), entries.as_mut_ptr() as i64, BYTES as i64]);
            if answer <= 0 {
                return i64::from(libc::close(opened)) | answer.min(0) | i64::from(read == 0);
            }
            read += answer;
        }
    }
}

impl Operation<'_> {
    /// A change in a directory with [`ENTRIES`] below a place. All operations share the directory, which stays. The answer is 0.
    ///
    /// # Errors
    ///
    /// The directory or a name cannot be made.
    pub fn change(above: &Path, change: Change) -> io::Result<Operation<'static>> {
        let function = match change {
            Change::HardLink => hard_link,
            Change::Name => name,
            Change::Permissions => permissions,
            Change::List => list,
        };
        Ok(Operation::on_files(directory_below(above)?, |directory| {
            let argument = std::ptr::without_provenance_mut(directory.as_raw_fd() as usize);
            // SAFETY: the functions take the argument for a descriptor, which is open as long as the operation holds it.
            unsafe { Operation::function(function, argument, 0) }
        }))
    }

    /// readlinkat(2) of a symbolic link in such a directory. The answer is the length of what it holds.
    ///
    /// # Errors
    ///
    /// As for [`change`](Self::change).
    pub fn read_link(above: &Path) -> io::Result<Operation<'static>> {
        Ok(Operation::on_files(directory_below(above)?, |directory| {
            let arguments = [i64::from(directory.as_raw_fd()), LINK.as_ptr() as i64, 0, 64, 0, 0];
            // SAFETY: the name is static, and the kernel writes at most 64 bytes into the memory.
            unsafe {
                Operation::call(libc::SYS_readlinkat, arguments, THERE.count_bytes() as i64).with_words(2, &[0; 8])
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_leave_the_directory_as_it_was() {
        let above = tempfile::tempdir().unwrap();
        let names = || {
            let inside = std::fs::read_dir(above.path().join("names")).unwrap();
            let mut names: Vec<_> = inside.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        for change in [Change::HardLink, Change::Name, Change::Permissions, Change::List] {
            let operation = Operation::change(above.path(), change).unwrap();
            let before = names();
            assert_eq!(before.len(), ENTRIES - 2, "{change:?}");
            assert!(Operation::work(&[operation]), "{change:?}");
            assert_eq!(names(), before, "{change:?}");
        }
        assert!(Operation::work(&[Operation::read_link(above.path()).unwrap()]));
    }

    #[test]
    fn what_an_early_end_left_is_repaired() {
        let above = tempfile::tempdir().unwrap();
        let operation = Operation::change(above.path(), Change::Name).unwrap();
        let [there, new] = ["there", "new"].map(|name| above.path().join("names").join(name));
        std::fs::rename(&there, &new).unwrap();
        assert!(!Operation::work(&[operation]));
        assert!(Operation::work(&[Operation::change(above.path(), Change::Name).unwrap()]));
        assert!(there.exists() && !new.exists());
    }
}
