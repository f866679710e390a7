//! Checks on who else uses the machine, and on what this process is allowed of it.

use procfs_core::{FromRead, LoadAverage};

use super::EffectUnit::{Microseconds, Percent};
use super::{Check, View};
use crate::machine::scheduling::{FULL, USUAL_POLICY, USUAL_SLACK};
use crate::machine::wording::bytes;

/// What to do about tasks that take CPUs.
const STOP_TASKS: &str = "find these tasks and stop them: top -b -n 1 | head -20";

/// A thread on the other half of the core takes execution units and cache.
pub(super) fn siblings(view: &View<'_>) -> Check {
    let machine = view.machine;
    let known: Vec<_> = machine.cpu.logical.iter().filter(|cpu| !cpu.siblings.is_empty()).collect();
    if known.is_empty() {
        return Check::unknown("the topology is unknown");
    }
    let paired = known.iter().filter(|cpu| cpu.siblings.len() > 1).count();
    if paired == 0 {
        let hidden =
            if machine.is_guest() { " (a guest does not see whether the host's cores are shared)" } else { "" };
        return Check::fine(format!("no two CPUs share a core{hidden}"));
    }
    let spoils = "throughput, bandwidth and cache latency while the core's other thread is busy";
    let reason =
        "two threads share execution units, buffers and private caches. Chains of dependent operations suffer least";
    Check::problem(format!("{paired} of {} CPUs share their core with another CPU", known.len()))
        .spoils(spoils, (0.0, 100.0), Percent, reason)
        .fix("echo off | sudo tee /sys/devices/system/cpu/smt/control")
}

/// Time that the hypervisor gave to something else although this guest had work.
pub(super) fn steal(view: &View<'_>) -> Check {
    /// Below this part nothing can be distinguished from the grain of the kernel's accounting.
    const NOTICEABLE: f64 = 0.001;
    let Some(sample) = &view.sample else { return Check::unknown("/proc/stat cannot be read") };
    let Some(stolen) = sample.total.stolen() else {
        return Check::unknown("no CPU time is recorded in /proc/stat");
    };
    let percent = stolen * 100.0;
    let detail = format!("{percent:.2} % of the requested CPU time was stolen since boot");
    if stolen < NOTICEABLE {
        return Check::fine(detail);
    }
    let reason =
        "the average since boot. The host takes slices of a millisecond or more, so single batches lose far more";
    Check::problem(detail)
        .spoils("every time, in bursts", (percent, percent * 10.0), Percent, reason)
        .fix("use a machine with dedicated CPUs, or measure at another time")
}

/// Tasks that run now, which the load average only shows a minute later, and waits for disks are none.
pub(super) fn load(view: &View<'_>) -> Check {
    /// A quarter of the CPUs busy still leaves idle ones to every experiment but those that use all of them.
    const BUSY_PART: f64 = 0.25;
    let Some(sample) = &view.sample else { return Check::unknown("/proc/stat cannot be read") };
    let average = view.tree.bytes("/proc/loadavg").and_then(|bytes| LoadAverage::from_read(bytes.as_slice()).ok());
    let average =
        average.map(|load| format!(", load average {} {} {}", load.one, load.five, load.fifteen)).unwrap_or_default();
    // The reader itself is running while it reads.
    let others = f64::from(sample.running.saturating_sub(1));
    let cpus = view.machine.cpu.logical.len().max(1) as f64;
    let tasks = if sample.running == 2 { "1 other task is".to_owned() } else { format!("{others} other tasks are") };
    let detail = format!("{tasks} running on {cpus} CPUs{average}");
    if others <= cpus * BUSY_PART {
        return Check::fine(detail);
    }
    let reason = "the fair share of the other tasks, where the scheduler cannot place them on other CPUs";
    let spoils = "every time, mainly with several threads and in bandwidth";
    Check::problem(detail).spoils(spoils, (0.0, others / cpus * 100.0), Percent, reason).fix(STOP_TASKS)
}

/// The part of the time in which some task waited for a CPU.
pub(super) fn pressure(view: &View<'_>) -> Check {
    const FILE: &str = "/proc/pressure/cpu";
    let Some(waiting) = view.tree.text(FILE).and_then(|text| waiting_percent(&text)) else {
        return Check::unknown(format!("{FILE} cannot be read (kernel without PSI, or psi=0)"));
    };
    let detail = format!("tasks waited for a CPU in {waiting:.1} % of the last 10 s");
    if waiting < 1.0 {
        return Check::fine(detail);
    }
    let reason = "a batch takes longer by the time that it waits";
    Check::problem(detail).spoils("every time", (0.0, waiting), Percent, reason).fix(STOP_TASKS)
}

/// The last ten seconds' average of the `some` line. Kernels before 5.13 write no `full` line for CPUs, so a reader that
/// wants both fails there.
fn waiting_percent(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let average = line.split_whitespace().find_map(|field| field.strip_prefix("avg10="))?;
    average.parse().ok().filter(|share| (0.0..=100.0).contains(share))
}

/// A quota stops all threads of the group for the rest of its period.
pub(super) fn quota(view: &View<'_>) -> Check {
    let machine = view.machine;
    let Some(quota) = &machine.limits.cpu_quota else {
        return match machine.limits.cgroup_version {
            Some(_) => Check::fine("the control groups set no CPU quota"),
            None => Check::unknown("no control group is visible"),
        };
    };
    let usable = machine.usable_cpus().len() as f64;
    let detail = format!("the quota allows {} CPUs of time on {usable} CPUs", quota.value);
    if usable > 0.0 && quota.value >= usable {
        return Check::fine(detail);
    }
    let (spoils, wanted) =
        if quota.value < 1.0 { ("every time", 1.0) } else { ("times with more threads than the quota allows", usable) };
    let reason = "when the quota is used up, all threads stop until the period ends";
    let value = if quota.source.ends_with("cpu.max") { "max" } else { "-1" };
    Check::problem(detail)
        .spoils(spoils, (0.0, (wanted / quota.value - 1.0) * 100.0), Percent, reason)
        .fix(format!("outside the container: echo {value} | sudo tee {}", quota.source))
}

/// CPUs that exist and may not be used.
pub(super) fn affinity(view: &View<'_>) -> Check {
    let machine = view.machine;
    let (online, usable) = (machine.cpu.online(), machine.usable_cpus());
    if machine.limits.affinity.is_empty() {
        return Check::unknown("the affinity mask cannot be read");
    }
    if let Some(list) = &machine.cpu.virtual_online {
        let virtual_list = format!("{} ({}) is virtual and gives no real numbers", list.source, list.value);
        return Check::fine(format!("CPUs {usable} are allowed. {virtual_list}"));
    }
    if usable.len() >= online.len() {
        return Check::fine(format!("all CPUs ({usable}) are allowed"));
    }
    Check::problem(format!(
        "only CPUs {usable} of {online} are allowed, so larger placements and thread counts are skipped"
    ))
    .fix(format!("taskset --cpu-list {online} sysdyno run (within the limits of the control group)"))
}

/// Policy, priorities, timer slack and clamps that a shell or a service manager set.
pub(super) fn priority(view: &View<'_>) -> Check {
    let found = &view.machine.limits.scheduling;
    let Some(policy) = &found.policy else {
        return Check::unknown("/proc/self/stat does not report the scheduling policy");
    };
    let nice = found.nice.as_ref().map_or(0, |nice| nice.value);
    let slack = found.timer_slack_ns.as_ref().map_or(USUAL_SLACK, |slack| slack.value);
    let low = found.clamp_low.as_ref().map_or(0, |clamp| clamp.value);
    let high = found.clamp_high.as_ref().map_or(FULL, |clamp| clamp.value);
    let io_class = found.io_class.as_ref().map_or("none", |class| class.value.as_str());
    let late = slack as f64 / 1e3;
    let slower = (f64::from(FULL) / f64::from(high.max(1)) - 1.0) * 100.0;
    let settings = [
        (
            policy.value != USUAL_POLICY,
            format!("policy {}", policy.value),
            ("context switches and wake-ups", (0.0, 100.0), Percent),
            "the scheduler treats wake-ups of this policy in another way, and other tasks go first or wait",
        ),
        (
            nice != 0,
            format!("nice value {nice}"),
            ("every time", (0.0, share_lost(nice)), Percent),
            "each step of the nice value is a quarter more or less of the CPU, while another task wants it",
        ),
        (
            !["none", "best-effort 4"].contains(&io_class),
            format!("I/O class {io_class}"),
            ("file results", (0.0, 100.0), Percent),
            "the scheduler of the device lets other requests go first or wait",
        ),
        (
            slack != USUAL_SLACK,
            format!("timer slack {late} µs"),
            ("waits with a time limit", (0.0, late), Microseconds),
            "timers fire this much later at most",
        ),
        (
            (low, high) != (0, FULL),
            format!("utilisation clamps {low} to {high}"),
            ("times in nanoseconds (costs in core cycles do not change)", (0.0, slower), Percent),
            "the frequency governor believes in another load than there is",
        ),
    ];
    let unusual: Vec<_> = settings.into_iter().filter(|(is_unusual, ..)| *is_unusual).collect();
    let Some(&(.., (spoils, range, unit), reason)) = unusual.first() else {
        return Check::fine(format!("policy {}, nice value {nice}", policy.value));
    };
    let named: Vec<&str> = unusual.iter().map(|(_, name, ..)| name.as_str()).collect();
    Check::problem(named.join(", "))
        .spoils(spoils, range, unit, reason)
        .fix("start sysdyno from a shell or service that sets none of these")
}

/// How much longer a task takes next to one of the usual nice value, in per cent, compared with equal shares.
fn share_lost(nice: i32) -> f64 {
    const STEP: f64 = 1.25;
    (STEP.powi(nice.max(0)) - 1.0) * 50.0
}

/// Pages that come back from disk.
pub(super) fn swap(view: &View<'_>) -> Check {
    let memory = &view.machine.memory;
    match (&memory.swap_total_bytes, &memory.swap_used_bytes) {
        (Some(total), _) if total.value == 0 => Check::fine("no swap"),
        (Some(_), Some(used)) if used.value == 0 => Check::fine("swap exists and is unused"),
        (Some(_), Some(used)) => {
            let spoils = "memory results, for each page that was swapped out";
            let reason = "a read from the swap device, from solid-state (fast) to a rotating disk (slow)";
            Check::problem(format!("{} of swap are in use", bytes(used.value)))
                .spoils(spoils, (50.0, 10_000.0), Microseconds, reason)
                .fix("sudo swapoff -a")
        }
        _ => Check::unknown("/proc/meminfo does not report swap"),
    }
}

/// What takes memory back although it is not short.
pub(super) fn reclaim(view: &View<'_>) -> Check {
    let found = &view.machine.memory.reclaimers;
    if found.is_empty() {
        return if view.tree.exists("/sys/kernel/mm") {
            Check::fine("no early reclaim of memory is visible")
        } else {
            Check::unknown("/sys/kernel/mm cannot be read")
        };
    }
    let all: Vec<String> = found.iter().map(|fact| format!("{} ({})", fact.value, fact.source)).collect();
    let spoils = "the size of the whole file cache (--full-cache), and files that should be warm";
    let reason = "the kernel drops cached data that is not read again for some time, even while memory is free";
    Check::problem(format!("the kernel reclaims memory before memory is short: {}", all.join("; ")))
        .spoils(spoils, (0.0, 100.0), Percent, reason)
        .fix("stop the reclaim during the measurement: echo off | sudo tee /sys/kernel/mm/damon/admin/kdamonds/*/state")
}

/// The kernel unmaps pages to see who uses them.
pub(super) fn numa_balancing(view: &View<'_>) -> Check {
    const SWITCH: &str = "/proc/sys/kernel/numa_balancing";
    match (view.machine.memory.nodes.len(), view.tree.parsed::<u32>(SWITCH)) {
        (0, _) => Check::unknown("the NUMA nodes are unknown"),
        (1, _) => Check::fine("one NUMA node"),
        (_, None) => Check::unknown(format!("{SWITCH} cannot be read")),
        (nodes, Some(switch)) if switch.value == 0 => {
            Check::fine(format!("{nodes} NUMA nodes, no automatic balancing"))
        }
        (nodes, Some(_)) => {
            let reason = "faults on pages that the kernel unmaps to watch them, and their migration";
            Check::problem(format!("automatic balancing between {nodes} NUMA nodes"))
                .spoils("memory latency and bandwidth", (0.0, 10.0), Percent, reason)
                .fix(format!("echo 0 | sudo tee {SWITCH}"))
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
