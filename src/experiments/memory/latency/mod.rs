//! # Question
//!
//! How far away are the caches and the memory, how large are they really, and what does it cost to find where a page is?
//!
//! # Method
//!
//! A walk follows a chain of addresses: each load gives the address of the next, so that no load begins before the one
//! before it has ended. A chain is one cycle through all lines of its footprint; that it is, is proven before it is timed: it
//! is back at its start after exactly as many steps as it has nodes. Then one load of the walk is timed, in batches between
//! clock probes, each going on where the last one stopped: 64 loads per turn of the loop, the simplest addressing, nothing
//! subtracted. Footprints go from 1 KiB to four times the largest claimed last cache, and to 256 MiB at least where
//! there is time. A figure is called DRAM beyond four times the larger of the claimed and the found last cache. Its label `footprint` says how much that is. Every launch writes fresh memory, lays every chain anew, and visits footprints in random order;
//! near footprints are walked in every round, those that take milliseconds or more to lay in turns. All of a footprint is
//! loaded once before it is timed, of main memory a line in 4 KiB: what translates addresses is cached then, as it is far
//! within a long walk.
//!
//! **random** goes through all lines in random order. **page_blocked** does so within windows of 64 KiB, one after the
//! other, so that a translation serves many loads; this curve decides where levels are. **long** passes every line several
//! times, each time in another order, before it repeats itself, for prefetchers that learn sequences. **tlb** loads one
//! line of each page; less the same number of lines packed densely, what is left is translation. **stride** is the
//! classical curve with ascending addresses. Random, page-blocked and TLB walks on small pages (4k) and on huge pages,
//! looked up in smaps after writing; long ones on huge, strides on small.
//!
//! Levels are found by the tool: the closest non-decreasing curve is cut into pieces of constant level; flat ones that
//! extend far enough are levels, named by the order of the caches that the kernel claims. The latency of a level is that of
//! random walks in the middle of its plateau: L1 and L2 undisturbed and in core cycles, L3 and DRAM the median in
//! nanoseconds, since others share them. The size of a level is a pair of bounds: the largest footprint still on the plateau,
//! and the one at which half of the loads miss, both over resampled launches.
//!
//! # Prediction
//!
//! Latencies of the core's design where it is known and nothing contradicts it, wide ranges where not; memory is the last
//! cache, the way to the controller, a row and a column, and the transfer of a line; small pages add their walk. Sizes are
//! what the kernel claims.
//!
//! # What could fool us
//!
//! - Prefetchers follow strides and fetch neighbouring lines: a chain in ascending order measures them, not memory.
//! - A list of random addresses is not one cycle: the walk falls into a short one that the cache holds.
//! - Memory that was never written is the one page of zeros, and always in the cache.
//! - A footprint of twice the cache is half cache. Tools that stop there call the mixture memory.
//! - Small pages lie at random physical places: they fill the sets of a cache unevenly, and it seems smaller than it is.
//! - A hypervisor may keep a guest's huge page in small ones: then it saves no translation. It may give a guest part of a
//!   cache, and claim all of it.
//! - The core's clock moves; the memory's does not.
//!
//! # References
//!
//! McVoy & Staelin, USENIX 1996 (lat_mem_rd); Sattolo, Information Processing Letters 22, 1986; google/multichase;
//! Drepper, "What every programmer should know about memory", 2007; mbind(2), proc_pid_smaps(5).

mod explain;
mod judge;
mod levels;
mod measure;
mod predict;
mod translation;
mod walk;

use crate::evaluate::precision::Precision;
use crate::evaluate::study::Study;
use crate::experiments::{Experiment, Publication};
use crate::results::quantity::Unit;
use crate::setup::Setup;
use crate::sys::memory::Pages;
use levels::{Curves, FoundLevels};
use walk::{Pattern, Scope};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "memory.latency",
    title: "Memory latency",
    measures: "loads that wait for each other, level by level, and the sizes of the levels",
    method_version: 1,
    precision: Precision { target: 0.1, between: 0.05 },
    source: include_str!("mod.rs"),
    needs: &[],
    uses: &["cpu.cycle_time"],
    rules: judge::RULES,
    constants: predict::CONSTANTS,
    publishes: &[
        Publication::state(
            "memory.latency.level",
            Unit::Nanoseconds,
            "one dependent load that a level serves, in random order",
        )
        .in_summary(),
        Publication::state("memory.latency.level_size", Unit::Bytes, "where a level ends: the middle of its bounds")
            .in_summary(),
        Publication::state("memory.latency.translation", Unit::Nanoseconds, "what finding the page adds to a load"),
        Publication::state(
            "memory.latency.translation_reach",
            Unit::Bytes,
            "how much small pages a translation buffer covers",
        ),
        Publication::state(
            "memory.latency.by_rule",
            Unit::Nanoseconds,
            "one load of a large buffer, by the rules that other tools follow",
        ),
        Publication::state(
            "memory.latency.node",
            Unit::Nanoseconds,
            "one dependent load of one node's memory from another node's CPU",
        )
        .in_summary(),
    ],
    every: |_| 1,
    seconds: |_| 0.9,
    time_out: 60.0,
    memory,
    predict: predict::predict,
    measure: measure::measure,
    measure_first: None,
    figures: judge::figures,
    explain: explain::explain,
};

fn memory(setup: &Setup) -> u64 {
    Scope::of(setup, setup.machine.launch_memory_bytes()).peak()
}

/// The curves of a study, the pages whose curve decides where levels are, and the levels.
fn seen(study: &Study<'_>) -> (Scope, Curves, Option<Pages>, FoundLevels) {
    let scope = Scope::of(study.setup, 0);
    let curves = Curves::of(study, "load", &scope);
    let deciding = judge::deciding_pages(&curves);
    let found = deciding
        .and_then(|pages| {
            FoundLevels::of(
                curves.points(Pattern::PageBlocked, pages),
                &scope.claims,
                scope.last_cache(),
                study.setup.seed,
            )
        })
        .unwrap_or_default();
    (scope, curves, deciding, found)
}
