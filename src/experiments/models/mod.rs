//! Predictions composed from primitives of the same run: a figure is some primitives, each so many times, and one more times a
//! coefficient without unit. Coefficients are fitted on records of other runs; where there is no primitive, or no record, the
//! prediction from the constants table stands.

pub mod coefficients;
mod families;
pub mod fit;
pub mod misses;
mod model;
pub(super) mod primitives;

use crate::results::prediction::{Basis, Part, Prediction};
use crate::results::quantity::{DISTANCE, FOOTPRINT, Labels, PATH_DEPTH};

use super::{Experiment, PredictionInput};
use crate::setup::Setup;
use coefficients::{Host, table};
use families::model;
use model::Scaling;
use primitives::{
    CLOCK_CALL, CYCLE, DIRECT_READ, KERNEL_ENTRY, MEMORY_LOAD, PRIMITIVES, Primitive, READ_FAULT, SWITCH,
};

/// Launches of an experiment with a primitive before others are predicted.
const LAUNCHES_FIRST: u32 = 5;

/// Seconds of a launch that is short.
const SHORT: f64 = 1.0;

/// Whether a figure of an experiment is a primitive, or follows from the same samples.
fn is_primitive(experiment: &Experiment, labels: &Labels) -> bool {
    PRIMITIVES
        .iter()
        .any(|primitive| experiment.publication(primitive.metric).is_some() && primitive.has_labels(labels))
}

/// Experiments that measure what most others follow from, in a few seconds.
pub fn in_seconds() -> Vec<&'static Experiment> {
    let needed = [CYCLE, CLOCK_CALL, KERNEL_ENTRY, SWITCH, MEMORY_LOAD, READ_FAULT, DIRECT_READ];
    let has = |experiment: &&&'static Experiment| {
        needed.iter().any(|primitive| experiment.publication(primitive.metric).is_some())
    };
    super::TABLE.iter().filter(has).copied().collect()
}

/// A step of the first round.
#[derive(Clone, Copy)]
pub struct Step {
    /// What is predicted and launched.
    pub experiment: &'static Experiment,
    /// Whether only its primitives are.
    pub first: bool,
    /// How often it is launched before the next step.
    pub launches: u32,
}

impl Step {
    /// Whether a prediction belongs to this step.
    pub fn asks(&self, prediction: &Prediction) -> bool {
        !self.first || is_primitive(self.experiment, &prediction.labels)
    }
}

/// The steps of the first round. What others are predicted from comes first, in the order of the primitives, and more than once:
/// experiments with short launches as they are, of others the primitives alone. Then everything else.
pub fn first_round(running: &[&'static Experiment], setup: &Setup) -> Vec<Step> {
    let whole = |experiment: &'static Experiment, launches: u32| Step { experiment, first: false, launches };
    if let [only] = running {
        return vec![whole(only, 1)];
    }
    let mut steps: Vec<Step> = Vec::new();
    for primitive in PRIMITIVES {
        let measures = |experiment: &&&'static Experiment| experiment.publication(primitive.metric).is_some();
        let Some(experiment) = running.iter().find(measures).copied() else { continue };
        if steps.iter().any(|step| step.experiment.id == experiment.id) {
            continue;
        }
        if experiment.measure_first.is_some() {
            steps.push(Step { experiment, first: true, launches: LAUNCHES_FIRST });
        } else if (experiment.seconds)(setup) <= SHORT {
            steps.push(whole(experiment, LAUNCHES_FIRST));
        }
    }
    let begun = |experiment: &Experiment| steps.iter().any(|step| step.experiment.id == experiment.id && !step.first);
    let others: Vec<Step> =
        running.iter().filter(|experiment| !begun(experiment)).map(|experiment| whole(experiment, 1)).collect();
    steps.extend(others);
    steps
}

/// The name of a figure among records: without conditions, which differ from run to run.
pub fn key(metric: &str, labels: &Labels) -> String {
    let mut text = metric.to_owned();
    for (name, value) in labels.pairs().filter(|(name, _)| ![FOOTPRINT, PATH_DEPTH, DISTANCE].contains(name)) {
        text.push_str(&format!(" {name}={value}"));
    }
    text
}

/// A prediction by primitives and coefficients; the one that is given where they do not reach.
pub fn composed(by: &PredictionInput<'_>, plain: Prediction) -> Prediction {
    let find = |primitive: &Primitive| by.known.iter().find(|metric| primitive.is(&metric.name, &metric.labels));
    let known = |primitive: &Primitive| find(primitive).map(|metric| metric.value);
    let Some(model) = model(&plain.metric, &plain.labels) else { return plain };
    let Some((_, scale)) = model.known(&known) else { return plain };
    let host = Host::of(&by.setup.machine, by.setup.cpu);
    let Some(found) = table().find(&key(&plain.metric, &plain.labels), &host) else { return plain };
    let range = |value: f64| (value, value / found.spread, value * found.spread);
    let mut composed = Prediction::of(&plain.metric, plain.labels, plain.unit);
    let mut add = |what: &str, part: Part, value: f64, basis: Basis| {
        let so_far = std::mem::replace(&mut composed, Prediction::of("", Labels::none(), plain.unit));
        composed = match part {
            Part::BaseHardware => so_far.hardware(what, range(value), basis),
            Part::SoftwareOverhead => so_far.software(what, range(value), basis),
        };
    };
    for term in model.counted.iter().filter(|term| term.count > 0.0) {
        let Some(metric) = find(&term.primitive) else { continue };
        add(term.what, term.part, metric.value * term.count, Basis::counted(&metric.title(), term.count));
    }
    let basis = find(&model.primitive).map_or_else(String::new, crate::results::document::Metric::title);
    let basis = Basis::fitted(&basis, found.ratio * model.times, model.scaling == Scaling::Against, found.records);
    add(model.what, model.part, found.ratio * scale, basis);
    composed
}
