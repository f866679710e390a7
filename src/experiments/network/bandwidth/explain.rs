//! What limited the flows.

use super::super::{SAME_CPU, path_sentence};
use super::{BUSY, Case, PLAIN, RATE, cases, middle};
use crate::experiments::prelude::*;
use crate::results::ratio::{Order, unresolved_difference};

/// What stopped the sender for more than this share of the time is the limit.
const STOPPED: f64 = 0.5;

/// Share of the receiver's window that is on its way when the window is the limit.
const FILLED: f64 = 0.75;

pub(super) fn explain(study: &Study<'_>, findings: &mut Findings) {
    if let Some(peer) = study.setup.peer.as_ref() {
        findings.say(path_sentence(study, peer));
    }
    let flow = |case: Case| Some((case.labels(), findings.metric(RATE, &case.labels())?.value, limit(study, case)?));
    let table = pivot(
        "What limits each flow",
        cases(study.setup).into_iter().filter_map(flow),
        &[
            ("flow", &|(labels, ..)| Some(labels.to_string())),
            ("payload", &|(_, rate, _)| Some(quantity(*rate, Unit::BytesPerSecond))),
            ("limit", &|(.., limit)| Some(limit.clone())),
        ],
    );
    findings.analysis.extend(table);
    let rate = |findings: &Findings, case: Case| findings.metric(RATE, &case.labels()).cloned();
    let (two, one) = (rate(findings, PLAIN), rate(findings, Case { placement: Some(SAME_CPU), ..PLAIN }));
    if let (Some(two), Some(one)) = (two, one) {
        let placement = match Order::of(&two, &one) {
            Order::Larger(_) | Order::Smaller(_) => {
                " A tool that leaves the placement to the kernel may show either.".to_owned()
            }
            Order::Alike => format!(" {}.", unresolved_difference(&two, &one)),
            Order::Open => String::new(),
        };
        findings.say(format!(
            "The loopback moves {} with both sides on two CPUs and {} on one.{placement}",
            two.shown(),
            one.shown()
        ));
    }
    if let Some(name) = study.remarks("congestion_control").first() {
        findings.say(format!("Congestion control of this machine's senders: {name}."));
    }
}

/// What holds a case back, in words.
fn limit(study: &Study<'_>, case: Case) -> Option<String> {
    let labels = case.labels();
    let (own, other) = (middle(study, "busy", &labels, 0)?, middle(study, "busy", &labels, 1)?);
    let (own_name, other_name) =
        if case.placement.is_some() { ("this side", "the other side") } else { ("this machine", "the peer") };
    if case.placement == Some(SAME_CPU) && own + other >= BUSY {
        return Some(format!("the CPU that both sides share ({} busy)", percent((own + other).min(1.0))));
    }
    if own.max(other) >= BUSY {
        let name = if own >= other { own_name } else { other_name };
        return Some(format!("the CPU of {name} ({} and {} busy)", percent(own), percent(other)));
    }
    for side in ["own", "other"] {
        let of = labels.clone().with("side", side);
        let Some(busy) = middle(study, "sender", &of, 0).filter(|&busy| busy > 0.0) else { continue };
        let share = |position| middle(study, "sender", &of, position).map_or(0.0, |found| found / busy);
        let window = middle(study, "sender", &of, 7).unwrap_or(0.0);
        let round_trip = middle(study, "sender", &of, 4).unwrap_or(0.0) / 1e6;
        let rate = median(&study.values("rate", &labels)).unwrap_or(0.0) / f64::from(case.streams);
        // A sender that paces itself never meets the window it has filled: what is on its way also shows it.
        if share(1) > STOPPED || case.placement.is_none() && window > 0.0 && rate * round_trip >= FILLED * window {
            return Some(format!(
                "the receiver's window ({1} at the end, which stopped the sender for {0} of the time)",
                percent(share(1)),
                quantity(window, Unit::Bytes)
            ));
        }
        if share(2) > STOPPED {
            return Some(format!("the send buffer (full for {} of the time)", percent(share(2))));
        }
    }
    if case.placement.is_some() {
        return Some(format!("handoffs between the sides ({} and {} busy)", percent(own), percent(other)));
    }
    let again =
        ["own", "other"].into_iter().filter_map(|side| middle(study, "sender", &labels.clone().with("side", side), 3));
    let again: f64 = again.sum();
    Some(format!("the path and its congestion control ({again:.0} segments retransmitted)"))
}
