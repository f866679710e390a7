//! The rates that streams give, and what must hold between levels, operations and numbers of threads.

use super::{BUS_RATE, NODE, RATE, about, scaling};
use crate::evaluate::gate::Rule;
use crate::evaluate::sample::Sample;
use crate::experiments::memory::footprint::{self, MEMORY};
use crate::experiments::memory::{buffer, streams};
use crate::experiments::prelude::*;
use crate::machine::Fact;
use crate::results::quantity::DISTANCE;
use crate::sys::stream::{Operation, Vectors};

/// No core loads more vectors in a cycle.
const MOST_VECTORS: f64 = 4.0;

/// How far a rate may be below another that it should reach, and above what carries it at most.
const LESS: f64 = 0.95;

/// How far a rate may be above a physical ceiling.
const SLACK: f64 = 1.02;

/// The same for a ceiling whose number of channels is read from names.
const FAR_SLACK: f64 = 2.0;

const COPY_SLACK: f64 = 1.05;

const THREADS_SLACK: f64 = 1.1;

/// Of a cache that others use too. Records of calm hours are within 1 % on Zen 4 and Redwood Cove. Of ten busy hours on Zen 4, nine
/// are within 8 %. Records of Golden Cove and Zen 5 are within 13 %.
const OF_SHARED_CACHE: Precision = Precision { target: 0.1, between: 0.03, busy: 0.1 };

pub(super) fn figures(study: &Study<'_>, findings: &mut Findings) {
    let mut measured: Vec<&Labels> = Vec::new();
    for launch in &study.launches {
        for series in launch.series.iter().filter(|series| series.name == "stream") {
            if !measured.contains(&&series.labels) {
                measured.push(&series.labels);
            }
        }
    }
    // Launches measure in random order, the report does not.
    let order = |labels: &&Labels| {
        let level = labels.get("level").unwrap_or_default();
        let operation = labels.get("operation").and_then(Operation::named);
        (
            labels.get("threads").and_then(|threads| threads.parse::<usize>().ok()),
            labels.get("pages").is_some(),
            ["L1", "L2", "L3"].iter().position(|name| *name == level).unwrap_or(usize::MAX),
            Operation::ALL.iter().position(|of| Some(*of) == operation),
        )
    };
    measured.sort_by_key(order);
    for labels in measured {
        let Some(sample) = study.sample("stream", labels) else { continue };
        publish_stream(study, findings, labels, &sample);
    }
    findings.curves = scaling::curves(study, findings);
    publish_nodes(study, findings);
}

pub(super) fn publish_stream(study: &Study<'_>, findings: &mut Findings, labels: &Labels, sample: &Sample) {
    let (Some(operation), Some(level)) = (labels.get("operation").and_then(Operation::named), labels.get("level"))
    else {
        return;
    };
    let own = stream_gates(study, operation, level, labels, sample);
    let named = footprint::labelled(labels.clone(), footprint::recorded(study, &about(level, labels)));
    let figure = Figure::rate(RATE, named.clone(), sample, 1.0).gates(own.clone());
    findings.publish(study, class_of(level).map_or(figure.clone(), |class| figure.of_class(class)));
    let cache = ["L1", "L2", "L3"].contains(&level);
    if !cache && labels.get("pages").is_none() {
        findings.publish(study, Figure::rate(BUS_RATE, named, sample, operation.bus_factor()).gates(own));
    }
}

/// What is asked of the rates of a cache. None where it is what is asked of memory.
fn class_of(level: &str) -> Option<Precision> {
    match level {
        "L1" | "L2" => Some(Precision::OF_PRIVATE_CACHES),
        "L3" => Some(OF_SHARED_CACHE),
        _ => None,
    }
}

/// Publishes what was read between nodes.
fn publish_nodes(study: &Study<'_>, findings: &mut Findings) {
    let samples = study.samples("node", |_| false);
    let rate = |cost: f64| 1e9 / cost;
    let peak = study.setup.machine.memory.peak_bytes_per_second.as_ref();
    for (labels, sample) in &samples {
        let Some(cost) = Estimate::median(sample).map(|estimate| estimate.value) else { continue };
        let gates = peak_gates(peak, rate(cost));
        findings.publish(study, Figure::rate(NODE, (*labels).clone(), sample, 1.0).gates(gates));
    }
}

/// The channels are counted by names of the firmware: what misses their peak by little is a doubt of the count.
fn peak_gates(peak: Option<&Fact<u64>>, rate: f64) -> Vec<Gate> {
    let gate = |peak: &Fact<u64>, rule: &Rule, slack: f64| {
        let reason = format!("{slack} times the peak of all channels ({})", peak.source);
        Gate::at_most(rule, Number::rate(rate).named("{}"), peak.value as f64 * slack).because(reason)
    };
    peak.map_or_else(Vec::new, |peak| vec![gate(peak, &PEAK, SLACK), gate(peak, &FAR_PEAK, FAR_SLACK)])
}

/// Median cost of a byte in nanoseconds, whatever the sample is in.
pub(super) fn nanoseconds_per_byte(study: &Study<'_>, sample: &Sample) -> Option<f64> {
    let estimate = Estimate::median(sample)?;
    let scale = if sample.unit == Unit::Cycles { study.core?.period().0 } else { 1.0 };
    Some(estimate.value * scale)
}

/// Rate in bytes per second of another stream of the same run.
pub(super) fn rate_of(study: &Study<'_>, labels: &Labels) -> Option<f64> {
    Some(1e9 / nanoseconds_per_byte(study, &study.sample("stream", labels)?)?)
}

rules! {
    VECTORS: "G8" Hard "`memory.bandwidth` of L1", "at most {} times {} vectors per cycle",
        plain(SLACK), plain(MOST_VECTORS);
    FIRST_CACHE: "G21" Hard "`memory.bandwidth`", "L1 is at least {} times as fast as L2", plain(LESS);
    OTHER_CACHES: "G21" Noisy "`memory.bandwidth`", "L2 is at least {} times as fast as L3, and L3 as DRAM",
        plain(LESS);
    PAST_CACHES: "G21" Remark "`memory.bandwidth`",
        "stores past the caches are at least {} times as fast as plain stores", plain(LESS);
    COPYING: "G21" Noisy "`memory.bandwidth`", "a copy is at most {} times as fast as a read", plain(COPY_SLACK);
    THREADS: "G21" Noisy "`memory.bandwidth`", "N threads reach between {} times and {} N times the rate of one thread",
        plain(LESS), plain(THREADS_SLACK);
    PEAK: "G21" Noisy "`memory.bandwidth` of DRAM, of each node",
        "at most {} times the peak of the channels, where the peak is known", plain(SLACK);
    FAR_PEAK: "G21" Hard "`memory.bandwidth` of DRAM, of each node",
        "at most {} times that peak, which is more than the firmware's names can hide", plain(FAR_SLACK);
}

pub(super) fn stream_gates(
    study: &Study<'_>,
    operation: Operation,
    level: &str,
    labels: &Labels,
    sample: &Sample,
) -> Vec<Gate> {
    let Some(rate) = nanoseconds_per_byte(study, sample).map(|cost| 1e9 / cost) else { return Vec::new() };
    let threads: usize = labels.get("threads").and_then(|threads| threads.parse().ok()).unwrap_or(1);
    let own = Number::rate(rate);
    let mut gates = Vec::new();
    let mut least = |rule: &Rule, floor: Option<f64>, what: &str| {
        let gate =
            |least: f64| Gate::at_least(rule, own.named("{}"), least * LESS).because(format!("{LESS} times {what}"));
        gates.extend(floor.map(gate));
    };
    // Threads together are compared at the same distance of their CPUs.
    let at = |operation: Operation, level: &str, threads| {
        let wanted = streams::labels(operation, level, threads);
        let distance = labels.get(DISTANCE).filter(|_| threads > 1);
        rate_of(study, &distance.map_or(wanted.clone(), |distance| wanted.with(DISTANCE, distance)))
    };
    let plain = labels.get("pages").is_none();
    let next = match level {
        "L1" => Some(("L2", &FIRST_CACHE)),
        "L2" => Some(("L3", &OTHER_CACHES)),
        "L3" => Some((MEMORY, &OTHER_CACHES)),
        _ => None,
    };
    if let Some((next, rule)) = next {
        least(rule, at(operation, next, 1), next);
    }
    if plain && operation == Operation::WriteNt {
        least(&PAST_CACHES, at(Operation::Write, level, threads), "plain stores");
    }
    if plain && threads > 1 {
        least(&THREADS, at(operation, level, 1), "one thread");
    }
    let mut most = |rule: &Rule, ceiling: Option<f64>, slack: f64, what: &str| {
        let gate =
            |most: f64| Gate::at_most(rule, own.named("{}"), most * slack).because(format!("{slack} times {what}"));
        gates.extend(ceiling.map(gate));
    };
    if level == "L1" {
        let widest = study.remarks("vectors.cache").first().and_then(|name| Vectors::bytes_of(name));
        let ceiling = widest.zip(study.core).map(|(bytes, core)| MOST_VECTORS * bytes as f64 * core.0);
        most(&VECTORS, ceiling, SLACK, "four vectors per cycle, more than any core moves");
    }
    if operation.copies() && plain {
        most(&COPYING, at(Operation::Read, level, threads), COPY_SLACK, "reading");
    }
    if threads > 1 {
        most(
            &THREADS,
            at(operation, level, 1).map(|one| one * threads as f64),
            THREADS_SLACK,
            "the sum of the threads' own rates",
        );
    }
    if level == MEMORY {
        gates.extend(peak_gates(study.setup.machine.memory.peak_bytes_per_second.as_ref(), rate));
        gates.push(buffer::footprint_gate(study, &about(level, labels), threads));
    }
    let pages = labels.get("pages").unwrap_or("huge");
    gates.extend(buffer::account_gates(study, &about(level, labels).with("pages", pages)));
    gates
}
