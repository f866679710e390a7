//! The front: the run in a few lines, how far it can be trusted, what is most worth knowing.

use super::anchor;
use crate::report::page::{Cell, PagePart, Piece, Span, Table};
use crate::results::document::{CheckOutcome, Document, HighlightKind, Outcome};
use crate::results::wording::{count, duration};

pub(super) fn part(document: &Document) -> PagePart {
    let mut part = PagePart::new("front", "At a glance", 2);
    for alarm in alarms(document) {
        part.add(Piece::Alarm(alarm));
    }
    part.add(Piece::Table(facts(document)));
    part.say(trust(document));
    if !document.highlights.is_empty() {
        let found = Piece::List(
            document
                .highlights
                .iter()
                .map(|found| {
                    let word = match found.kind {
                        HighlightKind::Violation => "Contradiction between results.",
                        HighlightKind::Disturbance => "Doubt.",
                        HighlightKind::Surprise => "Surprise.",
                        HighlightKind::Contradiction => "Contradicted claim.",
                        HighlightKind::Bottleneck => "Cost.",
                    };
                    let mut spans = vec![Span::strong(word), Span::plain(format!(" {}", found.text))];
                    if !found.section.is_empty() {
                        spans.push(Span::plain(" "));
                        spans.push(Span::link("More", &anchor(&found.section)));
                    }
                    spans
                })
                .collect(),
        );
        part.add(Piece::Analysis(vec![Piece::Heading("Main findings".to_owned()), found]));
    }
    part
}

/// What a reader must know before any number.
pub(super) fn alarms(document: &Document) -> Vec<String> {
    let run = &document.run;
    let mut alarms: Vec<String> = [run.damage_text(), run.incomplete_text()].into_iter().flatten().collect();
    if document.metrics().next().is_none() {
        alarms.push("This run published no result.".to_owned());
    }
    let violated = document.checks.iter().filter(|check| check.outcome == CheckOutcome::Violated).count() as u64;
    if violated > 0 {
        let rules = if violated == 1 { "1 rule".to_owned() } else { format!("{violated} rules") };
        alarms.push(format!(
            "Results contradict each other: {rules} between experiments broken. See the composite checks."
        ));
    }
    alarms
}

fn facts(document: &Document) -> Table {
    let run = &document.run;
    let of = |outcome: Outcome| document.experiments.iter().filter(|section| section.outcome == outcome).count();
    let mut table = Table::new("", &["", ""]);
    let mut fact = |name: &str, value: String| table.row(vec![Cell::of(name), Cell::of(value)]);
    fact("Machine", document.machine.summary_line());
    if let Some(kernel) = &document.machine.kernel.release {
        fact("Kernel", format!("Linux {}", kernel.value));
    }
    fact(
        "Date",
        run.finished.as_ref().map_or_else(|| format!("{}, not finished", run.started), |_| run.started.clone()),
    );
    fact(
        "Experiments",
        format!(
            "{} ({} profile): {} measured, {} skipped, {} failed",
            count(document.experiments.len() as u64, "experiment", "experiments"),
            run.profile,
            of(Outcome::Measured),
            of(Outcome::Skipped),
            of(Outcome::Failed)
        ),
    );
    fact(
        "Duration",
        format!(
            "{}: {}, {}",
            duration(run.wall_seconds),
            count(u64::from(run.rounds), "round", "rounds"),
            count(u64::from(document.practice.launches), "launch", "launches")
        ),
    );
    table
}

/// Counts of figures by trust, and what the words mean.
fn trust(document: &Document) -> String {
    let figures = document.metrics().count() as u64;
    let rejected: usize = document.experiments.iter().map(|section| section.rejected.len()).sum();
    let mut text = format!(
        "Confidence: of {}, {}. {rejected} more are not published, each with its reason.",
        count(figures, "result", "results"),
        document.grades(),
    );
    let disturbed = document.run.disturbed_rounds.len() as u64;
    if disturbed > 0 {
        text += &format!(" Interference probes detected neighbours in {}.", count(disturbed, "round", "rounds"));
    }
    if let Some(score) = document.prediction_score(None) {
        text += &format!(" {}", score.text());
    }
    for sentence in document.host_state().into_iter().chain(document.run.resumed_text()) {
        text += &format!(" {sentence}");
    }
    text
}
