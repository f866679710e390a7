//! Rows about what is around the process: disks, interfaces, limits.

use super::FactRow;
use crate::machine::wording::bytes;
use crate::machine::{BlockDevice, DeviceLimit, Interface, Limits, Shaper, Storage};

/// The storage, the scratch directory's first.
pub(super) fn storage(storage: &[Storage]) -> Vec<FactRow> {
    storage.iter().flat_map(one_storage).collect()
}

fn one_storage(storage: &Storage) -> Vec<FactRow> {
    let mut rows = Vec::new();
    if let Some(mount) = &storage.mount {
        let size = |value: &u64| bytes(*value);
        let place = format!("{} at {}, {}", mount.file_system.value, mount.mount_point, mount.options);
        rows.push(Some(FactRow::new(
            &format!("file system of {}", mount.directory),
            place,
            mount.file_system.source.clone(),
        )));
        rows.push(FactRow::of("its size", mount.total_bytes.as_ref(), size));
        rows.push(FactRow::of("its free space", mount.free_bytes.as_ref(), size));
    }
    if let Some(device) = &storage.device {
        let name = if storage.scratch { format!("its disk {}", device.name) } else { format!("disk {}", device.name) };
        rows.push(Some(FactRow::new(&name, disk(device), device.source.clone())));
        if storage.scratch {
            rows.push(Some(FactRow::new("its queue", queue(device), format!("{}/queue", device.source))));
            let limits: Vec<String> = device.limits.iter().map(DeviceLimit::text).collect();
            let row = || FactRow::new("its limits", limits.join(", "), "control groups");
            rows.push((!limits.is_empty()).then(row));
        }
    }
    let unknown = |reason: &String| FactRow::new("its disk", "none", "").with_note(Some(reason.clone()));
    rows.push(storage.device_unknown.as_ref().map(unknown));
    rows.into_iter().flatten().collect()
}

fn disk(device: &BlockDevice) -> String {
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
        rotational,
        device.partition.as_ref().map(|name| format!("partition {name}")),
        (!device.below.is_empty()).then(|| format!("on {}", device.below.join(" "))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
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
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The interfaces, one row each.
pub(super) fn network(interfaces: &[Interface]) -> Vec<FactRow> {
    let row = |interface: &Interface| {
        let parts = [
            Some(format!("{:?}", interface.kind).to_lowercase()),
            interface.driver.as_ref().map(|driver| format!("driver {driver}")),
            interface.bits_per_second.map(|rate| format!("{} Mbit/s", rate / 1_000_000)),
            interface.mtu_bytes.map(|size| format!("MTU {size} B")),
            interface.state.clone(),
            interface.shaper.as_ref().map(|shaper| format!("shaped by {}", Shaper::text(shaper, &interface.name))),
        ];
        let value = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        FactRow::new(&interface.name, value, interface.source.clone())
    };
    interfaces.iter().map(row).collect()
}

/// The limits, row by row.
pub(super) fn limits(limits: &Limits) -> Vec<FactRow> {
    let size = |value: &u64| bytes(*value);
    let scheduling = &limits.scheduling;
    let clamps = scheduling.clamp_low.as_ref().zip(scheduling.clamp_high.as_ref());
    let clamps = clamps.map(|(low, high)| {
        FactRow::new("utilisation clamps", format!("{} to {}", low.value, high.value), high.source.clone())
    });
    let mut rows = vec![
        FactRow::claims("hypervisor", &limits.hypervisor, Clone::clone),
        FactRow::claims("container", &limits.container, Clone::clone),
        FactRow::plain("control groups", limits.cgroup_version.as_ref()),
        FactRow::of("CPU quota", limits.cpu_quota.as_ref(), |cpus| format!("{cpus} CPUs")),
        FactRow::of("memory limit", limits.memory_bytes.as_ref(), size),
        FactRow::plain("process limit", limits.processes.as_ref()),
        FactRow::plain("CPUs of the control group", limits.group_cpus.as_ref()),
        FactRow::claims("CPUs of the affinity mask", &limits.affinity, ToString::to_string),
        FactRow::plain("scheduling policy", scheduling.policy.as_ref()),
        FactRow::plain("nice value", scheduling.nice.as_ref()),
        FactRow::plain("I/O class", scheduling.io_class.as_ref()),
        FactRow::of("timer slack", scheduling.timer_slack_ns.as_ref(), |slack| format!("{} µs", *slack as f64 / 1e3)),
        clamps,
        FactRow::plain("user", limits.user.as_ref()),
        FactRow::of("system-call filter", limits.seccomp.as_ref(), |mode| match mode {
            0 => "none".to_owned(),
            1 => "strict".to_owned(),
            _ => "filter program".to_owned(),
        }),
        FactRow::plain("no new privileges", limits.no_new_privileges.as_ref()),
        FactRow::of("capabilities", limits.capabilities.as_ref(), |names| {
            if names.is_empty() { "none".to_owned() } else { names.join(" ") }
        }),
        FactRow::plain("traced by process", limits.tracer.as_ref()),
    ];
    let restricting = limits.resources.iter().filter(|limit| limit.soft.is_some());
    rows.extend(restricting.map(|limit| {
        let hard = limit.hard.map_or_else(|| "unlimited".to_owned(), |hard| hard.to_string());
        let value = format!("{} {} (hard: {hard})", limit.soft.unwrap_or_default(), limit.unit);
        Some(FactRow::new(&format!("limit of {}", limit.name), value, limit.source.clone()))
    }));
    rows.into_iter().flatten().collect()
}
