//! The report as plain text, for a terminal, a pager, a mail.

use comfy_table::{Cell as Shown, CellAlignment, ContentArrangement};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::page::{Page, Piece, Row, Span, Table};
use super::terminal::{self, base_table, folded, plain_table, trimmed};
use crate::sys::foreign;

/// Columns of text where the width of the terminal is unknown.
const WIDTH: u16 = 140;
/// Width of running text, at most.
const PROSE: usize = 100;
/// Rows of a folded or drawn table that are still printed; longer ones are in the other forms.
const MOST_ROWS: usize = 24;

/// The text, for lines of a width.
pub fn render(page: &Page, width: Option<u16>) -> String {
    let width = width.unwrap_or(WIDTH);
    let mut out = format!("{}\n{}", page.title, folded(&page.subtitle, usize::from(width).min(PROSE)));
    for part in &page.parts {
        let line = if part.level == 2 { "═" } else { "─" };
        out += &format!("\n\n{}\n{}\n\n", part.title, line.repeat(part.title.chars().count()));
        for piece in &part.pieces {
            out += &piece_text(piece, width);
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    foreign::shown(&out).into_owned()
}

/// One part of a page, for verbs that print no more.
pub fn render_part(part: &super::page::PagePart, width: Option<u16>) -> String {
    let width = width.unwrap_or(WIDTH);
    let text = part.pieces.iter().map(|piece| match piece {
        Piece::Folded { pieces, .. } => pieces.iter().map(|piece| piece_text(piece, width)).collect(),
        Piece::Drawing(_) => String::new(),
        other => piece_text(other, width),
    });
    foreign::shown(&text.collect::<String>()).into_owned()
}

fn piece_text(piece: &Piece, width: u16) -> String {
    let prose = usize::from(width).min(PROSE);
    match piece {
        Piece::Heading(title) => format!("{}\n{}\n", title, "·".repeat(title.chars().count())),
        Piece::Paragraph(spans) => folded(&text(spans), prose) + "\n",
        Piece::List(items) => {
            let lines: Vec<String> = items.iter().map(|item| bullet(&text(item), prose)).collect();
            lines.concat() + "\n"
        }
        Piece::Prose(words) => prose_text(words, width),
        Piece::Table(table) => table_text(table, width) + "\n\n",
        Piece::Drawing(drawing) => {
            let values = &drawing.values;
            let shown = if values.rows.len() <= MOST_ROWS {
                table_text(values, width)
            } else {
                format!("{} values. report.html and the Markdown form show them.", values.rows.len())
            };
            folded(&format!("[figures/{}.svg] {}", drawing.id, drawing.caption), prose) + &shown + "\n\n"
        }
        Piece::Alarm(words) => folded(&format!("ATTENTION: {words}"), prose) + "\n",
        Piece::Literal(words) => indented(words),
        Piece::Analysis(pieces) => pieces.iter().map(|piece| piece_text(piece, width)).collect(),
        Piece::Folded { summary, pieces } => {
            let rows: usize = pieces.iter().map(rows_of).sum();
            if rows <= MOST_ROWS {
                let inside: String = pieces.iter().map(|piece| piece_text(piece, width)).collect();
                format!("{summary}:\n{inside}")
            } else {
                folded(&format!("{summary}: {rows} rows. report.html and the Markdown form show them."), prose) + "\n"
            }
        }
    }
}

fn indented(words: &str) -> String {
    let lines: Vec<String> = words.lines().map(|line| format!("    {line}\n")).collect();
    lines.concat() + "\n"
}

/// Markdown for a terminal of a width: headings are underlined, tables drawn, lines folded.
pub fn markdown_text(markdown: &str, width: u16) -> String {
    foreign::shown(prose_text(markdown, width).trim_end()).into_owned() + "\n"
}

/// Markdown without its marks: headings, paragraphs, lists, tables and code.
fn prose_text(markdown: &str, columns: u16) -> String {
    let width = usize::from(columns).min(PROSE);
    let (mut out, mut words, mut items) = (String::new(), String::new(), 0);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match event {
            Event::Text(text) | Event::Code(text) => words += &text,
            Event::SoftBreak | Event::HardBreak => words.push(' '),
            Event::Start(Tag::Item) => items += 1,
            Event::End(TagEnd::Item) => {
                // A loose list has its items in paragraphs, which have written them already.
                if !words.is_empty() {
                    out += &bullet(&std::mem::take(&mut words), width);
                }
                items -= 1;
            }
            Event::End(TagEnd::List(_)) if items == 0 => out.push('\n'),
            Event::End(TagEnd::CodeBlock) => {
                out += &indented(&std::mem::take(&mut words));
            }
            Event::End(TagEnd::Heading(_)) => {
                let title = std::mem::take(&mut words);
                out += &format!("{title}\n{}\n\n", "─".repeat(title.chars().count()));
            }
            Event::Start(Tag::TableHead | Tag::TableRow) => rows.push(Vec::new()),
            Event::End(TagEnd::TableCell) => {
                rows.last_mut().into_iter().for_each(|row| row.push(std::mem::take(&mut words)));
            }
            Event::End(TagEnd::Table) => {
                let mut rows = std::mem::take(&mut rows).into_iter();
                let head = rows.next().unwrap_or_default();
                let head: Vec<&str> = head.iter().map(String::as_str).collect();
                out += &format!("{}\n\n", plain_table(&head, rows.collect(), Some(columns)));
            }
            Event::End(TagEnd::Paragraph) => {
                let text = std::mem::take(&mut words);
                out += &if items > 0 { bullet(&text, width) } else { folded(&text, width) + "\n" };
            }
            _ => {}
        }
    }
    out
}

/// Rows that a piece would print; a long literal counts as too many.
fn rows_of(piece: &Piece) -> usize {
    match piece {
        Piece::Table(table) => table.rows.len(),
        Piece::Literal(words) => words.len() / PROSE,
        _ => 0,
    }
}

fn text(spans: &[Span]) -> String {
    // Links lead nowhere here. Their words would be an order that no reader can follow.
    let words = spans.iter().filter(|span| span.text != "More").map(|span| span.text.as_str());
    words.collect::<String>().trim_end().to_owned()
}

fn bullet(text: &str, width: usize) -> String {
    terminal::hung(text, width, "- ").join("\n") + "\n"
}

fn table_text(table: &Table, width: u16) -> String {
    let mut shown = base_table(Some(width));
    shown.set_content_arrangement(ContentArrangement::Dynamic);
    if table.columns.iter().any(|column| !column.head.is_empty()) {
        shown.set_header(table.columns.iter().map(|column| Shown::new(&column.head)));
    }
    let mut blocks = Vec::new();
    for row in &table.rows {
        match row {
            Row::Cells(cells) => {
                shown.add_row(cells.iter().zip(&table.columns).map(|(cell, column)| {
                    let shown = Shown::new(&cell.text);
                    if column.right { shown.set_alignment(CellAlignment::Right) } else { shown }
                }));
            }
            // Words across all columns must not widen the first: they go over the table's lines afterwards.
            Row::Group(words) | Row::Note(words) => {
                blocks.push(match row {
                    Row::Note(_) => bullet(words, usize::from(width)),
                    _ => folded(words, usize::from(width)),
                });
                shown.add_row([format!("\u{2}{}", blocks.len() - 1)]);
            }
        }
    }
    let mut out =
        if table.caption.is_empty() { String::new() } else { folded(&table.caption, usize::from(width).min(PROSE)) };
    for line in trimmed(&shown).lines() {
        let mark = line.trim().strip_prefix('\u{2}').and_then(|number| number.parse::<usize>().ok());
        match mark.and_then(|number| blocks.get(number)) {
            Some(words) => out += words,
            None => out += &format!("{line}\n"),
        }
    }
    out.truncate(out.trim_end().len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_loses_its_marks_and_keeps_its_words() {
        let markdown =
            "**One** thing is\n`this`:\n\n- an item that\n  goes on\n- another\n\n```\ncode  here\n```\n\nThe *end*.";
        let text = "One thing is this:\n\n- an item that goes on\n- another\n\n    code  here\n\nThe end.\n\n";
        assert_eq!(prose_text(markdown, 80), text);
        let table = prose_text("# Head\n\n| one | two |\n| --- | --- |\n| `a` | b |\n", 40);
        assert!(table.starts_with("Head\n────\n\n") && table.contains(" one   two") && !table.contains('|'), "{table}");
        assert!(prose_text(&"word ".repeat(50), 40).lines().all(|line| line.chars().count() <= 40));
    }
}
