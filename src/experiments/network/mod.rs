//! The network chapter: round trips, flows and connections, on the loopback and to a peer.
//!
//! What the experiments share: the other side, placements, quantiles of single shots, and the terms of predictions.

pub mod bandwidth;
pub mod connection;
mod connections;
pub mod datagrams;
pub mod exchanges;
pub mod round_trip;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::evaluate::sample::Sample;
use crate::experiments::constants::{
    CONTEXT_SWITCH, KERNEL_ROUND_TRIP, LINK_CROSSING, PATH_BEYOND_LINK, RADIO_CROSSING,
};
use crate::experiments::os::system_call::paid;
use crate::experiments::prelude::*;
use crate::machine::InterfaceKind;
use crate::peer::authentication::Secret;
use crate::peer::client::Partner;
use crate::results::document::Quantiles;
use crate::results::peer::Peer;
use crate::setup::PeerAccess;
use crate::statistics::location::launch_estimates;
use crate::statistics::summary;
use crate::sys::counters;
use crate::sys::tcp_counters::{TcpCounters, tcp_counters};

/// The other side runs on the CPU of the launch.
const SAME_CPU: &str = "same_cpu";
/// The other side runs on another CPU.
const OTHER_CPU: &str = "other_cpu";

/// A loopback that takes longer than this to connect is down.
const SOON: Duration = Duration::from_millis(500);

/// The loopback answers: it does not where the interface is down, as in a fresh network namespace.
const LOOPBACK: Need = Need {
    id: "loopback",
    what: "the loopback interface",
    check: |setup| {
        if setup.remote_only {
            return Ok(());
        }
        // An interface that is down may still have its address, so that only a connection shows it.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let reached = listener.and_then(|listener| TcpStream::connect_timeout(&listener.local_addr()?, SOON));
        reached.map(drop).map_err(|error| {
            Problem::new(format!("the loopback interface does not answer: {error}"))
                .hint("bring it up as root: ip link set lo up. To measure only the path to a peer, add --path remote")
        })
    },
    caveats: |setup| {
        let loopback = setup.machine.network.iter().find(|found| found.kind == InterfaceKind::Loopback);
        let own = setup.peer.as_ref().and_then(|peer| interface(&setup.machine, peer));
        let paths = [loopback.filter(|_| !setup.remote_only), own];
        let shapers = paths.into_iter().flatten().filter_map(|found| Some(found.shaper.as_ref()?.text(&found.name)));
        shapers.map(|shaper| format!("A shaper holds packets of this machine back ({shaper}).")).collect()
    },
};

/// Seconds of a launch: its part with the peer, and its part on the loopback.
fn seconds(setup: &Setup, remote: f64, loopback: f64) -> f64 {
    (if setup.has_peer { remote } else { 0.0 }) + (if setup.remote_only { 0.0 } else { loopback })
}

/// The loopback's part of a launch. If it fails, the path to a peer still gets its results.
fn on_loopback(
    rig: &mut Rig<'_>,
    metric: &str,
    measure: impl FnOnce(&mut Rig<'_>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    if rig.setup().remote_only {
        return Ok(());
    }
    match measure(rig) {
        Err(problem) if rig.setup().access.is_some() => {
            rig.unavailable_for(metric, &Labels::of([("path", "loopback")]), &problem);
            Ok(())
        }
        measured => measured,
    }
}

/// Bytes of headers around the payload of one packet on an Ethernet: frame with gap, IP, TCP with time stamps.
const HEADERS: f64 = 66.0 + 24.0;

/// A CPU for the other side: an allowed one, and not a sibling of the launch's own where there is another.
fn other_cpu(setup: &Setup) -> Option<u32> {
    if setup.partner.is_some() {
        return setup.partner;
    }
    let own = setup.cpu;
    // The nearest number is the likeliest to share a cache.
    let others = setup.allowed.iter().copied().filter(|&cpu| cpu != own);
    others.min_by_key(|&cpu| (setup.machine.share_core(own, cpu), cpu.abs_diff(own)))
}

/// Notes which CPU the other side has, or why the figures of a metric with two CPUs are missing.
fn remark_placement(rig: &mut Rig<'_>, metric: &str, other: Option<u32>) {
    match other {
        Some(cpu) => rig.remark("other_cpu", &cpu),
        None => rig.unavailable(metric, &Labels::of([("placement", OTHER_CPU)]), &"only one CPU is allowed"),
    }
}

/// A session with the peer of the run, if it has one.
pub(super) fn partner_elsewhere(access: Option<&PeerAccess>) -> Result<Option<Partner>, Problem> {
    access.map(|access| Partner::elsewhere(access.address, &Secret::of(&access.secret)?)).transpose()
}

/// Watches how long this process waits for its CPU while nothing else of this tool may run there.
struct Watch {
    began: i64,
    delay: Option<f64>,
}

impl Watch {
    fn start() -> Self {
        Watch { began: crate::sys::clock::monotonic_raw(), delay: counters::run_delay() }
    }

    /// Records the share of the time that others had the CPU.
    fn record(self, rig: &mut Rig<'_>) -> Result<(), Problem> {
        let span = (crate::sys::clock::monotonic_raw() - self.began) as f64;
        let Some(delay) = counters::run_delay().zip(self.delay).map(|(now, before)| now - before) else {
            return Ok(());
        };
        rig.record("others", Labels::none(), Unit::One, vec![delay / span.max(1.0)])
    }
}

/// The share of the time that others had the CPU: the median over launches, so that a single bad launch does not decide.
fn others(study: &Study<'_>) -> Option<f64> {
    let stolen: f64 = study.evidence().filter_map(|found| found.steal).sum();
    let wall: f64 = study.evidence().map(|found| found.wall).sum::<f64>().max(1.0);
    summary::median(&study.values("others", &Labels::none())).map(|share| share + stolen / wall)
}

constants! {
    /// Waking a task that sleeps on another CPU: an interrupt between processors, and the way out of its idle state.
    FOREIGN_WAKE_UP = 5_000.0 in 1_000.0 ..= 40_000.0 "ns",
        "1–3 µs on bare metal, 5–50 µs in guests, where a halted CPU has exited to the hypervisor";
    /// Telling a sleeping process that something has come, without waiting for it.
    WAKING = 5_000.0 in 500.0 ..= 25_000.0 "ns",
        "Linux kernel/sched/core.c, try_to_wake_up. In a guest, the interrupt to another CPU is an exit";
}

rules! {
    NET_BELOW_GROSS: "G5" Hard "`network.round_trip.net`, `network.connection.net`",
        "the net time (without the other side's residence) is at most the gross time";
}

/// G5: what the other side kept is taken away, so a net figure above its gross one has a residence below zero.
fn net_below_gross(net: &Estimate, gross: &Estimate) -> Gate {
    let reason = "gross time, as the other side's residence is not negative";
    Gate::at_most(&NET_BELOW_GROSS, net.named("net {}"), gross.value).because(reason)
}

/// A quantile of single shots: found in each launch, the median over launches. Of shots without a neighbour on the core, where looks
/// tell. None where there are too few shots to have it.
pub(super) fn quantile_of_shots(
    study: &Study<'_>,
    series: &str,
    labels: &Labels,
    probability: f64,
) -> Option<Estimate> {
    quantile_of_sample(&study.shots(series, labels)?, probability)
}

fn quantile_of_sample(sample: &Sample, probability: f64) -> Option<Estimate> {
    let estimate = quantile_over_launches(sample, probability)?;
    Some(estimate.picked_from(sample, |sample| quantile_over_launches(sample, probability)))
}

fn quantile_over_launches(sample: &Sample, probability: f64) -> Option<Estimate> {
    let needed = (2.0 / (1.0 - probability)) as usize;
    let all: Vec<f64> = sample.launches.iter().flatten().copied().collect();
    // Where single launches have too few shots, all of them together are one sample.
    let estimates = if sample.launches.iter().any(|launch| launch.len() < needed) {
        let groups = (all.len() / needed.max(1)).min(sample.launches.len());
        if groups == 0 {
            return None;
        }
        let groups: Vec<Vec<f64>> = all.chunks(all.len().div_ceil(groups)).map(<[f64]>::to_vec).collect();
        launch_estimates(&groups, probability)
    } else {
        launch_estimates(&sample.launches, probability)
    };
    let name = format!("median over launches of the launch's {}", quantile_label(probability));
    let mut estimate = Estimate::over_launches(&estimates, Unit::Nanoseconds, &name)?;
    estimate.quantiles = summary::quantiles(&all).map(|found| Quantiles {
        p10: found.p10,
        p50: found.p50,
        p90: found.p90,
        p99: found.p99,
    });
    estimate.account = sample.account;
    Some(estimate)
}

/// `p50` for 0.5.
pub(super) fn quantile_label(probability: f64) -> String {
    format!("p{:.0}", probability * 100.0)
}

/// Terms of predictions, in nanoseconds.
struct Terms {
    entry: ((f64, f64, f64), Basis),
    hop: ((f64, f64, f64), Basis),
    foreign_hop: ((f64, f64, f64), Basis),
}

impl Terms {
    /// From figures of this run where there are some, else from the constants table.
    fn known(by: &PredictionInput<'_>) -> Self {
        let cycle = CycleTime::known(by);
        let ranged = |found: &Metric| {
            let least = if found.has_level() { 0.8 } else { EARLY };
            let range = (found.value, found.value * least, found.value * 1.5);
            (range, Basis::metric(&format!("{} {}", found.name, found.labels)))
        };
        let measured = |name: &str, wanted: &dyn Fn(&Labels) -> bool| {
            by.known.iter().find(|metric| metric.name == name && wanted(&metric.labels)).map(ranged)
        };
        let entry = paid(by.known, "enosys")
            .map_or_else(|| (cycle.of(KERNEL_ROUND_TRIP.times(1.0)), KERNEL_ROUND_TRIP.basis()), ranged);
        let through =
            |labels: &Labels| labels.get("between") == Some("processes") && labels.get("through") == Some("pipe");
        let near = |labels: &Labels| through(labels) && labels.get("placement") == Some(SAME_CPU);
        let far = |labels: &Labels| through(labels) && labels.get("placement").is_some_and(|found| found != SAME_CPU);
        let hop = measured("os.context_switch.time", &near)
            .unwrap_or_else(|| (CONTEXT_SWITCH.times(1.0), CONTEXT_SWITCH.basis()));
        let foreign_hop = measured("os.context_switch.time", &far)
            .unwrap_or_else(|| (FOREIGN_WAKE_UP.times(1.0), FOREIGN_WAKE_UP.basis()));
        Terms { entry, hop, foreign_hop }
    }

    fn enters(&self, prediction: Prediction, count: f64) -> Prediction {
        prediction.software("system calls", times(self.entry.0, count), self.entry.1.clone())
    }

    /// Handing over to the other side and back: two handoffs.
    fn switches(&self, prediction: Prediction, placement: &str) -> Prediction {
        if placement == SAME_CPU {
            prediction.software("handoff of the CPU and back", times(self.hop.0, 2.0), self.hop.1.clone())
        } else {
            let (range, basis) = &self.foreign_hop;
            prediction.software("wake-up of a task on another CPU, both ways", times(*range, 2.0), basis.clone())
        }
    }
}

fn times(range: (f64, f64, f64), count: f64) -> (f64, f64, f64) {
    (range.0 * count, range.1 * count, range.2 * count)
}

/// The time over a whole run, over that of few launches, at least. On one host, a wake-up of 77 µs in the first launch was 31 µs over
/// the run.
const EARLY: f64 = 0.4;

/// The interface of this machine on the way to the peer.
fn interface<'a>(machine: &'a Machine, peer: &Peer) -> Option<&'a crate::machine::Interface> {
    let name = peer.interface.as_ref()?;
    machine.network.iter().find(|found| found.name == *name)
}

/// What the way to the peer and back costs in addition to software: links, radios, distance, for `bytes` bytes each way.
fn path_terms(by: &PredictionInput<'_>, peer: &Peer, bytes: f64, prediction: Prediction) -> Prediction {
    let interface = interface(&by.setup.machine, peer);
    let radio = interface.is_some_and(|found| found.kind == InterfaceKind::Wireless);
    let crossing = if radio { RADIO_CROSSING } else { LINK_CROSSING };
    let prediction =
        prediction.hardware("interfaces and their interrupts, both ways", crossing.times(2.0), crossing.basis());
    let rate = interface.and_then(|found| found.bits_per_second);
    let prediction = match rate {
        Some(rate) => {
            let wire = 2.0 * (bytes + HEADERS) * 8.0 / rate as f64 * 1e9;
            prediction.hardware(
                "bits on the wire, both ways",
                (wire, wire, wire),
                Basis::machine("link rate in /sys/class/net"),
            )
        }
        None => prediction,
    };
    if peer.on_link {
        prediction
    } else {
        prediction.hardware("distance and routers", PATH_BEYOND_LINK.times(1.0), PATH_BEYOND_LINK.basis())
    }
}

/// A sentence on the path that was measured.
fn path_sentence(study: &Study<'_>, peer: &Peer) -> String {
    let on = peer.interface.as_ref().map_or_else(String::new, |name| {
        let facts = interface(&study.setup.machine, peer).map_or_else(String::new, |found| {
            let rate = found
                .bits_per_second
                .map_or_else(|| "no stated link rate".to_owned(), |rate| format!("{} Mbit/s", rate / 1_000_000));
            let mtu = found.mtu_bytes.map_or_else(String::new, |mtu| format!(", MTU {mtu}"));
            format!(" ({rate}{mtu})")
        });
        format!(" through {name}{facts}")
    });
    format!(
        "The remote path leads from {}{on} to {} port {}{}. The peer was started {} and runs version {} on {}.{}",
        peer.local_address,
        peer.address,
        peer.port,
        if peer.on_link { ", on the same link" } else { ", over at least one router" },
        if peer.started == "ssh" { "through ssh" } else { &peer.started },
        peer.version,
        peer.machine.summary_line(),
        if peer.is_here() {
            " This is an address of this machine, so the path contains no network. Every result labelled remote is \
             the loopback to another process."
        } else {
            ""
        }
    )
}

/// The median round trip of a byte over the path, in an earlier section of this run.
fn remote_metric<'a>(known: &'a [Metric], peer: &Peer, protocol: &str) -> Option<&'a Metric> {
    let wanted = Labels::of([
        ("protocol", protocol),
        ("path", "remote"),
        ("pacing", "back_to_back"),
        ("bytes", "1"),
        ("quantile", "p50"),
        ("ip", if peer.is_ipv6() { "6" } else { "4" }),
    ]);
    known.iter().find(|metric| metric.name == "network.round_trip.time" && metric.labels == wanted)
}

/// Median round trip of a byte through TCP on the remote path in nanoseconds, and the name of the figure.
pub(super) fn round_trip(known: &[Metric], peer: &Peer) -> Option<(f64, String)> {
    remote_metric(known, peer, "tcp").map(|found| (found.value, format!("{} {}", found.name, found.labels)))
}

/// Bytes per second that a single stream carries from the peer, and the name of the figure.
pub(super) fn remote_rate(known: &[Metric]) -> Option<(f64, String)> {
    let wanted = Labels::of([("direction", "receive"), ("path", "remote"), ("streams", "1")]);
    let found =
        known.iter().find(|metric| metric.name == "network.bandwidth.rate" && metric.labels.includes(&wanted))?;
    Some((found.value, format!("{} {}", found.name, found.labels)))
}

/// The shortest round trips on the path, by ICMP or TCP: the fastest tenth.
pub(super) fn shortest_round_trip(known: &[Metric], peer: &Peer) -> Option<f64> {
    let fast = |protocol: &str| Some(remote_metric(known, peer, protocol)?.quantiles?.p10);
    [fast("icmp"), fast("tcp")].into_iter().flatten().reduce(f64::min)
}

/// What TCP counted in this namespace during the launch.
fn record_counters(rig: &mut Rig<'_>, before: Option<TcpCounters>) -> Result<(), Problem> {
    if let (Some(before), Some(after)) = (before, tcp_counters()) {
        for (name, value) in after.since(&before).pairs() {
            rig.record("counter", Labels::of([("name", name)]), Unit::One, vec![value as f64])?;
        }
    }
    Ok(())
}

/// What reaches the other side on loopback inside a call wakes its process there.
fn wakes(prediction: Prediction, times: f64) -> Prediction {
    if times > 0.0 {
        prediction.software("wake-up of the other side's process", WAKING.times(times), WAKING.basis())
    } else {
        prediction
    }
}

/// Handshakes without a process behind them are not connections (G28).
fn nobody_accepts(to: SocketAddr, attempts: u32, before: Option<TcpCounters>) -> Problem {
    let counted = match (before, tcp_counters()) {
        (Some(before), Some(after)) => {
            let words: Vec<String> = after
                .since(&before)
                .pairs()
                .iter()
                .filter(|(_, value)| *value > 0)
                .map(|(name, value)| format!("{name} +{value}"))
                .collect();
            if words.is_empty() { "no local counter increased".to_owned() } else { words.join(", ") }
        }
        _ => "the kernel's counters are not readable".to_owned(),
    };
    Problem::new(format!("G28: no process accepted {attempts} consecutive connections to {to} ({counted})"))
        .hint("the listener completes handshakes, but its process does not accept them. It hangs or is overloaded")
}

/// Sum of a counter over launches, on this side or the peer's.
fn counted(study: &Study<'_>, series: &str, name: &str) -> f64 {
    study.values(series, &Labels::of([("name", name)])).iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::gates;
    use crate::evaluate::sample::{Account, Kept, Picked};
    use crate::neighbour::Counts;

    /// Six launches of shots that take 10 alone and 14 with a neighbour.
    fn sample(alone: usize, shared: usize) -> Sample {
        let launches = |value: f64, count: usize| vec![vec![value; count]; 6];
        let shots = [vec![10.0; alone], vec![14.0; shared]].concat();
        let used = if alone > 0 { launches(10.0, alone) } else { launches(14.0, shared) };
        let sharing = Counts { alone: 6 * alone as u64, shared: 6 * shared as u64, ..Counts::default() };
        Sample {
            unit: Unit::Nanoseconds,
            launches: used,
            numbers: (1..=6).collect(),
            account: Account { sharing: Some(sharing), ..Account::default() },
            picked: Some(Picked {
                within: 0.5,
                kept: if alone > 0 { Kept::Alone } else { Kept::Shared },
                whole: vec![shots; 6],
                shared: (1..=6).zip(launches(14.0, shared)).collect(),
            }),
        }
    }

    #[test]
    fn a_median_is_of_shots_without_a_neighbour_with_the_others_beside_it() {
        let found = quantile_of_sample(&sample(20, 60), 0.5).expect("shots enough");
        let [value, typical, shared] = [Some(found.value), found.typical, found.shared.map(|shared| shared.value)];
        assert_eq!([value, typical, shared].map(|value| value.map(f64::round)), [10.0, 14.0, 14.0].map(Some));
        assert!(found.estimator.ends_with("without a neighbour"), "{}", found.estimator);
    }

    #[test]
    fn without_a_shot_alone_it_is_of_those_beside_a_neighbour_and_contaminated() {
        let found = quantile_of_sample(&sample(0, 60), 0.5).expect("shots enough");
        assert!((found.value - 14.0).abs() < 1e-9 && found.account.sharing.is_some_and(|sharing| sharing.alone == 0));
        assert_eq!(gates::alone(&found).map(|gate| gate.pass), Some(false));
    }

    #[test]
    fn launches_with_few_shots_are_one_sample() {
        assert!(quantile_of_sample(&sample(5, 0), 0.9).is_some());
        assert_eq!(quantile_of_sample(&sample(5, 0), 0.99), None, "30 shots have no p99");
    }
}
