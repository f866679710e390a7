//! Hodges–Lehmann estimates (Annals of Mathematical Statistics 34, 1963): a centre and a difference that 29 % of wild
//! values cannot move far, with intervals from the ranks alone.

use super::distribution::{normal_factor, strictly_between};
use super::interval::Interval;
use super::summary::{finite, median, quantile_of_sorted, sorted, usable};

/// Up to this many values in both samples together the distribution of the ranks is counted exactly.
const EXACT_COUNTING_UP_TO: usize = 100;

/// Most values of one sample for the exact signed-rank distribution: 2⁶⁰ sign patterns fit the counters.
const EXACT_SIGNS_UP_TO: usize = 60;

/// An estimate and its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    pub estimate: f64,
    /// Its interval, with the confidence it reaches: few values cannot give a high one, and then the interval spans all
    /// pairs.
    pub interval: Interval,
}

/// Difference of location `other - one` of two independent samples: the median of all pairwise differences, with the
/// interval that inverts the rank-sum test (Hollander & Wolfe, *Nonparametric Statistical Methods*, 4.2 and 4.3).
///
/// Assumes that the two distributions differ by a shift. Wants one value on each side; for 3 and 3 the highest confidence
/// is 90 %.
pub fn two_sample_shift(one: &[f64], other: &[f64], level: f64) -> Option<Shift> {
    if !usable(one) || !usable(other) || !strictly_between(level) {
        return None;
    }
    let differences: Vec<f64> = other.iter().flat_map(|other| one.iter().map(move |one| other - one)).collect();
    let pairs = sorted(&differences)?;
    if one.len() + other.len() <= EXACT_COUNTING_UP_TO {
        return exact(&pairs, &rank_sum_counts(one.len(), other.len()), level);
    }
    let (m, n) = (one.len() as f64, other.len() as f64);
    approximate(&pairs, (m * n * (m + n + 1.0) / 12.0).sqrt(), level)
}

/// Location of one sample: the median of the means of all pairs (each value paired with itself, too), with the interval
/// that inverts the signed-rank test (Hollander & Wolfe, 3.2 and 3.3).
///
/// Assumes a symmetric distribution, as that of differences of paired launches is. Wants one value.
pub fn pseudo_median(values: &[f64], level: f64) -> Option<Shift> {
    if !usable(values) || !strictly_between(level) {
        return None;
    }
    let count = values.len();
    let pairs: Vec<f64> = (0..count)
        .flat_map(|first| (first..count).map(move |second| (first, second)))
        .map(|(first, second)| f64::midpoint(values[first], values[second]))
        .collect();
    let pairs = sorted(&pairs)?;
    if count <= EXACT_SIGNS_UP_TO {
        return exact(&pairs, &signed_rank_counts(count), level);
    }
    let n = count as f64;
    approximate(&pairs, (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt(), level)
}

/// Takes the interval between the pairs that the exact distribution of the test statistic (as counts of its values, from 0
/// on) cuts off.
fn exact(pairs: &[f64], counts: &[i128], level: f64) -> Option<Shift> {
    let total: i128 = counts.iter().sum();
    let allowed = (1.0 - level) / 2.0 * total as f64;
    let (mut cut, mut tail) = (0, 0_i128);
    while 2 * (cut + 1) < pairs.len() && (tail + counts[cut]) as f64 <= allowed {
        tail += counts[cut];
        cut += 1;
    }
    // Nothing cut: the interval spans all pairs, and what it misses is what lies beyond both of them.
    let (cut, tail) = if cut == 0 { (1, counts[0]) } else { (cut, tail) };
    shift(pairs, cut, finite(1.0 - 2.0 * tail as f64 / total as f64)?.max(0.0))
}

/// The same with the normal approximation of the test statistic, whose mean is half the number of pairs.
fn approximate(pairs: &[f64], deviation: f64, level: f64) -> Option<Shift> {
    let cut = pairs.len() as f64 / 2.0 - normal_factor(level)? * deviation;
    shift(pairs, (cut.floor() as usize).max(1), level)
}

/// The estimate with the interval between the `cut`-th pair from below and from above.
fn shift(pairs: &[f64], cut: usize, level: f64) -> Option<Shift> {
    let interval = Interval::new(pairs[cut - 1], pairs[pairs.len() - cut], level)?;
    Some(Shift { estimate: quantile_of_sorted(pairs, 0.5)?, interval })
}

/// Number of arrangements of two samples for each value of the Mann–Whitney statistic: the coefficients of the Gaussian
/// binomial `Π (1 - q^(n+i)) / (1 - q^i)`.
fn rank_sum_counts(one: usize, other: usize) -> Vec<i128> {
    let mut counts = vec![0_i128; one * other + 1];
    counts[0] = 1;
    for factor in 1..=one {
        for value in (other + factor..counts.len()).rev() {
            counts[value] -= counts[value - other - factor];
        }
        for value in factor..counts.len() {
            counts[value] += counts[value - factor];
        }
    }
    counts
}

/// Number of sign patterns for each value of the signed-rank statistic: the coefficients of `Π (1 + q^i)`.
fn signed_rank_counts(count: usize) -> Vec<i128> {
    let mut counts = vec![0_i128; count * (count + 1) / 2 + 1];
    counts[0] = 1;
    for rank in 1..=count {
        for value in (rank..counts.len()).rev() {
            counts[value] += counts[value - rank];
        }
    }
    counts
}

/// Median of the pairwise differences within launches, `other[i] - one[i]`: a paired difference without an interval.
pub fn paired_median_difference(one: &[f64], other: &[f64]) -> Option<f64> {
    if one.len() != other.len() {
        return None;
    }
    median(&one.iter().zip(other).map(|(one, other)| other - one).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::synthetic::{assert_close, normal};
    use super::*;

    #[test]
    fn two_samples_of_the_textbook() {
        // Hollander & Wolfe, table 4.1 (permeability of membranes at term and at 12 to 26 weeks): -0.305; R's wilcox.test
        // gives the 95 % interval -0.76 to 0.15.
        let term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let early = [1.15, 0.88, 0.90, 0.74, 1.21];
        let shift = two_sample_shift(&term, &early, 0.95).unwrap();
        assert_close(shift.estimate, -0.305, 1e-12);
        assert_close(shift.interval.low, -0.76, 1e-12);
        assert_close(shift.interval.high, 0.15, 1e-12);
        assert!((0.95..0.97).contains(&shift.interval.level));
    }

    #[test]
    #[expect(clippy::approx_constant, reason = "3.14 is the score of a patient")]
    fn one_sample_of_the_textbook() {
        // Hollander & Wolfe, table 3.1 (depression scores before and after): -0.46, 96.1 % interval -0.786 to -0.010.
        let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
        let differences: Vec<f64> = before.iter().zip(after).map(|(before, after)| after - before).collect();
        let shift = pseudo_median(&differences, 0.95).unwrap();
        assert_close(shift.estimate, -0.46, 1e-12);
        assert_close(shift.interval.low, -0.786, 1e-12);
        assert_close(shift.interval.high, -0.010, 1e-9);
        assert_close(shift.interval.level, 0.961, 1e-3);
        assert_close(paired_median_difference(&before, &after).unwrap(), -0.49, 1e-12);
    }

    #[test]
    fn counts_add_up_to_all_arrangements() {
        assert_eq!(rank_sum_counts(2, 2), [1, 1, 2, 1, 1]);
        assert_eq!(rank_sum_counts(8, 8).iter().sum::<i128>(), 12_870);
        assert_eq!(signed_rank_counts(3), [1, 1, 1, 2, 1, 1, 1]);
    }

    #[test]
    fn exact_and_approximate_intervals_agree_where_they_meet() {
        let mut random = fastrand::Rng::with_seed(29);
        let (one, other) = (normal(&mut random, 50, 0.0, 1.0), normal(&mut random, 50, 1.0, 1.0));
        let exact = two_sample_shift(&one, &other, 0.95).unwrap();
        let differences: Vec<f64> = other.iter().flat_map(|other| one.iter().map(move |one| other - one)).collect();
        let close = approximate(&sorted(&differences).unwrap(), (2500.0 * 101.0 / 12.0_f64).sqrt(), 0.95).unwrap();
        assert!((exact.interval.low - close.interval.low).abs() < 0.01);
        assert!((exact.interval.high - close.interval.high).abs() < 0.01);
    }

    #[test]
    fn intervals_cover_as_often_as_they_say() {
        let mut random = fastrand::Rng::with_seed(30);
        let (mut two, mut single, mut promised) = (0, 0, (0.0, 0.0));
        for _ in 0..2000 {
            let (one, other) = (normal(&mut random, 8, 0.0, 1.0), normal(&mut random, 8, 1.0, 1.0));
            let (shift, centre) = (two_sample_shift(&one, &other, 0.95).unwrap(), pseudo_median(&one, 0.95).unwrap());
            promised = (shift.interval.level, centre.interval.level);
            two += u32::from(shift.interval.contains(1.0));
            single += u32::from(centre.interval.contains(0.0));
        }
        assert!((f64::from(two) / 2000.0 - promised.0).abs() < 0.015, "{two}");
        assert!((f64::from(single) / 2000.0 - promised.1).abs() < 0.015, "{single}");
    }

    #[test]
    fn few_values_say_how_little_they_can_promise() {
        let shift = two_sample_shift(&[1.0, 2.0, 3.0], &[11.0, 12.0, 13.0], 0.95).unwrap();
        assert_close(shift.interval.level, 0.9, 1e-12);
        assert_close(pseudo_median(&[1.0, 2.0, 3.0], 0.95).unwrap().interval.level, 0.75, 1e-12);
        assert_close(two_sample_shift(&[1.0], &[2.0], 0.95).unwrap().interval.level + 1.0, 1.0, 1e-12);
    }

    #[test]
    fn what_has_no_answer_is_none() {
        assert_eq!(two_sample_shift(&[], &[1.0], 0.95), None);
        assert_eq!(two_sample_shift(&[1.0], &[f64::NAN], 0.95), None);
        assert_eq!(two_sample_shift(&[1.0], &[1.0], 1.0), None);
        assert_eq!(pseudo_median(&[], 0.95), None);
        assert_eq!(paired_median_difference(&[1.0], &[]), None);
    }

    proptest! {
        #[test]
        fn a_moved_sample_moves_the_shift(
            one in prop::collection::vec(-1e3..1e3_f64, 1..12), other in prop::collection::vec(-1e3..1e3_f64, 1..12),
            offset in -1e3..1e3_f64,
        ) {
            let moved: Vec<f64> = other.iter().map(|value| value + offset).collect();
            let (before, after) = (two_sample_shift(&one, &other, 0.9).unwrap(), two_sample_shift(&one, &moved, 0.9).unwrap());
            prop_assert!((after.estimate - before.estimate - offset).abs() < 1e-9);
            prop_assert!(after.interval.contains(after.estimate));
            let reversed = two_sample_shift(&other, &one, 0.9).unwrap();
            prop_assert!((reversed.estimate + before.estimate).abs() < 1e-9);
            let (before, after) = (pseudo_median(&other, 0.9).unwrap(), pseudo_median(&moved, 0.9).unwrap());
            prop_assert!((after.estimate - before.estimate - offset).abs() < 1e-9);
            prop_assert!(after.interval.contains(after.estimate));
        }
    }
}
