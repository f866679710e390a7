//! Neighbours: tasks and other guests on the second hardware thread of a core, as far as looks at the width of the core show them.
//!
//! Launches, the monitor, `doctor` and the experiment `cpu.sharing` all use this.

use std::iter::Sum;
use std::ops::Add;

pub mod batches;
pub mod presence;
pub mod width;

/// What a core was used for during a look, or during a batch between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoreState {
    /// No neighbour was on it.
    Alone,
    /// A neighbour was on it.
    Shared,
    /// A neighbour came or went, or a look was disturbed.
    Mixed,
    /// Nothing looked.
    Unknown,
}

impl CoreState {
    /// The state of a batch on two cores: alone where both are, shared where a neighbour was on one of them all along.
    #[must_use]
    pub fn and(self, other: CoreState) -> CoreState {
        match (self, other) {
            (CoreState::Unknown, known) | (known, CoreState::Unknown) => known,
            (CoreState::Mixed, _) | (_, CoreState::Mixed) => CoreState::Mixed,
            (CoreState::Alone, CoreState::Alone) => CoreState::Alone,
            _ => CoreState::Shared,
        }
    }

    /// Whether it says that a neighbour was there, or that none was.
    pub fn is_decided(self) -> bool {
        matches!(self, CoreState::Alone | CoreState::Shared)
    }
}

/// How many looks or batches were in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub alone: u64,
    pub shared: u64,
    pub mixed: u64,
    pub unknown: u64,
}

impl Counts {
    /// Those with an answer.
    pub fn decided(self) -> u64 {
        self.alone + self.shared
    }

    /// Those without an answer.
    pub fn open(self) -> u64 {
        self.mixed + self.unknown
    }

    /// Those at which something looked.
    pub fn known(self) -> u64 {
        self.decided() + self.mixed
    }

    /// Share of the batches during which a neighbour used the core: those with one at one end count half.
    pub fn share(self) -> f64 {
        (self.shared as f64 + self.mixed as f64 / 2.0) / self.known().max(1) as f64
    }

    /// Share of the looks with an answer in which a neighbour was there.
    pub fn share_of_decided(self) -> Option<f64> {
        (self.decided() > 0).then(|| self.shared as f64 / self.decided() as f64)
    }
}

impl FromIterator<CoreState> for Counts {
    fn from_iter<States: IntoIterator<Item = CoreState>>(states: States) -> Counts {
        let mut counts = Counts::default();
        for state in states {
            *match state {
                CoreState::Alone => &mut counts.alone,
                CoreState::Shared => &mut counts.shared,
                CoreState::Mixed => &mut counts.mixed,
                CoreState::Unknown => &mut counts.unknown,
            } += 1;
        }
        counts
    }
}

impl Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts {
            alone: self.alone + other.alone,
            shared: self.shared + other.shared,
            mixed: self.mixed + other.mixed,
            unknown: self.unknown + other.unknown,
        }
    }
}

impl Sum for Counts {
    fn sum<All: Iterator<Item = Counts>>(all: All) -> Counts {
        all.fold(Counts::default(), Add::add)
    }
}
