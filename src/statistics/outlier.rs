//! Values far from the rest. Nothing here removes a value: a sample is set aside for an attributed cause only.

use super::summary::{NORMAL_CONSISTENCY, finite, mean, median, median_absolute_deviation};

/// Robust z score from which a value is far from the rest (Iglewicz & Hoaglin, *How to Detect and Handle Outliers*, 1993).
const FAR: f64 = 3.5;

/// Mean absolute deviation to standard deviation, for normal data: √(π/2).
const FROM_MEAN_ABSOLUTE: f64 = 1.253_314_137_315_500_3;

/// True when a new value lies farther than [`FAR`] from the values seen before: the rule for interference probes. Wants five of them,
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
    let robust = median_absolute_deviation(values)? * NORMAL_CONSISTENCY;
    if robust > 0.0 {
        return finite(robust);
    }
    let distances: Vec<f64> = values.iter().map(|value| (value - centre).abs()).collect();
    finite(mean(&distances)? * FROM_MEAN_ABSOLUTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes() {
        let history = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2];
        assert_eq!(deviates(&history, 101.5), Some(false));
        assert_eq!(deviates(&history, 110.0), Some(true));
        assert_eq!(deviates(&[5.0; 6], 5.0), Some(false));
        assert_eq!(deviates(&[5.0; 6], 5.1), Some(true));
        assert_eq!(deviates(&[5.0; 4], 5.0), None);
        assert_eq!(deviates(&history, f64::NAN), None);
    }
}
