//! The answer to a history, as a page and on one screen: for each moment of change, what changed with it, and its results as small
//! series over the runs.

use std::collections::BTreeMap;

use super::comparison::{add_group, add_left_out, changed, finding, left_out, range, signed, tone, word};
use super::{fact, field_of};
use crate::report::drawing::{Drawing, PanelLevel, PanelPlot, Plot, PlotPanel, PlotPoint};
use crate::report::page::{Cell, Page, PagePart, Piece, Span, Table, Tone};
use crate::report::screen::{self, Line, PAGE, Screen, cut, folded};
use crate::results::comparison::Finding;
use crate::results::timeline::{BegunAnew, ChangePoint, Moment, ResultTimeline, Timeline};
use crate::results::wording::{count, measured, percent, share};
use crate::statistics::summary::median;

/// Series of a drawing.
const MOST_DRAWN: usize = 12;
/// Runs that make a history useful: from as many on, the series alone says how much it scatters.
const USEFUL: u64 = 10;

/// The page.
pub fn page(timeline: &Timeline) -> Page {
    let mut parts = vec![front(timeline)];
    for (number, moment) in timeline.moments.iter().enumerate().rev() {
        parts.push(moment_part(timeline, number, moment));
    }
    let drifting: Vec<&ResultTimeline> = timeline.results.iter().filter(|result| result.drift.is_some()).collect();
    if !drifting.is_empty() {
        let mut part = PagePart::new("drifts", "What drifts", 2);
        part.say("A straight line describes these results better than levels do. They have no change point.");
        let caption = "Results that drift, over the runs.";
        part.add(Piece::Drawing(Box::new(drawing("drifts", caption, timeline, &drifting))));
        parts.push(part);
    }
    parts.push(rest(timeline));
    parts.push(runs(timeline));
    Page { title: "What changed over time".to_owned(), subtitle: about(timeline), parts }
}

/// Most moments of a screen, facts of one, groups of one or of drifts, and runs with a reason.
const MOMENTS: usize = 3;
const FACTS: usize = 3;
const GROUPS: usize = 3;
const REMARKS: usize = 2;
/// Widths of the columns of results: latest level, change, smallest step and finding.
const NUMBERS: usize = 39;

/// The answer on one screen; with `all`, every moment and every result.
pub fn screen(timeline: &Timeline, width: Option<u16>, all: bool) -> Vec<Line> {
    let mut screen = Screen::new(width, all);
    screen.say(&verdict(timeline), Tone::Strong, 3);
    screen.cut(&about(timeline), Tone::Faint);
    for texts in [left_aside(timeline), begun_anew(timeline)] {
        texts.iter().take(screen.most(REMARKS)).for_each(|text| screen.say(text, Tone::Faint, 2));
    }
    // The newest first: it is what a reader can still act on.
    let shown: Vec<&Moment> = timeline.moments.iter().rev().filter(|moment| all || !moment.groups.is_empty()).collect();
    for moment in shown.iter().take(screen.most(MOMENTS)) {
        add_moment(&mut screen, timeline, moment);
    }
    let more = shown.len().saturating_sub(screen.most(MOMENTS)) as u64;
    if more > 0 {
        screen.cut(&format!("{}: --all", count(more, "earlier moment", "earlier moments")), Tone::Faint);
    }
    for group in timeline.drifts.iter().take(screen.most(GROUPS)) {
        add_group(&mut screen, "  drifts ", group);
    }
    if let Some(text) = deviating(timeline) {
        screen.say(&text, Tone::Plain, 2);
    }
    let mut end = Screen::new(width, all);
    if all {
        let name = screen.wide.saturating_sub(NUMBERS);
        let heads = [("now", 12, Tone::Faint), ("change", 10, Tone::Faint), ("finds", 10, Tone::Faint)];
        screen.lines.push(screen::row("", name, &heads));
        screen.lines.extend(timeline.results.iter().map(|result| line(result, name)));
        add_left_out(&mut screen, "judged", &timeline.not_judged);
    } else if let Some(text) = reach(timeline) {
        end.say(&text, Tone::Faint, 2);
    }
    if !all && !timeline.is_too_short() {
        let apart = timeline.not_judged.len();
        let apart = if apart == 0 { String::new() } else { format!(" {apart} have too few runs.") };
        let results = count(timeline.results.len() as u64, "result", "results");
        end.say(&format!("All {results}: --all.{apart} {PAGE}"), Tone::Faint, 2);
    }
    screen.ended(end.lines)
}

fn add_moment(screen: &mut Screen, timeline: &Timeline, moment: &Moment) {
    screen.say(&moment_name(timeline, moment), Tone::Strong, 2);
    for found in moment.differences.iter().take(screen.most(FACTS)) {
        let text = fact(&found.fact, &found.base, &found.new);
        screen.lines.extend(folded(&text, screen.wide, "  ", Tone::Plain, 2));
    }
    if moment.differences.is_empty() {
        screen.cut("  No fact changed here, as far as the records say.", Tone::Plain);
    }
    let shown = screen.most(GROUPS).min(moment.groups.len());
    moment.groups[..shown].iter().for_each(|group| add_group(screen, "  ", group));
    let others = moment.groups[shown..].iter().map(|group| u64::from(group.results)).sum::<u64>();
    if others > 0 {
        let others = count(others, "more headline result", "more headline results");
        screen.cut(&format!("  and {others}"), Tone::Faint);
    }
}

/// A result in a line.
fn line(result: &ResultTimeline, name: usize) -> Line {
    let now = result.levels.last().map_or_else(String::new, |level| measured(level.value, level.interval, result.unit));
    let (mark, tone) = finding(result.finding);
    let change = latest(result).unwrap_or_else(|| "–".to_owned());
    let finds = result.detectable.filter(|_| !result.is_changed()).map_or_else(|| "–".to_owned(), signed);
    let finds = format!("{finds:>10} {mark}");
    let columns = [(now.as_str(), 12, Tone::Plain), (&change, 10, tone), (&finds, 0, tone)];
    screen::row(&cut(&result.phrase, name.saturating_sub(1)), name, &columns)
}

/// The latest change of a result, or its drift.
fn latest(result: &ResultTimeline) -> Option<String> {
    let drift = || result.drift.map(|drift| format!("{} drift", signed(drift.change)));
    result.changes.last().map(|change| signed(change.change)).or_else(drift)
}

/// What could not be read, each in a sentence.
fn left_aside(timeline: &Timeline) -> Vec<String> {
    timeline.left_aside.iter().map(|text| format!("Left aside: {text}.")).collect()
}

/// The answer in a sentence or two.
fn verdict(timeline: &Timeline) -> String {
    let (runs, needed) = (timeline.runs.len() as u64, u64::from(timeline.runs_needed));
    if timeline.is_too_short() {
        let begin = if runs < needed {
            let more = count(needed - runs, "more run", "more runs");
            format!("{} cannot show a change point: {needed} are needed. Make {more}.", count(runs, "run", "runs"))
        } else {
            format!("No headline result has the {needed} usable runs that a change point needs.")
        };
        return format!("{begin} From {USEFUL} runs on, the runs themselves show how much a result scatters.");
    }
    let all = timeline.headline().count();
    let (worse, better) = (timeline.count(Finding::Worse), timeline.count(Finding::Better));
    let answer = changed(all, [worse, better], " now than before");
    let answer = answer.unwrap_or_else(|| format!("No headline result changed in {runs} runs"));
    let same = timeline.count(Finding::Equivalent);
    format!("{answer}. Of the others, {same} would have shown a change that matters.")
}

/// Machine and runs in a line, without the hashes that distinguish machines of one name.
fn about(timeline: &Timeline) -> String {
    let machine = timeline.machine.split(" (").next().unwrap_or_default();
    match timeline.runs.as_slice() {
        [first, .., last] => {
            let runs = format!("{} {} runs", timeline.runs.len(), first.profile);
            format!("{machine}, {runs} from {} to {}", time(&first.started), time(&last.started))
        }
        [only] => format!("{machine}, one {} run of {}", only.profile, time(&only.started)),
        [] => machine.to_owned(),
    }
}

/// A moment in words.
fn moment_name(timeline: &Timeline, moment: &Moment) -> String {
    format!("Between {} and {}:", run_name(timeline, moment.before as usize), run_name(timeline, moment.after as usize))
}

fn run_name(timeline: &Timeline, run: usize) -> String {
    let started = timeline.runs.get(run).map_or_else(String::new, |found| format!(" of {}", time(&found.started)));
    format!("run {}{started}", run + 1)
}

/// Date and time without seconds, of RFC 3339.
fn time(started: &str) -> String {
    started.chars().take(16).map(|letter| if letter == 'T' { ' ' } else { letter }).collect()
}

/// The run that deviates alone, in a sentence.
fn deviating(timeline: &Timeline) -> Option<String> {
    let (run, results) = timeline.most_deviating()?;
    let name = run_name(timeline, run);
    let last =
        if run + 1 == timeline.runs.len() { "Run again to see whether it lasts." } else { "One run is not a change." };
    let results = count(results, "headline result", "headline results");
    Some(format!("R{} deviates from its neighbours in {results}. {last}", &name[1..]))
}

/// Experiments whose series begin anew: one line for all that begin with the same run.
fn begun_anew(timeline: &Timeline) -> Vec<String> {
    let mut by_run: BTreeMap<u32, Vec<&BegunAnew>> = BTreeMap::new();
    for anew in &timeline.begun_anew {
        by_run.entry(anew.from).or_default().push(anew);
    }
    let line = |(from, found): (u32, Vec<&BegunAnew>)| {
        let earlier = found.iter().map(|anew| anew.earlier).max().unwrap_or(0);
        let earlier = count(u64::from(earlier), "earlier run takes", "earlier runs take");
        let (run, first) = (run_name(timeline, from as usize), found[0]);
        if found.len() == 1 {
            return format!("{} begins anew with {run}: {}. {earlier} no part.", first.experiment, first.reason);
        }
        let names: Vec<&str> = found.iter().map(|anew| anew.experiment.as_str()).collect();
        let what = format!("{} experiments begin anew with {run}, because method or files changed", found.len());
        format!("{what}. At most {earlier} no part. They are {}.", names.join(", "))
    };
    by_run.into_iter().map(line).collect()
}

/// How small a change would have been found, in a sentence.
fn reach(timeline: &Timeline) -> Option<String> {
    let least: Vec<f64> = timeline.headline().filter_map(|result| result.detectable).collect();
    let middle = median(&least)?;
    let alarms = share(timeline.false_alarms);
    Some(format!(
        "In half of the headline results a step of {} would be found. False alarms: {alarms} of tables without a change.",
        share(middle)
    ))
}

fn front(timeline: &Timeline) -> PagePart {
    let mut part = PagePart::new("glance", "At a glance", 2);
    part.add(Piece::Paragraph(vec![Span::strong(verdict(timeline))]));
    for text in left_aside(timeline).into_iter().chain(begun_anew(timeline)) {
        part.say(text);
    }
    let moments = timeline.moments.iter().enumerate().rev().map(|(number, moment)| {
        let results = count(u64::from(moment.results), "result", "results");
        let name = moment_name(timeline, moment);
        let groups = moment.groups.iter().map(|group| format!("{} {}", group.what, range(group.range)));
        let groups = groups.collect::<Vec<_>>().join(", ");
        let groups = if groups.is_empty() { "no headline result".to_owned() } else { groups };
        vec![Span::link(name, &format!("moment-{}", number + 1)), Span::plain(format!(" {groups} ({results})"))]
    });
    let moments: Vec<Vec<Span>> = moments.collect();
    if !moments.is_empty() {
        part.add(Piece::List(moments));
    }
    for text in [deviating(timeline), reach(timeline)].into_iter().flatten() {
        part.say(text);
    }
    part
}

fn moment_part(timeline: &Timeline, number: usize, moment: &Moment) -> PagePart {
    let title = moment_name(timeline, moment);
    let mut part = PagePart::new(&format!("moment-{}", number + 1), title.trim_end_matches(':'), 2);
    let mut facts = Table::new("What else changed here.", &["fact", "before", "after"]);
    for found in &moment.differences {
        facts.row([&found.fact, &found.base, &found.new].map(Cell::of).into_iter().collect());
    }
    if facts.is_empty() {
        part.say("No fact about the machine changed here, as far as the records say.");
    } else {
        part.add(Piece::Table(facts));
    }
    let of = |result: &ResultTimeline| result.changes.iter().any(|change| change.moment as usize == number);
    let changed: Vec<&ResultTimeline> = timeline.results.iter().filter(|result| of(result)).collect();
    let caption = "Results that changed here, over the runs. Lines are levels, dotted lines are changes.";
    part.add(Piece::Drawing(Box::new(drawing(&format!("moment-{}", number + 1), caption, timeline, &changed))));
    let mut table = Table::new(
        "Every result that changed here. A dot marks results that are not headline results.",
        &["result", ">before", ">after", ">change", ">95 % interval", ">threshold", "finding"],
    );
    for result in &changed {
        let changes = result.changes.iter().enumerate().filter(|(_, change)| change.moment as usize == number);
        for (place, change) in changes {
            table.row(row(result, place, change));
        }
    }
    part.add(Piece::Table(table));
    part
}

fn row(result: &ResultTimeline, place: usize, change: &ChangePoint) -> Vec<Cell> {
    let level = |place: usize, name: &str| {
        result.levels.get(place).map_or_else(Cell::none, |level| {
            let text = measured(level.value, level.interval, result.unit);
            Cell::datum(text, field_of(&result.metric, &result.labels, name), level.value)
        })
    };
    vec![
        Cell::of(name(result)),
        level(place, "before"),
        level(place + 1, "after"),
        Cell::of(signed(change.change)),
        Cell::of(range(change.interval)),
        Cell::of(percent(result.threshold)),
        Cell::toned(word(change.finding), tone(change.finding)),
    ]
}

fn name(result: &ResultTimeline) -> String {
    if result.headline { result.phrase.clone() } else { format!("{} ·", result.phrase) }
}

/// Small series of results.
fn drawing(id: &str, caption: &str, timeline: &Timeline, results: &[&ResultTimeline]) -> Drawing {
    let shown = &results[..results.len().min(MOST_DRAWN)];
    let left_out = results.len() - shown.len();
    let more = if left_out > 0 { format!(" {left_out} more are not drawn.") } else { String::new() };
    let mut values = Table::new("", &["result", ">run", ">value"]);
    for result in shown {
        for point in &result.points {
            let text = measured(point.value, ends(point.value, point.within), result.unit);
            values.row(vec![Cell::of(&result.phrase), Cell::of((point.run + 1).to_string()), Cell::of(text)]);
        }
    }
    let caption = format!("{caption}{more}");
    Drawing {
        id: id.to_owned(),
        alt: format!("{caption} {}.", count(shown.len() as u64, "series", "series")),
        caption,
        plot: Plot::Panels(PanelPlot {
            ends: [1.0, timeline.runs.len() as f64],
            panels: shown.iter().map(|result| panel(timeline, result)).collect(),
        }),
        values,
    }
}

fn ends(value: f64, within: f64) -> [f64; 2] {
    [value * (1.0 - within), value * (1.0 + within)]
}

fn panel(timeline: &Timeline, result: &ResultTimeline) -> PlotPanel {
    let number = |run: u32| f64::from(run) + 1.0;
    let change = latest(result).unwrap_or_default();
    let points = result.points.iter().map(|point| {
        let interval = ends(point.value, point.within.min(0.9));
        let deviates = if point.deviates { ", deviates" } else { "" };
        let text = measured(point.value, interval, result.unit);
        PlotPoint {
            x: number(point.run),
            y: point.value,
            interval,
            predicted: None,
            title: format!("{}: {text}{deviates}", run_name(timeline, point.run as usize)),
        }
    });
    PlotPanel {
        title: format!("{change} {}", result.phrase),
        unit: result.unit,
        points: points.collect(),
        hollow: result.points.iter().filter(|point| point.deviates).map(|point| number(point.run)).collect(),
        levels: result
            .levels
            .iter()
            .filter(|_| result.drift.is_none())
            .map(|level| PanelLevel { ends: [number(level.from), number(level.to)], value: level.value })
            .collect(),
        cuts: result.changes.iter().map(|change| f64::midpoint(number(change.before), number(change.after))).collect(),
    }
}

/// Results that did not change, and how small a change they would have shown.
fn rest(timeline: &Timeline) -> PagePart {
    let mut part = PagePart::new("same", "What did not change", 2);
    let same: Vec<&ResultTimeline> = timeline.results.iter().filter(|result| !result.is_changed()).collect();
    part.say(format!("{} show no change.", count(same.len() as u64, "result", "results")));
    let mut table = Table::new(
        "",
        &["result", ">runs", ">value", ">scatter between runs", ">step that would be found", ">threshold"],
    );
    for result in same {
        let value = result
            .levels
            .last()
            .map_or_else(Cell::none, |level| Cell::of(measured(level.value, level.interval, result.unit)));
        table.row(vec![
            Cell::of(name(result)),
            Cell::of(result.points.len().to_string()),
            value,
            Cell::of(percent(result.scatter)),
            result.detectable.map_or_else(Cell::none, |least| Cell::of(percent(least))),
            Cell::of(percent(result.threshold)),
        ]);
    }
    if !table.is_empty() {
        part.add(Piece::Folded { summary: "All of them".to_owned(), pieces: vec![Piece::Table(table)] });
    }
    part
}

/// The runs, and what was not judged.
fn runs(timeline: &Timeline) -> PagePart {
    let mut part = PagePart::new("runs", "Runs, and what was not judged", 2);
    let mut table = Table::new("The runs.", &[">run", "place", "begun", ">CPU", ">neighbour during"]);
    for (number, run) in timeline.runs.iter().enumerate() {
        let neighbour =
            run.shared_share.map_or_else(|| "–".to_owned(), |share| format!("{} of the batches", percent(share)));
        let texts = [(number + 1).to_string(), run.place.clone(), time(&run.started), run.cpu.to_string(), neighbour];
        table.row(texts.into_iter().map(Cell::of).collect());
    }
    part.add(Piece::Table(table));
    if !timeline.not_judged.is_empty() {
        let summary = format!("{} not judged", count(timeline.not_judged.len() as u64, "result", "results"));
        part.add(Piece::Folded { summary, pieces: vec![left_out(&timeline.not_judged)] });
    }
    part
}
