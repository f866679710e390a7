//! # Question
//!
//! How many bytes of file data stay in memory while a program reads more and more of them?
//!
//! # Method
//!
//! What is resident decides, not time: on a fast device the knee in the times of a second pass is small, and read-ahead
//! blurs it.
//!
//! - **bounded**: in a control group of the run's own with a limit on memory, made for the launch and removed after it, a
//!   file that is proven to be out of the cache is read once from its beginning to one and a half times the limit, in
//!   requests of a 64th of the limit without read-ahead. From half the limit on, after each of them, the kernel is asked
//!   how many pages of the file are cached (cachestat(2), else mincore(2)). A pass up to there is what reading a file of
//!   that size once would have been, so one pass gives the whole curve, and nothing is read twice. The size of the cache is
//!   the median of what is resident beyond the limit; its interval reaches from the largest size that was still whole
//!   (median) to the most that was ever resident. A group of 64 MiB is made in every launch, groups of 256 and 128 MiB take
//!   turns.
//! - **full**, with `--full-cache` only, because it evicts what others have cached: new data is read in steps, one pass,
//!   until what is resident has not grown for a second and no memory is left unused (MemFree above the watermarks, the limits
//!   of the control groups). Data that is taken back while memory is unused ends nothing: the kernel may be told to reclaim
//!   early. The size is the most that was resident at once; its interval reaches from the least of the steps that stood still.
//!   The figure is a lower bound, "at least", where the sweep ends otherwise: time or space are up, the machine swaps or is
//!   short of memory before, or as much is taken back as is read although memory is unused. With *holes* of a sparse file the
//!   pages are zeros that no device is asked for: that tells the capacity and nothing about time. With *files* they are bytes
//!   written for it.
//!
//! Time confirms: after the pass random blocks of 4 KiB are read only if they are cached (preadv2(2) with RWF_NOWAIT), each
//! between two clock reads; the share of those that are must be the share of resident pages. Then others that are not
//! cached are read from the device, timed alike.
//!
//! # Prediction
//!
//! In a group: its limit, less what else is charged to it. On the machine: what the kernel calls available (MemAvailable, which
//! withholds a reserve), up to all that is free, holds file data or can be reclaimed; or what the limits of the control groups
//! leave to file data, where that is less.
//!
//! # What could fool us
//!
//! - Reading a file again from its beginning that is larger than the cache hits nothing, because what comes next was just
//!   evicted: a sweep of second passes measures the order of eviction. Here every page is read once.
//! - A page is charged to the group that touched it first: the file is out of the cache before the pass, and was written by
//!   another group.
//! - Read-ahead caches more than was read; a size below it would never be seen.
//! - The tree that finds pages, page tables and stacks are charged to the group too; what is charged and is not file
//!   data is logged.
//! - Large folios are evicted whole: sizes are then coarser.
//! - A group may be allowed more than the machine has.
//! - Proactive reclaim (DAMON, memory.reclaim) takes back data that nothing reads again, also while memory is free. The first
//!   eviction then does not mean a full cache. What takes memory back early is named where the kernel shows it.
//! - A hypervisor may give memory only when it is touched: filling then takes seconds for a gibibyte.
//!
//! # References
//!
//! cachestat(2), mincore(2), posix_fadvise(2), preadv2(2), cgroups(7); Documentation/admin-guide/cgroup-v2.rst and
//! cgroup-v1/memory.rst; Linux mm/vmscan.c, mm/workingset.c, mm/page_alloc.c (si_mem_available).

mod explain;
mod filling;
mod growth;
mod judge;
mod measure;
mod predict;
mod vitals;

use super::{DISK, PLACE};
use crate::evaluate::precision::Precision;
use crate::experiments::{Experiment, Publication};
use crate::results::quantity::{Labels, Unit};
use crate::setup::Profile;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "file.cache_size",
    title: "Size of the file cache",
    measures: "how much file data stays in memory, in groups of known size or on the machine",
    method_version: 2,
    precision: Precision { target: 0.2, between: 0.02 },
    source: include_str!("mod.rs"),
    needs: &[PLACE, DISK],
    uses: &[],
    rules: judge::RULES,
    constants: predict::CONSTANTS,
    publishes: &[
        Publication::state(BYTES, Unit::Bytes, "file data that stays in memory while more is read").in_summary()
    ],
    every: |_| 4,
    seconds: |_| 2.0,
    time_out: 900.0,
    memory: |setup| setup.machine.launch_memory_bytes().min(most_wanted(setup.profile)),
    predict: predict::predict,
    measure: measure::measure,
    measure_first: None,
    figures: judge::figures,
    explain: explain::explain,
};

const BYTES: &str = "file.cache_size.bytes";

const SWEEP: &str = "file.cache_size.sweep";

/// Limits of the groups: large against what else is charged to them, small against any machine.
const LIMITS: [u64; 3] = [64 << 20, 128 << 20, 256 << 20];

/// A read from the device takes so many times one from the cache, or time confirms nothing.
const SLOWER: f64 = 2.0;

/// Limits that the launches of a run try. For a first look one has to do.
fn wanted(profile: Profile) -> &'static [u64] {
    if profile.is_quick() { &LIMITS[..1] } else { &LIMITS }
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
