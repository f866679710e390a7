//! The contract of the whole folder, tested on wild input: an answer is made of finite numbers or absent, and nothing panics.

use proptest::prelude::*;

use super::{
    change, compare, dip, fit, interval, knee, location, modes, monotone, outlier, segmentation, significance, step,
    steps, summary,
};

/// Values that a healthy launch does not give: ties, zeros, the largest and smallest numbers, infinities and NaN.
fn wild_value() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-3..4_i32).prop_map(f64::from),
        4 => 1.0..1e3_f64,
        1 => prop::sample::select(vec![f64::MAX, f64::MIN, f64::MIN_POSITIVE, 1e300, -1e300, 5e-324, 1e-300, 1e15]),
        1 => prop::num::f64::NORMAL,
    ]
}

fn wild_values() -> impl Strategy<Value = Vec<f64>> {
    let finite = || prop::collection::vec(wild_value(), 0..30);
    let broken = (finite(), prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY])).prop_map(
        |(mut values, end)| {
            values.push(end);
            values
        },
    );
    let ties = prop::collection::vec((0..4_i32).prop_map(f64::from), 0..70);
    prop_oneof![4 => finite(), 2 => ties, 1 => broken]
}

/// Fails when the printed answer holds a number that is not finite.
#[track_caller]
fn assert_finite(answer: impl std::fmt::Debug) {
    let printed = format!("{answer:?}");
    assert!(!printed.contains("NaN") && !printed.contains("inf"), "{printed}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn one_sample(values in wild_values(), probability in -0.1..1.1_f64, level in -0.1..1.1_f64) {
        assert_finite(summary::quantile(&values, probability));
        assert_finite(summary::quantiles(&values));
        for function in [
            summary::mean, summary::variance, summary::trimmed_mean, summary::median_absolute_deviation,
        ] {
            assert_finite(function(&values));
        }
        assert_finite(interval::quantile_interval(&values, probability, level));
        assert_finite(monotone::isotonic_unweighted(&values));
        assert_finite(monotone::isotonic_residual(&values));
        assert_finite(segmentation::noise_around_curve(&values));
        assert_finite(change::levels(&values));
        assert_finite(outlier::deviates(&values, probability));
        assert_finite(modes::modes(&values));
        assert_finite(dip::dip(&values));
        assert_finite(significance::benjamini_hochberg(&values));
        let footprints: Vec<f64> = (0..values.len()).map(|place| (place as f64 / 4.0).exp2()).collect();
        assert_finite(knee::staircase(&footprints, &values, None, None));
    }

    #[test]
    fn two_samples(one in wild_values(), other in wild_values(), level in -0.1..1.1_f64) {
        let both: Vec<f64> = other.iter().copied().cycle().take(if other.is_empty() { 0 } else { one.len() }).collect();
        assert_finite(fit::least_squares(&one, &both));
        assert_finite(fit::relative_coefficients(&one, &both));
        assert_finite(fit::theil_sen(&one, &both, level));
        assert_finite(step::fit_step(&one, &both, 2.0));
        let side = |values: &[f64]| {
            let run = |&value: &f64| compare::Observed { value, within: level, launches: 9, between: 0.1 };
            compare::Side::of(&values.iter().map(run).collect::<Vec<_>>())
        };
        let run = |&value: &f64| compare::Observed { value, within: level, launches: 9, between: 0.1 };
        if let Some(series) = steps::RunSeries::of(&one.iter().map(run).collect::<Vec<_>>()) {
            assert_finite(series.p());
            let shape = series.shape(0.05, 0.01);
            assert_finite(&shape);
            assert_finite(shape.and_then(|shape| series.detectable(0.05, &shape)));
        }
        if let Some((one, other)) = side(&one).zip(side(&other)) {
            assert_finite(compare::Shift::between(&one, &other));
            assert_finite(one.value());
        }
    }

    #[test]
    fn launches(launches in prop::collection::vec(wild_values(), 0..9), probability in -0.1..1.1_f64) {
        assert_finite(location::launch_estimates(&launches, probability));
    }
}
