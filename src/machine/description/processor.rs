//! Rows about the processor and its caches.

use super::FactRow;
use crate::machine::fact::Fact;
use crate::machine::wording::{bytes, hertz};
use crate::machine::{Cache, CoreType, Cpu, CpuList, Machine};

/// The processor, row by row.
pub(super) fn processor(machine: &Machine) -> Vec<FactRow> {
    let cpu = &machine.cpu;
    let mut rows = vec![
        FactRow::claims("model", &cpu.model_name, Clone::clone),
        FactRow::of("architecture", cpu.architecture.as_ref(), |name| {
            format!("{name}{}", if cpu.is_supported() { "" } else { " (not supported)" })
        }),
        FactRow::plain("instructions executed by", cpu.emulator.as_ref())
            .map(|row| row.with_note(Some("its speed is that of translated code, so no result is a cost".to_owned()))),
        identity(cpu),
        microarchitecture(cpu),
        FactRow::plain("microcode", cpu.microcode.as_ref()),
        FactRow::claims("CPUs", &cpu.count, ToString::to_string).map(|row| {
            let note = |list: &Fact<CpuList>| format!("{} is virtual: it lists {}", list.source, list.value);
            row.with_note(cpu.virtual_online.as_ref().map(note))
        }),
        topology(cpu),
        core_types(machine),
    ];
    rows.extend([
        FactRow::claims("nominal frequency", &cpu.nominal_hertz, |value| hertz(*value)),
        FactRow::claims("maximum frequency", &cpu.maximum_hertz, |value| hertz(*value)),
        FactRow::claims("frequency when read", &cpu.momentary_hertz, |value| hertz(*value))
            .map(|row| row.with_note(Some("changes every millisecond, never used".to_owned()))),
        FactRow::claims("counter rate", &cpu.counter_hertz, |value| hertz(*value)),
        counter(cpu),
        (!cpu.features.is_empty()).then(|| {
            let count = format!("{} flags", cpu.features.len());
            FactRow::new("features", count, "/proc/cpuinfo").with_note(Some(cpu.features.join(" ")))
        }),
    ]);
    let hidden: Vec<&str> = machine.hidden.iter().map(|fact| fact.value.as_str()).collect();
    let note = (!hidden.is_empty()).then(|| {
        format!("facts are hidden from this user ({}), so another user can get another one", hidden.join(", "))
    });
    let fingerprint = FactRow::new("fingerprint", &machine.fingerprint, "hash of model, topology, caches and memory");
    rows.push(Some(fingerprint.with_note(note)));
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
    Some(FactRow::new("microarchitecture", value, evidence.join("; ")).with_note(Some(found.reason.clone())))
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

/// The caches, one row for each shape.
pub(super) fn caches(machine: &Machine) -> Vec<FactRow> {
    machine.caches.iter().map(|cache| one_cache(cache, machine)).collect()
}

fn one_cache(cache: &Cache, machine: &Machine) -> FactRow {
    /// Lists of more instances are cut: a server has hundreds.
    const SHOWN: usize = 4;
    let sharers: Vec<String> = cache.instances.iter().take(SHOWN).map(CpuList::to_string).collect();
    let rest = if cache.instances.len() > SHOWN { ", …" } else { "" };
    let shape = [
        cache.ways.map(|ways| if ways == 0 { "fully associative".to_owned() } else { format!("{ways} ways") }),
        cache.line_bytes.map(|line| format!("{line} B lines")),
        Some(match cache.instances.len() {
            1 => format!("1 instance: CPUs {}", sharers.join(" | ")),
            instances => format!("{instances} instances: CPUs {}{rest}", sharers.join(" | ")),
        }),
    ];
    let shape: Vec<String> = shape.into_iter().flatten().collect();
    let row = FactRow::claims(&cache.name(), &cache.size_bytes, |value| bytes(*value));
    let mut row =
        row.unwrap_or_else(|| FactRow::new(&cache.name(), "size unknown", "/sys/devices/system/cpu/cpu*/cache"));
    row.value = format!("{}, {}", row.value, shape.join(", "));
    let invented = machine.is_guest() && cache.level >= 3;
    row.note = match (row.note, invented) {
        (note, false) => note,
        (None, true) => Some("the hypervisor reports size and sharing".to_owned()),
        (Some(note), true) => Some(format!("the hypervisor reports size and sharing ({note})")),
    };
    row
}
