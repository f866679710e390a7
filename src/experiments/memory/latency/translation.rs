//! What finding the page costs: one line of each page against the same lines packed densely, and small pages against huge.

use super::levels::{Curves, FoundLevels, bounds, in_time, level_labels, points_of};
use super::patterns::Pattern;
use super::walk::{Scope, pages_label};
use crate::evaluate::sample::Sample;
use crate::experiments::memory::footprint::labelled;
use crate::experiments::prelude::*;
use crate::statistics::knee::{Capacity, staircase};

/// Names of the translation buffers, nearest first; what lies beyond the last is the walk.
const BUFFERS: [&str; 2] = ["first", "second"];

/// What the translation pattern shows on one kind of pages.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Translation {
    /// Cost of a load in nanoseconds beyond one whose page is known, per level of translation: the first one is about zero.
    pub(super) costs: Vec<f64>,
    /// Pages at which each level ends.
    pub(super) ends: Vec<Capacity>,
}

/// Bytes of small pages that stand in a translation pattern of this footprint, packed into lines.
fn dense_bytes(bytes: u64, line: u64) -> u64 {
    bytes / (page_size() as u64 / line)
}

/// The levels of translation: the curve of one line per page, less that of as many lines packed densely, above a load of
/// the first-level cache, so that it is a curve like any other.
pub(super) fn translation(scope: &Scope, curves: &Curves, found: &FoundLevels, pages: Pages) -> Option<Translation> {
    let base = found.level("L1")?.latency;
    let (counts, costs): (Vec<f64>, Vec<f64>) = curves
        .points(Pattern::Translation, pages)
        .iter()
        .filter_map(|point| {
            let dense = curves.point(Pattern::Random, pages, dense_bytes(point.bytes, scope.line))?;
            let count = point.bytes as f64 / page_size() as f64;
            Some((count, base + (point.latency - dense.latency).max(0.0)))
        })
        .unzip();
    let stairs = staircase(&counts, &costs, None, None)?;
    let first = stairs.levels.first()?.latency;
    Some(Translation {
        costs: stairs.levels.iter().map(|level| level.latency - first).collect(),
        ends: stairs.capacities,
    })
}

pub(super) fn publish(study: &Study<'_>, findings: &mut Findings, scope: &Scope, curves: &Curves, found: &FoundLevels) {
    if let Some(seen) = translation(scope, curves, found, Pages::Small) {
        for (end, buffer) in seen.ends.iter().zip(BUFFERS) {
            let [low, high] = [end.at_least, end.at_most].map(|count| count * page_size() as f64);
            let estimate = bounds(study, low, high, "plateaus of one line per page, less the same lines packed");
            let labels = Labels::of([("buffer", buffer)]);
            findings.publish(study, Figure::bounds("memory.latency.translation_reach", labels, &estimate));
        }
    }
    publish_differences(study, findings, scope, curves, found);
    if let Some(level) = found.level("DRAM") {
        let sample =
            |pages| Sample::joined(points_of(curves, found, level, pages).into_iter().map(|point| &point.sample));
        let published = |pages| findings.metric("memory.latency.level", &level_labels("DRAM", pages)).cloned();
        // A difference is worth no more than both of its sides.
        let both = published(Pages::Small).zip(published(Pages::Huge));
        if let (Some(small), Some(huge)) = (sample(Pages::Small), sample(Pages::Huge)) {
            if let Some((one, other)) = both {
                let point = points_of(curves, found, level, Pages::Small).first().map(|point| point.bytes as f64);
                publish_difference(study, findings, "DRAM", point, &small, &huge, Some([&one, &other]));
            } else {
                let labels = Labels::of([("found_in", "DRAM"), ("pages", "4k")]);
                findings.cannot(
                    "memory.latency.translation",
                    labels,
                    "this run did not publish one of the two latencies",
                );
            }
        }
    }
}

/// What a load costs more whose page only the second buffer knows: in the middle of that plateau, launch by launch.
fn publish_differences(
    study: &Study<'_>,
    findings: &mut Findings,
    scope: &Scope,
    curves: &Curves,
    found: &FoundLevels,
) {
    let Some(seen) = translation(scope, curves, found, Pages::Small) else { return };
    let Some(first) = seen.ends.first() else { return };
    let beyond = seen.ends.get(1).map_or(f64::INFINITY, |second| second.at_least);
    let pairs: Vec<_> = curves
        .points(Pattern::Translation, Pages::Small)
        .iter()
        .filter(|point| {
            let count = point.bytes as f64 / page_size() as f64;
            count > 1.2 * first.at_most && count < 0.8 * beyond
        })
        .filter_map(|point| {
            let dense = curves.point(Pattern::Random, Pages::Small, dense_bytes(point.bytes, scope.line))?;
            Some((point, dense))
        })
        // Where the packed lines themselves leave a level the difference hangs on a few lines.
        .filter(|(_, dense)| dense.latency < 1.1 * found.level("L1").map_or(0.0, |level| level.latency))
        .collect();
    let spread = Sample::joined(pairs.iter().map(|(point, _)| &point.sample));
    let dense = Sample::joined(pairs.iter().map(|(_, dense)| &dense.sample));
    if let (Some(spread), Some(dense)) = (spread, dense) {
        publish_difference(study, findings, "second", None, &spread, &dense, None);
    }
}

/// Publishes what one of two walks costs more, launch by launch; in memory for a footprint, as the difference of what is published.
fn publish_difference(
    study: &Study<'_>,
    findings: &mut Findings,
    found_in: &str,
    footprint: Option<f64>,
    longer: &Sample,
    shorter: &Sample,
    published: Option<[&Metric; 2]>,
) {
    let (longer, shorter) = (longer.shared_with(shorter), shorter.shared_with(longer));
    let labels = Labels::of([("found_in", found_in)]).with("pages", pages_label(Pages::Small));
    let labels = labelled(labels, footprint);
    let Some(mut net) = Estimate::net(&longer, &shorter) else {
        findings.cannot("memory.latency.translation", labels, "no launch measured both patterns");
        return;
    };
    "median over launches of the difference of p25".clone_into(&mut net.estimator);
    if let Some([longer, shorter]) = published {
        net = match (net.unit, longer.cycles, shorter.cycles) {
            (Unit::Cycles, Some(longer), Some(shorter)) => net.of_published(longer - shorter),
            (Unit::Nanoseconds, ..) => net.of_published(longer.value - shorter.value),
            _ => net,
        };
    }
    if net.value <= 0.0 {
        let reason = format!("the difference of {:.2} ns is not significantly above zero", in_time(study, &net));
        findings.cannot("memory.latency.translation", labels, &reason);
        return;
    }
    let resolved = gates::resolved(&net);
    findings.publish(study, Figure::derived("memory.latency.translation", labels, &net).gates(vec![resolved]));
}

/// Whether huge pages serve translation as they should: with them the first buffer must reach many times as far.
pub(super) fn huge_pages_help(scope: &Scope, curves: &Curves, found: &FoundLevels) -> Option<bool> {
    let small = translation(scope, curves, found, Pages::Small)?;
    let end = small.ends.first()?;
    // The same pages of the same footprint, on memory of huge pages: beyond the first buffer's reach with small pages.
    let beyond = |pages| {
        let points = curves.points(Pattern::Translation, pages).iter();
        let differences: Vec<f64> = points
            .filter(|point| point.bytes as f64 / page_size() as f64 > 1.5 * end.at_most)
            .filter_map(|point| {
                let dense = curves.point(Pattern::Random, pages, dense_bytes(point.bytes, scope.line))?;
                Some(point.latency - dense.latency)
            })
            .collect();
        median(&differences)
    };
    Some(beyond(Pages::Huge)? < beyond(Pages::Small)? / 2.0)
}
