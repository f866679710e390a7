//! Full mode: new data is read, one pass, until the cache of the machine grows no more.

use super::growth::{Growth, StopReason};
use super::vitals::Vitals;
use super::{BYTES, full};
use crate::experiments::file::stamped_file::Stamped;
use crate::experiments::prelude::*;
use crate::machine;
use crate::results::wording::duration;
use crate::setup::FillWith;
use crate::sys::create::{self, Access};
use crate::sys::fault;
use crate::sys::file::{self, Advice, Buffer};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// What names of its files begin with.
const FILES: &str = "fill-";

/// Bytes of a request.
const REQUEST: u64 = 1 << 20;

/// A step is a 128th of what the cache may have, and where that is little a 32nd, up to 64 MiB.
const STEPS: u64 = 128;

const FEW_STEPS: u64 = 32;

const STEP: u64 = 64 << 20;

/// Files that are written take this many times what the cache may have. Holes take nothing: one file follows another.
const TIMES: f64 = 1.5;

/// Percentage of the time that some process may wait for memory.
const PRESSURE: f64 = 10.0;

/// What must stay available: a share of the memory and a number of bytes.
const AVAILABLE_SHARE: f64 = 0.05;

const AVAILABLE: u64 = 256 << 20;

/// Fills it. `began` is when this launch began to measure. From then on it may take `seconds` seconds.
pub(super) fn measure(rig: &mut Rig<'_>, with: FillWith, began: Instant, seconds: f64) -> Result<(), Problem> {
    let memory = Vitals::read();
    let (Some(total), Some(available)) = (memory.total, memory.available) else {
        rig.unavailable(BYTES, &full(), &"/proc/meminfo does not report the size of memory");
        return Ok(());
    };
    let may_have = machine::memory_room_bytes().unwrap_or(u64::MAX).min(available).max(REQUEST);
    let step = (may_have / STEPS).max(STEP.min(may_have / FEW_STEPS)).next_multiple_of(REQUEST);
    let target = ((may_have as f64 * TIMES) as u64).next_multiple_of(step);
    let space = rig.space()?;
    let left = space.left_to(FILES);
    if with == FillWith::Files && target > left {
        let size = |bytes: u64| quantity(bytes as f64, Unit::Bytes);
        let reason = format!(
            "the pass needs files of {} together, and {} of the allowed space are left ({}, or --full-cache=holes)",
            size(target),
            size(left),
            rig.setup().file_bound()
        );
        rig.unavailable(BYTES, &full(), &reason);
        return Ok(());
    }
    let limits = FillLimits { total, began, seconds, swapped: memory.swapped };
    let growth = Growth::new(step, may_have);
    let mut filling = Filling { with, step, target, sources: Vec::new(), at: 0, read: 0, points: Vec::new(), growth };
    let filling_began = Instant::now();
    let outcome = filling.fill(rig, &limits);
    let taken = filling_began.elapsed().as_secs_f64();
    for source in filling.sources.drain(..) {
        // The room is given back at once, on the device and in memory.
        let _ = fault::forget_cached(&source.file);
        let _ = std::fs::remove_file(&source.path);
    }
    match outcome {
        Ok(end) => filling.record(rig, &end, taken),
        Err(reason) => {
            rig.unavailable(BYTES, &full(), &reason);
            Ok(())
        }
    }
}

/// A file that data is read from.
struct SourceFile {
    file: File,
    path: std::path::PathBuf,
    bytes: u64,
}

/// What must hold while the cache is filled.
struct FillLimits {
    total: u64,
    /// When the launch began to measure, and for how many seconds from then on it may.
    began: Instant,
    seconds: f64,
    swapped: Option<u64>,
}

impl FillLimits {
    fn time_is_up(&self) -> bool {
        self.began.elapsed().as_secs_f64() >= self.seconds
    }
}

struct Filling {
    with: FillWith,
    step: u64,
    /// Bytes of all files that are written, or of one file of holes.
    target: u64,
    sources: Vec<SourceFile>,
    /// Where in the last of them the next step begins.
    at: u64,
    read: u64,
    /// Bytes read and bytes resident.
    points: Vec<(f64, f64)>,
    growth: Growth,
}

impl Filling {
    /// Reads step after step; says why it ended.
    fn fill(&mut self, rig: &mut Rig<'_>, limits: &FillLimits) -> Result<StopReason, String> {
        let mut buffer = Buffer::new(REQUEST as usize);
        let began = Instant::now();
        while self.with == FillWith::Holes || self.read < self.target {
            let step_began = began.elapsed();
            self.provide(rig)?;
            let source = self.sources.last().ok_or("no file is open")?;
            let first = self.at;
            for at in (first..first + self.step).step_by(REQUEST as usize) {
                source.file.read_exact_at(buffer.get(), at).map_err(|error| error.to_string())?;
                self.at = at + REQUEST;
                if limits.time_is_up() {
                    break;
                }
            }
            self.read += self.at - first;
            let (read, resident) = (self.read as f64, self.resident()?);
            self.points.push((read, resident));
            let vitals = Vitals::read();
            self.growth.advance(step_began, read, resident, vitals.unused.map(|bytes| bytes as f64));
            if let Some(end) = self.ended(&vitals, began.elapsed(), limits) {
                return Ok(end);
            }
        }
        Ok(StopReason { why: "all planned data had been read".to_owned(), full: self.growth.is_used_up() })
    }

    /// Makes what the next step reads.
    fn provide(&mut self, rig: &mut Rig<'_>) -> Result<(), String> {
        if self.sources.last().is_some_and(|source| self.at + self.step <= source.bytes) {
            return Ok(());
        }
        let words = |error: std::io::Error| error.to_string();
        let space = rig.space().map_err(|problem| problem.what)?;
        let path = space.directory.join(format!("{FILES}{}", self.sources.len()));
        let (file, bytes) = match self.with {
            FillWith::Holes => {
                let file = create::file(&path, Access::Private).map_err(words)?;
                file.set_len(self.target).map_err(words)?;
                (file, self.target)
            }
            FillWith::Files => {
                let stamped = Stamped::write(&path, self.step, space.seed()).map_err(|problem| problem.what)?;
                stamped.sound().map_err(|problem| problem.what)?;
                stamped.evict()?;
                (stamped.buffered()?, self.step)
            }
        };
        file::advise(&file, Advice::Random).map_err(words)?;
        self.sources.push(SourceFile { file, path, bytes });
        self.at = 0;
        Ok(())
    }

    fn resident(&self) -> Result<f64, String> {
        let mut pages = 0;
        for source in &self.sources {
            pages += fault::cached_pages(&source.file, source.bytes as usize).map_err(|error| error.to_string())?;
        }
        Ok((pages * page_size() as u64) as f64)
    }

    /// Whether a rule says stop: the cache is full, or going on would do harm, or may not be.
    fn ended(&self, now: &Vitals, elapsed: Duration, limits: &FillLimits) -> Option<StopReason> {
        let least = ((limits.total as f64 * AVAILABLE_SHARE) as u64).max(AVAILABLE);
        let stopped = |why: String| Some(StopReason { why, full: self.growth.is_used_up() });
        if let Some(end) = self.growth.ended(elapsed) {
            Some(end)
        } else if now.swapped.zip(limits.swapped).is_some_and(|(now, before)| now > before) {
            stopped("the machine had begun to swap".to_owned())
        } else if now.pressure.is_some_and(|share| share > PRESSURE) {
            stopped(format!("processes waited for memory more than {PRESSURE} % of the time"))
        } else if now.available.is_some_and(|available| available < least) {
            stopped(format!("less than {} were available", quantity(least as f64, Unit::Bytes)))
        } else if limits.time_is_up() {
            // What is unused at that moment decides nothing: it may still have grown.
            let why = format!("the time limit of {} was reached (see --time)", duration(limits.seconds));
            Some(StopReason { why, full: false })
        } else {
            None
        }
    }

    fn record(self, rig: &mut Rig<'_>, end: &StopReason, seconds: f64) -> Result<(), Problem> {
        let word = match self.with {
            FillWith::Holes => "holes of a sparse file (zeros that no device provides: capacity only)",
            FillWith::Files => "files written for this pass",
        };
        rig.remark("full.with", &word);
        rig.remark("full.ended", &end.why);
        rig.remark("full.bound", &if end.full { "size" } else { "at least" });
        let still = self.growth.still.max(1) as usize;
        let plateau = self.points.iter().rev().take(still).map(|(_, resident)| *resident).fold(f64::INFINITY, f64::min);
        let (read, resident) = self.points.into_iter().unzip();
        rig.record("step", full(), Unit::Bytes, vec![self.step as f64])?;
        rig.record("plateau", full(), Unit::Bytes, vec![plateau])?;
        rig.record("taken_early", full(), Unit::Bytes, vec![self.growth.taken_early])?;
        rig.record("filling", full(), Unit::Nanoseconds, vec![seconds * 1e9])?;
        rig.record("read", full(), Unit::Bytes, read)?;
        rig.record("resident", full(), Unit::Bytes, resident)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_that_protects_the_machine_stops_the_filling() {
        let began = Instant::now();
        let limits = |total: u64, seconds: f64, swapped: Option<u64>| FillLimits { total, began, seconds, swapped };
        let filling = Filling {
            with: FillWith::Holes,
            step: 100,
            target: 1000,
            sources: Vec::new(),
            at: 0,
            read: 0,
            points: Vec::new(),
            growth: Growth::new(100, 1000),
        };
        let end = |now: &Vitals, limits: &FillLimits| filling.ended(now, Duration::ZERO, limits);
        let with = |available: u64, swapped: u64, pressure: f64| Vitals {
            available: Some(available),
            swapped: Some(swapped),
            pressure: Some(pressure),
            ..Vitals::read()
        };
        let calm = limits(1 << 30, 1e6, Some(7));
        assert_eq!(end(&with(1 << 30, 7, 0.0), &calm), None);
        assert!(end(&with(1 << 30, 8, 0.0), &calm).unwrap().why.contains("swap"));
        assert!(end(&with(1 << 30, 7, 50.0), &calm).unwrap().why.contains("waited for memory"));
        assert!(end(&with(AVAILABLE / 2, 7, 0.0), &calm).unwrap().why.contains("were available"));
        let late = end(&with(1 << 30, 7, 0.0), &limits(1 << 30, 0.0, Some(7))).unwrap();
        assert!(!late.full && late.why.contains("--time"), "{late:?}");
    }
}
