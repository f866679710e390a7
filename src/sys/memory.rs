//! Memory with known properties: private pages of a known size, a page shared with children.

use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::AtomicI64;

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};

/// Size of a small page in bytes.
pub fn page_size() -> usize {
    nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(4096) as usize
}

/// Which pages private memory is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pages {
    /// Small pages only (MADV_NOHUGEPAGE).
    Small,
    /// Huge pages where the kernel has them (MADV_HUGEPAGE); whether it did must be looked up.
    Huge,
}

/// Private anonymous memory, every page of it written.
#[derive(Debug)]
pub struct Resident {
    start: NonNull<libc::c_void>,
    bytes: usize,
    page: usize,
}

impl Resident {
    /// Maps and writes `bytes` bytes.
    pub fn new(bytes: usize, pages: Pages) -> std::io::Result<Self> {
        let length = NonZeroUsize::new(bytes).ok_or(std::io::ErrorKind::InvalidInput)?;
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice collides with nothing.
        let start = unsafe {
            mmap_anonymous(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE)
        }?;
        let mut resident = Resident { start, bytes, page: page_size() };
        let advice = if pages == Pages::Huge { MmapAdvise::MADV_HUGEPAGE } else { MmapAdvise::MADV_NOHUGEPAGE };
        // SAFETY: the range is exactly the new mapping; this advice changes no content. A kernel without huge pages refuses
        // it, which leaves small ones.
        let _ = unsafe { madvise(start, bytes, advice) };
        resident.dirty();
        Ok(resident)
    }

    /// Writes one byte of every small page.
    pub fn dirty(&mut self) {
        for offset in (0..self.bytes).step_by(self.page) {
            // SAFETY: the offset lies inside the mapping, which is writable and owned by this value alone; the write is
            // volatile so that it really happens.
            unsafe {
                let place = self.start.as_ptr().cast::<u8>().add(offset);
                place.write_volatile(place.read_volatile().wrapping_add(1));
            }
        }
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own and nothing refers to it any more.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}

/// Why there are no huge pages where [`huge_pages_are_off`].
pub const HUGE_PAGES_OFF: &str = "transparent huge pages are switched off for this process (prctl PR_SET_THP_DISABLE)";

/// True when the kernel says that this process may have no transparent huge pages, whatever it asks for.
pub fn huge_pages_are_off() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().filter_map(|line| line.strip_prefix("THP_enabled:")).any(|value| value.trim() == "0")
}

/// Bytes of this process's anonymous memory that lie on huge pages (`/proc/self/smaps_rollup`), if the kernel says so.
pub fn huge_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

/// A number in a page that children share with their parent.
#[derive(Debug)]
pub struct SharedNumber {
    place: NonNull<i64>,
    bytes: usize,
}

impl SharedNumber {
    /// Maps a page that forked children share.
    pub fn new() -> std::io::Result<Self> {
        let bytes = page_size();
        let length = NonZeroUsize::new(bytes).ok_or(std::io::ErrorKind::InvalidInput)?;
        // SAFETY: a new shared anonymous mapping at an address of the kernel's choice collides with nothing.
        let start = unsafe {
            mmap_anonymous(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED)
        }?;
        let mut number = SharedNumber { place: start.cast(), bytes };
        number.set(0);
        Ok(number)
    }

    /// Where it is.
    pub fn place(&self) -> *mut i64 {
        self.place.as_ptr()
    }

    /// Its value.
    pub fn get(&self) -> i64 {
        // SAFETY: the page is mapped and aligned; another process may write it, so the read is volatile. Callers read only
        // after the child that writes has ended.
        unsafe { self.place.as_ptr().read_volatile() }
    }

    pub fn set(&mut self, value: i64) {
        // SAFETY: as above.
        unsafe { self.place.as_ptr().write_volatile(value) };
    }
}

/// Numbers in memory that children share with their parent, each on separate cache lines.
#[derive(Debug)]
pub struct SharedWords {
    start: NonNull<libc::c_void>,
    bytes: usize,
    count: usize,
}

/// Distance between shared numbers in bytes: two lines of 64 bytes, because neighbours are fetched in pairs.
const WORD_DISTANCE: usize = 128;

// SAFETY: the mapping belongs to the value, stays where it is, and is reached through atomics only.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Maps `count` numbers, all 0.
    pub fn new(count: usize) -> std::io::Result<Self> {
        let bytes = (count * WORD_DISTANCE).next_multiple_of(page_size());
        let length = NonZeroUsize::new(bytes).ok_or(std::io::ErrorKind::InvalidInput)?;
        // SAFETY: a new shared anonymous mapping at an address of the kernel's choice collides with nothing.
        let start = unsafe {
            mmap_anonymous(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED)
        }?;
        Ok(SharedWords { start, bytes, count })
    }

    /// One of them.
    #[inline(always)]
    pub fn at(&self, index: usize) -> &AtomicI64 {
        assert!(index < self.count, "there are {} shared numbers", self.count);
        // SAFETY: the place lies inside the mapping, is aligned to the distance between numbers, was zeroed by the kernel, and is used as an atomic by every
        // process that has it mapped.
        unsafe { &*self.start.cast::<AtomicI64>().as_ptr().add(index * WORD_DISTANCE / size_of::<AtomicI64>()) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own and nothing refers to it any more.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}

impl Drop for SharedNumber {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own and nothing refers to it any more.
        let _ = unsafe { munmap(self.place.cast(), self.bytes) };
    }
}
