//! The calls of a launch: in ordinary work, repeated, and the floor once more among the others.

use std::cell::Cell;
use std::rc::Rc;

use super::calls::{IN_SWEEP, YIELD};
use super::{CALLS, DEPTH, FILTERED, FLOOR, among_others, in_work, labels, repeated};
use crate::experiments::os::row::Row;
use crate::experiments::prelude::*;
use crate::rig::placed::{SharedLoop, WORK_LONGER};
use crate::rig::sampler::Timed;
use crate::sys::clock::Source;
use crate::sys::placed::Around;
use crate::sys::process;
use crate::sys::{counters, system_call};

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

pub(super) fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let filtered = process::is_filtered();
    if filtered {
        rig.remark(FILTERED, &"a system-call filter is installed");
    }
    let mut calls: Vec<(&Row, _)> = Vec::new();
    for call in &CALLS {
        match call.usable(filtered, None) {
            Ok(operation) => calls.push((call, operation)),
            Err(reason) => rig.unavailable("os.system_call.time", &labels(call.name), &reason),
        }
    }
    if let Some((_, getcwd)) = calls.iter().find(|(call, _)| call.name == "getcwd") {
        let path = getcwd[0].memory();
        rig.remark(DEPTH, &path.split(|&byte| byte == b'/').skip(1).count());
    }
    let mut blocks = Vec::new();
    let mut sweep = Vec::new();
    let batches = rig.batches();
    for around in [Around::Work, Around::Nothing] {
        for (call, operation) in &calls {
            let placed = rig.placed_loop(operation.clone(), around)?;
            blocks.push(workload(rig, call, &placed, around)?);
            if around == Around::Nothing && CALLS.iter().take(IN_SWEEP).any(|other| other.name == call.name) {
                sweep.push(in_sweep(workload(rig, call, &placed, around)?, batches));
            }
        }
    }
    rig.sample_in_blocks(blocks)?;
    if calls.first().is_some_and(|(call, _)| call.name == FLOOR) { rig.sample_first(sweep) } else { Ok(()) }
}

/// A call as it takes turns with others: what ran before each batch is its warm-up, and no workload waits for a level.
fn in_sweep(calls: Workload<'_>, batches: u32) -> Workload<'_> {
    let sizing = Sizing::AtLeast(CALLS_AMONG_OTHERS / calls.operations);
    Workload { labels: among_others(), sizing, at_most: Some(batches), ..calls }
}

/// Batches of a call in its loop.
fn workload<'a>(rig: &Rig<'_>, call: &Row, placed: &SharedLoop<'a>, around: Around) -> Result<Workload<'a>, Problem> {
    let labels = if around == Around::Work { in_work(call.name) } else { repeated(call.name) };
    let sizing = match around {
        Around::Work => Sizing::ByTimes(WORK_LONGER),
        Around::Nothing => Sizing::AtLeast(CALLS_PER_BATCH / call.operations),
    };
    let workload = rig.in_loop("call", labels, call.operations, placed, around)?.sized(sizing);
    Ok(if call.name == YIELD { yields(workload, rig.source()?, rig.ticks(LONGEST_YIELDS)) } else { workload })
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
