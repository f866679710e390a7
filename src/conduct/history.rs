//! Earlier runs of this machine: their compact forms, in the user's state directory.
//!
//! `$XDG_STATE_HOME/sysdyno/runs/MACHINE/TIME-HASH.json`, for the user alone. Nothing there is needed: what cannot be read or
//! written costs one line of warning. Another user may have prepared what stands there. So no link is followed below the state
//! directory. Only plain files of this user are read, up to a size.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::evaluate::between;
use crate::experiments::models;
use crate::machine::Identity;
use crate::plan::Plan;
use crate::report::compact;
use crate::results::between::History;
use crate::results::compact::{Compact, MOST_BYTES, kernel, peer, remote};
use crate::results::document::Document;
use crate::setup::Setup;
use crate::sys::create::{self, Access};
use crate::sys::{file, process};

/// The state directory below a home, where nothing else is said (XDG Base Directory Specification).
const STATE: &str = ".local/state";
/// Folders below the state directory; one of the machine follows, because homes are shared by many.
const FOLDERS: [&str; 2] = ["sysdyno", "runs"];
/// Runs that are kept of a machine: two years of one each half week, and 20 MB.
const MOST_RUNS: usize = 200;

/// The place for runs of this machine.
#[derive(Debug, Clone)]
pub struct Store {
    state: PathBuf,
    machine: String,
}

/// A folder that is open: whatever happens to its name, what is done in it is done there.
struct Folder(File);

/// What was read.
#[derive(Debug, Default)]
pub struct StoredRuns {
    /// Runs, the oldest first.
    pub runs: Vec<Compact>,
    /// What is there and is not such a run, in a sentence.
    pub left_aside: Option<String>,
}

impl Store {
    /// The place for runs of a machine; none where it has no identity, or this user no home.
    pub fn of(identity: &Identity) -> Option<Self> {
        Some(Store { state: state_directory()?, machine: identity.published().machine? })
    }

    /// Where it is.
    pub fn place(&self) -> PathBuf {
        FOLDERS.iter().fold(self.state.clone(), |place, name| place.join(name)).join(&self.machine)
    }

    /// Every run that is kept.
    pub fn read(&self) -> io::Result<StoredRuns> {
        let folder = match self.open(false) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(StoredRuns::default()),
            folder => folder?,
        };
        let (mut found, mut refused) = (StoredRuns::default(), Vec::new());
        for name in folder.names()?.iter().rev().take(MOST_RUNS).rev().filter(|name| !name.starts_with('.')) {
            match load(&folder.inside(name)) {
                Ok(run) => found.runs.push(run),
                Err(why) => refused.push(format!("{name}: {why}")),
            }
        }
        found.left_aside = refused.first().map(|first| format!("{} not readable as runs, {first}", refused.len()));
        Ok(found)
    }

    /// Adds a run, and removes the oldest where there are too many.
    pub fn keep(&self, document: &Document) -> Result<(), String> {
        let text = compact::render(document).map_err(|problem| problem.what)?;
        let name = name(document).ok_or("its log has no checksum or no time")?;
        if text.len() as u64 > MOST_BYTES {
            return Err(format!("it has {} bytes", text.len()));
        }
        self.add(&name, &text).map_err(|error| error.to_string())
    }

    fn add(&self, name: &str, text: &str) -> io::Result<()> {
        let folder = self.open(true)?;
        create::whole(&folder.inside(name), Access::Private, text)?;
        let names = folder.names()?;
        for old in &names[..names.len().saturating_sub(MOST_RUNS)] {
            // Another run may have removed it already. What stays is removed by the next run.
            let _ = fs::remove_file(folder.inside(old));
        }
        Ok(())
    }

    /// The folder of this machine, made where that is wanted.
    fn open(&self, make: bool) -> io::Result<Folder> {
        if make {
            create::directories(&self.state, Access::Private)?;
        }
        // The state directory itself may be a link: the user says where it is.
        let mut folder = Folder(File::open(&self.state)?);
        for name in FOLDERS.into_iter().chain([self.machine.as_str()]) {
            folder = folder.enter(name, make)?;
        }
        Ok(folder)
    }
}

impl Folder {
    /// The path of something in it.
    fn inside(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.0.as_raw_fd()))
    }

    /// A folder in it, which has to be one itself, of this user.
    fn enter(&self, name: &str, make: bool) -> io::Result<Folder> {
        let place = self.inside(name);
        if make {
            match create::directory(&place, Access::Private) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        let cannot = |why: String| io::Error::other(format!("{name}: {why}"));
        let folder = match create::open_directory(&place) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(error),
            Err(error) => return Err(cannot(error.to_string())),
            Ok(folder) => folder,
        };
        match folder.metadata()?.uid() {
            owner if owner == process::effective_user() => Ok(Folder(folder)),
            owner => Err(cannot(format!("it belongs to user {owner}"))),
        }
    }

    /// Names of runs in it, the oldest first; those that were never finished are among them, with their dots.
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names: Vec<String> = fs::read_dir(self.inside(""))?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| is_name(plain(name)))
            .collect();
        names.sort_unstable_by(|one, other| plain(one).cmp(plain(other)));
        Ok(names)
    }
}

/// The state directory of the user whose rights this process has; none without a home.
fn state_directory() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|place| place.is_absolute());
    let named = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(STATE)))?;
    if is_own(&named) {
        return Some(named);
    }
    // sudo may keep the variables of the user who called it: root's files have no place among theirs.
    let home = process::home_of_root()?;
    is_own(&home).then(|| home.join(STATE))
}

/// Whether a directory, or the nearest one above that exists, belongs to this user.
fn is_own(place: &Path) -> bool {
    let found = place.ancestors().find_map(|above| above.metadata().ok());
    found.is_some_and(|found| found.uid() == process::effective_user())
}

/// Name of a run: its start, so that names are ordered by time, and the beginning of its log's checksum.
fn name(document: &Document) -> Option<String> {
    let time: String = document.run.started.chars().filter(char::is_ascii_alphanumeric).collect();
    let name = format!("{time}-{}.json", document.run.log_sha256.as_ref()?.get(..16)?);
    is_name(&name).then_some(name)
}

fn is_name(name: &str) -> bool {
    let parts = name.strip_suffix(".json").and_then(|name| name.split_once('-'));
    parts.is_some_and(|(time, hash)| {
        let digits = time.bytes().enumerate().all(|(place, byte)| match place {
            8 => byte == b'T',
            15 => byte == b'Z',
            _ => byte.is_ascii_digit(),
        });
        time.len() == 16 && digits && hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// The name of a run, also of one that was being written when its writer was killed.
fn plain(name: &str) -> &str {
    name.strip_prefix('.').and_then(|name| name.strip_suffix(".partial")).unwrap_or(name)
}

fn load(place: &Path) -> Result<Compact, String> {
    Compact::parse(&file::read_own(place, MOST_BYTES).map_err(|error| error.to_string())?)
}

/// What earlier runs say of a run that begins: those that asked the same question of the same machine.
pub fn look_back(runs: Vec<Compact>, setup: &Setup, plan: &Plan, identity: &Identity) -> History {
    let own = identity.published().machine;
    let repeats = |run: &Compact| {
        let other_machine = run.run.peer.is_none() || run.run.peer == setup.peer.as_ref().map(peer);
        let other_files =
            run.run.remote.is_empty() || Some(&run.run.remote) == setup.remote.as_ref().map(remote).as_ref();
        run.complete
            && run.node.machine == own
            && (run.node.fingerprint == setup.machine.fingerprint
                || run.node.hidden
                || !setup.machine.hidden.is_empty())
            && run.node.kernel == kernel(&setup.machine)
            && run.run.profile == setup.profile.name()
            && run.run.cpu == setup.cpu
            && other_machine
            && other_files
    };
    let runs: Vec<Compact> = runs.into_iter().filter(repeats).collect();
    // With what the run measures for its predictions alone: all times that come from cycles move as the cycle time does.
    let measured = models::first_round(&plan.running, setup).into_iter().map(|step| step.experiment);
    let methods: BTreeMap<String, u32> =
        measured.map(|experiment| (experiment.id.to_owned(), experiment.method_version)).collect();
    between::history(&runs, &methods)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::Profile;
    use crate::{assemble, plan, results::log};

    fn store(keep: &Path) -> Store {
        Store { state: keep.join("state"), machine: "0123456789abcdef".to_owned() }
    }

    fn stored() -> Document {
        let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/complete.jsonl");
        let mut document = assemble::document(&log::read(&log).unwrap());
        document.run.log_sha256 = log::checksum(&log).ok();
        document
    }

    #[test]
    fn a_run_is_read_as_it_was_kept() {
        let keep = tempfile::tempdir().unwrap();
        let (store, mut document) = (store(keep.path()), stored());
        assert!(store.read().unwrap().runs.is_empty());
        for started in ["2026-01-02T03:04:05Z", "2025-01-02T03:04:05Z", "2026-01-02T03:04:05Z"] {
            started.clone_into(&mut document.run.started);
            store.keep(&document).unwrap();
        }
        let found = store.read().unwrap();
        let times: Vec<&str> = found.runs.iter().map(|run| run.run.started.as_str()).collect();
        assert_eq!(times, ["2025-01-02T03:04:05Z", "2026-01-02T03:04:05Z"], "the oldest first, and none twice");
        assert_eq!(found.runs[1], Compact::of(&document));
        assert_eq!(found.left_aside, None);
        "yesterday/../..".clone_into(&mut document.run.started);
        assert!(store.keep(&document).is_err(), "a name is made of nothing else than a time");
    }

    #[test]
    fn the_oldest_go_and_what_is_no_run_stays() {
        let keep = tempfile::tempdir().unwrap();
        let store = store(keep.path());
        let name = |number: usize| format!("20260101T{number:06}Z-0123456789abcdef.json");
        store.add(&name(0), "first").unwrap();
        let place = store.place();
        fs::write(place.join("notes"), "").unwrap();
        // What a writer that was killed leaves is as old as its name.
        fs::write(place.join(format!(".{}.partial", name(1))), "half").unwrap();
        for number in 2..MOST_RUNS {
            fs::write(place.join(name(number)), "other").unwrap();
        }
        store.add(&name(MOST_RUNS), "last").unwrap();
        store.add(&name(MOST_RUNS + 1), "last").unwrap();
        let left: Vec<String> =
            fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(left.len(), MOST_RUNS + 1);
        assert!(left.contains(&"notes".to_owned()) && left.contains(&name(2)) && left.contains(&name(MOST_RUNS + 1)));
        assert!(!left.contains(&name(0)) && !left.iter().any(|name| name.starts_with('.')));
        assert!(store.read().unwrap().left_aside.is_some_and(|what| what.starts_with("200 not readable")));
    }

    #[test]
    fn a_run_of_chosen_experiments_knows_how_far_the_clock_moves_between_runs() {
        let document = stored();
        let runs = vec![Compact::of(&document); 5];
        let setup = Setup::of(document.machine, document.run.cpu, vec![document.run.cpu], Profile::Quick);
        let plan = plan::plan(&plan::select(&["cpu.loop".to_owned()]).unwrap(), &setup, None).unwrap();
        let found = look_back(runs, &setup, &plan, &Identity::default());
        let scatter = |metric: &str| found.figures.iter().any(|figure| figure.metric == metric);
        assert!(scatter("cpu.loop.overhead") && scatter("cpu.cycle_time"), "{:?}", found.figures);
    }

    #[test]
    fn a_name_says_when_and_which() {
        assert!(is_name("20260102T030405Z-0123456789abcdef.json"));
        assert_eq!(plain(".20260102T030405Z-0123456789abcdef.json.partial"), "20260102T030405Z-0123456789abcdef.json");
        for wrong in [
            "",
            "notes",
            "20260102T030405Z-0123456789abcdef",
            "20260102T030405Z-0123456789abcdeg.json",
            "20260102T030405Z-0123456789abcde.json",
            "2026-01-02T030405Z-0123456789abcdef.json",
            "20260102030405ZZ-0123456789abcdef.json",
        ] {
            assert!(!is_name(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_folder_of_somebody_else_is_not_used() {
        let keep = tempfile::tempdir().unwrap();
        let store = store(keep.path());
        store.add("20260102T030405Z-0123456789abcdef.json", "").unwrap();
        let folder = store.state.join("sysdyno/runs");
        // Only root can give a folder away.
        if std::os::unix::fs::chown(&folder, Some(54_321), None).is_ok() {
            let refused = store.read().unwrap_err().to_string();
            assert_eq!(refused, "runs: it belongs to user 54321");
            assert!(store.add("20260102T030406Z-0123456789abcdef.json", "").is_err());
        }
    }
}
