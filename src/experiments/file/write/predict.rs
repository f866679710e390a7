//! What writes are expected to take.

use super::{BYTES, FDATASYNC, HOWS, How, RATE, Sync, TIME, rate_labels};
use crate::experiments::constants::{COPY_BYTE, Constant, FILE_PAGE_LOOKUP, PAGE_ALLOCATION, disk_byte};
use crate::experiments::file::{BLOCK, DeviceClass, Order, entered, predict_direct, rate_of};
use crate::experiments::models::primitives::DIRECT_READ;
use crate::experiments::network::quantile_label;
use crate::experiments::prelude::*;
use crate::machine::Medium;
use crate::sys::file::Writing;

constants! {
    /// A file system's part of a write into the page cache: it reserves room, marks the page and the file as changed.
    WRITE_BEGIN_END = 2_000.0 in 200.0 ..= 15_000.0 "cycles", "Linux fs/iomap/buffered-io.c, fs/ext4/inode.c: tmpfs the least, ext4 with a journal the most";
    /// The same of a block that the file did not have.
    NEW_BLOCK = 2_000.0 in 100.0 ..= 30_000.0 "cycles", "Linux fs/ext4/inode.c, fs/xfs/xfs_iomap.c: delayed allocation reserves a block";
    /// A write of a disk, compared with its read.
    DISK_WRITE_OVER_READ = 1.0 in 0.1 ..= 3.0 "times", "drives take writes into their cache in 10–30 µs. Without one, a write takes as long as a read or longer";
    /// Until a solid-state disk has emptied its write cache.
    FLUSH_SOLID = 500_000.0 in 1_000.0 ..= 15_000_000.0 "ns", "drives with protected memory answer at once. Others program flash for 0.3–5 ms";
    /// The same of a disk that turns.
    FLUSH_TURNING = 8_000_000.0 in 50_000.0 ..= 50_000_000.0 "ns", "a seek and a rotation for each place that the cache holds";
    /// The same of a disk that a hypervisor provides, or of which nothing is known.
    FLUSH_VIRTUAL = 300_000.0 in 1_000.0 ..= 30_000_000.0 "ns", "the host ignores it or syncs a file. Network storage of clouds takes 1–10 ms";
    /// Writes and flushes of a journal that fsync waits for.
    JOURNAL_COMMITS = 1.0 in 0.0 ..= 4.0 "times", "Linux fs/jbd2/commit.c: blocks, then a commit record behind a flush. None where only contents changed";
    /// The device's part of the slowest of a hundred writes, compared with the median.
    SLOW_WRITE = 3.0 in 1.0 ..= 30.0 "times", "data sheets of server disks: 99 % of writes within 1.2–3 times the typical time. Shared storage and emptied caches take more";
    /// Rate at which a disk reads, compared with its rate of durable writes.
    READ_OVER_WRITE_RATE = 1.3 in 0.3 ..= 8.0 "times", "data sheets: flash writes at 30–100 % of the rate of reads. A cache takes 8 MiB faster";
}

/// What waiting for the device is expected to take: the write and the flush.
struct Device {
    write: (f64, f64, f64),
    basis: Basis,
    flush: Option<Constant>,
}

impl Device {
    /// None where the files are in memory.
    fn expected(by: &PredictionInput<'_>) -> Option<Self> {
        let machine = &by.setup.machine;
        let storage = machine.scratch();
        if storage.and_then(|storage| storage.mount.as_ref()).is_some_and(|mount| mount.medium == Medium::Memory) {
            return None;
        }
        let read = if let Some(read) = DIRECT_READ.find(by.known) {
            (read.value, read.value, read.value)
        } else {
            let read = predict_direct(by, Order::Random, Prediction::of(TIME, Labels::none(), Unit::Nanoseconds));
            (read.value, read.low, read.high)
        };
        let write = part(read, DISK_WRITE_OVER_READ);
        let device = storage.and_then(|storage| storage.device.as_ref());
        let is_through = device.and_then(|device| device.write_cache.as_deref()) == Some("write through");
        let flush = match DeviceClass::of(machine) {
            DeviceClass::Turning => FLUSH_TURNING,
            DeviceClass::Nvme | DeviceClass::Solid => FLUSH_SOLID,
            _ => FLUSH_VIRTUAL,
        };
        Some(Device { write, basis: DISK_WRITE_OVER_READ.basis(), flush: (!is_through).then_some(flush) })
    }
}

/// A part of the time of a device, by a factor with a range.
fn part((value, low, high): (f64, f64, f64), factor: Constant) -> (f64, f64, f64) {
    (value * factor.value, low * factor.low, high * factor.high)
}

fn plus(one: (f64, f64, f64), other: (f64, f64, f64)) -> (f64, f64, f64) {
    (one.0 + other.0, one.1 + other.1, one.2 + other.2)
}

pub(super) fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let device = Device::expected(by);
    let time = |how: &How, quantile: f64| {
        let labels = how.labels().with("quantile", quantile_label(quantile));
        let prediction = Prediction::of(TIME, labels, Unit::Nanoseconds);
        let waits = if how.waits() { device.as_ref() } else { None };
        let slow = quantile > 0.5;
        if how.opened == Writing::PastCache {
            waiting(waits, how, slow, entered(by, prediction))
        } else {
            let cached = into_cache(by, how.appends, prediction);
            let is_called = matches!(how.sync, Sync::Data | Sync::All);
            waiting(waits, how, slow, if is_called { entered(by, cached) } else { cached })
        }
    };
    let times = HOWS.iter().flat_map(|how| how.quantiles().iter().map(|&quantile| time(how, quantile)));
    times.chain([rate(by, device.as_ref())]).collect()
}

/// A write into the page cache.
fn into_cache(by: &PredictionInput<'_>, appends: bool, prediction: Prediction) -> Prediction {
    let cycle = CycleTime::known(by);
    let prediction = entered(by, prediction)
        .software("page lookup", cycle.of(FILE_PAGE_LOOKUP.times(1.0)), FILE_PAGE_LOOKUP.basis())
        .software("the file system's part", cycle.of(WRITE_BEGIN_END.times(1.0)), WRITE_BEGIN_END.basis())
        .hardware("copy", COPY_BYTE.times(BLOCK as f64), COPY_BYTE.basis());
    if !appends {
        return prediction;
    }
    prediction.software("a new page", cycle.of(PAGE_ALLOCATION.times(1.0)), PAGE_ALLOCATION.basis()).software(
        "room for a block",
        cycle.of(NEW_BLOCK.times(1.0)),
        NEW_BLOCK.basis(),
    )
}

/// What a write waits for.
fn waiting(device: Option<&Device>, how: &How, slow: bool, prediction: Prediction) -> Prediction {
    let Some(device) = device else { return prediction };
    let mut prediction = prediction.hardware("the block's way to the device", device.write, device.basis.clone());
    let mut all = device.write;
    if let Some(flush) = device.flush.filter(|_| how.is_durable()) {
        prediction = prediction.hardware("emptying the device's write cache", flush.times(1.0), flush.basis());
        all = plus(all, flush.times(1.0));
    }
    if how.sync == Sync::All {
        let commit = part(all, JOURNAL_COMMITS);
        prediction = prediction.hardware("the journal's writes", commit, JOURNAL_COMMITS.basis());
        all = plus(all, commit);
    }
    if slow {
        let (value, _, high) = part(all, SLOW_WRITE);
        let more = (value - all.0, 0.0, high - all.2);
        prediction = prediction.hardware("what one in a hundred waits longer", more, SLOW_WRITE.basis());
    }
    prediction
}

/// All bytes of a pass.
fn rate(by: &PredictionInput<'_>, device: Option<&Device>) -> Prediction {
    let copy = COPY_BYTE.times(BYTES as f64);
    let time = Prediction::of(TIME, Labels::none(), Unit::Nanoseconds).hardware("copies", copy, COPY_BYTE.basis());
    let time = match device {
        Some(device) => {
            let bytes = part(disk_byte(by).times(BYTES as f64), READ_OVER_WRITE_RATE);
            let time = time.hardware("its bytes to the device", bytes, READ_OVER_WRITE_RATE.basis());
            waiting(Some(device), &FDATASYNC, false, time)
        }
        None => time,
    };
    rate_of(&time, BYTES, rate_labels(), RATE)
}
