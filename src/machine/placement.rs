//! How CPUs stand to each other: which have cores of one type, and what two of them share. That decides what a task on one costs a task
//! on the other.

use serde::{Deserialize, Serialize};

use super::microarchitecture::{CoreClass, class_of_part};
use super::topology::SMALLER_CORE;
use super::{CoreType, CpuList, LogicalCpu, Machine};

/// A CPU for a partner task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// How it stands to the measured CPU: `sibling` (threads of one core), `same_cache` (one last-level cache), `same_socket` (one
    /// package, separate caches), or `other_socket`. It is `other_cpu` where the kernel does not say. `_other_type` follows where
    /// its core is of another type.
    pub placement: String,
    pub cpu: u32,
}

impl Machine {
    /// One CPU of each way in which the allowed CPUs stand to one of them, nearest first.
    pub fn places(&self, cpu: u32, allowed: &[u32]) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        for &other in allowed.iter().filter(|&&other| other != cpu) {
            let placement = self.placement(cpu, other);
            if !places.iter().any(|place| place.placement == placement) {
                places.push(Place { placement, cpu: other });
            }
        }
        places.sort_by_key(|place| ORDER.iter().position(|&name| place.placement.starts_with(name)));
        places
    }

    /// Other allowed CPUs on which the same work costs the same, one of each core: cores of the same type and speed, with the same
    /// last-level cache. Empty where the kernel does not say what CPUs share.
    pub fn equal_cpus(&self, cpu: u32, allowed: &[u32]) -> Vec<u32> {
        let speed = |cpu: u32| self.maximum_core_hertz(cpu).map_or(0.0, |found| found.value);
        let same = |other: u32| (speed(other) - speed(cpu)).abs() <= 0.01 * speed(cpu);
        let mut equal: Vec<u32> = Vec::new();
        for &other in allowed.iter().filter(|&&other| other != cpu) {
            let same_core = equal.iter().any(|&one| self.share_core(one, other));
            if !same_core && same(other) && self.placement(cpu, other) == ORDER[1] {
                equal.push(other);
            }
        }
        equal
    }

    fn placement(&self, one: u32, other: u32) -> String {
        let package = |cpu| self.cpu(cpu).and_then(|entry| entry.package_id);
        let shared = if self.share_core(one, other) {
            ORDER[0]
        } else if self.share_last_level_cache(one, other) {
            ORDER[1]
        } else if self.share_package(one, other) {
            ORDER[2]
        } else if package(one).is_some() && package(other).is_some() {
            ORDER[3]
        } else {
            ORDER[4]
        };
        if self.same_core_type(one, other) { shared.to_owned() } else { format!("{shared}_other_type") }
    }
}

const ORDER: [&str; 5] = ["sibling", "same_cache", "same_socket", "other_socket", "other_cpu"];

/// CPUs on cores that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreGroup {
    /// The core, by its part number or by its size among the others.
    pub name: String,
    /// Least and greatest capacity of its CPUs relative to the machine's largest core, 1 to 1024, where the kernel states them.
    pub capacity: Option<[u32; 2]>,
    /// Its CPUs.
    pub cpus: CpuList,
}

/// What makes cores unlike: the part, the kernel's list, the size.
type Kind = (Option<(u32, u32)>, CoreType, usize);

fn kind_of(cpu: &LogicalCpu, sizes: &[u32]) -> Kind {
    let size = cpu.capacity.map_or(0, |capacity| sizes.iter().filter(|least| capacity < **least).count());
    (cpu.midr, cpu.core_type.value, size)
}

impl Machine {
    /// The types of cores, by their first CPU. One where all are alike.
    pub fn core_groups(&self) -> Vec<CoreGroup> {
        let sizes = self.core_sizes();
        let mut groups: Vec<(Kind, CoreGroup)> = Vec::new();
        for cpu in &self.cpu.logical {
            let kind = kind_of(cpu, &sizes);
            if let Some((_, group)) = groups.iter_mut().find(|(known, _)| *known == kind) {
                group.cpus = CpuList::of(group.cpus.iter().chain([cpu.cpu]));
                let both = group.capacity.zip(cpu.capacity);
                group.capacity = both.map(|([least, greatest], one)| [least.min(one), greatest.max(one)]);
            } else {
                let (name, cpus) = (self.core_name(cpu), CpuList::of([cpu.cpu]));
                groups.push((kind, CoreGroup { name, capacity: cpu.capacity.map(|one| [one, one]), cpus }));
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// Whether two CPUs are on cores of one type.
    pub fn same_core_type(&self, one: u32, other: u32) -> bool {
        let sizes = self.core_sizes();
        let kind = |cpu| self.cpu(cpu).map(|entry| kind_of(entry, &sizes));
        kind(one) == kind(other)
    }

    /// The smallest capacity of each size of cores, from large to small.
    fn core_sizes(&self) -> Vec<u32> {
        let mut capacities: Vec<u32> = self.cpu.logical.iter().filter_map(|cpu| cpu.capacity).collect();
        capacities.sort_unstable_by(|one, other| other.cmp(one));
        let mut sizes: Vec<(u32, u32)> = Vec::new();
        for capacity in capacities {
            match sizes.last_mut() {
                Some((largest, least)) if f64::from(capacity) >= SMALLER_CORE * f64::from(*largest) => {
                    *least = capacity;
                }
                _ => sizes.push((capacity, capacity)),
            }
        }
        sizes.into_iter().map(|(_, least)| least).collect()
    }

    fn core_name(&self, cpu: &LogicalCpu) -> String {
        if let Some((implementer, part)) = cpu.midr {
            let class = class_of_part(implementer, part);
            return class.map_or_else(
                || format!("implementer {implementer:#x} part {part:#x}"),
                |class| class.name().to_owned(),
            );
        }
        let size = match cpu.core_type.value {
            CoreType::Uniform => return self.core_class(cpu.cpu).name().to_owned(),
            CoreType::Performance => "performance cores",
            CoreType::Efficiency => "efficiency cores",
        };
        match self.core_class(cpu.cpu) {
            CoreClass::Unknown => size.to_owned(),
            class => format!("{size} ({})", class.name()),
        }
    }

    /// The processor: by the name that the machine gives, or else by its cores or its architecture.
    pub fn processor_name(&self) -> String {
        if let Some(name) = self.cpu.model_name.best() {
            return name.value.clone();
        }
        let parts = self.cpu.logical.iter().any(|cpu| cpu.midr.is_some());
        let mut names: Vec<String> = self.core_groups().into_iter().map(|group| group.name).collect();
        names.dedup();
        match (&self.cpu.architecture, self.cpu.microarchitecture.class) {
            _ if parts => names.join(" + "),
            (Some(architecture), CoreClass::Unknown) => format!("unknown {} processor", architecture.value),
            (_, class) => format!("{} processor", class.name()),
        }
    }
}
