//! The fleet now against an earlier state of it: node by node, so that differences between nodes take no part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::axes;
use super::read::ReadFleet;
use super::reading::{KeyResult, Reading, ResultName};
use super::scores::{IN_CYCLES, logarithm, mean, scale, weighted_median};
use crate::results::fleet::{Axis, AxisChange, ChangedFact, Upgrade};
use crate::statistics::interval::median_interval;
use crate::statistics::signed_rank::signed_rank;
use crate::statistics::summary::median;

/// A change is shown if its p value, times the number of axes, is below this.
const LEVEL: f64 = 0.05;
/// A node changed by another amount if it is this many deviations from the rest.
const APART: f64 = 4.5;
/// Share of the key results that a node needs for an axis.
const USABLE: f64 = 0.5;
/// A key result takes part if this share of the nodes has it.
const COMMON: f64 = 0.5;
/// Most facts that are named.
const MOST_FACTS: usize = 100;
/// Confidence of intervals.
const CONFIDENCE: f64 = 0.95;

/// The runs of a node in both states.
struct Pair<'a> {
    name: &'a str,
    before: Vec<&'a Reading>,
    now: Vec<&'a Reading>,
}

/// Fewest nodes with which a change of one of this many axes can be shown: with all differences of one sign.
fn least_nodes(axes: usize) -> u32 {
    let possible = |nodes: &u32| 2.0 * 0.5_f64.powi(*nodes as i32) * axes.max(1) as f64;
    (2..64).find(|nodes| possible(nodes) < LEVEL).unwrap_or(64)
}

/// What changed between two states of a fleet.
pub fn upgrade(before: &ReadFleet, now: &ReadFleet) -> Upgrade {
    let (pairs, unpaired) = paired(&before.readings, &now.readings);
    let mut axes: Vec<AxisChange> = Axis::ALL.into_iter().filter_map(|axis| change(axis, &pairs)).collect();
    let tests = axes.len();
    for axis in &mut axes {
        axis.p = (axis.p * tests as f64).min(1.0);
        axis.changed = axis.p < LEVEL;
    }
    let is_open = |axis: &Axis| axes.iter().all(|change| change.axis != *axis) && is_measured(*axis, &pairs);
    let undecided = Axis::ALL.into_iter().filter(is_open).collect();
    let (nodes, least_nodes) = (pairs.len() as u32, least_nodes(tests));
    Upgrade { nodes, least_nodes, unpaired, facts: facts(&pairs), axes, undecided }
}

/// Whether most nodes have results of an axis in both states, usable or not.
fn is_measured(axis: Axis, pairs: &[Pair<'_>]) -> bool {
    let has = |runs: &[&Reading]| runs.iter().any(|run| run.has(axis));
    let both = pairs.iter().filter(|pair| has(&pair.before) && has(&pair.now)).count();
    both > 0 && both as f64 >= COMMON * pairs.len() as f64
}

/// What makes runs of two states comparable. The kernel and the build may differ: they are what is compared.
fn methods(run: &Reading) -> [&str; 3] {
    [&run.fingerprint, &run.methods, &run.profile]
}

fn paired<'a>(before: &'a [Reading], now: &'a [Reading]) -> (Vec<Pair<'a>>, Vec<String>) {
    let mut nodes: BTreeMap<&str, [Vec<&Reading>; 2]> = BTreeMap::new();
    for (side, runs) in [before, now].into_iter().enumerate() {
        for run in runs {
            nodes.entry(&run.node).or_default()[side].push(run);
        }
    }
    let (mut pairs, mut unpaired) = (Vec::new(), Vec::new());
    for (name, [mut before, now]) in nodes {
        let newest = now.last().map(|run| methods(run));
        before.retain(|run| Some(methods(run)) == newest);
        let now: Vec<&Reading> = now.into_iter().filter(|run| Some(methods(run)) == newest).collect();
        if before.is_empty() || now.is_empty() {
            unpaired.push(name.to_owned());
        } else {
            pairs.push(Pair { name, before, now });
        }
    }
    (pairs, unpaired)
}

/// The key results of runs on one axis.
fn keys<'a>(runs: &[&'a Reading], axis: Axis) -> BTreeMap<&'a Arc<ResultName>, Vec<&'a KeyResult>> {
    let mut found: BTreeMap<&Arc<ResultName>, Vec<&KeyResult>> = BTreeMap::new();
    for key in runs.iter().flat_map(|run| &run.keys).filter(|key| key.name.axis == Some(axis) && !key.contaminated) {
        found.entry(&key.name).or_default().push(key);
    }
    found
}

/// Differences of one result, by node.
type Differences<'a> = BTreeMap<&'a Arc<ResultName>, Vec<(usize, f64)>>;

fn differences<'a>(axis: Axis, pairs: &[Pair<'a>]) -> Differences<'a> {
    let mut found: Differences<'a> = BTreeMap::new();
    for (node, pair) in pairs.iter().enumerate() {
        let (before, now) = (keys(&pair.before, axis), keys(&pair.now, axis));
        for (name, keys) in now {
            let Some(earlier) = before.get(name) else { continue };
            let all = || keys.iter().chain(earlier);
            let cycles = all().filter(|key| key.by_clock.is_some()).count() as f64 >= IN_CYCLES * all().count() as f64;
            let value =
                |keys: &[&KeyResult]| mean(&keys.iter().filter_map(|key| logarithm(key, cycles)).collect::<Vec<f64>>());
            if let (Some(now), Some(before)) = (value(&keys), value(earlier)) {
                found.entry(name).or_default().push((node, now - before));
            }
        }
    }
    found.retain(|_, nodes| nodes.len() as f64 >= COMMON * pairs.len() as f64);
    found
}

fn change(axis: Axis, pairs: &[Pair<'_>]) -> Option<AxisChange> {
    let results = differences(axis, pairs);
    let enough = USABLE * results.len() as f64;
    let mut of_nodes: Vec<Vec<(f64, f64)>> = vec![Vec::new(); pairs.len()];
    for nodes in results.values() {
        let weight = 1.0 / scale(&nodes.iter().map(|(_, value)| *value).collect::<Vec<f64>>());
        for (node, value) in nodes {
            of_nodes[*node].push((*value, weight));
        }
    }
    let changes = of_nodes.into_iter().enumerate().filter_map(|(node, mut values)| {
        let decided = !values.is_empty() && values.len() as f64 >= enough;
        Some((node, weighted_median(&mut values).filter(|_| decided)?))
    });
    let changes: Vec<(usize, f64)> = changes.collect();
    let values: Vec<f64> = changes.iter().map(|(_, value)| *value).collect();
    let middle = median(&values)?;
    let spread = scale(&values);
    let is_apart = |value: f64| {
        let distance = (value - middle).abs();
        distance > APART * spread && distance >= axes::least(axis)
    };
    let interval = median_interval(&values, CONFIDENCE).filter(|interval| interval.level >= CONFIDENCE);
    Some(AxisChange {
        axis,
        nodes: values.len() as u32,
        effect: middle.exp_m1(),
        interval: interval.map(|interval| [interval.low.exp_m1(), interval.high.exp_m1()]),
        p: signed_rank(&values).unwrap_or(1.0),
        changed: false,
        apart: changes
            .iter()
            .filter(|(_, value)| is_apart(*value))
            .map(|(node, _)| pairs[*node].name.to_owned())
            .collect(),
    })
}

/// Facts that changed, those of most nodes first.
fn facts(pairs: &[Pair<'_>]) -> Vec<ChangedFact> {
    let mut found: BTreeMap<[&str; 3], Vec<String>> = BTreeMap::new();
    for pair in pairs {
        let (Some(before), Some(now)) = (pair.before.last(), pair.now.last()) else { continue };
        for (name, one, other) in differing(before, now) {
            found.entry([name, one, other]).or_default().push(pair.name.to_owned());
        }
    }
    let mut facts: Vec<ChangedFact> = found
        .into_iter()
        .map(|([fact, before, now], nodes)| ChangedFact {
            fact: fact.to_owned(),
            before: before.to_owned(),
            now: now.to_owned(),
            nodes,
        })
        .collect();
    facts.sort_by_key(|fact| std::cmp::Reverse(fact.nodes.len()));
    facts.truncate(MOST_FACTS);
    facts
}

/// Name, value before and value now of each fact that differs.
fn differing<'a>(before: &'a Reading, now: &'a Reading) -> Vec<(&'a str, &'a str, &'a str)> {
    let side = |run: &'a Reading| -> BTreeMap<&'a str, &'a str> {
        run.facts.iter().map(|(name, value)| (&**name, &**value)).collect()
    };
    let (before, now) = (side(before), side(now));
    let names: BTreeSet<&str> = before.keys().chain(now.keys()).copied().collect();
    let value = |side: &BTreeMap<&'a str, &'a str>, name: &str| side.get(name).copied().unwrap_or("(absent)");
    let all = names.into_iter().map(|name| (name, value(&before, name), value(&now, name)));
    all.filter(|(_, before, now)| before != now).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_nodes_show_nothing() {
        assert_eq!((least_nodes(17), least_nodes(1)), (10, 6));
    }
}
