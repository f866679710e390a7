//! The timed code: single writes of each kind, a pass over a file, and what proves them.

use super::{BYTES, HOWS, How, Sync, TIME, rate_labels};
use crate::experiments::file::BLOCK;
use crate::experiments::file::stamped_file::{STAMP, Stamped};
use crate::experiments::prelude::*;
use crate::rig::shots::{Answer, Interleaved, Shot};
use crate::sys::create::{self, Access};
use crate::sys::file::{self, Buffer, Writing};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

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

pub(super) fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
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
    // The writes that wait must not also wait for what these left in the cache.
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
    let request = REQUEST.min(stamped.bytes() as usize);
    let mut buffer = Buffer::new(request);
    let reader = stamped.buffered().map_err(wrong)?;
    for at in (0..stamped.bytes()).step_by(request) {
        reader.read_exact_at(buffer.get(), at).map_err(wrong)?;
        stamped.check(buffer.get(), at).map_err(wrong)?;
    }
    Ok(())
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
