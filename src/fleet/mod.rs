//! Which node of many is odd, from the files that the nodes left.
//!
//! `read` reads files, and `reading` keeps the key results and facts of a run. `axes` says which results decide what.
//! `scores` makes one number for each axis and run, from which `facts` and `racks` take what large groups share. `verdicts`
//! judges nodes, `meshes` finds the network between them, `absent` finds results that a node never had, and `cause` names patterns. `check` and `disturbance` judge one node.
//! Everything is a pure function of the files.

mod absent;
mod accept;
mod axes;
mod cause;
pub mod check;
#[cfg(test)]
mod detection;
pub mod disturbance;
mod facts;
pub mod meshes;
mod racks;
pub mod read;
pub mod reading;
mod scores;
#[cfg(test)]
mod synthetic;
mod upgrade;
mod verdicts;

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use crate::results::fleet::{
    Axis, AxisState, AxisSummary, FORMAT, FactSplit, Fleet, FleetNode, FleetVerdict, NodeAxis, NodeGroup, NodeVerdict,
    OddRack,
};
use crate::statistics::summary::median;
use read::ReadFleet;
use reading::Reading;
use scores::{AxisScores, Sibling, rounds};

pub use accept::accepted;
pub use upgrade::upgrade;

/// Groups with fewer nodes are not judged.
pub const LEAST_NODES: usize = 8;
/// A run that takes this many times the usual duration is a finding.
const STRAGGLER: f64 = 3.0;

/// The findings of a fleet. `expected` are the names of the nodes that should have been measured, if they are known.
pub fn analyse(read: &ReadFleet, expected: Option<&BTreeSet<String>>) -> Fleet {
    let mut groups: Vec<NodeGroup> = grouped(&read.readings).iter().map(|siblings| group(siblings)).collect();
    groups.sort_by(|one, other| {
        let order = other.nodes.len().cmp(&one.nodes.len());
        order.then_with(|| (&one.fingerprint, &one.methods).cmp(&(&other.fingerprint, &other.methods)))
    });
    let measured: BTreeSet<&str> = read.readings.iter().map(|run| run.node.as_str()).collect();
    let complete: BTreeSet<&str> =
        read.readings.iter().filter(|run| run.complete).map(|run| run.node.as_str()).collect();
    let seen = || measured.iter().map(|name| (*name).to_owned()).chain(read.empty.iter().cloned()).collect();
    let wanted: BTreeSet<String> = expected.cloned().unwrap_or_else(seen);
    let mut fleet = Fleet {
        format: FORMAT.to_owned(),
        verdict: FleetVerdict::NothingOdd,
        expected: wanted.len() as u32,
        listed: expected.is_some(),
        complete: complete.len() as u32,
        runs: read.readings.len() as u32,
        missing: wanted.iter().filter(|name| !measured.contains(name.as_str())).cloned().collect(),
        partial: measured.difference(&complete).map(|name| (*name).to_owned()).collect(),
        unexpected: measured.iter().filter(|name| !wanted.contains(**name)).map(|name| (*name).to_owned()).collect(),
        again: Vec::new(),
        left_aside: read.left_aside.clone(),
        groups,
        mesh: None,
        before: None,
    };
    fleet.verdict = verdict(&fleet);
    fleet.again = again(&fleet, &read.readings);
    fleet
}

/// Runs of one model, binary, profile and set of methods, by node.
fn grouped(readings: &[Reading]) -> Vec<Vec<Sibling<'_>>> {
    let mut groups: BTreeMap<[&str; 4], BTreeMap<&str, Vec<&Reading>>> = BTreeMap::new();
    for run in readings {
        let key: [&str; 4] = [&run.fingerprint, &run.methods, &run.profile, &run.binary];
        groups.entry(key).or_default().entry(&run.node).or_default().push(run);
    }
    groups.into_values().map(|nodes| nodes.into_iter().map(|(name, runs)| Sibling { name, runs }).collect()).collect()
}

/// The findings of a group.
fn group(siblings: &[Sibling<'_>]) -> NodeGroup {
    let first = siblings[0].last();
    let judged = siblings.len() >= LEAST_NODES;
    let rounds = rounds(siblings);
    let count = |round: usize| siblings.iter().filter(|node| node.runs.len() > round).count() as u32;
    let mut found = NodeGroup {
        fingerprint: first.fingerprint.to_string(),
        model: first.model.to_string(),
        profile: first.profile.to_string(),
        build: first.build.to_string(),
        binary: Some(first.binary.to_string()).filter(|binary| *binary != *first.build),
        methods: first.methods.to_string(),
        judged,
        rounds: (0..rounds).map(count).collect(),
        odd_facts: Vec::new(),
        splits: Vec::new(),
        racks: Vec::new(),
        axes: Vec::new(),
        nodes: Vec::new(),
    };
    if !judged {
        found.nodes = siblings.iter().map(|node| fleet_node(node, NodeVerdict::NotJudged)).collect();
        return found;
    }
    let columns = facts::columns(siblings);
    found.odd_facts = columns.iter().flat_map(|column| column.odd(siblings)).collect();
    let mut of_nodes: Vec<Vec<NodeAxis>> = vec![Vec::new(); siblings.len()];
    for (nodes, summary, splits, racks) in
        Axis::ALL.into_iter().filter_map(|axis| judged_axis(axis, siblings, &columns))
    {
        for (axes, axis) in of_nodes.iter_mut().zip(nodes) {
            axes.push(axis);
        }
        found.axes.push(summary);
        found.splits.extend(splits);
        found.racks.extend(racks);
    }
    let slow = slow(siblings);
    let absent = absent::absent(siblings);
    for (((node, axes), absent), slow) in siblings.iter().zip(of_nodes).zip(absent).zip(slow) {
        found.nodes.push(judged_node(node, axes, absent, slow));
    }
    found
}

/// An axis: what it says of each node, of the group, of facts and of racks.
type JudgedAxis = (Vec<NodeAxis>, AxisSummary, Vec<FactSplit>, Vec<OddRack>);

fn judged_axis(axis: Axis, siblings: &[Sibling<'_>], columns: &[facts::FactColumn]) -> Option<JudgedAxis> {
    let mut scores = AxisScores::of(axis, siblings)?;
    let splits = facts::explain(&mut scores, columns);
    let racks = racks::explain(&mut scores, siblings);
    let (nodes, summary) = verdicts::judge(&scores, rounds(siblings));
    Some((nodes, summary, splits, racks))
}

fn fleet_node(node: &Sibling<'_>, verdict: NodeVerdict) -> FleetNode {
    FleetNode {
        name: node.name.to_owned(),
        rack: node.last().rack.clone(),
        verdict,
        runs: node.runs.len() as u32,
        complete: node.runs.iter().any(|run| run.complete),
        axes: Vec::new(),
        absent: Vec::new(),
        slow: None,
        cause: None,
    }
}

fn judged_node(node: &Sibling<'_>, axes: Vec<NodeAxis>, absent: Vec<String>, slow: Option<f64>) -> FleetNode {
    let finding = !absent.is_empty() || slow.is_some();
    let verdict = verdicts::verdict(&axes, finding, node.runs.len() > 1);
    let differs = |axis: &NodeAxis| match verdict {
        NodeVerdict::Odd => axis.state == AxisState::Odd,
        _ => axis.state == AxisState::Suspect,
    };
    let cause = cause::cause(&axes, &absent, differs);
    FleetNode { axes, absent, slow, cause, ..fleet_node(node, verdict) }
}

/// For each node, how many times the usual duration its runs took, if all took so long.
fn slow(siblings: &[Sibling<'_>]) -> Vec<Option<f64>> {
    let all: Vec<f64> = siblings.iter().flat_map(|node| &node.runs).map(|run| run.seconds).collect();
    let usual = median(&all).filter(|usual| *usual > 0.0);
    let of_node = |node: &Sibling<'_>| {
        let least = node.runs.iter().map(|run| run.seconds).fold(f64::INFINITY, f64::min) / usual?;
        (least > STRAGGLER).then_some(least)
    };
    siblings.iter().map(of_node).collect()
}

/// The answer: an odd node counts more than what is open.
fn verdict(fleet: &Fleet) -> FleetVerdict {
    let any = |verdict: NodeVerdict| fleet.nodes(verdict).next().is_some();
    let rack =
        |confirmed: bool| fleet.groups.iter().flat_map(|group| &group.racks).any(|rack| rack.confirmed == confirmed);
    let open = [NodeVerdict::Suspect, NodeVerdict::Undecided, NodeVerdict::NotJudged];
    match () {
        () if any(NodeVerdict::Odd) || rack(true) => FleetVerdict::Odd,
        () if !fleet.missing.is_empty() || !fleet.partial.is_empty() || fleet.groups.is_empty() => {
            FleetVerdict::Undecided
        }
        () if open.into_iter().any(any) || rack(false) => FleetVerdict::Undecided,
        () => FleetVerdict::NothingOdd,
    }
}

/// The nodes to measure again: what is open, and as many healthy nodes, which the data choose.
fn again(fleet: &Fleet, readings: &[Reading]) -> Vec<String> {
    let mut open: BTreeSet<String> = fleet.missing.iter().chain(&fleet.partial).cloned().collect();
    for verdict in [NodeVerdict::Suspect, NodeVerdict::Undecided] {
        open.extend(fleet.names(verdict));
    }
    let mut healthy = fleet.names(NodeVerdict::Healthy);
    healthy.retain(|name| !open.contains(name));
    let mut digest = Sha256::new();
    for run in readings {
        digest.update(run.node.as_bytes());
        digest.update(run.id.as_bytes());
    }
    let seed = digest.finalize().iter().take(8).fold(0_u64, |seed, byte| seed << 8 | u64::from(*byte));
    fastrand::Rng::with_seed(seed).shuffle(&mut healthy);
    healthy.truncate(open.len());
    open.extend(healthy);
    open.into_iter().collect()
}
