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
//! subtracted. Footprints go from 1 KiB to four times the last cache, the larger of claimed and found, and to 256 MiB at
//! least where there is time: only there a figure is called DRAM. Its label `footprint` says how much that is. Every launch writes fresh memory, lays every chain anew, and visits footprints in random order;
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

use crate::evaluate::findings::Findings;
use crate::evaluate::study::Study;
use crate::experiments::memory::buffer;
use crate::experiments::{Experiment, Foreknowledge, Nature, Publication};
use crate::results::prediction::Prediction;
use crate::results::quantity::{Labels, Unit};
use crate::results::trouble::Trouble;
use crate::results::wording::quantity;
use crate::rig::Rig;
use crate::rig::sampler::{Expected, Sizing, Workload};
use crate::setup::Setup;
use crate::sys::affinity;
use crate::sys::chain::LOADS_PER_TURN;
use crate::sys::memory::{Pages, page_size};

mod expectation;
mod judgement;
mod levels;
mod narration;
mod translation;
mod walk;

use levels::{Curves, Found};
use walk::{Pattern, Scope, Scratch, Walk, pages_label};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "memory.latency",
    title: "Memory latency",
    measures: "loads that wait for each other, level by level, and the sizes of the levels",
    method_version: 1,
    source: include_str!("latency.rs"),
    needs: &[],
    uses: &["cpu.cycle_time"],
    rules: judgement::RULES,
    constants: expectation::CONSTANTS,
    publishes: &[
        Publication {
            metric: "memory.latency.level",
            unit: Unit::Nanoseconds,
            meaning: "one dependent load that a level serves, in random order",
            nature: Nature::State,
            headline: crate::experiments::always,
        },
        Publication {
            metric: "memory.latency.level_size",
            unit: Unit::Bytes,
            meaning: "where a level ends: the middle of its bounds",
            nature: Nature::State,
            headline: crate::experiments::always,
        },
        Publication {
            metric: "memory.latency.translation",
            unit: Unit::Nanoseconds,
            meaning: "what finding the page adds to a load",
            nature: Nature::State,
            headline: crate::experiments::never,
        },
        Publication {
            metric: "memory.latency.translation_reach",
            unit: Unit::Bytes,
            meaning: "how much small pages a translation buffer covers",
            nature: Nature::State,
            headline: crate::experiments::never,
        },
        Publication {
            metric: "memory.latency.by_rule",
            unit: Unit::Nanoseconds,
            meaning: "one load of a large buffer, by the rules that other tools follow",
            nature: Nature::State,
            headline: crate::experiments::never,
        },
        Publication {
            metric: "memory.latency.node",
            unit: Unit::Nanoseconds,
            meaning: "one dependent load of one node's memory from another node's CPU",
            nature: Nature::State,
            headline: crate::experiments::always,
        },
    ],
    every: |_| 1,
    seconds: |_| 0.9,
    time_out: 60.0,
    memory,
    predict,
    measure,
    figures,
    explain,
};

/// Batches of a walk that one of dozens of footprints gets in a launch: levels are made of many of them.
const BATCHES: u32 = 8;
/// Turns in a batch of a footprint that is memory: some thousand loads, over which banks and rows average out.
const MEMORY_TURNS: u64 = 32;
/// Least bytes that a curve of any use needs.
const LEAST_MEMORY: u64 = 4 << 20;

fn memory(setup: &Setup) -> u64 {
    Scope::of(setup, setup.machine.launch_memory_bytes()).peak()
}

fn predict(by: &Foreknowledge<'_>) -> Vec<Prediction> {
    // How much is walked changes no prediction.
    expectation::predict(by, &Scope::of(by.setup, 0))
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Trouble> {
    let scope = Scope::of(rig.setup(), rig.memory());
    if scope.most() < LEAST_MEMORY {
        return Err(Trouble::new(format!(
            "a launch may take {}, a quarter of what is available: too little for a curve",
            quantity(rig.memory() as f64, Unit::Bytes)
        ))
        .hint("free memory, or raise the limit of the control group"));
    }
    let mut scratch = Scratch::default();
    let huge = measure_pages(rig, &scope, Pages::Huge, true, &mut scratch)?;
    measure_pages(rig, &scope, Pages::Small, !huge, &mut scratch)?;
    measure_nodes(rig, &scope, &mut scratch)
}

/// Walks everything that is due on one kind of pages, in random order, in one piece of memory. False when that memory could
/// not be had.
fn measure_pages(
    rig: &mut Rig<'_>,
    scope: &Scope,
    pages: Pages,
    decides: bool,
    scratch: &mut Scratch,
) -> Result<bool, Trouble> {
    let mut walks = scope.walks(pages, rig.turn(), decides);
    let Some(most) = walks.iter().map(|walk| walk.bytes).max() else { return Ok(false) };
    // Room to move: small footprints shall not always lie at the same place of the memory.
    let room = (4 * LEAST_MEMORY).min(scope.most()).max(most);
    let mut arena = match buffer::take(room, pages, None, rig.memory()) {
        Ok(arena) => arena,
        Err(reason) => {
            rig.unavailable("memory.latency.level", &Labels::of([("pages", pages_label(pages))]), &reason);
            return Ok(false);
        }
    };
    rig.random().shuffle(&mut walks);
    let mut proven = 0_usize;
    for walk in walks {
        let places = (arena.bytes() - walk.bytes as usize) / page_size();
        let offset = rig.random().usize(..=places) * page_size();
        let mut random = rig.random().clone();
        let mut chain = scratch
            .lay(&walk, scope, &mut arena, offset, &mut random)
            .map_err(|fault| Trouble::new(format!("the chain of {} is no cycle: {fault}", walk.labels())))?;
        *rig.random() = random;
        proven += chain.nodes();
        let workload = Workload::of("load", walk.labels(), LOADS_PER_TURN, |turns| {
            chain.walk(turns);
            Ok(())
        });
        rig.sample(vec![sized(workload, scope, &walk)])?;
    }
    rig.remark("proven", &proven);
    Ok(true)
}

/// How many batches a walk gets and how long they are.
fn sized<'a>(workload: Workload<'a>, scope: &Scope, walk: &Walk) -> Workload<'a> {
    let (batches, turns) =
        if scope.is_memory(walk) { (4 * BATCHES, MEMORY_TURNS) } else { (BATCHES, 2 * MEMORY_TURNS) };
    let workload = workload.at_most(batches);
    if scope.is_shared(walk) { workload.sized(Sizing::Exactly(turns)) } else { workload }
}

/// On a machine with several nodes: memory of one node, from a CPU of each; another node's memory in the next turn.
fn measure_nodes(rig: &mut Rig<'_>, scope: &Scope, scratch: &mut Scratch) -> Result<(), Trouble> {
    let nodes = &rig.setup().machine.memory.nodes;
    let homes: Vec<u32> =
        nodes.iter().filter(|node| node.total_bytes.is_some_and(|bytes| bytes > 0)).map(|node| node.node).collect();
    let Some(turn) = scope.far_turn(rig.turn()).filter(|_| homes.len() > 1) else { return Ok(()) };
    let home = homes[turn as usize % homes.len()];
    let walk = Walk { pattern: Pattern::Random, pages: Pages::Huge, bytes: scope.memory_footprint() };
    let taken = buffer::take_either(walk.bytes, Pages::Huge, Some(home), rig.memory());
    let (pages, mut arena) = match taken {
        Ok(taken) => taken,
        Err(reason) => {
            rig.unavailable("memory.latency.node", &Labels::none().with("memory_node", home), &reason);
            return Ok(());
        }
    };
    let mut random = rig.random().clone();
    let mut chain = scratch
        .lay(&walk, scope, &mut arena, 0, &mut random)
        .map_err(|fault| Trouble::new(format!("the chain on node {home} is no cycle: {fault}")))?;
    for node in nodes {
        let Some(cpu) = rig.setup().allowed.iter().copied().find(|&cpu| node.cpus.contains(cpu)) else { continue };
        let moved = affinity::restrict(&[cpu]);
        if let Err(error) = moved {
            rig.unavailable("memory.latency.node", &Labels::none().with("cpu_node", node.node), &format!("cannot run on CPU {cpu}: {error}"));
            continue;
        }
        let labels = node_labels(node.node, home).with("pages", pages_label(pages));
        let workload = Workload::of("node", labels, LOADS_PER_TURN, |turns| {
            chain.walk(turns);
            Ok(())
        });
        let workload = workload.at_most(4 * BATCHES).sized(Sizing::Exactly(MEMORY_TURNS));
        let sampled = rig.sample(vec![workload.expecting(Expected { migration: true, ..Expected::default() })]);
        affinity::restrict(&[rig.setup().cpu])
            .map_err(|error| Trouble::new(format!("cannot return to its CPU: {error}")))?;
        sampled?;
    }
    Ok(())
}

fn node_labels(cpu_node: u32, memory_node: u32) -> Labels {
    Labels::none().with("cpu_node", cpu_node).with("memory_node", memory_node)
}

/// The curves of a study, the pages whose curve decides where levels are, and the levels.
fn seen(study: &Study<'_>) -> (Scope, Curves, Option<Pages>, Found) {
    let scope = Scope::of(study.setup, 0);
    let curves = Curves::of(study, "load", &scope);
    let deciding = judgement::deciding_pages(&curves);
    let found = deciding
        .and_then(|pages| Found::of(curves.points(Pattern::PageBlocked, pages), &scope.claims, study.setup.seed))
        .unwrap_or_default();
    (scope, curves, deciding, found)
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    let (scope, curves, _, found) = seen(study);
    findings.curves = curves.shown();
    judgement::publish_levels(study, findings, &scope, &curves, &found);
    translation::publish(study, findings, &scope, &curves, &found);
    judgement::publish_rules(study, findings, &curves);
    judgement::publish_nodes(study, findings);
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    let (scope, curves, deciding, found) = seen(study);
    narration::tell(study, findings, &scope, &curves, &found, deciding);
}
