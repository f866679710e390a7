//! # Question
//!
//! Does a neighbour compute on this core, for how long at a time, and for which share of the time? A core runs two
//! hardware threads, and a virtual CPU is often one of them. The other thread can then belong to another tenant, the
//! *neighbour*.
//!
//! **What a neighbour costs.** The two threads share the execution units of the core. Next to a neighbour, the
//! operations of one AMD Zen 4 guest took longer by these factors:
//!
//! - loop in registers: ×1.81
//! - system calls: ×1.20
//! - thread creation: ×1.23
//! - handoff through a pipe, same CPU: ×1.33
//! - process creation: ×1.35
//!
//! A tenant pays for one virtual CPU and gets between half of a core and all of it. Steal time does not show it. The
//! clock does not change, and the machine looks idle.
//!
//! **How to find out.** Run `sysdyno neighbours --for 1m` during your own work. It needs no privileges. The summary has
//! one line for each CPU, for example *CPU 0, neighbour 87 %, 95 % interval 79.0 to 94.7 %, longest 2.375 s*. In this
//! example, a neighbour computed on the core for 87 % of the time, and for up to 2.375 s without a pause. The values of
//! *neighbour* mean:
//!
//! - **below 5 %**: low. The loss of kernel work is below 2 %.
//! - **5 to 30 %**: noticeable. The loss of kernel work is up to about 10 %.
//! - **above 30 %**: severe. Latencies also vary with the activity of the neighbour.
//!
//! **Exclude yourself.** Two of your own virtual CPUs can share a core. `lscpu -e` shows the core of each CPU. If two
//! CPUs have the same core, keep your own tasks off one of them and watch the other. Some hosts hide the sharing, and
//! move virtual CPUs between cores. `sysdyno run cpu.sharing` shows how often another CPU of the machine is on the
//! same core. On one AMD Zen 5 guest with two CPUs, the share per run of 2 s was between 0 and 99 %.
//!
//! **What to send to the provider.** Send the command, its duration, the start and end in UTC, and the line of each
//! CPU. Ask: "Do other customers run on the sibling threads of my virtual CPUs?"
//!
//! **What to do.** Move the work to a quieter CPU or to another hour, or rent a machine with dedicated cores. A
//! dedicated core pays if the loss exceeds the price difference. Work that computes all the time loses most. Work that
//! waits for a network or a disk loses little.
//!
//! # Method
//!
//! sysdyno times a short loop, 3000 iterations in about 1 µs, repeatedly for 25 ms per launch. On most designs, the
//! loop is one subtraction and one taken branch. An iteration takes one cycle alone (AMD Zen 3: up to 10/7), and 1.5 to 2 cycles while another thread
//! computes on the core. Each measurement of 1 µs is a *look*, and counts as *alone* (0.9 to 1.04 cycles), *shared*
//! (above 1.2) or unclear.
//!
//! A multiply chain, which the other thread does not slow, converts time to cycles every 100 looks. On cores that take
//! two branches per cycle, all limits are half as high. On AMD Zen 3 an iteration alone also takes 9/8, 8/7, 5/4 or 10/7
//! cycles. Such a core shows itself by its looks. Then these values also count as alone, and shared is above 1.69.
//!
//! AMD Zen 5 has a decoder for each thread, and one thread alone uses both. There the loop has 15 no-operations of six
//! bytes, and 16 instructions count as two iterations. Next to any thread that is awake, it takes 1.6 to 2 times as
//! long. The loop of one branch takes 1.02 to 1.17 times as long there, and so cannot show a neighbour.
//!
//! A state needs two looks in a row. An interrupt of this CPU lengthens one look only, however long it takes.
//!
//! - **share**: the looks of one state, divided by all looks that are alone or shared. The result is the mean over
//!   launches, with Student's interval.
//! - **stretch**: the duration of consecutive looks of one state. The result is the median over launches of the
//!   quantiles of each launch, so that no launch decides alone. If a launch ends during a stretch, the observed part
//!   counts as its length.
//!
//! **Own CPUs.** In a guest without visible siblings, a thread on another CPU computes and sleeps in turn for 15 ms. Nine
//! looks follow each change. The other CPU is on this core if they are shared while it computes, and alone while it
//! sleeps. Neighbours that arrive or leave cause both orders equally often, so the reverse order is subtracted. The
//! label is `beside=own_cpu`. A pair of looks with the same state means another core.
//!
//! **Check.** Where the machine shows which CPUs share a core, a thread of sysdyno computes on the sibling during a
//! second series of looks. At least 90 % of these looks must be shared.
//!
//! **Other experiments.** sysdyno takes the same look before and after each batch. Results that depend on the core
//! clock come from batches that ran alone on the core. The cost next to a neighbour is published with each of them.
//! If a neighbour is there when a launch begins, the launch measures on another CPU of the same kind. With `--cpu`, it
//! stays.
//!
//! # Prediction
//!
//! The activity of other tenants is unknown. In a virtual machine sysdyno predicts that the core is alone for at least
//! 5 % of the time, elsewhere for at least half. Both are guesses and are marked as such. Next to sysdyno's own thread
//! the predicted share of shared looks is 0.9 to 1.
//!
//! # What could fool us
//!
//! - A neighbour that waits for memory or sleeps leaves the execution units free. *Shared* means that a neighbour
//!   computed.
//! - The other thread can be your own. Where siblings are visible, sysdyno keeps its other tasks off the core during
//!   looks. Elsewhere the label `beside=own_cpu` shows it, for one CPU of each placement.
//! - The same loop at another address can take twice as long. All looks use one aligned copy.
//! - A timer interrupt of this CPU disturbs one look every few milliseconds. A single look is therefore not a neighbour.
//! - A launch lasts 25 ms. Stretches of seconds appear as launches that are entirely alone or entirely shared.
//! - The host moves virtual CPUs between cores. The share describes this CPU during these minutes, not the machine.
//!
//! # References
//!
//! - Intel and AMD optimisation manuals (sharing of a core by two threads)
//! - Agner Fog, microarchitecture.pdf (taken branches)
//! - linux/Documentation/admin-guide/hw-vuln/core-scheduling.rst (tasks that may share a core)

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::evaluate::estimate::LEVEL;
use crate::experiments::prelude::*;
use crate::machine::placement::Place;
use crate::neighbour::width::Branches;
use crate::neighbour::{CoreState, Counts};
use crate::results::wording::{count, significant};
use crate::rig::companion::{Companion, Order};
use crate::statistics::distribution::student_factor;
use crate::statistics::summary::{mean, quantile, standard_deviation};
use crate::sys::{affinity, arch};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "cpu.sharing",
    title: "Neighbours on the core",
    measures: "share and duration of the use of this core by a neighbour",
    words: &["hyperthreading", "neighbours", "sibling", "smt"],
    method_version: 2,
    precision: Precision { target: 0.2, between: 0.0, busy: 0.0 },
    source: heading!("sharing.rs"),
    rules: RULES,
    publishes: &[
        Publication::state(
            SHARE,
            Unit::One,
            "share of the looks that found this thread alone on the core, or next to a neighbour",
        )
        .in_summary_where(|labels| labels.get("beside") == Some(OTHERS)),
        Publication::state(STRETCH, Unit::Nanoseconds, "time for which the core stays alone or shared"),
    ],
    seconds: |_| 0.05,
    time_out: 10.0,
    predict,
    measure,
    figures,
    explain,
    ..Experiment::DEFAULT
};

const SHARE: &str = "cpu.sharing.share";
const STRETCH: &str = "cpu.sharing.stretch";

/// How long a launch looks.
const WATCH: Duration = Duration::from_millis(25);
/// Looks between two probes of the core clock.
const LOOKS_PER_PROBE: usize = 100;
/// Stretches of a kind that a launch records at most.
const MOST_STRETCHES: usize = 2000;
/// Looks that must say something.
const TOLD_SHARE: f64 = 0.9;
/// Looks next to a spinner of our own that must say shared.
const BESIDE_SPINNER: f64 = 0.9;
/// How long a launch looks for a CPU of this machine on the same core.
const WATCH_OWN: Duration = Duration::from_millis(15);
/// Time for a CPU to halt: guests poll for work up to 200 µs before.
const HALTING: Duration = Duration::from_micros(300);
/// Looks of which the median shows whether a neighbour is on the core.
const LOOKS_AT_ONCE: usize = 9;
/// Stretches below which a quantile of theirs says nothing.
const FEWEST_STRETCHES: usize = 20;

/// Share of a launch's pairs of looks from which on the other CPU was on the core: fewer are neighbours that came or left.
const ON_CORE: f64 = 0.5;
/// Pairs of looks of a launch below which they give no share.
const FEWEST_PAIRS: f64 = 4.0;

const STATES: [(&str, CoreState); 2] = [("alone", CoreState::Alone), ("shared", CoreState::Shared)];
/// Without a spinner of our own.
const OTHERS: &str = "others";
const OWN: &str = "own_spinner";
/// Another CPU of this machine, on hosts that hide which CPUs share a core.
const OWN_CPU: &str = "own_cpu";

rules! {
    TOLD: "told" Noisy "`cpu.sharing`", "at least {} of the looks are alone or shared", share(TOLD_SHARE);
    SEEN: "known truth" Hard "`cpu.sharing.share beside=own_spinner`",
        "at least {} of the looks next to a spinning thread on the sibling are shared", share(BESIDE_SPINNER);
    CLEAR: "told" Noisy "`cpu.sharing.share beside=own_cpu`",
        "at least {} of the pairs of looks tell whether the other CPU is on the core", share(TOLD_SHARE);
    STRETCHES: "G11" Hard "`cpu.sharing.stretch`", "there are at least {} stretches", plain(FEWEST_STRETCHES as f64);
}

fn labels(beside: &str, state: &str) -> Labels {
    Labels::of([("beside", beside), ("state", state)])
}

/// A CPU that is a thread of the measured core.
fn sibling(setup: &Setup) -> Option<u32> {
    setup.places().into_iter().find(|place| place.placement == "sibling").map(|place| place.cpu)
}

/// Other CPUs that may be on the measured core although the machine shows no sibling: those of a guest.
fn hidden(setup: &Setup) -> Vec<Place> {
    if setup.machine.is_guest() && sibling(setup).is_none() { setup.places() } else { Vec::new() }
}

fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let prediction = |beside: &str, state: &str| Prediction::of(SHARE, labels(beside, state), Unit::One);
    let (range, why) = if by.setup.machine.is_guest() {
        ((0.7, 0.05, 1.0), "other tenants compute for part of the time")
    } else {
        ((0.99, 0.5, 1.0), "no other user computes on this machine")
    };
    let alone =
        prediction(OTHERS, "alone").hardware("share of time for which the core is alone", range, Basis::guess(why));
    let spinner = sibling(by.setup).map(|_| {
        let basis = Basis::guess("a spinning thread computes continuously");
        prediction(OWN, "shared").software(
            "share of time for which the sibling computes",
            (0.99, BESIDE_SPINNER, 1.0),
            basis,
        )
    });
    let own = hidden(by.setup).into_iter().map(|place| {
        let labels = own_labels(&place.placement).with("state", "alone");
        let basis = Basis::guess("a host moves virtual CPUs, or keeps two on one core");
        let what = "share of time for which the other CPU is on another core";
        Prediction::of(SHARE, labels, Unit::One).hardware(what, (0.9, 0.05, 1.0), basis)
    });
    [alone].into_iter().chain(spinner).chain(own).collect()
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    if rig.ticks_per_cycle().is_none() {
        rig.unavailable(
            SHARE,
            &Labels::none(),
            &"no chain of known latency validates, so a look cannot be converted to cycles",
        );
        return Ok(());
    }
    watch(rig, OTHERS)?;
    for place in hidden(rig.setup()) {
        watch_own(rig, &place)?;
    }
    let Some(cpu) = sibling(rig.setup()) else { return Ok(()) };
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let spinner = std::thread::spawn(move || {
        let pinned = affinity::restrict(&[cpu]);
        while pinned.is_ok() && !told.load(Ordering::Relaxed) {
            (arch::core_loop())(10_000);
        }
    });
    // Time for the thread to begin.
    std::thread::sleep(Duration::from_millis(2));
    let watched = watch(rig, OWN);
    stop.store(true, Ordering::Relaxed);
    // A spinner that panicked has also ended.
    let _ = spinner.join();
    watched
}

/// Looks for a while, and records how many said what, and the stretches.
fn watch(rig: &mut Rig<'_>, beside: &str) -> Result<(), Problem> {
    let began = Instant::now();
    let mut looks: Vec<(f64, f64)> = Vec::with_capacity(1 << 15);
    let mut per_cycle = None;
    while began.elapsed() < WATCH {
        if looks.len().is_multiple_of(LOOKS_PER_PROBE) {
            per_cycle = rig.ticks_per_cycle().or(per_cycle);
        }
        let turn = rig.turn_ticks();
        looks.push((began.elapsed().as_secs_f64() * 1e9, turn / per_cycle.unwrap_or(f64::NAN)));
    }
    let branches = Branches::of(looks.iter().map(|(_, width)| *width));
    let mut said: Vec<(f64, CoreState)> = looks.iter().map(|(at, width)| (*at, branches.state(*width))).collect();
    doubt_single_looks(&mut said);
    let counts: Counts = said.iter().map(|(_, state)| *state).collect();
    let counts = [counts.alone, counts.shared, counts.open()].map(|count| count as f64).to_vec();
    rig.record("looks", Labels::of([("beside", beside)]), Unit::One, counts)?;
    for (name, state) in STATES {
        let mut found = stretches(&said, state);
        found.truncate(MOST_STRETCHES);
        if !found.is_empty() {
            rig.record("stretch", labels(beside, name), Unit::Nanoseconds, found)?;
        }
    }
    Ok(())
}

/// Whether another CPU of this machine is on the same core: looks while a thread there computes, and while it sleeps.
fn watch_own(rig: &mut Rig<'_>, place: &Place) -> Result<(), Problem> {
    let companion = Companion::on(place.cpu)?;
    let began = Instant::now();
    let mut pairs: Vec<[f64; 2]> = Vec::new();
    while began.elapsed() < WATCH_OWN {
        let Some(per_cycle) = rig.ticks_per_cycle() else { continue };
        let mut look = || {
            let looks: Vec<f64> = (0..LOOKS_AT_ONCE).map(|_| rig.turn_ticks() / per_cycle).collect();
            median(&looks).unwrap_or(f64::NAN)
        };
        // A thread that gets no CPU says nothing of it.
        if !companion.does(Order::Compute) {
            break;
        }
        let computing = look();
        if !companion.does(Order::Sleep) {
            break;
        }
        let asked = Instant::now();
        while asked.elapsed() < HALTING {
            std::hint::spin_loop();
        }
        pairs.push([computing, look()]);
    }
    if pairs.is_empty() {
        return Ok(());
    }
    let branches = Branches::of(pairs.iter().flatten().copied());
    let said: Vec<[CoreState; 2]> = pairs.iter().map(|pair| pair.map(|width| branches.state(width))).collect();
    rig.record("pairs", own_labels(&place.placement), Unit::One, Pairs::of(&said).counts())
}

/// What pairs of looks said: one while another CPU computed, one while it slept.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Pairs {
    /// A neighbour while it computed only: that CPU, or another neighbour that left during that time.
    computing: f64,
    /// A neighbour while it slept only: another neighbour that came during that time.
    sleeping: f64,
    /// No neighbour, or one that has nothing to do with it: a core has two threads.
    neither: f64,
    /// A look without an answer.
    untold: f64,
}

impl Pairs {
    fn of(said: &[[CoreState; 2]]) -> Pairs {
        let mut pairs = Pairs::default();
        for states in said {
            *match states {
                [CoreState::Shared, CoreState::Alone] => &mut pairs.computing,
                [CoreState::Alone, CoreState::Shared] => &mut pairs.sleeping,
                [CoreState::Alone, CoreState::Alone] | [CoreState::Shared, CoreState::Shared] => &mut pairs.neither,
                _ => &mut pairs.untold,
            } += 1.0;
        }
        pairs
    }

    fn counts(self) -> Vec<f64> {
        vec![self.computing, self.sleeping, self.neither, self.untold]
    }

    fn from_counts(counts: &[f64]) -> Option<Pairs> {
        let [computing, sleeping, neither, untold] = counts.try_into().ok()?;
        Some(Pairs { computing, sleeping, neither, untold })
    }

    fn told(self) -> f64 {
        self.computing + self.sleeping + self.neither
    }

    /// Share of the time for which the other CPU was on the core. Others come as often as they leave, so it can be below zero by
    /// chance. None of a few pairs.
    fn share(self) -> Option<f64> {
        (self.told() >= FEWEST_PAIRS).then(|| (self.computing - self.sleeping) / self.told())
    }
}

fn own_labels(placement: &str) -> Labels {
    Labels::of([("beside", OWN_CPU), ("placement", placement)])
}

/// A look that differs from those with an answer before and after it has none: an interrupt of this CPU lies in one look.
fn doubt_single_looks(said: &mut [(f64, CoreState)]) {
    let told: Vec<usize> = (0..said.len()).filter(|&index| said[index].1.is_decided()).collect();
    let runs = told.chunk_by(|&one, &other| said[one].1 == said[other].1);
    let single: Vec<usize> = runs.filter(|run| run.len() == 1).map(|run| run[0]).collect();
    for index in single {
        said[index].1 = CoreState::Mixed;
    }
}

/// Lengths of the stretches of a state in nanoseconds: from its first look to the first of the other, or to the last look of all.
fn stretches(said: &[(f64, CoreState)], wanted: CoreState) -> Vec<f64> {
    let told: Vec<(f64, CoreState)> = said.iter().copied().filter(|(_, state)| state.is_decided()).collect();
    let runs = told.chunk_by(|one, other| one.1 == other.1);
    let begins: Vec<(f64, CoreState)> = runs.map(|run| run[0]).collect();
    let end = told.last().map_or(0.0, |(at, _)| *at);
    let ends = begins.iter().skip(1).map(|(at, _)| *at).chain([end]);
    begins
        .iter()
        .zip(ends)
        .filter(|((_, state), _)| *state == wanted)
        .map(|((at, _), end)| (end - at).round())
        .collect()
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    for beside in [OTHERS, OWN] {
        let launches = study.series("looks", &Labels::of([("beside", beside)]));
        let looks: Vec<[f64; 3]> = launches.iter().filter_map(|series| series.values[..].try_into().ok()).collect();
        let all: f64 = looks.iter().flatten().sum();
        if all == 0.0 {
            continue;
        }
        let told = 1.0 - looks.iter().map(|found| found[2]).sum::<f64>() / all;
        for (index, (state, _)) in STATES.into_iter().enumerate() {
            let share = |found: &[f64; 3]| found[index] / (found[0] + found[1]).max(1.0);
            let shares: Vec<f64> = looks.iter().map(share).collect();
            publish_share(study, findings, &labels(beside, state), &shares, told);
            publish_stretches(study, findings, &labels(beside, state));
        }
    }
    for place in study.setup.places() {
        let pairs = pairs_of(study, &place.placement);
        let [told, untold] = pairs.iter().fold([0.0; 2], |sum, one| [sum[0] + one.told(), sum[1] + one.untold]);
        let shared: Vec<f64> = pairs.iter().filter_map(|pairs| pairs.share()).collect();
        let alone: Vec<f64> = shared.iter().map(|share| 1.0 - share).collect();
        for (state, shares) in [("alone", &alone), ("shared", &shared)] {
            let labels = own_labels(&place.placement).with("state", state);
            publish_share(study, findings, &labels, shares, told / (told + untold));
        }
    }
}

/// What the launches saw of another CPU of this machine.
fn pairs_of(study: &Study<'_>, placement: &str) -> Vec<Pairs> {
    let launches = study.series("pairs", &own_labels(placement));
    launches.iter().filter_map(|series| Pairs::from_counts(&series.values)).collect()
}

/// The mean over launches: a share of the time. A share of nothing is no figure, because figures are above zero.
fn publish_share(study: &Study<'_>, findings: &mut Findings, labels: &Labels, shares: &[f64], told: f64) {
    // By chance more visits of others can begin than end, which makes the share of an own CPU negative and the rest more than all.
    let Some(value) = mean(shares).map(|share| share.min(1.0)).filter(|share| *share > 0.0) else { return };
    let Some(mut estimate) = Estimate::over_launches(shares, Unit::One, "mean over launches, with Student's interval")
    else {
        return;
    };
    let launches = shares.len() as f64;
    let error = standard_deviation(shares).unwrap_or(0.0) / launches.sqrt();
    let half = student_factor(LEVEL, (launches - 1.0).max(1.0)).unwrap_or(0.0) * error;
    estimate.value = value;
    estimate.interval = [(value - half).max(0.0), (value + half).min(1.0)];
    let of_own_cpu = labels.get("beside") == Some(OWN_CPU);
    let (rule, what) = if of_own_cpu {
        (&CLEAR, "{} of the pairs of looks tell whether the other CPU is on the core")
    } else {
        (&TOLD, "{} of the looks are alone or shared")
    };
    let mut gates = vec![Gate::at_least(rule, Number::share(told).named(what), TOLD_SHARE)];
    if labels.get("beside") == Some(OWN) && labels.get("state") == Some("shared") {
        let seen = Number::share(value).named("{} of the looks next to a spinning thread are shared");
        gates.push(Gate::at_least(&SEEN, seen, BESIDE_SPINNER));
    }
    findings.publish(study, Figure::fact(SHARE, labels.clone(), &estimate).gates(gates));
}

/// Quantiles of the stretches of each launch, and the median over launches: one launch can have most of all stretches.
fn publish_stretches(study: &Study<'_>, findings: &mut Findings, labels: &Labels) {
    let launches = study.series("stretch", labels);
    let stretches: usize = launches.iter().map(|series| series.values.len()).sum();
    for (probability, name) in [(0.5, "p50"), (0.9, "p90")] {
        let of_launches: Vec<f64> =
            launches.iter().filter_map(|series| quantile(&series.values, probability)).collect();
        let estimator = format!("median over launches of the {name} of their stretches");
        let Some(estimate) = Estimate::over_launches(&of_launches, Unit::Nanoseconds, &estimator) else { continue };
        let enough = Number::plain(stretches as f64).named("number of stretches {}");
        let gate = Gate::at_least(&STRETCHES, enough, FEWEST_STRETCHES as f64);
        let cut = estimate.value > 0.8 * WATCH.as_secs_f64() * 1e9;
        let figure = Figure::fact(STRETCH, labels.clone().with("quantile", name), &estimate).gates([gate]);
        findings.publish(study, if cut { figure.lower_bound() } else { figure });
    }
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    let launches = study.series("looks", &Labels::of([("beside", OTHERS)]));
    let shares: Vec<f64> = launches
        .iter()
        .filter_map(|series| series.values.get(..2).map(|found| found[1] / (found[0] + found[1]).max(1.0)))
        .collect();
    let Some(share) = mean(&shares) else { return };
    let most = shares.iter().copied().fold(0.0, f64::max);
    let free = shares.iter().filter(|share| **share < 0.01).count();
    let mut text = format!(
        "A neighbour computed on the core of CPU {} for {} of the time, in {} launches that looked for {} each. The \
         busiest launch had {}, and {} had less than 1 %.",
        study.setup.cpu,
        percent(share),
        shares.len(),
        significant(WATCH.as_secs_f64() * 1e9, Unit::Nanoseconds, 2),
        percent(most),
        count(free as u64, "launch", "launches")
    );
    let stretch = |state: &str, quantile: &str| {
        findings.metric(STRETCH, &labels(OTHERS, state).with("quantile", quantile)).map(Metric::shown)
    };
    if let (Some(half), Some(most)) = (stretch("shared", "p50"), stretch("shared", "p90")) {
        text +=
            &format!(" In the median launch half of its visits lasted at most {half}, and nine of ten at most {most}.");
    }
    if share == 0.0 {
        text = format!(
            "No neighbour computed on the core of CPU {} during {} launches of {} each.",
            study.setup.cpu,
            shares.len(),
            significant(WATCH.as_secs_f64() * 1e9, Unit::Nanoseconds, 2)
        );
    }
    findings.say(text);
    for place in study.setup.places() {
        let shares: Vec<f64> = pairs_of(study, &place.placement).iter().filter_map(|pairs| pairs.share()).collect();
        let with = shares.iter().filter(|share| **share > ON_CORE).count();
        let (other, measured) = (place.cpu, study.setup.cpu);
        match mean(&shares) {
            Some(share) if with > 0 => findings.say(format!(
                "CPU {other} of this machine was on the core of CPU {measured} for {} of the time, in {with} of {}. The \
                 host placed them so, and the machine does not show it. Two tasks then share one core.",
                percent(share),
                count(shares.len() as u64, "launch", "launches")
            )),
            Some(_) => findings.say(format!(
                "No launch of {} found CPU {other} of this machine on the core of CPU {measured}.",
                shares.len()
            )),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_on_the_core_if_looks_differ_with_what_it_does() {
        use CoreState::{Alone, Mixed, Shared};
        let share = |said: &[[CoreState; 2]]| Pairs::of(said).share();
        assert_eq!(share(&[[Shared, Alone]; 4]), Some(1.0));
        assert_eq!(
            share(&[[Alone, Alone], [Alone, Alone], [Shared, Shared], [Shared, Shared]]),
            Some(0.0),
            "a neighbour that stays is somebody else"
        );
        assert_eq!(share(&[[Shared, Alone]; 3]), None, "too few");
        // A neighbour that comes and leaves is seen in both orders.
        let visits = [[Shared, Alone], [Alone, Shared], [Alone, Alone], [Shared, Shared], [Mixed, Alone]];
        assert_eq!(share(&visits), Some(0.0));
        assert_eq!(share(&[[Shared, Alone], [Shared, Alone], [Shared, Alone], [Alone, Shared]]), Some(0.5));
        assert_eq!(share(&[[Mixed, Shared]]), None);
        let pairs = Pairs::of(&visits);
        assert_eq!(Pairs::from_counts(&pairs.counts()), Some(pairs));
    }

    #[test]
    fn timer_interrupts_are_not_a_neighbour() {
        use CoreState::{Alone, Mixed, Shared};
        // Looks of a microsecond, one of which is long every four milliseconds.
        let ticks = |index: usize| if index % 4000 == 7 { Shared } else { Alone };
        let mut said: Vec<(f64, CoreState)> = (0..25_000).map(|index| (index as f64 * 1e3, ticks(index))).collect();
        doubt_single_looks(&mut said);
        assert!(stretches(&said, Shared).is_empty());
        assert_eq!(stretches(&said, Alone), [24_999e3], "an interrupt ends no stretch");
        assert_eq!(said.iter().filter(|(_, state)| *state == Mixed).count(), 7);
        // A neighbour is there for two looks, also where one between them has no answer.
        let mut said =
            [(0.0, Alone), (1.0, Alone), (2.0, Shared), (3.0, Mixed), (4.0, Shared), (5.0, Alone), (6.0, Alone)];
        doubt_single_looks(&mut said);
        assert_eq!(stretches(&said, Shared), [3.0]);
    }

    #[test]
    fn looks_in_a_row_are_stretches() {
        let said = [
            (1.0, CoreState::Alone),
            (2.0, CoreState::Alone),
            (3.0, CoreState::Mixed),
            (4.0, CoreState::Shared),
            (5.0, CoreState::Shared),
            (7.0, CoreState::Alone),
            (9.0, CoreState::Alone),
        ];
        assert_eq!(stretches(&said, CoreState::Alone), [3.0, 2.0]);
        assert_eq!(stretches(&said, CoreState::Shared), [3.0]);
        assert!(stretches(&[], CoreState::Alone).is_empty());
    }
}
