//! The two published locations of a figure, both of normalised samples over launches.
//!
//! *Undisturbed* is the lower quartile over launches of each launch's lower quartile: what the operation costs when
//! nothing else runs. *Typical* is the median of medians: what it cost on the whole. Noise on a shared machine is
//! one-sided (it adds time), so the undisturbed figure characterises the machine and the typical one also its neighbours;
//! a wide gap between the two is a warning in itself.
//!
//! Why a quartile and never the minimum: samples are normalised by a clock probe beside them, and the minimum of such a
//! series is the batch whose *probe* was hit by an interrupt, not the batch that ran undisturbed. Measured over 170 s of
//! batches, the minimum wanders by 40 % from run to run where the quartile of quartiles wanders by 0.05 to 1.2 %. A
//! quartile cannot be won by one lucky batch, and as an order statistic it has an interval without any assumption on shape.

use super::interval::{Interval, quantile_interval};
use super::summary::{finite, quantile};

/// Below this many launches an interval says nothing about launches, whatever its level: the figure is to be marked as
/// seen within a launch only.
pub const FEWEST_LAUNCHES: usize = 5;

/// Quantile of the undisturbed location, within a launch and over launches.
const UNDISTURBED: f64 = 0.25;

/// Quantile of the typical location, within a launch and over launches.
const TYPICAL: f64 = 0.5;

/// One location of a replicated figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Location {
    /// The estimate; finite.
    pub estimate: f64,
    /// Order-statistic interval over launch estimates, with the confidence that so many launches can give (7 launches
    /// give a quartile 85 %). Absent with fewer than two launches.
    pub interval: Option<Interval>,
    /// Launches that gave an estimate. Fewer than [`FEWEST_LAUNCHES`] do not support a claim about launches.
    pub launches: usize,
}

/// One estimate per launch: the given quantile of its samples.
///
/// A launch without samples (every batch was void) or with a sample that is not finite gives no estimate and is left
/// out, so the answer can be shorter than the input; a `probability` outside `[0, 1]` gives an empty one.
pub fn launch_estimates<L: AsRef<[f64]>>(launches: &[L], probability: f64) -> Vec<f64> {
    launches.iter().filter_map(|launch| quantile(launch.as_ref(), probability)).collect()
}

/// The cost without disturbance: lower quartile over launches of each launch's lower quartile. `None` without a single
/// usable launch; `level` lies in `(0, 1)`.
pub fn undisturbed<L: AsRef<[f64]>>(launches: &[L], level: f64) -> Option<Location> {
    location(launches, UNDISTURBED, level)
}

/// The cost as it usually was: median over launches of each launch's median. `None` without a single usable launch.
pub fn typical<L: AsRef<[f64]>>(launches: &[L], level: f64) -> Option<Location> {
    location(launches, TYPICAL, level)
}

/// How much the neighbours cost: typical over undisturbed. Above 1.05 the figure is noisy. Meant for positive costs.
pub fn disturbance<L: AsRef<[f64]>>(launches: &[L]) -> Option<f64> {
    let estimate = |probability| quantile(&launch_estimates(launches, probability), probability);
    finite(estimate(TYPICAL)? / estimate(UNDISTURBED)?)
}

/// A quantile over launches of the same quantile within launches.
pub fn location<L: AsRef<[f64]>>(launches: &[L], probability: f64, level: f64) -> Option<Location> {
    let estimates = launch_estimates(launches, probability);
    Some(Location {
        estimate: quantile(&estimates, probability)?,
        interval: quantile_interval(&estimates, probability, level),
        launches: estimates.len(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::synthetic::{assert_close, normal, normal_draw};
    use super::*;

    /// Launches as a shared machine gives them: a floor, small noise, one-sided bursts, phases that hit whole launches,
    /// and now and then a sample far too low, because its clock probe was hit.
    fn shared_machine(random: &mut fastrand::Rng, launches: usize) -> Vec<Vec<f64>> {
        (0..launches)
            .map(|_| {
                let phase = if random.f64() < 0.3 { 60.0 * random.f64() } else { 0.0 };
                (0..30)
                    .map(|_| {
                        let burst = if random.f64() < 0.2 { 200.0 * random.f64() } else { 0.0 };
                        let probe_hit = if random.f64() < 0.004 { 0.6 } else { 1.0 };
                        (314.0 + 0.5 * normal_draw(random) + phase + burst) * probe_hit
                    })
                    .collect()
            })
            .collect()
    }

    #[test]
    fn locations_of_a_worked_example() {
        let launches = vec![vec![1.0, 2.0, 3.0, 4.0, 5.0], vec![11.0, 12.0, 13.0, 14.0, 15.0], vec![21.0; 5]];
        assert_eq!(launch_estimates(&launches, 0.25), [2.0, 12.0, 21.0]);
        let undisturbed = undisturbed(&launches, 0.95).unwrap();
        assert_close(undisturbed.estimate, 7.0, 1e-15);
        assert_eq!(undisturbed.launches, 3);
        assert!(undisturbed.interval.unwrap().level < 0.95);
        assert_close(typical(&launches, 0.95).unwrap().estimate, 13.0, 1e-15);
        assert_close(disturbance(&launches).unwrap(), 13.0 / 7.0, 1e-15);
    }

    #[test]
    fn undisturbed_repeats_where_minimum_and_typical_do_not() {
        let mut random = fastrand::Rng::with_seed(14);
        let (mut low, mut middle, mut minimum) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..40 {
            let launches = shared_machine(&mut random, 30);
            low.push(undisturbed(&launches, 0.95).unwrap().estimate);
            middle.push(typical(&launches, 0.95).unwrap().estimate);
            minimum.push(location(&launches, 0.0, 0.95).unwrap().estimate);
        }
        let spread = |values: &[f64]| super::super::summary::coefficient_of_variation(values).unwrap();
        assert!(spread(&low) < 0.002 && spread(&low) < spread(&minimum) / 20.0);
        assert!(spread(&low) < spread(&middle));
    }

    #[test]
    fn the_interval_covers_the_quartile_of_launches() {
        let mut random = fastrand::Rng::with_seed(15);
        let rounds = 2000;
        let hits: u32 = (0..rounds)
            .map(|_| {
                let launches: Vec<Vec<f64>> =
                    normal(&mut random, 30, 100.0, 1.0).into_iter().map(|value| vec![value; 4]).collect();
                u32::from(undisturbed(&launches, 0.95).unwrap().interval.unwrap().contains(100.0 - 0.674_489_75))
            })
            .sum();
        assert!((0.94..=0.98).contains(&(f64::from(hits) / f64::from(rounds))), "{hits}");
    }

    #[test]
    fn launches_without_an_estimate_are_left_out_and_counted() {
        let launches = vec![vec![1.0, 1.0], vec![], vec![f64::NAN], vec![3.0]];
        assert_eq!(typical(&launches, 0.95).unwrap().launches, 2);
        assert_eq!(typical(&[vec![1.0]], 0.95).unwrap().interval, None);
        assert_eq!(typical::<Vec<f64>>(&[], 0.95), None);
        assert_eq!(undisturbed(&[vec![f64::INFINITY]], 0.95), None);
        assert_eq!(disturbance(&[vec![0.0, 0.0]]), None);
    }

    proptest! {
        #[test]
        fn undisturbed_is_never_above_typical(
            launches in prop::collection::vec(prop::collection::vec(1.0..1e6, 1..10), 1..10),
        ) {
            let low = undisturbed(&launches, 0.95).unwrap();
            prop_assert!(low.estimate <= typical(&launches, 0.95).unwrap().estimate);
            prop_assert!(low.interval.is_none_or(|interval| interval.contains(low.estimate)));
            prop_assert!(disturbance(&launches).unwrap() >= 1.0);
        }
    }
}
