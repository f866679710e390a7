//! Full mode: new data is read, one pass, until the cache of the machine grows no more.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::full;
use crate::machine;
use crate::results::quantity::Unit;
use crate::results::trouble::Trouble;
use crate::results::wording::quantity;
use crate::rig::Rig;
use crate::rig::files::Stamped;
use crate::rig::order::FullCache;
use crate::sys::fault;
use crate::sys::file::{self, Advice, Buffer};
use crate::sys::memory::page_size;

/// What names of its files begin with.
const FILES: &str = "fill-";
/// Bytes of a request.
const REQUEST: u64 = 1 << 20;
/// A step is a 128th of what the cache may have, and where that is little a 32nd, up to 64 MiB.
const STEPS: u64 = 128;
const FEW_STEPS: u64 = 32;
const STEP: u64 = 64 << 20;
/// Data is read up to so many times of what the cache may have.
const TIMES: f64 = 1.5;
/// Growth of what is resident, as a share of what was read, below which a step counts as none; and so many of them in a row.
const GROWTH: f64 = 0.1;
const STANDSTILL: u32 = 3;
/// Steps that may be evicted.
const EVICTED_STEPS: f64 = 2.0;
/// Share of the time that somebody may wait for memory.
const PRESSURE: f64 = 10.0;
/// What must stay available: a share of the memory and a number of bytes.
const AVAILABLE_SHARE: f64 = 0.05;
const AVAILABLE: u64 = 256 << 20;
/// Longest filling.
const LONGEST: Duration = Duration::from_mins(10);

pub(super) fn measure(rig: &mut Rig<'_>, with: FullCache) -> Result<(), Trouble> {
    let memory = Vitals::read();
    let (Some(total), Some(available)) = (memory.total, memory.available) else {
        rig.remark("cannot.full", &"/proc/meminfo does not tell how much memory there is");
        return Ok(());
    };
    let may_have = machine::memory_room_bytes().unwrap_or(u64::MAX).min(available).max(REQUEST);
    let step = (may_have / STEPS).max(STEP.min(may_have / FEW_STEPS)).next_multiple_of(REQUEST);
    let target = ((may_have as f64 * TIMES) as u64).next_multiple_of(step);
    let space = rig.space()?;
    let left = space.left_to(FILES);
    if with == FullCache::Files && target > left {
        let size = |bytes: u64| quantity(bytes as f64, Unit::Bytes);
        let reason = format!(
            "files of {} together would be needed, and {} are left of what is allowed (--scratch-limit BYTES, or --full-cache=holes)",
            size(target),
            size(left)
        );
        rig.remark("cannot.full", &reason);
        return Ok(());
    }
    let mut filling = Filling { sources: Vec::new(), read: 0, points: Vec::new(), still: 0 };
    let outcome =
        filling.fill(rig, with, step, target, &Limits { total, began: Instant::now(), swapped: memory.swapped });
    for source in filling.sources.drain(..) {
        // The room is given back at once, on the device and in memory.
        let _ = fault::forget_cached(&source.file);
        let _ = std::fs::remove_file(&source.path);
    }
    let (ended, cliff) = match outcome {
        Ok(ended) => ended,
        Err(reason) => {
            rig.remark("cannot.full", &reason);
            return Ok(());
        }
    };
    let word = match with {
        FullCache::Holes => "holes of a sparse file (zeros that no device was asked for: capacity only)",
        FullCache::Files => "files written for it",
    };
    rig.remark("full.with", &word);
    rig.remark("full.ended", &ended);
    rig.remark("full.cliff", &if cliff { "yes" } else { "no" });
    let (read, resident) = filling.points.into_iter().unzip();
    rig.record("step", full(), Unit::Bytes, vec![step as f64])?;
    rig.record("read", full(), Unit::Bytes, read)?;
    rig.record("resident", full(), Unit::Bytes, resident)
}

/// A file that data is read from.
struct Source {
    file: File,
    path: std::path::PathBuf,
    bytes: u64,
}

/// What must hold while the cache is filled.
struct Limits {
    total: u64,
    began: Instant,
    swapped: Option<u64>,
}

struct Filling {
    sources: Vec<Source>,
    read: u64,
    /// Bytes read and bytes resident.
    points: Vec<(f64, f64)>,
    /// Steps in a row without growth.
    still: u32,
}

impl Filling {
    /// Reads step after step; says why it ended, and whether something of it was evicted.
    fn fill(
        &mut self,
        rig: &mut Rig<'_>,
        with: FullCache,
        step: u64,
        target: u64,
        limits: &Limits,
    ) -> Result<(String, bool), String> {
        let mut buffer = Buffer::new(REQUEST as usize);
        while self.read < target {
            self.provide(rig, with, step, target)?;
            let (source, before) = match with {
                FullCache::Holes => (self.sources.first(), self.read),
                FullCache::Files => (self.sources.last(), 0),
            };
            let source = source.ok_or("there is nothing to read")?;
            for at in (before..before + step).step_by(REQUEST as usize) {
                source.file.read_exact_at(buffer.get(), at).map_err(|error| error.to_string())?;
            }
            self.read += step;
            let was = self.points.last().map_or(0.0, |point| point.1);
            let resident = self.resident()?;
            self.points.push((self.read as f64, resident));
            self.still = if resident - was < GROWTH * step as f64 { self.still + 1 } else { 0 };
            let evicted = self.read as f64 - resident;
            if let Some(ended) = self.ended(evicted, step, limits) {
                return Ok((ended, evicted > 0.0));
            }
        }
        let evicted = self.read as f64 > self.points.last().map_or(0.0, |point| point.1);
        Ok(("all the data that was planned had been read".to_owned(), evicted))
    }

    /// Makes what the next step reads.
    fn provide(&mut self, rig: &mut Rig<'_>, with: FullCache, step: u64, target: u64) -> Result<(), String> {
        let words = |error: std::io::Error| error.to_string();
        let space = rig.space().map_err(|trouble| trouble.what)?;
        let path = space.directory.join(format!("{FILES}{}", self.sources.len()));
        let (file, bytes) = match with {
            FullCache::Holes if !self.sources.is_empty() => return Ok(()),
            FullCache::Holes => {
                let file = File::options().read(true).write(true).create_new(true).open(&path).map_err(words)?;
                file.set_len(target).map_err(words)?;
                (file, target)
            }
            FullCache::Files => {
                let stamped = Stamped::write(&path, step, space.seed()).map_err(|trouble| trouble.what)?;
                stamped.sound()?;
                stamped.evict()?;
                (stamped.buffered()?, step)
            }
        };
        file::advise(&file, Advice::Random).map_err(words)?;
        self.sources.push(Source { file, path, bytes });
        Ok(())
    }

    fn resident(&self) -> Result<f64, String> {
        let mut pages = 0;
        for source in &self.sources {
            pages += fault::cached_pages(&source.file, source.bytes as usize).map_err(|error| error.to_string())?;
        }
        Ok((pages * page_size() as u64) as f64)
    }

    /// Whether a rule says stop.
    fn ended(&self, evicted: f64, step: u64, limits: &Limits) -> Option<String> {
        let now = Vitals::read();
        let least = ((limits.total as f64 * AVAILABLE_SHARE) as u64).max(AVAILABLE);
        if evicted > EVICTED_STEPS * step as f64 {
            Some(format!("{} of it had been evicted", quantity(evicted, Unit::Bytes)))
        } else if self.still >= STANDSTILL {
            Some(format!("it did not grow in {STANDSTILL} steps"))
        } else if now.swapped.zip(limits.swapped).is_some_and(|(now, before)| now > before) {
            Some("the machine had begun to swap".to_owned())
        } else if now.pressure.is_some_and(|share| share > PRESSURE) {
            Some(format!("somebody waited for memory more than {PRESSURE} % of the time"))
        } else if now.available.is_some_and(|available| available < least) {
            Some(format!("less than {} were available", quantity(least as f64, Unit::Bytes)))
        } else if limits.began.elapsed() > LONGEST {
            Some("the time was up".to_owned())
        } else {
            None
        }
    }
}

/// What the kernel says of the memory at a moment.
struct Vitals {
    total: Option<u64>,
    available: Option<u64>,
    /// Pages written to swap since boot.
    swapped: Option<u64>,
    /// Percent of the last ten seconds in which some task waited for memory.
    pressure: Option<f64>,
}

impl Vitals {
    fn read() -> Self {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let meminfo = text("/proc/meminfo");
        let kibibytes = |key: &str| -> Option<u64> {
            let rest = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            Some(rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
        };
        Vitals {
            total: kibibytes("MemTotal"),
            available: kibibytes("MemAvailable"),
            swapped: text("/proc/vmstat").lines().find_map(|line| line.strip_prefix("pswpout ")?.parse().ok()),
            pressure: average(&text("/proc/pressure/memory")),
        }
    }
}

/// The ten-second average of the line `some` of a pressure file, in percent.
fn average(pressure: &str) -> Option<f64> {
    let line = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("avg10=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_read_from_the_line_of_some() {
        let text = "some avg10=12.50 avg60=1.00 avg300=0.10 total=99\nfull avg10=3.00 avg60=0.00 avg300=0.00 total=1\n";
        assert_eq!(average(text), Some(12.5));
        assert_eq!(average("full avg10=3.00"), None);
    }

    #[test]
    fn every_rule_stops_the_filling() {
        let began = Instant::now();
        let none = Vitals::read();
        let calm = Limits { total: 0, began, swapped: none.swapped };
        let mut filling = Filling { sources: Vec::new(), read: 0, points: Vec::new(), still: 0 };
        assert!(filling.ended(201.0, 100, &calm).unwrap().contains("evicted"));
        // A machine of which nothing could be available.
        let starved = Limits { total: u64::MAX, began, swapped: none.swapped };
        assert!(filling.ended(0.0, 100, &starved).unwrap().contains("were available"));
        let swapping = Limits { total: 0, began, swapped: none.swapped.and_then(|pages| pages.checked_sub(1)) };
        if swapping.swapped.is_some() {
            assert!(filling.ended(0.0, 100, &swapping).unwrap().contains("swap"));
        }
        filling.still = STANDSTILL;
        assert!(filling.ended(0.0, 100, &calm).unwrap().contains("did not grow"));
    }
}
