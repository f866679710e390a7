//! Batches in blocks on a scripted clock: their order, what each block begins with, and how long its batches are.
use std::cell::RefCell;
use std::rc::Rc;

use crate::sampler::{Scripted, TARGET, World};
use sysdyno::testing::results::quantity::Labels;
use sysdyno::testing::results::series::Class;
use sysdyno::testing::rig::sampler::{Sampled, Sampler, Settings, Sizing, Workload};

/// Batches of each block.
const BATCHES: u32 = 10;
/// Ticks of 2 ms.
const WARM_UP: i64 = 4_000_000;

/// What workloads were asked to do: name and operations.
type Asked = Rc<RefCell<Vec<(char, i64)>>>;

/// A block for each name, of operations of so many ticks.
fn blocks(names: &[(char, i64, Sizing)], seed: u64) -> (Sampled, Vec<(char, i64)>) {
    let (world, asked) = (World::new(), Asked::default());
    let workloads = names
        .iter()
        .map(|&(name, each, sizing)| {
            let (world, asked) = (Rc::clone(&world), Rc::clone(&asked));
            Workload::of(&name.to_string(), Labels::none(), 1, move |operations| {
                world.pass(each * operations as i64);
                asked.borrow_mut().push((name, operations as i64));
                Ok(())
            })
            .sized(sizing)
        })
        .collect();
    let settings = Settings { batches: BATCHES, batch_ticks: TARGET, most_ticks: f64::INFINITY };
    let mut random = fastrand::Rng::with_seed(seed);
    let sampled = Sampler::new(&mut Scripted(Rc::clone(&world)), &settings, &mut random).run_in_blocks(workloads);
    (sampled, asked.take())
}

/// The names in the order of their last works.
fn order(asked: &[(char, i64)]) -> String {
    let last = |name: char| asked.iter().rposition(|asked| asked.0 == name).unwrap();
    let mut names: Vec<char> = asked.iter().map(|asked| asked.0).collect();
    names.sort_unstable();
    names.dedup();
    names.sort_by_key(|&name| last(name));
    names.into_iter().collect()
}

const THREE: [(char, i64, Sizing); 3] =
    [('a', 37, Sizing::ByTime), ('b', 71, Sizing::AtLeast(256)), ('c', 1000, Sizing::AtLeast(256))];

#[test]
fn one_workload_has_all_its_batches_before_the_next_begins() {
    let (sampled, asked) = blocks(&THREE, 1);
    for series in &sampled.series {
        assert_eq!(series.values.len(), BATCHES as usize);
        assert!((0..series.values.len()).all(|index| series.class(index) == Class::Clean));
    }
    // Sizing comes first, for all of them; then each name stands together.
    let mut changes: Vec<char> = asked.iter().map(|asked| asked.0).collect();
    changes.dedup();
    assert!(changes.starts_with(&['a', 'b', 'c']) && (5..=6).contains(&changes.len()), "{changes:?}");
}

#[test]
fn the_order_of_blocks_is_drawn_by_lot() {
    let orders: Vec<String> = (0..20).map(|seed| order(&blocks(&THREE, seed).1)).collect();
    assert!(orders.iter().any(|found| found == "bca") && orders.iter().any(|found| found == "cab"), "{orders:?}");
}

#[test]
fn a_block_begins_with_two_milliseconds_of_its_operation() {
    let (_, asked) = blocks(&THREE, 3);
    for (name, each, _) in THREE {
        let end = asked.iter().rposition(|asked| asked.0 == name).unwrap() + 1;
        let own: Vec<i64> =
            asked[..end].iter().rev().take_while(|asked| asked.0 == name).map(|asked| asked.1).collect();
        let (kept, before) = own.split_at(BATCHES as usize);
        assert!(kept.iter().all(|&operations| operations == kept[0]), "{name}: the batches are of one size");
        let span = each * before.iter().sum::<i64>();
        assert!((WARM_UP..WARM_UP * 5 / 4).contains(&span), "{name}: {span}");
    }
}

#[test]
fn batches_of_blocks_are_long_enough_and_no_longer() {
    let (sampled, _) = blocks(&THREE, 5);
    let operations: Vec<u64> = sampled.series.iter().map(|series| series.operations).collect();
    // Long enough for the clock, 256 where that is longer.
    assert!(operations[0] as f64 * 37.0 >= TARGET && operations[0] as f64 * 37.0 < 1.2 * TARGET, "{operations:?}");
    assert!(operations[1] as f64 * 71.0 >= TARGET && operations[1] as f64 * 71.0 < 1.2 * TARGET, "{operations:?}");
    assert_eq!(operations[2], 256);
}

#[test]
fn blocks_say_whether_time_follows_the_operations() {
    let (sampled, _) = blocks(&THREE, 7);
    for series in &sampled.series {
        assert!((series.linearity.unwrap() - 2.0).abs() < 1e-3, "{:?}", series.linearity);
    }
    let (sampled, _) = blocks(&[('a', 37, Sizing::Exactly(3000))], 7);
    assert_eq!(sampled.series[0].linearity, None);
}
