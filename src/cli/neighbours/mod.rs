//! `sysdyno neighbours`: for which share of the time a neighbour uses the cores, while the machine does its own work.

mod account;
mod frame;
mod open_metrics;
mod table;

use std::path::Path;
use std::time::{Duration, Instant};

use account::CpuAccount;
use frame::Frame;
use nix::poll::poll;

use super::arguments::NeighbourOptions;
use super::{DONE, FAILED, Failure, print_on, print_painted, say, terminal_width};
use crate::conduct::interrupt::Interrupt;
use crate::conduct::prepare::counter_usable;
use crate::machine::{self, Machine};
use crate::plan;
use crate::results::problem::Problem;
use crate::rig::clock;
use crate::rig::watch::CoreWatch;
use crate::sys::affinity;
use crate::sys::clock::Source;
use crate::sys::create::{self, Access};

/// Time between two looks at a core, on average: at the beginning, and the shortest. Where looks are cheap they come more often,
/// up to a hundred in a second. In a guest waking up costs several times as much as the look.
const FIRST_PAUSE: Duration = Duration::from_millis(60);
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
/// How long the rate of the counter is looked for.
const CALIBRATION: Duration = Duration::from_millis(50);
/// How long a signal to end may go unseen that comes right before a sleep.
const NAP: Duration = Duration::from_secs(2);

pub(super) fn neighbours(options: &NeighbourOptions) -> Result<u8, Failure> {
    let machine = machine::detect(Path::new("/"), Path::new("."));
    let cpus = chosen(options, &machine)?;
    let mut file = options.textfile.as_deref().map(TextFile::at).transpose()?;
    let interrupt = Interrupt::watch()?;
    let mut watch = start(&cpus, FIRST_PAUSE).map_err(Failure::while_working)?;
    let mut account = CpuAccount::begin(&cpus);
    let (interval, began) = (Duration::from_secs_f64(options.interval), Instant::now());
    let end = options.time.map(|seconds| began + Duration::from_secs_f64(seconds));
    let mut next = began + interval;
    let mut frame = Frame::of(&account);
    let head = if frame.is_some() { Frame::head(options.interval) } else { table::head(&account) };
    let mut read = print_on(&head)?;
    while read {
        wait(end.map_or(next, |end| end.min(next)), &interrupt);
        account.add(&watch.take());
        read = match &mut frame {
            Some(frame) => print_painted(&frame.next(&account))?,
            None => print_on(&table::lines(&account))?,
        };
        if let Some(file) = &mut file {
            file.write(&open_metrics::text(&account));
        }
        if interrupt.caught().is_some() || end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        watch.stretch(account.correction(), SHORTEST_PAUSE);
        // Where this process was stopped, the intervals in between are one.
        while next <= Instant::now() {
            next += interval;
        }
    }
    drop(watch);
    if read {
        print_on(&table::summary(&account, &machine, terminal_width()))?;
    }
    Ok(if file.is_some_and(|file| file.failed) { FAILED } else { DONE })
}

/// The CPUs that were named, or all that are allowed.
fn chosen(options: &NeighbourOptions, machine: &Machine) -> Result<Vec<u32>, Problem> {
    let allowed = affinity::allowed();
    match &options.cpu {
        Some(list) => list.iter().map(|cpu| plan::choose_cpu(Some(cpu), &allowed, machine)).collect(),
        None => plan::choose_cpu(None, &allowed, machine).map(|_| allowed),
    }
}

/// Looks at CPUs by the processor's counter, whose rate is found first.
pub(super) fn start(cpus: &[u32], pause: Duration) -> Result<CoreWatch, Problem> {
    let first = cpus.first().ok_or_else(|| Problem::new("no CPU can be watched"))?;
    counter_usable(*first).map_err(|problem| {
        Problem::new(problem.what)
            .hint("a look at a core lasts microseconds and needs the counter, which the host can enable")
    })?;
    CoreWatch::start(cpus, clock::calibrate(Source::Counter, CALIBRATION)?.hertz, pause)
}

/// Sleeps until a time, or until a signal to end.
fn wait(until: Instant, interrupt: &Interrupt) {
    while interrupt.caught().is_none() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        // A signal ends a poll, unlike a sleep of the standard library. Rounded up: the time must be over afterwards.
        let milliseconds = left.min(NAP).as_millis() as u16 + 1;
        let _ = poll(&mut [], milliseconds);
    }
}

/// The file for the collector. Each version is whole: it is written next to the place and takes the name then.
struct TextFile<'a> {
    place: &'a Path,
    /// Whether the last version could not be written.
    failed: bool,
}

impl<'a> TextFile<'a> {
    /// Looks at the place before anything is watched, and leaves a version without values there. What has the name and is not a
    /// file is not replaced: it would be a device, or a link that another program needs.
    fn at(place: &'a Path) -> Result<Self, Problem> {
        let refused = |why: String| {
            Problem::new(format!("cannot write {}: {why}", place.display()))
                .hint("choose another file with --textfile FILE, in a directory that you may write to")
        };
        if place.symlink_metadata().is_ok_and(|found| !found.is_file()) {
            return Err(refused("the name is in use and is not a regular file".to_owned()));
        }
        create::whole(place, Access::Shared, open_metrics::END).map_err(|error| refused(error.to_string()))?;
        Ok(TextFile { place, failed: false })
    }

    /// A disk that is full for a while does not end the watch.
    fn write(&mut self, text: &str) {
        let outcome = create::whole(self.place, Access::Shared, text);
        if let (Err(error), false) = (&outcome, self.failed) {
            say(format_args!("warning: cannot write {}: {error}", self.place.display()));
        }
        self.failed = outcome.is_err();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_textfile_replaces_a_file_and_nothing_else() {
        let keep = tempfile::tempdir().unwrap();
        let (file, link) = (keep.path().join("file.prom"), keep.path().join("link.prom"));
        std::fs::write(&file, "before").unwrap();
        let mut target = TextFile::at(&file).ok().unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "# EOF\n");
        target.write("one\n");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\n");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for place in [&link, keep.path(), Path::new("/dev/null"), Path::new("/no/such/directory/x.prom")] {
            let problem = TextFile::at(place).err().unwrap();
            assert!(problem.hint.is_some(), "{problem}");
        }
        assert_eq!(std::fs::read_dir(keep.path()).unwrap().count(), 2, "nothing is left beside");
    }

    #[test]
    fn a_directory_that_goes_away_is_a_failure_until_it_is_back() {
        let keep = tempfile::tempdir().unwrap();
        let directory = keep.path().join("collector");
        std::fs::create_dir(&directory).unwrap();
        let place = directory.join("x.prom");
        let mut target = TextFile::at(&place).ok().unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        target.write("one\n");
        assert!(target.failed);
        std::fs::create_dir(&directory).unwrap();
        target.write("two\n");
        assert!(!target.failed && place.is_file());
    }
}
