//! # Question
//!
//! What does it cost to call a procedure and return, and what does each argument add? What does the first argument on the
//! stack add?
//!
//! # Method
//!
//! sysdyno calls procedures with 0 to 7 integer arguments, in a loop of 32 calls and in a loop of 64 calls. Both loops
//! run the same number of iterations, alternately, in batches of at least 25 µs. The difference per iteration,
//! divided by 32, is the cost of a call. Clock probes around each batch convert it into core cycles. Each batch follows
//! 65 536 branches in random directions and some of its calls, both untimed (blocks, as in os.system_call).
//!
//! The cost of loop, timer and batch is in both loops and cancels. Nothing else is subtracted. Twice the short
//! iteration less the long one must be a plausible loop cost. Otherwise the two bodies run at different speeds, and
//! their difference is not the cost of a call.
//!
//! The label **code** names the kind of code:
//!
//! - **registers**: assembly that follows the calling convention. The caller moves each argument into its register.
//!   System V AMD64 has six such registers, and the seventh argument is pushed on the stack.
//! - **memory**: the same, but the procedure first stores every argument to its frame and loads it back, as unoptimised
//!   code does.
//! - **compiled**: functions of the compiler that built sysdyno, at full optimisation. A pointer that the compiler
//!   cannot analyse prevents inlining, so that every argument is passed.
//!
//! The label **chain** names the dependency between calls:
//!
//! - **throughput**: the calls are independent, and the CPU overlaps them. The metric is the time per call.
//! - **latency**: each call takes its arguments from the previous return value. The metric is the time from one return
//!   value to the next. It includes a multiply of the first argument, by one in assembly and by a constant in compiled
//!   code (3 cycles on most cores). Without arguments, the result register carries the chain in assembly, and in
//!   compiled code the previous result selects the next function.
//!
//! sysdyno fits a line with a step: a slope from 0 to 6 arguments, and the extra cost of the seventh. The intervals
//! come from the launches.
//!
//! # Prediction
//!
//! Cycles of this core design, by records of other runs, at the clock of this run. The first argument on the stack costs
//! nothing in registers in most records, so less than a store is expected there.
//!
//! # What could fool us
//!
//! - Calls overlap with the loop around them. A benchmark that subtracts an empty loop can report less than one cycle,
//!   which is impossible for a call and its return.
//! - A callee that adds up its arguments puts its own work into the slope. These callees do the same work for any
//!   number of arguments.
//! - Inlining and tail calls remove the call. A test injects known work and checks that the measured cost contains it.
//! - A predicted call is not part of a data dependency, because the CPU runs ahead through it. Latency shows the path
//!   of the data, and shows the call only where the call is slower.
//! - The position of branches in 64-byte blocks of code decides how they are predicted. Compiled calls without
//!   arguments take two bytes each. Packed together, 32 of them took 4.86 cycles a call and 64 took 4.06 on AMD Zen 4.
//!   Compiled loops therefore begin at such blocks, and each compiled call at a 16-byte block. The no-operations
//!   between them can add a quarter of a cycle. In assembly, one no-operation pads each call with three arguments to 16
//!   bytes.
//! - One straight line through all eight points hides the step at the stack.
//!
//! # References
//!
//! - System V ABI, AMD64 supplement, 3.2.3
//! - Arm AAPCS64
//! - Agner Fog, microarchitecture.pdf (return stack, store forwarding)

use std::collections::BTreeMap;

use super::compiled_calls::{self, MOST_ARGUMENTS};
use crate::evaluate::missing::name_unpaired;
use crate::evaluate::sample::Sample;
use crate::experiments::prelude::*;
use crate::results::quantity::CoreCycles;
use crate::statistics::fit::least_squares;
use crate::statistics::monotone::isotonic_residual;
use crate::statistics::step::{Coefficient, StepFit, fit_step_over_launches};
use crate::sys::arch::{self, CALLS_PER_ITERATION, CallKernel};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "cpu.procedure_call",
    title: "Procedure call",
    measures: "call and return with 0 to 7 integer arguments, independent and chained",
    words: &["call", "function", "function_call"],
    method_version: 4,
    precision: Precision { target: 0.01, between: 0.002, busy: 0.004 },
    source: heading!("procedure_call.rs"),
    uses: &["cpu.cycle_time"],
    rules: RULES,
    constants: CONSTANTS,
    publishes: &[
        Publication::cost("cpu.procedure_call.time", Unit::Nanoseconds, "one call and return")
            .in_summary_where(summary_call),
        Publication::cost(
            "cpu.procedure_call.per_argument",
            Unit::Nanoseconds,
            "cost that each argument in a register adds",
        )
        .in_summary_where(through_memory),
        Publication::cost(
            "cpu.procedure_call.seventh_argument",
            Unit::Nanoseconds,
            "extra cost of the first argument on the stack",
        )
        .in_summary_where(through_memory),
    ],
    seconds: |_| 0.2,
    time_out: 10.0,
    in_quick: true,
    predict,
    measure,
    figures,
    explain,
    ..Experiment::DEFAULT
};

/// A call and a return are two taken branches: below one cycle no core makes both.
const FLOOR_CYCLES: f64 = 1.0;
/// The long kernel has this many times the calls of the short one.
const TIMES: f64 = 2.0;
/// A figure may lie this far below one that it cannot be smaller than: resolution of the comparison, in cycles.
const SLACK_CYCLES: f64 = 0.15;

/// The loop around the calls takes at most this of a turn: a subtraction and a taken branch, at its slowest.
const LOOP_CYCLES: f64 = 4.0;
/// Share of the long turn by which twice the short one may miss that.
const ADDS_UP: f64 = 0.02;
/// Distance of the costs from a curve that never falls, beyond which no line is fitted. Intervals of a few thousandths of
/// a cycle would reject every curve: how an unrolled loop falls into blocks of code moves its costs by up to 5 %.
const RISING: f64 = 0.05;
/// Least cost of an argument in cycles that means anything: half a percent of a call.
const LEAST_ARGUMENT: f64 = 0.02;

constants! {
    /// One store of a full pipeline.
    STORE_SLOT = 0.75 in 0.5 ..= 1.1 "cycles", "one or two stores per cycle";
}

rules! {
    SAME_PACE: "G7" Hard "`cpu.procedure_call.time`",
        "calls run at the same speed in both loops. Twice the iteration of 32 calls less that of 64 is between 0 and \
         {} (the loop), within {} of the long iteration", cycles(LOOP_CYCLES), share(ADDS_UP);
    FLOOR: "G8" Hard "`cpu.procedure_call.time`", "at least {} per call", cycles(FLOOR_CYCLES);
    LEAST: "G5" Hard "`per_argument`, `seventh_argument`",
        "the cost of an argument is at least {}", cycles(LEAST_ARGUMENT);
    ORDER: "G20" Remark "`cpu.procedure_call.time`",
        "chained calls are not faster than independent calls, nor arguments in memory than in registers (slack: {} \
         and three standard errors of both)", cycles(SLACK_CYCLES);
    RISES: "G20" Hard "`per_argument`, `seventh_argument`",
        "the costs are within {} of a curve that never falls with the number of arguments", share(RISING);
    STEP: "G20" Hard "`seventh_argument`", "a call with the argument in memory takes as long as the one before it, at least";
    SCATTER: "scatter" Noisy "`per_argument`, `seventh_argument`",
        "a slope or step is at least twice its error by the scatter of the points around a line";
}

const CODES: [&str; 3] = ["registers", "memory", "compiled"];
const CHAINS: [&str; 2] = ["throughput", "latency"];

/// The summary shows calls with no argument, with one, with six in registers, and with the first on the stack.
fn summary_call(labels: &Labels) -> bool {
    let arguments = labels.get("args").unwrap_or_default();
    match labels.get("chain") {
        Some("throughput") => ["0", "6", "7"].contains(&arguments),
        _ => arguments == "1",
    }
}

/// Arguments in registers cost less than the place of the code moves a call: their slopes are not for a summary.
fn through_memory(labels: &Labels) -> bool {
    labels.get("chain") == Some("throughput") && labels.get("code") == Some("memory")
}

fn labels(code: &str, chain: &str) -> Labels {
    Labels::of([("code", code), ("chain", chain)])
}

fn labels_with(arguments: usize, code: &str, chain: &str) -> Labels {
    labels(code, chain).with("args", arguments)
}

/// The kernels of a kind of code and a way of calling, by number of arguments.
fn kernels(code: &str, chain: &str) -> Vec<CallKernel> {
    match (code, chain) {
        ("registers", "throughput") => arch::CALLS_IN_REGISTERS.to_vec(),
        ("registers", _) => arch::CHAINED_CALLS_IN_REGISTERS.to_vec(),
        ("memory", "throughput") => arch::CALLS_THROUGH_MEMORY.to_vec(),
        ("memory", _) => arch::CHAINED_CALLS_THROUGH_MEMORY.to_vec(),
        (_, chain) => compiled_calls::kernels().map(|pair| pair[usize::from(chain == "latency")]).to_vec(),
    }
}

/// Every combination of code and way of calling.
fn variants() -> impl Iterator<Item = (&'static str, &'static str)> {
    CODES.into_iter().flat_map(|code| CHAINS.into_iter().map(move |chain| (code, chain)))
}

fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let mut predictions = Vec::new();
    for (code, chain) in variants() {
        let of = |metric: &str, labels: Labels| Prediction::of(metric, labels, Unit::Nanoseconds);
        let calls = (0..=MOST_ARGUMENTS).map(|arguments| labels_with(arguments, code, chain));
        predictions.extend(calls.map(|labels| of("cpu.procedure_call.time", labels)));
        predictions.push(of("cpu.procedure_call.per_argument", labels(code, chain)));
        if arch::REGISTER_ARGUMENTS < MOST_ARGUMENTS {
            let seventh = of("cpu.procedure_call.seventh_argument", labels(code, chain));
            predictions.push(if code == "registers" { predict_stack_argument(by, seventh) } else { seventh });
        }
    }
    predictions
}

/// No coefficient is above zero, because most records have no cost here.
fn predict_stack_argument(by: &PredictionInput<'_>, prediction: Prediction) -> Prediction {
    let (value, _, high) = STORE_SLOT.times(1.0);
    prediction.hardware(
        "push, load and adjustment of the stack pointer",
        CycleTime::known(by).of((value * 0.6, 0.0, high * 1.5)),
        STORE_SLOT.basis(),
    )
}

/// Blocks of each loop in a launch: there are many loops, and their batches hardly differ.
const BLOCKS: u32 = 5;

fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let mut workloads = Vec::new();
    for (code, chain) in variants() {
        for (arguments, kernel) in kernels(code, chain).into_iter().enumerate() {
            let labels = labels_with(arguments, code, chain);
            let position = workloads.len();
            let short = Workload::kernel("short", labels.clone(), CALLS_PER_ITERATION, kernel.short);
            workloads.push(short.at_most(BLOCKS));
            // The same number of turns with twice the calls in each.
            workloads.push(
                Workload::kernel("long", labels, 2 * CALLS_PER_ITERATION, kernel.long)
                    .sized(Sizing::SameAs(position))
                    .at_most(BLOCKS),
            );
        }
    }
    rig.sample_in_blocks(workloads)
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    for (code, chain) in variants() {
        let mut kept: Vec<Option<Estimate>> = vec![None; MOST_ARGUMENTS + 1];
        for (arguments, kept) in kept.iter_mut().enumerate() {
            let labels = labels_with(arguments, code, chain);
            let Some((estimate, of_pace)) = call(study, &labels).zip(pace_gate(study, &labels)) else {
                name_unpaired(study, findings, "cpu.procedure_call.time", &labels, ["long", "short"]);
                continue;
            };
            *kept = of_pace.pass.then(|| estimate.clone());
            let why = "a call and a return are two taken branches";
            let floor = gates::floor(&FLOOR, &estimate, FLOOR_CYCLES).because(why);
            let mut own = vec![of_pace, floor, gates::resolved(&estimate)];
            own.extend(order_gates(study, arguments, code, chain, &estimate));
            findings.publish(study, Figure::batches("cpu.procedure_call.time", labels, &estimate).gates(own));
        }
        publish_regression(study, findings, code, chain, &kept);
        findings.curves.extend(curve(study, code, chain, &kept));
    }
}

/// Cost of one call: what 32 more calls per turn cost, over 32.
fn call(study: &Study<'_>, labels: &Labels) -> Option<Estimate> {
    let (long, short) = (study.sample("long", labels)?, study.sample("short", labels)?);
    Estimate::difference(&long, &short, TIMES)
}

/// Whether both bodies have one pace: then what a call costs more in the short one is its part of the loop.
fn pace_gate(study: &Study<'_>, labels: &Labels) -> Option<Gate> {
    let (long, short) = (study.sample("long", labels)?, study.sample("short", labels)?);
    let apart = Estimate::net(&short.shared_with(&long), &long.shared_with(&short))?;
    let calls = TIMES * CALLS_PER_ITERATION as f64;
    let slack = ADDS_UP * calls * Estimate::undisturbed(&long)?.value;
    let rest = apart.scaled(calls, apart.unit).named("twice the short iteration less the long one is {}");
    Some(Gate::between(&SAME_PACE, rest, -slack, LOOP_CYCLES + slack))
}

/// Orders that no machine can break: a chain is not faster than independent calls, memory not faster than registers.
fn order_gates(study: &Study<'_>, arguments: usize, code: &str, chain: &str, estimate: &Estimate) -> Vec<Gate> {
    let mut gates = Vec::new();
    let mut not_below = |code: &str, chain: &str, why: &str| {
        if let Some(other) = call(study, &labels_with(arguments, code, chain)) {
            let slack = SLACK_CYCLES + 3.0 * (estimate.standard_error() + other.standard_error());
            let reason = format!("{} less a slack of {}: {why}", number(other.value), number(slack));
            gates.push(Gate::at_least(&ORDER, estimate.named("{}"), other.value - slack).because(reason));
        }
    };
    if chain == "latency" {
        not_below(code, "throughput", "chained calls against independent calls, which are different code");
    }
    if code == "memory" {
        not_below("registers", chain, "arguments in memory against arguments in registers");
    }
    gates
}

/// The line with a step, fitted to each launch; not published where the points do not rise with the arguments.
fn publish_regression(
    study: &Study<'_>,
    findings: &mut Findings,
    code: &str,
    chain: &str,
    estimates: &[Option<Estimate>],
) {
    let Some(fit) = regression(study, code, chain) else { return };
    // Of calls that were alone on their core, slope and step are those of the published costs.
    let alone = |estimate: &Estimate| estimate.account.sharing.map(|_| estimate.value);
    let published: Option<Vec<f64>> = estimates.iter().map(|estimate| alone(estimate.as_ref()?)).collect();
    let fit = published.map_or(fit, |costs| fit.through(&arguments(), &costs, MOST_ARGUMENTS as f64));
    let rising = rising_gate(estimates);
    let mut publish = |name: &str, coefficient: Coefficient, further: Option<Gate>| {
        let Some(estimate) = estimate_of(study, (code, chain), coefficient, &fit) else { return };
        let least = Gate::at_least(&LEAST, estimate.named("{}"), LEAST_ARGUMENT)
            .because("a smaller cost is within the effect of code placement");
        let scattered = scatter_gate(&estimate, estimates);
        let mut gates = vec![rising.clone(), least, scattered, gates::resolved(&estimate)];
        gates.extend(further);
        findings.publish(study, Figure::derived(name, labels(code, chain), &estimate).gates(gates));
    };
    publish("cpu.procedure_call.per_argument", fit.slope, None);
    if let Some(step) = fit.step.filter(|_| arch::REGISTER_ARGUMENTS < MOST_ARGUMENTS) {
        publish("cpu.procedure_call.seventh_argument", step, step_gate(estimates));
    }
}

fn regression(study: &Study<'_>, code: &str, chain: &str) -> Option<StepFit> {
    let by_arguments: Vec<BTreeMap<u32, f64>> = (0..=MOST_ARGUMENTS)
        .map(|arguments| launch_costs(study, &labels_with(arguments, code, chain)))
        .collect::<Option<_>>()?;
    // A launch in which something was never clean has no row.
    let rows: Vec<Vec<f64>> = by_arguments[0]
        .keys()
        .filter_map(|launch| by_arguments.iter().map(|costs| costs.get(launch).copied()).collect())
        .collect();
    fit_step_over_launches(&arguments(), &rows, MOST_ARGUMENTS as f64, 0.95)
}

fn arguments() -> Vec<f64> {
    (0..=MOST_ARGUMENTS).map(|arguments| arguments as f64).collect()
}

/// One cost per launch, by its number.
fn launch_costs(study: &Study<'_>, labels: &Labels) -> Option<BTreeMap<u32, f64>> {
    let (long, short) = (study.sample("long", labels)?, study.sample("short", labels)?);
    let (long, short) = (long.shared_with(&short), short.shared_with(&long));
    let costs =
        long.estimates().into_iter().zip(short.estimates()).map(|(long, short)| (TIMES * long - short) / (TIMES - 1.0));
    Some(long.numbers.iter().copied().zip(costs).collect())
}

fn estimate_of(study: &Study<'_>, kind: (&str, &str), found: Coefficient, fit: &StepFit) -> Option<Estimate> {
    let unit = study.sample("short", &labels_with(0, "registers", "throughput"))?.unit;
    let mut estimate = Estimate::over_launches(
        &vec![found.estimate; fit.launches],
        unit,
        "median over launches of a line with a step",
    )?;
    if let Some(interval) = found.interval {
        estimate.interval = [interval.low, interval.high];
        estimate.level = interval.level;
    }
    estimate.stddev = estimate.standard_error() * (fit.launches as f64).sqrt();
    estimate.quantiles = None;
    let bodies = ["long", "short"].into_iter().flat_map(|body| {
        (0..=MOST_ARGUMENTS).filter_map(move |arguments| study.sample(body, &labels_with(arguments, kind.0, kind.1)))
    });
    Some(estimate.made_of(&bodies.collect::<Vec<Sample>>()))
}

/// More arguments may not cost less, beyond what the place of a few instructions in their block of code does: otherwise a
/// line through the points says nothing.
fn rising_gate(estimates: &[Option<Estimate>]) -> Gate {
    let costs: Vec<f64> = estimates.iter().flatten().map(|estimate| estimate.value).collect();
    let residual = if costs.len() == estimates.len() { isotonic_residual(&costs) } else { None };
    residual.map_or_else(
        || Gate::holds(&RISES, false, "not every number of arguments has a result"),
        |residual| {
            let what = "the costs are within {} of a curve that never falls with the number of arguments";
            Gate::less_than(&RISES, Number::share(residual).named(what), RISING)
        },
    )
}

/// A step above a falling line is not a cost: the call with the argument in memory must take longer than the one before it.
fn step_gate(estimates: &[Option<Estimate>]) -> Option<Gate> {
    let [before, last] = [MOST_ARGUMENTS - 1, MOST_ARGUMENTS].map(|arguments| estimates.get(arguments)?.as_ref());
    let (before, last) = (before?, last?);
    Some(Gate::at_least(&STEP, last.named("{}"), before.value).because("the call with one argument less"))
}

/// The points of a line scatter with the place of the code as much as with launches: a slope or step within twice the
/// error that this scatter gives it is noisy, however well it repeats.
fn scatter_gate(estimate: &Estimate, estimates: &[Option<Estimate>]) -> Gate {
    let (x, y): (Vec<f64>, Vec<f64>) = estimates[..MOST_ARGUMENTS]
        .iter()
        .enumerate()
        .filter_map(|(arguments, estimate)| Some((arguments as f64, estimate.as_ref()?.value)))
        .unzip();
    let error = least_squares(&x, &y).map_or(f64::INFINITY, |line| line.slope_error);
    let reason = format!("twice the error {} by the scatter of the points around a line", number(error));
    let size = Number::of(estimate.value.abs(), estimate.unit).named("{}");
    Gate::at_least(&SCATTER, size, 2.0 * error).because(reason)
}

fn curve(study: &Study<'_>, code: &str, chain: &str, estimates: &[Option<Estimate>]) -> Option<Curve> {
    let scale = |unit: Unit| match (unit, study.core) {
        (Unit::Cycles, Some(core)) => CoreCycles(1.0).at(core).0,
        _ => 1.0,
    };
    let points: Vec<[f64; 4]> = estimates
        .iter()
        .enumerate()
        .filter_map(|(arguments, estimate)| {
            let estimate = estimate.as_ref()?;
            let by = scale(estimate.unit);
            Some([arguments as f64, estimate.value * by, estimate.interval[0] * by, estimate.interval[1] * by])
        })
        .collect();
    (!points.is_empty()).then(|| Curve {
        name: "cpu.procedure_call.by_args".to_owned(),
        labels: labels(code, chain),
        words: BTreeMap::new(),
        x: Axis { label: "integer arguments".to_owned(), unit: Unit::One },
        y: Axis { label: "call and return".to_owned(), unit: Unit::Nanoseconds },
        points,
    })
}

/// What six arguments may add to a call and still count as free: a fifth of a cycle each.
const NEARLY_FREE_CYCLES: f64 = 1.2;
/// A call with fewer arguments that takes this many cycles more needs an explanation.
const CLEARLY_LONGER_CYCLES: f64 = 0.2;
const FREE: &str = " Arguments in registers are nearly free, because the moves run in parallel with the call.";

fn explain(_: &Study<'_>, findings: &mut Findings) {
    let figures = findings.metrics.clone();
    let cycles = |arguments, code, chain| {
        let labels = labels_with(arguments, code, chain);
        figures.iter().find(|found| found.name == "cpu.procedure_call.time" && found.labels == labels)
    };
    let shown = |arguments, code, chain| {
        let found = cycles(arguments, code, chain)?;
        found.cycles.zip(found.cycles_shown())
    };
    let mut rows = Vec::new();
    for (code, chain) in variants() {
        let text =
            |arguments| cycles(arguments, code, chain).and_then(Metric::cycles_text).unwrap_or_else(|| "–".to_owned());
        rows.push([code.to_owned(), chain.to_owned()].into_iter().chain((0..=MOST_ARGUMENTS).map(text)).collect());
    }
    findings.tabulate(
        "Core cycles per call by number of integer arguments",
        &["code", "chain", "0", "1", "2", "3", "4", "5", "6", "7"],
        rows,
    );
    let first = shown(0, "registers", "throughput").zip(shown(6, "registers", "throughput"));
    if let Some(((bare, bare_text), (six, six_text))) = first {
        let free = if six - bare < NEARLY_FREE_CYCLES { FREE } else { "" };
        findings.say(format!(
            "A call and its return cost {bare_text} cycles without arguments and {six_text} cycles with six arguments \
             in registers.{free}"
        ));
    }
    let compiled = shown(0, "compiled", "throughput").zip(shown(MOST_ARGUMENTS, "compiled", "throughput"));
    if let Some(((_, bare_text), (_, all_text))) =
        compiled.filter(|((bare, _), (all, _))| bare - all > CLEARLY_LONGER_CYCLES)
    {
        findings.say(format!(
            "In compiled code a call without arguments takes longer ({bare_text} cycles) than one with {MOST_ARGUMENTS} \
             ({all_text}). Most likely the reason is that its calls stand closer together."
        ));
    }
    let seventh = shown(6, "memory", "throughput").zip(shown(7, "memory", "throughput"));
    if let (Some(((_, six), (_, seven))), true) = (seventh, arch::REGISTER_ARGUMENTS < MOST_ARGUMENTS) {
        findings.say(format!(
            "Where the procedure keeps its arguments in memory, a call with six costs {six} cycles and with seven \
             {seven} cycles. The caller pushes the seventh on the stack and the procedure loads it."
        ));
        if let Some((_, seven)) = shown(7, "registers", "throughput") {
            findings.say(format!("With arguments in registers, a call with seven costs {seven} cycles."));
        }
    }
    let chained = shown(1, "registers", "latency").zip(shown(1, "memory", "latency"));
    if let Some(((registers, registers_text), (memory, memory_text))) = chained {
        let reason = if memory < registers + 1.0 {
            "this core renames memory, so the path through it adds no visible cost"
        } else {
            "the path through memory adds store forwarding"
        };
        findings.say(format!(
            "Chained calls with one argument take {registers_text} cycles from one return value to the next in \
             registers, and {memory_text} through memory. The reason: {reason}."
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_code_and_call_has_a_kernel_for_each_number_of_arguments() {
        for (code, chain) in variants() {
            assert_eq!(kernels(code, chain).len(), MOST_ARGUMENTS + 1, "{code} {chain}");
        }
    }
}
