//! Under a tracer, each operation makes exactly the system calls that its row says.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::experiments::file::metadata;
use crate::experiments::memory::map;
use crate::experiments::os::row::Row;
use crate::experiments::os::{channel, lock, poll, signal, system_call};
use crate::sys::placed::{Around, PlacedLoop};

/// Turns of each loop.
const TURNS: u64 = 8;
/// Where names of rows stand that only the tracer reads.
const MARKS: &str = "/proc/sysdyno-row/";
/// Variable of the environment that has the scratch directory of the traced process.
const SCRATCH: &str = "SYSDYNO_TRACED";

fn rows() -> impl Iterator<Item = (&'static str, &'static Row)> {
    let tables = [
        ("os.channel.", channel::OPERATIONS.rows),
        ("os.poll.", poll::OPERATIONS.rows),
        ("os.lock.", lock::OPERATIONS.rows),
        ("os.signal.", signal::OPERATIONS.rows),
        ("memory.map.", map::OPERATIONS.rows),
        ("file.metadata.", metadata::OPERATIONS.rows),
        ("os.system_call.", &system_call::CALLS),
    ];
    tables.into_iter().flat_map(|(table, rows)| rows.iter().map(move |row| (table, row)))
}

/// What a mark of a row looks like to the tracer.
fn mark(table: &str, row: &Row) -> String {
    let size = row.size.map_or_else(String::new, |(_, size)| format!(".{size}"));
    format!("{MARKS}{table}{}{size}", row.name)
}

/// The process that is traced: without the variable it has nothing to do.
#[test]
fn traced_process() {
    let Ok(scratch) = std::env::var(SCRATCH) else { return };
    let scratch = Path::new(&scratch);
    let mut random = fastrand::Rng::with_seed(1);
    for (table, row) in rows() {
        let made = row.usable(false, Some(scratch)).unwrap_or_else(|why| panic!("{table}{}: {why}", row.name));
        let mut placed = PlacedLoop::draw(&mut random, made, Around::Nothing, 1).unwrap();
        let mark = mark(table, row);
        assert!(!Path::new(&mark).exists());
        placed.run(TURNS).unwrap_or_else(|why| panic!("{mark}: {why}"));
        assert!(!Path::new(&mark).exists());
    }
}

#[test]
fn operations_make_the_calls_that_their_rows_say() {
    let (place, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let trace = place.path().join("trace");
    let traced = Command::new("strace")
        .args(["--follow-forks", "--quiet=all", "--signal=none", "--output"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "experiments::traced::traced_process", "--test-threads=1"])
        .env(SCRATCH, scratch.path())
        .stdin(Stdio::null())
        .output()
        .expect("the test needs the package strace");
    assert!(traced.status.success(), "{}", String::from_utf8_lossy(&traced.stdout));
    let trace = std::fs::read_to_string(&trace).unwrap();
    // A line begins with the number of the thread.
    let calls: Vec<&str> = trace.lines().filter_map(|line| Some(line.split_once(' ')?.1.trim_start())).collect();
    for (table, row) in rows() {
        let mark = format!("\"{}\"", mark(table, row));
        let marks: Vec<usize> = (0..calls.len()).filter(|&index| calls[index].contains(&mark)).collect();
        let &[first, last] = marks.as_slice() else { panic!("{mark}: {} marks", marks.len()) };
        let expected = row.entries * (row.operations * TURNS) as f64;
        let made = &calls[first + 1..last];
        assert_eq!(made.len(), expected.round() as usize, "{mark}: {made:#?}");
    }
}
