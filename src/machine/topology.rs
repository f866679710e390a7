//! The logical CPUs: where each one sits, and how fast it may run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cpu_list::CpuList;
use super::fact::Fact;
use super::tree::Tree;

const CPUS: &str = "/sys/devices/system/cpu";

/// What kind of core a logical CPU is, among the cores of its own machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CoreType {
    /// All cores of the machine are alike, as far as the kernel tells.
    #[default]
    Uniform,
    /// A large core of a machine that has smaller ones too.
    Performance,
    /// A core smaller than the largest ones of the machine.
    Efficiency,
}

/// One CPU as the scheduler sees it. Its facts are from `/sys/devices/system/cpu/cpuN/`: `topology`, `cpufreq`,
/// `cpu_capacity`; the NUMA node is from `/sys/devices/system/node/nodeN/cpulist`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogicalCpu {
    /// Its number, as in `taskset`.
    pub cpu: u32,
    /// Core number, unique within the package only.
    pub core_id: Option<u32>,
    /// Package (socket) number.
    pub package_id: Option<u32>,
    /// The logical CPUs of the same core, this one included; empty when not known.
    pub siblings: CpuList,
    /// NUMA node.
    pub numa_node: Option<u32>,
    /// Performance or efficiency core.
    pub core_type: Fact<CoreType>,
    /// Capacity relative to the machine's largest core, 1 to 1024.
    pub capacity: Option<u32>,
    /// Highest frequency of the core in hertz, turbo included (`cpuinfo_max_freq`).
    pub maximum_hertz: Option<f64>,
    /// Frequency that the maker guarantees, in hertz (`base_frequency`, or `acpi_cppc/nominal_freq`).
    pub base_hertz: Option<Fact<f64>>,
    /// Lowest frequency in hertz (`cpuinfo_min_freq`).
    pub minimum_hertz: Option<f64>,
    /// Highest frequency that the policy allows now, in hertz (`scaling_max_freq`).
    pub allowed_hertz: Option<f64>,
    /// MIDR implementer and part number of an Arm core, from its own block of `/proc/cpuinfo`.
    pub midr: Option<(u32, u32)>,
}

/// The online CPUs. `listed` are the numbers that `/proc/cpuinfo` names, for a machine without sysfs.
pub(super) fn read(tree: &Tree, listed: &CpuList) -> Vec<LogicalCpu> {
    let online = tree
        .cpu_list(&format!("{CPUS}/online"))
        .filter(|list| !list.is_empty())
        .unwrap_or_else(|| if listed.is_empty() { CpuList::of(tree.numbered(CPUS, "cpu")) } else { listed.clone() });
    let nodes: Vec<(u32, CpuList)> = tree
        .numbered("/sys/devices/system/node", "node")
        .into_iter()
        .filter_map(|node| Some((node, tree.cpu_list(&format!("/sys/devices/system/node/node{node}/cpulist"))?)))
        .collect();
    let mut cpus: Vec<LogicalCpu> = online.iter().map(|cpu| read_one(tree, cpu, &nodes)).collect();
    assign_core_types(tree, &mut cpus);
    cpus
}

fn read_one(tree: &Tree, cpu: u32, nodes: &[(u32, CpuList)]) -> LogicalCpu {
    let path = |rest: &str| format!("{CPUS}/cpu{cpu}/{rest}");
    let number = |rest: &str| tree.parsed::<u32>(&path(rest)).map(|fact| fact.value);
    let claim = |rest: &str, unit: f64| {
        // Firmware that has no answer writes 0 MHz into the CPPC table.
        let fact = tree.parsed::<u32>(&path(rest)).filter(|fact| fact.value > 0);
        fact.map(|fact| fact.map(|value| f64::from(value) * unit))
    };
    let kilohertz = |rest: &str| claim(rest, 1e3).map(|fact| fact.value);
    LogicalCpu {
        cpu,
        core_id: number("topology/core_id"),
        package_id: number("topology/physical_package_id"),
        siblings: tree
            .cpu_list(&path("topology/core_cpus_list"))
            .or_else(|| tree.cpu_list(&path("topology/thread_siblings_list")))
            .unwrap_or_default(),
        numa_node: nodes.iter().find(|(_, cpus)| cpus.contains(cpu)).map(|(node, _)| *node),
        core_type: Fact::new(CoreType::Uniform, "no file lists core types"),
        capacity: number("cpu_capacity"),
        maximum_hertz: kilohertz("cpufreq/cpuinfo_max_freq"),
        base_hertz: claim("cpufreq/base_frequency", 1e3).or_else(|| claim("acpi_cppc/nominal_freq", 1e6)),
        minimum_hertz: kilohertz("cpufreq/cpuinfo_min_freq"),
        allowed_hertz: kilohertz("cpufreq/scaling_max_freq"),
        midr: None,
    }
}

/// Names the core types by the first source that tells CPUs apart: the kernel's list for each performance-counter unit
/// (Intel), the capacity (Arm, and Intel since 6.12), the maximum frequency.
fn assign_core_types(tree: &Tree, cpus: &mut [LogicalCpu]) {
    const PERFORMANCE: &str = "/sys/devices/cpu_core/cpus";
    const EFFICIENCY: &str = "/sys/devices/cpu_atom/cpus";
    /// What is larger on a larger core.
    type Measure = fn(&LogicalCpu) -> Option<f64>;
    /// Favoured cores of one type differ by a bin or two of turbo (a few per cent); E-cores by a quarter and more.
    const SMALLER_CORE: f64 = 0.85;

    let small = tree.cpu_list(EFFICIENCY).filter(|list| !list.is_empty());
    if let (Some(large), Some(small)) = (tree.cpu_list(PERFORMANCE), small) {
        for cpu in cpus {
            if large.contains(cpu.cpu) {
                cpu.core_type = Fact::new(CoreType::Performance, PERFORMANCE);
            } else if small.contains(cpu.cpu) {
                cpu.core_type = Fact::new(CoreType::Efficiency, EFFICIENCY);
            }
        }
        return;
    }
    let measures: [(&str, Measure); 2] =
        [("cpu_capacity", |cpu| cpu.capacity.map(f64::from)), ("cpufreq/cpuinfo_max_freq", |cpu| cpu.maximum_hertz)];
    for (file, measure) in measures {
        let values: Option<Vec<f64>> = cpus.iter().map(measure).collect();
        let Some(values) = values else { continue };
        let largest = values.iter().copied().fold(0.0, f64::max);
        if values.iter().all(|value| *value >= SMALLER_CORE * largest) {
            continue;
        }
        for (cpu, value) in cpus.iter_mut().zip(values) {
            let small = value < SMALLER_CORE * largest;
            let core_type = if small { CoreType::Efficiency } else { CoreType::Performance };
            cpu.core_type = Fact::new(core_type, format!("{CPUS}/cpu{}/{file}", cpu.cpu));
        }
        return;
    }
}
