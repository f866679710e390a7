//! How the rates stand to the core clock, to each other and to the memory bus.

use super::{IN_CACHE, NODE, RATE};
use crate::experiments::memory::footprint::MEMORY;
use crate::experiments::memory::streams;
use crate::experiments::prelude::*;
use crate::results::ratio::{in_brackets, scaled};
use crate::sys::stream::Operation;

/// Plain stores that reach less than this share of stores past the caches read each line first.
const READS_FIRST: f64 = 0.8;

pub(super) fn explain(study: &Study<'_>, findings: &mut Findings) {
    let rate = |findings: &Findings, operation, level: &str, threads| {
        findings.metric(RATE, &streams::labels(operation, level, threads)).map(|metric| metric.value)
    };
    let shown = |value: f64| quantity(value, Unit::BytesPerSecond);
    if let Some(core) = study.core {
        let mut rows = Vec::new();
        for level in ["L1", "L2", "L3", MEMORY] {
            for operation in IN_CACHE {
                if let Some(found) = rate(findings, operation, level, 1) {
                    let cells = [level, operation.name()].map(str::to_owned);
                    rows.push(cells.into_iter().chain([shown(found), number(found / core.0)]).collect());
                }
            }
        }
        let columns = ["level", "operation", "rate", "bytes per core cycle"];
        findings.tabulate("Rates of one thread by level (a copied byte counts once).", &columns, rows);
    }
    let rows: Vec<Vec<String>> = Operation::ALL
        .into_iter()
        .filter_map(|operation| {
            let chosen = most_frequent(&study.remarks(&format!("vectors.{}", operation.name())))?;
            Some(vec![operation.name().to_owned(), chosen])
        })
        .collect();
    findings.tabulate(
        "Vectors used in DRAM, chosen by a short trial in each launch.",
        &["operation", "chosen most often"],
        rows,
    );
    let found = |findings: &Findings, operation| findings.metric(RATE, &streams::labels(operation, MEMORY, 1)).cloned();
    if let (Some(plain), Some(past)) = (found(findings, Operation::Write), found(findings, Operation::WriteNt)) {
        let as_fast = Ratio::of(&scaled(&plain, 1.0 / READS_FIRST), &past, 1.0).is_some();
        // Where copies gain by stores past the caches, lines are read first, whatever else limits plain stores.
        let copies = found(findings, Operation::Copy).zip(found(findings, Operation::CopyNt));
        let copies_gain = copies.is_some_and(|(plain, past)| Ratio::of(&past, &plain, 1.0 / READS_FIRST).is_some());
        let why = if as_fast && copies_gain {
            ""
        } else if as_fast {
            " The processor recognises fully overwritten lines and does not read them first. The bus bytes of plain \
             stores and copies are an upper bound here."
        } else if Ratio::of(&past, &plain, 1.0 / READS_FIRST).is_some() {
            " Plain stores are slower because each line is read before it is written."
        } else {
            ""
        };
        findings.say(format!("Plain stores reach {}, stores past the caches {}.{why}", plain.shown(), past.shown()));
    }
    if study.setup.machine.caches_of(study.setup.cpu).is_empty() {
        findings.say("No file describes the caches of this CPU, so only one size was measured.");
    }
    if study.setup.machine.is_guest() {
        findings.say(
            "This machine is a guest. It cannot see the real size of the last cache, or the other users of \
                      the cache and the memory channels. The L3 and DRAM rates are what the host left for this \
                      guest.",
        );
    }
    tell_nodes(study, findings);
}

/// Says how far apart near and far memory are.
fn tell_nodes(study: &Study<'_>, findings: &mut Findings) {
    let of = |own: bool| {
        let all = findings.metrics.iter().filter(|metric| metric.name == NODE);
        let wanted = all.filter(|metric| (metric.labels.get("cpu_node") == metric.labels.get("memory_node")) == own);
        wanted.collect::<Vec<&Metric>>()
    };
    let by_value = |one: &&Metric, other: &&Metric| one.value.total_cmp(&other.value);
    let (near, far) = (of(true).into_iter().max_by(by_value), of(false).into_iter().min_by(by_value));
    findings.say(match (study.setup.machine.memory.nodes.len(), near, far) {
        (0 | 1, ..) => "The kernel reports one node of memory, so no remote node was measured.".to_owned(),
        (_, Some(near), Some(far)) => format!(
            "One thread reads {} from the memory of the local node at best, and {} from a remote node's at \
             worst{}.",
            near.shown(),
            far.shown(),
            in_brackets(near, far)
        ),
        (nodes, ..) => {
            let why = study.setup.machine.memory.nodes_apart(&study.setup.allowed);
            format!("This machine has {nodes} nodes, but this run could not compare them{why}.")
        }
    });
}

pub(super) fn most_frequent(names: &[&str]) -> Option<String> {
    let count = |name: &str| names.iter().filter(|&&other| other == name).count();
    names.iter().max_by_key(|name| count(name)).map(|&name| name.to_owned())
}
