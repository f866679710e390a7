//! How far an estimate can be trusted: intervals by order statistics.
//!
//! The values are taken as independent. Samples of one launch are not, launch estimates are. These functions are for launch
//! estimates.

use super::distribution::{binomial_at_most, normal_factor, strictly_between};
use super::summary::{finite, sorted};

/// Below this many values the ranks of an order-statistic interval are searched exactly; above, the normal
/// approximation gives them within one rank, and the confidence reported is exact in both cases.
const EXACT_RANKS_BELOW: usize = 200;

/// A confidence interval: `low <= high`, both finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence reached, in `[0, 1]`. Order statistics come in steps, so it can be above the level that was asked
    /// for; with too few values it is below, and says so.
    pub level: f64,
}

impl Interval {
    /// An interval from its two ends in either order; `None` when an end is not finite.
    pub fn new(one: f64, other: f64, level: f64) -> Option<Self> {
        Some(Interval { low: finite(one.min(other))?, high: finite(one.max(other))?, level: finite(level)? })
            .filter(|_| one.is_finite() && other.is_finite())
    }

    /// True when the value lies inside or on an end.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// True when this interval lies inside the other without touching its ends.
    pub fn strictly_inside(&self, low: f64, high: f64) -> bool {
        low < self.low && self.high < high
    }
}

/// Ranks (from 1) of the order statistics that bound a quantile, and the confidence they reach.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ranks {
    lower: usize,
    upper: usize,
    level: f64,
}

/// Distribution-free interval of the median; see [`quantile_interval`].
pub fn median_interval(values: &[f64], level: f64) -> Option<Interval> {
    quantile_interval(values, 0.5, level)
}

/// Distribution-free interval of a quantile from order statistics (Le Boudec, *Performance Evaluation of Computer and
/// Communication Systems*, chapter 2; David & Nagaraja, *Order Statistics*, 7.1).
///
/// `[x(l), x(u)]` covers the quantile with probability `P(l <= B < u)`, `B` binomial: no assumption on the shape of the
/// distribution, only independence. The interval that is returned carries the confidence it reaches: `[min, max]` of 5
/// values covers the median with 93.75 %, of 6 with 96.9 %. It always contains the sample quantile of type 7.
///
/// Wants two values, `probability` and `level` in `(0, 1)`.
pub fn quantile_interval(values: &[f64], probability: f64, level: f64) -> Option<Interval> {
    let ordered = sorted(values)?;
    let ranks = ranks(ordered.len(), probability, level)?;
    Interval::new(ordered[ranks.lower - 1], ordered[ranks.upper - 1], ranks.level)
}

/// Chooses the ranks: equal tails where both exist, and all of the error on one side where only one does.
fn ranks(count: usize, probability: f64, level: f64) -> Option<Ranks> {
    if count < 2 || !strictly_between(probability) || !strictly_between(level) {
        return None;
    }
    let error = 1.0 - level;
    let (mut lower, mut upper) = if count < EXACT_RANKS_BELOW {
        exact_ranks(count, probability, error)?
    } else {
        approximate_ranks(count, probability, level)?
    };
    // The sample quantile lies between these two order statistics; a low level must not leave it outside.
    let position = (count - 1) as f64 * probability;
    lower = lower.min(position.floor() as usize + 1);
    upper = upper.max(position.ceil() as usize + 1);
    let level = 1.0 - tail_below(count, probability, lower)? - tail_above(count, probability, upper)?;
    Some(Ranks { lower, upper, level: level.clamp(0.0, 1.0) })
}

/// Tightest ranks whose tails stay within the error. Where one tail alone exceeds its half (a low quantile of few
/// values lies below the minimum with a probability that no rank can lower), the other gets what is left of the error.
fn exact_ranks(count: usize, probability: f64, error: f64) -> Option<(usize, usize)> {
    let unavoidable_below = tail_below(count, probability, 1)?;
    let unavoidable_above = tail_above(count, probability, count)?;
    let share = |unavoidable_opposite: f64| {
        let rest = error - unavoidable_opposite;
        if rest > 0.0 && rest < error / 2.0 { rest } else { error / 2.0 }
    };
    let (allowed_below, allowed_above) = (share(unavoidable_above), share(unavoidable_below));
    let lower =
        (1..=count).rev().find(|rank| tail_below(count, probability, *rank).is_some_and(|tail| tail <= allowed_below));
    let upper =
        (1..=count).find(|rank| tail_above(count, probability, *rank).is_some_and(|tail| tail <= allowed_above));
    Some((lower.unwrap_or(1), upper.unwrap_or(count)))
}

/// Ranks by the normal approximation of the binomial (Hoefler & Belli, SC 2015; Le Boudec, chapter 2).
fn approximate_ranks(count: usize, probability: f64, level: f64) -> Option<(usize, usize)> {
    let centre = count as f64 * probability;
    let half = normal_factor(level)? * (centre * (1.0 - probability)).sqrt();
    let lower = (centre - half).floor().max(1.0) as usize;
    let upper = ((centre + half).ceil() as usize + 1).clamp(1, count);
    Some((lower.min(count), upper))
}

/// Probability that the quantile lies below the order statistic of this rank.
fn tail_below(count: usize, probability: f64, rank: usize) -> Option<f64> {
    binomial_at_most(rank as u64 - 1, count as u64, probability)
}

/// Probability that the quantile lies above the order statistic of this rank.
fn tail_above(count: usize, probability: f64, rank: usize) -> Option<f64> {
    Some(1.0 - binomial_at_most(rank as u64 - 1, count as u64, probability)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::summary::quantile;
    use super::super::synthetic::{assert_close, normal};
    use super::*;

    fn first_naturals(count: u32) -> Vec<f64> {
        (1..=count).map(f64::from).collect()
    }

    #[test]
    fn few_values_report_the_confidence_they_reach() {
        for (count, level) in [(2, 0.5), (5, 0.9375), (6, 0.968_75)] {
            let interval = median_interval(&first_naturals(count), 0.95).unwrap();
            assert_close(interval.low, 1.0, 1e-15);
            assert_close(interval.high, f64::from(count), 1e-15);
            assert_close(interval.level, level, 1e-12);
        }
    }

    #[test]
    fn printed_ranks_of_the_median_are_reproduced() {
        // Le Boudec, appendix A, table of confidence intervals of the median at 95 %: n, ranks, confidence.
        for (count, low, high, level) in [(10, 2.0, 9.0, 0.9785), (20, 6.0, 15.0, 0.9586), (30, 10.0, 21.0, 0.9572)] {
            let interval = median_interval(&first_naturals(count), 0.95).unwrap();
            assert_close(interval.low, low, 1e-15);
            assert_close(interval.high, high, 1e-15);
            assert_close(interval.level, level, 1e-4);
        }
    }

    #[test]
    fn a_low_quartile_spends_its_error_where_it_can() {
        // The quartile of 11 values lies below their minimum with probability 0.75^11 = 4.2 %: the upper rank gets the
        // remaining 0.8 %.
        let interval = quantile_interval(&first_naturals(11), 0.25, 0.95).unwrap();
        assert_close(interval.low, 1.0, 1e-15);
        assert!(interval.level >= 0.95);
        let seven = quantile_interval(&first_naturals(7), 0.25, 0.95).unwrap();
        assert!(seven.level < 0.95 && seven.level > 0.8);
    }

    #[test]
    fn exact_and_approximate_ranks_agree_where_they_meet() {
        for probability in [0.25, 0.5, 0.9] {
            let exact = exact_ranks(400, probability, 0.05).unwrap();
            let approximate = approximate_ranks(400, probability, 0.95).unwrap();
            assert!(exact.0.abs_diff(approximate.0) <= 1 && exact.1.abs_diff(approximate.1) <= 1);
            let level = ranks(400, probability, 0.95).unwrap().level;
            assert!((0.95..0.965).contains(&level), "{level}");
        }
    }

    #[test]
    fn intervals_cover_as_often_as_they_say() {
        let mut random = fastrand::Rng::with_seed(1);
        let rounds = 4000;
        let (mut median_hits, mut quartile_hits, mut promised) = (0, 0, 0.0);
        for _ in 0..rounds {
            let values = normal(&mut random, 30, 0.0, 1.0);
            let interval = quantile_interval(&values, 0.25, 0.95).unwrap();
            quartile_hits += u32::from(interval.contains(-0.674_489_75));
            promised = interval.level;
            median_hits += u32::from(median_interval(&values, 0.95).unwrap().contains(0.0));
        }
        let share = |hits| f64::from(hits) / f64::from(rounds);
        assert!((0.92..=0.98).contains(&share(median_hits)));
        assert!((share(quartile_hits) - promised).abs() < 0.012);
    }

    #[test]
    fn what_has_no_answer_is_none() {
        assert_eq!(median_interval(&[1.0], 0.95), None);
        assert_eq!(median_interval(&[1.0, f64::NAN], 0.95), None);
        assert_eq!(quantile_interval(&[1.0, 2.0], 0.0, 0.95), None);
        assert_eq!(quantile_interval(&[1.0, 2.0], 0.5, 1.0), None);
        assert_eq!(Interval::new(f64::NAN, 1.0, 0.95), None);
    }

    proptest! {
        #[test]
        fn intervals_contain_their_estimate(
            values in prop::collection::vec(1e-3..1e9, 2..300), probability in 0.01..0.99, level in 0.01..0.99,
        ) {
            let interval = quantile_interval(&values, probability, level).unwrap();
            prop_assert!(interval.contains(quantile(&values, probability).unwrap()));
            prop_assert!((0.0..=1.0).contains(&interval.level));
        }
    }
}
