//! What is said about a mesh: one screen, and the part of a fleet's page with findings and heat maps of rates and round trips.

use std::collections::BTreeMap;

use crate::report::drawing::{Drawing, HeatPlot, Plot};
use crate::report::page::{Cell, PagePart, Piece, Span, Table, Tone};
use crate::report::screen::{Line, Screen};
use crate::results::mesh::{Mesh, MeshFinding, MeshMember, MeshMode, MeshTypical, MeshVerdict};
use crate::results::node_names::fold;
use crate::results::quantity::Unit;
use crate::results::wording::{count, duration, significant, some};
use crate::statistics::summary::median;

use super::comparison::signed;
use super::fleet_words::deviations;

/// Rows of a heat map. More members are put into blocks.
const MOST_ROWS: usize = 64;
/// Pairs of a table.
const MOST_PAIRS: usize = 50;

/// Digits of a rate or a time.
const DIGITS: i32 = 3;
/// Findings that the sentence of the answer names.
const NAMED: usize = 3;

/// Most entries of each kind on a screen.
const ODD: usize = 8;
const MISSING: usize = 4;
const WARNINGS: usize = 2;

/// The answer on one screen. `file` is where everything is, `directory` the directory of the fleet that it belongs to.
pub fn screen(mesh: &Mesh, width: Option<u16>, file: &str, directory: Option<&str>) -> Vec<Line> {
    let mut screen = Screen::new(width, false);
    screen.say(&verdict(mesh), Tone::Strong, 2);
    screen.entry("mesh", &extent(mesh), Tone::Plain);
    let findings: Vec<String> = mesh.findings.iter().map(finding).collect();
    screen.list("odd", &findings, ODD, Tone::Bad);
    if let Some([rates, times]) = typical(mesh) {
        screen.entry("rate", &rates, Tone::Plain);
        screen.entry("round trip", &times, Tone::Plain);
    }
    screen.list("missing", &missing(mesh), MISSING, Tone::Doubt);
    if let Some(undecided) = undecided(mesh) {
        screen.entry("undecided", &undecided, Tone::Doubt);
    }
    for warning in mesh.warnings.iter().take(WARNINGS) {
        screen.entry_in("network", warning, Tone::Doubt, 2);
    }
    // A path may be longer than a line, and half of one is of no use.
    let page = directory.map(|directory| format!("a page     sysdyno fleet {directory} --format html -o FILE"));
    let end = [Some(format!("file       {file}")), page].into_iter().flatten();
    screen.ended(end.map(|text| vec![Cell::toned(text, Tone::Faint)]).collect())
}

/// The part.
pub fn part(mesh: &Mesh) -> PagePart {
    let mut part = PagePart::new("mesh", "The network between the nodes", 2);
    part.add(Piece::Paragraph(vec![Span::strong(verdict(mesh))]));
    part.say(format!("{}. Started at {}.", extent(mesh), mesh.started));
    if !mesh.findings.is_empty() {
        part.add(Piece::Table(findings(mesh)));
    }
    for warning in &mesh.warnings {
        part.say(format!("{warning}."));
    }
    if let Some(typical) = &mesh.typical {
        let blocks = blocks(mesh);
        part.add(Piece::Drawing(Box::new(rates(mesh, typical, &blocks))));
        part.add(Piece::Drawing(Box::new(round_trips(mesh, typical, &blocks))));
        if !mesh.uplinks.is_empty() {
            part.add(Piece::Table(uplinks(mesh)));
        }
    }
    let missing = missing(mesh);
    if !missing.is_empty() {
        part.say("Not measured:");
        part.add(Piece::List(missing.into_iter().take(MOST_PAIRS).map(|line| vec![Span::plain(line)]).collect()));
    }
    let mode = if mesh.plan.mode == MeshMode::Alone {
        "One pair was measured at a time."
    } else {
        "All pairs of a round were measured at once, so they share the links between the switches."
    };
    part.say(mode);
    part.say("The logarithm of a rate is split by medians into what its sender, its receiver and its two racks have in common.");
    part.say("What is left belongs to the pair. A pair that differs is measured three times.");
    part
}

/// A rate in bytes per second.
fn rate(bytes_per_second: f64) -> String {
    significant(bytes_per_second, Unit::BytesPerSecond, DIGITS)
}

/// A time in seconds.
fn time(seconds: f64) -> String {
    significant(seconds * 1e9, Unit::Nanoseconds, DIGITS)
}

/// The answer in one or two sentences.
fn verdict(mesh: &Mesh) -> String {
    let findings = mesh.findings.len();
    let named: Vec<String> = mesh.findings.iter().map(MeshFinding::title).collect();
    let missing = mesh.missing().len() as u64;
    let first = match mesh.verdict {
        MeshVerdict::Odd if findings == 1 => format!("1 thing is odd: {}.", named[0]),
        MeshVerdict::Odd => format!("{findings} things are odd: {}.", some(&named, NAMED)),
        _ if mesh.undecided.len() == mesh.members.len() => {
            "The pairs are too few to judge: each member needs 3 or more.".to_owned()
        }
        _ => "No sender, receiver or link is odd.".to_owned(),
    };
    if missing > 0 { format!("{first} {} missing.", count(missing, "pair is", "pairs are")) } else { first }
}

/// What was measured, in a line.
fn extent(mesh: &Mesh) -> String {
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
    let network = if networks.is_empty() { String::new() } else { format!(", {}", some(&networks, 1)) };
    let members = count(mesh.members.len() as u64, "node", "nodes");
    format!("{members}, {} {mode}{network}, {}", count(measured, "pair", "pairs"), duration(mesh.seconds))
}

/// A finding with its numbers.
pub(super) fn finding(finding: &MeshFinding) -> String {
    let what = if finding.kind.is_latency() { time(finding.typical) } else { rate(finding.typical) };
    format!("{}: {what}, {} (z {})", finding.title(), signed(finding.effect), deviations(finding.z))
}

/// Rates and round trips as ranges with their medians.
fn typical(mesh: &Mesh) -> Option<[String; 2]> {
    let typical = mesh.typical.as_ref()?;
    let words = |[low, middle, high]: [f64; 3], of: fn(f64) -> String| {
        format!("{} to {}, median {}", of(low), of(high), of(middle))
    };
    Some([words(typical.rate, rate), words(typical.round_trip, time)])
}

/// Members that are out, each with the reason and the number of its missing pairs; then pairs that are missing for another reason.
fn missing(mesh: &Mesh) -> Vec<String> {
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
fn undecided(mesh: &Mesh) -> Option<String> {
    let names = fold(mesh.undecided.iter().map(String::as_str));
    (!names.is_empty()).then(|| format!("{}: {names}", count(mesh.undecided.len() as u64, "node", "nodes")))
}

fn findings(mesh: &Mesh) -> Table {
    let mut table = Table::new("What is odd.", &["what", "where", ">median", ">difference", ">deviations", ">values"]);
    for finding in &mesh.findings {
        let typical = if finding.kind.is_latency() { time(finding.typical) } else { rate(finding.typical) };
        table.row(vec![
            Cell::toned(finding.kind.words(), Tone::Bad),
            Cell::of(finding.names.join(", ")),
            Cell::of(typical),
            Cell::of(signed(finding.effect)),
            Cell::of(format!("{:.1}", finding.z.abs())),
            Cell::of(finding.values.to_string()),
        ]);
    }
    table
}

fn uplinks(mesh: &Mesh) -> Table {
    let usual = if mesh.uplinks.len() < 3 { "rates within racks" } else { "other pairs of racks" };
    let caption = format!("Pairs of racks, the slowest first. Differences are from {usual}.");
    let mut table = Table::new(&caption, &["racks", ">flows", ">rate", ">round trip"]);
    let mut pairs: Vec<_> = mesh.uplinks.iter().collect();
    pairs.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    for pair in pairs.into_iter().take(MOST_PAIRS) {
        table.row(vec![
            Cell::of(pair.racks.join(", ")),
            Cell::of(pair.flows.to_string()),
            Cell::of(signed(pair.rate)),
            pair.latency.map_or_else(Cell::none, |latency| Cell::of(signed(latency))),
        ]);
    }
    table
}

/// Members in rows of a heat map: each alone, or in blocks.
struct Blocks {
    names: Vec<String>,
    begins: Vec<bool>,
    /// The row of each rank.
    of_rank: Vec<usize>,
}

/// In the order of racks. Above 64 members a row is a rack, or where racks do not help, a range of members.
fn blocks(mesh: &Mesh) -> Blocks {
    let mut order: Vec<&MeshMember> = mesh.members.iter().collect();
    order.sort_by_key(|member| (&member.rack, member.rank));
    let racks: BTreeMap<&Option<String>, usize> = order.iter().fold(BTreeMap::new(), |mut racks, member| {
        let next = racks.len();
        racks.entry(&member.rack).or_insert(next);
        racks
    });
    let many = order.len() > MOST_ROWS;
    let by_rack = many && (2..=MOST_ROWS).contains(&racks.len());
    let wide = if many { order.len().div_ceil(MOST_ROWS) } else { 1 };
    let row = |place: usize, member: &MeshMember| if by_rack { racks[&member.rack] } else { place / wide };
    let mut blocks = Blocks { names: Vec::new(), begins: Vec::new(), of_rank: vec![0; order.len()] };
    for (place, member) in order.iter().enumerate() {
        let row = row(place, member);
        blocks.of_rank[member.rank as usize] = row;
        if row == blocks.names.len() {
            let rack = member.rack.clone().unwrap_or_else(|| "no rack".to_owned());
            let more = if wide > 1 { "…" } else { "" };
            blocks.names.push(if by_rack { rack } else { format!("{}{more}", member.node) });
            let before = place.checked_sub(1).map(|before| &order[before].rack);
            blocks.begins.push(!by_rack && before != Some(&member.rack));
        }
    }
    blocks
}

/// The map of ratios by ranks, and of the effects of members.
fn map(blocks: &Blocks, sides: [&str; 2], values: &[(u32, u32, f64)], margins: [Vec<Option<f64>>; 2]) -> HeatPlot {
    let rows = blocks.names.len();
    let mut cells: Vec<Vec<Vec<f64>>> = vec![vec![Vec::new(); rows]; rows];
    for (from, to, ratio) in values {
        cells[blocks.of_rank[*from as usize]][blocks.of_rank[*to as usize]].push(*ratio);
    }
    let margin = |effects: Vec<Option<f64>>| -> Vec<Option<f64>> {
        let mut found: Vec<Vec<f64>> = vec![Vec::new(); rows];
        for (effect, row) in effects.iter().zip(&blocks.of_rank) {
            found[*row].extend(effect);
        }
        found.iter().map(|ratios| median(ratios)).collect()
    };
    HeatPlot {
        sides: sides.map(str::to_owned),
        names: blocks.names.clone(),
        begins: blocks.begins.clone(),
        cells: cells.iter().map(|row| row.iter().map(|ratios| median(ratios)).collect()).collect(),
        margins: margins.map(margin),
    }
}

/// The worst pairs of a table.
fn worst(mesh: &Mesh, head: &str, mut values: Vec<(u32, u32, f64)>, words: impl Fn(f64) -> String) -> Table {
    values.sort_by(|one, other| one.2.total_cmp(&other.2));
    let shown = values.len().min(MOST_PAIRS);
    let caption = format!("The worst {shown} of {}.", values.len());
    let mut table = Table::new(&caption, &["from", "to", head, ">over usual"]);
    let name = |rank: u32| Cell::of(&mesh.members[rank as usize].node);
    for (from, to, ratio) in values.into_iter().take(MOST_PAIRS) {
        table.row(vec![name(from), name(to), Cell::of(words(ratio)), Cell::of(format!("{:.0} %", 100.0 * ratio))]);
    }
    table
}

fn of_blocks(mesh: &Mesh, blocks: &Blocks) -> String {
    let (members, rows) = (mesh.members.len(), blocks.names.len());
    if members > rows { format!(" Each row is the median of several of {members} nodes.") } else { String::new() }
}

fn rates(mesh: &Mesh, typical: &MeshTypical, blocks: &Blocks) -> Drawing {
    let usual = typical.rate[1].max(1.0);
    let values: Vec<(u32, u32, f64)> = mesh
        .best()
        .into_iter()
        .flat_map(|((one, other), pair)| [(one, other, pair.up as f64 / usual), (other, one, pair.down as f64 / usual)])
        .collect();
    let of = |effect: fn(&MeshMember) -> Option<f64>| -> Vec<Option<f64>> {
        mesh.members.iter().map(|member| effect(member).map(|effect| 1.0 + effect)).collect()
    };
    let margins = [of(|member| member.send), of(|member| member.receive)];
    let caption = format!("Rates over their median, {}.{}", rate(usual), of_blocks(mesh, blocks));
    Drawing {
        id: "mesh-rates".to_owned(),
        alt: caption.clone(),
        caption,
        plot: Plot::Heat(map(blocks, ["Senders", "receivers"], &values, margins)),
        values: worst(mesh, ">rate", values, |ratio| rate(ratio * usual)),
    }
}

fn round_trips(mesh: &Mesh, typical: &MeshTypical, blocks: &Blocks) -> Drawing {
    let usual = typical.round_trip[1].max(1e-9);
    let once: Vec<(u32, u32, f64)> = mesh
        .best()
        .into_iter()
        .map(|((one, other), pair)| (one, other, usual * 1e9 / pair.round_trip.max(1) as f64))
        .collect();
    let both: Vec<(u32, u32, f64)> =
        once.iter().flat_map(|&(one, other, ratio)| [(one, other, ratio), (other, one, ratio)]).collect();
    let margin: Vec<Option<f64>> =
        mesh.members.iter().map(|member| member.latency.map(|effect| 1.0 / (1.0 + effect).max(1e-6))).collect();
    let caption = format!(
        "The median round trip, {}, over the round trip of each pair. Less is slower.{}",
        time(usual),
        of_blocks(mesh, blocks)
    );
    Drawing {
        id: "mesh-round-trips".to_owned(),
        alt: caption.clone(),
        caption,
        plot: Plot::Heat(map(blocks, ["Nodes", "nodes"], &both, [margin.clone(), margin])),
        values: worst(mesh, ">round trip", once, |ratio| time(usual / ratio)),
    }
}
