//! Memory that stays with this process between launches that need much of it.
//!
//! A host can take back what its guest frees (free page reporting), within about two seconds. Then the first touch of each page is
//! a fault of the host. On one guest 1.9 GiB took 4.8 s, and 0.3 s within seconds of the last use. So what a large launch has freed
//! is held until the next one. A launch still maps and writes its own memory. Only the host's share of the first touch is saved,
//! which no result contains.

use crate::experiments::Experiment;
use crate::setup::Setup;
use crate::sys::arena::Arena;
use crate::sys::memory::Pages;

/// Launches that take this many bytes are large.
const LARGE: u64 = 256 << 20;
/// Share of the available memory that is held at most: other launches, and other programs, keep the rest.
const MOST_SHARE: u64 = 8;
/// Bytes of a piece.
const PIECE: usize = 32 << 20;

/// Bytes that a launch of an experiment writes, given the number of launches before it, if they are many. What caches files is
/// not written by the launch.
pub(super) fn large(experiment: &Experiment, setup: &Setup, turn: u32) -> Option<u64> {
    // Small pages come from pieces of memory that a host does not take back.
    let bytes = experiment.huge_memory.unwrap_or(experiment.memory)(setup, turn);
    (!experiment.makes_files() && bytes >= LARGE).then_some(bytes)
}

/// The memory that is held now.
#[derive(Debug, Default)]
pub(super) struct HeldMemory {
    /// Bytes that may be held: 0 where holding gains nothing.
    most: usize,
    /// Bytes of the largest launch so far.
    wanted: u64,
    /// In equal pieces, so that a launch gets what it needs and the rest stays.
    pieces: Vec<Arena>,
}

impl HeldMemory {
    /// Holds nothing yet. Without a hypervisor nothing takes memory back, and a run that fills the whole file cache needs all of it.
    pub(super) fn of(setup: &Setup) -> Self {
        let gains = setup.machine.is_guest() && setup.full_cache.is_none();
        let available = setup.machine.available_memory_bytes().map_or(0, |found| found.value);
        let most = if gains { (available / MOST_SHARE) as usize } else { 0 };
        HeldMemory { most, ..HeldMemory::default() }
    }

    /// Frees so much for a launch, which writes to its memory at once.
    pub(super) fn release(&mut self, bytes: u64) {
        self.pieces.truncate(self.beside(bytes));
    }

    /// Takes back what a launch of `bytes` bytes has freed, and what earlier ones needed. It leaves the `next` bytes that the next
    /// launch takes at once.
    pub(super) fn hold(&mut self, bytes: u64, next: u64) {
        self.wanted = self.wanted.max(bytes);
        let held = self.beside(next);
        while self.pieces.len() < held {
            // Without memory to hold, the next launch is only slower.
            let Ok(mut piece) = Arena::map(PIECE, Pages::Huge) else { return };
            piece.populate();
            self.pieces.push(piece);
        }
    }

    /// Pieces that are held during a launch of this many bytes.
    fn beside(&self, bytes: u64) -> usize {
        let all = self.wanted.min(self.most as u64) as usize / PIECE;
        all.saturating_sub(bytes.div_ceil(PIECE as u64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_gets_what_it_needs_and_the_rest_stays() {
        let mut memory = HeldMemory { most: 3 * PIECE, ..HeldMemory::default() };
        memory.hold(2 * PIECE as u64, 0);
        assert_eq!(memory.pieces.len(), 2);
        assert!(memory.pieces.iter().all(|piece| piece.backing().unwrap().anonymous == PIECE as u64));
        memory.release(PIECE as u64 - 1);
        assert_eq!(memory.pieces.len(), 1);
        memory.hold(1, PIECE as u64);
        assert_eq!(memory.pieces.len(), 1, "the next launch takes the rest");
        memory.hold(1, 0);
        assert_eq!(memory.pieces.len(), 2, "the largest launch needs as much");
        memory.hold(u64::MAX, 0);
        assert_eq!(memory.pieces.len(), 3, "no more than it may");
        memory.release(u64::MAX);
        assert!(memory.pieces.is_empty());
    }
}
