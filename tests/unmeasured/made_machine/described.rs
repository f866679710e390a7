//! Writes the description of the made machine from logs of real runs.

use std::collections::BTreeMap;

use sysdyno::testing::experiments;
use sysdyno::testing::results::evidence::Remark;
use sysdyno::testing::results::log::{self, Launch, Log, Record};
use sysdyno::testing::results::quantity::{Labels, Unit};
use sysdyno::testing::results::series::{Class, Classes, Series};
use sysdyno::testing::statistics::summary::median;

use super::{LINE, calm, is_of_shots, place, ticks_per_cycle};

/// Longest list that is described with all of its values.
const LONGEST: usize = 80;

/// Six digits of a number.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap()
}

/// One series for all series of a name with the same labels: the median of batches or shots, or the last list.
fn typical(experiment: &str, all: &[&Series], clock: f64) -> Series {
    let last = *all.last().unwrap();
    let is_batches = !last.classes.0.is_empty();
    if !is_batches && !is_of_shots(experiment, last) {
        let mut values =
            all.iter().find(|series| !series.values.is_empty()).map_or(&last.values, |found| &found.values).clone();
        values.truncate(LONGEST);
        return Series { values, ..last.clone() };
    }
    let operations = median(&all.iter().map(|series| series.operations as f64).collect::<Vec<f64>>()).unwrap().round();
    let is_clocked = !last.clock.is_empty();
    let costs = |clean: bool| -> Vec<f64> {
        let of = |series: &&Series| -> Vec<f64> {
            let kept = (0..series.values.len()).filter(|&index| !clean || series.class(index) == Class::Clean);
            let clock = |index: usize| if is_clocked { series.clock[index] / clock } else { 1.0 };
            kept.map(|index| series.values[index] / series.operations as f64 / clock(index)).collect()
        };
        all.iter().flat_map(of).collect()
    };
    let cost = median(&costs(true)).or_else(|| median(&costs(false))).unwrap();
    let alone = |had: &Vec<[f64; 2]>| if had.is_empty() { Vec::new() } else { vec![[1.0; 2]] };
    Series {
        values: vec![rounded(cost * operations)],
        operations: operations as u64,
        clock: if is_clocked { vec![clock] } else { Vec::new() },
        widths: alone(&last.widths),
        lines: if last.lines.is_empty() { Vec::new() } else { vec![[LINE; 2]] },
        partner_widths: alone(&last.partner_widths),
        beside_partner: alone(&last.beside_partner),
        linearity: last.linearity.map(|_| 2.0),
        classes: if is_batches { Classes(vec![Class::Clean]) } else { Classes::default() },
        ..last.clone()
    }
}

/// One launch for all launches of an experiment.
fn described(experiment: &str, launches: &[&Launch], clock: f64) -> Launch {
    let mut order: Vec<(String, Labels)> = Vec::new();
    let mut all: BTreeMap<(String, String), Vec<&Series>> = BTreeMap::new();
    let mut remarks: BTreeMap<String, Remark> = BTreeMap::new();
    for launch in launches {
        for series in &launch.series {
            let key = (series.name.clone(), series.labels.clone());
            all.entry((series.name.clone(), series.labels.to_string()))
                .or_insert_with(|| {
                    order.push(key);
                    Vec::new()
                })
                .push(series);
        }
        for remark in launch.evidence.iter().flat_map(|evidence| &evidence.remarks) {
            if !["unavailable", "wrong"].iter().any(|word| remark.what.starts_with(word)) {
                remarks.insert(remark.what.clone(), remark.clone());
            }
        }
    }
    let series =
        order.iter().map(|(name, labels)| typical(experiment, &all[&(name.clone(), labels.to_string())], clock));
    let last = launches.last().unwrap();
    let seconds: Vec<f64> =
        launches.iter().filter(|launch| !launch.first).filter_map(|launch| launch.seconds).collect();
    let mut evidence = calm(clock, last.evidence.as_ref().unwrap());
    evidence.remarks = remarks.into_values().collect();
    Launch {
        number: 1,
        round: 1,
        first: false,
        series: series.collect(),
        evidence: Some(evidence),
        seconds: median(&seconds).map(rounded),
        ..(*last).clone()
    }
}

/// Steps of a cost over footprints, as caches of these sizes make them.
fn stairs(bytes: f64, claims: &[f64], costs: &[f64]) -> f64 {
    costs[claims.iter().take_while(|size| bytes > **size).count()]
}

/// Gives the loads of a machine the stairs of its caches and translation buffers.
fn give_stairs(log: &mut Log, clock: f64) {
    let nanoseconds = log.clock.as_ref().unwrap().hertz / 1e9;
    let claims = [48.0, 1024.0, 32_768.0].map(|kib| kib * 1024.0);
    let in_caches = [4.0 * clock, 14.0 * clock, 50.0 * clock];
    let launch = log.launches.iter_mut().find(|launch| launch.experiment == "memory.latency").unwrap();
    let page_lines = |bytes: f64| bytes / 64.0;
    for series in launch.series.iter_mut().filter(|series| series.name == "load") {
        let bytes: f64 = series.labels.get("bytes").unwrap().parse().unwrap();
        let memory = if series.labels.get("pages") == Some("4k") { 110.0 } else { 95.0 } * nanoseconds;
        let costs = [in_caches[0], in_caches[1], in_caches[2], memory];
        let cost = match series.labels.get("pattern").unwrap() {
            "random" | "page_blocked" => stairs(bytes, &claims, &costs),
            "tlb" => {
                let extra = stairs(bytes / 4096.0, &[96.0, 2048.0], &[0.0, 7.0 * clock, 40.0 * clock]);
                stairs(page_lines(bytes), &claims, &costs) + extra
            }
            _ => continue,
        };
        series.values = vec![cost * series.operations as f64];
    }
}

/// Gives procedure calls one pace: each argument costs the same, and the seventh goes through memory.
fn give_paces(log: &mut Log, clock: f64) {
    let launch = log.launches.iter_mut().find(|launch| launch.experiment == "cpu.procedure_call").unwrap();
    for series in &mut launch.series {
        let of = |key: &str| series.labels.get(key).unwrap().to_owned();
        let arguments: f64 = of("args").parse().unwrap();
        let base = match of("code").as_str() {
            "registers" => 3.0,
            "memory" => 3.6,
            _ => 4.0,
        } + if of("chain") == "throughput" { 0.0 } else { 2.0 };
        let cycles = base + 0.4 * arguments + if arguments > 6.0 { 1.7 } else { 0.0 };
        let of_loop = if series.name == "short" { 0.02 } else { 0.0 };
        series.values = vec![(cycles + of_loop) * clock * series.operations as f64];
    }
}

/// Adds what only machines with two memory nodes measure.
fn give_nodes(log: &mut Log) {
    for (experiment, further) in [("memory.latency", Some(("pages", "huge"))), ("memory.bandwidth", None)] {
        let launch = log.launches.iter_mut().find(|launch| launch.experiment == experiment).unwrap();
        let pattern = launch
            .series
            .iter()
            .rfind(|series| !series.classes.0.is_empty() && series.lines.is_empty())
            .unwrap()
            .clone();
        for (home, cost) in [("0", 3e6), ("1", 4.5e6)] {
            let labels = Labels::of([("cpu_node", "0"), ("memory_node", home)]);
            let labels = further.map_or(labels.clone(), |(key, value)| labels.with(key, value));
            let operations = if experiment == "memory.latency" { 10_000 } else { 1 << 25 };
            let (name, clock) = ("node".to_owned(), Vec::new());
            launch.series.push(Series { name, labels, operations, clock, values: vec![cost], ..pattern.clone() });
        }
    }
}

/// Puts a network between this machine and the peer, and lets the other side keep a third of each tear-down.
fn give_distance(log: &mut Log) {
    let nanoseconds = log.clock.as_ref().unwrap().hertz / 1e9;
    for series in log.launches.iter_mut().flat_map(|launch| &mut launch.series) {
        if series.labels.get("path") == Some("remote") && ["exchange", "connection"].contains(&series.name.as_str()) {
            series.values[0] += 200_000.0 * nanoseconds;
        }
    }
    let launch = log.launches.iter_mut().find(|launch| launch.experiment == "network.connection").unwrap();
    let times: Vec<(Labels, f64)> = launch
        .series
        .iter()
        .filter(|series| series.name == "connection")
        .map(|series| (series.labels.clone(), series.values[0] / nanoseconds))
        .collect();
    for series in launch.series.iter_mut().filter(|series| series.name == "residence") {
        let Some((_, time)) = times.iter().find(|(labels, _)| *labels == series.labels) else { continue };
        series.values = vec![rounded(time * 0.3), rounded(time * 0.32), rounded(time * 0.35)];
    }
}

/// Gives control groups caches of their size: what is read beyond it evicts as much.
fn give_limits(log: &mut Log) {
    let launch = log.launches.iter_mut().find(|launch| launch.experiment == "file.cache_size").unwrap();
    let of = |series: &Series| Some((series.labels.clone(), series.values.clone())).filter(|_| series.name == "read");
    let reads: Vec<(Labels, Vec<f64>)> = launch.series.iter().filter_map(of).collect();
    for series in &mut launch.series {
        let Some((labels, read)) = reads.iter().find(|(labels, _)| *labels == series.labels) else { continue };
        let limit: f64 = labels.get("limit").unwrap().parse().unwrap();
        match series.name.as_str() {
            "resident" => series.values = read.iter().map(|bytes| bytes.min(limit)).collect(),
            "evicted" => series.values = read.iter().map(|bytes| (bytes - limit).max(0.0)).collect(),
            "hits" => series.values[0] = (series.values[1] * limit / read[read.len() - 1]).round(),
            _ => {}
        }
    }
}

/// Leaves the machine to the run alone, and gives costs of one kind the order that rules want of them.
fn give_order(log: &mut Log) {
    let nanoseconds = log.clock.as_ref().unwrap().hertz / 1e9;
    for launch in &mut log.launches {
        for series in &mut launch.series {
            let of = |key: &str| series.labels.get(key).unwrap_or_default().to_owned();
            let (operations, one) = (series.operations as f64, &mut series.values);
            match (launch.experiment.as_str(), series.name.as_str()) {
                (_, "others") => one.fill(0.0),
                ("cpu.sharing", "pairs") => *one = vec![4.0, 1.0, 20.0, 1.0],
                ("memory.loaded_latency", "chase") => {
                    let times = [("idle", 95.0), ("half", 120.0), ("full", 210.0)];
                    let (_, time) = times.into_iter().find(|(load, _)| *load == of("load")).unwrap();
                    one.fill(time * nanoseconds * operations);
                }
                ("network.round_trip", "exchange") if of("protocol") == "unix" => one[0] *= 0.7,
                ("file.remote_read", "read") if of("server") == "cold" => {
                    one[0] = 3.0 * (one[0] + 200_000.0 * nanoseconds);
                }
                ("file.remote_read", "read") if of("what") == "exchange" => one[0] += 200_000.0 * nanoseconds,
                ("file.remote_read", "read") if of("server") == "warm" => one[0] += 210_000.0 * nanoseconds,
                ("file.remote_read", "carried") => one.fill(if of("via") == "nfs" { 1.0e9 } else { 1.1e9 }),
                _ => {}
            }
        }
    }
}

/// Adds the launches of what others are predicted from: those of the series that they had in a real run.
fn give_first(log: &mut Log, real: &Log) {
    let mut first: Vec<Launch> = Vec::new();
    for launch in &log.launches {
        let of_this = real.launches.iter().filter(|found| found.first && found.experiment == launch.experiment);
        let names: Vec<(&str, &Labels)> =
            of_this.flat_map(|found| &found.series).map(|series| (series.name.as_str(), &series.labels)).collect();
        if !names.is_empty() {
            let has = |series: &&Series| names.contains(&(series.name.as_str(), &series.labels));
            let series = launch.series.iter().filter(has).cloned().collect();
            first.push(Launch { first: true, series, ..launch.clone() });
        }
    }
    log.launches.extend(first);
}

fn of(logs: &[Log]) -> Log {
    let mut log = logs[0].clone();
    let clock = ticks_per_cycle(&log);
    let mut launches: Vec<Launch> = Vec::new();
    let ids = experiments::TABLE.iter().map(|experiment| experiment.id).chain(["canary"]);
    for id in ids {
        let found = |log: &'_ Log| -> Vec<Launch> {
            log.launches.iter().filter(|launch| launch.experiment == id && launch.succeeded()).cloned().collect()
        };
        let has_series = |launches: &Vec<Launch>| launches.iter().any(|launch| !launch.series.is_empty());
        let Some(real) = logs.iter().map(found).find(has_series) else { panic!("no log has series of {id}") };
        launches.push(described(id, &real.iter().collect::<Vec<&Launch>>(), clock));
    }
    log.launches = launches;
    give_stairs(&mut log, clock);
    give_paces(&mut log, clock);
    give_nodes(&mut log);
    give_distance(&mut log);
    give_order(&mut log);
    give_limits(&mut log);
    for step in &mut log.steps {
        step.skipped = None;
        step.launches = super::LAUNCHES;
        step.method_version = experiments::find(&step.experiment).unwrap().method_version;
    }
    for series in log.launches.iter_mut().flat_map(|launch| &mut launch.series) {
        match (series.name.as_str(), series.unit) {
            ("pair_clock", _) => series.values = vec![clock],
            // Connections that waited for a repeated packet.
            ("repeated", Unit::Ticks) => series.values.clear(),
            _ => {}
        }
    }
    give_first(&mut log, &logs[0]);
    log
}

fn records(log: &Log) -> Vec<Record> {
    let mut records = vec![
        Record::Run(log::Header {
            identity: None,
            binary: None,
            engine: None,
            command: vec!["sysdyno".to_owned()],
            ..log.header.clone()
        }),
        Record::Machine { machine: Box::new(log.machine.clone()) },
    ];
    records.extend(log.peer.clone().map(Record::Peer));
    records.extend(log.remote.clone().map(Record::Remote));
    records.extend(log.clock.clone().map(Record::Clock));
    records.push(Record::Plan { steps: log.steps.clone(), rounds: super::LAUNCHES, estimated_seconds: 1.0 });
    for (number, launch) in (1..).zip(&log.launches) {
        let experiment = || launch.experiment.clone();
        records.push(Record::Launch {
            launch: number,
            round: 1,
            experiment: experiment(),
            at: 0.0,
            first: launch.first,
        });
        let series = launch.series.iter().cloned();
        records.extend(series.map(|series| Record::Series { launch: number, experiment: experiment(), series }));
        records.extend(launch.evidence.clone().map(|evidence| Record::Evidence {
            launch: number,
            experiment: experiment(),
            evidence,
        }));
        records.push(Record::LaunchEnd {
            launch: number,
            experiment: experiment(),
            seconds: launch.seconds.unwrap(),
            failed: None,
            interrupted: false,
        });
    }
    records.push(Record::RoundEnd { round: 1, disturbed: Vec::new(), others_cpus: None });
    let at = log.header.started.clone();
    records.push(Record::Finish { at, complete: true, reason: "all rounds are done".to_owned(), seconds: 1.0 });
    records
}

#[test]
fn the_description_is_a_whole_log() {
    if let Ok(logs) = std::env::var("SYSDYNO_WRITE_MADE") {
        let logs: Vec<Log> = logs.split_whitespace().map(|path| log::read(path.as_ref()).unwrap()).collect();
        let lines =
            records(&of(&logs)).iter().map(|record| serde_json::to_string(record).unwrap() + "\n").collect::<String>();
        std::fs::write(place(), lines).unwrap();
    }
    let log = super::description();
    assert!(log.damage.is_none());
    let experiments: Vec<&str> = log.launches.iter().map(|launch| launch.experiment.as_str()).collect();
    assert!(experiments::TABLE.iter().all(|experiment| experiments.contains(&experiment.id)), "{experiments:?}");
}
