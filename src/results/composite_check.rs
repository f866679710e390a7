//! The composite checks of a document: what must hold between figures of different experiments.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A check over figures of different experiments, with both of its sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompositeCheck {
    /// Number in the catalogue of methods, such as `C3`.
    pub id: String,
    /// The rule in words.
    pub rule: String,
    /// What came of it.
    pub outcome: CheckOutcome,
    /// One line for each comparison that was made: both sides with the names of their records.
    pub comparisons: Vec<Comparison>,
    /// Figures that were not there, where that kept the check from being applied.
    pub missing: Vec<String>,
}

/// What came of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    /// Every comparison held.
    Holds,
    /// At least one did not.
    Violated,
    /// Its figures are not there.
    NotApplicable,
}

/// Two sides and whether they stand as they must.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Left side: records and value.
    pub left: String,
    /// What must hold between the sides, such as `≥`.
    pub relation: String,
    /// Right side.
    pub right: String,
    /// Whether it does.
    pub holds: bool,
}
