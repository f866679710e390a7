//! The compact form of a run: every figure, and the facts that a comparison with another run needs, in one small file. It is made
//! from the document and from nothing else.
//!
//! What a run can be computed again from (samples, gates with their evidence, curves, sentences) is left to the log and to
//! `result.json`. Measured numbers have six digits, which no interval resolves. Their parts between runs and with a neighbour have
//! four, and predicted ranges three.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::error::Category;

use super::bounds;
use super::document::{Document, Grade, Metric, Outcome, Rejected, Section};
use super::peer::Peer;
use super::practice::Practice;
use super::quantity::{Better, Unit};
use super::remote::Remote;
use super::verdict::{AgainstPrediction, Trust};
use crate::machine::engine::Engine;
use crate::machine::{Machine, Mark};
use crate::sys::file;

/// Version of the format.
pub const FORMAT: &str = "sysdyno-node/1";

/// Most bytes of a file that is read as one: ten times what a run of everything has.
pub const MOST_BYTES: u64 = 1 << 20;

/// Most facts that are read. A run has 70, and more on a machine with thousands of network interfaces.
const MOST_FACTS: usize = 5_000;
/// Most experiments, metrics and results that are read: ten times what a run of everything has.
const MOST_RESULTS: usize = 10_000;

/// Confidence of an interval that does not say another.
const LEVEL: f64 = 0.95;

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compact {
    /// Format version, `sysdyno-node/1`.
    pub format: String,
    /// SHA-256 of the log that it was computed from, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_sha256: Option<String>,
    /// True when everything planned was measured.
    pub complete: bool,
    /// The machine.
    pub node: CompactNode,
    /// The run.
    pub run: CompactRun,
    /// The engine that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// How the shared methodology was carried out.
    pub practice: Practice,
    /// Names of the doctor's checks that were not passed.
    pub not_quiet: Vec<String>,
    /// Facts about the machine in words.
    pub facts: BTreeMap<String, String>,
    /// The experiments, in the order of the report.
    pub experiments: Vec<CompactExperiment>,
}

/// Which machine it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompactNode {
    /// Name of the node; absent where the log does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Keyed hash of the machine's identifier and of the name, the same from boot to boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Keyed hash of this boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// Hash of the model: processor, topology, caches and memory.
    pub fingerprint: String,
    /// True where facts of the hash were hidden from the run: another hash does not mean another model then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// Release of its kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Labels that the user gave, such as its rack.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// The run in a few facts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompactRun {
    /// Identifier: host and start time.
    pub id: String,
    /// Start, RFC 3339.
    pub started: String,
    /// Seconds measured.
    pub seconds: f64,
    /// Version of the tool.
    pub version: String,
    /// How the tool was built.
    pub build: String,
    /// First digits of the SHA-256 of its binary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary: Option<String>,
    /// Profile: quick, default or rigorous.
    pub profile: String,
    /// The command as typed.
    pub command: Vec<String>,
    /// Seed of every random choice.
    pub seed: u64,
    /// CPU on which launches measured.
    pub cpu: u32,
    /// Which clock: `tsc`, `cntvct` or `monotonic_raw`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<String>,
    /// Rounds that ended.
    pub rounds: u32,
    /// Rounds in which an interference probe deviated.
    pub disturbed_rounds: u32,
    /// How often the run was resumed.
    pub resumed: u32,
    /// The other machine of the network experiments: address and fingerprint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Files on another machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remote: Vec<String>,
}

/// An experiment with its figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompactExperiment {
    /// Identifier.
    pub id: String,
    /// Version of its method: figures of two versions are not compared.
    pub method_version: u32,
    /// What became of it.
    pub outcome: Outcome,
    /// Why it has no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its metrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<CompactMetric>,
    /// Figures that are not published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<Absent>,
}

/// The figures of one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompactMetric {
    /// Name.
    pub name: String,
    /// Unit of all numbers but cycles.
    pub unit: Unit,
    /// Direction of improvement.
    pub better: Better,
    /// One for each combination of labels.
    pub figures: Vec<CompactFigure>,
}

/// A figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompactFigure {
    /// Labels as pairs `key=value`, ordered by key, with a space between.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub labels: String,
    /// The headline.
    pub value: f64,
    /// True where the figure stands in the summary table.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub headline: bool,
    /// True where it is a lower bound.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// Its interval over the launches of the run.
    pub interval: [f64; 2],
    /// The part of its uncertainty between runs: half of its width at 95 % over the value.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub between: f64,
    /// The same of the core clock, where the value is a time that comes from core cycles.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub clock: f64,
    /// Confidence of the interval, where it is not 0.95.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<f64>,
    /// The headline in core cycles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<f64>,
    /// Launches behind it.
    pub launches: u32,
    /// How far it can be trusted, where it is not clean.
    #[serde(default = "clean", skip_serializing_if = "is_clean")]
    pub trust: Trust,
    /// How well it is known, where it is not good.
    #[serde(default = "good", skip_serializing_if = "is_good")]
    pub grade: Grade,
    /// The figure with a neighbour on the core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<f64>,
    /// Predicted range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<[f64; 2]>,
    /// The comparison with that range, where the figure lies outside of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<AgainstPrediction>,
}

/// A figure that is not published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Absent {
    /// Name of its metric.
    pub name: String,
    /// Labels as pairs `key=value`, ordered by key, with a space between.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub labels: String,
    /// Why.
    pub reason: String,
    /// True where the figure would stand in the summary table.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub headline: bool,
    /// True where it was measured and failed a hard gate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
}

/// The bytes of a file that can be the compact form of a run; why not, if it cannot. Symbolic links are not followed.
pub fn bytes_of(place: &Path) -> Result<Vec<u8>, String> {
    let io = |error: std::io::Error| match error.raw_os_error() {
        Some(libc::ELOOP) => "it is a symbolic link, which is not followed".to_owned(),
        None if error.kind() == ErrorKind::FileTooLarge => {
            "it is larger than 1 MiB, and the compact form of a run is smaller".to_owned()
        }
        _ => error.to_string(),
    };
    file::read_regular(place, MOST_BYTES).map_err(io)
}

impl Compact {
    /// The compact form from its file; why not, if it is none.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Format {
            format: String,
        }
        let Format { format } = serde_json::from_slice(bytes).map_err(|error| match error.classify() {
            Category::Data => "it is not the compact form of a run (node.json)".to_owned(),
            _ => format!("it is not JSON: {error}"),
        })?;
        if format != FORMAT {
            return Err(format!("it has format {format}, and this build reads {FORMAT}"));
        }
        let found: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        found.is_possible().map(|()| found)
    }

    /// Whether a run can be so; the error says what cannot. Later work costs as much as there are facts and results.
    fn is_possible(&self) -> Result<(), String> {
        bounds::at_most("facts", self.facts.len(), MOST_FACTS)?;
        let metrics = || self.experiments.iter().flat_map(|found| &found.metrics);
        let absent: usize = self.experiments.iter().map(|found| 1 + found.absent.len()).sum();
        let results: usize = metrics().map(|metric| 1 + metric.figures.len()).sum();
        bounds::at_most("results", absent + results, MOST_RESULTS)?;
        bounds::number("the duration", self.run.seconds)?;
        self.practice.is_possible()?;
        metrics().try_for_each(|metric| {
            let possible = metric.figures.iter().try_for_each(CompactFigure::is_possible);
            possible.map_err(|why| format!("a result of {}: {why}", metric.name))
        })
    }

    /// Start, identifier and seed, which distinguish this run from every other. A copy of it has the same.
    pub fn mark(&self) -> (String, String, u64) {
        (self.run.started.clone(), self.run.id.clone(), self.run.seed)
    }

    /// The compact form of a document.
    pub fn of(document: &Document) -> Self {
        let run = &document.run;
        let identity = run.identity.clone().unwrap_or_default();
        Compact {
            format: FORMAT.to_owned(),
            log_sha256: run.log_sha256.clone(),
            complete: run.complete,
            node: CompactNode {
                name: run.identity.is_some().then_some(identity.node),
                machine: identity.machine,
                boot: identity.boot,
                fingerprint: document.machine.fingerprint.clone(),
                hidden: !document.machine.hidden.is_empty(),
                kernel: kernel(&document.machine),
                labels: run.labels.clone(),
            },
            run: CompactRun {
                id: run.id.clone(),
                started: run.started.clone(),
                seconds: six_digits(run.wall_seconds),
                version: run.version.clone(),
                build: run.build.clone(),
                binary: run.binary.clone(),
                profile: run.profile.clone(),
                command: run.command.clone(),
                seed: run.seed,
                cpu: run.cpu,
                clock: run.clock.as_ref().map(|clock| clock.source.clone()),
                rounds: run.rounds,
                disturbed_rounds: run.disturbed_rounds.len() as u32,
                resumed: run.resumed,
                peer: document.peer.as_deref().map(peer),
                remote: document.remote.as_deref().map(remote).unwrap_or_default(),
            },
            engine: run.engine.clone(),
            practice: document.practice.clone(),
            not_quiet: document.quiet.iter().filter(|check| !check.ok).map(|check| check.check.clone()).collect(),
            facts: facts(&document.machine),
            experiments: document.experiments.iter().map(CompactExperiment::of).collect(),
        }
    }
}

/// The release of a machine's kernel.
pub fn kernel(machine: &Machine) -> Option<String> {
    machine.kernel.release.as_ref().map(|fact| fact.value.clone())
}

/// Another machine as the compact form names it.
pub fn peer(peer: &Peer) -> String {
    format!("{} {}", peer.address, peer.machine.fingerprint)
}

/// Files on another machine as the compact form names them.
pub fn remote(remote: &Remote) -> Vec<String> {
    let directory = remote.directory.as_ref().map(|found| format!("{} ({})", found.directory, found.what));
    remote.nfs.iter().map(|found| found.url.clone()).chain(directory).collect()
}

/// Facts about a machine in words, without those that change by the minute.
pub fn facts(machine: &Machine) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    for section in machine.sections() {
        for row in section.rows.into_iter().filter(|row| !row.marks.contains(&Mark::Fleeting)) {
            facts.insert(format!("{}: {}", section.title, row.name), row.value);
        }
    }
    facts
}

/// The six leading digits of a number.
pub fn six_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// The four leading digits of a number.
fn four_digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// Ranges are not known better.
fn three_digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

impl CompactExperiment {
    fn of(section: &Section) -> Self {
        let mut metrics: Vec<CompactMetric> = Vec::new();
        for metric in &section.metrics {
            let figure = CompactFigure::of(metric);
            match metrics.last_mut().filter(|last| {
                (last.name.as_str(), last.unit, last.better) == (metric.name.as_str(), metric.unit, metric.better)
            }) {
                Some(last) => last.figures.push(figure),
                None => metrics.push(CompactMetric {
                    name: metric.name.clone(),
                    unit: metric.unit,
                    better: metric.better,
                    figures: vec![figure],
                }),
            }
        }
        CompactExperiment {
            id: section.id.clone(),
            method_version: section.method_version,
            outcome: section.outcome,
            reason: section.reason.clone(),
            metrics,
            absent: section.rejected.iter().map(Absent::of).collect(),
        }
    }
}

impl CompactFigure {
    fn of(metric: &Metric) -> Self {
        let against = metric.verdict.against_prediction;
        let predicted = metric.prediction.as_ref().filter(|found| found.unit == metric.unit);
        // A lower bound within its range is not judged, although it has one.
        let said = predicted.is_some() && matches!(against, AgainstPrediction::Faster | AgainstPrediction::Slower);
        CompactFigure {
            labels: metric.labels.to_string(),
            value: six_digits(metric.value),
            headline: metric.headline,
            at_least: metric.at_least,
            interval: metric.within_run.unwrap_or(metric.interval95).map(six_digits),
            between: four_digits(metric.between_share),
            clock: four_digits(metric.clock_share),
            level: Some(metric.interval_level).filter(|level| (level - LEVEL).abs() > 1e-9).map(six_digits),
            cycles: metric.cycles.map(six_digits),
            launches: metric.launches,
            trust: metric.verdict.trust,
            grade: metric.grade,
            shared: metric.shared.map(|found| four_digits(found.value)),
            predicted: predicted.map(|found| [found.low, found.high].map(three_digits)),
            against: said.then_some(against),
        }
    }

    fn is_possible(&self) -> Result<(), String> {
        bounds::within("its value", self.value, self.interval)?;
        bounds::share("its confidence", self.level.unwrap_or(LEVEL))?;
        let numbers = [Some(self.between), Some(self.clock), self.cycles, self.shared]
            .into_iter()
            .chain(self.predicted.unwrap_or_default().map(Some));
        numbers.flatten().try_for_each(|value| bounds::number("one of its numbers", value))
    }

    /// Half of the interval, relative to the value, with the confidence of the interval.
    pub fn half_width(&self) -> (f64, f64) {
        ((self.interval[1] - self.interval[0]) / 2.0 / self.value.abs(), self.level.unwrap_or(LEVEL))
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
pub(super) fn is_nothing(share: &f64) -> bool {
    *share == 0.0
}

fn clean() -> Trust {
    Trust::Clean
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
fn is_clean(trust: &Trust) -> bool {
    *trust == Trust::Clean
}

fn good() -> Grade {
    Grade::Good
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
fn is_good(grade: &Grade) -> bool {
    *grade == Grade::Good
}

impl Absent {
    fn of(rejected: &Rejected) -> Self {
        Absent {
            name: rejected.name.clone(),
            labels: rejected.labels.to_string(),
            reason: rejected.why(),
            headline: rejected.headline,
            refused: !rejected.gates.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_six_digits_and_their_size() {
        for (value, kept) in [(1.0, 1.0), (123_456_789.0, 123_457_000.0), (-0.001_234_567_8, -0.001_234_57), (0.0, 0.0)]
        {
            assert!((six_digits(value) - kept).abs() <= kept.abs() * 1e-12, "{value}");
        }
    }

    #[test]
    fn facts_are_what_stays_so() {
        let machine = crate::machine::detect(Path::new("/"), Path::new("/"));
        let rows: Vec<String> =
            machine.sections().into_iter().flat_map(|section| section.rows).map(|row| row.name).collect();
        let facts = facts(&machine);
        for name in ["available", "its free space"] {
            assert!(rows.iter().any(|row| row == name), "no row is called {name} any more: {rows:?}");
            assert!(!facts.keys().any(|key| key.ends_with(&format!(": {name}"))));
        }
        assert!(facts.contains_key("Kernel: release") && facts.contains_key("Memory: total"), "{facts:?}");
    }

    /// A stored run with a change to its JSON.
    fn changed(change: impl Fn(&mut serde_json::Value)) -> Result<Compact, String> {
        let mut run =
            serde_json::from_slice(include_bytes!("../../records/guest-zen4-2cpu-quiet-hour/node.json")).unwrap();
        change(&mut run);
        Compact::parse(run.to_string().as_bytes())
    }

    #[test]
    fn files_with_impossible_numbers_or_too_many_are_no_runs() {
        use serde_json::json;
        changed(|_| ()).unwrap();
        let refused = |words: &str, change: &dyn Fn(&mut serde_json::Value)| {
            let why = changed(change).unwrap_err();
            assert!(why.contains(words), "{words}: {why}");
        };
        let figure = |field: &'static str, value: serde_json::Value| {
            move |run: &mut serde_json::Value| run["experiments"][0]["metrics"][0]["figures"][0][field] = value.clone()
        };
        refused("its interval is [", &figure("value", json!(1.0)));
        refused("its interval is [2.0, 1.0]", &figure("interval", json!([2.0, 1.0])));
        refused("its value is 1e308", &|run| {
            figure("value", json!(1e308))(run);
            figure("interval", json!([1e308, 1e308]))(run);
        });
        refused("which is impossible", &figure("predicted", json!([0.0, 1e308])));
        refused("which is impossible", &figure("between", json!(1e200)));
        refused("which is impossible", &figure("clock", json!(1e308)));
        refused("its value is 1e-300", &|run| {
            figure("value", json!(1e-300))(run);
            figure("interval", json!([0.0, 1.0]))(run);
        });
        refused("its confidence is 2", &figure("level", json!(2.0)));
        refused("not a share", &|run| run["practice"]["shared_share"] = json!(1e308));
        refused("the duration", &|run| run["run"]["seconds"] = json!(-1e300));
        refused("5001 facts", &|run| {
            run["facts"] = (0..=MOST_FACTS).map(|number| (number.to_string(), json!(""))).collect();
        });
        refused("results, and at most 10000 are read", &|run| {
            let absent = json!({"name": "a", "reason": "b"});
            run["experiments"][0]["absent"] = json!(vec![absent; MOST_RESULTS]);
        });
    }
}
