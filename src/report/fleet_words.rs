//! What both forms of a fleet say: the verdict, nodes, axes and facts in words.

use crate::results::fleet::{
    Axis, AxisChange, AxisState, FactSplit, Fleet, FleetMesh, FleetNode, FleetVerdict, NodeAxis, NodeGroup,
    NodeVerdict, OddFact, OddRack, Upgrade,
};
use crate::results::mesh::{MeshFinding, MeshVerdict};
use crate::results::node_names::fold;
use crate::results::wording::{count, percent};

/// Findings of a mesh that a sentence names.
const NAMED: usize = 3;
/// Largest z that is printed as it is: of siblings that are all alike, every difference is many deviations.
const MOST_Z: f64 = 99.0;

/// Names as one list.
pub fn names(names: &[String]) -> String {
    fold(names.iter().map(String::as_str))
}

/// The answer about the network in a sentence or two.
pub fn mesh(mesh: &FleetMesh) -> String {
    let titles: Vec<String> = mesh.findings.iter().take(NAMED).map(MeshFinding::title).collect();
    let more = mesh.findings.len().saturating_sub(titles.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let odd = match mesh.verdict {
        MeshVerdict::Odd => format!("{}{more}", titles.join(", ")),
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
    let all = nodes(fleet.expected as usize);
    if rest.is_empty() && fleet.verdict == FleetVerdict::NothingOdd {
        parts.push(format!("All {all} are complete"));
    } else if !rest.is_empty() {
        parts.push(format!("Of {all}, {}", rest.join(" and ")));
    }
    parts.join(". ") + "."
}

/// A group in a line.
pub fn group(group: &NodeGroup) -> String {
    let model = if group.model.is_empty() { "unknown processor" } else { &group.model };
    let runs: Vec<String> = group.rounds.iter().map(u32::to_string).collect();
    let rounds = if runs.len() > 1 { format!(", runs: {}", runs.join(" + ")) } else { String::new() };
    let judged = if group.judged { "" } else { ", too few to judge" };
    let nodes = count(group.nodes.len() as u64, "node", "nodes");
    format!("{nodes}, {model} ({}), {}{rounds}{judged}", group.fingerprint, group.profile)
}

/// By how much an axis is better or worse: a time by its change, everything else by the change of speed. A sign alone would be read
/// as the change of what the axis names, which is the opposite for times.
pub fn difference(axis: Axis, effect: f64) -> String {
    let change = if axis.is_time() { 1.0 / (1.0 + effect) - 1.0 } else { effect };
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
    let changed = upgrade.axes.iter().filter(|axis| axis.changed).count() as u64;
    if changed == 0 {
        return format!("{nodes} in both states, and no axis changed.");
    }
    let worse = upgrade.axes.iter().filter(|axis| axis.changed && axis.effect < 0.0).count();
    format!("{nodes} in both states: {} changed, {worse} for the worse.", count(changed, "axis", "axes"))
}
