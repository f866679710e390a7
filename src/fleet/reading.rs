//! What is kept of a run: its key results, the names of all others, and its facts. A node file has 120 kB, and of ten thousand of
//! them this much fits into memory.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::axes;
use crate::machine::engine::is_node_name;
use crate::results::compact::{Compact, CompactFigure, CompactMetric};
use crate::results::fleet::Axis;
use crate::results::quantity::{Better, Labels, Unit};
use crate::results::verdict::Trust;
use crate::statistics::distribution::normal_factor;

/// Confidence of the part of an interval between runs.
const LEVEL: f64 = 0.95;
/// The label that names a rack.
const RACK: &str = "rack";

/// A run of a node.
pub struct NodeRun {
    /// Its name.
    pub node: String,
    /// Where it was read.
    pub place: String,
    /// What the file holds.
    pub run: Compact,
}

impl NodeRun {
    /// A run from the bytes of its file. `directory` names the node where the file does not.
    pub fn of(bytes: &[u8], directory: Option<&str>, place: &str) -> Result<Self, String> {
        let run = Compact::parse(bytes)?;
        let name = run.node.name.as_deref().or(directory).ok_or("it does not name its node")?;
        if !is_node_name(name) {
            return Err("the name of its node has other characters than letters, digits, '.', '_' and '-'".to_owned());
        }
        Ok(NodeRun { node: name.to_owned(), place: place.to_owned(), run })
    }

    /// Its rack: by the label, or by the topology that the engine names.
    fn rack(&self) -> Option<String> {
        let by_engine = || self.run.engine.as_ref()?.rack().map(str::to_owned);
        self.run.node.labels.get(RACK).cloned().or_else(by_engine)
    }
}

/// Which result: the same for all nodes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResultName {
    /// Name of its metric.
    pub metric: String,
    /// Labels without those that state a condition.
    pub labels: String,
    /// Unit of its values.
    pub unit: Unit,
    /// True where a higher value is better.
    pub higher_is_better: bool,
    /// The axis that it decides, if it decides one.
    pub axis: Option<Axis>,
}

impl ResultName {
    /// Metric and labels.
    pub fn text(&self) -> String {
        text(&self.metric, &self.labels)
    }
}

/// A key result of a run.
#[derive(Debug, Clone)]
pub struct KeyResult {
    /// Which result.
    pub name: Arc<ResultName>,
    /// In the unit of its name, above 0.
    pub value: f64,
    /// In cycles, or per cycle for rates.
    pub by_clock: Option<f64>,
    /// Relative standard error, within the run and between runs.
    pub error: f64,
    /// Relative standard deviation between runs of one machine.
    pub between: f64,
    /// True where something else used the CPU or its core.
    pub contaminated: bool,
}

/// What is kept of a run.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Name of the node.
    pub node: String,
    /// Hash of the machine's identifier.
    pub machine: Option<String>,
    /// Rack of the node.
    pub rack: Option<String>,
    /// Where it was read.
    pub place: String,
    /// Identifier and seed of the run.
    pub id: String,
    /// Start, RFC 3339.
    pub started: String,
    /// Duration of the run.
    pub seconds: f64,
    /// True where everything planned was measured.
    pub complete: bool,
    /// Hash of the machine's model.
    pub fingerprint: Arc<str>,
    /// Model of the processor.
    pub model: Arc<str>,
    /// Profile of the run.
    pub profile: Arc<str>,
    /// Version and build of sysdyno.
    pub build: Arc<str>,
    /// The hash of the binary, or the build where the run does not say it.
    pub binary: Arc<str>,
    /// Experiments with their method versions.
    pub methods: Arc<str>,
    /// Sorted by name.
    pub keys: Vec<KeyResult>,
    /// Axis, metric and labels of key results that were measured and have no usable value.
    pub refused: Vec<(Axis, Arc<str>)>,
    /// Metric and labels of every result that was published, or was measured and refused.
    pub results: Vec<Arc<str>>,
    /// Sorted by name.
    pub facts: Vec<(Arc<str>, Arc<str>)>,
}

/// A result and its metric and labels in one text.
type Named = (Arc<ResultName>, Arc<str>);

/// Names and texts that many runs share.
#[derive(Default)]
pub struct Names {
    texts: Mutex<HashSet<Arc<str>>>,
    /// By metric, labels, unit and direction.
    results: Mutex<HashMap<String, Named>>,
}

impl Names {
    /// The one copy of a text.
    pub fn text(&self, text: &str) -> Arc<str> {
        let mut known = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(text) {
            return found.clone();
        }
        let new: Arc<str> = text.into();
        known.insert(new.clone());
        new
    }

    fn result(&self, metric: &CompactMetric, labels: &str) -> Named {
        let higher_is_better = metric.better == Better::Higher;
        let direction = if higher_is_better { "+" } else { "-" };
        let key = [&metric.name, " ", labels, " ", metric.unit.symbol(), direction].concat();
        let mut known = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&key) {
            return found.clone();
        }
        let labels = without_conditions(labels);
        let axis = axes::axis_of(&metric.name, &labels);
        let whole = self.text(&text(&metric.name, &labels));
        let name = ResultName { metric: metric.name.clone(), labels, unit: metric.unit, higher_is_better, axis };
        let found = (Arc::new(name), whole);
        known.insert(key, found.clone());
        found
    }
}

fn without_conditions(labels: &str) -> String {
    let is_condition = |pair: &&str| pair.split_once('=').is_none_or(|(key, _)| Labels::is_condition(key));
    labels.split(' ').filter(|pair| !is_condition(pair)).collect::<Vec<&str>>().join(" ")
}

fn text(metric: &str, labels: &str) -> String {
    if labels.is_empty() { metric.to_owned() } else { format!("{metric} {labels}") }
}

impl Reading {
    /// What is kept of a run.
    pub fn of(found: &NodeRun, names: &Names) -> Self {
        let run = &found.run;
        let clock = clock(run);
        let (mut keys, mut refused, mut results) = (Vec::new(), Vec::new(), Vec::new());
        let metrics = run.experiments.iter().flat_map(|experiment| &experiment.metrics);
        for (metric, figure) in metrics.flat_map(|metric| metric.figures.iter().map(move |figure| (metric, figure))) {
            let (name, whole) = names.result(metric, &figure.labels);
            if let Some(axis) = name.axis {
                match key_result(name, figure, metric.unit, clock) {
                    Some(key) => keys.push(key),
                    None => refused.push((axis, whole.clone())),
                }
            }
            results.push(whole);
        }
        for absent in run.experiments.iter().flat_map(|experiment| &experiment.absent).filter(|absent| absent.refused) {
            let labels = without_conditions(&absent.labels);
            let whole = names.text(&text(&absent.name, &labels));
            refused.extend(axes::axis_of(&absent.name, &labels).map(|axis| (axis, whole.clone())));
            results.push(whole);
        }
        keys.sort_by(|one, other| one.name.cmp(&other.name));
        keys.dedup_by(|one, other| one.name == other.name);
        let mut facts: Vec<(Arc<str>, Arc<str>)> =
            run.facts.iter().map(|(name, value)| (names.text(kind(name)), names.text(value))).collect();
        facts.sort();
        facts.dedup_by(|one, other| one.0 == other.0);
        let methods: Vec<String> =
            run.experiments.iter().map(|found| format!("{} {}", found.id, found.method_version)).collect();
        let build = format!("{}, {}", run.run.version, run.run.build);
        Reading {
            node: found.node.clone(),
            machine: run.node.machine.clone(),
            rack: found.rack(),
            place: found.place.clone(),
            id: format!("{} {}", run.run.id, run.run.seed),
            started: run.run.started.clone(),
            seconds: run.run.seconds,
            complete: run.complete,
            fingerprint: names.text(&run.node.fingerprint),
            model: names.text(run.facts.get("Processor: model").map_or("", String::as_str)),
            profile: names.text(&run.run.profile),
            binary: names.text(run.run.binary.as_deref().unwrap_or(&build)),
            build: names.text(&build),
            methods: names.text(&methods.join(", ")),
            keys,
            refused,
            results,
            facts,
        }
    }
}

impl Reading {
    /// Number of key results of an axis that were measured and have no usable value.
    pub fn refused_on(&self, axis: Axis) -> usize {
        self.refused.iter().filter(|(of, _)| *of == axis).count()
    }

    /// Whether it has a result of an axis, usable or not.
    pub fn has(&self, axis: Axis) -> bool {
        self.refused_on(axis) > 0 || self.keys.iter().any(|key| key.name.axis == Some(axis))
    }
}

/// The name of a fact without the place that it is about: scratch directories have other names on each node.
pub fn kind(fact: &str) -> &str {
    fact.find(" of /").map_or(fact, |end| &fact[..end])
}

/// The core clock of a run, in hertz.
fn clock(run: &Compact) -> Option<f64> {
    let mut metrics = run.experiments.iter().flat_map(|experiment| &experiment.metrics);
    let figure = metrics.find(|metric| axes::is_clock(&metric.name))?.figures.first()?;
    (figure.trust < Trust::Contaminated && figure.value > 0.0).then_some(figure.value)
}

fn key_result(name: Arc<ResultName>, figure: &CompactFigure, unit: Unit, clock: Option<f64>) -> Option<KeyResult> {
    let usable = |value: f64| value.is_finite() && value > 0.0;
    if !usable(figure.value) || figure.at_least {
        return None;
    }
    let per_cycle = || Some(figure.value / clock?).filter(|_| axes::is_by_the_clock(unit, &name.labels));
    let by_clock = figure.cycles.or_else(per_cycle).filter(|value| usable(*value));
    let (half, level) = figure.half_width();
    // One launch has an interval without width and without confidence.
    let within = half / normal_factor(level).unwrap_or(1.0);
    let between = figure.between / normal_factor(LEVEL)?;
    let error = within.hypot(between);
    let contaminated = figure.trust >= Trust::Contaminated;
    error.is_finite().then_some(KeyResult { name, value: figure.value, by_clock, error, between, contaminated })
}
