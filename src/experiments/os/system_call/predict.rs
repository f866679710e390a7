//! What calls are expected to cost: the way in and out, and instructions.

use super::calls::CLOCK_INSTRUCTIONS;
use super::{CALLS, FUNCTION, among_others, enters_alone, in_work, labels, repeated};
use crate::experiments::constants::{KERNEL_ENTRY_SHARE, KERNEL_INSTRUCTION, KERNEL_ROUND_TRIP};
use crate::experiments::os::row::Row;
use crate::experiments::prelude::*;

pub(super) fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let entry = KernelEntry::known(by);
    let served = CALLS.iter().filter(|call| enters_alone(call) && call.name != FUNCTION);
    let calls = CALLS
        .iter()
        .flat_map(|call| [in_work(call.name), repeated(call.name)].map(|labels| entry.prediction(call, labels)));
    let floor = entry.prediction(&CALLS[0], among_others());
    calls.chain([floor]).chain(served.map(|call| entry.service(call))).collect()
}

/// What entering and leaving the kernel is expected to cost, in nanoseconds.
struct KernelEntry {
    range: (f64, f64, f64),
    basis: Basis,
    /// One instruction of what comes between.
    instruction: (f64, f64, f64),
    pace: Basis,
}

impl KernelEntry {
    /// From the real clock read of this run where there is one, else from the constants table.
    fn known(by: &PredictionInput<'_>) -> Self {
        let cycle = CycleTime::known(by);
        let timed = by.metric("cpu.timer.overhead", &Labels::of([("method", "clock_gettime_syscall")]));
        let Some(timed) = timed else {
            let instruction = cycle.of(KERNEL_INSTRUCTION.times(1.0));
            let (range, basis) = (cycle.of(KERNEL_ROUND_TRIP.times(1.0)), KERNEL_ROUND_TRIP.basis());
            return KernelEntry { range, basis, instruction, pace: KERNEL_INSTRUCTION.basis() };
        };
        let basis = Basis::metric("cpu.timer.overhead method=clock_gettime_syscall");
        let rest = |share: f64| timed.value * (1.0 - share) / CLOCK_INSTRUCTIONS;
        KernelEntry {
            range: KERNEL_ENTRY_SHARE.times(timed.value),
            // Other calls take other paths: half to twice the pace of this call.
            instruction: (
                rest(KERNEL_ENTRY_SHARE.value),
                rest(KERNEL_ENTRY_SHARE.high) * 0.5,
                rest(KERNEL_ENTRY_SHARE.low) * 2.0,
            ),
            pace: basis.clone(),
            basis,
        }
    }

    /// What the kernel does between entering and leaving.
    fn service(&self, call: &Row) -> Prediction {
        let prediction = Prediction::of("os.system_call.service", labels(call.name), Unit::Nanoseconds);
        prediction.software(call.what, self.work(call), self.pace.clone())
    }

    fn work(&self, call: &Row) -> (f64, f64, f64) {
        let (each, least, most) = self.instruction;
        (each * call.instructions, least * call.instructions, most * call.instructions)
    }

    fn prediction(&self, call: &Row, labels: Labels) -> Prediction {
        let prediction = Prediction::of("os.system_call.time", labels, Unit::Nanoseconds);
        let share = call.entries;
        let (value, low, high) = self.range;
        let entered = if share > 0.0 {
            prediction.hardware(
                "entering and leaving the kernel",
                (value * share, low * share, high * share),
                self.basis.clone(),
            )
        } else {
            prediction
        };
        if call.instructions > 0.0 { entered.software(call.what, self.work(call), self.pace.clone()) } else { entered }
    }
}
