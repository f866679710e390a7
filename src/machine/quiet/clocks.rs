//! Checks on what drives the clocks: frequency, counter, idle states, interrupts, power.

use super::{Effect, EffectUnit, Finding, View};

const CPUS: &str = "/sys/devices/system/cpu";
/// How long an idle CPU of a guest polls for work before it returns to the host.
const GUEST_POLL: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";

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
            "the host sets the core clock"
        } else {
            "the firmware sets it, or no driver is loaded"
        };
        return Finding::Unknown(format!("no frequency driver is visible: {why}"));
    };
    if governor.value == "performance" {
        return Finding::Fine("all CPUs use the performance governor".to_owned());
    }
    let worst = range_hertz(view, |cpu| cpu.minimum_hertz).map_or(100.0, slowdown);
    let effect = Effect::percent(
        "times in nanoseconds (costs in core cycles do not change)",
        (0.0, worst),
        "none after the clock has risen, up to the ratio of highest to lowest frequency before that",
    );
    let remedy = format!("echo performance | sudo tee {CPUS}/cpu*/cpufreq/scaling_governor");
    Finding::Problem(format!("frequency governor {}", governor.value), Some(effect), Some(remedy))
}

/// Turbo makes the frequency depend on temperature and on the neighbours.
pub(super) fn turbo(view: &View<'_>) -> Finding {
    let Some(turbo) = &view.machine.kernel.turbo else {
        return Finding::Unknown("no file reports whether turbo (above the nominal frequency) is allowed".to_owned());
    };
    if !turbo.value {
        return Finding::Fine("turbo is off".to_owned());
    }
    let effect = Effect::percent(
        "times in nanoseconds, mainly of several threads (costs in core cycles do not change)",
        (0.0, range_hertz(view, |cpu| cpu.base_hertz.as_ref().map(|fact| fact.value)).map_or(40.0, slowdown)),
        "up to the ratio of highest to nominal frequency, depending on temperature, power and the number of busy cores",
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
            "every interval timed with the system clock",
            (0.3, 2.0),
            EffectUnit::Microseconds,
            "a read of this clock enters the kernel and reads a slow device",
        );
        let available = machine.kernel.clock_sources_available.iter().any(|name| name == "tsc");
        let remedy = if available {
            format!("echo tsc | sudo tee {}", source.source)
        } else {
            "find out why the kernel rejected the counter: sudo dmesg | grep -i -e tsc -e clocksource".to_owned()
        };
        return Finding::Problem(format!("clock source {}", source.value), Some(effect), Some(remedy));
    }
    if machine.cpu.counter_is_invariant() {
        return Finding::Fine(format!("the counter is invariant and the clock source is {}", source.value));
    }
    let effect =
        Effect::percent("every time", (0.0, 50.0), "the counter follows the frequency or stops in idle states");
    let detail = format!("clock source {}, but the processor does not report an invariant counter", source.value);
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
                "time to leave that state, as its driver reports",
            );
            let remedy = format!("echo 1 | sudo tee {CPUS}/cpu*/cpuidle/state[1-9]*/disable");
            Finding::Problem(
                format!("idle CPUs enter states as deep as {name} ({time} µs to wake up)"),
                Some(effect),
                Some(remedy),
            )
        }
        _ if view.machine.is_guest() => {
            let reason = "an idle CPU of a guest returns to the host, which then has to schedule it again";
            let effect = Effect::new(spoils, (5.0, 50.0), EffectUnit::Microseconds, reason);
            let host = "on the host: sudo sh -c 'echo 200000 > /sys/module/kvm/parameters/halt_poll_ns'";
            // Present where the guest itself can poll before it gives its CPU back.
            let remedy = if view.tree.exists(GUEST_POLL) {
                format!("in this guest: echo 200000 | sudo tee {GUEST_POLL}, or {host}")
            } else {
                host.to_owned()
            };
            Finding::Problem("idle CPUs return to the hypervisor".to_owned(), Some(effect), Some(remedy))
        }
        Some((_, name)) => Finding::Fine(format!("the deepest idle state is {name}")),
        None => Finding::Unknown("no idle driver is visible".to_owned()),
    }
}

/// The timer interrupt hits every batch that is longer than its period.
pub(super) fn tick(view: &View<'_>) -> Finding {
    let kernel = &view.machine.kernel;
    if let Some(tickless) = &kernel.tickless {
        return Finding::Fine(format!("CPUs {} run without timer interrupts. Choose one with --cpu", tickless.value));
    }
    if kernel.release.is_none() {
        return Finding::Unknown("the kernel is unknown".to_owned());
    }
    // One interrupt costs 1 to 5 µs with the cache lines that it takes away.
    let rate =
        kernel.tick_hertz.as_ref().map_or((100.0, 1000.0), |fact| (f64::from(fact.value), f64::from(fact.value)));
    let effect = Effect::percent(
        "batches with a timer interrupt",
        (rate.0 * 1e-6 * 100.0, rate.1 * 5e-6 * 100.0),
        "1 to 5 µs for each interrupt, at the kernel's timer rate",
    );
    Finding::Normal("every CPU has timer interrupts".to_owned(), effect)
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
                "on battery the firmware halves the frequencies, and lowers them more when the charge is low",
            );
            let remedy = "connect the machine to mains power".to_owned();
            Finding::Problem(format!("running on battery {name}"), Some(effect), Some(remedy))
        }
        None if system.is_empty() => Finding::Fine("no battery".to_owned()),
        None => Finding::Fine("not running on battery".to_owned()),
    }
}
