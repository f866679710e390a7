//! Known truth for the network chapter: paths whose delay, rate and faults a test makes, with the real program on both
//! sides. Everything happens in network namespaces that are removed again; nothing is sent to anywhere else.
//!
//! A delay is made by a relay between two tunnels, which holds every packet, so TCP, UDP, ICMP and the handshake see the
//! same; a rate by the kernel's token bucket. The relay runs on the same CPUs as what it delays: a comparison is tried
//! again a few times.
#![allow(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use support::namespaces::{FAR6, Namespaces, Serving, must};
use support::runs::{Leashed, PROGRAM, measuring, result, text, told, wait_until};
use support::truth;
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

/// The value of the published figure whose labels include the given ones.
fn value(result: &Value, metric: &str, labels: &[(&str, &str)]) -> f64 {
    let sections = result["experiments"].as_array().unwrap();
    let found = sections
        .iter()
        .flat_map(|section| section["metrics"].as_array().unwrap())
        .find(|found| found["name"] == metric && labels.iter().all(|(label, value)| found["labels"][label] == *value));
    found.unwrap_or_else(|| panic!("{metric} {labels:?} is not there"))["value"].as_f64().unwrap()
}

fn remote_time(result: &Value, protocol: &str) -> f64 {
    let labels =
        [("protocol", protocol), ("path", "remote"), ("bytes", "1"), ("pacing", "back_to_back"), ("quantile", "p50")];
    value(result, "network.round_trip.time", &labels) / 1e6
}

fn remote_setup(result: &Value) -> f64 {
    value(result, "network.connection.time", &[("phase", "setup"), ("path", "remote")]) / 1e6
}

/// Tries a comparison a few times.
fn holds(what: &str, compare: impl FnMut() -> Result<(), String>) {
    truth::holds(4, what, compare);
}

/// Milliseconds by TCP, UDP, ICMP, and of the handshake, over a relay.
fn times_over(delay: Duration) -> ([f64; 4], Value) {
    let namespaces = Namespaces::new();
    let _relay = namespaces.relay(delay);
    let peer = namespaces.peer(&[]);
    let (output, directory) = run(&namespaces, &peer, &["network.round_trip", "network.connection", "--quick"]);
    assert!(output.status.success(), "{}", told(&output));
    let result = result(&directory.path().join("run"));
    let [tcp, udp, icmp] = ["tcp", "udp", "icmp"].map(|protocol| remote_time(&result, protocol));
    ([tcp, udp, icmp, remote_setup(&result)], result)
}

#[test]
fn a_delay_is_in_every_round_trip_and_in_the_handshake_once() {
    let _alone = measuring();
    holds("relays of 2 and 5 ms", || {
        let (short, result) = times_over(Duration::from_millis(2));
        let (long, _) = times_over(Duration::from_millis(5));
        for (delay, times) in [(2.0, short), (5.0, long)] {
            for (time, name) in times.into_iter().zip(["tcp", "udp", "icmp", "setup"]) {
                let truth = 2.0 * delay;
                if (time - truth).abs() > 0.1 + 0.01 * truth || time < truth * 0.999 {
                    return Err(format!("{name} takes {time} ms, the relay {truth}"));
                }
            }
        }
        for (index, name) in ["tcp", "udp", "icmp", "setup"].into_iter().enumerate() {
            let apart = long[index] - short[index];
            if (apart - 6.0).abs() > 0.05 {
                return Err(format!("{name}: the relays differ by {apart} ms instead of 6"));
            }
        }
        // Closing waits for nobody, an orderly end waits for the other side.
        let phase = |phase| value(&result, "network.connection.time", &[("phase", phase), ("path", "remote")]) / 1e6;
        if phase("close") > 1.0 || phase("teardown") < 3.6 || phase("first_byte") < 7.6 {
            return Err(format!("close {} ms, teardown {} ms", phase("close"), phase("teardown")));
        }
        Ok(())
    });
}

#[test]
fn the_peers_residence_is_in_the_gross_figure_and_not_in_the_net_one() {
    let _alone = measuring();
    let namespaces = Namespaces::new();
    // A delay on the way, so that the hold is not the whole of the figure and no CPU stays awake for it.
    let _relay = namespaces.relay(Duration::from_millis(2));
    let measure = |hold: &[&str]| {
        let peer = namespaces.peer(hold);
        let (output, directory) = run(&namespaces, &peer, &["network.round_trip", "--quick"]);
        assert!(output.status.success(), "{}", told(&output));
        let result = result(&directory.path().join("run"));
        let net = value(&result, "network.round_trip.net", &[("protocol", "tcp"), ("bytes", "1")]) / 1e3;
        (remote_time(&result, "tcp") * 1e3, net)
    };
    holds("an echo held for 1000 µs", || {
        let ((plain, plain_net), (held, held_net)) = (measure(&[]), measure(&["--pretend", "hold=1000"]));
        let (gross, net) = (held - plain, held_net - plain_net);
        if (gross - 1000.0).abs() < 80.0 && net.abs() < 80.0 {
            Ok(())
        } else {
            Err(format!("gross rises by {gross} µs, net by {net} µs ({plain}, {held})"))
        }
    });
}

#[test]
fn a_rate_is_found_to_half_a_percent() {
    let _alone = measuring();
    let namespaces = Namespaces::new();
    namespaces.join();
    for megabits in [20, 200, 1000] {
        namespaces.shape(megabits);
        let peer = namespaces.peer(&[]);
        // Payload of a full segment over what the token bucket counts for it.
        let truth = f64::from(megabits) * (1500.0 - 52.0) / (1500.0 + 14.0);
        holds(&format!("{megabits} Mbit/s"), || {
            let (output, directory) = run(&namespaces, &peer, &["network.bandwidth", "--quick", "--time", "12s"]);
            assert!(output.status.success(), "{}", told(&output));
            let result = result(&directory.path().join("run"));
            for direction in ["send", "receive"] {
                let labels = [("direction", direction), ("path", "remote"), ("streams", "1")];
                let found = value(&result, "network.bandwidth.rate", &labels) * 8.0 / 1e6;
                if (found / truth - 1.0).abs() > 0.005 {
                    return Err(format!("{direction}: {found} Mbit/s of payload, the shaper lets {truth} through"));
                }
            }
            Ok(())
        });
    }
}

#[test]
fn a_small_receive_buffer_is_the_limit_and_is_named() {
    let _alone = measuring();
    let namespaces = Namespaces::new();
    let _relay = namespaces.relay(Duration::from_millis(5));
    let peer = namespaces.peer(&["--pretend", "receive_buffer=65536"]);
    holds("64 KiB over 10 ms", || {
        let (output, directory) = run(&namespaces, &peer, &["network.bandwidth", "--quick", "--time", "12s"]);
        assert!(output.status.success(), "{}", told(&output));
        let place = directory.path().join("run");
        let labels = [("direction", "send"), ("path", "remote"), ("streams", "1")];
        let found = value(&result(&place), "network.bandwidth.rate", &labels);
        let log = support::runs::lines(&place);
        let sender = support::runs::records(&log, "series")
            .into_iter()
            .find(|series| {
                series["name"] == "sender"
                    && series["labels"]["direction"] == "send"
                    && series["labels"]["path"] == "remote"
            })
            .unwrap()["values"]
            .clone();
        let window = sender[7].as_f64().unwrap();
        let round_trip = sender[4].as_f64().unwrap() / 1e6;
        let ratio = found * round_trip / window;
        let report = support::runs::output(&["report", place.to_str().unwrap()]);
        assert!(text(&report.stdout).contains("the receiver's window"), "another limit is named");
        if (0.8..1.1).contains(&ratio) && (0.0099..0.0125).contains(&round_trip) {
            Ok(())
        } else {
            Err(format!("{found} B/s with a window of {window} B over {round_trip} s"))
        }
    });
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
        let (output, directory) = run(&namespaces, &peer, &["network.connection", "--quick"]);
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
    let _alone = measuring();
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
    let mut child =
        Leashed(command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap());
    // A session of the launch is there: the peer has a child.
    wait_until("the launch reaches the peer", Duration::from_mins(1), || {
        let log = std::fs::read_to_string(place.join("log.jsonl")).unwrap_or_default();
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
    let known = ["lost", "answer", "reached", "cut off", "broke", "spoken", "connection", "stream"];
    assert!(known.iter().any(|word| why.contains(word)), "{experiment} {fate:?}: {why}");
}

/// Sessions of a peer: processes below it.
fn sessions(peer: &Serving) -> usize {
    let path = format!("/proc/{0}/task/{0}/children", peer.process.id());
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // `ip netns exec` replaces itself by the program, so children are sessions.
    text.split_whitespace().count()
}

#[test]
fn places_without_networks_end_with_reasons() {
    let _alone = measuring();
    let namespaces = Namespaces::new();
    let quick = |extra: &[&str], setup: &str| {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("run");
        let script =
            format!("{setup}; exec {PROGRAM} run {} --quick --no-progress -o {}", extra.join(" "), place.display());
        let output = Namespaces::command(&namespaces.near, "sh", &["-c", &script]).output().unwrap();
        (output, directory)
    };
    // IPv6 off: its figures are missing with a reason, the others are there.
    let (output, directory) = quick(&["network"], "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6");
    assert!(output.status.success(), "{}", told(&output));
    let without6 = result(&directory.path().join("run"));
    assert!(!support::runs::metrics(&without6).is_empty(), "the loopback has figures");
    let rejected = without6["experiments"][0]["rejected"].to_string();
    assert!(rejected.contains("\"ip\":\"6\""), "{rejected}");
    // Without privileges, without the right to send ICMP, and on one CPU.
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let place = directory.path().join("run");
    let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "taskset", "-c", "0", PROGRAM];
    let words = ["run", "network", "--quick", "--no-progress", "-o", place.to_str().unwrap()];
    let output =
        Namespaces::command(&namespaces.near, "setpriv", &[&nobody[..], &words[..]].concat()).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let rejected = result(&place)["experiments"][0]["rejected"].to_string();
    assert!(rejected.contains("ping_group_range") && rejected.contains("only one CPU is allowed"), "{rejected}");
    // The loopback is down.
    must(&["ip", "-n", &namespaces.near, "link", "set", "lo", "down"]);
    let (output, directory) = quick(&["network"], ":");
    assert!(output.status.success(), "skips are no failures: {}", told(&output));
    let down = result(&directory.path().join("run"));
    for section in down["experiments"].as_array().unwrap() {
        assert_eq!(section["outcome"], "skipped", "{section}");
        assert!(section["hint"].as_str().unwrap().contains("ip link set lo up"), "{section}");
    }
}

#[test]
fn both_ends_are_in_the_log_and_the_secret_is_not() {
    let _alone = measuring();
    let namespaces = Namespaces::new();
    namespaces.join();
    // Over IPv6; the others go over IPv4.
    let peer = namespaces.peer_at(FAR6, &[]);
    let (output, directory) = run(&namespaces, &peer, &["network", "--quick", "--seed", "3"]);
    assert!(output.status.success(), "{}", told(&output));
    let place = directory.path().join("run");
    let log = std::fs::read_to_string(place.join("log.jsonl")).unwrap();
    assert!(!log.contains(&peer.secret), "the secret is in the log");
    let lines = support::runs::lines(&place);
    let met = support::runs::records(&lines, "peer")[0];
    assert_eq!((&met["address"], &met["interface"], &met["on_link"]), (&FAR6.into(), &"v0".into(), &true.into()));
    assert!(met["machine"]["fingerprint"].as_str().unwrap().len() == 16, "{met}");
    for name in ["peer.residence", "peer.cpu_time", "peer.counter", "busy"] {
        assert!(support::runs::records(&lines, "series").iter().any(|series| series["name"] == name), "{name}");
    }
    let result = result(&place);
    for protocol in ["tcp", "udp", "icmp"] {
        let labels = [("protocol", protocol), ("path", "remote"), ("ip", "6"), ("bytes", "1"), ("quantile", "p50")];
        assert!(value(&result, "network.round_trip.time", &labels) > 0.0);
    }
    assert!(value(&result, "network.bandwidth.rate", &[("path", "remote"), ("ip", "6")]) > 0.0);
    assert!(value(&result, "network.connection.time", &[("path", "remote"), ("phase", "setup")]) > 0.0);
    let report = text(&support::runs::output(&["report", place.to_str().unwrap()]).stdout).replace('\n', " ");
    for words in
        ["The remote path leads from", "operating systems", "What holds each flow back", "connect waits for one answer"]
    {
        assert!(report.contains(words), "{words} is missing");
    }
}
