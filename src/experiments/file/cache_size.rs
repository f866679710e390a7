//! # Question
//!
//! How many bytes of file data stay in memory while a program reads more and more of them?
//!
//! # Method
//!
//! What is resident decides, not time: on a fast device the knee in the times of a second pass is small, and read-ahead
//! blurs it.
//!
//! - **bounded**: in a control group of the run's own with a limit on memory, made for the launch and removed after it, a
//!   file that is proven to be out of the cache is read once from its beginning to one and a half times the limit, in
//!   requests of a 64th of the limit without read-ahead. From half the limit on, after each of them, the kernel is asked
//!   how many pages of the file are cached (cachestat(2), else mincore(2)). A pass up to there is what reading a file of
//!   that size once would have been, so one pass gives the whole curve, and nothing is read twice. The size of the cache is
//!   the median of what is resident beyond the limit; its interval reaches from the largest size that was still whole
//!   (median) to the most that was ever resident. A group of 64 MiB is made in every launch, groups of 256 and 128 MiB take
//!   turns.
//! - **full**, with `--full-cache` only, because it evicts what others have cached: new data is read in steps, one pass,
//!   until what is resident has not grown for a second and no memory is left unused (MemFree above the watermarks, the limits
//!   of the control groups). Data that is taken back while memory is unused ends nothing: the kernel may be told to reclaim
//!   early. The size is the most that was resident at once; its interval reaches from the least of the steps that stood still.
//!   The figure is a lower bound, "at least", where the sweep ends otherwise: time or space are up, the machine swaps or is
//!   short of memory before, or as much is taken back as is read although memory is unused. With *holes* of a sparse file the
//!   pages are zeros that no device is asked for: that tells the capacity and nothing about time. With *files* they are bytes
//!   written for it.
//!
//! Time confirms: after the pass random blocks of 4 KiB are read only if they are cached (preadv2(2) with RWF_NOWAIT), each
//! between two clock reads; the share of those that are must be the share of resident pages. Then others that are not
//! cached are read from the device, timed alike.
//!
//! # Prediction
//!
//! In a group: its limit, less what else is charged to it. On the machine: what the kernel calls available (MemAvailable, which
//! withholds a reserve), up to all that is free, holds file data or can be reclaimed; or what the limits of the control groups
//! leave to file data, where that is less.
//!
//! # What could fool us
//!
//! - Reading a file again from its beginning that is larger than the cache hits nothing, because what comes next was just
//!   evicted: a sweep of second passes measures the order of eviction. Here every page is read once.
//! - A page is charged to the group that touched it first: the file is out of the cache before the pass, and was written by
//!   another group.
//! - Read-ahead caches more than was read; a size below it would never be seen.
//! - The tree that finds pages, page tables and stacks are charged to the group too; what is charged and no file data is
//!   logged.
//! - Large folios are evicted whole: sizes are then coarser.
//! - What a group may have is no promise that the machine has it.
//! - Proactive reclaim (DAMON, memory.reclaim) takes back data that nothing reads again, also while memory is free. The first
//!   eviction is then no sign of a full cache. What takes memory back early is named where the kernel shows it.
//! - A hypervisor may give memory only when it is touched: filling then takes seconds for a gibibyte.
//!
//! # References
//!
//! cachestat(2), mincore(2), posix_fadvise(2), preadv2(2), cgroups(7); Documentation/admin-guide/cgroup-v2.rst and
//! cgroup-v1/memory.rst; Linux mm/vmscan.c, mm/workingset.c, mm/page_alloc.c (si_mem_available).

mod expectation;
mod filling;
mod growth;
mod judgement;
mod passes;
mod vitals;

use std::time::Instant;

use super::{DISK, PLACE};
use crate::evaluate::findings::Findings;
use crate::evaluate::study::Study;
use crate::experiments::{Experiment, Nature, Publication};
use crate::results::document::{Axis, Curve};
use crate::results::figure::{Place, Scale};
use crate::results::quantity::{Labels, Unit};
use crate::results::trouble::Trouble;
use crate::results::wording::{duration, factor, percent, quantity};
use crate::rig::Rig;
use crate::setup::Profile;
use crate::statistics::summary::{median, quantile};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "file.cache_size",
    title: "Size of the file cache",
    measures: "how much file data stays in memory, in groups of known size or on the machine",
    method_version: 2,
    source: include_str!("cache_size.rs"),
    needs: &[PLACE, DISK],
    uses: &[],
    rules: judgement::RULES,
    constants: expectation::CONSTANTS,
    publishes: &[Publication {
        metric: BYTES,
        unit: Unit::Bytes,
        meaning: "file data that stays in memory while more is read",
        nature: Nature::State,
        headline: crate::experiments::always,
    }],
    every: |_| 4,
    seconds: |_| 2.0,
    time_out: 900.0,
    memory: |setup| setup.machine.launch_memory_bytes().min(most_wanted(setup.profile)),
    predict: expectation::predict,
    measure,
    figures,
    explain,
};

const BYTES: &str = "file.cache_size.bytes";
const SWEEP: &str = "file.cache_size.sweep";

/// Limits of the groups: large against what else is charged to them, small against any machine.
const LIMITS: [u64; 3] = [64 << 20, 128 << 20, 256 << 20];

/// A read from the device takes so many times one from the cache, or time confirms nothing.
const SLOWER: f64 = 2.0;

/// Limits that the launches of a run try. For a first look one has to do.
fn wanted(profile: Profile) -> &'static [u64] {
    if profile.is_quick() { &LIMITS[..1] } else { &LIMITS }
}

/// Those of them whose turn it is: the smallest always, of the others one in each launch, the largest first.
fn in_turn(profile: Profile, turn: u32) -> Vec<u64> {
    let all = wanted(profile);
    let others = all.len().saturating_sub(1).max(1);
    let chosen = others - turn as usize % others;
    all.iter().enumerate().filter(|&(place, _)| place == 0 || place == chosen).map(|(_, &limit)| limit).collect()
}

fn most_wanted(profile: Profile) -> u64 {
    wanted(profile).last().copied().unwrap_or(LIMITS[0])
}

/// Bytes of the file that a limit needs.
fn file_bytes(limit: u64) -> u64 {
    limit + limit / 2
}

/// Labels of the figure of one limit.
fn bounded(limit: u64) -> Labels {
    Labels::of([("mode", "bounded")]).with("limit", limit)
}

/// Labels of the figure of the machine.
fn full() -> Labels {
    Labels::of([("mode", "full")])
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Trouble> {
    let began = Instant::now();
    passes::measure(rig)?;
    // Ordered for one launch of a run only: it takes the time it takes, and others pay for it.
    let filling = rig.setup().full_cache.zip(rig.fill_seconds());
    filling.map_or(Ok(()), |(with, seconds)| filling::measure(rig, with, began, seconds))
}

/// Curves of one limit or of the machine over all launches: bytes read with bytes resident.
struct Swept {
    labels: Labels,
    /// `(read, resident)` of every launch.
    launches: Vec<Vec<(f64, f64)>>,
}

impl Swept {
    fn of(study: &Study<'_>, labels: Labels) -> Option<Self> {
        let (read, resident) = (study.series("read", &labels), study.series("resident", &labels));
        let launches: Vec<Vec<(f64, f64)>> = read
            .iter()
            .zip(&resident)
            .map(|(read, resident)| read.values.iter().copied().zip(resident.values.iter().copied()).collect())
            .filter(|points: &Vec<(f64, f64)>| !points.is_empty())
            .collect();
        (!launches.is_empty()).then_some(Swept { labels, launches })
    }

    /// The largest size that was whole, the median over launches, and the most that was ever resident. A median, because pages
    /// of a file that fits may be taken for reasons that have nothing to do with its size.
    fn bounds(&self) -> (f64, f64) {
        let whole = |points: &[(f64, f64)]| {
            // Sizes after the first that was not whole were so by luck.
            points.iter().take_while(|(read, resident)| resident >= read).map(|(read, _)| *read).last().unwrap_or(0.0)
        };
        let wholes: Vec<f64> = self.launches.iter().map(|points| whole(points)).collect();
        let low = median(&wholes).unwrap_or(0.0);
        let high = self.launches.iter().flatten().map(|(_, resident)| *resident).fold(0.0, f64::max);
        (low, high)
    }

    fn curve(&self) -> Curve {
        let first = self.launches.first().map_or(&[][..], Vec::as_slice);
        let points = first
            .iter()
            .enumerate()
            .filter_map(|(index, (read, _))| {
                let at: Vec<f64> = self.launches.iter().filter_map(|points| Some(points.get(index)?.1)).collect();
                Some([*read, median(&at)?, quantile(&at, 0.0)?, quantile(&at, 1.0)?])
            })
            .collect();
        Curve {
            name: SWEEP.to_owned(),
            labels: self.labels.clone(),
            x: Axis { label: "bytes read once".to_owned(), unit: Unit::Bytes },
            y: Axis { label: "bytes still cached".to_owned(), unit: Unit::Bytes },
            points,
        }
    }
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    for limit in LIMITS {
        if let Some(swept) = Swept::of(study, bounded(limit)) {
            judgement::publish_bounded(study, findings, limit, &swept);
        }
    }
    if let Some(swept) = Swept::of(study, full()) {
        judgement::publish_full(study, findings, &swept);
    }
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    for limit in LIMITS {
        mark(findings, &bounded(limit), Some(limit));
    }
    mark(findings, &full(), None);
    narrate(study, findings);
}

/// Marks on a curve what was found.
fn mark(findings: &mut Findings, labels: &Labels, limit: Option<u64>) {
    if !findings.curves.iter().any(|curve| curve.labels == *labels) {
        return;
    }
    let found = findings.metric(BYTES, labels).map(|metric| (metric.value, metric.interval95));
    let note = findings.figure(SWEEP);
    note.x_scale = Scale::Logarithmic;
    note.y_scale = Scale::Logarithmic;
    note.caption = Some("What is still cached of so many bytes that were read once".to_owned());
    if let Some((at, [low, high])) = found {
        note.mark(labels.clone(), "size of the cache", Place::Knee { at, low, high });
    }
    if let Some(limit) = limit {
        note.mark(labels.clone(), "limit of the group", Place::Level { at: limit as f64 });
    }
}

fn narrate(study: &Study<'_>, findings: &mut Findings) {
    let size = |bytes: f64| quantity(bytes, Unit::Bytes);
    let mut rows = Vec::new();
    for limit in LIMITS {
        let labels = bounded(limit);
        let Some(metric) = findings.metric(BYTES, &labels) else { continue };
        let time = |name: &str| {
            let value = median(&study.values(name, &labels)).map(|ticks| study.nanoseconds(ticks));
            value.map_or_else(String::new, |value| quantity(value, Unit::Nanoseconds))
        };
        let other = median(&study.values("charged_else", &labels)).map_or_else(String::new, size);
        let [whole, most] = metric.interval95;
        rows.push(vec![
            size(limit as f64),
            metric.text(),
            percent(metric.value / limit as f64),
            size(whole),
            size(most),
            other,
            time("hit"),
            time("miss"),
        ]);
    }
    if let Some(metric) = LIMITS.iter().rev().find_map(|&limit| findings.metric(BYTES, &bounded(limit))) {
        let limit = metric.labels.get("limit").and_then(|text| text.parse::<f64>().ok()).unwrap_or(metric.value);
        let text = format!(
            "A group of {} keeps {} of file data, {} of its limit: a file up to {} is still whole after it was read once, and of a \
             larger one no more than {} stay, whatever its size.",
            size(limit),
            metric.text(),
            percent(metric.value / limit),
            size(metric.interval95[0]),
            size(metric.interval95[1])
        );
        findings.say(text);
    }
    if !rows.is_empty() {
        findings.tabulate(
            "What groups of known size keep, and what a read of 4 KiB takes that finds its block, or does not",
            &["limit", "cache", "share", "largest whole file", "most cached", "charged for else", "hit", "miss"],
            rows,
        );
    }
    let (hit, miss) = LIMITS.iter().fold((Vec::new(), Vec::new()), |(mut hits, mut misses), &limit| {
        hits.extend(study.values("hit", &bounded(limit)));
        misses.extend(study.values("miss", &bounded(limit)));
        (hits, misses)
    });
    if let Some((hit, miss)) = median(&hit).zip(median(&miss)).filter(|(hit, _)| *hit > 0.0) {
        let word = if miss > SLOWER * hit { "Time confirms it" } else { "Time does not tell the two apart" };
        findings.say(format!(
            "{word}: the median read of a block that was cached took {}, of one that was not {} ({}).",
            quantity(study.nanoseconds(hit), Unit::Nanoseconds),
            quantity(study.nanoseconds(miss), Unit::Nanoseconds),
            factor(miss / hit)
        ));
    }
    match (study.prediction(BYTES, &full()), findings.metric(BYTES, &full())) {
        (Some(prediction), None) => findings.say(format!(
            "By the kernel's own figures the file cache of this machine can grow to {}, between {} and {}; `--full-cache` measures \
             it, and evicts what others have cached.",
            size(prediction.value),
            size(prediction.low),
            size(prediction.high)
        )),
        (_, Some(metric)) => {
            let text = of_filling(study, &metric.text());
            findings.say(text);
        }
        _ => {}
    }
}

/// How the whole cache was filled, and what was taken back early.
fn of_filling(study: &Study<'_>, kept: &str) -> String {
    let with = study.remarks("full.with").first().copied().unwrap_or("new data");
    let ended = study.remarks("full.ended").first().copied().unwrap_or("it was full");
    let mut text = format!("Filled with {with}, the cache of this machine kept {kept}. It ended because {ended}.");
    let last = |name: &str| study.values(name, &full()).last().copied();
    if let Some((nanoseconds, read)) = last("filling").zip(last("read")).filter(|(_, read)| *read > 0.0) {
        let seconds = nanoseconds / 1e9;
        let pace = duration(seconds / (read / f64::from(1 << 30)));
        text += &format!(" It took {}, {pace} for a gibibyte.", duration(seconds));
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
        let by = if by.is_empty() { "the kernel does not show by what".to_owned() } else { by.join(", ") };
        text +=
            &format!(" Meanwhile {} were taken back although memory was unused: {by}.", quantity(taken, Unit::Bytes));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_whole_size_is_before_the_first_that_is_not() {
        let swept = Swept {
            labels: full(),
            launches: vec![
                vec![(10.0, 10.0), (20.0, 20.0), (30.0, 25.0), (40.0, 40.0)],
                vec![(10.0, 10.0), (20.0, 19.0), (30.0, 26.0)],
                vec![(10.0, 10.0), (20.0, 19.0), (30.0, 26.0)],
            ],
        };
        assert_eq!(swept.bounds(), (10.0, 40.0));
        let curve = swept.curve();
        assert_eq!(curve.points[1].to_vec(), vec![20.0, 19.0, 19.0, 20.0]);
        assert_eq!(curve.points.len(), 4);
    }

    #[test]
    fn a_first_look_needs_one_limit() {
        assert_eq!(wanted(Profile::Quick), &LIMITS[..1]);
        assert_eq!(in_turn(Profile::Quick, 1), LIMITS[..1]);
        assert_eq!(in_turn(Profile::Default, 0), [LIMITS[0], LIMITS[2]]);
        assert_eq!(in_turn(Profile::Default, 1), [LIMITS[0], LIMITS[1]]);
        assert_eq!(in_turn(Profile::Default, 2), [LIMITS[0], LIMITS[2]]);
        assert_eq!(most_wanted(Profile::Default), 256 << 20);
        assert_eq!(file_bytes(64 << 20), 96 << 20);
    }
}
