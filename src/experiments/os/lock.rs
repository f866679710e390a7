//! # Question
//!
//! What does a lock cost that no other task wants?
//!
//! # Method
//!
//! sysdyno takes a lock and gives it back, in ordinary work, from loops at drawn places (as in os.system_call). What the same work
//! takes without the lock is taken off. The rest divided by the operations is the cost of one, in core cycles by the clock
//! probes around each batch. No other task uses the lock, and its memory is in the first cache.
//!
//! - **atomic_add**: one of an atomic addition and an atomic subtraction, in a function.
//! - **mutex**: a mutex of the Rust library, a word that waits by futex. Locking and unlocking it is one operation.
//! - **reader_lock**: a lock of readers and writers of the same library, taken by a reader.
//! - **inheriting_lock**: a futex with priority inheritance, locked and unlocked by the kernel. C libraries enter the kernel
//!   for it only if another task wants the lock.
//! - **file_lock**: flock(2) of an open file, and its release.
//! - **range_lock**: fcntl(2) of one byte of an open file, and its release, as databases take it.
//!
//! The first three stay in user mode, and no other task has their address. The other locks enter the kernel twice. The file is in
//! memory and has no other user. The answers of these calls are checked, without a branch.
//! The same launch times getppid(2) in the same way, as the lower limit of the gates.
//!
//! # Prediction
//!
//! A lock in memory is two atomic instructions, each of which waits for the stores before it. A lock of a file enters the kernel twice,
//! at the cost of getppid(2). The rest is counted instructions at the pace of the system calls of this run.
//!
//! # What could fool us
//!
//! - A C library may omit the atomic instructions while a process has one thread. The locks here always have them.
//! - A lock that another CPU used last costs a cache line transfer more (os.cache_line_transfer), and one that is held costs a wake-up.
//! - An atomic instruction overlaps with independent work, and waits for earlier stores. Its cost depends on the code around it. C
//!   programs with other work pay 1 to 8 cycles for an atomic addition (Intel Golden Cove), and 18 to 20 in a loop.
//! - Network file systems ask their server for a lock of a file. Then the cost is a round trip.
//!
//! # References
//!
//! - flock(2), fcntl(2), futex(2)
//! - Linux fs/locks.c
//! - McVoy & Staelin, USENIX 1996 (lat_fcntl). libMicro (mutex, fcntl_lock)

use std::os::fd::AsFd;

use super::operation::Operations;
use super::row::{Parts, Row};
use crate::experiments::prelude::*;
use crate::rig::placed::WORK_LONGER;
use crate::sys::create;
use crate::sys::operation::Operation;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "os.lock",
    title: "Locks",
    measures: "locks in memory and of files that no other task wants",
    words: &["locks", "mutex", "atomic", "flock"],
    method_version: 1,
    precision: Precision { target: 0.08, between: 0.05, busy: 0.05 },
    source: heading!("lock.rs"),
    uses: &["cpu.cycle_time", "os.system_call.time"],
    words_of: |key, value| OPERATIONS.phrase(key, value),
    constants: CONSTANTS,
    publishes: &[Publication::cost(TIME, Unit::Nanoseconds, "taking a lock and giving it back").in_summary()],
    seconds: |_| 0.1,
    time_out: 10.0,
    predict: |by| OPERATIONS.predict(by),
    measure: |rig| OPERATIONS.measure(rig),
    figures: |study, findings| OPERATIONS.figures(study, findings),
    explain,
    ..Experiment::DEFAULT
};

const TIME: &str = "os.lock.time";
const MUTEX: &str = "mutex";
const RANGE: &str = "range_lock";

constants! {
    /// An atomic read-modify-write instruction on a line in the first cache.
    ATOMIC_UPDATE = 10.0 in 1.0 ..= 50.0 "cycles", "uops.info: LOCK XADD, 17–25 cycles in a chain. Less where other work overlaps";
}

const ATOMIC: Parts = &[("atomic instruction", 1.0, ATOMIC_UPDATE)];
const TWO_ATOMIC: Parts = &[("two atomic instructions", 2.0, ATOMIC_UPDATE)];

pub(in crate::experiments) static OPERATIONS: Operations = Operations {
    metric: TIME,
    label: "what",
    rows: &[
        Row {
            operations: 2,
            ..in_memory("atomic_add", "atomic addition", ATOMIC, || Ok(Operation::atomic_additions()))
        },
        in_memory(MUTEX, "mutex", TWO_ATOMIC, || Ok(Operation::mutex())),
        in_memory("reader_lock", "for readers (RwLock)", TWO_ATOMIC, || Ok(Operation::reader_lock())),
        Row::pair(
            "inheriting_lock",
            "with priority inheritance (futex)",
            "find the word, give it to the task, and look for waiters",
            1000.0,
            || Ok(Operation::inheriting_lock()),
        ),
        of_file("file_lock", "of a file (flock)", 1800.0, || {
            Ok(Operation::two_on_files(create::in_memory(c"lock")?, |file| Operation::lock_of_file(file.as_fd())))
        }),
        of_file(RANGE, "of a byte of a file (fcntl)", 1800.0, || {
            Ok(Operation::two_on_files(create::in_memory(c"lock")?, |file| Operation::lock_of_range(file.as_fd())))
        }),
    ],
    sizing: Sizing::ByTimes(WORK_LONGER),
    placed_since: 1,
};

/// A lock that stays in user mode.
const fn in_memory(
    name: &'static str,
    phrase: &'static str,
    parts: Parts,
    make: fn() -> std::io::Result<Operation<'static>>,
) -> Row {
    Row { entries: 0.0, parts, ..Row::call(name, phrase, "", 0.0, make) }
}

/// A lock of a file.
const fn of_file(
    name: &'static str,
    phrase: &'static str,
    instructions: f64,
    make: fn() -> std::io::Result<[Operation<'static>; 2]>,
) -> Row {
    Row::pair(name, phrase, "make a lock, look for others of the file, and free it", instructions, make)
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    let time = |findings: &Findings, what: &str| findings.metric(TIME, &Labels::of([("what", what)])).cloned();
    let (Some(mutex), Some(range)) = (time(findings, MUTEX), time(findings, RANGE)) else { return };
    findings.say(format!(
        "Locking and unlocking a mutex that no other task wants costs {}. The lock of a byte of a file costs {}.",
        mutex.shown(),
        range.shown()
    ));
    let line = study.known.iter().find(|metric| metric.name == "os.cache_line_transfer.time");
    if let Some(line) = line {
        findings.say(format!(
            "A mutex that another CPU used last costs at least one cache line transfer more, which is {} here.",
            line.shown()
        ));
    }
}
