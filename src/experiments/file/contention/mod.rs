//! # Question
//!
//! How long does a read of a block take when one, two, four and more processes read at the same
//! time? How much do they read together, and how evenly? How many can read before they wait for each other?
//!
//! # Method
//!
//! Each process reads its own stamped file of 16 MiB in blocks of 4 KiB, one at a time, with O_DIRECT. More than 16
//! processes read equal parts of 16 files, each through its own descriptor. All processes
//! read within one common time window, in sequential or random order. The result **block_time** is the median of the
//! reads of all processes, and **rate** is their bytes divided by the window.
//!
//! Each launch fits a level and a line that begins at its end to its times, with the least squares of relative distances. The result **knee** is where the line begins, and **per_reader** is its slope. At least two
//! numbers lie beyond the knee. Both are published if the median of each number is within 10 % of the fit to these medians.
//!
//! sysdyno forks and pins the processes, and they open their files, before a shared gate opens. No process forks, exits
//! or waits for another process within the window. sysdyno assigns CPUs round-robin from all that the run may use. Only
//! pread(2) is between the two clock reads of a read. The process compares the stamp afterwards.
//!
//! The processes read for 100 ms before the window, which lasts 100 ms or more. A read counts if it begins and ends within
//! the window. Each launch gives one value, and the result is the median over launches. Each launch measures the numbers
//! of processes in a random order. A quick run measures random order only. A default run measures sequential order by
//! 1 and 16 processes, and random order by all numbers.
//!
//! The log keeps 199 evenly spaced quantiles of each window's reads and the longest one. It also keeps the reads of each
//! process, its CPU time, what devices read for it, and the time that the hypervisor took.
//!
//! # Prediction
//!
//! The bounds of a closed queueing system. A read takes the longest of three times:
//!
//! - the read of a single process (measured by `file.read`),
//! - the time in which the device serves one read of every process, at its highest rate with 32 reads in flight,
//! - the CPU time of all their reads divided by the CPUs.
//!
//! The upper end of the range is a single queue: the number of processes times the read of one. Each further process adds the time in
//! which the device serves one read. The knee is the read of one process divided by that time.
//!
//! # What could fool us
//!
//! - **Children on one CPU**: a process that inherits the affinity mask of a pinned parent shares its CPU. The result
//!   is then the cost of the CPU. Therefore sysdyno spreads the processes over the allowed CPUs, pins each to one, and checks that
//!   at every read. The report gives the used share of the CPUs and calls a result above nine tenths CPU-bound.
//! - **fork and exit within the timed interval**: the start of a process takes as long as tens of reads.
//! - **Intervals that do not overlap**: the first process finishes before the last one begins. Only the common window
//!   counts.
//! - **A limited host**: a host can limit the CPU time of a guest and of its disk together, for each 100 ms. Many readers
//!   exceed this limit, and the host then stops the guest. One host stopped its guest for 24 ms of each 100 ms while 16
//!   processes read. A short window after a pause shows a higher rate than the readers can keep.
//! - One file for all processes, or files in the page cache, measure the cache.
//! - N processes do not always take N times as long. They do so only where the device serves one read at a time.
//! - Sequential readers together are not a sequential load: a rotating disk moves its head between them.
//! - Small files fit into caches below the kernel. A rule compares the results of one process with those of larger
//!   files.
//!
//! # References
//!
//! P. Denning and J. Buzen, "The operational analysis of queueing network models", 1978 (bounds of closed systems). R.
//! Jain, "The art of computer systems performance analysis", 1991 (fairness index). open(2), fork(2). fio, HOWTO
//! (`numjobs`).

mod explain;
mod judge;
mod measure;
mod predict;

use super::{BLOCK, DISK, Order, PLACE};
use crate::experiments::prelude::*;
use crate::setup::Profile;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "file.contention",
    title: "Concurrent file reads",
    measures: "reads of a block by one to 64 processes at once, each from its own part of the files",
    method_version: 2,
    precision: Precision::OF_DEVICES,
    source: heading!("mod.rs"),
    needs: &[PLACE, DISK],
    uses: &[
        "cpu.cycle_time",
        "os.system_call.time",
        "memory.page_fault.time",
        "file.read.block_time",
        "file.read.depth_rate",
    ],
    rules: judge::RULES,
    publishes: &[
        Publication::state(TIME, Unit::Nanoseconds, "one read of 4 KiB past the cache by one of N processes")
            .in_summary_where(|labels| labels.get("order") == Some("random")),
        Publication::state(RATE, Unit::BytesPerSecond, "bytes per second of all processes together")
            .in_summary_where(|labels| labels.get("order") == Some("random") && labels.get("processes") == Some("16")),
        Publication::state(
            FAIRNESS,
            Unit::One,
            "Jain's fairness index: 1 is even, 1/N means one process does all \
                                                 reads",
        ),
        Publication::state(
            PER_READER,
            Unit::Nanoseconds,
            "time that each further process adds to a read, beyond the knee",
        )
        .in_summary_where(|labels| labels.get("order") == Some("random")),
        Publication::state(KNEE, Unit::One, "processes up to which a read takes no longer than alone"),
        Publication::state(CPU_SHARE, Unit::One, "CPU time of all reads divided by the window and the CPUs"),
    ],
    seconds: |setup| 0.2 + 0.22 * races(setup.profile).count() as f64,
    time_out: 120.0,
    memory: |_, _| 8 << 20,
    predict: predict::predict,
    measure: measure::measure,
    figures: judge::figures,
    explain: explain::explain,
    ..Experiment::DEFAULT
};

const TIME: &str = "file.contention.block_time";

const RATE: &str = "file.contention.rate";

const FAIRNESS: &str = "file.contention.fairness";

const CPU_SHARE: &str = "file.contention.cpu_share";

const PER_READER: &str = "file.contention.per_reader";

const KNEE: &str = "file.contention.knee";

/// Numbers of processes.
const PROCESSES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Most files. More processes than this read equal parts of them, so that more readers need no more space.
const MOST_FILES: usize = 16;

/// Size of each file: also one of the sizes of the experiment on reads, with which one process is compared.
const FILE: u64 = 16 << 20;

/// Numbers of processes that a run measures in an order. Several readers of sequential files mix them, so few numbers show their cost.
fn wanted(profile: Profile, order: Order) -> &'static [usize] {
    match (order, profile) {
        (Order::Random, _) | (Order::Sequential, Profile::Rigorous) => &PROCESSES,
        (Order::Sequential, Profile::Default) => &[1, MOST_FILES],
        (Order::Sequential, Profile::Quick) => &[],
    }
}

/// All that a run measures.
fn races(profile: Profile) -> impl Iterator<Item = (Order, usize)> {
    Order::ALL
        .into_iter()
        .flat_map(move |order| wanted(profile, order).iter().map(move |&processes| (order, processes)))
}

/// Share of the CPUs above which not the device sets the pace (G37).
const CPU_BOUND: f64 = 0.9;

fn labels(order: Order, processes: usize) -> Labels {
    Labels::of([("order", order.name())]).with("processes", processes)
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
    let name = "median over launches of the blocks of all processes divided by the window";
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

/// Share of the time that the hypervisor had the measured CPU, over all launches; none where the kernel does not say.
fn stopped(study: &Study<'_>, order: Order, processes: usize) -> Option<f64> {
    let found = study.series("stolen", &labels(order, processes));
    let sum = |index: usize| found.iter().filter_map(|series| series.values.get(index)).sum::<f64>();
    (sum(1) > 0.0).then(|| sum(0) / sum(1))
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
