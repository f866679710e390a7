//! Where repetition pays, and how much of it is needed (Kalibera & Jones, "Rigorous benchmarking in reasonable time", ISMM
//! 2013).
//!
//! Variance exists at every level: batches of one launch differ, and launches differ. Repeating batches lowers only the
//! share of the batches; the highest level must be repeated or its variance is not even seen.

use super::distribution::{student_factor, student_quantile};
use super::summary::{finite, mean, usable, variance};

/// Probability with which an effect of the minimum detectable size is found.
const POWER: f64 = 0.8;

/// Most launches per side that [`launches_needed`] proposes; beyond, the honest answer is that the effect is too small.
const MOST_LAUNCHES: usize = 1000;

/// Variance of batches nested in launches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VarianceComponents {
    /// Variance of batches around the mean of their launch (T₁²); at least 0.
    pub within: f64,
    /// Variance that launches add to it (T₂²); at least 0. Zero also when the estimate is negative, which happens when
    /// launches do not differ.
    pub between: f64,
    /// Batches per launch: the harmonic mean where they differ.
    pub batches: f64,
}

/// Variance components by the analysis of variance: `T₁² = S₁²`, `T₂² = S₂² - S₁²/r₁`, where `S₁²` is the pooled variance
/// within launches and `S₂²` the variance of launch means.
///
/// Wants two launches of two batches at least, all finite.
pub fn variance_components<L: AsRef<[f64]>>(launches: &[L]) -> Option<VarianceComponents> {
    if launches.len() < 2 || launches.iter().any(|launch| launch.as_ref().len() < 2) {
        return None;
    }
    let mut means = Vec::with_capacity(launches.len());
    let (mut squares, mut degrees, mut inverse_sizes) = (0.0, 0.0, 0.0);
    for launch in launches {
        let (size, launch) = (launch.as_ref().len() as f64, launch.as_ref());
        means.push(mean(launch)?);
        squares += variance(launch)? * (size - 1.0);
        degrees += size - 1.0;
        inverse_sizes += 1.0 / size;
    }
    let batches = launches.len() as f64 / inverse_sizes;
    let within = finite(squares / degrees)?;
    let between = finite(variance(&means)? - within / batches)?.max(0.0);
    Some(VarianceComponents { within, between, batches })
}

/// Batches per launch that give the narrowest interval for a given time: `⌈√((c₂/c₁)·(T₁²/T₂²))⌉`, with the cost of
/// starting a launch c₂ and of one batch c₁, in any common unit.
///
/// At least 1. `None` for costs that are not positive, and when launches add no variance: then more batches are always as
/// good as more launches, and there is no optimum.
pub fn batches_per_launch(components: &VarianceComponents, launch_cost: f64, batch_cost: f64) -> Option<usize> {
    if !(launch_cost > 0.0 && batch_cost > 0.0 && components.between > 0.0) {
        return None;
    }
    let optimum = finite((launch_cost / batch_cost * components.within / components.between).sqrt())?;
    Some((optimum.ceil() as usize).max(1))
}

/// The least difference of two means that is found with a probability of 80 %, for values of standard deviation
/// `deviation` in samples of these sizes: `(t(1-α/2) + t(0.8))·s·√(1/a + 1/b)`, with `a + b - 2` degrees of freedom
/// (Lachin, Controlled Clinical Trials 2, 1981, with t for small samples).
///
/// With logarithms of launch estimates the answer is a relative difference: 2.0·s for 5 launches per side, 1.5·s for 8.
/// Wants two values on each side and a deviation that is not negative.
pub fn minimum_detectable_effect(deviation: f64, one: usize, other: usize, level: f64) -> Option<f64> {
    if one < 2 || other < 2 || !usable(&[deviation]) || deviation < 0.0 {
        return None;
    }
    let degrees = (one + other - 2) as f64;
    let factor = student_factor(level, degrees)? + student_quantile(POWER, degrees)?;
    finite(factor * deviation * (1.0 / one as f64 + 1.0 / other as f64).sqrt())
}

/// Launches per side from which an effect of this size is found with a probability of 80 %. `None` when a thousand are not
/// enough, or the effect is not positive.
pub fn launches_needed(deviation: f64, effect: f64, level: f64) -> Option<usize> {
    let enough = |launches: usize| {
        minimum_detectable_effect(deviation, launches, launches, level).is_some_and(|detectable| detectable <= effect)
    };
    if !(effect > 0.0 && enough(MOST_LAUNCHES)) {
        return None;
    }
    // The detectable effect falls with every launch: halve the range.
    let (mut too_few, mut sufficient) = (1, MOST_LAUNCHES);
    while sufficient - too_few > 1 {
        let middle = usize::midpoint(too_few, sufficient);
        if enough(middle) { sufficient = middle } else { too_few = middle }
    }
    Some(sufficient)
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{assert_close, normal};
    use super::*;

    #[test]
    fn variance_components_of_the_textbook() {
        // Davies, Statistical Methods in Research and Production, table 6.1: yield of dyestuff, six batches of five
        // preparations; variance components 1764 between and 2451 within.
        let batches = [
            [1545.0, 1440.0, 1440.0, 1520.0, 1580.0],
            [1540.0, 1555.0, 1490.0, 1560.0, 1495.0],
            [1595.0, 1550.0, 1605.0, 1510.0, 1560.0],
            [1445.0, 1440.0, 1595.0, 1465.0, 1545.0],
            [1595.0, 1630.0, 1515.0, 1635.0, 1625.0],
            [1520.0, 1455.0, 1450.0, 1480.0, 1445.0],
        ];
        let found = variance_components(&batches).unwrap();
        assert_close(found.within, 2451.25, 1e-12);
        assert_close(found.between, 1764.05, 1e-12);
        assert_close(found.batches, 5.0, 1e-12);
    }

    #[test]
    fn components_of_unequal_launches_are_recovered() {
        let mut random = fastrand::Rng::with_seed(33);
        let launches: Vec<Vec<f64>> = (0..4000)
            .map(|launch| {
                let own = normal(&mut random, 1, 100.0, 2.0)[0];
                normal(&mut random, 5 + launch % 10, own, 6.0)
            })
            .collect();
        let found = variance_components(&launches).unwrap();
        assert_close(found.within, 36.0, 0.03);
        assert_close(found.between, 4.0, 0.15);
    }

    #[test]
    fn repetition_goes_where_the_variance_is() {
        let components = VarianceComponents { within: 36.0, between: 4.0, batches: 10.0 };
        assert_eq!(batches_per_launch(&components, 100.0, 1.0), Some(30));
        assert_eq!(batches_per_launch(&components, 1.0, 100.0), Some(1));
        assert_eq!(batches_per_launch(&VarianceComponents { between: 0.0, ..components }, 1.0, 1.0), None);
        assert_eq!(batches_per_launch(&components, 0.0, 1.0), None);
    }

    #[test]
    fn detectable_effects_of_the_usual_sizes() {
        for (launches, expected) in [(5, 2.0), (8, 1.5), (10, 1.3), (20, 0.9)] {
            assert_close(minimum_detectable_effect(1.0, launches, launches, 0.95).unwrap(), expected, 0.03);
        }
        assert_eq!(launches_needed(1.0, 2.03, 0.95), Some(5));
        assert_eq!(launches_needed(1.0, 100.0, 0.95), Some(2));
        assert_eq!(launches_needed(1.0, 1e-6, 0.95), None);
        assert_eq!(launches_needed(0.0, 0.01, 0.95), Some(2));
    }

    #[test]
    fn what_has_no_answer_is_none() {
        assert_eq!(variance_components(&[vec![1.0, 2.0]]), None);
        assert_eq!(variance_components(&[vec![1.0, 2.0], vec![1.0]]), None);
        assert_eq!(variance_components(&[vec![1.0, 2.0], vec![1.0, f64::NAN]]), None);
        assert_eq!(minimum_detectable_effect(1.0, 1, 5, 0.95), None);
        assert_eq!(minimum_detectable_effect(f64::NAN, 5, 5, 0.95), None);
        assert_eq!(launches_needed(1.0, f64::NAN, 0.95), None);
    }
}
