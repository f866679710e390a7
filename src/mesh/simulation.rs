//! How often the analysis is right: synthetic meshes by seed, with known faults.

use std::collections::BTreeMap;

use super::rounds::rounds;
use super::{AGAIN, doubtful, judge};
use crate::results::mesh::{FORMAT, Mesh, MeshFindingKind, MeshMember, MeshMode, MeshPair, MeshPlan, MeshVerdict};
use crate::statistics::synthetic::normal_draw;

/// A usual rate in bytes per second, and a usual round trip in nanoseconds.
const RATE: f64 = 1.2e9;
const ROUND_TRIP: f64 = 2e4;
/// Between racks, a round trip takes this many times as long.
const FAR: f64 = 1.4;

/// A synthetic mesh.
struct Synthetic {
    size: u32,
    racks: u32,
    rounds: Option<u32>,
    /// Scatter of rates and of round trips.
    noise: [f64; 2],
    /// Share of flows that something disturbs.
    wild: f64,
    /// What is left of a rate, by sender, receiver, racks and link.
    senders: BTreeMap<u32, f64>,
    receivers: BTreeMap<u32, f64>,
    uplinks: BTreeMap<(u32, u32), f64>,
    links: BTreeMap<(u32, u32), f64>,
    /// Times of round trips over the usual, by member.
    slow: BTreeMap<u32, f64>,
}

impl Synthetic {
    fn new(size: u32, racks: u32, rounds: Option<u32>) -> Self {
        Synthetic {
            size,
            racks,
            rounds,
            noise: [0.03, 0.08],
            wild: 0.01,
            senders: BTreeMap::new(),
            receivers: BTreeMap::new(),
            uplinks: BTreeMap::new(),
            links: BTreeMap::new(),
            slow: BTreeMap::new(),
        }
    }

    fn rack(&self, rank: u32) -> u32 {
        rank * self.racks / self.size
    }

    fn rate(&self, random: &mut fastrand::Rng, from: u32, to: u32) -> u64 {
        let racks = (self.rack(from).min(self.rack(to)), self.rack(from).max(self.rack(to)));
        let of = |found: Option<&f64>| found.copied().unwrap_or(1.0);
        let wild = if random.f64() < self.wild { 0.2 + 0.7 * random.f64() } else { 1.0 };
        let factors = of(self.senders.get(&from)) * of(self.receivers.get(&to)) * of(self.uplinks.get(&racks));
        let factors = factors * of(self.links.get(&(from, to))) * wild;
        (RATE * factors * (self.noise[0] * normal_draw(random)).exp()) as u64
    }

    fn pair(&self, random: &mut fastrand::Rng, round: u32, (caller, callee): (u32, u32)) -> MeshPair {
        let of = |rank: u32| self.slow.get(&rank).copied().unwrap_or(1.0);
        let far = if self.rack(caller) == self.rack(callee) { 1.0 } else { FAR };
        let wild = if random.f64() < self.wild { 1.0 + 3.0 * random.f64() } else { 1.0 };
        let noise = (self.noise[1] * normal_draw(random)).exp();
        let round_trip = (ROUND_TRIP * far * of(caller) * of(callee) * wild * noise) as u64;
        MeshPair {
            round,
            caller,
            callee,
            there: Some(self.rate(random, caller, callee)),
            back: Some(self.rate(random, callee, caller)),
            round_trip: Some(round_trip),
            fast_round_trip: Some(round_trip),
            slow_round_trip: Some(2 * round_trip),
            again: false,
            reason: None,
        }
    }

    /// The mesh of a seed, with its doubtful pairs measured again, judged.
    fn mesh(&self, seed: u64) -> Mesh {
        let mut random = fastrand::Rng::with_seed(seed);
        let member = |rank: u32| MeshMember {
            rank,
            node: format!("n{rank}"),
            rack: (self.racks > 1).then(|| format!("leaf{:02}", self.rack(rank))),
            ..MeshMember::default()
        };
        let rounds = rounds(self.size, self.rounds, seed);
        let mut mesh = Mesh {
            format: FORMAT.to_owned(),
            version: String::new(),
            started: String::new(),
            seconds: 1.0,
            plan: MeshPlan {
                size: self.size,
                mode: MeshMode::Alone,
                rounds: rounds.len() as u32,
                seed,
                streams: 1,
                most_bytes_per_second: None,
                network: None,
            },
            engine: None,
            verdict: MeshVerdict::Incomplete,
            findings: Vec::new(),
            undecided: Vec::new(),
            warnings: Vec::new(),
            typical: None,
            members: (0..self.size).map(member).collect(),
            uplinks: Vec::new(),
            pairs: Vec::new(),
        };
        for (number, round) in (1..).zip(&rounds) {
            mesh.pairs.extend(round.iter().map(|pair| self.pair(&mut random, number, *pair)));
        }
        for _ in 0..AGAIN {
            for pair in doubtful(&mesh) {
                mesh.pairs.push(MeshPair { again: true, ..self.pair(&mut random, 99, pair) });
            }
        }
        judge(&mut mesh);
        mesh
    }
}

/// What a mesh names.
fn found(mesh: &Mesh) -> Vec<(MeshFindingKind, String)> {
    let mut found: Vec<(MeshFindingKind, String)> =
        mesh.findings.iter().map(|finding| (finding.kind, finding.names.join(" "))).collect();
    found.sort();
    found
}

/// In how many of some meshes exactly these things are named, and in how many something else is.
fn counts(synthetic: &Synthetic, trials: u64, expected: &[(MeshFindingKind, &str)]) -> (u64, u64) {
    let mut expected: Vec<(MeshFindingKind, String)> =
        expected.iter().map(|(kind, names)| (*kind, (*names).to_owned())).collect();
    expected.sort();
    let (mut named, mut alarms) = (0, 0);
    for seed in 0..trials {
        let found = found(&synthetic.mesh(seed));
        named += u64::from(expected.iter().all(|wanted| found.contains(wanted)));
        alarms += u64::from(found.iter().any(|other| !expected.contains(other)));
    }
    (named, alarms)
}

#[test]
fn eight_rounds_of_512_nodes_name_every_fault_and_nothing_else() {
    let mut synthetic = Synthetic::new(512, 16, Some(8));
    synthetic.senders.insert(17, 0.8);
    synthetic.receivers.insert(300, 0.8);
    synthetic.uplinks.insert((3, 9), 0.75);
    synthetic.slow.insert(400, 2.0);
    let expected = [
        (MeshFindingKind::BadSender, "n17"),
        (MeshFindingKind::BadReceiver, "n300"),
        (MeshFindingKind::SlowUplink, "leaf03 leaf09"),
        (MeshFindingKind::HighLatency, "n400"),
    ];
    assert_eq!(counts(&synthetic, 20, &expected), (20, 0));
    assert_eq!(counts(&Synthetic::new(512, 16, Some(8)), 20, &[]), (20, 0));
}

#[test]
fn a_rack_with_half_of_its_uplinks_is_one_finding() {
    let mut synthetic = Synthetic::new(256, 8, Some(8));
    synthetic.uplinks.extend((0..8).filter(|rack| *rack != 5).map(|rack| ((rack.min(5), rack.max(5)), 0.5)));
    let (named, alarms) = counts(&synthetic, 20, &[(MeshFindingKind::SlowRack, "leaf05")]);
    assert!(named == 20 && alarms <= 1, "{named} {alarms}");
}

#[test]
fn few_nodes_name_faults_of_15_percent_and_are_quiet_when_healthy() {
    const TRIALS: u64 = 300;
    for (size, racks) in [(4, 1), (4, 2), (8, 1), (8, 2), (16, 4)] {
        let mut healthy = Synthetic::new(size, racks, None);
        // With few flows, a disturbed one is a large share of them: it is measured again.
        healthy.wild = 0.0;
        let (_, alarms) = counts(&healthy, TRIALS, &[]);
        let mut faulty = Synthetic::new(size, racks, None);
        faulty.wild = 0.0;
        faulty.senders.insert(1, 0.85);
        let sender = counts(&faulty, TRIALS, &[(MeshFindingKind::BadSender, "n1")]);
        faulty.senders.clear();
        faulty.receivers.insert(2, 0.85);
        let receiver = counts(&faulty, TRIALS, &[(MeshFindingKind::BadReceiver, "n2")]);
        faulty.receivers.clear();
        faulty.links.insert((0, 3), 0.7);
        let link = counts(&faulty, TRIALS, &[(MeshFindingKind::SlowLink, "n0 n3")]);
        assert!(alarms * 100 <= TRIALS, "{size} nodes in {racks} racks: {alarms} false alarms");
        for (what, (named, alarms)) in [("sender", sender), ("receiver", receiver), ("link", link)] {
            assert!(
                named * 100 >= TRIALS * 97 && alarms * 50 <= TRIALS,
                "{size} nodes in {racks} racks, {what}: {named} {alarms}"
            );
        }
    }
}

#[test]
fn disturbed_flows_of_few_nodes_are_measured_again() {
    let mut synthetic = Synthetic::new(8, 1, None);
    synthetic.wild = 0.05;
    let (_, alarms) = counts(&synthetic, 300, &[]);
    assert!(alarms <= 9, "{alarms}");
}

#[test]
fn two_racks_name_their_uplink() {
    let mut synthetic = Synthetic::new(4, 2, None);
    synthetic.wild = 0.0;
    synthetic.uplinks.insert((0, 1), 0.5);
    synthetic.senders.insert(3, 0.25);
    let expected = [(MeshFindingKind::BadSender, "n3"), (MeshFindingKind::SlowUplink, "leaf00 leaf01")];
    let (named, alarms) = counts(&synthetic, 200, &expected);
    assert!(named >= 198 && alarms <= 2, "{named} {alarms}");
}

#[test]
fn missing_pairs_leave_members_undecided() {
    let mut mesh = Synthetic::new(4, 1, None).mesh(1);
    for pair in mesh.pairs.iter_mut().filter(|pair| pair.ranks() == (1, 2)) {
        (pair.there, pair.back, pair.round_trip) = (None, None, None);
        pair.reason = Some("refused".to_owned());
    }
    judge(&mut mesh);
    assert_eq!(mesh.verdict, MeshVerdict::Incomplete);
    assert_eq!(mesh.undecided, ["n1", "n2"]);
    assert_eq!(mesh.missing(), [((1, 2), "refused")]);
    mesh.pairs.clear();
    judge(&mut mesh);
    assert!(mesh.typical.is_none() && mesh.undecided.len() == 4);
}
