//! The dip statistic: how far a sample is from every distribution with one mode (Hartigan & Hartigan, Annals of Statistics
//! 13, 1985).
//!
//! It is the least possible largest distance between the empirical distribution function and the distribution function of
//! a unimodal distribution. Such a function is convex below the mode and concave above it; the algorithm (Hartigan, Applied
//! Statistics 34, 1985, AS 217) narrows down the interval of the mode with the greatest convex minorant and the least concave
//! majorant of the empirical function. Skewed and heavy tails leave the dip alone, which is why it and not a coefficient made
//! of skewness and kurtosis is used: latencies are skewed always and bimodal sometimes.

use std::cmp::Ordering;

use super::summary::{sorted, usable};

/// The dip of a sample, in `[1/(2n), 1/4]`. Wants four values.
///
/// Equal values are atoms, and two atoms are two modes: values must be finer than the gap that matters.
pub fn dip(values: &[f64]) -> Option<f64> {
    let ordered = sorted(values)?;
    if ordered.len() < 4 {
        return None;
    }
    // The dip does not depend on scale; on [0, 1] no product overflows. Halves, because the range itself can overflow.
    let (least, half_range) = (ordered[0], ordered[ordered.len() - 1] / 2.0 - ordered[0] / 2.0);
    let scaled: Vec<f64> = ordered.iter().map(|value| (value / 2.0 - least / 2.0) / half_range).collect();
    let doubled = if usable(&scaled) { EmpiricalDistribution::of(&scaled).doubled_dip() } else { 1.0 };
    Some(doubled / (2.0 * ordered.len() as f64))
}

/// The dip above which a sample of this size is not unimodal, at a level of one percent: `0.61/√n`.
///
/// By simulation of the uniform distribution, the unimodal one with the largest dip: 0.7 % of its samples of 200 values
/// exceed it, 0.3 % of 50 and 0.1 % of 20. Samples of any other unimodal distribution exceed it more rarely.
pub fn critical_dip(count: usize) -> f64 {
    0.61 / (count.max(1) as f64).sqrt()
}

/// The empirical distribution function of ordered values, counted in values: it steps from `i` to `i + 1` at place `i`. Its
/// two hulls are chains of places.
struct EmpiricalDistribution<'a> {
    ordered: &'a [f64],
    /// For each place, the one before it on the greatest convex minorant of the places up to it.
    before: Vec<usize>,
    /// For each place, the one after it on the least concave majorant of the places from it on.
    after: Vec<usize>,
}

/// Widest gap between the two hulls, and the positions in their chains that enclose it.
struct Gap {
    width: f64,
    in_convex: usize,
    in_concave: usize,
}

impl<'a> EmpiricalDistribution<'a> {
    fn of(ordered: &'a [f64]) -> Self {
        let last = ordered.len() - 1;
        let mut before = vec![0; ordered.len()];
        for place in 1..=last {
            let mut candidate = place - 1;
            while candidate > 0 && compare_slopes(ordered, before[candidate], candidate, place) != Ordering::Less {
                candidate = before[candidate];
            }
            before[place] = candidate;
        }
        let mut after = vec![last; ordered.len()];
        for place in (0..last).rev() {
            let mut candidate = place + 1;
            while candidate < last && compare_slopes(ordered, place, candidate, after[candidate]) != Ordering::Greater {
                candidate = after[candidate];
            }
            after[place] = candidate;
        }
        EmpiricalDistribution { ordered, before, after }
    }

    /// Twice the dip, in values. The interval of the mode starts as the whole sample and shrinks to where the hulls are
    /// farthest apart; outside of it, each hull has to stay as close to the function as it does.
    fn doubled_dip(&self) -> f64 {
        let (mut low, mut high) = (0, self.ordered.len() - 1);
        // A step of one value cannot be approached closer than by half of it.
        let mut distance = 1.0_f64;
        loop {
            let convex = chain(high, low, &self.before);
            let concave = chain(low, high, &self.after);
            let gap = self.widest_gap(&convex, &concave);
            if gap.width < distance {
                return distance;
            }
            for piece in convex[gap.in_convex..].windows(2) {
                distance = distance.max(self.distance_from_chord(piece[1], piece[0], 1.0));
            }
            for piece in concave[gap.in_concave..].windows(2) {
                distance = distance.max(self.distance_from_chord(piece[0], piece[1], -1.0));
            }
            let narrowed = (convex[gap.in_convex], concave[gap.in_concave]);
            // Only a smaller interval is progress; rounding must not send the walk in circles.
            if narrowed.0 >= narrowed.1 || narrowed.1 - narrowed.0 >= high - low {
                return distance;
            }
            (low, high) = narrowed;
        }
    }

    /// Walks along both hulls (the convex chain runs downwards, the concave one upwards) and looks at the gap at every
    /// place of either.
    fn widest_gap(&self, convex: &[usize], concave: &[usize]) -> Gap {
        let mut widest = Gap { width: 0.0, in_convex: convex.len() - 1, in_concave: concave.len() - 1 };
        if convex.len() == 2 && concave.len() == 2 {
            widest.width = 1.0;
            return widest;
        }
        let (mut lower, mut upper) = (convex.len() - 2, 1);
        loop {
            let (convex_place, concave_place) = (convex[lower], concave[upper]);
            let gap = if convex_place > concave_place {
                let start = convex[lower + 1];
                let chord = self.chord(start, convex_place, concave_place);
                let gap =
                    Gap { width: (concave_place - start + 1) as f64 - chord, in_convex: lower + 1, in_concave: upper };
                upper = (upper + 1).min(concave.len() - 1);
                gap
            } else {
                let start = concave[upper - 1];
                let chord = self.chord(start, concave_place, convex_place);
                let gap = Gap {
                    width: chord - (convex_place as f64 - start as f64 - 1.0),
                    in_convex: lower,
                    in_concave: upper,
                };
                lower = lower.saturating_sub(1);
                gap
            };
            if gap.width >= widest.width {
                widest = gap;
            }
            if convex[lower] == concave[upper] {
                return widest;
            }
        }
    }

    /// Height above `start`, at a place, of the straight line from `start` to `end`. Not a number where the line is upright,
    /// which no comparison takes for a width.
    fn chord(&self, start: usize, end: usize, place: usize) -> f64 {
        let x = self.ordered;
        (x[place] - x[start]) * (end - start) as f64 / (x[end] - x[start])
    }

    /// Largest distance of the function above (`side` = 1) or below (`side` = -1) the line between two places, at least one
    /// step.
    fn distance_from_chord(&self, start: usize, end: usize, side: f64) -> f64 {
        if end - start < 2 || self.ordered[end] <= self.ordered[start] {
            return 1.0;
        }
        (start..=end)
            .map(|place| side * ((place - start) as f64 - self.chord(start, end, place)) + 1.0)
            .fold(1.0, f64::max)
    }
}

/// Order of the slope from the first place to the second and the slope from the second to the third, without dividing.
fn compare_slopes(ordered: &[f64], first: usize, second: usize, third: usize) -> Ordering {
    let into = (second - first) as f64 * (ordered[third] - ordered[second]);
    let out = (third - second) as f64 * (ordered[second] - ordered[first]);
    into.total_cmp(&out)
}

/// The places from one to another along a hull, both included.
fn chain(from: usize, to: usize, next: &[usize]) -> Vec<usize> {
    let mut places = vec![from];
    let mut place = from;
    while place != to {
        place = next[place];
        places.push(place);
    }
    places
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::synthetic::{assert_close, normal};
    use super::*;

    #[test]
    fn faculty_of_the_paper() {
        // Hartigan & Hartigan 1985, quality of 63 statistics faculties: a dip of 0.0595.
        let faculty = [
            30, 33, 35, 36, 37, 37, 39, 39, 39, 39, 39, 40, 40, 40, 40, 41, 42, 43, 43, 43, 44, 44, 45, 45, 46, 47, 47,
            48, 48, 48, 49, 50, 50, 51, 52, 52, 53, 53, 53, 53, 53, 54, 54, 57, 57, 59, 60, 60, 60, 61, 61, 61, 61, 62,
            62, 62, 62, 63, 66, 70, 72, 72, 72,
        ];
        let values: Vec<f64> = faculty.iter().map(|quality| f64::from(*quality)).collect();
        assert_close(dip(&values).unwrap(), 0.059_523_81, 1e-6);
    }

    #[test]
    fn one_even_mode_has_the_least_dip_and_two_atoms_the_largest() {
        let even: Vec<f64> = (0..50).map(f64::from).collect();
        assert_close(dip(&even).unwrap(), 0.01, 1e-12);
        let atoms: Vec<f64> = (0..100).map(|place| f64::from(place / 50)).collect();
        assert_close(dip(&atoms).unwrap(), 0.25, 0.03);
        assert_close(dip(&[3.0; 10]).unwrap(), 0.05, 1e-12);
    }

    #[test]
    fn unimodal_samples_stay_below_the_critical_dip() {
        let mut random = fastrand::Rng::with_seed(36);
        for size in [20, 50, 200] {
            let mut uniform = 0;
            for _ in 0..2000 {
                let values: Vec<f64> = (0..size).map(|_| random.f64()).collect();
                uniform += u32::from(dip(&values).unwrap() > critical_dip(size));
                let skewed: Vec<f64> = normal(&mut random, size, 0.0, 1.0).into_iter().map(f64::exp).collect();
                assert!(dip(&skewed).unwrap() <= critical_dip(size));
            }
            assert!(uniform <= 30, "{size}: {uniform}");
        }
    }

    #[test]
    fn two_modes_exceed_the_critical_dip() {
        let mut random = fastrand::Rng::with_seed(37);
        let mut values = normal(&mut random, 50, 100.0, 2.0);
        values.extend(normal(&mut random, 50, 115.0, 2.0));
        assert!(dip(&values).unwrap() > critical_dip(100));
    }

    #[test]
    fn what_has_no_answer_is_none() {
        assert_eq!(dip(&[1.0, 2.0, 3.0]), None);
        assert_eq!(dip(&[1.0, 2.0, 3.0, f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn the_dip_does_not_see_scale_offset_or_direction(values in prop::collection::vec(-1e3..1e3_f64, 4..80)) {
            let found = dip(&values).unwrap();
            let size = values.len() as f64;
            prop_assert!(found >= 0.5 / size - 1e-12 && found <= 0.25 + 0.5 / size);
            let turned: Vec<f64> = values.iter().map(|value| 5.0 - 3.0 * value).collect();
            prop_assert!((dip(&turned).unwrap() - found).abs() < 1e-9);
        }
    }
}
