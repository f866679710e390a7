//! Checks on who else uses the machine, and on what this process is allowed of it.

use procfs_core::{FromRead, LoadAverage};

use super::{Effect, EffectUnit, Finding, View};

/// A thread on the other half of the core takes execution units and cache.
pub(super) fn siblings(view: &View<'_>) -> Finding {
    let machine = view.machine;
    let known: Vec<_> = machine.cpu.logical.iter().filter(|cpu| !cpu.siblings.is_empty()).collect();
    if known.is_empty() {
        return Finding::Unknown("the topology is unknown".to_owned());
    }
    let paired = known.iter().filter(|cpu| cpu.siblings.len() > 1).count();
    if paired == 0 {
        let hidden =
            if machine.is_guest() { " (a guest does not see whether the host's cores are shared)" } else { "" };
        return Finding::Fine(format!("no two CPUs share a core{hidden}"));
    }
    let effect = Effect::percent(
        "throughput, bandwidth and cache latency while the core's other thread is busy",
        (0.0, 100.0),
        "two threads share execution units, buffers and private caches. Chains of dependent operations suffer least",
    );
    let remedy = "echo off | sudo tee /sys/devices/system/cpu/smt/control".to_owned();
    Finding::Problem(
        format!("{paired} of {} CPUs share their core with another CPU", known.len()),
        Some(effect),
        Some(remedy),
    )
}

/// Time that the hypervisor gave to something else although this guest had work.
pub(super) fn steal(view: &View<'_>) -> Finding {
    /// Below this part nothing can be distinguished from the grain of the kernel's accounting.
    const NOTICEABLE: f64 = 0.001;
    let Some(sample) = &view.sample else {
        return Finding::Unknown("/proc/stat cannot be read".to_owned());
    };
    let Some(stolen) = sample.total.stolen() else {
        return Finding::Unknown("no CPU time is recorded in /proc/stat".to_owned());
    };
    let percent = stolen * 100.0;
    if stolen < NOTICEABLE {
        return Finding::Fine(format!("{percent:.2} % of the requested CPU time was stolen since boot"));
    }
    let effect = Effect::percent(
        "every time, in bursts",
        (percent, percent * 10.0),
        "the average since boot. The host takes slices of a millisecond or more, so single batches lose far more",
    );
    let remedy = "use a machine with dedicated CPUs, or measure at another time".to_owned();
    Finding::Problem(
        format!("{percent:.2} % of the requested CPU time was stolen since boot"),
        Some(effect),
        Some(remedy),
    )
}

/// Tasks that run now, which the load average only shows a minute later, and waits for disks are none.
pub(super) fn load(view: &View<'_>) -> Finding {
    /// A quarter of the CPUs busy still leaves idle ones to every experiment but those that use all of them.
    const BUSY_PART: f64 = 0.25;
    let Some(sample) = &view.sample else {
        return Finding::Unknown("/proc/stat cannot be read".to_owned());
    };
    let average = view.tree.bytes("/proc/loadavg").and_then(|bytes| LoadAverage::from_read(bytes.as_slice()).ok());
    let average =
        average.map(|load| format!(", load average {} {} {}", load.one, load.five, load.fifteen)).unwrap_or_default();
    // The reader itself is running while it reads.
    let others = f64::from(sample.running.saturating_sub(1));
    let cpus = view.machine.cpu.logical.len().max(1) as f64;
    let tasks = if sample.running == 2 { "1 other task is".to_owned() } else { format!("{others} other tasks are") };
    let detail = format!("{tasks} running on {cpus} CPUs{average}");
    if others <= cpus * BUSY_PART {
        return Finding::Fine(detail);
    }
    let effect = Effect::percent(
        "every time, mainly with several threads and in bandwidth",
        (0.0, others / cpus * 100.0),
        "the fair share of the other tasks, where the scheduler cannot place them on other CPUs",
    );
    Finding::Problem(detail, Some(effect), Some("find these tasks and stop them: top -b -n 1 | head -20".to_owned()))
}

/// The part of the time in which some task waited for a CPU.
pub(super) fn pressure(view: &View<'_>) -> Finding {
    const FILE: &str = "/proc/pressure/cpu";
    let Some(waiting) = view.tree.text(FILE).and_then(|text| waiting_percent(&text)) else {
        return Finding::Unknown(format!("{FILE} cannot be read (kernel without PSI, or psi=0)"));
    };
    let detail = format!("tasks waited for a CPU in {waiting:.1} % of the last 10 s");
    if waiting < 1.0 {
        return Finding::Fine(detail);
    }
    let effect = Effect::percent("every time", (0.0, waiting), "a batch takes longer by the time that it waits");
    Finding::Problem(detail, Some(effect), Some("find these tasks and stop them: top -b -n 1 | head -20".to_owned()))
}

/// The last ten seconds' average of the `some` line. Kernels before 5.13 write no `full` line for CPUs, so a reader that
/// wants both fails there.
fn waiting_percent(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let average = line.split_whitespace().find_map(|field| field.strip_prefix("avg10="))?;
    average.parse().ok().filter(|share| (0.0..=100.0).contains(share))
}

/// A quota stops all threads of the group for the rest of its period.
pub(super) fn quota(view: &View<'_>) -> Finding {
    let machine = view.machine;
    let Some(quota) = &machine.limits.cpu_quota else {
        return match machine.limits.cgroup_version {
            Some(_) => Finding::Fine("the control groups set no CPU quota".to_owned()),
            None => Finding::Unknown("no control group is visible".to_owned()),
        };
    };
    let usable = machine.usable_cpus().len() as f64;
    let detail = format!("the quota allows {} CPUs of time on {usable} CPUs", quota.value);
    if usable > 0.0 && quota.value >= usable {
        return Finding::Fine(detail);
    }
    let worst =
        if quota.value < 1.0 { (1.0 / quota.value - 1.0) * 100.0 } else { (usable / quota.value - 1.0) * 100.0 };
    let spoils = if quota.value < 1.0 { "every time" } else { "times with more threads than the quota allows" };
    let effect =
        Effect::percent(spoils, (0.0, worst), "when the quota is used up, all threads stop until the period ends");
    let value = if quota.source.ends_with("cpu.max") { "max" } else { "-1" };
    let remedy = format!("outside the container: echo {value} | sudo tee {}", quota.source);
    Finding::Problem(detail, Some(effect), Some(remedy))
}

/// CPUs that exist and may not be used.
pub(super) fn affinity(view: &View<'_>) -> Finding {
    let machine = view.machine;
    let (online, usable) = (machine.cpu.online(), machine.usable_cpus());
    if machine.limits.affinity.is_empty() {
        return Finding::Unknown("the affinity mask cannot be read".to_owned());
    }
    if let Some(list) = &machine.cpu.virtual_online {
        let detail =
            format!("CPUs {usable} are allowed. {} ({}) is virtual and gives no real numbers", list.source, list.value);
        return Finding::Fine(detail);
    }
    if usable.len() >= online.len() {
        return Finding::Fine(format!("all CPUs ({usable}) are allowed"));
    }
    let detail =
        format!("only CPUs {usable} of {online} are allowed, so larger placements and thread counts are skipped");
    let remedy = format!("taskset --cpu-list {online} sysdyno run (within the limits of the control group)");
    Finding::Problem(detail, None, Some(remedy))
}

/// Pages that come back from disk.
pub(super) fn swap(view: &View<'_>) -> Finding {
    let memory = &view.machine.memory;
    match (&memory.swap_total_bytes, &memory.swap_used_bytes) {
        (Some(total), _) if total.value == 0 => Finding::Fine("no swap".to_owned()),
        (Some(_), Some(used)) if used.value == 0 => Finding::Fine("swap exists and is unused".to_owned()),
        (Some(_), Some(used)) => {
            let effect = Effect::new(
                "memory results, for each page that was swapped out",
                (50.0, 10_000.0),
                EffectUnit::Microseconds,
                "a read from the swap device, from solid-state (fast) to a rotating disk (slow)",
            );
            let detail = format!("{} of swap are in use", crate::machine::wording::bytes(used.value));
            Finding::Problem(detail, Some(effect), Some("sudo swapoff -a".to_owned()))
        }
        _ => Finding::Unknown("/proc/meminfo does not report swap".to_owned()),
    }
}

/// What takes memory back although it is not short.
pub(super) fn reclaim(view: &View<'_>) -> Finding {
    let found = &view.machine.memory.reclaimers;
    if found.is_empty() {
        return if view.tree.exists("/sys/kernel/mm") {
            Finding::Fine("no early reclaim of memory is visible".to_owned())
        } else {
            Finding::Unknown("/sys/kernel/mm cannot be read".to_owned())
        };
    }
    let all: Vec<String> = found.iter().map(|fact| format!("{} ({})", fact.value, fact.source)).collect();
    let effect = Effect::percent(
        "the size of the whole file cache (--full-cache), and files that should be warm",
        (0.0, 100.0),
        "the kernel drops cached data that is not read again for some time, even while memory is free",
    );
    Finding::Problem(
        format!("the kernel reclaims memory before memory is short: {}", all.join("; ")),
        Some(effect),
        Some(
            "stop the reclaim during the measurement: echo off | sudo tee /sys/kernel/mm/damon/admin/kdamonds/*/state"
                .to_owned(),
        ),
    )
}

/// The kernel unmaps pages to see who uses them.
pub(super) fn numa_balancing(view: &View<'_>) -> Finding {
    const SWITCH: &str = "/proc/sys/kernel/numa_balancing";
    match (view.machine.memory.nodes.len(), view.tree.parsed::<u32>(SWITCH)) {
        (0, _) => Finding::Unknown("the NUMA nodes are unknown".to_owned()),
        (1, _) => Finding::Fine("one NUMA node".to_owned()),
        (_, None) => Finding::Unknown(format!("{SWITCH} cannot be read")),
        (nodes, Some(switch)) if switch.value == 0 => {
            Finding::Fine(format!("{nodes} NUMA nodes, no automatic balancing"))
        }
        (nodes, Some(_)) => {
            let effect = Effect::percent(
                "memory latency and bandwidth",
                (0.0, 10.0),
                "faults on pages that the kernel unmaps to watch them, and their migration",
            );
            let remedy = format!("echo 0 | sudo tee {SWITCH}");
            Finding::Problem(format!("automatic balancing between {nodes} NUMA nodes"), Some(effect), Some(remedy))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_read_with_and_without_the_second_line() {
        let some = "some avg10=4.50 avg60=3.10 avg300=2.05 total=123456\n";
        assert_eq!(waiting_percent(some), Some(4.5));
        assert_eq!(waiting_percent(&format!("{some}full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")), Some(4.5));
        for text in ["", "some\n", "some avg10=x", "some avg10=NaN", "some avg10=101"] {
            assert_eq!(waiting_percent(text), None, "{text}");
        }
    }
}
