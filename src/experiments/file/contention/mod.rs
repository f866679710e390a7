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
//! - N times the time of one is not a rule: it holds only where the device serves one read at a time.
//! - Sequential readers together do not make a sequential load: a disk that turns moves its head between them.
//! - Small files fit into caches below the kernel. The figures of one process hold against those of larger files.
//!
//! # References
//!
//! P. Denning and J. Buzen, "The operational analysis of queueing network models", 1978 (bounds of closed systems); R.
//! Jain, "The art of computer systems performance analysis", 1991 (index of fairness); open(2), fork(2); fio, HOWTO
//! (numjobs).

mod explain;
mod judge;
mod measure;
mod predict;

use super::{BLOCK, DISK, Order, PLACE};
use crate::evaluate::estimate::Estimate;
use crate::evaluate::precision::Precision;
use crate::evaluate::study::Study;
use crate::experiments::{Experiment, Publication};
use crate::results::quantity::{Labels, Unit};
use crate::statistics::summary::median;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "file.contention",
    title: "Reading with others",
    measures: "reads of a block by one to sixteen processes at once, each of a file of its own",
    method_version: 1,
    precision: Precision { target: 0.2, between: 0.1 },
    source: include_str!("mod.rs"),
    needs: &[PLACE, DISK],
    uses: &[
        "cpu.cycle_time",
        "os.system_call.time",
        "memory.page_fault.time",
        "file.read.block_time",
        "file.read.depth_rate",
    ],
    rules: judge::RULES,
    constants: &[],
    publishes: &[
        Publication::state(TIME, Unit::Nanoseconds, "one read of 4 KiB past the cache by one of so many processes")
            .in_summary_where(|labels| labels.get("order") == Some("random")),
        Publication::state(RATE, Unit::BytesPerSecond, "what all of them read per second")
            .in_summary_where(|labels| labels.get("order") == Some("random") && labels.get("processes") == Some("16")),
        Publication::state(FAIRNESS, Unit::One, "Jain's index of how evenly they read: 1 is even, 1/N all for one"),
        Publication::state(CPU_SHARE, Unit::One, "CPU time of all reads over the window and the CPUs"),
    ],
    every: |_| 4,
    seconds: |_| 1.2,
    time_out: 120.0,
    memory: |_| 8 << 20,
    predict: predict::predict,
    measure: measure::measure,
    measure_first: None,
    figures: judge::figures,
    explain: explain::explain,
};

const TIME: &str = "file.contention.block_time";

const RATE: &str = "file.contention.rate";

const FAIRNESS: &str = "file.contention.fairness";

const CPU_SHARE: &str = "file.contention.cpu_share";

/// Numbers of processes.
const PROCESSES: [usize; 5] = [1, 2, 4, 8, 16];

/// Size of each file: also one of the sizes of the experiment on reads, with which one process is compared.
const FILE: u64 = 16 << 20;

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
