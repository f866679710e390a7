//! The document as text for a terminal: a summary table, or everything.

use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Row, Table, TableStyle};

use crate::results::document::{Block, Document, Metric, Outcome, Section};
use crate::results::prediction::Prediction;
use crate::results::quantity::Unit;
use crate::results::verdict::{AgainstPrediction, Severity, Trust};
use crate::results::wording::{count, duration, factor, interval, number, percent, quantity};

/// Columns of text where the width of the terminal is unknown: wide enough for the summary, narrow enough for a pager.
const WIDTH: u16 = 180;

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
    text += &closing(document);
    text
}

/// Everything: each section with all of its figures, its curves and its analysis.
pub fn full(document: &Document, width: Option<u16>) -> String {
    let mut text = format!(
        "Run {} with sysdyno {} ({} profile, seed {})\nMachine {}: {}\n",
        document.run.id,
        document.run.version,
        document.run.profile,
        document.run.seed,
        document.machine.fingerprint,
        document.machine.summary_line()
    );
    for section in &document.experiments {
        text += &format!("\n{}  {}\n", section.id, section.title);
        text += &"═".repeat(section.id.len() + section.title.chars().count() + 2);
        text += "\n\n";
        text += &missing(section);
        let metrics: Vec<&Metric> = section.metrics.iter().collect();
        if !metrics.is_empty() {
            text += &table(&metrics, width);
            text += "\n\n";
        }
        for block in &section.analysis {
            text += &render_block(block, width);
        }
        text += &rejected(section);
        text += &remarks(section);
    }
    text += "\n";
    text += &closing(document);
    text
}

/// Text folded at spaces.
pub fn folded(text: &str, width: usize) -> String {
    let mut folded = String::new();
    for paragraph in text.split('\n') {
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

/// A table in the style of all tables.
pub fn plain_table(columns: &[&str], rows: Vec<Vec<String>>, width: Option<u16>) -> String {
    let mut table = base_table(width);
    table.set_header(columns.iter().map(Cell::new));
    for row in rows {
        table.add_row(Row::from(row));
    }
    trimmed(&table)
}

fn base_table(width: Option<u16>) -> Table {
    let mut table = Table::new();
    let rule = LineStyle::none().fill('─').junction('─');
    let style = TableStyle::new().top_border(rule).header_separator(rule).bottom_border(rule);
    table.load_style(style).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width.unwrap_or(WIDTH));
    table
}

/// The table without blanks at the ends of its lines.
fn trimmed(table: &Table) -> String {
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Columns of the table of figures: head, least width of the terminal that shows it, cell.
type Column = (&'static str, u16, fn(&Metric) -> String);

/// The reports' own form: operation, base hardware, software, predicted, measured, ratio, verdict.
const COLUMNS: [Column; 9] = [
    ("hardware", 115, |metric| predicted(metric, |prediction| prediction.base_hardware)),
    ("software", 115, |metric| predicted(metric, |prediction| prediction.software_overhead)),
    ("predicted", 0, |metric| predicted(metric, |prediction| prediction.value)),
    ("range", 150, |metric| {
        metric
            .prediction
            .as_ref()
            .map_or_else(dash, |prediction| interval([prediction.low, prediction.high], prediction.unit))
    }),
    ("measured", 0, |metric| quantity(metric.value, metric.unit)),
    ("±", 0, half_width),
    ("cycles", 100, |metric| metric.cycles.map_or_else(dash, number)),
    ("ratio", 85, |metric| {
        metric.prediction.as_ref().map_or_else(dash, |prediction| factor(metric.value / prediction.value))
    }),
    ("verdict", 0, verdict),
];

/// The table of figures, with as many columns as the terminal is wide enough for.
fn table(metrics: &[&Metric], width: Option<u16>) -> String {
    let wide = width.unwrap_or(WIDTH);
    let columns: Vec<&Column> = COLUMNS.iter().filter(|(_, least, _)| wide >= *least).collect();
    let mut table = base_table(width);
    table.set_header(std::iter::once("operation").chain(columns.iter().map(|(head, ..)| *head)));
    // The name of a metric stands once, above its figures.
    let mut above: Option<&str> = None;
    for metric in metrics {
        let cells = columns.iter().map(|(.., cell)| cell(metric));
        let operation = if metric.labels.is_empty() {
            metric.name.clone()
        } else {
            if above != Some(&metric.name) {
                table.add_row([&metric.name]);
            }
            format!("  {}", metric.labels)
        };
        table.add_row(std::iter::once(operation).chain(cells).collect::<Vec<String>>());
        above = Some(&metric.name);
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

/// Half the interval as a share of the value; a mark where there are too few launches for 95 %.
fn half_width(metric: &Metric) -> String {
    if metric.interval_level <= 0.0 {
        return dash();
    }
    let share = (metric.interval95[1] - metric.interval95[0]) / 2.0 / metric.value.abs();
    let mark = if metric.interval_level < 0.945 { "?" } else { "" };
    format!("{}{mark}", percent(share))
}

/// The comparison with the prediction, behind a loud word where there is reason to doubt the figure.
fn verdict(metric: &Metric) -> String {
    let against = match metric.verdict.against_prediction {
        AgainstPrediction::None => "not predicted",
        other => other.word(),
    };
    match metric.verdict.trust {
        Trust::Clean => against.to_owned(),
        doubted => format!("{}, {against}", doubted.word().to_uppercase()),
    }
}

/// Name, labels behind it.
fn operation(metric: &Metric) -> String {
    if metric.labels.is_empty() { metric.name.clone() } else { format!("{}  {}", metric.name, metric.labels) }
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
            "{}: {} failed; the last: {}\n",
            section.id,
            count(section.failed_launches.len() as u64, "launch", "launches"),
            section.failed_launches.last().map_or("", String::as_str)
        );
    }
    text
}

fn rejected(section: &Section) -> String {
    let mut text = String::new();
    for rejected in &section.rejected {
        let labels = if rejected.labels.is_empty() { String::new() } else { format!(" ({})", rejected.labels) };
        text += &format!("not published: {}{labels}: {}\n", rejected.name, rejected.reason);
    }
    text
}

/// Failed gates of published figures, each once with the figures it concerns.
fn remarks(section: &Section) -> String {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for metric in &section.metrics {
        for gate in metric.verdict.failures() {
            let weight = match gate.severity {
                Severity::Contaminates => "contaminated",
                Severity::Noisy => "noisy",
                Severity::Hard | Severity::Remark => "remark on",
            };
            let line = format!("{weight} \u{0}: {}: {}", gate.id, gate.evidence);
            match found.iter_mut().find(|(text, _)| *text == line) {
                Some((_, figures)) => figures.push(operation(metric)),
                None => found.push((line, vec![operation(metric)])),
            }
        }
    }
    let mut text = String::new();
    for (line, figures) in found {
        let whom =
            if figures.len() == 1 { figures[0].clone() } else { count(figures.len() as u64, "figure", "figures") };
        text += &line.replace('\u{0}', &whom);
        text.push('\n');
    }
    text
}

fn render_block(block: &Block, width: Option<u16>) -> String {
    match block {
        Block::Paragraph(text) => folded(text, usize::from(width.unwrap_or(WIDTH)).min(100)) + "\n",
        Block::Table { caption, columns, rows } => {
            let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
            format!("{caption}\n{}\n\n", plain_table(&columns, rows.clone(), width))
        }
    }
}

/// How far the figures can be trusted, and what the run was.
fn closing(document: &Document) -> String {
    let run = &document.run;
    let metrics: Vec<&Metric> = document.experiments.iter().flat_map(|section| &section.metrics).collect();
    let rejected: usize = document.experiments.iter().map(|section| section.rejected.len()).sum();
    let trusted = |trust: Trust| metrics.iter().filter(|metric| metric.verdict.trust == trust).count();
    let launches: u32 = document.experiments.iter().map(|section| section.launches).sum();
    let mut text = String::new();
    if metrics.iter().any(|metric| metric.interval_level < 0.945) {
        text += "± is half of the interval over launches; with a question mark there are too few launches for 95 %.\n";
    }
    text += &format!(
        "{}: {} clean, {} noisy, {} contaminated; {rejected} not published. {}, {} in {}, on CPU {}{}.\n",
        count(metrics.len() as u64, "figure", "figures"),
        trusted(Trust::Clean),
        trusted(Trust::Noisy),
        trusted(Trust::Contaminated),
        count(u64::from(run.rounds), "round", "rounds"),
        count(u64::from(launches), "launch", "launches"),
        duration(run.wall_seconds),
        run.cpu,
        reference_frequency(&metrics),
    );
    if let Some(contaminated) = metrics.iter().find(|metric| metric.verdict.trust == Trust::Contaminated)
        && let Some(gate) = contaminated.verdict.failures().first()
    {
        text += &format!("Contaminated, for example {}: {}.\n", operation(contaminated), gate.evidence);
    }
    if !run.disturbed_rounds.is_empty() {
        text +=
            &format!("Canaries saw neighbours in {}.\n", count(run.disturbed_rounds.len() as u64, "round", "rounds"));
    }
    if run.resumed > 0 {
        text += &format!("The run was resumed {}.\n", count(u64::from(run.resumed), "time", "times"));
    }
    if let Some(damage) = &run.damage {
        text += &format!("The log is damaged: {damage}; everything before that is kept.\n");
    }
    if !run.complete {
        text += &format!("The run is not complete: {}. Go on with `sysdyno run --resume DIR`.\n", run.ended);
    }
    text
}

fn reference_frequency(metrics: &[&Metric]) -> String {
    metrics
        .iter()
        .find_map(|metric| metric.at_core_hz)
        .map_or_else(String::new, |hertz| format!(" at {}", quantity(hertz, Unit::Hertz)))
}
