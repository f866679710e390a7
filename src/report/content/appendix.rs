//! The end: what is missing and why, and how to make this report again.

use super::{anchor, why_missing};
use crate::report::page::{Cell, PagePart, Piece, Span, Table, Tone};
use crate::results::document::{Document, Outcome, record};

/// Skipped and failed experiments, failed launches, rejected figures.
pub(super) fn missing(document: &Document) -> PagePart {
    let mut part = PagePart::new("missing", "Skipped and failed", 2);
    let mut table = Table::new("", &["experiment", "outcome", "reason", "fix"]);
    for section in document.experiments.iter().filter(|section| section.outcome != Outcome::Measured) {
        let (word, tone) =
            if section.outcome == Outcome::Failed { ("failed", Tone::Bad) } else { ("skipped", Tone::Doubt) };
        table.row(vec![
            Cell::of(&section.id),
            Cell::toned(word, tone),
            Cell::of(section.reason.as_deref().unwrap_or("no reason was recorded")),
            Cell::of(section.hint.as_deref().unwrap_or("–")),
        ]);
    }
    let rejected: usize = document.experiments.iter().map(|section| section.rejected.len()).sum();
    let failed: usize = document.experiments.iter().map(|section| section.failed_launches.len()).sum();
    if table.is_empty() {
        part.say("No experiment was skipped or failed.");
    } else {
        part.add(Piece::Table(table));
    }
    if failed > 0 {
        part.head("Launches that failed");
        let lines = document.experiments.iter().flat_map(|section| {
            section.failed_launches.iter().map(|launch| vec![Span::plain(format!("{}: {launch}", section.id))])
        });
        part.add(Piece::List(lines.collect()));
    }
    if rejected > 0 {
        part.head("Results that are not published");
        let mut table = Table::new("", &["result", "reason"]);
        for found in document.experiments.iter().flat_map(|section| &section.rejected) {
            table.row(vec![Cell::of(record(&found.name, &found.labels)), Cell::of(found.why())]);
        }
        part.add(Piece::Table(table));
    }
    part
}

/// The command, the seed, the versions, the checksum of the log.
pub(super) fn reproduce(document: &Document) -> PagePart {
    let run = &document.run;
    let mut part = PagePart::new("reproduce", "Reproduce", 2);
    part.say("This command started the run. With `--seed` and the seed below it makes the same random choices again.");
    part.add(Piece::Literal(command(&run.command)));
    let mut table = Table::new("", &["", ""]);
    let mut row = |name: &str, value: String| table.row(vec![Cell::of(name), Cell::of(value)]);
    row("run", run.id.clone());
    row("seed", run.seed.to_string());
    row("measured with", format!("sysdyno {}", run.version));
    row("built as", if run.build.is_empty() { "not recorded".to_owned() } else { run.build.clone() });
    row("rendered by", format!("sysdyno {}", env!("CARGO_PKG_VERSION")));
    row("result format", document.schema.clone());
    row("fingerprint of the machine", document.machine.fingerprint.clone());
    row("SHA-256 of the log", run.log_sha256.clone().unwrap_or_else(|| "not read from a file".to_owned()));
    part.add(Piece::Table(table));
    part.say(
        "sysdyno computes everything in this report from the log. The same log gives the same report. A newer version \
         of sysdyno may give a better one: sysdyno report RUN.",
    );
    let mut methods = Table::new("Method version of each experiment", &["experiment", ">method version"]);
    for section in &document.experiments {
        methods.row(vec![Cell::of(&section.id), Cell::of(section.method_version.to_string())]);
    }
    if !methods.is_empty() {
        part.add(Piece::Folded { summary: "Versions of methods".to_owned(), pieces: vec![Piece::Table(methods)] });
    }
    part
}

/// The words as a shell would need them.
fn command(words: &[String]) -> String {
    let plain = |word: &String| {
        !word.is_empty() && word.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./=:,@%+".contains(letter))
    };
    let quoted = |word: &String| if plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// A sentence about a section without figures, with its link.
pub(super) fn pointer(section: &crate::results::document::Section) -> Vec<Span> {
    vec![Span::link(section.title.clone(), &anchor(&section.id)), Span::plain(format!(": {}", why_missing(section)))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted() {
        let words = ["sysdyno", "run", "-o", "a dir", "it's", ""].map(str::to_owned);
        assert_eq!(command(&words), "sysdyno run -o 'a dir' 'it'\\''s' ''");
    }
}
