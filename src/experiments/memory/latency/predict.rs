//! What is expected of levels, capacities and translation, before anything is walked.

use super::walk::{Scope, pages_label};
use crate::experiments::constants::Constant;
use crate::experiments::prelude::*;
use crate::machine::CoreClass;

constants! {
    /// A load that the first-level cache serves, simplest addressing: Apple's cores.
    L1_LOAD_THREE = 3.0 in 2.9 ..= 4.1 "cycles", "dougallj, Apple M1 microarchitecture notes: 3 to 4 cycles";
    /// The same on Intel up to Skylake, on AMD Zen and on Arm's larger cores.
    L1_LOAD_FOUR = 4.0 in 3.9 ..= 4.1 "cycles",
        "Agner Fog, instruction tables: MOV r64,[r64] 4 cycles. Arm Neoverse N1/V1 optimisation guides: 4 cycles";
    /// The same on Intel since Ice Lake.
    L1_LOAD_FIVE = 5.0 in 4.9 ..= 5.1 "cycles",
        "uops.info: MOV r64,[r64] 5 cycles on Ice Lake, Tiger Lake, Golden Cove";
    /// The same where the core's design is not known.
    L1_LOAD_UNKNOWN = 4.0 in 2.9 ..= 6.1 "cycles", "Agner Fog, microarchitecture: 3 to 6 cycles over all cores";
    /// A load that the second-level cache serves: Intel from Nehalem to Skylake.
    L2_LOAD_SKYLAKE = 12.0 in 10.0 ..= 14.5 "cycles",
        "Intel optimisation manual: 12 cycles, 14 with 1 MiB in servers, 10 on Nehalem";
    /// The same on Ice Lake and Tiger Lake.
    L2_LOAD_LAKE = 13.5 in 12.5 ..= 15.5 "cycles", "Intel optimisation manual: 13 to 14 cycles";
    /// The same on Golden Cove and Redwood Cove.
    L2_LOAD_COVE = 15.5 in 14.0 ..= 17.5 "cycles", "Intel optimisation manual: 14 to 16 cycles, 2 MiB";
    /// The same on AMD Zen 1 to 3.
    L2_LOAD_ZEN = 12.0 in 11.5 ..= 17.5 "cycles",
        "AMD optimisation guides, families 17h and 19h: 12 cycles, 17 on the first Zen";
    /// The same on AMD Zen 4 and 5.
    L2_LOAD_ZEN4 = 14.0 in 13.0 ..= 15.5 "cycles", "AMD optimisation guide, family 19h model 10h and later: 14 cycles";
    /// The same on Arm's larger cores.
    L2_LOAD_NEOVERSE = 12.0 in 9.0 ..= 15.0 "cycles",
        "Arm technical reference manuals of Neoverse and Cortex: 9 to 13 cycles";
    /// The same where the core's design is not known.
    L2_LOAD_UNKNOWN = 14.0 in 8.0 ..= 26.0 "cycles", "Agner Fog, microarchitecture: 8 to 25 cycles over all cores";
    /// A load that the third-level cache serves, on a ring of a few cores.
    L3_LOAD_RING = 42.0 in 32.0 ..= 75.0 "cycles",
        "Intel optimisation manual: 40 to 50 cycles in clients, up to 75 in servers";
    /// The same on a mesh of many cores.
    L3_LOAD_MESH = 70.0 in 48.0 ..= 125.0 "cycles",
        "Chips and Cheese, Sapphire Rapids: 70 cycles on a slow core, 120 on a fast one. Clients: 60 to 75";
    /// The same in a core complex of AMD Zen.
    L3_LOAD_ZEN = 48.0 in 35.0 ..= 65.0 "cycles",
        "AMD optimisation guides: 39 (Zen 2), 46 (Zen 3), 50 (Zen 4) cycles on average";
    /// The same on Arm servers.
    L3_LOAD_ARM = 65.0 in 30.0 ..= 130.0 "cycles",
        "Chips and Cheese, Ampere Altra and Graviton: 30 (private slice) to 120 cycles";
    /// The same where the core's design is not known.
    L3_LOAD_UNKNOWN = 50.0 in 20.0 ..= 130.0 "cycles", "20 to 120 cycles over all cores, more on large meshes";
    /// From the last cache to the memory controller and back, on a client.
    FABRIC_CLIENT = 30.0 in 12.0 ..= 50.0 "ns", "memory latencies of 60–90 ns in clients, less cache and row";
    /// The same on a server.
    FABRIC_SERVER = 60.0 in 35.0 ..= 95.0 "ns", "memory latencies of 90–130 ns in servers, less cache and row";
    /// The same where it is not known what this is.
    FABRIC_UNKNOWN = 45.0 in 12.0 ..= 95.0 "ns", "range of clients and servers together";
    /// Opening a row of memory and reading a column.
    MEMORY_ROW = 28.0 in 22.0 ..= 45.0 "ns",
        "JEDEC DDR4 and DDR5: tRCD + tCL of 27–34 ns, plus tRP when another row is open";
    /// Moving a line over the memory bus.
    LINE_TRANSFER = 3.0 in 1.5 ..= 5.0 "ns", "64 bytes over one channel of DDR4-3200 or one half of DDR5-4800";
    /// What neighbours of a guest add to its loads from memory.
    GUEST_MEMORY = 5.0 in 0.0 ..= 25.0 "ns", "queues at a memory controller that neighbours use too";
    /// A translation that the first-level buffer does not have, over a footprint of some MiB.
    TRANSLATION_NEAR = 2.5 in 0.5 ..= 12.0 "ns",
        "second-level TLB hit: 7–9 cycles (Agner Fog). Page-table walk with cached tables: 10–30 ns";
    /// A walk through the page tables for a load from memory.
    TRANSLATION_WALK = 20.0 in 0.0 ..= 70.0 "ns",
        "up to 4 references on bare metal, up to 24 in a guest (Bhargava et al., ASPLOS 2008), most of them cached";
}

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
pub(super) fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    // How much is walked changes no prediction.
    let scope = Scope::of(by.setup, 0);
    let machine = &by.setup.machine;
    // A class that the evidence contradicts does not count.
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
        predictions.push(level("L1").hardware("a load from the L1 cache", first, basis));
        let (second, basis) = load(loads.second);
        predictions.push(level("L2").hardware("a load from the L2 cache", second, basis));
        let (third, basis) = load(loads.third);
        let small = pages == Pages::Small || machine.is_guest();
        if scope.claims.len() > 2 || scope.claims.is_empty() {
            let prediction = level("L3").hardware("a load from the L3 cache", third, basis.clone());
            predictions.push(if small {
                prediction.hardware(
                    "its translation, from the second-level TLB or a short page-table walk",
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
        .hardware("a miss in all caches", third, basis)
        .hardware("the path to the memory controller and back", fabric.times(1.0), fabric.basis())
        .hardware("opening a row and reading a column", MEMORY_ROW.times(1.0), MEMORY_ROW.basis())
        .hardware("the transfer of a line", LINE_TRANSFER.times(1.0), LINE_TRANSFER.basis());
    if machine.is_guest() {
        prediction =
            prediction.hardware("the load from neighbours of a guest", GUEST_MEMORY.times(1.0), GUEST_MEMORY.basis());
    }
    if small {
        prediction = prediction.hardware("the page-table walk", TRANSLATION_WALK.times(1.0), TRANSLATION_WALK.basis());
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
                "the size that the kernel reports",
                (size, size * least, size * most),
                Basis::machine(&claim.source),
            ))
        })
        .collect()
}
