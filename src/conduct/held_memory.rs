//! Memory that stays with this process between launches that need much of it.
//!
//! A host can take back what its guest frees (free page reporting), within about two seconds. Then the first touch of each page is a
//! fault of the host: on one guest 1.9 GiB took 4.8 s, and 0.3 s within seconds of the last use. So the memory of the largest launch so
//! far is held until the next large launch. A launch still maps and writes its own memory. Only the host's share of the first touch is
//! saved, which no result contains.

use nix::sys::resource::{UsageWho, getrusage};

use crate::experiments::Experiment;
use crate::setup::Setup;
use crate::sys::arena::Arena;
use crate::sys::memory::Pages;

/// Launches that take more bytes than this are large.
const LARGE: u64 = 256 << 20;
/// Share of the available memory that is held at most: other launches, and other programs, keep the rest.
const MOST_SHARE: u64 = 8;

/// Whether a launch of an experiment writes much memory, given the number of launches before it. Memory that caches files was
/// used before.
pub(super) fn is_large(experiment: &Experiment, setup: &Setup, turn: u32) -> bool {
    !experiment.makes_files() && (experiment.memory)(setup, turn) > LARGE
}

/// The memory that is held now.
#[derive(Debug, Default)]
pub(super) struct HeldMemory {
    /// Bytes that may be held: 0 where holding gains nothing.
    most: u64,
    held: Option<Arena>,
}

impl HeldMemory {
    /// Holds nothing yet. Without a hypervisor nobody takes memory back, and a run that fills the whole file cache needs all of it.
    pub(super) fn of(setup: &Setup) -> Self {
        let gains = setup.machine.is_guest() && setup.full_cache.is_none();
        let available = setup.machine.available_memory_bytes().map_or(0, |found| found.value);
        HeldMemory { most: if gains { available / MOST_SHARE } else { 0 }, held: None }
    }

    /// Frees it for a launch, which writes to its memory at once.
    pub(super) fn release(&mut self) {
        self.held = None;
    }

    /// Takes as much as the largest child process had in memory, if that was much.
    pub(super) fn hold(&mut self) {
        let used = getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0, |usage| usage.max_rss().max(0) as u64 * 1024);
        let bytes = used.min(self.most);
        if bytes <= LARGE || self.held.as_ref().is_some_and(|held| held.bytes() as u64 >= bytes) {
            return;
        }
        // Without memory to hold, the next launch is only slower.
        self.held = Arena::map(bytes as usize, Pages::Huge).ok();
        if let Some(held) = &mut self.held {
            held.write();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_children_leave_nothing_to_hold() {
        let mut memory = HeldMemory { most: u64::MAX, held: None };
        assert!(std::process::Command::new("true").status().unwrap().success());
        memory.hold();
        assert!(memory.held.is_none());
    }

    #[test]
    fn what_is_held_is_resident_until_it_is_released() {
        let mut held = Arena::map(4 << 20, Pages::Huge).unwrap();
        held.write();
        assert_eq!(held.backing().unwrap().anonymous, 4 << 20);
        let mut memory = HeldMemory { most: 0, held: Some(held) };
        memory.release();
        assert!(memory.held.is_none());
    }
}
