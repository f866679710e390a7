//! Which core this is: by its model number, by its features, and what to believe when the two disagree.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fact::Fact;

/// Makes the classes of cores from one row each: class, name as its maker writes it, generation, and the MIDR implementer and part
/// numbers of its cores.
///
/// The generation is the position in time among x86 cores of one maker: a feature that appeared with generation N cannot exist in an
/// earlier core. Efficiency cores share the generation of the performance cores whose instruction set they were given. It is zero for
/// cores whose features are not ordered here.
macro_rules! cores {
    ($($class:ident $name:literal $generation:literal $parts:tt;)+) => {
        /// A family of cores that share pipeline, latencies and cache levels: the key under which the expected costs of a core
        /// are known. Variants of one core (client and server, or a process shrink) share a class.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[allow(missing_docs, reason = "the variants are the names of the cores, and CORES writes them out")]
        pub enum CoreClass {
            $($class,)+
            #[default]
            Unknown,
        }

        const CORES: &[Core] = &[
            $(Core { class: CoreClass::$class, name: $name, generation: $generation, parts: &$parts },)+
        ];
    };
}

/// What is known of a class.
struct Core {
    class: CoreClass,
    name: &'static str,
    generation: u32,
    parts: &'static [(u32, u32)],
}

// Source of the numbers: `arch/arm64/include/asm/cputype.h` of the kernel. Kryo and Cobalt cores are cores of Arm under another number.
cores! {
    IntelNehalem "Intel Nehalem/Westmere" 1 [];
    IntelSandyBridge "Intel Sandy/Ivy Bridge" 2 [];
    IntelHaswell "Intel Haswell/Broadwell" 3 [];
    IntelSkylake "Intel Skylake" 4 [];
    IntelIceLake "Intel Sunny Cove (Ice Lake, Rocket Lake)" 5 [];
    IntelTigerLake "Intel Willow Cove (Tiger Lake)" 6 [];
    IntelGoldenCove "Intel Golden Cove (Alder Lake, Sapphire Rapids)" 7 [];
    IntelRedwoodCove "Intel Redwood Cove (Meteor Lake, Granite Rapids)" 8 [];
    IntelLionCove "Intel Lion Cove (Lunar Lake, Arrow Lake)" 9 [];
    IntelSilvermont "Intel Silvermont" 1 [];
    IntelGoldmont "Intel Goldmont" 1 [];
    IntelTremont "Intel Tremont" 1 [];
    IntelGracemont "Intel Gracemont" 7 [];
    IntelCrestmont "Intel Crestmont" 8 [];
    IntelSkymont "Intel Skymont" 9 [];
    AmdBulldozer "AMD Bulldozer to Excavator" 1 [];
    AmdZen1 "AMD Zen" 2 [];
    AmdZen2 "AMD Zen 2" 3 [];
    AmdZen3 "AMD Zen 3" 4 [];
    AmdZen4 "AMD Zen 4" 5 [];
    AmdZen5 "AMD Zen 5" 6 [];
    ArmCortexA35 "Arm Cortex-A35" 0 [(0x41, 0xd04)];
    ArmCortexA53 "Arm Cortex-A53" 0 [(0x41, 0xd03), (0x51, 0x801)];
    ArmCortexA55 "Arm Cortex-A55" 0 [(0x41, 0xd05), (0x51, 0x803), (0x51, 0x805)];
    ArmCortexA57 "Arm Cortex-A57" 0 [(0x41, 0xd07)];
    ArmCortexA72 "Arm Cortex-A72" 0 [(0x41, 0xd08)];
    ArmCortexA73 "Arm Cortex-A73" 0 [(0x41, 0xd09), (0x51, 0x800)];
    ArmCortexA75 "Arm Cortex-A75" 0 [(0x41, 0xd0a), (0x51, 0x802)];
    ArmCortexA76 "Arm Cortex-A76" 0 [(0x41, 0xd0b), (0x41, 0xd0e), (0x51, 0x804)];
    ArmCortexA77 "Arm Cortex-A77" 0 [(0x41, 0xd0d)];
    ArmCortexA78 "Arm Cortex-A78" 0 [(0x41, 0xd41), (0x41, 0xd42), (0x41, 0xd4b)];
    ArmCortexX1 "Arm Cortex-X1" 0 [(0x41, 0xd44), (0x41, 0xd4c)];
    ArmCortexX2 "Arm Cortex-X2" 0 [(0x41, 0xd48)];
    ArmCortexX3 "Arm Cortex-X3" 0 [(0x41, 0xd4e)];
    ArmCortexX4 "Arm Cortex-X4" 0 [(0x41, 0xd82)];
    ArmCortexX925 "Arm Cortex-X925" 0 [(0x41, 0xd85)];
    ArmCortexA510 "Arm Cortex-A510" 0 [(0x41, 0xd46)];
    ArmCortexA520 "Arm Cortex-A520" 0 [(0x41, 0xd80)];
    ArmCortexA710 "Arm Cortex-A710" 0 [(0x41, 0xd47)];
    ArmCortexA715 "Arm Cortex-A715" 0 [(0x41, 0xd4d)];
    ArmCortexA720 "Arm Cortex-A720" 0 [(0x41, 0xd81)];
    ArmCortexA725 "Arm Cortex-A725" 0 [(0x41, 0xd87)];
    ArmNeoverseN1 "Arm Neoverse N1" 0 [(0x41, 0xd0c)];
    ArmNeoverseN2 "Arm Neoverse N2" 0 [(0x41, 0xd49), (0x6d, 0xd49)];
    ArmNeoverseN3 "Arm Neoverse N3" 0 [(0x41, 0xd8e)];
    ArmNeoverseV1 "Arm Neoverse V1" 0 [(0x41, 0xd40)];
    ArmNeoverseV2 "Arm Neoverse V2" 0 [(0x41, 0xd4f)];
    ArmNeoverseV3 "Arm Neoverse V3" 0 [(0x41, 0xd84)];
    AmpereOne "AmpereOne" 0 [(0xc0, 0xac3), (0xc0, 0xac4)];
    AppleM1 "Apple M1 Firestorm" 0 [(0x61, 0x023), (0x61, 0x025), (0x61, 0x029)];
    AppleM1Efficiency "Apple M1 Icestorm" 0 [(0x61, 0x022), (0x61, 0x024), (0x61, 0x028)];
    AppleM2 "Apple M2 Avalanche" 0 [(0x61, 0x033)];
    AppleM2Efficiency "Apple M2 Blizzard" 0 [(0x61, 0x032)];
    AppleGuest "Apple (part hidden from guests)" 0 [(0x61, 0x000)];
    FujitsuA64fx "Fujitsu A64FX" 0 [(0x46, 0x001)];
    HuaweiTaishan "Huawei TaiShan v110" 0 [(0x48, 0xd01)];
    MarvellThunderX2 "Marvell ThunderX2" 0 [(0x42, 0x516), (0x43, 0x0af)];
    QualcommOryon "Qualcomm Oryon" 0 [(0x51, 0x001)];
}

impl CoreClass {
    fn core(self) -> Option<&'static Core> {
        CORES.iter().find(|core| core.class == self)
    }

    /// The name as its maker writes it.
    pub fn name(self) -> &'static str {
        self.core().map_or("unknown", |core| core.name)
    }

    fn generation(self) -> u32 {
        self.core().map_or(0, |core| core.generation)
    }
}

/// Intel family 6: model numbers, product name, core of the P-cores, core of the E-cores if there are any.
/// Source: `arch/x86/include/asm/intel-family.h` of the kernel.
const INTEL_MODELS: &[(&[u32], &str, CoreClass, Option<CoreClass>)] = &[
    (&[26, 30, 31, 46, 37, 44, 47], "Nehalem/Westmere", CoreClass::IntelNehalem, None),
    (&[42, 45, 58, 62], "Sandy/Ivy Bridge", CoreClass::IntelSandyBridge, None),
    (&[60, 63, 69, 70, 61, 71, 79, 86], "Haswell/Broadwell", CoreClass::IntelHaswell, None),
    (&[78, 94, 142, 158, 165, 166], "Skylake to Comet Lake", CoreClass::IntelSkylake, None),
    (&[85], "Skylake/Cascade Lake/Cooper Lake server", CoreClass::IntelSkylake, None),
    (&[106, 108, 125, 126], "Ice Lake", CoreClass::IntelIceLake, None),
    (&[167], "Rocket Lake", CoreClass::IntelIceLake, None),
    (&[138], "Lakefield", CoreClass::IntelIceLake, Some(CoreClass::IntelTremont)),
    (&[140, 141], "Tiger Lake", CoreClass::IntelTigerLake, None),
    (&[143, 207], "Sapphire/Emerald Rapids", CoreClass::IntelGoldenCove, None),
    (&[151, 154], "Alder Lake", CoreClass::IntelGoldenCove, Some(CoreClass::IntelGracemont)),
    (&[183, 186, 191], "Raptor Lake", CoreClass::IntelGoldenCove, Some(CoreClass::IntelGracemont)),
    (&[170, 172], "Meteor Lake", CoreClass::IntelRedwoodCove, Some(CoreClass::IntelCrestmont)),
    (&[173, 174], "Granite Rapids", CoreClass::IntelRedwoodCove, None),
    (&[189], "Lunar Lake", CoreClass::IntelLionCove, Some(CoreClass::IntelSkymont)),
    (&[197, 198], "Arrow Lake", CoreClass::IntelLionCove, Some(CoreClass::IntelSkymont)),
    (&[181], "Arrow Lake U", CoreClass::IntelRedwoodCove, Some(CoreClass::IntelCrestmont)),
    (&[55, 74, 77, 90, 93, 76], "Silvermont/Airmont", CoreClass::IntelSilvermont, None),
    (&[92, 95, 122], "Goldmont", CoreClass::IntelGoldmont, None),
    (&[134, 150, 156], "Tremont", CoreClass::IntelTremont, None),
    (&[190], "Alder Lake-N", CoreClass::IntelGracemont, None),
    (&[175, 182], "Sierra Forest/Grand Ridge", CoreClass::IntelCrestmont, None),
];

/// AMD: family, first and last model number, product name, core. Source: `arch/x86/kernel/cpu/amd.c` (`init_amd`) of the
/// kernel, which divides Zen 1 from 2, 3 from 4 and so on by the same ranges. Hygon's family 24 is Zen.
const AMD_MODELS: &[(u32, u32, u32, &str, CoreClass)] = &[
    (21, 0, 255, "Bulldozer to Excavator", CoreClass::AmdBulldozer),
    (23, 0, 47, "Zen/Zen+ (Naples, Summit Ridge)", CoreClass::AmdZen1),
    (23, 48, 255, "Zen 2 (Rome, Matisse, Renoir)", CoreClass::AmdZen2),
    (24, 0, 255, "Hygon Dhyana", CoreClass::AmdZen1),
    (25, 0, 15, "Zen 3 (Milan)", CoreClass::AmdZen3),
    (25, 16, 31, "Zen 4 (Genoa)", CoreClass::AmdZen4),
    (25, 32, 95, "Zen 3 (Vermeer, Cezanne, Rembrandt)", CoreClass::AmdZen3),
    (25, 96, 175, "Zen 4 (Raphael, Phoenix, Bergamo)", CoreClass::AmdZen4),
    (26, 0, 255, "Zen 5 (Turin, Granite Ridge, Strix)", CoreClass::AmdZen5),
];

/// Features of x86 cores, newest first: the first row that is present gives the *earliest* core that can be below. A
/// hypervisor can hide a feature but cannot lend one, so a feature is a lower bound and its absence is nothing.
/// Names as in `/proc/cpuinfo` (`arch/x86/include/asm/cpufeatures.h` of the kernel).
const INTEL_FEATURES: &[(&[&str], CoreClass)] = &[
    (&["amx_fp16"], CoreClass::IntelRedwoodCove),
    (&["amx_tile"], CoreClass::IntelGoldenCove),
    (&["avx512_fp16"], CoreClass::IntelGoldenCove),
    (&["avx_vnni"], CoreClass::IntelGoldenCove),
    (&["avx512_vp2intersect"], CoreClass::IntelTigerLake),
    (&["avx512_bitalg"], CoreClass::IntelIceLake),
    (&["avx512f"], CoreClass::IntelSkylake),
    (&["clflushopt", "avx2"], CoreClass::IntelSkylake),
    (&["avx2"], CoreClass::IntelHaswell),
    (&["avx"], CoreClass::IntelSandyBridge),
    (&["gfni"], CoreClass::IntelTremont),
    (&["sha_ni"], CoreClass::IntelGoldmont),
    (&["sse4_2"], CoreClass::IntelNehalem),
];

/// As [`INTEL_FEATURES`], for AMD.
const AMD_FEATURES: &[(&[&str], CoreClass)] = &[
    (&["avx_vnni"], CoreClass::AmdZen5),
    (&["avx512_vp2intersect"], CoreClass::AmdZen5),
    (&["avx512f"], CoreClass::AmdZen4),
    (&["vaes"], CoreClass::AmdZen3),
    (&["clwb"], CoreClass::AmdZen2),
    (&["clzero"], CoreClass::AmdZen1),
    (&["avx"], CoreClass::AmdBulldozer),
];

/// Which core this is, with the evidence of both kinds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Microarchitecture {
    /// What the evidence supports best.
    pub class: CoreClass,
    /// The class of the efficiency cores, where the processor has some.
    pub efficiency_class: Option<CoreClass>,
    /// True when nothing contradicts the class and no hypervisor could have falsified it.
    pub certain: bool,
    /// Why the class is believed, or doubted.
    pub reason: String,
    /// What the model number (or the MIDR part number) says.
    pub by_model: Option<Fact<CoreClass>>,
    /// The earliest core that can have the features that are present.
    pub by_features: Option<Fact<CoreClass>>,
}

/// What is known of a core before it is classified.
#[derive(Debug, Clone, Copy)]
pub(super) struct CoreIdentity<'a> {
    pub vendor: &'a str,
    pub family: u32,
    pub model: u32,
    /// MIDR implementer and part number of an Arm core.
    pub midr: Option<(u32, u32)>,
    pub features: &'a [String],
    /// True below a hypervisor.
    pub guest: bool,
}

impl Microarchitecture {
    /// True when features exist that the core of this model number cannot have.
    pub fn contradictory(&self) -> bool {
        match (&self.by_model, &self.by_features) {
            (Some(model), Some(features)) => features.value.generation() > model.value.generation(),
            _ => false,
        }
    }

    /// Weighs the evidence about one core.
    pub(super) fn of(identity: CoreIdentity<'_>) -> Microarchitecture {
        let (by_model, efficiency_class) = class_by_model(identity);
        let mut found = Microarchitecture {
            efficiency_class,
            by_model,
            by_features: class_by_features(identity),
            ..Microarchitecture::default()
        };
        found.weigh(identity.guest);
        found
    }

    /// Takes the size of the smallest first-level instruction cache as one more feature. Golden Cove has 32 KiB and Redwood Cove has
    /// 64 KiB. The efficiency cores with 64 KiB have none of the features that are asked for here.
    pub(super) fn consider_instruction_cache(&mut self, bytes: &Fact<u64>, guest: bool) {
        const LARGE: u64 = 64 << 10;
        const ONLY_LARGE_CORES: [&str; 2] = ["amx_tile", "avx512_fp16"];
        let Some(features) = &self.by_features else { return };
        let is_large_core = ONLY_LARGE_CORES.iter().any(|name| features.source.ends_with(name));
        if features.value == CoreClass::IntelGoldenCove && is_large_core && bytes.value >= LARGE {
            let source = format!("{}, {}", features.source, bytes.source);
            self.by_features = Some(Fact::new(CoreClass::IntelRedwoodCove, source));
            self.weigh(guest);
        }
    }

    fn weigh(&mut self, guest: bool) {
        let contradictory = self.contradictory();
        let (class, certain, reason) = match (&self.by_model, &self.by_features) {
            (Some(_), Some(features)) if contradictory => {
                self.efficiency_class = None;
                (
                    features.value,
                    false,
                    "a core with this model number cannot have these features, so the number is false",
                )
            }
            (Some(model), _) if guest => {
                (model.value, false, "the hypervisor chooses the model number, and the features do not contradict it")
            }
            (Some(model), _) => (model.value, true, "model number of a machine without a hypervisor"),
            (None, Some(features)) => {
                (features.value, false, "the model number is unknown, and the features need this core or a later one")
            }
            (None, None) => (CoreClass::Unknown, false, "model number and features are unknown"),
        };
        (self.class, self.certain, self.reason) = (class, certain, reason.to_owned());
    }
}

/// The class of an Arm core by its MIDR implementer and part number.
pub(super) fn class_of_part(implementer: u32, part: u32) -> Option<CoreClass> {
    CORES.iter().find(|core| core.parts.contains(&(implementer, part))).map(|core| core.class)
}

fn class_by_model(identity: CoreIdentity<'_>) -> (Option<Fact<CoreClass>>, Option<CoreClass>) {
    const SOURCE: &str = "/proc/cpuinfo";
    let CoreIdentity { family, model, .. } = identity;
    if let Some((implementer, part)) = identity.midr {
        let source = format!("{SOURCE} implementer {implementer:#x} part {part:#x}");
        return (class_of_part(implementer, part).map(|class| Fact::new(class, source)), None);
    }
    let source = |name: &str| format!("{SOURCE} family {family} model {model}: {name}");
    match identity.vendor {
        "GenuineIntel" if family == 6 => {
            let row = INTEL_MODELS.iter().find(|row| row.0.contains(&model));
            (row.map(|row| Fact::new(row.2, source(row.1))), row.and_then(|row| row.3))
        }
        "AuthenticAMD" | "HygonGenuine" => {
            let row = AMD_MODELS.iter().find(|row| row.0 == family && (row.1..=row.2).contains(&model));
            (row.map(|row| Fact::new(row.4, source(row.3))), None)
        }
        _ => (None, None),
    }
}

fn class_by_features(identity: CoreIdentity<'_>) -> Option<Fact<CoreClass>> {
    let table = match identity.vendor {
        "GenuineIntel" => INTEL_FEATURES,
        "AuthenticAMD" | "HygonGenuine" => AMD_FEATURES,
        _ => return None,
    };
    let present = |name: &&str| identity.features.iter().any(|feature| feature == name);
    table
        .iter()
        .find(|(names, _)| names.iter().all(present))
        .map(|(names, class)| Fact::new(*class, format!("/proc/cpuinfo flags {}", names.join(" "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn classify(vendor: &str, family: u32, model: u32, features: &[&str], guest: bool) -> Microarchitecture {
        let features: Vec<String> = features.iter().map(|name| (*name).to_owned()).collect();
        Microarchitecture::of(CoreIdentity { vendor, family, model, midr: None, features: &features, guest })
    }

    #[test]
    fn no_model_number_stands_in_two_rows() {
        let mut seen = HashSet::new();
        for model in INTEL_MODELS.iter().flat_map(|row| row.0) {
            assert!(seen.insert(model), "{model}");
        }
        let parts = CORES.iter().flat_map(|core| core.parts);
        assert_eq!(parts.clone().collect::<HashSet<_>>().len(), parts.count());
        for (position, row) in AMD_MODELS.iter().enumerate() {
            assert!(AMD_MODELS[..position].iter().all(|other| other.0 != row.0 || other.2 < row.1), "{row:?}");
        }
    }

    #[test]
    fn every_class_of_a_table_has_a_name_and_features_run_from_new_to_old() {
        let of_tables = INTEL_MODELS.iter().map(|row| row.2).chain(AMD_MODELS.iter().map(|row| row.4));
        for class in of_tables {
            assert_ne!(class.name(), "unknown", "{class:?}");
        }
        for table in [INTEL_FEATURES, AMD_FEATURES] {
            assert!(table.windows(2).all(|pair| pair[0].1.generation() >= pair[1].1.generation()));
        }
    }

    #[test]
    fn features_that_the_model_cannot_have_win() {
        let found = classify("GenuineIntel", 6, 167, &["avx2", "avx512f", "avx512_bitalg", "amx_tile"], true);
        assert_eq!(found.class, CoreClass::IntelGoldenCove);
        assert!(found.contradictory() && !found.certain);
        assert_eq!(found.by_model.map(|fact| fact.value), Some(CoreClass::IntelIceLake));
    }

    #[test]
    fn missing_features_prove_nothing() {
        let found = classify("GenuineIntel", 6, 143, &["avx2"], true);
        assert_eq!((found.class, found.certain), (CoreClass::IntelGoldenCove, false));
        assert!(!found.contradictory());
    }

    #[test]
    fn a_hybrid_processor_has_two_classes() {
        let found = classify("GenuineIntel", 6, 151, &["avx2", "avx_vnni"], false);
        assert_eq!((found.class, found.certain), (CoreClass::IntelGoldenCove, true));
        assert_eq!(found.efficiency_class, Some(CoreClass::IntelGracemont));
    }

    #[test]
    fn zen_generations_are_told_apart() {
        for (family, model, class) in [
            (23, 1, CoreClass::AmdZen1),
            (23, 49, CoreClass::AmdZen2),
            (25, 1, CoreClass::AmdZen3),
            (25, 17, CoreClass::AmdZen4),
            (25, 33, CoreClass::AmdZen3),
            (25, 97, CoreClass::AmdZen4),
            (26, 2, CoreClass::AmdZen5),
        ] {
            assert_eq!(classify("AuthenticAMD", family, model, &[], false).class, class);
        }
    }

    #[test]
    fn a_large_instruction_cache_tells_redwood_cove_from_golden_cove() {
        let class = |model, flag, bytes| {
            let mut found = classify("GenuineIntel", 6, model, &[flag], true);
            found.consider_instruction_cache(&Fact::new(bytes, "index1/size"), true);
            (found.class, found.contradictory())
        };
        assert_eq!(class(167, "amx_tile", 64 << 10), (CoreClass::IntelRedwoodCove, true));
        assert_eq!(class(173, "amx_tile", 64 << 10), (CoreClass::IntelRedwoodCove, false));
        assert_eq!(class(207, "amx_tile", 32 << 10), (CoreClass::IntelGoldenCove, false));
        // Efficiency cores: the cache of that size is their own.
        assert_eq!(class(190, "avx_vnni", 64 << 10), (CoreClass::IntelGracemont, false));
    }

    #[test]
    fn an_unknown_model_is_classified_by_its_features() {
        let found = classify("GenuineIntel", 6, 250, &["amx_tile"], false);
        assert_eq!((found.class, found.certain), (CoreClass::IntelGoldenCove, false));
        assert_eq!(classify("", 0, 0, &[], false).class, CoreClass::Unknown);
    }
}
