//! The report between its content and its forms: parts, paragraphs, tables and drawings, with every number already worded.
//!
//! Content is decided once, here; HTML, Markdown and text are three ways to write it down. A number that belongs to a record
//! carries the record's name and its full value, so that a reader (or a test) can go from what is printed to what is meant.

use super::drawing::Drawing;
pub use super::table::{Cell, Datum, Row, Table, Tone};

/// A whole report.
#[derive(Debug, Clone)]
pub struct Page {
    /// Title.
    pub title: String,
    /// What stands under the title: the machine in one line.
    pub subtitle: String,
    /// Parts in order of reading.
    pub parts: Vec<PagePart>,
}

impl Page {
    /// Whether a paragraph links to another file of this name.
    pub fn links_to(&self, name: &str) -> bool {
        let is_there = |span: &Span| match &span.style {
            Style::Elsewhere(address) => address.split('#').next() == Some(name),
            _ => false,
        };
        self.parts.iter().flat_map(|part| &part.pieces).any(|piece| match piece {
            Piece::Paragraph(spans) => spans.iter().any(is_there),
            _ => false,
        })
    }

    /// The page with the sentences that explain its numbers, or without them.
    #[must_use]
    pub fn with(mut self, analysis: Analysis) -> Self {
        if analysis == Analysis::Hidden {
            for part in &mut self.parts {
                leave_numbers(&mut part.pieces);
            }
        }
        self
    }
}

/// Whether a reader gets the sentences that explain numbers, or has to find them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Analysis {
    /// All that was found.
    Shown,
    /// Numbers, tables and drawings alone.
    Hidden,
}

/// Takes away what explains numbers. Captions of drawings say what was found, so their axes say what they show.
fn leave_numbers(pieces: &mut Vec<Piece>) {
    pieces.retain(|piece| !matches!(piece, Piece::Analysis(_)));
    for piece in pieces {
        match piece {
            Piece::Drawing(drawing) => {
                if let Some(subject) = drawing.plot.subject() {
                    drawing.alt.clone_from(&subject);
                    drawing.caption = subject;
                }
            }
            Piece::Folded { pieces, .. } => leave_numbers(pieces),
            _ => {}
        }
    }
}

/// A part with a heading.
#[derive(Debug, Clone)]
pub struct PagePart {
    /// Anchor, unique.
    pub id: String,
    /// Heading.
    pub title: String,
    /// 2 for a chapter, 3 for a section of it.
    pub level: u8,
    /// Content.
    pub pieces: Vec<Piece>,
}

impl PagePart {
    /// A part without content.
    pub fn new(id: &str, title: &str, level: u8) -> Self {
        PagePart { id: id.to_owned(), title: title.to_owned(), level, pieces: Vec::new() }
    }

    /// Adds a heading within the part.
    pub fn head(&mut self, title: &str) {
        self.pieces.push(Piece::Heading(title.to_owned()));
    }

    /// Adds a paragraph of plain text.
    pub fn say(&mut self, text: impl Into<String>) {
        self.pieces.push(Piece::Paragraph(vec![Span::plain(text)]));
    }

    /// Adds a paragraph that explains numbers.
    pub fn explain(&mut self, text: impl Into<String>) {
        self.pieces.push(Piece::Analysis(vec![Piece::Paragraph(vec![Span::plain(text)])]));
    }

    /// Adds anything.
    pub fn add(&mut self, piece: Piece) {
        self.pieces.push(piece);
    }
}

/// A block of content.
#[derive(Debug, Clone)]
pub enum Piece {
    /// A heading below those of parts.
    Heading(String),
    /// A paragraph.
    Paragraph(Vec<Span>),
    /// A list.
    List(Vec<Vec<Span>>),
    /// Prose in Markdown, as the sources of experiments have it.
    Prose(String),
    /// A table.
    Table(Table),
    /// A drawing with its values.
    Drawing(Box<Drawing>),
    /// Something that a reader must not overlook.
    Alarm(String),
    /// A command or other literal text.
    Literal(String),
    /// Content that explains numbers, which a reader can do without.
    Analysis(Vec<Piece>),
    /// Content that is folded away where the form can do that.
    Folded {
        /// What is inside.
        summary: String,
        /// The content.
        pieces: Vec<Piece>,
    },
}

/// A piece of running text.
#[derive(Debug, Clone)]
pub struct Span {
    /// The text.
    pub text: String,
    /// How it is set.
    pub style: Style,
    /// The record that the number in it belongs to.
    pub datum: Option<Datum>,
}

/// How text is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Style {
    /// As it is.
    Plain,
    /// Emphasised.
    Strong,
    /// A link to a part.
    Link(String),
    /// A link to another file next to this file.
    Elsewhere(String),
}

impl Span {
    /// Text as it is.
    pub fn plain(text: impl Into<String>) -> Self {
        Span { text: text.into(), style: Style::Plain, datum: None }
    }

    /// Emphasised text.
    pub fn strong(text: impl Into<String>) -> Self {
        Span { style: Style::Strong, ..Span::plain(text) }
    }

    /// A link to a part of the report.
    pub fn link(text: impl Into<String>, part: &str) -> Self {
        Span { style: Style::Link(part.to_owned()), ..Span::plain(text) }
    }

    /// A link to another file next to the report.
    pub fn elsewhere(text: impl Into<String>, address: &str) -> Self {
        Span { style: Style::Elsewhere(address.to_owned()), ..Span::plain(text) }
    }
}
