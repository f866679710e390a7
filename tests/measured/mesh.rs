//! Known truth for the mesh: four namespaces on two bridges with an uplink between them, whose rates a token bucket limits, and a
//! second network that is the usual one. The real program is every member.

use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::namespaces::{Namespaces, must};
use crate::support::runs::{PROGRAM, measuring, text, told, wait_until};
use crate::support::truth::{self, Judgement};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// Rates of links, of the uplink, and of what node 4 sends, in Mbit/s.
const LINK: u32 = 400;
const UPLINK: u32 = 200;
const SLOW: u32 = 100;
/// Of a rate in Mbit/s, the payload of full segments in bytes per second.
const PAYLOAD: f64 = 1e6 / 8.0 * 1448.0 / 1514.0;
/// A rate is as close to its truth as this.
const CLOSE: f64 = 0.03;
/// The closest of all rates, also on a busy host.
const CLOSEST: f64 = 0.9;
const NODES: u32 = 4;

/// Four nodes: `m0` is on one management network, `f0` on a fabric of two leaves. They go with this value.
struct Cluster {
    name: String,
    directory: TempDir,
}

impl Cluster {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        assert!(nix::unistd::Uid::effective().is_root(), "network namespaces are made here: this test needs root");
        let name = format!("sysdyno-mesh-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let cluster = Cluster { name, directory: tempfile::tempdir().unwrap() };
        let hub = cluster.node(0);
        must(&["ip", "netns", "add", &hub]);
        for bridge in ["mg", "l1", "l2"] {
            must(&["ip", "-n", &hub, "link", "add", bridge, "type", "bridge"]);
            must(&["ip", "-n", &hub, "link", "set", bridge, "up"]);
        }
        must(&["ip", "-n", &hub, "link", "add", "u1", "type", "veth", "peer", "name", "u2"]);
        for (end, leaf) in [("u1", "l1"), ("u2", "l2")] {
            must(&["ip", "-n", &hub, "link", "set", end, "master", leaf, "up"]);
            shape(&hub, end, UPLINK);
        }
        for number in 1..=NODES {
            let node = cluster.node(number);
            must(&["ip", "netns", "add", &node]);
            must(&["ip", "-n", &node, "link", "set", "lo", "up"]);
            for (device, bridge, network) in [("m", "mg", "10.78.0"), ("f", leaf(number), "10.79.0")] {
                let (own, far) = (format!("{device}0"), format!("{device}{number}"));
                let words =
                    ["ip", "-n", &node, "link", "add", &own, "type", "veth", "peer", "name", &far, "netns", &hub];
                must(&words);
                must(&["ip", "-n", &hub, "link", "set", &far, "master", bridge, "up"]);
                must(&["ip", "-n", &node, "address", "add", &format!("{network}.{number}/24"), "dev", &own]);
                must(&["ip", "-n", &node, "link", "set", &own, "up"]);
            }
            shape(&node, "f0", if number == NODES { SLOW } else { LINK });
            shape(&hub, &format!("f{number}"), LINK);
        }
        cluster
    }

    /// The namespace of a node. Number 0 has the switches.
    fn node(&self, number: u32) -> String {
        format!("{}-{number}", self.name)
    }

    fn place(&self) -> PathBuf {
        self.directory.path().join("mesh")
    }

    /// A member, with its standard error in a file.
    fn member(&self, number: u32, words: &[&str], variables: &[(&str, &str)]) -> Member {
        let place = self.place();
        let (rank, size) = ((number - 1).to_string(), NODES.to_string());
        let rack = format!("rack={}", leaf(number));
        let fixed = ["mesh", place.to_str().unwrap(), "--rank", &rank, "--size", &size, "--label", &rack];
        let mut command = Namespaces::command(&self.node(number), PROGRAM, &[&fixed[..], words].concat());
        command.env("SLURM_JOB_ID", "17").env("SLURMD_NODENAME", format!("n{number}"));
        command.envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Member(Some(command.spawn().unwrap()))
    }

    /// All members to their end: what each of them said.
    fn mesh(&self, words: &[&str]) -> Vec<Output> {
        let members: Vec<Member> = (1..=NODES).map(|number| self.member(number, words, &[])).collect();
        members.into_iter().map(Member::end).collect()
    }

    /// Whether a connection from a node is established.
    fn is_connected(&self, number: u32) -> bool {
        let words = ["-H", "-t", "-n", "state", "established"];
        !Namespaces::command(&self.node(number), "ss", &words).output().unwrap().stdout.is_empty()
    }

    /// The result, and nothing else in its place.
    fn result(&self) -> Value {
        let files: Vec<PathBuf> = self.place().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 1, "one result and no meeting file: {files:?}");
        let result: Value = serde_json::from_slice(&std::fs::read(&files[0]).unwrap()).unwrap();
        std::fs::remove_file(&files[0]).unwrap();
        result
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for number in 0..=NODES {
            let _ = std::process::Command::new("ip").args(["netns", "delete", &self.node(number)]).status();
        }
    }
}

/// A member that ends with this value, in a process group of its own.
struct Member(Option<Child>);

impl Member {
    fn end(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }

    fn signal(&self, signal: Signal) {
        killpg(Pid::from_raw(self.0.as_ref().unwrap().id() as i32), signal).unwrap();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
            let _ = child.wait();
        }
    }
}

fn leaf(number: u32) -> &'static str {
    if number <= NODES / 2 { "l1" } else { "l2" }
}

fn shape(namespace: &str, device: &str, megabits: u32) {
    let (rate, burst) = (format!("{megabits}mbit"), (megabits * 600).to_string());
    let words =
        ["tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", "tbf", "rate", &rate, "burst", &burst];
    must(&[&words[..], &["latency", "60ms"]].concat());
}

/// Mbit/s from one node to another.
fn truth_of(from: u64, to: u64) -> u32 {
    let path = if leaf(from as u32) == leaf(to as u32) { LINK } else { UPLINK };
    if from == u64::from(NODES) { SLOW } else { path }
}

/// Whether every rate of a result is the truth. A rate below it is that of a busy host, whose shaper is woken too late. This does not
/// lower all rates alike.
fn rates(result: &Value) -> Judgement {
    let mut disturbed = None;
    let mut closest: f64 = 0.0;
    for pair in result["pairs"].as_array().unwrap() {
        let rank = |key: &str| pair[key].as_u64().unwrap() + 1;
        let (caller, callee) = (rank("caller"), rank("callee"));
        for (key, from, to) in [("there", caller, callee), ("back", callee, caller)] {
            let Some(found) = pair[key].as_f64() else {
                disturbed = Some(format!("n{from} to n{to}: {}", pair["reason"]));
                continue;
            };
            let truth = f64::from(truth_of(from, to)) * PAYLOAD;
            let said = format!("n{from} to n{to}: {found} B/s, not {truth} B/s");
            if found > truth * (1.0 + CLOSE) {
                return Judgement::Wrong(said);
            }
            closest = closest.max(found / truth);
            if found < truth * (1.0 - CLOSE) {
                disturbed = Some(said);
            }
        }
    }
    if closest > 0.0 && closest < CLOSEST {
        return Judgement::Wrong(format!("the closest of all rates is {closest:.2} of the truth"));
    }
    disturbed.map_or(Judgement::Right, Judgement::Disturbed)
}

/// Titles of findings, such as `bad_sender n4`.
fn findings(result: &Value) -> Vec<String> {
    let title = |finding: &Value| {
        let names: Vec<&str> = finding["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        format!("{} {}", finding["kind"].as_str().unwrap(), names.join(" "))
    };
    result["findings"].as_array().unwrap().iter().map(title).collect()
}

#[test]
fn rates_are_the_truth_and_the_bad_sender_and_the_uplink_are_named() {
    let _alone = measuring();
    let cluster = Cluster::new();
    truth::judged("four nodes on two leaves", || {
        let outputs = cluster.mesh(&["--network", "f0", "--alone", "--all", "--seed", "5"]);
        let first = &outputs[0];
        let result = cluster.result();
        let judgement = rates(&result);
        if judgement != Judgement::Right {
            return judgement;
        }
        let found = findings(&result);
        let named = ["bad_sender n4", "slow_uplink l1 l2"].iter().all(|wanted| found.contains(&(*wanted).to_owned()));
        let others =
            found.iter().any(|finding| finding.starts_with("bad_receiver") || finding.starts_with("slow_link"));
        if !named || others || first.status.code() != Some(1) || result["verdict"] != "odd" {
            return Judgement::Wrong(format!("{found:?}: {}", told(first)));
        }
        let screen = text(&first.stdout);
        let fits = screen.lines().count() <= 24 && screen.lines().take(6).all(|line| line.chars().count() <= 80);
        if !fits || !screen.contains("bad sender n4") || !screen.contains("slow uplink l1–l2") {
            return Judgement::Wrong(screen);
        }
        if let Some(other) = outputs[1..].iter().find(|other| !other.status.success() || !other.stdout.is_empty()) {
            return Judgement::Wrong(told(other));
        }
        let member = &result["members"][3];
        let link = (&member["node"], &member["rack"], &member["link"]["interface"], &member["link"]["address"]);
        assert_eq!(link, (&"n4".into(), &"l2".into(), &"f0".into(), &"10.79.0.4".into()), "{member}");
        assert!(member["clock_offset"][0].as_f64().unwrap().abs() < 0.05, "one host has one clock: {member}");
        Judgement::Right
    });
}

/// Milliseconds of the round trip of a pair whose frames a relay holds each way, and what the relay held of it.
fn held_round_trip(delay: u64) -> Result<[f64; 2], Judgement> {
    let namespaces = Namespaces::new();
    let relay = namespaces.relay(Duration::from_millis(delay));
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("mesh");
    let member = |rank: &str, namespace: &str| {
        let words = ["mesh", place.to_str().unwrap(), "--rank", rank, "--size", "2", "--network", "t0", "--alone"];
        let mut command = Namespaces::command(namespace, PROGRAM, &words);
        command.env("SLURM_JOB_ID", "17").env("SLURMD_NODENAME", format!("n{rank}"));
        Member(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    };
    let members = [member("0", &namespaces.near), member("1", &namespaces.far)];
    let outputs = members.map(Member::end);
    let Some(file) = place.read_dir().unwrap().map(|entry| entry.unwrap().path()).next() else {
        return Err(Judgement::Wrong(told(&outputs[0])));
    };
    let result: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let pair = &result["pairs"][0];
    let found = pair["round_trip"].as_f64().ok_or_else(|| Judgement::Disturbed(format!("{pair}")))?;
    Ok([found / 1e6, relay.held(|note| note.protocol == 6 && note.payload == 64 && !note.begins)])
}

#[test]
fn what_a_path_holds_is_in_the_round_trip_of_its_pair() {
    let _alone = measuring();
    truth::judged("frames held for 1 and 2 ms each way", || {
        let [short, long] = match [1, 2].map(held_round_trip) {
            [Ok(short), Ok(long)] => [short, long],
            [Err(judgement), _] | [_, Err(judgement)] => return judgement,
        };
        // Each end wakes up once, after a sleep of any length.
        let rests = [short, long].map(|[found, held]| found - held);
        println!("{short:?} and {long:?} ms, rests {rests:?}");
        if rests.iter().all(|rest| (-0.02 * short[1]..0.3 * short[1]).contains(rest))
            && (rests[1] - rests[0]).abs() < 0.05 * long[1]
        {
            return Judgement::Right;
        }
        Judgement::Wrong(format!("found and held: {short:?} and {long:?} ms"))
    });
}

#[test]
fn a_stopped_member_costs_its_own_pairs_and_the_usual_network_is_named() {
    let _alone = measuring();
    let cluster = Cluster::new();
    let words = ["--all", "--seed", "2", "--rate", "20M"];
    let members: Vec<Member> = (1..=NODES).map(|number| cluster.member(number, &words, &[])).collect();
    // Every member has been greeted when the meeting file is gone again.
    let meeting = cluster.place().join("meet-17.json");
    wait_until("rank 0 writes the meeting file", Duration::from_secs(20), || meeting.exists().then_some(()));
    wait_until("all members came", Duration::from_secs(20), || (!meeting.exists()).then_some(()));
    members[2].signal(Signal::SIGSTOP);
    let mut members = members.into_iter();
    let first = members.next().unwrap().end();
    let second = members.next().unwrap().end();
    let stopped = members.next().unwrap();
    assert_eq!((first.status.code(), second.status.code()), (Some(3), Some(0)), "{}\n{}", told(&first), told(&second));
    stopped.signal(Signal::SIGKILL);
    let result = cluster.result();
    // A pair that failed on a busy host was measured again.
    let pairs = result["pairs"].as_array().unwrap();
    for (one, other) in (0..NODES).flat_map(|one| (one + 1..NODES).map(move |other| (one, other))) {
        let ranks = |pair: &Value| [pair["caller"].as_u64().unwrap(), pair["callee"].as_u64().unwrap()];
        let both = |pair: &&Value| [one, other].iter().all(|rank| ranks(pair).contains(&u64::from(*rank)));
        let measured = pairs.iter().filter(both).any(|pair| pair["there"].is_u64());
        assert_eq!(measured, one != 2 && other != 2, "{one}–{other}: {result}");
    }
    let member = &result["members"][2];
    assert!(member["out"].as_str().unwrap().contains("did not answer"), "{member}");
    // Without a choice it is the network that faces rank 0, and the other one is named.
    assert_eq!(result["members"][0]["link"]["interface"], "m0", "{}", result["members"][0]);
    let warning = result["warnings"][0].as_str().unwrap();
    assert!(warning.contains("10.78.0.0/24 (m0)") && warning.contains("10.79.0.0/24 (f0)"), "{warning}");
    let screen = text(&first.stdout);
    assert!(screen.contains("n3: it did not answer") && screen.contains("--network"), "{screen}");
}

#[test]
fn members_without_rank_0_or_with_a_wrong_secret_end_with_a_reason() {
    // Nothing is measured here, so other tests go on.
    let cluster = Cluster::new();
    let secret = [("SYSDYNO_PEER_SECRET", "a secret of some length")];
    let wrong = [("SYSDYNO_PEER_SECRET", "another of the same kind")];
    let meet = ["--meet", "10.79.0.1:4077", "--patience", "4s"];
    let lead = cluster.member(1, &meet, &secret);
    let ends = |output: &Output, code: i32, words: &str| {
        assert!(output.status.code() == Some(code) && text(&output.stderr).contains(words), "{}", told(output));
        assert!(text(&output.stderr).contains("hint: "), "{}", told(output));
    };
    ends(&cluster.member(2, &meet, &wrong).end(), 2, "refuses the secret");
    let without = cluster.member(2, &meet, &[]).end();
    ends(&without, 2, "--meet requires a secret");
    ends(&cluster.member(2, &["--network", "10.99.0.0/16"], &[]).end(), 2, "belongs to the network 10.99.0.0/16");
    // Nobody else comes.
    ends(&lead.end(), 3, "no other task came within 4 s");
    // A file of a dead mesh leads nowhere.
    let stale = cluster.place().join("meet-17.json");
    let dead = "{\"format\":\"sysdyno-meet/1\",\"address\":\"10.78.0.1:9\",\"secret\":\"0123456789abcdef\"}";
    std::fs::write(&stale, dead).unwrap();
    ends(&cluster.member(2, &["--patience", "1s"], &[]).end(), 3, "rank 0 was not found within 1 s");
    // Rank 0 is killed, or asked to end: the others end within seconds, and a file does not stay.
    for (signal, code) in [(Signal::SIGKILL, None), (Signal::SIGTERM, Some(130))] {
        let words = ["--patience", "20s"];
        let members: Vec<Member> = (1..=3).map(|number| cluster.member(number, &words, &[])).collect();
        wait_until("rank 0 writes its file", Duration::from_secs(20), || is_new(&stale).then_some(()));
        for number in 2..=3 {
            wait_until("a member connects", Duration::from_secs(15), || cluster.is_connected(number).then_some(()));
        }
        let mut members = members.into_iter();
        let lead = members.next().unwrap();
        lead.signal(signal);
        assert_eq!(lead.end().status.code(), code);
        for other in members {
            ends(&other.end(), 3, "rank 0 is lost");
        }
        assert_eq!(stale.exists(), code.is_none(), "only a killed rank 0 leaves its file");
        if code.is_none() {
            std::fs::write(&stale, dead).unwrap();
        }
    }
}

/// Whether a meeting file is that of a living mesh.
fn is_new(place: &Path) -> bool {
    std::fs::read_to_string(place).is_ok_and(|text| !text.contains("10.78.0.1:9\""))
}
