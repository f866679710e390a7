//! The gates that every figure made of batches passes, whatever the experiment; an experiment adds those of its operation.
//!
//! docs/reference.md lists the rules of all experiments.

use crate::results::evidence::Evidence;
use crate::results::quantity::Unit;
use crate::results::verdict::Gate;
use crate::results::wording::number;
use crate::rig::sampler::{BIASES_PER_BATCH, RESOLUTIONS_PER_BATCH};
use crate::statistics::location::FEWEST_LAUNCHES;
use crate::statistics::summary::median;

use super::estimate::Estimate;
use super::gate::{Number, Rule, rules};
use super::others::TAKEN_SHARE;
use super::precision::Precision;
use super::sample::Account;
use super::study::Study;

/// Share of batches in which the clock may go backwards before the clock itself is doubted (G1).
const BACKWARDS_SHARE: f64 = 0.001;
/// A single shot must be this many times the resolution of the clock (G4).
const SHOT_RESOLUTIONS: f64 = 20.0;
/// Share of disturbed batches beyond which nothing clean is left to publish (G16).
const DISTURBED_SHARE: f64 = 0.2;
/// Share of batches whose clock probes may disagree before what is left was picked from a core that others use (G14).
const UNSTEADY_SHARE: f64 = 0.5;
/// Share beyond which too few are left for a cost (G14).
const UNSTEADY_AT_MOST: f64 = 0.9;
/// Typical over undisturbed: beyond this the neighbours are part of what a user sees.
const TYPICAL_OVER_UNDISTURBED: f64 = 1.05;
/// Distance of the chain ratio from an integer (G14).
const CHAIN_TOLERANCE: f64 = 0.015;
/// Change of the core frequency within a launch (G14).
const FREQUENCY_CHANGE: f64 = 0.02;
/// Deviation of a launch's clock from the run's, in parts per million: more means a live migration or a changed rate.
const CLOCK_DEVIATION_PPM: f64 = 50.0;

/// Share of the launches that may be unsteady or unsettled.
const UNSTEADY_LAUNCHES: f64 = 0.2;
/// 90th percentile over median of batches: beyond this their mean says little (G10).
const SKEW: f64 = 1.5;
/// Standard errors that a difference must have (G5).
const ERRORS: f64 = 3.0;
/// Least share that a net cost must have in the gross one (G5).
const NET_SHARE: f64 = 0.25;

rules! {
    BACKWARDS: "G1" Hard "batches, single shots", "the clock went backwards in at most {} of them", share(BACKWARDS_SHARE);
    BRIEF: "G4" Hard "batches", "at least 95 % of the clean batches last {} times the timer bias (the median of the \
                                 launches) and {} times the resolution (the highest)", plain(BIASES_PER_BATCH), plain(RESOLUTIONS_PER_BATCH);
    BRIEF_SHOT: "G4" Hard "single shots", "the bias of the timing pair is removed, and a shot lasts at least {} times \
                                           the clock's resolution", plain(SHOT_RESOLUTIONS);
    WRONG: "G6" Hard "batches", "no batch gave a wrong result";
    UNSTEADY: "G14" Contaminates "batches", "the core clock changed within at most {} of the batches", share(UNSTEADY_SHARE);
    HARDLY_STEADY: "G14" Hard "batches", "the core clock changed within at most {} of the batches", share(UNSTEADY_AT_MOST);
    CHAIN: "G14" Hard "batches, derived results (in cycles)", "a multiply takes a whole number of additions within {} \
                                                              in every launch", share(CHAIN_TOLERANCE);
    FREQUENCY: "G14" Remark "batches, derived results (in cycles)", "the core frequency changed by at most {} from the beginning to the end of every launch", share(FREQUENCY_CHANGE);
    MIGRATED: "G15" Contaminates "batches, single shots", "none migrated to another CPU";
    DISTURBED: "G16" Hard "batches", "at most {} of the batches were disturbed (preempted, migrated, faulted, did not happen)", share(DISTURBED_SHARE);
    OTHERS_BESIDE_SHOTS: "G16" Disturbs "single shots", "other programs had the CPU for at most {} of the time in \
                                                             which no task of sysdyno could have had it", share(TAKEN_SHARE);
    CLOCK: "clock" Contaminates "batches, single shots, derived results", "every launch's own calibration agrees with \
                                                                           the run's within {} ppm plus its error \
                                                                           bound", plain(CLOCK_DEVIATION_PPM);
    ALONE: "G16" Contaminates "all results in cycles, single shots", "some of the batches ran without a neighbour on their core, or \
                                                the result is the cost with a neighbour. Shots without one come from {} launches or \
                                                half of them", plain(FEWEST_LAUNCHES as f64);
    EMULATED: "emulator" Contaminates "all", "the processor executes the instructions itself";
    LAUNCHES: "G11" Noisy "all", "the result has at least {} launches", plain(FEWEST_LAUNCHES as f64);
    INTERVAL: "interval" Noisy "all except pairs of bounds", "with enough launches, half of the interval (within this run \
                                                           and between runs) is at most the target of the experiment";
    TYPICAL: "typical" Remark "batches", "the typical cost is at most {} times the result", plain(TYPICAL_OVER_UNDISTURBED);
    SKEWED: "G10" Remark "batches", "the 90th percentile of the batches is at most {} times their median", plain(SKEW);
    RESTLESS: "steady" Remark "batches", "at most {} of the launches never settled on one level (by change points, \
                                          their last level is shorter than a third of the series)", share(UNSTEADY_LAUNCHES);
    UNSETTLED: "steady" Remark "batches, derived results", "at most {} of the launches had not settled when sampling began", share(UNSTEADY_LAUNCHES);
    RESOLVED: "G5" Hard "differences, slopes", "more than {} times its standard error", plain(ERRORS);
    NET_RESOLVED: "G5" Hard "results net of an overhead", "more than {} times its standard error, and at least {} of \
                                                           the gross result", plain(ERRORS), share(NET_SHARE);
}

/// The common gates of a figure of batches.
pub fn of_batches(study: &Study<'_>, estimate: &Estimate) -> Vec<Gate> {
    let evidence: Vec<&Evidence> = study.evidence().collect();
    let mut gates = of_account(estimate, &evidence);
    gates.extend(of_launches(estimate, study.precision));
    gates.extend(of_evidence(estimate, &evidence));
    gates
}

/// The common gates of a figure that is not made of batches itself: a line through others, a step, a rate.
pub fn of_derived(study: &Study<'_>, estimate: &Estimate) -> Vec<Gate> {
    let evidence: Vec<&Evidence> = study.evidence().collect();
    let mut gates = of_interval(estimate, study.precision);
    gates.extend(of_evidence(estimate, &evidence));
    gates
}

/// The common gates of a figure of single shots. `others` is the share of the time that other tasks had the CPU while
/// nothing of this tool could have had it; none where the experiment does not know it, and G16 over whole launches decides.
pub fn of_shots(study: &Study<'_>, estimate: &Estimate, others: Option<f64>) -> Vec<Gate> {
    let evidence: Vec<&Evidence> = study.evidence().collect();
    let account = &estimate.account;
    let resolution = study.nanoseconds(highest(&evidence, |found| found.timer_resolution));
    let mut gates = of_interval(estimate, study.precision);
    gates.push(backwards(account, "shots"));
    gates.push(if estimate.unit == Unit::Nanoseconds {
        Gate::at_least(&BRIEF_SHOT, estimate.named("single shots of {}"), SHOT_RESOLUTIONS * resolution)
            .because(format!("{SHOT_RESOLUTIONS} times the clock's resolution, without the bias of the timing pair"))
    } else {
        Gate::holds(&BRIEF_SHOT, true, "the result does not come from single shots")
    });
    gates.push(Gate::at_most(
        &MIGRATED,
        Number::plain(account.migrated as f64).named("{} shots migrated to another CPU"),
        0.0,
    ));
    gates.extend(others.map(of_others));
    gates.push(of_clock(&evidence));
    gates
}

/// G16 for what is not made of batches: other tasks had the CPU for this share of the time.
pub fn of_others(share: f64) -> Gate {
    let share = Number::share(share).named("other programs had the CPU for {} of the time");
    Gate::at_most(&OTHERS_BESIDE_SHOTS, share, TAKEN_SHARE)
}

fn backwards(account: &Account, of: &str) -> Gate {
    let what = format!("the clock went backwards in {{}} of the {of}");
    Gate::few(&BACKWARDS, &what, account.backwards as f64, account.taken as f64, BACKWARDS_SHARE)
}

/// G1, G4, G6, G15 and the part of G16 that batches show.
fn of_account(estimate: &Estimate, evidence: &[&Evidence]) -> Vec<Gate> {
    let account = &estimate.account;
    let taken = account.taken as f64;
    // A host that slows a core down for milliseconds makes the reads of one launch ten times as long.
    let biases: Vec<f64> = evidence.iter().map(|found| found.timer_bias).collect();
    let bias = median(&biases).unwrap_or(0.0);
    let resolution = highest(evidence, |found| found.timer_resolution);
    let needed = (BIASES_PER_BATCH * bias).max(RESOLUTIONS_PER_BATCH * resolution);
    let brief = Number::of(account.brief, Unit::Ticks).named("at least 95 % of the batches last {} or more");
    vec![
        backwards(account, "batches"),
        Gate::at_least(&BRIEF, brief, needed).because(format!(
            "{BIASES_PER_BATCH} × timer bias {}, {RESOLUTIONS_PER_BATCH} × resolution {}",
            number(bias),
            number(resolution)
        )),
        Gate::few(&WRONG, "{} of the batches gave a wrong result", account.wrong as f64, taken, 0.0),
        Gate::at_most(
            &MIGRATED,
            Number::plain(account.migrated as f64).named("{} batches migrated to another CPU"),
            0.0,
        ),
        Gate::few(&DISTURBED, "{} of the batches were disturbed", account.disturbed as f64, taken, DISTURBED_SHARE),
        steady_clock(account),
    ]
}

/// G14 over batches: those between probes that disagree are void. Where that is most of them, the rest was picked from a core
/// that others use; where it is nearly all, the rest is chance.
fn steady_clock(account: &Account) -> Gate {
    let (unsteady, taken) = (account.unsteady as f64, account.taken as f64);
    let hardly = unsteady / taken.max(1.0) > UNSTEADY_AT_MOST;
    let (rule, most) = if hardly { (&HARDLY_STEADY, UNSTEADY_AT_MOST) } else { (&UNSTEADY, UNSTEADY_SHARE) };
    Gate::few(rule, "the core clock changed within {} of the batches", unsteady, taken, most)
}

/// G16: a figure of batches of which none was alone on its core.
pub fn alone(estimate: &Estimate) -> Option<Gate> {
    let sharing = estimate.account.sharing?;
    let few = if estimate.account.few { ", and few launches have any without" } else { "" };
    let evidence = format!(
        "of its clean batches {} ran without a neighbour, {} with a neighbour, {} changed between both{few}",
        sharing.alone, sharing.shared, sharing.mixed
    );
    Some(Gate::holds(&ALONE, sharing.alone > 0 && !estimate.account.few, evidence))
}

/// What is timed under an emulator is translated code. It says nothing about a processor.
pub fn emulated(study: &Study<'_>) -> Option<Gate> {
    let emulator = study.setup.machine.cpu.emulator.as_ref()?;
    Some(Gate::holds(&EMULATED, false, format!("{} executes the instructions ({})", emulator.value, emulator.source)))
}

/// G11: an interval over launches needs launches.
pub fn enough_launches(estimate: &Estimate) -> Gate {
    let launches = Number::plain(f64::from(estimate.launches)).named("number of launches {}");
    let gate = Gate::at_least(&LAUNCHES, launches, FEWEST_LAUNCHES as f64);
    match estimate.account.sharing.filter(|_| !gate.pass) {
        None => gate.because("an interval over launches requires them"),
        Some(sharing) => {
            let share = Number::share(sharing.share()).text();
            gate.because(format!("a neighbour used the core during {share} of the batches"))
        }
    }
}

/// G11 and the width of the interval: what every figure passes, also one that is not made of batches.
pub fn of_interval(estimate: &Estimate, precision: Precision) -> Vec<Gate> {
    let mut gates = vec![enough_launches(estimate)];
    if estimate.launches as usize >= FEWEST_LAUNCHES && estimate.value != 0.0 {
        let width = precision.relative(estimate.value, estimate.interval);
        let width = Number::share(width).named("half of the interval is {} of the value");
        gates.push(Gate::at_most(&INTERVAL, width, precision.target));
    }
    gates
}

/// At most one launch in five never came to rest on a level.
pub fn steady(estimate: &Estimate) -> Gate {
    let (restless, launches) = (f64::from(estimate.restless), f64::from(estimate.launches));
    Gate::few(&RESTLESS, "{} of the launches never settled on one level", restless, launches, UNSTEADY_LAUNCHES)
}

/// The spread within and over launches.
fn of_launches(estimate: &Estimate, precision: Precision) -> Vec<Gate> {
    let mut gates = of_interval(estimate, precision);
    if let Some(typical) = estimate.typical {
        let ratio = Number::plain(typical / estimate.value).named("typical over undisturbed {}");
        gates.push(Gate::at_most(&TYPICAL, ratio, TYPICAL_OVER_UNDISTURBED));
    }
    gates.push(steady(estimate));
    if let (Some(quantiles), true) = (estimate.quantiles, estimate.value != 0.0) {
        let skew = Number::plain(quantiles.p90 / quantiles.p50).named("90th percentile over median of batches {}");
        gates.push(Gate::at_most(&SKEWED, skew, SKEW).because("the mean is never a headline result"));
    }
    gates
}

/// G14 and the clock.
fn of_evidence(estimate: &Estimate, evidence: &[&Evidence]) -> Vec<Gate> {
    let mut gates = Vec::new();
    let launches = evidence.len() as f64;
    if estimate.unit == Unit::Cycles {
        // Launches without a valid chain have no probes, and no part in figures in cycles.
        let valid: Vec<&Evidence> =
            evidence.iter().copied().filter(|found| found.ticks_per_cycle_before.is_some()).collect();
        let furthest =
            highest(&valid, |found| found.chain_ratio.map_or(1.0, |ratio| (ratio / ratio.round() - 1.0).abs()));
        let distance = Number::share(furthest).named("a multiply is {} from a whole number of additions");
        gates.push(Gate::at_most(&CHAIN, distance, CHAIN_TOLERANCE));
        let changed = evidence.iter().filter(|found| frequency_change(found) > FREQUENCY_CHANGE).count();
        let what = format!(
            "core frequency changed by more than {} within {{}} of the launches",
            Number::share(FREQUENCY_CHANGE).text()
        );
        gates.push(Gate::few(&FREQUENCY, &what, changed as f64, launches, 0.0));
    }
    gates.push(of_clock(evidence));
    let unsettled = evidence.iter().filter(|found| !found.settled).count() as f64;
    let what = "{} of the launches had not settled when sampling began";
    gates.push(Gate::few(&UNSETTLED, what, unsettled, launches, UNSTEADY_LAUNCHES));
    gates
}

/// The clock of the launches against the run's.
fn of_clock(evidence: &[&Evidence]) -> Gate {
    let off = evidence.iter().filter(|found| clock_deviates(found)).count();
    let what =
        format!("the clock of {{}} of the launches deviates by more than {CLOCK_DEVIATION_PPM} ppm from the run's");
    Gate::few(&CLOCK, &what, off as f64, evidence.len() as f64, 0.0)
}

fn highest(evidence: &[&Evidence], of: impl Fn(&Evidence) -> f64) -> f64 {
    evidence.iter().map(|found| of(found)).fold(0.0, f64::max)
}

fn frequency_change(evidence: &Evidence) -> f64 {
    match (evidence.ticks_per_cycle_before, evidence.ticks_per_cycle_after) {
        (Some(before), Some(after)) if after > 0.0 => (before / after - 1.0).abs(),
        _ => 0.0,
    }
}

/// Beyond the limit even when the error bound of the launch's own short calibration is granted.
fn clock_deviates(evidence: &Evidence) -> bool {
    match (evidence.clock_deviation_ppm, evidence.clock_deviation_bound_ppm) {
        (Some(deviation), Some(bound)) => deviation.abs() - bound > CLOCK_DEVIATION_PPM,
        _ => false,
    }
}

/// G8: a figure below what the hardware can do is an error of the instrument.
pub fn floor(rule: &Rule, estimate: &Estimate, least: f64) -> Gate {
    Gate::at_least(rule, estimate.named("{}"), least)
}

/// G8 with the floor given as a time, whatever the unit of the figure.
pub fn floor_in_time(rule: &Rule, study: &Study<'_>, estimate: &Estimate, least: f64) -> Gate {
    let nanoseconds = match (estimate.unit, study.core) {
        (Unit::Cycles, Some(core)) => estimate.value * core.period().0,
        _ => estimate.value,
    };
    Gate::at_least(rule, Number::time(nanoseconds).named("{}"), least)
}

/// G5: a difference is published only where it exceeds its own error.
pub fn resolved(estimate: &Estimate) -> Gate {
    beyond_error(&RESOLVED, estimate, "difference {}")
}

/// G5 for a net cost: it exceeds its error and is not a small rest of a large difference.
pub fn net_resolved(net: &Estimate, gross: f64) -> Gate {
    let share = if gross > 0.0 { net.value / gross } else { 0.0 };
    let of_gross = format!("{{}} of gross {}", Number::of(gross, net.unit).text());
    beyond_error(&NET_RESOLVED, net, "net {}").and(Gate::at_least(
        &NET_RESOLVED,
        Number::share(share).named(of_gross),
        NET_SHARE,
    ))
}

fn beyond_error(rule: &Rule, estimate: &Estimate, what: &str) -> Gate {
    let bound = ERRORS * estimate.standard_error();
    Gate::more_than(rule, estimate.named(what), bound).because(format!("{ERRORS} times its standard error"))
}
