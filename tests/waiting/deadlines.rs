//! What answers late or never: a peer that vanishes, a listener that never accepts, an export behind a cut path, a loopback that
//! carries nothing. Every run ends in time, with the reason. Nothing here is a comparison of figures, so these tests run side by
//! side.
use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::namespaces::{Namespaces, Serving, must};
use crate::support::runs::{Leashed, PROGRAM, log_text, metrics, result, told, wait_until};
use crate::support::servers::ganesha;
use nix::sys::signal::Signal;
use tempfile::TempDir;

/// Runs the program in the near namespace against a peer.
fn run(namespaces: &Namespaces, peer: &Serving, words: &[&str]) -> (Output, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("run");
    let fixed = ["run", "--no-progress", "-o", place.to_str().unwrap(), "--peer", &peer.address];
    let secret = ["--peer-secret", &peer.secret];
    let all = [&fixed[..], &secret[..], words].concat();
    let output = Namespaces::command(&namespaces.near, PROGRAM, &all).output().unwrap();
    (output, directory)
}

/// The reasons of the one experiment of a run, joined.
fn reasons(directory: &TempDir) -> String {
    let result = result(&directory.path().join("run"));
    let section = &result["experiments"][0];
    format!("{} {}", section["reason"], section["failed_launches"])
}

#[test]
fn a_listener_that_never_accepts_and_a_closed_port_are_said() {
    let namespaces = Namespaces::new();
    namespaces.join();
    for (fault, said) in [("never_accept", "G28"), ("closed_port", "was refused")] {
        let peer = namespaces.peer(&["--pretend", fault]);
        let (output, directory) = run(&namespaces, &peer, &["network.connection", "--quick", "--time=3s"]);
        assert_eq!(output.status.code(), Some(1), "{fault}: {}", told(&output));
        assert!(reasons(&directory).contains(said), "{fault}: {}", reasons(&directory));
    }
}

/// What happens to the peer in the middle of an experiment.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Killed,
    Stopped,
    CutOff,
}

#[test]
fn a_peer_that_vanishes_fails_its_experiment_in_time_and_with_a_reason() {
    // Most of each is waiting for what never comes, so they are met side by side.
    std::thread::scope(|scope| {
        for experiment in ["network.round_trip", "network.bandwidth", "network.connection"] {
            for fate in [Fate::Killed, Fate::Stopped, Fate::CutOff] {
                scope.spawn(move || vanish(experiment, fate));
            }
        }
    });
}

fn vanish(experiment: &str, fate: Fate) {
    let namespaces = Namespaces::new();
    // A delay makes every part of an experiment long enough to be met in its middle.
    let relay = namespaces.relay(Duration::from_millis(3));
    let peer = namespaces.peer(&[]);
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("run");
    let words = ["run", experiment, "--quick", "--no-progress", "-o", place.to_str().unwrap()];
    let to = ["--peer", &peer.address, "--peer-secret", &peer.secret];
    let mut command = Namespaces::command(&namespaces.near, PROGRAM, &[&words[..], &to[..]].concat());
    let mut child = Leashed(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    // A session of the launch is there: the peer has a child.
    wait_until("the launch reaches the peer", Duration::from_mins(1), || {
        let log = log_text(&place);
        let launched = log.contains("\"record\":\"launch\"");
        (launched && sessions(&peer) > 0).then_some(())
    });
    std::thread::sleep(Duration::from_millis(150));
    let began = Instant::now();
    match fate {
        Fate::Killed => peer.signal(Signal::SIGKILL),
        Fate::Stopped => peer.signal(Signal::SIGSTOP),
        Fate::CutOff => {
            relay.cut();
            must(&["ip", "-n", &namespaces.far, "link", "set", "t0", "down"]);
        }
    }
    let status = wait_until(&format!("{experiment} {fate:?}"), Duration::from_mins(2), || child.0.try_wait().unwrap());
    assert!(began.elapsed() < Duration::from_secs(90), "{experiment} {fate:?}: {:?}", began.elapsed());
    let result = result(&place);
    let section = &result["experiments"][0];
    let failed = section["failed_launches"].as_array().unwrap();
    assert!(!failed.is_empty(), "{experiment} {fate:?} ({status}): {section}");
    let why = failed[0].as_str().unwrap();
    let known = [
        "lost",
        "answer",
        "reach",
        "unreachable",
        "cut off",
        "broke",
        "failed",
        "exchange",
        "cannot use",
        "cannot connect",
        "connection",
        "stream",
    ];
    assert!(known.iter().any(|word| why.contains(word)), "{experiment} {fate:?}: {why}");
}

/// Sessions of a peer: processes below it.
fn sessions(peer: &Serving) -> usize {
    let path = format!("/proc/{0}/task/{0}/children", peer.process.id());
    let text = fs::read_to_string(path).unwrap_or_default();
    // `ip netns exec` replaces itself by the program, so children are sessions.
    text.split_whitespace().count()
}

#[test]
fn a_loopback_that_carries_nothing_leaves_the_flows_to_the_peer_their_figures() {
    let namespaces = Namespaces::new();
    namespaces.join();
    // A bucket smaller than one packet of the loopback: connections are made, and bulk never passes.
    let bucket = ["tbf", "rate", "1mbit", "burst", "4kb", "latency", "50ms"];
    must(&[&["tc", "-n", &namespaces.near, "qdisc", "replace", "dev", "lo", "root"][..], &bucket].concat());
    let peer = namespaces.peer(&[]);
    let (output, directory) = run(&namespaces, &peer, &["network.bandwidth", "--quick", "--time", "15s"]);
    let place = directory.path().join("run");
    assert!(place.join("node.json").exists(), "{}", told(&output));
    let found = result(&place);
    let figures = |path: &str| metrics(&found).iter().filter(|figure| figure["labels"]["path"] == path).count();
    assert_eq!(figures("loopback"), 0, "{found}");
    assert_eq!(figures("remote"), 3, "send, receive and both: {found}");
    let text = found["experiments"][0].to_string();
    assert!(text.contains("no data arrived") || text.contains("no window of the flow remains"), "{text}");
}

#[test]
fn the_path_to_the_peer_needs_no_loopback() {
    let namespaces = Namespaces::new();
    namespaces.join();
    must(&["ip", "-n", &namespaces.near, "link", "set", "lo", "down"]);
    let peer = namespaces.peer(&[]);
    let words = ["network.round_trip", "network.connection", "--quick", "--time", "14s", "--path", "remote"];
    let (output, directory) = run(&namespaces, &peer, &words);
    let place = directory.path().join("run");
    assert!(place.join("node.json").exists(), "{}", told(&output));
    let found = result(&place);
    let figures = |path: &str| metrics(&found).iter().filter(|figure| figure["labels"]["path"] == path).count();
    assert!(figures("loopback") == 0 && figures("remote") > 5, "{found}");
    let log = log_text(&place);
    assert!(
        !log.contains("\"path\":\"loopback\"") && log.contains("\"remote_only\":true"),
        "nothing is predicted for it"
    );
    // Where both paths are wanted, the reason says what to do.
    let (output, directory) = run(&namespaces, &peer, &["network.connection", "--quick", "--time=3s"]);
    assert!(reasons(&directory).contains("does not answer"), "{}", told(&output));
    assert!(result(&directory.path().join("run")).to_string().contains("--path remote"));
}

#[test]
fn an_export_that_does_not_answer_ends_in_time() {
    let namespaces = Namespaces::new();
    let relay = namespaces.relay(Duration::from_millis(3));
    let (server, url) = ganesha(&namespaces);
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("run");
    let words = ["run", "file.remote_read", "--no-progress", "-o", place.to_str().unwrap(), "--nfs", &url];
    let mut command: Command = Namespaces::command(&namespaces.near, PROGRAM, &words);
    let mut child = Leashed(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_until("a launch reads", Duration::from_mins(1), || {
        let log = log_text(&place);
        let reads = |line: &str| line.contains("\"record\":\"launch\"") && line.contains("file.remote_read");
        log.lines().any(reads).then_some(())
    });
    std::thread::sleep(Duration::from_millis(300));
    relay.cut();
    wait_until("the run ends", Duration::from_mins(1), || child.0.try_wait().unwrap());
    let result = result(&place);
    let failed = result["experiments"][0]["failed_launches"].to_string();
    assert!(failed.contains("not answered") || failed.contains("cannot be"), "{failed}");
    drop(server);
}
