//! What a run ends with: the answer on one screen. The machine, a verdict, how sure it is, the costs that every reader asks for
//! first, what is special about the machine, what is missing. With the place of the report it has 21 lines at most, at any width.

use std::path::Path;

use super::verdict::verdict;
use crate::report::page::{Analysis, Cell, Tone};
use crate::report::reference::ReferenceRun;
use crate::report::screen::{Line, WIDTH, cut, folded, plain, row};
use crate::results::document::{Cost, Document, Grade, Highlight, HighlightKind, Metric, Outcome, Section};
use crate::results::wording::{count, duration, significant};
use crate::statistics::summary::median;

/// Lines of a screen.
const LINES: usize = 20;
/// Columns of one cost: name, measured, half of the interval, predicted.
const COST: usize = 40;
/// Columns of the name of one.
const NAME: usize = 16;
/// Columns of the predicted value, or that of a reference run.
const OTHER: usize = 8;
/// Lines of the verdict.
const VERDICT: usize = 6;
/// Insights that are shown.
const INSIGHTS: usize = 2;
/// Failed experiments that are named.
const MOST_FAILURES: usize = 4;
/// Costs below which all headline figures are listed instead.
const FEW: usize = 8;
/// Rows of costs that are shown, however much else there is to say.
const FEWEST_ROWS: usize = 4;

/// A run in one line, for the log of a job: node, results by grade or why there are none, duration, and where it is.
pub fn in_one_line(document: &Document, place: &Path) -> String {
    let run = &document.run;
    let node = run.identity.as_ref().map_or(run.id.as_str(), |identity| identity.node.as_str());
    let of = |grade: Grade| document.metrics().filter(|metric| metric.headline && metric.grade == grade).count();
    let all = document.metrics().filter(|metric| metric.headline).count() as u64;
    let mut reasons = document.experiments.iter().filter_map(|section| Some((&section.id, section.reason.as_ref()?)));
    let results = if let (0, Some((experiment, reason))) = (all, reasons.next()) {
        format!("no headline result ({experiment}: {reason})")
    } else {
        let grades = Grade::ALL.map(|grade| format!("{} {}", of(grade), grade.word()));
        format!("{}, {}", count(all, "headline result", "headline results"), grades.join(", "))
    };
    let incomplete = if run.complete { "" } else { ", incomplete" };
    format!("{node}: {results}, {}{incomplete}: {}", duration(run.wall_seconds), place.display())
}

/// The screen of a run. The values of a reference run take the place of the predicted ones.
pub fn screen(
    document: &Document,
    width: Option<u16>,
    reference: Option<&ReferenceRun>,
    analysis: Analysis,
) -> Vec<Line> {
    let lines = laid_out(document, width, reference, analysis, false);
    // Said where the mark is: the words take the room of two costs.
    let is_mark = |cell: &Cell| cell.tone == Tone::Bad && cell.text.trim_start().starts_with('!');
    if lines.iter().flatten().any(is_mark) { laid_out(document, width, reference, analysis, true) } else { lines }
}

/// The screen, with the meaning of the mark for what others had a part in or without it.
fn laid_out(
    document: &Document,
    width: Option<u16>,
    reference: Option<&ReferenceRun>,
    analysis: Analysis,
    marked: bool,
) -> Vec<Line> {
    let wide = usize::from(width.unwrap_or(WIDTH)).max(40);
    let took = took(document);
    let about = cut(&document.machine.short_line(), wide.saturating_sub(took.chars().count() + 2));
    let mut above = vec![vec![Cell::toned(format!("{about}  {took}"), Tone::Strong)]];
    if analysis == Analysis::Shown {
        above.extend(folded(&verdict(document), wide, "", Tone::Plain, VERDICT));
    }
    above.extend(document.own_score_line().into_iter().flat_map(|line| folded(&line, wide, "", Tone::Plain, 1)));
    let certainty = format!("{} {}", intervals(document), document.disturbed_by());
    above.extend(folded(&certainty, wide, "", Tone::Plain, 4));
    let mut end: Vec<Line> =
        reference.map_or_else(Vec::new, |run| folded(&format!("ref.: {}", run.name()), wide, "", Tone::Faint, 1));
    let missing = missing(document);
    if !missing.is_empty() {
        end.extend(folded(&missing, wide, "", Tone::Faint, 1));
    }
    for alarm in alarms(document) {
        end.extend(folded(&alarm, wide, "", Tone::Bad, 4));
    }
    let last = folded(&whole_table(document, marked), wide, "", Tone::Faint, 2);
    end.truncate(LINES.saturating_sub(above.len() + FEWEST_ROWS + 2 + last.len()));
    end.extend(last);
    // Where little room is left, whole insights make way.
    let room = LINES.saturating_sub(above.len() + end.len() + FEWEST_ROWS + 1);
    let mut below: Vec<Line> = Vec::new();
    let insights = if analysis == Analysis::Shown { insights(document) } else { Vec::new() };
    for (found, number) in insights.iter().zip(1..) {
        let lines = insight(found, &format!("{number} "), wide);
        if below.len() + lines.len() <= room {
            below.extend(lines);
        }
    }
    below.extend(end);
    let across = (wide / COST).max(1);
    let room = LINES.saturating_sub(above.len() + below.len() + 1).max(FEWEST_ROWS);
    let mut lines = above;
    let costs = costs(document, room * across, reference);
    if document.costs.len() < FEW {
        lines.extend(listed(document, wide, room, reference));
        lines.extend(below);
        lines.truncate(LINES);
        return lines;
    }
    let rows = costs.len().div_ceil(across).min(room);
    if rows > 0 {
        lines.push((0..across.min(costs.len())).flat_map(|_| head(NAME, reference)).collect());
        for row in 0..rows {
            let cells = (0..across).filter_map(|column| costs.get(column * rows + row));
            lines.push(cells.flat_map(Clone::clone).collect());
        }
    }
    lines.extend(below);
    lines.truncate(LINES);
    lines
}

/// How to see all results, how many of them are good, and what the marks on the screen mean.
fn whole_table(document: &Document, marked: bool) -> String {
    let headlines = || document.metrics().filter(|metric| metric.headline);
    let good = headlines().filter(|metric| metric.grade == Grade::Good).count();
    if headlines().next().is_none() {
        return String::new();
    }
    let all = count(headlines().count() as u64, "headline result", "headline results");
    let disturbed = if marked { ", ! disturbed" } else { "" };
    format!("All {all} ({good} good): --all. ▲▼ not as predicted, ? unresolved{disturbed}")
}

/// An insight in two lines at most, behind a mark. Advice that does not fit is left out: half of it would mislead.
fn insight(found: &Highlight, mark: &str, wide: usize) -> Vec<Line> {
    let mut with =
        found.advice.iter().map(|advice| folded(&format!("{} {advice}", found.text), wide, mark, Tone::Plain, 3));
    let whole = with.find(|lines| lines.len() <= 2);
    whole.unwrap_or_else(|| folded(&found.text, wide, mark, Tone::Plain, 2))
}

/// The first insight of a run that goes on, as plain text without a final line break.
pub fn first_insight(found: &Highlight, width: Option<u16>) -> String {
    let wide = usize::from(width.unwrap_or(WIDTH)).max(40);
    let text = plain(&insight(found, "First finding: ", wide));
    text.trim_end().to_owned()
}

fn took(document: &Document) -> String {
    let run = &document.run;
    format!("({}, {})", duration(run.wall_seconds), count(u64::from(run.rounds), "round", "rounds"))
}

/// How well the figures are known, by chapter; empty where nothing has an interval.
pub fn intervals(document: &Document) -> String {
    let chapters: Vec<String> = document
        .experiments
        .chunk_by(|one, other| one.chapter == other.chapter)
        .filter_map(|chapter| {
            let widths: Vec<f64> = chapter
                .iter()
                .flat_map(|section| &section.metrics)
                .filter(|metric| metric.headline && metric.has_level())
                .map(Metric::relative_half_width)
                .collect();
            Some(format!("{} ±{}", chapter[0].chapter, short_percent(median(&widths)?)))
        })
        .collect();
    if chapters.is_empty() { String::new() } else { format!("Typical 95 % intervals: {}.", chapters.join(", ")) }
}

/// A share in percent with at most two digits.
fn short_percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 0.1 {
        "0.1 %".to_owned()
    } else if percent < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

fn insights(document: &Document) -> Vec<&Highlight> {
    // What disturbed the run stands above them, and claims that differ cost the reader nothing.
    let costs = |found: &&Highlight| !matches!(found.kind, HighlightKind::Disturbance | HighlightKind::Contradiction);
    document.highlights.iter().filter(costs).take(INSIGHTS).collect()
}

/// What was not measured, and how to get it.
fn missing(document: &Document) -> String {
    let skipped = document.experiments.iter().filter(|section| section.outcome == Outcome::Skipped);
    let named: Vec<String> = skipped
        .map(|section| {
            let hint = section.hint.as_ref().map_or_else(String::new, |hint| format!(" ({hint})"));
            format!("{}{hint}", section.id)
        })
        .collect();
    if named.is_empty() { String::new() } else { format!("Not measured: {}.", named.join(", ")) }
}

/// What failed, and why.
fn failures(document: &Document) -> Vec<String> {
    let failed = |section: &Section| {
        let reason = section.reason.as_deref().unwrap_or("no reason was recorded");
        match section.outcome {
            Outcome::Failed => {
                let hint = section.hint.as_ref().map(|hint| format!("hint: {hint}"));
                let failed = if section.failed_launches.is_empty() { "" } else { " failed" };
                [format!("{}{failed}: {reason}.", section.id)].into_iter().chain(hint).collect()
            }
            _ => Vec::from_iter(section.failed_launches.last().map(|last| {
                let launches = count(section.failed_launches.len() as u64, "launch", "launches");
                format!("{}: {launches} failed, the last because {last}.", section.id)
            })),
        }
    };
    document.experiments.iter().map(failed).filter(|words| !words.is_empty()).take(MOST_FAILURES).flatten().collect()
}

/// What a reader must know before trusting any number.
fn alarms(document: &Document) -> Vec<String> {
    let run = &document.run;
    let of_run = [run.damage_text(), run.incomplete_text(), run.resumed_text()];
    failures(document).into_iter().chain(of_run.into_iter().flatten()).collect()
}

fn head(name: usize, reference: Option<&ReferenceRun>) -> Line {
    let other = if reference.is_some() { "ref." } else { "pred." };
    row(
        "",
        name,
        &[("measured", 10, Tone::Faint), ("±%", 4, Tone::Faint), (other, 9, Tone::Faint), (" ", 1, Tone::Plain)],
    )
}

/// Every cost as a cell of the same width, as many as there is room for.
fn costs(document: &Document, room: usize, reference: Option<&ReferenceRun>) -> Vec<Line> {
    let mut shown: Vec<(usize, &Cost, &Metric)> = document
        .costs
        .iter()
        .enumerate()
        .filter_map(|(place, cost)| Some((place, cost, document.metric(&cost.metric, &cost.labels)?)))
        .collect();
    shown.sort_by_key(|(place, cost, _)| (cost.rank, *place));
    shown.truncate(room);
    shown.sort_by_key(|(place, ..)| *place);
    shown.iter().map(|(_, cost, metric)| cell(&cost.name, NAME, metric, reference)).collect()
}

/// The headline figures of a run of few experiments, one in a line.
fn listed(document: &Document, wide: usize, room: usize, reference: Option<&ReferenceRun>) -> Vec<Line> {
    let name = wide.saturating_sub(COST - 16).clamp(16, 60);
    let mut lines = vec![head(name, reference)];
    let headlines = document.metrics().filter(|metric| metric.headline);
    lines.extend(headlines.take(room).map(|metric| cell(&metric.phrase, name, metric, reference)));
    if lines.len() == 1 { Vec::new() } else { lines }
}

fn cell(name: &str, width: usize, metric: &Metric, reference: Option<&ReferenceRun>) -> Line {
    let (mark, tone) = if metric.grade.has_foreign_part() {
        ("!", Tone::Bad)
    } else if metric.is_outside() {
        let above = metric.prediction.as_ref().is_some_and(|prediction| metric.value > prediction.high);
        (if above { "▲" } else { "▼" }, Tone::Doubt)
    } else {
        (" ", Tone::Plain)
    };
    let predicted = || metric.prediction.as_ref().filter(|prediction| prediction.says_something());
    let other = match reference {
        Some(run) => run.value(metric).and_then(|value| {
            let mut texts = [3, 2].map(|digits| significant(value, metric.unit, digits)).into_iter();
            texts.find(|text| text.chars().count() <= OTHER)
        }),
        None => predicted().map(|prediction| significant(prediction.value, prediction.unit, 2)),
    };
    let other = other.unwrap_or_else(|| "–".to_owned());
    let half = if metric.grade == Grade::Unresolved {
        "?".to_owned()
    } else if metric.grade.has_foreign_part() || metric.interval_level <= 0.0 {
        "–".to_owned()
    } else {
        let percent = metric.plus_minus() * 100.0;
        match percent {
            percent if percent < 0.95 => format!("{percent:.1}"),
            percent if percent < 999.5 => format!("{percent:.0}"),
            _ => ">1k".to_owned(),
        }
    };
    let at_least = if metric.at_least { "≥" } else { "" };
    let value = format!("{mark}{at_least}{}", significant(metric.value, metric.unit, 3));
    let other = format!(" {other}");
    row(name, width, &[(&value, 10, tone), (&half, 4, Tone::Faint), (&other, 9, Tone::Faint), (" ", 1, Tone::Plain)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_have_two_digits() {
        assert_eq!([0.0001, 0.012, 0.123].map(short_percent), ["0.1 %", "1.2 %", "12 %"]);
    }
}
