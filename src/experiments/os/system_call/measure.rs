//! The calls of a launch: in blocks, and the floor once more among the others.

use std::cell::Cell;
use std::fs::File;
use std::os::fd::AsFd;
use std::rc::Rc;

use super::{CALLS, DEPTH, FILTERED, FLOOR, FUNCTION, MeasuredCall, RING, RING_BATCHED, VDSO, among_others, labels};
use crate::results::problem::Problem;
use crate::results::quantity::Labels;
use crate::rig::Rig;
use crate::rig::sampler::{Sizing, Timed, Workload};
use crate::sys::clock::Source;
use crate::sys::process::{self, Trial};
use crate::sys::ring::{self, Ring};
use crate::sys::system_call::RepeatableCall;
use crate::sys::{clock, counters, system_call};

/// Calls in a batch of a block, at least: with 64 the clock probe before them adds a hundredth.
const CALLS_PER_BATCH: u64 = 256;
/// Calls in a batch among other calls, at least.
const CALLS_AMONG_OTHERS: u64 = 512;
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

pub(super) fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let cannot_open = |error: std::io::Error| Problem::new(format!("cannot open a device file: {error}"));
    let zero = File::open("/dev/zero").map_err(cannot_open)?;
    let null = File::options().write(true).open("/dev/null").map_err(cannot_open)?;
    let filtered = process::is_filtered();
    if filtered {
        rig.remark(FILTERED, &"a system-call filter is installed");
    }
    let mut calls = Vec::new();
    for call in &CALLS {
        match available(call.name, filtered) {
            Ok(()) => calls.push(call),
            Err(reason) => rig.unavailable("os.system_call.time", &labels(call.name), &reason),
        }
    }
    if calls.iter().any(|call| call.name == "getcwd") {
        let mut path = RepeatableCall::current_directory(LONGEST_PATH);
        path.repeat(1);
        rig.remark(DEPTH, &path.memory().split(|&byte| byte == b'/').skip(1).count());
    }
    let all = |rig: &Rig<'_>| -> Result<Vec<Workload<'_>>, Problem> {
        calls.iter().map(|call| workload(rig, call, &zero, &null)).collect()
    };
    let (blocks, sweep) = (all(rig)?, all(rig)?);
    rig.sample_in_blocks(blocks)?;
    if calls.first().is_some_and(|call| call.name == FLOOR) {
        let batches = rig.batches();
        rig.sample_first(sweep.into_iter().map(|calls| in_sweep(calls, batches)).collect())?;
    }
    Ok(())
}

/// A call as it takes turns with others: what ran before each batch is its warm-up, and nobody waits for a level.
fn in_sweep(calls: Workload<'_>, batches: u32) -> Workload<'_> {
    let sizing = Sizing::AtLeast(CALLS_AMONG_OTHERS / calls.operations);
    Workload { labels: among_others(), sizing, at_most: Some(batches), ..calls }
}

/// A batch of a call.
fn workload<'a>(rig: &Rig<'_>, call: &MeasuredCall, zero: &'a File, null: &'a File) -> Result<Workload<'a>, Problem> {
    Ok(match call.name {
        FLOOR => repeats(labels(call.name), system_call::REFUSED, RepeatableCall::refused()),
        "getpid" => repeats(labels(call.name), system_call::process_number(), RepeatableCall::process_number()),
        "getppid" => repeats(labels(call.name), system_call::parent_number(), RepeatableCall::parent_number()),
        FUNCTION => answers(labels(call.name), system_call::parent_number(), system_call::parent_numbers_in_function),
        "gettid" => repeats(labels(call.name), system_call::thread_number(), RepeatableCall::thread_number()),
        "read_dev_zero" => repeats(labels(call.name), 1, RepeatableCall::read_byte(zero.as_fd())),
        "write_dev_null" => repeats(labels(call.name), 1, RepeatableCall::write_byte(null.as_fd())),
        "getcwd" => {
            let mut path = RepeatableCall::current_directory(LONGEST_PATH);
            repeats(labels(call.name), path.repeat(1), path)
        }
        "clock_gettime" => repeats(labels(call.name), 0, RepeatableCall::monotonic_time()),
        "sched_yield" => yields(call, rig.source()?, rig.ticks(LONGEST_YIELDS)),
        // A clock that steps back would add to the sum.
        VDSO => {
            let mut last = clock::monotonic();
            answers(labels(call.name), 0, move |calls| {
                let mut back = 0;
                for _ in 0..calls {
                    let before = std::mem::replace(&mut last, clock::monotonic());
                    back += i64::from(last < before);
                }
                back
            })
        }
        RING => ring_workload(call, 1)?,
        _ => ring_workload(call, ring::ENTRIES)?,
    })
}

/// Whether a call can be made at all, tried in a child process where a filter might kill who makes it.
fn available(call: &str, filtered: bool) -> Result<(), String> {
    let needs_ring = call == RING || call == RING_BATCHED;
    if filtered {
        let tried = process::try_in_child(|| match call {
            "getpid" => system_call::process_number() > 0,
            "getppid" | FUNCTION => system_call::parent_number() >= 0,
            "gettid" => system_call::thread_number() > 0,
            "getcwd" => RepeatableCall::current_directory(LONGEST_PATH).repeat(1) > 0,
            "clock_gettime" => RepeatableCall::monotonic_time().repeat(1) == 0,
            "sched_yield" => system_call::yield_processor() == 0,
            FLOOR => system_call::refused() == system_call::REFUSED,
            _ if needs_ring => Ring::new().is_ok_and(|mut ring| ring.no_operations(1).is_ok()),
            _ => true,
        });
        match tried {
            Ok(Trial::Refused) if !needs_ring => return Err("a system-call filter refuses it".to_owned()),
            // A ring that is refused says why below.
            Ok(Trial::Worked | Trial::Refused) => {}
            Ok(Trial::Killed(signal)) => {
                return Err(format!("a system-call filter kills a process that makes it ({signal})"));
            }
            Err(error) => return Err(format!("cannot try it in a child process: {error}")),
        }
    }
    if needs_ring && let Err(error) = Ring::new() {
        return Err(format!("io_uring is not available: {error} (see sysctl kernel.io_uring_disabled)"));
    }
    Ok(())
}

/// A system call that always gives the same answer.
fn repeats(labels: Labels, right: i64, mut call: RepeatableCall<'_>) -> Workload<'_> {
    answers(labels, right, move |calls| call.repeat(calls))
}

/// Calls that all give the same answer, made so many times by a function that sums the answers up.
fn answers<'a>(labels: Labels, right: i64, mut make: impl FnMut(u64) -> i64 + 'a) -> Workload<'a> {
    Workload::of("call", labels, 1, move |calls| {
        let (sum, expected) = (make(calls), right * calls as i64);
        if sum == expected { Ok(()) } else { Err(format!("the return values sum to {sum} instead of {expected}")) }
    })
    .sized(Sizing::AtLeast(CALLS_PER_BATCH))
}

/// Yields, which hand the CPU to another task that wants it, for milliseconds each. Where there is one, a batch would take
/// seconds and all calls of the launch with it: such batches end early and count as preempted.
fn yields<'a>(call: &MeasuredCall, source: Source, longest: f64) -> Workload<'a> {
    let handed_over = Rc::new(Cell::new(0_u32));
    let noticed = Rc::clone(&handed_over);
    let mut yielding = RepeatableCall::yield_processor();
    Workload::self_timed("call", labels(call.name), 1, move |calls| {
        let began = source.stamp().ticks;
        if handed_over.get() >= HANDED_OVER {
            return Ok(Timed::Preempted(source.stamp().ticks - began));
        }
        let mut sum = 0_i64;
        let mut left = calls;
        while left > 0 {
            let part = left.min(YIELDS_IN_A_ROW);
            sum += yielding.repeat(part);
            left -= part;
            let span = source.stamp().ticks - began;
            if span as f64 > longest {
                handed_over.set(handed_over.get() + 1);
                return Ok(Timed::Preempted(span));
            }
        }
        if sum == 0 { Ok(Timed::Whole) } else { Err(format!("the return values sum to {sum} instead of 0")) }
    })
    .sized(Sizing::AtLeast(CALLS_PER_BATCH))
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
    let mut ring = Ring::new().map_err(|error| Problem::new(format!("cannot set up an io_uring: {error}")))?;
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
    .sized(Sizing::AtLeast(CALLS_PER_BATCH / u64::from(count))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers_as_expected() {
        assert_eq!(system_call::refused(), system_call::REFUSED);
        assert_eq!(system_call::process_number(), i64::from(std::process::id()));
        assert_eq!(RepeatableCall::monotonic_time().repeat(3), 0);
        assert_eq!(RepeatableCall::refused().repeat(5), 5 * system_call::REFUSED);
        assert_eq!(RepeatableCall::process_number().repeat(0), 0);
        assert_eq!(system_call::parent_numbers_in_function(3), 3 * system_call::parent_number());
    }

    #[test]
    fn a_wrong_answer_voids_the_batch() {
        let mut answer = 0;
        let mut workload = answers(labels("getpid"), 7, move |calls| {
            answer += calls as i64;
            7 * calls as i64 + i64::from(answer >= 12)
        });
        assert!((workload.work)(8).is_ok());
        assert!((workload.work)(8).is_err());
    }
}
