//! Fleets by seed, made from the node file of a real run: spreads between siblings, hours that disturb, racks, two vendors of
//! memory, missing results, dead nodes, and faults whose place is known.

use std::sync::Arc;

use fastrand::Rng;

use super::read::ReadFleet;
use super::reading::{KeyResult, Names, NodeRun, Reading};
use crate::results::compact::{Compact, CompactMetric};
use crate::results::fleet::Axis;

const RECORD: &[u8] = include_bytes!("../../records/guest-zen4-2cpu-quiet-hour/node.json");
/// Nodes of a rack.
const RACK: usize = 25;
/// Share of the variance that all results of an experiment have in common, and of that the share that stays from run to run.
const COMMON: f64 = 0.6;
const STAYS: f64 = 0.5;
/// Share of chapters of a run in a disturbed hour, and of those the share that the run notices.
const BAD_HOURS: f64 = 0.04;
const NOTICED: f64 = 0.9;
/// Share of results, and of chapters, that are missing.
const LOST: f64 = 0.01;
/// Share of nodes that never ran.
const DEAD: f64 = 0.006;
/// The faster of two levels of some system calls, as a logarithm.
const LEVEL: f64 = 0.05;
const VENDORS: f64 = 0.025;

/// What is wrong with a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Injected {
    DramSlower,
    ChannelLost,
    SmtNeighbour,
    TurboOff,
    Mitigations,
    HalfDuplex,
    SlowDisk,
    HugePagesOff,
    DiskAndDram,
    /// At the threshold: found by chance only.
    DramAtThreshold,
    /// All system calls half a per cent slower, on every node.
    Upgrade,
}

pub const FAULTS: [Injected; 10] = [
    Injected::DramSlower,
    Injected::ChannelLost,
    Injected::SmtNeighbour,
    Injected::TurboOff,
    Injected::Mitigations,
    Injected::HalfDuplex,
    Injected::SlowDisk,
    Injected::HugePagesOff,
    Injected::DiskAndDram,
    Injected::DramAtThreshold,
];

/// A fleet that can be run again and again.
pub struct Synthetic {
    seed: u64,
    base: Reading,
    names: Names,
    pub nodes: usize,
    /// Number and fault of nodes that have one.
    pub faults: Vec<(usize, Injected)>,
}

/// A normal number.
fn normal(random: &mut Rng) -> f64 {
    (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
}

/// Normal numbers that depend on names only.
fn normal_of(seed: u64, what: &[&str]) -> f64 {
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    for byte in what.iter().flat_map(|word| word.bytes().chain([0])) {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }
    normal(&mut Rng::with_seed(state))
}

/// The run of the record, with a link to another machine.
pub fn record() -> NodeRun {
    let mut run = Compact::parse(RECORD).unwrap();
    for metric in run.experiments.iter_mut().flat_map(|experiment| &mut experiment.metrics) {
        add_link(metric);
    }
    NodeRun { node: "n0".to_owned(), place: "record".to_owned(), run }
}

fn add_link(metric: &mut CompactMetric) {
    if !metric.name.starts_with("network.") {
        return;
    }
    let mut remote = Vec::new();
    for figure in metric.figures.iter().filter(|figure| figure.labels.contains("placement=other_cpu")) {
        let mut figure = figure.clone();
        figure.labels = figure.labels.replace("path=loopback placement=other_cpu", "path=remote");
        remote.push(figure);
    }
    metric.figures.extend(remote);
}

impl Synthetic {
    /// A fleet with this many nodes of each fault.
    pub fn new(seed: u64, nodes: usize, of_each: usize) -> Self {
        let names = Names::default();
        let base = Reading::of(&record(), &names);
        let mut places: Vec<usize> = (0..nodes).collect();
        Rng::with_seed(seed).shuffle(&mut places);
        let faults = FAULTS.iter().flat_map(|fault| std::iter::repeat_n(*fault, of_each));
        let faults = places.into_iter().zip(faults).collect();
        Synthetic { seed, base, names, nodes, faults }
    }

    /// What this many runs of each node leave. `upgrade` is a fault of all nodes.
    pub fn runs(&self, runs: usize, upgrade: Option<Injected>) -> ReadFleet {
        let mut readings = Vec::new();
        let mut empty = Vec::new();
        for node in 0..self.nodes {
            let mut random = Rng::with_seed(self.seed ^ (node as u64) << 20);
            if random.f64() < DEAD && self.fault(node).is_none() {
                empty.push(name(node));
                continue;
            }
            readings.extend((0..runs).map(|round| self.run(node, round, upgrade)));
        }
        ReadFleet { readings, empty, left_aside: Vec::new() }
    }

    fn fault(&self, node: usize) -> Option<Injected> {
        self.faults.iter().find(|(place, _)| *place == node).map(|(_, fault)| *fault)
    }

    fn run(&self, node: usize, round: usize, upgrade: Option<Injected>) -> Reading {
        let later = if upgrade.is_some() { 1 << 12 } else { 0 };
        let mut random = Rng::with_seed(self.seed ^ ((node as u64) << 20) ^ (((round + later) as u64) << 4) ^ 1);
        let rack = node / RACK;
        let evening = self.evening(round);
        let mut reading = self.base.clone();
        reading.node = name(node);
        reading.machine = Some(format!("{node:016x}"));
        reading.rack = Some(format!("r{rack:02}"));
        reading.id = format!("{node}-{round}-{later}");
        reading.started = format!("2026-11-{:02}T00:00:00Z", round + 1);
        let bad: Vec<(&str, bool, f64)> = CHAPTERS
            .iter()
            .filter_map(|chapter| {
                let (happens, noticed, size) = (random.f64() < BAD_HOURS, random.f64() < NOTICED, random.f64());
                happens.then_some((*chapter, noticed, 0.05 + 0.3 * size))
            })
            .collect();
        let lost: Vec<&str> = CHAPTERS.iter().copied().filter(|_| random.f64() < LOST).collect();
        let mut keys = Vec::new();
        for key in &self.base.keys {
            let chapter = chapter(&key.name.metric);
            let gone = random.f64() < LOST || lost.contains(&chapter);
            let hour = bad.iter().find(|(name, _, _)| *name == chapter);
            let mut key = key.clone();
            let mut shift = self.spread(node, round + later, rack, &key, &mut random);
            shift -= hour.map_or(0.0, |(_, _, size)| *size);
            if chapter == "file" && evening.contains(&rack) {
                shift -= 0.35;
            }
            key.contaminated = hour.is_some_and(|(_, noticed, _)| *noticed);
            for fault in [self.fault(node), upgrade].into_iter().flatten() {
                shift += effect(fault, &key);
            }
            apply(&mut key, shift);
            if self.fault(node) == Some(Injected::TurboOff) {
                slow_clock(&mut key);
            }
            if !gone {
                keys.push(key);
            }
        }
        reading.keys = keys;
        let gone = |name: &Arc<str>| lost.contains(&chapter(name));
        reading.results.retain(|name| !gone(name) && random.f64() >= LOST);
        self.change_facts(&mut reading, node);
        reading
    }

    /// Two racks have a bad evening in each round.
    fn evening(&self, round: usize) -> [usize; 2] {
        let mut random = Rng::with_seed(self.seed ^ 0x4d ^ (round as u64) << 3);
        let racks = self.nodes.div_ceil(RACK).max(2);
        if self.nodes < 8 * RACK {
            return [usize::MAX; 2];
        }
        [random.usize(..racks), random.usize(..racks)]
    }

    fn spread(&self, node: usize, round: usize, rack: usize, key: &KeyResult, random: &mut Rng) -> f64 {
        let Some(axis) = key.name.axis else { return 0.0 };
        let spread = match axis {
            Axis::Clock | Axis::Core | Axis::CacheLatency | Axis::CacheRate => 0.0015,
            Axis::SystemCalls => 0.004,
            Axis::DramLatency | Axis::DramRateOne | Axis::DramRateAll => 0.008,
            Axis::Switching | Axis::Processes | Axis::PageFaults => 0.02,
            Axis::LinkRate | Axis::LinkLatency | Axis::Loopback => 0.035,
            Axis::Disk | Axis::CachedFiles | Axis::Readers => 0.065,
        };
        let experiment = key.name.metric.rsplit_once('.').map_or("", |found| found.0);
        let (node, round, rack_name) = (node.to_string(), round.to_string(), format!("rack{rack}"));
        let stays = normal_of(self.seed, &[&node, experiment]);
        let changes = normal_of(self.seed, &[&node, experiment, &round]);
        let of_rack = 0.3 * normal_of(self.seed, &[&rack_name, experiment]);
        let common = STAYS.sqrt() * stays + (1.0 - STAYS).sqrt() * changes;
        let mut shift = spread * (COMMON.sqrt() * common + (1.0 - COMMON).sqrt() * normal(random) + of_rack);
        let is_dram = matches!(axis, Axis::DramLatency | Axis::DramRateOne | Axis::DramRateAll);
        if is_dram && vendor(node.parse().unwrap_or(0)) {
            shift -= VENDORS;
        }
        let levels = ["call=gettid", "call=read_dev_zero"];
        if levels.contains(&key.name.labels.as_str()) && random.bool() {
            shift -= LEVEL;
        }
        shift
    }

    fn change_facts(&self, reading: &mut Reading, node: usize) {
        let mut facts = vec![
            ("Memory: vendor of the modules", if vendor(node) { "B" } else { "A" }.to_owned()),
            ("Storage: serial number", format!("{node:08}")),
        ];
        match self.fault(node) {
            Some(Injected::TurboOff) => facts.push(("Processor: turbo", "off".to_owned())),
            Some(Injected::Mitigations) => facts.push(("Kernel: spectre_v2", "Mitigation: IBRS".to_owned())),
            Some(Injected::HugePagesOff) => {
                facts.push(("Memory: transparent huge pages", "never".to_owned()));
                reading.results.retain(|name| !name.contains("pages=huge"));
                reading.keys.retain(|key| !key.name.labels.contains("pages=huge"));
            }
            _ => {}
        }
        for (fact, value) in facts {
            reading.facts.retain(|(name, _)| **name != *fact);
            reading.facts.push((self.names.text(fact), self.names.text(&value)));
        }
        reading.facts.sort();
    }
}

const CHAPTERS: [&str; 5] = ["cpu", "os", "memory", "network", "file"];

fn chapter(metric: &str) -> &str {
    metric.split('.').next().unwrap_or_default()
}

pub fn name(node: usize) -> String {
    format!("n{}", node + 1)
}

/// One node in three has modules of another vendor, independent of racks.
fn vendor(node: usize) -> bool {
    node % 7 % 3 == 1
}

/// Logarithm of the effect of a fault on a result, negative is worse.
fn effect(fault: Injected, key: &KeyResult) -> f64 {
    let axis = key.name.axis;
    let of = |axes: &[Axis], size: f64| if axes.iter().any(|found| axis == Some(*found)) { size } else { 0.0 };
    let dram = [Axis::DramLatency, Axis::DramRateOne, Axis::DramRateAll];
    let disk = [Axis::Disk, Axis::Readers];
    let slow_disk = -1.6_f64.ln();
    match fault {
        Injected::DramSlower => of(&dram, -0.05),
        Injected::DramAtThreshold => of(&dram, -0.02),
        Injected::ChannelLost => of(&[Axis::DramRateAll], -0.134) + of(&[Axis::DramRateOne], -0.03),
        Injected::SmtNeighbour => of(
            &[Axis::Core, Axis::SystemCalls, Axis::Switching, Axis::Processes, Axis::PageFaults, Axis::CacheRate],
            -0.25,
        ),
        Injected::Mitigations => of(&[Axis::SystemCalls], -0.3) + of(&[Axis::Switching, Axis::PageFaults], -0.12),
        Injected::HalfDuplex => of(&[Axis::LinkRate], -0.6),
        Injected::SlowDisk => of(&disk, slow_disk),
        Injected::DiskAndDram => of(&disk, slow_disk) + of(&dram, -0.05),
        Injected::Upgrade => of(&[Axis::SystemCalls], -0.005),
        Injected::TurboOff | Injected::HugePagesOff => 0.0,
    }
}

fn apply(key: &mut KeyResult, shift: f64) {
    let factor = if key.name.higher_is_better { shift.exp() } else { (-shift).exp() };
    key.value *= factor;
    key.by_clock = key.by_clock.map(|value| value * factor);
}

/// The clock is 15 % lower: what is in cycles stays, what is in time does not.
fn slow_clock(key: &mut KeyResult) {
    if key.name.axis == Some(Axis::Clock) {
        apply(key, -0.16);
    } else if key.by_clock.is_some() {
        key.value *= if key.name.higher_is_better { 0.85 } else { 1.0 / 0.85 };
    }
}
