//! The passages of a launch: handoffs between two tasks on one CPU and on two, a line between cores, rings with working sets.

use super::{BETWEEN, Pairing, RINGS, SAME, WORKING_SETS, line_labels, pairings, ring_labels};
use crate::experiments::prelude::*;
use crate::machine::placement::Place;
use crate::rig::placed::WORK_LONGER;
use crate::rig::sampler::{Expected, MOST_BLOCKS, Switches, Witness};
use crate::sys::branches::RandomBranches;
use crate::sys::operation::Operation;
use crate::sys::placed::Around;
use crate::sys::relay::{Burden, Circle, Load, Relay};
use crate::sys::spinner::{Duty, Spinner};
use crate::sys::token::{Condition, Event, Futex, Passage, Pipe};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Batches are this many times as long as the shortest, so that a hundredth of their handoffs is a handoff.
pub(super) const LONGER: u32 = 4;

/// Batches of line transfers are this many times as long as others: where a host moves a CPU, lines come several times faster
/// than when the batch was sized, and it must still be long enough for the clock.
pub(super) const LINE_LONGER: u32 = 8;

/// Batches of a ring in one launch.
pub(super) const RING_BATCHES: u32 = 8;

/// Laps before a batch that do not count: members of a ring work on another set than before, and a CPU was kept awake.
pub(super) const LAPS_BEFORE: u64 = 2;

/// How long the other CPU is left alone before a batch that wakes it, where it is measured by itself. A host may let a CPU that
/// was woken again and again poll instead of sleep. Among other handoffs the CPU sleeps for longer: on one guest a wake-up took 33 µs
/// there and 23 µs in a row.
const IDLE_BEFORE: Duration = Duration::from_millis(5);

/// Batches of what others are predicted from, in each of its launches: the median over five launches narrows no further.
const FIRST_BATCHES: u32 = 6;

/// Round trips of which the two halves are timed.
pub(super) const HALVES: usize = 60;

pub(super) fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let places = rig.setup().places();
    if places.is_empty() {
        rig.unavailable("os.cache_line_transfer.time", &Labels::none(), &"only one CPU is allowed");
    }
    let partners = Partners::start(rig, &places);
    let (pipe, event) = (passage_of_own::<Pipe>("pipe")?, passage_of_own::<Event>("eventfd")?);
    let mut workloads = hops(rig, &partners, Duration::ZERO, |pairing| pairing.between == BETWEEN[0]);
    workloads.extend(own(rig, BETWEEN[0], &pipe, &event)?);
    for (place, partner) in &partners.spinners {
        let line = partner.as_ref().map(|partner| line(&place.placement, partner).at_most(rig.batches()));
        workloads.extend(line);
    }
    workloads.extend(ring(rig)?.into_iter().map(Workload::waiting));
    rig.sample_in_blocks(workloads)?;
    // From here on this process has several threads. The kernel then counts the users of a file around each call.
    let mut workloads = hops(rig, &partners, Duration::ZERO, |pairing| pairing.between == BETWEEN[1]);
    workloads.extend(own(rig, BETWEEN[1], &pipe, &event)?);
    rig.sample_in_blocks(workloads)
}

/// Handoffs of processes through pipes, on one CPU and to another one that sleeps or is kept awake.
pub(super) fn measure_first(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let places = rig.setup().places();
    let partners = Partners::start(rig, &places);
    let wanted = |pairing: &Pairing| pairing.between == "processes" && pairing.through == "pipe";
    let workloads = hops(rig, &partners, IDLE_BEFORE, wanted);
    rig.sample_in_blocks(workloads.into_iter().map(|workload| workload.at_most(FIRST_BATCHES)).collect())
}

/// Tasks on the other CPUs: they keep them awake, and they answer the looks at the distance.
struct Partners {
    awake: Awake,
    spinners: Vec<(Place, Option<Rc<Spinner>>)>,
}

impl Partners {
    /// Starts them. They are forked before anything is opened: what a child holds a copy of never ends.
    fn start(rig: &mut Rig<'_>, places: &[Place]) -> Self {
        let awake = Awake::start(rig, places.iter().map(|place| place.cpu));
        let start = |place: &Place| {
            let spinner = Spinner::new(place.cpu, Duty::Answer);
            if let Err(error) = &spinner {
                rig.unavailable("os.cache_line_transfer.time", &line_labels(&place.placement), error);
            }
            (place.clone(), spinner.ok().map(Rc::new))
        };
        Partners { awake, spinners: places.iter().map(start).collect() }
    }
}

/// The handoffs of some pairings. The other CPU is left alone for some time before each batch that wakes it.
fn hops(
    rig: &mut Rig<'_>,
    partners: &Partners,
    idle_before: Duration,
    wanted: impl Fn(&Pairing) -> bool,
) -> Vec<Workload<'static>> {
    let mut workloads = Vec::new();
    let placements = partners.spinners.iter().map(|(place, _)| place.placement.as_str());
    // Processes before threads: a forked child has one thread only, whatever its parent has.
    for pairing in pairings(placements).into_iter().filter(wanted) {
        let partner = partners.spinners.iter().find(|(place, _)| place.placement == pairing.placement);
        let cpu = partner.map_or(rig.setup().cpu, |(place, _)| place.cpu);
        let hop = match pairing.through {
            "pipe" => hop::<Pipe>(rig, &pairing, cpu, &partners.awake, idle_before),
            "eventfd" => hop::<Event>(rig, &pairing, cpu, &partners.awake, idle_before),
            "futex" => hop::<Futex>(rig, &pairing, cpu, &partners.awake, idle_before),
            _ => hop::<Condition>(rig, &pairing, cpu, &partners.awake, idle_before),
        };
        match hop {
            Ok(workload) => workloads.push(match partner {
                Some((_, Some(partner))) => workload.across(partner),
                _ => workload,
            }),
            Err(error) => rig.unavailable("os.context_switch.time", &pairing.labels(), &error),
        }
    }
    workloads
}

/// Tasks that keep the measured CPU and one other awake.
pub(super) struct Awake {
    pub(super) spinners: Vec<(u32, Rc<Spinner>)>,
    pub(super) reason: Option<String>,
}

impl Awake {
    pub(super) fn start(rig: &Rig<'_>, others: impl Iterator<Item = u32>) -> Self {
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
    pub(super) fn of(&self, cpus: [u32; 2]) -> Result<Vec<Rc<Spinner>>, String> {
        match &self.reason {
            Some(reason) => Err(format!("cannot start a task that keeps a CPU awake: {reason}")),
            None => Ok(self
                .spinners
                .iter()
                .filter(|(cpu, _)| cpus.contains(cpu))
                .map(|(_, spinner)| Rc::clone(spinner))
                .collect()),
        }
    }
}

/// A pair of tasks and the workload of their handoffs. The halves of its round trips are recorded here.
pub(super) fn hop<P: Passage>(
    rig: &mut Rig<'_>,
    pairing: &Pairing,
    cpu: u32,
    awake: &Awake,
    idle_before: Duration,
) -> Result<Workload<'static>, String> {
    let circle = Circle {
        cpus: vec![rig.setup().cpu, cpu],
        threads: pairing.between == "threads",
        burden: Burden::default(),
        placed: Some((rig.random().u64(..), MOST_BLOCKS as usize)),
    };
    let relay = Rc::new(Relay::<P>::start(&circle).map_err(|error| error.to_string())?);
    let labels = pairing.labels();
    if pairing.placement == SAME && rig.counts_ticks() {
        // What the branch predictors know of one direction would show as a difference.
        RandomBranches::with_seed(rig.random().u32(..)).forget();
        relay.laps(HALVES as u64)?;
        let halves: Vec<(i64, i64)> = (0..HALVES).map(|_| relay.halves()).collect::<Result<_, _>>()?;
        for (direction, values) in [
            ("there", halves.iter().map(|half| half.0 as f64).collect::<Vec<f64>>()),
            ("back", halves.iter().map(|half| half.1 as f64).collect()),
        ] {
            rig.record("half", labels.clone().with("direction", direction), Unit::Ticks, values)
                .map_err(|problem| problem.what)?;
        }
    }
    let switches = if pairing.placement == SAME { Switches::One } else { Switches::Sleep };
    let witnesses = witnesses(&relay, circle.cpus);
    let (laps, rest, moved) = (Rc::clone(&relay), Rc::clone(&relay), Rc::clone(&relay));
    let timed = rig.less_rest(move |count: &mut u64| laps.placed_laps(*count), move |count| rest.rest(*count));
    let timed = timed.map_err(|problem| problem.what)?;
    let workload = Workload::self_timed("hop", labels, 2, move |mut count| timed(&mut count))
        // A member that is gone fails its next batch.
        .placed(move |block| drop(moved.place(block as usize)))
        .sized(Sizing::ByTimes(LONGER))
        .expecting(Expected { switches, ..Expected::default() })
        .witnessed(witnesses);
    if pairing.placement == SAME {
        return Ok(workload);
    }
    // What happens between CPUs never comes to rest: the warm-up does not wait for it. A partner that answered a look has just
    // kept the other CPU awake.
    let (settles, batches) = (Rc::clone(&relay), rig.batches());
    let settle = move || {
        let begun = Instant::now();
        while begun.elapsed() < idle_before {
            std::hint::spin_loop();
        }
        settles.laps(LAPS_BEFORE)
    };
    let workload = workload.waiting().at_most(batches);
    if pairing.target != Some("awake") {
        return Ok(workload.prepared(settle));
    }
    let spinners = awake.of([rig.setup().cpu, cpu])?;
    let stopped = spinners.clone();
    let awaken = move || spinners.iter().try_for_each(|spinner| spinner.start());
    Ok(workload.prepared(move || awaken().and_then(|()| settle())).tidied(move || {
        for spinner in &stopped {
            spinner.stop();
        }
        Ok(())
    }))
}

/// What the kernel counts for the other members of a relay.
pub(super) fn witnesses<P: Passage>(
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

/// A cache line between the measured CPU and a partner's.
pub(super) fn line(placement: &str, partner: &Rc<Spinner>) -> Workload<'static> {
    let (starts, stops, answers) = (Rc::clone(partner), Rc::clone(partner), Rc::clone(partner));
    Workload::of("line", line_labels(placement), 2, move |round_trips| answers.round_trips(round_trips))
        .sized(Sizing::ByTimes(LINE_LONGER))
        .waiting()
        .prepared(move || starts.start())
        .tidied(move || {
            stops.stop();
            Ok(())
        })
        .across(partner)
}

/// The ring of this launch, over all working sets, and a member alone with each of them.
pub(super) fn ring(rig: &mut Rig<'_>) -> Result<Vec<Workload<'static>>, Problem> {
    let members = RINGS[rig.turn() as usize % RINGS.len()];
    let largest = WORKING_SETS[WORKING_SETS.len() - 1];
    let burden = Burden { working_set: largest, spin: 0 };
    if (members * largest) as u64 > rig.memory() {
        rig.remark(&format!("ring.{members}"), &"it would take more than a quarter of the available memory");
        return Ok(Vec::new());
    }
    let circle = Circle { cpus: vec![rig.setup().cpu; members], threads: false, burden, placed: None };
    let relay = match Relay::<Pipe>::start(&circle) {
        Ok(relay) => Rc::new(relay),
        Err(error) => {
            rig.remark(&format!("ring.{members}"), &format!("{members} processes: {error}"));
            return Ok(Vec::new());
        }
    };
    let alone = Rc::new(RefCell::new((
        Pipe::circle(1, true).map_err(|error| Problem::new(format!("cannot make a pipe: {error}")))?,
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

/// A passage from a task to itself.
fn passage_of_own<P: Passage>(through: &str) -> Result<P, Problem> {
    let passages = P::circle(1, true).map_err(|error| Problem::new(format!("cannot make a {through}: {error}")))?;
    passages.into_iter().next().ok_or_else(|| Problem::new(format!("cannot make a {through}")))
}

/// The token through passages of one's own, in a process with one thread or several.
fn own<'a>(rig: &mut Rig<'_>, between: &str, pipe: &'a Pipe, event: &'a Event) -> Result<Vec<Workload<'a>>, Problem> {
    let passages = [("pipe", [pipe.passing(), pipe.taking()]), ("eventfd", [event.passing(), event.taking()])];
    let workload = |(through, operations): (&str, [Operation<'a>; 2])| {
        let placed = rig.placed_loop(operations.to_vec(), Around::Work)?;
        let labels = Labels::of([("between", between), ("through", through)]);
        Ok(rig.in_loop("own", labels, 1, &placed, Around::Work)?.sized(Sizing::ByTimes(WORK_LONGER)))
    };
    passages.into_iter().map(workload).collect()
}
