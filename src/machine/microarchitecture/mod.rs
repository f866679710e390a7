//! Which core this is: by its model number, by its features, and what to believe when the two disagree.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fact::Fact;

mod tables;

use tables::{AMD_FEATURES, AMD_MODELS, ARM_PARTS, CORES, INTEL_FEATURES, INTEL_MODELS};

/// A family of cores that share pipeline, latencies and cache levels: the key under which the expected costs of a core
/// are known. Variants of one core (client and server, or a process shrink) share a class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the variants are the names of the cores, and CORES writes them out")]
pub enum CoreClass {
    IntelNehalem,
    IntelSandyBridge,
    IntelHaswell,
    IntelSkylake,
    IntelIceLake,
    IntelTigerLake,
    IntelGoldenCove,
    IntelRedwoodCove,
    IntelLionCove,
    IntelSilvermont,
    IntelGoldmont,
    IntelTremont,
    IntelGracemont,
    IntelCrestmont,
    IntelSkymont,
    AmdBulldozer,
    AmdZen1,
    AmdZen2,
    AmdZen3,
    AmdZen4,
    AmdZen5,
    ArmCortexA35,
    ArmCortexA53,
    ArmCortexA55,
    ArmCortexA57,
    ArmCortexA72,
    ArmCortexA73,
    ArmCortexA75,
    ArmCortexA76,
    ArmCortexA77,
    ArmCortexA78,
    ArmCortexX1,
    ArmCortexX2,
    ArmCortexX3,
    ArmCortexX4,
    ArmCortexX925,
    ArmCortexA510,
    ArmCortexA520,
    ArmCortexA710,
    ArmCortexA715,
    ArmCortexA720,
    ArmCortexA725,
    ArmNeoverseN1,
    ArmNeoverseN2,
    ArmNeoverseN3,
    ArmNeoverseV1,
    ArmNeoverseV2,
    ArmNeoverseV3,
    AmpereOne,
    AppleM1,
    AppleM1Efficiency,
    AppleM2,
    AppleM2Efficiency,
    AppleGuest,
    FujitsuA64fx,
    HuaweiTaishan,
    MarvellThunderX2,
    QualcommOryon,
    #[default]
    Unknown,
}

impl CoreClass {
    /// The name as its maker writes it.
    pub fn name(self) -> &'static str {
        CORES.iter().find(|(class, ..)| *class == self).map_or("unknown", |(_, name, _)| name)
    }

    /// Position in time among the cores of one maker: a feature that appeared with generation N cannot exist in an
    /// earlier core. Zero for cores whose features are not ordered here.
    fn generation(self) -> u32 {
        CORES.iter().find(|(class, ..)| *class == self).map_or(0, |(_, _, generation)| *generation)
    }
}

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
    ARM_PARTS.iter().find(|row| (row.0, row.1) == (implementer, part)).map(|row| row.2)
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
        let parts: HashSet<_> = ARM_PARTS.iter().map(|row| (row.0, row.1)).collect();
        assert_eq!(parts.len(), ARM_PARTS.len());
        for (position, row) in AMD_MODELS.iter().enumerate() {
            assert!(AMD_MODELS[..position].iter().all(|other| other.0 != row.0 || other.2 < row.1), "{row:?}");
        }
    }

    #[test]
    fn every_class_of_a_table_has_a_name_and_features_run_from_new_to_old() {
        let of_tables = INTEL_MODELS.iter().map(|row| row.2).chain(AMD_MODELS.iter().map(|row| row.4));
        for class in of_tables.chain(ARM_PARTS.iter().map(|row| row.2)) {
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
