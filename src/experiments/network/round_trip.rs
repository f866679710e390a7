//! # Question
//!
//! How long does an answer take, by protocol, message size, placement and pacing? And which part is due to the
//! operating systems, and which to the network?
//!
//! # Method
//!
//! An exchange writes a message and reads until the whole answer has arrived, between two clock reads. The other side
//! reads the whole message and writes it back: a child process on the **loopback** path, the peer on the **remote**
//! path. The result is the median over launches of a quantile (p50, p90, p99) of the whole round trip, never half of
//! it. Both sides block in their reads instead of polling.
//!
//! - **protocol**: tcp (TCP_NODELAY), udp, icmp or unix. The udp socket is connected. Its messages start with a
//!   counter, so that a late answer is not taken for the next one. The kernel of the other side answers an icmp echo
//!   without a process. A unix socket is a stream pair on one machine.
//! - **placement**, on loopback: the other side is pinned to the CPU of the launch (`same_cpu`) or to another CPU
//!   (`other_cpu`).
//! - **pacing**: back_to_back, or idle, with a sleep of 10 ms before each exchange.
//! - **ip**: 4 or 6.
//!
//! Kinds alternate in random order, in bursts of twenty exchanges without the first two, which belong to the change
//! of kind. Remote bursts have five exchanges without the first. An answer that does not arrive within a second is
//! counted as lost. On loopback, sysdyno checks between the bursts whether a neighbour computes on the core, and on two
//! CPUs on both cores. Back-to-back results come from bursts without one, if five launches or half of them have some.
//! Otherwise they come from all bursts and are contaminated. The time with a neighbour is the field `shared` of the
//! result. The same launches measure the remote path and the loopback, so their difference compares like
//! with like. The peer reports its residence, the time from its read to its write. The metric **net** is the median
//! without the residence. The metric **network_share** is the remote median less the loopback median on two CPUs.
//!
//! # Prediction
//!
//! Loopback: four system calls, two handoffs of the CPU, the protocol in both directions, and four copies of every
//! byte. The handoffs are switches on one CPU, and wake-ups of a sleeping CPU on two. ICMP has two calls and no
//! handoff. After a pause both CPUs leave their idle states. Remote: the software of the loopback, and in both
//! directions interface and interrupt, the bits on the wire, and the distance.
//!
//! # What could fool us
//!
//! - **Half round trips.** sockperf and qperf report half of a round trip as latency, ping and sysdyno all of it.
//! - **Placement.** On one CPU an exchange is two context switches. On two CPUs it is two wake-ups of an idle CPU,
//!   which in a guest cost more than everything else together.
//! - **Polling.** Tools that spin on the socket need no wake-up and show lower results for that reason alone.
//! - **Pacing.** ping sends once a second. Its extra time over a back-to-back exchange comes from idle states, radio
//!   power saving and slowed clocks, not from a lower priority of ICMP. Compare equal pacing.
//! - **End of the time.** ping stops at the kernel's time of arrival, sysdyno at the return of the read.
//! - **ICMP has no process.** The other side's kernel answers, so ICMP can be faster than an echo through a program. The
//!   kernel computes its checksums in software, so large messages cost more: on one guest 0.79 ns per byte, UDP 0.10 ns.
//! - **Delayed acknowledgements** and Nagle's algorithm cause steps of 40 ms. TCP_NODELAY is set on both sides.
//! - A message above the segment size leaves in several packets, and the answer waits for the last of them.
//! - A closed loop omits the messages that it would have sent while it waited. The results are service times, not
//!   response times under load.
//!
//! # References
//!
//! RFC 792 and RFC 4443 (echo). RFC 896 and RFC 1122, section 4.2.3.2 (Nagle, delayed acknowledgement). tcp(7),
//! udp(7), icmp(7), unix(7). G. Tene, "How not to measure latency", 2013.

use std::collections::BTreeMap;

use super::exchanges::{GAP, Kind, PATIENCE, TIME, kind, kinds, measure};
use super::{
    LOOPBACK, OTHER_CPU, SAME_CPU, Terms, net_below_gross, others, path_sentence, path_terms, quantile_label,
    quantile_of_shots,
};
use crate::evaluate::gate::Rule;
use crate::experiments::constants::{COPY_BYTE, Constant, STACK_TCP};
use crate::experiments::prelude::*;
use crate::results::peer::Peer;
use crate::results::quantity::DISTANCE;
use crate::results::ratio::in_brackets;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "network.round_trip",
    title: "Round-trip time",
    measures: "time to an answer over TCP, UDP, ICMP and Unix sockets, by size, placement and pacing",
    words: &["ping", "rtt"],
    method_version: 2,
    precision: Precision { target: 0.15, between: 0.05, busy: 0.12 },
    source: heading!("round_trip.rs"),
    needs: &[LOOPBACK],
    uses: &["os.system_call.time"],
    rules: RULES,
    constants: CONSTANTS,
    publishes: &[
        Publication::state("network.round_trip.time", Unit::Nanoseconds, "a message to the other side and its answer")
            .in_summary_where(common_exchange),
        Publication::state(
            "network.round_trip.net",
            Unit::Nanoseconds,
            "a round trip without the residence in the peer's process",
        ),
        Publication::state(
            "network.round_trip.network_share",
            Unit::Nanoseconds,
            "time that the path adds to a round trip within this machine",
        )
        .in_summary_where(|labels| labels.get("bytes") == Some("1")),
    ],
    seconds: |setup| super::seconds(setup, 3.5, 0.45),
    time_out: 60.0,
    in_quick: true,
    predict,
    measure,
    figures,
    explain,
    ..Experiment::DEFAULT
};

/// The curves over message sizes.
const BY_BYTES: &str = "network.round_trip.by_bytes";
/// Quantiles that are published.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
/// No answer goes through two kernel entries and two stacks in less (nanoseconds).
const FLOOR: f64 = 400.0;
/// Slack of comparisons between kinds.
const SLACK: f64 = 1.05;
/// Share of the exchanges that may stay without an answer.
const LOST: f64 = 0.01;

constants! {
    /// The same for UDP.
    STACK_UDP = 2_000.0 in 600.0 ..= 5_000.0 "ns", "Linux net/ipv4/udp.c: no state, no acknowledgement";
    /// The same for ICMP echo, which the kernel answers itself.
    STACK_ICMP = 1_800.0 in 400.0 ..= 6_000.0 "ns",
        "Linux net/ipv4/icmp.c: the kernel replies while it receives the request";
    /// The same for a Unix stream socket: a queue in memory.
    STACK_UNIX = 700.0 in 200.0 ..= 2_500.0 "ns", "Linux net/unix/af_unix.c: one buffer, one lock, one wake-up";
    /// Waking up after a pause: idle states of both CPUs, their clocks, cold caches.
    PAUSE = 20_000.0 in 2_000.0 ..= 400_000.0 "ns",
        "exit latencies of idle states: 1–200 µs each. A halted guest exits to its hypervisor";
}

rules! {
    ANSWER: "G8" Hard "`network.round_trip.time`", "an answer takes at least {}", time(FLOOR);
    BELOW_TCP: "G20" Remark "`network.round_trip.time`",
        "a Unix socket takes at most {} times as long as TCP, ICMP at most {} times as long as TCP on two CPUs",
        plain(SLACK), plain(SLACK);
    OUT_OF_MACHINE: "G27" Hard "`network.round_trip.time`",
        "a remote round trip takes at least as long as a local one on one CPU (factor {})", plain(SLACK);
    LOSS: "loss" Noisy "`network.round_trip.time`", "at most {} of the exchanges had no answer", share(LOST);
}
/// ICMP and TCP of one path may differ by this share before it is said (G40).
const ALIKE: f64 = 0.2;

/// The summary shows one byte through every protocol over IPv4 on two CPUs, and what crosses the network.
fn common_exchange(labels: &Labels) -> bool {
    let small = labels.get("bytes") == Some("1") && labels.get("quantile") == Some("p50");
    let loopback = labels.get("path") == Some("loopback");
    small && (!loopback || labels.get("ip") != Some("6"))
}

fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let terms = Terms::known(by);
    let mut predictions = Vec::new();
    for kind in kinds(by.setup) {
        for probability in QUANTILES {
            let labels = kind.labels().with("quantile", quantile_label(probability));
            let prediction = Prediction::of(TIME, labels, Unit::Nanoseconds);
            let prediction = predict_median(by, &terms, kind, prediction);
            predictions.push(predict_tail(probability, prediction));
        }
    }
    predictions
}

fn predict_median(by: &PredictionInput<'_>, terms: &Terms, kind: Kind, prediction: Prediction) -> Prediction {
    let bytes = f64::from(kind.bytes);
    let prediction = match (kind.remote, by.setup.peer.as_ref()) {
        (true, Some(peer)) => path_terms(by, peer, bytes, prediction),
        _ => prediction,
    };
    let (stack, calls) = match kind.protocol {
        "tcp" => (STACK_TCP, 4.0),
        "udp" => (STACK_UDP, 4.0),
        "icmp" => (STACK_ICMP, 2.0),
        _ => (STACK_UNIX, 4.0),
    };
    let prediction = terms.enters(prediction, calls);
    let prediction = if kind.protocol == "icmp" && !kind.remote {
        prediction
    } else {
        terms.switches(prediction, kind.placement.unwrap_or(OTHER_CPU))
    };
    let prediction = prediction.software("the protocol, both ways", stack.times(2.0), stack.basis());
    let copies = if kind.protocol == "icmp" { 2.0 } else { 4.0 };
    let prediction =
        prediction.hardware("copies between programs and kernels", COPY_BYTE.times(copies * bytes), COPY_BYTE.basis());
    if kind.idle {
        prediction.hardware("the exit from idle states after the pause", PAUSE.times(1.0), Constant::basis(&PAUSE))
    } else {
        prediction
    }
}

/// Above the median stands what hits one exchange in ten, or in a hundred.
fn predict_tail(probability: f64, median: Prediction) -> Prediction {
    let (share, most) = if probability < 0.8 {
        return median;
    } else if probability < 0.95 {
        (0.3, 2.0)
    } else {
        (1.0, 8.0)
    };
    let basis = Basis::guess("interrupts, ticks and neighbours delay a few exchanges in a hundred");
    let tail = (median.value * share, 0.0, median.value * most);
    median.software("rare delays", tail, basis)
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    for kind in kinds(study.setup) {
        for labels in study.by_distance("exchange", &kind.labels()) {
            publish_exchange(study, findings, kind, &labels);
        }
        if kind.remote {
            publish_parts(study, findings, kind);
        }
    }
    findings.curves.extend(curves(findings));
}

fn publish_exchange(study: &Study<'_>, findings: &mut Findings, kind: Kind, labels: &Labels) {
    for probability in QUANTILES {
        let published = labels.clone().with("quantile", quantile_label(probability));
        if let Some(estimate) = quantile_of_shots(study, "exchange", labels, probability) {
            let own = exchange_gates(study, kind, probability, &estimate);
            findings.publish(study, Figure::shots(TIME, published, &estimate, others(study)).gates(own));
        } else if let Some(few) = study.sample_of("exchange", labels, Unit::Ticks, |ticks, _| ticks) {
            let shots: usize = few.launches.iter().map(Vec::len).sum();
            findings.cannot(TIME, published, &format!("{shots} exchanges are too few for this quantile"));
        }
    }
}

/// Lost and fired exchanges of a kind.
fn losses(study: &Study<'_>, kind: Kind) -> (f64, f64) {
    let counts = study.series("lost", &kind.labels());
    counts
        .iter()
        .filter_map(|series| Some((*series.values.first()?, *series.values.get(1)?)))
        .fold((0.0, 0.0), |(lost, fired), (one, all)| (lost + one, fired + all))
}

fn exchange_gates(study: &Study<'_>, kind: Kind, probability: f64, estimate: &Estimate) -> Vec<Gate> {
    let mut gates = vec![gates::floor(&ANSWER, estimate, FLOOR).because("an answer crosses the kernel twice")];
    let (lost, fired) = losses(study, kind);
    gates.push(
        Gate::few(&LOSS, "{} of the exchanges had no answer", lost, fired, LOST)
            .because(format!("in {} s, and these have no time", PATIENCE.as_secs())),
    );
    let mut compare = |other: Kind, rule: &Rule, why: &str| {
        if let Some(other) = quantile_of_shots(study, "exchange", &other.labels(), probability) {
            let (measured, other) = (estimate.named("{}"), other.value);
            gates.push(if kind.remote {
                Gate::at_least(rule, measured, other / SLACK).because(why)
            } else {
                Gate::at_most(rule, measured, other * SLACK).because(why)
            });
        }
    };
    if probability < 0.6 && !kind.idle {
        match (kind.protocol, kind.remote) {
            ("unix", false) => {
                let tcp = Kind { protocol: "tcp", ..kind };
                compare(tcp, &BELOW_TCP, "TCP, as a Unix socket has no protocol below it");
            }
            ("icmp", false) if !kind.ipv6 => {
                let tcp = Kind { protocol: "tcp", placement: Some(OTHER_CPU), ..kind };
                compare(tcp, &BELOW_TCP, "TCP on two CPUs, as an ICMP echo wakes no process");
            }
            // On one CPU there is no wake-up: the way out of a machine is longer than that in any case.
            ("tcp" | "udp", true) => {
                let within = Kind { remote: false, placement: Some(SAME_CPU), ..kind };
                compare(within, &OUT_OF_MACHINE, "a path out of the machine is at least as long as a path within it");
            }
            _ => {}
        }
    }
    gates
}

/// The peer's residence taken away, and the network's share.
fn publish_parts(study: &Study<'_>, findings: &mut Findings, kind: Kind) {
    if kind.idle || kind.protocol == "icmp" {
        return;
    }
    let Some(gross) = quantile_of_shots(study, "exchange", &kind.labels(), 0.5) else { return };
    let labels = Labels::of([("protocol", kind.protocol)]).with("bytes", kind.bytes);
    let at_peer =
        Labels::of([("protocol", kind.protocol)]).with("bytes", if kind.protocol == "udp" { 0 } else { kind.bytes });
    let residences: Vec<f64> =
        study.series("peer.residence", &at_peer).iter().filter_map(|series| series.values.first().copied()).collect();
    if let Some(residence) = crate::statistics::summary::median(&residences) {
        let name = "median over launches of the launch's p50, less the median residence at the peer";
        let net = gross.less(residence, [residence; 2], name);
        let gates = [gates::net_resolved(&net, gross.value), net_below_gross(&net, &gross)];
        let figure = Figure::shots("network.round_trip.net", labels.clone(), &net, others(study));
        findings.publish(study, figure.of_gross(gross.value).gates(gates));
    }
    let here = Kind { remote: false, ipv6: kind.ipv6 && kind.bytes == 1, placement: Some(OTHER_CPU), ..kind };
    let labels_here = study.by_distance("exchange", &here.labels());
    let Some(loopback) = quantile_of_shots(study, "exchange", &labels_here[0], 0.5) else { return };
    let share = gross.less(loopback.value, loopback.interval, "remote p50 less loopback p50 on two CPUs");
    // A share against a loopback between two caches is another one than within a cache.
    let labels = labels_here[0].get(DISTANCE).map_or(labels.clone(), |distance| labels.with(DISTANCE, distance));
    let figure = Figure::shots("network.round_trip.network_share", labels, &share, others(study));
    findings.publish(study, figure.of_gross(gross.value).gates([gates::resolved(&share)]));
}

/// Median against message size, for each protocol, path and placement.
fn curves(findings: &Findings) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for metric in &findings.metrics {
        let labels = &metric.labels;
        let wanted = labels.get("quantile") == Some("p50") && labels.get("pacing") == Some("back_to_back");
        if metric.name != TIME || !wanted {
            continue;
        }
        let mut of = Labels::none();
        for (key, value) in labels.pairs().filter(|(key, _)| !["bytes", "quantile", "pacing"].contains(key)) {
            of = of.with(key, value);
        }
        let Some(bytes) = labels.get("bytes").and_then(|bytes| bytes.parse::<f64>().ok()) else { continue };
        let point = [bytes, metric.value, metric.interval95[0], metric.interval95[1]];
        match curves.iter_mut().find(|curve| curve.labels == of) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve {
                name: BY_BYTES.to_owned(),
                labels: of,
                words: BTreeMap::new(),
                x: Axis { label: "message".to_owned(), unit: Unit::Bytes },
                y: Axis { label: "round trip".to_owned(), unit: Unit::Nanoseconds },
                points: vec![point],
            }),
        }
    }
    curves.retain(|curve| curve.points.len() > 1);
    for curve in &mut curves {
        curve.points.sort_by(|one, other| one[0].total_cmp(&other[0]));
    }
    curves
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    findings.figure(BY_BYTES).divided_by = Some("placement".to_owned());
    let value = |findings: &Findings, kind: Kind| {
        let labels = kind.labels().with("quantile", "p50");
        findings.metric(TIME, &labels).cloned()
    };
    let same = value(findings, kind("tcp", 1, Some(SAME_CPU)));
    let other = value(findings, kind("tcp", 1, Some(OTHER_CPU)));
    if let (Some(same), Some(other)) = (&same, &other) {
        let (one, two) = (same.shown(), other.shown());
        findings.say(format!(
            "The loopback result depends on the placement. A byte through TCP and back takes {} on one CPU and {} on \
             two CPUs{}. One CPU switches twice. Two CPUs wake each other, from idle or while they still poll. Tools that \
             report half of a round trip as latency (sockperf, qperf) would show {} and {} for the same exchanges. \
             Tools that let the kernel place both sides show either value, depending on the run. Tools that poll the \
             socket avoid the wake-ups and show lower values than both.",
            one,
            two,
            Ratio::of(other, same, 1.0).map_or_else(String::new, |ratio| format!(", ×{}", ratio.text())),
            one.alike(one.value / 2.0),
            two.alike(two.value / 2.0),
        ));
    }
    let icmp = value(findings, kind("icmp", 1, None));
    let idle_icmp = value(findings, Kind { idle: true, ..kind("icmp", 1, None) });
    let idle_tcp = value(findings, Kind { idle: true, ..kind("tcp", 1, Some(OTHER_CPU)) });
    if let (Some(icmp), Some(idle)) = (icmp, idle_icmp) {
        let tcp = match (other, idle_tcp) {
            (Some(tcp), Some(idle)) => {
                format!(". TCP takes {} and {}{}", tcp.shown(), idle.shown(), in_brackets(&idle, &tcp))
            }
            _ => String::new(),
        };
        findings.say(format!(
            "The result depends on the pacing. ICMP echo takes {} back to back and {}{} after pauses of \
             {} ms{tcp}. Compare a ping that pauses between its requests with exchanges that pause as long.",
            icmp.shown(),
            idle.shown(),
            in_brackets(&idle, &icmp),
            GAP.as_millis(),
        ));
    }
    if let Some(peer) = study.setup.peer.as_ref() {
        explain_path(study, findings, peer);
    }
    let lost: (f64, f64) = kinds(study.setup)
        .into_iter()
        .map(|kind| losses(study, kind))
        .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    if lost.1 > 0.0 {
        findings.say(match lost {
            (none, all) if none < 1.0 => format!("All {all} exchanges were answered."),
            (some, all) => format!("{some} of {all} exchanges were lost."),
        });
    }
}

/// The operating systems' share against the network's, protocol by protocol.
fn explain_path(study: &Study<'_>, findings: &mut Findings, peer: &Peer) {
    findings.say(path_sentence(study, peer));
    let p50 = |kind: Kind| {
        let labels = kind.labels().with("quantile", "p50");
        findings.metric(TIME, &labels).map(|metric| metric.value)
    };
    let pair = |protocol| p50(Kind { ipv6: peer.is_ipv6(), remote: true, ..kind(protocol, 1, None) });
    let alike = pair("icmp").zip(pair("tcp"));
    let both = |protocol: &'static str| {
        let placement = (protocol != "icmp").then_some(OTHER_CPU);
        let own = p50(Kind { ipv6: peer.is_ipv6(), ..kind(protocol, 1, placement) })?;
        pair(protocol).map(|all| (protocol, all, own))
    };
    let table = pivot(
        "Round trip of a byte (p50) and its parts: operating systems (the loopback on two CPUs) and network",
        ["tcp", "udp", "icmp"].into_iter().filter_map(both),
        &[
            ("protocol", &|(protocol, ..)| Some((*protocol).to_owned())),
            ("remote", &|(_, all, _)| Some(quantity(*all, Unit::Nanoseconds))),
            ("operating systems", &|(.., own)| Some(quantity(*own, Unit::Nanoseconds))),
            ("network", &|(_, all, own)| {
                Some(if all > own { quantity(all - own, Unit::Nanoseconds) } else { "not resolvable".to_owned() })
            }),
            ("network's share", &|(_, all, own)| (all > own).then(|| percent((all - own) / all))),
        ],
    );
    findings.analysis.extend(table);
    if let Some((icmp, tcp)) = alike {
        let apart = (icmp / tcp - 1.0).abs();
        findings.say(format!(
            "At the same pacing, ICMP echo takes {} of TCP's time{}.",
            percent(icmp / tcp),
            if apart <= ALIKE {
                ""
            } else {
                ", more than a fifth apart. Either TCP wakes the peer's process and ICMP \
                                             does not, or the path treats them differently"
            }
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_stand_above_their_median() {
        let median = Prediction::of("network.round_trip.time", Labels::none(), Unit::Nanoseconds).software(
            "all",
            (100.0, 50.0, 200.0),
            Basis::guess("for the test"),
        );
        assert_eq!(predict_tail(0.5, median.clone()), median);
        let tail = predict_tail(0.99, median);
        assert!(tail.value > 100.0 && tail.low <= 50.0 + 1e-9 && tail.high > 200.0);
    }
}
