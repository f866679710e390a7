//! What the kernel counted during a batch, over all tasks that take part in it.

use super::workload::Witness;
use crate::sys::counters::ThreadCounters;

/// Switches and operations agree within this share (gate G25).
const SWITCHES_AGREE: f64 = 0.01;

/// What the kernel counted during a batch, over all tasks that take part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    pub voluntary: i64,
    pub involuntary: i64,
    pub faults: i64,
    /// Nanoseconds.
    pub cpu_time: f64,
    /// Whether all of them were on the measured CPU.
    pub one_cpu: bool,
}

impl Counts {
    pub fn between(before: &ThreadCounters, after: &ThreadCounters) -> Self {
        let faults = |counters: &ThreadCounters| counters.minor_faults + counters.major_faults;
        Counts {
            voluntary: after.voluntary_switches - before.voluntary_switches,
            involuntary: after.involuntary_switches - before.involuntary_switches,
            faults: faults(after) - faults(before),
            cpu_time: (after.cpu_time - before.cpu_time) as f64,
            one_cpu: true,
        }
    }

    pub fn and(&self, other: &Counts) -> Self {
        Counts {
            voluntary: self.voluntary + other.voluntary,
            involuntary: self.involuntary + other.involuntary,
            faults: self.faults + other.faults,
            cpu_time: self.cpu_time + other.cpu_time,
            one_cpu: self.one_cpu && other.one_cpu,
        }
    }

    pub fn switches(&self) -> f64 {
        (self.voluntary + self.involuntary) as f64
    }
}

/// The counts of all witnesses of a batch; an error when one was not where it must be.
pub(super) fn seen(before: &[Witness], after: &[Witness], cpu: u32) -> Result<Counts, String> {
    if let Some(lost) = before.iter().chain(after).find(|witness| witness.cpu != witness.wanted) {
        return Err(format!("a task of the measurement ran on CPU {} instead of {}", lost.cpu, lost.wanted));
    }
    let none = Counts { voluntary: 0, involuntary: 0, faults: 0, cpu_time: 0.0, one_cpu: true };
    Ok(before.iter().zip(after).fold(none, |sum, (before, after)| {
        let counts = Counts::between(&before.counters, &after.counters);
        sum.and(&Counts { one_cpu: after.cpu == cpu, ..counts })
    }))
}

/// How far a count of switches may be from the number of handoffs (gate G25).
pub(super) fn few(hops: f64) -> f64 {
    (SWITCHES_AGREE * hops).max(1.0)
}
