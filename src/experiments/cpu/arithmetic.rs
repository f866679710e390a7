//! # Question
//!
//! What does an addition, a multiplication, a division or a square root cost? How long does the next operation wait for
//! its result, and how many run at the same time?
//!
//! # Method
//!
//! Each operation runs in a loop of N operations and in a loop of 2N, in assembly. N is 24 on x86_64 and 32 on aarch64.
//! Both loops run the same number of iterations, alternately, in batches of at least 25 µs. The difference per iteration,
//! divided by N, is the cost of an operation. Clock probes around each batch convert it into core cycles. The two clock
//! reads of a batch enclose the operations, the loop, the loads of the operands, one call and one return.
//!
//! The label **chain** names the dependency between operations:
//!
//! - **latency**: each operation needs the result of the one before. The metric is the time from result to result.
//! - **throughput**: the operations are independent. Additions and multiplications go round 8 integer registers, and 12 or
//!   16 for doubles. The metric is the time per operation.
//!
//! The label **operation** names the operation. Integers are unsigned and doubles are scalar:
//!
//! - **integer_add**, **integer_multiply**: 64 bits, registers only.
//! - **integer_divide_32**: a number of 32 bits by one of 16 bits. **integer_divide_64**: a number of 64 bits by one of 32
//!   bits. Quotients have half of the bits. On x86_64 the upper half of the dividend is zero, as in compiled code.
//! - **double_add**, **double_multiply**, **double_fused_multiply_add**, **double_divide**, **double_square_root**. All
//!   operands have random digits in every place of the mantissa.
//!
//! Operands keep their size along a chain. Pairs of additions or multiplications undo each other, as do pairs of divisions
//! of doubles. A fused multiply-add goes towards a number of about 1.6. On x86_64 a quotient of integers is raised to the
//! size of a dividend with one addition. The short loop has as many additions as the long one, so they cancel. On aarch64
//! each quotient is the next divisor. A chain of roots begins anew twice in an iteration of both loops, from about 10^301.
//! Two logical operations put that number in place of the last root, so that the first root waits for it.
//!
//! Nothing else is subtracted. Twice the short iteration less the long one must be a plausible cost of the loop and of what
//! stands in both loops. Before the first batch, each loop runs a few iterations. Its result must be the one that Rust
//! computes, to the last bit.
//!
//! # Prediction
//!
//! Cycles of this core design, by published tables of instructions and by the guides of Arm. Cores without a table have
//! the range of all tables. Ranges for divisions contain what other operands take.
//!
//! # What could fool us
//!
//! - Independent operations overlap: a loop without dependencies shows the throughput, and is not the time of one operation.
//! - A divider ends early for short quotients, and a root of one is trivial. The sizes above are those of ordinary numbers.
//! - Intel cores before Ice Lake divide numbers of 64 bits in microcode. There the cost depends much on the numbers.
//! - Some cores add constants while they rename registers, in no time. The additions here are of registers.
//! - Denormal numbers, infinities and invalid results can take a hundred cycles. No operand becomes one, as the comparison with
//!   Rust shows.
//! - A vector operation computes several results in about the same time. Compilers use them where they can.
//! - The clock probes are calibrated with multiplications. A multiplication of three cycles is therefore no independent
//!   result, but its relation to the other operations is.
//!
//! # References
//!
//! - Agner Fog, instruction tables
//! - uops.info, tables of latency and throughput
//! - Arm software optimisation guides for Neoverse N1, V1 and V2
//! - McVoy and Staelin, lmbench (lat_ops, par_ops)

use std::hint::black_box;

use super::arithmetic_costs::Design;
use crate::evaluate::missing::name_unpaired;
use crate::experiments::prelude::*;
use crate::sys::arch::{self, ARITHMETIC_PER_TURN, Arithmetic};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "cpu.arithmetic",
    title: "Arithmetic",
    measures: "integer and floating-point operations, dependent and independent",
    words: &["division", "multiplication", "instruction"],
    method_version: 1,
    precision: Precision { target: 0.01, between: 0.002, busy: 0.004 },
    source: heading!("arithmetic.rs"),
    uses: &["cpu.cycle_time"],
    words_of: |key, value| OPERATIONS.iter().find(|row| key == "operation" && row.name == value).map(|row| row.phrase),
    rules: RULES,
    publishes: &[
        Publication::cost("cpu.arithmetic.time", Unit::Nanoseconds, "one operation").in_summary_where(is_in_summary)
    ],
    seconds: |_| 0.05,
    time_out: 10.0,
    predict,
    measure,
    figures,
    explain,
    ..Experiment::DEFAULT
};

/// No operation has its result within the cycle in which it begins. Slack: resolution of the clock probes.
const LEAST_LATENCY: f64 = 0.97;
/// No core begins more of these operations than this in a cycle.
const MOST_PER_CYCLE: f64 = 12.0;
/// The long kernel has this many times the operations of the short one.
const TIMES: f64 = 2.0;
/// The loop takes at most this of a turn: a subtraction and a taken branch, at its slowest.
const LOOP_CYCLES: f64 = 4.0;
/// Share of the long turn by which twice the short one may miss that.
const ADDS_UP: f64 = 0.02;
/// The two logical operations with which a chain of roots begins anew take at most this, twice in a turn.
const BEGIN_ANEW_CYCLES: f64 = 8.0;
/// A chain may be this much faster than independent operations: resolution of the comparison, in cycles.
const SLACK_CYCLES: f64 = 0.15;
/// Additions and multiplications take whole numbers of cycles, within this.
const WHOLE: f64 = 0.04;

rules! {
    PACE: "G7" Hard "`cpu.arithmetic.time`",
        "operations run at the same speed in both loops. Twice the short iteration less the long one is between 0 and \
         {} above what both have, within {} of the long iteration", cycles(LOOP_CYCLES), share(ADDS_UP);
    LATENCY_FLOOR: "G8" Hard "`cpu.arithmetic.time chain=latency`", "at least {}", cycles(LEAST_LATENCY);
    THROUGHPUT_FLOOR: "G8" Hard "`cpu.arithmetic.time chain=throughput`",
        "at most {} operations in a cycle", plain(MOST_PER_CYCLE);
    OVERLAP: "G20" Hard "`cpu.arithmetic.time chain=latency`",
        "a dependent operation is not faster than an independent one (slack: {} and three standard errors of both)",
        cycles(SLACK_CYCLES);
    WHOLE_CYCLES: "G20" Hard "additions and multiplications of integers, dependent",
        "a whole number of cycles within {}", share(WHOLE);
}

/// An operation with its words.
struct Row {
    operation: Arithmetic,
    /// The label.
    name: &'static str,
    phrase: &'static str,
    /// Start of the chain, and what else an operation needs: as integers, or as bits of doubles.
    operands: [u64; 3],
}

/// Operations in the order of the report.
const OPERATIONS: [Row; 9] = [
    Row::of(Arithmetic::IntegerAdd, "integer_add", "integer addition", INTEGERS),
    Row::of(Arithmetic::IntegerMultiply, "integer_multiply", "integer multiplication", INTEGERS),
    Row::of(
        Arithmetic::IntegerDivide32,
        "integer_divide_32",
        "32-bit division",
        // Dividend, divisor, and what raises a quotient to the size of a dividend.
        [0xc3a5_9d1f, 0xb51d, 0xc3a5_9d1f],
    ),
    Row::of(
        Arithmetic::IntegerDivide64,
        "integer_divide_64",
        "64-bit division",
        [0xc3a5_9d1f_7b42_61e5, 0xb504_f333, 0xc3a5_9d1f_7b42_61e5],
    ),
    Row::of(
        Arithmetic::DoubleAdd,
        "double_add",
        "floating-point addition",
        doubles(START, 0.234_567_89, -0.234_567_89),
    ),
    Row::of(Arithmetic::DoubleMultiply, "double_multiply", "floating-point multiplication", RATIO_AND_INVERSE),
    Row::of(
        Arithmetic::FusedMultiplyAdd,
        "double_fused_multiply_add",
        "fused multiply-add",
        doubles(START, -0.987_654_32, 3.198_765_43),
    ),
    Row::of(Arithmetic::DoubleDivide, "double_divide", "floating-point division", RATIO_AND_INVERSE),
    Row::of(
        Arithmetic::SquareRoot,
        "double_square_root",
        "square root",
        doubles(1.234_567_89e301, 1.234_567_89e301, 0.0),
    ),
];

/// Where chains of doubles start: digits in every place of the mantissa.
const START: f64 = 1.234_567_89;
const RATIO: f64 = 1.734_567_89;
const RATIO_AND_INVERSE: [u64; 3] = doubles(START, RATIO, 1.0 / RATIO);
/// An odd factor keeps products from becoming zero.
const INTEGERS: [u64; 3] = [0x0123_4567_89ab_cdef, 0x9e37_79b9_7f4a_7c15, 0];

const fn doubles(one: f64, two: f64, three: f64) -> [u64; 3] {
    [one.to_bits(), two.to_bits(), three.to_bits()]
}

const CHAINS: [&str; 2] = ["latency", "throughput"];
/// Registers that independent additions and multiplications of integers use.
const INTEGER_REGISTERS: u64 = 8;
/// The same for doubles: each has two operations in a turn.
const DOUBLE_REGISTERS: u64 = ARITHMETIC_PER_TURN / 2;

impl Row {
    const fn of(operation: Arithmetic, name: &'static str, phrase: &'static str, operands: [u64; 3]) -> Self {
        Row { operation, name, phrase, operands }
    }

    fn labels(&self, chain: &str) -> Labels {
        Labels::of([("operation", self.name), ("chain", chain)])
    }

    fn is_integer(&self) -> bool {
        self.name.starts_with("integer")
    }

    fn is_integer_division(&self) -> bool {
        matches!(self.operation, Arithmetic::IntegerDivide32 | Arithmetic::IntegerDivide64)
    }

    /// Whether the CPU has the operation.
    fn check(&self) -> Result<(), &'static str> {
        match self.operation {
            Arithmetic::FusedMultiplyAdd if !arch::has_fused_multiply_add() => Err("the CPU has no fused multiply-add"),
            _ => Ok(()),
        }
    }

    /// Cycles of a turn that stand in both loops besides the loop itself, so that they cancel.
    fn stands_in_both(&self, chain: &str) -> f64 {
        match self.operation {
            _ if chain != "latency" => 0.0,
            Arithmetic::IntegerDivide32 | Arithmetic::IntegerDivide64 if arch::QUOTIENTS_ARE_RESTORED => {
                TIMES * ARITHMETIC_PER_TURN as f64
            }
            Arithmetic::SquareRoot => 2.0 * BEGIN_ANEW_CYCLES,
            _ => 0.0,
        }
    }

    /// One operation of the chain: the value after it, and its place in the turn.
    fn next(&self, value: u64, place: u64) -> u64 {
        let [dividend, divisor, raise] = self.operands;
        let pair = f64::from_bits(self.operands[1 + (place % 2) as usize]);
        let [_, factor, summand] = self.operands.map(f64::from_bits);
        let double = f64::from_bits(value);
        match self.operation {
            Arithmetic::IntegerAdd => value.wrapping_add(divisor),
            Arithmetic::IntegerMultiply => value.wrapping_mul(divisor),
            Arithmetic::IntegerDivide32 | Arithmetic::IntegerDivide64 if arch::QUOTIENTS_ARE_RESTORED => {
                value / divisor + raise
            }
            Arithmetic::IntegerDivide32 | Arithmetic::IntegerDivide64 => dividend / value,
            Arithmetic::DoubleAdd => (double + pair).to_bits(),
            Arithmetic::DoubleMultiply => (double * pair).to_bits(),
            Arithmetic::FusedMultiplyAdd => double.mul_add(factor, summand).to_bits(),
            Arithmetic::DoubleDivide => (double / pair).to_bits(),
            Arithmetic::SquareRoot => double.sqrt().to_bits(),
        }
    }

    /// What a kernel with this many operations in a turn returns after some turns.
    fn expected(&self, chain: &str, turns: u64, operations: u64) -> u64 {
        let [start, second, _] = self.operands;
        let run = |from: u64, operations: u64| (0..operations).fold(from, |value, place| self.next(value, place));
        match (self.operation, chain) {
            (Arithmetic::SquareRoot, "latency") => run(second, operations / 2),
            (Arithmetic::SquareRoot, _) => run(second, 1).wrapping_mul(DOUBLE_REGISTERS),
            _ if self.is_integer_division() && chain == "throughput" => start / second,
            _ if self.is_integer_division() && !arch::QUOTIENTS_ARE_RESTORED => run(second, turns * operations),
            (_, "latency") => run(start, turns * operations),
            _ => {
                let registers = if self.is_integer() { INTEGER_REGISTERS } else { DOUBLE_REGISTERS };
                run(start, turns * operations / registers).wrapping_mul(registers)
            }
        }
    }
}

/// Every operation with every dependency that this CPU has.
fn variants() -> impl Iterator<Item = (&'static Row, &'static str)> {
    static ROWS: [Row; 9] = OPERATIONS;
    ROWS.iter().flat_map(|row| CHAINS.into_iter().map(move |chain| (row, chain)))
}

/// The summary shows how long results take, for operations that differ between designs.
fn is_in_summary(labels: &Labels) -> bool {
    let shown = ["integer_multiply", "integer_divide_64", "double_fused_multiply_add", "double_divide"];
    labels.get("chain") == Some("latency") && labels.get("operation").is_some_and(|name| shown.contains(&name))
}

fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let (cycle, design) = (CycleTime::known(by), Design::of(by));
    let of = |(row, chain): (&Row, &str)| {
        let is_chain = chain == "latency";
        let what = if is_chain { "the way from operand to result" } else { "the distance of operations in the units" };
        Prediction::of("cpu.arithmetic.time", row.labels(chain), Unit::Nanoseconds).hardware(
            what,
            cycle.of(design.cycles(row.operation, is_chain)),
            design.basis(),
        )
    };
    variants().map(of).collect()
}

/// Turns of the check of a kernel: an odd number that is not one.
const CHECKED_TURNS: u64 = 3;

fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let mut workloads = Vec::new();
    for (row, chain) in variants() {
        if let Err(why) = row.check() {
            rig.unavailable("cpu.arithmetic.time", &row.labels(chain), &why);
            continue;
        }
        let [of_chain, independent] = arch::arithmetic(row.operation);
        let kernels = if chain == "latency" { of_chain } else { independent };
        let position = workloads.len();
        for (name, kernel, times) in [("short", kernels[0], 1), ("long", kernels[1], TIMES as u64)] {
            let operations = times * ARITHMETIC_PER_TURN;
            let (found, expected) =
                (kernel(CHECKED_TURNS, &row.operands), row.expected(chain, CHECKED_TURNS, operations));
            if found != expected {
                return Err(Problem::new(format!(
                    "{} ({chain}) computed {found:#x} instead of {expected:#x}",
                    row.name
                )));
            }
            let workload = Workload::of(name, row.labels(chain), operations, move |turns| {
                black_box(kernel(turns, &row.operands));
                Ok(())
            });
            workloads.push(if times == 1 { workload } else { workload.sized(Sizing::SameAs(position)) });
        }
    }
    rig.sample(workloads)
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    for (row, chain) in variants() {
        let labels = row.labels(chain);
        let Some((estimate, of_pace)) = time(study, &labels).zip(pace_gate(study, row, chain)) else {
            name_unpaired(study, findings, "cpu.arithmetic.time", &labels, ["long", "short"]);
            continue;
        };
        let mut own = vec![of_pace, gates::resolved(&estimate)];
        if chain == "latency" {
            let why = "a result is there in the next cycle, at the earliest";
            own.push(gates::floor(&LATENCY_FLOOR, &estimate, LEAST_LATENCY).because(why));
            own.extend(overlap_gate(study, row, &estimate));
            if matches!(row.operation, Arithmetic::IntegerAdd | Arithmetic::IntegerMultiply) {
                let whole = estimate.value.round().max(1.0);
                own.push(Gate::near(&WHOLE_CYCLES, estimate.named("{}"), whole, WHOLE));
            }
        } else {
            let floor = gates::floor(&THROUGHPUT_FLOOR, &estimate, 1.0 / MOST_PER_CYCLE);
            own.push(floor.because("no core has more units"));
        }
        findings.publish(study, Figure::batches("cpu.arithmetic.time", labels, &estimate).gates(own));
    }
}

/// Cost of an operation: what N more in a turn cost, over N.
fn time(study: &Study<'_>, labels: &Labels) -> Option<Estimate> {
    let (long, short) = (study.sample("long", labels)?, study.sample("short", labels)?);
    Estimate::difference(&long, &short, TIMES)
}

/// Whether both loops have one pace: then the rest is the loop and what stands in both.
fn pace_gate(study: &Study<'_>, row: &Row, chain: &str) -> Option<Gate> {
    let labels = row.labels(chain);
    let (long, short) = (study.sample("long", &labels)?, study.sample("short", &labels)?);
    let apart = Estimate::net(&short.shared_with(&long), &long.shared_with(&short))?;
    let operations = TIMES * ARITHMETIC_PER_TURN as f64;
    let slack = ADDS_UP * operations * Estimate::undisturbed(&long)?.value;
    let rest = apart.scaled(operations, apart.unit).named("twice the short iteration less the long one is {}");
    Some(Gate::between(&PACE, rest, -slack, row.stands_in_both(chain) + LOOP_CYCLES + slack))
}

/// A chain is not faster than independent operations.
fn overlap_gate(study: &Study<'_>, row: &Row, estimate: &Estimate) -> Option<Gate> {
    let other = time(study, &row.labels("throughput"))?;
    let slack = SLACK_CYCLES + 3.0 * (estimate.standard_error() + other.standard_error());
    let reason = format!("{} of independent operations less a slack of {}", number(other.value), number(slack));
    Some(Gate::at_least(&OVERLAP, estimate.named("{}"), other.value - slack).because(reason))
}

fn explain(_: &Study<'_>, findings: &mut Findings) {
    let figures = findings.metrics.clone();
    let found = |row: &Row, chain: &str| {
        figures.iter().find(|found| found.name == "cpu.arithmetic.time" && found.labels == row.labels(chain))
    };
    let cycles = |row: &Row, chain: &str| found(row, chain).and_then(Metric::cycles_text);
    let table = pivot(
        "Core cycles of an operation",
        OPERATIONS.iter().filter(|row| CHAINS.iter().any(|chain| found(row, chain).is_some())),
        &[
            ("operation", &|row| Some(row.phrase.to_owned())),
            ("dependent", &|row| cycles(row, "latency")),
            ("independent", &|row| cycles(row, "throughput")),
            ("in parallel", &|row| {
                let (one, other) = (found(row, "latency")?, found(row, "throughput")?);
                Some(number(one.cycles? / other.cycles?))
            }),
        ],
    );
    findings.analysis.extend(table);
    let latency = |wanted: Arithmetic| {
        let row = OPERATIONS.iter().find(|row| row.operation == wanted)?;
        let found = found(row, "latency")?;
        found.cycles.zip(found.cycles_shown())
    };
    let pair = latency(Arithmetic::IntegerDivide64).zip(latency(Arithmetic::IntegerMultiply));
    if let Some(((division, shown), (multiplication, _))) = pair {
        findings.say(format!(
            "A division of 64-bit integers takes {shown} cycles from operand to result, as long as {:.1} multiplications.",
            division / multiplication
        ));
    }
    if let Some(((_, division), (_, root))) = latency(Arithmetic::DoubleDivide).zip(latency(Arithmetic::SquareRoot)) {
        findings.say(format!("A division of doubles takes {division} cycles, and a square root {root}."));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_computes_what_rust_computes() {
        for (row, chain) in variants().filter(|(row, _)| row.check().is_ok()) {
            let [of_chain, independent] = arch::arithmetic(row.operation);
            let kernels = if chain == "latency" { of_chain } else { independent };
            for (kernel, times) in kernels.into_iter().zip([1, 2]) {
                for turns in [1, 2, 7] {
                    let expected = row.expected(chain, turns, times * ARITHMETIC_PER_TURN);
                    assert_eq!(kernel(turns, &row.operands), expected, "{} {chain} {turns}", row.name);
                }
            }
        }
    }

    #[test]
    fn operands_keep_their_size_along_a_chain() {
        for row in &OPERATIONS {
            let first = row.expected("latency", 1, 2 * ARITHMETIC_PER_TURN);
            let last = row.expected("latency", 1000, 2 * ARITHMETIC_PER_TURN);
            match row.operation {
                Arithmetic::IntegerAdd | Arithmetic::IntegerMultiply => assert_ne!(last, 0),
                _ if row.is_integer() => {
                    assert!(last.leading_zeros().abs_diff(first.leading_zeros()) <= 1, "{}", row.name);
                }
                Arithmetic::SquareRoot => assert!(f64::from_bits(last) > 1.0),
                _ => {
                    assert!((0.5..4.0).contains(&f64::from_bits(last)), "{}", row.name);
                    assert!(last.trailing_zeros() < 20, "{} has digits in every place", row.name);
                }
            }
        }
    }

    #[test]
    fn rows_stand_in_the_order_of_the_operations() {
        assert_eq!(OPERATIONS.map(|row| row.operation), Arithmetic::ALL);
    }
}
