//! How much memory an experiment goes through at each level, and on which CPUs: shared by latency, bandwidth and loaded latency,
//! so that all speak of the same footprints.

use crate::experiments::prelude::*;
use crate::machine::{Cache, CacheKind};
use crate::results::quantity::FOOTPRINT;

/// Main memory must be this many times as large as the last cache before a figure may carry its name (gate G18).
pub const OVER_LAST_CACHE: u64 = 4;

/// Label of a footprint that only main memory can hold.
pub const MEMORY: &str = "DRAM";

/// Last cache where the machine does not say how large it is.
pub const UNKNOWN_LAST_CACHE: u64 = 32 << 20;

/// The footprint of memory is at least this, where there is time: a cache that no source claims may be large.
const LEAST_THOROUGH: u64 = 256 << 20;

/// Nothing called by its size is smaller than this.
const LEAST: u64 = 4 << 20;

/// Footprints are multiples of a huge page.
pub const HUGE: u64 = 2 << 20;

/// A footprint of one thread with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footprint {
    /// `L1`, `L2`, `L3`, `DRAM`, or a size.
    pub name: String,
    pub bytes: usize,
}

/// Bytes of a footprint for each load that is made before sampling where not all of it is loaded: eight for each line of the
/// page tables, which holds the addresses of eight small pages, in a guest those of its host's pages too.
pub const BYTES_PER_LOAD: u64 = 4096;

fn data_caches(caches: &[Cache], cpu: u32) -> impl Iterator<Item = (&Cache, u64)> {
    caches
        .iter()
        .filter(move |cache| cache.kind != CacheKind::Instruction && cache.shared_with(cpu).is_some())
        .filter_map(|cache| Some((cache, largest(cache)?)))
}

/// The larger of contradicting claims: too large a footprint is a smaller error than one that a cache still holds.
fn largest(cache: &Cache) -> Option<u64> {
    cache.size_bytes.all().iter().map(|fact| fact.value).max()
}

/// Half of each cache of a CPU: what certainly fits, and certainly not into the one before. Other CPUs share the last cache, some of
/// them on the other side of a hypervisor, and half of it need not be there for this CPU: four times the cache before it is enough.
pub fn cache_levels(caches: &[Cache], cpu: u32) -> Vec<Footprint> {
    let mut levels: Vec<Footprint> = Vec::new();
    let mut before = 0;
    for (cache, size) in data_caches(caches, cpu) {
        let part = if cache.level < 3 || before == 0 { size / 2 } else { (4 * before).min(size / 2) };
        if part > before {
            levels.push(Footprint { name: format!("L{}", cache.level), bytes: part as usize / 4096 * 4096 });
        }
        before = size;
    }
    levels
}

/// Sum of the last caches of some CPUs, each cache once; none where the machine does not say.
pub fn last_caches(caches: &[Cache], cpus: &[u32]) -> Option<u64> {
    let mut seen = Vec::new();
    let mut sum = 0;
    for &cpu in cpus {
        let (cache, size) = data_caches(caches, cpu).last()?;
        let place = (cache.level, cache.shared_with(cpu)?.first());
        if !seen.contains(&place) {
            seen.push(place);
            sum += size;
        }
    }
    (sum > 0).then_some(sum)
}

/// Bytes that only main memory holds, in whole huge pages: the one rule for latency, bandwidth and loaded latency.
pub fn beyond(last_caches: u64, is_quick: bool) -> u64 {
    let least = (OVER_LAST_CACHE * last_caches).next_multiple_of(HUGE);
    if is_quick { least } else { least.max(LEAST_THOROUGH) }
}

/// The share of each of some CPUs in a footprint that only main memory holds, of `memory` bytes that may be taken; where
/// they do not allow it, or the caches are not known, the footprint is named by its size.
pub fn memory_level(setup: &Setup, cpus: &[u32], memory: u64) -> Result<Footprint, String> {
    level_of(last_caches(&setup.machine.caches, cpus), cpus.len(), memory, setup.profile.is_quick())
}

fn level_of(last_caches: Option<u64>, threads: usize, memory: u64, is_quick: bool) -> Result<Footprint, String> {
    let threads = threads.max(1) as u64;
    let wanted = beyond(last_caches.unwrap_or(UNKNOWN_LAST_CACHE), is_quick);
    let share = |total: u64| (total / threads).next_multiple_of(HUGE);
    // Where memory is short, four times the caches are memory too.
    let possible = [wanted, beyond(last_caches.unwrap_or(UNKNOWN_LAST_CACHE), true)];
    let possible = possible.into_iter().map(share).find(|each| each * threads <= memory);
    if let Some(bytes) = possible.filter(|_| last_caches.is_some()) {
        return Ok(Footprint { name: MEMORY.to_owned(), bytes: bytes as usize });
    }
    let total = (wanted.min(memory) / 2 + 1).next_power_of_two();
    let each = total / threads / HUGE * HUGE;
    if total < LEAST || each == 0 {
        return Err(format!("this launch may take only {} of memory", quantity(memory as f64, Unit::Bytes)));
    }
    Ok(Footprint { name: in_words(total), bytes: each as usize })
}

/// A footprint as a label.
pub fn in_words(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 20) { format!("{}MiB", bytes >> 20) } else { format!("{}KiB", bytes >> 10) }
}

/// The footprint that launches recorded, the smallest of them, in bytes.
pub fn recorded(study: &Study<'_>, about: &Labels) -> Option<f64> {
    study.values("footprint", about).into_iter().reduce(f64::min)
}

/// Labels of a figure with the footprint that it holds for, where it is memory's.
pub fn labelled(labels: Labels, bytes: Option<f64>) -> Labels {
    match bytes {
        Some(bytes) if labels.get("level").is_none_or(|level| level == MEMORY) => {
            labels.with(FOOTPRINT, in_words(bytes as u64))
        }
        _ => labels,
    }
}

/// Bytes that this many footprints of main memory on all CPUs take at most.
pub fn most_memory(setup: &Setup, footprints: u64) -> u64 {
    let machine = &setup.machine;
    let last = last_caches(&machine.caches, &setup.allowed).unwrap_or(UNKNOWN_LAST_CACHE);
    (footprints * beyond(last, setup.profile.is_quick())).min(machine.launch_memory_bytes())
}

/// Size of a cache line of a CPU, in bytes; 64 where the machine does not say.
pub fn line_bytes(setup: &Setup) -> u64 {
    let caches = (1..=4).filter_map(|level| setup.machine.data_cache(setup.cpu, level));
    let line = caches.filter_map(|cache| cache.line_bytes).find(|line| line.is_power_of_two());
    line.filter(|line| (32..=512).contains(line)).unwrap_or(64)
}

/// The CPUs of a run, in the order in which threads are added.
pub fn cpus_of(setup: &Setup) -> Vec<u32> {
    order_of_cpus(&setup.machine.caches, setup.cpu, &setup.allowed)
}

/// The CPUs that may be used, in the order in which threads are added: the measured one, then one of each other core, then
/// the sibling threads of all of them.
fn order_of_cpus(caches: &[Cache], first: u32, allowed: &[u32]) -> Vec<u32> {
    let core = |cpu: u32| {
        let nearest = data_caches(caches, cpu).next().and_then(|(cache, _)| cache.shared_with(cpu)?.first());
        nearest.unwrap_or(cpu)
    };
    let mut cpus = vec![first];
    let others = || allowed.iter().copied().filter(|&cpu| cpu != first);
    for cpu in others() {
        if !cpus.iter().any(|&taken| core(taken) == core(cpu)) {
            cpus.push(cpu);
        }
    }
    let siblings: Vec<u32> = others().filter(|cpu| !cpus.contains(cpu)).collect();
    cpus.extend(siblings);
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Claims, CpuList, Fact};

    fn cache(level: u32, size: u64, instances: &[&[u32]]) -> Cache {
        Cache {
            level,
            kind: if level == 1 { CacheKind::Data } else { CacheKind::Unified },
            size_bytes: Claims::of([Some(Fact::new(size, "test of sizes"))]),
            line_bytes: Some(64),
            ways: Some(8),
            instances: instances.iter().map(|cpus| CpuList::of(cpus.iter().copied())).collect(),
        }
    }

    /// Four cores of two threads each, two last-level caches.
    fn caches() -> Vec<Cache> {
        let cores: [&[u32]; 4] = [&[0, 4], &[1, 5], &[2, 6], &[3, 7]];
        vec![cache(1, 32 << 10, &cores), cache(2, 1 << 20, &cores), cache(3, 32 << 20, &[&[0, 1, 4, 5], &[2, 3, 6, 7]])]
    }

    #[test]
    fn footprints_fit_their_cache_and_not_the_one_before() {
        let levels = cache_levels(&caches(), 3);
        let found: Vec<(&str, usize)> = levels.iter().map(|level| (level.name.as_str(), level.bytes)).collect();
        assert_eq!(found, [("L1", 16 << 10), ("L2", 512 << 10), ("L3", 4 << 20)]);
    }

    #[test]
    fn memory_is_four_times_all_last_caches_that_are_used() {
        let caches = caches();
        let level = |cpus: &[u32], memory| level_of(last_caches(&caches, cpus), cpus.len(), memory, true).unwrap();
        assert_eq!(level(&[0], 1 << 30), Footprint { name: "DRAM".to_owned(), bytes: 128 << 20 });
        assert_eq!(level(&[0, 1], 1 << 30), Footprint { name: "DRAM".to_owned(), bytes: 64 << 20 });
        assert_eq!(level(&[0, 2], 1 << 30), Footprint { name: "DRAM".to_owned(), bytes: 128 << 20 });
    }

    #[test]
    fn a_thorough_run_goes_further_where_memory_allows_it() {
        let caches = caches();
        let level = |memory| level_of(last_caches(&caches, &[0]), 1, memory, false).unwrap();
        assert_eq!(level(1 << 30), Footprint { name: "DRAM".to_owned(), bytes: 256 << 20 });
        assert_eq!(level(200 << 20), Footprint { name: "DRAM".to_owned(), bytes: 128 << 20 });
        assert_eq!(level(100 << 20).name, "64MiB");
        assert_eq!((beyond(1 << 30, false), in_words(beyond(1 << 30, true)).as_str()), (4 << 30, "4096MiB"));
    }

    #[test]
    fn what_is_too_small_for_its_name_is_named_by_its_size() {
        let caches = caches();
        assert_eq!(
            level_of(last_caches(&caches, &[0]), 1, 100 << 20, true).unwrap(),
            Footprint { name: "64MiB".to_owned(), bytes: 64 << 20 }
        );
        assert_eq!(level_of(None, 1, 1 << 30, true).unwrap().name, "128MiB");
        assert!(level_of(last_caches(&caches, &[0]), 1, 1 << 20, true).is_err());
        assert!(level_of(last_caches(&caches, &[0, 1, 2, 3]), 4, 5 << 20, true).is_err());
    }

    #[test]
    fn cores_come_before_their_sibling_threads() {
        assert_eq!(order_of_cpus(&caches(), 7, &[0, 1, 2, 3, 4, 5, 6, 7]), [7, 0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(order_of_cpus(&[], 1, &[0, 1]), [1, 0]);
    }
}
