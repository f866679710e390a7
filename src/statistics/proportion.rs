//! How far a proportion can be trusted: the interval of Clopper and Pearson, for parts that are counted in clusters.
//!
//! Losses come in bursts, so single datagrams of one launch depend on one another. Korn and Graubard (*Survey Methodology* 24, 1998)
//! replace the number of trials by the number of independent trials with the variance that the clusters show. Without a success,
//! or without a failure, no cluster shows a variance. Then the interval is that of independent trials: 0 of n is at most 3.7 / n
//! at 95 %, which is the rule of three for two sides.

use statrs::distribution::{Beta, ContinuousCDF};

use super::distribution::{strictly_between, student_factor};
use super::interval::Interval;
use super::summary::finite;

/// The interval of a proportion, from successes and trials of each cluster. `None` without a trial, or with more successes than
/// trials.
pub fn proportion_interval(clusters: &[(f64, f64)], level: f64) -> Option<Interval> {
    let possible = |&(successes, trials): &(f64, f64)| successes >= 0.0 && successes <= trials && trials.is_finite();
    if !clusters.iter().all(possible) || !strictly_between(level) {
        return None;
    }
    let (successes, trials) = clusters.iter().fold((0.0, 0.0), |sum, found| (sum.0 + found.0, sum.1 + found.1));
    let share = finite(successes / trials)?;
    let independent = independent_trials(clusters, share, trials, level)?;
    let (successes, tail) = (share * independent, (1.0 - level) / 2.0);
    let failures = independent - successes;
    let low = if share > 0.0 { beta_quantile(successes, failures + 1.0, tail)? } else { 0.0 };
    let high = if share < 1.0 { 1.0 - beta_quantile(failures, successes + 1.0, tail)? } else { 1.0 };
    Interval::new(low.min(share), high.max(share), level)
}

/// Independent trials whose proportion would vary as much as that of the clusters does.
fn independent_trials(clusters: &[(f64, f64)], share: f64, trials: f64, level: f64) -> Option<f64> {
    let count = clusters.iter().filter(|cluster| cluster.1 > 0.0).count() as f64;
    if count < 2.0 || share <= 0.0 || share >= 1.0 {
        return Some(trials);
    }
    let squares: f64 = clusters.iter().map(|&(successes, of)| (successes - share * of).powi(2)).sum();
    let variance = count / (count - 1.0) * squares / trials.powi(2);
    let effect = (variance * trials / (share * (1.0 - share))).max(1.0);
    // The variance of few clusters is uncertain.
    let few = (student_factor(level, (trials - 1.0).max(1.0))? / student_factor(level, count - 1.0)?).powi(2).min(1.0);
    finite(trials / effect * few)
}

/// Quantile of the beta distribution, by bisection of its logarithm: it may be as small as one in all trials.
fn beta_quantile(successes: f64, failures: f64, probability: f64) -> Option<f64> {
    const STEPS: u32 = 200;
    let beta = Beta::new(successes, failures).ok()?;
    let (mut low, mut high) = (f64::MIN_POSITIVE.ln(), 0.0_f64);
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if beta.cdf(middle.exp()) < probability { low = middle } else { high = middle }
    }
    finite(high.exp())
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::assert_close;
    use super::*;

    #[test]
    fn intervals_are_those_of_printed_tables() {
        // Clopper and Pearson (1934): 1 of 10 and 5 of 20, at 95 %.
        for (successes, trials, low, high) in
            [(1.0, 10.0, 0.002_528_58, 0.445_016), (5.0, 20.0, 0.086_571, 0.491_046), (10.0, 10.0, 0.691_503, 1.0)]
        {
            let found = proportion_interval(&[(successes, trials)], 0.95).unwrap();
            assert_close(found.low, low, 1e-5);
            assert_close(found.high, high, 1e-5);
        }
    }

    #[test]
    fn none_of_many_has_an_upper_end() {
        for trials in [1.0, 60.0, 1e4, 1e7] {
            let found = proportion_interval(&[(0.0, trials / 2.0), (0.0, trials / 2.0)], 0.95).unwrap();
            let exact = 1.0 - 0.025_f64.powf(1.0 / trials);
            assert!(found.low == 0.0 && (found.high / exact - 1.0).abs() < 1e-6, "{trials}: {} {exact}", found.high);
            let all = proportion_interval(&[(trials, trials)], 0.95).unwrap();
            assert!(all.high >= 1.0 && (1.0 - all.low - exact).abs() < 1e-9, "{trials}: {}", all.low);
        }
    }

    #[test]
    fn what_cannot_be_has_no_interval() {
        assert_eq!(proportion_interval(&[], 0.95), None);
        for wrong in [(2.0, 1.0), (-1.0, 1.0), (f64::NAN, 1.0), (0.0, 0.0), (1.0, f64::INFINITY)] {
            assert_eq!(proportion_interval(&[wrong], 0.95), None, "{wrong:?}");
        }
        assert_eq!(proportion_interval(&[(1.0, 2.0)], 1.0), None);
    }

    /// How often the interval holds the true share where losses come in bursts of a length.
    fn coverage(share: f64, burst: f64, launches: usize) -> f64 {
        const TRIALS: f64 = 2_000.0;
        const TIMES: u32 = 400;
        let mut random = fastrand::Rng::with_seed(7);
        let mut held = 0;
        for _ in 0..TIMES {
            let clusters: Vec<(f64, f64)> = (0..launches)
                .map(|_| {
                    let bursts = (0..(TRIALS / burst) as u32).filter(|_| random.f64() < share).count();
                    (bursts as f64 * burst, TRIALS)
                })
                .collect();
            held += u32::from(proportion_interval(&clusters, 0.95).unwrap().contains(share));
        }
        f64::from(held) / f64::from(TIMES)
    }

    #[test]
    fn the_interval_holds_the_share_also_where_losses_come_in_bursts() {
        for (share, burst) in [(0.01, 1.0), (0.2, 1.0), (0.05, 20.0), (0.3, 50.0)] {
            let found = coverage(share, burst, 9);
            assert!(found >= 0.93, "{share} in bursts of {burst}: {found}");
        }
    }
}
