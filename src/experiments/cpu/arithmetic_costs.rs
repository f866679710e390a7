//! What arithmetic takes on core designs, by published tables.

use crate::experiments::prelude::*;
use crate::machine::CoreClass;
use crate::sys::arch::Arithmetic;

/// Cycles: expected, lowest and highest.
type Cycles = (f64, f64, f64);

/// A design and its operations.
pub struct Design {
    /// Cores of this design.
    cores: &'static [CoreClass],
    /// What they are called.
    name: &'static str,
    /// Where the numbers are from.
    source: &'static str,
    /// Latency, and cycles for each of independent operations, in the order of [`Arithmetic::ALL`].
    cycles: [[Cycles; 2]; Arithmetic::ALL.len()],
}

/// A number that does not vary.
const fn just(cycles: f64) -> Cycles {
    (cycles, cycles * 0.97, cycles * 1.06)
}

/// Where most numbers are from.
const TABLES: &str = "Agner Fog, instruction tables, uops.info, and scheduling models of LLVM";
const GUIDES: &str = "Arm software optimisation guides of these cores";

/// The order of the numbers: additions, multiplies, divisions of 32 and 64 bits, then additions, multiplies, fused multiply-adds,
/// divisions and square roots of doubles.
const DESIGNS: &[Design] = &[
    Design {
        cores: &[CoreClass::IntelSandyBridge],
        name: "arithmetic of Intel Sandy Bridge",
        source: TABLES,
        cycles: [
            [just(1.0), (0.33, 0.32, 0.4)],
            [just(3.0), just(1.0)],
            [(24.0, 20.0, 28.0), (11.0, 8.0, 15.0)],
            [(45.0, 30.0, 94.0), (32.0, 20.0, 80.0)],
            [just(3.0), just(1.0)],
            [just(5.0), just(1.0)],
            [(5.0, 3.0, 8.0), (0.5, 0.45, 1.1)],
            [(20.0, 10.0, 22.0), (16.0, 8.0, 22.0)],
            [(21.0, 10.0, 22.0), (16.0, 8.0, 22.0)],
        ],
    },
    Design {
        cores: &[CoreClass::IntelHaswell],
        name: "arithmetic of Intel Haswell",
        source: TABLES,
        cycles: [
            [just(1.0), (0.25, 0.24, 0.3)],
            [just(3.0), just(1.0)],
            [(26.0, 22.0, 29.0), (10.0, 8.0, 12.0)],
            [(38.0, 30.0, 96.0), (24.0, 18.0, 80.0)],
            [just(3.0), just(1.0)],
            [(5.0, 2.9, 5.3), just(0.5)],
            [just(5.0), just(0.5)],
            [(15.0, 10.0, 20.5), (8.0, 4.0, 14.0)],
            [(17.0, 14.0, 21.0), (10.0, 4.0, 14.0)],
        ],
    },
    Design {
        cores: &[CoreClass::IntelSkylake],
        name: "arithmetic of Intel Skylake",
        source: TABLES,
        cycles: [
            [just(1.0), (0.25, 0.24, 0.3)],
            [just(3.0), just(1.0)],
            [(26.0, 22.0, 28.0), (6.0, 5.8, 8.0)],
            [(40.0, 34.0, 95.0), (24.0, 20.0, 90.0)],
            [just(4.0), just(0.5)],
            [just(4.0), just(0.5)],
            [just(4.0), just(0.5)],
            [(13.5, 12.9, 14.5), (4.0, 3.9, 4.6)],
            [(17.0, 12.9, 19.5), (5.0, 3.9, 6.6)],
        ],
    },
    Design {
        cores: &[CoreClass::IntelIceLake, CoreClass::IntelTigerLake],
        name: "arithmetic of Intel Sunny Cove",
        source: TABLES,
        cycles: [
            [just(1.0), (0.25, 0.24, 0.3)],
            [just(3.0), just(1.0)],
            [(12.0, 9.8, 15.5), (6.0, 4.0, 6.6)],
            [(14.0, 12.0, 18.5), (7.0, 3.9, 10.5)],
            [just(4.0), just(0.5)],
            [just(4.0), just(0.5)],
            [just(4.0), just(0.5)],
            [(13.5, 12.9, 15.5), (4.0, 3.9, 4.6)],
            [(17.0, 12.9, 19.5), (5.0, 3.9, 6.6)],
        ],
    },
    Design {
        cores: &[CoreClass::IntelGoldenCove, CoreClass::IntelRedwoodCove],
        name: "arithmetic of Intel Golden Cove",
        source: TABLES,
        cycles: [
            [just(1.0), (0.2, 0.19, 0.26)],
            [just(3.0), just(1.0)],
            [(11.0, 9.8, 15.5), (6.0, 4.0, 6.6)],
            [(14.0, 10.0, 18.5), (7.0, 3.9, 10.5)],
            [(2.0, 1.94, 3.2), just(0.5)],
            [just(4.0), just(0.5)],
            [just(4.0), just(0.5)],
            [(14.0, 12.9, 15.5), (4.0, 3.9, 4.6)],
            [(17.0, 12.9, 19.5), (5.0, 3.9, 6.6)],
        ],
    },
    Design {
        cores: &[CoreClass::AmdZen1, CoreClass::AmdZen2],
        name: "arithmetic of AMD Zen and Zen 2",
        source: TABLES,
        cycles: [
            [just(1.0), (0.25, 0.24, 0.3)],
            [(3.0, 2.9, 4.2), (1.0, 0.97, 2.1)],
            [(17.0, 9.0, 30.0), (17.0, 7.0, 30.0)],
            [(25.0, 9.0, 46.0), (25.0, 7.0, 46.0)],
            [just(3.0), just(0.5)],
            [(3.0, 2.9, 4.2), just(0.5)],
            [just(5.0), just(0.5)],
            [(13.0, 8.0, 15.5), (5.0, 3.9, 6.0)],
            [(20.0, 14.0, 21.0), (8.0, 3.9, 12.0)],
        ],
    },
    Design {
        cores: &[CoreClass::AmdZen3, CoreClass::AmdZen4],
        name: "arithmetic of AMD Zen 3 and Zen 4",
        source: TABLES,
        cycles: [
            [just(1.0), (0.25, 0.24, 0.3)],
            [just(3.0), just(1.0)],
            [(11.0, 8.0, 13.0), (6.0, 5.0, 8.0)],
            [(13.0, 8.0, 20.0), (8.0, 5.0, 12.0)],
            [just(3.0), just(0.5)],
            [just(3.0), just(0.5)],
            [just(4.0), just(0.5)],
            [(13.0, 12.5, 15.5), (5.0, 3.9, 6.0)],
            [(21.0, 18.0, 22.0), (9.0, 4.5, 10.0)],
        ],
    },
    Design {
        cores: &[CoreClass::AmdZen5],
        name: "arithmetic of AMD Zen 5",
        source: TABLES,
        cycles: [
            [just(1.0), (0.18, 0.16, 0.26)],
            [just(3.0), (0.5, 0.32, 1.05)],
            [(11.0, 8.0, 13.0), (6.0, 4.0, 8.0)],
            [(13.0, 8.0, 20.0), (8.0, 4.0, 12.0)],
            [(3.0, 1.9, 3.2), just(0.5)],
            [just(3.0), just(0.5)],
            [just(4.0), just(0.5)],
            [(13.0, 12.5, 15.5), (5.0, 3.9, 6.0)],
            [(21.0, 18.0, 22.0), (9.0, 4.5, 10.0)],
        ],
    },
    Design {
        cores: &[CoreClass::ArmCortexA76, CoreClass::ArmCortexA77, CoreClass::ArmCortexA78, CoreClass::ArmNeoverseN1],
        name: "arithmetic of Arm Cortex-A76 and Neoverse N1",
        source: GUIDES,
        cycles: [
            [just(1.0), (0.33, 0.24, 0.36)],
            [(4.0, 1.9, 4.2), (3.0, 0.9, 3.2)],
            [(8.0, 4.8, 13.0), (8.0, 4.8, 13.0)],
            [(12.0, 4.8, 21.0), (12.0, 4.8, 21.0)],
            [just(2.0), just(0.5)],
            [just(3.0), just(0.5)],
            [just(4.0), just(0.5)],
            [(14.0, 6.8, 16.0), (7.0, 3.3, 16.0)],
            [(16.0, 6.8, 18.0), (8.0, 3.3, 18.0)],
        ],
    },
    Design {
        cores: &[CoreClass::ArmNeoverseN2, CoreClass::ArmNeoverseV1, CoreClass::ArmNeoverseV2],
        name: "arithmetic of Arm Neoverse N2, V1 and V2",
        source: GUIDES,
        cycles: [
            [just(1.0), (0.25, 0.16, 0.27)],
            [(2.0, 1.9, 3.2), (0.8, 0.45, 1.05)],
            [(8.0, 4.8, 13.0), (8.0, 4.8, 13.0)],
            [(12.0, 4.8, 21.0), (12.0, 4.8, 21.0)],
            [just(2.0), (0.3, 0.24, 0.53)],
            [just(3.0), (0.3, 0.24, 0.53)],
            [just(4.0), (0.3, 0.24, 0.53)],
            [(14.0, 6.8, 16.0), (7.0, 3.3, 16.0)],
            [(15.0, 6.8, 18.0), (8.0, 3.3, 18.0)],
        ],
    },
];

/// Cores of which the tables say little.
const UNKNOWN: Design = Design {
    cores: &[],
    name: "arithmetic of other cores",
    source: "the slowest and the fastest core in the tables of Agner Fog, uops.info and the guides of Arm",
    cycles: [
        [just(1.0), (0.3, 0.12, 1.1)],
        [(3.0, 1.9, 7.0), (1.0, 0.3, 5.0)],
        [(12.0, 4.8, 50.0), (8.0, 1.9, 45.0)],
        [(16.0, 4.8, 100.0), (12.0, 1.9, 95.0)],
        [(3.0, 1.9, 6.3), (0.5, 0.2, 2.1)],
        [(4.0, 2.9, 8.5), (0.5, 0.2, 4.2)],
        [(4.0, 2.9, 11.0), (0.5, 0.2, 4.2)],
        [(14.0, 6.8, 70.0), (6.0, 0.9, 70.0)],
        [(18.0, 6.8, 75.0), (8.0, 0.9, 75.0)],
    ],
};

impl Design {
    /// The design of the CPU of a run.
    pub fn of(by: &PredictionInput<'_>) -> &'static Self {
        let class = by.setup.machine.core_class(by.setup.cpu);
        DESIGNS.iter().find(|design| design.cores.contains(&class)).unwrap_or(&UNKNOWN)
    }

    /// The cycles of an operation.
    pub fn cycles(&self, operation: Arithmetic, is_chain: bool) -> Cycles {
        self.cycles[operation as usize][usize::from(!is_chain)]
    }

    /// Where the cycles are from.
    pub fn basis(&self) -> Basis {
        Basis::constant(self.name, self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_is_ordered_and_no_chain_is_faster_than_independent_operations() {
        for design in DESIGNS.iter().chain([&UNKNOWN]) {
            for [latency, independent] in design.cycles {
                for (value, low, high) in [latency, independent] {
                    assert!(0.0 < low && low <= value && value <= high, "{} {value}", design.name);
                }
                assert!(independent.0 <= latency.0 && independent.1 <= latency.1, "{}", design.name);
            }
        }
    }
}
