//! A disk that a test makes, and control groups that let it answer so many reads in a second. Neither depends on the file system of
//! the build directory, nor on the version of control groups.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::fuse::own_mounts;
use super::namespaces::must;

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

/// The files of a controller in a version of control groups: where groups are, the limit, the counters.
struct Version {
    root: &'static str,
    limit: &'static str,
}

const VERSIONS: [Version; 2] = [
    Version { root: "/sys/fs/cgroup/blkio", limit: "blkio.throttle.read_iops_device" },
    Version { root: "/sys/fs/cgroup", limit: "io.max" },
];

/// A control group whose processes may read so often from a disk. It is removed with the value, and this process leaves it.
pub struct Throttle {
    group: PathBuf,
    version: &'static Version,
    disk: String,
}

impl Throttle {
    /// Makes it; why not, where no version of control groups limits the reads of a disk here.
    pub fn of(disk: &Disk, reads_per_second: u32) -> Result<Self, String> {
        let mut reasons = Vec::new();
        for version in &VERSIONS {
            let root = Path::new(version.root);
            // Version 2 gives the controller to children where that is switched on.
            let _ = fs::write(root.join("cgroup.subtree_control"), "+io");
            let group = root.join(format!("sysdyno-test-{}", std::process::id()));
            let is_group = root.join("cgroup.procs").exists();
            if !is_group || fs::create_dir(&group).is_err() {
                reasons.push(format!("no control group can be made in {}", version.root));
                continue;
            }
            // From here on dropping it removes it.
            let throttle = Throttle { group, version, disk: disk.number() };
            match throttle.limit(reads_per_second) {
                Ok(()) => return Ok(throttle),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(reasons.join(", "))
    }

    /// Changes the limit.
    pub fn limit(&self, reads_per_second: u32) -> Result<(), String> {
        let (file, disk) = (self.group.join(self.version.limit), &self.disk);
        let line = match self.version.limit {
            "io.max" => format!("{disk} riops={reads_per_second}"),
            _ => format!("{disk} {reads_per_second}"),
        };
        fs::write(&file, line).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Takes this process in. The limit is of a disk that no other test reads.
    pub fn enter(&self) {
        fs::write(self.processes(), std::process::id().to_string()).unwrap();
    }

    /// The file that takes processes in.
    pub fn processes(&self) -> PathBuf {
        self.group.join("cgroup.procs")
    }

    /// Reads that the disk has served to the group, and their bytes.
    pub fn reads(&self) -> (u64, u64) {
        let of =
            |file: &str, name: &str| counted(&fs::read_to_string(self.group.join(file)).unwrap(), &self.disk, name);
        match self.version.limit {
            "io.max" => (of("io.stat", "rios="), of("io.stat", "rbytes=")),
            _ => (of("blkio.throttle.io_serviced", "Read="), of("blkio.throttle.io_service_bytes", "Read=")),
        }
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        let _ = fs::write(Path::new(self.version.root).join("cgroup.procs"), std::process::id().to_string());
        let _ = fs::remove_dir(&self.group);
    }
}

/// The number of a disk behind a name: a line is `7:0 Read 400` in version 1, and `7:0 rbytes=1638400 rios=400 …` in version 2.
pub fn counted(text: &str, disk: &str, name: &str) -> u64 {
    let text = text.replace("Read ", "Read=");
    let lines = text.lines().filter_map(|line| line.strip_prefix(disk)?.strip_prefix(' '));
    lines.flat_map(|line| line.split(' ')).filter_map(|word| word.strip_prefix(name)?.parse::<u64>().ok()).sum()
}
