//! Facts about the machine; never timings.
//!
//! [`detect`] reads them once. Every fact names its source, contradictory claims are kept side by side (gate G12), and
//! what cannot be read is missing, never guessed. [`quiet`] says which of the facts would spoil a measurement.

mod cache;
mod cgroup;
mod contradiction;
mod cpu;
mod cpu_list;
mod cpuid;
mod cpuinfo;
mod description;
pub mod engine;
mod fact;
mod frequency;
mod gpu;
mod identity;
mod io_bus;
mod kernel;
mod limits;
mod memory;
mod microarchitecture;
mod mount;
pub mod mountstats;
mod network;
pub mod placement;
pub mod quiet;
mod reclaim;
mod row;
mod scheduling;
mod smbios;
mod software;
mod storage;
mod topology;
mod tree;
mod virtualisation;
mod wording;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use cache::{Cache, CacheKind};
pub use cgroup::{DeviceLimit, LimitedWork, MemoryGroups};
pub use cpu::Cpu;
pub use cpu_list::CpuList;
pub use fact::{Claims, Contradiction, Fact};
pub use gpu::Gpu;
pub use identity::{Identity, MachineRelation};
pub use kernel::Kernel;
pub use limits::Limits;
pub use memory::Memory;
pub use microarchitecture::CoreClass;
pub use network::{Interface, InterfaceKind, Shaper};
pub use row::{FactRow, Mark};
pub use scheduling::USUAL_SLACK;
pub use storage::{BlockDevice, Medium, Mounted, Storage};
pub use topology::{CoreType, LogicalCpu};

/// The directory of the CPUs.
const CPUS: &str = "/sys/devices/system/cpu";
/// Clock sources that read the counter: programs ask them without entering the kernel, which so trusts the counter.
const FAST_CLOCKS: [&str; 4] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];

/// Everything that is known of a machine before anything is timed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Sixteen hexadecimal digits: the same after a reboot, different on another model.
    pub fingerprint: String,
    /// The processor.
    pub cpu: Cpu,
    /// The caches, nearest to the core first.
    pub caches: Vec<Cache>,
    /// The main memory.
    pub memory: Memory,
    /// The storage behind the scratch directory first, then the other disks.
    pub storage: Vec<Storage>,
    /// The network interfaces.
    pub network: Vec<Interface>,
    /// The GPU, where a run asked its driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Box<Gpu>>,
    /// The kernel and its settings.
    pub kernel: Kernel,
    /// What this process may use and do.
    pub limits: Limits,
    /// Files of the fingerprint that this process may not read, each with the reason. A fingerprint without their facts is not that of
    /// another machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<Fact<String>>,
}

/// Describes the machine whose files lie under `root`, for test files in `scratch`.
///
/// `/` is the running machine, and only there are CPUID and system calls also asked. Any other root is a captured copy of another
/// machine's files, and nothing but those files is looked at. It cannot fail: what cannot be read is missing.
pub fn detect(root: &Path, scratch: &Path) -> Machine {
    let tree = tree::Tree::at(root);
    let cpuid = cpuid::Cpuid::read(&tree);
    let hypervisor = virtualisation::hypervisors(&tree, &cpuid);
    let affinity = limits::affinity(&tree);
    let mut cpu = cpu::read(&tree, &cpuid, &affinity, !hypervisor.is_empty());
    let caches = cache::read(&tree, &cpuid, &cpu);
    let instructions = caches.iter().filter(|cache| (cache.level, cache.kind) == (1, CacheKind::Instruction));
    if let Some(size) = instructions.filter_map(|cache| cache.size_bytes.best()).min_by_key(|fact| fact.value) {
        cpu.microarchitecture.consider_instruction_cache(size, !hypervisor.is_empty());
    }
    let mut machine = Machine {
        fingerprint: String::new(),
        caches,
        cpu,
        memory: Memory::read(&tree),
        storage: storage::read(&tree, scratch),
        network: network::read(&tree),
        gpu: None,
        kernel: Kernel::read(&tree),
        limits: Limits::read(&limits::Sources { tree: &tree, groups: cgroup::read(&tree), affinity, hypervisor }),
        hidden: Vec::new(),
    };
    machine.hidden = identity::hidden(&tree, &machine.cpu);
    machine.fingerprint = identity::fingerprint(&machine);
    machine
}

/// The control groups for memory that this process is in.
pub fn memory_groups() -> Option<MemoryGroups> {
    cgroup::memory_groups(&tree::Tree::at(Path::new("/")))
}

/// What this process's memory groups, at this moment, leave to file data; none where none of them has a limit.
pub fn memory_room_bytes() -> Option<u64> {
    cgroup::read(&tree::Tree::at(Path::new("/"))).memory_room_bytes.map(|fact| fact.value)
}

/// What this process's memory groups, at this moment, allow beyond what is in use; none where none of them has a limit.
pub fn memory_unused_bytes() -> Option<u64> {
    cgroup::read(&tree::Tree::at(Path::new("/"))).memory_unused_bytes
}

/// The network interfaces of the running machine.
pub fn interfaces() -> Vec<Interface> {
    network::read(&tree::Tree::at(Path::new("/")))
}

/// The storage that a directory of the running machine lies on; none where the mount table does not show it.
pub fn storage_at(directory: &Path) -> Option<Storage> {
    storage::at(&tree::Tree::at(Path::new("/")), directory)
}

impl Machine {
    /// True when the fingerprint is another one although all facts of both were there to be read.
    pub fn differs_from(&self, other: &Machine) -> bool {
        self.fingerprint != other.fingerprint && self.hidden.is_empty() && other.hidden.is_empty()
    }

    /// The facts of one logical CPU.
    pub fn cpu(&self, cpu: u32) -> Option<&LogicalCpu> {
        self.cpu.logical.iter().find(|entry| entry.cpu == cpu)
    }

    /// The CPUs that this process may run on: online, and in its affinity mask where that is known.
    pub fn usable_cpus(&self) -> CpuList {
        let online = self.cpu.online();
        match self.limits.affinity.best() {
            Some(mask) => {
                Some(online.intersection(&mask.value)).filter(|both| !both.is_empty()).unwrap_or(mask.value.clone())
            }
            None => online,
        }
    }

    /// Why the counter may not be the clock of measurements, if the kernel or the processor doubts it: the kernel keeps its
    /// own time with it only when it ticks evenly and alike on all CPUs.
    pub fn counter_doubt(&self) -> Option<String> {
        match &self.kernel.clock_source {
            Some(source) if !FAST_CLOCKS.contains(&source.value.as_str()) => {
                Some(format!("the kernel does not trust the counter: its clock source is {}", source.value))
            }
            Some(_) => None,
            None if self.cpu.counter_is_invariant() => None,
            None => Some("no source reports that this machine's counter ticks evenly".to_owned()),
        }
    }

    /// How much CPU time this process can have per time, in CPUs: the usable CPUs, or a smaller quota.
    pub fn available_cpus(&self) -> f64 {
        let usable = self.usable_cpus().len() as f64;
        self.limits.cpu_quota.as_ref().map_or(usable, |quota| quota.value.min(usable))
    }

    /// How much memory this process can have, in bytes: what is available, or a smaller limit of its control groups.
    pub fn available_memory_bytes(&self) -> Option<Fact<u64>> {
        let available = self.memory.available_bytes.as_ref().or(self.memory.total_bytes.as_ref());
        let limits = [available, self.limits.memory_bytes.as_ref()];
        limits.into_iter().flatten().min_by_key(|fact| fact.value).cloned()
    }

    /// Bytes of memory that a launch may take: a quarter of what is available, so that nothing is swapped and no other process goes short.
    pub fn launch_memory_bytes(&self) -> u64 {
        /// Where nothing says how much there is.
        const LEAST: u64 = 64 << 20;
        self.available_memory_bytes().map_or(LEAST, |found| found.value / 4)
    }

    /// The class of the core that a logical CPU runs on.
    pub fn core_class(&self, cpu: u32) -> CoreClass {
        let found = &self.cpu.microarchitecture;
        let Some(entry) = self.cpu(cpu) else { return found.class };
        if let Some((implementer, part)) = entry.midr {
            return microarchitecture::class_of_part(implementer, part).unwrap_or_default();
        }
        match (entry.core_type.value, found.efficiency_class) {
            (CoreType::Efficiency, Some(class)) => class,
            (CoreType::Efficiency, None) => CoreClass::Unknown,
            _ => found.class,
        }
    }

    /// The caches that a CPU can use, nearest first. They are those of its core type (gate G13).
    pub fn caches_of(&self, cpu: u32) -> Vec<&Cache> {
        self.caches.iter().filter(|cache| cache.shared_with(cpu).is_some()).collect()
    }

    /// The data or unified cache of one level that a CPU uses.
    pub fn data_cache(&self, cpu: u32, level: u32) -> Option<&Cache> {
        self.caches_of(cpu).into_iter().find(|cache| cache.level == level && cache.kind != CacheKind::Instruction)
    }

    /// The last cache before memory that a CPU uses.
    pub fn last_level_cache(&self, cpu: u32) -> Option<&Cache> {
        self.caches_of(cpu).into_iter().rev().find(|cache| cache.kind != CacheKind::Instruction)
    }

    /// True when two logical CPUs are threads of one core.
    pub fn share_core(&self, one: u32, other: u32) -> bool {
        self.cpu(one).is_some_and(|entry| entry.siblings.contains(other))
    }

    /// True when two CPUs share their last cache before memory.
    pub fn share_last_level_cache(&self, one: u32, other: u32) -> bool {
        self.last_level_cache(one).and_then(|cache| cache.shared_with(one)).is_some_and(|cpus| cpus.contains(other))
    }

    /// True when two CPUs are known to be in one package.
    pub fn share_package(&self, one: u32, other: u32) -> bool {
        let package = |cpu| self.cpu(cpu).and_then(|entry| entry.package_id);
        package(one).is_some() && package(one) == package(other)
    }

    /// Highest frequency of the core that a CPU runs on, in hertz.
    pub fn maximum_core_hertz(&self, cpu: u32) -> Option<Fact<f64>> {
        let driver = self.kernel.frequency_driver.as_ref().map(|fact| fact.value.as_str());
        let entry = self.cpu(cpu)?;
        let own = frequency::maximum_of(driver, entry);
        // What CPUID says holds for the fastest cores only.
        own.or_else(|| self.cpu.maximum_hertz.best().filter(|_| entry.core_type.value != CoreType::Efficiency).cloned())
    }

    /// Frequency that the maker guarantees for the core that a CPU runs on, in hertz.
    pub fn nominal_core_hertz(&self, cpu: u32) -> Option<Fact<f64>> {
        let entry = self.cpu(cpu)?;
        let own = entry.base_hertz.clone();
        own.or_else(|| self.nominal_hertz().filter(|_| entry.core_type.value != CoreType::Efficiency).cloned())
    }

    /// The best claim about the nominal frequency, in hertz.
    pub fn nominal_hertz(&self) -> Option<&Fact<f64>> {
        self.cpu.nominal_hertz.best()
    }

    /// What is claimed about the rate of the time-stamp counter (or the generic timer of Arm), in hertz.
    pub fn tsc_hertz_claims(&self) -> &Claims<f64> {
        &self.cpu.counter_hertz
    }

    /// The storage that holds the scratch directory.
    pub fn scratch(&self) -> Option<&Storage> {
        self.storage.iter().find(|entry| entry.scratch)
    }

    /// True when something says that a hypervisor is below.
    pub fn hypervisor_name(&self) -> Option<String> {
        self.limits.hypervisor.best().map(|found| found.value.clone())
    }

    /// True below a hypervisor.
    pub fn is_guest(&self) -> bool {
        !self.limits.hypervisor.is_empty()
    }

    /// Questions to which the sources give different answers (gate G12).
    pub fn contradictions(&self) -> Vec<Contradiction> {
        contradiction::all(self)
    }
}
