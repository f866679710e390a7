//! Places without privileges or with limits.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::unistd::Uid;
use tempfile::TempDir;

use super::runs::PROGRAM;

/// A directory that anybody may write to, with a copy of the program that anybody may start.
pub fn for_anybody() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let program = directory.path().join("sysdyno");
    fs::copy(PROGRAM, &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (directory, program)
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
    /// Half a CPU.
    pub fn of_half_a_cpu() -> Self {
        Group::make(&[
            ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "50000"),
            ("/sys/fs/cgroup/cpu,cpuacct", "cpu.cfs_quota_us", "50000"),
            ("/sys/fs/cgroup", "cpu.max", "50000 100000"),
        ])
    }

    /// 256 MiB of memory.
    pub fn of_little_memory() -> Self {
        Group::of_memory(256)
    }

    /// 16 MiB of memory.
    pub fn of_too_little_memory() -> Self {
        Group::of_memory(16)
    }

    /// So many MiB of memory.
    pub fn of_memory(mebibytes: u32) -> Self {
        let limit = format!("{mebibytes}M");
        Group::make(&[
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", &limit),
            ("/sys/fs/cgroup", "memory.max", &limit),
        ])
    }

    /// `(mount point, file of the limit, text of the limit)`; version 1 first, where both are mounted it has the controllers.
    fn make(places: &[(&str, &str, &str)]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("sysdyno-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut tried = Vec::new();
        for &(mount, file, limit) in places {
            let group = Path::new(mount).join(&name);
            if Path::new(mount).join("cgroup.controllers").exists() {
                // Already on in most places.
                let controller = file.split('.').next().unwrap();
                let _ = fs::write(Path::new(mount).join("cgroup.subtree_control"), format!("+{controller}"));
            }
            let made = Path::new(mount)
                .join("cgroup.procs")
                .metadata()
                .and_then(|_| fs::create_dir(&group))
                .and_then(|()| fs::write(group.join(file), limit));
            match made {
                Ok(()) => return Group { place: group },
                Err(error) => tried.push(format!("{}: {error}", group.join(file).display())),
            }
            let _ = fs::remove_dir(&group);
        }
        panic!("a control group with a limit is needed here, as root: {}", tried.join("; "));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Processes that have just ended may count for a moment.
        for _ in 0..50 {
            if fs::remove_dir(&self.place).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
