//! Tables: cells with their words, and the records whose numbers they show.

/// A number of a record: which one, and its full value.
#[derive(Debug, Clone, PartialEq)]
pub struct Datum {
    /// Name, labels and field: `cpu.timer.overhead{method=rdtsc}.value`.
    pub record: String,
    /// The value in the record's unit.
    pub value: f64,
}

#[derive(Debug, Clone, Default)]
pub struct Table {
    pub caption: String,
    /// Column heads with their alignment.
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
}

#[derive(Debug, Clone)]
pub struct Column {
    pub head: String,
    /// Numbers stand on the right.
    pub right: bool,
}

/// A row: cells, or words across all columns.
#[derive(Debug, Clone)]
pub enum Row {
    /// As many cells as there are columns.
    Cells(Vec<Cell>),
    /// A heading for the rows below it.
    Group(String),
    /// A remark on the row above it, across all columns.
    Note(String),
}

#[derive(Debug, Clone)]
pub struct Cell {
    pub text: String,
    /// The record that it belongs to.
    pub datum: Option<Datum>,
    /// Colour of the content, where it has a meaning; the text says the same.
    pub tone: Tone,
}

/// What a cell says, beyond its words: its weight, or how good it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Nothing.
    Plain,
    /// It is a heading.
    Strong,
    /// It weighs less than its neighbours.
    Faint,
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

    /// Adds a remark on the row above.
    pub fn note(&mut self, text: &str) {
        self.rows.push(Row::Note(text.to_owned()));
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
