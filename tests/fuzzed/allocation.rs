//! Counts what a thread has allocated, so that a bound on memory can be asserted of one call.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The allocator of the system, counted for each thread.
pub struct Counted;

fn count(difference: isize) {
    // A thread that is ending has no counters any more; what it frees then is nobody's bound.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + difference);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: every call is handed to the allocator of the system as it came; counting touches no memory of an allocation.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the promises of this function, which are those of the one that is called.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // While it moves both are there: growing is counted as a second allocation.
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(old, layout) }
    }
}

/// Calls something that may hold so many bytes more, at any moment, than were held before it.
pub fn bounded<T>(most: usize, call: impl FnOnce() -> T) -> T {
    let before = HELD.get();
    PEAK.set(before);
    let outcome = call();
    let held = PEAK.get() - before;
    assert!(held <= most as isize, "{held} bytes were held at once, at most {most} are allowed");
    outcome
}

/// True when this program counts its allocations.
pub fn is_counting() -> bool {
    let before = HELD.get();
    let kept = std::hint::black_box(vec![0_u8; 4096]);
    HELD.get() - before >= kept.len() as isize
}
