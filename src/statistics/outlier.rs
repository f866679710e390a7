//! Values far from the rest, samples with two modes, means that mislead. These functions describe; none of them removes a
//! value. A sample is set aside for an attributed cause only, never for its value.

use super::dip::{critical_dip, dip};
use super::summary::{coefficient_of_variation, finite, mean, median, median_absolute_deviation, sorted};

/// Robust z score from which a value is far from the rest (Iglewicz & Hoaglin, *How to Detect and Handle Outliers*, 1993).
pub const FAR: f64 = 3.5;

/// Gap between two modes, relative to the lower, below which they do not matter: what the verdict of a figure tolerates.
const GAP_THAT_MATTERS: f64 = 0.05;

/// Mean over median from which the mean misleads.
const MEAN_OVER_MEDIAN: f64 = 1.5;

/// Standard deviation over mean from which the mean misleads.
const DEVIATION_OVER_MEAN: f64 = 0.5;

/// Mean absolute deviation to standard deviation, for normal data: √(π/2).
const FROM_MEAN_ABSOLUTE: f64 = 1.253_314_137_315_500_3;

/// Robust z scores: distance from the median in standard deviations, the latter from the median absolute deviation
/// (Iglewicz & Hoaglin 1993: `0.6745·(x - median)/MAD`), so that the outliers do not hide themselves.
///
/// Where more than half of the values are equal the mean absolute deviation takes its place, as in the same book; where all
/// are, every score is zero.
pub fn robust_scores(values: &[f64]) -> Option<Vec<f64>> {
    let centre = median(values)?;
    let scale = robust_scale(values, centre)?;
    if scale <= 0.0 {
        return Some(vec![0.0; values.len()]);
    }
    values.iter().map(|value| finite((value - centre) / scale)).collect()
}

/// True when a new value lies farther than [`FAR`] from the values seen before: the rule for canaries. Wants five of them,
/// finite like the value. After constant history every other value is far.
pub fn deviates(history: &[f64], value: f64) -> Option<bool> {
    if history.len() < 5 || !value.is_finite() {
        return None;
    }
    let centre = median(history)?;
    Some((value - centre).abs() > FAR * robust_scale(history, centre)?)
}

/// Robust estimate of the standard deviation around a given centre; zero when all values are equal.
fn robust_scale(values: &[f64], centre: f64) -> Option<f64> {
    let robust = median_absolute_deviation(values)? * super::summary::NORMAL_CONSISTENCY;
    if robust > 0.0 {
        return finite(robust);
    }
    let distances: Vec<f64> = values.iter().map(|value| (value - centre).abs()).collect();
    finite(mean(&distances)? * FROM_MEAN_ABSOLUTE)
}

/// Evidence for or against two modes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Modes {
    /// Hartigan's dip.
    pub dip: f64,
    /// The dip that a unimodal sample of this size exceeds with one percent.
    pub critical: f64,
    /// Median of the lower group.
    pub lower: f64,
    /// Median of the upper group; at least `lower`.
    pub upper: f64,
    /// Share of the values in the upper group, in `(0, 1)`.
    pub upper_share: f64,
}

impl Modes {
    /// True when the sample is not unimodal and the two groups are more than five percent apart. The second half matters: a
    /// coarse clock gives atoms, and atoms a dip, without any second way to run.
    pub fn bimodal(&self) -> bool {
        self.dip > self.critical && self.upper - self.lower > GAP_THAT_MATTERS * self.lower.abs()
    }
}

/// Looks for two modes: the dip for significance, and the two groups with the least variance inside (Otsu, IEEE Transactions
/// on Systems, Man and Cybernetics 9, 1979) for size. Assumes independent values: those of one launch, or launch estimates,
/// not a pool of both. Wants four values that are not all equal.
pub fn modes(values: &[f64]) -> Option<Modes> {
    let ordered = sorted(values)?;
    let dip = dip(&ordered)?;
    let split = best_split(&ordered)?;
    Some(Modes {
        dip,
        critical: critical_dip(ordered.len()),
        lower: median(&ordered[..split])?,
        upper: median(&ordered[split..])?,
        upper_share: (ordered.len() - split) as f64 / ordered.len() as f64,
    })
}

/// Size of the lower group when the squared distance between the group means, weighted by both sizes, is largest.
fn best_split(ordered: &[f64]) -> Option<usize> {
    let count = ordered.len() as f64;
    let centre = mean(ordered)?;
    let mut below = 0.0;
    let mut best = (0.0, None);
    for split in 1..ordered.len() {
        below += ordered[split - 1] - centre;
        // With the centre at zero the weighted distance is the square of one sum over both sizes.
        let separation = below * below / (split as f64 * (count - split as f64));
        if separation > best.0 && ordered[split - 1] < ordered[split] {
            best = (separation, Some(split));
        }
    }
    best.1
}

/// Why a mean may not stand as the headline of a figure (gate G10).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanCheck {
    /// Mean over median; above 1.5 the tail makes the mean. Absent when the median is not positive.
    pub mean_over_median: Option<f64>,
    /// Standard deviation over mean; above 0.5 the mean says little. Absent for one value or a mean of zero.
    pub deviation_over_mean: Option<f64>,
    /// Two modes; a mean lies between them, where no value does. Absent for few or equal values.
    pub modes: Option<Modes>,
}

impl MeanCheck {
    /// True when median and percentiles are to be the headline and the mean is not to be shown as one.
    pub fn misleads(&self) -> bool {
        self.mean_over_median.is_some_and(|ratio| ratio > MEAN_OVER_MEDIAN)
            || self.deviation_over_mean.is_some_and(|ratio| ratio > DEVIATION_OVER_MEAN)
            || self.modes.is_some_and(|modes| modes.bimodal())
    }
}

/// Checks whether the mean may stand for a sample of positive values.
pub fn check_mean(values: &[f64]) -> Option<MeanCheck> {
    let (mean, median) = (mean(values)?, median(values)?);
    Some(MeanCheck {
        mean_over_median: finite(mean / median).filter(|_| median > 0.0),
        deviation_over_mean: coefficient_of_variation(values),
        modes: modes(values),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::synthetic::{assert_close, normal};
    use super::*;

    #[test]
    fn scores_of_the_textbook() {
        // Iglewicz & Hoaglin 1993, section 3.3: 2.1, 2.6, 2.4, 2.5, 2.3, 2.1, 2.3, 2.6, 8.2, 8.3 have two outliers that hide
        // each other from ordinary z scores.
        let values = [2.1, 2.6, 2.4, 2.5, 2.3, 2.1, 2.3, 2.6, 8.2, 8.3];
        let scores = robust_scores(&values).unwrap();
        assert_eq!(scores.iter().filter(|score| score.abs() > FAR).count(), 2);
        assert_close(scores[8], 0.674_489_75 * (8.2 - 2.45) / 0.15, 0.2);
    }

    #[test]
    fn canaries() {
        let history = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2];
        assert_eq!(deviates(&history, 101.5), Some(false));
        assert_eq!(deviates(&history, 110.0), Some(true));
        assert_eq!(deviates(&[5.0; 6], 5.0), Some(false));
        assert_eq!(deviates(&[5.0; 6], 5.1), Some(true));
        assert_eq!(deviates(&[5.0; 4], 5.0), None);
        assert_eq!(deviates(&history, f64::NAN), None);
    }

    #[test]
    fn two_modes_and_one() {
        let mut random = fastrand::Rng::with_seed(38);
        let one = normal(&mut random, 90, 100.0, 3.0);
        assert!(!modes(&one).unwrap().bimodal());
        let mut two = one[..60].to_vec();
        two.extend(normal(&mut random, 30, 130.0, 3.0));
        let found = modes(&two).unwrap();
        assert!(found.bimodal());
        assert_close(found.lower, 100.0, 0.02);
        assert_close(found.upper, 130.0, 0.02);
        assert_close(found.upper_share, 1.0 / 3.0, 1e-12);
        let coarse: Vec<f64> = (0..90).map(|place| f64::from(1000 + place % 2)).collect();
        assert!(!modes(&coarse).unwrap().bimodal());
    }

    #[test]
    fn means_that_mislead() {
        let mut random = fastrand::Rng::with_seed(39);
        assert!(!check_mean(&normal(&mut random, 100, 100.0, 5.0)).unwrap().misleads());
        let mut tail = vec![10.0; 95];
        tail.extend([500.0; 5]);
        let check = check_mean(&tail).unwrap();
        assert!(check.mean_over_median.unwrap() > 3.0 && check.misleads());
        assert!(!check_mean(&[7.0]).unwrap().misleads());
        assert_eq!(check_mean(&[]), None);
        assert_eq!(modes(&[7.0; 10]), None);
        assert_eq!(robust_scores(&[f64::NAN]), None);
        assert_eq!(robust_scores(&[7.0; 3]), Some(vec![0.0; 3]));
    }

    proptest! {
        #[test]
        fn half_of_the_scores_are_small(values in prop::collection::vec(-1e6..1e6_f64, 3..60)) {
            let scores = robust_scores(&values).unwrap();
            prop_assert_eq!(scores.len(), values.len());
            prop_assert!(2 * scores.iter().filter(|score| score.abs() <= 0.675).count() >= values.len());
        }
    }
}
