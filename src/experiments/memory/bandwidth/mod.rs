//! # Question
//!
//! How many bytes can be read, written and copied per second, in each cache and in main memory, by one thread and by several?
//!
//! # Method
//!
//! A **stream** passes every line of a footprint in order, with the widest vectors of this processor (SSE2, AVX2 or AVX-512;
//! Advanced SIMD on Arm), in blocks of 512 bytes: **read** loads every byte, and nothing depends on what was loaded; **write**
//! stores every byte; **write_nt** stores past the caches, the fence timed with it; **copy** and **copy_nt** do both, source
//! and destination apart by 2112 bytes off a multiple of 4096. Written bytes are not zero: some cores do not write zeros over
//! zeros. Every line that counts is touched in full.
//!
//! **Footprint**: the footprint is half of a cache that the kernel claims (of a shared one the CPU's own part, but at least
//! four times the cache before it), or what `memory.latency` walks: four times the last cache and more, 256 MiB at
//! least where there is time. Only then is it called DRAM, with the footprint as a label. Where memory does not allow that,
//! the figure carries its size as its name. A batch in a cache passes the footprint again and again, after a pass or two
//! that are not timed. A batch in DRAM is the next eighth of the footprint, at most 16 MiB, so that nothing
//! is passed again before all else has been; the operations stand one after the other there, in random order, because the
//! stores of one would be written back in the time of the next. L1 and L2 are timed in core cycles beside clock probes,
//! what lies beyond in nanoseconds.
//!
//! Wider vectors are not always faster in memory: they wait for fewer lines in turn. Each launch therefore tries every set
//! of vectors before it measures in DRAM, in turns along one walk so that none finds in a cache what another brought there,
//! and takes the best of that trial for samples of its own; the trial and the choice are in the record.
//!
//! **Threads**: each on a CPU of its own, first one on every core, then their siblings. All meet at a gate and work in passes
//! for 16 ms; what counts is the span in which all of them work, and the rate is the bytes that all did in that span over its
//! length. A window in which a thread waited for its CPU, or was alone for more than 2 %, is
//! disturbed: it is repeated, at most three times, by its cause and not by its value, and the repetitions are counted.
//!
//! **Bytes** are counted twice. *rate* counts what a program gets: the bytes of touched lines, a copied byte once.
//! *bus_rate* estimates what crosses the memory bus: a plain store reads its line before it writes it (×2), a plain copy
//! makes three transfers, stores past the caches save the extra one. It is an upper bound: newer cores recognise whole lines
//! and do not read them.
//!
//! Memory lies on huge pages, looked up after writing; labels with pages=4k are the same on small ones, which a quick run
//! leaves out. On a machine with several nodes each launch takes memory of another one and reads it from a CPU of each
//! (**node**).
//!
//! # Prediction
//!
//! In the nearest cache: vectors per cycle × width × core clock. In memory: Little's law, lines under way × line / latency,
//! and never more than all channels carry where these are known. Stores and copies by the transfers that they make.
//!
//! # What could fool us
//!
//! - Memory that was never written is one page of zeros in the nearest cache: 170 GB/s from "DRAM". Here every buffer is
//!   written first, and one without pages of its own is refused.
//! - A buffer that the last cache holds, above all where a guest cannot see how large that cache is.
//! - Counting lines that were not touched, or a copied byte twice on one side of a comparison and once on the other.
//! - Threads that share a CPU, or do not all work in the time that is divided by.
//! - Neighbours use the same channels. Rates of memory are medians, not the best moment.
//!
//! # References
//!
//! McCalpin, STREAM (1995) and notes on non-temporal stores; McVoy & Staelin, USENIX 1996 (bw_mem); Little, Operations
//! Research 1961; Intel optimization manual; AMD optimization guides for family 17h to 19h; Intel Memory Latency Checker.

mod explain;
mod judge;
mod measure;
mod predict;
mod scaling;

use crate::evaluate::precision::Precision;
use crate::experiments::memory::footprint::Footprint;
use crate::experiments::{Experiment, Publication};
use crate::results::quantity::{Labels, Unit};
use crate::sys::stream::Operation;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "memory.bandwidth",
    title: "Memory bandwidth",
    measures: "reading, writing and copying in every cache and in memory, by one thread and several",
    method_version: 1,
    precision: Precision { target: 0.1, between: 0.05 },
    source: include_str!("mod.rs"),
    needs: &[],
    uses: &["cpu.cycle_time", "memory.latency.level"],
    rules: judge::RULES,
    constants: &[],
    publishes: &[
        Publication::cost(RATE, Unit::BytesPerSecond, "bytes that a program reads, writes or copies per second")
            .in_summary_where(common_rate),
        Publication::cost(BUS_RATE, Unit::BytesPerSecond, "bytes that cross the memory bus for them, at most"),
        Publication::cost(
            NODE,
            Unit::BytesPerSecond,
            "what one thread reads of one node's memory on another node's CPU",
        ),
    ],
    every: |_| 6,
    seconds: |_| 1.1,
    time_out: 60.0,
    memory: crate::experiments::memory::footprint::most_memory,
    predict: predict::predict,
    measure: measure::measure,
    measure_first: None,
    figures: judge::figures,
    explain: explain::explain,
};

const RATE: &str = "memory.bandwidth.rate";

const BUS_RATE: &str = "memory.bandwidth.bus_rate";

const NODE: &str = "memory.bandwidth.node";

/// Steps in which memory is passed once, at least.
const STEPS: usize = 8;

/// Most bytes of a step: milliseconds.
const MOST_STEP: usize = 16 << 20;

fn common_rate(labels: &Labels) -> bool {
    let plain = labels.get("pages").is_none();
    plain && (labels.get("threads") == Some("1") || labels.get("operation") == Some("read"))
}

/// The operations in a cache: stores past the caches do not belong there.
const IN_CACHE: [Operation; 3] = [Operation::Read, Operation::Write, Operation::Copy];

/// The operations on small pages.
const ON_SMALL_PAGES: [Operation; 3] = [Operation::Read, Operation::WriteNt, Operation::Copy];

/// Bytes of a step through memory.
fn step(level: &Footprint) -> usize {
    (level.bytes / STEPS).min(MOST_STEP)
}

/// Labels of the record of a stream's footprint.
fn about(level: &str, labels: &Labels) -> Labels {
    Labels::of([("level", level), ("pages", "huge")]).with("threads", labels.get("threads").unwrap_or("1"))
}
