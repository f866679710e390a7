//! The sampler: sizes batches, warms up, and takes interleaved batches between clock probes.
//!
//! ```text
//! probe · batch of A · probe · batch of B · probe · batch of A · probe · …
//! ```
//!
//! Every batch has a probe of the core clock right before and right after it; the mean of the two converts its ticks into
//! core cycles, whatever the clock does over a launch. Workloads take turns in random order, so that drift and neighbours
//! hit all alike. Nothing is dropped by its value: each batch gets a class from what the kernel and the clock say.

use crate::results::evidence::Remark;
use crate::results::quantity::{Labels, Unit};
use crate::results::series::{Class, Classes, Series};
use crate::sys::arch::Kernel;
use crate::sys::counters::ThreadCounters;

use super::instruments::Instruments;
use super::order::Order;

/// Shortest batch: at HZ=250 a timer interrupt lands every 4 ms, so nearly all batches of this length see none.
const SHORTEST_BATCH_NANOSECONDS: f64 = 20_000.0;

/// A batch must be this many times the bias of the timing pair (gate G4).
pub const BIASES_PER_BATCH: f64 = 200.0;

/// A batch must be this many times the resolution of the clock (gate G4).
pub const RESOLUTIONS_PER_BATCH: f64 = 1000.0;

/// Batches are sized this much longer than their limits ask for, so that a core that speeds up later stays above them.
const MARGIN: f64 = 1.25;

/// Probes further apart than this void the batch between them: an interrupt or a change of frequency hit one of them.
const PROBE_AGREEMENT: f64 = 0.01;

/// Warm-up: two windows of this many sweeps whose medians must agree.
const WINDOW: usize = 4;

/// Agreement of those medians.
const SETTLED: f64 = 0.01;

/// Share of the workloads that must have settled: among a hundred, one is always being disturbed.
const SETTLED_SHARE: f64 = 0.95;

/// Bound on warm-up sweeps: a workload that has not settled by then is flagged, not waited for.
const WARM_UP_SWEEPS: usize = 40;

/// Bound on the steps of the search for a batch size: 2^24 turns of even the shortest loop last milliseconds, so a search
/// that goes on has a clock that stands still.
const SIZING_STEPS: u32 = 24;

/// What a workload does for a number of iterations; an error voids the batch and says why.
pub type Work<'a> = Box<dyn FnMut(u64) -> Result<Timed, String> + 'a>;

/// Work around a batch that is not timed.
pub type Untimed<'a> = Box<dyn FnMut() -> Result<(), String> + 'a>;

/// Which span of a batch counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timed {
    /// From the call of the work to its return.
    Whole,
    /// A span that the work found itself, in ticks: for events that another task stamps.
    Ticks(i64),
}

/// How many iterations a batch of a workload has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizing {
    /// As many as make a batch long enough.
    ByTime,
    /// As many as an earlier workload of the same call, by position: for pairs whose difference is the figure.
    SameAs(usize),
    /// A multiple of an earlier workload's.
    TimesThat(u64, usize),
    /// Always this many: single shots of operations that take long enough by themselves.
    Exactly(u64),
}

/// What the kernel may do to a workload without disturbing it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expected {
    /// Page faults are part of the operation.
    pub faults: bool,
    /// The task may move between CPUs.
    pub migration: bool,
}

/// Something to be timed.
pub struct Workload<'a> {
    /// Name of its series.
    pub name: String,
    /// Labels of its series.
    pub labels: Labels,
    /// Operations in one iteration.
    pub operations: u64,
    /// Batch size.
    pub sizing: Sizing,
    /// What is no disturbance.
    pub expected: Expected,
    /// Batches of this workload, where they shall be fewer than the launch takes of others.
    pub at_most: Option<u32>,
    /// Done before each batch, untimed.
    pub prepare: Option<Untimed<'a>>,
    /// The work.
    pub work: Work<'a>,
    /// Done after each batch, untimed; an error voids the batch.
    pub tidy: Option<Untimed<'a>>,
}

impl<'a> Workload<'a> {
    /// Work given as a closure.
    pub fn of(
        name: &str,
        labels: Labels,
        operations: u64,
        mut work: impl FnMut(u64) -> Result<(), String> + 'a,
    ) -> Self {
        Workload::self_timed(name, labels, operations, move |iterations| work(iterations).map(|()| Timed::Whole))
    }

    /// Work that says itself which span counts.
    pub fn self_timed(
        name: &str,
        labels: Labels,
        operations: u64,
        work: impl FnMut(u64) -> Result<Timed, String> + 'a,
    ) -> Self {
        Workload {
            name: name.to_owned(),
            labels,
            operations,
            sizing: Sizing::ByTime,
            expected: Expected::default(),
            at_most: None,
            prepare: None,
            work: Box::new(work),
            tidy: None,
        }
    }

    /// Timed code that cannot fail.
    pub fn kernel(name: &str, labels: Labels, operations: u64, kernel: Kernel) -> Self {
        Workload::of(name, labels, operations, move |iterations| {
            kernel(iterations);
            Ok(())
        })
    }

    /// Work given as a plain function that cannot fail.
    pub fn function(name: &str, labels: Labels, operations: u64, function: fn(u64)) -> Self {
        Workload::of(name, labels, operations, move |iterations| {
            function(iterations);
            Ok(())
        })
    }

    /// Another batch size.
    #[must_use]
    pub fn sized(mut self, sizing: Sizing) -> Self {
        self.sizing = sizing;
        self
    }

    /// What shall not count as a disturbance.
    #[must_use]
    pub fn expecting(mut self, expected: Expected) -> Self {
        self.expected = expected;
        self
    }

    /// Fewer batches than the launch takes of others.
    #[must_use]
    pub fn at_most(mut self, batches: u32) -> Self {
        self.at_most = Some(batches);
        self
    }

    /// Work before each batch that is not timed.
    #[must_use]
    pub fn prepared(mut self, prepare: impl FnMut() -> Result<(), String> + 'a) -> Self {
        self.prepare = Some(Box::new(prepare));
        self
    }

    /// Work after each batch that is not timed.
    #[must_use]
    pub fn tidied(mut self, tidy: impl FnMut() -> Result<(), String> + 'a) -> Self {
        self.tidy = Some(Box::new(tidy));
        self
    }
}

/// How a launch samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Batches of each workload.
    pub batches: u32,
    /// Ticks that a batch lasts at least.
    pub batch_ticks: f64,
}

impl Settings {
    /// From the order and the clock of a launch.
    pub fn of(order: &Order, instruments: &impl Instruments) -> Self {
        let batch_ticks = (SHORTEST_BATCH_NANOSECONDS * instruments.hertz() / 1e9)
            .max(BIASES_PER_BATCH * instruments.bias())
            .max(RESOLUTIONS_PER_BATCH * instruments.resolution())
            * MARGIN;
        Settings { batches: order.batches, batch_ticks }
    }
}

/// What sampling gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// One series per workload, in the order given.
    pub series: Vec<Series>,
    /// Batches thrown away as warm-up.
    pub warm_up_batches: u64,
    /// False when some workload had not settled at the end of the warm-up.
    pub settled: bool,
    /// Ticks spent on finding batch sizes.
    pub sizing_ticks: f64,
    /// What should be known about it.
    pub remarks: Vec<Remark>,
}

/// Takes the samples of one launch.
pub struct Sampler<'r, I: Instruments> {
    instruments: &'r mut I,
    settings: &'r Settings,
    random: &'r mut fastrand::Rng,
}

/// One timed batch.
#[derive(Debug, Clone, Copy)]
struct Batch {
    ticks: f64,
    /// Ticks per core cycle around it.
    clock: Option<f64>,
    class: Class,
}

/// State between batches: the probe and the counters after one are those before the next.
struct Boundary {
    probe: Option<f64>,
    counters: ThreadCounters,
}

impl<'r, I: Instruments> Sampler<'r, I> {
    /// A sampler over instruments.
    pub fn new(instruments: &'r mut I, settings: &'r Settings, random: &'r mut fastrand::Rng) -> Self {
        Sampler { instruments, settings, random }
    }

    /// Sizes, warms up and samples.
    pub fn run(&mut self, mut workloads: Vec<Workload<'_>>) -> Sampled {
        let mut remarks = Vec::new();
        let began = self.instruments.stamp().ticks;
        let iterations = self.size_all(&mut workloads);
        let sizing_ticks = (self.instruments.stamp().ticks - began) as f64;
        let mut reasons: Vec<Option<String>> = vec![None; workloads.len()];
        let (warm_up_sweeps, settled) = self.warm_up(&mut workloads, &iterations, &mut reasons);
        let mut batches: Vec<Vec<Batch>> = vec![Vec::new(); workloads.len()];
        for turn in 0..self.settings.batches {
            for (index, batch) in self.sweep(turn, &mut workloads, &iterations, &mut reasons) {
                batches[index].push(batch);
            }
        }
        for (workload, reason) in workloads.iter().zip(reasons) {
            if let Some(value) = reason {
                remarks.push(Remark { what: format!("wrong.{}", workload.name), value });
            }
        }
        let series = workloads
            .iter()
            .zip(&iterations)
            .zip(batches)
            .map(|((workload, &iterations), batches)| series_of(workload, iterations, &batches))
            .collect();
        let warm_up_batches = (warm_up_sweeps * workloads.len()) as u64;
        Sampled { series, warm_up_batches, settled, sizing_ticks, remarks }
    }

    /// Iterations per batch of every workload. Bounded in steps, so that no clock can make it hang.
    fn size_all(&mut self, workloads: &mut [Workload<'_>]) -> Vec<u64> {
        let mut iterations: Vec<u64> = Vec::with_capacity(workloads.len());
        for workload in workloads {
            let size = match workload.sizing {
                Sizing::ByTime => self.size(workload),
                Sizing::SameAs(earlier) => iterations[earlier],
                Sizing::TimesThat(times, earlier) => times * iterations[earlier],
                Sizing::Exactly(count) => count,
            };
            iterations.push(size);
        }
        iterations
    }

    fn size(&mut self, workload: &mut Workload<'_>) -> u64 {
        let target = self.settings.batch_ticks;
        let mut iterations = 1_u64;
        for _ in 0..SIZING_STEPS {
            // The lower of two: the first run of anything pays for cold caches and predictors.
            let ticks = self.time(workload, iterations).min(self.time(workload, iterations));
            if ticks >= target {
                break;
            }
            // Straight to the target when the time is long enough to be believed, else double.
            let believable = ticks > target / 20.0;
            let factor = if believable { (target / ticks * 1.05).max(1.05) } else { 2.0 };
            iterations = ((iterations as f64 * factor).ceil() as u64).max(iterations + 1);
        }
        iterations
    }

    fn time(&mut self, workload: &mut Workload<'_>, iterations: u64) -> f64 {
        // A failure shows again in the batches, where it is counted.
        let _ = untimed(&mut workload.prepare);
        let start = self.instruments.stamp();
        let _ = (workload.work)(iterations);
        let end = self.instruments.stamp();
        let _ = untimed(&mut workload.tidy);
        (end.ticks - start.ticks) as f64
    }

    /// Sweeps until the medians of the last two windows agree for nearly every workload, or the bound is reached. Returns the
    /// number of sweeps and whether all settled.
    fn warm_up(
        &mut self,
        workloads: &mut [Workload<'_>],
        iterations: &[u64],
        reasons: &mut [Option<String>],
    ) -> (usize, bool) {
        let mut seen: Vec<Vec<f64>> = vec![Vec::new(); workloads.len()];
        // Workloads of few batches are expensive: one shot warms what it needs, and they wait for nobody.
        let waited_for: Vec<bool> = workloads.iter().map(|workload| workload.at_most.is_none()).collect();
        let wanted = waited_for.iter().filter(|&&waited| waited).count() as f64;
        for sweep in 1..=WARM_UP_SWEEPS {
            let turn = if sweep == 1 { 0 } else { u32::MAX };
            for (index, batch) in self.sweep(turn, workloads, iterations, reasons) {
                seen[index].push(batch.ticks / batch.clock.unwrap_or(1.0));
            }
            let calm = seen.iter().zip(&waited_for).filter(|(values, waited)| **waited && settled(values)).count();
            if wanted == 0.0 || sweep >= 2 * WINDOW && calm as f64 >= SETTLED_SHARE * wanted {
                return (sweep, true);
            }
        }
        (WARM_UP_SWEEPS, false)
    }

    /// One batch of each workload that still takes part in this turn, in random order.
    fn sweep(
        &mut self,
        turn: u32,
        workloads: &mut [Workload<'_>],
        iterations: &[u64],
        reasons: &mut [Option<String>],
    ) -> Vec<(usize, Batch)> {
        let mut order: Vec<usize> =
            (0..workloads.len()).filter(|&index| workloads[index].at_most.is_none_or(|most| turn < most)).collect();
        self.random.shuffle(&mut order);
        let mut boundary = Boundary { probe: self.instruments.probe(), counters: self.instruments.counters() };
        order
            .into_iter()
            .map(|index| {
                let batch = self.batch(&mut workloads[index], iterations[index], &mut boundary, &mut reasons[index]);
                (index, batch)
            })
            .collect()
    }

    /// One batch between two probes.
    fn batch(
        &mut self,
        workload: &mut Workload<'_>,
        iterations: u64,
        boundary: &mut Boundary,
        reason: &mut Option<String>,
    ) -> Batch {
        let prepared = workload.prepare.is_some();
        let ready = untimed(&mut workload.prepare);
        if prepared {
            *boundary = Boundary { probe: self.instruments.probe(), counters: self.instruments.counters() };
        }
        let start = self.instruments.stamp();
        let outcome = (workload.work)(iterations);
        let end = self.instruments.stamp();
        let counters = self.instruments.counters();
        let probe = self.instruments.probe();
        let outcome = ready.and(outcome).and_then(|timed| untimed(&mut workload.tidy).map(|()| timed));
        let before = std::mem::replace(boundary, Boundary { probe, counters });
        let clock = before.probe.zip(probe).map(|(first, second)| f64::midpoint(first, second));
        let unsteady = before.probe.zip(probe).is_some_and(|(first, second)| {
            (first / second - 1.0).abs() > PROBE_AGREEMENT || first <= 0.0 || second <= 0.0
        });
        let expected = workload.expected;
        let faults = |counters: &ThreadCounters| counters.minor_faults + counters.major_faults;
        let ticks = match outcome {
            Ok(Timed::Ticks(own)) => own,
            _ => end.ticks - start.ticks,
        };
        let class = if end.ticks < start.ticks || ticks < 0 {
            Class::Backwards
        } else if let Err(why) = outcome {
            *reason = Some(why);
            Class::Wrong
        } else if !expected.migration && (start.cpu != end.cpu || end.cpu != self.instruments.cpu()) {
            Class::Migrated
        } else if counters.involuntary_switches > before.counters.involuntary_switches {
            Class::Preempted
        } else if !expected.faults && faults(&counters) > faults(&before.counters) {
            Class::Faulted
        } else if unsteady {
            Class::Unsteady
        } else {
            Class::Clean
        };
        Batch { ticks: ticks as f64 - self.instruments.bias(), clock, class }
    }
}

/// Does what stands around a batch, if anything does.
fn untimed(work: &mut Option<Untimed<'_>>) -> Result<(), String> {
    work.as_mut().map_or(Ok(()), |work| work())
}

/// Whether the medians of the last two windows differ by less than 1 %.
fn settled(values: &[f64]) -> bool {
    let Some(last) = values.len().checked_sub(WINDOW) else { return false };
    let Some(before) = last.checked_sub(WINDOW) else { return false };
    let (first, second) = (median(&values[before..last]), median(&values[last..]));
    (first / second - 1.0).abs() < SETTLED
}

fn median(values: &[f64]) -> f64 {
    crate::statistics::summary::median(values).unwrap_or(f64::NAN)
}

fn series_of(workload: &Workload<'_>, iterations: u64, batches: &[Batch]) -> Series {
    Series {
        name: workload.name.clone(),
        labels: workload.labels.clone(),
        unit: Unit::Ticks,
        operations: iterations * workload.operations,
        values: batches.iter().map(|batch| rounded(batch.ticks, 10.0)).collect(),
        clock: batches.iter().filter_map(|batch| batch.clock).map(|clock| rounded(clock, 1e6)).collect(),
        classes: Classes(batches.iter().map(|batch| batch.class).collect()),
    }
}

/// Digits beyond the clock's resolution only make logs longer.
fn rounded(value: f64, steps: f64) -> f64 {
    (value * steps).round() / steps
}
