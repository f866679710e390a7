//! The processor: who made it, what it can do, and how fast its clocks are said to run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cpu_list::CpuList;
use super::cpuid::Cpuid;
use super::cpuinfo::{CPUINFO, CpuinfoBlocks};
use super::fact::{Claims, Fact};
use super::frequency;
use super::kernel;
use super::microarchitecture::{CoreIdentity, Microarchitecture, class_of_part};
use super::topology::{self, LogicalCpu, ONLINE};
use super::tree::Tree;

/// Flags of `/proc/cpuinfo` that say what the time-stamp counter is good for.
const COUNTER_FLAGS: &[&str] = &[
    "tsc",
    "constant_tsc",
    "nonstop_tsc",
    "tsc_known_freq",
    "tsc_reliable",
    "rdtscp",
    "tsc_adjust",
    "tsc_deadline_timer",
];

/// The processor and its logical CPUs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// Instruction set: `x86_64` or `aarch64`.
    pub architecture: Option<Fact<String>>,
    /// Maker: `GenuineIntel`, `AuthenticAMD`, or the MIDR implementer of an Arm core.
    pub vendor: Option<Fact<String>>,
    /// Name of the product.
    pub model_name: Claims<String>,
    /// Bits of physical and virtual addresses, as the kernel lists them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_sizes: Option<Fact<String>>,
    /// Which byte of a word comes first: `little` or `big` endian.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub byte_order: Option<Fact<String>>,
    /// CPUID family.
    pub family: Option<Fact<u32>>,
    /// CPUID model, or the MIDR part number of an Arm core.
    pub model: Option<Fact<u32>>,
    /// CPUID stepping, or the MIDR revision of an Arm core.
    pub stepping: Option<Fact<u32>>,
    /// Microcode revision.
    pub microcode: Option<Fact<String>>,
    /// Which core it is, with the evidence.
    pub microarchitecture: Microarchitecture,
    /// How many CPUs the kernel runs.
    pub count: Claims<u32>,
    /// The list of online CPUs, where it is not in the numbering of the kernel's affinity mask: a container made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_online: Option<Fact<CpuList>>,
    /// The online logical CPUs, by number.
    pub logical: Vec<LogicalCpu>,
    /// Frequency that the maker guarantees, in hertz.
    pub nominal_hertz: Claims<f64>,
    /// Highest frequency of the fastest core, in hertz.
    pub maximum_hertz: Claims<f64>,
    /// Frequency at the moment of reading, in hertz: a rumour, never a basis (a guest shows its counter's rate here).
    pub momentary_hertz: Claims<f64>,
    /// Rate of the time-stamp counter (x86) or of the generic timer (Arm), in hertz.
    pub counter_hertz: Claims<f64>,
    /// The flags of `/proc/cpuinfo` that concern the time-stamp counter, such as `constant_tsc`.
    pub counter_flags: Vec<String>,
    /// All feature flags, sorted.
    pub features: Vec<String>,
    /// True when the processor says that a hypervisor runs below; not known on Arm.
    pub hypervisor: Option<Fact<bool>>,
    /// What executes the instructions of this program, where the processor has another architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator: Option<Fact<String>>,
}

impl Cpu {
    /// True when the processor has this feature, by its name in `/proc/cpuinfo`.
    pub fn has_feature(&self, name: &str) -> bool {
        self.features.binary_search_by(|feature| feature.as_str().cmp(name)).is_ok()
    }

    /// True when the time-stamp counter runs at one rate in every frequency and idle state (Intel SDM 17.17.1, "invariant
    /// TSC"). The Arm generic timer always does.
    pub fn counter_is_invariant(&self) -> bool {
        let arm = self.architecture.as_ref().is_some_and(|fact| fact.value == "aarch64");
        arm || (self.has_feature("constant_tsc") && self.has_feature("nonstop_tsc"))
    }

    /// True for the instruction sets that sysdyno is built for.
    pub fn is_supported(&self) -> bool {
        self.architecture.as_ref().is_none_or(|fact| ["x86_64", "aarch64"].contains(&fact.value.as_str()))
    }

    /// The numbers of the online CPUs.
    pub fn online(&self) -> CpuList {
        CpuList::of(self.logical.iter().map(|cpu| cpu.cpu))
    }

    /// How many packages (sockets), cores and logical CPUs there are, as far as the topology files show.
    pub fn topology(&self) -> Topology {
        let distinct = |key: fn(&LogicalCpu) -> Option<(u32, u32)>| {
            let mut keys: Vec<_> = self.logical.iter().filter_map(key).collect();
            keys.sort_unstable();
            keys.dedup();
            keys.len()
        };
        Topology {
            packages: distinct(|cpu| cpu.package_id.map(|package| (package, 0))),
            cores: distinct(|cpu| cpu.siblings.first().map(|first| (first, 0))),
            logical: self.logical.len(),
        }
    }
}

/// Counts of the topology; zero where the files do not show them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topology {
    /// Packages (sockets).
    pub packages: usize,
    /// Physical cores that have an online CPU.
    pub cores: usize,
    /// Online logical CPUs.
    pub logical: usize,
}

/// Reads everything about the processor; `guest` says that a hypervisor is below.
pub(super) fn read(tree: &Tree, cpuid: &Cpuid, affinity: &Claims<CpuList>, guest: bool) -> Cpu {
    let blocks = CpuinfoBlocks::read(tree);
    let features = features(&blocks);
    let listed = CpuList::of(blocks.cpu_numbers());
    let numbers = topology::numbers(tree, &listed, affinity);
    let mut logical = topology::read(tree, &numbers.cpus);
    let renumbered = listed.intersection(&numbers.cpus).is_empty() && listed.len() == numbers.cpus.len();
    for (position, cpu) in blocks.cpu_numbers().into_iter().enumerate() {
        let midr = blocks.midr(position);
        // A container that numbers its CPUs anew keeps their order.
        let entry = logical
            .iter_mut()
            .enumerate()
            .find(|(at, entry)| if renumbered { *at == position } else { entry.cpu == cpu });
        if let Some((_, entry)) = entry {
            entry.midr = midr;
        }
    }
    let mut cpu = Cpu {
        architecture: architecture(tree, &blocks),
        vendor: blocks.text("vendor_id").or_else(|| blocks.text("CPU implementer")),
        // Boards without a model name in `/proc/cpuinfo` have one in their device tree.
        model_name: Claims::of([blocks.name(), cpuid.brand.clone(), tree.fact("/proc/device-tree/model")]),
        address_sizes: blocks.text("address sizes"),
        byte_order: tree.fact("/sys/kernel/cpu_byteorder").or_else(|| own_byte_order(tree)),
        family: blocks.number("cpu family"),
        model: blocks.number("model").or_else(|| blocks.number("CPU part")),
        stepping: blocks.number("stepping").or_else(|| blocks.number("CPU revision")),
        microcode: blocks.text("microcode"),
        count: counts(tree, &listed, affinity.best(), numbers.virtual_online.is_some()),
        virtual_online: numbers.virtual_online,
        logical,
        counter_flags: COUNTER_FLAGS.iter().filter(|flag| features.contains(**flag)).map(ToString::to_string).collect(),
        hypervisor: hypervisor(&blocks, &features),
        features: features.into_iter().collect(),
        ..Cpu::default()
    };
    cpu.microarchitecture = classify(&cpu, &blocks, guest);
    let has_bogomips = cpu.is_supported() && kernel::emulator(tree).is_none();
    [cpu.nominal_hertz, cpu.maximum_hertz, cpu.momentary_hertz, cpu.counter_hertz] =
        frequency::read(tree, cpuid, &blocks, cpu.model_name.best(), &cpu.logical, has_bogomips);
    if tree.is_live() {
        cpu.emulator = emulator(cpu.architecture.as_ref(), std::env::consts::ARCH);
    }
    // Files describe the counter of the processor, and this program reads that of the emulator.
    if cpu.emulator.is_some() {
        cpu.counter_hertz = Claims::default();
    }
    cpu
}

/// A processor executes no instructions of another architecture: an emulator in user mode does. It lets the kernel show its own.
fn emulator(kernel: Option<&Fact<String>>, own: &str) -> Option<Fact<String>> {
    let other = kernel.filter(|fact| fact.value != own)?;
    let source = format!("{}: {}, and this program is built for {own}", other.source, other.value);
    Some(Fact::new(format!("an emulator of {own}"), source))
}

/// How many CPUs there are. The mask counts where no file does, and first where the files count otherwise.
fn counts(tree: &Tree, listed: &CpuList, mask: Option<&Fact<CpuList>>, is_virtual: bool) -> Claims<u32> {
    let online = tree.cpu_list(ONLINE).map(|list| Fact::new(list.len() as u32, ONLINE));
    let named = (!listed.is_empty()).then(|| Fact::new(listed.len() as u32, CPUINFO));
    let online = online.filter(|fact| fact.value > 0);
    let masked = mask.filter(|_| is_virtual || online.is_none() && named.is_none());
    Claims::of([masked.map(|fact| fact.clone().map(|list| list.len() as u32)), online, named])
}

fn classify(cpu: &Cpu, blocks: &CpuinfoBlocks, guest: bool) -> Microarchitecture {
    let value = |fact: &Option<Fact<u32>>| fact.as_ref().map_or(0, |fact| fact.value);
    Microarchitecture::of(CoreIdentity {
        vendor: cpu.vendor.as_ref().map_or("", |fact| fact.value.as_str()),
        family: value(&cpu.family),
        model: value(&cpu.model),
        // The largest core stands for the machine: cores are listed from small to large on most big.LITTLE parts. A core that is not
        // in the tables hides no other.
        midr: cpu
            .logical
            .iter()
            .filter_map(|entry| Some((entry.capacity, entry.midr?)))
            .max_by_key(|(capacity, (implementer, part))| (class_of_part(*implementer, *part).is_some(), *capacity))
            .map(|(_, midr)| midr)
            .or_else(|| blocks.midr(0)),
        features: &cpu.features,
        guest,
    })
}

fn architecture(tree: &Tree, blocks: &CpuinfoBlocks) -> Option<Fact<String>> {
    tree.fact("/proc/sys/kernel/arch")
        .or_else(|| blocks.architecture())
        .or_else(|| tree.is_live().then(|| Fact::new(std::env::consts::ARCH.to_owned(), "this program's own target")))
}

/// Kernels before 6.2 have no file for it.
fn own_byte_order(tree: &Tree) -> Option<Fact<String>> {
    let name = if cfg!(target_endian = "little") { "little" } else { "big" };
    tree.is_live().then(|| Fact::new(name.to_owned(), "this program's own target"))
}

fn hypervisor(blocks: &CpuinfoBlocks, features: &std::collections::BTreeSet<String>) -> Option<Fact<bool>> {
    blocks.text("flags").map(|_| Fact::new(features.contains("hypervisor"), format!("{CPUINFO} flag hypervisor")))
}

fn features(blocks: &CpuinfoBlocks) -> std::collections::BTreeSet<String> {
    let listed = blocks.text("flags").or_else(|| blocks.text("Features"));
    listed.map(|fact| fact.value.split_whitespace().map(str::to_owned).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_of_another_architecture_shows_an_emulator() {
        let kernel = |name: &str| Fact::new(name.to_owned(), "/proc/sys/kernel/arch");
        let found = emulator(Some(&kernel("x86_64")), "aarch64").unwrap();
        assert_eq!(found.value, "an emulator of aarch64");
        assert_eq!(found.source, "/proc/sys/kernel/arch: x86_64, and this program is built for aarch64");
        assert_eq!(emulator(Some(&kernel("aarch64")), "aarch64"), None);
        assert_eq!(emulator(None, "aarch64"), None);
    }
}
