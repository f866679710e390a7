//! # Question
//!
//! What does a read of a block take when one, two, four and more processes read files of their own at the same time, what do
//! they read together, and how evenly?
//!
//! # Method
//!
//! Each process has its own stamped file of 16 MiB in the run's directory and reads blocks of 4 KiB past the page cache
//! (O_DIRECT), one at a time, in the order of its file or by a random permutation. Processes are forked, pinned and have
//! their files open before a shared gate opens; nobody forks, exits or waits for another within the window. CPUs are given
//! out in turn over all that the run may use. Between the two clock reads of a read lie pread(2) alone; the stamp is
//! compared after it.
//!
//! The first tenth of a window does not count. A read counts that begins after it and ends within the window.
//! **block_time** is the median of all reads of all processes, **rate** their bytes over the window, found in each launch;
//! the figure is the median over launches. The log keeps 199 evenly spaced quantiles of each window's reads, the reads of
//! each process, its CPU time, and what devices read for it. The numbers of processes come in random order in every launch.
//!
//! # Prediction
//!
//! The bounds of a closed system: a read takes what one process alone needs (the experiment on reads measured it), or the
//! time in which the device, at the most it does with 32 reads under way, serves all processes once, or the CPU time of all
//! their reads over the CPUs, whichever is longest. At most they stand in one line: so many times the read of one.
//!
//! # What could fool us
//!
//! - **Children on one CPU**: a process that inherits the mask of a pinned parent shares its CPU; then the CPU is measured.
//!   Each is pinned to its own here, checked at every read, and the share of the CPUs that they used stands beside the
//!   figure: above nine tenths it is called CPU-bound.
//! - **Time with fork and exit in it**: the start of a process takes as long as tens of reads.
//! - **Intervals that do not overlap**: the first process is done before the last begins. Only the common window counts.
//! - One file for all, or files in the page cache, measure the cache.
//! - N times the time of one is no law: it holds only where the device serves one read at a time.
//! - Sequential readers together are no sequential load: a disk that turns moves its head between them.
//! - Small files fit into caches below the kernel. The figures of one process hold against those of larger files.
//!
//! # References
//!
//! P. Denning and J. Buzen, "The operational analysis of queueing network models", 1978 (bounds of closed systems); R.
//! Jain, "The art of computer systems performance analysis", 1991 (index of fairness); open(2), fork(2); fio, HOWTO
//! (numjobs).

mod judgement;

use std::time::Duration;

use super::{BLOCK, DISK, Order, PLACE, predict_direct};
use crate::evaluate::estimate::Estimate;
use crate::evaluate::figure::Figure;
use crate::evaluate::findings::Findings;
use crate::evaluate::gate::Number;
use crate::evaluate::study::Study;
use crate::experiments::constants::BLOCK_LAYER;
use crate::experiments::file::parallel_readers::{self, Crowd, Reader};
use crate::experiments::file::stamped_file::Stamped;
use crate::experiments::{Experiment, Foreknowledge, Nature, Publication};
use crate::results::document::{Axis, Curve};
use crate::results::prediction::{Basis, Prediction};
use crate::results::quantity::{Labels, Unit};
use crate::results::trouble::Trouble;
use crate::results::verdict::Gate;
use crate::results::wording::{factor, number, quantity};
use crate::rig::Rig;
use crate::statistics::summary::{self, median};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "file.contention",
    title: "Reading with others",
    measures: "reads of a block by one to sixteen processes at once, each of a file of its own",
    method_version: 1,
    source: include_str!("contention.rs"),
    needs: &[PLACE, DISK],
    uses: &[
        "cpu.cycle_time",
        "os.system_call.time",
        "memory.page_fault.time",
        "file.read.block_time",
        "file.read.depth_rate",
    ],
    rules: judgement::RULES,
    constants: &[],
    publishes: &[
        Publication {
            metric: TIME,
            unit: Unit::Nanoseconds,
            meaning: "one read of 4 KiB past the cache by one of so many processes",
            nature: Nature::State,
            headline: |labels| labels.get("order") == Some("random"),
        },
        Publication {
            metric: RATE,
            unit: Unit::BytesPerSecond,
            meaning: "what all of them read per second",
            nature: Nature::State,
            headline: |labels| labels.get("order") == Some("random") && labels.get("processes") == Some("16"),
        },
        Publication {
            metric: FAIRNESS,
            unit: Unit::One,
            meaning: "Jain's index of how evenly they read: 1 is even, 1/N all for one",
            nature: Nature::State,
            headline: crate::experiments::never,
        },
        Publication {
            metric: CPU_SHARE,
            unit: Unit::One,
            meaning: "CPU time of all reads over the window and the CPUs",
            nature: Nature::State,
            headline: crate::experiments::never,
        },
    ],
    every: |_| 4,
    seconds: |_| 1.2,
    time_out: 120.0,
    memory: |_| 8 << 20,
    predict,
    measure,
    figures,
    explain,
};

const TIME: &str = "file.contention.block_time";
const RATE: &str = "file.contention.rate";
const FAIRNESS: &str = "file.contention.fairness";
/// What names of its files begin with.
const FILES: &str = "contention-";
const CPU_SHARE: &str = "file.contention.cpu_share";

/// Numbers of processes.
const PROCESSES: [usize; 5] = [1, 2, 4, 8, 16];
/// Size of each file: also one of the sizes of the experiment on reads, with which one process is compared.
const FILE: u64 = 16 << 20;
/// Parts of a hundred of the run's space that these files may take.
const SHARE: u64 = 40;
/// Windows of a run that has time, and of a quick one.
const WINDOW: Duration = Duration::from_millis(100);
const QUICK_WINDOW: Duration = Duration::from_millis(50);
/// The longest window, for devices on which a process reads too few blocks otherwise, and how many those are.
const LONGEST_WINDOW: Duration = Duration::from_millis(500);
const ENOUGH_READS: f64 = 20.0;
/// Quantiles that are kept of a window's reads.
const QUANTILES: usize = 199;
/// Share of the CPUs above which not the device sets the pace (G37).
const CPU_BOUND: f64 = 0.9;

fn labels(order: Order, processes: usize) -> Labels {
    Labels::of([("order", order.name())]).with("processes", processes)
}

fn predict(by: &Foreknowledge<'_>) -> Vec<Prediction> {
    let mut all = Vec::new();
    for order in Order::ALL {
        for processes in PROCESSES {
            let time = predict_time(by, order, processes);
            let count = processes as f64;
            let rate = (count * BLOCK as f64 * 1e9 / time.value, count * BLOCK as f64 * 1e9 / time.high, {
                count * BLOCK as f64 * 1e9 / time.low.max(f64::MIN_POSITIVE)
            });
            let basis = Basis::guess("a closed system: so many readers, each with one read under way");
            all.push(Prediction::of(RATE, labels(order, processes), Unit::BytesPerSecond).hardware(
                &format!("{processes} blocks in the predicted time of a read"),
                rate,
                basis,
            ));
            all.push(time);
            all.push(Prediction::of(FAIRNESS, labels(order, processes), Unit::One).software(
                "queues that forget nobody",
                (0.99, (1.0 / count).min(0.99), 1.0),
                Basis::guess("equal readers on an undisturbed machine; one may have all of them"),
            ));
        }
    }
    all
}

/// A read of one of several: as alone, and what it waits for the others.
fn predict_time(by: &Foreknowledge<'_>, order: Order, processes: usize) -> Prediction {
    let prediction = Prediction::of(TIME, labels(order, processes), Unit::Nanoseconds);
    let own = Labels::of([("order", order.name()), ("cache", "direct")]).with("bytes", FILE);
    let alone = match by.metric("file.read.block_time", &own) {
        Some(found) => {
            let range = (found.value, found.value * 0.8, found.value * 1.3);
            prediction.hardware("a read by one alone", range, Basis::metric(&format!("file.read.block_time {own}")))
        }
        None => predict_direct(by, order, prediction),
    };
    if processes == 1 {
        return alone;
    }
    let count = processes as f64;
    let deepest = by.known.iter().filter(|metric| metric.name == "file.read.depth_rate").map(|metric| metric.value);
    let (device, basis) = match deepest.reduce(f64::max) {
        Some(rate) => (count * BLOCK as f64 * 1e9 / rate, Basis::metric("file.read.depth_rate, the highest")),
        None => (alone.value * (count / 8.0).max(1.0), Basis::guess("a device serves some eight reads at once")),
    };
    let cpus = by.setup.machine.available_cpus().max(1.0);
    let work = BLOCK_LAYER.times(count / cpus);
    let longest = alone.value.max(device).max(work.0);
    // Between nobody waiting and all standing in one line.
    let waiting = longest - alone.value;
    let waiting = (waiting, 0.0, ((count - 1.0) * alone.high).max(waiting));
    alone.software(&format!("waiting for {} others", processes - 1), waiting, basis)
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Trouble> {
    let space = rig.space()?;
    // No more than its share, and no more than the files of others leave.
    let room = ((space.bytes / 100 * SHARE).min(space.left_to(FILES)) / FILE) as usize;
    let counts: Vec<usize> = PROCESSES.into_iter().filter(|&processes| processes <= room).collect();
    for processes in PROCESSES.into_iter().filter(|processes| !counts.contains(processes)) {
        let why = format!(
            "{room} files of {} fit into what is left to them of the space of this run (--scratch-limit BYTES)",
            quantity(FILE as f64, Unit::Bytes)
        );
        for order in Order::ALL {
            rig.unavailable(TIME, &labels(order, processes), &why);
        }
    }
    let mut files = Vec::new();
    for number in 0..counts.last().copied().unwrap_or(0) {
        let path = space.directory.join(format!("{FILES}{number}"));
        let file = Stamped::obtain(&path, FILE, space.seed())?;
        let sound = |why: String| {
            Trouble::new(format!("the test file is not what was written: {why}"))
                .hint("choose a file system that stores files as they are with --scratch DIR")
        };
        file.sound().map_err(sound)?;
        files.push(file);
    }
    let opened: Result<Vec<std::fs::File>, String> = files.iter().map(Stamped::direct).collect();
    let opened = match opened {
        Ok(opened) => opened,
        Err(why) => {
            rig.unavailable(TIME, &Labels::none(), &why);
            return Ok(());
        }
    };
    rig.has_partners();
    let cpus = &rig.setup().allowed;
    rig.record("cpus", Labels::none(), Unit::One, vec![cpus.len() as f64])?;
    let base = if rig.setup().profile.is_quick() { QUICK_WINDOW } else { WINDOW };
    let mut plan: Vec<(Order, usize)> =
        Order::ALL.into_iter().flat_map(|order| counts.iter().map(move |&count| (order, count))).collect();
    if plan.is_empty() {
        return Ok(());
    }
    rig.random().shuffle(&mut plan);
    // One process first: its pace says how long a window must be for the others.
    let first = race(rig, &files, &opened, cpus, (Order::Random, 1), Duration::from_millis(20))?;
    let pace = mean_read(&first).map_or(base.as_nanos() as f64, |ticks| rig.nanoseconds(ticks));
    for (order, processes) in plan {
        let enough = Duration::from_nanos((pace * ENOUGH_READS * processes as f64) as u64);
        let window = base.max(enough.min(LONGEST_WINDOW));
        let crowd = race(rig, &files, &opened, cpus, (order, processes), window)?;
        record(rig, order, processes, &crowd)?;
    }
    Ok(())
}

fn mean_read(crowd: &Crowd) -> Option<f64> {
    summary::mean(&crowd.tracks.iter().flat_map(|track| track.ticks.iter().copied()).collect::<Vec<f64>>())
}

fn race(
    rig: &mut Rig<'_>,
    files: &[Stamped],
    opened: &[std::fs::File],
    cpus: &[u32],
    (order, processes): (Order, usize),
    window: Duration,
) -> Result<Crowd, Trouble> {
    let own = cpus.iter().position(|&cpu| cpu == rig.setup().cpu).unwrap_or(0);
    let readers: Vec<Reader<'_>> = (0..processes)
        .map(|index| {
            let mut places: Vec<u64> = (0..FILE / BLOCK).map(|block| block * BLOCK).collect();
            if order == Order::Random {
                rig.random().shuffle(&mut places);
            } else {
                let start = rig.random().usize(..places.len());
                places.rotate_left(start);
            }
            // The first on the CPU of the launch, the others on the next ones in turn.
            Reader { stamped: &files[index], from: &opened[index], cpu: cpus[(own + index) % cpus.len()], places }
        })
        .collect();
    let (source, hertz) = (rig.source()?, rig.ticks(1e9));
    parallel_readers::race(&readers, BLOCK as usize, source, hertz, window)
}

fn record(rig: &mut Rig<'_>, order: Order, processes: usize, crowd: &Crowd) -> Result<(), Trouble> {
    let labels = labels(order, processes);
    let times: Vec<f64> =
        crowd.tracks.iter().flat_map(|track| &track.ticks).map(|&ticks| rig.nanoseconds(ticks)).collect();
    let window = rig.nanoseconds(crowd.window);
    let counts: Vec<f64> = crowd.tracks.iter().map(|track| track.ticks.len() as f64).collect();
    if times.is_empty() {
        rig.unavailable(TIME, &labels, &"no read began and ended within the window: the device is too slow for it");
        return Ok(());
    }
    let kept = (1..=QUANTILES).filter_map(|step| summary::quantile(&times, step as f64 / (QUANTILES + 1) as f64));
    rig.record("times", labels.clone(), Unit::Nanoseconds, kept.collect())?;
    rig.record("reads", labels.clone(), Unit::One, counts)?;
    rig.record("window", labels.clone(), Unit::Nanoseconds, vec![window])?;
    let sum = |of: fn(&parallel_readers::Track) -> f64| crowd.tracks.iter().map(of).sum::<f64>();
    let span = rig.nanoseconds(crowd.whole);
    rig.record("cpu_time", labels.clone(), Unit::Nanoseconds, vec![sum(|track| track.cpu_time), span])?;
    rig.record("strays", labels.clone(), Unit::One, vec![sum(|track| track.strays as f64)])?;
    if crowd.tracks.iter().all(|track| track.read.is_some()) {
        let read = sum(|track| track.read.unwrap_or(0.0));
        rig.record("proof", labels.clone(), Unit::Bytes, vec![sum(|track| track.asked), read])?;
    }
    if let Some(queue) = crowd.in_flight {
        rig.record("in_flight", labels, Unit::One, vec![queue])?;
    }
    Ok(())
}

/// What all read per second, launch by launch.
fn rates(study: &Study<'_>, order: Order, processes: usize) -> Vec<f64> {
    let labels = labels(order, processes);
    let windows = study.numbered_series("window", &labels);
    let of = |(number, reads): (u32, &crate::results::series::Series)| {
        let (_, window) = windows.iter().find(|(other, _)| *other == number)?;
        Some(reads.values.iter().sum::<f64>() * BLOCK as f64 * 1e9 / window.values.first()?)
    };
    study.numbered_series("reads", &labels).into_iter().filter_map(of).collect()
}

fn rate(study: &Study<'_>, order: Order, processes: usize) -> Option<Estimate> {
    let name = "median over launches of the blocks of all processes over the window";
    Estimate::over_launches(&rates(study, order, processes), Unit::BytesPerSecond, name)
}

fn time(study: &Study<'_>, order: Order, processes: usize) -> Option<Estimate> {
    Estimate::median(&study.plain_sample("times", &labels(order, processes))?)
}

/// Share of the CPUs that the processes had, launch by launch.
fn cpu_shares(study: &Study<'_>, order: Order, processes: usize) -> Vec<f64> {
    let cpus = median(&study.values("cpus", &Labels::none())).unwrap_or(1.0).min(processes as f64);
    let used = study.series("cpu_time", &labels(order, processes));
    used.iter().filter_map(|series| Some(series.values.first()? / series.values.get(1)? / cpus)).collect()
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    for order in Order::ALL {
        for processes in PROCESSES {
            publish(study, findings, order, processes);
        }
    }
    findings.curves.extend(curves(findings));
}

fn publish(study: &Study<'_>, findings: &mut Findings, order: Order, processes: usize) {
    let own = labels(order, processes);
    let (Some(time), Some(rate)) = (time(study, order, processes), rate(study, order, processes)) else { return };
    let shared = judgement::common_gates(study, order, processes);
    let of_time = judgement::of_time(study, order, processes, &time);
    findings.publish(study, Figure::shots(TIME, own.clone(), &time, None).gates(of_time));
    let growth = judgement::growth(study, order, processes, rate.value);
    findings.publish(study, Figure::shots(RATE, own.clone(), &rate, None).gates(shared).gates(growth));
    let reads = study.series("reads", &own);
    let even: Vec<f64> = reads.iter().filter_map(|series| parallel_readers::fairness(&series.values)).collect();
    if let Some(found) = Estimate::over_launches(&even, Unit::One, "median over launches of Jain's index") {
        let least = 1.0 / processes as f64;
        let index = Number::plain(found.value).named("Jain's index {}");
        let bounds = Gate::between(&judgement::INDEX, index, least * (1.0 - 1e-9), 1.0 + 1e-9);
        findings.publish(study, Figure::fact(FAIRNESS, own.clone(), &found).higher_is_better().gates(vec![bounds]));
    }
    let name = "median over launches of CPU time over window and CPUs";
    if let Some(found) = Estimate::over_launches(&cpu_shares(study, order, processes), Unit::One, name) {
        findings.publish(study, Figure::fact(CPU_SHARE, own, &found));
    }
}

fn shown(value: f64) -> String {
    quantity(value, Unit::Nanoseconds)
}

fn curves(findings: &Findings) -> Vec<Curve> {
    let mut curves = Vec::new();
    for order in Order::ALL {
        let of = |processes: usize| {
            let metric = findings.metric(TIME, &labels(order, processes))?;
            Some([processes as f64, metric.value, metric.interval95[0], metric.interval95[1]])
        };
        let points: Vec<[f64; 4]> = PROCESSES.into_iter().filter_map(of).collect();
        if points.len() > 1 {
            curves.push(Curve {
                name: "file.contention.by_processes".to_owned(),
                labels: Labels::of([("order", order.name())]),
                x: Axis { label: "processes".to_owned(), unit: Unit::One },
                y: Axis { label: "read of 4 KiB".to_owned(), unit: Unit::Nanoseconds },
                points,
            });
        }
    }
    curves
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    let mut rows = Vec::new();
    for order in Order::ALL {
        let alone = rate(study, order, 1).map(|found| found.value);
        for processes in PROCESSES {
            let own = labels(order, processes);
            let (Some(time), Some(rate)) = (findings.metric(TIME, &own), findings.metric(RATE, &own)) else { continue };
            let tail = study.plain_sample("times", &own).and_then(|sample| {
                summary::quantile(&sample.launches.iter().flatten().copied().collect::<Vec<f64>>(), 0.99)
            });
            let value = |metric: &str| {
                findings.metric(metric, &own).map_or_else(|| "–".to_owned(), |found| number(found.value))
            };
            let queue = median(&study.values("in_flight", &own)).map_or_else(|| "–".to_owned(), number);
            rows.push(vec![
                order.name().to_owned(),
                processes.to_string(),
                time.text(),
                tail.map_or_else(|| "–".to_owned(), shown),
                rate.text(),
                alone.map_or_else(|| "–".to_owned(), |alone| factor(rate.value / alone)),
                value(FAIRNESS),
                value(CPU_SHARE),
                queue,
            ]);
        }
    }
    if rows.is_empty() {
        return;
    }
    findings.tabulate(
        "Processes that read at once, each its own file",
        &[
            "order",
            "processes",
            "median",
            "p99",
            "together",
            "of one",
            "fairness",
            "CPU share",
            "in the device's queue",
        ],
        rows,
    );
    let most = PROCESSES[PROCESSES.len() - 1];
    let pair = |processes| findings.metric(TIME, &labels(Order::Random, processes)).map(|found| found.value);
    if let (Some(one), Some(all)) = (pair(1), pair(most)) {
        let line = one * most as f64;
        findings.say(format!(
            "A random read takes {} alone and {} among {most} ({}). If all stood in one line it would be {}: the device and the system serve {} of them at once.",
            shown(one),
            shown(all),
            factor(all / one),
            shown(line),
            number(line / all)
        ));
    }
    let bound: Vec<String> = Order::ALL
        .into_iter()
        .flat_map(|order| PROCESSES.map(|processes| (order, processes)))
        .filter(|&(order, processes)| {
            median(&cpu_shares(study, order, processes)).is_some_and(|share| share >= CPU_BOUND)
        })
        .map(|(order, processes)| format!("{} by {processes}", order.name()))
        .collect();
    if !bound.is_empty() {
        findings.say(format!("CPU-bound, not bound by the device: {}.", bound.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_reads_files_of_a_size_that_reads_are_measured_with() {
        assert_eq!(PROCESSES[0], 1);
        assert!(PROCESSES.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(labels(Order::Random, 4).to_string(), "order=random processes=4");
    }
}
