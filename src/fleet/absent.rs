//! Results that most nodes have and a node never had: a missing capability, such as huge pages or a second network path.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::scores::Sibling;

/// A result is expected if this share of the siblings has it.
const EXPECTED: f64 = 0.85;
/// Fewest absent results that count.
const FEWEST: usize = 2;
/// Share of the expected results of a label that must be absent.
const SHARE: f64 = 0.75;

/// For each node, the labels whose results it never had.
pub fn absent(siblings: &[Sibling<'_>]) -> Vec<Vec<String>> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut of_nodes: Vec<Vec<bool>> = Vec::new();
    for node in siblings {
        let mut has = vec![false; places.len()];
        for name in node.runs.iter().flat_map(|run| &run.results) {
            let next = places.len();
            let place = *places.entry(name).or_insert(next);
            if place >= has.len() {
                has.resize(place + 1, false);
            }
            has[place] = true;
        }
        of_nodes.push(has);
    }
    let has = |node: &[bool], place: usize| node.get(place).copied().unwrap_or(false);
    let enough = EXPECTED * siblings.len() as f64;
    let is_expected = |place: usize| of_nodes.iter().filter(|node| has(node, place)).count() as f64 >= enough;
    let expected = places.into_iter().filter(|(_, place)| is_expected(*place));
    let expected: Vec<ExpectedResult> = expected.map(|(name, place)| ExpectedResult::of(name, place)).collect();
    // How many results are expected of each label.
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    for label in expected.iter().flat_map(|result| &result.labels) {
        *sizes.entry(label).or_default() += 1;
    }
    of_nodes.iter().map(|node| of_node(&|place| has(node, place), &expected, &sizes)).collect()
}

/// A result that most siblings have.
struct ExpectedResult {
    place: usize,
    experiment: String,
    /// Each with the experiment: `memory.latency pages=huge`.
    labels: Vec<String>,
}

impl ExpectedResult {
    fn of(name: &str, place: usize) -> Self {
        let mut words = name.split(' ');
        let metric = words.next().unwrap_or_default();
        let experiment = metric.rsplit_once('.').map_or(metric, |(experiment, _)| experiment);
        let labels = words.map(|pair| format!("{experiment} {pair}")).collect();
        ExpectedResult { place, experiment: experiment.to_owned(), labels }
    }
}

fn of_node(has: &dyn Fn(usize) -> bool, expected: &[ExpectedResult], sizes: &BTreeMap<&str, usize>) -> Vec<String> {
    let missing: Vec<&ExpectedResult> = expected.iter().filter(|result| !has(result.place)).collect();
    if missing.len() < FEWEST {
        return Vec::new();
    }
    // An experiment without any result is missing: the axes say so.
    let measured: BTreeSet<&str> =
        expected.iter().filter(|result| has(result.place)).map(|result| result.experiment.as_str()).collect();
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
