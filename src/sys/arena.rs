//! Private memory of a known kind of pages, and what the kernel says is behind it.

use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mlock, mmap_anonymous, mprotect, munmap};

use super::memory::{Pages, page_size};

/// What every byte of a filled arena holds. Zeros would let some cores skip a store of zeros over zeros.
const WRITTEN: u8 = 0xff;

/// Bytes of a huge page, as transparent huge pages make them; 2 MiB where the kernel does not say.
pub fn huge_page_size() -> usize {
    let told = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").ok();
    told.and_then(|text| text.trim().parse().ok()).filter(|size: &usize| size.is_power_of_two()).unwrap_or(2 << 20)
}

/// Private anonymous memory that begins at a boundary of huge pages. It is mapped, not written: nothing is resident yet.
///
/// A gap on both sides keeps it a separate area, so that the kernel's account is of it alone.
#[derive(Debug)]
pub struct Arena {
    mapping: NonNull<libc::c_void>,
    mapped: usize,
    start: NonNull<u8>,
    bytes: usize,
}

/// What the kernel says is behind an arena, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backing {
    /// Written pages that belong to it: the page of zeros that serves reads of unwritten memory does not count.
    pub anonymous: u64,
    /// Of these on huge pages.
    pub huge: u64,
    /// Swapped out.
    pub swapped: u64,
}

impl Arena {
    /// Maps at least `bytes` bytes, rounded up to small pages.
    pub fn map(bytes: usize, pages: Pages) -> std::io::Result<Self> {
        let (align, invalid) = (huge_page_size(), std::io::ErrorKind::InvalidInput);
        let bytes = bytes.max(1).checked_next_multiple_of(page_size()).ok_or(invalid)?;
        let mapped = bytes.checked_add(2 * align).ok_or(invalid)?;
        let length = NonZeroUsize::new(mapped).ok_or(invalid)?;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice collides with nothing.
        let mapping = unsafe { mmap_anonymous(None, length, ProtFlags::PROT_NONE, flags) }?;
        // At least one page of the mapping stays inaccessible on either side.
        let first = (mapping.as_ptr() as usize + 1).next_multiple_of(align) - mapping.as_ptr() as usize;
        // SAFETY: the offset is at most one huge page, and the mapping is longer than `bytes` by two of them.
        let start = unsafe { mapping.cast::<u8>().add(first) };
        let arena = Arena { mapping, mapped, start, bytes };
        let advice = if pages == Pages::Huge { MmapAdvise::MADV_HUGEPAGE } else { MmapAdvise::MADV_NOHUGEPAGE };
        // SAFETY: the range is inside the new mapping, which nothing refers to yet. A kernel without huge pages refuses the
        // advice, which leaves small ones.
        unsafe {
            mprotect(start.cast(), bytes, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?;
            let _ = madvise(start.cast(), bytes, advice);
        }
        Ok(arena)
    }

    /// Takes every page from the calling thread: the pages come from the node of its CPU, and the host of a guest has backed them by
    /// then. They are full of zeros, unless the kernel (before Linux 5.14) takes pages only where something is written.
    pub fn populate(&mut self) {
        // SAFETY: the range is this value's own writable memory, and nothing borrows it. Its content does not change.
        let taken = unsafe { madvise(self.start.cast(), self.bytes, MmapAdvise::MADV_POPULATE_WRITE) };
        if taken.is_err() {
            self.fill();
        }
    }

    /// Writes every byte.
    pub fn fill(&mut self) {
        // SAFETY: the range is this value's own writable memory, and nothing borrows it.
        unsafe { self.start.as_ptr().write_bytes(WRITTEN, self.bytes) };
    }

    /// Keeps the pages where they are, if the limits of this process allow it; says whether they do.
    pub fn lock(&mut self) -> bool {
        // SAFETY: locking changes no content; the lock ends with the mapping.
        unsafe { mlock(self.start.cast(), self.bytes) }.is_ok()
    }

    /// Bytes mapped.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its first byte.
    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Its first address, for questions to the kernel.
    pub fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// What is behind it (`/proc/self/smaps`).
    pub fn backing(&self) -> std::io::Result<Backing> {
        let text = std::fs::read_to_string("/proc/self/smaps")?;
        Ok(backing_of(&text, self.address()..self.address() + self.bytes))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own and nothing refers to it any more: chains borrow it.
        let _ = unsafe { munmap(self.mapping, self.mapped) };
    }
}

/// Sums over the mappings of a range in the text of `/proc/self/smaps`.
fn backing_of(smaps: &str, range: std::ops::Range<usize>) -> Backing {
    let mut backing = Backing::default();
    let mut inside = false;
    for line in smaps.lines() {
        let Some((key, rest)) = line.split_once(' ') else { continue };
        if let Some((low, high)) = key.split_once('-') {
            let ends = (usize::from_str_radix(low, 16), usize::from_str_radix(high, 16));
            inside = matches!(ends, (Ok(low), Ok(high)) if low < range.end && range.start < high);
            continue;
        }
        let kibibytes = || rest.trim().strip_suffix("kB").and_then(|text| text.trim().parse::<u64>().ok());
        let into = match key {
            "Anonymous:" => &mut backing.anonymous,
            "AnonHugePages:" => &mut backing.huge,
            "Swap:" => &mut backing.swapped,
            _ => continue,
        };
        if inside {
            *into += kibibytes().unwrap_or(0) * 1024;
        }
    }
    backing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_written_memory_is_resident() {
        let mut arena = Arena::map(1 << 20, Pages::Small).unwrap();
        assert_eq!(arena.backing().unwrap(), Backing::default());
        arena.populate();
        let backing = arena.backing().unwrap();
        assert_eq!((backing.anonymous, backing.huge, backing.swapped), (1 << 20, 0, 0));
        assert!(arena.address().is_multiple_of(huge_page_size()));
    }

    #[test]
    fn two_arenas_side_by_side_have_accounts_of_their_own() {
        let mut arenas: Vec<Arena> = (0..8).map(|_| Arena::map(1 << 20, Pages::Small).unwrap()).collect();
        arenas.iter_mut().for_each(Arena::populate);
        assert!(arenas.iter().all(|arena| arena.backing().unwrap().anonymous == 1 << 20));
    }

    #[test]
    fn more_than_an_address_can_name_is_refused() {
        assert!(Arena::map(usize::MAX, Pages::Small).is_err());
        assert!(Arena::map(usize::MAX - (3 << 20), Pages::Huge).is_err());
    }

    #[test]
    fn only_mappings_of_the_range_count() {
        let smaps = "1000-2000 rw-p 00000000 00:00 0\nAnonymous:          4 kB\nAnonHugePages:         0 kB\nSwap: 0 kB\n\
                     2000-4000 rw-p 00000000 00:00 0\nAnonymous:          8 kB\nAnonHugePages:         2 kB\nSwap: 1 kB\n\
                     VmFlags: rd wr\n5000-6000 rw-p 00000000 00:00 0\nAnonymous:          4 kB\n";
        let found = backing_of(smaps, 0x2000..0x4000);
        assert_eq!(found, Backing { anonymous: 8192, huge: 2048, swapped: 1024 });
        assert_eq!(backing_of(smaps, 0x7000..0x8000), Backing::default());
    }
}
