//! The streams of a launch: one thread in every level, each set of vectors in memory, several threads at once, and reads
//! from each node of the memory of another.

use super::{IN_CACHE, NODE, ON_SMALL_PAGES, RATE, step};
use crate::experiments::memory::footprint::{self, Footprint, MEMORY};
use crate::experiments::memory::{buffer, streams};
use crate::experiments::prelude::*;
use crate::rig::member::{Members, Pass};
use crate::rig::sampler::Expected;
use crate::rig::team::{Team, Windows};
use crate::sys::affinity;
use crate::sys::arena::Arena;
use crate::sys::memory::{self, HUGE_PAGES_OFF};
use crate::sys::spinner::{Duty, Spinner};
use crate::sys::stream::{Operation, Stream, Vectors};
use std::cell::RefCell;
use std::rc::Rc;

/// Length of a window of several threads in nanoseconds: several turns of any scheduler's clock.
pub(super) const WINDOW: f64 = 16_000_000.0;

/// Batches of one thread for each window of several.
pub(super) const BATCHES_PER_WINDOW: u32 = 5;

/// A pass through more bytes than these takes milliseconds: fewer batches of them are taken, and one pass brings them in.
pub(super) const LONG_PASS: usize = 8 << 20;

/// Batches of the profile for each batch of such passes.
pub(super) const BATCHES_PER_LONG_PASS: u32 = 3;

/// Bytes for which the time of a window is recorded: windows move different amounts, a series has one.
pub(super) const NOMINAL: u64 = 1 << 30;

/// Bytes of a pass of a thread in memory: tens of microseconds.
pub(super) const PASS: usize = 1 << 20;

/// Batches of each pair of nodes.
const NODE_BATCHES: u32 = 12;

/// Every how many launches pass through memory: to have it takes longer than all caches together.
const MEMORY_EVERY: u32 = 3;

/// Memory of more than this takes seconds to be had: launches with it take turns between the kinds of pages.
const SOON_TAKEN: usize = 256 << 20;

/// Timings of each set of vectors in the trial.
pub(super) const TRIALS: usize = 5;

pub(super) fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let Some(turn) = memory_turn(rig.setup(), rig.turn()) else { return measure_caches_alone(rig) };
    let cpus = footprint::cpus_of(rig.setup());
    let level = match footprint::memory_level(rig.setup(), &cpus[..1], rig.memory()) {
        Ok(level) => level,
        Err(reason) => {
            rig.unavailable(RATE, &Labels::of([("level", MEMORY)]), &reason);
            return Ok(());
        }
    };
    let chosen = measure_alone(rig, &level, turn)?;
    measure_nodes(rig, &level, vectors_of(&chosen, Operation::Read))?;
    for threads in streams::team_sizes(cpus.len()) {
        match footprint::memory_level(rig.setup(), &cpus[..threads], rig.memory()) {
            Ok(level) => measure_team(rig, &level, &cpus[..threads], cpus.len(), &chosen)?,
            Err(reason) => rig.unavailable(RATE, &of_team(threads), &reason),
        }
    }
    Ok(())
}

/// Number of this launch among those that pass through memory, from 0; none where it is not one of them. A first look does so once
/// where it takes seconds.
fn memory_turn(setup: &Setup, turn: u32) -> Option<u32> {
    let takes_seconds = footprint::most_memory(setup, 1) > SOON_TAKEN as u64;
    let every = if takes_seconds && setup.profile.is_quick() { u32::MAX } else { MEMORY_EVERY };
    turn.is_multiple_of(every).then_some(turn / every)
}

/// Bytes of a launch on huge pages.
pub(super) fn huge_memory(setup: &Setup, turn: u32) -> u64 {
    let caches = footprint::cache_levels(&setup.machine.caches, setup.cpu);
    match memory_turn(setup, turn) {
        Some(_) => footprint::most_memory(setup, 1),
        None => {
            caches.iter().map(|level| level.bytes as u64).max().unwrap_or(0).next_multiple_of(footprint::HUGE).max(1)
        }
    }
}

/// Bytes of a launch.
pub(super) fn memory(setup: &Setup, turn: u32) -> u64 {
    let huge = huge_memory(setup, turn);
    let has_both = memory_turn(setup, turn).is_some_and(|turn| has_small_pages(setup, huge as usize, turn))
        && buffer::keeps_huge(setup.machine.is_guest(), huge, setup.machine.launch_memory_bytes());
    if has_both { 2 * huge } else { huge }
}

/// Labels of all figures of a number of threads, and of all on small pages.
pub(super) fn of_team(threads: usize) -> Labels {
    Labels::of([("level", MEMORY)]).with("threads", threads)
}

pub(super) fn on_small_pages() -> Labels {
    Labels::of([("pages", "4k")])
}

/// The vectors that an operation uses in memory.
pub(super) type Chosen = Vec<(Operation, Vectors)>;

pub(super) fn vectors_of(chosen: &Chosen, operation: Operation) -> Vectors {
    chosen.iter().find(|(of, _)| *of == operation).map_or_else(Vectors::widest, |(_, vectors)| *vectors)
}

/// The caches, in memory that holds the largest of their footprints.
fn measure_caches_alone(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let levels = footprint::cache_levels(&rig.setup().machine.caches, rig.setup().cpu);
    let Some(most) = levels.iter().map(|level| level.bytes).max() else { return Ok(()) };
    rig.remark("vectors.cache", &Vectors::widest().name);
    let about = Labels::of([("level", "caches"), ("pages", "huge"), ("threads", "1")]);
    match buffer::obtain(rig, most.next_multiple_of(footprint::HUGE as usize), Pages::Huge, &about)? {
        Ok((_, mut arena)) => {
            arena.fill();
            measure_caches(rig, &levels, &RefCell::new(&mut arena))
        }
        Err(reason) => {
            for level in levels {
                let labels = Labels::of([("level", level.name.as_str()), ("threads", "1")]);
                rig.unavailable(RATE, &labels, &reason);
            }
            Ok(())
        }
    }
}

/// One thread: every level, then memory on huge pages and on small ones.
pub(super) fn measure_alone(rig: &mut Rig<'_>, level: &Footprint, turn: u32) -> Result<Chosen, Problem> {
    let about = Labels::of([("level", level.name.as_str()), ("pages", "huge"), ("threads", "1")]);
    rig.record("footprint", about.clone(), Unit::Bytes, vec![level.bytes as f64])?;
    rig.remark("vectors.cache", &Vectors::widest().name);
    let (pages, mut arena) = match buffer::obtain(rig, level.bytes, Pages::Huge, &about)? {
        Ok(taken) => taken,
        Err(reason) => {
            rig.unavailable(RATE, &Labels::of([("level", MEMORY), ("threads", "1")]), &reason);
            return Ok(Vec::new());
        }
    };
    arena.fill();
    let levels = footprint::cache_levels(&rig.setup().machine.caches, rig.setup().cpu);
    measure_caches(rig, &levels, &RefCell::new(&mut arena))?;
    let chosen = choose(rig, level, &mut arena)?;
    measure_memory(rig, level, &chosen, &Operation::ALL, None, &mut arena)?;
    let is_kept = buffer::keeps_huge(rig.setup().machine.is_guest(), level.bytes as u64, rig.memory());
    let _kept = is_kept.then_some(arena);
    if pages == Pages::Small {
        let off = memory::huge_pages_are_off().then_some(HUGE_PAGES_OFF);
        rig.unavailable(RATE, &on_small_pages(), &off.unwrap_or("no huge pages are available for the comparison"));
        return Ok(chosen);
    }
    if !has_small_pages(rig.setup(), level.bytes, turn) {
        if rig.setup().profile.is_quick() {
            rig.unavailable(RATE, &on_small_pages(), &"a quick run omits it");
        }
        return Ok(chosen);
    }
    let about = about.with("pages", "4k");
    match buffer::obtain(rig, level.bytes, Pages::Small, &about)? {
        Ok((_, mut arena)) => {
            arena.fill();
            measure_memory(rig, level, &chosen, &ON_SMALL_PAGES, Some("4k"), &mut arena)?;
        }
        Err(reason) => rig.unavailable(RATE, &on_small_pages(), &reason),
    }
    Ok(chosen)
}

/// Whether a launch through so much memory passes through small pages too: to have them takes longer than to go through them.
fn has_small_pages(setup: &Setup, bytes: usize, memory_turn: u32) -> bool {
    !setup.profile.is_quick() && (bytes <= SOON_TAKEN || memory_turn.is_multiple_of(2))
}

pub(super) fn measure_caches(
    rig: &mut Rig<'_>,
    levels: &[Footprint],
    arena: &RefCell<&mut Arena>,
) -> Result<(), Problem> {
    let few = (rig.batches() / BATCHES_PER_LONG_PASS).max(4);
    let mut workloads = Vec::new();
    for level in levels.iter().filter(|level| level.bytes <= arena.borrow().bytes()) {
        for operation in IN_CACHE {
            let walk = RefCell::new(Stream::new(Vectors::widest(), operation, level.bytes, level.bytes));
            let bytes = walk.borrow().bytes();
            let mut warm = *walk.borrow();
            let workload = Workload::of("stream", streams::labels(operation, &level.name, 1), bytes, move |passes| {
                walk.borrow_mut().steps(&mut arena.borrow_mut(), passes);
                Ok(())
            });
            let long = level.bytes > LONG_PASS;
            let workload = workload.prepared(move || {
                // Another level's batch stood before this batch: its lines leave, this level's come in.
                warm.steps(&mut arena.borrow_mut(), if long { 1 } else { 2 });
                Ok(())
            });
            let workload = if long { workload.at_most(few) } else { workload };
            workloads.push(if level.name == "L1" || level.name == "L2" { workload } else { workload.unclocked() });
        }
    }
    rig.sample(workloads)
}

/// Tries every set of vectors in memory, in turns, and takes the one with the best median for each operation.
pub(super) fn choose(rig: &mut Rig<'_>, level: &Footprint, arena: &mut Arena) -> Result<Chosen, Problem> {
    let source = rig.source()?;
    let mut chosen = Vec::new();
    for operation in Operation::ALL {
        let sets = Vectors::available();
        // One walk for all: no set may find in a cache what another has just brought there.
        let mut walk = Stream::new(sets[0], operation, level.bytes, step(level));
        let mut rates: Vec<Vec<f64>> = vec![Vec::new(); sets.len()];
        for _ in 0..TRIALS {
            for (&vectors, rates) in sets.iter().zip(&mut rates) {
                walk.turn_to(vectors);
                let began = source.opening().ticks;
                let bytes = walk.step(arena) as f64;
                rates.push(bytes / rig.nanoseconds((source.stamp().ticks - began) as f64) * 1e9);
            }
        }
        let medians: Vec<f64> = rates.iter().map(|rates| median(rates).unwrap_or(0.0)).collect();
        for (vectors, &rate) in sets.iter().zip(&medians) {
            let labels = Labels::of([("operation", operation.name()), ("vectors", vectors.name)]);
            rig.record("trial", labels, Unit::BytesPerSecond, vec![rate])?;
        }
        let best = (0..sets.len()).max_by(|&one, &other| medians[one].total_cmp(&medians[other]));
        let vectors = best.map_or_else(Vectors::widest, |best| sets[best]);
        rig.remark(&format!("vectors.{}", operation.name()), &vectors.name);
        chosen.push((operation, vectors));
    }
    Ok(chosen)
}

/// The operations in memory, one after the other.
pub(super) fn measure_memory(
    rig: &mut Rig<'_>,
    level: &Footprint,
    chosen: &Chosen,
    operations: &[Operation],
    pages: Option<&str>,
    arena: &mut Arena,
) -> Result<(), Problem> {
    let mut operations = operations.to_vec();
    rig.random().shuffle(&mut operations);
    for operation in operations {
        let vectors = vectors_of(chosen, operation);
        let mut walk = Stream::new(vectors, operation, level.bytes, step(level));
        let labels = streams::labels(operation, &level.name, 1);
        let labels = pages.map_or(labels.clone(), |pages| labels.with("pages", pages));
        let workload = Workload::of("stream", labels, walk.bytes(), |steps| {
            walk.steps(arena, steps);
            Ok(())
        });
        rig.sample(vec![workload.unclocked()])?;
    }
    Ok(())
}

/// Several threads, each with a separate arena that it wrote itself.
pub(super) fn measure_team(
    rig: &mut Rig<'_>,
    level: &Footprint,
    cpus: &[u32],
    all: usize,
    chosen: &Chosen,
) -> Result<(), Problem> {
    let operations: Vec<Operation> =
        Operation::ALL.into_iter().filter(|&operation| streams::is_measured(operation, cpus.len(), all)).collect();
    let jobs: Vec<Stream> = operations
        .iter()
        .map(|&operation| Stream::new(vectors_of(chosen, operation), operation, level.bytes, PASS))
        .collect();
    let (bytes, allowed) = (level.bytes, rig.memory());
    let equip = move |_: usize| -> Result<Pass, String> {
        let (_, mut arena) = buffer::take_either(bytes as u64, Pages::Huge, None, allowed)?;
        arena.fill();
        let mut jobs = jobs.clone();
        Ok(Box::new(move |job| jobs[job].step(&mut arena)))
    };
    // A host can move either CPU of a pair. Before the team, because only a task without threads is copied whole.
    let partner = match cpus {
        [_, other] => Spinner::new(*other, Duty::Answer).ok().map(Rc::new),
        _ => None,
    };
    let mut team = match Team::with_caller(Members::Threads, cpus, rig.source()?, equip) {
        Ok(team) => team,
        Err(reason) => {
            rig.unavailable(RATE, &of_team(cpus.len()), &reason);
            return Ok(());
        }
    };
    let about = Labels::of([("level", level.name.as_str()), ("pages", "huge")]).with("threads", cpus.len());
    rig.record("footprint", about, Unit::Bytes, vec![(bytes * cpus.len()) as f64])?;
    rig.remark(&format!("cpus.{}", cpus.len()), &format!("{:?}", team.cpus()));
    let most = (rig.batches() / BATCHES_PER_WINDOW).max(2);
    let windows = RefCell::new(Windows::of(&mut team, WINDOW, rig.ticks(1e9)));
    let mut workloads = Vec::new();
    for (job, &operation) in operations.iter().enumerate() {
        let windows = &windows;
        let labels = streams::labels(operation, &level.name, cpus.len());
        let work = move |_| windows.borrow_mut().timed(job, NOMINAL);
        let workload = Workload::self_timed("stream", labels, NOMINAL, work);
        let workload = workload.sized(Sizing::Exactly(1)).unclocked().at_most(most);
        workloads.push(match &partner {
            Some(partner) => workload.across(partner),
            None => workload,
        });
    }
    rig.sample(workloads)?;
    rig.remark(&format!("repeated.{}", cpus.len()), &windows.borrow().repeated());
    Ok(())
}

fn of_nodes(cpu_node: u32, memory_node: u32) -> Labels {
    Labels::none().with("cpu_node", cpu_node).with("memory_node", memory_node)
}

/// Reads memory of one node from a CPU of each; that of another node in the next launch.
fn measure_nodes(rig: &mut Rig<'_>, level: &Footprint, vectors: Vectors) -> Result<(), Problem> {
    let nodes = &rig.setup().machine.memory.nodes;
    let homes: Vec<u32> =
        nodes.iter().filter(|node| node.total_bytes.is_some_and(|bytes| bytes > 0)).map(|node| node.node).collect();
    if homes.len() < 2 {
        return Ok(());
    }
    let home = homes[rig.turn() as usize % homes.len()];
    let mut arena = match buffer::take_either(level.bytes as u64, Pages::Huge, Some(home), rig.memory()) {
        Ok((_, arena)) => arena,
        Err(reason) => {
            rig.unavailable(NODE, &Labels::none().with("memory_node", home), &reason);
            return Ok(());
        }
    };
    for node in nodes {
        let Some(cpu) = rig.setup().allowed.iter().copied().find(|&cpu| node.cpus.contains(cpu)) else { continue };
        if let Err(error) = affinity::restrict(&[cpu]) {
            rig.unavailable(
                NODE,
                &Labels::none().with("cpu_node", node.node),
                &format!("cannot run on CPU {cpu}: {error}"),
            );
            continue;
        }
        let mut walk = Stream::new(vectors, Operation::Read, level.bytes, step(level));
        let workload = Workload::of("node", of_nodes(node.node, home), walk.bytes(), |steps| {
            walk.steps(&mut arena, steps);
            Ok(())
        });
        let workload = workload.unclocked().at_most(NODE_BATCHES);
        let sampled = rig.sample(vec![workload.expecting(Expected { migration: true, ..Expected::default() })]);
        affinity::restrict(&[rig.setup().cpu])
            .map_err(|error| Problem::new(format!("cannot return to its CPU: {error}")))?;
        sampled?;
    }
    Ok(())
}
