//! Facts that differ between siblings: those of a few nodes are named, and those that split the group are tested on each axis.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::scores::{AxisScores, Sibling, scale};
use crate::results::fleet::{FactSplit, OddFact};
use crate::statistics::summary::median;

/// A value is named if at most this share of the siblings has it.
const FEW: f64 = 0.1;
/// A value splits the group if at least this share has it.
const MANY: f64 = 0.2;
/// Fewest nodes of a value that splits the group.
const FEWEST: usize = 8;
/// A fact is compared if the values of many nodes cover this share: names and numbers that differ on every node are left out.
const COVERED: f64 = 0.6;
/// Most different values of a fact that are named.
const MOST_VALUES: usize = 8;
/// A split explains an axis if the ranks of its two sides differ by this many standard errors.
const RANK_Z: f64 = 6.0;
/// And if the medians differ by this share of the scatter.
const OF_SCALE: f64 = 0.5;
/// Most facts that explain one axis.
const MOST_SPLITS: usize = 3;
/// Most facts that few nodes have and that are compared. Each takes a value of every node.
const MOST_RARE: usize = 300;
/// Beginnings of facts about devices.
const OF_DEVICES: [&str; 2] = ["Network: ", "Storage: "];
/// Stands for a fact that a node does not have.
const ABSENT: &str = "(absent)";

/// A fact of all nodes.
pub struct FactColumn {
    pub fact: Arc<str>,
    /// The value of each node.
    values: Vec<Arc<str>>,
    /// Values with the number of nodes, the most frequent first.
    counts: Vec<(Arc<str>, usize)>,
}

/// The facts of a group that can be compared.
pub fn columns(siblings: &[Sibling<'_>]) -> Vec<FactColumn> {
    let absent: Arc<str> = ABSENT.into();
    let names = compared(siblings);
    names.into_iter().map(|name| column(name, siblings, &absent)).filter(FactColumn::is_comparable).collect()
}

/// Names of the facts that are compared: those of many nodes, and a bounded number of the rare ones. No node takes all the room.
/// Each node has its turn, and devices come last, because their names differ on every node.
fn compared<'a>(siblings: &[Sibling<'a>]) -> BTreeSet<&'a Arc<str>> {
    let names = |node: &Sibling<'a>| node.last().facts.iter().map(|(name, _)| name);
    let mut nodes: HashMap<&Arc<str>, usize> = HashMap::new();
    for name in siblings.iter().flat_map(names) {
        *nodes.entry(name).or_default() += 1;
    }
    let is_rare = |name: &Arc<str>| nodes[name] as f64 <= FEW * siblings.len() as f64;
    let mut turns: HashMap<&Arc<str>, (bool, usize)> = HashMap::new();
    for node in siblings {
        let mut next = [0, 0];
        for name in names(node).filter(|name| is_rare(name)) {
            let is_device = OF_DEVICES.iter().any(|begin| name.starts_with(begin));
            let turn = &mut next[usize::from(is_device)];
            let known = turns.entry(name).or_insert((is_device, *turn));
            known.1 = known.1.min(*turn);
            *turn += 1;
        }
    }
    let mut rare: Vec<((bool, usize), &Arc<str>)> = turns.into_iter().map(|(name, turn)| (turn, name)).collect();
    rare.sort_unstable();
    rare.truncate(MOST_RARE);
    nodes.keys().copied().filter(|name| !is_rare(name)).chain(rare.into_iter().map(|(_, name)| name)).collect()
}

fn column(name: &Arc<str>, siblings: &[Sibling<'_>], absent: &Arc<str>) -> FactColumn {
    let value = |node: &Sibling<'_>| {
        let facts = &node.last().facts;
        let place = facts.binary_search_by(|(fact, _)| fact.cmp(name));
        place.map_or_else(|_| absent.clone(), |place| facts[place].1.clone())
    };
    let values: Vec<Arc<str>> = siblings.iter().map(value).collect();
    let mut counts: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
    for value in &values {
        *counts.entry(value).or_default() += 1;
    }
    let mut counts: Vec<(Arc<str>, usize)> = counts.into_iter().map(|(value, count)| (value.clone(), count)).collect();
    counts.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    FactColumn { fact: name.clone(), values, counts }
}

impl FactColumn {
    fn is_comparable(&self) -> bool {
        let all = self.values.len() as f64;
        let frequent = self.counts.iter().filter(|(_, count)| *count as f64 >= MANY * all);
        frequent.map(|(_, count)| *count as f64).sum::<f64>() >= COVERED * all
    }

    /// The values that a few nodes have.
    pub fn odd(&self, siblings: &[Sibling<'_>]) -> Vec<OddFact> {
        let few = |(_, count): &&(Arc<str>, usize)| *count as f64 <= FEW * self.values.len() as f64;
        let named = self.counts.iter().filter(few).take(MOST_VALUES);
        named
            .map(|(value, _)| OddFact {
                fact: self.fact.to_string(),
                usual: self.counts[0].0.to_string(),
                value: value.to_string(),
                nodes: (0..siblings.len())
                    .filter(|&node| self.values[node] == *value)
                    .map(|node| siblings[node].name.to_owned())
                    .collect(),
            })
            .collect()
    }

    /// Values that many nodes have, but not all.
    fn large(&self) -> Vec<&Arc<str>> {
        let all = self.values.len();
        let many = |count: usize| count as f64 >= MANY * all as f64 && count >= FEWEST && all - count >= FEWEST;
        self.counts.iter().filter(|(_, count)| many(*count)).map(|(value, _)| value).collect()
    }

    /// Values that more than a share of the nodes has.
    pub fn frequent(&self, share: f64) -> impl Iterator<Item = &Arc<str>> {
        let all = self.values.len() as f64;
        self.counts.iter().filter(move |(_, count)| *count as f64 > share * all).map(|(value, _)| value)
    }
}

/// A value that separates its nodes from the others on an axis.
struct Candidate<'a> {
    column: &'a FactColumn,
    value: &'a Arc<str>,
    rank_z: f64,
    effect: f64,
    nodes: usize,
}

/// Takes the differences between large groups of a fact out of the scores, and names them.
pub fn explain(scores: &mut AxisScores, columns: &[FactColumn]) -> Vec<FactSplit> {
    let mut splits = Vec::new();
    for _ in 0..MOST_SPLITS {
        let means = scores.means();
        let all: Vec<f64> = means.iter().filter_map(|value| *value).collect();
        let Some(centre) = median(&all) else { break };
        let candidates = columns.iter().flat_map(|column| {
            let values = column.large();
            // Of two values the rarer one is named: the other one differs by as much.
            let skipped = usize::from(values.len() == 2);
            values.into_iter().skip(skipped).filter_map(|value| candidate(column, value, &means)).collect::<Vec<_>>()
        });
        let Some(best) = candidates.reduce(|one, other| if other.rank_z > one.rank_z { other } else { one }) else {
            break;
        };
        for value in best.column.large() {
            let members: Vec<usize> = (0..means.len()).filter(|&node| best.column.values[node] == *value).collect();
            let of: Vec<f64> = members.iter().filter_map(|&node| means[node]).collect();
            let shift = median(&of).map_or(0.0, |found| found - centre);
            for node in members {
                for round in 0..scores.scores[node].len() {
                    scores.shift(node, round, shift);
                }
            }
        }
        splits.push(FactSplit {
            fact: best.column.fact.to_string(),
            axis: scores.axis,
            value: best.value.to_string(),
            nodes: best.nodes as u32,
            effect: best.effect.exp_m1(),
        });
    }
    splits
}

fn candidate<'a>(column: &'a FactColumn, value: &'a Arc<str>, means: &[Option<f64>]) -> Option<Candidate<'a>> {
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for (mean, found) in means.iter().zip(&column.values) {
        if let Some(mean) = mean {
            if found == value { inside.push(*mean) } else { outside.push(*mean) }
        }
    }
    if inside.len().min(outside.len()) < FEWEST {
        return None;
    }
    let effect = median(&inside)? - median(&outside)?;
    let within = scale(&inside).min(scale(&outside));
    let rank_z = rank_sum(&inside, &outside).abs();
    let found = Candidate { column, value, rank_z, effect, nodes: inside.len() };
    (rank_z > RANK_Z && effect.abs() > OF_SCALE * within).then_some(found)
}

/// The rank-sum statistic of Wilcoxon, in standard errors.
fn rank_sum(one: &[f64], other: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> =
        one.iter().map(|value| (*value, true)).chain(other.iter().map(|value| (*value, false))).collect();
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut sum = 0.0;
    let mut start = 0;
    while start < all.len() {
        let end = (start..all.len()).find(|&place| all[place].0 > all[start].0).unwrap_or(all.len());
        let rank = (start + end + 1) as f64 / 2.0;
        sum += rank * all[start..end].iter().filter(|(_, inside)| *inside).count() as f64;
        start = end;
    }
    let (n, m) = (one.len() as f64, other.len() as f64);
    (sum - n * (n + m + 1.0) / 2.0) / (n * m * (n + m + 1.0) / 12.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_two_samples() {
        let low: Vec<f64> = (0..20).map(f64::from).collect();
        let high: Vec<f64> = (100..120).map(f64::from).collect();
        assert!((rank_sum(&high, &low) - 5.41).abs() < 0.01);
        assert!((rank_sum(&low, &high) + rank_sum(&high, &low)).abs() < 1e-9);
        assert!(rank_sum(&low, &low).abs() < 1e-9, "ties share their ranks");
    }
}
