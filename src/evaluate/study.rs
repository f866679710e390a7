//! What an analysis may look at: the launches of one experiment and what the run found once.

use std::collections::BTreeSet;

use crate::results::between::History;
use crate::results::document::Metric;
use crate::results::evidence::Evidence;
use crate::results::log::{Clock, Launch, Log};
use crate::results::prediction::Prediction;
use crate::results::quantity::{Hertz, Labels};
use crate::results::series::Series;
use crate::rig::request::INTERFERENCE;
use crate::setup::Setup;
use crate::statistics::summary::median;

use super::precision::Precision;
use crate::neighbour::batches::{LoopTurn, shared_share};

/// Batches that were alone on their core scatter to both sides alike where they stay in user code: the median.
const WITHIN_CPU: f64 = 0.5;
/// Where they enter the kernel, what is left of others only adds time: the lower quartile.
const WITHIN_KERNEL: f64 = 0.25;

/// What all launches of a run show together, whichever experiment asks.
#[derive(Debug, Clone)]
pub struct WholeRun {
    /// Core frequency of every launch.
    core_by_launch: Vec<f64>,
    /// Cycles of a turn alone on the core, by all looks; none where none was taken.
    turn: Option<LoopTurn>,
    /// Share of the batches during which a neighbour used the core.
    shared: f64,
}

impl WholeRun {
    /// By all launches of a log that ended well.
    pub fn of(log: &Log) -> Self {
        let succeeded = || log.launches.iter().filter(|launch| launch.succeeded());
        let shared = shared_share(&succeeded().collect::<Vec<_>>());
        WholeRun {
            core_by_launch: log.clock.as_ref().map_or_else(Vec::new, |clock| core_frequencies(clock, succeeded())),
            turn: LoopTurn::of(succeeded().flat_map(|launch| &launch.series)),
            shared: shared.unwrap_or(0.0),
        }
    }
}

/// The material of one experiment's analysis.
#[derive(Debug, Clone)]
pub struct Study<'a> {
    /// What was known of the run before anything was timed.
    pub setup: &'a Setup,
    /// The run's clock.
    pub clock: &'a Clock,
    /// Reference core frequency: the median over all launches of the run; none where no chain of known latency validates.
    pub core: Option<Hertz>,
    /// Core frequency of every launch of the run, of which that is the median.
    pub core_by_launch: Vec<f64>,
    /// Cycles of a turn alone on the core, by all looks of the run; none where none was taken.
    pub turn: Option<LoopTurn>,
    /// Share of the batches of the run during which a neighbour used the core. It is 0 where nothing looked.
    pub shared: f64,
    /// Which quantile of the batches of a launch stands for it, where only batches that were alone on their core count.
    pub within: f64,
    /// What is asked of its figures.
    pub precision: Precision,
    /// Version of the method that gave its series; 0 where the log has no plan of it.
    pub method_version: u32,
    /// Launches of this experiment that ended well, in the order in which they ran.
    pub launches: Vec<&'a Launch>,
    /// Interference probes of the rounds in which this experiment was launched.
    pub probes: Vec<&'a Launch>,
    /// Predictions of this experiment's figures.
    pub predictions: Vec<&'a Prediction>,
    /// Figures of the experiments before it.
    pub known: &'a [Metric],
    /// What the core clock moves between runs, as a share; 0 where the run does not say it.
    pub clock_share: f64,
    /// Earlier runs of the machine, if they were looked at.
    pub history: Option<&'a History>,
}

impl<'a> Study<'a> {
    /// The study of one experiment of a log, with the launches that hold its series; none when the log has no clock, because then nothing was measured.
    pub fn of(
        setup: &'a Setup,
        log: &'a Log,
        whole: &WholeRun,
        launches: &'a [Launch],
        experiment: &str,
        precision: Precision,
        known: &'a [Metric],
    ) -> Option<Self> {
        let clock = log.clock.as_ref()?;
        let launches: Vec<&Launch> =
            launches.iter().filter(|launch| launch.experiment == experiment && launch.succeeded()).collect();
        let rounds: BTreeSet<u32> = launches.iter().map(|launch| launch.round).collect();
        let probes = log
            .launches
            .iter()
            .filter(|launch| launch.experiment == INTERFERENCE && launch.succeeded() && rounds.contains(&launch.round))
            .collect();
        Some(Study {
            setup,
            clock,
            core: median(&whole.core_by_launch).map(Hertz),
            core_by_launch: whole.core_by_launch.clone(),
            turn: whole.turn,
            shared: whole.shared,
            precision,
            method_version: log
                .steps
                .iter()
                .find(|step| step.experiment == experiment)
                .map_or(0, |step| step.method_version),
            within: if experiment.starts_with("cpu.") { WITHIN_CPU } else { WITHIN_KERNEL },
            launches,
            probes,
            predictions: log.predictions.iter().filter(|(of, _)| of == experiment).map(|(_, found)| found).collect(),
            known,
            clock_share: 0.0,
            history: log.history.as_ref(),
        })
    }

    /// Counters of every launch.
    pub fn evidence(&self) -> impl Iterator<Item = &'a Evidence> {
        self.launches.iter().filter_map(|launch| launch.evidence.as_ref())
    }

    /// The series with a name and exactly these labels in each launch that has it.
    pub fn series(&self, name: &str, labels: &Labels) -> Vec<&'a Series> {
        self.numbered_series(name, labels).into_iter().map(|(_, series)| series).collect()
    }

    /// The same with the numbers of the launches.
    pub fn numbered_series(&self, name: &str, labels: &Labels) -> Vec<(u32, &'a Series)> {
        let of =
            |launch: &'a Launch| launch.series.iter().find(|series| series.name == name && series.labels == *labels);
        self.launches.iter().filter_map(|launch| Some((launch.number, of(launch)?))).collect()
    }

    /// All values of a series that is not made of batches, launch after launch.
    pub fn values(&self, name: &str, labels: &Labels) -> Vec<f64> {
        self.series(name, labels).into_iter().flat_map(|series| series.values.iter().copied()).collect()
    }

    /// Values of a remark, one per launch that made it.
    pub fn remarks(&self, what: &str) -> Vec<&'a str> {
        self.evidence()
            .flat_map(|evidence| &evidence.remarks)
            .filter(|remark| remark.what == what)
            .map(|remark| remark.value.as_str())
            .collect()
    }

    /// The figure of an earlier experiment of this run with a name and labels.
    pub fn metric(&self, name: &str, labels: &Labels) -> Option<&'a Metric> {
        self.known.iter().find(|metric| metric.name == name && metric.labels.same_figure(labels))
    }

    /// The prediction of a figure.
    pub fn prediction(&self, metric: &str, labels: &Labels) -> Option<&'a Prediction> {
        self.predictions.iter().find(|prediction| prediction.is_for(metric, labels)).copied()
    }

    /// Nanoseconds in a number of clock ticks.
    pub fn nanoseconds(&self, ticks: f64) -> f64 {
        ticks / self.clock.hertz * 1e9
    }
}

/// Core frequency of one launch: its chain probe at the end, against the run's clock. The mean of two probes can be a frequency at
/// which the core never ran.
pub fn core_frequency_of(clock: &Clock, evidence: &Evidence) -> Option<f64> {
    let ticks_per_cycle = evidence.ticks_per_cycle_after?;
    (ticks_per_cycle > 0.0).then(|| clock.hertz / ticks_per_cycle)
}

fn core_frequencies<'a>(clock: &Clock, launches: impl Iterator<Item = &'a Launch>) -> Vec<f64> {
    launches.filter_map(|launch| core_frequency_of(clock, launch.evidence.as_ref()?)).collect()
}
