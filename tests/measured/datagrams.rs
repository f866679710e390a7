//! Known truth for flows of datagrams: paths that lose, repeat and swap datagrams and note it, and a bridge with a narrow link whose
//! kernel counts what it drops. The real program is on both sides, in network namespaces.

use std::path::Path;

use crate::support::faults::{Carried, Fault};
use crate::support::namespaces::{Namespaces, Serving};
use crate::support::runs::{PROGRAM, ended, lines, measuring, records, result, told};
use crate::support::truth::{self, Judgement};
use serde_json::Value;
use tempfile::TempDir;

/// Runs the experiment in the near namespace against a peer.
fn run(namespaces: &Namespaces, peer: &Serving) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("run");
    let words = ["run", "network.datagrams", "--quick", "--time", "8s", "--path", "remote", "--no-progress"];
    let to = ["-o", place.to_str().unwrap(), "--peer", &peer.address, "--peer-secret", &peer.secret];
    let output = Namespaces::command(&namespaces.near, PROGRAM, &[&words[..], &to[..]].concat()).output().unwrap();
    assert!(ended(&output), "{}", told(&output));
    directory
}

/// What both sides counted of one flow.
#[derive(Debug)]
struct Flow {
    labels: Value,
    sent: u64,
    received: u64,
    repeated: u64,
    reordered: u64,
    dropped: u64,
}

impl Flow {
    fn is(&self, label: &str, value: &str) -> bool {
        self.labels[label] == *value
    }
}

/// Every flow of a run, in the order in which they ran.
fn flows(place: &Path) -> Vec<Flow> {
    let log = lines(place);
    let counted = records(&log, "series").into_iter().filter(|series| series["name"] == "count");
    let flow = |series: &Value| {
        let count = |index: usize| series["values"][index].as_f64().unwrap() as u64;
        let labels = series["labels"].clone();
        let [sent, received, repeated, reordered, dropped] = [0, 2, 3, 4, 5].map(count);
        Flow { labels, sent, received, repeated, reordered, dropped }
    };
    counted.map(flow).collect()
}

/// The value of a published share, whatever its verdict.
fn published(result: &Value, metric: &str, labels: &[(&str, &str)]) -> f64 {
    let mut sections = result["experiments"].as_array().unwrap().iter();
    let found = sections.find_map(|section| {
        let metrics = section["metrics"].as_array().unwrap().iter();
        metrics.into_iter().find(|found| found["name"] == metric && truth::labelled(found, labels))
    });
    found.unwrap_or_else(|| panic!("{metric} {labels:?} is missing: {}", result["experiments"]))["value"]
        .as_f64()
        .unwrap()
}

/// Each flow with what the path did with its datagrams. Both agree, whatever the machine does. A flow of which too few datagrams arrive
/// has no rate and ends its case, so that there is nothing to compare.
fn compared(fault: Fault) -> Result<Vec<(Flow, Carried)>, Judgement> {
    let namespaces = Namespaces::new();
    let path = namespaces.faulty(fault);
    let peer = namespaces.peer(&[]);
    let directory = run(&namespaces, &peer);
    let place = directory.path().join("run");
    let (counted, carried) = (flows(&place), path.flows());
    let result = result(&place);
    if result.to_string().contains("too few for a rate") {
        return Err(Judgement::Disturbed("too few datagrams of a flow arrived".to_owned()));
    }
    assert!(counted.len() >= 12 && counted.len() == carried.len(), "{} of {} flows", counted.len(), carried.len());
    let pairs: Vec<(Flow, Carried)> = counted.into_iter().zip(carried).collect();
    for (flow, carried) in &pairs {
        assert!(flow.is("bytes", &carried.bytes.to_string()), "{flow:?} {}", carried.bytes);
        let [numbers, repeated, reordered] = carried.counts();
        let about = format!("{fault:?}: {flow:?}, {} came, {numbers} left, {repeated} again", carried.came);
        // A queue of the device may lose datagrams in addition, and a full receive buffer drops what left the path.
        assert!(carried.came <= flow.sent, "{about}");
        assert!(flow.received <= numbers && flow.received + flow.dropped >= numbers, "{about}");
        assert!(flow.repeated <= repeated && flow.repeated + flow.dropped >= repeated, "{about}");
        assert!(flow.reordered.abs_diff(reordered) <= flow.dropped, "{about}, {reordered} in another order");
        if flow.dropped == 0 {
            assert_eq!([flow.received, flow.repeated, flow.reordered], [numbers, repeated, reordered], "{about}");
        }
    }
    // The published shares are those of all flows together.
    for direction in ["send", "receive"] {
        for (bytes, offered) in [("64", "full"), ("64", "0.5"), ("1472", "0.5")] {
            let of = |flow: &&(Flow, Carried)| {
                flow.0.is("direction", direction) && flow.0.is("bytes", bytes) && flow.0.is("offered", offered)
            };
            let sum = |what: &dyn Fn(&Flow) -> u64| pairs.iter().filter(of).map(|(flow, _)| what(flow)).sum::<u64>();
            let (sent, received) = (sum(&|flow| flow.sent) as f64, sum(&|flow| flow.received) as f64);
            let labels = [("direction", direction), ("bytes", bytes), ("offered", offered), ("to", "program")];
            let found = published(&result, "network.datagrams.delivered", &labels);
            assert!((found - received / sent).abs() < 1e-9, "{labels:?}: {found} of {received} / {sent}");
        }
    }
    Ok(pairs)
}

/// Flows whose datagrams all reached the path, and the receiver without a drop: there the fault is all that happens.
fn undisturbed(pairs: &[(Flow, Carried)]) -> Vec<&Flow> {
    let is_calm =
        |(flow, carried): &&(Flow, Carried)| carried.came == flow.sent && flow.dropped == 0 && flow.sent > 200;
    pairs.iter().filter(is_calm).map(|(flow, _)| flow).collect()
}

#[test]
fn losses_repetitions_and_swaps_are_those_that_the_path_made() {
    let _alone = measuring();
    for fault in [Fault::None, Fault::Lose(20), Fault::Repeat(10), Fault::Swap(8)] {
        truth::judged(&format!("{fault:?}"), || match compared(fault) {
            Ok(pairs) => expected(fault, &pairs),
            Err(judgement) => judgement,
        });
    }
}

/// In a flow without other losses, the fault is all that happens.
fn expected(fault: Fault, pairs: &[(Flow, Carried)]) -> Judgement {
    let calm = undisturbed(pairs);
    println!("{fault:?}: {} of {} flows undisturbed", calm.len(), pairs.len());
    if calm.is_empty() {
        return Judgement::Disturbed("no flow reached the receiver without a drop".to_owned());
    }
    for flow in calm {
        let part = |every: u64| (flow.sent as f64 / every as f64, 1.5);
        let lost = flow.sent - flow.received;
        let (found, (part, slack)) = match fault {
            Fault::None => (lost + flow.repeated + flow.reordered, (0.0, 0.0)),
            Fault::Lose(every) => (lost, part(every)),
            Fault::Repeat(every) => (flow.repeated, part(every)),
            // Where the next one comes too late, the path does not wait for it.
            Fault::Swap(every) => (flow.reordered, (part(every).0, 1.5 + part(every).0 * 0.05)),
        };
        let is_all = matches!(fault, Fault::Lose(_)) || lost == 0;
        if (found as f64 - part).abs() > slack || !is_all {
            return Judgement::Wrong(format!("{found} instead of {part}: {flow:?}"));
        }
    }
    Judgement::Right
}

/// Bytes of a datagram that the token bucket counts: its payload, UDP, IP and the head of the frame.
fn counted(payload: f64) -> f64 {
    payload + 42.0
}

#[test]
fn a_narrow_link_loses_what_it_cannot_carry_and_nothing_at_half_its_rate() {
    let _alone = measuring();
    let megabits = 40;
    let shaped = f64::from(megabits) * 1e6 / 8.0;
    truth::judged("a link of 40 Mbit/s behind the first one", || {
        let namespaces = Namespaces::new();
        let bridge = namespaces.join_by_narrow_bridge(megabits);
        let peer = namespaces.peer(&[]);
        let directory = run(&namespaces, &peer);
        let place = directory.path().join("run");
        let (all, dropped, result) = (flows(&place), bridge.dropped(), result(&place));
        for (direction, dropped) in ["send", "receive"].into_iter().zip(dropped) {
            let of: Vec<&Flow> = all.iter().filter(|flow| flow.is("direction", direction)).collect();
            let lost: u64 = of.iter().map(|flow| flow.sent - flow.received - flow.dropped).sum();
            // The kernel also counts what it drops of the control connection.
            if lost > dropped || lost + 50 < dropped {
                return Judgement::Wrong(format!("{direction}: {lost} lost, the bridge dropped {dropped}"));
            }
            for payload in [64.0, 1472.0] {
                let bytes = format!("{payload}");
                let labels = [("direction", direction), ("bytes", &bytes)];
                let rate = published(&result, "network.datagrams.rate", &labels);
                let most = shaped * payload / counted(payload);
                let full: Vec<&&Flow> =
                    of.iter().filter(|flow| flow.is("bytes", &bytes) && flow.is("offered", "full")).collect();
                // In each flow of 0.15 s the bucket lets through its rate, its burst, and what waits in its queue at the end.
                let lets = shaped * 0.15 * full.len() as f64 + 80_000.0 * full.len() as f64;
                let sent = full.iter().map(|flow| flow.sent).sum::<u64>() as f64 * counted(payload);
                let at_full = [&labels[..], &[("offered", "full"), ("to", "socket")]].concat();
                let share = published(&result, "network.datagrams.delivered", &at_full);
                let expected = (lets / sent).min(1.0);
                println!("{direction} {bytes}: {rate} B/s of {most}, {share} delivered, {expected} expected");
                if let Err(judgement) = truth::trusted(&result, "network.datagrams.rate", &labels) {
                    return judgement;
                }
                let right = (0.9..1.005).contains(&(rate / most)) && (0.85..1.02).contains(&(share / expected));
                if !right {
                    return Judgement::Wrong(format!(
                        "{direction} {bytes}: {rate} B/s of {most}, {share} delivered instead of {expected}"
                    ));
                }
                let half = [&labels[..], &[("offered", "0.5"), ("to", "socket")]].concat();
                let share = published(&result, "network.datagrams.delivered", &half);
                if share < 1.0 {
                    return Judgement::Wrong(format!("{direction} {bytes}: {share} delivered at half the rate"));
                }
            }
        }
        Judgement::Right
    });
}
