//! FileSystem: what kind of file system files are to lie on, and what that means for reading them.
//!
//! Two things say it: the magic number that statfs(2) gives, and the type and options of the mount. Where neither is known
//! the ground is taken for a disk of this machine, and the proofs of each figure decide.

use std::fs::File;
use std::path::Path;

use crate::experiments::prelude::*;
use crate::machine::{self, Medium, Mounted, Storage};
use crate::sys::file;

/// Magic numbers of statfs(2), with the type as the mount table names it.
const MAGICS: [(u64, &str, Medium); 31] = [
    (0xEF53, "ext4", Medium::Disk),
    (0x5846_5342, "xfs", Medium::Disk),
    (0x9123_683E, "btrfs", Medium::Disk),
    (0x2FC1_2FC1, "zfs", Medium::Disk),
    (0xCA45_1A4E, "bcachefs", Medium::Disk),
    (0xF2F5_2010, "f2fs", Medium::Disk),
    (0x5265_4973, "reiserfs", Medium::Disk),
    (0x3153_464A, "jfs", Medium::Disk),
    (0x4D44, "vfat", Medium::Disk),
    (0x2011_BAB0, "exfat", Medium::Disk),
    (0x7366_746E, "ntfs3", Medium::Disk),
    (0x7371_7368, "squashfs", Medium::Disk),
    (0xE0F5_E1E2, "erofs", Medium::Disk),
    (0x3434, "nilfs2", Medium::Disk),
    (0x0102_1994, "tmpfs", Medium::Memory),
    (0x8584_58F6, "ramfs", Medium::Memory),
    (0x9584_58F6, "hugetlbfs", Medium::Memory),
    (0x794C_7630, "overlay", Medium::Overlay),
    (0x6969, "nfs", Medium::Network),
    (0xFE53_4D42, "smb3", Medium::Network),
    (0xFF53_4D42, "cifs", Medium::Network),
    (0x517B, "smbfs", Medium::Network),
    (0x0102_1997, "9p", Medium::Network),
    (0x00C3_6400, "ceph", Medium::Network),
    (0x0BD0_0BD0, "lustre", Medium::Network),
    (0x4750_4653, "gpfs", Medium::Network),
    (0x5346_414F, "afs", Medium::Network),
    (0x6B41_4653, "afs", Medium::Network),
    (0x1983_0326, "beegfs", Medium::Network),
    (0xAAD7_AAEA, "panfs", Medium::Network),
    (0x6573_5546, "fuse", Medium::UserSpace),
];

/// What files lie on.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSystem {
    pub kind: Medium,
    /// Type, as the mount table names it; by the magic number where there is no mount table.
    pub file_system: String,
    /// Options of the mount.
    pub options: String,
    /// Whether they forbid writing.
    pub read_only: bool,
    /// What is mounted: a device, a server and its path.
    pub what: String,
    /// What it does to reads that cannot be seen from outside.
    pub caveats: Vec<Caveat>,
}

/// Why a reading of files on some ground is not what it seems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caveat {
    /// It has a separate cache beneath the page cache, which cannot be emptied (ZFS).
    OwnCache,
    /// It may store fewer bytes than were written.
    Compressed,
    /// Files are memory: there is no page cache and no device to wait for (DAX).
    MemoryMapped,
    /// The file system below the layers is not visible.
    Layered,
    /// A program provides it: what is behind is its own business.
    Program,
}

impl Caveat {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Caveat::OwnCache => "the file system has its own cache, which cannot be emptied",
            Caveat::Compressed => "the file system may compress what it stores",
            Caveat::MemoryMapped => "the file system is in memory (DAX) and bypasses the page cache",
            Caveat::Layered => "the file system is layered over another one that is not visible",
            Caveat::Program => "a program provides the file system",
        }
    }
}

impl FileSystem {
    /// Looks at a directory.
    pub fn of(directory: &Path) -> Result<Self, Problem> {
        let opened = File::open(directory).map_err(|error| {
            Problem::new(format!("cannot inspect {}: {error}", directory.display()))
                .hint("name an existing directory that you can read")
        })?;
        let magic = file::file_system_magic(&opened).ok();
        Ok(FileSystem::from(magic, machine::storage_at(directory).as_ref(), file::is_memory_mapped_device(&opened)))
    }

    /// By the mount table alone: for what was described before, or elsewhere.
    pub fn of_storage(storage: &Storage) -> Self {
        FileSystem::from(None, Some(storage), false)
    }

    /// From what the kernel says of it.
    fn from(magic: Option<u64>, storage: Option<&Storage>, dax: bool) -> Self {
        let row = magic.and_then(|magic| MAGICS.iter().find(|(known, ..)| *known == magic & 0xFFFF_FFFF));
        let mount = storage.and_then(|storage| storage.mount.as_ref());
        let file_system = mount
            .map(|mount| mount.file_system.value.clone())
            .or_else(|| row.map(|(_, name, _)| (*name).to_owned()))
            .unwrap_or_else(|| "unknown".to_owned());
        let options = mount.map(|mount| mount.options.clone()).unwrap_or_default();
        let by_mount = mount.map(|mount| mount.medium);
        let by_magic = row.map(|(_, _, kind)| *kind);
        // The mount table knows what a program stands for (fuse.sshfs); the magic number knows types that the table of
        // media does not.
        let kind = match (by_mount, by_magic) {
            (Some(Medium::Disk) | None, Some(magic)) => magic,
            (Some(mount), _) => mount,
            (None, None) => Medium::Disk,
        };
        let option = |wanted: &str| options.split(',').any(|option| option == wanted);
        let begins = |wanted: &str| options.split(',').any(|option| option.starts_with(wanted));
        let mut caveats = Vec::new();
        let mut add = |holds: bool, caveat: Caveat| {
            if holds {
                caveats.push(caveat);
            }
        };
        add(file_system == "zfs" || magic == Some(0x2FC1_2FC1), Caveat::OwnCache);
        let compressing = ["compress=", "compress-force", "compression=", "compress_algorithm="];
        let packed = ["zfs", "squashfs", "erofs"].contains(&file_system.as_str());
        let asked = option("compress") || compressing.iter().any(|name| begins(name));
        add(packed || asked && !option("compress=no") && !option("compression=none"), Caveat::Compressed);
        add(dax || option("dax") || option("dax=always"), Caveat::MemoryMapped);
        add(kind == Medium::Overlay, Caveat::Layered);
        add(kind == Medium::UserSpace, Caveat::Program);
        let what = mount.map(|mount| mount.what.clone()).unwrap_or_default();
        let read_only = mount.is_some_and(Mounted::is_read_only);
        FileSystem { kind, file_system, options, read_only, what, caveats }
    }

    /// Whether files here can be read from a device of this machine; if not, why.
    pub fn is_local(&self) -> Result<(), Problem> {
        let elsewhere = "choose a directory on a local disk with --scratch DIR";
        let name = &self.file_system;
        match self.kind {
            _ if self.read_only => {
                Err(Problem::new(format!("the {name} file system is mounted read-only")).hint(elsewhere))
            }
            Medium::Memory => {
                Err(Problem::new(format!("the files are in memory ({name}), so reads wait for no device"))
                    .hint(elsewhere))
            }
            Medium::Network => Err(Problem::new(format!(
                "the files are on another machine ({name}), and this experiment reads local \
                                          files"
            ))
            .hint(format!("{elsewhere}, or measure it as a remote file with --remote-dir DIR"))),
            _ if self.caveats.contains(&Caveat::OwnCache) || self.caveats.contains(&Caveat::MemoryMapped) => {
                let why = self.caveats.iter().map(|caveat| caveat.text()).collect::<Vec<_>>().join("; ");
                Err(Problem::new(format!("no read can be proven cold on {name}: {why}")).hint(elsewhere))
            }
            _ => Ok(()),
        }
    }

    /// Whether files here are read from another machine, or by a program that may ask one; if not, why.
    pub fn is_remote(&self) -> Result<(), Problem> {
        match self.kind {
            Medium::Network | Medium::UserSpace => Ok(()),
            _ => Err(Problem::new(format!(
                "{} is a file system of this machine, not of another machine",
                self.file_system
            ))
            .hint("name a directory on NFS, SMB, sshfs, 9p or a similar file system")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage(file_system: &str, options: &str) -> Storage {
        let mount = Some(Mounted::of_type(file_system, options));
        Storage { scratch: true, mount, device: None, device_unknown: None }
    }

    fn ground(magic: u64, file_system: &str, options: &str) -> FileSystem {
        FileSystem::from(Some(magic), Some(&storage(file_system, options)), false)
    }

    #[test]
    fn local_and_remote_file_systems_are_told_apart() {
        for (magic, name) in [(0xEF53, "ext4"), (0x9123_683E, "btrfs"), (0x794C_7630, "overlay"), (1, "newfs")] {
            let found = ground(magic, name, "rw,relatime");
            assert!(found.is_local().is_ok() && found.is_remote().is_err(), "{found:?}");
        }
        for (magic, name) in [(0x6969, "nfs4"), (0xFE53_4D42, "cifs"), (0x0102_1997, "9p"), (0x6573_5546, "fuse.sshfs")]
        {
            let found = ground(magic, name, "rw");
            assert_eq!(found.kind, Medium::Network, "{name}");
            assert!(found.is_local().is_err() && found.is_remote().is_ok());
        }
        // A type that only its magic number gives away.
        assert_eq!(ground(0x0BD0_0BD0, "somefs", "rw").kind, Medium::Network);
        // A program may stand for either.
        let found = ground(0x6573_5546, "fuse.mergerfs", "rw");
        assert!(found.is_local().is_ok() && found.is_remote().is_ok() && found.caveats == [Caveat::Program]);
    }

    #[test]
    fn grounds_without_a_device_to_wait_for_are_refused_by_name() {
        let refused = |found: FileSystem| found.is_local().unwrap_err().what;
        assert!(refused(ground(0x0102_1994, "tmpfs", "rw")).contains("in memory (tmpfs)"));
        assert!(refused(ground(0x2FC1_2FC1, "zfs", "rw")).contains("its own cache"));
        assert!(refused(ground(0xEF53, "ext4", "rw,dax=always")).contains("DAX"));
        assert!(refused(ground(0xEF53, "ext4", "ro,relatime")).contains("read-only"));
    }

    #[test]
    fn compression_is_noticed() {
        let compressed = |options| ground(0x9123_683E, "btrfs", options).caveats.contains(&Caveat::Compressed);
        assert!(compressed("rw,compress=zstd:3") && compressed("rw,compress-force=lzo"));
        assert!(!compressed("rw,relatime") && !compressed("rw,compress=no"));
    }

    #[test]
    fn the_ground_of_this_machine_is_looked_up() {
        assert_eq!(
            FileSystem::of(Path::new("/proc")).unwrap().kind,
            Medium::Disk,
            "unknown types are left to the proofs"
        );
        assert!(FileSystem::of(Path::new("/proc/nonexistent")).is_err());
        if let Ok(shared) = FileSystem::of(Path::new("/dev/shm")).map(|found| (found.kind, found.file_system)) {
            assert_eq!(shared, (Medium::Memory, "tmpfs".to_owned()));
        }
    }
}
