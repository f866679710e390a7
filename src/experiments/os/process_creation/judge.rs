//! Which figures the children give, and what must hold of them.

use std::collections::BTreeMap;

use super::ways::{BASE, COMPARED, ChildMethod, ForkSetting, SIZES, WAYS, combinations, labels};
use super::{PER_PAGE, SMALL_PAGE, TIME};
use crate::experiments::os::children;
use crate::experiments::os::sweep::Sweep;
use crate::experiments::prelude::*;

/// Physical floors in nanoseconds.
const FORK_FLOOR: f64 = 5_000.0;
const WAIT_FLOOR: f64 = 10_000.0;
const EXEC_FLOOR: f64 = 50_000.0;
/// Of children on any CPU or of parents with memory. In 13 records of a Zen 4 guest they scatter by 5 to 15 % (four of five), those of
/// a small parent on its CPU by 2 to 4 %.
const ELSEWHERE: Precision = Precision { target: 0.25, between: 0.1, busy: 0.2 };
/// First version of the method that writes no memory before a child that borrows it.
const BORROWS_WARM: u32 = 6;
/// Slack of comparisons.
const SLACK: f64 = 1.05;

rules! {
    FLOOR: "G8" Hard "`os.process_creation.time`",
        "a child takes at least {}, at least {} until it is reaped, at least {} with another image",
        time(FORK_FLOOR), time(WAIT_FLOOR), time(EXEC_FLOOR);
    ORDER: "G20" Noisy "`os.process_creation.time`",
        "at most {} times as long: fork until it returns as until its child is reaped, borrowed as copied memory",
        plain(SLACK);
}

pub(super) fn figures(study: &Study<'_>, findings: &mut Findings) {
    for (way, setting) in combinations() {
        let labels = labels(way, setting);
        if way.borrows() && setting.resident > 0 && study.method_version < BORROWS_WARM {
            findings.cannot(
                TIME,
                labels,
                "this version of the method measured it in caches that other work had emptied",
            );
            continue;
        }
        let Some(estimate) = study.sample("child", &labels).as_ref().and_then(Estimate::undisturbed) else { continue };
        let own = child_gates(study, way, setting, &estimate);
        let figure = Figure::batches(TIME, labels, &estimate).gates(own);
        findings.publish(study, if setting == BASE { figure } else { figure.of_class(ELSEWHERE) });
    }
    for how in ["fork", "fork_wait"] {
        publish_by_size(study, findings, how);
    }
}

fn child_gates(study: &Study<'_>, way: ChildMethod, setting: ForkSetting, estimate: &Estimate) -> Vec<Gate> {
    let floor = match (way.how, way.image) {
        ("fork" | "first_instruction", _) => FORK_FLOOR,
        (_, None) => WAIT_FLOOR,
        _ => EXEC_FLOOR,
    };
    let mut gates = vec![
        gates::floor_in_time(&FLOOR, study, estimate, floor).because("no kernel creates a task faster"),
        children::gate(study, &labels(way, setting)),
    ];
    let mut not_above = |other: ChildMethod, why: &str| {
        if let Some(other) = study.sample("child", &labels(other, setting)).as_ref().and_then(Estimate::undisturbed) {
            let reason = format!("{SLACK} times {}: {why}", number(other.value));
            gates.push(Gate::at_most(&ORDER, estimate.named("{}"), other.value * SLACK).because(reason));
        }
    };
    match way.how {
        "fork" => not_above(WAYS[2], "fork returns before its child is reaped"),
        "vfork_wait" if setting.resident >= COMPARED => not_above(WAYS[2], "borrowed memory is not copied"),
        _ => {}
    }
    gates
}

/// The costs of a way over resident sizes on small pages, and what a page adds up to the size that every run has.
fn publish_by_size(study: &Study<'_>, findings: &mut Findings, how: &str) {
    let Some(way) = WAYS.into_iter().find(|way| way.how == how) else { return };
    let own = Labels::of([("how", how)]);
    let sweep = |most: usize| {
        let sizes = std::iter::once(0).chain(SIZES).filter(|size| *size <= most);
        let points =
            sizes.map(|resident| (resident as f64 / SMALL_PAGE, labels(way, ForkSetting { resident, ..BASE })));
        Sweep::of(study, "child", points)
    };
    if let Some((estimate, linear)) = sweep(COMPARED).and_then(|sweep| sweep.slope("resident pages up to 64 MiB")) {
        let gates = vec![linear, gates::resolved(&estimate)];
        findings.publish(study, Figure::derived(PER_PAGE, own.clone(), &estimate).of_class(ELSEWHERE).gates(gates));
    } else {
        findings.cannot(PER_PAGE, own.clone(), "fewer than three resident sizes could be measured");
    }
    let points = sweep(usize::MAX).map_or_else(Vec::new, |sweep| sweep.curve(study, SMALL_PAGE));
    if points.len() < 2 {
        return;
    }
    findings.curves.push(Curve {
        name: "os.process_creation.by_resident_size".to_owned(),
        labels: own,
        words: BTreeMap::new(),
        x: Axis { label: "resident memory of the parent".to_owned(), unit: Unit::Bytes },
        y: Axis { label: "one child".to_owned(), unit: Unit::Nanoseconds },
        points,
    });
}
