//! Node files from a directory. They can come from anywhere: a file that is not a run is left aside with the reason and stops
//! nothing, no symbolic link is followed, and no content leads to another file.

use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::reading::{Names, NodeRun, Reading};
use crate::machine::engine::is_node_name;
use crate::results::compact::bytes_of;
use crate::results::fleet::LeftAside;
use crate::results::problem::Problem;

/// Directory with one directory for each node.
const NODES: &str = "nodes";
/// The file of a run.
const FILE: &str = "node.json";
/// Most threads that read.
const MOST_THREADS: usize = 16;

/// What was read.
#[derive(Debug, Default)]
pub struct ReadFleet {
    /// Runs in the order of node, start and place.
    pub readings: Vec<Reading>,
    /// Names of directories of nodes without a run.
    pub empty: Vec<String>,
    pub left_aside: Vec<LeftAside>,
}

/// A file that can be a run.
struct Candidate {
    place: PathBuf,
    /// Name of the node by the directory.
    node: Option<String>,
    /// True in the directory of a node, where the file must name the same one.
    is_filed: bool,
}

/// Reads all runs in directories. A run that is there twice counts once.
pub fn read(directories: &[PathBuf]) -> Result<ReadFleet, Problem> {
    let mut found = ReadFleet::default();
    let (mut candidates, mut nodes) = (Vec::new(), BTreeSet::new());
    for directory in directories {
        look(directory, &mut candidates, &mut nodes, &mut found.left_aside)?;
    }
    for (candidate, read) in candidates.iter().zip(in_parallel(&candidates)) {
        match read {
            Ok(reading) => found.readings.push(reading),
            Err(reason) => found.left_aside.push(aside(&candidate.place, reason)),
        }
    }
    found.readings.sort_by(|one, other| {
        (&one.node, &one.started, &one.id, &one.place).cmp(&(&other.node, &other.started, &other.id, &other.place))
    });
    found
        .readings
        .dedup_by(|one, other| (&one.node, &one.started, &one.id) == (&other.node, &other.started, &other.id));
    nodes.extend(found.readings.iter().map(|reading| reading.node.clone()));
    found.one_machine_each();
    let named: BTreeSet<&String> = found.readings.iter().map(|reading| &reading.node).collect();
    found.empty = nodes.into_iter().filter(|node| !named.contains(node)).collect();
    found.left_aside.sort_by(|one, other| one.place.cmp(&other.place));
    Ok(found)
}

fn aside(place: &Path, reason: impl Into<String>) -> LeftAside {
    LeftAside { place: place.display().to_string(), reason: reason.into() }
}

/// The candidates of a directory: of `nodes/NODE/TIME/node.json`, or files that end in `.json` and directories with a
/// `node.json`.
fn look(
    directory: &Path,
    candidates: &mut Vec<Candidate>,
    nodes: &mut BTreeSet<String>,
    left_aside: &mut Vec<LeftAside>,
) -> Result<(), Problem> {
    let inside = directory.join(NODES);
    if !inside.is_dir() {
        for entry in entries(directory)? {
            candidate(&entry, None, candidates);
        }
        return Ok(());
    }
    for entry in entries(&inside)? {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_directory || !is_node_name(&name) {
            left_aside.push(aside(&entry.path(), "it is not a directory with the name of a node"));
            continue;
        }
        match entries(&entry.path()) {
            Ok(runs) => runs.iter().for_each(|run| candidate(run, Some(&name), candidates)),
            Err(problem) => left_aside.push(aside(&entry.path(), problem.what)),
        }
        nodes.insert(name);
    }
    Ok(())
}

fn entries(directory: &Path) -> Result<Vec<DirEntry>, Problem> {
    let cannot = |error: std::io::Error| {
        Problem::new(format!("cannot read {}: {error}", directory.display()))
            .hint("name a directory with nodes/NODE/TIME/node.json, or with one node.json file for each node")
    };
    let mut entries = directory.read_dir().map_err(cannot)?.collect::<Result<Vec<_>, _>>().map_err(cannot)?;
    entries.sort_by_key(DirEntry::file_name);
    Ok(entries)
}

fn candidate(entry: &DirEntry, node: Option<&str>, candidates: &mut Vec<Candidate>) {
    let (path, kind) = (entry.path(), entry.file_type());
    let is_directory = kind.as_ref().is_ok_and(std::fs::FileType::is_dir);
    let place = if is_directory { path.join(FILE) } else { path.clone() };
    let wanted = if is_directory {
        // An empty directory of a run is a run that has not ended.
        place.symlink_metadata().is_ok()
    } else {
        path.extension().is_some_and(|extension| extension == "json")
    };
    let stem = || {
        let named = if is_directory { path.file_name() } else { path.file_stem() };
        Some(named?.to_str()?.to_owned()).filter(|name| name != "node")
    };
    if wanted {
        candidates.push(Candidate { node: node.map(str::to_owned).or_else(stem), is_filed: node.is_some(), place });
    }
}

/// Reads every candidate, in the order given.
fn in_parallel(candidates: &[Candidate]) -> Vec<Result<Reading, String>> {
    let (next, names) = (AtomicUsize::new(0), Names::default());
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
    let work = || {
        let mut done = Vec::new();
        while let Some((place, candidate)) = {
            let place = next.fetch_add(1, Ordering::Relaxed);
            candidates.get(place).map(|candidate| (place, candidate))
        } {
            done.push((place, one(candidate, &names)));
        }
        done
    };
    let mut all: Vec<(usize, Result<Reading, String>)> = thread::scope(|scope| {
        let readers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for reader in readers {
            all.extend(reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, read)| read).collect()
}

fn one(candidate: &Candidate, names: &Names) -> Result<Reading, String> {
    let bytes = bytes_of(&candidate.place)?;
    let run = NodeRun::of(&bytes, candidate.node.as_deref(), &candidate.place.display().to_string())?;
    if let Some(directory) = candidate.node.as_ref().filter(|node| candidate.is_filed && **node != run.node) {
        return Err(format!("it is a run of {} in the directory of {directory}", run.node));
    }
    Ok(Reading::of(&run, names))
}

impl ReadFleet {
    /// Leaves aside what would count as runs of one node and is not.
    fn one_machine_each(&mut self) {
        let of_nodes = self.readings.chunk_by(|one, other| one.node == other.node);
        let mut reasons =
            of_nodes.flat_map(|runs| runs.iter().map(|run| another_machine(run, runs))).collect::<Vec<_>>();
        let mut reasons = reasons.drain(..);
        self.readings.retain(|run| {
            let reason = reasons.next().flatten();
            self.left_aside.extend(reason.clone().map(|reason| aside(Path::new(&run.place), reason)));
            reason.is_none()
        });
    }
}

/// Why a run does not count among the runs of its node: two machines have the name, or the node has other hardware since. A node
/// is known by its name, as engines know it, and is judged by what it is now.
fn another_machine(run: &Reading, runs: &[Reading]) -> Option<String> {
    let known = |found: &&Reading| found.machine.is_some();
    let first = runs.iter().find(known)?;
    if let Some(second) = runs.iter().filter(known).find(|found| found.machine != first.machine) {
        let other = if run.machine == first.machine { second } else { first };
        return Some(format!(
            "two machines have the name {}, the other one in {}. Give the nodes different names",
            run.node, other.place
        ));
    }
    let (was, is) = (&run.fingerprint, &runs.last()?.fingerprint);
    let has_changed = || {
        format!(
            "{} has other hardware now, or shows other facts of it: its model was {was}, and is {is} since",
            run.node
        )
    };
    (was != is).then(has_changed)
}
