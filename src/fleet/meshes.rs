//! The newest mesh of a fleet: `DIR/mesh/mesh-TIME.json`. One that cannot be read is left aside.

use std::path::{Path, PathBuf};

use crate::results::fleet::{Fleet, FleetMesh, FleetVerdict, LeftAside};
use crate::results::mesh::{Mesh, MeshVerdict};

/// Folder of the meshes in the directory of a fleet.
const FOLDER: &str = "mesh";
/// Files that are tried until one can be read.
const MOST_TRIED: usize = 8;

/// The newest mesh of some directories with its place, and files that are none.
pub fn newest(directories: &[PathBuf]) -> (Option<(PathBuf, Mesh)>, Vec<LeftAside>) {
    let mut places: Vec<PathBuf> = directories.iter().flat_map(|directory| candidates(directory)).collect();
    // Names have the time of their end.
    places.sort_by(|one, other| other.file_name().cmp(&one.file_name()));
    let mut left_aside = Vec::new();
    for place in places.into_iter().take(MOST_TRIED) {
        match Mesh::read(&place) {
            Ok(mesh) => return (Some((place, mesh)), left_aside),
            Err(reason) => left_aside.push(LeftAside { place: place.display().to_string(), reason }),
        }
    }
    (None, left_aside)
}

fn candidates(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = directory.join(FOLDER).read_dir() else { return Vec::new() };
    let is_mesh = |name: &str| name.strip_prefix("mesh-").is_some_and(|rest| rest.strip_suffix(".json").is_some());
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_mesh))
        .collect()
}

/// Adds a mesh to a fleet, and to its answer.
pub fn add(fleet: &mut Fleet, place: &Path, mesh: &Mesh) {
    let pairs = mesh.best().len() as u32;
    // A file can say what no pair shows.
    let verdict =
        if pairs == 0 && mesh.verdict == MeshVerdict::NothingOdd { MeshVerdict::Incomplete } else { mesh.verdict };
    fleet.mesh = Some(FleetMesh {
        place: place.display().to_string(),
        started: mesh.started.clone(),
        verdict,
        members: mesh.members.len() as u32,
        pairs,
        missing: mesh.missing().len() as u32,
        findings: mesh.findings.clone(),
        undecided: mesh.undecided.clone(),
    });
    fleet.verdict = match (fleet.verdict, verdict) {
        (FleetVerdict::Odd, _) | (_, MeshVerdict::Odd) => FleetVerdict::Odd,
        // Without nodes, the network is the whole answer.
        (verdict, MeshVerdict::NothingOdd) if !fleet.is_mesh_alone() => verdict,
        (_, MeshVerdict::NothingOdd) => FleetVerdict::NothingOdd,
        (_, MeshVerdict::Incomplete) => FleetVerdict::Undecided,
    };
}
