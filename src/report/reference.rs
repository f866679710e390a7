//! Another run, whose results are shown next to those of a report.

use crate::results::compact::Compact;
use crate::results::document::{Document, Metric, Outcome};
use crate::results::machines;
use crate::results::problem::Problem;
use crate::results::quantity::{FOOTPRINT, Labels, Unit};
use crate::results::verdict::Trust;
use crate::results::wording::{interval, significant};

/// A run that a report is compared with by eye.
#[derive(Debug)]
pub struct ReferenceRun {
    /// Its identifier and its machine.
    name: String,
    results: Vec<ReferenceResult>,
}

/// A result that both runs have.
#[derive(Debug)]
struct ReferenceResult {
    metric: String,
    labels: Labels,
    unit: Unit,
    value: f64,
    interval: [f64; 2],
}

impl ReferenceRun {
    /// The results of a run that a document can show next to its own: those by the same version of a method that nothing
    /// disturbed. An error where it is the same run, or where no cost of the document has one.
    pub fn of(run: &Compact, document: &Document) -> Result<Self, Problem> {
        if run.run.id == document.run.id {
            return Err(Problem::new(format!("the reference {} is the reported run itself", run.run.id))
                .hint("name another run, for example an earlier one of this machine"));
        }
        let mut results = Vec::new();
        for experiment in run.experiments.iter().filter(|found| found.outcome == Outcome::Measured) {
            let same = |id: &str, version: u32| id == experiment.id && version == experiment.method_version;
            if !document.experiments.iter().any(|section| same(&section.id, section.method_version)) {
                continue;
            }
            for metric in &experiment.metrics {
                let clean = metric.figures.iter().filter(|figure| figure.trust < Trust::Contaminated);
                results.extend(clean.filter_map(|figure| {
                    let (name, labels) = (metric.name.clone(), Labels::parse(&figure.labels)?);
                    let (value, interval) = (figure.value, figure.interval);
                    Some(ReferenceResult { metric: name, labels, unit: metric.unit, value, interval })
                }));
            }
        }
        let reference = ReferenceRun { name: format!("{} ({})", run.run.id, machine(run, document)), results };
        let has = |metric: &Metric| reference.find(metric).is_some();
        let shared = document.costs.iter().filter_map(|cost| document.metric(&cost.metric, &cost.labels)).any(has)
            || document.metrics().filter(|metric| metric.headline).any(has);
        if shared {
            return Ok(reference);
        }
        Err(Problem::new(format!("the reference {} has no result of this run by the same methods", run.run.id))
            .hint("name a run of the same experiments by this version of sysdyno"))
    }

    /// What a legend calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its value of a result, in the unit of that result.
    pub fn value(&self, metric: &Metric) -> Option<f64> {
        self.find(metric).map(|found| found.value)
    }

    /// Its value of a result in words, and its interval over the launches.
    pub(super) fn text(&self, metric: &Metric) -> Option<[String; 2]> {
        let found = self.find(metric)?;
        Some([significant(found.value, found.unit, 3), interval(found.interval, found.unit)])
    }

    fn find(&self, metric: &Metric) -> Option<&ReferenceResult> {
        let of_metric = |found: &&ReferenceResult| found.metric == metric.name && found.unit == metric.unit;
        let all = || self.results.iter().filter(of_metric);
        let same = |found: &&ReferenceResult| found.labels.same_figure(&metric.labels);
        // What a load of main memory costs is asked of both machines, whatever their caches are.
        let in_other_memory =
            |found: &&ReferenceResult| found.labels.without(FOOTPRINT).same_figure(&metric.labels.without(FOOTPRINT));
        all().find(same).or_else(|| all().find(in_other_memory))
    }
}

/// Which machine the reference ran on, as far as both runs say it.
fn machine(run: &Compact, document: &Document) -> String {
    let own = Compact::of(document);
    let is_unknown = run.node.machine.is_none() || own.node.machine.is_none();
    let relation = match () {
        () if machines::is_same(run, &own) => return "this machine".to_owned(),
        () if is_unknown && run.node.fingerprint == own.node.fingerprint => "a machine of the same model",
        () => "another machine",
    };
    format!("{relation}: {}", machines::hardware(run))
}
