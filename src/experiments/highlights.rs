//! What is most worth knowing about a machine, found in its figures. It lists contradictions between figures, the largest surprises,
//! claims that others deny, and what costs most relative to what it is compared with.

use crate::experiments::prelude::*;
use crate::results::document::{CheckOutcome, CompositeCheck, Document, Grade, Highlight, HighlightKind, Section};

use super::insights::{Weighted, insights};
use crate::results::expectation::Expectation;

/// How many things a reader keeps in mind.
const MOST: usize = 5;
/// As many other sentences leave no room for claims that others deny, and for misses of predictions.
const ENOUGH: usize = 3;
/// Contradictions between figures among them.
const MOST_VIOLATIONS: usize = 2;

/// At most five sentences: contradictions between figures first, then what figures say by weight. Claims that others deny and misses of predictions follow only where that is little.
pub fn highlights(
    sections: &[Section],
    checks: &[CompositeCheck],
    machine: &Machine,
    cpu: u32,
    expectations: &[Expectation],
) -> Vec<Highlight> {
    let told = insights(sections, machine, cpu, expectations);
    let (surprises, weighted): (Vec<Weighted>, Vec<Weighted>) =
        told.into_iter().partition(|(_, found)| found.kind == HighlightKind::Surprise);
    let mut found = violations(sections, checks);
    found.truncate(MOST_VIOLATIONS);
    found.extend(weighted.into_iter().map(|(_, highlight)| highlight));
    found.truncate(MOST);
    let missing = ENOUGH.saturating_sub(found.len());
    let surprises = surprises.into_iter().map(|(_, highlight)| highlight);
    found.extend(contradictions(machine).into_iter().chain(surprises).take(missing));
    found
}

/// The weightiest insight that a run already supports: its report would state it now, from good results alone. None while other
/// results could change it. A miss of a prediction leaves the report when it finds enough else.
pub fn certain(document: &Document) -> Option<Highlight> {
    let mut sections = document.experiments.clone();
    for section in &mut sections {
        section.metrics.retain(|metric| metric.grade == Grade::Good);
    }
    let stated = |found: &Highlight| document.highlights.iter().any(|highlight| highlight.text == found.text);
    let found = insights(&sections, &document.machine, document.run.cpu, &document.expectations);
    let mut found = found.into_iter().map(|(_, highlight)| highlight);
    found.find(|found| found.kind != HighlightKind::Surprise && stated(found))
}

fn highlight(kind: HighlightKind, text: String, section: &str) -> Highlight {
    Highlight { kind, text, section: section.to_owned(), why: None, advice: None }
}

fn violations(sections: &[Section], checks: &[CompositeCheck]) -> Vec<Highlight> {
    let doubted = |metric: &&Metric| metric.grade == Grade::Unresolved || metric.grade.has_foreign_part();
    let doubted: Vec<String> = sections
        .iter()
        .flat_map(|section| &section.metrics)
        .filter(doubted)
        .map(|metric| format!("'{}'", metric.phrase))
        .collect();
    checks
        .iter()
        .filter(|check| check.outcome == CheckOutcome::Violated)
        .filter_map(|check| Some((check, check.comparisons.iter().find(|made| !made.holds)?)))
        .map(|(check, made)| {
            let names_doubted = |side: &str| doubted.iter().any(|name| side.contains(name.as_str()));
            let settled = if names_doubted(&made.left) || names_doubted(&made.right) {
                " At least one of these results is not settled."
            } else {
                ""
            };
            let text = format!(
                "Results contradict each other ({}): {} is not {} {}.{settled}",
                check.id, made.left, made.relation, made.right
            );
            highlight(HighlightKind::Violation, text, "")
        })
        .collect()
}

fn contradictions(machine: &Machine) -> Vec<Highlight> {
    machine
        .contradictions()
        .iter()
        .map(|found| {
            let claims: Vec<String> =
                found.claims.iter().map(|claim| format!("{} ({})", claim.value, claim.source)).collect();
            let article = if found.question.starts_with("whether") { "" } else { "the " };
            let text = format!("Sources disagree on {article}{}: {}.", found.question, claims.join(" ≠ "));
            highlight(HighlightKind::Contradiction, text, "")
        })
        .collect()
}
