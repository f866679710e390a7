//! Places without privileges or with limits.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::unistd::Uid;
use tempfile::TempDir;

use super::runs::PROGRAM;
use super::truth;

/// A directory that anybody may write to, with a copy of the program that anybody may start.
pub fn for_anybody() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let program = directory.path().join("sysdyno");
    executable(&program, &fs::read(PROGRAM).unwrap());
    (directory, program)
}

/// Makes a file that can be executed. Another process writes it: children of this one that have not executed yet hold all of its open
/// files, and a file that is open for writing is "busy" to whoever executes it.
pub fn executable(file: &Path, content: &[u8]) {
    let mut command = Command::new("install");
    let mut child = command.args(["-m", "755", "/dev/stdin"]).arg(file).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(content).unwrap();
    assert!(child.wait().unwrap().success(), "install {}", file.display());
}

/// Words before a command that take every privilege away. The user has no other process on this machine.
pub fn nobody() -> Vec<&'static str> {
    if Uid::effective().is_root() {
        vec!["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "--inh-caps=-all", "--no-new-privs"]
    } else {
        vec!["env"]
    }
}

/// A control group with a limit; removed at the end.
pub struct Group {
    /// Its directory.
    pub place: PathBuf,
}

impl Group {
    /// Half a CPU. None where it is noted that no group has a limit here, as in [`Group::make`].
    pub fn of_half_a_cpu() -> Option<Self> {
        Group::make(&[
            ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "50000"),
            ("/sys/fs/cgroup/cpu,cpuacct", "cpu.cfs_quota_us", "50000"),
            ("/sys/fs/cgroup", "cpu.max", "50000 100000"),
        ])
    }

    /// 256 MiB of memory.
    pub fn of_little_memory() -> Option<Self> {
        Group::of_memory(256)
    }

    /// 16 MiB of memory.
    pub fn of_too_little_memory() -> Option<Self> {
        Group::of_memory(16)
    }

    /// So many MiB of memory.
    pub fn of_memory(mebibytes: u64) -> Option<Self> {
        let limit = format!("{mebibytes}M");
        Group::make(&[
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", &limit),
            ("/sys/fs/cgroup", "memory.max", &limit),
        ])
    }

    /// So many tasks.
    pub fn of_tasks(most: u32) -> Option<Self> {
        let most = most.to_string();
        Group::make(&[("/sys/fs/cgroup/pids", "pids.max", &most), ("/sys/fs/cgroup", "pids.max", &most)])
    }

    /// `(mount point, file of the limit, text of the limit)`. Version 1 comes first: where both are mounted it has the controllers.
    /// A test is not judged where version 2 is alone and has no such controller. Everywhere else a missing group fails the test.
    pub fn make(places: &[(&str, &str, &str)]) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("sysdyno-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut tried = Vec::new();
        for &(mount, file, limit) in places.iter().filter(|(mount, ..)| is_group(Path::new(mount))) {
            let (mount, controller) = (Path::new(mount), file.split('.').next().unwrap());
            if let Ok(controllers) = fs::read_to_string(mount.join("cgroup.controllers")) {
                if tried.is_empty() && !controllers.split_whitespace().any(|found| found == controller) {
                    let why = format!("control groups of version 2 are alone and have no controller of {controller}");
                    truth::not_judged("a control group with a limit", &why);
                    return None;
                }
                // Already on in most places.
                let _ = fs::write(mount.join("cgroup.subtree_control"), format!("+{controller}"));
            }
            let group = mount.join(&name);
            let made = fs::create_dir(&group).and_then(|()| fs::write(group.join(file), limit));
            match made {
                Ok(()) => return Some(Group { place: group }),
                Err(error) => tried.push(format!("{}: {error}", group.join(file).display())),
            }
            let _ = fs::remove_dir(&group);
        }
        panic!("a control group with a limit is needed here, as root: {}", tried.join("; "));
    }

    /// A group below it for processes. Version 2 then lets others be made next to that one.
    pub fn inner(&self) -> PathBuf {
        let _ = fs::write(self.place.join("cgroup.subtree_control"), "+memory");
        let inner = self.place.join("inner");
        fs::create_dir_all(&inner).unwrap();
        inner
    }
}

/// Both versions can be mounted below a directory that is no group.
fn is_group(directory: &Path) -> bool {
    directory.join("cgroup.procs").exists()
}

impl Drop for Group {
    fn drop(&mut self) {
        for directory in [self.place.join("inner"), self.place.clone()] {
            // Processes that have just ended may count for a moment.
            for _ in 0..50 {
                if !directory.exists() || fs::remove_dir(&directory).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}
