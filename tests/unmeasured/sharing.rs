//! What figures become of batches whose cores were shared: a stored log gets looks at the width beside its batches.

use std::path::Path;

use sysdyno::testing::assemble;
use sysdyno::testing::results::document::{Document, Grade, Metric};
use sysdyno::testing::results::log::{self, Log};

/// Cycles of a turn alone on the core, and beside a neighbour.
const ALONE: [f64; 2] = [1.01, 1.01];
const SHARED: [f64; 2] = [1.7, 1.6];
const MIXED: [f64; 2] = [1.01, 1.7];
/// What a neighbour costs in these logs.
const TAX: f64 = 1.5;

fn stored() -> Log {
    log::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/complete.jsonl")).unwrap()
}

/// The document of the stored log with looks beside its batches, by launch and batch. What is not alone takes longer.
fn looked(widths: impl Fn(u32, usize) -> [f64; 2]) -> Document {
    looked_at(stored(), widths)
}

fn looked_at(mut log: Log, widths: impl Fn(u32, usize) -> [f64; 2]) -> Document {
    for launch in &mut log.launches {
        let number = launch.number;
        for series in launch.series.iter_mut().filter(|series| !series.clock.is_empty()) {
            series.widths = (0..series.values.len()).map(|batch| widths(number, batch)).collect();
            for (value, widths) in series.values.iter_mut().zip(&series.widths) {
                *value *= if *widths == ALONE { 1.0 } else { TAX };
            }
        }
    }
    assemble::document(&log)
}

fn loops(document: &Document) -> Vec<&Metric> {
    document.metrics().filter(|metric| metric.name == "cpu.loop.overhead").collect()
}

#[test]
fn figures_are_made_of_batches_that_were_alone() {
    let quiet = looked(|_, _| ALONE);
    for widths in [SHARED, MIXED] {
        // Two of three batches beside a neighbour: quartiles and medians of all batches would be its.
        let busy = looked(|_, batch| if batch % 3 == 0 { ALONE } else { widths });
        for (busy, quiet) in loops(&busy).into_iter().zip(loops(&quiet)) {
            assert!(
                (busy.value / quiet.value - 1.0).abs() < 0.005,
                "{}: {} and {}",
                busy.title(),
                busy.value,
                quiet.value
            );
            assert_eq!(busy.grade, Grade::Good, "{}: {:?}", busy.title(), busy.verdict.failures());
            assert!(busy.typical.unwrap() > 1.3 * busy.value, "what was paid on the whole stands beside it");
            assert!(busy.samples < quiet.samples / 2);
        }
    }
}

#[test]
fn the_same_beside_a_neighbour_stands_next_to_them() {
    let busy = looked(|_, batch| if batch % 2 == 0 { ALONE } else { SHARED });
    for metric in loops(&busy) {
        let shared = metric.shared.unwrap();
        assert!((shared.value / metric.value / TAX - 1.0).abs() < 0.01, "{}: {shared:?}", metric.title());
        assert!((metric.tax().unwrap() / TAX - 1.0).abs() < 0.01 && (shared.share - 0.5).abs() < 0.05);
        assert!(shared.interval95[0] <= shared.value && shared.value <= shared.interval95[1]);
    }
    let found = busy.neighbours().unwrap();
    assert!(found.consequence.contains("cpu ×1.5"), "{found:?}");
    // The screen says it of the work of the kernel, which this log has none of.
    let mut kernel = busy.clone();
    kernel.experiments.iter_mut().for_each(|section| section.chapter = "os".to_owned());
    let said = kernel.disturbed_by();
    assert!(said.contains(" With such work, the kernel takes ") && said.ends_with("are without it."), "{said}");
    assert!(!busy.disturbed_by().contains("the kernel takes"), "{}", busy.disturbed_by());
}

#[test]
fn a_second_disturbance_hides_no_neighbour() {
    let mut busy = looked(|_, batch| if batch % 2 == 0 { ALONE } else { SHARED });
    // The machine of this log has a quota.
    let said = busy.disturbed_by();
    assert!(said.starts_with("Disturbed by a CPU quota (1.5 of 2 CPUs) and other work on the same core (50"), "{said}");
    busy.practice.stolen_share = Some(0.04);
    let said = busy.disturbed_by();
    assert!(said.contains(" CPUs), other work on the same core (") && said.contains(") and steal (4"), "{said}");
    let state = busy.host_state();
    assert!(state.len() == 3 && state[1].starts_with("A neighbour used the same core during "), "{state:?}");
}

#[test]
fn tasks_of_a_launch_that_wait_for_each_other_disturb_nothing() {
    let mut log = stored();
    for launch in log.launches.iter_mut().filter(|launch| launch.experiment == "cpu.loop") {
        let evidence = launch.evidence.as_mut().unwrap();
        evidence.run_delay = Some(0.17 * evidence.wall);
    }
    for metric in loops(&looked_at(log, |_, _| ALONE)) {
        assert_eq!(metric.grade, Grade::Good, "{}: {:?}", metric.title(), metric.verdict.failures());
    }
}

#[test]
fn one_launch_alone_is_used_and_not_mixed_with_the_others() {
    let first = stored().launches.iter().find(|launch| launch.experiment == "cpu.loop").unwrap().number;
    let quiet = looked(|_, _| ALONE);
    let busy = looked(|launch, _| if launch == first { ALONE } else { SHARED });
    for (busy, quiet) in loops(&busy).into_iter().zip(loops(&quiet)) {
        assert!((busy.value / quiet.value - 1.0).abs() < 0.02, "{}", busy.title());
        assert_eq!((busy.launches, busy.grade), (1, Grade::Unresolved), "{}", busy.title());
        let told =
            busy.verdict.failures().iter().any(|gate| gate.evidence.contains("a neighbour used the core during"));
        assert!(told, "{:?}", busy.verdict.failures());
    }
}

#[test]
fn without_a_batch_alone_figures_are_contaminated_and_say_why() {
    let busy = looked(|_, _| SHARED);
    assert!(!loops(&busy).is_empty());
    for metric in loops(&busy) {
        assert_eq!(metric.grade, Grade::Contaminated, "{}", metric.title());
        assert!(
            metric.estimator.contains("with a neighbour")
                || metric.verdict.failures()[0].evidence.contains("0 ran without a neighbour")
        );
        assert_eq!(metric.tax(), None);
    }
    // The report does not say of them what holds for the others.
    assert_eq!(
        busy.alone_sentence("Results"),
        "Results that depend on the core are for one without a neighbour, except the contaminated ones."
    );
    let quiet = looked(|_, _| ALONE).alone_sentence("Results");
    assert_eq!(quiet, "Results that depend on the core are for one without a neighbour.");
    let mixed = looked(|_, _| MIXED);
    assert!(loops(&mixed).is_empty());
    let rejected = mixed.experiments.iter().flat_map(|section| &section.rejected);
    assert!(rejected.filter(|found| found.reason.contains("a neighbour appeared or left")).count() > 0);
}

#[test]
fn logs_without_looks_give_what_they_gave() {
    let without = assemble::document(&stored());
    assert!(without.neighbours().is_none());
    for metric in loops(&without) {
        assert!(metric.shared.is_none() && metric.estimator.contains("of p25"), "{}", metric.estimator);
    }
    // Unknown widths are no looks.
    let unknown = looked(|_, _| [0.0, 0.0]);
    assert!(unknown.neighbours().is_none());
}
