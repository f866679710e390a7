//! Each rule for results fails on a machine or in a run that breaks it.
//!
//! `tests/made/breakers.txt` has a line for each rule: its path, and a change of the made log after which it fails.
//! `SYSDYNO_WRITE_BREAKERS=1` looks for changes that are missing. It takes minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use sysdyno::testing::assemble;
use sysdyno::testing::experiments::catalogue;
use sysdyno::testing::results::document::Document;
use sysdyno::testing::results::evidence::{Evidence, Remark};
use sysdyno::testing::results::log::{Launch, Log};
use sysdyno::testing::results::prediction::Prediction;
use sysdyno::testing::results::quantity::{Labels, Unit};
use sysdyno::testing::results::series::{Class, Classes, Series};

use super::{description, in_parallel, recorded, run};

/// Which launches of an experiment are changed, and how.
#[derive(Debug, Clone, PartialEq)]
struct Change {
    experiment: String,
    of: Changed,
}

#[derive(Debug, Clone, PartialEq)]
enum Changed {
    /// Series of a name whose labels include these.
    Series(String, Labels, Bend),
    /// A field of the evidence of all launches, or of every second one.
    Evidence(String, serde_json::Value, u32),
    Remark(String, String),
    /// A series of this unit with these values that the described run does not have.
    Made(Unit, String, Labels, Vec<f64>),
    /// A fact of the machine description, by JSON pointer.
    Machine(String, serde_json::Value),
    /// So many launches succeed.
    Launches(u32),
    /// A result with these labels was predicted.
    Predicted(String, Labels),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Bend {
    Times(f64),
    /// Every second launch takes so many times as long.
    Launches(f64),
    /// Every second batch takes so many times as long.
    Batches(f64),
    /// The last batch takes so many times as long as the first.
    Rising(f64),
    /// A tenth of the batches take so many times as long.
    Tail(f64),
    /// So many of ten batches have this class.
    Class(char, usize),
    /// Only so many values stay.
    Keep(usize),
    /// All values are this one.
    Value(f64),
    /// The value at an index.
    Set(usize, f64),
    Linearity(f64),
    /// Ticks per cycle beside the batches, times this.
    Clock(f64),
    /// Cycles of a turn of the shortest loop beside the batches.
    Widths(f64),
    Operations(f64),
    /// No looks at the core.
    Unlooked,
    Empty,
    /// Not there in every second launch.
    Seldom,
    Missing,
}

impl fmt::Display for Bend {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bend::Times(by) => write!(out, "times {by}"),
            Bend::Launches(by) => write!(out, "launches {by}"),
            Bend::Batches(by) => write!(out, "batches {by}"),
            Bend::Rising(by) => write!(out, "rising {by}"),
            Bend::Tail(by) => write!(out, "tail {by}"),
            Bend::Class(class, tenths) => write!(out, "class {class} {tenths}"),
            Bend::Keep(count) => write!(out, "keep {count}"),
            Bend::Value(value) => write!(out, "value {value}"),
            Bend::Set(index, value) => write!(out, "set {index} {value}"),
            Bend::Linearity(ratio) => write!(out, "linearity {ratio}"),
            Bend::Clock(by) => write!(out, "clock {by}"),
            Bend::Widths(cycles) => write!(out, "widths {cycles}"),
            Bend::Operations(by) => write!(out, "operations {by}"),
            Bend::Unlooked => write!(out, "unlooked"),
            Bend::Seldom => write!(out, "seldom"),
            Bend::Empty => write!(out, "empty"),
            Bend::Missing => write!(out, "missing"),
        }
    }
}

impl Bend {
    fn parse(words: &[&str]) -> Bend {
        let number = |index: usize| words[index].parse::<f64>().unwrap();
        match words[0] {
            "times" => Bend::Times(number(1)),
            "launches" => Bend::Launches(number(1)),
            "batches" => Bend::Batches(number(1)),
            "rising" => Bend::Rising(number(1)),
            "tail" => Bend::Tail(number(1)),
            "class" => {
                Bend::Class(words[1].chars().next().unwrap(), words.get(2).map_or(4, |tenths| tenths.parse().unwrap()))
            }
            "keep" => Bend::Keep(words[1].parse().unwrap()),
            "value" => Bend::Value(number(1)),
            "set" => Bend::Set(words[1].parse().unwrap(), number(2)),
            "linearity" => Bend::Linearity(number(1)),
            "clock" => Bend::Clock(number(1)),
            "widths" => Bend::Widths(number(1)),
            "operations" => Bend::Operations(number(1)),
            "unlooked" => Bend::Unlooked,
            "seldom" => Bend::Seldom,
            "empty" => Bend::Empty,
            "missing" => Bend::Missing,
            other => panic!("no change is named {other}"),
        }
    }

    fn apply(self, launch: u32, series: &mut Series) {
        let count = series.values.len();
        let mut each = |factor: &dyn Fn(usize) -> f64| {
            series.values.iter_mut().enumerate().for_each(|(index, value)| *value *= factor(index));
        };
        let second = |index: usize, by: f64| if index.is_multiple_of(2) { 1.0 } else { by };
        match self {
            Bend::Times(by) => each(&|_| by),
            Bend::Launches(by) => each(&|_| second(launch as usize, by)),
            Bend::Batches(by) => each(&|index| second(index, by)),
            Bend::Rising(by) => each(&|index| 1.0 + (by - 1.0) * index as f64 / (count - 1).max(1) as f64),
            Bend::Tail(by) => each(&|index| if index % 10 == 1 { by } else { 1.0 }),
            Bend::Keep(count) => series.values.truncate(count),
            Bend::Class(letter, tenths) => {
                let class = Class::ALL.into_iter().find(|class| class.letter() == letter).unwrap();
                let of = |index: usize| if index % 10 < tenths { class } else { Class::Clean };
                series.classes = Classes((0..count).map(of).collect());
            }
            Bend::Value(value) => series.values.fill(value),
            Bend::Set(index, value) => {
                if let Some(place) = series.values.get_mut(index) {
                    *place = value;
                }
            }
            Bend::Linearity(ratio) => series.linearity = series.linearity.map(|_| ratio),
            Bend::Clock(by) => series.clock.iter_mut().for_each(|clock| *clock *= by),
            Bend::Widths(cycles) => series.widths.fill([cycles; 2]),
            Bend::Operations(by) => series.operations = (series.operations as f64 * by).round() as u64,
            Bend::Empty => series.values.clear(),
            Bend::Unlooked => series.widths.clear(),
            Bend::Seldom | Bend::Missing => {}
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let experiment = &self.experiment;
        match &self.of {
            Changed::Series(name, labels, bend) => write!(out, "{experiment} series {name} [{labels}] {bend}"),
            Changed::Evidence(field, value, every) => {
                write!(out, "{experiment} evidence {field} {value} every {every}")
            }
            Changed::Remark(what, value) => write!(out, "{experiment} remark {what} {value}"),
            Changed::Made(unit, name, labels, values) => {
                let values: Vec<String> = values.iter().map(f64::to_string).collect();
                let unit = serde_json::to_value(unit).unwrap();
                write!(out, "{experiment} made {} {name} [{labels}] {}", unit.as_str().unwrap(), values.join(" "))
            }
            Changed::Machine(pointer, value) => write!(out, "{experiment} machine {pointer} {value}"),
            Changed::Launches(count) => write!(out, "{experiment} only {count}"),
            Changed::Predicted(metric, labels) => write!(out, "{experiment} predicts {metric} [{labels}]"),
        }
    }
}

impl Change {
    fn parse(text: &str) -> Change {
        let words: Vec<&str> = text.split(' ').collect();
        let of = match words[1] {
            "series" | "made" => {
                let (before, rest) = text.split_once('[').unwrap();
                let (labels, rest) = rest.split_once("] ").unwrap();
                let name = before.trim_end().rsplit(' ').next().unwrap().to_owned();
                let (labels, rest) = (Labels::parse(labels).unwrap(), rest.split(' ').collect::<Vec<&str>>());
                if words[1] == "series" {
                    Changed::Series(name, labels, Bend::parse(&rest))
                } else {
                    let unit = serde_json::from_value(words[2].into()).unwrap();
                    Changed::Made(unit, name, labels, rest.iter().map(|value| value.parse().unwrap()).collect())
                }
            }
            "evidence" => {
                let every = words[5].parse().unwrap();
                Changed::Evidence(words[2].to_owned(), serde_json::from_str(words[3]).unwrap(), every)
            }
            "remark" => Changed::Remark(words[2].to_owned(), words[3..].join(" ")),
            "machine" => Changed::Machine(words[2].to_owned(), serde_json::from_str(&words[3..].join(" ")).unwrap()),
            "predicts" => {
                let (before, labels) = text.split_once(" [").unwrap();
                let metric = before.rsplit(' ').next().unwrap().to_owned();
                Changed::Predicted(metric, Labels::parse(labels.trim_end_matches(']')).unwrap())
            }
            "only" => Changed::Launches(words[2].parse().unwrap()),
            other => panic!("nothing is named {other}"),
        };
        Change { experiment: words[0].to_owned(), of }
    }

    /// Applies the change to a log of the made machine.
    fn apply(&self, log: &mut Log) {
        if let Changed::Machine(pointer, value) = &self.of {
            let mut machine = serde_json::to_value(&log.machine).unwrap();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            let parent = machine.pointer_mut(parent).unwrap_or_else(|| panic!("the machine has no {parent}"));
            parent[key] = value.clone();
            log.machine = serde_json::from_value(machine).unwrap();
        }
        if let Changed::Predicted(metric, labels) = &self.of {
            let prediction = Prediction::of(metric, labels.clone(), Unit::Nanoseconds);
            log.predictions.push((self.experiment.clone(), prediction));
        }
        let mut seen = 0;
        for launch in log.launches.iter_mut().filter(|launch| launch.experiment == self.experiment) {
            seen += 1;
            self.change(seen, launch);
        }
    }

    fn change(&self, number: u32, launch: &mut Launch) {
        match &self.of {
            Changed::Series(name, labels, bend) => {
                let meant = |series: &Series| series.name == *name && series.labels.includes(labels);
                if *bend == Bend::Missing || *bend == Bend::Seldom && number.is_multiple_of(2) {
                    launch.series.retain(|series| !meant(series));
                }
                launch.series.iter_mut().filter(|series| meant(series)).for_each(|series| bend.apply(number, series));
            }
            Changed::Evidence(field, value, every) if number.is_multiple_of(*every) => {
                let mut evidence = serde_json::to_value(&launch.evidence).unwrap();
                evidence[field] = value.clone();
                launch.evidence = serde_json::from_value(evidence).unwrap();
            }
            Changed::Remark(what, value) => {
                let remarks = &mut launch.evidence.as_mut().unwrap().remarks;
                remarks.retain(|remark| remark.what != *what);
                remarks.push(Remark::of(what, value));
            }
            Changed::Made(unit, name, labels, values) => {
                launch.series.push(Series::plain(name, labels.clone(), *unit, values.clone()));
            }
            Changed::Launches(count) if number > *count => launch.interrupted = true,
            _ => {}
        }
    }
}

/// The log of the made machine with some changes, and with what the results of the first one's experiment are compared with.
fn changed(changes: &[Change]) -> Log {
    let mut log = run(&described_for(&changes[0].experiment));
    for change in changes {
        change.apply(&mut log);
    }
    log
}

/// The description without experiments of which neither this one's results nor its rules depend: they take time.
fn described_for(experiment: &str) -> Log {
    let mut log = description().clone();
    if experiment == "canary" {
        return log;
    }
    let kin: &[&str] = match experiment {
        "memory.loaded_latency" => &["memory.latency"],
        "os.thread_creation" => &["os.process_creation"],
        "network.bandwidth" | "network.connection" | "network.datagrams" => &["network.round_trip"],
        "file.contention" => &["file.read"],
        "file.remote_read" => &["network.round_trip", "network.bandwidth"],
        _ => &[],
    };
    let wanted =
        |id: &str| id == experiment || kin.contains(&id) || ["cpu.frequency", "os.system_call", "canary"].contains(&id);
    log.launches.retain(|launch| wanted(&launch.experiment));
    log.steps.retain(|step| wanted(&step.experiment));
    log
}

/// Paths of the rules that failed.
fn failed(document: &Document) -> BTreeSet<&'static str> {
    let sections = || document.experiments.iter();
    let published = sections().flat_map(|section| &section.metrics).flat_map(|metric| &metric.verdict.gates);
    let rejected = sections().flat_map(|section| &section.rejected).flat_map(|figure| &figure.gates);
    published.chain(rejected).filter(|gate| !gate.pass).map(|gate| gate.rule.0).collect()
}

fn place() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/made/breakers.txt")
}

/// The changes for each rule, by its path.
fn table() -> BTreeMap<String, Vec<Change>> {
    let text = fs::read_to_string(place()).unwrap_or_default();
    let line = |line: &str| {
        let (path, changes) = line.split_once(": ").unwrap_or_else(|| panic!("{line} has no change"));
        (path.to_owned(), changes.split(" & ").map(Change::parse).collect())
    };
    text.lines().map(line).collect()
}

#[test]
fn every_rule_fails_where_it_is_broken() {
    if std::env::var_os("SYSDYNO_WRITE_BREAKERS").is_some() {
        search();
    }
    let table = table();
    let rules: BTreeSet<&str> = catalogue::rules().into_iter().map(|rule| rule.path).collect();
    let without: Vec<&&str> = rules.iter().filter(|path| !table.contains_key(**path)).collect();
    let unknown: Vec<&String> = table.keys().filter(|path| !rules.contains(path.as_str())).collect();
    assert!(
        without.is_empty() && unknown.is_empty(),
        "{} rules without a breaker: {without:#?}\nunknown: {unknown:?}",
        without.len()
    );
    recorded("breakers", &[format!("All {} rules fail, each after a change that breaks it.", rules.len())]);
    let lines: Vec<(String, Vec<Change>)> = table.into_iter().collect();
    let holds = in_parallel(&lines, |line| {
        let (path, changes) = line;
        let holds = !failed(&assemble::document(&changed(changes))).contains(path.as_str());
        holds.then(|| path.clone())
    });
    let holds: Vec<String> = holds.into_iter().flatten().collect();
    assert!(holds.is_empty(), "rules that hold although they are broken:\n{}", holds.join("\n"));
}

#[test]
fn no_rule_fails_on_the_made_machine() {
    let document = assemble::document(&run(description()));
    let gates = document.experiments.iter().flat_map(|section| {
        let published = section.metrics.iter().map(|metric| (metric.title(), &metric.verdict.gates));
        published.chain(section.rejected.iter().map(|figure| (figure.name.clone(), &figure.gates)))
    });
    let failing = gates.flat_map(|(title, gates)| {
        gates.iter().filter(|gate| !gate.pass).map(move |gate| format!("{} {title}: {}", gate.rule.0, gate.evidence))
    });
    let failing: Vec<String> = failing.collect();
    assert!(failing.is_empty(), "{}", failing.join("\n"));
}

/// Changes of the series and the evidence of an experiment that may break a rule.
fn candidates(described: &Launch) -> Vec<Change> {
    let mut of: Vec<Changed> = Vec::new();
    let mut seen = BTreeSet::new();
    for series in &described.series {
        let single = series.labels.pairs().map(|(key, value)| Labels::none().with(key, value));
        for labels in std::iter::once(Labels::none()).chain(single) {
            if ["bytes", "ip"].iter().any(|key| labels.get(key).is_some())
                || !seen.insert((series.name.clone(), labels.to_string()))
            {
                continue;
            }
            let mut bends = vec![
                Bend::Times(0.01),
                Bend::Times(0.6),
                Bend::Times(1.6),
                Bend::Times(40.0),
                Bend::Launches(1.5),
                Bend::Missing,
            ];
            if series.classes.0.is_empty() {
                bends.extend([
                    Bend::Value(0.0),
                    Bend::Value(1e12),
                    Bend::Set(0, 0.0),
                    Bend::Set(0, 1e15),
                    Bend::Set(1, 0.0),
                    Bend::Set(1, 1e15),
                    Bend::Set(2, 1e15),
                    Bend::Set(3, 0.0),
                    Bend::Empty,
                ]);
            } else {
                bends.extend(['p', 'n', 'b', 'u', 'w', 'm', 'f'].map(|letter| Bend::Class(letter, 4)));
                bends.extend([
                    Bend::Batches(2.0),
                    Bend::Rising(1.5),
                    Bend::Tail(1e4),
                    Bend::Linearity(1.5),
                    Bend::Widths(1.35),
                    Bend::Operations(0.01),
                ]);
            }
            of.extend(bends.into_iter().map(|bend| Changed::Series(series.name.clone(), labels.clone(), bend)));
        }
    }
    let evidence = serde_json::to_value(&described.evidence).unwrap();
    for (field, value) in evidence.as_object().unwrap() {
        let values = match value {
            serde_json::Value::Number(_) => vec![0.0.into(), 0.5.into(), 1e9.into(), serde_json::Value::Null],
            serde_json::Value::Bool(value) => vec![(!value).into()],
            _ => continue,
        };
        let is_whole = value.is_i64() || value.is_u64();
        for every in [1, 2] {
            let fits =
                |value: &&serde_json::Value| !is_whole || value.as_f64().is_none_or(|value| value.fract() == 0.0);
            for value in values.iter().filter(fits) {
                let value = match value.as_f64() {
                    Some(number) if is_whole => (number as i64).into(),
                    _ => value.clone(),
                };
                let mut changed = evidence.clone();
                changed[field] = value.clone();
                if serde_json::from_value::<Evidence>(changed).is_err() {
                    continue;
                }
                of.push(Changed::Evidence(field.clone(), value, every));
            }
        }
    }
    of.push(Changed::Launches(2));
    of.into_iter().map(|of| Change { experiment: described.experiment.clone(), of }).collect()
}

/// Adds a line for each rule without one that some candidate breaks.
fn search() {
    let text = fs::read_to_string(place()).unwrap_or_default();
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for line in text.lines() {
        let (path, change) = line.split_once(": ").unwrap();
        found.insert(path.to_owned(), change.to_owned());
    }
    let rules = catalogue::rules();
    for described in description().launches.iter().filter(|launch| !launch.first) {
        let missing =
            || rules.iter().map(|rule| rule.path).filter(|path| !found.contains_key(*path)).collect::<Vec<&str>>();
        let module = described.experiment.split('.').nth(1).unwrap_or_default();
        let module = if module == "loop" { "loop_cost" } else { module };
        let is_common = |path: &&str| {
            !path.contains("::experiments::")
                || ["children", "sweep", "buffer", "limits", "network::"].iter().any(|part| path.contains(part))
        };
        if !missing().iter().any(|path| path.contains(module) || is_common(path)) {
            continue;
        }
        let candidates = candidates(described);
        let wanted = missing();
        println!("{}: {} changes for {} rules", described.experiment, candidates.len(), wanted.len());
        let broken = in_parallel(&candidates, |change| {
            let tried = std::panic::catch_unwind(|| {
                let document = assemble::document(&changed(std::slice::from_ref(change)));
                failed(&document).into_iter().filter(|path| wanted.contains(path)).collect::<Vec<_>>()
            });
            tried.unwrap_or_else(|_| panic!("the document panics after {change}"))
        });
        for (change, paths) in candidates.iter().zip(broken) {
            for path in paths {
                found.entry(path.to_owned()).or_insert_with(|| change.to_string());
            }
        }
        let lines: Vec<String> = found.iter().map(|(path, change)| format!("{path}: {change}\n")).collect();
        fs::write(place(), lines.concat()).unwrap();
    }
}
