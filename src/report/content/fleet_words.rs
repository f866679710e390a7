//! What both forms of a fleet say: the verdict, nodes, axes and facts in words.

use std::collections::BTreeSet;

use crate::results::fleet::{
    Axis, AxisChange, AxisState, AxisSummary, FactSplit, Fleet, FleetMesh, FleetNode, FleetVerdict, NodeAxis,
    NodeGroup, NodeVerdict, OddFact, OddRack, Upgrade,
};
use crate::results::mesh::{MeshFinding, MeshVerdict};
use crate::results::node_names::fold;
use crate::results::wording::{count, percent, some};

/// Findings of a mesh, and experiments, that a sentence names.
const NAMED: usize = 3;
/// Largest z that is printed as it is: of siblings that are all alike, every difference is many deviations.
const MOST_Z: f64 = 99.0;

/// Smallest difference that is printed as a number, not as 0.00 %.
const SMALLEST: f64 = 5e-5;

/// Names as one list.
pub fn names(names: &[String]) -> String {
    fold(names.iter().map(String::as_str))
}

/// The answer about the network in a sentence or two.
pub fn mesh(mesh: &FleetMesh) -> String {
    let titles: Vec<String> = mesh.findings.iter().map(MeshFinding::title).collect();
    let odd = match mesh.verdict {
        MeshVerdict::Odd => some(&titles, NAMED),
        _ if mesh.undecided.len() == mesh.members as usize => "too few pairs to judge".to_owned(),
        _ => "nothing odd".to_owned(),
    };
    let pairs = count(u64::from(mesh.pairs), "pair", "pairs");
    let missing = if mesh.missing > 0 { format!(", {} missing", mesh.missing) } else { String::new() };
    format!("Network between {} nodes: {odd} ({pairs}{missing}).", mesh.members)
}

/// The answer in one or two sentences.
pub fn verdict(fleet: &Fleet) -> String {
    if let Some(found) = fleet.mesh.as_ref().filter(|_| fleet.is_mesh_alone()) {
        return mesh(found);
    }
    let odd = fleet.names(NodeVerdict::Odd);
    let nodes = |count_of: usize| count(count_of as u64, "node", "nodes");
    let racks = fleet.groups.iter().flat_map(|group| &group.racks).filter(|rack| rack.confirmed).count() as u64;
    let judged = fleet.groups.iter().any(|group| group.judged);
    let mut parts = Vec::new();
    if !odd.is_empty() {
        let verb = if odd.len() == 1 { "is" } else { "are" };
        parts.push(format!("{} {verb} odd: {}", nodes(odd.len()), names(&odd)));
    } else if racks > 0 {
        parts.push(format!("{} odd", count(racks, "rack is", "racks are")));
    } else if judged {
        parts.push("No node is odd".to_owned());
    } else {
        parts.push("The nodes are too few to judge".to_owned());
    }
    let open = fleet.names(NodeVerdict::Suspect).len() + fleet.names(NodeVerdict::Undecided).len();
    let gone = fleet.missing.len() + fleet.partial.len();
    let again = |number: usize| format!("{number} must be measured again");
    let incomplete = |number: usize| format!("{number} {} no complete run", if number == 1 { "has" } else { "have" });
    let rest = [(open > 0).then(|| again(open)), (gone > 0).then(|| incomplete(gone))];
    let rest: Vec<String> = rest.into_iter().flatten().collect();
    let all = all_nodes(fleet);
    if rest.is_empty() && fleet.verdict == FleetVerdict::NothingOdd {
        parts.push(format!("All {all} are complete"));
    } else if !rest.is_empty() {
        parts.push(format!("Of {all}, {}", rest.join(" and ")));
    }
    parts.join(". ") + "."
}

/// How many nodes there are. They were expected only if a list says so, and if it has all of them.
pub fn all_nodes(fleet: &Fleet) -> String {
    let all = u64::from(fleet.expected) + fleet.unexpected.len() as u64;
    if fleet.listed && fleet.unexpected.is_empty() {
        count(all, "expected node", "expected nodes")
    } else {
        count(all, "node", "nodes")
    }
}

/// The groups, each in a line.
pub fn groups(fleet: &Fleet) -> Vec<String> {
    fleet.groups.iter().map(|found| group(found, &apart(fleet, found))).collect()
}

/// What distinguishes a group from others that would have the same line: its binary, else its experiments.
pub fn apart(fleet: &Fleet, group: &NodeGroup) -> String {
    let line = |group: &NodeGroup| [group.model.clone(), group.fingerprint.clone(), group.profile.clone()];
    let alike: Vec<&NodeGroup> = fleet.groups.iter().filter(|other| line(other) == line(group)).collect();
    let of_binary = if alike.iter().all(|other| binary(other) == binary(group)) {
        String::new()
    } else {
        format!(" of {}", binary(group))
    };
    let same: Vec<&NodeGroup> = alike.into_iter().filter(|other| binary(other) == binary(group)).collect();
    let of = |group: &NodeGroup| -> BTreeSet<String> { group.methods.split(", ").map(str::to_owned).collect() };
    let (own, mut all, mut shared) = (of(group), BTreeSet::new(), of(group));
    for other in same {
        let other = of(other);
        shared.retain(|method| other.contains(method));
        all.extend(other);
    }
    let (with, without): (Vec<&String>, Vec<&String>) =
        (own.difference(&shared).collect(), all.difference(&own).collect());
    let methods = match (with.as_slice(), without.as_slice()) {
        ([], []) => String::new(),
        ([], without) => format!(" without {}", some(without, NAMED)),
        (with, _) => format!(" with {}", some(with, NAMED)),
    };
    of_binary + &methods
}

/// The binary of a group by its hash, or by its build where the runs have no hash.
fn binary(group: &NodeGroup) -> String {
    match &group.binary {
        Some(hash) => format!("binary {hash}"),
        None => format!("build {}", group.build),
    }
}

/// The build of a group, with the hash of the binary.
pub fn build(group: &NodeGroup) -> String {
    let hash = group.binary.as_ref().map_or_else(String::new, |hash| format!(", binary {hash}"));
    format!("{}{hash}", group.build)
}

fn group(group: &NodeGroup, apart: &str) -> String {
    let model = if group.model.is_empty() { "unknown processor" } else { &group.model };
    let runs: Vec<String> = group.rounds.iter().map(u32::to_string).collect();
    let rounds = if runs.len() > 1 { format!(", runs: {}", runs.join(" + ")) } else { String::new() };
    let judged = if group.judged { "" } else { ", too few to judge" };
    let nodes = count(group.nodes.len() as u64, "node", "nodes");
    format!("{nodes}{apart}, {model} ({}), {}{rounds}{judged}", group.fingerprint, group.profile)
}

/// By how much an axis is better or worse: a time by its change, everything else by the change of speed. A sign alone would be read
/// as the change of what the axis names, which is the opposite for times.
pub fn difference(axis: Axis, effect: f64) -> String {
    let change = if axis.is_time() { 1.0 / (1.0 + effect) - 1.0 } else { effect };
    if change.abs() < SMALLEST {
        return "no difference".to_owned();
    }
    format!("{} {}", percent(change.abs()), if effect < 0.0 { "worse" } else { "better" })
}

/// Both ends of an interval of a difference, the worse one first.
pub fn difference_range(axis: Axis, [low, high]: [f64; 2]) -> String {
    format!("{} to {}", difference(axis, low), difference(axis, high))
}

/// An axis of a node: `DRAM latency 5.4 % worse (z −12)`.
pub fn axis(axis: &NodeAxis) -> String {
    let effect = axis.effect.map_or_else(String::new, |effect| format!(" {}", difference(axis.axis, effect)));
    let z = axis.z.map_or_else(String::new, |z| format!(" (z {})", deviations(z)));
    format!("{}{effect}{z}", axis.axis.name())
}

/// A number of deviations.
pub fn deviations(z: f64) -> String {
    let sign = if z < 0.0 { "−" } else { "" };
    match () {
        () if z > MOST_Z => format!("above {MOST_Z:.0}"),
        () if z < -MOST_Z => format!("below −{MOST_Z:.0}"),
        () => format!("{sign}{:.1}", z.abs()),
    }
}

/// What is found of a node, the largest difference first.
pub fn findings(node: &FleetNode, state: AxisState) -> Vec<String> {
    let mut axes: Vec<&NodeAxis> = node.axes_in(state).collect();
    let size = |axis: &NodeAxis| axis.z.unwrap_or(0.0).abs();
    axes.sort_by(|one, other| size(other).total_cmp(&size(one)));
    let mut found: Vec<String> = axes.into_iter().map(axis).collect();
    if !node.absent.is_empty() {
        found.push(format!("no results of {}", node.absent.join(", ")));
    }
    found.extend(node.slow.map(|times| format!("takes {times:.1} times as long")));
    found
}

/// Why axes of a node are undecided.
pub fn reasons(node: &FleetNode) -> Vec<String> {
    let reason = |axis: &NodeAxis| format!("{} {}", axis.axis.name(), axis.reason.as_deref().unwrap_or("undecided"));
    node.axes_in(AxisState::Undecided).map(reason).collect()
}

/// The axes that no node of a group decides, with the reasons: `context switches: contaminated on each of 12 nodes`.
pub fn open_axes(group: &NodeGroup) -> Vec<String> {
    let line = |open: &AxisSummary| {
        let axes = group.nodes.iter().flat_map(|node| node.axes_in(AxisState::Undecided));
        let reasons: BTreeSet<&str> =
            axes.filter(|axis| axis.axis == open.axis).filter_map(|axis| axis.reason.as_deref()).collect();
        let reasons: Vec<&str> = reasons.into_iter().collect();
        format!("{}: {} on each of {} nodes", open.axis.name(), reasons.join(" or "), group.nodes.len())
    };
    group.open_axes().map(line).collect()
}

/// The axes that a node is judged by: those of its verdict.
pub fn state(node: &FleetNode) -> AxisState {
    if node.verdict == NodeVerdict::Odd { AxisState::Odd } else { AxisState::Suspect }
}

/// A node as a name with its rack and the cause.
pub fn name(node: &FleetNode) -> String {
    let rack = node.rack.as_ref().map_or_else(String::new, |rack| format!(" (rack {rack})"));
    let cause = node.cause.as_ref().map_or_else(String::new, |cause| format!(": looks like {cause}"));
    format!("{}{rack}{cause}", node.name)
}

/// A rack in a sentence.
pub fn rack(rack: &OddRack) -> String {
    let nodes = count(u64::from(rack.nodes), "node", "nodes");
    let rounds: Vec<String> = rack.rounds.iter().map(u32::to_string).collect();
    let word = if rounds.len() == 1 { "run" } else { "runs" };
    format!(
        "rack {} ({nodes}): {} {} in {word} {}",
        rack.rack,
        rack.axis.name(),
        difference(rack.axis, rack.effect),
        rounds.join(", ")
    )
}

/// A fact of a few nodes.
pub fn odd_fact(fact: &OddFact) -> String {
    format!("{}: {} on {}, else {}", fact.fact, fact.value, names(&fact.nodes), fact.usual)
}

/// A fact that explains a difference.
pub fn split(split: &FactSplit) -> String {
    let nodes = count(u64::from(split.nodes), "node", "nodes");
    let difference = difference(split.axis, split.effect);
    format!("{} {difference} with {} = {} ({nodes})", split.axis.name(), split.fact, split.value)
}

/// The change of an axis.
pub fn change(change: &AxisChange) -> String {
    let ends = |ends: [f64; 2]| format!(", 95 % interval {}", difference_range(change.axis, ends));
    let interval = change.interval.map_or_else(String::new, ends);
    let nodes = count(u64::from(change.nodes), "node", "nodes");
    let apart = if change.apart.is_empty() { String::new() } else { format!(". Different: {}", names(&change.apart)) };
    format!("{} {}{interval}, {nodes}{apart}", change.axis.name(), difference(change.axis, change.effect))
}

/// The comparison with an earlier state in a sentence.
pub fn upgrade(upgrade: &Upgrade) -> String {
    let nodes = count(u64::from(upgrade.nodes), "node", "nodes");
    if upgrade.nodes < upgrade.least_nodes {
        return format!("{nodes} in both states show nothing: a change needs {} or more.", upgrade.least_nodes);
    }
    let open: Vec<&str> = upgrade.undecided.iter().map(|axis| axis.name()).collect();
    let open = if open.is_empty() { String::new() } else { format!(" Not decided: {}.", open.join(", ")) };
    let changed = upgrade.axes.iter().filter(|axis| axis.changed).count() as u64;
    if changed == 0 {
        return format!("{nodes} in both states, and no axis changed.{open}");
    }
    let worse = upgrade.axes.iter().filter(|axis| axis.changed && axis.effect < 0.0).count();
    format!("{nodes} in both states: {} changed, {worse} for the worse.{open}", count(changed, "axis", "axes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Speed after a time became this many times as long.
    fn slower(times: f64) -> f64 {
        1.0 / times - 1.0
    }

    #[test]
    fn differences_are_those_of_what_an_axis_names() {
        assert_eq!(difference(Axis::DramLatency, slower(1.3)), "30 % worse");
        assert_eq!(difference(Axis::DramLatency, slower(0.8)), "20 % better");
        assert_eq!(difference(Axis::LinkRate, -0.3), "30 % worse");
        assert_eq!(difference(Axis::Clock, 0.05), "5.00 % better");
        assert_eq!(difference(Axis::Clock, 0.0), "no difference");
        assert_eq!(difference_range(Axis::SystemCalls, [slower(1.3), slower(0.95)]), "30 % worse to 5.00 % better");
    }

    #[test]
    fn every_sentence_names_the_change_of_a_time() {
        let (axis_of, effect) = (Axis::DramLatency, slower(1.3));
        let of_node = NodeAxis {
            axis: axis_of,
            state: AxisState::Odd,
            effect: Some(effect),
            z: Some(-12.0),
            runs: 2,
            reason: None,
        };
        assert_eq!(axis(&of_node), "DRAM latency 30 % worse (z −12.0)");
        let of_rack =
            OddRack { rack: "r3".to_owned(), axis: axis_of, effect, nodes: 4, rounds: vec![1, 2], confirmed: true };
        assert_eq!(rack(&of_rack), "rack r3 (4 nodes): DRAM latency 30 % worse in runs 1, 2");
        let of_fact = FactSplit { fact: "Vendor".to_owned(), axis: axis_of, value: "B".to_owned(), nodes: 9, effect };
        assert_eq!(split(&of_fact), "DRAM latency 30 % worse with Vendor = B (9 nodes)");
        let of_upgrade = AxisChange {
            axis: axis_of,
            nodes: 12,
            effect,
            interval: Some([slower(1.32), slower(1.28)]),
            p: 0.01,
            changed: true,
            apart: Vec::new(),
        };
        assert_eq!(change(&of_upgrade), "DRAM latency 30 % worse, 95 % interval 32 % worse to 28 % worse, 12 nodes");
    }

    fn alike(binary: Option<&str>, methods: &str) -> NodeGroup {
        NodeGroup {
            fingerprint: "f1".to_owned(),
            model: "AMD EPYC".to_owned(),
            profile: "quick".to_owned(),
            build: "0.1.0, rustc".to_owned(),
            binary: binary.map(str::to_owned),
            methods: methods.to_owned(),
            judged: false,
            rounds: vec![0],
            odd_facts: Vec::new(),
            splits: Vec::new(),
            racks: Vec::new(),
            axes: Vec::new(),
            nodes: Vec::new(),
        }
    }

    fn fleet(groups: Vec<NodeGroup>) -> Fleet {
        Fleet {
            format: String::new(),
            verdict: FleetVerdict::NothingOdd,
            expected: 12,
            listed: false,
            complete: 12,
            runs: 12,
            missing: Vec::new(),
            partial: Vec::new(),
            unexpected: Vec::new(),
            again: Vec::new(),
            left_aside: Vec::new(),
            groups,
            mesh: None,
            before: None,
        }
    }

    #[test]
    fn groups_that_look_alike_name_what_differs() {
        let lines = |groups: Vec<NodeGroup>| groups_of(&fleet(groups));
        let one = alike(Some("aa"), "cpu.loop 1");
        assert_eq!(lines(vec![one.clone()]), [""]);
        let other = alike(Some("bb"), "cpu.loop 1");
        assert_eq!(lines(vec![one.clone(), other.clone()]), [" of binary aa", " of binary bb"]);
        let older = alike(None, "cpu.loop 1");
        assert_eq!(lines(vec![one.clone(), older]), [" of binary aa", " of build 0.1.0, rustc"]);
        let more = alike(Some("aa"), "cpu.loop 1, os.signal 1");
        assert_eq!(lines(vec![one.clone(), more.clone()]), [" without os.signal 1", " with os.signal 1"]);
        let all = [" of binary aa without os.signal 1", " of binary aa with os.signal 1", " of binary bb"];
        assert_eq!(lines(vec![one.clone(), more, other]), all);
        let elsewhere = NodeGroup { fingerprint: "f2".to_owned(), ..alike(Some("bb"), "cpu.loop 1") };
        assert_eq!(lines(vec![one, elsewhere]), ["", ""]);
    }

    fn groups_of(fleet: &Fleet) -> Vec<String> {
        fleet.groups.iter().map(|group| apart(fleet, group)).collect()
    }

    #[test]
    fn nodes_are_expected_only_by_a_list_that_has_all_of_them() {
        let mut found = fleet(Vec::new());
        assert_eq!(all_nodes(&found), "12 nodes");
        found.listed = true;
        assert_eq!(all_nodes(&found), "12 expected nodes");
        found.unexpected = vec!["n99".to_owned()];
        assert_eq!(all_nodes(&found), "13 nodes");
    }
}
