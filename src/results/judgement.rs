//! The answer of `sysdyno judge`: numbers of others next to the results of a run, and what typically makes the difference.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document::Grade;
use super::quantity::{Labels, Unit};

/// Version of the format.
pub const FORMAT: &str = "sysdyno-judgement/1";

/// Numbers of one or more files, judged by one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// Format version, `sysdyno-judgement/1`.
    pub format: String,
    /// The run, as it was named.
    pub run: String,
    /// The machine of the run in a few words.
    pub machine: String,
    /// True where the numbers were measured on another machine than the run.
    pub other_machine: bool,
    /// Numbers and results that differ by less than this factor agree.
    pub agree_within: f64,
    /// The files.
    pub sources: Vec<JudgedSource>,
    /// Files that could not be read, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_aside: Vec<String>,
    /// Files of runs of sysdyno that lie next to a table, and are not judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// The numbers of one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JudgedSource {
    /// Name of the file, with as much of its path as distinguishes it, or the number of a published report.
    pub name: String,
    /// Its numbers in their order.
    pub numbers: Vec<JudgedNumber>,
}

/// A number and what is thought of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JudgedNumber {
    /// Where it stands in its file.
    pub place: String,
    /// What its file calls it.
    pub name: String,
    /// The metric of ours for the same thing, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Labels of that metric.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Unit of `value`, `deviation` and the result.
    pub unit: Unit,
    /// The number.
    pub value: f64,
    /// The number and the unit as they are written.
    pub written: String,
    /// Standard deviation, where the file has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
    /// Number of trials, where the file has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials: Option<u32>,
    /// The result of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours: Option<OwnResult>,
    /// The number divided by the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Whether both agree.
    pub state: Agreement,
    /// What typically causes this, the most likely cause first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
}

/// The result that a number is compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnResult {
    /// All labels of it.
    pub labels: Labels,
    /// Its value.
    pub value: f64,
    /// Its interval over the launches of the run.
    pub interval: [f64; 2],
    /// How well it is known.
    pub grade: Grade,
}

/// Whether a number agrees with the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// It differs from the result by more than correct programs differ.
    Off,
    /// Other numbers of the same file, or the hardware, rule it out.
    Doubtful,
    /// It differs as much as that, and the result of the run is disturbed, contaminated or not resolved.
    Undecided,
    /// It agrees.
    Agrees,
    /// The run has no result for it, or nothing to convert cycles or ticks by.
    NotCompared,
}

impl Agreement {
    /// The word in tables.
    pub fn word(self) -> &'static str {
        match self {
            Agreement::Off => "off",
            Agreement::Doubtful => "doubtful",
            Agreement::Undecided => "undecided",
            Agreement::Agrees => "agrees",
            Agreement::NotCompared => "no result",
        }
    }

    /// Whether the number needs another look.
    pub fn is_bad(self) -> bool {
        matches!(self, Agreement::Off | Agreement::Doubtful)
    }
}

/// How much speaks for a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    /// Arithmetic or the hardware shows it.
    Shown,
    /// A result of the run matches it.
    Matching,
    /// The size of the difference is typical of it.
    Typical,
}

impl Strength {
    /// In a sentence, before the evidence.
    pub fn word(self) -> &'static str {
        match self {
            Strength::Shown => "shown",
            Strength::Matching => "likely",
            Strength::Typical => "possible",
        }
    }
}

/// A typical mistake that fits a number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// Short name of the mistake.
    pub trap: String,
    /// What happened, in one sentence.
    pub cause: String,
    /// How much speaks for it.
    pub strength: Strength,
    /// What speaks for it.
    pub evidence: String,
    /// What to do about it.
    pub remedy: String,
}

impl JudgedSource {
    /// How many numbers have a state.
    pub fn count(&self, state: Agreement) -> usize {
        self.numbers.iter().filter(|number| number.state == state).count()
    }
}

impl Judgement {
    /// The numbers that need another look, each with the name of its file.
    pub fn bad(&self) -> impl Iterator<Item = (&str, &JudgedNumber)> {
        self.sources.iter().flat_map(|source| {
            source.numbers.iter().filter(|number| number.state.is_bad()).map(|number| (source.name.as_str(), number))
        })
    }
}
