//! Whole runs on the made machine, through the conductor: rounds, predictions, time limit and stopping rule are those of a real run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use sysdyno::testing::conduct::directory::RunDirectory;
use sysdyno::testing::conduct::interrupt::Interrupt;
use sysdyno::testing::conduct::launch::Ended;
use sysdyno::testing::conduct::{Host, Recording, run_on};
use sysdyno::testing::experiments;
use sysdyno::testing::machine::{self, Machine};
use sysdyno::testing::report::screen;
use sysdyno::testing::results::document::{Document, Grade, Outcome};
use sysdyno::testing::results::evidence::Evidence;
use sysdyno::testing::results::log::{self, Header, Launch, Log, Record};
use sysdyno::testing::results::own_prediction::OwnPredictions;
use sysdyno::testing::results::problem::Problem;
use sysdyno::testing::results::quantity::Unit;
use sysdyno::testing::results::series::Series;
use sysdyno::testing::rig::request::Request;
use sysdyno::testing::setup::{Profile, Setup};
use sysdyno::testing::{assemble, plan};

use super::calibration::{Hour, Noise};
use super::truths::truth_of;
use super::{Costs, description, in_parallel, recorded, spread, ticks_per_cycle};
use crate::report_truth::assert_true;
use crate::support::runs::{output, text};
use crate::support::trees::{MACHINES, tree};

/// Launches of a large experiment that together have all of its series.
const PARTS: usize = 2;
/// Series above which a launch has a part of them.
const LARGE: usize = 300;

/// A host whose clock advances by what launches took in a real default run, by their number of batches.
struct MadeHost<'a> {
    described: &'a Log,
    noise: Noise,
    seconds: f64,
    trouble: bool,
}

/// Where a host is in trouble: shares of the launches that die after half of their series, and during which the clock of the core
/// steps. Every second launch of an experiment has its second CPU under another cache.
const DYING: f64 = 0.1;
const STEPPING: f64 = 0.1;
/// What is reported of launches that die.
const DEATH: &str = "a signal ended the launch";
/// Ticks per cycle after a step, in those before it.
const STEP: f64 = 1.03;
/// Times between CPUs under two caches, in those under one.
const BETWEEN_CACHES: f64 = 3.0;
/// How much slower a disk is after two minutes.
const DRIFT: f64 = 0.5;

/// A launch during which the clock of the core steps.
fn step(evidence: &mut Evidence, series: &mut [Series]) {
    evidence.ticks_per_cycle_after = evidence.ticks_per_cycle_after.map(|ticks| ticks * STEP);
    for series in series.iter_mut().filter(|series| series.unit == Unit::Ticks) {
        let middle = series.values.len() / 2;
        for values in [&mut series.values, &mut series.clock] {
            values.iter_mut().skip(middle).for_each(|value| *value *= STEP);
        }
    }
}

/// A launch whose second CPU is under another cache.
fn move_away(series: &mut [Series]) {
    for series in series.iter_mut().filter(|series| !series.lines.is_empty()) {
        series.lines.iter_mut().flatten().for_each(|line| *line *= BETWEEN_CACHES);
        series.values.iter_mut().for_each(|value| *value *= BETWEEN_CACHES);
    }
}

impl MadeHost<'_> {
    /// What trouble makes of a launch.
    fn trouble(&mut self, request: &Request, evidence: &mut Evidence, series: &mut Vec<Series>) -> Ended {
        if request.experiment.starts_with("file.") {
            let slower = 1.0 + DRIFT * self.seconds / 120.0;
            let times = series.iter_mut().filter(|series| series.unit == Unit::Ticks);
            times.flat_map(|series| &mut series.values).for_each(|value| *value *= slower);
        }
        if request.turn.is_multiple_of(2) {
            move_away(series);
        }
        if self.noise.between(0.0, 1.0) < STEPPING {
            step(evidence, series);
        }
        if self.noise.between(0.0, 1.0) < DYING {
            series.truncate(series.len() / 2);
            return Ended::Failed(Problem::new(DEATH));
        }
        Ended::Well
    }
}

impl Host for MadeHost<'_> {
    fn launch(&mut self, request: &Request, _: Duration) -> (Ended, Vec<Record>) {
        let (number, experiment) = (request.launch, request.experiment.clone());
        let launches = || self.described.launches.iter().filter(|launch| launch.experiment == experiment);
        // An experiment without a launch for primitives has whole launches for them.
        let described = launches().find(|launch| launch.first == request.first).or(launches().next()).unwrap();
        let part = f64::from(request.batches) / f64::from(Profile::Default.batches());
        self.seconds += described.seconds.unwrap() * part * self.noise.between(0.9, 1.2);
        let clock = ticks_per_cycle(self.described);
        let parts = if described.series.len() > LARGE { PARTS } else { 1 };
        let now =
            described.series.iter().enumerate().filter(|(index, _)| index % parts == request.turn as usize % parts);
        let mut series: Vec<Series> = now.map(|(_, series)| spread(&experiment, series, clock)).collect();
        for series in &mut series {
            self.noise.disturb(&experiment, series);
        }
        let mut evidence = described.evidence.clone().unwrap();
        let ended = if self.trouble { self.trouble(request, &mut evidence, &mut series) } else { Ended::Well };
        let of_series = |series| Record::Series { launch: number, experiment: experiment.clone(), series };
        let mut records: Vec<Record> = series.into_iter().map(of_series).collect();
        if matches!(ended, Ended::Well) {
            records.push(Record::Evidence { launch: number, experiment, evidence });
        }
        (ended, records)
    }

    fn elapsed(&self) -> f64 {
        self.seconds
    }
}

/// A host that repeats the launches of a real run, in their order and with the time that they took.
struct ReplayedHost<'a> {
    run: &'a Log,
    /// Launches made of each experiment.
    made: BTreeMap<String, usize>,
    seconds: f64,
}

impl Host for ReplayedHost<'_> {
    fn launch(&mut self, request: &Request, _: Duration) -> (Ended, Vec<Record>) {
        let of_experiment = |launch: &&Launch| launch.succeeded() && launch.experiment == request.experiment;
        let mut launches: Vec<&Launch> = self.run.launches.iter().filter(of_experiment).collect();
        // An experiment without a launch for primitives has whole launches for them.
        if launches.iter().any(|launch| launch.first == request.first) {
            launches.retain(|launch| launch.first == request.first);
        }
        let made = self.made.entry(format!("{} {}", request.experiment, request.first)).or_default();
        let launch = launches[*made % launches.len()];
        *made += 1;
        self.seconds += launch.seconds.unwrap();
        let (number, experiment) = (request.launch, request.experiment.clone());
        let of_series =
            |series: &Series| Record::Series { launch: number, experiment: experiment.clone(), series: series.clone() };
        let mut records: Vec<Record> = launch.series.iter().map(of_series).collect();
        let evidence = launch.evidence.clone().unwrap();
        records.push(Record::Evidence { launch: number, experiment, evidence });
        (Ended::Well, records)
    }

    fn elapsed(&self) -> f64 {
        self.seconds
    }
}

/// Conducts a run without a selection on a host that is like the one of a log.
fn conducted(place: &Path, like: &Log, host: &mut dyn Host, profile: Profile, seed: u64) -> Document {
    conducted_with(place, like, host, (profile, &[]), seed, None)
}

/// The same with a selection, and with the predictions of a person.
fn conducted_with(
    place: &Path,
    like: &Log,
    host: &mut dyn Host,
    (profile, words): (Profile, &[&str]),
    seed: u64,
    own_predictions: Option<OwnPredictions>,
) -> Document {
    let mut setup = Setup::logged(like);
    (setup.profile, setup.seed, setup.room) = (profile, seed, Ok(1 << 40));
    let is_there = |id: &str| like.launches.iter().any(|launch| launch.experiment == id && launch.succeeded());
    // Not every log of an older method has figures for this build.
    let is_read = |known: &&experiments::Experiment| {
        like.steps.iter().all(|step| step.experiment != known.id || known.analyses(step.method_version))
    };
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    let selected = plan::select_for_run(&words, profile).unwrap();
    let known: Vec<_> = selected.into_iter().filter(|known| is_there(known.id)).filter(is_read).collect();
    let plan = plan::plan(&known, &setup, None).unwrap();
    let header = Header { seed, profile: setup.profile.name().to_owned(), ..like.header.clone() };
    let (directory, writer) = RunDirectory::create(place, &header).unwrap();
    let recording = Recording { directory, writer, resumed: None, history: None, own_predictions };
    let clock = like.clock.clone().unwrap();
    run_on(host, &setup, &plan, clock, recording, &Interrupt::watch().unwrap()).unwrap().document
}

fn good_share(document: &Document) -> f64 {
    let headline = || document.metrics().filter(|metric| metric.headline);
    headline().filter(|metric| metric.grade == Grade::Good).count() as f64 / headline().count() as f64
}

/// Seconds until so many of the headline results are good, at the end of a round.
fn seconds_until(log: &Log, share: f64) -> Option<f64> {
    let until = |round: u32| {
        let mut log = log.clone();
        log.launches.retain(|launch| launch.round <= round);
        log
    };
    let rounds: Vec<u32> = (1..=log.rounds).collect();
    // Rounds seldom make fewer results good.
    let before = rounds.partition_point(|round| good_share(&assemble::document(&until(*round))) < share);
    let log = until(*rounds.get(before)?);
    Some(log.launches.iter().filter_map(|launch| launch.seconds).sum())
}

fn resolved_share(document: &Document) -> f64 {
    let headline = || document.metrics().filter(|metric| metric.headline);
    headline().filter(|metric| metric.grade != Grade::Unresolved).count() as f64 / headline().count() as f64
}

/// A row of the table of whole runs.
fn row(name: &str, document: &Document, place: &Path, predictions: &str) -> String {
    let log = log::read(&RunDirectory::open(place).unwrap().log()).unwrap();
    let until = seconds_until(&log, 0.8).map_or("–".to_owned(), |seconds| format!("{seconds:.0} s"));
    let [good, resolved] = [good_share(document), resolved_share(document)].map(|share| share * 100.0);
    format!("| {name} | {:.0} s | {until} | {good:.0} % | {resolved:.0} % | {predictions} |", log.seconds)
}

/// Seeds of the whole runs: 1, and more where rules of the budget are compared.
fn seeds() -> u64 {
    std::env::var("SYSDYNO_SEEDS").map_or(1, |seeds| seeds.parse().unwrap())
}

#[test]
fn a_run_on_the_made_machine_measures_everything_in_its_time() {
    let place = tempfile::tempdir().unwrap();
    let mut rows = vec![
        "| run | time | 80 % of the headline results are good after | good at the end | resolved | predictions that hold the truth |"
            .to_owned(),
        "| --- | --: | --: | --: | --: | --: |".to_owned(),
    ];
    let profiles = [(Profile::Default, "default"), (Profile::Quick, "quick")];
    let mut of_made = |hour: Hour, profile: Profile, name: &str, least_good: f64, seed: u64| {
        let mut host =
            MadeHost { described: description(), noise: Noise::of(hour, seed), seconds: 0.0, trouble: false };
        let place = place.path().join(format!("{name} {seed}"));
        let document = conducted(&place, description(), &mut host, profile, seed);
        assert!(document.run.complete, "{}", document.run.ended);
        for section in &document.experiments {
            assert!(section.outcome == Outcome::Measured, "{}: {:?}", section.id, section.reason);
        }
        assert!(good_share(&document) >= least_good, "{name}: {}", good_share(&document));
        let (mut predicted, mut right) = (0, 0);
        for section in &document.experiments {
            let costs = Costs::of(description(), &section.id);
            for metric in &section.metrics {
                let Some((truth, prediction)) = truth_of(&costs, metric).zip(metric.prediction.as_ref()) else {
                    continue;
                };
                predicted += 1;
                right += u32::from((prediction.low..=prediction.high).contains(&truth));
            }
        }
        assert!(f64::from(right) >= 0.8 * f64::from(predicted), "{name}: {right} of {predicted}");
        let share = 100.0 * f64::from(right) / f64::from(predicted);
        rows.push(row(name, &document, &place, &format!("{share:.0} % of {predicted}")));
    };
    for (hour, hour_name, least_good) in [(Hour::Calm, "calm", [0.8, 0.0]), (Hour::Busy, "busy", [0.4, 0.0])] {
        for ((profile, profile_name), least_good) in profiles.into_iter().zip(least_good) {
            for seed in 1..=seeds() {
                of_made(hour, profile, &format!("made, {hour_name}, {profile_name}"), least_good, seed);
            }
        }
    }
    for (name, run) in real_runs() {
        for (profile, profile_name) in profiles {
            for seed in 0..seeds() {
                let mut host = ReplayedHost { run: &run, made: BTreeMap::new(), seconds: 0.0 };
                let name = format!("{name}, {profile_name}");
                let place = place.path().join(format!("{name} {seed}"));
                let document = conducted(&place, &run, &mut host, profile, run.header.seed + seed);
                assert!(document.run.complete, "{name}: {}", document.run.ended);
                let bytes: u64 =
                    fs::read_dir(&place).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
                assert!(bytes < 3_000_000, "{name}: the run directory has {bytes} bytes");
                let measured = document.experiments.iter().filter(|section| section.outcome == Outcome::Measured);
                let least = if profile.is_quick() { 8 } else { 12 };
                assert!(measured.count() >= least, "{name}: too many methods are older, record another run");
                rows.push(row(&name, &document, &place, "–"));
            }
        }
    }
    recorded("runs", &rows);
}

#[test]
fn trouble_makes_no_wrong_result_good() {
    let place = tempfile::tempdir().unwrap();
    let noise = Noise::of(Hour::Calm, 3);
    let mut host = MadeHost { described: description(), noise, seconds: 0.0, trouble: true };
    let document = conducted(&place.path().join("run"), description(), &mut host, Profile::Default, 3);
    assert!(document.run.complete, "{}", document.run.ended);
    let (mut good, mut wrong) = (0, Vec::new());
    for section in &document.experiments {
        let says_why = || section.reason.as_ref().is_some_and(|reason| reason.contains(DEATH));
        assert!(section.outcome == Outcome::Measured || says_why(), "{}: {:?}", section.id, section.reason);
        let costs = Costs::of(description(), &section.id);
        for metric in section.metrics.iter().filter(|metric| metric.grade == Grade::Good) {
            let distance = metric.labels.get("distance").map(str::to_owned);
            let mut near = metric.clone();
            near.labels = metric.labels.without("distance");
            let Some(truth) = truth_of(&costs, &near) else { continue };
            // What a share of the network leaves away depends on the distance, and the network does not.
            if distance.is_some() && metric.name.ends_with("network_share") {
                continue;
            }
            // A rate falls while a time rises.
            let drift = if section.chapter == "file" { 1.0 + DRIFT } else { 1.0 };
            let truth = truth * if distance.as_deref() == Some("far") { BETWEEN_CACHES } else { 1.0 };
            let half = (metric.interval95[1] - metric.interval95[0]).max(0.01 * metric.value);
            good += 1;
            if !(truth / drift - half..=truth * drift + half).contains(&metric.value) {
                wrong.push(format!("{} is {}, not {truth}", metric.title(), metric.value));
            }
        }
    }
    recorded("trouble", &[format!("{good} results are good. {} of them are not the truth.", wrong.len())]);
    assert!(good > 200, "{good} results are good");
    assert!(wrong.len() * 100 <= good, "{} of {good}: {}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_verdict_names_a_cost_that_is_unusual_for_the_kind() {
    let place = tempfile::tempdir().unwrap();
    let verdict = |name: &str, times: f64| {
        let mut described = description().clone();
        let signals = described.launches.iter_mut().filter(|launch| launch.experiment == "os.signal");
        for value in signals.flat_map(|launch| &mut launch.series).flat_map(|series| &mut series.values) {
            *value *= times;
        }
        let noise = Noise::of(Hour::Calm, 4);
        let mut host = MadeHost { described: &described, noise, seconds: 0.0, trouble: false };
        let place = place.path().join(name);
        let document = conducted(&place, &described, &mut host, Profile::Default, 4);
        assert!(document.expectations.len() > 20);
        let words =
            text(&output(&["report", place.to_str().unwrap(), "--format", "summary"]).stdout).replace('\n', " ");
        (words, document)
    };
    let (usual, mut document) = verdict("usual", 1.0);
    assert!(usual.contains("Usual for AMD Zen") && !usual.contains("slower: "), "{usual}");
    for metric in document.experiments.iter_mut().flat_map(|section| &mut section.metrics) {
        metric.grade = Grade::Disturbed;
    }
    let disturbed = screen::verdict(&document);
    assert!(disturbed.starts_with("No cost is known well enough to compare with AMD Zen"), "{disturbed}");
    let (slow, _) = verdict("slow", 4.0);
    assert!(slow.contains(", slower: signal ") && slow.contains(", slow: signal "), "{slow}");
}

/// A quick run of two chapters of the made machine with the predictions of a person.
pub(super) fn quick_run_with(place: &Path, own: OwnPredictions) -> Document {
    let words = ["cpu", "os.system_call", "os.context_switch", "os.signal"];
    let noise = Noise::of(Hour::Calm, 5);
    let mut host = MadeHost { described: description(), noise, seconds: 0.0, trouble: false };
    conducted_with(place, description(), &mut host, (Profile::Quick, &words), 5, Some(own))
}

/// Default runs of real machines, by name: the logs in `tests/made/runs`, which `gzip -9n` made of theirs.
fn real_runs() -> Vec<(String, Log)> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/made/runs");
    let mut logs: Vec<_> = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).collect();
    logs.sort();
    let unpacked = tempfile::tempdir().unwrap();
    let read = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().trim_end_matches(".jsonl.gz").to_owned();
        let output = Command::new("gzip").arg("-dc").arg(path).output().unwrap();
        let whole = unpacked.path().join(&name);
        fs::write(&whole, output.stdout).unwrap();
        (name, log::read(&whole).unwrap())
    };
    logs.iter().map(read).collect()
}

/// The server with two sockets, with 64 cores in each.
fn of_128_cpus() -> Machine {
    let mut machine = serde_json::to_value(machine::detect(&tree("two-socket"), Path::new("/home"))).unwrap();
    let halves = ["0-63", "64-127"];
    let one = machine["cpu"]["logical"][0].clone();
    let cpu = |number: u32| {
        let mut cpu = one.clone();
        cpu["cpu"] = number.into();
        cpu["core_id"] = (number % 64).into();
        cpu["package_id"] = (number / 64).into();
        cpu["numa_node"] = (number / 64).into();
        cpu["siblings"] = number.to_string().into();
        cpu
    };
    machine["cpu"]["logical"] = (0..128).map(cpu).collect();
    machine["cpu"]["count"] = json!([{"value": 128, "source": "/sys/devices/system/cpu/online"}]);
    for cache in machine["caches"].as_array_mut().unwrap() {
        let each: Vec<String> = (0..128).map(|number: u32| number.to_string()).collect();
        cache["instances"] = if cache["level"] == 3 { json!(halves) } else { json!(each) };
    }
    for (node, cpus) in machine["memory"]["nodes"].as_array_mut().unwrap().iter_mut().zip(halves) {
        node["cpus"] = cpus.into();
    }
    machine["limits"]["affinity"] = json!([{"value": "0-127", "source": "sched_getaffinity(2)"}]);
    serde_json::from_value(machine).unwrap()
}

/// The description with the kernel's clock of nanoseconds, which each machine has. It reads later, so batches are longer.
fn by_the_kernels_clock() -> Log {
    let mut log = description().clone();
    let clock = log.clock.as_mut().unwrap();
    let scale = 1e9 / clock.hertz;
    (clock.source, clock.hertz) = ("monotonic_raw".to_owned(), 1e9);
    for launch in &mut log.launches {
        for series in launch.series.iter_mut().filter(|series| series.unit == Unit::Ticks) {
            let longer = if series.classes.0.is_empty() { 1 } else { 4 };
            series.operations *= longer;
            series.values.iter_mut().for_each(|value| *value *= scale * longer as f64);
            series.clock.iter_mut().for_each(|ticks| *ticks *= scale);
        }
        let evidence = launch.evidence.as_mut().unwrap();
        for ticks in [&mut evidence.ticks_per_cycle_before, &mut evidence.ticks_per_cycle_after] {
            *ticks = ticks.map(|ticks| ticks * scale);
        }
    }
    log
}

#[test]
fn other_machines_are_measured_whole() {
    let described = by_the_kernels_clock();
    let place = tempfile::tempdir().unwrap();
    let mut machines = MACHINES.map(|name| (name, machine::detect(&tree(name), Path::new("/home")))).to_vec();
    machines.push(("128-cpus", of_128_cpus()));
    in_parallel(&machines, |(name, machine)| {
        let mut like = described.clone();
        like.machine = machine.clone();
        like.header.cpu = like.machine.usable_cpus().iter().next().unwrap();
        let mut host =
            MadeHost { described: &described, noise: Noise::of(Hour::Calm, 2), seconds: 0.0, trouble: false };
        let place = place.path().join(name);
        let document = conducted_with(&place, &like, &mut host, (Profile::Quick, &experiments::chapters()), 2, None);
        assert!(document.run.complete, "{name}: {}", document.run.ended);
        let mut measured = 0;
        for section in &document.experiments {
            match section.outcome {
                Outcome::Measured => measured += 1,
                Outcome::Skipped => assert!(section.reason.is_some(), "{name}: {}", section.id),
                Outcome::Failed => panic!("{name}: {} failed: {:?}", section.id, section.reason),
            }
        }
        assert!(measured >= 12, "{name}: {measured} experiments are measured");
        for metric in document.metrics() {
            assert!(metric.value.is_finite() && metric.value > 0.0, "{name}: {} is {}", metric.title(), metric.value);
        }
        assert_true(&document, name);
    });
}
