//! A log from its records, in their order. Records that no run writes one after the other are refused: figures with good
//! verdicts would be made of a log that was put together, or changed.

use std::collections::BTreeSet;

use super::{Clock, Header, Launch, Log, Record, Step};

use crate::machine::quiet::Check;
use crate::machine::{Fact, Machine};
use crate::results::between::History;
use crate::results::evidence::Evidence;
use crate::results::expectation::Expectation;
use crate::results::own_prediction::OwnPredictions;
use crate::results::peer::Peer;
use crate::results::prediction::Prediction;
use crate::results::problem::Problem;
use crate::results::quantity::Labels;
use crate::results::remote::Remote;
use crate::results::series::Series;

/// A clock may differ by this factor from what the machine says of its counter: a guest that was moved keeps the statements
/// of the machine on which it was started.
const CLOCK_DIFFERS: f64 = 2.0;
/// The same where it says nothing of its counter but the delay loop and the nominal clock of its cores.
const ROUGHLY: f64 = 4.0;

#[derive(Clone)]
pub(super) struct LogBuilder {
    header: Header,
    machine: Option<Machine>,
    log: LogParts,
    /// The launch that has begun and not ended.
    open: Option<u32>,
    /// Numbers of all launches.
    numbers: BTreeSet<u32>,
    /// Experiments that have samples.
    sampled: BTreeSet<String>,
    /// Figures that were predicted: experiment, metric and labels.
    predicted: BTreeSet<(String, String, Labels)>,
}

#[derive(Clone, Default)]
struct LogParts {
    quiet: Vec<Check>,
    peer: Option<Box<Peer>>,
    remote: Option<Box<Remote>>,
    history: Option<History>,
    clock: Option<Clock>,
    steps: Option<Vec<Step>>,
    rounds_planned: u32,
    rounds: u32,
    disturbed_rounds: Vec<u32>,
    others_cpus: Vec<f64>,
    expectations: Option<Vec<Expectation>>,
    own_predictions: Option<OwnPredictions>,
    predictions: Vec<(String, Prediction)>,
    launches: Vec<Launch>,
    resumed: u32,
    finish: Option<(String, bool, String)>,
    finished_seconds: f64,
    sitting_seconds: f64,
}

impl LogBuilder {
    pub fn new(header: Header) -> Self {
        LogBuilder {
            header,
            machine: None,
            log: LogParts::default(),
            open: None,
            numbers: BTreeSet::new(),
            sampled: BTreeSet::new(),
            predicted: BTreeSet::new(),
        }
    }

    /// Takes the next record. The error says what it contradicts.
    pub fn take(&mut self, record: Record) -> Result<(), String> {
        if self.log.finish.is_some() && !matches!(record, Record::Resumed { .. }) {
            return Err("the run had ended and was not resumed".to_owned());
        }
        match record {
            Record::Run(_) => Err("a second start of a run, and a log has one run".to_owned()),
            Record::Machine { machine } => self.describe(*machine),
            Record::Quiet { checks } => {
                self.log.quiet = checks;
                Ok(())
            }
            Record::Peer(peer) => once(&mut self.log.peer, peer, "description of the peer"),
            Record::Remote(remote) => once(&mut self.log.remote, remote, "description of remote files"),
            Record::History(history) => self.look_back(history),
            Record::Clock(clock) => self.calibrate(clock),
            Record::Plan { steps, rounds, .. } => {
                self.log.rounds_planned = rounds;
                once(&mut self.log.steps, steps, "plan")
            }
            Record::Expectations { expectations } => self.expect(expectations),
            Record::OwnPredictions(own) => self.accept_own(own),
            Record::Prediction { experiment, prediction } => self.predict(experiment, prediction),
            Record::Launch { launch, round, experiment, at, first } => self.begin(launch, round, experiment, at, first),
            Record::Series { launch, experiment, series } => self.sample(launch, experiment, series),
            Record::Evidence { launch, experiment, evidence } => self.observe(launch, &experiment, evidence),
            Record::LaunchEnd { launch, experiment, seconds, failed, interrupted } => {
                let of = self.running(launch, &experiment)?;
                (of.seconds, of.failed, of.interrupted) =
                    (Some(not_negative("a duration", seconds)?), failed, interrupted);
                self.log.sitting_seconds += seconds;
                self.open = None;
                Ok(())
            }
            Record::RoundEnd { round, disturbed, others_cpus } => {
                self.log.rounds += 1;
                if let Some(cpus) = others_cpus {
                    self.log.others_cpus.push(not_negative("a number of CPUs", cpus)?);
                }
                if !disturbed.is_empty() {
                    self.log.disturbed_rounds.push(round);
                }
                Ok(())
            }
            Record::Resumed { .. } => {
                // A launch that was under way died with the run.
                self.open = None;
                self.log.resume();
                Ok(())
            }
            Record::Finish { at, complete, reason, seconds } => {
                // A log that could not be written for a while ends within a launch.
                self.open = None;
                self.log.sitting_seconds = not_negative("a duration", seconds)?;
                self.log.finish = Some((at, complete, reason));
                Ok(())
            }
        }
    }

    fn describe(&mut self, machine: Machine) -> Result<(), String> {
        if let Some(clock) = &self.log.clock {
            agrees(clock, &machine)?;
        }
        once(&mut self.machine, machine, "machine")
    }

    fn calibrate(&mut self, clock: Clock) -> Result<(), String> {
        if clock.hertz <= 0.0 {
            return Err(format!("a clock of {} Hz", clock.hertz));
        }
        if let Some(machine) = &self.machine {
            agrees(&clock, machine)?;
        }
        once(&mut self.log.clock, clock, "clock")
    }

    /// The past of a run is what was there when it began.
    fn look_back(&mut self, history: History) -> Result<(), String> {
        if !self.numbers.is_empty() {
            return Err("earlier runs after the first launch".to_owned());
        }
        if let Some(why) = history.contradiction() {
            return Err(why);
        }
        once(&mut self.log.history, history, "account of earlier runs")
    }

    /// What is expected does not depend on what was measured.
    fn expect(&mut self, expectations: Vec<Expectation>) -> Result<(), String> {
        if !self.numbers.is_empty() {
            return Err("expectations after the first launch".to_owned());
        }
        let ordered = |found: &Expectation| 0.0 < found.low && found.low <= found.value && found.value <= found.high;
        if let Some(wrong) = expectations.iter().find(|found| !ordered(found)) {
            return Err(format!("an expectation of {} whose range is not in order", wrong.cost));
        }
        once(&mut self.log.expectations, expectations, "list of expectations")
    }

    /// A person may have seen what was measured.
    fn accept_own(&mut self, own: OwnPredictions) -> Result<(), String> {
        if !self.numbers.is_empty() {
            return Err("own predictions after the first launch".to_owned());
        }
        if let Some(why) = own.contradiction() {
            return Err(why);
        }
        once(&mut self.log.own_predictions, own, "list of own predictions")
    }

    fn predict(&mut self, experiment: String, prediction: Prediction) -> Result<(), String> {
        if self.sampled.contains(&experiment) {
            return Err(format!("a prediction of {experiment} after its first samples"));
        }
        // What is measured first is predicted before it, the others of the experiment after it.
        let measured = |launch: &&Launch| launch.experiment == experiment && launch.first;
        let mut series = self.log.launches.iter().filter(measured).flat_map(|launch| &launch.series);
        if series.any(|series| series.labels == prediction.labels) {
            return Err(format!(
                "a prediction of {}{{{}}} after its first samples",
                prediction.metric, prediction.labels
            ));
        }
        let figure = (experiment.clone(), prediction.metric.clone(), prediction.labels.clone());
        if !self.predicted.insert(figure) {
            return Err(format!("a second prediction of {}{{{}}}", prediction.metric, prediction.labels));
        }
        self.log.predictions.push((experiment, prediction));
        Ok(())
    }

    fn begin(&mut self, launch: u32, round: u32, experiment: String, at: f64, first: bool) -> Result<(), String> {
        if let Some(open) = self.open {
            return Err(format!("launch {launch} begins before launch {open} has ended"));
        }
        if !self.numbers.insert(launch) {
            return Err(format!("a second launch {launch}"));
        }
        self.open = Some(launch);
        self.log.sitting_seconds = not_negative("a time since the start", at)?;
        self.log.launches.push(Launch {
            number: launch,
            round,
            experiment,
            first,
            series: Vec::new(),
            evidence: None,
            seconds: None,
            failed: None,
            interrupted: false,
        });
        Ok(())
    }

    /// The launch that is open, which has to be number `launch`.
    fn running(&mut self, launch: u32, experiment: &str) -> Result<&mut Launch, String> {
        if self.open != Some(launch) {
            return Err(format!("a record of launch {launch}, which is not running"));
        }
        match self.log.launches.last_mut() {
            Some(of) if of.experiment == experiment => Ok(of),
            _ => Err(format!("a record of {experiment} in launch {launch}, which belongs to another experiment")),
        }
    }

    fn sample(&mut self, launch: u32, experiment: String, series: Series) -> Result<(), String> {
        let of = self.running(launch, &experiment)?;
        let values = series.values.len();
        let columns = [
            ("classes", series.classes.0.len()),
            ("clock probes", series.clock.len()),
            ("widths", series.widths.len()),
            ("lines", series.lines.len()),
            ("partner widths", series.partner_widths.len()),
            ("widths next to the partner", series.beside_partner.len()),
        ];
        for (what, length) in columns {
            if length != 0 && length != values {
                return Err(format!("{length} {what} of {values} values in the series {}", series.name));
            }
        }
        of.series.push(series);
        if !of.first {
            self.sampled.insert(experiment);
        }
        Ok(())
    }

    fn observe(&mut self, launch: u32, experiment: &str, evidence: Evidence) -> Result<(), String> {
        let of = self.running(launch, experiment)?;
        if of.evidence.is_some() {
            return Err(format!("a second evidence of launch {launch}"));
        }
        of.evidence = Some(sound(evidence)?);
        Ok(())
    }

    /// The whole log; `damage` says what was wrong with the file.
    pub fn finish(self, damage: Option<String>) -> Result<Log, Problem> {
        let machine = self.machine.ok_or_else(|| {
            Problem::new("the log ends before the description of the machine, so nothing was measured")
                .hint("start the run again")
        })?;
        let log = self.log;
        Ok(Log {
            header: self.header,
            machine,
            quiet: log.quiet,
            peer: log.peer,
            remote: log.remote,
            history: log.history,
            clock: log.clock,
            steps: log.steps.unwrap_or_default(),
            rounds_planned: log.rounds_planned,
            rounds: log.rounds,
            disturbed_rounds: log.disturbed_rounds,
            others_cpus: log.others_cpus,
            expectations: log.expectations.unwrap_or_default(),
            own_predictions: log.own_predictions,
            predictions: log.predictions,
            launches: log.launches,
            resumed: log.resumed,
            finish: log.finish,
            seconds: log.finished_seconds + log.sitting_seconds,
            damage,
        })
    }
}

impl LogParts {
    fn resume(&mut self) {
        self.resumed += 1;
        self.finished_seconds += self.sitting_seconds;
        self.sitting_seconds = 0.0;
        self.finish = None;
    }
}

/// Keeps what a log says once.
fn once<T>(place: &mut Option<T>, value: T, what: &str) -> Result<(), String> {
    if place.is_some() {
        return Err(format!("a second {what}, and a log has one run on one machine"));
    }
    *place = Some(value);
    Ok(())
}

/// A clock runs at one of the rates that the machine states for its counter, or about. That of the kernel counts nanoseconds.
fn agrees(clock: &Clock, machine: &Machine) -> Result<(), String> {
    // The delay loop of a kernel says little about a counter where another kernel than Linux says how long it is.
    let is_loop = |claim: &&Fact<f64>| claim.source.to_ascii_lowercase().contains("bogomips");
    let claims = machine.tsc_hertz_claims().all();
    let exact: Vec<f64> = claims.iter().filter(|claim| !is_loop(claim)).map(|claim| claim.value).collect();
    let (stated, differs) = match clock.source.as_str() {
        "monotonic_raw" => (vec![1e9], CLOCK_DIFFERS),
        source if exact.is_empty() => {
            let nominal = machine.nominal_hertz().filter(|_| source == "tsc");
            (claims.iter().chain(nominal).map(|claim| claim.value).collect(), ROUGHLY)
        }
        _ => (exact, CLOCK_DIFFERS),
    };
    let near = |stated: &f64| (1.0 / differs..=differs).contains(&(clock.hertz / stated));
    if stated.is_empty() || stated.iter().any(near) {
        return Ok(());
    }
    Err(format!("a clock of {} Hz, although the machine states {} Hz for its counter", clock.hertz, stated[0]))
}

fn not_negative(what: &str, value: f64) -> Result<f64, String> {
    if value >= 0.0 && value.is_finite() { Ok(value) } else { Err(format!("{what} of {value}")) }
}

/// Evidence as a launch can have it. Some hypervisors take stolen time back, so that alone may fall by a little: it is none
/// then.
fn sound(mut evidence: Evidence) -> Result<Evidence, String> {
    /// Nanoseconds.
    const TAKEN_BACK: f64 = 1e9;
    let counts = [
        ("voluntary_switches", evidence.voluntary_switches),
        ("involuntary_switches", evidence.involuntary_switches),
        ("minor_faults", evidence.minor_faults),
        ("major_faults", evidence.major_faults),
    ];
    if let Some((what, count)) = counts.into_iter().find(|(_, count)| *count < 0) {
        return Err(format!("evidence {what} of {count}"));
    }
    if evidence.steal.is_some_and(|steal| (-TAKEN_BACK..0.0).contains(&steal)) {
        evidence.steal = Some(0.0);
    }
    let times = [
        ("wall", Some(evidence.wall)),
        ("cpu_time", Some(evidence.cpu_time)),
        ("run_delay", evidence.run_delay),
        ("steal", evidence.steal),
        ("ticks_per_cycle_before", evidence.ticks_per_cycle_before),
        ("ticks_per_cycle_after", evidence.ticks_per_cycle_after),
        ("chain_ratio", evidence.chain_ratio),
        ("clock_deviation_bound_ppm", evidence.clock_deviation_bound_ppm),
        ("timer_bias", Some(evidence.timer_bias)),
        ("timer_resolution", Some(evidence.timer_resolution)),
        ("own_share", Some(evidence.own_share)),
    ];
    for (what, value) in times {
        not_negative(&format!("evidence {what}"), value.unwrap_or(0.0))?;
    }
    Ok(evidence)
}
