//! # Question
//!
//! What does it cost to read the time, and what is the resolution of each clock? Which methods keep the timed work
//! between the two readings?
//!
//! # Method
//!
//! sysdyno reads the time by every common method, and measures overhead, bias and resolution. **Overhead** is the cost
//! of one of many readings, 16 per iteration of a loop. **Bias** is the length of an empty interval, the mean
//! difference of back-to-back readings.
//!
//! **Overhead** has batches of at least 25 µs in blocks, as in os.system_call. Clock probes convert them to core cycles.
//!
//! **Bias** excludes intervals of more than three times the median, which were interrupted. A reading samples the clock
//! in its middle. The interval therefore holds the second half of one reading and the first half of the next. Every
//! timed interval is too long by the bias, which differs from the overhead where readings overlap or wait.
//!
//! **Resolution** is the step of the clock, from 2000 readings at uneven distances. It is the largest step on whose
//! multiples nine of ten readings fall. Counters of many machines advance in steps of many ticks. A clock that the
//! kernel computes from the counter prints nanoseconds but moves in the steps of the counter. If its readings cluster
//! at the phases of that step, the step is its resolution.
//!
//! **Methods**: `rdtsc`, `rdtscp`, `lfence; rdtsc`, `cpuid; rdtsc … rdtscp; cpuid`, `rdtsc` fenced on both sides, and
//! sysdyno's own pair. Also the clocks of the kernel, through the vDSO, through a real system call and through the Rust
//! standard library. On Arm: the virtual counter with and without barriers.
//!
//! **Serialisation self-test.** A chain of 100 dependent multiplies (300 cycles where a multiply takes 3) runs between
//! the two readings, before the first, or after the second. A method keeps order if the interval grows by the whole
//! chain in the first case and by nothing in the others. Unordered readings run ahead of the chain and lose part of it.
//!
//! # Prediction
//!
//! - Overhead: 15 to 60 cycles for the counter, depending on the core, plus the wait for earlier instructions. The vDSO
//!   adds about 40 instructions, and a real system call adds kernel entry and exit. CPUID takes about a hundred cycles,
//!   or thousands in a guest, where it exits to the hypervisor.
//! - Bias: about one reading, the distance from the middle of one reading to the middle of the next. CPUID is outside
//!   of the interval.
//! - Resolution: about 10 ns on AMD Zen, one or two ticks on Intel. A kernel clock has the resolution of the counter,
//!   but at least a nanosecond. A coarse clock has one tick of the kernel.
//!
//! # What could fool us
//!
//! - CPUID as a "cheap" serialising instruction exits to the hypervisor in every virtual machine. The exit also evicts
//!   caches and predictors. The overhead shows it. The bias does not, because both CPUIDs are outside of the interval.
//! - Two readings that overlap make the bias too small. The self-test shows which methods overlap.
//! - The number of `mov` instructions around `rdtsc` predicts nothing.
//! - If a clock steps back by one tick, an unsigned difference is 584 years. Differences here are signed, and a batch
//!   with a negative one is discarded.
//! - A median of readings cannot be finer than the step of the clock. A mean can, if the readings fall at random phases
//!   of the step.
//!
//! # References
//!
//! - Intel SDM vol. 2 (RDTSC, RDTSCP, LFENCE, CPUID)
//! - Paoloni, Intel 324264-001 (2010)
//! - Linux lib/vdso/gettimeofday.c, clock_gettime(2)

use std::collections::BTreeMap;

use crate::experiments::constants::{CPUID, Constant, KERNEL_ROUND_TRIP, counter_reading, counter_step};
use crate::experiments::prelude::*;
use crate::results::ratio::{ratio_sentence, scaled};
use crate::statistics::summary::{clock_step, mean_of_uninterrupted, phase_concentration};
use crate::sys::arch::{self, ChainAt, ClockReader, READINGS_PER_ITERATION};
use crate::sys::clock::{KERNEL_READERS, Source};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "cpu.timer",
    title: "Timer overhead and resolution",
    measures: "overhead, bias, resolution and ordering of each method to read the time",
    words: &["clock", "rdtsc", "clock_gettime"],
    method_version: 2,
    precision: Precision { target: 0.01, between: 0.002, busy: 0.002 },
    source: heading!("timer.rs"),
    uses: &["cpu.cycle_time"],
    rules: RULES,
    constants: CONSTANTS,
    publishes: &[
        Publication::cost("cpu.timer.overhead", Unit::Nanoseconds, "one of many readings")
            .in_summary_where(common_idiom),
        Publication::cost("cpu.timer.bias", Unit::Nanoseconds, "length of an empty interval")
            .in_summary_where(own_pair),
        Publication::cost("cpu.timer.resolution", Unit::Nanoseconds, "step of the clock").in_summary_where(basic_clock),
    ],
    seconds: |_| 0.08,
    time_out: 10.0,
    predict,
    measure,
    figures,
    explain,
    ..Experiment::DEFAULT
};

/// Series: mean length of an empty interval.
const PAIR: &str = "pair";
/// The same where a neighbour was on the core whenever it was timed: no figure is made of it.
const PAIR_BESIDE_NEIGHBOUR: &str = "pair_beside_neighbour";
/// Ticks of a core cycle next to them.
const PAIR_CLOCK: &str = "pair_clock";
/// Back-to-back pairs per launch and placement of the chain.
const PAIRS: usize = 400;
/// The same for an idiom that takes microseconds.
const SLOW_PAIRS: usize = 40;
/// A pair that takes longer than this many nanoseconds is slow.
const SLOW_NANOSECONDS: f64 = 1_000.0;
/// Consecutive readings per launch for the resolution.
const READINGS: usize = 2_000;
/// An empty interval of ordered readings is longer than this.
const BIAS_FLOOR_CYCLES: f64 = 8.0;
/// Cycles by which an idiom may miss the chain of the self-test and still keep order.
const ORDER_TOLERANCE_CYCLES: f64 = 6.0;
/// CPUID slower than this many cycles exits to a hypervisor.
const CPUID_EXIT_CYCLES: f64 = 500.0;
/// No clock is read in less.
const READING_FLOOR: f64 = 1.0;

constants! {
    /// What RDTSCP adds to RDTSC: waiting for earlier instructions, reading TSC_AUX.
    ORDERED_READING = 18.0 in 2.0 ..= 45.0 "cycles", "uops.info: RDTSCP against RDTSC";
    /// An LFENCE with nothing in flight but the instruction before it.
    LOAD_FENCE = 15.0 in 4.0 ..= 40.0 "cycles", "uops.info: LFENCE, grows with the instructions in flight";
    /// CPUID in a guest: an exit to the hypervisor and back.
    CPUID_EXIT = 3000.0 in 1200.0 ..= 40_000.0 "cycles",
        "Intel SDM vol. 3, 26.1.2: CPUID exits unconditionally. An exit takes 1000–3000 cycles, and many times that \
         under nested virtualisation";
    /// Arithmetic of the vDSO clock around its counter reading: sequence check, scale, add.
    VDSO_ARITHMETIC = 25.0 in 8.0 ..= 60.0 "cycles", "Linux lib/vdso/gettimeofday.c: about 40 instructions";
    /// The coarse clock: the same without a counter reading.
    VDSO_COARSE = 12.0 in 4.0 ..= 40.0 "cycles", "Linux lib/vdso/gettimeofday.c, do_coarse";
    /// What the kernel does for clock_gettime between entry and exit.
    KERNEL_CLOCK_SERVICE = 150.0 in 50.0 ..= 900.0 "cycles",
        "Linux kernel/time/posix-timers.c: counter reading, copy to user space, multiplied by mitigations at indirect \
         calls";
    /// Finest step that the kernel's clocks express.
    NANOSECOND = 1.0 in 1.0 ..= 1.0 "ns", "clock_gettime(2): a timespec counts nanoseconds";
    /// Step of the coarse clocks: one tick of the kernel.
    KERNEL_TICK = 4_000_000.0 in 1_000_000.0 ..= 10_000_000.0 "ns", "Linux kernel/Kconfig.hz: HZ of 100 to 1000";
    /// Conversion of a timespec into an Instant and a difference.
    INSTANT_ARITHMETIC = 8.0 in 0.0 ..= 30.0 "cycles", "Rust std, sys/pal/unix/time.rs: checks and a 128-bit sum";
}

rules! {
    READING: "G8" Hard "`cpu.timer.overhead`", "at least {} per reading", cycles(READING_FLOOR);
    BIAS: "G8" Hard "`cpu.timer.bias`", "at least {} between two readings of a counter", cycles(BIAS_FLOOR_CYCLES);
    EXITS: "G12" Remark "`cpu.timer.overhead`",
        "CPUID takes more than {} if and only if the machine reports that it is virtual", cycles(CPUID_EXIT_CYCLES);
    ORDERED: "G20" Hard "`cpu.timer.bias`",
        "an ordered pair is not shorter than unordered readings less one step of the counter";
    CALL_SLOWER: "G40" Remark "`cpu.timer.overhead`", "a real system call is slower than the vDSO";
}

/// Readings bunch at the phases of the counter's step by at least this much when they are computed from it.
const ON_COUNTER_STEP: f64 = 0.8;
/// Readings of a kernel clock compared with the counter's step at once: few, because the clock is slewed during that time.
const PHASE_WINDOW: usize = 100;
/// Idioms whose empty intervals are mostly exactly zero: their step is longer than a reading.
const ZERO_BIAS: [&str; 1] = ["clock_gettime_coarse"];

/// The idioms that this machine and this run can use.
fn readers(counter: bool) -> Vec<ClockReader> {
    let counters: &[ClockReader] = if counter { &arch::COUNTER_READERS } else { &[] };
    counters.iter().chain(&KERNEL_READERS).copied().collect()
}

fn labels(reader: &ClockReader) -> Labels {
    Labels::of([("method", reader.name)])
}

/// The summary leaves out the rarer variants of the kernel's clocks.
fn common_idiom(labels: &Labels) -> bool {
    let method = labels.get("method").unwrap_or_default();
    method == "clock_gettime" || !(method.starts_with("clock_gettime_") || method == "instant_now")
}

/// The summary shows the bias of the pair that times everything else.
fn own_pair(labels: &Labels) -> bool {
    ["rdtscp_lfence", "fenced"].iter().any(|method| labels.get("method") == Some(method))
}

/// The summary shows the step of the counter and of the clock that programs call.
fn basic_clock(labels: &Labels) -> bool {
    ["rdtsc", "cntvct", "clock_gettime"].iter().any(|method| labels.get("method") == Some(method))
}

fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let mut predictions = Vec::new();
    for reader in &readers(true) {
        predictions.push(predict_reading(by, reader, "cpu.timer.overhead"));
        if !ZERO_BIAS.contains(&reader.name) {
            // From the middle of one reading to the middle of the next lies about one reading.
            predictions.push(predict_reading(by, reader, "cpu.timer.bias"));
        }
        predictions.push(predict_resolution(by, reader));
    }
    predictions
}

fn predict_reading(by: &PredictionInput<'_>, reader: &ClockReader, metric: &str) -> Prediction {
    let cycle = CycleTime::known(by);
    let prediction = Prediction::of(metric, labels(reader), Unit::Nanoseconds);
    let inside = |what: &str| metric == "cpu.timer.overhead" || !what.starts_with("CPUID");
    terms(by, reader).into_iter().filter(|(_, what, _)| inside(what)).fold(
        prediction,
        |prediction, (software, what, constant)| {
            let range = cycle.of(constant.times(1.0));
            if software {
                prediction.software(what, range, constant.basis())
            } else {
                prediction.hardware(what, range, constant.basis())
            }
        },
    )
}

fn predict_resolution(by: &PredictionInput<'_>, reader: &ClockReader) -> Prediction {
    let prediction = Prediction::of("cpu.timer.resolution", labels(reader), Unit::Nanoseconds);
    let step = counter_step(by);
    match reader.name {
        "clock_gettime_coarse" => {
            prediction.software("one tick of the kernel", KERNEL_TICK.times(1.0), KERNEL_TICK.basis())
        }
        _ if reader.ticks => prediction.hardware("step of the counter", step.times(1.0), step.basis()),
        _ => {
            let (value, low, high) = step.times(1.0);
            let least = NANOSECOND.value;
            let range = (value.max(least), low.max(least), high.max(least));
            prediction.hardware("step of the counter, at least a nanosecond", range, step.basis())
        }
    }
}

/// What a reading consists of: software or not, what, constant.
fn terms(by: &PredictionInput<'_>, reader: &ClockReader) -> Vec<(bool, &'static str, Constant)> {
    let reading = (false, "reading the counter", counter_reading(by));
    let ordered = (false, "waiting for earlier instructions", ORDERED_READING);
    let fence = (false, "LFENCE or barrier", LOAD_FENCE);
    let vdso = (true, "sequence check, scale and add in the vDSO", VDSO_ARITHMETIC);
    match reader.name {
        "rdtsc" | "cntvct" => vec![reading],
        "rdtscp" => vec![reading, ordered],
        "lfence_rdtsc" | "isb_cntvct" => vec![reading, fence],
        "rdtscp_lfence" => vec![reading, ordered, fence],
        "fenced" => vec![reading, fence, (false, "second fence or barrier", LOAD_FENCE)],
        "cpuid_rdtsc" if by.setup.machine.is_guest() => {
            vec![reading, ordered, (false, "CPUID, with an exit to the hypervisor", CPUID_EXIT)]
        }
        "cpuid_rdtsc" => vec![reading, ordered, (false, "CPUID", CPUID)],
        "clock_gettime_coarse" => vec![(true, "sequence check and add in the vDSO", VDSO_COARSE)],
        "clock_gettime_syscall" => vec![
            reading,
            (true, "entering and leaving the kernel", KERNEL_ROUND_TRIP),
            (true, "the kernel's clock and the copy to the caller", KERNEL_CLOCK_SERVICE),
        ],
        "instant_now" => vec![reading, ordered, vdso, (true, "conversion and difference", INSTANT_ARITHMETIC)],
        _ => vec![reading, ordered, vdso],
    }
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let counter = rig.counts_ticks();
    let readers = readers(counter);
    let mut counter_step = None;
    for reader in &readers {
        measure_pairs(rig, reader)?;
        if let Some(step) = resolution(reader, counter_step) {
            let unit = if reader.ticks { Unit::Ticks } else { Unit::Nanoseconds };
            rig.record("step", labels(reader), unit, vec![step])?;
            if reader.ticks {
                // The first idiom reads fastest: readings microseconds apart, as with CPUID, can show half of the step.
                counter_step.get_or_insert(rig.nanoseconds(step));
            }
        }
    }
    let workloads = readers
        .iter()
        .map(|reader| Workload::function("readings", labels(reader), READINGS_PER_ITERATION, reader.repeat))
        .collect();
    rig.sample_in_blocks(workloads)
}

/// Back-to-back pairs, with the chain of the self-test at every place; one mean each, in the idiom's own unit.
fn measure_pairs(rig: &mut Rig<'_>, reader: &ClockReader) -> Result<(), Problem> {
    let mut pilot = [0_i64; 8];
    let began = crate::sys::clock::monotonic_raw();
    (reader.pairs)(&mut pilot, ChainAt::Nowhere);
    let each = (crate::sys::clock::monotonic_raw() - began) as f64 / pilot.len() as f64;
    let mut differences = vec![0_i64; if each > SLOW_NANOSECONDS { SLOW_PAIRS } else { PAIRS }];
    let unit = if reader.ticks { Unit::Ticks } else { Unit::Nanoseconds };
    let places: &[(&str, ChainAt)] = if reader.ticks {
        &[
            ("nowhere", ChainAt::Nowhere),
            ("between", ChainAt::Between),
            ("before", ChainAt::Before),
            ("after", ChainAt::After),
        ]
    } else {
        &[("nowhere", ChainAt::Nowhere)]
    };
    for &(place, chain) in places {
        let alone = rig.while_alone(|| (reader.pairs)(&mut differences, chain));
        let values: Vec<f64> = differences.iter().map(|&difference| difference as f64).collect();
        if let Some(mean) = mean_of_uninterrupted(&values) {
            let series = if alone { PAIR } else { PAIR_BESIDE_NEIGHBOUR };
            rig.record(series, labels(reader).with("chain", place), unit, vec![mean])?;
        }
    }
    if let Some(clock) = rig.median_ticks_per_cycle() {
        rig.record(PAIR_CLOCK, labels(reader), Unit::Ticks, vec![clock])?;
    }
    Ok(())
}

/// The step of the clock in its own unit, from readings at uneven distances. A clock that the kernel computes from the
/// counter cannot be finer than the counter, however many digits it shows: `counter_step` is the counter's in nanoseconds.
fn resolution(reader: &ClockReader, counter_step: Option<f64>) -> Option<f64> {
    if reader.name == "clock_gettime_coarse" {
        // Its step is a tick of the kernel, milliseconds: wait for two of them instead of reading on and on.
        // Ticks are not even to the nanosecond, so their common divisor says nothing: the shortest counts.
        return steps_of(reader, 2).windows(2).map(|pair| (pair[1] - pair[0]) as f64).reduce(f64::min);
    }
    let mut values = vec![0_i64; READINGS];
    (reader.readings)(&mut values);
    let own = clock_step(&values)? as f64;
    let on_counter = |step: &f64| {
        let concentrations: Vec<f64> = values
            .chunks_exact(PHASE_WINDOW)
            .filter_map(|window| {
                let since: Vec<f64> = window.iter().map(|value| (value - window[0]) as f64).collect();
                phase_concentration(&since, *step)
            })
            .collect();
        median(&concentrations).is_some_and(|found| found >= ON_COUNTER_STEP)
    };
    Some(counter_step.filter(|step| !reader.ticks && *step > own).filter(on_counter).unwrap_or(own))
}

/// The readings at which a slow clock changed, up to a number of changes or 50 ms.
fn steps_of(reader: &ClockReader, changes: usize) -> Vec<i64> {
    let read = || {
        let mut value = [0_i64];
        (reader.readings)(&mut value);
        value[0]
    };
    let deadline = Source::MonotonicRaw.stamp().ticks + 50_000_000;
    let mut values = vec![read()];
    while values.len() <= changes && Source::MonotonicRaw.stamp().ticks < deadline {
        let now = read();
        if values.last() != Some(&now) {
            values.push(now);
        }
    }
    values
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    for reader in &readers(study.clock.source == arch::COUNTER) {
        publish_overhead(study, findings, reader);
        publish_bias(study, findings, reader);
        publish_resolution(study, findings, reader);
    }
}

fn publish_overhead(study: &Study<'_>, findings: &mut Findings, reader: &ClockReader) {
    let Some(estimate) = overhead(study, reader.name) else { return };
    let mut own = vec![gates::floor(&READING, &estimate, READING_FLOOR).because("a reading is several instructions")];
    match reader.name {
        "cpuid_rdtsc" => {
            let exits = estimate.value > CPUID_EXIT_CYCLES;
            own.push(Gate::holds(
                &EXITS,
                exits == study.setup.machine.is_guest(),
                format!(
                    "CPUID takes {} {}: {} a hypervisor, and the machine {} that it is virtual",
                    number(estimate.value),
                    estimate.unit,
                    if exits { "it exits to" } else { "it is too fast for an exit to" },
                    if study.setup.machine.is_guest() { "reports" } else { "does not report" }
                ),
            ));
        }
        "clock_gettime_syscall" => {
            if let Some(vdso) = overhead(study, "clock_gettime") {
                own.push(
                    Gate::more_than(&CALL_SLOWER, estimate.named("real system call {}"), vdso.value).because("vDSO"),
                );
            }
        }
        _ => {}
    }
    findings.publish(study, Figure::batches("cpu.timer.overhead", labels(reader), &estimate).gates(own));
}

fn overhead(study: &Study<'_>, method: &str) -> Option<Estimate> {
    Estimate::undisturbed(&study.sample("readings", &Labels::of([("method", method)]))?)
}

/// Mean length of the intervals with the chain at a place, one per launch. Its unit is core cycles for counter ticks with a
/// probe next to them, else nanoseconds.
fn intervals(study: &Study<'_>, reader: &ClockReader, place: &str) -> (Vec<f64>, Unit) {
    let pairs = study.numbered_series(PAIR, &labels(reader).with("chain", place));
    let clocks: BTreeMap<u32, f64> = study
        .numbered_series(PAIR_CLOCK, &labels(reader))
        .into_iter()
        .filter_map(|(launch, series)| Some((launch, *series.values.first()?)))
        .collect();
    let values = pairs.iter().filter_map(|(launch, series)| Some((launch, *series.values.first()?)));
    if reader.ticks && pairs.iter().all(|(launch, _)| clocks.contains_key(launch)) {
        (values.filter_map(|(launch, ticks)| Some(ticks / clocks.get(launch)?)).collect(), Unit::Cycles)
    } else if reader.ticks {
        (values.map(|(_, ticks)| study.nanoseconds(ticks)).collect(), Unit::Nanoseconds)
    } else {
        (values.map(|(_, nanoseconds)| nanoseconds).collect(), Unit::Nanoseconds)
    }
}

fn publish_bias(study: &Study<'_>, findings: &mut Findings, reader: &ClockReader) {
    let (values, unit) = intervals(study, reader, "nowhere");
    let estimator = "median over launches of the mean of uninterrupted back-to-back readings";
    let Some(estimate) = Estimate::over_launches(&values, unit, estimator) else {
        if !study.series(PAIR_BESIDE_NEIGHBOUR, &labels(reader).with("chain", "nowhere")).is_empty() {
            findings.cannot("cpu.timer.bias", labels(reader), "a neighbour used the core during every measurement");
        }
        return;
    };
    // A clock whose step is longer than a reading shows mostly nothing: that is its resolution, not its bias.
    if estimate.value <= 0.0 {
        return;
    }
    let mut own = Vec::new();
    if unit == Unit::Cycles {
        own.push(gates::floor(&BIAS, &estimate, BIAS_FLOOR_CYCLES).because("two readings of a counter"));
    }
    if reader.claims_order && reader.ticks {
        own.extend(not_below_unordered(study, &estimate));
    }
    findings.publish(study, Figure::derived("cpu.timer.bias", labels(reader), &estimate).gates(own));
}

/// Waiting for earlier work cannot make a pair of readings shorter than one that does not wait.
fn not_below_unordered(study: &Study<'_>, estimate: &Estimate) -> Option<Gate> {
    let plain = arch::COUNTER_READERS.iter().find(|reader| !reader.claims_order)?;
    let (values, unit) = intervals(study, plain, "nowhere");
    let unordered = median(&values).filter(|_| unit == estimate.unit)?;
    let step = study.values("step", &labels(plain)).into_iter().reduce(f64::min)?;
    let clock = median(&study.values(PAIR_CLOCK, &labels(plain))).unwrap_or(1.0);
    let reason = format!("{} of {}, which is unordered, less one step of the counter", number(unordered), plain.name);
    Some(Gate::at_least(&ORDERED, estimate.named("an ordered pair takes {}"), unordered - step / clock).because(reason))
}

fn publish_resolution(study: &Study<'_>, findings: &mut Findings, reader: &ClockReader) {
    let steps: Vec<f64> = study
        .values("step", &labels(reader))
        .into_iter()
        .map(|step| if reader.ticks { study.nanoseconds(step) } else { step })
        .collect();
    // One launch that saw finer steps proves them; none can see finer ones than there are.
    let Some(finest) = steps.iter().copied().reduce(f64::min) else { return };
    let estimator = "smallest over launches of the step on whose multiples nine of ten readings fall";
    let found = Estimate::over_launches(&vec![finest; steps.len()], Unit::Nanoseconds, estimator);
    // A whole number of ticks: what is uncertain is how long a tick is.
    let interval = [-1e-6, 1e-6].map(|part| finest * (1.0 + part * study.clock.error_ppm));
    let Some(estimate) = found.map(|found| Estimate { interval, ..found }) else { return };
    findings.publish(study, Figure::fact("cpu.timer.resolution", labels(reader), &estimate));
}

/// The self-test of order: how much of a chain of known length each idiom keeps in the interval, and lets in from outside.
fn report_order(study: &Study<'_>, findings: &mut Findings) {
    let readers = readers(study.clock.source == arch::COUNTER);
    let mut rows = Vec::new();
    let mut broken = Vec::new();
    let multiply = study.evidence().find_map(|found| found.chain_ratio).map_or(3.0, f64::round);
    let chain = arch::SELF_TEST_CYCLES / 3.0 * multiply;
    for reader in readers.iter().filter(|reader| reader.ticks) {
        let growth = |place| {
            let (empty, unit) = intervals(study, reader, "nowhere");
            let (with, _) = intervals(study, reader, place);
            let grown: Vec<f64> = with.iter().zip(&empty).map(|(with, empty)| with - empty).collect();
            median(&grown).filter(|_| unit == Unit::Cycles)
        };
        let (Some(between), Some(before), Some(after)) = (growth("between"), growth("before"), growth("after")) else {
            continue;
        };
        let keeps = (between - chain).abs() <= ORDER_TOLERANCE_CYCLES
            && before.abs() <= ORDER_TOLERANCE_CYCLES
            && after.abs() <= ORDER_TOLERANCE_CYCLES;
        if reader.claims_order && !keeps {
            broken.push(reader.name);
        }
        rows.push(vec![
            reader.name.to_owned(),
            format!("{between:.1}"),
            format!("{before:.1}"),
            format!("{after:.1}"),
            if keeps { "yes" } else { "no" }.to_owned(),
        ]);
    }
    if rows.is_empty() {
        return;
    }
    findings.tabulate(
        &format!("Serialisation self-test: growth of an interval in cycles with a chain of {chain} cycles"),
        &["method", "between the readings", "before the first", "after the second", "keeps order"],
        rows,
    );
    findings.say(if broken.is_empty() {
        "Every ordered method keeps the timed work between its two readings on this machine.".to_owned()
    } else {
        format!(
            "Readings by {} do not enclose the timed work. The interval misses part of the chain, or contains work from \
             outside, by more than {ORDER_TOLERANCE_CYCLES} cycles.",
            broken.join(", ")
        )
    });
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    report_order(study, findings);
    let time = |findings: &Findings, metric: &str, method: &str| {
        findings.metric(metric, &Labels::of([("method", method)])).cloned()
    };
    if let (Some(cpuid), Some(plain)) =
        (time(findings, "cpu.timer.overhead", "cpuid_rdtsc"), time(findings, "cpu.timer.overhead", "rdtsc"))
    {
        findings.say(format!(
            "A reading serialised with CPUID costs {}, and RDTSC alone {}.{}",
            cpuid.shown(),
            plain.shown(),
            ratio_sentence(&cpuid, &plain),
        ));
    }
    if let (Some(real), Some(vdso)) = (
        time(findings, "cpu.timer.overhead", "clock_gettime_syscall"),
        time(findings, "cpu.timer.overhead", "clock_gettime"),
    ) {
        // Both enter the kernel where the real call is less than this many times as long, beyond doubt.
        let alike = Ratio::of(&scaled(&vdso, 1.5), &real, 1.0).is_some();
        findings.say(format!(
            "clock_gettime costs {} as programs call it and {} as a real system call.{}",
            vdso.shown(),
            real.shown(),
            if alike {
                " The clock source of this machine makes every call a system call.".to_owned()
            } else {
                let block = " The section on system calls has calls in ordinary work, where one can cost less.";
                ratio_sentence(&real, &vdso) + block
            },
        ));
    }
    if let Some(step) = time(findings, "cpu.timer.resolution", "rdtsc") {
        findings.say(format!(
            "The counter advances in steps of {}. A single interval has at best this resolution.",
            step.shown()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_idiom_has_a_name_of_its_own() {
        let mut names: Vec<&str> = readers(true).iter().map(|reader| reader.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn the_coarse_clock_shows_its_step() {
        let coarse = KERNEL_READERS.iter().find(|reader| reader.name == "clock_gettime_coarse").unwrap();
        // A thread that others keep from its CPU sees no step in the time that it has.
        let values = (0..20).map(|_| steps_of(coarse, 2)).find(|values| values.len() >= 2);
        let values = values.expect("a tick of the kernel is at most 10 ms");
        assert!(values.windows(2).all(|pair| pair[1] - pair[0] >= 1_000_000));
    }
}
