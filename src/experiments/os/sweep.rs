//! One cost over a quantity that was varied: a line through its published figures, and the curve.

use crate::evaluate::sample::Sample;
use crate::experiments::prelude::*;
use crate::results::quantity::CoreCycles;
use crate::statistics::fit::{FittedLine, least_squares};
use crate::statistics::resampling::resamplings;
use crate::statistics::summary::quantile;

/// Least share of the variance that a line must explain before its slope is a cost.
const LINEAR: f64 = 0.97;

rules! {
    STRAIGHT: "linear" Hard "`os.process_creation.per_page`, `os.poll.per_descriptor`",
        "a line explains at least {} of the variance over resident sizes or descriptors", plain(LINEAR);
}

/// Resamplings behind the interval of a slope.
const RESAMPLINGS: u32 = 500;

/// A cost at some values of the quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// What its points are made of.
    samples: Vec<Sample>,
    /// Unit of the costs.
    pub unit: Unit,
    /// The quantity, with the cost of each launch that has it.
    pub points: Vec<(f64, Vec<f64>)>,
    /// The cost as it is published, by the order of the points; none where points are made of the same launches and a line is
    /// fitted to each of those.
    published: Option<Vec<f64>>,
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
        // Batches that were alone on their core, and launches that took the points in turns: a launch has no separate line.
        let in_all = |number: &u32| samples.iter().all(|(_, sample)| sample.numbers.contains(number));
        let apart = samples.iter().all(|(_, sample)| sample.picked.is_some())
            || samples.iter().any(|(_, sample)| !sample.numbers.iter().any(in_all));
        let costs = |sample: &Sample| Estimate::undisturbed(sample).map(|estimate| estimate.value);
        let published =
            if apart { Some(samples.iter().map(|(_, sample)| costs(sample)).collect::<Option<_>>()?) } else { None };
        let points = samples
            .iter()
            .map(|(x, sample)| {
                let numbered = sample.numbers.iter().zip(sample.estimates());
                (*x, numbered.filter(|(number, _)| apart || in_all(number)).map(|(_, cost)| cost).collect())
            })
            .collect();
        Some(Sweep { samples: samples.into_iter().map(|(_, sample)| sample).collect(), unit, points, published })
    }

    /// Cost per unit of the quantity, with a gate on how well a line describes the costs: the slope of the line through the
    /// published costs, with the interval that resampled launches give it. None with fewer than three points.
    pub fn slope(&self, over: &str) -> Option<(Estimate, Gate)> {
        if self.points.len() < 3 {
            return None;
        }
        let x: Vec<f64> = self.points.iter().map(|(x, _)| *x).collect();
        if let Some(published) = &self.published {
            let line = least_squares(&x, published)?;
            let slopes = self.resampled_slopes(&x);
            let launches = self.points.iter().map(|(_, costs)| costs.len()).min()?;
            let estimator = format!("slope over {over} of the published costs");
            let estimate = Estimate::over_launches(&vec![line.slope; launches], self.unit, &estimator)?;
            let ends = [0.025, 0.975].map(|share| quantile(&slopes, share).unwrap_or(line.slope));
            let interval = [ends[0].min(line.slope), ends[1].max(line.slope)];
            let estimate = Estimate { interval, level: 0.95, quantiles: None, ..estimate }.made_of(&self.samples);
            return Some((estimate, straight(line.explained, over)));
        }
        let launches = self.points.iter().map(|(_, costs)| costs.len()).min()?;
        let line = |launch: usize| -> Option<FittedLine> {
            least_squares(&x, &self.points.iter().map(|(_, costs)| costs[launch]).collect::<Vec<f64>>())
        };
        let lines: Vec<FittedLine> = (0..launches).filter_map(line).collect();
        let slopes: Vec<f64> = lines.iter().map(|line| line.slope).collect();
        let estimator = format!("median over launches of the slope over {over}");
        let estimate = Estimate::over_launches(&slopes, self.unit, &estimator)?.made_of(&self.samples);
        let explained = median(&lines.iter().filter_map(|line| line.explained).collect::<Vec<f64>>());
        Some((estimate, straight(explained, over)))
    }

    /// Slopes of lines through medians of resampled launches, each point by itself.
    fn resampled_slopes(&self, x: &[f64]) -> Vec<f64> {
        let mut points: Vec<_> = (0_u64..)
            .zip(&self.points)
            .map(|(seed, (_, costs))| resamplings(costs, RESAMPLINGS, seed).filter_map(|set| median(&set)))
            .collect();
        let rows = std::iter::from_fn(|| points.iter_mut().map(Iterator::next).collect::<Option<Vec<f64>>>());
        rows.filter_map(|row| Some(least_squares(x, &row)?.slope)).collect()
    }

    /// Points of a curve in time, the quantity multiplied: `[x, cost, lowest, highest]` over launches, with the cost as it is
    /// published where it is.
    pub fn curve(&self, study: &Study<'_>, times: f64) -> Vec<[f64; 4]> {
        let scale = match (self.unit, study.core) {
            (Unit::Cycles, Some(core)) => CoreCycles(1.0).at(core).0,
            _ => 1.0,
        };
        let point = |(index, (x, costs)): (usize, &(f64, Vec<f64>))| {
            let middle =
                self.published.as_ref().map_or_else(|| median(costs), |published| published.get(index).copied())?;
            let low = costs.iter().copied().fold(middle, f64::min);
            let high = costs.iter().copied().fold(middle, f64::max);
            Some([x * times, middle * scale, low * scale, high * scale])
        };
        self.points.iter().enumerate().filter_map(point).collect()
    }
}

/// Whether a line describes the costs.
fn straight(explained: Option<f64>, over: &str) -> Gate {
    let what = format!("a line explains {{}} of the variance over {over}");
    Gate::at_least(&STRAIGHT, Number::plain(explained.unwrap_or(0.0)).named(what), LINEAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(costs: [f64; 4]) -> Sweep {
        let points = costs.iter().enumerate().map(|(index, &cost)| (index as f64, vec![cost, cost * 1.01])).collect();
        Sweep { samples: Vec::new(), unit: Unit::Nanoseconds, points, published: None }
    }

    #[test]
    fn the_slope_of_a_line_is_found_and_its_gate_passes() {
        let (estimate, gate) = sweep([100.0, 130.0, 160.0, 190.0]).slope("pages").unwrap();
        assert!((estimate.value - 30.15).abs() < 1e-9 && estimate.launches == 2, "{estimate:?}");
        assert!(gate.pass, "{gate:?}");
    }

    #[test]
    fn the_slope_of_published_figures_is_theirs_and_its_interval_holds_the_launches() {
        let points =
            vec![(0.0, vec![100.0, 101.0, 99.0]), (10.0, vec![130.0, 134.0]), (20.0, vec![160.0, 158.0, 165.0])];
        let published = Some(vec![100.0, 132.0, 160.0]);
        let sweep = Sweep { samples: Vec::new(), unit: Unit::Nanoseconds, points, published };
        let (estimate, gate) = sweep.slope("pages").unwrap();
        assert!((estimate.value - 3.0).abs() < 1e-9 && estimate.launches == 2, "{estimate:?}");
        let [low, high] = estimate.interval;
        assert!(gate.pass && (2.8..3.0).contains(&low) && (3.0..3.4).contains(&high), "{estimate:?}");
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
