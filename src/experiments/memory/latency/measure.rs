//! The walks of a launch: one kind of pages after the other, and the memory of each node.

use super::patterns::Pattern;
use super::walk::{Numbers, Scope, Walk, pages_label};
use crate::experiments::memory::{buffer, footprint};
use crate::experiments::prelude::*;
use crate::rig::sampler::Expected;
use crate::sys::affinity;
use crate::sys::arena::Arena;
use crate::sys::chain::LOADS_PER_TURN;

/// Batches of a walk that each of dozens of footprints gets in a launch: levels are made of many of them.
pub(super) const BATCHES: u32 = 8;

/// Turns in a batch of a footprint that is memory: some thousand loads, over which banks and rows average out.
pub(super) const MEMORY_TURNS: u64 = 32;

/// Least bytes that a curve of any use needs.
pub(super) const LEAST_MEMORY: u64 = 4 << 20;

pub(super) fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let scope = Scope::of(rig.setup(), rig.memory());
    if scope.most() < LEAST_MEMORY {
        return Err(Problem::new(format!(
            "the limit of {} for a launch, a quarter of the available memory, is too small for a curve",
            quantity(rig.memory() as f64, Unit::Bytes)
        ))
        .hint("free memory, or raise the memory limit of the control group"));
    }
    let mut scratch = Numbers::default();
    let far = scope.largest(Pages::Huge, rig.turn());
    let kept = scope.keeps_huge(far).then(|| arena_for(rig, &scope, far, Pages::Huge)).and_then(Result::ok);
    // What small pages leave is in small pieces, of which the kernel makes the large ones again while the huge pages are walked.
    let has_huge = kept.is_some() || buffer::take(footprint::HUGE, Pages::Huge, None, rig.memory()).is_ok();
    measure_pages(rig, &scope, (Pages::Small, None), !has_huge, &mut scratch)?;
    measure_pages(rig, &scope, (Pages::Huge, kept), true, &mut scratch)?;
    measure_nodes(rig, &scope, &mut scratch)
}

/// Memory for walks of `most` bytes at most, with room to move: small footprints shall not always lie at the same place.
fn arena_for(rig: &Rig<'_>, scope: &Scope, most: u64, pages: Pages) -> Result<Arena, String> {
    buffer::take((4 * LEAST_MEMORY).min(scope.most()).max(most), pages, None, rig.memory())
}

/// Walks everything that is due on one kind of pages, in random order, in one piece of memory, if it can be had.
fn measure_pages(
    rig: &mut Rig<'_>,
    scope: &Scope,
    (pages, kept): (Pages, Option<Arena>),
    decides: bool,
    scratch: &mut Numbers,
) -> Result<(), Problem> {
    let mut walks = scope.walks(pages, rig.turn(), decides);
    let Some(most) = walks.iter().map(|walk| walk.bytes).max() else { return Ok(()) };
    let mut arena = match kept.map_or_else(|| arena_for(rig, scope, most, pages), Ok) {
        Ok(arena) => arena,
        Err(reason) => {
            rig.unavailable("memory.latency.level", &Labels::of([("pages", pages_label(pages))]), &reason);
            return Ok(());
        }
    };
    rig.random().shuffle(&mut walks);
    for walk in walks {
        let places = (arena.bytes() - walk.bytes as usize) / page_size();
        let offset = rig.random().usize(..=places) * page_size();
        let mut random = rig.random().clone();
        let mut chain = scratch.lay(&walk, scope, &mut arena, offset, &mut random).map_err(|fault| {
            Problem::new(format!("the pointer chain of {} is not one cycle: {fault}", walk.labels()))
        })?;
        *rig.random() = random;
        let workload = Workload::of("load", walk.labels(), LOADS_PER_TURN, |turns| {
            chain.walk(turns);
            Ok(())
        });
        rig.sample(vec![sized(workload, scope, &walk)])?;
    }
    Ok(())
}

/// How many batches a walk gets and how long they are.
pub(super) fn sized<'a>(workload: Workload<'a>, scope: &Scope, walk: &Walk) -> Workload<'a> {
    let (batches, turns) =
        if scope.is_memory(walk) { (4 * BATCHES, MEMORY_TURNS) } else { (BATCHES, 2 * MEMORY_TURNS) };
    let workload = workload.at_most(batches);
    if scope.is_shared(walk) { workload.sized(Sizing::Exactly(turns)) } else { workload }
}

/// On a machine with several nodes: memory of one node, from a CPU of each; another node's memory in the next turn.
pub(super) fn measure_nodes(rig: &mut Rig<'_>, scope: &Scope, scratch: &mut Numbers) -> Result<(), Problem> {
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
        .map_err(|fault| Problem::new(format!("the pointer chain on node {home} is not one cycle: {fault}")))?;
    for node in nodes {
        let Some(cpu) = rig.setup().allowed.iter().copied().find(|&cpu| node.cpus.contains(cpu)) else { continue };
        let moved = affinity::restrict(&[cpu]);
        if let Err(error) = moved {
            rig.unavailable(
                "memory.latency.node",
                &Labels::none().with("cpu_node", node.node),
                &format!("cannot run on CPU {cpu}: {error}"),
            );
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
            .map_err(|error| Problem::new(format!("cannot return to its CPU: {error}")))?;
        sampled?;
    }
    Ok(())
}

pub(super) fn node_labels(cpu_node: u32, memory_node: u32) -> Labels {
    Labels::none().with("cpu_node", cpu_node).with("memory_node", memory_node)
}
