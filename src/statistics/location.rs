//! One estimate for each launch: a quantile of its samples.
//!
//! Two figures are made of such estimates. *Undisturbed* is the lower quartile over launches of each launch's lower quartile:
//! what the operation costs when nothing else runs. *Typical* is the median of medians: what it cost on the whole. Noise on a
//! shared machine only adds time, so a wide gap between the two is a warning in itself.
//!
//! Why a quartile and never the minimum: samples are normalised by a clock probe next to them. The minimum of such a
//! series is the batch whose *probe* was hit by an interrupt, not the batch that ran undisturbed. Measured over 170 s of
//! batches, the minimum wanders by 40 % from run to run where the quartile of quartiles wanders by 0.05 to 1.2 %.

use super::summary::quantile;

/// Below this many launches an interval says nothing about launches, whatever its level: the figure is to be marked as
/// seen within a launch only.
pub const FEWEST_LAUNCHES: usize = 5;

/// One estimate per launch: the given quantile of its samples.
///
/// A launch without samples (every batch was void) or with a sample that is not finite gives no estimate and is left
/// out, so the answer can be shorter than the input; a `probability` outside `[0, 1]` gives an empty one.
pub fn launch_estimates<L: AsRef<[f64]>>(launches: &[L], probability: f64) -> Vec<f64> {
    launches.iter().filter_map(|launch| quantile(launch.as_ref(), probability)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_without_an_estimate_are_left_out() {
        let launches = [vec![1.0, 2.0, 3.0, 4.0, 5.0], vec![], vec![f64::NAN], vec![21.0; 5]];
        assert_eq!(launch_estimates(&launches, 0.25), [2.0, 21.0]);
        assert_eq!(launch_estimates(&launches, 1.5), [0.0; 0]);
    }
}
