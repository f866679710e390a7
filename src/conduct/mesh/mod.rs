//! The network between all nodes of a job: every task is a member, and rank 0 leads.
//!
//! ```text
//! rank 0                                     every member (rank 0 has one too, as a child)
//!   listens, writes the meeting file           waits for the file, connects, proves the secret
//!   calls the roll                  ◀────────  join: address and port of its server for pairs
//!   ready? ─────────────────────────────────▶
//!                                   ◀────────  present
//!   measure with … ─────────────────────────▶  the caller of each pair measures, in a child
//!                                   ◀────────  measured
//!   … rounds …, end ────────────────────────▶  ends
//!   judges, writes mesh-TIME.json
//! ```
//!
//! Each wait of rank 0 has an end. A member that misses it is out, and the others go on without it.

mod lead;
pub mod meeting;
pub mod member;
pub mod messages;
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

pub use lead::{LeadSetting, lead};

/// Rank 0 says something at least this often.
const STILL: Duration = Duration::from_secs(5);
/// A member takes rank 0 for dead after this silence.
const SILENCE: Duration = Duration::from_secs(20);

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
    std::fs::create_dir_all(directory).map_err(|error| {
        Problem::new(format!("cannot make the directory {}: {error}", directory.display()))
            .hint("choose a directory that this user may write to")
    })
}

/// The place of the meeting file in a directory.
pub fn meeting_place(directory: &Path) -> PathBuf {
    directory.join(meeting::name(Engine::here().as_ref()))
}

/// Writes a mesh into a directory, whole or not at all. Returns where.
pub fn keep(mesh: &Mesh, directory: &Path) -> Result<PathBuf, Problem> {
    let name = format!("mesh-{}", directory::compact_now());
    let first = directory.join(format!("{name}.json"));
    // Two meshes of one second have different names.
    let place =
        if first.exists() { directory.join(format!("{name}-{:06x}.json", fastrand::u32(..1 << 24))) } else { first };
    let cannot = |error: std::io::Error| {
        Problem::new(format!("cannot write {}: {error}", place.display()))
            .hint("free some space there, or choose another directory")
    };
    let text = serde_json::to_string(mesh).map_err(|error| cannot(error.into()))? + "\n";
    let beginning = place.with_extension("json.tmp");
    let written = std::fs::write(&beginning, text).and_then(|()| std::fs::rename(&beginning, &place));
    written.map_err(|error| {
        // What was begun is of no use to anybody.
        let _ = std::fs::remove_file(&beginning);
        cannot(error)
    })?;
    Ok(place)
}
