//! The network between the nodes of a job: what each pair measured, and which sender, receiver or uplink is bad.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds;
use crate::machine::engine::{Engine, is_node_name};
use crate::sys::file;

/// Version of the format.
pub const FORMAT: &str = "sysdyno-mesh/1";
/// Most bytes of a file that is read as one.
pub const MOST_BYTES: u64 = 128 << 20;
/// Most members of a mesh.
pub const MOST_MEMBERS: u32 = 4096;
/// Most pairs of a mesh: their file stays below [`MOST_BYTES`].
pub const MOST_PAIRS: usize = 600_000;

/// Most bytes per second of a flow: no memory takes more from one connection to the next.
const MOST_RATE: u64 = 10_000_000_000_000;
/// A flow is at most this many times as fast as was asked for: a short window can have more than its share.
const MOST_OVER: u64 = 2;
/// Longest round trip in nanoseconds: a pair has less time.
const MOST_ROUND_TRIP: u64 = 60_000_000_000;

/// The network between the nodes of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mesh {
    /// Format version, `sysdyno-mesh/1`.
    pub format: String,
    /// Version of sysdyno.
    pub version: String,
    /// Start, RFC 3339.
    pub started: String,
    /// Duration in seconds, with the wait for all members.
    pub seconds: f64,
    /// How the pairs were measured.
    pub plan: MeshPlan,
    /// The engine that started rank 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// The answer.
    pub verdict: MeshVerdict,
    /// What is odd, rates first, and then the largest effect.
    pub findings: Vec<MeshFinding>,
    /// Names of members with too few pairs to judge.
    pub undecided: Vec<String>,
    /// What the user should know about the networks of the nodes.
    pub warnings: Vec<String>,
    /// Typical values. Absent if no pair was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typical: Option<MeshTypical>,
    /// The members, in the order of their ranks.
    pub members: Vec<MeshMember>,
    /// The connections between racks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uplinks: Vec<RackPair>,
    /// The pairs, in the order in which they were measured. A pair that was measured again is there twice.
    pub pairs: Vec<MeshPair>,
}

/// Whether other pairs were measured at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MeshMode {
    /// All pairs of a round at once.
    Together,
    /// One pair at a time.
    Alone,
}

/// How the pairs of a mesh were measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeshPlan {
    /// Number of tasks that should take part, at most 4096.
    pub size: u32,
    /// Whether other pairs were measured at the same time.
    pub mode: MeshMode,
    /// Number of rounds of disjoint pairs.
    pub rounds: u32,
    /// Seed of the order.
    pub seed: u64,
    /// Connections of a flow.
    pub streams: u8,
    /// Limit of each flow in bytes per second. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_bytes_per_second: Option<u64>,
    /// The network that was asked for: addresses or an interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
}

/// The answer about a mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MeshVerdict {
    /// Every planned pair was measured, and none differs.
    NothingOdd,
    /// A sender, a receiver or a link differs.
    Odd,
    /// Members or pairs are missing, or too few to judge.
    Incomplete,
}

/// A member of a mesh.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeshMember {
    /// Its rank.
    pub rank: u32,
    /// Name of its node. Members on nodes of one name have their rank at its end.
    pub node: String,
    /// Why it did not take part to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
    /// Its rack, if a label or the engine names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
    /// The address that was measured. Absent if the member never came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<MeshLink>,
    /// Other networks of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<MeshLink>,
    /// Seconds by which its clock is ahead of the clock of rank 0, and the largest error of this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_offset: Option<[f64; 2]>,
    /// Relative difference of what it sends from the usual rate: −0.1 is 10 % less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send: Option<f64>,
    /// The same of what it receives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive: Option<f64>,
    /// Relative difference of its round trips from the usual time: 0.5 is half as much again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<f64>,
}

/// A network of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeshLink {
    /// Interface.
    pub interface: String,
    /// Address of the node.
    pub address: IpAddr,
    /// Leading bits of the address that its network shares, at most 128.
    pub prefix: u8,
    /// Link rate in bits per second. Absent where the driver reports none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits_per_second: Option<u64>,
    /// Largest packet in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_bytes: Option<u32>,
}

/// What a pair measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeshPair {
    /// The round, from 1.
    pub round: u32,
    /// Rank of the member that opened the connections.
    pub caller: u32,
    /// Rank of the other member.
    pub callee: u32,
    /// Payload from the caller to the callee, in bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub there: Option<u64>,
    /// Payload from the callee to the caller, in bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<u64>,
    /// Median round trip of 64 bytes, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<u64>,
    /// 10th percentile of the round trips, in nanoseconds: other work on the nodes moves it least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast_round_trip: Option<u64>,
    /// 99th percentile of the round trips, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_round_trip: Option<u64>,
    /// True if the pair was measured again, because it failed or differed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// Why it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Typical values of a mesh.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeshTypical {
    /// Lowest, median and highest rate in bytes per second.
    pub rate: [f64; 3],
    /// Lowest, median and highest round trip in seconds.
    pub round_trip: [f64; 3],
    /// Relative scatter of rates that no member and no pair of racks explains, as a standard deviation.
    pub rate_scatter: f64,
    /// The same of round trips.
    pub round_trip_scatter: f64,
}

/// The connection between two racks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RackPair {
    /// Names of the racks.
    pub racks: [String; 2],
    /// Number of measured flows between them.
    pub flows: u32,
    /// Relative difference of the rates from those of other connections between racks: −0.1 is 10 % less. With two racks, from
    /// the rates within them.
    pub rate: f64,
    /// The same of the round trips. Absent with two racks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<f64>,
}

/// What a finding of a mesh is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MeshFindingKind {
    /// A member sends slowly to all others.
    BadSender,
    /// A member receives slowly from all others.
    BadReceiver,
    /// All members of a rack are slow to other racks.
    SlowRack,
    /// The connection between two racks is slow.
    SlowUplink,
    /// One pair is slow in one direction, in three measurements.
    SlowLink,
    /// Round trips of a member take long.
    HighLatency,
    /// Round trips between two racks take long.
    HighUplinkLatency,
    /// Round trips of one pair take long, in three measurements.
    HighLinkLatency,
}

/// Something odd in a mesh.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeshFinding {
    /// What it is about.
    pub kind: MeshFindingKind,
    /// Names: a member, two members (the sender first), a rack, or two racks.
    pub names: Vec<String>,
    /// Relative difference from the usual value: −0.5 is half the rate, 1 is twice the time.
    pub effect: f64,
    /// The difference over its standard error.
    pub z: f64,
    /// Number of flows or round trips that show it.
    pub values: u32,
    /// Their median, in bytes per second or in seconds. Of round trips, the 10th percentile counts.
    pub typical: f64,
}

impl MeshFindingKind {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            MeshFindingKind::BadSender => "bad sender",
            MeshFindingKind::BadReceiver => "bad receiver",
            MeshFindingKind::SlowRack => "slow uplink of rack",
            MeshFindingKind::SlowUplink => "slow uplink",
            MeshFindingKind::SlowLink => "slow link",
            MeshFindingKind::HighLatency => "high latency",
            MeshFindingKind::HighUplinkLatency => "high latency of uplink",
            MeshFindingKind::HighLinkLatency => "high latency of link",
        }
    }

    /// True if it is about times, not rates.
    pub fn is_latency(self) -> bool {
        use MeshFindingKind::{HighLatency, HighLinkLatency, HighUplinkLatency};
        matches!(self, HighLatency | HighUplinkLatency | HighLinkLatency)
    }
}

impl MeshFinding {
    /// Kind and names: `slow uplink leaf1–leaf2`.
    pub fn title(&self) -> String {
        let between = if self.kind == MeshFindingKind::SlowLink { "→" } else { "–" };
        format!("{} {}", self.kind.words(), self.names.join(between))
    }
}

impl MeshLink {
    /// The network as `10.1.0.0/16`.
    pub fn network(&self) -> String {
        let masked = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix.min(32))).unwrap_or(0);
                IpAddr::from((u32::from(address) & mask).to_be_bytes())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix.min(128))).unwrap_or(0);
                IpAddr::from((u128::from(address) & mask).to_be_bytes())
            }
        };
        format!("{masked}/{}", self.prefix)
    }
}

impl MeshPair {
    /// Whether a pair can have measured this, with flows of at most this many bytes per second. The error says what cannot be.
    pub fn is_possible(&self, most: Option<u64>) -> Result<(), String> {
        let most = most.map_or(MOST_RATE, |asked| MOST_RATE.min(asked.saturating_mul(MOST_OVER)));
        if let Some(rate) = [self.there, self.back].into_iter().flatten().find(|rate| *rate > most) {
            return Err(format!("a rate of {rate} B/s, and at most {most} B/s are possible"));
        }
        let times = [self.fast_round_trip, self.round_trip, self.slow_round_trip];
        let times: Vec<u64> = times.into_iter().flatten().collect();
        if !times.is_sorted() || times.last().is_some_and(|longest| *longest > MOST_ROUND_TRIP) {
            return Err(format!("round trips of {times:?} ns, from the 10th to the 99th percentile"));
        }
        Ok(())
    }

    /// True if it has rates and round trips.
    pub fn is_measured(&self) -> bool {
        self.there.is_some() && self.back.is_some() && self.round_trip.is_some() && self.fast_round_trip.is_some()
    }

    /// The two ranks, the smaller first.
    pub fn ranks(&self) -> (u32, u32) {
        (self.caller.min(self.callee), self.caller.max(self.callee))
    }
}

impl Mesh {
    /// The mesh of a file. Symbolic links are not followed. The error says why it is not one.
    pub fn read(place: &Path) -> Result<Self, String> {
        Mesh::parse(&file::read_regular(place, MOST_BYTES).map_err(|error| error.to_string())?)
    }

    /// The mesh of a file's content. Files come from anywhere: each rank of a pair has its member, names are names of nodes,
    /// and numbers are finite.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mesh: Mesh = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if mesh.format != FORMAT {
            return Err(format!("its format is {}", mesh.format));
        }
        if mesh.members.len() > MOST_MEMBERS as usize || mesh.pairs.len() > MOST_PAIRS {
            return Err(format!("it has {} members and {} pairs", mesh.members.len(), mesh.pairs.len()));
        }
        if !mesh.members.iter().enumerate().all(|(place, member)| member.rank as usize == place) {
            return Err("its members are not in the order of their ranks".to_owned());
        }
        let is_name = |name: &String| is_node_name(name);
        let racks = mesh.members.iter().filter_map(|member| member.rack.as_ref());
        let names = mesh.members.iter().map(|member| &member.node).chain(racks);
        let named = mesh.findings.iter().flat_map(|finding| &finding.names).chain(&mesh.undecided);
        if let Some(name) = names.chain(named).find(|name| !is_name(name)) {
            return Err(format!("'{name}' cannot be the name of a node or a rack"));
        }
        mesh.has_possible_numbers()?;
        let known = |rank: u32| (rank as usize) < mesh.members.len();
        if !mesh.pairs.iter().all(|pair| known(pair.caller) && known(pair.callee) && pair.caller != pair.callee) {
            return Err("it has a pair without its members".to_owned());
        }
        Ok(mesh)
    }

    fn has_possible_numbers(&self) -> Result<(), String> {
        self.pairs.iter().try_for_each(|pair| pair.is_possible(self.plan.most_bytes_per_second))?;
        let members = self.members.iter().flat_map(|member| {
            let effects = [member.send, member.receive, member.latency].into_iter().flatten();
            effects.chain(member.clock_offset.into_iter().flatten())
        });
        let uplinks = self.uplinks.iter().flat_map(|pair| [Some(pair.rate), pair.latency]).flatten();
        let findings = self.findings.iter().flat_map(|found| [found.effect, found.z, found.typical]);
        let typical = self.typical.iter().flat_map(|found| {
            let scatter = [found.rate_scatter, found.round_trip_scatter];
            found.rate.into_iter().chain(found.round_trip).chain(scatter)
        });
        let mut all = members.chain(uplinks).chain(findings).chain(typical).chain([self.seconds]);
        all.try_for_each(|value| bounds::number("a number of the mesh", value))
    }

    /// The best measurement of each pair by its ranks: a disturbed flow is only ever slower.
    pub fn best(&self) -> BTreeMap<(u32, u32), BestOfPair> {
        let mut best: BTreeMap<(u32, u32), BestOfPair> = BTreeMap::new();
        for pair in &self.pairs {
            let (Some(there), Some(back)) = (pair.there, pair.back) else { continue };
            let (Some(median), Some(fast)) = (pair.round_trip, pair.fast_round_trip) else { continue };
            let ranks = pair.ranks();
            let (up, down) = if pair.caller == ranks.0 { (there, back) } else { (back, there) };
            let found = best.entry(ranks).or_default();
            found.up = found.up.max(up);
            found.down = found.down.max(down);
            let least = |found_before: u64, now: u64| if found.times == 0 { now } else { found_before.min(now) };
            (found.round_trip, found.fast_round_trip) =
                (least(found.round_trip, median), least(found.fast_round_trip, fast));
            found.times += 1;
        }
        best
    }

    /// Pairs that were planned and never measured, with the last reason.
    pub fn missing(&self) -> Vec<((u32, u32), &str)> {
        let measured = self.best();
        let mut missing: BTreeMap<(u32, u32), &str> = BTreeMap::new();
        for pair in self.pairs.iter().filter(|pair| !measured.contains_key(&pair.ranks())) {
            missing.insert(pair.ranks(), pair.reason.as_deref().unwrap_or("not measured"));
        }
        missing.into_iter().collect()
    }
}

/// The best measurement of a pair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BestOfPair {
    /// From the smaller rank to the larger one, in bytes per second.
    pub up: u64,
    /// From the larger rank to the smaller one, in bytes per second.
    pub down: u64,
    /// Median round trip in nanoseconds.
    pub round_trip: u64,
    /// 10th percentile of the round trips, in nanoseconds.
    pub fast_round_trip: u64,
    /// How often the pair was measured.
    pub times: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(address: &str, prefix: u8) -> MeshLink {
        MeshLink {
            interface: "f0".to_owned(),
            address: address.parse().unwrap(),
            prefix,
            bits_per_second: None,
            mtu_bytes: None,
        }
    }

    #[test]
    fn a_pair_reports_what_its_flow_allows() {
        let pair = |there: u64, times: [u64; 3]| MeshPair {
            round: 1,
            caller: 0,
            callee: 1,
            there: Some(there),
            back: Some(1),
            fast_round_trip: Some(times[0]),
            round_trip: Some(times[1]),
            slow_round_trip: Some(times[2]),
            again: false,
            reason: None,
        };
        let honest = [20_000, 30_000, 90_000];
        assert_eq!(pair(12_500_000_000, honest).is_possible(None), Ok(()));
        assert_eq!(pair(20_400_000, honest).is_possible(Some(20_000_000)), Ok(()));
        let why = pair(u64::MAX, honest).is_possible(None).unwrap_err();
        assert_eq!(why, "a rate of 18446744073709551615 B/s, and at most 10000000000000 B/s are possible");
        assert!(pair(50_000_000, honest).is_possible(Some(20_000_000)).unwrap_err().contains("40000000 B/s"));
        assert!(pair(1, [2, 1, 3]).is_possible(None).is_err() && pair(1, [1, 2, u64::MAX]).is_possible(None).is_err());
    }

    #[test]
    fn networks_have_their_prefix() {
        assert_eq!(link("10.79.3.4", 16).network(), "10.79.0.0/16");
        assert_eq!(link("10.79.3.4", 32).network(), "10.79.3.4/32");
        assert_eq!(link("10.79.3.4", 0).network(), "0.0.0.0/0");
        assert_eq!(link("fd00::7:1", 64).network(), "fd00::/64");
        assert_eq!(link("fd00::1", 255).network(), "fd00::1/255", "a wrong prefix does not stop the reader");
    }
}
