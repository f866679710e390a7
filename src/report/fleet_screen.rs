//! The answer about a fleet on one screen: which nodes are odd, what they look like, which facts differ, and what to measure
//! again.

use super::fleet_words as words;
use super::mesh_words;
use super::screen::{Ink, Line, cut, folded};
use crate::results::fleet::{AxisState, ChangedFact, Fleet, FleetNode, NodeGroup, NodeVerdict, Upgrade};
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
const LINKS: usize = 4;
const CHANGES: usize = 4;
const CHANGED_FACTS: usize = 2;
const OPEN_AXES: usize = 2;
const ASIDE: usize = 1;
/// Width of the word before a line.
const MARK: usize = 11;

/// The screen; with `all`, everything.
pub fn screen(fleet: &Fleet, width: Option<u16>, all: bool) -> Vec<Line> {
    let place = Place { wide: usize::from(width.unwrap_or(WIDTH)).max(60), all };
    let mut lines = folded(&words::verdict(fleet), place.wide, "", Ink::Strong, if all { usize::MAX } else { 2 });
    let of_groups =
        |words: &dyn Fn(&NodeGroup) -> Vec<String>| -> Vec<String> { fleet.groups.iter().flat_map(words).collect() };
    lines.extend(place.list("group", &words::groups(fleet), GROUPS));
    if let Some(upgrade) = &fleet.before {
        lines.extend(changes(upgrade, &place));
    }
    if let Some(mesh) = &fleet.mesh {
        if !fleet.is_mesh_alone() {
            lines.extend(place.entry("network", &words::mesh(mesh), Ink::Plain));
        }
        let findings: Vec<String> = mesh.findings.iter().map(mesh_words::finding).collect();
        lines.extend(place.list("link", &findings, LINKS));
        lines.extend(place.entry("", &mesh.place, Ink::Faint));
    }
    let odd: Vec<&FleetNode> = fleet.nodes(NodeVerdict::Odd).map(|(_, node)| node).collect();
    // With a comparison there is less space for the rest.
    let most = if all {
        usize::MAX
    } else if fleet.before.is_some() {
        2
    } else {
        ODD
    };
    for node in odd.iter().take(most) {
        lines.extend(place.entry("odd", &words::name(node), Ink::Bad));
        lines.extend(place.entry("", &words::findings(node, AxisState::Odd).join(", "), Ink::Bad));
    }
    if odd.len() > most {
        lines.extend(place.entry(
            "",
            &format!("{}: --all", count((odd.len() - most) as u64, "more odd node", "more odd nodes")),
            Ink::Bad,
        ));
    }
    lines.extend(place.list("rack", &of_groups(&|group| group.racks.iter().map(words::rack).collect()), RACKS));
    lines.extend(place.list(
        "differs",
        &of_groups(&|group| group.odd_facts.iter().map(words::odd_fact).collect()),
        FACTS,
    ));
    lines.extend(place.list("explained", &of_groups(&|group| group.splits.iter().map(words::split).collect()), SPLITS));
    lines.extend(open(fleet, &place));
    let aside = fleet.left_aside.iter().map(|aside| format!("{}: {}", aside.place, aside.reason));
    lines.extend(place.list("not read", &aside.collect::<Vec<String>>(), ASIDE));
    if !all {
        lines.truncate(LINES - 1);
        lines.extend(place.entry("", &advice(fleet), Ink::Faint));
    }
    lines
}

/// Where the answer is shown, and how much of it.
struct Place {
    wide: usize,
    all: bool,
}

impl Place {
    /// A text behind a mark: cut to a line, or folded where everything is shown.
    fn entry(&self, mark: &str, text: &str, ink: Ink) -> Vec<Line> {
        let space = self.wide - MARK;
        let texts = if self.all {
            folded(text, space, "", Ink::Plain, usize::MAX)
        } else {
            vec![vec![(cut(text, space), Ink::Plain)]]
        };
        let mark_of = |number: usize| if number == 0 { mark } else { "" };
        let lines = texts.into_iter().enumerate();
        lines.map(|(number, line)| [vec![(format!("{:<MARK$}", mark_of(number)), ink)], line].concat()).collect()
    }

    /// Some entries of a kind, and how many there are besides.
    fn list(&self, mark: &str, texts: &[String], most: usize) -> Vec<Line> {
        let shown = if self.all { texts.len() } else { most.min(texts.len()) };
        let mut lines = Vec::new();
        for (number, text) in texts[..shown].iter().enumerate() {
            let rest = texts.len() - shown;
            if number + 1 == shown && rest > 0 {
                let rest = format!(" (+{rest} more: --all)");
                let text = cut(text, self.wide - MARK - rest.chars().count());
                lines.extend(self.entry(mark, &(text + &rest), Ink::Notable));
            } else {
                lines.extend(self.entry(mark, text, Ink::Notable));
            }
        }
        lines
    }
}

/// What changed since the earlier state.
fn changes(upgrade: &Upgrade, place: &Place) -> Vec<Line> {
    let mut lines = place.entry("before", &words::upgrade(upgrade), Ink::Strong);
    let fact =
        |fact: &ChangedFact| format!("{}: {} → {} on {}", fact.fact, fact.before, fact.now, words::names(&fact.nodes));
    lines.extend(place.list("changed", &upgrade.facts.iter().map(fact).collect::<Vec<String>>(), CHANGED_FACTS));
    let axes = upgrade.axes.iter().filter(|axis| axis.changed).map(words::change);
    lines.extend(place.list("changed", &axes.collect::<Vec<String>>(), CHANGES));
    lines
}

/// What is not decided, with names; where everything is shown, what each node shows.
fn open(fleet: &Fleet, place: &Place) -> Vec<Line> {
    let mut lines = Vec::new();
    let names = |mark: &str, names: &[String]| {
        let text = format!("{}: {}", count(names.len() as u64, "node", "nodes"), words::names(names));
        if names.is_empty() { Vec::new() } else { place.entry(mark, &text, Ink::Notable) }
    };
    for (mark, verdict) in [("suspect", NodeVerdict::Suspect), ("undecided", NodeVerdict::Undecided)] {
        lines.extend(names(mark, &fleet.names(verdict)));
        for (_, node) in fleet.nodes(verdict).filter(|_| place.all) {
            let found = if verdict == NodeVerdict::Suspect {
                words::findings(node, AxisState::Suspect)
            } else {
                words::reasons(node)
            };
            lines.extend(place.entry("", &format!("{}: {}", node.name, found.join(", ")), Ink::Faint));
        }
    }
    let axes: Vec<String> = fleet.groups.iter().flat_map(words::open_axes).collect();
    lines.extend(place.list("undecided", &axes, OPEN_AXES));
    for (mark, found) in [("missing", &fleet.missing), ("partial", &fleet.partial), ("unexpected", &fleet.unexpected)] {
        lines.extend(names(mark, found));
    }
    lines
}

fn advice(fleet: &Fleet) -> String {
    let again = if fleet.again.is_empty() { "" } else { "To measure again: --again. " };
    format!("{again}All: --all. A page: --format html -o FILE")
}
