//! # Question
//!
//! How long does a load from each cache and from memory take, how large are these levels, and how much does address
//! translation add?
//!
//! # Method
//!
//! A pointer chase follows a chain of addresses, so that each load starts only after the load before it has ended.
//! Before timing, sysdyno proves that the chain is one cycle: it returns to its start after exactly as many steps as
//! it has nodes. The result is the time of one load, measured in batches between clock probes with nothing
//! subtracted.
//!
//! **Footprints** range from 1 KiB to four times the largest reported last cache, and to at least 256 MiB except in a
//! quick run. A result is named DRAM beyond four times the larger of the reported and the found last cache. The label
//! `footprint` is that size. Every launch writes new memory, builds new chains and visits the footprints in random
//! order. Large footprints are measured together, in every third launch. A quick run measures them once where they
//! exceed 256 MiB. A chain has at most 262 144 nodes, more than a launch visits. In a larger footprint they are
//! spread evenly over its lines, or over its windows of lines.
//!
//! **Warm-up.** The chase loads all lines of the footprint once. In main memory it removes the lines of the chain from
//! every cache instead (clflush). It then loads lines that the timed loads do not visit, one per 4 KiB of the
//! footprint, so that the address translation is cached.
//!
//! **Patterns**:
//!
//! - **random**: all lines in random order.
//! - **page_blocked**: random order within windows of 64 KiB, one after another, so a single translation serves many
//!   loads. This curve decides where the levels are.
//! - **long**: passes every line several times in different orders, against prefetchers that learn sequences.
//! - **tlb**: one line per page, less the time of as many densely packed lines. The difference is translation.
//! - **stride**: the classic curve with ascending addresses.
//!
//! Patterns run on small pages (4k) and on huge pages, verified in smaps after writing. The pattern **long** uses huge
//! pages only, and **stride** uses small pages only. A quick run visits DRAM on one kind of pages where its footprint
//! exceeds 256 MiB.
//!
//! **Levels.** sysdyno fits the closest non-decreasing curve and cuts it into pieces of constant latency. Flat pieces
//! that extend far enough are levels, named in the order of the caches that the kernel reports. Where there are more
//! of them than caches, those whose launches disagree by half or more have no name. The latency of a
//! level is that of random chases in the middle of its plateau. For L1 and L2 it is the undisturbed cost in core
//! cycles, and for L3 and DRAM the median in nanoseconds, because neighbours share these. The size of a level has two
//! bounds over resampled launches. They are the largest footprint on the plateau, and the footprint at which half of
//! the loads miss.
//!
//! # Prediction
//!
//! Cycles of this core design, by records of other runs, at the clock of this run. Where the design has no records, those
//! of all designs, with a wider range. Sizes: what the kernel reports.
//!
//! # What could fool us
//!
//! - Prefetchers follow strides and fetch neighbouring lines. A chain in ascending order measures the prefetchers,
//!   not the memory.
//! - A list of random addresses is not one cycle. The chase falls into a short cycle that the cache holds.
//! - Memory that was never written is one shared page of zeros, which is always in the cache.
//! - A footprint of twice the cache size is half in the cache. Tools that stop there report this mixture as memory.
//! - Small pages are at random physical addresses. They fill the sets of a cache unevenly, and the cache appears
//!   smaller than it is.
//! - A hypervisor may back a guest's huge page with small pages, and the huge page then saves no translation. It may
//!   also report a whole cache to a guest that has only part of it.
//! - Beyond the part of a cache that other users leave, a load is a hit in some launches and a miss in others. The
//!   middle of these launches looks like a level that ends near the reported size.
//! - The core clock changes, and the memory clock does not.
//!
//! # References
//!
//! McVoy and Staelin, USENIX 1996 (lat_mem_rd). Sattolo, Information Processing Letters 22, 1986. google/multichase.
//! Drepper, "What every programmer should know about memory", 2007. mbind(2), proc_pid_smaps(5).

mod explain;
mod judge;
mod levels;
mod measure;
mod patterns;
mod predict;
mod translation;
mod walk;

use crate::experiments::prelude::*;
use levels::{Curves, FoundLevels};
use patterns::Pattern;
use walk::Scope;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "memory.latency",
    title: "Memory latency",
    measures: "latency of dependent loads by level, and the sizes of the levels",
    words: &["cache", "caches", "dram", "l1", "l2", "l3", "tlb"],
    method_version: 2,
    precision: Precision { target: 0.1, between: 0.05, busy: 0.1 },
    source: heading!("mod.rs"),
    uses: &["cpu.cycle_time"],
    rules: judge::RULES,
    publishes: &[
        Publication::state(
            "memory.latency.level",
            Unit::Nanoseconds,
            "one dependent load from a level, in random order",
        )
        .in_summary(),
        Publication::state("memory.latency.level_size", Unit::Bytes, "end of a level: the middle of its bounds")
            .in_summary(),
        Publication::state(
            "memory.latency.translation",
            Unit::Nanoseconds,
            "time that address translation adds to a load",
        ),
        Publication::state(
            "memory.latency.translation_reach",
            Unit::Bytes,
            "bytes of small pages that a TLB level covers",
        ),
        Publication::state(
            "memory.latency.by_rule",
            Unit::Nanoseconds,
            "one load from a large buffer, by the rules of other tools",
        ),
        Publication::state(
            "memory.latency.node",
            Unit::Nanoseconds,
            "one dependent load from a node's memory on another node's CPU",
        )
        .in_summary(),
    ],
    seconds: |setup| if setup.profile.is_quick() { 0.35 } else { 0.9 },
    time_out: 60.0,
    in_quick: true,
    memory,
    huge_memory: Some(huge_memory),
    predict: predict::predict,
    measure: measure::measure,
    figures: judge::figures,
    explain: explain::explain,
    ..Experiment::DEFAULT
};

fn memory(setup: &Setup, turn: u32) -> u64 {
    Scope::of(setup, setup.machine.launch_memory_bytes()).peak(turn)
}

fn huge_memory(setup: &Setup, turn: u32) -> u64 {
    Scope::of(setup, setup.machine.launch_memory_bytes()).largest(Pages::Huge, turn)
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
