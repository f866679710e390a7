//! How the shared methodology was carried out in a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds;

/// How the shared methodology was carried out: the actual parameters of the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Practice {
    /// Rounds planned.
    pub rounds_planned: u32,
    /// Launches that ended well, interference probes left out.
    pub launches: u32,
    /// Launches that did not.
    pub failed_launches: u32,
    /// Batches of one workload in one launch, the median.
    pub batches_per_launch: Option<u64>,
    /// Batches by what happened to them, most frequent first.
    pub batches: Vec<BatchCount>,
    /// Bias of the clock, removed from every interval: the largest over launches, in nanoseconds.
    pub timer_bias: Option<f64>,
    /// Resolution of the clock: the coarsest over launches, in nanoseconds.
    pub timer_resolution: Option<f64>,
    /// Core frequency over launches: lowest, median, highest, in hertz.
    pub core_hertz: Option<[f64; 3]>,
    /// Latency of a multiply over that of an addition, the median over launches; a whole number where chains are valid.
    pub chain_ratio: Option<f64>,
    /// Share of the launches' time in which other tasks had the CPU.
    pub delayed_share: Option<f64>,
    /// Share of the launches' time in which the hypervisor had the CPU.
    pub stolen_share: Option<f64>,
    /// Share of the batches during which a neighbour used the other hardware thread of the core. None where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_share: Option<f64>,
    /// Share of the launches at whose start a neighbour was on the core of the run's CPU; none where nothing looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_at_start: Option<f64>,
    /// Launches that measured on another CPU than that of the run, because a neighbour was on its core; none where all had to
    /// measure there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_launches: Option<u32>,
    /// CPUs that other processes of this machine used during the run; none where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_cpus: Option<f64>,
    /// Median error, median width and share inside of predictions for records that no coefficient was fitted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_score: Option<[f64; 3]>,
    /// Share of launches that had settled when sampling began.
    pub settled_share: Option<f64>,
}

impl Practice {
    /// Whether a run can have been carried out so; the error says what cannot.
    pub fn is_possible(&self) -> Result<(), String> {
        let shares = [
            ("the share with a neighbour", self.shared_share),
            ("the share that began with a neighbour", self.shared_at_start),
            ("the share that had settled", self.settled_share),
        ];
        shares.into_iter().try_for_each(|(what, share)| bounds::share(what, share.unwrap_or(0.0)))?;
        let numbers = [
            self.timer_bias,
            self.timer_resolution,
            self.chain_ratio,
            self.delayed_share,
            self.stolen_share,
            self.others_cpus,
        ];
        let lists = [self.core_hertz, self.records_score].into_iter().flatten().flatten();
        let mut all = numbers.into_iter().flatten().chain(lists);
        all.try_for_each(|value| bounds::number("a number of the practice", value))
    }
}

/// How many batches shared a fate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BatchCount {
    /// What happened to them, such as `clean` or `preempted`.
    pub class: String,
    /// How many.
    pub count: u64,
}
