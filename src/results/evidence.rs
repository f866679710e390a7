//! What was observed while a launch measured: the material of its verdicts.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::problem::Problem;
use super::quantity::Labels;

/// Counters of one launch, taken around its measuring part. Times are nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// CPU on which the launch measured.
    pub cpu: u32,
    /// Whether the CPU of the run was alone on its core when the launch began; none where nothing looked, because the launch had no
    /// other CPU to measure on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_alone: Option<bool>,
    /// Time from the first to the last batch.
    pub wall: f64,
    /// CPU time of the launch in that span (user and system).
    pub cpu_time: f64,
    /// Time the launch was runnable but waited for the CPU (`/proc/self/schedstat`, second field), if readable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay: Option<f64>,
    /// Time the hypervisor took from this CPU (`/proc/stat`, steal), if readable. Grain: one tick of USER_HZ (10 ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal: Option<f64>,
    /// Context switches that the launch asked for by blocking.
    pub voluntary_switches: i64,
    /// Context switches that were forced on it.
    pub involuntary_switches: i64,
    /// Page faults served without a device.
    pub minor_faults: i64,
    /// Page faults that needed a device.
    pub major_faults: i64,
    /// Clock ticks per core cycle before the first batch, by the multiply chain; none where no chain of known latency
    /// validates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticks_per_cycle_before: Option<f64>,
    /// The same after the last batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticks_per_cycle_after: Option<f64>,
    /// Latency of the multiply chain over latency of the add chain; an integer on a core that does neither in its renamer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_ratio: Option<f64>,
    /// Deviation of this launch's own clock calibration from the run's, in parts per million; none when the launch is
    /// too short to show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_deviation_ppm: Option<f64>,
    /// Error bound of that deviation, in parts per million.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_deviation_bound_ppm: Option<f64>,
    /// Back-to-back interval of the timing pair, in ticks: removed from every interval.
    pub timer_bias: f64,
    /// Smallest step of the clock, in ticks.
    pub timer_resolution: f64,
    /// Batches discarded as warm-up, over all series.
    pub warm_up_batches: u64,
    /// False when the series had not settled when the warm-up limit was reached.
    pub settled: bool,
    /// Time the tool itself took in this launch: start, self-checks, sizing, logging.
    pub own_share: f64,
    /// Remarks of the experiment: facts that a verdict or an analysis needs and no series carries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<Remark>,
}

/// A fact noted by an experiment while it measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remark {
    /// Name within the experiment, such as `serialisation.lfence_rdtsc`.
    pub what: String,
    /// Its value as text.
    pub value: String,
    /// What the user can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// What remarks begin with that name figures which cannot be had.
const UNAVAILABLE: &str = "unavailable ";

impl Remark {
    /// A fact without advice.
    pub fn of(what: &str, value: &dyn fmt::Display) -> Self {
        Remark { what: what.to_owned(), value: value.to_string(), hint: None }
    }

    /// Why a figure cannot be had, or every figure of a metric that has these labels.
    pub fn unavailable(metric: &str, labels: &Labels, why: &Problem) -> Self {
        let what = format!("{UNAVAILABLE}{metric} {labels}");
        Remark { hint: why.hint.clone(), ..Remark::of(what.trim_end(), &why.what) }
    }

    /// The metric and the labels of what cannot be had; none for a remark on anything else.
    pub fn unavailable_figures(&self) -> Option<(&str, Labels)> {
        let figures = self.what.strip_prefix(UNAVAILABLE)?;
        let (metric, labels) = figures.split_once(' ').unwrap_or((figures, ""));
        Some((metric, Labels::parse(labels)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_read_as_it_was_written() {
        for labels in [Labels::none(), Labels::of([("call", "getppid")]).with("bytes", 4096)] {
            let remark = Remark::unavailable("os.system_call.time", &labels, &Problem::new("a filter refuses it"));
            assert_eq!(remark.unavailable_figures(), Some(("os.system_call.time", labels)));
            assert_eq!(remark.value, "a filter refuses it");
        }
        let other = |what: &str| Remark::of(what, &"");
        assert_eq!(other("library").unavailable_figures(), None);
        assert_eq!(other("unavailable os.system_call.time getppid").unavailable_figures(), None);
    }
}
