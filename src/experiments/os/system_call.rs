//! # Question
//!
//! What does it cost to ask the kernel for something, and how much of that is the way in and out?
//!
//! # Method
//!
//! Each call of the set is made directly with the system-call instruction, its arguments in registers, again and again by a
//! loop of one call, in batches of 2048; the cost of one is the batch over its calls, in core cycles by the clock probes
//! beside each batch. The batches are long and the loop is short because branch predictors remember: after other calls, or
//! between eight places of the same call, they can stay on a slower level for hundreds of calls, sometimes for more than a
//! thousand. For the same reason a batch is its own warm-up. Between the two clock reads of a batch stand nothing but the
//! calls, the sum of their answers, and one subtraction and one branch for each, which run in the shadow of the call. Every
//! answer is checked: the sum over a batch must be what that many right answers add up to, or the batch is void.
//!
//! The set: **enosys**, a number that no call has, which the kernel refuses at once: the floor; **getpid**, **getppid**,
//! **gettid**, which return a number; **getppid_in_function**, the same call in a function of its own, as C libraries make
//! it; **read_dev_zero** and **write_dev_null**, one byte through the file layer; **getcwd**, which walks the path of the
//! working directory; **clock_gettime**, really entering the kernel, and **clock_gettime_vdso**, as programs call it;
//! **sched_yield** with nobody to yield to; **io_uring_nop**, a no-operation by the ring, one per system call, and
//! **io_uring_nop_batched**, 32 of them per system call, each counted.
//!
//! **Gross** is the whole call. **Service** is what the kernel does for it: gross less the floor of the same launch.
//! Entering the kernel waits for what came before, so the two stand one after the other and may be subtracted. Service is
//! published where it stands out of its error by three and is at least a quarter of the gross figure.
//!
//! # Prediction
//!
//! The way in and out: 70 to 150 cycles on bare metal without page-table isolation, hundreds more with it; when this run
//! has already timed a clock read by real system call, about a third of that. The service: counted instructions, at the
//! pace of that clock read's other two thirds, else at two per cycle.
//!
//! # What could fool us
//!
//! - A library may answer instead of the kernel: old C libraries kept the process number; the vDSO answers clock reads.
//! - A write of no bytes, or to a closed file, returns at once and looks fast. Here every answer is checked.
//! - System-call filters (containers), tracing and audit raise the cost of every call; the machine description records them. The
//!   kernel remembers a filter's answer for calls that exist only: under a filter enosys is not used as a floor.
//! - Mitigations change the figure two- to fivefold; their state belongs to it.
//! - A hypervisor that runs the guest's kernel without hardware help takes part in every entry.
//! - Short batches of calls in turn: each starts on what the predictors learned from another call and may stay there to its
//!   end. On AMD Zen 4 with return and indirect-branch mitigations getpid then takes 380, 470 or 515 cycles, by chance. In
//!   long batches of one place the fast level wins for most calls; write and getcwd may keep to either there. Programs that
//!   alternate calls pay the slow one.
//! - Calls through a C library: the kernel clears what predicts returns, where it defends itself, so the return of the
//!   library's function waits for its address. That may cost more than the call's whole service; tools that call a library in
//!   their loop measure it too.
//! - getcwd as "the smallest system call" measures the depth of a path; the depth is recorded.
//!
//! # References
//!
//! syscalls(2), vdso(7), io_uring(7); Linux Documentation/admin-guide/hw-vuln; McVoy & Staelin, USENIX 1996 (lat_syscall).

use std::cell::Cell;
use std::fs::File;
use std::os::fd::AsFd;
use std::rc::Rc;

use crate::evaluate::estimate::Estimate;
use crate::evaluate::figure::Figure;
use crate::evaluate::findings::Findings;
use crate::evaluate::gate::{Number, rules};
use crate::evaluate::gates;
use crate::evaluate::precision::Precision;
use crate::evaluate::study::Study;
use crate::experiments::constants::{
    CycleTime, KERNEL_ENTRY_SHARE, KERNEL_INSTRUCTION, KERNEL_ROUND_TRIP, RETURN_AFTER_KERNEL,
};
use crate::experiments::{Experiment, PredictionInput, Publication};
use crate::results::prediction::{Basis, Prediction};
use crate::results::problem::Problem;
use crate::results::quantity::{Labels, Unit};
use crate::results::verdict::Gate;
use crate::results::wording::number;
use crate::rig::Rig;
use crate::rig::sampler::{Sizing, Timed, Workload};
use crate::sys::clock::Source;
use crate::sys::process::{self, Trial};
use crate::sys::ring::{self, Ring};
use crate::sys::{clock, counters, system_call};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "os.system_call",
    title: "System calls",
    measures: "entering and leaving the kernel, and what a dozen calls do there",
    method_version: 2,
    precision: Precision { target: 0.02, between: 0.01 },
    source: include_str!("system_call.rs"),
    needs: &[],
    uses: &["cpu.cycle_time", "cpu.timer.overhead"],
    rules: RULES,
    constants: &[],
    publishes: &[
        Publication::cost("os.system_call.time", Unit::Nanoseconds, "one call, from user code to user code")
            .in_summary_where(common_call),
        Publication::cost("os.system_call.service", Unit::Nanoseconds, "what the kernel does for it, above the floor"),
    ],
    every: |_| 1,
    seconds: |_| 0.3,
    time_out: 10.0,
    memory: crate::experiments::little_memory,
    predict,
    measure,
    figures,
    explain,
};

/// A call of the set.
struct MeasuredCall {
    /// Label.
    name: &'static str,
    /// What the kernel does for it.
    what: &'static str,
    /// Instructions of that, counted roughly, for the prediction.
    instructions: f64,
}

/// The floor, then the set in the order of the report.
const CALLS: [MeasuredCall; 13] = [
    MeasuredCall { name: FLOOR, what: "refuse a number that no call has", instructions: 0.0 },
    MeasuredCall { name: "getpid", what: "return a number", instructions: 40.0 },
    MeasuredCall {
        name: "getppid",
        what: "follow a pointer under a read lock and return a number",
        instructions: 60.0,
    },
    MeasuredCall { name: FUNCTION, what: "follow a pointer under a read lock and return a number", instructions: 60.0 },
    MeasuredCall { name: "gettid", what: "return a number", instructions: 40.0 },
    MeasuredCall { name: "read_dev_zero", what: "file layer, clear one byte of user memory", instructions: 260.0 },
    MeasuredCall { name: "write_dev_null", what: "file layer, throw one byte away", instructions: 180.0 },
    MeasuredCall { name: "getcwd", what: "walk up the path of the working directory and copy it", instructions: 600.0 },
    MeasuredCall { name: "clock_gettime", what: "read the clock and copy 16 bytes", instructions: CLOCK_INSTRUCTIONS },
    MeasuredCall { name: VDSO, what: "read the clock without the kernel", instructions: 40.0 },
    MeasuredCall { name: "sched_yield", what: "ask the scheduler, find nobody else", instructions: 500.0 },
    MeasuredCall { name: RING, what: "one no-operation through the ring and one system call", instructions: 800.0 },
    MeasuredCall { name: RING_BATCHED, what: "each of 32 no-operations of one system call", instructions: 150.0 },
];

/// Instructions of a clock read between entry and exit.
const CLOCK_INSTRUCTIONS: f64 = 300.0;

/// Calls that do enough for their pace to be told from the floor, with their instructions.
pub(in crate::experiments) const WORK: [(&str, f64); 5] = [
    ("read_dev_zero", 260.0),
    ("write_dev_null", 180.0),
    ("getcwd", 600.0),
    ("clock_gettime", CLOCK_INSTRUCTIONS),
    (RING, 800.0),
];

const FLOOR: &str = "enosys";
/// Remark of a launch under a system-call filter.
const FILTERED: &str = "filtered";
/// getppid in a function of its own.
const FUNCTION: &str = "getppid_in_function";
const VDSO: &str = "clock_gettime_vdso";
const RING: &str = "io_uring_nop";
const RING_BATCHED: &str = "io_uring_nop_batched";

/// Below these no processor enters and leaves its kernel.
const FLOOR_CYCLES: f64 = 40.0;
const FLOOR_NANOSECONDS: f64 = 15.0;
/// A call may come out this much cheaper than the floor of all calls before something is wrong.
const FLOOR_SLACK: f64 = 0.03;
/// What a call costs above the floor agrees with the difference of the figures within this share of the call.
const CONSISTENT: f64 = 0.1;

rules! {
    CONSISTENCE: "G5" Hard "`os.system_call.service`", "what a call costs above the floor within launches is what the two figures differ by, within {} of the call", share(CONSISTENT);
    ENTRY_FLOOR: "G8" Hard "`os.system_call.time` of the refused call", "entering the kernel takes at least {}", cycles(FLOOR_CYCLES);
    NOT_BELOW_REFUSED: "G20" Hard "`os.system_call.time`", "no system call is more than {} cheaper than the refused one, unless a system-call filter is installed", share(FLOOR_SLACK);
    BATCHED: "G20" Hard "`os.system_call.time`", "each of 32 no-operations in a batch costs at most what one alone costs";
}
/// Calls in a batch, of which the first hundreds may run on what the branch predictors remember of other calls.
const CALLS_PER_BATCH: u64 = 2048;
/// Yields before a batch of yields, untimed, that show whether there is anybody to yield to.
const YIELDS_BEFORE: u32 = 4;
/// Yields between looks at the clock: the looks are a few nanoseconds in a batch.
const YIELDS_IN_A_ROW: u64 = 512;
/// Nanoseconds of a batch of yields beyond which it handed the CPU over: 10 µs for each call, as no kernel takes for itself.
const LONGEST_YIELDS: f64 = 20e6;
/// Times in a row that the CPU was handed over until a launch makes no more batches of yields.
const HANDED_OVER: u32 = 3;
/// Longest path of a working directory (PATH_MAX).
const LONGEST_PATH: usize = 4096;

fn labels(call: &str) -> Labels {
    Labels::of([("call", call)])
}

/// The summary shows the floor and what users know by name.
fn common_call(labels: &Labels) -> bool {
    !["gettid", "sched_yield", VDSO].contains(&labels.get("call").unwrap_or_default())
}

fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let entry = KernelEntry::known(by);
    let served = CALLS.iter().filter(|call| enters_alone(call) && call.name != FUNCTION);
    CALLS.iter().map(|call| entry.prediction(call)).chain(served.map(|call| entry.service(call))).collect()
}

/// What entering and leaving the kernel is expected to cost, in nanoseconds.
struct KernelEntry {
    range: (f64, f64, f64),
    basis: Basis,
    /// One instruction of what comes between.
    instruction: (f64, f64, f64),
    pace: Basis,
    /// A return whose address the predictors may have lost in the kernel.
    lost_return: (f64, f64, f64),
}

impl KernelEntry {
    /// From the real clock read of this run where there is one, else from the constants table.
    fn known(by: &PredictionInput<'_>) -> Self {
        let cycle = CycleTime::known(by);
        let lost_return = cycle.of(RETURN_AFTER_KERNEL.times(1.0));
        let timed = by.metric("cpu.timer.overhead", &Labels::of([("method", "clock_gettime_syscall")]));
        let Some(timed) = timed else {
            let instruction = cycle.of(KERNEL_INSTRUCTION.times(1.0));
            let (range, basis) = (cycle.of(KERNEL_ROUND_TRIP.times(1.0)), KERNEL_ROUND_TRIP.basis());
            return KernelEntry { range, basis, instruction, pace: KERNEL_INSTRUCTION.basis(), lost_return };
        };
        let basis = Basis::metric("cpu.timer.overhead method=clock_gettime_syscall");
        let rest = |share: f64| timed.value * (1.0 - share) / CLOCK_INSTRUCTIONS;
        KernelEntry {
            range: KERNEL_ENTRY_SHARE.times(timed.value),
            // Other calls take other paths: half to twice the pace of this one.
            instruction: (
                rest(KERNEL_ENTRY_SHARE.value),
                rest(KERNEL_ENTRY_SHARE.high) * 0.5,
                rest(KERNEL_ENTRY_SHARE.low) * 2.0,
            ),
            pace: basis.clone(),
            basis,
            lost_return,
        }
    }

    /// What the kernel does between entering and leaving.
    fn service(&self, call: &MeasuredCall) -> Prediction {
        let prediction = Prediction::of("os.system_call.service", labels(call.name), Unit::Nanoseconds);
        prediction.software(call.what, self.work(call), self.pace.clone())
    }

    fn work(&self, call: &MeasuredCall) -> (f64, f64, f64) {
        let (each, least, most) = self.instruction;
        (each * call.instructions, least * call.instructions, most * call.instructions)
    }

    fn prediction(&self, call: &MeasuredCall) -> Prediction {
        let prediction = Prediction::of("os.system_call.time", labels(call.name), Unit::Nanoseconds);
        let share = match call.name {
            VDSO => 0.0,
            RING_BATCHED => 1.0 / f64::from(ring::ENTRIES),
            _ => 1.0,
        };
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
        let served = if call.instructions > 0.0 {
            entered.software(call.what, self.work(call), self.pace.clone())
        } else {
            entered
        };
        if call.name == FUNCTION {
            served.hardware("the return of the function", self.lost_return, RETURN_AFTER_KERNEL.basis())
        } else {
            served
        }
    }
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let cannot_open = |error: std::io::Error| Problem::new(format!("cannot open a device file: {error}"));
    let zero = File::open("/dev/zero").map_err(cannot_open)?;
    let null = File::options().write(true).open("/dev/null").map_err(cannot_open)?;
    let filtered = process::is_filtered();
    if filtered {
        rig.remark(FILTERED, &"a system-call filter is installed");
    }
    let mut workloads: Vec<Workload<'_>> = Vec::new();
    for call in &CALLS {
        if let Err(reason) = available(call.name, filtered) {
            rig.unavailable("os.system_call.time", &labels(call.name), &reason);
            continue;
        }
        workloads.push(match call.name {
            FLOOR => answers(call, system_call::REFUSED, system_call::refused),
            "getpid" => answers(call, system_call::process_number(), system_call::process_number),
            "getppid" => answers(call, system_call::parent_number(), system_call::parent_number),
            FUNCTION => answers(call, system_call::parent_number(), || system_call::parent_number_in_function()),
            "gettid" => answers(call, system_call::thread_number(), system_call::thread_number),
            "read_dev_zero" => {
                let (zero, mut byte) = (&zero, 0_u8);
                answers(call, 1, move || system_call::read_byte(zero.as_fd(), &mut byte))
            }
            "write_dev_null" => {
                let null = &null;
                answers(call, 1, move || system_call::write_byte(null.as_fd(), &7))
            }
            "getcwd" => {
                let mut path = vec![0_u8; LONGEST_PATH];
                let length = system_call::current_directory(&mut path);
                let depth = path.split(|&byte| byte == b'/').skip(1).count();
                rig.remark("getcwd.depth", &depth);
                answers(call, length, move || system_call::current_directory(&mut path))
            }
            "clock_gettime" => answers(call, 0, system_call::monotonic_time),
            "sched_yield" => yields(call, rig.source()?, rig.ticks(LONGEST_YIELDS)),
            // A clock that steps back would add to the sum.
            VDSO => {
                let mut last = clock::monotonic();
                answers(call, 0, move || {
                    let before = std::mem::replace(&mut last, clock::monotonic());
                    i64::from(last < before)
                })
            }
            RING => ring_workload(call, 1)?,
            _ => ring_workload(call, ring::ENTRIES)?,
        });
    }
    // The levels of the predictors make medians of four batches differ for ever in some calls: nobody waits for it.
    let batches = rig.batches();
    rig.sample(workloads.into_iter().map(|workload| workload.at_most(batches)).collect())
}

/// Whether a call can be made at all, tried in a child process where a filter might kill who makes it.
fn available(call: &str, filtered: bool) -> Result<(), String> {
    let needs_ring = call == RING || call == RING_BATCHED;
    if filtered {
        let tried = process::try_in_child(|| match call {
            "getpid" => system_call::process_number() > 0,
            "getppid" | FUNCTION => system_call::parent_number() >= 0,
            "gettid" => system_call::thread_number() > 0,
            "getcwd" => system_call::current_directory(&mut [0; LONGEST_PATH]) > 0,
            "clock_gettime" => system_call::monotonic_time() == 0,
            "sched_yield" => system_call::yield_processor() == 0,
            FLOOR => system_call::refused() == system_call::REFUSED,
            _ if needs_ring => Ring::new().is_ok_and(|mut ring| ring.no_operations(1).is_ok()),
            _ => true,
        });
        match tried {
            Ok(Trial::Refused) if !needs_ring => return Err("a system-call filter refuses it".to_owned()),
            // A ring that is refused says why below.
            Ok(Trial::Worked | Trial::Refused) => {}
            Ok(Trial::Killed(signal)) => return Err(format!("a system-call filter kills who makes it ({signal})")),
            Err(error) => return Err(format!("it cannot be tried in a child process: {error}")),
        }
    }
    if needs_ring && let Err(error) = Ring::new() {
        return Err(format!("no io_uring here: {error} (see sysctl kernel.io_uring_disabled)"));
    }
    Ok(())
}

/// A call that always gives the same answer.
fn answers<'a>(call: &MeasuredCall, right: i64, mut make: impl FnMut() -> i64 + 'a) -> Workload<'a> {
    Workload::of("call", labels(call.name), 1, move |calls| {
        let mut sum = 0_i64;
        for _ in 0..calls {
            sum += make();
        }
        let expected = right * calls as i64;
        if sum == expected { Ok(()) } else { Err(format!("answers add up to {sum}, right ones to {expected}")) }
    })
    .sized(Sizing::Exactly(CALLS_PER_BATCH))
}

/// Yields, which hand the CPU to another task that wants it, for milliseconds each. Where there is one, a batch would take
/// seconds and all calls of the launch with it: such batches end early and count as preempted.
fn yields<'a>(call: &MeasuredCall, source: Source, longest: f64) -> Workload<'a> {
    let handed_over = Rc::new(Cell::new(0_u32));
    let noticed = Rc::clone(&handed_over);
    Workload::self_timed("call", labels(call.name), 1, move |calls| {
        let began = source.stamp().ticks;
        if handed_over.get() >= HANDED_OVER {
            return Ok(Timed::Preempted(source.stamp().ticks - began));
        }
        let mut sum = 0_i64;
        let mut left = calls;
        while left > 0 {
            let part = left.min(YIELDS_IN_A_ROW);
            for _ in 0..part {
                sum += system_call::yield_processor();
            }
            left -= part;
            let span = source.stamp().ticks - began;
            if span as f64 > longest {
                handed_over.set(handed_over.get() + 1);
                return Ok(Timed::Preempted(span));
            }
        }
        if sum == 0 { Ok(Timed::Whole) } else { Err(format!("answers add up to {sum}, right ones to 0")) }
    })
    .sized(Sizing::Exactly(CALLS_PER_BATCH))
    .prepared(move || {
        if noticed.get() < HANDED_OVER {
            // Each yield to another task is a switch that the kernel counts.
            let before = counters::thread().involuntary_switches;
            for _ in 0..YIELDS_BEFORE {
                system_call::yield_processor();
            }
            let handed_over = counters::thread().involuntary_switches > before;
            noticed.set(if handed_over { noticed.get() + 1 } else { 0 });
        }
        Ok(())
    })
}

fn ring_workload<'a>(call: &MeasuredCall, count: u32) -> Result<Workload<'a>, Problem> {
    let mut ring = Ring::new().map_err(|error| Problem::new(format!("cannot set up a ring: {error}")))?;
    Ok(Workload::of("call", labels(call.name), u64::from(count), move |turns| {
        for _ in 0..turns {
            match ring.no_operations(count) {
                Ok(completed) if completed == count => {}
                Ok(completed) => return Err(format!("{completed} of {count} no-operations completed")),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    })
    .sized(Sizing::Exactly(CALLS_PER_BATCH / u64::from(count))))
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    let floor = study.sample("call", &labels(FLOOR));
    let floor_estimate = floor.as_ref().and_then(Estimate::undisturbed);
    for call in &CALLS {
        let Some(sample) = study.sample("call", &labels(call.name)) else { continue };
        let Some(estimate) = Estimate::undisturbed(&sample) else { continue };
        let own = call_gates(study, call, &estimate, floor_estimate.as_ref());
        findings.publish(study, Figure::batches("os.system_call.time", labels(call.name), &estimate).gates(own));
        let floor = floor.as_ref().filter(|_| enters_alone(call) && call.name != FUNCTION && !is_filtered(study));
        if let Some(net) = floor.and_then(|floor| Estimate::net(&sample, floor)) {
            let own =
                vec![gates::net_resolved(&net, estimate.value), consistent(&net, &estimate, floor_estimate.as_ref())];
            findings.publish(
                study,
                Figure::batches("os.system_call.service", labels(call.name), &net).of_gross(estimate.value).gates(own),
            );
        }
    }
}

/// What a call costs above the floor, taken within launches, is what the two figures differ by: where a call has two paces, and
/// launches meet one or the other, it is not.
fn consistent(net: &Estimate, gross: &Estimate, floor: Option<&Estimate>) -> Gate {
    let difference = floor.map_or(f64::NAN, |floor| gross.value - floor.value);
    let share = (net.value - difference).abs() / gross.value;
    let reason =
        format!("{} above the floor within launches, {} between the figures", number(net.value), number(difference));
    let apart = Number::share(share).named("the two differences are {} of the call apart");
    Gate::at_most(&CONSISTENCE, apart, CONSISTENT).because(reason)
}

/// True for calls that enter the kernel once each: only then is the floor inside their figure.
fn enters_alone(call: &MeasuredCall) -> bool {
    ![FLOOR, VDSO, RING_BATCHED].contains(&call.name)
}

/// True where a system-call filter was installed. The kernel remembers the filter's answer for calls that exist and runs it
/// for a number that no call has: the refused number then costs more than some calls and bounds nothing.
fn is_filtered(study: &Study<'_>) -> bool {
    !study.remarks(FILTERED).is_empty()
}

fn call_gates(study: &Study<'_>, call: &MeasuredCall, estimate: &Estimate, floor: Option<&Estimate>) -> Vec<Gate> {
    let mut own = Vec::new();
    let cycles = estimate.unit == Unit::Cycles;
    if call.name == FLOOR {
        let least = if cycles { FLOOR_CYCLES } else { FLOOR_NANOSECONDS };
        own.push(
            gates::floor(&ENTRY_FLOOR, estimate, least).because("no processor enters and leaves its kernel faster"),
        );
    }
    if let Some(floor) = floor.filter(|_| enters_alone(call) && !is_filtered(study)) {
        let reason = format!("the floor of {} less {}", number(floor.value), Number::share(FLOOR_SLACK).text());
        own.push(
            Gate::at_least(&NOT_BELOW_REFUSED, estimate.named("{}"), floor.value * (1.0 - FLOOR_SLACK)).because(reason),
        );
    }
    if call.name == RING_BATCHED
        && let Some(single) = study.sample("call", &labels(RING)).and_then(|sample| Estimate::undisturbed(&sample))
    {
        own.push(Gate::at_most(&BATCHED, estimate.named("{} in a batch"), single.value).because("one alone"));
    }
    own
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    let time = |findings: &Findings, call: &str| findings.metric("os.system_call.time", &labels(call)).cloned();
    let Some(floor) = time(findings, FLOOR) else { return };
    let call = study.metric(
        "cpu.procedure_call.time",
        &Labels::of([("args", "0"), ("code", "registers"), ("chain", "throughput")]),
    );
    if let Some(call) = call {
        findings.say(format!(
            "Entering the kernel and leaving it again costs {}{}, {} procedure calls without arguments.",
            floor.text(),
            floor.cycles_text().map_or_else(String::new, |cycles| format!(" ({cycles} cycles)")),
            number(floor.value / call.value),
        ));
    }
    if let (Some(direct), Some(function)) = (time(findings, "getppid"), time(findings, FUNCTION)) {
        let lost = function.value / direct.value - 1.0;
        findings.say(if lost > 0.05 {
            format!("Called through a function, as C libraries do it, getppid costs {} instead of {}: {} % more for one call and one return, a sign that what predicts returns does not survive the kernel. Tools that call a library print the larger figure.", function.text(), direct.text(), number(lost * 100.0))
        } else {
            format!("Called through a function, as C libraries do it, getppid costs {}, made directly {}: returns stay predicted across the kernel.", function.text(), direct.text())
        });
    }
    if let (Some(real), Some(vdso)) = (time(findings, "clock_gettime"), time(findings, VDSO)) {
        let times = real.value / vdso.value;
        findings.say(if times >= 1.5 {
            format!("Reading the clock through the vDSO saves the way into the kernel: {} instead of {}.", vdso.text(), real.text())
        } else {
            format!("Reading the clock through the vDSO costs {}, a real call {}: on this machine the vDSO enters the kernel too.", vdso.text(), real.text())
        });
    }
    if let (Some(single), Some(batched)) = (time(findings, RING), time(findings, RING_BATCHED)) {
        findings.say(format!(
            "A no-operation through io_uring costs {} alone and {} among 32 of one system call.",
            single.text(),
            batched.text(),
        ));
    }
    if let (Some(depth), Some(getcwd)) = (study.remarks("getcwd.depth").first(), time(findings, "getcwd")) {
        findings.say(format!("getcwd costs {} in a working directory {depth} levels deep.", getcwd.text()));
    }
    if is_filtered(study) {
        findings.say("A system-call filter is installed. The kernel runs it for a number that no call has, and remembers its answer for many calls that exist: the refused number cannot serve as a floor here, and no service is given.");
    }
    let mitigations: Vec<String> = study
        .setup
        .machine
        .kernel
        .mitigations
        .iter()
        .filter(|mitigation| mitigation.state.starts_with("Mitigation"))
        .map(|mitigation| mitigation.vulnerability.clone())
        .collect();
    let guest = if study.setup.machine.is_guest() { " Below this kernel is a hypervisor." } else { "" };
    findings.say(if mitigations.is_empty() {
        format!("No mitigation is active that the kernel would report.{guest}")
    } else {
        format!("Part of the floor are the active mitigations: {}.{guest}", mitigations.join(", "))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_comes_first_and_every_call_has_a_name_of_its_own() {
        assert_eq!(CALLS[0].name, FLOOR);
        let mut names: Vec<&str> = CALLS.iter().map(|call| call.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CALLS.len());
    }

    #[test]
    fn the_kernel_answers_as_expected() {
        assert_eq!(system_call::refused(), system_call::REFUSED);
        assert_eq!(system_call::process_number(), i64::from(std::process::id()));
        assert_eq!(system_call::monotonic_time(), 0);
    }

    #[test]
    fn a_wrong_answer_voids_the_batch() {
        let mut answer = 0;
        let mut workload = answers(&CALLS[1], 7, move || {
            answer += 1;
            if answer == 12 { 8 } else { 7 }
        });
        assert!((workload.work)(8).is_ok());
        assert!((workload.work)(8).is_err());
    }
}
