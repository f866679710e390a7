//! Changed, equivalent or inconclusive: the comparison of one metric between two runs.
//!
//! Everything is done on the logarithms of launch estimates, where a difference is a ratio and launch estimates are near
//! normal. A p value alone never decides: a change must be proven *and* large enough to matter, and "no change found" is
//! not "no change".

use super::interval::Interval;
use super::repetition::{launches_needed, minimum_detectable_effect};
use super::shift::two_sample_shift;
use super::significance::{Permutation, permutation_test, welch};
use super::summary::{finite, logarithms, variance};

/// Fewest launches per side for a verdict: with 3 and 3 no test can reject at all, with 4 and 4 not after adjustment.
pub const FEWEST_LAUNCHES: usize = 5;

/// Adjusted p value up to which a change counts as proven.
const PROVEN: f64 = 0.05;

/// What a comparison says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// The interval excludes zero, the shift reaches the threshold, and the adjusted p value is at most 0.05.
    Changed,
    /// The whole interval lies within the threshold: two one-sided tests (Schuirmann, Journal of Pharmacokinetics and
    /// Biopharmaceutics 15, 1987).
    Equivalent,
    /// Neither: the data cannot tell. Print the minimum detectable effect and the launches needed.
    Inconclusive,
}

/// One metric of two runs, compared on the log scale: a shift of 0.01 is a ratio of 1.01.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetricComparison {
    /// Hodges–Lehmann shift `ln(other) - ln(one)`: what is reported, and compared with the threshold.
    pub shift: f64,
    /// Difference of the means of the logarithms, for those who want it.
    pub mean_difference: f64,
    /// Welch's interval of the difference: what decides.
    pub interval: Interval,
    /// Permutation test, not adjusted for the number of metrics.
    pub test: Permutation,
    /// Pooled standard deviation of the logarithms; at least 0.
    pub deviation: f64,
    /// Launches on the two sides, at least 2 each.
    pub launches: (usize, usize),
}

impl MetricComparison {
    /// The shift in percent of the first run.
    pub fn percent(&self) -> f64 {
        100.0 * self.shift.exp_m1()
    }

    /// The interval in percent of the first run.
    pub fn percent_interval(&self) -> Option<Interval> {
        self.interval.map(|end| 100.0 * end.exp_m1())
    }

    /// The verdict. `adjusted_p` is this comparison's p value after
    /// [`benjamini_hochberg`](super::significance::benjamini_hochberg) over all metrics; `threshold` is the relative change
    /// that matters (0.01 for one percent), never below the noise floor that the machine shows against itself.
    ///
    /// With fewer than [`FEWEST_LAUNCHES`] on a side, or numbers outside their domain, it is [`Conclusion::Inconclusive`].
    pub fn verdict(&self, adjusted_p: f64, threshold: f64) -> Conclusion {
        let limit = threshold.ln_1p();
        let enough = self.launches.0.min(self.launches.1) >= FEWEST_LAUNCHES;
        let proven = !self.interval.contains(0.0) && adjusted_p <= PROVEN;
        if enough && proven && self.shift.abs() >= limit {
            Conclusion::Changed
        } else if enough && self.interval.strictly_inside(-limit, limit) {
            Conclusion::Equivalent
        } else {
            Conclusion::Inconclusive
        }
    }

    /// The least relative change that so many launches find with a probability of 80 %.
    pub fn minimum_detectable_change(&self) -> Option<f64> {
        let (one, other) = self.launches;
        finite(minimum_detectable_effect(self.deviation, one, other, self.interval.level)?.exp_m1())
    }

    /// Launches per side from which a relative change of this size is found with a probability of 80 %.
    pub fn launches_needed(&self, change: f64) -> Option<usize> {
        launches_needed(self.deviation, change.ln_1p(), self.interval.level)
    }
}

/// Compares the launch estimates of one metric, `other` against `one`; the seed is for the permutation test.
///
/// Wants two positive values on each side and a `level` in `(0, 1)`.
pub fn compare(one: &[f64], other: &[f64], level: f64, seed: u64) -> Option<MetricComparison> {
    let (one, other) = (logarithms(one)?, logarithms(other)?);
    let means = welch(&one, &other, level)?;
    let (one_degrees, other_degrees) = ((one.len() - 1) as f64, (other.len() - 1) as f64);
    let pooled = (variance(&one)? * one_degrees + variance(&other)? * other_degrees) / (one_degrees + other_degrees);
    Some(MetricComparison {
        shift: two_sample_shift(&one, &other, level)?.estimate,
        mean_difference: means.difference,
        interval: means.interval,
        test: permutation_test(&one, &other, seed)?,
        deviation: pooled.sqrt(),
        launches: (one.len(), other.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::super::location::launch_estimates;
    use super::super::significance::benjamini_hochberg;
    use super::super::summary::standard_deviation;
    use super::super::synthetic::{assert_close, autoregressive, normal_draw};
    use super::*;

    /// Launch estimates of a synthetic run: lognormal batches that depend on their neighbours, one in fifty with a heavy
    /// tail, and an effect of the launch on all of its batches.
    fn run(random: &mut fastrand::Rng, launches: usize, factor: f64) -> Vec<f64> {
        let launches: Vec<Vec<f64>> = (0..launches)
            .map(|_| {
                let own = 0.01 * normal_draw(random);
                autoregressive(random, 30, 0.5)
                    .into_iter()
                    .map(|noise| {
                        let tail = if random.f64() < 0.02 { (1.0 - random.f64()).powf(-1.0 / 1.5) } else { 1.0 };
                        factor * 500.0 * (own + 0.02 * noise).exp() * tail
                    })
                    .collect()
            })
            .collect();
        launch_estimates(&launches, 0.25)
    }

    #[test]
    fn a_run_against_itself_raises_few_false_alarms() {
        let mut random = fastrand::Rng::with_seed(34);
        let comparisons: Vec<MetricComparison> = (0..1000)
            .map(|_| compare(&run(&mut random, 8, 1.0), &run(&mut random, 8, 1.0), 0.95, 0).unwrap())
            .collect();
        let by_test = comparisons.iter().filter(|comparison| comparison.test.p <= 0.05).count();
        let by_interval = comparisons.iter().filter(|comparison| !comparison.interval.contains(0.0)).count();
        assert!((20..=80).contains(&by_test), "{by_test}");
        assert!((20..=80).contains(&by_interval), "{by_interval}");
        // After adjustment over a report of a hundred metrics, hardly any are left.
        let false_changes: usize = comparisons
            .chunks(100)
            .map(|report| {
                let p_values: Vec<f64> = report.iter().map(|comparison| comparison.test.p).collect();
                let adjusted = benjamini_hochberg(&p_values).unwrap();
                let verdicts = report.iter().zip(adjusted).map(|(comparison, p)| comparison.verdict(p, 0.01));
                verdicts.filter(|verdict| *verdict == Conclusion::Changed).count()
            })
            .sum();
        assert!(false_changes <= 3, "{false_changes}");
    }

    #[test]
    fn changes_are_found_as_often_as_promised() {
        let mut random = fastrand::Rng::with_seed(35);
        let deviation = standard_deviation(&logarithms(&run(&mut random, 4000, 1.0)).unwrap()).unwrap();
        let effect = minimum_detectable_effect(deviation, 8, 8, 0.95).unwrap();
        let (mut found, mut wrong_sign) = (0, 0);
        for _ in 0..400 {
            let before = run(&mut random, 8, 1.0);
            let once = compare(&before, &run(&mut random, 8, effect.exp()), 0.95, 0).unwrap();
            found += u32::from(once.test.p <= 0.05);
            let thrice = compare(&before, &run(&mut random, 8, (3.0 * effect).exp()), 0.95, 0).unwrap();
            wrong_sign += u32::from(thrice.verdict(thrice.test.p, 0.001) != Conclusion::Changed || thrice.shift <= 0.0);
        }
        assert!((280..=360).contains(&found), "{found}");
        assert_eq!(wrong_sign, 0);
    }

    #[test]
    fn the_three_verdicts() {
        let steady = [100.0, 100.1, 99.9, 100.05, 99.95, 100.0];
        let slower: Vec<f64> = steady.iter().map(|cost| cost * 1.05).collect();
        let wide = [80.0, 120.0, 95.0, 105.0, 90.0, 112.0];
        let changed = compare(&steady, &slower, 0.95, 0).unwrap();
        assert_eq!(changed.verdict(changed.test.p, 0.01), Conclusion::Changed);
        assert_eq!(changed.verdict(changed.test.p, 0.2), Conclusion::Equivalent);
        assert_eq!(changed.verdict(0.2, 0.01), Conclusion::Inconclusive);
        assert_close(changed.percent(), 5.0, 0.01);
        assert!(changed.percent_interval().unwrap().contains(5.0));
        let same = compare(&steady, &steady, 0.95, 0).unwrap();
        assert_eq!(same.verdict(1.0, 0.01), Conclusion::Equivalent);
        let noisy = compare(&steady, &wide, 0.95, 0).unwrap();
        assert_eq!(noisy.verdict(noisy.test.p, 0.01), Conclusion::Inconclusive);
        assert!(noisy.minimum_detectable_change().unwrap() > 0.01);
        assert!(noisy.launches_needed(0.05).unwrap() > 20);
    }

    #[test]
    fn four_launches_are_no_verdict() {
        let comparison = compare(&[1.0, 1.01, 1.02, 1.0], &[2.0, 2.01, 2.02, 2.0], 0.95, 0).unwrap();
        assert_eq!(comparison.verdict(comparison.test.p, 0.01), Conclusion::Inconclusive);
    }

    #[test]
    fn what_has_no_answer_is_none() {
        assert_eq!(compare(&[1.0, 2.0], &[1.0], 0.95, 0), None);
        assert_eq!(compare(&[1.0, 2.0], &[1.0, -2.0], 0.95, 0), None);
        assert_eq!(compare(&[1.0, 2.0], &[1.0, f64::NAN], 0.95, 0), None);
        assert_eq!(compare(&[1.0, 2.0], &[1.0, 2.0], 0.0, 0), None);
        let comparison = compare(&[1.0; 5], &[1.0; 5], 0.95, 0).unwrap();
        assert_eq!(comparison.verdict(f64::NAN, f64::NAN), Conclusion::Inconclusive);
    }
}
