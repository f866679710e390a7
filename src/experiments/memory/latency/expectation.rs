//! What is expected of levels, capacities and translation, before anything is walked.

use super::walk::{Scope, pages_label};
use crate::experiments::Foreknowledge;
use crate::experiments::constants::{
    Constant, CycleTime, FABRIC_CLIENT, FABRIC_SERVER, FABRIC_UNKNOWN, GUEST_MEMORY, L1_LOAD_FIVE, L1_LOAD_FOUR,
    L1_LOAD_THREE, L1_LOAD_UNKNOWN, L2_LOAD_COVE, L2_LOAD_LAKE, L2_LOAD_NEOVERSE, L2_LOAD_SKYLAKE, L2_LOAD_UNKNOWN,
    L2_LOAD_ZEN, L2_LOAD_ZEN4, L3_LOAD_ARM, L3_LOAD_MESH, L3_LOAD_RING, L3_LOAD_UNKNOWN, L3_LOAD_ZEN, LINE_TRANSFER,
    MEMORY_ROW, TRANSLATION_NEAR, TRANSLATION_WALK,
};
use crate::machine::{CoreClass, Machine};
use crate::results::prediction::{Basis, Prediction};
use crate::results::quantity::{Labels, Unit};
use crate::sys::memory::Pages;

/// Share of a claimed cache that a walk can find: a cache that is shared, or filled from random physical pages, seems
/// smaller; the grid of footprints can make it seem larger.
const FOUND_OF_CLAIM: (f64, f64) = (0.7, 1.15);
/// Share of a claimed last-level cache that a guest can find: its neighbours are not seen.
const FOUND_OF_SHARED_CLAIM: (f64, f64) = (0.1, 1.15);

/// Loads of the caches of a core class.
struct Loads {
    first: Constant,
    second: Constant,
    third: Constant,
}

fn loads(class: CoreClass) -> Loads {
    use CoreClass as Core;
    let (first, second, third) = match class {
        Core::IntelNehalem | Core::IntelSandyBridge | Core::IntelHaswell | Core::IntelSkylake => {
            (L1_LOAD_FOUR, L2_LOAD_SKYLAKE, L3_LOAD_RING)
        }
        Core::IntelIceLake | Core::IntelTigerLake => (L1_LOAD_FIVE, L2_LOAD_LAKE, L3_LOAD_RING),
        Core::IntelGoldenCove | Core::IntelRedwoodCove => (L1_LOAD_FIVE, L2_LOAD_COVE, L3_LOAD_MESH),
        Core::AmdZen1 | Core::AmdZen2 | Core::AmdZen3 => (L1_LOAD_FOUR, L2_LOAD_ZEN, L3_LOAD_ZEN),
        Core::AmdZen4 | Core::AmdZen5 => (L1_LOAD_FOUR, L2_LOAD_ZEN4, L3_LOAD_ZEN),
        Core::ArmNeoverseN1
        | Core::ArmNeoverseN2
        | Core::ArmNeoverseV1
        | Core::ArmNeoverseV2
        | Core::ArmCortexA76
        | Core::ArmCortexA78
        | Core::ArmCortexX1
        | Core::ArmCortexA710
        | Core::ArmCortexA720 => (L1_LOAD_FOUR, L2_LOAD_NEOVERSE, L3_LOAD_ARM),
        Core::AppleM1 | Core::AppleM2 | Core::AppleM1Efficiency | Core::AppleM2Efficiency => {
            (L1_LOAD_THREE, L2_LOAD_UNKNOWN, L3_LOAD_UNKNOWN)
        }
        _ => (L1_LOAD_UNKNOWN, L2_LOAD_UNKNOWN, L3_LOAD_UNKNOWN),
    };
    Loads { first, second, third }
}

/// The way from the last cache to the memory: short on a client's ring, long on a server's mesh or between its dies.
fn fabric(machine: &Machine, class: CoreClass) -> Constant {
    let model = machine.cpu.model_name.best().map(|fact| fact.value.to_lowercase()).unwrap_or_default();
    let named = |words: &[&str]| words.iter().any(|word| model.contains(word));
    if named(&["epyc", "xeon", "neoverse", "threadripper", "ampere"]) {
        FABRIC_SERVER
    } else if class == CoreClass::Unknown || model.is_empty() || machine.is_guest() {
        FABRIC_UNKNOWN
    } else {
        FABRIC_CLIENT
    }
}

/// All predictions.
pub(super) fn predict(by: &Foreknowledge<'_>, scope: &Scope) -> Vec<Prediction> {
    let machine = &by.setup.machine;
    // A class that the evidence contradicts is no class.
    let contradicted = machine.cpu.microarchitecture.contradictory();
    let class = if contradicted { CoreClass::Unknown } else { machine.core_class(by.setup.cpu) };
    let loads = loads(class);
    let fabric = fabric(machine, class);
    let cycle = CycleTime::known(by);
    let mut predictions = Vec::new();
    for pages in [Pages::Small, Pages::Huge] {
        let level = |name: &str| {
            let labels = Labels::of([("level", name), ("pages", pages_label(pages))]);
            Prediction::of("memory.latency.level", labels, Unit::Nanoseconds)
        };
        let load = |constant: Constant| (cycle.of(constant.times(1.0)), constant.basis());
        let (first, basis) = load(loads.first);
        predictions.push(level("L1").hardware("a load that the first-level cache serves", first, basis));
        let (second, basis) = load(loads.second);
        predictions.push(level("L2").hardware("a load that the second-level cache serves", second, basis));
        let (third, basis) = load(loads.third);
        let small = pages == Pages::Small || machine.is_guest();
        if scope.claims.len() > 2 || scope.claims.is_empty() {
            let prediction = level("L3").hardware("a load that the third-level cache serves", third, basis.clone());
            predictions.push(if small {
                prediction.hardware(
                    "its translation, from the second-level translation buffer or a short walk",
                    TRANSLATION_NEAR.times(1.0),
                    TRANSLATION_NEAR.basis(),
                )
            } else {
                prediction
            });
        }
        predictions.push(memory(machine, level("DRAM"), (third, basis), fabric, small));
    }
    predictions.extend(sizes(machine, by.setup.cpu));
    predictions
}

fn memory(
    machine: &Machine,
    prediction: Prediction,
    (third, basis): ((f64, f64, f64), Basis),
    fabric: Constant,
    small: bool,
) -> Prediction {
    let mut prediction = prediction
        .hardware("finding that no cache has the line", third, basis)
        .hardware("the way to the memory controller and back", fabric.times(1.0), fabric.basis())
        .hardware("opening a row and reading a column", MEMORY_ROW.times(1.0), MEMORY_ROW.basis())
        .hardware("the transfer of a line", LINE_TRANSFER.times(1.0), LINE_TRANSFER.basis());
    if machine.is_guest() {
        prediction = prediction.hardware("neighbours of a guest", GUEST_MEMORY.times(1.0), GUEST_MEMORY.basis());
    }
    if small {
        prediction = prediction.hardware(
            "the walk through the page tables",
            TRANSLATION_WALK.times(1.0),
            TRANSLATION_WALK.basis(),
        );
    }
    prediction
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
                "what the kernel claims",
                (size, size * least, size * most),
                Basis::machine(&claim.source),
            ))
        })
        .collect()
}
