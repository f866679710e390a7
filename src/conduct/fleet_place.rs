//! The place of a node's runs in the directory of a fleet: `FLEET/nodes/NODE/TIME-RANDOM`.
//!
//! Nodes share the directory and write at the same time. Each run has a separate directory, so that no two write the same file.

use std::path::{Path, PathBuf};

use super::before::Before;
use super::directory::{self, COMPACT};
use crate::experiments::Experiment;
use crate::machine::engine::is_node_name;
use crate::machine::{Identity, MachineRelation};
use crate::results::problem::Problem;
use crate::setup::Profile;
use crate::sys::create::{self, Access};

/// Folder of the nodes in the directory of a fleet.
const NODES: &str = "nodes";

/// What a run is asked for, as far as it decides whether an unfinished run is the same.
pub struct FleetRequest<'a> {
    /// Directory of the fleet.
    pub fleet: &'a Path,
    /// How thorough the run is.
    pub profile: Profile,
    /// Its experiments.
    pub selected: &'a [&'static Experiment],
}

impl FleetRequest<'_> {
    /// The directory of a node.
    fn node(&self, identity: &Identity) -> Result<PathBuf, Problem> {
        if is_node_name(&identity.node) {
            return Ok(self.fleet.join(NODES).join(&identity.node));
        }
        Err(Problem::new(format!("the name of this node, '{}', cannot be the name of a directory", identity.node))
            .hint("use --output with a directory of your choice"))
    }

    /// The unfinished run of this node and this request, the newest first: it goes on if the machine was not restarted. A run is
    /// also unfinished if it is measured but its result was not written, such as on a full disk.
    pub fn unfinished(&self, identity: &Identity) -> Result<Option<Before>, Problem> {
        let Ok(entries) = self.node(identity)?.read_dir() else { return Ok(None) };
        let mut places: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        places.sort();
        let logs = places.iter().rev().filter(|place| directory::log_in(place).is_some());
        // One that another process is measuring, or that cannot be read, is left alone.
        Ok(logs.filter_map(|place| Before::open(place).ok()).find(|before| self.is_this(before, identity)))
    }

    fn is_this(&self, before: &Before, identity: &Identity) -> bool {
        let log = &before.log;
        let same_machine = log.header.identity.as_ref().map(|begun| begun.relation_to(identity));
        let steps = log.steps.iter().map(|step| step.experiment.as_str());
        let written = || before.directory.path().join(COMPACT).is_file();
        !(before.is_complete() && written())
            && same_machine == Some(MachineRelation::Same)
            && log.header.profile == self.profile.name()
            && log.header.version == env!("CARGO_PKG_VERSION")
            && steps.eq(self.selected.iter().map(|experiment| experiment.id))
    }

    /// A new directory for a run of this node.
    pub fn place(&self, identity: &Identity) -> Result<PathBuf, Problem> {
        let (nodes, node) = (self.fleet.join(NODES), self.node(identity)?);
        // A fleet can belong to another user, and a link of one can lead anywhere.
        let cannot_use = |place: &Path, error: &std::io::Error| {
            Problem::new(format!("cannot use the directory {}: {error}", place.display()))
                .hint(create::hint(error, "choose another directory with --into FLEET"))
        };
        create::directories(self.fleet, Access::Shared)
            .and_then(|()| create::no_foreign_link(self.fleet))
            .map_err(|error| cannot_use(self.fleet, &error))?;
        create::directories(&nodes, Access::Shared)
            .and_then(|()| create::no_foreign_link(&nodes))
            .map_err(|error| cannot_use(&nodes, &error))?;
        directory::own(&node, "--into FLEET")?;
        // The random part keeps two runs apart that begin in the same second.
        Ok(node.join(format!("{}-{:06x}", directory::compact_now(), fastrand::u32(..1 << 24))))
    }
}
