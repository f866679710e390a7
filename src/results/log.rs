//! The log: an append-only JSON Lines record of a run. It is the truth; everything else is computed from it.
//!
//! One record per line, each flushed before the next is made, so that a run that dies keeps all but its last launch. The
//! first line names the format version; readers accept every version that was ever written.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::evidence::Evidence;
use super::peer::Peer;
use super::prediction::Prediction;
use super::remote::Remote;
use super::series::Series;
use super::trouble::Trouble;
use crate::machine::{Machine, quiet::Check};

/// Version of the format that this build writes.
pub const FORMAT: &str = "sysdyno-log/1";

/// First line of a log: what was asked for, by which version of the tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// Format version, `sysdyno-log/1`.
    pub log: String,
    /// Version of the tool.
    pub version: String,
    /// Identifier of the run: host and start time.
    pub id: String,
    /// Start, RFC 3339 with the offset Z.
    pub started: String,
    /// The command as typed.
    pub command: Vec<String>,
    /// Seed of every random choice of the run.
    pub seed: u64,
    /// Name of the profile: quick, default or rigorous.
    pub profile: String,
    /// CPU on which launches measure.
    pub cpu: u32,
    /// How the tool was built: compiler, profile, target features.
    pub build: String,
}

/// The run's clock: found once by the parent, handed down to every launch, verified by each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Clock {
    /// Which counter: `tsc`, `cntvct` or `monotonic_raw`.
    pub source: String,
    /// Ticks per second.
    pub hertz: f64,
    /// Error bound of `hertz` against CLOCK_MONOTONIC_RAW, in parts per million.
    pub error_ppm: f64,
    /// Rate of CLOCK_MONOTONIC against CLOCK_MONOTONIC_RAW in the same span, in parts per million: the slew that time
    /// synchronisation applies.
    pub slew_ppm: f64,
}

/// One experiment of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Experiment identifier.
    pub experiment: String,
    /// Version of its method; a change starts a new series of figures.
    pub method_version: u32,
    /// Launches planned; 0 when it is skipped.
    pub launches: u32,
    /// Why it does not run here, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<Trouble>,
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// First line.
    Run(Header),
    /// Facts about the machine.
    Machine {
        /// The description.
        machine: Box<Machine>,
    },
    /// What would spoil figures, looked at when the run starts or resumes.
    Quiet {
        /// Every check with its outcome.
        checks: Vec<Check>,
    },
    /// The other machine, when there is one.
    Peer(Box<Peer>),
    /// Files on another machine, if the run reads some.
    Remote(Box<Remote>),
    /// The clock of the run.
    Clock(Clock),
    /// What will run and what will not.
    Plan {
        /// In the order of the report.
        steps: Vec<Step>,
        /// Rounds planned.
        rounds: u32,
        /// Estimated duration in seconds.
        estimated_seconds: f64,
    },
    /// The prediction of one figure, written before its experiment is first launched.
    Prediction {
        /// Experiment that will measure the figure.
        experiment: String,
        /// The prediction.
        #[serde(flatten)]
        prediction: Prediction,
    },
    /// A launch begins.
    Launch {
        /// Number of the launch in this run, from 1.
        launch: u32,
        /// Round, from 1.
        round: u32,
        /// Experiment.
        experiment: String,
        /// Seconds since the run began.
        at: f64,
    },
    /// Raw samples of a launch.
    Series {
        /// Launch.
        launch: u32,
        /// Experiment.
        experiment: String,
        /// The samples.
        #[serde(flatten)]
        series: Series,
    },
    /// Counters and self-checks of a launch.
    Evidence {
        /// Launch.
        launch: u32,
        /// Experiment.
        experiment: String,
        /// What was observed.
        #[serde(flatten)]
        evidence: Evidence,
    },
    /// A launch has ended.
    LaunchEnd {
        /// Launch.
        launch: u32,
        /// Experiment.
        experiment: String,
        /// Seconds it took, process start and end included.
        seconds: f64,
        /// Why it failed, if it did; its series are then evidence, not figures.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failed: Option<Trouble>,
        /// True when it was killed because a signal asked the run to end.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        interrupted: bool,
    },
    /// A round is over.
    RoundEnd {
        /// Round.
        round: u32,
        /// Canaries that deviated from their median over the rounds so far; the round is repeated once for them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        disturbed: Vec<String>,
    },
    /// The run goes on after an interruption.
    Resumed {
        /// When, RFC 3339.
        at: String,
        /// The command as typed.
        command: Vec<String>,
        /// Bytes of an unfinished last line that were cut off before going on.
        cut_bytes: u64,
    },
    /// Last line of a run that ended by itself or was interrupted politely.
    Finish {
        /// When, RFC 3339.
        at: String,
        /// True when everything planned was measured or the stopping rule was satisfied.
        complete: bool,
        /// Which rule ended the run.
        reason: String,
        /// Seconds measured in this sitting.
        seconds: f64,
    },
}

/// Appends records; every line is on its way to the disk before the call returns.
#[derive(Debug)]
pub struct LogWriter {
    file: File,
}

impl LogWriter {
    /// Creates a log that must not exist yet.
    pub fn create(path: &Path) -> Result<Self, Trouble> {
        OpenOptions::new().create_new(true).append(true).open(path).map(|file| LogWriter { file }).map_err(|error| {
            Trouble::new(format!("cannot create the log {}: {error}", path.display()))
                .hint("choose another directory with --output DIR")
        })
    }

    /// Opens a log to go on with it, cutting off an unfinished last line. Returns the number of bytes cut.
    pub fn reopen(path: &Path) -> Result<(Self, u64), Trouble> {
        let unwritable = |error: std::io::Error| {
            Trouble::new(format!("cannot append to the log {}: {error}", path.display()))
                .hint("the run directory must be writable to resume")
        };
        let text = std::fs::read(path).map_err(unwritable)?;
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |position| position + 1);
        let mut file = OpenOptions::new().write(true).open(path).map_err(unwritable)?;
        file.set_len(whole as u64).map_err(unwritable)?;
        file.seek(SeekFrom::End(0)).map_err(unwritable)?;
        Ok((LogWriter { file }, (text.len() - whole) as u64))
    }

    /// Writes one record as one line. After an error nothing of the line remains, so the log stays valid.
    pub fn write(&mut self, record: &Record) -> Result<(), Trouble> {
        let mut line = serde_json::to_vec(record).map_err(|error| Trouble::new(format!("cannot encode: {error}")))?;
        line.push(b'\n');
        let before = self.file.metadata().map(|facts| facts.len());
        self.file.write_all(&line).and_then(|()| self.file.flush()).map_err(|error| {
            if let Ok(length) = before {
                // Best effort: the reader copes with an unfinished last line as well.
                let _ = self.file.set_len(length);
            }
            Trouble::new(format!("cannot write the log: {error}"))
                .hint("what was measured so far is kept; free space, then go on with --resume")
        })
    }
}

/// One launch as the log tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// Number in the run.
    pub number: u32,
    /// Round.
    pub round: u32,
    /// Experiment.
    pub experiment: String,
    /// Raw samples.
    pub series: Vec<Series>,
    /// Counters, when the launch lived to report them.
    pub evidence: Option<Evidence>,
    /// Seconds from start to end; none when the run died first.
    pub seconds: Option<f64>,
    /// Why it failed.
    pub failed: Option<Trouble>,
    /// True when it was killed because the run was to end.
    pub interrupted: bool,
}

impl Launch {
    /// True when the launch ended well: only such launches make figures.
    pub fn succeeded(&self) -> bool {
        self.seconds.is_some() && self.failed.is_none() && !self.interrupted && self.evidence.is_some()
    }
}

/// A whole log, sorted into its parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    /// First line.
    pub header: Header,
    /// Facts about the machine.
    pub machine: Machine,
    /// What would spoil figures, as last looked at.
    pub quiet: Vec<Check>,
    /// The other machine, if there is one.
    pub peer: Option<Box<Peer>>,
    /// Files on another machine, if there are some.
    pub remote: Option<Box<Remote>>,
    /// The clock; none when the run died before it was calibrated.
    pub clock: Option<Clock>,
    /// The plan.
    pub steps: Vec<Step>,
    /// Rounds planned.
    pub rounds_planned: u32,
    /// Rounds that ended, whole.
    pub rounds: u32,
    /// Rounds in which a canary deviated.
    pub disturbed_rounds: Vec<u32>,
    /// Predictions with their experiments, in the order in which they were written.
    pub predictions: Vec<(String, Prediction)>,
    /// Launches in the order in which they ran.
    pub launches: Vec<Launch>,
    /// How often the run was resumed.
    pub resumed: u32,
    /// Last line: when, whether complete, why; none when the run died.
    pub finish: Option<(String, bool, String)>,
    /// Seconds measured: the sum over sittings, or up to the last line of a run that died.
    pub seconds: f64,
    /// What was wrong with the file, if anything was.
    pub damage: Option<String>,
}

/// SHA-256 of a log file, in hexadecimal: names the exact record that a report was computed from.
pub fn checksum(path: &Path) -> Result<String, Trouble> {
    let bytes = std::fs::read(path)
        .map_err(|error| Trouble::new(format!("cannot read the log {}: {error}", path.display())))?;
    Ok(Sha256::digest(&bytes).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}")))
}

/// Reads a log. An unfinished last line is damage, not an error: everything before it is kept.
pub fn read(path: &Path) -> Result<Log, Trouble> {
    let file = File::open(path).map_err(|error| {
        Trouble::new(format!("cannot read the log {}: {error}", path.display()))
            .hint("give the run directory that `sysdyno run` named, or the log.jsonl in it")
    })?;
    let foreign = |why: String| {
        Trouble::new(format!("{} is not a sysdyno log: {why}", path.display()))
            .hint("a log is the log.jsonl of a run directory; its first line has \"record\":\"run\"")
    };
    let mut lines = BufReader::new(file).split(b'\n').enumerate();
    let first = match lines.next() {
        Some((_, Ok(line))) => line,
        Some((_, Err(error))) => return Err(foreign(error.to_string())),
        None => return Err(foreign("it is empty".to_owned())),
    };
    let header = match serde_json::from_slice::<Record>(&first) {
        Ok(Record::Run(header)) => header,
        Ok(_) => return Err(foreign("its first line is not the start of a run".to_owned())),
        Err(error) => return Err(foreign(format!("first line: {error}"))),
    };
    if header.log != FORMAT {
        return Err(Trouble::new(format!("{} has format {}, this build reads {FORMAT}", path.display(), header.log))
            .hint("use the version of sysdyno that wrote it, or a newer one"));
    }
    let mut builder = LogBuilder::new(header);
    let mut unread: Option<(usize, String)> = None;
    for (index, line) in lines {
        if let Some((number, error)) = unread {
            return Err(Trouble::new(format!("the log {} is damaged: line {number}: {error}", path.display()))
                .hint("only the last line of a log may be cut off; take the file from a copy"));
        }
        match line.map_err(|error| error.to_string()).and_then(|line| {
            if line.is_empty() {
                return Ok(None);
            }
            serde_json::from_slice::<Record>(&line).map(Some).map_err(|error| error.to_string())
        }) {
            Ok(Some(record)) => builder.take(record),
            Ok(None) => {}
            // Only the last line may be broken: the run died while it was written.
            Err(error) => unread = Some((index + 1, error)),
        }
    }
    builder.finish(unread.map(|(number, _)| format!("line {number} is unfinished: the run died while it was written")))
}

struct LogBuilder {
    header: Header,
    machine: Option<Machine>,
    log: LogParts,
}

#[derive(Default)]
struct LogParts {
    quiet: Vec<Check>,
    peer: Option<Box<Peer>>,
    remote: Option<Box<Remote>>,
    clock: Option<Clock>,
    steps: Vec<Step>,
    rounds_planned: u32,
    rounds: u32,
    disturbed_rounds: Vec<u32>,
    predictions: Vec<(String, Prediction)>,
    launches: Vec<Launch>,
    resumed: u32,
    finish: Option<(String, bool, String)>,
    finished_seconds: f64,
    sitting_seconds: f64,
}

impl LogBuilder {
    fn new(header: Header) -> Self {
        LogBuilder { header, machine: None, log: LogParts::default() }
    }

    fn take(&mut self, record: Record) {
        let log = &mut self.log;
        match record {
            Record::Run(_) => {}
            Record::Machine { machine } => self.machine = Some(*machine),
            Record::Quiet { checks } => log.quiet = checks,
            Record::Peer(peer) => log.peer = Some(peer),
            Record::Remote(remote) => log.remote = Some(remote),
            Record::Clock(clock) => log.clock = Some(clock),
            Record::Plan { steps, rounds, .. } => {
                log.steps = steps;
                log.rounds_planned = rounds;
            }
            Record::Prediction { experiment, prediction } => log.predictions.push((experiment, prediction)),
            Record::Launch { launch, round, experiment, at } => {
                log.sitting_seconds = at;
                log.launches.push(Launch {
                    number: launch,
                    round,
                    experiment,
                    series: Vec::new(),
                    evidence: None,
                    seconds: None,
                    failed: None,
                    interrupted: false,
                });
            }
            Record::Series { launch, series, .. } => {
                if let Some(of) = log.launch(launch) {
                    of.series.push(series);
                }
            }
            Record::Evidence { launch, evidence, .. } => {
                if let Some(of) = log.launch(launch) {
                    of.evidence = Some(evidence);
                }
            }
            Record::LaunchEnd { launch, seconds, failed, interrupted, .. } => {
                log.sitting_seconds += seconds;
                if let Some(of) = log.launch(launch) {
                    of.seconds = Some(seconds);
                    of.failed = failed;
                    of.interrupted = interrupted;
                }
            }
            Record::RoundEnd { round, disturbed } => {
                log.rounds += 1;
                if !disturbed.is_empty() {
                    log.disturbed_rounds.push(round);
                }
            }
            Record::Resumed { .. } => {
                log.resumed += 1;
                log.finished_seconds += log.sitting_seconds;
                log.sitting_seconds = 0.0;
                log.finish = None;
            }
            Record::Finish { at, complete, reason, seconds } => {
                log.sitting_seconds = seconds;
                log.finish = Some((at, complete, reason));
            }
        }
    }

    fn finish(self, damage: Option<String>) -> Result<Log, Trouble> {
        let machine = self.machine.ok_or_else(|| {
            Trouble::new("the log ends before the machine is described: nothing was measured")
                .hint("start the run again")
        })?;
        let log = self.log;
        Ok(Log {
            header: self.header,
            machine,
            quiet: log.quiet,
            peer: log.peer,
            remote: log.remote,
            clock: log.clock,
            steps: log.steps,
            rounds_planned: log.rounds_planned,
            rounds: log.rounds,
            disturbed_rounds: log.disturbed_rounds,
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
    /// The launch with a number; the latest, because a resumed run may repeat the number of one that never ended.
    fn launch(&mut self, number: u32) -> Option<&mut Launch> {
        self.launches.iter_mut().rev().find(|launch| launch.number == number)
    }
}
