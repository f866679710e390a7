//! `sysdyno doctor`: what would spoil measurements here. It looks and changes nothing.

use std::path::Path;
use std::time::Duration;

use super::arguments::DoctorOptions;
use super::{DONE, Failure, json, neighbours, print, terminal_width};
use crate::conduct::prepare::counter_usable;
use crate::machine::quiet::Check;
use crate::machine::{self, CpuList, Machine, quiet};
use crate::neighbour::presence::Presence;
use crate::plan;
use crate::report::terminal::folded;
use crate::results::quantity::Unit;
use crate::results::wording::{count, percent, quantity};
use crate::rig::clock;
use crate::rig::noise::{self, Noise};
use crate::sys::affinity;
use crate::sys::clock::Source;

/// Columns of a line, at most, and what stands before all lines of a check but the first.
const MOST_COLUMNS: u16 = 109;
const INDENT: &str = "         ";
/// How long the noise probe reads the clock.
const NOISE_SPAN: Duration = Duration::from_millis(200);
/// Loss beyond which a CPU is noisy: timer interrupts of an idle machine take a few tenths of a percent.
const NOISY_SHARE: f64 = 0.01;
/// How long each core is looked at.
const LOOK_SPAN: Duration = Duration::from_millis(200);
/// Pause between two of its looks at a CPU: virtual CPUs of this machine can share a core without a sign, and must not see each other.
const LOOK_PAUSE: Duration = Duration::from_millis(1);
/// Share of the looks up to which no neighbour is reported: an interrupt of an idle machine spoils one now and then.
const NOBODY: f64 = 0.001;
/// CPUs that are named with their share. Of more, those with the largest are.
const MOST_NAMED: usize = 8;

pub(super) fn doctor(options: &DoctorOptions) -> Result<u8, Failure> {
    let scratch = options.scratch.as_deref().unwrap_or(Path::new("."));
    let machine = machine::detect(Path::new("/"), scratch);
    let cpu = plan::choose_cpu(options.cpu, &affinity::allowed(), &machine)?;
    let mut checks = checks(&machine, cpu, NOISE_SPAN);
    look_at_cores(&mut checks, &machine);
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
        "\nOf {}, {spoil} found a disturbance and {unknown} could not run. Nothing was changed.\n",
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

/// Reads the clock of a CPU without pause.
fn noise_of(cpu: u32, span: Duration) -> Option<Noise> {
    affinity::restored(|| {
        affinity::restrict(&[cpu]).ok()?;
        let source = if counter_usable(cpu).is_ok() { Source::Counter } else { Source::MonotonicRaw };
        let clock = clock::calibrate(source, Duration::from_millis(20)).ok()?;
        Some(noise::probe(source, clock.hertz, span))
    })
}

/// Share of the time that a CPU was not there for this process; none where it cannot be looked at.
pub(super) fn lost_share(cpu: u32, span: Duration) -> Option<f64> {
    noise_of(cpu, span).map(|noise| noise.lost_share())
}

fn noise_check(cpu: u32, span: Duration) -> Check {
    let found = noise_of(cpu, span);
    let (ok, known, detail) = match &found {
        Some(noise) => (noise.lost_share() <= NOISY_SHARE, true, noise_detail(cpu, noise)),
        None => (false, false, format!("the noise of CPU {cpu} could not be measured")),
    };
    let by_tasks = found.is_some_and(|noise| 2 * noise.preemptions.max(0) as u64 >= noise.gaps);
    let remedy = (!ok && known).then(|| {
        let tasks = if by_tasks { "stop other tasks (top, then systemctl stop …), or " } else { "" };
        format!("{tasks}choose a quieter CPU with --cpu N")
    });
    Check { check: "noise".to_owned(), ok, known, detail, effect: None, remedy }
}

/// Adds what was seen on the cores. Where no CPU shows a sibling, this shows more than the check that looks for siblings.
fn look_at_cores(checks: &mut Vec<Check>, machine: &Machine) {
    let found = neighbour_check(machine);
    if found.known {
        checks.retain(|check| check.check != "siblings" || !check.ok);
    }
    checks.push(found);
}

/// Looks at every core at the same time, at each from one of its CPUs: two threads of one core would see each other.
fn neighbour_check(machine: &Machine) -> Check {
    let mut cpus: Vec<u32> = Vec::new();
    for cpu in affinity::allowed() {
        if !cpus.iter().any(|&other| machine.share_core(cpu, other)) {
            cpus.push(cpu);
        }
    }
    let seen = neighbours::start(&cpus, LOOK_PAUSE).map(|mut watch| {
        std::thread::sleep(LOOK_SPAN);
        watch.take()
    });
    let (ok, known, detail) = match seen {
        Ok(seen) => {
            let share = |looks: &[_]| Presence::default().add(looks).share_of_decided();
            let shares: Vec<(u32, f64)> =
                seen.iter().filter_map(|seen| Some((seen.cpu, share(&seen.looks)?))).collect();
            let worst = shares.iter().map(|(_, share)| *share).fold(0.0, f64::max);
            (worst <= NOISY_SHARE && !shares.is_empty(), !shares.is_empty(), neighbour_detail(shares))
        }
        Err(problem) => (false, false, format!("the cores could not be watched: {}", problem.what)),
    };
    let remedy = (!ok && known).then(|| {
        let shows_siblings = machine.cpu.logical.iter().any(|cpu| cpu.siblings.len() > 1);
        let own = if shows_siblings { "stop your own tasks on the sibling CPUs, or " } else { "" };
        format!(
            "{own}measure at another time, or on a machine with dedicated cores. `sysdyno neighbours` shows the \
                 neighbours over time"
        )
    });
    Check { check: "neighbours".to_owned(), ok, known, detail, effect: None, remedy }
}

/// Which of the cores had a neighbour for which share of the time.
fn neighbour_detail(mut shares: Vec<(u32, f64)>) -> String {
    let span = format!("{} ms", LOOK_SPAN.as_millis());
    let on = |cpus: &[(u32, f64)]| {
        let plural = if cpus.len() == 1 { "core of CPU" } else { "cores of CPUs" };
        format!("the {plural} {}", CpuList::of(cpus.iter().map(|(cpu, _)| *cpu)))
    };
    if shares.is_empty() {
        return format!("no look within {span} showed whether a neighbour was present");
    }
    shares.sort_by(|one, other| other.1.total_cmp(&one.1));
    let (visited, quiet) = shares.split_at(shares.iter().filter(|(_, share)| *share > NOBODY).count());
    if visited.is_empty() {
        return format!("no neighbour was on {} within {span}", on(quiet));
    }
    let named = |(cpu, share): &(u32, f64)| format!("of CPU {cpu} for {}", percent(*share));
    let mut text = format!("a neighbour was on the core {} of {span}", named(&visited[0]));
    for more in visited.iter().take(MOST_NAMED).skip(1) {
        text += &format!(", {}", named(more));
    }
    if visited.len() > MOST_NAMED {
        text += &format!(", and for less on {}", on(&visited[MOST_NAMED..]));
    }
    if !quiet.is_empty() {
        text += &format!(", and none on {}", on(quiet));
    }
    text
}

fn noise_detail(cpu: u32, noise: &Noise) -> String {
    let unexplained = noise.gaps.saturating_sub(noise.preemptions.max(0) as u64);
    format!(
        "CPU {cpu} lost {} of {} in {} (longest {}). Other tasks caused {} of them. Interrupts, a hypervisor or firmware caused {}",
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
        (false, true) => "PROBLEM",
        (false, false) => "unknown",
    };
    let mut text = format!("{mark}  {}: {}", check.check, check.detail);
    if let Some(effect) = &check.effect {
        text += &format!("\nEffect: {effect}.");
    }
    if let Some(remedy) = &check.remedy {
        text += &format!("\nFix: {remedy}");
    }
    let width = usize::from(terminal_width().unwrap_or(MOST_COLUMNS)).min(MOST_COLUMNS.into());
    let width = width.saturating_sub(INDENT.len()).max(20);
    let mut lines = String::new();
    for (index, line) in folded(&text, width).lines().enumerate() {
        lines += &format!("{}{line}\n", if index == 0 { "" } else { INDENT });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_named_by_their_share() {
        for (shares, said) in [
            (vec![], "no look within 200 ms showed whether a neighbour was present"),
            (vec![(0, 0.0)], "no neighbour was on the core of CPU 0 within 200 ms"),
            (vec![(0, 0.0), (1, 0.0004)], "no neighbour was on the cores of CPUs 0-1 within 200 ms"),
            (
                vec![(0, 0.02), (1, 0.31)],
                "a neighbour was on the core of CPU 1 for 31 % of 200 ms, of CPU 0 for 2.00 %",
            ),
            (
                vec![(0, 0.31), (2, 0.0), (4, 0.0)],
                "a neighbour was on the core of CPU 0 for 31 % of 200 ms, and none on the cores of CPUs 2,4",
            ),
        ] {
            assert_eq!(neighbour_detail(shares), said);
        }
        let many = neighbour_detail((0..20).map(|cpu| (cpu, 0.5)).collect());
        assert!(many.ends_with(", of CPU 7 for 50 %, and for less on the cores of CPUs 8-19"), "{many}");
    }
}
