//! # Question
//!
//! How many bytes per second can one thread and several threads read, write and copy in each cache and in main
//! memory?
//!
//! # Method
//!
//! A **stream** passes every cache line of a footprint in order, with the vectors of this processor. The rate is the
//! bytes of a batch divided by its time. The footprint is half of the L1 and L2 cache, and four times L2 in L3. For
//! DRAM it is at least four times the last cache.
//!
//! - **read** loads every byte, and no load depends on an earlier one.
//! - **write** stores every byte.
//! - **write_nt** stores past the caches (non-temporal stores), including the fence at the end.
//! - **copy** and **copy_nt** load and store. The distance from source to destination is a multiple of 4096 bytes plus
//!   2112 bytes.
//!
//! The vectors are SSE2, AVX2, AVX-512 or Advanced SIMD (Arm). The written bytes are not zero, because some cores
//! skip writing zeros over zeros.
//!
//! **Footprint.** Other CPUs share L3, and in a guest so do the CPUs of other guests. Half of the reported size is then
//! often not available. The footprint is therefore four times L2, and at most half of the reported size. The DRAM
//! footprint is that of `memory.latency` and a label of the result. Where memory does not allow that footprint, the
//! result is named after its size and not DRAM. Every launch measures the caches, and every third one measures DRAM
//! too.
//!
//! A batch in a cache passes the footprint repeatedly, after one or two passes without timing. A batch in DRAM is the
//! next eighth of the footprint, at most 16 MiB, so that no byte is passed again before all others. The DRAM
//! operations run one after another in random order, so that no operation pays for the write-back of another. L1 and
//! L2 are timed in core cycles between clock probes, L3 and DRAM in nanoseconds.
//!
//! Wider vectors are not always faster in DRAM. Each launch tries every set of vectors alternately on one continuous
//! stream, measures with the fastest, and logs the trial.
//!
//! **Threads.** Each thread runs on a separate CPU, first one per core, then on the siblings. All threads start
//! together and work for 16 ms. The rate is the bytes that all threads moved while all of them worked, divided by
//! that time. A window is disturbed if a thread waited for its CPU, was stopped by the host, or worked alone for more
//! than 2 % of it. Such a window is repeated at most three times. The value plays no part in that decision, and the
//! repetitions are counted.
//!
//! **Bytes.** *rate* counts the bytes that a program gets, a copied byte once. *bus_rate* is an upper bound of the
//! bytes on the memory bus. A plain store reads its line before it writes it (×2), and a plain copy makes three
//! transfers. Non-temporal stores avoid the extra transfer, and so do newer cores for lines that they overwrite
//! completely.
//!
//! The memory is on huge pages, verified after writing. Results with `pages=4k` are on small pages, and a quick run
//! omits them. Where the DRAM footprint exceeds 256 MiB, every second launch with DRAM measures them. On a machine with
//! several NUMA nodes, each launch reads memory of the next node from one CPU of each node (**node**).
//!
//! # Prediction
//!
//! L1: vectors per cycle × width × core clock. L2 and L3: bytes per cycle of the path × core clock. DRAM: lines in
//! flight × line size / latency (Little's law), at most the peak rate of all channels where it is known. Stores and
//! copies: the same, scaled by their transfers.
//!
//! # What could fool us
//!
//! - Memory that was never written is one shared page of zeros in the L1 cache, and "DRAM" appears to deliver 170
//!   GB/s. Here sysdyno writes every buffer first and refuses a buffer without private pages.
//! - The last cache can hold the buffer, in particular where a guest cannot see the size of that cache.
//! - Some tools count lines that they did not touch, or a copied byte twice.
//! - Threads may share a CPU, or not all work during the time that divides their bytes.
//! - Neighbours use the same channels. DRAM rates are medians, not best cases.
//!
//! # References
//!
//! McCalpin, STREAM (1995) and notes on non-temporal stores. McVoy and Staelin, USENIX 1996 (bw_mem). Little,
//! Operations Research 1961. Intel optimisation manual. AMD optimisation guides for family 17h to 19h. Intel Memory
//! Latency Checker.

mod explain;
mod judge;
mod measure;
mod predict;
mod scaling;

use crate::experiments::memory::footprint::Footprint;
use crate::experiments::prelude::*;
use crate::sys::stream::Operation;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "memory.bandwidth",
    title: "Memory bandwidth",
    measures: "read, write and copy rates of every cache and of memory, with one and several threads",
    words: &["memcpy", "stream"],
    method_version: 2,
    precision: Precision { target: 0.1, between: 0.05, busy: 0.1 },
    source: heading!("mod.rs"),
    uses: &["cpu.cycle_time", "memory.latency.level"],
    rules: judge::RULES,
    publishes: &[
        Publication::cost(RATE, Unit::BytesPerSecond, "bytes that a program reads, writes or copies per second")
            .in_summary_where(common_rate),
        Publication::cost(
            BUS_RATE,
            Unit::BytesPerSecond,
            "upper bound of the bytes that cross the memory bus for it \
                                                           per second",
        ),
        Publication::cost(
            NODE,
            Unit::BytesPerSecond,
            "rate at which a thread on one node's CPU reads another node's memory",
        ),
    ],
    seconds: |_| 0.45,
    time_out: 60.0,
    in_quick: true,
    memory: measure::memory,
    huge_memory: Some(measure::huge_memory),
    predict: predict::predict,
    measure: measure::measure,
    figures: judge::figures,
    explain: explain::explain,
    ..Experiment::DEFAULT
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
