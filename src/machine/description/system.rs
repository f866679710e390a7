//! Rows about the memory and the kernel.

use super::FactRow;
use crate::machine::wording::bytes;
use crate::machine::{Kernel, Memory};

/// The memory, row by row.
pub(super) fn memory(memory: &Memory) -> Vec<FactRow> {
    let size = |value: &u64| bytes(*value);
    let mut rows = vec![
        FactRow::of("total", memory.total_bytes.as_ref(), size),
        FactRow::of("available", memory.available_bytes.as_ref(), size),
        FactRow::claims("page", &memory.page_bytes, size),
        FactRow::plain("transparent huge pages", memory.transparent_huge_pages.as_ref()),
        FactRow::of("allowed to this process", memory.transparent_allowed.as_ref(), |&allowed| {
            if allowed { "yes" } else { "no: switched off for it by prctl" }.to_owned()
        }),
        FactRow::plain("their defragmentation", memory.transparent_defrag.as_ref()),
    ];
    rows.extend(memory.huge_pages.iter().map(|pool| {
        let name = format!("huge pages of {}", bytes(pool.page_bytes));
        Some(FactRow::new(&name, format!("{} ({} free)", pool.total, pool.free), pool.source.clone()))
    }));
    rows.extend([
        FactRow::of("swap", memory.swap_total_bytes.as_ref(), size),
        FactRow::of("swap in use", memory.swap_used_bytes.as_ref(), size),
    ]);
    rows.extend(memory.reclaimers.iter().map(|found| FactRow::plain("reclaimed early by", Some(found))));
    rows.extend(memory.nodes.iter().map(|node| {
        // An only node has all memory. The kernel counts less for it where it initialises pages late.
        let total = node.total_bytes.filter(|_| memory.nodes.len() > 1);
        let total = total.map(|total| format!(", {}", bytes(total))).unwrap_or_default();
        let distances: Vec<String> = node.distances.iter().map(ToString::to_string).collect();
        let distances =
            if distances.is_empty() { String::new() } else { format!(", distances {}", distances.join(" ")) };
        let cpus = if node.cpus.is_empty() { "memory only".to_owned() } else { format!("CPUs {}", node.cpus) };
        let value = format!("{cpus}{total}{distances}");
        Some(FactRow::new(&format!("node {}", node.node), value, node.source.clone()))
    }));
    rows.extend(memory.modules.iter().map(|module| {
        let kind = module.kind.as_deref().unwrap_or("memory");
        let speed =
            module.transfers_per_second.map(|speed| format!(" at {} MT/s", speed / 1_000_000)).unwrap_or_default();
        let value = format!("{} {kind}{speed} {}", bytes(module.size_bytes), module.product);
        let name = format!("module {} {}", module.bank, module.slot);
        Some(FactRow::new(name.trim_end(), value.trim_end(), "/sys/firmware/dmi/tables/DMI type 17"))
    }));
    rows.push(FactRow::claims("channels", &memory.channels, ToString::to_string));
    rows.push(FactRow::of("peak bandwidth", memory.peak_bytes_per_second.as_ref(), |peak| {
        format!("{:.1} GB/s", *peak as f64 / 1e9)
    }));
    let unknown = |reason: &String| FactRow::new("peak bandwidth", "not derivable", "").with_note(Some(reason.clone()));
    rows.push(memory.peak_unknown.as_ref().map(unknown));
    rows.into_iter().flatten().collect()
}

/// The kernel, row by row.
pub(super) fn kernel(kernel: &Kernel) -> Vec<FactRow> {
    let yes = |value: &bool| if *value { "on" } else { "off" }.to_owned();
    let tick = FactRow::of("timer interrupts", kernel.tick_hertz.as_ref(), |hertz| format!("{hertz} Hz"))
        .unwrap_or_else(|| {
            FactRow::new("timer interrupts", "100 to 1000 Hz", "")
                .with_note(Some("the kernel's configuration is not readable".to_owned()))
        });
    let mut rows = vec![
        FactRow::plain("system calls answered by", kernel.emulator.as_ref()).map(|row| {
            row.with_note(Some("no Linux kernel, so its version only states which calls it imitates".to_owned()))
        }),
        FactRow::plain("release", kernel.release.as_ref()),
        FactRow::plain("version", kernel.version.as_ref()),
        FactRow::plain("command line", kernel.command_line.as_ref()),
        kernel.release.is_some().then_some(tick),
        FactRow::claims("preemption", &kernel.preemption, Clone::clone),
        clock_source(kernel),
        FactRow::plain("frequency driver", kernel.frequency_driver.as_ref()),
        FactRow::plain("frequency governor", kernel.governor.as_ref()),
        FactRow::plain("energy preference", kernel.energy_preference.as_ref()),
        FactRow::of("turbo", kernel.turbo.as_ref(), yes),
        FactRow::plain("idle driver", kernel.idle_driver.as_ref()),
        idle_states(kernel),
        FactRow::plain("isolated CPUs", kernel.isolated.as_ref()),
        FactRow::plain("CPUs without ticks", kernel.tickless.as_ref()),
        FactRow::plain("address randomisation", kernel.address_randomisation.as_ref()),
        FactRow::plain("perf_event_paranoid", kernel.perf_event_paranoid.as_ref()),
        FactRow::plain("io_uring_disabled", kernel.io_uring_disabled.as_ref()),
        FactRow::plain("security modules", kernel.security_modules.as_ref()),
    ];
    rows.extend(kernel.mitigations.iter().filter(|entry| entry.state != "Not affected").map(|entry| {
        let source = format!("/sys/devices/system/cpu/vulnerabilities/{}", entry.vulnerability);
        Some(FactRow::new(&entry.vulnerability, &entry.state, source))
    }));
    rows.into_iter().flatten().collect()
}

fn clock_source(kernel: &Kernel) -> Option<FactRow> {
    let others = kernel.clock_sources_available.join(" ");
    let note = (!others.is_empty()).then(|| format!("available: {others}"));
    FactRow::plain("clock source", kernel.clock_source.as_ref()).map(|row| row.with_note(note))
}

fn idle_states(kernel: &Kernel) -> Option<FactRow> {
    let states: Vec<String> = kernel
        .idle_states
        .iter()
        .map(|state| {
            let exit = state.exit_microseconds.map(|time| format!(" ({time} µs)")).unwrap_or_default();
            format!("{}{exit}{}", state.name, if state.disabled { " off" } else { "" })
        })
        .collect();
    (!states.is_empty()).then(|| FactRow::new("idle states", states.join(", "), "/sys/devices/system/cpu/cpu0/cpuidle"))
}
