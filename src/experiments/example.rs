//! The example of CONTRIBUTING.md is compiled and run here.

#[path = "../../tests/example/division.rs"]
mod division;

use std::path::Path;
use std::time::Duration;

use division::EXPERIMENT;

use super::PredictionInput;
use crate::experiments::prelude::*;
use crate::machine;
use crate::results::log::{Clock, Launch, Record};
use crate::rig::clock::{calibrate, counter_usable};
use crate::rig::request::Request;
use crate::setup::Profile;
use crate::sys::affinity;
use crate::sys::clock::{Source, monotonic_raw};

/// Launches, as many as an interval needs.
const LAUNCHES: u32 = 6;

/// One launch, in this process.
fn launch(setup: &Setup, clock: &Clock, number: u32) -> Launch {
    let request = Request {
        setup: setup.clone(),
        clock: clock.clone(),
        space: Err(Problem::new("no files here")),
        experiment: EXPERIMENT.id.to_owned(),
        launch: number,
        first: false,
        turn: number - 1,
        fill_seconds: None,
        batches: 20,
        sampling_seconds: 10.0,
        seed: u64::from(number),
        conductor: 0,
    };
    let mut out = Vec::new();
    let mut rig = Rig::set_up(&request, monotonic_raw(), &mut out).expect("a rig");
    (EXPERIMENT.measure)(&mut rig).expect("divisions can be measured");
    rig.finish().expect("a launch ends");
    let mut launch = Launch {
        number,
        round: number,
        experiment: EXPERIMENT.id.to_owned(),
        first: false,
        series: Vec::new(),
        evidence: None,
        seconds: Some(0.1),
        failed: None,
        interrupted: false,
    };
    for line in String::from_utf8(out).expect("text").lines() {
        match serde_json::from_str(line).expect("a record") {
            Record::Series { series, .. } => launch.series.push(series),
            Record::Evidence { evidence, .. } => launch.evidence = Some(evidence),
            _ => {}
        }
    }
    launch
}

/// What the analysis makes of some launches.
fn findings(setup: &Setup) -> Findings {
    let source = if counter_usable(setup.cpu).is_ok() { Source::Counter } else { Source::MonotonicRaw };
    let clock = calibrate(source, Duration::from_millis(50)).expect("a clock");
    let predictions = (EXPERIMENT.predict)(&PredictionInput { setup, known: &[] });
    assert_eq!(predictions.len(), 1);
    let launches: Vec<Launch> = (1..=LAUNCHES).map(|number| launch(setup, &clock, number)).collect();
    let study = Study {
        setup,
        clock: &clock,
        core: None,
        core_by_launch: Vec::new(),
        turn: None,
        shared: 0.0,
        within: 0.5,
        precision: EXPERIMENT.precision,
        method_version: EXPERIMENT.method_version,
        launches: launches.iter().collect(),
        probes: Vec::new(),
        predictions: predictions.iter().collect(),
        clock_share: 0.0,
        known: &[],
        history: None,
    };
    let mut findings = Findings::default();
    (EXPERIMENT.figures)(&study, &mut findings);
    (EXPERIMENT.explain)(&study, &mut findings);
    findings
}

#[test]
fn the_example_gives_a_figure_with_its_prediction() {
    let allowed = affinity::allowed();
    let cpu = *allowed.last().expect("a CPU");
    let setup = Setup::of(machine::detect(Path::new("/"), Path::new("/")), cpu, allowed, Profile::Default);
    let found = findings(&setup);
    // While other tests run, the common gates may refuse it, with a reason.
    let metric = "cpu.division.time";
    let published = found.metrics.iter().filter(|figure| figure.name == metric && figure.prediction.is_some()).count();
    let refused = found.rejected.iter().filter(|figure| figure.name == metric && !figure.gates.is_empty()).count();
    assert_eq!(published + refused, 1, "{found:?}");
}

#[test]
fn contributing_has_the_example_as_it_is_compiled() {
    let text = include_str!("../../CONTRIBUTING.md");
    let begin = text.find("```rust\n//! # Question").expect("the example begins") + "```rust\n".len();
    let example = &text[begin..begin + text[begin..].find("```\n").expect("it ends")];
    assert!(
        example == include_str!("../../tests/example/division.rs"),
        "CONTRIBUTING.md has another example than tests/example"
    );
}
