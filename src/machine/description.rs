//! The machine in words, section by section and in one line.

use super::fact::Claims;
use super::row::{FactRow, Mark};
use super::wording::{bytes, hertz};
use super::{
    BlockDevice, Cache, Contradiction, CoreType, Cpu, CpuList, DeviceLimit, Gpu, Interface, InterfaceKind, Machine,
    Shaper, Storage, contradiction,
};

/// A titled group of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactSection {
    /// What the rows are about.
    pub title: String,
    /// The rows, in order of reading.
    pub rows: Vec<FactRow>,
}

impl Machine {
    /// The whole description, section by section.
    pub fn sections(&self) -> Vec<FactSection> {
        let section = |title: &str, rows: Vec<FactRow>| FactSection { title: title.to_owned(), rows };
        let mut sections = vec![
            section("Processor", processor(self)),
            section("Caches", self.caches.iter().map(|found| cache(found, self.is_guest())).collect()),
            section("Memory", self.memory.rows()),
            section("Storage", self.storage.iter().flat_map(|found| storage(found, self.is_guest())).collect()),
            section("Network", self.network.iter().map(|found| interface(found, self.is_guest())).collect()),
            section("GPU", self.gpu.iter().map(|found| gpu(found, self.is_guest())).collect()),
            section("Kernel", self.kernel.rows()),
            section("Limits", self.limits.rows()),
        ];
        // A contradiction is for the same readers as the fact that it is about.
        let rows = || sections.iter().flat_map(|section| &section.rows);
        let marks = |question: &str| rows().find(|row| row.name == question).map(|row| row.marks.clone());
        let found = contradiction::all(self).into_iter().map(|found| {
            let marks = marks(&found.question).unwrap_or_default();
            FactRow { marks, ..found.row() }
        });
        sections.push(section("Contradictions", found.collect()));
        sections.into_iter().filter(|section| !section.rows.is_empty()).collect()
    }

    /// The same in about 55 letters: names without marks and build numbers.
    pub fn short_line(&self) -> String {
        let name = self.processor_name();
        let name = ["(R)", "(TM)", "(tm)", " Processor"].iter().fold(name, |name, mark| name.replace(mark, ""));
        let mut parts = vec![name, format!("{} CPUs", self.cpu.topology().logical)];
        parts.extend(self.memory.total_bytes.as_ref().map(|fact| bytes(fact.value)));
        parts.extend(self.kernel.name(true));
        parts.extend(self.limits.hypervisor.best().map(|name| match name.value.as_str() {
            "unnamed" => "guest".to_owned(),
            name => format!("{name} guest"),
        }));
        parts.extend(self.cpu.emulator.as_ref().map(|fact| fact.value.clone()));
        parts.join(", ")
    }

    /// The machine in one line: processor, CPUs, memory, kernel, what stands in between.
    pub fn summary_line(&self) -> String {
        let topology = self.cpu.topology();
        let mut parts = vec![self.processor_name()];
        parts.extend(
            self.cpu
                .architecture
                .as_ref()
                .filter(|_| !self.cpu.is_supported())
                .map(|name| format!("architecture {} (not supported)", name.value)),
        );
        let usable = self.available_cpus();
        let restricted = usable < topology.logical as f64;
        parts.push(format!(
            "{} CPUs{}",
            topology.logical,
            if restricted { format!(" ({usable} usable)") } else { String::new() }
        ));
        parts.extend(self.memory.total_bytes.as_ref().map(|fact| bytes(fact.value)));
        parts.extend(self.kernel.name(false));
        parts.push(match self.limits.hypervisor.best() {
            Some(name) if name.value == "unnamed" => "virtual machine".to_owned(),
            Some(name) => format!("virtual machine ({})", name.value),
            None => "no hypervisor seen".to_owned(),
        });
        parts.extend(self.limits.container.best().map(|fact| format!("container ({})", fact.value)));
        parts.extend(self.cpu.emulator.as_ref().map(|fact| fact.value.clone()));
        parts.extend((!self.hidden.is_empty()).then(|| "facts are hidden".to_owned()));
        parts.join(", ")
    }
}

impl Contradiction {
    fn row(&self) -> FactRow {
        let joined = |texts: Vec<&str>, separator: &str| texts.join(separator);
        let answers = joined(self.claims.iter().map(|claim| claim.value.as_str()).collect(), " ≠ ");
        let sources = joined(self.claims.iter().map(|claim| claim.source.as_str()).collect(), "; ");
        FactRow::new(&self.question, answers, sources)
    }
}

/// The processor, row by row.
fn processor(machine: &Machine) -> Vec<FactRow> {
    use Mark::{Fleeting, Report, Screen};

    let cpu = &machine.cpu;
    let clock = |name: &str, claims: &Claims<f64>| FactRow::of(name, claims, |value| hertz(*value));
    let is_virtual =
        cpu.virtual_online.as_ref().map(|list| format!("{} is virtual: it lists {}", list.source, list.value));
    let hidden: Vec<&str> = machine.hidden.iter().map(|fact| fact.value.as_str()).collect();
    let incomplete = (!hidden.is_empty()).then(|| {
        format!("facts are hidden from this user ({}), so another user can get another one", hidden.join(", "))
    });
    let rows = [
        FactRow::of("model", &cpu.model_name, Clone::clone).map(|row| row.marked([Report])),
        FactRow::of("architecture", &cpu.architecture, |name| {
            format!("{name}{}", if cpu.is_supported() { "" } else { " (not supported)" })
        }),
        FactRow::of("instructions executed by", &cpu.emulator, Clone::clone)
            .map(|row| row.with_note(Some("its speed is that of translated code, so no result is a cost"))),
        FactRow::of("address sizes", &cpu.address_sizes, Clone::clone),
        FactRow::of("byte order", &cpu.byte_order, Clone::clone),
        identity(cpu),
        microarchitecture(cpu).map(|row| row.marked([Screen, Report])),
        FactRow::of("microcode", &cpu.microcode, Clone::clone),
        FactRow::of("CPUs", &cpu.count, ToString::to_string).map(|row| row.with_note(is_virtual).marked([Report])),
        topology(cpu).map(|row| row.marked([Screen, Report])),
        core_types(machine),
        clock("nominal frequency", &cpu.nominal_hertz).map(|row| row.marked([Screen])),
        clock("maximum frequency", &cpu.maximum_hertz),
        clock("frequency when read", &cpu.momentary_hertz)
            .map(|row| row.with_note(Some("changes every millisecond, never used")).marked([Fleeting])),
        clock("counter rate", &cpu.counter_hertz).map(|row| row.marked([Report])),
        counter(cpu),
        (!cpu.features.is_empty()).then(|| {
            let count = format!("{} flags", cpu.features.len());
            FactRow::new("features", count, "/proc/cpuinfo").with_note(Some(cpu.features.join(" ")))
        }),
        Some(
            FactRow::new("fingerprint", &machine.fingerprint, "hash of model, topology, caches and memory")
                .with_note(incomplete),
        ),
    ];
    rows.into_iter().flatten().collect()
}

fn identity(cpu: &Cpu) -> Option<FactRow> {
    let (vendor, model) = (cpu.vendor.as_ref()?, cpu.model.as_ref()?);
    let stepping = cpu.stepping.as_ref().map_or(0, |fact| fact.value);
    let value = match &cpu.family {
        Some(family) => format!("{} family {} model {} stepping {stepping}", vendor.value, family.value, model.value),
        None => format!("implementer {} part {:#x} revision {stepping}", vendor.value, model.value),
    };
    Some(FactRow::new("identity", value, "/proc/cpuinfo"))
}

fn microarchitecture(cpu: &Cpu) -> Option<FactRow> {
    let found = &cpu.microarchitecture;
    let evidence: Vec<&str> =
        [&found.by_model, &found.by_features].into_iter().flatten().map(|fact| fact.source.as_str()).collect();
    if evidence.is_empty() {
        return None;
    }
    let efficiency = found.efficiency_class.map(|class| format!(" + {}", class.name())).unwrap_or_default();
    let doubt = if found.certain { "" } else { " (not certain)" };
    let value = format!("{}{efficiency}{doubt}", found.class.name());
    Some(FactRow::new("microarchitecture", value, evidence.join("; ")).with_note(Some(found.reason.as_str())))
}

fn topology(cpu: &Cpu) -> Option<FactRow> {
    let topology = cpu.topology();
    let number = |count: usize| if count > 0 { count.to_string() } else { "unknown".to_owned() };
    let (packages, cores) = (number(topology.packages), number(topology.cores));
    let value = format!("packages {packages}, cores {cores}, CPUs {}", topology.logical);
    (topology.logical > 0).then(|| FactRow::new("topology", value, "/sys/devices/system/cpu/cpu*/topology"))
}

fn counter(cpu: &Cpu) -> Option<FactRow> {
    let value = if cpu.counter_is_invariant() { "invariant" } else { "not invariant" };
    let known = !cpu.counter_flags.is_empty() || cpu.counter_is_invariant();
    let note = (!cpu.counter_flags.is_empty()).then(|| cpu.counter_flags.join(" "));
    known.then(|| FactRow::new("counter", value, "/proc/cpuinfo").with_note(note))
}

/// The types of cores with their CPUs, where there is more than one.
fn core_types(machine: &Machine) -> Option<FactRow> {
    let groups = machine.core_groups();
    let smaller = machine.cpu.logical.iter().find(|cpu| cpu.core_type.value == CoreType::Efficiency);
    let source = smaller.map_or("/proc/cpuinfo", |cpu| cpu.core_type.source.as_str());
    let written = groups.iter().map(|group| {
        let capacity = match group.capacity {
            Some([least, greatest]) if least < greatest => format!(", capacity {least} to {greatest}"),
            Some([one, _]) => format!(", capacity {one}"),
            None => String::new(),
        };
        format!("{}{capacity}: CPUs {}", group.name, group.cpus)
    });
    (groups.len() > 1).then(|| FactRow::new("core types", written.collect::<Vec<_>>().join("; "), source))
}

/// Caches of one shape.
fn cache(cache: &Cache, is_guest: bool) -> FactRow {
    /// Lists of more instances are cut: a server has hundreds.
    const SHOWN: usize = 4;
    let name = cache.name();
    let sharers: Vec<String> = cache.instances.iter().take(SHOWN).map(CpuList::to_string).collect();
    let rest = if cache.instances.len() > SHOWN { ", …" } else { "" };
    let noun = if cache.instances.len() == 1 { "instance" } else { "instances" };
    let shape = [
        cache.ways.map(|ways| if ways == 0 { "fully associative".to_owned() } else { format!("{ways} ways") }),
        cache.line_bytes.map(|line| format!("{line} B lines")),
        Some(format!("{} {noun}: CPUs {}{rest}", cache.instances.len(), sharers.join(" | "))),
    ];
    let row = FactRow::of(&name, &cache.size_bytes, |value| bytes(*value))
        .unwrap_or_else(|| FactRow::new(&name, "size unknown", "/sys/devices/system/cpu/cpu*/cache"));
    let others = row.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
    let invented = (is_guest && cache.level >= 3).then(|| format!("the hypervisor reports size and sharing{others}"));
    let value = format!("{}, {}", row.value, listed(shape));
    let is_usual = ["L1d", "L2", "L3"].contains(&name.as_str());
    let marks = if is_usual { vec![Mark::Screen, Mark::Report] } else { Vec::new() };
    FactRow { value, marks, ..row }.with_note(invented)
}

/// The parts that are known, with commas between.
fn listed<const N: usize>(parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A place for files: its file system, its disk, and the disk's queue where test files lie on it.
fn storage(storage: &Storage, is_guest: bool) -> Vec<FactRow> {
    let mut rows = Vec::new();
    if let Some(mount) = &storage.mount {
        let size = |value: &u64| bytes(*value);
        let place = format!("{} at {}, {}", mount.file_system.value, mount.mount_point, mount.options);
        let name = format!("file system of {}", mount.directory);
        let row = FactRow::new(&name, place, mount.file_system.source.as_str());
        rows.push(row.marked([Mark::Screen, Mark::Report]));
        rows.extend(FactRow::of("its size", &mount.total_bytes, size));
        let free = FactRow::of("its free space", &mount.free_bytes, size);
        rows.extend(free.map(|row| row.marked([Mark::Fleeting])));
    }
    match &storage.device {
        Some(device) if storage.scratch => {
            let name = format!("its disk {}", device.name);
            let row = FactRow::new(&name, disk(device, is_guest), device.source.as_str());
            rows.push(row.marked([Mark::Screen, Mark::Report]));
            rows.push(FactRow::new("its queue", queue(device), format!("{}/queue", device.source)));
            let limits: Vec<String> = device.limits.iter().map(DeviceLimit::text).collect();
            rows.extend((!limits.is_empty()).then(|| FactRow::new("its limits", limits.join(", "), "control groups")));
        }
        Some(device) => {
            let name = format!("disk {}", device.name);
            rows.push(FactRow::new(&name, disk(device, is_guest), device.source.as_str()));
        }
        None => {}
    }
    let unknown = |reason: &String| FactRow::new("its disk", "none", "").with_note(Some(reason.as_str()));
    rows.extend(storage.device_unknown.as_ref().map(unknown).map(|row| row.marked([Mark::Screen])));
    rows
}

fn disk(device: &BlockDevice, is_guest: bool) -> String {
    let rotational = match (device.rotational, device.is_virtual) {
        (_, true) => Some("virtual".to_owned()),
        (Some(true), _) => Some("rotating".to_owned()),
        (Some(false), _) => Some("not rotating".to_owned()),
        (None, _) => None,
    };
    let parts = [
        device.model.clone(),
        device.size_bytes.map(bytes),
        device.driver.as_ref().map(|driver| format!("driver {driver}")),
        device.bus.as_ref().map(|bus| bus.text(is_guest)),
        rotational,
        device.partition.as_ref().map(|name| format!("partition {name}")),
        (!device.below.is_empty()).then(|| format!("on {}", device.below.join(" "))),
    ];
    listed(parts)
}

fn queue(device: &BlockDevice) -> String {
    let parts = [
        device.scheduler.as_ref().map(|name| format!("scheduler {name}")),
        device.read_ahead_bytes.map(|size| format!("read-ahead {}", bytes(size))),
        device.requests.map(|count| format!("{count} requests")),
        device.logical_block_bytes.map(|size| format!("logical block {}", bytes(size))),
        device.physical_block_bytes.map(|size| format!("physical block {}", bytes(size))),
        device.write_cache.clone(),
        device.discard_bytes.map(|size| if size > 0 { "discard".to_owned() } else { "no discard".to_owned() }),
    ];
    listed(parts)
}

fn gpu(gpu: &Gpu, is_guest: bool) -> FactRow {
    let parts = [
        Some(format!("driver with CUDA {}", gpu.cuda)),
        gpu.bus.as_ref().map(|bus| bus.text(is_guest)),
        (gpu.count > 1).then(|| format!("the first of {}", gpu.count)),
    ];
    FactRow::new(&gpu.name, listed(parts), "libcuda.so.1").marked([Mark::Report])
}

fn interface(interface: &Interface, is_guest: bool) -> FactRow {
    let parts = [
        Some(format!("{:?}", interface.kind).to_lowercase()),
        interface.driver.as_ref().map(|driver| format!("driver {driver}")),
        interface.bus.as_ref().map(|bus| bus.text(is_guest)),
        interface.bits_per_second.map(|rate| format!("{} Mbit/s", rate / 1_000_000)),
        interface.mtu_bytes.map(|size| format!("MTU {size} B")),
        interface.state.clone(),
        interface.shaper.as_ref().map(|shaper| format!("shaped by {}", Shaper::text(shaper, &interface.name))),
    ];
    let row = FactRow::new(&interface.name, listed(parts), interface.source.as_str());
    let is_device = !matches!(interface.kind, InterfaceKind::Loopback | InterfaceKind::Virtual);
    if is_device { row.marked([Mark::Report]) } else { row }
}
