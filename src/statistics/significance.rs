//! What many tests of hypotheses at once require.

/// p values adjusted for the number of tests, in the order given, so that among those at most `q` the expected share of
/// false ones is at most `q` (Benjamini & Hochberg, Journal of the Royal Statistical Society B 57, 1995). Assumes tests that
/// are independent or positively dependent.
///
/// `None` when a value lies outside `[0, 1]`; no values give no values.
pub fn benjamini_hochberg(p_values: &[f64]) -> Option<Vec<f64>> {
    if !p_values.iter().all(|p| (0.0..=1.0).contains(p)) {
        return None;
    }
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|one, other| p_values[*one].total_cmp(&p_values[*other]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut least = 1.0_f64;
    for (rank, place) in order.into_iter().enumerate().rev() {
        // The factor first: it is at least 1, so that rounding never lowers a p value.
        least = least.min(p_values[place] * (p_values.len() as f64 / (rank + 1) as f64));
        adjusted[place] = least;
    }
    Some(adjusted)
}

/// The largest p value that counts as proven where the expected share of false ones is to be at most `q`: the largest one that
/// [`benjamini_hochberg`] adjusts to `q` or less, or `q` over their number where there is none. 0 without a legal p value.
pub fn cutoff(p_values: &[f64], q: f64) -> f64 {
    let Some(adjusted) = benjamini_hochberg(p_values) else { return 0.0 };
    let proven = p_values.iter().zip(adjusted).filter(|(_, adjusted)| *adjusted <= q).map(|(p, _)| *p);
    proven.fold(q / p_values.len().max(1) as f64, f64::max)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::synthetic::assert_close;
    use super::*;

    #[test]
    fn adjusted_p_values_of_the_paper() {
        // Benjamini & Hochberg 1995, section 4.1 (thrombolysis): four of fifteen are rejected at 0.05.
        let p_values = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
            0.7590, 1.0,
        ];
        let adjusted = benjamini_hochberg(&p_values).unwrap();
        assert_eq!(adjusted.iter().filter(|p| **p <= 0.05).count(), 4);
        assert_close(adjusted[3], 0.0095 * 15.0 / 4.0, 1e-12);
        assert_eq!(benjamini_hochberg(&[]), Some(vec![]));
        assert_eq!(benjamini_hochberg(&[1.5]), None);
        assert_eq!(benjamini_hochberg(&[f64::NAN]), None);
    }

    #[test]
    fn the_cutoff_is_what_the_adjustment_accepts() {
        let p_values = [0.0001, 0.004, 0.019, 0.5];
        assert_close(cutoff(&p_values, 0.05), 0.019, 1e-12);
        assert_close(cutoff(&[0.3, 0.6], 0.05), 0.025, 1e-12);
        assert_close(1.0 + cutoff(&[f64::NAN], 0.05), 1.0, 1e-15);
    }

    proptest! {
        #[test]
        fn adjustment_keeps_the_order_and_never_lowers(p_values in prop::collection::vec(0.0..=1.0_f64, 1..40)) {
            let adjusted = benjamini_hochberg(&p_values).unwrap();
            for (p, adjusted_p) in p_values.iter().zip(&adjusted) {
                prop_assert!(p <= adjusted_p && *adjusted_p <= 1.0);
                for (other, adjusted_other) in p_values.iter().zip(&adjusted) {
                    prop_assert!(p > other || adjusted_p <= adjusted_other);
                }
            }
        }
    }
}
