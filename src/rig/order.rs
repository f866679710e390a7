//! What a launch is told to do: everything that is true of the whole run, found once and handed down.

use serde::{Deserialize, Serialize};

use crate::results::log::Clock;
use crate::results::trouble::Trouble;
use crate::sys::clock::Source;

/// The order for one launch, sent on its standard input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Experiment to measure, or [`CANARY`].
    pub experiment: String,
    /// Number of the launch in the run, from 1.
    pub launch: u32,
    /// CPU to measure on.
    pub cpu: u32,
    /// CPUs that the run may use at all: the affinity mask that the tool was started with.
    pub allowed: Vec<u32>,
    /// Bytes of memory that a launch may take: a quarter of what is available to this process.
    pub memory: u64,
    /// The run's clock.
    pub clock: Clock,
    /// Seed of this launch.
    pub seed: u64,
    /// Batches of each workload. At least 4.
    pub batches: u32,
    /// Process that conducts the run; when it dies, the launch must die.
    pub conductor: u32,
}

/// Name that orders the canaries instead of an experiment.
pub const CANARY: &str = "canary";

impl Order {
    /// The clock source of the run.
    pub fn source(&self) -> Result<Source, Trouble> {
        Source::named(&self.clock.source).ok_or_else(|| {
            Trouble::new(format!("this build has no clock named {}", self.clock.source))
                .hint("resume a run with the version and on the architecture that began it")
        })
    }
}
