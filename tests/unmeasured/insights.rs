//! The insight that a terminal shows while a run goes on: nothing while it is uncertain, and nothing that the report does not say.
use sysdyno::testing::assemble;
use sysdyno::testing::experiments::highlights::certain;
use sysdyno::testing::results::document::{Document, Grade};

use crate::report::{real, record};

/// What the log of a real run said after so many of its rounds.
fn after(rounds: u32) -> Document {
    let mut log = record().clone();
    log.launches.retain(|launch| launch.round <= rounds);
    (log.rounds, log.finish) = (rounds, None);
    assemble::document(&log)
}

/// A sentence without its numbers, which change until a run ends.
fn words(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_ascii_digit() && *letter != '.').collect()
}

#[test]
fn what_is_shown_early_is_in_the_report() {
    let mut shown = 0;
    for rounds in 1..=record().rounds {
        let document = after(rounds);
        let Some(found) = certain(&document) else { continue };
        assert!(rounds >= 5, "after {rounds} rounds too few launches support: {}", found.text);
        let said = |text: &str| words(text) == words(&found.text);
        assert!(real().highlights.iter().any(|highlight| said(&highlight.text)), "{}", found.text);
        shown += 1;
    }
    assert!(shown > 0, "no insight was certain before the run ended");
}

#[test]
fn doubtful_results_support_no_early_insight() {
    let mut document = real().clone();
    let found = certain(&document).unwrap();
    let section = document.experiments.iter_mut().find(|section| section.id == found.section).unwrap();
    for metric in &mut section.metrics {
        metric.grade = Grade::Rough;
    }
    assert!(document.highlights.iter().any(|highlight| highlight.text == found.text), "the report still says it");
    assert_ne!(certain(&document).map(|other| other.text), Some(found.text));
}
