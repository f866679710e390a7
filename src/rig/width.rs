//! The width of a core: how many cycles a turn of the shortest loop takes. A core runs two hardware threads, and in a virtual
//! machine the second one can belong to another tenant. Alone on the core a turn of one branch takes one cycle, beside a busy
//! sibling thread 1.5 to 2. The multiply chain that gives the cycles is bound by latency and hardly changes.

/// Cycles of a turn while nothing else uses the core. Below, the chain that gives the cycles was disturbed. The upper end may be
/// anything from 1.02 to 1.2.
const ALONE: [f64; 2] = [0.9, 1.04];
/// Cycles of a turn beside a neighbour, at least.
const SHARED: f64 = 1.2;
/// Cores that take two branches in a cycle have turns of half a cycle: below this, a tenth of all turns shows them.
const TWO_A_CYCLE: f64 = 0.75;

/// Who was on the core during one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nobody else.
    Alone,
    /// A neighbour.
    Shared,
    /// The look does not tell: it was disturbed, or a neighbour came or went.
    Untold,
}

/// Whether a turn is so short that only a core with two branches in a cycle takes it undisturbed.
pub fn is_narrow(width: f64) -> bool {
    width < TWO_A_CYCLE
}

/// Cycles of a turn alone on this core, by how many of the known turns are narrow.
pub fn alone(narrow: usize, known: usize) -> f64 {
    if narrow > known / 10 { 0.5 } else { 1.0 }
}

/// What a turn of so many cycles says, where a turn alone on the core takes `alone`.
pub fn state(width: f64, alone: f64) -> State {
    let width = width / alone;
    if (ALONE[0]..ALONE[1]).contains(&width) {
        State::Alone
    } else if width > SHARED {
        State::Shared
    } else {
        State::Untold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_says_who_is_there() {
        for (width, said) in [
            (1.01, State::Alone),
            (0.9, State::Alone),
            (1.7, State::Shared),
            (1.1, State::Untold),
            (0.5, State::Untold),
            (0.0, State::Untold),
            (f64::NAN, State::Untold),
        ] {
            assert_eq!(state(width, 1.0), said, "{width}");
        }
        assert_eq!((state(0.51, 0.5), state(0.9, 0.5)), (State::Alone, State::Shared));
    }

    #[test]
    fn a_tenth_of_narrow_turns_shows_two_in_a_cycle() {
        assert_eq!((alone(1, 10), alone(2, 10), alone(0, 0)), (1.0, 0.5, 1.0));
        assert!(is_narrow(0.5) && !is_narrow(1.0));
    }
}
