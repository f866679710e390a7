//! # Question
//!
//! What does it cost to map and unmap memory, and what do running threads add to it?
//!
//! # Method
//!
//! sysdyno changes an area of the address space, in ordinary work, from loops at drawn places (as in os.system_call). What the same
//! work takes without the change is taken off. The rest divided by the operations is the cost of one, in core cycles by the clock
//! probes around each batch.
//!
//! - **map_unmap**: maps private memory and unmaps it, without an access.
//! - **map_write_unmap**: the same with a write to each page.
//! - **map_read_unmap_file**: maps a file that is in the page cache, reads from each page, and unmaps it.
//! - **map_sum_unmap_file**: the same, and adds up all bytes as 64-bit numbers.
//! - **protect**: one of two calls of mprotect(2), to read-only and back. The page was written before.
//! - **discard_write**: gives pages back by madvise(2), and writes to each of them again.
//!
//! The calls are those of the C library, in a function. The area lies next to a page without access, so the kernel never joins it
//! with a neighbour. Below it are free pages. Pages are small. The address and all answers are checked. Where pages are written, the kernel must count exactly one
//! fault for each page. The same launch times getppid(2) in the same way, as the lower limit of the gates.
//!
//! The label **other_threads** is the number of threads of the same process that compute on other CPUs during the batch. The CPU
//! of a running thread can hold translations of pages that go away. The kernel interrupts that CPU and waits for it. A batch in
//! which such a thread waited for its CPU is discarded.
//!
//! # Prediction
//!
//! Kernel entries cost as much as calls of getppid(2), and page faults as much as in memory.page_fault. Counted instructions run at the
//! pace of the system calls of this run. An interrupt to other CPUs has a range from publications. A guest pays two exits to the
//! hypervisor more, at the cost of the timed CPUID instruction.
//!
//! # What could fool us
//!
//! - The neighbours of an area change its cost. On an Intel Golden Cove guest, an area that fills a gap took 1.0 µs, and 1.3 µs
//!   if some of the gap was left. With a neighbour that the kernel joined, it took 2 µs.
//! - Without a written page there is nothing to forget, and no other CPU is interrupted.
//! - A sleeping thread is not interrupted, so threads that wait for work add little. The results without other threads come from a
//!   process with one thread.
//! - In a guest, the interrupt and its answer may be exits to the hypervisor. A thread whose CPU the host took away makes all wait.
//! - Large areas on huge pages have fewer faults, which this process has switched off (PR_SET_THP_DISABLE).
//! - A process with thousands of areas finds a place more slowly.
//!
//! # References
//!
//! - mmap(2), munmap(2), mprotect(2), madvise(2)
//! - Linux mm/mmap.c, mm/mprotect.c, mm/mmu_gather.c. Linux Documentation/arch/x86/tlb.rst
//! - Amit, USENIX ATC 2017 (TLB shootdown). McVoy & Staelin, USENIX 1996 (lat_mmap)

use crate::experiments::constants::PAGE_COPY;
use crate::experiments::os::operation::{CONSTANTS, OTHER_THREADS, Operations};
use crate::experiments::os::row::Row;
use crate::experiments::prelude::*;
use crate::rig::placed::WORK_LONGER;
use crate::sys::counters;
use crate::sys::mapping::Change;
use crate::sys::operation::Operation;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "memory.map",
    title: "Mappings",
    measures: "mapping, protecting and unmapping memory, alone and while other threads run",
    words: &["munmap", "mprotect", "madvise", "shootdown"],
    method_version: 1,
    precision: Precision { target: 0.08, between: 0.05, busy: 0.08 },
    source: heading!("map.rs"),
    uses: &["cpu.cycle_time", "cpu.timer.overhead", "os.system_call.time", "memory.page_fault.time"],
    words_of: |key, value| OPERATIONS.phrase(key, value),
    constants: CONSTANTS,
    publishes: &[Publication::cost(TIME, Unit::Nanoseconds, "one change of an area of the address space").in_summary()],
    seconds: |_| 0.4,
    time_out: 20.0,
    predict: |by| OPERATIONS.predict(by),
    measure: |rig| OPERATIONS.measure(rig),
    figures: |study, findings| OPERATIONS.figures(study, findings),
    explain,
    ..Experiment::DEFAULT
};

const TIME: &str = "memory.map.time";
const WRITTEN: &str = "map_write_unmap";
const SUM: &str = "map_sum_unmap_file";
const MANY: u64 = 64;
const ANONYMOUS: &str = "anonymous_write";
const CACHED: &str = "file_cached";
/// Small pages that a fault in a cached file maps by default.
const AROUND: f64 = 16.0;

pub(in crate::experiments) static OPERATIONS: Operations = Operations {
    metric: TIME,
    label: "what",
    rows: &[
        Row {
            size: Some(("pages", 1)),
            entries: 2.0,
            ..Row::call(
                "map_unmap",
                "map and unmap memory",
                "find a place, make an area, and remove it",
                6000.0,
                || Operation::mapping(Change::Map, 1),
            )
        },
        written(1, 12_000.0, || Operation::mapping(Change::MapAndWrite, 1)),
        written(MANY, 30_000.0, || Operation::mapping(Change::MapAndWrite, MANY as usize)),
        of_file(1, 14_000.0, || Operation::mapping(Change::MapAndReadFile, 1)),
        of_file(MANY, 35_000.0, || Operation::mapping(Change::MapAndReadFile, MANY as usize)),
        Row {
            parts: &[("read the bytes", MANY as f64, PAGE_COPY)],
            name: SUM,
            phrase: "map, add up and unmap a cached file",
            ..of_file(MANY, 35_000.0, || Operation::mapping(Change::MapAndSumFile, MANY as usize))
        },
        Row {
            size: Some(("pages", 1)),
            operations: 2,
            shootdowns: 1.0,
            ..Row::call(
                "protect",
                "change the protection of a written page",
                "find the area and change its entries",
                6000.0,
                || Operation::mapping(Change::Protect, 1),
            )
        },
        discarded(1, 8000.0, || Operation::mapping(Change::DiscardAndWrite, 1)),
        discarded(MANY, 30_000.0, || Operation::mapping(Change::DiscardAndWrite, MANY as usize)),
    ],
    sizing: Sizing::ByTimes(WORK_LONGER),
    placed_since: 1,
};

/// Page faults of this thread.
fn faults() -> u64 {
    counters::thread().minor_faults as u64
}

/// Memory that is mapped, written and unmapped.
const fn written(pages: u64, instructions: f64, make: fn() -> std::io::Result<Operation<'static>>) -> Row {
    Row {
        size: Some(("pages", pages)),
        entries: 2.0,
        count: Some((faults, pages)),
        faults: Some((pages as f64, ANONYMOUS)),
        shootdowns: 1.0,
        ..Row::call(
            WRITTEN,
            "map, write and unmap memory",
            "make an area, remove it and free its pages",
            instructions,
            make,
        )
    }
}

/// A file that is mapped, read and unmapped.
const fn of_file(pages: u64, instructions: f64, make: fn() -> std::io::Result<Operation<'static>>) -> Row {
    Row {
        size: Some(("pages", pages)),
        entries: 2.0,
        faults: Some((if pages == 1 { 1.0 } else { pages as f64 / AROUND }, CACHED)),
        ..Row::call(
            "map_read_unmap_file",
            "map, read and unmap a cached file",
            "make an area, remove it and its pages from the table",
            instructions,
            make,
        )
    }
}

/// Pages that are given back and written again.
const fn discarded(pages: u64, instructions: f64, make: fn() -> std::io::Result<Operation<'static>>) -> Row {
    Row {
        size: Some(("pages", pages)),
        count: Some((faults, pages)),
        faults: Some((pages as f64, ANONYMOUS)),
        shootdowns: 1.0,
        ..Row::call(
            "discard_write",
            "give pages back and write to them",
            "find the area and free its pages",
            instructions,
            make,
        )
    }
}

fn explain(_: &Study<'_>, findings: &mut Findings) {
    let time = |others: usize| {
        let labels = Labels::of([("what", WRITTEN)]).with("pages", 1).with(OTHER_THREADS, others);
        findings.metric(TIME, &labels).cloned()
    };
    let Some(alone) = time(0) else { return };
    let text = match time(1) {
        Some(one) => format!(
            "Mapping, writing and unmapping a page costs {}, and {} while one other thread of the process runs.",
            alone.shown(),
            one.shown()
        ),
        None => format!("Mapping, writing and unmapping a page costs {}.", alone.shown()),
    };
    findings.say(text);
}
