//! Locks on whole files (flock(2)): the kernel gives them back however a process ends.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;

/// What came of asking for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locking {
    /// This open file has it until it is closed.
    Mine,
    /// Another process or open file has it: the process number, where the kernel reports it.
    Taken(Option<u32>),
    /// The file system cannot lock.
    Impossible,
}

/// Asks for the lock of a file without waiting. Programs that this process starts do not inherit it: the standard library
/// opens every file so that an exec closes it.
pub fn take(file: &File) -> Locking {
    match file.try_lock() {
        Ok(()) => Locking::Mine,
        Err(TryLockError::WouldBlock) => Locking::Taken(holder(file)),
        Err(TryLockError::Error(_)) => Locking::Impossible,
    }
}

/// The process that holds the lock of a file; none where the kernel does not show it here.
fn holder(file: &File) -> Option<u32> {
    let facts = file.metadata().ok()?;
    let (major, minor) = (libc::major(facts.dev()), libc::minor(facts.dev()));
    let place = format!("{major:02x}:{minor:02x}:{}", facts.ino());
    listed_holder(&std::fs::read_to_string("/proc/locks").ok()?, &place)
}

/// The holder of the lock on `place` (`major:minor:inode`) in the text of /proc/locks (proc_locks(5)).
fn listed_holder(locks: &str, place: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // A process that waits has an arrow before its kind of lock. Number 0 is a process that cannot be seen from here.
        let [_, "FLOCK", _, _, number, found, ..] = words[..] else { return None };
        (found == place).then(|| number.parse().ok().filter(|&number| number > 0)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_the_one_of_that_file() {
        let locks = "1: POSIX  ADVISORY  WRITE 10 08:01:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 4711 08:01:78 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 4712 08:01:79 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 0 08:01:80 0 EOF\n";
        assert_eq!(listed_holder(locks, "08:01:78"), Some(4711));
        for other in ["08:01:77", "08:01:79", "08:01:80", "08:01:7"] {
            assert_eq!(listed_holder(locks, other), None, "{other}");
        }
    }

    #[test]
    fn a_file_is_locked_once_and_free_when_it_is_closed() {
        let keep = tempfile::tempdir().unwrap();
        let place = keep.path().join("file");
        let first = File::create(&place).unwrap();
        assert_eq!(take(&first), Locking::Mine);
        let second = File::open(&place).unwrap();
        assert!(matches!(take(&second), Locking::Taken(_)));
        drop(first);
        // A process that another test starts right now has the descriptor until it executes its program.
        let free = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(2));
            take(&second) == Locking::Mine
        });
        assert!(free);
    }
}
