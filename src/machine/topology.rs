//! The logical CPUs: where each one sits, and how fast it may run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CPUS;
use super::cpu_list::CpuList;
use super::fact::{Claims, Fact};
use super::tree::Tree;

/// Part of a core's speed up to which another one is smaller. Favoured cores of one type differ by a bin or two of turbo (a few per
/// cent), and cores of other types by a seventh and more.
pub(super) const SMALLER_CORE: f64 = 0.85;

/// What kind of core a logical CPU is, among the cores of its machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CoreType {
    /// All cores of the machine are alike, as far as the kernel reports.
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
    /// The logical CPUs of the same core, this CPU included. Empty when not known.
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

/// The list of online CPUs.
pub(super) const ONLINE: &str = "/sys/devices/system/cpu/online";

/// The numbers of the CPUs.
pub(super) struct Numbers {
    /// Those that the kernel knows them by.
    pub cpus: CpuList,
    /// The list of online CPUs where it counts otherwise, as containers with a separate `/sys` have it.
    pub virtual_online: Option<Fact<CpuList>>,
}

/// The numbers of the CPUs. `listed` are those of `/proc/cpuinfo`, for a machine without sysfs. The affinity mask is the kernel's own
/// word, and no file that contradicts it counts.
pub(super) fn numbers(tree: &Tree, listed: &CpuList, affinity: &Claims<CpuList>) -> Numbers {
    let online = tree.cpu_list(ONLINE).filter(|list| !list.is_empty());
    let directories = || CpuList::of(tree.numbered(CPUS, "cpu"));
    let files = || if listed.is_empty() { directories() } else { listed.clone() };
    let known = online.clone().unwrap_or_else(files);
    let Some(mask) = affinity.best().map(|fact| &fact.value) else {
        return Numbers { cpus: known, virtual_online: None };
    };
    // Asked for, the mask has active CPUs only. In a file it can have CPUs that are not plugged in.
    let is_present = |cpu: u32| tree.is_live() || tree.exists(&format!("{CPUS}/cpu{cpu}/topology"));
    let beyond = mask.without(&known);
    if mask.intersection(&known) == known && !known.is_empty() {
        let present = CpuList::of(beyond.iter().filter(|&cpu| is_present(cpu)));
        let cpus = CpuList::of(known.iter().chain(present.iter()));
        return Numbers {
            cpus,
            virtual_online: online.filter(|_| !present.is_empty()).map(|list| Fact::new(list, ONLINE)),
        };
    }
    if beyond.is_empty() {
        return Numbers { cpus: known, virtual_online: None };
    }
    Numbers { cpus: mask.clone(), virtual_online: online.map(|list| Fact::new(list, ONLINE)) }
}

/// The facts of the CPUs with these numbers.
pub(super) fn read(tree: &Tree, cpus: &CpuList) -> Vec<LogicalCpu> {
    let nodes: Vec<(u32, CpuList)> = tree
        .numbered("/sys/devices/system/node", "node")
        .into_iter()
        .filter_map(|node| {
            let path = |file: &str| format!("/sys/devices/system/node/node{node}/{file}");
            Some((node, tree.cpu_list_or_mask(&path("cpulist"), &path("cpumap"))?))
        })
        .collect();
    let mut cpus: Vec<LogicalCpu> = cpus.iter().map(|cpu| read_one(tree, cpu, &nodes)).collect();
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
        siblings: siblings(tree, &path("topology")).unwrap_or_default(),
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

/// The CPUs of a core, as newer and older kernels name the files.
fn siblings(tree: &Tree, directory: &str) -> Option<CpuList> {
    ["core_cpus", "thread_siblings"]
        .iter()
        .find_map(|name| tree.cpu_list_or_mask(&format!("{directory}/{name}_list"), &format!("{directory}/{name}")))
}

/// Names the core types by the first source that distinguishes CPUs: the kernel's list for each performance-counter unit
/// (Intel), the capacity (Arm, and Intel since 6.12), the maximum frequency.
fn assign_core_types(tree: &Tree, cpus: &mut [LogicalCpu]) {
    const PERFORMANCE: &str = "/sys/devices/cpu_core/cpus";
    const EFFICIENCY: &str = "/sys/devices/cpu_atom/cpus";
    /// What is larger on a larger core.
    type Measure = fn(&LogicalCpu) -> Option<f64>;

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
