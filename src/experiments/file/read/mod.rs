//! # Question
//!
//! What does it cost to read a block of a file, and how many bytes come per second: from the device past the cache, through an
//! empty cache, and out of a full one; in the order of the file and at random; in files of 1 MiB to 1 GiB?
//!
//! # Method
//!
//! The files lie in the run's own directory, written once with bytes that nothing compresses. Every 4 KiB block carries a
//! stamp (file, block, run), which every read compares; FIEMAP and SEEK_HOLE must find every byte on the device.
//!
//! - **direct**: O_DIRECT, the device and the way to it. **cold**: through the page cache after the file was dropped from it
//!   and the kernel said that no page of it was there. **warm**: all of it in the cache, by the kernel's count.
//! - **random**: 4 KiB by a random permutation, each place once in a launch; read-ahead is off (POSIX_FADV_RANDOM). Each
//!   read is timed by itself: between the two clock reads lie pread(2) and the comparison of the stamp. All sizes, direct
//!   and cold, take turns in bursts of eleven, of which the first does not count. Warm reads are too short for that: they are
//!   timed in batches.
//! - **sequential**: 4 KiB after 4 KiB for the time of a block, 1 MiB after 1 MiB for the rate, whole passes over clock
//!   reads; with the kernel's usual read-ahead. The figure is time over requests; direct reads of 4 KiB, which nothing
//!   reads ahead, are timed by themselves, after six milliseconds of them that do not count. A pass ends with the file or
//!   when its time is up.
//!
//! Direct and cold reads are proven by what block devices read for this process (`/proc/self/io`): their bytes, no fewer; cold
//! ones leave their pages in the cache and no others. During warm ones that count stands still. Figures are medians over
//! launches of the launch's median; warm ones are undisturbed costs in core cycles.
//!
//! **depth_rate** keeps 1 to 32 random reads of a block under way (io_uring): where it stops rising, the device is
//! saturated. **Hidden caches**: two hundred places are read twice past the cache; if the second time is much faster,
//! something below the kernel remembered them.
//!
//! # Prediction
//!
//! Direct: what a cold page fault took of this device in this run, else the way into the kernel, a request, the answer of a
//! device of this kind, and the switch back. Cold: also a page, its place in the cache, a copy. Warm: the way in, the
//! lookup, the copy. Rates: the bytes at the rate of such a device, or the copy, whichever takes longer.
//!
//! # What could fool us
//!
//! - A file that was allocated but never written, or has holes: the kernel gives zeros without asking the device. Refused.
//! - A file that is still cached. Dropping it does nothing to pages that are mapped, dirty, or on their way.
//! - Read-ahead makes megabytes of a random read of 4 KiB; here it is off for random order and on for the other.
//! - **Caches below the kernel**: of the drive, of a controller, of a virtual disk's host. What was just written is in them. A
//!   figure faster than its kind of device can be is called served by a cache; a disk of a guest is called virtual.
//! - Many reads under way hide their latency. A data sheet's IOPS are at depth 32 or more and do not give a latency.
//! - `rotational`, `read_ahead_kb` and the like are claims of a driver; in guests they are often wrong.
//! - Picking places with rand() repeats some: those come from a cache.
//! - The span of a file is a fraction of the device: a short stroke on a disk that turns.
//!
//! # References
//!
//! open(2) (O_DIRECT), posix_fadvise(2), cachestat(2), proc_pid_io(5), statx(2); Linux Documentation/filesystems/fiemap.rst,
//! mm/filemap.c, mm/readahead.c, fs/iomap/direct-io.c; io_uring(7); fio, HOWTO.

mod explain;
mod judge;
mod measure;
mod predict;

use super::{BLOCK, DISK, Order, PLACE};
use crate::evaluate::precision::Precision;
use crate::experiments::{Experiment, Publication};
use crate::results::quantity::{Labels, Unit};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "file.read",
    title: "Local file reads",
    measures: "a block of a local file: direct, cold and warm, sequential and random, by file size",
    method_version: 1,
    precision: Precision { target: 0.2, between: 0.1 },
    source: include_str!("mod.rs"),
    needs: &[PLACE, DISK],
    uses: &["cpu.cycle_time", "os.system_call.time", "memory.page_fault.time"],
    rules: judge::RULES,
    constants: &[],
    publishes: &[
        Publication::state(TIME, Unit::Nanoseconds, "one read of 4 KiB")
            .in_summary_where(|labels| labels.get("bytes") == Some(HEADLINE)),
        Publication::state(RATE, Unit::BytesPerSecond, "bytes read per second, one request after the other")
            .in_summary_where(|labels| {
                labels.get("bytes") == Some(HEADLINE) && labels.get("order") == Some("sequential")
            }),
        Publication::state(
            DEPTH_RATE,
            Unit::BytesPerSecond,
            "random reads of 4 KiB past the cache with so many under way",
        )
        .in_summary_where(|labels| labels.get("depth") == Some("32")),
    ],
    every: |_| 4,
    seconds: |_| 1.6,
    time_out: 300.0,
    memory: |_| 8 << 20,
    predict: predict::predict,
    measure: measure::measure,
    measure_first: Some(measure::measure_first),
    figures: judge::figures,
    explain: explain::explain,
};

const TIME: &str = "file.read.block_time";

const RATE: &str = "file.read.rate";

const DEPTH_RATE: &str = "file.read.depth_rate";

/// Sizes of files: steps of four.
const SIZES: [u64; 6] = [1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30];

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
