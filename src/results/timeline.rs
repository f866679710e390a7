//! Runs of one machine over time: results, their levels, and the moments at which they changed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::comparison::{ChangedGroup, ComparedRun, Difference, Finding, NotCompared};
use super::quantity::{Better, Labels, Unit};

/// Version of the format.
pub const FORMAT: &str = "sysdyno-history/1";

/// A run that deviates in fewer than one in this many headline results is not worth a word.
const ONE_IN: u64 = 20;

/// Runs of one machine in order of time, and what changed in them. Runs are named by their places in `runs`, from 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// Format version, `sysdyno-history/1`.
    pub format: String,
    /// The machine.
    pub machine: String,
    /// The runs, the oldest first.
    pub runs: Vec<ComparedRun>,
    /// Runs that were found and take no part, in sentences.
    pub left_aside: Vec<String>,
    /// Experiments whose series begin anew within the runs.
    pub begun_anew: Vec<BegunAnew>,
    /// Fewest runs that can show a change point.
    pub runs_needed: u32,
    /// Probability of a false alarm in the whole table if nothing changed: the expected share of false change points.
    pub false_alarms: f64,
    /// Moments at which results changed, the oldest first.
    pub moments: Vec<Moment>,
    /// Drifts of headline results by what was measured.
    pub drifts: Vec<ChangedGroup>,
    /// One entry for each result that enough runs have, the largest consequence first.
    pub results: Vec<ResultTimeline>,
    /// Results that too few runs have.
    pub not_judged: Vec<NotCompared>,
}

/// An experiment whose earlier results are not of the same series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BegunAnew {
    /// Identifier of the experiment.
    pub experiment: String,
    /// First run of the series.
    pub from: u32,
    /// Earlier runs that take no part.
    pub earlier: u32,
    /// Why, in words.
    pub reason: String,
}

/// Two runs in a row between which results changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Moment {
    /// Last run before the change.
    pub before: u32,
    /// First run after it.
    pub after: u32,
    /// Facts that changed here, and neither came before nor went afterwards.
    pub differences: Vec<Difference>,
    /// Changes of headline results by what was measured.
    pub groups: Vec<ChangedGroup>,
    /// Results that changed, headline results or not.
    pub results: u32,
}

/// A result over the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResultTimeline {
    /// Identifier of its experiment.
    pub experiment: String,
    /// Name of its metric.
    pub metric: String,
    /// Its labels.
    pub labels: Labels,
    /// Its name in plain words.
    pub phrase: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Direction of improvement.
    pub better: Better,
    /// True for the results of a summary.
    pub headline: bool,
    /// Relative change that matters in this chapter.
    pub threshold: f64,
    /// What the runs show of it.
    pub points: Vec<RunPoint>,
    /// Its levels, the oldest first.
    pub levels: Vec<LevelOfRuns>,
    /// Changes between the levels, the oldest first.
    pub changes: Vec<ChangePoint>,
    /// A slow trend, where that describes the runs better than levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<SlowDrift>,
    /// Relative standard deviation of one run around its level.
    pub scatter: f64,
    /// The smallest relative step between two halves of these runs that would be found nine times in ten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable: Option<f64>,
    /// The latest level against those before it. Equivalent: a step of the threshold would have been found.
    pub finding: Finding,
}

/// A result of one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunPoint {
    /// The run.
    pub run: u32,
    /// The value.
    pub value: f64,
    /// Half of the 95 % interval within the run, relative to the value.
    pub within: f64,
    /// True where it is far from its neighbours: it takes no part.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deviates: bool,
}

/// Runs in a row with one level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LevelOfRuns {
    /// Its first run.
    pub from: u32,
    /// Its last run.
    pub to: u32,
    /// Runs that take part.
    pub runs: u32,
    /// Geometric mean of the values.
    pub value: f64,
    /// Its 95 % interval.
    pub interval: [f64; 2],
}

/// A change between two levels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangePoint {
    /// Place of its moment in `moments`.
    pub moment: u32,
    /// Last run before it, at the best place.
    pub before: u32,
    /// First run after it, at the best place.
    pub after: u32,
    /// The last run before it, at the earliest place that fits almost equally well (95 %).
    pub earliest: u32,
    /// The first run after it, at the latest place that fits almost equally well (95 %).
    pub latest: u32,
    /// Relative change: 0.1 is ten per cent more than before.
    pub change: f64,
    /// 95 % interval of the change.
    pub interval: [f64; 2],
    /// p value, adjusted for the places that were searched.
    pub p: f64,
    /// The same, adjusted for the number of results (Benjamini and Hochberg).
    pub adjusted_p: f64,
    /// Worse or better.
    pub finding: Finding,
}

/// A slow trend over all runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowDrift {
    /// Relative change from the first run to the last one.
    pub change: f64,
    /// Its 95 % interval.
    pub interval: [f64; 2],
    /// p value.
    pub p: f64,
    /// The same, adjusted for the number of results.
    pub adjusted_p: f64,
    /// Worse or better.
    pub finding: Finding,
}

impl ResultTimeline {
    /// Whether it changed, by steps or by a drift.
    pub fn is_changed(&self) -> bool {
        !self.changes.is_empty() || self.drift.is_some()
    }

    /// The latest change for the worse as a relative number: of the drift, or of the last level against the one before it and
    /// against the first one, whichever is larger. 0 where nothing changed.
    pub fn worsening(&self) -> f64 {
        if let Some(drift) = self.drift {
            return self.better.worsening(drift.change);
        }
        let Some(last) = self.changes.last() else { return 0.0 };
        let since_first = match (self.levels.first(), self.levels.last()) {
            (Some(first), Some(last)) => last.value / first.value - 1.0,
            _ => 0.0,
        };
        self.better.worsening(last.change).max(self.better.worsening(since_first))
    }
}

impl Timeline {
    /// Results of a summary.
    pub fn headline(&self) -> impl Iterator<Item = &ResultTimeline> {
        self.results.iter().filter(|result| result.headline)
    }

    /// How many headline results have a finding.
    pub fn count(&self, finding: Finding) -> u64 {
        self.headline().filter(|result| result.finding == finding).count() as u64
    }

    /// Whether the runs are too few to show anything.
    pub fn is_too_short(&self) -> bool {
        self.headline().next().is_none()
    }

    /// The run that deviates from its neighbours in most headline results, and in how many. None where they are hardly any.
    pub fn most_deviating(&self) -> Option<(usize, u64)> {
        let all = self.headline().count() as u64;
        let points = || self.headline().flat_map(|result| &result.points).filter(|point| point.deviates);
        let counted =
            (0..self.runs.len()).map(|run| (run, points().filter(|point| point.run as usize == run).count() as u64));
        counted.max_by_key(|(_, number)| *number).filter(|(_, number)| *number > 0 && number * ONE_IN >= all)
    }
}
