//! Two results in one sentence: one is called larger only where both intervals agree.

use super::document::{Grade, Metric};
use super::quantity::Unit;
use super::verdict::AgainstPrediction;
use super::wording::{Doubt, Shown, by_times, percent, significant, times};
use crate::statistics::location::FEWEST_LAUNCHES;

impl Metric {
    /// The figure as a sentence shows it.
    pub fn shown(&self) -> Shown {
        Shown::measured(self.value, self.interval95, self.unit).at_least(self.at_least).doubted(self.doubt())
    }

    /// Why no text may show it without a word of doubt.
    pub fn doubt(&self) -> Option<Doubt> {
        match self.grade {
            Grade::Disturbed => Some(Doubt::Disturbed),
            Grade::Contaminated => Some(Doubt::Contaminated),
            _ if (self.launches as usize) < FEWEST_LAUNCHES => Some(Doubt::Launches(self.launches)),
            _ => None,
        }
    }

    /// Both ends of its interval, with their level where launches are too few for the usual one.
    pub fn interval_with_level(&self) -> String {
        match () {
            () if self.interval_level <= 0.0 => "too few launches".to_owned(),
            () if self.has_level() => self.interval_text(),
            () => format!("{} (at {})", self.interval_text(), percent(self.interval_level)),
        }
    }

    /// How it compares with its prediction, in a word. A size or a share is not faster or slower, but larger or smaller.
    pub fn against_word(&self) -> &'static str {
        let against = self.verdict.against_prediction;
        let is_amount = matches!(self.unit, Unit::Bytes | Unit::One);
        match (&self.prediction, against) {
            (Some(found), AgainstPrediction::Faster | AgainstPrediction::Slower) if is_amount => {
                if self.value > found.high { "larger" } else { "smaller" }
            }
            (_, AgainstPrediction::None) => AgainstPrediction::TooWide.word(),
            _ => against.word(),
        }
    }

    /// The figure in core cycles as a sentence shows it, where it has any.
    pub fn cycles_shown(&self) -> Option<Shown> {
        Some(Shown::measured(self.cycles?, self.cycles_interval95?, Unit::One))
    }
}

/// One result over another that is smaller, as far as both intervals support it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// As both are shown.
    pub value: f64,
    /// The least that the intervals allow.
    pub least: f64,
}

/// Which of two results is larger.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Order {
    /// The first, by this ratio.
    Larger(Ratio),
    /// The second, by this ratio.
    Smaller(Ratio),
    /// Neither: their intervals overlap.
    Alike,
    /// One of them has no interval, or was disturbed.
    Open,
}

impl Ratio {
    /// Of two results in one unit; none where the intervals do not support at least so much, or one of them is contaminated or
    /// has no interval of about 95 %.
    pub fn of(large: &Metric, small: &Metric, at_least: f64) -> Option<Ratio> {
        let known = is_comparable(large, small);
        let times = |metric: &Metric| (metric.shown().value, metric.interval95);
        let cycles = |metric: &Metric| metric.cycles.zip(metric.cycles_interval95);
        // Both times of a run have one clock, which moves both alike.
        let [large, small] = match (cycles(large), cycles(small)) {
            (Some(large), Some(small)) => [large, small],
            _ => [times(large), times(small)],
        };
        Ratio::between(large, small, at_least).filter(|_| known)
    }

    /// Of two numbers with their intervals; none where these do not support at least so much.
    pub fn between(large: (f64, [f64; 2]), small: (f64, [f64; 2]), at_least: f64) -> Option<Ratio> {
        let least = large.1[0] / small.1[1];
        // Intervals that touch show no difference.
        let apart = least.is_finite() && least >= at_least && large.1[0] > small.1[1];
        apart.then(|| Ratio { value: large.0 / small.0, least })
    }

    /// Two digits: each result of a ratio has its own interval.
    pub fn text(&self) -> String {
        times(self.value)
    }
}

impl Order {
    /// Of two results.
    pub fn of(one: &Metric, other: &Metric) -> Order {
        match (Ratio::of(one, other, 1.0), Ratio::of(other, one, 1.0)) {
            (Some(ratio), _) => Order::Larger(ratio),
            (_, Some(ratio)) => Order::Smaller(ratio),
            _ if is_comparable(one, other) => Order::Alike,
            _ => Order::Open,
        }
    }
}

fn is_comparable(one: &Metric, other: &Metric) -> bool {
    let is_known = |metric: &Metric| metric.has_level() && !metric.grade.has_foreign_part();
    one.unit == other.unit && is_known(one) && is_known(other)
}

/// A result times a factor, such as the faults of all small pages of a huge one.
pub fn scaled(metric: &Metric, times: f64) -> Metric {
    let interval = |interval: [f64; 2]| interval.map(|end| end * times);
    Metric {
        value: metric.value * times,
        interval95: interval(metric.interval95),
        cycles: metric.cycles.map(|cycles| cycles * times),
        cycles_interval95: metric.cycles_interval95.map(interval),
        ..metric.clone()
    }
}

/// A result outside of its predicted range, in words: `TITLE: slower than predicted, 31.8 µs against 19.0 µs (×1.7)`. Both
/// numbers have equally many digits.
pub fn against_prediction(title: &str, metric: &Metric) -> Option<String> {
    let (measured, predicted) = (metric.shown(), metric.prediction.as_ref()?);
    let predicted = measured.alike(predicted.value);
    let word = metric.against_word();
    Some(format!(
        "{title}: {word} than predicted, {measured} against {predicted} ({})",
        by_times(measured.value / predicted.value)
    ))
}

/// ` The ratio is 1.7.` behind a sentence on two results, where the first is larger beyond doubt; nothing where that is open.
pub fn ratio_sentence(large: &Metric, small: &Metric) -> String {
    Ratio::of(large, small, 1.0).map_or_else(String::new, |ratio| format!(" The ratio is {}.", ratio.text()))
}

/// `The difference (98 ns) is not resolved` of two results whose intervals overlap: it may be that, or none.
pub fn unresolved_difference(one: &Metric, other: &Metric) -> String {
    let difference = (one.shown().value - other.shown().value).abs();
    format!("The difference ({}) is not resolved", significant(difference, one.unit, 2))
}

/// ` (×1.7)` behind two results, where the first is larger beyond doubt; nothing where that is open.
pub fn in_brackets(large: &Metric, small: &Metric) -> String {
    Ratio::of(large, small, 1.0).map_or_else(String::new, |ratio| format!(" (×{})", ratio.text()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_that_overlap_show_no_order() {
        let ratio = |large, small, at_least| Ratio::between(large, small, at_least);
        assert_eq!(ratio((10.0, [9.0, 11.0]), (10.5, [10.0, 11.0]), 1.0), None);
        assert_eq!(ratio((10.0, [9.0, 11.0]), (8.0, [7.0, 9.0]), 1.0), None, "they touch");
        let found = ratio((10.0, [9.0, 11.0]), (5.0, [4.0, 6.0]), 1.0).unwrap();
        assert_eq!((found.value, found.least, found.text().as_str()), (2.0, 1.5, "2.0"));
        assert_eq!(ratio((10.0, [9.0, 11.0]), (5.0, [4.0, 6.0]), 2.0), None);
        assert_eq!(ratio((1.0, [1.0, 1.0]), (0.0, [0.0, 0.0]), 1.0), None, "nothing is so many times nothing");
    }
}
