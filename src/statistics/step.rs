//! A line with a step at a known place: the cost of a procedure call against its number of arguments.
//!
//! The model is `y = intercept + slope·x + step·[x >= place]`. Arguments up to the sixth travel in registers, the seventh
//! goes through memory: the slope is the cost of a register argument, the step what memory adds to it.
//!
//! The slope is fitted to the points before the step only, and the step is the mean excess of the points from it on. With
//! one point beyond the step (seven arguments at most) this *is* the joint least-squares fit: that point has its own
//! parameter and a residual of zero. With more of them it keeps memory arguments from bending the slope of register ones.

use super::fit::coefficients;
use super::interval::{Interval, median_interval};
use super::summary::{mean, median, usable};

/// Coefficients of the line with a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coefficients {
    /// Value of the line at `x = 0`.
    pub intercept: f64,
    /// Change of `y` for one unit of `x` before the step.
    pub slope: f64,
    /// Mean excess over the line from the step on; absent when there is no point beyond it.
    pub step: Option<f64>,
}

/// One coefficient over launches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coefficient {
    /// Median over launches.
    pub estimate: f64,
    /// Order-statistic interval of that median; absent with fewer than two launches.
    pub interval: Option<Interval>,
}

/// The fit over launches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepFit {
    /// Value of the line at `x = 0`.
    pub intercept: Coefficient,
    /// Change of `y` for one unit of `x` before the step.
    pub slope: Coefficient,
    /// Mean excess over the line from the step on; absent when there is no point beyond it.
    pub step: Option<Coefficient>,
    /// Launches that were fitted, at least 1.
    pub launches: usize,
}

/// Fits the line with a step to one set of points. Wants two different `x` before `place`.
pub fn fit_step(x: &[f64], y: &[f64], place: f64) -> Option<Coefficients> {
    if x.len() != y.len() || !usable(x) || !usable(y) || !place.is_finite() {
        return None;
    }
    let (before, beyond): (Vec<_>, Vec<_>) = x.iter().zip(y).partition(|(x, _)| **x < place);
    let (line_x, line_y): (Vec<f64>, Vec<f64>) = before.into_iter().unzip();
    let (slope, intercept) = coefficients(&line_x, &line_y)?;
    let excesses: Vec<f64> = beyond.into_iter().map(|(x, y)| y - intercept - slope * x).collect();
    Some(Coefficients { intercept, slope, step: mean(&excesses) })
}

/// Fits the line with a step to every launch and takes the median of each coefficient over launches.
///
/// `launches[i][j]` is the estimate of launch `i` at `x[j]`. One fit per launch, not one fit to points that are quantiles
/// over launches: whatever a launch does to all of its points leaves its slope alone, and the slopes are independent
/// values, whose median has an interval without any assumption. (A bootstrap of one fit to medians over launches covers the
/// true slope in 80 % of the cases where it says 95 %, because medians at neighbouring places jump together.)
///
/// `None` when there is no launch, when a launch lacks a point or has one that is not finite, and where [`fit_step`] has no
/// answer.
pub fn fit_step_over_launches<L: AsRef<[f64]>>(x: &[f64], launches: &[L], place: f64, level: f64) -> Option<StepFit> {
    let fits: Vec<Coefficients> =
        launches.iter().map(|launch| fit_step(x, launch.as_ref(), place)).collect::<Option<_>>()?;
    let over_launches = |choose: fn(&Coefficients) -> Option<f64>| {
        let values: Vec<f64> = fits.iter().filter_map(choose).collect();
        Some(Coefficient { estimate: median(&values)?, interval: median_interval(&values, level) })
    };
    Some(StepFit {
        intercept: over_launches(|fit| Some(fit.intercept))?,
        slope: over_launches(|fit| Some(fit.slope))?,
        step: over_launches(|fit| fit.step),
        launches: fits.len(),
    })
}

impl StepFit {
    /// The coefficients of the one line through given points, with the intervals of these launches, which are made to hold them.
    /// These where no line goes through the points.
    #[must_use]
    pub fn through(self, x: &[f64], y: &[f64], place: f64) -> StepFit {
        let Some(line) = fit_step(x, y, place) else { return self };
        let moved = |of: Coefficient, estimate: f64| {
            let holds = |found: Interval| Interval::new(found.low.min(estimate), found.high.max(estimate), found.level);
            Coefficient { estimate, interval: of.interval.and_then(holds) }
        };
        StepFit {
            intercept: moved(self.intercept, line.intercept),
            slope: moved(self.slope, line.slope),
            step: self.step.zip(line.step).map(|(of, step)| moved(of, step)),
            launches: self.launches,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{assert_close, normal, normal_draw};
    use super::*;

    const ARGUMENTS: [f64; 8] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];

    fn call_cost(arguments: f64) -> f64 {
        2.0 + 0.25 * arguments + if arguments >= 7.0 { 1.5 } else { 0.0 }
    }

    /// Launches with their own effect on all points and little noise on each.
    fn launches(random: &mut fastrand::Rng, count: usize) -> Vec<Vec<f64>> {
        (0..count)
            .map(|_| {
                let own = 0.2 * normal_draw(random);
                ARGUMENTS.iter().map(|arguments| call_cost(*arguments) + own + 0.02 * normal_draw(random)).collect()
            })
            .collect()
    }

    #[test]
    fn a_line_through_published_points_keeps_an_interval_that_holds_it() {
        let mut random = fastrand::Rng::with_seed(5);
        let fit = fit_step_over_launches(&ARGUMENTS, &launches(&mut random, 15), 7.0, 0.95).unwrap();
        let y: Vec<f64> = ARGUMENTS.iter().map(|arguments| 3.0 + 0.5 * arguments).collect();
        let through = fit.through(&ARGUMENTS, &y, 7.0);
        assert_close(through.slope.estimate, 0.5, 1e-12);
        let (before, after) = (fit.slope.interval.unwrap(), through.slope.interval.unwrap());
        assert!(after.contains(0.5) && after.low.to_bits() == before.low.to_bits(), "{after:?}");
        assert_eq!(fit.through(&ARGUMENTS[..1], &y[..1], 7.0), fit);
    }

    #[test]
    fn exact_points_give_exact_coefficients() {
        let y: Vec<f64> = ARGUMENTS.iter().map(|arguments| call_cost(*arguments)).collect();
        let fit = fit_step(&ARGUMENTS, &y, 7.0).unwrap();
        assert_close(fit.intercept, 2.0, 1e-12);
        assert_close(fit.slope, 0.25, 1e-12);
        assert_close(fit.step.unwrap(), 1.5, 1e-12);
        assert_eq!(fit_step(&ARGUMENTS, &y, 8.0).unwrap().step, None);
    }

    #[test]
    fn one_point_beyond_the_step_makes_it_the_joint_fit() {
        // The gradient of the joint sum of squares vanishes in all three coefficients.
        let y = normal(&mut fastrand::Rng::with_seed(17), 8, 5.0, 1.0);
        let fit = fit_step(&ARGUMENTS, &y, 7.0).unwrap();
        let residual =
            |x: f64, y: f64| y - fit.intercept - fit.slope * x - if x >= 7.0 { fit.step.unwrap() } else { 0.0 };
        let residuals: Vec<f64> = ARGUMENTS.iter().zip(&y).map(|(x, y)| residual(*x, *y)).collect();
        assert!(residuals.iter().sum::<f64>().abs() < 1e-12);
        assert!(residuals.iter().zip(ARGUMENTS).map(|(rest, x)| rest * x).sum::<f64>().abs() < 1e-11);
        assert!(residuals[7].abs() < 1e-12);
    }

    #[test]
    fn intervals_come_from_launches_and_leave_their_own_effect_out_of_the_slope() {
        let mut random = fastrand::Rng::with_seed(18);
        let rounds = 1000;
        let (mut slope_hits, mut step_hits) = (0, 0);
        for _ in 0..rounds {
            let fit = fit_step_over_launches(&ARGUMENTS, &launches(&mut random, 15), 7.0, 0.95).unwrap();
            let (slope, step) = (fit.slope.interval.unwrap(), fit.step.unwrap().interval.unwrap());
            let width = |interval: Interval| interval.high - interval.low;
            assert!(width(slope) < width(fit.intercept.interval.unwrap()) / 4.0);
            slope_hits += u32::from(slope.contains(0.25));
            step_hits += u32::from(step.contains(1.5));
        }
        for hits in [slope_hits, step_hits] {
            assert!((0.94..=0.99).contains(&(f64::from(hits) / f64::from(rounds))), "{hits}");
        }
    }

    #[test]
    fn what_has_no_answer_is_none() {
        assert_eq!(fit_step(&[0.0, 7.0], &[1.0, 2.0], 7.0), None);
        assert_eq!(fit_step(&[0.0, 1.0], &[1.0, f64::NAN], 7.0), None);
        assert_eq!(fit_step_over_launches(&ARGUMENTS, &[vec![1.0; 7]], 7.0, 0.95), None);
        assert_eq!(fit_step_over_launches::<Vec<f64>>(&ARGUMENTS, &[], 7.0, 0.95), None);
        let single = fit_step_over_launches(&ARGUMENTS, &[vec![1.0; 8]], 7.0, 0.95).unwrap();
        assert_eq!(single.slope.interval, None);
    }
}
