//! How many independent values a series is worth. Batches of one launch follow one another within microseconds: what
//! disturbs one disturbs the next, and an interval that ignores it is several times too narrow.

use super::distribution::normal_below;
use super::summary::{finite, mean, median, sorted, usable};

/// Below this length the estimate of the effective size is too rough to use: one value per launch is taken instead.
pub const SHORTEST_SERIES: usize = 50;

/// A test of the hypothesis that the values of a series are independent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IndependenceTest {
    /// Standard normal under independence; positive when neighbours are more alike than chance would have them.
    pub score: f64,
    /// Two-sided p value, in `[0, 1]`.
    pub p: f64,
}

/// Autocorrelation at a lag, with the divisor of the whole series (Box & Jenkins, *Time Series Analysis*, 2.1), which
/// keeps it in `[-1, 1]`. `None` when the lag is not shorter than the series or the series is constant.
pub fn autocorrelation(values: &[f64], lag: usize) -> Option<f64> {
    if lag >= values.len() {
        return None;
    }
    let centre = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    let products: f64 =
        values.iter().zip(&values[lag..]).map(|(earlier, later)| (earlier - centre) * (later - centre)).sum();
    finite(products / squares)
}

/// Effective sample size `n / (1 + 2·Σρ)`, the sum over the initial positive sequence of Geyer (Statistical Science 7,
/// 1992): pairs of neighbouring autocorrelations are added until a pair is no longer positive.
///
/// Works on the ranks of the values, because one wild batch would drown every correlation. At most `n`: a series that
/// alternates is not credited with more values than it has. Wants [`SHORTEST_SERIES`] values that are not all equal.
pub fn effective_sample_size(values: &[f64]) -> Option<f64> {
    if values.len() < SHORTEST_SERIES {
        return None;
    }
    let ranks = mid_ranks(values)?;
    let mut pairs = 0.0;
    for lag in (0..values.len() - 1).step_by(2) {
        let pair = autocorrelation(&ranks, lag)? + autocorrelation(&ranks, lag + 1)?;
        if pair <= 0.0 {
            break;
        }
        pairs += pair;
    }
    Some(values.len() as f64 / (2.0 * pairs - 1.0).max(1.0))
}

/// Ranks from 1; equal values share the mean of their ranks. `None` for no values or values that are not finite.
pub fn mid_ranks(values: &[f64]) -> Option<Vec<f64>> {
    let ordered = sorted(values)?;
    Some(
        values
            .iter()
            .map(|value| {
                let below = ordered.partition_point(|other| other < value);
                let not_above = ordered.partition_point(|other| other <= value);
                f64::midpoint((below + 1) as f64, not_above as f64)
            })
            .collect(),
    )
}

/// Runs above and below the median (Wald & Wolfowitz, Annals of Mathematical Statistics 11, 1940; NIST/SEMATECH
/// e-Handbook 1.3.5.13). Values equal to the median are left out of the runs. Normal approximation: wants ten values on
/// each side.
pub fn runs_test(values: &[f64]) -> Option<IndependenceTest> {
    let centre = median(values)?;
    let sides: Vec<bool> =
        values.iter().filter(|value| (**value - centre).abs() > 0.0).map(|value| *value > centre).collect();
    let above = sides.iter().filter(|side| **side).count() as f64;
    let below = sides.len() as f64 - above;
    if above < 10.0 || below < 10.0 {
        return None;
    }
    let runs = 1.0 + sides.windows(2).filter(|pair| pair[0] != pair[1]).count() as f64;
    let both = above + below;
    let product = 2.0 * above * below;
    let expected = product / both + 1.0;
    let deviation = (product * (product - both) / (both * both * (both - 1.0))).sqrt();
    // Too few runs mean that neighbours stay together: a positive score.
    test(finite((expected - runs) / deviation)?)
}

/// Test of the autocorrelation at lag one, which under independence is near normal with mean `-1/n` and variance `1/n`
/// (Bartlett 1946; Kendall & Stuart, *Advanced Theory of Statistics* 3, 48.2). Wants twenty values.
pub fn lag_one_test(values: &[f64]) -> Option<IndependenceTest> {
    if values.len() < 20 || !usable(values) {
        return None;
    }
    let count = values.len() as f64;
    test((autocorrelation(values, 1)? + 1.0 / count) * count.sqrt())
}

fn test(score: f64) -> Option<IndependenceTest> {
    Some(IndependenceTest { score, p: (2.0 * normal_below(-score.abs())?).min(1.0) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::synthetic::{assert_close, autoregressive, michelson, normal};
    use super::*;

    #[test]
    fn certified_autocorrelation_of_the_nist_is_reproduced() {
        // NIST Statistical Reference Datasets, Michelso: lag-1 autocorrelation.
        assert_close(autocorrelation(&michelson(), 1).unwrap(), 0.535_199_668_621_283, 1e-12);
        assert_close(autocorrelation(&michelson(), 0).unwrap(), 1.0, 1e-12);
    }

    #[test]
    fn an_autoregressive_series_is_worth_what_theory_says() {
        // (1 - φ)/(1 + φ): 0.053 of the length at φ = 0.9.
        let mut random = fastrand::Rng::with_seed(21);
        for (coefficient, share) in [(0.0, 1.0), (0.5, 1.0 / 3.0), (0.9, 0.1 / 1.9)] {
            let sizes: Vec<f64> = (0..60)
                .filter_map(|_| effective_sample_size(&autoregressive(&mut random, 2000, coefficient)))
                .collect();
            assert_close(median(&sizes).unwrap() / 2000.0, share, 0.15);
        }
    }

    #[test]
    fn a_wild_value_does_not_hide_the_dependence() {
        let mut series = autoregressive(&mut fastrand::Rng::with_seed(22), 500, 0.9);
        let before = effective_sample_size(&series).unwrap();
        series[250] = 1e9;
        assert_close(effective_sample_size(&series).unwrap(), before, 0.2);
    }

    #[test]
    fn runs_of_a_worked_example() {
        // Ten above, then ten below, twice: 4 runs where 21 are expected with variance 9.744 (40 values).
        let values: Vec<f64> = (0..40).map(|place| if place / 10 % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let found = runs_test(&values).unwrap();
        assert_close(found.score, 17.0 / 9.743_589_743_6_f64.sqrt(), 1e-9);
        assert!(found.p < 1e-6);
    }

    #[test]
    fn tests_reject_independent_series_as_often_as_they_say() {
        let mut random = fastrand::Rng::with_seed(23);
        let (mut runs, mut lag, mut dependent) = (0, 0, 0);
        for _ in 0..1000 {
            let values = normal(&mut random, 100, 0.0, 1.0);
            runs += u32::from(runs_test(&values).unwrap().p < 0.05);
            lag += u32::from(lag_one_test(&values).unwrap().p < 0.05);
            dependent += u32::from(lag_one_test(&autoregressive(&mut random, 100, 0.5)).unwrap().p < 0.05);
        }
        assert!((30..=70).contains(&runs) && (30..=70).contains(&lag), "{runs} {lag}");
        assert!(dependent > 980);
    }

    #[test]
    fn what_has_no_answer_is_none() {
        assert_eq!(effective_sample_size(&[1.0; 49]), None);
        assert_eq!(effective_sample_size(&[1.0; 60]), None);
        assert_eq!(effective_sample_size(&[f64::NAN; 60]), None);
        assert_eq!(autocorrelation(&[1.0, 2.0], 2), None);
        assert_eq!(autocorrelation(&[], 0), None);
        assert_eq!(runs_test(&[1.0; 60]), None);
        assert_eq!(lag_one_test(&[1.0; 60]), None);
        assert_eq!(mid_ranks(&[3.0, 1.0, 3.0]), Some(vec![2.5, 1.0, 2.5]));
    }

    proptest! {
        #[test]
        fn no_series_is_worth_more_than_its_length(values in prop::collection::vec(-1e6..1e6_f64, 50..200)) {
            let size = effective_sample_size(&values).unwrap();
            prop_assert!((1.0..=values.len() as f64).contains(&size));
        }
    }
}
