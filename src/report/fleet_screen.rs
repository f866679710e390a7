//! The answer about a fleet on one screen: which nodes are odd, what they look like, which facts differ, and what to measure again.

use super::fleet_words as words;
use super::screen::{Ink, Line, cut, folded};
use crate::results::fleet::{AxisState, Fleet, FleetNode, NodeVerdict, Upgrade};
use crate::results::wording::count;

/// Width where there is no terminal.
const WIDTH: u16 = 80;
/// Lines of the screen.
const LINES: usize = 24;
/// Most entries of each kind.
const ODD: usize = 4;
const RACKS: usize = 2;
const FACTS: usize = 3;
const SPLITS: usize = 2;
const GROUPS: usize = 2;
const CHANGES: usize = 4;
const ASIDE: usize = 1;
/// Width of the word before a line.
const MARK: usize = 11;

/// The screen; with `all`, everything.
pub fn screen(fleet: &Fleet, width: Option<u16>, all: bool) -> Vec<Line> {
    let wide = usize::from(width.unwrap_or(WIDTH)).max(60);
    let most = |number: usize| if all { usize::MAX } else { number };
    let mut lines = folded(&words::verdict(fleet), wide, "", Ink::Strong, if all { 999 } else { 2 });
    for group in fleet.groups.iter().take(most(GROUPS)) {
        lines.push(entry("group", &words::group(group), wide, Ink::Faint));
    }
    if let Some(upgrade) = &fleet.before {
        lines.extend(changes(upgrade, wide, most(CHANGES)));
    }
    let odd: Vec<&FleetNode> = fleet.nodes(NodeVerdict::Odd).map(|(_, node)| node).collect();
    // With a comparison there is less space for the rest.
    let shown = most(if fleet.before.is_some() { 2 } else { ODD }).min(odd.len());
    for node in &odd[..shown] {
        lines.extend(of_node("odd", node, wide, Ink::Bad));
    }
    if odd.len() > shown {
        let text = format!("{} more odd nodes: --all", odd.len() - shown);
        lines.push(entry("", &text, wide, Ink::Bad));
    }
    let racks: Vec<String> = fleet.groups.iter().flat_map(|group| &group.racks).map(words::rack).collect();
    lines.extend(list("rack", &racks, wide, most(RACKS)));
    let facts: Vec<String> = fleet.groups.iter().flat_map(|group| &group.odd_facts).map(words::odd_fact).collect();
    lines.extend(list("differs", &facts, wide, most(FACTS)));
    let splits: Vec<String> = fleet.groups.iter().flat_map(|group| &group.splits).map(words::split).collect();
    lines.extend(list("explained", &splits, wide, most(SPLITS)));
    lines.extend(open(fleet, wide, all));
    let aside: Vec<String> =
        fleet.left_aside.iter().map(|aside| format!("{}: {}", aside.place, aside.reason)).collect();
    lines.extend(list("not read", &aside, wide, most(ASIDE)));
    if !all {
        lines.truncate(LINES - 1);
        lines.push(entry("", &advice(fleet), wide, Ink::Faint));
    }
    lines
}

fn entry(mark: &str, text: &str, wide: usize, ink: Ink) -> Line {
    vec![(format!("{mark:<MARK$}"), ink), (cut(text, wide - MARK), Ink::Plain)]
}

/// Some entries of a kind, and how many there are besides.
fn list(mark: &str, texts: &[String], wide: usize, most: usize) -> Vec<Line> {
    let shown = most.min(texts.len());
    let mut lines: Vec<Line> = texts[..shown].iter().map(|text| entry(mark, text, wide, Ink::Notable)).collect();
    if texts.len() > shown
        && let Some(last) = lines.pop()
    {
        let rest = format!(" (+{} more: --all)", texts.len() - shown);
        let text = cut(&last[1].0, wide - MARK - rest.chars().count());
        lines.push(vec![last[0].clone(), (text + &rest, Ink::Plain)]);
    }
    lines
}

fn of_node(mark: &str, node: &FleetNode, wide: usize, ink: Ink) -> [Line; 2] {
    let found = words::findings(node, words::state(node)).join(", ");
    [entry(mark, &words::name(node), wide, ink), entry("", &found, wide, ink)]
}

/// What changed since the earlier state.
fn changes(upgrade: &Upgrade, wide: usize, most: usize) -> Vec<Line> {
    let mut lines = vec![entry("before", &words::upgrade(upgrade), wide, Ink::Strong)];
    let facts: Vec<String> = upgrade
        .facts
        .iter()
        .map(|fact| format!("{}: {} → {} on {}", fact.fact, fact.before, fact.now, words::names(&fact.nodes)))
        .collect();
    lines.extend(list("changed", &facts, wide, most.min(2)));
    let axes: Vec<String> = upgrade.axes.iter().filter(|axis| axis.changed).map(words::change).collect();
    lines.extend(list("changed", &axes, wide, most));
    lines
}

/// What is not decided, with names; with `all`, what each node shows.
fn open(fleet: &Fleet, wide: usize, all: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    for (mark, verdict) in [("suspect", NodeVerdict::Suspect), ("undecided", NodeVerdict::Undecided)] {
        let names = fleet.names(verdict);
        if names.is_empty() {
            continue;
        }
        let text = format!("{}: {}", count(names.len() as u64, "node", "nodes"), words::names(&names));
        lines.push(entry(mark, &text, wide, Ink::Notable));
        for (_, node) in fleet.nodes(verdict).filter(|_| all) {
            let found = if verdict == NodeVerdict::Suspect {
                words::findings(node, AxisState::Suspect)
            } else {
                let reason = |axis: &crate::results::fleet::NodeAxis| {
                    format!("{} {}", axis.axis.name(), axis.reason.as_deref().unwrap_or("undecided"))
                };
                node.axes_in(AxisState::Undecided).map(reason).collect()
            };
            lines.push(entry("", &format!("{}: {}", node.name, found.join(", ")), wide, Ink::Faint));
        }
    }
    for (mark, names) in [("missing", &fleet.missing), ("partial", &fleet.partial), ("unexpected", &fleet.unexpected)] {
        if !names.is_empty() {
            let text = format!("{}: {}", count(names.len() as u64, "node", "nodes"), words::names(names));
            lines.push(entry(mark, &text, wide, Ink::Notable));
        }
    }
    lines
}

fn advice(fleet: &Fleet) -> String {
    let again = if fleet.again.is_empty() { "" } else { "Nodes to measure again: --again. " };
    format!("{again}Everything: --all. A page: --format html -o FILE")
}
