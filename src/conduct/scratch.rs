//! The run's own directory for files: one, in the scratch directory, made before the first launch and removed with everything
//! in it after the last.
//!
//! A run that ends by itself or by a signal removes its directory. One that was killed outright, or whose machine lost power,
//! cannot: the next run that starts with this scratch directory does. Which directories are nobody's is told by a lock, which
//! the kernel gives back however a process ends.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::machine::{Machine, Mounted};
use crate::results::quantity::Unit;
use crate::results::trouble::Trouble;
use crate::results::wording::quantity;
use crate::rig::order::Space;
use crate::sys::{fault, process};

/// Beginning of the names of such directories.
const PREFIX: &str = ".sysdyno-scratch-";

/// The file in each of them that its run holds locked.
const OWNER: &str = "owner";

/// Tries of removing a directory, and the pause between them: launches of a run that was killed die with it, but not at once.
const REMOVALS: u32 = 50;
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);

/// Tries of getting the turn to make and to sweep, and the pause between them.
const TURNS: u32 = 100;
const TURN_PAUSE: Duration = Duration::from_millis(20);

/// The directory of one run; removed when it is dropped.
#[derive(Debug)]
pub struct Scratch {
    space: Space,
    /// Locked as long as the run lives.
    _owner: File,
}

/// What a start found of runs that were killed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Directories and files that were removed.
    pub removed: Vec<PathBuf>,
    /// Those that could not be, with the reason.
    pub kept: Vec<(PathBuf, String)>,
}

impl Scratch {
    /// Makes the directory. Its files may take a tenth of the free space and no more than 2 GiB, or what `limit` allows.
    pub fn make(machine: &Machine, limit: Option<u64>) -> Result<Self, Trouble> {
        let mount = mount(machine)?;
        let bytes = allowed(mount, limit)?;
        let place = PathBuf::from(&mount.directory);
        let directory = place.join(format!("{PREFIX}{}", std::process::id()));
        let _turn = turn(&place);
        // A directory of this name is of a run that was killed and had this number: the sweep before could not remove it.
        let made = fs::DirBuilder::new().mode(0o700).create(&directory).and_then(|()| {
            let mut options = File::options();
            let owner = options.write(true).create_new(true).mode(0o600).open(directory.join(OWNER))?;
            // Where files cannot be locked, the number in the name has to do.
            let _ = owner.try_lock();
            Ok(owner)
        });
        match made {
            Ok(owner) => Ok(Scratch { space: Space { directory, bytes }, _owner: owner }),
            Err(error) => {
                let _ = fs::remove_dir(&directory);
                Err(Trouble::new(format!("cannot make the directory {} for files: {error}", directory.display()))
                    .hint("choose a place that can be written to, with space, with --scratch DIR"))
            }
        }
    }

    /// What launches are told of it.
    pub fn space(&self) -> &Space {
        &self.space
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now is found by the next start.
        let _ = remove(&self.space.directory);
    }
}

fn mount(machine: &Machine) -> Result<&Mounted, Trouble> {
    let mount = machine.scratch().and_then(|storage| storage.mount.as_ref());
    mount.ok_or_else(|| {
        Trouble::new("nothing is known of the scratch directory").hint("choose a place with --scratch DIR")
    })
}

/// Bytes that the files of a run may take together, or why the limit cannot be kept there: said before anything is measured.
pub fn room(machine: &Machine, limit: Option<u64>) -> Result<u64, Trouble> {
    allowed(mount(machine)?, limit)
}

fn allowed(mount: &Mounted, limit: Option<u64>) -> Result<u64, Trouble> {
    let text = |bytes: u64| quantity(bytes as f64, Unit::Bytes);
    match (limit, mount.free_bytes.as_ref().map(|free| free.value)) {
        (Some(limit), Some(free)) if limit > free => {
            let refused = Trouble::new(format!(
                "--scratch-limit allows files of {} together, but only {} are free there",
                text(limit),
                text(free)
            ));
            let most = free / 1_000_000;
            Err(if most == 0 {
                refused.hint("free space, or choose another place with --scratch DIR")
            } else {
                refused.hint(format!(
                    "give --scratch-limit {most}M or less (without it files take a tenth of what is free), free space, or \
                     choose another place with --scratch DIR"
                ))
            })
        }
        (Some(limit), _) => Ok(limit),
        (None, _) => Ok(mount.polite_bytes()),
    }
}

/// Removes what runs that were killed left in the scratch directory of this machine, and nothing else: only what bears such a
/// name, belongs to this user, and is nobody's any more.
pub fn sweep(machine: &Machine) -> Swept {
    let mut swept = Swept::default();
    let Ok(place) = mount(machine).map(|mount| PathBuf::from(&mount.directory)) else { return swept };
    // Without the turn another run may be between making its directory and locking it.
    let Some(_turn) = turn(&place) else { return swept };
    let Ok(entries) = fs::read_dir(&place) else { return swept };
    for entry in entries.flatten() {
        let path = entry.path();
        if !is_left_over(&path, &entry.file_name().to_string_lossy()) {
            continue;
        }
        match remove(&path) {
            Ok(()) => swept.removed.push(path),
            Err(error) => swept.kept.push((path, error.to_string())),
        }
    }
    swept
}

/// Whether something bears a name of ours and is nobody's.
fn is_left_over(path: &Path, name: &str) -> bool {
    // Of the link, not of what it names.
    let Ok(found) = fs::symlink_metadata(path) else { return false };
    if found.uid() != process::effective_user() {
        return false;
    }
    let dead = |number: &str| number.parse::<u32>().is_ok_and(|number| !process::is_alive(number));
    if let Some(number) = name.strip_prefix(PREFIX) {
        let numbered = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        return found.is_dir() && numbered && is_unowned(&path.join(OWNER)).unwrap_or_else(|| dead(number));
    }
    // A file whose name should have lived for a moment only.
    let number =
        name.strip_prefix(fault::MOMENTARY).map(|rest| rest.split_once('-').map_or(rest, |(number, _)| number));
    found.is_file() && number.is_some_and(dead)
}

/// Whether nobody holds the lock of a directory; none where it cannot be told by locks.
fn is_unowned(owner: &Path) -> Option<bool> {
    let opened = File::options().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(owner);
    match opened {
        Ok(file) => match file.try_lock() {
            Ok(()) => Some(true),
            Err(TryLockError::WouldBlock) => Some(false),
            Err(TryLockError::Error(_)) => None,
        },
        // Making and locking are one turn: a directory without the file is what a kill in between left.
        Err(error) if error.kind() == ErrorKind::NotFound => Some(true),
        Err(_) => None,
    }
}

/// The turn of making and sweeping directories in a place: one run at a time. None where it cannot be had.
fn turn(place: &Path) -> Option<File> {
    let directory = File::open(place).ok()?;
    for _ in 0..TURNS {
        match directory.try_lock() {
            Ok(()) => return Some(directory),
            Err(TryLockError::WouldBlock) => std::thread::sleep(TURN_PAUSE),
            Err(TryLockError::Error(_)) => return None,
        }
    }
    None
}

/// Removes a directory with all in it, or a file.
fn remove(path: &Path) -> std::io::Result<()> {
    let mut outcome = Ok(());
    for turn in 0..REMOVALS {
        if turn > 0 {
            std::thread::sleep(REMOVAL_PAUSE);
        }
        // Symbolic links in it are removed, not followed.
        outcome = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        match outcome.as_ref().map_err(std::io::Error::kind) {
            Err(ErrorKind::NotFound) => return Ok(()),
            // Somebody was still writing into it.
            Err(ErrorKind::DirectoryNotEmpty) => {}
            _ => break,
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Fact;

    const MOST: u64 = 2 << 30;

    #[test]
    fn a_tenth_of_what_is_free_is_polite_and_a_limit_holds() {
        let allowed = |free: Option<u64>, limit| {
            let mut mount = Mounted::of_type("ext4", "rw");
            mount.free_bytes = free.map(|free| Fact::new(free, "for the test"));
            super::allowed(&mount, limit)
        };
        assert_eq!(allowed(Some(1 << 30), None).unwrap(), (1 << 30) / 10);
        assert_eq!(allowed(Some(1 << 40), None).unwrap(), MOST);
        assert_eq!(allowed(Some(1 << 40), Some(5 << 30)).unwrap(), 5 << 30);
        assert_eq!(allowed(Some(0), None).unwrap(), 0);
        assert_eq!(allowed(None, None).unwrap(), MOST);
        let refused = allowed(Some(1 << 20), Some(1 << 21)).unwrap_err();
        assert!(refused.what.contains("only 1.000 MiB"), "{refused}");
        assert!(refused.hint.as_ref().unwrap().contains("--scratch-limit 1M or less"), "{refused}");
        let hopeless = allowed(Some(4096), Some(8192)).unwrap_err();
        assert!(!hopeless.hint.as_ref().unwrap().contains("--scratch-limit"), "{hopeless}");
    }

    #[test]
    fn what_is_locked_or_of_another_name_stays() {
        let keep = tempfile::tempdir().unwrap();
        let place = |name: &str| keep.path().join(name);
        let owned = place(".sysdyno-scratch-1");
        fs::create_dir(&owned).unwrap();
        let owner = File::create_new(owned.join(OWNER)).unwrap();
        owner.try_lock().unwrap();
        assert!(!is_left_over(&owned, ".sysdyno-scratch-1"));
        drop(owner);
        assert!(is_left_over(&owned, ".sysdyno-scratch-1"));
        for name in [".sysdyno-scratch-", ".sysdyno-scratch-1x", "sysdyno-scratch-1", ".sysdyno-x"] {
            fs::create_dir_all(place(name)).unwrap();
            assert!(!is_left_over(&place(name), name), "{name}");
        }
        // A link of such a name leads elsewhere.
        std::os::unix::fs::symlink(keep.path(), place(".sysdyno-scratch-2")).unwrap();
        assert!(!is_left_over(&place(".sysdyno-scratch-2"), ".sysdyno-scratch-2"));
        // A file of a process that lives is its own.
        let own = format!("{}{}", fault::MOMENTARY, std::process::id());
        fs::write(place(&own), "x").unwrap();
        assert!(!is_left_over(&place(&own), &own));
        let dead = format!("{}{}", fault::MOMENTARY, u32::MAX / 3);
        fs::write(place(&dead), "x").unwrap();
        assert!(is_left_over(&place(&dead), &dead));
        let numbered = format!("{dead}-1f3a");
        fs::write(place(&numbered), "x").unwrap();
        assert!(is_left_over(&place(&numbered), &numbered));
    }
}
