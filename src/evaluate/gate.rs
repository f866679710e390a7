//! How a gate is made: by a rule, from what was measured and a bound. Rules are declared once, next to the code that applies
//! them, by `rules!`; docs/reference.md and `sysdyno explain --gates` list them.

use crate::results::gate_numbers::{GateNumbers, GateRelation, GateUnit};
use crate::results::quantity::Unit;
use crate::results::verdict::{Gate, RulePath, Severity};

use super::estimate::Estimate;

/// One rule for figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// Its path in the sources.
    pub path: &'static str,
    /// Identifier, such as `G8`; several rules of one kind share it.
    pub id: &'static str,
    /// What a failure does.
    pub severity: Severity,
    /// Figures that it is applied to.
    pub figures: &'static str,
    /// What it demands; each `{}` stands for the next bound.
    pub demands: &'static str,
    /// Its constants.
    pub bounds: &'static [Number],
}

impl Rule {
    /// What it demands, with its constants.
    pub fn demand(&self) -> String {
        self.bounds.iter().fold(self.demands.to_owned(), |text, bound| text.replacen("{}", &bound.text(), 1))
    }
}

/// Declares the rules of a file: `NAME: "G8" Hard "figures", "what it demands, at least {}", cycles(BOUND);`.
macro_rules! rules {
    ($($name:ident: $id:literal $severity:ident $figures:literal, $demands:literal $(, $scale:ident($bound:expr))*;)+) => {
        $(pub(crate) static $name: $crate::evaluate::gate::Rule = $crate::evaluate::gate::Rule {
            path: concat!(module_path!(), "::", stringify!($name)),
            id: $id,
            severity: $crate::results::verdict::Severity::$severity,
            figures: $figures,
            demands: $demands,
            bounds: &[$($crate::evaluate::gate::Number::$scale($bound)),*],
        };)+
        /// The rules of this file.
        pub const RULES: &[&$crate::evaluate::gate::Rule] = &[$(&$name),+];
    };
}

pub(crate) use rules;

/// A number that knows how it is printed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Number {
    value: f64,
    scale: GateUnit,
}

impl Number {
    /// A number in a unit of figures.
    pub const fn of(value: f64, unit: Unit) -> Self {
        Number { value, scale: GateUnit::In(unit) }
    }

    /// A count or a ratio.
    pub const fn plain(value: f64) -> Self {
        Number::of(value, Unit::One)
    }

    /// A part of a whole.
    pub const fn share(value: f64) -> Self {
        Number { value, scale: GateUnit::Share }
    }

    /// Nanoseconds.
    pub const fn time(value: f64) -> Self {
        Number::of(value, Unit::Nanoseconds)
    }

    /// Core cycles.
    pub const fn cycles(value: f64) -> Self {
        Number::of(value, Unit::Cycles)
    }

    /// Bytes.
    pub const fn bytes(value: f64) -> Self {
        Number::of(value, Unit::Bytes)
    }

    /// Bytes per second.
    pub const fn rate(value: f64) -> Self {
        Number::of(value, Unit::BytesPerSecond)
    }

    /// Hertz.
    pub const fn hertz(value: f64) -> Self {
        Number::of(value, Unit::Hertz)
    }

    /// This number as what was measured; `{}` in the words stands where the number does.
    pub fn named(self, what: impl Into<String>) -> Measured {
        Measured { what: what.into(), number: self }
    }

    /// The number with its unit.
    pub fn text(self) -> String {
        self.scale.text(self.value)
    }
}

/// A number and what it is, in words.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    what: String,
    number: Number,
}

impl Estimate {
    /// The figure as what was measured; `{}` in the words stands where the number does.
    pub fn named(&self, what: impl Into<String>) -> Measured {
        Number::of(self.value, self.unit).named(what)
    }
}

impl Gate {
    /// A rule that compares no number with a bound: the sentence is its evidence.
    pub fn holds(rule: &Rule, pass: bool, sentence: impl Into<String>) -> Self {
        let evidence = sentence.into();
        Gate {
            id: rule.id.to_owned(),
            pass,
            severity: rule.severity,
            evidence,
            numbers: None,
            rule: RulePath(rule.path),
        }
    }

    /// The number is the bound or above.
    pub fn at_least(rule: &Rule, measured: Measured, bound: f64) -> Self {
        Self::compare(rule, measured, GateRelation::AtLeast, vec![bound])
    }

    /// The number is the bound or below.
    pub fn at_most(rule: &Rule, measured: Measured, bound: f64) -> Self {
        Self::compare(rule, measured, GateRelation::AtMost, vec![bound])
    }

    /// The number is above the bound.
    pub fn more_than(rule: &Rule, measured: Measured, bound: f64) -> Self {
        Self::compare(rule, measured, GateRelation::MoreThan, vec![bound])
    }

    /// The number is below the bound.
    pub fn less_than(rule: &Rule, measured: Measured, bound: f64) -> Self {
        Self::compare(rule, measured, GateRelation::LessThan, vec![bound])
    }

    /// The number lies between the bounds, or is one of them.
    pub fn between(rule: &Rule, measured: Measured, least: f64, most: f64) -> Self {
        Self::compare(rule, measured, GateRelation::Between, vec![least, most])
    }

    /// The number is the expected one within a share of it.
    pub fn near(rule: &Rule, measured: Measured, expected: f64, tolerance: f64) -> Self {
        let (value, scale) = (measured.number.value, measured.number.scale);
        let bounds = [expected * (1.0 - tolerance), expected * (1.0 + tolerance)];
        let mut gate = Self::between(rule, measured, bounds[0], bounds[1]).because(format!(
            "within {} of {}",
            GateUnit::Share.text(tolerance),
            scale.text(expected)
        ));
        gate.pass = (value / expected - 1.0).abs() <= tolerance;
        gate
    }

    /// At most a share of all are so; the reason says how many of how many.
    pub fn few(rule: &Rule, what: &str, count: f64, all: f64, most: f64) -> Self {
        let share = Number::share(count / all.max(1.0)).named(what);
        Self::at_most(rule, share, most).because(format!("{count} of {all}"))
    }

    /// The rule demands both. The numbers are those of the first, unless the other alone fails.
    #[must_use]
    pub fn and(mut self, other: Gate) -> Self {
        if self.pass && !other.pass {
            self.numbers = other.numbers;
        }
        self.pass &= other.pass;
        self.evidence += &format!("; {}", other.evidence);
        self
    }

    /// Where the bound is from, or what else there is to know.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        let said = self.numbers.as_ref().is_some_and(|numbers| numbers.reason.is_some());
        self.evidence += &format!("{}{reason}", if said { ", " } else { ": " });
        if let Some(numbers) = &mut self.numbers {
            let before = numbers.reason.take().map_or_else(String::new, |before| format!("{before}, "));
            numbers.reason = Some(before + &reason);
        }
        self
    }

    fn compare(rule: &Rule, measured: Measured, relation: GateRelation, bounds: Vec<f64>) -> Self {
        let Measured { what, number: Number { value, scale: unit } } = measured;
        let pass = relation.holds(value, &bounds);
        let what = if what.contains("{}") { what } else { format!("{what} {{}}") };
        let numbers = GateNumbers { what, value, relation, bounds, unit, reason: None };
        let sentence = if pass { GateNumbers::sentence(&[&numbers]) } else { numbers.demand() };
        let mut gate = Gate::holds(rule, pass, sentence);
        gate.numbers = Some(numbers).filter(GateNumbers::is_finite);
        gate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    rules! {
        NARROW: "G0" Noisy "every figure", "a width of at most {}, or {}", share(0.05), time(35.0);
    }

    #[test]
    fn a_rule_says_its_constants() {
        assert_eq!(RULES[0].demand(), "a width of at most 5 %, or 35 ns");
    }

    #[test]
    fn the_sentence_has_the_number_where_the_words_want_it() {
        let gate = Gate::at_most(&NARROW, Number::share(0.031).named("width {} of the value"), 0.05);
        assert!(gate.pass);
        assert_eq!(gate.evidence, "width 3.1 % of the value, at most 5 %");
        let gate =
            Gate::at_least(&NARROW, Number::time(0.5).named("a load takes"), 35.0).because("no memory is faster");
        assert!(!gate.pass);
        assert_eq!(gate.evidence, "a load takes 0.5 ns (must be at least 35 ns): no memory is faster");
    }

    #[test]
    fn near_is_a_share_of_what_was_expected() {
        let near = |value: f64| Gate::near(&NARROW, Number::plain(value).named("ratio"), 2.0, 0.1);
        assert!(near(2.1).pass && near(1.81).pass && !near(2.3).pass && !near(f64::NAN).pass);
        assert_eq!(near(2.1).because("twice").evidence, "ratio 2.1, between 1.8 and 2.2: within 10 % of 2, twice");
    }

    #[test]
    fn what_has_no_number_fails_and_is_not_compared() {
        let gate = Gate::at_most(&NARROW, Number::plain(f64::NAN).named("ratio"), 2.0);
        assert!(!gate.pass && gate.numbers.is_none(), "{gate:?}");
    }
}
