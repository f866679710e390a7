//! A disk that a test makes, and control groups that let it answer so many reads in a second. Neither depends on the file system of
//! the build directory, nor on the version of control groups.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::fuse::own_mounts;
use super::namespaces::must;
use super::places::Group;

/// Bytes of a disk: more than any test of it needs.
const BYTES: u64 = 128 << 20;

/// A loop device; it is detached with the value.
pub struct Loop(pub String);

impl Loop {
    /// Serves an image with an empty ext4.
    pub fn of(image: &Path) -> Self {
        let device = Loop(must(&["losetup", "--find", "--show", image.to_str().unwrap()]));
        must(&["mkfs.ext4", "-q", "-E", "nodiscard", &device.0]);
        device
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

/// An ext4 on a loop device, mounted for this thread and what it starts.
pub struct Disk {
    mounted: PathBuf,
    device: Loop,
    _image: TempDir,
}

impl Disk {
    /// Makes it below the build directory; needs root.
    pub fn make() -> Self {
        own_mounts();
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (image, mounted) = (directory.path().join("image"), directory.path().join("mounted"));
        File::create_new(&image).unwrap().set_len(BYTES).unwrap();
        fs::create_dir(&mounted).unwrap();
        let device = Loop::of(&image);
        must(&["mount", &device.0, mounted.to_str().unwrap()]);
        Disk { mounted, device, _image: directory }
    }

    /// Where its files are.
    pub fn place(&self) -> &Path {
        &self.mounted
    }

    /// `major:minor`.
    pub fn number(&self) -> String {
        let name = self.device.0.trim_start_matches("/dev/");
        fs::read_to_string(format!("/sys/block/{name}/dev")).unwrap().trim().to_owned()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.mounted).status();
    }
}

/// What limits the reads of a disk in a second, in both versions of control groups.
const OLD: &str = "blkio.throttle.read_iops_device";
const NEW: &str = "io.max";

/// A control group whose processes may read so often from a disk. It is removed with the value, and this process leaves it.
pub struct Throttle {
    group: Group,
    disk: String,
}

impl Throttle {
    /// Makes it. None where it is noted that no group has a limit here, as in [`Group::make`].
    pub fn of(disk: &Disk, reads_per_second: u32) -> Option<Self> {
        let disk = disk.number();
        let group = Group::make(&[
            ("/sys/fs/cgroup/blkio", OLD, &format!("{disk} {reads_per_second}")),
            ("/sys/fs/cgroup", NEW, &format!("{disk} riops={reads_per_second}")),
        ])?;
        Some(Throttle { group, disk })
    }

    fn is_new(&self) -> bool {
        self.group.place.join(NEW).exists()
    }

    /// Changes the limit.
    pub fn limit(&self, reads_per_second: u32) {
        let (file, before) = if self.is_new() { (NEW, "riops=") } else { (OLD, "") };
        let line = format!("{} {before}{reads_per_second}", self.disk);
        fs::write(self.group.place.join(file), line).unwrap();
    }

    /// Takes this process in. The limit is of a disk that no other test reads.
    pub fn enter(&self) {
        fs::write(self.processes(), std::process::id().to_string()).unwrap();
    }

    /// The file that takes processes in.
    pub fn processes(&self) -> PathBuf {
        self.group.place.join("cgroup.procs")
    }

    /// Reads that the disk has served to the group, and their bytes.
    pub fn reads(&self) -> (u64, u64) {
        let of = |file: &str, name: &str| {
            counted(&fs::read_to_string(self.group.place.join(file)).unwrap(), &self.disk, name)
        };
        if self.is_new() {
            (of("io.stat", "rios="), of("io.stat", "rbytes="))
        } else {
            (of("blkio.throttle.io_serviced", "Read="), of("blkio.throttle.io_service_bytes", "Read="))
        }
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        let above = self.group.place.parent().unwrap();
        let _ = fs::write(above.join("cgroup.procs"), std::process::id().to_string());
    }
}

/// The number of a disk behind a name: a line is `7:0 Read 400` in version 1, and `7:0 rbytes=1638400 rios=400 …` in version 2.
pub fn counted(text: &str, disk: &str, name: &str) -> u64 {
    let text = text.replace("Read ", "Read=");
    let lines = text.lines().filter_map(|line| line.strip_prefix(disk)?.strip_prefix(' '));
    lines.flat_map(|line| line.split(' ')).filter_map(|word| word.strip_prefix(name)?.parse::<u64>().ok()).sum()
}
