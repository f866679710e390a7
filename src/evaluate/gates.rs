//! The gates that every figure made of batches passes, whatever the experiment; an experiment adds those of its operation.
//!
//! The catalogue with all identifiers is in METHODOLOGY.md.

use crate::results::evidence::Evidence;
use crate::results::quantity::{Labels, Unit};
use crate::results::verdict::{Gate, Severity};
use crate::results::wording::{launches as counted, number, percent, quantity};
use crate::rig::sampler::{BIASES_PER_BATCH, RESOLUTIONS_PER_BATCH};
use crate::statistics::location::FEWEST_LAUNCHES;

use super::estimate::Estimate;
use super::others::TAKEN_SHARE;
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
/// Share beyond which too few are left to tell a cost (G14).
const UNSTEADY_AT_MOST: f64 = 0.9;
/// Typical over undisturbed: beyond this the neighbours are part of what a user sees.
const TYPICAL_OVER_UNDISTURBED: f64 = 1.05;
/// Half-width of the interval over the value, beyond which a figure is noisy.
const WIDE: f64 = 0.05;
/// Distance of the chain ratio from an integer (G14).
const CHAIN_TOLERANCE: f64 = 0.015;
/// Change of the core frequency within a launch (G14).
const FREQUENCY_CHANGE: f64 = 0.02;
/// Deviation of a launch's clock from the run's, in parts per million: more means a live migration or a changed rate.
const CLOCK_DEVIATION_PPM: f64 = 50.0;

/// The common gates of a figure of batches.
pub fn of_batches(study: &Study<'_>, estimate: &Estimate) -> Vec<Gate> {
    let evidence: Vec<&Evidence> = study.evidence().collect();
    let mut gates = of_account(estimate, &evidence);
    gates.extend(of_launches(estimate));
    gates.extend(of_evidence(estimate, &evidence));
    gates
}

/// The common gates of a figure that is not made of batches itself: a line through others, a step, a rate.
pub fn of_derived(study: &Study<'_>, estimate: &Estimate) -> Vec<Gate> {
    let evidence: Vec<&Evidence> = study.evidence().collect();
    let mut gates = of_interval(estimate);
    gates.extend(of_evidence(estimate, &evidence));
    gates
}

/// The common gates of a figure of single shots. `others` is the share of the time that other tasks had the CPU while
/// nothing of this tool could have had it; none where the experiment cannot tell and G16 over whole launches has to.
pub fn of_shots(study: &Study<'_>, estimate: &Estimate, others: Option<f64>) -> Vec<Gate> {
    let evidence: Vec<&Evidence> = study.evidence().collect();
    let account = &estimate.account;
    let taken = account.taken.max(1) as f64;
    let resolution = study.nanoseconds(highest(&evidence, |found| found.timer_resolution));
    let mut gates = of_interval(estimate);
    gates.push(Gate::of(
        "G1",
        Severity::Hard,
        account.backwards as f64 / taken <= BACKWARDS_SHARE,
        format!("the clock went backwards in {} of {} shots", account.backwards, account.taken),
    ));
    gates.push(Gate::of(
        "G4",
        Severity::Hard,
        estimate.unit != Unit::Nanoseconds || estimate.value >= SHOT_RESOLUTIONS * resolution,
        format!(
            "single shots, the bias of the timing pair removed; the clock's resolution is {} ns, the shot at least {SHOT_RESOLUTIONS} times that",
            number(resolution)
        ),
    ));
    gates.push(Gate::of(
        "G15",
        Severity::Contaminates,
        account.migrated == 0,
        format!("{} shots changed the CPU", account.migrated),
    ));
    if let Some(others) = others {
        gates.push(Gate::of(
            "G16",
            Severity::Contaminates,
            others <= TAKEN_SHARE,
            format!("others had the CPU for {} of the time; at most {}", percent(others), percent(TAKEN_SHARE)),
        ));
    }
    gates.push(of_clock(&evidence));
    gates
}

/// G1, G4, G6, G15 and the part of G16 that batches show.
fn of_account(estimate: &Estimate, evidence: &[&Evidence]) -> Vec<Gate> {
    let account = &estimate.account;
    let taken = account.taken.max(1) as f64;
    let bias = highest(evidence, |found| found.timer_bias);
    let resolution = highest(evidence, |found| found.timer_resolution);
    let needed = (BIASES_PER_BATCH * bias).max(RESOLUTIONS_PER_BATCH * resolution);
    vec![
        Gate::of(
            "G1",
            Severity::Hard,
            account.backwards as f64 / taken <= BACKWARDS_SHARE,
            format!("the clock went backwards in {} of {} batches", account.backwards, account.taken),
        ),
        Gate::of(
            "G4",
            Severity::Hard,
            account.brief >= needed,
            format!(
                "all batches but one in twenty last {} ticks or more; must be at least {} ({BIASES_PER_BATCH} × timer bias {}, {RESOLUTIONS_PER_BATCH} × resolution {})",
                number(account.brief),
                number(needed),
                number(bias),
                number(resolution)
            ),
        ),
        Gate::of(
            "G6",
            Severity::Hard,
            account.wrong == 0,
            format!("{} of {} batches gave a wrong result", account.wrong, account.taken),
        ),
        Gate::of(
            "G15",
            Severity::Contaminates,
            account.migrated == 0,
            format!("{} batches changed the CPU", account.migrated),
        ),
        Gate::of(
            "G16",
            Severity::Hard,
            account.disturbed as f64 / taken <= DISTURBED_SHARE,
            format!(
                "{} of {} batches were disturbed; at most {}",
                account.disturbed,
                account.taken,
                percent(DISTURBED_SHARE)
            ),
        ),
        steady_clock(account),
    ]
}

/// G14 over batches: those between probes that disagree are void. Where that is most of them, the rest was picked from a core
/// that others use; where it is nearly all, the rest is chance.
fn steady_clock(account: &Account) -> Gate {
    let share = account.unsteady as f64 / account.taken.max(1) as f64;
    Gate::of(
        "G14",
        if share > UNSTEADY_AT_MOST { Severity::Hard } else { Severity::Contaminates },
        share <= UNSTEADY_SHARE,
        format!("core clock changed within {} of {} batches", account.unsteady, account.taken),
    )
}

/// G11: an interval over launches needs launches.
pub fn enough_launches(estimate: &Estimate) -> Gate {
    let launches = estimate.launches as usize;
    Gate::of(
        "G11",
        Severity::Noisy,
        launches >= FEWEST_LAUNCHES,
        format!("{}; an interval over launches needs {FEWEST_LAUNCHES}", counted(launches)),
    )
}

/// G11 and the width of the interval: what every figure passes, also one that is not made of batches.
pub fn of_interval(estimate: &Estimate) -> Vec<Gate> {
    let launches = estimate.launches as usize;
    let mut gates = vec![enough_launches(estimate)];
    if launches >= FEWEST_LAUNCHES && estimate.value != 0.0 {
        let width = (estimate.interval[1] - estimate.interval[0]) / 2.0 / estimate.value.abs();
        gates.push(Gate::of(
            "interval",
            Severity::Noisy,
            width <= WIDE,
            format!("half-width {} of the value; at most {}", percent(width), percent(WIDE)),
        ));
    }
    gates
}

/// The spread within and over launches.
fn of_launches(estimate: &Estimate) -> Vec<Gate> {
    let launches = estimate.launches;
    let mut gates = of_interval(estimate);
    if let Some(typical) = estimate.typical {
        let ratio = typical / estimate.value;
        gates.push(Gate::of(
            "typical",
            Severity::Noisy,
            ratio <= TYPICAL_OVER_UNDISTURBED,
            format!("typical / undisturbed = {ratio:.3}; at most {TYPICAL_OVER_UNDISTURBED}"),
        ));
    }
    gates.push(Gate::of(
        "steady",
        Severity::Remark,
        estimate.restless * 5 <= estimate.launches,
        format!("{} of {} never came to rest on one level", estimate.restless, counted(launches as usize)),
    ));
    if let (Some(quantiles), true) = (estimate.quantiles, estimate.value != 0.0) {
        let skew = quantiles.p90 / quantiles.p50;
        gates.push(Gate::of(
            "G10",
            Severity::Remark,
            skew <= 1.5,
            format!("90th percentile / median of batches = {skew:.3}; the mean is never the headline"),
        ));
    }
    gates
}

/// G14 and the clock.
fn of_evidence(estimate: &Estimate, evidence: &[&Evidence]) -> Vec<Gate> {
    let mut gates = Vec::new();
    if estimate.unit == Unit::Cycles {
        // Launches without a valid chain have no probes, and no part in figures in cycles.
        let valid: Vec<&Evidence> =
            evidence.iter().copied().filter(|found| found.ticks_per_cycle_before.is_some()).collect();
        let furthest =
            highest(&valid, |found| found.chain_ratio.map_or(1.0, |ratio| (ratio / ratio.round() - 1.0).abs()));
        gates.push(Gate::of(
            "G14",
            Severity::Hard,
            furthest <= CHAIN_TOLERANCE,
            format!(
                "multiply / add latency is an integer within {}; at most {}",
                percent(furthest),
                percent(CHAIN_TOLERANCE)
            ),
        ));
        let changed = evidence.iter().filter(|found| frequency_change(found) > FREQUENCY_CHANGE).count();
        gates.push(Gate::of(
            "G14",
            Severity::Remark,
            changed == 0,
            format!(
                "core frequency changed by more than {} within {changed} of {}",
                percent(FREQUENCY_CHANGE),
                counted(evidence.len())
            ),
        ));
    }
    gates.push(of_clock(evidence));
    let unsettled = evidence.iter().filter(|found| !found.settled).count();
    gates.push(Gate::of(
        "steady",
        Severity::Remark,
        unsettled * 5 <= evidence.len(),
        format!("{unsettled} of {} had not settled when sampling began", counted(evidence.len())),
    ));
    gates
}

/// The clock of the launches against the run's.
fn of_clock(evidence: &[&Evidence]) -> Gate {
    let off = evidence.iter().filter(|found| clock_deviates(found)).count();
    Gate::of(
        "clock",
        Severity::Contaminates,
        off == 0,
        format!(
            "the clock of {off} of {} deviates by more than {CLOCK_DEVIATION_PPM} ppm from the run's",
            counted(evidence.len())
        ),
    )
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
pub fn floor(estimate: &Estimate, least: f64, why: &str) -> Gate {
    let unit = estimate.unit;
    Gate::of(
        "G8",
        Severity::Hard,
        estimate.value >= least,
        format!("{} {unit}; physical floor {} {unit} ({why})", number(estimate.value), number(least)),
    )
}

/// G5: a difference is published only where it stands out of its own error.
pub fn resolved(estimate: &Estimate) -> Gate {
    let error = estimate.standard_error();
    Gate::of(
        "G5",
        Severity::Hard,
        estimate.value > 3.0 * error,
        format!("difference {} {}; its standard error {}", number(estimate.value), estimate.unit, number(error)),
    )
}

/// Least share that a net cost must have in the gross one (G5).
const NET_SHARE: f64 = 0.25;

/// G5 for a net cost: it stands out of its error and is no small rest of a large difference.
pub fn net_resolved(net: &Estimate, gross: f64) -> Gate {
    let error = net.standard_error();
    let share = if gross > 0.0 { net.value / gross } else { 0.0 };
    Gate::of(
        "G5",
        Severity::Hard,
        net.value > 3.0 * error && share >= NET_SHARE,
        format!(
            "net {} {} with a standard error of {}, {} of gross {}; at least {}",
            number(net.value),
            net.unit,
            number(error),
            percent(share),
            number(gross),
            percent(NET_SHARE)
        ),
    )
}

/// G8 with the floor given as a time, whatever the unit of the figure.
pub fn floor_in_time(study: &Study<'_>, estimate: &Estimate, least: f64, why: &str) -> Gate {
    let nanoseconds = match (estimate.unit, study.core) {
        (Unit::Cycles, Some(core)) => estimate.value * core.period().0,
        _ => estimate.value,
    };
    Gate::of(
        "G8",
        Severity::Hard,
        nanoseconds >= least,
        format!(
            "{}; physical floor {} ({why})",
            quantity(nanoseconds, Unit::Nanoseconds),
            quantity(least, Unit::Nanoseconds)
        ),
    )
}

/// Name of the series of the children of a figure: made, reaped, left as expected.
pub const CHILDREN: &str = "children";

/// Name of the remark of a launch that had children left which it did not know of.
pub const CHILDREN_LEFT: &str = "children.left";

/// G26: every child that was made was reaped and left as expected, in all launches.
pub fn of_children(study: &Study<'_>, labels: &Labels) -> Gate {
    let mut sums = [0.0; 3];
    for series in study.series(CHILDREN, labels) {
        sums.iter_mut().zip(&series.values).for_each(|(sum, count)| *sum += count);
    }
    let [made, reaped, expected] = sums;
    let left = study.remarks(CHILDREN_LEFT).len();
    Gate::of(
        "G26",
        Severity::Hard,
        made > 0.0 && (made - reaped).abs() < 0.5 && (made - expected).abs() < 0.5 && left == 0,
        format!(
            "{made} children made, {reaped} reaped, {expected} left as expected; {} had others left",
            counted(left)
        ),
    )
}
