//! What speaks for the figures of a section and against them: figures that were not published, failed launches, and every gate.

use crate::report::page::{Cell, PagePart, Piece, Span, Table, Tone};
use crate::results::document::{Metric, Section, record};
use crate::results::gate_numbers::GateNumbers;
use crate::results::verdict::{Gate, Severity};
use crate::results::wording::count;

/// What was not published, which launches failed, and every gate with its evidence.
pub(super) fn tell(part: &mut PagePart, section: &Section) {
    if !section.rejected.is_empty() {
        part.head("Not published");
        let mut table = Table::new("", &["result", "reason"]);
        for found in &section.rejected {
            table.row(vec![Cell::of(record(&found.name, &found.labels)), Cell::of(found.why())]);
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
        let estimators = seen.into_iter().map(|estimator| vec![Span::plain(estimator)]).collect();
        let pieces = vec![
            Piece::Paragraph(vec![Span::plain("Estimators of these results:")]),
            Piece::List(estimators),
            Piece::Table(passed),
        ];
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
    let mut table = Table::new("", &["gate", "results", "evidence"]);
    for (id, severity, evidence, metrics) in found {
        let (word, tone) = match severity {
            Severity::Contaminates => ("contaminated", Tone::Bad),
            Severity::Disturbs => ("disturbed", Tone::Bad),
            Severity::Noisy => ("noisy", Tone::Doubt),
            Severity::Hard | Severity::Remark => ("remark", Tone::Plain),
        };
        let figures = match metrics.as_slice() {
            [one] => one.phrase.clone(),
            all => figures(all.len(), section),
        };
        table.row(vec![Cell::toned(format!("{id}: {word}"), tone), Cell::of(figures), Cell::of(evidence)]);
    }
    table
}

/// Gates that passed: those that compare the same share a row, with the least and the greatest of each number. What each figure
/// had is in the result file.
fn passed(section: &Section) -> Table {
    let mut found: Vec<(&str, Vec<&Gate>)> = Vec::new();
    for gate in section.metrics.iter().flat_map(|metric| &metric.verdict.gates).filter(|gate| gate.pass) {
        match found.iter_mut().find(|entry| entry.0 == gate.id && is_alike(entry.1[0], gate)) {
            Some(entry) => entry.1.push(gate),
            None => found.push((&gate.id, vec![gate])),
        }
    }
    found.sort_by(|one, other| other.1.len().cmp(&one.1.len()).then(one.0.cmp(other.0)));
    let mut table = Table::new("", &["gate", "results", "evidence, from the least to the greatest"]);
    for (id, all) in found {
        let numbers: Vec<&GateNumbers> = all.iter().filter_map(|gate| gate.numbers.as_ref()).collect();
        let shown = if numbers.len() > 1 { GateNumbers::sentence(&numbers) } else { all[0].evidence.clone() };
        table.row(vec![Cell::of(id), Cell::of(figures(all.len(), section)), Cell::of(shown)]);
    }
    table
}

fn is_alike(one: &Gate, other: &Gate) -> bool {
    match (&one.numbers, &other.numbers) {
        (Some(one), Some(other)) => one.is_like(other),
        _ => one.evidence == other.evidence,
    }
}

fn figures(number: usize, section: &Section) -> String {
    if number == section.metrics.len() { "all results".to_owned() } else { count(number as u64, "result", "results") }
}
