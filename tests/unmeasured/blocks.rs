//! Batches in blocks on a scripted clock: their order, what each block begins with, and how long its batches are.
use std::cell::RefCell;
use std::rc::Rc;

use crate::sampler::{Scripted, TARGET, World};
use sysdyno::testing::results::quantity::Labels;
use sysdyno::testing::results::series::Class;
use sysdyno::testing::rig::sampler::{Sampled, Sampler, Settings, Sizing, Workload};

/// Batches that a launch takes of each workload.
const BATCHES: u32 = 10;
/// Ticks of 1 ms, before the first batch at most, and so many operations.
const FIRST: (i64, i64) = (2_000_000, 5000);
/// The same of 0.2 ms, before each later one.
const LATER: (i64, i64) = (400_000, 500);
/// Fewest repeats before the first batch, half of them with half as many operations.
const PAIRS: i64 = 5;

/// What workloads were asked to do: name and operations.
type Asked = Rc<RefCell<Vec<(char, i64)>>>;

/// Blocks of each name, of operations of so many ticks.
fn blocks(names: &[(char, i64, Sizing)], seed: u64) -> (Sampled, Vec<(char, i64)>) {
    rounds(BATCHES, names, seed)
}

/// The same in so many rounds.
fn rounds(batches: u32, names: &[(char, i64, Sizing)], seed: u64) -> (Sampled, Vec<(char, i64)>) {
    changed(batches, names, seed, |workload| workload)
}

/// The same of workloads with other properties.
fn changed<'a>(
    batches: u32,
    names: &[(char, i64, Sizing)],
    seed: u64,
    change: impl Fn(Workload<'a>) -> Workload<'a>,
) -> (Sampled, Vec<(char, i64)>) {
    let (world, asked) = (World::new(), Asked::default());
    let workloads = names
        .iter()
        .map(|&(name, each, sizing)| {
            let (world, asked) = (Rc::clone(&world), Rc::clone(&asked));
            let workload = Workload::of(&name.to_string(), Labels::none(), 1, move |operations| {
                world.pass(each * operations as i64);
                asked.borrow_mut().push((name, operations as i64));
                Ok(())
            });
            change(workload.sized(sizing))
        })
        .collect();
    let settings = Settings { batches, batch_ticks: TARGET, most_ticks: f64::INFINITY };
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

/// Name of a block, and the operations of each time that it was asked for.
type Block = (char, Vec<i64>);

/// The blocks of three workloads in four rounds, in an order in which no block follows one of the same name.
fn separate_blocks() -> (Sampled, Vec<Block>) {
    let apart = |seed| {
        let (sampled, asked) = rounds(4, &THREE, seed);
        let together = asked.chunk_by(|one, next| one.0 == next.0);
        let together: Vec<Block> =
            together.map(|part| (part[0].0, part.iter().map(|asked| asked.1).collect())).collect();
        // Sizing comes first, for all of them.
        (together.len() == 3 + 12).then(|| (sampled, together[3..].to_vec()))
    };
    (0..200).find_map(apart).expect("one seed of 200 has such an order")
}

#[test]
fn every_round_has_a_block_of_each_workload() {
    let (sampled, blocks) = separate_blocks();
    for series in &sampled.series {
        assert_eq!(series.values.len(), 4);
        assert!((0..series.values.len()).all(|index| series.class(index) == Class::Clean));
    }
    for round in blocks.chunks(3) {
        let mut names: Vec<char> = round.iter().map(|block| block.0).collect();
        names.sort_unstable();
        assert_eq!(names, ['a', 'b', 'c']);
    }
}

#[test]
fn the_order_of_blocks_is_drawn_by_lot() {
    let orders: Vec<String> = (0..20).map(|seed| order(&blocks(&THREE, seed).1)).collect();
    assert!(orders.iter().any(|found| found == "bca") && orders.iter().any(|found| found == "cab"), "{orders:?}");
}

#[test]
fn a_block_begins_with_its_operation_and_has_one_batch() {
    let (_, blocks) = separate_blocks();
    for (name, each, _) in THREE {
        for (round, (_, block)) in blocks.iter().filter(|block| block.0 == name).enumerate() {
            let (batch, before) = block.split_last().unwrap();
            let (ticks, operations) = if round == 0 { FIRST } else { LATER };
            let all = before.iter().sum::<i64>();
            // The last repeat begins before the time or the operations are over.
            let least = if round == 0 { PAIRS * 3 * batch / 2 } else { *batch };
            let wanted = operations.min(ticks / each).max(least);
            assert!((wanted..=wanted + 2 * batch).contains(&all), "{name} in round {round}: {all}, wanted {wanted}");
            assert!(round == 0 || before.iter().all(|operations| operations == batch), "{name}: one size");
        }
    }
}

#[test]
fn operations_that_wait_have_all_batches_and_no_warm_up_after_the_first() {
    let one = [('a', 1000, Sizing::AtLeast(256))];
    let (sampled, asked) = changed(12, &one, 3, Workload::waiting);
    assert_eq!(sampled.series[0].values.len(), 12);
    assert!(asked[asked.len() - 11..].iter().all(|&(_, operations)| operations == 256));
    let works = |batches: u32| changed(batches, &one, 3, Workload::waiting).1.len();
    assert_eq!(works(12) - works(2), 10, "a batch is all of a later block");
    assert_eq!(rounds(12, &one, 3).0.series[0].values.len(), 8, "others have fewer, each after a warm-up");
}

#[test]
fn workloads_that_are_compared_keep_one_size() {
    for seed in 0..20 {
        let names = [('a', 37, Sizing::ByTime), ('b', 74, Sizing::SameAs(0)), ('c', 37, Sizing::TimesThat(3, 0))];
        let (sampled, _) = blocks(&names, seed);
        let operations: Vec<u64> = sampled.series.iter().map(|series| series.operations).collect();
        assert_eq!(operations, [operations[0], operations[0], 3 * operations[0]]);
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
