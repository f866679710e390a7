//! # Question
//!
//! How long does a write of 4 KiB to a file take, and how long until it is durable? How many bytes per second become durable?
//!
//! # Method
//!
//! sysdyno times single writes to files that it makes in the run's directory. The files have blocks that were written before, with
//! bytes that do not compress. The next block is written each time, as a log does. Each write is one pwrite(2), with its sync call if
//! there is one, between two clock reads. The ways to write alternate in random order, in short bursts. The first write of a burst does
//! not count.
//!
//! - **overwrite**: a block that a read brought into the page cache. **append**: a block at the end of a new file (O_APPEND).
//! - **direct**: a block past the page cache (O_DIRECT). The device has answered, and may still have the block in its own cache.
//! - **overwrite_fsync**, **overwrite_fdatasync**: overwrite, then fsync(2) or fdatasync(2). **dsync**: overwrite with O_DSYNC.
//! - **append_fsync**: append, then fsync(2), which also writes the new length and the place of the block.
//!
//! The result is the median over launches of a quantile (p50, p99) of a launch. Where launches have too few writes for p99, several
//! are one sample. The rate (**file.write.rate**) is 8 MiB over the time from the first of 8 overwrites to the return of fdatasync(2).
//!
//! Afterwards every block must carry its stamp, and the appended file must have the length of all appends. The device below must have
//! completed a write for each write that waits for it (`/sys/dev/block`).
//!
//! Flash wears, so the bytes are bounded. A launch writes at most 12 MiB, and the first one 9 MiB more for its files. The launches
//! after the 32nd of a run write nothing.
//!
//! # Prediction
//!
//! - **overwrite, append**: the system call, the page lookup, the copy, and the file system's part.
//! - **direct**: a direct read of this run, from a tenth to three times as long, because a write ends in the cache of a disk.
//! - **durable**: both, and a flush if the disk has a write cache. fsync also waits for the journal.
//! - **p99**: one to thirty times the device's part. **rate**: the bytes at the rate of such a device.
//!
//! # What could fool us
//!
//! - Large requests put large folios into the page cache. An overwrite of 4 KiB in one took 5.2 µs instead of 1.2 µs (ext4, Linux 6.18).
//! - **Caches below the kernel.** In a guest, durable means that the host has answered. The block may still be in the host's memory.
//!   A disk with protected memory answers at once, and so does a disk that ignores the flush.
//! - A disk that claims to have no volatile cache (`write_cache` is `write through`) gets no flush.
//! - Containers may have a filter that turns fsync into nothing. The writes of the device then show it.
//! - fsync writes a changed time stamp, too. The kernel changes it once per tick, so in a burst fsync often costs as much as fdatasync.
//! - A removed file is not synced by some file systems (Btrfs), so the files here have names.
//! - File systems that copy on write (Btrfs, ZFS) never overwrite in place, so overwrite and append cost the same there.
//! - Dirty data of other programs can be in the same journal commit, and then fsync waits for it.
//! - A long burst fills the cache of a disk. Sustained rates are lower than that of 8 MiB.
//! - Other writes, the size of a block and several writers change the result. They are not measured here.
//!
//! # References
//!
//! - open(2) (O_DIRECT, O_DSYNC), fsync(2), pwrite(2)
//! - Linux Documentation/block/writeback_cache_control.rst, fs/ext4/fsync.c, fs/iomap/buffered-io.c
//! - etcd documentation, FAQ: the 99th percentile of the log's fsync below 10 ms. fio, HOWTO

mod explain;
mod judge;
mod measure;
mod predict;

use super::PLACE;
use crate::experiments::prelude::*;
use crate::sys::file::Writing;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "file.write",
    title: "Local file writes",
    measures: "a write of 4 KiB: into the cache, past it, and until it is durable",
    words: &["fsync", "fdatasync", "append"],
    method_version: 1,
    precision: Precision::OF_DEVICES,
    source: heading!("mod.rs"),
    needs: &[PLACE],
    uses: &["cpu.cycle_time", "os.system_call.time", "memory.page_fault.time", "file.read.block_time"],
    words_of: |key, value| HOWS.iter().find(|how| key == "how" && how.name == value).map(|how| how.phrase),
    rules: judge::RULES,
    constants: predict::CONSTANTS,
    publishes: &[
        Publication::state(TIME, Unit::Nanoseconds, "one write of 4 KiB, until its call and its sync call return")
            .in_summary_where(|labels| labels.get("quantile") == Some("p50")),
        Publication::state(RATE, Unit::BytesPerSecond, "bytes per second from the first write until all are durable")
            .in_summary(),
    ],
    seconds: |_| 0.2,
    time_out: 120.0,
    memory: |_, _| 10 << 20,
    predict: predict::predict,
    measure: measure::measure,
    figures: judge::figures,
    explain: explain::explain,
    ..Experiment::DEFAULT
};

const TIME: &str = "file.write.time";
const RATE: &str = "file.write.rate";

/// What makes a write durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sync {
    Nothing,
    /// Each write by itself (O_DSYNC).
    Itself,
    /// fdatasync(2).
    Data,
    /// fsync(2).
    All,
}

/// A way to write a block.
struct How {
    name: &'static str,
    phrase: &'static str,
    opened: Writing,
    appends: bool,
    sync: Sync,
}

impl How {
    const fn overwrite(name: &'static str, phrase: &'static str, sync: Sync) -> Self {
        How { name, phrase, opened: Writing::Cached, appends: false, sync }
    }

    const fn append(name: &'static str, phrase: &'static str, sync: Sync) -> Self {
        How { appends: true, ..How::overwrite(name, phrase, sync) }
    }

    const fn opened(self, opened: Writing) -> Self {
        How { opened, ..self }
    }

    fn is_durable(&self) -> bool {
        self.sync != Sync::Nothing
    }

    /// Whether it waits for the device.
    fn waits(&self) -> bool {
        self.is_durable() || self.opened == Writing::PastCache
    }

    /// Those that are published: of what waits for a device, also the slow ones.
    fn quantiles(&self) -> &'static [f64] {
        if self.waits() { &[0.5, 0.99] } else { &[0.5] }
    }

    fn labels(&self) -> Labels {
        Labels::of([("how", self.name)])
    }
}

const OVERWRITE: How = How::overwrite("overwrite", "overwrite", Sync::Nothing);
const APPEND: How = How::append("append", "append", Sync::Nothing);
const DIRECT: How = How::overwrite("direct", "past the cache", Sync::Nothing).opened(Writing::PastCache);
const FDATASYNC: How = How::overwrite("overwrite_fdatasync", "overwrite and fdatasync", Sync::Data);

const HOWS: [How; 7] = [
    OVERWRITE,
    APPEND,
    DIRECT,
    How::overwrite("overwrite_fsync", "overwrite and fsync", Sync::All),
    FDATASYNC,
    How::overwrite("dsync", "overwrite with O_DSYNC", Sync::Itself).opened(Writing::Durable),
    How::append("append_fsync", "append and fsync", Sync::All),
];

/// Bytes of the file that is overwritten, and of a pass for the rate.
const BYTES: u64 = 8 << 20;

/// Labels of the rate.
fn rate_labels() -> Labels {
    FDATASYNC.labels().with("bytes", BYTES)
}
