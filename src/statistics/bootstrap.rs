//! Intervals of statistics that have no formula: resampling with replacement (Efron & Tibshirani, *An Introduction to
//! the Bootstrap*, 1993).
//!
//! What is drawn is always the unit of replication. The default path is [`bootstrap`] over *one value per launch*: a
//! resample then costs one sort of some thirty numbers. The launch versions hand whole launches to the statistic, for what
//! cannot be said with one number per launch. Two measurements whose difference is published are drawn together
//! ([`paired_bootstrap`]), so that what a launch does to both cancels. Samples are never exchanged between launches.
//!
//! Every draw comes from the seed in [`Resampling`]: the same log gives the same interval.

use super::distribution::{normal_below, normal_quantile, strictly_between};
use super::interval::Interval;
use super::summary::{finite, quantile_of_sorted, sorted, usable};

/// From this many units on the intervals are bias-corrected and accelerated; below, the jackknife behind the correction
/// has too few points to be worth following, and plain percentiles are taken.
pub const CORRECT_FROM: usize = 8;

/// Share of the resamples for which the statistic must exist. A regression on a resample of one launch repeated has no
/// answer; that is rare by nature, and a statistic for which it is not rare has no bootstrap interval.
const SHARE_DEFINED: f64 = 0.9;

/// How to resample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resampling {
    /// Number of resamples, at least 2; 1000 to 2000 for intervals of 95 % (Efron & Tibshirani, section 14.3).
    pub count: usize,
    /// Seed of the generator.
    pub seed: u64,
    /// Confidence level, in `(0, 1)`. It is nominal: with fewer than ten units the true coverage is some points lower.
    pub level: f64,
}

impl Resampling {
    /// 2000 resamples at 95 %.
    pub fn seeded(seed: u64) -> Self {
        Resampling { count: 2000, seed, level: 0.95 }
    }
}

/// Interval of a statistic of independent values, one per launch: [`bca_bootstrap`] from [`CORRECT_FROM`] values on,
/// [`percentile_bootstrap`] below. Wants two values.
pub fn bootstrap(
    values: &[f64],
    resampling: Resampling,
    statistic: impl Fn(&[f64]) -> Option<f64>,
) -> Option<Interval> {
    if values.len() < CORRECT_FROM {
        percentile_bootstrap(values, resampling, statistic)
    } else {
        bca_bootstrap(values, resampling, statistic)
    }
}

/// Percentile interval (Efron & Tibshirani, chapter 13): the quantiles of the resampled statistic. Wants two values.
pub fn percentile_bootstrap(
    values: &[f64],
    resampling: Resampling,
    statistic: impl Fn(&[f64]) -> Option<f64>,
) -> Option<Interval> {
    if !usable(values) {
        return None;
    }
    let mut drawn = Vec::with_capacity(values.len());
    let resamples = resample(values.len(), resampling, |chosen, _| statistic(pick(values, chosen, &mut drawn)))?;
    percentiles(&resamples, resampling.level, Some)
}

/// Bias-corrected and accelerated interval (Efron, Journal of the American Statistical Association 82, 1987; Efron &
/// Tibshirani, chapter 14). Wants three values.
///
/// The acceleration is a jackknife, which is rough for quantiles; it shifts the ends by a fraction of their distance.
pub fn bca_bootstrap(
    values: &[f64],
    resampling: Resampling,
    statistic: impl Fn(&[f64]) -> Option<f64>,
) -> Option<Interval> {
    if !usable(values) {
        return None;
    }
    let mut drawn = Vec::with_capacity(values.len());
    corrected(values.len(), resampling, |chosen, _| statistic(pick(values, chosen, &mut drawn)))
}

/// Interval of a difference of one statistic over two series that were taken in the same launches: `statistic(one) -
/// statistic(other)`, the same launches drawn for both. Position `i` of both slices is launch `i`.
///
/// This is the interval of unroll differencing, with `one` the launch estimates of the long body and `other` those of the
/// short body. Wants two launches and equal lengths. Always a percentile interval: where launches share a large effect, the
/// difference of two quantiles hardly ever resamples to values off its estimate, and the corrected interval then covers 79 %
/// where it says 95 %. The percentile interval is wide there instead; the order-statistic interval of the differences
/// *within* launches (`one[i] - other[i]`, then [`median_interval`](super::interval::median_interval)) is narrow and exact,
/// and the better choice whenever the figure can be defined that way.
pub fn paired_bootstrap(
    one: &[f64],
    other: &[f64],
    resampling: Resampling,
    statistic: impl Fn(&[f64]) -> Option<f64>,
) -> Option<Interval> {
    if one.len() != other.len() || !usable(one) || !usable(other) {
        return None;
    }
    let mut drawn = Vec::with_capacity(one.len());
    let resamples = resample(one.len(), resampling, |chosen, _| {
        Some(statistic(pick(one, chosen, &mut drawn))? - statistic(pick(other, chosen, &mut drawn))?)
    })?;
    percentiles(&resamples, resampling.level, Some)
}

/// Interval of a statistic of whole launches: launches are drawn with replacement, their samples stay together.
pub fn launch_bootstrap<'launches, L: AsRef<[f64]>>(
    launches: &'launches [L],
    resampling: Resampling,
    statistic: impl Fn(&[&'launches [f64]]) -> Option<f64>,
) -> Option<Interval> {
    corrected_or_not(launches.len(), resampling, |chosen, _| statistic(&gather(launches, chosen)))
}

/// [`paired_bootstrap`] of a statistic of whole launches.
pub fn paired_launch_bootstrap<'launches, L: AsRef<[f64]>>(
    one: &'launches [L],
    other: &'launches [L],
    resampling: Resampling,
    statistic: impl Fn(&[&'launches [f64]]) -> Option<f64>,
) -> Option<Interval> {
    if one.len() != other.len() {
        return None;
    }
    let resamples = resample(one.len(), resampling, |chosen, _| {
        Some(statistic(&gather(one, chosen))? - statistic(&gather(other, chosen))?)
    })?;
    percentiles(&resamples, resampling.level, Some)
}

/// Interval by resampling at both levels: launches with replacement, then the samples inside each chosen launch with
/// replacement; `within` summarises a launch and `across` the launches.
///
/// For net costs the samples are the differences `gross - overhead` of paired batches, `within` the median and `across`
/// the mean. It is the honest interval when launches are few and long; the plain launch bootstrap is nearly the same when
/// launches are many (Davison & Hinkley, *Bootstrap Methods and their Application*, section 3.8).
pub fn hierarchical_bootstrap<L: AsRef<[f64]>>(
    launches: &[L],
    resampling: Resampling,
    within: impl Fn(&[f64]) -> Option<f64>,
    across: impl Fn(&[f64]) -> Option<f64>,
) -> Option<Interval> {
    if launches.iter().any(|launch| !usable(launch.as_ref())) {
        return None;
    }
    let mut drawn = Vec::new();
    let mut estimates = Vec::with_capacity(launches.len());
    corrected_or_not(launches.len(), resampling, |chosen, random| {
        estimates.clear();
        for &launch in chosen {
            let samples = launches[launch].as_ref();
            let estimate = if let Some(random) = random.as_deref_mut() {
                drawn.clear();
                drawn.extend((0..samples.len()).map(|_| samples[random.usize(..samples.len())]));
                within(&drawn)
            } else {
                within(samples)
            };
            estimates.push(estimate?);
        }
        across(&estimates)
    })
}

/// The generator during a resample; absent when the statistic is wanted for the units as they are (the estimate itself
/// and its jackknife).
type Randomness<'a> = Option<&'a mut fastrand::Rng>;

/// Bias-corrected interval from [`CORRECT_FROM`] units on, percentile interval below.
fn corrected_or_not(
    units: usize,
    resampling: Resampling,
    mut value_of: impl FnMut(&[usize], &mut Randomness<'_>) -> Option<f64>,
) -> Option<Interval> {
    if units >= CORRECT_FROM {
        return corrected(units, resampling, value_of);
    }
    percentiles(&resample(units, resampling, &mut value_of)?, resampling.level, Some)
}

/// Resamples the units and gives the statistic of every resample, in ascending order.
fn resample(
    units: usize,
    resampling: Resampling,
    mut value_of: impl FnMut(&[usize], &mut Randomness<'_>) -> Option<f64>,
) -> Option<Vec<f64>> {
    if units < 2 || resampling.count < 2 || !strictly_between(resampling.level) {
        return None;
    }
    let mut random = fastrand::Rng::with_seed(resampling.seed);
    let mut chosen = vec![0; units];
    let mut values = Vec::with_capacity(resampling.count);
    for _ in 0..resampling.count {
        chosen.fill_with(|| random.usize(..units));
        values.extend(value_of(&chosen, &mut Some(&mut random)).and_then(finite));
    }
    let enough = values.len() as f64 >= SHARE_DEFINED * resampling.count as f64;
    sorted(&values).filter(|_| enough)
}

/// The bias-corrected and accelerated interval over resampled units.
fn corrected(
    units: usize,
    resampling: Resampling,
    mut value_of: impl FnMut(&[usize], &mut Randomness<'_>) -> Option<f64>,
) -> Option<Interval> {
    if units < 3 {
        return None;
    }
    let everything: Vec<usize> = (0..units).collect();
    let estimate = value_of(&everything, &mut None).and_then(finite)?;
    let jackknife: Vec<f64> = (0..units)
        .map(|omitted| {
            let others: Vec<usize> = everything.iter().copied().filter(|unit| *unit != omitted).collect();
            value_of(&others, &mut None).and_then(finite)
        })
        .collect::<Option<_>>()?;
    let resamples = resample(units, resampling, value_of)?;
    let bias = bias(&resamples, estimate)?;
    let acceleration = acceleration(&jackknife);
    percentiles(&resamples, resampling.level, |probability| {
        let shifted = bias + normal_quantile(probability)?;
        let denominator = 1.0 - acceleration * shifted;
        // A denominator at or below zero means the correction left its domain: keep the plain percentile.
        if denominator <= 0.0 { Some(probability) } else { normal_below(bias + shifted / denominator) }
    })
}

/// Normal score of the share of resamples below the estimate. Ties count half: a resampled median of few values is
/// equal to the estimate very often.
fn bias(resamples: &[f64], estimate: f64) -> Option<f64> {
    let below = resamples.partition_point(|value| *value < estimate);
    let not_above = resamples.partition_point(|value| *value <= estimate);
    let count = resamples.len() as f64;
    let share = f64::midpoint(below as f64, not_above as f64) / count;
    normal_quantile(share.clamp(0.5 / count, 1.0 - 0.5 / count))
}

/// Skewness of the jackknife over six; zero when leaving one unit out changes nothing.
fn acceleration(jackknife: &[f64]) -> f64 {
    let centre = jackknife.iter().sum::<f64>() / jackknife.len() as f64;
    let squares: f64 = jackknife.iter().map(|value| (centre - value).powi(2)).sum();
    let cubes: f64 = jackknife.iter().map(|value| (centre - value).powi(3)).sum();
    finite(cubes / (6.0 * squares.powf(1.5))).unwrap_or(0.0)
}

/// The interval between two quantiles of the resamples, after `adjust` has moved the two tail probabilities.
fn percentiles(resamples: &[f64], level: f64, adjust: impl Fn(f64) -> Option<f64>) -> Option<Interval> {
    let tail = (1.0 - level) / 2.0;
    let end = |probability| quantile_of_sorted(resamples, adjust(probability)?);
    Interval::new(end(tail)?, end(1.0 - tail)?, level)
}

/// The chosen values, in a buffer that is reused from resample to resample.
fn pick<'buffer>(values: &[f64], chosen: &[usize], buffer: &'buffer mut Vec<f64>) -> &'buffer [f64] {
    buffer.clear();
    buffer.extend(chosen.iter().map(|&unit| values[unit]));
    buffer
}

/// The chosen launches.
fn gather<'launches, L: AsRef<[f64]>>(launches: &'launches [L], chosen: &[usize]) -> Vec<&'launches [f64]> {
    chosen.iter().map(|&launch| launches[launch].as_ref()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::interval::{mean_interval, median_interval};
    use super::super::summary::{mean, median};
    use super::super::synthetic::{assert_close, normal, normal_draw};
    use super::*;

    /// The treated mice of Efron & Tibshirani, table 2.1: survival in days.
    const MICE: [f64; 7] = [94.0, 197.0, 16.0, 38.0, 99.0, 141.0, 23.0];

    #[test]
    fn the_mice_of_the_textbook_have_its_standard_error() {
        // The ideal bootstrap error of their mean is the plug-in one, 23.36 (Efron & Tibshirani, table 2.2): a 68.27 %
        // percentile interval is about twice as wide.
        let resampling = Resampling { count: 20_000, seed: 1, level: 0.6827 };
        let interval = percentile_bootstrap(&MICE, resampling, mean).unwrap();
        assert_close(interval.half_width(), 23.36, 0.03);
    }

    #[test]
    fn normal_values_give_student_s_interval() {
        let values = normal(&mut fastrand::Rng::with_seed(3), 60, 100.0, 5.0);
        let student = mean_interval(&values, 0.95).unwrap();
        for interval in [
            percentile_bootstrap(&values, Resampling::seeded(4), mean).unwrap(),
            bca_bootstrap(&values, Resampling::seeded(4), mean).unwrap(),
        ] {
            assert_close(interval.low, student.low, 0.003);
            assert_close(interval.high, student.high, 0.003);
        }
    }

    #[test]
    fn order_statistics_and_bootstrap_agree_on_the_median() {
        let values = normal(&mut fastrand::Rng::with_seed(5), 101, 0.0, 1.0);
        let ranks = median_interval(&values, 0.95).unwrap();
        let resampled = bootstrap(&values, Resampling::seeded(6), median).unwrap();
        assert!((ranks.low - resampled.low).abs() < 0.1 && (ranks.high - resampled.high).abs() < 0.1);
    }

    #[test]
    fn correction_follows_the_skew() {
        // Skewed to the right: the corrected interval of the mean lies higher than the percentile interval.
        let mut random = fastrand::Rng::with_seed(7);
        let values: Vec<f64> = normal(&mut random, 20, 0.0, 1.0).into_iter().map(f64::exp).collect();
        let plain = percentile_bootstrap(&values, Resampling::seeded(8), mean).unwrap();
        let corrected = bca_bootstrap(&values, Resampling::seeded(8), mean).unwrap();
        assert!(corrected.low > plain.low && corrected.high > plain.high);
    }

    #[test]
    fn coverage_is_near_the_level() {
        let mut random = fastrand::Rng::with_seed(9);
        let rounds = 400_u32;
        let hits: u32 = (0..rounds)
            .map(|round| {
                let values = normal(&mut random, 30, 10.0, 1.0);
                let resampling = Resampling { count: 600, seed: u64::from(round), level: 0.95 };
                u32::from(bootstrap(&values, resampling, mean).unwrap().contains(10.0))
            })
            .sum();
        assert!((0.92..=0.98).contains(&(f64::from(hits) / f64::from(rounds))), "{hits}");
    }

    #[test]
    fn pairing_removes_what_both_share() {
        let mut random = fastrand::Rng::with_seed(10);
        let shared = normal(&mut random, 30, 100.0, 20.0);
        let short: Vec<f64> = shared.iter().map(|base| base + random.f64()).collect();
        let long: Vec<f64> = shared.iter().map(|base| base + 7.0 + random.f64()).collect();
        let paired = paired_bootstrap(&long, &short, Resampling::seeded(11), mean).unwrap();
        assert!(paired.contains(7.0) || paired.half_width() < 0.5);
        assert!(paired.half_width() < 0.3);
        let launches = |values: &[f64]| values.iter().map(|value| vec![*value; 3]).collect::<Vec<_>>();
        let mean_of_means = |launches: &[&[f64]]| mean(&launches.iter().map(|launch| launch[0]).collect::<Vec<_>>());
        let whole = paired_launch_bootstrap(&launches(&long), &launches(&short), Resampling::seeded(11), mean_of_means)
            .unwrap();
        assert_close(whole.low, paired.low, 1e-12);
        assert_close(whole.high, paired.high, 1e-12);
    }

    #[test]
    fn both_levels_widen_what_few_samples_leave_open() {
        let mut random = fastrand::Rng::with_seed(12);
        let launches: Vec<Vec<f64>> = (0..12).map(|_| normal(&mut random, 5, 50.0, 1.0)).collect();
        let means: Vec<f64> = launches.iter().filter_map(|launch| mean(launch)).collect();
        let across = bootstrap(&means, Resampling::seeded(13), mean).unwrap();
        let both = hierarchical_bootstrap(&launches, Resampling::seeded(13), mean, mean).unwrap();
        assert!(both.half_width() > across.half_width());
        assert!(both.contains(mean(&means).unwrap()));
        let whole = launch_bootstrap(&launches, Resampling::seeded(13), |chosen| {
            mean(&chosen.iter().filter_map(|launch| mean(launch)).collect::<Vec<_>>())
        });
        assert_eq!(whole, Some(across));
    }

    #[test]
    fn the_seed_decides() {
        let first = bootstrap(&MICE, Resampling::seeded(1), median);
        assert_eq!(first, bootstrap(&MICE, Resampling::seeded(1), median));
        assert_ne!(
            percentile_bootstrap(&MICE, Resampling::seeded(1), mean),
            percentile_bootstrap(&MICE, Resampling::seeded(2), mean)
        );
    }

    #[test]
    fn what_has_no_answer_is_none() {
        let resampling = Resampling::seeded(1);
        assert_eq!(bootstrap(&[], resampling, mean), None);
        assert_eq!(bootstrap(&[1.0], resampling, mean), None);
        assert_eq!(bootstrap(&[1.0, f64::NAN, 2.0], resampling, mean), None);
        assert_eq!(bootstrap(&[1.0, 2.0], Resampling { level: 1.0, ..resampling }, mean), None);
        assert_eq!(bootstrap(&MICE, resampling, |_| None), None);
        assert_eq!(bootstrap(&MICE, resampling, |_| Some(f64::NAN)), None);
        assert_eq!(paired_bootstrap(&MICE, &MICE[1..], resampling, mean), None);
        assert_eq!(hierarchical_bootstrap(&[vec![1.0], vec![]], resampling, mean, mean), None);
        let constant = bootstrap(&[3.0; 10], resampling, mean).unwrap();
        assert_close(constant.low, 3.0, 1e-15);
        assert_close(constant.high, 3.0, 1e-15);
    }

    #[test]
    fn paired_differences_are_covered_whatever_the_launches_share() {
        let mut random = fastrand::Rng::with_seed(20);
        let rounds = 300_u32;
        for shared_deviation in [0.0, 1.0, 20.0] {
            let mut hits = 0;
            for round in 0..rounds {
                let shared = normal(&mut random, 15, 0.0, shared_deviation);
                let own = |random: &mut fastrand::Rng| shared.iter().map(|base| base + normal_draw(random)).collect();
                let (one, other): (Vec<f64>, Vec<f64>) = (own(&mut random), own(&mut random));
                let resampling = Resampling { count: 400, seed: u64::from(round), level: 0.95 };
                hits += u32::from(paired_bootstrap(&one, &other, resampling, median).unwrap().contains(0.0));
            }
            assert!(f64::from(hits) >= 0.93 * f64::from(rounds), "{shared_deviation}: {hits}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn ends_are_ordered_and_inside_the_data(values in prop::collection::vec(-1e6..1e6, 3..20), seed in 0..1000_u64) {
            let resampling = Resampling { count: 200, seed, level: 0.9 };
            let interval = bootstrap(&values, resampling, median).unwrap();
            let ordered = sorted(&values).unwrap();
            prop_assert!(interval.low <= interval.high);
            prop_assert!(ordered[0] <= interval.low && interval.high <= ordered[ordered.len() - 1]);
        }
    }
}
