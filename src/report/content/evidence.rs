//! What speaks for the figures of a section and against them: figures that were not published, failed launches, and every gate.

use crate::report::page::{Cell, Part, Piece, Span, Table, Tone};
use crate::results::document::{Metric, Section, record};
use crate::results::verdict::Severity;
use crate::results::wording::count;

/// What was not published, which launches failed, and every gate with its evidence.
pub(super) fn tell(part: &mut Part, section: &Section) {
    if !section.rejected.is_empty() {
        part.head("Not published");
        let mut table = Table::new("", &["figure", "reason"]);
        for found in &section.rejected {
            table.row(vec![Cell::of(record(&found.name, &found.labels)), Cell::of(&found.reason)]);
        }
        part.add(Piece::Table(table));
    }
    let failed = failed(section);
    if !failed.is_empty() {
        part.head("Remarks and doubts");
        part.add(Piece::Table(failed));
    }
    if !section.failed_launches.is_empty() {
        part.add(Piece::Alarm(format!("Failed launches: {}.", section.failed_launches.join("; "))));
    }
    let passed = passed(section);
    if !passed.is_empty() {
        let mut seen: Vec<&str> = Vec::new();
        for metric in &section.metrics {
            if !seen.contains(&metric.estimator.as_str()) {
                seen.push(&metric.estimator);
            }
        }
        let estimators = Piece::Paragraph(vec![Span::plain(format!("Estimators: {}.", seen.join("; ")))]);
        let pieces = vec![estimators, Piece::Table(passed)];
        part.add(Piece::Folded { summary: "Evidence: gates that passed".to_owned(), pieces });
    }
}

/// Gates that did not pass; figures with the same evidence share a row.
fn failed(section: &Section) -> Table {
    let mut found: Vec<(&str, Severity, &str, Vec<&Metric>)> = Vec::new();
    for metric in &section.metrics {
        for gate in metric.verdict.gates.iter().filter(|gate| !gate.pass) {
            let same = |entry: &&mut (&str, Severity, &str, Vec<&Metric>)| {
                entry.0 == gate.id && entry.1 == gate.severity && entry.2 == gate.evidence
            };
            match found.iter_mut().find(same) {
                Some(entry) => entry.3.push(metric),
                None => found.push((&gate.id, gate.severity, &gate.evidence, vec![metric])),
            }
        }
    }
    found.sort_by(|one, other| other.3.len().cmp(&one.3.len()).then(one.0.cmp(other.0)));
    let mut table = Table::new("", &["gate", "figures", "what was seen"]);
    for (id, severity, evidence, metrics) in found {
        let (word, tone) = match severity {
            Severity::Contaminates => ("contaminated", Tone::Bad),
            Severity::Noisy => ("noisy", Tone::Doubt),
            Severity::Hard | Severity::Remark => ("remark", Tone::Plain),
        };
        let figures = match metrics.as_slice() {
            [one] => one.title(),
            all => figures(all.len(), section),
        };
        table.row(vec![Cell::toned(format!("{id}: {word}"), tone), Cell::of(figures), Cell::of(evidence)]);
    }
    table
}

/// Gates that passed: evidence that differs in its numbers alone shares a row, with the least and the greatest of each. What
/// each figure had is in the result file.
fn passed(section: &Section) -> Table {
    let mut found: Vec<(&str, Vec<Piecewise<'_>>)> = Vec::new();
    for metric in &section.metrics {
        for gate in metric.verdict.gates.iter().filter(|gate| gate.pass) {
            let evidence = Piecewise::of(&gate.evidence);
            let same = |entry: &&mut (&str, Vec<Piecewise<'_>>)| entry.0 == gate.id && entry.1[0].says_like(&evidence);
            match found.iter_mut().find(same) {
                Some(entry) => entry.1.push(evidence),
                None => found.push((&gate.id, vec![evidence])),
            }
        }
    }
    found.sort_by(|one, other| other.1.len().cmp(&one.1.len()).then(one.0.cmp(other.0)));
    let mut table = Table::new("", &["gate", "figures", "evidence, from the least to the greatest"]);
    for (id, all) in found {
        let shown = Piecewise::joined(&all);
        table.row(vec![Cell::of(id), Cell::of(figures(all.len(), section)), Cell::of(shown)]);
    }
    table
}

fn figures(number: usize, section: &Section) -> String {
    if number == section.metrics.len() { "all figures".to_owned() } else { count(number as u64, "figure", "figures") }
}

/// A text taken apart into what is said and the numbers in it, in turns, beginning with words.
struct Piecewise<'a> {
    words: Vec<&'a str>,
    numbers: Vec<&'a str>,
}

impl<'a> Piecewise<'a> {
    fn of(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let (mut words, mut numbers) = (Vec::new(), Vec::new());
        let (mut said, mut at) = (0, 0);
        while at < bytes.len() {
            // Digits in names (p25, G14, L2) are no numbers.
            let in_name = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
            if !bytes[at].is_ascii_digit() || in_name {
                at += 1;
                continue;
            }
            let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let mut end = at + digits(at);
            if bytes.get(end) == Some(&b'.') && digits(end + 1) > 0 {
                end += 1 + digits(end + 1);
            }
            words.push(&text[said..at]);
            numbers.push(&text[at..end]);
            (said, at) = (end, end);
        }
        words.push(&text[said..]);
        Piecewise { words, numbers }
    }

    fn says_like(&self, other: &Piecewise<'_>) -> bool {
        self.words == other.words
    }

    /// One text for all, which say alike: each number, or the least and the greatest of them.
    fn joined(all: &[Piecewise<'_>]) -> String {
        let mut text = String::new();
        for (place, words) in all[0].words.iter().enumerate() {
            text.push_str(words);
            let mut numbers: Vec<&str> = all.iter().filter_map(|one| one.numbers.get(place).copied()).collect();
            let value = |number: &&str| number.parse().unwrap_or(0.0_f64);
            numbers.sort_by(|one, other| value(one).total_cmp(&value(other)));
            if let (Some(least), Some(most)) = (numbers.first(), numbers.last()) {
                text.push_str(least);
                if value(least) < value(most) {
                    text.push('–');
                    text.push_str(most);
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_from_names() {
        let text = Piecewise::of("p25 of L2 in 3 of 12.50 runs.");
        assert_eq!(text.numbers, ["3", "12.50"]);
        assert_eq!(text.words, ["p25 of L2 in ", " of ", " runs."]);
        assert_eq!(Piecewise::of("").words, [""]);
    }

    #[test]
    fn what_says_alike_is_told_once_with_the_least_and_the_greatest() {
        let all = ["ratio 1.10; at most 2", "ratio 1.9; at most 2", "ratio 1.025; at most 2"].map(Piecewise::of);
        assert!(all[0].says_like(&all[1]));
        assert!(!all[0].says_like(&Piecewise::of("ratio 1.10; at least 2")));
        assert_eq!(Piecewise::joined(&all), "ratio 1.025–1.9; at most 2");
    }
}
