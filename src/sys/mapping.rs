//! Changes of the address space, each of which leaves it as it was.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use nix::sys::prctl;

use super::create;
use super::memory::page_size;
use super::operation::Operation;

/// What is done to an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Maps memory and unmaps it.
    Map,
    /// Maps memory, writes to each page, and unmaps it.
    MapAndWrite,
    /// Maps a file that is in the page cache, reads from each page, and unmaps it.
    MapAndReadFile,
    /// Maps such a file, adds up all of its bytes as numbers, and unmaps it.
    MapAndSumFile,
    /// Makes written memory read-only, and writable again.
    Protect,
    /// Gives the pages of an area back to the kernel, and writes to each of them again.
    DiscardAndWrite,
}

/// Where the first place is asked for. The kernel puts other areas at the other end of the address space, so none of them gets into the
/// gaps here.
const FAR_FROM_OTHERS: usize = 1 << 36;
/// Distance of two places: a multiple of what one page table maps, so that each place has its own.
const APART: usize = 1 << 30;

/// Places before the first address is asked for again. All lie within 39 bits, the smallest address space of a 64-bit system.
const MOST_PLACES: usize = 256;
/// Places so far.
static PLACES: AtomicUsize = AtomicUsize::new(0);
/// Free pages below an area. An area that fills a gap costs less than one that leaves some of it, which is usual (1.0 and 1.3 µs on an Intel
/// Golden Cove guest).
const FREE: usize = 16;

/// A place for an area, between two pages without access. The kernel cannot join an area with these, and keeps the page tables.
struct Place {
    start: NonNull<c_void>,
    whole: usize,
    area: *mut c_void,
    length: usize,
    page: usize,
    file: Option<File>,
}

// SAFETY: the place is memory of the process, and its functions work from any thread.
unsafe impl Send for Place {}
// SAFETY: as above. What several threads do there at the same time fails, and harms no memory but the place.
unsafe impl Sync for Place {}

impl Place {
    /// A place for a number of pages, in which an area exists already if the change is of an area that stays.
    fn new(change: Change, pages: usize) -> io::Result<Self> {
        let page = page_size();
        let length = NonZeroUsize::new(pages * page).ok_or(io::ErrorKind::InvalidInput)?;
        let whole = NonZeroUsize::new((pages + FREE + 2) * page).ok_or(io::ErrorKind::InvalidInput)?;
        let file = if matches!(change, Change::MapAndReadFile | Change::MapAndSumFile) {
            Some(cached_file(length.get())?)
        } else {
            None
        };
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        let wish = NonZeroUsize::new(FAR_FROM_OTHERS + PLACES.fetch_add(1, Ordering::Relaxed) % MOST_PLACES * APART);
        // SAFETY: a new mapping collides with nothing, because the address is only a wish.
        let start = unsafe { mmap_anonymous(wish, whole, ProtFlags::PROT_NONE, flags) }?;
        // SAFETY: the mapping is as many pages longer than the area, and one more.
        let (gap, area) = unsafe { (start.byte_add(page), start.byte_add((FREE + 1) * page)) };
        let place = Place { start, whole: whole.get(), area: area.as_ptr(), length: length.get(), page, file };
        let stays = matches!(change, Change::Protect | Change::DiscardAndWrite);
        // SAFETY: the gap and the area are inside the new mapping, to which nothing refers.
        unsafe {
            if stays {
                munmap(gap, FREE * page)?;
                mprotect(area, length.get(), ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?;
                place.write();
            } else {
                munmap(gap, FREE * page + length.get())?;
            }
        }
        Ok(place)
    }

    /// Maps the area, of a file if there is one. Returns whether the kernel put it there.
    fn map(&self) -> bool {
        let (protection, flags, file) = match &self.file {
            Some(file) => (libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd()),
            None => (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
        };
        // SAFETY: without MAP_FIXED the address is a wish, and a new mapping collides with nothing.
        let area = unsafe { libc::mmap(self.area, self.length, protection, flags, file, 0) };
        if area != self.area && area != libc::MAP_FAILED {
            // SAFETY: the mapping is new, and nothing refers to it.
            unsafe { libc::munmap(area, self.length) };
        }
        area == self.area
    }

    /// Unmaps the area. The answer is 0.
    fn unmap(&self) -> i64 {
        // SAFETY: the area is the place's own, and nothing refers to it.
        i64::from(unsafe { libc::munmap(self.area, self.length) })
    }

    /// Writes to each page of the area.
    ///
    /// # Safety
    ///
    /// The area must be mapped and writable.
    unsafe fn write(&self) {
        for offset in (0..self.length).step_by(self.page) {
            // SAFETY: the offset is inside the area.
            unsafe { self.area.cast::<u8>().add(offset).write_volatile(1) };
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // SAFETY: the place is this value's own. Where no area is, nothing is unmapped.
        let _ = unsafe { munmap(self.start, self.whole) };
    }
}

/// A file in memory, of zeros that are in the page cache.
fn cached_file(bytes: usize) -> io::Result<File> {
    let mut file = create::in_memory(c"mapped")?;
    io::Write::write_all(&mut file, &vec![0; bytes])?;
    Ok(file)
}

/// The place that a function works on.
///
/// # Safety
///
/// The argument must be the address of a place that lives as long as the result.
unsafe fn place<'a>(argument: *mut c_void) -> &'a Place {
    // SAFETY: by the contract of this function.
    unsafe { &*argument.cast() }
}

/// The answer of a function that could not map its area.
const NOT_THERE: i64 = 1;

extern "C" fn map_and_unmap(argument: *mut c_void) -> i64 {
    // SAFETY: the operation gives the address of a place, which it holds.
    let place = unsafe { place(argument) };
    if place.map() { place.unmap() } else { NOT_THERE }
}

extern "C" fn map_write_and_unmap(argument: *mut c_void) -> i64 {
    // SAFETY: as above.
    let place = unsafe { place(argument) };
    if !place.map() {
        return NOT_THERE;
    }
    // SAFETY: the area was mapped for writing.
    unsafe { place.write() };
    place.unmap()
}

extern "C" fn map_read_and_unmap(argument: *mut c_void) -> i64 {
    // SAFETY: as above.
    let place = unsafe { place(argument) };
    if !place.map() {
        return NOT_THERE;
    }
    let offsets = (0..place.length).step_by(place.page);
    // SAFETY: the area was mapped for reading, and the file, which only this place has, is as long.
    let read = offsets.map(|offset| i64::from(unsafe { place.area.cast::<u8>().add(offset).read_volatile() }));
    read.fold(0, |all, byte| all | byte) | place.unmap()
}

extern "C" fn map_sum_and_unmap(argument: *mut c_void) -> i64 {
    // SAFETY: as above.
    let place = unsafe { place(argument) };
    if !place.map() {
        return NOT_THERE;
    }
    // SAFETY: the area was mapped for reading, nothing writes to the file, and areas begin at a page.
    let numbers = unsafe { std::slice::from_raw_parts(place.area.cast::<i64>(), place.length / size_of::<i64>()) };
    // The numbers are zeros, which the compiler does not know.
    std::hint::black_box(numbers).iter().fold(0, |sum: i64, number| sum.wrapping_add(*number)) | place.unmap()
}

extern "C" fn protect(argument: *mut c_void) -> i64 {
    // SAFETY: as above.
    let place = unsafe { place(argument) };
    let protected = [libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE].map(|protection| {
        // SAFETY: the area is the place's own, and nothing writes to it between the two calls.
        unsafe { libc::mprotect(place.area, place.length, protection) }
    });
    i64::from(protected[0] | protected[1])
}

extern "C" fn discard_and_write(argument: *mut c_void) -> i64 {
    // SAFETY: as above.
    let place = unsafe { place(argument) };
    // SAFETY: the area is the place's own. Nothing needs its content, and it stays mapped for writing.
    unsafe {
        let discarded = libc::madvise(place.area, place.length, libc::MADV_DONTNEED);
        place.write();
        i64::from(discarded)
    }
}

impl Operation<'_> {
    /// A change of an area with a number of small pages. The answer is 0. From here on, this process gets small pages only.
    ///
    /// # Errors
    ///
    /// The kernel refuses the memory.
    pub fn mapping(change: Change, pages: usize) -> io::Result<Operation<'static>> {
        let function = match change {
            Change::Map => map_and_unmap,
            Change::MapAndWrite => map_write_and_unmap,
            Change::MapAndReadFile => map_read_and_unmap,
            Change::MapAndSumFile => map_sum_and_unmap,
            Change::Protect => protect,
            Change::DiscardAndWrite => discard_and_write,
        };
        // A kernel without transparent huge pages does not know the call, and gives small pages.
        let _ = prctl::set_thp_disable(true);
        // SAFETY: the functions take a place.
        Ok(unsafe { Operation::on_value(Place::new(change, pages)?, function) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::counters;
    use super::*;

    const PAGES: usize = 64;

    /// Page faults of ten changes.
    fn faults_of_ten(change: Change) -> i64 {
        let operation = Operation::mapping(change, PAGES).unwrap();
        assert!(Operation::work(std::slice::from_ref(&operation)), "{change:?}");
        let before = counters::thread().minor_faults;
        for _ in 0..10 {
            assert!(Operation::work(std::slice::from_ref(&operation)), "{change:?}");
        }
        counters::thread().minor_faults - before
    }

    #[test]
    fn changes_take_a_fault_for_each_page_that_they_write() {
        for change in [Change::MapAndWrite, Change::DiscardAndWrite] {
            let faults = faults_of_ten(change);
            assert!((10 * PAGES as i64..11 * PAGES as i64).contains(&faults), "{change:?}: {faults}");
        }
        for change in [Change::Map, Change::Protect] {
            let faults = faults_of_ten(change);
            assert!(faults < PAGES as i64, "{change:?}: {faults}");
        }
    }

    #[test]
    fn a_place_that_is_taken_is_a_wrong_answer() {
        let place = Place::new(Change::Map, PAGES).unwrap();
        assert!(place.map());
        let argument = std::ptr::from_ref(&place).cast_mut().cast();
        assert_eq!(map_and_unmap(argument), NOT_THERE);
        assert_eq!(place.unmap(), 0);
        assert_eq!(map_and_unmap(argument), 0);
    }
}
