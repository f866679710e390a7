//! Canaries: five short measurements in every round that see neighbours which no counter shows.
//!
//! The multiply chain sees the core clock; chases through a second-level-cache-sized and a larger buffer see who shares a
//! cache; loads of flushed lines see who shares the memory; the cheapest system call sees the kernel's paths. They are
//! compared with themselves over the rounds of one run and are never published as figures.
//!
//! Then a thread reads the clock without pause on the measured CPU and on each that partners use, and notes for which share of
//! the time it lost that CPU: to other tasks, to interrupts, to the hypervisor.

use std::time::Duration;

use crate::machine::placement::Place;
use crate::results::quantity::{Labels, Unit};
use crate::results::trouble::Trouble;
use crate::sys::clock::Source;
use crate::sys::{affinity, arch, system_call};

use super::{Rig, noise};

/// Names of the canaries, in logs.
pub const NAMES: [&str; 5] = ["clock", "near_cache", "far_cache", "memory", "system_call"];

/// Canaries that run at the clock of the core: they are compared in core cycles.
pub const CLOCKED: [&str; 2] = ["near_cache", "system_call"];

/// Name of the series of the share of the time that a CPU was lost to others, by how it stands to the measured one.
pub const OTHERS: &str = "others";

/// Placement of the measured CPU itself among them.
pub const SAME_CPU: &str = "same_cpu";

/// How long a thread computes on a CPU. A task of others that computes gets a turn within a few milliseconds.
const COMPUTED: Duration = Duration::from_millis(20);

/// Lines of the chase that a second-level cache holds: 256 KiB.
const NEAR_LINES: usize = 4 << 10;
/// Lines of the chase beyond most second-level caches: 4 MiB.
const FAR_LINES: usize = 64 << 10;
/// Lines flushed and loaded again.
const FLUSHED_LINES: usize = 512;
/// Measurements of each canary in a launch; the lowest counts, because a canary asks about the neighbourhood, not about
/// one interrupt.
const REPETITIONS: usize = 8;

/// A cache line that knows the next one of its cycle.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Line {
    next: u32,
}

/// One cycle through all lines in random order (Sattolo 1986), so that no prefetcher can follow.
fn cycle(lines: usize, random: &mut fastrand::Rng) -> Vec<Line> {
    let mut order: Vec<u32> = (0..lines as u32).collect();
    for last in (1..lines).rev() {
        order.swap(last, random.usize(..last));
    }
    order.into_iter().map(|next| Line { next }).collect()
}

fn chase(lines: &[Line], from: u32, steps: usize) -> u32 {
    (0..steps).fold(from, |place, _| lines[place as usize].next)
}

/// Measures every canary and records one value each, in ticks per step; the clock canary in ticks per core cycle.
pub fn measure(rig: &mut Rig<'_>) -> Result<(), Trouble> {
    let near = cycle(NEAR_LINES, rig.random());
    let far = cycle(FAR_LINES, rig.random());
    let source = rig.request.source()?;
    let mut values = Vec::new();
    values.push(rig.instruments.steady_probe().unwrap_or(1.0));
    let mut place = 0;
    values.push(lowest(source, NEAR_LINES, || place = chase(&near, place, NEAR_LINES)));
    values.push(lowest(source, FAR_LINES / 8, || place = chase(&far, place, FAR_LINES / 8)));
    values.push(lowest(source, FLUSHED_LINES, || {
        // Loads of flushed lines depend on each other, the flushes stand before all of them and cost the same each time.
        place = 0;
        let mut walked = 0;
        for _ in 0..FLUSHED_LINES {
            arch::flush_line(&near[walked as usize]);
            walked = near[walked as usize].next;
        }
        place = chase(&near, place, FLUSHED_LINES);
    }));
    values.push(lowest(source, 256, || {
        for _ in 0..256 {
            std::hint::black_box(system_call::parent_number());
        }
    }));
    std::hint::black_box(place);
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
    rig.record(OTHERS, Labels::of([("placement", SAME_CPU)]), Unit::One, vec![here])?;
    for (placement, thread) in elsewhere {
        // Where the CPU cannot be had, nothing is recorded: unknown.
        if let Ok(Some(share)) = thread.join() {
            rig.record(OTHERS, Labels::of([("placement", &placement)]), Unit::One, vec![share])?;
        }
    }
    Ok(())
}

/// Share of the time that a CPU was lost to others while a thread of this launch wanted nothing but to compute there: to tasks, to
/// interrupts, to the hypervisor.
fn lost(source: Source, hertz: f64) -> f64 {
    noise::probe(source, hertz, COMPUTED).lost_share()
}

fn lowest(source: Source, steps: usize, mut work: impl FnMut()) -> f64 {
    (0..REPETITIONS)
        .map(|_| {
            let start = source.stamp();
            work();
            (source.stamp().ticks - start.ticks) as f64 / steps as f64
        })
        .fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chase_visits_every_line_once_and_returns() {
        let lines = cycle(1000, &mut fastrand::Rng::with_seed(1));
        let mut seen = vec![false; 1000];
        let mut place = 0;
        for _ in 0..1000 {
            assert!(!std::mem::replace(&mut seen[place as usize], true));
            place = chase(&lines, place, 1);
        }
        assert_eq!(place, 0);
    }
}
