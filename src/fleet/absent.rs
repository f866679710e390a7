//! Results that most nodes have and a node never had: a missing capability, such as huge pages or a second network path.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::scores::Sibling;

/// A result is expected if this share of the siblings has it.
const EXPECTED: f64 = 0.85;
/// Fewest absent results that count.
const FEWEST: usize = 2;
/// Share of the expected results of a label that must be absent.
const SHARE: f64 = 0.75;

/// For each node, the labels whose results it never had.
pub fn absent(siblings: &[Sibling<'_>]) -> Vec<Vec<String>> {
    let mut seen: HashMap<&Arc<str>, usize> = HashMap::new();
    let of_nodes: Vec<BTreeSet<&Arc<str>>> =
        siblings.iter().map(|node| node.runs.iter().flat_map(|run| &run.results).collect()).collect();
    for name in of_nodes.iter().flatten() {
        *seen.entry(name).or_default() += 1;
    }
    let enough = EXPECTED * siblings.len() as f64;
    let expected: BTreeSet<&Arc<str>> =
        seen.into_iter().filter(|(_, count)| *count as f64 >= enough).map(|(name, _)| name).collect();
    // How many results are expected of each group, and which groups each result belongs to.
    let groups: Vec<(&Arc<str>, Vec<String>)> = expected.iter().map(|name| (*name, groups(name))).collect();
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    for group in groups.iter().flat_map(|(_, groups)| groups) {
        *sizes.entry(group).or_default() += 1;
    }
    of_nodes.iter().map(|results| of_node(results, &groups, &sizes)).collect()
}

/// A label of an experiment: `memory.latency pages=huge`.
fn groups(result: &str) -> Vec<String> {
    let mut words = result.split(' ');
    let experiment = experiment(words.next().unwrap_or_default());
    words.map(|pair| format!("{experiment} {pair}")).collect()
}

fn experiment(metric: &str) -> &str {
    metric.rsplit_once('.').map_or(metric, |(experiment, _)| experiment)
}

fn of_node(
    results: &BTreeSet<&Arc<str>>,
    groups: &[(&Arc<str>, Vec<String>)],
    sizes: &BTreeMap<&str, usize>,
) -> Vec<String> {
    // An experiment without any result is missing: the axes say so.
    let measured: BTreeSet<&str> = results.iter().map(|name| experiment(first_word(name))).collect();
    let mut lost: BTreeMap<&str, usize> = BTreeMap::new();
    let missing = groups.iter().filter(|(name, _)| !results.contains(*name));
    for (_, labels) in missing.filter(|(name, _)| measured.contains(experiment(first_word(name)))) {
        for label in labels {
            *lost.entry(label).or_default() += 1;
        }
    }
    let counts = |(label, count): &(&str, usize)| {
        *count >= FEWEST && *count as f64 >= SHARE * sizes.get(label).copied().unwrap_or(0) as f64
    };
    lost.into_iter().filter(counts).map(|(label, _)| label.to_owned()).collect()
}

fn first_word(result: &str) -> &str {
    result.split(' ').next().unwrap_or_default()
}
