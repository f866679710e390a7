//! Which CPU to measure on: the usual one, or a quieter one of the same speed where the usual one is busy.

use std::time::Duration;

use super::doctor::lost_share;
use crate::machine::Machine;
use crate::plan;
use crate::results::problem::Problem;
use crate::results::wording::percent;

/// How long the clock of a CPU is read.
pub(super) const SPAN: Duration = Duration::from_millis(30);
/// Share of the time that others take beyond which a CPU is busy: timer interrupts take a few tenths of a percent.
pub(super) const BUSY: f64 = 0.05;
/// CPUs that are looked at in addition to the usual one.
const MOST: usize = 4;

/// The CPU that was asked for, or without a wish the usual one or a quieter one of the same speed. With lines for the user where
/// it is busy.
pub(super) fn choose(asked: Option<u32>, allowed: &[u32], machine: &Machine) -> Result<(u32, Vec<String>), Problem> {
    let usual = plan::choose_cpu(asked, allowed, machine)?;
    let Some(share) = lost_share(usual, SPAN).filter(|&share| share > BUSY) else { return Ok((usual, Vec::new())) };
    let busy = format!("other tasks use CPU {usual} for {} of the time and would disturb the results", percent(share));
    let quieter = asked.is_none().then(|| quieter(usual, share, allowed, machine)).flatten();
    if let Some(other) = quieter {
        let words = format!("note: {busy}. Measuring CPU {other} instead (--cpu {usual} overrides this choice)");
        return Ok((other, vec![words]));
    }
    let hint = "hint: stop these tasks (`top`), wait, or choose another CPU with --cpu N".to_owned();
    Ok((usual, vec![format!("warning: {busy}"), hint]))
}

/// The quietest of the other CPUs of the same speed, if it is much quieter.
fn quieter(usual: u32, share: f64, allowed: &[u32], machine: &Machine) -> Option<u32> {
    let speed = |cpu: u32| machine.maximum_core_hertz(cpu).map_or(0.0, |found| found.value);
    let others = allowed.iter().rev().copied().filter(|&cpu| cpu != usual && speed(cpu) >= 0.99 * speed(usual));
    others
        .take(MOST)
        .filter_map(|cpu| Some((cpu, lost_share(cpu, SPAN)?)))
        .min_by(|one, other| one.1.total_cmp(&other.1))
        .filter(|(_, least)| *least < share / 2.0)
        .map(|(cpu, _)| cpu)
}
