//! # Question
//!
//! What does it cost to install a signal handler? What does it cost to send a signal to oneself and handle it?
//!
//! # Method
//!
//! sysdyno installs a handler for SIGUSR1 over itself (**install**), and sends SIGUSR1 to its own thread
//! (**deliver_self**). Each operation runs in ordinary work, from loops at drawn places, in batches of 256 (as in os.system_call). What
//! the same work takes without the operation is taken off. The rest divided by the operations is the cost of one, in
//! core cycles by the clock probes around each batch. Each batch follows 65 536 branches in random directions and 0.2 ms
//! of its operation, both untimed (blocks).
//!
//! **install** calls sigaction(2) of the C library. **deliver_self** makes a direct tgkill(2), and the kernel delivers
//! the signal before that call returns. The kernel saves the registers on the user stack and runs the handler, which
//! adds one to a counter. The return of the handler enters the kernel again (rt_sigreturn(2)), which restores the
//! registers.
//!
//! Every return value is checked, without a branch. A batch of signals is discarded unless the handler ran exactly once for each signal.
//! The same launch times getppid(2) in the same way, as the lower limit of the gates.
//!
//! # Prediction
//!
//! An installation enters the kernel once. A delivery enters it twice, and writes and reads a frame with all vector
//! registers. Kernel entry and exit cost as much as getppid(2) in this run. The rest is counted instructions at the
//! pace of the system calls of this run.
//!
//! # What could fool us
//!
//! - The library function raise(3) blocks all signals around the call. It makes two system calls more than the signal
//!   needs.
//! - A blocked signal is queued and not delivered. The signal here is unblocked first, and every delivery is counted.
//! - Pending signals of the same number merge into one. Each must be handled before the next is sent.
//! - Shadow stacks, debuggers and system-call filters add to every delivery.
//! - The frame grows with the vector registers in use: 2.7 KiB with AVX-512, 0.5 KiB with SSE.
//!
//! # References
//!
//! - signal(7), sigaction(2), tgkill(2), sigreturn(2)
//! - Linux kernel/signal.c, arch/x86/kernel/signal.c
//! - McVoy & Staelin, USENIX 1996 (lat_sig)

use crate::experiments::constants::KERNEL_ROUND_TRIP;
use crate::experiments::os::kernel_work;
use crate::experiments::os::system_call::paid;
use crate::experiments::prelude::*;
use crate::sys::placed::{Around, Operation};
use crate::sys::process::{self, Trial};
use crate::sys::signal::{self, Handled};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "os.signal",
    title: "Signals",
    measures: "installing a signal handler, and handling a signal to oneself",
    words: &["kill", "signals"],
    method_version: 4,
    precision: Precision { target: 0.02, between: 0.01, busy: 0.01 },
    source: heading!("signal.rs"),
    uses: &["cpu.cycle_time", "os.system_call.time"],
    rules: RULES,
    constants: CONSTANTS,
    publishes: &[Publication::cost(
        TIME,
        Unit::Nanoseconds,
        "installing a handler, or sending a signal until its handler returns",
    )
    .in_summary()],
    seconds: |_| 0.1,
    time_out: 10.0,
    predict,
    measure,
    figures,
    explain,
    ..Experiment::DEFAULT
};

const TIME: &str = "os.signal.time";
const INSTALL: &str = "install";
const DELIVER: &str = "deliver_self";
/// The series of the call that enters the kernel and does next to nothing there.
const BARE: &str = "bare";

/// The method version from which the code is placed by lot, in ordinary work.
const PLACED: u32 = 3;
/// Operations in a batch.
const PER_BATCH: u64 = 256;
/// An operation may come out this much below the calls that it contains before something is wrong.
const SLACK: f64 = 0.03;

constants! {
    /// Saving all registers of a thread on its stack for a signal handler, and restoring them.
    SIGNAL_FRAME = 500.0 in 150.0 ..= 2000.0 "cycles",
        "Linux arch/x86/kernel/fpu/signal.c: XSAVE and XRSTOR of 0.5 to 2.7 KiB of user memory";
}

rules! {
    CALLS_INSIDE: "G20" Hard "`os.signal.time`",
        "installing a handler takes at least one getppid, delivering a signal at least two, less {}", share(SLACK);
}

/// An operation, how often it enters the kernel, and what is done there.
struct SignalOperation {
    how: &'static str,
    entries: f64,
    work: &'static str,
    /// Instructions of that work, counted roughly, for the prediction.
    instructions: f64,
}

const OPERATIONS: [SignalOperation; 2] = [
    SignalOperation {
        how: INSTALL,
        entries: 1.0,
        work: "copy the action and replace the old one",
        instructions: 150.0,
    },
    SignalOperation {
        how: DELIVER,
        entries: 2.0,
        work: "find the thread, queue the signal, choose its handler",
        instructions: 1500.0,
    },
];

fn labels(how: &str) -> Labels {
    Labels::of([("how", how)])
}

fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let cycle = CycleTime::known(by);
    let bare = paid(by.known, "getppid");
    let (entry, basis) = match bare {
        Some(bare) => {
            ((bare.value, bare.value * 0.7, bare.value * 1.3), Basis::metric("os.system_call.time call=getppid"))
        }
        None => (cycle.of(KERNEL_ROUND_TRIP.times(1.0)), KERNEL_ROUND_TRIP.basis()),
    };
    let times = |(value, low, high): (f64, f64, f64), factor: f64| (value * factor, low * factor, high * factor);
    let of = |operation: &SignalOperation| {
        let (work, pace) = kernel_work(by, operation.instructions);
        let prediction = Prediction::of(TIME, labels(operation.how), Unit::Nanoseconds)
            .hardware("entering and leaving the kernel", times(entry, operation.entries), basis.clone())
            .software(operation.work, work, pace);
        if operation.how == DELIVER {
            let frame = cycle.of(SIGNAL_FRAME.times(1.0));
            prediction.software("save all registers on the stack and restore them", frame, SIGNAL_FRAME.basis())
        } else {
            prediction
        }
    };
    OPERATIONS.iter().map(of).collect()
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    if let Err(reason) = available() {
        rig.unavailable(TIME, &Labels::none(), &reason);
        return Ok(());
    }
    let handled =
        Handled::counted().map_err(|error| Problem::new(format!("cannot install a signal handler: {error}")))?;
    let parent = rig.placed_loop(vec![Operation::parent_number()], Around::Work)?;
    let bare = rig.in_loop(BARE, Labels::none(), 1, &parent, Around::Work)?.sized(Sizing::Exactly(PER_BATCH));
    let loops = [(INSTALL, handled.install()), (DELIVER, handled.send())];
    let mut workloads = vec![bare];
    for (how, operation) in loops {
        let placed = rig.placed_loop(vec![operation], Around::Work)?;
        let workload =
            rig.in_loop("operation", labels(how), 1, &placed, Around::Work)?.sized(Sizing::Exactly(PER_BATCH));
        workloads.push(if how == DELIVER { counted(workload) } else { workload });
    }
    rig.sample_in_blocks(workloads)
}

/// Batches of signals, each of which the handler must have run for.
fn counted(workload: Workload<'_>) -> Workload<'_> {
    let Workload { mut work, .. } = workload;
    let checked = move |signals: u64| {
        let before = signal::delivered();
        let timed = work(signals)?;
        match signal::delivered() - before {
            handled if handled != signals => Err(format!("{signals} signals were sent and {handled} handled")),
            _ => Ok(timed),
        }
    };
    Workload { work: Box::new(checked), ..workload }
}

/// Whether signals can be used, tried in a child process where a filter might kill the caller.
fn available() -> Result<(), String> {
    if !process::is_filtered() {
        return Ok(());
    }
    match process::try_in_child(|| {
        Handled::counted().is_ok_and(|handled| handled.send().once() == 0 && signal::delivered() > 0)
    }) {
        Ok(Trial::Worked) => Ok(()),
        Ok(Trial::Refused) => Err("a system-call filter refuses signals".to_owned()),
        Ok(Trial::Killed(signal)) => {
            Err(format!("a system-call filter kills a process that sends a signal ({signal})"))
        }
        Err(error) => Err(format!("cannot try signals in a child process: {error}")),
    }
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    let estimate = |name: &str, labels: &Labels| {
        let sample = study.sample(name, labels)?;
        if study.method_version < PLACED {
            Estimate::undisturbed(&sample)
        } else {
            Estimate::of_draws(&sample.by_median())
        }
    };
    let bare = estimate(BARE, &Labels::none());
    for operation in &OPERATIONS {
        let Some(estimate) = estimate("operation", &labels(operation.how)) else { continue };
        let own = bare.iter().filter(|bare| bare.unit == estimate.unit);
        let own = own.map(|bare| contains_its_calls(&estimate, bare, operation.entries));
        findings.publish(study, Figure::batches(TIME, labels(operation.how), &estimate).gates(own));
    }
}

/// An operation takes no less than the system calls in it.
fn contains_its_calls(estimate: &Estimate, bare: &Estimate, entries: f64) -> Gate {
    let least = bare.value * entries * (1.0 - SLACK);
    Gate::at_least(&CALLS_INSIDE, estimate.named("{}"), least).because(format!("{} calls of getppid", number(entries)))
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    let time = |findings: &Findings, how: &str| findings.metric(TIME, &labels(how)).cloned();
    let (Some(install), Some(deliver)) = (time(findings, INSTALL), time(findings, DELIVER)) else { return };
    findings.say(format!(
        "Installing a signal handler costs {}. A signal to oneself costs {} until its handler returns.",
        install.shown(),
        deliver.shown()
    ));
    let call = paid(study.known, "getppid");
    if let Some(ratio) = call.and_then(|call| Ratio::of(&deliver, call, 1.0)) {
        findings.say(format!(
            "This is as much as {} calls of getppid. Two of them are kernel entry and exit, to send the signal and to \
             end its handler.",
            ratio.text()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::sampler::Timed;
    use crate::sys::placed::PlacedLoop;

    #[test]
    fn a_signal_is_handled_before_its_sending_returns() {
        let handled = Handled::counted().expect("a handler can be installed");
        let before = signal::delivered();
        let operations = vec![handled.send(), handled.install()];
        let mut random = fastrand::Rng::with_seed(1);
        let mut placed = PlacedLoop::draw(&mut random, operations, Around::Work, 1).expect("code can be placed");
        placed.run(2).expect("both answers are 0");
        assert_eq!(signal::delivered() - before, 2);
    }

    #[test]
    fn a_signal_that_is_not_handled_voids_the_batch() {
        let quiet = |work: Result<Timed, String>| {
            let mut work = Some(work);
            Workload::self_timed("operation", labels(DELIVER), 1, move |_| work.take().unwrap_or(Ok(Timed::Whole)))
        };
        assert!((counted(quiet(Ok(Timed::Whole))).work)(1).is_err());
        assert!((counted(quiet(Ok(Timed::Whole))).work)(0).is_ok());
        assert!((counted(quiet(Err("refused".to_owned()))).work)(0).is_err());
    }
}
