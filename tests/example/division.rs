//! # Question
//!
//! What does an integer division cost when the next one needs its result?
//!
//! # Method
//!
//! A loop divides a 64-bit number by a divisor that the compiler does not know, and feeds the result into the next
//! dividend, eight times per turn. It is timed with N and with 2N turns, alternately. The difference, divided by the
//! number of divisions in N turns, is the cost of one. Clock probes around each batch convert it into core cycles. The
//! two clock reads of a batch enclose the divisions, one addition after each, the loop, one call and one return.
//!
//! # Prediction
//!
//! The latency of a division by the literature, and one addition.
//!
//! # What could fool us
//!
//! - Independent divisions overlap: only a chain shows the latency.
//! - Small dividends are faster on some cores: the dividend here stays above 2^40.
//!
//! # References
//!
//! Agner Fog, instruction tables (DIV r64); uops.info.

use std::hint::black_box;

use crate::experiments::prelude::*;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "cpu.division",
    title: "Integer division",
    measures: "one 64-bit division that waits for the one before it",
    words: &["divide"],
    method_version: 1,
    precision: Precision { target: 0.01, between: 0.002, busy: 0.004 },
    source: heading!("division.rs"),
    uses: &["cpu.cycle_time"],
    rules: RULES,
    constants: CONSTANTS,
    publishes: &[
        Publication::cost("cpu.division.time", Unit::Nanoseconds, "one division in a chain of them").in_summary()
    ],
    seconds: |_| 0.01,
    time_out: 10.0,
    predict,
    measure,
    figures,
    explain,
    ..Experiment::DEFAULT
};

/// No core divides 64-bit numbers in fewer cycles.
const FLOOR_CYCLES: f64 = 5.0;
/// The long batch has this many times the turns of the short one.
const TIMES: u64 = 2;
/// Divisions in a turn.
const DIVISIONS: u64 = 8;

constants! {
    /// A 64-bit division.
    DIVISION = 14.0 in 7.0 ..= 45.0 "cycles", "Agner Fog, instruction tables: DIV r64, 7–18 cycles since Zen 2 and Ice Lake, more before";
    /// A register addition.
    ADDITION = 1.0 in 0.9 ..= 1.1 "cycles", "Agner Fog, instruction tables: ADD r, r";
}

rules! {
    FLOOR: "G8" Hard "`cpu.division.time`", "at least {} per division", cycles(FLOOR_CYCLES);
}

#[inline(never)]
extern "C" fn divisions(turns: u64) {
    let divisor = black_box(3_u64);
    let mut value = black_box(1_u64 << 40);
    for _ in 0..turns {
        for _ in 0..DIVISIONS {
            value = value / divisor + (1 << 40);
        }
    }
    black_box(value);
}

fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let cycle = CycleTime::known(by);
    vec![
        Prediction::of("cpu.division.time", Labels::none(), Unit::Nanoseconds)
            .hardware("latency of a division", cycle.of(DIVISION.times(1.0)), DIVISION.basis())
            .hardware("adding to the quotient", cycle.of(ADDITION.times(1.0)), ADDITION.basis()),
    ]
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    rig.sample(vec![
        Workload::kernel("short", Labels::none(), DIVISIONS, divisions),
        Workload::kernel("long", Labels::none(), DIVISIONS, divisions).sized(Sizing::TimesThat(TIMES, 0)),
    ])
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    let Some(estimate) = division(study) else { return };
    let floor = gates::floor(&FLOOR, &estimate, FLOOR_CYCLES).because("the fastest divider known");
    let own = vec![floor, gates::resolved(&estimate)];
    findings.publish(study, Figure::batches("cpu.division.time", Labels::none(), &estimate).gates(own));
}

fn explain(_: &Study<'_>, findings: &mut Findings) {
    if let Some(cycles) = findings.metric("cpu.division.time", &Labels::none()).and_then(|found| found.cycles) {
        findings.say(format!("A division and an addition take {} cycles from result to result.", number(cycles)));
    }
}

fn division(study: &Study<'_>) -> Option<Estimate> {
    let (long, short) = (study.sample("long", &Labels::none())?, study.sample("short", &Labels::none())?);
    Estimate::difference(&long, &short, TIMES as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions_of_no_turn_end() {
        divisions(0);
        divisions(3);
    }
}
