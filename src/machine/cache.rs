//! The caches, each with the CPUs that share it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cpu::Cpu;
use super::cpu_list::CpuList;
use super::cpuid::Cpuid;
use super::fact::{Claims, Fact};
use super::tree::Tree;

/// What a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Data and instructions.
    Unified,
}

impl CacheKind {
    /// The kind as sysfs writes it.
    fn parse(text: &str) -> Option<CacheKind> {
        match text {
            "Data" => Some(CacheKind::Data),
            "Instruction" => Some(CacheKind::Instruction),
            "Unified" => Some(CacheKind::Unified),
            _ => None,
        }
    }
}

/// Caches of one level, kind and shape. Each instance keeps its own list of CPUs, because a hybrid machine has several
/// shapes and no total may ever be divided by a number of cores (gate G13).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cache {
    /// 1 is nearest to the core.
    pub level: u32,
    /// Data, instructions, or both.
    pub kind: CacheKind,
    /// Size of one instance in bytes.
    pub size_bytes: Claims<u64>,
    /// Line size in bytes.
    pub line_bytes: Option<u64>,
    /// Associativity; 0 is fully associative.
    pub ways: Option<u32>,
    /// The CPUs of each instance (`shared_cpu_list`), by their first CPU.
    pub instances: Vec<CpuList>,
}

impl Cache {
    /// The CPUs that share this cache with `cpu`, itself included; `None` when `cpu` has no such cache.
    pub fn shared_with(&self, cpu: u32) -> Option<&CpuList> {
        self.instances.iter().find(|cpus| cpus.contains(cpu))
    }

    /// A short name such as `L1d`, `L1i`, `L2`.
    pub fn name(&self) -> String {
        let suffix = match self.kind {
            CacheKind::Data => "d",
            CacheKind::Instruction => "i",
            CacheKind::Unified => "",
        };
        format!("L{}{suffix}", self.level)
    }
}

/// Reads the caches of every online CPU and groups those of one shape.
pub(super) fn read(tree: &Tree, cpuid: &Cpuid, cpu: &Cpu) -> Vec<Cache> {
    let mut caches: Vec<Cache> = Vec::new();
    for number in cpu.logical.iter().map(|entry| entry.cpu) {
        let directory = format!("/sys/devices/system/cpu/cpu{number}/cache");
        for index in tree.numbered(&directory, "index") {
            if let Some(found) = read_one(tree, &format!("{directory}/index{index}"), number) {
                include(&mut caches, found);
            }
        }
    }
    caches.sort_by_key(|cache| (cache.level, cache.kind, cache.instances.first().and_then(CpuList::first)));
    add_other_claims(tree, cpuid, cpu, &mut caches);
    caches
}

fn read_one(tree: &Tree, directory: &str, cpu: u32) -> Option<Cache> {
    let path = |file: &str| format!("{directory}/{file}");
    let size_bytes = tree.fact(&path("size")).and_then(|fact| fact.filter_map(|text| parse_size(&text)));
    // An instance whose sharing is not reported is this CPU's own, as far as anyone knows.
    let shared = tree.cpu_list_or_mask(&path("shared_cpu_list"), &path("shared_cpu_map"));
    let shared = shared.filter(|list| list.contains(cpu));
    Some(Cache {
        level: tree.parsed(&path("level"))?.value,
        kind: CacheKind::parse(&tree.trimmed(&path("type"))?)?,
        size_bytes: Claims::of([size_bytes]),
        line_bytes: tree.parsed(&path("coherency_line_size")).map(|fact| fact.value),
        ways: tree.parsed(&path("ways_of_associativity")).map(|fact| fact.value),
        instances: vec![shared.unwrap_or_else(|| CpuList::of([cpu]))],
    })
}

fn include(caches: &mut Vec<Cache>, found: Cache) {
    let size = |cache: &Cache| cache.size_bytes.best().map(|fact| fact.value);
    let alike = |cache: &&mut Cache| {
        (cache.level, cache.kind, cache.line_bytes, cache.ways)
            == (found.level, found.kind, found.line_bytes, found.ways)
            && size(cache) == size(&found)
    };
    let Some(group) = caches.iter_mut().find(alike) else {
        caches.push(found);
        return;
    };
    for instance in found.instances {
        if !group.instances.contains(&instance) {
            group.instances.push(instance);
        }
    }
}

/// Adds what CPUID and `/proc/cpuinfo` say of the same caches, where only one shape of the level exists.
fn add_other_claims(tree: &Tree, cpuid: &Cpuid, cpu: &Cpu, caches: &mut [Cache]) {
    let summary = summary_size(tree, cpu, caches);
    let shapes: Vec<(u32, CacheKind)> = caches.iter().map(|cache| (cache.level, cache.kind)).collect();
    for cache in caches {
        let key = (cache.level, cache.kind);
        if shapes.iter().filter(|shape| **shape == key).count() > 1 {
            continue;
        }
        let same =
            |claim: &&super::cpuid::CacheClaim| (claim.level, CacheKind::parse(claim.kind)) == (key.0, Some(key.1));
        cache.size_bytes.add(cpuid.caches.iter().find(same).map(|claim| claim.size_bytes.clone()));
        cache.size_bytes.add(summary.clone().filter(|(level, _)| *level == cache.level).map(|(_, size)| size));
    }
}

/// The one `cache size` of `/proc/cpuinfo` and its level: the last level on Intel, the second one on AMD
/// (`x86_cache_size` in `arch/x86/kernel/cpu/cacheinfo.c` and `cpu_detect_cache_sizes`).
fn summary_size(tree: &Tree, cpu: &Cpu, caches: &[Cache]) -> Option<(u32, Fact<u64>)> {
    let level = match cpu.vendor.as_ref()?.value.as_str() {
        "GenuineIntel" => caches.iter().map(|cache| cache.level).max()?,
        "AuthenticAMD" | "HygonGenuine" => 2,
        _ => return None,
    };
    let text = tree.text(super::cpuinfo::CPUINFO)?;
    let value = text.lines().find_map(|line| line.strip_prefix("cache size"))?.trim_start().strip_prefix(':')?;
    let size = parse_size(value.trim().strip_suffix("B")?.replace(' ', "").as_str())?;
    Some((level, Fact::new(size, "/proc/cpuinfo cache size")))
}

/// A size such as `48K`, `2048K` or `32M`, in bytes; sysfs always writes `K`.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.trim().split_at_checked(text.trim().len().checked_sub(1)?)? {
        (digits, "K") => (digits, 1 << 10),
        (digits, "M") => (digits, 1 << 20),
        (digits, "G") => (digits, 1 << 30),
        _ => (text.trim(), 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary() {
        for (text, bytes) in [
            ("48K", Some(49_152)),
            ("2048K\n", Some(2 << 20)),
            ("32M", Some(32 << 20)),
            ("64", Some(64)),
            ("", None),
            ("K", None),
            ("0K", None),
            ("99999999999999999999K", None),
            ("18446744073709551615K", None),
        ] {
            assert_eq!(parse_size(text), bytes, "{text:?}");
        }
    }
}
