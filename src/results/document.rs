//! The document: everything a report says, computed from a log. Its serialised form is `result.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::log::Clock;
use super::prediction::Prediction;
use super::quantity::{Better, Labels, Unit};
use super::verdict::{Gate, Verdict};
use crate::machine::{Machine, quiet::Check};

/// Version of the result format.
pub const SCHEMA: &str = "sysdyno-result/1";

/// A whole report as data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// Format version, `sysdyno-result/1`.
    pub schema: String,
    /// The run.
    pub run: Run,
    /// The machine it ran on.
    pub machine: Machine,
    /// What would spoil figures, as seen when the run began.
    pub quiet: Vec<Check>,
    /// One section per experiment, in the order of the report.
    pub experiments: Vec<Section>,
}

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
    /// Rounds in which a canary deviated.
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
}

/// What became of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It has figures.
    Measured,
    /// It could not or should not run here.
    Skipped,
    /// It was tried and has none.
    Failed,
}

/// One experiment of the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Section {
    /// Experiment identifier, such as `cpu.timer`.
    pub id: String,
    /// Chapter, the part before the dot.
    pub chapter: String,
    /// Title.
    pub title: String,
    /// Version of the method.
    pub method_version: u32,
    /// What became of it.
    pub outcome: Outcome,
    /// Why it was skipped or failed.
    pub reason: Option<String>,
    /// What to do about that.
    pub hint: Option<String>,
    /// Launches that ended well.
    pub launches: u32,
    /// Launches that crashed, hung or reported failure, with their reasons.
    pub failed_launches: Vec<String>,
    /// Seconds spent in its launches.
    pub wall_seconds: f64,
    /// Published figures.
    pub metrics: Vec<Metric>,
    /// Figures that failed a hard gate: what was seen and why it is not a result.
    pub rejected: Vec<Rejected>,
    /// Curves.
    pub series: Vec<Curve>,
    /// What the figures mean: computed sentences and tables.
    pub analysis: Vec<Block>,
}

/// A published figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// Name, such as `cpu.timer.overhead`.
    pub name: String,
    /// Labels.
    pub labels: Labels,
    /// Unit of `value`, `interval95`, `typical`, `stddev`, `quantiles` and `prediction`.
    pub unit: Unit,
    /// Direction of improvement.
    pub better: Better,
    /// True where the figure stands in the summary table.
    pub headline: bool,
    /// The headline. Finite, and never 0 for a time.
    pub value: f64,
    /// Interval of the headline over launches, at `interval_level`.
    pub interval95: [f64; 2],
    /// Confidence that the interval really has: 0.95, or less when there are too few launches for 0.95.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub interval_level: f64,
    /// The same location without preference for undisturbed batches: median over launches of launch medians.
    pub typical: Option<f64>,
    /// Standard deviation of the launch estimates.
    pub stddev: f64,
    /// Quantiles over all clean batches.
    pub quantiles: Option<Quantiles>,
    /// The headline in core cycles, where the figure is frequency-normalised.
    pub cycles: Option<f64>,
    /// Its interval.
    pub cycles_interval95: Option<[f64; 2]>,
    /// Core frequency by which cycles became time: the median over the run.
    pub at_core_hz: Option<f64>,
    /// How the headline was computed.
    pub estimator: String,
    /// Launches behind it.
    pub launches: u32,
    /// Batches behind it: clean ones.
    pub samples: u64,
    /// Operations in each batch (median).
    pub operations_per_batch: u64,
    /// Void batches: failed, clock backwards, clock probes apart.
    pub void: u64,
    /// Batches that something else disturbed, counted and left out.
    pub disturbed: u64,
    /// Prediction, written before the measurement.
    pub prediction: Option<Prediction>,
    /// The figure before an overhead was subtracted, where one was.
    pub gross: Option<f64>,
    /// Verdict.
    pub verdict: Verdict,
}

/// Quantiles of the batches of a figure, in its unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    /// 10th percentile.
    pub p10: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// A figure that is not published, with the reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rejected {
    /// Name of the metric it would have been.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// Why it is not a result.
    pub reason: String,
    /// The gates that were applied.
    pub gates: Vec<Gate>,
}

/// An axis of a curve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Axis {
    /// What is along it.
    pub label: String,
    /// In which unit.
    pub unit: Unit,
}

/// A curve: a figure against a parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curve {
    /// Name, such as `cpu.procedure_call.by_args`.
    pub name: String,
    /// Labels that tell curves of one name apart.
    pub labels: Labels,
    /// The parameter.
    pub x: Axis,
    /// The figure.
    pub y: Axis,
    /// `[x, y, low, high]`, ordered by x; low and high are the interval of y.
    pub points: Vec<[f64; 4]>,
}

/// One block of an analysis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// A paragraph whose every number was computed.
    Paragraph(String),
    /// A table.
    Table {
        /// Caption.
        caption: String,
        /// Column heads.
        columns: Vec<String>,
        /// Cells, one row per entry, each as long as `columns`.
        rows: Vec<Vec<String>>,
    },
}

impl Document {
    /// The published figure with a name and labels.
    pub fn metric(&self, name: &str, labels: &Labels) -> Option<&Metric> {
        self.experiments
            .iter()
            .flat_map(|section| &section.metrics)
            .find(|metric| metric.name == name && metric.labels == *labels)
    }
}
