//! Stamped files: files whose every block says which it is, that are proven to lie on their device, proven cold when they are
//! called cold, and proven to have been read from there.
//!
//! A file is written block by block with bytes that nothing can compress or share, never allocated ahead or extended, and
//! carries a stamp at the head of each block: a block that was never written, that belongs to another file or to another place
//! is found by the read that gets it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::experiments::prelude::*;
use crate::sys::create::{self, Access, FILE_SIZE};
use crate::sys::file::{self, Buffer, DeviceCounters, Direct, Writing};
use crate::sys::{counters, fault, naming};

/// Bytes of a stamped block. Pages may be larger; reads are whole pages then.
pub const BLOCK: usize = 4096;

/// Bytes of a stamp: magic, file, block, seed.
pub const STAMP: usize = 32;

/// The first word of every stamp.
const MAGIC: u64 = u64::from_le_bytes(*b"sysdyno\x01");

/// Bytes written at once.
const CHUNK: usize = 1 << 20;

/// Tries of dropping a file from the cache, and the pause between them.
const DROPS: u32 = 20;
const DROP_PAUSE: Duration = Duration::from_millis(50);

/// Blocks of a file that are looked at before it is used again.
const LOOKED_AT: u64 = 16;

/// A stamped file.
#[derive(Debug)]
pub struct Stamped {
    file: File,
    path: PathBuf,
    bytes: u64,
    identity: u64,
    seed: u64,
}

/// What is known of the place of a file's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sound {
    /// Pieces in which it lies on its device; none where the file system does not report them.
    pub extents: Option<usize>,
    /// Whether some of its bytes are shared with another file.
    pub shared: bool,
}

/// The stamp of a block.
fn stamp(identity: u64, number: u64, seed: u64) -> [u8; STAMP] {
    let mut stamp = [0; STAMP];
    for (place, word) in stamp.chunks_exact_mut(8).zip([MAGIC, identity, number, seed]) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    stamp
}

impl Stamped {
    /// Writes a file of whole blocks and waits until it is on the device; one of that name is replaced.
    pub fn write(path: &Path, bytes: u64, seed: u64) -> Result<Self, Problem> {
        let partial = path.with_extension("partial");
        // First, because both together may be more than a run may take.
        let _ = std::fs::remove_file(path);
        let written = Stamped::write_to(&partial, path, bytes, seed)
            .and_then(|stamped| std::fs::rename(&partial, path).map(|()| stamped));
        written.map_err(|error| {
            // Nothing half-written stays.
            let _ = std::fs::remove_file(&partial);
            let problem = Problem::new(format!("cannot write the test file {}: {error}", path.display()));
            match error.raw_os_error() {
                Some(libc::EDQUOT) => problem.hint(
                    "the quota there is used up, although the file system has room. Allow less with --scratch-limit \
                     BYTES, or choose another place with --scratch DIR",
                ),
                Some(libc::EFBIG) => problem.hint(format!("raise {FILE_SIZE}")),
                Some(libc::ENOSPC) => problem.hint("free space, or choose another place with --scratch DIR"),
                _ => problem.hint("choose a writable place with --scratch DIR"),
            }
        })
    }

    fn write_to(partial: &Path, path: &Path, bytes: u64, seed: u64) -> std::io::Result<Self> {
        let _ = std::fs::remove_file(partial);
        let file = create::file(partial, Access::Private)?;
        // Past the cache where that works: the file is then never in it, and the device sets the pace.
        let past = file::reopened_to_write(&file, Writing::PastCache).ok();
        let identity = identity_of(path);
        let bytes = bytes.next_multiple_of(BLOCK as u64);
        let mut random = fastrand::Rng::with_seed(seed ^ identity);
        let mut buffer = Buffer::new(CHUNK);
        random.fill(buffer.get());
        let mut at = 0;
        let mut direct = past.is_some();
        while at < bytes {
            let length = (bytes - at).min(CHUNK as u64) as usize;
            let chunk = &mut buffer.get()[..length];
            remix(chunk, random.u64(..));
            for (block, number) in chunk.chunks_exact_mut(BLOCK).zip(at / BLOCK as u64..) {
                block[..STAMP].copy_from_slice(&stamp(identity, number, seed));
            }
            match &past {
                Some(past) if direct => match past.write_all_at(chunk, at) {
                    Err(error) if error.raw_os_error() == Some(libc::EINVAL) => direct = false,
                    outcome => {
                        outcome?;
                        at += length as u64;
                    }
                },
                _ => {
                    file.write_all_at(chunk, at)?;
                    at += length as u64;
                }
            }
        }
        file.sync_all()?;
        Ok(Stamped { file, path: path.to_path_buf(), bytes, identity, seed })
    }

    /// The file of that name, size and seed if it is there and whole, else a new one.
    pub fn obtain(path: &Path, bytes: u64, seed: u64) -> Result<Self, Problem> {
        match Stamped::open(path, bytes, seed) {
            Some(found) => Ok(found),
            None => Stamped::write(path, bytes, seed),
        }
    }

    /// A file that was written before; none where it is not there, or is not that file.
    pub fn open(path: &Path, bytes: u64, seed: u64) -> Option<Self> {
        let file = create::existing(path).ok()?;
        let bytes = bytes.next_multiple_of(BLOCK as u64);
        let found = Stamped { file, path: path.to_path_buf(), bytes, identity: identity_of(path), seed };
        let reader = file::reopened(&found.file, found.direct().is_ok()).ok()?;
        let mut buffer = Buffer::new(page_size().max(BLOCK));
        let mut random = fastrand::Rng::with_seed(seed);
        let pages = bytes / buffer.get().len() as u64;
        let looked_at = (0..LOOKED_AT).map(|_| random.u64(..pages.max(1))).chain([0, pages.saturating_sub(1)]);
        let whole = found.file.metadata().ok()?.len() == bytes
            && looked_at.into_iter().all(|page| {
                let length = buffer.get().len() as u64;
                reader.read_at(buffer.get(), page * length).is_ok_and(|count| count as u64 == length)
                    && found.check(buffer.get(), page * length).is_ok()
            });
        whole.then_some(found)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length in bytes: whole blocks.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The file opened anew to be read through the cache: advice belongs to each opening.
    pub fn buffered(&self) -> Result<File, String> {
        file::reopened(&self.file, false).map_err(|error| error.to_string())
    }

    /// The file opened to be read past the cache; or why it cannot be.
    pub fn direct(&self) -> Result<File, String> {
        self.past_cache("reads", |file| file::reopened(file, true))
    }

    /// The file opened to be written. Blocks that keep their stamps leave it whole.
    pub fn to_write(&self, how: Writing) -> Result<File, String> {
        let open = |file: &File| file::reopened_to_write(file, how);
        match how {
            Writing::PastCache => self.past_cache("writes", open),
            _ => open(&self.file).map_err(|error| error.to_string()),
        }
    }

    /// The file opened past the cache, for reads or writes.
    fn past_cache(&self, what: &str, open: impl FnOnce(&File) -> std::io::Result<File>) -> Result<File, String> {
        let refused = format!("the file system does not support direct {what} (no O_DIRECT)");
        match file::direct(&self.file) {
            Direct::Refused => return Err(refused),
            Direct::Aligned(needed) if needed.offset > BLOCK || needed.memory > page_size() => {
                return Err(format!(
                    "direct {what} must be aligned to {} bytes here, which is more than a block of {BLOCK}",
                    needed.offset.max(needed.memory)
                ));
            }
            _ => {}
        }
        open(&self.file).map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => refused,
            _ => format!("cannot open the file for direct {what}: {error}"),
        })
    }

    /// Reads what fits into a buffer at an offset, by one system call, and compares the stamp of its first block.
    #[inline]
    pub fn read(&self, from: &File, buffer: &mut Buffer, at: u64) -> Result<(), String> {
        let place = buffer.get();
        let wanted = place.len();
        let got = from.read_at(place, at).map_err(|error| error.to_string())?;
        if got != wanted {
            return Err(format!("read {got} bytes instead of {wanted}"));
        }
        self.check_block(&place[..BLOCK], at / BLOCK as u64)
    }

    /// Gives a block its stamp, so that it can be written at its place.
    #[inline]
    pub fn mark(&self, block: &mut [u8], number: u64) {
        block[..STAMP].copy_from_slice(&stamp(self.identity, number, self.seed));
    }

    /// Compares the stamps of all blocks in what was read at an offset (a multiple of a block).
    pub fn check(&self, read: &[u8], offset: u64) -> Result<(), String> {
        for (block, number) in read.chunks(BLOCK).zip(offset / BLOCK as u64..) {
            self.check_block(block, number)?;
        }
        Ok(())
    }

    /// Compares the stamp of one block.
    #[inline]
    pub fn check_block(&self, block: &[u8], number: u64) -> Result<(), String> {
        if block.get(..STAMP) == Some(&stamp(self.identity, number, self.seed)[..]) {
            return Ok(());
        }
        Err(if block.iter().all(|&byte| byte == 0) {
            format!("block {number} is all zeros. It was never written, or it is in a hole")
        } else {
            format!("block {number} does not carry its stamp. The bytes read are not the bytes written")
        })
    }

    /// Gate G32: every byte of the file was written to its device, as far as the file system reports it.
    pub fn sound(&self) -> Result<Sound, Problem> {
        check_extents(&self.file, self.bytes).map_err(|why| {
            Problem::new(format!("the test file does not contain what was written: {why}"))
                .hint("choose a file system that stores files unchanged, with --scratch DIR")
        })
    }

    /// Small pages of the file in the page cache.
    pub fn cached_pages(&self) -> Result<u64, String> {
        fault::cached_pages(&self.file, self.bytes as usize).map_err(|error| error.to_string())
    }

    /// Small pages that it has.
    pub fn pages(&self) -> u64 {
        self.bytes.div_ceil(page_size() as u64)
    }

    /// Drops the file from the page cache until the kernel says that nothing of it is there (gate G23).
    pub fn evict(&self) -> Result<(), String> {
        evict(&self.file, self.bytes)
    }

    /// Reads the whole file through the cache until the kernel says that all of it is there.
    pub fn warm(&self) -> Result<(), String> {
        let reader = self.buffered()?;
        let mut buffer = Buffer::new(CHUNK);
        for _ in 0..2 {
            let mut at = 0;
            while at < self.bytes {
                let count = reader.read_at(buffer.get(), at).map_err(|error| error.to_string())?;
                if count == 0 {
                    return Err(format!("the file ends after {at} of {} bytes", self.bytes));
                }
                at += count as u64;
            }
            if self.cached_pages()? >= self.pages() {
                return Ok(());
            }
        }
        let cached = self.cached_pages()?;
        Err(format!("only {cached} of {} pages stay in the page cache after two passes", self.pages()))
    }
}

/// What distinguishes files of one run: their names.
fn identity_of(path: &Path) -> u64 {
    naming::number_of(path.file_name().map_or(&[], |name| name.as_encoded_bytes()))
}

/// Makes other bytes of random ones, faster than drawing new ones: no two chunks share a block.
fn remix(chunk: &mut [u8], key: u64) {
    for (word, count) in chunk.chunks_exact_mut(8).zip(0_u64..) {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        let mixed = (u64::from_le_bytes(bytes) ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(count);
        word.copy_from_slice(&mixed.to_le_bytes());
    }
}

/// Where the bytes of any file lie, and whether they are really there.
fn check_extents(file: &File, bytes: u64) -> Result<Sound, String> {
    if let Ok(hole) = file::first_hole(file)
        && hole < bytes
    {
        return Err(format!("the file has a hole at byte {hole}, and reads of a hole do not reach the device"));
    }
    let Ok(extents) = file::extents(file) else { return Ok(Sound { extents: None, shared: false }) };
    let flaws = [
        (file::EXTENT_UNWRITTEN, "allocated but never written, so reads of it do not reach the device"),
        (file::EXTENT_INLINE, "stored in the file's metadata, not in separate blocks"),
        (file::EXTENT_ENCODED, "compressed or encrypted by the file system"),
        (file::EXTENT_DELAYED, "not yet on the device"),
        (file::EXTENT_UNKNOWN, "at a place that the file system does not report"),
    ];
    let mut reached = 0;
    for extent in &extents {
        if extent.logical > reached {
            return Err(format!("the file has a hole at byte {reached}, and reads of a hole do not reach the device"));
        }
        if let Some((_, flaw)) = flaws.iter().find(|(flag, _)| extent.flags & flag != 0) {
            return Err(format!("the file is, from byte {}, {flaw}", extent.logical));
        }
        reached = extent.logical + extent.length;
    }
    if reached < bytes {
        return Err(format!("the file has a hole at byte {reached}, and reads of a hole do not reach the device"));
    }
    let shared = extents.iter().any(|extent| extent.flags & file::EXTENT_SHARED != 0);
    Ok(Sound { extents: Some(extents.len()), shared })
}

/// Drops the first bytes of any file from the page cache until the kernel says that nothing of them is there.
pub fn evict(file: &File, bytes: u64) -> Result<(), String> {
    let words = |error: std::io::Error| error.to_string();
    let mut left = fault::cached_pages(file, bytes as usize).map_err(words)?;
    for turn in 0..=DROPS {
        if left == 0 {
            return Ok(());
        }
        if turn == 1 {
            // What was written and not yet taken by the device cannot be dropped.
            file.sync_data().map_err(words)?;
        } else if turn > 1 {
            std::thread::sleep(DROP_PAUSE);
        }
        fault::forget_cached(file).map_err(words)?;
        left = fault::cached_pages(file, bytes as usize).map_err(words)?;
    }
    Err(format!(
        "{left} pages of the file remain in the page cache after every attempt to drop them. The file is mapped, or \
         another process uses it"
    ))
}

/// Who read what from devices while something was measured (gates G23, G33).
#[derive(Debug, Clone)]
pub struct ReadCounters {
    number: Option<String>,
    own: Option<u64>,
    device: Option<DeviceCounters>,
    blocks_in: i64,
}

/// What a [`ReadCounters`] saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// Bytes that block devices read for this process; none where the kernel does not account them.
    pub own_bytes: Option<u64>,
    /// Bytes that the file's device read for anybody; none where there is no such device.
    pub device_bytes: Option<u64>,
    /// Reads of that device.
    pub device_reads: Option<u64>,
    /// Bytes of this process's reads by its resource usage (`ru_inblock`).
    pub usage_bytes: u64,
}

impl ReadCounters {
    /// Notes the counters of this process and of the device below a file.
    pub fn of(file: &File) -> Self {
        let number = file::device_number(file).ok();
        let device = number.as_deref().and_then(file::device_counters);
        ReadCounters { number, own: fault::device_bytes_read(), device, blocks_in: counters::blocks_in() }
    }

    /// What was counted since.
    pub fn seen(&self) -> Seen {
        /// `ru_inblock` counts in these.
        const SECTOR: u64 = 512;
        let now = self.number.as_deref().and_then(file::device_counters).zip(self.device);
        Seen {
            own_bytes: fault::device_bytes_read().zip(self.own).map(|(now, before)| now.saturating_sub(before)),
            device_bytes: now.map(|(now, before)| now.read_bytes.saturating_sub(before.read_bytes)),
            device_reads: now.map(|(now, before)| now.reads.saturating_sub(before.reads)),
            usage_bytes: (counters::blocks_in() - self.blocks_in).max(0) as u64 * SECTOR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fault::Untouched;

    const BYTES: u64 = 3 << 20;

    fn on_disk() -> tempfile::TempDir {
        tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap()
    }

    fn read_all(stamped: &Stamped, reader: &File) -> Result<(), String> {
        let mut buffer = Buffer::new(1 << 16);
        for at in (0..stamped.bytes()).step_by(1 << 16) {
            assert_eq!(reader.read_at(buffer.get(), at).unwrap(), 1 << 16);
            stamped.check(buffer.get(), at)?;
        }
        Ok(())
    }

    #[test]
    fn a_written_file_is_sound_and_every_block_carries_its_stamp() {
        let directory = on_disk();
        let stamped = Stamped::write(&directory.path().join("a"), BYTES, 5).unwrap();
        let sound = stamped.sound().unwrap();
        assert!(sound.extents.is_none_or(|count| count >= 1) && !sound.shared);
        read_all(&stamped, &stamped.buffered().unwrap()).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing half-written stays");
        // The same name, size and seed are the same file; anything else is not.
        let path = stamped.path();
        assert!(Stamped::open(path, BYTES, 5).is_some());
        assert!(Stamped::open(path, BYTES, 6).is_none() && Stamped::open(path, 2 * BYTES, 5).is_none());
        let before = std::fs::metadata(path).unwrap().modified().unwrap();
        Stamped::obtain(path, BYTES, 5).unwrap();
        assert_eq!(std::fs::metadata(path).unwrap().modified().unwrap(), before);
        stamped.file().write_all_at(&[0; 8], 8 * BLOCK as u64).unwrap();
        let why = read_all(&stamped, &stamped.buffered().unwrap()).unwrap_err();
        assert!(why.contains("block 8 does not carry its stamp"), "{why}");
    }

    #[test]
    fn its_bytes_cannot_be_compressed_or_shared() {
        let directory = on_disk();
        let stamped = Stamped::write(&directory.path().join("a"), BYTES, 5).unwrap();
        let content = std::fs::read(stamped.path()).unwrap();
        let mut blocks: Vec<&[u8]> = content.chunks(BLOCK).map(|block| &block[STAMP..]).collect();
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len() as u64, BYTES / BLOCK as u64);
        let mut counts = [0_u64; 256];
        for &byte in &content {
            counts[usize::from(byte)] += 1;
        }
        let entropy: f64 =
            counts.iter().map(|&count| count as f64 / BYTES as f64).map(|share| -share * share.log2()).sum();
        assert!(entropy > 7.9, "{entropy} bits to the byte");
    }

    #[test]
    fn an_evicted_file_comes_from_its_device() {
        let directory = on_disk();
        let stamped = Stamped::write(&directory.path().join("a"), BYTES, 5).unwrap();
        stamped.warm().unwrap();
        assert_eq!(stamped.cached_pages().unwrap(), stamped.pages());
        // The count is that of the process, in which other tests also read.
        let asks_no_device = || {
            let witness = ReadCounters::of(stamped.file());
            read_all(&stamped, &stamped.buffered().unwrap()).unwrap();
            witness.seen().own_bytes.unwrap_or(0) == 0
        };
        assert!((0..20).any(|_| asks_no_device()), "a warm file asks no device");
        stamped.evict().unwrap();
        assert_eq!(stamped.cached_pages().unwrap(), 0);
        let witness = ReadCounters::of(stamped.file());
        read_all(&stamped, &stamped.buffered().unwrap()).unwrap();
        let seen = witness.seen();
        assert!(seen.own_bytes.is_none_or(|bytes| bytes >= BYTES), "{seen:?}");
        assert!(seen.device_bytes.is_none_or(|bytes| bytes >= BYTES), "{seen:?}");
    }

    #[test]
    fn a_file_that_somebody_maps_cannot_be_cooled_and_that_is_said() {
        let directory = on_disk();
        let stamped = Stamped::write(&directory.path().join("a"), 1 << 18, 5).unwrap();
        let mapped = Untouched::file(stamped.file(), 1 << 18, false).unwrap();
        mapped.read_every(page_size());
        let why = stamped.evict().unwrap_err();
        assert!(why.contains("remain in the page cache") && why.contains("another process uses it"), "{why}");
        drop(mapped);
        stamped.evict().unwrap();
    }

    #[test]
    fn files_that_no_device_has_are_refused() {
        let directory = on_disk();
        let path = directory.path().join("allocated");
        let file = File::create_new(&path).unwrap();
        nix::fcntl::fallocate(&file, nix::fcntl::FallocateFlags::empty(), 0, 1 << 20).unwrap();
        let why = check_extents(&file, 1 << 20).unwrap_err();
        assert!(why.contains("never written") || why.contains("hole"), "{why}");
        let sparse = File::create_new(directory.path().join("sparse")).unwrap();
        sparse.write_all_at(&[1; BLOCK], 0).unwrap();
        sparse.set_len(1 << 20).unwrap();
        let why = check_extents(&sparse, 1 << 20).unwrap_err();
        assert!(why.contains("hole at byte 4096"), "{why}");
        // The stamps also find it, where a file system reports no extents.
        let stamped = Stamped::write(&directory.path().join("a"), 1 << 18, 5).unwrap();
        let why = stamped.check(&[0; BLOCK], 0).unwrap_err();
        assert!(why.contains("all zeros"), "{why}");
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing_and_says_what_to_do() {
        let problem = Stamped::write(Path::new("/proc/nonexistent/file"), BYTES, 5).unwrap_err();
        assert!(problem.hint.unwrap().contains("--scratch"));
    }
}
