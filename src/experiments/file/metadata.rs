//! # Question
//!
//! What does it cost to rename, link and list files?
//!
//! # Method
//!
//! sysdyno makes a directory with a hundred entries in the scratch directory, and repeats changes that leave it as it was. Each change runs
//! in ordinary work, from loops at drawn places (as in os.system_call). What the same work takes without the change is taken off. The
//! rest divided by the operations is the cost of one, in core cycles by the clock probes around each batch.
//!
//! - **link_unlink**: gives a file a second name, and removes it.
//! - **rename**: gives a file another name. A turn of the loop renames it twice.
//! - **chmod**: sets the permissions of a file.
//! - **readlink**: reads a symbolic link.
//! - **list**: one of the entries of the directory, which is opened, read and closed.
//!
//! The calls are those of the C library, in a function. Names are relative to an open directory, so the depth of its path does not
//! matter. Every answer is checked. The same launch times getppid(2) in the same way, as the lower limit of the gates.
//!
//! No change waits for the device. A file system with a journal writes the changes later.
//!
//! # Prediction
//!
//! Kernel entries at the cost of getppid(2), and the change itself. Between file systems it differs by two orders of magnitude.
//!
//! # What could fool us
//!
//! - A program that waits for the device (fsync) pays much more.
//! - Large directories and directories that several processes change cost more.
//! - A journal that is full stops every change. Such batches are disturbed.
//! - The first change after a commit of the journal copies blocks. So results move from hour to hour.
//! - Making a file has no price that repeats, so it is not measured. When a file is removed, ext4 keeps its inode unused for minutes. Each
//!   new file steps over such inodes. On one host it takes 7 µs, and 340 µs after 10 000 removed files.
//! - Network file systems ask their server for each change.
//!
//! # References
//!
//! - renameat(2), linkat(2), unlinkat(2), fchmodat(2), readlinkat(2), getdents64(2)
//! - Linux Documentation/filesystems/ext4, journal. fs/ext4/ialloc.c (recently_deleted)

use std::io;
use std::path::Path;

use crate::experiments::os::operation::Operations;
use crate::experiments::os::row::{Parts, Row};
use crate::experiments::prelude::*;
use crate::rig::placed::WORK_LONGER;
use crate::sys::metadata::{Change, ENTRIES};
use crate::sys::operation::Operation;

use super::PLACE;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "file.metadata",
    title: "File metadata",
    measures: "renaming, linking and listing files in the scratch directory",
    words: &["rename", "readdir", "chmod"],
    method_version: 1,
    precision: Precision { target: 0.25, between: 0.2, busy: 0.2 },
    source: heading!("metadata.rs"),
    needs: &[PLACE],
    uses: &["cpu.cycle_time", "os.system_call.time"],
    words_of: |key, value| OPERATIONS.phrase(key, value),
    constants: CONSTANTS,
    publishes: &[
        Publication::cost(TIME, Unit::Nanoseconds, "one change of a name, without waiting for the device").in_summary()
    ],
    seconds: |_| 0.1,
    time_out: 30.0,
    predict: |by| OPERATIONS.predict(by),
    measure: |rig| OPERATIONS.measure(rig),
    figures: |study, findings| OPERATIONS.figures(study, findings),
    explain,
    ..Experiment::DEFAULT
};

const TIME: &str = "file.metadata.time";
const LIST: &str = "list";
const RENAME: &str = "rename";

constants! {
    /// A file system's part of making, removing or changing a name.
    NAME_CHANGE = 10_000.0 in 300.0 ..= 200_000.0 "cycles", "tmpfs 0.3–1 µs, ext4 and xfs 2–20 µs, overlay and copy-on-write file systems up to 100 µs";
    /// An entry of a directory, copied to the caller.
    ENTRY = 150.0 in 30.0 ..= 2000.0 "cycles", "Linux fs/readdir.c and fs/ext4/dir.c: one record of 24 to 40 bytes";
}

const ONCE: Parts = &[("the change of a name", 1.0, NAME_CHANGE)];
const TWICE: Parts = &[("two changes of a name", 2.0, NAME_CHANGE)];

pub(in crate::experiments) static OPERATIONS: Operations = Operations {
    metric: TIME,
    label: "how",
    rows: &[
        changes("link_unlink", "make and remove a hard link", 2.0, TWICE, |at| Operation::change(at, Change::HardLink)),
        Row { operations: 2, ..changes(RENAME, "rename", 1.0, ONCE, |at| Operation::change(at, Change::Name)) },
        changes("chmod", "set permissions", 1.0, ONCE, |at| Operation::change(at, Change::Permissions)),
        Row {
            instructions: 700.0,
            what: "find a name and copy what the link holds",
            ..Row::in_scratch("readlink", "read a symbolic link", 1.0, Operation::read_link)
        },
        Row {
            operations: ENTRIES as u64,
            parts: &[("copy an entry", 1.0, ENTRY)],
            ..Row::in_scratch(LIST, "list a directory, each entry", 4.0 / ENTRIES as f64, |at| {
                Operation::change(at, Change::List)
            })
        },
    ],
    sizing: Sizing::ByTimes(WORK_LONGER),
    placed_since: 1,
};

/// Calls that change names.
const fn changes(
    name: &'static str,
    phrase: &'static str,
    entries: f64,
    parts: Parts,
    make: fn(&Path) -> io::Result<Operation<'static>>,
) -> Row {
    Row { parts, ..Row::in_scratch(name, phrase, entries, make) }
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    let time = |how: &str| findings.metric(TIME, &Labels::of([("how", how)])).cloned();
    let (Some(list), Some(rename)) = (time(LIST), time(RENAME)) else { return };
    let mount = study.setup.machine.scratch().and_then(|storage| storage.mount.as_ref());
    let file_system = mount.map_or("this file system", |mount| mount.file_system.value.as_str());
    findings.say(format!(
        "On {file_system}, renaming a file costs {} without waiting for the device. Listing a directory costs {} for each entry.",
        rename.shown(),
        list.shown()
    ));
}
