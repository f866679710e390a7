//! The noise probe: how much time something else takes from a CPU that only reads its clock.
//!
//! The one way to see interruptions shorter than the kernel's accounting tick: interrupts, a hypervisor that takes the
//! CPU, firmware.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::sys::clock::Source;
use crate::sys::counters;

/// A gap between two readings longer than this is time that something else took.
const GAP_NANOSECONDS: f64 = 1_000.0;

/// What a noise probe saw.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Duration of the probe in nanoseconds.
    pub span: f64,
    /// Gaps longer than a microsecond.
    pub gaps: u64,
    /// Time in them, in nanoseconds.
    pub lost: f64,
    /// The longest, in nanoseconds.
    pub longest: f64,
    /// Involuntary context switches in the same span.
    pub preemptions: i64,
}

impl Noise {
    /// Share of the time that was lost.
    pub fn lost_share(&self) -> f64 {
        self.lost / self.span
    }
}

/// Reads the clock without pause for `span` on the current CPU.
pub fn probe(source: Source, hertz: f64, span: Duration) -> Noise {
    let before = counters::thread();
    let gap_ticks = (GAP_NANOSECONDS * hertz / 1e9) as i64;
    let nanoseconds = |ticks: i64| ticks as f64 / hertz * 1e9;
    let start = source.stamp().ticks;
    let end = start + (span.as_secs_f64() * hertz) as i64;
    let (mut last, mut gaps, mut lost, mut longest) = (start, 0_u64, 0_i64, 0_i64);
    while last < end {
        let now = source.stamp().ticks;
        let gap = now - last;
        if gap > gap_ticks {
            gaps += 1;
            lost += gap;
            longest = longest.max(gap);
        }
        last = now;
    }
    Noise {
        span: nanoseconds(last - start),
        gaps,
        lost: nanoseconds(lost),
        longest: nanoseconds(longest),
        preemptions: counters::thread().involuntary_switches - before.involuntary_switches,
    }
}
