//! The report between its content and its forms: parts, paragraphs, tables and drawings, with every number already worded.
//!
//! Content is decided once, here; HTML, Markdown and text are three ways to write it down. A number that belongs to a record
//! carries the record's name and its full value, so that a reader (or a test) can go from what is printed to what is meant.

use super::drawing::Drawing;

/// A whole report.
#[derive(Debug, Clone)]
pub struct Page {
    /// Title.
    pub title: String,
    /// What stands under the title: the machine in one line.
    pub subtitle: String,
    /// Parts in order of reading.
    pub parts: Vec<Part>,
}

/// A part with a heading.
#[derive(Debug, Clone)]
pub struct Part {
    /// Anchor, unique.
    pub id: String,
    /// Heading.
    pub title: String,
    /// 2 for a chapter, 3 for a section of it.
    pub level: u8,
    /// Content.
    pub pieces: Vec<Piece>,
}

impl Part {
    /// A part without content.
    pub fn new(id: &str, title: &str, level: u8) -> Self {
        Part { id: id.to_owned(), title: title.to_owned(), level, pieces: Vec::new() }
    }

    /// Adds a heading within the part.
    pub fn head(&mut self, title: &str) {
        self.pieces.push(Piece::Heading(title.to_owned()));
    }

    /// Adds a paragraph of plain text.
    pub fn say(&mut self, text: impl Into<String>) {
        self.pieces.push(Piece::Paragraph(vec![Span::plain(text)]));
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
    /// Literal.
    Code,
    /// A link to a part.
    Link(String),
}

/// A number of a record: which one, and its full value.
#[derive(Debug, Clone, PartialEq)]
pub struct Datum {
    /// Name, labels and field: `cpu.timer.overhead{method=rdtsc}.value`.
    pub record: String,
    /// The value in the record's unit.
    pub value: f64,
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

    /// Literal text.
    pub fn code(text: impl Into<String>) -> Self {
        Span { style: Style::Code, ..Span::plain(text) }
    }

    /// A link to a part of the report.
    pub fn link(text: impl Into<String>, part: &str) -> Self {
        Span { style: Style::Link(part.to_owned()), ..Span::plain(text) }
    }
}

/// A table.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Caption.
    pub caption: String,
    /// Column heads with their alignment.
    pub columns: Vec<Column>,
    /// Rows.
    pub rows: Vec<Row>,
}

/// A column.
#[derive(Debug, Clone)]
pub struct Column {
    /// Head.
    pub head: String,
    /// Numbers stand on the right.
    pub right: bool,
}

/// A row: cells, or a heading across all columns.
#[derive(Debug, Clone)]
pub enum Row {
    /// As many cells as there are columns.
    Cells(Vec<Cell>),
    /// A heading for the rows below it.
    Group(String),
}

/// A cell.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The text.
    pub text: String,
    /// The record that it belongs to.
    pub datum: Option<Datum>,
    /// Colour of the content, where it has a meaning; the text says the same.
    pub tone: Tone,
}

/// What a cell says, beyond its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Nothing.
    Plain,
    /// All is well.
    Good,
    /// Reason to look closer.
    Doubt,
    /// Wrong.
    Bad,
}

impl Cell {
    /// Text.
    pub fn of(text: impl Into<String>) -> Self {
        Cell { text: text.into(), datum: None, tone: Tone::Plain }
    }

    /// Text with a tone.
    pub fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Cell { tone, ..Cell::of(text) }
    }

    /// A number of a record.
    pub fn datum(text: impl Into<String>, record: String, value: f64) -> Self {
        Cell { datum: Some(Datum { record, value }), ..Cell::of(text) }
    }

    /// Nothing to say.
    pub fn none() -> Self {
        Cell::of("–")
    }
}

impl Table {
    /// A table without rows; a column head that begins with `>` stands on the right, as numbers do.
    pub fn new(caption: &str, heads: &[&str]) -> Self {
        let column =
            |head: &&str| Column { head: head.trim_start_matches('>').to_owned(), right: head.starts_with('>') };
        Table { caption: caption.to_owned(), columns: heads.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "{}", self.caption);
        self.rows.push(Row::Cells(cells));
    }

    /// Adds a heading for the rows that follow.
    pub fn group(&mut self, title: &str) {
        self.rows.push(Row::Group(title.to_owned()));
    }

    /// A table of texts.
    pub fn of_texts(caption: &str, heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        let mut table = Table::new(caption, heads);
        for row in rows {
            table.row(row.into_iter().map(Cell::of).collect());
        }
        table
    }

    /// True when it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}
