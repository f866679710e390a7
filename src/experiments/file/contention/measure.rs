//! The races of a launch: a number of readers at once, each of a separate file.

use super::super::{BLOCK, Order};
use super::{FILE, MOST_FILES, TIME, labels, races};
use crate::experiments::file::parallel_readers::{self, PinnedReader, Race, Span};
use crate::experiments::file::stamped_file::Stamped;
use crate::experiments::prelude::*;
use crate::statistics::summary::{self};
use crate::sys::counters;
use std::time::Duration;

/// What names of its files begin with.
pub(super) const FILES: &str = "contention-";

/// Parts of a hundred of the run's space that these files may take.
pub(super) const SHARE: u64 = 40;

/// Reads before a window that do not count, and the window: a period each of the CPU quotas of control groups. A host that limits
/// all CPUs of a guest together, with those that serve its disk, lets a crowd read for some of each period and then stops the guest.
/// A crowd that begins after a pause first uses up what the pause has left.
pub(super) const LEAD: Duration = Duration::from_millis(100);

pub(super) const WINDOW: Duration = Duration::from_millis(100);

/// How long one process reads first, to find its pace.
const PACE: Span = Span { lead: Duration::from_millis(2), window: Duration::from_millis(18) };

/// The longest window of up to [`MOST_FILES`] processes, for devices on which a process reads too few blocks otherwise, and how many
/// those are. More processes have a longer one, because a read that does not end within its window does not count.
pub(super) const LONGEST_WINDOW: Duration = Duration::from_millis(500);

pub(super) const ENOUGH_READS: f64 = 20.0;

/// Quantiles that are kept of a window's reads.
pub(super) const QUANTILES: usize = 199;

pub(super) fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let space = rig.space()?;
    // No more than its share, and no more than the files of others leave.
    let room = ((space.bytes / 100 * SHARE).min(space.left_to(FILES)) / FILE) as usize;
    let mut plan: Vec<(Order, usize)> = races(rig.setup().profile).collect();
    for (order, processes) in plan.extract_if(.., |(_, processes)| files_of(*processes) > room) {
        let why = Problem::new(format!(
            "only {room} files of {} fit into the remaining scratch space of this run",
            quantity(FILE as f64, Unit::Bytes)
        ));
        let hint = format!("allow more ({}), or choose a place with --scratch DIR", rig.setup().file_bound());
        rig.unavailable_for(TIME, &labels(order, processes), &why.hint(hint));
    }
    if plan.is_empty() {
        return Ok(());
    }
    let mut files = Vec::new();
    let most = plan.iter().map(|&(_, processes)| processes).max().unwrap_or(0);
    for number in 0..files_of(most) {
        let path = space.directory.join(format!("{FILES}{number}"));
        let file = Stamped::obtain(&path, FILE, space.seed())?;
        file.sound()?;
        files.push(file);
    }
    let opened: Result<Vec<std::fs::File>, String> =
        (0..most).map(|index| files[index % files.len()].direct()).collect();
    let opened = match opened {
        Ok(opened) => opened,
        Err(why) => {
            let why = Problem::new(why).hint("choose another file system with --scratch DIR");
            rig.unavailable_for(TIME, &Labels::none(), &why);
            return Ok(());
        }
    };
    rig.has_partners();
    let cpus = &rig.setup().allowed;
    rig.record("cpus", Labels::none(), Unit::One, vec![cpus.len() as f64])?;
    rig.random().shuffle(&mut plan);
    // One process first: its pace says how long a window must be for the others.
    let first = race(rig, &files, &opened, cpus, (Order::Random, 1), PACE)?;
    let pace = mean_read(&first).map_or(WINDOW.as_nanos() as f64, |ticks| rig.nanoseconds(ticks));
    let mut taken = Vec::new();
    for (order, processes) in plan {
        let enough = Duration::from_nanos((pace * ENOUGH_READS * processes as f64) as u64);
        let span = Span { lead: LEAD, window: WINDOW.max(enough.min(longest_window(processes))) };
        let before = counters::steal(rig.setup().cpu);
        let race = race(rig, &files, &opened, cpus, (order, processes), span)?;
        record(rig, order, processes, &race)?;
        if let Some((before, after)) = before.zip(counters::steal(rig.setup().cpu)) {
            let found = Stolen { processes, stolen: (after - before).max(0.0), span: rig.nanoseconds(race.whole) };
            rig.record("stolen", labels(order, processes), Unit::Nanoseconds, vec![found.stolen, found.span])?;
            taken.push(found);
        }
    }
    rig.excuse_steal(of_crowds(&taken));
    Ok(())
}

/// Files that these processes read.
fn files_of(processes: usize) -> usize {
    processes.min(MOST_FILES)
}

fn longest_window(processes: usize) -> Duration {
    LONGEST_WINDOW * processes.div_ceil(MOST_FILES) as u32
}

/// Time that the hypervisor had the measured CPU while a crowd read, and the time of the crowd, in nanoseconds.
struct Stolen {
    processes: usize,
    stolen: f64,
    span: f64,
}

/// What crowds lost to the hypervisor beyond what one process lost in the same time. This is a limit of the guest, which the crowds met
/// and no other process made.
fn of_crowds(taken: &[Stolen]) -> f64 {
    let (alone, crowds): (Vec<&Stolen>, Vec<&Stolen>) = taken.iter().partition(|found| found.processes == 1);
    let sum = |among: &[&Stolen], of: fn(&Stolen) -> f64| among.iter().map(|found| of(found)).sum::<f64>();
    let usual = sum(&alone, |found| found.stolen) / sum(&alone, |found| found.span).max(1.0);
    (sum(&crowds, |found| found.stolen) - usual * sum(&crowds, |found| found.span)).max(0.0)
}

pub(super) fn mean_read(race: &Race) -> Option<f64> {
    summary::mean(&race.tracks.iter().flat_map(|track| track.ticks.iter().copied()).collect::<Vec<f64>>())
}

pub(super) fn race(
    rig: &mut Rig<'_>,
    files: &[Stamped],
    opened: &[std::fs::File],
    cpus: &[u32],
    (order, processes): (Order, usize),
    span: Span,
) -> Result<Race, Problem> {
    let own = cpus.iter().position(|&cpu| cpu == rig.setup().cpu).unwrap_or(0);
    let readers: Vec<PinnedReader<'_>> = (0..processes)
        .map(|index| {
            let file = index % files_of(processes);
            let mut places = part(index / files_of(processes), processes / files_of(processes));
            if order == Order::Random {
                rig.random().shuffle(&mut places);
            } else {
                let start = rig.random().usize(..places.len());
                places.rotate_left(start);
            }
            // The first on the CPU of the launch, the others on the next ones in turn.
            PinnedReader { stamped: &files[file], from: &opened[index], cpu: cpus[(own + index) % cpus.len()], places }
        })
        .collect();
    let (source, hertz) = (rig.source()?, rig.ticks(1e9));
    parallel_readers::race(&readers, BLOCK as usize, source, hertz, span)
}

/// Offsets of the blocks of one of `parts` equal parts of a file.
fn part(index: usize, parts: usize) -> Vec<u64> {
    let blocks = FILE / BLOCK / parts as u64;
    (blocks * index as u64..blocks * (index as u64 + 1)).map(|block| block * BLOCK).collect()
}

pub(super) fn record(rig: &mut Rig<'_>, order: Order, processes: usize, race: &Race) -> Result<(), Problem> {
    let labels = labels(order, processes);
    let times: Vec<f64> =
        race.tracks.iter().flat_map(|track| &track.ticks).map(|&ticks| rig.nanoseconds(ticks)).collect();
    let window = rig.nanoseconds(race.window);
    let counts: Vec<f64> = race.tracks.iter().map(|track| track.ticks.len() as f64).collect();
    if times.is_empty() {
        rig.unavailable(TIME, &labels, &"no read began and ended within the window, because the device is too slow");
        return Ok(());
    }
    let kept = (1..=QUANTILES).filter_map(|step| summary::quantile(&times, step as f64 / (QUANTILES + 1) as f64));
    rig.record("times", labels.clone(), Unit::Nanoseconds, kept.collect())?;
    rig.record(
        "longest",
        labels.clone(),
        Unit::Nanoseconds,
        times.iter().copied().reduce(f64::max).into_iter().collect(),
    )?;
    rig.record("reads", labels.clone(), Unit::One, counts)?;
    rig.record("window", labels.clone(), Unit::Nanoseconds, vec![window])?;
    let sum = |of: fn(&parallel_readers::Track) -> f64| race.tracks.iter().map(of).sum::<f64>();
    let span = rig.nanoseconds(race.whole);
    rig.record("cpu_time", labels.clone(), Unit::Nanoseconds, vec![sum(|track| track.cpu_time), span])?;
    rig.record("strays", labels.clone(), Unit::One, vec![sum(|track| track.strays as f64)])?;
    if race.tracks.iter().all(|track| track.read.is_some()) {
        let read = sum(|track| track.read.unwrap_or(0.0));
        rig.record("proof", labels.clone(), Unit::Bytes, vec![sum(|track| track.asked), read])?;
    }
    if let Some(queue) = race.in_flight {
        rig.record("in_flight", labels, Unit::One, vec![queue])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_of_one_file_read_every_block_of_it_once() {
        let mut all: Vec<u64> = (0..4).flat_map(|index| part(index, 4)).collect();
        assert!((0..4).all(|index| part(index, 4).len() == all.len() / 4));
        all.dedup();
        assert_eq!(all, part(0, 1));
        assert_eq!([1, 16, 32, 64].map(files_of), [1, 16, 16, 16]);
        assert_eq!(longest_window(64), 4 * longest_window(16));
    }

    #[test]
    fn what_one_process_loses_as_well_is_not_the_load_of_many() {
        let of = |processes: usize, stolen: f64| Stolen { processes, stolen, span: 200.0 };
        assert!((of_crowds(&[of(1, 0.0), of(4, 10.0), of(16, 50.0)]) - 60.0).abs() < 1e-9);
        assert!((of_crowds(&[of(1, 20.0), of(4, 10.0), of(16, 50.0)]) - 20.0).abs() < 1e-9);
        assert!(of_crowds(&[of(1, 40.0), of(16, 10.0)]) < 1e-9);
    }
}
