//! What the node files of a fleet say: which nodes are odd, which facts differ, and what has to be measured again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mesh::{MeshFinding, MeshVerdict};

/// Version of the format.
pub const FORMAT: &str = "sysdyno-fleet/1";

/// One thing that can be wrong with a node. Results that share a cause belong to one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Core clock.
    Clock,
    /// Work of the core, in cycles.
    Core,
    /// System calls and signals, in cycles.
    SystemCalls,
    /// Context switches on one CPU, in cycles.
    Switching,
    /// Processes and threads, in cycles.
    Processes,
    /// Page faults, in cycles.
    PageFaults,
    /// Latency of the caches.
    CacheLatency,
    /// Latency of main memory.
    DramLatency,
    /// Rate of the caches.
    CacheRate,
    /// Rate of main memory, one thread.
    DramRateOne,
    /// Rate of main memory, several threads.
    DramRateAll,
    /// Rate of the link to another machine.
    LinkRate,
    /// Latency of the link to another machine.
    LinkLatency,
    /// Network stack without a link.
    Loopback,
    /// Disk.
    Disk,
    /// Files in the page cache.
    CachedFiles,
    /// Several processes that read at once.
    Readers,
}

/// The answer for the whole fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FleetVerdict {
    /// Every expected node was measured, and none differs.
    NothingOdd,
    /// A node or a rack differs in every run, or a link differs.
    Odd,
    /// Nodes are missing, or have to be measured again, or are too few to judge.
    Undecided,
}

/// All nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fleet {
    /// Format version, `sysdyno-fleet/1`.
    pub format: String,
    /// The answer.
    pub verdict: FleetVerdict,
    /// Number of expected nodes: of the list, or of the nodes that have a directory.
    pub expected: u32,
    /// True where a list names the expected nodes.
    #[serde(default)]
    pub listed: bool,
    /// Number of nodes with a complete run.
    pub complete: u32,
    /// Number of runs that were read.
    pub runs: u32,
    /// Names of expected nodes without any run.
    pub missing: Vec<String>,
    /// Names of nodes whose runs are all incomplete.
    pub partial: Vec<String>,
    /// Names of measured nodes that the list does not have.
    pub unexpected: Vec<String>,
    /// Names of nodes to measure again, with as many random healthy nodes.
    pub again: Vec<String>,
    /// Files that are no run.
    pub left_aside: Vec<LeftAside>,
    /// Nodes that can be compared with each other, the largest group first.
    pub groups: Vec<NodeGroup>,
    /// The newest measurement of the network between the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mesh: Option<FleetMesh>,
    /// The comparison with an earlier state of the fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Upgrade>,
}

/// The network between the nodes, from the result of `sysdyno mesh`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetMesh {
    /// Where the whole result is.
    pub place: String,
    /// Start, RFC 3339.
    pub started: String,
    /// The answer.
    pub verdict: MeshVerdict,
    /// Number of members.
    pub members: u32,
    /// Number of measured pairs.
    pub pairs: u32,
    /// Number of planned pairs that were not measured.
    pub missing: u32,
    /// What is odd, rates first, and then the largest effect.
    pub findings: Vec<MeshFinding>,
    /// Names of members with too few pairs to judge.
    pub undecided: Vec<String>,
}

/// A file that is not a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftAside {
    /// Where it is.
    pub place: String,
    /// Why it was not used.
    pub reason: String,
}

/// Nodes of one model, measured by the same methods.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeGroup {
    /// Hash of the model.
    pub fingerprint: String,
    /// Model of the processor, where the nodes name one.
    pub model: String,
    /// Profile of the runs.
    pub profile: String,
    /// Version and build of sysdyno.
    pub build: String,
    /// Hash of the binary. Absent where the runs do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary: Option<String>,
    /// Experiments with their method versions.
    pub methods: String,
    /// False where the group has too few nodes for a judgement.
    pub judged: bool,
    /// Number of nodes with a first run, a second run and so on.
    pub rounds: Vec<u32>,
    /// Facts of which a few nodes have another value.
    pub odd_facts: Vec<OddFact>,
    /// Facts that split the nodes into large groups with different results.
    pub splits: Vec<FactSplit>,
    /// Racks that differ from the other racks.
    pub racks: Vec<OddRack>,
    /// The axes that its nodes have results on.
    pub axes: Vec<AxisSummary>,
    /// The nodes, in the order of their names.
    pub nodes: Vec<FleetNode>,
}

/// A fact of which a few nodes have another value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OddFact {
    /// Name of the fact.
    pub fact: String,
    /// The value of most nodes.
    pub usual: String,
    /// The other value.
    pub value: String,
    /// The nodes that have it.
    pub nodes: Vec<String>,
}

/// A fact that explains a difference between two large groups of nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FactSplit {
    /// Name of the fact.
    pub fact: String,
    /// The axis that it explains.
    pub axis: Axis,
    /// The value of the fact.
    pub value: String,
    /// Number of nodes with this value.
    pub nodes: u32,
    /// Their relative difference from all others: 0.02 is 2 % better.
    pub effect: f64,
}

/// A rack that differs from the other racks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OddRack {
    /// Its label.
    pub rack: String,
    /// On which axis.
    pub axis: Axis,
    /// Relative difference of its median from that of all racks: −0.1 is 10 % worse.
    pub effect: f64,
    /// Number of its nodes.
    pub nodes: u32,
    /// In which runs: 1 is the first run of each node.
    pub rounds: Vec<u32>,
    /// True if it differs in every run, and there are two or more.
    pub confirmed: bool,
}

/// An axis of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AxisSummary {
    /// The axis.
    pub axis: Axis,
    /// The results that decide it. Where none does, the results that nodes have.
    pub results: Vec<String>,
    /// Relative scatter between nodes, as a standard deviation. Without meaning where no node is decided.
    pub scatter: f64,
    /// Smallest relative difference that counts.
    pub least: f64,
    /// Number of nodes with a decided run.
    pub decided: u32,
    /// Number of nodes without one.
    pub undecided: u32,
}

/// What the runs say about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeVerdict {
    /// It differs in every run, and there are two or more.
    Odd,
    /// It differs, and one more run has to confirm that.
    Suspect,
    /// Results are contaminated, refused or missing, or cannot be compared.
    Undecided,
    /// Nothing differs.
    Healthy,
    /// Its group is too small.
    NotJudged,
}

/// A node of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetNode {
    /// Its name.
    pub name: String,
    /// Its rack, if a label names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
    /// What its runs say.
    pub verdict: NodeVerdict,
    /// Number of its runs.
    pub runs: u32,
    /// True if one of its runs is complete.
    pub complete: bool,
    /// The axes that it has results on.
    pub axes: Vec<NodeAxis>,
    /// Groups of results that most nodes have and this node never had: a label or a metric.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// Duration of its runs over the usual duration, if it is three times as long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<f64>,
    /// What the pattern of its axes looks like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// What the runs say about one axis of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AxisState {
    /// As its siblings.
    Usual,
    /// It differs in every run, and there are two or more.
    Odd,
    /// It differs, and one more run has to confirm that.
    Suspect,
    /// No run decides.
    Undecided,
}

/// An axis of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeAxis {
    /// The axis.
    pub axis: Axis,
    /// What the runs say.
    pub state: AxisState,
    /// Relative difference from the siblings: 0.1 is 10 % better. Absent if no run decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<f64>,
    /// The difference over the scatter between siblings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub z: Option<f64>,
    /// Number of runs that decide.
    pub runs: u32,
    /// Why no run decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The fleet now against an earlier state of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Upgrade {
    /// Number of nodes that both states have, with the same methods.
    pub nodes: u32,
    /// Fewest nodes with which a change can be shown.
    pub least_nodes: u32,
    /// Nodes that only one state has, or that were measured by other methods.
    pub unpaired: Vec<String>,
    /// Facts that changed, with the number of nodes.
    pub facts: Vec<ChangedFact>,
    /// The axes.
    pub axes: Vec<AxisChange>,
    /// Axes that both states measured, without results that can be compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undecided: Vec<Axis>,
}

/// A fact that changed between two states of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedFact {
    /// Name of the fact.
    pub fact: String,
    /// The value before.
    pub before: String,
    /// The value now.
    pub now: String,
    /// The nodes on which it changed in this way.
    pub nodes: Vec<String>,
}

/// The change of an axis between two states of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AxisChange {
    /// The axis.
    pub axis: Axis,
    /// Number of nodes with a difference.
    pub nodes: u32,
    /// Median of the relative changes of the nodes: 0.01 is 1 % better.
    pub effect: f64,
    /// 95 % interval of the median change. Absent with too few nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// p value of the signed-rank test, adjusted for the number of axes.
    pub p: f64,
    /// True if the change is shown.
    pub changed: bool,
    /// Nodes that changed by another amount than the rest.
    pub apart: Vec<String>,
}

impl Axis {
    /// All axes, in the order of reports.
    pub const ALL: [Axis; 17] = [
        Axis::Clock,
        Axis::Core,
        Axis::SystemCalls,
        Axis::Switching,
        Axis::Processes,
        Axis::PageFaults,
        Axis::CacheLatency,
        Axis::DramLatency,
        Axis::CacheRate,
        Axis::DramRateOne,
        Axis::DramRateAll,
        Axis::LinkRate,
        Axis::LinkLatency,
        Axis::Loopback,
        Axis::Disk,
        Axis::CachedFiles,
        Axis::Readers,
    ];

    /// Its name in plain words.
    pub fn name(self) -> &'static str {
        match self {
            Axis::Clock => "core clock",
            Axis::Core => "core work in cycles",
            Axis::SystemCalls => "system calls",
            Axis::Switching => "context switches",
            Axis::Processes => "processes and threads",
            Axis::PageFaults => "page faults",
            Axis::CacheLatency => "cache latency",
            Axis::DramLatency => "DRAM latency",
            Axis::CacheRate => "cache rate",
            Axis::DramRateOne => "DRAM rate, one thread",
            Axis::DramRateAll => "DRAM rate, all threads",
            Axis::LinkRate => "link rate",
            Axis::LinkLatency => "link latency",
            Axis::Loopback => "loopback",
            Axis::Disk => "disk",
            Axis::CachedFiles => "cached files",
            Axis::Readers => "readers at once",
        }
    }

    /// Whether all its key results are times. Other axes are rates, or have both.
    pub fn is_time(self) -> bool {
        match self {
            Axis::Core
            | Axis::SystemCalls
            | Axis::Switching
            | Axis::Processes
            | Axis::PageFaults
            | Axis::CacheLatency
            | Axis::DramLatency
            | Axis::LinkLatency => true,
            Axis::Clock
            | Axis::CacheRate
            | Axis::DramRateOne
            | Axis::DramRateAll
            | Axis::LinkRate
            | Axis::Loopback
            | Axis::Disk
            | Axis::CachedFiles
            | Axis::Readers => false,
        }
    }
}

impl NodeGroup {
    /// The axes that no node of a judged group decides.
    pub fn open_axes(&self) -> impl Iterator<Item = &AxisSummary> {
        self.axes.iter().filter(|axis| axis.decided == 0)
    }
}

impl FleetNode {
    /// The axes of one state.
    pub fn axes_in(&self, state: AxisState) -> impl Iterator<Item = &NodeAxis> {
        self.axes.iter().filter(move |found| found.state == state)
    }
}

impl Fleet {
    /// True if there is a mesh, and no node was measured or expected.
    pub fn is_mesh_alone(&self) -> bool {
        self.mesh.is_some() && self.runs == 0 && self.expected == 0
    }

    /// All nodes with one verdict, with their groups.
    pub fn nodes(&self, verdict: NodeVerdict) -> impl Iterator<Item = (&NodeGroup, &FleetNode)> {
        let of = move |group| move |node| (group, node);
        let wanted = move |(_, node): &(&NodeGroup, &FleetNode)| node.verdict == verdict;
        self.groups.iter().flat_map(move |group| group.nodes.iter().map(of(group))).filter(wanted)
    }

    /// Names of all nodes with one verdict, each once.
    pub fn names(&self, verdict: NodeVerdict) -> Vec<String> {
        let mut names: Vec<String> = self.nodes(verdict).map(|(_, node)| node.name.clone()).collect();
        names.sort();
        names.dedup();
        names
    }
}
