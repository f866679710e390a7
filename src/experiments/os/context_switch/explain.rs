//! How the handoffs stand to each other, to system calls and to the curve over working sets.

use super::{CONDITION, Pairing, SAME, judge};
use crate::experiments::os::system_call::paid;
use crate::experiments::prelude::*;
use crate::results::quantity::DISTANCE;
use crate::results::ratio::{Order, unresolved_difference};
use crate::results::wording::{count, mark, significant, times};

/// The published handoff or net cost of a pairing.
fn found<'a>(findings: &'a Findings, name: &str, between: &'static str, through: &'static str) -> Option<&'a Metric> {
    let pairing = Pairing { between, through, placement: SAME.to_owned(), target: None };
    findings.metric(name, &pairing.labels())
}

pub(super) fn explain(study: &Study<'_>, findings: &mut Findings) {
    let said: Vec<String> = [
        gross_and_net(study, findings),
        other_cpus(findings),
        processes_and_threads(findings),
        passages(findings),
        condition(findings),
        forced(study),
        creation(study, findings),
        lines(study, findings),
        refill(study, findings),
    ]
    .into_iter()
    .flatten()
    .collect();
    for text in said {
        findings.say(text);
    }
    let (_, below) = judge::curves(study);
    if below > 0 {
        findings.say(format!(
            "In the curves over working sets, {} below the switch without data, and data cannot make a switch cheaper. \
             Most likely the subtracted sum in a warm cache costs more alone than within the handoff. Read them as no \
             measurable refill. A curve with less than half of it in each launch is not shown.",
            count(below as u64, "point is", "points are")
        ));
    }
}

fn nanoseconds(value: f64) -> String {
    significant(value, Unit::Nanoseconds, 2)
}

fn gross_and_net(study: &Study<'_>, findings: &Findings) -> Option<String> {
    let gross = found(findings, "os.context_switch.time", "processes", "pipe")?;
    let mut text = format!(
        "Between two processes on one CPU, one handoff of the token through a pipe takes {}. A round trip takes twice \
         as long, and some tools print the round trip.",
        gross.shown()
    );
    if let Some(net) = found(findings, "os.context_switch.net", "processes", "pipe") {
        text.push_str(&format!(
            " Without the cost of the pipe, {} remain for sleep, wake-up and switch{}.",
            net.shown(),
            net.cycles.map_or_else(String::new, |cycles| format!(" ({} cycles)", times(cycles))),
        ));
        let floor = paid(study.known, "enosys");
        if let Some(ratio) = floor.and_then(|floor| Ratio::of(net, floor, 1.0)) {
            text.push_str(&format!(" This is {} times the smallest system call.", ratio.text()));
        }
    }
    Some(text)
}

fn processes_and_threads(findings: &Findings) -> Option<String> {
    let processes = found(findings, "os.context_switch.time", "processes", "pipe")?;
    let threads = found(findings, "os.context_switch.time", "threads", "pipe")?;
    let taken = format!("A handoff between threads takes {}", threads.shown());
    let difference = nanoseconds((processes.shown().value - threads.shown().value).abs());
    Some(match Order::of(processes, threads) {
        Order::Larger(_) => format!(
            "{taken}, {difference} less than between processes, which change the page table and refill the TLB."
        ),
        Order::Smaller(_) => {
            format!("{taken}, {difference} more than between processes, although threads keep the page table.")
        }
        Order::Alike => {
            let open = unresolved_difference(processes, threads);
            format!("{taken}, and between processes {}. {open}.", processes.shown())
        }
        Order::Open => format!("{taken}, and between processes {}.", processes.shown()),
    })
}

/// What a condition variable adds to the futex below it.
fn condition(findings: &Findings) -> Option<String> {
    let [futex, condition] =
        ["futex", CONDITION].map(|through| found(findings, "os.context_switch.time", "threads", through));
    let text = format!("Threads pay {} for a handoff through a condition variable", condition?.shown());
    Some(futex.map_or_else(|| format!("{text}."), |futex| format!("{text}, and {} through a futex.", futex.shown())))
}

fn passages(findings: &Findings) -> Option<String> {
    let shown: Option<Vec<Shown>> = ["pipe", "eventfd", "futex"]
        .into_iter()
        .map(|through| Some(found(findings, "os.context_switch.time", "processes", through)?.shown()))
        .collect();
    let [pipe, eventfd, futex] = shown?[..] else { return None };
    Some(format!(
        "The channel is part of the handoff: {pipe} through a pipe, {eventfd} through an eventfd, {futex} through a \
         futex."
    ))
}

/// How the scheduler switched.
fn forced(study: &Study<'_>) -> Option<String> {
    let pairing = Pairing { between: "processes", through: "pipe", placement: SAME.to_owned(), target: None };
    let shares = study.values("hop.forced", &pairing.labels());
    Some(format!(
        "Of the switches between processes through a pipe, {} were involuntary. The woken task preempted its waker \
         before the waker had gone to sleep.",
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
        "The creation and end of a process without exec cost as much as {} handoffs. A pool of waiting processes \
         avoids this cost.",
        Ratio::of(created, switch, 1.0)?.text()
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
    let mut text =
        format!("A handoff to another CPU ({}) takes {} if that CPU is idle", place(&idle.labels), idle.shown());
    text.push_str(
        &of("awake")
            .map_or_else(|| ".".to_owned(), |awake| format!(" and {} if another task keeps it awake.", awake.shown())),
    );
    Some(text)
}

/// Where the other CPU is, with its distance where that is distinguished.
fn place(labels: &Labels) -> String {
    let placement = labels.get("placement").unwrap_or_default().replace('_', " ");
    labels.get(DISTANCE).map_or_else(|| placement.clone(), |distance| format!("{placement}, {distance}"))
}

fn lines(study: &Study<'_>, findings: &Findings) -> Option<String> {
    let lines: Vec<&Metric> =
        findings.metrics.iter().filter(|metric| metric.name == "os.cache_line_transfer.time").collect();
    // On one machine the way is what it is: a factor of two between launches is another way.
    let moved = lines.iter().any(|line| line.interval95[1] > 2.0 * line.interval95[0]);
    let moved = if moved {
        " The time differed between launches by more than a factor of two, so the distance of the CPUs changed."
    } else {
        ""
    };
    (!lines.is_empty()).then_some(())?;
    let all: Vec<String> = lines.iter().map(|line| format!("{} ({})", line.shown(), place(&line.labels))).collect();
    let apart = if lines.iter().any(|line| line.labels.get(DISTANCE).is_some()) {
        " The host moved these virtual CPUs during the run. Results with two CPUs are given for both distances, by \
         the transfer time of the line before and after each batch."
    } else {
        ""
    };
    let guest = if study.setup.machine.is_guest() {
        " A guest sees the caches that its hypervisor reports. Virtual CPUs may be further apart than the label states."
    } else {
        ""
    };
    Some(format!(
        "Two tasks that poll pass a cache line in {}. A lock between them cannot change hands \
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
            format!(" This exceeds the level {level} cache ({}).", mark(size, Unit::Bytes))
        });
    let told =
        if last[2] > first[3] { "" } else { " The ranges over launches overlap, so the refill is not resolved." };
    Some(format!(
        "In a ring of {members} processes a switch costs {} without data, and {} when each process sums {}. All of \
         them sum {}.{cache}{told}",
        nanoseconds(first[1]),
        nanoseconds(last[1]),
        mark(last[0], Unit::Bytes),
        mark(total, Unit::Bytes),
    ))
}
