//! The ladder of costs: every time that every reader asks for on one axis, from a cycle to a fork, next to what was predicted.

use super::chapter_title;
use crate::report::drawing::{DIAMOND, Drawing, Plot, PlotMark, PlotRow, RowPlot};
use crate::report::page::{Cell, Table};
use crate::report::reference::ReferenceRun;
use crate::results::document::{Document, Metric};
use crate::results::drawing_note::Scale;
use crate::results::quantity::Unit;
use crate::results::score::Standing;
use crate::results::wording::{factor, interval, measured, significant};

/// Fewest costs that make a ladder.
const FEWEST: usize = 3;

/// The drawing; none where a run has few times. The costs of a reference run are diamonds.
pub(super) fn drawing(document: &Document, reference: Option<&ReferenceRun>) -> Option<Drawing> {
    let mut rows: Vec<PlotRow> = Vec::new();
    let mut heads = vec!["cost", ">measured", ">predicted range"];
    heads.extend(reference.map(|_| ">reference"));
    let mut values = Table::new("", &heads);
    let (mut chapter, mut outside, mut all) = ("", Vec::new(), 0);
    let (mut judged, mut unsettled) = (0, false);
    for cost in &document.costs {
        let Some(metric) = document.metric(&cost.metric, &cost.labels) else { continue };
        if metric.unit != Unit::Nanoseconds {
            continue;
        }
        let own = metric.name.split('.').next().unwrap_or_default();
        if own != chapter {
            rows.push(PlotRow::head(&chapter_title(own)));
        }
        chapter = own;
        all += 1;
        unsettled |= super::is_unsettled(metric);
        if metric.is_outside() {
            outside.push(format!("{} ({})", cost.name, metric.ratio().map_or_else(String::new, factor)));
        }
        let range = metric.prediction.as_ref().filter(|found| found.says_something());
        let range = range.map(|found| [found.low, found.high]);
        judged += usize::from(metric.is_outside() || metric.standing() == Standing::Inside);
        let words = range.map_or_else(|| "not predicted".to_owned(), |range| interval(range, metric.unit));
        let mut cells = vec![Cell::of(&cost.name), super::doubted(metric), Cell::of(words.clone())];
        let diamond = reference.and_then(|run| diamond(run, metric));
        if reference.is_some() {
            cells.push(
                diamond.as_ref().map_or_else(Cell::none, |mark| Cell::of(significant(mark.value, metric.unit, 3))),
            );
        }
        values.row(cells);
        let words = if range.is_some() { format!("predicted {words}") } else { words };
        let own = PlotMark {
            value: metric.value,
            interval: None,
            series: usize::from(metric.is_outside()),
            hollow: super::is_unsettled(metric),
            strong: false,
            title: format!("{}: {}, {words}, {}", metric.phrase, metric.text(), metric.grade.word()),
        };
        rows.push(PlotRow {
            name: format!("{}  {}", cost.name, measured(metric.value, metric.interval95, metric.unit)),
            head: false,
            bar: range,
            marks: diamond.into_iter().chain([own]).collect(),
        });
    }
    if all < FEWEST {
        return None;
    }
    let finding = match outside.as_slice() {
        [] if judged == 0 => "No time can be compared with a prediction.".to_owned(),
        [] => format!("All {judged} judged times are inside their ranges."),
        [one] => format!("1 of {judged} judged times is outside its range: {one}."),
        some => format!("{} of {judged} judged times are outside their ranges: {}.", some.len(), some.join(", ")),
    };
    let other = reference.map_or_else(String::new, |run| format!(" Diamonds are the reference run {}.", run.name()));
    let mut series = vec!["measured".to_owned()];
    if !outside.is_empty() {
        series.push("measured, outside the predicted range".to_owned());
    }
    Some(Drawing {
        id: "costs".to_owned(),
        caption: format!("The costs on one logarithmic axis. {finding}{other}"),
        alt: format!("Measured costs with their predicted ranges. {finding}"),
        plot: Plot::Rows(RowPlot {
            label: "time of one operation".to_owned(),
            unit: Unit::Nanoseconds,
            scale: Scale::Logarithmic,
            series,
            diamonds: reference.map(|run| format!("reference: {}", run.name())),
            bars: Some("predicted range".to_owned()),
            hollow: unsettled.then(|| super::HOLLOW.to_owned()),
            reaches_hollow: true,
            reference: None,
            rows,
        }),
        values,
    })
}

/// The value of a reference run, below the run's own mark.
fn diamond(reference: &ReferenceRun, metric: &Metric) -> Option<PlotMark> {
    let [value, interval] = reference.text(metric)?;
    Some(PlotMark {
        value: reference.value(metric)?,
        interval: None,
        series: DIAMOND,
        hollow: false,
        strong: false,
        title: format!("{}, reference {}: {value}, interval {interval}", metric.phrase, reference.name()),
    })
}
