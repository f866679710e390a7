//! What a launch is told to do: everything that is true of the whole run, found once and handed down.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::machine::placement::Place;
use crate::machine::{Cache, Machine, Storage};
use crate::results::log::Clock;
use crate::results::remote::Remote;
use crate::results::trouble::Trouble;
use crate::sys::clock::Source;

/// The order for one launch, sent on its standard input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Experiment to measure, or [`CANARY`].
    pub experiment: String,
    /// Number of the launch in the run, from 1.
    pub launch: u32,
    /// Round of the run in which it stands, from 1.
    pub round: u32,
    /// CPU to measure on.
    pub cpu: u32,
    /// CPUs that the run may use at all: the affinity mask that the tool was started with.
    pub allowed: Vec<u32>,
    /// Other CPUs that the run may use, one for each way in which it stands to the measured one.
    pub places: Vec<Place>,
    /// Bytes of memory that a launch may take: a quarter of what is available to this process.
    pub memory: u64,
    /// The caches that the machine claims.
    pub caches: Vec<Cache>,
    /// Where files may be made, and what is known of the place.
    pub scratch: Option<Storage>,
    /// Bytes that files of the run may have together.
    #[serde(default)]
    pub file_bytes: u64,
    /// The run's own directory for files; none where the run needs none or could not make one.
    #[serde(default)]
    pub space: Option<Space>,
    /// Why there is no such directory although the run needs one.
    #[serde(default)]
    pub no_space: Option<Trouble>,
    /// How the file cache is measured in full, where that was asked for.
    #[serde(default)]
    pub full_cache: Option<FullCache>,
    /// The run's clock.
    pub clock: Clock,
    /// Seed of this launch.
    pub seed: u64,
    /// Batches of each workload. At least 4.
    pub batches: u32,
    /// The peer of the run, if it has one.
    #[serde(default)]
    pub peer: Option<PeerAccess>,
    /// Files on another machine, if the run has some.
    #[serde(default)]
    pub remote: Option<Remote>,
    /// Process that conducts the run; when it dies, the launch must die.
    pub conductor: u32,
}

/// How the whole file cache of the machine is filled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FullCache {
    /// What it is filled with.
    pub with: FillWith,
    /// Seconds that the launch may take for it, its other work included.
    pub seconds: f64,
}

/// What the whole file cache of the machine is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FillWith {
    /// Holes of a sparse file: pages of zeros that no device is asked for.
    Holes,
    /// Files that are written first and take their room on the device.
    Files,
}

impl FillWith {
    /// Seconds that filling takes at most where nothing is unusual, by the memory that file data can have, and those bytes.
    /// None where the machine does not tell its memory.
    pub fn needs(self, machine: &Machine) -> Option<(f64, u64)> {
        /// Seconds for a gibibyte. A hypervisor may give memory only when it is touched.
        const OWN_MEMORY: f64 = 1.0;
        const LENT_MEMORY: f64 = 3.0;
        /// Seconds for a gibibyte that is written and read back, at 200 MB/s.
        const DEVICE: f64 = 10.7;
        let room = machine.limits.memory_room_bytes.as_ref().map_or(u64::MAX, |room| room.value);
        let bytes = machine.memory.available_bytes.as_ref()?.value.min(room);
        let memory = if machine.is_guest() { LENT_MEMORY } else { OWN_MEMORY };
        let pace = match self {
            FillWith::Holes => memory,
            FillWith::Files => memory + DEVICE,
        };
        Some((bytes as f64 / f64::from(1 << 30) * pace, bytes))
    }
}

/// The run's own directory for files: made before the first launch, gone after the last, and the same for all of them, so
/// that a file that one launch has written need not be written by the next.
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
        // FNV-1a.
        let bytes = self.directory.as_os_str().as_encoded_bytes();
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
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

/// How a launch reaches the peer. Handed down by a pipe, never written to the log.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerAccess {
    /// Where it listens.
    pub address: SocketAddr,
    /// The secret that both sides know.
    pub secret: String,
}

impl std::fmt::Debug for PeerAccess {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "PeerAccess({})", self.address)
    }
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
