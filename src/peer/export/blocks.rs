//! The file that a peer exports: nameless, so that it is gone with the last process that has it open, however that ends;
//! every block stamped, so that a reader knows that it got the block that it asked for.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::sys::file::{self, Advice};
use crate::sys::memory::page_size;
use crate::sys::{create, fault};

/// Bytes of a stamped block.
pub const BLOCK: usize = 4096;
/// First bytes of every block.
const MAGIC: [u8; 8] = *b"sysdyno\x02";
/// Bytes of a stamp: magic, file, number.
const STAMP: usize = 24;
/// Bytes written at once.
const CHUNK: usize = 1 << 20;
/// Share of the free space that the file may take.
const SHARE: u64 = 10;

/// A file of stamped blocks without a name.
#[derive(Debug)]
pub struct Blocks {
    file: File,
    bytes: u64,
    identity: u64,
}

/// True when a block carries the stamp of its place in a file.
#[inline]
pub fn is_stamped(block: &[u8], identity: u64, number: u64) -> bool {
    block.len() >= STAMP
        && block[..8] == MAGIC
        && block[8..16] == identity.to_le_bytes()
        && block[16..24] == number.to_le_bytes()
}

impl Blocks {
    /// Writes a file of this many bytes, whole blocks, and waits until it is stored.
    pub fn write(directory: &Path, bytes: u64, identity: u64) -> io::Result<Self> {
        let free = nix::sys::statvfs::statvfs(directory)?;
        let free = free.blocks_available().saturating_mul(free.fragment_size());
        if bytes > free / SHARE {
            return Err(io::Error::other(format!(
                "{bytes} bytes are more than a tenth of what is free in {}",
                directory.display()
            )));
        }
        let file = create::nameless(directory)?;
        let mut random = fastrand::Rng::with_seed(identity);
        let mut chunk = vec![0_u8; CHUNK.min(bytes as usize)];
        for start in (0..bytes).step_by(CHUNK) {
            // Random bytes: nothing on the way can compress them or store them once for two blocks.
            random.fill(&mut chunk);
            for (place, block) in chunk.chunks_exact_mut(BLOCK).enumerate() {
                let number = start / BLOCK as u64 + place as u64;
                block[..8].copy_from_slice(&MAGIC);
                block[8..16].copy_from_slice(&identity.to_le_bytes());
                block[16..24].copy_from_slice(&number.to_le_bytes());
            }
            let length = CHUNK.min((bytes - start) as usize);
            file.write_all_at(&chunk[..length], start)?;
        }
        file.sync_all()?;
        Ok(Blocks { file, bytes, identity })
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What its stamps say.
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// The same file in the process that serves it.
    pub fn shared(&self) -> io::Result<Self> {
        Ok(Blocks { file: self.file.try_clone()?, bytes: self.bytes, identity: self.identity })
    }

    /// Its descriptor.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Reads, short at the end.
    pub fn read(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match self.file.read_at(&mut into[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Drops it from the page cache. Returns the bytes that stay there nevertheless. From then on the kernel reads ahead of
    /// sequential reads, or reads nothing but what is asked. This holds also in the process that serves it, because both share one
    /// open file.
    pub fn forget(&self, ahead: bool) -> io::Result<u64> {
        file::advise(&self.file, if ahead { Advice::Normal } else { Advice::Random })?;
        fault::forget_cached(&self.file)?;
        Ok(fault::cached_pages(&self.file, self.bytes as usize)? * page_size() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_says_which_it_is_and_nothing_has_a_name() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let blocks = Blocks::write(directory.path(), 3 << 19, 9).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        let mut block = [0; BLOCK];
        for number in 0..384 {
            assert_eq!(blocks.read(&mut block, number * BLOCK as u64).unwrap(), BLOCK);
            assert!(is_stamped(&block, 9, number) && !is_stamped(&block, 9, number + 1));
            assert!(!is_stamped(&block, 8, number));
        }
        assert_eq!(blocks.read(&mut block, 3 << 19).unwrap(), 0, "nothing is behind its end");
        assert!(!is_stamped(&[], 9, 0));
    }

    #[test]
    fn a_file_that_would_fill_the_disk_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let refused = Blocks::write(directory.path(), 1 << 60, 9).unwrap_err();
        assert!(refused.to_string().contains("a tenth"), "{refused}");
    }

    #[test]
    fn what_is_forgotten_is_no_longer_in_the_cache() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let blocks = Blocks::write(directory.path(), 1 << 20, 9).unwrap();
        assert_eq!(blocks.forget(false).unwrap(), 0);
        blocks.shared().unwrap().read(&mut [0; BLOCK], 1 << 19).unwrap();
        assert_eq!(fault::cached_pages(&blocks.file, 1 << 20).unwrap() * page_size() as u64, BLOCK as u64);
    }
}
