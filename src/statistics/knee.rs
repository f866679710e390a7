//! The levels of a latency curve and the capacities between them: caches and memory, seen from outside.
//!
//! Latency against footprint is a staircase whose steps may be sharp (huge pages, a cache that replaces the oldest line) or
//! drawn out over octaves (random physical pages, a cache shared with others). On the scale of ln(latency) against
//! log₂(footprint):
//!
//! 1. the closest non-decreasing curve is fitted, since latency cannot fall with footprint; what does not fit is reported,
//!    and too much of it is a failed measurement (gate G20);
//! 2. the fitted curve is cut into pieces of constant level, at the least absolute distance with a penalty on pieces;
//! 3. neighbouring pieces that rise gently are joined, since far levels are not flat; pieces that are then short or steep
//!    are ramps, the others levels; neighbouring levels less than 20 % apart are one;
//! 4. from a footprint on that the caller names, everything is memory: one level by definition, because no curve is flat
//!    just beyond a cache that keeps a share of everything;
//! 5. the end of a level gives the capacity behind it, as an interval.

use std::ops::Range;

use super::fit::theil_sen;
use super::monotone::{isotonic_residual, isotonic_unweighted};
use super::segmentation::{noise_around_curve, penalty, segments};
use super::summary::{finite, logarithms, median};

/// Penalty of a piece in units of `ln(n)·σ²`. Lower than for steady states: a piece too many is a ramp or is merged.
const PENALTY: f64 = 4.0;

/// Least noise assumed, on the log scale. Even a quiet curve bends by half a percent inside a level (translation misses,
/// the rounding of a cycle), which is not a reason to cut.
const LEAST_NOISE: f64 = 0.005;

/// Fewest points of a level.
const SHORTEST_LEVEL_POINTS: usize = 3;

/// Shortest extent of a level, in octaves of footprint.
const SHORTEST_LEVEL_OCTAVES: f64 = 0.75;

/// Slope from which a piece is a ramp, in ln(latency) per octave.
const RAMP_SLOPE: f64 = 0.25;

/// Slope up to which neighbouring pieces are one, in ln(latency) per octave: levels of a last cache rise by as much, because
/// translations cost more and neighbours take their share, ramps rise by five times as much and more.
const GENTLE_SLOPE: f64 = 0.12;

/// Levels whose latencies are closer than this ratio are one level.
const ONE_LEVEL_BELOW: f64 = 1.2;

/// A point belongs to a level while it is at most this ratio above it.
const STILL_ON_LEVEL: f64 = 1.1;

/// A plateau of the curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Plateau {
    /// Median of the middle half of its points, away from the bends at its ends; positive.
    pub latency: f64,
    /// Its points in the input.
    pub points: Range<usize>,
    /// Its first footprint.
    pub from: f64,
    /// Its last footprint.
    pub to: f64,
}

/// Capacity at the end of a level, as an interval of footprints: `at_least <= at_most`.
///
/// It spans the step of the grid on which the curve leaves the level by 10 % and, where a ramp follows, the footprint at
/// which half of the loads miss. The capacity lies between: a cache that replaces the oldest line has no ramp; one that
/// replaces random lines keeps, of a cycle through a footprint S, the share h = exp(-(1 - h)·S/C) (a line must survive the
/// misses of one turn), which is half at 1.39C; and where physical pages fill its sets at random, the fullest overflow long
/// before C, and half miss about there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// Lower end.
    pub at_least: f64,
    /// Upper end.
    pub at_most: f64,
}

/// What a latency curve consists of.
#[derive(Debug, Clone, PartialEq)]
pub struct Staircase {
    /// The levels, by ascending footprint. Can be empty: a curve that only rises has none.
    pub levels: Vec<Plateau>,
    /// The capacities between them: one less than there are levels.
    pub capacities: Vec<Capacity>,
    /// Largest relative distance of the curve from the closest non-decreasing one; above 0.05 the measurement is at fault.
    pub monotone_residual: f64,
}

/// A ramp shorter than this many octaves is a step, the work of a cache that replaces the oldest line.
const SHORTEST_RAMP_OCTAVES: f64 = 0.5;

/// The curve on its logarithmic scales.
struct LogCurve {
    octaves: Vec<f64>,
    /// Isotonic fit of ln(latency).
    fitted: Vec<f64>,
    /// Standard deviation of ln(latency) around it.
    noise: f64,
}

/// Finds the levels of a latency curve and the capacities between them. From the footprint `memory` on, where one is given,
/// all points are one level.
///
/// `footprints` are positive and strictly ascending, `latencies` positive; about four points to the octave let a level of
/// two octaves be seen. `noise` is the relative standard deviation of a point where it is known (from the spread of launches);
/// otherwise it is taken from the second differences of the curve. Wants five points.
pub fn staircase(footprints: &[f64], latencies: &[f64], noise: Option<f64>, memory: Option<f64>) -> Option<Staircase> {
    if footprints.len() != latencies.len() || footprints.len() < 5 || !footprints.is_sorted_by(|a, b| a < b) {
        return None;
    }
    let logarithmic = logarithms(latencies)?;
    let curve = LogCurve {
        octaves: logarithms(footprints)?.iter().map(|footprint| footprint / std::f64::consts::LN_2).collect(),
        fitted: isotonic_unweighted(&logarithmic)?,
        noise: noise.or_else(|| noise_around_curve(&logarithmic))?.max(LEAST_NOISE),
    };
    let cut = segments(&curve.fitted, penalty(PENALTY, latencies.len(), curve.noise), 1)?;
    let mut plateaus: Vec<Range<usize>> = curve.joined(cut).into_iter().filter(|piece| curve.is_level(piece)).collect();
    if let Some(from) = memory.and_then(|memory| footprints.iter().position(|footprint| *footprint >= memory)) {
        plateaus.retain(|plateau| plateau.end <= from || plateau.start < from);
        if let Some(last) = plateaus.last_mut() {
            last.end = last.end.min(from);
        }
        plateaus.push(from..footprints.len());
    }
    let levels = merge(plateaus, latencies)?
        .into_iter()
        .map(|points| level(footprints, latencies, points))
        .collect::<Option<Vec<Plateau>>>()?;
    let capacities =
        levels.windows(2).map(|pair| capacity(footprints, latencies, &pair[0], &pair[1])).collect::<Vec<Capacity>>();
    Some(Staircase { levels, capacities, monotone_residual: isotonic_residual(latencies)? })
}

impl LogCurve {
    /// Joins neighbouring pieces, the closest first, as long as what they make together rises gently and by less than distinguishes
    /// two levels.
    fn joined(&self, mut pieces: Vec<Range<usize>>) -> Vec<Range<usize>> {
        let rise = |piece: &Range<usize>| self.fitted[piece.end - 1] - self.fitted[piece.start];
        let gentle = |piece: &Range<usize>| {
            let extent = self.octaves[piece.end - 1] - self.octaves[piece.start];
            rise(piece) <= (GENTLE_SLOPE * extent).max(3.0 * self.noise)
        };
        loop {
            let step = |place: usize| self.fitted[pieces[place + 1].start] - self.fitted[pieces[place].end - 1];
            let nearest = (0..pieces.len().saturating_sub(1))
                .filter(|&place| {
                    step(place) < ONE_LEVEL_BELOW.ln() && gentle(&(pieces[place].start..pieces[place + 1].end))
                })
                .min_by(|&one, &other| step(one).total_cmp(&step(other)));
            let Some(place) = nearest else { return pieces };
            pieces[place].end = pieces[place + 1].end;
            pieces.remove(place + 1);
        }
    }

    /// True for a piece that is long enough and flat.
    fn is_level(&self, piece: &Range<usize>) -> bool {
        let (octaves, fitted) = (&self.octaves[piece.clone()], &self.fitted[piece.clone()]);
        piece.len() >= SHORTEST_LEVEL_POINTS
            && octaves[octaves.len() - 1] - octaves[0] >= SHORTEST_LEVEL_OCTAVES
            && theil_sen(octaves, fitted, 0.95).is_some_and(|line| line.slope <= RAMP_SLOPE)
    }
}

/// Joins neighbouring plateaus whose latencies are less than a fifth apart, and all that lies between them.
fn merge(plateaus: Vec<Range<usize>>, latencies: &[f64]) -> Option<Vec<Range<usize>>> {
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(plateaus.len());
    for plateau in plateaus {
        match merged.last_mut() {
            Some(last)
                if middle_median(&latencies[plateau.clone()])?
                    < ONE_LEVEL_BELOW * middle_median(&latencies[last.clone()])? =>
            {
                last.end = plateau.end;
            }
            _ => merged.push(plateau),
        }
    }
    Some(merged)
}

fn level(footprints: &[f64], latencies: &[f64], points: Range<usize>) -> Option<Plateau> {
    Some(Plateau {
        latency: middle_median(&latencies[points.clone()])?,
        from: footprints[points.start],
        to: footprints[points.end - 1],
        points,
    })
}

/// Median of the middle half of the values, at least one of them.
fn middle_median(values: &[f64]) -> Option<f64> {
    let margin = values.len() / 4;
    median(&values[margin..values.len() - margin])
}

/// The capacity between two levels; see [`Capacity`].
fn capacity(footprints: &[f64], latencies: &[f64], level: &Plateau, next: &Plateau) -> Capacity {
    // From the start of the level on, the last point that is still on it, noise inside the level set aside.
    let last_on = (level.points.start..next.points.start)
        .rfind(|place| latencies[*place] <= STILL_ON_LEVEL * level.latency)
        .unwrap_or(level.points.start);
    let (low, high) = (footprints[last_on], footprints[last_on + 1]);
    let drawn_out = (footprints[next.points.start] / low).log2() >= SHORTEST_RAMP_OCTAVES;
    let half = half_way(footprints, latencies, last_on + 1, f64::midpoint(level.latency, next.latency));
    let half = half.filter(|_| drawn_out).unwrap_or(high);
    Capacity { at_least: low.min(half), at_most: high.max(half) }
}

/// Footprint at which the curve crosses a latency from a point on, between its points by the logarithm of the footprint.
fn half_way(footprints: &[f64], latencies: &[f64], from: usize, latency: f64) -> Option<f64> {
    let place = (from..latencies.len()).find(|&place| latencies[place] >= latency)?;
    let before = place.checked_sub(1)?;
    let share = (latency - latencies[before]) / (latencies[place] - latencies[before]);
    let (low, high) = (footprints[before].ln(), footprints[place].ln());
    finite((low + share.clamp(0.0, 1.0) * (high - low)).exp())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::synthetic::{assert_close, normal_draw};
    use super::*;

    const KIBIBYTE: f64 = 1024.0;

    /// Four points to the octave from 4 KiB, over this many octaves.
    fn footprints(octaves: u32) -> Vec<f64> {
        (0..=4 * octaves).map(|step| 4.0 * KIBIBYTE * (f64::from(step) / 4.0).exp2()).collect()
    }

    /// A staircase of (capacity, latency) with the last latency beyond all capacities, and how it passes from one level to
    /// the next: sharply, or as random access does over caches that keep a random part.
    fn curve(footprints: &[f64], caches: &[(f64, f64)], memory: f64, soft: bool) -> Vec<f64> {
        footprints
            .iter()
            .map(|footprint| {
                let (mut latency, mut covered) = (0.0, 0.0);
                for (capacity, cost) in caches {
                    let hit = (capacity / footprint).min(1.0);
                    let share = if soft { (hit - covered).max(0.0) } else { f64::from(u8::from(hit >= 1.0)) - covered };
                    latency += share * cost;
                    covered += share;
                }
                latency + (1.0 - covered) * memory
            })
            .collect()
    }

    fn with_noise(latencies: &[f64], noise: f64, seed: u64) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        latencies.iter().map(|latency| latency * (noise * normal_draw(&mut random)).exp()).collect()
    }

    const THREE_CACHES: [(f64, f64); 3] =
        [(48.0 * KIBIBYTE, 5.0), (2048.0 * KIBIBYTE, 16.0), (32_768.0 * KIBIBYTE, 70.0)];

    #[track_caller]
    fn assert_levels(found: &Staircase, expected: &[f64], tolerance: f64) {
        let latencies: Vec<f64> = found.levels.iter().map(|level| level.latency).collect();
        assert_eq!(latencies.len(), expected.len(), "{latencies:?}");
        latencies.iter().zip(expected).for_each(|(found, expected)| assert_close(*found, *expected, tolerance));
    }

    #[test]
    fn sharp_stairs_with_growing_noise() {
        let footprints = footprints(17);
        let exact = curve(&footprints, &THREE_CACHES, 300.0, false);
        for noise in [0.0, 0.01, 0.03, 0.05, 0.1] {
            for seed in 0..20 {
                let found = staircase(&footprints, &with_noise(&exact, noise, seed), None, None).unwrap();
                assert_levels(&found, &[5.0, 16.0, 70.0, 300.0], 0.01 + 1.5 * noise);
                if noise < 0.04 {
                    for (capacity, (truth, _)) in found.capacities.iter().zip(THREE_CACHES) {
                        assert!(
                            capacity.at_least <= truth * 1.001 && capacity.at_most >= truth,
                            "{capacity:?} {truth}"
                        );
                        assert!(capacity.at_most < 1.2 * capacity.at_least);
                    }
                }
            }
        }
    }

    #[test]
    fn two_caches_and_no_third() {
        let footprints = footprints(15);
        let exact = curve(&footprints, &THREE_CACHES[..2], 200.0, false);
        for seed in 0..20 {
            let found = staircase(&footprints, &with_noise(&exact, 0.03, seed), Some(0.03), None).unwrap();
            assert_levels(&found, &[5.0, 16.0, 200.0], 0.06);
        }
    }

    #[test]
    fn soft_knees_give_capacities_near_the_truth() {
        let footprints = footprints(19);
        let exact = curve(&footprints, &THREE_CACHES, 300.0, true);
        for seed in 0..20 {
            let found = staircase(&footprints, &with_noise(&exact, 0.01, seed), None, None).unwrap();
            let latencies: Vec<f64> = found.levels.iter().map(|level| level.latency).collect();
            assert!(latencies.len() >= 3, "{latencies:?}");
            assert_close(latencies[0], 5.0, 0.03);
            assert_close(latencies[1], 16.0, 0.15);
            for (capacity, (truth, _)) in found.capacities.iter().zip(THREE_CACHES) {
                assert!(
                    capacity.at_least <= truth * 1.001 && capacity.at_most >= truth * 0.999,
                    "{capacity:?} {truth}"
                );
                // Half of the loads miss at twice the capacity here, where a random part is kept.
                assert!(capacity.at_most < 3.0 * capacity.at_least, "{capacity:?}");
            }
        }
    }

    #[test]
    fn a_spike_is_reported_and_makes_no_level() {
        let footprints = footprints(17);
        let mut latencies = curve(&footprints, &THREE_CACHES, 300.0, false);
        latencies[25] *= 1.8;
        let found = staircase(&footprints, &latencies, None, None).unwrap();
        assert!(found.monotone_residual > 0.05);
        assert_levels(&found, &[5.0, 16.0, 70.0, 300.0], 0.05);
        let clean = staircase(&footprints, &curve(&footprints, &THREE_CACHES, 300.0, false), None, None).unwrap();
        assert!(clean.monotone_residual < 1e-12);
    }

    #[test]
    fn one_level_and_close_levels() {
        let footprints = footprints(8);
        assert_levels(&staircase(&footprints, &vec![5.0; footprints.len()], None, None).unwrap(), &[5.0], 1e-12);
        // Ten percent apart: one level.
        let close = curve(&footprints, &[(64.0 * KIBIBYTE, 40.0)], 44.0, false);
        assert_eq!(staircase(&footprints, &close, None, None).unwrap().levels.len(), 1);
    }

    #[test]
    fn a_curve_that_only_rises_has_no_level() {
        let footprints = footprints(12);
        let found = staircase(&footprints, &footprints, None, None).unwrap();
        assert!(found.levels.is_empty() && found.capacities.is_empty());
    }

    #[test]
    fn what_has_no_answer_is_none() {
        assert_eq!(staircase(&[1.0, 2.0, 4.0, 8.0], &[1.0; 4], None, None), None);
        assert_eq!(staircase(&[1.0, 2.0, 2.0, 8.0, 16.0], &[1.0; 5], None, None), None);
        assert_eq!(staircase(&[1.0, 2.0, 4.0, 8.0, 16.0], &[1.0, 1.0, 0.0, 1.0, 1.0], None, None), None);
        assert_eq!(staircase(&[1.0, 2.0, 4.0, 8.0, f64::NAN], &[1.0; 5], None, None), None);
        assert_eq!(staircase(&[-1.0, 2.0, 4.0, 8.0, 16.0], &[1.0; 5], None, None), None);
    }

    proptest! {
        #[test]
        fn levels_and_capacities_are_ordered(latencies in prop::collection::vec(1.0..500.0_f64, 5..60)) {
            let footprints: Vec<f64> = (0..latencies.len()).map(|step| (step as f64 / 4.0).exp2()).collect();
            let found = staircase(&footprints, &latencies, None, None).unwrap();
            prop_assert_eq!(found.capacities.len(), found.levels.len().saturating_sub(1));
            prop_assert!(found.levels.windows(2).all(|pair| pair[0].points.end <= pair[1].points.start));
            prop_assert!(found.capacities.iter().all(|capacity| capacity.at_least <= capacity.at_most));
        }
    }
}
