//! What earlier runs of this machine say of the scatter from run to run. It is written into the log when a run begins, so that
//! everything computed from the log is the same on another machine and after the earlier runs are gone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantity::Labels;

/// Fewest runs from which the scatter of a figure is computed.
pub const LEAST_RUNS: u32 = 5;

/// An interval within a run and a part between runs, which is a share of the value, as one interval: each end's distances from the
/// value, added as squares. What cannot be negative within the run is not negative with the other part.
pub fn with_part(value: f64, within: [f64; 2], between: f64) -> [f64; 2] {
    if between <= 0.0 {
        return within;
    }
    let distance = |end: f64| (value - end).hypot(between * value.abs());
    let low = value - distance(within[0]);
    [if within[0] >= 0.0 { low.max(0.0) } else { low }, value + distance(within[1])]
}

/// Scatter of a figure from run to run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BetweenRuns {
    /// Runs with the figure; at least 5.
    pub runs: u32,
    /// Standard deviation between runs beyond what the intervals within the runs explain, relative to the value.
    pub relative: f64,
}

/// The same with the figure that it is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FigureBetween {
    /// Name of the metric.
    pub metric: String,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// The scatter.
    #[serde(flatten)]
    pub between: BetweenRuns,
}

/// Earlier runs of this machine that repeat this run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// How many there are.
    pub runs: u32,
    /// Figures that enough of them have.
    pub figures: Vec<FigureBetween>,
}

impl History {
    /// The scatter of the figure with a name and labels.
    pub fn between(&self, metric: &str, labels: &Labels) -> Option<BetweenRuns> {
        let is_of = |found: &&FigureBetween| found.metric == metric && found.labels.same_figure(labels);
        self.figures.iter().find(is_of).map(|found| found.between)
    }

    /// What no run writes, if there is something.
    pub fn contradiction(&self) -> Option<String> {
        let mut before: Vec<(&str, &Labels)> = Vec::new();
        for FigureBetween { metric, labels, between } in &self.figures {
            let BetweenRuns { runs, relative } = *between;
            if !(LEAST_RUNS..=self.runs).contains(&runs) {
                return Some(format!("{metric}{{{labels}}} in {runs} of {} earlier runs", self.runs));
            }
            if !(relative >= 0.0 && relative.is_finite()) {
                return Some(format!("a scatter of {relative} of {metric}{{{labels}}}"));
            }
            before.push((metric, labels));
        }
        before.sort_unstable();
        let twice = before.windows(2).find(|pair| pair[0] == pair[1])?;
        Some(format!("a second scatter of {}{{{}}}", twice[0].0, twice[0].1))
    }
}
