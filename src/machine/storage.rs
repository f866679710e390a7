//! Where the test files lie, and the other disks.

use std::path::Path;

use nix::unistd::{AccessFlags, access};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cgroup::{self, DeviceLimit};
use super::fact::Fact;
use super::io_bus::{self, IoBus};
use super::mount::{self, MOUNTS};
use super::tree::{Tree, bracketed, value_of};

/// A place for files: a mounted file system, the disk below it, or a disk alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Storage {
    /// True for the place of the test files; the other entries are the remaining whole disks.
    pub scratch: bool,
    /// The file system that holds the scratch directory.
    pub mount: Option<Mounted>,
    /// The disk; absent where no block device is behind the file system, or none that can be seen.
    pub device: Option<BlockDevice>,
    /// Why no disk is named; absent when one is.
    pub device_unknown: Option<String>,
}

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mounted {
    /// The scratch directory that was asked for.
    pub directory: String,
    /// Where the file system is mounted.
    pub mount_point: String,
    /// Its type, such as `ext4`.
    pub file_system: Fact<String>,
    /// What kind of storage that type means.
    pub medium: Medium,
    /// Options of the mount and of the file system.
    pub options: String,
    /// What is mounted: a device, a server and path, or a name without meaning.
    pub what: String,
    /// Size of the file system in bytes; live machine only.
    pub total_bytes: Option<Fact<u64>>,
    /// Bytes that this user may still write; live machine only.
    pub free_bytes: Option<Fact<u64>>,
    /// Why this user can make no files in the directory; absent where it can, or nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_files: Option<String>,
}

/// Share of the free space that the files of a run may take together.
const SHARE_OF_FREE: u64 = 10;

/// Most bytes that they take unless more is asked for, however much is free.
const MOST: u64 = 2 << 30;

impl Mounted {
    /// Bytes that the files of a run may take together where no limit was given.
    pub fn polite_bytes(&self) -> u64 {
        self.free_bytes.as_ref().map_or(MOST, |free| (free.value / SHARE_OF_FREE).min(MOST))
    }

    /// Whether its options forbid writing.
    pub fn is_read_only(&self) -> bool {
        self.options.split(',').any(|option| option == "ro")
    }

    /// A file system of a type with options, and nothing else known of it.
    #[cfg(test)]
    pub fn of_type(file_system: &str, options: &str) -> Self {
        Mounted {
            directory: "/data/x".to_owned(),
            mount_point: "/data".to_owned(),
            file_system: Fact::new(file_system.to_owned(), "for the test"),
            medium: Medium::of(file_system),
            options: options.to_owned(),
            what: "/dev/x".to_owned(),
            total_bytes: None,
            free_bytes: None,
            no_files: None,
        }
    }
}

/// What a file system type says about where its bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Medium {
    /// A block device.
    Disk,
    /// Main memory: files never leave it.
    Memory,
    /// Layers of other file systems, usually of a container.
    Overlay,
    /// Another machine, or the host of this guest.
    Network,
    /// A program in user space.
    UserSpace,
}

impl Medium {
    /// The medium of a file system type, as `/proc/self/mountinfo` names it.
    pub fn of(file_system: &str) -> Medium {
        match file_system {
            "tmpfs" | "ramfs" | "devtmpfs" | "hugetlbfs" => Medium::Memory,
            "overlay" | "aufs" | "unionfs" => Medium::Overlay,
            "nfs" | "nfs4" | "cifs" | "smb3" | "smbfs" | "9p" | "virtiofs" | "ceph" | "lustre" | "gpfs" | "afs"
            | "glusterfs" | "fuse.glusterfs" | "fuse.sshfs" | "fuse.s3fs" | "ncpfs" | "beegfs" | "orangefs"
            | "pvfs2" => Medium::Network,
            other if other == "fuse" || other.starts_with("fuse.") => Medium::UserSpace,
            _ => Medium::Disk,
        }
    }
}

/// A whole disk and the settings of its request queue (`/sys/block/NAME`). Units are in the names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockDevice {
    /// Name in `/sys/block`.
    pub name: String,
    /// Name of the partition that holds the file system, if it is one.
    pub partition: Option<String>,
    /// Product name.
    pub model: Option<String>,
    /// Driver, such as `nvme`, `virtio_blk`.
    pub driver: Option<String>,
    /// What connects it with the processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<IoBus>,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// True when the kernel believes that it turns. A virtual disk says so for no reason.
    pub rotational: Option<bool>,
    /// True for a disk that a hypervisor provides.
    pub is_virtual: bool,
    /// The devices below a stacked one (device mapper, RAID).
    pub below: Vec<String>,
    /// Input-output scheduler in use.
    pub scheduler: Option<String>,
    /// Read-ahead in bytes.
    pub read_ahead_bytes: Option<u64>,
    /// Length of the request queue.
    pub requests: Option<u64>,
    /// Smallest unit that can be addressed, in bytes.
    pub logical_block_bytes: Option<u64>,
    /// Smallest unit that is written without reading, in bytes.
    pub physical_block_bytes: Option<u64>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// Largest discard in bytes; 0 when discard is not supported.
    pub discard_bytes: Option<u64>,
    /// Limits that the control groups of this process set on it, the narrowest of each kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<DeviceLimit>,
    /// Directory of all these facts.
    pub source: String,
}

/// The storage behind `scratch` first, then the other whole disks.
pub(super) fn read(tree: &Tree, scratch: &Path) -> Vec<Storage> {
    let mut all: Vec<Storage> = at(tree, scratch).into_iter().collect();
    let used: Vec<String> =
        all.iter().filter_map(|entry| entry.device.as_ref()).map(|device| device.name.clone()).collect();
    for name in tree.names("/sys/block") {
        let device = block_device(tree, &name, None);
        // Loop, RAM and compressed-RAM devices, and slots without a medium, store nothing that is of interest here.
        let idle = ["loop", "ram", "zram", "fd", "sr"]
            .iter()
            .any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit())));
        if !idle && device.size_bytes.unwrap_or(0) > 0 && !used.contains(&name) {
            all.push(Storage { scratch: false, mount: None, device: Some(device), device_unknown: None });
        }
    }
    all
}

/// The storage that a directory lies on, as the place of test files.
pub(super) fn at(tree: &Tree, scratch: &Path) -> Option<Storage> {
    let directory = tree.absolute(scratch);
    // Facts are text: files must not go to a directory of nearly the same name.
    let text = directory.to_str()?.to_owned();
    let mounts = mount::read(tree);
    let found = mount::holding(&mounts, &directory)?;
    let medium = Medium::of(&found.file_system);
    let (total_bytes, free_bytes) = space(tree, &directory);
    let device = match medium {
        Medium::Disk => find_device(tree, &found.device, &found.source),
        _ => None,
    };
    let device_unknown = device.is_none().then(|| match medium {
        Medium::Disk => format!("no block device in /sys has the number {} or the name {}", found.device, found.source),
        Medium::Memory => "the files are in main memory".to_owned(),
        Medium::Overlay => "the layers are on file systems that are not visible from here".to_owned(),
        Medium::Network => format!("the files are on another machine: {}", found.source),
        Medium::UserSpace => "a program provides the files".to_owned(),
    });
    let mount = Mounted {
        directory: text,
        mount_point: found.point.to_string_lossy().into_owned(),
        file_system: Fact::new(found.file_system.clone(), MOUNTS),
        medium,
        options: join_options(&found.options, &found.super_options),
        what: found.source.clone(),
        total_bytes,
        free_bytes,
        no_files: tree.is_live().then(|| no_files(&directory)).flatten(),
    };
    Some(Storage { scratch: true, mount: Some(mount), device, device_unknown })
}

/// The options of the mount, then those of the file system that are not among them.
fn join_options(mount: &str, super_block: &str) -> String {
    let mut options: Vec<&str> = mount.split(',').collect();
    for option in super_block.split(',').filter(|option| !option.is_empty()) {
        if !options.contains(&option) {
            options.push(option);
        }
    }
    options.join(",")
}

/// Why no files can be made in a directory, as the kernel says.
fn no_files(directory: &Path) -> Option<String> {
    access(directory, AccessFlags::W_OK | AccessFlags::X_OK).err().map(|error| error.desc().to_owned())
}

/// Size of the file system and space that is left for this user.
fn space(tree: &Tree, directory: &Path) -> (Option<Fact<u64>>, Option<Fact<u64>>) {
    let ask = |path: &Path| nix::sys::statvfs::statvfs(path).ok();
    let Some(answer) = tree.is_live().then(|| directory.ancestors().find_map(ask)).flatten() else {
        return (None, None);
    };
    let bytes = |blocks: u64| Fact::new(blocks.saturating_mul(answer.fragment_size()), "statvfs");
    (Some(bytes(answer.blocks())), Some(bytes(answer.blocks_available())))
}

/// The disk with a device number; file systems that have no such number (btrfs, ZFS) are found by the device's name.
fn find_device(tree: &Tree, number: &str, source: &str) -> Option<BlockDevice> {
    let by_number = tree.text(&format!("/sys/dev/block/{number}/uevent"));
    let name = by_number
        .and_then(|text| value_of(&text, "DEVNAME").map(str::to_owned))
        .or_else(|| source.strip_prefix("/dev/").and_then(|name| name.rsplit('/').next()).map(str::to_owned))?;
    // Names in /sys use ! where those in /dev use / (cciss!c0d0).
    let name = name.replace('/', "!");
    if tree.exists(&format!("/sys/block/{name}")) {
        return Some(block_device(tree, &name, None));
    }
    let holds = |disk: &String| tree.exists(&format!("/sys/block/{disk}/{name}"));
    tree.names("/sys/block").into_iter().find(holds).map(|disk| block_device(tree, &disk, Some(name)))
}

fn block_device(tree: &Tree, name: &str, partition: Option<String>) -> BlockDevice {
    /// `/sys/block/NAME/size` counts in these whatever the device's block size is.
    const SECTOR_BYTES: u64 = 512;
    let source = format!("/sys/block/{name}");
    let text = |file: &str| tree.trimmed(&format!("{source}/{file}"));
    let number = |file: &str| text(file).and_then(|text| text.parse::<u64>().ok());
    let driver = device_driver(tree, &format!("{source}/device"));
    let is_virtual = ["virtio", "xen", "vbd", "hv_", "storvsc"]
        .iter()
        .any(|prefix| driver.as_deref().is_some_and(|driver| driver.starts_with(prefix)));
    let virtual_model =
        text("device/vendor").is_some_and(|vendor| matches!(vendor.as_str(), "QEMU" | "VMware" | "Msft"));
    BlockDevice {
        partition,
        model: text("device/model"),
        driver,
        bus: io_bus::read(tree, &format!("{source}/device")),
        size_bytes: number("size").and_then(|sectors| sectors.checked_mul(SECTOR_BYTES)),
        rotational: number("queue/rotational").map(|value| value != 0),
        is_virtual: is_virtual || virtual_model,
        below: tree.names(&format!("{source}/slaves")),
        scheduler: text("queue/scheduler").map(|text| bracketed(&text).to_owned()),
        read_ahead_bytes: number("queue/read_ahead_kb").and_then(|kibibytes| kibibytes.checked_mul(1024)),
        requests: number("queue/nr_requests"),
        logical_block_bytes: number("queue/logical_block_size"),
        physical_block_bytes: number("queue/physical_block_size"),
        write_cache: text("queue/write_cache"),
        discard_bytes: number("queue/discard_max_bytes"),
        limits: text("dev").map(|number| cgroup::device_limits(tree, &number)).unwrap_or_default(),
        name: name.to_owned(),
        source,
    }
}

/// The driver of a device, from its `uevent` file; an NVMe disk has it one level further up.
pub(super) fn device_driver(tree: &Tree, directory: &str) -> Option<String> {
    [format!("{directory}/uevent"), format!("{directory}/device/uevent")]
        .iter()
        .filter_map(|path| tree.text(path))
        .find_map(|text| value_of(&text, "DRIVER").map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_system_types_name_their_medium() {
        for (file_system, medium) in [
            ("ext4", Medium::Disk),
            ("btrfs", Medium::Disk),
            ("tmpfs", Medium::Memory),
            ("overlay", Medium::Overlay),
            ("nfs4", Medium::Network),
            ("virtiofs", Medium::Network),
            ("fuse.sshfs", Medium::Network),
            ("fuse.mergerfs", Medium::UserSpace),
        ] {
            assert_eq!(Medium::of(file_system), medium, "{file_system}");
        }
    }

    #[test]
    fn options_of_both_kinds_are_joined_once() {
        assert_eq!(join_options("rw,relatime", "rw,discard"), "rw,relatime,discard");
        assert_eq!(join_options("ro", ""), "ro");
    }
}
