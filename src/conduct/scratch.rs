//! The run's own directory for files: one, in the scratch directory, made before the first launch and removed with everything
//! in it after the last.
//!
//! A run that ends by itself or by a signal removes its directory. One that was killed outright, or whose machine lost power,
//! cannot: the next run of this node that starts with this scratch directory does. Which directories belong to no run is shown by a
//! lock, which the kernel gives back however a process ends. What another node left stays: a file system that nodes share may
//! keep locks to each of them.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::machine::{Identity, Machine, MachineRelation, Mounted};
use crate::results::problem::Problem;
use crate::results::quantity::Unit;
use crate::results::wording::quantity;
use crate::rig::request::Space;
use crate::setup::Setup;
use crate::sys::create::{self, Access};
use crate::sys::lock::{self, Locking};
use crate::sys::naming::{self, Maker};
use crate::sys::process;

/// Beginning of the names of such directories; a unique name follows.
const PREFIX: &str = ".sysdyno-scratch-";

/// The file in each of them that its run holds locked, with the machine that it runs on.
const OWNER: &str = "owner";

/// Longest text of that file.
const LONGEST_OWNER: u64 = 4096;

/// What stands in the file of the owner.
#[derive(Debug, Serialize, Deserialize)]
struct Owner {
    identity: Identity,
}

/// Tries of removing a directory, and the pause between them: launches of a run that was killed die with it, but not at once.
const REMOVALS: u32 = 50;
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);

/// Tries of getting the turn to make and to sweep, and the pause between them.
const TURNS: u32 = 100;
const TURN_PAUSE: Duration = Duration::from_millis(20);

/// The directory of one run. It is removed when it is dropped.
#[derive(Debug)]
pub struct Scratch {
    space: Space,
    _directory: Temporary,
}

/// A directory of this process for this user alone. It is removed when it is dropped.
#[derive(Debug)]
pub struct Temporary {
    path: PathBuf,
    /// Locked as long as this process lives.
    _owner: File,
}

/// What a start found of runs that were killed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Directories and files that were removed.
    pub removed: Vec<PathBuf>,
    /// Those that could not be, with the reason.
    pub kept: Vec<(PathBuf, String)>,
}

impl Scratch {
    /// Makes the directory, whose files may take the room of the run.
    pub fn make(setup: &Setup) -> Result<Self, Problem> {
        let mount = mount(&setup.machine)?;
        let bytes = setup.room.clone()?;
        let made = Temporary::make(Path::new(&mount.directory)).map_err(|error| {
            Problem::new(format!("cannot make the directory for files in {}: {error}", mount.directory))
                .hint("choose a writable place with free space, with --scratch DIR")
        })?;
        Ok(Scratch { space: Space { directory: made.path.clone(), bytes }, _directory: made })
    }

    /// What launches get to know of it.
    pub fn space(&self) -> &Space {
        &self.space
    }
}

impl Temporary {
    /// Makes a directory in a place.
    pub fn make(place: &Path) -> std::io::Result<Self> {
        let path = place.join(format!("{PREFIX}{}", naming::unique()));
        let _turn = turn(place);
        let made = create::directory(&path, Access::Private).and_then(|()| {
            let mut owner = create::file(&path.join(OWNER), Access::Private)?;
            // Where files cannot be locked, the number in the name has to do.
            let _ = lock::take(&owner);
            owner.write_all(&serde_json::to_vec(&Owner { identity: Identity::read(Path::new("/")) })?)?;
            Ok(owner)
        });
        match made {
            Ok(owner) => Ok(Temporary { path, _owner: owner }),
            Err(error) => {
                let _ = fs::remove_dir_all(&path);
                Err(error)
            }
        }
    }

    /// Makes one in the directory for temporary files, and removes what killed processes left there.
    pub fn for_runs() -> Result<Self, Problem> {
        let place = std::env::temp_dir();
        sweep_in(&place);
        Temporary::make(&place).map_err(|error| {
            Problem::new(format!("cannot write in {}: {error}", place.display()))
                .hint(create::hint(&error, "set TMPDIR to a writable directory"))
        })
    }

    /// A place in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What cannot be removed now is found by the next start.
        let _ = remove(&self.path);
    }
}

fn mount(machine: &Machine) -> Result<&Mounted, Problem> {
    let mount = machine.scratch().and_then(|storage| storage.mount.as_ref());
    mount.ok_or_else(|| {
        Problem::new("the scratch directory has no known mount").hint("choose a place with --scratch DIR")
    })
}

/// Bytes that the files of a run may take together: a tenth of the free space and no more than 2 GiB, or what `limit` allows, and no
/// more than one file may have. Else why the limit cannot be kept there, said before anything is measured.
pub fn room(machine: &Machine, limit: Option<u64>) -> Result<u64, Problem> {
    let room = allowed(mount(machine)?, limit)?;
    Ok(machine.limits.file_bytes().map_or(room, |most| most.min(room)))
}

fn allowed(mount: &Mounted, limit: Option<u64>) -> Result<u64, Problem> {
    let text = |bytes: u64| quantity(bytes as f64, Unit::Bytes);
    match (limit, mount.free_bytes.as_ref().map(|free| free.value)) {
        (Some(limit), Some(free)) if limit > free => {
            let refused = Problem::new(format!(
                "--scratch-limit allows files of {} together, but only {} are free there",
                text(limit),
                text(free)
            ));
            let most = free / 1_000_000;
            Err(if most == 0 {
                refused.hint("free space, or choose another place with --scratch DIR")
            } else {
                refused.hint(format!(
                    "give --scratch-limit {most}M or less (without it files take a tenth of the free space), free \
                     space, or choose another place with --scratch DIR"
                ))
            })
        }
        (Some(limit), _) => Ok(limit),
        (None, _) => Ok(mount.polite_bytes()),
    }
}

/// Removes what runs that were killed left in the scratch directory of this machine, and nothing else. It bears such a name,
/// belongs to this user, was made on this node, and no process owns it any more.
pub fn sweep(machine: &Machine) -> Swept {
    mount(machine).map_or_else(|_| Swept::default(), |mount| sweep_in(Path::new(&mount.directory)))
}

fn sweep_in(place: &Path) -> Swept {
    let mut swept = Swept::default();
    // Without the turn another run may be between making its directory and locking it.
    let Some(_turn) = turn(place) else { return swept };
    let Ok(entries) = fs::read_dir(place) else { return swept };
    for entry in entries.flatten() {
        let path = entry.path();
        if !is_left_over(&path, &entry.file_name().to_string_lossy()) {
            continue;
        }
        match remove(&path) {
            Ok(()) => swept.removed.push(path),
            Err(error) => swept.kept.push((path, error.to_string())),
        }
    }
    swept
}

/// Whether something bears a name of ours and no process owns it.
fn is_left_over(path: &Path, name: &str) -> bool {
    // Of the link, not of what it names.
    let Ok(found) = fs::symlink_metadata(path) else { return false };
    if found.uid() != process::effective_user() {
        return false;
    }
    if let Some(maker) = name.strip_prefix(PREFIX).and_then(Maker::of) {
        return found.is_dir() && maker.is_of_this_node() && is_unowned(&path.join(OWNER), &maker);
    }
    // A file whose name should have lived for a moment only.
    let maker = name.strip_prefix(create::MOMENTARY).and_then(Maker::of);
    found.is_file() && maker.is_some_and(|maker| maker.is_gone())
}

/// Whether no process owns a directory of this node any more.
fn is_unowned(owner: &Path, maker: &Maker) -> bool {
    let file = match create::existing(owner) {
        Ok(file) => file,
        // Making and locking are one turn: a directory without the file is what a kill in between left.
        Err(error) => return error.kind() == ErrorKind::NotFound,
    };
    let mut text = String::new();
    // What a kill left unfinished says nothing; then the name of the node has to do.
    let _ = (&file).take(LONGEST_OWNER).read_to_string(&mut text);
    let relation = serde_json::from_slice(text.as_bytes())
        .map_or(MachineRelation::Same, |owner: Owner| owner.identity.relation_to(&Identity::read(Path::new("/"))));
    match (relation, lock::take(&file)) {
        // Machines can have the same name.
        (MachineRelation::Other, _) | (_, Locking::Taken(_)) => false,
        (_, Locking::Mine) | (MachineRelation::Restarted, Locking::Impossible) => true,
        (MachineRelation::Same, Locking::Impossible) => maker.is_gone(),
    }
}

/// The turn of making and sweeping directories in a place: one run at a time. None where it cannot be had.
fn turn(place: &Path) -> Option<File> {
    let directory = File::open(place).ok()?;
    for _ in 0..TURNS {
        match lock::take(&directory) {
            Locking::Mine => return Some(directory),
            Locking::Taken(_) => std::thread::sleep(TURN_PAUSE),
            Locking::Impossible => return None,
        }
    }
    None
}

/// Removes a directory with all in it, or a file.
fn remove(path: &Path) -> std::io::Result<()> {
    let mut outcome = Ok(());
    for turn in 0..REMOVALS {
        if turn > 0 {
            std::thread::sleep(REMOVAL_PAUSE);
        }
        // Symbolic links in it are removed, not followed.
        outcome = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        match outcome.as_ref().map_err(std::io::Error::kind) {
            Err(ErrorKind::NotFound) => return Ok(()),
            // A process was still writing into it.
            Err(ErrorKind::DirectoryNotEmpty) => {}
            _ => break,
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Fact;

    const MOST: u64 = 2 << 30;

    #[test]
    fn a_tenth_of_what_is_free_is_polite_and_a_limit_holds() {
        let allowed = |free: Option<u64>, limit| {
            let mut mount = Mounted::of_type("ext4", "rw");
            mount.free_bytes = free.map(|free| Fact::new(free, "for the test"));
            super::allowed(&mount, limit)
        };
        assert_eq!(allowed(Some(1 << 30), None).unwrap(), (1 << 30) / 10);
        assert_eq!(allowed(Some(1 << 40), None).unwrap(), MOST);
        assert_eq!(allowed(Some(1 << 40), Some(5 << 30)).unwrap(), 5 << 30);
        assert_eq!(allowed(Some(0), None).unwrap(), 0);
        assert_eq!(allowed(None, None).unwrap(), MOST);
        let refused = allowed(Some(1 << 20), Some(1 << 21)).unwrap_err();
        assert!(refused.what.contains("only 1.000 MiB"), "{refused}");
        assert!(refused.hint.as_ref().unwrap().contains("--scratch-limit 1M or less"), "{refused}");
        let hopeless = allowed(Some(4096), Some(8192)).unwrap_err();
        assert!(!hopeless.hint.as_ref().unwrap().contains("--scratch-limit"), "{hopeless}");
    }

    #[test]
    fn a_limit_of_file_size_holds_and_is_named() {
        let keep = tempfile::tempdir().unwrap();
        let mut machine = crate::machine::detect(Path::new("/"), keep.path());
        let named = |machine: &Machine, limit: Option<u64>| {
            let room = room(machine, limit);
            let setup = Setup { room, ..Setup::of(machine.clone(), 0, vec![0], crate::setup::Profile::Quick) };
            (setup.room.clone().unwrap(), setup.file_bound().contains("ulimit -f"))
        };
        let sizes = machine.limits.resources.iter_mut().filter(|limit| limit.name == "file size");
        sizes.for_each(|limit| limit.soft = None);
        assert_eq!(named(&machine, Some(4096)), (4096, false));
        let sizes = machine.limits.resources.iter_mut().filter(|limit| limit.name == "file size");
        sizes.for_each(|limit| limit.soft = Some(2048));
        assert_eq!(named(&machine, None), (2048, true));
        assert_eq!(named(&machine, Some(4096)), (2048, true));
        assert_eq!(named(&machine, Some(1024)), (1024, false));
    }

    /// A name as a process of a node gives it.
    fn named(node: &str, process: u32) -> String {
        format!("{node}-{}-{process}-0123abcd", Maker::here().namespace)
    }

    fn own(process: u32) -> String {
        named(&Maker::here().node, process)
    }

    /// No process has such a number.
    const DEAD: u32 = u32::MAX / 3;

    #[test]
    fn what_is_locked_or_of_another_name_stays() {
        let keep = tempfile::tempdir().unwrap();
        let place = |name: &str| keep.path().join(name);
        let name = format!("{PREFIX}{}", own(DEAD));
        fs::create_dir(place(&name)).unwrap();
        let owner = File::create_new(place(&name).join(OWNER)).unwrap();
        owner.try_lock().unwrap();
        assert!(!is_left_over(&place(&name), &name));
        drop(owner);
        assert!(is_left_over(&place(&name), &name));
        for name in [PREFIX, ".sysdyno-scratch-1", "sysdyno-scratch-1", ".sysdyno-x", &name[1..]] {
            fs::create_dir_all(place(name)).unwrap();
            assert!(!is_left_over(&place(name), name), "{name}");
        }
        // A link of such a name leads elsewhere.
        let link = format!("{PREFIX}{}", own(DEAD + 1));
        std::os::unix::fs::symlink(keep.path(), place(&link)).unwrap();
        assert!(!is_left_over(&place(&link), &link));
        // A file of a process that lives is its own.
        for (maker, left) in [(own(std::process::id()), false), (own(DEAD), true), (named("elsewhere", DEAD), false)] {
            let name = format!("{}{maker}", create::MOMENTARY);
            fs::write(place(&name), "x").unwrap();
            assert_eq!(is_left_over(&place(&name), &name), left, "{name}");
        }
    }

    #[test]
    fn what_another_node_made_stays_whatever_its_lock_says() {
        let keep = tempfile::tempdir().unwrap();
        let here = Identity::read(Path::new("/"));
        let clone = Identity { machine: Some("another".to_owned()), ..here.clone() };
        let restarted = Identity { boot: Some("before".to_owned()), ..here.clone() };
        let unknown = Identity { boot: None, machine: None, ..here.clone() };
        for (number, (node, identity, left)) in [
            ("elsewhere", &here, false),
            (Maker::here().node.as_str(), &here, true),
            (&Maker::here().node, &clone, here.machine.is_none()),
            (&Maker::here().node, &restarted, true),
            (&Maker::here().node, &unknown, true),
        ]
        .into_iter()
        .enumerate()
        {
            let name = format!("{PREFIX}{}", named(node, DEAD + number as u32));
            let place = keep.path().join(&name);
            fs::create_dir(&place).unwrap();
            fs::write(place.join(OWNER), serde_json::to_vec(&Owner { identity: identity.clone() }).unwrap()).unwrap();
            assert_eq!(is_left_over(&place, &name), left, "{number}");
        }
    }
}
