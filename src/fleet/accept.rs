//! Limits from healthy nodes, for later checks of a node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::read::ReadFleet;
use super::reading::{KeyResult, ResultName};
use super::scores::{IN_CYCLES, Sibling, mean, scale};
use super::{LEAST_NODES, facts, grouped};
use crate::results::accepted::{Accepted, AcceptedFact, AcceptedLimit, AcceptedModel, FORMAT};
use crate::results::compact::six_digits;
use crate::results::fleet::{AxisState, Fleet, FleetNode, NodeAxis, NodeGroup, NodeVerdict};
use crate::results::problem::Problem;
use crate::results::quantity::{Better, Labels, Unit};
use crate::statistics::summary::median;

/// Smallest distance of a limit from the median, as a relative number.
const LEAST_WIDTH: f64 = 0.05;
/// Distance of a limit from the median, in robust standard deviations.
const DEVIATIONS: f64 = 6.0;
/// A value of a fact is accepted if more than this share of the healthy nodes has it.
const ACCEPTED_SHARE: f64 = 0.1;

/// The only limits of a process that are those of its node.
const NODE_LIMITS: [&str; 2] = ["Limits: hypervisor", "Limits: control groups"];

/// The limits that the healthy nodes of a fleet set.
pub fn accepted(read: &ReadFleet, fleet: &Fleet) -> Result<Accepted, Problem> {
    let nodes = fleet.groups.iter().flat_map(|group| group.nodes.iter().map(move |node| (group, node)));
    let healthy: BTreeSet<&str> =
        nodes.filter(|(group, node)| is_healthy(group, node)).map(|(_, node)| node.name.as_str()).collect();
    let odd: BTreeSet<String> = fleet.names(NodeVerdict::Odd).into_iter().collect();
    let models = grouped(&read.readings).into_iter().filter_map(|mut siblings| {
        siblings.retain(|node| healthy.contains(node.name) && !odd.contains(node.name));
        (siblings.len() >= LEAST_NODES).then(|| model(&siblings))
    });
    let models: Vec<AcceptedModel> = models.collect();
    if models.is_empty() {
        return Err(Problem::new(format!(
            "limits need {LEAST_NODES} healthy nodes of one model, and no group has them"
        ))
        .hint("measure more nodes, or measure undecided nodes again"));
    }
    Ok(Accepted { format: FORMAT.to_owned(), models })
}

fn model(siblings: &[Sibling<'_>]) -> AcceptedModel {
    let first = siblings[0].last();
    let mut columns: BTreeMap<&Arc<ResultName>, Vec<Vec<&KeyResult>>> = BTreeMap::new();
    for node in siblings {
        let mut of_node: BTreeMap<&Arc<ResultName>, Vec<&KeyResult>> = BTreeMap::new();
        for key in node.runs.iter().flat_map(|run| &run.keys).filter(|key| !key.contaminated) {
            of_node.entry(&key.name).or_default().push(key);
        }
        for (name, keys) in of_node {
            columns.entry(name).or_default().push(keys);
        }
    }
    let enough = |nodes: &Vec<Vec<&KeyResult>>| 2 * nodes.len() >= siblings.len() && nodes.len() >= LEAST_NODES;
    let limits = columns.into_iter().filter(|(_, nodes)| enough(nodes));
    AcceptedModel {
        fingerprint: first.fingerprint.to_string(),
        model: first.model.to_string(),
        profile: first.profile.to_string(),
        build: first.build.to_string(),
        methods: first.methods.to_string(),
        nodes: siblings.len() as u32,
        limits: limits.filter_map(|(name, nodes)| limit(name, &nodes)).collect(),
        facts: facts::columns(siblings)
            .iter()
            .filter(|column| is_of_the_node(&column.fact))
            .map(accepted_fact)
            .collect(),
    }
}

/// Whether nothing that could be judged differs. An axis that no sibling decides gets no limits, and must not stop all others.
fn is_healthy(group: &NodeGroup, node: &FleetNode) -> bool {
    let is_open = |axis: &NodeAxis| group.open_axes().any(|open| open.axis == axis.axis);
    match node.verdict {
        NodeVerdict::Healthy => true,
        NodeVerdict::Undecided => node.axes_in(AxisState::Undecided).all(is_open),
        NodeVerdict::Odd | NodeVerdict::Suspect | NodeVerdict::NotJudged => false,
    }
}

/// Whether a fact describes the node, and not the process that measured it: a check that a daemon starts has another user, other
/// limits of resources and another mask of CPUs than a job.
fn is_of_the_node(fact: &str) -> bool {
    NODE_LIMITS.contains(&fact) || !fact.starts_with("Limits: ") && fact != "Memory: allowed to this process"
}

fn accepted_fact(column: &facts::FactColumn) -> AcceptedFact {
    let values = column.frequent(ACCEPTED_SHARE).map(ToString::to_string).collect();
    AcceptedFact { fact: column.fact.to_string(), values }
}

fn limit(name: &ResultName, nodes: &[Vec<&KeyResult>]) -> Option<AcceptedLimit> {
    let all = || nodes.iter().flatten();
    let by_clock = all().filter(|key| key.by_clock.is_some()).count() as f64 >= IN_CYCLES * all().count() as f64;
    let value = |key: &&KeyResult| if by_clock { key.by_clock } else { Some(key.value) };
    let logarithms = nodes.iter().filter_map(|keys| {
        let values: Vec<f64> = keys.iter().filter_map(|key| Some(value(key)?.ln())).collect();
        mean(&values)
    });
    let logarithms: Vec<f64> = logarithms.collect();
    let middle = median(&logarithms)?;
    let width = (DEVIATIONS * scale(&logarithms)).max(LEAST_WIDTH.ln_1p());
    let is_rate = name.unit == Unit::BytesPerSecond;
    Some(AcceptedLimit {
        axis: name.axis?,
        metric: name.metric.clone(),
        labels: Labels::parse(&name.labels)?,
        unit: if by_clock && !is_rate { Unit::Cycles } else { name.unit },
        per_cycle: by_clock && is_rate,
        better: if name.higher_is_better { Better::Higher } else { Better::Lower },
        low: six_digits((middle - width).exp()),
        median: six_digits(middle.exp()),
        high: six_digits((middle + width).exp()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_a_process_are_no_limits_of_its_node() {
        for fact in ["Kernel: release", "Limits: hypervisor", "Memory: transparent huge pages"] {
            assert!(is_of_the_node(fact), "{fact}");
        }
        for fact in ["Limits: user", "Limits: limit of open files", "Memory: allowed to this process"] {
            assert!(!is_of_the_node(fact), "{fact}");
        }
    }
}
