//! One operation in the main document: question, method in three sentences, prediction as a sum, a few rows, one drawing, what it
//! means, one trap.

use super::section::{chapters, drawings_of, worked};
use super::{APPENDIX, OtherPages, add_line, anchor};
use crate::report::page::{PagePart, Piece, Span, Table};
use crate::results::document::{Block, Document, Metric, Section};

/// Rows of a table.
const ROWS: usize = 6;
/// Predictions that are worked out.
const SUMS: usize = 2;
/// Paragraphs of the analysis, and one on predictions that were missed.
const PARAGRAPHS: usize = 4;
/// Sentences of the method.
const SENTENCES: usize = 3;

pub(super) fn part(section: &Section, document: &Document, others: OtherPages) -> PagePart {
    let mut part = PagePart::new(&anchor(&section.id), &section.title, 3);
    let chapters = chapters(&section.methodology);
    let text = |title: &str| chapters.iter().find(|(name, _)| name == title).map(|(_, text)| text.as_str());
    if let Some(question) = text("Question") {
        part.add(Piece::Prose(format!("**Question.** {}", first_sentences(question, 2))));
    }
    if let Some(method) = text("Method") {
        part.add(Piece::Prose(format!("**Method.** {}", first_sentences(method, SENTENCES))));
    }
    let shown = shown(section, document);
    let predicted = shown.iter().filter_map(|metric| Some((*metric, metric.prediction.as_ref()?)));
    let sums: Vec<Vec<Span>> = predicted.take(SUMS).map(|(metric, found)| worked(metric, found)).collect();
    if !sums.is_empty() {
        part.add(Piece::Analysis(vec![Piece::List(sums)]));
    }
    let heads = ["result", ">measured", ">±", ">predicted", ">ratio", "verdict"];
    let mut table = Table::new(&caption(section, shown.len()), &heads);
    for (place, metric) in shown.iter().enumerate() {
        add_line(&mut table, metric, &shown[..place]);
        if document.is_cost(metric)
            && let Some(tail) = metric.tail_text()
        {
            table.note(&tail);
        }
    }
    if !table.is_empty() {
        part.add(Piece::Table(table));
    }
    if let Some(drawing) = drawings_of(section).into_iter().next() {
        part.add(Piece::Drawing(Box::new(drawing)));
    }
    for text in analysis(section) {
        part.explain(text.clone());
    }
    if let Some(trap) = text("What could fool us").and_then(first_item) {
        part.add(Piece::Prose(format!("**Trap.** {trap}")));
    }
    if others == OtherPages::Beside {
        part.add(Piece::Paragraph(vec![
            Span::elsewhere("All results, terms and checks", &format!("{APPENDIX}#{}", anchor(&section.id))),
            Span::plain(" are in the appendix."),
        ]));
    }
    part
}

/// The first paragraphs of the analysis, and the first that explains a missed prediction.
fn analysis(section: &Section) -> impl Iterator<Item = &String> {
    let paragraphs = section.analysis.iter().filter_map(|block| match block {
        Block::Paragraph(text) => Some(text),
        Block::Table { .. } => None,
    });
    paragraphs.take(PARAGRAPHS).chain(section.misses.first())
}

/// The rows that are shown: those of the summary of costs first, then other headline figures.
fn shown<'a>(section: &'a Section, document: &Document) -> Vec<&'a Metric> {
    let is_cost = |metric: &&Metric| document.is_cost(metric);
    let (mut shown, others): (Vec<&Metric>, Vec<&Metric>) = section.metrics.iter().partition(is_cost);
    shown.extend(others.into_iter().filter(|metric| metric.headline));
    if shown.is_empty() {
        shown.extend(section.metrics.iter());
    }
    shown.truncate(ROWS);
    shown
}

/// What the table shows, as a finding.
fn caption(section: &Section, shown: usize) -> String {
    let grades = section.metrics.len();
    let good = section.metrics.iter().filter(|metric| metric.grade == crate::results::document::Grade::Good).count();
    let are = if good == 1 { "is" } else { "are" };
    let part = if shown < grades { format!(" The table shows {shown} of the {grades}.") } else { String::new() };
    format!("{good} of {grades} results {are} good.{part}")
}

/// The first sentences of a text in Markdown, across paragraphs and items of lists: a sentence that announces a list needs it.
fn first_sentences(text: &str, most: usize) -> String {
    let mut out = String::new();
    let mut ends = 0;
    let lines = text.lines().map(|line| line.trim_start().strip_prefix("- ").unwrap_or(line));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    for (index, word) in words.iter().enumerate() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
        let next = words
            .get(index + 1)
            .is_none_or(|next| next.starts_with(|letter: char| letter.is_uppercase() || "*`[".contains(letter)));
        if word.ends_with(['.', '?', '!']) && next {
            ends += 1;
            if ends == most {
                break;
            }
        }
    }
    out
}

/// The first item of a list, without its mark.
fn first_item(text: &str) -> Option<String> {
    let item = text.trim_start().strip_prefix("- ")?;
    let end = item.find("\n- ").unwrap_or(item.len());
    Some(item[..end].split_whitespace().collect::<Vec<&str>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_where_sentences_end() {
        let text = "It takes 1.5 ns. Or more, e.g. two. Then it\nends.\n\nAnother paragraph.";
        assert_eq!(first_sentences(text, 2), "It takes 1.5 ns. Or more, e.g. two.");
        assert_eq!(first_sentences(text, 3), "It takes 1.5 ns. Or more, e.g. two. Then it ends.");
        assert_eq!(first_sentences("Two ways:\n\n- **one**: it.\n- **two**: that.", 1), "Two ways: **one**: it.");
        assert_eq!(first_item("- one\n  two\n- three").as_deref(), Some("one two"));
    }
}
