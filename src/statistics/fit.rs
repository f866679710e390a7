//! Lines through points: least squares with the errors of its coefficients, and the robust line of Theil and Sen.

use super::distribution::normal_factor;
use super::interval::Interval;
use super::summary::{finite, mean, median, quantile_of_sorted, sorted, usable};

/// A least-squares line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FittedLine {
    /// Change of `y` for one unit of `x`.
    pub slope: f64,
    /// Value at `x = 0`.
    pub intercept: f64,
    /// Standard error of the slope; at least 0.
    pub slope_error: f64,
    /// Standard error of the intercept; at least 0.
    pub intercept_error: f64,
    /// Standard deviation of the residuals, divisor `points - 2`; at least 0.
    pub residual_deviation: f64,
    /// Share of the variance that the line explains, in `[0, 1]`; absent when `y` is constant and there is none.
    pub explained: Option<f64>,
    /// Number of points, at least 3.
    pub points: usize,
}

/// Ordinary least squares (Draper & Smith, *Applied Regression Analysis*, chapter 1), on centred values so that large
/// offsets do not cost digits.
///
/// The errors assume independent residuals of one variance: give it launch estimates, not batches. Wants three points
/// and two different `x`.
pub fn least_squares(x: &[f64], y: &[f64]) -> Option<FittedLine> {
    if x.len() != y.len() || x.len() < 3 || !usable(x) || !usable(y) {
        return None;
    }
    let count = x.len() as f64;
    let (slope, intercept) = coefficients(x, y)?;
    let (x_mean, y_mean) = (mean(x)?, mean(y)?);
    let x_squares: f64 = x.iter().map(|x| (x - x_mean).powi(2)).sum();
    let y_squares: f64 = y.iter().map(|y| (y - y_mean).powi(2)).sum();
    let residual_squares: f64 = x.iter().zip(y).map(|(x, y)| (y - y_mean - slope * (x - x_mean)).powi(2)).sum();
    let residual_deviation = (residual_squares / (count - 2.0)).sqrt();
    Some(FittedLine {
        slope,
        intercept,
        slope_error: finite(residual_deviation / x_squares.sqrt())?,
        intercept_error: finite(residual_deviation * (1.0 / count + x_mean * x_mean / x_squares).sqrt())?,
        residual_deviation: finite(residual_deviation)?,
        explained: finite(1.0 - residual_squares / y_squares).map(|share| share.clamp(0.0, 1.0)),
        points: x.len(),
    })
}

/// Slope and intercept of the least-squares line alone; wants two points with different `x`.
pub fn coefficients(x: &[f64], y: &[f64]) -> Option<(f64, f64)> {
    if x.len() != y.len() {
        return None;
    }
    let (x_mean, y_mean) = (mean(x)?, mean(y)?);
    let products: f64 = x.iter().zip(y).map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    let squares: f64 = x.iter().map(|x| (x - x_mean).powi(2)).sum();
    let slope = finite(products / squares)?;
    Some((slope, finite(y_mean - slope * x_mean)?))
}

/// Slope and intercept of the least-squares line whose points weigh by the inverse squares of `y`, so that a hundredth of a
/// small `y` counts as much as a hundredth of a large one. Wants three points with positive `y` and two different `x`.
pub fn relative_coefficients(x: &[f64], y: &[f64]) -> Option<(f64, f64)> {
    if x.len() != y.len() || x.len() < 3 || !usable(x) || !usable(y) || y.iter().any(|&y| y <= 0.0) {
        return None;
    }
    let sum = |of: fn(f64, f64) -> f64| x.iter().zip(y).map(|(&x, &y)| of(x, y) / (y * y)).sum::<f64>();
    let (weight, x_sum, y_sum) = (sum(|_, _| 1.0), sum(|x, _| x), sum(|_, y| y));
    let (x_squares, products) = (sum(|x, _| x * x), sum(|x, y| x * y));
    let spread = weight * x_squares - x_sum * x_sum;
    if spread <= 0.0 {
        return None;
    }
    let slope = finite((weight * products - x_sum * y_sum) / spread)?;
    Some((slope, finite((y_sum - slope * x_sum) / weight)?))
}

/// A level, and a line that rises from its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hinge {
    /// `y` up to the knee.
    pub level: f64,
    /// `x` where the line begins.
    pub knee: f64,
    /// Change of `y` for one unit of `x` beyond the knee.
    pub slope: f64,
    /// Largest distance of a point from the hinge, as a share of its `y`; at least 0.
    pub worst: f64,
}

/// The hinge with the least squares of relative distances (segmented regression: Hinkley, Biometrika 56, 1969). Its knee is at a point,
/// or where the best level of the points before it meets the best line of those beyond. At least two points lie beyond it, because
/// one point has no slope.
///
/// Wants four points with positive `y` and rising `x`.
pub fn hinge(x: &[f64], y: &[f64]) -> Option<Hinge> {
    if x.len() < 4 || x.len() != y.len() || x.windows(2).any(|pair| pair[0] >= pair[1]) {
        return None;
    }
    let with_knee = |knee: f64| {
        let beyond: Vec<f64> = x.iter().map(|x| (x - knee).max(0.0)).collect();
        let (slope, level) = relative_coefficients(&beyond, y)?;
        let distances: Vec<f64> =
            beyond.iter().zip(y).map(|(beyond, y)| ((level + slope * beyond) / y - 1.0).abs()).collect();
        let squares: f64 = distances.iter().map(|distance| distance * distance).sum();
        Some((squares, Hinge { level, knee, slope, worst: distances.into_iter().fold(0.0, f64::max) }))
    };
    let points = x.len() - 2;
    let meeting = |first: usize| {
        let (before, after) = y.split_at(first);
        let (inverse, squares) =
            before.iter().fold((0.0, 0.0), |(sum, squares), y| (sum + 1.0 / y, squares + 1.0 / (y * y)));
        let (slope, intercept) = relative_coefficients(&x[first..], after)?;
        let knee = (inverse / squares - intercept) / slope;
        (x[first - 1]..=x[first]).contains(&knee).then_some(knee)
    };
    let knees = x[..points].iter().copied().chain((1..points).filter_map(meeting));
    let best = knees.filter_map(with_knee).min_by(|(one, _), (other, _)| one.total_cmp(other));
    best.map(|(_, hinge)| hinge)
}

/// The line of Theil and Sen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RobustLine {
    /// Median of the slopes between all pairs of points.
    pub slope: f64,
    /// Median of `y - slope·x`.
    pub intercept: f64,
    pub slope_interval: Interval,
}

/// Theil–Sen line (Theil 1950; Sen, Journal of the American Statistical Association 63, 1968): 29 % of the points may be
/// wild before the slope follows them. Cost grows with the square of the number of points.
///
/// The interval inverts Kendall's test with the normal approximation of its statistic, ties in `x` and `y` taken into
/// account. It assumes independent residuals of one distribution, of whatever shape. Wants three points and two
/// different `x`.
pub fn theil_sen(x: &[f64], y: &[f64], level: f64) -> Option<RobustLine> {
    if x.len() != y.len() || x.len() < 3 || !usable(x) || !usable(y) {
        return None;
    }
    let mut slopes = Vec::with_capacity(x.len() * (x.len() - 1) / 2);
    for later in 1..x.len() {
        for earlier in 0..later {
            slopes.extend(finite((y[later] - y[earlier]) / (x[later] - x[earlier])));
        }
    }
    let slopes = sorted(&slopes)?;
    let slope = quantile_of_sorted(&slopes, 0.5)?;
    let rests: Vec<f64> = x.iter().zip(y).map(|(x, y)| y - slope * x).collect();
    let half = normal_factor(level)? * kendall_deviation(x, y)?;
    // Sen's ranks (M1 and M2 + 1 of his paper), rounded outwards.
    let below = (slopes.len() as f64 - half) / 2.0;
    let above = f64::midpoint(slopes.len() as f64, half);
    let lower = below.floor().max(1.0) as usize - 1;
    let upper = (above.ceil() as usize).min(slopes.len() - 1);
    Some(RobustLine {
        slope,
        intercept: median(&rests)?,
        slope_interval: Interval::new(slopes[lower.min(upper)], slopes[upper], level)?,
    })
}

/// Standard deviation of Kendall's S without association, corrected for ties (Kendall, *Rank Correlation Methods*,
/// chapter 4).
fn kendall_deviation(x: &[f64], y: &[f64]) -> Option<f64> {
    let count = x.len() as f64;
    let (x_ties, y_ties) = (ties(x)?, ties(y)?);
    let sum = |ties: &[f64], term: fn(f64) -> f64| ties.iter().map(|tie| term(*tie)).sum::<f64>();
    let spread = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let triples = |n: f64| n * (n - 1.0) * (n - 2.0);
    let pairs = |n: f64| n * (n - 1.0);
    let main = (spread(count) - sum(&x_ties, spread) - sum(&y_ties, spread)) / 18.0;
    let third = sum(&x_ties, triples) * sum(&y_ties, triples) / (9.0 * triples(count));
    let second = sum(&x_ties, pairs) * sum(&y_ties, pairs) / (2.0 * pairs(count));
    finite((main + third + second).max(0.0).sqrt())
}

/// Sizes of the groups of equal values.
pub(super) fn ties(values: &[f64]) -> Option<Vec<f64>> {
    let ordered = sorted(values)?;
    Some(ordered.chunk_by(|one, other| one.total_cmp(other).is_eq()).map(|group| group.len() as f64).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::synthetic::{assert_close, normal};
    use super::*;

    #[test]
    fn a_hinge_is_found_where_it_is() {
        let x = [1.0, 2.0, 4.0, 8.0, 16.0, 64.0];
        for (level, knee, slope) in [(80.0, 1.0, 11.0), (80.0, 4.0, 20.0), (30.0, 6.0, 3.0), (70.0, 8.0, 9.0)] {
            let y = x.map(|x| level + slope * f64::max(x - knee, 0.0));
            let found = hinge(&x, &y).unwrap();
            assert!((found.slope / slope - 1.0).abs() < 1e-9 && (found.knee - knee).abs() < 1e-9, "{found:?}");
            assert!((found.level / level - 1.0).abs() < 1e-9 && found.worst < 1e-9, "{found:?}");
        }
    }

    #[test]
    fn a_curve_without_a_line_is_far_from_every_hinge() {
        let x = [1.0, 2.0, 4.0, 8.0, 16.0, 64.0];
        assert!(hinge(&x, &x.map(|x| 80.0 + 5.0 * f64::max(x - 40.0, 0.0))).unwrap().worst > 0.1);
        assert!(hinge(&x, &x.map(|x| 80.0 * x * x)).unwrap().worst > 0.1);
        assert!(hinge(&x, &[80.0; 6]).unwrap().slope.abs() < 1e-9);
        assert_eq!(hinge(&x[..3], &[80.0; 3]), None);
        assert_eq!(hinge(&[1.0, 1.0, 2.0, 3.0], &[80.0; 4]), None, "x does not rise");
    }

    /// NIST Statistical Reference Datasets, Norris (ozone monitors): y, x.
    const NORRIS: [(f64, f64); 36] = [
        (0.1, 0.2),
        (338.8, 337.4),
        (118.1, 118.2),
        (888.0, 884.6),
        (9.2, 10.1),
        (228.1, 226.5),
        (668.5, 666.3),
        (998.5, 996.3),
        (449.1, 448.6),
        (778.9, 777.0),
        (559.2, 558.2),
        (0.3, 0.4),
        (0.1, 0.6),
        (778.1, 775.5),
        (668.8, 666.9),
        (339.3, 338.0),
        (448.9, 447.5),
        (10.8, 11.6),
        (557.7, 556.0),
        (228.3, 228.1),
        (998.0, 995.8),
        (888.8, 887.6),
        (119.6, 120.2),
        (0.3, 0.3),
        (0.6, 0.3),
        (557.6, 556.8),
        (339.3, 339.1),
        (888.0, 887.2),
        (998.5, 999.0),
        (778.9, 779.0),
        (10.2, 11.1),
        (117.6, 118.3),
        (228.9, 229.2),
        (668.4, 669.1),
        (449.2, 448.9),
        (0.2, 0.5),
    ];

    #[test]
    fn certified_regression_of_the_nist_is_reproduced() {
        let (y, x): (Vec<f64>, Vec<f64>) = NORRIS.into_iter().unzip();
        let line = least_squares(&x, &y).unwrap();
        assert_close(line.intercept, -0.262_323_073_774_029, 1e-11);
        assert_close(line.slope, 1.002_116_818_020_45, 1e-13);
        assert_close(line.intercept_error, 0.232_818_234_301_152, 1e-11);
        assert_close(line.slope_error, 0.429_796_848_199_937e-3, 1e-11);
        assert_close(line.residual_deviation, 0.884_796_396_144_373, 1e-12);
        assert_close(line.explained.unwrap(), 0.999_993_745_883_712, 1e-14);
    }

    #[test]
    fn a_relative_line_has_its_intercept_whatever_the_large_values_do() {
        let sizes = [512.0, 4096.0, 65_536.0, 262_144.0, 1_048_576.0];
        let mut times = sizes.map(|size| 50_000.0 + 8.0 * size);
        let (slope, intercept) = relative_coefficients(&sizes, &times).unwrap();
        assert!((intercept - 50_000.0).abs() < 1e-3 && (slope - 8.0).abs() < 1e-9);
        // The largest is off by a tenth: an unweighted line would miss the intercept by a multiple of itself.
        times[4] *= 1.1;
        let (_, intercept) = relative_coefficients(&sizes, &times).unwrap();
        assert!((intercept / 50_000.0 - 1.0).abs() < 0.05, "{intercept}");
        assert_eq!(relative_coefficients(&sizes[..2], &times[..2]), None);
        assert_eq!(relative_coefficients(&[1.0; 4], &[5.0; 4]), None);
    }

    #[test]
    fn robust_line_of_the_textbook() {
        // Hollander & Wolfe, Nonparametric Statistical Methods, example 9.1 (cloud seeding): the ten slopes between the
        // five points, written out.
        let x = [1.0, 2.0, 3.0, 4.0, 5.0];
        let y = [1.26, 1.27, 1.12, 1.16, 1.03];
        let slopes = [0.01, -0.07, -0.1 / 3.0, -0.0575, -0.15, -0.055, -0.08, 0.04, -0.045, -0.13];
        let line = theil_sen(&x, &y, 0.95).unwrap();
        assert_close(line.slope, median(&slopes).unwrap(), 1e-12);
        assert!(line.slope_interval.contains(line.slope));
    }

    #[test]
    fn one_wild_point_bends_least_squares_only() {
        let x: Vec<f64> = (0..16).map(f64::from).collect();
        let mut y: Vec<f64> = x.iter().map(|x| 3.0 + 2.0 * x).collect();
        y[15] = 500.0;
        assert!(least_squares(&x, &y).unwrap().slope > 10.0);
        let robust = theil_sen(&x, &y, 0.95).unwrap();
        assert_close(robust.slope, 2.0, 1e-12);
        assert_close(robust.intercept, 3.0, 1e-12);
    }

    #[test]
    fn slope_intervals_cover_as_often_as_they_say() {
        let mut random = fastrand::Rng::with_seed(16);
        let x: Vec<f64> = (0..16).map(f64::from).collect();
        let rounds = 2000;
        let mut hits = 0;
        for _ in 0..rounds {
            let y: Vec<f64> =
                normal(&mut random, 16, 0.0, 1.0).iter().zip(&x).map(|(noise, x)| 0.3 * x + noise).collect();
            hits += u32::from(theil_sen(&x, &y, 0.95).unwrap().slope_interval.contains(0.3));
        }
        assert!((0.935..=0.975).contains(&(f64::from(hits) / f64::from(rounds))), "{hits}");
    }

    #[test]
    fn what_has_no_answer_is_none() {
        assert_eq!(least_squares(&[1.0, 2.0], &[1.0, 2.0]), None);
        assert_eq!(least_squares(&[1.0; 4], &[1.0, 2.0, 3.0, 4.0]), None);
        assert_eq!(least_squares(&[1.0, 2.0, 3.0], &[1.0, f64::NAN, 3.0]), None);
        assert_eq!(least_squares(&[1.0, 2.0, 3.0], &[1.0, 2.0]), None);
        assert_eq!(least_squares(&[1.0, 2.0, 3.0], &[5.0; 3]).unwrap().explained, None);
        assert_eq!(theil_sen(&[1.0; 4], &[1.0, 2.0, 3.0, 4.0], 0.95), None);
        assert_eq!(theil_sen(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0], 1.0), None);
        assert_close(theil_sen(&[1.0, 2.0, 3.0], &[5.0; 3], 0.95).unwrap().slope + 1.0, 1.0, 1e-15);
    }

    proptest! {
        #[test]
        fn both_lines_shift_and_scale_with_the_data(
            y in prop::collection::vec(-1e3..1e3_f64, 3..20), offset in -1e3..1e3_f64, factor in 0.1..10.0_f64,
        ) {
            let x: Vec<f64> = (0..y.len()).map(|place| place as f64).collect();
            let moved: Vec<f64> = y.iter().map(|y| offset + factor * y).collect();
            let (before, after) = (least_squares(&x, &y).unwrap(), least_squares(&x, &moved).unwrap());
            prop_assert!((after.slope - factor * before.slope).abs() < 1e-6);
            prop_assert!((after.intercept - offset - factor * before.intercept).abs() < 1e-6);
            let (before, after) = (theil_sen(&x, &y, 0.9).unwrap(), theil_sen(&x, &moved, 0.9).unwrap());
            prop_assert!((after.slope - factor * before.slope).abs() < 1e-6);
            prop_assert!(after.slope_interval.contains(after.slope));
        }
    }
}
