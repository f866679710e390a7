//! Bounded mode: one pass over a file in a control group of known size.

use super::{BYTES, LIMITS, UNCONFIRMED, bounded, filling, wanted};
use crate::experiments::file::BLOCK;
use crate::experiments::file::control_group::Group;
use crate::experiments::file::stamped_file::Stamped;
use crate::experiments::prelude::*;
use crate::machine;
use crate::setup::Profile;
use crate::sys::fault;
use crate::sys::file::{self, Advice, Buffer};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// Bytes of the file that a limit needs.
pub(super) fn file_bytes(limit: u64) -> u64 {
    limit + limit / 2
}

pub(super) fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let began = Instant::now();
    measure_bounded(rig)?;
    // Ordered for one launch of a run only: it takes the time it takes, and others pay for it.
    let filling = rig.setup().full_cache.zip(rig.fill_seconds());
    filling.map_or(Ok(()), |(with, seconds)| filling::measure(rig, with, began, seconds))
}

/// The file for all limits.
const FILE: &str = "cache";

/// Requests in a limit; from half of it on, each is followed by a look at what is resident.
const LOOKS: u64 = 64;

/// Random blocks that are tried after the pass.
const PROBES: usize = 256;

/// Blocks that are not cached and are read from the device: each read changes the cache.
const MISSES: usize = 64;

pub(super) fn measure_bounded(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let space = rig.space()?;
    let size = |bytes: u64| quantity(bytes as f64, Unit::Bytes);
    // Half of the space is left to others, but for the smallest file.
    let smallest = file_bytes(wanted(rig.setup().profile)[0]);
    let most = (space.bytes / 2).max(smallest).min(space.left_to(FILE));
    let mut limits = Vec::new();
    for &limit in wanted(rig.setup().profile) {
        let room = machine::memory_room_bytes().unwrap_or(u64::MAX).min(rig.memory());
        let reason = if file_bytes(limit) > most {
            Problem::new(format!(
                "the measurement needs a file of {}, and its share is {} of the {} of scratch space",
                size(file_bytes(limit)),
                size(most),
                size(space.bytes)
            ))
            .hint(format!("allow more ({}), or choose a place with --scratch DIR", rig.setup().file_bound()))
        } else if limit > room {
            let (limit, room) = (size(limit), size(room));
            Problem::new(format!("a limit of {limit} has no effect, because a launch may have only {room}"))
                .hint("free memory, or raise the memory limit of the control group")
        } else {
            limits.push(limit);
            continue;
        };
        rig.unavailable_for(BYTES, &bounded(limit), &reason);
    }
    if limits.is_empty() {
        return Ok(());
    }
    // Known before anything is written: a file for nothing would be a poor joke.
    let group = match Group::enter(rig.conductor(), limits[0]) {
        Ok(group) => group,
        Err(problem) => {
            rig.unavailable_for(BYTES, &Labels::of([("mode", "bounded")]), &problem);
            return Ok(());
        }
    };
    drop(group);
    let path = space.directory.join(FILE);
    let stamped = Stamped::obtain(&path, file_for_all(rig.setup().profile, rig.memory(), most), space.seed())?;
    if let Err(problem) = stamped.sound() {
        rig.unavailable_for(BYTES, &Labels::of([("mode", "bounded")]), &problem);
        return Ok(());
    }
    for limit in limits {
        let outcome = PassResult::take(rig, &stamped, limit);
        match outcome {
            Ok(pass) => pass.record(rig, &bounded(limit))?,
            Err(reason) => rig.unavailable(BYTES, &bounded(limit), &reason),
        }
    }
    // The cache of other groups does not keep what no process reads again.
    stamped.evict().map_err(Problem::new)
}

/// Bytes of the one file for all limits: it is written once.
fn file_for_all(profile: Profile, memory: u64, most: u64) -> u64 {
    let fits = |&&limit: &&u64| file_bytes(limit) <= most && limit <= memory;
    file_bytes(wanted(profile).iter().rev().find(fits).copied().unwrap_or(LIMITS[0]))
}

/// What one pass showed.
struct PassResult {
    read: Vec<f64>,
    resident: Vec<f64>,
    evicted: Vec<f64>,
    /// Bytes charged to the group at the end that are not file data.
    charged_else: f64,
    /// Probes that were cached, and all.
    hits: [f64; 2],
    hit: Vec<f64>,
    miss: Vec<f64>,
}

impl PassResult {
    fn take(rig: &mut Rig<'_>, stamped: &Stamped, limit: u64) -> Result<Self, String> {
        stamped.evict()?;
        let reader = stamped.buffered()?;
        file::advise(&reader, Advice::Random).map_err(|error| error.to_string())?;
        let (mut read, mut resident, mut evicted) = (Vec::new(), Vec::new(), Vec::new());
        let request = limit / LOOKS;
        let mut buffer = Buffer::new(request as usize);
        let end = file_bytes(limit);
        // What is allocated from here on is charged to the group.
        let group = Group::enter(rig.conductor(), limit).map_err(|problem| problem.what)?;
        let mut at = 0;
        while at < end {
            read_on(&reader, stamped, &mut buffer, at)?;
            at += request;
            if at >= limit / 2 {
                read.push(at as f64);
                let bytes = |pages: u64| (pages * page_size() as u64) as f64;
                // Both counts from one look: a page that is evicted between two would be in both.
                if let Ok(found) = fault::residency(stamped.file(), 0, stamped.bytes()) {
                    resident.push(bytes(found.cached));
                    evicted.push(bytes(found.evicted));
                } else {
                    resident.push(bytes(stamped.cached_pages()?));
                }
            }
        }
        let charged = group.charged()?;
        let mut pass = PassResult {
            read,
            resident,
            evicted,
            charged_else: charged.all.saturating_sub(charged.file) as f64,
            hits: [0.0; 2],
            hit: Vec::new(),
            miss: Vec::new(),
        };
        pass.probe(rig, stamped, &reader, end)?;
        Ok(pass)
    }

    /// Reads random blocks of those that are cached and of those that are not.
    fn probe(&mut self, rig: &mut Rig<'_>, stamped: &Stamped, reader: &File, end: u64) -> Result<(), String> {
        let mut buffer = Buffer::new(page_size().max(BLOCK as usize));
        let unit = buffer.get().len() as u64;
        for _ in 0..PROBES {
            let at = rig.random().u64(..end / unit) * unit;
            // An answer that would have to wait begins to fetch the block, which is therefore none for the misses.
            let (ticks, outcome) = rig.timed(|| file::read_if_cached(reader, buffer.get(), at));
            if outcome.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EOPNOTSUPP)) {
                // An overlay has no such reads. They confirm the size, which does not come from them.
                rig.remark(UNCONFIRMED, &"the file system does not restrict reads to cached data");
                return Ok(());
            }
            if outcome.map_err(|error| format!("cannot restrict a read to cached data: {error}"))?.is_some() {
                stamped.check(buffer.get(), at)?;
                self.hit.push(ticks);
            }
        }
        self.hits = [self.hit.len() as f64, PROBES as f64];
        for _ in 0..PROBES {
            let at = rig.random().u64(..end / unit) * unit;
            let is_absent = fault::residency(stamped.file(), at, unit).is_ok_and(|found| found.cached == 0);
            if is_absent && self.miss.len() < MISSES {
                let (ticks, outcome) = rig.timed(|| reader.read_at(buffer.get(), at));
                outcome.map_err(|error| error.to_string())?;
                stamped.check(buffer.get(), at)?;
                self.miss.push(ticks);
            }
        }
        Ok(())
    }

    fn record(self, rig: &mut Rig<'_>, labels: &Labels) -> Result<(), Problem> {
        rig.record("read", labels.clone(), Unit::Bytes, self.read)?;
        rig.record("resident", labels.clone(), Unit::Bytes, self.resident)?;
        rig.record("evicted", labels.clone(), Unit::Bytes, self.evicted)?;
        rig.record("charged_else", labels.clone(), Unit::Bytes, vec![self.charged_else])?;
        rig.record("hits", labels.clone(), Unit::One, self.hits.to_vec())?;
        rig.record("hit", labels.clone(), Unit::Ticks, self.hit)?;
        rig.record("miss", labels.clone(), Unit::Ticks, self.miss)
    }
}

fn read_on(reader: &File, stamped: &Stamped, buffer: &mut Buffer, at: u64) -> Result<(), String> {
    reader.read_exact_at(buffer.get(), at).map_err(|error| error.to_string())?;
    stamped.check(buffer.get(), at)
}

#[cfg(test)]
mod tests {
    use super::super::most_wanted;
    use super::*;

    #[test]
    fn one_file_serves_all_limits_that_have_room() {
        const MIB: u64 = 1 << 20;
        assert_eq!(file_for_all(Profile::Rigorous, 1 << 30, 1 << 30), 384 * MIB);
        assert_eq!(file_for_all(Profile::Rigorous, 1 << 30, 300 * MIB), 192 * MIB);
        assert_eq!(file_for_all(Profile::Default, 1 << 30, 1 << 30), 192 * MIB);
        assert_eq!(file_for_all(Profile::Default, 100 * MIB, 1 << 30), 96 * MIB);
        assert_eq!(file_for_all(Profile::Quick, 1 << 30, 1 << 30), 96 * MIB);
    }

    #[test]
    fn a_first_look_needs_one_limit() {
        assert_eq!(wanted(Profile::Quick), &LIMITS[..1]);
        assert_eq!(most_wanted(Profile::Default), 128 << 20);
        assert_eq!(most_wanted(Profile::Rigorous), 256 << 20);
        assert_eq!(file_bytes(64 << 20), 96 << 20);
    }
}
