//! What the kernel's own figures say of the size of the cache.

use super::{BYTES, bounded, full, wanted};
use crate::experiments::prelude::*;

constants! {
    /// What a control group is charged for else than file data, as a share of its limit of 64 MiB and more.
    CHARGED_ELSE = 0.006 in 0.0005 ..= 0.03 "times", "Linux lib/xarray.c: a node of 576 bytes indexes 64 pages (0.2 \
                                                      %). mm/memcontrol.c: page tables, stacks. mm/vmscan.c reclaims \
                                                      at least 32 pages at once";
}

/// Share of what is available that others may take before it is measured.
const OTHERS: f64 = 0.05;

pub(super) fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let mut all: Vec<Prediction> = wanted(by.setup.profile).iter().map(|&limit| of_group(limit)).collect();
    all.extend(of_machine(by));
    all
}

/// What is charged for else than file data, as a term that is taken away.
fn less(bytes: f64) -> (f64, f64, f64) {
    let (value, low, high) = CHARGED_ELSE.times(bytes);
    (-value, -high, -low)
}

fn of_group(limit: u64) -> Prediction {
    let bytes = limit as f64;
    Prediction::of(BYTES, bounded(limit), Unit::Bytes)
        .hardware("the limit of the group", (bytes, bytes, bytes), Basis::machine("memory.max, set by the run itself"))
        .software("other charges to the group", less(bytes), CHARGED_ELSE.basis())
}

fn of_machine(by: &PredictionInput<'_>) -> Option<Prediction> {
    let memory = &by.setup.machine.memory;
    let (total, available) = (memory.total_bytes.as_ref()?, memory.available_bytes.as_ref()?);
    let prediction = Prediction::of(BYTES, full(), Unit::Bytes);
    if let Some(room) = by.setup.machine.limits.memory_room_bytes.as_ref().filter(|room| room.value < available.value) {
        let bytes = room.value as f64;
        let range = (bytes, bytes * (1.0 - OTHERS), bytes);
        return Some(
            prediction
                .hardware("what the limits of the control groups leave", range, Basis::machine(&room.source))
                .software("other charges to the groups", less(bytes), CHARGED_ELSE.basis()),
        );
    }
    let bytes = total.value as f64;
    let most =
        memory.cacheable_bytes.as_ref().map_or(bytes, |fact| fact.value as f64).clamp(available.value as f64, bytes);
    let taken = available.value as f64 - bytes;
    let range = (taken, taken - OTHERS * available.value as f64, most - bytes);
    let source = memory
        .cacheable_bytes
        .as_ref()
        .map_or_else(|| available.source.clone(), |fact| format!("{}, at most {}", available.source, fact.source));
    Some(
        prediction
            .hardware("all memory that the kernel manages", (bytes, bytes, bytes), Basis::machine(&total.source))
            .software("memory that cannot hold file data", range, Basis::machine(&source)),
    )
}
