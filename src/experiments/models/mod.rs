//! Predictions composed from primitives of the same run. A figure is some primitives, each a number of times, and one more times a
//! coefficient without unit. Coefficients are fitted on records of other runs. A primitive that a run has not measured is composed
//! too: the first of them comes from the cycle time. Where no record has a figure, the experiment itself predicts it.

pub mod coefficients;
mod families;
pub mod fit;
pub mod misses;
mod model;
pub(super) mod primitives;

use crate::experiments::constants::{DISK_READ_UNKNOWN, disk_read};
use crate::experiments::figure_name::FigureName;
use crate::experiments::prelude::*;
use crate::results::document::record;
use crate::results::prediction::{AS_PREDICTED, Part};
use crate::results::quantity::{DISTANCE, FOOTPRINT, PATH_DEPTH};

use super::{Experiment, PredictionInput};
use crate::statistics::location::FEWEST_LAUNCHES;
use coefficients::{Host, table};
use families::model;
use model::{Range, Scaling};
use primitives::{CLOCK_CALL, CYCLE, DIRECT_READ, KERNEL_ENTRY, MEMORY_LOAD, PRIMITIVES, READ_FAULT, SWITCH};

/// Launches of an experiment with a primitive before others are predicted.
const LAUNCHES_FIRST: u32 = 5;

/// Seconds of a launch that is short.
const SHORT: f64 = 1.0;

/// Whether a figure of an experiment is a primitive, or follows from the same samples.
fn is_primitive(experiment: &Experiment, labels: &Labels) -> bool {
    PRIMITIVES
        .iter()
        .any(|primitive| experiment.publication(primitive.metric()).is_some() && primitive.has_labels(labels))
}

/// Experiments that measure what most others follow from, in a few seconds.
pub fn in_seconds() -> Vec<&'static Experiment> {
    let needed = [CYCLE, CLOCK_CALL, KERNEL_ENTRY, SWITCH, MEMORY_LOAD, READ_FAULT, DIRECT_READ];
    let has = |experiment: &&&'static Experiment| {
        needed.iter().any(|primitive| experiment.publication(primitive.metric()).is_some())
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
/// experiments with short launches as they are, of others the primitives alone. Then everything else. Every run has the core cycle and
/// the clock call, because nearly all is predicted from them, and they take some tenths of a second.
pub fn first_round(running: &[&'static Experiment], setup: &Setup) -> Vec<Step> {
    let whole = |experiment: &'static Experiment, launches: u32| Step { experiment, first: false, launches };
    let mut steps: Vec<Step> = Vec::new();
    for primitive in PRIMITIVES {
        let measures = |experiment: &&&'static Experiment| experiment.publication(primitive.metric()).is_some();
        let always = || super::TABLE.iter().find(measures).filter(|_| [CYCLE, CLOCK_CALL].contains(&primitive));
        let planned = running.iter().find(measures);
        let Some(experiment) = planned.or_else(always).copied() else { continue };
        // One experiment alone needs no launches before its others.
        let is_only = planned.is_some() && running.len() == 1;
        if is_only || steps.iter().any(|step| step.experiment.id == experiment.id) {
            continue;
        }
        if experiment.measure_first.is_some() || planned.is_none() {
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

/// What the core clock moves between runs, as a share: the part between runs of the cycle time. 0 where a run has none.
pub fn clock_share(known: &[Metric]) -> f64 {
    CYCLE.find(known).map_or(0.0, |cycle| cycle.between_share)
}

/// Whether a primitive of an experiment has too few launches without a neighbour for others to be predicted from it, where more launches
/// soon help: on one CPU, in launches of some hundredths of a second.
pub fn is_disturbed(experiment: &Experiment, known: &[Metric]) -> bool {
    let of = [CYCLE, CLOCK_CALL, KERNEL_ENTRY, SWITCH];
    let mut own = of.iter().filter(|primitive| experiment.publication(primitive.metric()).is_some());
    let disturbed = |metric: &Metric| metric.grade.has_foreign_part() || (metric.launches as usize) < FEWEST_LAUNCHES;
    own.any(|primitive| primitive.find(known).is_none_or(disturbed))
}

/// A primitive as a run knows it.
struct Known {
    range: Range,
    /// What a basis calls it.
    title: String,
}

impl Known {
    /// As measured. Else from the cycle time and the disk that the machine claims, and from coefficients; none without these.
    fn of(by: &PredictionInput<'_>, primitive: &FigureName) -> Option<Known> {
        // With a neighbour a primitive takes longer than the figures that are predicted from it.
        if let Some(metric) = primitive.find(by.known).filter(|metric| !metric.grade.has_foreign_part()) {
            return Some(Known { range: (metric.value, metric.value, metric.value), title: metric.title() });
        }
        let labels = primitive.usual_labels();
        let title = format!("{}{AS_PREDICTED}", record(primitive.metric(), &labels));
        Some(match *primitive {
            CYCLE => {
                let cycle = CycleTime::known(by);
                let title = if CYCLE.find(by.known).is_some() { CYCLE.metric().to_owned() } else { title };
                Known { range: cycle.of((1.0, 1.0, 1.0)), title }
            }
            DIRECT_READ => Known { range: disk_read(&by.setup.machine).unwrap_or(DISK_READ_UNKNOWN).times(1.0), title },
            _ => {
                let found = composition(by, Prediction::of(primitive.metric(), labels, Unit::Nanoseconds))?;
                Known { range: (found.value, found.low, found.high), title }
            }
        })
    }
}

/// A prediction by primitives and coefficients. The one that is given where no record has the figure. Where a primitive was not
/// measured, the narrower of both.
pub fn composed(by: &PredictionInput<'_>, plain: Prediction) -> Prediction {
    let asked = Prediction::of(&plain.metric, plain.labels.clone(), plain.unit);
    let stands = |found: &Prediction| plain.terms.is_empty() || found.is_fitted() || found.width() < plain.width();
    composition(by, asked).filter(stands).unwrap_or(plain)
}

/// The terms of a prediction that has none yet.
fn composition(by: &PredictionInput<'_>, asked: Prediction) -> Option<Prediction> {
    let model = model(&asked.metric, &asked.labels)?;
    let host = Host::of(&by.setup.machine, by.setup.cpu);
    let found = table().find(&key(&asked.metric, &asked.labels), &host)?;
    let parts: Vec<(FigureName, Known)> =
        model.primitives().map(|part| Some((part, Known::of(by, &part)?))).collect::<Option<_>>()?;
    let part = |primitive: &FigureName| parts.iter().find(|(part, _)| part == primitive).map(|(_, known)| known);
    let (counted, last) = model.ranges(found.ratio, found.spread, &|primitive| Some(part(primitive)?.range))?;
    let add = |prediction: Prediction, what: &str, part: Part, range: Range, basis: Basis| match part {
        Part::BaseHardware => prediction.hardware(what, range, basis),
        Part::SoftwareOverhead => prediction.software(what, range, basis),
    };
    let mut composed = asked;
    for (term, range) in model.counted.iter().filter(|term| term.count > 0.0).zip(counted) {
        let basis = Basis::counted(&part(&term.primitive)?.title, term.count);
        composed = add(composed, term.what, term.part, range, basis);
    }
    let title = &part(&model.primitive)?.title;
    let basis = Basis::fitted(title, found.ratio * model.times, model.scaling == Scaling::Against, found.records);
    Some(add(composed, model.what, model.part, last, basis))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;
    use crate::results::document::Grade;

    fn metric(name: &str, labels: &[(&str, &str)], grade: Grade, launches: u32) -> Metric {
        let labels = labels.iter().fold(Labels::none(), |labels, (key, value)| labels.with(key, value));
        Metric { name: name.to_owned(), labels, grade, launches, ..Metric::example() }
    }

    #[test]
    fn every_run_has_the_cycle_and_the_clock_call_before_all_else() {
        let machine = crate::machine::detect(std::path::Path::new("/"), std::path::Path::new("/"));
        let setup = Setup::of(machine, 0, vec![0], crate::setup::Profile::Default);
        let steps = |ids: &[&str]| -> Vec<(&str, bool)> {
            let running: Vec<_> = ids.iter().filter_map(|id| experiments::find(id)).collect();
            first_round(&running, &setup).iter().map(|step| (step.experiment.id, step.first)).collect()
        };
        let [cycle, clock_call] = [("cpu.frequency", true), ("cpu.timer", true)];
        assert_eq!(steps(&["os.signal"]), [cycle, clock_call, ("os.signal", false)]);
        assert_eq!(steps(&["os.signal", "memory.bandwidth"])[..2], [cycle, clock_call]);
        assert_eq!(steps(&["cpu.timer"]), [cycle, ("cpu.timer", false)]);
        assert_eq!(steps(&["cpu.timer", "cpu.frequency"]), [("cpu.frequency", false), ("cpu.timer", false)]);
    }

    #[test]
    fn a_primitive_beside_a_neighbour_needs_more_launches() {
        let calls = experiments::find("os.system_call").unwrap();
        let entry = |grade: Grade, launches: u32| {
            metric(KERNEL_ENTRY.metric(), &[("call", "enosys"), ("after", "same_call")], grade, launches)
        };
        for (grade, launches, disturbed) in [
            (Grade::Good, 5, false),
            (Grade::Rough, 9, false),
            (Grade::Unresolved, 4, true),
            (Grade::Contaminated, 9, true),
        ] {
            assert_eq!(is_disturbed(calls, &[entry(grade, launches)]), disturbed, "{grade:?} {launches}");
        }
        assert!(is_disturbed(calls, &[]), "none has an undisturbed batch");
        let reads = experiments::find("file.read").unwrap();
        assert!(!is_disturbed(reads, &[]), "a device answers as it does beside a neighbour");
    }

    #[test]
    fn nothing_is_composed_of_a_contaminated_primitive() {
        let machine = crate::machine::detect(std::path::Path::new("/"), std::path::Path::new("/"));
        let by = Setup::of(machine, 0, vec![0], crate::setup::Profile::Default);
        let plain = || {
            Prediction::of(
                "os.system_call.time",
                Labels::of([("after", "same_call"), ("call", "getppid")]),
                crate::results::quantity::Unit::Nanoseconds,
            )
        };
        let fitted = |grade: Grade| {
            let known = [metric(CLOCK_CALL.metric(), &[("method", "clock_gettime_syscall")], grade, 5)];
            composed(&PredictionInput { setup: &by, known: &known }, plain()).is_fitted()
        };
        assert!(fitted(Grade::Good) && !fitted(Grade::Contaminated));
    }

    #[test]
    fn every_primitive_has_a_prediction_before_anything_is_measured() {
        let machine = crate::machine::detect(std::path::Path::new("/proc/nonexistent"), std::path::Path::new("/"));
        let setup = Setup::of(machine, 0, vec![0], crate::setup::Profile::Default);
        let by = PredictionInput { setup: &setup, known: &[] };
        for primitive in PRIMITIVES {
            let Known { range: (value, low, high), title } = Known::of(&by, &primitive).expect("known");
            assert!(0.0 < low && low <= value && value <= high && title.ends_with(AS_PREDICTED), "{title} {value}");
        }
    }
}
