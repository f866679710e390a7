//! # Question
//!
//! How long does a write of 4 KiB to a file take, how long until it is durable, and how many bytes per second become durable?
//!
//! # Method
//!
//! sysdyno times single writes to files that it makes in the run's directory. The files have blocks that were written before, with
//! bytes that do not compress. The next block is written each time, as a log does. Each write is one pwrite(2), with its sync call if
//! there is one, between two clock reads. The ways to write alternate in random order, in short bursts. The first write of a burst does
//! not count.
//!
//! - **overwrite**: a block that is in the page cache. **append**: a block at the end of a new file (O_APPEND).
//! - **direct**: a block past the page cache (O_DIRECT). The device has answered, and may still have the block in its own cache.
//! - **overwrite_fsync**, **overwrite_fdatasync**: overwrite, then fsync(2) or fdatasync(2). **dsync**: overwrite with O_DSYNC.
//! - **append_fsync**: append, then fsync(2), which also writes the new length and the place of the block.
//!
//! The result is the median over launches of a quantile (p50, p99) of a launch. Where launches have too few writes for p99, several
//! are one sample. **file.write.rate** is 8 MiB over the time from the first of 8 overwrites to the return of fdatasync(2).
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

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use super::stamped_file::{STAMP, Stamped};
use super::{BLOCK, COPY_FLOOR, DeviceClass, PLACE, entered, predict_direct, rate_of, taken};
use crate::experiments::constants::{COPY_BYTE, Constant, FILE_PAGE_LOOKUP, PAGE_ALLOCATION, disk_byte};
use crate::experiments::limits;
use crate::experiments::models::primitives::DIRECT_READ;
use crate::experiments::network::{quantile_label, quantile_of_shots};
use crate::experiments::os::system_call::paid;
use crate::experiments::prelude::*;
use crate::machine::Medium;
use crate::results::ratio::in_brackets;
use crate::rig::shots::{Answer, Interleaved, Shot};
use crate::sys::create::{self, Access};
use crate::sys::file::{self, Buffer, Writing};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "file.write",
    title: "Local file writes",
    measures: "a write of 4 KiB: into the cache, past it, and until it is durable",
    words: &["fsync", "fdatasync", "append"],
    method_version: 1,
    precision: Precision::OF_DEVICES,
    source: heading!("write.rs"),
    needs: &[PLACE],
    uses: &["cpu.cycle_time", "os.system_call.time", "memory.page_fault.time", "file.read.block_time"],
    words_of: |key, value| HOWS.iter().find(|how| key == "how" && how.name == value).map(|how| how.phrase),
    rules: RULES,
    constants: CONSTANTS,
    publishes: &[
        Publication::state(TIME, Unit::Nanoseconds, "one write of 4 KiB, until its call and its sync call return")
            .in_summary_where(|labels| labels.get("quantile") == Some("p50")),
        Publication::state(RATE, Unit::BytesPerSecond, "bytes per second from the first write until all are durable")
            .in_summary(),
    ],
    seconds: |_| 0.1,
    time_out: 120.0,
    memory: |_, _| 10 << 20,
    predict,
    measure,
    figures,
    explain,
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
/// Bytes of the file that is written past the cache.
const DIRECT_BYTES: u64 = 1 << 20;
/// Bytes of a request of the rate.
const REQUEST: usize = 1 << 20;
/// Launches of a run that write. Together they write less than 400 MiB.
const LAUNCHES: u32 = 32;
/// What the names of the files begin with.
const FILES: &str = "write-";

/// Writes of each kind.
const CACHED: Interleaved = Interleaved {
    name: "write",
    shots: 100,
    burst: 10,
    lead: 1,
    gap: None,
    within: Duration::from_millis(100),
    looks: true,
};
/// Of writes that wait for a device, short bursts: a turn is always finished, and a disk that turns takes 20 ms for each.
const WAITING: Interleaved = Interleaved { burst: 5, within: Duration::from_millis(250), looks: false, ..CACHED };

/// Bytes that the files have at most: each write of a launch, and those that do not count, may append.
const ROOM: u64 = BYTES + DIRECT_BYTES + 2 * 120 * BLOCK;

constants! {
    /// A file system's part of a write into the page cache: it reserves room, marks the page and the file as changed.
    WRITE_BEGIN_END = 2_000.0 in 200.0 ..= 15_000.0 "cycles", "Linux fs/iomap/buffered-io.c, fs/ext4/inode.c: tmpfs the least, ext4 with a journal the most";
    /// The same of a block that the file did not have.
    NEW_BLOCK = 2_000.0 in 100.0 ..= 30_000.0 "cycles", "Linux fs/ext4/inode.c, fs/xfs/xfs_iomap.c: delayed allocation reserves a block";
    /// A write of a disk, compared with its read.
    WRITE_OVER_READ = 1.0 in 0.1 ..= 3.0 "times", "drives take writes into their cache in 10–30 µs. Without one, a write takes as long as a read or longer";
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

/// A durable write may take less than a write into the cache by this share before one of them is doubted.
const ORDER_SLACK: f64 = 0.9;
/// Share of the writes that a device must have completed: the last ones are counted a moment later.
const COUNTED: f64 = 0.9;
/// No core copies bytes faster (bytes per second).
const COPY_RATE: f64 = 1e11;

rules! {
    WRITE_FLOOR: "G8" Hard "`file.write.time`", "at least a rejected system call and {}", time(COPY_FLOOR);
    WRITE_RATE: "G8" Hard "`file.write.rate`", "at most {}, because no core copies faster", rate(COPY_RATE);
    DURABLE_SLOWER: "G20" Hard "`file.write.time`", "a durable write takes at least {} times the same write into the cache", plain(ORDER_SLACK);
    DEVICE_WRITES: "G33" Remark "`file.write.time`", "the device completes a write for at least {} of the writes that wait for it", share(COUNTED);
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
            let read =
                predict_direct(by, super::Order::Random, Prediction::of(TIME, Labels::none(), Unit::Nanoseconds));
            (read.value, read.low, read.high)
        };
        let write = part(read, WRITE_OVER_READ);
        let device = storage.and_then(|storage| storage.device.as_ref());
        let is_through = device.and_then(|device| device.write_cache.as_deref()) == Some("write through");
        let flush = match DeviceClass::of(machine) {
            DeviceClass::Turning => FLUSH_TURNING,
            DeviceClass::Nvme | DeviceClass::Solid => FLUSH_SOLID,
            _ => FLUSH_VIRTUAL,
        };
        Some(Device { write, basis: WRITE_OVER_READ.basis(), flush: (!is_through).then_some(flush) })
    }
}

/// A part of the time of a device, by a factor with a range.
fn part((value, low, high): (f64, f64, f64), factor: Constant) -> (f64, f64, f64) {
    (value * factor.value, low * factor.low, high * factor.high)
}

fn plus(one: (f64, f64, f64), other: (f64, f64, f64)) -> (f64, f64, f64) {
    (one.0 + other.0, one.1 + other.1, one.2 + other.2)
}

fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
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

fn rate_labels() -> Labels {
    FDATASYNC.labels().with("bytes", BYTES)
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    if rig.turn() >= LAUNCHES {
        return Ok(());
    }
    let space = rig.space()?;
    let left = space.left_to(FILES);
    if left < ROOM {
        return Err(Problem::new(format!(
            "only {} are left for test files, and writes need {}",
            quantity(left as f64, Unit::Bytes),
            quantity(ROOM as f64, Unit::Bytes)
        ))
        .hint(format!("allow more ({}), free space, or choose a place with --scratch DIR", rig.setup().file_bound())));
    }
    let obtain = |name: &str, bytes: u64| {
        let stamped = Stamped::obtain(&space.directory.join(format!("{FILES}{name}")), bytes, space.seed())?;
        stamped.sound().map(|_| stamped)
    };
    let files = Files { cached: obtain("cached", BYTES)?, direct: obtain("direct", DIRECT_BYTES)? };
    files.cached.warm().map_err(wrong)?;
    shoot(rig, &files, &space.directory, &CACHED, |how| !how.waits())?;
    // What they have left is no part of the writes that wait.
    files.cached.file().sync_data().map_err(wrong)?;
    let before = writes_of_device(files.cached.file());
    let waited = shoot(rig, &files, &space.directory, &WAITING, How::waits)?;
    if let Some((before, after)) = before.zip(writes_of_device(files.cached.file())) {
        let counted = after.saturating_sub(before) as f64;
        rig.record("device", Labels::none(), Unit::One, vec![waited as f64, counted])?;
    }
    write_back(rig, &files.cached)?;
    [files.cached, files.direct].iter().try_for_each(verify)
}

fn wrong(why: impl std::fmt::Display) -> Problem {
    Problem::new(format!("a write of a test file failed: {why}"))
}

/// Files whose blocks are overwritten.
struct Files {
    cached: Stamped,
    direct: Stamped,
}

/// Writes that the device below a file has completed. None where it has none that counts.
fn writes_of_device(file: &File) -> Option<u64> {
    Some(file::device_counters(&file::device_number(file).ok()?)?.writes)
}

/// A new file to append to. It has a name as long as it is written, and goes with the value.
struct Appended<'a> {
    file: File,
    path: &'a Path,
    blocks: Cell<u64>,
}

impl<'a> Appended<'a> {
    fn make(path: &'a Path) -> io::Result<Self> {
        // What a launch that was killed left.
        let _ = std::fs::remove_file(path);
        create::file(path, Access::Private)?;
        Ok(Appended { file: create::existing(path)?, path, blocks: Cell::new(0) })
    }
}

impl Drop for Appended<'_> {
    fn drop(&mut self) {
        // Otherwise the run's directory removes it.
        let _ = std::fs::remove_file(self.path);
    }
}

/// Fires a volley of some ways to write. Returns how many writes there were, with those that do not count.
fn shoot(
    rig: &mut Rig<'_>,
    files: &Files,
    directory: &Path,
    volley: &Interleaved,
    takes: impl Fn(&How) -> bool,
) -> Result<u64, Problem> {
    let path = directory.join(format!("{FILES}appended"));
    let appended = Appended::make(&path).map_err(wrong)?;
    let written = Cell::new(0);
    let mut shots = Vec::new();
    for how in HOWS.iter().filter(|how| takes(how)) {
        let mut block = Buffer::new(BLOCK as usize);
        rig.random().fill(block.get());
        let fire = if how.appends {
            appending(&appended, how.sync, block)
        } else {
            let stamped = if how.opened == Writing::PastCache { &files.direct } else { &files.cached };
            match stamped.to_write(how.opened) {
                Ok(file) => overwriting(stamped, file, how.sync, block, rig.random().u64(..)),
                Err(why) => {
                    rig.unavailable(TIME, &how.labels(), &why);
                    continue;
                }
            }
        };
        let mut write = fire;
        let written = &written;
        let fire = move || {
            written.set(written.get() + 1);
            write().map(|()| Answer::Came).map_err(|error| format!("a write of a test file failed: {error}"))
        };
        shots.push(Shot { labels: how.labels(), across: false, fire: Box::new(fire) });
    }
    rig.shoot(&mut shots, volley)?;
    drop(shots);
    let (length, wanted) = (appended.file.metadata().map_err(wrong)?.len(), appended.blocks.get() * BLOCK);
    if length != wanted {
        return Err(wrong(format!("the appended file has {length} bytes instead of {wanted}")));
    }
    Ok(written.get())
}

type Fire<'a> = Box<dyn FnMut() -> io::Result<()> + 'a>;

/// Writes the next block of a file, from a place on, and of the first after the last.
fn overwriting(stamped: &Stamped, file: File, sync: Sync, mut block: Buffer, from: u64) -> Fire<'_> {
    let blocks = stamped.bytes() / BLOCK;
    let mut number = from % blocks;
    Box::new(move || {
        number = (number + 1) % blocks;
        let block = block.get();
        stamped.mark(block, number);
        change(block);
        file.write_all_at(block, number * BLOCK)?;
        synced(&file, sync)
    })
}

fn appending<'a>(to: &'a Appended<'_>, sync: Sync, mut block: Buffer) -> Fire<'a> {
    Box::new(move || {
        let block = block.get();
        change(block);
        to.blocks.set(to.blocks.get() + 1);
        (&to.file).write_all(block)?;
        synced(&to.file, sync)
    })
}

/// Makes other bytes of a block: a file system or a device may leave out a write of the same bytes.
#[inline]
fn change(block: &mut [u8]) {
    let counter = &mut block[STAMP];
    *counter = counter.wrapping_add(1);
}

#[inline]
fn synced(file: &File, sync: Sync) -> io::Result<()> {
    match sync {
        Sync::Nothing | Sync::Itself => Ok(()),
        Sync::Data => file.sync_data(),
        Sync::All => file.sync_all(),
    }
}

/// Overwrites a whole file in large requests and waits until all of it is durable.
fn write_back(rig: &mut Rig<'_>, stamped: &Stamped) -> Result<(), Problem> {
    let file = stamped.to_write(Writing::Cached).map_err(wrong)?;
    let mut all = Buffer::new(BYTES as usize);
    rig.random().fill(all.get());
    for (block, number) in all.get().chunks_exact_mut(BLOCK as usize).zip(0..) {
        stamped.mark(block, number);
    }
    let (ticks, written) = rig.timed(|| {
        for (chunk, number) in all.get().chunks(REQUEST).zip(0..) {
            file.write_all_at(chunk, number * REQUEST as u64)?;
        }
        file.sync_data()
    });
    written.map_err(wrong)?;
    let time = rig.nanoseconds(ticks);
    rig.record("pass", rate_labels(), Unit::Nanoseconds, vec![time])
}

/// Every block carries the stamp of its place.
fn verify(stamped: &Stamped) -> Result<(), Problem> {
    let mut buffer = Buffer::new(REQUEST);
    let reader = stamped.buffered().map_err(wrong)?;
    for at in (0..stamped.bytes()).step_by(REQUEST) {
        reader.read_exact_at(buffer.get(), at).map_err(wrong)?;
        stamped.check(buffer.get(), at).map_err(wrong)?;
    }
    Ok(())
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    let others = Some(taken(study));
    for how in &HOWS {
        for &quantile in how.quantiles() {
            let Some(estimate) = quantile_of_shots(study, "write", &how.labels(), quantile) else { continue };
            let labels = how.labels().with("quantile", quantile_label(quantile));
            let gates = of_time(study, how, &estimate, quantile);
            findings.publish(study, Figure::shots(TIME, labels, &estimate, others).gates(gates));
        }
    }
    let passes = study.plain_sample("pass", &rate_labels());
    let rates = passes.map(|passes| passes.as_rates(BYTES as f64 * 1e9, Unit::BytesPerSecond));
    let Some(estimate) = rates.as_ref().and_then(Estimate::median) else { return };
    let mut gates = limits::of_writes(&study.setup.machine, None, estimate.value);
    gates.push(Gate::at_most(&WRITE_RATE, estimate.named("{}"), COPY_RATE).because("no core copies faster"));
    findings.publish(study, Figure::shots(RATE, rate_labels(), &estimate, others).gates(gates));
}

fn of_time(study: &Study<'_>, how: &How, estimate: &Estimate, quantile: f64) -> Vec<Gate> {
    let entry = paid(study.known, "enosys").map_or(0.0, |found| found.value);
    let reason = format!(
        "a rejected system call takes {} and a copy of a block {COPY_FLOOR} ns",
        quantity(entry, Unit::Nanoseconds)
    );
    let mut gates = vec![Gate::at_least(&WRITE_FLOOR, estimate.named("{}"), entry + COPY_FLOOR).because(reason)];
    if !how.waits() {
        return gates;
    }
    let writes = 1e9 / estimate.value;
    if quantile == 0.5 {
        gates.extend(limits::of_writes(&study.setup.machine, Some(writes), writes * BLOCK as f64));
    }
    if how.is_durable()
        && let plain = if how.appends { &APPEND } else { &OVERWRITE }
        && let Some(plain) = quantile_of_shots(study, "write", &plain.labels(), 0.5)
    {
        let reason = format!("{ORDER_SLACK} times the same write into the cache, because it is a part");
        gates.push(
            Gate::at_least(&DURABLE_SLOWER, estimate.named("durable {}"), plain.value * ORDER_SLACK).because(reason),
        );
    }
    gates.extend(device_writes(study).map(|(asked, counted)| {
        let counted = Number::plain(counted).named("the device completed {} writes");
        Gate::at_least(&DEVICE_WRITES, counted, asked * COUNTED).because(format!("{asked} writes waited for it"))
    }));
    gates
}

/// Writes that waited for the device, and writes that the device completed in that time. None where no device counts.
fn device_writes(study: &Study<'_>) -> Option<(f64, f64)> {
    let found = study.series("device", &Labels::none());
    let pairs = found.iter().filter_map(|series| match series.values[..] {
        [asked, counted] => Some((asked, counted)),
        _ => None,
    });
    pairs.reduce(|sum, one| (sum.0 + one.0, sum.1 + one.1))
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    let time = |how: &How, quantile: &str| findings.metric(TIME, &how.labels().with("quantile", quantile)).cloned();
    let mut said = Vec::new();
    if let (Some(cached), Some(durable)) = (time(&OVERWRITE, "p50"), time(&FDATASYNC, "p50")) {
        let slow = time(&FDATASYNC, "p99")
            .map_or_else(String::new, |slow| format!(" One in a hundred takes {} or more.", slow.shown()));
        said.push(format!(
            "An overwrite of 4 KiB takes {}. Until fdatasync has made it durable, it takes {}{}.{slow}",
            cached.shown(),
            durable.shown(),
            in_brackets(&durable, &cached)
        ));
    }
    let class = DeviceClass::of(&study.setup.machine);
    let device = study.setup.machine.scratch().and_then(|storage| storage.device.as_ref());
    let name = device.map_or_else(String::new, |device| format!(" {}", device.name));
    if let Some((asked, counted)) = device_writes(study).filter(|(asked, counted)| *counted < asked * COUNTED) {
        said.push(format!(
            "The {}{name} completed {counted} writes while {asked} writes waited. So they do not wait for it: a filter of \
             system calls or the file system leaves out the sync.",
            class.word()
        ));
    }
    if class == DeviceClass::Virtual {
        said.push(format!(
            "The disk{name} is virtual. What it has acknowledged may still be in the memory of the host."
        ));
    }
    if let Some(cache) = device.and_then(|device| device.write_cache.as_deref()) {
        let flush = if cache == "write through" { "sends no flush" } else { "sends a flush with each sync" };
        said.push(format!(
            "The {}{name} claims a write cache of the kind {cache}, so the kernel {flush}.",
            class.word()
        ));
    }
    said.into_iter().for_each(|text| findings.say(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_writes_no_more_than_its_text_says() {
        let of = |volley: &Interleaved, ways: usize| {
            u64::from(volley.shots + volley.shots.div_ceil(volley.burst) * volley.lead) * ways as u64 * BLOCK
        };
        let waiting = HOWS.iter().filter(|how| how.waits()).count();
        let launch = of(&CACHED, HOWS.len() - waiting) + of(&WAITING, waiting) + BYTES;
        assert!(launch <= 12 << 20, "{launch} bytes");
        assert!(u64::from(LAUNCHES) * launch + BYTES + DIRECT_BYTES < 400 << 20);
        let appends = of(&CACHED, 1).max(of(&WAITING, 1));
        assert!(BYTES + DIRECT_BYTES + appends <= ROOM);
    }

    #[test]
    fn every_way_leaves_its_bytes_and_stamps() {
        let place = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = place.path().join("appended");
        let appended = Appended::make(&path).unwrap();
        let stamped = Stamped::write(&place.path().join("stamped"), 4 * BLOCK, 1).unwrap();
        for how in &HOWS {
            let mut block = Buffer::new(BLOCK as usize);
            block.get().fill(7);
            let mut fire: Fire<'_> = if how.appends {
                appending(&appended, how.sync, block)
            } else {
                let Ok(file) = stamped.to_write(how.opened) else { continue };
                overwriting(&stamped, file, how.sync, block, 2)
            };
            fire().unwrap();
            fire().unwrap();
            drop(fire);
            verify(&stamped).unwrap();
            if !how.appends {
                // From the place after the given one, and after the last the first.
                let mut found = Buffer::new(4 * BLOCK as usize);
                stamped.buffered().unwrap().read_exact_at(found.get(), 0).unwrap();
                let found = found.get();
                let fresh = |number: usize| found[number * BLOCK as usize + STAMP + 1..][..9] == [7; 9];
                assert_eq!([0, 1, 2, 3].map(fresh), [true, false, false, true], "{}", how.name);
            }
        }
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 4 * BLOCK);
        drop(appended);
        assert!(!path.exists());
        stamped.file().set_len(0).unwrap();
        assert!(verify(&stamped).is_err());
    }
}
