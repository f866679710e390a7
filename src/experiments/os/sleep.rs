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
//! - **slack=default**: the kernel may delay the timer by the timer slack of the task, which is 50 µs for most.
//! - **slack=least**: the task sets its timer slack to 1 ns (prctl(2), PR_SET_TIMERSLACK).
//!
//! # Prediction
//!
//! The timer slack, and then the timer interrupt, the way of the CPU out of its idle state, and the switch to the task.
//!
//! # What could fool us
//!
//! - The timer slack is most of a short sleep. Real-time tasks have none.
//! - A CPU that sleeps deeper wakes up later, so long sleeps end later. In a guest, the hypervisor wakes the CPU.
//! - On a busy CPU the task also waits for its turn. That is not measured here.
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
use crate::sys::process;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "os.sleep",
    title: "Sleep",
    measures: "how late sleeps of 1 µs to 1 ms end",
    words: &["usleep", "nanosleep", "slack", "oversleep"],
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
    seconds: |_| 0.07,
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

constants! {
    /// A timer interrupt, the way out of idle and the switch to the task that slept.
    TIMER_WAKE_UP = 8_000.0 in 1_500.0 ..= 80_000.0 "ns",
        "2–10 µs on bare metal, 10–80 µs in guests, where a halted CPU has exited to the hypervisor";
    /// The same in the slowest of a hundred sleeps.
    LATE_WAKE_UP = 25_000.0 in 2_000.0 ..= 2_000_000.0 "ns", "deeper idle states, other interrupts, and other tasks of a host";
}

rules! {
    EARLY: "G8" Hard "`os.sleep.oversleep`", "no sleep ends before its time";
}

fn labels(requested: u32, slack: &str) -> Labels {
    Labels::of([("slack", slack)]).with("requested", requested)
}

/// All series: requested nanoseconds and timer slack.
fn kinds() -> impl Iterator<Item = (u32, &'static str)> {
    REQUESTED.into_iter().map(|requested| (requested, "default")).chain([(WITHOUT_SLACK, "least")])
}

fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let own = by.setup.machine.limits.scheduling.timer_slack_ns.as_ref();
    let usual = own.map_or(USUAL_SLACK, |found| found.value) as f64;
    let of = |(requested, slack): (u32, &str), probability: f64| {
        let labels = labels(requested, slack).with("quantile", quantile_label(probability));
        let late = if probability > 0.5 { LATE_WAKE_UP } else { TIMER_WAKE_UP };
        let prediction = Prediction::of(OVERSLEEP, labels, Unit::Nanoseconds);
        let prediction = if slack == "default" {
            // Another timer may fire within the slack, and then the sleep ends, too.
            prediction.software("timer slack", (usual, usual * 0.5, usual), Basis::machine("/proc/self/timerslack_ns"))
        } else {
            prediction
        };
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
    let shot = |requested: u32, slack: &str| Shot {
        labels: labels(requested, slack),
        across: false,
        fire: Box::new(move || {
            std::thread::sleep(Duration::from_nanos(u64::from(requested)));
            Ok(Answer::Came)
        }),
    };
    rig.shoot(&mut REQUESTED.map(|requested| shot(requested, "default")), &volley)?;
    if let Err(error) = process::least_timer_slack() {
        rig.unavailable(OVERSLEEP, &labels(WITHOUT_SLACK, "least"), &error);
        return Ok(());
    }
    rig.shoot(&mut [shot(WITHOUT_SLACK, "least")], &volley)
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    for (requested, slack) in kinds() {
        let series = labels(requested, slack);
        for probability in QUANTILES {
            let published = series.clone().with("quantile", quantile_label(probability));
            let Some(whole) = quantile_of_shots(study, "sleep", &series, probability) else { continue };
            let asked = f64::from(requested);
            let late = whole.less(asked, [asked; 2], &format!("{}, less the requested time", whole.estimator));
            let early = Gate::at_least(&EARLY, late.named("{}"), 0.0).because("the kernel never ends a sleep early");
            findings.publish(study, Figure::shots(OVERSLEEP, published, &late, None).gates([early]));
        }
    }
}

fn explain(_: &Study<'_>, findings: &mut Findings) {
    let late = |requested: u32, slack: &str| {
        let labels = labels(requested, slack).with("quantile", "p50");
        findings.metric(OVERSLEEP, &labels).cloned()
    };
    let (Some(usual), Some(least)) = (late(WITHOUT_SLACK, "default"), late(WITHOUT_SLACK, "least")) else { return };
    findings.say(format!(
        "A sleep of 100 µs ends {} late. With the least timer slack (PR_SET_TIMERSLACK) it ends {} late.",
        usual.shown(),
        least.shown()
    ));
}
