//! What a launch is asked to do: the setup of the run, and what is particular to this launch.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::results::log::Clock;
use crate::results::problem::Problem;
use crate::setup::Setup;
use crate::sys::clock::Source;
use crate::sys::naming;

/// The request for one launch, sent on its standard input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// What is the same for all launches and was known before anything was timed.
    pub setup: Setup,
    /// The run's clock.
    pub clock: Clock,
    /// The run's own directory for files, or why it has none.
    pub space: Result<Space, Problem>,
    /// Experiment to measure, or [`INTERFERENCE`].
    pub experiment: String,
    /// Number of the launch in the run, from 1.
    pub launch: u32,
    /// Whether it measures only what other figures of the experiment are predicted from.
    pub first: bool,
    /// Launches of this experiment that the run had before, failed ones too: experiments take turns by it.
    pub turn: u32,
    /// Seconds that the launch may take to fill the file cache, where that is asked of it. Its other work counts too.
    pub fill_seconds: Option<f64>,
    /// Batches of each workload. At least 4, if there is time.
    pub batches: u32,
    /// Seconds after which the launch begins no more batches, but for the first of each workload.
    pub sampling_seconds: f64,
    /// Seed of this launch.
    pub seed: u64,
    /// Process that conducts the run. When it dies, the launch must die.
    pub conductor: u32,
}

/// The run's own directory for files: made before the first launch, gone after the last, and the same for all of them. So
/// a file written by one launch need not be written by the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Where files may be made, and nowhere else.
    pub directory: PathBuf,
    /// Bytes that all files together may have.
    pub bytes: u64,
}

impl Space {
    /// Seed of the stamps of all files of the run: the same in every launch of it, another in every run.
    pub fn seed(&self) -> u64 {
        naming::number_of(self.directory.as_os_str().as_encoded_bytes())
    }

    /// Bytes that are left to the files whose names begin so: those of other experiments stay where they are until the run
    /// ends, and all together are what is bounded.
    pub fn left_to(&self, names: &str) -> u64 {
        self.left_beside(|name| !name.starts_with(names))
    }

    /// Bytes that are left to one more file.
    pub fn left(&self) -> u64 {
        self.left_beside(|_| true)
    }

    /// Bytes that are left where files of some names stay.
    fn left_beside(&self, stays: impl Fn(&str) -> bool) -> u64 {
        /// What `st_blocks` counts.
        const SECTOR: u64 = 512;
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let staying = entries.filter(|entry| stays(&entry.file_name().to_string_lossy()));
        // By what they occupy: a sparse file is longer than that.
        let taken = staying.filter_map(|entry| entry.metadata().ok()).map(|found| found.blocks() * SECTOR).sum();
        self.bytes.saturating_sub(taken)
    }
}

/// Name that asks for the interference probes instead of an experiment.
pub const INTERFERENCE: &str = "canary";

impl Request {
    /// The clock source of the run.
    pub fn source(&self) -> Result<Source, Problem> {
        Source::named(&self.clock.source).ok_or_else(|| {
            Problem::new(format!("this build has no clock named {}", self.clock.source))
                .hint("resume a run with the version of sysdyno and on the architecture that began it")
        })
    }
}
