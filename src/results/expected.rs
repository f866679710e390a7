//! How the costs of a run stand to what was expected of them from other machines.

use super::document::{Cost, Document, Grade, Metric};
use super::expectation::{Expectation, Ground};
use super::quantity::{Better, Unit};

/// How a cost stands to an expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Inside the range.
    Within,
    /// Better than the range.
    Better,
    /// Worse than the range.
    Worse,
    /// Not known well enough, or disturbed.
    Open,
}

/// A cost of a run and what was expected of it.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The cost.
    pub cost: &'a Cost,
    /// Its result.
    pub metric: &'a Metric,
    /// The expectation.
    pub expectation: &'a Expectation,
    /// How it stands.
    pub fit: Fit,
    /// The result over the middle of the expectation.
    pub ratio: f64,
}

impl Expectation {
    /// A value and its interval in the unit of the expectation: core cycles are those of the result, or by the run's core clock.
    fn measured(&self, metric: &Metric, core_hertz: Option<f64>) -> Option<[f64; 3]> {
        let [low, high] = metric.interval95;
        if self.unit != Unit::Cycles || metric.unit == Unit::Cycles {
            return (metric.unit == self.unit).then_some([low, metric.value, high]);
        }
        if let Some((cycles, [low, high])) = metric.cycles.zip(metric.cycles_interval95) {
            return Some([low, cycles, high]);
        }
        let per_nanosecond = core_hertz.filter(|_| metric.unit == Unit::Nanoseconds)? / 1e9;
        Some([low, metric.value, high].map(|end| end * per_nanosecond))
    }

    fn fit(&self, metric: &Metric, core_hertz: Option<f64>) -> Option<(Fit, f64)> {
        let measured = self.measured(metric, core_hertz)?;
        Some((metric.fit(measured, [self.low, self.high]), measured[1] / self.value))
    }
}

impl Metric {
    /// How it stands to a range, by its value between the ends of its interval. All are in one unit.
    pub fn fit(&self, [low, value, high]: [f64; 3], range: [f64; 2]) -> Fit {
        // A lower bound in the range, or below it, can be anywhere above.
        let is_open = self.at_least && value <= range[1];
        let known = self.has_level() && !self.grade.has_foreign_part() && !is_open;
        let overlaps = low <= range[1] && high >= range[0];
        if (range[0]..=range[1]).contains(&value) {
            if known { Fit::Within } else { Fit::Open }
        } else if !known || self.grade == Grade::Unresolved && overlaps {
            Fit::Open
        } else if (value > range[1]) == (self.unit.better() == Better::Lower) {
            Fit::Worse
        } else {
            Fit::Better
        }
    }
}

impl Document {
    /// The costs of which something was expected on one ground, in the order of the report.
    pub fn expected(&self, ground: Ground) -> Vec<Expected<'_>> {
        let core_hertz = self.practice.core_hertz.map(|[_, middle, _]| middle);
        let mut found = Vec::new();
        for cost in &self.costs {
            let is = |found: &&Expectation| found.ground == ground && found.cost == *cost.name;
            let Some(expectation) = self.expectations.iter().find(is) else { continue };
            let Some(metric) = self.metric(&cost.metric, &cost.labels) else { continue };
            if let Some((fit, ratio)) = expectation.fit(metric, core_hertz) {
                found.push(Expected { cost, metric, expectation, fit, ratio });
            }
        }
        found
    }
}
