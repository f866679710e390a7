//! The answer about a fleet, as a page and on one screen: odd nodes first, then facts, every axis of all nodes, what is open, and
//! how it was decided.

use std::collections::BTreeMap;

use super::fleet_words as words;
use super::{fact, mesh};
use crate::report::drawing::{Drawing, Plot, PlotMark, PlotRow, RowPlot, StripPlot, StripRow};
use crate::report::page::{Cell, Page, PagePart, Piece, Span, Table, Tone};
use crate::report::screen::{Line, PAGE, Screen};
use crate::results::drawing_note::Scale;
use crate::results::fleet::{
    Axis, AxisState, ChangedFact, Fleet, FleetNode, NodeAxis, NodeGroup, NodeVerdict, Upgrade,
};
use crate::results::mesh::Mesh;
use crate::results::quantity::Unit;
use crate::results::wording::{count, percent};

/// Nodes of the ranking's drawing; the table has all.
const MOST_DRAWN: usize = 12;
/// Axes of a node in the drawing.
const MOST_AXES: usize = 5;

/// The page. `whole` is the mesh that the fleet has a summary of.
pub fn page(fleet: &Fleet, whole: Option<&Mesh>) -> Page {
    let mut parts = vec![front(fleet)];
    // A directory with a mesh alone has no runs of nodes.
    if !fleet.is_mesh_alone() {
        parts.push(ranking(fleet));
    }
    parts.extend(whole.map(mesh::part));
    if fleet.is_mesh_alone() {
        let pairs = fleet.mesh.as_ref().map_or(0, |mesh| u64::from(mesh.pairs));
        let subtitle = count(pairs, "pair of nodes", "pairs of nodes");
        return Page { title: "Which link is odd?".to_owned(), subtitle, parts };
    }
    parts.extend(fleet.before.as_ref().map(before));
    parts.push(facts(fleet));
    for (number, group) in fleet.groups.iter().enumerate().filter(|(_, group)| group.judged) {
        parts.push(strips(number, group, &words::apart(fleet, group)));
    }
    parts.push(open(fleet));
    parts.push(method(fleet));
    let nodes = words::all_nodes(fleet);
    let runs = count(u64::from(fleet.runs), "run", "runs");
    Page { title: "Which node is odd?".to_owned(), subtitle: format!("{nodes}, {runs} read"), parts }
}

/// Most entries of each kind on a screen.
const ODD: usize = 4;
/// Odd nodes next to a comparison, which leaves less room.
const ODD_NOW: usize = 2;
const RACKS: usize = 2;
const FACTS: usize = 3;
const SPLITS: usize = 2;
const GROUPS: usize = 2;
const LINKS: usize = 4;
const CHANGES: usize = 4;
const CHANGED_FACTS: usize = 2;
const OPEN_AXES: usize = 2;
const ASIDE: usize = 1;

/// The answer on one screen; with `all`, everything.
pub fn screen(fleet: &Fleet, width: Option<u16>, all: bool) -> Vec<Line> {
    let mut screen = Screen::new(width, all);
    screen.say(&words::verdict(fleet), Tone::Strong, screen.most(2));
    screen.list("group", &words::groups(fleet), GROUPS, Tone::Doubt);
    if let Some(upgrade) = &fleet.before {
        add_changes(&mut screen, upgrade);
    }
    if let Some(found) = &fleet.mesh {
        if !fleet.is_mesh_alone() {
            screen.entry("network", &words::mesh(found), Tone::Plain);
        }
        let findings: Vec<String> = found.findings.iter().map(mesh::finding).collect();
        screen.list("link", &findings, LINKS, Tone::Doubt);
        screen.entry("", &found.place, Tone::Faint);
    }
    let odd: Vec<&FleetNode> = fleet.nodes(NodeVerdict::Odd).map(|(_, node)| node).collect();
    let shown = screen.most(if fleet.before.is_some() { ODD_NOW } else { ODD }).min(odd.len());
    for (number, node) in odd[..shown].iter().enumerate() {
        let rest = if number + 1 == shown { odd.len() - shown } else { 0 };
        screen.entry("odd", &screen.counted(&words::name(node), rest), Tone::Bad);
        screen.entry("", &words::findings(node, AxisState::Odd).join(", "), Tone::Bad);
    }
    let of_groups =
        |words: &dyn Fn(&NodeGroup) -> Vec<String>| -> Vec<String> { fleet.groups.iter().flat_map(words).collect() };
    for (mark, texts, most) in [
        ("rack", of_groups(&|group| group.racks.iter().map(words::rack).collect()), RACKS),
        ("differs", of_groups(&|group| group.odd_facts.iter().map(words::odd_fact).collect()), FACTS),
        ("explained", of_groups(&|group| group.splits.iter().map(words::split).collect()), SPLITS),
    ] {
        screen.list(mark, &texts, most, Tone::Doubt);
    }
    add_open(&mut screen, fleet);
    let aside = fleet.left_aside.iter().map(|aside| format!("{}: {}", aside.place, aside.reason));
    screen.list("not read", &aside.collect::<Vec<String>>(), ASIDE, Tone::Doubt);
    if all {
        return screen.lines;
    }
    let again = if fleet.again.is_empty() { "" } else { "To measure again: --again. " };
    let mut end = Screen::new(width, all);
    end.entry("", &format!("{again}All: --all. {PAGE}"), Tone::Faint);
    screen.ended(end.lines)
}

/// Adds what changed since the earlier state.
fn add_changes(screen: &mut Screen, upgrade: &Upgrade) {
    screen.entry("before", &words::upgrade(upgrade), Tone::Strong);
    let on_nodes = |found: &ChangedFact| {
        let change = fact(&found.fact, &found.before, &found.now);
        format!("{change} on {}", words::names(&found.nodes))
    };
    screen.list("changed", &upgrade.facts.iter().map(on_nodes).collect::<Vec<_>>(), CHANGED_FACTS, Tone::Doubt);
    let axes = upgrade.axes.iter().filter(|axis| axis.changed).map(words::change);
    screen.list("changed", &axes.collect::<Vec<String>>(), CHANGES, Tone::Doubt);
}

/// Adds what is not decided, with names; where everything is shown, what each node shows.
fn add_open(screen: &mut Screen, fleet: &Fleet) {
    let add_names = |screen: &mut Screen, mark: &str, names: &[String]| {
        if !names.is_empty() {
            let nodes = count(names.len() as u64, "node", "nodes");
            screen.entry(mark, &format!("{nodes}: {}", words::names(names)), Tone::Doubt);
        }
    };
    for (mark, verdict) in [("suspect", NodeVerdict::Suspect), ("undecided", NodeVerdict::Undecided)] {
        add_names(screen, mark, &fleet.names(verdict));
        for (_, node) in fleet.nodes(verdict).filter(|_| screen.all).collect::<Vec<_>>() {
            let found = match verdict {
                NodeVerdict::Suspect => words::findings(node, AxisState::Suspect),
                _ => words::reasons(node),
            };
            screen.entry("", &format!("{}: {}", node.name, found.join(", ")), Tone::Faint);
        }
    }
    let axes: Vec<String> = fleet.groups.iter().flat_map(words::open_axes).collect();
    screen.list("undecided", &axes, OPEN_AXES, Tone::Doubt);
    for (mark, found) in [("missing", &fleet.missing), ("partial", &fleet.partial), ("unexpected", &fleet.unexpected)] {
        add_names(screen, mark, found);
    }
}

fn front(fleet: &Fleet) -> PagePart {
    let mut part = PagePart::new("glance", "At a glance", 2);
    part.add(Piece::Paragraph(vec![Span::strong(words::verdict(fleet))]));
    if let Some(mesh) = fleet.mesh.as_ref().filter(|_| !fleet.is_mesh_alone()) {
        part.say(words::mesh(mesh));
    }
    if let Some(upgrade) = &fleet.before {
        part.say(words::upgrade(upgrade));
    }
    let groups: Vec<Vec<Span>> = words::groups(fleet).into_iter().map(|line| vec![Span::plain(line)]).collect();
    if !groups.is_empty() {
        part.add(Piece::List(groups));
    }
    if !fleet.again.is_empty() {
        part.say("Measure these nodes again. The list contains as many healthy nodes as open ones, as a yardstick.");
        part.add(Piece::Literal(words::names(&fleet.again)));
    }
    part
}

fn ranking(fleet: &Fleet) -> PagePart {
    let mut part = PagePart::new("odd", "Odd nodes", 2);
    let mut nodes: Vec<&FleetNode> = [NodeVerdict::Odd, NodeVerdict::Suspect]
        .into_iter()
        .flat_map(|verdict| fleet.nodes(verdict))
        .map(|(_, node)| node)
        .collect();
    let size =
        |node: &FleetNode| node.axes_in(words::state(node)).filter_map(|axis| axis.z).map(f64::abs).fold(0.0, f64::max);
    nodes.sort_by(|one, other| {
        let odd = |node: &FleetNode| node.verdict == NodeVerdict::Odd;
        odd(other).cmp(&odd(one)).then_with(|| size(other).total_cmp(&size(one)))
    });
    if nodes.is_empty() {
        part.say("No node differs from its siblings.");
    } else {
        part.add(Piece::Drawing(Box::new(bars(&nodes))));
        part.add(Piece::Table(table(&nodes)));
    }
    let mut racks = Table::new(
        "Racks that differ as a whole. Their nodes are compared with each other.",
        &["rack", "axis", ">difference", ">nodes", "runs", "state"],
    );
    for rack in fleet.groups.iter().flat_map(|group| &group.racks) {
        let rounds: Vec<String> = rack.rounds.iter().map(u32::to_string).collect();
        let (state, tone) =
            if rack.confirmed { ("in every run", Tone::Bad) } else { ("not in every run", Tone::Doubt) };
        racks.row(vec![
            Cell::of(&rack.rack),
            Cell::of(rack.axis.name()),
            Cell::of(words::difference(rack.axis, rack.effect)),
            Cell::of(rack.nodes.to_string()),
            Cell::of(rounds.join(", ")),
            Cell::toned(state, tone),
        ]);
    }
    if !racks.is_empty() {
        part.add(Piece::Table(racks));
    }
    part
}

fn table(nodes: &[&FleetNode]) -> Table {
    let mut table = Table::new(
        "A node is odd if two runs or more show the difference. A suspect has one run that does.",
        &["node", "rack", "verdict", "differences", "looks like", ">runs"],
    );
    for node in nodes {
        let (word, tone) = if node.verdict == NodeVerdict::Odd { ("odd", Tone::Bad) } else { ("suspect", Tone::Doubt) };
        table.row(vec![
            Cell::of(&node.name),
            node.rack.as_ref().map_or_else(Cell::none, Cell::of),
            Cell::toned(word, tone),
            Cell::of(words::findings(node, words::state(node)).join(", ")),
            node.cause.as_ref().map_or_else(Cell::none, Cell::of),
            Cell::of(node.runs.to_string()),
        ]);
    }
    table
}

/// The axes of each node as bars from its siblings' median.
fn bars(nodes: &[&FleetNode]) -> Drawing {
    let shown = &nodes[..nodes.len().min(MOST_DRAWN)];
    let mut rows = Vec::new();
    for node in shown {
        // The cause is in the table: on a phone a heading has 40 letters.
        let rack = node.rack.as_ref().map_or_else(String::new, |rack| format!(" (rack {rack})"));
        rows.push(PlotRow::head(&format!("{}{rack}", node.name)));
        let mut axes: Vec<&NodeAxis> = node.axes_in(words::state(node)).collect();
        axes.sort_by(|one, other| other.z.unwrap_or(0.0).abs().total_cmp(&one.z.unwrap_or(0.0).abs()));
        for axis in axes.into_iter().take(MOST_AXES) {
            let ratio = 1.0 + axis.effect.unwrap_or(0.0);
            rows.push(PlotRow {
                name: words::axis(axis),
                head: false,
                bar: Some([ratio.min(1.0), ratio.max(1.0)]),
                marks: vec![PlotMark {
                    value: ratio,
                    interval: None,
                    series: usize::from(ratio <= 1.0),
                    hollow: node.verdict != NodeVerdict::Odd,
                    strong: false,
                    title: format!("{}: {}", node.name, words::axis(axis)),
                }],
            });
        }
    }
    let left_out = nodes.len() - shown.len();
    let more = if left_out > 0 { format!(" {left_out} more are in the table.") } else { String::new() };
    let caption = format!(
        "Speed of odd and suspect nodes: a rate, or the inverse of a time. 1 is the median of the siblings.{more}"
    );
    Drawing {
        id: "odd-nodes".to_owned(),
        alt: caption.clone(),
        caption,
        plot: Plot::Rows(RowPlot {
            label: "speed of the node over its siblings".to_owned(),
            unit: Unit::One,
            scale: Scale::Logarithmic,
            series: vec!["better".to_owned(), "worse".to_owned()],
            bars: None,
            diamonds: None,
            hollow: Some("hollow: suspect".to_owned()),
            reaches_hollow: false,
            reference: Some(1.0),
            rows,
        }),
        values: table(shown),
    }
}

fn before(upgrade: &Upgrade) -> PagePart {
    let mut part = PagePart::new("before", "Before and now", 2);
    part.say(words::upgrade(upgrade));
    let mut axes = Table::new(
        "Changes of nodes that both states have. A change is shown if its p value, times the number of axes, is below 0.05.",
        &["axis", ">change", ">95 % interval", ">nodes", ">p, adjusted", "finding", "nodes with another change"],
    );
    for axis in &upgrade.axes {
        let (word, tone) = match (axis.changed, axis.effect < 0.0) {
            (true, true) => ("worse", Tone::Bad),
            (true, false) => ("better", Tone::Good),
            (false, _) => ("not shown", Tone::Plain),
        };
        let interval = axis.interval.map(|ends| words::difference_range(axis.axis, ends));
        axes.row(vec![
            Cell::of(axis.axis.name()),
            Cell::of(words::difference(axis.axis, axis.effect)),
            interval.map_or_else(Cell::none, Cell::of),
            Cell::of(axis.nodes.to_string()),
            Cell::of(if axis.p < 0.001 { format!("{:.1e}", axis.p) } else { format!("{:.3}", axis.p) }),
            Cell::toned(word, tone),
            Cell::of(words::names(&axis.apart)),
        ]);
    }
    part.add(Piece::Table(axes));
    let mut facts = Table::new("Facts that changed.", &["fact", "before", "now", "nodes"]);
    for fact in &upgrade.facts {
        let cells = [&fact.fact, &fact.before, &fact.now].map(Cell::of);
        facts.row(cells.into_iter().chain([Cell::of(words::names(&fact.nodes))]).collect());
    }
    if !facts.is_empty() {
        part.add(Piece::Table(facts));
    }
    if !upgrade.unpaired.is_empty() {
        part.say(format!("Only one state has these nodes: {}", words::names(&upgrade.unpaired)));
    }
    part
}

fn facts(fleet: &Fleet) -> PagePart {
    let mut part = PagePart::new("facts", "Facts that differ", 2);
    let mut table =
        Table::new("Values that at most a tenth of the siblings has.", &["fact", "value", "nodes", "usual value"]);
    for fact in fleet.groups.iter().flat_map(|group| &group.odd_facts) {
        let nodes = words::names(&fact.nodes);
        table.row([&fact.fact, &fact.value, &nodes, &fact.usual].map(Cell::of).into_iter().collect());
    }
    if table.is_empty() {
        part.say("No fact distinguishes a few nodes from the rest.");
    } else {
        part.add(Piece::Table(table));
    }
    let splits = fleet.groups.iter().flat_map(|group| &group.splits);
    let splits: Vec<Vec<Span>> = splits.map(|split| vec![Span::plain(words::split(split))]).collect();
    if !splits.is_empty() {
        part.say("These facts explain differences between large groups. Nodes are compared within the groups.");
        part.add(Piece::List(splits));
    }
    part
}

/// Every node on every axis.
fn strips(number: usize, group: &NodeGroup, apart: &str) -> PagePart {
    let title = format!("All nodes of {}{apart}", group.fingerprint);
    let mut part = PagePart::new(&format!("axes-{number}"), &title, 2);
    let rows = group.axes.iter().map(|axis| {
        let found = || group.nodes.iter().flat_map(|node| node.axes.iter().map(move |found| (node, found)));
        let of_axis = || found().filter(|(_, found)| found.axis == axis.axis);
        let ratio = |found: &NodeAxis| 1.0 + found.effect.unwrap_or(0.0);
        let differs =
            |node: &FleetNode, found: &NodeAxis| found.state == AxisState::Odd && node.verdict == NodeVerdict::Odd;
        let decided = of_axis().filter(|(_, found)| found.effect.is_some_and(|effect| effect > -1.0));
        StripRow {
            name: axis.axis.name().to_owned(),
            band: [1.0 / (1.0 + axis.least), 1.0 + axis.least],
            ticks: decided.map(|(_, found)| ratio(found)).collect(),
            named: of_axis()
                .filter(|(node, found)| differs(node, found))
                .map(|(node, found)| (ratio(found), node.name.clone()))
                .collect(),
        }
    });
    let plot = StripPlot { label: "speed of the node over its siblings".to_owned(), rows: rows.collect() };
    let caption = "A tick is a node, right is better. The speed is a rate, or the inverse of a time. The band holds \
                   differences that do not count. Odd nodes have names.";
    part.add(Piece::Drawing(Box::new(Drawing {
        id: format!("axes-{number}"),
        caption: caption.to_owned(),
        alt: caption.to_owned(),
        plot: Plot::Strips(plot),
        values: axes(group),
    })));
    let lists = group
        .axes
        .iter()
        .map(|axis| vec![Span::strong(format!("{}: ", axis.axis.name())), Span::plain(axis.results.join(", "))]);
    let summary = "The key results of each axis".to_owned();
    part.add(Piece::Folded { summary, pieces: vec![Piece::List(lists.collect())] });
    part
}

fn axes(group: &NodeGroup) -> Table {
    let mut table = Table::new(
        "Scatter is the standard deviation between siblings.",
        &["axis", ">key results", ">scatter", ">smallest difference", ">decided", ">undecided"],
    );
    for axis in &group.axes {
        table.row(vec![
            Cell::of(axis.axis.name()),
            Cell::of(axis.results.len().to_string()),
            if axis.decided > 0 { Cell::of(percent(axis.scatter)) } else { Cell::none() },
            Cell::of(percent(axis.least)),
            Cell::of(axis.decided.to_string()),
            Cell::of(axis.undecided.to_string()),
        ]);
    }
    table
}

fn open(fleet: &Fleet) -> PagePart {
    let mut part = PagePart::new("open", "Not measured or not decided", 2);
    let mut table = Table::new("", &["what", ">nodes", "names"]);
    let (suspect, undecided) = (fleet.names(NodeVerdict::Suspect), fleet.names(NodeVerdict::Undecided));
    let not_judged = fleet.names(NodeVerdict::NotJudged);
    let lists = [
        ("differs in one run", &suspect),
        ("not decided on an axis", &undecided),
        ("too few siblings to judge", &not_judged),
        ("no run", &fleet.missing),
        ("no complete run", &fleet.partial),
        ("not in the list of expected nodes", &fleet.unexpected),
    ];
    for (what, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
        table.row(vec![Cell::of(what), Cell::of(names.len().to_string()), Cell::of(words::names(names))]);
    }
    let axes = open_axes(fleet);
    if table.is_empty() && axes.is_empty() {
        let nodes = if fleet.listed { "Every expected node" } else { "Every node" };
        part.say(format!("{nodes} has a complete run, and every axis is decided."));
    }
    for table in [table, axes].into_iter().filter(|table| !table.is_empty()) {
        part.add(Piece::Table(table));
    }
    if !fleet.left_aside.is_empty() {
        let mut table = Table::new("", &["file", "reason"]);
        for aside in &fleet.left_aside {
            table.row([&aside.place, &aside.reason].map(Cell::of).into_iter().collect());
        }
        let summary = format!("{} not used", count(fleet.left_aside.len() as u64, "file", "files"));
        part.add(Piece::Folded { summary, pieces: vec![Piece::Table(table)] });
    }
    part
}

/// The axes that are not decided, with the nodes for each reason.
fn open_axes(fleet: &Fleet) -> Table {
    let mut found: BTreeMap<(Axis, &str), Vec<String>> = BTreeMap::new();
    for node in fleet.groups.iter().flat_map(|group| &group.nodes) {
        for axis in node.axes_in(AxisState::Undecided) {
            let reason = axis.reason.as_deref().unwrap_or_default();
            found.entry((axis.axis, reason)).or_default().push(node.name.clone());
        }
    }
    let mut table = Table::new("Axes that are not decided.", &["axis", "results", ">nodes", "names"]);
    for ((axis, reason), mut nodes) in found {
        // A node with runs of two binaries is in two groups.
        nodes.sort();
        nodes.dedup();
        let cells = [axis.name(), reason, &nodes.len().to_string(), &words::names(&nodes)].map(Cell::of);
        table.row(cells.into_iter().collect());
    }
    table
}

fn method(fleet: &Fleet) -> PagePart {
    let mut part = PagePart::new("method", "How it was decided", 2);
    for text in [
        "Siblings are nodes with the same model, methods, profile and binary. Eight or more are judged.",
        "Each axis has a few key results. A node differs on an axis by the weighted median of their logarithms over the siblings.",
        "Work of the core is taken in cycles, because the clock is a separate axis. Contaminated results take no part.",
        "If fewer than half of the key results remain, the axis is undecided.",
        "A run is suspect from 4 standard deviations on, if the difference is at least 2 % (core clock: 5 %).",
        "The standard deviation comes from the median absolute deviation of the siblings.",
        "A node is odd if the mean of its runs differs by 4.5 standard deviations. Two runs or more must show it by 2.",
        "A node is odd, too, if two runs lack results of a label that 85 % of the siblings have.",
        "The same holds for runs that take three times the usual duration.",
        "A cause is a pattern of axes. It names what such a pattern looks like, and proves nothing.",
    ] {
        part.say(text);
    }
    let mut table = Table::new("", &["group", ">nodes", "judged", "methods"]);
    for group in &fleet.groups {
        table.row(vec![
            Cell::of(format!("{} {} {}", group.fingerprint, group.profile, words::build(group))),
            Cell::of(group.nodes.len().to_string()),
            Cell::of(if group.judged { "yes" } else { "too few nodes" }),
            Cell::of(&group.methods),
        ]);
    }
    part.add(Piece::Table(table));
    part
}
