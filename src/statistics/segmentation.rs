//! The best cut of a sequence into pieces of constant level.

use std::cmp::Ordering;
use std::ops::Range;

use super::summary::{NORMAL_CONSISTENCY, finite, mean, median_absolute_deviation, usable};

/// Mean absolute deviation of normal noise, in standard deviations: √(2/π).
const MEAN_ABSOLUTE_NORMAL: f64 = 0.797_884_560_802_865_4;

/// Cuts a sequence so that `Σ|value - median of its piece| + penalty · pieces` is least; every piece has at least `shortest`
/// values.
///
/// Optimal partitioning (Jackson et al., IEEE Signal Processing Letters 12, 2005): exact, quadratic in the length, meant
/// for up to some two thousand values. Distances are absolute, not squared, so that a single wild value does not get its
/// own piece. With `shortest` of 3 it never can, because the median of a piece ignores it.
///
/// Wants `shortest >= 1`, at least that many values, and a penalty that is finite and not negative.
pub fn segments(values: &[f64], penalty: f64, shortest: usize) -> Option<Vec<Range<usize>>> {
    let count = values.len();
    if !usable(values) || shortest == 0 || count < shortest || !(penalty >= 0.0 && penalty.is_finite()) {
        return None;
    }
    // best[end] is the least cost of the first `end` values and the start of the last piece in it.
    let mut best = vec![(f64::INFINITY, 0_usize); count + 1];
    best[0].0 = 0.0;
    let mut rest = ShrinkingSegment::of(values);
    let mut piece = rest.clone();
    for start in 0..=count - shortest {
        let before = best[start].0;
        if before.is_finite() {
            piece.clone_from(&rest);
            for end in (start + shortest..=count).rev() {
                let cost = before + piece.cost + penalty;
                if cost < best[end].0 {
                    best[end] = (cost, start);
                }
                piece.remove(end - 1);
            }
        }
        rest.remove(start);
    }
    let mut pieces = Vec::new();
    let mut end = count;
    while end > 0 {
        let start = best[end].1;
        pieces.push(start..end);
        end = start;
    }
    pieces.reverse();
    Some(pieces)
}

/// A piece that loses its values one after the other, and the sum of their distances from their median. A value leaves in constant
/// time, because the values are a list in ascending order.
#[derive(Clone)]
struct ShrinkingSegment {
    /// All values in ascending order. A place in this order names a value from here on.
    ordered: Vec<f64>,
    /// The place of each value of the sequence.
    places: Vec<u32>,
    /// The neighbours of each place among the values that are left.
    below: Vec<u32>,
    above: Vec<u32>,
    /// The two middle places of the values that are left, the same place where their number is odd.
    middle: [u32; 2],
    left: usize,
    cost: f64,
}

impl ShrinkingSegment {
    /// A piece of all values.
    fn of(values: &[f64]) -> Self {
        let count = values.len();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
        let mut places = vec![0; count];
        for (place, &number) in order.iter().enumerate() {
            places[number] = place as u32;
        }
        let ordered: Vec<f64> = order.iter().map(|&number| values[number]).collect();
        let middle = [count.saturating_sub(1) / 2, count / 2];
        let cost = ordered.iter().map(|value| (value - ordered[middle[0]]).abs()).sum();
        ShrinkingSegment {
            places,
            below: (0..count as u32).map(|place| place.wrapping_sub(1)).collect(),
            above: (1..=count as u32).collect(),
            middle: middle.map(|place| place as u32),
            left: count,
            cost,
            ordered,
        }
    }

    /// Removes the value with this number in the sequence.
    fn remove(&mut self, number: usize) {
        let place = self.places[number];
        let (below, above) = (self.below[place as usize], self.above[place as usize]);
        if let Some(neighbour) = self.above.get_mut(below as usize) {
            *neighbour = above;
        }
        if let Some(neighbour) = self.below.get_mut(above as usize) {
            *neighbour = below;
        }
        let [low, high] = self.middle;
        self.middle = match place.cmp(&low) {
            Ordering::Less | Ordering::Equal if low < high => [high, high],
            Ordering::Greater if low < high => [low, low],
            Ordering::Less => [low, self.above[low as usize]],
            Ordering::Equal => [below, above],
            Ordering::Greater => [self.below[low as usize], low],
        };
        self.left -= 1;
        if self.left == 0 {
            self.cost = 0.0;
            return;
        }
        // Every point between the two middle values has the same, least sum of distances, and the value takes its own distance from
        // the nearest of them along.
        let [low, high] = self.middle.map(|place| self.ordered[place as usize]);
        let value = self.ordered[place as usize];
        self.cost -= (value - value.clamp(low, high)).abs();
    }
}

/// The penalty in units of absolute distance that corresponds to `factor · ln(n) · σ²` in units of squared distance.
///
/// Both are the same number of units of twice the log-likelihood: squared distances over σ² for normal noise, twice the
/// absolute distances over the mean absolute deviation for Laplace noise.
pub fn penalty(factor: f64, count: usize, deviation: f64) -> f64 {
    factor * (count.max(1) as f64).ln() * deviation * MEAN_ABSOLUTE_NORMAL / 2.0
}

/// Standard deviation of the noise around a level that may change: from the first differences, whose median absolute
/// deviation does not see a few jumps (Rice, Annals of Statistics 12, 1984, made robust). Wants three values.
///
/// Where more than half of the differences are zero (a coarse clock), their root mean square is taken, which does see
/// jumps and so errs towards fewer pieces. Positive dependence makes it too small.
pub fn noise_around_levels(values: &[f64]) -> Option<f64> {
    difference_deviation(values, 1)
}

/// Standard deviation of the noise around a curve, from second differences: straight ramps cancel too. Wants four values.
pub fn noise_around_curve(values: &[f64]) -> Option<f64> {
    difference_deviation(values, 2)
}

fn difference_deviation(values: &[f64], order: usize) -> Option<f64> {
    if values.len() < order + 2 || !usable(values) {
        return None;
    }
    let mut differences = values.to_vec();
    // A difference of two independent values has twice the variance, a second difference (1, -2, 1) six times.
    let variance_factor: f64 = if order == 1 { 2.0 } else { 6.0 };
    for _ in 0..order {
        differences = differences.windows(2).map(|pair| pair[1] - pair[0]).collect();
    }
    let robust = median_absolute_deviation(&differences)? * NORMAL_CONSISTENCY;
    if robust > 0.0 {
        return finite(robust / variance_factor.sqrt());
    }
    let squares: Vec<f64> = differences.iter().map(|difference| difference * difference).collect();
    finite((mean(&squares)? / variance_factor).sqrt())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::summary::median;
    use super::super::synthetic::{assert_close, normal};
    use super::*;

    fn cost(values: &[f64], pieces: &[Range<usize>], penalty: f64) -> f64 {
        pieces
            .iter()
            .map(|piece| {
                let centre = median(&values[piece.clone()]).unwrap();
                penalty + values[piece.clone()].iter().map(|value| (value - centre).abs()).sum::<f64>()
            })
            .sum()
    }

    /// The least cost over every way to cut: bit `i` of the mask cuts before value `i + 1`.
    fn least_cost_by_trying_all(values: &[f64], penalty: f64, shortest: usize) -> f64 {
        (0..1_u32 << (values.len() - 1))
            .map(|mask| {
                let mut starts = vec![0];
                starts.extend((1..values.len()).filter(|place| mask >> (place - 1) & 1 == 1));
                starts.push(values.len());
                starts.windows(2).map(|ends| ends[0]..ends[1]).collect::<Vec<_>>()
            })
            .filter(|pieces| pieces.iter().all(|piece| piece.len() >= shortest))
            .map(|pieces| cost(values, &pieces, penalty))
            .fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn levels_are_cut_where_they_change() {
        let values = [1.0, 1.1, 0.9, 1.0, 5.0, 5.1, 4.9, 5.0, 2.0, 2.1, 1.9];
        assert_eq!(segments(&values, 1.0, 1).unwrap(), [0..4, 4..8, 8..11]);
        assert_eq!(segments(&values, 100.0, 1).unwrap().len(), 1);
    }

    #[test]
    fn one_wild_value_is_no_piece_of_its_own() {
        let mut values = [1.0; 12];
        values[6] = 1e6;
        assert_eq!(segments(&values, 1.0, 3).unwrap().len(), 1);
        assert_eq!(segments(&values, 1.0, 1).unwrap().len(), 3);
    }

    #[test]
    fn noise_is_seen_through_jumps_and_ramps() {
        let mut random = fastrand::Rng::with_seed(24);
        let noise = normal(&mut random, 2000, 0.0, 3.0);
        let jumps: Vec<f64> = noise.iter().enumerate().map(|(i, noise)| noise + 100.0 * (i / 500) as f64).collect();
        let ramp: Vec<f64> = noise.iter().enumerate().map(|(i, noise)| noise + 50.0 * i as f64).collect();
        assert_close(noise_around_levels(&jumps).unwrap(), 3.0, 0.05);
        assert_close(noise_around_curve(&ramp).unwrap(), 3.0, 0.08);
        let coarse: Vec<f64> = (0..100).map(|i| f64::from(u32::from(i % 10 == 0))).collect();
        assert!(noise_around_levels(&coarse).unwrap() > 0.2);
    }

    #[test]
    fn what_has_no_answer_is_none() {
        assert_eq!(segments(&[], 1.0, 1), None);
        assert_eq!(segments(&[1.0, 2.0], 1.0, 3), None);
        assert_eq!(segments(&[1.0, 2.0], 1.0, 0), None);
        assert_eq!(segments(&[1.0, 2.0], -1.0, 1), None);
        assert_eq!(segments(&[1.0, f64::NAN], 1.0, 1), None);
        assert_eq!(noise_around_levels(&[1.0, 2.0]), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn no_other_cut_is_cheaper(
            values in prop::collection::vec(-10.0..10.0_f64, 3..10), penalty in 0.1..20.0_f64, shortest in 1..3_usize,
        ) {
            let found = segments(&values, penalty, shortest).unwrap();
            let least = least_cost_by_trying_all(&values, penalty, shortest);
            prop_assert!((cost(&values, &found, penalty) - least).abs() < 1e-9);
        }
    }
}
