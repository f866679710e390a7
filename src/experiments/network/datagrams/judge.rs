//! What arrives, and what must hold of it.

use super::super::{interface, others};
use super::{Case, Counts, DELIVERED, IN_ORDER, OFFERED, Offered, RATE, cases};
use crate::experiments::limits;
use crate::experiments::prelude::*;
use crate::peer::protocol::Direction;

/// How far payload may be above what the link carries: the grain of clocks.
const ABOVE_THE_LINK: f64 = 1.01;

/// How far more may arrive than was sent in the same half of the time: what waited in queues.
const ABOVE_SENT: f64 = 1.1;

/// How far the rate of a paced sender may be from the one that is its label.
const PACE: f64 = 0.1;

/// Half of the interval of a share that is well known.
const KNOWN: f64 = 0.05;

/// A part of the datagrams from which on what drops them sets the rate.
pub(super) const DROPS: f64 = 0.01;

rules! {
    COUNTED: "G29" Hard "`network.datagrams`",
        "no more datagrams arrive than were sent. Where none came twice, this includes those that the receiver dropped";
    LINK_OF_DATAGRAMS: "G29" Hard "`network.datagrams.rate`", "the payload is at most {} times what the link can carry",
        plain(ABOVE_THE_LINK);
    SENT: "G29" Contaminates "`network.datagrams.rate`", "the rate is at most {} times what was sent in that half", plain(ABOVE_SENT);
    PACED: "G29" Contaminates "`network.datagrams.delivered`",
        "a paced sender offers its share of the rate that arrives, within {}", share(PACE);
    BY_RECEIVER: "receiver" Remark "`network.datagrams.rate`",
        "the full receive buffer dropped at most {} of the datagrams, so it does not set the rate", share(DROPS);
    ONCE: "G29" Remark "`network.datagrams.in_order`", "no datagram arrived twice";
    SHARE_KNOWN: "interval" Noisy "`network.datagrams.delivered`, `network.datagrams.in_order`",
        "half of the interval is at most {} of all datagrams", share(KNOWN);
}

pub(super) fn figures(study: &Study<'_>, findings: &mut Findings) {
    for case in cases(study.setup) {
        publish_rate(study, findings, case);
        for offered in OFFERED {
            publish_delivered(study, findings, case, offered);
        }
        publish_order(study, findings, case);
    }
}

fn publish_rate(study: &Study<'_>, findings: &mut Findings, case: Case) {
    let labels = case.labels();
    let name = "median over launches of payload over time at the receiver";
    let Some(estimate) = Estimate::over_launches(&study.values("rate", &labels), Unit::BytesPerSecond, name) else {
        return;
    };
    let all = Counts::by_launch(study, case, Offered::Full);
    let mut gates = vec![counted(&all)];
    if let Some(sent) = median(&study.values("offered", &case.offered(Offered::Full))) {
        let reason = format!("{ABOVE_SENT} times what the sender sent per second");
        gates.push(Gate::at_most(&SENT, estimate.named("{}"), ABOVE_SENT * sent).because(reason));
    }
    let sum = Counts::sum(&all);
    if let Some(dropped) = sum.dropped {
        gates.push(Gate::few(
            &BY_RECEIVER,
            "the full receive buffer dropped {} of the datagrams",
            dropped,
            sum.sent,
            DROPS,
        ));
    }
    let facts =
        study.setup.peer.as_ref().filter(|_| case.remote).and_then(|peer| interface(&study.setup.machine, peer));
    if let Some(facts) = facts {
        if let Some(rate) = facts.bits_per_second {
            let most = case.framed(rate as f64 / 8.0) * ABOVE_THE_LINK;
            let reason = format!("{ABOVE_THE_LINK} times the payload that the link {} can carry", facts.name);
            gates.push(Gate::at_most(&LINK_OF_DATAGRAMS, estimate.named("{}"), most).because(reason));
        }
        // What the other side sends passes another shaper.
        if case.direction == Direction::Send {
            gates.extend(limits::of_sending(facts.shaper.as_ref(), &facts.name, estimate.value));
        }
    }
    findings.publish(study, Figure::shots(RATE, labels, &estimate, others(study)).gates(gates));
}

/// G29: what is counted on both sides adds up, in each launch.
fn counted(all: &[Counts]) -> Gate {
    // The kernel also counts a repeated datagram that it drops.
    let dropped = |found: &Counts| found.dropped.filter(|_| found.repeated <= 0.0).unwrap_or(0.0);
    let adds_up = |found: &Counts| found.received + dropped(found) <= found.sent;
    let sum = Counts::sum(all);
    Gate::holds(&COUNTED, all.iter().all(adds_up), format!("{} of {} datagrams arrived", sum.received, sum.sent))
}

fn publish_delivered(study: &Study<'_>, findings: &mut Findings, case: Case, offered: Offered) {
    let all = Counts::by_launch(study, case, offered);
    let mut gates = vec![counted(&all)];
    gates.extend(paced(study, case, offered));
    for end in case.ends() {
        let labels = case.offered(offered).with("to", end);
        let arrived = |found: &Counts| match *end {
            "program" => Some((found.received, found.sent)),
            _ => Some(((found.received + found.dropped?).min(found.sent), found.sent)),
        };
        let Some(parts) = all.iter().map(arrived).collect::<Option<Vec<(f64, f64)>>>() else {
            findings.cannot(DELIVERED, labels, "the kernel of the receiver does not count what its sockets drop");
            continue;
        };
        publish_share(study, findings, DELIVERED, labels, &parts, &gates);
    }
}

/// A sender that waits for its CPU offers less than it should.
fn paced(study: &Study<'_>, case: Case, offered: Offered) -> Option<Gate> {
    let Offered::Share(_, share) = offered else { return None };
    let rate = median(&study.values("rate", &case.labels()))?;
    let found = median(&study.values("offered", &case.offered(offered)))? / rate;
    let found = Number::share(found).named("the sender offers {} of the rate that arrives");
    Some(Gate::near(&PACED, found, share, PACE))
}

fn publish_order(study: &Study<'_>, findings: &mut Findings, case: Case) {
    let flows = OFFERED.map(|offered| Counts::by_launch(study, case, offered));
    let launches = flows.iter().map(Vec::len).max().unwrap_or(0);
    // The flows of a launch are one cluster.
    let of = |launch: usize| flows.iter().filter_map(|flow| flow.get(launch).copied()).collect::<Vec<Counts>>();
    let all: Vec<Counts> = (0..launches).map(|launch| Counts::sum(&of(launch))).collect();
    let parts: Vec<(f64, f64)> = all.iter().map(|found| (found.received - found.reordered, found.received)).collect();
    let repeated = Counts::sum(&all).repeated;
    let once = Gate::holds(&ONCE, repeated <= 0.0, format!("{repeated} datagrams arrived again"));
    publish_share(study, findings, IN_ORDER, case.labels(), &parts, &[counted(&all), once]);
}

fn publish_share(
    study: &Study<'_>,
    findings: &mut Findings,
    metric: &str,
    labels: Labels,
    parts: &[(f64, f64)],
    own: &[Gate],
) {
    let Some(estimate) = Estimate::of_counts(parts, "datagrams of all launches") else { return };
    let half = (estimate.interval[1] - estimate.interval[0]) / 2.0;
    let known = Number::share(half).named("half of the interval is {} of all datagrams");
    let mut gates = vec![gates::enough_launches(&estimate), Gate::at_most(&SHARE_KNOWN, known, KNOWN)];
    gates.extend(others(study).map(gates::of_others));
    findings.publish(study, Figure::own(metric, labels, &estimate).higher_is_better().gates(gates).gates(own.to_vec()));
}
