//! How the hops stand to each other, to system calls and to the curve over working sets.

use super::{Pairing, SAME, judge};
use crate::evaluate::findings::Findings;
use crate::evaluate::study::Study;
use crate::results::document::Metric;
use crate::results::quantity::{DISTANCE, Labels, Unit};
use crate::results::wording::{count, number, percent, quantity};
use crate::statistics::summary::median;

/// The published hop or net cost of a pairing.
fn found<'a>(findings: &'a Findings, name: &str, between: &'static str, through: &'static str) -> Option<&'a Metric> {
    let pairing = Pairing { between, through, placement: SAME.to_owned(), target: None };
    findings.metric(name, &pairing.labels())
}

pub(super) fn explain(study: &Study<'_>, findings: &mut Findings) {
    let (_, unresolved) = judge::curves(study);
    if unresolved > 0 {
        findings.say(format!(
            "{} of the curves over working sets would lie below the switch without data, which no switch can. Most likely the sum in a warm cache that is taken off costs more alone than within the hop. They are not shown.",
            count(unresolved as u64, "point", "points")
        ));
    }
    let said: Vec<String> = [
        gross_and_net(study, findings),
        processes_and_threads(findings),
        passages(findings),
        forced(study),
        creation(study, findings),
        other_cpus(findings),
        lines(study, findings),
        refill(study, findings),
    ]
    .into_iter()
    .flatten()
    .collect();
    for text in said {
        findings.say(text);
    }
}

fn nanoseconds(value: f64) -> String {
    quantity(value, Unit::Nanoseconds)
}

fn gross_and_net(study: &Study<'_>, findings: &Findings) -> Option<String> {
    let gross = found(findings, "os.context_switch.time", "processes", "pipe")?;
    let mut text = format!(
        "Between two processes on one CPU, one hop of the token through a pipe takes {}; a round trip takes twice that, and \
         some tools print the round trip.",
        nanoseconds(gross.value)
    );
    if let Some(net) = found(findings, "os.context_switch.net", "processes", "pipe") {
        text.push_str(&format!(
            " Less the pipe's own cost, {} are left for going to sleep, waking and switching{}.",
            nanoseconds(net.value),
            net.cycles.map_or_else(String::new, |cycles| format!(" ({} cycles)", number(cycles))),
        ));
        let floor = study.metric("os.system_call.time", &Labels::of([("call", "enosys")]));
        if let Some(floor) = floor {
            text.push_str(&format!(" That is {} times the smallest system call.", number(net.value / floor.value)));
        }
    }
    Some(text)
}

fn processes_and_threads(findings: &Findings) -> Option<String> {
    let processes = found(findings, "os.context_switch.time", "processes", "pipe")?;
    let threads = found(findings, "os.context_switch.time", "threads", "pipe")?;
    let difference = processes.value - threads.value;
    // Two intervals that overlap do not show a difference.
    if threads.interval95[1] < processes.interval95[0] {
        Some(format!(
            "Threads hop in {}, {} less than processes: what changing the page table, and finding translations gone, adds.",
            nanoseconds(threads.value),
            nanoseconds(difference)
        ))
    } else if processes.interval95[1] < threads.interval95[0] {
        Some(format!(
            "Threads hop in {}, {} more than processes: keeping the page table saves less here than something else costs them.",
            nanoseconds(threads.value),
            nanoseconds(-difference)
        ))
    } else {
        Some(format!(
            "Threads hop in {}: within the intervals no different from processes, so changing the page table costs nothing that \
             can be seen.",
            nanoseconds(threads.value)
        ))
    }
}

fn passages(findings: &Findings) -> Option<String> {
    let times: Option<Vec<f64>> = ["pipe", "eventfd", "futex"]
        .into_iter()
        .map(|through| Some(found(findings, "os.context_switch.time", "processes", through)?.value))
        .collect();
    let [pipe, eventfd, futex] = times?[..] else { return None };
    Some(format!(
        "What carries the token is part of the hop: {} through a pipe, {} through an eventfd, {} through a futex.",
        nanoseconds(pipe),
        nanoseconds(eventfd),
        nanoseconds(futex)
    ))
}

/// How the scheduler switched.
fn forced(study: &Study<'_>) -> Option<String> {
    let pairing = Pairing { between: "processes", through: "pipe", placement: SAME.to_owned(), target: None };
    let shares = study.values("hop.forced", &pairing.labels());
    Some(format!(
        "Of the switches between processes through a pipe {} were forced: the task that was woken pushed its waker aside before that \
         one had gone to sleep by itself.",
        percent(median(&shares)?)
    ))
}

/// Switching against creating: what a pool of tasks saves.
fn creation(study: &Study<'_>, findings: &Findings) -> Option<String> {
    let switch = found(findings, "os.context_switch.time", "processes", "pipe")?;
    let created = study.metric(
        "os.process_creation.time",
        &Labels::of([("how", "fork_wait"), ("child", "same_cpu"), ("resident", "0")]),
    )?;
    Some(format!(
        "A process that lives and ends, without executing anything, costs as much as {} hops: handing work to a waiting process \
         is cheaper than making one by that much.",
        number(created.value / switch.value)
    ))
}

fn other_cpus(findings: &Findings) -> Option<String> {
    let wake_ups: Vec<&Metric> = findings
        .metrics
        .iter()
        .filter(|metric| {
            metric.name == "os.context_switch.time"
                && metric.labels.get("between") == Some("processes")
                && metric.labels.get("through") == Some("pipe")
                && metric.labels.get("placement") != Some(SAME)
        })
        .collect();
    let of = |target: &str| wake_ups.iter().find(|metric| metric.labels.get("target") == Some(target));
    let idle = of("idle")?;
    let mut text = format!(
        "Waking a process on another CPU ({}) takes {} a hop when that CPU has gone idle",
        place(&idle.labels),
        nanoseconds(idle.value)
    );
    text.push_str(&of("awake").map_or_else(
        || ".".to_owned(),
        |awake| format!(" and {} when something keeps it awake.", nanoseconds(awake.value)),
    ));
    Some(text)
}

/// Where the other CPU is, with its distance where that was told apart.
fn place(labels: &Labels) -> String {
    let placement = labels.get("placement").unwrap_or_default();
    labels.get(DISTANCE).map_or_else(|| placement.to_owned(), |distance| format!("{placement}, {distance}"))
}

fn lines(study: &Study<'_>, findings: &Findings) -> Option<String> {
    let lines: Vec<&Metric> =
        findings.metrics.iter().filter(|metric| metric.name == "os.cache_line_transfer.time").collect();
    // On one machine the way is what it is: a factor of two between launches is another way.
    let moved = lines.iter().any(|line| line.interval95[1] > 2.0 * line.interval95[0]);
    let moved = if moved {
        " It differed between launches by more than twice: the CPUs did not stay where they were."
    } else {
        ""
    };
    (!lines.is_empty()).then_some(())?;
    let all: Vec<String> =
        lines.iter().map(|line| format!("{} ({})", nanoseconds(line.value), place(&line.labels))).collect();
    let apart = if lines.iter().any(|line| line.labels.get(DISTANCE).is_some()) {
        " The host moved these virtual CPUs during the run: figures with two CPUs are given for both distances, by the time of \
         the line right before and right after each batch."
    } else {
        ""
    };
    let guest = if study.setup.machine.is_guest() {
        " A guest sees what its hypervisor says about caches: virtual CPUs may lie further apart than the label claims."
    } else {
        ""
    };
    Some(format!(
        "Two tasks that wait without sleeping pass a cache line in {}; no lock between them can change hands \
         faster.{guest}{apart}{moved}",
        all.join(", "),
    ))
}

/// Where the curve of the largest pair of ring and set has risen, and which cache that is beyond.
fn refill(study: &Study<'_>, findings: &Findings) -> Option<String> {
    let curve = findings.curves.iter().rev().find(|curve| curve.points.len() > 1)?;
    let members: usize = curve.labels.get("processes")?.parse().ok()?;
    let (first, last) = (curve.points.first()?, curve.points.last()?);
    let total = last[0] * members as f64;
    let cache = study
        .setup
        .machine
        .caches_of(study.setup.cpu)
        .into_iter()
        .filter_map(|cache| Some((cache.level, cache.size_bytes.best()?.value as f64)))
        .filter(|(_, size)| *size < total)
        .max_by_key(|(level, _)| *level)
        .map_or_else(String::new, |(level, size)| {
            format!(", more than the level {level} cache of {} holds", quantity(size, Unit::Bytes))
        });
    Some(format!(
        "In a ring of {members} processes a switch costs {} without data and {} when each sums up {}, together {}{cache}.",
        nanoseconds(first[1]),
        nanoseconds(last[1]),
        quantity(last[0], Unit::Bytes),
        quantity(total, Unit::Bytes),
    ))
}
