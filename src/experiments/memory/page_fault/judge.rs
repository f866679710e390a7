//! What counts as a page fault of a kind, and what it costs.

use std::collections::BTreeMap;

use crate::experiments::limits;
use crate::experiments::memory::footprint::labelled;
use crate::experiments::memory::touching::{PROOFS, counted, labels};
use crate::experiments::prelude::*;
use crate::sys::fault::HUGE_PAGE;

use super::{
    CLEAR, CLEAR_FLOOR, CLEAR_SLACK, COLD, COLD_PAGES, COPY, COUNTED, DIRECT, FIRST_TOUCH, HUGE, KINDS, LARGE,
    LEAST_PAGES, MAJOR, MAJOR_FLOOR, MEBIBYTE, MINOR, MINOR_FLOOR, ORDER, PAGES, PARTS, PER_FAULT, PLACED, PROVEN,
    READ, SINGLE, SMALL, SUM, SYSTEM, TIME, TOUCH, WRITE, touch_labels,
};

pub(super) fn figures(study: &Study<'_>, findings: &mut Findings) {
    for kind in KINDS {
        let Some(estimate) = estimate_of(study, kind) else { continue };
        let own = fault_gates(study, kind, &estimate);
        let named = labelled(labels(kind), footprint(study, kind));
        let mut figure = Figure::batches(TIME, named, &estimate).gates(own);
        if kind == COLD {
            figure = figure.of_class(Precision::OF_DEVICES);
        }
        findings.publish(study, figure);
        if let Some(pages) = pages_per_fault(study, kind) {
            findings.publish(study, Figure::fact(PAGES, labels(kind), &pages));
        }
    }
    for pages in [SMALL, LARGE, SYSTEM] {
        let Some((estimate, gates)) = first_touch(study, pages) else { continue };
        let floor =
            gates::floor(&CLEAR, &estimate, CLEAR_FLOOR).because("no core clears more than 128 bytes in a cycle");
        let floor = (estimate.unit == Unit::Cycles).then_some(floor);
        findings.publish(study, Figure::batches(FIRST_TOUCH, touch_labels(pages), &estimate).gates(gates).gates(floor));
    }
}

/// Bytes that the faults of a batch clear or copy: what the caches do not hold of them is part of the cost. None of other kinds.
pub(super) fn footprint(study: &Study<'_>, kind: &str) -> Option<f64> {
    let times = match kind {
        WRITE | HUGE => 1.0,
        COPY => 2.0,
        _ => return None,
    };
    Some(median(&study.values("pages", &labels(kind)))? * page_size() as f64 * times)
}

/// The first touch of a mebibyte of some pages, and what must hold of its faults.
fn first_touch(study: &Study<'_>, pages: &str) -> Option<(Estimate, Vec<Gate>)> {
    let small = page_size() as f64;
    let (kind, bytes) = match pages {
        SMALL => (WRITE, small),
        LARGE => (HUGE, HUGE_PAGE as f64),
        _ => {
            let estimate = Estimate::undisturbed(&study.sample(TOUCH, &touch_labels(pages))?)?;
            let (least, most) = counted_faults(study, TOUCH)?;
            let of = study.values("pages", &labels(TOUCH)).into_iter().fold(0.0, f64::max);
            let sentence =
                format!("{} to {} faults counted for {} small pages", number(least), number(most), number(of));
            return Some((
                estimate,
                vec![Gate::holds(
                    &COUNTED,
                    least >= 1.0 && (most <= of || counted(most as i64, of as i64).is_ok()),
                    sentence,
                )],
            ));
        }
    };
    let estimate = estimate_of(study, kind)?;
    let gates = vec![count_gate(study, kind, &estimate)];
    Some((estimate.scaled(MEBIBYTE as f64 / bytes, estimate.unit), gates))
}

/// The undisturbed cost of what the kernel does alone; the middle of what a device does.
fn estimate_of(study: &Study<'_>, kind: &str) -> Option<Estimate> {
    let sample = study.sample("fault", &labels(kind))?;
    let is_drawn = study.method_version >= PLACED && kind != HUGE;
    match kind {
        COLD => Estimate::median(&sample),
        _ if is_drawn => Estimate::of_draws(&sample.by_median()),
        _ => Estimate::undisturbed(&sample),
    }
}

/// Small pages that a fault of a kind maps: those of a batch over its counted faults, launch by launch.
fn pages_per_fault(study: &Study<'_>, kind: &str) -> Option<Estimate> {
    let faults = study.numbered_series("faults", &labels(kind));
    let per_fault: Vec<f64> = faults
        .iter()
        .zip(study.numbered_series("pages", &labels(kind)))
        .filter_map(|((_, faults), (_, pages))| Some(pages.values.first()? / median(&faults.values)?))
        .collect();
    Estimate::over_launches(&per_fault, Unit::One, "median over launches of the pages divided by the counted faults")
}

/// The least and the most faults of the timed batches of a kind, where a launch recorded them. Those that warm up come first, and
/// can meet code that was not there yet.
fn counted_faults(study: &Study<'_>, kind: &str) -> Option<(f64, f64)> {
    let (name, of) = if kind == TOUCH { (TOUCH, touch_labels(SYSTEM)) } else { ("fault", labels(kind)) };
    let timed: BTreeMap<u32, usize> =
        study.numbered_series(name, &of).into_iter().map(|(launch, series)| (launch, series.values.len())).collect();
    let counts = study.numbered_series("faults", &labels(kind));
    let faults = counts.iter().flat_map(|(launch, series)| {
        let warming = timed.get(launch).map_or(0, |timed| series.values.len().saturating_sub(*timed));
        series.values.iter().skip(warming)
    });
    let ends = faults.fold((f64::INFINITY, 0.0_f64), |(least, most), &found| (least.min(found), most.max(found)));
    (ends.0 <= ends.1).then_some(ends)
}

/// G22: every batch took as many faults as it claims.
fn count_gate(study: &Study<'_>, kind: &str, estimate: &Estimate) -> Gate {
    let claimed = estimate.account.operations as f64;
    let Some((least, most)) = counted_faults(study, kind) else {
        return Gate::holds(&COUNTED, false, "no launch recorded its counted faults");
    };
    let pass = [least, most].iter().all(|&found| counted(found as i64, claimed as i64).is_ok());
    let sentence = format!("{} to {} faults counted in batches of {}", number(least), number(most), number(claimed));
    Gate::holds(&COUNTED, pass, sentence)
}

fn fault_gates(study: &Study<'_>, kind: &str, estimate: &Estimate) -> Vec<Gate> {
    let in_nanoseconds = |estimate: &Estimate| match (estimate.unit, study.core) {
        (Unit::Cycles, Some(core)) => estimate.value * core.period().0,
        _ => estimate.value,
    };
    let time = |kind: &str| estimate_of(study, kind).as_ref().map(in_nanoseconds);
    let own = in_nanoseconds(estimate);
    let pages = pages_per_fault(study, kind).map(|found| found.value);
    let mut gates = vec![
        count_gate(study, kind, estimate),
        pages.map_or_else(
            || Gate::holds(&PER_FAULT, false, "the number of pages per fault is unknown"),
            |pages| {
                let what = "the cost is per fault, and a fault maps {} small pages";
                Gate::more_than(&PER_FAULT, Number::plain(pages).named(what), LEAST_PAGES)
            },
        ),
    ];
    if kind == COLD {
        gates.push(gates::floor(&MAJOR, estimate, MAJOR_FLOOR).because("no device answers faster through the kernel"));
        gates.extend(cold_gates(study, own, time(SINGLE)));
        let reads = 1e9 / own;
        gates.extend(limits::of_reads(&study.setup.machine, Some(reads), reads * page_size() as f64));
    } else if estimate.unit == Unit::Cycles {
        gates.push(
            gates::floor(&MINOR, estimate, MINOR_FLOOR).because("an exception and a page-table entry take longer"),
        );
    }
    let mut below = |other: &str, factor: f64, what: &str| {
        if let Some(other) = time(other) {
            gates.push(Gate::at_most(&ORDER, Number::time(own).named("{}"), other * factor).because(what));
        }
    };
    match kind {
        READ => below(WRITE, 1.0, "mapping the page of zeros costs less than providing a page"),
        WRITE => below(COPY, CLEAR_SLACK, "clearing a page costs no more than copying one"),
        HUGE => below(WRITE, HUGE_PAGE as f64 / page_size() as f64, "a huge page costs less than its small pages"),
        _ => {}
    }
    gates
}

/// G23, and G40: a major fault is a read of the device and a minor fault.
fn cold_gates(study: &Study<'_>, own: f64, minor: Option<f64>) -> Vec<Gate> {
    let proof = |name: &str| study.values(name, &labels(COLD));
    let pages = COLD_PAGES as f64;
    let [major, read, cached] = PROOFS.map(|(name, _)| proof(name));
    let proven = !major.is_empty()
        && major.iter().all(|&count| (count - pages).abs() < 0.5)
        && cached.iter().all(|&count| count <= pages)
        && read.iter().all(|&bytes| bytes >= pages * page_size() as f64);
    let mut gates = vec![Gate::holds(
        &PROVEN,
        proven,
        format!(
            "{} batches: no page of the file cached before, {COLD_PAGES} major faults, at least {} read by devices, \
             at most {COLD_PAGES} pages cached after",
            major.len(),
            quantity(read.iter().copied().fold(f64::INFINITY, f64::min), Unit::Bytes)
        ),
    )];
    let direct = study.sample(DIRECT, &Labels::none()).as_ref().and_then(Estimate::median).map(|found| found.value);
    if let (Some(direct), Some(minor)) = (direct, minor) {
        let [read, fault] = [direct, minor].map(|value| quantity(value, Unit::Nanoseconds));
        let reason = format!("a direct read takes {read} and a minor fault {fault}");
        gates.push(Gate::near(&SUM, Number::time(own).named("{}"), direct + minor, PARTS).because(reason));
    }
    gates
}
