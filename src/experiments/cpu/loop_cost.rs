//! # Question
//!
//! What does one iteration of an empty loop cost? Every benchmark has such a loop around the code that it measures, and
//! many benchmarks subtract its cost.
//!
//! # Method
//!
//! sysdyno times three empty loops: with the counter in a register, with the counter in memory, and as an optimising
//! compiler builds it. Each loop runs N and 2N iterations, alternately, in batches of at least 25 µs. The difference
//! divided by N is the cost of one iteration, in core cycles by the clock probes around each batch.
//!
//! Everything that occurs once in a batch cancels: the call, the timing pair and the mispredicted exit.
//!
//! - **registers**: assembly, one subtraction of two registers and one taken branch. The body starts at a 64-byte
//!   boundary. The same loop is also timed 16, 32 and 48 bytes into a 64-byte block.
//! - **memory**: counter and limit are on the stack. The loop increments, loads and compares the counter, as gcc
//!   compiles `for (i = 0; i < n; i++)` without optimisation. Other compilers choose other instructions.
//! - **compiled**: a `for` loop of the compiler that built sysdyno, at full optimisation. Its index must exist in a
//!   register in every iteration.
//!
//! # Prediction
//!
//! Cycles of this core design, by records of other runs, at the clock of this run. The loop in registers takes one cycle on
//! most cores: a taken branch. In memory each iteration waits for the stored counter, 4 to 6 cycles, or at most one on
//! cores that rename memory.
//!
//! # What could fool us
//!
//! - A benchmark that subtracts the loop from the cost of its body assumes that the two run one after the other. On an
//!   out-of-order core the two instructions of the loop run in parallel with the body. This cost is therefore not
//!   subtracted from any other result.
//! - A time of only N iterations includes the cost of starting and leaving the loop.
//! - Code alignment can double the cost of a small loop. The result has a remark if fewer than three of four alignments
//!   agree within 5 %.
//! - Unoptimised code measures store forwarding. Reports of "5 to 18 cycles per iteration" are the memory loop on a
//!   core whose clock was also reduced.
//! - `dec` subtracts a constant, which newer cores can execute in the renamer at no cost. The subtraction here uses two
//!   registers.
//!
//! # References
//!
//! - Agner Fog, microarchitecture.pdf (taken branches, store forwarding, memory renaming)
//! - Intel optimisation manual (JCC erratum)

use std::hint::black_box;

use crate::evaluate::missing::name_unpaired;
use crate::experiments::prelude::*;
use crate::sys::arch;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "cpu.loop",
    title: "Loop overhead",
    measures: "one iteration of an empty loop: in registers, in memory, compiled",
    method_version: 1,
    precision: Precision { target: 0.01, between: 0.002, busy: 0.002 },
    source: heading!("loop_cost.rs"),
    uses: &["cpu.cycle_time"],
    rules: RULES,
    publishes: &[
        Publication::cost("cpu.loop.overhead", Unit::Nanoseconds, "one iteration of an empty loop").in_summary()
    ],
    seconds: |_| 0.03,
    time_out: 10.0,
    predict,
    measure,
    figures,
    explain,
    ..Experiment::DEFAULT
};

/// Less than half a cycle per turn needs two taken branches per cycle and more: no core does it.
const FLOOR_CYCLES: f64 = 0.5;
/// A register loop slower than this is not waiting for its own two instructions.
const CEILING_CYCLES: f64 = 2.1;
/// Cycles of an iteration between which a core takes more than one for each branch, and no neighbour is there.
const BEAT: [f64; 2] = [1.04, 1.5];
/// Alignments agree within this.
const ALIGNMENTS_AGREE: f64 = 0.05;
/// This many alignments must agree.
const LEAST_AGREEING: f64 = 3.0;
/// The loop in memory may be faster than the one in registers by this factor before one of them is doubted.
const MEMORY_SLACK: f64 = 0.95;

rules! {
    FLOOR: "G8" Hard "`cpu.loop.overhead`", "at least {} per iteration", cycles(FLOOR_CYCLES);
    CEILING: "G8" Remark "`cpu.loop.overhead`",
        "a register loop takes at most {} per iteration", cycles(CEILING_CYCLES);
    MEMORY_SLOWER: "G20" Hard "`cpu.loop.overhead`",
        "the loop in memory takes at least {} times the loop in registers", plain(MEMORY_SLACK);
    ALIGNMENT: "alignment" Remark "`cpu.loop.overhead`",
        "at least {} of 4 alignments of the loop agree within {}", plain(LEAST_AGREEING), share(ALIGNMENTS_AGREE);
}
/// The long batch has this many times the turns of the short one.
const TIMES: u64 = 2;

const CODES: [&str; 3] = ["registers", "memory", "compiled"];

/// The optimised loop of this tool's own compiler; the index must exist in a register in every turn.
#[inline(never)]
extern "C" fn compiled_loop(turns: u64) {
    for turn in 0..turns {
        black_box(turn);
    }
}

fn code_labels(code: &str) -> Labels {
    Labels::of([("code", code)])
}

fn predict(_: &PredictionInput<'_>) -> Vec<Prediction> {
    CODES.map(|code| Prediction::of("cpu.loop.overhead", code_labels(code), Unit::Nanoseconds)).to_vec()
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let mut workloads = Vec::new();
    for (code, kernel) in
        CODES.into_iter().zip([arch::REGISTER_LOOPS[0], arch::memory_loop as arch::LoopKernel, compiled_loop])
    {
        let position = workloads.len();
        workloads.push(Workload::kernel("short", code_labels(code), 1, kernel));
        workloads
            .push(Workload::kernel("long", code_labels(code), 1, kernel).sized(Sizing::TimesThat(TIMES, position)));
    }
    for (quarter, kernel) in arch::REGISTER_LOOPS.into_iter().enumerate() {
        // Long enough that entering and leaving the loop do not show: a comparison of alignments needs no difference.
        workloads.push(Workload::kernel("aligned", alignment(quarter), 1, kernel).sized(Sizing::SameAs(1)));
    }
    rig.sample(workloads)
}

fn alignment(quarter: usize) -> Labels {
    Labels::none().with("offset", quarter * 16)
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    let alignments = alignments(study);
    let registers = turn(study, "registers").map(|estimate| estimate.value);
    for code in CODES {
        let Some(estimate) = turn(study, code) else {
            name_unpaired(study, findings, "cpu.loop.overhead", &code_labels(code), ["long", "short"]);
            continue;
        };
        let mut own = vec![
            gates::floor(&FLOOR, &estimate, FLOOR_CYCLES).because("two taken branches per cycle"),
            gates::resolved(&estimate),
        ];
        match code {
            "registers" => own.extend(register_gates(&estimate, &alignments)),
            "memory" => own.extend(registers.map(|registers| {
                Gate::at_least(&MEMORY_SLOWER, estimate.named("in memory {}"), registers * MEMORY_SLACK)
                    .because(format!("{MEMORY_SLACK} times the loop in registers"))
            })),
            _ => {}
        }
        findings.publish(study, Figure::batches("cpu.loop.overhead", code_labels(code), &estimate).gates(own));
    }
}

/// Cost of a turn of the register loop at each alignment that was measured.
fn alignments(study: &Study<'_>) -> Vec<f64> {
    (0..arch::REGISTER_LOOPS.len())
        .filter_map(|quarter| Estimate::undisturbed(&study.sample("aligned", &alignment(quarter))?))
        .map(|estimate| estimate.value)
        .collect()
}

/// Cost of one turn: what N more turns cost, over N.
fn turn(study: &Study<'_>, code: &str) -> Option<Estimate> {
    let (long, short) = (study.sample("long", &code_labels(code))?, study.sample("short", &code_labels(code))?);
    Estimate::difference(&long, &short, TIMES as f64)
}

fn register_gates(estimate: &Estimate, alignments: &[f64]) -> Vec<Gate> {
    let agreeing = Number::plain(most_agreeing(alignments) as f64).named("{} alignments agree");
    vec![
        Gate::at_most(&CEILING, estimate.named("{}"), CEILING_CYCLES).because("a slower loop waits for something else"),
        Gate::at_least(&ALIGNMENT, agreeing, LEAST_AGREEING).because(format!(
            "within {} of {}",
            Number::share(ALIGNMENTS_AGREE).text(),
            alignments.len()
        )),
    ]
}

/// Size of the largest group of values that lie within the tolerance of one of them.
fn most_agreeing(values: &[f64]) -> usize {
    values
        .iter()
        .map(|centre| values.iter().filter(|&value| (value / centre - 1.0).abs() <= ALIGNMENTS_AGREE).count())
        .max()
        .unwrap_or(0)
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    let cycles = |findings: &Findings, code| findings.metric("cpu.loop.overhead", &code_labels(code)).cloned();
    let text = |found: &Metric| found.cycles_shown();
    let both = cycles(findings, "registers").zip(cycles(findings, "memory"));
    if let Some((registers, memory)) = both.and_then(|(one, other)| Some((text(&one)?, other)))
        && let (Some(count), Some(memory)) = (memory.cycles, text(&memory))
    {
        let reason = if count < 2.5 {
            "this core renames memory, so the stored counter reaches the next iteration without the store buffer"
        } else {
            "the next iteration waits until the stored counter is forwarded to its load"
        };
        let beat = if (BEAT[0]..BEAT[1]).contains(&registers.value) {
            " Cores such as AMD Zen 3 take 1, 9/8, 8/7, 5/4 or 10/7 cycles per taken branch, which changes from moment to \
             moment."
        } else {
            ""
        };
        findings.say(format!(
            "An iteration costs {registers} cycles with the counter in a register. It costs {memory} with counter and \
             limit in memory, as in unoptimised code of gcc. The reason: {reason}. Do not subtract either from the cost of a loop \
             body, because loop and body run in parallel.{beat}",
        ));
    }
    if let Some(compiled) = cycles(findings, "compiled").and_then(|found| text(&found)) {
        findings.say(format!("The loop of the optimising compiler costs {compiled} cycles per iteration."));
    }
    let alignments = alignments(study);
    if !alignments.is_empty() {
        let mut values: Vec<String> = alignments.iter().map(|&value| Shown::of(value, Unit::One).to_string()).collect();
        values.dedup();
        let same = if values.len() == 1 { "the same " } else { "" };
        findings.say(format!(
            "At 0, 16, 32 and 48 bytes into a 64-byte block, the register loop takes {same}{} cycles per iteration.",
            values.join(", ")
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alignments_agree_when_three_of_four_do() {
        assert_eq!(most_agreeing(&[1.0, 1.01, 0.99, 2.0]), 3);
        assert_eq!(most_agreeing(&[1.0, 1.2, 1.5, 2.0]), 1);
        assert_eq!(most_agreeing(&[]), 0);
    }
}
