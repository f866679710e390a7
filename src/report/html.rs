//! The report as one HTML file: no request leaves it, it reads without scripts, follows light and dark, and prints.

use std::collections::BTreeSet;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use pulldown_cmark::{Event, Options, Parser};

use super::drawing::{self, Drawing, DrawnFor};
use super::page::{Cell, Page, PagePart, Piece, Row, Span, Style, Table, Tone};

const STYLE: &str = include_str!("page.css");
/// Marks the part that is being read in the contents, and shows what a touched point says. Nothing depends on it.
const SCRIPT: &str = include_str!("page.js");

/// The file.
pub fn render(page: &Page) -> String {
    // The first part answers the question of the page. The contents follow, or on a wide screen stand next to it.
    let body = html! {
        @for (place, part) in page.parts.iter().enumerate() {
            (part_markup(part))
            @if place == 0 { (contents(page)) }
        }
    };
    let mut page = whole(&page.title, &page.subtitle, &body);
    // What follows a cell or a row ends it, as HTML allows; thousands of end tags are a tenth of a page.
    for optional in ["</td>", "</th>", "</tr>"] {
        page = page.replace(optional, "");
    }
    page
}

/// A file with a title and what stands in it.
pub fn whole(title: &str, subtitle: &str, body: &Markup) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(format!("sysdyno {}", env!("CARGO_PKG_VERSION")));
                // An empty icon, or browsers ask the network for one.
                link rel="icon" href="data:,";
                title { (title) " · sysdyno" }
                style { (PreEscaped(STYLE)) (PreEscaped(drawing::STYLE)) }
            }
            body {
                a.skip href="#content" { "To the content" }
                header {
                    h1 { (title) }
                    p { (subtitle) }
                }
                main #content { (body) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    markup.into_string()
}

fn contents(page: &Page) -> Markup {
    html! {
        nav aria-label="Contents" {
            h2 { "Contents" }
            ul {
                @for part in &page.parts {
                    li class=(format!("level{}", part.level)) { a href=(format!("#{}", part.id)) { (part.title) } }
                }
            }
        }
    }
}

fn part_markup(part: &PagePart) -> Markup {
    html! {
        section id=(part.id) {
            @if part.level == 2 { h2 { (part.title) } } @else { h3 { (part.title) } }
            (pieces(&part.pieces, part.level))
        }
    }
}

fn pieces(all: &[Piece], level: u8) -> Markup {
    html! { @for piece in all { (piece_markup(piece, level)) } }
}

fn piece_markup(piece: &Piece, level: u8) -> Markup {
    html! {
        @match piece {
            Piece::Heading(title) if level == 2 => h3.minor { (title) },
            Piece::Heading(title) => h4 { (title) },
            Piece::Paragraph(spans) => p { (text(spans)) },
            Piece::List(items) => ul { @for item in items { li { (text(item)) } } },
            Piece::Prose(markdown) => div.prose { (prose(markdown)) },
            Piece::Table(table) => (table_markup(table)),
            Piece::Drawing(drawing) => (drawing_markup(drawing)),
            Piece::Alarm(words) => p.alarm role="note" { strong { "Attention: " } (running(words)) },
            Piece::Literal(words) => pre tabindex="0" { code { (words) } },
            Piece::Analysis(inside) => (pieces(inside, level)),
            Piece::Folded { summary, pieces: inside } => details { summary { (summary) } (pieces(inside, level)) },
        }
    }
}

fn text(spans: &[Span]) -> Markup {
    html! {
        @for span in spans {
            @match &span.style {
                Style::Plain => @match &span.datum {
                    Some(datum) => (number(&span.text, Some((datum.record.as_str(), datum.value)))),
                    None => (running(&span.text)),
                },
                Style::Strong => strong { (running(&span.text)) },
                Style::Link(part) => a href=(format!("#{part}")) { (span.text) },
                Style::Elsewhere(address) => a href=(address) { (span.text) },
            }
        }
    }
}

/// A number that belongs to a record says which one and how much it is exactly. Inside an element that names the figure in
/// `data-of`, the record is the field alone.
fn number(text: &str, datum: Option<(&str, f64)>) -> Markup {
    html! {
        @match datum {
            Some((record, value)) => data value=(value.to_string()) data-record=(record) { (text) },
            None => (text),
        }
    }
}

/// Units that stay on the line of their number.
const UNITS: [&str; 20] = [
    "ns", "µs", "ms", "s", "%", "Hz", "kHz", "MHz", "GHz", "B", "KiB", "MiB", "GiB", "TiB", "B/s", "kB/s", "MB/s",
    "GB/s", "TB/s", "cycles",
];

/// The space between two words: one that no end of a line takes, where they are a number and its unit, or a range.
fn gap(before: &str, after: &str) -> &'static str {
    let unit = after.trim_end_matches(['.', ',', ')', ':', ';', '?']);
    let ends_in_digit = before.ends_with(|letter: char| letter.is_ascii_digit());
    let of_range = unit == "…" && UNITS.contains(&before) || before == "…" || unit == "…" && ends_in_digit;
    if ends_in_digit && UNITS.contains(&unit) || of_range { "\u{a0}" } else { " " }
}

/// Text in which no end of a line divides a number from its unit.
fn kept_together(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mut out = String::with_capacity(text.len());
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            out.push_str(gap(words[index - 1], word));
        }
        out.push_str(word);
    }
    out
}

/// Running text, in which no end of a line divides a number from its unit, or a command-line flag.
fn running(text: &str) -> Markup {
    let words: Vec<&str> = text.split(' ').collect();
    html! {
        @for (index, word) in words.iter().enumerate() {
            @if index > 0 { (gap(words[index - 1], word)) }
            @if word.starts_with("--") { span.flag { (word) } } @else { (word) }
        }
    }
}

/// Markdown of the sources; what looks like markup in it is text.
fn prose(markdown: &str) -> Markup {
    let events = Parser::new_ext(markdown, Options::ENABLE_TABLES).map(|event| match event {
        Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => Event::Text(kept_together(&text).into()),
        other => other,
    });
    let mut out = String::new();
    pulldown_cmark::html::push_html(&mut out, events);
    PreEscaped(out)
}

/// Columns next to the first from which on a row is folded on narrow screens.
const FOLDED: usize = 3;

/// The columns of numbers are named once, at the table: a class per cell is a tenth of a page.
fn table_markup(table: &Table) -> Markup {
    let headed = table.columns.iter().any(|column| !column.head.is_empty());
    let right = table.columns.iter().zip(1..).filter(|(column, _)| column.right).map(|(_, place)| format!("r{place}"));
    // On a narrow screen the first cell of a row is a separate line, and the others share the next one.
    let others = table.columns.len().saturating_sub(1);
    let folds = others >= FOLDED;
    let classes: Vec<String> = right.chain(folds.then(|| "fold".to_owned())).collect();
    let classes = (!classes.is_empty()).then(|| classes.join(" "));
    let style = folds.then(|| format!("--n:{}", others - 1));
    html! {
        div.scroll tabindex="0" role="region" aria-label=(if table.caption.is_empty() { "Table" } else { &table.caption }) {
            table class=[classes] style=[style] {
                @if !table.caption.is_empty() { caption { (running(&table.caption)) } }
                @if headed {
                    thead { tr { @for column in &table.columns { th scope="col" { (column.head) } } } }
                }
                tbody {
                    @for row in &table.rows {
                        @match row {
                            Row::Group(title) => tr.group { th scope="rowgroup" colspan=(table.columns.len()) { (title) } },
                            Row::Note(words) => tr.note { td colspan=(table.columns.len()) { (running(words)) } },
                            Row::Cells(cells) => (cells_markup(cells)),
                        }
                    }
                }
            }
        }
    }
}

fn cells_markup(cells: &[Cell]) -> Markup {
    let figures: BTreeSet<&str> =
        cells.iter().filter_map(|cell| Some(parted(&cell.datum.as_ref()?.record).0)).collect();
    let figure = (figures.len() == 1).then(|| figures.first().copied()).flatten();
    html! { tr data-of=[figure] { @for cell in cells { (cell_markup(cell, figure.is_some())) } } }
}

/// The figure of a record and its field: `cpu.timer.overhead{method=rdtsc}` and `value`.
fn parted(record: &str) -> (&str, &str) {
    record.split_once("}.").map_or((record, ""), |(figure, field)| (&record[..=figure.len()], field))
}

fn cell_markup(cell: &Cell, figure_is_named: bool) -> Markup {
    let tone = match cell.tone {
        Tone::Plain | Tone::Strong | Tone::Faint => None,
        Tone::Good => Some("good"),
        Tone::Doubt => Some("doubt"),
        Tone::Bad => Some("bad"),
    };
    let datum = cell.datum.as_ref().map(|datum| {
        let record = if figure_is_named { parted(&datum.record).1 } else { &datum.record };
        (record, datum.value)
    });
    html! { td class=[tone] { (number(&cell.text, datum)) } }
}

fn drawing_markup(drawing: &Drawing) -> Markup {
    html! {
        figure id=(format!("drawing-{}", drawing.id)) {
            div.scroll tabindex="0" role="region" aria-label=(drawing.caption) {
                (PreEscaped(drawing.svg(DrawnFor::Page)))
                (PreEscaped(drawing.svg(DrawnFor::Phone)))
            }
            figcaption { (running(&drawing.caption)) }
            details { summary { "Values" } (table_markup(&drawing.values)) }
        }
    }
}
