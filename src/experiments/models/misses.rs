//! Why a figure lies outside the range that was predicted for it, as far as the run itself decides that.

use crate::experiments::prelude::*;
use crate::results::document::Section;
use crate::results::ratio::against_prediction;
use crate::results::wording::{by_times, capital, count};

use super::coefficients::{Host, table};
use super::families::model;
use super::key;
use crate::experiments::figure_name::FigureName;

/// A primitive moved where its value over the whole run differs by more than this from the one that was predicted with.
const MOVED: f64 = 1.1;

/// A figure outside of its range.
type Miss<'a> = (&'a Metric, &'a Prediction);

/// What explains a miss.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// With the primitive of the whole run the prediction holds.
    Primitive(String),
    /// It does not: the coefficient does not fit this machine or this hour.
    Coefficient(String),
    /// It rests on a number from outside of the run.
    Outside(String),
}

impl Cause {
    fn text(&self) -> String {
        match self {
            Cause::Primitive(why) => format!(
                "{why} The prediction holds with the value of the whole run, so the early value of that result explains \
                 the difference."
            ),
            Cause::Coefficient(term) => format!(
                "The change of the primitives is too small to explain the difference, so the coefficient of \
                 \"{term}\" does not fit here. More records of this kind of machine would decide it."
            ),
            Cause::Outside(term) => {
                format!("The least certain term is \"{term}\". A separate measurement of that term would decide it.")
            }
        }
    }
}

/// For each section, sentences about the figures that lie outside of their ranges: what was measured, what was predicted, why.
pub fn say(sections: &[Section], machine: &Machine, cpu: u32) -> Vec<Vec<String>> {
    let host = Host::of(machine, cpu);
    let all: Vec<&Metric> = sections.iter().flat_map(|section| &section.metrics).collect();
    sections.iter().map(|section| of_section(section, &all, &host)).collect()
}

fn of_section(section: &Section, all: &[&Metric], host: &Host) -> Vec<String> {
    let mut groups: Vec<(&str, Cause, Vec<Miss<'_>>)> = Vec::new();
    for metric in &section.metrics {
        let Some(prediction) = metric.prediction.as_ref() else { continue };
        let Some(cause) = cause(metric, prediction, all, host) else { continue };
        match groups.iter_mut().find(|(name, same, _)| *name == metric.name && *same == cause) {
            Some((.., found)) => found.push((metric, prediction)),
            None => groups.push((&metric.name, cause, vec![(metric, prediction)])),
        }
    }
    // The farthest first: a page with room for one shows that.
    groups.sort_by(|(.., one), (.., other)| farthest(other).1.total_cmp(&farthest(one).1));
    groups.iter().filter_map(|(_, cause, found)| sentence(cause, found)).collect()
}

/// The figure that is farthest off, and the logarithm of how far.
fn farthest<'a>(found: &[Miss<'a>]) -> (Option<&'a Metric>, f64) {
    let off = found.iter().map(|&(metric, prediction)| (Some(metric), (metric.value / prediction.value).ln().abs()));
    off.max_by(|(_, one), (_, other)| one.total_cmp(other)).unwrap_or((None, 0.0))
}

/// The figure that is farthest off speaks for those that are off for the same reason.
fn sentence(cause: &Cause, found: &[Miss<'_>]) -> Option<String> {
    let metric = farthest(found).0?;
    let others = match found.len() - 1 {
        0 => String::new(),
        more => {
            format!(" The same holds for {} of this metric.", count(more as u64, "other result", "other results"))
        }
    };
    Some(format!("{}. {}{others}", capital(&against_prediction(&metric.phrase, metric)?), cause.text()))
}

/// None where the result is not judged to be outside of the range, or its interval reaches into the range.
fn cause(metric: &Metric, prediction: &Prediction, all: &[&Metric], host: &Host) -> Option<Cause> {
    let [low, high] = metric.interval95;
    if !metric.is_outside() || low <= prediction.high && high >= prediction.low {
        return None;
    }
    let widest = prediction.terms.iter().max_by(|one, other| (one.high - one.low).total_cmp(&(other.high - other.low)));
    let outside = || Some(Cause::Outside(widest.map_or_else(String::new, |term| term.what.clone())));
    if !prediction.is_fitted() {
        return outside();
    }
    let find = |primitive: &FigureName| primitive.find(all.iter().copied());
    let again = model(&metric.name, &metric.labels).and_then(|model| {
        let (counted, scale) = model.known(&|primitive| Some(find(primitive)?.value))?;
        let found = table().find(&key(&metric.name, &metric.labels), host)?;
        Some((find(&model.primitive)?, counted + found.ratio * scale, found.spread))
    });
    let Some((primitive, value, spread)) = again else { return outside() };
    let holds = (value / spread..=value * spread).contains(&metric.value);
    let change = value / prediction.value;
    if holds && change.max(1.0 / change) > MOVED {
        return Some(Cause::Primitive(format!(
            "The prediction used the first launches of \"{}\". That result is {} over the whole run, which changes the \
             prediction by {}.",
            primitive.phrase,
            primitive.shown(),
            by_times(change)
        )));
    }
    Some(Cause::Coefficient(prediction.terms.last().map_or_else(String::new, |term| term.what.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::document::Grade;
    use crate::results::prediction::Basis;
    use crate::results::quantity::{Labels, Unit};
    use crate::results::verdict::AgainstPrediction;

    #[test]
    fn nothing_is_blamed_where_the_result_may_be_in_the_range_or_others_had_a_part_in_it() {
        let prediction = Prediction::of("a.b", Labels::none(), Unit::Nanoseconds).hardware(
            "entry",
            (40.0, 25.0, 60.0),
            Basis::guess("for the test"),
        );
        let machine = crate::machine::detect(std::path::Path::new("/proc/nonexistent"), std::path::Path::new("/"));
        let result = |value: f64, interval95: [f64; 2]| {
            let mut metric = Metric { value, interval95, prediction: Some(prediction.clone()), ..Metric::example() };
            metric.verdict.against_prediction = AgainstPrediction::Slower;
            metric
        };
        let cause_of = |metric: Metric| cause(&metric, &prediction, &[], &Host::of(&machine, 0));
        let of = |value: f64, interval95: [f64; 2]| cause_of(result(value, interval95));
        assert_eq!(of(65.0, [58.0, 72.0]), None);
        assert_eq!(of(20.0, [15.0, 25.0]), None);
        assert_eq!(of(65.0, [61.0, 72.0]), Some(Cause::Outside("entry".to_owned())));
        let outside = || result(65.0, [61.0, 72.0]);
        assert_eq!(cause_of(Metric { grade: Grade::Disturbed, ..outside() }), None);
        assert_eq!(cause_of(Metric { grade: Grade::Contaminated, ..outside() }), None);
        assert_eq!(cause_of(Metric { interval_level: 0.0, ..outside() }), None, "one launch");
    }
}
