//! Results that most nodes have and a node never had: a missing capability, such as huge pages or a second network path.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::scores::Sibling;

/// A result is expected if this share of the siblings has it.
const EXPECTED: f64 = 0.85;
/// Fewest absent results that count.
const FEWEST: usize = 2;
/// Share of the expected results of a label that must be absent.
const SHARE: f64 = 0.75;

/// For each node, the labels whose results it never had.
pub fn absent(siblings: &[Sibling<'_>]) -> Vec<Vec<String>> {
    let has: Vec<HashSet<&str>> = siblings.iter().map(results).collect();
    let mut nodes: HashMap<&str, usize> = HashMap::new();
    for name in has.iter().flatten() {
        *nodes.entry(name).or_default() += 1;
    }
    let enough = EXPECTED * siblings.len() as f64;
    let expected = nodes.into_iter().filter(|(_, count)| *count as f64 >= enough);
    let expected: Vec<ExpectedResult<'_>> = expected.map(|(name, _)| ExpectedResult::of(name)).collect();
    // How many results are expected of each label.
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    for label in expected.iter().flat_map(|result| &result.labels) {
        *sizes.entry(label).or_default() += 1;
    }
    has.iter().map(|node| of_node(node, &expected, &sizes)).collect()
}

/// Every result that a node had in one of its runs.
fn results<'a>(node: &Sibling<'a>) -> HashSet<&'a str> {
    node.runs.iter().flat_map(|run| &run.results).map(|name| &**name).collect()
}

/// A result that most siblings have.
struct ExpectedResult<'a> {
    name: &'a str,
    experiment: String,
    /// Each with the experiment: `memory.latency pages=huge`.
    labels: Vec<String>,
}

impl<'a> ExpectedResult<'a> {
    fn of(name: &'a str) -> Self {
        let mut words = name.split(' ');
        let metric = words.next().unwrap_or_default();
        let experiment = metric.rsplit_once('.').map_or(metric, |(experiment, _)| experiment);
        let labels = words.map(|pair| format!("{experiment} {pair}")).collect();
        ExpectedResult { name, experiment: experiment.to_owned(), labels }
    }
}

fn of_node(has: &HashSet<&str>, expected: &[ExpectedResult<'_>], sizes: &BTreeMap<&str, usize>) -> Vec<String> {
    let missing: Vec<&ExpectedResult<'_>> = expected.iter().filter(|result| !has.contains(result.name)).collect();
    if missing.len() < FEWEST {
        return Vec::new();
    }
    // An experiment without any result is missing: the axes say so.
    let measured: BTreeSet<&str> =
        expected.iter().filter(|result| has.contains(result.name)).map(|result| result.experiment.as_str()).collect();
    let mut lost: BTreeMap<&str, usize> = BTreeMap::new();
    for result in missing.into_iter().filter(|result| measured.contains(result.experiment.as_str())) {
        for label in &result.labels {
            *lost.entry(label).or_default() += 1;
        }
    }
    let counts = |(label, count): &(&str, usize)| {
        *count >= FEWEST && *count as f64 >= SHARE * sizes.get(label).copied().unwrap_or(0) as f64
    };
    lost.into_iter().filter(counts).map(|(label, _)| label.to_owned()).collect()
}
