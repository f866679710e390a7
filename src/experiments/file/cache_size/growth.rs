//! When a cache that is filled is full: what is resident grows no more and no memory is left unused. Data that is taken back
//! while memory is unused ends nothing.

use crate::experiments::prelude::*;
use crate::results::wording::duration;
use std::time::Duration;

/// Growth of what is resident, as a share of a step, below which a step counts as none.
const GROWTH: f64 = 0.1;

/// Steps in a row without growth, and the time that they last at least: others take memory back once in a second or so.
const STANDSTILL: u32 = 3;

const STANDSTILL_TIME: Duration = Duration::from_secs(1);

/// The time where memory is unused, which means that something takes back as much as is read.
const HELD_TIME: Duration = Duration::from_secs(5);

/// Steps that fit into what counts as no unused memory.
const UNUSED_STEPS: f64 = 2.0;

/// Why the filling ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StopReason {
    /// In words, to follow "because".
    pub why: String,
    /// Whether the cache was full; else what it kept is a lower bound.
    pub full: bool,
}

/// The growth of what is resident. All sizes are bytes.
#[derive(Debug)]
pub(super) struct Growth {
    step: f64,
    may_have: f64,
    resident: f64,
    /// What was resident when it last rose above all before, and what had been read and taken back early until then.
    peak: f64,
    peak_at: f64,
    taken_at_peak: f64,
    read: f64,
    unused: Option<f64>,
    /// Steps in a row without growth, and when they began.
    pub still: u32,
    still_since: Duration,
    /// Bytes that were taken back while memory was unused.
    pub taken_early: f64,
}

impl Growth {
    /// Before the first step of `step` bytes, where the cache may have `may_have`.
    pub(super) fn new(step: u64, may_have: u64) -> Self {
        Growth {
            step: step as f64,
            may_have: may_have as f64,
            resident: 0.0,
            peak: 0.0,
            peak_at: 0.0,
            taken_at_peak: 0.0,
            read: 0.0,
            unused: None,
            still: 0,
            still_since: Duration::ZERO,
            taken_early: 0.0,
        }
    }

    /// After a step that began at a time: all that was read, what of it is resident, and what memory is unused.
    pub(super) fn advance(&mut self, began: Duration, read: f64, resident: f64, unused: Option<f64>) {
        let (more, grown) = (read - self.read, resident - self.resident);
        self.unused = unused;
        if !self.is_used_up() {
            self.taken_early += (more - grown).max(0.0);
        }
        if grown < GROWTH * more {
            if self.still == 0 {
                self.still_since = began;
            }
            self.still += 1;
        } else {
            self.still = 0;
        }
        if resident > self.peak + GROWTH * self.step {
            (self.peak, self.peak_at, self.taken_at_peak) = (resident, read, self.taken_early);
        }
        (self.read, self.resident) = (read, resident);
    }

    /// Whether no memory is left that could still be used. Where no file shows it, an end of growth decides.
    pub(super) fn is_used_up(&self) -> bool {
        self.unused.is_none_or(|unused| unused <= UNUSED_STEPS * self.step)
    }

    /// Whether it has ended by a time.
    pub(super) fn ended(&self, now: Duration) -> Option<StopReason> {
        let text = |bytes: f64| quantity(bytes, Unit::Bytes);
        let stood = if self.still >= STANDSTILL { now.saturating_sub(self.still_since) } else { Duration::ZERO };
        // What was taken back since then has to be read again, twice the whole at most: else it might never end.
        let again = (self.taken_early - self.taken_at_peak).min(2.0 * self.may_have);
        let gained_nothing = self.read - self.peak_at > self.may_have + again;
        if self.is_used_up() {
            let why = if stood >= STANDSTILL_TIME {
                format!("growth had stopped for {} and no memory was unused", duration(stood.as_secs_f64()))
            } else if gained_nothing {
                format!("another {} had added nothing and no memory was unused", text(self.read - self.peak_at))
            } else {
                return None;
            };
            return Some(StopReason { why, full: true });
        }
        let unused = text(self.unused.unwrap_or(0.0));
        let why = if stood >= HELD_TIME {
            format!(
                "for {} the kernel reclaimed as much as was read, with {unused} unused",
                duration(stood.as_secs_f64())
            )
        } else if gained_nothing {
            format!("another {} had added nothing, with {unused} unused", text(self.read - self.peak_at))
        } else {
            return None;
        };
        Some(StopReason { why, full: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: u64 = 10;
    const ROOM: u64 = 1000;

    /// Fills a cache of `capacity` bytes in steps of a tenth of a second. At each step something takes back a part of it.
    /// Returns the most that was resident, the end, and what was taken early.
    fn fill(capacity: f64, take: impl Fn(u32, f64) -> f64) -> (f64, StopReason, f64) {
        let mut growth = Growth::new(STEP, ROOM);
        let (mut resident, mut most) = (0.0_f64, 0.0_f64);
        for number in 0..10_000 {
            let began = Duration::from_millis(100) * number;
            resident = (resident + STEP as f64).min(capacity);
            resident -= take(number, resident);
            most = most.max(resident);
            let read = f64::from(number + 1) * STEP as f64;
            growth.advance(began, read, resident, Some(capacity - resident));
            if let Some(end) = growth.ended(began + Duration::from_millis(100)) {
                return (most, end, growth.taken_early);
            }
        }
        panic!("it never ended");
    }

    #[test]
    fn a_full_cache_ends_it() {
        let (most, end, taken) = fill(900.0, |_, _| 0.0);
        assert_eq!((most, end.full, taken), (900.0, true, 0.0), "{end:?}");
    }

    #[test]
    fn what_is_taken_back_early_does_not_end_it() {
        // A little at once, as proactive reclaim does it.
        let (most, end, taken) = fill(900.0, |number, _| if number == 40 { 45.0 } else { 0.0 });
        assert_eq!((most, end.full, taken), (900.0, true, 45.0), "{end:?}");
        // All of it, twice.
        let (most, end, _) = fill(900.0, |number, resident| if number == 70 || number == 100 { resident } else { 0.0 });
        assert_eq!((most, end.full), (900.0, true), "{end:?}");
        // A tenth of each step, all the time.
        let (most, end, _) = fill(900.0, |_, resident| if resident < 850.0 { 1.0 } else { 0.0 });
        assert_eq!((most, end.full), (900.0, true), "{end:?}");
        // All that is read for half a second in every two.
        let (most, end, _) =
            fill(900.0, |number, resident| if resident < 850.0 && number % 20 < 5 { 10.0 } else { 0.0 });
        assert_eq!((most, end.full), (900.0, true), "{end:?}");
    }

    #[test]
    fn a_cache_that_is_held_down_while_memory_is_unused_is_a_lower_bound() {
        // As much as is read.
        let (most, end, _) = fill(900.0, |_, resident| if resident > 400.0 { 10.0 } else { 0.0 });
        assert!(most <= 410.0 && !end.full && end.why.contains("reclaimed"), "{most}: {end:?}");
        // Half of it, again and again.
        let (most, end, _) = fill(900.0, |_, resident| if resident > 400.0 { 200.0 } else { 0.0 });
        assert!(most <= 410.0 && !end.full && end.why.contains("unused"), "{most}: {end:?}");
    }

    #[test]
    fn where_nobody_tells_what_is_unused_standing_still_has_to_do() {
        let mut growth = Growth::new(STEP, ROOM);
        for number in 0..20 {
            let began = Duration::from_millis(100) * number;
            growth.advance(began, f64::from(number + 1) * 10.0, 10.0, None);
        }
        assert!(growth.ended(Duration::from_secs(2)).is_some_and(|end| end.full));
        assert!(growth.is_used_up());
    }
}
