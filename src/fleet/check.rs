//! One node against limits that its healthy siblings set, or against its own predictions.

use std::collections::{BTreeMap, BTreeSet};

use super::reading::{Names, NodeRun, Reading};
use super::{AxisState, NodeAxis, cause, reading};
use crate::experiments::phrases::phrase;
use crate::results::accepted::{Accepted, AcceptedLimit, AcceptedModel};
use crate::results::compact::Compact;
use crate::results::fleet::Axis;
use crate::results::quantity::{Better, Labels, Unit};
use crate::results::verdict::Trust;
use crate::statistics::distribution::normal_factor;

/// Confidence with which a result must be beyond its limit.
const LEVEL: f64 = 0.95;
/// An axis of which a smaller share of the limits was compared is undecided.
const ENOUGH: f64 = 0.5;
/// A result is beyond its prediction from this many times its predicted range on. Siblings set narrower limits than a prediction.
const MARGIN: f64 = 1.5;
/// Stands for a fact that a node does not have, as in the limits.
const ABSENT: &str = "(absent)";

/// A fact with another value than the accepted ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferingFact {
    /// Name of the fact.
    pub fact: String,
    /// Its value here.
    pub value: String,
    /// The accepted values.
    pub accepted: Vec<String>,
}

/// How a result stands to its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitState {
    /// It can be within them.
    Within,
    /// Its interval is beyond the limit, for the worse.
    Crossed,
    /// It is missing or contaminated.
    Unknown,
}

/// A result with its limit.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitedResult {
    /// Axis that it belongs to; absent for a result that is compared with its prediction.
    pub axis: Option<Axis>,
    /// Experiment that measures it.
    pub experiment: String,
    /// Its name in plain words.
    pub phrase: String,
    /// Unit of the numbers.
    pub unit: Unit,
    /// The value here; absent where it is missing.
    pub value: Option<f64>,
    /// The limit for the worse.
    pub limit: f64,
    /// Value over the median of healthy nodes, or over the limit; above 1 is worse.
    pub ratio: Option<f64>,
    /// How it stands.
    pub state: LimitState,
}

/// The limits for a model of machine, where there are some.
pub fn accepted_model<'a>(accepted: &'a Accepted, fingerprint: &str) -> Option<&'a AcceptedModel> {
    accepted.models.iter().find(|model| model.fingerprint == fingerprint)
}

/// Facts whose values are not accepted.
pub fn check_facts(model: &AcceptedModel, facts: &BTreeMap<String, String>) -> Vec<DifferingFact> {
    let here: BTreeMap<&str, &str> =
        facts.iter().map(|(fact, value)| (reading::kind(fact), value.as_str())).rev().collect();
    let differing = model.facts.iter().filter_map(|row| {
        let value = here.get(row.fact.as_str()).copied().unwrap_or(ABSENT);
        (!row.values.is_empty() && !row.values.iter().any(|accepted| accepted == value)).then(|| DifferingFact {
            fact: row.fact.clone(),
            value: value.to_owned(),
            accepted: row.values.clone(),
        })
    });
    differing.collect()
}

/// Whether a difference can come from who reads: facts that only root can read, or can read better. A job of a user sets limits that a
/// daemon of root checks, and the other way round.
pub fn depends_on_reader(differing: &DifferingFact, is_root: bool) -> bool {
    /// What comes from the table of the firmware, from settings of DAMON, and from debugfs.
    const OF_ROOT: [&str; 5] = [
        "Memory: module ",
        "Memory: channels",
        "Memory: peak bandwidth",
        "Memory: reclaimed early by",
        "Kernel: preemption",
    ];
    let is_withheld =
        |value: &str| value == "not derivable" || value.contains("only root") || value.starts_with("PREEMPT");
    let here = differing.value.as_str();
    OF_ROOT.iter().any(|begin| differing.fact.starts_with(begin))
        && (is_withheld(here)
            || !is_root && here == ABSENT
            || differing.accepted.iter().any(|accepted| is_withheld(accepted)))
}

/// Experiments whose limits come from another version of their method. `version` is that of this build.
pub fn other_methods(model: &AcceptedModel, version: impl Fn(&str) -> Option<u32>) -> BTreeSet<&str> {
    let stated = model.methods.split(", ").filter_map(|stated| stated.split_once(' '));
    let differs = |(id, stated): &(&str, &str)| {
        stated.parse::<u32>().is_ok_and(|stated| version(id).is_some_and(|version| version != stated))
    };
    stated.filter(differs).map(|(id, _)| id).collect()
}

/// The results of a run against the limits of its model. `experiment` names the experiment of a metric.
pub fn check_results(
    model: &AcceptedModel,
    run: Compact,
    experiment: impl Fn(&str) -> Option<&'static str>,
) -> Vec<LimitedResult> {
    let names = Names::default();
    let node = run.node.name.clone().unwrap_or_default();
    let reading = Reading::of(&NodeRun { node, place: String::new(), run }, &names);
    let rows = model.limits.iter().map(|limit| {
        let labels = limit.labels.to_string();
        let key = reading.keys.iter().find(|key| key.name.metric == limit.metric && key.name.labels == labels);
        let value = key.and_then(|key| match (limit.per_cycle, limit.unit) {
            (true, _) | (false, Unit::Cycles) => key.by_clock,
            _ => Some(key.value),
        });
        let known = key.zip(value).filter(|(key, _)| !key.contaminated);
        let state = known.map_or(LimitState::Unknown, |(key, value)| state_of(limit, value, key.error));
        LimitedResult {
            axis: Some(limit.axis),
            // A metric that this build does not have is a result that is missing.
            experiment: experiment(&limit.metric).unwrap_or_default().to_owned(),
            phrase: phrase(&limit.metric, &limit.labels),
            unit: limit.unit,
            value,
            limit: if limit.better == Better::Lower { limit.high } else { limit.low },
            ratio: value.map(|value| worse_by(limit.better, value / limit.median)),
            state,
        }
    });
    rows.collect()
}

fn state_of(limit: &AcceptedLimit, value: f64, error: f64) -> LimitState {
    let reach = (error * normal_factor(LEVEL).unwrap_or(2.0)).exp();
    let crossed = match limit.better {
        Better::Lower => value / reach > limit.high,
        Better::Higher => value * reach < limit.low,
    };
    if crossed { LimitState::Crossed } else { LimitState::Within }
}

/// A ratio of which more than 1 is worse.
fn worse_by(better: Better, ratio: f64) -> f64 {
    if better == Better::Lower { ratio } else { 1.0 / ratio }
}

/// The headline results of a run against their predicted ranges.
pub fn check_predictions(run: &Compact) -> Vec<LimitedResult> {
    let metrics = run.experiments.iter().flat_map(|found| found.metrics.iter().map(move |metric| (found, metric)));
    let figures = metrics.flat_map(|(found, metric)| metric.figures.iter().map(move |figure| (found, metric, figure)));
    let rows = figures.filter(|(.., figure)| figure.headline).filter_map(|(found, metric, figure)| {
        let [low, high] = figure.predicted?;
        let limit = if metric.better == Better::Lower { MARGIN * high } else { low / MARGIN };
        let known = figure.trust < Trust::Contaminated && !figure.at_least;
        let worse = match metric.better {
            Better::Lower => figure.interval[0] > MARGIN * high,
            Better::Higher => figure.interval[1] * MARGIN < low,
        };
        let labels = Labels::parse(&figure.labels)?;
        Some(LimitedResult {
            axis: None,
            experiment: found.id.clone(),
            phrase: phrase(&metric.name, &labels),
            unit: metric.unit,
            value: Some(figure.value),
            limit,
            ratio: Some(worse_by(metric.better, figure.value / limit)),
            state: match (known, worse) {
                (false, _) => LimitState::Unknown,
                (true, true) => LimitState::Crossed,
                (true, false) => LimitState::Within,
            },
        })
    });
    rows.collect()
}

/// Axes of which too little was compared. Results without an axis are one.
pub fn undecided_axes(results: &[LimitedResult]) -> Vec<Option<Axis>> {
    let mut counts: BTreeMap<Option<&'static str>, (Option<Axis>, f64, f64)> = BTreeMap::new();
    for result in results {
        let entry = counts.entry(result.axis.map(Axis::name)).or_insert((result.axis, 0.0, 0.0));
        entry.1 += 1.0;
        entry.2 += f64::from(u8::from(result.state == LimitState::Unknown));
    }
    let too_little = counts.into_values().filter(|(_, all, unknown)| all - unknown < ENOUGH * all);
    too_little.map(|(axis, ..)| axis).collect()
}

/// What results beyond their limits look like.
pub fn looks_like(results: &[LimitedResult]) -> Option<String> {
    let axes: Vec<NodeAxis> = Axis::ALL
        .into_iter()
        .map(|axis| {
            let crossed: Vec<f64> = results
                .iter()
                .filter(|result| result.axis == Some(axis) && result.state == LimitState::Crossed)
                .filter_map(|result| result.ratio)
                .collect();
            let effect = crossed.iter().copied().reduce(f64::max).map(|ratio| 1.0 / ratio - 1.0);
            let state = if effect.is_some() { AxisState::Odd } else { AxisState::Usual };
            NodeAxis { axis, state, effect, z: None, runs: 2, reason: None }
        })
        .collect();
    cause::cause(&axes, &[], |axis| axis.state == AxisState::Odd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::accepted::{AcceptedFact, FORMAT};

    const RUN: &str = include_str!("../../records/guest-zen4-2cpu-quiet-hour/node.json");

    fn run() -> Compact {
        Compact::parse(RUN.as_bytes()).unwrap()
    }

    /// A limit around the value of the run, times a factor.
    fn limit(metric: &str, labels: &str, axis: Axis, factor: f64) -> AcceptedLimit {
        let run = run();
        let mut metrics = run.experiments.iter().flat_map(|found| &found.metrics);
        let found = metrics.find(|found| found.name == metric).unwrap();
        let figure = found.figures.iter().find(|figure| figure.labels == labels).unwrap();
        let middle = figure.value * factor;
        AcceptedLimit {
            axis,
            metric: metric.to_owned(),
            labels: Labels::parse(labels).unwrap(),
            unit: found.unit,
            per_cycle: false,
            better: found.better,
            low: middle * 0.8,
            median: middle,
            high: middle * 1.25,
        }
    }

    fn model(limits: Vec<AcceptedLimit>, facts: Vec<AcceptedFact>) -> AcceptedModel {
        AcceptedModel {
            fingerprint: run().node.fingerprint,
            model: String::new(),
            profile: "quick".to_owned(),
            build: String::new(),
            methods: String::new(),
            nodes: 20,
            limits,
            facts,
        }
    }

    #[test]
    fn limits_are_crossed_for_the_worse_only() {
        let calls = |factor: f64| limit("os.system_call.time", "call=getppid", Axis::SystemCalls, factor);
        let state = |factor: f64| {
            check_results(&model(vec![calls(factor)], Vec::new()), run(), |_| Some("os.system_call"))[0].state
        };
        assert_eq!(state(1.0), LimitState::Within);
        assert_eq!(state(0.5), LimitState::Crossed, "twice what is usual");
        assert_eq!(state(2.0), LimitState::Within, "a better result is accepted");
    }

    #[test]
    fn what_is_missing_leaves_its_axis_undecided() {
        let mut gone = limit("os.system_call.time", "call=getppid", Axis::SystemCalls, 1.0);
        gone.labels = Labels::parse("call=nothing").unwrap();
        let found = check_results(&model(vec![gone], Vec::new()), run(), |_| Some("os.system_call"));
        assert_eq!((found[0].state, found[0].value), (LimitState::Unknown, None));
        assert_eq!(undecided_axes(&found), [Some(Axis::SystemCalls)]);
        assert_eq!(looks_like(&found), None);
    }

    #[test]
    fn a_fact_must_have_an_accepted_value() {
        let fact = |fact: &str, values: &[&str]| AcceptedFact {
            fact: fact.to_owned(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
        };
        let here = run().facts;
        let kernel = here["Kernel: release"].clone();
        let rows = vec![
            fact("Kernel: release", &["1.0", &kernel]),
            fact("Processor: model", &["another"]),
            fact("Kernel: nothing", &[ABSENT]),
            fact("Kernel: all differ", &[]),
        ];
        let found = check_facts(&model(Vec::new(), rows), &here);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].fact, "Processor: model");
        let accepted = Accepted { format: FORMAT.to_owned(), models: vec![model(Vec::new(), Vec::new())] };
        assert!(accepted_model(&accepted, &run().node.fingerprint).is_some());
        assert!(accepted_model(&accepted, "another").is_none());
    }

    #[test]
    fn what_only_root_is_told_makes_no_difference() {
        let differs = |fact: &str, value: &str, accepted: &str| DifferingFact {
            fact: fact.to_owned(),
            value: value.to_owned(),
            accepted: vec![accepted.to_owned()],
        };
        let runs = "DAMON runs (kdamond.0), and only root can read whether it pages memory out";
        let reclaimed = "Memory: reclaimed early by";
        for (fact, value, accepted, of_user, of_root) in [
            (reclaimed, "DAMON pages out rarely used data", runs, true, true),
            (reclaimed, runs, "DAMON pages out rarely used data", true, true),
            ("Memory: peak bandwidth", "460.8 GB/s", "not derivable", true, true),
            ("Memory: module BANK 0 DIMM_A1", ABSENT, "16 GiB DDR4", true, false),
            ("Kernel: preemption", "full", "PREEMPT_DYNAMIC", true, true),
            // A reader of both sees a difference.
            ("Memory: module BANK 0 DIMM_A1", "8 GiB DDR4", "16 GiB DDR4", false, false),
            ("Memory: peak bandwidth", "230.4 GB/s", "460.8 GB/s", false, false),
            ("Kernel: release", ABSENT, "6.1", false, false),
        ] {
            let found = [false, true].map(|is_root| depends_on_reader(&differs(fact, value, accepted), is_root));
            assert_eq!(found, [of_user, of_root], "{fact}: {value}, {accepted}");
        }
    }

    #[test]
    fn limits_of_another_method_are_named() {
        let mut model = model(Vec::new(), Vec::new());
        model.methods = "cpu.loop 1, os.system_call 7, gone 3".to_owned();
        let version = |id: &str| (id != "gone").then_some(1);
        assert_eq!(other_methods(&model, version), BTreeSet::from(["os.system_call"]));
        model.methods = String::new();
        assert!(other_methods(&model, version).is_empty());
    }

    #[test]
    fn axes_beyond_their_limits_name_a_cause() {
        let calls = limit("os.system_call.time", "call=getppid", Axis::SystemCalls, 0.5);
        let found = check_results(&model(vec![calls], Vec::new()), run(), |_| Some("os.system_call"));
        assert_eq!(looks_like(&found).as_deref(), Some("a system-call filter, audit or tracing"));
        // Predictions of the record are met for the most part.
        let mut run = run();
        let metrics = run.experiments.iter_mut().flat_map(|found| &mut found.metrics);
        metrics.flat_map(|metric| &mut metric.figures).for_each(|figure| figure.headline = true);
        let predicted = check_predictions(&run);
        let crossed = predicted.iter().filter(|result| result.state == LimitState::Crossed).count();
        assert!(predicted.len() > 50 && 20 * crossed < predicted.len(), "{crossed} of {}", predicted.len());
    }
}
