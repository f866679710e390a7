//! What one sample looks like: quantiles, means and spread.
//!
//! Every function wants at least one value and finite values only, and returns `None` otherwise; what needs more says so.

/// Share cut from *each* end by [`trimmed_mean`]: the 10 % of hbench:OS (Brown & Seltzer, SIGMETRICS 1997).
pub const TRIMMED_SHARE: f64 = 0.1;

/// Factor that makes the median absolute deviation estimate the standard deviation of normal data: 1/Φ⁻¹(3/4).
pub const NORMAL_CONSISTENCY: f64 = 1.482_602_218_505_602;

/// The quantiles printed next to a headline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantiles {
    /// One value in ten lies below.
    pub p10: f64,
    /// The median.
    pub p50: f64,
    /// One value in ten lies above.
    pub p90: f64,
    /// One value in a hundred lies above; with fewer than 100 values it is close to the maximum.
    pub p99: f64,
}

/// The values in ascending order; `None` when there are none or one of them is not finite.
pub fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    if !usable(values) {
        return None;
    }
    let mut ordered = values.to_vec();
    ordered.sort_unstable_by(f64::total_cmp);
    Some(ordered)
}

/// True when there is at least one value and every value is finite.
pub fn usable(values: &[f64]) -> bool {
    !values.is_empty() && values.iter().all(|value| value.is_finite())
}

/// Quantile of type 7 of Hyndman & Fan (The American Statistician 50, 1996), the default of R, NumPy and Julia: linear
/// interpolation between the order statistics at rank `1 + (n - 1)·probability`.
///
/// `probability` lies in `[0, 1]`; 0 gives the minimum and 1 the maximum.
pub fn quantile(values: &[f64], probability: f64) -> Option<f64> {
    if !usable(values) || !(0.0..=1.0).contains(&probability) {
        return None;
    }
    // Only the values at two ranks count, so the others need no order.
    let mut values = values.to_vec();
    let (below, share) = rank(values.len(), probability);
    let (_, low, rest) = values.select_nth_unstable_by(below, f64::total_cmp);
    let above = rest.iter().copied().min_by(f64::total_cmp).unwrap_or(*low);
    Some(interpolated(*low, above, share))
}

/// [`quantile`] of values that are already finite and in ascending order.
pub fn quantile_of_sorted(ordered: &[f64], probability: f64) -> Option<f64> {
    if ordered.is_empty() || !(0.0..=1.0).contains(&probability) {
        return None;
    }
    let (below, share) = rank(ordered.len(), probability);
    Some(interpolated(ordered[below], ordered[(below + 1).min(ordered.len() - 1)], share))
}

/// The place of a quantile in ascending order, and how far it lies towards the next one.
fn rank(count: usize, probability: f64) -> (usize, f64) {
    let position = (count - 1) as f64 * probability;
    (position.floor() as usize, position - position.floor())
}

fn interpolated(below: f64, above: f64, share: f64) -> f64 {
    // Weighted sum, not `low + share·(high - low)`: the difference of two huge values of opposite sign overflows.
    (below * (1.0 - share) + above * share).clamp(below, above)
}

/// The median: [`quantile`] at one half.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The quantiles that stand next to a headline.
pub fn quantiles(values: &[f64]) -> Option<Quantiles> {
    let ordered = sorted(values)?;
    let at = |probability| quantile_of_sorted(&ordered, probability);
    Some(Quantiles { p10: at(0.1)?, p50: at(0.5)?, p90: at(0.9)?, p99: at(0.99)? })
}

/// Arithmetic mean: right for costs, wrong for rates (Hoefler & Belli, SC 2015, rule 3).
///
/// Two passes: the second adds the mean of the residuals, which removes the rounding of the first (Chan, Golub &
/// `LeVeque`, The American Statistician 37, 1983). `None` also when the sum overflows.
pub fn mean(values: &[f64]) -> Option<f64> {
    if !usable(values) {
        return None;
    }
    let count = values.len() as f64;
    let rough = values.iter().sum::<f64>() / count;
    let correction = values.iter().map(|value| value - rough).sum::<f64>() / count;
    finite(rough + correction)
}

/// Variance with the divisor `n - 1`; wants two values.
///
/// Corrected two-pass form (Chan, Golub & `LeVeque` 1983): the textbook difference of squares loses every digit when the
/// mean is large against the spread, which is the ordinary case of a steady cost.
pub fn variance(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let centre = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    let rest: f64 = values.iter().map(|value| value - centre).sum();
    let count = values.len() as f64;
    finite(((squares - rest * rest / count) / (count - 1.0)).max(0.0))
}

/// Standard deviation with the divisor `n - 1`; wants two values.
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    variance(values).map(f64::sqrt)
}

/// Median of the absolute distances from the median, *not* scaled to the normal distribution: multiply by
/// [`NORMAL_CONSISTENCY`] for that. Half of the values may be arbitrary before it breaks down.
pub fn median_absolute_deviation(values: &[f64]) -> Option<f64> {
    let centre = median(values)?;
    median(&values.iter().map(|value| (value - centre).abs()).collect::<Vec<_>>())
}

/// Mean of what remains when the lowest and the highest [`TRIMMED_SHARE`] of the values are set aside (rounded down to
/// whole values). An estimator in addition to others. The data stays as it is.
pub fn trimmed_mean(values: &[f64]) -> Option<f64> {
    let ordered = sorted(values)?;
    let cut = (ordered.len() as f64 * TRIMMED_SHARE).floor() as usize;
    mean(&ordered[cut..ordered.len() - cut])
}

/// Natural logarithms; `None` when a value is not positive and finite, or there are none.
pub fn logarithms(values: &[f64]) -> Option<Vec<f64>> {
    if !usable(values) || values.iter().any(|value| *value <= 0.0) {
        return None;
    }
    Some(values.iter().map(|value| value.ln()).collect())
}

/// Greatest common divisor of the differences between clock readings: the step in which the clock moves.
///
/// Zeros (the clock did not move) and signs carry no information about the step. `None` when nothing else is there.
pub fn greatest_common_step(differences: &[i64]) -> Option<u64> {
    let step = differences.iter().fold(0, |step, difference| greatest_common_divisor(step, difference.unsigned_abs()));
    (step > 0).then_some(step)
}

/// Euclid's algorithm; `gcd(0, x) = x`.
fn greatest_common_divisor(mut left: u64, mut right: u64) -> u64 {
    while right > 0 {
        (left, right) = (right, left % right);
    }
    left
}

/// Keeps finite numbers only.
pub(super) fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// Mean of the values at most three times as large as the median: intervals that something interrupted are that much longer,
/// and every step of a coarse clock below stays in.
///
/// A trimmed mean will not do for quantised values: it cuts whole steps off one side and not off the other. `None` without
/// values or when one is not finite.
pub fn mean_of_uninterrupted(values: &[f64]) -> Option<f64> {
    let limit = 3.0 * median(values)?.abs();
    let kept: Vec<f64> = values.iter().copied().filter(|value| value.abs() <= limit).collect();
    mean(&kept)
}

/// Share of readings that must fall on the same phase of a step for the step to be the clock's.
const ON_STEP: f64 = 0.9;

/// Step of a clock from readings at uneven distances: the largest step on whose multiples at least nine of ten readings
/// lie; at least 1. `None` with fewer than ten readings or when the clock never moved.
///
/// The plain greatest common divisor is not enough: counters that promise never to return one value twice add 1 to a
/// reading that would repeat, and one such reading in a thousand makes the divisor 1.
pub fn clock_step(readings: &[i64]) -> Option<u64> {
    if readings.len() < 10 {
        return None;
    }
    let differences: Vec<i64> = readings.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
    let divisor = greatest_common_step(&differences)?;
    let mut candidates: Vec<u64> =
        differences.iter().map(|difference| difference.unsigned_abs()).filter(|&step| step > divisor).collect();
    candidates.sort_unstable();
    candidates.dedup();
    // A step longer than the shortest few distances between readings cannot be distinguished from those distances.
    candidates.truncate(64);
    let on_step = |step: u64| {
        let mut phases: Vec<i64> = readings.iter().map(|reading| reading.rem_euclid(step as i64)).collect();
        phases.sort_unstable();
        let most = phases.chunk_by(|one, other| one == other).map(<[i64]>::len).max().unwrap_or(0);
        most as f64 >= ON_STEP * readings.len() as f64
    };
    Some(candidates.into_iter().rev().find(|&step| on_step(step)).unwrap_or(divisor))
}

/// How much values bunch at one phase of a step: 1 when all lie on its multiples (plus one offset), near 0 when they lie
/// anywhere. The mean resultant length of circular statistics (Mardia & Jupp 2000, section 2.3). `None` without values or
/// with a step that is not positive.
pub fn phase_concentration(values: &[f64], step: f64) -> Option<f64> {
    if values.is_empty() || step <= 0.0 || step.is_nan() {
        return None;
    }
    let (sine, cosine) = values.iter().fold((0.0, 0.0), |(sine, cosine), value| {
        let angle = std::f64::consts::TAU * (value / step);
        (sine + angle.sin(), cosine + angle.cos())
    });
    finite(f64::hypot(sine, cosine) / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::synthetic::{assert_close, michelson};
    use super::*;

    #[test]
    fn quantiles_follow_type_seven() {
        // R: quantile(c(1, 2, 4, 8, 16), c(0.1, 0.25, 0.6, 0.9), type = 7).
        let values = [16.0, 1.0, 8.0, 2.0, 4.0];
        for (probability, expected) in [(0.0, 1.0), (0.1, 1.4), (0.25, 2.0), (0.6, 5.6), (0.9, 12.8), (1.0, 16.0)] {
            assert_close(quantile(&values, probability).unwrap(), expected, 1e-14);
        }
        let printed = quantiles(&values).unwrap();
        assert_close(printed.p50, 4.0, 1e-15);
        assert_close(printed.p99, 15.68, 1e-14);
    }

    #[test]
    fn accuracy_sets_of_the_nist_are_reproduced() {
        // NIST Statistical Reference Datasets, univariate: NumAcc1 to NumAcc4, certified mean and standard deviation.
        let set = |centre: f64| {
            let mut values = vec![centre];
            values.extend((0..500).flat_map(|_| [centre - 0.1, centre + 0.1]));
            values
        };
        let first = [10_000_001.0, 10_000_003.0, 10_000_002.0];
        assert_close(mean(&first).unwrap(), 10_000_002.0, 1e-15);
        assert_close(standard_deviation(&first).unwrap(), 1.0, 1e-15);
        for (centre, tolerance) in [(1.2, 1e-14), (1_000_000.2, 1e-8), (10_000_000.2, 1e-7)] {
            assert_close(mean(&set(centre)).unwrap(), centre, 1e-14);
            assert_close(standard_deviation(&set(centre)).unwrap(), 0.1, tolerance);
        }
    }

    #[test]
    fn michelson_s_speed_of_light_has_the_certified_mean_and_deviation() {
        // NIST Statistical Reference Datasets, Michelso.
        let speeds = michelson();
        assert_close(mean(&speeds).unwrap(), 299.852_4, 1e-15);
        assert_close(standard_deviation(&speeds).unwrap(), 0.079_010_547_819_051_8, 1e-13);
    }

    #[test]
    fn robust_measures_ignore_one_wild_value() {
        let values = [1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0];
        assert_close(median_absolute_deviation(&values).unwrap(), 1.0, 1e-15);
        let mut wild: Vec<f64> = (1..=9).map(f64::from).collect();
        wild.push(1e9);
        assert_close(trimmed_mean(&wild).unwrap(), 5.5, 1e-15);
    }

    #[test]
    fn clock_steps() {
        assert_eq!(greatest_common_step(&[0, 84, -126, 42, 210]), Some(42));
        assert_eq!(greatest_common_step(&[i64::MIN, 0]), Some(1 << 63));
        assert_eq!(greatest_common_step(&[0, 0]), None);
        assert_eq!(greatest_common_step(&[]), None);
    }

    #[test]
    fn what_has_no_answer_is_none() {
        for function in [median, mean, trimmed_mean, median_absolute_deviation] {
            assert_eq!(function(&[]), None);
            assert_eq!(function(&[1.0, f64::NAN]), None);
            assert_eq!(function(&[1.0, f64::INFINITY]), None);
        }
        assert_eq!(variance(&[1.0]), None);
        assert_eq!(mean(&[f64::MAX, f64::MAX]), None);
        assert_eq!(quantile(&[1.0], 1.1), None);
        assert_eq!(quantile(&[1.0], f64::NAN), None);
    }

    proptest! {
        #[test]
        fn quantiles_rise_with_probability_and_stay_inside(
            values in prop::collection::vec(-1e300..1e300, 1..40), low in 0.0..=1.0, high in 0.0..=1.0,
        ) {
            let (low, high): (f64, f64) = if low <= high { (low, high) } else { (high, low) };
            let ordered = sorted(&values).unwrap();
            let (first, second) = (quantile(&values, low).unwrap(), quantile(&values, high).unwrap());
            prop_assert!(first <= second);
            prop_assert!(ordered[0] <= first && second <= ordered[ordered.len() - 1]);
        }
    }

    #[test]
    fn the_step_of_a_clock_that_never_repeats_a_reading_is_its_step() {
        // Readings at uneven distances of a counter that advances by 26, with a 1 added to every reading that would repeat.
        let mut readings: Vec<i64> = Vec::new();
        let mut time = 0_i64;
        for index in 0..2000_i64 {
            time += 30 + index * 7 % 61;
            let shown = time / 26 * 26;
            readings.push(if readings.last() == Some(&shown) || index % 17 == 0 { shown + 1 } else { shown });
        }
        assert_eq!(clock_step(&readings), Some(26));
        let fine: Vec<i64> = (0..2000_i64).map(|index| index * 40 + index * index % 37).collect();
        assert_eq!(clock_step(&fine), Some(1));
        let coarse: Vec<i64> = (0..100_i64).map(|index| index / 10 * 4_000_000).collect();
        assert_eq!(clock_step(&coarse), Some(4_000_000));
        assert_eq!(clock_step(&[5; 100]), None);
        assert_eq!(clock_step(&[1, 2]), None);
    }

    #[test]
    fn values_on_a_step_bunch_at_one_phase() {
        let step = 10.015;
        let rounded: Vec<f64> = (0..100_i64).map(|index| ((index * index % 97) as f64 * step + 3.0).round()).collect();
        assert!(phase_concentration(&rounded, step).unwrap() > 0.95);
        let anywhere: Vec<f64> = (0..100_i64).map(|index| (index * index * 31 % 1009) as f64).collect();
        assert!(phase_concentration(&anywhere, step).unwrap() < 0.3);
        assert_eq!(phase_concentration(&[], 1.0), None);
        assert_eq!(phase_concentration(&[1.0], 0.0), None);
    }

    #[test]
    fn a_mean_over_a_coarse_clock_is_finer_than_its_step() {
        // An interval of 36.5 ticks seen by a clock that moves in steps of 26: 26 in 60 % of the cases, else 52; and now and
        // then an interruption.
        let shown: Vec<f64> = (0..2000_i64)
            .map(|index| {
                let start = index * 7919 % 26;
                if index % 200 == 0 { 9_000.0 } else { ((start as f64 + 36.5) / 26.0).floor() * 26.0 }
            })
            .collect();
        let mean = mean_of_uninterrupted(&shown).unwrap();
        assert!((mean - 36.5).abs() < 0.8, "{mean}");
        assert!((trimmed_mean(&shown).unwrap() - 36.5).abs() > 1.0, "a trimmed mean would do");
        assert_eq!(mean_of_uninterrupted(&[]), None);
    }
}
