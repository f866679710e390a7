//! Operations that are measured in ordinary work, a row each.
//!
//! An experiment of such operations is its text, its rows and an [`Operations`], whose functions predict, measure and publish them.

use std::io;
use std::path::Path;

use super::kernel_work;
use super::system_call::paid;
use crate::experiments::constants::{COPY_BYTE, Constant, KERNEL_ROUND_TRIP};
use crate::experiments::prelude::*;
use crate::sys::placed::{Around, Operation};
use crate::sys::process::{self, Trial};

/// What an operation consists of: in words, number of times, and constant in cycles.
pub(in crate::experiments) type Parts = &'static [(&'static str, f64, Constant)];

/// An operation of a set.
pub(in crate::experiments) struct Row {
    /// Value of the label that distinguishes the operations.
    pub name: &'static str,
    /// Bytes that it transfers, as a label. None where it has no size.
    pub bytes: Option<u64>,
    /// Its name in sentences.
    pub phrase: &'static str,
    /// What the kernel does for it.
    pub what: &'static str,
    /// Instructions of that, counted roughly or estimated from the cost on one host, for the prediction. Its range is from half
    /// to twice the pace of instructions.
    pub instructions: f64,
    /// What else it consists of.
    pub parts: Parts,
    /// Kernel entries of one operation: 2 for a pair of calls, less than 1 where an entry serves several operations.
    pub entries: f64,
    /// Operations in one turn of a loop.
    pub operations: u64,
    /// How it is made.
    pub make: Make,
    /// A number that each operation must raise by exactly one. A batch in which it does not is discarded.
    pub count: Option<fn() -> u64>,
    /// Whether it is made once before it is measured. What a filter may refuse is tried in any case.
    pub is_tried: bool,
    /// What to do where it cannot be prepared.
    pub hint: &'static str,
}

/// Prepares what an operation works on, and gives what a turn of a loop executes, with the answers that it must give.
#[derive(Clone, Copy)]
pub(in crate::experiments) enum Make {
    /// One call, or one function.
    One(fn() -> io::Result<Operation<'static>>),
    /// Two in a row.
    Two(fn() -> io::Result<[Operation<'static>; 2]>),
    /// A call or a function, in the scratch directory of the run.
    InScratch(fn(&Path) -> io::Result<Operation<'static>>),
}

impl Make {
    /// What a turn executes.
    fn made(self, scratch: Option<&Path>) -> io::Result<Vec<Operation<'static>>> {
        match self {
            Make::One(make) => make().map(|operation| vec![operation]),
            Make::Two(make) => make().map(Vec::from),
            Make::InScratch(make) => make(scratch.ok_or(io::ErrorKind::NotFound)?).map(|operation| vec![operation]),
        }
    }
}

impl Row {
    /// A system call, of the kernel's work for it in instructions.
    pub const fn call(
        name: &'static str,
        phrase: &'static str,
        what: &'static str,
        instructions: f64,
        make: fn() -> io::Result<Operation<'static>>,
    ) -> Row {
        Row {
            name,
            bytes: None,
            phrase,
            what,
            instructions,
            parts: &[],
            entries: 1.0,
            operations: 1,
            make: Make::One(make),
            count: None,
            is_tried: true,
            hint: "",
        }
    }

    /// Two system calls.
    pub const fn pair(
        name: &'static str,
        phrase: &'static str,
        what: &'static str,
        instructions: f64,
        make: fn() -> io::Result<[Operation<'static>; 2]>,
    ) -> Row {
        let one = Row::call(name, phrase, what, instructions, || Ok(Operation::refused()));
        Row { entries: 2.0, make: Make::Two(make), ..one }
    }

    /// A change of names in the scratch directory of the run, by a number of calls.
    pub const fn in_scratch(
        name: &'static str,
        phrase: &'static str,
        entries: f64,
        make: fn(&Path) -> io::Result<Operation<'static>>,
    ) -> Row {
        let one = Row::call(name, phrase, "", 0.0, || Ok(Operation::refused()));
        Row { entries, make: Make::InScratch(make), ..one }
    }

    /// The operation, tried in a child process where a filter might kill the process that makes it.
    ///
    /// # Errors
    ///
    /// Why it cannot be measured here.
    pub fn usable(&self, is_filtered: bool, scratch: Option<&Path>) -> Result<Vec<Operation<'static>>, String> {
        if is_filtered {
            match process::try_in_child(|| self.make.made(scratch).is_ok_and(|made| Operation::work(&made))) {
                Ok(Trial::Worked | Trial::Refused) => {}
                Ok(Trial::Killed(signal)) => {
                    return Err(format!("a system-call filter kills a process that makes it ({signal})"));
                }
                Err(error) => return Err(format!("cannot try it in a child process: {error}")),
            }
        }
        let made = self.make.made(scratch).map_err(|error| format!("cannot be prepared: {error}{}", self.hint))?;
        if !is_filtered && !self.is_tried || Operation::work(&made) {
            Ok(made)
        } else {
            Err(format!("{} refuses it", if is_filtered { "a system-call filter" } else { "the kernel" }))
        }
    }

    /// The same workload, whose batches are discarded unless the number rose by one for each operation.
    fn counted<'a>(&self, workload: Workload<'a>) -> Workload<'a> {
        let Some(count) = self.count else { return workload };
        let operations = self.operations;
        let Workload { mut work, .. } = workload;
        let checked = move |turns: u64| {
            let before = count();
            let timed = work(turns)?;
            match count() - before {
                counted if counted == turns * operations => Ok(timed),
                counted => Err(format!("{} operations were made and {counted} counted", turns * operations)),
            }
        };
        Workload { work: Box::new(checked), ..workload }
    }
}

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
/// Times that each byte is copied on its way through the kernel.
const COPIES: f64 = 2.0;

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

    /// The name of an operation in sentences, by a metric of an experiment and a label.
    pub fn phrase(&self, key: &str, value: &str) -> Option<&'static str> {
        let row = self.rows.iter().find(|row| row.name == value && key == self.label)?;
        Some(row.phrase)
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
                let copies = COPY_BYTE.times(COPIES * bytes as f64);
                prediction = prediction.hardware("copying the bytes in and out", copies, COPY_BYTE.basis());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::sampler::Timed;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_batch_whose_operations_are_not_counted_is_discarded() {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let row = Row {
            count: Some(|| COUNT.load(Ordering::Relaxed)),
            ..Row::call("", "", "", 0.0, || Ok(Operation::refused()))
        };
        let after = |turns: u64, counted: u64, work: Result<Timed, String>| {
            let mut work = Some(work);
            let timed = move |_| {
                COUNT.fetch_add(counted, Ordering::Relaxed);
                work.take().unwrap_or(Ok(Timed::Whole))
            };
            (row.counted(Workload::self_timed(OPERATION, Labels::none(), 1, timed)).work)(turns)
        };
        assert!(after(2, 2, Ok(Timed::Whole)).is_ok());
        assert!(after(2, 1, Ok(Timed::Whole)).is_err());
        assert!(after(1, 1, Err("refused".to_owned())).is_err());
    }
}
