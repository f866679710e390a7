//! The main memory: how much, in which pages, on which nodes, and how fast it can be at most.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cpu_list::CpuList;
use super::fact::{Claims, Fact};
use super::reclaim;
use super::row::{FactRow, Mark, facts};
use super::smbios::{self, Module};
use super::tree::{Access, Tree, value_of};
use super::wording::bytes;

const MEMINFO: &str = "/proc/meminfo";
const TRANSPARENT: &str = "/sys/kernel/mm/transparent_hugepage";

/// The main memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// What the kernel manages, in bytes.
    pub total_bytes: Option<Fact<u64>>,
    /// What programs can have without swapping, in bytes, at the moment of reading.
    pub available_bytes: Option<Fact<u64>>,
    /// What the file cache could grow to at most, in bytes, at the moment of reading: what is free, what holds file data and
    /// what the kernel's own caches would give back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cacheable_bytes: Option<Fact<u64>>,
    /// What takes memory back before it is short, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reclaimers: Vec<Fact<String>>,
    /// Size of a base page in bytes.
    pub page_bytes: Claims<u64>,
    /// Pools of explicit huge pages, smallest page first.
    pub huge_pages: Vec<HugePages>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<Fact<String>>,
    /// Whether this process may have transparent huge pages: false where they were switched off for it (`prctl`,
    /// PR_SET_THP_DISABLE), as children inherit it; absent on kernels that do not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transparent_allowed: Option<Fact<bool>>,
    /// When a fault may compact memory to get a transparent huge page.
    pub transparent_defrag: Option<Fact<String>>,
    /// Swap space in bytes.
    pub swap_total_bytes: Option<Fact<u64>>,
    /// Swap space in use, in bytes.
    pub swap_used_bytes: Option<Fact<u64>>,
    /// NUMA nodes, by number.
    pub nodes: Vec<Node>,
    /// The modules that are plugged in, where the firmware's table can be read.
    pub modules: Vec<Module>,
    /// Number of memory channels in use.
    pub channels: Claims<u32>,
    /// Highest bandwidth that the modules can deliver, in bytes per second: channels × width × transfers.
    pub peak_bytes_per_second: Option<Fact<u64>>,
    /// Why no peak bandwidth is derived; absent when one is.
    pub peak_unknown: Option<String>,
}

/// A pool of explicit huge pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HugePages {
    /// Size of one page in bytes.
    pub page_bytes: u64,
    /// Pages in the pool.
    pub total: u64,
    /// Pages that are not in use.
    pub free: u64,
    /// Directory in sysfs.
    pub source: String,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Its number.
    pub node: u32,
    /// Its CPUs; empty for a node of memory only.
    pub cpus: CpuList,
    /// Its memory in bytes.
    pub total_bytes: Option<u64>,
    /// Relative distance to each node, by number; 10 is local. The firmware's opinion, not a measurement.
    pub distances: Vec<u32>,
    /// Directory in sysfs.
    pub source: String,
}

facts! {
    memory: Memory, tree: &Tree;
    total_bytes = counted(tree, "MemTotal"), "total" Report, |size| bytes(*size);
    available_bytes = counted(tree, "MemAvailable"), "available" Fleeting, |size| bytes(*size);
    cacheable_bytes = cacheable(&tree.text(MEMINFO).unwrap_or_default());
    page_bytes = page_bytes(tree), "page", |size| bytes(*size);
    transparent_huge_pages = tree.chosen(&format!("{TRANSPARENT}/enabled")), "transparent huge pages" Screen;
    transparent_allowed = allowed(tree), "allowed to this process",
        |allowed| if *allowed { "yes" } else { "no: switched off for it by prctl" }.to_owned();
    transparent_defrag = tree.chosen(&format!("{TRANSPARENT}/defrag")), "their defragmentation";
    huge_pages = huge_pages(tree) => memory.huge_pages.iter().map(HugePages::row);
    swap_total_bytes = counted(tree, "SwapTotal"), "swap", |size| bytes(*size);
    swap_used_bytes = swap_used(tree, memory), "swap in use" Fleeting, |size| bytes(*size);
    reclaimers = reclaim::read(tree)
        => memory.reclaimers.iter().map(|found| FactRow::new("reclaimed early by", &found.value, found.source.as_str()));
    nodes = nodes(tree) => memory.nodes.iter().map(|node| node.row(memory.nodes.len() == 1));
    modules = smbios::modules(&tree.bytes(smbios::TABLE).unwrap_or_default()) => memory.modules.iter().map(Module::row);
    channels = Claims::of([controller_channels(tree), slot_channels(tree)]), "channels";
    peak_bytes_per_second = peak(tree, memory).ok(), "peak bandwidth", |peak| format!("{:.1} GB/s", *peak as f64 / 1e9);
    peak_unknown = peak(tree, memory).err() => memory.peak_unknown.as_ref()
        .map(|reason| FactRow::new("peak bandwidth", "not derivable", "").with_note(Some(reason.as_str())));
}

impl HugePages {
    fn row(&self) -> FactRow {
        let name = format!("huge pages of {}", bytes(self.page_bytes));
        FactRow::new(&name, format!("{} ({} free)", self.total, self.free), self.source.as_str())
    }
}

impl Node {
    /// An only node has all memory. The kernel counts less for it where it initialises pages late.
    fn row(&self, is_only: bool) -> FactRow {
        let total = self.total_bytes.filter(|_| !is_only);
        let total = total.map(|total| format!(", {}", bytes(total))).unwrap_or_default();
        let distances: Vec<String> = self.distances.iter().map(ToString::to_string).collect();
        let distances =
            if distances.is_empty() { String::new() } else { format!(", distances {}", distances.join(" ")) };
        let cpus = if self.cpus.is_empty() { "memory only".to_owned() } else { format!("CPUs {}", self.cpus) };
        let row =
            FactRow::new(&format!("node {}", self.node), format!("{cpus}{total}{distances}"), self.source.as_str());
        if self.node == 0 { row.marked([Mark::Screen, Mark::Report]) } else { row.marked([Mark::Screen]) }
    }
}

impl Module {
    fn row(&self) -> FactRow {
        let kind = self.kind.as_deref().unwrap_or("memory");
        let speed =
            self.transfers_per_second.map(|speed| format!(" at {} MT/s", speed / 1_000_000)).unwrap_or_default();
        let value = format!("{} {kind}{speed} {}", bytes(self.size_bytes), self.product);
        let name = format!("module {} {}", self.bank, self.slot);
        FactRow::new(name.trim_end(), value.trim_end(), format!("{} type 17", smbios::TABLE))
    }
}

impl Memory {
    /// Why nodes of memory may not be compared with these CPUs, in brackets: nodes without memory or CPUs, or whose CPUs are not among
    /// these. Empty where nothing is known.
    pub fn nodes_apart(&self, allowed: &[u32]) -> String {
        let reason = |node: &Node| {
            let number = node.node;
            if node.total_bytes.is_none_or(|bytes| bytes == 0) {
                Some(format!("node {number} has no memory"))
            } else if node.cpus.is_empty() {
                Some(format!("node {number} is memory only"))
            } else if !node.cpus.iter().any(|cpu| allowed.contains(&cpu)) {
                Some(format!("no CPU of node {number} is allowed"))
            } else {
                None
            }
        };
        let reasons: Vec<String> = self.nodes.iter().filter_map(reason).collect();
        if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) }
    }

    /// True when transparent huge pages are known to be switched off for this process.
    pub fn refused_huge_pages(&self) -> bool {
        self.transparent_allowed.as_ref().is_some_and(|allowed| !allowed.value)
    }
}

fn allowed(tree: &Tree) -> Option<Fact<bool>> {
    const STATUS: &str = "/proc/self/status";
    let text = tree.text(STATUS)?;
    Some(Fact::new(value_of(&text, "THP_enabled")? != "0", format!("{STATUS} THP_enabled")))
}

/// A value of `/proc/meminfo`, whose `kB` are KiB.
fn kibibytes(meminfo: &str, key: &str) -> Option<u64> {
    value_of(meminfo, key)?.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// A number of bytes that `/proc/meminfo` states.
fn counted(tree: &Tree, key: &str) -> Option<Fact<u64>> {
    kibibytes(&tree.text(MEMINFO)?, key).map(|bytes| Fact::new(bytes, format!("{MEMINFO} {key}")))
}

fn swap_used(tree: &Tree, memory: &Memory) -> Option<Fact<u64>> {
    let free = counted(tree, "SwapFree")?.value;
    memory.swap_total_bytes.clone()?.filter_map(|total| total.checked_sub(free))
}

fn cacheable(meminfo: &str) -> Option<Fact<u64>> {
    const PARTS: [&str; 4] = ["MemFree", "Active(file)", "Inactive(file)", "SReclaimable"];
    let sum = PARTS.iter().map(|key| kibibytes(meminfo, key)).sum::<Option<u64>>()?;
    Some(Fact::new(sum, format!("{MEMINFO} {}", PARTS.join(" + "))))
}

fn page_bytes(tree: &Tree) -> Claims<u64> {
    const MAPS: &str = "/proc/self/smaps";
    let asked = || nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    let live = tree.is_live().then(asked).flatten().map(|bytes| Fact::new(bytes as u64, "sysconf(_SC_PAGESIZE)"));
    let mapped = tree.text(MAPS).and_then(|text| kibibytes(&text, "KernelPageSize"));
    Claims::of([live, mapped.map(|bytes| Fact::new(bytes, format!("{MAPS} KernelPageSize")))])
}

fn huge_pages(tree: &Tree) -> Vec<HugePages> {
    const POOLS: &str = "/sys/kernel/mm/hugepages";
    let mut pools: Vec<HugePages> = tree
        .names(POOLS)
        .into_iter()
        .filter_map(|name| {
            let source = format!("{POOLS}/{name}");
            let count = |file: &str| tree.parsed(&format!("{source}/{file}")).map(|fact| fact.value);
            let kibibytes: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            Some(HugePages {
                page_bytes: kibibytes.checked_mul(1024)?,
                total: count("nr_hugepages")?,
                free: count("free_hugepages").unwrap_or(0),
                source,
            })
        })
        .collect();
    pools.sort_by_key(|pool| pool.page_bytes);
    pools
}

fn nodes(tree: &Tree) -> Vec<Node> {
    const NODES: &str = "/sys/devices/system/node";
    let read_node = |node: u32| {
        let source = format!("{NODES}/node{node}");
        let meminfo = tree.text(&format!("{source}/meminfo")).unwrap_or_default();
        // Each line starts with "Node 0 ".
        let total =
            meminfo.lines().find_map(|line| line.split_once("MemTotal").map(|(_, rest)| format!("MemTotal{rest}")));
        let distances = tree.text(&format!("{source}/distance")).unwrap_or_default();
        Node {
            node,
            cpus: tree.cpu_list_or_mask(&format!("{source}/cpulist"), &format!("{source}/cpumap")).unwrap_or_default(),
            total_bytes: total.and_then(|line| kibibytes(&line, "MemTotal")),
            distances: distances.split_whitespace().filter_map(|distance| distance.parse().ok()).collect(),
            source,
        }
    };
    tree.numbered(NODES, "node").into_iter().map(read_node).collect()
}

/// Channels with a module, by the driver of the memory controller (`drivers/edac` of the kernel).
fn controller_channels(tree: &Tree) -> Option<Fact<u32>> {
    const CONTROLLERS: &str = "/sys/devices/system/edac/mc";
    let mut channels = BTreeSet::new();
    for controller in tree.numbered(CONTROLLERS, "mc") {
        let directory = format!("{CONTROLLERS}/mc{controller}");
        for module in tree.numbered(&directory, "dimm") {
            let location = tree.trimmed(&format!("{directory}/dimm{module}/dimm_location")).unwrap_or_default();
            let mut words = location.split_whitespace();
            if words.any(|word| word == "channel")
                && let Some(channel) = words.next()
            {
                channels.insert((controller, channel.to_owned()));
            }
        }
    }
    (!channels.is_empty()).then(|| Fact::new(channels.len() as u32, format!("{CONTROLLERS}/mc*/dimm*/dimm_location")))
}

/// Channels with a module, by the names of the slots; only when every name shows its channel.
fn slot_channels(tree: &Tree) -> Option<Fact<u32>> {
    let count = smbios::channels(&tree.bytes(smbios::TABLE)?);
    count.map(|count| Fact::new(count, format!("{} type 17, names of the slots", smbios::TABLE)))
}

fn peak(tree: &Tree, memory: &Memory) -> Result<Fact<u64>, String> {
    if memory.modules.is_empty() {
        return Err(match tree.access(smbios::TABLE) {
            Access::Denied => format!("only root can read {}, which gives speed and channels", smbios::TABLE),
            Access::Absent => format!("{} does not exist (usual in a guest and on Arm boards)", smbios::TABLE),
            Access::Readable => format!("{} lists no memory module", smbios::TABLE),
        });
    }
    let speeds: Option<BTreeSet<(u64, u32)>> =
        memory.modules.iter().map(|module| Some((module.transfers_per_second?, module.data_bits?))).collect();
    // One slow module slows down its whole channel, and usually all of them.
    let Some((transfers, bits)) = speeds.and_then(|speeds| speeds.first().copied()) else {
        return Err("the firmware's table lacks the speed and width of some modules".to_owned());
    };
    let Some(channels) = memory.channels.best() else {
        return Err("the slot names do not give the number of channels in use".to_owned());
    };
    let peak = u64::from(channels.value) * u64::from(bits / 8) * transfers;
    let noun = if channels.value == 1 { "channel" } else { "channels" };
    let formula = format!("{} {noun} × {bits} bits × {} MT/s", channels.value, transfers / 1_000_000);
    Ok(Fact::new(peak, format!("{formula} ({} type 17; {})", smbios::TABLE, channels.source)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_are_not_compared_have_a_reason() {
        let node = |node: u32, cpus: &str, bytes: u64| Node {
            node,
            cpus: CpuList::parse(cpus).unwrap_or_default(),
            total_bytes: Some(bytes),
            distances: Vec::new(),
            source: String::new(),
        };
        let memory = |nodes: Vec<Node>| Memory { nodes, ..Memory::default() };
        let found = memory(vec![node(0, "0-3", 1), node(1, "", 1), node(2, "4", 1), node(3, "0-3", 0)]);
        let reasons = " (node 1 is memory only, no CPU of node 2 is allowed, node 3 has no memory)";
        assert_eq!(found.nodes_apart(&[0, 1]), reasons);
        assert_eq!(memory(vec![node(0, "0", 1), node(1, "1", 1)]).nodes_apart(&[0, 1]), "");
    }

    #[test]
    fn meminfo_counts_in_kibibytes() {
        let text = "MemTotal:       12341884 kB\nSwapTotal:             0 kB\nHugePages_Total:       0\n";
        assert_eq!(kibibytes(text, "MemTotal"), Some(12_341_884 * 1024));
        assert_eq!(kibibytes(text, "SwapTotal"), Some(0));
        assert_eq!(kibibytes(text, "HugePages_Total"), None);
        assert_eq!(kibibytes("MemTotal: 18446744073709551615 kB", "MemTotal"), None);
    }
}
