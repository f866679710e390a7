//! The answer about a mesh on one screen.

use super::mesh_words as words;
use super::screen::{Ink, Line, cut, folded};
use crate::results::mesh::Mesh;

/// Width where there is no terminal.
const WIDTH: u16 = 80;
/// Lines of the screen.
const LINES: usize = 24;
/// Most entries of each kind.
const ODD: usize = 8;
const MISSING: usize = 4;
const WARNINGS: usize = 2;
/// Width of the word before a line.
const MARK: usize = 11;

/// The screen. `file` is where everything is, `directory` the directory of the fleet that it belongs to.
pub fn screen(mesh: &Mesh, width: Option<u16>, file: &str, directory: Option<&str>) -> Vec<Line> {
    let wide = usize::from(width.unwrap_or(WIDTH)).max(60);
    let entry = |mark: &str, text: &str, ink: Ink| -> Line {
        vec![(format!("{mark:<MARK$}"), ink), (cut(text, wide - MARK), Ink::Plain)]
    };
    let list = |mark: &str, texts: &[String], most: usize, ink: Ink| -> Vec<Line> {
        let mut lines: Vec<Line> = texts.iter().take(most).map(|text| entry(mark, text, ink)).collect();
        if texts.len() > most {
            lines.push(entry("", &format!("and {} more", texts.len() - most), ink));
        }
        lines
    };
    let mut lines = folded(&words::verdict(mesh), wide, "", Ink::Strong, 2);
    lines.push(entry("mesh", &words::extent(mesh), Ink::Plain));
    let findings: Vec<String> = mesh.findings.iter().map(words::finding).collect();
    lines.extend(list("odd", &findings, ODD, Ink::Bad));
    if let Some([rates, times]) = words::typical(mesh) {
        lines.push(entry("rate", &rates, Ink::Plain));
        lines.push(entry("round trip", &times, Ink::Plain));
    }
    lines.extend(list("missing", &words::missing(mesh), MISSING, Ink::Notable));
    if let Some(undecided) = words::undecided(mesh) {
        lines.push(entry("undecided", &undecided, Ink::Notable));
    }
    for warning in mesh.warnings.iter().take(WARNINGS) {
        for (number, text) in folded(warning, wide - MARK, "", Ink::Plain, 2).into_iter().enumerate() {
            lines.push(
                [vec![(format!("{:<MARK$}", if number == 0 { "network" } else { "" }), Ink::Notable)], text].concat(),
            );
        }
    }
    // A path may be longer than a line, and half of one is of no use.
    let page = directory.map(|directory| format!("sysdyno fleet {directory} --format html -o FILE"));
    let last = [Some(("file", file.to_owned())), page.map(|page| ("a page", page))];
    lines.truncate(LINES - 2);
    lines.extend(
        last.into_iter().flatten().map(|(mark, text)| vec![(format!("{mark:<MARK$}"), Ink::Faint), (text, Ink::Faint)]),
    );
    lines
}
