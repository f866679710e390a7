//! The section of one experiment: question, method, prediction, results, drawings, analysis, what could fool us, evidence.

use std::collections::BTreeSet;

use super::{
    HOLLOW, add_levels, anchor, curves, cycles, doubted, evidence, field, is_unsettled, label, measured, short_label,
    verdict, why_missing,
};
use crate::report::drawing::{Drawing, Plot, PlotMark, PlotRow, RowPlot};
use crate::report::page::{Cell, PagePart, Piece, Span, Table};
use crate::results::document::{Block, Metric, Outcome, Section, record};
use crate::results::drawing_note::Scale;
use crate::results::prediction::{Basis, Part, Prediction};
use crate::results::score::{Standing, Standings};
use crate::results::verdict::AgainstPrediction;
use crate::results::wording::{Shown, count, duration, interval, quantity, rough, times};

/// Rows of a drawing beyond which only the headline figures are drawn.
const MOST_ROWS: usize = 20;

/// Predictions that are worked out in words.
const MOST_SUMS: usize = 6;

pub(super) fn part(section: &Section) -> PagePart {
    let mut part = PagePart::new(&anchor(&section.id), &section.title, 3);
    let chapters = chapters(&section.methodology);
    if section.outcome != Outcome::Measured {
        let word = if section.outcome == Outcome::Failed { "failed" } else { "was skipped" };
        part.add(Piece::Alarm(format!("{} {word}: {}", section.id, why_missing(section))));
    }
    for (title, text) in chapters.iter().filter(|(title, _)| title == "Question" || title == "Method") {
        part.head(if title == "Method" { "Methodology" } else { title });
        part.add(Piece::Prose(text.clone()));
    }
    prediction(&mut part, section, chapters.iter().find(|(title, _)| title == "Prediction").map(|(_, text)| text));
    if section.outcome == Outcome::Measured {
        part.head("Results");
        part.say(format!(
            "{}, {}, {}.",
            count(u64::from(section.launches), "successful launch", "successful launches"),
            duration(section.wall_seconds),
            count(section.metrics.len() as u64, "result", "results"),
        ));
        part.add(Piece::Table(results(section)));
        drawings(&mut part, section);
    }
    analysis(&mut part, section);
    for (title, text) in &chapters {
        if !["Question", "Method", "Prediction"].contains(&title.as_str()) {
            part.head(title);
            part.add(Piece::Prose(text.clone()));
        }
    }
    evidence::tell(&mut part, section);
    part
}

/// The methodology text by its headings.
pub(super) fn chapters(text: &str) -> Vec<(String, String)> {
    let mut chapters: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("# ") {
            chapters.push((title.trim().to_owned(), String::new()));
        } else if let Some((_, body)) = chapters.last_mut() {
            body.push_str(line);
            body.push('\n');
        }
    }
    for (_, body) in &mut chapters {
        *body = body.trim().to_owned();
    }
    chapters
}

/// How it was predicted, and the terms: those of the headline figures open, the others folded.
fn prediction(part: &mut PagePart, section: &Section, text: Option<&String>) {
    part.head("Prediction");
    if let Some(text) = text {
        part.add(Piece::Prose(text.clone()));
    }
    let predicted: Vec<(&Metric, &Prediction)> =
        section.metrics.iter().filter_map(|metric| Some((metric, metric.prediction.as_ref()?))).collect();
    let (headline, others): (Vec<_>, Vec<_>) = predicted.into_iter().partition(|(metric, _)| metric.headline);
    let mut told = BTreeSet::new();
    let mut table = |of: &[(&Metric, &Prediction)]| {
        let mut table =
            Table::new("", &["result and terms", ">base hardware", ">software overhead", ">range", "basis"]);
        for (metric, found) in of {
            terms(&mut table, &metric.phrase, found, Some(metric), &mut told);
        }
        table
    };
    if headline.is_empty() && others.is_empty() && section.unmet.is_empty() {
        part.say("This run predicted no result.");
    }
    if !headline.is_empty() {
        let sums = headline.iter().take(MOST_SUMS).map(|(metric, found)| worked(metric, found)).collect();
        part.add(Piece::Analysis(vec![Piece::List(sums)]));
        let summary = format!("Terms of {}", count(headline.len() as u64, "headline result", "headline results"));
        part.add(Piece::Folded { summary, pieces: vec![Piece::Table(table(&headline))] });
    }
    if !others.is_empty() {
        let summary = format!("Predictions of {}", count(others.len() as u64, "other result", "other results"));
        part.add(Piece::Folded { summary, pieces: vec![Piece::Table(table(&others))] });
    }
    if !section.unmet.is_empty() {
        let mut table =
            Table::new("", &["result and terms", ">base hardware", ">software overhead", ">range", "basis"]);
        for found in &section.unmet {
            terms(&mut table, &record(&found.metric, &found.labels), found, None, &mut told);
        }
        let summary =
            format!("Predicted but not published: {}", count(section.unmet.len() as u64, "result", "results"));
        part.add(Piece::Folded { summary, pieces: vec![Piece::Table(table)] });
    }
}

/// One prediction worked out: the sum, what was measured, how far they are apart.
pub(super) fn worked(metric: &Metric, found: &Prediction) -> Vec<Span> {
    let range = format!("{} … {}", Shown::of(found.low, found.unit), Shown::of(found.high, found.unit));
    let judged = match metric.verdict.against_prediction {
        _ if metric.standing() == Standing::Unresolved => {
            format!("The result is not resolved, so it is not compared with the range {range}.")
        }
        AgainstPrediction::TooWide => {
            format!("The range {range} is wider than a factor of 4, so the prediction does not count.")
        }
        AgainstPrediction::AsPredicted => format!("The result is inside the range {range}."),
        AgainstPrediction::None => String::new(),
        AgainstPrediction::Faster | AgainstPrediction::Slower => format!("The result is outside the range {range}."),
    };
    vec![
        Span::strong(&metric.phrase),
        Span::plain(format!(
            ". Predicted: {}. Measured: {}, {} times the prediction. {judged}",
            found.sum_text(),
            metric.shown(),
            times(metric.ratio().unwrap_or(1.0)),
        )),
    ]
}

/// Where a term comes from. The source of a constant is printed where the section meets it first.
fn basis(basis: &Basis, told: &mut BTreeSet<String>) -> String {
    let text = basis.text();
    match text.split_once(" (") {
        Some((name, _)) if name.starts_with("constant ") && !told.insert(name.to_owned()) => {
            format!("{name}, as above")
        }
        _ => text.to_owned(),
    }
}

/// One row with the sums, one for each term.
fn terms(table: &mut Table, title: &str, found: &Prediction, metric: Option<&Metric>, told: &mut BTreeSet<String>) {
    let unit = found.unit;
    let sum = |what: &str, value: f64| match metric {
        _ if value == 0.0 => Cell::none(),
        Some(metric) => Cell::datum(quantity(value, unit), field(metric, what), value),
        None => Cell::of(quantity(value, unit)),
    };
    let total = format!("predicted: {}", quantity(found.value, unit));
    table.row(vec![
        Cell::of(title),
        sum("prediction.base_hardware", found.base_hardware),
        sum("prediction.software_overhead", found.software_overhead),
        Cell::of(interval([found.low, found.high], unit)),
        match metric {
            Some(metric) => Cell::datum(total, field(metric, "prediction.value"), found.value),
            None => Cell::of(total),
        },
    ]);
    for term in &found.terms {
        let value = Cell::of(quantity(term.value, unit));
        let (hardware, software) = match term.part {
            Part::BaseHardware => (value, Cell::none()),
            Part::SoftwareOverhead => (Cell::none(), value),
        };
        table.row(vec![
            Cell::of(format!("– {}", term.what)),
            hardware,
            software,
            Cell::of(interval([term.low, term.high], unit)),
            Cell::of(basis(&term.basis, told)),
        ]);
    }
}

fn results(section: &Section) -> Table {
    let heads = [
        "result",
        ">measured",
        ">95 % interval",
        ">typical",
        ">std. dev.",
        ">cycles",
        ">launches / batches",
        "verdict",
    ];
    let mut table = Table::new("", &heads);
    let mut above = "";
    let mut earlier: Vec<&Metric> = Vec::new();
    for metric in &section.metrics {
        if above != metric.name {
            let meaning = section.meanings.iter().find(|known| known.metric == metric.name);
            table.group(
                &meaning.map_or_else(|| metric.name.clone(), |known| format!("{}: {}", metric.name, known.meaning)),
            );
        }
        above = &metric.name;
        table.row(result(metric));
        add_levels(&mut table, metric, &earlier);
        earlier.push(metric);
    }
    table
}

fn result(metric: &Metric) -> Vec<Cell> {
    let unit = metric.unit;
    let mut value = measured(metric);
    if let Some(gross) = metric.gross {
        value.text += &format!(" (gross {})", quantity(gross, unit));
    }
    vec![
        Cell::of(label(metric)),
        value,
        Cell::of(metric.interval_with_level()),
        metric.typical.map_or_else(Cell::none, |typical| {
            let text = crate::results::wording::measured(typical, metric.interval95, unit);
            Cell::datum(text, field(metric, "typical"), typical)
        }),
        if metric.launches < 2 {
            Cell::none()
        } else {
            Cell::datum(rough(metric.stddev, unit), field(metric, "stddev"), metric.stddev)
        },
        cycles(metric),
        Cell::of(format!("{} / {}", metric.launches, metric.samples)),
        verdict(metric),
    ]
}

fn drawings(part: &mut PagePart, section: &Section) {
    for drawing in drawings_of(section) {
        part.add(Piece::Drawing(Box::new(drawing)));
    }
}

/// Curves first, then measured figures next to their predicted ranges.
pub(super) fn drawings_of(section: &Section) -> Vec<Drawing> {
    let mut drawings = curves::drawings(section);
    let mut names: Vec<&str> = Vec::new();
    for metric in &section.metrics {
        if !names.contains(&metric.name.as_str()) {
            names.push(&metric.name);
        }
    }
    drawings.extend(names.into_iter().filter_map(|name| ranges(section, name)));
    drawings
}

/// The figures of one metric next to their predicted ranges, where there are several and no curve has them already.
fn ranges(section: &Section, name: &str) -> Option<Drawing> {
    let mut metrics: Vec<&Metric> = section.metrics.iter().filter(|metric| metric.name == name).collect();
    if metrics.len() > MOST_ROWS {
        metrics.retain(|metric| metric.headline);
    }
    if metrics.len() < 2 || metrics.len() > MOST_ROWS || metrics.iter().all(|metric| metric.prediction.is_none()) {
        return None;
    }
    let first = metrics[0];
    let mut values = Table::new("", &["result", ">measured", ">interval", ">predicted range"]);
    let rows = metrics
        .iter()
        .map(|metric| {
            let found = metric.prediction.as_ref();
            let range = found.map(|found| [found.low, found.high]);
            let words = range.map_or_else(|| "not predicted".to_owned(), |range| interval(range, metric.unit));
            values.row(vec![
                Cell::of(own_words(metric, &metrics)),
                doubted(metric),
                Cell::of(metric.interval_with_level()),
                Cell::of(words.clone()),
            ]);
            let words = if range.is_some() { format!("predicted {words}") } else { words };
            PlotRow {
                name: own_words(metric, &metrics),
                head: false,
                bar: range,
                marks: vec![PlotMark {
                    value: metric.value,
                    interval: Some(metric.interval95),
                    series: 0,
                    hollow: is_unsettled(metric),
                    strong: false,
                    title: format!(
                        "{}: {}, interval {}, {words}, {}",
                        metric.phrase,
                        metric.text(),
                        metric.interval_text(),
                        metric.verdict_text()
                    ),
                }],
            }
        })
        .collect();
    let base = first.phrase.split(", ").next().unwrap_or(name);
    let finding = finding(base, &metrics);
    Some(Drawing {
        id: format!("{name}-ranges"),
        caption: finding.clone(),
        alt: format!("{base}, {}, measured and predicted. {finding}", count(metrics.len() as u64, "case", "cases")),
        plot: Plot::Rows(RowPlot {
            label: base.to_owned(),
            unit: first.unit,
            scale: Scale::Automatic,
            series: vec!["measured".to_owned()],
            diamonds: None,
            bars: Some("predicted range".to_owned()),
            hollow: metrics.iter().any(|metric| is_unsettled(metric)).then(|| HOLLOW.to_owned()),
            reaches_hollow: true,
            reference: None,
            rows,
        }),
        values,
    })
}

/// What a drawing of figures and their ranges shows, in a sentence.
fn finding(base: &str, metrics: &[&Metric]) -> String {
    let counts = Standings::of(metrics.iter().copied());
    let (inside, outside) = (counts.inside, counts.outside());
    let mut base = base.to_owned();
    if let Some(first) = base.get_mut(0..1) {
        first.make_ascii_uppercase();
    }
    match (inside, outside) {
        (0, 0) => format!("{base}: no result can be compared with its prediction."),
        (1, 0) => format!("{base}: the only judged result is inside its predicted range."),
        (2, 0) => format!("{base}: both judged results are inside their predicted ranges."),
        (inside, 0) => format!("{base}: all {inside} judged results are inside their predicted ranges."),
        (0, 1) => format!("{base}: the only judged result is outside its predicted range."),
        (inside, 1) => format!("{base}: 1 of {} judged results is outside its predicted range.", inside + 1),
        (inside, outside) => {
            format!("{base}: {outside} of {} judged results are outside their predicted ranges.", inside + outside)
        }
    }
}

/// What distinguishes a figure from the others of its metric, in plain words: those that not all of them have.
fn own_words(metric: &Metric, shown: &[&Metric]) -> String {
    let others = || shown.iter().map(|other| other.phrase.split(", ").skip(1).collect::<Vec<&str>>());
    let own: Vec<&str> =
        metric.phrase.split(", ").skip(1).filter(|word| !others().all(|words| words.contains(word))).collect();
    if own.is_empty() { short_label(metric, shown) } else { own.join(", ") }
}

fn analysis(part: &mut PagePart, section: &Section) {
    if section.analysis.is_empty() && section.misses.is_empty() {
        return;
    }
    let head = Piece::Heading("Analysis".to_owned());
    let has_table = section.analysis.iter().any(|block| matches!(block, Block::Table { .. }));
    part.add(if has_table { head } else { Piece::Analysis(vec![head]) });
    for block in &section.analysis {
        match block {
            Block::Paragraph(text) => part.explain(text.clone()),
            Block::Table { caption, columns, rows } => {
                // Whole columns of numbers stand on the right.
                let number = |index: usize| {
                    !rows.is_empty()
                        && rows.iter().all(|row| {
                            row.get(index).is_some_and(|cell| {
                                cell.is_empty()
                                    || cell.starts_with(|one: char| one.is_ascii_digit() || "-−–".contains(one))
                            })
                        })
                };
                let heads: Vec<String> = columns
                    .iter()
                    .enumerate()
                    .map(|(index, head)| if number(index) { format!(">{head}") } else { head.clone() })
                    .collect();
                let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
                part.add(Piece::Table(Table::of_texts(caption, &heads, rows.iter().cloned())));
            }
        }
    }
    section.misses.iter().for_each(|text| part.explain(text.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_methodology_falls_apart_at_its_headings() {
        let chapters = chapters("# Question\n\nWhy?\n\n# Method\n\n- one\n- two\n");
        assert_eq!(chapters[0], ("Question".to_owned(), "Why?".to_owned()));
        assert_eq!(chapters[1], ("Method".to_owned(), "- one\n- two".to_owned()));
    }
}
