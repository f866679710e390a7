//! How far apart the CPUs of a run's pairs were, where the run itself does not say: it saw one distance only. The time that a cache
//! line took says which one, where another run saw both.

use std::collections::BTreeSet;

use super::PlacedRun;
use crate::evaluate::distance::{FAR, NEAR};
use crate::results::compact::CompactFigure;
use crate::results::quantity::{DISTANCE, Labels};
use crate::statistics::summary::median;

/// The metric of a cache line's way between two CPUs.
const LINE: &str = "os.cache_line_transfer.time";

/// A line belongs to a distance if it is this many times as near to that line as to the other one, in logarithms.
const NEARER: f64 = 2.0;

/// What the runs of a comparison say about distances.
pub(super) struct Distances {
    /// Results that some run has by distance, without that label.
    stated: BTreeSet<(String, Labels)>,
    /// The distance of each run that saw only one, by its number.
    only: Vec<Option<&'static str>>,
}

impl Distances {
    /// Of runs, in the order of their numbers.
    pub(super) fn of(runs: &[&PlacedRun]) -> Self {
        let stated = runs.iter().flat_map(|run| by_distance(run)).collect();
        let ways = |distance: &str| -> Vec<f64> {
            let lines = runs.iter().flat_map(|run| lines(run));
            lines.filter(|(labels, _)| labels.get(DISTANCE) == Some(distance)).map(|(_, line)| line.value).collect()
        };
        let known = median(&ways(NEAR)).zip(median(&ways(FAR)));
        let usual = |run: &PlacedRun| lines(run).max_by_key(|(_, line)| line.launches).map(|(_, line)| line.value);
        let only = runs.iter().map(|run| of_line(usual(run)?, known?)).collect();
        Distances { stated, only }
    }

    /// The labels of a run's result, with the distance where other runs state it and the cache line of this run shows it.
    pub(super) fn labels(&self, run: usize, metric: &str, labels: Labels) -> Labels {
        let unstated = labels.get(DISTANCE).is_none() && self.stated.contains(&(metric.to_owned(), labels.clone()));
        match self.only.get(run).copied().flatten().filter(|_| unstated) {
            Some(distance) => labels.with(DISTANCE, distance),
            None => labels,
        }
    }
}

/// To which of two ways, near and far, a line's way belongs; none where it lies between them.
fn of_line(line: f64, (near, far): (f64, f64)) -> Option<&'static str> {
    let apart = |way: f64| (line / way).ln().abs();
    if apart(near) * NEARER <= apart(far) {
        Some(NEAR)
    } else if apart(far) * NEARER <= apart(near) {
        Some(FAR)
    } else {
        None
    }
}

fn lines(run: &PlacedRun) -> impl Iterator<Item = (Labels, &CompactFigure)> {
    let metrics = run.run.experiments.iter().flat_map(|found| &found.metrics).filter(|metric| metric.name == LINE);
    metrics.flat_map(|metric| &metric.figures).filter_map(|figure| Some((Labels::parse(&figure.labels)?, figure)))
}

/// The results of a run that it has by distance, without that label.
fn by_distance(run: &PlacedRun) -> impl Iterator<Item = (String, Labels)> {
    run.run.experiments.iter().flat_map(|found| &found.metrics).flat_map(|metric| {
        let labels = metric.figures.iter().filter_map(|figure| Labels::parse(&figure.labels));
        let stated = labels.filter(|labels| labels.get(DISTANCE).is_some());
        stated.map(|labels| (metric.name.clone(), labels.without(DISTANCE)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_belongs_to_the_distance_that_it_is_clearly_nearer_to() {
        let ways = (42.0, 195.0);
        assert_eq!([28.0, 45.0, 60.0].map(|line| of_line(line, ways)), [Some(NEAR); 3]);
        assert_eq!([180.0, 240.0].map(|line| of_line(line, ways)), [Some(FAR); 2]);
        assert_eq!(of_line(90.0, ways), None);
    }
}
