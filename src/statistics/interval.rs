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

/// Ranks (from 1) of the order statistics that bound a quantile, how far each end lies towards the next rank inwards, and the
/// confidence they reach.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ranks {
    lower: usize,
    upper: usize,
    /// Shares of the way from the lower rank to the one above, and from the upper rank to the one below; in `[0, 1)`.
    inwards: [f64; 2],
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
/// distribution, only independence. Ranks come in steps: of 8 values, `[min, max]` covers the median with 99.2 %, and the next
/// ranks inwards with 93.0 %. Below 200 values each end therefore lies between two ranks, where its tail is half of the error
/// (Hettmansperger & Sheather 1986, for any quantile Nyblom 1992). The interval carries the confidence it reaches. It is lower
/// than what was asked for where even the outermost values do not reach it: `[min, max]` of 5 values covers the median with
/// 93.75 %. It always contains the sample quantile of type 7.
///
/// Wants two values, `probability` and `level` in `(0, 1)`.
pub fn quantile_interval(values: &[f64], probability: f64, level: f64) -> Option<Interval> {
    let ordered = sorted(values)?;
    let ranks = ranks(ordered.len(), probability, level)?;
    let end = |rank: usize, next: usize, share: f64| {
        let (outer, inner) = (ordered[rank - 1], ordered[next - 1]);
        if share > 0.0 { outer + share * (inner - outer) } else { outer }
    };
    let [below, above] = ranks.inwards;
    let low = end(ranks.lower, (ranks.lower + 1).min(ordered.len()), below);
    Interval::new(low, end(ranks.upper, (ranks.upper - 1).max(1), above), ranks.level)
}

/// Chooses the ranks: equal tails where both exist, and all of the error on one side where only one does.
fn ranks(count: usize, probability: f64, level: f64) -> Option<Ranks> {
    if count < 2 || !strictly_between(probability) || !strictly_between(level) {
        return None;
    }
    let error = 1.0 - level;
    // The sample quantile lies between these two order statistics; a low level must not leave it outside.
    let position = (count - 1) as f64 * probability;
    let [most_lower, least_upper] = [position.floor() as usize + 1, position.ceil() as usize + 1];
    if count >= EXACT_RANKS_BELOW {
        let (lower, upper) = approximate_ranks(count, probability, level)?;
        let (lower, upper) = (lower.min(most_lower), upper.max(least_upper));
        let level = 1.0 - tail_below(count, probability, lower)? - tail_above(count, probability, upper)?;
        return Some(Ranks { lower, upper, inwards: [0.0; 2], level: level.clamp(0.0, 1.0) });
    }
    let [allowed_below, allowed_above] = allowed(count, probability, error)?;
    let below = outermost(count, probability, allowed_below, most_lower)?;
    // Above, the values are counted from the highest down.
    let above = outermost(count, 1.0 - probability, allowed_above, count + 1 - least_upper)?;
    // What one end cannot reach, the other must not give away either.
    let reached = below.tail + above.tail;
    let [below, above] = if reached <= error { [below, above] } else { [below, above].map(End::at_rank) };
    Some(Ranks {
        lower: below.rank,
        upper: count + 1 - above.rank,
        inwards: [below.inwards, above.inwards],
        // What was asked for to the last digit, where both ends give it.
        level: if (reached - error).abs() < f64::EPSILON {
            level
        } else {
            (1.0 - below.tail - above.tail).clamp(0.0, 1.0)
        },
    })
}

/// The lower end of an interval.
#[derive(Debug, Clone, Copy)]
struct End {
    rank: usize,
    /// Share of the way to the next rank.
    inwards: f64,
    /// Probability that the quantile is below this end, and below the value of the rank.
    tail: f64,
    tail_of_rank: f64,
}

impl End {
    fn at_rank(self) -> End {
        End { inwards: 0.0, tail: self.tail_of_rank, ..self }
    }
}

/// The end whose tail is as allowed, or the minimum where that is more. It lies at most at the rank that is given.
fn outermost(count: usize, probability: f64, allowed: f64, most: usize) -> Option<End> {
    let tail = |rank: usize| tail_below(count, probability, rank);
    let rank = (1..=most).rev().find(|rank| tail(*rank).is_some_and(|tail| tail <= allowed)).unwrap_or(1);
    let at = tail(rank)?;
    let end = End { rank, inwards: 0.0, tail: at, tail_of_rank: at };
    if at > allowed || rank == most {
        return Some(end);
    }
    let next = tail(rank + 1)?;
    let odds = (next - allowed) / (allowed - at).max(f64::MIN_POSITIVE);
    let (below, above) = (rank as f64 * (1.0 - probability), (count - rank) as f64 * probability);
    Some(End { inwards: 1.0 / (1.0 + below / above * odds), tail: allowed, ..end })
}

/// The error below and above. Where one tail alone exceeds its half (a low quantile of few values lies below the minimum with a
/// probability that no rank can lower), the other gets what is left of the error.
fn allowed(count: usize, probability: f64, error: f64) -> Option<[f64; 2]> {
    let share = |unavoidable_opposite: f64| {
        let rest = error - unavoidable_opposite;
        if rest > 0.0 && rest < error / 2.0 { rest } else { error / 2.0 }
    };
    Some([share(tail_above(count, probability, count)?), share(tail_below(count, probability, 1)?)])
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
        for (count, level) in [(2, 0.5), (3, 0.75), (5, 0.9375)] {
            let interval = median_interval(&first_naturals(count), 0.95).unwrap();
            assert_close(interval.low, 1.0, 1e-15);
            assert_close(interval.high, f64::from(count), 1e-15);
            assert_close(interval.level, level, 1e-12);
        }
    }

    #[test]
    fn printed_ranks_of_the_median_surround_the_ends() {
        // Le Boudec, appendix A, table of confidence intervals of the median at 95 %: n, ranks. The ranks reach 96.9, 97.9, 95.9
        // and 95.7 %, and the next ones inwards less than 95 %.
        for (count, low, high) in [(6, 1.0, 6.0), (10, 2.0, 9.0), (20, 6.0, 15.0), (30, 10.0, 21.0)] {
            let interval = median_interval(&first_naturals(count), 0.95).unwrap();
            assert!(low <= interval.low && interval.low < low + 1.0, "{interval:?}");
            assert!(high - 1.0 < interval.high && interval.high <= high, "{interval:?}");
            assert_close(interval.level, 0.95, 1e-12);
        }
    }

    #[test]
    fn an_end_between_two_ranks_follows_the_published_formula() {
        // Hettmansperger & Sheather: of n values, with k and k + 1 whose intervals reach 1 - 2 P(B < k) around the level, the share
        // is (n - k) i / (k + (n - 2 k) i), i the part of the way between these levels. Here n = 8, k = 1.
        let (outer, inner): (f64, f64) = (0.992_187_5, 0.929_687_5);
        let part = (outer - 0.95) / (outer - inner);
        let share = 7.0 * part / (1.0 + 6.0 * part);
        let interval = median_interval(&first_naturals(8), 0.95).unwrap();
        assert_close(interval.low, 1.0 + share, 1e-9);
        assert_close(interval.high, 8.0 - share, 1e-9);
    }

    #[test]
    fn a_low_quartile_spends_its_error_where_it_can() {
        // The quartile of 11 values lies below their minimum with probability 0.75^11 = 4.2 %: the upper end gets the remaining
        // 0.8 %, between the seventh value (2.4 or 0.8 % of its neighbours) and the next.
        let interval = quantile_interval(&first_naturals(11), 0.25, 0.95).unwrap();
        assert_close(interval.low, 1.0, 1e-15);
        assert_close(interval.level, 0.95, 1e-9);
        assert!((6.0..8.0).contains(&interval.high), "{interval:?}");
        let seven = quantile_interval(&first_naturals(7), 0.25, 0.95).unwrap();
        assert!(seven.level < 0.95 && seven.level > 0.8);
    }

    #[test]
    fn exact_and_approximate_ranks_agree_where_they_meet() {
        for probability in [0.25, 0.5, 0.9] {
            let [below, above] = allowed(400, probability, 0.05).unwrap();
            let exact = (
                outermost(400, probability, below, 400).unwrap().rank,
                401 - outermost(400, 1.0 - probability, above, 400).unwrap().rank,
            );
            let approximate = approximate_ranks(400, probability, 0.95).unwrap();
            assert!(exact.0.abs_diff(approximate.0) <= 1 && exact.1.abs_diff(approximate.1) <= 1);
            let level = ranks(400, probability, 0.95).unwrap().level;
            assert!((0.95..0.965).contains(&level), "{level}");
        }
    }

    #[test]
    fn intervals_cover_as_often_as_they_say() {
        type Draw = dyn Fn(&mut fastrand::Rng) -> f64;
        let mut random = fastrand::Rng::with_seed(1);
        let rounds = 4000;
        // As launches scatter: by normal noise, by noise to one side, and with two states of the machine that a third has.
        let plain = |random: &mut fastrand::Rng| normal(random, 1, 0.0, 1.0)[0];
        let skewed = |random: &mut fastrand::Rng| -(1.0 - random.f64()).ln();
        let states = |random: &mut fastrand::Rng| f64::from(random.f64() < 0.33) * 8.0 + normal(random, 1, 0.0, 1.0)[0];
        // The median of all is the 74.6 % quantile of the lower state: half of all values over its share of 67 %.
        let shapes: [(&str, &Draw, f64); 3] =
            [("normal", &plain, 0.0), ("skewed", &skewed, 2.0_f64.ln()), ("two states", &states, 0.662_8)];
        for (shape, draw, median) in shapes {
            for count in [6, 7, 8, 9, 12, 20, 30] {
                let hits = (0..rounds).filter(|_| {
                    let values: Vec<f64> = (0..count).map(|_| draw(&mut random)).collect();
                    median_interval(&values, 0.95).unwrap().contains(median)
                });
                let share = f64::from(hits.count() as u32) / f64::from(rounds);
                assert!((0.935..=0.97).contains(&share), "{shape}, {count} values: {share}");
            }
        }
        let hits = (0..rounds).filter(|_| {
            let values = normal(&mut random, 30, 0.0, 1.0);
            quantile_interval(&values, 0.25, 0.95).unwrap().contains(-0.674_489_75)
        });
        let share = f64::from(hits.count() as u32) / f64::from(rounds);
        assert!((0.935..=0.965).contains(&share), "quartile: {share}");
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
