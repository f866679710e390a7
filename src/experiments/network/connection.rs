//! # Question
//!
//! How long does it take to open a TCP connection and to get the first answer? How long does each kind of close take:
//! by call, in order or by force?
//!
//! # Method
//!
//! Each connection is timed separately. The next one starts only after the other side has reported the end of the
//! last, so nothing queues at the listener. Each result is the time of one phase.
//! The phases are:
//!
//! - **setup**: the connect call. It returns after one round trip (SYN, SYN-ACK), not one and a half. On loopback the
//!   whole handshake runs inside the call, without waiting for the listening process.
//! - **first_byte**: from before the connect call until a byte has come back.
//! - **close**: the close call alone. It sends a FIN and returns without waiting.
//! - **teardown**: from the shutdown of the local direction until the other side's FIN is read. It takes at least a
//!   round trip plus the residence, the other side's time from reading the end to its close. The metric **net** omits
//!   the residence.
//! - **abort**: the close call of a connection with zero linger time, which sends a RST instead of a FIN.
//!
//! On loopback, sysdyno checks before and after each connection whether a neighbour computes on the core. Results come
//! from connections without one, if five launches or half of them have some. Otherwise they come from all and are
//! contaminated. The cost with a neighbour is the field `shared` of the result.
//!
//! After each handshake, TCP_INFO shows whether a SYN was retransmitted. Such a connection waited a second or more
//! for a timer and belongs to a separate class. The kernel's counters of listener overflows and retransmitted
//! segments are read before and after.
//!
//! The side that closes first holds the port pair for a minute (TIME_WAIT). Connections alternate between 64 loopback
//! addresses and hold at most a tenth of the port range. Beyond that limit sysdyno makes only aborted connections,
//! which hold no port.
//!
//! # Prediction
//!
//! Setup on loopback: three packets through the stack, the state of two sockets, and a wake-up without waiting.
//! Remote: the round trip of this run and the same software. Close: one packet. Teardown: a round trip on the path,
//! or on loopback two packets and a wake-up of the other side.
//!
//! # What could fool us
//!
//! - A closed port answers as fast as an open one, so sysdyno checks every return code.
//! - close() is not the end of a connection. It returns before the other side has received anything.
//! - A listener that does not accept still completes handshakes until its queue is full. After that the kernel drops
//!   SYNs, and the mean is a mean of timers.
//! - When the port range runs out, connect becomes slower and slower and then fails.
//! - On loopback, setup can be shorter than an echo, because no process must run for it. If a process waits in accept
//!   or read, the caller's connect or close wakes it, and the result includes that.
//!
//! # References
//!
//! RFC 9293, sections 3.5 and 3.6. tcp(7), connect(2), shutdown(2). Linux `Documentation/networking/ip-sysctl.rst`
//! (`tcp_tw_reuse`, `ip_local_port_range`).

use super::connections::{ConnectionPath, LOOPBACK_PATHS, PORT_SHARE, TIME, measure};
use super::{
    LOOPBACK, OTHER_CPU, Terms, counted, net_below_gross, others, path_sentence, path_terms, quantile_of_shots,
    remote_metric, round_trip, shortest_round_trip, wakes,
};
use crate::experiments::constants::STACK_TCP;
use crate::experiments::os::system_call::paid;
use crate::experiments::prelude::*;
use crate::results::ratio::Order;
use crate::results::wording::by_times;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "network.connection",
    title: "Connection setup and teardown",
    measures: "connect, first byte, close, orderly teardown and abort of a TCP connection",
    words: &["accept", "connect", "handshake"],
    method_version: 2,
    precision: Precision { target: 0.15, between: 0.08, busy: 0.08 },
    source: heading!("connection.rs"),
    needs: &[LOOPBACK],
    uses: &["os.system_call.time", "network.round_trip.time"],
    rules: RULES,
    constants: CONSTANTS,
    publishes: &[
        Publication::state("network.connection.time", Unit::Nanoseconds, "one phase of a TCP connection")
            .in_summary_where(|labels| labels.get("path") == Some("remote") || labels.get("ip") == Some("4")),
        Publication::state(
            "network.connection.net",
            Unit::Nanoseconds,
            "orderly teardown without the other side's time from reading the end to its close",
        ),
    ],
    seconds: |setup| super::seconds(setup, 3.0, 0.05),
    time_out: 60.0,
    predict,
    measure,
    figures,
    explain,
    ..Experiment::DEFAULT
};

/// Phases, in the order in which a connection lives.
const PHASES: [&str; 5] = ["setup", "first_byte", "close", "teardown", "abort"];
/// No call that enters the kernel and sends a packet is shorter (nanoseconds).
const FLOOR: f64 = 200.0;
/// Share of handshakes that may have sent a SYN again.
const REPEATED_SHARE: f64 = 0.01;
/// A phase that waits for the other side takes this many of the shortest round trips, at least.
const TRIPS: f64 = 0.9;

constants! {
    /// State of a new connection on both sides: sockets, hashes, timers.
    CONNECTION_STATE = 4_000.0 in 1_000.0 ..= 15_000.0 "ns", "Linux net/ipv4/inet_hashtables.c and tcp_minisocks.c";
    /// What close does before it returns: a segment on its way, the descriptor gone.
    CLOSE_CALL = 4_000.0 in 800.0 ..= 15_000.0 "ns", "Linux net/ipv4/tcp.c, tcp_close: the FIN is sent inside the call";
}

rules! {
    PHASE_FLOOR: "G8" Hard "`network.connection.time`", "a phase of a connection takes at least {}", time(FLOOR);
    CALLS: "G20" Hard "`network.connection.time`",
        "setup takes at least as long as two refused system calls, every other phase as long as one";
    TRIP: "G27" Hard "`network.connection.time`",
        "remote setup, first byte and teardown take at least {} times the fastest tenth of remote round trips",
        plain(TRIPS);
    REPEATED: "G28" Noisy "`network.connection.time`",
        "at most {} of the handshakes retransmitted a SYN, and no counter of lost or refused segments increased",
        share(REPEATED_SHARE);
    PORTS: "G30" Hard "`network.connection.time`", "connections in TIME_WAIT hold at most {} of the port range",
        share(PORT_SHARE);
}

fn paths(setup: &Setup) -> Vec<ConnectionPath> {
    let mut paths = if setup.remote_only { Vec::new() } else { LOOPBACK_PATHS.to_vec() };
    paths.extend(setup.peer.as_ref().map(|peer| ConnectionPath { ipv6: peer.is_ipv6(), placement: None }));
    paths
}

/// Phases that are measured on a path: over IPv6 the loopback has one address, so only connections that hold no port.
fn phases(path: ConnectionPath) -> &'static [&'static str] {
    const WITHOUT_PORTS: [&str; 3] = ["setup", "first_byte", "abort"];
    if path.ipv6 && path.placement.is_some() { &WITHOUT_PORTS } else { &PHASES }
}

fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let terms = Terms::known(by);
    paths(by.setup)
        .into_iter()
        .flat_map(|path| phases(path).iter().map(move |phase| (path, *phase)))
        .map(|(path, phase)| predict_phase(by, &terms, path, phase))
        .collect()
}

fn predict_phase(by: &PredictionInput<'_>, terms: &Terms, path: ConnectionPath, phase: &str) -> Prediction {
    let prediction = Prediction::of(TIME, path.labels(phase), Unit::Nanoseconds);
    if ["close", "abort"].contains(&phase) {
        let waking = if path.placement.is_some() { 1.0 } else { 0.0 };
        return wakes(terms.enters(prediction, 1.0), waking).software(
            "the packet that is sent inside the call",
            CLOSE_CALL.times(1.0),
            CLOSE_CALL.basis(),
        );
    }
    let remote = by.setup.peer.as_ref().filter(|_| path.placement.is_none());
    let round_trips = if phase == "first_byte" { 2.0 } else { 1.0 };
    let prediction = match remote {
        Some(peer) => match round_trip(by.known, peer) {
            Some((value, metric)) => {
                let range = (value * round_trips, value * round_trips * 0.85, value * round_trips * 1.3);
                prediction.hardware("the round trip of this run", range, Basis::metric(&metric))
            }
            None => path_terms(by, peer, 1.0, prediction),
        },
        None => prediction,
    };
    let prediction = match phase {
        "setup" => terms
            .enters(prediction, 1.0)
            .software("three packets through the stack", STACK_TCP.times(1.5), STACK_TCP.basis())
            .software("state on both sides", CONNECTION_STATE.times(1.0), CONNECTION_STATE.basis()),
        "first_byte" => terms
            .enters(prediction, 4.0)
            .software("packets through the stack", STACK_TCP.times(3.5), STACK_TCP.basis())
            .software("state on both sides", CONNECTION_STATE.times(1.5), CONNECTION_STATE.basis()),
        _ => terms
            .enters(prediction, 2.0)
            .software("two packets through the stack", STACK_TCP.times(1.5), STACK_TCP.basis())
            .software("removal of the state", CONNECTION_STATE.times(0.5), CONNECTION_STATE.basis()),
    };
    match (phase, path.placement) {
        (_, None) => prediction,
        ("setup", Some(_)) => wakes(prediction, 1.0),
        (_, Some(placement)) => terms.switches(prediction, placement),
    }
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    for path in paths(study.setup) {
        for phase in phases(path) {
            let labels = path.labels(phase);
            let Some(estimate) = quantile_of_shots(study, "connection", &labels, 0.5) else { continue };
            let gates = phase_gates(study, path, phase, &estimate);
            findings.publish(study, Figure::shots(TIME, labels.clone(), &estimate, others(study)).gates(gates));
            if *phase == "teardown" {
                publish_net(study, findings, path, &estimate);
            }
        }
    }
}

fn phase_gates(study: &Study<'_>, path: ConnectionPath, phase: &str, estimate: &Estimate) -> Vec<Gate> {
    let mut gates = vec![gates::floor(&PHASE_FLOOR, estimate, FLOOR).because("a call that sends a packet")];
    let repeated = study.values("repeated", &path.labels("setup")).len() as f64;
    let whole = repeated + estimate.account.clean as f64;
    let names = ["ListenOverflows", "ListenDrops", "TCPSynRetrans", "TCPTimeouts", "RetransSegs"];
    let counters: Vec<String> = names
        .into_iter()
        .map(|name| (name, counted(study, "counter", name) + counted(study, "peer.counter", name)))
        .filter(|(_, value)| *value > 0.0)
        .map(|(name, value)| format!("{name} +{value}"))
        .collect();
    let moved = if counters.is_empty() { "none moved".to_owned() } else { counters.join(", ") };
    gates.push(
        Gate::few(&REPEATED, "a SYN was retransmitted for {} of the connections", repeated, whole, REPEATED_SHARE)
            .because("such connections are a separate class")
            .and(Gate::holds(&REPEATED, counters.is_empty(), format!("counters: {moved}"))),
    );
    let held = |position: usize| {
        study
            .series("ports", &Labels::none())
            .iter()
            .filter_map(|series| series.values.get(position).copied())
            .fold(0.0, f64::max)
    };
    let range = held(2);
    let after = if range > 0.0 { held(1) } else { 0.0 };
    gates.push(Gate::few(&PORTS, "connections in TIME_WAIT hold {} of the port range", after, range, PORT_SHARE));
    let enosys = paid(study.known, "enosys");
    if let Some(enosys) = enosys {
        let least = enosys.value * if phase == "setup" { 2.0 } else { 1.0 };
        gates.push(Gate::at_least(&CALLS, estimate.named("{}"), least).because("the kernel entries of this phase"));
    }
    if let (Some(peer), None) = (study.setup.peer.as_ref(), path.placement)
        && ["setup", "teardown", "first_byte"].contains(&phase)
        && let Some(shortest) = shortest_round_trip(study.known, peer)
    {
        let reason = format!("{TRIPS} times the fastest tenth of round trips");
        gates.push(Gate::at_least(&TRIP, estimate.named("{}"), TRIPS * shortest).because(reason));
    }
    gates
}

/// Tear-down without the other side's residence.
fn publish_net(study: &Study<'_>, findings: &mut Findings, path: ConnectionPath, gross: &Estimate) {
    let Some(residence) = median(&study.values("residence", &path.labels("teardown"))) else { return };
    let name = "median over launches of the launch's p50, less the median residence at the other side";
    let net = gross.less(residence, [residence; 2], name);
    let gates = [gates::net_resolved(&net, gross.value), net_below_gross(&net, gross)];
    let figure = Figure::shots("network.connection.net", path.labels("teardown"), &net, others(study));
    findings.publish(study, figure.of_gross(gross.value).gates(gates));
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    let time =
        |findings: &Findings, path: ConnectionPath, phase: &str| findings.metric(TIME, &path.labels(phase)).cloned();
    let here = ConnectionPath { ipv6: false, placement: Some(OTHER_CPU) };
    if let (Some(setup), Some(first)) = (time(findings, here, "setup"), time(findings, here, "first_byte")) {
        findings.say(format!(
            "On loopback a handshake takes {}, all of it inside the call. The first byte is back after {}, because \
             another process must run for it.",
            setup.shown(),
            first.shown()
        ));
    }
    if let (Some(close), Some(teardown)) = (time(findings, here, "close"), time(findings, here, "teardown")) {
        findings.say(format!(
            "close() returns after {}. An orderly end takes {} from shutdown() until the other side's end is read, without \
             close().",
            close.shown(),
            teardown.shown(),
        ));
    }
    if let Some(peer) = study.setup.peer.as_ref() {
        findings.say(path_sentence(study, peer));
        let path = ConnectionPath { ipv6: peer.is_ipv6(), placement: None };
        if let (Some(setup), Some(trip)) = (time(findings, path, "setup"), remote_metric(study.known, peer, "tcp")) {
            let is_apart = matches!(Order::of(&setup, trip), Order::Larger(_) | Order::Smaller(_));
            let (setup, trip) = (setup.shown(), trip.shown());
            let times = if is_apart { format!(" ({})", by_times(setup.value / trip.value)) } else { String::new() };
            findings.say(format!(
                "Over the remote path a handshake takes {setup}, and a TCP round trip {trip}{times}. The call waits for one \
                 answer, not for one and a half."
            ));
        }
        if let (Some(close), Some(teardown)) = (time(findings, path, "close"), time(findings, path, "teardown")) {
            findings.say(format!(
                "On that path close() returns after {}, and the other side's FIN is read after {}.",
                close.shown(),
                teardown.shown()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::connections::CloseMode;
    use super::*;

    #[test]
    fn phases_of_a_path_have_labels_of_their_own() {
        let mut all: Vec<Labels> = LOOPBACK_PATHS
            .into_iter()
            .flat_map(|path| phases(path).iter().map(move |phase| path.labels(phase)))
            .collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(
            [CloseMode::Close, CloseMode::Orderly, CloseMode::Abort].iter().all(|end| PHASES.contains(&end.phase()))
        );
    }
}
