//! Figures of logs that are made up: what an analysis makes of samples whose truth is known.

use std::path::Path;

use sysdyno::testing::assemble;
use sysdyno::testing::experiments;
use sysdyno::testing::results::document::{Block, Document, Grade};
use sysdyno::testing::results::log::{self, Launch, Log, Step};
use sysdyno::testing::results::quantity::{Labels, Unit};
use sysdyno::testing::results::series::{Class, Classes, Series};

/// Operations of a batch.
const OPERATIONS: u64 = 1000;

fn stored() -> Log {
    log::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/complete.jsonl")).unwrap()
}

/// The document of a stored log with launches of one more experiment.
fn made(experiment: &str, launches: Vec<Vec<Series>>) -> Document {
    let mut log = stored();
    let pattern = log.launches.iter().rfind(|launch| launch.succeeded()).unwrap().clone();
    let method_version = experiments::find(experiment).unwrap().method_version;
    let step =
        Step { experiment: experiment.to_owned(), method_version, launches: launches.len() as u32, skipped: None };
    log.steps.push(step);
    for (number, series) in (pattern.number + 1..).zip(launches) {
        log.launches.push(Launch { number, experiment: experiment.to_owned(), series, ..pattern.clone() });
    }
    assemble::document(&log)
}

/// Clean batches of 1000 operations that take so many nanoseconds each.
fn batches(name: &str, labels: Labels, nanoseconds: &[f64]) -> Series {
    let hertz = stored().clock.unwrap().hertz;
    let ticks = nanoseconds.iter().map(|one| one * OPERATIONS as f64 * hertz / 1e9).collect();
    let classes = Classes(vec![Class::Clean; nanoseconds.len()]);
    Series { classes, operations: OPERATIONS, ..Series::plain(name, labels, Unit::Ticks, ticks) }
}

/// What a document says of an experiment.
fn text(document: &Document, experiment: &str) -> String {
    let section = document.experiments.iter().find(|section| section.id == experiment).unwrap();
    let paragraph = |block: &Block| if let Block::Paragraph(text) = block { Some(text.clone()) } else { None };
    section.analysis.iter().filter_map(paragraph).collect::<Vec<String>>().join("\n")
}

/// The shares of launches in which a neighbour was on the core, and the lengths of its visits.
fn sharing(launches: &[(f64, &[f64])]) -> Document {
    let of = |state: &str| Labels::of([("beside", "others"), ("state", state)]);
    let launch = |(share, visits): &(f64, &[f64])| {
        let looks = vec![(1.0 - share) * 20_000.0, share * 20_000.0, 100.0];
        let looks = Series::plain("looks", Labels::of([("beside", "others")]), Unit::One, looks);
        vec![looks, Series::plain("stretch", of("shared"), Unit::Nanoseconds, visits.to_vec())]
    };
    made("cpu.sharing", launches.iter().map(launch).collect())
}

#[test]
fn the_share_of_a_neighbour_is_as_good_as_its_interval() {
    let shared = Labels::of([("beside", "others"), ("state", "shared")]);
    let grade = |shares: [f64; 8]| {
        let launches = shares.map(|share| (share, &[2e3][..]));
        sharing(&launches).metric("cpu.sharing.share", &shared).unwrap().grade
    };
    assert_eq!(grade([0.5, 0.51, 0.49, 0.5, 0.52, 0.48, 0.5, 0.5]), Grade::Good);
    assert_eq!(grade([0.0, 0.9, 0.0, 0.8, 0.01, 0.0, 0.7, 0.15]), Grade::Unresolved);
}

#[test]
fn one_launch_with_most_visits_does_not_decide_how_long_they_last() {
    let (many, few) = ([2e3; 130], [50e3; 5]);
    let mut launches = vec![(0.5, &few[..]); 9];
    launches.push((0.5, &many));
    let median = Labels::of([("beside", "others"), ("quantile", "p50"), ("state", "shared")]);
    let document = sharing(&launches);
    let found = document.metric("cpu.sharing.stretch", &median).unwrap();
    assert_eq!((found.value, found.launches), (50e3, 10));
}

/// Launches of a loaded latency, with the time of a cache line to the other CPU and those of a load.
fn loaded(launches: &[(f64, [f64; 3])]) -> Document {
    let launch = |(line, times): &(f64, [f64; 3])| {
        let of = |(load, time): (&str, &f64)| {
            let labels = Labels::of([("load", load)]);
            let lines = Series::plain("chase.lines", labels.clone(), Unit::Nanoseconds, vec![*line; 2]);
            [batches("chase", labels, &[*time; 8]), lines]
        };
        let traffic =
            |load| Series::plain("load", Labels::of([("load", load)]), Unit::BytesPerSecond, vec![line * 1e8]);
        let chases = ["idle", "half", "full"].into_iter().zip(times).flat_map(of);
        let about = Labels::of([("load", "idle"), ("pages", "huge")]);
        let footprint = Series::plain("footprint", about, Unit::Bytes, vec![1e12]);
        chases.chain([traffic("half"), traffic("full"), footprint]).collect()
    };
    made("memory.loaded_latency", launches.iter().map(launch).collect())
}

#[test]
fn loads_under_traffic_are_compared_at_one_distance() {
    let scatter = |index: usize| 1.0 + 0.002 * (index % 5) as f64;
    let near = |index: usize| (30.0 * scatter(index), [168.0, 200.0, 280.0].map(|time| time * scatter(index)));
    let far = |index: usize| (150.0 * scatter(index), [168.0, 168.0, 169.0].map(|time| time * scatter(index)));
    let both: Vec<_> = (0..9).map(near).chain((0..9).map(far)).collect();
    let document = loaded(&both);
    let value = |distance: &str| {
        let labels = Labels::of([("load", "full"), ("distance", distance)]);
        let found = document.metric("memory.loaded_latency.time", &labels);
        found.unwrap_or_else(|| panic!("no result {distance}")).value
    };
    assert!((value("near") / 281.0 - 1.0).abs() < 0.01 && (value("far") / 169.5 - 1.0).abs() < 0.01);
    let said = text(&document, "memory.loaded_latency");
    assert!(said.contains("While the other CPUs (near) read 3.01 GB/s, a load takes 281 ns, 1.7 times"), "{said}");
    assert!(said.contains("While the other CPUs (far) read 15.1 GB/s") && said.contains(" is not resolved."), "{said}");
    // CPUs that stay together have no label.
    let document = loaded(&(0..9).map(near).collect::<Vec<_>>());
    assert!(document.metric("memory.loaded_latency.time", &Labels::of([("load", "full")])).is_some());
    assert!(!text(&document, "memory.loaded_latency").contains("(near)"));
}

#[test]
fn no_point_of_a_curve_is_left_out_for_its_value() {
    // The sum alone takes as long as within the handoff, give or take what no launch resolves, and once far more.
    let sets = [0, 4 << 10, 16 << 10, 64 << 10, 256 << 10];
    let section = |last: f64| {
        let launch = |index: usize| {
            sets.iter()
                .enumerate()
                .flat_map(|(set, bytes)| {
                    let sum = 1e3 * set as f64;
                    let off = [0.0, -100.0, 100.0, -400.0, last][set] + index as f64;
                    let ring = Labels::of([("processes", "2")]).with("working_set", bytes);
                    let alone = Labels::of([("processes", "1")]).with("working_set", bytes);
                    [batches("hop", ring, &[9e3 + sum + off; 8]), batches("own", alone, &[5e3 + sum; 8])]
                })
                .collect()
        };
        let document = made("os.context_switch", (0..9).map(launch).collect());
        let said = text(&document, "os.context_switch");
        assert!(said.contains("3 points are below the switch without data"), "{said}");
        let section = document.experiments.into_iter().find(|section| section.id == "os.context_switch").unwrap();
        section.series.into_iter().find(|curve| curve.name == "os.context_switch.by_working_set")
    };
    let curve = section(-1900.0).unwrap();
    let costs: Vec<f64> = curve.points.iter().map(|point| point[1].round()).collect();
    assert_eq!(costs, [4004.0, 3904.0, 4104.0, 3604.0, 2104.0]);
    // Data cannot make a switch twice as fast.
    assert!(section(-9e3).is_none() && section(-2100.0).is_none());
}

#[test]
fn a_fault_that_clears_memory_names_how_much() {
    let launch = |index: usize| {
        let kind = |kind: &str, nanoseconds: f64| {
            let labels = Labels::of([("kind", kind)]);
            let counted = |name: &str| Series::plain(name, labels.clone(), Unit::One, vec![OPERATIONS as f64]);
            let faults = batches("fault", labels.clone(), &[nanoseconds + index as f64; 8]);
            [faults, counted("faults"), counted("pages")]
        };
        [kind("anonymous_write", 1200.0), kind("anonymous_read", 700.0), kind("copy_on_write", 1600.0)].concat()
    };
    let document = made("memory.page_fault", (0..9).map(launch).collect());
    let footprint = |kind: &str| {
        let found = document.metric("memory.page_fault.time", &Labels::of([("kind", kind)])).unwrap();
        found.labels.get("footprint").map(str::to_owned)
    };
    let found = ["anonymous_write", "anonymous_read", "copy_on_write"].map(footprint);
    assert_eq!(found, [Some("4000KiB".to_owned()), None, Some("8000KiB".to_owned())]);
}
