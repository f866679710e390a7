//! A figure as an experiment asks for it: its name and labels, where its value comes from, and what must hold of it.
//!
//! The kind of value decides which common gates it passes. An experiment adds those of its operation.

use crate::results::quantity::{Better, Labels, Unit};
use crate::results::verdict::Gate;

use super::estimate::Estimate;
use super::gates;
use super::linearity;
use super::precision::Precision;
use super::sample::Sample;
use super::study::Study;

/// One figure before its judgement.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Name of its metric.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    value: Value,
    own: Vec<Gate>,
    /// The figure before a subtraction, in the unit of the value.
    pub gross: Option<f64>,
    /// Which direction is better, where the unit does not say it.
    pub better: Option<Better>,
    /// The true value is this or more.
    pub at_least: bool,
    /// What is asked of it; none where that is what is asked of the figures of its experiment.
    class: Option<Precision>,
}

/// Where the value of a figure comes from.
#[derive(Debug, Clone)]
enum Value {
    /// The cost of an operation, by batches of it.
    Batches(Estimate),
    /// A rate by batches that say what a byte costs, and the bytes that each byte of the sample counts for.
    Rate(Sample, f64),
    /// Operations timed one by one, and the share of the time that others had the CPU, where the experiment knows it.
    Shots(Estimate, Option<f64>),
    /// A line through other figures, or their difference.
    Derived(Estimate),
    /// What contention cannot move: the step of a clock, the rate of a counter.
    Fact(Estimate),
    /// A pair of bounds: how far apart they lie is the grid's doing and not noise.
    Bounds(Estimate),
    /// What only the gates of its experiment judge.
    Own(Estimate),
}

impl Figure {
    fn new(name: &str, labels: Labels, value: Value) -> Self {
        let name = name.to_owned();
        Figure { name, labels, value, own: Vec::new(), gross: None, better: None, at_least: false, class: None }
    }

    /// The cost of an operation, by batches of it.
    pub fn batches(name: &str, labels: Labels, estimate: &Estimate) -> Self {
        Figure::new(name, labels, Value::Batches(estimate.clone()))
    }

    /// A rate, in bytes per second. Each byte of the sample counts for `bytes`.
    ///
    /// A cost in core cycles gives the undisturbed rate, any other the median: quiet moments of a shared part are luck.
    pub fn rate(name: &str, labels: Labels, cost: &Sample, bytes: f64) -> Self {
        Figure::new(name, labels, Value::Rate(cost.clone(), bytes))
    }

    /// Operations timed one by one. `others` is the share of the time that others had the CPU, where it is known.
    pub fn shots(name: &str, labels: Labels, estimate: &Estimate, others: Option<f64>) -> Self {
        Figure::new(name, labels, Value::Shots(estimate.clone(), others))
    }

    /// A line through other figures, or their difference.
    pub fn derived(name: &str, labels: Labels, estimate: &Estimate) -> Self {
        Figure::new(name, labels, Value::Derived(estimate.clone()))
    }

    /// What contention cannot move: the step of a clock, the rate of a counter, a count.
    pub fn fact(name: &str, labels: Labels, estimate: &Estimate) -> Self {
        Figure::new(name, labels, Value::Fact(estimate.clone()))
    }

    /// A value whose interval is a pair of bounds, such as the two sizes between which a cache ends.
    pub fn bounds(name: &str, labels: Labels, estimate: &Estimate) -> Self {
        Figure::new(name, labels, Value::Bounds(estimate.clone()))
    }

    /// What only the gates of its experiment judge.
    pub fn own(name: &str, labels: Labels, estimate: &Estimate) -> Self {
        Figure::new(name, labels, Value::Own(estimate.clone()))
    }

    /// Whether it is a rate whose batches are timed in core cycles. The clock of the core moves it.
    pub(super) fn is_clocked(&self) -> bool {
        matches!(&self.value, Value::Rate(cost, _) if cost.unit == Unit::Cycles)
    }

    /// Adds gates of its operation.
    #[must_use]
    pub fn gates(mut self, own: impl IntoIterator<Item = Gate>) -> Self {
        self.own.extend(own);
        self
    }

    /// It is what is left of a gross figure, which is in the same unit.
    #[must_use]
    pub fn of_gross(mut self, gross: f64) -> Self {
        self.gross = Some(gross);
        self
    }

    /// More of it is better although its unit is that of a plain number.
    #[must_use]
    pub fn higher_is_better(mut self) -> Self {
        self.better = Some(Better::Higher);
        self
    }

    /// Other things are asked of it than of the figures of its experiment.
    #[must_use]
    pub fn of_class(mut self, class: Precision) -> Self {
        self.class = Some(class);
        self
    }

    /// The true value is this or more.
    #[must_use]
    pub fn lower_bound(mut self) -> Self {
        self.at_least = true;
        self
    }

    /// Its estimate, all its gates with the common ones first, and what it moves between runs. None where a rate has no usable
    /// batch.
    pub(super) fn judged(&self, study: &Study<'_>) -> Option<(Estimate, Vec<Gate>, Precision)> {
        let class = self.class.unwrap_or(study.precision);
        let precision = study.precision_of(&self.name, &self.labels, class);
        let fact = Precision { between: 0.0, ..precision };
        let study = &Study { precision, ..study.clone() };
        let (estimate, mut gates) = match &self.value {
            Value::Batches(estimate) => (estimate.clone(), gates::of_batches(study, estimate)),
            Value::Rate(cost, bytes) => rate(study, cost, *bytes)?,
            Value::Shots(estimate, others) => (estimate.clone(), gates::of_shots(study, estimate, *others)),
            Value::Derived(estimate) => (estimate.clone(), gates::of_derived(study, estimate)),
            Value::Fact(estimate) => (estimate.clone(), gates::of_interval(estimate, fact)),
            Value::Bounds(estimate) => (estimate.clone(), vec![gates::enough_launches(estimate)]),
            Value::Own(estimate) => (estimate.clone(), Vec::new()),
        };
        gates.extend(gates::alone(&estimate));
        if matches!(self.value, Value::Batches(_) | Value::Rate(..)) {
            gates.extend(linearity::gate(study, &self.labels));
        }
        gates.extend(self.own.iter().cloned());
        let varies = matches!(self.value, Value::Batches(_) | Value::Rate(..) | Value::Shots(..) | Value::Derived(_));
        Some((estimate, gates, if varies { precision } else { fact }))
    }
}

/// The rate that batches give, which pass the gates of costs.
fn rate(study: &Study<'_>, cost: &Sample, bytes: f64) -> Option<(Estimate, Vec<Gate>)> {
    let second = match (cost.unit, study.core) {
        (Unit::Cycles, Some(core)) => core.0,
        _ => 1e9,
    };
    let rates = cost.as_rates(bytes * second, Unit::BytesPerSecond);
    let (cost, rate) = if cost.unit == Unit::Cycles {
        (Estimate::undisturbed(cost)?, Estimate::undisturbed_rate(&rates)?)
    } else {
        (Estimate::median(cost)?, Estimate::median(&rates)?)
    };
    Some((rate, gates::of_batches(study, &cost)))
}
