//! One number for each axis and run: how far the key results are from those of the siblings, as a logarithm. Positive is better.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::reading::{KeyResult, Reading, ResultName};
use crate::results::fleet::Axis;
use crate::statistics::summary::{NORMAL_CONSISTENCY, median, median_absolute_deviation};

/// A result is a key result of the group if this share of its nodes has it.
const COMMON: f64 = 0.5;
/// Results are taken in cycles if this share of the runs has them in cycles.
pub const IN_CYCLES: f64 = 0.85;
/// A run decides an axis if this share of the key results can be used.
const USABLE: f64 = 0.5;
/// A round with fewer values has no centre: all rounds together have.
const FEWEST: usize = 8;
/// Smallest scatter between siblings, as a logarithm. Numbers of node files have six digits.
const LEAST_SCALE: f64 = 1e-5;

/// A node with its runs in the order of time.
#[derive(Debug, Clone)]
pub struct Sibling<'a> {
    pub name: &'a str,
    pub runs: Vec<&'a Reading>,
}

impl<'a> Sibling<'a> {
    /// The newest run.
    pub fn last(&self) -> &'a Reading {
        self.runs[self.runs.len() - 1]
    }
}

/// What a run says about an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Score {
    /// Difference from the siblings.
    Decided(f64),
    /// Too many key results are contaminated.
    Contaminated,
    /// Too many key results failed a check.
    Refused,
    /// No key result is one that most siblings have.
    Incomparable,
    /// Too many key results are missing.
    Missing,
}

impl Score {
    /// The difference, if there is one.
    pub fn value(self) -> Option<f64> {
        if let Score::Decided(value) = self { Some(value) } else { None }
    }
}

/// The scores of all runs on one axis.
pub struct AxisScores {
    pub axis: Axis,
    /// Names of the key results that decide; where none does, of those that nodes have.
    pub keys: Vec<String>,
    /// For each node, for each run.
    pub scores: Vec<Vec<Score>>,
    /// Standard deviation between runs of one machine, as the key results state it.
    pub between: f64,
}

/// A key result of the group over all runs.
struct KeyColumn {
    in_cycles: bool,
    /// Median of logarithms, for each round.
    centres: Vec<f64>,
    scale: f64,
}

impl AxisScores {
    /// The scores of a group on one axis; none where most nodes did not measure it. Where most did, and no key result can be
    /// compared, no node is decided: without the axis, they would pass as healthy on it.
    pub fn of(axis: Axis, siblings: &[Sibling<'_>]) -> Option<Self> {
        let rounds = rounds(siblings);
        let keys = common(axis, siblings);
        if keys.is_empty() && !is_measured(axis, siblings) {
            return None;
        }
        let columns: Vec<Option<KeyColumn>> = keys.iter().map(|name| column(name, siblings, rounds)).collect();
        let of_run = |(round, run): (usize, &&Reading)| match columns.as_slice() {
            [] => open(axis, run),
            columns => score(axis, &keys, columns, round, run),
        };
        let scores = siblings.iter().map(|node| node.runs.iter().enumerate().map(of_run).collect()).collect();
        let decide = keys.iter().zip(&columns).filter(|(_, column)| column.is_some()).map(|(name, _)| name.text());
        let decide: Vec<String> = decide.collect();
        let between = between_runs(&keys, siblings);
        Some(AxisScores {
            axis,
            keys: if decide.is_empty() { all_names(axis, siblings) } else { decide },
            scores,
            between,
        })
    }

    /// The decided scores of one round, with the numbers of the nodes.
    pub fn round(&self, round: usize) -> Vec<(usize, f64)> {
        let of = |(node, runs): (usize, &Vec<Score>)| Some((node, runs.get(round)?.value()?));
        self.scores.iter().enumerate().filter_map(of).collect()
    }

    /// Mean over the decided runs of each node.
    pub fn means(&self) -> Vec<Option<f64>> {
        self.scores.iter().map(|runs| mean(&decided(runs))).collect()
    }

    /// Takes something away from the score of one run.
    pub fn shift(&mut self, node: usize, round: usize, by: f64) {
        if let Some(Score::Decided(value)) = self.scores[node].get_mut(round) {
            *value -= by;
        }
    }
}

/// The decided scores of a node.
pub fn decided(runs: &[Score]) -> Vec<f64> {
    runs.iter().filter_map(|score| score.value()).collect()
}

/// Mean of some values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Most runs of a node.
pub fn rounds(siblings: &[Sibling<'_>]) -> usize {
    siblings.iter().map(|node| node.runs.len()).max().unwrap_or(0)
}

/// Robust standard deviation. The median absolute deviation of few values is often too small by chance: the factor keeps the
/// rate of values beyond four of them near that of many.
pub fn scale(values: &[f64]) -> f64 {
    let deviation = median_absolute_deviation(values).unwrap_or(0.0) * NORMAL_CONSISTENCY;
    (deviation * (1.0 + 10.0 / values.len().max(1) as f64)).max(LEAST_SCALE)
}

/// The key results of an axis that most nodes have.
fn common(axis: Axis, siblings: &[Sibling<'_>]) -> Vec<Arc<ResultName>> {
    let mut seen: BTreeMap<&Arc<ResultName>, usize> = BTreeMap::new();
    for node in siblings {
        let mut of_node: Vec<&Arc<ResultName>> =
            node.runs.iter().flat_map(|run| &run.keys).map(|key| &key.name).collect();
        of_node.retain(|name| name.axis == Some(axis));
        of_node.sort();
        of_node.dedup();
        for name in of_node {
            *seen.entry(name).or_default() += 1;
        }
    }
    let enough = COMMON * siblings.len() as f64;
    seen.into_iter().filter(|(_, count)| *count as f64 >= enough).map(|(name, _)| name.clone()).collect()
}

/// Whether most nodes have results of an axis, usable or not.
fn is_measured(axis: Axis, siblings: &[Sibling<'_>]) -> bool {
    let has = |node: &&Sibling<'_>| node.runs.iter().any(|run| run.has(axis));
    siblings.iter().filter(has).count() as f64 >= COMMON * siblings.len() as f64
}

/// All results that any run has on an axis, usable or not.
fn all_names(axis: Axis, siblings: &[Sibling<'_>]) -> Vec<String> {
    let runs = || siblings.iter().flat_map(|node| &node.runs);
    let keys = runs().flat_map(|run| &run.keys).filter(|key| key.name.axis == Some(axis)).map(|key| key.name.text());
    let refused = runs().flat_map(|run| &run.refused).filter(|(of, _)| *of == axis).map(|(_, name)| name.to_string());
    keys.chain(refused).collect::<BTreeSet<String>>().into_iter().collect()
}

/// Median of the standard deviations between runs of all usable key results.
fn between_runs(keys: &[Arc<ResultName>], siblings: &[Sibling<'_>]) -> f64 {
    let runs = || siblings.iter().flat_map(|node| &node.runs);
    let usable = keys.iter().flat_map(|name| runs().filter_map(|run| find(run, name))).filter(|key| !key.contaminated);
    median(&usable.map(|key| key.between).collect::<Vec<f64>>()).unwrap_or(0.0)
}

fn find<'a>(run: &'a Reading, name: &Arc<ResultName>) -> Option<&'a KeyResult> {
    let place = run.keys.binary_search_by(|key| key.name.cmp(name)).ok()?;
    Some(&run.keys[place])
}

/// A key result over all runs; none where no run can use it.
fn column(name: &Arc<ResultName>, siblings: &[Sibling<'_>], rounds: usize) -> Option<KeyColumn> {
    let found = |run: &&'_ Reading| find(run, name).cloned();
    let all: Vec<Vec<Option<KeyResult>>> = siblings.iter().map(|node| node.runs.iter().map(found).collect()).collect();
    let (mut have, mut cycles) = (0_usize, 0_usize);
    for key in all.iter().flatten().flatten() {
        have += 1;
        cycles += usize::from(key.by_clock.is_some());
    }
    let in_cycles = cycles as f64 >= IN_CYCLES * have as f64;
    let usable = |key: &Option<KeyResult>| logarithm(key.as_ref().filter(|key| !key.contaminated)?, in_cycles);
    let of_round = |round: usize| -> Vec<f64> { all.iter().filter_map(|runs| usable(runs.get(round)?)).collect() };
    let pooled: Vec<f64> = (0..rounds).flat_map(of_round).collect();
    let centre_of_all = median(&pooled)?;
    let mut centres = Vec::new();
    let mut differences = Vec::new();
    for round in 0..rounds {
        let values = of_round(round);
        let centre = median(&values).filter(|_| values.len() >= FEWEST).unwrap_or(centre_of_all);
        differences.extend(values.iter().map(|value| value - centre));
        centres.push(centre);
    }
    Some(KeyColumn { in_cycles, centres, scale: scale(&differences) })
}

/// Logarithm of a key result, larger is better.
pub fn logarithm(key: &KeyResult, in_cycles: bool) -> Option<f64> {
    let value = if in_cycles { key.by_clock? } else { key.value };
    Some(if key.name.higher_is_better { value.ln() } else { -value.ln() })
}

/// The weighted median of the differences of the key results.
fn score(axis: Axis, keys: &[Arc<ResultName>], columns: &[Option<KeyColumn>], round: usize, run: &Reading) -> Score {
    let (mut differences, mut contaminated) = (Vec::new(), 0_usize);
    for (name, column) in keys.iter().zip(columns) {
        let Some(key) = find(run, name) else { continue };
        if key.contaminated {
            contaminated += 1;
        } else if let Some(column) = column
            && let Some(value) = logarithm(key, column.in_cycles)
        {
            differences.push((value - column.centres[round], 1.0 / column.scale.hypot(key.error)));
        }
    }
    // Key results that are contaminated in every run count too: one of four that is left does not speak for the axis.
    let is_enough = |number: usize| number as f64 >= USABLE * keys.len() as f64;
    let disturbed = contaminated + differences.len();
    let refused = run.refused_on(axis);
    match weighted_median(&mut differences).filter(|_| is_enough(differences.len())) {
        Some(value) => Score::Decided(value),
        None if contaminated > 0 && is_enough(disturbed) => Score::Contaminated,
        None if refused > 0 && is_enough(disturbed + refused) => Score::Refused,
        None => Score::Missing,
    }
}

/// Why a run decides nothing on an axis of which the siblings have no key result in common.
fn open(axis: Axis, run: &Reading) -> Score {
    let mut keys = run.keys.iter().filter(|key| key.name.axis == Some(axis)).peekable();
    match () {
        () if keys.peek().is_none() && run.refused_on(axis) > 0 => Score::Refused,
        () if keys.peek().is_none() => Score::Missing,
        () if keys.all(|key| key.contaminated) => Score::Contaminated,
        () => Score::Incomparable,
    }
}

/// Median of values with weights: half of the weight is on each side.
pub fn weighted_median(values: &mut [(f64, f64)]) -> Option<f64> {
    values.sort_by(|one, other| one.0.total_cmp(&other.0));
    let half = values.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut below = 0.0;
    for (place, (value, weight)) in values.iter().enumerate() {
        below += weight;
        if below > half * (1.0 + 1e-12) {
            return Some(*value);
        }
        if below >= half * (1.0 - 1e-12) {
            let next = values.get(place + 1).map_or(*value, |(next, _)| *next);
            return Some(f64::midpoint(*value, next));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_weight_is_on_each_side() {
        let of = |values: &[(f64, f64)]| weighted_median(&mut values.to_vec());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(3.0, 1.0)]), Some(3.0));
        assert_eq!(of(&[(3.0, 1.0), (1.0, 1.0)]), Some(2.0));
        assert_eq!(of(&[(3.0, 1.0), (1.0, 1.0), (2.0, 1.0)]), Some(2.0));
        assert_eq!(of(&[(3.0, 5.0), (1.0, 1.0), (2.0, 1.0)]), Some(3.0));
    }

    #[test]
    fn alike_values_have_the_least_scale() {
        assert!((scale(&[2.0; 9]) - LEAST_SCALE).abs() < 1e-18);
        let values: Vec<f64> = (0..1000).map(f64::from).collect();
        assert!((scale(&values) / 370.0 - 1.0).abs() < 0.02, "{}", scale(&values));
    }
}
