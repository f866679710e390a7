//! The log: an append-only JSON Lines record of a run. It is the truth; everything else is computed from it.
//!
//! One record per line, each flushed before the next is made, so that a run that dies keeps all but its last launch. The
//! first line names the format version. A reader refuses a version that it does not know.

mod builder;
mod text;
mod writer;

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::between::History;
use super::evidence::Evidence;
use super::expectation::Expectation;
use super::own_prediction::OwnPredictions;
use super::peer::Peer;
use super::prediction::Prediction;
use super::problem::Problem;
use super::remote::Remote;
use super::series::Series;
use crate::machine::engine::Engine;
use crate::machine::{Identity, Machine, quiet::Check};
use builder::LogBuilder;
use text::Text;

pub use text::{compressed, is_compressed};
pub use writer::{LogWriter, Refused, taken};

/// Version of the format that this build writes.
pub const FORMAT: &str = "sysdyno-log/1";

/// First line of a log: what was asked for, by which version of the tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// CPUs that launches measure on instead, while a neighbour computes on the core of `cpu`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub equal_cpus: Vec<u32>,
    /// How the tool was built: compiler, profile, target features.
    pub build: String,
    /// Which machine this is among others of its model; absent in older logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// First digits of the SHA-256 of the tool's binary; absent in older logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary: Option<String>,
    /// The engine that started the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// Labels of the node that the user gave, such as its rack.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// True where the network experiments leave out the loopback.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remote_only: bool,
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
    pub skipped: Option<Problem>,
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
    /// What earlier runs of this machine say of the scatter from run to run, if they were looked at.
    History(History),
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
    /// What costs are on other machines, written before the first launch.
    Expectations {
        /// One for each cost and ground.
        expectations: Vec<Expectation>,
    },
    /// What a person predicts, written before the first launch.
    OwnPredictions(OwnPredictions),
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
        /// Whether it measures only what other figures of the experiment are predicted from.
        #[serde(default, skip_serializing_if = "is_false")]
        first: bool,
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
        failed: Option<Problem>,
        /// True when it was killed because a signal asked the run to end.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        interrupted: bool,
    },
    /// A round is over.
    RoundEnd {
        /// Round.
        round: u32,
        /// Interference probes that deviated from their median over the rounds so far.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        disturbed: Vec<String>,
        /// CPUs that other processes of this machine used during the round, if the kernel says so; at least 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        others_cpus: Option<f64>,
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

/// What is left out of a record because it is seldom true.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// One launch as the log has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// Number in the run.
    pub number: u32,
    /// Round.
    pub round: u32,
    /// Experiment.
    pub experiment: String,
    /// Whether it measured only what other figures of the experiment are predicted from.
    pub first: bool,
    /// Raw samples.
    pub series: Vec<Series>,
    /// Counters, when the launch lived to report them.
    pub evidence: Option<Evidence>,
    /// Seconds from start to end; none when the run died first.
    pub seconds: Option<f64>,
    /// Why it failed.
    pub failed: Option<Problem>,
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
    /// Earlier runs of this machine, if they were looked at.
    pub history: Option<History>,
    /// The clock; none when the run died before it was calibrated.
    pub clock: Option<Clock>,
    /// The plan.
    pub steps: Vec<Step>,
    /// Rounds planned.
    pub rounds_planned: u32,
    /// Rounds that ended, whole.
    pub rounds: u32,
    /// Rounds in which an interference probe deviated.
    pub disturbed_rounds: Vec<u32>,
    /// CPUs that other processes used, round by round where it is known.
    pub others_cpus: Vec<f64>,
    /// What costs are on other machines.
    pub expectations: Vec<Expectation>,
    /// What a person predicts, if the run was given that.
    pub own_predictions: Option<OwnPredictions>,
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

/// SHA-256 of the text of a log, in hexadecimal: names the exact record that a report was computed from, compressed or not.
pub fn checksum(path: &Path) -> Result<String, Problem> {
    let mut sum = Sha256::new();
    Text::open(path)?.each_piece(|piece| sum.update(piece))?;
    Ok(sum.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}")))
}

/// Reads a log, plain or compressed. An unfinished last line is damage, not an error: everything before it is kept.
pub fn read(path: &Path) -> Result<Log, Problem> {
    let (builder, damage) = parts_of(path)?;
    builder.finish(damage)
}

/// The records of a log in their order, and what was wrong with its last line.
fn parts_of(path: &Path) -> Result<(LogBuilder, Option<String>), Problem> {
    let mut text = Text::open(path)?;
    let foreign = |why: String| {
        Problem::new(format!("{} is not a sysdyno log: {why}", path.display())).hint(
            "a log is the log.jsonl.gz or log.jsonl of a run directory, and its first line has \"record\":\"run\"",
        )
    };
    let first = text.line()?.ok_or_else(|| foreign("it is empty".to_owned()))?.bytes;
    let header = match serde_json::from_slice::<Record>(&first) {
        Ok(Record::Run(header)) => header,
        Ok(_) => return Err(foreign("its first line is not the start of a run".to_owned())),
        Err(error) => return Err(foreign(format!("first line: {error}"))),
    };
    if header.log != FORMAT {
        return Err(Problem::new(format!(
            "{} has format {}, and this build reads {FORMAT}",
            path.display(),
            header.log
        ))
        .hint("use the version of sysdyno that wrote it, or a newer version"));
    }
    let mut builder = LogBuilder::new(header);
    let mut unread: Option<(u64, String)> = None;
    let mut number = 1_u64;
    while let Some(line) = text.line()? {
        number += 1;
        if let Some((number, error)) = unread {
            return Err(Problem::new(format!("the log {} is damaged: line {number}: {error}", path.display()))
                .hint("only the last line of a log may be incomplete. Restore the file from a copy"));
        }
        // What goes on with the run cuts such a line off, whatever it says.
        if !line.whole {
            unread = Some((number, "its line break is missing".to_owned()));
            break;
        }
        if line.bytes.is_empty() {
            continue;
        }
        match serde_json::from_slice::<Record>(&line.bytes) {
            Ok(record) => builder.take(record).map_err(|why| {
                Problem::new(format!("the log {} contradicts itself: line {number}: {why}", path.display()))
                    .hint("a run does not write such a log. The file was changed or combined. Restore it from a copy")
            })?,
            // Only the last line may be broken: the run died while it was written.
            Err(error) => unread = Some((number, error.to_string())),
        }
    }
    let damage =
        unread.map(|(number, _)| format!("line {number} is incomplete, because the run ended while it was written"));
    Ok((builder, damage))
}

/// A log that is being written, with everything in it so far.
pub struct GrowingLog {
    writer: LogWriter,
    builder: LogBuilder,
}

impl GrowingLog {
    /// A log that a writer appends to.
    pub fn open(writer: LogWriter, path: &Path) -> Result<Self, Problem> {
        Ok(GrowingLog { writer, builder: parts_of(path)?.0 })
    }

    /// Writes one record as one line.
    pub fn write(&mut self, record: Record) -> Result<(), Problem> {
        self.writer.write(&record)?;
        self.builder.take(record).map_err(|why| Problem::new(format!("the log contradicts itself: {why}")))
    }

    /// What it has so far.
    pub fn log(&self) -> Result<Log, Problem> {
        self.builder.clone().finish(None)
    }
}
