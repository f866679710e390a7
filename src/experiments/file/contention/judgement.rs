//! What must be true of readers that share a device.

use super::{CPU_BOUND, PROCESSES, cpu_shares, labels, rate, shown};
use crate::evaluate::estimate::Estimate;
use crate::evaluate::gates;
use crate::evaluate::study::Study;
use crate::experiments::file::{Class, NO_DEVICE, Order};
use crate::results::quantity::Unit;
use crate::results::verdict::{Gate, Severity};
use crate::results::wording::{percent, quantity};
use crate::rig::ground::{Caveat, Ground};
use crate::statistics::summary::median;

/// What all read may fall by when they become more, and a read be faster than alone.
const SLACK: f64 = 0.05;
const FASTER: f64 = 0.9;
/// What devices may have read beyond what was asked for: descriptions of where files lie.
const BEYOND: f64 = 0.02;

/// G15, G33, G34, G37.
pub(super) fn common_gates(study: &Study<'_>, order: Order, processes: usize) -> Vec<Gate> {
    let own = labels(order, processes);
    let strays: f64 = study.values("strays", &own).iter().sum();
    let mut gates = vec![Gate::of(
        "G15",
        Severity::Hard,
        strays <= 0.0,
        format!("{strays} reads ended on another CPU than their process's own"),
    )];
    let share = median(&cpu_shares(study, order, processes)).unwrap_or(0.0);
    gates.push(Gate::of(
        "G37",
        Severity::Remark,
        share < CPU_BOUND,
        format!(
            "the processes used {} of their CPUs; from {} on the CPUs set the pace",
            percent(share),
            percent(CPU_BOUND)
        ),
    ));
    let (mut asked, mut read) = (0.0, 0.0);
    for series in study.series("proof", &own) {
        if let [wanted, found] = series.values[..] {
            (asked, read) = (asked + wanted, read + found);
        }
    }
    let program = study.machine.scratch().map(Ground::of_storage);
    if program.is_some_and(|ground| ground.caveats.contains(&Caveat::Program)) {
        let why = "a program provides the files: the kernel asks no device, and only the stamps prove what was read";
        gates.push(Gate::of("G33", Severity::Remark, false, why));
    } else if asked > 0.0 {
        gates.push(Gate::of(
            "G33",
            Severity::Hard,
            read >= asked && read <= asked * (1.0 + BEYOND) + 1_048_576.0,
            format!(
                "{} asked for by all processes, {} read by devices for them",
                quantity(asked, Unit::Bytes),
                quantity(read, Unit::Bytes)
            ),
        ));
    }
    gates
}

/// What all read does not fall, and is not more than the device does.
pub(super) fn growth(study: &Study<'_>, order: Order, processes: usize, own: f64) -> Vec<Gate> {
    let text = |value: f64| quantity(value, Unit::BytesPerSecond);
    let mut gates = Vec::new();
    let fewer = PROCESSES.into_iter().rev().find(|&fewer| fewer < processes);
    if let Some((fewer, before)) = fewer.and_then(|fewer| Some((fewer, rate(study, order, fewer)?.value))) {
        // A head that moves between files reads less of all of them.
        let severity = if Class::of(study.machine) == Class::Turning { Severity::Remark } else { Severity::Noisy };
        gates.push(Gate::of(
            "G20",
            severity,
            own >= before * (1.0 - SLACK),
            format!(
                "{} by {processes} processes, {} by {fewer}: more readers do not read less",
                text(own),
                text(before)
            ),
        ));
    }
    let deepest = study.known.iter().filter(|metric| metric.name == "file.read.depth_rate").map(|metric| metric.value);
    if let Some(most) = deepest.reduce(f64::max) {
        gates.push(Gate::of(
            "G34",
            Severity::Remark,
            own <= most * (1.0 + SLACK),
            format!(
                "{} together; {} with one process and many reads under way, which may be that process's own limit",
                text(own),
                text(most)
            ),
        ));
    }
    gates
}

/// The gates of a read's time.
pub(super) fn of_time(study: &Study<'_>, order: Order, processes: usize, time: &Estimate) -> Vec<Gate> {
    let mut of_time = gates::of_shots(study, time, None);
    of_time.extend(common_gates(study, order, processes));
    of_time.push(Gate::of(
        "G8",
        Severity::Hard,
        time.value >= NO_DEVICE,
        format!("{}; below {} no device was asked", shown(time.value), shown(NO_DEVICE)),
    ));
    if let Some(alone) = super::time(study, order, 1).filter(|_| processes > 1) {
        of_time.push(Gate::of(
            "G20",
            Severity::Noisy,
            time.value >= alone.value * FASTER,
            format!("{} against {} alone: others do not make a read faster", shown(time.value), shown(alone.value)),
        ));
    }
    of_time
}
