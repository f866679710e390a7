//! Limits that healthy nodes of a fleet set for later checks of a node.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds;
use super::fleet::Axis;
use super::quantity::{Better, Labels, Unit};

/// Version of the format.
pub const FORMAT: &str = "sysdyno-accepted/1";

/// Most models of a file, and most limits and facts of a model. A fleet has a handful, and a model about 200 of each.
const MOST_MODELS: usize = 1_000;
const MOST_LIMITS: usize = 5_000;

/// Limits for the nodes of one or more models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Accepted {
    /// Format version, `sysdyno-accepted/1`.
    pub format: String,
    /// One entry for each model, profile and set of methods.
    pub models: Vec<AcceptedModel>,
}

/// Limits for the nodes of one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AcceptedModel {
    /// Hash of the model.
    pub fingerprint: String,
    /// Model of the processor, where the nodes name one.
    pub model: String,
    /// Profile of the runs.
    pub profile: String,
    /// Version and build of sysdyno.
    pub build: String,
    /// Experiments with their method versions.
    pub methods: String,
    /// Number of healthy nodes behind the limits.
    pub nodes: u32,
    /// Limits of key results.
    pub limits: Vec<AcceptedLimit>,
    /// Facts with the values that are accepted.
    pub facts: Vec<AcceptedFact>,
}

impl Accepted {
    /// The limits from their file; why not, if it has none.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let found: Accepted = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if found.format != FORMAT {
            return Err(format!("its format is {}", found.format));
        }
        found.is_possible().map(|()| found)
    }

    fn is_possible(&self) -> Result<(), String> {
        bounds::at_most("models", self.models.len(), MOST_MODELS)?;
        self.models.iter().try_for_each(|model| {
            bounds::at_most("limits of a model", model.limits.len(), MOST_LIMITS)?;
            bounds::at_most("facts of a model", model.facts.len(), MOST_LIMITS)?;
            let possible = |limit: &AcceptedLimit| bounds::within(&limit.metric, limit.median, [limit.low, limit.high]);
            model.limits.iter().try_for_each(possible)
        })
    }
}

/// The limits of a key result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AcceptedLimit {
    /// Axis that the result belongs to.
    pub axis: Axis,
    /// Name of its metric.
    pub metric: String,
    /// Its labels, without those that state a condition.
    pub labels: Labels,
    /// Unit of the limits. A result in nanoseconds that has cycles has its limits in cycles.
    pub unit: Unit,
    /// True for a rate whose limits are divided by the core clock in hertz.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub per_cycle: bool,
    /// Direction of improvement.
    pub better: Better,
    /// Smallest accepted value.
    pub low: f64,
    /// Median of the healthy nodes.
    pub median: f64,
    /// Largest accepted value.
    pub high: f64,
}

/// A fact with the values that are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AcceptedFact {
    /// Name of the fact.
    pub fact: String,
    /// Its values on healthy nodes.
    pub values: Vec<String>,
}
