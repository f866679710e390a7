//! Control groups of the run's own. One has a limit on memory that a launch sets. It is small enough to be filled in a
//! moment, and the cache of no other process is touched.
//!
//! It is made inside the group that the launch is in (or, where version 2 forbids that, inside the nearest above it that has
//! the memory controller for its children). So the limits that hold for the run also hold for it. It is empty and removed
//! when the launch leaves it. A launch that is killed cannot do so: then the conducting process removes it, and what a killed
//! run leaves, the next start. Nothing is ever switched on or off in a group of another owner.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::experiments::prelude::*;
use crate::machine::{self, MemoryGroups};
use crate::sys::process;

/// Beginning of the names of such groups; number and start of the conducting process follow.
const PREFIX: &str = "sysdyno-";

/// Groups that are looked at in search of leftovers.
const MOST_GROUPS: usize = 20_000;

/// Tries of removing a group, and the pause between them: a process that has just ended counts for a moment.
const REMOVALS: u32 = 50;
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);

/// A control group that this process is in; it leaves and removes it when this is dropped.
#[derive(Debug)]
pub struct Group {
    directory: PathBuf,
    /// The group that this process came from.
    home: PathBuf,
    limit: &'static str,
    lifted: &'static str,
    usage: &'static str,
}

/// What the kernel charges to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charged {
    /// Bytes of everything.
    pub all: u64,
    /// Bytes of file data.
    pub file: u64,
}

impl Group {
    /// Makes a group with a limit for a launch of the run that a process conducts, and enters it.
    pub fn enter(conductor: u32, bytes: u64) -> Result<Self, Problem> {
        in_nearest(conductor, |groups, directory| Group::inside(groups, directory, bytes))
    }

    fn inside(groups: &MemoryGroups, directory: PathBuf, bytes: u64) -> Result<Self, String> {
        let home = groups.directories.first().ok_or("this process is in no control group")?.clone();
        let (limit, lifted, usage) = match groups.version {
            1 => ("memory.limit_in_bytes", "-1", "memory.usage_in_bytes"),
            _ => ("memory.max", "max", "memory.current"),
        };
        let group = Group { directory, home, limit, lifted, usage };
        // From here on dropping the group removes it again.
        if !group.directory.join(limit).exists() {
            return Err(format!("{} has no memory controller", group.directory.display()));
        }
        group.set_limit(bytes)?;
        let members = group.directory.join("cgroup.procs");
        fs::write(&members, std::process::id().to_string())
            .map_err(|error| format!("cannot enter {}: {error}", group.directory.display()))?;
        Ok(group)
    }

    /// Sets another limit. A lower one makes the kernel take back what is above it.
    pub fn set_limit(&self, bytes: u64) -> Result<(), String> {
        let file = self.directory.join(self.limit);
        fs::write(&file, bytes.to_string()).map_err(|error| format!("{}: {error}", file.display()))?;
        let held = self.number(self.limit)?;
        if held == bytes { Ok(()) } else { Err(format!("{} contains {held} instead of {bytes}", file.display())) }
    }

    /// What is charged to it now.
    pub fn charged(&self) -> Result<Charged, String> {
        let file = self.directory.join("memory.stat");
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let of = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok());
        let cached = of("file")
            .or_else(|| of("cache"))
            .ok_or_else(|| format!("{} does not report the cache", file.display()))?;
        Ok(Charged { all: self.number(self.usage)?, file: cached })
    }

    fn number(&self, file: &str) -> Result<u64, String> {
        let path = self.directory.join(file);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        text.trim().parse().map_err(|_| format!("{} says {}", path.display(), text.trim()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The rest of the launch needs no limit, even where the way back is barred and it has to end in here.
        let _ = fs::write(self.directory.join(self.limit), self.lifted);
        let _ = fs::write(self.home.join("cgroup.procs"), std::process::id().to_string());
        // Where that is refused, the conducting process removes it after the launch.
        let _ = fs::remove_dir(&self.directory);
    }
}

/// A control group without a limit and without processes. It is removed when this is dropped.
#[derive(Debug)]
pub struct EmptyGroup {
    directory: PathBuf,
    /// Where a process writes its number to join.
    members: File,
}

impl EmptyGroup {
    /// Makes it for a launch of the run that a process conducts.
    pub fn make(conductor: u32) -> Result<Self, Problem> {
        in_nearest(conductor, |_, directory| {
            let members = directory.join("cgroup.procs");
            match File::options().write(true).open(&members) {
                Ok(members) => Ok(EmptyGroup { directory, members }),
                Err(error) => {
                    let _ = fs::remove_dir(&directory);
                    Err(format!("{}: {error}", members.display()))
                }
            }
        })
    }

    /// Has the calling process join. True if the kernel agrees.
    pub fn join(&self) -> bool {
        (&self.members).write(b"0").is_ok_and(|written| written == 1)
    }
}

impl Drop for EmptyGroup {
    fn drop(&mut self) {
        let _ = remove(&self.directory);
    }
}

/// Makes the directory of a group inside of the nearest group of this process that permits it, and what belongs to it.
fn in_nearest<T>(conductor: u32, make: impl Fn(&MemoryGroups, PathBuf) -> Result<T, String>) -> Result<T, Problem> {
    let groups = machine::memory_groups().ok_or_else(|| {
        Problem::new("no memory control groups are mounted here").hint(
            "mount /sys/fs/cgroup, and use a kernel with the memory controller (cgroup_enable=memory on some boards)",
        )
    })?;
    let name = name_of(conductor).ok_or_else(|| Problem::new("/proc does not report when the run began"))?;
    let mut refusal = None;
    for above in &groups.directories {
        let directory = above.join(&name);
        let made = fs::create_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()));
        match made.and_then(|()| make(&groups, directory)) {
            Ok(made) => return Ok(made),
            // What the nearest says is closest to what can be changed.
            Err(reason) => refusal = refusal.or(Some(reason)),
        }
    }
    let reason = refusal.unwrap_or_else(|| "this process is in no control group".to_owned());
    Err(Problem::new(format!("cannot make a control group here: {reason}")).hint(
        "run as root, or in a group that you own: systemd-run --user --scope -p Delegate=yes sysdyno run \
         file.cache_size os.container",
    ))
}

/// Name of the groups of a run; none where `/proc` does not show when it began.
fn name_of(conductor: u32) -> Option<String> {
    Some(format!("{PREFIX}{conductor}-{}", process::start(conductor)?))
}

/// Whether a group of this name is of a run that lives no more.
fn is_left_over(name: &str) -> bool {
    let parts = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    let numbers = parts.and_then(|(number, start)| Some((number.parse::<u32>().ok()?, start.parse::<u64>().ok()?)));
    numbers.is_some_and(|(number, start)| process::start(number) != Some(start))
}

/// Removes the group of the run that this process conducts, if a launch that was killed left one.
pub fn remove_own() {
    let Some((groups, name)) = machine::memory_groups().zip(name_of(std::process::id())) else { return };
    for above in groups.directories {
        let directory = above.join(&name);
        if directory.is_dir() {
            let _ = remove(&directory);
        }
    }
}

/// Removes the groups of runs that were killed, wherever below the widest visible one they are, and names them. Only empty
/// groups can be removed, so no process is ever touched.
pub fn sweep() -> Vec<PathBuf> {
    let widest = machine::memory_groups().and_then(|groups| groups.directories.last().cloned());
    let mut waiting: Vec<PathBuf> = widest.into_iter().collect();
    let (mut removed, mut seen) = (Vec::new(), 0);
    while let Some(directory) = waiting.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            seen += 1;
            if is_left_over(&entry.file_name().to_string_lossy()) {
                if remove(&entry.path()).is_ok() {
                    removed.push(entry.path());
                }
            } else if seen < MOST_GROUPS {
                waiting.push(entry.path());
            }
        }
    }
    removed
}

fn remove(directory: &Path) -> std::io::Result<()> {
    let mut outcome = Ok(());
    for turn in 0..REMOVALS {
        if turn > 0 {
            std::thread::sleep(REMOVAL_PAUSE);
        }
        outcome = fs::remove_dir(directory);
        if !outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::ResourceBusy) {
            break;
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_of_the_dead_are_left_over() {
        let own = name_of(std::process::id()).unwrap();
        assert!(!is_left_over(&own), "{own}");
        // The number was given to another process since.
        assert!(is_left_over(&format!("{PREFIX}{}-1", std::process::id())));
        assert!(is_left_over(&format!("{PREFIX}{}-17", u32::MAX / 3)));
        for name in ["sysdyno-test-17", "sysdyno-", "sysdyno-1", "sysdyno-x-1", "other-1-1", "sysdyno-1-1-1"] {
            assert!(!is_left_over(name), "{name}");
        }
        assert_eq!(name_of(u32::MAX / 3), None);
    }
}
