//! # Question
//!
//! How fast does this core run under load, and how fast does the time-stamp counter (TSC) tick that times everything
//! else?
//! These are two different clocks. The TSC ticks at a constant rate that the manufacturer chose. The core clock changes
//! with load, temperature and the neighbours' use of the chip. Ticks are therefore not core cycles.
//!
//! # Method
//!
//! sysdyno reads the TSC and CLOCK_MONOTONIC_RAW at both ends of each launch, and divides ticks by nanoseconds. It
//! times three chains of dependent instructions with known latencies, and divides the rate of the TSC by their ticks
//! per cycle. The core clock is the median over all launches of the run, from a multiply chain at the end of each.
//!
//! **TSC.** Each reading is the tightest of 25 brackets (counter, clock, counter). The error is half the widths of the
//! two brackets, divided by the time between them.
//!
//! **Core.** Each instruction of a chain needs the result of the previous one. On an undisturbed core the chain
//! therefore runs exactly at the latency of its instructions. The chains are timed alternately, in batches of at least
//! 25 µs:
//!
//! - 20 multiplies (`imul r32, r32`, 3 cycles each)
//! - 60 additions of two registers (1 cycle each)
//! - 10 multiplies and 30 additions, mixed
//!
//! All three take 60 cycles per iteration if and only if multiply and addition have these latencies. The ratios of
//! their times therefore test the assumption in every launch. The loop around a chain is one subtraction and one taken
//! branch, which run in parallel. The bias of the timing pair is subtracted.
//!
//! The cycle time is the reciprocal of the core clock. The rates of the three chains come from the launches of this
//! experiment alone. The core clock changes during a run. Probes of the multiply chain before and after each batch therefore convert all other results to
//! cycles.
//!
//! # Prediction
//!
//! - TSC: the rate that CPUID or the kernel reports, within 200 ppm. A nominal frequency is weaker evidence.
//! - Core: the highest single-core frequency that the machine reports, because nothing else runs. The lower limit is
//!   its base frequency.
//!
//! In a guest these reports can be missing or wrong. The range is then wide.
//!
//! # What could fool us
//!
//! - A `sleep` between two readings of the counter yields the rate of the counter, never that of the core. Many tools
//!   print that rate as "CPU frequency".
//! - Newer cores execute `inc`, `dec`, `lea` and additions of small constants in the renamer, at no cost. A chain of
//!   them reports a core clock of 17 GHz. Both operands here are registers.
//! - An idle core needs milliseconds to reach its speed. Batches begin after a warm-up that ends only when the times of
//!   the chains have settled.
//! - A competing task on the same CPU adds time but no cycles. Its batches are classed as preempted, and the clean ones
//!   do not change.
//! - A sibling hardware thread competes for execution ports but does not change latency.
//!
//! # References
//!
//! - Intel SDM vol. 3B, 19.17 (invariant TSC)
//! - Agner Fog, instruction tables
//! - uops.info
//! - McVoy & Staelin, USENIX 1996 (mhz)

use crate::experiments::models::coefficients;
use crate::experiments::prelude::*;
use crate::machine::CoreClass;
use crate::results::wording::share;
use crate::sys::arch;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "cpu.frequency",
    title: "Clock frequencies",
    measures: "rate of the time-stamp counter, frequency and cycle time of the core",
    words: &["ghz", "hertz", "turbo"],
    method_version: 1,
    precision: Precision { target: 0.1, between: 0.08, busy: 0.08 },
    source: heading!("frequency.rs"),
    rules: RULES,
    publishes: &[
        Publication::state("cpu.frequency.tsc", Unit::Hertz, "rate of the counter that times all results").in_summary(),
        Publication::state(
            "cpu.frequency.core",
            Unit::Hertz,
            "core clock during the measurement, by the multiply chain",
        )
        .in_summary(),
        Publication::state(
            "cpu.frequency.core_by_chain",
            Unit::Hertz,
            "core clock by each chain of known latency, which must agree",
        ),
        Publication::state("cpu.cycle_time", Unit::Nanoseconds, "duration of one core cycle").in_summary(),
    ],
    seconds: |_| 0.02,
    time_out: 10.0,
    in_quick: true,
    predict,
    measure,
    figures,
    explain,
    ..Experiment::DEFAULT
};

/// Chains disagree by less than this, or their latencies are not what is assumed.
const CHAINS_AGREE: f64 = 0.015;
/// Half of the interval that is asked of a clock that records know.
const STEADY: f64 = 0.05;
/// T(2N) against 2 T(N).
const LINEAR: f64 = 0.002;
/// Plausible core clocks in hertz: the slowest that Linux cores idle at, and above every record.
const PLAUSIBLE: (f64, f64) = (0.2e9, 6.5e9);
/// Agreement of the counter's rate between launches, in parts per million.
const COUNTER_REPEATS_PPM: f64 = 5.0;

/// Distance of the counter's rate from a claim, in parts per million, beyond which the claim is called contradicted.
const CLAIM_PPM: f64 = 200.0;
/// How far the core clock may be above its claimed maximum.
const ABOVE_MAXIMUM: f64 = 1.02;

rules! {
    PROPORTIONAL: "G7" Hard "`cpu.frequency.core`, `cpu.cycle_time`", "T(2N) is 2 T(N) within {}", share(LINEAR);
    PLAUSIBLE_CLOCK: "G8" Hard "`cpu.frequency.core`, `cpu.cycle_time`",
        "the core clock is between {} and {}", hertz(PLAUSIBLE.0), hertz(PLAUSIBLE.1);
    CLAIMED_COUNTER: "G12" Remark "`cpu.frequency.tsc`",
        "the rate of the counter is within {} ppm of each reported rate", plain(CLAIM_PPM);
    CLAIMED_CORE: "G12" Remark "`cpu.frequency.core`, `cpu.cycle_time`",
        "the core clock is at most {} times the reported maximum", plain(ABOVE_MAXIMUM);
    COUNTER_REPEATS: "G14" Noisy "`cpu.frequency.tsc`",
        "launches repeat the rate of the counter within {} ppm, or within the error bound of a launch if that is \
         larger", plain(COUNTER_REPEATS_PPM);
    SAME_FREQUENCY: "G14" Hard "`cpu.frequency.core_by_chain`",
        "each chain gives the frequency of the multiply chain within {}", share(CHAINS_AGREE);
}

const CHAINS: [(&str, arch::LoopKernel, u64); 3] =
    [("multiply", arch::multiply_chain, 20), ("add", arch::add_chain, 60), ("mixed", arch::mixed_chain, 40)];

fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let mut predictions = Vec::new();
    if let Some(claim) = by.setup.machine.tsc_hertz_claims().best() {
        predictions.push(Prediction::of("cpu.frequency.tsc", Labels::none(), Unit::Hertz).hardware(
            "reported rate of the counter",
            (claim.value, claim.value * (1.0 - 200e-6), claim.value * (1.0 + 200e-6)),
            Basis::machine(&claim.source),
        ));
    } else if let Some(nominal) = by.setup.machine.nominal_core_hertz(by.setup.cpu) {
        predictions.push(Prediction::of("cpu.frequency.tsc", Labels::none(), Unit::Hertz).hardware(
            "a counter ticks near the nominal frequency",
            (nominal.value, nominal.value * 0.9, nominal.value * 1.1),
            Basis::machine(&nominal.source),
        ));
    }
    let cycle = CycleTime::known(by);
    let hertz = (1e9 / cycle.value.0, 1e9 / cycle.high.0, 1e9 / cycle.low.0);
    predictions.push(Prediction::of("cpu.cycle_time", Labels::none(), Unit::Nanoseconds).hardware(
        "one core cycle at the highest frequency that the machine reports",
        (cycle.value.0, cycle.low.0, cycle.high.0),
        cycle.basis.clone(),
    ));
    for (metric, labels) in [("cpu.frequency.core", Labels::none())]
        .into_iter()
        .chain(CHAINS.map(|(chain, ..)| ("cpu.frequency.core_by_chain", Labels::of([("chain", chain)]))))
    {
        predictions.push(Prediction::of(metric, labels, Unit::Hertz).hardware(
            "highest core frequency that the machine suggests",
            hertz,
            cycle.basis.clone(),
        ));
    }
    predictions
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let mut workloads: Vec<Workload<'_>> = CHAINS
        .into_iter()
        .map(|(chain, kernel, instructions)| {
            Workload::kernel("chain", Labels::of([("chain", chain)]), instructions, kernel)
        })
        .collect();
    // The same chain twice as long, for the dose response.
    let (_, kernel, instructions) = CHAINS[0];
    workloads.push(Workload::kernel("double", Labels::none(), instructions, kernel).sized(Sizing::TimesThat(2, 0)));
    rig.sample(workloads)
}

/// How far the core clock moves between runs: by the records of its design, where there are enough. Of other designs it may move
/// widely. In `records/`, the clock of one is 2.6 to 3.1 GHz.
fn precision_of_clock(design: CoreClass) -> Precision {
    let recorded = coefficients::table().clocks.get(coefficients::design(design.name()));
    recorded.map_or(EXPERIMENT.precision, |&moves| Precision { target: STEADY.max(moves), between: moves, busy: moves })
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    if study.clock.source == arch::COUNTER {
        publish_counter(study, findings);
    }
    if let Some(latency) = multiply_latency(study) {
        publish_core(study, findings, latency);
    }
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    if study.clock.source != arch::COUNTER {
        findings.say("The counter of this machine is not usable as a clock. All times come from CLOCK_MONOTONIC_RAW.");
    }
    match multiply_latency(study) {
        Some(latency) => compare_clocks(study, findings, latency),
        None => findings.say(
            "The core clock is not published, because no chain of known latency was found on this core. The times of \
             multiply, addition and their mixture have no ratios of whole cycles.",
        ),
    }
}

/// Cycles of a multiply: the nearest integer to the ratio of multiply and addition, when all launches with a valid chain
/// agree on it.
fn multiply_latency(study: &Study<'_>) -> Option<f64> {
    // Launches without a valid chain have no probes.
    let valid = study.evidence().filter(|found| found.ticks_per_cycle_before.is_some());
    let mut whole: Vec<i64> = valid.map(|found| found.chain_ratio.map_or(0, |ratio| ratio.round() as i64)).collect();
    whole.dedup();
    (whole.len() == 1 && whole[0] >= 1).then(|| whole[0] as f64)
}

/// Cycles per instruction of a chain, given the latency of a multiply.
fn cycles_per_instruction(chain: &str, multiply: f64) -> f64 {
    match chain {
        "multiply" => multiply,
        "add" => 1.0,
        _ => (10.0 * multiply + 30.0) / 40.0,
    }
}

fn publish_counter(study: &Study<'_>, findings: &mut Findings) {
    let rates: Vec<f64> = study
        .evidence()
        .filter_map(|found| found.clock_deviation_ppm)
        .map(|ppm| study.clock.hertz * (1.0 + ppm * 1e-6))
        .collect();
    let estimator = "median over launches of ticks per CLOCK_MONOTONIC_RAW second";
    let Some(estimate) = Estimate::over_launches(&rates, Unit::Hertz, estimator) else { return };
    let spread = estimate.stddev / estimate.value * 1e6;
    let bound = study.evidence().filter_map(|found| found.clock_deviation_bound_ppm).fold(0.0, f64::max);
    let deviation = Number::plain(spread).named("launches repeat the rate within {} ppm (standard deviation)");
    let reason = format!("{COUNTER_REPEATS_PPM} ppm, or the error bound of a launch, {} ppm", number(bound));
    let mut gates = vec![Gate::at_most(&COUNTER_REPEATS, deviation, COUNTER_REPEATS_PPM.max(bound)).because(reason)];
    gates.extend(study.setup.machine.tsc_hertz_claims().all().iter().map(|claim| {
        let apart = (estimate.value / claim.value - 1.0).abs() * 1e6;
        let what = format!("{{}} ppm from the rate that {} reports", claim.source);
        Gate::at_most(&CLAIMED_COUNTER, Number::plain(apart).named(what), CLAIM_PPM)
    }));
    findings.publish(study, Figure::fact("cpu.frequency.tsc", Labels::none(), &estimate).gates(gates));
}

fn publish_core(study: &Study<'_>, findings: &mut Findings, latency: f64) {
    let hertz = |chain: &str| {
        let cycles = cycles_per_instruction(chain, latency);
        let labels = Labels::of([("chain", chain)]);
        let sample = study.sample_of("chain", &labels, Unit::Hertz, |ticks, _| study.clock.hertz * cycles / ticks)?;
        Estimate::median(&sample)
    };
    let Some(reference) = hertz("multiply") else { return };
    let class = precision_of_clock(study.setup.machine.core_class(study.setup.cpu));
    for (chain, ..) in CHAINS {
        let Some(estimate) = hertz(chain) else { continue };
        let apart = (estimate.value / reference.value - 1.0).abs();
        let apart = Number::share(apart).named("{} from the multiply chain");
        let own = vec![Gate::at_most(&SAME_FREQUENCY, apart, CHAINS_AGREE)];
        let figure = Figure::batches("cpu.frequency.core_by_chain", Labels::of([("chain", chain)]), &estimate);
        findings.publish(study, figure.gates(own).of_class(class));
    }
    let period = study.sample_of("chain", &Labels::of([("chain", "multiply")]), Unit::Nanoseconds, |ticks, _| {
        study.nanoseconds(ticks) / latency
    });
    let gates = core_gates(study, &reference);
    let mut publish = |name: &str, estimate: &Estimate| {
        let figure = Figure::batches(name, Labels::none(), estimate).gates(gates.clone());
        findings.publish(study, figure.of_class(class));
    };
    // One reference for all figures of the run: cycles times the cycle time are nanoseconds to the last digit.
    let estimator = "median over all launches of the run, from the probe at the end of each";
    let whole = Estimate::over_launches(&study.core_by_launch, Unit::Hertz, estimator).filter(|_| study.turn.is_some());
    let of_run = |own: Estimate, seen: &dyn Fn(f64) -> f64| match &whole {
        Some(Estimate { value, interval, launches, .. }) => {
            let ends = interval.map(seen);
            let interval = [ends[0].min(ends[1]), ends[0].max(ends[1])];
            Estimate { value: seen(*value), interval, launches: *launches, estimator: estimator.to_owned(), ..own }
        }
        None => own,
    };
    publish("cpu.frequency.core", &of_run(reference, &|hertz| hertz));
    if let Some(estimate) = period.as_ref().and_then(Estimate::median) {
        publish("cpu.cycle_time", &of_run(estimate, &|hertz| 1e9 / hertz));
    }
}

fn core_gates(study: &Study<'_>, core: &Estimate) -> Vec<Gate> {
    let mut gates = vec![Gate::between(&PLAUSIBLE_CLOCK, core.named("core clock"), PLAUSIBLE.0, PLAUSIBLE.1)];
    if let Some(maximum) = study.setup.machine.maximum_core_hertz(study.setup.cpu) {
        let (most, claimed) = (maximum.value * ABOVE_MAXIMUM, quantity(maximum.value, Unit::Hertz));
        let reason = format!("{ABOVE_MAXIMUM} times the reported maximum of {claimed} ({})", maximum.source);
        gates.push(Gate::at_most(&CLAIMED_CORE, core.named("measured"), most).because(reason));
    }
    // A clock that changes between a batch and its probes makes both more and fewer cycles of it: the middle counts.
    let once = study.sample("chain", &Labels::of([("chain", "multiply")])).and_then(|sample| Estimate::median(&sample));
    let twice = study.sample("double", &Labels::none()).and_then(|sample| Estimate::median(&sample));
    if let (Some(once), Some(twice)) = (once, twice) {
        let apart = Number::share((twice.value / once.value - 1.0).abs()).named("T(2N) is {} from 2 T(N)");
        gates.push(Gate::at_most(&PROPORTIONAL, apart, LINEAR));
    }
    gates
}

/// The clocks of this machine side by side: what is claimed, what was measured.
fn compare_clocks(study: &Study<'_>, findings: &mut Findings, latency: f64) {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let hertz = |value: f64| quantity(value, Unit::Hertz);
    for claim in study.setup.machine.tsc_hertz_claims().all() {
        rows.push(vec!["counter, reported".into(), hertz(claim.value), claim.source.clone()]);
    }
    let metric = |findings: &Findings, name: &str| findings.metric(name, &Labels::none()).cloned();
    let (counter, core) = (metric(findings, "cpu.frequency.tsc"), metric(findings, "cpu.frequency.core"));
    if let Some(counter) = &counter {
        rows.push(vec!["counter, measured".into(), counter.text(), "this run".into()]);
    }
    if let Some(claim) = study.setup.machine.nominal_core_hertz(study.setup.cpu) {
        rows.push(vec!["core, nominal".into(), hertz(claim.value), claim.source]);
    }
    if let Some(claim) = study.setup.machine.maximum_core_hertz(study.setup.cpu) {
        rows.push(vec!["core, highest reported".into(), hertz(claim.value), claim.source]);
    }
    let launches: Vec<f64> =
        study.evidence().filter_map(|found| crate::evaluate::study::core_frequency_of(study.clock, found)).collect();
    let lowest = launches.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = launches.iter().copied().fold(0.0, f64::max);
    if let Some(core) = &core {
        rows.push(vec![
            "core, measured".into(),
            core.text(),
            format!("this run, {} to {} over launches", hertz(lowest), hertz(highest)),
        ]);
    }
    findings.tabulate("Clocks: reported and measured", &["clock", "frequency", "source"], rows);
    if let (Some(counter), Some(core)) = (counter, core) {
        let moved = highest / lowest - 1.0;
        let chains: Vec<f64> = findings
            .metrics
            .iter()
            .filter(|metric| metric.name == "cpu.frequency.core_by_chain" && !metric.grade.has_foreign_part())
            .map(|metric| metric.value)
            .collect();
        let agree =
            chains.len() == CHAINS.len() && chains.iter().all(|chain| (chain / core.value - 1.0).abs() < CHAINS_AGREE);
        let agree = if agree { ", and the three chains agree on the frequency" } else { "" };
        let ratio = core.value / counter.value;
        let (core, counter) = (core.shown(), counter.shown());
        findings.say(format!(
            "Under load this core ran at {} and the counter ticked at {}, one tick per {} core cycles. A tool that \
             reports ticks as cycles is wrong by this factor. The core clock changed by {} over the launches of this \
             section. A multiply takes {:.0} cycles, an addition one{agree}.",
            core,
            counter,
            Shown::of(ratio, Unit::One),
            share(moved),
            latency,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_a_design_moves_as_its_records_do() {
        let recorded = precision_of_clock(CoreClass::AmdZen4);
        assert!(recorded.between < 0.01 && recorded.target <= STEADY, "{recorded:?}");
        // Records of one hour show little of what a design does.
        assert_eq!(precision_of_clock(CoreClass::IntelGoldenCove), EXPERIMENT.precision);
    }

    #[test]
    fn all_chains_of_a_turn_last_as_long_where_a_multiply_takes_three_cycles() {
        for (chain, _, instructions) in CHAINS {
            let cycles = cycles_per_instruction(chain, 3.0) * instructions as f64;
            assert!((cycles - arch::CHAIN_CYCLES as f64).abs() < 1e-9, "{chain}");
        }
    }
}
