//! # Question
//!
//! What does it cost to ask many descriptors whether one of them is ready? What does each descriptor add?
//!
//! # Method
//!
//! sysdyno makes eventfd(2) counters, of which only the last is ready. It asks for them in ordinary work, from loops at drawn places
//! (as in os.system_call). What the same work takes without the call is taken off. The rest is the cost of one call, in core cycles by
//! the clock probes around each batch.
//!
//! - **poll**: ppoll(2) of all descriptors.
//! - **poll_at_once**: the same with a time limit of zero.
//! - **select**: select(2) of all descriptors, up to 500. The kernel overwrites the set, so each call copies it first.
//! - **epoll**: epoll_pwait(2) of a set that has all descriptors.
//!
//! The other calls have no time limit, as in a loop that waits for events. The kernel therefore adds the task to the queue of each
//! descriptor before it finds the ready one, and removes it again (poll and select). With a limit of zero it does not.
//!
//! The label **descriptors** is their number. Each has a separate file. Every answer is checked: one descriptor is ready. The cost per
//! descriptor is the slope of a line through the costs. The same launch times getppid(2) in the same way, as the lower limit of the gates.
//!
//! # Prediction
//!
//! A kernel entry at the cost of getppid(2). Counted instructions for each descriptor run at the pace of the system calls of this run.
//! A set of epoll(7) costs the same for any number of descriptors.
//!
//! # What could fool us
//!
//! - The same descriptor in each entry stays in the first cache. Thousands of files do not, and each costs more.
//! - Between threads, the kernel also counts the users of each file, which costs an atomic instruction. The process here has one thread.
//! - Sockets cost more than eventfd(2), because a protocol looks at its queues.
//! - If an early descriptor is ready, those after it have no queue to leave.
//! - A hard limit on open files (ulimit -Hn) below 1200 can refuse the longest lists.
//!
//! # References
//!
//! - poll(2), select(2), epoll(7)
//! - Linux fs/select.c, fs/eventpoll.c
//! - McVoy & Staelin, USENIX 1996 (lat_select)

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::EventFd;

use super::operation::{OPERATION, Operations};
use super::row::Row;
use super::sweep::Sweep;
use crate::experiments::prelude::*;
use crate::rig::placed::WORK_LONGER;
use crate::sys::operation::Operation;
use crate::sys::process;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "os.poll",
    title: "Waiting for many descriptors",
    measures: "poll, select and epoll by the number of descriptors",
    words: &["select", "epoll"],
    method_version: 1,
    precision: Precision { target: 0.05, between: 0.03, busy: 0.04 },
    source: heading!("poll.rs"),
    uses: &["cpu.cycle_time", "os.system_call.time"],
    words_of: |key, value| OPERATIONS.phrase(key, value),
    publishes: &[
        Publication::cost(TIME, Unit::Nanoseconds, "one call for these descriptors, of which one is ready")
            .in_summary(),
        Publication::cost(PER_DESCRIPTOR, Unit::Nanoseconds, "cost that each descriptor adds to a call").in_summary(),
    ],
    seconds: |_| 0.3,
    time_out: 10.0,
    predict,
    measure: |rig| OPERATIONS.measure(rig),
    figures,
    explain,
    ..Experiment::DEFAULT
};

const TIME: &str = "os.poll.time";
const PER_DESCRIPTOR: &str = "os.poll.per_descriptor";
/// A call that asks each descriptor: label, name in sentences, and instructions for each descriptor, as in os.system_call.
type Asking = (&'static str, &'static str, f64);
const POLL: Asking = ("poll", "poll", 520.0);
const AT_ONCE: Asking = ("poll_at_once", "poll that may not wait", 65.0);
const SELECT: Asking = ("select", "select", 520.0);
const EPOLL: &str = "epoll";
/// Open files that all rows need together, with room for those of the launch.
const MOST_FILES: u64 = 1200;
/// Hint where descriptors are short.
const HINT: &str = " (see ulimit -Hn)";
/// Instructions for a call, and for a set of epoll(7).
const FOR_CALL: f64 = 280.0;
const FOR_SET: f64 = 700.0;

pub(in crate::experiments) static OPERATIONS: Operations = Operations {
    metric: TIME,
    label: "by",
    rows: &[
        // First, because a set of select has small numbers only.
        asks(SELECT, 1, || select(1)),
        asks(SELECT, 10, || select(10)),
        asks(SELECT, 100, || select(100)),
        asks(SELECT, 500, || select(500)),
        asks(POLL, 1, || poll(1)),
        asks(POLL, 10, || poll(10)),
        asks(POLL, 100, || poll(100)),
        asks(POLL, 1000, || poll(1000)),
        asks(AT_ONCE, 1, || poll_at_once(1)),
        asks(AT_ONCE, 10, || poll_at_once(10)),
        asks(AT_ONCE, 100, || poll_at_once(100)),
        asks(AT_ONCE, 1000, || poll_at_once(1000)),
        row(EPOLL, 1, FOR_SET, || epoll(1)),
        row(EPOLL, 10, FOR_SET, || epoll(10)),
        row(EPOLL, 100, FOR_SET, || epoll(100)),
        row(EPOLL, 1000, FOR_SET, || epoll(1000)),
    ],
    sizing: Sizing::ByTimes(WORK_LONGER),
    placed_since: 1,
};

/// A call that asks each descriptor.
const fn asks(call: Asking, descriptors: u64, make: fn() -> io::Result<Operation<'static>>) -> Row {
    let (by, phrase, for_each) = call;
    Row { phrase, ..row(by, descriptors, FOR_CALL + for_each * descriptors as f64, make) }
}

const fn row(
    by: &'static str,
    descriptors: u64,
    instructions: f64,
    make: fn() -> io::Result<Operation<'static>>,
) -> Row {
    let size = Some(("descriptors", descriptors));
    Row { size, hint: HINT, ..Row::call(by, by, "look for a ready descriptor", instructions, make) }
}

/// Counters of which the last is ready.
fn counters(descriptors: usize) -> io::Result<Vec<Arc<EventFd>>> {
    // All rows share those that are not ready: a process has few descriptors.
    static QUIET: Mutex<Vec<Arc<EventFd>>> = Mutex::new(Vec::new());
    process::allow_files(MOST_FILES);
    let mut quiet = QUIET.lock().unwrap_or_else(PoisonError::into_inner);
    while quiet.len() + 1 < descriptors {
        quiet.push(Arc::new(EventFd::from_value(0)?));
    }
    let mut all = quiet[..descriptors - 1].to_vec();
    all.push(Arc::new(EventFd::from_value(1)?));
    Ok(all)
}

fn poll(descriptors: usize) -> io::Result<Operation<'static>> {
    Ok(Operation::on_files(counters(descriptors)?, |all| Operation::poll(&entries(all))))
}

fn poll_at_once(descriptors: usize) -> io::Result<Operation<'static>> {
    Ok(Operation::on_files(counters(descriptors)?, |all| Operation::poll_at_once(&entries(all))))
}

/// Each descriptor, and whether it is ready.
fn entries(all: &[Arc<EventFd>]) -> Vec<(BorrowedFd<'_>, bool)> {
    all.iter().enumerate().map(|(index, counter)| (counter.as_fd(), index + 1 == all.len())).collect()
}

fn select(descriptors: usize) -> io::Result<Operation<'static>> {
    Operation::select_of_many(counters(descriptors)?)
}

fn epoll(descriptors: usize) -> io::Result<Operation<'static>> {
    let all = counters(descriptors)?;
    let set = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for counter in &all {
        set.add(counter, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
    }
    Ok(Operation::on_files((set.0, all), |(set, _)| Operation::ready_event(set.as_fd())))
}

fn each(by: &str) -> Labels {
    Labels::of([("by", by)])
}

fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let slopes = [POLL, AT_ONCE, SELECT].map(|(call, _, for_each)| {
        let (work, basis) = super::kernel_work(by, for_each);
        Prediction::of(PER_DESCRIPTOR, each(call), Unit::Nanoseconds).software("ask a descriptor", work, basis)
    });
    OPERATIONS.predict(by).into_iter().chain(slopes).collect()
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    OPERATIONS.figures(study, findings);
    for (by, ..) in [POLL, AT_ONCE, SELECT] {
        let rows = OPERATIONS.rows.iter().filter(|row| row.name == by);
        let points =
            rows.filter_map(|row| row.size).map(|(label, number)| (number as f64, each(by).with(label, number)));
        if let Some((estimate, linear)) =
            Sweep::of(study, OPERATION, points).and_then(|sweep| sweep.slope("descriptors"))
        {
            let figure = Figure::derived(PER_DESCRIPTOR, each(by), &estimate);
            findings.publish(study, figure.gates([linear, gates::resolved(&estimate)]));
        }
    }
}

fn explain(_: &Study<'_>, findings: &mut Findings) {
    let poll = findings.metric(PER_DESCRIPTOR, &each(POLL.0)).cloned();
    let epoll = findings.metric(TIME, &each(EPOLL).with("descriptors", 1000)).cloned();
    let (Some(poll), Some(epoll)) = (poll, epoll) else { return };
    findings.say(format!(
        "Each descriptor adds {} to a call of poll. A set of epoll with 1000 descriptors costs {} in all.",
        poll.shown(),
        epoll.shown()
    ));
}
