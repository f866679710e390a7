//! How far runs scatter around their levels, and which single ones are far from their neighbours.

use super::super::distribution::{student_factor, student_two_sided};
use super::super::interval::Interval;
use super::super::summary::median;
use super::{LEAST_RUNS, LEVEL};

/// Degrees of freedom that a variance has at least: what the series does not show is filled with what is assumed of the scatter.
pub(super) const LEAST_DEGREES: f64 = 8.0;
/// Distance from its neighbours, in standard deviations, from which a run is wild (Hampel's filter).
const WILD: f64 = 4.0;
/// Runs on either side that a run is compared with.
const REACH: usize = 2;
/// One in this many runs can be wild, and at least one. More of the same height are how the series scatters.
const WILD_SHARE: usize = 10;

/// A variance with its degrees of freedom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    pub variance: f64,
    pub degrees: f64,
}

impl Spread {
    /// Two-sided p value of a sum of squares with one degree of freedom.
    pub fn p(self, squares: f64) -> f64 {
        if squares <= 0.0 {
            return 1.0;
        }
        if self.variance <= 0.0 {
            return 0.0;
        }
        student_two_sided((squares / self.variance).sqrt(), self.degrees).unwrap_or(1.0)
    }

    /// The 95 % interval of a number whose variance is this variance times a factor.
    pub fn interval(self, value: f64, factor: f64) -> Option<Interval> {
        let reach = student_factor(LEVEL, self.degrees)? * (self.variance * factor).sqrt();
        Interval::new(value - reach, value + reach, LEVEL)
    }
}

/// The variance of a sum of squares. What it lacks in degrees of freedom is filled with the variance that is assumed.
pub(super) fn blended(squares: f64, degrees: f64, assumed: f64, floor: f64) -> Spread {
    let filled = (LEAST_DEGREES - degrees).max(0.0);
    let variance = (filled * assumed + squares) / (filled + degrees);
    Spread { variance: variance.max(floor), degrees: filled + degrees }
}

/// Single values far from their neighbours, at most a tenth. None in a series of four, and none where more are about as far.
pub(super) fn wild(values: &[f64], deviation: f64) -> Vec<usize> {
    if values.len() <= LEAST_RUNS {
        return Vec::new();
    }
    let distance = |place: usize| {
        let around = place.saturating_sub(REACH)..(place + REACH + 1).min(values.len());
        let mut others = values[around].to_vec();
        others.sort_by(f64::total_cmp);
        // Between two middle values of two levels, either is as good.
        let nearest = values[place].clamp(others[(others.len() - 1) / 2], others[others.len() / 2]);
        (values[place] - nearest).abs()
    };
    // A trend moves the neighbours of the ends to one side.
    let slopes: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let trend = median(&slopes).unwrap_or(0.0).abs() * REACH as f64;
    let far =
        (0..values.len()).map(|place| (place, distance(place))).filter(|(_, far)| *far > WILD * deviation + trend);
    let mut far: Vec<(usize, f64)> = far.collect();
    far.sort_by(|one, other| other.1.total_cmp(&one.1));
    let most = (values.len() / WILD_SHARE).max(1);
    // What others are half as far as is how the series scatters.
    let is_alone = |count: &usize| far.len() <= *count || far[*count].1 <= far[count - 1].1 / 2.0;
    let alone = (1..=most.min(far.len())).rev().find(is_alone).unwrap_or(0);
    far.truncate(alone);
    far.into_iter().map(|(place, _)| place).collect()
}
