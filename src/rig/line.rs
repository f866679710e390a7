//! A look at another CPU that takes part. It shows how far that CPU is from this CPU, by the time that a cache line takes between
//! them, and who shares its core.

use super::instruments::Instruments;
use crate::sys::spinner::{CHAIN_ITERATIONS, LOOP_TURNS, Spinner};

/// Round trips before the timed ones: the partner has just been woken.
const WARMING_TRIPS: u64 = 10;

/// Round trips that are timed: 6 to 30 µs.
const TRIPS: u64 = 100;

/// What a look shows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Look {
    /// Nanoseconds of a cache line's way to the other CPU; zero where its partner does not answer.
    pub line: f64,
    /// Cycles of a turn of the shortest loop there; zero where they are not known.
    pub width: f64,
    /// The same here while its partner answers: longer where that CPU is on this core.
    pub beside: f64,
}

/// Looks at the CPU of a partner that answers.
pub fn look(instruments: &mut impl Instruments, partner: &Spinner) -> Look {
    if partner.start().is_err() {
        return Look::default();
    }
    let warmed = partner.round_trips(WARMING_TRIPS);
    let start = instruments.opening();
    let answered = warmed.and_then(|()| partner.round_trips(TRIPS));
    let end = instruments.stamp();
    let per_cycle = instruments.probe().filter(|&per_cycle| per_cycle > 0.0);
    let beside = per_cycle.map_or(0.0, |per_cycle| instruments.width() / per_cycle);
    partner.stop();
    let ticks = (end.ticks - start.ticks) as f64 - instruments.bias();
    let line = (ticks / instruments.hertz() * 1e9 / (2 * TRIPS) as f64).max(0.0);
    let answers = answered.is_ok();
    Look {
        line: if answers { line } else { 0.0 },
        width: width(instruments.chain_cycles(), partner.core()),
        beside: if answers { beside } else { 0.0 },
    }
}

/// Cycles of a turn, by the ticks of chain and loop on the partner's CPU and the cycles of an iteration of the chain.
fn width(chain_cycles: Option<f64>, [chain, turns]: [i64; 2]) -> f64 {
    match chain_cycles {
        Some(cycles) if chain > 0 && turns > 0 => {
            let tick = CHAIN_ITERATIONS as f64 * cycles / chain as f64;
            turns as f64 * tick / LOOP_TURNS as f64
        }
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partners_turn_is_told_in_cycles_of_its_own_clock() {
        // 60 cycles an iteration, a tick of two cycles: 100 iterations are 3000 ticks, 3000 turns of a cycle are 1500.
        assert!((width(Some(60.0), [3000, 1500]) - 1.0).abs() < 1e-9);
        assert!((width(Some(60.0), [3000, 2700]) - 1.8).abs() < 1e-9);
        assert!(width(None, [3000, 1500]).abs() < 1e-9 && width(Some(60.0), [0, 0]).abs() < 1e-9);
    }
}
