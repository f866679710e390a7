//! # Question
//!
//! How long does a program wait when it first touches a page, depending on what the kernel must do for that page?
//!
//! # Method
//!
//! A batch touches one byte in each of many unmapped pages, with mapping and unmapping outside the two clock reads.
//! The cost is the batch time divided by the **page faults** that the kernel counted, because one fault may map many
//! pages. A batch whose count is not the expected one is discarded. A second metric is the number of pages that a
//! fault maps.
//!
//! Small pages are touched between ordinary work, from loops at drawn places (as in os.system_call). What the same work takes
//! without the touches is taken off. Touches of huge pages wait until the one before is complete (`lfence`). Each batch follows 65 536 branches in random directions and 0.2 ms of the same faults, both
//! untimed (blocks, as in os.system_call). The kind file_cold does not wait and has no blocks.
//!
//! - **anonymous_write**: the first write to a private page. The kernel finds a page, clears it and maps it.
//! - **anonymous_read**: the first read of a private page. The kernel maps its shared page of zeros.
//! - **file_cached**: the first read of a mapped file in the page cache. The kernel also maps the pages around it, and the
//!   batch touches one of them.
//! - **file_cached_single**: the same where the kernel can map only one page. Every page is a separate mapping, in
//!   descending order of the file.
//! - **file_cold**: the page is not in memory, and a **major** fault waits for the device.
//! - **copy_on_write**: a write to a page that a sleeping fork(2) child shares.
//! - **huge_anonymous**: anonymous_write where the kernel provides a huge page, verified after every batch.
//!
//! A third metric is the **first touch** of 1 MiB of private memory, by the pages that the kernel gives. It is the cost of
//! anonymous_write for small pages, and of huge_anonymous for huge pages. For **pages=system**, a batch writes to every small page
//! of memory that a program mapped without advice. It is 2 MiB, or 1 MiB if the kernel gives small pages only. Only this result
//! follows the setting of transparent huge pages.
//!
//! Before each batch of file_cold, sysdyno drops the file from the cache until the kernel reports none of its pages
//! there. Read-ahead is off (MADV_RANDOM), and the pages are in random order. After the batch, the kernel must have
//! counted one major fault per page. Devices must have read at least the bytes of these pages for the process, and
//! the cache must hold no other pages of the file.
//!
//! Each launch creates a file of 4 MiB of random bytes in the scratch directory, without a name, so that nothing
//! remains of it. The kind **direct_read** reads 4 KiB of this file past the cache at random offsets. A cold fault must cost
//! one direct read plus one minor fault.
//!
//! # Prediction
//!
//! Minor faults: a number of kernel entries of this run, or of simpler faults, by records of other runs. A major fault: one
//! read from the device and one minor fault. The first touch of 1 MiB: the predicted faults for its pages. Default pages
//! are huge pages if transparent huge pages are set to `always`.
//!
//! # What could fool us
//!
//! - One fault may map many pages: 64 KiB around the address, or a whole large folio. The pages per fault are
//!   counted, not assumed.
//! - The file may still be cached. The kernel does not drop pages that are mapped or not yet written to the device.
//! - Files on tmpfs, and files that were allocated but never written, wait for no device.
//! - A file of 4 MiB that was just written often comes from the memory of a virtual disk's host, or from a disk's own
//!   cache.
//! - Clearing and copying wait for lines that the caches do not hold. The label **footprint** is what the faults of a batch
//!   clear, or copy from and to. On an AMD Zen 5 guest, first writes to 16 MiB cost 1.8 times as much each as those to
//!   64 KiB or 4 MiB. A huge page that was freed just before cost half.
//! - In a guest, the first use of memory also costs an exit to the host. The pages here are reused, and the first
//!   iteration is not counted.
//! - The system can give pages of other sizes than small and huge (`hugepages-*kB/enabled`), and small pages if it
//!   finds no free huge page. The faults on default pages are counted.
//! - Accesses that overlap a fault change its cost, and the layout of the loop decides. On an AMD Zen 4 guest the first
//!   read of a page took 2480 or 3010 cycles in loops at two places of a line. Work at drawn places makes this scatter, which the
//!   interval contains.
//! - The cost of a fault divided by the page size is not a latency. It is the cost per byte if the program uses all
//!   bytes, so compare it with a bandwidth.
//!
//! # References
//!
//! mmap(2), madvise(2), cachestat(2), mincore(2), proc(5). Linux `mm/memory.c`, `mm/filemap.c` (fault-around,
//! read-ahead), `mm/huge_memory.c`. Linux `Documentation/admin-guide/mm/transhuge.rst`.

mod explain;
mod judge;
mod measure;
mod predict;

use crate::experiments::prelude::*;
use crate::sys::fault::HUGE_PAGE;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "memory.page_fault",
    title: "Page faults",
    measures: "time of the first access to a page, by the work that the kernel does for it",
    words: &["fault", "mmap"],
    method_version: 4,
    precision: Precision { target: 0.05, between: 0.025, busy: 0.05 },
    source: heading!("mod.rs"),
    uses: &["cpu.cycle_time"],
    rules: RULES,
    publishes: &[
        Publication::cost(TIME, Unit::Nanoseconds, "one page fault, for any number of pages that it maps").in_summary(),
        Publication::state(PAGES, Unit::One, "small pages that each fault maps"),
        Publication::cost(FIRST_TOUCH, Unit::Nanoseconds, "first write to all of 1 MiB of memory, by its pages")
            .in_summary_where(|labels| labels.get("pages") != Some(SMALL)),
    ],
    seconds: |_| 0.2,
    time_out: 60.0,
    in_quick: true,
    memory: |_, _| 2 * (HUGE_PAGES * HUGE_PAGE) as u64,
    predict: predict::predict,
    measure: measure::measure,
    measure_first: Some(measure::measure_first),
    figures: judge::figures,
    explain: explain::explain,
    ..Experiment::DEFAULT
};

/// The method version from which the code of touches is placed by lot, in ordinary work.
const PLACED: u32 = 3;
const TIME: &str = "memory.page_fault.time";
const PAGES: &str = "memory.page_fault.pages_per_fault";
const FIRST_TOUCH: &str = "memory.page_fault.first_touch";
/// Pages of a first touch: those of [`WRITE`], those of [`HUGE`], and what memory without advice gets.
const SMALL: &str = "4k";
const LARGE: &str = "huge";
const SYSTEM: &str = "system";
/// Series of the first touch of memory without advice. Its operation is a mebibyte.
const TOUCH: &str = "touch";
const MEBIBYTE: usize = 1 << 20;

/// The kinds, in the order of the report.
const KINDS: [&str; 7] = [WRITE, READ, CACHED, SINGLE, COLD, COPY, HUGE];
const WRITE: &str = "anonymous_write";
const READ: &str = "anonymous_read";
const CACHED: &str = "file_cached";
const SINGLE: &str = "file_cached_single";
const COLD: &str = "file_cold";
const COPY: &str = "copy_on_write";
const HUGE: &str = "huge_anonymous";
/// Reading past the cache: not a fault, but what a major one consists of.
const DIRECT: &str = "direct_read";

/// Small pages of a batch: some hundred microseconds, in which the scheduler rarely steps in.
const BATCH: usize = 256;
/// Small pages of the file.
const FILE: usize = 1024;
/// Mappings of the cached file in a batch.
const MAPPINGS: usize = 16;
/// Cold pages of a batch.
const COLD_PAGES: usize = 32;
/// Huge pages of a batch.
const HUGE_PAGES: usize = 4;
/// Batches of what waits for a device.
const COLD_BATCHES: u32 = 3;
/// Longest sleep of a child that holds pages: if all else fails, it ends by itself.
const CHILD_SLEEP: i64 = 60;
/// Physical floors: cycles of a minor fault, nanoseconds of a major one.
const MINOR_FLOOR: f64 = 250.0;
/// Physical floor of clearing a mebibyte: no core writes more than 128 bytes in a cycle.
const CLEAR_FLOOR: f64 = 8192.0;
const MAJOR_FLOOR: f64 = 5_000.0;
/// How far a major fault may be from the sum of its parts.
const PARTS: f64 = 0.25;
/// Clearing a page may cost this many times what copying one does.
const CLEAR_SLACK: f64 = 1.05;
/// A fault maps a page at least; a count may be off by a tenth.
const LEAST_PAGES: f64 = 0.9;

rules! {
    MINOR: "G8" Hard "`memory.page_fault`", "a minor fault takes at least {}", cycles(MINOR_FLOOR);
    MAJOR: "G8" Hard "`memory.page_fault` kind=file_cold", "a major fault takes at least {}", time(MAJOR_FLOOR);
    CLEAR: "G8" Hard "`memory.page_fault.first_touch`", "a first touch of 1 MiB takes at least {}", cycles(CLEAR_FLOOR);
    ORDER: "G20" Noisy "`memory.page_fault`",
        "a page of zeros costs less than a new page, clearing at most {} times copying, a huge page less than its \
         small pages", plain(CLEAR_SLACK);
    COUNTED: "G22" Hard "`memory.page_fault`",
        "the kernel counted the expected number of faults, or up to a 64th more (1 to 8). For default pages, it \
             counted at least one and at most one for each small page";
    PROVEN: "G23" Hard "`memory.page_fault` kind=file_cold",
        "no page of the file was cached before and no other page after, with one major fault and a device read per \
         page";
    PER_FAULT: "G24" Hard "`memory.page_fault`", "a cost is per fault and has the number of pages per fault next to it";
    SUM: "G40" Noisy "`memory.page_fault` kind=file_cold",
        "a cold fault costs a direct read plus a minor fault, within {}", share(PARTS);
}

/// Labels of the first touch with some pages.
fn touch_labels(pages: &str) -> Labels {
    Labels::of([("pages", pages)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        let mut kinds = KINDS.to_vec();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), KINDS.len());
        assert!(!KINDS.contains(&DIRECT));
    }
}
