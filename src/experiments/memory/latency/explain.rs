//! What the figures mean, in words: how large the caches are and how sure that is, what translation costs, why other tools
//! print other numbers.

use super::judge::{Agreement, RESIDUAL, WIDEST_SIZE, agreement, point_of_rule, rule_labels};
use super::levels::{CURVE, Curves, FootprintPoint, FoundLevels, Named, level_labels};
use super::patterns::{Pattern, RECIPES, Recipe};
use super::seen;
use super::translation::huge_pages_help;
use super::walk::{Scope, curve, pages_label};
use crate::experiments::memory::footprint::MEMORY;
use crate::experiments::memory::tell_nodes;
use crate::experiments::prelude::*;
use crate::results::document::Grade;
use crate::results::drawing_note::MarkPlace;
use crate::results::ratio::in_brackets;
use crate::results::wording::{by_times, count, interval, share};

pub(super) fn explain(study: &Study<'_>, findings: &mut Findings) {
    let (scope, curves, deciding, found) = seen(study);
    tell(study, findings, &scope, &curves, &found, deciding);
}

fn nanoseconds(value: f64) -> String {
    quantity(value, Unit::Nanoseconds)
}

/// A size in a sentence.
fn bytes(value: f64) -> Shown {
    Shown::of(value, Unit::Bytes)
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
    let single = "All memory is on one node, so no remote node was measured.";
    tell_nodes(study, findings, "memory.latency.node", single, |near, far| {
        let (times, [near, far]) = (in_brackets(far, near), [near, far].map(Metric::shown));
        format!("A load from the local node takes {near} at best, and from another node {far} at worst{times}.")
    });
}

fn tell_levels(findings: &mut Findings, found: &FoundLevels, deciding: Option<Pages>) {
    let Some(pages) = deciding else {
        findings.say("Too few footprints were measured to separate the levels.");
        return;
    };
    let of = |level: &Named, pages: Pages| findings.metric("memory.latency.level", &level_labels(&level.name, pages));
    let value = |level: &Named, pages: Pages| Some(nanoseconds(of(level, pages)?.value));
    let pages_in_words = if pages == Pages::Huge { "huge pages" } else { "small pages" };
    let table = pivot(
        &format!("Levels found on the page-blocked curve on {pages_in_words}"),
        &found.levels,
        &[
            ("level", &|level| Some(level.name.clone())),
            ("huge pages", &|level| value(level, Pages::Huge)),
            ("4 KiB pages", &|level| value(level, Pages::Small)),
            ("cycles", &|level| of(level, Pages::Huge).or_else(|| of(level, Pages::Small))?.cycles.map(number)),
            ("ends between", &|level| level.ends.map(|ends| interval(ends, Unit::Bytes))),
            ("kernel reports", &|level| level.claimed.map(|size| quantity(size as f64, Unit::Bytes))),
            ("size", &|level| Some(sureness(level).to_owned())),
        ],
    );
    findings.analysis.extend(table);
    if found.residual > RESIDUAL {
        findings.say(format!(
            "The page-blocked curve deviates by {} from a non-decreasing one (limit {}). Others may have used \
             caches or memory during the measurement, so read the sizes with care.",
            share(found.residual),
            share(RESIDUAL)
        ));
    }
}

/// Shows in the drawing what was found on the curve that decides: where levels lie, where they end, and what is claimed.
fn mark_levels(findings: &mut Findings, scope: &Scope, found: &FoundLevels, deciding: Option<Pages>) {
    let note = findings.figure(CURVE);
    note.divided_by = Some("pattern".to_owned());
    let Some(pages) = deciding else { return };
    let labels = curve(Pattern::PageBlocked, pages);
    note.finding = ends_found(found);
    for level in &found.levels {
        let [from, to] = level.middle;
        // Its name alone: its cost is reported of random walks, and on this curve neighbouring lines come along.
        note.mark(labels.clone(), level.name.clone(), MarkPlace::Plateau { from, to, level: level.latency });
        if let Some([low, high]) = level.ends {
            let at = (low * high).sqrt();
            note.mark(labels.clone(), format!("{} ends", level.name), MarkPlace::Knee { at, low, high });
        }
    }
    for (level, size) in &scope.claims {
        let text = format!("reported: L{level} {}", bytes(*size as f64));
        note.mark(labels.clone(), text, MarkPlace::Claim { at: *size as f64 });
    }
}

/// Where the levels end, next to what is reported, and how the pattern of this curve differs from the one in the tables.
fn ends_found(found: &FoundLevels) -> Option<String> {
    let ends = |level: &Named| {
        let ([low, high], claimed) = (level.ends?, level.claimed? as f64);
        let (name, claim) = (&level.name, bytes(claimed));
        Some(match agreement([low, high], claimed as u64) {
            Agreement::Confirmed => format!("{name} ends at the reported {claim}"),
            Agreement::Possible => {
                format!("{name} ends between {} and {}, and the reported {claim} is possible", bytes(low), bytes(high))
            }
            Agreement::NotConfirmed => {
                format!("{name} ends between {} and {}, but {claim} are reported", bytes(low), bytes(high))
            }
        })
    };
    let told: Vec<String> = found.levels.iter().filter_map(ends).collect();
    let order = "Loads visit one block of 64 KiB after another. Prefetchers then bring neighbouring lines, and translations are \
                 used again, so the times can be below those of random loads in the tables.";
    (!told.is_empty()).then(|| format!("{}. {order}", told.join(". ")))
}

fn sureness(level: &Named) -> &'static str {
    match (level.ends, level.claimed) {
        (Some(ends), Some(claimed)) => match agreement(ends, claimed) {
            Agreement::Confirmed => "confirmed",
            Agreement::Possible => "possible",
            Agreement::NotConfirmed => "not confirmed",
        },
        (Some(_), None) => "found, not reported",
        (None, _) if level.name == MEMORY => "–",
        (None, _) => "end not reached",
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
            findings.say(format!("{sides}. That confirms the {} that the kernel reports.", bytes(claimed)));
            return;
        }
        Agreement::Possible => {
            let why = if last && study.setup.machine.is_guest() {
                "Other guests may use this cache too, and their share changes over time"
            } else if level.name == "L1" {
                "The set index of this cache is within a page, so page placement does not matter, and noise blurs \
                 the end"
            } else {
                "Random physical pages fill the sets of a cache unevenly, and that blurs the end"
            };
            findings.say(format!(
                "{sides}. The {} that the kernel reports is possible but not confirmed. {why}.",
                bytes(claimed)
            ));
            return;
        }
        Agreement::NotConfirmed => {}
    }
    if high > WIDEST_SIZE * low {
        findings.say(format!(
            "{sides}, and the kernel reports {} (not confirmed). These bounds are too far apart for a size.",
            bytes(claimed)
        ));
        return;
    }
    let of_this = |metric: &&Metric| metric.labels.get("level") == Some(level.name.as_str());
    let size = findings.metrics.iter().filter(|metric| metric.name == "memory.latency.level_size").find(of_this);
    let settled = size.is_some_and(|size| matches!(size.grade, Grade::Good | Grade::Rough));
    let why = match (high < claimed, last, study.setup.machine.is_guest()) {
        (true, true, true) if !settled => {
            "Other users of the host's cache can cause this, and this run does not settle the size"
        }
        (true, true, true) => {
            "The hypervisor reports the host's cache, but this guest has only a part of it or shares it. Programs \
             here have the size that was found"
        }
        (true, true, false) => {
            "Other CPUs use this cache too, or a part of it is reserved (resctrl). One core has the size that was \
             found"
        }
        (true, false, _) => {
            "Before the end of this cache the TLB misses, or random physical pages fill the sets unevenly"
        }
        (false, ..) => "The next level is as fast, or the reported size is that of another processor",
    };
    findings.say(format!("{sides}, but the kernel reports {} (not confirmed). {why}.", bytes(claimed)));
}

fn tell_what_is_missing(findings: &mut Findings, found: &FoundLevels) {
    if let Some(reason) = &found.no_memory {
        findings.say(format!("No result is named DRAM: {reason}."));
    }
    for (level, size) in &found.missed {
        let claimed = bytes(*size as f64);
        findings.say(match found.slow.last() {
            Some([from, to]) => format!(
                "The kernel reports an L{level} of {claimed}, but from {} to {} the curve is as slow as memory. \
                 Neighbours left no usable part of that cache.",
                bytes(*from),
                bytes(*to)
            ),
            None => format!(
                "The kernel reports an L{level} of {claimed}, but the curve has no plateau there. The rise to the \
                 next level hides it."
            ),
        });
    }
    for [from, to] in &found.unsteady {
        findings.say(format!(
            "From {} to {} a load took as long as from a cache in some launches and much longer in others. Other users of the cache \
             leave this part of it only at times, so it has no name.",
            bytes(*from),
            bytes(*to)
        ));
    }
    for [from, to] in &found.unclaimed {
        findings.say(format!(
            "From {} to {} the curve has a plateau that matches no reported cache. It has no name.",
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
        findings.metric("memory.latency.translation", &labels).map(|metric| (metric.shown(), metric.cycles_shown()))
    };
    let mut text = String::new();
    if let Some(ends) = reach("first") {
        let pages = ends.map(|end| end / crate::sys::memory::page_size() as f64);
        text += &format!(
            "The first-level TLB covers {} to {} of small pages ({} to {} pages).",
            bytes(ends[0]),
            bytes(ends[1]),
            pages[0].round(),
            pages[1].round()
        );
    }
    if let Some((value, cycles)) = cost("second") {
        text += &format!(
            " A miss there that hits the second-level TLB costs {} more{}.",
            value,
            cycles.map_or_else(String::new, |cycles| format!(" ({cycles} cycles)"))
        );
    }
    if let Some((value, _)) = cost(MEMORY) {
        text += &format!(" Random loads from DRAM take {value} longer on small pages than on huge pages.");
    }
    if huge_pages_help(scope, curves, found) == Some(false) {
        text += if study.setup.machine.is_guest() {
            " Huge pages do not extend the reach of the TLB here. Most likely the hypervisor backs this guest's \
             memory with small pages, which no guest can see, and the TLB holds the smaller size. Part of the \
             latency on huge pages is then translation too."
        } else {
            " Huge pages do not extend the reach of the TLB here."
        };
    }
    if !text.is_empty() {
        findings.say(text.trim_start());
    }
}

fn tell_long(findings: &mut Findings, curves: &Curves) {
    let longer: Vec<(u64, Option<Ratio>)> = curves
        .points(Pattern::Long, Pages::Huge)
        .iter()
        .filter_map(|long| {
            let plain = curves.point(Pattern::Random, Pages::Huge, long.bytes)?;
            let of = |point: &FootprintPoint| (point.latency, point.interval);
            Some((long.bytes, Ratio::between(of(long), of(plain), 1.0)))
        })
        .collect();
    if longer.is_empty() {
        return;
    }
    let all = longer.len();
    let beyond = longer.iter().filter_map(|(bytes, ratio)| Some((*bytes, (*ratio)?)));
    let most = beyond.clone().max_by(|(_, one), (_, other)| one.value.total_cmp(&other.value));
    let above = beyond.count();
    findings.say(match most {
        // A prefetcher shows where it saves something over octaves; one footprint at the end of a cache shows noise.
        Some((at, ratio)) if above * 4 > all => format!(
            "Chains that repeat later take longer at {above} of {all} footprints, by {} at {}. A prefetcher learns \
             sequences here, so use the long curve.",
            by_times(ratio.value),
            bytes(at as f64)
        ),
        _ => format!(
            "Chains that repeat later take no longer at {} of {all} footprints, as far as the intervals show. So there \
             is no sign of a prefetcher that learns the sequence.",
            all - above
        ),
    });
}

fn tell_rules(findings: &mut Findings, curves: &Curves) {
    let of = |rule: &'static Recipe| {
        let point = point_of_rule(curves, rule)?;
        Some((rule, point, findings.metric("memory.latency.by_rule", &rule_labels(rule, point.bytes))?))
    };
    let table = pivot(
        "DRAM latency on this machine by the rules of other tools",
        RECIPES.iter().filter_map(of),
        &[
            ("rule", &|(rule, ..)| Some(rule.what.to_owned())),
            ("buffer", &|(_, point, _)| Some(quantity(point.bytes as f64, Unit::Bytes))),
            ("one load", &|(.., metric)| Some(nanoseconds(metric.value))),
            ("interval", &|(.., metric)| Some(interval(metric.interval95, Unit::Nanoseconds))),
            ("over", &|(.., metric)| Some(count(u64::from(metric.launches), "launch", "launches"))),
            ("why", &|(rule, ..)| Some(rule.why.to_owned())),
        ],
    );
    if table.is_some() {
        findings.say(
            "Tools that report a memory latency chase one large buffer by different rules, and few of them document the \
             rule. The table has sysdyno's measurements by these rules, to compare with the results of other tools.",
        );
    }
    findings.analysis.extend(table);
}
