//! A prediction: terms with their bases and a range, written down before the measurement exists (gate G39).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantity::{Labels, Unit};
use super::wording::Shown;

/// Where a number in a prediction comes from, so that a reader can disagree with the number and not with the tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Basis(String);

impl Basis {
    /// A metric that this run published earlier.
    pub fn metric(name: &str) -> Self {
        Basis(format!("metric {name}"))
    }

    /// A metric that this run published earlier, times a count.
    pub fn counted(name: &str, count: f64) -> Self {
        if (count - 1.0).abs() < f64::EPSILON { Self::metric(name) } else { Basis(format!("{count} × metric {name}")) }
    }

    /// A metric of this run times a coefficient that is fitted on records of other runs; `over` where the coefficient is divided by
    /// it.
    pub fn fitted(metric: &str, coefficient: f64, over: bool, records: u32) -> Self {
        let sign = if over { "/" } else { "×" };
        Basis(format!("{} {sign} metric {metric}, {FITTED} {records} records", super::wording::number(coefficient)))
    }

    /// A fact about the machine, with the file or instruction that states it.
    pub fn machine(source: &str) -> Self {
        Basis(format!("machine {source}"))
    }

    /// A row of the constants table, with the source it carries.
    pub fn constant(name: &str, source: &str) -> Self {
        Basis(format!("constant {name} ({source})"))
    }

    /// An assumption with the reason for it; a guess is allowed, a hidden one is not.
    pub fn guess(reason: &str) -> Self {
        Basis(format!("guess: {reason}"))
    }

    /// The basis as text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Which half of a prediction a term belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// What the hardware needs at least.
    BaseHardware,
    /// What software adds on top.
    SoftwareOverhead,
}

/// One term of a prediction, in the unit of the metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Term {
    /// What costs this.
    pub what: String,
    /// The expected value.
    pub value: f64,
    /// The lowest value that would not surprise; at most `value`.
    pub low: f64,
    /// The highest value that would not surprise; at least `value`.
    pub high: f64,
    /// Hardware or software.
    pub part: Part,
    /// Where the number comes from.
    pub basis: Basis,
}

/// What the basis of a fitted term says.
const FITTED: &str = "fitted on";

/// What follows a metric that has no result of this run, but a prediction.
pub const AS_PREDICTED: &str = ", as predicted";

/// A range wider than this factor is no prediction.
pub const WIDEST: f64 = 4.0;

/// The prediction of one figure: the sum of its terms, with a range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// Name of the metric that is predicted.
    pub metric: String,
    /// Labels of the figure that is predicted.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Unit of every number below.
    pub unit: Unit,
    /// The expected value: the sum of the terms.
    pub value: f64,
    /// Lower end of the range; a measurement below it is "faster" (or "lower").
    pub low: f64,
    /// Upper end of the range.
    pub high: f64,
    /// The sum of the hardware terms.
    pub base_hardware: f64,
    /// The sum of the software terms.
    pub software_overhead: f64,
    /// The terms, in the order in which a reader should meet them.
    pub terms: Vec<Term>,
}

impl Prediction {
    /// An empty prediction, to which terms are added.
    pub fn of(metric: &str, labels: Labels, unit: Unit) -> Self {
        Prediction {
            metric: metric.to_owned(),
            labels,
            unit,
            value: 0.0,
            low: 0.0,
            high: 0.0,
            base_hardware: 0.0,
            software_overhead: 0.0,
            terms: Vec::new(),
        }
    }

    /// Adds what the hardware needs: `(expected, low, high)` in the metric's unit.
    #[must_use]
    pub fn hardware(self, what: &str, range: (f64, f64, f64), basis: Basis) -> Self {
        self.term(what, range, Part::BaseHardware, basis)
    }

    /// Adds what software costs on top: `(expected, low, high)` in the metric's unit.
    #[must_use]
    pub fn software(self, what: &str, range: (f64, f64, f64), basis: Basis) -> Self {
        self.term(what, range, Part::SoftwareOverhead, basis)
    }

    fn term(mut self, what: &str, (value, low, high): (f64, f64, f64), part: Part, basis: Basis) -> Self {
        debug_assert!(low <= value && value <= high, "{what}: {low} ≤ {value} ≤ {high}");
        self.value += value;
        self.low += low;
        self.high += high;
        match part {
            Part::BaseHardware => self.base_hardware += value,
            Part::SoftwareOverhead => self.software_overhead += value,
        }
        self.terms.push(Term { what: what.to_owned(), value, low, high, part, basis });
        self
    }

    /// The terms as a sum in one line.
    pub fn sum_text(&self) -> String {
        let shown = |value: f64| Shown::of(value, self.unit);
        let mut sum = String::new();
        for (index, term) in self.terms.iter().enumerate() {
            let sign = match (index, term.value < 0.0) {
                (0, false) => "",
                (0, true) => "−",
                (_, false) => " + ",
                (_, true) => " − ",
            };
            sum += &format!("{sign}{} ({})", shown(term.value.abs()), term.what);
        }
        if self.terms.len() == 1 { sum } else { format!("{sum} = {}", shown(self.value)) }
    }

    /// Upper end of the range over its lower end; infinite where that is nothing.
    pub fn width(&self) -> f64 {
        if self.low > 0.0 { self.high / self.low } else { f64::INFINITY }
    }

    /// True when it has a coefficient that was fitted on records, and results of this run alone besides.
    pub fn is_fitted(&self) -> bool {
        let says = |text: &str| self.terms.iter().any(|term| term.basis.text().contains(text));
        says(FITTED) && !says(AS_PREDICTED)
    }

    /// True when the range says where the figure lies: beyond a factor of 4 it does not.
    pub fn says_something(&self) -> bool {
        self.width() <= WIDEST
    }

    /// True when this predicts the figure with the given name and labels.
    pub fn is_for(&self, metric: &str, labels: &Labels) -> bool {
        self.metric == metric && self.labels.same_figure(labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_is_the_sum_of_its_terms() {
        let prediction = Prediction::of("os.system_call.time", Labels::none(), Unit::Nanoseconds)
            .hardware("entry and exit", (40.0, 25.0, 60.0), Basis::guess("for the test"))
            .software("service", (55.0, 35.0, 80.0), Basis::metric("cpu.cycle_time"));
        assert_eq!((prediction.value, prediction.low, prediction.high), (95.0, 60.0, 140.0));
        assert_eq!((prediction.base_hardware, prediction.software_overhead), (40.0, 55.0));
        assert_eq!(prediction.terms[1].basis.text(), "metric cpu.cycle_time");
    }
}
