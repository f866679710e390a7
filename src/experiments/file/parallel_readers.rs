//! A crowd: processes that read separate files at the same time, each on a separate CPU as far as there are any.
//!
//! ```text
//! fork, open, pin · ready ─┤gate├─ read ─ read ─ read ─ … ─┤ report · reap
//!                          │lead│←── what is counted ──→│
//! ```
//!
//! Processes are made and files opened before the gate; no fork, exit or wait falls into the lead or the window. Reads that begin
//! after the lead and end before the end of the window count. Each process reports over a pipe when the window is over.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::experiments::prelude::*;
use crate::sys::clock::Source;
use crate::sys::file::{self, Buffer};
use crate::sys::memory::SharedWords;
use crate::sys::{affinity, counters, fault, process, system_call};

use super::stamped_file::Stamped;

/// From the moment when all are ready to the gate: they are all awake then.
const RUN_UP: f64 = 1e6;
/// Longest wait for a process to be ready, or to report.
const PATIENCE: Duration = Duration::from_secs(30);
/// Words that the parent and its children share: how many are ready, and when the gate opens.
const READY: usize = 0;
const GATE: usize = 1;
/// Looks at the device's queue in one window.
const LOOKS: u32 = 5;

/// One reader: its file, the opening by which it reads, the CPU it is pinned to, and the offsets that it goes round in.
pub struct PinnedReader<'a> {
    /// File, for its stamps.
    pub stamped: &'a Stamped,
    /// How it is read.
    pub from: &'a File,
    pub cpu: u32,
    /// Offsets, of blocks.
    pub places: Vec<u64>,
}

/// What one process did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Track {
    /// Ticks of each read that counts.
    pub ticks: Vec<f64>,
    /// CPU time, user and system, in nanoseconds, from the gate to the end.
    pub cpu_time: f64,
    /// Bytes asked for from first to last, counted or not.
    pub asked: f64,
    /// Bytes that devices read for it; none where the kernel does not account them.
    pub read: Option<f64>,
    /// Readings of the clock on another CPU than its own.
    pub strays: u64,
}

/// How long a crowd reads.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Before anything counts.
    pub lead: Duration,
    /// Then.
    pub window: Duration,
}

/// What a crowd did.
#[derive(Debug, Clone, PartialEq)]
pub struct Race {
    /// Process by process.
    pub tracks: Vec<Track>,
    /// Length of the counted part of the window, in ticks.
    pub window: f64,
    /// Length of the whole of it: CPU time is of that.
    pub whole: f64,
    /// Requests in the device's queue, whosever they are: the mean of a few looks; none where there is no such device.
    pub in_flight: Option<f64>,
}

/// Lets readers of blocks of `block` bytes read for a time. The calling process must have one thread only.
pub fn race(
    readers: &[PinnedReader<'_>],
    block: usize,
    source: Source,
    hertz: f64,
    span: Span,
) -> Result<Race, Problem> {
    let cannot = |what: &str, why: &dyn std::fmt::Display| Problem::new(format!("{what}: {why}"));
    let words = SharedWords::new(2).map_err(|error| cannot("no shared memory for readers", &error))?;
    let ticks = |time: Duration| (time.as_secs_f64() * hertz) as i64;
    let span = [ticks(span.lead), ticks(span.window)];
    let mut children = Vec::new();
    for reader in readers {
        let (from, mut to) = std::io::pipe().map_err(|error| cannot("no pipe for a reader", &error))?;
        let words = &words;
        let child = process::fork_running(move || {
            process::end_after(3 * PATIENCE.as_secs() as u32);
            let report = attend(reader, block, source, span, words);
            let bytes = report.and_then(|track| serde_json::to_vec(&encode(&track)).map_err(|error| error.to_string()));
            let outcome = match bytes {
                Ok(bytes) => to.write_all(&bytes).map(|()| 0),
                Err(why) => to.write_all(why.as_bytes()).map(|()| 1),
            };
            outcome.unwrap_or(1)
        });
        match child {
            Ok(child) => children.push((child, from)),
            Err(error) => {
                for (child, _) in children {
                    child.kill();
                }
                return Err(cannot("cannot start a reader process", &error).hint(
                    "check ulimit -u and the pids control \
                    group",
                ));
            }
        }
    }
    let outcome = conduct(&words, readers, &mut children, source, hertz, span);
    for (child, _) in children {
        child.kill();
    }
    outcome
}

type Children = [(process::Forked, std::io::PipeReader)];

fn conduct(
    words: &SharedWords,
    readers: &[PinnedReader<'_>],
    children: &mut Children,
    source: Source,
    hertz: f64,
    [lead, window]: [i64; 2],
) -> Result<Race, Problem> {
    let whole = (lead + window) as f64;
    let until = Instant::now() + PATIENCE;
    while words.at(READY).load(Ordering::Acquire) < readers.len() as i64 {
        if Instant::now() > until || children.iter().any(|(child, _)| child.ended()) {
            return Err(Problem::new("a reader process did not start"));
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    let gate = source.stamp().ticks + (RUN_UP * hertz / 1e9) as i64;
    words.at(GATE).store(gate, Ordering::Release);
    let number = readers.first().and_then(|reader| file::device_number(reader.stamped.file()).ok());
    let mut queue = Vec::new();
    for _ in 0..LOOKS {
        std::thread::sleep(Duration::from_secs_f64(whole / hertz / f64::from(LOOKS + 1)));
        queue.extend(number.as_deref().and_then(file::device_counters).map(|found| found.in_flight as f64));
    }
    let mut tracks = Vec::new();
    for (_, from) in children {
        let mut report = Vec::new();
        from.read_to_end(&mut report).map_err(|error| {
            Problem::new(format!(
                "cannot read the report of a reader: \
                                                                            {error}"
            ))
        })?;
        let numbers: Vec<f64> = serde_json::from_slice(&report)
            .map_err(|_| Problem::new(format!("a reader failed: {}", String::from_utf8_lossy(&report))))?;
        tracks.push(decode(&numbers).ok_or_else(|| Problem::new("the report of a reader is incomplete"))?);
    }
    let in_flight = (!queue.is_empty()).then(|| queue.iter().sum::<f64>() / queue.len() as f64);
    Ok(Race { tracks, window: window as f64, whole, in_flight })
}

fn encode(track: &Track) -> Vec<f64> {
    let head = [track.cpu_time, track.asked, track.read.unwrap_or(-1.0), track.strays as f64];
    head.into_iter().chain(track.ticks.iter().copied()).collect()
}

fn decode(numbers: &[f64]) -> Option<Track> {
    let (&[cpu_time, asked, read, strays], ticks) = numbers.split_first_chunk::<4>()?;
    Some(Track { ticks: ticks.to_vec(), cpu_time, asked, read: (read >= 0.0).then_some(read), strays: strays as u64 })
}

/// One process of the crowd.
fn attend(
    reader: &PinnedReader<'_>,
    block: usize,
    source: Source,
    [lead, window]: [i64; 2],
    words: &SharedWords,
) -> Result<Track, String> {
    affinity::restrict(&[reader.cpu]).map_err(|error| format!("CPU {}: {error}", reader.cpu))?;
    let mut buffer = Buffer::new(block);
    let mut track = Track { ticks: Vec::with_capacity(1 << 16), ..Track::default() };
    let before = fault::device_bytes_read();
    words.at(READY).fetch_add(1, Ordering::AcqRel);
    let gate = loop {
        match words.at(GATE).load(Ordering::Acquire) {
            0 => {
                system_call::yield_processor();
            }
            gate if source.stamp().ticks < gate => {}
            gate => break gate,
        }
    };
    let cpu_time = counters::thread().cpu_time;
    let (first, last) = (gate + lead, gate + lead + window);
    let mut next = 0;
    loop {
        let at = *reader.places.get(next).ok_or("the file is empty")?;
        next = (next + 1) % reader.places.len();
        let start = source.opening();
        let got = reader.from.read_at(buffer.get(), at).map_err(|error| error.to_string())?;
        let stop = source.stamp();
        if got != block {
            return Err(format!("read {got} bytes instead of {block}"));
        }
        reader.stamped.check_block(buffer.get(), at / super::stamped_file::BLOCK as u64)?;
        track.asked += block as f64;
        track.strays += u64::from(stop.cpu != reader.cpu);
        if stop.ticks >= last {
            break;
        }
        if start.ticks >= first {
            track.ticks.push((stop.ticks - start.ticks) as f64);
        }
    }
    track.cpu_time = (counters::thread().cpu_time - cpu_time) as f64;
    track.read = fault::device_bytes_read().zip(before).map(|(now, before)| now.saturating_sub(before) as f64);
    Ok(track)
}

/// Jain's index of fairness: 1 where all have as much, 1/n where one has all.
pub fn fairness(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_survives_the_pipe() {
        for read in [Some(0.0), Some(8192.0), None] {
            let track = Track { ticks: vec![3.5, 4.0], cpu_time: 7.0, asked: 8192.0, read, strays: 1 };
            assert_eq!(decode(&encode(&track)), Some(track));
        }
        assert_eq!(decode(&[1.0, 2.0]), None);
    }

    #[test]
    fn fairness_is_one_among_equals_and_falls_to_the_share_of_one() {
        assert!((fairness(&[5.0; 8]).unwrap() - 1.0).abs() < 1e-12);
        assert!((fairness(&[9.0, 0.0, 0.0, 0.0]).unwrap() - 0.25).abs() < 1e-12);
        assert_eq!(fairness(&[0.0, 0.0]), None);
    }
}
