//! Experiments of operations in ordinary work: such an experiment is its text, its rows and an [`Operations`], whose functions predict,
//! measure and publish them.

use super::kernel_work;
use super::row::{Make, Row, phrase};
use super::system_call::paid;
use crate::experiments::constants::{KERNEL_ROUND_TRIP, PAGE_COPY, guest_exit};
use crate::experiments::prelude::*;
use crate::rig::sampler::{Expected, Timed};
use crate::rig::team::{Team, computing};
use crate::sys::operation::Operation;
use crate::sys::placed::Around;
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
pub(super) const OPERATION: &str = "operation";
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
/// Label of the number of threads that run on other CPUs.
pub const OTHER_THREADS: &str = "other_threads";
/// Most such threads.
const MOST_OTHERS: usize = 15;
/// Exits for one interrupt to another CPU of a guest: to send it, and to take it. None where the hardware delivers it.
const EXITS: f64 = 2.0;

constants! {
    /// Interrupting another CPU and waiting until it has forgotten translations.
    SHOOTDOWN = 2_000.0 in 500.0 ..= 10_000.0 "ns", "Amit, USENIX ATC 2017: 1–6 µs by distance and number of CPUs";
    /// A page fault for which the kernel clears or finds a page.
    MINOR_FAULT = 2_500.0 in 500.0 ..= 12_000.0 "cycles", "Linux mm/memory.c: 1000–5000 cycles, more in guests with nested tables";
}

rules! {
    CALLS_INSIDE: "G20" Hard "`os.channel.time`, `os.poll.time`, `os.lock.time`, `os.signal.time`, `memory.map.time`, `file.metadata.time`",
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

    /// Labels of an operation, made with a number of other threads.
    fn labels(&self, row: &Row, others: usize) -> Labels {
        let labels = Labels::of([(self.label, row.name)]);
        let labels = if let Some((kind, size)) = row.size { labels.with(kind, size) } else { labels };
        if self.shoots_down() { labels.with(OTHER_THREADS, others) } else { labels }
    }

    /// Whether some operation must reach the CPUs of other threads.
    fn shoots_down(&self) -> bool {
        self.rows.iter().any(|row| row.shootdowns > 0.0)
    }

    /// Every operation alone, and those that reach other CPUs with numbers of threads there.
    fn variants(&self, setup: &Setup) -> Vec<(&'static Row, usize)> {
        let numbers = |row: &Row| match setup.allowed.len().saturating_sub(1) {
            others if others == 0 || row.shootdowns == 0.0 => vec![0],
            1 => vec![0, 1],
            others => vec![0, 1, others.min(MOST_OTHERS)],
        };
        self.rows.iter().flat_map(|row| numbers(row).into_iter().map(move |others| (row, others))).collect()
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
        let of = |(row, others): (&Row, usize)| {
            let mut prediction = Prediction::of(self.metric, self.labels(row, others), Unit::Nanoseconds);
            if row.entries > 0.0 {
                let entries = times(entry, row.entries);
                prediction = prediction.hardware("kernel entries, each as long as getppid", entries, basis.clone());
            }
            if row.instructions > 0.0 {
                let (work, pace) = kernel_work(by, row.instructions);
                prediction = prediction.software(row.what, work, pace);
            }
            if let Some(("bytes", bytes)) = row.size {
                let copies = PAGE_COPY.times(COPIES * bytes as f64 / PAGE_BYTES);
                prediction = prediction.hardware("copying the bytes in and out", copies, PAGE_COPY.basis());
            }
            if let Some((faults, kind)) = row.faults {
                let (fault, basis) = page_fault(by, kind);
                prediction = prediction.software("page faults", times(fault, faults), basis);
            }
            if others > 0 {
                prediction = interrupting(by, prediction, row.shootdowns);
            }
            row.parts.iter().fold(prediction, |prediction, (what, number, constant)| {
                let range = constant.times(*number);
                let range = if constant.unit == "cycles" { cycle.of(range) } else { range };
                prediction.software(what, range, constant.basis())
            })
        };
        self.variants(by.setup).into_iter().map(of).collect()
    }

    /// Measures a call that enters the kernel and does next to nothing, and then each operation, in blocks.
    ///
    /// # Errors
    ///
    /// The launch cannot measure.
    pub fn measure(&self, rig: &mut Rig<'_>) -> Result<(), Problem> {
        let parent = rig.placed_loop(vec![Operation::parent_number()], Around::Work)?;
        let bare = rig.in_loop(BARE, Labels::none(), 1, &parent, Around::Work)?.sized(self.sizing);
        // Before there is another thread: the kernel treats files and address spaces of one thread in other ways.
        let (alone, accompanied): (Vec<_>, Vec<_>) =
            self.variants(rig.setup()).into_iter().partition(|(_, others)| *others == 0);
        let mut workloads = self.workloads(rig, alone)?;
        if !workloads.is_empty() {
            workloads.insert(0, bare);
            rig.sample_in_blocks(workloads)?;
        }
        let workloads = self.workloads(rig, accompanied)?;
        if workloads.is_empty() { Ok(()) } else { rig.sample_in_blocks(workloads) }
    }

    /// What is measured of some variants.
    fn workloads<'r>(
        &self,
        rig: &mut Rig<'_>,
        variants: Vec<(&'static Row, usize)>,
    ) -> Result<Vec<Workload<'r>>, Problem> {
        let is_filtered = process::is_filtered();
        let makes_files = self.rows.iter().any(|row| matches!(row.make, Make::InScratch(_)));
        let scratch = if makes_files { Some(rig.space()?.directory.as_path()) } else { None };
        let mut workloads = Vec::new();
        for (row, others) in variants {
            let labels = self.labels(row, others);
            let threads = if others > 0 { Some(running_threads(rig, others)) } else { None };
            let made = row.usable(is_filtered, scratch).and_then(|made| Ok((made, threads.transpose()?)));
            match made {
                Ok((made, threads)) => {
                    let placed = rig.placed_loop(made, Around::Work)?;
                    let expected = Expected { faults: row.faults.is_some(), ..Expected::default() };
                    let workload = rig.in_loop(OPERATION, labels, row.operations, &placed, Around::Work)?;
                    let workload = row.counted(workload.sized(self.sizing(row)).expecting(expected));
                    workloads.push(match threads {
                        Some(team) => with_threads(workload, team, rig.ticks(1e9)),
                        None => workload,
                    });
                }
                Err(reason) => rig.unavailable(self.metric, &labels, &reason),
            }
        }
        Ok(workloads)
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
        for (row, others) in self.variants(study.setup) {
            let labels = self.labels(row, others);
            let Some(estimate) = estimate(OPERATION, &labels) else { continue };
            let own = bare.iter().filter(|bare| bare.unit == estimate.unit && row.entries > 0.0);
            let own = own.map(|bare| contains_its_calls(&estimate, bare, row.entries));
            let figure = Figure::batches(self.metric, labels, &estimate).gates(own);
            findings.publish(study, if row.entries > 0.0 { figure } else { figure.of_class(OVERLAPPING) });
        }
    }
}

/// What it takes to reach other CPUs this many times.
pub(super) fn interrupting(by: &PredictionInput<'_>, prediction: Prediction, shootdowns: f64) -> Prediction {
    let reach = SHOOTDOWN.times(shootdowns);
    let prediction = prediction.hardware("interrupting other CPUs", reach, SHOOTDOWN.basis());
    if !by.setup.machine.is_guest() {
        return prediction;
    }
    let ((value, _, high), basis) = guest_exit(by);
    let exits = EXITS * shootdowns;
    prediction.hardware("exits to the hypervisor for it", (value * exits, 0.0, high * exits), basis)
}

/// A page fault of a kind, by this run or else by its constant, in nanoseconds.
pub(super) fn page_fault(by: &PredictionInput<'_>, kind: &str) -> ((f64, f64, f64), Basis) {
    let of_kind = |metric: &&Metric| metric.name == "memory.page_fault.time" && metric.labels.get("kind") == Some(kind);
    match by.known.iter().find(of_kind) {
        Some(found) => (
            (found.value, found.value * 0.5, found.value * 1.5),
            Basis::metric(&format!("memory.page_fault.time kind={kind}")),
        ),
        None => (CycleTime::known(by).of(MINOR_FAULT.times(1.0)), MINOR_FAULT.basis()),
    }
}

/// Threads of this process that run on other CPUs while a turn lasts.
fn running_threads(rig: &Rig<'_>, others: usize) -> Result<Team, String> {
    let setup = rig.setup();
    let mut cpus: Vec<u32> = setup.allowed.iter().copied().filter(|&cpu| cpu != setup.cpu).collect();
    cpus.sort_by_key(|&cpu| setup.partner != Some(cpu));
    computing(&cpus[..others], rig.source().map_err(|problem| problem.to_string())?)
}

/// The workload while threads run on other CPUs. If one of them waited for its CPU, the batch is preempted.
fn with_threads(workload: Workload<'_>, mut team: Team, hertz: f64) -> Workload<'_> {
    let Workload { mut work, .. } = workload;
    let together = move |turns: u64| {
        team.begin(0, hertz)?;
        let timed = work(turns);
        let together = team.end(hertz)?;
        Ok(match timed? {
            Timed::Ticks(ticks) if together.waited => Timed::Preempted(ticks),
            timed => timed,
        })
    };
    Workload { work: Box::new(together), ..workload }
}

/// An operation takes no less than the system calls in it.
fn contains_its_calls(estimate: &Estimate, bare: &Estimate, entries: f64) -> Gate {
    let least = bare.value * entries * (1.0 - SLACK);
    Gate::at_least(&CALLS_INSIDE, estimate.named("{}"), least).because(format!("{} calls of getppid", number(entries)))
}
