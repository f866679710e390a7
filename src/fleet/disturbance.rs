//! What others did on a node while a check measured it: other tasks, the hypervisor, a neighbour on the core, memory traffic.
//!
//! A run sends out interference probes after each round. Together with the counters of its launches they show whether a slow result
//! is a property of the node. While others disturb the node, they say nothing about it.

use std::fmt;

use crate::evaluate::others::TAKEN_SHARE;
use crate::neighbour::batches::shared_share;
use crate::results::evidence::Evidence;
use crate::results::log::Launch;
use crate::results::series::Series;
use crate::results::wording::percent;
use crate::rig::interference;
use crate::rig::request::INTERFERENCE;
use crate::statistics::summary::mean;

/// Share of the batches with a neighbour on the core from which on it disturbs. Batches with a neighbour are left out where others
/// remain, so a rare neighbour moves no result.
const NEIGHBOUR_SHARE: f64 = 0.25;
/// CPUs that other programs may use on the whole node. Daemons of an idle node use less. One busy task during a check of two
/// seconds counts as 0.6, because the ticks of the kernel are coarse.
const OTHERS_CPUS: f64 = 0.3;
/// The slowest memory probe over the fastest one. On a quiet virtual machine it is 1.16 in 45 rounds.
const MEMORY_SPREAD: f64 = 1.3;
/// Name of the probe of main memory.
const MEMORY: &str = interference::NAMES[3];

/// What disturbed a check, with how much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Disturbance {
    /// Share of the time that other tasks and interrupts took on the measured CPU.
    Tasks(f64),
    /// Share of the time that the hypervisor took.
    Hypervisor(f64),
    /// Share of the batches with a neighbour on the core.
    Neighbour(f64),
    /// The slowest memory probe over the fastest one.
    Memory(f64),
    /// CPUs that other programs used.
    Programs(f64),
}

impl fmt::Display for Disturbance {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Disturbance::Tasks(share) => write!(out, "other tasks took {} of the CPU", percent(share)),
            Disturbance::Hypervisor(share) => write!(out, "the hypervisor took {} of the CPU", percent(share)),
            Disturbance::Neighbour(share) => {
                write!(out, "a neighbour used the core for {} of the batches", percent(share))
            }
            Disturbance::Memory(spread) => write!(out, "the speed of memory changed by {}", percent(spread - 1.0)),
            Disturbance::Programs(cpus) => write!(out, "other programs used {cpus:.1} CPUs"),
        }
    }
}

/// What disturbed the launches of a run, the most direct cause first. `others_cpus` has the CPUs that other programs used, round by
/// round.
pub fn disturbance(launches: &[Launch], others_cpus: &[f64]) -> Option<Disturbance> {
    let well: Vec<&Launch> = launches.iter().filter(|launch| launch.succeeded()).collect();
    let (probes, work): (Vec<&Launch>, Vec<&Launch>) =
        well.iter().partition(|launch| launch.experiment == INTERFERENCE);
    let above = |share: Option<f64>, most: f64| share.filter(|share| *share > most);
    // Launches with several tasks wait for their own. Probes have one thread.
    let waited = share(&probes, |found| found.run_delay);
    let lost = mean(&values(&probes, |series| {
        series.name == interference::OTHERS && series.labels.get("placement") == Some(interference::SAME_CPU)
    }));
    let stolen = share(&well, |found| found.steal);
    let tasks = [waited, lost].into_iter().flatten().reduce(f64::max);
    let memory = values(&probes, |series| series.name == MEMORY);
    let spread = memory.iter().copied().reduce(f64::max).zip(memory.iter().copied().reduce(f64::min));
    let spread = spread.filter(|(_, fastest)| *fastest > 0.0).map(|(slowest, fastest)| slowest / fastest);
    // What the hypervisor took is also missing in the probes, so it is asked first.
    above(stolen, TAKEN_SHARE)
        .map(Disturbance::Hypervisor)
        .or_else(|| above(tasks, TAKEN_SHARE).map(Disturbance::Tasks))
        .or_else(|| above(shared_share(&work), NEIGHBOUR_SHARE).map(Disturbance::Neighbour))
        .or_else(|| above(mean(others_cpus), OTHERS_CPUS).map(Disturbance::Programs))
        .or_else(|| above(spread, MEMORY_SPREAD).map(Disturbance::Memory))
}

/// A counter over the time of the launches that have it.
fn share(launches: &[&Launch], of: impl Fn(&Evidence) -> Option<f64>) -> Option<f64> {
    let evidence = launches.iter().filter_map(|launch| launch.evidence.as_ref());
    let known: Vec<(f64, f64)> = evidence.filter_map(|found| Some((of(found)?, found.wall))).collect();
    let wall: f64 = known.iter().map(|(_, wall)| wall).sum();
    (wall > 0.0).then(|| known.iter().map(|(taken, _)| taken).sum::<f64>() / wall)
}

fn values(launches: &[&Launch], wanted: impl Fn(&Series) -> bool) -> Vec<f64> {
    let series = launches.iter().flat_map(|launch| &launch.series).filter(|series| wanted(series));
    series.flat_map(|series| series.values.iter().copied()).collect()
}

#[cfg(test)]
pub mod scripted {
    //! Launches with the probes and counters that a test asks for.

    use super::*;
    use crate::results::quantity::{Labels, Unit};

    /// A launch of 50 ms.
    pub fn launch(experiment: &str, series: Vec<Series>, change: impl Fn(&mut Evidence)) -> Launch {
        let mut evidence = Evidence { wall: 5e7, run_delay: Some(0.0), steal: Some(0.0), ..Evidence::default() };
        change(&mut evidence);
        Launch {
            number: 1,
            round: 1,
            experiment: experiment.to_owned(),
            first: false,
            series,
            evidence: Some(evidence),
            seconds: Some(0.05),
            failed: None,
            interrupted: false,
        }
    }

    /// A probe that lost a share of the measured CPU and saw a time of main memory.
    pub fn probe(lost: f64, memory: f64) -> Launch {
        let others = Labels::of([("placement", interference::SAME_CPU)]);
        let series = vec![
            Series::plain(MEMORY, Labels::none(), Unit::Ticks, vec![memory]),
            Series::plain(interference::OTHERS, others, Unit::One, vec![lost]),
        ];
        launch(INTERFERENCE, series, |_| {})
    }
}

#[cfg(test)]
mod tests {
    use super::scripted::{launch, probe};
    use super::*;
    use crate::results::problem::Problem;
    use crate::results::quantity::{Labels, Unit};

    fn work(widths: [f64; 2]) -> Launch {
        let mut series = Series::plain("loop", Labels::none(), Unit::Ticks, vec![1.0; 20]);
        series.widths = vec![[1.01, 1.01]; 10].into_iter().chain(vec![widths; 10]).collect();
        launch("cpu.loop", vec![series], |_| {})
    }

    #[test]
    fn a_quiet_node_has_no_disturbance() {
        let launches = [work([1.01, 1.02]), probe(0.01, 700.0), probe(0.02, 780.0), probe(0.12, 700.0)];
        assert_eq!(disturbance(&launches, &[0.1, 0.2]), None, "one burst of three probes");
        assert_eq!(disturbance(&[], &[]), None, "nothing is known");
    }

    #[test]
    fn each_kind_of_others_is_named() {
        let quiet = || vec![work([1.01, 1.02]), probe(0.0, 700.0), probe(0.0, 710.0)];
        let found = |more: Launch, cpus: &[f64]| {
            let launches: Vec<Launch> = quiet().into_iter().chain([more]).collect();
            disturbance(&launches, cpus).map(|found| found.to_string())
        };
        let said = |text: &str| Some(text.to_owned());
        assert_eq!(found(probe(0.6, 700.0), &[]), said("other tasks took 20 % of the CPU"));
        let waited = launch(INTERFERENCE, Vec::new(), |found| found.run_delay = Some(2.5e7));
        assert_eq!(found(waited, &[]), said("other tasks took 17 % of the CPU"));
        let own = launch("os.context_switch", Vec::new(), |found| found.run_delay = Some(2.5e7));
        assert_eq!(found(own, &[]), None, "a launch can wait for its own tasks");
        let stolen = launch("cpu.loop", Vec::new(), |found| found.steal = Some(5e7));
        assert_eq!(found(stolen, &[]), said("the hypervisor took 25 % of the CPU"));
        assert_eq!(found(work([1.7, 1.8]), &[]), None, "a quarter of the batches");
        let beside = [work([1.7, 1.8]), probe(0.0, 700.0)];
        assert_eq!(
            disturbance(&beside, &[]).map(|found| found.to_string()),
            said("a neighbour used the core for 50 % of the batches")
        );
        assert_eq!(found(probe(0.0, 1050.0), &[]), said("the speed of memory changed by 50 %"));
        assert_eq!(found(probe(0.0, 700.0), &[1.5, 1.0]), said("other programs used 1.2 CPUs"));
        let failed = Launch { failed: Some(Problem::new("broken")), ..probe(1.0, 700.0) };
        assert_eq!(found(failed, &[]), None, "a failed launch is no witness");
    }
}
