//! Samples of known distribution for the tests, always from a seed, and the measured set that more than one test needs.

use super::compare::Observed;
use super::distribution::normal_factor;
use super::interval::median_interval;
use super::location::launch_estimates;
use super::summary::median;

/// Fails when two numbers differ by more than `tolerance`, relative to the expected one (absolute near zero).
#[track_caller]
pub fn assert_close(found: f64, expected: f64, tolerance: f64) {
    let scale = if expected.abs() > 1e-300 { expected.abs() } else { 1.0 };
    assert!((found - expected).abs() <= tolerance * scale, "found {found:e}, expected {expected:e}");
}

/// One draw from the standard normal distribution (Box & Muller, Annals of Mathematical Statistics 29, 1958).
pub fn normal_draw(random: &mut fastrand::Rng) -> f64 {
    // 1 - f64() lies in (0, 1]: its logarithm is finite.
    (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
}

/// Independent normal values.
pub fn normal(random: &mut fastrand::Rng, count: usize, mean: f64, deviation: f64) -> Vec<f64> {
    (0..count).map(|_| mean + deviation * normal_draw(random)).collect()
}

/// A stationary first-order autoregressive series of mean 0 and deviation 1.
pub fn autoregressive(random: &mut fastrand::Rng, count: usize, coefficient: f64) -> Vec<f64> {
    let innovation = (1.0 - coefficient * coefficient).sqrt();
    let mut state = normal_draw(random);
    (0..count)
        .map(|_| {
            state = coefficient * state + innovation * normal_draw(random);
            state
        })
        .collect()
}

/// One run of sixteen launches: lognormal batches that depend on their predecessors, one in fifty with a heavy tail, launches in one
/// of two modes, an effect of the launch on all of its batches, and one of the run on all of its launches.
pub fn measured_run(random: &mut fastrand::Rng, factor: f64, between: f64) -> Observed {
    let of_run = between * normal_draw(random);
    let launches: Vec<Vec<f64>> = (0..16)
        .map(|_| {
            let mode = if random.f64() < 0.25 { 0.03 } else { 0.0 };
            let own = 0.01 * normal_draw(random) + mode + of_run;
            autoregressive(random, 12, 0.5)
                .into_iter()
                .map(|noise| {
                    let tail = if random.f64() < 0.02 { (1.0 - random.f64()).powf(-1.0 / 1.5) } else { 1.0 };
                    factor * 500.0 * (own + 0.02 * noise).exp() * tail
                })
                .collect()
        })
        .collect();
    let estimates = launch_estimates(&launches, 0.25);
    let value = median(&estimates).unwrap();
    let found = median_interval(&estimates, 0.95).unwrap();
    let within = (found.high - found.low) / 2.0 / value / normal_factor(found.level).unwrap();
    Observed { value, within, launches: 16, between }
}

/// Michelson's speed of light of 1879 in thousands of kilometres per second, in the order of measurement: the set Michelso
/// of the NIST Statistical Reference Datasets.
pub fn michelson() -> Vec<f64> {
    /// Kilometres per second above 299 000.
    const EXCESS: [u32; 100] = [
        850, 740, 900, 1070, 930, 850, 950, 980, 980, 880, 1000, 980, 930, 650, 760, 810, 1000, 1000, 960, 960, 960,
        940, 960, 940, 880, 800, 850, 880, 900, 840, 830, 790, 810, 880, 880, 830, 800, 790, 760, 800, 880, 880, 880,
        860, 720, 720, 620, 860, 970, 950, 880, 910, 850, 870, 840, 840, 850, 840, 840, 840, 890, 810, 810, 820, 800,
        770, 760, 740, 750, 760, 910, 920, 890, 860, 880, 720, 840, 850, 850, 780, 890, 840, 780, 810, 760, 810, 790,
        810, 820, 850, 870, 870, 810, 740, 810, 940, 950, 800, 810, 870,
    ];
    EXCESS.iter().map(|excess| f64::from(299_000 + excess) / 1000.0).collect()
}
