//! What is known of cores by their numbers and by their features.

use super::CoreClass;
use super::CoreClass as Core;

/// Every class: its name and its generation among x86 cores of one maker (E-cores share the generation of the P-cores
/// whose instruction set they were given).
pub(super) const CORES: &[(CoreClass, &str, u32)] = &[
    (Core::IntelNehalem, "Intel Nehalem/Westmere", 1),
    (Core::IntelSandyBridge, "Intel Sandy/Ivy Bridge", 2),
    (Core::IntelHaswell, "Intel Haswell/Broadwell", 3),
    (Core::IntelSkylake, "Intel Skylake", 4),
    (Core::IntelIceLake, "Intel Sunny Cove (Ice Lake, Rocket Lake)", 5),
    (Core::IntelTigerLake, "Intel Willow Cove (Tiger Lake)", 6),
    (Core::IntelGoldenCove, "Intel Golden Cove (Alder Lake, Sapphire Rapids)", 7),
    (Core::IntelRedwoodCove, "Intel Redwood Cove (Meteor Lake, Granite Rapids)", 8),
    (Core::IntelLionCove, "Intel Lion Cove (Lunar Lake, Arrow Lake)", 9),
    (Core::IntelSilvermont, "Intel Silvermont", 1),
    (Core::IntelGoldmont, "Intel Goldmont", 1),
    (Core::IntelTremont, "Intel Tremont", 1),
    (Core::IntelGracemont, "Intel Gracemont", 7),
    (Core::IntelCrestmont, "Intel Crestmont", 8),
    (Core::IntelSkymont, "Intel Skymont", 9),
    (Core::AmdBulldozer, "AMD Bulldozer to Excavator", 1),
    (Core::AmdZen1, "AMD Zen", 2),
    (Core::AmdZen2, "AMD Zen 2", 3),
    (Core::AmdZen3, "AMD Zen 3", 4),
    (Core::AmdZen4, "AMD Zen 4", 5),
    (Core::AmdZen5, "AMD Zen 5", 6),
    (Core::ArmCortexA53, "Arm Cortex-A53", 0),
    (Core::ArmCortexA55, "Arm Cortex-A55", 0),
    (Core::ArmCortexA72, "Arm Cortex-A72", 0),
    (Core::ArmCortexA76, "Arm Cortex-A76", 0),
    (Core::ArmCortexA78, "Arm Cortex-A78", 0),
    (Core::ArmCortexX1, "Arm Cortex-X1", 0),
    (Core::ArmCortexA510, "Arm Cortex-A510", 0),
    (Core::ArmCortexA710, "Arm Cortex-A710", 0),
    (Core::ArmCortexA720, "Arm Cortex-A720", 0),
    (Core::ArmNeoverseN1, "Arm Neoverse N1", 0),
    (Core::ArmNeoverseN2, "Arm Neoverse N2", 0),
    (Core::ArmNeoverseN3, "Arm Neoverse N3", 0),
    (Core::ArmNeoverseV1, "Arm Neoverse V1", 0),
    (Core::ArmNeoverseV2, "Arm Neoverse V2", 0),
    (Core::ArmNeoverseV3, "Arm Neoverse V3", 0),
    (Core::AmpereOne, "AmpereOne", 0),
    (Core::AppleM1, "Apple M1 Firestorm", 0),
    (Core::AppleM1Efficiency, "Apple M1 Icestorm", 0),
    (Core::AppleM2, "Apple M2 Avalanche", 0),
    (Core::AppleM2Efficiency, "Apple M2 Blizzard", 0),
    (Core::FujitsuA64fx, "Fujitsu A64FX", 0),
    (Core::QualcommOryon, "Qualcomm Oryon", 0),
    (Core::Unknown, "unknown", 0),
];

/// Intel family 6: model numbers, product name, core of the P-cores, core of the E-cores if there are any.
/// Source: `arch/x86/include/asm/intel-family.h` of the kernel.
pub(super) const INTEL_MODELS: &[(&[u32], &str, CoreClass, Option<CoreClass>)] = &[
    (&[26, 30, 31, 46, 37, 44, 47], "Nehalem/Westmere", Core::IntelNehalem, None),
    (&[42, 45, 58, 62], "Sandy/Ivy Bridge", Core::IntelSandyBridge, None),
    (&[60, 63, 69, 70, 61, 71, 79, 86], "Haswell/Broadwell", Core::IntelHaswell, None),
    (&[78, 94, 142, 158, 165, 166], "Skylake to Comet Lake", Core::IntelSkylake, None),
    (&[85], "Skylake/Cascade Lake/Cooper Lake server", Core::IntelSkylake, None),
    (&[106, 108, 125, 126], "Ice Lake", Core::IntelIceLake, None),
    (&[167], "Rocket Lake", Core::IntelIceLake, None),
    (&[138], "Lakefield", Core::IntelIceLake, Some(Core::IntelTremont)),
    (&[140, 141], "Tiger Lake", Core::IntelTigerLake, None),
    (&[143, 207], "Sapphire/Emerald Rapids", Core::IntelGoldenCove, None),
    (&[151, 154], "Alder Lake", Core::IntelGoldenCove, Some(Core::IntelGracemont)),
    (&[183, 186, 191], "Raptor Lake", Core::IntelGoldenCove, Some(Core::IntelGracemont)),
    (&[170, 172], "Meteor Lake", Core::IntelRedwoodCove, Some(Core::IntelCrestmont)),
    (&[173, 174], "Granite Rapids", Core::IntelRedwoodCove, None),
    (&[189], "Lunar Lake", Core::IntelLionCove, Some(Core::IntelSkymont)),
    (&[197, 198], "Arrow Lake", Core::IntelLionCove, Some(Core::IntelSkymont)),
    (&[181], "Arrow Lake U", Core::IntelRedwoodCove, Some(Core::IntelCrestmont)),
    (&[55, 74, 77, 90, 93, 76], "Silvermont/Airmont", Core::IntelSilvermont, None),
    (&[92, 95, 122], "Goldmont", Core::IntelGoldmont, None),
    (&[134, 150, 156], "Tremont", Core::IntelTremont, None),
    (&[190], "Alder Lake-N", Core::IntelGracemont, None),
    (&[175, 182], "Sierra Forest/Grand Ridge", Core::IntelCrestmont, None),
];

/// AMD: family, first and last model number, product name, core. Source: `arch/x86/kernel/cpu/amd.c` (`init_amd`) of the
/// kernel, which divides Zen 1 from 2, 3 from 4 and so on by the same ranges. Hygon's family 24 is Zen.
pub(super) const AMD_MODELS: &[(u32, u32, u32, &str, CoreClass)] = &[
    (21, 0, 255, "Bulldozer to Excavator", Core::AmdBulldozer),
    (23, 0, 47, "Zen/Zen+ (Naples, Summit Ridge)", Core::AmdZen1),
    (23, 48, 255, "Zen 2 (Rome, Matisse, Renoir)", Core::AmdZen2),
    (24, 0, 255, "Hygon Dhyana", Core::AmdZen1),
    (25, 0, 15, "Zen 3 (Milan)", Core::AmdZen3),
    (25, 16, 31, "Zen 4 (Genoa)", Core::AmdZen4),
    (25, 32, 95, "Zen 3 (Vermeer, Cezanne, Rembrandt)", Core::AmdZen3),
    (25, 96, 175, "Zen 4 (Raphael, Phoenix, Bergamo)", Core::AmdZen4),
    (26, 0, 255, "Zen 5 (Turin, Granite Ridge, Strix)", Core::AmdZen5),
];

/// MIDR implementer and part numbers, core. Source: `arch/arm64/include/asm/cputype.h` of the kernel.
pub(super) const ARM_PARTS: &[(u32, u32, CoreClass)] = &[
    (0x41, 0xd03, Core::ArmCortexA53),
    (0x41, 0xd05, Core::ArmCortexA55),
    (0x41, 0xd08, Core::ArmCortexA72),
    (0x41, 0xd0b, Core::ArmCortexA76),
    (0x41, 0xd41, Core::ArmCortexA78),
    (0x41, 0xd44, Core::ArmCortexX1),
    (0x41, 0xd46, Core::ArmCortexA510),
    (0x41, 0xd47, Core::ArmCortexA710),
    (0x41, 0xd81, Core::ArmCortexA720),
    (0x41, 0xd0c, Core::ArmNeoverseN1),
    (0x41, 0xd49, Core::ArmNeoverseN2),
    (0x41, 0xd8e, Core::ArmNeoverseN3),
    (0x41, 0xd40, Core::ArmNeoverseV1),
    (0x41, 0xd4f, Core::ArmNeoverseV2),
    (0x41, 0xd84, Core::ArmNeoverseV3),
    (0x46, 0x001, Core::FujitsuA64fx),
    (0x51, 0x001, Core::QualcommOryon),
    (0x61, 0x022, Core::AppleM1Efficiency),
    (0x61, 0x023, Core::AppleM1),
    (0x61, 0x024, Core::AppleM1Efficiency),
    (0x61, 0x025, Core::AppleM1),
    (0x61, 0x028, Core::AppleM1Efficiency),
    (0x61, 0x029, Core::AppleM1),
    (0x61, 0x032, Core::AppleM2Efficiency),
    (0x61, 0x033, Core::AppleM2),
    (0xc0, 0xac3, Core::AmpereOne),
    (0xc0, 0xac4, Core::AmpereOne),
];

/// Features of x86 cores, newest first: the first row that is present gives the *earliest* core that can be below. A
/// hypervisor can hide a feature but cannot lend one, so a feature is a lower bound and its absence is nothing.
/// Names as in `/proc/cpuinfo` (`arch/x86/include/asm/cpufeatures.h` of the kernel).
pub(super) const INTEL_FEATURES: &[(&[&str], CoreClass)] = &[
    (&["amx_fp16"], Core::IntelRedwoodCove),
    (&["amx_tile"], Core::IntelGoldenCove),
    (&["avx512_fp16"], Core::IntelGoldenCove),
    (&["avx_vnni"], Core::IntelGoldenCove),
    (&["avx512_vp2intersect"], Core::IntelTigerLake),
    (&["avx512_bitalg"], Core::IntelIceLake),
    (&["avx512f"], Core::IntelSkylake),
    (&["clflushopt", "avx2"], Core::IntelSkylake),
    (&["avx2"], Core::IntelHaswell),
    (&["avx"], Core::IntelSandyBridge),
    (&["gfni"], Core::IntelTremont),
    (&["sha_ni"], Core::IntelGoldmont),
    (&["sse4_2"], Core::IntelNehalem),
];

/// As [`INTEL_FEATURES`], for AMD.
pub(super) const AMD_FEATURES: &[(&[&str], CoreClass)] = &[
    (&["avx_vnni"], Core::AmdZen5),
    (&["avx512_vp2intersect"], Core::AmdZen5),
    (&["avx512f"], Core::AmdZen4),
    (&["vaes"], Core::AmdZen3),
    (&["clwb"], Core::AmdZen2),
    (&["clzero"], Core::AmdZen1),
    (&["avx"], Core::AmdBulldozer),
];
