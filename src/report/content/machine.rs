//! The machine: every fact with its source, contradictions side by side, what the doctor found when the run began.

use crate::machine::FactRow;
use crate::machine::quiet::Check;
use crate::report::page::{Cell, PagePart, Piece, Table, Tone};
use crate::results::document::Document;

/// Letters of a note beyond which it would push the table out of shape.
const LONG: usize = 200;

pub(super) fn part(document: &Document) -> PagePart {
    let mut part = PagePart::new("machine", "Machine description", 2);
    let mut long = Vec::new();
    for section in document.machine.sections() {
        let mut table = Table::new("", &["fact", "value", "source"]);
        for row in section.rows {
            if let Some(note) = row.note.as_ref().filter(|note| note.len() > LONG) {
                long.push((row.name.clone(), note.clone()));
            }
            table.row(cells(row));
        }
        part.head(&section.title);
        part.add(Piece::Table(table));
        for (name, note) in long.drain(..) {
            part.add(Piece::Folded { summary: format!("All {name}"), pieces: vec![Piece::Literal(note)] });
        }
    }
    doctor(&mut part, &document.quiet);
    part
}

fn cells(row: FactRow) -> Vec<Cell> {
    let value = match row.note {
        Some(note) if note.len() <= LONG => format!("{} ({note})", row.value),
        _ => row.value,
    };
    vec![Cell::of(row.name), Cell::of(value), Cell::of(row.source)]
}

fn doctor(part: &mut PagePart, checks: &[Check]) {
    part.head("What disturbs results here");
    if checks.is_empty() {
        part.say("The log has no checks for disturbances.");
        return;
    }
    let table = |wanted: bool| {
        let mut table = Table::new("", &["check", "finding", "effect", "fix"]);
        for check in checks.iter().filter(|check| check.ok == wanted) {
            let (word, tone) = match (check.ok, check.known) {
                (true, _) => ("", Tone::Good),
                (false, true) => ("spoils: ", Tone::Bad),
                (false, false) => ("unknown: ", Tone::Doubt),
            };
            table.row(vec![
                Cell::of(&check.check),
                Cell::toned(format!("{word}{}", check.detail), tone),
                Cell::of(check.effect.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string)),
                Cell::of(check.remedy.clone().unwrap_or_else(|| "–".to_owned())),
            ]);
        }
        table
    };
    let (bad, good) = (table(false), table(true));
    part.say(format!(
        "sysdyno made these checks when the run began. {} of {} checks found no disturbance. Nothing was changed.",
        good.rows.len(),
        checks.len()
    ));
    if !bad.is_empty() {
        part.add(Piece::Table(bad));
    }
    if !good.is_empty() {
        part.add(Piece::Folded {
            summary: "Checks without a disturbance".to_owned(),
            pieces: vec![Piece::Table(good)],
        });
    }
}
