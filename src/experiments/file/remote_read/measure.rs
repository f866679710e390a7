//! How the reads of one way are taken: the path itself and a file of this machine in the same volley, cold parts once, the rate
//! of several reads at once.

use super::sources::{BlockSource, ContentCheck, GROUP, GROUPS, Local, MountedFile, Nfs, SLOT, WARM_SLOTS};
use super::{COLD_SIZES, ORDERS, PENALTY, RANDOM, SEQUENTIAL, SIZES, TIME, cold, labels, sources};
use crate::experiments::network::partner_elsewhere;
use crate::experiments::prelude::*;
use crate::machine::Medium;
use crate::machine::mountstats::{self, Reads};
use crate::peer::client::Partner;
use crate::peer::nfs::{FileLocation, Reader};
use crate::peer::protocol::{Direction, FlowOrder};
use crate::results::remote::{NfsFile, RemoteDirectory};
use crate::rig::shots::{Answer, Interleaved, Shot};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(super) fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let remote = rig.setup().remote.clone().unwrap_or_default();
    let access = rig.setup().access.as_ref();
    let local = compared(rig);
    let mut outcomes = Vec::new();
    if let Some(directory) = &remote.directory {
        outcomes.push(("mount", measure_mount(rig, directory, local.as_ref())));
    }
    if let Some(file) = &remote.nfs {
        outcomes.push(("nfs", measure_nfs(rig, file, local.as_ref())));
    }
    if access.is_some() {
        let partner = partner_elsewhere(access);
        let outcome = partner.and_then(|partner| match partner {
            Some(partner) => measure_peer(rig, partner, local.as_ref()),
            None => Ok(()),
        });
        outcomes.push(("peer", outcome));
    }
    let none = outcomes.iter().all(|(_, outcome)| outcome.is_err());
    let mut failed = None;
    for (via, outcome) in outcomes {
        if let Err(problem) = outcome {
            rig.unavailable_for(TIME, &Labels::of([("via", via)]), &problem);
            failed.get_or_insert(problem);
        }
    }
    // One way that fails leaves the others their figures.
    match failed {
        Some(problem) if none => Err(problem),
        _ => Ok(()),
    }
}

/// The file to compare with, in the scratch directory.
pub(super) fn compared(rig: &mut Rig<'_>) -> Option<Local> {
    let scratch = rig
        .setup()
        .machine
        .scratch()
        .and_then(|storage| storage.mount.as_ref())
        .map(|mount| PathBuf::from(&mount.directory));
    let identity = rig.random().u64(..);
    let local = rig.allows_file(Local::BYTES).and_then(|()| {
        let directory = scratch.ok_or("the scratch directory has no known mount")?;
        Local::make(&directory, identity)
    });
    local.map_err(|why| rig.unavailable(PENALTY, &Labels::none(), &why)).ok()
}

pub(super) fn as_source(local: Option<&Local>) -> Option<&dyn BlockSource> {
    local.map(|local| local as &dyn BlockSource)
}

pub(super) fn measure_mount(rig: &mut Rig<'_>, at: &RemoteDirectory, local: Option<&Local>) -> Result<(), Problem> {
    let file = MountedFile::make(Path::new(&at.directory))?;
    warm(&file)?;
    let before = mountstats::reads(&at.mount_point);
    shoot_warm(rig, "mount", &file, as_source(local), None)?;
    let after = mountstats::reads(&at.mount_point);
    if let (Some(before), Some(after)) = (before, after) {
        let Reads { calls, bytes, queued, answered, executed } = after.since(&before);
        let counts = [calls, bytes, queued, answered, executed].map(|count| count as f64);
        rig.record("client", Labels::of([("via", "mount")]), Unit::One, counts.to_vec())?;
    }
    rig.unavailable(TIME, &cold("mount"), &"the file was just written, so the other machine still has it in memory");
    let readers = (0..AT_ONCE).map(|_| file.reader().map(|read| Box::new(read) as PieceReader));
    let readers = readers.collect::<Result<Vec<PieceReader>, String>>().map_err(Problem::new)?;
    stream(rig, "mount", readers)
}

pub(super) fn measure_nfs(rig: &mut Rig<'_>, file: &NfsFile, local: Option<&Local>) -> Result<(), Problem> {
    let server =
        file.server.parse().map_err(|_| Problem::new(format!("'{}' is not a valid IP address", file.server)))?;
    let place = FileLocation { server, port: file.port, mount_port: file.mount_port, path: file.path.clone() };
    let reader = Reader::open(&place)?;
    let bytes = reader.bytes;
    if bytes < WARM_SLOTS * SLOT {
        let needed = WARM_SLOTS * SLOT;
        return Err(Problem::new(format!(
            "{} has {bytes} bytes, and the experiment needs at least {needed}",
            file.path
        ))
        .hint("name a larger file, preferably of 64 MiB or more"));
    }
    let source = Nfs::new(reader, ContentCheck::NoHoles);
    match sources::untouched(bytes, rig.run_number(), rig.turn() as usize) {
        Some(groups) => shoot_cold(rig, "nfs", &source, &groups, |_| Ok(true))?,
        None => rig.unavailable(TIME, &cold("nfs"), &"this run has already read every part of the file"),
    }
    warm(&source)?;
    shoot_warm(rig, "nfs", &source, as_source(local), Some(&source))?;
    let mut readers: Vec<PieceReader> = Vec::new();
    for _ in 0..AT_ONCE {
        let mut reader = Reader::open(&place)?;
        readers.push(Box::new(move |offset, bytes| reader.read(offset, bytes, |_, _| Ok(()))));
    }
    stream(rig, "nfs", readers)
}

pub(super) fn measure_peer(rig: &mut Rig<'_>, mut partner: Partner, local: Option<&Local>) -> Result<(), Problem> {
    let bytes = (WARM_SLOTS + GROUP * GROUPS as u64) * SLOT;
    let lent = partner.export(partner.is_ipv6(), bytes)?;
    let source = Nfs::new(Reader::open(&lent.place)?, ContentCheck::Stamps(lent.identity));
    let mount = lent.storage.as_ref().and_then(|storage| storage.mount.as_ref());
    if let Some(mount) = mount {
        rig.remark("peer.file_system", &mount.file_system.value);
    }
    if mount.is_some_and(|mount| mount.medium == Medium::Memory) {
        rig.unavailable(
            TIME,
            &cold("peer"),
            &"the peer's file is in memory, not on a disk. Choose a disk with `sysdyno peer --scratch DIR`",
        );
    } else {
        let mut groups: Vec<u64> = (0..GROUPS as u64).map(|group| (WARM_SLOTS + group * GROUP) * SLOT).collect();
        rig.random().shuffle(&mut groups);
        let forget = |order: &str| Ok(partner.forget(order == SEQUENTIAL)? == 0);
        shoot_cold(rig, "peer", &source, &groups, forget)?;
    }
    warm(&source)?;
    shoot_warm(rig, "peer", &source, as_source(local), Some(&source))?;
    drop(source);
    let exported = partner.end_export()?;
    if let Some(residence) = exported.residence {
        rig.record("residence", Labels::of([("via", "peer")]), Unit::Nanoseconds, vec![residence as f64])?;
    }
    flow(rig, "peer", &mut partner)
}

/// Most time of the warm volley.
const WARM_TIME: Duration = Duration::from_millis(450);

/// Cold reads of a kind in a launch: of the longest, and of the shorter ones.
const COLD_LONG: u32 = 3;

const COLD_SHORT: u32 = 12;

/// Reads at once, and bytes of each, that show what the path carries.
pub(super) const AT_ONCE: usize = 4;

const PIECE: u32 = 256 << 10;

/// How long they go on, and the share of it at the beginning that does not count.
const STREAMING: Duration = Duration::from_millis(300);

const LEFT_OUT: f64 = 0.33;

/// The longest such test, where a path is slow.
const LONGEST_STREAMING: Duration = Duration::from_secs(4);

/// Reads the warm part of a file once: from here on the other machine has it in memory.
pub(super) fn warm(source: &dyn BlockSource) -> Result<(), Problem> {
    (0..WARM_SLOTS).try_for_each(|slot| source.read(slot * SLOT, SLOT as u32)).map_err(Problem::new)
}

/// One read of a kind each time it is fired, within the warm slots.
fn repeated<'a>(source: &'a dyn BlockSource, order: &'static str, bytes: u32, seed: u64, of: Labels) -> Shot<'a> {
    let places = WARM_SLOTS * SLOT / u64::from(bytes);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut next = random.u64(..places);
    let fire = Box::new(move || {
        next = if order == RANDOM { random.u64(..places) } else { (next + 1) % places };
        source.read(next * u64::from(bytes), bytes).map(|()| Answer::Came)
    });
    Shot { labels: of, across: false, fire }
}

/// Reads of all kinds from the other machine's memory, from this machine's, and empty exchanges, all in turns.
pub(super) fn shoot_warm(
    rig: &mut Rig<'_>,
    via: &str,
    source: &dyn BlockSource,
    local: Option<&dyn BlockSource>,
    exchange: Option<&Nfs>,
) -> Result<(), Problem> {
    let mut shots: Vec<Shot<'_>> = Vec::new();
    for order in ORDERS {
        for bytes in SIZES {
            let seed = rig.random().u64(..);
            shots.push(repeated(source, order, bytes, seed, labels(via, order, bytes, "warm")));
            if let Some(local) = local {
                shots.push(repeated(local, order, bytes, seed, labels(via, order, bytes, "here")));
            }
        }
    }
    if let Some(server) = exchange {
        let fire = Box::new(|| server.exchange().map(|()| Answer::Came));
        shots.push(Shot { labels: Labels::of([("via", via), ("what", "exchange")]), across: false, fire });
    }
    let interleaved = Interleaved {
        name: "read",
        shots: rig.batches(),
        burst: 3,
        lead: 1,
        gap: None,
        within: WARM_TIME,
        looks: false,
    };
    rig.shoot(&mut shots, &interleaved)
}

/// Each place once, in the order given.
fn once(source: &dyn BlockSource, of: Labels, bytes: u32, places: Vec<u64>) -> Shot<'_> {
    let mut places = places.into_iter();
    let fire = Box::new(move || {
        let place = places.next().ok_or("there are more cold reads than places for them")?;
        source.read(place, bytes).map(|()| Answer::Came)
    });
    Shot { labels: of, across: false, fire }
}

/// Reads parts that the other machine does not have in memory, each once: `groups` are where they begin. Before reads of an order
/// `forget` is called, for who can have them forgotten; it says no where that did not work.
pub(super) fn shoot_cold(
    rig: &mut Rig<'_>,
    via: &str,
    source: &dyn BlockSource,
    groups: &[u64],
    mut forget: impl FnMut(&str) -> Result<bool, Problem>,
) -> Result<(), Problem> {
    let &[one, two, three, four] = groups else { return Err(Problem::new("cold reads need four groups of slots")) };
    let [short, middle, long] = COLD_SIZES;
    let along = |start: u64, bytes: u32, count: u32| (0..count).map(|n| start + u64::from(n * bytes)).collect();
    // Apart, and in no line: what is read ahead of one is not another.
    let spread = |start: u64, apart: u64, jump: u64| -> Vec<u64> {
        (0..u64::from(COLD_SHORT)).map(|n| start + n * apart + n * 5 % 3 * jump).collect()
    };
    let mut mixed = |mut places: Vec<u64>| {
        rig.random().shuffle(&mut places);
        places
    };
    let far: Vec<u64> = mixed(along(two, long, COLD_LONG));
    let apart = mixed(spread(three, GROUP * SLOT / u64::from(COLD_SHORT), u64::from(middle)));
    let near = mixed(spread(four + 2 * SLOT, 65536, 16384));
    let of = |order, bytes| labels(via, order, bytes, "cold");
    // Random reads first, and each sequential row at once: what is read ahead for it would be others' cold parts.
    let rows = [
        (RANDOM, short, COLD_SHORT, near),
        (RANDOM, middle, COLD_SHORT, apart),
        (RANDOM, long, COLD_LONG, far),
        (SEQUENTIAL, short, COLD_SHORT, along(four + SLOT, short, COLD_SHORT)),
        (SEQUENTIAL, middle, COLD_SHORT, along(four, middle, COLD_SHORT)),
        (SEQUENTIAL, long, COLD_LONG, along(one, long, COLD_LONG)),
    ];
    let interleaved =
        Interleaved { name: "read", shots: 0, burst: 0, lead: 0, gap: None, within: Duration::ZERO, looks: false };
    for (order, bytes, shots, places) in rows {
        if !forget(order)? {
            rig.unavailable(TIME, &cold(via), &"parts of the file remain in the other machine's page cache");
            return Ok(());
        }
        let mut row = [once(source, of(order, bytes), bytes, places)];
        rig.shoot(&mut row, &Interleaved { shots, burst: shots, ..interleaved })?;
    }
    Ok(())
}

/// What the path to a peer carries: a flow of one stream towards this machine, without its beginning.
pub(super) fn flow(rig: &mut Rig<'_>, via: &str, partner: &mut Partner) -> Result<(), Problem> {
    let order = FlowOrder {
        ipv6: partner.is_ipv6(),
        direction: Direction::Receive,
        streams: 1,
        message: 128 << 10,
        milliseconds: STREAMING.as_millis() as u32,
        window: 20,
    };
    let (own, ..) = partner.flow(&order)?;
    let windows: Vec<(f64, f64)> = own.windows.iter().map(|&(bytes, at)| (at as f64 / 1e9, bytes as f64)).collect();
    record_rate(rig, via, &windows)
}

/// A reader of pieces of the warm part of a file.
pub(super) type PieceReader = Box<dyn FnMut(u64, u32) -> Result<(), String> + Send>;

/// What the path and the server carry when several reads are under way.
pub(super) fn stream(rig: &mut Rig<'_>, via: &str, readers: Vec<PieceReader>) -> Result<(), Problem> {
    let began = Instant::now();
    let pieces = WARM_SLOTS * SLOT / u64::from(PIECE);
    let ends = std::thread::scope(|scope| {
        let threads: Vec<_> = readers
            .into_iter()
            .enumerate()
            .map(|(number, mut read)| {
                scope.spawn(move || {
                    let mut ends = Vec::new();
                    let mut next = number as u64;
                    // On a slow path a few pieces have to come, or there is nothing to see.
                    while began.elapsed() < STREAMING || ends.len() < 4 && began.elapsed() < LONGEST_STREAMING {
                        read(next % pieces * u64::from(PIECE), PIECE)?;
                        ends.push(began.elapsed().as_secs_f64());
                        next += AT_ONCE as u64;
                    }
                    Ok::<Vec<f64>, String>(ends)
                })
            })
            .collect();
        let joined =
            threads.into_iter().map(|thread| thread.join().map_err(|_| "a reader thread failed".to_owned())?);
        joined.collect::<Result<Vec<Vec<f64>>, String>>()
    });
    let mut ends: Vec<f64> = ends.map_err(Problem::new)?.into_iter().flatten().collect();
    ends.sort_by(f64::total_cmp);
    let counted = ends.iter().enumerate().map(|(count, &at)| (at, (count + 1) as f64 * f64::from(PIECE)));
    record_rate(rig, via, &counted.collect::<Vec<_>>())
}

/// Writes down the rate of what arrived, by seconds and bytes so far.
fn record_rate(rig: &mut Rig<'_>, via: &str, arrived: &[(f64, f64)]) -> Result<(), Problem> {
    if let Some(rate) = steady_rate(arrived) {
        return rig.record("carried", Labels::of([("via", via)]), Unit::BytesPerSecond, vec![rate]);
    }
    rig.remark(&format!("carried.{via}"), &"too few bytes arrived to measure a rate");
    Ok(())
}

/// Bytes per second after the beginning.
fn steady_rate(arrived: &[(f64, f64)]) -> Option<f64> {
    let (first, last) = (arrived.first()?, arrived.last()?);
    let from = first.0 + (last.0 - first.0) * LEFT_OUT;
    let start = arrived.iter().find(|(at, _)| *at >= from)?;
    let span = last.0 - start.0;
    (span > 0.0 && last.1 > start.1).then(|| (last.1 - start.1) / span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_leaves_the_beginning_out() {
        // Ten times as fast in the first tenth of a second: the credit of a shaper.
        let arrived: Vec<(f64, f64)> = (1..=30)
            .map(|n| (f64::from(n) / 100.0, if n <= 3 { f64::from(n) * 10e4 } else { 30e4 + f64::from(n - 3) * 1e4 }))
            .collect();
        let rate = steady_rate(&arrived).unwrap();
        assert!((rate / 1e6 - 1.0).abs() < 1e-9, "{rate}");
        assert_eq!(steady_rate(&[]), None);
        assert_eq!(steady_rate(&[(0.1, 5.0)]), None);
        assert_eq!(steady_rate(&[(0.1, 5.0), (0.2, 5.0)]), None, "nothing came");
    }
}
