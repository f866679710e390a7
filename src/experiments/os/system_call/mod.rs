//! # Question
//!
//! What does it cost to ask the kernel for something, and how much of that is the way in and out?
//!
//! # Method
//!
//! Each call of the set is made directly with the system-call instruction, its arguments in registers, again and again by a
//! loop of one call; the cost of one is a batch over its calls, in core cycles by the clock probes beside it. What ran before
//! decides what a call costs, because branch predictors remember it for hundreds of calls, sometimes for more than a thousand.
//! So the calls are measured in blocks, one after the other in an order drawn by lot for each launch. A block begins with 2 ms of
//! its call, untimed, and then has all its batches in a row, of 256 calls or more. The question is: what does the same call
//! cost again and again?
//!
//! The other question is asked of the floor: what does it cost among other calls? All calls of the set take turns in random order,
//! with batches of 512 calls or more, and those of the floor are kept. That figure has the label order=sweep.
//!
//! Between the two clock reads of a batch stand nothing but the calls, the sum of their answers, and one subtraction and one
//! branch for each, which run in the shadow of the call. Every answer is checked: the sum over a batch must be what that many
//! right answers add up to, or the batch is void.
//!
//! The set: **enosys**, a number that no call has, which the kernel refuses at once: the floor; **getpid**, **getppid**,
//! **gettid**, which return a number; **getppid_in_function**, the same call in a function of its own, as C libraries make
//! it; **read_dev_zero** and **write_dev_null**, one byte through the file layer; **getcwd**, which walks the path of the
//! working directory, whose depth is the label path_depth; **clock_gettime**, really entering the kernel, and **clock_gettime_vdso**, as programs call it;
//! **sched_yield** with nobody to yield to; **io_uring_nop**, a no-operation by the ring, one per system call, and
//! **io_uring_nop_batched**, 32 of them per system call, each counted.
//!
//! **Gross** is the whole call. **Service** is what the kernel does for it: gross less the floor of the same launch, both in
//! blocks.
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
//! - The order of the calls. On AMD Zen 4 with return and indirect-branch mitigations the refused call takes 323 cycles again and
//!   again, and often 280 among others. Neither is disturbed. Steps of 43 cycles fit one more mispredicted branch in the kernel
//!   each. Programs that alternate calls may pay less or more than the figures of blocks.
//! - The place of the call in the program decides too: in one build getpid takes 384 cycles and gettid 538, in another 475 and 388.
//! - A call with two costs in its blocks has both in its batches: the figure is the lower quartile, and the spread shows it.
//! - Calls through a C library: the kernel clears what predicts returns, where it defends itself, so the return of the
//!   library's function waits for its address. That may cost more than the call's whole service; tools that call a library in
//!   their loop measure it too.
//! - getcwd as "the smallest system call" measures the depth of a path: figures of other depths are others.
//!
//! # References
//!
//! syscalls(2), vdso(7), io_uring(7); Linux Documentation/admin-guide/hw-vuln; McVoy & Staelin, USENIX 1996 (lat_syscall).

mod explain;
mod judge;
mod measure;
mod predict;

use crate::evaluate::precision::Precision;
use crate::evaluate::study::Study;
use crate::experiments::{Experiment, Publication};
use crate::results::quantity::{Labels, Unit};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "os.system_call",
    title: "System calls",
    measures: "entering and leaving the kernel, and what a dozen calls do there",
    method_version: 3,
    precision: Precision { target: 0.02, between: 0.01 },
    source: include_str!("mod.rs"),
    needs: &[],
    uses: &["cpu.cycle_time", "cpu.timer.overhead"],
    rules: judge::RULES,
    constants: &[],
    publishes: &[
        Publication::cost("os.system_call.time", Unit::Nanoseconds, "one call, from user code to user code")
            .in_summary_where(common_call),
        Publication::cost("os.system_call.service", Unit::Nanoseconds, "what the kernel does for it, above the floor"),
    ],
    every: |_| 1,
    seconds: |_| 0.15,
    time_out: 10.0,
    memory: crate::experiments::little_memory,
    predict: predict::predict,
    measure: measure::measure,
    measure_first: None,
    figures: judge::figures,
    explain: explain::explain,
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
/// Remark of a launch: directories above the working directory.
const DEPTH: &str = "getcwd.depth";
/// Remark of a launch under a system-call filter.
const FILTERED: &str = "filtered";
/// getppid in a function of its own.
const FUNCTION: &str = "getppid_in_function";
const VDSO: &str = "clock_gettime_vdso";
const RING: &str = "io_uring_nop";
const RING_BATCHED: &str = "io_uring_nop_batched";

fn labels(call: &str) -> Labels {
    Labels::of([("call", call)])
}

/// The floor among other calls.
fn among_others() -> Labels {
    labels(FLOOR).with("order", "sweep")
}

/// The summary shows the floor and what users know by name.
fn common_call(labels: &Labels) -> bool {
    labels.get("order").is_none() && !["gettid", "sched_yield", VDSO].contains(&labels.get("call").unwrap_or_default())
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
}
