//! From series to figures, on logs made up of known costs: what goes in comes out, and for every kind of mistake that is
//! planted the gate that was made for it fires and no other.
use std::path::Path;

use crate::support::trees::tree;
use sysdyno::testing::machine;
use sysdyno::testing::report::{content, text};
use sysdyno::testing::results::document::{Document, Grade, Metric, Outcome, Section};
use sysdyno::testing::results::evidence::{Evidence, Remark};
use sysdyno::testing::results::log::{Clock, FORMAT, Header, Launch, Log, Step};
use sysdyno::testing::results::prediction::{Basis, Prediction};
use sysdyno::testing::results::problem::Problem;
use sysdyno::testing::results::quantity::{Labels, Unit};
use sysdyno::testing::results::series::{Class, Classes, Series};
use sysdyno::testing::results::verdict::{AgainstPrediction, Trust};
use sysdyno::testing::{assemble, experiments};

/// Ticks of the clock in a second.
const HERTZ: f64 = 2e9;
/// Ticks in a core cycle: the core runs at 2.5 GHz.
const CLOCK: f64 = 0.8;
/// Launches of a log, batches of a series.
const LAUNCHES: u32 = 12;
const BATCHES: usize = 20;
/// Turns of a short batch of the loop.
const TURNS: u64 = 100_000;
/// Cycles that a batch of the loop takes beside its turns.
const AROUND: f64 = 40.0;

/// Costs of a turn of the three loops, in cycles.
const COSTS: [(&str, f64); 3] = [("registers", 1.0), ("memory", 4.5), ("compiled", 1.25)];

pub fn batches(name: &str, labels: Labels, operations: u64, cycles: f64) -> Series {
    let mut series = Series::plain(name, labels, Unit::Ticks, vec![cycles * CLOCK; BATCHES]);
    series.operations = operations;
    series.clock = vec![CLOCK; BATCHES];
    series.classes = Classes(vec![Class::Clean; BATCHES]);
    series
}

pub fn code(code: &str) -> Labels {
    Labels::of([("code", code)])
}

/// The series of a launch of `cpu.loop` on a machine with these costs.
fn loop_series() -> Vec<Series> {
    let mut series = Vec::new();
    for (name, cost) in COSTS {
        for (length, times) in [("short", 1), ("long", 2)] {
            let turns = TURNS * times;
            series.push(batches(length, code(name), turns, cost * turns as f64 + AROUND));
        }
    }
    for offset in ["0", "16", "32", "48"] {
        series.push(batches("aligned", Labels::of([("offset", offset)]), TURNS, TURNS as f64));
    }
    series
}

fn calm() -> Evidence {
    Evidence {
        wall: 1e7,
        cpu_time: 1e7,
        run_delay: Some(0.0),
        steal: Some(0.0),
        ticks_per_cycle_before: Some(CLOCK),
        ticks_per_cycle_after: Some(CLOCK),
        chain_ratio: Some(3.0),
        clock_deviation_ppm: Some(0.1),
        clock_deviation_bound_ppm: Some(0.5),
        timer_bias: 20.0,
        timer_resolution: 2.0,
        settled: true,
        own_share: 0.1,
        ..Evidence::default()
    }
}

/// A log of `cpu.loop`, every launch changed by the test.
pub fn log(change: impl Fn(&mut Launch)) -> Log {
    let launches = (1..=LAUNCHES).map(|number| {
        let mut launch = Launch {
            number,
            round: number,
            experiment: "cpu.loop".to_owned(),
            first: false,
            series: loop_series(),
            evidence: Some(calm()),
            seconds: Some(0.02),
            failed: None,
            interrupted: false,
        };
        change(&mut launch);
        launch
    });
    Log {
        header: Header {
            log: FORMAT.to_owned(),
            version: "0.0.0".to_owned(),
            id: "made-up".to_owned(),
            started: "2026-01-01T00:00:00Z".to_owned(),
            command: vec!["sysdyno".to_owned()],
            seed: 1,
            profile: "quick".to_owned(),
            cpu: 0,
            ..Header::default()
        },
        machine: machine::detect(&tree("desktop-hybrid"), Path::new("/home")),
        quiet: Vec::new(),
        peer: None,
        remote: None,
        history: None,
        clock: Some(Clock { source: "tsc".to_owned(), hertz: HERTZ, error_ppm: 0.1, slew_ppm: 0.0 }),
        steps: vec![Step { experiment: "cpu.loop".to_owned(), method_version: 1, launches: LAUNCHES, skipped: None }],
        rounds_planned: LAUNCHES,
        rounds: LAUNCHES,
        disturbed_rounds: Vec::new(),
        others_cpus: Vec::new(),
        expectations: Vec::new(),
        own_predictions: None,
        predictions: Vec::new(),
        launches: launches.collect(),
        resumed: 0,
        finish: Some(("2026-01-01T00:00:01Z".to_owned(), true, "all rounds are done".to_owned())),
        seconds: 1.0,
        damage: None,
    }
}

fn section(document: &Document) -> &Section {
    &document.experiments[0]
}

fn metric<'a>(document: &'a Document, of: &str) -> &'a Metric {
    document.metric("cpu.loop.overhead", &code(of)).unwrap_or_else(|| panic!("{:?}", section(document).rejected))
}

/// Changes the batches of every series of one kind of code.
pub fn of_code(launch: &mut Launch, of: &str, change: impl Fn(&mut Series)) {
    launch.series.iter_mut().filter(|series| series.labels == code(of)).for_each(change);
}

/// The gates that a figure failed.
fn failed(metric: &Metric) -> Vec<&str> {
    metric.verdict.failures().into_iter().map(|gate| gate.id.as_str()).collect()
}

/// Asserts that the register figure is not published and that this gate says why.
pub fn assert_rejected(change: impl Fn(&mut Launch), gate: &str) {
    let document = assemble::document(&log(change));
    assert!(document.metric("cpu.loop.overhead", &code("registers")).is_none(), "{gate} did not fire");
    let rejected = section(&document).rejected.iter().find(|rejected| rejected.labels == code("registers")).unwrap();
    assert!(rejected.reason.starts_with(&format!("{gate}: ")), "{gate}: {}", rejected.reason);
}

/// Asserts that the register figure is published with its right value, this trust, and this failed gate.
fn assert_published(change: impl Fn(&mut Launch), trust: Trust, gate: &str) {
    let document = assemble::document(&log(change));
    let metric = metric(&document, "registers");
    assert_eq!(metric.verdict.trust, trust, "{:?}", metric.verdict.failures());
    assert!(failed(metric).contains(&gate), "{gate}: {:?}", metric.verdict.failures());
    assert!((metric.cycles.unwrap() - 1.0).abs() < 1e-3, "{:?}", metric.cycles);
}

#[test]
fn known_costs_go_in_and_come_out() {
    let document = assemble::document(&log(|_| ()));
    assert_eq!(section(&document).outcome, Outcome::Measured);
    for (name, cost) in COSTS {
        let metric = metric(&document, name);
        assert!((metric.cycles.unwrap() - cost).abs() < 1e-9, "{name}: {:?}", metric.cycles);
        assert!((metric.value - cost / 2.5).abs() < 1e-9, "{name}: {} ns at 2.5 GHz", metric.value);
        assert!((metric.at_core_hz.unwrap() - 2.5e9).abs() < 1.0);
        assert_eq!(metric.verdict.trust, Trust::Clean, "{name}: {:?}", metric.verdict.failures());
        assert_eq!(metric.verdict.failures(), Vec::<&sysdyno::testing::results::verdict::Gate>::new(), "{name}");
        assert_eq!((metric.launches, metric.samples), (LAUNCHES, 2 * u64::from(LAUNCHES) * BATCHES as u64));
        assert!(metric.headline);
    }
}

#[test]
fn a_clock_that_changes_between_batches_leaves_cycles_alone() {
    let document = assemble::document(&log(|launch| {
        for series in &mut launch.series {
            for (index, (value, clock)) in series.values.iter_mut().zip(&mut series.clock).enumerate() {
                let factor = 1.0 + 0.3 * ((index as f64 + f64::from(launch.number)) * 0.7).sin();
                *value *= factor;
                *clock *= factor;
            }
        }
    }));
    for (name, cost) in COSTS {
        assert!((metric(&document, name).cycles.unwrap() - cost).abs() < 1e-6, "{name}");
    }
}

#[test]
fn one_sided_noise_leaves_the_undisturbed_cost_alone() {
    let document = assemble::document(&log(|launch| {
        for series in &mut launch.series {
            for value in series.values.iter_mut().step_by(3) {
                *value *= 1.2;
            }
        }
    }));
    for (name, cost) in COSTS {
        assert!((metric(&document, name).cycles.unwrap() - cost).abs() < 1e-9, "{name}");
    }
}

#[test]
fn batches_that_were_disturbed_do_not_count() {
    let document = assemble::document(&log(|launch| {
        of_code(launch, "registers", |series| {
            for index in [3, 11] {
                series.values[index] *= 50.0;
                series.classes.0[index] = Class::Preempted;
            }
            series.values[7] = -5.0;
            series.classes.0[7] = Class::Unsteady;
        });
    }));
    let metric = metric(&document, "registers");
    assert!((metric.cycles.unwrap() - 1.0).abs() < 1e-9);
    assert_eq!((metric.disturbed, metric.void), (4 * u64::from(LAUNCHES), 2 * u64::from(LAUNCHES)));
}

#[test]
fn a_launch_in_which_nothing_of_one_body_is_clean_stands_aside() {
    let document = assemble::document(&log(|launch| {
        // In one launch the long batches are lost, in another the short ones: the rest makes the figure.
        let lost = match launch.number {
            5 => "long",
            6 => "short",
            _ => return,
        };
        of_code(launch, "registers", |series| {
            if series.name == lost {
                series.classes.0.fill(Class::Preempted);
            } else {
                series.values.iter_mut().for_each(|value| *value *= 3.0);
            }
        });
    }));
    let metric = metric(&document, "registers");
    assert!((metric.cycles.unwrap() - 1.0).abs() < 1e-9, "{:?}", metric.cycles);
    assert_eq!(metric.launches, LAUNCHES - 2);
    assert_eq!(metric.verdict.trust, Trust::Clean, "{:?}", metric.verdict.failures());
}

/// Takes from a launch what it has by its chain of known latency, as where something disturbed the self-check.
fn without_chain(launch: &mut Launch) {
    let evidence = launch.evidence.as_mut().unwrap();
    (evidence.ticks_per_cycle_before, evidence.ticks_per_cycle_after, evidence.chain_ratio) = (None, None, None);
    launch.series.iter_mut().for_each(|series| series.clock.clear());
}

#[test]
fn a_launch_without_a_chain_stands_aside_where_others_tell_cycles() {
    let document = assemble::document(&log(|launch| {
        if launch.number == 1 {
            launch.series.iter_mut().for_each(|series| series.values.iter_mut().for_each(|value| *value *= 9.0));
            without_chain(launch);
        }
    }));
    let metric = metric(&document, "registers");
    assert!((metric.cycles.unwrap() - 1.0).abs() < 1e-9, "{:?}", metric.cycles);
    assert_eq!(
        (metric.launches, metric.verdict.trust),
        (LAUNCHES - 1, Trust::Clean),
        "{:?}",
        metric.verdict.failures()
    );
    // What is told in no cycles loses nothing: here the only launch that took what is taken once.
    let mut log = log(|launch| {
        launch.series.clear();
        if launch.number == 1 {
            let full = || Labels::of([("mode", "full")]);
            for name in ["read", "resident"] {
                launch.series.push(Series::plain(name, full(), Unit::Bytes, vec![1e6, 2e6]));
            }
            without_chain(launch);
        }
        "file.cache_size".clone_into(&mut launch.experiment);
    });
    let method_version = experiments::find("file.cache_size").unwrap().method_version;
    log.steps[0] = Step { experiment: "file.cache_size".to_owned(), method_version, ..log.steps[0].clone() };
    let document = assemble::document(&log);
    assert_eq!(section(&document).metrics.first().map(|metric| metric.value), Some(2e6), "{:?}", section(&document));
}

#[test]
fn launches_that_failed_do_not_count_and_are_named() {
    let document = assemble::document(&log(|launch| {
        if launch.number == 5 {
            launch.failed = Some(Problem::new("the launch was killed by SIGKILL"));
            of_code(launch, "registers", |series| series.values.fill(1.0));
        }
        if launch.number == 6 {
            launch.seconds = None;
            launch.evidence = None;
        }
    }));
    let section = section(&document);
    assert_eq!((section.outcome, section.launches), (Outcome::Measured, LAUNCHES - 2));
    assert_eq!(section.failed_launches[0], "launch 5: the launch was killed by SIGKILL");
    assert!(section.failed_launches[1].contains("the run ended during it"), "{:?}", section.failed_launches);
    assert!((metric(&document, "registers").cycles.unwrap() - 1.0).abs() < 1e-9);
}

#[test]
fn an_experiment_without_a_good_launch_has_failed() {
    let document = assemble::document(&log(|launch| {
        launch.failed = Some(Problem::new("cannot start a launch").hint("check the limits"));
    }));
    let section = section(&document);
    assert_eq!((section.outcome, section.metrics.len()), (Outcome::Failed, 0));
    assert!(section.reason.as_ref().unwrap().contains("cannot start a launch"), "{:?}", section.reason);
    assert_eq!(section.hint.as_deref(), Some("check the limits"));
}

#[test]
fn a_method_of_another_version_is_not_judged() {
    let mut log = log(|_| ());
    log.steps[0].method_version = 99;
    let document = assemble::document(&log);
    assert_eq!(section(&document).outcome, Outcome::Failed);
    assert!(section(&document).reason.as_ref().unwrap().contains("method version 99"));
}

#[test]
fn predictions_are_held_against_figures() {
    let verdict = |low: f64, value: f64, high: f64| {
        let mut log = log(|_| ());
        let term = Prediction::of("cpu.loop.overhead", code("registers"), Unit::Nanoseconds);
        let prediction = term.hardware("a turn", (value, low, high), Basis::guess("for the test"));
        log.predictions.push(("cpu.loop".to_owned(), prediction));
        metric(&assemble::document(&log), "registers").verdict.against_prediction
    };
    // The truth is 0.4 ns.
    assert_eq!(verdict(0.3, 0.35, 0.5), AgainstPrediction::AsPredicted);
    assert_eq!(verdict(0.5, 0.6, 0.7), AgainstPrediction::Faster);
    assert_eq!(verdict(0.1, 0.2, 0.3), AgainstPrediction::Slower);
    assert_eq!(
        metric(&assemble::document(&log(|_| ())), "registers").verdict.against_prediction,
        AgainstPrediction::None
    );
}

#[test]
fn a_figure_below_the_physical_floor_is_no_result() {
    let fast = |launch: &mut Launch| {
        of_code(launch, "registers", |series| series.values = vec![0.3 * series.operations as f64 * CLOCK; BATCHES]);
    };
    assert_rejected(fast, "G8");
}

#[test]
fn batches_that_are_too_short_are_no_measurement() {
    assert_rejected(|launch| launch.evidence.as_mut().unwrap().timer_resolution = 1e4, "G4");
    assert_rejected(|launch| launch.evidence.as_mut().unwrap().timer_bias = 1e4, "G4");
}

#[test]
fn a_clock_that_goes_backwards_is_no_clock() {
    assert_rejected(|launch| of_code(launch, "registers", |series| series.classes.0[0] = Class::Backwards), "G1");
}

#[test]
fn chains_of_unknown_latency_tell_no_cycles() {
    assert_rejected(|launch| launch.evidence.as_mut().unwrap().chain_ratio = Some(2.5), "G14");
}

/// Has the probes disagree in the first batches of a series.
fn unsteady(batches: usize) -> impl Fn(&mut Launch) {
    move |launch| of_code(launch, "registers", |series| series.classes.0[..batches].fill(Class::Unsteady))
}

#[test]
fn probes_that_disagree_in_most_batches_contaminate_and_in_nearly_all_leave_nothing() {
    assert_published(unsteady(15), Trust::Contaminated, "G14");
    assert_rejected(unsteady(19), "G14");
}

#[test]
fn a_figure_of_which_nothing_is_clean_is_named() {
    for (class, gate) in [(Class::Preempted, "G16: "), (Class::Unsteady, "G14: ")] {
        let mut log = log(|launch| of_code(launch, "registers", |series| series.classes.0.fill(class)));
        for of in ["registers", "memory"] {
            let term = Prediction::of("cpu.loop.overhead", code(of), Unit::Nanoseconds);
            let prediction = term.hardware("a turn", (0.4, 0.3, 0.5), Basis::guess("for the test"));
            log.predictions.push(("cpu.loop".to_owned(), prediction));
        }
        let document = assemble::document(&log);
        let rejected = &section(&document).rejected;
        assert!(rejected.len() == 1 && rejected[0].labels == code("registers"), "{rejected:?}");
        assert!(rejected[0].reason.starts_with(gate), "{}", rejected[0].reason);
        assert!(rejected[0].reason.contains(&format!("{} batches", 2 * LAUNCHES as usize * BATCHES)), "{rejected:?}");
    }
}

#[test]
fn a_figure_whose_two_loops_have_no_launch_in_common_is_named() {
    let document = assemble::document(&log(|launch| {
        let lost = if launch.number % 2 == 0 { "long" } else { "short" };
        of_code(launch, "registers", |series| {
            if series.name == lost {
                series.classes.0.fill(Class::Preempted);
            }
        });
    }));
    let rejected = &section(&document).rejected;
    assert!(rejected.len() == 1 && rejected[0].labels == code("registers"), "{rejected:?}");
    assert!(rejected[0].reason.starts_with("no launch has"), "{}", rejected[0].reason);
}

#[test]
fn a_wrong_result_is_no_result() {
    assert_rejected(|launch| of_code(launch, "registers", |series| series.classes.0[3] = Class::Wrong), "G6");
}

#[test]
fn a_figure_of_which_too_little_is_clean_is_no_result() {
    assert_rejected(
        |launch| of_code(launch, "registers", |series| series.classes.0[..5].fill(Class::Preempted)),
        "G16",
    );
}

#[test]
fn what_is_measured_for_predictions_alone_is_known_and_not_reported() {
    let mut log = log(|_| ());
    log.steps[0].experiment = "os.signal".to_owned();
    let document = assemble::document(&log);
    assert_eq!(document.experiments.iter().map(|section| section.id.as_str()).collect::<Vec<_>>(), ["os.signal"]);
    assert_eq!(document.metrics().count(), 0);
    let known = assemble::known_metrics(&log);
    assert!(known.iter().any(|metric| metric.name == "cpu.loop.overhead"), "{} results", known.len());
}

#[test]
fn an_experiment_that_the_time_did_not_reach_is_skipped_with_a_reason() {
    let mut log = log(|_| ());
    log.launches.clear();
    log.finish = Some(("2026-01-01T00:00:00Z".to_owned(), false, "the time limit was reached before …".to_owned()));
    let document = assemble::document(&log);
    let section = section(&document);
    assert_eq!(section.outcome, Outcome::Skipped);
    assert!(section.reason.as_ref().is_some_and(|reason| reason.contains("before its first launch")));
}

#[test]
fn time_that_others_took_contaminates() {
    let delayed = |launch: &mut Launch| launch.evidence.as_mut().unwrap().run_delay = Some(2e6);
    assert_published(delayed, Trust::Contaminated, "G16");
    let stolen = |launch: &mut Launch| launch.evidence.as_mut().unwrap().steal = Some(2e6);
    assert_published(stolen, Trust::Contaminated, "G16");
}

#[test]
fn launches_elsewhere_are_counted_with_who_was_there() {
    let began = |launch: &mut Launch| {
        let evidence = launch.evidence.as_mut().unwrap();
        evidence.began_alone = Some(!launch.number.is_multiple_of(4));
        evidence.cpu = u32::from(launch.number.is_multiple_of(4));
    };
    let mut log = log(began);
    log.header.equal_cpus = vec![1];
    let (document, moved) = (assemble::document(&log), LAUNCHES / 4);
    let practice = &document.practice;
    let share = f64::from(moved) / f64::from(LAUNCHES);
    assert_eq!((practice.moved_launches, practice.shared_at_start), (Some(moved), Some(share)));
    let said = format!(
        "25 % of the launches began with a neighbour on the core of CPU 0. {moved} of these measured on another CPU"
    );
    let brief = text::render(&content::brief(&document, None, content::OtherPages::Beside), None);
    assert!(brief.replace('\n', " ").contains(&said), "{brief}");
}

#[test]
fn batches_of_which_none_is_usable_are_counted_in_the_reason() {
    let document = assemble::document(&log(|launch| {
        for series in &mut launch.series {
            series.classes.0.iter_mut().for_each(|class| *class = Class::Preempted);
        }
    }));
    let reason = section(&document).reason.clone().unwrap_or_default();
    assert!(
        reason.starts_with("the launches gave no result from their batches: ") && reason.ends_with(" preempted"),
        "{reason}"
    );
}

#[test]
fn a_launch_that_moved_contaminates() {
    let moved = |launch: &mut Launch| of_code(launch, "registers", |series| series.classes.0[2] = Class::Migrated);
    assert_published(moved, Trust::Contaminated, "G15");
}

#[test]
fn a_clock_that_changed_its_rate_contaminates() {
    let off = |launch: &mut Launch| {
        if launch.number == 4 {
            launch.evidence.as_mut().unwrap().clock_deviation_ppm = Some(-300.0);
        }
    };
    assert_published(off, Trust::Contaminated, "clock");
}

#[test]
fn few_launches_are_noisy() {
    let mut log = log(|launch| {
        of_code(launch, "registers", |series| {
            for (index, value) in series.values.iter_mut().enumerate() {
                *value *= 1.0 + 0.01 * (index % 5) as f64;
            }
        });
    });
    log.launches.truncate(2);
    let document = assemble::document(&log);
    let metric = metric(&document, "registers");
    assert_eq!(metric.verdict.trust, Trust::Noisy);
    assert!(failed(metric).contains(&"G11"), "{:?}", metric.verdict.failures());
    assert!(metric.interval_level < 0.95);
    // What is published of them also has what their batches took. What their confidence belongs to is the interval over the launches.
    let ([low, high], within) = (metric.interval95, metric.within_run.unwrap());
    let quantiles = metric.quantiles.unwrap();
    assert!(low <= quantiles.p10 && high >= quantiles.p90, "{metric:?}");
    assert!(quantiles.p10 < within[0] && within[1] < quantiles.p90, "{metric:?}");
}

/// A log of `os.process_creation` with one figure, whose children were made, reaped, and left as expected in such numbers
/// in the last launch.
fn children(counts: Option<[f64; 3]>, remark: Option<&str>) -> Document {
    let labels = || Labels::of([("how", "fork_wait"), ("child", "same_cpu"), ("resident", "0")]);
    let mut log = log(|launch| {
        "os.process_creation".clone_into(&mut launch.experiment);
        launch.series = vec![batches("child", labels(), 1, 250_000.0)];
        let last = launch.number == LAUNCHES;
        if let Some(counts) = if last { counts } else { Some([30.0; 3]) } {
            launch.series.push(Series::plain("children", labels(), Unit::One, counts.to_vec()));
        }
        if let Some(what) = remark.filter(|_| last) {
            let remark = Remark::of(what, &"");
            launch.evidence.as_mut().unwrap().remarks.push(remark);
        }
    });
    let method_version = experiments::find("os.process_creation").unwrap().method_version;
    log.steps[0] = Step { experiment: "os.process_creation".to_owned(), method_version, ..log.steps[0].clone() };
    assemble::document(&log)
}

#[test]
fn children_that_were_reaped_and_left_as_expected_are_a_figure() {
    let document = children(Some([30.0; 3]), None);
    let metric = document.experiments[0].metrics.first().unwrap_or_else(|| panic!("{:?}", section(&document).rejected));
    assert_eq!(metric.name, "os.process_creation.time");
    assert!((metric.value - 100_000.0).abs() < 1e-6, "250,000 cycles at 2.5 GHz: {}", metric.value);
    assert!(metric.verdict.gates.iter().any(|gate| gate.id == "G26" && gate.pass));
}

#[test]
fn a_child_that_was_not_reaped_or_left_otherwise_is_no_figure() {
    for (counts, remark) in
        [(Some([30.0, 29.0, 29.0]), None), (Some([30.0, 30.0, 29.0]), None), (Some([30.0; 3]), Some("children.left"))]
    {
        let document = children(counts, remark);
        assert!(section(&document).metrics.is_empty(), "{counts:?} {remark:?}");
        let figure = &section(&document).rejected[0];
        assert!(figure.reason.starts_with("G26: "), "{counts:?}: {}", figure.reason);
        assert_eq!(section(&document).outcome, Outcome::Failed, "a failed gate is no skip");
    }
}

/// A log of `memory.latency` whose walks on huge pages take so many nanoseconds by their footprint.
fn latencies(time: impl Fn(u64) -> f64) -> Document {
    let sizes: Vec<u64> = (0..=72).map(|step| (4096.0 * (f64::from(step) / 4.0).exp2()) as u64 / 64 * 64).collect();
    let walks = |pattern: &'static str| {
        let time = &time;
        sizes.iter().map(move |&bytes| {
            let labels = Labels::of([("pattern", pattern), ("pages", "huge")]).with("bytes", bytes);
            batches("load", labels, 4096, time(bytes) * 2.5 * 4096.0)
        })
    };
    let all: Vec<Series> = walks("random").chain(walks("page_blocked")).collect();
    let mut log = log(|launch| {
        "memory.latency".clone_into(&mut launch.experiment);
        launch.series.clone_from(&all);
    });
    let method_version = experiments::find("memory.latency").unwrap().method_version;
    log.steps[0] = Step { experiment: "memory.latency".to_owned(), method_version, ..log.steps[0].clone() };
    assemble::document(&log)
}

#[test]
fn a_plateau_as_slow_as_memory_is_no_cache() {
    let level = |document: &Document, level: &str| {
        let labels = Labels::of([("level", level), ("pages", "huge")]);
        document.metric("memory.latency.level", &labels).map(|metric| metric.value.round())
    };
    let steps = |third: f64| {
        move |bytes: u64| match bytes >> 10 {
            0..=48 => 2.0,
            49..=1024 => 6.0,
            1025..=24_576 => third,
            _ => 100.0,
        }
    };
    let served = latencies(steps(20.0));
    assert_eq!((level(&served, "L3"), level(&served, "DRAM")), (Some(20.0), Some(100.0)));
    let robbed = latencies(steps(80.0));
    assert_eq!((level(&robbed, "L3"), level(&robbed, "DRAM")), (None, Some(100.0)));
    let reason = |name: &str, labels: Labels| {
        let rejected = &section(&robbed).rejected;
        rejected.iter().find(|one| one.name == name && one.labels == labels).unwrap().reason.clone()
    };
    let time = reason("memory.latency.level", Labels::of([("level", "L3"), ("pages", "huge")]));
    assert!(time.contains("the curve is as slow as memory"), "{time}");
    let size = reason("memory.latency.level_size", Labels::of([("level", "L3")]));
    assert_eq!(size, time);
}

/// The same log with interference probes in every round, changed by the test.
fn with_probes(mut log: Log, change: impl Fn(&mut Evidence)) -> Log {
    for round in 1..=LAUNCHES {
        let mut evidence = calm();
        change(&mut evidence);
        log.launches.push(Launch {
            number: LAUNCHES + round,
            round,
            experiment: "canary".to_owned(),
            first: false,
            series: Vec::new(),
            evidence: Some(evidence),
            seconds: Some(0.05),
            failed: None,
            interrupted: false,
        });
    }
    log
}

#[test]
fn where_a_launch_cannot_tell_its_probes_do_and_unknown_is_not_nothing() {
    let partners = |launch: &mut Launch| launch.evidence.as_mut().unwrap().run_delay = None;
    let sleeps = |launch: &mut Launch| launch.evidence.as_mut().unwrap().cpu_time = 1e5;
    let trust = |log: &Log| {
        let document = assemble::document(log);
        let metric = metric(&document, "registers");
        (metric.verdict.trust, failed(metric).join(" "))
    };
    let half = |evidence: &mut Evidence| evidence.run_delay = Some(evidence.wall / 2.0);
    // Nobody says anything: not clean.
    assert_eq!(trust(&log(partners)), (Trust::Noisy, "G16".to_owned()));
    // Calm interference probes say that it was calm, disturbed ones that it was not.
    assert_eq!(trust(&with_probes(log(partners), |_| ())).0, Trust::Clean);
    assert_eq!(trust(&with_probes(log(partners), half)), (Trust::Contaminated, "G16".to_owned()));
    assert_eq!(trust(&with_probes(log(sleeps), half)), (Trust::Contaminated, "G16".to_owned()));
    // A launch that computed all the time knows better than the interference probes.
    assert_eq!(trust(&with_probes(log(|_| ()), half)).0, Trust::Clean);
}

#[test]
fn time_that_interrupts_take_is_seen_by_the_probes_and_a_burst_is_not_enough() {
    // Every so many rounds an interference probe loses half of its CPU, which no task and no launch notices, in so many gaps each second. They are
    // counted in a number of the first rounds.
    let trust_of = |every: u32, gaps: Option<f64>, counted: u32| {
        let mut log = with_probes(log(|_| ()), |_| ());
        for launch in log.launches.iter_mut().filter(|launch| launch.experiment == "canary") {
            let share = if launch.round.is_multiple_of(every) { 0.5 } else { 0.01 };
            let labels = Labels::of([("placement", "same_cpu")]);
            launch.series.push(Series::plain("others", labels.clone(), Unit::One, vec![share]));
            let gaps = gaps.filter(|_| launch.round <= counted);
            launch.series.extend(gaps.map(|gaps| Series::plain("gaps", labels, Unit::Hertz, vec![gaps])));
        }
        let document = assemble::document(&log);
        let metric = metric(&document, "registers");
        (metric.verdict.trust, metric.grade, failed(metric).join(" "))
    };
    let trust = |every: u32, gaps: Option<f64>| trust_of(every, gaps, u32::MAX);
    assert_eq!(trust(1, None), (Trust::Contaminated, Grade::Disturbed, "G16".to_owned()));
    assert_eq!(trust(6, None), (Trust::Clean, Grade::Good, String::new()));
    // Batches of some microseconds lie between gaps that come seldom, and not between gaps that come all the time.
    assert_eq!(trust(1, Some(100.0)), (Trust::Clean, Grade::Good, String::new()));
    assert_eq!(trust(1, Some(5000.0)), (Trust::Contaminated, Grade::Disturbed, "G16".to_owned()));
    // A run that an older version began did not count them in all rounds.
    assert_eq!(trust_of(1, Some(100.0), 1), (Trust::Contaminated, Grade::Disturbed, "G16".to_owned()));
}
