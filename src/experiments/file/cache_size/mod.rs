//! # Question
//!
//! How many bytes of file data stay in memory while a program reads more and more of them?
//!
//! # Method
//!
//! sysdyno reads a file once and asks the kernel after each request how many of its pages are cached. By default it
//! does so in a control group with a memory limit (**bounded**). With `--full-cache` it fills the cache of the whole
//! machine (**full**). The number of resident pages decides, not time. On a fast device the knee in the times of a
//! second pass is small, and read-ahead blurs it.
//!
//! - **bounded**: sysdyno makes a control group for the launch and removes it afterwards. The file is proven to be out
//!   of the cache. One pass reads it from its beginning to one and a half times the limit, without read-ahead. Each
//!   request is a 64th of the limit. From half the limit on, sysdyno asks the kernel after each request how many pages
//!   of the file are cached (cachestat(2), else mincore(2)). The pass up to a size equals one read of a file of that
//!   size, so one pass gives the whole curve. The size of the cache is the median of the resident bytes beyond the
//!   limit. Its interval reaches from the largest size that was still whole (median) to the most that was ever
//!   resident. A quick run measures a group of 64 MiB, and a default run also one of 128 MiB. A rigorous run also
//!   measures one of 256 MiB.
//! - **full**, only with `--full-cache`, because it evicts what other programs have cached. sysdyno reads new data in
//!   steps, in one pass. It stops when the resident bytes have not grown for a second and no memory is unused. Memory
//!   is unused while MemFree is above the watermarks and the control groups allow more. Data that the kernel reclaims
//!   while memory is unused does not end the pass, because early reclaim may be configured. The size is the most that
//!   was resident at once. Its interval begins at the least of the steps without growth. The result is a lower bound
//!   ("at least") where the pass ends for another reason. It reaches the time or space limit, or the machine swaps or
//!   is short of memory. A further reason is reclaim that takes back as much as is read although memory is unused. With
//!   *holes* of a sparse file the pages are zeros that no device provides. They show the capacity only. With *files*
//!   the pages are bytes that sysdyno writes for the pass.
//!
//! Read times confirm the result. After the pass sysdyno reads random blocks of 4 KiB only if they are cached
//! (preadv2(2) with RWF_NOWAIT) and times each read. The share of successful reads must equal the share of resident
//! pages. Then it reads other blocks, which are not cached, from the device and times them the same way. An overlay
//! supports no such reads, so nothing confirms the result there.
//!
//! # Prediction
//!
//! In a group: its limit minus what else is charged to it. On the machine: at least what the kernel calls available
//! (MemAvailable, which withholds a reserve). At most all memory that is free, holds file data or can be reclaimed.
//! Where the limits of the control groups leave less to file data, that amount is the prediction.
//!
//! # What could fool us
//!
//! - A second pass over a file larger than the cache hits nothing, because the next page was just evicted. A sweep of
//!   second passes measures the order of eviction. sysdyno reads every page once.
//! - A page is charged to the group that touched it first. Therefore another group writes the file, and the file is out
//!   of the cache before the pass.
//! - Read-ahead caches more than the program reads. The pass could not show a size below the read-ahead window.
//! - The tree that indexes pages, page tables and stacks are charged to the group too. The log records the charge that
//!   is not file data.
//! - The kernel evicts large folios as a unit, which makes sizes coarser.
//! - A group may be allowed more than the machine has.
//! - Proactive reclaim (DAMON, memory.reclaim) takes back data that is not read again, even while memory is free. The
//!   first eviction then does not mean a full cache. Where the kernel shows what reclaims memory early, the report
//!   names it.
//! - A hypervisor may provide memory only when the guest touches it. Filling then takes seconds for a gibibyte.
//!
//! # References
//!
//! cachestat(2), mincore(2), posix_fadvise(2), preadv2(2), cgroups(7). Documentation/admin-guide/cgroup-v2.rst and
//! cgroup-v1/memory.rst. Linux mm/vmscan.c, mm/workingset.c, mm/page_alloc.c (si_mem_available).

mod explain;
mod filling;
mod growth;
mod judge;
mod measure;
mod predict;
mod vitals;

use super::{DISK, PLACE};
use crate::experiments::prelude::*;
use crate::setup::Profile;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "file.cache_size",
    title: "Size of the file cache",
    measures: "how much file data stays in memory, in control groups of known size or on the machine",
    words: &["page_cache"],
    method_version: 2,
    precision: Precision { target: 0.2, between: 0.02, busy: 0.02 },
    source: heading!("mod.rs"),
    needs: &[PLACE, DISK],
    rules: judge::RULES,
    constants: predict::CONSTANTS,
    publishes: &[Publication::state(BYTES, Unit::Bytes, "file data that stays in memory while a program reads more")
        .in_summary()],
    seconds: |_| 2.0,
    time_out: 900.0,
    memory: |setup, _| setup.machine.launch_memory_bytes().min(most_wanted(setup.profile)),
    predict: predict::predict,
    measure: measure::measure,
    figures: judge::figures,
    explain: explain::explain,
    ..Experiment::DEFAULT
};

const BYTES: &str = "file.cache_size.bytes";

const SWEEP: &str = "file.cache_size.sweep";

/// Remark: why no read times confirm the size.
const UNCONFIRMED: &str = "unconfirmed";

/// Limits of the groups: large against what else is charged to them, small against any machine.
const LIMITS: [u64; 3] = [64 << 20, 128 << 20, 256 << 20];

/// A read from the device takes this many times as long as one from the cache, or time confirms nothing.
const SLOWER: f64 = 2.0;

/// Limits that the launches of a run try. For a first look one has to do. The largest takes longer than all others together.
fn wanted(profile: Profile) -> &'static [u64] {
    match profile {
        Profile::Quick => &LIMITS[..1],
        Profile::Default => &LIMITS[..2],
        Profile::Rigorous => &LIMITS,
    }
}

fn most_wanted(profile: Profile) -> u64 {
    wanted(profile).last().copied().unwrap_or(LIMITS[0])
}

/// Labels of the figure of one limit.
fn bounded(limit: u64) -> Labels {
    Labels::of([("mode", "bounded")]).with("limit", limit)
}

/// Labels of the figure of the machine.
fn full() -> Labels {
    Labels::of([("mode", "full")])
}
