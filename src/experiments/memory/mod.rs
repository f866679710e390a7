//! The memory chapter: how far memory is, how much can be moved, what a page fault costs.

pub mod bandwidth;
pub mod buffer;
pub mod footprint;
pub mod latency;
pub mod loaded_latency;
pub mod map;
pub mod page_fault;
pub mod selection;
pub mod shared_line;
pub mod streams;
pub mod touching;

use crate::experiments::prelude::*;
use crate::results::quantity::Better;

/// Says how far apart near and far memory are: the best figure of a metric by the near node, and the worst by another.
fn tell_nodes(
    study: &Study<'_>,
    findings: &mut Findings,
    metric: &str,
    single: &str,
    say: fn(&Metric, &Metric) -> String,
) {
    let of = |own: bool| {
        let is_own = |found: &Metric| found.labels.get("cpu_node") == found.labels.get("memory_node");
        findings.metrics.iter().filter(move |found| found.name == metric && is_own(found) == own)
    };
    let cost = |found: &&Metric| if found.better == Better::Higher { -found.value } else { found.value };
    let by_cost = |one: &&Metric, other: &&Metric| cost(one).total_cmp(&cost(other));
    let text = match (study.setup.machine.memory.nodes.len(), of(true).min_by(by_cost), of(false).max_by(by_cost)) {
        (0 | 1, ..) => single.to_owned(),
        (_, Some(near), Some(far)) => say(near, far),
        (nodes, ..) => {
            let why = study.setup.machine.memory.nodes_apart(&study.setup.allowed);
            format!("This machine has {nodes} nodes, but this run could not compare them{why}.")
        }
    };
    findings.say(text);
}
