//! From walks to levels: the curves of a study, the plateaus of the deciding one, their names and their capacities.

use super::patterns::Pattern;
use super::walk::{Scope, curve, pages_label};
use crate::evaluate::estimate::LEVEL;
use crate::evaluate::sample::{Account, Sample};
use crate::experiments::memory::footprint::{MEMORY, OVER_LAST_CACHE};
use crate::experiments::prelude::*;
use crate::results::quantity::CoreCycles;
use crate::statistics::knee::{Plateau, Staircase, staircase};
use crate::statistics::resampling::resamplings;
use crate::statistics::summary::quantile;
use std::collections::BTreeMap;

/// Resamplings of the launches for the interval of a capacity: enough for the ends of 95 %, few enough for every report.
const RESAMPLINGS: u32 = 80;

/// Points that a plateau of a resampled curve must be close to, to be the same plateau.
const SAME_PLATEAU: f64 = 1.25;

/// Memory over the cache before it, at least.
pub(super) const MEMORY_OVER_CACHE: f64 = 1.5;

/// Upper over lower quartile of the launches from which a plateau is unsteady: it is a cache in some launches, and memory in others.
const UNSTEADY: f64 = 1.5;

/// The name of all curves.
pub(super) const CURVE: &str = "memory.latency.curve";

/// One footprint of a curve.
#[derive(Debug, Clone)]
pub(super) struct FootprintPoint {
    /// Footprint in bytes.
    pub(super) bytes: u64,
    /// All batches.
    pub(super) sample: Sample,
    /// Median over launches, in nanoseconds.
    pub(super) latency: f64,
    /// Over launches, in nanoseconds.
    pub(super) interval: [f64; 2],
    /// Lower quartile over launches of their medians, in nanoseconds: neighbours only add to it.
    undisturbed: f64,
    /// Median of each launch, in nanoseconds, by the launch's number.
    pub(super) launches: BTreeMap<u32, f64>,
}

/// Every curve of a study, its points by ascending footprint.
#[derive(Debug, Default)]
pub(super) struct Curves(BTreeMap<Labels, Vec<FootprintPoint>>);

impl Curves {
    /// Reads the series of a study. What runs at the clock of the core is given in core cycles.
    pub(super) fn of(study: &Study<'_>, name: &str, scope: &Scope) -> Self {
        let near = 2 * scope.second_cache();
        let bytes = |labels: &Labels| labels.get("bytes").and_then(|text| text.parse::<u64>().ok());
        let period = study.core.map_or(1.0, |core| CoreCycles(1.0).at(core).0);
        let mut curves: BTreeMap<Labels, Vec<FootprintPoint>> = BTreeMap::new();
        let samples =
            study.samples(name, |labels| study.core.is_some() && bytes(labels).is_some_and(|size| size <= near));
        for (labels, sample) in samples {
            let Some(bytes) = bytes(labels) else { continue };
            let scale = if sample.unit == Unit::Cycles { period } else { 1.0 };
            let Some(estimate) = Estimate::median(&sample) else { continue };
            let launches: BTreeMap<u32, f64> = sample
                .numbers
                .iter()
                .zip(&sample.launches)
                .filter_map(|(number, batches)| Some((*number, median(batches)? * scale)))
                .collect();
            let Some(undisturbed) = lower_quartile(launches.values().copied()) else { continue };
            let (latency, interval) = (estimate.value * scale, estimate.interval.map(|end| end * scale));
            let of: Labels = without_bytes(labels);
            curves.entry(of).or_default().push(FootprintPoint {
                bytes,
                sample,
                latency,
                interval,
                undisturbed,
                launches,
            });
        }
        for points in curves.values_mut() {
            points.sort_by_key(|point| point.bytes);
        }
        Curves(curves)
    }

    /// The points of a curve.
    pub(super) fn points(&self, pattern: Pattern, pages: Pages) -> &[FootprintPoint] {
        self.0.get(&curve(pattern, pages)).map_or(&[], Vec::as_slice)
    }

    /// One point of a curve.
    pub(super) fn point(&self, pattern: Pattern, pages: Pages, bytes: u64) -> Option<&FootprintPoint> {
        self.points(pattern, pages).iter().find(|point| point.bytes == bytes)
    }

    /// The curves as a report shows them.
    pub(super) fn shown(&self) -> Vec<Curve> {
        self.0
            .iter()
            .map(|(labels, points)| Curve {
                name: CURVE.to_owned(),
                labels: labels.clone(),
                words: BTreeMap::new(),
                x: Axis { label: "footprint".to_owned(), unit: Unit::Bytes },
                y: Axis { label: "one dependent load".to_owned(), unit: Unit::Nanoseconds },
                points: points
                    .iter()
                    .map(|point| [point.bytes as f64, point.latency, point.interval[0], point.interval[1]])
                    .collect(),
            })
            .collect()
    }
}

fn lower_quartile(values: impl Iterator<Item = f64>) -> Option<f64> {
    quantile(&values.collect::<Vec<f64>>(), 0.25)
}

fn without_bytes(labels: &Labels) -> Labels {
    labels.pairs().filter(|(key, _)| *key != "bytes").fold(Labels::none(), |kept, (key, value)| kept.with(key, value))
}

/// A level with its name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Named {
    /// `L1`, `L2`, `L3`, `L4` or `DRAM`.
    pub(super) name: String,
    /// Latency on the curve that decides, in nanoseconds.
    pub(super) latency: f64,
    /// Footprints, in bytes, of the middle of its plateau: its latency is taken there.
    pub(super) middle: [f64; 2],
    /// Between which sizes it ends, in bytes, with the spread over launches; none for the last one.
    pub(super) ends: Option<[f64; 2]>,
    /// What the kernel claims for its size, in bytes.
    pub(super) claimed: Option<u64>,
}

/// What the deciding curve shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct FoundLevels {
    /// Levels, nearest first.
    pub(super) levels: Vec<Named>,
    /// Claimed caches of which no plateau was found: level and size.
    pub(super) missed: Vec<(u32, u64)>,
    /// Plateaus beyond those that the kernel claims: from which to which footprint.
    pub(super) unclaimed: Vec<[f64; 2]>,
    /// Plateaus without a name whose launches disagree: from which to which footprint.
    pub(super) unsteady: Vec<[f64; 2]>,
    /// Plateaus before memory's that are as slow as memory: from which to which footprint.
    pub(super) slow: Vec<[f64; 2]>,
    /// Why there is no memory among the levels.
    pub(super) no_memory: Option<String>,
    /// Footprint from which on a walk is memory's, in bytes (gate G18).
    pub(super) memory_from: f64,
    /// Largest relative distance of the curve from the closest non-decreasing one.
    pub(super) residual: f64,
}

impl FoundLevels {
    /// A level by its name.
    pub(super) fn level(&self, name: &str) -> Option<&Named> {
        self.levels.iter().find(|level| level.name == name)
    }

    /// Levels of a curve whose points are lower quartiles over launches; none when there are too few points to see any.
    /// `last` is the largest size that anything claims for the last cache: what only memory holds begins beyond it.
    pub(super) fn of(points: &[FootprintPoint], claims: &[(u32, u64)], last: u64, seed: u64) -> Option<Self> {
        let footprints: Vec<f64> = points.iter().map(|point| point.bytes as f64).collect();
        let latencies: Vec<f64> = points.iter().map(|point| point.undisturbed).collect();
        // Memory begins beyond the larger of the claimed cache and the found one, and the found one is known only afterwards.
        let claimed = if claims.is_empty() { 0.0 } else { last as f64 };
        let mut memory = OVER_LAST_CACHE as f64 * claimed;
        let mut stairs = staircase(&footprints, &latencies, None, (claimed > 0.0).then_some(memory))?;
        // A rise that only may lie beyond the claim is not a larger cache, nor is one that is too small for that: neighbours and
        // translations draw out the way to memory.
        let beyond = stairs.capacities.last().filter(|last| last.at_least > claimed && last.at_most > claimed);
        if let Some(last) = beyond.filter(|_| caches_of(&stairs) + 1 == stairs.levels.len()) {
            memory = OVER_LAST_CACHE as f64 * last.at_most;
            stairs = staircase(&footprints, &latencies, None, Some(memory))?;
        }
        let ends = spread(points, &footprints, &stairs, memory, seed);
        let unsteady: Vec<bool> = stairs.levels.iter().map(|level| is_unsteady(points, level)).collect();
        Some(Self::named(&footprints, &stairs, (&ends, &unsteady), claims, memory))
    }

    /// Names the levels of a staircase; `ends` are the capacities between them.
    fn named(
        footprints: &[f64],
        stairs: &Staircase,
        (ends, unsteady): (&[[f64; 2]], &[bool]),
        claims: &[(u32, u64)],
        needed: f64,
    ) -> Self {
        let largest = footprints.last().copied().unwrap_or(0.0);
        // The last level is memory when it reaches far enough beyond the last cache, and is not that cache itself.
        let reaches = stairs.levels.len() > 1 && stairs.levels.last().is_some_and(|level| level.to >= needed);
        let mut found =
            FoundLevels { residual: stairs.monotone_residual, memory_from: needed, ..FoundLevels::default() };
        if !reaches {
            found.no_memory = Some(format!(
                "DRAM begins at {OVER_LAST_CACHE} × the last cache ({:.0} MiB here, the larger of reported and \
                 found), but the largest footprint was {:.0} MiB",
                needed / f64::from(1 << 20),
                largest / f64::from(1 << 20)
            ));
        }
        let caches = if reaches { caches_of(stairs) } else { stairs.levels.len() };
        let names = assign(&ends[..caches.min(ends.len())], &unsteady[..caches], claims);
        found.missed = claims.iter().filter(|(level, _)| !names.contains(&Some(*level))).copied().collect();
        for (index, level) in stairs.levels.iter().enumerate() {
            let number = names.get(index).copied().flatten();
            let name = match number {
                Some(number) => format!("L{number}"),
                None if reaches && index + 1 == stairs.levels.len() => MEMORY.to_owned(),
                // As slow as memory: a stretch of the way there.
                None if index >= caches => {
                    found.slow.push([level.from, level.to]);
                    continue;
                }
                None => {
                    let list = if unsteady[index] { &mut found.unsteady } else { &mut found.unclaimed };
                    list.push([level.from, level.to]);
                    continue;
                }
            };
            let claimed = claims.iter().find(|(claimed, _)| Some(*claimed) == number).map(|(_, size)| *size);
            found.levels.push(Named {
                name,
                latency: level.latency,
                middle: middle(footprints, level),
                ends: ends.get(index).copied(),
                claimed,
            });
        }
        found
    }
}

/// How many plateaus are those of caches where the last one is that of memory: those that it takes a good deal longer than.
fn caches_of(stairs: &Staircase) -> usize {
    let memory = stairs.levels.last().map_or(0.0, |level| level.latency);
    stairs.levels.iter().take_while(|level| level.latency * MEMORY_OVER_CACHE <= memory).count()
}

/// First and last footprint of the middle half of a plateau.
fn middle(footprints: &[f64], level: &Plateau) -> [f64; 2] {
    let margin = level.points.len() / 4;
    [footprints[level.points.start + margin], footprints[level.points.end - 1 - margin]]
}

/// Whether the launches of a plateau disagree, in the middle of its points.
fn is_unsteady(points: &[FootprintPoint], level: &Plateau) -> bool {
    let margin = level.points.len() / 4;
    let middle = &points[level.points.start + margin..level.points.end - margin];
    let spread = |point: &FootprintPoint| {
        let launches: Vec<f64> = point.launches.values().copied().collect();
        Some(quantile(&launches, 0.75)? / point.undisturbed)
    };
    median(&middle.iter().filter_map(spread).collect::<Vec<f64>>()).is_some_and(|spread| spread >= UNSTEADY)
}

/// Which claimed level each cache plateau is, in order: as many as can be, of those assignments the ones with the fewest unsteady
/// plateaus, and of those the one whose capacities are closest to the claims. Without any claim they are numbered.
fn assign(ends: &[[f64; 2]], unsteady: &[bool], claims: &[(u32, u64)]) -> Vec<Option<u32>> {
    let plateaus = unsteady.len();
    if claims.is_empty() {
        return (1..=plateaus as u32).map(Some).collect();
    }
    // Matching plateau p to claim c costs the logarithm of the ratio of their sizes; a last plateau without an end fits all.
    let cost = |plateau: usize, claim: usize| {
        ends.get(plateau).map_or(0.0, |[low, high]| ((low * high).sqrt() / claims[claim].1 as f64).ln().abs())
    };
    // Those left out, the unsteady ones among the others, and the distance from the claims.
    let (mut best, mut least) = (vec![None; plateaus], (usize::MAX, 0, f64::INFINITY));
    // At most five plateaus and four claims: every monotone assignment is tried.
    let mut pending = vec![(0_usize, 0_usize, vec![None; plateaus], 0.0_f64, 0_usize)];
    while let Some((plateau, claim, names, total, left_out)) = pending.pop() {
        if plateau == plateaus {
            let named = names.iter().zip(unsteady).filter(|(name, unsteady)| name.is_some() && **unsteady).count();
            if (left_out, named, total) < least {
                (best, least) = (names, (left_out, named, total));
            }
            continue;
        }
        pending.push((plateau + 1, claim, names.clone(), total, left_out + 1));
        for (next, (level, _)) in claims.iter().enumerate().skip(claim) {
            let mut names = names.clone();
            names[plateau] = Some(*level);
            pending.push((plateau + 1, next + 1, names, total + cost(plateau, next), left_out));
        }
    }
    best
}

/// Between which sizes each level ends: the capacity that the curve itself gives, widened by what 95 % of resampled
/// launches give. Levels of a resampled curve are found again by their latency.
fn spread(points: &[FootprintPoint], footprints: &[f64], stairs: &Staircase, memory: f64, seed: u64) -> Vec<[f64; 2]> {
    let mut numbers: Vec<u32> = points.iter().flat_map(|point| point.launches.keys().copied()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut seen: Vec<(Vec<f64>, Vec<f64>)> = vec![(Vec::new(), Vec::new()); stairs.capacities.len()];
    for drawn in resamplings(&numbers, RESAMPLINGS, seed) {
        let latencies: Vec<f64> = points
            .iter()
            .map(|point| {
                let values = drawn.iter().filter_map(|number| point.launches.get(number).copied());
                lower_quartile(values).unwrap_or(point.undisturbed)
            })
            .collect();
        let Some(again) = staircase(footprints, &latencies, None, (memory > 0.0).then_some(memory)) else { continue };
        for (index, level) in stairs.levels.iter().take(stairs.capacities.len()).enumerate() {
            let same = |other: &Plateau| (other.latency / level.latency).ln().abs() < SAME_PLATEAU.ln();
            let Some(place) = again.levels.iter().position(same) else { continue };
            let Some(capacity) = again.capacities.get(place) else { continue };
            seen[index].0.push(capacity.at_least);
            seen[index].1.push(capacity.at_most);
        }
    }
    stairs
        .capacities
        .iter()
        .zip(seen)
        .map(|(capacity, (least, most))| {
            let low = quantile(&least, 0.025).unwrap_or(capacity.at_least);
            let high = quantile(&most, 0.975).unwrap_or(capacity.at_most);
            [low.min(capacity.at_least), high.max(capacity.at_most)]
        })
        .collect()
}

/// Labels of a level's latency.
pub(super) fn level_labels(level: &str, pages: Pages) -> Labels {
    Labels::of([("level", level), ("pages", pages_label(pages))])
}

/// The footprints that a level's latency is taken from.
pub(super) fn points_of<'a>(
    curves: &'a Curves,
    found: &FoundLevels,
    level: &Named,
    pages: Pages,
) -> Vec<&'a FootprintPoint> {
    let random = curves.points(Pattern::Random, pages);
    if level.name != MEMORY {
        let [low, high] = level.middle;
        let of = |unit: Unit| -> Vec<&FootprintPoint> {
            let within = |point: &&FootprintPoint| (low..=high).contains(&(point.bytes as f64));
            random.iter().filter(within).filter(|point| point.sample.unit == unit).collect()
        };
        // Footprints up to twice the second cache are timed in core cycles, those beyond as they are: no figure mixes them.
        let (cycles, time) = (of(Unit::Cycles), of(Unit::Nanoseconds));
        return if cycles.len() > time.len() { cycles } else { time };
    }
    // One footprint beyond all caches, the one with most launches: memory is not flat, translations grow with it.
    let beyond = random.iter().filter(|point| point.bytes as f64 >= found.memory_from);
    beyond.max_by_key(|point| (point.launches.len(), point.bytes)).into_iter().collect()
}

/// The estimate of a level: what the core clocks undisturbed, what is shared as it was.
pub(super) fn estimate_of(points: &[&FootprintPoint], level: &str) -> Option<(Sample, Estimate)> {
    let sample = Sample::joined(points.iter().map(|point| &point.sample))?;
    let shared = !["L1", "L2"].contains(&level);
    let estimate = if shared { Estimate::median(&sample) } else { Estimate::undisturbed(&sample) };
    Some((sample, estimate?))
}

pub(super) fn in_time(study: &Study<'_>, estimate: &Estimate) -> f64 {
    match (estimate.unit, study.core) {
        (Unit::Cycles, Some(core)) => estimate.value * core.period().0,
        _ => estimate.value,
    }
}

/// An estimate that is a pair of bounds; its value is their middle on the scale of ratios.
pub(super) fn bounds(study: &Study<'_>, low: f64, high: f64, estimator: &str) -> Estimate {
    let launches = study.launches.len() as u32;
    Estimate {
        unit: Unit::Bytes,
        value: (low * high).sqrt(),
        interval: [low, high],
        level: LEVEL,
        typical: None,
        stddev: 0.0,
        quantiles: None,
        estimator: estimator.to_owned(),
        launches,
        restless: 0,
        account: Account {
            taken: u64::from(launches),
            clean: u64::from(launches),
            operations: 1,
            ..Account::default()
        },
        shared: None,
        modes: None,
        over_launches: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::sample::Account;

    const KIB: f64 = 1024.0;

    /// A curve over four points to the octave whose launches scatter by 1 %.
    fn points(caches: &[(f64, f64)], memory: f64, to: f64) -> Vec<FootprintPoint> {
        let mut random = fastrand::Rng::with_seed(5);
        (0..100)
            .map(|step| (KIB * (f64::from(step) / 4.0).exp2() / 64.0).round() * 64.0)
            .take_while(|bytes| *bytes <= to)
            .map(|bytes| {
                let latency = caches.iter().find(|(size, _)| bytes <= *size).map_or(memory, |(_, latency)| *latency);
                let launches: BTreeMap<u32, f64> =
                    (1..=20).map(|number| (number, latency * (0.99 + 0.02 * random.f64()))).collect();
                let values: Vec<f64> = launches.values().copied().collect();
                let sample = Sample {
                    unit: Unit::Nanoseconds,
                    launches: values.iter().map(|value| vec![*value]).collect(),
                    numbers: (1..=20).collect(),
                    account: Account::default(),
                    picked: None,
                };
                let latency = median(&values).unwrap();
                let undisturbed = lower_quartile(values.iter().copied()).unwrap();
                FootprintPoint { bytes: bytes as u64, sample, latency, interval: [latency; 2], undisturbed, launches }
            })
            .collect()
    }

    const CLAIMS: [(u32, u64); 3] = [(1, 32 << 10), (2, 1 << 20), (3, 32 << 20)];
    const LAST: u64 = CLAIMS[CLAIMS.len() - 1].1;

    fn names(found: &FoundLevels) -> Vec<&str> {
        found.levels.iter().map(|level| level.name.as_str()).collect()
    }

    #[test]
    fn levels_are_named_and_hold_what_is_claimed() {
        let truth = [(32.0 * KIB, 1.0), (1024.0 * KIB, 4.0), (32_768.0 * KIB, 13.0)];
        let found = FoundLevels::of(&points(&truth, 100.0, 160.0 * 1024.0 * KIB), &CLAIMS, LAST, 1).unwrap();
        assert_eq!(names(&found), ["L1", "L2", "L3", "DRAM"]);
        for (level, (size, latency)) in found.levels.iter().zip(truth) {
            let [low, high] = level.ends.unwrap();
            assert!(low <= size && size <= high && high < 1.3 * low, "{level:?}");
            assert!((level.latency / latency - 1.0).abs() < 0.02, "{level:?}");
        }
        assert!(found.no_memory.is_none() && found.missed.is_empty() && found.unclaimed.is_empty());
    }

    #[test]
    fn a_smaller_cache_than_claimed_keeps_its_name() {
        let truth = [(32.0 * KIB, 1.0), (1024.0 * KIB, 4.0), (6144.0 * KIB, 13.0)];
        let found = FoundLevels::of(&points(&truth, 100.0, 160.0 * 1024.0 * KIB), &CLAIMS, LAST, 1).unwrap();
        assert_eq!(names(&found), ["L1", "L2", "L3", "DRAM"]);
        assert!(found.level("L3").unwrap().ends.unwrap()[1] < 8192.0 * KIB);
    }

    #[test]
    fn memory_that_is_not_reached_is_not_measured() {
        let truth = [(32.0 * KIB, 1.0), (1024.0 * KIB, 4.0), (6144.0 * KIB, 13.0)];
        // Four times the claimed 32 MiB are needed.
        let found = FoundLevels::of(&points(&truth, 100.0, 64.0 * 1024.0 * KIB), &CLAIMS, LAST, 1).unwrap();
        assert_eq!(found.level("DRAM"), None);
        assert!(found.no_memory.unwrap().contains("128 MiB"));
        // Four times the found 64 MiB, where less is claimed.
        let truth = [(32.0 * KIB, 1.0), (1024.0 * KIB, 4.0), (65_536.0 * KIB, 13.0)];
        let found = FoundLevels::of(&points(&truth, 100.0, 128.0 * 1024.0 * KIB), &CLAIMS, LAST, 1).unwrap();
        assert_eq!(found.level("DRAM"), None);
    }

    #[test]
    fn a_plateau_as_slow_as_memory_is_a_stretch_of_the_way_there() {
        let truth = [(32.0 * KIB, 1.0), (1024.0 * KIB, 4.0), (8192.0 * KIB, 13.0), (65_536.0 * KIB, 80.0)];
        let found = FoundLevels::of(&points(&truth, 100.0, 256.0 * 1024.0 * KIB), &CLAIMS, LAST, 1).unwrap();
        assert_eq!(names(&found), ["L1", "L2", "L3", "DRAM"]);
        assert!((found.level("L3").unwrap().latency / 13.0 - 1.0).abs() < 0.02 && found.no_memory.is_none());
        assert!((found.level("DRAM").unwrap().latency / 100.0 - 1.0).abs() < 0.02 && found.unclaimed.is_empty());
    }

    #[test]
    fn a_plateau_that_is_memory_in_some_launches_is_no_cache() {
        // Other users of the cache leave 8 of 32 MiB. Above, a launch finds what they did not evict at its time.
        let truth = [(32.0 * KIB, 1.0), (512.0 * KIB, 4.0), (8192.0 * KIB, 17.0), (28_000.0 * KIB, 60.0)];
        let mut points = points(&truth, 145.0, 256.0 * 1024.0 * KIB);
        let claims = [(1, 32 << 10), (2, 512 << 10), (3, 32 << 20)];
        let steady = FoundLevels::of(&points, &claims, LAST, 1).unwrap();
        assert!((steady.level("L3").unwrap().latency / 60.0 - 1.0).abs() < 0.02, "the claim decides: {steady:?}");
        for point in points.iter_mut().filter(|point| (8e6..28e6).contains(&(point.bytes as f64))) {
            point.launches.iter_mut().filter(|(number, _)| *number % 2 == 0).for_each(|(_, latency)| *latency = 120.0);
        }
        let found = FoundLevels::of(&points, &claims, LAST, 1).unwrap();
        assert_eq!(names(&found), ["L1", "L2", "L3", "DRAM"]);
        let third = found.level("L3").unwrap();
        assert!((third.latency / 17.0 - 1.0).abs() < 0.02 && third.ends.unwrap()[1] < 16384.0 * KIB, "{third:?}");
        assert!(found.unsteady.len() == 1 && found.unclaimed.is_empty());
    }

    #[test]
    fn a_missing_level_is_the_one_that_fits_worst() {
        let truth = [(32.0 * KIB, 1.0), (1024.0 * KIB, 4.0)];
        let found = FoundLevels::of(&points(&truth, 100.0, 160.0 * 1024.0 * KIB), &CLAIMS, LAST, 1).unwrap();
        assert_eq!(names(&found), ["L1", "L2", "DRAM"]);
        assert_eq!(found.missed, [(3, 32 << 20)]);
        let truth = [(32.0 * KIB, 1.0), (30_000.0 * KIB, 13.0)];
        let found = FoundLevels::of(&points(&truth, 100.0, 160.0 * 1024.0 * KIB), &CLAIMS, LAST, 1).unwrap();
        assert_eq!(names(&found), ["L1", "L3", "DRAM"]);
    }

    #[test]
    fn a_plateau_too_many_gets_no_name() {
        let truth = [(32.0 * KIB, 1.0), (256.0 * KIB, 3.0), (1024.0 * KIB, 4.5), (32_768.0 * KIB, 13.0)];
        let found = FoundLevels::of(&points(&truth, 100.0, 160.0 * 1024.0 * KIB), &CLAIMS, LAST, 1).unwrap();
        assert_eq!(names(&found), ["L1", "L2", "L3", "DRAM"]);
        assert_eq!(found.unclaimed.len(), 1);
        let found = FoundLevels::of(&points(&truth, 100.0, 160.0 * 1024.0 * KIB), &[], LAST, 1).unwrap();
        assert_eq!(names(&found), ["L1", "L2", "L3", "L4", "DRAM"]);
    }
}
