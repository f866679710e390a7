//! `sysdyno mesh`: the network between all nodes of a job.

use std::path::Path;
use std::time::Duration;

use super::answer::Answer;
use super::mesh_options::MeshOptions;
use super::peer_options::given_secret;
use super::{DONE, FAILED, FOUND, Failure, INTERRUPTED, WORSE, WRONG_COMMAND, say, terminal_width};
use crate::conduct::mesh::member::{MemberSetting, Rendezvous, take_part};
use crate::conduct::mesh::seat::Seat;
use crate::conduct::mesh::{LeadSetting, MeshFailure, keep, keep_with_any_name, lead, meeting_place};
use crate::machine::Identity;
use crate::machine::engine::{Engine, is_node_name};
use crate::peer::resolve;
use crate::report::content::mesh::screen;
use crate::results::mesh::MeshVerdict;
use crate::results::problem::Problem;

impl From<MeshFailure> for Failure {
    fn from(failure: MeshFailure) -> Self {
        match failure {
            MeshFailure::Wrong(problem) => Failure { code: WRONG_COMMAND, problem },
            MeshFailure::Lost(problem) => Failure { code: FOUND, problem },
            MeshFailure::Interrupted(problem) => Failure { code: INTERRUPTED, problem },
        }
    }
}

pub(super) fn mesh(options: &MeshOptions) -> Result<u8, Failure> {
    let seat = Seat::of(options.rank, options.size, &|name| std::env::var(name).ok())?;
    let member = MemberSetting {
        seat,
        node: node()?,
        rack: rack(options)?,
        network: options.network.clone(),
        rate: options.rate,
        patience: Duration::from_secs_f64(options.patience),
    };
    let at = rendezvous(options)?;
    if seat.rank > 0 {
        take_part(&member, &at)?;
        return Ok(DONE);
    }
    let setting = LeadSetting {
        directory: options.directory.clone(),
        member,
        at,
        alone: options.alone,
        rounds: (!options.all).then_some(options.rounds),
        seed: options.seed.unwrap_or_else(|| fastrand::u64(..)),
        streams: options.streams,
    };
    let (mesh, signal) = lead(&setting)?;
    let mut is_kept = true;
    let (file, fleet) = match keep(&mesh, &options.directory) {
        Ok(file) => (file, fleet_of(&options.directory)),
        Err(problem) => {
            // A network was measured for it, which is not to be lost.
            let Ok(file) = keep_with_any_name(&mesh, &std::env::temp_dir()) else {
                return Err(Failure::while_working(problem));
            };
            let hint = format!("free some space, then move {} to {}", file.display(), options.directory.display());
            say(format_args!("error: {}\nhint: {hint}", problem.what));
            is_kept = false;
            (file, None)
        }
    };
    let lines = screen(&mesh, terminal_width(), &file.display().to_string(), fleet.as_deref());
    Answer::Screen(lines, options.color).show(None)?;
    Ok(match (signal, mesh.verdict) {
        (Some(_), _) => INTERRUPTED,
        _ if !is_kept => FAILED,
        (None, MeshVerdict::Odd) => WORSE,
        (None, MeshVerdict::Incomplete) => FOUND,
        (None, MeshVerdict::NothingOdd) => DONE,
    })
}

/// The directory of the fleet that a mesh in this directory belongs to.
fn fleet_of(directory: &Path) -> Option<String> {
    let is_mesh = directory.file_name().is_some_and(|name| name == "mesh");
    let above = directory.parent().filter(|_| is_mesh)?;
    Some(if above.as_os_str().is_empty() { ".".to_owned() } else { above.display().to_string() })
}

fn node() -> Result<String, Problem> {
    let node = Identity::read(Path::new("/")).node;
    if is_node_name(&node) {
        return Ok(node);
    }
    Err(Problem::new(format!("the name of this node, '{node}', has other characters than names of nodes have"))
        .hint("names consist of letters, digits, dots, hyphens and underscores"))
}

fn rack(options: &MeshOptions) -> Result<Option<String>, Problem> {
    let label = options.label.iter().find(|(key, _)| key == "rack").map(|(_, value)| value.clone());
    let rack = label.or_else(|| Engine::here()?.rack().map(str::to_owned));
    match rack {
        Some(rack) if !is_node_name(&rack) => Err(Problem::new(format!("'{rack}' cannot be the name of a rack"))
            .hint("names consist of letters, digits, dots, hyphens and underscores")),
        rack => Ok(rack),
    }
}

fn rendezvous(options: &MeshOptions) -> Result<Rendezvous, Problem> {
    let Some(meet) = &options.meet else { return Ok(Rendezvous::File(meeting_place(&options.directory))) };
    let (host, port) = resolve::split(meet)?;
    let secret = given_secret(options.peer_secret_file.as_deref())?.ok_or_else(|| {
        Problem::new("--meet requires a secret")
            .hint("give all tasks the same secret with --peer-secret-file or SYSDYNO_PEER_SECRET")
    })?;
    Ok(Rendezvous::At(host, port, secret))
}
