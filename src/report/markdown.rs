//! The report as Markdown for a Git hosting page, with its drawings as files next to it.

use super::drawing::{Drawing, DrawnFor};
use super::page::{Cell, Page, Piece, Row, Span, Style, Table, Tone};

/// Folder of the drawings, as links name it.
const FOLDER: &str = "figures";

/// The text. Drawings are linked as `figures/NAME.svg`.
pub fn render(page: &Page) -> String {
    let mut out = format!("# {}\n\n{}\n\n", escaped(&page.title), escaped(&page.subtitle));
    for part in &page.parts {
        // Hosting pages make anchors of headings by their own rules. These are ours.
        out += &format!(
            "<a id=\"{}\"></a>\n\n{} {}\n\n",
            part.id,
            "#".repeat(usize::from(part.level)),
            escaped(&part.title)
        );
        for piece in &part.pieces {
            out += &piece_text(piece, part.level);
        }
    }
    out
}

/// Every drawing of a report with the name of its file.
pub fn drawings(page: &Page) -> Vec<(String, String)> {
    page.parts
        .iter()
        .flat_map(|part| &part.pieces)
        .filter_map(|piece| match piece {
            Piece::Drawing(drawing) => Some((format!("{}.svg", drawing.id), drawing.svg(DrawnFor::File))),
            _ => None,
        })
        .collect()
}

fn piece_text(piece: &Piece, level: u8) -> String {
    match piece {
        Piece::Heading(title) => format!("{} {}\n\n", "#".repeat(usize::from(level) + 1), escaped(title)),
        Piece::Paragraph(spans) => format!("{}\n\n", text(spans)),
        Piece::List(items) => {
            let lines: Vec<String> = items.iter().map(|item| format!("- {}\n", text(item))).collect();
            format!("{}\n", lines.concat())
        }
        Piece::Prose(prose) => format!("{prose}\n\n"),
        Piece::Table(table) => table_text(table),
        Piece::Drawing(drawing) => drawing_text(drawing),
        Piece::Alarm(words) => format!("> **Attention:** {}\n\n", escaped(words)),
        Piece::Literal(words) => format!("```text\n{words}\n```\n\n"),
        Piece::Analysis(pieces) => pieces.iter().map(|piece| piece_text(piece, level)).collect(),
        Piece::Folded { summary, pieces } => {
            let inside: String = pieces.iter().map(|piece| piece_text(piece, level)).collect();
            format!("<details><summary>{}</summary>\n\n{inside}</details>\n\n", html(summary))
        }
    }
}

fn text(spans: &[Span]) -> String {
    spans
        .iter()
        .map(|span| match &span.style {
            Style::Plain => escaped(&span.text),
            // A mark that follows a blank would not close.
            Style::Strong => {
                let words = span.text.trim_end();
                format!("**{}**{}", escaped(words), &span.text[words.len()..])
            }
            Style::Link(part) => format!("[{}](#{part})", escaped(&span.text)),
            Style::Elsewhere(address) => format!("[{}]({address})", escaped(&span.text)),
        })
        .collect()
}

fn drawing_text(drawing: &Drawing) -> String {
    format!(
        "![{}]({FOLDER}/{}.svg)\n\n*{}*\n\n<details><summary>Values</summary>\n\n{}</details>\n\n",
        escaped(&drawing.alt),
        drawing.id,
        escaped(&drawing.caption),
        table_text(&drawing.values)
    )
}

fn table_text(table: &Table) -> String {
    let mut out = String::new();
    if !table.caption.is_empty() {
        out += &format!("**{}**\n\n", escaped(&table.caption));
    }
    let line = |cells: &mut dyn Iterator<Item = String>| format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
    out += &line(&mut table.columns.iter().map(|column| cell_words(&column.head)));
    out +=
        &line(&mut table.columns.iter().map(|column| if column.right { "---:".to_owned() } else { "---".to_owned() }));
    let across = |words: String| {
        let empty = table.columns.iter().skip(1).map(|_| String::new());
        line(&mut std::iter::once(words).chain(empty))
    };
    for row in &table.rows {
        out += &match row {
            Row::Cells(cells) => line(&mut cells.iter().map(cell_text)),
            Row::Group(title) => across(format!("**{}**", cell_words(title))),
            Row::Note(words) => across(format!("*{}*", cell_words(words))),
        };
    }
    out + "\n"
}

fn cell_text(cell: &Cell) -> String {
    let words = cell_words(&cell.text);
    if cell.tone == Tone::Bad { format!("**{words}**") } else { words }
}

fn cell_words(text: &str) -> String {
    escaped(text).replace('|', "\\|").replace('\n', " ")
}

/// Text that means itself: what Markdown would take for markup is escaped.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if ['\\', '`', '*', '_', '[', ']', '<', '>', '#', '~'].contains(&letter) {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

fn html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
