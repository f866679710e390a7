//! Where time buys most: which experiments have reached their targets, and what one more launch of the others would gain for
//! each second that it takes.

use std::collections::{BTreeMap, BTreeSet};

use crate::experiments::{self, Experiment, Nature};
use crate::results::document::{Document, Grade, Metric, Section};
use crate::setup::Setup;
use crate::statistics::location::FEWEST_LAUNCHES;

/// Share of an experiment's headline figures that must be good before it rests.
const REACHED_SHARE: f64 = 0.8;

/// Launches before an experiment may rest, of one that takes part in every round and of one that does so seldom.
const LEAST_LAUNCHES: [u32; 2] = [8, 5];

/// A figure that is further from its target than this many times counts no more: it may have reasons that no launch removes.
const HOPELESS: f64 = 3.0;

/// Rounds among which the time of a run is divided, once time goes to where it buys most.
const SLICES: f64 = 40.0;

/// What the figures so far say about the launches to come.
#[derive(Debug, Default)]
pub struct Worth {
    /// Experiments that have reached their targets.
    reached: BTreeSet<String>,
    /// What one more launch of an experiment gains: the fall of the squares of its figures' distances from their targets.
    gains: BTreeMap<String, f64>,
}

impl Worth {
    /// By the figures of a document.
    pub fn of(document: &Document, setup: &Setup) -> Worth {
        let mut worth = Worth::default();
        for section in &document.experiments {
            let Some(experiment) = experiments::find(&section.id) else { continue };
            let asked = asked(experiment, section);
            if has_reached(experiment, section, &asked, setup) {
                worth.reached.insert(section.id.clone());
            }
            // Without enough launches none of its figures is resolved.
            let gain = if (section.launches as usize) < FEWEST_LAUNCHES {
                f64::INFINITY
            } else {
                asked.iter().map(|metric| gain(metric, experiment.precision.target)).sum()
            };
            worth.gains.insert(section.id.clone(), gain);
        }
        worth
    }

    /// Whether an experiment has reached its targets.
    pub fn rests(&self, experiment: &str) -> bool {
        self.reached.contains(experiment)
    }

    /// Those of some experiments for which the time of a round is best spent, given the seconds of the run and of a launch of each:
    /// those that gain most for each second come first, until the round's share of the time is filled. One at least.
    pub fn best(
        &self,
        among: Vec<&'static Experiment>,
        limit: f64,
        seconds: impl Fn(&Experiment) -> f64,
    ) -> Vec<&'static Experiment> {
        let per_second = |experiment: &&Experiment| {
            let gain = self.gains.get(experiment.id).copied().unwrap_or(f64::INFINITY);
            gain / seconds(experiment).max(f64::MIN_POSITIVE)
        };
        let mut among = among;
        among.sort_by(|one, other| per_second(other).total_cmp(&per_second(one)));
        let mut left = limit / SLICES;
        let fits = |experiment: &&Experiment| {
            let fits = left > 0.0;
            left -= seconds(experiment);
            fits
        };
        among.into_iter().take_while(fits).collect()
    }
}

/// The figures that decide when an experiment rests. States of the machine, such as its clock, are waited for only where there is
/// nothing else. What all launches of the run decide, as they do the clock, gains nothing by launches of its own.
fn asked<'a>(experiment: &Experiment, section: &'a Section) -> Vec<&'a Metric> {
    let is_cost =
        |metric: &&Metric| experiment.publication(&metric.name).is_none_or(|found| found.nature == Nature::Cost);
    let (costs, states): (Vec<&Metric>, Vec<&Metric>) = section
        .metrics
        .iter()
        .filter(|metric| metric.headline && metric.launches <= section.launches)
        .partition(is_cost);
    if costs.is_empty() { states } else { costs }
}

fn has_reached(experiment: &Experiment, section: &Section, asked: &[&Metric], setup: &Setup) -> bool {
    let seldom = (experiment.every)(setup) > 1;
    let good = asked.iter().filter(|metric| metric.grade == Grade::Good).count() as f64;
    section.launches >= LEAST_LAUNCHES[usize::from(seldom)] && good >= REACHED_SHARE * asked.len() as f64
}

/// By how much one more launch lets the square of a figure's distance from its target fall: by one of as many parts as there are
/// launches.
fn gain(metric: &Metric, target: f64) -> f64 {
    let distance = match metric.grade {
        Grade::Good => return 0.0,
        // From so few launches nothing is known of the distance. More of them make no CPU quiet.
        Grade::Contaminated if (metric.launches as usize) >= FEWEST_LAUNCHES => 1.0,
        _ if (metric.launches as usize) < FEWEST_LAUNCHES => HOPELESS,
        Grade::Contaminated | Grade::Rough | Grade::Unresolved => {
            let [low, high] = metric.within_run.unwrap_or(metric.interval95);
            ((high - low) / 2.0 / metric.value.abs() / target).clamp(1.0, HOPELESS)
        }
    };
    distance * distance / f64::from(metric.launches.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_to_where_it_buys_most() {
        let gains = [("cpu.loop", 10.0), ("os.signal", 1.0), ("file.read", 30.0), ("memory.latency", 0.0)];
        let gains = gains.map(|(id, gain)| (id.to_owned(), gain)).into();
        let worth = Worth { reached: BTreeSet::new(), gains };
        let seconds = |experiment: &Experiment| match experiment.id {
            "cpu.loop" => 0.01,
            "os.signal" => 0.05,
            _ => 2.0,
        };
        let best = |ids: &[&str]| -> Vec<&str> {
            let among = ids.iter().filter_map(|id| experiments::find(id)).collect();
            worth.best(among, 4.0, seconds).iter().map(|experiment| experiment.id).collect()
        };
        // A tenth of a second for each round: what gains most comes first, and what is begun is done.
        assert_eq!(best(&["file.read", "os.signal", "cpu.loop"]), ["cpu.loop", "os.signal", "file.read"]);
        assert_eq!(best(&["memory.latency", "file.read"]), ["file.read"]);
        assert_eq!(best(&["os.signal", "cpu.timer"]), ["cpu.timer"], "nothing is known of one of them");
        assert_eq!(best(&["memory.latency"]), ["memory.latency"], "one at least");
    }
}
