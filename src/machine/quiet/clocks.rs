//! Checks on what drives the clocks: frequency, counter, idle states, interrupts, power.

use super::{Effect, EffectUnit, Finding, View};

const CPUS: &str = "/sys/devices/system/cpu";

/// Highest and lowest frequency of the fastest CPU that can be used.
fn range_hertz(view: &View<'_>, low: impl Fn(&crate::machine::LogicalCpu) -> Option<f64>) -> Option<(f64, f64)> {
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
pub(super) fn governor(view: &View<'_>) -> Finding {
    let kernel = &view.machine.kernel;
    let Some(governor) = &kernel.governor else {
        let why = if view.machine.is_guest() {
            "the host decides about the core clock"
        } else {
            "the firmware decides, or no driver"
        };
        return Finding::Unknown(format!("no frequency driver is visible: {why}"));
    };
    if governor.value == "performance" {
        return Finding::Fine("all CPUs run under the performance governor".to_owned());
    }
    let worst = range_hertz(view, |cpu| cpu.minimum_hertz).map_or(100.0, slowdown);
    let effect = Effect::percent(
        "times in nanoseconds; costs in core cycles are not touched",
        (0.0, worst),
        "from nothing once the clock is up, to highest by lowest frequency while it is not",
    );
    let remedy = format!("echo performance | sudo tee {CPUS}/cpu*/cpufreq/scaling_governor");
    Finding::Problem(format!("frequency governor {}", governor.value), Some(effect), Some(remedy))
}

/// Turbo makes the frequency depend on temperature and on the neighbours.
pub(super) fn turbo(view: &View<'_>) -> Finding {
    let Some(turbo) = &view.machine.kernel.turbo else {
        return Finding::Unknown("no file says whether frequencies above the nominal one are allowed".to_owned());
    };
    if !turbo.value {
        return Finding::Fine("no frequency above the nominal one is allowed".to_owned());
    }
    let effect = Effect::percent(
        "times in nanoseconds, of several threads most of all; costs in core cycles are not touched",
        (0.0, range_hertz(view, |cpu| cpu.base_hertz.as_ref().map(|fact| fact.value)).map_or(40.0, slowdown)),
        "highest by nominal frequency; temperature, power and the number of busy cores decide where in between",
    );
    let remedy = if turbo.source.ends_with("no_turbo") {
        format!("echo 1 | sudo tee {}", turbo.source)
    } else {
        format!("echo 0 | sudo tee {}", turbo.source)
    };
    Finding::Problem("turbo is on".to_owned(), Some(effect), Some(remedy))
}

/// Clock sources that programs read without entering the kernel.
const FAST_CLOCKS: &[&str] = &["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];

/// The counter must tick evenly, and the kernel must believe it.
pub(super) fn clock(view: &View<'_>) -> Finding {
    let machine = view.machine;
    let Some(source) = &machine.kernel.clock_source else {
        return Finding::Unknown("the kernel's clock source cannot be read".to_owned());
    };
    if !FAST_CLOCKS.contains(&source.value.as_str()) {
        let effect = Effect::new(
            "every interval that is timed with the system clock",
            (0.3, 2.0),
            EffectUnit::Microseconds,
            "reading this clock enters the kernel, and reads a slow device",
        );
        let available = machine.kernel.clock_sources_available.iter().any(|name| name == "tsc");
        let remedy = if available {
            format!("echo tsc | sudo tee {}", source.source)
        } else {
            "find out why the kernel gave up the counter: sudo dmesg | grep -i -e tsc -e clocksource".to_owned()
        };
        return Finding::Problem(format!("clock source {}", source.value), Some(effect), Some(remedy));
    }
    if machine.cpu.counter_is_invariant() {
        return Finding::Fine(format!("the counter is invariant and the clock source is {}", source.value));
    }
    let effect =
        Effect::percent("every time", (0.0, 50.0), "the counter follows the frequency, or stops in idle states");
    let detail = format!("clock source {}, but the processor does not promise an invariant counter", source.value);
    Finding::Problem(detail, Some(effect), None)
}

/// Waking a CPU from a deep idle state takes longer than what is measured.
pub(super) fn idle(view: &View<'_>) -> Finding {
    let kernel = &view.machine.kernel;
    let spoils = "wake-ups: context switches between CPUs, round trips, thread and process creation";
    let entered = kernel.idle_states.iter().filter(|state| !state.disabled);
    let deepest = entered.filter_map(|state| Some((state.exit_microseconds?, &state.name))).max();
    match deepest {
        Some((time, name)) if time > 1 => {
            let effect = Effect::new(
                spoils,
                (0.0, f64::from(time)),
                EffectUnit::Microseconds,
                "time to leave that state, by its driver",
            );
            let remedy =
                format!("for file in {CPUS}/cpu*/cpuidle/state[1-9]*/disable; do echo 1 | sudo tee $file; done");
            Finding::Problem(
                format!("idle CPUs go as deep as {name} ({time} µs to wake up)"),
                Some(effect),
                Some(remedy),
            )
        }
        _ if view.machine.is_guest() => {
            let reason = "an idle CPU of a guest gives itself back to the host, which has to schedule it again";
            let effect = Effect::new(spoils, (5.0, 50.0), EffectUnit::Microseconds, reason);
            let remedy = "on the host: sudo sh -c 'echo 200000 > /sys/module/kvm/parameters/halt_poll_ns'".to_owned();
            Finding::Problem("idle CPUs go back to the hypervisor".to_owned(), Some(effect), Some(remedy))
        }
        Some((_, name)) => Finding::Fine(format!("the deepest idle state is {name}")),
        None => Finding::Unknown("no idle driver is visible".to_owned()),
    }
}

/// The timer interrupt hits every batch that is longer than its period.
pub(super) fn tick(view: &View<'_>) -> Finding {
    let kernel = &view.machine.kernel;
    if let Some(tickless) = &kernel.tickless {
        return Finding::Fine(format!("CPUs {} run without timer interrupts: choose one with --cpu", tickless.value));
    }
    if kernel.release.is_none() {
        return Finding::Unknown("nothing is known of the kernel".to_owned());
    }
    // One interrupt costs 1 to 5 µs with the cache lines that it takes away.
    let rate =
        kernel.tick_hertz.as_ref().map_or((100.0, 1000.0), |fact| (f64::from(fact.value), f64::from(fact.value)));
    let effect = Effect::percent(
        "batches that a timer interrupt hits",
        (rate.0 * 1e-6 * 100.0, rate.1 * 5e-6 * 100.0),
        "1 to 5 µs for each interrupt, at the kernel's rate of them",
    );
    Finding::Normal("no CPU is free of timer interrupts".to_owned(), effect)
}

/// A battery makes the firmware lower the frequencies.
pub(super) fn power(view: &View<'_>) -> Finding {
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
            let effect = Effect::percent(
                "all times",
                (0.0, 100.0),
                "firmware halves frequencies on battery, more when it is low",
            );
            let remedy = "plug the machine in".to_owned();
            Finding::Problem(format!("running on battery {name}"), Some(effect), Some(remedy))
        }
        None if system.is_empty() => Finding::Fine("no battery".to_owned()),
        None => Finding::Fine("not running on battery".to_owned()),
    }
}
