//! The whole distribution of a positive quantity in buckets of one percent: small enough to store, exact enough for any
//! percentile.

use std::collections::BTreeMap;

/// Ratio of the two ends of a bucket: a percentile read from the histogram is wrong by at most one percent.
const BUCKET_RATIO: f64 = 1.01;

/// Counts of positive values in logarithmic buckets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    counts: BTreeMap<i32, u64>,
    total: u64,
    refused: u64,
}

/// One bucket that is not empty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Lower end, inclusive; positive.
    pub from: f64,
    /// Upper end, exclusive.
    pub to: f64,
    /// Values inside, at least 1.
    pub count: u64,
}

impl Histogram {
    /// The histogram of the values.
    pub fn of(values: &[f64]) -> Self {
        let mut histogram = Histogram::default();
        for value in values {
            histogram.record(*value);
        }
        histogram
    }

    /// Counts one value. What is not positive and finite has no bucket; it is counted in [`Histogram::refused`].
    pub fn record(&mut self, value: f64) {
        if value > 0.0 && value.is_finite() {
            *self.counts.entry(bucket_of(value)).or_default() += 1;
            self.total += 1;
        } else {
            self.refused += 1;
        }
    }

    /// Number of values in the buckets.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Number of values that were not positive and finite.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The buckets that are not empty, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        self.counts.iter().map(|(place, count)| Bucket {
            from: start_of(f64::from(*place)),
            to: start_of(f64::from(*place + 1)),
            count: *count,
        })
    }

    /// The geometric middle of the bucket that holds the value of this rank; `probability` lies in `[0, 1]`.
    pub fn quantile(&self, probability: f64) -> Option<f64> {
        if !(0.0..=1.0).contains(&probability) || self.total == 0 {
            return None;
        }
        let rank = ((probability * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        self.counts
            .iter()
            .find(|(_, count)| {
                seen += **count;
                seen >= rank
            })
            .map(|(place, _)| start_of(f64::from(*place) + 0.5))
    }
}

/// Number of the bucket; bucket 0 starts at 1.
fn bucket_of(value: f64) -> i32 {
    (value.ln() / BUCKET_RATIO.ln()).floor() as i32
}

/// Lower end of a bucket, or the geometric middle for a half; the last bucket ends with the largest number.
fn start_of(place: f64) -> f64 {
    (place * BUCKET_RATIO.ln()).exp().min(f64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_value_is_counted_once() {
        let histogram = Histogram::of(&[1.0, 1.001, 250.0, 0.0, -3.0, f64::NAN, f64::INFINITY]);
        assert_eq!((histogram.total(), histogram.refused()), (3, 4));
        assert_eq!(histogram.buckets().map(|bucket| bucket.count).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert_eq!(histogram.quantile(f64::NAN), None);
    }

    proptest! {
        #[test]
        fn quantiles_are_right_to_one_percent(values in prop::collection::vec(1e-9..1e9_f64, 1..60), share in 0.0..=1.0_f64) {
            let mut ordered = values.clone();
            ordered.sort_unstable_by(f64::total_cmp);
            let rank = ((share * values.len() as f64).ceil() as usize).max(1);
            let found = Histogram::of(&values).quantile(share).unwrap();
            prop_assert!((found / ordered[rank - 1] - 1.0).abs() < 0.01);
        }
    }
}
