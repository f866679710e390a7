//! The ordered table of experiments: the order of the report, and of the first round.
//!
//! One file is one experiment is one section of the report. Its `//!` comment *is* the methodology text that `explain` and
//! the report print; below stand, always in this order, the row [`Experiment`], `predict`, `measure`, `analyze`, tests.
//! The signatures carry the discipline: `predict` gets the machine and earlier figures but no rig, so it cannot time;
//! `measure` gets a rig but no prediction, so it cannot lean towards one; `analyze` is a pure function of what was logged.

pub mod arenas;
pub mod catalogue;
pub mod constants;
pub mod cpu;
pub mod file;
pub mod memory;
pub mod network;
pub mod os;
pub mod streams;
pub mod touches;

use crate::evaluate::findings::Findings;
use crate::evaluate::gate::Rule;
use crate::evaluate::study::Study;
use crate::machine::Machine;
use crate::results::document::Metric;
use crate::results::peer::Peer;
use crate::results::prediction::Prediction;
use crate::results::quantity::{Labels, Unit};
use crate::results::remote::Remote;
use crate::results::trouble::Trouble;
use crate::rig::Rig;

/// Every experiment, in the order of the report.
pub const TABLE: &[&Experiment] = &[
    &cpu::frequency::EXPERIMENT,
    &cpu::timer::EXPERIMENT,
    &cpu::loop_cost::EXPERIMENT,
    &cpu::procedure_call::EXPERIMENT,
    &os::system_call::EXPERIMENT,
    &os::process_creation::EXPERIMENT,
    &os::thread_creation::EXPERIMENT,
    &os::context_switch::EXPERIMENT,
    &memory::latency::EXPERIMENT,
    &memory::bandwidth::EXPERIMENT,
    &memory::loaded_latency::EXPERIMENT,
    &memory::page_fault::EXPERIMENT,
    &network::round_trip::EXPERIMENT,
    &network::bandwidth::EXPERIMENT,
    &network::connection::EXPERIMENT,
    &file::cache_size::EXPERIMENT,
    &file::read::EXPERIMENT,
    &file::remote_read::EXPERIMENT,
    &file::contention::EXPERIMENT,
];

/// One row of the table.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// Identifier: chapter, dot, name.
    pub id: &'static str,
    /// Title of its section.
    pub title: &'static str,
    /// What it measures, in half a line.
    pub measures: &'static str,
    /// Version of the method. A change that moves figures raises it: they are then a new series.
    pub method_version: u32,
    /// The source file: its leading `//!` comment is the methodology text.
    pub source: &'static str,
    /// What the machine must have.
    pub needs: &'static [Need],
    /// Metrics of earlier experiments that its prediction uses when they are there.
    pub uses: &'static [&'static str],
    /// Rules that its figures must pass, beside those of every experiment.
    pub rules: &'static [Rule],
    /// Metrics that it publishes.
    pub publishes: &'static [Publication],
    /// How often it is launched.
    pub effort: Effort,
    /// Duration of one default launch on a machine of 3 GHz, in seconds: for the plan only.
    pub seconds: f64,
    /// A launch that takes longer than this many seconds has hung.
    pub time_out: f64,
    /// Bytes of memory that a launch of so many batches takes at most on a machine.
    pub memory: fn(&Machine, batches: u32) -> u64,
    /// Says what will be measured.
    pub predict: fn(&Foreknowledge<'_>) -> Vec<Prediction>,
    /// Measures, in a launch of its own.
    pub measure: fn(&mut Rig<'_>) -> Result<(), Trouble>,
    /// Turns what was logged into figures and text.
    pub analyze: fn(&Study<'_>) -> Findings,
}

/// Something that a machine must have for an experiment to run on it.
pub struct Need {
    /// In words, for `list`.
    pub what: &'static str,
    /// Whether this machine has it; if not, why and what to do.
    pub check: fn(&Machine) -> Result<(), Trouble>,
}

/// A metric that an experiment publishes.
pub struct Publication {
    /// Name.
    pub metric: &'static str,
    /// Unit.
    pub unit: Unit,
    /// What it means, for `list` and the report.
    pub meaning: &'static str,
    /// A cost that more launches pin down, or a state of the machine that they only watch.
    pub nature: Nature,
    /// Which of its figures stand in the summary table.
    pub headline: fn(&Labels) -> bool,
}

/// Whether repeating a measurement makes a figure more certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    /// What an operation costs: its interval shrinks with launches, and the stopping rule waits for that.
    Cost,
    /// What the machine happened to do, such as its clock: launches watch it, they do not settle it.
    State,
}

/// All figures of a metric stand in the summary table.
pub fn always(_: &Labels) -> bool {
    true
}

/// No figure of a metric stands in the summary table.
pub fn never(_: &Labels) -> bool {
    false
}

/// What an experiment takes that needs memory for nothing but its records.
pub fn little_memory(_: &Machine, _: u32) -> u64 {
    1 << 20
}

/// An expensive experiment takes part in the first of so many rounds.
pub const EXPENSIVE_EVERY: u32 = 4;
/// One whose launches take seconds takes part in the first of so many: five times in the rounds of a default run, which an
/// interval over launches needs, and once in a quick one.
pub const DEAR_EVERY: u32 = 6;

/// How often an experiment takes part in the rounds of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// In every round.
    Cheap,
    /// In every fourth round.
    Expensive,
    /// In every sixth round.
    Dear,
    /// As one of the others on the own machine; with a peer in every fourth round, and longer.
    Networked {
        /// In every round while there is no peer.
        every_round: bool,
        /// What a peer adds to one launch, in milliseconds: for the plan only.
        peer_milliseconds: u32,
    },
    /// In every fourth round of a run that names files on another machine; otherwise it is skipped.
    Elsewhere {
        /// What each way to such files adds to one launch, in milliseconds: for the plan only.
        milliseconds: u32,
    },
}

/// What a prediction may be made from.
pub struct Foreknowledge<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// CPU on which launches will measure.
    pub cpu: u32,
    /// The other machine, if the run has one.
    pub peer: Option<&'a Peer>,
    /// Files on another machine, if the run has some.
    pub remote: Option<&'a Remote>,
    /// Figures of earlier experiments of this run.
    pub known: &'a [Metric],
}

impl Foreknowledge<'_> {
    /// The earlier figure with a name and labels.
    pub fn metric(&self, name: &str, labels: &Labels) -> Option<&Metric> {
        self.known.iter().find(|metric| metric.name == name && metric.labels == *labels)
    }
}

impl Experiment {
    /// The chapter: the part of the identifier before the dot.
    pub fn chapter(&self) -> &'static str {
        self.id.split_once('.').map_or(self.id, |(chapter, _)| chapter)
    }

    /// True when it needs the run's directory for files.
    pub fn makes_files(&self) -> bool {
        self.needs.iter().any(|need| need.what == file::PLACE.what)
    }

    /// The publication of a metric.
    pub fn publication(&self, metric: &str) -> Option<&'static Publication> {
        self.publishes.iter().find(|publication| publication.metric == metric)
    }

    /// The methodology text: the leading `//!` comment of the source file, without its markers.
    pub fn methodology(&self) -> String {
        let mut text = String::new();
        for line in self.source.lines().map_while(|line| line.strip_prefix("//!")) {
            text.push_str(line.strip_prefix(' ').unwrap_or(line));
            text.push('\n');
        }
        text
    }
}

/// The chapters, in order.
pub fn chapters() -> Vec<&'static str> {
    let mut chapters: Vec<&str> = TABLE.iter().map(|experiment| experiment.chapter()).collect();
    chapters.dedup();
    chapters
}

/// The experiment with an identifier.
pub fn find(id: &str) -> Option<&'static Experiment> {
    TABLE.iter().copied().find(|experiment| experiment.id == id)
}
