//! # Question
//!
//! How many bytes of payload arrive in a second, in each direction, over one connection and over several, by the size of
//! the writes; and what is it that holds them back?
//!
//! # Method
//!
//! A sender writes messages of one size as fast as they are taken; a receiver reads up to 128 KiB at a time. Bytes are
//! counted **at the receiver**: its clock is read at the end of each window, and the figure is the bytes that arrived from
//! the first window of the steady part to the last, divided by the time between them. What a sender has written is no
//! figure: it fills buffers first. Totals of both sides are compared at the end, when everything has arrived.
//!
//! - **loopback**: 160 ms for each case, the first half left out, because the receive buffer and the congestion control
//!   find their size and their rate in that time; windows of 5 ms. The other side is a process on another CPU, or on the
//!   same (placement).
//! - **remote**: 2.5 s for each case, the first second or twenty round trips left out, because a connection has to find its
//!   rate; windows of 100 ms.
//! - **direction**: send (this machine sends), receive, or both at once, where the rate is the sum of both.
//! - **streams**: connections at once in each direction, each with a thread of its own on both sides. **bytes**: size of a
//!   write.
//!
//! A quick run leaves out writes of 16 KiB and two and four streams on the loopback, and several streams to a peer.
//!
//! Receive buffers tune themselves, as for any program that does not set them. Every sender reports from TCP_INFO how long
//! it had data to send and how much of that time the receiver's window or the send buffer stopped it; both sides report
//! their CPU time. That names the limit: a CPU that was busy nine tenths of the time; else the receiver's window or the
//! send buffer, if it stopped the sender more than half of the time, or if what was on its way filled three quarters of
//! the window; else the path and its congestion control.
//!
//! # Prediction
//!
//! Loopback: each 64 KiB is copied in and copied out, and needs a buffer; small writes add their system calls. With the
//! sides on two CPUs both copies go on at once, on one they take turns. Remote: the least of the link's rate less its
//! headers, the largest receive buffer over the round trip, and what the loopback moves.
//!
//! # What could fool us
//!
//! - The first second: slow start, and credit that clouds and shapers give at the beginning. On the loopback it is the
//!   first twentieth of a second, in which the rate has not been found either.
//! - The congestion control works on the loopback too. One that paces (BBR) may carry less than half of what one that only
//!   fills a window (CUBIC) carries, and then small things decide, as how a receiver reads: compare machines with the same.
//! - A loopback figure is a copy benchmark with system calls. It says what the machine could feed a network with, no more.
//! - One thread for both sides, or both on one CPU, halves it.
//! - A fixed receive buffer turns off tuning: window over round trip is then the figure, whatever the link can do.
//! - On a virtual machine the link's stated rate is a claim, or missing.
//!
//! # References
//!
//! RFC 9293 (TCP), RFC 7323 (windows, time stamps), RFC 6349 (throughput testing); tcp(7), `struct tcp_info` in
//! linux/tcp.h.

mod outcomes;

use std::time::Duration;

use super::{
    LOOPBACK, OTHER_CPU, SAME_CPU, Terms, interface, other_cpu, partner_elsewhere, path_sentence, remark_placement,
    round_trip,
};
use crate::evaluate::estimate::Estimate;
use crate::evaluate::figure::Figure;
use crate::evaluate::findings::Findings;
use crate::evaluate::gate::rules;
use crate::evaluate::gates;
use crate::evaluate::study::Study;
use crate::experiments::constants::{COPY_BYTE, constants};
use crate::experiments::{Experiment, Foreknowledge, Nature, Publication};
use crate::peer::client::Partner;
use crate::peer::plausible;
use crate::peer::protocol::{Direction, FlowOrder, Flowed, Sender};
use crate::results::peer::Peer;
use crate::results::prediction::{Basis, Prediction};
use crate::results::quantity::{Labels, Unit};
use crate::results::trouble::Trouble;
use crate::results::verdict::Gate;
use crate::results::wording::{percent, quantity};
use crate::rig::Rig;
use crate::statistics::change::{Steadiness, steady_state};
use crate::statistics::summary::median;
use crate::sys::tcp_counters::{congestion_control, largest_receive_buffer};
use outcomes::{Outcome, keep};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "network.bandwidth",
    title: "Peak bandwidth",
    measures: "payload per second at the receiver: directions, streams, sizes of writes",
    method_version: 1,
    source: include_str!("bandwidth.rs"),
    needs: &[LOOPBACK],
    uses: &["os.system_call.time", "network.round_trip.time"],
    rules: RULES,
    constants: CONSTANTS,
    publishes: &[Publication {
        metric: "network.bandwidth.rate",
        unit: Unit::BytesPerSecond,
        meaning: "payload that arrives",
        nature: Nature::State,
        headline: common_case,
    }],
    every: |_| 4,
    seconds: |setup| if setup.has_peer { 15.6 } else { 2.1 },
    time_out: 120.0,
    memory: crate::experiments::little_memory,
    predict,
    measure,
    figures,
    explain,
};

const RATE: &str = "network.bandwidth.rate";
/// Size of a write where it is not the parameter: what tools of this kind write by default.
const WRITE: u32 = 128 << 10;
/// Sizes of writes.
const WRITES: [u32; 4] = [1 << 10, 16 << 10, WRITE, 1 << 20];
/// Duration of a loopback case and of its windows in milliseconds.
const LOOPBACK_MILLISECONDS: u32 = 160;
const LOOPBACK_WINDOW: u32 = 5;
/// Duration of a remote case and of its windows in milliseconds.
const REMOTE_MILLISECONDS: u32 = 2_500;
const REMOTE_WINDOW: u32 = 100;
/// Nanoseconds that are left out at the beginning of a remote case, and round trips.
const LEFT_OUT: f64 = 1e9;
const LEFT_OUT_ROUND_TRIPS: f64 = 20.0;
/// Share of a loopback case that is left out at its beginning.
const LEFT_OUT_SHARE: f64 = 0.5;
/// A CPU that is busy for this share of the time is the limit.
const BUSY: f64 = 0.9;
/// What stopped the sender for more than this share of the time is the limit.
const STOPPED: f64 = 0.5;
/// Share of the receiver's window that is on its way when the window is the limit.
const FILLED: f64 = 0.75;
/// Bytes that may be missing at the receiver of a stream when a flow was cut off: the largest buffers of both sides.
const BUFFERS: f64 = 64.0 * 1024.0 * 1024.0;
/// Bytes of a full frame beside its payload: IP, TCP with time stamps, within the MTU; and around it on an Ethernet.
const WITHIN: f64 = 52.0;
const AROUND: f64 = 38.0;
/// How far payload may be above what the link carries: the grain of clocks.
const ABOVE_LINK: f64 = 1.01;
/// Eight streams carry so many times what one carries, at least.
const EIGHT_OVER_ONE: f64 = 0.9;

constants! {
    /// Making, queueing and freeing one buffer of up to 64 KiB.
    BUFFER = 3_000.0 in 800.0 ..= 10_000.0 "ns", "Linux net/core/skbuff.c: 16 pages and a head for each";
    /// Adding a small write to the last buffer of a socket.
    APPEND = 250.0 in 60.0 ..= 2_500.0 "ns", "Linux net/ipv4/tcp.c, tcp_sendmsg_locked: lock, checks, release; a segment of its own where nothing waits";
}

rules! {
    ARRIVED: "G29" Hard "`network.bandwidth.rate`", "what was sent and did not arrive fits into the buffers, {} a stream", bytes(BUFFERS);
    LINK: "G29" Hard "`network.bandwidth.rate`", "the payload is at most {} times what the link carries", plain(ABOVE_LINK);
    STREAMS: "G40" Remark "`network.bandwidth.rate`", "eight streams carry at least {} times what one carries", plain(EIGHT_OVER_ONE);
}

/// One flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Case {
    direction: Direction,
    streams: u8,
    bytes: u32,
    ipv6: bool,
    /// None on a remote path.
    placement: Option<&'static str>,
}

impl Case {
    fn labels(self) -> Labels {
        let path = if self.placement.is_some() { "loopback" } else { "remote" };
        let labels = Labels::of([("direction", self.direction.label()), ("path", path)])
            .with("streams", self.streams)
            .with("bytes", self.bytes)
            .with("ip", if self.ipv6 { 6 } else { 4 });
        self.placement.map_or(labels.clone(), |placement| labels.with("placement", placement))
    }

    fn order(self) -> FlowOrder {
        let (milliseconds, window) = match self.placement {
            Some(_) => (LOOPBACK_MILLISECONDS, LOOPBACK_WINDOW),
            None => (REMOTE_MILLISECONDS, REMOTE_WINDOW),
        };
        FlowOrder {
            ipv6: self.ipv6,
            direction: self.direction,
            streams: self.streams,
            message: self.bytes,
            milliseconds,
            window,
        }
    }
}

/// Whether a launch in a hurry leaves a case out: on the loopback what others stand for, and many streams to a peer.
fn can_wait(case: Case) -> bool {
    match case.placement {
        Some(_) => case.bytes == 16 << 10 || [2, 4].contains(&case.streams),
        None => case.streams > 1,
    }
}

const PLAIN: Case =
    Case { direction: Direction::Send, streams: 1, bytes: WRITE, ipv6: false, placement: Some(OTHER_CPU) };

fn loopback_cases() -> Vec<Case> {
    let mut cases: Vec<Case> = WRITES.into_iter().map(|bytes| Case { bytes, ..PLAIN }).collect();
    cases.extend([Direction::Receive, Direction::Both].map(|direction| Case { direction, ..PLAIN }));
    cases.extend([2, 4, 8].map(|streams| Case { streams, ..PLAIN }));
    cases.push(Case { placement: Some(SAME_CPU), ..PLAIN });
    cases.push(Case { ipv6: true, ..PLAIN });
    cases
}

fn remote_cases(ipv6: bool) -> Vec<Case> {
    let plain = Case { ipv6, placement: None, ..PLAIN };
    let mut cases: Vec<Case> =
        [Direction::Send, Direction::Receive, Direction::Both].map(|direction| Case { direction, ..plain }).to_vec();
    cases.extend([4, 8].map(|streams| Case { streams, ..plain }));
    cases
}

fn cases(peer: Option<&Peer>) -> Vec<Case> {
    let mut cases = loopback_cases();
    cases.extend(peer.map(|peer| remote_cases(peer.is_ipv6())).unwrap_or_default());
    cases
}

/// The summary shows writes of the common size over IPv4, and everything remote.
fn common_case(labels: &Labels) -> bool {
    let loopback = labels.get("path") == Some("loopback");
    labels.get("bytes") == Some("131072") && (!loopback || labels.get("ip") == Some("4"))
}

fn predict(by: &Foreknowledge<'_>) -> Vec<Prediction> {
    let terms = Terms::known(by);
    cases(by.setup.peer.as_ref()).into_iter().map(|case| predict_case(by, &terms, case)).collect()
}

/// What one CPU or two move: nanoseconds for 64 KiB as `(value, low, high)`.
fn loopback_time(terms: &Terms, bytes: u32, placement: &str) -> (f64, f64, f64) {
    const UNIT: f64 = 65_536.0;
    // Small writes are put together in the socket, each for the price of its call and of its way to the last buffer.
    let calls = (UNIT / f64::from(bytes)).max(0.5);
    let (copy, buffer, entry, append) = (COPY_BYTE.times(UNIT), BUFFER.times(1.0), terms.entry.0, APPEND.times(1.0));
    let one = |copy: f64, buffer: f64, entry: f64, append: f64| copy + buffer + calls * (entry + append);
    let sides = if placement == SAME_CPU { 2.0 } else { 1.0 };
    let time = (
        one(copy.0, buffer.0, entry.0, append.0) * sides,
        one(copy.1, buffer.1, entry.1, append.1) * sides,
        one(copy.2, buffer.2, entry.2, append.2) * sides,
    );
    (time.0 / UNIT, time.1 / UNIT, time.2 / UNIT)
}

fn predict_case(by: &Foreknowledge<'_>, terms: &Terms, case: Case) -> Prediction {
    let prediction = Prediction::of(RATE, case.labels(), Unit::BytesPerSecond);
    let (value, low, high) = loopback_time(terms, case.bytes, case.placement.unwrap_or(OTHER_CPU));
    let local = (1e9 / value, 1e9 / high, 1e9 / low);
    let Some(peer) = by.setup.peer.as_ref().filter(|_| case.placement.is_none()) else {
        // Both directions of two CPUs, or many streams, share the same two CPUs.
        return prediction.software("copies, buffers and calls of the busier side", local, COPY_BYTE.basis());
    };
    let both = if case.direction == Direction::Both { 2.0 } else { 1.0 };
    let mut bound = (local, "what the two machines' software moves", COPY_BYTE.basis());
    let facts = interface(&by.setup.machine, peer);
    if let Some(rate) = facts.and_then(|found| found.bits_per_second) {
        let link = framed(rate as f64 / 8.0, facts.and_then(|found| found.mtu_bytes)) * both;
        if link < bound.0.0 {
            let basis = Basis::machine("link rate and MTU in /sys/class/net");
            bound = ((link, link * 0.6, link * 1.005), "the link less its headers", basis);
        }
    }
    if let (Some(window), Some((round_trip, _))) = (largest_receive_buffer(), round_trip(by.known, peer)) {
        // Half of the buffer is kept for the kernel's own structures.
        let limit = window as f64 / 2.0 / (round_trip / 1e9) * f64::from(case.streams) * both;
        if limit < bound.0.0 {
            let basis = Basis::machine("/proc/sys/net/ipv4/tcp_rmem and network.round_trip.time");
            bound = ((limit, limit * 0.1, limit * 2.0), "the receive buffer over the round trip", basis);
        }
    }
    let ((value, low, high), what, basis) = bound;
    // A path that states no rate may be narrower than anything known here.
    let low = if facts.and_then(|found| found.bits_per_second).is_some() { low } else { low.min(1e5) };
    prediction.hardware(what, (value, low, high), basis)
}

/// Payload of an Ethernet that moves so many bytes per second.
fn framed(bytes_per_second: f64, mtu: Option<u32>) -> f64 {
    let mtu = f64::from(mtu.unwrap_or(1500));
    bytes_per_second * (mtu - WITHIN) / (mtu + AROUND)
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Trouble> {
    let access = rig.setup().access.as_ref();
    let other = other_cpu(rig.setup());
    remark_placement(rig, RATE, other);
    if let Some(name) = congestion_control() {
        rig.remark("congestion_control", &name);
    }
    rig.has_partners();
    // A quick run leaves some cases out.
    let all = !rig.setup().profile.is_quick();
    let mut order = loopback_cases();
    order.retain(|&case| all || !can_wait(case));
    rig.random().shuffle(&mut order);
    let mut outcomes = Vec::new();
    for placement in [SAME_CPU, OTHER_CPU] {
        let cpu = if placement == SAME_CPU { Some(rig.setup().cpu) } else { other };
        let Some(cpu) = cpu else { continue };
        let mut partner = Partner::on_loopback(Some(cpu), &[])?;
        for case in order.iter().filter(|case| case.placement == Some(placement)) {
            let flow = partner.flow(&case.order());
            if flow.is_err() {
                // A partner that was left in the middle of its work is of no more use.
                partner = Partner::on_loopback(Some(cpu), &[])?;
            }
            outcomes.push(flow.and_then(|seen| record(rig, *case, &seen)).map_err(|trouble| (*case, trouble)));
        }
    }
    if let Some(partner) = partner_elsewhere(access)? {
        outcomes.extend(measure_remote(rig, partner, all)?);
    }
    keep(rig, outcomes)
}

/// The flows to a peer. One that cannot be judged is that case's affair, a peer that is lost is the launch's.
fn measure_remote(rig: &mut Rig<'_>, mut partner: Partner, all: bool) -> Result<Vec<Outcome>, Trouble> {
    let mut order = remote_cases(partner.is_ipv6());
    order.retain(|&case| all || !can_wait(case));
    rig.random().shuffle(&mut order);
    let mut outcomes = Vec::new();
    for case in order {
        let seen = partner.flow(&case.order())?;
        outcomes.push(record(rig, case, &seen).map_err(|trouble| (case, trouble)));
    }
    Ok(outcomes)
}

/// Writes down what both sides saw of a case, if what the other side says of it can be.
fn record(rig: &mut Rig<'_>, case: Case, (own, theirs, lasted): &(Flowed, Flowed, Duration)) -> Result<(), Trouble> {
    let labels = case.labels();
    // On the loopback both sides are one program with one clock.
    if case.placement.is_none() {
        plausible::flow(&case.order(), theirs, *lasted)?;
    }
    let round_trip = own.senders.iter().chain(&theirs.senders).map(|sender| sender.round_trip).max().unwrap_or(0);
    let mut rate = 0.0;
    let mut windows: Vec<f64> = Vec::new();
    for receiver in [own, theirs].into_iter().filter(|side| side.windows.len() > 1) {
        let steady = steady_part(case, &receiver.windows, f64::from(round_trip) * 1e3);
        rate += rate_of(steady).ok_or_else(|| Trouble::new(format!("no window of a flow is left ({labels})")))?;
        let rates: Vec<f64> = steady.windows(2).filter_map(rate_of).collect();
        // Two directions: their windows end at the same times but for the difference of two clocks' sleeps.
        if windows.is_empty() {
            windows = rates;
        } else {
            windows.iter_mut().zip(rates).for_each(|(sum, rate)| *sum += rate);
        }
    }
    if rate <= 0.0 {
        return Err(Trouble::new(format!("nothing arrived: the other side hangs or is cut off ({labels})"))
            .hint("look whether the other side still runs, and whether something on the way drops its packets"));
    }
    rig.record("rate", labels.clone(), Unit::BytesPerSecond, vec![rate])?;
    rig.record("window", labels.clone(), Unit::BytesPerSecond, windows)?;
    let totals = [own.sent, own.received, theirs.sent, theirs.received];
    rig.record("total", labels.clone(), Unit::Bytes, totals.map(|total| total as f64).to_vec())?;
    let busy = [own, theirs].map(|side| side.cpu_time as f64 / side.span.max(1) as f64);
    rig.record("busy", labels.clone(), Unit::One, busy.to_vec())?;
    for (side, flowed) in [("own", own), ("other", theirs)] {
        for sender in flowed.senders.iter().take(1) {
            rig.record("sender", labels.clone().with("side", side), Unit::One, numbers(sender))?;
        }
    }
    Ok(())
}

/// Busy, receiver-limited and buffer-limited time, segments sent again, round trip, congestion window, segment, window.
fn numbers(sender: &Sender) -> Vec<f64> {
    vec![
        sender.busy as f64,
        sender.receiver_limited as f64,
        sender.buffer_limited as f64,
        f64::from(sender.retransmissions),
        f64::from(sender.round_trip),
        f64::from(sender.congestion_window),
        f64::from(sender.segment),
        f64::from(sender.offered_window),
    ]
}

/// The windows after the start and before the last, which the end of the flow may have cut.
fn steady_part(case: Case, windows: &[(u64, i64)], round_trip: f64) -> &[(u64, i64)] {
    let (Some(first), Some(last)) = (windows.first(), windows.last()) else { return windows };
    let whole = (last.1 - first.1) as f64;
    let left_out = match case.placement {
        Some(_) => whole * LEFT_OUT_SHARE,
        // Never more than two thirds: something has to be left.
        None => LEFT_OUT.max(LEFT_OUT_ROUND_TRIPS * round_trip).min(whole * 0.67),
    };
    let from = windows.iter().position(|window| (window.1 - first.1) as f64 >= left_out).unwrap_or(0);
    &windows[from..windows.len().saturating_sub(1).max(from + 1)]
}

/// Bytes per second from the first window of a part to its last.
fn rate_of(part: &[(u64, i64)]) -> Option<f64> {
    let (first, last) = (part.first()?, part.last()?);
    let span = last.1 - first.1;
    (span > 0).then(|| last.0.saturating_sub(first.0) as f64 / span as f64 * 1e9)
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    for case in cases(study.setup.peer.as_ref()) {
        let labels = case.labels();
        let rates: Vec<f64> = study.values("rate", &labels);
        let Some(mut estimate) = Estimate::over_launches(
            &rates,
            Unit::BytesPerSecond,
            "median over launches of bytes over time at the receiver",
        ) else {
            if study.setup.profile.is_quick() && can_wait(case) {
                findings.cannot(RATE, labels, "a quick run has no time for it");
            }
            continue;
        };
        let windows = study.series("window", &labels);
        estimate.restless =
            windows.iter().filter(|series| steady_state(&series.values) == Some(Steadiness::NoSteadyState)).count()
                as u32;
        let gates = case_gates(study, case, &estimate);
        findings.publish(study, Figure::fact(RATE, labels, &estimate).gates(gates));
    }
}

/// The median over launches of one number of a series.
fn middle(study: &Study<'_>, name: &str, labels: &Labels, position: usize) -> Option<f64> {
    let values: Vec<f64> =
        study.series(name, labels).iter().filter_map(|series| series.values.get(position).copied()).collect();
    median(&values)
}

fn case_gates(study: &Study<'_>, case: Case, estimate: &Estimate) -> Vec<Gate> {
    let labels = case.labels();
    let mut gates = Vec::new();
    let short = |sent: usize, received: usize| {
        study.series("total", &labels).iter().any(|series| {
            let (sent, received) = (series.values.get(sent), series.values.get(received));
            let (sent, received) = (sent.copied().unwrap_or(0.0), received.copied().unwrap_or(0.0));
            received > sent || sent - received > BUFFERS * f64::from(case.streams)
        })
    };
    let sentence = "counted at the receiver; what was sent and did not arrive fits into the buffers";
    gates.push(Gate::holds(&ARRIVED, !short(0, 3) && !short(2, 1), sentence));
    gates.push(gates::steady(estimate));
    if case.placement.is_none()
        && let Some(peer) = study.setup.peer.as_ref()
        && let Some(facts) = interface(&study.setup.machine, peer)
        && let Some(rate) = facts.bits_per_second
    {
        let both = if case.direction == Direction::Both { 2.0 } else { 1.0 };
        let most = framed(rate as f64 / 8.0, facts.mtu_bytes) * both * ABOVE_LINK;
        let reason = format!("{ABOVE_LINK} times what the link {} carries as payload", facts.name);
        gates.push(Gate::at_most(&LINK, estimate.named("{}"), most).because(reason));
    }
    if case.streams == 8
        && let Some(one) = median(&study.values("rate", &Case { streams: 1, ..case }.labels()))
    {
        let reason = format!("{EIGHT_OVER_ONE} times what one carries");
        gates.push(
            Gate::at_least(&STREAMS, estimate.named("eight streams carry {}"), EIGHT_OVER_ONE * one).because(reason),
        );
    }
    gates
}

/// What holds a case back, in words.
fn limit(study: &Study<'_>, case: Case) -> Option<String> {
    let labels = case.labels();
    let (own, other) = (middle(study, "busy", &labels, 0)?, middle(study, "busy", &labels, 1)?);
    let (own_name, other_name) =
        if case.placement.is_some() { ("this side", "the other side") } else { ("this machine", "the peer") };
    if case.placement == Some(SAME_CPU) && own + other >= BUSY {
        return Some(format!("the CPU that both sides share: {} busy", percent((own + other).min(1.0))));
    }
    if own.max(other) >= BUSY {
        let name = if own >= other { own_name } else { other_name };
        return Some(format!("the CPU of {name}: {} and {} busy", percent(own), percent(other)));
    }
    for side in ["own", "other"] {
        let of = labels.clone().with("side", side);
        let Some(busy) = middle(study, "sender", &of, 0).filter(|&busy| busy > 0.0) else { continue };
        let share = |position| middle(study, "sender", &of, position).map_or(0.0, |found| found / busy);
        let window = middle(study, "sender", &of, 7).unwrap_or(0.0);
        let round_trip = middle(study, "sender", &of, 4).unwrap_or(0.0) / 1e6;
        let rate = median(&study.values("rate", &labels)).unwrap_or(0.0) / f64::from(case.streams);
        // A sender that paces itself never meets the window it has filled: what is on its way shows it as well.
        if share(1) > STOPPED || case.placement.is_none() && window > 0.0 && rate * round_trip >= FILLED * window {
            return Some(format!(
                "the receiver's window: {1} at the end, the sender stopped by it for {0} of the time",
                percent(share(1)),
                quantity(window, Unit::Bytes)
            ));
        }
        if share(2) > STOPPED {
            return Some(format!("the send buffer: full for {} of the time", percent(share(2))));
        }
    }
    if case.placement.is_some() {
        return Some(format!("hand-overs between the sides: {} and {} busy", percent(own), percent(other)));
    }
    let again =
        ["own", "other"].into_iter().filter_map(|side| middle(study, "sender", &labels.clone().with("side", side), 3));
    let again: f64 = again.sum();
    Some(format!("the path and its congestion control: {again:.0} segments were sent again"))
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    if let Some(peer) = study.setup.peer.as_ref() {
        findings.say(path_sentence(study, peer));
    }
    let mut rows = Vec::new();
    for case in cases(study.setup.peer.as_ref()) {
        let Some(metric) = findings.metric(RATE, &case.labels()) else { continue };
        let Some(limit) = limit(study, case) else { continue };
        rows.push(vec![case.labels().to_string(), quantity(metric.value, Unit::BytesPerSecond), limit]);
    }
    if !rows.is_empty() {
        findings.tabulate("What holds each flow back", &["flow", "payload", "limit"], rows);
    }
    let rate = |findings: &Findings, case: Case| findings.metric(RATE, &case.labels()).map(|metric| metric.value);
    let (two, one) = (rate(findings, PLAIN), rate(findings, Case { placement: Some(SAME_CPU), ..PLAIN }));
    if let (Some(two), Some(one)) = (two, one) {
        findings.say(format!(
            "The loopback moves {} with both sides on two CPUs and {} on one; a tool that leaves the placement to the kernel may show either.",
            quantity(two, Unit::BytesPerSecond),
            quantity(one, Unit::BytesPerSecond)
        ));
    }
    if let Some(name) = study.remarks("congestion_control").first() {
        findings.say(format!("Congestion control of this machine's senders: {name}."));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_and_the_cut_end_do_not_count() {
        // 10 bytes per nanosecond after a slow start of 20 windows, a last window cut short.
        let remote = Case { placement: None, ..PLAIN };
        let mut windows: Vec<(u64, i64)> = Vec::new();
        let (mut bytes, mut time) = (0_u64, 0_i64);
        for number in 0..60 {
            bytes += if number < 20 { 10_000_000 } else { 1_000_000_000 };
            time += 100_000_000;
            windows.push((bytes, time));
        }
        windows.push((bytes, time + 50_000_000));
        let rate = rate_of(steady_part(remote, &windows, 150e6)).unwrap();
        assert!((rate / 10e9 - 1.0).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn something_is_left_of_the_slowest_path_and_nothing_of_nothing() {
        let remote = Case { placement: None, ..PLAIN };
        let windows: Vec<(u64, i64)> = (0..25).map(|number| (number * 100, number as i64 * 100_000_000)).collect();
        assert!(rate_of(steady_part(remote, &windows, 5e9)).is_some());
        assert_eq!(rate_of(steady_part(remote, &windows[..1], 0.0)), None);
        assert_eq!(rate_of(&[]), None);
    }

    #[test]
    fn an_ethernet_of_one_gigabit_carries_941_megabits() {
        assert!((framed(125e6, None) * 8.0 / 1e6 - 941.5).abs() < 0.1);
    }
}
