//! What a run is made of, as far as it is known before anything is timed: found once, borrowed by the plan, by predictions and
//! by analyses, and handed to every launch.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::machine::placement::Place;
use crate::results::log::Log;
use crate::results::peer::Peer;
use crate::results::problem::Problem;
use crate::results::remote::Remote;
use crate::sys::create::FILE_SIZE;

/// The description of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The machine.
    pub machine: Machine,
    /// CPU of the run: launches measure there.
    pub cpu: u32,
    /// CPUs that launches measure on instead, while a neighbour computes on the core of `cpu`. None where a CPU was named.
    pub equal_cpus: Vec<u32>,
    /// The CPU that a partner task of this launch prefers, because no other work is on its core. Only launches know one.
    pub partner: Option<u32>,
    /// CPUs that the run may use: the affinity mask that the tool was started with.
    pub allowed: Vec<u32>,
    /// How thorough the run is.
    pub profile: Profile,
    /// Seed of every random choice.
    pub seed: u64,
    /// Whether a peer was named. It is not contacted for a dry run.
    pub has_peer: bool,
    /// Ways to files on another machine that were named, the peer's among them.
    pub remote_ways: u32,
    /// Whether the network experiments leave out the loopback.
    pub remote_only: bool,
    /// The peer, once it has answered.
    pub peer: Option<Peer>,
    /// How launches reach the peer.
    pub access: Option<PeerAccess>,
    /// Files on another machine, once they were found.
    pub remote: Option<Remote>,
    /// Bytes that files of the run may take together, or why there can be none.
    pub room: Result<u64, Problem>,
    /// What the whole file cache is filled with, where that was asked for.
    pub full_cache: Option<FillWith>,
    /// Variables of the environment that the driver of a GPU reads, by name and value. Launches get no others.
    pub driver_variables: Vec<(String, String)>,
}

impl Setup {
    /// A run on this machine alone whose files may take nothing.
    pub fn of(machine: Machine, cpu: u32, allowed: Vec<u32>, profile: Profile) -> Self {
        Setup {
            machine,
            cpu,
            equal_cpus: Vec::new(),
            partner: None,
            allowed,
            profile,
            seed: 0,
            has_peer: false,
            remote_ways: 0,
            remote_only: false,
            peer: None,
            access: None,
            remote: None,
            room: Ok(0),
            full_cache: None,
            driver_variables: Vec::new(),
        }
    }

    /// Other CPUs that the run may use, one for each way in which it stands to the measured one.
    pub fn places(&self) -> Vec<Place> {
        let mut allowed = self.allowed.clone();
        allowed.sort_by_key(|&cpu| self.partner != Some(cpu));
        self.machine.places(self.cpu, &allowed)
    }

    /// What bounds the files of the run, for a reader who wants to allow more.
    pub fn file_bound(&self) -> &'static str {
        let limit = self.machine.limits.file_bytes();
        if limit.is_some() && self.room.as_ref().ok() == limit.as_ref() { FILE_SIZE } else { "--scratch-limit BYTES" }
    }

    /// The setup that a log was written with, as far as the log has it.
    pub fn logged(log: &Log) -> Self {
        let (machine, peer) = (log.machine.clone(), log.peer.as_deref().cloned());
        let allowed = machine.usable_cpus().iter().collect();
        let profile = Profile::named(&log.header.profile).unwrap_or(Profile::Default);
        let remote = log.remote.as_deref().cloned();
        Setup {
            seed: log.header.seed,
            equal_cpus: log.header.equal_cpus.clone(),
            has_peer: peer.is_some(),
            remote_only: log.header.remote_only,
            remote_ways: u32::from(peer.is_some()) + remote.as_ref().map_or(0, Remote::ways),
            peer,
            remote,
            ..Setup::of(machine, log.header.cpu, allowed, profile)
        }
    }
}

/// How thorough a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Profile {
    /// `--quick`: a first look.
    Quick,
    /// Without a flag: reports.
    Default,
    /// `--rigorous`: publication and comparison.
    Rigorous,
}

impl Profile {
    /// Name, as in the flags and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Quick => "quick",
            Profile::Default => "default",
            Profile::Rigorous => "rigorous",
        }
    }

    /// The profile with a name.
    pub fn named(name: &str) -> Option<Self> {
        [Profile::Quick, Profile::Default, Profile::Rigorous].into_iter().find(|profile| profile.name() == name)
    }

    /// A first look: what takes long is left out or made smaller.
    pub fn is_quick(self) -> bool {
        self == Profile::Quick
    }

    /// Whether a run ends before each of its experiments has reached its targets.
    pub fn ends_early(self) -> bool {
        self == Profile::Default
    }

    /// Batches of each workload in a launch. Batches of a launch differ little compared with launches: more launches say more.
    pub fn batches(self) -> u32 {
        match self {
            Profile::Quick => 8,
            Profile::Default => 12,
            Profile::Rigorous => 16,
        }
    }

    /// Most seconds that a run of everything may take.
    pub fn limit_seconds(self) -> f64 {
        match self {
            Profile::Quick => 20.0,
            Profile::Default => 120.0,
            Profile::Rigorous => 900.0,
        }
    }
}

/// What the whole file cache of the machine is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FillWith {
    /// Holes of a sparse file: pages of zeros that no device is asked for.
    Holes,
    /// Files that are written first and take their room on the device.
    Files,
}

impl FillWith {
    /// Seconds that filling takes at most where nothing is unusual, by the memory that file data can have, and those bytes.
    /// None where the machine does not report its memory.
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_launch_gets_the_setup_whole() {
        let machine = crate::machine::detect(Path::new("/proc/nonexistent"), Path::new("/"));
        let access = PeerAccess { address: "[::1]:7".parse().unwrap(), secret: "hush".to_owned() };
        let setup = Setup {
            access: Some(access),
            room: Err(Problem::new("no room").hint("make some")),
            full_cache: Some(FillWith::Files),
            driver_variables: vec![("CUDA_VISIBLE_DEVICES".to_owned(), "1".to_owned())],
            ..Setup::of(machine, 3, vec![1, 3], Profile::Rigorous)
        };
        let sent = serde_json::to_string(&setup).unwrap();
        assert_eq!(serde_json::from_str::<Setup>(&sent).unwrap(), setup);
        assert!(!format!("{setup:?}").contains("hush"));
    }

    #[test]
    fn a_profile_is_known_by_its_name() {
        for profile in [Profile::Quick, Profile::Default, Profile::Rigorous] {
            assert_eq!(Profile::named(profile.name()), Some(profile));
        }
        assert_eq!(Profile::named("hasty"), None);
    }
}
