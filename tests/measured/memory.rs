//! Known truth for the memory chapter: chains whose cost is known beforehand, memory that must be refused, and levels that
//! are known because the curve was made from them.
//!
//! Measured comparisons are differences of best-of-many within one process on one CPU, tried again when others disturb them.

use crate::support::runs::{measuring, output, result, told};
use crate::support::truth::{self, Found, Judgement};

use sysdyno::testing::experiments::memory::buffer;
use sysdyno::testing::statistics::knee::{Staircase, staircase};
use sysdyno::testing::sys::affinity;
use sysdyno::testing::sys::arch::{self, CHAIN_CYCLES};
use sysdyno::testing::sys::arena::Arena;
use sysdyno::testing::sys::chain::{Chain, Fault, LOADS_PER_TURN};
use sysdyno::testing::sys::memory::Pages;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Runs a measurement alone, on the last allowed CPU.
fn timed(what: &str, compare: impl Fn() -> Result<(), String>) {
    let _alone = measuring();
    affinity::restrict(&[*affinity::allowed().last().unwrap()]).unwrap();
    truth::timed(what, compare);
}

fn random_order(nodes: u32, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..nodes).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut order);
    order
}

/// A chain in random order through all lines of an arena.
fn random_chain(arena: &mut Arena, bytes: usize) -> Chain<'_> {
    let order = random_order((bytes / 64) as u32, 5);
    arena.lay(&order, &mut Vec::new(), |node| node as usize * 64).unwrap()
}

/// Core cycles of an undisturbed load, by the multiply chain timed right before each walk.
fn cycles(mut walk: impl FnMut(u64), turns: u64, multiply: f64) -> f64 {
    walk(turns);
    // The lower quartile: an interrupted yardstick makes a walk look short, an interrupted walk long, and the second is likelier.
    let mut all: Vec<f64> = (0..60)
        .map(|_| {
            truth::look();
            let before = arch::stamp().ticks;
            arch::multiply_chain(500);
            let between = arch::stamp().ticks;
            walk(turns);
            let after = arch::stamp().ticks;
            let cycle = (between - before) as f64 / (500.0 * CHAIN_CYCLES as f64 / 3.0 * multiply);
            (after - between) as f64 / cycle / (turns * LOADS_PER_TURN) as f64
        })
        .collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 4]
}

/// Cycles of a multiply on this core: a whole number.
fn multiply_latency() -> f64 {
    let time = |chain: arch::LoopKernel| {
        (0..40)
            .map(|_| {
                let before = arch::stamp().ticks;
                chain(500);
                (arch::stamp().ticks - before) as f64
            })
            .fold(f64::INFINITY, f64::min)
    };
    (3.0 * time(arch::multiply_chain) / time(arch::add_chain)).round()
}

#[test]
fn multiplies_in_the_chain_raise_every_level_by_just_their_latency() {
    let mut arena = Arena::map(MIB, Pages::Small).unwrap();
    arena.fill();
    // Half of the smallest first-level caches, and a footprint that only second-level caches hold.
    let arena = std::cell::RefCell::new(arena);
    for (bytes, turns) in [(8 * KIB, 400), (200 * KIB, 400)] {
        timed(&format!("a chase through {bytes} bytes"), || {
            let mut arena = arena.borrow_mut();
            let mut chain = random_chain(&mut arena, bytes);
            chain.round().unwrap();
            let multiply = multiply_latency();
            let plain = cycles(|turns| chain.walk(turns), turns, multiply);
            let found = [
                (1.0, cycles(|turns| chain.walk_multiplying::<1>(turns), turns, multiply)),
                (2.0, cycles(|turns| chain.walk_multiplying::<2>(turns), turns, multiply)),
                (5.0, cycles(|turns| chain.walk_multiplying::<5>(turns), turns, multiply)),
            ];
            for (multiplies, cost) in found {
                let expected = plain + multiplies * multiply;
                // One multiply too few or too many is 10 % and more.
                if (cost / expected - 1.0).abs() > 0.02 {
                    return Err(format!("{multiplies} multiplies: {cost:.3} cycles, expected {expected:.3}"));
                }
            }
            Ok(())
        });
    }
}

#[test]
fn a_first_level_load_takes_a_whole_number_of_cycles() {
    timed("a chase through 8 KiB", || {
        let mut arena = Arena::map(8 * KIB, Pages::Small).unwrap();
        arena.fill();
        let mut chain = random_chain(&mut arena, 8 * KIB);
        let found = cycles(|turns| chain.walk(turns), 400, multiply_latency());
        let whole = found.round();
        let fits = whole >= 1.0 && (found / whole - 1.0).abs() < 0.02;
        if fits { Ok(()) } else { Err(format!("{found:.4} cycles")) }
    });
}

#[test]
fn a_stride_costs_no_more_than_random_order() {
    timed("16 MiB ascending against random", || {
        let mut arena = Arena::map(16 * MIB, Pages::Small).unwrap();
        arena.fill();
        let mut scratch = Vec::new();
        let nodes = (16 * MIB / 64) as u32;
        let mut time = |order: &[u32]| {
            let mut chain = arena.lay(order, &mut scratch, |node| node as usize * 64).unwrap();
            chain.tour();
            cycles(|turns| chain.walk(turns), 40, 3.0)
        };
        let (ascending, random) = (time(&(0..nodes).collect::<Vec<u32>>()), time(&random_order(nodes, 9)));
        if ascending <= random * 1.02 { Ok(()) } else { Err(format!("{ascending:.1} against {random:.1} cycles")) }
    });
}

#[test]
fn a_permutation_of_two_cycles_is_refused() {
    let mut arena = Arena::map(MIB, Pages::Small).unwrap();
    arena.fill();
    let mut chain = random_chain(&mut arena, MIB);
    assert_eq!(chain.round(), Ok(()));
    chain.exchange(0, 512 * KIB);
    let broken = chain.round().unwrap_err();
    assert!(broken.back_after.is_some_and(|steps| steps < broken.nodes), "{broken}");
    // A list of random addresses, as some programs use, is no cycle either.
    let mut random = fastrand::Rng::with_seed(2);
    let list: Vec<u32> = (0..16_384).map(|_| random.u32(..16_384)).collect();
    let refused = arena.lay(&list, &mut Vec::new(), |node| node as usize * 64).map(drop);
    assert!(matches!(refused, Err(Fault::NotOneCycle(_))), "{refused:?}");
}

#[test]
fn memory_that_was_never_written_is_refused() {
    let arena = Arena::map(4 * MIB, Pages::Small).unwrap();
    let refused = buffer::check(&arena, Pages::Small).unwrap_err();
    assert!(refused.contains("unwritten memory"), "{refused}");
    let mut arena = arena;
    arena.fill();
    assert_eq!(buffer::check(&arena, Pages::Small), Ok(()));
}

#[test]
fn memory_without_the_huge_pages_that_were_asked_for_is_refused() {
    // Small pages stand for a kernel that refused huge ones.
    let mut arena = Arena::map(4 * MIB, Pages::Small).unwrap();
    arena.fill();
    let refused = buffer::check(&arena, Pages::Huge).unwrap_err();
    assert!(refused.contains("on huge pages"), "{refused}");
    // Where the kernel gives them, they are recognised, and are no small ones.
    if let Ok(huge) = buffer::take(4 * MIB as u64, Pages::Huge, None, 64 * MIB as u64) {
        assert!(buffer::check(&huge, Pages::Small).unwrap_err().contains("small ones were asked for"));
    }
}

#[test]
fn a_footprint_beyond_what_a_launch_may_take_is_refused() {
    let refused = buffer::take(512 * MIB as u64, Pages::Small, None, 64 * MIB as u64).unwrap_err();
    assert!(refused.contains("a quarter of the available memory"), "{refused}");
}

/// The idle load of one run by both experiments that measure it, on the same pages and footprint.
fn idle_loads() -> Result<[Found; 2], Judgement> {
    let place = tempfile::tempdir().unwrap();
    // A quick run has no time for the footprints beyond a very large cache.
    let words = ["run", "memory.latency", "memory.loaded_latency", "--time=20s", "--no-progress", "-o"];
    let run = output(&[words.as_slice(), &[place.path().join("run").to_str().unwrap()]].concat());
    assert!(run.status.code().is_some_and(|code| code < 2), "{}", told(&run));
    let result = result(&place.path().join("run"));
    let alone = truth::trusted(&result, "memory.latency.level", &[("level", "DRAM"), ("pages", "huge")])?;
    let idle = truth::trusted(&result, "memory.loaded_latency.time", &[("load", "idle")])?;
    assert_eq!(alone["labels"]["footprint"], idle["labels"]["footprint"], "one rule of what is main memory");
    Ok([Found::of(alone, 1.0), Found::of(idle, 1.0)])
}

#[test]
fn an_idle_load_takes_the_same_in_both_experiments() {
    let _alone = measuring();
    if affinity::allowed().len() < 2 {
        return truth::not_judged("an idle load", "only one CPU may be used: there is no loaded latency");
    }
    // Neighbours of the memory come and go between two experiments. They add to one as often as to the other, so a difference
    // that keeps its sign is the tool's.
    let mut apart = Vec::new();
    for _ in 0..4 {
        match idle_loads() {
            Ok([alone, idle]) if idle.agrees(alone, 0.02 * alone.value) => return,
            Ok([alone, idle]) => apart.push((idle.value / alone.value, format!("{idle:?} against {alone:?}"))),
            Err(Judgement::Disturbed(why)) => apart.push((1.0, why)),
            Err(other) => panic!("{other:?}"),
        }
    }
    let systematic = apart.iter().all(|(ratio, _)| *ratio > 1.0) || apart.iter().all(|(ratio, _)| *ratio < 1.0);
    assert!(!systematic, "{apart:?}");
    truth::not_judged("an idle load", &format!("{apart:?}"));
}

/// A cache as a curve is made from it: where it ends and what a load of it costs.
type Cache = (f64, f64);

/// How hits fall off beyond the end of a cache.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Knee {
    /// All at once: the oldest line is replaced.
    Sharp,
    /// Over an octave and more: a cycle over random replacement, h = exp(-(1 - h)·S/C).
    Soft,
    /// Over three octaves, from long before the end: sets that random physical pages fill unevenly.
    Uneven,
}

impl Knee {
    fn hits(self, capacity: f64, footprint: f64) -> f64 {
        let times = footprint / capacity;
        match self {
            Knee::Uneven => 1.0 / (1.0 + times.powi(5)),
            _ if times <= 1.0 => 1.0,
            Knee::Sharp => 0.0,
            // Iterated from below to the stable solution.
            Knee::Soft => (0..200).fold(0.0, |hits, _| (-(1.0 - hits) * times).exp()),
        }
    }
}

/// Latencies over footprints; `noise` is the standard deviation of their logarithms.
fn curve(
    footprints: &[f64],
    caches: &[Cache],
    memory: f64,
    knee: Knee,
    noise: f64,
    random: &mut fastrand::Rng,
) -> Vec<f64> {
    footprints
        .iter()
        .map(|&footprint| {
            let (mut latency, mut covered) = (0.0, 0.0_f64);
            for &(capacity, cost) in caches {
                let share = (knee.hits(capacity, footprint) - covered).max(0.0);
                latency += share * cost;
                covered += share;
            }
            let normal: f64 = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
            (latency + (1.0 - covered) * memory) * (noise * normal).exp()
        })
        .collect()
}

/// Levels of a random machine: every cache five to forty times as large as the one before, 2.2 to 5 times as slow.
fn random_caches(levels: usize, random: &mut fastrand::Rng) -> (Vec<Cache>, f64) {
    let mut between = |low: f64, high: f64| low * (high / low).powf(random.f64());
    let (mut size, mut cost) = (between(24.0, 128.0) * 1024.0, between(0.8, 2.0));
    let mut caches = Vec::new();
    for _ in 0..levels {
        caches.push((size, cost));
        size *= between(8.0, 40.0);
        cost *= between(2.5, 5.0);
    }
    (caches, cost)
}

/// Four points to the octave from 1 KiB to sixteen times the last cache.
fn footprints(caches: &[Cache]) -> Vec<f64> {
    let top = 16.0 * caches.last().unwrap().0;
    (0..).map(|step| 1024.0 * (f64::from(step) / 4.0).exp2()).take_while(|bytes| *bytes <= top).take(400).collect()
}

/// Holds a staircase to the truth: latencies within 5 %, sizes within 25 %.
fn judge(found: &Staircase, caches: &[Cache], memory: f64) -> Result<(), String> {
    let costs: Vec<f64> = caches.iter().map(|(_, cost)| *cost).chain([memory]).collect();
    let levels: Vec<f64> = found.levels.iter().map(|level| level.latency).collect();
    if levels.len() != costs.len() {
        return Err(format!("levels {levels:?}, truth {costs:?}"));
    }
    for (level, cost) in levels.iter().zip(&costs) {
        if (level / cost - 1.0).abs() > 0.05 {
            return Err(format!("levels {levels:?}, truth {costs:?}"));
        }
    }
    for (capacity, (size, _)) in found.capacities.iter().zip(caches) {
        let middle = (capacity.at_least * capacity.at_most).sqrt();
        if !(0.75..=1.25).contains(&(middle / size)) {
            return Err(format!("{capacity:?}, truth {size}"));
        }
    }
    Ok(())
}

/// How many of 200 random machines of a kind are told right.
fn told_right(levels: usize, knee: Knee, seed: u64) -> (usize, Vec<String>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut wrong = Vec::new();
    for _ in 0..200 {
        let (caches, memory) = random_caches(levels, &mut random);
        let footprints = footprints(&caches);
        let noise = 0.02 * random.f64();
        let latencies = curve(&footprints, &caches, memory, knee, noise, &mut random);
        let beyond = 4.0 * caches.last().unwrap().0;
        let found = staircase(&footprints, &latencies, None, Some(beyond)).unwrap();
        if let Err(why) = judge(&found, &caches, memory) {
            wrong.push(why);
        }
    }
    (200 - wrong.len(), wrong)
}

#[test]
fn sharp_levels_of_random_machines_are_found() {
    for levels in [1, 2, 3, 4] {
        let (right, wrong) = told_right(levels, Knee::Sharp, levels as u64);
        assert_eq!(right, 200, "{levels} caches: {wrong:#?}");
    }
}

#[test]
fn soft_knees_of_random_machines_are_found() {
    for levels in [2, 3] {
        let (right, wrong) = told_right(levels, Knee::Soft, 10 + levels as u64);
        assert_eq!(right, 200, "{levels} caches: {wrong:#?}");
    }
}

#[test]
fn uneven_sets_draw_the_bounds_apart_and_keep_the_truth_between_them() {
    let mut random = fastrand::Rng::with_seed(20);
    for _ in 0..200 {
        let (caches, memory) = random_caches(3, &mut random);
        let footprints = footprints(&caches);
        let latencies = curve(&footprints, &caches, memory, Knee::Uneven, 0.01 * random.f64(), &mut random);
        let found = staircase(&footprints, &latencies, None, Some(4.0 * caches[2].0)).unwrap();
        assert_eq!(found.levels.len(), 4, "{found:?} {caches:?}");
        for (capacity, (size, _)) in found.capacities.iter().zip(&caches) {
            let holds = capacity.at_least <= *size && *size <= capacity.at_most * 1.1;
            assert!(
                holds && capacity.at_most < 3.5 * capacity.at_least,
                "{capacity:?}, truth {size}: {found:?} {caches:?} {memory}"
            );
        }
    }
}

#[test]
fn a_spike_makes_no_level_and_is_reported() {
    let mut random = fastrand::Rng::with_seed(31);
    for _ in 0..200 {
        let (caches, memory) = random_caches(3, &mut random);
        let footprints = footprints(&caches);
        let mut latencies = curve(&footprints, &caches, memory, Knee::Sharp, 0.01, &mut random);
        // In the middle of the first level.
        let place = 4 + random.usize(..8);
        latencies[place] *= 1.5 + random.f64();
        let found = staircase(&footprints, &latencies, None, Some(4.0 * caches[2].0)).unwrap();
        assert!(found.monotone_residual > 0.05, "{}", found.monotone_residual);
        judge(&found, &caches, memory).unwrap();
    }
}

#[test]
fn the_generator_of_this_file_is_what_it_says() {
    let mut random = fastrand::Rng::with_seed(1);
    let caches = [(32_768.0, 1.0), (1_048_576.0, 4.0)];
    let at =
        |footprint: f64, knee, random: &mut fastrand::Rng| curve(&[footprint], &caches, 100.0, knee, 0.0, random)[0];
    assert!((at(16_384.0, Knee::Sharp, &mut random) - 1.0).abs() < 1e-12);
    assert!((at(32_768.0, Knee::Uneven, &mut random) - 2.5).abs() < 1e-4);
    assert!((at(2_097_152.0, Knee::Sharp, &mut random) - 100.0).abs() < 1e-12);
    // Half of the lines survive at 1.39 times the capacity.
    assert!((Knee::Soft.hits(1.0, 1.386_294) - 0.5).abs() < 1e-3);
}
