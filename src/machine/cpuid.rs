//! What the CPUID instruction says; the live machine only.
//!
//! Under a hypervisor every CPUID traps (about a microsecond), so it is read once, here, before anything is measured.

use super::fact::Fact;
use super::tree::Tree;

/// The answers of CPUID that the kernel does not show in files. All are empty off x86 and for a captured tree.
#[derive(Debug, Clone, Default)]
pub(super) struct Cpuid {
    pub brand: Option<Fact<String>>,
    pub tsc_hertz: Option<Fact<f64>>,
    pub hypervisor_tsc_hertz: Option<Fact<f64>>,
    pub base_hertz: Option<Fact<f64>>,
    pub maximum_hertz: Option<Fact<f64>>,
    pub hypervisor: Option<Fact<String>>,
    pub caches: Vec<CacheClaim>,
}

/// One cache as CPUID describes it.
#[derive(Debug, Clone)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only CPUID makes such claims"))]
pub(super) struct CacheClaim {
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`, as sysfs writes it.
    pub kind: &'static str,
    pub size_bytes: Fact<u64>,
}

impl Cpuid {
    /// Asks the processor, if it is the described one and has the instruction.
    pub fn read(tree: &Tree) -> Cpuid {
        if tree.is_live() { read(tree) } else { Cpuid::default() }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn read(_: &Tree) -> Cpuid {
    Cpuid::default()
}

#[cfg(target_arch = "x86_64")]
fn read(tree: &Tree) -> Cpuid {
    let cpuid = raw_cpuid::CpuId::new();
    let frequencies = cpuid.get_processor_frequency_info();
    // Zero means "not enumerated" in every one of these fields.
    let megahertz = |value: u16| (value > 0).then(|| Fact::new(f64::from(value) * 1e6, "CPUID leaf 16h"));
    let hypervisor = cpuid.get_hypervisor_info();
    Cpuid {
        brand: cpuid
            .get_processor_brand_string()
            .map(|brand| Fact::new(brand.as_str().trim().to_owned(), "CPUID leaf 80000002h"))
            .filter(|fact| !fact.value.is_empty()),
        tsc_hertz: cpuid
            .get_tsc_info()
            .and_then(|info| info.tsc_frequency())
            .map(|hertz| Fact::new(hertz as f64, "CPUID leaf 15h")),
        hypervisor_tsc_hertz: hypervisor
            .as_ref()
            .and_then(raw_cpuid::HypervisorInfo::tsc_frequency)
            .filter(|kilohertz| *kilohertz > 0)
            .map(|kilohertz| Fact::new(f64::from(kilohertz) * 1e3, "CPUID leaf 40000010h")),
        base_hertz: frequencies.as_ref().and_then(|info| megahertz(info.processor_base_frequency())),
        maximum_hertz: frequencies.as_ref().and_then(|info| megahertz(info.processor_max_frequency())),
        hypervisor: hypervisor.map(|info| Fact::new(hypervisor_name(&info.identify()), "CPUID leaf 40000000h")),
        caches: caches(tree, &cpuid),
    }
}

#[cfg(target_arch = "x86_64")]
fn hypervisor_name(hypervisor: &raw_cpuid::Hypervisor) -> String {
    match hypervisor {
        // The twelve bytes of the signature, as the hypervisor writes its own name.
        raw_cpuid::Hypervisor::Unknown(first, second, third) => [first, second, third]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .filter(|byte| byte.is_ascii_graphic() || *byte == b' ')
            .map(char::from)
            .collect::<String>(),
        known => format!("{known:?}"),
    }
}

/// The caches by the deterministic cache parameters. Where P-cores and E-cores share a package the answer is that of
/// whichever core happens to execute the instruction, so nothing is said there: sysfs answers for each CPU.
#[cfg(target_arch = "x86_64")]
fn caches<R: raw_cpuid::CpuIdReader>(tree: &Tree, cpuid: &raw_cpuid::CpuId<R>) -> Vec<CacheClaim> {
    use raw_cpuid::CacheType;

    /// More caches than any core has; a hypervisor that never ends its list must not hang the reader.
    const MOST_CACHES: usize = 16;
    let Some(parameters) = cpuid.get_cache_parameters() else { return Vec::new() };
    if tree.exists("/sys/devices/cpu_atom") {
        return Vec::new();
    }
    parameters
        .take(MOST_CACHES)
        .filter_map(|cache| {
            let kind = match cache.cache_type() {
                CacheType::Data => "Data",
                CacheType::Instruction => "Instruction",
                CacheType::Unified => "Unified",
                CacheType::Null | CacheType::Reserved => return None,
            };
            let lines = cache.associativity() * cache.physical_line_partitions() * cache.sets();
            let size_bytes = (lines * cache.coherency_line_size()) as u64;
            let size_bytes = Fact::new(size_bytes, "CPUID cache parameters (leaf 4 or 8000001Dh)");
            Some(CacheClaim { level: u32::from(cache.level()), kind, size_bytes })
        })
        .collect()
}
