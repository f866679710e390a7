//! Racks: one that differs as a whole is named itself, and its nodes are compared with each other. A file server's bad evening is
//! then one rack and not forty nodes.

use std::collections::BTreeMap;

use super::axes;
use super::scores::{AxisScores, Sibling, rounds, scale};
use crate::results::fleet::OddRack;
use crate::statistics::summary::median;

/// Fewest racks of a comparison.
const FEWEST_RACKS: usize = 4;
/// Fewest nodes of a rack.
const FEWEST_NODES: usize = 4;
/// A rack is named if its median is this many deviations from that of the racks.
const LIMIT: f64 = 6.0;
/// Standard error of a median of normal values, over their standard deviation and the square root of their number.
const OF_A_MEDIAN: f64 = 1.253;

/// Takes the differences of odd racks out of the scores, and names the racks.
pub fn explain(scores: &mut AxisScores, siblings: &[Sibling<'_>]) -> Vec<OddRack> {
    let rounds = rounds(siblings);
    // Sum of the differences, most nodes, and rounds of each rack.
    let mut found: BTreeMap<&str, (f64, usize, Vec<u32>)> = BTreeMap::new();
    for round in 0..rounds {
        for (rack, effect, members) in odd(scores, siblings, round) {
            for &node in &members {
                scores.shift(node, round, effect);
            }
            let (sum, nodes, seen) = found.entry(rack).or_default();
            *sum += effect;
            *nodes = members.len().max(*nodes);
            seen.push(round as u32 + 1);
        }
    }
    let named = found.into_iter().map(|(rack, (sum, nodes, seen))| OddRack {
        rack: rack.to_owned(),
        axis: scores.axis,
        effect: (sum / seen.len() as f64).exp_m1(),
        nodes: nodes as u32,
        confirmed: seen.len() == rounds && rounds > 1,
        rounds: seen,
    });
    named.collect()
}

/// The racks that differ in a round: name, difference as a logarithm, nodes.
fn odd<'a>(scores: &AxisScores, siblings: &[Sibling<'a>], round: usize) -> Vec<(&'a str, f64, Vec<usize>)> {
    let mut racks: BTreeMap<&str, Vec<(usize, f64)>> = BTreeMap::new();
    for (node, value) in scores.round(round) {
        if let Some(rack) = siblings[node].last().rack.as_deref() {
            racks.entry(rack).or_default().push((node, value));
        }
    }
    racks.retain(|_, nodes| nodes.len() >= FEWEST_NODES);
    let values = |nodes: &[(usize, f64)]| -> Vec<f64> { nodes.iter().map(|(_, value)| *value).collect() };
    let medians: Vec<f64> = racks.values().filter_map(|nodes| median(&values(nodes))).collect();
    let Some(centre) = median(&medians).filter(|_| medians.len() >= FEWEST_RACKS) else { return Vec::new() };
    let between = scale(&medians);
    let within: Vec<f64> = racks.values().map(|nodes| scale(&values(nodes))).collect();
    let within = median(&within).unwrap_or(0.0);
    let found = racks.into_iter().zip(medians).filter_map(|((rack, nodes), middle)| {
        let effect = middle - centre;
        let limit = LIMIT * between.max(OF_A_MEDIAN * within / (nodes.len() as f64).sqrt());
        (effect.abs() > limit.max(axes::least(scores.axis)))
            .then(|| (rack, effect, nodes.iter().map(|found| found.0).collect()))
    });
    found.collect()
}
