//! The closest non-decreasing curve. A latency cannot fall when the footprint grows: the distance of a measured curve from
//! the closest curve that obeys this is a check of the measurement (gate G20).

use super::summary::{finite, usable};

/// Neighbouring places that share one fitted value.
struct Pool {
    mean: f64,
    weight: f64,
    places: usize,
}

/// Isotonic regression: the non-decreasing sequence with the least weighted sum of squared distances, by
/// pool-adjacent-violators (Ayer et al., Annals of Mathematical Statistics 26, 1955; Barlow et al., *Statistical Inference
/// under Order Restrictions*, 1972). Linear time.
///
/// Wants as many weights as values, all weights positive and finite.
pub fn isotonic(values: &[f64], weights: &[f64]) -> Option<Vec<f64>> {
    if values.len() != weights.len() || !usable(values) || !usable(weights) || weights.iter().any(|w| *w <= 0.0) {
        return None;
    }
    let mut pools: Vec<Pool> = Vec::with_capacity(values.len());
    for (value, weight) in values.iter().zip(weights) {
        let mut pool = Pool { mean: *value, weight: *weight, places: 1 };
        while let Some(before) = pools.pop_if(|before| before.mean > pool.mean) {
            let weight = before.weight + pool.weight;
            // A share between 0 and 1 keeps the pooled mean between the two, whatever the rounding.
            let share = pool.weight / weight;
            pool = Pool {
                mean: before.mean * (1.0 - share) + pool.mean * share,
                weight: finite(weight)?,
                places: before.places + pool.places,
            };
        }
        pools.push(pool);
    }
    Some(pools.into_iter().flat_map(|pool| std::iter::repeat_n(pool.mean, pool.places)).collect())
}

/// [`isotonic`] with equal weights.
pub fn isotonic_unweighted(values: &[f64]) -> Option<Vec<f64>> {
    isotonic(values, &vec![1.0; values.len()])
}

/// Largest distance of a curve from its isotonic fit, relative to the fit: gate G20 wants less than 0.05. Wants positive
/// values.
pub fn isotonic_residual(values: &[f64]) -> Option<f64> {
    if values.iter().any(|value| *value <= 0.0) {
        return None;
    }
    let fitted = isotonic_unweighted(values)?;
    let residuals = values.iter().zip(fitted).map(|(value, fitted)| (value - fitted).abs() / fitted);
    finite(residuals.fold(0.0, f64::max))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::synthetic::assert_close;
    use super::*;

    #[track_caller]
    fn assert_fit(values: &[f64], weights: &[f64], expected: &[f64]) {
        let fitted = isotonic(values, weights).unwrap();
        assert_eq!(fitted.len(), expected.len());
        fitted.iter().zip(expected).for_each(|(fitted, expected)| assert_close(*fitted, *expected, 1e-12));
    }

    #[test]
    fn worked_examples() {
        assert_fit(&[1.0, 3.0, 2.0, 4.0], &[1.0; 4], &[1.0, 2.5, 2.5, 4.0]);
        assert_fit(&[4.0, 3.0, 2.0, 1.0], &[1.0; 4], &[2.5; 4]);
        // The example of R's isoreg.
        assert_fit(
            &[1.0, 0.0, 4.0, 3.0, 3.0, 5.0, 4.0, 2.0, 0.0],
            &[1.0; 9],
            &[0.5, 0.5, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0],
        );
        assert_fit(&[3.0, 1.0, 2.0], &[1.0, 3.0, 1.0], &[1.5, 1.5, 2.0]);
    }

    #[test]
    fn a_spike_is_a_residual() {
        assert_close(isotonic_residual(&[5.0, 5.0, 8.0, 5.0, 16.0]).unwrap(), 1.5 / 6.5, 1e-12);
        assert_close(isotonic_residual(&[5.0, 5.0, 16.0]).unwrap() + 1.0, 1.0, 1e-15);
    }

    #[test]
    fn what_has_no_answer_is_none() {
        assert_eq!(isotonic(&[], &[]), None);
        assert_eq!(isotonic(&[1.0], &[]), None);
        assert_eq!(isotonic(&[1.0], &[0.0]), None);
        assert_eq!(isotonic(&[f64::NAN], &[1.0]), None);
        assert_eq!(isotonic_residual(&[0.0, 1.0]), None);
    }

    proptest! {
        #[test]
        fn the_fit_rises_stays_when_fitted_again_and_keeps_the_mean(
            points in prop::collection::vec((-1e6..1e6_f64, 0.1..10.0_f64), 1..60),
        ) {
            let (values, weights): (Vec<f64>, Vec<f64>) = points.into_iter().unzip();
            let fitted = isotonic(&values, &weights).unwrap();
            prop_assert!(fitted.windows(2).all(|pair| pair[0] <= pair[1]));
            prop_assert_eq!(isotonic(&fitted, &weights).unwrap(), fitted.clone());
            let sum = |values: &[f64]| values.iter().zip(&weights).map(|(value, weight)| value * weight).sum::<f64>();
            prop_assert!((sum(&values) - sum(&fitted)).abs() < 1e-3);
        }
    }
}
