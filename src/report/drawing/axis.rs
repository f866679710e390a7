//! Axes: their range, where their marks stand, and what is written there.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use crate::results::drawing_note::Scale;
use crate::results::quantity::Unit;
use crate::results::wording;

/// Largest over smallest value from which on a logarithmic axis is chosen.
const DECADE: f64 = 10.0;
/// Largest over smallest value from which on an axis next to a linear one is logarithmic: there a straight line says more.
const DECADES_ALONE: f64 = 1000.0;

/// An axis in the coordinates of the drawing: logarithms where it is logarithmic.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlotAxis {
    pub label: String,
    pub unit: Unit,
    pub logarithmic: bool,
    pub low: f64,
    pub high: f64,
    /// Places of the marks.
    pub marks: Vec<f64>,
}

impl PlotAxis {
    /// An axis for values. A linear one begins at zero where nothing is below, so that lengths can be compared.
    pub(super) fn over(
        label: &str,
        unit: Unit,
        values: impl Iterator<Item = f64>,
        scale: Scale,
        marks: usize,
    ) -> PlotAxis {
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let positive = values.iter().copied().filter(|value| *value > 0.0);
        // What is not positive has no place on a logarithmic axis, and stands at its end.
        let low = match scale {
            Scale::Logarithmic if values.iter().any(|value| *value > 0.0) => positive.fold(f64::INFINITY, f64::min),
            _ => values.iter().copied().fold(f64::INFINITY, f64::min),
        };
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let logarithmic = match scale {
            Scale::Linear => false,
            Scale::Logarithmic => low > 0.0,
            Scale::Automatic => low > 0.0 && high / low > DECADE,
        };
        let mut axis = PlotAxis { label: label.to_owned(), unit, logarithmic, low: 0.0, high: 1.0, marks: Vec::new() };
        let doubles = |value: f64| unit == Unit::One && value.log2().fract() == 0.0;
        if logarithmic && values.iter().all(|&value| doubles(value)) {
            // Counts that double are marked where they were measured.
            axis.over_decades(low, high, marks.max(2));
            axis.marks = powers_of_two(1, low, high).iter().map(|mark| mark.log10()).collect();
        } else if logarithmic {
            axis.over_decades(low, high, marks.max(2));
        } else if unit == Unit::One && low >= 1.0 && high > low && values.iter().all(|value| value.fract() == 0.0) {
            axis.over_counts(low, high, marks.max(2));
        } else {
            axis.over_range(low, high, marks.max(2));
        }
        axis
    }

    /// The axis next to another one. Where the other is linear, only a very wide range makes this axis logarithmic.
    pub(super) fn beside(
        other: &PlotAxis,
        label: &str,
        unit: Unit,
        values: impl Iterator<Item = f64>,
        scale: Scale,
        marks: usize,
    ) -> PlotAxis {
        let values: Vec<f64> = values.collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        let alone = scale == Scale::Automatic && !other.logarithmic && high < low * DECADES_ALONE;
        PlotAxis::over(label, unit, values.into_iter(), if alone { Scale::Linear } else { scale }, marks)
    }

    /// Where a value stands.
    pub(super) fn place(&self, value: f64) -> f64 {
        let place = if self.logarithmic { value.max(f64::MIN_POSITIVE).log10() } else { value };
        place.clamp(self.low, self.high)
    }

    /// What is written at a place.
    pub(super) fn text(&self, place: f64) -> String {
        let value = if self.logarithmic { 10_f64.powf(place) } else { place };
        // A power that was taken and drawn back is the number it was, not its neighbour.
        let rounded = match self.unit {
            _ if value == 0.0 => 0.0,
            Unit::Bytes => value.round(),
            _ => round_to(value, 6),
        };
        wording::mark(rounded, self.unit)
    }

    /// Counts from the least on: a drawing over threads has nothing at 0.
    fn over_counts(&mut self, low: f64, high: f64, most: usize) {
        let margin = (high - low) * 0.05;
        let step = self.step((high - low) / most as f64).max(1.0);
        (self.low, self.high) = (low - margin, high + margin);
        self.marks =
            ((low / step).ceil() as i64..=(high / step).floor() as i64).map(|mark| mark as f64 * step).collect();
    }

    fn over_range(&mut self, low: f64, high: f64, most: usize) {
        let low = if low > 0.0 { 0.0 } else { low };
        let high = if high > low { high + (high - low) * 0.05 } else { low + 1.0 };
        let step = self.step((high - low) / most as f64);
        (self.low, self.high) = (low, high);
        let first = (low / step).ceil() as i64;
        let last = (high / step).floor() as i64;
        self.marks = (first..=last).map(|number| number as f64 * step).collect();
    }

    /// The next round number: 1, 2 or 5 times a power of ten, or a power of two for sizes; whole numbers for counts.
    fn step(&self, least: f64) -> f64 {
        let least = least.max(f64::MIN_POSITIVE);
        if self.unit == Unit::Bytes {
            return 2_f64.powf(least.log2().ceil().max(0.0));
        }
        let power = 10_f64.powf(least.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * power).find(|step| *step >= least * 0.999_999);
        let step = step.unwrap_or(power * 10.0);
        // Counts and arguments are whole; only a mark at every one of them, or at every second, is read well.
        if self.unit == Unit::One && step > 0.3 { step.max(1.0) } else { step }
    }

    fn over_decades(&mut self, low: f64, high: f64, most: usize) {
        let margin = (high / low).log10().max(0.3) * 0.03;
        (self.low, self.high) = (low.log10() - margin, high.log10() + margin);
        let candidates: Vec<Vec<f64>> = if self.unit == Unit::Bytes {
            [1, 2, 3, 4, 6].into_iter().map(|step| powers_of_two(step, low, high)).collect()
        } else {
            vec![
                multiples(&[1.0, 2.0, 3.0, 5.0, 7.0], 1, low, high),
                multiples(&[1.0, 2.0, 5.0], 1, low, high),
                multiples(&[1.0, 3.0], 1, low, high),
                multiples(&[1.0], 1, low, high),
                multiples(&[1.0], 2, low, high),
                multiples(&[1.0], 3, low, high),
            ]
        };
        // Marks that stand unevenly must not be so close that their words meet.
        let closest = (high / low).log10() / most as f64 * 0.8;
        let apart = |marks: &[f64]| marks.windows(2).all(|pair| (pair[1] / pair[0]).log10() >= closest);
        let marks = candidates.iter().find(|marks| (3..=most).contains(&marks.len()) && apart(marks)).cloned();
        // Within a part of a decade no such multiple may lie: then marks stand at even distances in value.
        let marks = marks.unwrap_or_else(|| {
            let step = self.step((high - low) / most as f64);
            let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
            let even: Vec<f64> = (first.max(1)..=last).map(|number| number as f64 * step).collect();
            if high / low < DECADE { even } else { candidates.last().cloned().unwrap_or_default() }
        });
        self.marks = marks.iter().map(|mark| mark.log10()).collect();
    }
}

impl Ranged for PlotAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, limit: (i32, i32)) -> i32 {
        let share = (place - self.low) / (self.high - self.low);
        (f64::from(limit.0) + share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for PlotAxis {
    fn format(place: &f64) -> String {
        place.to_string()
    }

    fn format_ext(&self, place: &f64) -> String {
        self.text(*place)
    }
}

fn round_to(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits - 1 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

fn powers_of_two(step: i32, low: f64, high: f64) -> Vec<f64> {
    let first = low.log2().ceil() as i32;
    (0..200)
        .map(|number| (first.div_euclid(step) + number) * step)
        .map(|exponent| 2_f64.powi(exponent))
        .skip_while(|mark| *mark < low * 0.999)
        .take_while(|mark| *mark <= high * 1.001)
        .collect()
}

fn multiples(of: &[f64], every: i32, low: f64, high: f64) -> Vec<f64> {
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    (first..=last)
        .filter(|exponent| exponent.rem_euclid(every) == 0)
        .flat_map(|exponent| of.iter().map(move |times| times * 10_f64.powi(exponent)))
        .filter(|mark| (low * 0.999..=high * 1.001).contains(mark))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &PlotAxis) -> Vec<String> {
        axis.marks.iter().map(|&mark| axis.text(mark)).collect()
    }

    #[test]
    fn a_wide_range_of_sizes_has_powers_of_two() {
        let axis =
            PlotAxis::over("size", Unit::Bytes, [4096.0, 256.0 * 1024.0 * 1024.0].into_iter(), Scale::Automatic, 8);
        assert!(axis.logarithmic);
        let texts = texts(&axis);
        assert!(texts.contains(&"4 KiB".to_owned()) || texts.contains(&"16 KiB".to_owned()), "{texts:?}");
        assert!((4..=8).contains(&texts.len()), "{texts:?}");
    }

    #[test]
    fn counts_have_whole_marks() {
        let axis = PlotAxis::over("arguments", Unit::One, (0..8).map(f64::from), Scale::Automatic, 8);
        assert!(!axis.logarithmic);
        assert_eq!(texts(&axis), ["0", "1", "2", "3", "4", "5", "6", "7"]);
        let threads = PlotAxis::over("threads", Unit::One, [1.0, 2.0, 3.0].into_iter(), Scale::Automatic, 8);
        assert!(threads.low > 0.5, "{threads:?}");
        assert_eq!(texts(&threads), ["1", "2", "3"]);
        let two = PlotAxis::over("threads", Unit::One, [1.0, 2.0].into_iter(), Scale::Automatic, 8);
        assert_eq!(texts(&two), ["1", "2"]);
    }

    #[test]
    fn a_linear_axis_of_times_begins_at_zero() {
        let axis = PlotAxis::over("time", Unit::Nanoseconds, [11.0, 29.0].into_iter(), Scale::Automatic, 8);
        assert_eq!((axis.low, axis.logarithmic), (0.0, false));
        assert_eq!(texts(&axis), ["0 ns", "5 ns", "10 ns", "15 ns", "20 ns", "25 ns", "30 ns"]);
    }

    #[test]
    fn decades_of_time_change_their_unit() {
        let axis = PlotAxis::over("time", Unit::Nanoseconds, [5.0, 4e6].into_iter(), Scale::Automatic, 8);
        let texts = texts(&axis);
        assert!(texts.contains(&"1 µs".to_owned()) && texts.contains(&"1 ms".to_owned()), "{texts:?}");
    }

    #[test]
    fn a_part_of_a_decade_has_marks_too() {
        for ends in [[3.6e9, 4.9e9], [1.0, 1.4], [40.0, 70.0], [1000.0, 3000.0]] {
            let axis = PlotAxis::over("", Unit::BytesPerSecond, ends.into_iter(), Scale::Logarithmic, 6);
            assert!((2..=7).contains(&axis.marks.len()), "{ends:?}: {:?}", texts(&axis));
        }
    }

    #[test]
    fn nothing_and_nonsense_have_an_axis_too() {
        for values in [vec![], vec![f64::NAN], vec![0.0], vec![-3.0, 5.0], vec![7.0, 7.0]] {
            for scale in [Scale::Automatic, Scale::Linear, Scale::Logarithmic] {
                let axis = PlotAxis::over("", Unit::One, values.iter().copied(), scale, 8);
                assert!(axis.low < axis.high && axis.marks.len() < 20, "{values:?} {axis:?}");
            }
        }
    }
}
