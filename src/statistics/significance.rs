//! Tests of the hypothesis that two samples come from one distribution, and what many such tests at once require.
//!
//! The unit is the launch estimate. Tests on batches find "significant" differences of a hundredth of a percent between a
//! machine and itself, because batches of one launch are not replicates.

use super::distribution::{student_factor, student_two_sided};
use super::interval::Interval;
use super::summary::{finite, mean, usable, variance};

/// Up to this many ways to deal the values into two samples all of them are tried.
const EXACT_UP_TO: f64 = 2e5;

/// Random deals where there are more; the p value is then good to ±0.0014 at 0.05.
const RANDOM_DEALS: u32 = 100_000;

/// Welch's comparison of two means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Welch {
    /// `mean(other) - mean(one)`.
    pub difference: f64,
    /// Standard error of the difference; at least 0.
    pub error: f64,
    /// Degrees of freedom after Satterthwaite; positive.
    pub degrees: f64,
    /// Interval of the difference.
    pub interval: Interval,
    /// Two-sided p value, in `[0, 1]`.
    pub p: f64,
}

/// Welch's t test of `mean(other) - mean(one)` with the degrees of freedom of Satterthwaite (Welch, Biometrika 34, 1947):
/// the two samples may differ in variance. Assumes near-normal values, as logarithms of launch estimates are. Wants two
/// values on each side. Without any variance the interval has no width and p is 1 or 0.
pub fn welch(one: &[f64], other: &[f64], level: f64) -> Option<Welch> {
    let difference = finite(mean(other)? - mean(one)?)?;
    let one_part = variance(one)? / one.len() as f64;
    let other_part = variance(other)? / other.len() as f64;
    let error = finite((one_part + other_part).sqrt())?;
    if error <= 0.0 {
        let degrees = (one.len() + other.len() - 2) as f64;
        student_factor(level, degrees)?;
        let p = if difference.abs() > 0.0 { 0.0 } else { 1.0 };
        return Some(Welch { difference, error, degrees, interval: Interval::new(difference, difference, level)?, p });
    }
    // Shares of the variance instead of the variances: their squares neither overflow nor vanish.
    let (one_share, other_share) = (one_part / (one_part + other_part), other_part / (one_part + other_part));
    let degrees =
        finite(1.0 / (one_share.powi(2) / (one.len() - 1) as f64 + other_share.powi(2) / (other.len() - 1) as f64))?;
    let half = student_factor(level, degrees)? * error;
    Some(Welch {
        difference,
        error,
        degrees,
        interval: Interval::new(difference - half, difference + half, level)?,
        p: student_two_sided(difference / error, degrees)?,
    })
}

/// Result of a permutation test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Permutation {
    /// Two-sided p value, in `(0, 1]`. Its least value is set by the sizes: 0.10 for 3 and 3 values, 0.029 for 4 and 4,
    /// 0.0079 for 5 and 5.
    pub p: f64,
    /// True when every deal was tried; false when deals were drawn at random.
    pub exact: bool,
}

/// Permutation test of the difference of means (Fisher 1935; Pitman 1937; Good, *Permutation Tests*): how often a random
/// deal of all values into two samples of these sizes gives a difference at least as large. No assumption but that the
/// deals are equally likely when there is no difference.
///
/// All deals are tried up to 200 000 of them; above, 100 000 are drawn from the seed, and the observed one counts among them
/// (Phipson & Smyth 2010), so that p is never zero. Wants one value on each side.
pub fn permutation_test(one: &[f64], other: &[f64], seed: u64) -> Option<Permutation> {
    if !usable(one) || !usable(other) {
        return None;
    }
    let pool: Vec<f64> = one.iter().chain(other).copied().collect();
    let centre = mean(&pool)?;
    // Around the common mean, the sum of one side alone tells the difference of means, in whatever sign.
    let mut pool: Vec<f64> = pool.iter().map(|value| value - centre).collect();
    let smaller = one.len().min(other.len());
    let observed = if one.len() <= other.len() { &pool[..one.len()] } else { &pool[one.len()..] };
    let scale: f64 = pool.iter().map(|value| value.abs()).sum();
    // Deals that are equal but for rounding count as equal.
    let limit = finite(observed.iter().sum::<f64>().abs() - 1e-12 * scale)?;
    let deals = ways_to_choose(pool.len(), smaller);
    if deals <= EXACT_UP_TO {
        let extreme = count_extreme(&pool, smaller, 0.0, limit);
        return Some(Permutation { p: (extreme as f64 / deals).min(1.0), exact: true });
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let extreme = (0..RANDOM_DEALS).filter(|_| random_deal(&mut pool, smaller, &mut random).abs() >= limit).count();
    Some(Permutation { p: (extreme + 1) as f64 / f64::from(RANDOM_DEALS + 1), exact: false })
}

/// Number of ways to choose `chosen` of the values and reach a sum of at least `limit` in size.
fn count_extreme(values: &[f64], chosen: usize, sum: f64, limit: f64) -> u64 {
    if chosen == 0 {
        return u64::from(sum.abs() >= limit);
    }
    (0..=values.len() - chosen)
        .map(|first| count_extreme(&values[first + 1..], chosen - 1, sum + values[first], limit))
        .sum()
}

/// Shuffles `chosen` random values to the front and gives their sum.
fn random_deal(values: &mut [f64], chosen: usize, random: &mut fastrand::Rng) -> f64 {
    let mut sum = 0.0;
    for place in 0..chosen {
        values.swap(place, random.usize(place..values.len()));
        sum += values[place];
    }
    sum
}

/// The binomial coefficient, as a real number: exact where it matters, and large without overflow.
fn ways_to_choose(from: usize, chosen: usize) -> f64 {
    (0..chosen).fold(1.0, |ways: f64, step| (ways * (from - step) as f64 / (step + 1) as f64).round())
}

/// p values adjusted for the number of tests, in the order given, so that among those at most `q` the expected share of
/// false ones is at most `q` (Benjamini & Hochberg, Journal of the Royal Statistical Society B 57, 1995). Assumes tests that
/// are independent or positively dependent.
///
/// `None` when a value lies outside `[0, 1]`; no values give no values.
pub fn benjamini_hochberg(p_values: &[f64]) -> Option<Vec<f64>> {
    if !p_values.iter().all(|p| (0.0..=1.0).contains(p)) {
        return None;
    }
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|one, other| p_values[*one].total_cmp(&p_values[*other]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut least = 1.0_f64;
    for (rank, place) in order.into_iter().enumerate().rev() {
        // The factor first: it is at least 1, so that rounding never lowers a p value.
        least = least.min(p_values[place] * (p_values.len() as f64 / (rank + 1) as f64));
        adjusted[place] = least;
    }
    Some(adjusted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::synthetic::{assert_close, normal};
    use super::*;

    #[test]
    fn welch_of_the_textbook() {
        // Student's sleep data, the two drugs as independent samples (R: t.test(extra ~ group)).
        let first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let found = welch(&second, &first, 0.95).unwrap();
        assert_close(found.difference / found.error, -1.8608, 1e-4);
        assert_close(found.degrees, 17.776, 1e-4);
        assert_close(found.p, 0.079_39, 1e-4);
        assert_close(found.interval.low, -3.365_483_2, 1e-6);
        assert_close(found.interval.high, 0.205_483_2, 1e-6);
    }

    #[test]
    fn welch_without_variance() {
        let same = welch(&[1.0; 3], &[1.0; 3], 0.95).unwrap();
        let apart = welch(&[1.0; 3], &[2.0; 3], 0.95).unwrap();
        assert!(same.p >= 1.0 && same.interval.contains(0.0));
        assert!(apart.p <= 0.0 && !apart.interval.contains(0.0));
    }

    #[test]
    fn least_permutation_p_values() {
        for (size, expected) in [(3, 0.1), (4, 2.0 / 70.0), (5, 2.0 / 252.0), (6, 2.0 / 924.0), (8, 2.0 / 12_870.0)] {
            let one: Vec<f64> = (0..size).map(f64::from).collect();
            let other: Vec<f64> = (0..size).map(|value| f64::from(value) + 100.0).collect();
            let found = permutation_test(&one, &other, 0).unwrap();
            assert!(found.exact);
            assert_close(found.p, expected, 1e-12);
        }
    }

    #[test]
    fn permutation_p_of_the_textbook() {
        // The mice of Efron & Tibshirani, chapter 15, who find 0.132 one-sided from 1000 random deals. Counted out, 3184 of the
        // 11440 deals are as extreme on either side (0.141 on one).
        let treated = [94.0, 197.0, 16.0, 38.0, 99.0, 141.0, 23.0];
        let control = [52.0, 104.0, 146.0, 10.0, 51.0, 30.0, 40.0, 27.0, 46.0];
        let found = permutation_test(&control, &treated, 0).unwrap();
        assert!(found.exact);
        assert_close(found.p, 3184.0 / 11_440.0, 1e-12);
        let reversed = permutation_test(&treated, &control, 0).unwrap();
        assert_close(reversed.p, found.p, 1e-12);
    }

    #[test]
    fn random_deals_agree_with_welch() {
        let mut random = fastrand::Rng::with_seed(31);
        let (one, other) = (normal(&mut random, 30, 0.0, 1.0), normal(&mut random, 30, 0.5, 1.0));
        let found = permutation_test(&one, &other, 32).unwrap();
        assert!(!found.exact);
        assert!((found.p - welch(&one, &other, 0.95).unwrap().p).abs() < 0.01);
        assert_eq!(permutation_test(&one, &other, 32), Some(found));
        assert_close(permutation_test(&[5.0; 30], &[5.0; 30], 1).unwrap().p, 1.0, 1e-12);
    }

    #[test]
    fn adjusted_p_values_of_the_paper() {
        // Benjamini & Hochberg 1995, section 4.1 (thrombolysis): four of fifteen are rejected at 0.05.
        let p_values = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
            0.7590, 1.0,
        ];
        let adjusted = benjamini_hochberg(&p_values).unwrap();
        assert_eq!(adjusted.iter().filter(|p| **p <= 0.05).count(), 4);
        assert_close(adjusted[3], 0.0095 * 15.0 / 4.0, 1e-12);
        assert_eq!(benjamini_hochberg(&[]), Some(vec![]));
        assert_eq!(benjamini_hochberg(&[1.5]), None);
        assert_eq!(benjamini_hochberg(&[f64::NAN]), None);
    }

    #[test]
    fn what_has_no_answer_is_none() {
        assert_eq!(welch(&[1.0], &[1.0, 2.0], 0.95), None);
        assert_eq!(welch(&[1.0, 2.0], &[1.0, f64::NAN], 0.95), None);
        assert_eq!(welch(&[1.0, 1.0], &[1.0, 1.0], 2.0), None);
        assert_eq!(permutation_test(&[], &[1.0], 0), None);
        assert_eq!(permutation_test(&[f64::INFINITY], &[1.0], 0), None);
    }

    proptest! {
        #[test]
        fn adjustment_keeps_the_order_and_never_lowers(p_values in prop::collection::vec(0.0..=1.0_f64, 1..40)) {
            let adjusted = benjamini_hochberg(&p_values).unwrap();
            for (p, adjusted_p) in p_values.iter().zip(&adjusted) {
                prop_assert!(p <= adjusted_p && *adjusted_p <= 1.0);
                for (other, adjusted_other) in p_values.iter().zip(&adjusted) {
                    prop_assert!(p > other || adjusted_p <= adjusted_other);
                }
            }
        }

        #[test]
        fn p_values_are_probabilities(
            one in prop::collection::vec(-1e6..1e6_f64, 2..8), other in prop::collection::vec(-1e6..1e6_f64, 2..8),
        ) {
            let exact = permutation_test(&one, &other, 0).unwrap();
            prop_assert!(exact.exact && exact.p > 0.0 && exact.p <= 1.0);
            prop_assert!((0.0..=1.0).contains(&welch(&one, &other, 0.9).unwrap().p));
        }
    }
}
