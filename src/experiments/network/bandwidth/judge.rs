//! What arrives in a second, and what must hold of it.

use super::super::interface;
use super::{Case, RATE, REMOTE_WINDOW, can_wait, cases, framed};
use crate::experiments::limits;
use crate::experiments::prelude::*;
use crate::machine::InterfaceKind;
use crate::peer::protocol::Direction;
use crate::statistics::change::{Steadiness, steady_state};
use crate::statistics::location::FEWEST_LAUNCHES;
use crate::statistics::summary::quantile;

/// Bytes that may be missing at the receiver of a stream when a flow was cut off: the largest buffers of both sides.
pub(super) const BUFFERS: f64 = 64.0 * 1024.0 * 1024.0;

/// How far payload may be above what the link carries: the grain of clocks.
pub(super) const ABOVE_LINK: f64 = 1.01;

/// A window of a flow to a peer stalled if it brought at most this share of what its windows bring without a stall. TCP waits
/// at least 200 ms for the answer to a lost last segment, which is two windows.
pub(super) const STALLED: f64 = 0.5;

/// The quantile of the windows of a flow that no stall lowers. Each lost repetition doubles the wait, so a flow can stall
/// for more than half of its windows, and their median is zero then.
const UNDISTURBED: f64 = 0.75;

/// Eight streams carry this many times what one carries, at least.
pub(super) const EIGHT_OVER_ONE: f64 = 0.9;

rules! {
    ARRIVED: "G29" Hard "`network.bandwidth.rate`",
        "the bytes that were sent and did not arrive fit into the buffers, {} per stream", bytes(BUFFERS);
    LINK: "G29" Hard "`network.bandwidth.rate`", "the payload is at most {} times what the link can carry",
        plain(ABOVE_LINK);
    STALLS: "stalls" Contaminates "`network.bandwidth.rate` to a peer",
        "no flow has a window with at most {} of the upper quartile of its windows, or there are at least {} flows",
        share(STALLED), plain(FEWEST_LAUNCHES as f64);
    STREAMS: "G40" Remark "`network.bandwidth.rate`", "eight streams carry at least {} times as much as one",
        plain(EIGHT_OVER_ONE);
}

pub(super) fn figures(study: &Study<'_>, findings: &mut Findings) {
    for case in cases(study.setup) {
        let labels = case.labels();
        let rates: Vec<f64> = study.values("rate", &labels);
        let Some(mut estimate) = Estimate::over_launches(
            &rates,
            Unit::BytesPerSecond,
            "median over launches of bytes over time at the receiver",
        ) else {
            if study.setup.profile.is_quick() && can_wait(case) {
                findings.cannot(RATE, labels, "a quick run omits it");
            }
            continue;
        };
        let windows = study.series("window", &labels);
        estimate.restless =
            windows.iter().filter(|series| steady_state(&series.values) == Some(Steadiness::NoSteadyState)).count()
                as u32;
        let mut gates = case_gates(study, case, &estimate);
        if case.placement.is_none() {
            gates.push(stall_gate(windows.iter().map(|series| series.values.as_slice())));
        }
        findings.publish(study, Figure::shots(RATE, labels, &estimate, None).gates(gates));
    }
}

/// A stall lasts as long as a large part of a flow, so few flows with one say little about the rate of the path.
fn stall_gate<'a>(flows: impl Iterator<Item = &'a [f64]>) -> Gate {
    let stalls: Vec<usize> = flows.map(stalled_windows).collect();
    let stalled = stalls.iter().filter(|&&windows| windows > 0).count();
    let longest = stalls.iter().max().copied().unwrap_or(0) as u32 * REMOTE_WINDOW;
    let evidence = match stalled {
        0 => format!("none of {} flows stalled", stalls.len()),
        _ => format!("{stalled} of {} flows stalled, for {longest} ms at most", stalls.len()),
    };
    Gate::holds(&STALLS, stalled == 0 || stalls.len() >= FEWEST_LAUNCHES, evidence)
}

/// Windows in which hardly anything arrived.
fn stalled_windows(rates: &[f64]) -> usize {
    let undisturbed = quantile(rates, UNDISTURBED).unwrap_or(0.0);
    rates.iter().filter(|&&rate| rate <= STALLED * undisturbed).count()
}

pub(super) fn case_gates(study: &Study<'_>, case: Case, estimate: &Estimate) -> Vec<Gate> {
    let labels = case.labels();
    let mut gates = Vec::new();
    let short = |sent: usize, received: usize| {
        study.series("total", &labels).iter().any(|series| {
            let (sent, received) = (series.values.get(sent), series.values.get(received));
            let (sent, received) = (sent.copied().unwrap_or(0.0), received.copied().unwrap_or(0.0));
            received > sent || sent - received > BUFFERS * f64::from(case.streams)
        })
    };
    let sentence = "counted at the receiver, and the bytes that did not arrive fit into the buffers";
    gates.push(Gate::holds(&ARRIVED, !short(0, 3) && !short(2, 1), sentence));
    gates.push(gates::steady(estimate));
    if case.placement.is_none()
        && let Some(peer) = study.setup.peer.as_ref()
        && let Some(facts) = interface(&study.setup.machine, peer)
        && let Some(rate) = facts.bits_per_second
    {
        let both = if case.direction == Direction::Both { 2.0 } else { 1.0 };
        let most = framed(rate as f64 / 8.0, facts.mtu_bytes) * both * ABOVE_LINK;
        let reason = format!("{ABOVE_LINK} times the payload that the link {} can carry", facts.name);
        gates.push(Gate::at_most(&LINK, estimate.named("{}"), most).because(reason));
    }
    let path = match (case.placement, study.setup.peer.as_ref()) {
        (None, Some(peer)) => interface(&study.setup.machine, peer),
        _ => study.setup.machine.network.iter().find(|found| found.kind == InterfaceKind::Loopback),
    };
    // What the other side sends passes another shaper.
    if let Some(facts) = path.filter(|_| case.placement.is_some() || case.direction == Direction::Send) {
        gates.extend(limits::of_sending(facts.shaper.as_ref(), &facts.name, estimate.value));
    }
    if case.streams == 8
        && let Some(one) = median(&study.values("rate", &Case { streams: 1, ..case }.labels()))
    {
        let reason = format!("{EIGHT_OVER_ONE} times the rate of one stream");
        gates.push(
            Gate::at_least(&STREAMS, estimate.named("eight streams carry {}"), EIGHT_OVER_ONE * one).because(reason),
        );
    }
    gates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_that_waits_for_a_lost_segment_does_not_stand_for_its_path() {
        let even = [2.35, 2.48, 2.36, 2.33, 2.48, 2.35, 2.35, 2.48, 2.36, 2.47, 2.35, 2.35, 2.48];
        let mut waits = even;
        waits[5..7].fill(0.02);
        let gate = |flows: &[[f64; 13]]| stall_gate(flows.iter().map(<[f64; 13]>::as_slice));
        assert!(gate(&[even, even]).pass);
        let stalled = gate(&[even, waits]);
        assert!(
            !stalled.pass && stalled.evidence == "1 of 2 flows stalled, for 200 ms at most",
            "{}",
            stalled.evidence
        );
        // A flow that waits for most of its time.
        let mut mostly_waits = even;
        mostly_waits[..7].fill(0.0);
        assert!(!gate(&[even, mostly_waits]).pass);
        assert!(!gate(&[[0.0; 13], even]).pass);
        // Where there are enough flows, their interval shows how often they stall.
        assert!(gate(&[even, waits, even, waits, even]).pass);
    }
}
