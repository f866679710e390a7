//! Where reads go: a file on an NFS server, a file in a mounted directory, a file of this machine to compare with; and which
//! parts of a file are known to be in the other machine's cache.

use crate::experiments::file::stamped_file::Stamped;
use crate::experiments::prelude::*;
use crate::peer::export::blocks::{self, Blocks, is_stamped};
use crate::peer::nfs::Reader;
use crate::sys::file::Buffer;
use crate::sys::naming::{self, Maker};
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of a slot: the longest read.
pub(super) const SLOT: u64 = 1 << 20;

/// Slots that are read again and again.
pub(super) const WARM_SLOTS: u64 = 4;

/// Slots in a row that belong together in cold reads.
pub(super) const GROUP: u64 = 3;

/// Groups that the cold reads of a launch take.
pub(super) const GROUPS: usize = 4;

/// Most bytes of a file that are looked at: far more than the launches of a run read, and few enough for a list of their groups,
/// whatever size a server states.
const MOST_BYTES: u64 = 64 << 30;

/// What names of files in a mounted directory begin with.
const PREFIX: &str = ".sysdyno-";

/// What is read.
pub(super) trait BlockSource {
    /// Reads and checks.
    fn read(&self, offset: u64, bytes: u32) -> Result<(), String>;
}

/// How it is known that the right bytes came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentCheck {
    /// Every block carries the stamp of this file.
    Stamps(u64),
    /// It is the file of another owner: that a block is not all zeros is all that can be asked, because a hole would be.
    NoHoles,
}

impl ContentCheck {
    /// Looks at what came from an offset.
    fn check(self, found: &[u8], offset: u64) -> Result<(), String> {
        for (block, number) in found.chunks(blocks::BLOCK).zip(offset / blocks::BLOCK as u64..) {
            match self {
                ContentCheck::Stamps(identity) if !is_stamped(block, identity, number) => {
                    return Err(format!("G32: block {number} does not carry its stamp"));
                }
                ContentCheck::NoHoles if block.iter().all(|&byte| byte == 0) => {
                    return Err(format!("G32: block {number} is all zeros, like a hole, so its read proves nothing"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// A file on an NFS server.
pub(super) struct Nfs {
    reader: RefCell<Reader>,
    proof: ContentCheck,
}

impl Nfs {
    pub fn new(reader: Reader, proof: ContentCheck) -> Self {
        Nfs { reader: RefCell::new(reader), proof }
    }

    /// An empty call and its answer.
    pub fn exchange(&self) -> Result<(), String> {
        self.reader.borrow_mut().exchange()
    }
}

impl BlockSource for Nfs {
    fn read(&self, offset: u64, bytes: u32) -> Result<(), String> {
        self.reader.borrow_mut().read(offset, bytes, |at, found| self.proof.check(found, at))
    }
}

/// A file in a mounted directory, read past the cache of this machine. It has lost its name already: its file system forgets it
/// when the last process that has it open ends, however that happens.
pub(super) struct MountedFile {
    stamped: Stamped,
    direct: File,
    buffer: RefCell<Buffer>,
}

impl MountedFile {
    /// Writes the file through the mount, waits until it is stored, and opens it past the cache.
    pub fn make(directory: &Path) -> Result<Self, Problem> {
        remove_left_over(directory);
        let path = directory.join(format!("{PREFIX}{}", naming::unique()));
        let stamped = Stamped::write(&path, WARM_SLOTS * SLOT, u64::from(std::process::id()));
        let opened = stamped.and_then(|stamped| {
            let direct = stamped.direct().map_err(|why| {
                Problem::new(format!("reads in {} cannot bypass this machine's cache: {why}", directory.display()))
                    .hint("mount it with O_DIRECT support")
            })?;
            Ok(MountedFile { stamped, direct, buffer: RefCell::new(Buffer::new(SLOT as usize)) })
        });
        // Where it was not even made there is nothing to remove.
        let _ = std::fs::remove_file(&path);
        opened
    }

    /// The same file for another thread.
    pub fn reader(&self) -> Result<impl FnMut(u64, u32) -> Result<(), String> + Send + use<>, String> {
        let direct = self.direct.try_clone().map_err(|error| error.to_string())?;
        let mut buffer = Buffer::new(SLOT as usize);
        Ok(move |offset: u64, bytes: u32| read_whole(&direct, &mut buffer.get()[..bytes as usize], offset))
    }
}

impl BlockSource for MountedFile {
    fn read(&self, offset: u64, bytes: u32) -> Result<(), String> {
        let mut buffer = self.buffer.borrow_mut();
        let into = &mut buffer.get()[..bytes as usize];
        read_whole(&self.direct, into, offset)?;
        self.stamped.check(into, offset).map_err(|why| format!("G32: {why}"))
    }
}

/// One call where the file system gives all at once, as it does but at the end of a file.
fn read_whole(file: &File, into: &mut [u8], offset: u64) -> Result<(), String> {
    file.read_exact_at(into, offset).map_err(|error| format!("a read of {} bytes at {offset}: {error}", into.len()))
}

/// Removes files of launches on this host that were killed before they could.
fn remove_left_over(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let left: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let maker = name.to_str().and_then(|name| Maker::of(name.strip_prefix(PREFIX)?));
            maker.is_some_and(|maker| maker.is_gone())
        })
        .map(|entry| entry.path())
        .collect();
    for path in left {
        // An error is ignored: the file is gone, or it now belongs to another process.
        let _ = std::fs::remove_file(path);
    }
}

/// A file of this machine that stays in its cache, to compare with.
pub(super) struct Local {
    blocks: Blocks,
    buffer: RefCell<Buffer>,
}

impl Local {
    /// What it takes on the disk.
    pub const BYTES: u64 = WARM_SLOTS * SLOT;

    /// Writes it in a directory and reads it once.
    pub fn make(directory: &Path, identity: u64) -> Result<Self, String> {
        let blocks = Blocks::write(directory, Local::BYTES, identity);
        let blocks = blocks.map_err(|error| format!("{}: {error}", directory.display()))?;
        let local = Local { blocks, buffer: RefCell::new(Buffer::new(SLOT as usize)) };
        (0..WARM_SLOTS).try_for_each(|slot| local.read(slot * SLOT, SLOT as u32))?;
        Ok(local)
    }
}

impl BlockSource for Local {
    fn read(&self, offset: u64, bytes: u32) -> Result<(), String> {
        let mut buffer = self.buffer.borrow_mut();
        let into = &mut buffer.get()[..bytes as usize];
        let count = self.blocks.read(into, offset).map_err(|error| error.to_string())?;
        if count < into.len() {
            return Err(format!("{count} of {bytes} bytes arrived at offset {offset}"));
        }
        ContentCheck::Stamps(self.blocks.identity()).check(into, offset)
    }
}

/// The groups of slots behind the warm ones that a launch may read for the first time: `turn` counts the launches of a run before
/// it, `run` distinguishes runs. None when the file has no untouched groups left.
pub(super) fn untouched(file_bytes: u64, run: u64, turn: usize) -> Option<Vec<u64>> {
    let all = (file_bytes.min(MOST_BYTES) / SLOT).saturating_sub(WARM_SLOTS) / GROUP;
    let mut groups: Vec<u64> = (0..all).map(|group| (WARM_SLOTS + group * GROUP) * SLOT).collect();
    fastrand::Rng::with_seed(run).shuffle(&mut groups);
    groups.chunks_exact(GROUPS).nth(turn).map(<[u64]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_launches_touch_the_same_group_and_none_the_warm_ones() {
        let bytes = 100 * SLOT;
        let mut seen: Vec<u64> = (0..8).flat_map(|turn| untouched(bytes, 7, turn).unwrap()).collect();
        assert_eq!(untouched(bytes, 7, 8), None, "96 slots are 32 groups");
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 32);
        assert!(seen.iter().all(|&start| start >= WARM_SLOTS * SLOT && start + GROUP * SLOT <= bytes));
        assert_ne!(untouched(bytes, 7, 0), untouched(bytes, 8, 0), "another run begins elsewhere");
        assert_eq!(untouched(2 * SLOT, 7, 0), None);
        // A list of the groups of such a file would fill any memory.
        for bytes in [1 << 50, u64::MAX] {
            assert!(untouched(bytes, 7, 0).unwrap().iter().all(|&start| start < MOST_BYTES));
        }
    }

    #[test]
    fn blocks_of_others_and_holes_are_refused() {
        let mut block = vec![0; blocks::BLOCK];
        assert!(ContentCheck::NoHoles.check(&block, 0).unwrap_err().contains("hole"));
        block[4095] = 1;
        assert!(ContentCheck::NoHoles.check(&block, 0).is_ok());
        assert!(ContentCheck::Stamps(3).check(&block, 0).unwrap_err().contains("stamp"));
    }

    #[test]
    fn the_file_to_compare_with_is_whole_and_nameless() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let local = Local::make(directory.path(), 5).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        local.read(12 * 4096, 65536).unwrap();
        assert!(local.read(WARM_SLOTS * SLOT - 4096, 8192).is_err());
        assert!(Local::make(Path::new("/proc/nonexistent"), 5).is_err());
    }

    #[test]
    fn files_of_dead_launches_are_removed_and_others_stay() {
        let directory = tempfile::tempdir().unwrap();
        let here = Maker::here();
        let named = |node: &str, number: u32| format!("{PREFIX}{node}-{}-{number}-0123abcd", here.namespace);
        // No process has the largest number.
        let names =
            [named(&here.node, 4_194_999), named(&here.node, here.process), named("other", 4_194_999), "x".to_owned()];
        for name in &names {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        remove_left_over(directory.path());
        let left = names.iter().filter(|name| directory.path().join(name).exists()).count();
        assert!(left == 3 && !directory.path().join(&names[0]).exists());
    }
}
