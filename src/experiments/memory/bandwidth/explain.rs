//! How the rates stand to the core clock, to each other and to the memory bus.

use super::{IN_CACHE, NODE, RATE};
use crate::experiments::memory::footprint::MEMORY;
use crate::experiments::memory::{streams, tell_nodes};
use crate::experiments::prelude::*;
use crate::results::ratio::{in_brackets, scaled};
use crate::sys::stream::Operation;

/// Plain stores that reach less than this share of stores past the caches read each line first.
const READS_FIRST: f64 = 0.8;

pub(super) fn explain(study: &Study<'_>, findings: &mut Findings) {
    let rate = |(level, operation): &(&'static str, Operation)| {
        findings.metric(RATE, &streams::labels(*operation, level, 1)).map(|metric| metric.value)
    };
    let levels = ["L1", "L2", "L3", MEMORY].into_iter().flat_map(|level| IN_CACHE.map(|operation| (level, operation)));
    let by_level = study.core.and_then(|core| {
        pivot(
            "Rates of one thread by level (a copied byte counts once).",
            levels.filter(|of| rate(of).is_some()),
            &[
                ("level", &|(level, _)| Some((*level).to_owned())),
                ("operation", &|(_, operation)| Some(operation.name().to_owned())),
                ("rate", &|of| Some(quantity(rate(of)?, Unit::BytesPerSecond))),
                ("bytes per core cycle", &|of| Some(number(rate(of)? / core.0))),
            ],
        )
    });
    let chosen = |operation: Operation| {
        Some((operation.name(), most_frequent(&study.remarks(&format!("vectors.{}", operation.name())))?))
    };
    let vectors = pivot(
        "Vectors used in DRAM, chosen by a short trial in each launch.",
        Operation::ALL.into_iter().filter_map(chosen),
        &[
            ("operation", &|(operation, _)| Some((*operation).to_owned())),
            ("chosen most often", &|(_, chosen)| Some(chosen.clone())),
        ],
    );
    findings.analysis.extend(by_level.into_iter().chain(vectors));
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
    let single = "The kernel reports one node of memory, so no remote node was measured.";
    tell_nodes(study, findings, NODE, single, |near, far| {
        format!(
            "One thread reads {} from the memory of the local node at best, and {} from a remote node's at worst{}.",
            near.shown(),
            far.shown(),
            in_brackets(near, far)
        )
    });
}

pub(super) fn most_frequent(names: &[&str]) -> Option<String> {
    let count = |name: &str| names.iter().filter(|&&other| other == name).count();
    names.iter().max_by_key(|name| count(name)).map(|&name| name.to_owned())
}
