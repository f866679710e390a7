//! Two sides of runs compared, result by result.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::across::AcrossMachines;
use super::quantity::{Better, Labels, Unit};

/// Version of the format.
pub const FORMAT: &str = "sysdyno-comparison/1";

/// Runs of a base and of something new, and what differs between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Format version, `sysdyno-comparison/1`.
    pub format: String,
    /// The runs that the others are compared with.
    pub base: Vec<ComparedRun>,
    /// The runs that are compared with them.
    pub new: Vec<ComparedRun>,
    /// True where runs of different machines, peers or methods were compared on request.
    pub across: bool,
    /// Core clock of base and new runs in hertz, by results in core cycles. Such results are compared at the clock of the base.
    /// Absent where no result has core cycles, and between machines, where the clock is a part of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_hz: Option<[f64; 2]>,
    /// The two conditions, where they were measured in turn; absent where runs were compared that existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternation: Option<Alternation>,
    /// Facts about machine and runs that differ, the most important first.
    pub differences: Vec<Difference>,
    /// One entry for each result that both sides have, the largest consequence first.
    pub rows: Vec<ComparedResult>,
    /// Changes of headline results by what was measured, the largest first.
    pub groups: Vec<ChangedGroup>,
    /// Results that could not be compared.
    pub not_compared: Vec<NotCompared>,
    /// The costs of different machines next to each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub across_machines: Option<AcrossMachines>,
}

/// Two conditions that were measured in turn, one run of each in a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Alternation {
    /// Command of the base.
    pub base: String,
    /// Command of the new condition.
    pub new: String,
    /// Rounds that ended.
    pub rounds: u32,
    /// Seconds that they took.
    pub seconds: f64,
    /// Command that restored the first condition at the end; absent where nothing had to be restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<String>,
}

/// A run of one side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedRun {
    /// Where it was read.
    pub place: String,
    /// Design of the core and number of CPUs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub machine: String,
    /// Identifier: host and start time.
    pub id: String,
    /// Start, RFC 3339.
    pub started: String,
    /// Profile: quick, default or rigorous.
    pub profile: String,
    /// Seconds measured.
    pub seconds: f64,
    /// CPU on which launches measured.
    pub cpu: u32,
    /// Share of the batches during which a neighbour used the same core; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_share: Option<f64>,
}

/// A fact that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Name of the fact.
    pub fact: String,
    /// Its values in the base runs.
    pub base: String,
    /// Its values in the new runs.
    pub new: String,
}

/// What the data say about a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// It changed, and for the worse.
    Worse,
    /// It changed, and for the better.
    Better,
    /// The data do not decide.
    Inconclusive,
    /// Every change that the data permit is smaller than the threshold.
    Equivalent,
}

/// A result of both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedResult {
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
    /// The base.
    pub base: SideValue,
    /// The new one.
    pub new: SideValue,
    /// Relative change: 0.1 is ten per cent more than the base.
    pub change: f64,
    /// 95 % interval of the change, with the scatter within and between runs. It ends where the ratio is 100 times from that of the
    /// change.
    pub interval: [f64; 2],
    /// Relative change that matters in this chapter.
    pub threshold: f64,
    /// Two-sided p value.
    pub p: f64,
    /// The same, adjusted for the number of results (Benjamini and Hochberg). 1 where a side has fewer than five launches.
    pub adjusted_p: f64,
    /// What the data say.
    pub finding: Finding,
    /// For an undecided result: launches of each side from which a change of the threshold is found four times in five. 1000 stands
    /// for as many or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launches_needed: Option<u64>,
    /// The same in runs of each side, where more launches of one run do not suffice. 100 stands for as many or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_needed: Option<u64>,
    /// What explains a change, as far as facts of the machines do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
}

/// A result on one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SideValue {
    /// The value: of one run, or the geometric mean of several.
    pub value: f64,
    /// Its 95 % interval, with the scatter between runs. It ends at 100 times the value and at a hundredth of it.
    pub interval: [f64; 2],
    /// Launches of all runs.
    pub launches: u32,
    /// Runs that have it.
    pub runs: u32,
}

/// Headline results of one kind that changed in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedGroup {
    /// What was measured, in plain words.
    pub what: String,
    /// Worse or better.
    pub finding: Finding,
    /// The smallest and the largest relative change.
    pub range: [f64; 2],
    /// How many results.
    pub results: u32,
}

/// A result that could not be compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotCompared {
    /// Name of its metric.
    pub metric: String,
    /// Its labels.
    pub labels: Labels,
    /// Why not.
    pub reason: String,
}

/// Launches and runs that stand for as many or more.
const MANY_LAUNCHES: u64 = 1_000;
const MANY_RUNS: u64 = 100;
/// Intervals end this many times above and below their values.
const FARTHEST: f64 = 100.0;

impl ComparedResult {
    /// Cuts what says only that nothing is known: intervals over many powers of ten, and numbers of runs that no user makes.
    pub fn cut(&mut self) {
        let ratio = 1.0 + self.change;
        let [low, high] = self.interval;
        self.interval = [low.max(ratio / FARTHEST - 1.0), high.min(ratio * FARTHEST - 1.0)];
        for side in [&mut self.base, &mut self.new] {
            let [low, high] = side.interval;
            side.interval = [low.max(side.value / FARTHEST), high.min(side.value * FARTHEST)];
        }
        self.launches_needed = self.launches_needed.map(|count| count.min(MANY_LAUNCHES));
        self.runs_needed = self.runs_needed.map(|count| count.min(MANY_RUNS));
    }

    /// What would decide it, in words. `unit` is what there can be more of.
    pub fn needed(&self, unit: &str) -> Option<String> {
        let many = |count: u64, most: u64| if count < most { count.to_string() } else { "many".to_owned() };
        let launches = self.launches_needed.map(|count| format!("needs {} launches", many(count, MANY_LAUNCHES)));
        launches.or_else(|| self.runs_needed.map(|count| format!("needs {} {unit}", many(count, MANY_RUNS))))
    }

    /// Whether it changed.
    pub fn is_changed(&self) -> bool {
        matches!(self.finding, Finding::Worse | Finding::Better)
    }

    /// The change for the worse as a relative number: above 0 where the new side costs more or gives less.
    pub fn worsening(&self) -> f64 {
        self.better.worsening(self.change)
    }

    /// The largest change for the worse that the data permit.
    pub fn worst(&self) -> f64 {
        self.interval.map(|end| self.better.worsening(end)).into_iter().fold(f64::NEG_INFINITY, f64::max)
    }
}

impl Comparison {
    /// Whether both sides are the same runs.
    pub fn is_with_itself(&self) -> bool {
        let ids =
            |runs: &[ComparedRun]| runs.iter().map(|run| (run.id.clone(), run.started.clone())).collect::<Vec<_>>();
        ids(&self.base) == ids(&self.new)
    }

    /// Results of a summary.
    pub fn headline(&self) -> impl Iterator<Item = &ComparedResult> {
        self.rows.iter().filter(|row| row.headline)
    }

    /// How many headline results have a finding.
    pub fn count(&self, finding: Finding) -> u64 {
        self.headline().filter(|row| row.finding == finding).count() as u64
    }
}
