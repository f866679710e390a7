//! # Question
//!
//! What does a system call cost? How much of the cost is kernel entry and exit?
//!
//! # Method
//!
//! sysdyno makes each call directly with the system-call instruction, and measures it in ordinary work and after the same call.
//!
//! - **after=work**: one call in ordinary work of some 40 to 300 cycles. This is the cost that a program pays. The work has branches,
//!   calls, searches and hashes, and its data is in the first cache. A batch runs it with the call and then without. The difference divided
//!   by the calls is the cost of one call.
//! - **after=same_call**: the call again and again.
//!
//! The loops are composed of pieces of assembly, in executable memory. Each launch draws eight placements of each loop, one for
//! each batch. A placement is the pieces of work, the place of the call among them, neighbouring code, and an
//! offset in its page.
//! Each placement has its own offsets of the data in their pages. The environment of a launch has a drawn size, so the stack begins
//! elsewhere. The seed is in the log. A result is the
//! median over all placements of all launches, and its interval contains their scatter.
//!
//! Before a batch come 65 536 branches in random directions and 0.2 ms of its loop, untimed (blocks). The branches
//! leave nothing of earlier code in the branch predictors. A batch has at least 256 repeated calls, or lasts 100 µs in work. Each round has a block of every
//! call, in random order. The floor is also measured among other calls (**after=other_calls**). Batches of at least 512 calls of all kinds then
//! alternate in random order, without random branches.
//!
//! Every return value is compared with the expected one, without a branch. A batch with a wrong value is discarded.
//!
//! - **enosys**: the number of no existing system call, which the kernel refuses at once. It is the floor.
//! - **getpid**, **getppid**, **gettid**: return a number.
//! - **getppid_in_function**: getppid through a function, as in C libraries.
//! - **read_dev_zero**, **write_dev_null**: one byte through the file layer.
//! - **getcwd**: the path of the working directory. The label path_depth is its depth.
//! - **clock_gettime**: a clock read that enters the kernel. **clock_gettime_vdso**: the same as programs make it.
//! - **sched_yield**: with no other task to run.
//! - **io_uring_nop**: one no-operation through the ring per system call. **io_uring_nop_batched**: 32 per system call,
//!   each counted. The loop fills the submissions, enters the kernel, and takes the completions, as a C library does inline.
//! - **stat**, **statx**, **access**, **open_close**: of `/dev/null`, a path of two parts.
//! - **stat_missing**: of a name that no file has.
//! - **fstat**, **lseek**, **fcntl_getfl**, **isatty**, **dup_close**: of an open file.
//! - **pread_1**, **pread_4096**, **pwrite_1**, **pwrite_4096**: one byte and 4 KiB of a file in memory.
//! - **futex_wake**: no task waits. **futex_mismatch**: the word has another value, so the call returns.
//! - **epoll_wait_ready**: one descriptor of one is ready.
//! - **poll_1**, **poll_100**, **select_1**: one ready descriptor, in poll_100 after 99 entries of another one.
//! - **ioctl_fionread**: of a pipe.
//! - **getrandom_16**, **uname**, **getrusage**, **sigprocmask**, **timerfd_gettime**: copy a few bytes to the caller.
//! - **membarrier**: among the threads of the process, of which there is one.
//! - **chdir**: to the working directory. **fcntl_setfl**: to the flags that the file has. **writev_10**: ten bytes to `/dev/null`.
//! - **times**, **epoll_ctl**: of this process, and of a descriptor in a set. **futex_requeue**: no task waits.
//! - **socket_close**, **socket_bind_close**, **socketpair_close**: a TCP socket, a UDP socket with a free port, two UNIX sockets.
//! - **listen**, **setsockopt**, **getsockname**, **getpeername**: of an IPv4 socket on the loopback interface. Nothing is sent.
//!
//! Results of open_close, dup_close and those with sockets and close are the costs of all their calls together, in a function.
//!
//! The metric **time** is the cost of the whole call. The metric **service** is the kernel's work for the call. It is
//! the whole cost minus the floor of the same launch, both in ordinary work. Kernel entry waits for earlier instructions, so
//! entry and service do not overlap and sysdyno can subtract the floor. Service is published if it exceeds three times
//! its error and a quarter of the whole cost.
//!
//! # Prediction
//!
//! - Kernel entry and exit: 70 to 150 cycles on bare metal without page-table isolation, hundreds more with it. If this
//!   run has timed a clock read by real system call, about a third of its time.
//! - Service: counted instructions, at the pace of the other two thirds of that clock read, or else at two per cycle.
//!
//! # What could fool us
//!
//! - A library may answer instead of the kernel. Old C libraries cached the process number, and the vDSO answers clock
//!   reads.
//! - A write of no bytes, or to a closed file, returns at once and looks fast. Every return value is checked here.
//! - System-call filters (containers), tracing and audit raise the cost of every call. The machine description records
//!   them. The kernel caches the verdict of a filter only for calls that exist. Under a filter enosys is therefore not
//!   used as a floor.
//! - Mitigations change the results by a factor of two to five. A result is valid only with their state.
//! - A hypervisor that runs the kernel of the guest without hardware support takes part in every entry.
//! - What ran before decides. The kernel's code keeps the predictions that it began with, right or wrong, for seconds.
//!   On an AMD Zen 4 guest getpid took 472, 515, 520 or 536 cycles, and the level changed between batches. After
//!   random branches it takes 472 in every batch. Programs see any of these levels.
//! - The code around a call matters. On AMD Zen 4, a loop of getppid takes 565 cycles, and 428 if a return follows it in the same
//!   line. In ordinary work it takes about 440. A loop that a compiler lays out measures its own layout.
//! - A call waits until earlier instructions are complete, and later ones begin after it. Work before and after a call overlaps less, which
//!   is a part of the cost in work. Long chains of instructions, as hashes and searches are, lose most. A clock read in user mode overlaps with other work, so it costs less there than repeated.
//! - If a call has two costs, its batches contain both. The result is their median, and `modes` has both.
//! - Where mitigations are active, the kernel clears return predictions. The return of a C library function then waits
//!   for its address, which may cost more than the whole service of the call. Tools that call a library in their loop
//!   include this cost.
//! - getcwd as "the smallest system call" measures the depth of a path.
//!
//! # References
//!
//! - syscalls(2), vdso(7), io_uring(7)
//! - Linux Documentation/admin-guide/hw-vuln
//! - McVoy & Staelin, USENIX 1996 (lat_syscall)

mod calls;
mod explain;
mod judge;
mod measure;
mod predict;

use crate::experiments::prelude::*;

use super::row::{self, Row};
pub(in crate::experiments) use calls::CALLS;
use calls::{FLOOR, FUNCTION, RING, RING_BATCHED, VDSO};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "os.system_call",
    title: "System calls",
    measures: "kernel entry and exit, and the work of four dozen system calls",
    words: &["syscall", "syscalls", "getpid"],
    method_version: 8,
    precision: Precision { target: 0.02, between: 0.01, busy: 0.01 },
    source: heading!("mod.rs"),
    uses: &["cpu.cycle_time", "cpu.timer.overhead"],
    words_of: |key, value| if key == "call" { row::phrase(&CALLS, value) } else { None },
    rules: judge::RULES,
    publishes: &[
        Publication::cost("os.system_call.time", Unit::Nanoseconds, "one call, from user code to user code")
            .in_summary_where(common_call),
        Publication::cost("os.system_call.service", Unit::Nanoseconds, "work of the kernel for it, above the floor"),
    ],
    seconds: |_| 0.5,
    time_out: 10.0,
    in_quick: true,
    predict: predict::predict,
    measure: measure::measure,
    figures: judge::figures,
    explain: explain::explain,
    ..Experiment::DEFAULT
};

/// Calls that do enough for their pace to be distinguished from the floor, with their instructions.
pub(in crate::experiments) fn work() -> impl Iterator<Item = (&'static str, f64)> {
    let names = ["read_dev_zero", "write_dev_null", "getcwd", "clock_gettime", RING];
    CALLS.iter().filter(move |call| names.contains(&call.name)).map(|call| (call.name, call.instructions))
}

/// Remark of a launch: directories above the working directory.
const DEPTH: &str = "getcwd.depth";
/// Remark of a launch under a system-call filter.
const FILTERED: &str = "filtered";
/// The method version from which calls settle anew before each batch, and not once in a launch.
const SETTLES_BEFORE_EACH_BATCH: u32 = 4;
/// The method version from which calls are in ordinary work too, at places that are drawn.
const IN_WORK_TOO: u32 = 6;

/// Label of what surrounds a call.
const AFTER: &str = "after";
/// Its value where the call is one among ordinary work.
const IN_WORK: &str = "work";

fn labels(call: &str) -> Labels {
    Labels::of([("call", call)])
}

/// Labels of a call in ordinary work: what a program pays.
fn in_work(call: &str) -> Labels {
    labels(call).with(AFTER, IN_WORK)
}

/// What a call costs a program, of the results so far. Older runs know the repeated call only, without a label.
pub(in crate::experiments) fn paid<'m>(known: &'m [Metric], call: &str) -> Option<&'m Metric> {
    let is_call = |metric: &&Metric| metric.name == "os.system_call.time" && metric.labels.get("call") == Some(call);
    known.iter().filter(is_call).find(|metric| is_headline(&metric.labels))
}

/// The mitigations of attacks on the processor that are in force, by the names of the kernel.
pub(in crate::experiments) fn mitigations(machine: &Machine) -> Vec<&str> {
    let in_force = machine.kernel.mitigations.iter().filter(|found| found.state.starts_with("Mitigation"));
    in_force.map(|found| found.vulnerability.as_str()).collect()
}

/// Whether a figure is the one of its call that a program pays.
fn is_headline(labels: &Labels) -> bool {
    labels.get("order").is_none() && labels.get(AFTER).is_none_or(|after| after == IN_WORK)
}

/// Labels of a call after itself.
fn repeated(call: &str) -> Labels {
    labels(call).with(AFTER, "same_call")
}

/// The floor among other calls.
fn among_others() -> Labels {
    labels(FLOOR).with(AFTER, "other_calls")
}

/// The summary shows the floor and what users know by name.
fn common_call(labels: &Labels) -> bool {
    const COMMON: [&str; 10] = [
        FLOOR,
        "getpid",
        "getppid",
        FUNCTION,
        "read_dev_zero",
        "write_dev_null",
        "getcwd",
        "clock_gettime",
        RING,
        RING_BATCHED,
    ];
    is_headline(labels) && labels.get("call").is_some_and(|call| COMMON.contains(&call))
}

/// True for calls that enter the kernel once each: only then is the floor inside their figure.
fn enters_alone(call: &Row) -> bool {
    call.name != FLOOR && (call.entries - 1.0).abs() < f64::EPSILON
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
