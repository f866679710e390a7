//! G7: twice the operations take twice as long. What does not grow with its operations was optimised away, answered from
//! somewhere else, or is mostly what stands around it. Launches time a few pairs of batches during their warm-up.

use std::collections::BTreeMap;

use crate::results::quantity::Labels;
use crate::results::verdict::Gate;
use crate::statistics::summary::median;

use super::gate::{Number, rules};
use super::study::Study;

/// What twice the operations may take, in times of once the operations.
const DOUBLE: [f64; 2] = [1.96, 2.04];
/// The chapter whose operations wait for nothing but the core.
const OF_THE_CORE: &str = "cpu.";

rules! {
    PROPORTIONAL: "G7" Hard "batches of the chapter cpu", "twice the operations take {} to {} times as long, in the median of the launches", plain(DOUBLE[0]), plain(DOUBLE[1]);
    HARDLY_PROPORTIONAL: "G7" Noisy "batches of other chapters", "twice the operations take {} to {} times as long, in the median of the launches", plain(DOUBLE[0]), plain(DOUBLE[1]);
}

/// The gate of a figure whose series has pairs: median of each launch, median over launches, because an interrupt or a neighbour
/// on the core may meet one side of a pair. Of several series with its labels the one furthest from 2 counts.
pub fn gate(study: &Study<'_>, labels: &Labels) -> Option<Gate> {
    let mut ratios: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for series in study.launches.iter().flat_map(|launch| &launch.series) {
        if let Some(ratio) = series.linearity.filter(|_| series.labels.same_figure(labels)) {
            ratios.entry(&series.name).or_default().push(ratio);
        }
    }
    let apart = |ratio: f64| (ratio - 2.0).abs();
    let furthest = ratios
        .values()
        .filter_map(|launches| Some((median(launches)?, launches.len())))
        .max_by(|one, other| apart(one.0).total_cmp(&apart(other.0)))?;
    let is_of_the_core = study.launches.iter().any(|launch| launch.experiment.starts_with(OF_THE_CORE));
    let rule = if is_of_the_core { &PROPORTIONAL } else { &HARDLY_PROPORTIONAL };
    let ratio = Number::plain(furthest.0).named("twice the operations take {} times as long");
    Some(Gate::between(rule, ratio, DOUBLE[0], DOUBLE[1]).because(format!("median of {} launches", furthest.1)))
}
