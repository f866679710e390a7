//! Checks on what drives the clocks: frequency, counter, idle states, interrupts, power.

use super::EffectUnit::{Microseconds, Percent};
use super::{Check, View};
use crate::machine::{CPUS, FAST_CLOCKS, LogicalCpu};

/// Highest and lowest frequency of the fastest CPU that can be used.
fn range_hertz(view: &View<'_>, low: impl Fn(&LogicalCpu) -> Option<f64>) -> Option<(f64, f64)> {
    let usable = view.machine.usable_cpus();
    view.machine
        .cpu
        .logical
        .iter()
        .filter(|cpu| usable.contains(cpu.cpu))
        .filter_map(|cpu| Some((low(cpu)?, cpu.maximum_hertz?)))
        .max_by(|left, right| left.1.total_cmp(&right.1))
}

/// How much longer something takes at the low frequency of a range than at the high one, in per cent.
fn slowdown((low, high): (f64, f64)) -> f64 {
    if low > 0.0 { (high / low - 1.0).max(0.0) * 100.0 } else { 0.0 }
}

/// A governor that follows the load starts every batch at a low frequency.
pub(super) fn governor(view: &View<'_>) -> Check {
    let Some(governor) = &view.machine.kernel.governor else {
        let why = if view.machine.is_guest() {
            "the host sets the core clock"
        } else {
            "the firmware sets it, or no driver is loaded"
        };
        return Check::unknown(format!("no frequency driver is visible: {why}"));
    };
    if governor.value == "performance" {
        return Check::fine("all CPUs use the performance governor");
    }
    let worst = range_hertz(view, |cpu| cpu.minimum_hertz).map_or(100.0, slowdown);
    let spoils = "times in nanoseconds (costs in core cycles do not change)";
    let reason = "none after the clock has risen, up to the ratio of highest to lowest frequency before that";
    Check::problem(format!("frequency governor {}", governor.value))
        .spoils(spoils, (0.0, worst), Percent, reason)
        .fix(format!("echo performance | sudo tee {CPUS}/cpu*/cpufreq/scaling_governor"))
}

/// Turbo makes the frequency depend on temperature and on the neighbours.
pub(super) fn turbo(view: &View<'_>) -> Check {
    let Some(turbo) = &view.machine.kernel.turbo else {
        return Check::unknown("no file reports whether turbo (above the nominal frequency) is allowed");
    };
    if !turbo.value {
        return Check::fine("turbo is off");
    }
    let worst = range_hertz(view, |cpu| cpu.base_hertz.as_ref().map(|fact| fact.value)).map_or(40.0, slowdown);
    let spoils = "times in nanoseconds, mainly of several threads (costs in core cycles do not change)";
    let reason =
        "up to the ratio of highest to nominal frequency, depending on temperature, power and the number of busy cores";
    let off = u32::from(turbo.source.ends_with("no_turbo"));
    Check::problem("turbo is on")
        .spoils(spoils, (0.0, worst), Percent, reason)
        .fix(format!("echo {off} | sudo tee {}", turbo.source))
}

/// The counter must tick evenly, and the kernel must believe it.
pub(super) fn clock(view: &View<'_>) -> Check {
    let machine = view.machine;
    let Some(source) = &machine.kernel.clock_source else {
        return Check::unknown("the kernel's clock source cannot be read");
    };
    if !FAST_CLOCKS.contains(&source.value.as_str()) {
        let remedy = if machine.kernel.clock_sources_available.iter().any(|name| name == "tsc") {
            format!("echo tsc | sudo tee {}", source.source)
        } else {
            "find out why the kernel rejected the counter: sudo dmesg | grep -i -e tsc -e clocksource".to_owned()
        };
        let reason = "a read of this clock enters the kernel and reads a slow device";
        return Check::problem(format!("clock source {}", source.value))
            .spoils("every interval timed with the system clock", (0.3, 2.0), Microseconds, reason)
            .fix(remedy);
    }
    if machine.cpu.counter_is_invariant() {
        return Check::fine(format!("the counter is invariant and the clock source is {}", source.value));
    }
    Check::problem(format!("clock source {}, but the processor does not report an invariant counter", source.value))
        .spoils("every time", (0.0, 50.0), Percent, "the counter follows the frequency or stops in idle states")
}

/// Waking a CPU from a deep idle state takes longer than what is measured.
pub(super) fn idle(view: &View<'_>) -> Check {
    /// How long an idle CPU of a guest polls for work before it returns to the host.
    const GUEST_POLL: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";
    let kernel = &view.machine.kernel;
    let spoils = "wake-ups: context switches between CPUs, round trips, thread and process creation";
    let entered = kernel.idle_states.iter().filter(|state| !state.disabled);
    let deepest = entered.filter_map(|state| Some((state.exit_microseconds?, &state.name))).max();
    match deepest {
        Some((time, name)) if time > 1 => {
            let reason = "time to leave that state, as its driver reports";
            Check::problem(format!("idle CPUs enter states as deep as {name} ({time} µs to wake up)"))
                .spoils(spoils, (0.0, f64::from(time)), Microseconds, reason)
                .fix(format!("echo 1 | sudo tee {CPUS}/cpu*/cpuidle/state[1-9]*/disable"))
        }
        _ if view.machine.is_guest() => {
            let reason = "an idle CPU of a guest returns to the host, which then has to schedule it again";
            let host = "on the host: sudo sh -c 'echo 200000 > /sys/module/kvm/parameters/halt_poll_ns'";
            // Present where the guest itself can poll before it gives its CPU back.
            let remedy = if view.tree.exists(GUEST_POLL) {
                format!("in this guest: echo 200000 | sudo tee {GUEST_POLL}, or {host}")
            } else {
                host.to_owned()
            };
            Check::problem("idle CPUs return to the hypervisor")
                .spoils(spoils, (5.0, 50.0), Microseconds, reason)
                .fix(remedy)
        }
        Some((_, name)) => Check::fine(format!("the deepest idle state is {name}")),
        None => Check::unknown("no idle driver is visible"),
    }
}

/// The timer interrupt hits every batch that is longer than its period.
pub(super) fn tick(view: &View<'_>) -> Check {
    let kernel = &view.machine.kernel;
    if let Some(tickless) = &kernel.tickless {
        return Check::fine(format!("CPUs {} run without timer interrupts. Choose one with --cpu", tickless.value));
    }
    if kernel.release.is_none() {
        return Check::unknown("the kernel is unknown");
    }
    // One interrupt costs 1 to 5 µs with the cache lines that it takes away.
    let (least, most) = kernel.tick_hertz.as_ref().map_or((100, 1000), |fact| (fact.value, fact.value));
    let range = (f64::from(least) * 1e-6 * 100.0, f64::from(most) * 5e-6 * 100.0);
    let reason = "1 to 5 µs for each interrupt, at the kernel's timer rate";
    Check::fine("every CPU has timer interrupts").spoils("batches with a timer interrupt", range, Percent, reason)
}

/// A battery makes the firmware lower the frequencies.
pub(super) fn power(view: &View<'_>) -> Check {
    const SUPPLIES: &str = "/sys/class/power_supply";
    let tree = &view.tree;
    let names = tree.names(SUPPLIES);
    let text = |name: &str, file: &str| tree.trimmed(&format!("{SUPPLIES}/{name}/{file}")).unwrap_or_default();
    // The battery of a mouse or a keyboard is a supply of the scope "Device".
    let system: Vec<&String> = names.iter().filter(|name| text(name, "scope") != "Device").collect();
    let discharging =
        system.iter().find(|name| text(name, "type") == "Battery" && text(name, "status") == "Discharging");
    match discharging {
        Some(name) => {
            let reason = "on battery the firmware halves the frequencies, and lowers them more when the charge is low";
            Check::problem(format!("running on battery {name}"))
                .spoils("all times", (0.0, 100.0), Percent, reason)
                .fix("connect the machine to mains power")
        }
        None if system.is_empty() => Check::fine("no battery"),
        None => Check::fine("not running on battery"),
    }
}
