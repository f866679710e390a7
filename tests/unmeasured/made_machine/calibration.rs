//! How often intervals, grades and comparisons are right, over a thousand made runs in calm and busy hours.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::Value;

use crate::support::runs::{output, text, told};
use sysdyno::testing::assemble;
use sysdyno::testing::experiments;
use sysdyno::testing::report::compact;
use sysdyno::testing::results::document::{Grade, Metric};
use sysdyno::testing::results::log::Log;
use sysdyno::testing::results::quantity::Unit;
use sysdyno::testing::results::series::{Class, Series};

use super::truths::truth_of;
use super::{Costs, description, in_parallel, recorded, run};

/// Made runs.
const RUNS: u64 = 1000;
/// Series of each chapter that are evaluated: all of an experiment, or those whose labels include these.
const SERIES: [(&str, &[(&str, &str)]); 10] = [
    ("cpu.frequency", &[]),
    ("cpu.loop", &[]),
    ("os.system_call", &[("call", "enosys"), ("call", "getppid"), ("call", "getcwd")]),
    ("os.thread_creation", &[("how", "create")]),
    ("os.signal", &[]),
    ("memory.bandwidth", &[("operation", "read")]),
    ("memory.page_fault", &[("kind", "anonymous_write"), ("kind", "file_cached")]),
    ("network.connection", &[("placement", "same_cpu")]),
    ("network.bandwidth", &[("streams", "1")]),
    ("file.read", &[("bytes", "16777216")]),
];
/// Standard deviation from launch to launch, and from batch to batch.
const BETWEEN_LAUNCHES: f64 = 0.002;
const BETWEEN_BATCHES: f64 = 0.002;
/// Part of a deviation that the next batch has, too.
const REMEMBERED: f64 = 0.5;
/// Probability that something delays a batch, by up to its own time.
const TAIL: f64 = 0.02;
/// Probability that the kernel takes the CPU from a batch, and that it counts this.
const PREEMPTED: f64 = 0.005;
/// What a neighbour on the core costs, and the cycles of a turn of the shortest loop beside it.
const BESIDE: f64 = 1.3;
const TURN_BESIDE: f64 = 1.4;
/// Probability that a neighbour of a busy hour comes or goes between two batches.
const COMES_OR_GOES: f64 = 0.1;

/// How busy the host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hour {
    Calm,
    Busy,
}

/// The standard deviation from run to run of each experiment: half of the least that its results state.
fn between_runs() -> &'static BTreeMap<String, f64> {
    static FOUND: OnceLock<BTreeMap<String, f64>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let least = |metrics: &[Metric]| {
            let stated = metrics.iter().map(|metric| metric.between_share).filter(|share| *share > 0.0);
            stated.reduce(f64::min).unwrap_or(0.0) / 2.0
        };
        assemble::figures(&run(description()))
            .iter()
            .map(|section| (section.id.clone(), least(&section.metrics)))
            .collect()
    })
}

/// What an hour does to the batches of a run.
pub struct Noise {
    random: fastrand::Rng,
    hour: Hour,
    /// Deviation of this run from others, by experiment and labels: what takes longer does so in each of its series.
    of_runs: BTreeMap<String, f64>,
}

impl Noise {
    pub fn of(hour: Hour, seed: u64) -> Self {
        Noise { random: fastrand::Rng::with_seed(seed), hour, of_runs: BTreeMap::new() }
    }

    /// A number between two others.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random.f64()
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.random.f64()).sum::<f64>() - 6.0
    }

    /// The deviation of a series in this run.
    fn of_run(&mut self, experiment: &str, series: &Series) -> f64 {
        let deviation = between_runs().get(experiment).copied().unwrap_or(0.0) * self.normal();
        *self.of_runs.entry(format!("{experiment} {}", series.labels)).or_insert(deviation)
    }

    /// Adds what the hour does to the series of a launch.
    pub fn disturb(&mut self, experiment: &str, series: &mut Series) {
        if series.values.len() < 2 || [Unit::One, Unit::Bytes].contains(&series.unit) {
            return;
        }
        let of_launch = self.of_run(experiment, series) + BETWEEN_LAUNCHES * self.normal();
        let mut remembered = 0.0;
        let mut beside = self.hour == Hour::Busy && self.random.bool();
        for index in 0..series.values.len() {
            remembered = REMEMBERED * remembered + BETWEEN_BATCHES * self.normal();
            let mut factor = 1.0 + of_launch + remembered;
            if self.random.f64() < TAIL {
                factor *= 1.0 + self.random.f64();
            }
            beside ^= self.hour == Hour::Busy && self.random.f64() < COMES_OR_GOES;
            // What a neighbour costs where nothing looks is a part of the truth.
            if let Some(width) = series.widths.get_mut(index).filter(|_| beside) {
                factor *= BESIDE;
                *width = [TURN_BESIDE; 2];
            }
            if !series.classes.0.is_empty() && self.random.f64() < PREEMPTED {
                factor *= 3.0;
                series.classes.0[index] = Class::Preempted;
            }
            series.values[index] *= factor;
        }
    }
}

/// The log of a run in an hour of one kind.
fn noisy(description: &Log, hour: Hour, seed: u64) -> Log {
    let mut noise = Noise::of(hour, seed);
    let mut log = run(description);
    for launch in &mut log.launches {
        launch.series.iter_mut().for_each(|series| noise.disturb(&launch.experiment, series));
    }
    log
}

/// The series that are evaluated here.
fn described() -> Log {
    let mut log = description().clone();
    let wanted = |id: &str| SERIES.iter().find(|(experiment, _)| *experiment == id).map(|(_, labels)| *labels);
    log.launches.retain(|launch| wanted(&launch.experiment).is_some());
    log.steps.retain(|step| wanted(&step.experiment).is_some());
    for launch in &mut log.launches {
        let labels = wanted(&launch.experiment).unwrap_or_default();
        let of = |series: &Series| labels.iter().any(|(key, value)| series.labels.get(key) == Some(*value));
        launch.series.retain(|series| labels.is_empty() || of(series));
    }
    log
}

/// How often something was so, of how many.
#[derive(Debug, Default, Clone, Copy)]
struct Share(u64, u64);

impl Share {
    fn count(&mut self, is_so: bool) {
        self.0 += u64::from(is_so);
        self.1 += 1;
    }

    fn and(&mut self, other: Share) {
        self.0 += other.0;
        self.1 += other.1;
    }

    fn value(self) -> f64 {
        self.0 as f64 / self.1.max(1) as f64
    }
}

impl fmt::Display for Share {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:.2} % of {}", self.value() * 100.0, self.1)
    }
}

/// What the results of some runs show.
#[derive(Debug, Default)]
struct Found {
    /// Intervals that hold the truth, by chapter.
    holding: BTreeMap<String, Share>,
    /// Good results within what is asked of them.
    within: Share,
    /// Results of busy hours that are good, and further from the truth than twice their interval.
    far_and_good: Share,
}

impl Found {
    fn of(described: &Log, hour: Hour, seed: u64) -> Found {
        let mut found = Found::default();
        for section in assemble::figures(&noisy(described, hour, seed)) {
            let costs = Costs::of(described, &section.id);
            let target = experiments::find(&section.id).unwrap().precision.target;
            for metric in &section.metrics {
                let Some(truth) = truth_of(&costs, metric) else { continue };
                found.note(&section.chapter, hour, metric, truth, target);
            }
        }
        found
    }

    fn note(&mut self, chapter: &str, hour: Hour, metric: &Metric, truth: f64, target: f64) {
        let holds = (metric.interval95[0]..=metric.interval95[1]).contains(&truth);
        let is_good = metric.grade == Grade::Good;
        if hour == Hour::Busy {
            let half = (metric.interval95[1] - metric.interval95[0]) / 2.0;
            self.far_and_good.count(is_good && (metric.value - truth).abs() > 2.0 * half);
        }
        if is_good {
            self.holding.entry(chapter.to_owned()).or_default().count(holds);
            self.within.count((metric.value / truth - 1.0).abs() <= target);
        }
    }

    fn and(mut self, other: Found) -> Found {
        for (chapter, share) in other.holding {
            self.holding.entry(chapter).or_default().and(share);
        }
        self.within.and(other.within);
        self.far_and_good.and(other.far_and_good);
        self
    }
}

#[test]
fn intervals_and_grades_hold_what_they_say_over_a_thousand_runs() {
    let described = described();
    let seeds: Vec<u64> = (0..RUNS).collect();
    let found = in_parallel(&seeds, |&seed| {
        let hour = if seed.is_multiple_of(2) { Hour::Calm } else { Hour::Busy };
        Found::of(&described, hour, seed)
    });
    let found = found.into_iter().fold(Found::default(), Found::and);
    let of_chapter = |(chapter, share): (&String, &Share)| {
        format!("| 95 % intervals of good results that hold the truth: {chapter} | {share} | at least 93 % |")
    };
    let mut rows = vec!["| of all runs | found | limit |".to_owned(), "| --- | --: | --: |".to_owned()];
    rows.extend(found.holding.iter().map(of_chapter));
    rows.push(format!("| good results within what is asked of them | {} | at least 95 % |", found.within));
    rows.push(format!(
        "| results of busy hours that are good, and further from the truth than twice their interval | {} | at most 1 % |",
        found.far_and_good
    ));
    recorded("calibration", &rows);
    for (chapter, share) in &found.holding {
        assert!((0.93..=1.0).contains(&share.value()), "{chapter}: {share:?}");
    }
    assert!(found.within.value() >= 0.95, "{:?}", found.within);
    assert!(found.far_and_good.value() <= 0.01, "{:?}", found.far_and_good);
}

/// Pairs of runs that are compared.
const PAIRS: u64 = 40;
/// The experiment whose operations take longer in some runs.
const SLOWER: &str = "os.signal";

/// Writes what a run found, where the operations of one experiment take so many times as long.
fn write(described: &Log, place: &Path, seed: u64, times: f64) {
    let hour = if seed.is_multiple_of(2) { Hour::Calm } else { Hour::Busy };
    let mut log = noisy(described, hour, seed);
    let slower = log.launches.iter_mut().filter(|launch| launch.experiment == SLOWER);
    let batches = slower.flat_map(|launch| &mut launch.series).flat_map(|series| &mut series.values);
    batches.for_each(|value| *value *= times);
    log.header.id = format!("made-20260101T{:06}Z", 2 * seed + u64::from(times > 1.0));
    log.header.identity = serde_json::from_value(serde_json::json!({ "node": "made" })).unwrap();
    std::fs::write(place, compact::render(&assemble::document(&log)).unwrap()).unwrap();
}

/// The results of a comparison.
fn compared(base: &Path, new: &Path) -> Vec<Value> {
    let found = output(&["compare", base.to_str().unwrap(), new.to_str().unwrap(), "--format", "json"]);
    let comparison: Value = serde_json::from_str(&text(&found.stdout)).unwrap_or_else(|_| panic!("{}", told(&found)));
    comparison["rows"].as_array().unwrap().clone()
}

fn is_changed(row: &Value) -> bool {
    ["worse", "better"].contains(&row["finding"].as_str().unwrap())
}

#[test]
fn comparisons_find_what_was_planted_and_nothing_else() {
    let described = described();
    let place = tempfile::tempdir().unwrap();
    let pairs: Vec<u64> = (0..PAIRS).collect();
    let found = in_parallel(&pairs, |pair| {
        let at = |name: &str| place.path().join(format!("{pair}-{name}.json"));
        let (seed, other) = (2 * pair, 2 * (pair + PAIRS));
        write(&described, &at("base"), seed, 1.0);
        write(&described, &at("new"), other, 1.0);
        let rows = compared(&at("base"), &at("new"));
        let headline = || rows.iter().filter(|row| row["headline"] == true);
        let of_slower =
            |rows: &[Value]| -> Vec<Value> { rows.iter().filter(|row| row["experiment"] == SLOWER).cloned().collect() };
        let threshold = of_slower(&rows)[0]["threshold"].as_f64().unwrap();
        write(&described, &at("slower"), other, 1.0 + 2.0 * threshold);
        let slower = of_slower(&compared(&at("base"), &at("slower")));
        let worse = slower.iter().filter(|row| row["finding"] == "worse").count() as u64;
        (
            Share(headline().filter(|row| is_changed(row)).count() as u64, headline().count() as u64),
            Share(worse, slower.len() as u64),
        )
    });
    let (mut false_alarms, mut planted) = (Share::default(), Share::default());
    for (alarms, found) in found {
        false_alarms.and(alarms);
        planted.and(found);
    }
    let rows = [
        "| compared | found | limit |".to_owned(),
        "| --- | --: | --: |".to_owned(),
        format!(
            "| headline results that a comparison of a machine with itself calls changed | {false_alarms} | at most 1 % |"
        ),
        format!("| changes of twice the threshold that a comparison finds | {planted} | at least 90 % |"),
    ];
    recorded("comparisons", &rows);
    assert!(false_alarms.value() <= 0.01, "{false_alarms:?}");
    assert!(planted.value() >= 0.9, "{planted:?}");
}
