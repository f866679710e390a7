//! One cost over a quantity that was varied: a line through it in every launch, and the curve.

use crate::evaluate::estimate::Estimate;
use crate::evaluate::gate::{Number, rules};
use crate::evaluate::sample::Sample;
use crate::evaluate::study::Study;
use crate::results::quantity::{CoreCycles, Labels, Unit};
use crate::results::verdict::Gate;
use crate::statistics::fit::{FittedLine, least_squares};
use crate::statistics::summary::median;

/// Least share of the variance that a line must explain before its slope is a cost.
const LINEAR: f64 = 0.97;

rules! {
    STRAIGHT: "linear" Hard "`os.process_creation.per_page`", "a line explains at least {} of the variance over resident sizes", plain(LINEAR);
}

/// Lower quartiles of launches over the quantity, from the launches that have all of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// What its points are made of.
    samples: Vec<Sample>,
    /// Unit of the costs.
    pub unit: Unit,
    /// The quantity, with the cost of each launch.
    pub points: Vec<(f64, Vec<f64>)>,
}

impl Sweep {
    /// The sweep of a series over `(quantity, labels)`; points without a clean batch are left out. None where nothing is
    /// left, or where the points have different units.
    pub fn of(study: &Study<'_>, series: &str, points: impl IntoIterator<Item = (f64, Labels)>) -> Option<Self> {
        let samples: Vec<_> =
            points.into_iter().filter_map(|(x, labels)| Some((x, study.sample(series, &labels)?))).collect();
        let unit = samples.first()?.1.unit;
        if samples.iter().any(|(_, sample)| sample.unit != unit) {
            return None;
        }
        let in_all = |number: &u32| samples.iter().all(|(_, sample)| sample.numbers.contains(number));
        let points = samples
            .iter()
            .map(|(x, sample)| {
                let numbered = sample.numbers.iter().zip(sample.estimates());
                (*x, numbered.filter(|(number, _)| in_all(number)).map(|(_, cost)| cost).collect())
            })
            .collect();
        Some(Sweep { samples: samples.into_iter().map(|(_, sample)| sample).collect(), unit, points })
    }

    /// Cost per unit of the quantity: the median over launches of the slopes of least-squares lines, with a gate on how
    /// well a line describes the costs. None with fewer than three points.
    pub fn slope(&self, over: &str) -> Option<(Estimate, Gate)> {
        if self.points.len() < 3 {
            return None;
        }
        let x: Vec<f64> = self.points.iter().map(|(x, _)| *x).collect();
        let launches = self.points.iter().map(|(_, costs)| costs.len()).min()?;
        let line = |launch: usize| -> Option<FittedLine> {
            least_squares(&x, &self.points.iter().map(|(_, costs)| costs[launch]).collect::<Vec<f64>>())
        };
        let lines: Vec<FittedLine> = (0..launches).filter_map(line).collect();
        let slopes: Vec<f64> = lines.iter().map(|line| line.slope).collect();
        let estimator = format!("median over launches of the slope over {over}");
        let estimate = Estimate::over_launches(&slopes, self.unit, &estimator)?.made_of(&self.samples);
        let explained = median(&lines.iter().filter_map(|line| line.explained).collect::<Vec<f64>>()).unwrap_or(0.0);
        let explained = Number::plain(explained).named(format!("a line explains {{}} of the variance over {over}"));
        Some((estimate, Gate::at_least(&STRAIGHT, explained, LINEAR)))
    }

    /// Points of a curve in time, the quantity multiplied: `[x, median, lowest, highest]` over launches.
    pub fn curve(&self, study: &Study<'_>, times: f64) -> Vec<[f64; 4]> {
        let scale = match (self.unit, study.core) {
            (Unit::Cycles, Some(core)) => CoreCycles(1.0).at(core).0,
            _ => 1.0,
        };
        let point = |(x, costs): &(f64, Vec<f64>)| {
            let low = costs.iter().copied().reduce(f64::min)?;
            let high = costs.iter().copied().reduce(f64::max)?;
            Some([x * times, median(costs)? * scale, low * scale, high * scale])
        };
        self.points.iter().filter_map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(costs: [f64; 4]) -> Sweep {
        let points = costs.iter().enumerate().map(|(index, &cost)| (index as f64, vec![cost, cost * 1.01])).collect();
        Sweep { samples: Vec::new(), unit: Unit::Nanoseconds, points }
    }

    #[test]
    fn the_slope_of_a_line_is_found_and_its_gate_passes() {
        let (estimate, gate) = sweep([100.0, 130.0, 160.0, 190.0]).slope("pages").unwrap();
        assert!((estimate.value - 30.15).abs() < 1e-9 && estimate.launches == 2, "{estimate:?}");
        assert!(gate.pass, "{gate:?}");
    }

    #[test]
    fn what_is_no_line_fails_its_gate() {
        assert!(!sweep([100.0, 190.0, 100.0, 190.0]).slope("pages").unwrap().1.pass);
    }

    #[test]
    fn two_points_make_no_line() {
        let mut two = sweep([1.0, 2.0, 3.0, 4.0]);
        two.points.truncate(2);
        assert_eq!(two.slope("pages"), None);
    }
}
