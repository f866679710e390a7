//! The numbers of a gate: what was measured, and the bounds that it is compared with. The sentence about them is made here
//! alone, for one gate and for several that compare the same.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantity::Unit;
use super::wording::{percent, quantity};

/// Unit of the numbers of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GateUnit {
    /// A part of a whole, printed as a percentage.
    #[serde(rename = "share")]
    Share,
    /// A number in a unit of figures; counts and ratios are in `1`.
    #[serde(untagged)]
    In(Unit),
}

impl GateUnit {
    /// A number with its unit: four digits at most, without zeros at the end.
    pub fn text(self, value: f64) -> String {
        let text = match self {
            GateUnit::Share => percent(value),
            GateUnit::In(Unit::One) if value.abs() < 1e12 && value.fract() == 0.0 => return format!("{value}"),
            GateUnit::In(unit) => quantity(value, unit),
        };
        let (digits, unit) = text.split_once(' ').map_or((text.as_str(), None), |(digits, unit)| (digits, Some(unit)));
        let is_fraction = digits.contains('.') && !digits.contains('e');
        let digits = if is_fraction { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
        match unit {
            Some("cycles") if digits == "1" => "1 cycle".to_owned(),
            Some(unit) => format!("{digits} {unit}"),
            None => digits.to_owned(),
        }
    }

    /// The least and the greatest of some numbers, or the one that they all are.
    fn range(self, values: impl Iterator<Item = f64> + Clone) -> String {
        let least = self.text(values.clone().fold(f64::INFINITY, f64::min));
        let most = self.text(values.fold(f64::NEG_INFINITY, f64::max));
        let without_unit = |text: &str| text.split_once(' ').map(|(number, unit)| (number.to_owned(), unit.to_owned()));
        match (without_unit(&least), without_unit(&most)) {
            _ if least == most => least,
            (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} to {most}"),
            _ => format!("{least} to {most}"),
        }
    }
}

/// On which side of its bound a number must lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GateRelation {
    /// The bound or above.
    #[serde(rename = "at least")]
    AtLeast,
    /// The bound or below.
    #[serde(rename = "at most")]
    AtMost,
    /// Above the bound.
    #[serde(rename = "more than")]
    MoreThan,
    /// Below the bound.
    #[serde(rename = "less than")]
    LessThan,
    /// From the first bound to the second.
    #[serde(rename = "between")]
    Between,
}

impl GateRelation {
    /// Whether a number lies there. What is not a number lies nowhere.
    pub fn holds(self, value: f64, bounds: &[f64]) -> bool {
        let (first, last) = (bounds.first().copied().unwrap_or(f64::NAN), bounds.last().copied().unwrap_or(f64::NAN));
        match self {
            GateRelation::AtLeast => value >= first,
            GateRelation::AtMost => value <= first,
            GateRelation::MoreThan => value > first,
            GateRelation::LessThan => value < first,
            GateRelation::Between => value >= first && value <= last,
        }
    }

    fn words(self) -> &'static str {
        match self {
            GateRelation::AtLeast => "at least",
            GateRelation::AtMost => "at most",
            GateRelation::MoreThan => "more than",
            GateRelation::LessThan => "less than",
            GateRelation::Between => "between",
        }
    }
}

/// A number with its bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateNumbers {
    /// What was measured, in words; `{}` stands where the value does.
    pub what: String,
    /// The number, in `unit`.
    pub value: f64,
    /// How it must stand to the bounds.
    pub relation: GateRelation,
    /// The bound, in `unit`; two for `between`.
    pub bounds: Vec<f64>,
    /// Unit of value and bounds.
    pub unit: GateUnit,
    /// Where the bound is from, or what else there is to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl GateNumbers {
    /// True when all numbers are some: only such numbers can be written down.
    pub fn is_finite(&self) -> bool {
        self.bounds.iter().chain([&self.value]).all(|number| number.is_finite())
    }

    /// True when both compare the same, whatever their numbers are.
    pub fn is_like(&self, other: &GateNumbers) -> bool {
        self.what == other.what && self.relation == other.relation && self.unit == other.unit
    }

    /// The number and what it had to be: `ratio 2.5 (must be at most 2)`.
    pub fn demand(&self) -> String {
        let bounds: Vec<String> = self.bounds.iter().map(|bound| self.unit.text(*bound)).collect();
        let measured = self.what.replace("{}", &self.unit.text(self.value));
        format!("{measured} (must be {} {})", self.relation.words(), bounds.join(" and "))
    }

    /// One sentence about numbers that are compared alike: each number, or the least and the greatest; the reason, if it is the
    /// same for all.
    pub fn sentence(all: &[&GateNumbers]) -> String {
        let Some(first) = all.first() else { return String::new() };
        let bound = |place: usize| first.unit.range(all.iter().filter_map(move |one| one.bounds.get(place).copied()));
        let bounds: Vec<String> = (0..first.bounds.len()).map(bound).collect();
        let value = first.unit.range(all.iter().map(|one| one.value));
        let measured = first.what.replace("{}", &value);
        let shared = first.reason.as_ref().filter(|_| all.iter().all(|one| one.reason == first.reason));
        let reason = shared.map_or_else(String::new, |reason| format!(": {reason}"));
        format!("{measured}, {} {}{reason}", first.relation.words(), bounds.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(value: f64, most: f64) -> GateNumbers {
        GateNumbers {
            what: "ratio {}".to_owned(),
            value,
            relation: GateRelation::AtMost,
            bounds: vec![most],
            unit: GateUnit::In(Unit::One),
            reason: None,
        }
    }

    #[test]
    fn numbers_have_no_zeros_at_their_end() {
        assert_eq!(GateUnit::Share.text(0.05), "5 %");
        assert_eq!(GateUnit::Share.text(0.0002), "0.02 %");
        assert_eq!(GateUnit::Share.text(0.2), "20 %");
        assert_eq!(GateUnit::In(Unit::Nanoseconds).text(35.0), "35 ns");
        assert_eq!(GateUnit::In(Unit::Nanoseconds).text(200.0), "200 ns");
        assert_eq!(GateUnit::In(Unit::One).text(1_204_000.0), "1204000");
        assert_eq!(GateUnit::In(Unit::One).text(1.05), "1.05");
        assert_eq!(GateUnit::In(Unit::One).text(f64::INFINITY), "no value");
    }

    #[test]
    fn what_is_alike_is_told_once_with_the_least_and_the_greatest() {
        let all = [ratio(1.1, 2.0), ratio(1.9, 2.0), ratio(1.025, 2.0)];
        assert!(all[0].is_like(&all[1]));
        assert!(!all[0].is_like(&GateNumbers { relation: GateRelation::AtLeast, ..ratio(1.1, 2.0) }));
        assert_eq!(GateNumbers::sentence(&all.iter().collect::<Vec<_>>()), "ratio 1.025 to 1.9, at most 2");
        assert_eq!(GateNumbers::sentence(&[&ratio(1.0, 2.0), &ratio(1.0, 3.0)]), "ratio 1, at most 2 to 3");
        assert_eq!(ratio(2.5, 2.0).demand(), "ratio 2.5 (must be at most 2)");
        let share = |value: f64| GateNumbers { unit: GateUnit::Share, ..ratio(value, 0.05) };
        assert_eq!(GateNumbers::sentence(&[&share(0.01), &share(0.02)]), "ratio 1 to 2 %, at most 5 %");
    }

    #[test]
    fn a_reason_is_told_where_all_have_it() {
        let because = |reason: &str| GateNumbers { reason: Some(reason.to_owned()), ..ratio(1.0, 2.0) };
        assert_eq!(
            GateNumbers::sentence(&[&because("it is so"), &because("it is so")]),
            "ratio 1, at most 2: it is so"
        );
        assert_eq!(GateNumbers::sentence(&[&because("it is so"), &because("it is not")]), "ratio 1, at most 2");
    }

    #[test]
    fn scales_are_written_by_their_symbols() {
        for (scale, text) in
            [(GateUnit::Share, "share"), (GateUnit::In(Unit::Nanoseconds), "ns"), (GateUnit::In(Unit::One), "1")]
        {
            assert_eq!(serde_json::to_value(scale).unwrap(), text);
            assert_eq!(serde_json::from_value::<GateUnit>(text.into()).unwrap(), scale);
        }
    }
}
