//! What a person predicted, next to the tool's predictions and what was measured.

use super::{field, measured};
use crate::report::page::{Cell, PagePart, Piece, Span, Table, Tone};
use crate::results::document::{Document, record};
use crate::results::expected::Fit;
use crate::results::own_score::OwnScored;
use crate::results::quantity::Unit;
use crate::results::wording::{Shown, capital, factor, interval, quantity};

/// A row for each figure that a person predicted; none where the log has no such predictions.
pub(super) fn part(document: &Document) -> Option<PagePart> {
    let own = document.own_predictions.as_ref()?;
    let by = own.author.as_ref().map_or_else(String::new, |author| format!(" ({author})"));
    let mut part = PagePart::new("own-predictions", &format!("Your predictions{by}"), 2);
    part.say(document.own_score_text().unwrap_or_default());
    let heads = [
        "result",
        ">you",
        ">your range",
        ">sysdyno",
        ">its range",
        ">measured",
        ">your error",
        ">its error",
        "your range and the result",
    ];
    let caption = "Predictions of both sides, written to the log before the first sample. An error is the factor between \
                   prediction and result.";
    let mut table = Table::new(caption, &heads);
    for found in document.own_scored() {
        table.row(row(&found));
        table.note(&format!("Your reason: {}", found.own.reason));
    }
    if !table.is_empty() {
        part.add(Piece::Table(table));
    }
    let off: Vec<Vec<Span>> = document.own_scored().filter_map(|found| difference(&found)).collect();
    if !off.is_empty() {
        let head = Piece::Heading("Where your predictions differ".to_owned());
        part.add(Piece::Analysis(vec![head, Piece::List(off)]));
    }
    let unmet: Vec<Vec<Span>> = document
        .own_unmet()
        .map(|own| {
            let range = interval([own.low, own.high], own.unit);
            let said = format!(": {}, range {range}. Reason: {}", quantity(own.value, own.unit), own.reason);
            vec![Span::strong(record(&own.metric, &own.labels)), Span::plain(said)]
        })
        .collect();
    if !unmet.is_empty() {
        part.head("Predicted, without a result");
        part.add(Piece::List(unmet));
    }
    Some(part)
}

fn row(found: &OwnScored<'_>) -> Vec<Cell> {
    let (metric, own) = (found.metric, found.own);
    let error = |error: Option<f64>| error.map_or_else(Cell::none, |by| Cell::of(factor(by)));
    let above = metric.value > own.high;
    let verdict = match found.fit() {
        Fit::Within if !found.counts() => Cell::toned("inside, too wide to count", Tone::Doubt),
        Fit::Within => Cell::toned("inside", Tone::Good),
        Fit::Open => Cell::toned("not decided", Tone::Doubt),
        Fit::Better | Fit::Worse => {
            Cell::toned(if above { "outside, too low" } else { "outside, too high" }, Tone::Doubt)
        }
    };
    let of_the_tool = |text: &dyn Fn(f64, [f64; 2], Unit) -> Cell| {
        found.prediction().map_or_else(Cell::none, |by| text(by.value, [by.low, by.high], by.unit))
    };
    vec![
        Cell::of(&metric.phrase),
        Cell::datum(quantity(own.value, own.unit), field(metric, "own_prediction.value"), own.value),
        Cell::of(interval([own.low, own.high], own.unit)),
        of_the_tool(&|value, _, unit| Cell::datum(quantity(value, unit), field(metric, "prediction.value"), value)),
        of_the_tool(&|_, range, unit| Cell::of(interval(range, unit))),
        measured(metric),
        error(found.error()),
        error(found.error_of_the_tool()),
        verdict,
    ]
}

/// For a prediction that is off: what the tool's prediction consists of most. A reader sees what was forgotten.
fn difference(found: &OwnScored<'_>) -> Option<Vec<Span>> {
    if !matches!(found.fit(), Fit::Better | Fit::Worse) {
        return None;
    }
    let shown = |value: f64| Shown::of(value, found.metric.unit);
    let mut text = format!(". You: {}. ", shown(found.own.value));
    text += &match (found.prediction(), found.largest_term()) {
        (Some(by), Some(term)) if by.terms.len() > 1 => {
            format!("sysdyno: {}. The largest part is {} ({}).", shown(by.value), shown(term.value), term.what)
        }
        (Some(by), Some(term)) => format!("sysdyno: {} ({}).", shown(by.value), term.what),
        _ => "sysdyno predicted nothing.".to_owned(),
    };
    text += &format!(" Measured: {}.", found.metric.shown());
    Some(vec![Span::strong(capital(&found.metric.phrase)), Span::plain(text)])
}
