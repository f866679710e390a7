//! Known truth for the network chapter: paths whose delay, rate and faults a test makes, with the real program on both
//! sides. Everything happens in network namespaces that are removed again; nothing is sent to anywhere else.
//!
//! A delay is made by a relay between two tunnels, which holds every packet, so TCP, UDP, ICMP and the handshake see the
//! same. The relay shares CPUs with what it delays and is late now and then: it notes how long it held each packet, and that is
//! the truth. A rate is made by the kernel's token bucket, whose own count of bytes is the truth.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::namespaces::{FAR6, Namespaces, Passed, Serving, must};
use crate::support::runs::{PROGRAM, ended, measuring, result, text, told};
use crate::support::tap::{Tap, answered};
use crate::support::truth::{self, Found, Judgement, within};
use serde_json::Value;
use sysdyno::testing::statistics::summary::median;
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

/// Asserts that a figure is published, or that others spoilt it.
fn assert_there(result: &Value, metric: &str, labels: &[(&str, &str)]) {
    if let Err(Judgement::Wrong(why)) = truth::trusted(result, metric, labels) {
        panic!("{why}");
    }
}

/// Nanoseconds, or another unit, of a figure that the tool trusts.
fn trusted(result: &Value, metric: &str, labels: &[(&str, &str)]) -> Result<f64, Judgement> {
    truth::trusted(result, metric, labels).map(|found| found["value"].as_f64().unwrap())
}

/// Milliseconds of the median round trip of a byte.
fn remote_time(result: &Value, protocol: &str) -> Result<Found, Judgement> {
    let labels =
        [("protocol", protocol), ("path", "remote"), ("bytes", "1"), ("pacing", "back_to_back"), ("quantile", "p50")];
    truth::trusted(result, "network.round_trip.time", &labels).map(|time| Found::of(time, 1e-6))
}

/// Milliseconds of a phase of a connection.
fn remote_phase(result: &Value, phase: &str) -> Result<Found, Judgement> {
    let labels = [("phase", phase), ("path", "remote")];
    truth::trusted(result, "network.connection.time", &labels).map(|time| Found::of(time, 1e-6))
}

/// Compares, and takes what the tool does not trust for disturbed.
fn judged(what: &str, mut compare: impl FnMut() -> Result<(), Judgement>) {
    truth::judged(what, || compare().err().unwrap_or(Judgement::Right));
}

fn wrong(why: String) -> Judgement {
    Judgement::Wrong(why)
}

/// What crosses the relay in one exchange, and how long the tool and the path say that it took, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Crossing {
    what: &'static str,
    /// The figure.
    found: Found,
    /// From the device to the device: the way there and back, with all that the other end did.
    away: f64,
    /// What the relay alone held of it.
    held: f64,
}

impl Crossing {
    /// What the figure has above the time from device to device: the work of the tool's own side, and its wake-up.
    fn rest(&self) -> Found {
        self.found.above(self.away)
    }

    fn text(&self) -> String {
        let Crossing { what, found, away, held } = self;
        let Found { value, low, high } = found;
        format!(
            "{what} takes {value} ms ({low} to {high}), {away} ms of it beyond the device and {held} ms of it in the relay"
        )
    }

    /// How exactly the figure must fit: 50 µs, or a hundredth of it.
    fn tolerance(&self) -> f64 {
        (self.found.value * 0.01).max(0.05)
    }
}

/// By TCP, UDP, ICMP, and of the handshake, over a relay; and the other phases of a connection.
fn crossings(delay: Duration) -> Result<([Crossing; 4], [Found; 3]), Judgement> {
    let namespaces = Namespaces::new();
    let relay = namespaces.relay(delay);
    let tap = Tap::watch(&namespaces.near);
    let peer = namespaces.peer(&[]);
    let (output, directory) = run(
        &namespaces,
        &peer,
        &["network.round_trip", "network.connection", "--quick", "--time", "12s", "--path", "remote"],
    );
    if !ended(&output) {
        return Err(wrong(told(&output)));
    }
    let exchanges = tap.exchanges();
    let result = result(&directory.path().join("run"));
    let byte = |what: &'static str, protocol: u8| {
        Ok(Crossing {
            what,
            found: remote_time(&result, what)?,
            away: answered(&exchanges, |exchange| {
                exchange.protocol == protocol && [exchange.asked, exchange.answered] == [1, 1]
            }),
            held: relay.held(|note| note.protocol == protocol && note.payload == 1 && !note.begins),
        })
    };
    let setup = Crossing {
        what: "setup",
        found: remote_phase(&result, "setup")?,
        away: answered(&exchanges, |exchange| exchange.protocol == 6 && exchange.begins),
        held: relay.held(|note| note.protocol == 6 && note.begins),
    };
    let phases =
        [remote_phase(&result, "close")?, remote_phase(&result, "teardown")?, remote_phase(&result, "first_byte")?];
    Ok(([byte("tcp", 6)?, byte("udp", 17)?, byte("icmp", 1)?, setup], phases))
}

#[test]
fn a_delay_is_in_every_round_trip_and_in_the_handshake_once() {
    let _alone = measuring();
    // A CPU that slept for longer is longer in waking up, so both sleep for long.
    judged("relays of 5 and 10 ms", || {
        let (short, phases) = crossings(Duration::from_millis(5))?;
        let (long, _) = crossings(Duration::from_millis(10))?;
        for (short, long) in short.iter().zip(&long) {
            println!("{}; {}", short.text(), long.text());
            // The path takes what the relay held and no second delay. No figure is below it, and none has much above it.
            for crossing in [short, long] {
                let possible = -crossing.tolerance()..crossing.held / 4.0;
                if !possible.contains(&(crossing.away - crossing.held)) || !possible.contains(&crossing.rest().value) {
                    return Err(wrong(crossing.text()));
                }
            }
            // The tool's own side takes the same whatever the relay does.
            if !long.rest().agrees(short.rest(), long.tolerance()) {
                return Err(wrong(format!("unlike rests: {}; {}", long.text(), short.text())));
            }
        }
        // Closing waits for nobody, an orderly end waits for the other side, and so does the first byte after the handshake.
        let [close, teardown, first_byte] = phases.map(|phase| phase.value);
        let held = short[3].held;
        let trips = |time: f64, trips: f64| (0.95 * trips..1.25 * trips).contains(&(time / held));
        if close > held / 10.0 || !trips(teardown, 1.0) || !trips(first_byte, 2.0) {
            return Err(wrong(format!(
                "close {close} ms, teardown {teardown} ms, first byte {first_byte} ms, held {held}"
            )));
        }
        Ok(())
    });
}

/// Microseconds of the round trip of a byte by TCP: the figure, the net figure, what the relay and what the peer held.
fn residence(hold: &[&str]) -> Result<[f64; 4], Judgement> {
    let namespaces = Namespaces::new();
    // A delay on the way, so that the hold is not the whole of the figure and no CPU stays awake for it.
    let relay = namespaces.relay(Duration::from_millis(2));
    let peer = namespaces.peer(hold);
    let (output, directory) =
        run(&namespaces, &peer, &["network.round_trip", "--quick", "--time", "6s", "--path", "remote"]);
    if !ended(&output) {
        return Err(wrong(told(&output)));
    }
    let place = directory.path().join("run");
    let result = result(&place);
    let gross = remote_time(&result, "tcp")?.value * 1e3;
    let net = trusted(&result, "network.round_trip.net", &[("protocol", "tcp"), ("bytes", "1")])? / 1e3;
    let log = crate::support::runs::lines(&place);
    let at_peer: Vec<f64> = crate::support::runs::records(&log, "series")
        .into_iter()
        .filter(|series| {
            let labels = &series["labels"];
            series["name"] == "peer.residence" && labels["protocol"] == "tcp" && labels["bytes"] == "1"
        })
        .filter_map(|series| series["values"][0].as_f64())
        .collect();
    let at_peer = median(&at_peer).expect("the peer says how long it kept a message") / 1e3;
    let held = relay.held(|note| note.protocol == 6 && note.payload == 1 && !note.begins) * 1e3;
    Ok([gross, net, held, at_peer])
}

#[test]
fn the_peers_residence_is_in_the_gross_figure_and_not_in_the_net_one() {
    let _alone = measuring();
    judged("an echo held for 1000 µs", || {
        let plain = residence(&[])?;
        let held = residence(&["--pretend", "hold=1000"])?;
        // Above what the relay held, the net figure has the same rest with and without the hold: wake-ups, which differ with
        // what else the host does, but by no hold. The gross figure has the whole hold above the net one.
        let [gross, net, relay, peer] = held;
        let tolerance = (gross * 0.01).max(50.0);
        let rests = [plain[1] - plain[2], net - relay];
        if peer < 900.0 || (gross - net - peer).abs() > tolerance || (rests[1] - rests[0]).abs() > peer * 0.15 {
            return Err(wrong(format!("gross {gross}, net {net}, relay {relay}, peer {peer}; rests {rests:?} µs")));
        }
        Ok(())
    });
}

/// A sender that fills a path sends what its congestion window holds in one go, and the ends of the time that counts cut such a
/// train anywhere. Bytes of a train over the seconds that count.
fn train(run: &Path, direction: &str) -> f64 {
    let log = crate::support::runs::lines(run);
    let series = |name: &str| -> Vec<Vec<f64>> {
        let all = crate::support::runs::records(&log, "series").into_iter().filter(|series| {
            let labels = &series["labels"];
            series["name"] == name
                && (&labels["direction"], &labels["path"], &labels["streams"])
                    == (&direction.into(), &"remote".into(), &"1".into())
        });
        all.map(|series| series["values"].as_array().unwrap().iter().filter_map(Value::as_f64).collect()).collect()
    };
    let bytes = series("sender").iter().map(|sender| sender[5] * sender[6]).fold(0.0, f64::max);
    let windows = series("window").iter().map(Vec::len).min().unwrap();
    bytes / (windows as f64 * 0.1)
}

/// Payload of full segments over what the token bucket counts for them.
fn payload(bytes: f64) -> f64 {
    bytes * (1500.0 - 52.0) / (1500.0 + 14.0)
}

#[test]
fn a_rate_is_found_to_half_a_percent() {
    let _alone = measuring();
    let namespaces = Namespaces::new();
    namespaces.join();
    for megabits in [20, 200, 1000] {
        namespaces.shape(megabits);
        let peer = namespaces.peer(&[]);
        judged(&format!("{megabits} Mbit/s"), || {
            let passed = [Passed::watch(&namespaces.near), Passed::watch(&namespaces.far)];
            let (output, directory) =
                run(&namespaces, &peer, &["network.bandwidth", "--quick", "--time", "8s", "--path", "remote"]);
            let passed = passed.map(Passed::rates);
            if !ended(&output) {
                return Err(wrong(told(&output)));
            }
            let result = result(&directory.path().join("run"));
            for (direction, passed) in ["send", "receive"].into_iter().zip(passed) {
                let labels = [("direction", direction), ("path", "remote"), ("streams", "1")];
                let found = trusted(&result, "network.bandwidth.rate", &labels)?;
                let (passed, most) = (passed.map(payload), payload(f64::from(megabits) * 1e6 / 8.0));
                let tolerance = 0.005 + train(&directory.path().join("run"), direction) / most;
                // It lets no more through than it was made for, and less where it is woken too late. The result is the median of
                // several flows, so it is at least what the slowest second let through.
                if found > most * (1.0 + tolerance) || found < passed[0].min(most) * (1.0 - tolerance) {
                    return Err(wrong(format!(
                        "{direction}: {found} B/s of payload, the shaper let {passed:?} B/s through, within {tolerance}"
                    )));
                }
            }
            Ok(())
        });
    }
}

#[test]
fn a_flow_on_a_path_that_is_cut_for_moments_is_not_trusted() {
    let _alone = measuring();
    let namespaces = Namespaces::new();
    namespaces.join();
    let megabits = 200;
    namespaces.shape(megabits);
    let most = payload(f64::from(megabits) * 1e6 / 8.0);
    let peer = namespaces.peer(&[]);
    let link = |state: &str| {
        let words = ["-n", &namespaces.far, "link", "set", "v0", state];
        assert!(Command::new("ip").args(words).status().unwrap().success());
    };
    judged("a path that is cut for moments", || {
        let ended_run = AtomicBool::new(false);
        let (output, directory) = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended_run.load(Ordering::Relaxed) {
                    // The part of a flow that counts lasts longer than this. A sender that lost everything waits 200 ms.
                    std::thread::sleep(Duration::from_millis(1200));
                    link("down");
                    std::thread::sleep(Duration::from_millis(60));
                    link("up");
                }
            });
            let seen = run(&namespaces, &peer, &["network.bandwidth", "--quick", "--time", "8s", "--path", "remote"]);
            ended_run.store(true, Ordering::Relaxed);
            seen
        });
        if output.status.code().is_none_or(|code| code > 1) {
            return Err(wrong(told(&output)));
        }
        let result = result(&directory.path().join("run"));
        let labels = [("direction", "send"), ("path", "remote"), ("streams", "1")];
        match trusted(&result, "network.bandwidth.rate", &labels) {
            Err(Judgement::Disturbed(why)) if why.contains("stalled") => Ok(()),
            // A sender that waits ever longer says nothing of a flow that stalls.
            Err(Judgement::Wrong(why)) if why.contains("no data arrived") => Err(Judgement::Disturbed(why)),
            Err(other) => Err(other),
            // A burst after a cut shortens the part that counts, which may have no cut then.
            Ok(rate) if within(rate / most, 0.995, 1.005).is_ok() => {
                Err(Judgement::Disturbed("no cut is in the part that counts".to_owned()))
            }
            Ok(rate) => Err(wrong(format!("a flow that was cut is trusted: {rate} B/s of {most}"))),
        }
    });
}

#[test]
fn a_small_receive_buffer_is_the_limit_and_is_named() {
    let _alone = measuring();
    let namespaces = Namespaces::new();
    let relay = namespaces.relay(Duration::from_millis(5));
    let peer = namespaces.peer(&["--pretend", "receive_buffer=65536"]);
    judged("64 KiB over 10 ms", || {
        let (output, directory) =
            run(&namespaces, &peer, &["network.bandwidth", "--quick", "--time", "8s", "--path", "remote"]);
        if !ended(&output) {
            return Err(wrong(told(&output)));
        }
        let place = directory.path().join("run");
        let labels = [("direction", "send"), ("path", "remote"), ("streams", "1")];
        let found = trusted(&result(&place), "network.bandwidth.rate", &labels)?;
        let log = crate::support::runs::lines(&place);
        let sender = crate::support::runs::records(&log, "series")
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
        let report = crate::support::runs::output(&["report", place.to_str().unwrap(), "--full"]);
        assert!(text(&report.stdout).contains("the receiver's window"), "another limit is named");
        // Full packets out, acknowledgements back. The kernel's smoothed round trip is that of one moment: the relay held packets
        // for less and for more within the run.
        let held = [0.1, 0.9]
            .map(|quantile| relay.held_at(quantile, |note| note.protocol == 6 && !note.begins && note.first) / 1e3);
        if (0.8..1.1).contains(&ratio) && (0.9 * held[0]..1.3 * held[1]).contains(&round_trip) {
            Ok(())
        } else {
            Err(wrong(format!("{found} B/s with a window of {window} B over {round_trip} s, held for {held:?} s")))
        }
    });
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
    assert!(!crate::support::runs::metrics(&without6).is_empty(), "the loopback has figures");
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
    let (output, directory) = run(&namespaces, &peer, &["network", "--quick", "--time", "14s", "--seed", "3"]);
    assert!(output.status.success(), "{}", told(&output));
    let place = directory.path().join("run");
    let log = crate::support::runs::log_text(&place);
    assert!(!log.contains(&peer.secret), "the secret is in the log");
    let lines = crate::support::runs::lines(&place);
    let met = crate::support::runs::records(&lines, "peer")[0];
    assert_eq!((&met["address"], &met["interface"], &met["on_link"]), (&FAR6.into(), &"v0".into(), &true.into()));
    assert!(met["machine"]["fingerprint"].as_str().unwrap().len() == 16, "{met}");
    for name in ["peer.residence", "peer.cpu_time", "peer.counter", "busy"] {
        assert!(crate::support::runs::records(&lines, "series").iter().any(|series| series["name"] == name), "{name}");
    }
    let result = result(&place);
    for protocol in ["tcp", "udp", "icmp"] {
        let labels = [("protocol", protocol), ("path", "remote"), ("ip", "6"), ("bytes", "1"), ("quantile", "p50")];
        assert_there(&result, "network.round_trip.time", &labels);
    }
    assert_there(&result, "network.bandwidth.rate", &[("path", "remote"), ("ip", "6")]);
    assert_there(&result, "network.connection.time", &[("path", "remote"), ("phase", "setup")]);
    let report =
        text(&crate::support::runs::output(&["report", place.to_str().unwrap(), "--full"]).stdout).replace('\n', " ");
    for words in ["The remote path leads from", "operating systems", "What limits each flow", "waits for one answer"] {
        assert!(report.contains(words), "{words} is missing");
    }
}
