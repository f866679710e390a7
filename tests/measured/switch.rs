//! Known truth for context switches: what a test puts into a hop must come out of it, and what is no switch must not pass
//! for one. Everything is sampled by the rig itself, as in a launch.

use crate::support::truth;
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::support::truth::{timed, witness};
use sysdyno::testing::machine;
use sysdyno::testing::results::problem::Problem;
use sysdyno::testing::results::quantity::Labels;
use sysdyno::testing::results::series::Class;
use sysdyno::testing::rig::Rig;
use sysdyno::testing::rig::clock::{calibrate, counter_usable};
use sysdyno::testing::rig::request::Request;
use sysdyno::testing::rig::sampler::{Expected, Sizing, Switches, Witness, Workload};
use sysdyno::testing::setup::{Profile, Setup};
use sysdyno::testing::statistics::summary::quantile;
use sysdyno::testing::sys::affinity;
use sysdyno::testing::sys::arch::CHAIN_CYCLES;
use sysdyno::testing::sys::clock::{Source, monotonic_raw};
use sysdyno::testing::sys::relay::{Burden, Circle, Relay};
use sysdyno::testing::sys::spinner::{Duty, Spinner};
use sysdyno::testing::sys::token::{Event, Futex, Passage, Pipe};

/// Measurements take turns: on few CPUs two at once would measure each other.
static TURN: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cpus() -> Vec<u32> {
    static ALLOWED: std::sync::OnceLock<Vec<u32>> = std::sync::OnceLock::new();
    ALLOWED.get_or_init(affinity::allowed).clone()
}

fn measured_cpu() -> u32 {
    *cpus().last().unwrap()
}

/// One series as the rig logged it.
struct Logged {
    labels: Labels,
    /// Core cycles (or ticks, where no chain validates) of one operation, clean batches only.
    costs: Vec<f64>,
    classes: Vec<Class>,
}

impl Logged {
    /// Not a number where no batch is clean, which no comparison passes.
    fn cost(&self) -> f64 {
        quantile(&self.costs, 0.25).unwrap_or(f64::NAN)
    }

    fn count(&self, class: Class) -> usize {
        self.classes.iter().filter(|&&found| found == class).count()
    }
}

/// Samples workloads as a launch does. Returns their series, and the remarks.
fn sampled(batches: u32, workloads: Vec<Workload<'_>>) -> (Vec<Logged>, Vec<String>) {
    let cpu = measured_cpu();
    let source = if counter_usable(cpu).is_ok() { Source::Counter } else { Source::MonotonicRaw };
    let setup = Setup::of(machine::detect(Path::new("/"), Path::new("/")), cpu, cpus(), Profile::Default);
    let request = Request {
        setup,
        clock: calibrate(source, Duration::from_millis(50)).unwrap(),
        space: Err(Problem::new("no files here")),
        experiment: "test".to_owned(),
        launch: 1,
        first: false,
        turn: 0,
        fill_seconds: None,
        batches,
        sampling_seconds: 10.0,
        seed: 3,
        conductor: 0,
    };
    let mut out = Vec::new();
    let mut rig = Rig::set_up(&request, monotonic_raw(), &mut out).unwrap();
    truth::look();
    rig.sample(workloads).unwrap();
    truth::look();
    rig.finish().unwrap();
    let mut logged = Vec::new();
    let mut remarks = Vec::new();
    for line in String::from_utf8(out).unwrap().lines() {
        match serde_json::from_str(line).unwrap() {
            sysdyno::testing::results::log::Record::Series { series, .. } if series.name == "hop" => {
                let per_cycle = |index: usize| series.clock.get(index).copied().unwrap_or(1.0);
                let costs = (0..series.values.len())
                    .filter(|&index| series.class(index) == Class::Clean)
                    .map(|index| series.values[index] / per_cycle(index) / series.operations as f64)
                    .collect();
                logged.push(Logged { labels: series.labels.clone(), costs, classes: series.classes.0.clone() });
            }
            sysdyno::testing::results::log::Record::Evidence { evidence, .. } => {
                remarks.extend(evidence.remarks.into_iter().map(|remark| format!("{}: {}", remark.what, remark.value)));
            }
            _ => {}
        }
    }
    (logged, remarks)
}

/// Hops between two tasks that claim to be on the measured CPU.
fn hops<P: Passage>(name: &str, circle: &Circle, claimed: u32) -> Workload<'static> {
    let relay = Rc::new(Relay::<P>::start(circle).unwrap());
    let read = Rc::clone(&relay);
    Workload::of("hop", Labels::of([("as", name)]), 2, move |round_trips| relay.laps(round_trips))
        .sized(Sizing::ByTimes(4))
        .expecting(Expected { switches: Switches::One, ..Expected::default() })
        .witnessed(move || {
            let states = read.states()?;
            Ok(states
                .into_iter()
                .map(|state| Witness { counters: state.counters, cpu: state.cpu, wanted: claimed })
                .collect())
        })
}

fn circle(threads: bool, spin: u64) -> Circle {
    Circle { cpus: vec![measured_cpu(); 2], threads, burden: Burden { working_set: 0, spin }, placed: None }
}

/// Multiply chains of known length in each hop must lengthen it by exactly that, whoever hands on the token and how.
///
/// The chains are several times as long as a hop, because the hop itself changes by some hundred cycles when its partners do
/// something between two passages: what predictors and caches keep is another thing then.
#[test]
fn work_added_to_a_hop_comes_out_of_it() {
    const SPINS: [u64; 3] = [0, 1000, 2000];
    let _turn = alone();
    let slopes = |threads: bool, through: &str| {
        let workloads = SPINS
            .into_iter()
            .map(|spin| match through {
                "pipe" => hops::<Pipe>(&spin.to_string(), &circle(threads, spin), measured_cpu()),
                "eventfd" => hops::<Event>(&spin.to_string(), &circle(threads, spin), measured_cpu()),
                _ => hops::<Futex>(&spin.to_string(), &circle(threads, spin), measured_cpu()),
            })
            .collect();
        let (logged, _) = sampled(24, workloads);
        let costs: Vec<f64> = logged.iter().map(Logged::cost).collect();
        let added = |index: usize| (SPINS[index] * CHAIN_CYCLES) as f64;
        [(costs[1] - costs[0]) / added(1), (costs[2] - costs[0]) / added(2)]
    };
    for threads in [false, true] {
        for through in ["pipe", "eventfd", "futex"] {
            timed(&format!("{through}, threads {threads}"), || {
                let slopes = slopes(threads, through);
                let close = slopes.iter().all(|slope| (0.98..=1.02).contains(slope));
                if close { Ok(()) } else { Err(format!("{slopes:?}")) }
            });
        }
    }
}

/// A token between two CPUs that is claimed to be on one: every batch is void, and says why.
#[test]
fn a_wake_up_on_another_cpu_is_no_switch() {
    let _turn = alone();
    let other = cpus()[0];
    assert_ne!(other, measured_cpu(), "this test needs two CPUs");
    let apart = Circle { cpus: vec![measured_cpu(), other], threads: false, burden: Burden::default(), placed: None };
    let (logged, remarks) = sampled(8, vec![hops::<Pipe>("one", &apart, measured_cpu())]);
    assert_eq!(logged[0].count(Class::Wrong), 8);
    assert!(remarks.iter().any(|remark| remark.contains(&format!("CPU {other} instead of"))), "{remarks:?}");
}

/// A partner that polls never sleeps: the kernel counts no switches, and no batch passes.
#[test]
fn a_partner_that_polls_is_no_switch() {
    let _turn = alone();
    let other = cpus()[0];
    assert_ne!(other, measured_cpu(), "this test needs two CPUs");
    let partner = Rc::new(Spinner::new(other, Duty::Answer).unwrap());
    let (starts, stops) = (Rc::clone(&partner), Rc::clone(&partner));
    let workload = Workload::of("hop", Labels::none(), 2, move |count| partner.round_trips(count))
        .expecting(Expected { switches: Switches::One, ..Expected::default() })
        .witnessed(|| Ok(Vec::new()))
        .prepared(move || starts.start())
        .tidied(move || {
            stops.stop();
            Ok(())
        });
    let (logged, remarks) = sampled(8, vec![workload]);
    assert_eq!(logged[0].count(Class::Wrong), 8);
    assert!(remarks.iter().any(|remark| remark.contains("context switches, and")), "{remarks:?}");
}

/// Creating the partner, its first steps and its end inside the interval: page faults and switches give it away.
#[test]
fn a_partner_that_is_made_inside_the_interval_is_seen() {
    let _turn = alone();
    let workload = Workload::of("hop", Labels::none(), 2, |count| {
        let relay = Relay::<Pipe>::start(&circle(false, 0)).map_err(|error| error.to_string())?;
        relay.laps(count)
    })
    .sized(Sizing::Exactly(50))
    .expecting(Expected { switches: Switches::One, ..Expected::default() });
    let (logged, _) = sampled(6, vec![workload]);
    assert_eq!(logged[0].count(Class::Clean), 0, "{:?}", logged[0].classes);
}

/// A task that computes on the same CPU takes time from both partners; stopped, it takes none.
#[test]
fn a_running_competitor_is_seen_and_a_stopped_one_is_not() {
    let _turn = alone();
    let competitor = Spinner::new(measured_cpu(), Duty::Answer).unwrap();
    let preempted = |running: bool| {
        if running {
            competitor.start().unwrap();
        }
        let (logged, _) = sampled(400, vec![hops::<Pipe>("one", &circle(false, 0), measured_cpu())]);
        if running {
            competitor.stop();
        }
        assert_eq!(logged[0].labels, Labels::of([("as", "one")]));
        logged[0].count(Class::Preempted)
    };
    timed("preempted batches", || {
        let (with, without) = (preempted(true), preempted(false));
        if with >= 3 && without * 3 <= with { Ok(()) } else { Err(format!("{with} with, {without} without")) }
    });
}

/// The class of computing that a competitor interrupts.
#[test]
fn a_competitor_preempts_a_loop() {
    let _turn = alone();
    let competitor = Spinner::new(measured_cpu(), Duty::Answer).unwrap();
    competitor.start().unwrap();
    let turns = Cell::new(0_u64);
    timed("a loop beside a competitor", || {
        let workload = Workload::of("hop", Labels::none(), 1, |count| {
            sysdyno::testing::sys::arch::multiply_chain(count);
            turns.set(turns.get() + 1);
            Ok(())
        });
        let (logged, _) = sampled(400, vec![workload]);
        let preempted = logged[0].count(Class::Preempted);
        if preempted > 0 { Ok(()) } else { Err(format!("none of {} batches was preempted", turns.get())) }
    });
    competitor.stop();
}

/// The look that excuses a test without a judgement sees a task that computes on the same CPU.
#[test]
fn a_test_sees_a_competitor_on_its_own_core() {
    let _turn = alone();
    let competitor = Spinner::new(measured_cpu(), Duty::Answer).unwrap();
    competitor.start().unwrap();
    let look = || {
        affinity::restrict(&[measured_cpu()]).unwrap();
        witness()
    };
    let seen = std::thread::scope(|scope| scope.spawn(look).join().unwrap());
    competitor.stop();
    let seen = seen.expect("a competitor is seen");
    let share = seen.split("for ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
    assert!(share.is_some_and(|share| share > 20.0), "{seen}");
}
