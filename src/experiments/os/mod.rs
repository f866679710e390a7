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

/// Time of an instruction of other code of the kernel, over that of the fastest and of the slowest system call.
const FASTER: f64 = 0.65;
const SLOWER: f64 = 1.5;

/// What kernel code of a number of instructions is expected to cost, in nanoseconds: at the pace of the system calls of this
/// run, else at the constant's. Code that repeats, as for each of many descriptors, is faster than the fastest of them, because
/// predictors know it. The counts of instructions are from one Golden Cove host, and nine of ten results of a Zen 3 host are inside.
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
            (pace * instructions, FASTER * fastest * instructions, SLOWER * slowest * instructions),
            Basis::metric("os.system_call.time of several calls, less the floor, per instruction"),
        ),
        _ => (CycleTime::known(by).of(KERNEL_INSTRUCTION.times(instructions)), KERNEL_INSTRUCTION.basis()),
    }
}
