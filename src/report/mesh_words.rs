//! What every form of a mesh says: the answer, findings, rates and round trips in words.

use super::content::comparison::signed;
use super::fleet_words::deviations;
use crate::results::mesh::{Mesh, MeshFinding, MeshMode, MeshVerdict};
use crate::results::node_names::fold;
use crate::results::quantity::Unit;
use crate::results::wording::{count, duration, significant};

/// Digits of a rate or a time.
const DIGITS: i32 = 3;
/// Findings that the sentence of the answer names.
const NAMED: usize = 3;

/// A rate in bytes per second.
pub fn rate(bytes_per_second: f64) -> String {
    significant(bytes_per_second, Unit::BytesPerSecond, DIGITS)
}

/// A time in seconds.
pub fn time(seconds: f64) -> String {
    significant(seconds * 1e9, Unit::Nanoseconds, DIGITS)
}

/// The answer in one or two sentences.
pub fn verdict(mesh: &Mesh) -> String {
    let findings = mesh.findings.len();
    let named: Vec<String> = mesh.findings.iter().take(NAMED).map(MeshFinding::title).collect();
    let more = if findings > NAMED { format!(" and {} more", findings - NAMED) } else { String::new() };
    let missing = mesh.missing().len() as u64;
    let first = match mesh.verdict {
        MeshVerdict::Odd if findings == 1 => format!("1 thing is odd: {}.", named[0]),
        MeshVerdict::Odd => format!("{findings} things are odd: {}{more}.", named.join(", ")),
        _ if mesh.undecided.len() == mesh.members.len() => {
            "The pairs are too few to judge: each member needs 3 or more.".to_owned()
        }
        _ => "No sender, receiver or link is odd.".to_owned(),
    };
    if missing > 0 { format!("{first} {} missing.", count(missing, "pair is", "pairs are")) } else { first }
}

/// What was measured, in a line.
pub fn extent(mesh: &Mesh) -> String {
    let measured = mesh.best().len() as u64;
    let mode = if mesh.plan.mode == MeshMode::Alone {
        "one at a time".to_owned()
    } else {
        format!("in {}", count(u64::from(mesh.plan.rounds), "round", "rounds"))
    };
    let mut networks: Vec<String> = mesh
        .members
        .iter()
        .filter_map(|member| member.link.as_ref())
        .map(|link| format!("{} {}", link.interface, link.network()))
        .collect();
    networks.sort();
    networks.dedup();
    let network = match networks.len() {
        0 => String::new(),
        1 => format!(", {}", networks[0]),
        more => format!(", {} and {} more", networks[0], more - 1),
    };
    let members = count(mesh.members.len() as u64, "node", "nodes");
    format!("{members}, {} {mode}{network}, {}", count(measured, "pair", "pairs"), duration(mesh.seconds))
}

/// A finding with its numbers.
pub fn finding(finding: &MeshFinding) -> String {
    let what = if finding.kind.is_latency() { time(finding.typical) } else { rate(finding.typical) };
    format!("{}: {what}, {} (z {})", finding.title(), signed(finding.effect), deviations(finding.z))
}

/// Rates and round trips as ranges with their medians.
pub fn typical(mesh: &Mesh) -> Option<[String; 2]> {
    let typical = mesh.typical.as_ref()?;
    let words = |[low, middle, high]: [f64; 3], of: fn(f64) -> String| {
        format!("{} to {}, median {}", of(low), of(high), of(middle))
    };
    Some([words(typical.rate, rate), words(typical.round_trip, time)])
}

/// Members that are out, each with the reason and the number of its missing pairs; then pairs that are missing for another reason.
pub fn missing(mesh: &Mesh) -> Vec<String> {
    let missing = mesh.missing();
    let is_out = |rank: u32| mesh.members[rank as usize].out.is_some();
    let mut lines = Vec::new();
    for member in &mesh.members {
        let Some(reason) = &member.out else { continue };
        let pairs = missing.iter().filter(|((one, other), _)| *one == member.rank || *other == member.rank).count();
        lines.push(format!("{}: {reason}, {}", member.node, count(pairs as u64, "pair", "pairs")));
    }
    for ((one, other), reason) in missing.iter().filter(|((one, other), _)| !is_out(*one) && !is_out(*other)) {
        let name = |rank: &u32| &mesh.members[*rank as usize].node;
        lines.push(format!("{}–{}: {reason}", name(one), name(other)));
    }
    lines
}

/// Members with too few pairs.
pub fn undecided(mesh: &Mesh) -> Option<String> {
    let names = fold(mesh.undecided.iter().map(String::as_str));
    (!names.is_empty()).then(|| format!("{}: {names}", count(mesh.undecided.len() as u64, "node", "nodes")))
}
