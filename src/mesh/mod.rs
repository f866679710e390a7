//! Which sender, receiver or uplink of a mesh is bad, from the rates and round trips of its pairs.
//!
//! `rounds` says who measures with whom. `polish` splits each value into parts, and `judge` names those
//! that differ. Everything is a pure function of the pairs.

mod judge;
mod polish;
pub mod rounds;
#[cfg(test)]
mod simulation;

use crate::results::mesh::{Mesh, MeshTypical, MeshVerdict};
use crate::statistics::summary::median;

use judge::Judged;

/// Fewest flows in a direction with which a member is judged.
pub const LEAST_FLOWS: usize = 3;

/// Writes into a mesh what its pairs say: effects, findings and the answer.
pub fn judge(mesh: &mut Mesh) {
    let Judged { findings, uplinks, effects, scatter, .. } = judge::judge(mesh);
    for (member, [send, receive, latency]) in mesh.members.iter_mut().zip(effects) {
        (member.send, member.receive, member.latency) = (send, receive, latency);
    }
    mesh.typical = typical(mesh, scatter);
    mesh.findings = findings;
    mesh.uplinks = uplinks;
    let open = |send: Option<f64>, receive: Option<f64>| send.is_none() || receive.is_none();
    mesh.undecided = mesh
        .members
        .iter()
        .filter(|member| open(member.send, member.receive))
        .map(|member| member.node.clone())
        .collect();
    let whole = mesh.missing().is_empty() && mesh.members.iter().all(|member| member.out.is_none());
    mesh.verdict = if !mesh.findings.is_empty() {
        MeshVerdict::Odd
    } else if whole && mesh.undecided.is_empty() {
        MeshVerdict::NothingOdd
    } else {
        MeshVerdict::Incomplete
    };
}

/// How often doubtful pairs are measured again.
pub const AGAIN: u32 = 2;

/// Pairs that differ and were not measured often enough to say that their link is the reason, the most different first.
pub fn doubtful(mesh: &Mesh) -> Vec<(u32, u32)> {
    judge::judge(mesh).doubtful
}

fn typical(mesh: &Mesh, [rate_scatter, round_trip_scatter]: [f64; 2]) -> Option<MeshTypical> {
    let best = mesh.best();
    let rates: Vec<f64> = best.values().flat_map(|pair| [pair.up, pair.down]).map(|rate| rate as f64).collect();
    let times: Vec<f64> = best.values().map(|pair| pair.round_trip as f64 / 1e9).collect();
    let range = |values: &[f64]| -> Option<[f64; 3]> {
        let ends = |pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick);
        Some([ends(f64::min)?, median(values)?, ends(f64::max)?])
    };
    Some(MeshTypical { rate: range(&rates)?, round_trip: range(&times)?, rate_scatter, round_trip_scatter })
}
