//! The document: everything a report says, computed from a log. Its serialised form is `result.json`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::between::BetweenRuns;
pub use super::composite_check::{CheckOutcome, Comparison, CompositeCheck};
use super::drawing_note::DrawingNote;
use super::expectation::Expectation;
use super::own_prediction::{OwnPrediction, OwnPredictions};
use super::peer::Peer;
use super::practice::Practice;
use super::prediction::Prediction;
use super::quantity::{Better, Labels, Unit};
use super::remote::Remote;
pub use super::run::Run;
use super::verdict::{Gate, Verdict};
use super::wording;
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
    /// The other machine, when there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Box<Peer>>,
    /// Files on another machine, when there were some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<Box<Remote>>,
    /// What would spoil figures, as seen when the run began.
    pub quiet: Vec<Check>,
    /// How the shared methodology was carried out in this run.
    pub practice: Practice,
    /// What is most worth knowing about this machine, most surprising first; computed.
    pub highlights: Vec<Highlight>,
    /// The costs that every reader asks for first, in the order of the chapters.
    #[serde(default)]
    pub costs: Vec<Cost>,
    /// What these costs are on other machines, as written before the first sample.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<Expectation>,
    /// What a person predicted, as written before the first sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_predictions: Option<OwnPredictions>,
    /// One section per experiment, in the order of the report.
    pub experiments: Vec<Section>,
    /// What must hold between figures of different experiments (gate G40).
    pub checks: Vec<CompositeCheck>,
}

/// A cost that every reader asks for first: which figure it is, and what the field calls it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Short name.
    pub name: String,
    /// Where there is little room, those of the highest rank are left out first; 0 are the most important ones.
    pub rank: u32,
    /// Name of the metric.
    pub metric: String,
    /// Labels of the figure.
    pub labels: Labels,
}

/// Something worth knowing, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Highlight {
    /// What kind of thing it is.
    pub kind: HighlightKind,
    /// The sentence.
    pub text: String,
    /// The section that says more; empty where none does.
    pub section: String,
    /// Why it is so, where a fact of the machine says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// Kinds of things worth knowing, the weightiest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HighlightKind {
    /// Figures contradict each other.
    Violation,
    /// Something spoilt the measurement.
    Disturbance,
    /// A figure lies far from its prediction.
    Surprise,
    /// A claim about the machine is contradicted by another.
    Contradiction,
    /// A part of the machine that costs most where it is used.
    Bottleneck,
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
    /// What it measures, in half a line; empty where this build does not know the experiment.
    pub measures: String,
    /// Version of the method.
    pub method_version: u32,
    /// Its methodology in its own words, with headings; empty where this build does not know it.
    pub methodology: String,
    /// What its metrics mean, in the order of the report.
    pub meanings: Vec<Meaning>,
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
    /// Predictions of figures that were then not published.
    pub unmet: Vec<Prediction>,
    /// Curves.
    pub series: Vec<Curve>,
    /// What drawings of the curves should show in addition to their points.
    pub figures: Vec<DrawingNote>,
    /// What the figures mean: computed sentences and tables.
    pub analysis: Vec<Block>,
    /// Why figures lie outside the ranges that were predicted for them.
    #[serde(default)]
    pub misses: Vec<String>,
}

/// What a metric means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Meaning {
    /// Name of the metric.
    pub metric: String,
    /// In words.
    pub meaning: String,
}

/// A published figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// Name, such as `cpu.timer.overhead`.
    pub name: String,
    /// Labels.
    pub labels: Labels,
    /// What it is called where people read.
    #[serde(default)]
    pub phrase: String,
    /// Unit of `value`, `interval95`, `typical`, `stddev`, `quantiles` and `prediction`.
    pub unit: Unit,
    /// Direction of improvement.
    pub better: Better,
    /// True where the figure stands in the summary table.
    pub headline: bool,
    /// The headline. Finite, and never 0 for a time.
    pub value: f64,
    /// True where the figure is a lower bound: what was measured ended before it was known in full.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// Interval of the headline, at `interval_level`: what it varies over the launches of this run, and from run to run. With few launches
    /// also what most of their batches took.
    pub interval95: [f64; 2],
    /// The part within this run: the interval over its launches, at `interval_level`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_run: Option<[f64; 2]>,
    /// The part between runs: half of its width at 95 % over the value. From earlier runs of the machine where enough are known,
    /// else a constant of the experiment.
    #[serde(default)]
    pub between_share: f64,
    /// What the core clock moves between runs, the same way: a part of the interval of a time that comes from core cycles.
    #[serde(default, skip_serializing_if = "super::compact::is_nothing")]
    pub clock_share: f64,
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
    /// What a person predicted, written before the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_prediction: Option<OwnPrediction>,
    /// The figure before an overhead was subtracted, where one was.
    pub gross: Option<f64>,
    /// The figure with a neighbour on the core. Absent where no batch had one, or where that does not choose the batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<SharedCore>,
    /// Scatter of the figure between earlier runs of the machine, where enough of them are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between_runs: Option<BetweenRuns>,
    /// Two ways to run, where launches show them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modes: Option<FigureModes>,
    /// What the host's other tenants do to a part that they share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_load: Option<HostLoad>,
    /// How well it is known.
    #[serde(default)]
    pub grade: Grade,
    /// Verdict.
    pub verdict: Verdict,
}

/// A figure of a part that other tenants of the host also use: its least loaded launches, and how far all lie apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostLoad {
    /// What the least loaded tenth of the launches gave: the machine's own.
    pub least_loaded: f64,
    /// Lowest and highest launch.
    pub range: [f64; 2],
}

impl HostLoad {
    /// The highest launch over the lowest.
    pub fn times(&self) -> f64 {
        self.range[1] / self.range[0]
    }
}

/// How well a figure is known, in one word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// Half of its interval is within the target of its experiment, and no gate failed.
    Good,
    /// Within two and a half times the target, or with a gate that doubts it.
    Rough,
    /// Wider, or from too few launches.
    #[default]
    Unresolved,
    /// Others took the CPU for part of the time, and the batches were too long to lie between the gaps.
    Disturbed,
    /// It is not the cost on an undisturbed core: a neighbour used the core, the task moved to another CPU, or the clock changed.
    Contaminated,
}

impl Grade {
    /// All of them, the best first.
    pub const ALL: [Grade; 5] = [Grade::Good, Grade::Rough, Grade::Unresolved, Grade::Disturbed, Grade::Contaminated];

    /// Whether something else has a part in the figure: others that took the CPU, or a neighbour on the core.
    pub fn has_foreign_part(self) -> bool {
        matches!(self, Grade::Disturbed | Grade::Contaminated)
    }

    /// The word in tables.
    pub fn word(self) -> &'static str {
        match self {
            Grade::Good => "good",
            Grade::Rough => "rough",
            Grade::Unresolved => "unresolved",
            Grade::Disturbed => "disturbed",
            Grade::Contaminated => "contaminated",
        }
    }
}

/// Two ways in which an operation runs: its launches or batches fall into two groups more than 5 % apart, each with 15 % of them or
/// more. A finding about the machine, and no reason to doubt the figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FigureModes {
    /// Median of the lower group, in the unit of the figure.
    pub lower: f64,
    /// Median of the upper group.
    pub upper: f64,
    /// Share in the upper group.
    pub upper_share: f64,
    /// What it is a share of.
    #[serde(default)]
    pub of: ModesOf,
}

/// What runs in one of two ways for as long as it lasts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModesOf {
    /// A launch, in all of its batches.
    #[default]
    Launches,
    /// A batch, because the operation settles anew before each.
    Batches,
}

impl ModesOf {
    /// In a sentence, behind a share.
    pub fn text(self) -> &'static str {
        match self {
            ModesOf::Launches => "of the launches",
            ModesOf::Batches => "of the batches",
        }
    }
}

/// What a figure becomes while a neighbour uses the other hardware thread of the core.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SharedCore {
    /// Value, in the unit of the figure.
    pub value: f64,
    /// Interval over launches: 95 %, or less with few launches.
    pub interval95: [f64; 2],
    /// Launches behind it.
    pub launches: u32,
    /// Batches behind it.
    pub samples: u64,
    /// Share of the figure's batches during which a neighbour used the core.
    pub share: f64,
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
    /// What it is called where people read.
    #[serde(default)]
    pub phrase: String,
    /// True where it would stand in the summary table.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub headline: bool,
    /// Why it is not a result.
    pub reason: String,
    /// What to do about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The gates that were applied.
    pub gates: Vec<Gate>,
}

impl Rejected {
    /// Without what its experiment says of it.
    pub fn of(name: String, labels: Labels, reason: String, gates: Vec<Gate>) -> Self {
        Rejected { name, labels, phrase: String::new(), headline: false, reason, hint: None, gates }
    }

    /// The reason, with what to do about it.
    pub fn why(&self) -> String {
        self.hint.as_ref().map_or_else(|| self.reason.clone(), |hint| format!("{} ({hint})", self.reason))
    }
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
    /// Labels that distinguish curves of one name.
    pub labels: Labels,
    /// What each label says, in plain words; empty for the usual case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub words: BTreeMap<String, String>,
    /// The parameter.
    pub x: Axis,
    /// The figure.
    pub y: Axis,
    /// `[x, y, low, high]`, ordered by x; low and high are the interval of y, and equal to it where one launch has it.
    pub points: Vec<[f64; 4]>,
}

impl Curve {
    /// The published figure that a point with this value is.
    pub fn metric_at<'a>(&self, y: f64, metrics: &'a [Metric]) -> Option<&'a Metric> {
        metrics.iter().find(|metric| {
            metric.unit == self.y.unit
                && (metric.value - y).abs() <= f64::EPSILON * y.abs()
                && metric.labels.includes(&self.labels)
        })
    }
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

#[cfg(test)]
impl Metric {
    /// A good result of nine launches, which tests change.
    pub fn example() -> Metric {
        let text = r#"{"name":"a.b","labels":{},"unit":"ns","better":"lower","headline":true,"value":1.0,"interval95":[1.0,1.0],
            "interval_level":0.95,"typical":null,"stddev":0.0,"quantiles":null,"cycles":null,"cycles_interval95":null,
            "at_core_hz":null,"estimator":"","launches":9,"samples":90,"operations_per_batch":1,"void":0,"disturbed":0,
            "prediction":null,"gross":null,"verdict":{"trust":"clean","against_prediction":"none","gates":[]}}"#;
        serde_json::from_str(text).unwrap()
    }
}

impl Metric {
    /// The figure as every report should print it: as many digits as its interval supports, four at most, and its unit.
    pub fn text(&self) -> String {
        let text = wording::measured(self.value, self.interval95, self.unit);
        if self.at_least { format!("at least {text}") } else { text }
    }

    /// Both ends of its interval with the digits of the figure.
    pub fn interval_text(&self) -> String {
        wording::measured_interval(self.value, self.interval95, self.unit)
    }

    /// The figure in core cycles, where it has any.
    pub fn cycles_text(&self) -> Option<String> {
        Some(wording::measured_number(self.cycles?, self.cycles_interval95?))
    }

    /// Name, and labels behind it where there are any.
    pub fn title(&self) -> String {
        record(&self.name, &self.labels)
    }

    /// What a neighbour on the core makes of it: the figure with a neighbour over the figure alone. None with fewer than three
    /// launches with a neighbour, or where the figure itself was measured with one.
    pub fn tax(&self) -> Option<f64> {
        let alone = !self.grade.has_foreign_part();
        self.shared.filter(|shared| alone && shared.launches >= 3).map(|shared| shared.value / self.value)
    }

    /// Measured over predicted.
    pub fn ratio(&self) -> Option<f64> {
        self.prediction.as_ref().filter(|found| found.value > 0.0).map(|found| self.value / found.value)
    }

    /// Half of the interval over the value.
    pub fn relative_half_width(&self) -> f64 {
        (self.interval95[1] - self.interval95[0]) / 2.0 / self.value.abs()
    }
}

/// The name of a record as reports write it: name, labels in parentheses.
pub fn record(name: &str, labels: &Labels) -> String {
    if labels.is_empty() { name.to_owned() } else { format!("{name} ({labels})") }
}

impl Document {
    /// Every published figure.
    pub fn metrics(&self) -> impl Iterator<Item = &Metric> {
        self.experiments.iter().flat_map(|section| &section.metrics)
    }

    /// How many published figures have a grade.
    pub fn count(&self, grade: Grade) -> usize {
        self.metrics().filter(|metric| metric.grade == grade).count()
    }

    /// The published figures by grade: `412 good, 80 rough, 20 unresolved, 5 contaminated`.
    pub fn grades(&self) -> String {
        Grade::ALL.map(|grade| format!("{} {}", self.count(grade), grade.word())).join(", ")
    }

    /// Whether a figure is one of the costs that every reader asks for.
    pub fn is_cost(&self, metric: &Metric) -> bool {
        self.costs.iter().any(|cost| cost.metric == metric.name && cost.labels == metric.labels)
    }

    /// The published figure with a name and labels.
    pub fn metric(&self, name: &str, labels: &Labels) -> Option<&Metric> {
        self.metrics().find(|metric| metric.name == name && metric.labels.same_figure(labels))
    }
}
