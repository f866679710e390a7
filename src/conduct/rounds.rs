//! What the rounds of a run have shown so far.

use std::collections::BTreeMap;

use crate::experiments::Experiment;
use crate::plan;
use crate::results::log::Log;
use crate::results::series::Series;
use crate::rig::interference;
use crate::rig::request::INTERFERENCE;
use crate::setup::Setup;
use crate::statistics::{outlier, summary};

use super::beside::Beside;
use super::launch::Ended;

/// A interference probe that deviates by less than this from its median is not a reason to repeat a round, however steady the others are.
const PROBE_TOLERANCE: f64 = 0.1;
/// Launches of one experiment that fail in a row before it is given up.
pub(super) const FAILURES_IN_A_ROW: u32 = 3;

/// What the rounds so far have shown.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// Number of the last launch.
    pub(super) number: u32,
    pub(super) ended: u32,
    /// Launches of each experiment that were started.
    pub(super) launches: BTreeMap<String, u32>,
    pub(super) failures: BTreeMap<String, u32>,
    pub(super) probes: BTreeMap<&'static str, Vec<f64>>,
    /// How long the launches of each experiment took.
    pub(super) seconds: BTreeMap<String, Vec<f64>>,
    /// CPU time used until the last round ended.
    pub(super) since: Option<Beside>,
    /// Seconds of the run at which it ends, as far as it is known.
    pub(super) end: f64,
    /// Whether an insight was shown while the run went on.
    pub(super) insight_shown: bool,
}

impl Rounds {
    /// The state that a log leaves.
    pub(super) fn from(log: &Log) -> Self {
        let mut state = Rounds { ended: log.rounds, ..Rounds::default() };
        for launch in log.launches.iter().filter(|launch| launch.experiment == INTERFERENCE && launch.succeeded()) {
            state.judge_probes(&launch.series);
        }
        state.number = log.launches.iter().map(|launch| launch.number).max().unwrap_or(0);
        for launch in log.launches.iter().filter(|launch| !launch.first) {
            state.turn(&launch.experiment);
            if launch.succeeded() {
                state.seconds.entry(launch.experiment.clone()).or_default().extend(launch.seconds);
            }
        }
        state
    }

    /// Counts a launch of an experiment, and says how many it had before.
    pub(super) fn turn(&mut self, experiment: &str) -> u32 {
        let count = self.launches.entry(experiment.to_owned()).or_default();
        *count += 1;
        *count - 1
    }

    pub(super) fn note(&mut self, experiment: &str, ended: &Ended, seconds: f64) {
        // One that hung says nothing of the next.
        if !matches!(ended, Ended::Failed(_)) {
            self.seconds.entry(experiment.to_owned()).or_default().push(seconds);
        }
        let failures = self.failures.entry(experiment.to_owned()).or_default();
        *failures = if matches!(ended, Ended::Failed(_)) { *failures + 1 } else { 0 };
    }

    /// Seconds of the next launch of an experiment: the mean of those so far without the first, which does what later ones do seldom.
    /// Where there are none, what the first took, and no more than planned.
    pub(super) fn expected(&self, experiment: &Experiment, setup: &Setup) -> f64 {
        let planned = plan::launch_seconds(experiment, setup);
        match self.seconds.get(experiment.id).map(Vec::as_slice) {
            Some([_, later @ ..]) if !later.is_empty() => later.iter().sum::<f64>() / later.len() as f64,
            Some([first]) => first.min(planned),
            _ => planned,
        }
    }

    pub(super) fn given_up(&self, experiment: &str) -> bool {
        self.failures.get(experiment).is_some_and(|&failures| failures >= FAILURES_IN_A_ROW)
    }

    /// Adds the interference probes of a round and names those that deviate from their own median by more than 3.5 robust standard
    /// deviations and more than the tolerance.
    pub(super) fn judge_probes(&mut self, series: &[Series]) -> Vec<String> {
        let clock = value_of(series, interference::NAMES[0]).filter(|&clock| clock > 0.0);
        let mut deviating = Vec::new();
        for name in &interference::NAMES[1..] {
            let Some(ticks) = value_of(series, name) else { continue };
            // What runs at the core's clock is compared in core cycles: a change of frequency does not disturb it.
            let value = if interference::CLOCKED.contains(name) { ticks / clock.unwrap_or(1.0) } else { ticks };
            let before = self.probes.entry(name).or_default();
            let strange = outlier::deviates(before, value) == Some(true);
            let far = summary::median(before).is_some_and(|median| value > median * (1.0 + PROBE_TOLERANCE));
            before.push(value);
            if strange && far {
                deviating.push((*name).to_owned());
            }
        }
        deviating
    }
}

fn value_of(series: &[Series], name: &str) -> Option<f64> {
    series.iter().find(|series| series.name == name)?.values.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;
    use crate::setup::Profile;

    fn expected(id: &str, seconds: &[f64]) -> (f64, f64) {
        let mut state = Rounds::default();
        for &one in seconds {
            state.note(id, &Ended::Well, one);
        }
        let machine = crate::machine::detect(std::path::Path::new("/proc/nonexistent"), std::path::Path::new("/"));
        let setup = Setup::of(machine, 0, vec![0], Profile::Default);
        let experiment = experiments::find(id).unwrap_or_else(|| panic!("{id} is in the table"));
        (state.expected(experiment, &setup), plan::launch_seconds(experiment, &setup))
    }

    #[test]
    fn what_a_first_launch_does_more_does_not_count_for_the_others() {
        let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
        let planned = expected("memory.latency", &[]).1;
        for (seconds, of_next) in [(&[][..], planned), (&[9.0], planned), (&[0.01], 0.01), (&[9.0, 1.0, 3.0], 2.0)] {
            assert!(near(expected("memory.latency", seconds).0, of_next), "{seconds:?}");
        }
    }

    #[test]
    fn an_experiment_counts_its_own_launches() {
        let mut state = Rounds::default();
        let counted = ["one", "one", "other", "one"].map(|id| state.turn(id));
        assert_eq!(counted, [0, 1, 0, 2]);
    }
}
