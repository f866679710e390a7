//! What the figures mean, in words: how large the caches are and how sure that is, what translation costs, why other tools
//! print other numbers.

use super::judge::{Agreement, RESIDUAL, agreement, point_of_rule, rule_labels};
use super::levels::{CURVE, Curves, FoundLevels, Named, level_labels};
use super::seen;
use super::translation::huge_pages_help;
use super::walk::{Pattern, RECIPES, Scope, curve, pages_label};
use crate::evaluate::findings::Findings;
use crate::evaluate::study::Study;
use crate::experiments::memory::footprint::MEMORY;
use crate::results::drawing_note::MarkPlace;
use crate::results::quantity::{Labels, Unit};
use crate::results::wording::{count, factor, interval, number, percent, quantity};
use crate::sys::memory::Pages;

pub(super) fn explain(study: &Study<'_>, findings: &mut Findings) {
    let (scope, curves, deciding, found) = seen(study);
    tell(study, findings, &scope, &curves, &found, deciding);
}

/// The long pattern and the plain one agree within this.
const LONG_TOLERANCE: f64 = 1.05;

fn nanoseconds(value: f64) -> String {
    quantity(value, Unit::Nanoseconds)
}

fn bytes(value: f64) -> String {
    quantity(value, Unit::Bytes)
}

pub(super) fn tell(
    study: &Study<'_>,
    findings: &mut Findings,
    scope: &Scope,
    curves: &Curves,
    found: &FoundLevels,
    deciding: Option<Pages>,
) {
    tell_levels(findings, found, deciding);
    mark_levels(findings, scope, found, deciding);
    for level in &found.levels {
        tell_size(study, findings, level);
    }
    tell_what_is_missing(findings, found);
    tell_translation(study, findings, scope, curves, found);
    tell_long(findings, curves);
    tell_rules(findings, curves);
    tell_nodes(study, findings);
}

fn tell_levels(findings: &mut Findings, found: &FoundLevels, deciding: Option<Pages>) {
    let Some(pages) = deciding else {
        findings.say("Too few footprints could be walked to tell levels apart.");
        return;
    };
    let value = |name: &str, pages: Pages| {
        findings.metric("memory.latency.level", &level_labels(name, pages)).map(|metric| metric.value)
    };
    let rows: Vec<Vec<String>> = found
        .levels
        .iter()
        .map(|level| {
            let cycles = findings
                .metric("memory.latency.level", &level_labels(&level.name, Pages::Huge))
                .or_else(|| findings.metric("memory.latency.level", &level_labels(&level.name, Pages::Small)))
                .and_then(|metric| metric.cycles);
            let dash = || "–".to_owned();
            vec![
                level.name.clone(),
                value(&level.name, Pages::Huge).map_or_else(dash, nanoseconds),
                value(&level.name, Pages::Small).map_or_else(dash, nanoseconds),
                cycles.map_or_else(dash, number),
                level.ends.map_or_else(dash, |ends| interval(ends, Unit::Bytes)),
                level.claimed.map_or_else(dash, |size| bytes(size as f64)),
                sureness(level).to_owned(),
            ]
        })
        .collect();
    let pages_in_words = if pages == Pages::Huge { "huge pages" } else { "small pages" };
    findings.tabulate(
        &format!("Levels that the page-blocked curve on {pages_in_words} shows"),
        &["level", "huge pages", "4 KiB pages", "cycles", "ends between", "the kernel claims", "size"],
        rows,
    );
    if found.residual > RESIDUAL {
        findings.say(format!(
            "The deciding curve is {} away from a non-decreasing one somewhere, more than {}: neighbours took caches or memory while it was walked, and sizes are to be read with care.",
            percent(found.residual),
            percent(RESIDUAL)
        ));
    }
}

/// Shows in the drawing what was found on the curve that decides: where levels lie, where they end, and what is claimed.
fn mark_levels(findings: &mut Findings, scope: &Scope, found: &FoundLevels, deciding: Option<Pages>) {
    let note = findings.figure(CURVE);
    note.divided_by = Some("pattern".to_owned());
    let Some(pages) = deciding else { return };
    let labels = curve(Pattern::PageBlocked, pages);
    for level in &found.levels {
        let [from, to] = level.middle;
        // Its name alone: what it costs is told of random walks, and on this curve neighbouring lines come along.
        note.mark(labels.clone(), level.name.clone(), MarkPlace::Plateau { from, to, level: level.latency });
        if let Some([low, high]) = level.ends {
            let at = (low * high).sqrt();
            note.mark(labels.clone(), format!("{} ends", level.name), MarkPlace::Knee { at, low, high });
        }
    }
    for (level, size) in &scope.claims {
        let text = format!("claimed: L{level} {}", bytes(*size as f64));
        note.mark(labels.clone(), text, MarkPlace::Claim { at: *size as f64 });
    }
}

fn sureness(level: &Named) -> &'static str {
    match (level.ends, level.claimed) {
        (Some(ends), Some(claimed)) => match agreement(ends, claimed) {
            Agreement::Confirmed => "confirmed",
            Agreement::Possible => "possible",
            Agreement::NotConfirmed => "not confirmed",
        },
        (Some(_), None) => "found, nothing is claimed",
        (None, _) if level.name == MEMORY => "–",
        (None, _) => "its end is not reached",
    }
}

fn tell_size(study: &Study<'_>, findings: &mut Findings, level: &Named) {
    let (Some([low, high]), Some(claimed)) = (level.ends, level.claimed) else { return };
    let claimed = claimed as f64;
    let sides = format!("{} ends between {} and {}", level.name, bytes(low), bytes(high));
    let last = study
        .setup
        .machine
        .last_level_cache(study.setup.cpu)
        .is_some_and(|cache| format!("L{}", cache.level) == level.name);
    match agreement([low, high], claimed as u64) {
        Agreement::Confirmed => {
            findings.say(format!("{sides}. That confirms the {} that the kernel claims.", bytes(claimed)));
            return;
        }
        Agreement::Possible => {
            let why = if last && study.setup.machine.is_guest() {
                "Others that are not seen here use this cache too, and how much of it is left changes from moment to moment"
            } else if level.name == "L1" {
                "Its sets are chosen within a page, so that the place of pages does not matter: noise draws the end out"
            } else {
                "Where physical pages lie at random they fill the sets of a cache unevenly, and its end is drawn out"
            };
            findings
                .say(format!("{sides}. The {} that the kernel claims are possible, no more. {why}.", bytes(claimed)));
            return;
        }
        Agreement::NotConfirmed => {}
    }
    let why = match (high < claimed, last, study.setup.machine.is_guest()) {
        (true, true, true) => {
            "This is a guest: the hypervisor reports the cache of the host, which others that are not seen here use too, or of which this guest is given a part. What a program has is what was found"
        }
        (true, true, false) => {
            "Others use it too, or a part of it is set aside (resctrl); what one core has is what was found"
        }
        (true, false, _) => {
            "Before its end the pages are no longer in the translation buffers, or random physical pages fill its sets unevenly"
        }
        (false, ..) => "What lies behind it is as fast, or the claim is another processor's",
    };
    findings.say(format!("{sides}, the kernel claims {}: not confirmed. {why}.", bytes(claimed)));
}

fn tell_what_is_missing(findings: &mut Findings, found: &FoundLevels) {
    if let Some(reason) = &found.no_memory {
        findings.say(format!("Nothing here is called DRAM: {reason}."));
    }
    for (level, size) in &found.missed {
        let claimed = bytes(*size as f64);
        findings.say(match found.slow.last() {
            Some([from, to]) => format!(
                "The kernel claims an L{level} of {claimed}, but from {} to {} the curve is as slow as memory: nothing of that cache \
                 was left to this machine's own lines.",
                bytes(*from),
                bytes(*to)
            ),
            None => format!(
                "The kernel claims an L{level} of {claimed}, but no part of the curve is level there: it is hidden in the rise to \
                 the next level."
            ),
        });
    }
    for [from, to] in &found.unclaimed {
        findings.say(format!(
            "From {} to {} the curve has a level of its own that no claimed cache explains; it gets no name.",
            bytes(*from),
            bytes(*to)
        ));
    }
}

fn tell_translation(study: &Study<'_>, findings: &mut Findings, scope: &Scope, curves: &Curves, found: &FoundLevels) {
    let reach = |buffer: &str| {
        findings
            .metric("memory.latency.translation_reach", &Labels::of([("buffer", buffer)]))
            .map(|found| found.interval95)
    };
    let cost = |found_in: &str| {
        let labels = Labels::of([("found_in", found_in), ("pages", pages_label(Pages::Small))]);
        findings.metric("memory.latency.translation", &labels).map(|metric| (metric.value, metric.cycles))
    };
    let mut text = String::new();
    if let Some(ends) = reach("first") {
        let pages = ends.map(|end| end / crate::sys::memory::page_size() as f64);
        text += &format!(
            "The first translation buffer covers {} of small pages ({} to {} pages).",
            interval(ends, Unit::Bytes),
            number(pages[0]),
            number(pages[1])
        );
    }
    if let Some((value, cycles)) = cost("second") {
        text += &format!(
            " A page that it has lost and the next buffer knows costs {} more{}.",
            nanoseconds(value),
            cycles.map_or_else(String::new, |cycles| format!(" ({} cycles)", number(cycles)))
        );
    }
    if let Some((value, _)) = cost(MEMORY) {
        text += &format!(" Random loads from DRAM cost {} more on small pages than on huge ones.", nanoseconds(value));
    }
    if huge_pages_help(scope, curves, found) == Some(false) {
        text += if study.setup.machine.is_guest() {
            " Huge pages do not widen the reach of the translation buffers here: most likely the hypervisor keeps this guest's memory in small pages, which no guest can see, and the processor remembers the smaller of both. Part of the latency on huge pages is then translation too."
        } else {
            " Huge pages do not widen the reach of the translation buffers here."
        };
    }
    if !text.is_empty() {
        findings.say(text.trim_start());
    }
}

fn tell_long(findings: &mut Findings, curves: &Curves) {
    let pairs: Vec<(u64, f64)> = curves
        .points(Pattern::Long, Pages::Huge)
        .iter()
        .filter_map(|long| {
            let plain = curves.point(Pattern::Random, Pages::Huge, long.bytes)?;
            Some((long.bytes, long.latency / plain.latency))
        })
        .collect();
    let Some((at, most)) = pairs.iter().copied().max_by(|one, other| one.1.total_cmp(&other.1)) else { return };
    // A prefetcher shows where it saves something over octaves; one footprint at the end of a cache shows noise.
    let above = pairs.iter().filter(|(_, ratio)| *ratio > LONG_TOLERANCE).count();
    findings.say(if above * 4 > pairs.len() {
        format!(
            "Walks that repeat themselves later cost more at {above} of {} footprints, by {} at {}: a prefetcher learns sequences here, and the long curve is the honest one.",
            pairs.len(),
            factor(most),
            bytes(at as f64)
        )
    } else {
        format!(
            "Walks that repeat themselves later cost the same at {} of {} footprints (within {}): no prefetcher learns the sequence.",
            pairs.len() - above,
            pairs.len(),
            percent(LONG_TOLERANCE - 1.0)
        )
    });
}

fn tell_rules(findings: &mut Findings, curves: &Curves) {
    let rows: Vec<Vec<String>> = RECIPES
        .iter()
        .filter_map(|rule| {
            let point = point_of_rule(curves, rule)?;
            let metric = findings.metric("memory.latency.by_rule", &rule_labels(rule, point.bytes))?;
            Some(vec![
                rule.what.to_owned(),
                bytes(point.bytes as f64),
                nanoseconds(metric.value),
                interval(metric.interval95, Unit::Nanoseconds),
                count(u64::from(metric.launches), "launch", "launches"),
                rule.why.to_owned(),
            ])
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    findings.say(
        "Tools that print a memory latency walk one large buffer by rules of their own, and few say which. These are this tool's own measurements by those rules: whoever holds another number finds it, and its reason, in the table.",
    );
    findings.tabulate(
        "What other tools call DRAM latency here",
        &["rule", "buffer", "one load", "interval", "over", "why"],
        rows,
    );
}

fn tell_nodes(study: &Study<'_>, findings: &mut Findings) {
    let pairs: Vec<_> = findings.metrics.iter().filter(|metric| metric.name == "memory.latency.node").collect();
    let local: Vec<f64> = pairs
        .iter()
        .filter(|metric| metric.labels.get("cpu_node") == metric.labels.get("memory_node"))
        .map(|metric| metric.value)
        .collect();
    let remote =
        |metric: &&&crate::results::document::Metric| metric.labels.get("cpu_node") != metric.labels.get("memory_node");
    let farthest = pairs.iter().filter(remote).map(|metric| metric.value).reduce(f64::max);
    let nearest = local.iter().copied().reduce(f64::min);
    let text = match (study.setup.machine.memory.nodes.len(), nearest, farthest) {
        (0 | 1, ..) => "All memory is on one node: there is no farther one.".to_owned(),
        (_, Some(near), Some(far)) => format!(
            "A node's own memory is {} away at best, another node's {} at worst: {}.",
            nanoseconds(near),
            nanoseconds(far),
            factor(far / near)
        ),
        (nodes, ..) => format!("There are {nodes} nodes, but this run could not compare them."),
    };
    findings.say(text);
}
