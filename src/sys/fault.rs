//! Mappings whose pages are touched to make the kernel take page faults, and what the kernel says of a file's pages.

use std::ffi::c_void;
use std::fs::File;
use std::io::Write;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use nix::sys::statfs::{OVERLAYFS_SUPER_MAGIC, fstatfs};

use super::arch::serialise;
use super::create;
use super::memory::{Pages, page_size};
use super::operation::Operation;
use super::placed::{Around, PlacedLoop};

/// Size of a huge page that transparent huge pages are made of on x86_64, and on aarch64 with small pages of 4 KiB.
pub const HUGE_PAGE: usize = 2 << 20;

/// Number of cachestat(2) on every architecture.
const CACHESTAT: libc::c_long = 451;

/// Memory whose pages the kernel has not mapped yet, or not all of them.
#[derive(Debug)]
pub struct Untouched {
    mapping: NonNull<libc::c_void>,
    mapped: usize,
    start: NonNull<u8>,
    bytes: usize,
}

impl Untouched {
    /// Private anonymous memory, beginning at a multiple of a huge page.
    pub fn anonymous(bytes: usize, pages: Pages) -> std::io::Result<Self> {
        let memory = Self::unadvised(bytes)?;
        let advice = if pages == Pages::Huge { MmapAdvise::MADV_HUGEPAGE } else { MmapAdvise::MADV_NOHUGEPAGE };
        // SAFETY: the range is exactly the new mapping; this advice changes no content. A kernel without huge pages refuses it,
        // which leaves small ones.
        let _ = unsafe { madvise(memory.mapping, memory.mapped, advice) };
        Ok(memory)
    }

    /// The same as programs get it that say nothing about pages.
    pub fn unadvised(bytes: usize) -> std::io::Result<Self> {
        let mapped = bytes + HUGE_PAGE;
        let length = NonZeroUsize::new(mapped).ok_or(std::io::ErrorKind::InvalidInput)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice collides with nothing.
        let mapping = unsafe { mmap_anonymous(None, length, protection, MapFlags::MAP_PRIVATE) }?;
        let first = (mapping.as_ptr() as usize).next_multiple_of(HUGE_PAGE) - mapping.as_ptr() as usize;
        // SAFETY: the offset is less than HUGE_PAGE, by which the mapping is longer than `bytes`.
        let start = unsafe { mapping.cast::<u8>().add(first) };
        Ok(Untouched { mapping, mapped, start, bytes })
    }

    /// The beginning of a file, to be read. `random` tells the kernel that neighbours of a page will not be wanted, so that it
    /// reads no page ahead.
    pub fn file(file: &File, bytes: usize, random: bool) -> std::io::Result<Self> {
        let length = NonZeroUsize::new(bytes).ok_or(std::io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping at an address of the kernel's choice collides with nothing. The file is this process's own and
        // stays as long as it is, so no access goes beyond its end.
        let mapping = unsafe { mmap(None, length, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, file.as_fd(), 0) }?;
        if random {
            // SAFETY: the range is exactly the new mapping; this advice changes no content.
            unsafe { madvise(mapping, bytes, MmapAdvise::MADV_RANDOM) }?;
        }
        Ok(Untouched { mapping, mapped: bytes, start: mapping.cast(), bytes })
    }

    /// The beginning of a file in areas of one page each, in descending order of the file, so that neighbours cannot become
    /// one area: the kernel maps pages around a fault only within the area, so each fault maps one page.
    pub fn file_page_by_page(file: &File, pages: usize) -> std::io::Result<Self> {
        let page = page_size();
        let bytes = pages * page;
        let length = NonZeroUsize::new(bytes).ok_or(std::io::ErrorKind::InvalidInput)?;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // SAFETY: as for anonymous memory; nothing can be accessed in it yet.
        let mapping = unsafe { mmap_anonymous(None, length, ProtFlags::PROT_NONE, flags) }?;
        let mapped = Untouched { mapping, mapped: bytes, start: mapping.cast(), bytes };
        let one = NonZeroUsize::new(page).ok_or(std::io::ErrorKind::InvalidInput)?;
        for index in 0..pages {
            let place = NonZeroUsize::new(mapping.as_ptr() as usize + index * page);
            let offset = ((pages - 1 - index) * page) as libc::off_t;
            let flags = MapFlags::MAP_SHARED | MapFlags::MAP_FIXED;
            // SAFETY: MAP_FIXED replaces one page of the mapping just made, which nothing refers to.
            unsafe { mmap(place, one, ProtFlags::PROT_READ, flags, file.as_fd(), offset) }?;
        }
        Ok(mapped)
    }

    /// How many multiples of `step` it has.
    fn touches(&self, step: usize) -> u64 {
        self.bytes.div_ceil(step) as u64
    }

    /// Reads one byte at every multiple of `step`.
    pub fn read_every(&self, step: usize) {
        for offset in (0..self.bytes).step_by(step) {
            self.read(offset);
        }
    }

    /// The same one by one: no access begins before the fault of the last one is over.
    pub fn read_one_by_one(&self, step: usize) {
        for offset in (0..self.bytes).step_by(step) {
            self.read(offset);
            serialise();
        }
    }

    /// Reads one byte of each of some small pages.
    pub fn read_pages(&self, pages: &[u32], page: usize) {
        for &number in pages {
            self.read(number as usize * page);
        }
    }

    #[inline(always)]
    fn read(&self, offset: usize) {
        assert!(offset < self.bytes);
        // SAFETY: the offset lies inside the mapping, which is readable; the read is volatile so that it really happens.
        unsafe { self.start.as_ptr().add(offset).read_volatile() };
    }

    /// Writes one byte at every multiple of `step`, one by one. The mapping must be anonymous.
    pub fn write_one_by_one(&mut self, step: usize) {
        assert!(self.mapped > self.bytes, "files are mapped to be read");
        for offset in (0..self.bytes).step_by(step) {
            // SAFETY: the offset lies inside the mapping, which is anonymous and writable and this value's alone.
            unsafe { self.start.as_ptr().add(offset).write_volatile(7) };
            serialise();
        }
    }
}

/// What a touch does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads a byte.
    Read,
    /// Writes a byte.
    Write,
}

/// Touches of pages one after the other, from a [placed loop](super::placed) with work between them.
pub struct Touches {
    placed: PlacedLoop<'static>,
    access: Access,
    /// Address of the next touch, and the distance between touches in bytes.
    next: Arc<[AtomicI64; 2]>,
}

impl Touches {
    /// A loop with a number of random placements.
    ///
    /// # Errors
    ///
    /// The system allows no executable memory.
    pub fn draw(random: &mut fastrand::Rng, access: Access, places: usize) -> std::io::Result<Self> {
        /// The next place of a touch.
        ///
        /// # Safety
        ///
        /// The argument is the address of the two numbers of a [`Touches`].
        unsafe fn advance(numbers: *mut c_void) -> *mut u8 {
            // SAFETY: by the contract.
            let numbers = unsafe { &*numbers.cast::<[AtomicI64; 2]>() };
            let place = numbers[0].load(Ordering::Relaxed);
            numbers[0].store(place + numbers[1].load(Ordering::Relaxed), Ordering::Relaxed);
            place as *mut u8
        }
        extern "C" fn read(numbers: *mut c_void) -> i64 {
            // SAFETY: the operation gives the numbers, and `touch` lets them stay within memory that it borrows.
            unsafe { advance(numbers).read_volatile() };
            0
        }
        extern "C" fn write(numbers: *mut c_void) -> i64 {
            // SAFETY: as above, and the memory is writable.
            unsafe { advance(numbers).write_volatile(7) };
            0
        }
        let next = Arc::new([AtomicI64::new(0), AtomicI64::new(0)]);
        let function = if access == Access::Read { read } else { write };
        // SAFETY: the operation holds the numbers. Only `touch` runs the loop.
        let operation = unsafe {
            Operation::function(function, Arc::as_ptr(&next).cast_mut().cast(), 0).holding(Arc::clone(&next) as _)
        };
        Ok(Touches { placed: PlacedLoop::draw(random, vec![operation], Around::Work, places)?, access, next })
    }

    /// Selects a placement of the loop.
    pub fn place(&mut self, index: usize) {
        self.placed.place(index);
    }

    /// Touches a byte at every multiple of `step`. What is written to must be anonymous.
    ///
    /// # Errors
    ///
    /// None: a touch has no answer that could be wrong.
    pub fn touch(&mut self, memory: &mut Untouched, step: usize) -> Result<(), String> {
        assert!(self.access == Access::Read || memory.mapped > memory.bytes, "files are mapped to be read");
        self.next[0].store(memory.start.as_ptr() as i64, Ordering::Relaxed);
        self.next[1].store(step as i64, Ordering::Relaxed);
        self.placed.run(memory.touches(step))
    }

    /// The work around the same touches alone. It writes to all its own memory that touches write to.
    pub fn rest(&mut self, memory: &Untouched, step: usize) {
        self.next[0].store(0, Ordering::Relaxed);
        self.placed.rest(memory.touches(step));
    }
}

impl Drop for Untouched {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own and nothing refers to it any more.
        let _ = unsafe { munmap(self.mapping, self.mapped) };
    }
}

/// A file without a name in a directory, filled with `content` and written to the device.
pub fn nameless_file(directory: &Path, content: &[u8]) -> std::io::Result<File> {
    let mut file = create::nameless(directory)?;
    file.write_all(content)?;
    file.sync_all()?;
    Ok(file)
}

/// Small pages of the first `bytes` of a file that are in the page cache: by cachestat(2). Where that is not possible, by mincore(2),
/// which answers the owner of a file only.
pub fn cached_pages(file: &File, bytes: usize) -> std::io::Result<u64> {
    residency(file, 0, bytes as u64).map_or_else(|_| cached_pages_by_mincore(file, bytes), |found| Ok(found.cached))
}

/// What the kernel says of the small pages of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Residency {
    /// In the page cache.
    pub cached: u64,
    /// Dropped from it, as far as the kernel remembers.
    pub evicted: u64,
}

/// The residency of a part of a file by cachestat(2), which changes nothing. An error on kernels before 6.5, and on an overlay:
/// there the pages belong to the file below, and cachestat(2) counts none.
pub fn residency(file: &File, offset: u64, length: u64) -> std::io::Result<Residency> {
    #[repr(C)]
    struct CachestatRange {
        offset: u64,
        length: u64,
    }
    if fstatfs(file)?.filesystem_type() == OVERLAYFS_SUPER_MAGIC {
        return Err(std::io::ErrorKind::Unsupported.into());
    }
    let range = CachestatRange { offset, length };
    // Cached, dirty, being written, evicted, evicted recently.
    let mut counts = [0_u64; 5];
    // SAFETY: both pointers are valid for what the kernel reads and writes: a range, and five counts.
    let answer = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, counts.as_mut_ptr(), 0) };
    if answer == 0 {
        Ok(Residency { cached: counts[0], evicted: counts[3] })
    } else {
        Err(std::io::Error::last_os_error())
    }
}

fn cached_pages_by_mincore(file: &File, bytes: usize) -> std::io::Result<u64> {
    let mapped = Untouched::file(file, bytes, true)?;
    let mut resident = vec![0_u8; bytes.div_ceil(page_size())];
    // SAFETY: the range is exactly the mapping, and the kernel writes one byte for each of its pages.
    let answer = unsafe { libc::mincore(mapped.mapping.as_ptr(), bytes, resident.as_mut_ptr()) };
    if answer != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(resident.iter().filter(|&&state| state & 1 == 1).count() as u64)
}

/// Asks the kernel to forget the cached pages of a file; pages that are mapped, dirty, or on the way to the device stay.
pub fn forget_cached(file: &File) -> std::io::Result<()> {
    Ok(posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?)
}

/// Bytes that this process had block devices read for it (`read_bytes` in `/proc/self/io`); none where the kernel does not
/// account them.
pub fn device_bytes_read() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::counters;

    fn faults(work: impl FnOnce()) -> i64 {
        let before = counters::thread();
        work();
        let after = counters::thread();
        (after.minor_faults + after.major_faults) - (before.minor_faults + before.major_faults)
    }

    #[test]
    fn every_small_page_is_one_fault_once() {
        let page = page_size();
        let mut memory = Untouched::anonymous(500 * page, Pages::Small).unwrap();
        assert!((500..=502).contains(&faults(|| memory.write_one_by_one(page))));
        assert!(faults(|| memory.write_one_by_one(page)) <= 2);
        let memory = Untouched::anonymous(300 * page, Pages::Small).unwrap();
        assert!((300..=302).contains(&faults(|| memory.read_one_by_one(page))));
    }

    #[test]
    fn a_placed_loop_touches_every_page_once() {
        let page = page_size();
        let mut random = fastrand::Rng::with_seed(1);
        for access in [Access::Read, Access::Write] {
            let mut touches = Touches::draw(&mut random, access, 2).unwrap();
            for place in 0..2 {
                touches.place(place);
                let mut memory = Untouched::anonymous(300 * page, Pages::Small).unwrap();
                touches.rest(&memory, page);
                assert!((300..=303).contains(&faults(|| touches.touch(&mut memory, page).unwrap())));
                assert!(faults(|| touches.touch(&mut memory, page).unwrap()) <= 2);
            }
        }
    }

    #[test]
    fn a_file_page_by_page_faults_once_for_each() {
        let page = page_size();
        let content = vec![1_u8; 256 * page];
        let file = nameless_file(Path::new(env!("CARGO_MANIFEST_DIR")), &content).unwrap();
        assert_eq!(cached_pages(&file, content.len()).unwrap(), 256);
        assert_eq!(cached_pages_by_mincore(&file, content.len()).unwrap(), 256);
        let mapped = Untouched::file_page_by_page(&file, 256).unwrap();
        assert!((256..=258).contains(&faults(|| mapped.read_every(page))));
        let around = Untouched::file(&file, 256 * page, false).unwrap();
        assert!(faults(|| around.read_every(page)) <= 258);
    }

    #[test]
    fn a_nameless_file_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = nameless_file(directory.path(), b"content").unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        assert_eq!(file.metadata().unwrap().len(), 7);
        assert!(nameless_file(Path::new("/proc/nonexistent"), b"").is_err());
    }
}
