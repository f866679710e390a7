//! Published figures next to those of this machine: a separate page, and a part for a terminal.

use super::{PUBLISHED, chapter_title, name_drawings};
use crate::report::drawing::{Drawing, Plot, PlotMark, PlotRow, RowPlot};
use crate::report::page::{Cell, Page, PagePart, Piece, Span, Table, Tone};
use crate::results::document::Document;
use crate::results::drawing_note::Scale;
use crate::results::published::{Published, PublishedFigure, PublishedGroup};
use crate::results::quantity::Unit;
use crate::results::wording::{count, factor, quantity};
use crate::statistics::summary::median;

/// The page: machines, the drawings of each chapter, all figures.
pub fn page(document: &Document, published: &Published) -> Page {
    let mut parts = vec![introduction(published), predictions(document, published)];
    parts.extend(super::other_machines::part(document));
    let mut chapter = String::new();
    for (own, drawing) in drawings(published, Some(document)) {
        if own != chapter {
            parts.push(PagePart::new(&format!("published-{own}"), &chapter_title(&own), 2));
            chapter = own;
        }
        if let Some(part) = parts.last_mut() {
            part.add(Piece::Drawing(Box::new(drawing)));
        }
    }
    let mut all = PagePart::new("published-all", "All published results", 2);
    all.add(Piece::Table(table(published, Some(document))));
    parts.push(all);
    name_drawings(&mut parts);
    Page {
        title: format!("Published results next to those of {}", super::host(document)),
        subtitle: document.machine.summary_line(),
        parts,
    }
}

/// Where the page is, for the appendix.
pub(super) fn pointer() -> PagePart {
    let mut part = PagePart::new("published", "Published results", 2);
    part.add(Piece::Paragraph(vec![
        Span::plain("The page "),
        Span::elsewhere(PUBLISHED, PUBLISHED),
        Span::plain(" compares this run with five published reports on measurements of operating systems."),
    ]));
    part
}

/// The part: machines, drawings, and all figures. Without a document it is about the published figures alone.
pub fn part(published: &Published, document: Option<&Document>) -> PagePart {
    let mut part = introduction(published);
    for (_, drawing) in drawings(published, document) {
        part.add(Piece::Drawing(Box::new(drawing)));
    }
    let all = table(published, document);
    part.add(Piece::Folded { summary: "All published results".to_owned(), pieces: vec![Piece::Table(all)] });
    part
}

/// What the figures are, and the machines that they are of.
fn introduction(published: &Published) -> PagePart {
    let mut part = PagePart::new("published", "Published results next to this machine's", 2);
    let doubted = published.figures.iter().filter(|figure| figure.doubt.is_some()).count();
    part.say(format!(
        "{} from {} on measurements of operating systems, as printed. {doubted} of them cannot be what their name \
         says, and the reason is next to them. Drawings show them hollow. The reports differ from each other and from \
         this run in machine, method and year, so a factor of two means little.",
        count(published.figures.len() as u64, "result", "results"),
        count(published.reports.len() as u64, "report", "reports"),
    ));
    let rows = published.reports.iter().map(|report| {
        let texts = [
            &report.id,
            &report.year,
            &report.processor,
            &report.memory,
            &report.storage,
            &report.network,
            &report.system,
        ];
        texts.into_iter().cloned().collect()
    });
    let heads = ["report", "year", "processor", "memory", "storage", "network", "system"];
    part.add(Piece::Table(Table::of_texts("Machines of the reports", &heads, rows)));
    part
}

/// How good the predictions of the reports were, and those of this run.
fn predictions(document: &Document, published: &Published) -> PagePart {
    let mut part = PagePart::new("published-predictions", "Predictions of the reports, and of this run", 2);
    part.say(
        "The authors of the reports predicted their results, too. The error is the factor between a prediction and the result of the \
         same report or run: its median, and the largest one. Doubtful results count, too.",
    );
    let mut table = Table::new("", &["predictions of", ">results", ">median error", ">largest error"]);
    let mut row = |of: String, mut errors: Vec<f64>| {
        errors.sort_by(f64::total_cmp);
        if let (Some(middle), Some(largest)) = (median(&errors), errors.last()) {
            table.row(vec![
                Cell::of(of),
                Cell::of(errors.len().to_string()),
                Cell::of(factor(middle)),
                Cell::of(factor(*largest)),
            ]);
        }
    };
    let error = |predicted: f64, value: f64| (predicted / value).max(value / predicted);
    let own = |report: &str| -> Vec<f64> {
        let figures = published.figures.iter().filter(|figure| figure.report == report);
        figures.filter_map(|figure| Some(error(figure.predicted?, figure.value?))).collect()
    };
    for report in &published.reports {
        row(format!("report {}", report.id), own(&report.id));
    }
    row("all reports".to_owned(), published.reports.iter().flat_map(|report| own(&report.id)).collect());
    let settled = document.metrics().filter(|metric| metric.headline && !metric.at_least);
    let ours = settled.filter_map(|metric| {
        let said = metric.prediction.as_ref().filter(|found| found.says_something() && found.unit == metric.unit)?;
        Some(error(said.value, metric.value))
    });
    row("this run, headline results".to_owned(), ours.collect());
    part.add(Piece::Table(table));
    part
}

/// One drawing for each chapter and unit, with its chapter; operations without a figure of ours by name are in the table alone.
fn drawings(published: &Published, document: Option<&Document>) -> Vec<(String, Drawing)> {
    let mut found: Vec<(String, Unit, Vec<&PublishedGroup>)> = Vec::new();
    for group in &published.groups {
        let Some(metric) = &group.metric else { continue };
        if published.figures_of(group).all(|figure| figure.value.is_none()) {
            continue;
        }
        let chapter = metric.split('.').next().unwrap_or_default().to_owned();
        match found.iter_mut().find(|(of, unit, _)| *of == chapter && *unit == group.unit) {
            Some((.., groups)) => groups.push(group),
            None => found.push((chapter, group.unit, vec![group])),
        }
    }
    let mut drawn: Vec<(String, Drawing)> = Vec::new();
    for (chapter, unit, groups) in &found {
        let drawing = drawing(published, document, chapter, *unit, groups);
        // After the others of its chapter.
        let place = drawn.iter().rposition(|(other, _)| other == chapter).map_or(drawn.len(), |last| last + 1);
        drawn.insert(place, (chapter.clone(), drawing));
    }
    drawn
}

fn drawing(
    published: &Published,
    document: Option<&Document>,
    chapter: &str,
    unit: Unit,
    groups: &[&PublishedGroup],
) -> Drawing {
    let kind = match unit {
        Unit::Nanoseconds => "times",
        Unit::BytesPerSecond => "rates",
        Unit::Hertz => "frequencies",
        _ => "sizes",
    };
    let caption =
        format!("{}: published {kind}{}", chapter_title(chapter), document.map_or("", |_| ", and this machine"));
    let mut series: Vec<String> = document.iter().map(|_| "this machine".to_owned()).collect();
    let first = series.len();
    series.extend(published.reports.iter().map(|report| format!("report {}", report.id)));
    Drawing {
        id: format!("published-{chapter}-{kind}"),
        alt: format!("{caption}: {}", count(groups.len() as u64, "operation", "operations")),
        plot: Plot::Rows(RowPlot {
            label: String::new(),
            unit,
            scale: Scale::Logarithmic,
            series,
            diamonds: None,
            bars: None,
            hollow: Some("hollow: doubtful".to_owned()),
            reaches_hollow: false,
            reference: None,
            rows: groups.iter().map(|group| row(published, document, group, first)).collect(),
        }),
        values: drawn(published, document, groups),
        caption,
    }
}

fn row(published: &Published, document: Option<&Document>, group: &PublishedGroup, first: usize) -> PlotRow {
    let mut marks: Vec<PlotMark> = published
        .figures_of(group)
        .filter_map(|figure| {
            let value = figure.value?;
            let number = published.reports.iter().position(|report| report.id == figure.report)?;
            let caveat = figure.caveat(published).map_or_else(String::new, |reason| format!(". Doubtful: {reason}"));
            let caveat = if figure.doubt.is_some() { caveat } else { String::new() };
            Some(PlotMark {
                value,
                interval: None,
                series: first + number,
                hollow: figure.doubt.is_some(),
                strong: false,
                title: format!(
                    "{}, report {} section {}: {}{caveat}",
                    group.title,
                    figure.report,
                    figure.section,
                    in_words(figure, group.unit)
                ),
            })
        })
        .collect();
    // This machine comes last, so that nothing covers it.
    if let Some(metric) = document.and_then(|document| group.ours(document)) {
        marks.push(PlotMark {
            value: metric.value,
            interval: Some(metric.interval95),
            series: 0,
            hollow: false,
            strong: true,
            title: format!("{}, this machine: {} {}", group.title, metric.title(), metric.text()),
        });
    }
    PlotRow { name: group.title.clone(), head: false, bar: None, marks }
}

/// The value in a readable unit, with the standard deviation that the report prints.
fn in_unit(figure: &PublishedFigure, unit: Unit) -> Option<String> {
    let value = quantity(figure.value?, unit);
    Some(figure.deviation.map_or_else(|| value.clone(), |deviation| format!("{value} ± {}", quantity(deviation, unit))))
}

/// The value in a readable unit, and the parameters.
fn in_words(figure: &PublishedFigure, unit: Unit) -> String {
    let value = in_unit(figure, unit).unwrap_or_else(|| figure.printed.clone());
    figure.detail.as_ref().map_or_else(|| value.clone(), |detail| format!("{value} ({detail})"))
}

/// What a drawing shows, one row per operation.
fn drawn(published: &Published, document: Option<&Document>, groups: &[&PublishedGroup]) -> Table {
    let mut table =
        Table::new("", &["operation", ">this machine", ">lowest not doubted", ">highest not doubted", ">doubted"]);
    for group in groups {
        let sound =
            || published.figures_of(group).filter(|figure| figure.doubt.is_none()).filter_map(|figure| figure.value);
        let end = |pick: fn(f64, f64) -> f64| {
            sound().reduce(pick).map_or_else(Cell::none, |value| Cell::of(quantity(value, group.unit)))
        };
        let doubted = published.figures_of(group).filter(|figure| figure.doubt.is_some()).count();
        let ours = document.and_then(|document| group.ours(document));
        table.row(vec![
            Cell::of(&group.title),
            ours.map_or_else(Cell::none, super::doubted),
            end(f64::min),
            end(f64::max),
            Cell::of(doubted.to_string()),
        ]);
    }
    table
}

fn table(published: &Published, document: Option<&Document>) -> Table {
    let heads = [
        "report",
        "section",
        "printed",
        ">in units of sysdyno ± standard deviation",
        ">their prediction",
        ">this machine / theirs",
        "parameters and doubts",
    ];
    let mut table = Table::new("", &heads);
    for group in &published.groups {
        let ours = document.and_then(|document| group.ours(document));
        table.group(&ours.map_or_else(
            || group.title.clone(),
            |metric| format!("{}. This machine: {} {}", group.title, metric.title(), metric.text()),
        ));
        for figure in published.figures_of(group) {
            let ratio = figure.value.and_then(|value| Some(ours?.value / value));
            table.row(vec![
                Cell::of(&figure.report),
                Cell::of(&figure.section),
                Cell::of(&figure.printed),
                in_unit(figure, group.unit).map_or_else(Cell::none, Cell::of),
                figure.predicted.map_or_else(Cell::none, |value| Cell::of(quantity(value, group.unit))),
                ratio.map_or_else(Cell::none, |ratio| Cell::of(factor(ratio))),
                remarks(published, figure),
            ]);
        }
    }
    table
}

fn remarks(published: &Published, figure: &PublishedFigure) -> Cell {
    let reason = figure
        .caveat(published)
        .map(|reason| if figure.doubt.is_some() { format!("doubtful: {reason}") } else { reason.to_owned() });
    let parts: Vec<String> = [figure.detail.clone(), figure.computed.clone(), reason].into_iter().flatten().collect();
    let tone = if figure.doubt.is_some() { Tone::Doubt } else { Tone::Plain };
    if parts.is_empty() { Cell::none() } else { Cell::toned(parts.join("; "), tone) }
}
