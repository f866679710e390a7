//! Machines with several nodes: what a CPU of each node reads per second from the memory of each.

use super::{SLACK, step};
use crate::evaluate::estimate::Estimate;
use crate::evaluate::figure::Figure;
use crate::evaluate::findings::Findings;
use crate::evaluate::gate::{Number, Rule};
use crate::evaluate::study::Study;
use crate::experiments::memory::buffer;
use crate::experiments::memory::footprint::Footprint;
use crate::results::problem::Problem;
use crate::results::quantity::{Labels, Unit};
use crate::results::verdict::Gate;
use crate::results::wording::{factor, quantity};
use crate::rig::Rig;
use crate::rig::workload::{Expected, Workload};
use crate::sys::affinity;
use crate::sys::memory::Pages;
use crate::sys::stream::{Operation, Stream, Vectors};

/// The metric.
pub(super) const NODE: &str = "memory.bandwidth.node";

/// Batches of each pair of nodes.
const BATCHES: u32 = 12;

fn labels(cpu_node: u32, memory_node: u32) -> Labels {
    Labels::none().with("cpu_node", cpu_node).with("memory_node", memory_node)
}

/// Reads memory of one node from a CPU of each; that of another node in the next launch.
pub(super) fn measure(rig: &mut Rig<'_>, level: &Footprint, vectors: Vectors) -> Result<(), Problem> {
    let nodes = &rig.setup().machine.memory.nodes;
    let homes: Vec<u32> =
        nodes.iter().filter(|node| node.total_bytes.is_some_and(|bytes| bytes > 0)).map(|node| node.node).collect();
    if homes.len() < 2 {
        return Ok(());
    }
    let home = homes[rig.turn() as usize % homes.len()];
    let mut arena = match buffer::take_either(level.bytes as u64, Pages::Huge, Some(home), rig.memory()) {
        Ok((_, arena)) => arena,
        Err(reason) => {
            rig.unavailable(NODE, &Labels::none().with("memory_node", home), &reason);
            return Ok(());
        }
    };
    for node in nodes {
        let Some(cpu) = rig.setup().allowed.iter().copied().find(|&cpu| node.cpus.contains(cpu)) else { continue };
        if let Err(error) = affinity::restrict(&[cpu]) {
            rig.unavailable(
                NODE,
                &Labels::none().with("cpu_node", node.node),
                &format!("cannot run on CPU {cpu}: {error}"),
            );
            continue;
        }
        let mut walk = Stream::new(vectors, Operation::Read, level.bytes, step(level));
        let workload = Workload::of("node", labels(node.node, home), walk.bytes(), |steps| {
            walk.steps(&mut arena, steps);
            Ok(())
        });
        let workload = workload.unclocked().at_most(BATCHES);
        let sampled = rig.sample(vec![workload.expecting(Expected { migration: true, ..Expected::default() })]);
        affinity::restrict(&[rig.setup().cpu])
            .map_err(|error| Problem::new(format!("cannot return to its CPU: {error}")))?;
        sampled?;
    }
    Ok(())
}

/// Publishes what was read between nodes.
pub(super) fn publish(study: &Study<'_>, findings: &mut Findings, at_most_peak: &Rule) {
    let samples = study.samples("node", |_| false);
    let rate = |cost: f64| 1e9 / cost;
    let peak = study.setup.machine.memory.peak_bytes_per_second.as_ref();
    for (labels, sample) in &samples {
        let Some(cost) = Estimate::median(sample).map(|estimate| estimate.value) else { continue };
        let gates = peak.map(|peak| {
            let reason = format!("{SLACK} times the peak of all channels ({})", peak.source);
            Gate::at_most(at_most_peak, Number::rate(rate(cost)).named("{}"), peak.value as f64 * SLACK).because(reason)
        });
        findings.publish(study, Figure::rate(NODE, (*labels).clone(), sample, 1.0).gates(gates));
    }
}

/// Says how far apart near and far memory are.
pub(super) fn explain(study: &Study<'_>, findings: &mut Findings) {
    let of = |own: bool| {
        let all = findings.metrics.iter().filter(|metric| metric.name == NODE);
        let wanted = all.filter(|metric| (metric.labels.get("cpu_node") == metric.labels.get("memory_node")) == own);
        wanted.map(|metric| metric.value).collect::<Vec<f64>>()
    };
    let (near, far) = (of(true).into_iter().reduce(f64::max), of(false).into_iter().reduce(f64::min));
    findings.say(match (study.setup.machine.memory.nodes.len(), near, far) {
        (0 | 1, ..) => "All memory is on one node: there is no farther one to read from.".to_owned(),
        (_, Some(near), Some(far)) => format!(
            "One thread reads {} from its own node's memory at best, {} from another's at worst: {}.",
            quantity(near, Unit::BytesPerSecond),
            quantity(far, Unit::BytesPerSecond),
            factor(far / near)
        ),
        (nodes, ..) => format!("There are {nodes} nodes, but this run could not compare them."),
    });
}
