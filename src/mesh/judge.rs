//! From the parts of rates and round trips to findings.
//!
//! A part differs if it is beyond both a limit of noise and a limit of what matters. Noise is the scatter of what no part
//! explains. In a small mesh few values are left for that, so the scatter is mixed with a usual one, which counts as much as
//! [`PRIOR_VALUES`] values.

use std::collections::BTreeMap;

use super::LEAST_FLOWS;
use super::polish::{Entry, Polished, polish};
use crate::results::mesh::{BestOfPair, Mesh, MeshFinding, MeshFindingKind, MeshMember, RackPair};
use crate::statistics::distribution::normal_quantile;
use crate::statistics::summary::{NORMAL_CONSISTENCY, median, median_absolute_deviation};

/// Chance that a healthy mesh has a finding of one kind.
const FALSE_ALARM: f64 = 0.002;
/// Standard error of a median over the deviation of its values and the root of their number, with what the polish adds.
const OF_A_MEDIAN: f64 = 1.253 * 1.1;
/// Values that the usual scatter counts as.
const PRIOR_VALUES: f64 = 8.0;
/// Members, groups or racks from which on their own scatter is known.
const MANY: usize = 8;
/// Fewest racks and uplinks of a rack with which a rack is judged.
const LEAST_RACKS: usize = 4;
/// Connections between racks from which on they are compared with each other.
const LEAST_UPLINKS: usize = 3;
/// Measurements of a pair with which a link is judged: something else may have disturbed the first and the second.
const ENOUGH: u32 = 3;
/// Most pairs that are measured again.
const MOST_DOUBTFUL: usize = 32;

/// Fewest flows between two racks that are a separate group: a median of fewer would be the flows themselves.
const LEAST_OF_GROUP: u32 = 6;
/// The group of pairs within a rack, or without one.
const WITHIN: usize = 0;
/// The group of pairs between racks with few flows.
const OTHERS: usize = 1;

/// What is measured, with the size of differences that matter.
struct Kind {
    /// −1 where less is worse.
    worse: f64,
    /// Usual scatter of the logarithm.
    scatter: f64,
    /// Smallest differences of logarithms that count: of members, of uplinks and racks, of links.
    least: [f64; 3],
    sender: MeshFindingKind,
    receiver: MeshFindingKind,
    rack: Option<MeshFindingKind>,
    uplink: MeshFindingKind,
    link: MeshFindingKind,
}

/// A healthy flow scatters by 3 %. Less than 5 % of a member, 10 % of an uplink and 15 % of a link do not count.
const RATE: Kind = Kind {
    worse: -1.0,
    scatter: 0.03,
    least: [0.051, 0.105, 0.163],
    sender: MeshFindingKind::BadSender,
    receiver: MeshFindingKind::BadReceiver,
    rack: Some(MeshFindingKind::SlowRack),
    uplink: MeshFindingKind::SlowUplink,
    link: MeshFindingKind::SlowLink,
};
/// Round trips scatter by 10 %. Less than a quarter of a member and of an uplink, and half of a link, do not count.
const LATENCY: Kind = Kind {
    worse: 1.0,
    scatter: 0.1,
    least: [0.223, 0.223, 0.405],
    sender: MeshFindingKind::HighLatency,
    receiver: MeshFindingKind::HighLatency,
    rack: None,
    uplink: MeshFindingKind::HighUplinkLatency,
    link: MeshFindingKind::HighLinkLatency,
};

/// What the pairs of a mesh say.
pub struct Judged {
    pub findings: Vec<MeshFinding>,
    pub uplinks: Vec<RackPair>,
    /// Send, receive and latency of each member, where decided.
    pub effects: Vec<[Option<f64>; 3]>,
    /// Of rates and of round trips.
    pub scatter: [f64; 2],
    pub doubtful: Vec<(u32, u32)>,
}

/// Judges all pairs.
pub fn judge(mesh: &Mesh) -> Judged {
    let best = mesh.best();
    let groups = RackGroups::of(&mesh.members, &best);
    let (mut rates, mut times) = (Vec::new(), Vec::new());
    let mut measured_enough = Vec::new();
    for (&(one, other), pair) in &best {
        let group = groups.group(&mesh.members, (one, other));
        let (from, to) = (one as usize, other as usize);
        // A rate of nothing has no logarithm, and is as bad as a byte a second.
        let logarithm = |value: u64| (value.max(1) as f64).ln();
        rates.push(Entry { from, to, group, value: logarithm(pair.up) });
        rates.push(Entry { from: to, to: from, group, value: logarithm(pair.down) });
        // Both ways are one way: the effects of a member as sender and as receiver are alike.
        let value = logarithm(pair.fast_round_trip) - 1e9_f64.ln();
        times.extend([Entry { from, to, group, value }, Entry { from: to, to: from, group, value }]);
        measured_enough.extend([pair.times >= ENOUGH; 2]);
    }
    let rate = Side::of(&RATE, mesh, &groups, rates, &measured_enough);
    let time = Side::of(&LATENCY, mesh, &groups, times, &measured_enough);
    let relative = |effect: f64| effect.exp_m1();
    let effects = (0..mesh.members.len())
        .map(|place| {
            let latency = time.sends[place].zip(time.receives[place]).map(|(one, other)| f64::midpoint(one, other));
            [rate.sends[place].map(relative), rate.receives[place].map(relative), latency.map(relative)]
        })
        .collect();
    let uplinks = groups.names.iter().enumerate().map(|(number, racks)| RackPair {
        racks: racks.clone(),
        flows: rate.entries.iter().filter(|entry| entry.group == number + 2).count() as u32,
        rate: relative(rate.uplinks[number]),
        latency: (groups.names.len() >= LEAST_UPLINKS).then(|| relative(time.uplinks[number])),
    });
    let uplinks = uplinks.collect();
    let scatter = [rate.scatter, time.scatter];
    let mut findings: Vec<MeshFinding> = rate.findings.into_iter().chain(time.findings).collect();
    // Rates first, and then the largest effect.
    let order = |finding: &MeshFinding| (finding.kind.is_latency(), -finding.effect.ln_1p().abs());
    findings.sort_by(|one, other| {
        let (one, other) = (order(one), order(other));
        one.0.cmp(&other.0).then_with(|| one.1.total_cmp(&other.1))
    });
    let mut doubtful: Vec<((u32, u32), f64)> = rate.doubtful;
    doubtful.extend(time.doubtful);
    doubtful.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for (pair, _) in doubtful {
        if !pairs.contains(&pair) && pairs.len() < MOST_DOUBTFUL {
            pairs.push(pair);
        }
    }
    Judged { findings, uplinks, effects, scatter, doubtful: pairs }
}

/// What rates or round trips say.
struct Side<'a> {
    kind: &'a Kind,
    mesh: &'a Mesh,
    entries: Vec<Entry>,
    /// For each entry, whether its pair was measured often enough.
    measured_enough: &'a [bool],
    parts: Polished,
    scatter: f64,
    sends: Vec<Option<f64>>,
    receives: Vec<Option<f64>>,
    /// Of each group from number 2 on, less what is usual.
    uplinks: Vec<f64>,
    findings: Vec<MeshFinding>,
    doubtful: Vec<((u32, u32), f64)>,
}

/// Deviations from which on a difference is one, among this many that are looked at.
fn deviations(looked_at: usize) -> f64 {
    normal_quantile(1.0 - FALSE_ALARM / looked_at.max(1) as f64).unwrap_or(5.0)
}

/// Scatter of values around their median, as a standard deviation.
fn spread(values: &[f64]) -> f64 {
    NORMAL_CONSISTENCY * median_absolute_deviation(values).unwrap_or(0.0)
}

/// Scatter of what is left over, mixed with the usual one.
fn scatter(parts: &Polished, kind: &Kind) -> f64 {
    let used = |effects: &[f64]| effects.iter().filter(|effect| effect.abs() > 1e-12).count() as f64;
    let values = parts.rest.len() as f64;
    let free = (values - used(&parts.senders) - used(&parts.receivers) - used(&parts.groups)).max(1.0);
    // Parts take scatter with them.
    let found = spread(&parts.rest) * (values / free).sqrt();
    ((PRIOR_VALUES * kind.scatter.powi(2) + free * found.powi(2)) / (PRIOR_VALUES + free)).sqrt()
}

impl<'a> Side<'a> {
    fn of(
        kind: &'a Kind,
        mesh: &'a Mesh,
        groups: &RackGroups,
        entries: Vec<Entry>,
        measured_enough: &'a [bool],
    ) -> Self {
        let parts = polish(&entries, mesh.members.len(), groups.count());
        let scatter = scatter(&parts, kind);
        let mut side = Side {
            kind,
            mesh,
            entries,
            measured_enough,
            scatter,
            sends: Vec::new(),
            receives: Vec::new(),
            uplinks: Vec::new(),
            findings: Vec::new(),
            doubtful: Vec::new(),
            parts,
        };
        let slow_groups = side.judge_groups(groups);
        let slow = [side.judge_members(true), side.judge_members(false)];
        side.judge_links(&slow_groups, &slow);
        side
    }

    /// The median of the values of some entries, as they were measured, and their number.
    fn typical(&self, of: impl Fn(&Entry) -> bool) -> (f64, u32) {
        let values: Vec<f64> = self.entries.iter().filter(|entry| of(entry)).map(|entry| entry.value).collect();
        (median(&values).unwrap_or(0.0).exp(), values.len() as u32)
    }

    fn find(
        &mut self,
        kind: MeshFindingKind,
        names: Vec<String>,
        (effect, error): (f64, f64),
        of: impl Fn(&Entry) -> bool,
    ) {
        let (typical, values) = self.typical(of);
        let z = effect / error;
        self.findings.push(MeshFinding { kind, names, effect: effect.exp_m1(), z, values, typical });
    }

    /// Has the pair of an entry measured again, if it was not measured often enough.
    fn doubt(&mut self, place: usize, effect: f64) -> bool {
        let (one, other) = (self.entries[place].from as u32, self.entries[place].to as u32);
        if !self.measured_enough[place] {
            self.doubtful.push(((one.min(other), one.max(other)), effect.abs()));
        }
        !self.measured_enough[place]
    }

    /// True if an effect is worse by more than its limits.
    fn is_worse(&self, effect: f64, error: f64, least: f64, looked_at: usize) -> bool {
        effect * self.kind.worse > least.max(deviations(looked_at) * error)
    }

    /// Connections between racks. Returns for each group whether it is slow.
    fn judge_groups(&mut self, groups: &RackGroups) -> Vec<bool> {
        let count = |group: usize| self.entries.iter().filter(|entry| entry.group == group).count();
        let counts: Vec<usize> = (0..groups.count()).map(count).collect();
        let mut slow = vec![false; groups.count()];
        let mut effects: Vec<f64> = self.parts.groups[2..].to_vec();
        let many = effects.len() >= LEAST_UPLINKS;
        // Between two racks there is one connection, and pairs within a rack are all that it can be compared with.
        let usual = if many { median(&effects).unwrap_or(0.0) } else { self.parts.groups[WITHIN] };
        for effect in &mut effects {
            *effect -= usual;
        }
        self.uplinks.clone_from(&effects);
        if !many && (counts[WITHIN] < LEAST_FLOWS || self.kind.rack.is_none()) {
            return slow;
        }
        let error = |flows: usize| OF_A_MEDIAN * self.scatter / (flows.max(1) as f64).sqrt();
        let racks = groups.by_rack();
        let of_racks: Vec<(&str, f64, f64, Vec<usize>)> = racks
            .into_iter()
            .filter(|(_, groups)| groups.len() >= LEAST_UPLINKS)
            .filter_map(|(rack, groups)| {
                let own: Vec<f64> = groups.iter().map(|group| effects[group - 2]).collect();
                let flows = groups.iter().map(|&group| counts[group]).sum();
                Some((rack, median(&own)?, error(flows), groups))
            })
            .collect();
        if let Some(kind) = self.kind.rack.filter(|_| of_racks.len() >= LEAST_RACKS) {
            let medians: Vec<f64> = of_racks.iter().map(|found| found.1).collect();
            let centre = median(&medians).unwrap_or(0.0);
            for (rack, effect, error, members) in &of_racks {
                let error = error.max(if of_racks.len() >= MANY { spread(&medians) } else { 0.0 });
                if self.is_worse(effect - centre, error, self.kind.least[1], of_racks.len()) {
                    self.find(kind, vec![(*rack).to_owned()], (effect - centre, error), |entry| {
                        members.contains(&entry.group)
                    });
                    for &group in members {
                        effects[group - 2] -= effect - centre;
                        slow[group] = true;
                    }
                }
            }
        }
        let between = if effects.len() >= MANY { spread(&effects) } else { 0.0 };
        for (number, racks) in groups.names.iter().enumerate() {
            let group = number + 2;
            let error = OF_A_MEDIAN * self.scatter / (counts[group] as f64).sqrt();
            let error = error.max(between);
            if self.is_worse(effects[number], error, self.kind.least[1], effects.len()) {
                slow[group] = true;
                self.find(self.kind.uplink, racks.to_vec(), (effects[number], error), |entry| entry.group == group);
            }
        }
        slow
    }

    /// Members as senders or as receivers. Returns for each whether it is bad.
    fn judge_members(&mut self, sending: bool) -> Vec<bool> {
        let all = if sending { self.parts.senders.clone() } else { self.parts.receivers.clone() };
        let key = |entry: &Entry| if sending { entry.from } else { entry.to };
        let mut flows = vec![0_usize; all.len()];
        self.entries.iter().for_each(|entry| flows[key(entry)] += 1);
        let effects: Vec<Option<f64>> =
            all.iter().zip(&flows).map(|(effect, flows)| (*flows >= LEAST_FLOWS).then_some(*effect)).collect();
        let decided: Vec<f64> = effects.iter().flatten().copied().collect();
        let between = if decided.len() >= MANY { spread(&decided) } else { 0.0 };
        let mut bad = vec![false; all.len()];
        for (place, effect) in effects.iter().enumerate() {
            let Some(effect) = *effect else { continue };
            let error = (OF_A_MEDIAN * self.scatter / (flows[place] as f64).sqrt()).max(between);
            if !self.is_worse(effect, error, self.kind.least[0], 2 * decided.len()) {
                continue;
            }
            bad[place] = true;
            // What is twice beyond the limits needs no further proof.
            if !self.is_worse(effect, 2.0 * error, 2.0 * self.kind.least[0], 2 * decided.len()) {
                let own: Vec<usize> =
                    (0..self.entries.len()).filter(|&flow| key(&self.entries[flow]) == place).collect();
                for flow in own {
                    self.doubt(flow, effect);
                }
            }
            let kind = if sending { self.kind.sender } else { self.kind.receiver };
            let name = self.mesh.members[place].node.clone();
            // Round trips have no direction: one finding is enough.
            if !self.findings.iter().any(|finding| finding.kind == kind && finding.names[0] == name) {
                self.find(kind, vec![name], (effect, error), |entry| key(entry) == place);
            }
        }
        if sending {
            self.sends = effects;
        } else {
            self.receives = effects;
        }
        bad
    }

    /// Single links, where neither a member nor an uplink is the reason.
    fn judge_links(&mut self, slow_groups: &[bool], bad: &[Vec<bool>; 2]) {
        let decided = |place: usize| self.sends[place].is_some() && self.receives[place].is_some();
        let mut links = Vec::new();
        for (place, entry) in self.entries.iter().enumerate() {
            // Round trips are there twice.
            let twice = self.kind.rack.is_none() && entry.from > entry.to;
            let explained = slow_groups[entry.group] || bad[0][entry.from] || bad[1][entry.to];
            if !twice && !explained && decided(entry.from) && decided(entry.to) {
                links.push((place, *entry));
            }
        }
        let looked_at = links.len();
        for (place, Entry { from, to, .. }) in links {
            let effect = self.parts.rest[place];
            if !self.is_worse(effect, self.scatter, self.kind.least[2], looked_at) {
                continue;
            }
            if self.doubt(place, effect) {
                continue;
            }
            let names = [from, to].map(|place| self.mesh.members[place].node.clone()).to_vec();
            self.find(self.kind.link, names, (effect, self.scatter), |entry| entry.from == from && entry.to == to);
        }
    }
}

/// Groups of pairs by their racks: pairs within a rack, and pairs between two racks, which share an uplink.
struct RackGroups {
    numbers: BTreeMap<[String; 2], usize>,
    /// The racks of each group from number 2 on.
    names: Vec<[String; 2]>,
}

/// The racks of a pair, in the order of their names; none within a rack.
fn racks_of(members: &[MeshMember], (one, other): (u32, u32)) -> Option<[String; 2]> {
    let rack = |rank: u32| members.get(rank as usize)?.rack.clone();
    let mut racks = [rack(one)?, rack(other)?];
    racks.sort();
    (racks[0] != racks[1]).then_some(racks)
}

impl RackGroups {
    /// The groups of measured pairs.
    fn of(members: &[MeshMember], best: &BTreeMap<(u32, u32), BestOfPair>) -> Self {
        let mut flows: BTreeMap<[String; 2], u32> = BTreeMap::new();
        for racks in best.keys().filter_map(|ranks| racks_of(members, *ranks)) {
            *flows.entry(racks).or_default() += 2;
        }
        let names: Vec<[String; 2]> =
            flows.into_iter().filter(|(_, flows)| *flows >= LEAST_OF_GROUP).map(|(racks, _)| racks).collect();
        let numbers = names.iter().cloned().enumerate().map(|(number, racks)| (racks, number + 2)).collect();
        RackGroups { numbers, names }
    }

    /// Number of groups.
    fn count(&self) -> usize {
        2 + self.names.len()
    }

    /// The group of a pair.
    fn group(&self, members: &[MeshMember], ranks: (u32, u32)) -> usize {
        racks_of(members, ranks).map_or(WITHIN, |racks| self.numbers.get(&racks).copied().unwrap_or(OTHERS))
    }

    /// Groups of each rack.
    fn by_rack(&self) -> BTreeMap<&str, Vec<usize>> {
        let mut racks: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, names) in self.names.iter().enumerate() {
            for name in names {
                racks.entry(name).or_default().push(number + 2);
            }
        }
        racks
    }
}
