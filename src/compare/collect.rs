//! Which results of different runs are one result: those of one metric whose labels say the same.
//!
//! Results are found by their labels and not by a search, because a file can have thousands of one metric.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::distance::Distances;
use super::{MetricFacts, PAGES, Pair, PlacedRun, SMALL_PAGES, figures, page_words};
use crate::results::compact::CompactFigure;
use crate::results::quantity::{DISTANCE, FOOTPRINT, Labels};

/// Results that differ in conditions only and are looked at for a result without one: no experiment has this many.
const MOST_ALIKE: usize = 16;

/// One result of several runs.
pub(super) struct Collected<'a> {
    pub labels: Labels,
    pub facts: MetricFacts,
    /// The number of each run that has it, and what it has.
    pub figures: Vec<(usize, &'a CompactFigure)>,
    /// True where no run has another result that differs in a condition only.
    is_alone: bool,
}

/// Whether results that were measured in other amounts of memory are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Footprints {
    /// They are: what a load of main memory costs is asked of each machine, whatever its caches are.
    Together,
    /// They are not.
    Apart,
}

/// The results of one metric.
#[derive(Default)]
struct Known<'a> {
    results: Vec<Collected<'a>>,
    /// Places by all labels.
    exact: HashMap<Labels, usize>,
    /// Places by the labels that distinguish figures.
    alike: HashMap<Labels, Vec<usize>>,
}

/// Every result of several runs by its metric, with the numbers of the runs that have it: their places in the order given.
pub(super) fn collected<'a>(
    runs: impl Iterator<Item = &'a PlacedRun>,
    footprints: Footprints,
) -> BTreeMap<String, Vec<Collected<'a>>> {
    let mut metrics: BTreeMap<&str, Known<'a>> = BTreeMap::new();
    let runs: Vec<&PlacedRun> = runs.collect();
    let distances = Distances::of(&runs);
    for (run, placed) in runs.into_iter().enumerate() {
        let labelled = figures(&placed.run).filter_map(|(facts, metric, figure)| {
            let labels = distances.labels(run, &metric.name, Labels::parse(&figure.labels)?);
            Some((metric.name.as_str(), base(&labels), labels, facts, figure))
        });
        let labelled: Vec<_> = labelled.collect();
        let mut counts: HashMap<(&str, &Labels), usize> = HashMap::new();
        for (metric, base, ..) in &labelled {
            *counts.entry((metric, base)).or_default() += 1;
        }
        for (metric, base, labels, facts, figure) in &labelled {
            let is_alone = counts[&(*metric, base)] == 1 && footprints == Footprints::Together;
            let known = metrics.entry(metric).or_default();
            // A run has a result once. A file that repeats one would count as many runs.
            let has_one = |place: &usize| known.results[*place].figures.last().is_some_and(|(last, _)| *last == run);
            match known.place(labels, base, is_alone).filter(|place| !has_one(place)) {
                Some(place) => {
                    known.results[place].figures.push((run, figure));
                    known.results[place].is_alone &= is_alone;
                }
                None if known.exact.get(labels).is_some_and(has_one) => {}
                None => known.add(
                    base,
                    Collected { labels: labels.clone(), facts: *facts, figures: vec![(run, figure)], is_alone },
                ),
            }
        }
    }
    metrics.into_iter().map(|(metric, known)| (metric.to_owned(), known.results)).collect()
}

/// The labels that distinguish figures, with the distance, which Distances adds where it is not stated.
fn base(labels: &Labels) -> Labels {
    let base = labels.without_conditions();
    match labels.get(DISTANCE) {
        Some(distance) => base.with(DISTANCE, distance),
        None => base,
    }
}

impl<'a> Known<'a> {
    /// The place of a result: that of the same labels, or else the only one that differs in conditions which one of them does not
    /// state. A result that is alone in its run may have another footprint.
    fn place(&self, labels: &Labels, base: &Labels, is_alone: bool) -> Option<usize> {
        if let Some(place) = self.exact.get(labels) {
            return Some(*place);
        }
        let places = self.alike.get(base).filter(|places| places.len() <= MOST_ALIKE)?;
        let is_alike = |known: &Collected<'_>| {
            let in_other_memory = is_alone && known.is_alone;
            known.labels.same_figure(labels)
                || in_other_memory && known.labels.without(FOOTPRINT).same_figure(&labels.without(FOOTPRINT))
        };
        let mut alike = places.iter().copied().filter(|&place| is_alike(&self.results[place]));
        alike.next().filter(|_| alike.next().is_none())
    }

    fn add(&mut self, base: &Labels, result: Collected<'a>) {
        let place = self.results.len();
        self.exact.insert(result.labels.clone(), place);
        self.alike.entry(base.clone()).or_default().push(place);
        self.results.push(result);
    }
}

/// Every result that either of the sides has.
pub(super) fn pairs<'a>(base: &'a [PlacedRun], new: &'a [PlacedRun]) -> BTreeMap<String, Vec<Pair<'a>>> {
    let all = collected(base.iter().chain(new), Footprints::Together);
    let pair = |found: Collected<'a>| Pair::of(found, base.len());
    let mut pairs: BTreeMap<String, Vec<Pair<'a>>> =
        all.into_iter().map(|(metric, found)| (metric, found.into_iter().map(pair).collect())).collect();
    let absent = base.iter().flat_map(|placed| &placed.run.experiments).flat_map(|found| &found.absent);
    let refused: HashSet<(&str, Labels)> = absent
        .filter(|absent| absent.refused)
        .filter_map(|absent| Some((absent.name.as_str(), Labels::parse(&absent.labels)?.without_conditions())))
        .collect();
    for (metric, known) in &mut pairs {
        stand_in(metric, known, |labels| refused.contains(&(metric.as_str(), labels.without_conditions())));
    }
    pairs
}

impl<'a> Pair<'a> {
    /// The figures of the base are those of the first `base_runs` runs.
    fn of(found: Collected<'a>, base_runs: usize) -> Self {
        let (base, new): (Vec<_>, Vec<_>) = found.figures.into_iter().partition(|(run, _)| *run < base_runs);
        let new = new.into_iter().map(|(run, figure)| (run - base_runs, figure)).collect();
        let mut pair = Pair { labels: found.labels, facts: found.facts, base, new, remark: None, instead: None };
        let footprints = |side: &[(usize, &CompactFigure)]| -> BTreeSet<String> {
            let labels = side.iter().filter_map(|(_, figure)| Labels::parse(&figure.labels));
            labels.filter_map(|labels| labels.get(FOOTPRINT).map(str::to_owned)).collect()
        };
        let [one, other] = [&pair.base, &pair.new].map(|side| footprints(side));
        if one.union(&other).count() > 1 {
            let words =
                |side: BTreeSet<String>| side.into_iter().collect::<Vec<_>>().join(" or ").replace("MiB", " MiB");
            pair.remark = Some(format!("in {}, new: {}", words(one), words(other)));
            pair.labels = pair.labels.without(FOOTPRINT);
        }
        pair
    }
}

/// A result that only the new runs have because the base has no such pages is compared with that of small pages, which every
/// machine has: that is what the pages save. Not where the base has such pages, and its result failed a hard check.
fn stand_in(metric: &str, known: &mut [Pair<'_>], is_refused: impl Fn(&Labels) -> bool) {
    let without_pages = |labels: &Labels| labels.without(PAGES).without(FOOTPRINT);
    let small = known.iter().enumerate().filter(|(_, pair)| !pair.base.is_empty());
    let small = small.filter(|(_, pair)| pair.labels.get(PAGES) == Some(SMALL_PAGES));
    // The first of several holds.
    let small: HashMap<Labels, usize> = small.rev().map(|(at, pair)| (without_pages(&pair.labels), at)).collect();
    for at in 0..known.len() {
        if !known[at].base.is_empty() || known[at].labels.get(PAGES).is_none() || is_refused(&known[at].labels) {
            continue;
        }
        if let Some(other) = small.get(&without_pages(&known[at].labels)).map(|&other| &known[other]) {
            let (words, base) = (page_words(metric, &other.labels), other.base.clone());
            known[at].base = base;
            known[at].instead = Some(words);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::compare;
    use super::*;
    use crate::results::compact::Compact;

    fn record(name: &str) -> PlacedRun {
        let place = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("records").join(name).join("node.json");
        PlacedRun { place: name.to_owned(), run: Compact::parse(&std::fs::read(place).unwrap()).unwrap() }
    }

    /// A run with this many results of one metric, which differ in a label.
    fn many(key: &str, count: usize) -> PlacedRun {
        let mut placed = record("guest-zen4-2cpu-calm-set");
        let metrics = placed.run.experiments.iter_mut().flat_map(|found| &mut found.metrics);
        for metric in metrics.filter(|metric| metric.name == "memory.bandwidth.rate") {
            let one = metric.figures[0].clone();
            let figure = |number: usize| CompactFigure { labels: format!("{key}={number} level=L1"), ..one.clone() };
            metric.figures = (0..count).map(figure).collect();
        }
        placed
    }

    #[test]
    fn main_memory_is_compared_whatever_its_footprint() {
        let runs = [record("guest-golden-cove-16cpu"), record("guest-zen4-2cpu-calm-set")];
        let found = compare(&runs[..1], &runs[1..], true).unwrap();
        for metric in ["memory.latency.level", "memory.bandwidth.rate", "memory.loaded_latency.time"] {
            let is_memory = |labels: &Labels| {
                labels.get("level") == Some("DRAM")
                    || labels.get("load") == Some("idle") && labels.get("level").is_none()
            };
            let row = found.rows.iter().find(|row| row.metric == metric && is_memory(&row.labels));
            let row = row.unwrap_or_else(|| panic!("no {metric} of main memory"));
            assert!(row.phrase.ends_with(" (in 1200 MiB, new: 256 MiB)"), "{}", row.phrase);
            assert_eq!(row.labels.get(FOOTPRINT), None);
        }
    }

    #[test]
    fn two_footprints_of_one_run_stay_apart() {
        let runs = [many("footprint", 2), many("footprint", 1)];
        let found = collected(runs.iter(), Footprints::Together);
        let counts: Vec<usize> = found["memory.bandwidth.rate"].iter().map(|found| found.figures.len()).collect();
        assert_eq!(counts, [2, 1], "the same footprint of both, and the other one");
    }

    #[test]
    fn a_repeated_result_is_no_second_run() {
        let mut repeated = many("bytes", 1);
        let metrics = repeated.run.experiments.iter_mut().flat_map(|found| &mut found.metrics);
        for metric in metrics {
            metric.figures = vec![metric.figures[0].clone(); 300];
        }
        let runs = [many("bytes", 1), repeated, many("bytes", 1)];
        for footprints in [Footprints::Together, Footprints::Apart] {
            for of in collected(runs.iter(), footprints).into_values().flatten() {
                let mut of_runs: Vec<usize> = of.figures.iter().map(|(run, _)| *run).collect();
                of_runs.dedup();
                assert_eq!(of_runs.len(), of.figures.len(), "{}", of.labels);
            }
        }
        let began = Instant::now();
        super::super::timeline::timeline(runs.into(), Vec::new());
        assert!(began.elapsed().as_secs_f64() < 10.0);
    }

    #[test]
    fn thousands_of_results_of_one_metric_cost_little() {
        let elapsed = |key: &str, count: usize| {
            let runs = [many(key, count), many(key, count)];
            let began = Instant::now();
            assert_eq!(collected(runs.iter(), Footprints::Together)["memory.bandwidth.rate"].len(), count);
            began.elapsed().as_secs_f64()
        };
        for key in ["bytes", "footprint", "path_depth"] {
            // By a search, ten times the results cost a hundred times as much.
            let [few, many] = [300, 3_000].map(|count| (0..3).map(|_| elapsed(key, count)).fold(f64::MAX, f64::min));
            assert!(many < 40.0 * few, "{key}: {few} s, {many} s");
        }
    }
}
