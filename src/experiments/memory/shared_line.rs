//! # Question
//!
//! What does a counter or a lock cost if several threads use it at the same time? How far apart must the data of two threads be?
//!
//! # Method
//!
//! Threads on separate CPUs, first one for each core, do the same operation without pause for 1 ms per thread. The time of an operation is the
//! time in which all of them worked, times the threads, divided by the operations of all. It is what one thread pays.
//!
//! - **atomic_add**: each thread adds to a word of 4 bytes. The label **apart** is the distance of the words of two threads in bytes.
//!   At 0 all threads add to one word. Below the size of a cache line, the words differ and the line is the same (false sharing).
//!   At 256 each thread has a separate line.
//! - **mutex**: all threads take one mutex of the Rust library, add to a number, and release it. Threads that fail to get it spin for
//!   a moment and then sleep in the kernel (futex).
//!
//! One thread alone gives the cost without sharing. Two threads have every distance, larger teams only 0 and 256. The size of a line
//! is the smallest distance at which the cost is closer to that of separate lines, by its logarithm.
//!
//! After each window the counters hold as many additions as the threads made, or the window is discarded. It is repeated if
//! a thread waited for its CPU or worked alone for more than 2 % of it.
//!
//! # Prediction
//!
//! Alone: an atomic instruction in a loop. With a shared line: a transfer between two caches (os.cache_line_transfer) for each thread.
//! A core makes several additions before it loses the line, so the range begins far below that. The size of a line is what the
//! kernel or the processor says.
//!
//! # What could fool us
//!
//! - Two threads of one core share its first cache. There a shared line costs no transfer.
//! - A core that keeps a line for longer makes the average cheaper and the waiting of the others longer. So two distant cores can
//!   pay less for each addition than two near ones.
//! - Programs that do other work between two operations meet less often. These costs are the upper end.
//! - A host that takes one CPU away lets the other thread work alone, up to ten times as fast. A few percent of such time make an
//!   operation on a shared line cheaper by a tenth or more.
//! - Prefetchers fetch lines in pairs on some cores. Then 64 bytes apart can cost more than 128 bytes apart.
//! - The clock is read after each 200 operations, which adds about 1 % to the cost of separate lines.
//!
//! # References
//!
//! - Schweizer, Besta, Hoefler, PACT 2015 (atomic operations)
//! - David, Guerraoui, Trigonakis, SOSP 2013 (locks by threads)
//! - Intel optimisation manual (false sharing)

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::footprint;
use super::streams::sizes_from_one;
use crate::evaluate::sample::Sample;
use crate::experiments::prelude::*;
use crate::rig::member::Members;
use crate::rig::together::TeamJobs;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "memory.shared_line",
    title: "Shared lines and contended locks",
    measures: "atomic additions and a mutex by threads and by the distance of their data",
    words: &["false_sharing", "atomics", "coherence"],
    method_version: 1,
    precision: Precision { target: 0.2, between: 0.15, busy: 0.2 },
    source: heading!("shared_line.rs"),
    uses: &["cpu.cycle_time", "os.cache_line_transfer.time"],
    constants: CONSTANTS,
    rules: RULES,
    publishes: &[
        Publication::cost(TIME, Unit::Nanoseconds, "one operation of a thread, while all threads make them")
            .in_summary_where(|labels| labels.get("apart") == Some("0")),
        Publication::state(SIZE, Unit::Bytes, "distance from which two threads do not share a cache line"),
    ],
    seconds: |_| 0.3,
    time_out: 30.0,
    predict,
    measure,
    figures,
    explain,
    ..Experiment::DEFAULT
};

const TIME: &str = "memory.shared_line.time";
const SIZE: &str = "memory.shared_line.size";
const ATOMIC: &str = "atomic_add";
const MUTEX: &str = "mutex";
/// Series of the operations.
const OPERATION: &str = "operation";

/// Distances of the words of two threads, ascending.
const DISTANCES: [usize; 6] = [0, 16, 32, 64, 128, SEPARATE];
/// A distance at which no two words share a line.
const SEPARATE: usize = 256;
/// Operations between two readings of the clock.
const PASS: u64 = 200;
/// An operation on a shared line takes this share of that on separate lines, at least.
const SLACK: f64 = 0.8;
/// A shared line must cost this many times a separate one before the size of a line can be seen.
const CLEAR: f64 = 2.0;

constants! {
    /// An atomic addition in a loop.
    ATOMIC_IN_LOOP = 16.0 in 4.0 ..= 30.0 "cycles", "uops.info: LOCK ADD, 8 cycles on AMD Zen 2 to 4, 18 to 20 on Intel";
    /// Transfers of a line for each thread and operation.
    TRANSFERS = 0.5 in 0.03 ..= 1.5 "times",
        "Schweizer, PACT 2015: an atomic operation on a line of another core costs its transfer. Cores make several in a row";
    /// The same for a mutex, which is a word and a number, and has threads that sleep.
    MUTEX_TRANSFERS = 1.5 in 0.1 ..= 6.0 "times", "David, SOSP 2013: 2 to 10 transfers for a lock and its data under contention";
    /// A transfer of a line, where this run has not measured it.
    LINE = 50.0 in 2.0 ..= 400.0 "ns",
        "published core-to-core latencies: 5–20 ns between siblings, 20–90 ns in a package, 130–300 ns between sockets";
}

rules! {
    NOT_CHEAPER: "G20" Noisy "`memory.shared_line.time`",
        "an operation on a shared line takes at least {} times one on separate lines", plain(SLACK);
}

/// What the threads do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Job {
    what: &'static str,
    /// Distance of the words of two threads in bytes.
    apart: usize,
}

/// The jobs of a number of threads.
fn jobs(threads: usize) -> Vec<Job> {
    let atomic = |&apart: &usize| Job { what: ATOMIC, apart };
    let mutex = Job { what: MUTEX, apart: 0 };
    match threads {
        1 => vec![atomic(&SEPARATE)],
        2 => DISTANCES.iter().map(atomic).chain([mutex]).collect(),
        _ => vec![atomic(&0), atomic(&SEPARATE), mutex],
    }
}

fn labels(job: Job, threads: usize) -> Labels {
    Labels::of([("what", job.what)]).with("apart", job.apart).with("threads", threads)
}

/// The words that threads add to, and what they have done.
struct SharedData {
    /// One for each 4 bytes, with more before the first that lies on a boundary.
    words: Vec<AtomicU32>,
    first: usize,
    locked: Separate<Mutex<u64>>,
    /// Operations of each thread.
    done: Vec<Separate<[AtomicU64; 2]>>,
}

/// Alone on its cache lines.
#[repr(align(256))]
#[derive(Debug, Default)]
struct Separate<T>(T);

impl SharedData {
    fn of(threads: usize) -> Self {
        let each = SEPARATE / size_of::<AtomicU32>();
        let words: Vec<AtomicU32> = (0..(threads + 1) * each).map(|_| AtomicU32::new(0)).collect();
        let first = words.as_ptr().align_offset(SEPARATE);
        let done = (0..threads).map(|_| Separate::default()).collect();
        SharedData { words, first, locked: Separate::default(), done }
    }

    /// Operations of a thread in a row.
    fn operate(&self, job: Job, thread: usize) -> u64 {
        if job.what == MUTEX {
            for _ in 0..PASS {
                *self.locked.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            }
        } else {
            let word = &self.words[self.first + thread * job.apart / size_of::<AtomicU32>()];
            for _ in 0..PASS {
                word.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.done[thread].0[usize::from(job.what == MUTEX)].fetch_add(PASS, Ordering::Relaxed);
        PASS
    }

    /// Whether no operation of the threads was lost. They must rest.
    fn check(&self) -> Result<(), String> {
        let done = |what: usize| self.done.iter().map(|done| done.0[what].load(Ordering::Acquire)).sum::<u64>();
        let added = self.words.iter().fold(0_u32, |sum, word| sum.wrapping_add(word.load(Ordering::Acquire)));
        let locked = *self.locked.0.lock().unwrap_or_else(PoisonError::into_inner);
        if added == done(0) as u32 && locked == done(1) {
            Ok(())
        } else {
            Err(format!(
                "the threads made {} and {} operations, and {added} and {locked} were counted",
                done(0),
                done(1)
            ))
        }
    }
}

fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let cpus = footprint::cpus_of(by.setup);
    let cycle = CycleTime::known(by);
    let line = by.known.iter().find(|metric| metric.name == "os.cache_line_transfer.time");
    let (line, basis) = match line {
        Some(line) => ((line.value, line.value, line.value), Basis::metric("os.cache_line_transfer.time")),
        None => (LINE.times(1.0), LINE.basis()),
    };
    let mut predictions = Vec::new();
    for threads in sizes_from_one(cpus.len()) {
        for job in jobs(threads) {
            let prediction = Prediction::of(TIME, labels(job, threads), Unit::Nanoseconds);
            let alone = cycle.of(ATOMIC_IN_LOOP.times(1.0));
            let own = |prediction: Prediction| prediction.hardware("an atomic addition", alone, ATOMIC_IN_LOOP.basis());
            let is_shared = threads > 1 && job.apart < footprint::line_bytes(by.setup) as usize;
            if !is_shared {
                predictions.push(own(prediction));
                continue;
            }
            let transfers = if job.what == MUTEX { MUTEX_TRANSFERS } else { TRANSFERS }.times(threads as f64);
            let range = (transfers.0 * line.0, transfers.1 * line.1, transfers.2 * line.2);
            predictions.push(own(prediction).hardware("transfers of the line between cores", range, basis.clone()));
        }
    }
    if cpus.len() > 1 {
        let line = footprint::line_bytes(by.setup) as f64;
        let size = Prediction::of(SIZE, Labels::none(), Unit::Bytes);
        let basis = Basis::machine("the size of a line that the kernel or the processor reports");
        predictions.push(size.hardware("a cache line", (line, line * 0.99, line * 1.01), basis));
    }
    predictions
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let cpus = footprint::cpus_of(rig.setup());
    if cpus.len() < 2 {
        rig.unavailable(TIME, &Labels::of([("threads", "2")]), &"only one CPU is allowed");
    }
    let teams: Vec<(Members, usize)> =
        sizes_from_one(cpus.len()).into_iter().map(|size| (Members::Threads, size)).collect();
    rig.sample_together((TIME, OPERATION), &cpus, &teams, |_, _, threads| {
        let (jobs, data) = (jobs(threads), Arc::new(SharedData::of(threads)));
        let shared = Arc::clone(&data);
        TeamJobs {
            labels: jobs.iter().map(|&job| labels(job, threads)).collect(),
            equip: Box::new(move |thread| {
                let (jobs, data) = (jobs.clone(), Arc::clone(&shared));
                Ok(Box::new(move |job| data.operate(jobs[job], thread)))
            }),
            check: Box::new(move || data.check()),
        }
    })
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    let median = |labels: &Labels| study.sample(OPERATION, labels).as_ref().and_then(Estimate::median);
    let all = footprint::cpus_of(study.setup).len();
    for threads in sizes_from_one(all) {
        for job in jobs(threads) {
            for labels in study.by_distance(OPERATION, &labels(job, threads)) {
                let Some(estimate) = median(&labels) else { continue };
                let separate = median(&labels.clone().with("what", ATOMIC).with("apart", SEPARATE));
                let least = separate.filter(|_| job.apart < SEPARATE).map(|separate| {
                    let least = Gate::at_least(&NOT_CHEAPER, estimate.named("{}"), separate.value * SLACK);
                    least.because("the same with separate lines")
                });
                findings.publish(study, Figure::batches(TIME, labels, &estimate).gates(least));
            }
        }
    }
    if all > 1 {
        publish_size(study, findings);
    }
}

/// The labels of the job of two threads, where their CPUs usually were.
fn of_pair(study: &Study<'_>, job: Job) -> Option<Labels> {
    study.by_distance(OPERATION, &labels(job, 2)).into_iter().next()
}

/// The size of a line as each launch shows it.
fn publish_size(study: &Study<'_>, findings: &mut Findings) {
    let of = |apart: usize| study.sample(OPERATION, &of_pair(study, Job { what: ATOMIC, apart })?);
    let samples: Option<Vec<Sample>> = DISTANCES.into_iter().map(of).collect();
    let Some(samples) = samples else { return };
    let mut sizes = Vec::new();
    for number in &samples[0].numbers {
        let cost = |sample: &Sample| {
            let place = sample.numbers.iter().position(|other| other == number)?;
            sample.estimates().get(place).copied()
        };
        let costs: Option<Vec<f64>> = samples.iter().map(cost).collect();
        sizes.extend(costs.and_then(|costs| size_of_line(&costs)));
    }
    match Estimate::over_launches(&sizes, Unit::Bytes, "median distance") {
        Some(estimate) => findings.publish(study, Figure::fact(SIZE, Labels::none(), &estimate)),
        None => findings.cannot(
            SIZE,
            Labels::none(),
            "a shared line costs these two CPUs no more than a separate one, as two threads of one core",
        ),
    }
}

/// The size of a line by the costs at each distance. None where sharing costs next to nothing.
fn size_of_line(costs: &[f64]) -> Option<f64> {
    // At 0 the additions also depend on each other, so the next distance stands for a shared line.
    let (shared, separate) = (*costs.get(1)?, *costs.last()?);
    let bound = (shared * separate).sqrt();
    let found = DISTANCES.iter().zip(costs).skip(1).find(|(_, cost)| **cost <= bound);
    found.filter(|_| shared >= CLEAR * separate).map(|(apart, _)| *apart as f64)
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    let time = |apart: usize| findings.metric(TIME, &of_pair(study, Job { what: ATOMIC, apart })?).cloned();
    let (shared, separate) = (time(0), time(SEPARATE));
    let (Some(shared), Some(separate)) = (shared, separate) else { return };
    findings.say(format!(
        "Two threads that add to one word pay {} for each addition. With separate lines each pays {}.",
        shared.shown(),
        separate.shown()
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_line_is_where_the_cost_falls() {
        assert_eq!(size_of_line(&[90.0, 60.0, 60.0, 5.0, 5.0, 5.0]), Some(64.0));
        assert_eq!(size_of_line(&[90.0, 60.0, 60.0, 58.0, 6.0, 5.0]), Some(128.0));
        assert_eq!(size_of_line(&[90.0, 60.0, 60.0, 9.0, 5.0, 5.0]), Some(64.0), "pairs of lines");
        assert_eq!(size_of_line(&[90.0, 6.0, 6.0, 5.0, 5.0, 5.0]), None, "two threads of one core");
    }

    #[test]
    fn words_lie_as_far_apart_as_they_are_called_and_no_operation_is_lost() {
        let data = SharedData::of(3);
        let start = std::ptr::from_ref(&data.words[data.first]).addr();
        assert!(start.is_multiple_of(SEPARATE) && data.first + 2 * SEPARATE / 4 < data.words.len());
        for threads in [1, 2, 3] {
            for job in jobs(threads) {
                assert_eq!((0..threads).map(|thread| data.operate(job, thread)).sum::<u64>(), PASS * threads as u64);
            }
        }
        data.check().unwrap();
        data.words[0].fetch_sub(1, Ordering::Relaxed);
        assert!(data.check().is_err());
    }
}
