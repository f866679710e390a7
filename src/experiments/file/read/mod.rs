//! # Question
//!
//! How long does a read of 4 KiB from a local file take, and how many bytes arrive per second? The answer depends on
//! the page cache, the order of the reads, and the size of the file.
//!
//! # Method
//!
//! sysdyno times reads of files that it writes once into the run's directory, with bytes that do not compress.
//! **Direct** reads bypass the page cache (O_DIRECT), **cold** reads miss it, and **warm** reads hit it. Every read
//! compares the stamp (file, block, run) of each 4 KiB block. The files have 1 to 256 MiB, in a rigorous run also 1 GiB.
//! FIEMAP and SEEK_HOLE must find every byte on the device.
//!
//! - **cold**: sysdyno drops the file from the page cache first. The kernel then reports that no page of it is cached.
//!   **warm**: the kernel reports that all pages are cached.
//! - **random**: 4 KiB by a random permutation, each place once in a launch. Read-ahead is off (POSIX_FADV_RANDOM).
//!   Each read is timed separately: pread(2) and the comparison of the stamp are between the two clock reads. All
//!   sizes, direct and cold, alternate in bursts of eleven reads. The first read of a burst does not count. Warm reads
//!   are too short for this, and sysdyno times them in batches.
//! - **sequential**: requests of 4 KiB for the time of a block, of 1 MiB for the rate. The kernel's usual read-ahead is
//!   on. sysdyno times whole passes. The result is the time divided by the requests. A pass ends with the file or with
//!   its time limit. Direct reads of 4 KiB have no read-ahead. They are timed separately, after a warm-up of six
//!   milliseconds.
//!
//! Counters of block devices (`/proc/self/io`) prove direct and cold reads: devices read at least the bytes that were
//! requested. Cold reads leave only their own pages in the cache. During warm reads that counter does not change.
//! Results are medians over launches of the launch's median. Warm results are undisturbed costs in core cycles.
//!
//! **depth_rate** keeps 1 to 32 random reads of a block in flight (io_uring). Where it stops rising, the device is
//! saturated. **Hidden caches**: sysdyno reads two hundred places twice with O_DIRECT. If the second read is much
//! faster, a cache below the kernel answered it.
//!
//! # Prediction
//!
//! - **direct**: what a cold page fault took on this device in this run. Without that result: the system call, a
//!   request, the answer of a device of this kind, and the switch back.
//! - **cold**: also a new page, its insertion into the cache, and a copy.
//! - **warm**: the system call, the lookup, and the copy.
//! - **rates**: the bytes at the rate of such a device, or the copy, whichever takes longer.
//!
//! # What could fool us
//!
//! - **Caches below the kernel**: in the drive, in a controller, in the host of a virtual disk. They hold what was just
//!   written. A result faster than its kind of device can be is reported as served by a cache. A guest's disk is
//!   reported as virtual.
//! - A file with holes or unwritten extents: the kernel returns zeros and does not ask the device. sysdyno refuses such
//!   a file.
//! - A file that is still cached. Dropping a file does not remove pages that are mapped, dirty or in writeback.
//! - Read-ahead turns a random read of 4 KiB into megabytes. Here it is off for random order and on for sequential
//!   order.
//! - Many reads in flight hide their latency. A data sheet gives IOPS at depth 32 or more, which is not a latency.
//! - One read in flight through io_uring takes longer than one direct read, because its completion wakes the reader. On
//!   one guest it took 73 µs instead of 58 µs.
//! - `rotational`, `read_ahead_kb` and similar attributes are claims of a driver. In guests they are often wrong.
//! - Places chosen with rand() repeat, and a cache serves the repeated places.
//! - The file spans a fraction of the device. On a rotating disk the head then moves less than usual (short stroking).
//!
//! # References
//!
//! open(2) (O_DIRECT), posix_fadvise(2), cachestat(2), proc_pid_io(5), statx(2), io_uring(7). Linux:
//! Documentation/filesystems/fiemap.rst, mm/filemap.c, mm/readahead.c, fs/iomap/direct-io.c. fio, HOWTO.

mod explain;
mod judge;
mod measure;
mod predict;

use super::{BLOCK, DISK, Order, PLACE};
use crate::experiments::prelude::*;
use crate::setup::Profile;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "file.read",
    title: "Local file reads",
    measures: "a block of a local file: direct, cold and warm, sequential and random, by file size",
    words: &["fio"],
    method_version: 1,
    precision: Precision::OF_DEVICES,
    source: heading!("mod.rs"),
    needs: &[PLACE, DISK],
    uses: &["cpu.cycle_time", "os.system_call.time", "memory.page_fault.time"],
    rules: judge::RULES,
    publishes: &[
        Publication::state(TIME, Unit::Nanoseconds, "one read of 4 KiB")
            .in_summary_where(|labels| labels.get("bytes") == Some(HEADLINE)),
        Publication::state(RATE, Unit::BytesPerSecond, "bytes read per second, one request at a time")
            .in_summary_where(|labels| {
                labels.get("bytes") == Some(HEADLINE) && labels.get("order") == Some("sequential")
            }),
        Publication::state(
            DEPTH_RATE,
            Unit::BytesPerSecond,
            "random reads of 4 KiB past the cache at a given queue depth",
        )
        .in_summary_where(|labels| labels.get("depth") == Some("32")),
    ],
    seconds: |_| 1.6,
    time_out: 300.0,
    in_quick: true,
    memory: |_, _| 8 << 20,
    predict: predict::predict,
    measure: measure::measure,
    measure_first: Some(measure::measure_first),
    figures: judge::figures,
    explain: explain::explain,
    ..Experiment::DEFAULT
};

const TIME: &str = "file.read.block_time";

const RATE: &str = "file.read.rate";

const DEPTH_RATE: &str = "file.read.depth_rate";

/// Sizes of files: steps of four.
const SIZES: [u64; 6] = [1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30];

/// The largest size of a run that is not rigorous: few devices write more in any bearable time.
const USUAL_SIZE: u64 = 256 << 20;

/// The sizes that a run measures.
fn wanted(profile: Profile) -> impl Iterator<Item = u64> {
    SIZES.into_iter().filter(move |&bytes| bytes <= USUAL_SIZE || profile == Profile::Rigorous)
}

/// The size whose direct random reads are measured before the others are predicted.
const FIRST_SIZE: u64 = SIZES[2];

/// The size that the summary shows.
const HEADLINE: &str = "67108864";

/// Bytes of a request of a rate.
const LARGE: u64 = 1 << 20;

/// Reads under way.
const DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// Caches, as labels.
const DIRECT: &str = "direct";

const COLD: &str = "cold";

const WARM: &str = "warm";

const CACHES: [&str; 3] = [DIRECT, COLD, WARM];

/// A second touch that is faster than the first by more shows a cache below the kernel (G35).
const TOUCH_RATIO: f64 = 1.3;

/// Labels of a figure.
fn labels(order: Order, cache: &str, bytes: u64) -> Labels {
    Labels::of([("order", order.name()), ("cache", cache)]).with("bytes", bytes)
}

/// The same for passes by requests of one size.
fn pass_labels(order: Order, cache: &str, bytes: u64, request: u64) -> Labels {
    labels(order, cache, bytes).with("request", request)
}

/// Labels of what proves reads: random ones, direct and cold, are proven together.
fn proof_labels(order: Order, cache: &str) -> Labels {
    match order {
        Order::Random => Labels::of([("order", order.name())]),
        Order::Sequential => Labels::of([("order", order.name()), ("cache", cache)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_rise_in_steps_of_four_and_the_headline_is_one_of_them() {
        assert!(SIZES.windows(2).all(|pair| pair[1] == 4 * pair[0]));
        assert!(SIZES.iter().any(|bytes| bytes.to_string() == HEADLINE));
    }
}
