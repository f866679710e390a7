//! Which figures the calls give, and what must hold of them.

use super::{
    CALLS, DEPTH, FLOOR, FUNCTION, IN_WORK_TOO, RING, RING_BATCHED, SETTLES_BEFORE_EACH_BATCH, among_others,
    enters_alone, in_work, is_filtered, labels, repeated,
};
use crate::experiments::os::row::Row;
use crate::experiments::prelude::*;
use crate::results::quantity::PATH_DEPTH;

/// Below these no processor enters and leaves its kernel.
const FLOOR_CYCLES: f64 = 40.0;
const FLOOR_NANOSECONDS: f64 = 15.0;
/// A call may come out this much cheaper than the floor of all calls before something is wrong.
const FLOOR_SLACK: f64 = 0.03;
/// What a call costs above the floor agrees with the difference of the figures within this share of the call.
const CONSISTENT: f64 = 0.1;

/// Of a call in ordinary work: it depends on the work. Of 32 C programs with other work, 31 pay 9 % less to 15 % more for the refused
/// call than here, 3 % more in their middle, and one pays half (Intel Golden Cove guest).
const OF_PROGRAMS: Precision = Precision { target: 0.08, between: 0.05, busy: 0.05 };

rules! {
    CONSISTENCE: "G5" Hard "`os.system_call.service`",
        "the cost above the floor within launches equals the difference of the two results, within {} of the call",
        share(CONSISTENT);
    ENTRY_FLOOR: "G8" Hard "`os.system_call.time` of the refused call",
        "entering the kernel takes at least {}", cycles(FLOOR_CYCLES);
    NOT_BELOW_REFUSED: "G20" Hard "`os.system_call.time`",
        "no system call is more than {} cheaper than the refused call, unless a system-call filter is installed",
        share(FLOOR_SLACK);
    BATCHED: "G20" Hard "`os.system_call.time`",
        "one of 32 no-operations in a system call costs at most as much as one alone";
}

/// The labels of a figure: those of its series, and what is known of the call only when it is made.
fn figure_labels(study: &Study<'_>, call: &Row, labels: Labels) -> Labels {
    match study.remarks(DEPTH).first() {
        Some(depth) if call.name == "getcwd" => labels.with(PATH_DEPTH, depth),
        _ => labels,
    }
}

pub(super) fn figures(study: &Study<'_>, findings: &mut Findings) {
    if study.method_version < IN_WORK_TOO {
        figures_of(study, findings, labels, true);
        among(study, findings, &labels(FLOOR).with("order", "sweep"));
        return;
    }
    figures_of(study, findings, in_work, true);
    figures_of(study, findings, repeated, false);
    among(study, findings, &among_others());
}

/// The floor among other calls.
fn among(study: &Study<'_>, findings: &mut Findings, labels: &Labels) {
    if let Some(estimate) = study.sample("call", labels).as_ref().and_then(Estimate::undisturbed) {
        let own = call_gates(study, &CALLS[0], &estimate, None);
        findings.publish(study, Figure::batches("os.system_call.time", labels.clone(), &estimate).gates(own));
    }
}

/// The figures of all calls whose series have the labels that `of` makes of their names, with the service of each where it is wanted.
fn figures_of(study: &Study<'_>, findings: &mut Findings, of: fn(&str) -> Labels, services: bool) {
    let draws = study.method_version >= SETTLES_BEFORE_EACH_BATCH;
    let estimator = if draws { Estimate::of_draws } else { Estimate::undisturbed };
    let sample = |call: &str| {
        let sample = study.sample("call", &of(call))?;
        Some(if draws { sample.by_median() } else { sample })
    };
    let floor = sample(FLOOR);
    let floor_estimate = floor.as_ref().and_then(estimator);
    let ring = sample(RING).as_ref().and_then(estimator);
    for call in &CALLS {
        let Some(sample) = sample(call.name) else { continue };
        let Some(estimate) = estimator(&sample) else { continue };
        let mut own = call_gates(study, call, &estimate, floor_estimate.as_ref());
        if let Some(single) = ring.as_ref().filter(|_| call.name == RING_BATCHED) {
            own.push(Gate::at_most(&BATCHED, estimate.named("{} in a batch"), single.value).because("one alone"));
        }
        let named = figure_labels(study, call, of(call.name));
        let figure = Figure::batches("os.system_call.time", named, &estimate).gates(own);
        // Older logs have repeated calls only.
        let varies = study.method_version >= IN_WORK_TOO && (services || [RING, RING_BATCHED].contains(&call.name));
        findings.publish(study, if varies { figure.of_class(OF_PROGRAMS) } else { figure });
        let takes_floor = services && enters_alone(call) && call.name != FUNCTION && !is_filtered(study);
        let Some(floor) = floor.as_ref().filter(|_| takes_floor) else { continue };
        if let Some(net) = Estimate::net_of(&sample, floor, estimator) {
            let own =
                vec![gates::net_resolved(&net, estimate.value), consistent(&net, &estimate, floor_estimate.as_ref())];
            let named = figure_labels(study, call, labels(call.name));
            let figure = Figure::batches("os.system_call.service", named, &net).of_gross(estimate.value).gates(own);
            findings.publish(study, if varies { figure.of_class(OF_PROGRAMS) } else { figure });
        }
    }
}

/// What a call costs above the floor, taken within launches, is what the two figures differ by: where a call has two paces, and
/// launches meet one or the other, it is not.
fn consistent(net: &Estimate, gross: &Estimate, floor: Option<&Estimate>) -> Gate {
    let difference = floor.map_or(f64::NAN, |floor| gross.value - floor.value);
    let share = (net.value - difference).abs() / gross.value;
    let reason =
        format!("{} above the floor within launches, {} between the results", number(net.value), number(difference));
    let apart = Number::share(share).named("the two differences differ by {} of the call");
    Gate::at_most(&CONSISTENCE, apart, CONSISTENT).because(reason)
}

fn call_gates(study: &Study<'_>, call: &Row, estimate: &Estimate, floor: Option<&Estimate>) -> Vec<Gate> {
    let mut own = Vec::new();
    let cycles = estimate.unit == Unit::Cycles;
    if call.name == FLOOR {
        let least = if cycles { FLOOR_CYCLES } else { FLOOR_NANOSECONDS };
        own.push(
            gates::floor(&ENTRY_FLOOR, estimate, least).because("no processor enters and leaves its kernel faster"),
        );
    }
    if let Some(floor) = floor.filter(|_| enters_alone(call) && !is_filtered(study)) {
        let reason = format!("the floor of {} less {}", number(floor.value), Number::share(FLOOR_SLACK).text());
        own.push(
            Gate::at_least(&NOT_BELOW_REFUSED, estimate.named("{}"), floor.value * (1.0 - FLOOR_SLACK)).because(reason),
        );
    }
    own
}
