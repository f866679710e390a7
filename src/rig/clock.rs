//! The run's clock: its rate against CLOCK_MONOTONIC_RAW, found once, verified by every launch.
//!
//! The counter and CLOCK_MONOTONIC_RAW share one oscillator, so this recovers the kernel's own conversion of ticks into
//! nanoseconds; it says nothing about how right that oscillator is.

use std::time::Duration;

use crate::results::log::Clock;
use crate::results::problem::Problem;
use crate::sys::clock::{Source, monotonic, monotonic_raw};
use crate::sys::{affinity, arch};

/// Tries of one pair; the tightest is kept, because noise only widens the bracket.
const TRIES: usize = 25;

/// Back-to-back readings of a usable counter take less; a trapped one takes more (an exit to a hypervisor costs over a
/// thousand ticks).
const TRAPPED_TICKS: i64 = 500;

/// Further looks before a counter is called trapped, and the pause before each.
const LOOKS_AT_TRAPS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// A reading of the counter bracketing one of CLOCK_MONOTONIC_RAW.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// Ticks in the middle of the bracket.
    pub ticks: f64,
    pub nanoseconds: i64,
    /// Half the width of the bracket in ticks: the uncertainty of the pairing.
    pub uncertainty: f64,
}

/// The tightest of 25 brackets.
pub fn pair(source: Source) -> Pair {
    let mut best = bracket(source);
    for _ in 1..TRIES {
        let next = bracket(source);
        if next.uncertainty < best.uncertainty {
            best = next;
        }
    }
    best
}

fn bracket(source: Source) -> Pair {
    let before = source.opening();
    let nanoseconds = monotonic_raw();
    let after = source.stamp();
    let width = after.ticks - before.ticks;
    // A bracket that moved between CPUs or went backwards is infinitely bad, not negative.
    let uncertainty = if before.cpu == after.cpu && width >= 0 { width as f64 / 2.0 } else { f64::INFINITY };
    Pair { ticks: before.ticks as f64 + width as f64 / 2.0, nanoseconds, uncertainty }
}

/// Rate between two pairs, with the relative error bound.
pub fn rate(first: &Pair, second: &Pair) -> Option<(f64, f64)> {
    let ticks = second.ticks - first.ticks;
    let nanoseconds = (second.nanoseconds - first.nanoseconds) as f64;
    if ticks <= 0.0 || nanoseconds <= 0.0 {
        return None;
    }
    let error = (first.uncertainty + second.uncertainty) / ticks;
    error.is_finite().then_some((ticks / nanoseconds * 1e9, error))
}

/// Deviation of the rate between two pairs from the run's clock, and its error bound, both in parts per million.
pub fn deviation(clock: &Clock, first: &Pair, second: &Pair) -> Option<(f64, f64)> {
    let (hertz, error) = rate(first, second)?;
    Some(((hertz / clock.hertz - 1.0) * 1e6, error * 1e6))
}

/// Whether the counter can be the clock of a run; otherwise the reason.
pub fn counter_usable(cpu: u32) -> Result<(), Problem> {
    let refuse = |why: String| {
        Err(Problem::new(format!("the {} cannot be used: {why}", arch::COUNTER))
            .hint("sysdyno uses CLOCK_MONOTONIC_RAW instead. Short operations then need longer batches"))
    };
    if !arch::counter_permitted() {
        return refuse("this process may not read it (prctl PR_SET_TSC)".to_owned());
    }
    if affinity::restrict(&[cpu]).is_err() {
        return refuse(format!("CPU {cpu} cannot be used to test it"));
    }
    let mut differences = [0_i64; 1000];
    let mut least = || {
        arch::own_pairs(&mut differences);
        differences.iter().copied().min().unwrap_or(0)
    };
    let mut found = least();
    // A host can slow a core down for milliseconds. A trap takes as long each time.
    for _ in 0..LOOKS_AT_TRAPS {
        if found <= TRAPPED_TICKS {
            break;
        }
        std::thread::sleep(BETWEEN_LOOKS);
        found = least();
    }
    let least = found;
    if least < 0 {
        return refuse(format!("it went backwards by {} ticks", -least));
    }
    if least > TRAPPED_TICKS {
        return refuse(format!("a read takes at least {least} ticks, so a hypervisor traps it"));
    }
    Ok(())
}

/// Finds the rate over `span`; sleeping is fine, the counter must not stop.
pub fn calibrate(source: Source, span: Duration) -> Result<Clock, Problem> {
    let (first, first_monotonic) = (pair(source), monotonic());
    std::thread::sleep(span);
    let (second, second_monotonic) = (pair(source), monotonic());
    let (hertz, error) = rate(&first, &second).ok_or_else(|| {
        Problem::new("the clock did not advance during calibration")
            .hint("use --clock monotonic_raw. If that clock fails too, the machine has no usable clock")
    })?;
    let raw = (second.nanoseconds - first.nanoseconds) as f64;
    Ok(Clock {
        source: source.name().to_owned(),
        hertz,
        error_ppm: error * 1e6,
        slew_ppm: ((second_monotonic - first_monotonic) as f64 / raw - 1.0) * 1e6,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ticks: f64, nanoseconds: i64) -> Pair {
        Pair { ticks, nanoseconds, uncertainty: 50.0 }
    }

    #[test]
    fn the_rate_is_ticks_over_time_with_the_brackets_as_error() {
        let (hertz, error) = rate(&at(0.0, 0), &at(400_000_000.0, 200_000_000)).unwrap();
        assert!((hertz - 2e9).abs() < 1e-3);
        assert!((error - 100.0 / 4e8).abs() < 1e-15);
    }

    #[test]
    fn a_clock_that_steps_back_has_no_rate() {
        assert_eq!(rate(&at(1000.0, 0), &at(500.0, 100)), None);
        assert_eq!(rate(&at(0.0, 100), &at(500.0, 50)), None);
        assert_eq!(rate(&at(0.0, 0), &Pair { uncertainty: f64::INFINITY, ..at(500.0, 100) }), None);
    }

    #[test]
    fn deviation_is_relative_to_the_run() {
        let clock = Clock { source: "tsc".into(), hertz: 2e9, error_ppm: 0.1, slew_ppm: 0.0 };
        let (ppm, _) = deviation(&clock, &at(0.0, 0), &at(400_040_000.0, 200_000_000)).unwrap();
        assert!((ppm - 100.0).abs() < 1e-6);
    }

    #[test]
    fn two_calibrations_of_this_machine_agree() {
        // Known truth: one oscillator. 20 ppm leaves room for a bracket that an interrupt widened on a busy machine.
        let source = if counter_usable(affinity::current()).is_ok() { Source::Counter } else { Source::MonotonicRaw };
        let first = calibrate(source, Duration::from_millis(60)).unwrap();
        let second = calibrate(source, Duration::from_millis(60)).unwrap();
        let apart = (first.hertz / second.hertz - 1.0).abs() * 1e6;
        assert!(apart < 20.0 + first.error_ppm + second.error_ppm, "{apart} ppm");
    }
}
