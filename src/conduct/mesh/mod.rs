//! The network between all nodes of a job: every task is a member, and rank 0 leads.
//!
//! ```text
//! rank 0                                     every member (rank 0 has one too, as a child)
//!   listens, writes the meeting file           waits for the file, connects, proves the secret
//!   join? ──────────────────────────────────▶
//!   seats it                        ◀────────  address and port of its server for pairs
//!   clock? ─────────────────────────────────▶
//!                                   ◀────────  its clock, and so that it is there
//!   pair with … ────────────────────────────▶  the caller of each pair measures, in a child
//!                                   ◀────────  what it measured
//!   … rounds …, end ────────────────────────▶  ends
//!   judges, writes mesh-TIME.json
//! ```
//!
//! Once a member has connected it serves a session of [`crate::peer`], and rank 0 is its client.
//! Each wait of rank 0 has an end. A member that misses it is out, and the others go on without it.

mod lead;
pub mod meeting;
pub mod member;
pub mod networks;
mod pair;
pub mod roll_call;
pub mod seat;

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::directory;
use crate::machine::engine::Engine;
use crate::results::mesh::Mesh;
use crate::results::problem::Problem;
use crate::sys::create::{self, Access};
use crate::sys::naming;

pub use lead::{LeadSetting, lead};

/// Rank 0 says something at least this often.
const STILL: Duration = Duration::from_secs(5);
/// A member takes rank 0 for dead after this silence.
const SILENCE: Duration = Duration::from_secs(20);

/// What helps a task that does not fit to the others.
const ALIKE: &str = "start one task on each node, all with the same options and the same version of sysdyno";

/// Why a task did not take part to the end.
#[derive(Debug)]
pub enum MeshFailure {
    /// What was typed is wrong, or does not fit to the other tasks.
    Wrong(Problem),
    /// Rank 0, or every other task, did not come or is gone.
    Lost(Problem),
    /// A signal came before anything was measured.
    Interrupted(Problem),
}

/// Makes the directory of a mesh where it is missing.
fn prepare(directory: &Path) -> Result<(), Problem> {
    create::directories(directory, Access::Shared).and_then(|()| create::no_foreign_link(directory)).map_err(|error| {
        Problem::new(format!("cannot make the directory {}: {error}", directory.display()))
            .hint("choose a directory that this user may write to")
    })
}

/// The place of the meeting file in a directory.
pub fn meeting_place(directory: &Path) -> PathBuf {
    directory.join(meeting::name(Engine::here().as_ref()))
}

/// Writes a mesh into a directory. The file is whole, or it is not written. Returns where.
pub fn keep(mesh: &Mesh, directory: &Path) -> Result<PathBuf, Problem> {
    let first = directory.join(format!("mesh-{}.json", directory::compact_now()));
    // Two meshes of one second have different names.
    if first.symlink_metadata().is_ok() { keep_with_any_name(mesh, directory) } else { keep_at(mesh, first) }
}

/// The same with a random name, for a directory that all users share.
pub fn keep_with_any_name(mesh: &Mesh, directory: &Path) -> Result<PathBuf, Problem> {
    let name = format!("mesh-{}-{}.json", directory::compact_now(), naming::random());
    keep_at(mesh, directory.join(name))
}

fn keep_at(mesh: &Mesh, place: PathBuf) -> Result<PathBuf, Problem> {
    let cannot = |error: std::io::Error| {
        Problem::new(format!("cannot write {}: {error}", place.display()))
            .hint("free some space there, or choose another directory")
    };
    let text = serde_json::to_string(mesh).map_err(|error| cannot(error.into()))? + "\n";
    create::whole(&place, Access::Shared, &text).map_err(cannot)?;
    Ok(place)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use jiff::{SignedDuration, Timestamp};

    use super::*;

    #[test]
    fn a_result_is_written_through_no_planted_link() {
        let mesh = serde_json::json!({
            "format": "sysdyno-mesh/1", "version": "0.1.0", "started": "2026-11-21T00:00:00Z", "seconds": 1.0,
            "plan": {"size": 2, "mode": "together", "rounds": 1, "seed": 1, "streams": 1}, "verdict": "nothing_odd",
            "findings": [], "undecided": [], "warnings": [], "members": [], "pairs": [],
        });
        let mesh: Mesh = serde_json::from_value(mesh).unwrap();
        let keep_files = tempfile::tempdir().unwrap();
        let (victim, place) = (keep_files.path().join("victim"), keep_files.path().join("mesh"));
        std::fs::write(&victim, "precious").unwrap();
        prepare(&place).unwrap();
        for second in 0..10 {
            let name =
                (Timestamp::now() + SignedDuration::from_secs(second)).strftime("mesh-%Y%m%dT%H%M%SZ.json").to_string();
            for planted in [format!("{name}.tmp"), format!(".{name}.partial"), name] {
                symlink(&victim, place.join(planted)).unwrap();
            }
        }
        for written in [keep(&mesh, &place), keep_with_any_name(&mesh, &place)] {
            assert!(written.unwrap().symlink_metadata().unwrap().is_file());
        }
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    }
}
