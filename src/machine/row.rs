//! Facts in words: rows that a terminal or a report prints without knowing what they are about.

use std::fmt::Display;

use super::fact::Stated;

/// One fact in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactRow {
    /// What it is.
    pub name: String,
    /// The value with its unit.
    pub value: String,
    /// Who states it; empty for a remark.
    pub source: String,
    /// What to keep in mind.
    pub note: Option<String>,
    /// What else the row is for.
    pub marks: Vec<Mark>,
}

/// What a row is for besides the whole description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The description on one screen: the fact decides most costs.
    Screen,
    /// The short report.
    Report,
    /// Nothing that is kept, because the fact changes by the minute.
    Fleeting,
}

impl FactRow {
    /// A row without a note.
    pub(super) fn new(name: &str, value: impl Display, source: impl Into<String>) -> FactRow {
        let (name, value, source) = (name.to_owned(), value.to_string(), source.into());
        FactRow { name, value, source, note: None, marks: Vec::new() }
    }

    /// A row for a fact that is known, with the other claims as its note.
    pub(super) fn of<T>(name: &str, stated: &impl Stated<T>, write: impl Fn(&T) -> String) -> Option<FactRow> {
        let texts = stated.texts(write);
        let (best, others) = texts.split_first()?;
        let others: Vec<String> = others.iter().map(|fact| format!("{} ({})", fact.value, fact.source)).collect();
        let note = (!others.is_empty()).then(|| format!("also: {}", others.join("; ")));
        Some(FactRow::new(name, &best.value, best.source.clone()).with_note(note))
    }

    /// The row with a note, if there is one.
    pub(super) fn with_note(self, note: Option<impl Into<String>>) -> FactRow {
        FactRow { note: note.map(Into::into).or(self.note), ..self }
    }

    /// The row with these marks.
    pub(super) fn marked<const N: usize>(self, marks: [Mark; N]) -> FactRow {
        FactRow { marks: marks.into(), ..self }
    }
}

/// Facts, one row each: the field, how it is read, the name under which it is shown, its marks, and how its value is written.
///
/// Rows are read from the first to the last, and each can use the fields above it. They are shown in the same order. A fact that is
/// not one value has an expression with its rows behind `=>`.
macro_rules! facts {
    (@write) => { ToString::to_string };
    (@write $write:expr) => { $write };
    ($found:ident: $facts:ident, $input:ident: $kind:ty;
        $($field:ident = $read:expr $(, $name:literal $($mark:ident)* $(, $write:expr)?)? $(=> $rows:expr)?;)+) => {
        impl $facts {
            /// Reads all facts.
            pub(super) fn read($input: $kind) -> $facts {
                let mut read = $facts::default();
                $(read.$field = { let $found = &read; let _ = $found; $read };)+
                read
            }

            /// The rows of all facts that are known.
            pub(super) fn rows(&self) -> Vec<FactRow> {
                let $found = self;
                let mut rows: Vec<FactRow> = Vec::new();
                $(
                    $(rows.extend(
                        FactRow::of($name, &$found.$field, facts!(@write $($write)?)).map(|row| row.marked([$($crate::machine::Mark::$mark),*])),
                    );)?
                    $(rows.extend($rows);)?
                )+
                rows
            }
        }
    };
}

pub(super) use facts;
