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
        let [low, value, high] = self.measured(metric, core_hertz)?;
        let known = metric.interval_level > 0.0 && !metric.grade.has_foreign_part();
        let overlaps = low <= self.high && high >= self.low;
        let fit = if (self.low..=self.high).contains(&value) {
            if known { Fit::Within } else { Fit::Open }
        } else if !known || metric.grade == Grade::Unresolved && overlaps {
            Fit::Open
        } else if (value > self.high) == (metric.unit.better() == Better::Lower) {
            Fit::Worse
        } else {
            Fit::Better
        };
        Some((fit, value / self.value))
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
