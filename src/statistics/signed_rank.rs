//! Paired samples: whether their differences have the median zero, by the signed-rank test of Wilcoxon (Biometrics Bulletin
//! 1, 1945).

use super::distribution::normal_two_sided;

/// Up to this many differences the distribution is counted, and no approximation is needed.
const COUNTED: usize = 60;

/// Two-sided p value that the differences are symmetric about zero. Differences of zero take no part. `None` where nothing is
/// left, or where a difference is not finite.
pub fn signed_rank(differences: &[f64]) -> Option<f64> {
    if !differences.iter().all(|value| value.is_finite()) {
        return None;
    }
    let mut values: Vec<f64> = differences.iter().copied().filter(|value| value.abs() > 0.0).collect();
    if values.is_empty() {
        return None;
    }
    values.sort_by(|one, other| one.abs().total_cmp(&other.abs()));
    // Twice the rank, so that ties have whole numbers.
    let mut ranks = Vec::with_capacity(values.len());
    let mut start = 0;
    while start < values.len() {
        let end = (start..values.len()).find(|&at| values[at].abs() > values[start].abs()).unwrap_or(values.len());
        ranks.extend(std::iter::repeat_n(start + end + 1, end - start));
        start = end;
    }
    let total: usize = ranks.iter().sum();
    let positive: usize = ranks.iter().zip(&values).filter(|(_, value)| **value > 0.0).map(|(rank, _)| *rank).sum();
    let less = positive.min(total - positive);
    if values.len() <= COUNTED { Some(counted(&ranks, less)) } else { approximated(&ranks, less) }
}

/// The same by the normal distribution.
fn approximated(ranks: &[usize], less: usize) -> Option<f64> {
    let total: usize = ranks.iter().sum();
    let squares: f64 = ranks.iter().map(|rank| (*rank as f64).powi(2)).sum();
    normal_two_sided((less as f64 - total as f64 / 2.0) / (squares / 4.0).sqrt())
}

/// The probability of a sum of positive ranks at most so large, or as far on the other side.
fn counted(ranks: &[usize], less: usize) -> f64 {
    let total: usize = ranks.iter().sum();
    let mut chances = vec![0.0; total + 1];
    chances[0] = 1.0;
    for &rank in ranks {
        for sum in (0..=total).rev() {
            let with = if sum >= rank { chances[sum - rank] } else { 0.0 };
            chances[sum] = f64::midpoint(chances[sum], with);
        }
    }
    (2.0 * chances[..=less].iter().sum::<f64>()).min(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn p_values_of_tables() {
        // Ten differences of one sign: 2 of 1024 outcomes.
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        assert!((signed_rank(&ten).unwrap() - 2.0 / 1024.0).abs() < 1e-12);
        // The sum 8 with ten differences has p = 0.0488, as in every table of the test.
        let eight: Vec<f64> = (1..=10).map(|rank| if rank == 8 { -8.0 } else { f64::from(rank) }).collect();
        assert!((signed_rank(&eight).unwrap() - 0.048_828_125).abs() < 1e-9);
        assert_eq!(signed_rank(&[0.0, 0.0]), None);
        assert_eq!(signed_rank(&[f64::NAN]), None);
    }

    #[test]
    fn the_approximation_agrees_with_the_count() {
        // Far in the tail the approximation is too large, which shows less.
        let ranks: Vec<usize> = (1..=60).map(|rank| 2 * rank).collect();
        for less in [1000, 1100, 1200, 1400] {
            let (exact, other) = (counted(&ranks, less), approximated(&ranks, less).unwrap());
            assert!((exact / other - 1.0).abs() < 0.16, "{less}: {exact} {other}");
        }
    }

    proptest! {
        #[test]
        fn signs_do_not_matter(values in prop::collection::vec(-5.0_f64..5.0, 1..40)) {
            let turned: Vec<f64> = values.iter().map(|value| -value).collect();
            match (signed_rank(&values), signed_rank(&turned)) {
                (Some(one), Some(other)) => {
                    prop_assert!((one - other).abs() < 1e-9);
                    prop_assert!((0.0..=1.0).contains(&one));
                }
                (one, other) => prop_assert_eq!(one, other),
            }
        }
    }
}
