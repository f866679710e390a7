//! Conducting a run: rounds of launches, each a child process; predictions written first; everything into the log.
//!
//! ```text
//! header · machine · quiet · earlier runs · plan · clock
//! round 1, primitives before the rest:   predict → log → launch → log
//! rounds 2 … n, in random order:        launch → log          interference probes in every round
//! finish
//! ```
//!
//! The conducting process never measures. It keeps off the measured CPU, sleeps while a launch runs, and holds no state
//! that the log does not hold: predictions and the stopping rule use the log like any report does. That is why a run
//! that was interrupted, or killed, goes on with `--resume` as if nothing had happened.

pub mod before;
mod beside;
mod budget;
pub mod directory;
pub mod figures;
pub mod fleet_place;
mod held_memory;
pub mod history;
mod host;
pub mod interrupt;
pub mod launch;
pub mod live;
pub mod mesh;
pub mod other_machines;
pub mod prepare;
pub mod progress;
mod rounds;
pub mod scratch;
pub mod serve;

use std::time::Duration;

use crate::assemble::{self, OUT_OF_TIME};
use crate::catalogue::built_in::built_in;
use crate::catalogue::expectations::{Basis, expectations};
use crate::catalogue::kind::Kind;
use crate::catalogue::published::published;
use crate::experiments::file::control_group;
use crate::experiments::models::{self, Step};
use crate::experiments::{self, Experiment, PredictionInput, highlights};
use crate::machine::Machine;
use crate::machine::quiet::Check;
use crate::plan::{self, Plan};
use crate::results::between::History;
use crate::results::compact::facts;
use crate::results::document::Document;
use crate::results::log::{Clock, GrowingLog, Launch, Log, LogWriter, Record};
use crate::results::own_prediction::OwnPredictions;
use crate::results::prediction::Prediction;
use crate::results::problem::Problem;
use crate::results::series::Series;
use crate::rig::request::{INTERFERENCE, Request};
use crate::setup::Setup;
use crate::sys::affinity;
use crate::sys::clock::Source;

use beside::Beside;
use budget::{Means, Next};
use directory::RunDirectory;
use held_memory::HeldMemory;
pub use host::Host;
use host::ThisMachine;
use interrupt::Interrupt;
use launch::Ended;
use progress::Progress;
use rounds::{FAILURES_IN_A_ROW, Rounds};
use scratch::Scratch;

/// Share of a run's time in which primitives may be measured before everything else.
const FIRST_SHARE: f64 = 0.25;
/// Times the limit of a run at which its first round ends, whatever was not launched yet: a launch of each experiment is worth some more
/// time, but where other work makes everything three times as slow, the limit must mean something.
const LONGEST_FIRST_ROUND: f64 = 1.5;
/// Times the usual launches that primitives have at most, while a neighbour disturbs them.
const MOST_TIMES: u32 = 3;
/// Share of the time limit of a launch after which it begins no more batches.
const SAMPLING_SHARE: f64 = 0.4;
/// Span over which the run's clock is calibrated: 200 ms against brackets of some 50 ns leave less than 1 ppm.
const CALIBRATION: Duration = Duration::from_millis(200);

/// Where a run is written down.
pub struct Recording {
    /// Its directory.
    pub directory: RunDirectory,
    /// Its log, which has its first line.
    pub writer: LogWriter,
    /// For a run that is resumed: the command that does so, and the clock that it was begun with.
    pub resumed: Option<(Vec<String>, Option<Clock>)>,
    /// For a run that begins: what earlier runs of the machine say, if they were looked at.
    pub history: Option<History>,
    /// For a run that begins: what a person predicts of it.
    pub own_predictions: Option<OwnPredictions>,
}

/// How a run ended.
#[derive(Debug)]
pub struct RunOutcome {
    /// Everything that it found.
    pub document: Document,
    /// Whether a signal ended it.
    pub interrupted: bool,
}

/// Runs a plan from the beginning, or goes on with an interrupted run: its clock, plan and predictions hold.
pub fn run(
    setup: &Setup,
    plan: &Plan,
    quiet: &[Check],
    source: Source,
    recording: Recording,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<RunOutcome, Problem> {
    let Recording { directory, mut writer, resumed, history, own_predictions } = recording;
    let quiet = Record::Quiet { checks: quiet.to_vec() };
    let clock = if let Some((command, clock)) = resumed {
        let cut_bytes = writer.cut_unfinished()?;
        writer.write(&Record::Resumed { at: directory::now(), command, cut_bytes })?;
        writer.write(&quiet)?;
        clock
    } else {
        describe(setup, &mut writer)?;
        writer.write(&quiet)?;
        if let Some(history) = history {
            writer.write(&Record::History(history))?;
        }
        writer.write(&plan.record())?;
        expect(setup, own_predictions, &mut writer)?;
        None
    };
    let clock = if let Some(clock) = clock {
        clock
    } else {
        let clock = crate::rig::clock::calibrate(source, CALIBRATION)?;
        writer.write(&Record::Clock(clock.clone()))?;
        clock
    };
    // Keep off the measured CPU where there is another. Launches pin themselves, whatever mask they inherit.
    let others: Vec<u32> = setup.allowed.iter().copied().filter(|&cpu| cpu != setup.cpu).collect();
    if !others.is_empty() {
        // A refusal only means that the conductor, which sleeps nearly all the time, may wake up there.
        let _ = affinity::restrict(&others);
    }
    tidy_up(&setup.machine, progress);
    let makes_files = plan.running.iter().any(|experiment| experiment.makes_files());
    let none = || Problem::new("this run has no directory for files").hint("choose a place with --scratch DIR");
    let scratch = if makes_files { Scratch::make(setup) } else { Err(none()) };
    let memory = HeldMemory::of(setup);
    let host = &mut ThisMachine::now(interrupt);
    let log = GrowingLog::open(writer, &directory.log())?;
    Conductor { setup, plan, directory, progress, interrupt, log, clock, host, scratch, memory }.conduct()
}

/// Writes what the setup says of the machines.
fn describe(setup: &Setup, writer: &mut LogWriter) -> Result<(), Problem> {
    writer.write(&Record::Machine { machine: Box::new(setup.machine.clone()) })?;
    if let Some(peer) = &setup.peer {
        writer.write(&Record::Peer(Box::new(peer.clone())))?;
    }
    if let Some(remote) = &setup.remote {
        writer.write(&Record::Remote(Box::new(remote.clone())))?;
    }
    Ok(())
}

/// Writes what costs are on other machines, and what a person predicts.
fn expect(setup: &Setup, own: Option<OwnPredictions>, writer: &mut LogWriter) -> Result<(), Problem> {
    let basis = Basis { machines: built_in(), published: published() };
    let expectations = expectations(&Kind::of(&facts(&setup.machine)), basis);
    if !expectations.is_empty() {
        writer.write(&Record::Expectations { expectations })?;
    }
    own.map_or(Ok(()), |own| writer.write(&Record::OwnPredictions(own)))
}

/// Runs a plan on a host without a machine: nothing here is measured, and no file but the log is made.
///
/// # Errors
///
/// As for [`run`].
pub fn run_on(
    host: &mut dyn Host,
    setup: &Setup,
    plan: &Plan,
    clock: Clock,
    recording: Recording,
    interrupt: &Interrupt,
) -> Result<RunOutcome, Problem> {
    let Recording { directory, mut writer, own_predictions, .. } = recording;
    describe(setup, &mut writer)?;
    writer.write(&plan.record())?;
    expect(setup, own_predictions, &mut writer)?;
    writer.write(&Record::Clock(clock.clone()))?;
    let (scratch, memory) = (Err(Problem::new("this run has no files")), HeldMemory::default());
    let progress = &Progress::new(false, None, false);
    let log = GrowingLog::open(writer, &directory.log())?;
    Conductor { setup, plan, directory, progress, interrupt, log, clock, host, scratch, memory }.conduct()
}

struct Conductor<'a> {
    setup: &'a Setup,
    plan: &'a Plan,
    directory: RunDirectory,
    progress: &'a Progress,
    interrupt: &'a Interrupt,
    log: GrowingLog,
    clock: Clock,
    host: &'a mut dyn Host,
    /// The directory for files, where an experiment of the plan needs one.
    scratch: Result<Scratch, Problem>,
    /// Memory between the launches that take much of it.
    memory: HeldMemory,
}

/// Why a run adds no more rounds.
enum Stop {
    Interrupted(&'static str),
    Time,
    /// Before each experiment had a launch.
    TimeTooShort,
    Reached,
    EnoughGood,
    Enough,
    GivenUp,
    NothingRuns,
}

impl Conductor<'_> {
    fn conduct(mut self) -> Result<RunOutcome, Problem> {
        let stop = match self.rounds() {
            Ok(stop) => stop,
            Err(problem) => {
                // What is in the log stays; the reason may not fit on the disk any more.
                let _ = self.finish(false, &problem.what);
                return Err(problem);
            }
        };
        self.progress.done();
        let (complete, reason) = match &stop {
            Stop::Interrupted(signal) => (false, format!("interrupted by {signal}")),
            Stop::Time => (true, format!("{OUT_OF_TIME} before every experiment met its targets")),
            Stop::TimeTooShort => (false, format!("{OUT_OF_TIME} before each experiment had a launch")),
            Stop::Reached => (true, "every experiment met its targets".to_owned()),
            Stop::EnoughGood => {
                (true, "enough headline results are good, and each experiment has its launches".to_owned())
            }
            Stop::Enough => (true, "every experiment met its targets or had all its launches".to_owned()),
            Stop::GivenUp => (false, "every experiment was stopped after failed launches".to_owned()),
            Stop::NothingRuns => (true, "no experiment can run here".to_owned()),
        };
        self.finish(complete, &reason)?;
        let document = assemble::document_of(&self.directory.log())?;
        self.directory.write_result(&document)?;
        Ok(RunOutcome { document, interrupted: matches!(stop, Stop::Interrupted(_)) })
    }

    fn finish(&mut self, complete: bool, reason: &str) -> Result<(), Problem> {
        let seconds = self.elapsed();
        self.log.write(Record::Finish { at: directory::now(), complete, reason: reason.to_owned(), seconds })
    }

    fn elapsed(&self) -> f64 {
        self.host.elapsed()
    }

    fn rounds(&mut self) -> Result<Stop, Problem> {
        if self.plan.running.is_empty() {
            return Ok(Stop::NothingRuns);
        }
        let log = self.log.log()?;
        let mut round = log.launches.iter().map(|launch| launch.round).max().unwrap_or(0);
        let mut state = Rounds { since: Beside::start(), end: self.plan.limit_seconds, ..Rounds::from(&log) };
        if let Some(stop) = self.first_round(&log, &mut state)? {
            if matches!(stop, Stop::TimeTooShort) && state.ended == 0 {
                // What was measured is judged by the probes of its round.
                self.end_round(round.max(1), &mut state)?;
            }
            return Ok(stop);
        }
        if state.ended == 0 {
            round = round.max(1);
            self.end_round(round, &mut state)?;
        }
        let mut random = fastrand::Rng::with_seed(self.setup.seed ^ u64::from(round));
        loop {
            if let Some(signal) = self.interrupt.caught() {
                return Ok(Stop::Interrupted(signal));
            }
            let mut order = match self.next(&mut state)? {
                Next::Round(order, seconds) => {
                    state.end = self.elapsed() + seconds;
                    order
                }
                Next::Failed => return Ok(Stop::GivenUp),
                Next::Reached if self.setup.profile.ends_early() => return Ok(Stop::EnoughGood),
                Next::Reached => return Ok(Stop::Reached),
                Next::NoLaunches => return Ok(Stop::Enough),
                Next::NoTime => return Ok(Stop::Time),
            };
            round += 1;
            random.shuffle(&mut order);
            self.put_large_last(&mut order, &state);
            for (place, experiment) in order.iter().enumerate() {
                if let Some(stop) = self.one(experiment, order.get(place + 1).copied(), round, &mut state)? {
                    return Ok(stop);
                }
            }
            self.end_round(round, &mut state)?;
        }
    }

    /// Looks at the figures: the launches of the next round, or why there is none.
    fn next(&mut self, state: &mut Rounds) -> Result<Next, Problem> {
        let log = self.log.log()?;
        let asks = self.progress.shows_insights() && !state.insight_shown;
        let document = asks.then(|| assemble::document(&log));
        if let Some(found) = document.as_ref().and_then(highlights::certain) {
            self.progress.show_insight(&found);
            state.insight_shown = true;
        }
        let sections = document.map_or_else(|| assemble::figures(&log), |document| document.experiments);
        let candidates = budget::candidates(self.plan, self.setup, state, &budget::asked(&sections));
        let Plan { limit_seconds, rounds, most_launches, .. } = *self.plan;
        let left = limit_seconds - self.elapsed() - plan::PROBE_SECONDS;
        let means = Means { left, round: limit_seconds / f64::from(rounds), most: most_launches };
        Ok(budget::next(&candidates, means))
    }

    /// Lets the launches that take much memory follow each other: a host takes back what its guest has freed, and takes seconds to
    /// give it again.
    fn put_large_last(&self, order: &mut [&'static Experiment], state: &Rounds) {
        order.sort_by_key(|experiment| self.large(experiment, state).is_some());
    }

    /// Bytes of the next launch of an experiment, if they are many.
    fn large(&self, experiment: &Experiment, state: &Rounds) -> Option<u64> {
        held_memory::large(experiment, self.setup, state.launches.get(experiment.id).copied().unwrap_or(0))
    }

    /// Each figure that was not yet predicted is, before it is measured for the first time: what others are predicted from first.
    fn first_round(&mut self, log: &Log, state: &mut Rounds) -> Result<Option<Stop>, Problem> {
        let mut disturbed: Vec<(Step, u32)> = Vec::new();
        for step in models::first_round(&self.plan.running, self.setup) {
            let id = step.experiment.id;
            let before = || log.launches.iter().filter(|launch| launch.experiment == id && launch.first == step.first);
            // What was sampled already cannot be predicted any more: a run that is resumed adds nothing then.
            let sampled = |launch: &&Launch| launch.experiment == id && !launch.series.is_empty();
            let whole = log.launches.iter().filter(sampled).any(|launch| !launch.first);
            if step.first && whole {
                continue;
            }
            let late = whole || step.first && log.launches.iter().any(|launch| sampled(&launch));
            if !late {
                for (earlier, launched) in &mut disturbed {
                    // What disturbed a moment ago may have gone.
                    let bounds = [*launched, (*launched + earlier.launches).min(2 * MOST_TIMES * earlier.launches)];
                    if let Some(stop) = self.repeat(earlier, launched, bounds, state)? {
                        return Ok(Some(stop));
                    }
                }
                self.predict(&step)?;
            }
            if self.elapsed() >= LONGEST_FIRST_ROUND * self.plan.limit_seconds {
                return Ok(Some(Stop::TimeTooShort));
            }
            let mut launched = before().filter(|launch| launch.succeeded()).count() as u32;
            if launched == 0 && !step.first {
                if let Some(stop) = self.one(step.experiment, None, 1, state)? {
                    return Ok(Some(stop));
                }
                launched = 1;
            }
            // What others are predicted from is measured a few times first, in place of later rounds.
            let has_primitives = step.launches > 1;
            let bounds = [step.launches, step.launches * if has_primitives { MOST_TIMES } else { 1 }];
            if let Some(stop) = self.repeat(&step, &mut launched, bounds, state)? {
                return Ok(Some(stop));
            }
            if has_primitives && self.is_disturbed(&step)? {
                disturbed.push((step, launched));
            }
        }
        Ok(None)
    }

    /// Launches a step until it had the first number of launches, and up to the second while a neighbour disturbs what others are
    /// predicted from.
    fn repeat(
        &mut self,
        step: &Step,
        launched: &mut u32,
        [most, most_disturbed]: [u32; 2],
        state: &mut Rounds,
    ) -> Result<Option<Stop>, Problem> {
        while self.elapsed() < FIRST_SHARE * self.plan.limit_seconds {
            if *launched >= most && (*launched >= most_disturbed || !self.is_disturbed(step)?) {
                break;
            }
            let stop = if step.first {
                // Where it fails, the launch of everything says why.
                let (ended, _) = self.launch(step.experiment.id, true, 1, state, step.experiment.time_out)?;
                *launched = if matches!(ended, Ended::Failed(_)) { most_disturbed } else { *launched };
                self.interrupt.caught().map(Stop::Interrupted)
            } else {
                self.one(step.experiment, None, 1, state)?
            };
            if stop.is_some() {
                return Ok(stop);
            }
            *launched += 1;
        }
        Ok(None)
    }

    fn is_disturbed(&self, step: &Step) -> Result<bool, Problem> {
        Ok(models::is_disturbed(step.experiment, &assemble::known_metrics(&self.log.log()?)))
    }

    /// Writes the predictions of a step that a log does not have yet.
    fn predict(&mut self, step: &Step) -> Result<(), Problem> {
        let id = step.experiment.id;
        if !self.plan.running.iter().any(|running| running.id == id) {
            return Ok(());
        }
        let log = self.log.log()?;
        let known = assemble::known_metrics(&log);
        let by = PredictionInput { setup: self.setup, known: &known };
        let there: Vec<&Prediction> =
            log.predictions.iter().filter(|(of, _)| of == id).map(|(_, found)| found).collect();
        let is_new = |new: &Prediction| !there.iter().any(|found| found.is_for(&new.metric, &new.labels));
        let asked = step.experiment.predictions(&by).into_iter().filter(|new| step.asks(new) && is_new(new));
        for prediction in asked {
            self.log.write(Record::Prediction { experiment: id.to_owned(), prediction })?;
        }
        Ok(())
    }

    /// One launch of one experiment, given the one after it in the round. A stop when a signal came.
    fn one(
        &mut self,
        experiment: &'static Experiment,
        after: Option<&'static Experiment>,
        round: u32,
        state: &mut Rounds,
    ) -> Result<Option<Stop>, Problem> {
        let elapsed = self.elapsed();
        self.progress.show(experiment.id, elapsed, state.end - elapsed);
        // A launch that fills the cache may take the time of the run.
        let filling = self.fill_seconds(round).filter(|_| experiment.makes_files()).unwrap_or(0.0);
        let large = self.large(experiment, state);
        if let Some(bytes) = large {
            self.memory.release(bytes);
        }
        let (ended, _) = self.launch(experiment.id, false, round, state, experiment.time_out + filling)?;
        if let Some(bytes) = large {
            let next = after.and_then(|next| self.large(next, state));
            self.memory.hold(bytes, next.unwrap_or(0));
        }
        state.note(experiment.id, &ended, self.elapsed() - elapsed);
        if let Ended::Failed(problem) = &ended {
            self.progress.say(&format!("{}: launch {} failed: {}", experiment.id, state.number, problem.what));
            if state.given_up(experiment.id) {
                self.progress.say(&format!(
                    "{}: {FAILURES_IN_A_ROW} launches failed in a row, so it is not launched again",
                    experiment.id
                ));
            }
        }
        Ok(self.interrupt.caught().map(Stop::Interrupted))
    }

    /// Seconds that launches of a round may take to fill the file cache: in the first only, what is left of the run's time.
    fn fill_seconds(&self, round: u32) -> Option<f64> {
        let asked = self.setup.full_cache.is_some() && round == 1;
        asked.then(|| (self.plan.limit_seconds - self.elapsed()).max(0.0))
    }

    /// Seconds after which a launch begins no more batches. A launch that finds everything slower than planned must not take the run far
    /// beyond its time limit.
    fn sampling_seconds(&self, experiment: &str, time_out: f64) -> f64 {
        let planned = experiments::find(experiment).map_or(0.0, |found| plan::launch_seconds(found, self.setup));
        (SAMPLING_SHARE * time_out).min((self.plan.limit_seconds - self.elapsed()).max(planned))
    }

    /// Starts a launch and writes down everything that it says.
    fn launch(
        &mut self,
        experiment: &str,
        first: bool,
        round: u32,
        state: &mut Rounds,
        time_out: f64,
    ) -> Result<(Ended, Vec<Series>), Problem> {
        state.number += 1;
        let number = state.number;
        let stays = experiments::find(experiment).is_none_or(Experiment::stays);
        let equal_cpus = if stays { Vec::new() } else { self.setup.equal_cpus.clone() };
        let request = Request {
            setup: Setup { equal_cpus, ..self.setup.clone() },
            clock: self.clock.clone(),
            space: self.scratch.as_ref().map(|made| made.space().clone()).map_err(Clone::clone),
            experiment: experiment.to_owned(),
            launch: number,
            first,
            turn: if first { 0 } else { state.turn(experiment) },
            fill_seconds: self.fill_seconds(round).filter(|_| !first),
            batches: self.setup.profile.batches(),
            sampling_seconds: self.sampling_seconds(experiment, time_out),
            // Each launch makes its own choices, but the same ones whenever the run is repeated with its seed.
            seed: fastrand::Rng::with_seed(self.setup.seed.wrapping_add(u64::from(number))).u64(..),
            conductor: std::process::id(),
        };
        let at = self.elapsed();
        self.log.write(Record::Launch { launch: number, round, experiment: experiment.to_owned(), at, first })?;
        let (ended, records) = self.host.launch(&request, Duration::from_secs_f64(time_out));
        let mut series = Vec::new();
        for record in records {
            if let Record::Series { series: one, .. } = &record {
                series.push(one.clone());
            }
            self.log.write(record)?;
        }
        let failed = match &ended {
            Ended::Well | Ended::Interrupted => None,
            Ended::Failed(problem) => Some(problem.clone()),
        };
        self.log.write(Record::LaunchEnd {
            launch: number,
            experiment: experiment.to_owned(),
            seconds: self.elapsed() - at,
            failed,
            interrupted: ended == Ended::Interrupted,
        })?;
        Ok((ended, series))
    }

    /// Sends out the interference probes and closes the round.
    fn end_round(&mut self, round: u32, state: &mut Rounds) -> Result<(), Problem> {
        let (_, series) = self.launch(INTERFERENCE, false, round, state, 10.0)?;
        let disturbed = state.judge_probes(&series);
        state.ended += 1;
        let now = Beside::start();
        let others_cpus = state.since.as_ref().zip(now.as_ref()).and_then(|(since, now)| since.until(now));
        state.since = now;
        let others_cpus = others_cpus.map(|cpus| (cpus * 1e3).round() / 1e3);
        self.log.write(Record::RoundEnd { round, disturbed, others_cpus })
    }
}

/// Removes what runs that were killed left behind, and says so.
fn tidy_up(machine: &Machine, progress: &Progress) {
    let swept = scratch::sweep(machine);
    for path in &swept.removed {
        progress.say(&format!("removed {}, left by a killed run", path.display()));
    }
    for (path, reason) in &swept.kept {
        progress.say(&format!("cannot remove {}, left by a killed run: {reason}", path.display()));
    }
    for group in control_group::sweep() {
        progress.say(&format!("removed the control group {}, left by a killed run", group.display()));
    }
}
