//! The run that a document is about.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::log::Clock;
use super::wording::count;
use crate::machine::Identity;
use crate::machine::engine::Engine;

/// The run in a few facts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Identifier: host and start time.
    pub id: String,
    /// Start, RFC 3339.
    pub started: String,
    /// End, RFC 3339; none when the run died.
    pub finished: Option<String>,
    /// The command as typed.
    pub command: Vec<String>,
    /// Seed of every random choice.
    pub seed: u64,
    /// Version of the tool that measured.
    pub version: String,
    /// How that tool was built.
    pub build: String,
    /// Profile: quick, default or rigorous.
    pub profile: String,
    /// True when everything planned was measured.
    pub complete: bool,
    /// Why the run ended.
    pub ended: String,
    /// Rounds that ended.
    pub rounds: u32,
    /// Rounds in which an interference probe deviated.
    pub disturbed_rounds: Vec<u32>,
    /// How often the run was resumed.
    pub resumed: u32,
    /// Seconds measured.
    pub wall_seconds: f64,
    /// CPU on which launches measured.
    pub cpu: u32,
    /// The clock of the run.
    pub clock: Option<Clock>,
    /// What was wrong with the log, if anything was.
    pub damage: Option<String>,
    /// SHA-256 of the log file that all of this was computed from, in hexadecimal; none where it was no file.
    pub log_sha256: Option<String>,
    /// Which machine this was among others of its model, by keyed hashes; none where the log does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// First digits of the SHA-256 of the tool's binary; none where the log does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary: Option<String>,
    /// The engine that started the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// Labels of the node that the user gave, such as its rack.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Earlier runs of the same machine that the run looked at; none where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier_runs: Option<u32>,
    /// Experiments that a quick run without a selection leaves out; none in any other run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u32>,
}

impl Run {
    /// What is wrong with the log, in a sentence or two.
    pub fn damage_text(&self) -> Option<String> {
        let damage = self.damage.as_ref()?;
        Some(format!("The log is damaged: {damage}. Everything before it is used."))
    }

    /// Why the run is not complete, and how to go on.
    pub fn incomplete_text(&self) -> Option<String> {
        let text = || format!("The run is not complete: {}. Resume with: sysdyno run --resume DIR", self.ended);
        (!self.complete).then(text)
    }

    /// How often the run was resumed.
    pub fn resumed_text(&self) -> Option<String> {
        let times = || count(u64::from(self.resumed), "time", "times");
        (self.resumed > 0).then(|| format!("The run was resumed {}.", times()))
    }
}
