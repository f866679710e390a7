//! What a run prints when it ends: the summary table, what is missing, how far to trust it.

use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Row, Table, TableStyle, Width,
};

use crate::results::document::{CheckOutcome, Document, Grade, Metric, Outcome, Section};
use crate::results::prediction::Prediction;
use crate::results::quantity::Unit;
use crate::results::wording::{capital, count, duration, factor, interval, percent, quantity};
use crate::sys::foreign;

/// Columns of text where the width of the terminal is unknown: wide enough for the summary, narrow enough for a pager.
pub const WIDTH: u16 = 180;

/// The summary: one row per headline figure, then what was skipped, failed or rejected.
pub fn summary(document: &Document, width: Option<u16>) -> String {
    let mut text = String::new();
    let metrics: Vec<&Metric> =
        document.experiments.iter().flat_map(|section| &section.metrics).filter(|metric| metric.headline).collect();
    if !metrics.is_empty() {
        text += &table(&metrics, width);
        text += "\n\n";
    }
    for section in &document.experiments {
        text += &missing(section);
    }
    text += &violations(document);
    text += &closing(document);
    foreign::shown(&text).into_owned()
}

/// Rules between experiments that are broken: never silent.
fn violations(document: &Document) -> String {
    let mut text = String::new();
    for check in document.checks.iter().filter(|check| check.outcome == CheckOutcome::Violated) {
        for made in check.comparisons.iter().filter(|made| !made.holds) {
            text += &format!("BROKEN {}: {} is not {} {}\n", check.id, made.left, made.relation, made.right);
        }
    }
    text
}

/// Text folded at spaces. A line that fits keeps its indentation.
pub fn folded(text: &str, width: usize) -> String {
    let mut folded = String::new();
    for paragraph in text.split('\n') {
        if paragraph.chars().count() <= width {
            folded += paragraph;
            folded.push('\n');
            continue;
        }
        let mut column = 0;
        for word in paragraph.split(' ') {
            let length = word.chars().count();
            if column > 0 && column + 1 + length > width {
                folded.push('\n');
                column = 0;
            } else if column > 0 {
                folded.push(' ');
                column += 1;
            }
            folded.push_str(word);
            column += length;
        }
        folded.push('\n');
    }
    folded
}

/// Text folded at spaces, the first line behind a mark and the others below it.
pub(super) fn hung(text: &str, width: usize, mark: &str) -> Vec<String> {
    let indent = mark.chars().count();
    let begin = |number: usize| if number == 0 { mark.to_owned() } else { " ".repeat(indent) };
    let lines = folded(text, width.saturating_sub(indent));
    lines.lines().enumerate().map(|(number, line)| begin(number) + line).collect()
}

/// A table in the style of all tables.
pub fn plain_table(columns: &[&str], rows: Vec<Vec<String>>, width: Option<u16>) -> String {
    let mut table = base_table(width);
    table.set_header(columns.iter().map(Cell::new));
    for row in rows {
        table.add_row(Row::from(row));
    }
    trimmed(&table)
}

pub(super) fn base_table(width: Option<u16>) -> Table {
    let mut table = Table::new();
    let rule = LineStyle::none().fill('─').junction('─');
    let style = TableStyle::new().top_border(rule).header_separator(rule).bottom_border(rule);
    table.load_style(style).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width.unwrap_or(WIDTH));
    table
}

/// The table without blanks at the ends of its lines.
pub(super) fn trimmed(table: &Table) -> String {
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Width of a terminal below which the first column gets its least width, and that width.
const NARROW: u16 = 80;
const LEAST_NAME: u16 = 24;

/// Width of a terminal from which on both ends of a lopsided interval have room.
const ROOMY: u16 = 100;

/// Columns of the table of figures: head, least width of the terminal that shows it, cell.
type FigureColumn = (&'static str, u16, fn(&Metric) -> String);

/// The reports' own form: operation, base hardware, software, predicted, measured, ratio, verdict.
const COLUMNS: [FigureColumn; 9] = [
    ("hardware", 115, |metric| predicted(metric, |prediction| prediction.base_hardware)),
    ("software", 115, |metric| predicted(metric, |prediction| prediction.software_overhead)),
    ("predicted", 72, |metric| predicted(metric, |prediction| prediction.value)),
    ("range", 150, |metric| {
        metric
            .prediction
            .as_ref()
            .map_or_else(dash, |prediction| interval([prediction.low, prediction.high], prediction.unit))
    }),
    ("measured", 0, Metric::text),
    ("±", 58, half_width),
    ("cycles", 100, |metric| metric.cycles_text().unwrap_or_else(dash)),
    ("ratio", 85, |metric| metric.ratio().map_or_else(dash, factor)),
    ("verdict", 48, Metric::verdict_text),
];

/// The table of figures, with as many columns as the terminal is wide enough for.
fn table(metrics: &[&Metric], width: Option<u16>) -> String {
    let wide = width.unwrap_or(WIDTH);
    let columns: Vec<&FigureColumn> = COLUMNS.iter().filter(|(_, least, _)| wide >= *least).collect();
    let mut table = base_table(width);
    table.set_header(std::iter::once("operation").chain(columns.iter().map(|(head, ..)| *head)));
    for figures in metrics.chunk_by(|one, other| one.name == other.name) {
        // The name of a metric stands once, above its figures, with the labels that all of them share.
        let shared: Vec<(&str, &str)> = figures[0]
            .labels
            .pairs()
            .filter(|(key, value)| {
                figures.len() > 1 && figures.iter().all(|found| found.labels.get(key) == Some(value))
            })
            .collect();
        if !figures[0].labels.is_empty() {
            table.add_row([format!("{}  {}", figures[0].name, short(shared.iter().copied())).trim_end()]);
        }
        for metric in figures {
            let own = short(metric.labels.pairs().filter(|pair| !shared.contains(pair)));
            let operation = if metric.labels.is_empty() { metric.name.clone() } else { format!("  {own}") };
            let cells = columns.iter().map(|(head, _, cell)| match *head {
                "±" if wide >= ROOMY => metric.uncertainty_text(),
                _ => cell(metric),
            });
            table.add_row(std::iter::once(operation).chain(cells).collect::<Vec<String>>());
        }
    }
    // A name of one letter a line says nothing.
    if wide < NARROW
        && let Some(column) = table.column_mut(0)
    {
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(LEAST_NAME)));
    }
    for (index, (head, ..)) in columns.iter().enumerate() {
        if let Some(column) = table.column_mut(index + 1) {
            // Labels may be folded, numbers may not.
            column.set_constraint(ColumnConstraint::ContentWidth);
            if *head != "verdict" {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    trimmed(&table)
}

/// Labels in a table: whole kibibytes and more are written as such. Only sizes are numbers so large and so round.
fn short<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let value = |text: &str| {
        let bytes = text.parse::<u64>().ok().filter(|bytes| *bytes >= 4096)?;
        let (unit, size) = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)]
            .into_iter()
            .find(|(_, size)| bytes.is_multiple_of(*size))?;
        Some(format!("{}{unit}", bytes / size))
    };
    let words: Vec<String> =
        pairs.map(|(key, text)| format!("{key}={}", value(text).unwrap_or_else(|| text.to_owned()))).collect();
    words.join(" ")
}

/// A part of the prediction, where there is one.
fn predicted(metric: &Metric, part: fn(&Prediction) -> f64) -> String {
    metric
        .prediction
        .as_ref()
        .filter(|prediction| part(prediction) != 0.0)
        .map_or_else(dash, |prediction| quantity(part(prediction), prediction.unit))
}

fn dash() -> String {
    "–".to_owned()
}

/// Half the interval as a share of the value, or the longer side of a lopsided one.
fn half_width(metric: &Metric) -> String {
    if metric.interval_level <= 0.0 {
        return dash();
    }
    let share = metric.plus_minus();
    let mark = if metric.has_level() { "" } else { "?" };
    format!("{}{mark}", percent(share))
}

/// Why a section has no figures, or some launches failed.
fn missing(section: &Section) -> String {
    let mut text = String::new();
    let word = match section.outcome {
        Outcome::Measured => None,
        Outcome::Skipped => Some("skipped"),
        Outcome::Failed => Some("failed"),
    };
    if let Some(word) = word {
        text += &format!("{} {word}: {}\n", section.id, section.reason.as_deref().unwrap_or("no reason was recorded"));
        if let Some(hint) = &section.hint {
            text += &format!("  hint: {hint}\n");
        }
    }
    if !section.failed_launches.is_empty() {
        text += &format!(
            "{}: {} failed. The last: {}\n",
            section.id,
            count(section.failed_launches.len() as u64, "launch", "launches"),
            section.failed_launches.last().map_or("", String::as_str)
        );
    }
    text
}

/// How far the figures can be trusted, and what the run was.
fn closing(document: &Document) -> String {
    let run = &document.run;
    let metrics: Vec<&Metric> = document.experiments.iter().flat_map(|section| &section.metrics).collect();
    let rejected: usize = document.experiments.iter().map(|section| section.rejected.len()).sum();
    let launches: u32 = document.experiments.iter().map(|section| section.launches).sum();
    let mut text = String::new();
    if metrics.iter().any(|metric| !metric.has_level()) {
        text += "A question mark or a level in brackets means too few launches for a 95 % interval.\n";
    }
    text += &format!(
        "{}: {}. {rejected} not published. {}, {} in {}, on CPU {}{}{}.\n",
        count(metrics.len() as u64, "result", "results"),
        document.grades(),
        count(u64::from(run.rounds), "round", "rounds"),
        count(u64::from(launches), "launch", "launches"),
        duration(run.wall_seconds),
        run.cpu,
        if document.practice.moved_launches.is_some_and(|moved| moved > 0) { " and others of its kind" } else { "" },
        reference_frequency(&metrics),
    );
    for grade in [Grade::Contaminated, Grade::Disturbed] {
        if let Some(metric) = metrics.iter().find(|metric| metric.grade == grade)
            && let Some(gate) = metric.verdict.failures().first()
        {
            text += &format!("{}, for example {}: {}.\n", capital(grade.word()), metric.phrase, gate.evidence);
        }
    }
    if !run.disturbed_rounds.is_empty() {
        text += &format!(
            "Interference probes detected neighbours in {}.\n",
            count(run.disturbed_rounds.len() as u64, "round", "rounds")
        );
    }
    if let Some(score) = document.prediction_score(None) {
        text += &format!("{}\n", score.text());
    }
    text += &document.own_score_text().map_or_else(String::new, |score| score + "\n");
    for sentence in document.host_state().into_iter().chain(run.resumed_text()).chain(run.damage_text()) {
        text += &format!("{sentence}\n");
    }
    if run.complete && run.ended.starts_with("the time ") {
        text += &format!(
            "It ended because {}. Intervals are therefore wider. Give it more time with --time LIMIT.\n",
            run.ended
        );
    }
    if let Some(sentence) = run.incomplete_text() {
        text += &format!("{sentence}\n");
    }
    text
}

fn reference_frequency(metrics: &[&Metric]) -> String {
    metrics
        .iter()
        .find_map(|metric| metric.at_core_hz)
        .map_or_else(String::new, |hertz| format!(" at {}", quantity(hertz, Unit::Hertz)))
}
