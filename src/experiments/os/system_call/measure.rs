//! The calls of a launch: in ordinary work, repeated, and the floor once more among the others.

use std::cell::Cell;
use std::fs::File;
use std::os::fd::AsFd;
use std::rc::Rc;

use super::{
    CALLS, DEPTH, FILTERED, FLOOR, FUNCTION, MeasuredCall, RING, RING_BATCHED, VDSO, among_others, in_work, labels,
    repeated,
};
use crate::results::problem::Problem;
use crate::rig::Rig;
use crate::rig::placed::{SharedLoop, WORK_LONGER};
use crate::rig::sampler::{Sizing, Timed, Workload};
use crate::sys::clock::Source;
use crate::sys::placed::{Around, Operation};
use crate::sys::process::{self, Trial};
use crate::sys::ring::{self, Ring};
use crate::sys::{clock, counters, system_call};

/// Calls in a batch, at least: with 64 the clock probe before them adds a hundredth.
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

/// What the calls of a launch work on.
struct Means {
    zero: File,
    null: File,
    single: Option<Ring>,
    batched: Option<Ring>,
}

pub(super) fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let cannot_open = |error: std::io::Error| Problem::new(format!("cannot open a device file: {error}"));
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
    // A filter can kill a process that makes a ring.
    let ring = |name: &str, count| {
        let wanted = calls.iter().any(|call| call.name == name);
        wanted.then(|| Ring::of(count).ok()).flatten()
    };
    let means = Means {
        zero: File::open("/dev/zero").map_err(cannot_open)?,
        null: File::options().write(true).open("/dev/null").map_err(cannot_open)?,
        single: ring(RING, 1),
        batched: ring(RING_BATCHED, ring::ENTRIES),
    };
    if calls.iter().any(|call| call.name == "getcwd") {
        let path = Operation::current_directory(LONGEST_PATH).memory();
        rig.remark(DEPTH, &path.split(|&byte| byte == b'/').skip(1).count());
    }
    let mut blocks = Vec::new();
    let mut sweep = Vec::new();
    let batches = rig.batches();
    for around in [Around::Work, Around::Nothing] {
        for call in &calls {
            let Some(operation) = operation(call.name, &means) else { continue };
            let placed = rig.placed_loop(vec![operation], around)?;
            blocks.push(workload(rig, call, &placed, around)?);
            if around == Around::Nothing {
                sweep.push(in_sweep(workload(rig, call, &placed, around)?, batches));
            }
        }
    }
    rig.sample_in_blocks(blocks)?;
    if calls.first().is_some_and(|call| call.name == FLOOR) { rig.sample_first(sweep) } else { Ok(()) }
}

/// A call as it takes turns with others: what ran before each batch is its warm-up, and nobody waits for a level.
fn in_sweep(calls: Workload<'_>, batches: u32) -> Workload<'_> {
    let sizing = Sizing::AtLeast(CALLS_AMONG_OTHERS / calls.operations);
    Workload { labels: among_others(), sizing, at_most: Some(batches), ..calls }
}

/// The operation of a call. None if the call needs a ring and none could be set up.
fn operation<'a>(call: &str, means: &'a Means) -> Option<Operation<'a>> {
    Some(match call {
        FLOOR => Operation::refused(),
        "getpid" => Operation::process_number(),
        "getppid" => Operation::parent_number(),
        FUNCTION => Operation::parent_number_in_function(),
        "gettid" => Operation::thread_number(),
        "read_dev_zero" => Operation::read(means.zero.as_fd(), 1),
        "write_dev_null" => Operation::write(means.null.as_fd(), 1, 1),
        "getcwd" => Operation::current_directory(LONGEST_PATH),
        "clock_gettime" => Operation::monotonic_time(),
        "sched_yield" => Operation::yield_processor(),
        VDSO => clock::monotonic_operation(),
        RING => means.single.as_ref()?.operation(),
        _ => means.batched.as_ref()?.operation(),
    })
}

/// Batches of a call in its loop.
fn workload<'a>(
    rig: &Rig<'_>,
    call: &MeasuredCall,
    placed: &SharedLoop<'a>,
    around: Around,
) -> Result<Workload<'a>, Problem> {
    let labels = if around == Around::Work { in_work(call.name) } else { repeated(call.name) };
    let operations = if call.name == RING_BATCHED { u64::from(ring::ENTRIES) } else { 1 };
    let sizing = match around {
        Around::Work => Sizing::ByTimes(WORK_LONGER),
        Around::Nothing => Sizing::AtLeast(CALLS_PER_BATCH / operations),
    };
    let workload = rig.in_loop("call", labels, operations, placed, around)?.sized(sizing);
    Ok(if call.name == "sched_yield" { yields(workload, rig.source()?, rig.ticks(LONGEST_YIELDS)) } else { workload })
}

/// Whether a call can be made at all, tried in a child process where a filter might kill who makes it.
fn available(call: &str, filtered: bool) -> Result<(), String> {
    let needs_ring = call == RING || call == RING_BATCHED;
    if filtered {
        let tried = process::try_in_child(|| match call {
            "getpid" => system_call::process_number() > 0,
            "getppid" | FUNCTION => system_call::parent_number() >= 0,
            "gettid" => system_call::thread_number() > 0,
            "getcwd" => Operation::current_directory(LONGEST_PATH).once() > 0,
            "clock_gettime" => Operation::monotonic_time().once() == 0,
            "sched_yield" => system_call::yield_processor() == 0,
            FLOOR => system_call::refused() == system_call::REFUSED,
            _ if needs_ring => Ring::of(1).is_ok_and(|ring| ring.works()),
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
    if needs_ring && let Err(error) = Ring::of(1) {
        return Err(format!("io_uring is not available: {error} (see sysctl kernel.io_uring_disabled)"));
    }
    Ok(())
}

/// Yields, which hand the CPU to another task that wants it, for milliseconds each. Where there is one, a batch would take
/// seconds and all calls of the launch with it: such batches end early and count as preempted.
fn yields(workload: Workload<'_>, source: Source, longest: f64) -> Workload<'_> {
    let handed_over = Rc::new(Cell::new(0_u32));
    let noticed = Rc::clone(&handed_over);
    let Workload { mut work, .. } = workload;
    let guarded = move |calls: u64| {
        let began = source.stamp().ticks;
        if handed_over.get() >= HANDED_OVER {
            return Ok(Timed::Preempted(source.stamp().ticks - began));
        }
        let (mut own, mut left) = (Timed::Whole, calls);
        while left > 0 {
            let part = left.min(YIELDS_IN_A_ROW);
            own = match (own, work(part)?) {
                (Timed::Ticks(sum), Timed::Ticks(more)) => Timed::Ticks(sum + more),
                (_, timed) => timed,
            };
            left -= part;
            let span = source.stamp().ticks - began;
            if span as f64 > longest {
                handed_over.set(handed_over.get() + 1);
                return Ok(Timed::Preempted(span));
            }
        }
        Ok(own)
    };
    Workload { work: Box::new(guarded), ..workload }.prepared(move || {
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
