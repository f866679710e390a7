//! Units, labels and the typed quantities that cross module borders (no bare `f64` does).

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Unit of a logged series or a published metric. The serialised form is the unit symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Unit {
    /// Time in nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Frequency in hertz.
    #[serde(rename = "Hz")]
    Hertz,
    /// Size in bytes.
    #[serde(rename = "B")]
    Bytes,
    /// Rate in bytes per second.
    #[serde(rename = "B/s")]
    BytesPerSecond,
    /// Core clock cycles: what the core counts, not what the time-stamp counter counts.
    #[serde(rename = "cycles")]
    Cycles,
    /// Ticks of the run's clock (time-stamp counter, or nanoseconds of the fallback clock).
    #[serde(rename = "ticks")]
    Ticks,
    /// A plain ratio or count.
    #[serde(rename = "1")]
    One,
}

impl Unit {
    /// All of them.
    pub const ALL: [Unit; 7] =
        [Unit::Nanoseconds, Unit::Hertz, Unit::Bytes, Unit::BytesPerSecond, Unit::Cycles, Unit::Ticks, Unit::One];

    /// The symbol that stands behind a number.
    pub fn symbol(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::Hertz => "Hz",
            Unit::Bytes => "B",
            Unit::BytesPerSecond => "B/s",
            Unit::Cycles => "cycles",
            Unit::Ticks => "ticks",
            Unit::One => "1",
        }
    }

    /// The unit that people write, and by what a number in it is multiplied: `µs`, `GB/s`, `Mbit/s`. Small and large letters are the
    /// same, except that a small `b` alone is a bit and that a large `B` is a byte.
    pub fn read(text: &str) -> Option<(Unit, f64)> {
        let text = text.trim();
        let whole = |unit| Some((unit, 1.0));
        match text.to_lowercase().as_str() {
            "ns" | "nanoseconds" => return whole(Unit::Nanoseconds),
            "us" | "µs" | "μs" | "microseconds" => return Some((Unit::Nanoseconds, 1e3)),
            "ms" | "milliseconds" => return Some((Unit::Nanoseconds, 1e6)),
            "s" | "sec" | "seconds" => return Some((Unit::Nanoseconds, 1e9)),
            "cycles" | "cycle" => return whole(Unit::Cycles),
            "ticks" | "tick" => return whole(Unit::Ticks),
            "1" => return whole(Unit::One),
            _ => {}
        }
        let rate = ["/s", "/sec", "ps"].iter().find_map(|end| text.strip_suffix(end));
        let (unit, amount) = match rate {
            Some(amount) => (Unit::BytesPerSecond, amount),
            None if text.to_lowercase().ends_with("hz") => (Unit::Hertz, text),
            None => (Unit::Bytes, text),
        };
        let bits = ["bits", "bit", "b"].into_iter().map(|end| (end, 0.125));
        let bytes = ["bytes", "byte", "B"].into_iter().map(|end| (end, 1.0));
        let hertz = ["Hz", "hz", "HZ"].into_iter().map(|end| (end, 1.0));
        let ends: Vec<(&str, f64)> = if unit == Unit::Hertz { hertz.collect() } else { bytes.chain(bits).collect() };
        ends.into_iter().find_map(|(end, part)| {
            let times = match amount.strip_suffix(end)?.to_lowercase().as_str() {
                "" => 1.0,
                "k" => 1e3,
                "m" => 1e6,
                "g" => 1e9,
                "t" => 1e12,
                "ki" => 1024.0,
                "mi" => 1024.0 * 1024.0,
                "gi" => 1024.0 * 1024.0 * 1024.0,
                _ => return None,
            };
            Some((unit, times * part))
        })
    }

    /// Which direction is better for a user: costs fall, rates and capacities rise.
    pub fn better(self) -> Better {
        match self {
            Unit::Hertz | Unit::Bytes | Unit::BytesPerSecond => Better::Higher,
            Unit::Nanoseconds | Unit::Cycles | Unit::Ticks | Unit::One => Better::Lower,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.symbol())
    }
}

/// Which direction of a metric is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Smaller is better (times, costs).
    Lower,
    /// Larger is better (rates, capacities, frequencies).
    Higher,
}

impl Better {
    /// A relative change as one for the worse: above 0 where there is more of a cost or less of a rate.
    pub fn worsening(self, change: f64) -> f64 {
        match self {
            Better::Lower => change,
            Better::Higher => 1.0 / (1.0 + change) - 1.0,
        }
    }
}

/// Labels that distinguish the figures of one metric, such as `args=3 code=registers`; ordered by key.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Labels(BTreeMap<String, String>);

/// The label that states how much memory a figure of main memory holds for. Runs with more time use more.
pub const FOOTPRINT: &str = "footprint";

/// The label that states how many directories deep the path is that a figure holds for.
pub const PATH_DEPTH: &str = "path_depth";

/// The label that states how far apart two CPUs were, by the time of a cache line between them: near or far. Only figures of runs
/// that saw both have it.
pub const DISTANCE: &str = "distance";

/// Labels that state a condition: a figure that lacks one may be compared with one that has it.
const CONDITIONS: [&str; 3] = [FOOTPRINT, PATH_DEPTH, DISTANCE];

impl Labels {
    /// No labels: the metric has one figure only.
    pub fn none() -> Self {
        Labels::default()
    }

    /// Labels from `(key, value)` pairs; a later pair replaces an earlier one with the same key.
    pub fn of<const N: usize>(pairs: [(&str, &str); N]) -> Self {
        Labels(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    /// Labels from their text form. A word that is no pair belongs to the value before it, because a value can have blanks. None
    /// where the first word is no pair, or where a key has two values.
    pub fn parse(text: &str) -> Option<Self> {
        let mut pairs: Vec<(&str, String)> = Vec::new();
        for word in text.split(' ').filter(|_| !text.is_empty()) {
            match (word.split_once('='), pairs.last_mut()) {
                (Some((key, value)), _) => pairs.push((key, value.to_owned())),
                (None, Some((_, value))) => *value += &format!(" {word}"),
                (None, None) => return None,
            }
        }
        let count = pairs.len();
        let labels: BTreeMap<String, String> = pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        (labels.len() == count).then_some(Labels(labels))
    }

    /// These labels and one more.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl fmt::Display) -> Self {
        self.0.insert(key.to_owned(), value.to_string());
        self
    }

    /// The value of one label.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// True when every given label is present with the given value.
    pub fn includes(&self, wanted: &Labels) -> bool {
        wanted.0.iter().all(|(key, value)| self.get(key) == Some(value))
    }

    /// The labels but one.
    #[must_use]
    pub fn without(&self, key: &str) -> Labels {
        Labels(
            self.0
                .iter()
                .filter(|(known, _)| known.as_str() != key)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        )
    }

    /// The labels that distinguish figures.
    #[must_use]
    pub fn without_conditions(&self) -> Labels {
        CONDITIONS.iter().fold(self.clone(), |labels, condition| labels.without(condition))
    }

    /// True when both name the same figure of a run: a condition that only one of them states does not distinguish figures.
    pub fn same_figure(&self, other: &Labels) -> bool {
        let told_apart = |one: &Labels, other: &Labels| {
            one.pairs().all(|(key, value)| match other.get(key) {
                Some(found) => found == value,
                None => Labels::is_condition(key),
            })
        };
        told_apart(self, other) && told_apart(other, self)
    }

    /// True when a label states a condition and names no other figure.
    pub fn is_condition(key: &str) -> bool {
        CONDITIONS.contains(&key)
    }

    /// All pairs, ordered by key.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// True when there is no label.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (key, value)) in self.pairs().enumerate() {
            if position > 0 {
                out.write_str(" ")?;
            }
            write!(out, "{key}={value}")?;
        }
        Ok(())
    }
}

/// Time in nanoseconds; may be a difference, so it is signed.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Nanoseconds(pub f64);

/// Core clock cycles; may be a difference, so it is signed.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct CoreCycles(pub f64);

/// Frequency in hertz; always positive.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Hertz(pub f64);

impl Hertz {
    /// Duration of one period.
    pub fn period(self) -> Nanoseconds {
        Nanoseconds(1e9 / self.0)
    }
}

impl CoreCycles {
    /// The time these cycles take at a core frequency.
    pub fn at(self, core: Hertz) -> Nanoseconds {
        Nanoseconds(self.0 * core.period().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_ordered_by_key_and_print_as_pairs() {
        let labels = Labels::of([("code", "registers"), ("args", "3")]);
        assert_eq!(labels.to_string(), "args=3 code=registers");
        assert!(labels.includes(&Labels::of([("args", "3")])));
        assert!(!labels.includes(&Labels::of([("args", "4")])));
    }

    #[test]
    fn labels_come_back_from_their_text() {
        for labels in
            [Labels::none(), Labels::of([("code", "registers"), ("args", "3")]), Labels::of([("a", "b c"), ("d", "")])]
        {
            assert_eq!(Labels::parse(&labels.to_string()), Some(labels));
        }
        assert_eq!(Labels::parse("word"), None);
        assert_eq!(Labels::parse("word a=b"), None);
        assert_eq!(Labels::parse("a=1 a=2"), None, "a key has one value");
    }

    #[test]
    fn cycles_become_time_only_through_a_frequency() {
        assert_eq!(CoreCycles(300.0).at(Hertz(3e9)), Nanoseconds(100.0));
    }

    #[test]
    fn units_are_read_as_people_write_them() {
        for (text, unit, factor) in [
            ("ns", Unit::Nanoseconds, 1.0),
            ("µs", Unit::Nanoseconds, 1e3),
            ("MS", Unit::Nanoseconds, 1e6),
            ("Mb/s", Unit::BytesPerSecond, 125e3),
            ("Mbps", Unit::BytesPerSecond, 125e3),
            ("Gbit/s", Unit::BytesPerSecond, 125e6),
            ("GB/s", Unit::BytesPerSecond, 1e9),
            ("MiB/s", Unit::BytesPerSecond, 1_048_576.0),
            ("KiB", Unit::Bytes, 1024.0),
            ("kB", Unit::Bytes, 1e3),
            ("bytes", Unit::Bytes, 1.0),
            ("GHz", Unit::Hertz, 1e9),
            ("cycles", Unit::Cycles, 1.0),
        ] {
            let (found, times) = Unit::read(text).unwrap();
            assert!(found == unit && (times / factor - 1.0).abs() < 1e-12, "{text}: {found} times {times}");
        }
        for wrong in ["", "parsec", "ns/B", "QB", "B/h"] {
            assert_eq!(Unit::read(wrong), None, "{wrong}");
        }
        for unit in [Unit::Nanoseconds, Unit::Hertz, Unit::Bytes, Unit::BytesPerSecond, Unit::Cycles, Unit::One] {
            assert_eq!(Unit::read(unit.symbol()).map(|(found, _)| found), Some(unit));
        }
    }

    #[test]
    fn every_unit_serialises_as_its_symbol() {
        for unit in Unit::ALL {
            assert_eq!(serde_json::to_value(unit).unwrap(), unit.symbol());
        }
    }
}
