//! # Question
//!
//! How much later than requested does a sleep end? How much of that does the timer slack cause?
//!
//! # Method
//!
//! One task sleeps for a fixed time (clock_nanosleep(2) of the standard library), again and again, and the clock is read directly before
//! and after. The **oversleep** is the time from call to return less the requested time. The requested times are 1 µs, 100 µs and
//! 1 ms. They alternate in random order, in bursts of ten, and the first sleep of a burst does not count. The CPU has nothing else to do.
//! The result is the median over launches of a quantile (p50, p99).
//!
//! With **load=busy**, a thread of the same process computes on every CPU, also on that of the sleeping task, at the same priority. The
//! kernel then chooses between the two when a sleep ends. Without the label, these threads sleep.
//!
//! - **slack=default**: the kernel may delay the timer by the timer slack of the task, which is 50 µs for most.
//! - **slack=least**: the task sets its timer slack to 1 ns (prctl(2), PR_SET_TIMERSLACK).
//!
//! # Prediction
//!
//! The timer slack, and then the timer interrupt, the way of the CPU out of its idle state, and the switch to the task. On a busy CPU
//! no idle state is left, but the task can wait until the time slice of the other one ends.
//!
//! # What could fool us
//!
//! - The timer slack (50 µs by default) is a large part of a short sleep. Real-time tasks have none.
//! - A CPU that sleeps deeper wakes up later, so long sleeps end later. In a guest, the hypervisor wakes the CPU.
//! - On a busy CPU the task may wait for its turn. A guest can wake faster there than on an idle CPU, which has left to the hypervisor.
//! - Without high-resolution timers a sleep ends at the next tick.
//! - Library functions may add a delay or sleep again until the time has passed.
//!
//! # References
//!
//! - clock_nanosleep(2), prctl(2), time(7)
//! - Linux Documentation/timers/hrtimers.rst, kernel/time/hrtimer.c
//! - McVoy & Staelin, USENIX 1996 (lat_usleep). cyclictest

use std::time::Duration;

use crate::experiments::network::{quantile_label, quantile_of_shots};
use crate::experiments::prelude::*;
use crate::machine::USUAL_SLACK;
use crate::rig::shots::{Answer, Interleaved, Shot};
use crate::rig::team::computing;
use crate::sys::{counters, process};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "os.sleep",
    title: "Sleep",
    measures: "how late sleeps of 1 µs to 1 ms end, idle and under load",
    words: &["usleep", "nanosleep", "slack", "oversleep", "wake_up"],
    method_version: 1,
    precision: Precision { target: 0.15, between: 0.08, busy: 0.08 },
    source: heading!("sleep.rs"),
    rules: RULES,
    constants: CONSTANTS,
    publishes: &[Publication::state(
        OVERSLEEP,
        Unit::Nanoseconds,
        "time from the requested end of a sleep to its return",
    )
    .in_summary_where(|labels| labels.get("quantile") == Some("p50"))],
    seconds: |_| 0.2,
    time_out: 10.0,
    predict,
    measure,
    figures,
    explain,
    ..Experiment::DEFAULT
};

const OVERSLEEP: &str = "os.sleep.oversleep";
/// Requested nanoseconds with the default timer slack.
const REQUESTED: [u32; 3] = [1_000, 100_000, 1_000_000];
/// Requested nanoseconds with the least timer slack.
const WITHOUT_SLACK: u32 = 100_000;
const QUANTILES: [f64; 2] = [0.5, 0.99];
/// Most CPUs that are loaded.
const MOST_BUSY: usize = 256;

constants! {
    /// A timer interrupt, the way out of idle and the switch to the task that slept.
    TIMER_WAKE_UP = 8_000.0 in 1_500.0 ..= 80_000.0 "ns",
        "2–10 µs on bare metal, 10–80 µs in guests, where a halted CPU has exited to the hypervisor";
    /// The same in the slowest of a hundred sleeps.
    LATE_WAKE_UP = 25_000.0 in 2_000.0 ..= 2_000_000.0 "ns", "deeper idle states, other interrupts, and other tasks of a host";
    /// A timer interrupt and a switch from a task that computes.
    BUSY_WAKE_UP = 4_000.0 in 1_000.0 ..= 40_000.0 "ns", "timer interrupt of 1–20 µs, and a switch of 1–5 µs";
    /// Waiting for a task that computes: nothing, or the rest of its time slice.
    TURN = 300_000.0 in 1.0 ..= 8_000_000.0 "ns", "Linux kernel/sched/fair.c: base slice of 0.7 to 4 ms, and the tick";
}

rules! {
    EARLY: "G8" Hard "`os.sleep.oversleep`", "no sleep ends before its time";
}

/// A kind of sleep: requested nanoseconds, timer slack, and whether every CPU computes.
type Kind = (u32, &'static str, bool);

fn labels((requested, slack, is_busy): Kind) -> Labels {
    let labels = Labels::of([("slack", slack)]).with("requested", requested);
    if is_busy { labels.with("load", "busy") } else { labels }
}

/// The sleeps with the default timer slack.
fn with_slack(is_busy: bool) -> [Kind; 3] {
    REQUESTED.map(|requested| (requested, "default", is_busy))
}

const LEAST: Kind = (WITHOUT_SLACK, "least", false);

/// All kinds.
fn kinds() -> impl Iterator<Item = Kind> {
    with_slack(false).into_iter().chain([LEAST]).chain(with_slack(true))
}

fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let own = by.setup.machine.limits.scheduling.timer_slack_ns.as_ref();
    let usual = own.map_or(USUAL_SLACK, |found| found.value) as f64;
    let of = |kind: Kind, probability: f64| {
        let labels = labels(kind).with("quantile", quantile_label(probability));
        let (_, slack, is_busy) = kind;
        let prediction = Prediction::of(OVERSLEEP, labels, Unit::Nanoseconds);
        let prediction = if slack == "default" {
            // Another timer may fire within the slack, and then the sleep ends, too.
            prediction.software("timer slack", (usual, usual * 0.5, usual), Basis::machine("/proc/self/timerslack_ns"))
        } else {
            prediction
        };
        if is_busy {
            let prediction = prediction.hardware("timer interrupt", BUSY_WAKE_UP.times(1.0), BUSY_WAKE_UP.basis());
            return prediction.software("wait for the other task and switch", TURN.times(1.0), TURN.basis());
        }
        let late = if probability > 0.5 { LATE_WAKE_UP } else { TIMER_WAKE_UP };
        prediction.hardware("timer interrupt, idle exit and switch", late.times(1.0), late.basis())
    };
    kinds().flat_map(|kind| QUANTILES.map(|probability| of(kind, probability))).collect()
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let volley = Interleaved {
        name: "sleep",
        shots: 30,
        burst: 10,
        lead: 1,
        gap: None,
        within: Duration::from_millis(400),
        looks: true,
    };
    let shot = |kind: Kind| Shot {
        labels: labels(kind),
        across: false,
        fire: Box::new(move || {
            std::thread::sleep(Duration::from_nanos(u64::from(kind.0)));
            Ok(Answer::Came)
        }),
    };
    rig.shoot(&mut with_slack(false).map(shot), &volley)?;
    if rig.setup().allowed.len() > MOST_BUSY {
        rig.unavailable(OVERSLEEP, &Labels::of([("load", "busy")]), &format!("there are more than {MOST_BUSY} CPUs"));
    } else {
        under_load(rig, &mut with_slack(true).map(shot), &volley)?;
    }
    if let Err(error) = process::least_timer_slack() {
        rig.unavailable(OVERSLEEP, &labels(LEAST), &error);
        return Ok(());
    }
    rig.shoot(&mut [shot(LEAST)], &volley)
}

/// Shoots while a thread computes on every CPU. The launch itself causes the wait for its CPU.
fn under_load(rig: &mut Rig<'_>, shots: &mut [Shot<'_>], volley: &Interleaved) -> Result<(), Problem> {
    let hertz = rig.ticks(1e9);
    let refused = |reason: String| Problem::new(format!("cannot load all CPUs: {reason}"));
    let waited = counters::thread_run_delay();
    let mut team = computing(&rig.setup().allowed, rig.source()?).map_err(refused)?;
    team.begin(0, hertz).map_err(refused)?;
    let shot = rig.shoot(shots, &Interleaved { looks: false, ..*volley });
    team.end(hertz).map_err(refused)?;
    let own = counters::thread_run_delay().zip(waited).map_or(0.0, |(now, before)| now - before);
    rig.excuse_delay(own);
    shot
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    for kind in kinds() {
        let series = labels(kind);
        for probability in QUANTILES {
            let published = series.clone().with("quantile", quantile_label(probability));
            let Some(whole) = quantile_of_shots(study, "sleep", &series, probability) else { continue };
            let asked = f64::from(kind.0);
            let late = whole.less(asked, [asked; 2], &format!("{}, less the requested time", whole.estimator));
            let early = Gate::at_least(&EARLY, late.named("{}"), 0.0).because("the kernel never ends a sleep early");
            findings.publish(study, Figure::shots(OVERSLEEP, published, &late, None).gates([early]));
        }
    }
}

fn explain(_: &Study<'_>, findings: &mut Findings) {
    let late = |kind: Kind, quantile: &str| {
        let labels = labels(kind).with("quantile", quantile);
        findings.metric(OVERSLEEP, &labels).cloned()
    };
    let usual = (WITHOUT_SLACK, "default", false);
    let busy = (WITHOUT_SLACK, "default", true);
    let under_load = late(busy, "p50").zip(late(busy, "p99"));
    let (Some(usual), Some(least)) = (late(usual, "p50"), late(LEAST, "p50")) else { return };
    findings.say(format!(
        "A sleep of 100 µs ends {} late. With the least timer slack (PR_SET_TIMERSLACK) it ends {} late.",
        usual.shown(),
        least.shown()
    ));
    if let Some((half, late)) = under_load {
        findings.say(format!(
            "While all CPUs compute, the same sleep ends {} late, and one in a hundred {} or more.",
            half.shown(),
            late.shown()
        ));
    }
}
