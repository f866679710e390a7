//! Insights rest on settled results, and say what is unusual before what was not predicted. The one that a terminal shows while a run
//! goes on says nothing while it is uncertain, and nothing that the report does not say.
use sysdyno::testing::assemble;
use sysdyno::testing::experiments::highlights::{certain, highlights};
use sysdyno::testing::results::document::{
    CheckOutcome, Comparison, CompositeCheck, Document, Grade, Highlight, HighlightKind, SharedCore,
};
use sysdyno::testing::results::expectation::{Expectation, Ground};
use sysdyno::testing::results::quantity::{Labels, Unit};
use sysdyno::testing::results::verdict::{AgainstPrediction, Trust};

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
    let mut early = (1..=record().rounds).rev().map(after);
    let (mut document, found) = early.find_map(|document| certain(&document).map(|found| (document, found))).unwrap();
    let section = document.experiments.iter_mut().find(|section| section.id == found.section).unwrap();
    for metric in &mut section.metrics {
        metric.grade = Grade::Rough;
    }
    assert!(document.highlights.iter().any(|highlight| highlight.text == found.text), "the report still says it");
    assert_ne!(certain(&document).map(|other| other.text), Some(found.text));
}

/// What a document would say now.
fn said(document: &Document, checks: &[CompositeCheck]) -> Vec<Highlight> {
    highlights(&document.experiments, checks, &document.machine, document.run.cpu, &document.expectations)
}

/// What figures say, without what is said of the machine's own claims and of the run.
fn of_figures(found: &[Highlight]) -> Vec<&Highlight> {
    let kinds = [HighlightKind::Bottleneck, HighlightKind::Surprise];
    found.iter().filter(|highlight| kinds.contains(&highlight.kind)).collect()
}

#[test]
fn no_insight_rests_on_results_that_are_not_settled() {
    assert!(!of_figures(&said(real(), &[])).is_empty());
    for grade in [Grade::Unresolved, Grade::Contaminated] {
        let mut document = real().clone();
        for metric in document.experiments.iter_mut().flat_map(|section| &mut section.metrics) {
            metric.grade = grade;
        }
        assert_eq!(of_figures(&said(&document, &[])), Vec::<&Highlight>::new(), "{grade:?}");
    }
}

#[test]
fn misses_of_predictions_are_told_last_and_only_where_little_else_is() {
    let mut document = real().clone();
    let is_surprise = |highlight: &Highlight| highlight.kind == HighlightKind::Surprise;
    let all = said(&document, &[]);
    let others = all.iter().filter(|highlight| !is_surprise(highlight)).count();
    assert!(others >= 3 && !all.iter().any(is_surprise), "{all:#?}");

    // Of the results that insights compare, only a miss is left.
    let chapters = ["memory", "network", "file", "cpu"];
    document.experiments.retain(|section| !chapters.contains(&section.chapter.as_str()));
    for metric in document.experiments.iter_mut().flat_map(|section| &mut section.metrics) {
        metric.grade = Grade::Good;
        metric.headline = metric.prediction.is_some();
        if let Some(predicted) = &mut metric.prediction
            && metric.name == "os.signal.time"
        {
            (predicted.value, predicted.low, predicted.high) = (1e-3, 1e-4, 1e-2);
            metric.verdict.against_prediction = AgainstPrediction::Slower;
        }
    }
    let few = said(&document, &[]);
    let first = few.iter().position(is_surprise);
    assert!(few.len() <= 5 && few.iter().skip(first.unwrap_or(few.len())).all(is_surprise), "{few:#?}");
    assert!(first.is_none_or(|place| place < 3), "{few:#?}");
}

#[test]
fn a_contradiction_of_unsettled_results_says_so() {
    let mut document = real().clone();
    let phrase = document.experiments[0].metrics[0].phrase.clone();
    let check = |left: &str| CompositeCheck {
        id: "C1".to_owned(),
        rule: String::new(),
        outcome: CheckOutcome::Violated,
        comparisons: vec![Comparison {
            left: format!("'{left}' = 3 ns"),
            relation: "≥".to_owned(),
            right: "4 ns".to_owned(),
            holds: false,
        }],
        missing: Vec::new(),
    };
    let told = |document: &Document| said(document, &[check(&phrase)])[0].text.clone();
    document.experiments[0].metrics[0].grade = Grade::Good;
    assert!(!told(&document).contains("not settled"), "{}", told(&document));
    document.experiments[0].metrics[0].grade = Grade::Unresolved;
    assert!(told(&document).ends_with("At least one of these results is not settled."), "{}", told(&document));
}

#[test]
fn a_neighbour_and_mitigations_are_told_with_their_numbers() {
    let mut document = real().clone();
    for section in &mut document.experiments {
        for metric in section.metrics.iter_mut().filter(|metric| metric.name == "os.system_call.time") {
            metric.grade = Grade::Good;
            let interval95 = metric.interval95.map(|end| end * 3.0);
            let beside = SharedCore { value: metric.value * 3.0, interval95, launches: 9, samples: 90, share: 0.25 };
            metric.shared = Some(beside);
        }
    }
    let found = said(&document, &[]);
    let told = found.iter().find(|highlight| highlight.text.contains("neighbour on the core")).unwrap();
    assert!(told.why.as_ref().unwrap().contains("25 %"), "{told:?}");
}

/// What is ordinary for the kind of the machine is said after what is not, and with the ratio of that kind.
#[test]
fn what_is_ordinary_for_the_kind_comes_later() {
    let cost = |document: &Document, name: &str| {
        let cost = document.costs.iter().find(|cost| cost.name == name).unwrap();
        document.metric(&cost.metric, &cost.labels).unwrap().clone()
    };
    let with_wake_ups_of = |times: f64| {
        let mut document = real().clone();
        let of = |name: &str, times: f64| {
            let value = cost(&document, name).value * times;
            Expectation {
                cost: name.to_owned(),
                ground: Ground::Kind,
                unit: Unit::Nanoseconds,
                value,
                low: value / 2.0,
                high: value * 2.0,
                machines: "made ones".to_owned(),
                basis: "3 runs of 3 machines".to_owned(),
            }
        };
        document.expectations = vec![of("wake idle CPU", times), of("switch, same CPU", 1.0)];
        said(&document, &[])
    };
    let place = |all: &[Highlight]| all.iter().position(|found| found.text.starts_with("Waking a sleeping CPU"));
    let far = with_wake_ups_of(0.05);
    assert_eq!(place(&far), Some(0), "{far:#?}");
    assert!(far[0].why.as_ref().unwrap().contains("Machines of the kind (made ones) have a ratio of "), "{far:#?}");
    let ordinary = with_wake_ups_of(1.0);
    assert_ne!(place(&ordinary), Some(0), "{ordinary:#?}");
}

/// Each insight of two results is there where they lie far apart, and not where they lie as usual.
#[test]
fn costs_are_described_where_they_are_unusual() {
    let found = |unit: Unit, name: &str, costs: [(Labels, f64); 2]| {
        let mut document = real().clone();
        document.experiments.retain(|section| section.id == "cpu.frequency");
        let section = &mut document.experiments[0];
        for (labels, value) in costs {
            let mut metric = section.metrics[0].clone();
            (metric.name, metric.labels, metric.unit) = (name.to_owned(), labels, unit);
            (metric.value, metric.interval95, metric.grade) = (value, [value * 0.98, value * 1.02], Grade::Good);
            (metric.cycles, metric.cycles_interval95, metric.verdict.trust) = (None, None, Trust::Clean);
            section.metrics.push(metric);
        }
        of_figures(&said(&document, &[])).iter().map(|found| found.text.clone()).collect::<Vec<String>>().join("\n")
    };
    let reads = |one: f64, four: f64| {
        let of = |threads| Labels::of([("level", "DRAM"), ("operation", "read"), ("threads", threads)]);
        found(Unit::BytesPerSecond, "memory.bandwidth.rate", [(of("1"), one * 1e9), (of("4"), four * 1e9)])
    };
    let alike = reads(13.0, 13.5);
    assert!(alike.contains("4 CPUs read"), "{alike}");
    assert!(!reads(13.0, 20.0).contains("4 CPUs read"));
    let writes = |small: f64, large: f64| {
        let of = |bytes: &str| {
            let way = [("direction", "send"), ("path", "loopback"), ("placement", "other_cpu"), ("streams", "1")];
            Labels::of(way).with("ip", 4).with("bytes", bytes)
        };
        let rates = [(of("16384"), small * 1e9), (of("131072"), large * 1e9)];
        found(Unit::BytesPerSecond, "network.bandwidth.rate", rates)
    };
    let slower = writes(5.0, 3.0);
    assert!(slower.contains("5.00 GB/s with writes of 16 KiB, and only 3.00 GB/s with writes of 128 KiB"), "{slower}");
    assert!(!writes(3.0, 5.0).contains("with writes of"));
    assert!(!writes(5.0, 4.8).contains("with writes of"));
    let sleeps = |late: f64| {
        let of = |slack| Labels::of([("requested", "100000"), ("quantile", "p50"), ("slack", slack)]);
        found(Unit::Nanoseconds, "os.sleep.oversleep", [(of("default"), late), (of("least"), late / 10.0)])
    };
    assert!(sleeps(90_000.0).contains("A sleep of 100 µs ends 90"), "{}", sleeps(90_000.0));
    assert!(!sleeps(45_000.0).contains("A sleep of"));
    let channels = |socket: f64| {
        let of = |through| Labels::of([("bytes", "1"), ("through", through)]);
        found(Unit::Nanoseconds, "os.channel.time", [(of("pipe"), 400.0), (of("unix_stream"), socket)])
    };
    assert!(channels(900.0).contains("times as long as through a pipe"), "{}", channels(900.0));
    assert!(!channels(500.0).contains("through a pipe"));
    let writes = |how: &str, quantile: &str, time: f64| (Labels::of([("how", how), ("quantile", quantile)]), time);
    let early = |direct: f64| {
        let pair = [writes("direct", "p50", direct), writes("overwrite_fdatasync", "p50", 20_000.0)];
        found(Unit::Nanoseconds, "file.write.time", pair)
    };
    assert!(early(40_000.0).contains("fdatasync does not wait for the disk"), "{}", early(40_000.0));
    assert!(!early(22_000.0).contains("does not wait"), "{}", early(22_000.0));
    let log = |slow: f64| {
        let pair = [writes("overwrite_fdatasync", "p50", 50_000.0), writes("overwrite_fdatasync", "p99", slow)];
        found(Unit::Nanoseconds, "file.write.time", pair)
    };
    for (slow, told, not_told) in
        [(9.7e6, "fast enough for etcd", "too slow"), (10.3e6, "too slow for etcd", "fast enough")]
    {
        assert!(log(slow).contains(told) && !log(slow).contains(not_told), "{}", log(slow));
    }
    // The interval has both sides.
    assert!(!log(10e6).contains("etcd"), "{}", log(10e6));
    let clocks = |read: f64| {
        let of = |method| Labels::of([("method", method)]);
        let costs = [(of("clock_gettime"), read), (of("clock_gettime_syscall"), 100.0)];
        found(Unit::Nanoseconds, "cpu.timer.overhead", costs)
    };
    assert!(clocks(90.0).contains("Reading the clock takes 90"), "{}", clocks(90.0));
    assert!(!clocks(40.0).contains("Reading the clock"));
}
