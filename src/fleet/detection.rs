//! How many injected faults are found in synthetic fleets, and how many healthy nodes are named.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::reading::{KeyResult, Names, Reading, ResultName};
use super::synthetic::{FAULTS, Injected, Synthetic, name, record};
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

/// Half a per cent of all system calls: too little for one node, and enough for forty.
#[test]
fn an_upgrade_of_half_a_per_cent_is_found_with_forty_nodes() {
    let (mut found, mut wrong) = (0, 0);
    for seed in 1..=20 {
        let fleet = Synthetic::new(seed, 40, 0);
        let upgrade = upgrade(&fleet.runs(1, None), &fleet.runs(1, Some(Injected::Upgrade)));
        assert!(upgrade.nodes >= upgrade.least_nodes);
        let changed = |axis: Axis| upgrade.axes.iter().any(|found| found.axis == axis && found.changed);
        found += u32::from(changed(Axis::SystemCalls));
        wrong += Axis::ALL.into_iter().filter(|axis| *axis != Axis::SystemCalls && changed(*axis)).count();
    }
    println!("found {found} of 20, wrong {wrong}");
    assert!(found == 20 && wrong <= 3, "found {found} of 20, and {wrong} axes that did not change");
}

#[test]
fn limits_come_from_healthy_nodes() {
    let synthetic = Synthetic::new(5, 200, 1);
    let read = synthetic.runs(2, None);
    let fleet = analyse(&read, None);
    let limits = accepted(&read, &fleet).unwrap();
    let model = &limits.models[0];
    assert_eq!(model.nodes as usize, fleet.names(NodeVerdict::Healthy).len());
    let random = model.limits.iter().find(|limit| limit.axis == Axis::Disk).unwrap();
    assert!(random.high / random.low > 1.3, "a disk varies by more than 5 %: {random:?}");
    // The serial number is different on each node, and limits nothing.
    assert!(model.facts.iter().all(|fact| !fact.fact.contains("serial")));
    let vendors = model.facts.iter().find(|fact| fact.fact.contains("vendor")).unwrap();
    assert_eq!(vendors.values.len(), 2);
}

/// Small fleets with a change that a test chooses.
fn small(seed: u64, nodes: usize, runs: usize) -> ReadFleet {
    Synthetic::new(seed, nodes, 0).runs(runs, None)
}

/// Multiplies the results of an axis in some runs, for the worse.
fn slow_down(read: &mut ReadFleet, axis: Axis, factor: f64, which: impl Fn(&Reading) -> bool) {
    for run in read.readings.iter_mut().filter(|run| which(run)) {
        for key in run.keys.iter_mut().filter(|key| key.name.axis == Some(axis)) {
            let times = if key.name.higher_is_better { 1.0 / factor } else { factor };
            key.value *= times;
            key.by_clock = key.by_clock.map(|value| value * times);
            key.contaminated = false;
        }
    }
}

fn found<'a>(fleet: &'a Fleet, name: &str) -> &'a FleetNode {
    fleet.groups[0].nodes.iter().find(|node| node.name == name).unwrap()
}

#[test]
fn a_run_of_three_times_the_usual_duration_is_a_finding() {
    let mut read = small(3, 20, 2);
    for run in read.readings.iter_mut().filter(|run| run.node == "n3") {
        run.seconds *= 4.0;
    }
    let fleet = analyse(&read, None);
    let node = found(&fleet, "n3");
    assert!(node.verdict == NodeVerdict::Odd && (node.slow.unwrap() - 4.0).abs() < 1e-9, "{node:?}");
    assert!(fleet.groups[0].nodes.iter().filter(|node| node.slow.is_some()).count() == 1);
}

#[test]
fn a_slow_rack_is_one_finding_and_hides_no_node_of_it() {
    let mut read = Synthetic::new(9, 300, 0).runs(2, None);
    slow_down(&mut read, Axis::Disk, 1.8, |run| run.rack.as_deref() == Some("r03"));
    slow_down(&mut read, Axis::Disk, 1.8, |run| run.node == "n80");
    let fleet = analyse(&read, None);
    let racks: Vec<&OddRack> = fleet.groups[0].racks.iter().filter(|rack| rack.axis == Axis::Disk).collect();
    let slow = racks.iter().find(|rack| rack.rack == "r03").unwrap();
    assert!(slow.confirmed && (slow.effect + 0.44).abs() < 0.1, "{racks:?}");
    assert_eq!(fleet.verdict, FleetVerdict::Odd);
    let of_rack = fleet.groups[0].nodes.iter().filter(|node| node.rack.as_deref() == Some("r03"));
    let odd: Vec<&str> =
        of_rack.filter(|node| node.verdict == NodeVerdict::Odd).map(|node| node.name.as_str()).collect();
    assert_eq!(odd, ["n80"]);
}

#[test]
fn one_bad_run_of_two_is_turned_down_and_of_one_is_suspect() {
    let mut read = small(4, 40, 2);
    let disk = |node: &FleetNode| node.axes.iter().find(|axis| axis.axis == Axis::Disk).unwrap().clone();
    // A node whose two runs decide, and show nothing.
    let before = analyse(&read, None);
    let plain = |node: &&FleetNode| disk(node).runs == 2 && disk(node).z.unwrap().abs() < 0.5;
    let name = before.groups[0].nodes.iter().find(plain).unwrap().name.clone();
    slow_down(&mut read, Axis::Disk, 2.0, |run| run.node == name && run.started.contains("-01T"));
    let state = |fleet: &Fleet| disk(found(fleet, &name)).state;
    assert_eq!(state(&analyse(&read, None)), AxisState::Usual);
    read.readings.retain(|run| run.started.contains("-01T"));
    assert_eq!(state(&analyse(&read, None)), AxisState::Suspect);
}

/// What an axis of all nodes says: number of decided nodes, and the different reasons of the others.
fn decided(fleet: &Fleet, axis: Axis) -> Option<(u32, BTreeSet<&str>)> {
    let summary = fleet.groups[0].axes.iter().find(|found| found.axis == axis)?;
    let axes = fleet.groups[0].nodes.iter().flat_map(|node| &node.axes).filter(|found| found.axis == axis);
    Some((summary.decided, axes.filter_map(|found| found.reason.as_deref()).collect()))
}

/// A synthetic fleet without disturbed hours and lost results, so that only the change of a test leaves something open.
fn clean(change: impl Fn(usize, &mut Reading)) -> ReadFleet {
    let names = Names::default();
    let base = Reading::of(&record(), &names);
    let reading = |node: usize| {
        let mut run = Reading { node: name(node), id: name(node), rack: None, ..base.clone() };
        change(node, &mut run);
        run
    };
    ReadFleet { readings: (0..12).map(reading).collect(), ..ReadFleet::default() }
}

/// Twelve nodes, eleven of which agree more closely in two runs than runs of one machine do.
#[test]
fn few_siblings_that_agree_by_chance_make_no_other_one_odd() {
    let state = |between: f64| {
        let run = |time: &str| {
            let change = |node: usize, run: &mut Reading| {
                time.clone_into(&mut run.started);
                run.id.push_str(time);
                let factor = if node == 11 { 1.042 } else { 1.0 + 0.0005 * node as f64 };
                for key in run.keys.iter_mut().filter(|key| key.name.axis == Some(Axis::PageFaults)) {
                    (key.value, key.between) = (key.value * factor, between);
                    key.by_clock = key.by_clock.map(|value| value * factor);
                }
            };
            clean(change).readings
        };
        let readings = ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"].map(run).concat();
        let fleet = analyse(&ReadFleet { readings, ..ReadFleet::default() }, None);
        let node = found(&fleet, &name(11)).clone();
        node.axes.iter().find(|axis| axis.axis == Axis::PageFaults).map(|axis| (axis.state, axis.runs)).unwrap()
    };
    assert_eq!(state(0.001), (AxisState::Odd, 2));
    assert_ne!(state(0.0155), (AxisState::Odd, 2));
}

#[test]
fn what_most_nodes_measured_is_decided_or_named_as_open() {
    let is = |key: &KeyResult, axis: Axis| key.name.axis == Some(axis);
    let reasons = |reason: &'static str| Some((0, BTreeSet::from([reason])));
    let contaminated = clean(|_, run| {
        for key in run.keys.iter_mut().filter(|key| is(key, Axis::Switching)) {
            key.contaminated = true;
        }
    });
    assert_eq!(decided(&analyse(&contaminated, None), Axis::Switching), reasons("contaminated"));
    // One key result in three is left: it does not speak for the axis.
    let mostly = clean(|_, run| {
        for (number, key) in run.keys.iter_mut().filter(|key| is(key, Axis::CacheRate)).enumerate() {
            key.contaminated = number % 3 != 0;
        }
    });
    assert_eq!(decided(&analyse(&mostly, None), Axis::CacheRate), reasons("contaminated"));
    let refused = clean(|_, run| {
        run.keys.retain(|key| !is(key, Axis::DramRateAll));
        run.refused.push((Axis::DramRateAll, "memory.bandwidth.rate".into()));
    });
    let fleet = analyse(&refused, None);
    assert_eq!(decided(&fleet, Axis::DramRateAll), reasons("refused"));
    assert_eq!((fleet.verdict, fleet.names(NodeVerdict::Undecided).len()), (FleetVerdict::Undecided, 12));
    // Limits come from what is decided.
    let limits = accepted(&refused, &fleet).unwrap();
    assert!(
        limits.models[0].nodes == 12 && limits.models[0].limits.iter().all(|found| found.axis != Axis::DramRateAll)
    );
    // Each node has other results: of other numbers of threads, for example.
    let different = clean(|node, run| {
        for key in run.keys.iter_mut().filter(|key| is(key, Axis::DramRateAll)) {
            let labels = format!("{} threads={node}", key.name.labels);
            let (metric, unit) = (key.name.metric.clone(), key.name.unit);
            key.name = Arc::new(ResultName { metric, labels, unit, higher_is_better: true, axis: key.name.axis });
        }
        run.keys.sort_by(|one, other| one.name.cmp(&other.name));
    });
    assert_eq!(decided(&analyse(&different, None), Axis::DramRateAll), reasons("not comparable"));
    // An axis that most nodes did not measure is absent, and no node is undecided because of it.
    let few = clean(|node, run| run.keys.retain(|key| node < 5 || !is(key, Axis::LinkRate)));
    let fleet = analyse(&few, None);
    assert_eq!((decided(&fleet, Axis::LinkRate), fleet.verdict), (None, FleetVerdict::NothingOdd));
}

#[test]
fn an_upgrade_names_the_axes_that_it_cannot_compare() {
    let before = clean(|_, run| {
        for key in run.keys.iter_mut().filter(|key| key.name.axis == Some(Axis::Switching)) {
            key.contaminated = true;
        }
        run.keys.retain(|key| key.name.axis != Some(Axis::LinkRate));
    });
    let found = upgrade(&before, &clean(|_, _| ()));
    assert_eq!(found.undecided, [Axis::Switching]);
    assert!(found.axes.iter().all(|axis| ![Axis::Switching, Axis::LinkRate].contains(&axis.axis)), "{found:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_order_of_files_does_not_matter(seed in 0_u64..1000, nodes in 1_usize..30) {
        let mut read = small(seed, nodes, 2);
        let one = analyse(&read, None);
        // The reader orders by node and start; nodes of another order are the same nodes.
        read.readings.sort_by(|one, other| other.node.cmp(&one.node).then_with(|| one.started.cmp(&other.started)));
        prop_assert_eq!(one.groups, analyse(&read, None).groups);
    }

    #[test]
    fn missing_halves_end_in_an_answer(seed in 0_u64..1000, nodes in 0_usize..30) {
        let mut read = small(seed, nodes, 2);
        let mut random = fastrand::Rng::with_seed(seed);
        for run in &mut read.readings {
            run.keys.retain(|_| random.bool());
            run.results.retain(|_| random.bool());
            run.facts.retain(|_| random.bool());
        }
        read.readings.retain(|_| random.bool());
        let fleet = analyse(&read, None);
        let judged: usize = fleet.groups.iter().map(|group| group.nodes.len()).sum();
        prop_assert!(judged <= nodes);
        for (_, node) in [NodeVerdict::Odd, NodeVerdict::Suspect].into_iter().flat_map(|verdict| fleet.nodes(verdict)) {
            prop_assert!(node.axes.iter().all(|axis| axis.effect.is_none_or(f64::is_finite)));
        }
    }

    #[test]
    fn alike_nodes_are_healthy_and_one_node_is_not_judged(nodes in 1_usize..30) {
        let read = small(1, 1, 1);
        let alike = |node: usize| Reading { node: name(node), id: format!("{node}"), ..read.readings[0].clone() };
        let fleet = analyse(&ReadFleet { readings: (0..nodes).map(alike).collect(), ..ReadFleet::default() }, None);
        let verdict = if nodes < LEAST_NODES { NodeVerdict::NotJudged } else { NodeVerdict::Healthy };
        prop_assert_eq!(fleet.nodes(verdict).count(), nodes, "{:?}", fleet.groups);
    }
}

/// Nodes that all differ have no usual node. Chance names one in some ten thousands (2 of 39,754 with 1000 seeds).
#[test]
fn where_all_are_different_hardly_any_is_odd() {
    let (mut nodes, mut odd) = (0, Vec::new());
    for seed in 0..50 {
        let mut read = small(seed, 40, 2);
        for (number, run) in read.readings.iter_mut().enumerate() {
            // The same factor in both runs of a node, and another one for each node.
            let times = 1.0 + 0.02 * (number / 2) as f64;
            for key in &mut run.keys {
                key.value *= times;
                key.by_clock = key.by_clock.map(|value| value * times);
            }
        }
        let fleet = analyse(&read, None);
        nodes += fleet.groups[0].nodes.len();
        odd.extend(fleet.names(NodeVerdict::Odd).into_iter().map(|node| format!("{node} of seed {seed}")));
    }
    println!("{} of {nodes}: {odd:?}", odd.len());
    assert!(nodes > 50 * 38 && 1000 * odd.len() <= nodes, "{odd:?} of {nodes}");
}
