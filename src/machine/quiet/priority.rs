//! The check on how the kernel treats this process among others.

use super::{Effect, EffectUnit, Finding, View};
use crate::machine::scheduling::{FULL, USUAL_POLICY, USUAL_SLACK};

/// Policy, priorities, timer slack and clamps that a shell or a service manager set.
pub(super) fn priority(view: &View<'_>) -> Finding {
    let found = &view.machine.limits.scheduling;
    let Some(policy) = &found.policy else {
        return Finding::Unknown("/proc/self/stat does not report the scheduling policy".to_owned());
    };
    let nice = found.nice.as_ref().map_or(0, |nice| nice.value);
    let slack = found.timer_slack_ns.as_ref().map_or(USUAL_SLACK, |slack| slack.value);
    let low = found.clamp_low.as_ref().map_or(0, |clamp| clamp.value);
    let high = found.clamp_high.as_ref().map_or(FULL, |clamp| clamp.value);
    let io_class = found.io_class.as_ref().map_or("none", |class| class.value.as_str());
    let mut unusual: Vec<(String, Effect)> = Vec::new();
    if policy.value != USUAL_POLICY {
        let reason = "the scheduler treats wake-ups of this policy in another way, and other tasks go first or wait";
        let effect = Effect::percent("context switches and wake-ups", (0.0, 100.0), reason);
        unusual.push((format!("policy {}", policy.value), effect));
    }
    if nice != 0 {
        let reason = "each step of the nice value is a quarter more or less of the CPU, while another task wants it";
        unusual.push((format!("nice value {nice}"), Effect::percent("every time", (0.0, share_lost(nice)), reason)));
    }
    if !["none", "best-effort 4"].contains(&io_class) {
        let reason = "the scheduler of the device lets other requests go first or wait";
        unusual.push((format!("I/O class {io_class}"), Effect::percent("file results", (0.0, 100.0), reason)));
    }
    if slack != USUAL_SLACK {
        let late = slack as f64 / 1e3;
        let reason = "timers fire this much later at most";
        let effect = Effect::new("waits with a time limit", (0.0, late), EffectUnit::Microseconds, reason);
        unusual.push((format!("timer slack {late} µs"), effect));
    }
    if (low, high) != (0, FULL) {
        let worst = (f64::from(FULL) / f64::from(high.max(1)) - 1.0) * 100.0;
        let reason = "the frequency governor believes in another load than there is";
        let spoils = "times in nanoseconds (costs in core cycles do not change)";
        unusual.push((format!("utilisation clamps {low} to {high}"), Effect::percent(spoils, (0.0, worst), reason)));
    }
    let Some((_, effect)) = unusual.first().cloned() else {
        return Finding::Fine(format!("policy {}, nice value {nice}", policy.value));
    };
    let named: Vec<String> = unusual.into_iter().map(|(name, _)| name).collect();
    let remedy = "start sysdyno from a shell or service that sets none of these";
    Finding::Problem(named.join(", "), Some(effect), Some(remedy.to_owned()))
}

/// How much longer a task takes next to one of the usual nice value, in per cent, compared with equal shares.
fn share_lost(nice: i32) -> f64 {
    const STEP: f64 = 1.25;
    (STEP.powi(nice.max(0)) - 1.0) * 50.0
}
