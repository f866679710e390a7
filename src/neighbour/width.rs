//! The width of a core: how many cycles a turn of the shortest loop takes. A core runs two hardware threads, and in a virtual
//! machine the second one can belong to another tenant. Alone on the core a turn of one branch takes one cycle, with a busy
//! sibling thread 1.5 to 2. The multiply chain that gives the cycles is bound by latency and hardly changes.
//!
//! Some designs (AMD Zen 3) take their branches in a beat: alone, seven or eight turns take one, two or three cycles more than
//! turns, and the beat changes from moment to moment. There the widths of a core alone are a few sharp values, with nothing
//! between them. A loop of instructions without branches has its full speed at each of them.

use super::CoreState;

/// Cycles of a turn while nothing else uses the core. Below, the chain that gives the cycles was disturbed. The upper end may be
/// anything from 1.02 to 1.2.
const ALONE: [f64; 2] = [0.9, 1.04];
/// Cycles of a turn with a neighbour, at least.
const SHARED: f64 = 1.2;
/// Cores that take two branches in a cycle have turns of half a cycle: below this, a tenth of all turns shows them.
const TWO_A_CYCLE: f64 = 0.75;
/// Cycles for each turn alone on a core whose branches have a beat, other than one cycle.
const BEATS: [f64; 4] = [9.0 / 8.0, 8.0 / 7.0, 5.0 / 4.0, 10.0 / 7.0];
/// A look is at a beat where it is longer by this at most, for its call and its last branch, or shorter by this.
const OF_BEAT: [f64; 2] = [-0.01, 0.045];
/// Between these lie the beats, and next to no width of a core without them.
const BETWEEN: [f64; 2] = [1.08, 1.5];
/// Looks at a beat that show them, at least, and their share of those between the ends.
const LEAST_AT_BEAT: usize = 10;
const AT_BEAT_SHARE: f64 = 0.8;
/// Cycles of a turn with a neighbour, at least, on a core whose branches have a beat: the rarest of them has 5/3.
const SHARED_WITH_BEATS: f64 = 1.69;

/// One look at a core.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WidthLook {
    /// Seconds since the watch began.
    pub at: f64,
    /// Core cycles of a turn of the shortest loop. Zero where the thread was moved to another CPU.
    pub width: f64,
    /// Frequency of the core in hertz.
    pub hertz: f64,
}

/// How a core takes its branches, as far as looks at it show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Branches {
    known: usize,
    narrow: usize,
    between: usize,
    at_beat: usize,
}

impl Branches {
    /// From all looks.
    pub fn of(widths: impl IntoIterator<Item = f64>) -> Branches {
        let mut branches = Branches::default();
        for width in widths {
            branches.see(width);
        }
        branches
    }

    /// Takes one more look into account.
    pub fn see(&mut self, width: f64) {
        // Not a number where nothing converts it to cycles.
        if width > 0.0 {
            self.known += 1;
            self.narrow += usize::from(width < TWO_A_CYCLE);
            self.between += usize::from(width > BETWEEN[0] && width < BETWEEN[1]);
            self.at_beat += usize::from(is_at_beat(width));
        }
    }

    /// Looks that gave a width.
    pub fn known(&self) -> usize {
        self.known
    }

    /// What a turn of `width` cycles says.
    pub fn state(&self, width: f64) -> CoreState {
        if width <= 0.0 {
            return CoreState::Unknown;
        }
        let two_a_cycle = self.narrow > self.known / 10;
        let width = if two_a_cycle { 2.0 * width } else { width };
        let beats = !two_a_cycle && self.have_beats();
        let shared = if beats { SHARED_WITH_BEATS } else { SHARED };
        if (ALONE[0]..ALONE[1]).contains(&width) || beats && is_at_beat(width) {
            CoreState::Alone
        } else if width > shared {
            CoreState::Shared
        } else {
            CoreState::Mixed
        }
    }

    fn have_beats(&self) -> bool {
        self.at_beat >= LEAST_AT_BEAT && self.at_beat as f64 >= AT_BEAT_SHARE * self.between as f64
    }
}

/// Whether a turn is one of a core alone, whatever its design.
pub fn may_be_alone(width: f64) -> bool {
    [width, 2.0 * width].iter().any(|width| (ALONE[0]..ALONE[1]).contains(width)) || is_at_beat(width)
}

fn is_at_beat(width: f64) -> bool {
    BEATS.iter().any(|beat| (OF_BEAT[0]..OF_BEAT[1]).contains(&(width - beat)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks of an AMD Zen 3: alone at each beat, and with neighbours.
    const ZEN_3: [f64; 24] = [
        1.01, 1.017, 1.13, 1.135, 1.141, 1.151, 1.25, 1.253, 1.255, 1.262, 1.271, 1.42, 1.427, 1.43, 1.438, 1.441,
        1.72, 1.85, 1.96, 2.0, 2.1, 2.25, 2.31, 2.4,
    ];

    fn said(branches: &Branches, width: f64) -> CoreState {
        branches.state(width)
    }

    #[test]
    fn a_turn_says_who_is_there() {
        let branches = Branches::of([1.01; 10]);
        for (width, state) in [
            (1.01, CoreState::Alone),
            (0.9, CoreState::Alone),
            (1.7, CoreState::Shared),
            (1.1, CoreState::Mixed),
            (0.5, CoreState::Mixed),
            (0.0, CoreState::Unknown),
            (f64::NAN, CoreState::Mixed),
        ] {
            assert_eq!(said(&branches, width), state, "{width}");
        }
    }

    #[test]
    fn more_than_a_tenth_of_narrow_turns_shows_two_in_a_cycle() {
        let ten = |narrow: usize| Branches::of((0..10).map(|look| if look < narrow { 0.51 } else { 1.01 }));
        assert_eq!((said(&ten(1), 1.01), said(&ten(1), 0.51)), (CoreState::Alone, CoreState::Mixed));
        assert_eq!((said(&ten(2), 1.01), said(&ten(2), 0.51)), (CoreState::Shared, CoreState::Alone));
        assert_eq!(said(&Branches::default(), 1.0), CoreState::Alone, "until a look says something else");
    }

    #[test]
    fn a_core_whose_branches_have_a_beat_is_alone_at_each() {
        let branches = Branches::of(ZEN_3);
        for (index, width) in ZEN_3.iter().enumerate() {
            let wanted = if index < 16 { CoreState::Alone } else { CoreState::Shared };
            assert_eq!(said(&branches, *width), wanted, "{width}");
        }
        // Between the beats a neighbour came or went.
        assert_eq!([1.09, 1.2, 1.35, 1.55].map(|width| said(&branches, width)), [CoreState::Mixed; 4]);
    }

    #[test]
    fn neighbours_of_every_weight_make_no_beat() {
        let smooth = Branches::of((0..1000).map(|look| 1.0 + f64::from(look) * 0.001));
        assert_eq!(
            [1.13, 1.25, 1.43].map(|width| said(&smooth, width)),
            [CoreState::Mixed, CoreState::Shared, CoreState::Shared]
        );
        let few = Branches::of([1.01, 1.25, 1.25, 1.43, 1.7]);
        assert_eq!(said(&few, 1.25), CoreState::Shared, "a few looks show no beat");
    }

    #[test]
    fn before_the_design_is_known_a_turn_may_be_alone_on_any() {
        assert_eq!([1.01, 0.51, 1.25, 1.43].map(may_be_alone), [true; 4]);
        assert_eq!([1.7, 0.7, 1.2, 2.0, 0.0, f64::NAN].map(may_be_alone), [false; 6]);
    }
}
