//! The sampler on a scripted clock: what it does when time, probes, counters and work behave in every way they can.
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use sysdyno::testing::machine;
use sysdyno::testing::results::log::Clock;
use sysdyno::testing::results::problem::Problem;
use sysdyno::testing::results::quantity::Labels;
use sysdyno::testing::results::series::Class;
use sysdyno::testing::rig::instruments::Instruments;
use sysdyno::testing::rig::sampler::{
    Expected, Sampled, Sampler, Settings, Sizing, Switches, Timed, Witness, Workload,
};
use sysdyno::testing::setup::{Profile, Setup};
use sysdyno::testing::sys::arch::Stamp;
use sysdyno::testing::sys::counters::ThreadCounters;

/// The CPU of the script.
const CPU: u32 = 3;
/// Ticks of an empty interval.
const BIAS: i64 = 20;
/// Ticks that a batch is to last.
pub const TARGET: f64 = 100_000.0;

/// A machine that does what a test tells it. Time passes only where something is read or worked.
pub struct World {
    ticks: Cell<i64>,
    cpu: Cell<u32>,
    counters: Cell<ThreadCounters>,
    probe: Cell<Option<f64>>,
    /// Ticks of a turn of the loop that shows a neighbour.
    width: Cell<f64>,
    /// Batches of work so far, warm-up and sizing included.
    works: Cell<u64>,
}

impl World {
    pub fn new() -> Rc<Self> {
        Rc::new(World {
            ticks: Cell::new(1_000_000),
            cpu: Cell::new(CPU),
            counters: Cell::default(),
            probe: Cell::new(Some(0.5)),
            width: Cell::new(0.5),
            works: Cell::new(0),
        })
    }

    pub fn pass(&self, ticks: i64) {
        self.ticks.set(self.ticks.get() + ticks);
    }

    fn count(&self, change: impl Fn(&mut ThreadCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    /// Work of so many ticks for each iteration, after which something happens.
    fn work(self: &Rc<Self>, each: i64, then: impl Fn(&World) + 'static) -> Workload<'static> {
        let world = Rc::clone(self);
        Workload::of("work", Labels::none(), 4, move |iterations| {
            world.works.set(world.works.get() + 1);
            world.pass(each * iterations as i64);
            then(&world);
            Ok(())
        })
    }
}

/// The instruments of a world.
pub struct Scripted(pub Rc<World>);

impl Instruments for Scripted {
    fn stamp(&mut self) -> Stamp {
        // The two readings of an interval cost one bias together.
        self.0.pass(BIAS / 2);
        let stamp = Stamp { ticks: self.0.ticks.get(), cpu: self.0.cpu.get() };
        self.0.pass(BIAS / 2);
        stamp
    }
    fn probe(&mut self) -> Option<f64> {
        self.0.pass(1000);
        self.0.probe.get()
    }
    fn width(&mut self) -> f64 {
        self.0.pass(1000);
        self.0.width.get()
    }
    fn counters(&mut self) -> ThreadCounters {
        self.0.counters.get()
    }
    fn bias(&self) -> f64 {
        BIAS as f64
    }
    fn resolution(&self) -> f64 {
        1.0
    }
    fn hertz(&self) -> f64 {
        2e9
    }
    fn cpu(&self) -> u32 {
        CPU
    }
}

/// Ten batches of each workload, in sweeps.
pub fn sample(world: &Rc<World>, workloads: Vec<Workload<'_>>) -> Sampled {
    let settings = Settings { batches: 10, batch_ticks: TARGET, most_ticks: f64::INFINITY };
    let mut random = fastrand::Rng::with_seed(5);
    Sampler::new(&mut Scripted(Rc::clone(world)), &settings, &mut random).run(workloads)
}

/// The widths beside the batches of a workload that does one thing in every batch.
fn widths(then: impl Fn(&World) + 'static) -> Vec<[f64; 2]> {
    let world = World::new();
    let work = world.work(50, then);
    sample(&world, vec![work]).series[0].widths.clone()
}

#[test]
fn a_neighbour_on_the_core_is_in_the_widths_of_the_batches_that_it_stood_beside() {
    assert_eq!(widths(|_| ()), vec![[1.0, 1.0]; 10]);
    // It comes with one batch in two and goes with the next.
    let seen = widths(|world| world.width.set(if world.width.get() < 0.7 { 0.9 } else { 0.5 }));
    assert!(seen == [[1.0, 1.8], [1.8, 1.0]].repeat(5) || seen == [[1.8, 1.0], [1.0, 1.8]].repeat(5), "{seen:?}");
    // A core clock that changes changes no width, and without a clock none is known.
    let slower = widths(|world| {
        let factor = if world.probe.get() == Some(0.5) { 2.0 } else { 0.5 };
        world.probe.set(world.probe.get().map(|probe| probe * factor));
        world.width.set(world.width.get() * factor);
    });
    assert_eq!(slower, vec![[1.0, 1.0]; 10]);
    assert_eq!(widths(|world| world.probe.set(None)), Vec::<[f64; 2]>::new());
}

/// The classes of a workload that does one thing in every batch.
fn classes(then: impl Fn(&World) + 'static) -> Vec<Class> {
    let world = World::new();
    let workload = world.work(37, then);
    let sampled = sample(&world, vec![workload]);
    (0..sampled.series[0].values.len()).map(|index| sampled.series[0].class(index)).collect()
}

fn all(class: Class) -> Vec<Class> {
    vec![class; 10]
}

#[test]
fn steady_work_is_sampled_clean_and_exactly() {
    let world = World::new();
    let workload = world.work(37, |_| ());
    let sampled = sample(&world, vec![workload]);
    let series = &sampled.series[0];
    assert!(sampled.settled && sampled.remarks.is_empty());
    assert_eq!(series.values.len(), 10);
    for (index, value) in series.values.iter().enumerate() {
        assert_eq!(series.class(index), Class::Clean);
        let each = value / (series.operations as f64 / 4.0);
        assert!((each - 37.0).abs() < 1e-6, "the bias is removed: {each}");
        assert!((series.clock[index] - 0.5).abs() < 1e-9);
    }
}

#[test]
fn batches_are_as_long_as_asked_and_not_much_longer() {
    for each in [1, 3, 37, 999, 20_000, 99_999] {
        let world = World::new();
        let workload = world.work(each, |_| ());
        let sampled = sample(&world, vec![workload]);
        for &value in &sampled.series[0].values {
            assert!(value + BIAS as f64 >= TARGET, "{each} ticks each: a batch of {value}");
            // What is timed in doublings overshoots by one iteration and a few percent.
            assert!(value <= TARGET * 1.2 + each as f64, "{each} ticks each: a batch of {value}");
        }
    }
}

#[test]
fn work_that_finds_its_pace_late_gets_longer_batches() {
    let world = World::new();
    let (slow, fast) = (37, 9);
    let at = Rc::clone(&world);
    let base = Workload::of("short", Labels::none(), 1, move |iterations| {
        at.works.set(at.works.get() + 1);
        let pace = if at.works.get() < 32 { slow } else { fast };
        at.pass(pace * iterations as i64);
        Ok(())
    });
    let double = world.work(37, |_| ()).sized(Sizing::TimesThat(2, 0));
    let sampled = sample(&world, vec![base, double]);
    let shortest = sampled.series[0].values.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(shortest + BIAS as f64 >= TARGET, "a batch of {shortest}");
    assert_eq!(sampled.series[1].operations, 2 * 4 * sampled.series[0].operations);
}

#[test]
fn one_iteration_that_is_longer_than_a_batch_is_a_batch() {
    let world = World::new();
    let workload = world.work(5_000_000, |_| ());
    let sampled = sample(&world, vec![workload]);
    assert_eq!(sampled.series[0].operations, 4, "one iteration of four operations");
}

#[test]
fn the_limits_of_a_batch_follow_bias_resolution_and_interrupts() {
    struct Coarse(f64, f64);
    impl Instruments for Coarse {
        fn stamp(&mut self) -> Stamp {
            Stamp { ticks: 0, cpu: 0 }
        }
        fn probe(&mut self) -> Option<f64> {
            None
        }
        fn counters(&mut self) -> ThreadCounters {
            ThreadCounters::default()
        }
        fn bias(&self) -> f64 {
            self.0
        }
        fn resolution(&self) -> f64 {
            self.1
        }
        fn hertz(&self) -> f64 {
            1e9
        }
        fn cpu(&self) -> u32 {
            0
        }
    }
    let request = sysdyno::testing::rig::request::Request {
        setup: Setup::of(machine::detect(Path::new("/proc/nonexistent"), Path::new("/")), 0, vec![0], Profile::Default),
        clock: Clock { source: "tsc".to_owned(), hertz: 1e9, error_ppm: 0.0, slew_ppm: 0.0 },
        space: Err(Problem::new("no files here")),
        experiment: String::new(),
        launch: 1,
        first: false,
        turn: 0,
        fill_seconds: None,
        batches: 30,
        sampling_seconds: 10.0,
        seed: 1,
        conductor: 1,
    };
    let ticks = |bias, resolution| Settings::of(&request, &Coarse(bias, resolution)).batch_ticks;
    assert!((20_000.0..40_000.0).contains(&ticks(20.0, 1.0)), "20 µs where nothing else asks for more");
    assert!(ticks(1000.0, 1.0) >= 200.0 * 1000.0, "200 times the bias");
    assert!(ticks(20.0, 1000.0) >= 1000.0 * 1000.0, "1000 times the resolution");
}

#[test]
fn a_pair_has_the_same_iterations_and_a_double_twice_as_many() {
    let world = World::new();
    let workloads = vec![
        world.work(37, |_| ()),
        world.work(71, |_| ()).sized(Sizing::SameAs(0)),
        world.work(37, |_| ()).sized(Sizing::TimesThat(2, 0)),
    ];
    let sampled = sample(&world, workloads);
    let operations: Vec<u64> = sampled.series.iter().map(|series| series.operations).collect();
    assert_eq!(operations, [operations[0], operations[0], 2 * operations[0]]);
}

#[test]
fn workloads_take_turns_in_changing_order() {
    let world = World::new();
    let turns: Rc<RefCell<Vec<char>>> = Rc::default();
    let workloads = ['a', 'b', 'c', 'd']
        .into_iter()
        .map(|name| {
            let (world, turns) = (Rc::clone(&world), Rc::clone(&turns));
            Workload::of("work", Labels::none(), 1, move |iterations| {
                turns.borrow_mut().push(name);
                world.pass(100 * iterations as i64);
                Ok(())
            })
        })
        .collect();
    sample(&world, workloads);
    let turns = turns.borrow();
    let sweeps: Vec<&[char]> = turns[turns.len() - 40..].chunks(4).collect();
    for sweep in &sweeps {
        let mut sorted = sweep.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, ['a', 'b', 'c', 'd'], "each has one turn in every sweep");
    }
    assert!(sweeps.iter().any(|sweep| *sweep != sweeps[0]), "the order changes");
}

#[test]
fn a_clock_that_steps_back_voids_the_batch_and_never_wraps() {
    let world = World::new();
    let workload = world.work(37, |world| {
        // Now and then, once batches are sized and warm.
        if world.works.get() > 60 && world.works.get().is_multiple_of(3) {
            world.pass(-1_000_000);
        }
    });
    let settings = Settings { batches: 60, batch_ticks: TARGET, most_ticks: f64::INFINITY };
    let mut random = fastrand::Rng::with_seed(5);
    let sampled = Sampler::new(&mut Scripted(Rc::clone(&world)), &settings, &mut random).run(vec![workload]);
    let series = &sampled.series[0];
    let mut backwards = 0;
    for (index, &value) in series.values.iter().enumerate() {
        assert!(value.abs() < 2e6, "a wrapped difference: {value}");
        backwards += usize::from(series.class(index) == Class::Backwards);
        assert_eq!(series.class(index) == Class::Backwards, value < 0.0, "{value}");
    }
    assert!(backwards > 0);
}

#[test]
fn probes_that_differ_make_a_batch_unsteady() {
    let apart = |by: f64| {
        classes(move |world| {
            let next = if world.works.get().is_multiple_of(2) { 0.5 } else { 0.5 * (1.0 + by) };
            world.probe.set(Some(next));
        })
    };
    assert_eq!(apart(0.02), all(Class::Unsteady));
    assert_eq!(apart(0.005), all(Class::Clean));
    assert_eq!(classes(|world| world.probe.set(Some(0.0))), all(Class::Unsteady), "a probe of nothing");
}

#[test]
fn a_forced_switch_makes_a_batch_preempted() {
    assert_eq!(classes(|world| world.count(|counters| counters.involuntary_switches += 1)), all(Class::Preempted));
    assert_eq!(classes(|world| world.count(|counters| counters.voluntary_switches += 1)), all(Class::Clean));
}

#[test]
fn page_faults_make_a_batch_faulted() {
    assert_eq!(classes(|world| world.count(|counters| counters.minor_faults += 1)), all(Class::Faulted));
    assert_eq!(classes(|world| world.count(|counters| counters.major_faults += 1)), all(Class::Faulted));
}

#[test]
fn another_cpu_makes_a_batch_migrated() {
    let moved = classes(|world| world.cpu.set(CPU + 1));
    assert_eq!(moved, all(Class::Migrated), "even when it began and ended on the same wrong one");
    let there_and_back =
        classes(|world| world.cpu.set(if world.works.get().is_multiple_of(2) { CPU } else { CPU + 1 }));
    assert!(there_and_back.iter().all(|&class| class == Class::Migrated), "{there_and_back:?}");
}

#[test]
fn work_that_fails_is_wrong_and_says_why() {
    let world = World::new();
    let (clock, failing) = (Rc::clone(&world), Cell::new(0));
    let workload = Workload::of("read", Labels::none(), 1, move |iterations| {
        clock.pass(37 * iterations as i64);
        failing.set(failing.get() + 1);
        if failing.get() > 40 && failing.get() % 2 == 0 { Err("3 bytes instead of 4".to_owned()) } else { Ok(()) }
    });
    let settings = Settings { batches: 40, batch_ticks: TARGET, most_ticks: f64::INFINITY };
    let mut random = fastrand::Rng::with_seed(5);
    let sampled = Sampler::new(&mut Scripted(world), &settings, &mut random).run(vec![workload]);
    let wrong = (0..40).filter(|&index| sampled.series[0].class(index) == Class::Wrong).count();
    assert!((10..40).contains(&wrong), "{wrong}");
    assert_eq!(sampled.remarks[0].what, "wrong.read");
    assert_eq!(sampled.remarks[0].value, "3 bytes instead of 4");
}

#[test]
fn the_worst_cause_names_the_batch() {
    let everything = |step: i64| {
        classes(move |world| {
            world.count(|counters| counters.involuntary_switches += 1);
            world.count(|counters| counters.minor_faults += 1);
            world.cpu.set(CPU + 1);
            // A batch is sized in fewer works than these.
            world.pass(if world.works.get() > 30 { step } else { 0 });
        })
    };
    assert!(everything(-10_000_000).ends_with(&[Class::Backwards; 5]));
    assert_eq!(everything(0), all(Class::Migrated));
}

#[test]
fn work_that_never_settles_is_flagged_and_not_waited_for() {
    let world = World::new();
    // Every batch lasts a tenth longer than the one before.
    let grown = Rc::new(Cell::new(1.0_f64));
    let (clock, growing) = (Rc::clone(&world), Rc::clone(&grown));
    let workload = Workload::of("work", Labels::none(), 1, move |iterations| {
        growing.set(growing.get() * 1.1);
        clock.works.set(clock.works.get() + 1);
        clock.pass((iterations as f64 * growing.get()) as i64);
        Ok(())
    });
    let sampled = sample(&world, vec![workload]);
    assert!(!sampled.settled);
    assert!(sampled.warm_up_batches <= 100, "{}", sampled.warm_up_batches);
    assert_eq!(sampled.series[0].values.len(), 10, "it is sampled nevertheless");
}

#[test]
fn work_that_settles_late_is_waited_for() {
    let world = World::new();
    let workload = world.work(37, |world| {
        if world.works.get() < 20 {
            world.pass(1_000_000 / world.works.get() as i64);
        }
    });
    let sampled = sample(&world, vec![workload]);
    assert!(sampled.settled && sampled.warm_up_batches > 8, "{sampled:?}");
}

#[test]
fn a_clock_that_stands_still_cannot_hang_it() {
    struct Stopped(u64);
    impl Instruments for Stopped {
        fn stamp(&mut self) -> Stamp {
            self.0 += 1;
            assert!(self.0 < 10_000, "reads the clock for ever");
            Stamp { ticks: 7, cpu: CPU }
        }
        fn probe(&mut self) -> Option<f64> {
            Some(0.0)
        }
        fn counters(&mut self) -> ThreadCounters {
            ThreadCounters::default()
        }
        fn bias(&self) -> f64 {
            BIAS as f64
        }
        fn resolution(&self) -> f64 {
            1.0
        }
        fn hertz(&self) -> f64 {
            2e9
        }
        fn cpu(&self) -> u32 {
            CPU
        }
    }
    let most = Rc::new(Cell::new(0_u64));
    let seen = Rc::clone(&most);
    let workload = Workload::of("work", Labels::none(), 1, move |iterations| {
        seen.set(seen.get().max(iterations));
        Ok(())
    });
    let settings = Settings { batches: 10, batch_ticks: TARGET, most_ticks: f64::INFINITY };
    let mut random = fastrand::Rng::with_seed(5);
    let sampled = Sampler::new(&mut Stopped(0), &settings, &mut random).run(vec![workload]);
    assert!(!sampled.settled);
    assert!((0..10).all(|index| sampled.series[0].class(index) == Class::Unsteady), "cycles cannot be told");
    assert!(most.get() <= 1 << 41, "the search for a size is bounded in steps: {}", most.get());
}

#[test]
fn without_probes_there_are_no_cycles() {
    let world = World::new();
    world.probe.set(None);
    let workload = world.work(37, |_| ());
    let sampled = sample(&world, vec![workload]);
    assert!(sampled.series[0].clock.is_empty());
    assert!((0..10).all(|index| sampled.series[0].class(index) == Class::Clean));
}

#[test]
fn work_that_judges_itself_is_believed() {
    let world = World::new();
    let preempting = |timed: fn(i64) -> Timed, name: &str| {
        let own = Rc::clone(&world);
        Workload::self_timed(name, Labels::none(), 1, move |_| {
            own.pass(200_000);
            own.count(|counters| counters.involuntary_switches += 1);
            Ok(timed(150_000))
        })
        .sized(Sizing::Exactly(1))
        .unclocked()
    };
    let settings = Settings { batches: 5, batch_ticks: TARGET, most_ticks: f64::INFINITY };
    let mut random = fastrand::Rng::with_seed(1);
    let workloads = vec![
        preempting(Timed::Ticks, "ticks"),
        preempting(Timed::Undisturbed, "undisturbed"),
        preempting(Timed::Preempted, "preempted"),
    ];
    let sampled = Sampler::new(&mut Scripted(Rc::clone(&world)), &settings, &mut random).run(workloads);
    let classes: Vec<Class> = sampled.series.iter().map(|series| series.class(0)).collect();
    assert_eq!(classes, [Class::Preempted, Class::Clean, Class::Preempted]);
    assert!(sampled.series.iter().all(|series| series.clock.is_empty() && series.values.len() == 5));
}

#[test]
fn where_others_take_the_cpu_there_are_fewer_batches_and_at_least_one_of_each() {
    // After the sizes were found, each batch takes a second more.
    let series = |seconds: f64| {
        let world = World::new();
        let busy = |world: &World| {
            if world.works.get() > 30 {
                world.pass(2_000_000_000);
            }
        };
        let settings = Settings { batches: 10, batch_ticks: TARGET, most_ticks: seconds * 2e9 };
        let mut random = fastrand::Rng::with_seed(1);
        let workloads = || vec![world.work(1000, busy), world.work(500, busy)];
        let sampled = Sampler::new(&mut Scripted(Rc::clone(&world)), &settings, &mut random).run(workloads());
        let began = world.ticks.get();
        let blocks = Sampler::new(&mut Scripted(Rc::clone(&world)), &settings, &mut random).run_in_blocks(workloads());
        let seconds = (world.ticks.get() - began) as f64 / 2e9;
        let counts = |sampled: &Sampled| sampled.series.iter().map(|series| series.values.len()).collect::<Vec<_>>();
        (counts(&sampled), counts(&blocks), sampled.settled, seconds)
    };
    let (sweeps, blocks, _, _) = series(f64::INFINITY);
    assert_eq!((sweeps, blocks), (vec![10, 10], vec![8, 8]));
    let (sweeps, blocks, settled, seconds) = series(4.0);
    assert!(!settled && sweeps == [1, 1] && blocks == [1, 1], "{sweeps:?} {blocks:?}");
    assert!(seconds < 20.0, "{seconds} s");
}

#[test]
fn a_changing_core_clock_voids_only_what_it_rules() {
    let world = World::new();
    let change = |world: &World| world.probe.set(world.probe.get().map(|probe| probe * 1.05));
    let workloads = vec![world.work(1000, change), world.work(1000, change).unclocked()];
    let settings = Settings { batches: 5, batch_ticks: TARGET, most_ticks: f64::INFINITY };
    let mut random = fastrand::Rng::with_seed(1);
    let sampled = Sampler::new(&mut Scripted(Rc::clone(&world)), &settings, &mut random).run(workloads);
    assert_eq!(sampled.series[0].class(2), Class::Unsteady);
    assert_eq!(sampled.series[1].class(2), Class::Clean);
}

/// The classes of hops between this task and one witness: switches of each per batch beyond or below the hops, the share of
/// the time that both had the CPU for, and the witness's CPU.
fn classes_of_hops(switches: Switches, extra: i64, share: f64, witness_cpu: u32) -> Vec<Class> {
    let world = World::new();
    let theirs = Rc::new(Cell::new(ThreadCounters::default()));
    let (working, counting, seen) = (Rc::clone(&world), Rc::clone(&theirs), Rc::clone(&theirs));
    let workload = Workload::of("hop", Labels::none(), 2, move |round_trips| {
        let ticks = 500 * round_trips as i64;
        working.pass(ticks);
        // Half of the time and half of the switches are each one's; the clock has two ticks in a nanosecond.
        let time = (ticks as f64 / 2.0 / 2.0 * share) as i64;
        working.count(|counters| {
            counters.voluntary_switches += round_trips as i64;
            counters.cpu_time += time;
        });
        let mut counters = counting.get();
        counters.involuntary_switches += round_trips as i64 + extra;
        counters.cpu_time += time;
        counting.set(counters);
        Ok(())
    })
    .expecting(Expected { switches, ..Expected::default() })
    .witnessed(move || Ok(vec![Witness { counters: seen.get(), cpu: witness_cpu, wanted: CPU }]));
    let sampled = sample(&world, vec![workload]);
    (0..10).map(|index| sampled.series[0].class(index)).collect()
}

#[test]
fn hops_are_as_many_switches_as_the_kernel_counts() {
    assert_eq!(classes_of_hops(Switches::One, 0, 1.0, CPU), all(Class::Clean));
    // One switch more or less may be the neighbour's of the batch.
    assert_eq!(classes_of_hops(Switches::One, 1, 1.0, CPU), all(Class::Clean));
    assert_eq!(classes_of_hops(Switches::One, 40, 1.0, CPU), all(Class::Preempted));
    assert_eq!(classes_of_hops(Switches::One, -40, 1.0, CPU), all(Class::Wrong));
    assert_eq!(classes_of_hops(Switches::OneOrMore, 40, 1.0, CPU), all(Class::Clean));
    assert_eq!(classes_of_hops(Switches::OneOrMore, -40, 1.0, CPU), all(Class::Wrong));
    assert_eq!(classes_of_hops(Switches::Sleep, -40, 1.0, CPU), all(Class::Missed));
}

#[test]
fn time_that_no_partner_had_was_somebody_elses() {
    assert_eq!(classes_of_hops(Switches::One, 0, 0.5, CPU), all(Class::Preempted));
    assert_eq!(classes_of_hops(Switches::OneOrMore, 0, 0.5, CPU), all(Class::Preempted));
    assert_eq!(classes_of_hops(Switches::Sleep, 0, 0.5, CPU), all(Class::Clean));
}

#[test]
fn a_partner_on_the_wrong_cpu_voids_the_batch() {
    assert_eq!(classes_of_hops(Switches::One, 0, 1.0, CPU + 1), all(Class::Wrong));
}
