//! # Question
//!
//! What does a new thread cost? How much of the cost is the work of the kernel, and how much that of the C library?
//!
//! # Method
//!
//! sysdyno creates a thread that runs as little as possible and ends. Each result names the creator (C library or kernel)
//! and the timed span. A batch is the mean of eight creations, one thread at a
//! time.
//!
//! - **create**: until the call returns. The thread may have run by then.
//! - **create_run**: until the first instruction of the thread, which stores the time.
//! - **create_join**: until the thread has ended and its waiting creator runs again.
//!
//! The creators are:
//!
//! - **pthread**: pthread_create() with a stack that the C library cached from the previous thread.
//! - **pthread_fresh**: the same with a stack of 64 MiB, which is too large for the cache. The library maps, guards and
//!   unmaps it each time.
//! - **kernel**: the call clone3 alone (clone where clone3 is refused), on an existing stack, for four instructions of
//!   assembly.
//!
//! The difference between pthread and kernel is the work of the library: blocked signals, thread-local storage and
//! registrations with the kernel. The label **child** is the CPU on which the thread may run: that of its creator
//! (same_cpu) or any (free).
//!
//! Before the next creation the creator waits, untimed, until the kernel counts one thread less. An untimed thread of
//! the same kind runs before each batch, so that the stack is cached and the caches are warm. On the CPU of the creator,
//! each batch follows 65 536 branches in random directions and 0.2 ms of such threads (blocks, as in
//! os.system_call). Page faults per thread are counted over 64 untimed threads.
//!
//! # Prediction
//!
//! Ways into the kernel and switches, as measured in this run. Creation and end of the thread: a number of switches, by
//! records of other runs. On another CPU everything goes with the wake-up of an idle CPU.
//!
//! # What could fool us
//!
//! - **create** alone looks cheap, because the thread has not run yet.
//! - The first thread of a process has no cached stack and costs more than the rest.
//! - A creation that overlaps the end of the previous thread also pays for that end.
//! - A thread on another CPU waits until that CPU wakes up. In a guest the hypervisor wakes it.
//! - Language runtimes add names, handles and guards to pthread_create().
//!
//! # References
//!
//! - clone(2), pthread_create(3), futex(2)
//! - Linux kernel/fork.c. glibc nptl/pthread_create.c, nptl/allocatestack.c
//! - Drepper & Molnar, "The Native POSIX Thread Library for Linux", 2005

use std::cell::RefCell;

use crate::experiments::prelude::*;
use crate::results::wording::{share, significant};
use crate::rig::sampler::{Expected, Timed};
use crate::sys::clock::Source;
use crate::sys::process::{self, Trial};
use crate::sys::thread::{self, Alone, Attributes, Bare, Body, CloneCall};
use crate::sys::{affinity, counters};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "os.thread_creation",
    title: "Thread creation",
    measures: "creation, first instruction and end of a thread, by C library and by kernel",
    words: &["pthread", "thread", "threads"],
    method_version: 2,
    precision: Precision { target: 0.03, between: 0.015, busy: 0.025 },
    source: heading!("thread_creation.rs"),
    uses: &["cpu.cycle_time", "os.system_call.time", "os.process_creation.time"],
    rules: RULES,
    publishes: &[Publication::cost(TIME, Unit::Nanoseconds, "one thread, by timed span and by creator")
        .in_summary_where(same_cpu)],
    seconds: |_| 0.16,
    time_out: 30.0,
    predict,
    measure,
    figures,
    explain,
    ..Experiment::DEFAULT
};

const TIME: &str = "os.thread_creation.time";
/// Creations in a batch.
const SHOTS: u64 = 8;
/// Creations over which page faults are counted.
const COUNTED: u32 = 64;
/// Blocks in which the creator's own delay is looked at.
const BLOCKS: u32 = 4;
/// Physical floors in nanoseconds: of a thread that has ended, and of one that has not.
const WHOLE_FLOOR: f64 = 2_000.0;
const PART_FLOOR: f64 = 1_000.0;
/// A figure may be this many times one that it must not exceed.
const SLACK: f64 = 1.05;

rules! {
    FLOOR: "G8" Hard "`os.thread_creation.time`",
        "a thread takes at least {} until its creation returns or it runs, and at least {} until it is joined",
        time(PART_FLOOR), time(WHOLE_FLOOR);
    ORDER: "G20" Noisy "`os.thread_creation.time` on one CPU",
        "at most {} times as long: creation and first instruction as the join, the kernel as the library, a cached as \
         a fresh stack", plain(SLACK);
    CHEAPER_THAN_PROCESS: "G40" Remark "`os.thread_creation.time`",
        "a thread that is created and joined costs less than a process by fork_wait";
}
/// The spans.
const HOWS: [&str; 3] = ["create", "create_run", "create_join"];
/// Who makes threads.
const MAKERS: [&str; 3] = [LIBRARY, FRESH, KERNEL];
const LIBRARY: &str = "pthread";
const FRESH: &str = "pthread_fresh";
const KERNEL: &str = "kernel";
const SAME: &str = "same_cpu";
const FREE: &str = "free";

fn labels(how: &str, by: &str, child: &str) -> Labels {
    Labels::of([("how", how), ("by", by), ("child", child)])
}

fn same_cpu(labels: &Labels) -> bool {
    labels.get("child") == Some(SAME)
}

/// Every combination that is measured. A fresh stack costs its creator the same wherever the thread runs.
fn combinations() -> Vec<(&'static str, &'static str, &'static str)> {
    let mut all = Vec::new();
    for (child, makers) in [(SAME, &MAKERS[..]), (FREE, &[LIBRARY, KERNEL][..])] {
        for by in makers {
            all.extend(HOWS.map(|how| (how, *by, child)));
        }
    }
    all
}

fn predict(_: &PredictionInput<'_>) -> Vec<Prediction> {
    let of = |(how, maker, child)| Prediction::of(TIME, labels(how, maker, child), Unit::Nanoseconds);
    combinations().into_iter().map(of).collect()
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    rig.remark("library", &thread::library());
    let source = if rig.counts_ticks() { Source::Counter } else { Source::MonotonicRaw };
    let makers: Vec<RefCell<ThreadMaker>> =
        MAKERS.into_iter().filter_map(|by| available(rig, by, source)).map(RefCell::new).collect();
    let alone = Alone::now();
    let mut delays = Vec::new();
    for maker in &makers {
        delays.push(count(rig, &mut maker.borrow_mut(), alone)?);
    }
    if source != Source::Counter {
        rig.unavailable(
            TIME,
            &Labels::of([("by", KERNEL), ("how", "create_run")]),
            &"a bare thread can read the time only from the counter, which is not the clock of this run",
        );
    }
    let kit = ThreadShotInputs { makers: &makers, source, alone, bias: rig.timer_bias() };
    rig.sample_in_blocks(kit.workloads(SAME, rig.batches()))?;
    for (maker, delay) in makers.iter().zip(delays) {
        let mut maker = maker.borrow_mut();
        rig.excuse_delay(delay.unwrap_or(0.0) * maker.made as f64);
        (maker.made, maker.elsewhere) = (0, 0);
    }
    if rig.setup().allowed.len() < 2 || affinity::restrict(&rig.setup().allowed).is_err() {
        rig.unavailable(TIME, &Labels::of([("child", FREE)]), &"only one CPU is allowed");
        return Ok(());
    }
    let sampled = rig.sample(kit.workloads(FREE, rig.batches()));
    affinity::restrict(&[rig.setup().cpu])
        .map_err(|error| Problem::new(format!("cannot return to one CPU: {error}")))?;
    sampled?;
    if let Some(maker) = makers.iter().map(RefCell::borrow).find(|maker| maker.by == LIBRARY && maker.made > 0) {
        let share = maker.elsewhere as f64 / maker.made as f64;
        rig.record("elsewhere", Labels::of([("by", LIBRARY)]), Unit::One, vec![share])?;
    }
    Ok(())
}

/// A way of making threads.
struct ThreadMaker {
    by: &'static str,
    body: &'static Body,
    way: ThreadMethod,
    /// Threads made so far.
    made: u64,
    /// Those that began on another CPU than the one that made them.
    elsewhere: u64,
}

enum ThreadMethod {
    Library(Attributes),
    Kernel(Bare),
}

impl ThreadMaker {
    fn new(by: &'static str, call: CloneCall, source: Source) -> std::io::Result<Self> {
        let body = Body::new(source, 0);
        let way = match by {
            LIBRARY => ThreadMethod::Library(Attributes::usual()?),
            FRESH => ThreadMethod::Library(Attributes::large()?),
            _ => ThreadMethod::Kernel(Bare::new(call, body)?),
        };
        Ok(ThreadMaker { by, body, way, made: 0, elsewhere: 0 })
    }

    /// Makes one thread, joins it, and waits until it is gone where that can be seen. Returns the ticks of each span, in the
    /// order of [`HOWS`].
    fn shoot(&mut self, source: Source, alone: Option<Alone>) -> Result<[i64; 3], String> {
        let refused = |error: std::io::Error| format!("no thread could be made: {error}");
        let (before, created, joined);
        match &mut self.way {
            ThreadMethod::Library(attributes) => {
                before = source.opening();
                let made = thread::create(attributes, self.body).map_err(refused)?;
                created = source.stamp().ticks;
                made.join().map_err(|error| format!("a thread could not be joined: {error}"))?;
                joined = source.stamp().ticks;
            }
            ThreadMethod::Kernel(bare) => {
                before = source.opening();
                bare.create().map_err(refused)?;
                created = source.stamp().ticks;
                bare.join();
                joined = source.stamp().ticks;
            }
        }
        if let Some(alone) = alone {
            alone.wait()?;
        }
        self.made += 1;
        self.elsewhere += u64::from(self.body.cpu().is_some_and(|cpu| cpu != before.cpu));
        Ok([created, self.body.began(), joined].map(|ticks| ticks - before.ticks))
    }
}

/// A way of making threads that works here, or a remark why it does not.
fn available(rig: &mut Rig<'_>, by: &'static str, source: Source) -> Option<ThreadMaker> {
    let calls = if by == KERNEL { &[CloneCall::Clone3, CloneCall::Clone][..] } else { &[CloneCall::Clone3][..] };
    let mut refusals = Vec::new();
    for &call in calls {
        match tried(by, call, source) {
            Ok(maker) => {
                if by == KERNEL {
                    refusals.insert(0, call.name().to_owned());
                    rig.remark("kernel", &refusals.join("; "));
                }
                return Some(maker);
            }
            Err(reason) if by == KERNEL => refusals.push(format!("{}: {reason}", call.name())),
            Err(reason) => refusals.push(reason),
        }
    }
    rig.unavailable(TIME, &Labels::of([("by", by)]), &refusals.join("; "));
    None
}

/// Makes one thread, in a child process first where a system-call filter might kill who does.
fn tried(by: &'static str, call: CloneCall, source: Source) -> Result<ThreadMaker, String> {
    let make = |maker: &mut ThreadMaker| maker.shoot(source, Some(Alone::now()));
    let mut maker = ThreadMaker::new(by, call, source).map_err(|error| error.to_string())?;
    if process::is_filtered() {
        match process::try_in_child(|| make(&mut maker).is_ok()) {
            Ok(Trial::Worked | Trial::Refused) => {}
            Ok(Trial::Killed(signal)) => {
                return Err(format!("a system-call filter kills a process that makes it ({signal})"));
            }
            Err(error) => return Err(format!("cannot try it in a child process: {error}")),
        }
    }
    make(&mut maker)?;
    Ok(maker)
}

/// Counts page faults of the whole process over a number of threads, one after the other, and how long the creator was
/// runnable while the thread that had woken it was still ending.
fn count(rig: &mut Rig<'_>, maker: &mut ThreadMaker, alone: Alone) -> Result<Option<f64>, Problem> {
    let mut delays = Vec::new();
    let before = counters::process_faults();
    for _ in 0..BLOCKS {
        let waited = counters::run_delay();
        for _ in 0..COUNTED / BLOCKS {
            if let Err(reason) = maker.shoot(Source::MonotonicRaw, Some(alone)) {
                rig.unavailable(TIME, &Labels::of([("by", maker.by)]), &reason);
                return Ok(None);
            }
        }
        delays.extend(counters::run_delay().zip(waited).map(|(now, then)| now - then));
    }
    let faults = (counters::process_faults() - before) as f64 / f64::from(COUNTED);
    rig.record("faults", Labels::of([("by", maker.by)]), Unit::One, vec![faults])?;
    // The least of the blocks: other processes cause what is above it.
    Ok(delays.into_iter().reduce(f64::min).map(|delay| delay / f64::from(COUNTED / BLOCKS)))
}

/// What shots are made from.
#[derive(Clone, Copy)]
struct ThreadShotInputs<'a> {
    makers: &'a [RefCell<ThreadMaker>],
    source: Source,
    alone: Alone,
    bias: f64,
}

impl<'a> ThreadShotInputs<'a> {
    fn workloads(self, child: &str, batches: u32) -> Vec<Workload<'a>> {
        let wanted = combinations().into_iter().filter(|(.., place)| *place == child);
        wanted.filter_map(|(how, by, _)| self.workload(how, by, child, batches)).collect()
    }

    fn workload(self, how: &'static str, by: &str, child: &str, batches: u32) -> Option<Workload<'a>> {
        let maker = self.makers.iter().find(|maker| maker.borrow().by == by)?;
        if by == KERNEL && how == "create_run" && self.source != Source::Counter {
            return None;
        }
        let position = HOWS.iter().position(|&known| known == how)?;
        let work = move |shots: u64| {
            let mut maker = maker.borrow_mut();
            let mut sum = 0;
            for _ in 0..shots {
                let span = maker.shoot(self.source, Some(self.alone))?[position];
                if span < 0 {
                    return Ok(Timed::Ticks(span));
                }
                sum += span;
            }
            // Every span has the clock's bias; the sampler removes that of one.
            Ok(Timed::Ticks(sum - ((shots - 1) as f64 * self.bias).round() as i64))
        };
        // Warm are the threads by those that were counted and by the one before each batch; waiting until batches of so few
        // shots agree within 1 % would take longer than the measurement, and free ones never do.
        let workload = Workload::self_timed("thread", labels(how, by, child), 1, work)
            .prepared(move || maker.borrow_mut().shoot(self.source, Some(self.alone)).map(|_| ()))
            .sized(Sizing::Exactly(SHOTS))
            .expecting(Expected { faults: true, migration: child == FREE, ..Expected::default() })
            .at_most(batches);
        Some(workload)
    }
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    for (how, by, child) in combinations() {
        let Some(estimate) = estimate(study, how, by, child) else { continue };
        let own = own_gates(study, how, by, child, &estimate);
        findings.publish(study, Figure::batches(TIME, labels(how, by, child), &estimate).gates(own));
    }
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    compare_with_process(study, findings);
    share_out(study, findings);
    tell_placement(study, findings);
}

fn estimate(study: &Study<'_>, how: &str, by: &str, child: &str) -> Option<Estimate> {
    study.sample("thread", &labels(how, by, child)).as_ref().and_then(Estimate::undisturbed)
}

fn own_gates(study: &Study<'_>, how: &str, by: &str, child: &str, found: &Estimate) -> Vec<Gate> {
    let least = if how == "create_join" { WHOLE_FLOOR } else { PART_FLOOR };
    let mut gates = vec![gates::floor_in_time(&FLOOR, study, found, least).because("no kernel creates a task faster")];
    let mut not_above = |other: Option<Estimate>, why: &str| {
        if let Some(other) = other.filter(|other| other.unit == found.unit) {
            let reason = format!("{SLACK} times {}: {why}", number(other.value));
            gates.push(Gate::at_most(&ORDER, found.named("{}"), other.value * SLACK).because(reason));
        }
    };
    if child == SAME && how != "create_join" {
        not_above(estimate(study, "create_join", by, child), "a thread begins before it has ended");
    }
    if child == SAME && by == KERNEL {
        not_above(estimate(study, how, LIBRARY, child), "the library makes the same call");
    }
    if child == SAME && by == LIBRARY {
        not_above(estimate(study, how, FRESH, child), "a cached stack is not mapped again");
    }
    if let Some(process) = process(study, "fork_wait").filter(|_| how == "create_join" && child == SAME) {
        let thread =
            study.core.filter(|_| found.unit == Unit::Cycles).map_or(found.value, |core| found.value * core.period().0);
        let thread = Number::time(thread).named("{}");
        gates.push(Gate::less_than(&CHEAPER_THAN_PROCESS, thread, process.value).because("a process by fork_wait"));
    }
    gates
}

/// What a process from a small parent on the same CPU costs in this run.
fn process<'a>(study: &Study<'a>, how: &str) -> Option<&'a Metric> {
    let labels = Labels::of([("how", how), ("child", SAME)]).with("resident", 0);
    study.metric("os.process_creation.time", &labels)
}

fn time(findings: &Findings, how: &str, by: &str, child: &str) -> Option<Metric> {
    findings.metric(TIME, &labels(how, by, child)).cloned()
}

fn nanoseconds(value: f64) -> String {
    significant(value, Unit::Nanoseconds, 2)
}

fn compare_with_process(study: &Study<'_>, findings: &mut Findings) {
    let [returned, runs, ended] = HOWS.map(|how| time(findings, how, LIBRARY, SAME));
    let (Some(returned), Some(runs), Some(ended)) = (returned, runs, ended) else { return };
    findings.say(format!(
        "pthread_create() returns after {}, the thread runs after {}, and it has ended and is joined after {}.",
        returned.shown(),
        runs.shown(),
        ended.shown(),
    ));
    if let Some(fork) = process(study, "fork_wait") {
        let longer = |process: &Metric| Some(Ratio::of(process, &ended, 1.0)?.text());
        let vfork = process(study, "vfork_wait").and_then(longer).map_or_else(String::new, |times| {
            format!(
                " A child created with vfork shares memory, as a thread does, and takes {times} times as long. This \
                 child has separate files and signals and notifies its parent at its end. fork also copies and \
                 removes an address space."
            )
        });
        let times = longer(fork).map_or_else(String::new, |times| format!(", {times} times as long as a thread"));
        findings.say(format!("A process by fork that ends at once takes {}{times}.{vfork}", fork.shown()));
    }
}

/// Library against kernel, stacks, faults.
fn share_out(study: &Study<'_>, findings: &mut Findings) {
    let library = study.remarks("library").first().map_or("the C library", |&name| name);
    let call = study.remarks("kernel").first().map_or("clone", |&name| name);
    let [whole, fresh, bare] = MAKERS.map(|by| time(findings, "create_join", by, SAME));
    if let (Some(whole), Some(bare)) = (&whole, &bare) {
        let (all, kernel) = (whole.shown(), bare.shown());
        let rest = all.value - kernel.value;
        let library = Ratio::of(whole, bare, 1.0).map_or_else(String::new, |_| {
            format!(", and the library ({library}) {}, which is {}", nanoseconds(rest), share(rest / all.value))
        });
        findings.say(format!(
            "A thread takes {all} from creation to join. The kernel ({call}) takes {kernel} of it{library}."
        ));
    }
    if let (Some(kept), Some(fresh)) = (&whole, &fresh)
        && Ratio::of(fresh, kept, 1.0).is_some()
    {
        findings.say(format!(
            "A stack that the library has cached saves {} per thread: mapping, guard, first page fault and unmapping.",
            nanoseconds(fresh.shown().value - kept.shown().value)
        ));
    }
    let faults = |by: &'static str| Some((by, median(&study.values("faults", &Labels::of([("by", by)])))?));
    let table = pivot(
        "Page faults per thread, including those of its creator",
        MAKERS.into_iter().filter_map(faults),
        &[("by", &|(by, _)| Some((*by).to_owned())), ("faults", &|(_, faults)| Some(number(*faults)))],
    );
    findings.analysis.extend(table);
}

fn tell_placement(study: &Study<'_>, findings: &mut Findings) {
    let run = |child| time(findings, "create_run", LIBRARY, child);
    let (Some(same), Some(free)) = (run(SAME), run(FREE)) else { return };
    let elsewhere = median(&study.values("elsewhere", &Labels::of([("by", LIBRARY)]))).unwrap_or(0.0);
    findings.say(format!(
        "A thread that may run on any CPU begins after {} instead of {}, and {} of these threads began on another CPU.",
        free.shown(),
        same.shown(),
        share(elsewhere),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_have_labels_of_their_own() {
        let mut all: Vec<String> =
            combinations().into_iter().map(|(how, by, child)| labels(how, by, child).to_string()).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!((all.len(), count), (15, 15));
    }

    #[test]
    fn a_thread_runs_before_it_is_joined() {
        for by in MAKERS {
            let mut maker = ThreadMaker::new(by, CloneCall::Clone3, Source::Counter).unwrap();
            // Other tests of this process also have threads: how many there are cannot be waited for.
            let [created, run, joined] = maker.shoot(Source::Counter, None).unwrap();
            assert!(created > 0 && run > 0 && created <= joined && run <= joined, "{by}: {created} {run} {joined}");
        }
    }
}
