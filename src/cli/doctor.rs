//! `sysdyno doctor`: what would spoil measurements here. It looks and changes nothing.

use std::path::Path;
use std::time::Duration;

use super::arguments::DoctorOptions;
use super::{DONE, Failure, json, print};
use crate::conduct::prepare::counter_usable;
use crate::machine::quiet::Check;
use crate::machine::{self, Machine, quiet};
use crate::plan;
use crate::report::terminal::folded;
use crate::results::quantity::Unit;
use crate::results::wording::{count, percent, quantity};
use crate::rig::clock;
use crate::rig::noise::{self, Noise};
use crate::sys::affinity;
use crate::sys::clock::Source;

/// How long the noise probe reads the clock.
const NOISE_SPAN: Duration = Duration::from_millis(200);
/// Loss beyond which a CPU is noisy: timer interrupts of an idle machine take a few tenths of a percent.
const NOISY_SHARE: f64 = 0.01;

pub(super) fn doctor(options: &DoctorOptions) -> Result<u8, Failure> {
    let scratch = options.scratch.as_deref().unwrap_or(Path::new("."));
    let machine = machine::detect(Path::new("/"), scratch);
    let cpu = plan::choose_cpu(options.cpu, &affinity::allowed(), &machine)?;
    let checks = checks(&machine, cpu, NOISE_SPAN);
    if options.json {
        print(&json(&checks)?)?;
        return Ok(DONE);
    }
    let mut text = String::new();
    for wanted in [false, true] {
        for check in checks.iter().filter(|check| check.ok == wanted) {
            text += &describe(check);
        }
    }
    let spoil = checks.iter().filter(|check| !check.ok && check.known).count() as u64;
    let unknown = checks.iter().filter(|check| !check.known).count();
    text += &format!(
        "\nOf {}, {spoil} found something that spoils and {unknown} could not look. Nothing was changed.\n",
        count(checks.len() as u64, "check", "checks")
    );
    print(&text)?;
    Ok(DONE)
}

/// All checks of the machine, and the noise probe on the CPU that measures.
pub(super) fn checks(machine: &Machine, cpu: u32, span: Duration) -> Vec<Check> {
    let mut checks = quiet::checks(Path::new("/"), machine);
    checks.push(noise_check(cpu, span));
    checks
}

fn noise_check(cpu: u32, span: Duration) -> Check {
    let probed = affinity::restored(|| {
        affinity::restrict(&[cpu]).ok()?;
        let source = if counter_usable(cpu).is_ok() { Source::Counter } else { Source::MonotonicRaw };
        let clock = clock::calibrate(source, Duration::from_millis(20)).ok()?;
        Some(noise::probe(source, clock.hertz, span))
    });
    let (ok, known, detail) = match probed {
        Some(noise) => (noise.lost_share() <= NOISY_SHARE, true, noise_detail(cpu, &noise)),
        None => (false, false, format!("the noise of CPU {cpu} could not be probed")),
    };
    let remedy = (!ok && known)
        .then(|| "stop what else runs (top, then systemctl stop …), or choose a quieter CPU with --cpu N".to_owned());
    Check { check: "noise".to_owned(), ok, known, detail, effect: None, remedy }
}

fn noise_detail(cpu: u32, noise: &Noise) -> String {
    let unexplained = noise.gaps.saturating_sub(noise.preemptions.max(0) as u64);
    format!(
        "CPU {cpu} lost {} of {} in {}, the longest {}; {} were other tasks, {} interrupts, a hypervisor or firmware",
        percent(noise.lost_share()),
        quantity(noise.span, Unit::Nanoseconds),
        count(noise.gaps, "gap", "gaps"),
        quantity(noise.longest, Unit::Nanoseconds),
        noise.preemptions,
        unexplained,
    )
}

fn describe(check: &Check) -> String {
    let mark = match (check.ok, check.known) {
        (true, _) => "ok     ",
        (false, true) => "SPOILS ",
        (false, false) => "unknown",
    };
    let mut text = format!("{mark}  {}: {}", check.check, check.detail);
    if let Some(effect) = &check.effect {
        text += &format!("\nEffect: {effect}.");
    }
    if let Some(remedy) = &check.remedy {
        text += &format!("\nTo change it: {remedy}");
    }
    let mut lines = String::new();
    for (index, line) in folded(&text, 100).lines().enumerate() {
        lines += &format!("{}{line}\n", if index == 0 { "" } else { "         " });
    }
    lines
}
