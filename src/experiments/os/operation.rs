//! Experiments of operations in ordinary work: such an experiment is its text, its rows and an [`Operations`], whose functions predict,
//! measure and publish them.

use super::kernel_work;
use super::row::{Make, Row, phrase};
use super::system_call::paid;
use crate::experiments::constants::{KERNEL_ROUND_TRIP, PAGE_COPY};
use crate::experiments::prelude::*;
use crate::sys::placed::{Around, Operation};
use crate::sys::process;

/// The operations of an experiment.
pub struct Operations {
    /// The metric of their costs.
    pub metric: &'static str,
    /// The label that distinguishes them.
    pub label: &'static str,
    pub(in crate::experiments) rows: &'static [Row],
    /// How many make a batch.
    pub sizing: Sizing,
    /// The method version from which their loops are placed by lot, in ordinary work.
    pub placed_since: u32,
}

/// Series of the operations.
const OPERATION: &str = "operation";
/// Series of the call that enters the kernel and does next to nothing there.
const BARE: &str = "bare";
/// An operation may come out this much below the calls that it contains before something is wrong.
const SLACK: f64 = 0.03;
/// Factor by which batches of operations that stay in user mode are longer: they are a small part of the work around them.
const LONGER_IN_USER_MODE: u32 = 16;
/// Of an operation in user mode: how much of it overlaps depends on the work around. C programs pay 1 to 8 cycles for an atomic addition,
/// and 13 to 18 for a mutex, where 4.5 and 12.5 are published (Intel Golden Cove guest).
const OVERLAPPING: Precision = Precision { target: 0.5, between: 0.4, busy: 0.4 };
/// Times that each byte is copied on its way through the kernel, from a cache into a cache of the same core.
const COPIES: f64 = 2.0;
/// Bytes that [`PAGE_COPY`] is for.
const PAGE_BYTES: f64 = 4096.0;

rules! {
    CALLS_INSIDE: "G20" Hard "`os.channel.time`, `os.lock.time`, `os.signal.time`, `file.metadata.time`",
        "an operation takes at least one getppid for each of its kernel entries, less {}", share(SLACK);
}

impl Operations {
    /// The size of a batch.
    fn sizing(&self, row: &Row) -> Sizing {
        match self.sizing {
            Sizing::ByTimes(longer) if row.entries == 0.0 => Sizing::ByTimes(longer * LONGER_IN_USER_MODE),
            sizing => sizing,
        }
    }

    fn labels(&self, row: &Row) -> Labels {
        let labels = Labels::of([(self.label, row.name)]);
        if let Some(bytes) = row.bytes { labels.with("bytes", bytes) } else { labels }
    }

    /// The name of an operation in sentences, by its label.
    pub fn phrase(&self, key: &str, value: &str) -> Option<&'static str> {
        if key == self.label { phrase(self.rows, value) } else { None }
    }

    /// Kernel entries at the cost of getppid, instructions at the pace of this run's system calls, copies and other parts.
    pub fn predict(&self, by: &PredictionInput<'_>) -> Vec<Prediction> {
        let cycle = CycleTime::known(by);
        let (entry, basis) = match paid(by.known, "getppid") {
            Some(bare) => {
                ((bare.value, bare.value * 0.7, bare.value * 1.3), Basis::metric("os.system_call.time call=getppid"))
            }
            None => (cycle.of(KERNEL_ROUND_TRIP.times(1.0)), KERNEL_ROUND_TRIP.basis()),
        };
        let times = |(value, low, high): (f64, f64, f64), factor: f64| (value * factor, low * factor, high * factor);
        let of = |row: &Row| {
            let mut prediction = Prediction::of(self.metric, self.labels(row), Unit::Nanoseconds);
            if row.entries > 0.0 {
                let entries = times(entry, row.entries);
                prediction = prediction.hardware("entering and leaving the kernel", entries, basis.clone());
            }
            if row.instructions > 0.0 {
                let (work, pace) = kernel_work(by, row.instructions);
                prediction = prediction.software(row.what, work, pace);
            }
            if let Some(bytes) = row.bytes {
                let copies = PAGE_COPY.times(COPIES * bytes as f64 / PAGE_BYTES);
                prediction = prediction.hardware("copying the bytes in and out", copies, PAGE_COPY.basis());
            }
            row.parts.iter().fold(prediction, |prediction, (what, number, constant)| {
                prediction.software(what, cycle.of(constant.times(*number)), constant.basis())
            })
        };
        self.rows.iter().map(of).collect()
    }

    /// Measures a call that enters the kernel and does next to nothing, and then each operation, in blocks.
    ///
    /// # Errors
    ///
    /// The launch cannot measure.
    pub fn measure(&self, rig: &mut Rig<'_>) -> Result<(), Problem> {
        let is_filtered = process::is_filtered();
        let makes_files = self.rows.iter().any(|row| matches!(row.make, Make::InScratch(_)));
        let scratch = if makes_files { Some(rig.space()?.directory.as_path()) } else { None };
        let parent = rig.placed_loop(vec![Operation::parent_number()], Around::Work)?;
        let mut workloads = vec![rig.in_loop(BARE, Labels::none(), 1, &parent, Around::Work)?.sized(self.sizing)];
        for row in self.rows {
            match row.usable(is_filtered, scratch) {
                Ok(made) => {
                    let placed = rig.placed_loop(made, Around::Work)?;
                    let labels = self.labels(row);
                    let workload = rig.in_loop(OPERATION, labels, row.operations, &placed, Around::Work)?;
                    workloads.push(row.counted(workload.sized(self.sizing(row))));
                }
                Err(reason) => rig.unavailable(self.metric, &self.labels(row), &reason),
            }
        }
        if workloads.len() > 1 { rig.sample_in_blocks(workloads) } else { Ok(()) }
    }

    /// Publishes the cost of each operation.
    pub fn figures(&self, study: &Study<'_>, findings: &mut Findings) {
        let estimate = |name: &str, labels: &Labels| {
            let sample = study.sample(name, labels)?;
            if study.method_version < self.placed_since {
                Estimate::undisturbed(&sample)
            } else {
                Estimate::of_draws(&sample.by_median())
            }
        };
        let bare = estimate(BARE, &Labels::none());
        for row in self.rows {
            let Some(estimate) = estimate(OPERATION, &self.labels(row)) else { continue };
            let own = bare.iter().filter(|bare| bare.unit == estimate.unit && row.entries > 0.0);
            let own = own.map(|bare| contains_its_calls(&estimate, bare, row.entries));
            let figure = Figure::batches(self.metric, self.labels(row), &estimate).gates(own);
            findings.publish(study, if row.entries > 0.0 { figure } else { figure.of_class(OVERLAPPING) });
        }
    }
}

/// An operation takes no less than the system calls in it.
fn contains_its_calls(estimate: &Estimate, bare: &Estimate, entries: f64) -> Gate {
    let least = bare.value * entries * (1.0 - SLACK);
    Gate::at_least(&CALLS_INSIDE, estimate.named("{}"), least).because(format!("{} calls of getppid", number(entries)))
}
