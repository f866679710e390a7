//! The ordered table of experiments: the order of the report, and of the first round.
//!
//! One file or folder is one experiment is one section of the report. Its `//!` comment *is* the methodology text that `explain` and
//! the report print; below stand, always in this order, the row [`Experiment`], `predict`, `measure`, `figures`, `explain`, tests.
//! The signatures carry the discipline: `predict` gets the machine and earlier figures but no rig, so it cannot time;
//! `measure` gets a rig but no prediction, so it cannot lean towards one; `figures` and `explain` are pure functions of what
//! was logged.

pub mod catalogue;
pub mod consistency;
pub mod constants;
pub mod costs;
pub mod cpu;
#[cfg(test)]
mod example;
pub mod experiment;
pub mod figure_name;
pub mod file;
pub mod gpu;
pub mod heading;
pub mod highlights;
mod insights;
mod limits;
pub mod memory;
pub mod models;
pub mod names;
pub mod network;
pub mod os;
pub mod own_predictions;
pub mod phrases;
pub mod prelude;
#[cfg(test)]
mod traced;

use crate::results::prediction::Prediction;

pub use experiment::{Experiment, Nature, Need, PredictionInput, no_caveats};

/// Every experiment, in the order of the report.
pub const TABLE: &[&Experiment] = &[
    &cpu::frequency::EXPERIMENT,
    &cpu::timer::EXPERIMENT,
    &cpu::loop_cost::EXPERIMENT,
    &cpu::procedure_call::EXPERIMENT,
    &cpu::arithmetic::EXPERIMENT,
    &cpu::sharing::EXPERIMENT,
    &os::system_call::EXPERIMENT,
    &os::process_creation::EXPERIMENT,
    &os::container::EXPERIMENT,
    &os::thread_creation::EXPERIMENT,
    &os::context_switch::EXPERIMENT,
    &os::signal::EXPERIMENT,
    &os::channel::EXPERIMENT,
    &os::poll::EXPERIMENT,
    &os::lock::EXPERIMENT,
    &os::scaling::EXPERIMENT,
    &os::sleep::EXPERIMENT,
    &memory::latency::EXPERIMENT,
    &memory::bandwidth::EXPERIMENT,
    &memory::loaded_latency::EXPERIMENT,
    &memory::page_fault::EXPERIMENT,
    &memory::map::EXPERIMENT,
    &memory::shared_line::EXPERIMENT,
    &network::round_trip::EXPERIMENT,
    &network::bandwidth::EXPERIMENT,
    &network::datagrams::EXPERIMENT,
    &network::connection::EXPERIMENT,
    &file::cache_size::EXPERIMENT,
    &file::read::EXPERIMENT,
    &file::write::EXPERIMENT,
    &file::remote_read::EXPERIMENT,
    &file::contention::EXPERIMENT,
    &file::metadata::EXPERIMENT,
    &gpu::launch::EXPERIMENT,
    &gpu::copy::EXPERIMENT,
];

/// Older methods whose series have the same names and meaning for the analysis of today, by experiment and version.
const READ_ALIKE: [(&str, u32); 25] = [
    ("cpu.timer", 1),
    ("cpu.procedure_call", 1),
    ("cpu.procedure_call", 2),
    ("cpu.procedure_call", 3),
    ("os.system_call", 2),
    ("os.system_call", 3),
    ("os.system_call", 4),
    ("os.system_call", 7),
    ("os.process_creation", 3),
    ("os.process_creation", 4),
    ("os.process_creation", 5),
    ("os.thread_creation", 1),
    ("os.context_switch", 1),
    ("os.context_switch", 2),
    ("os.context_switch", 4),
    ("os.signal", 1),
    ("os.signal", 3),
    ("memory.page_fault", 1),
    ("memory.page_fault", 3),
    ("memory.latency", 1),
    ("memory.bandwidth", 1),
    ("memory.loaded_latency", 2),
    ("network.round_trip", 1),
    ("network.connection", 1),
    ("file.contention", 1),
];

impl Experiment {
    /// Whether logs of a method version are analysed. Their figures keep that version.
    pub fn analyses(&self, method_version: u32) -> bool {
        self.readable_versions().contains(&method_version)
    }

    /// Whether its launches stay on the CPU of the run: it asks who else is on that core.
    pub fn stays(&self) -> bool {
        self.publication("cpu.sharing.share").is_some()
    }

    /// The method versions whose logs are analysed, the oldest first. The last is its own.
    pub fn readable_versions(&self) -> Vec<u32> {
        let older = READ_ALIKE.iter().filter(|(id, _)| *id == self.id).map(|(_, version)| *version);
        older.chain([self.method_version]).collect()
    }

    /// True when it needs the run's directory for files.
    pub fn makes_files(&self) -> bool {
        self.needs.iter().any(|need| need.id == file::PLACE.id)
    }

    /// Says what will be measured: composed of primitives where they are known, else as its own file says.
    pub fn predictions(&self, by: &PredictionInput<'_>) -> Vec<Prediction> {
        (self.predict)(by).into_iter().map(|prediction| models::composed(by, prediction)).collect()
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
