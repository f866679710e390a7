//! What the report says, in order: front, machine, methodology, one section per experiment, summary, checks, what is missing, how
//! to reproduce. Published figures have a separate page. Every part is computed from the document. None knows an experiment.

mod across;
mod appendix;
mod brief;
pub mod comparison;
mod comparison_curves;
mod cost_ladder;
mod curves;
mod evidence;
pub mod fleet;
mod fleet_words;
mod front;
pub mod history;
pub mod judgement;
mod machine;
pub mod mesh;
mod methodology;
mod operation;
mod other_machines;
mod own_predictions;
mod published_comparison;
pub mod run_screen;
mod section;
pub mod stored;
mod summary;
pub mod verdict;

use std::collections::BTreeSet;

use super::page::{Cell, Page, PagePart, Piece, Table, Tone};
use crate::results::document::{Document, Grade, Metric, Section};
use crate::results::quantity::{Labels, Unit};
use crate::results::verdict::AgainstPrediction;
use crate::results::wording::{factor, mark, significant};

pub use brief::brief;
pub use published_comparison::{page as published_page, part as published};

/// Everything about a run: the appendix of its report.
pub fn page(document: &Document) -> Page {
    let mut parts = vec![front::part(document), machine::part(document), methodology::part(document)];
    let mut chapter = String::new();
    for section in &document.experiments {
        if section.chapter != chapter {
            chapter.clone_from(&section.chapter);
            parts.push(PagePart::new(&format!("chapter-{chapter}"), &chapter_title(&chapter), 2));
        }
        parts.push(section::part(section));
    }
    parts.push(summary::figures(document));
    parts.push(summary::checks(document));
    parts.push(published_comparison::pointer());
    parts.push(appendix::missing(document));
    parts.push(appendix::reproduce(document));
    name_drawings(&mut parts);
    Page {
        title: format!("What the primitives of {} cost", host(document)),
        subtitle: document.machine.summary_line(),
        parts,
    }
}

/// Gives every drawing a name that is also one of a file: of letters that are chosen here, and of no other drawing. Labels of a log
/// are part of it, and a log can come from anywhere.
fn name_drawings(parts: &mut [PagePart]) {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for piece in parts.iter_mut().flat_map(|part| &mut part.pieces) {
        if let Piece::Drawing(drawing) = piece {
            let name = safe_name(&drawing.id);
            let others = (2..).map(|number| format!("{name}-{number}"));
            drawing.id = std::iter::once(name.clone())
                .chain(others)
                .find(|candidate| !taken.contains(candidate))
                .unwrap_or_default();
            taken.insert(drawing.id.clone());
        }
    }
}

/// Longest name of a drawing in letters.
const LONGEST_NAME: usize = 120;

/// Letters that mean nothing to a shell, a path, an address or a page. A name does not begin with a dot, which would hide its file,
/// nor with a dash, which would be an option.
fn safe_name(words: &str) -> String {
    let safe = |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '_' };
    let name: String = words.chars().map(safe).take(LONGEST_NAME).collect();
    if name.starts_with(|first: char| first.is_ascii_alphanumeric()) { name } else { format!("figure{name}") }
}

/// The host part of the run's name.
fn host(document: &Document) -> String {
    let id = &document.run.id;
    id.rsplit_once('-').map_or_else(|| id.clone(), |(host, _)| host.to_owned())
}

/// Chapters are abbreviations or words.
fn chapter_title(chapter: &str) -> String {
    match chapter {
        "cpu" => "Processor".to_owned(),
        "os" => "Operating system".to_owned(),
        "file" => "File system".to_owned(),
        other => other.chars().take(1).flat_map(char::to_uppercase).chain(other.chars().skip(1)).collect(),
    }
}

/// Anchor of a section.
fn anchor(id: &str) -> String {
    let safe = |letter: char| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' };
    id.chars().map(safe).collect()
}

/// A fact that differs between two sides.
fn fact(name: &str, base: &str, new: &str) -> String {
    format!("{name}: {base} → {new}")
}

/// Name of a field of a record, as reports carry it next to numbers.
fn field(metric: &Metric, field: &str) -> String {
    field_of(&metric.name, &metric.labels, field)
}

fn field_of(metric: &str, labels: &Labels, field: &str) -> String {
    format!("{metric}{{{labels}}}.{field}")
}

/// The figure.
fn measured(metric: &Metric) -> Cell {
    Cell::datum(metric.text(), field(metric, "value"), metric.value)
}

/// The figure with the reason for doubt, where no other column says it.
fn doubted(metric: &Metric) -> Cell {
    metric.doubt().map_or_else(|| measured(metric), |doubt| Cell::of(format!("{} ({doubt})", metric.text())))
}

/// Whether a drawing shows the figure by a hollow mark.
fn is_unsettled(metric: &Metric) -> bool {
    metric.grade == Grade::Unresolved || metric.grade.has_foreign_part()
}

/// What a hollow mark in a drawing means.
const HOLLOW: &str = "hollow: neither good nor rough";

/// The figure in core cycles.
fn cycles(metric: &Metric) -> Cell {
    match (metric.cycles_text(), metric.cycles) {
        (Some(text), Some(cycles)) => Cell::datum(text, field(metric, "cycles"), cycles),
        _ => Cell::none(),
    }
}

/// What the section calls a figure: its labels, or its name where it has none.
fn label(metric: &Metric) -> String {
    if metric.labels.is_empty() { metric.name.clone() } else { metric.labels.to_string() }
}

/// What distinguishes a figure from the others of its metric among those shown: the values of the labels that differ.
fn short_label(metric: &Metric, shown: &[&Metric]) -> String {
    if metric.labels.is_empty() {
        return metric.name.clone();
    }
    let others = || shown.iter().filter(|other| other.name == metric.name);
    let differs = |key: &str| others().any(|other| other.labels.get(key) != metric.labels.get(key));
    let mut short: Vec<String> = Vec::new();
    for (key, value) in metric.labels.pairs().filter(|(key, _)| differs(key)) {
        short.push(spelled(key, value));
    }
    if short.is_empty() {
        short = metric.labels.pairs().map(|(key, value)| spelled(key, value)).collect();
    }
    short.join(" ")
}

/// A label as a row of a drawing names it. A bare number does not say what it counts, and a size is read in binary units.
fn spelled(key: &str, value: &str) -> String {
    match value.parse::<f64>() {
        Ok(size) if ["bytes", "resident", "limit"].contains(&key) => format!("{key} {}", mark(size, Unit::Bytes)),
        Ok(_) => format!("{key} {value}"),
        Err(_) => value.to_owned(),
    }
}

/// The verdict; where there is reason to doubt the figure its tone says so too.
fn verdict(metric: &Metric) -> Cell {
    let tone = match (metric.grade, metric.verdict.against_prediction) {
        (Grade::Disturbed | Grade::Contaminated, _) => Tone::Bad,
        (Grade::Rough | Grade::Unresolved, _) | (_, AgainstPrediction::Slower | AgainstPrediction::Faster) => {
            Tone::Doubt
        }
        (_, AgainstPrediction::AsPredicted) => Tone::Good,
        (_, AgainstPrediction::None | AgainstPrediction::TooWide) => Tone::Plain,
    };
    Cell::toned(metric.verdict_text(), tone)
}

/// Where the appendix and the published figures of a report are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherPages {
    /// In files next to it, which it links.
    Beside,
    /// Nowhere yet: it names the commands that make them.
    OnDemand,
}

/// File of the appendix, next to the report.
const APPENDIX: &str = "appendix.html";
/// File of the published figures, next to the report.
const PUBLISHED: &str = "published.html";

/// One figure in a line.
fn line(metric: &Metric) -> Vec<Cell> {
    let prediction = metric.prediction.as_ref().filter(|found| found.says_something());
    let tone = match metric.verdict.against_prediction {
        AgainstPrediction::Faster | AgainstPrediction::Slower => Tone::Doubt,
        _ => Tone::Plain,
    };
    vec![
        Cell::of(&metric.phrase),
        measured(metric),
        Cell::of(metric.uncertainty_text()),
        Cell::of(prediction.map_or_else(|| "–".to_owned(), |found| significant(found.value, found.unit, 3))),
        Cell::toned(prediction.and(metric.ratio()).map_or_else(|| "–".to_owned(), factor), tone),
        verdict(metric),
    ]
}

/// Adds a figure in a line to a table, and below it its levels.
fn add_line(table: &mut Table, metric: &Metric, earlier: &[&Metric]) {
    table.row(line(metric));
    add_levels(table, metric, earlier);
}

/// Adds the levels of a figure with two modes below it, where no earlier figure has said them.
fn add_levels(table: &mut Table, metric: &Metric, earlier: &[&Metric]) {
    if let Some(levels) = metric.modes_text()
        && !metric.repeats_modes_of(earlier.iter().copied())
    {
        table.note(&format!("Two levels: {levels}."));
    }
}

/// The sentence that says why a section has no figures.
fn why_missing(section: &Section) -> String {
    let reason = section.reason.as_deref().unwrap_or("no reason was recorded");
    let hint = section.hint.as_ref().map_or_else(String::new, |hint| format!(" Fix: {hint}."));
    format!("{reason}.{hint}")
}
