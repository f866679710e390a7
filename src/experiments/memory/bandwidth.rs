//! # Question
//!
//! How many bytes can be read, written and copied per second, in each cache and in main memory, by one thread and by several?
//!
//! # Method
//!
//! A **stream** passes every line of a footprint in order, with the widest vectors of this processor (SSE2, AVX2 or AVX-512;
//! Advanced SIMD on Arm), in blocks of 512 bytes: **read** loads every byte, and nothing depends on what was loaded; **write**
//! stores every byte; **write_nt** stores past the caches, the fence timed with it; **copy** and **copy_nt** do both, source
//! and destination apart by 2112 bytes off a multiple of 4096. Written bytes are not zero: some cores do not write zeros over
//! zeros. Every line that counts is touched in full.
//!
//! **Level**: the footprint is half of a cache that the kernel claims (of a shared one the CPU's own part, but at least
//! four times the cache before it), or what `memory.latency` walks: four times the last cache and more, 256 MiB at
//! least where there is time. Only then is it called DRAM, with the footprint as a label. Where memory does not allow that,
//! the figure carries its size as its name. A batch in a cache passes the footprint again and again, after a pass or two
//! that are not timed. A batch in DRAM is the next eighth of the footprint, at most 16 MiB, so that nothing
//! is passed again before all else has been; the operations stand one after the other there, in random order, because the
//! stores of one would be written back in the time of the next. L1 and L2 are timed in core cycles beside clock probes,
//! what lies beyond in nanoseconds.
//!
//! Wider vectors are not always faster in memory: they wait for fewer lines in turn. Each launch therefore tries every set
//! of vectors before it measures in DRAM, in turns along one walk so that none finds in a cache what another brought there,
//! and takes the best of that trial for samples of its own; the trial and the choice are in the record.
//!
//! **Threads**: each on a CPU of its own, first one on every core, then their siblings. All meet at a gate and work in passes
//! for 16 ms; what counts is the span in which all of them work, and the rate is the bytes that all did in that span over its
//! length. A window in which a thread waited for its CPU, or was alone for more than 2 %, is
//! disturbed: it is repeated, at most three times, by its cause and not by its value, and the repetitions are counted.
//!
//! **Bytes** are counted twice. *rate* counts what a program gets: the bytes of touched lines, a copied byte once.
//! *bus_rate* estimates what crosses the memory bus: a plain store reads its line before it writes it (×2), a plain copy
//! makes three transfers, stores past the caches save the extra one. It is an upper bound: newer cores recognise whole lines
//! and do not read them.
//!
//! Memory lies on huge pages, looked up after writing; labels with pages=4k are the same on small ones, which a quick run
//! leaves out. On a machine with several nodes each launch takes memory of another one and reads it from a CPU of each
//! (**node**).
//!
//! # Prediction
//!
//! In the nearest cache: vectors per cycle × width × core clock. In memory: Little's law, lines under way × line / latency,
//! and never more than all channels carry where these are known. Stores and copies by the transfers that they make.
//!
//! # What could fool us
//!
//! - Memory that was never written is one page of zeros in the nearest cache: 170 GB/s from "DRAM". Here every buffer is
//!   written first, and one without pages of its own is refused.
//! - A buffer that the last cache holds, above all where a guest cannot see how large that cache is.
//! - Counting lines that were not touched, or a copied byte twice on one side of a comparison and once on the other.
//! - Threads that share a CPU, or do not all work in the time that is divided by.
//! - Neighbours use the same channels. Rates of memory are medians, not the best moment.
//!
//! # References
//!
//! McCalpin, STREAM (1995) and notes on non-temporal stores; McVoy & Staelin, USENIX 1996 (bw_mem); Little, Operations
//! Research 1961; Intel optimization manual; AMD optimization guides for family 17h to 19h; Intel Memory Latency Checker.

mod nodes;
mod scaling;

use std::cell::{Cell, RefCell};

use crate::evaluate::estimate::Estimate;
use crate::evaluate::figure::Figure;
use crate::evaluate::findings::Findings;
use crate::evaluate::gate::{Number, Rule, rules};
use crate::evaluate::sample::Sample;
use crate::evaluate::study::Study;
use crate::experiments::memory::buffer;
use crate::experiments::memory::footprint::{self, Level, MEMORY};
use crate::experiments::memory::pinned_threads::{Pass, Team};
use crate::experiments::memory::streams;
use crate::experiments::{Experiment, Foreknowledge, Nature, Publication};
use crate::results::prediction::Prediction;
use crate::results::quantity::{Labels, Unit};
use crate::results::trouble::Trouble;
use crate::results::verdict::Gate;
use crate::results::wording::{number, quantity};
use crate::rig::Rig;
use crate::rig::sampler::{Sizing, Timed, Workload};
use crate::statistics::summary::median;
use crate::sys::arena::Arena;
use crate::sys::memory::{self, HUGE_PAGES_OFF, Pages};
use crate::sys::stream::{Operation, Vectors, Walk};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "memory.bandwidth",
    title: "Memory bandwidth",
    measures: "reading, writing and copying in every cache and in memory, by one thread and several",
    method_version: 1,
    source: include_str!("bandwidth.rs"),
    needs: &[],
    uses: &["cpu.cycle_time"],
    rules: RULES,
    constants: &[],
    publishes: &[
        Publication {
            metric: RATE,
            unit: Unit::BytesPerSecond,
            meaning: "bytes that a program reads, writes or copies per second",
            nature: Nature::Cost,
            headline: common_rate,
        },
        Publication {
            metric: BUS_RATE,
            unit: Unit::BytesPerSecond,
            meaning: "bytes that cross the memory bus for them, at most",
            nature: Nature::Cost,
            headline: crate::experiments::never,
        },
        Publication {
            metric: nodes::NODE,
            unit: Unit::BytesPerSecond,
            meaning: "what one thread reads of one node's memory on another node's CPU",
            nature: Nature::Cost,
            headline: crate::experiments::never,
        },
    ],
    every: |_| 6,
    seconds: |_| 1.1,
    time_out: 60.0,
    memory: crate::experiments::memory::footprint::most_memory,
    predict,
    measure,
    figures,
    explain,
};

const RATE: &str = "memory.bandwidth.rate";
const BUS_RATE: &str = "memory.bandwidth.bus_rate";

/// Length of a window of several threads in nanoseconds: several turns of any scheduler's clock.
const WINDOW: f64 = 16_000_000.0;
/// Times that a disturbed window is repeated; how often that was is in the record.
const REPEATS: u32 = 3;
/// Batches of one thread for each window of several.
const BATCHES_PER_WINDOW: u32 = 5;
/// A pass through more bytes than these takes milliseconds: fewer batches of them are taken, and one pass brings them in.
const LONG_PASS: usize = 8 << 20;
/// Batches of the profile for each batch of such passes.
const BATCHES_PER_LONG_PASS: u32 = 3;
/// Bytes for which the time of a window is recorded: windows move different amounts, a series has one.
const NOMINAL: u64 = 1 << 30;
/// Steps in which memory is passed once, at least.
const STEPS: usize = 8;
/// Most bytes of a step: milliseconds.
const MOST_STEP: usize = 16 << 20;
/// Bytes of a pass of a thread in memory: tens of microseconds.
const PASS: usize = 1 << 20;
/// Timings of each set of vectors in the trial.
const TRIALS: usize = 5;
/// No core loads more vectors in a cycle.
const MOST_VECTORS: f64 = 4.0;

fn common_rate(labels: &Labels) -> bool {
    let plain = labels.get("pages").is_none();
    plain && (labels.get("threads") == Some("1") || labels.get("operation") == Some("read"))
}

/// The operations in a cache: stores past the caches do not belong there.
const IN_CACHE: [Operation; 3] = [Operation::Read, Operation::Write, Operation::Copy];
/// The operations on small pages.
const ON_SMALL_PAGES: [Operation; 3] = [Operation::Read, Operation::WriteNt, Operation::Copy];

fn predict(by: &Foreknowledge<'_>) -> Vec<Prediction> {
    let (caches, memory) = (&by.setup.machine.caches, by.setup.machine.launch_memory_bytes());
    let cpus = footprint::cpus_of(by.setup);
    let of = |metric: &str, labels: Labels| Prediction::of(metric, labels, Unit::BytesPerSecond);
    let mut all = Vec::new();
    for level in footprint::cache_levels(caches, by.setup.cpu) {
        for operation in IN_CACHE {
            let expected = streams::expected_in_cache(by, &level.name, operation);
            let labels = streams::labels(operation, &level.name, 1);
            all.push(of(RATE, labels).hardware(&expected.what, expected.rate, expected.basis));
        }
    }
    for threads in std::iter::once(1).chain(streams::team_sizes(cpus.len())) {
        let Ok(level) = footprint::memory_level(by.setup, &cpus[..threads], memory) else { continue };
        for operation in Operation::ALL {
            if !streams::is_measured(operation, threads, cpus.len()) {
                continue;
            }
            let labels = streams::labels(operation, &level.name, threads);
            let factor = operation.bus_factor();
            let expected = || streams::expected_in_memory(by, operation, threads);
            let (value, low, high) = expected().rate;
            if threads == 1 && ON_SMALL_PAGES.contains(&operation) {
                let rate = (value * 0.9, low * 0.6, high);
                all.push(of(RATE, labels.clone().with("pages", "4k")).hardware(
                    &format!("{}; small pages cost some of it", expected().what),
                    rate,
                    expected().basis,
                ));
            }
            all.push(of(RATE, labels.clone()).hardware(&expected().what, expected().rate, expected().basis));
            let bus = (value * factor, low * factor, high * factor);
            let what = format!("{} transfers for each byte: {}", number(factor), expected().what);
            all.push(of(BUS_RATE, labels).hardware(&what, bus, expected().basis));
        }
    }
    all
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Trouble> {
    let cpus = footprint::cpus_of(rig.setup());
    let level = match footprint::memory_level(rig.setup(), &cpus[..1], rig.memory()) {
        Ok(level) => level,
        Err(reason) => {
            rig.unavailable(RATE, &Labels::of([("level", MEMORY)]), &reason);
            return Ok(());
        }
    };
    let chosen = measure_alone(rig, &level)?;
    nodes::measure(rig, &level, vectors_of(&chosen, Operation::Read))?;
    for threads in streams::team_sizes(cpus.len()) {
        match footprint::memory_level(rig.setup(), &cpus[..threads], rig.memory()) {
            Ok(level) => measure_team(rig, &level, &cpus[..threads], cpus.len(), &chosen)?,
            Err(reason) => rig.unavailable(RATE, &of_team(threads), &reason),
        }
    }
    Ok(())
}

/// Labels of all figures of a number of threads, and of all on small pages.
fn of_team(threads: usize) -> Labels {
    Labels::of([("level", MEMORY)]).with("threads", threads)
}

fn on_small_pages() -> Labels {
    Labels::of([("pages", "4k")])
}

/// The vectors that an operation uses in memory.
type Chosen = Vec<(Operation, Vectors)>;

fn vectors_of(chosen: &Chosen, operation: Operation) -> Vectors {
    chosen.iter().find(|(of, _)| *of == operation).map_or_else(Vectors::widest, |(_, vectors)| *vectors)
}

/// One thread: every level, then memory on huge pages and on small ones.
fn measure_alone(rig: &mut Rig<'_>, level: &Level) -> Result<Chosen, Trouble> {
    let about = Labels::of([("level", level.name.as_str()), ("pages", "huge"), ("threads", "1")]);
    rig.record("footprint", about.clone(), Unit::Bytes, vec![level.bytes as f64])?;
    rig.remark("vectors.cache", &Vectors::widest().name);
    let (pages, mut arena) = match buffer::obtain(rig, level.bytes, Pages::Huge, &about)? {
        Ok(taken) => taken,
        Err(reason) => {
            rig.unavailable(RATE, &Labels::of([("level", MEMORY), ("threads", "1")]), &reason);
            return Ok(Vec::new());
        }
    };
    let levels = footprint::cache_levels(&rig.setup().machine.caches, rig.setup().cpu);
    measure_caches(rig, &levels, &RefCell::new(&mut arena))?;
    let chosen = choose(rig, level, &mut arena)?;
    measure_memory(rig, level, &chosen, &Operation::ALL, None, &mut arena)?;
    drop(arena);
    if pages == Pages::Small {
        let off = memory::huge_pages_are_off().then_some(HUGE_PAGES_OFF);
        rig.unavailable(RATE, &on_small_pages(), &off.unwrap_or("there are no huge pages to compare with"));
        return Ok(chosen);
    }
    // To have them takes longer than to go through them.
    if rig.setup().profile.is_quick() {
        rig.unavailable(RATE, &on_small_pages(), &"a quick run has no time for it");
        return Ok(chosen);
    }
    let about = about.with("pages", "4k");
    match buffer::obtain(rig, level.bytes, Pages::Small, &about)? {
        Ok((_, mut arena)) => measure_memory(rig, level, &chosen, &ON_SMALL_PAGES, Some("4k"), &mut arena)?,
        Err(reason) => rig.unavailable(RATE, &on_small_pages(), &reason),
    }
    Ok(chosen)
}

fn measure_caches(rig: &mut Rig<'_>, levels: &[Level], arena: &RefCell<&mut Arena>) -> Result<(), Trouble> {
    let few = (rig.batches() / BATCHES_PER_LONG_PASS).max(4);
    let mut workloads = Vec::new();
    for level in levels.iter().filter(|level| level.bytes <= arena.borrow().bytes()) {
        for operation in IN_CACHE {
            let walk = RefCell::new(Walk::new(Vectors::widest(), operation, level.bytes, level.bytes));
            let bytes = walk.borrow().bytes();
            let mut warm = *walk.borrow();
            let workload = Workload::of("stream", streams::labels(operation, &level.name, 1), bytes, move |passes| {
                walk.borrow_mut().steps(&mut arena.borrow_mut(), passes);
                Ok(())
            });
            let long = level.bytes > LONG_PASS;
            let workload = workload.prepared(move || {
                // Another level's batch stood before this one: its lines leave, this level's come in.
                warm.steps(&mut arena.borrow_mut(), if long { 1 } else { 2 });
                Ok(())
            });
            let workload = if long { workload.at_most(few) } else { workload };
            workloads.push(if level.name == "L1" || level.name == "L2" { workload } else { workload.unclocked() });
        }
    }
    rig.sample(workloads)
}

/// Bytes of a step through memory.
fn step(level: &Level) -> usize {
    (level.bytes / STEPS).min(MOST_STEP)
}

/// Tries every set of vectors in memory, in turns, and takes the one with the best median for each operation.
fn choose(rig: &mut Rig<'_>, level: &Level, arena: &mut Arena) -> Result<Chosen, Trouble> {
    let source = rig.source()?;
    let mut chosen = Vec::new();
    for operation in Operation::ALL {
        let sets = Vectors::available();
        // One walk for all: no set may find in a cache what another has just brought there.
        let mut walk = Walk::new(sets[0], operation, level.bytes, step(level));
        let mut rates: Vec<Vec<f64>> = vec![Vec::new(); sets.len()];
        for _ in 0..TRIALS {
            for (&vectors, rates) in sets.iter().zip(&mut rates) {
                walk.turn_to(vectors);
                let began = source.stamp().ticks;
                let bytes = walk.step(arena) as f64;
                rates.push(bytes / rig.nanoseconds((source.stamp().ticks - began) as f64) * 1e9);
            }
        }
        let medians: Vec<f64> = rates.iter().map(|rates| median(rates).unwrap_or(0.0)).collect();
        for (vectors, &rate) in sets.iter().zip(&medians) {
            let labels = Labels::of([("operation", operation.name()), ("vectors", vectors.name)]);
            rig.record("trial", labels, Unit::BytesPerSecond, vec![rate])?;
        }
        let best = (0..sets.len()).max_by(|&one, &other| medians[one].total_cmp(&medians[other]));
        let vectors = best.map_or_else(Vectors::widest, |best| sets[best]);
        rig.remark(&format!("vectors.{}", operation.name()), &vectors.name);
        chosen.push((operation, vectors));
    }
    Ok(chosen)
}

/// The operations in memory, one after the other.
fn measure_memory(
    rig: &mut Rig<'_>,
    level: &Level,
    chosen: &Chosen,
    operations: &[Operation],
    pages: Option<&str>,
    arena: &mut Arena,
) -> Result<(), Trouble> {
    let mut operations = operations.to_vec();
    rig.random().shuffle(&mut operations);
    for operation in operations {
        let vectors = vectors_of(chosen, operation);
        let mut walk = Walk::new(vectors, operation, level.bytes, step(level));
        let labels = streams::labels(operation, &level.name, 1);
        let labels = pages.map_or(labels.clone(), |pages| labels.with("pages", pages));
        let workload = Workload::of("stream", labels, walk.bytes(), |steps| {
            walk.steps(arena, steps);
            Ok(())
        });
        rig.sample(vec![workload.unclocked()])?;
    }
    Ok(())
}

/// Several threads, each with an arena of its own that it wrote itself.
fn measure_team(rig: &mut Rig<'_>, level: &Level, cpus: &[u32], all: usize, chosen: &Chosen) -> Result<(), Trouble> {
    let operations: Vec<Operation> =
        Operation::ALL.into_iter().filter(|&operation| streams::is_measured(operation, cpus.len(), all)).collect();
    let jobs: Vec<Walk> = operations
        .iter()
        .map(|&operation| Walk::new(vectors_of(chosen, operation), operation, level.bytes, PASS))
        .collect();
    let (bytes, allowed) = (level.bytes, rig.memory());
    let equip = move |_: usize| -> Result<Pass, String> {
        let (_, mut arena) = buffer::take_either(bytes as u64, Pages::Huge, None, allowed)?;
        let mut jobs = jobs.clone();
        Ok(Box::new(move |job| jobs[job].step(&mut arena)))
    };
    let mut team = match Team::with_caller(cpus, rig.source()?, equip) {
        Ok(team) => team,
        Err(reason) => {
            rig.unavailable(RATE, &of_team(cpus.len()), &reason);
            return Ok(());
        }
    };
    let about = Labels::of([("level", level.name.as_str()), ("pages", "huge")]).with("threads", cpus.len());
    rig.record("footprint", about, Unit::Bytes, vec![(bytes * cpus.len()) as f64])?;
    rig.remark(&format!("cpus.{}", cpus.len()), &format!("{:?}", team.cpus()));
    let hertz = rig.ticks(1e9);
    let windows = (rig.batches() / BATCHES_PER_WINDOW).max(2);
    let (team, repeated) = (RefCell::new(&mut team), Cell::new(0_u32));
    let mut workloads = Vec::new();
    for (job, &operation) in operations.iter().enumerate() {
        let (team, repeated) = (&team, &repeated);
        let labels = streams::labels(operation, &level.name, cpus.len());
        let workload = Workload::self_timed("stream", labels, NOMINAL, move |_| {
            let mut found = team.borrow_mut().window(job, WINDOW * hertz / 1e9, hertz)?;
            for _ in 0..REPEATS {
                if found.disturbed.is_none() {
                    break;
                }
                repeated.set(repeated.get() + 1);
                found = team.borrow_mut().window(job, WINDOW * hertz / 1e9, hertz)?;
            }
            let ticks = (found.ticks * NOMINAL as f64 / found.bytes) as i64;
            Ok(match (found.disturbed, found.known) {
                (Some(_), _) => Timed::Preempted(ticks),
                (None, true) => Timed::Undisturbed(ticks),
                (None, false) => Timed::Ticks(ticks),
            })
        });
        workloads.push(workload.sized(Sizing::Exactly(1)).unclocked().at_most(windows));
    }
    rig.sample(workloads)?;
    rig.remark(&format!("repeated.{}", cpus.len()), &repeated.get());
    Ok(())
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
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
    findings.curves = scaling::curves(findings);
    nodes::publish(study, findings);
}

fn publish_stream(study: &Study<'_>, findings: &mut Findings, labels: &Labels, sample: &Sample) {
    let (Some(operation), Some(level)) = (labels.get("operation").and_then(Operation::named), labels.get("level"))
    else {
        return;
    };
    let own = stream_gates(study, operation, level, labels, sample);
    let named = footprint::labelled(labels.clone(), footprint::recorded(study, &about(level, labels)));
    findings.publish(study, Figure::rate(RATE, named.clone(), sample, 1.0).gates(own.clone()));
    let cache = ["L1", "L2", "L3"].contains(&level);
    if !cache && labels.get("pages").is_none() {
        findings.publish(study, Figure::rate(BUS_RATE, named, sample, operation.bus_factor()).gates(own));
    }
}

/// Median cost of a byte in nanoseconds, whatever the sample is in.
fn nanoseconds_per_byte(study: &Study<'_>, sample: &Sample) -> Option<f64> {
    let estimate = Estimate::median(sample)?;
    let scale = if sample.unit == Unit::Cycles { study.core?.period().0 } else { 1.0 };
    Some(estimate.value * scale)
}

/// Rate in bytes per second of another stream of the same run.
fn rate_of(study: &Study<'_>, labels: &Labels) -> Option<f64> {
    Some(1e9 / nanoseconds_per_byte(study, &study.sample("stream", labels)?)?)
}

/// How far a rate may be below another that it should reach, and above what carries it at most.
const LESS: f64 = 0.95;
const SLACK: f64 = 1.02;
const COPY_SLACK: f64 = 1.05;
const THREADS_SLACK: f64 = 1.1;

rules! {
    VECTORS: "G8" Hard "`memory.bandwidth` of the first cache", "at most {} times {} vectors per cycle", plain(SLACK), plain(MOST_VECTORS);
    FIRST_CACHE: "G21" Hard "`memory.bandwidth`", "the first cache carries at least {} times what the second does", plain(LESS);
    OTHER_CACHES: "G21" Noisy "`memory.bandwidth`", "L2 carries at least {} times what L3 does, L3 what DRAM does", plain(LESS);
    PAST_CACHES: "G21" Remark "`memory.bandwidth`", "stores past the caches carry at least {} times what plain ones do", plain(LESS);
    COPYING: "G21" Noisy "`memory.bandwidth`", "a copy is at most {} times as fast as a read", plain(COPY_SLACK);
    THREADS: "G21" Noisy "`memory.bandwidth`", "N threads carry between {} times what one carries and {} N times that", plain(LESS), plain(THREADS_SLACK);
    PEAK: "G21" Hard "`memory.bandwidth` of DRAM, of each node", "at most {} times the peak of the channels, where that is known", plain(SLACK);
}

fn stream_gates(study: &Study<'_>, operation: Operation, level: &str, labels: &Labels, sample: &Sample) -> Vec<Gate> {
    let Some(rate) = nanoseconds_per_byte(study, sample).map(|cost| 1e9 / cost) else { return Vec::new() };
    let threads: usize = labels.get("threads").and_then(|threads| threads.parse().ok()).unwrap_or(1);
    let own = Number::rate(rate);
    let mut gates = Vec::new();
    let mut least = |rule: &Rule, floor: Option<f64>, what: &str| {
        let gate =
            |least: f64| Gate::at_least(rule, own.named("{}"), least * LESS).because(format!("{LESS} times {what}"));
        gates.extend(floor.map(gate));
    };
    let at = |operation: Operation, level: &str, threads| rate_of(study, &streams::labels(operation, level, threads));
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
        let widest = study.remarks("vectors.cache").first().and_then(|name| vector_bytes(name));
        let ceiling = widest.zip(study.core).map(|(bytes, core)| MOST_VECTORS * bytes * core.0);
        most(&VECTORS, ceiling, SLACK, "four vectors in a cycle, which no core exceeds");
    }
    if operation.copies() && plain {
        most(&COPYING, at(Operation::Read, level, threads), COPY_SLACK, "reading");
    }
    if threads > 1 {
        most(&THREADS, at(operation, level, 1).map(|one| one * threads as f64), THREADS_SLACK, "what each moves alone");
    }
    if level == MEMORY
        && let Some(peak) = &study.setup.machine.memory.peak_bytes_per_second
    {
        most(&PEAK, Some(peak.value as f64), SLACK, &format!("the peak of all channels ({})", peak.source));
    }
    if level == MEMORY {
        gates.push(buffer::footprint_gate(study, &about(level, labels), threads));
    }
    let pages = labels.get("pages").unwrap_or("huge");
    gates.extend(buffer::account_gates(study, &about(level, labels).with("pages", pages)));
    gates
}

/// Labels of the record of a stream's footprint.
fn about(level: &str, labels: &Labels) -> Labels {
    Labels::of([("level", level), ("pages", "huge")]).with("threads", labels.get("threads").unwrap_or("1"))
}

fn vector_bytes(name: &str) -> Option<f64> {
    Vectors::available().iter().find(|vectors| vectors.name == name).map(|vectors| vectors.bytes as f64)
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    let rate = |findings: &Findings, operation, level: &str, threads| {
        findings.metric(RATE, &streams::labels(operation, level, threads)).map(|metric| metric.value)
    };
    let shown = |value: f64| quantity(value, Unit::BytesPerSecond);
    if let Some(core) = study.core {
        let mut rows = Vec::new();
        for level in ["L1", "L2", "L3", MEMORY] {
            for operation in IN_CACHE {
                if let Some(found) = rate(findings, operation, level, 1) {
                    let cells = [level, operation.name()].map(str::to_owned);
                    rows.push(cells.into_iter().chain([shown(found), number(found / core.0)]).collect());
                }
            }
        }
        let columns = ["level", "operation", "rate", "bytes per core cycle"];
        findings.tabulate("One thread, level by level; a copied byte counts once.", &columns, rows);
    }
    let rows: Vec<Vec<String>> = Operation::ALL
        .into_iter()
        .filter_map(|operation| {
            let chosen = most_frequent(&study.remarks(&format!("vectors.{}", operation.name())))?;
            Some(vec![operation.name().to_owned(), chosen])
        })
        .collect();
    findings.tabulate(
        "Vectors used in memory, by a short trial in each launch.",
        &["operation", "chosen most often"],
        rows,
    );
    if let (Some(plain), Some(past)) =
        (rate(findings, Operation::Write, MEMORY, 1), rate(findings, Operation::WriteNt, MEMORY, 1))
    {
        findings.say(if plain >= 0.8 * past {
            format!("Plain stores reach {}, stores past the caches {}: the processor recognises lines that are written as a whole and does not read them first. The bus bytes of plain stores and copies are an upper bound here.", shown(plain), shown(past))
        } else {
            format!("Plain stores reach {}, stores past the caches {}: the difference is the lines that are read before they are written.", shown(plain), shown(past))
        });
    }
    if study.setup.machine.is_guest() {
        findings.say("Below is a hypervisor: how large the last cache really is, who shares it, and who else uses the channels cannot be seen. Rates of L3 and DRAM are what was left for this guest.");
    }
    nodes::explain(study, findings);
}

fn most_frequent(names: &[&str]) -> Option<String> {
    let count = |name: &str| names.iter().filter(|&&other| other == name).count();
    names.iter().max_by_key(|name| count(name)).map(|&name| name.to_owned())
}
