//! The answer to a comparison, as a page and on one screen: what changed first, then what is open, then what stayed the same.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::{across, comparison_curves, fact, field_of};
use crate::report::drawing::{Drawing, Plot, PlotMark, PlotRow, RowPlot};
use crate::report::page::{Cell, Page, PagePart, Piece, Span, Table, Tone};
use crate::report::screen::{Line, PAGE, Screen, cut, cut_before, row};
use crate::results::comparison::{
    Alternation, ChangedGroup, ComparedResult, ComparedRun, Comparison, Finding, NotCompared, SideValue,
};
use crate::results::drawing_note::Scale;
use crate::results::quantity::Unit;
use crate::results::wording::{count, duration, measured, percent};
use crate::statistics::summary::median;

/// Rows of a drawing.
const MOST_DRAWN: usize = 40;
/// Reasons that a single sentence names.
const MOST_REASONS: usize = 2;

/// The page.
pub fn page(comparison: &Comparison) -> Page {
    let mut parts = vec![front(comparison)];
    // What there can be more of.
    let unit = if comparison.alternation.is_some() { "rounds" } else { "runs" };
    let mut changed = PagePart::new("changed", "What changed", 2);
    let rows: Vec<&ComparedResult> = comparison.rows.iter().filter(|row| row.is_changed()).collect();
    if rows.is_empty() {
        changed.say("No result changed by more than the threshold of its chapter and the scatter between runs.");
    } else {
        changed.add(Piece::Drawing(Box::new(drawing(
            "changes",
            "Changed results, with the interval of the change",
            unit,
            &rows,
        ))));
        for drawing in comparison_curves::drawings(&comparison.rows, |rows| table("", unit, rows)) {
            changed.add(Piece::Drawing(Box::new(drawing)));
        }
        changed.add(Piece::Table(table(
            "Every result that changed, the worst first. A dot marks results that are not headline results.",
            unit,
            &rows,
        )));
    }
    parts.push(changed);
    for (id, title, finding, about) in [
        (
            "open",
            "What is undecided",
            Finding::Inconclusive,
            "The intervals permit a change that matters, and also none.",
        ),
        (
            "same",
            "What did not change",
            Finding::Equivalent,
            "Every change that the data permit is below the threshold.",
        ),
    ] {
        let rows: Vec<&ComparedResult> = comparison.rows.iter().filter(|row| row.finding == finding).collect();
        let mut part = PagePart::new(id, title, 2);
        part.say(format!("{}. {about}", count(rows.len() as u64, "result", "results")));
        if !rows.is_empty() {
            let summary = "All of them".to_owned();
            part.add(Piece::Folded { summary, pieces: vec![Piece::Table(table("", unit, &rows))] });
        }
        parts.push(part);
    }
    parts.push(apart(comparison));
    if let Some(found) = &comparison.across_machines {
        parts.insert(0, across::part(found));
    }
    Page { title: "Comparison of runs".to_owned(), subtitle: subtitle(comparison), parts }
}

/// Most groups of changes, differences and results of a screen.
const GROUPS: usize = 6;
const DIFFERENCES: usize = 4;
const RESULTS: usize = 10;
/// Widths of the columns of results: base, new, change and finding.
const NUMBERS: usize = 38;

/// The answer on one screen; with `all`, every result.
pub fn screen(comparison: &Comparison, width: Option<u16>, all: bool) -> Vec<Line> {
    if let Some(found) = comparison.across_machines.as_ref().filter(|_| !all) {
        return across::screen(found, &comparison.differences, width);
    }
    let mut screen = Screen::new(width, all);
    screen.say(&verdict(comparison), Tone::Strong, 2);
    let [base, new] = sides(comparison);
    screen.cut(&format!("base  {base}"), Tone::Faint);
    screen.cut(&format!("new   {new}"), Tone::Faint);
    if let Some(conditions) = &comparison.alternation {
        screen.cut(&format!("      {}.", rounds(conditions)), Tone::Faint);
    }
    if comparison.across {
        screen.say(NOT_ALIKE, Tone::Bad, 2);
    }
    for found in comparison.differences.iter().take(screen.most(DIFFERENCES)) {
        screen.say(&format!("differs: {}", fact(&found.fact, &found.base, &found.new)), Tone::Plain, 2);
    }
    if comparison.differences.is_empty() {
        screen.say("Machine, kernel and conditions are the same, as far as the records say.", Tone::Plain, 2);
    }
    if let Some(clocks) = clocks(comparison) {
        screen.say(&clocks, Tone::Plain, 2);
    }
    for group in of_both_signs(comparison.groups.iter().collect(), GROUPS, |group| group.finding) {
        add_group(&mut screen, "", group);
    }
    let wanted = |row: &&ComparedResult| all || row.headline && row.is_changed();
    let rows: Vec<&ComparedResult> = comparison.rows.iter().filter(wanted).collect();
    let rows = if all { rows } else { of_both_signs(rows, RESULTS, |row| row.finding) };
    let name = screen.wide.saturating_sub(NUMBERS);
    if !rows.is_empty() {
        let heads = [("base", 10, Tone::Faint), ("new", 12, Tone::Faint), ("change", 9, Tone::Faint)];
        screen.lines.push(row("", name, &heads));
    }
    screen.lines.extend(rows.iter().map(|row| line(row, name)));
    for text in [visible(comparison), advice(comparison)].into_iter().flatten() {
        screen.say(&text, Tone::Faint, 2);
    }
    if all {
        add_left_out(&mut screen, "compared", &comparison.not_compared);
    } else {
        let apart = not_compared(comparison).map(|apart| format!(" {apart}.")).unwrap_or_default();
        let text = match comparison.rows.len() as u64 {
            0 if apart.is_empty() => String::new(),
            0 => format!("{} All of them: --all", apart.trim_start()),
            results => format!("All {}: --all.{apart} {PAGE}", count(results, "result", "results")),
        };
        screen.say(&text, Tone::Faint, 3);
    }
    screen.lines
}

/// What a reader of runs that are not alike must know.
const NOT_ALIKE: &str = "The runs are not of one machine, one peer and one method.";

/// Adds a group of changed results in a line.
pub(super) fn add_group(screen: &mut Screen, begin: &str, group: &ChangedGroup) {
    let (word, tone) = finding(group.finding);
    let results = count(u64::from(group.results), "result", "results");
    let name = format!("{begin}{word:<6}  ");
    let room = screen.wide.saturating_sub(name.chars().count());
    let what = cut_before(&group.what, &format!(": {} ({results})", range(group.range)), room);
    screen.lines.push(vec![Cell::toned(name, tone), Cell::of(what)]);
}

/// Adds what took no part in an answer, with the reasons.
pub(super) fn add_left_out(screen: &mut Screen, what: &str, left_out: &[NotCompared]) {
    if !left_out.is_empty() {
        screen.cut(&format!("{} not {what}:", left_out.len()), Tone::Plain);
    }
    for found in left_out {
        screen.cut(&format!("  {} {}: {}", found.metric, found.labels, found.reason), Tone::Faint);
    }
}

/// The same as a table.
pub(super) fn left_out(left_out: &[NotCompared]) -> Piece {
    let row = |found: &NotCompared| vec![format!("{} {}", found.metric, found.labels), found.reason.clone()];
    Piece::Table(Table::of_texts("", &["result", "reason"], left_out.iter().map(row)))
}

/// A finding on a screen, where what is not a change has a sign.
pub(super) fn finding(finding: Finding) -> (&'static str, Tone) {
    match finding {
        Finding::Inconclusive => ("?", Tone::Faint),
        Finding::Equivalent => ("=", Tone::Plain),
        changed => (word(changed), tone(changed)),
    }
}

fn line(found: &ComparedResult, name: usize) -> Line {
    let value = |side: &SideValue| measured(side.value, side.interval, found.unit);
    let (base, new) = (value(&found.base), format!(" {}", value(&found.new)));
    let (mark, tone) = finding(found.finding);
    let change = format!("{:>9} {mark}", signed(found.change));
    let columns = [(base.as_str(), 10, Tone::Plain), (&new, 12, Tone::Plain), (&change, 0, tone)];
    row(&cut(&found.phrase, name.saturating_sub(1)), name, &columns)
}

/// The two sides, each in a line.
fn sides(comparison: &Comparison) -> [String; 2] {
    match &comparison.alternation {
        None => [&comparison.base, &comparison.new].map(|runs| match machine(comparison, runs) {
            Some(machine) => format!("{machine}: {}", side(runs)),
            None => side(runs),
        }),
        Some(conditions) => [conditions.base.clone(), conditions.new.clone()],
    }
}

/// The two sides and how they were measured, in a line.
fn subtitle(comparison: &Comparison) -> String {
    let [base, new] = sides(comparison);
    let how = comparison.alternation.as_ref().map_or_else(String::new, |found| format!(" · {}", rounds(found)));
    format!("base: {base} · new: {new}{how}")
}

/// The machine of a side, where the sides have different ones.
fn machine(comparison: &Comparison, runs: &[ComparedRun]) -> Option<String> {
    let machines: BTreeSet<&str> =
        runs.iter().map(|run| run.machine.as_str()).filter(|name| !name.is_empty()).collect();
    let machines = machines.into_iter().collect::<Vec<_>>().join(" or ");
    (comparison.across && !machines.is_empty()).then_some(machines)
}

/// The first of the changes, of both signs. Those for the worse come first, and would take all the room.
fn of_both_signs<T>(all: Vec<T>, most: usize, finding: impl Fn(&T) -> Finding) -> Vec<T> {
    let (mut worse, mut others): (Vec<T>, Vec<T>) = all.into_iter().partition(|found| finding(found) == Finding::Worse);
    worse.truncate((most - most / 2).max(most.saturating_sub(others.len())));
    others.truncate(most - worse.len());
    worse.extend(others);
    worse
}

/// Clocks closer than this are the same.
const SAME_CLOCK: f64 = 0.005;

/// What the core clock did between the sides, where it differs.
fn clocks(comparison: &Comparison) -> Option<String> {
    let [base, new] = comparison.core_hz.filter(|[base, new]| (new / base - 1.0).abs() > SAME_CLOCK)?;
    let clock = |hz: f64| format!("{:.2} GHz", hz / 1e9);
    Some(format!(
        "The core clock was {} in the base and {} in the new runs. Costs in core cycles are compared at {}.",
        clock(base),
        clock(new),
        clock(base)
    ))
}

/// How many results could not be compared, and for which reasons.
fn not_compared(comparison: &Comparison) -> Option<String> {
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for found in &comparison.not_compared {
        *reasons.entry(&found.reason).or_default() += 1;
    }
    let mut reasons: Vec<(&str, u64)> = reasons.into_iter().collect();
    reasons.sort_by_key(|&(_, results)| Reverse(results));
    let others: u64 = reasons.iter().skip(MOST_REASONS).map(|(_, results)| results).sum();
    reasons.truncate(MOST_REASONS);
    reasons.extend((others > 0).then_some(("other reasons", others)));
    let reasons: Vec<String> = reasons.into_iter().map(|(reason, results)| format!("{reason} ({results})")).collect();
    let all = count(comparison.not_compared.len() as u64, "result", "results");
    (!reasons.is_empty()).then(|| format!("{all} not compared: {}", reasons.join(", ")))
}

/// How two conditions were measured, in words.
fn rounds(conditions: &Alternation) -> String {
    let rounds = count(u64::from(conditions.rounds), "alternating round", "alternating rounds");
    let left = if conditions.restored.is_some() { ". The machine is in the condition of the base again" } else { "" };
    format!("{rounds}, {}{left}", duration(conditions.seconds))
}

fn side(runs: &[ComparedRun]) -> String {
    match runs {
        [run] => format!("{} ({}, {}, CPU {})", run.place, run.started, run.profile, run.cpu),
        [first, .., last] => {
            format!("{}, {} … {}", count(runs.len() as u64, "run", "runs"), first.place, last.place)
        }
        [] => String::new(),
    }
}

/// The answer in one sentence.
fn verdict(comparison: &Comparison) -> String {
    let all = comparison.headline().count();
    let of = |finding| comparison.count(finding);
    let (worse, better) = (of(Finding::Worse), of(Finding::Better));
    let (same, open) = (of(Finding::Equivalent), of(Finding::Inconclusive));
    if comparison.rows.is_empty() {
        return match comparison.not_compared.as_slice() {
            [] => "No result could be compared, because the runs have none.".to_owned(),
            [one] => format!("No result could be compared. {}: {}.", one.metric, one.reason),
            _ => "No result could be compared.".to_owned(),
        };
    }
    if all == 0 {
        let others = count(comparison.rows.len() as u64, "other result is", "other results are");
        return format!("No headline result could be compared. {others} in the table.");
    }
    if comparison.is_with_itself() {
        let runs = count(comparison.base.len() as u64, "run", "runs");
        return format!(
            "Both sides are the same {}, and nothing can have changed. Compare two runs, or measure two conditions with --live.",
            runs.trim_start_matches("1 ")
        );
    }
    let answer = changed(all, [worse, better], "").unwrap_or_else(|| "No headline result changed".to_owned());
    format!("{answer}. {} equivalent and {open} undecided.", count(same, "is", "are"))
}

/// How many headline results are worse and better, with what follows the first of both words. None where neither is.
pub(super) fn changed(all: usize, [worse, better]: [u64; 2], than: &str) -> Option<String> {
    let are = |number: u64| if number == 1 { "is" } else { "are" };
    match (worse, better) {
        (0, 0) => None,
        (worse, 0) => Some(format!("{worse} of {all} headline results {} worse{than}", are(worse))),
        (0, better) => Some(format!("{better} of {all} headline results {} better{than}", are(better))),
        (worse, better) => Some(format!(
            "Of {all} headline results, {worse} {} worse{than} and {better} {} better",
            are(worse),
            are(better)
        )),
    }
}

/// A range of changes in words.
pub(super) fn range([low, high]: [f64; 2]) -> String {
    let [low, high] = [low, high].map(signed);
    if low == high { low } else { format!("{low} to {high}") }
}

/// A relative change with its sign, with two digits. From a factor of three on it is a factor.
pub(super) fn signed(change: f64) -> String {
    if change >= 2.0 {
        return format!("×{:.2}", 1.0 + change);
    }
    let size = (100.0 * change).abs();
    let sign = if change < 0.0 { "−" } else { "+" };
    let digits = if size >= 10.0 {
        0
    } else if size >= 1.0 {
        1
    } else {
        2
    };
    format!("{sign}{size:.digits$} %")
}

/// Runs of each side that a user might make to decide open results.
const RUNS: [u64; 3] = [3, 5, 10];

/// What decides the open results of a summary, in a sentence: the smallest number of runs that decides a third of what ten decide.
fn advice(comparison: &Comparison) -> Option<String> {
    if comparison.is_with_itself() {
        return None;
    }
    let open: Vec<&ComparedResult> = comparison.headline().filter(|row| row.finding == Finding::Inconclusive).collect();
    let have = comparison.base.len().min(comparison.new.len()) as u64;
    let decided = |runs: u64| {
        let by = |row: &&&ComparedResult| {
            row.launches_needed.is_some() || row.runs_needed.is_some_and(|needed| needed <= runs)
        };
        open.iter().filter(by).count()
    };
    let most = decided(RUNS[RUNS.len() - 1]);
    let runs = RUNS.into_iter().find(|&runs| runs > have && 3 * decided(runs) >= most)?;
    let found = decided(runs) as u64;
    (found > 0).then(|| {
        let runs = if comparison.alternation.is_some() {
            format!("{runs} rounds (--time)")
        } else {
            format!("{runs} runs on each side")
        };
        format!("With {runs}, about {found} of the {} undecided results would be decided.", open.len())
    })
}

/// From which change on a comparison of these runs could have found one, by chapter: the median over its headline results of the
/// threshold, or of half of the interval where that is more. None where all results are decided.
fn visible(comparison: &Comparison) -> Option<String> {
    if comparison.is_with_itself() || comparison.headline().all(|row| row.finding != Finding::Inconclusive) {
        return None;
    }
    let rows: Vec<&ComparedResult> = comparison.headline().collect();
    let mut chapters: Vec<(&str, Vec<f64>)> = Vec::new();
    for row in rows {
        let chapter = row.experiment.split('.').next().unwrap_or_default();
        let half = ((1.0 + row.interval[1]) / (1.0 + row.interval[0])).sqrt() - 1.0;
        let least = half.max(row.threshold);
        match chapters.iter_mut().find(|(known, _)| *known == chapter) {
            Some((_, all)) => all.push(least),
            None => chapters.push((chapter, vec![least])),
        }
    }
    chapters.sort_unstable_by_key(|(chapter, _)| *chapter);
    let text = |(chapter, all): &(&str, Vec<f64>)| Some(format!("{chapter} {}", percent(median(all)?)));
    let words: Vec<String> = chapters.iter().filter_map(text).collect();
    Some(format!("These runs could show a change from about: {}.", words.join(", ")))
}

fn front(comparison: &Comparison) -> PagePart {
    let mut part = PagePart::new("glance", "At a glance", 2);
    part.add(Piece::Paragraph(vec![Span::strong(verdict(comparison))]));
    if comparison.across {
        part.add(Piece::Alarm(format!("{NOT_ALIKE} Differences come from all that differs.")));
    }
    let groups = comparison.groups.iter().map(|group| {
        let results = count(u64::from(group.results), "result", "results");
        let text = format!("{} ({}, {results})", range(group.range), word(group.finding));
        vec![Span::strong(format!("{}: ", group.what)), Span::plain(text)]
    });
    let groups: Vec<Vec<Span>> = groups.collect();
    if !groups.is_empty() {
        part.add(Piece::List(groups));
    }
    if let Some(visible) = visible(comparison) {
        part.say(visible);
    }
    if let Some(advice) = advice(comparison) {
        part.say(advice);
    }
    let mut table = Table::new("What else differs between the two sides.", &["fact", "base", "new"]);
    if let Some(clocks) = clocks(comparison) {
        part.say(clocks);
    }
    for difference in &comparison.differences {
        table.row([&difference.fact, &difference.base, &difference.new].map(Cell::of).into_iter().collect());
    }
    if table.is_empty() {
        part.say("Machine, kernel and conditions are the same on both sides, as far as the records say.");
    } else {
        part.add(Piece::Table(table));
    }
    part
}

pub(super) fn word(finding: Finding) -> &'static str {
    match finding {
        Finding::Worse => "worse",
        Finding::Better => "better",
        Finding::Inconclusive => "undecided",
        Finding::Equivalent => "equivalent",
    }
}

pub(super) fn tone(finding: Finding) -> Tone {
    match finding {
        Finding::Worse => Tone::Bad,
        Finding::Better => Tone::Good,
        _ => Tone::Plain,
    }
}

fn table(caption: &str, unit: &str, rows: &[&ComparedResult]) -> Table {
    let mut table = Table::new(
        caption,
        &["result", ">base", ">new", ">change", ">95 % interval", ">threshold", "finding", "reason"],
    );
    for row in rows {
        let value = |side: &SideValue, name: &str| {
            let text = measured(side.value, side.interval, row.unit);
            Cell::datum(text, field_of(&row.metric, &row.labels, name), side.value)
        };
        table.row(vec![
            Cell::of(if row.headline { row.phrase.clone() } else { format!("{} ·", row.phrase) }),
            value(&row.base, "base"),
            value(&row.new, "new"),
            Cell::of(signed(row.change)),
            Cell::of(range(row.interval)),
            Cell::of(percent(row.threshold)),
            Cell::toned(word(row.finding), tone(row.finding)),
            Cell::of(row.explanation.clone().or_else(|| row.needed(unit)).unwrap_or_default()),
        ]);
    }
    table
}

/// Changes on one axis of ratios, with their intervals.
fn drawing(id: &str, what: &str, unit: &str, rows: &[&ComparedResult]) -> Drawing {
    let shown = of_both_signs(rows.to_vec(), MOST_DRAWN, |row| row.finding);
    let plotted = shown.iter().map(|row| PlotRow {
        name: row.phrase.clone(),
        head: false,
        bar: None,
        marks: vec![PlotMark {
            value: 1.0 + row.change,
            interval: Some(row.interval.map(|end| 1.0 + end)),
            series: usize::from(row.finding == Finding::Worse),
            hollow: false,
            strong: false,
            title: format!("{}: {}, interval {}", row.phrase, signed(row.change), range(row.interval)),
        }],
    });
    let left_out = rows.len() - shown.len();
    let more = if left_out > 0 { format!(" {left_out} more are in the table.") } else { String::new() };
    let caption = format!("{what}. 1 is the base.{more}");
    Drawing {
        id: id.to_owned(),
        alt: format!("{caption} {} drawn.", count(shown.len() as u64, "result", "results")),
        caption,
        plot: Plot::Rows(RowPlot {
            label: "new over base".to_owned(),
            unit: Unit::One,
            scale: Scale::Logarithmic,
            series: vec!["better".to_owned(), "worse".to_owned()],
            diamonds: None,
            bars: None,
            hollow: None,
            reaches_hollow: false,
            reference: Some(1.0),
            rows: plotted.collect(),
        }),
        values: table("", unit, &shown),
    }
}

/// What was not compared, and the runs.
fn apart(comparison: &Comparison) -> PagePart {
    let mut part = PagePart::new("runs", "Runs, and what was not compared", 2);
    let mut runs = Table::new("The runs.", &["side", "run", "begun", "profile", ">CPU", ">neighbour during"]);
    for (side, run) in
        comparison.base.iter().map(|run| ("base", run)).chain(comparison.new.iter().map(|run| ("new", run)))
    {
        let share =
            run.shared_share.map_or_else(|| "–".to_owned(), |share| format!("{} of the batches", percent(share)));
        let cells = [side, &run.place, &run.started, &run.profile].map(Cell::of);
        runs.row(cells.into_iter().chain([Cell::of(run.cpu.to_string()), Cell::of(share)]).collect());
    }
    part.add(Piece::Table(runs));
    if let Some(summary) = not_compared(comparison) {
        part.add(Piece::Folded { summary, pieces: vec![left_out(&comparison.not_compared)] });
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_result_is_and_several_are() {
        let said = |worse, better| changed(9, [worse, better], " now").unwrap_or_default();
        assert_eq!(said(0, 0), "");
        assert_eq!(said(1, 0), "1 of 9 headline results is worse now");
        assert_eq!(said(0, 2), "2 of 9 headline results are better now");
        assert_eq!(said(1, 2), "Of 9 headline results, 1 is worse now and 2 are better");
    }
}
