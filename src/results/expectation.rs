//! What a cost is on other machines: those of the same kind in the catalogue, and what is published of the design of the core. It is
//! written before the first sample, as predictions are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantity::Unit;

/// Where an expectation comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ground {
    /// Runs on machines of the same kind.
    Kind,
    /// Published measurements of the same core design.
    Design,
}

/// The range in which a cost of a machine is expected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expectation {
    /// Short name of the cost.
    pub cost: String,
    /// Where it comes from.
    pub ground: Ground,
    /// Unit of the numbers: core cycles where the core decides, whatever its clock.
    pub unit: Unit,
    /// The middle of the other machines.
    pub value: f64,
    /// Lower end of the range, which holds 95 % of such machines.
    pub low: f64,
    /// Upper end of the range.
    pub high: f64,
    /// The machines in words.
    pub machines: String,
    /// How many runs of how many machines, or the source.
    pub basis: String,
}
