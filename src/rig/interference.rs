//! Interference probes: five short measurements in every round that see neighbours which no counter shows.
//!
//! The multiply chain sees the core clock; chases through a second-level-cache-sized and a larger buffer see who shares a
//! cache; loads of flushed lines see who shares the memory; the cheapest system call sees the kernel's paths. They are
//! compared with themselves over the rounds of one run and are never published as figures.
//!
//! Then a thread reads the clock without pause on the measured CPU and on each that partners use, and notes for which share of
//! the time it lost that CPU: to other tasks, to interrupts, to the hypervisor.

use std::time::Duration;

use crate::machine::placement::Place;
use crate::results::problem::Problem;
use crate::results::quantity::{Labels, Unit};
use crate::sys::arena::Arena;
use crate::sys::chain::{Chain, LOADS_PER_TURN};
use crate::sys::clock::Source;
use crate::sys::memory::Pages;
use crate::sys::{affinity, system_call};

use super::Rig;
use super::noise::{self, Noise};

/// Names of the interference probes, in logs.
pub const NAMES: [&str; 5] = ["clock", "near_cache", "far_cache", "memory", "system_call"];

/// Interference probes that run at the clock of the core: they are compared in core cycles.
pub const CLOCKED: [&str; 2] = ["near_cache", "system_call"];

/// Name of the series of the share of the time that a CPU was lost to others, by how it stands to the measured one.
pub const OTHERS: &str = "others";

/// Name of the series of the gaps in which others had a CPU, each second.
pub const GAPS: &str = "gaps";

/// Placement of the measured CPU itself among them.
pub const SAME_CPU: &str = "same_cpu";

/// How long a thread computes on a CPU. A task of others that computes gets a turn within a few milliseconds.
const COMPUTED: Duration = Duration::from_millis(20);

/// Size of a line of the chains.
const LINE: usize = 64;
/// Bytes of the chain that a second-level cache holds.
const NEAR: usize = 256 << 10;
/// Bytes of the chain beyond most second-level caches.
const FAR: usize = 4 << 20;
/// Turns through the far chain in one measurement: an eighth of it.
const FAR_TURNS: u64 = (FAR / LINE) as u64 / LOADS_PER_TURN / 8;
/// Lines flushed and loaded again.
const FLUSHED_LINES: usize = 512;
/// Measurements of each interference probe in a launch; the lowest counts, because an interference probe asks about the neighbourhood, not about
/// one interrupt.
const REPETITIONS: usize = 8;

fn memory(bytes: usize) -> Result<Arena, Problem> {
    let mut arena = Arena::map(bytes, Pages::Small)
        .map_err(|error| Problem::new(format!("cannot allocate memory for the interference probes: {error}")))?;
    arena.populate();
    Ok(arena)
}

fn chain<'a>(arena: &'a mut Arena, random: &mut fastrand::Rng) -> Result<Chain<'a>, Problem> {
    let bytes = arena.bytes();
    arena.lay_random(bytes, LINE, random).map_err(|fault| {
        Problem::new(format!(
            "a chain of the interference probes: \
                                                                                {fault}"
        ))
    })
}

/// Measures every interference probe and records one value each, in ticks per step; the clock interference probe in ticks per core cycle.
pub fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let (mut near, mut far) = (memory(NEAR)?, memory(FAR)?);
    let (mut near, mut far) = (chain(&mut near, rig.random())?, chain(&mut far, rig.random())?);
    let source = rig.request.source()?;
    let mut values = Vec::new();
    values.push(rig.instruments.steady_probe().unwrap_or(1.0));
    let near_turns = near.nodes() as u64 / LOADS_PER_TURN;
    values.push(lowest_alone(rig, source, near.nodes(), || near.walk(near_turns)));
    values.push(lowest(source, (FAR_TURNS * LOADS_PER_TURN) as usize, || far.walk(FAR_TURNS)));
    values.push(lowest(source, FLUSHED_LINES, || {
        // Loads of flushed lines depend on each other, the flushes stand before all of them and cost the same each time.
        near.rewind();
        near.flush(FLUSHED_LINES);
        near.walk(FLUSHED_LINES as u64 / LOADS_PER_TURN);
    }));
    values.push(lowest_alone(rig, source, 256, || {
        for _ in 0..256 {
            std::hint::black_box(system_call::parent_number());
        }
    }));
    for (name, value) in NAMES.into_iter().zip(values) {
        rig.record(name, Labels::none(), Unit::Ticks, vec![value])?;
    }
    // After the others: a thread on the sibling of the measured CPU would be in their way.
    let hertz = rig.request.clock.hertz;
    let watch = |place: &Place| {
        let cpu = place.cpu;
        let look = move || affinity::restrict(&[cpu]).ok().map(|()| lost(source, hertz));
        (place.placement.clone(), std::thread::spawn(look))
    };
    let elsewhere: Vec<_> = rig.setup().places().iter().map(watch).collect();
    let here = lost(source, hertz);
    let mut looked = vec![(SAME_CPU.to_owned(), here)];
    // Where the CPU cannot be had, nothing is recorded: unknown.
    looked.extend(elsewhere.into_iter().filter_map(|(placement, thread)| Some((placement, thread.join().ok()??))));
    for (placement, found) in looked {
        let labels = Labels::of([("placement", &placement)]);
        rig.record(OTHERS, labels.clone(), Unit::One, vec![found.lost_share()])?;
        rig.record(GAPS, labels, Unit::Hertz, vec![found.gaps as f64 / found.span * 1e9])?;
    }
    Ok(())
}

/// What a CPU lost to others while a thread of this launch wanted nothing but to compute there: to tasks, to interrupts, to the
/// hypervisor.
fn lost(source: Source, hertz: f64) -> Noise {
    noise::probe(source, hertz, COMPUTED)
}

/// The same while no neighbour was on the core, if that is to be had. Looks next to every batch show who shares the core. Here a
/// neighbour would hide who shares the rest.
fn lowest_alone(rig: &mut Rig<'_>, source: Source, steps: usize, mut work: impl FnMut()) -> f64 {
    let mut value = f64::INFINITY;
    rig.while_alone(|| value = lowest(source, steps, &mut work));
    value
}

fn lowest(source: Source, steps: usize, mut work: impl FnMut()) -> f64 {
    (0..REPETITIONS)
        .map(|_| {
            let start = source.opening();
            work();
            (source.stamp().ticks - start.ticks) as f64 / steps as f64
        })
        .fold(f64::INFINITY, f64::min)
}
