//! What is most worth knowing about a machine, found in its figures: contradictions between figures, disturbance, the
//! largest surprises, claims that others deny, and what costs most beside what it is compared with.

use std::collections::BTreeMap;

use crate::machine::Machine;
use crate::results::document::{
    CheckOutcome, CompositeCheck, Document, Grade, Highlight, HighlightKind, Metric, Section,
};
use crate::results::gate_numbers::GateNumbers;
use crate::results::wording::count;

use super::insights::{Weighted, insights};

/// Share of figures that are not good beyond which that outweighs everything else.
const MOSTLY: f64 = 0.5;
/// How many things a reader keeps in mind.
const MOST: usize = 5;
/// As many other sentences leave no room for claims that others deny, and for misses of predictions.
const ENOUGH: usize = 3;
/// Contradictions between figures among them.
const MOST_VIOLATIONS: usize = 2;
/// Share of figures that are not good beyond which that is news.
const DISTURBED: f64 = 0.1;

/// At most five sentences: contradictions between figures first, then what figures say by weight, with what disturbed the run among
/// them. Claims that others deny and misses of predictions follow only where that is little.
pub fn highlights(sections: &[Section], checks: &[CompositeCheck], machine: &Machine, cpu: u32) -> Vec<Highlight> {
    let told = insights(sections, machine, cpu);
    let (surprises, mut weighted): (Vec<Weighted>, Vec<Weighted>) =
        told.into_iter().partition(|(_, found)| found.kind == HighlightKind::Surprise);
    weighted.extend(disturbance(sections));
    weighted.sort_by(|one, other| other.0.total_cmp(&one.0));
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
/// results could change it.
pub fn certain(document: &Document) -> Option<Highlight> {
    let mut sections = document.experiments.clone();
    for section in &mut sections {
        section.metrics.retain(|metric| metric.grade == Grade::Good);
    }
    let stated = |found: &Highlight| document.highlights.iter().any(|highlight| highlight.text == found.text);
    let found = insights(&sections, &document.machine, document.run.cpu);
    found.into_iter().map(|(_, highlight)| highlight).find(stated)
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

/// How many figures are not good, and the most frequent reason.
fn disturbance(sections: &[Section]) -> Option<(f64, Highlight)> {
    let metrics: Vec<&Metric> = sections.iter().flat_map(|section| &section.metrics).collect();
    let unclean: Vec<&&Metric> = metrics.iter().filter(|metric| metric.grade != Grade::Good).collect();
    let share = unclean.len() as f64 / metrics.len().max(1) as f64;
    if share < DISTURBED {
        return None;
    }
    // One gate may refuse for several reasons: what it says without its numbers tells them apart.
    let mut reasons: BTreeMap<(&str, String), (u64, String)> = BTreeMap::new();
    for metric in &unclean {
        let Some(gate) = metric.verdict.failures().first().copied() else { continue };
        let said = gate.numbers.as_ref().map_or(&gate.evidence, |numbers| &numbers.what);
        let reason = said.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        let evidence = || gate.numbers.as_ref().map_or_else(|| gate.evidence.clone(), GateNumbers::demand);
        let example = || (0, format!("{}, {}", metric.phrase, evidence()));
        reasons.entry((&gate.id, reason)).or_insert_with(example).0 += 1;
    }
    let reason = reasons.values().max_by_key(|(count, _)| *count).map_or_else(String::new, |(times, example)| {
        format!(" The most frequent reason applies to {times} of them. Example: {example}.")
    });
    let text = format!(
        "{} of {} do not have the grade good.{reason}",
        unclean.len(),
        count(metrics.len() as u64, "result", "results")
    );
    // Where most figures are not good, that is what a reader has to know first.
    let weight = if share > MOSTLY { f64::INFINITY } else { share };
    Some((weight, highlight(HighlightKind::Disturbance, text, "")))
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
