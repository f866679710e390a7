//! Numbers of other programs.

use crate::results::quantity::{Labels, Unit};

/// The numbers of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Name of the file, or of the report.
    pub name: String,
    pub numbers: Vec<Number>,
}

/// A number of another program.
#[derive(Debug, Clone, PartialEq)]
pub struct Number {
    /// Where it stands in its file.
    pub place: String,
    /// What the file calls it.
    pub name: String,
    /// Numbers of one family were made by one program: the experiment of its metric, or the first word of its group.
    pub family: String,
    /// Our metric for the same thing, and the labels that its result must have.
    pub metric: Option<String>,
    pub labels: Labels,
    /// Unit of the value and of the deviation.
    pub unit: Unit,
    pub value: f64,
    /// As it is written.
    pub written: String,
    pub deviation: Option<f64>,
    pub trials: Option<u32>,
    /// What else is written next to it.
    pub note: String,
    /// True where it is one for each byte of something.
    pub per_byte: bool,
}

impl Number {
    /// Whether its metric begins so.
    pub fn is_of(&self, beginning: &str) -> bool {
        self.metric.as_ref().is_some_and(|metric| metric.starts_with(beginning))
    }

    /// Whether it is one call without a mean.
    pub fn is_single(&self) -> bool {
        self.trials == Some(1)
    }

    /// Whether another number is for the same thing, with the same remark.
    pub fn is_same_thing(&self, other: &Number) -> bool {
        (&self.metric, &self.labels, self.unit) == (&other.metric, &other.labels, other.unit)
            && (self.metric.is_some() || self.name == other.name)
            && (&self.note, self.per_byte) == (&other.note, other.per_byte)
    }
}

/// The experiment of a metric.
pub(super) fn experiment_of(metric: &str) -> String {
    metric.rsplit_once('.').map_or(metric, |(experiment, _)| experiment).to_owned()
}
