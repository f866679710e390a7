//! From curves to figures: the gates of the cache's size.

use super::{BYTES, SLOWER, Swept, draw, full};
use crate::evaluate::estimate::Estimate;
use crate::evaluate::findings::Findings;
use crate::evaluate::study::Study;
use crate::results::quantity::{Labels, Unit};
use crate::results::verdict::{Gate, Severity};
use crate::results::wording::{interval, percent, quantity};
use crate::statistics::summary::median;

/// What was read beyond so many limits must have evicted something.
const BEYOND: f64 = 1.05;
/// A cache smaller than this share of what it may have was held down by something else.
const LEAST_SHARE: f64 = 0.5;
/// Widest interval, as a share of the limit: two looks, or what the kernel takes back at once.
const WIDEST: f64 = 0.05;
/// Standard errors by which the share of cached blocks may differ from that of resident pages, and what the probes change.
const ERRORS: f64 = 4.0;
const PROBED: f64 = 0.02;
/// Share of the pages that were read which the kernel may have forgotten.
const FORGOTTEN: f64 = 0.05;

pub(super) fn publish_bounded(study: &Study<'_>, findings: &mut Findings, limit: u64, swept: &Swept) {
    let most = limit as f64;
    let of_launch = |points: &Vec<(f64, f64)>| {
        let beyond = points.iter().filter(|(read, _)| *read >= most * BEYOND).map(|(_, resident)| *resident);
        median(&beyond.collect::<Vec<f64>>())
    };
    let sizes: Vec<f64> = swept.launches.iter().filter_map(of_launch).collect();
    let what = "median over launches of the median that is resident beyond the limit; bounds: largest whole size, most resident";
    let Some(mut estimate) = Estimate::over_launches(&sizes, Unit::Bytes, what) else { return };
    let (whole, high) = swept.bounds();
    estimate.interval = [whole.min(estimate.value), high.max(estimate.value)];
    let width = (estimate.interval[1] - estimate.interval[0]) / most;
    let mut gates = vec![
        Gate::of(
            "G38",
            Severity::Hard,
            // None was whole where something takes pages back early. That widens the interval, and the size still holds.
            high <= most && high > 0.0,
            format!(
                "between {}, by residency; the limit is {}",
                interval(estimate.interval, Unit::Bytes),
                quantity(most, Unit::Bytes)
            ),
        ),
        Gate::of(
            "G38",
            Severity::Noisy,
            estimate.value >= LEAST_SHARE * most,
            format!("{} of the limit; at least {}", percent(estimate.value / most), percent(LEAST_SHARE)),
        ),
        Gate::of(
            "interval",
            Severity::Noisy,
            width <= WIDEST,
            format!("bounds {} of the limit apart; at most {}", percent(width), percent(WIDEST)),
        ),
    ];
    gates.extend(of_pages(study, &swept.labels));
    gates.extend(of_probes(study, &swept.labels));
    gates.extend(of_time(study, &swept.labels));
    findings.publish_bounds(study, BYTES, swept.labels.clone(), &estimate, gates);
    draw(findings, swept, Some(limit));
}

/// What is resident and what was evicted are what was read.
fn of_pages(study: &Study<'_>, labels: &Labels) -> Vec<Gate> {
    let last = |name: &str| -> Vec<f64> {
        study.series(name, labels).iter().filter_map(|series| series.values.last().copied()).collect()
    };
    let (read, resident, evicted) = (last("read"), last("resident"), last("evicted"));
    if evicted.len() != read.len() {
        return Vec::new();
    }
    let sums: Vec<(f64, f64)> =
        read.iter().zip(resident.iter().zip(&evicted)).map(|(read, (in_it, gone))| (*read, in_it + gone)).collect();
    let Some(share) = median(&sums.iter().map(|(read, sum)| sum / read).collect::<Vec<f64>>()) else {
        return Vec::new();
    };
    let text = format!("resident and evicted pages are {} of those that were read", percent(share));
    vec![
        Gate::of("G38", Severity::Hard, sums.iter().all(|(read, sum)| sum <= read), text.clone()),
        // The kernel prunes its memory of evicted pages where they are many.
        Gate::of("G38", Severity::Remark, share >= 1.0 - FORGOTTEN, text),
    ]
}

/// Reads that are answered from the cache alone say the same as the count of its pages.
fn of_probes(study: &Study<'_>, labels: &Labels) -> Option<Gate> {
    let (mut hits, mut probes) = (0.0, 0.0);
    for series in study.series("hits", labels) {
        hits += series.values.first()?;
        probes += series.values.get(1)?;
    }
    let (read, resident) = (study.series("read", labels), study.series("resident", labels));
    let shares: Vec<f64> = read
        .iter()
        .zip(&resident)
        .filter_map(|(read, resident)| Some(resident.values.last()? / read.values.last()?))
        .collect();
    let expected = median(&shares)?;
    if probes <= 0.0 {
        return None;
    }
    let error = (expected * (1.0 - expected) / probes).max(0.0).sqrt();
    Some(Gate::of(
        "G38",
        Severity::Noisy,
        (hits / probes - expected).abs() <= ERRORS * error + PROBED,
        format!(
            "{hits} of {probes} random blocks were answered by the cache, {}; {} of the pages are resident",
            percent(hits / probes),
            percent(expected)
        ),
    ))
}

/// A block that is not cached takes longer.
fn of_time(study: &Study<'_>, labels: &Labels) -> Option<Gate> {
    let (hit, miss) = (median(&study.values("hit", labels))?, median(&study.values("miss", labels))?);
    Some(Gate::of(
        "time",
        Severity::Remark,
        miss > SLOWER * hit,
        format!(
            "a cached block took {}, another {}; at least {SLOWER} times as long",
            quantity(study.nanoseconds(hit), Unit::Nanoseconds),
            quantity(study.nanoseconds(miss), Unit::Nanoseconds)
        ),
    ))
}

pub(super) fn publish_full(study: &Study<'_>, findings: &mut Findings, swept: &Swept) {
    let remark = |what: &str| study.remarks(what).first().copied();
    let (with, ended) = (remark("full.with").unwrap_or("new data"), remark("full.ended").unwrap_or("of nothing known"));
    // The first method ended at the first eviction, which is not the capacity.
    let is_size = remark("full.bound") == Some("size");
    let (_, high) = swept.bounds();
    let plateau = median(&study.values("plateau", &full())).filter(|_| is_size).unwrap_or(high).min(high);
    let what = if is_size {
        format!("most that was resident at once, one pass of {with}; bounds: least when it grew no more, most resident")
    } else {
        format!("at least: most that was resident at once, one pass of {with} that ended before the cache was full")
    };
    let Some(mut estimate) = Estimate::over_launches(&[high], Unit::Bytes, &what) else { return };
    estimate.interval = [plateau, high];
    let memory = &study.machine.memory;
    let total = memory.total_bytes.as_ref().map(|fact| fact.value as f64);
    let limit = study.machine.limits.memory_bytes.as_ref().map(|fact| fact.value as f64);
    let most = [total, limit].into_iter().flatten().fold(f64::INFINITY, f64::min);
    let step = median(&study.values("step", &full())).unwrap_or(0.0);
    let gates = vec![
        Gate::of(
            "G38",
            Severity::Hard,
            high <= most && high > 0.0,
            format!(
                "{} by residency; memory and limits allow {}",
                quantity(high, Unit::Bytes),
                quantity(most, Unit::Bytes)
            ),
        ),
        Gate::of(
            "G38",
            Severity::Noisy,
            is_size,
            format!(
                "it ended because {ended}; the size, and not a lower bound, only where it grew no more and no memory was unused"
            ),
        ),
        Gate::of(
            "interval",
            Severity::Noisy,
            high - plateau <= 2.0 * step,
            format!(
                "bounds {} apart; at most two steps of {}",
                quantity(high - plateau, Unit::Bytes),
                quantity(step, Unit::Bytes)
            ),
        ),
    ];
    if is_size {
        findings.publish_by(study, BYTES, full(), &estimate, gates);
    } else {
        findings.publish_at_least(study, BYTES, full(), &estimate, gates);
    }
    draw(findings, swept, None);
}
