//! Which figures are published: levels, sizes, other tools' rules, nodes; each with the gates of its operation.

use super::levels::{
    Curves, FootprintPoint, FoundLevels, MEMORY_OVER_CACHE, Named, bounds, estimate_of, in_time, level_labels,
    points_of,
};
use super::patterns::{Pattern, RECIPES, Recipe};
use super::walk::{self, Scope};
use super::{seen, translation};
use crate::evaluate::gate::Rule;
use crate::experiments::memory::footprint::{MEMORY, labelled};
use crate::experiments::prelude::*;
use crate::results::wording::interval;
use crate::statistics::monotone::isotonic_residual;

pub(super) fn figures(study: &Study<'_>, findings: &mut Findings) {
    let (scope, curves, _, found) = seen(study);
    findings.curves = curves.shown();
    publish_levels(study, findings, &scope, &curves, &found);
    translation::publish(study, findings, &scope, &curves, &found);
    publish_rules(study, findings, &curves);
    publish_nodes(study, findings);
}

/// The caches of one core.
const PRIVATE: [&str; 2] = ["L1", "L2"];

/// Fewest footprints from which levels are read.
const FEWEST_FOOTPRINTS: usize = 20;

/// Cycles of a first-level load: a whole number in this range, within the tolerance.
const FIRST_LEVEL_CYCLES: (f64, f64) = (3.0, 6.0);

const WHOLE_TOLERANCE: f64 = 0.02;

/// Cycles of second- and third-level loads.
const SECOND_LEVEL_CYCLES: (f64, f64) = (8.0, 25.0);

const THIRD_LEVEL_CYCLES: (f64, f64) = (20.0, 120.0);

/// No load from DRAM is faster, in nanoseconds.
const MEMORY_FLOOR: f64 = 35.0;

/// A curve may come this close to a decrease (gate G20).
pub(super) const RESIDUAL: f64 = 0.05;

/// Huge pages may not make a load slower than this.
const HUGE_OVER_SMALL: f64 = 1.02;

/// Bounds of a capacity that are further apart than this say nothing of it.
pub(super) const WIDEST_SIZE: f64 = 4.0;

/// A capacity that is found is the one that is claimed within these ratios.
const CONFIRMED: (f64, f64) = (0.7, 1.15);

rules! {
    WIDEST: "G5" Hard "`memory.latency.level_size`", "the bounds of a size are at most {} times apart",
        plain(WIDEST_SIZE);
    SECOND_LEVEL: "G8" Hard "`memory.latency.level` L2", "between {} and {}",
        cycles(SECOND_LEVEL_CYCLES.0), cycles(SECOND_LEVEL_CYCLES.1);
    THIRD_LEVEL: "G8" Noisy "`memory.latency.level` L3", "between {} and {}",
        cycles(THIRD_LEVEL_CYCLES.0), cycles(THIRD_LEVEL_CYCLES.1);
    MEMORY_LEVEL: "G8" Hard "`memory.latency.level` DRAM, `memory.latency.node`", "at least {}", time(MEMORY_FLOOR);
    FIRST_LEVEL: "G20" Hard "`memory.latency.level` L1", "a whole number of cycles from {} to {}, within {}",
        plain(FIRST_LEVEL_CYCLES.0), plain(FIRST_LEVEL_CYCLES.1), share(WHOLE_TOLERANCE);
    HUGE_NOT_DEARER: "G20" Noisy "`memory.latency.level`",
        "a load on huge pages takes at most {} times as long as on small pages", plain(HUGE_OVER_SMALL);
    CACHE_FASTER: "G20" Hard "`memory.latency.level`",
        "memory takes at least {} times as long as a cache, or the plateau is not that of a cache",
        plain(MEMORY_OVER_CACHE);
    LEVELS_RISE: "G20" Hard "`memory.latency.level`", "a level takes at least as long as the level before it";
    PRIVATE_RISES: "G20" Hard "`memory.latency.level` L1, L2", "the curve falls by at most {} within the level",
        share(RESIDUAL);
    CURVE_RISES: "G20" Noisy "`memory.latency.level` L3, DRAM, `memory.latency.level_size`",
        "the curve falls by at most {}", share(RESIDUAL);
    CLAIM: "claim" Remark "`memory.latency.level_size`",
        "the reported size is between the bounds, or both bounds are {} to {} times that size",
        plain(CONFIRMED.0), plain(CONFIRMED.1);
}

/// The pages whose page-blocked curve decides where levels are: huge ones where there are any.
pub(super) fn deciding_pages(curves: &Curves) -> Option<Pages> {
    [Pages::Huge, Pages::Small]
        .into_iter()
        .find(|&pages| curves.points(Pattern::PageBlocked, pages).len() >= FEWEST_FOOTPRINTS)
}

/// Why a first look has memory on one kind of pages only.
const OMITTED: &str = "a quick run omits it, because it takes seconds to fill memory of this size once more";

pub(super) fn publish_levels(
    study: &Study<'_>,
    findings: &mut Findings,
    scope: &Scope,
    curves: &Curves,
    found: &FoundLevels,
) {
    for pages in [Pages::Small, Pages::Huge] {
        let mut before: Option<f64> = None;
        let memory = memory_time(study, curves, found, pages);
        for level in &found.levels {
            let labels = level_labels(&level.name, pages);
            let points = points_of(curves, found, level, pages);
            let Some((_, estimate)) = estimate_of(&points, &level.name) else {
                if level.name == MEMORY && !scope.has_memory(false) {
                    findings.cannot("memory.latency.level", labels, OMITTED);
                }
                continue;
            };
            let time = in_time(study, &estimate);
            let mut own = level_gates(study, level, &points, &estimate, before);
            own.extend(memory.filter(|_| level.name != MEMORY).map(|memory| gate_of_cache(time, memory)));
            if pages == Pages::Huge
                && let Some(small) = findings.metric("memory.latency.level", &level_labels(&level.name, Pages::Small))
            {
                let reason = format!("{HUGE_OVER_SMALL} times a load on small pages");
                let on_huge = Number::time(time).named("{} on huge pages");
                own.push(Gate::at_most(&HUGE_NOT_DEARER, on_huge, small.value * HUGE_OVER_SMALL).because(reason));
            }
            let footprint = points.first().map(|point| point.bytes as f64);
            let named = labelled(labels.clone(), footprint);
            let mut figure = Figure::batches("memory.latency.level", named, &estimate).gates(own);
            if PRIVATE.contains(&level.name.as_str()) {
                figure = figure.of_class(Precision::OF_PRIVATE_CACHES);
            }
            findings.publish(study, figure);
            before = findings.metric("memory.latency.level", &labels).map(|_| time).or(before);
        }
        if let Some(reason) = &found.no_memory {
            findings.cannot("memory.latency.level", level_labels(MEMORY, pages), &format!("not measured: {reason}"));
        }
    }
    for level in &found.levels {
        let served =
            |pages: &Pages| findings.metric("memory.latency.level", &level_labels(&level.name, *pages)).is_some();
        if [Pages::Small, Pages::Huge].iter().any(served) || level.name == MEMORY {
            publish_size(study, findings, found, level);
        } else {
            let labels = Labels::of([("level", level.name.as_str())]);
            findings.cannot("memory.latency.level_size", labels, "this run published no latency of this level");
        }
    }
    for (level, size) in &found.missed {
        let bytes = |bytes: f64| quantity(bytes, Unit::Bytes);
        let what = found.slow.last().map_or_else(
            || "the curve has no separate plateau there".to_owned(),
            |[from, to]| format!("from {} to {} the curve is as slow as memory", bytes(*from), bytes(*to)),
        );
        let (name, reason) = (format!("L{level}"), format!("the kernel reports {}, but {what}", bytes(*size as f64)));
        for pages in [Pages::Small, Pages::Huge] {
            findings.cannot("memory.latency.level", level_labels(&name, pages), &reason);
        }
        findings.cannot("memory.latency.level_size", Labels::of([("level", name.as_str())]), &reason);
    }
    debug_assert!(found.levels.len() <= scope.claims.len().max(4) + 1);
}

/// Latency of memory in nanoseconds.
fn memory_time(study: &Study<'_>, curves: &Curves, found: &FoundLevels, pages: Pages) -> Option<f64> {
    let level = found.levels.iter().find(|level| level.name == MEMORY)?;
    let (_, estimate) = estimate_of(&points_of(curves, found, level, pages), MEMORY)?;
    Some(in_time(study, &estimate))
}

/// A plateau as slow as memory is memory, whatever cache the kernel claims there: neighbours leave nothing of it.
fn gate_of_cache(time: f64, memory: f64) -> Gate {
    let reason = format!("{MEMORY_OVER_CACHE} times this level");
    Gate::at_least(&CACHE_FASTER, Number::time(memory).named("memory takes {}"), MEMORY_OVER_CACHE * time)
        .because(reason)
}

fn memory_floor(study: &Study<'_>, estimate: &Estimate) -> Gate {
    gates::floor_in_time(&MEMORY_LEVEL, study, estimate, MEMORY_FLOOR)
        .because("no DRAM opens a row and returns data in less")
}

fn level_gates(
    study: &Study<'_>,
    level: &Named,
    points: &[&FootprintPoint],
    estimate: &Estimate,
    before: Option<f64>,
) -> Vec<Gate> {
    let time = in_time(study, estimate);
    let cycles = study.core.map(|core| time / core.period().0);
    let mut own = Vec::new();
    let mut within = |rule: &Rule, (least, most): (f64, f64)| {
        own.extend(cycles.map(|cycles| Gate::between(rule, Number::cycles(cycles).named("{}"), least, most)));
    };
    match level.name.as_str() {
        "L1" => {
            if let Some(cycles) = cycles {
                let whole = cycles.round();
                let (least, most) = FIRST_LEVEL_CYCLES;
                let tolerance = Number::share(WHOLE_TOLERANCE).text();
                own.push(Gate::holds(
                    &FIRST_LEVEL,
                    (least..=most).contains(&whole) && (cycles / whole - 1.0).abs() <= WHOLE_TOLERANCE,
                    format!("{cycles:.3} cycles (must be a whole number from {least} to {most}, within {tolerance})"),
                ));
            }
        }
        "L2" => within(&SECOND_LEVEL, SECOND_LEVEL_CYCLES),
        "L3" => within(&THIRD_LEVEL, THIRD_LEVEL_CYCLES),
        MEMORY => own.push(memory_floor(study, estimate)),
        _ => {}
    }
    if let Some(before) = before {
        let least = if level.name == MEMORY { MEMORY_OVER_CACHE } else { 1.0 };
        let reason = format!("{least} times the level before");
        own.push(Gate::at_least(&LEVELS_RISE, Number::time(time).named("{}"), least * before).because(reason));
    }
    let latencies: Vec<f64> = points.iter().map(|point| point.latency).collect();
    if let Some(residual) = isotonic_residual(&latencies).filter(|_| latencies.len() > 1) {
        let rule = if PRIVATE.contains(&level.name.as_str()) { &PRIVATE_RISES } else { &CURVE_RISES };
        own.push(Gate::at_most(
            rule,
            Number::share(residual).named("the curve falls by {} within the level"),
            RESIDUAL,
        ));
    }
    own
}

fn publish_size(study: &Study<'_>, findings: &mut Findings, found: &FoundLevels, level: &Named) {
    let Some([low, high]) = level.ends else { return };
    let labels = Labels::of([("level", level.name.as_str())]);
    let estimate = bounds(study, low, high, "plateaus of the page-blocked curve, bounds over resampled launches");
    let residual = Number::share(found.residual).named("the curve deviates by {} from a non-decreasing one");
    let mut own = vec![Gate::at_most(&CURVE_RISES, residual, RESIDUAL)];
    if let Some(claimed) = level.claimed {
        own.push(Gate::holds(
            &CLAIM,
            agreement([low, high], claimed) != Agreement::NotConfirmed,
            format!(
                "found {}, the kernel reports {}",
                interval([low, high], Unit::Bytes),
                quantity(claimed as f64, Unit::Bytes)
            ),
        ));
    }
    own.push(Gate::at_most(&WIDEST, Number::plain(high / low).named("the bounds are {} times apart"), WIDEST_SIZE));
    findings.publish(study, Figure::bounds("memory.latency.level_size", labels, &estimate).gates(own));
}

/// How bounds and a claim agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Agreement {
    /// Both bounds are the claim, as far as a walk can show.
    Confirmed,
    /// The claim lies between the bounds, and so does much else.
    Possible,
    /// It does not.
    NotConfirmed,
}

/// Whether bounds confirm a claim.
pub(super) fn agreement([low, high]: [f64; 2], claimed: u64) -> Agreement {
    let (least, most) = (claimed as f64 * CONFIRMED.0, claimed as f64 * CONFIRMED.1);
    if least <= low && high <= most {
        Agreement::Confirmed
    } else if low <= most && claimed as f64 <= high {
        Agreement::Possible
    } else {
        Agreement::NotConfirmed
    }
}

/// Labels of a figure by another tool's rule.
pub(super) fn rule_labels(rule: &Recipe, bytes: u64) -> Labels {
    walk::curve(rule.pattern, rule.pages).with("bytes", bytes)
}

/// The largest footprint at which a rule was followed.
pub(super) fn point_of_rule<'a>(curves: &'a Curves, rule: &Recipe) -> Option<&'a FootprintPoint> {
    curves.points(rule.pattern, rule.pages).last()
}

pub(super) fn publish_rules(study: &Study<'_>, findings: &mut Findings, curves: &Curves) {
    for rule in &RECIPES {
        let Some(point) = point_of_rule(curves, rule) else { continue };
        let Some(estimate) = Estimate::median(&point.sample) else { continue };
        findings.publish(study, Figure::batches("memory.latency.by_rule", rule_labels(rule, point.bytes), &estimate));
    }
}

pub(super) fn publish_nodes(study: &Study<'_>, findings: &mut Findings) {
    for (labels, sample) in study.samples("node", |_| false) {
        let Some(estimate) = Estimate::median(&sample) else { continue };
        let own = vec![memory_floor(study, &estimate)];
        findings.publish(study, Figure::batches("memory.latency.node", labels.clone(), &estimate).gates(own));
    }
}
