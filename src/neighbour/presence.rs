//! How much of the time a neighbour was on a core, from single looks at it. Looks that follow each other see the same neighbour,
//! so its scatter between blocks of time shows how far it can be trusted.

use super::width::{Branches, WidthLook};
use super::{CoreState, Counts};
use crate::statistics::distribution::{normal_factor, student_factor};

/// Level of the interval of a share.
const LEVEL: f64 = 0.95;
/// Blocks of time, at most: where there would be more, two become one. An even number.
const MOST_BLOCKS: usize = 16;
/// Blocks from which a scatter can be computed.
const LEAST_BLOCKS: usize = 5;
/// Seconds between two looks beyond which it is not known whether a stretch went on.
const LONGEST_GAP: f64 = 0.25;
/// Looks of a stretch, at least: what two looks in a row see may have gone and come back.
const LEAST_LOOKS: u64 = 3;

/// All looks at one core.
#[derive(Debug, Clone)]
pub struct Presence {
    total: Counts,
    branches: Branches,
    blocks: Vec<Counts>,
    /// Spans in a block, and those that the last block has.
    spans: u32,
    filled: u32,
    stretch: Option<Stretch>,
    longest: Longest,
}

/// Looks that all saw the same.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    state: CoreState,
    from: f64,
    to: f64,
    looks: u64,
}

/// The longest stretches, in seconds from their first look to their last. None where none had enough looks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Longest {
    pub alone: Option<f64>,
    pub shared: Option<f64>,
}

impl Default for Presence {
    fn default() -> Self {
        Presence {
            total: Counts::default(),
            branches: Branches::default(),
            blocks: Vec::new(),
            spans: 1,
            filled: 0,
            stretch: None,
            longest: Longest::default(),
        }
    }
}

impl Presence {
    /// Adds the looks of a span of time, and returns what they came to.
    pub fn add(&mut self, looks: &[WidthLook]) -> Counts {
        for look in looks {
            self.branches.see(look.width);
        }
        let states: Vec<CoreState> = looks.iter().map(|look| self.branches.state(look.width)).collect();
        for (look, state) in looks.iter().zip(&states) {
            self.lengthen(look.at, *state);
        }
        let counts: Counts = states.into_iter().collect();
        self.total = self.total + counts;
        self.fill(counts);
        counts
    }

    /// All looks so far.
    pub fn total(&self) -> Counts {
        self.total
    }

    /// The longest stretches so far.
    pub fn longest(&self) -> Longest {
        self.longest
    }

    /// Interval of the share at 95 %, by the scatter of blocks of time, and never narrower than that of as many looks that had
    /// nothing to do with each other. None where there are too few blocks.
    pub fn interval(&self) -> Option<[f64; 2]> {
        let share = self.total.share_of_decided()?;
        let blocks: Vec<&Counts> = self.blocks.iter().filter(|block| block.decided() > 0).collect();
        if blocks.len() < LEAST_BLOCKS {
            return None;
        }
        let (number, looks) = (blocks.len() as f64, self.total.decided() as f64);
        let squares: f64 =
            blocks.iter().map(|block| (block.shared as f64 - share * block.decided() as f64).powi(2)).sum();
        let scatter = (number / (number - 1.0) * squares).sqrt() / looks;
        // Agresti and Coull: two looks more of each kind, so that none of a kind does not mean never.
        let adjusted = (self.total.shared as f64 + 2.0) / (looks + 4.0);
        let least = (adjusted * (1.0 - adjusted) / (looks + 4.0)).sqrt();
        let half = (student_factor(LEVEL, number - 1.0)? * scatter).max(normal_factor(LEVEL)? * least);
        Some([(share - half).max(0.0), (share + half).min(1.0)])
    }

    /// Looks without an answer neither end a stretch nor belong to it.
    fn lengthen(&mut self, at: f64, state: CoreState) {
        if !state.is_decided() {
            return;
        }
        let stretch = match self.stretch {
            Some(last) if last.state == state && at - last.to <= LONGEST_GAP => {
                Stretch { to: at, looks: last.looks + 1, ..last }
            }
            _ => Stretch { state, from: at, to: at, looks: 1 },
        };
        self.stretch = Some(stretch);
        if stretch.looks >= LEAST_LOOKS {
            let longest = if state == CoreState::Shared { &mut self.longest.shared } else { &mut self.longest.alone };
            *longest = Some(longest.unwrap_or(0.0).max(stretch.to - stretch.from));
        }
    }

    fn fill(&mut self, counts: Counts) {
        if self.filled == 0 && self.blocks.len() == MOST_BLOCKS {
            self.blocks = self.blocks.chunks(2).map(|pair| pair.iter().copied().sum()).collect();
            self.spans *= 2;
        }
        match self.blocks.last_mut().filter(|_| self.filled > 0) {
            Some(last) => *last = *last + counts,
            None => self.blocks.push(counts),
        }
        self.filled = (self.filled + 1) % self.spans;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks 15 ms apart.
    fn looks(from: f64, widths: &[f64]) -> Vec<WidthLook> {
        let look = |(index, &width)| WidthLook { at: from + index as f64 * 0.015, width, hertz: 3e9 };
        widths.iter().enumerate().map(look).collect()
    }

    fn spans(shared: impl Iterator<Item = u32>) -> Presence {
        let mut presence = Presence::default();
        for (second, shared) in shared.enumerate() {
            let widths: Vec<f64> = (0..60).map(|look| if look < shared { 1.7 } else { 1.01 }).collect();
            presence.add(&looks(second as f64, &widths));
        }
        presence
    }

    #[test]
    fn looks_are_alone_shared_or_do_not_tell() {
        let mut presence = Presence::default();
        let count = presence.add(&looks(0.0, &[1.01, 1.0, 1.7, 0.0, 0.4, 1.1, 1.02, 1.01, 1.01, 1.0, 1.0]));
        assert_eq!(count, Counts { alone: 7, shared: 1, mixed: 2, unknown: 1 });
        assert_eq!((count.share_of_decided(), presence.total()), (Some(0.125), count));
        assert_eq!(presence.add(&[]), Counts::default());
        assert_eq!(Counts::default().share_of_decided(), None);
        assert_eq!(Presence::default().interval(), None);
    }

    #[test]
    fn two_branches_in_a_cycle_are_known_after_the_first_looks() {
        let mut presence = Presence::default();
        assert_eq!(
            presence.add(&looks(0.0, &[0.51, 0.5, 0.9, 0.51])),
            Counts { alone: 3, shared: 1, ..Counts::default() }
        );
        // A neighbour that stays does not make the core another one.
        assert_eq!(presence.add(&looks(1.0, &[0.9, 1.0, 1.0, 0.95])).shared, 4);
    }

    #[test]
    fn a_share_is_as_sure_as_its_blocks_agree() {
        let steady = spans((0..64).map(|_| 20));
        let restless = spans((0..64).map(|second| if second % 16 < 8 { 40 } else { 0 }));
        for presence in [&steady, &restless] {
            let [low, high] = presence.interval().unwrap();
            assert!(low <= 1.0 / 3.0 && 1.0 / 3.0 <= high, "{low} to {high}");
        }
        let width = |presence: &Presence| presence.interval().map(|[low, high]| high - low).unwrap();
        assert!(width(&restless) > 5.0 * width(&steady), "{} and {}", width(&restless), width(&steady));
        assert!((MOST_BLOCKS / 2..=MOST_BLOCKS).contains(&steady.blocks.len()));
        let looks: u64 = steady.blocks.iter().map(|block| block.decided()).sum();
        assert_eq!(looks, steady.total().decided(), "no look is lost where blocks are joined");
    }

    #[test]
    fn few_blocks_have_no_interval_and_never_is_not_certain() {
        assert_eq!(spans((0..4).map(|_| 20)).interval(), None);
        let never = spans((0..20).map(|_| 0)).interval().unwrap();
        assert!(never[0] <= 0.0 && (0.001..0.01).contains(&never[1]), "{never:?}");
        let always = spans((0..20).map(|_| 60)).interval().unwrap();
        assert!(always[1] >= 1.0 && always[0] > 0.99, "{always:?}");
    }

    #[test]
    fn stretches_go_from_their_first_look_to_their_last() {
        let mut presence = Presence::default();
        presence.add(&looks(0.0, &[1.0, 1.0, 1.7, 1.7, 1.7, 0.3, 1.7, 1.0, 1.0, 1.7, 1.7]));
        let found = presence.longest();
        assert!((found.shared.unwrap() - 0.06).abs() < 1e-9, "{found:?}");
        assert_eq!(found.alone, None, "two looks are no stretch");
        // It goes on in the next span, and ends where no look was taken.
        presence.add(&looks(0.165, &[1.7]));
        presence.add(&looks(10.0, &[1.7, 1.7, 1.0, 1.0, 1.0]));
        assert!((presence.longest().shared.unwrap() - 0.06).abs() < 1e-9);
        assert!((presence.longest().alone.unwrap() - 0.03).abs() < 1e-9);
    }
}
