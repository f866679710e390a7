//! What a person predicts before a run measures: a value, a range and a reason for each figure. They are in the log before the first
//! sample, as the tool's own predictions are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantity::{Labels, Unit};

/// The predictions of a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnPredictions {
    /// Who made them, where their file says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// One for each figure.
    pub predictions: Vec<OwnPrediction>,
}

/// What a person predicts of one figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnPrediction {
    /// Name of the metric.
    pub metric: String,
    /// Labels of the figure.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Unit of every number below.
    pub unit: Unit,
    /// The expected value.
    pub value: f64,
    /// Lower end of the range; at most `value`.
    pub low: f64,
    /// Upper end of the range; at least `value`.
    pub high: f64,
    /// Why.
    pub reason: String,
}

impl OwnPrediction {
    /// True when this predicts the figure with the given name and labels.
    pub fn is_for(&self, metric: &str, labels: &Labels) -> bool {
        self.metric == metric && self.labels.same_figure(labels)
    }

    /// Whether its numbers are numbers, and the value is in the range.
    pub fn is_ordered(&self) -> bool {
        let finite = [self.low, self.value, self.high].iter().all(|number| number.is_finite());
        finite && self.low <= self.value && self.value <= self.high
    }
}

impl OwnPredictions {
    /// What no file with predictions says.
    pub fn contradiction(&self) -> Option<String> {
        for (place, found) in self.predictions.iter().enumerate() {
            let OwnPrediction { metric, labels, .. } = found;
            if !found.is_ordered() {
                return Some(format!("an own prediction of {metric}{{{labels}}} whose range is not in order"));
            }
            if self.predictions[..place].iter().any(|other| other.is_for(metric, labels)) {
                return Some(format!("a second own prediction of {metric}{{{labels}}}"));
            }
        }
        None
    }
}
