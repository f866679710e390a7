//! Runs by the names that are typed: a run directory, a log, the compact form, a directory of runs, or a pattern.

use std::path::{Path, PathBuf};

use super::say;
use crate::assemble;
use crate::compare::PlacedRun;
use crate::conduct::directory::{self, COMPACT, RUNS};
use crate::results::compact::{Compact, bytes_of};
use crate::results::problem::Problem;
use crate::sys::talk;

/// Most runs of a side.
const MOST_RUNS: usize = 1000;

/// Every run that a name stands for, ordered by time; at least one. One of several that cannot be read is left aside with a warning.
pub(super) fn named(name: &Path) -> Result<Vec<PlacedRun>, Problem> {
    let places = places(name)?;
    if places.len() > MOST_RUNS {
        return Err(Problem::new(format!(
            "{} names {} runs, and at most {MOST_RUNS} are read",
            name.display(),
            places.len()
        ))
        .hint("name fewer, for example by a pattern in quotes"));
    }
    let (mut runs, mut refused) = (Vec::new(), None);
    for place in &places {
        match one(place) {
            Ok(run) => runs.push(run),
            Err(problem) => {
                if places.len() > 1 {
                    say(format_args!("warning: left aside: {}", problem.what));
                }
                refused.get_or_insert(problem);
            }
        }
    }
    if let Some(problem) = refused.filter(|_| runs.is_empty()) {
        return Err(problem);
    }
    runs.sort_by(|one, other| one.run.run.started.cmp(&other.run.run.started));
    Ok(runs)
}

/// The newest run below the current directory, by when its log was last written. Another run than `but`.
pub(super) fn newest(but: Option<&Path>) -> Result<PathBuf, Problem> {
    let written = |run: &PathBuf| {
        let files = directory::log_in(run).into_iter().chain([run.join(COMPACT)]);
        files.filter_map(|file| file.metadata().and_then(|file| file.modified()).ok()).max()
    };
    let same = but.and_then(|run| run.canonicalize().ok());
    let entries = Path::new(RUNS).read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let others = entries.filter(|path| is_run(path) && (same.is_none() || path.canonicalize().ok() != same));
    others.max_by_key(written).ok_or_else(|| {
        let other = if but.is_some() { "no other run" } else { "no run" };
        Problem::new(format!("no run is named, and {RUNS} in this directory has {other}"))
            .hint("name a run directory, or measure with `sysdyno run`")
    })
}

/// The run that was named, or the newest one.
pub(super) fn or_newest(named: Option<&Path>) -> Result<PathBuf, Problem> {
    if let Some(named) = named {
        return Ok(named.to_path_buf());
    }
    let run = newest(None)?;
    talk::line(format_args!("the newest run: {}", run.display()));
    Ok(run)
}

/// The runs without copies. A copy adds no measurement.
pub(super) fn each_once(runs: Vec<PlacedRun>) -> Vec<PlacedRun> {
    let mut kept: Vec<PlacedRun> = Vec::new();
    for run in runs {
        match kept.iter().find(|other| other.run.mark() == run.run.mark()) {
            Some(other) => talk::line(format_args!("{} is a copy of {}, and does not count", run.place, other.place)),
            None => kept.push(run),
        }
    }
    kept
}

/// The places of runs.
fn places(name: &Path) -> Result<Vec<PathBuf>, Problem> {
    let hint = "a run is a directory with a log, a log, or a node.json. A side is a run, a directory of runs, or a pattern in quotes";
    if name.is_dir() && !is_run(name) {
        let entries =
            name.read_dir().map_err(|error| Problem::new(format!("cannot read {}: {error}", name.display())))?;
        let mut found: Vec<PathBuf> =
            entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| holds_run(path)).collect();
        found.sort();
        if found.is_empty() {
            return Err(Problem::new(format!("no run is in {}", name.display())).hint(hint));
        }
        return Ok(found);
    }
    if name.exists() {
        return Ok(vec![name.to_path_buf()]);
    }
    let missing = || Problem::new(format!("{} does not exist", name.display())).hint(hint);
    let pattern = name.to_str().filter(|text| text.contains(['*', '?', '['])).ok_or_else(missing)?;
    let found = glob::glob(pattern)
        .map_err(|error| Problem::new(format!("'{pattern}' is not a pattern: {error}")).hint(hint))?;
    let found: Vec<PathBuf> = found.filter_map(Result::ok).filter(|path| holds_run(path)).collect();
    if found.is_empty() { Err(Problem::new(format!("no run matches '{pattern}'")).hint(hint)) } else { Ok(found) }
}

/// Whether a directory is that of a run.
fn is_run(directory: &Path) -> bool {
    directory::log_in(directory).is_some() || directory.join(COMPACT).is_file()
}

/// Whether something in a directory of runs is one.
fn holds_run(path: &Path) -> bool {
    if path.is_dir() {
        is_run(path)
    } else {
        directory::is_log_name(path) || path.extension().is_some_and(|extension| extension == "json")
    }
}

/// One run: its directory, its log, or its compact form.
pub(super) fn one(place: &Path) -> Result<PlacedRun, Problem> {
    let compact = if place.is_dir() { place.join(COMPACT) } else { place.to_path_buf() };
    let named = || (place.is_file() && directory::is_log_name(place)).then(|| place.to_path_buf());
    let log = if place.is_dir() { directory::log_in(place) } else { named() };
    let run = log.map_or_else(|| read(&compact), |log| Ok(Compact::of(&assemble::document_of(&log)?)))?;
    Ok(PlacedRun { place: place.display().to_string(), run })
}

/// The compact form in a file, which can come from anywhere.
fn read(place: &Path) -> Result<Compact, Problem> {
    let cannot = |why: String| {
        Problem::new(format!("cannot read {} as a run: {why}", place.display()))
            .hint("a run is a directory with a log, a log, or a node.json")
    };
    let bytes = bytes_of(place).map_err(cannot)?;
    Compact::parse(&bytes).map_err(cannot)
}
