//! # Question
//!
//! What does it cost to hand the CPU from one task to another, and to wake a task on another CPU?
//!
//! # Method
//!
//! Two tasks pass a token to and fro. Each waits for it in the kernel, takes it, and puts it into the other's passage: a
//! byte in a pipe, a count in an eventfd, or a word with a futex. On one CPU nobody can take the token before the other has
//! gone to sleep, so every **hop** is one context switch. A batch is many round trips between two clock reads of one side;
//! the cost of a hop is the batch over twice its round trips.
//!
//! - **time** is the gross hop: putting the token in, waking the other, switching, taking the token out. Both system calls
//!   are in it.
//! - **pipe_overhead** is a task that writes and reads the same byte through a pipe of its own, where the data is always
//!   there: no waking, no waiting. It is measured in the same launch, in turns with the hops.
//! - **net** is the hop less that. It contains the switch itself, the wake-up, and the part of read() that goes to sleep.
//!   It is published where it stands out of its error by three and is at least a quarter of the hop.
//!
//! **between** tells processes from threads: threads share the page table, so the switch leaves it alone. **placement**
//! says how the CPUs of the two stand to each other. On one CPU (same_cpu) a hop is a switch. On two CPUs nothing is
//! switched away: a hop is a wake-up of a sleeping task, and **target** says whether its CPU had gone idle too, or was kept
//! awake by a task of the lowest priority. A batch in which a partner answered before the other had gone to sleep is not
//! counted.
//!
//! **Proof.** The kernel counts the switches of every task. Before and after each batch all tasks report their counters and
//! their CPU; the switches of a batch must be its hops within a hundredth, nobody may have taken a page fault, and everybody
//! must be where the label says. A batch with fewer switches is void and the figure is not published. Both kinds count: a
//! task goes to sleep (voluntary), or the one that it has just woken pushes it aside at once (involuntary); which of the two
//! happens is the scheduler's choice, and kernels since 6.6 often make the second. A batch with more switches than hops, or
//! with time on the CPU that none of the tasks had, is preempted: somebody else was there.
//!
//! **Ring.** 2 to 64 processes on one CPU pass the token around, each summing up a private working set of 0 to 256 KiB
//! before it passes the token on. Less the pipe and the same sum in a warm cache, the curve shows what a switch costs a
//! program that finds its data gone. Each launch takes one ring size, in turn. In a ring of more than two, a task that was
//! pushed aside by the one it woke must run once more to go to sleep: a hop may then be two switches.
//!
//! **Cache line.** A task on each of two CPUs waits for a number in one shared word without sleeping and answers with the
//! next. Half of the round trip is what it takes to move a line from core to core.
//!
//! # Prediction
//!
//! The two system calls as measured in this run, the pipe's own work in instructions, 1000 to 2500 cycles for waking and
//! switching, and for processes the change of the page table. A wake-up on another CPU adds an interrupt, and when that
//! CPU sleeps, its way out of idle; in a guest the hypervisor has a part in both.
//!
//! # What could fool us
//!
//! - Tasks that are not pinned run side by side: the figure is then a wake-up, not a switch.
//! - A partner that polls instead of sleeping: no switch happens at all. The kernel's counts show it.
//! - Creation, first page faults, or reaping of the partner inside the interval.
//! - Half of the figure are system calls: gross and net differ, and tools rarely say which they print. A tool that prints
//!   the time of a round trip prints two hops. Ours are made in line: where the kernel leaves no return predicted (see
//!   os.system_call), a program that calls a C library pays for two unpredicted returns in each hop, a quarter more on AMD Zen 4.
//! - sched_yield() need not switch: the scheduler may run the same task again.
//! - Subtracting a pipe's cost that was measured elsewhere or under load can leave a negative switch.
//! - Mitigations that clear predictors on a switch apply to some pairs of processes only.
//!
//! # References
//!
//! pipe(7), eventfd(2), futex(2), sched(7); Ousterhout, USENIX Summer 1990; McVoy & Staelin, USENIX 1996 (lat_ctx); Linux
//! kernel/sched/core.c.

use std::cell::RefCell;
use std::rc::Rc;

use crate::evaluate::estimate::Estimate;
use crate::evaluate::figure::Figure;
use crate::evaluate::findings::Findings;
use crate::evaluate::gate::{Number, rules};
use crate::evaluate::gates;
use crate::evaluate::study::Study;
use crate::experiments::{Experiment, Nature, Publication};
use crate::results::quantity::{Labels, Unit};
use crate::results::trouble::Trouble;
use crate::results::verdict::Gate;
use crate::rig::Rig;
use crate::rig::sampler::{Expected, Sizing, Switches, Witness, Workload};
use crate::sys::relay::{Burden, Circle, Load, Relay};
use crate::sys::spinner::{Duty, Spinner};
use crate::sys::token::{Event, Futex, Passage, Pipe};

mod account;
mod forecast;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "os.context_switch",
    title: "Context switch",
    measures: "switching processes and threads, waking other CPUs, moving a cache line",
    method_version: 1,
    source: include_str!("context_switch.rs"),
    needs: &[],
    uses: &["cpu.cycle_time", "cpu.timer.overhead", "os.system_call.time"],
    rules: RULES,
    constants: forecast::CONSTANTS,
    publishes: &[
        Publication {
            metric: "os.context_switch.time",
            unit: Unit::Nanoseconds,
            meaning: "one hop of the token, system calls included",
            nature: Nature::Cost,
            headline: crate::experiments::always,
        },
        Publication {
            metric: "os.context_switch.net",
            unit: Unit::Nanoseconds,
            meaning: "the hop less the passage's own cost",
            nature: Nature::Cost,
            headline: crate::experiments::always,
        },
        Publication {
            metric: "os.context_switch.pipe_overhead",
            unit: Unit::Nanoseconds,
            meaning: "a byte written to and read from a pipe by one task",
            nature: Nature::Cost,
            headline: crate::experiments::always,
        },
        Publication {
            metric: "os.context_switch.eventfd_overhead",
            unit: Unit::Nanoseconds,
            meaning: "a count written to and read from an eventfd by one task",
            nature: Nature::Cost,
            headline: crate::experiments::never,
        },
        Publication {
            metric: "os.cache_line_transfer.time",
            unit: Unit::Nanoseconds,
            meaning: "a line's way from one core to another",
            nature: Nature::Cost,
            headline: crate::experiments::always,
        },
    ],
    every: |_| 1,
    seconds: |_| 0.2,
    time_out: 30.0,
    memory: |setup| {
        ((RINGS[RINGS.len() - 1] * WORKING_SETS[WORKING_SETS.len() - 1]) as u64)
            .min(setup.machine.launch_memory_bytes())
    },
    predict: forecast::predict,
    measure,
    figures,
    explain: account::explain,
};

/// Batches are this many times as long as the shortest, so that a hundredth of their hops is a hop.
const LONGER: u32 = 4;
/// Batches of line transfers are this many times as long as others: where a host moves a CPU, lines come several times faster
/// than when the batch was sized, and it must still be long enough for the clock.
const LINE_LONGER: u32 = 8;
/// Members of the rings; each launch takes one.
const RINGS: [usize; 6] = [2, 4, 8, 16, 32, 64];
/// Bytes that each member of a ring sums up.
const WORKING_SETS: [usize; 5] = [0, 4 << 10, 16 << 10, 64 << 10, 256 << 10];
/// Batches of a ring in one launch.
const RING_BATCHES: u32 = 8;
/// Laps before a batch of a ring, because its members work on another set than before.
const LAPS_BEFORE: u64 = 2;
/// Round trips of which the two halves are timed.
const HALVES: usize = 60;

const SAME: &str = "same_cpu";
const BETWEEN: [&str; 2] = ["processes", "threads"];
const THROUGH: [&str; 3] = ["pipe", "eventfd", "futex"];

/// One figure: who passes the token to whom, how and where.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pairing {
    between: &'static str,
    through: &'static str,
    placement: String,
    /// Whether the CPUs sleep while nothing runs there; none on one CPU, where one of the tasks always runs.
    target: Option<&'static str>,
}

impl Pairing {
    fn labels(&self) -> Labels {
        let labels =
            Labels::of([("between", self.between), ("through", self.through)]).with("placement", &self.placement);
        self.target.map_or(labels.clone(), |target| labels.with("target", target))
    }

    /// On one CPU the passage's own cost stands before and after the switch, so it may be taken off.
    fn has_net(&self) -> bool {
        self.placement == SAME && self.through != "futex"
    }
}

/// Every pairing that is measured, given the placements that the machine has.
fn pairings<'a>(placements: impl IntoIterator<Item = &'a str>) -> Vec<Pairing> {
    let mut all = Vec::new();
    let mut add = |placement: &str, target| {
        for between in BETWEEN {
            // A CPU that is kept awake shows what sleeping costs; one way of waking is enough for that.
            for through in THROUGH.into_iter().filter(|&through| target != Some("awake") || through == "pipe") {
                all.push(Pairing { between, through, placement: placement.to_owned(), target });
            }
        }
    };
    add(SAME, None);
    for placement in placements {
        add(placement, Some("idle"));
        add(placement, Some("awake"));
    }
    all
}

/// Labels of a ring's series; a member alone is its sum in a warm cache with the pipe's own cost.
fn ring_labels(members: usize, bytes: usize) -> Labels {
    Labels::none().with("processes", members).with("working_set", bytes)
}

/// Labels of the way of a cache line between the measured CPU and another.
fn line_labels(placement: &str) -> Labels {
    Labels::of([("placement", placement)])
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Trouble> {
    let places = rig.setup().places();
    if places.is_empty() {
        rig.unavailable("os.cache_line_transfer.time", &Labels::none(), &"this run may use one CPU only");
    }
    let awake = Awake::start(rig, places.iter().map(|place| place.cpu));
    let partners: Vec<(String, Option<Rc<Spinner>>)> = places
        .iter()
        .map(|place| {
            let spinner = Spinner::new(place.cpu, Duty::Answer);
            if let Err(error) = &spinner {
                rig.unavailable("os.cache_line_transfer.time", &line_labels(&place.placement), error);
            }
            (place.placement.clone(), spinner.ok().map(Rc::new))
        })
        .collect();
    let mut workloads = Vec::new();
    // Processes before threads: a forked child has one thread only, whatever its parent has.
    for pairing in pairings(places.iter().map(|place| place.placement.as_str())) {
        let cpu =
            places.iter().find(|place| place.placement == pairing.placement).map_or(rig.setup().cpu, |place| place.cpu);
        let hop = match pairing.through {
            "pipe" => hop::<Pipe>(rig, &pairing, cpu, &awake),
            "eventfd" => hop::<Event>(rig, &pairing, cpu, &awake),
            _ => hop::<Futex>(rig, &pairing, cpu, &awake),
        };
        match hop {
            Ok(workload) => workloads.push(workload),
            Err(error) => rig.unavailable("os.context_switch.time", &pairing.labels(), &error),
        }
    }
    workloads.push(own::<Pipe>("pipe")?);
    workloads.push(own::<Event>("eventfd")?);
    for (placement, partner) in partners {
        workloads.extend(partner.map(|partner| line(&placement, &partner).at_most(rig.batches())));
    }
    workloads.extend(ring(rig)?);
    rig.sample(workloads)
}

/// Tasks that keep the measured CPU and one other awake.
struct Awake {
    spinners: Vec<(u32, Rc<Spinner>)>,
    reason: Option<String>,
}

impl Awake {
    fn start(rig: &Rig<'_>, others: impl Iterator<Item = u32>) -> Self {
        let others: Vec<u32> = others.collect();
        let cpus = others.iter().copied().chain((!others.is_empty()).then_some(rig.setup().cpu));
        let started: Result<Vec<_>, std::io::Error> =
            cpus.map(|cpu| Ok((cpu, Rc::new(Spinner::new(cpu, Duty::KeepAwake)?)))).collect();
        match started {
            Ok(spinners) => Awake { spinners, reason: None },
            Err(error) => Awake { spinners: Vec::new(), reason: Some(error.to_string()) },
        }
    }

    /// The two that keep a pair of CPUs awake.
    fn of(&self, cpus: [u32; 2]) -> Result<Vec<Rc<Spinner>>, String> {
        match &self.reason {
            Some(reason) => Err(format!("no task can keep a CPU awake: {reason}")),
            None => Ok(self
                .spinners
                .iter()
                .filter(|(cpu, _)| cpus.contains(cpu))
                .map(|(_, spinner)| Rc::clone(spinner))
                .collect()),
        }
    }
}

/// A pair of tasks and the workload of their hops; the halves of its round trips are recorded here.
fn hop<P: Passage>(rig: &mut Rig<'_>, pairing: &Pairing, cpu: u32, awake: &Awake) -> Result<Workload<'static>, String> {
    let circle =
        Circle { cpus: vec![rig.setup().cpu, cpu], threads: pairing.between == "threads", burden: Burden::default() };
    let relay = Rc::new(Relay::<P>::start(&circle).map_err(|error| error.to_string())?);
    let labels = pairing.labels();
    if pairing.placement == SAME && rig.counts_ticks() {
        relay.laps(HALVES as u64)?;
        let halves: Vec<(i64, i64)> = (0..HALVES).map(|_| relay.halves()).collect::<Result<_, _>>()?;
        for (direction, values) in [
            ("there", halves.iter().map(|half| half.0 as f64).collect::<Vec<f64>>()),
            ("back", halves.iter().map(|half| half.1 as f64).collect()),
        ] {
            rig.record("half", labels.clone().with("direction", direction), Unit::Ticks, values)
                .map_err(|trouble| trouble.what)?;
        }
    }
    let switches = if pairing.placement == SAME { Switches::One } else { Switches::Sleep };
    let witnesses = witnesses(&relay, circle.cpus);
    let laps = Rc::clone(&relay);
    let workload = Workload::of("hop", labels, 2, move |round_trips| laps.laps(round_trips))
        .sized(Sizing::ByTimes(LONGER))
        .expecting(Expected { switches, ..Expected::default() })
        .witnessed(witnesses);
    // What happens between CPUs never comes to rest: the warm-up does not wait for it.
    let workload = if pairing.placement == SAME { workload } else { workload.at_most(rig.batches()) };
    if pairing.target != Some("awake") {
        return Ok(workload);
    }
    let spinners = awake.of([rig.setup().cpu, cpu])?;
    let stopped = spinners.clone();
    Ok(workload.prepared(move || spinners.iter().try_for_each(|spinner| spinner.start())).tidied(move || {
        for spinner in &stopped {
            spinner.stop();
        }
        Ok(())
    }))
}

/// What the kernel counts for the other members of a relay.
fn witnesses<P: Passage>(
    relay: &Rc<Relay<P>>,
    cpus: Vec<u32>,
) -> impl FnMut() -> Result<Vec<Witness>, String> + 'static {
    let relay = Rc::clone(relay);
    move || {
        let states = relay.states()?;
        Ok(states
            .into_iter()
            .zip(&cpus[1..])
            .map(|(state, &wanted)| Witness { counters: state.counters, cpu: state.cpu, wanted })
            .collect())
    }
}

/// The token through a passage of one's own.
fn own<P: Passage>(through: &str) -> Result<Workload<'static>, Trouble> {
    let passage = P::circle(1, true).map_err(|error| Trouble::new(format!("cannot make a {through}: {error}")))?;
    Ok(Workload::of("own", Labels::of([("through", through)]), 1, move |times| {
        for _ in 0..times {
            if !(passage[0].pass() && passage[0].take()) {
                return Err("the kernel refused to pass the token".to_owned());
            }
        }
        Ok(())
    }))
}

/// A cache line between the measured CPU and a partner's.
fn line(placement: &str, partner: &Rc<Spinner>) -> Workload<'static> {
    let (starts, stops, answers) = (Rc::clone(partner), Rc::clone(partner), Rc::clone(partner));
    Workload::of("line", line_labels(placement), 2, move |round_trips| answers.round_trips(round_trips))
        .sized(Sizing::ByTimes(LINE_LONGER))
        .prepared(move || starts.start())
        .tidied(move || {
            stops.stop();
            Ok(())
        })
}

/// The ring of this launch, over all working sets, and a member alone with each of them.
fn ring(rig: &mut Rig<'_>) -> Result<Vec<Workload<'static>>, Trouble> {
    let members = RINGS[rig.turn() as usize % RINGS.len()];
    let largest = WORKING_SETS[WORKING_SETS.len() - 1];
    let burden = Burden { working_set: largest, spin: 0 };
    if (members * largest) as u64 > rig.memory() {
        rig.remark(&format!("ring.{members}"), &"it would take more than a quarter of the available memory");
        return Ok(Vec::new());
    }
    let circle = Circle { cpus: vec![rig.setup().cpu; members], threads: false, burden };
    let relay = match Relay::<Pipe>::start(&circle) {
        Ok(relay) => Rc::new(relay),
        Err(error) => {
            rig.remark(&format!("ring.{members}"), &format!("{members} processes: {error}"));
            return Ok(Vec::new());
        }
    };
    let alone = Rc::new(RefCell::new((
        Pipe::circle(1, true).map_err(|error| Trouble::new(format!("cannot make a pipe: {error}")))?,
        Load::new(burden),
    )));
    let mut workloads = Vec::new();
    for bytes in WORKING_SETS {
        let (ready, laps) = (Rc::clone(&relay), Rc::clone(&relay));
        let around = Workload::of("hop", ring_labels(members, bytes), members as u64, move |count| laps.laps(count))
            .expecting(Expected { switches: Switches::OneOrMore, ..Expected::default() })
            .at_most(RING_BATCHES)
            .prepared(move || {
                ready.work_on(bytes);
                ready.laps(LAPS_BEFORE)
            })
            .witnessed(witnesses(&relay, circle.cpus.clone()));
        workloads.push(around);
        let alone = Rc::clone(&alone);
        workloads.push(
            Workload::of("own", ring_labels(1, bytes), 1, move |times| {
                let (passage, load) = &*alone.borrow();
                for _ in 0..times {
                    load.carry(bytes);
                    if !(passage[0].pass() && passage[0].take()) {
                        return Err("the kernel refused to pass the token".to_owned());
                    }
                }
                Ok(())
            })
            .at_most(RING_BATCHES),
        );
    }
    Ok(workloads)
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    let places = study.setup.places();
    for through in &THROUGH[..2] {
        let labels = Labels::of([("through", through)]);
        if let Some(estimate) = study.sample("own", &labels).as_ref().and_then(Estimate::undisturbed) {
            let name = format!("os.context_switch.{through}_overhead");
            findings.publish(study, Figure::batches(&name, Labels::none(), &estimate));
        }
    }
    for pairing in pairings(places.iter().map(|place| place.placement.as_str())) {
        publish_hop(study, findings, &pairing);
    }
    for place in &places {
        publish_line(study, findings, &place.placement);
    }
    findings.curves.extend(account::curves(study).0);
}

fn publish_hop(study: &Study<'_>, findings: &mut Findings, pairing: &Pairing) {
    let labels = pairing.labels();
    let sample = study.sample("hop", &labels);
    let Some((sample, gross)) = sample.as_ref().and_then(|sample| Some((sample, Estimate::undisturbed(sample)?)))
    else {
        return;
    };
    let mut own = vec![proof(study, &labels, &gross)];
    own.extend(two_calls(study, &gross, pairing));
    own.extend(symmetry(study, pairing));
    findings.publish(study, Figure::batches("os.context_switch.time", labels.clone(), &gross).gates(own));
    if !pairing.has_net() {
        return;
    }
    let passage = study.sample("own", &Labels::of([("through", pairing.through)]));
    if let Some(net) = passage.and_then(|passage| {
        let (hops, passage) = (sample.shared_with(&passage), passage.shared_with(sample));
        Estimate::net(&hops, &passage)
    }) {
        let mut own = vec![proof(study, &labels, &gross), gates::net_resolved(&net, gross.value)];
        if net.unit == Unit::Cycles {
            own.push(gates::floor(&NET_FLOOR, &net, LEAST_NET).because("no kernel switches tasks in less"));
        }
        findings
            .publish(study, Figure::batches("os.context_switch.net", labels, &net).of_gross(gross.value).gates(own));
    }
}

/// No kernel wakes and switches in fewer core cycles.
const LEAST_NET: f64 = 300.0;
/// How far the two halves of a round trip may differ.
const ASYMMETRY: f64 = 0.2;

rules! {
    TWO_CALLS: "G8" Hard "`os.context_switch.time` on one CPU", "a hop takes at least two system calls";
    NET_FLOOR: "G8" Hard "`os.context_switch.net`", "a net switch takes at least {}", cycles(LEAST_NET);
    LINE_FLOOR: "G8" Hard "`os.cache_line_transfer.time`", "at least {}", time(LEAST_LINE);
    LINE_FASTER: "G20" Hard "`os.cache_line_transfer.time`", "a cache line moves faster than a task on that CPU is woken";
    SWITCHES: "G25" Hard "`os.context_switch`", "the kernel counts one switch, voluntary or forced, for every hop within 1 %, no page fault, and everybody on the CPU of the label";
    SYMMETRY: "halves" Noisy "`os.context_switch.time` on one CPU", "the token takes as long there as back, within {}", share(ASYMMETRY);
}

/// G25: every hop is a switch that the kernel counted, everybody on the CPU of the label.
fn proof(study: &Study<'_>, labels: &Labels, gross: &Estimate) -> Gate {
    let wrong = gross.account.wrong;
    let why =
        study.remarks(&format!("wrong.hop {labels}")).first().map_or_else(String::new, |reason| format!(": {reason}"));
    Gate::holds(
        &SWITCHES,
        wrong == 0,
        if wrong == 0 {
            "the kernel counted one switch for every hop, on the CPUs of the label".to_owned()
        } else {
            format!("{wrong} of {} batches were not switches{why}", gross.account.taken)
        },
    )
}

/// G8: a hop contains two system calls.
fn two_calls(study: &Study<'_>, gross: &Estimate, pairing: &Pairing) -> Option<Gate> {
    let floor = study
        .known
        .iter()
        .find(|metric| metric.name == "os.system_call.time" && metric.labels == Labels::of([("call", "getppid")]))?;
    let cycles = floor.cycles.filter(|_| gross.unit == Unit::Cycles);
    (pairing.placement == SAME)
        .then(|| gates::floor(&TWO_CALLS, gross, 2.0 * cycles.unwrap_or(floor.value)).because("two system calls"))
}

/// The token takes as long there as back: otherwise something else is in one half.
fn symmetry(study: &Study<'_>, pairing: &Pairing) -> Option<Gate> {
    let half = |direction: &str| {
        let values = study.values("half", &pairing.labels().with("direction", direction));
        crate::statistics::summary::median(&values)
    };
    let (there, back) = (half("there")?, half("back")?);
    let difference = (there - back).abs() / f64::midpoint(there, back);
    Some(Gate::at_most(&SYMMETRY, Number::share(difference).named("there and back differ by {}"), ASYMMETRY))
}

fn publish_line(study: &Study<'_>, findings: &mut Findings, placement: &str) {
    let labels = line_labels(placement);
    let Some(estimate) = study.sample("line", &labels).as_ref().and_then(Estimate::undisturbed) else { return };
    let wake_up =
        Pairing { between: "threads", through: "futex", placement: placement.to_owned(), target: Some("idle") };
    let mut own = vec![
        gates::floor_in_time(&LINE_FLOOR, study, &estimate, LEAST_LINE)
            .because("two cores cannot exchange a line in less"),
    ];
    if let Some(wake_up) = study.sample("hop", &wake_up.labels()).as_ref().and_then(Estimate::undisturbed) {
        own.push(Gate::at_most(&LINE_FASTER, estimate.named("{}"), wake_up.value).because("a wake-up there"));
    }
    findings.publish(study, Figure::batches("os.cache_line_transfer.time", labels, &estimate).gates(own));
}

/// Least time in nanoseconds: the sibling threads of one core share its first cache, a few cycles away.
const LEAST_LINE: f64 = 1.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairings_have_labels_of_their_own() {
        let all = pairings(["sibling", "same_cache"]);
        let mut labels: Vec<String> = all.iter().map(|pairing| pairing.labels().to_string()).collect();
        assert_eq!(labels.len(), 6 + 2 * (6 + 2));
        labels.sort();
        labels.dedup();
        assert_eq!(labels.len(), all.len());
    }

    #[test]
    fn only_one_cpu_and_a_serial_passage_have_a_net_cost() {
        let net: Vec<String> = pairings(["same_cache"])
            .iter()
            .filter(|pairing| pairing.has_net())
            .map(|pairing| format!("{} {}", pairing.between, pairing.through))
            .collect();
        assert_eq!(net, ["processes pipe", "processes eventfd", "threads pipe", "threads eventfd"]);
    }
}
