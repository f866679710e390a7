//! # Question
//!
//! What does it cost to install a signal handler? What does it cost to send a signal to oneself and handle it?
//!
//! # Method
//!
//! sysdyno installs a handler for SIGUSR1 over itself (**install**), and sends SIGUSR1 to its own thread
//! (**deliver_self**). It also writes to a page that may only be read (**deliver_fault**), and the handler of SIGSEGV goes on after the
//! write. Each operation runs in ordinary work, from loops at drawn places, in batches of 256 (as in os.system_call). What
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

use super::operation::Operations;
use super::row::Row;
use super::system_call::paid;
use crate::experiments::prelude::*;
use crate::sys::operation::Operation;
use crate::sys::signal;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "os.signal",
    title: "Signals",
    measures: "installing a signal handler, and handling a signal to oneself or for a refused write",
    words: &["kill", "signals"],
    method_version: 4,
    precision: Precision { target: 0.02, between: 0.01, busy: 0.01 },
    source: heading!("signal.rs"),
    uses: &["cpu.cycle_time", "os.system_call.time"],
    words_of: |key, value| OPERATIONS.phrase(key, value),
    constants: CONSTANTS,
    publishes: &[Publication::cost(
        TIME,
        Unit::Nanoseconds,
        "installing a handler, or causing a signal until its handler returns",
    )
    .in_summary()],
    seconds: |_| 0.1,
    time_out: 10.0,
    predict: |by| OPERATIONS.predict(by),
    measure: |rig| OPERATIONS.measure(rig),
    figures: |study, findings| OPERATIONS.figures(study, findings),
    explain,
    ..Experiment::DEFAULT
};

const TIME: &str = "os.signal.time";
const INSTALL: &str = "install";
const DELIVER: &str = "deliver_self";

constants! {
    /// Saving all registers of a thread on its stack for a signal handler, and restoring them.
    SIGNAL_FRAME = 500.0 in 150.0 ..= 2000.0 "cycles",
        "Linux arch/x86/kernel/fpu/signal.c: XSAVE and XRSTOR of 0.5 to 2.7 KiB of user memory";
}

pub(in crate::experiments) static OPERATIONS: Operations = Operations {
    metric: TIME,
    label: "how",
    rows: &[
        Row::call(
            INSTALL,
            "install a handler",
            "copy the action and replace the old one",
            150.0,
            Operation::install_handler,
        ),
        Row {
            entries: 2.0,
            parts: &[("save all registers on the stack and restore them", 1.0, SIGNAL_FRAME)],
            count: Some((signal::delivered, 1)),
            ..Row::call(
                DELIVER,
                "deliver to itself",
                "find the thread, queue the signal, choose its handler",
                1500.0,
                Operation::signal_to_itself,
            )
        },
        Row {
            parts: &[("save all registers on the stack and restore them", 1.0, SIGNAL_FRAME)],
            count: Some((signal::refused_writes, 1)),
            ..Row::call(
                "deliver_fault",
                "handle a write without permission",
                "find the area, refuse the write, choose its handler",
                4000.0,
                Operation::refused_write,
            )
        },
    ],
    sizing: Sizing::Exactly(256),
    placed_since: 3,
};

fn explain(study: &Study<'_>, findings: &mut Findings) {
    let time = |findings: &Findings, how: &str| findings.metric(TIME, &Labels::of([("how", how)])).cloned();
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
