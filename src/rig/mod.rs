//! The rig: how a sample is taken. One rig lives in each launch and is handed to the experiment's `measure`.
//!
//! A launch receives an [`request::Request`], pins itself, checks the clock it was handed, warms up, takes interleaved batches
//! ([`sampler`]) between clock probes ([`instruments`]), and writes series and evidence as log records.

pub mod clock;
pub mod companion;
mod counts;
pub mod instruments;
pub mod interference;
pub mod line;
pub mod member;
pub mod noise;
pub mod placed;
pub mod quieter;
pub mod request;
pub mod sampler;
pub mod shots;
pub mod team;
pub mod together;
pub mod watch;
pub mod workload;

use std::io::Write;

use crate::neighbour::width::may_be_alone;
use crate::results::evidence::{Evidence, Remark};
use crate::results::log::Record;
use crate::results::problem::Problem;
use crate::results::quantity::{Labels, Unit};
use crate::results::series::Series;
use crate::results::wording::quantity;
use crate::setup::Setup;
use crate::statistics::summary::median;
use crate::sys::clock::{Source, monotonic_raw};
use crate::sys::spinner::Spinner;
use crate::sys::{affinity, counters};

use instruments::{Instruments, Live};
use request::{Request, Space};
use sampler::{Sampled, Sampler, Settings, Workload};

/// Tries of what shall be alone on its core: visits of neighbours last some 30 µs, tenants stay for seconds.
const TRIES_ALONE: u32 = 20;
/// Looks of which the median is the way of a line.
const LOOKS_ALONG: usize = 5;

/// What an experiment measures with.
pub struct Rig<'a> {
    request: &'a Request,
    instruments: Live,
    random: fastrand::Rng,
    out: &'a mut dyn Write,
    /// Nanoseconds that the tool spent on itself: start, self-checks, sizing, records.
    own: f64,
    /// Nanoseconds of run delay that are this launch's own doing.
    excused: f64,
    /// Nanoseconds of the steal that the load of this launch explains.
    excused_steal: f64,
    started: i64,
    span: StartCounters,
    evidence: Evidence,
}

/// Counters at the moment when measuring began.
struct StartCounters {
    began: i64,
    anchor: clock::Pair,
    counters: counters::ThreadCounters,
    run_delay: Option<f64>,
    steal: Option<f64>,
    /// Whether other tasks of this launch took part: then waiting for the CPU is waiting for them.
    partners: bool,
}

impl<'a> Rig<'a> {
    /// Pins the launch to its CPU, finds the clock's bias and the core clock, and starts the evidence.
    ///
    /// `started` is CLOCK_MONOTONIC_RAW at the start of the process, for the tool's own share of the launch.
    pub fn set_up(request: &'a Request, started: i64, out: &'a mut dyn Write) -> Result<Self, Problem> {
        let cpu = request.setup.cpu;
        affinity::restrict(&[cpu]).map_err(|error| {
            Problem::new(format!("cannot run on CPU {cpu}: {error}")).hint("choose another CPU with --cpu N")
        })?;
        let anchor = clock::pair(request.source()?);
        let instruments = Live::start(request)?;
        let evidence = Evidence {
            cpu,
            timer_bias: instruments.bias(),
            timer_resolution: instruments.resolution(),
            chain_ratio: instruments.chain_ratio(),
            settled: true,
            ..Evidence::default()
        };
        let random = fastrand::Rng::with_seed(request.seed);
        let span = StartCounters {
            began: monotonic_raw(),
            anchor,
            counters: counters::thread(),
            run_delay: counters::run_delay(),
            steal: counters::steal(cpu),
            partners: false,
        };
        let own = (span.began - started) as f64;
        let mut rig =
            Rig { request, instruments, random, out, own, excused: 0.0, excused_steal: 0.0, started, span, evidence };
        rig.evidence.ticks_per_cycle_before = rig.instruments.steady_probe();
        Ok(rig)
    }

    /// Notes whether the CPU of the run was alone on its core when this launch began.
    pub fn began_alone(&mut self, alone: Option<bool>) {
        self.evidence.began_alone = alone;
    }

    /// What is the same for all launches of the run.
    pub fn setup(&self) -> &'a Setup {
        &self.request.setup
    }

    /// How many batches of each workload this launch takes.
    pub fn batches(&self) -> u32 {
        self.request.batches
    }

    /// Launches of this experiment that the run had before: what takes too long for every launch takes turns by it.
    pub fn turn(&self) -> u32 {
        self.request.turn
    }

    /// Bytes of memory that this launch may take.
    pub fn memory(&self) -> u64 {
        self.setup().machine.launch_memory_bytes()
    }

    /// Seconds that this launch may take to fill the file cache, where that was asked for.
    pub fn fill_seconds(&self) -> Option<f64> {
        self.request.fill_seconds
    }

    /// Process that conducts the run.
    pub fn conductor(&self) -> u32 {
        self.request.conductor
    }

    /// The run's own directory for files and how much they may take; or why there is none.
    pub fn space(&self) -> Result<&'a Space, Problem> {
        self.request.space.as_ref().map_err(Clone::clone)
    }

    /// Whether one more file may be made in the scratch directory, for this launch alone; if not, why.
    pub fn allows_file(&self, bytes: u64) -> Result<(), String> {
        let room = self.setup().room.as_ref().copied().unwrap_or(0);
        let left = self.request.space.as_ref().map_or(room, Space::left);
        if bytes <= left {
            return Ok(());
        }
        let text = |bytes: u64| quantity(bytes as f64, Unit::Bytes);
        Err(format!(
            "a file of {} exceeds the {} of scratch space that is left (see --scratch DIR and {})",
            text(bytes),
            text(left),
            self.setup().file_bound()
        ))
    }

    /// The clock of the run.
    pub fn source(&self) -> Result<Source, Problem> {
        self.request.source()
    }

    /// Ticks of the run's clock in a number of nanoseconds.
    pub fn ticks(&self, nanoseconds: f64) -> f64 {
        nanoseconds * self.request.clock.hertz / 1e9
    }

    /// True when intervals are ticks of the architecture's counter.
    pub fn counts_ticks(&self) -> bool {
        self.request.clock.source == crate::sys::arch::COUNTER
    }

    /// Ticks of an empty interval: for work that sums its own intervals, of which the sampler corrects one only.
    pub fn timer_bias(&self) -> f64 {
        self.instruments.bias()
    }

    /// Nanoseconds in a number of ticks of the run's clock.
    pub fn nanoseconds(&self, ticks: f64) -> f64 {
        ticks / self.request.clock.hertz * 1e9
    }

    /// Random choices of this launch, seeded by the run's seed and the launch's number.
    pub fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.random
    }

    /// Ticks per core cycle right now; none where no chain of known latency validates.
    pub fn ticks_per_cycle(&mut self) -> Option<f64> {
        self.instruments.probe()
    }

    /// The same as the median of three probes: an interrupt makes one of them too long.
    pub fn median_ticks_per_cycle(&mut self) -> Option<f64> {
        let probes: Option<Vec<f64>> = (0..3).map(|_| self.ticks_per_cycle()).collect();
        median(&probes?)
    }

    /// Ticks of a turn of the shortest loop right now, which a neighbour on the core lengthens. Zero where it is not known.
    pub fn turn_ticks(&mut self) -> f64 {
        self.instruments.width()
    }

    /// Nanoseconds of a cache line's way to the CPU of a partner that answers, the median of some looks: other tasks can stop either
    /// side of one. Zero where it does not answer.
    pub fn line_to(&mut self, partner: &Spinner) -> f64 {
        let looks: Vec<f64> = (0..LOOKS_ALONG).map(|_| line::look(&mut self.instruments, partner).line).collect();
        median(&looks).unwrap_or(0.0)
    }

    /// Does something short outside of batches until no neighbour was on the core before and after it, a number of times at most.
    /// True where it was so in the end, and where nothing shows which tasks are on the core.
    pub fn while_alone(&mut self, mut work: impl FnMut()) -> bool {
        (0..TRIES_ALONE).any(|_| {
            let before = self.may_be_alone();
            work();
            before && self.may_be_alone()
        })
    }

    /// Core cycles of a turn of the shortest loop right now. Zero where nothing shows them.
    pub fn width(&mut self) -> f64 {
        let Some(per_cycle) = self.instruments.probe().filter(|per_cycle| *per_cycle > 0.0) else { return 0.0 };
        self.instruments.width() / per_cycle
    }

    fn may_be_alone(&mut self) -> bool {
        let width = self.width();
        width <= 0.0 || may_be_alone(width)
    }

    /// Takes nanoseconds off the run delay of this launch: those for which the launch kept itself waiting, woken by one of
    /// its tasks that had not left the CPU yet.
    pub fn excuse_delay(&mut self, nanoseconds: f64) {
        self.excused += nanoseconds;
    }

    /// Takes nanoseconds off the steal of this launch: those that the hypervisor takes because of the load of this launch.
    pub fn excuse_steal(&mut self, nanoseconds: f64) {
        self.excused_steal += nanoseconds;
    }

    /// Says that other tasks of this launch take turns with it on its CPU, or do the work while it sleeps: how long it waits for
    /// the CPU is then no evidence of others.
    pub fn has_partners(&mut self) {
        self.span.partners = true;
    }

    /// Takes interleaved, frequency-normalised batches of all workloads and records one series for each.
    pub fn sample(&mut self, workloads: Vec<Workload<'_>>) -> Result<(), Problem> {
        self.span.partners |= workloads.iter().any(|workload| workload.witnesses.is_some());
        let settings = self.settings();
        let outcome = Sampler::new(&mut self.instruments, &settings, &mut self.random).run(workloads);
        self.keep(outcome)
    }

    /// The same with some of its operation before every batch: for operations whose cost depends on what ran before.
    pub fn sample_in_blocks(&mut self, workloads: Vec<Workload<'_>>) -> Result<(), Problem> {
        let settings = self.settings();
        let outcome = Sampler::new(&mut self.instruments, &settings, &mut self.random).run_in_blocks(workloads);
        self.keep(outcome)
    }

    /// Samples in sweeps and keeps the first workload alone: what it costs among the others.
    pub fn sample_first(&mut self, workloads: Vec<Workload<'_>>) -> Result<(), Problem> {
        let settings = self.settings();
        let mut outcome = Sampler::new(&mut self.instruments, &settings, &mut self.random).run(workloads);
        outcome.series.truncate(1);
        self.keep(outcome)
    }

    /// How it samples, in what is left of its time.
    fn settings(&self) -> Settings {
        let settings = Settings::of(self.request, &self.instruments);
        let passed = self.ticks((monotonic_raw() - self.span.began) as f64);
        Settings { most_ticks: settings.most_ticks - passed, ..settings }
    }

    fn keep(&mut self, outcome: Sampled) -> Result<(), Problem> {
        self.evidence.warm_up_batches += outcome.warm_up_batches;
        self.evidence.settled &= outcome.settled;
        self.own += outcome.sizing_ticks / self.request.clock.hertz * 1e9;
        self.evidence.remarks.extend(outcome.remarks);
        outcome.series.into_iter().try_for_each(|series| self.record_series(series))
    }

    /// Records values that are not batches: readings, sizes, counts.
    pub fn record(&mut self, name: &str, labels: Labels, unit: Unit, values: Vec<f64>) -> Result<(), Problem> {
        self.record_series(Series::plain(name, labels, unit, values))
    }

    /// Notes a fact that a verdict or an analysis needs.
    pub fn remark(&mut self, what: &str, value: &dyn std::fmt::Display) {
        self.evidence.remarks.push(Remark::of(what, value));
    }

    /// Says that a figure cannot be had here, or every figure of a metric that has these labels, and why.
    pub fn unavailable(&mut self, metric: &str, labels: &Labels, why: &dyn std::fmt::Display) {
        self.unavailable_for(metric, labels, &Problem::new(why.to_string()));
    }

    /// The same where the user can do something about it.
    pub fn unavailable_for(&mut self, metric: &str, labels: &Labels, why: &Problem) {
        self.evidence.remarks.push(Remark::unavailable(metric, labels, why));
    }

    fn record_series(&mut self, series: Series) -> Result<(), Problem> {
        let began = monotonic_raw();
        let record =
            Record::Series { launch: self.request.launch, experiment: self.request.experiment.clone(), series };
        write_record(self.out, &record)?;
        self.own += (monotonic_raw() - began) as f64;
        Ok(())
    }

    /// Closes the evidence and records it: the last record of a launch.
    pub fn finish(mut self) -> Result<(), Problem> {
        self.evidence.ticks_per_cycle_after = self.instruments.steady_probe();
        let counters_now = counters::thread();
        let now = monotonic_raw();
        let span = &self.span;
        let evidence = &mut self.evidence;
        evidence.wall = (now - span.began) as f64;
        evidence.cpu_time = (counters_now.cpu_time - span.counters.cpu_time) as f64;
        evidence.voluntary_switches = counters_now.voluntary_switches - span.counters.voluntary_switches;
        evidence.involuntary_switches = counters_now.involuntary_switches - span.counters.involuntary_switches;
        evidence.minor_faults = counters_now.minor_faults - span.counters.minor_faults;
        evidence.major_faults = counters_now.major_faults - span.counters.major_faults;
        evidence.run_delay = difference(counters::run_delay(), span.run_delay)
            .filter(|_| !span.partners)
            .map(|delay| (delay - self.excused).max(0.0));
        // Some hypervisors take stolen time back, and a guest that was moved counts anew: then nothing is known.
        evidence.steal = difference(counters::steal(self.request.setup.cpu), span.steal)
            .filter(|stolen| *stolen >= 0.0)
            .map(|stolen| (stolen - self.excused_steal).max(0.0));
        let check = clock::deviation(&self.request.clock, &span.anchor, &clock::pair(self.request.source()?));
        evidence.clock_deviation_ppm = check.map(|(deviation, _)| deviation);
        evidence.clock_deviation_bound_ppm = check.map(|(_, bound)| bound);
        let ended = monotonic_raw();
        evidence.own_share = (self.own + (ended - now) as f64) / (ended - self.started) as f64;
        let record = Record::Evidence {
            launch: self.request.launch,
            experiment: self.request.experiment.clone(),
            evidence: self.evidence,
        };
        write_record(self.out, &record)
    }
}

fn difference(now: Option<f64>, before: Option<f64>) -> Option<f64> {
    Some(now? - before?)
}

/// Writes one record as one line.
fn write_record(out: &mut dyn Write, record: &Record) -> Result<(), Problem> {
    let mut line = serde_json::to_vec(record).map_err(|error| Problem::new(format!("cannot encode: {error}")))?;
    line.push(b'\n');
    out.write_all(&line)
        .and_then(|()| out.flush())
        .map_err(|error| Problem::new(format!("cannot send records to the conductor process: {error}")))
}
