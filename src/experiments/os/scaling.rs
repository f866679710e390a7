//! # Question
//!
//! How many threads or processes can make a system call at the same time before they wait for each other in the kernel?
//!
//! # Method
//!
//! Threads of one process on separate CPUs, first one for each core, make the same call without pause for 1 ms per thread.
//! Processes do the same. The time of an operation is the time in which all of them worked, times their number, divided by the
//! operations of all. It is what one task pays. A call that scales costs the same with any number of tasks.
//!
//! - **getppid**: a call that takes no lock (os.system_call).
//! - **open_close**: open and close a device that all threads open (os.system_call).
//! - **pipe**: one byte through a pipe that only this task uses (os.channel).
//! - **file_lock**: flock(2) of a file that only this task uses, and its release (os.lock).
//! - **map_write_unmap**: map a page, write it and unmap it, in the address space of all threads or of the process (memory.map).
//!
//! The label **threads** or **processes** is their number: the powers of two and all CPUs. Each task runs the operation in a loop
//! without other work, from code at drawn places, and the answers are checked. A window is repeated if a task waited for its
//! CPU or worked alone for more than 2 % of it. One thread alone also gives the cost of one process.
//!
//! # Prediction
//!
//! One thread pays what the same operation costs in ordinary work, or less. More threads pay at least that. At most they stand in one
//! line, and each pays for all. Where pages are unmapped, the interrupts of other CPUs are added.
//!
//! # What could fool us
//!
//! - Threads share one table of files and one address space. Processes share neither, and scale better with files and mappings.
//! - Two threads of one core share its execution units, so both become slower without any lock.
//! - The clock of a core can fall when the others work.
//! - Windows with and without a neighbour on a core are not distinguished, so one thread can pay more than in os.system_call.
//! - A process of one thread skips the counts of users of a file. Two threads therefore cost more even where they do not meet.
//!
//! # References
//!
//! - Boyd-Wickizer et al., OSDI 2010 (scalability of Linux)
//! - Clements et al., SOSP 2013 (scalable commutativity)
//! - will-it-scale (getppid1, open1, pipe1, lock1, page_fault1)

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::{channel, lock, system_call};
use crate::experiments::constants::KERNEL_ROUND_TRIP;
use crate::experiments::figure_name::FigureName;
use crate::experiments::memory::footprint;
use crate::experiments::memory::map;
use crate::experiments::memory::streams::team_sizes;
use crate::experiments::os::operation::{interrupting, page_fault};
use crate::experiments::os::row::Row;
use crate::experiments::phrases::label;
use crate::experiments::prelude::*;
use crate::results::wording::capital;
use crate::rig::member::{Members, Pass};
use crate::rig::together::TeamJobs;
use crate::sys::memory::SharedWords;
use crate::sys::placed::{Around, PlacedLoop};
use crate::sys::process;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "os.scaling",
    title: "System calls of several tasks",
    measures: "system calls by the number of threads or processes that make them",
    words: &["scalability", "parallel"],
    method_version: 1,
    precision: Precision { target: 0.1, between: 0.08, busy: 0.1 },
    source: heading!("scaling.rs"),
    uses: &["cpu.cycle_time", "os.system_call.time", "os.channel.time", "os.lock.time"],
    constants: CONSTANTS,
    rules: RULES,
    publishes: &[Publication::cost(TIME, Unit::Nanoseconds, "one operation of a task, while all tasks make them")
        .in_summary_where(|labels| labels.get("threads").is_some_and(|threads| threads != "1"))],
    seconds: |_| 0.4,
    time_out: 30.0,
    predict,
    measure,
    figures,
    explain,
    ..Experiment::DEFAULT
};

const TIME: &str = "os.scaling.time";
/// Series of the operations.
const OPERATION: &str = "operation";
/// Seconds between two readings of the clock, about.
const PASS: f64 = 10e-6;
/// Operations of the trial that gives their number between two readings.
const TRIAL: u64 = 20;
/// Several threads take this share of the time of one, at least.
const SLACK: f64 = 0.9;
/// Threads do not wait for each other while each pays at most this many times what one alone pays.
const SCALES: f64 = 1.25;

constants! {
    /// An operation in a loop, in units of its cost in ordinary work.
    IN_LOOP = 0.85 in 0.5 ..= 1.25 "times", "predictors and caches know the path, see os.system_call after=same_call";
    /// What a further thread adds for each, in units of the cost of one.
    FURTHER = 0.1 in 0.0 ..= 1.0 "times", "Boyd-Wickizer, OSDI 2010: from nothing without shared data to one line of all threads";
}

rules! {
    NOT_FASTER: "G20" Noisy "`os.scaling.time`", "several threads pay at least {} times what one alone pays", plain(SLACK);
}

/// An operation of another experiment.
struct ScaledOperation {
    /// The name of its row.
    what: &'static str,
    size: Option<u64>,
    rows: &'static [Row],
    /// Its cost for one task, in ordinary work. None where its experiment comes later.
    alone: Option<FigureName>,
}

impl ScaledOperation {
    fn row(&self) -> Option<&'static Row> {
        self.rows.iter().find(|row| row.name == self.what && row.size.map(|(_, size)| size) == self.size)
    }
}

static OPERATIONS: [ScaledOperation; 5] = [
    ScaledOperation {
        what: "getppid",
        size: None,
        rows: &system_call::CALLS,
        alone: Some(FigureName::of("os.system_call.time call=getppid")),
    },
    ScaledOperation {
        what: "open_close",
        size: None,
        rows: &system_call::CALLS,
        alone: Some(FigureName::of("os.system_call.time call=open_close")),
    },
    ScaledOperation {
        what: "pipe",
        size: Some(1),
        rows: channel::OPERATIONS.rows,
        alone: Some(FigureName::of("os.channel.time through=pipe bytes=1")),
    },
    ScaledOperation {
        what: "file_lock",
        size: None,
        rows: lock::OPERATIONS.rows,
        alone: Some(FigureName::of("os.lock.time what=file_lock")),
    },
    ScaledOperation { what: "map_write_unmap", size: Some(1), rows: map::OPERATIONS.rows, alone: None },
];

fn labels(what: &str, (members, size): Tasks) -> Labels {
    Labels::of([("what", what)]).with(members.label(), size)
}

/// What makes the operations, and how many of them.
type Tasks = (Members, usize);

const ONE: Tasks = (Members::Threads, 1);

/// One task, the numbers of threads, and the numbers of processes.
fn teams(setup: &Setup) -> Vec<Tasks> {
    let sizes = team_sizes(footprint::cpus_of(setup).len());
    let of = |members: Members| sizes.iter().map(move |&size| (members, size));
    [ONE].into_iter().chain(of(Members::Threads)).chain(of(Members::Processes)).collect()
}

fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let product = |one: (f64, f64, f64), other: (f64, f64, f64)| (one.0 * other.0, one.1 * other.1, one.2 * other.2);
    let mut predictions = Vec::new();
    for operation in &OPERATIONS {
        let Some(row) = operation.row() else { continue };
        for tasks in teams(by.setup) {
            let more = FURTHER.times((tasks.1 - 1) as f64);
            let waiting = product(IN_LOOP.times(1.0), (1.0 + more.0, 1.0 + more.1, 1.0 + more.2));
            let prediction = Prediction::of(TIME, labels(operation.what, tasks), Unit::Nanoseconds);
            let prediction = if let Some(alone) = operation.alone.and_then(|alone| alone.find(by.known)) {
                let own = (alone.value, alone.value, alone.value);
                let basis = format!("{}, {}, {}", alone.name, IN_LOOP.basis().text(), FURTHER.basis().text());
                prediction.software("the operation of one thread", product(own, waiting), Basis::metric(&basis))
            } else {
                let entries = product(CycleTime::known(by).of(KERNEL_ROUND_TRIP.times(row.entries)), waiting);
                let (work, pace) = super::kernel_work(by, row.instructions);
                let entered = prediction.hardware("entering the kernel", entries, KERNEL_ROUND_TRIP.basis());
                let worked = entered.software(row.what, product(work, waiting), pace);
                match row.faults {
                    Some((faults, kind)) => {
                        let (fault, basis) = page_fault(by, kind);
                        worked.software(
                            "page faults",
                            product((faults, faults, faults), product(fault, waiting)),
                            basis,
                        )
                    }
                    None => worked,
                }
            };
            // Each thread has the interrupts of the others, too. Processes share no address space.
            let interrupts = row.shootdowns * tasks.1 as f64;
            predictions.push(if tasks.0 == Members::Threads && tasks.1 > 1 && interrupts > 0.0 {
                interrupting(by, prediction, interrupts)
            } else {
                prediction
            });
        }
    }
    predictions
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let mut usable = Vec::new();
    for operation in &OPERATIONS {
        let Some(row) = operation.row() else { continue };
        match row.usable(process::is_filtered(), None) {
            Ok(_) => usable.push((operation.what, row)),
            Err(reason) => rig.unavailable(TIME, &Labels::of([("what", operation.what)]), &reason),
        }
    }
    let (cpus, mut teams) = (footprint::cpus_of(rig.setup()), teams(rig.setup()));
    // A process is copied whole before there are threads.
    teams.sort_by_key(|(members, _)| *members != Members::Processes);
    rig.sample_together((TIME, OPERATION), &cpus, &teams, |random, members, size| {
        let failed = SharedWords::new(1).map(Arc::new);
        let (rows, seed, failing) = (usable.clone(), random.u64(..), failed.as_ref().ok().map(Arc::clone));
        TeamJobs {
            labels: usable.iter().map(|(what, _)| labels(what, (members, size))).collect(),
            equip: Box::new(move |member| {
                let failing = failing.clone().ok_or("no memory to share")?;
                equip(&rows, seed.wrapping_add(member as u64), failing)
            }),
            check: Box::new(move || {
                let has_failed = failed.as_ref().is_ok_and(|failed| failed.at(0).load(Ordering::Acquire) != 0);
                if has_failed { Err("an answer differs from the expected one".to_owned()) } else { Ok(()) }
            }),
        }
    })
}

/// The loops of a thread or process, which makes its files itself.
fn equip(rows: &[(&'static str, &'static Row)], seed: u64, failed: Arc<SharedWords>) -> Result<Pass, String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut loops = Vec::new();
    for (_, row) in rows {
        let made = row.usable(false, None)?;
        let mut placed = PlacedLoop::draw(&mut random, made, Around::Nothing, 1).map_err(|error| error.to_string())?;
        placed.run(TRIAL)?;
        let began = Instant::now();
        placed.run(TRIAL)?;
        let each = began.elapsed().as_secs_f64() / TRIAL as f64;
        loops.push((placed, ((PASS / each) as u64).max(1), row.operations));
    }
    Ok(Box::new(move |job| {
        let (placed, turns, operations) = &mut loops[job];
        if placed.run(*turns).is_err() {
            failed.at(0).store(1, Ordering::Release);
        }
        *turns * *operations
    }))
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    for operation in &OPERATIONS {
        let median = |labels: &Labels| study.sample(OPERATION, labels).as_ref().and_then(Estimate::median);
        let alone = median(&labels(operation.what, ONE));
        let mut points = Vec::new();
        for tasks in teams(study.setup) {
            for labels in study.by_distance(OPERATION, &labels(operation.what, tasks)) {
                let Some(estimate) = median(&labels) else { continue };
                let least = alone.as_ref().filter(|_| tasks != ONE).map(|alone| {
                    let least = Gate::at_least(&NOT_FASTER, estimate.named("{}"), alone.value * SLACK);
                    least.because("one thread alone")
                });
                if tasks.0 == Members::Threads && study.is_usual(&labels) {
                    points.push([tasks.1 as f64, estimate.value, estimate.interval[0], estimate.interval[1]]);
                }
                findings.publish(study, Figure::batches(TIME, labels, &estimate).gates(least));
            }
        }
        if points.len() > 1 {
            findings.curves.push(Curve {
                name: "os.scaling.by_threads".to_owned(),
                labels: Labels::of([("what", operation.what)]),
                words: BTreeMap::new(),
                x: Axis { label: "threads, each on a separate CPU".to_owned(), unit: Unit::One },
                y: Axis { label: "time of an operation of a thread".to_owned(), unit: Unit::Nanoseconds },
                points,
            });
        }
    }
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    let mut scaling = Vec::new();
    for operation in &OPERATIONS {
        let time = |tasks: Tasks| {
            let usual = study.by_distance(OPERATION, &labels(operation.what, tasks));
            findings.metric(TIME, usual.first()?).cloned()
        };
        let Some(alone) = time(ONE) else { continue };
        let of = |members: Members| -> Vec<(usize, Metric)> {
            let teams = teams(study.setup).into_iter().filter(|tasks| tasks.0 == members && *tasks != ONE);
            teams.filter_map(|tasks| Some((tasks.1, time(tasks)?))).collect()
        };
        let (threads, processes) = (of(Members::Threads), of(Members::Processes));
        let Some((most, last)) = threads.last() else { continue };
        let flat = threads.iter().take_while(|(_, cost)| cost.value <= SCALES * alone.value).last();
        let up_to = match flat {
            Some((up_to, _)) if up_to == most => {
                scaling.push(label(TIME, "what", operation.what));
                String::new()
            }
            Some((up_to, _)) => format!(" It scales to {up_to} threads."),
            None => " It does not scale.".to_owned(),
        };
        let apart = processes.last().map(|(most, cost)| format!(", and each of {most} processes {}", cost.shown()));
        findings.say(format!(
            "{}: one thread pays {}, each of {most} threads {}{}.{up_to}",
            capital(&label(TIME, "what", operation.what)),
            alone.shown(),
            last.shown(),
            apart.unwrap_or_default(),
        ));
    }
    if !scaling.is_empty() {
        findings.say(format!(
            "Work that scales costs each thread at most {SCALES} times what it costs one. To all threads that were measured, \
             these scale: {}.",
            scaling.join(", ")
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_a_row_of_another_experiment() {
        for operation in &OPERATIONS {
            let row = operation.row().unwrap_or_else(|| panic!("{}", operation.what));
            assert!(row.usable(false, None).is_ok(), "{}", operation.what);
        }
    }
}
