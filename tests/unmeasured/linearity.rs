//! G7: twice the operations take twice as long, on a scripted clock and in logs made up of known costs.
use std::cell::RefCell;
use std::rc::Rc;

use crate::evaluation::{self, assert_rejected, batches, code, of_code};
use crate::sampler::{self, World};
use sysdyno::testing::assemble;
use sysdyno::testing::results::document::Document;
use sysdyno::testing::results::log::Log;
use sysdyno::testing::results::quantity::Labels;
use sysdyno::testing::results::verdict::Trust;
use sysdyno::testing::rig::sampler::{Sizing, Workload};

/// Work whose operations take what a function of their number says.
fn work(world: &Rc<World>, ticks: impl Fn(f64) -> f64 + 'static) -> Workload<'static> {
    let world = Rc::clone(world);
    Workload::of("work", Labels::none(), 1, move |operations| {
        world.pass(ticks(operations as f64) as i64);
        Ok(())
    })
}

#[test]
fn the_sampler_times_half_as_many_operations() {
    let world = World::new();
    let workloads = vec![
        work(&world, |operations| 37.0 * operations),
        work(&world, |operations| 0.5 * operations.powf(1.2)),
        work(&world, |operations| 40_000.0 + 7.0 * operations),
    ];
    let sampled = sampler::sample(&world, workloads);
    let ratios: Vec<f64> = sampled.series.iter().map(|series| series.linearity.unwrap()).collect();
    assert!((ratios[0] - 2.0).abs() < 1e-3, "{ratios:?}");
    assert!((ratios[1] - 2.0_f64.powf(1.2)).abs() < 1e-2, "{ratios:?}");
    assert!(ratios[2] < 1.7, "{ratios:?}");
}

#[test]
fn five_halves_of_a_launch_are_all_that_it_costs() {
    let (world, asked) = (World::new(), Rc::new(RefCell::new(Vec::new())));
    let (clock, asking) = (Rc::clone(&world), Rc::clone(&asked));
    let counted = Workload::of("work", Labels::none(), 1, move |operations| {
        asking.borrow_mut().push(operations);
        clock.pass(37 * operations as i64);
        Ok(())
    });
    let sampled = sampler::sample(&world, vec![counted]);
    let size = sampled.series[0].operations;
    assert_eq!(asked.borrow().iter().filter(|&&operations| operations == size / 2).count(), 5);
}

#[test]
fn bodies_of_one_size_and_single_shots_have_no_halves() {
    let world = World::new();
    let linear = || work(&world, |operations| 37.0 * operations);
    let workloads = vec![
        linear(),
        linear().sized(Sizing::TimesThat(2, 0)),
        linear().sized(Sizing::Exactly(3000)),
        linear().at_most(4),
        linear(),
    ];
    let sampled = sampler::sample(&world, workloads);
    let has: Vec<bool> = sampled.series.iter().map(|series| series.linearity.is_some()).collect();
    assert_eq!(has, [false, false, false, false, true]);
}

#[test]
fn what_does_not_grow_with_its_operations_is_no_cost_of_the_core() {
    assert_rejected(|launch| of_code(launch, "registers", |series| series.linearity = Some(2.1)), "G7");
    assert_rejected(|launch| of_code(launch, "registers", |series| series.linearity = Some(1.9)), "G7");
    // One launch in three in which a neighbour or an interrupt met one side of the pairs.
    let now_and_then = |launch: &mut sysdyno::testing::results::log::Launch| {
        let ratio = if launch.number.is_multiple_of(3) { 3.1 } else { 2.01 };
        of_code(launch, "registers", |series| series.linearity = Some(ratio));
    };
    let document = assemble::document(&evaluation::log(now_and_then));
    let metric = document.metric("cpu.loop.overhead", &code("registers")).unwrap();
    assert_eq!(metric.verdict.trust, Trust::Clean);
    assert!(metric.verdict.gates.iter().any(|gate| gate.id == "G7" && gate.pass));
}

/// A log of `cpu.procedure_call`: calls of four cycles and a loop of two, one short body with calls at another pace.
fn calls(pace: f64) -> Log {
    let mut log = evaluation::log(|launch| {
        "cpu.procedure_call".clone_into(&mut launch.experiment);
        launch.series.clear();
        for kind in ["registers", "memory", "compiled"] {
            for chain in ["throughput", "latency"] {
                for arguments in 0..8 {
                    let labels = code(kind).with("chain", chain).with("args", arguments);
                    let is_slow = kind == "compiled" && chain == "throughput" && arguments == 0;
                    let cost = 4.0 + 0.05 * f64::from(arguments);
                    let (turns, slow) = (1000.0, if is_slow { pace } else { 1.0 });
                    let short = turns * (32.0 * cost * slow + 2.0);
                    launch.series.push(batches("short", labels.clone(), 32_000, short));
                    launch.series.push(batches("long", labels, 64_000, turns * (64.0 * cost + 2.0)));
                }
            }
        }
    });
    "cpu.procedure_call".clone_into(&mut log.steps[0].experiment);
    log
}

fn has(document: &Document, name: &str, labels: &Labels) -> bool {
    document.metric(name, labels).is_some()
}

#[test]
fn calls_of_two_paces_give_no_difference_and_no_slope() {
    let compiled = code("compiled").with("chain", "throughput");
    let first = compiled.clone().with("args", 0);
    let (time, slope) = ("cpu.procedure_call.time", "cpu.procedure_call.per_argument");
    let even = assemble::document(&calls(1.0));
    assert!(has(&even, time, &first) && has(&even, slope, &compiled));
    let uneven = assemble::document(&calls(4.86 / 4.06));
    let refused = uneven.experiments[0].rejected.iter().find(|found| found.labels == first).unwrap();
    assert!(refused.reason.starts_with("G7: "), "{}", refused.reason);
    assert!(!has(&uneven, time, &first) && !has(&uneven, slope, &compiled));
    assert!(has(&uneven, time, &compiled.with("args", 1)));
    assert!(has(&uneven, slope, &code("memory").with("chain", "throughput")));
}

#[test]
fn the_gate_of_pairs_leaves_logs_without_them_alone() {
    let document = assemble::document(&evaluation::log(|_| ()));
    let metric = document.metric("cpu.loop.overhead", &code("registers")).unwrap();
    assert!(metric.verdict.gates.iter().all(|gate| gate.id != "G7"));
}
