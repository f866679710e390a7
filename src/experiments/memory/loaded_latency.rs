//! # Question
//!
//! How much longer does one load from memory take while the other CPUs use the memory too?
//!
//! # Method
//!
//! One CPU follows a random pointer chain through the footprint of `memory.latency`, which only main memory holds. Each
//! load needs the result of the load before it, in an order that no prefetcher follows. Each of the other CPUs is idle,
//! reads half of the time, or reads without a pause. Each has a separate footprint of that kind. The levels of traffic
//! are:
//!
//! - **idle**: no reads.
//! - **half**: 16 KiB, then a pause of the same duration, repeatedly.
//! - **full**: reads without a pause.
//!
//! The analysis shows the latency with the rate at which the other CPUs read.
//!
//! **Distance.** A host moves virtual CPUs, and CPUs that are far apart need not share the path to the memory. If one
//! other CPU reads, the transfer time of a cache line to it is measured before and after each level of traffic. If the
//! times form two groups, both have results (near, far), as in `memory.bandwidth`. Latencies are compared at one
//! distance only.
//!
//! A batch is 2048 loads and continues where the last batch stopped. Each launch measures the three levels of traffic
//! in random order. Before each load, sysdyno removes the chain from every cache. The chase then warms the address
//! translation with one access per 4 KiB of the footprint. All memory is on huge pages where available, verified after
//! writing. Idle repeats a measurement of `memory.latency` in separate launches. The two results agree within their
//! intervals, unless the traffic of neighbours changed between them. A quick run omits footprints of more than 512 MiB.
//!
//! # Prediction
//!
//! The latency of main memory, from this run where measured, times a factor from records of other runs.
//!
//! # What could fool us
//!
//! - One other CPU rarely fills the channels, so "full" is all that the allowed CPUs can read, not all that the memory
//!   can deliver.
//! - In a guest, the traffic of neighbours on the same host is part of idle too.
//! - The first hundred thousand loads after other work also wait for page tables, in a guest for the host's too. They
//!   took 300 ns where later loads took 200 ns.
//! - A thread on the CPU of the chain would be measured instead of the memory. Each thread is on a separate CPU.
//! - The last cache can hold the footprint. A footprint below four times that cache is refused.
//!
//! # References
//!
//! Intel Memory Latency Checker, loaded latencies. google/multichase, `multiload`. Little, Operations Research 1961.

use crate::evaluate::distance::LINES;
use crate::experiments::memory::buffer;
use crate::experiments::memory::footprint::{self, BYTES_PER_LOAD, MEMORY};
use crate::experiments::memory::selection::Scattered;
use crate::experiments::memory::streams;
use crate::experiments::no_caveats;
use crate::experiments::prelude::*;
use crate::results::quantity::DISTANCE;
use crate::results::ratio::{Order, unresolved_difference};
use crate::results::wording::times;
use crate::rig::member::Pass;
use crate::rig::team::{Team, Together};
use crate::sys::chain::LOADS_PER_TURN;
use crate::sys::clock::Source;
use crate::sys::spinner::{Duty, Spinner};
use crate::sys::stream::{LINE, Operation, Stream, Vectors};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "memory.loaded_latency",
    title: "Loaded latency",
    measures: "latency of a load from memory while the other CPUs read",
    method_version: 3,
    precision: Precision { target: 0.1, between: 0.05, busy: 0.1 },
    source: heading!("loaded_latency.rs"),
    needs: &[
        Need {
            id: "two_cpus",
            what: "two CPUs and memory for footprints larger than the last cache",
            check: two_cpus,
            caveats: no_caveats,
        },
        Need {
            id: "account_of_pages",
            what: "a kernel that reports which pages hold the memory",
            check: account_of_pages,
            caveats: no_caveats,
        },
        Need { id: "time", what: "time to fill these footprints", check: time_to_fill, caveats: no_caveats },
    ],
    uses: &["memory.latency.level"],
    rules: RULES,
    publishes: &[Publication::cost(
        LOADED,
        Unit::Nanoseconds,
        "one dependent load from memory while the other CPUs read",
    )
    .in_summary()],
    seconds: |_| 0.25,
    time_out: 60.0,
    memory: |setup, _| footprint::most_memory(setup, 2),
    predict,
    measure,
    figures,
    explain,
    ..Experiment::DEFAULT
};

const LOADED: &str = "memory.loaded_latency.time";

/// Bytes of a read of a thread that loads the memory half of the time, before it pauses as long.
const PULSE: usize = 16 << 10;
/// Bytes of a read without pauses.
const PASS: usize = 1 << 20;
/// Turns of 64 loads in a batch of the chase: some 200 µs.
const CHASE_TURNS: u64 = 32;
/// The loads under which latency is measured.
const LOADS: [&str; 3] = ["idle", "half", "full"];
/// No load from DRAM takes less, in nanoseconds.
const LATENCY_FLOOR: f64 = 35.0;
/// Largest footprint of a quick run, in bytes.
const MOST_QUICK: usize = 512 << 20;
/// Slack of the rule that more load does not make loads faster.
const SLACK: f64 = 0.05;
/// Largest distance of the interval from that of the experiment on latency for the same load.
const AGREEMENT: f64 = 0.02;

rules! {
    FLOOR: "G8" Hard "`memory.loaded_latency`", "a load from DRAM takes at least {}", time(LATENCY_FLOOR);
    NOT_FASTER: "G20" Noisy "`memory.loaded_latency`", "loads do not become faster under more load ({})", share(SLACK);
    AGREES: "G40" Noisy "`memory.loaded_latency` load=idle",
        "the intervals of an idle load here and in `memory.latency` on the same pages are at most {} apart",
        share(AGREEMENT);
}

fn two_cpus(setup: &Setup) -> Result<(), Problem> {
    let machine = &setup.machine;
    if setup.allowed.len() < 2 {
        return Err(Problem::new("only one CPU is allowed, so no other CPU can load the memory")
            .hint("start sysdyno with more CPUs in its affinity mask (taskset, cpuset)"));
    }
    let half = machine.launch_memory_bytes() / 2;
    let level = footprint::memory_level(setup, &setup.allowed[..1], half).map(|level| level.name);
    match level {
        Ok(name) if name == MEMORY => Ok(()),
        Ok(name) => Err(Problem::new(format!(
            "the available memory allows only a footprint of {name}, which the last cache \
                                      may hold"
        ))
        .hint("free memory, or raise the memory limit of the container")),
        Err(reason) => Err(Problem::new(reason).hint("free memory, or raise the memory limit of the container")),
    }
}

/// A footprint is verified before it is read. An emulator in user mode shows no pages of the program that it runs.
fn account_of_pages(setup: &Setup) -> Result<(), Problem> {
    let Some(emulator) = &setup.machine.cpu.emulator else { return Ok(()) };
    let why = format!("{} does not report which pages hold the memory, so no footprint is verified", emulator.value);
    Err(Problem::new(why).hint("use a build for the architecture of this machine"))
}

/// A first look has no time for footprints that take seconds to be had.
fn time_to_fill(setup: &Setup) -> Result<(), Problem> {
    let level = footprint::memory_level(setup, &setup.allowed[..1], setup.machine.launch_memory_bytes() / 2);
    match level {
        Ok(level) if setup.profile.is_quick() && level.bytes > MOST_QUICK => Err(Problem::new(format!(
            "a quick run omits it, because it fills two footprints of {} beyond the last cache",
            quantity(level.bytes as f64, Unit::Bytes)
        ))
        .hint("run without --quick")),
        _ => Ok(()),
    }
}

fn labels(load: &str) -> Labels {
    Labels::of([("load", load)])
}

/// Labels of the record of the chase's memory.
fn about() -> Labels {
    Labels::of([("load", "idle"), ("pages", "huge")])
}

fn predict(_: &PredictionInput<'_>) -> Vec<Prediction> {
    LOADS.map(|load| Prediction::of(LOADED, labels(load), Unit::Nanoseconds)).to_vec()
}

/// One CPU follows pointers, the others read.
fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let cpus = footprint::cpus_of(rig.setup());
    let refused = |reason: String| {
        Problem::new(format!("cannot load the memory: {reason}"))
            .hint("free memory, or raise the memory limit of the container")
    };
    let half = rig.memory() / 2;
    let chased = footprint::memory_level(rig.setup(), &cpus[..1], half).map_err(refused)?;
    let streamed = footprint::memory_level(rig.setup(), &cpus[1..], half).map_err(refused)?;
    // A host can move either CPU of a pair. First, because only a task without threads is copied whole, and a small one soon.
    let partner = match cpus[..] {
        [_, other] => Spinner::new(other, Duty::Answer).ok(),
        _ => None,
    };
    let (_, mut arena) = buffer::obtain(rig, chased.bytes, Pages::Huge, &about())?.map_err(refused)?;
    rig.record("footprint", about(), Unit::Bytes, vec![chased.bytes as f64])?;
    let line = footprint::line_bytes(rig.setup()) as usize;
    let mut chain = Scattered::lay(&mut arena, chased.bytes, line, rig.random())
        .map_err(|fault| Problem::new(format!("the pointer chain through the memory is not one cycle: {fault}")))?;
    let equip = readers(rig.source()?, streamed.bytes, half);
    let mut team = Team::beside(&cpus[1..], rig.source()?, equip).map_err(refused)?;
    rig.remark("cpus", &format!("{:?}", team.cpus()));
    let hertz = rig.ticks(1e9);
    let mut order = [0, 1, 2];
    rig.random().shuffle(&mut order);
    for job in order {
        let load = LOADS[job];
        let before = partner.as_ref().map(|partner| rig.line_to(partner));
        if load != "idle" {
            team.begin(job, hertz).map_err(refused)?;
        }
        // What the others have done left the caches without what translates addresses; far within a long walk it is there.
        chain.prepare(chased.bytes / BYTES_PER_LOAD as usize);
        let workload = Workload::of("chase", labels(load), LOADS_PER_TURN, |turns| {
            chain.walk(turns);
            Ok(())
        });
        let sampled = rig.sample(vec![workload.sized(Sizing::Exactly(CHASE_TURNS)).unclocked()]);
        if load != "idle" {
            let Together { ticks, bytes, .. } = team.end(hertz).map_err(refused)?;
            rig.record("load", labels(load), Unit::BytesPerSecond, vec![bytes / rig.nanoseconds(ticks) * 1e9])?;
        }
        let after = partner.as_ref().map(|partner| rig.line_to(partner));
        if let Some((before, after)) = before.zip(after) {
            rig.record(&format!("chase{LINES}"), labels(load), Unit::Nanoseconds, vec![before, after])?;
        }
        sampled?;
    }
    Ok(())
}

/// What the other CPUs do, by the number of the load, each in separate memory.
pub fn readers(
    source: Source,
    bytes: usize,
    allowed: u64,
) -> impl Fn(usize) -> Result<Pass, String> + Send + Sync + 'static {
    move |_| {
        let (_, mut arena) = buffer::take_either(bytes as u64, Pages::Huge, None, allowed)?;
        let mut full = Stream::new(Vectors::widest(), Operation::Read, bytes, PASS);
        let mut pulse = Stream::new(Vectors::widest(), Operation::Read, bytes, PULSE);
        Ok(Box::new(move |job| {
            if LOADS[job] == "full" {
                return full.step(&mut arena);
            }
            let began = source.stamp().ticks;
            let read = pulse.step(&mut arena);
            let now = source.stamp().ticks;
            while source.stamp().ticks < 2 * now - began {
                std::hint::spin_loop();
            }
            read
        }))
    }
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    for load in LOADS {
        for labels in study.by_distance("chase", &labels(load)) {
            publish(study, findings, load, &labels);
        }
    }
}

/// A load's latency with one kind of traffic, at one distance of the other CPU where that is distinguished.
fn publish(study: &Study<'_>, findings: &mut Findings, load: &str, labels: &Labels) {
    let estimate = |labels: &Labels| study.sample("chase", labels).as_ref().and_then(Estimate::median);
    let Some(found) = estimate(labels) else { return };
    let mut own = vec![
        buffer::footprint_gate(study, &about(), 1),
        gates::floor(&FLOOR, &found, LATENCY_FLOOR).because("no load from DRAM completes in less"),
    ];
    own.extend(buffer::account_gates(study, &about()));
    let less = LOADS.into_iter().take_while(|less| *less != load);
    let slowest = less.filter_map(|less| Some(estimate(&at(less, labels))?.value)).reduce(f64::max);
    if let Some(slowest) = slowest {
        let reason = format!("{} under less load, less {}", quantity(slowest, found.unit), Number::share(SLACK).text());
        own.push(Gate::at_least(&NOT_FASTER, found.named("{}"), (1.0 - SLACK) * slowest).because(reason));
    }
    if load == "idle" {
        own.extend(unloaded(study).map(|elsewhere| agreement(found.interval, elsewhere)));
    }
    let named = footprint::labelled(labels.clone(), footprint::recorded(study, &about()));
    findings.publish(study, Figure::batches(LOADED, named, &found).gates(own));
}

/// Labels of a load at the distance of other labels.
fn at(load: &str, of: &Labels) -> Labels {
    of.get(DISTANCE).map_or_else(|| labels(load), |distance| labels(load).with(DISTANCE, distance))
}

/// What the experiment on latency found for the same load in this run, on the pages that the launches got.
fn unloaded<'a>(study: &Study<'a>) -> Option<&'a Metric> {
    let huge = study.values("huge_pages", &about()).into_iter().reduce(f64::min)? > 0.5;
    let pages = if huge { "huge" } else { "4k" };
    study.metric("memory.latency.level", &Labels::of([("level", MEMORY), ("pages", pages)]))
}

/// Two intervals of one quantity overlap, or nearly.
fn agreement([low, high]: [f64; 2], elsewhere: &Metric) -> Gate {
    let apart = (low - elsewhere.interval95[1]).max(elsewhere.interval95[0] - high).max(0.0);
    let apart = Number::share(apart / elsewhere.value).named("{} apart");
    Gate::at_most(&AGREES, apart, AGREEMENT).because(format!("memory.latency found {}", elsewhere.text()))
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    let time = |findings: &Findings, labels: &Labels| findings.metric(LOADED, labels).cloned();
    let idle = study.by_distance("chase", &labels("idle"));
    let read = study.metric("memory.bandwidth.rate", &streams::labels(Operation::Read, MEMORY, 1));
    if let (Some(idle), Some(read)) = (idle.first().and_then(|labels| time(findings, labels)), read) {
        findings.say(format!(
            "By Little's law, one thread that reads {} at {} per load has {} lines of {LINE} bytes in flight at \
             once.",
            read.shown(),
            idle.shown(),
            times(read.shown().value * idle.shown().value / LINE as f64 / 1e9)
        ));
    }
    for load in ["half", "full"] {
        for labels in study.by_distance("chase", &labels(load)) {
            let Some(loaded) = time(findings, &labels) else { continue };
            let idle = time(findings, &at("idle", &labels));
            findings.say(under_traffic(traffic(study, load, &labels), &loaded, idle.as_ref()));
        }
    }
}

/// Rates at which the other CPUs read, in the launches that have batches with these labels.
fn traffic(study: &Study<'_>, load: &str, at: &Labels) -> Option<f64> {
    let there: Vec<u32> = study.numbered_series("chase", at).into_iter().map(|(launch, _)| launch).collect();
    let all = study.numbered_series("load", &labels(load)).into_iter();
    let rates: Vec<f64> =
        all.filter(|(launch, _)| there.contains(launch)).flat_map(|(_, of)| of.values.clone()).collect();
    median(&rates)
}

/// What traffic does to a load, compared at one distance of the other CPU.
fn under_traffic(moved: Option<f64>, loaded: &Metric, idle: Option<&Metric>) -> String {
    let moved = moved.map_or_else(String::new, |moved| format!(" {}", Shown::of(moved, Unit::BytesPerSecond)));
    let place = loaded.labels.get(DISTANCE).map_or_else(String::new, |distance| format!(" ({distance})"));
    let begin = format!("While the other CPUs{place} read{moved}, a load takes {}", loaded.shown());
    let Some(idle) = idle else { return format!("{begin}.") };
    let idle_text = idle.shown();
    match Order::of(loaded, idle) {
        Order::Larger(ratio) => format!("{begin}, {} times its idle latency of {idle_text}.", ratio.text()),
        Order::Smaller(_) => format!(
            "{begin}, and without traffic {idle_text}. Latency did not rise with traffic. Other activity on this \
             machine outweighed the added traffic."
        ),
        Order::Alike => format!("{begin}, and without traffic {idle_text}. {}.", unresolved_difference(loaded, idle)),
        Order::Open => format!("{begin}, and without traffic {idle_text}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Fact, detect};
    use crate::setup::Profile;

    #[test]
    fn an_emulator_is_a_reason_to_skip() {
        let nowhere = std::path::Path::new("/proc/nonexistent");
        let mut setup = Setup::of(detect(nowhere, nowhere), 0, vec![0, 1], Profile::Quick);
        setup.machine.cpu.emulator = None;
        assert!(account_of_pages(&setup).is_ok());
        setup.machine.cpu.emulator = Some(Fact::new("an emulator of aarch64".to_owned(), "uname"));
        let problem = account_of_pages(&setup).unwrap_err();
        assert!(
            problem.what.starts_with("an emulator of aarch64 does not report") && problem.hint.is_some(),
            "{problem}"
        );
    }
}
