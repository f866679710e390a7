//! How far a figure scatters, in words: both ends of a lopsided interval, the levels of a figure with two modes, and the batches that
//! took much longer than most.

use super::document::{FigureModes, Metric, Quantiles};
use super::quantity::Unit;
use super::wording::{count, percent, significant};

/// Longer over shorter side of an interval beyond which it is lopsided.
const LOPSIDED: f64 = 2.0;
/// Longer side over the value below which both ends read like the value.
const VISIBLE: f64 = 0.005;
/// Least level of an interval that counts as one of 95 %: four launches give 87.5 %, five 93.75 %.
const LEAST_LEVEL: f64 = 0.88;
/// Batch in a hundred over the median beyond which the batches themselves are worth a line.
const TAIL: f64 = 2.0;
/// Label of a figure that is a quantile of its samples.
const QUANTILE: &str = "quantile";

impl Metric {
    /// How far the interval reaches below and above the value.
    fn halves(&self) -> [f64; 2] {
        [self.value - self.interval95[0], self.interval95[1] - self.value]
    }

    /// True where one side of the interval is so much longer than the other that ± would give a wrong end.
    pub fn is_lopsided(&self) -> bool {
        let [below, above] = self.halves();
        below.max(above) > LOPSIDED * below.min(above) && below.max(above) >= VISIBLE * self.value.abs()
    }

    /// What ± says where there is room for one number: half of the interval over the value, and the longer side of a lopsided one.
    pub fn plus_minus(&self) -> f64 {
        let [below, above] = self.halves();
        if self.is_lopsided() { below.max(above) / self.value.abs() } else { self.relative_half_width() }
    }

    /// The interval behind a value: half of it as a share, and both ends of a lopsided one. With its level where launches are too
    /// few for one of about 95 %.
    pub fn uncertainty_text(&self) -> String {
        if self.interval_level <= 0.0 {
            return "–".to_owned();
        }
        let text = if self.is_lopsided() { self.interval_text() } else { percent(self.relative_half_width()) };
        if self.has_level() { text } else { format!("{text} (at {})", percent(self.interval_level)) }
    }

    /// Whether its interval covers about 95 %: two to four launches give one of 50 to 87 %.
    pub fn has_level(&self) -> bool {
        self.interval_level >= LEAST_LEVEL
    }

    /// The levels of a figure with two modes and the share of its launches or batches that had each: `0.60 µs (70 %), 1.40 µs (30 %)`.
    pub fn modes_text(&self) -> Option<String> {
        let FigureModes { lower, upper, upper_share, of } = self.modes?;
        let [lower, upper] = [lower, upper].map(|level| significant(level, self.unit, 3));
        let [below, above] = [1.0 - upper_share, upper_share].map(percent);
        Some(format!("{lower} ({below} {}), {upper} ({above})", of.text()))
    }

    /// Whether an earlier figure of the same samples, at another quantile, has modes too: both come from the same launches.
    pub fn repeats_modes_of<'a>(&self, earlier: impl IntoIterator<Item = &'a Metric>) -> bool {
        let others = |metric: &Metric| {
            let pairs = metric.labels.pairs().filter(|(key, _)| *key != QUANTILE);
            pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect::<Vec<_>>()
        };
        let is_quantile = self.modes.is_some() && self.labels.get(QUANTILE).is_some();
        is_quantile
            && earlier
                .into_iter()
                .any(|other| other.name == self.name && other.modes.is_some() && others(other) == others(self))
    }

    /// The quantiles of the batches in words, where a batch in a hundred took at least twice the median.
    pub fn tail_text(&self) -> Option<String> {
        let is_long = |found: &Quantiles| self.unit == Unit::Nanoseconds && found.p99 >= TAIL * found.p50;
        let quantiles = self.quantiles.filter(is_long)?;
        let shown = |value: f64| significant(value, self.unit, 3);
        let mut text = format!(
            "Per operation, 10 % of the batches took at most {}, 50 % {}, 90 % {} and 99 % {}.",
            shown(quantiles.p10),
            shown(quantiles.p50),
            shown(quantiles.p90),
            shown(quantiles.p99)
        );
        if self.void > 0 {
            text += &format!(" Discarded: {}.", count(self.void, "batch", "batches"));
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::ModesOf;
    use super::*;
    use crate::results::quantity::Labels;

    fn metric(value: f64, interval95: [f64; 2]) -> Metric {
        Metric { value, interval95, ..Metric::example() }
    }

    #[test]
    fn a_lopsided_interval_has_both_ends_and_its_longer_side() {
        let even = metric(100.0, [95.0, 105.0]);
        assert_eq!((even.is_lopsided(), even.uncertainty_text().as_str()), (false, "5.00 %"));
        let lopsided = metric(100.0, [98.0, 140.0]);
        assert!(lopsided.is_lopsided() && (lopsided.plus_minus() - 0.4).abs() < 1e-9);
        assert!(lopsided.uncertainty_text().contains('…'), "{}", lopsided.uncertainty_text());
        assert!(!metric(100.0, [100.0, 100.1]).is_lopsided(), "both ends would read 100.0");
        assert!(!metric(100.0, [100.0, 100.0]).is_lopsided(), "an interval of no width has no long side");
    }

    #[test]
    fn levels_are_told_once_for_all_quantiles_of_the_same_launches() {
        let of = |quantile: &str| Metric {
            labels: Labels::of([("quantile", quantile)]),
            modes: Some(FigureModes { lower: 600.0, upper: 1400.0, upper_share: 0.3, of: ModesOf::Launches }),
            ..metric(700.0, [600.0, 1400.0])
        };
        assert_eq!(of("p50").modes_text().unwrap(), "600 ns (70 % of the launches), 1.40 µs (30 %)");
        assert!(of("p90").repeats_modes_of(&[of("p50")]));
        assert!(!of("p50").repeats_modes_of(&[]) && !metric(1.0, [1.0, 1.0]).repeats_modes_of(&[of("p50")]));
    }

    #[test]
    fn only_a_long_tail_is_worth_a_line() {
        let of = |p99: f64| Metric {
            quantiles: Some(Quantiles { p10: 27_186.0, p50: 36_006.0, p90: 40_906.0, p99 }),
            void: 14,
            ..metric(33_802.0, [30_000.0, 36_000.0])
        };
        assert_eq!(of(50_000.0).tail_text(), None);
        let text = of(92_435.0).tail_text().unwrap();
        assert_eq!(
            text,
            "Per operation, 10 % of the batches took at most 27.2 µs, 50 % 36.0 µs, 90 % 40.9 µs and 99 % 92.4 µs. \
             Discarded: 14 batches."
        );
    }
}
