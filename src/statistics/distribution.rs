//! Tails and quantiles of the three distributions that intervals and tests need.
//!
//! The functions themselves come from the `statrs` crate; this file gives them one contract (`None` outside the legal
//! domain, where the crate panics or returns NaN) and pins them to printed tables, to ten digits.

use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal, StudentsT};

use super::summary::finite;

/// Quantile of the standard normal distribution; `probability` lies in `(0, 1)`.
pub fn normal_quantile(probability: f64) -> Option<f64> {
    if !strictly_between(probability) {
        return None;
    }
    finite(Normal::standard().inverse_cdf(probability))
}

/// Probability that a standard normal value is at least so far from zero; `None` when the value is not a number.
pub fn normal_two_sided(value: f64) -> Option<f64> {
    let normal = Normal::standard();
    (!value.is_nan()).then(|| (2.0 * normal.cdf(-value.abs())).min(1.0))
}

/// Quantile of Student's t; `probability` lies in `(0, 1)`, `degrees` is positive and need not be whole.
pub fn student_quantile(probability: f64, degrees: f64) -> Option<f64> {
    if !strictly_between(probability) || !degrees.is_finite() {
        return None;
    }
    finite(StudentsT::new(0.0, 1.0, degrees).ok()?.inverse_cdf(probability))
}

/// Probability that |t| of Student's distribution is at least |`value`|: the two-sided p value.
pub fn student_two_sided(value: f64, degrees: f64) -> Option<f64> {
    if value.is_nan() || !degrees.is_finite() {
        return None;
    }
    let distribution = StudentsT::new(0.0, 1.0, degrees).ok()?;
    finite((2.0 * distribution.cdf(-value.abs())).min(1.0))
}

/// Probability of at most `successes` in `trials` independent trials; `probability` lies in `[0, 1]`.
pub fn binomial_at_most(successes: u64, trials: u64, probability: f64) -> Option<f64> {
    finite(Binomial::new(probability, trials).ok()?.cdf(successes))
}

/// The factor of a two-sided normal interval: 1.96 for a level of 0.95. `level` lies in `(0, 1)`.
pub fn normal_factor(level: f64) -> Option<f64> {
    normal_quantile(f64::midpoint(1.0, level)).filter(|_| strictly_between(level))
}

/// The factor of a two-sided Student interval; `level` lies in `(0, 1)`.
pub fn student_factor(level: f64, degrees: f64) -> Option<f64> {
    student_quantile(f64::midpoint(1.0, level), degrees).filter(|_| strictly_between(level))
}

/// True for a probability that is neither 0 nor 1 (nor NaN).
pub(super) fn strictly_between(probability: f64) -> bool {
    probability > 0.0 && probability < 1.0
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::assert_close;
    use super::*;

    #[test]
    fn printed_tables_are_reproduced() {
        // Abramowitz & Stegun, Handbook of Mathematical Functions, chapter 26.
        assert_close(normal_factor(0.95).unwrap(), 1.959_963_984_540_054, 1e-9);
        for (degrees, expected) in
            [(1.0, 12.706_204_74), (4.0, 2.776_445_105), (9.0, 2.262_157_163), (29.0, 2.045_229_642)]
        {
            assert_close(student_factor(0.95, degrees).unwrap(), expected, 1e-8);
        }
        assert_close(student_two_sided(-2.228_138_852, 10.0).unwrap(), 0.05, 1e-8);
        assert_close(binomial_at_most(1, 5, 0.5).unwrap(), 6.0 / 32.0, 1e-12);
    }

    #[test]
    fn outside_the_legal_domain_there_is_no_answer() {
        for probability in [0.0, 1.0, -1.0, 2.0, f64::NAN] {
            assert_eq!(normal_quantile(probability), None);
            assert_eq!(student_quantile(probability, 3.0), None);
            assert_eq!(normal_factor(probability), None);
        }
        assert_eq!(student_quantile(0.9, 0.0), None);
        assert_eq!(student_quantile(0.9, f64::NAN), None);
        assert_eq!(student_two_sided(f64::NAN, 3.0), None);
        assert_eq!(binomial_at_most(1, 5, f64::NAN), None);
        assert_close(student_two_sided(f64::INFINITY, 3.0).unwrap() + 1.0, 1.0, 1e-15);
    }
}
