//! The timed code: single reads, passes, batches out of the cache, many reads under way; and what proves them.

use super::{
    BLOCK, COLD, DEPTH_RATE, DEPTHS, DIRECT, FIRST_SIZE, LARGE, Order, TIME, USUAL_SIZE, WARM, labels, pass_labels,
    proof_labels, wanted,
};
use crate::experiments::file::stamped_file::{ReadCounters, Stamped};
use crate::experiments::prelude::*;
use crate::rig::shots::{Answer, Interleaved, Shot};
use crate::sys::file::{self, Advice, Buffer};
use crate::sys::ring::ReadRing;
use std::cell::Cell;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

pub(super) fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let profile = rig.setup().profile;
    let targets = prepare(rig, wanted(profile))?;
    shoot(rig, &targets, &[DIRECT, COLD])?;
    run_direct(rig, &targets)?;
    touch_twice(rig, &targets)?;
    run_depths(rig, &targets)?;
    let resident = run_cold(rig, &targets)?;
    run_warm(rig, &targets, &resident)
}

/// Random reads past the cache, in the one file that others are compared with.
pub(super) fn measure_first(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let targets = prepare(rig, [FIRST_SIZE])?;
    shoot(rig, &targets, &[DIRECT])
}

/// Parts of a hundred of the run's space that these files may take: other experiments also have files.
const SHARE: u64 = 67;

/// What their names begin with.
const FILES: &str = "read-";

/// Reads of each kind and size that count, how many of them stand together, and how many before them do not count.
const SHOTS: u32 = 100;

const BURST: u32 = 10;

const LEAD: u32 = 1;

/// Longest time of the single reads of a launch.
const SHOOTING: Duration = Duration::from_millis(900);

/// Longest time of a direct pass, of a cold one by blocks, and of a cold one through a whole file.
const DIRECT_TIME: Duration = Duration::from_millis(25);

const COLD_TIME: Duration = Duration::from_millis(40);

const WHOLE_TIME: Duration = Duration::from_millis(700);

/// The same for a file of more than [`USUAL_SIZE`]: its rate needs no more, and few devices read all of it in any bearable time.
const LARGER_TIME: Duration = Duration::from_millis(250);

/// Blocks of a direct pass, and of a cold one, at most.
const DIRECT_BLOCKS: u64 = LARGE / BLOCK;

const COLD_BLOCKS: u64 = 4096;

/// Time of reads that do not count before those that do: after a pause a device, and a guest's CPUs, take some milliseconds to
/// come to their pace.
const LEAD_TIME: Duration = Duration::from_millis(6);

/// Time of each depth.
const DEPTH_TIME: Duration = Duration::from_millis(25);

/// Places that are touched twice.
const TOUCHES: usize = 200;

const TOUCH_TIME: Duration = Duration::from_millis(300);

/// A warm batch is this many times as long as it must be: reads become faster while their order is learnt.
const WARM_TIMES: u32 = 3;

/// Places of a warm batch's order: a batch goes round in it.
const WARM_PLACES: usize = 8192;

/// A file with the ways to read it.
pub(super) struct OpenedFile {
    stamped: Stamped,
    direct: Option<File>,
    /// Through the cache, nothing read ahead.
    random: File,
    /// Through the cache, as the kernel likes.
    ordered: File,
    /// Offsets of whole pages in random order: what one part of a launch has taken, no other takes.
    places: Vec<u64>,
    taken: Cell<usize>,
}

impl OpenedFile {
    /// A file and its places in a random order.
    fn of(stamped: Stamped, random: &mut fastrand::Rng) -> Result<Self, Problem> {
        let cannot = |why: String| Problem::new(format!("cannot read the test file: {why}"));
        let direct = stamped.direct().ok();
        let (anywhere, ordered) = (stamped.buffered().map_err(cannot)?, stamped.buffered().map_err(cannot)?);
        file::advise(&anywhere, Advice::Random).map_err(|error| cannot(error.to_string()))?;
        let unit = page_size() as u64;
        let mut places: Vec<u64> = (0..stamped.bytes() / unit).map(|page| page * unit).collect();
        random.shuffle(&mut places);
        Ok(OpenedFile { stamped, direct, random: anywhere, ordered, places, taken: Cell::new(0) })
    }

    fn bytes(&self) -> u64 {
        self.stamped.bytes()
    }

    /// A place that nothing in this launch has read yet; from the beginning again when there is none left.
    fn place(&self) -> u64 {
        let taken = self.taken.get();
        self.taken.set(taken + 1);
        self.places[taken % self.places.len()]
    }
}

/// Notes why reads of a file are missing, in whatever order.
fn unavailable(rig: &mut Rig<'_>, cache: &str, bytes: u64, why: &str) {
    rig.unavailable(TIME, &Labels::of([("cache", cache)]).with("bytes", bytes), &why);
}

fn wrong(why: impl std::fmt::Display) -> Problem {
    Problem::new(format!("a read of the test file failed: {why}"))
}

/// The sizes whose files have room in `left` bytes.
fn sizes(wanted: impl IntoIterator<Item = u64>, mut left: u64) -> Vec<u64> {
    let fits = |&bytes: &u64| {
        let fits = bytes <= left;
        left -= if fits { bytes } else { 0 };
        fits
    };
    wanted.into_iter().take_while(fits).collect()
}

/// Finds or writes the files of some sizes.
pub(super) fn prepare(rig: &mut Rig<'_>, wanted: impl IntoIterator<Item = u64>) -> Result<Vec<OpenedFile>, Problem> {
    let space = rig.space()?;
    // No more than its share, and no more than the files of others leave.
    let room = (space.bytes / 100 * SHARE).min(space.left_to(FILES));
    let sizes = sizes(wanted, room);
    if sizes.is_empty() {
        return Err(Problem::new(format!(
            "only {} are left for test files, of the {} of scratch space of this run",
            quantity(room as f64, Unit::Bytes),
            quantity(space.bytes as f64, Unit::Bytes)
        ))
        .hint(format!("allow more ({}), free space, or choose a place with --scratch DIR", rig.setup().file_bound())));
    }
    let mut targets = Vec::new();
    let (mut written, mut time) = (0, Duration::ZERO);
    for bytes in sizes {
        let path = space.directory.join(format!("{FILES}{bytes}"));
        let stamped = if let Some(found) = Stamped::open(&path, bytes, space.seed()) {
            found
        } else {
            let began = Instant::now();
            let new = Stamped::write(&path, bytes, space.seed())?;
            (written, time) = (written + bytes, time + began.elapsed());
            new
        };
        let sound = stamped.sound()?;
        if let Some(extents) = sound.extents {
            rig.record("extents", Labels::none().with("bytes", bytes), Unit::One, vec![extents as f64])?;
        } else {
            rig.remark(
                "extents",
                &"the file system does not report where files are stored, so stamps and counters \
                                    prove them",
            );
        }
        if let Err(why) = stamped.direct() {
            unavailable(rig, DIRECT, bytes, &why);
        }
        targets.push(OpenedFile::of(stamped, rig.random())?);
    }
    if written > 0 {
        rig.record("writing", Labels::none(), Unit::BytesPerSecond, vec![written as f64 / time.as_secs_f64()])?;
    }
    remark_device(rig);
    Ok(targets)
}

/// What /sys says of the interface and of what is below the device.
fn remark_device(rig: &mut Rig<'_>) {
    let Some(device) = rig.setup().machine.scratch().and_then(|storage| storage.device.as_ref()) else { return };
    if let Some(rate) = rig.setup().machine.scratch_link_rate() {
        rig.remark("interface", &rate);
    }
    if let Ok(file) = std::fs::read_to_string(format!("/sys/block/{}/loop/backing_file", device.name)) {
        let kind = crate::experiments::file::file_system::FileSystem::of(Path::new(file.trim()))
            .map_or_else(|_| "a file system that cannot be inspected".to_owned(), |ground| ground.file_system);
        rig.remark("below", &format!("it is the file {} on {kind}", file.trim()));
    }
}

/// Counts what is asked for and what devices read, and records both for an order.
struct DeviceReadCheck {
    witness: ReadCounters,
    asked: f64,
}

impl DeviceReadCheck {
    fn begin(targets: &[OpenedFile]) -> Self {
        DeviceReadCheck { witness: ReadCounters::of(targets[0].stamped.file()), asked: 0.0 }
    }

    fn record(self, rig: &mut Rig<'_>, order: Order, cache: &str) -> Result<(), Problem> {
        match self.witness.seen().own_bytes {
            Some(read) if self.asked > 0.0 => {
                rig.record("proof", proof_labels(order, cache), Unit::Bytes, vec![self.asked, read as f64])
            }
            _ => Ok(()),
        }
    }
}

/// Single random reads, direct and cold as far as they are wanted, of all files in turns.
pub(super) fn shoot(rig: &mut Rig<'_>, targets: &[OpenedFile], wanted: &[&str]) -> Result<(), Problem> {
    let each = (SHOTS + SHOTS / BURST * LEAD) as usize;
    let (asked, cold_reads) = (Cell::new(0_u64), Cell::new(0_u64));
    let mut shots: Vec<Shot<'_>> = Vec::new();
    let mut cold = Vec::new();
    for target in targets {
        let bytes = target.bytes();
        if target.places.len() < wanted.len() * each {
            for cache in [DIRECT, COLD] {
                let labels = labels(Order::Random, cache, bytes);
                rig.unavailable(TIME, &labels, &"the file has too few pages for reads without repetition");
            }
            continue;
        }
        if let Some(direct) = target.direct.as_ref().filter(|_| wanted.contains(&DIRECT)) {
            let mut buffer = Buffer::new(BLOCK as usize);
            let asked = &asked;
            let fire = move || {
                asked.set(asked.get() + BLOCK);
                target.stamped.read(direct, &mut buffer, target.place()).map(|()| Answer::Came)
            };
            shots.push(Shot { labels: labels(Order::Random, DIRECT, bytes), across: false, fire: Box::new(fire) });
        }
        if !wanted.contains(&COLD) {
            continue;
        }
        if let Err(why) = target.stamped.evict() {
            unavailable(rig, COLD, bytes, &why);
            continue;
        }
        cold.push(target);
        let mut buffer = Buffer::new(BLOCK as usize);
        let (asked, reads) = (&asked, &cold_reads);
        let fire = move || {
            asked.set(asked.get() + BLOCK);
            reads.set(reads.get() + 1);
            target.stamped.read(&target.random, &mut buffer, target.place()).map(|()| Answer::Came)
        };
        shots.push(Shot { labels: labels(Order::Random, COLD, bytes), across: false, fire: Box::new(fire) });
    }
    let mut proof = DeviceReadCheck::begin(targets);
    let interleaved =
        Interleaved { name: "read", shots: SHOTS, burst: BURST, lead: LEAD, gap: None, within: SHOOTING, looks: false };
    rig.shoot(&mut shots, &interleaved)?;
    drop(shots);
    proof.asked = asked.get() as f64;
    proof.record(rig, Order::Random, COLD)?;
    let cached = cold.iter().map(|target| target.stamped.cached_pages()).sum::<Result<u64, String>>().map_err(wrong)?;
    if cold_reads.get() > 0 {
        rig.record("cached_after", Labels::none(), Unit::One, vec![cold_reads.get() as f64, cached as f64])?;
    }
    Ok(())
}

/// Requests of one size, one after the other, until their number or the time is up. Returns how many, and the ticks.
fn pass(
    rig: &mut Rig<'_>,
    target: &OpenedFile,
    from: &File,
    start: u64,
    request: u64,
    most: u64,
    within: Duration,
) -> Result<(u64, f64), Problem> {
    let mut buffer = Buffer::new(request as usize);
    let end = Instant::now() + within;
    let most = most.min((target.bytes() - start) / request);
    let (ticks, done) = rig.timed(|| {
        let mut done = 0;
        while done < most {
            target.stamped.read(from, &mut buffer, start + done * request)?;
            done += 1;
            // The clock is looked at every so often only: it would be part of a read out of the read-ahead.
            if (request >= LARGE || done % 16 == 0) && Instant::now() >= end {
                break;
            }
        }
        Ok::<u64, String>(done)
    });
    Ok((done.map_err(wrong)?, ticks))
}

/// Blocks past the cache in the order of the file, at its end from its beginning again, each timed by itself. Returns the
/// nanoseconds of those that count, and how many were read.
fn singles(rig: &mut Rig<'_>, target: &OpenedFile, direct: &File, start: u64) -> Result<(Vec<f64>, u64), Problem> {
    let mut buffer = Buffer::new(BLOCK as usize);
    let begin = Instant::now() + LEAD_TIME;
    let end = begin + DIRECT_TIME;
    let mut times = Vec::new();
    let mut done = 0;
    while (times.len() as u64) < DIRECT_BLOCKS {
        let now = Instant::now();
        if now >= end && !times.is_empty() {
            break;
        }
        let at = (start + done * BLOCK) % target.bytes();
        let (ticks, read) = rig.timed(|| target.stamped.read(direct, &mut buffer, at));
        read.map_err(wrong)?;
        done += 1;
        if now >= begin {
            times.push(rig.nanoseconds(ticks));
        }
    }
    Ok((times, done))
}

/// Passes past the cache: by blocks and by large requests, from a random place.
pub(super) fn run_direct(rig: &mut Rig<'_>, targets: &[OpenedFile]) -> Result<(), Problem> {
    let mut proof = DeviceReadCheck::begin(targets);
    for target in targets {
        let Some(direct) = &target.direct else { continue };
        let room = (target.bytes() - LARGE.min(target.bytes())) / LARGE;
        let start = rig.random().u64(..=room) * LARGE;
        let (times, done) = singles(rig, target, direct, start)?;
        proof.asked += (done * BLOCK) as f64;
        let labels = pass_labels(Order::Sequential, DIRECT, target.bytes(), BLOCK);
        rig.record("pass", labels, Unit::Nanoseconds, times)?;
        let start = rig.random().u64(..=room) * LARGE;
        let (done, ticks) = pass(rig, target, direct, start, LARGE, u64::MAX, DIRECT_TIME)?;
        proof.asked += (done * LARGE) as f64;
        record_pass(rig, DIRECT, target.bytes(), LARGE, done, ticks)?;
    }
    proof.record(rig, Order::Sequential, DIRECT)
}

fn record_pass(rig: &mut Rig<'_>, cache: &str, bytes: u64, request: u64, done: u64, ticks: f64) -> Result<(), Problem> {
    if done == 0 {
        return Ok(());
    }
    let each = rig.nanoseconds(ticks) / done as f64;
    rig.record("pass", pass_labels(Order::Sequential, cache, bytes, request), Unit::Nanoseconds, vec![each])
}

/// The same places past the cache twice (gate G35).
pub(super) fn touch_twice(rig: &mut Rig<'_>, targets: &[OpenedFile]) -> Result<(), Problem> {
    let Some((target, direct)) = targets.last().and_then(|target| Some((target, target.direct.as_ref()?))) else {
        return Ok(());
    };
    let mut places: Vec<u64> = (0..TOUCHES.min(target.places.len() / 4)).map(|_| target.place()).collect();
    let mut buffer = Buffer::new(BLOCK as usize);
    for which in ["first", "second"] {
        let end = Instant::now() + TOUCH_TIME;
        let mut times = Vec::new();
        for &at in &places {
            let (ticks, read) = rig.timed(|| target.stamped.read(direct, &mut buffer, at));
            read.map_err(wrong)?;
            times.push(rig.nanoseconds(ticks));
            if Instant::now() >= end {
                break;
            }
        }
        places.truncate(times.len());
        rig.record("touch", Labels::of([("touch", which)]), Unit::Nanoseconds, times)?;
    }
    Ok(())
}

/// Many random reads under way past the cache, in the largest file.
pub(super) fn run_depths(rig: &mut Rig<'_>, targets: &[OpenedFile]) -> Result<(), Problem> {
    let Some((target, direct)) = targets.last().and_then(|target| Some((target, target.direct.as_ref()?))) else {
        return Ok(());
    };
    for depth in DEPTHS {
        let mut ring = match ReadRing::new(depth, BLOCK as usize) {
            Ok(ring) => ring,
            Err(error) => {
                rig.unavailable(DEPTH_RATE, &Labels::none(), &format!("the kernel does not provide io_uring: {error}"));
                return Ok(());
            }
        };
        let mut read_for = |time: Duration| {
            let end = Instant::now() + time;
            let next = || (Instant::now() < end).then(|| target.place());
            ring.read(direct, next, |read: &[u8], at: u64| target.stamped.check_block(read, at / BLOCK))
        };
        read_for(LEAD_TIME).map_err(wrong)?;
        let (ticks, done) = rig.timed(|| read_for(DEPTH_TIME));
        let done = done.map_err(wrong)?;
        if done > 0 {
            let each = rig.nanoseconds(ticks) / done as f64;
            let labels = Labels::none().with("bytes", target.bytes()).with("depth", depth);
            rig.record("depth", labels, Unit::Nanoseconds, vec![each])?;
        }
    }
    Ok(())
}

/// Cold passes: by blocks, then by large requests through the whole file, which fills the cache. Returns the files that are
/// wholly cached then, by position.
pub(super) fn run_cold(rig: &mut Rig<'_>, targets: &[OpenedFile]) -> Result<Vec<usize>, Problem> {
    let mut resident = Vec::new();
    let mut proof = DeviceReadCheck::begin(targets);
    for (index, target) in targets.iter().enumerate() {
        let bytes = target.bytes();
        if let Err(why) = target.stamped.evict() {
            unavailable(rig, COLD, bytes, &why);
            continue;
        }
        let (done, ticks) = pass(rig, target, &target.ordered, 0, BLOCK, COLD_BLOCKS, COLD_TIME)?;
        proof.asked += (done * BLOCK) as f64;
        record_pass(rig, COLD, bytes, BLOCK, done, ticks)?;
        target.stamped.evict().map_err(wrong)?;
        let within = if bytes > USUAL_SIZE { LARGER_TIME } else { WHOLE_TIME };
        let (done, ticks) = pass(rig, target, &target.ordered, 0, LARGE, u64::MAX, within)?;
        proof.asked += (done * LARGE) as f64;
        record_pass(rig, COLD, bytes, LARGE, done, ticks)?;
        if done * LARGE < bytes {
            unavailable(
                rig,
                WARM,
                bytes,
                &format!("reading the file into the cache takes longer than {} ms", within.as_millis()),
            );
        } else {
            resident.push(index);
        }
    }
    proof.record(rig, Order::Sequential, COLD)?;
    Ok(resident)
}

/// Batches out of the cache, of every file that is wholly in it.
pub(super) fn run_warm(rig: &mut Rig<'_>, targets: &[OpenedFile], resident: &[usize]) -> Result<(), Problem> {
    let mut held = Vec::new();
    for &index in resident {
        let target = &targets[index];
        let mut cached = target.stamped.cached_pages().map_err(wrong)?;
        // A kernel may take pages back early: they are read in again.
        if cached < target.stamped.pages() {
            // Whether it succeeded is counted next.
            drop(target.stamped.warm());
            cached = target.stamped.cached_pages().map_err(wrong)?;
        }
        if cached < target.stamped.pages() {
            let why = format!("only {cached} of its {} pages remain in the page cache", target.stamped.pages());
            unavailable(rig, WARM, target.bytes(), &why);
        } else {
            held.push((target, cached));
        }
    }
    let Some((first, _)) = held.first() else { return Ok(()) };
    let witness = ReadCounters::of(first.stamped.file());
    let mut workloads = Vec::new();
    for &(target, _) in &held {
        let own = |order: Order, request: u64| labels(order, WARM, target.bytes()).with("request", request);
        let order: Vec<u64> = target.places.iter().copied().take(WARM_PLACES).collect();
        workloads.push(reads("warm", own(Order::Random, BLOCK), target, &target.random, BLOCK, order));
        for request in [BLOCK, LARGE] {
            let order = (0..target.bytes() / request).map(|number| number * request).take(WARM_PLACES).collect();
            workloads.push(reads("warm", own(Order::Sequential, request), target, &target.ordered, request, order));
        }
    }
    rig.sample(workloads)?;
    let read = witness.seen().own_bytes.unwrap_or(0) as f64;
    for (target, before) in held {
        let after = target.stamped.cached_pages().map_err(wrong)?;
        let values = vec![target.stamped.pages() as f64, before as f64, after as f64, read];
        rig.record("resident", Labels::none().with("bytes", target.bytes()), Unit::One, values)?;
    }
    Ok(())
}

/// Batches of reads that go round in an order of offsets.
fn reads<'a>(
    name: &str,
    labels: Labels,
    target: &'a OpenedFile,
    from: &'a File,
    request: u64,
    order: Vec<u64>,
) -> Workload<'a> {
    let mut buffer = Buffer::new(request as usize);
    let mut next = 0;
    Workload::of(name, labels, 1, move |iterations| {
        for _ in 0..iterations {
            let at = order[next];
            next = if next + 1 == order.len() { 0 } else { next + 1 };
            target.stamped.read(from, &mut buffer, at)?;
        }
        Ok(())
    })
    .sized(Sizing::ByTimes(WARM_TIMES))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::super::SIZES;
    use super::*;
    use crate::setup::Profile;

    #[test]
    fn sizes_keep_to_the_space_and_the_profile() {
        assert_eq!(sizes(wanted(Profile::Rigorous), 2 << 30), SIZES);
        assert_eq!(sizes(wanted(Profile::Default), 2 << 30), SIZES[..5]);
        assert_eq!(sizes(wanted(Profile::Quick), 64 << 20), SIZES[..3]);
        assert!(sizes(wanted(Profile::Default), 1 << 19).is_empty());
    }

    #[test]
    fn a_file_whose_bytes_changed_is_noticed_by_the_read() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let stamped = Stamped::write(&directory.path().join("a"), 1 << 20, 3).unwrap();
        let mut buffer = Buffer::new(BLOCK as usize);
        let reader = stamped.buffered().unwrap();
        stamped.read(&reader, &mut buffer, 4096).unwrap();
        stamped.file().write_all_at(&[0; 4096], 4096).unwrap();
        assert!(stamped.read(&reader, &mut buffer, 4096).unwrap_err().contains("all zeros"));
        assert!(stamped.read(&reader, &mut buffer, 1 << 20).unwrap_err().contains("0 bytes"));
    }
}
