//! The summary table in the form of the classic reports, and the checks between experiments.

use super::appendix::pointer;
use super::{chapter_title, cycles, field, measured, short_label, verdict};
use crate::report::drawing::{Drawing, Plot, PlotMark, PlotRow, RowPlot};
use crate::report::page::{Cell, PagePart, Piece, Table, Tone};
use crate::results::document::{CheckOutcome, CompositeCheck, Document, Metric, Outcome};
use crate::results::drawing_note::Scale;
use crate::results::quantity::Unit;
use crate::results::score::PredictionScore;
use crate::results::wording::{self, factor, percent, quantity};

/// One row per headline figure.
pub(super) fn figures(document: &Document) -> PagePart {
    let mut part = PagePart::new("summary", "Summary", 2);
    let headline: Vec<&Metric> = document.metrics().filter(|metric| metric.headline).collect();
    if headline.is_empty() {
        part.say("No result was published.");
    } else {
        part.say(
            "Base hardware and software overhead are the two parts of the prediction. Ratio is measured over \
             predicted. The column ± has half of the interval over launches, or both ends where one side is more than \
             twice the other. A question mark means too few launches for a 95 % interval.",
        );
        part.add(Piece::Table(table(&headline)));
        // One drawing for each chapter: each fits a printed page.
        for chapter in document.experiments.chunk_by(|one, other| one.chapter == other.chapter) {
            let of: Vec<&Metric> =
                chapter.iter().flat_map(|section| &section.metrics).filter(|metric| metric.headline).collect();
            if of.iter().any(|metric| metric.ratio().is_some()) {
                part.add(Piece::Drawing(Box::new(overview(&chapter[0].chapter, &of))));
            }
        }
    }
    if let Some(taxes) = taxes(document) {
        part.say(format!(
            "A neighbour is another task, mostly of another tenant, on the second hardware thread of the core. {} With \
             a neighbour the same batches took:",
            document.alone_sentence("The results above")
        ));
        part.add(Piece::Table(taxes));
    }
    if let Some((scores, text)) = scores(document) {
        part.say(&text);
        part.add(Piece::Table(scores));
    }
    let without: Vec<_> =
        document.experiments.iter().filter(|section| section.outcome != Outcome::Measured).map(pointer).collect();
    if !without.is_empty() {
        part.say("Without results:");
        part.add(Piece::List(without));
    }
    part
}

/// How good the predictions were, by chapter, next to those of the records that coefficients come from. None without predictions.
fn scores(document: &Document) -> Option<(Table, String)> {
    let mut table = Table::new(
        "",
        &["chapter", ">results", ">predicted", ">inside", ">median error", ">median width", ">interval score"],
    );
    let mut row = |name: &str, score: &PredictionScore| {
        table.row(vec![
            Cell::of(name),
            Cell::of(score.figures.to_string()),
            Cell::of(score.predicted.to_string()),
            Cell::of(percent(score.inside)),
            Cell::of(factor(score.error)),
            Cell::of(factor(score.width)),
            Cell::of(wording::number(score.interval_score)),
        ]);
    };
    for chapter in document.experiments.chunk_by(|one, other| one.chapter == other.chapter) {
        if let Some(score) = document.prediction_score(Some(&chapter[0].chapter)) {
            row(&chapter[0].chapter, &score);
        }
    }
    row("all", &document.prediction_score(None)?);
    let mut text = "Accuracy of the predictions. A range wider than a factor of 4 counts as not predicted, and the \
                    other columns cover the rest. Lower is better for error, width and score."
        .to_owned();
    if let Some(records) = document.practice.records_score.as_ref() {
        text += &format!(
            " For records outside the fit, the error is {}, the width {}, and {} are inside their ranges.",
            factor(records[0]),
            factor(records[1]),
            percent(records[2])
        );
    }
    Some((table, text))
}

/// What a neighbour on the core costs, for every figure of the summary that knows it; none where no figure does.
fn taxes(document: &Document) -> Option<Table> {
    let mut table = Table::new("", &["operation", ">alone", ">with a neighbour", ">factor", ">launches with one"]);
    let mut rows = 0;
    for metric in document.metrics().filter(|metric| metric.headline) {
        let Some((tax, shared)) = metric.tax().zip(metric.shared) else { continue };
        rows += 1;
        table.row(vec![
            Cell::of(metric.title()),
            measured(metric),
            Cell::datum(
                wording::measured(shared.value, shared.interval95, metric.unit),
                field(metric, "shared.value"),
                shared.value,
            ),
            Cell::datum(factor(tax), field(metric, "tax"), tax),
            Cell::of(shared.launches.to_string()),
        ]);
    }
    (rows > 0).then_some(table)
}

fn table(metrics: &[&Metric]) -> Table {
    let heads = [
        "operation",
        ">base hardware",
        ">software overhead",
        ">predicted",
        ">measured",
        ">±",
        ">cycles",
        ">ratio",
        "verdict",
    ];
    let mut table = Table::new("", &heads);
    let mut above = "";
    for metric in metrics {
        if !metric.labels.is_empty() && above != metric.name {
            table.group(&metric.name);
        }
        above = &metric.name;
        table.row(row(metric));
    }
    table
}

fn row(metric: &Metric) -> Vec<Cell> {
    let name = if metric.labels.is_empty() { metric.name.clone() } else { metric.labels.to_string() };
    let predicted = |what: &str, value: f64, unit: Unit| {
        if value == 0.0 { Cell::none() } else { Cell::datum(quantity(value, unit), field(metric, what), value) }
    };
    let mut cells = vec![Cell::of(name)];
    match &metric.prediction {
        Some(found) => cells.extend([
            predicted("prediction.base_hardware", found.base_hardware, found.unit),
            predicted("prediction.software_overhead", found.software_overhead, found.unit),
            predicted("prediction.value", found.value, found.unit),
        ]),
        None => cells.extend([Cell::none(), Cell::none(), Cell::none()]),
    }
    cells.extend([
        measured(metric),
        half_width(metric),
        cycles(metric),
        metric.ratio().map_or_else(Cell::none, |ratio| Cell::datum(factor(ratio), field(metric, "ratio"), ratio)),
        verdict(metric),
    ]);
    cells
}

/// Half the interval as a share of the value, or both ends of a lopsided one.
fn half_width(metric: &Metric) -> Cell {
    if metric.interval_level <= 0.0 {
        return Cell::none();
    }
    let text = metric.uncertainty_text();
    if metric.is_lopsided() {
        return Cell::of(text);
    }
    Cell::datum(text, field(metric, "half_width"), metric.relative_half_width())
}

/// Every headline figure and its range, both over what was predicted.
fn overview(chapter: &str, metrics: &[&Metric]) -> Drawing {
    let mut values = Table::new("", &["operation", ">measured / predicted", ">range / predicted"]);
    let mut rows: Vec<PlotRow> = Vec::new();
    let mut above = "";
    for metric in metrics {
        let (Some(found), Some(ratio)) = (&metric.prediction, metric.ratio()) else { continue };
        let range = [found.low / found.value, found.high / found.value];
        values.row(vec![
            Cell::of(metric.title()),
            Cell::of(factor(ratio)),
            Cell::of(format!("{} … {}", factor(range[0]), factor(range[1]))),
        ]);
        if !metric.labels.is_empty() && above != metric.name {
            rows.push(PlotRow::head(&metric.name));
        }
        above = &metric.name;
        let title = format!(
            "{}: measured {}, predicted {} ({}), {}",
            metric.title(),
            metric.text(),
            quantity(found.value, found.unit),
            factor(ratio),
            metric.verdict_text()
        );
        let interval = Some(metric.interval95.map(|end| end / found.value));
        rows.push(PlotRow {
            name: short_label(metric, metrics),
            head: false,
            bar: Some(range),
            marks: vec![PlotMark { value: ratio, interval, series: 0, hollow: false, strong: false, title }],
        });
    }
    Drawing {
        id: format!("summary-{chapter}"),
        caption: format!("{}: every headline result over its prediction", chapter_title(chapter)),
        alt: format!("Measured over predicted for {} results, with the predicted ranges", values.rows.len()),
        plot: Plot::Rows(RowPlot {
            label: "measured / predicted".to_owned(),
            unit: Unit::One,
            scale: Scale::Logarithmic,
            series: vec!["measured".to_owned()],
            diamonds: None,
            bars: Some("predicted range".to_owned()),
            hollow: None,
            reaches_hollow: false,
            reference: Some(1.0),
            rows,
        }),
        values,
    }
}

/// The composite checks with both sides.
pub(super) fn checks(document: &Document) -> PagePart {
    let mut part = PagePart::new("checks", "Composite checks", 2);
    let of = |outcome: CheckOutcome| document.checks.iter().filter(move |check| check.outcome == outcome);
    part.say(format!(
        "Rules between the results of different experiments, valid on any machine. {} of {} rules hold, {} are broken, \
         {} could not be applied because their results are missing.",
        of(CheckOutcome::Holds).count(),
        document.checks.len(),
        of(CheckOutcome::Violated).count(),
        of(CheckOutcome::NotApplicable).count(),
    ));
    for check in of(CheckOutcome::Violated) {
        for broken in check.comparisons.iter().filter(|made| !made.holds) {
            part.add(Piece::Alarm(format!(
                "{} is broken: {}. {} is not {} {}.",
                check.id, check.rule, broken.left, broken.relation, broken.right
            )));
        }
    }
    let mut table = Table::new("", &["left", "must be", "right", "holds"]);
    for check in document.checks.iter().filter(|check| check.outcome != CheckOutcome::NotApplicable) {
        table.group(&format!("{} {}", check.id, check.rule));
        add(&mut table, check);
    }
    if !table.is_empty() {
        part.add(Piece::Table(table));
    }
    let mut absent = Table::new("", &["rule", "", "missing results"]);
    for check in of(CheckOutcome::NotApplicable) {
        absent.row(vec![Cell::of(&check.id), Cell::of(&check.rule), Cell::of(missing(check))]);
    }
    if !absent.is_empty() {
        part.add(Piece::Folded {
            summary: "Rules that could not be applied".to_owned(),
            pieces: vec![Piece::Table(absent)],
        });
    }
    part
}

fn add(table: &mut Table, check: &CompositeCheck) {
    for made in &check.comparisons {
        let (word, tone) = if made.holds { ("yes", Tone::Good) } else { ("NO", Tone::Bad) };
        table.row(vec![Cell::of(&made.left), Cell::of(&made.relation), Cell::of(&made.right), Cell::toned(word, tone)]);
    }
    if !check.missing.is_empty() {
        let missing = missing(check);
        table.row(vec![Cell::of("not compared: missing"), Cell::none(), Cell::of(missing), Cell::none()]);
    }
}

/// At most four names: a rule over caches alone misses dozens.
fn missing(check: &CompositeCheck) -> String {
    let mut text = check.missing.iter().take(4).cloned().collect::<Vec<_>>().join("; ");
    if check.missing.len() > 4 {
        text += &format!("; {} more", check.missing.len() - 4);
    }
    text
}
