//! What arrives in a second, and what must hold of it.

use super::super::interface;
use super::{Case, RATE, can_wait, cases, framed};
use crate::evaluate::estimate::Estimate;
use crate::evaluate::figure::Figure;
use crate::evaluate::findings::Findings;
use crate::evaluate::gate::rules;
use crate::evaluate::gates;
use crate::evaluate::study::Study;
use crate::peer::protocol::Direction;
use crate::results::quantity::Unit;
use crate::results::verdict::Gate;
use crate::statistics::change::{Steadiness, steady_state};
use crate::statistics::summary::median;

/// Bytes that may be missing at the receiver of a stream when a flow was cut off: the largest buffers of both sides.
pub(super) const BUFFERS: f64 = 64.0 * 1024.0 * 1024.0;

/// How far payload may be above what the link carries: the grain of clocks.
pub(super) const ABOVE_LINK: f64 = 1.01;

/// Eight streams carry so many times what one carries, at least.
pub(super) const EIGHT_OVER_ONE: f64 = 0.9;

rules! {
    ARRIVED: "G29" Hard "`network.bandwidth.rate`",
        "the bytes that were sent and did not arrive fit into the buffers, {} per stream", bytes(BUFFERS);
    LINK: "G29" Hard "`network.bandwidth.rate`", "the payload is at most {} times what the link can carry",
        plain(ABOVE_LINK);
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
        let gates = case_gates(study, case, &estimate);
        findings.publish(study, Figure::fact(RATE, labels, &estimate).gates(gates));
    }
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
