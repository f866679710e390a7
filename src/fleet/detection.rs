//! How many injected faults are found in synthetic fleets, and how many healthy nodes are named.

use std::collections::BTreeMap;

use super::synthetic::{FAULTS, Injected, Synthetic, name};
use super::*;
use crate::results::fleet::NodeVerdict;

/// Fleets that a test makes; SYSDYNO_FLEETS names another number.
const FLEETS: u64 = 3;

fn fleets() -> u64 {
    std::env::var("SYSDYNO_FLEETS").ok().and_then(|text| text.parse().ok()).unwrap_or(FLEETS)
}

#[derive(Debug, Default)]
struct Tally {
    nodes: usize,
    odd: usize,
    suspect: usize,
    undecided: usize,
    passed: usize,
}

impl Tally {
    fn count(&mut self, verdict: NodeVerdict) {
        self.nodes += 1;
        *match verdict {
            NodeVerdict::Odd => &mut self.odd,
            NodeVerdict::Suspect => &mut self.suspect,
            NodeVerdict::Undecided => &mut self.undecided,
            NodeVerdict::Healthy | NodeVerdict::NotJudged => &mut self.passed,
        } += 1;
    }
}

/// Verdicts by fault; healthy nodes last.
fn tallies(runs: usize, nodes: usize, of_each: usize) -> (BTreeMap<String, Tally>, Vec<Fleet>) {
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let mut found = Vec::new();
    for seed in 1..=fleets() {
        let synthetic = Synthetic::new(seed, nodes, of_each);
        let fleet = analyse(&synthetic.runs(runs, None), None);
        assert_eq!(fleet.groups.len(), 1);
        for node in &fleet.groups[0].nodes {
            let fault = synthetic.faults.iter().find(|(place, _)| name(*place) == node.name);
            let key = fault.map_or_else(|| "Healthy".to_owned(), |(_, fault)| format!("{fault:?}"));
            tallies.entry(key).or_default().count(node.verdict);
        }
        found.push(fleet);
    }
    (tallies, found)
}

#[test]
fn two_runs_find_the_faults_and_name_few_healthy_nodes() {
    let (tallies, found) = tallies(2, 500, 2);
    for (fault, tally) in &tallies {
        println!("{fault}: {tally:?}");
    }
    let mut all = Tally::default();
    for fault in FAULTS.iter().filter(|fault| **fault != Injected::DramAtThreshold) {
        let tally = &tallies[&format!("{fault:?}")];
        all.nodes += tally.nodes;
        all.odd += tally.odd;
        all.passed += tally.passed;
    }
    assert!(10 * all.odd >= 9 * all.nodes, "{all:?}");
    assert_eq!(all.passed, 0, "what is not found is measured again: {tallies:?}");
    assert!(tallies["Healthy"].odd as u64 <= 2 * fleets(), "{tallies:?}");
    // The vendors of the memory are named, or their difference would hide a fault of twice its size.
    for fleet in &found {
        let split =
            |axis| fleet.groups[0].splits.iter().any(|split| split.axis == axis && split.fact.contains("vendor"));
        assert!(split(Axis::DramLatency) && split(Axis::DramRateAll), "{:?}", fleet.groups[0].splits);
        assert!(fleet.groups[0].racks.iter().all(|rack| !rack.confirmed || rack.rounds.len() == 2));
    }
}

#[test]
fn one_run_makes_suspects_and_names_nobody() {
    let (tallies, _) = tallies(1, 500, 2);
    println!("{tallies:#?}");
    assert!(tallies.values().all(|tally| tally.odd == 0), "{tallies:?}");
    let faults = || {
        FAULTS.iter().filter(|fault| **fault != Injected::DramAtThreshold).map(|fault| &tallies[&format!("{fault:?}")])
    };
    assert!(faults().all(|tally| tally.passed == 0), "{tallies:?}");
    assert!(
        faults().map(|tally| tally.suspect).sum::<usize>() * 10 >= 9 * faults().map(|tally| tally.nodes).sum::<usize>()
    );
}
