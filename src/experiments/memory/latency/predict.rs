//! What is expected of levels and capacities, before anything is walked.

use super::walk::{Scope, pages_label};
use crate::experiments::prelude::*;

/// Share of a claimed cache that a walk can find: a cache that is shared, or filled from random physical pages, seems
/// smaller; the grid of footprints can make it seem larger.
const FOUND_OF_CLAIM: (f64, f64) = (0.7, 1.15);

/// Share of a claimed last-level cache that a guest can find: its neighbours are not seen.
const FOUND_OF_SHARED_CLAIM: (f64, f64) = (0.1, 1.15);

/// All predictions.
pub(super) fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    // How much is walked changes no prediction.
    let scope = Scope::of(by.setup, 0);
    let has_third = scope.claims.len() > 2 || scope.claims.is_empty();
    let mut predictions = Vec::new();
    for pages in [Pages::Small, Pages::Huge] {
        for level in ["L1", "L2", "L3", "DRAM"].into_iter().filter(|&level| has_third || level != "L3") {
            let labels = Labels::of([("level", level), ("pages", pages_label(pages))]);
            predictions.push(Prediction::of("memory.latency.level", labels, Unit::Nanoseconds));
        }
    }
    predictions.extend(sizes(&by.setup.machine, by.setup.cpu));
    predictions
}

/// Capacities are predicted by what the kernel claims.
fn sizes(machine: &Machine, cpu: u32) -> Vec<Prediction> {
    let last = machine.last_level_cache(cpu).map(|cache| cache.level);
    (1..=4)
        .filter_map(|level| {
            let claim = machine.data_cache(cpu, level)?.size_bytes.best()?;
            let shared = machine.is_guest() && Some(level) == last && level > 2;
            let (least, most) = if shared { FOUND_OF_SHARED_CLAIM } else { FOUND_OF_CLAIM };
            let size = claim.value as f64;
            let labels = Labels::of([("level", format!("L{level}").as_str())]);
            Some(Prediction::of("memory.latency.level_size", labels, Unit::Bytes).hardware(
                "the size that the kernel reports",
                (size, size * least, size * most),
                Basis::machine(&claim.source),
            ))
        })
        .collect()
}
