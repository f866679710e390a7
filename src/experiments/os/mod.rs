//! The operating-system chapter: system calls, processes, threads, switches, signals. What several of its experiments predict with is
//! here.

pub mod channel;
pub mod children;
pub mod container;
pub mod context_switch;
pub mod lock;
pub mod operation;
pub mod poll;
pub mod process_creation;
pub mod row;
pub mod scaling;
pub mod signal;
pub mod sleep;
pub mod sweep;
pub mod system_call;
pub mod thread_creation;

use super::constants::{CycleTime, KERNEL_INSTRUCTION};
use crate::experiments::prelude::*;

/// What kernel code of a number of instructions is expected to cost, in nanoseconds: at the pace of the system calls of this
/// run, between the fastest of them and half the pace of the slowest, because a call that is repeated runs on predictors that know
/// it and other code does not; else at the constant's.
fn kernel_work(by: &PredictionInput<'_>, instructions: f64) -> ((f64, f64, f64), Basis) {
    let time = |call: &str| system_call::paid(by.known, call).map(|found| found.value);
    let paces: Vec<f64> = time("enosys").map_or_else(Vec::new, |floor| {
        system_call::work()
            .filter_map(|(call, instructions)| Some((time(call)? - floor) / instructions))
            .filter(|&pace| pace > 0.0)
            .collect()
    });
    match (median(&paces), paces.iter().copied().reduce(f64::min), paces.iter().copied().reduce(f64::max)) {
        (Some(pace), Some(fastest), Some(slowest)) => (
            (pace * instructions, fastest * instructions, 2.0 * slowest * instructions),
            Basis::metric("os.system_call.time of several calls, less the floor, per instruction"),
        ),
        _ => (CycleTime::known(by).of(KERNEL_INSTRUCTION.times(instructions)), KERNEL_INSTRUCTION.basis()),
    }
}
