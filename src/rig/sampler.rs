//! The sampler: sizes batches, warms up, and takes batches between clock probes.
//!
//! ```text
//! sweeps: probe · batch of A · probe · batch of B · probe · batch of A · probe · …
//! blocks: forget · 1 ms of A · probe · batch of A · probe · forget · 1 ms of B · probe · batch of B · probe · … ·
//!         forget · 0.2 ms of B · probe · batch of B · probe · …
//! ```
//!
//! Between a probe and its batch stands a look at the width of the core, on both sides: a loop that a neighbour on the other
//! hardware thread lengthens.
//!
//! Every batch has a probe of the core clock right before and right after it; the mean of the two converts its ticks into
//! core cycles, whatever the clock does over a launch. In sweeps workloads take turns in random order, so that drift and
//! neighbours hit all alike. In blocks a batch follows its operation alone, because what ran before decides how fast some
//! operations are: branch predictors keep what they learned. So each block begins with branches in random directions, and the operation
//! is learned anew. Nothing is dropped by its value: each batch gets a class from what the kernel and the clock say.
//!
//! During the warm-up some batches are followed by one of half as many operations: twice the operations should take twice as
//! long (gate G7).

mod blocks;

pub use blocks::MOST_BLOCKS;

use crate::results::evidence::Remark;
use crate::results::quantity::Unit;
use crate::results::series::{Class, Classes, Series};
use crate::statistics::change::shows_no_slope;
use crate::sys::counters::ThreadCounters;

use super::counts::{Counts, few, seen};
use super::instruments::Instruments;
use super::line::{self, Look};
use super::request::Request;
pub use super::workload::{Expected, Sizing, Switches, Timed, Untimed, Witness, Witnesses, Workload};

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

/// Share of a batch that tasks which hand one CPU to each other may not have had before another task had it.
const TIME_OF_OTHERS: f64 = 0.1;

/// The kernel's times of tasks have a grain of a microsecond each; nanoseconds.
const COUNTERS_GRAIN: f64 = 3_000.0;

/// Warm-up: sweeps whose batches must show no slope.
const WINDOW: usize = 8;

/// Confidence of the interval of that slope.
const SLOPE_LEVEL: f64 = 0.95;

/// A slope over the window of less than this share of the cost does not matter, however certain it is.
const SETTLED: f64 = 0.01;

/// Share of the workloads that must have settled: among a hundred, one is always being disturbed.
const SETTLED_SHARE: f64 = 0.95;

/// Bound on warm-up sweeps: a workload that has not settled by then is flagged, not waited for.
const WARM_UP_SWEEPS: usize = 24;

/// Batches of the warm-up that are followed by one of half as many operations: the last of the shortest warm-up.
const PAIRS: usize = 5;

/// Share of its time that sampling may spend on finding sizes and on the warm-up.
const WARM_UP_SHARE: f64 = 0.3;

/// Bound on how many times longer a batch becomes than it was first sized: more than any core's two paces are apart.
const MOST_LENGTHENED: f64 = 20.0;

/// Bound on the steps of the search for a batch size: 2^24 turns of even the shortest loop last milliseconds, so a search
/// that goes on has a clock that stands still.
const SIZING_STEPS: u32 = 24;

/// How a launch samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Batches of each workload.
    pub batches: u32,
    /// Ticks that a batch lasts at least.
    pub batch_ticks: f64,
    /// Ticks after which no more sweeps or batches begin, but for the first of each workload: where other tasks use the CPU, a few
    /// late batches are better than a launch that is killed.
    pub most_ticks: f64,
}

impl Settings {
    /// From the request and the clock of a launch.
    pub fn of(request: &Request, instruments: &impl Instruments) -> Self {
        let batch_ticks = (SHORTEST_BATCH_NANOSECONDS * instruments.hertz() / 1e9)
            .max(BIASES_PER_BATCH * instruments.bias())
            .max(RESOLUTIONS_PER_BATCH * instruments.resolution())
            * MARGIN;
        Settings { batches: request.batches, batch_ticks, most_ticks: request.sampling_seconds * instruments.hertz() }
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
    /// The clock when it began.
    began: i64,
}

/// One timed batch.
#[derive(Debug, Clone, Copy)]
struct Batch {
    ticks: f64,
    /// Ticks per core cycle around it.
    clock: Option<f64>,
    class: Class,
    /// Core cycles of a turn of the shortest loop before and after it; zero where they are not known.
    width: [f64; 2],
    /// Looks at the other CPU before and after it.
    other: [Look; 2],
    /// Share of its context switches that were forced.
    forced: f64,
}

/// What sampling took so far, by workload.
struct Taken {
    batches: Vec<Vec<Batch>>,
    /// Why its last void batch is void.
    reasons: Vec<Option<String>>,
    /// Batches of the warm-up over half as many operations.
    ratios: Vec<Vec<f64>>,
    warm_up_batches: u64,
    settled: bool,
    sizing_ticks: f64,
}

impl Taken {
    fn none(workloads: usize) -> Self {
        Taken {
            batches: vec![Vec::new(); workloads],
            reasons: vec![None; workloads],
            ratios: vec![Vec::new(); workloads],
            warm_up_batches: 0,
            settled: true,
            sizing_ticks: 0.0,
        }
    }

    fn sampled(self, workloads: &[Workload<'_>], iterations: &[u64]) -> Sampled {
        let mut remarks = Vec::new();
        for (workload, reason) in workloads.iter().zip(self.reasons) {
            if let Some(value) = reason {
                let labels = if workload.labels.is_empty() { String::new() } else { format!(" {}", workload.labels) };
                remarks.push(Remark::of(&format!("wrong.{}{labels}", workload.name), &value));
            }
        }
        let mut series = Vec::with_capacity(workloads.len());
        for (index, workload) in workloads.iter().enumerate() {
            let batches = &self.batches[index];
            let linearity = crate::statistics::summary::median(&self.ratios[index]);
            series.push(series_of(workload, iterations[index], linearity, batches));
            if workload.expected.switches != Switches::None {
                series.push(forced_of(workload, batches));
            }
        }
        let Taken { warm_up_batches, settled, sizing_ticks, .. } = self;
        Sampled { series, warm_up_batches, settled, sizing_ticks, remarks }
    }
}

/// State between batches: the probe and the counters after one are those before the next.
struct Boundary {
    probe: Option<f64>,
    counters: ThreadCounters,
}

impl<'r, I: Instruments> Sampler<'r, I> {
    /// A sampler over instruments.
    pub fn new(instruments: &'r mut I, settings: &'r Settings, random: &'r mut fastrand::Rng) -> Self {
        let began = instruments.stamp().ticks;
        Sampler { instruments, settings, random, began }
    }

    /// Whether more than a share of its time has passed.
    fn is_past(&mut self, share: f64) -> bool {
        (self.instruments.stamp().ticks - self.began) as f64 > self.settings.most_ticks * share
    }

    /// Sizes, warms up and samples in sweeps over all workloads.
    pub fn run(&mut self, mut workloads: Vec<Workload<'_>>) -> Sampled {
        let mut taken = Taken::none(workloads.len());
        let mut iterations = self.size_all(&mut workloads, &mut taken);
        let shortest = self.warm_up(&mut workloads, &iterations, &mut taken);
        for index in 0..workloads.len() {
            iterations[index] = self.lengthened(&workloads[index], index, &iterations, shortest[index]);
        }
        for turn in 0..self.settings.batches {
            if turn > 0 && self.is_past(1.0) {
                break;
            }
            for (index, batch, _) in self.sweep(turn, &mut workloads, &iterations, &mut taken.reasons, None) {
                taken.batches[index].push(batch);
            }
        }
        taken.sampled(&workloads, &iterations)
    }

    /// Iterations per batch of every workload. Bounded in steps, so that no clock can make it hang.
    fn size_all(&mut self, workloads: &mut [Workload<'_>], taken: &mut Taken) -> Vec<u64> {
        let began = self.instruments.stamp().ticks;
        let mut iterations: Vec<u64> = Vec::with_capacity(workloads.len());
        for workload in workloads {
            let size = match workload.sizing {
                Sizing::ByTime => self.size(workload, 1.0, 1),
                Sizing::ByTimes(times) => self.size(workload, f64::from(times), 1),
                Sizing::AtLeast(count) => self.size(workload, 1.0, count),
                Sizing::SameAs(earlier) => iterations[earlier],
                Sizing::TimesThat(times, earlier) => times * iterations[earlier],
                Sizing::Exactly(count) => count,
            };
            iterations.push(size);
        }
        taken.sizing_ticks = (self.instruments.stamp().ticks - began) as f64;
        iterations
    }

    /// More iterations for a workload whose shortest batch of the warm-up was too short: what finds its pace late, or has two,
    /// as a loop in memory has on cores that rename it, was sized at the slow one.
    fn lengthened(&self, workload: &Workload<'_>, index: usize, iterations: &[u64], shortest: f64) -> u64 {
        let missing = |times: f64| (self.settings.batch_ticks * times / shortest).clamp(1.0, MOST_LENGTHENED);
        let longer = |times: f64| (iterations[index] as f64 * missing(times)).ceil() as u64;
        match workload.sizing {
            Sizing::ByTime | Sizing::AtLeast(_) => longer(1.0),
            Sizing::ByTimes(times) => longer(f64::from(times)),
            Sizing::SameAs(earlier) => iterations[earlier],
            Sizing::TimesThat(times, earlier) => times * iterations[earlier],
            Sizing::Exactly(count) => count,
        }
    }

    fn size(&mut self, workload: &mut Workload<'_>, times: f64, fewest: u64) -> u64 {
        let target = self.settings.batch_ticks * times;
        let mut iterations = fewest;
        for _ in 0..SIZING_STEPS {
            // The lower of two: the first run of anything pays for cold caches and predictors.
            let ticks = self.time(workload, iterations).0.min(self.time(workload, iterations).0);
            if ticks >= target || self.is_past(WARM_UP_SHARE) {
                break;
            }
            // Straight to the target when the time is long enough to be believed, else double.
            let believable = ticks > target / 20.0;
            let factor = if believable { (target / ticks * 1.05).max(1.05) } else { 2.0 };
            iterations = ((iterations as f64 * factor).ceil() as u64).max(iterations + 1);
        }
        iterations
    }

    /// Ticks of a batch without anything around it, and whether all of it counts. A failure shows again in the batches that
    /// are kept, where it is counted.
    fn time(&mut self, workload: &mut Workload<'_>, iterations: u64) -> (f64, bool) {
        let ready = untimed(&mut workload.prepare);
        let start = self.instruments.opening();
        let outcome = (workload.work)(iterations);
        let end = self.instruments.stamp();
        let _ = untimed(&mut workload.tidy);
        ((end.ticks - start.ticks) as f64, ready.is_ok() && outcome == Ok(Timed::Whole))
    }

    /// What a batch of `ticks` ticks took over what half as many operations take right after it: 2 where time follows the
    /// operations.
    fn doubling(&mut self, workload: &mut Workload<'_>, iterations: u64, ticks: f64) -> Option<f64> {
        let half = iterations / 2;
        if half == 0 {
            return None;
        }
        let (of_half, counts) = self.time(workload, half);
        let each = (of_half - self.instruments.bias()) / half as f64;
        (counts && each > 0.0).then(|| 2.0 * ticks / iterations as f64 / each)
    }

    /// Sweeps until nearly every workload shows no slope any more, or the bound is reached. Returns the
    /// ticks of each workload's shortest batch.
    fn warm_up(&mut self, workloads: &mut [Workload<'_>], iterations: &[u64], taken: &mut Taken) -> Vec<f64> {
        let is_paired = paired(workloads);
        let mut shortest = vec![f64::INFINITY; workloads.len()];
        let mut seen: Vec<Vec<f64>> = vec![Vec::new(); workloads.len()];
        // Workloads of few batches are expensive: one shot warms what it needs, and they wait for no other workload.
        let waited_for: Vec<bool> = workloads.iter().map(|workload| workload.at_most.is_none()).collect();
        let wanted = waited_for.iter().filter(|&&waited| waited).count() as f64;
        for sweep in 1..=WARM_UP_SWEEPS {
            let turn = if sweep == 1 { 0 } else { u32::MAX };
            let halves = (WINDOW - PAIRS + 1..=WINDOW).contains(&sweep).then_some(&is_paired[..]);
            for (index, batch, ratio) in self.sweep(turn, workloads, iterations, &mut taken.reasons, halves) {
                taken.warm_up_batches += 1;
                taken.ratios[index].extend(ratio.filter(|_| batch.class == Class::Clean));
                seen[index].push(batch.ticks / batch.clock.unwrap_or(1.0));
                if batch.ticks > 0.0 {
                    shortest[index] = shortest[index].min(batch.ticks);
                }
            }
            let calm = seen.iter().zip(&waited_for).filter(|(values, waited)| **waited && settled(values)).count();
            if wanted == 0.0 || sweep >= WINDOW && calm as f64 >= SETTLED_SHARE * wanted {
                return shortest;
            }
            if self.is_past(WARM_UP_SHARE) {
                break;
            }
        }
        taken.settled = false;
        shortest
    }

    /// One batch of each workload that still takes part in this turn, in random order, each followed by its half where that is
    /// wanted: gives the position of the workload, the batch, and what it took over the half.
    fn sweep(
        &mut self,
        turn: u32,
        workloads: &mut [Workload<'_>],
        iterations: &[u64],
        reasons: &mut [Option<String>],
        halves: Option<&[bool]>,
    ) -> Vec<(usize, Batch, Option<f64>)> {
        let mut order: Vec<usize> =
            (0..workloads.len()).filter(|&index| workloads[index].at_most.is_none_or(|most| turn < most)).collect();
        self.random.shuffle(&mut order);
        let mut boundary = self.boundary();
        order
            .into_iter()
            .map(|index| {
                let workload = &mut workloads[index];
                if let Some(place) = &mut workload.place {
                    place(turn);
                }
                let batch = self.batch(workload, iterations[index], &mut boundary, &mut reasons[index]);
                let mut ratio = None;
                if halves.is_some_and(|halves| halves[index]) {
                    ratio = self.doubling(workload, iterations[index], batch.ticks);
                    // What the half did is not the next batch's.
                    boundary.counters = self.instruments.counters();
                }
                (index, batch, ratio)
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
        let other_before = self.look(workload);
        let ready = untimed(&mut workload.prepare);
        let witnesses = witnessed(&mut workload.witnesses);
        // What stands before the batch is neither in its counters nor between its probes.
        let apart = workload.prepare.is_some() || workload.witnesses.is_some() || workload.across.is_some();
        if apart {
            *boundary = self.boundary();
        }
        let width_before = self.instruments.width();
        let start = self.instruments.opening();
        let outcome = (workload.work)(iterations);
        let end = self.instruments.stamp();
        let width_after = self.instruments.width();
        let counters = self.instruments.counters();
        let probe = self.instruments.probe();
        let before = std::mem::replace(boundary, Boundary { probe, counters });
        let counted = witnesses.and_then(|before| {
            let after = witnessed(&mut workload.witnesses)?;
            seen(&before, &after, self.instruments.cpu())
        });
        // What the work did is tidied up even where something else failed.
        let tidied = untimed(&mut workload.tidy);
        let outcome = ready.and(outcome).and_then(|timed| Ok((timed, counted?))).and_then(|both| tidied.map(|()| both));
        let other = [other_before, self.look(workload)];
        if workload.witnesses.is_some() || workload.across.is_some() {
            *boundary = self.boundary();
        }
        let clock = before.probe.zip(probe).map(|(first, second)| f64::midpoint(first, second));
        let cycles =
            |width: f64, probe: Option<f64>| probe.filter(|&probe| probe > 0.0).map_or(0.0, |probe| width / probe);
        let width = [cycles(width_before, before.probe), cycles(width_after, probe)];
        let unsteady = before.probe.zip(probe).is_some_and(|(first, second)| {
            (first / second - 1.0).abs() > PROBE_AGREEMENT || first <= 0.0 || second <= 0.0
        });
        let ticks = match outcome {
            Ok((Timed::Ticks(own) | Timed::Undisturbed(own) | Timed::Preempted(own), _)) => own,
            _ => end.ticks - start.ticks,
        };
        let moved = start.cpu != end.cpu || end.cpu != self.instruments.cpu();
        let expected = workload.expected;
        let hops = (iterations * workload.operations) as f64;
        let kept_waiting = matches!(outcome, Ok((Timed::Preempted(_), _)));
        let found_clear = matches!(outcome, Ok((Timed::Undisturbed(_), _)));
        let outcome = outcome.and_then(|(_, others)| {
            let counts = Counts::between(&before.counters, &counters).and(&others);
            let must = matches!(expected.switches, Switches::One | Switches::OneOrMore);
            if must && counts.switches() < hops - few(hops) {
                return Err(format!(
                    "the kernel counted {} context switches, and {hops} must have happened",
                    counts.switches()
                ));
            }
            Ok(counts)
        });
        let elapsed = ticks as f64 / self.instruments.hertz() * 1e9;
        // Tasks that hand one CPU to each other force switches on each other, as their handoffs. A switch more, or time that
        // none of them had, belongs to another task.
        let robbed =
            |counts: &Counts| counts.one_cpu && counts.cpu_time < elapsed * (1.0 - TIME_OF_OTHERS) - COUNTERS_GRAIN;
        let intruded = |counts: &Counts| match expected.switches {
            Switches::None => counts.involuntary > 0,
            Switches::One => counts.switches() > hops + few(hops) || robbed(counts),
            Switches::Sleep => counts.switches() > hops + few(hops),
            Switches::OneOrMore => robbed(counts),
        };
        let forced = outcome.as_ref().map_or(0.0, |counts| counts.involuntary as f64 / counts.switches().max(1.0));
        let class = match outcome {
            _ if end.ticks < start.ticks || ticks < 0 => Class::Backwards,
            Err(why) => {
                *reason = Some(why);
                Class::Wrong
            }
            Ok(_) if !expected.migration && moved => Class::Migrated,
            Ok(counts) if kept_waiting || !found_clear && intruded(&counts) => Class::Preempted,
            Ok(counts) if expected.switches == Switches::Sleep && counts.switches() < hops - few(hops) => Class::Missed,
            Ok(counts) if !expected.faults && counts.faults > 0 => Class::Faulted,
            Ok(_) if unsteady && workload.clocked => Class::Unsteady,
            Ok(_) => Class::Clean,
        };
        Batch { ticks: ticks as f64 - self.instruments.bias(), clock, class, width, other, forced }
    }

    fn look(&mut self, workload: &Workload<'_>) -> Look {
        workload.across.as_ref().map_or(Look::default(), |partner| line::look(self.instruments, partner))
    }

    fn boundary(&mut self) -> Boundary {
        Boundary { probe: self.instruments.probe(), counters: self.instruments.counters() }
    }
}

/// Which workloads are to show that time follows their operations: those of the sampler's size and of full length. Where one is
/// sized after another the ratio of the two is in the sample already.
fn paired(workloads: &[Workload<'_>]) -> Vec<bool> {
    let is_measure = |of: usize| {
        let follows = |sizing: Sizing| matches!(sizing, Sizing::SameAs(it) | Sizing::TimesThat(_, it) if it == of);
        workloads.iter().any(|workload| follows(workload.sizing))
    };
    let is_sized = |sizing: Sizing| matches!(sizing, Sizing::ByTime | Sizing::ByTimes(_) | Sizing::AtLeast(_));
    let is_paired = |(index, workload): (usize, &Workload<'_>)| {
        is_sized(workload.sizing) && workload.at_most.is_none() && !is_measure(index)
    };
    workloads.iter().enumerate().map(is_paired).collect()
}

fn witnessed(witnesses: &mut Option<Witnesses<'_>>) -> Result<Vec<Witness>, String> {
    witnesses.as_mut().map_or(Ok(Vec::new()), |read| read())
}

/// Does what stands around a batch, if anything does.
fn untimed(work: &mut Option<Untimed<'_>>) -> Result<(), String> {
    work.as_mut().map_or(Ok(()), |work| work())
}

/// Whether the last batches show no slope. What scatters settles like everything else.
fn settled(values: &[f64]) -> bool {
    values.len() >= WINDOW && shows_no_slope(&values[values.len() - WINDOW..], SLOPE_LEVEL, SETTLED)
}

fn series_of(workload: &Workload<'_>, iterations: u64, linearity: Option<f64>, batches: &[Batch]) -> Series {
    Series {
        name: workload.name.clone(),
        labels: workload.labels.clone(),
        unit: Unit::Ticks,
        operations: iterations * workload.operations,
        values: batches.iter().map(|batch| rounded(batch.ticks, 10.0)).collect(),
        clock: batches
            .iter()
            .filter(|_| workload.clocked)
            .filter_map(|batch| batch.clock)
            .map(|clock| rounded(clock, 1e6))
            .collect(),
        widths: looks_of(batches, |batch| batch.width, 1e3),
        lines: looks_of(batches, |batch| batch.other.map(|look| look.line), 10.0),
        partner_widths: looks_of(batches, |batch| batch.other.map(|look| look.width), 1e3),
        beside_partner: looks_of(batches, |batch| batch.other.map(|look| look.beside), 1e3),
        linearity: linearity.map(|ratio| rounded(ratio, 1e4)),
        classes: Classes(batches.iter().map(|batch| batch.class).collect()),
    }
}

/// Looks before and after batches; empty where none is known.
fn looks_of(batches: &[Batch], of: impl Fn(&Batch) -> [f64; 2], steps: f64) -> Vec<[f64; 2]> {
    let is_known = batches.iter().any(|batch| of(batch).iter().any(|&look| look > 0.0));
    batches.iter().filter(|_| is_known).map(|batch| of(batch).map(|look| rounded(look, steps))).collect()
}

/// Share of forced context switches in each batch, next to the series of a workload that counts them.
fn forced_of(workload: &Workload<'_>, batches: &[Batch]) -> Series {
    let shares = batches.iter().map(|batch| rounded(batch.forced, 1e3)).collect();
    Series::plain(&format!("{}.forced", workload.name), workload.labels.clone(), Unit::One, shares)
}

/// Digits beyond the clock's resolution only make logs longer.
fn rounded(value: f64, steps: f64) -> f64 {
    (value * steps).round() / steps
}
