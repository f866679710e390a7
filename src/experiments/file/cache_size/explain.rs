//! Where the cache ends, and why.

use super::{BYTES, LIMITS, SLOWER, SWEEP, UNCONFIRMED, bounded, full};
use crate::experiments::prelude::*;
use crate::results::drawing_note::{MarkPlace, Scale};
use crate::results::wording::{by_times, duration, mark as size_of};

pub(super) fn explain(study: &Study<'_>, findings: &mut Findings) {
    for limit in LIMITS {
        mark(findings, &bounded(limit), Some(limit));
    }
    mark(findings, &full(), None);
    narrate(study, findings);
}

/// Marks on a curve what was found.
pub(super) fn mark(findings: &mut Findings, labels: &Labels, limit: Option<u64>) {
    if !findings.curves.iter().any(|curve| curve.labels == *labels) {
        return;
    }
    let found = findings.metric(BYTES, labels).map(|metric| (metric.value, metric.interval95));
    let note = findings.figure(SWEEP);
    note.x_scale = Scale::Logarithmic;
    note.y_scale = Scale::Logarithmic;
    note.caption = Some("Bytes still cached after they were read once".to_owned());
    if let Some((at, [low, high])) = found {
        note.mark(labels.clone(), "size of the cache", MarkPlace::Knee { at, low, high });
    }
    if let Some(limit) = limit {
        note.mark(labels.clone(), "limit of the group", MarkPlace::Level { at: limit as f64 });
    }
}

pub(super) fn narrate(study: &Study<'_>, findings: &mut Findings) {
    let size = |bytes: f64| quantity(bytes, Unit::Bytes);
    let of = |limit: &u64| findings.metric(BYTES, &bounded(*limit));
    let end = |limit: &u64, end: usize| Some(size(of(limit)?.interval95[end]));
    let middle = |name: &str, limit: &u64| median(&study.values(name, &bounded(*limit)));
    let time = |name: &str, limit: &u64| Some(quantity(study.nanoseconds(middle(name, limit)?), Unit::Nanoseconds));
    let table = pivot(
        "What groups of known size keep, and how long a read of 4 KiB takes on a hit and on a miss",
        LIMITS.into_iter().filter(|limit| of(limit).is_some()),
        &[
            ("limit", &|limit| Some(size(*limit as f64))),
            ("cache", &|limit| Some(of(limit)?.text())),
            ("share", &|limit| Some(percent(of(limit)?.value / *limit as f64))),
            ("largest whole file", &|limit| end(limit, 0)),
            ("most cached", &|limit| end(limit, 1)),
            ("other charges", &|limit| middle("charged_else", limit).map(size)),
            ("hit", &|limit| time("hit", limit)),
            ("miss", &|limit| time("miss", limit)),
        ],
    );
    if let Some(metric) = LIMITS.iter().rev().find_map(|&limit| findings.metric(BYTES, &bounded(limit))) {
        let limit = metric.labels.get("limit").and_then(|text| text.parse::<f64>().ok()).unwrap_or(metric.value);
        let text = format!(
            "A group of {} keeps {} of file data, {} of its limit. A file of up to {} is fully cached after one read. \
             At most {} of a larger file stay cached.",
            size_of(limit, Unit::Bytes),
            metric.shown(),
            percent(metric.value / limit),
            Shown::of(metric.interval95[0], Unit::Bytes),
            Shown::of(metric.interval95[1], Unit::Bytes)
        );
        findings.say(text);
    }
    findings.analysis.extend(table);
    let (hit, miss) = LIMITS.iter().fold((Vec::new(), Vec::new()), |(mut hits, mut misses), &limit| {
        hits.extend(study.values("hit", &bounded(limit)));
        misses.extend(study.values("miss", &bounded(limit)));
        (hits, misses)
    });
    if let Some((hit, miss)) = median(&hit).zip(median(&miss)).filter(|(hit, _)| *hit > 0.0) {
        let confirms = miss > SLOWER * hit;
        let word =
            if confirms { "Read times confirm the result" } else { "Read times do not distinguish hits from misses" };
        let [hit, miss] = [hit, miss].map(|ticks| Shown::of(study.nanoseconds(ticks), Unit::Nanoseconds));
        findings.say(format!(
            "{word}. The median read of a cached block took {hit}, of a block that was not cached {miss}{}.",
            if confirms { format!(" ({})", by_times(miss.value / hit.value)) } else { String::new() }
        ));
    } else if let Some(why) = study.remarks(UNCONFIRMED).first() {
        findings.say(format!("No read times confirm the result, because {why}."));
    }
    match (study.prediction(BYTES, &full()), findings.metric(BYTES, &full())) {
        (Some(prediction), None) => findings.say(format!(
            "According to the kernel's counters, the file cache of this machine can grow to {} (range {} to {}). \
             The option --full-cache measures it, and evicts what other programs have cached.",
            Shown::of(prediction.value, Unit::Bytes),
            Shown::of(prediction.low, Unit::Bytes),
            Shown::of(prediction.high, Unit::Bytes)
        )),
        (_, Some(metric)) => {
            let text = of_filling(study, &metric.shown().to_string());
            findings.say(text);
        }
        _ => {}
    }
}

/// How the whole cache was filled, and what was taken back early.
pub(super) fn of_filling(study: &Study<'_>, kept: &str) -> String {
    let with = study.remarks("full.with").first().copied().unwrap_or("data");
    let ended = study.remarks("full.ended").first().copied().unwrap_or("the log does not give the reason");
    let mut text =
        format!("Filled with {with}, the cache of this machine kept {kept}. The pass ended because {ended}.");
    let last = |name: &str| study.values(name, &full()).last().copied();
    if let Some((nanoseconds, read)) = last("filling").zip(last("read")).filter(|(_, read)| *read > 0.0) {
        let seconds = nanoseconds / 1e9;
        let pace = duration(seconds / (read / f64::from(1 << 30)));
        text += &format!(" It took {}, or {pace} for a gibibyte.", duration(seconds));
    }
    if let Some(taken) = last("taken_early").filter(|taken| *taken > 0.0) {
        let by: Vec<String> = study
            .setup
            .machine
            .memory
            .reclaimers
            .iter()
            .map(|fact| format!("{} ({})", fact.value, fact.source))
            .collect();
        let by = if by.is_empty() { "the kernel does not show the cause".to_owned() } else { by.join(", ") };
        text += &format!(
            " During the pass the kernel reclaimed {} although memory was unused: {by}.",
            Shown::of(taken, Unit::Bytes)
        );
    }
    text
}
