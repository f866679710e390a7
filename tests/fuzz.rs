//! The bounded run of the fuzzing: what was found worth keeping is played again, then some thousands of variations of it. The
//! search itself is `cargo fuzz`, see CONTRIBUTING.md; both call the same functions.
#![allow(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

mod fuzzed;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use fastrand::Rng;
use fuzzed::allocation::{self, bounded, is_counting};
use fuzzed::{Fuzzed, TARGETS};

#[global_allocator]
static ALLOCATOR: allocation::Counted = allocation::Counted;

/// Variations of each target; fewer where the machine is slow.
const VARIATIONS: u64 = 3000;
/// Longest time for the variations of one target.
const MOST_TIME: Duration = Duration::from_millis(900);
/// The same variations every time: one that fails can be played again.
const SEED: u64 = 0x7379_7364_796e_6f00;
/// Longest input that is made.
const LONGEST: usize = 8 << 10;
/// Fewer files than this are no corpus of a target.
const FEWEST_FILES: usize = 5;
/// What lengths and counts are compared with, and the numbers beside it.
const TURNING_POINTS: [u32; 12] = [0, 1, 4, 31, 64, 400, 2048, 4096, 1 << 20, 0x7fff_ffff, 0x8000_0000, u32::MAX];

/// Files that the search has left, in the order of their names.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    assert!(files.len() >= FEWEST_FILES, "{} files in {}", files.len(), directory.display());
    files
}

/// Plays one input; what it was is said when it fails.
#[allow(clippy::disallowed_macros, reason = "a failing test may say so")]
fn play(target: &str, fuzzed: Fuzzed, what: &str, bytes: &[u8]) {
    if let Err(panicked) = catch_unwind(AssertUnwindSafe(|| fuzzed(bytes))) {
        eprintln!("{target}, {what}: {}", bytes.escape_ascii());
        resume_unwind(panicked);
    }
}

/// An input that is somewhat other than one of the corpus.
fn vary(random: &mut Rng, files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = files[random.usize(..files.len())].1.clone();
    for _ in 0..random.usize(1..5) {
        let place = random.usize(..=bytes.len());
        let end = random.usize(place..=bytes.len());
        match random.u8(..7) {
            0 if place < bytes.len() => bytes[place] ^= 1 << random.u8(..8),
            1 if place < bytes.len() => bytes[place] = random.u8(..),
            2 => bytes.truncate(place),
            3 => drop(bytes.drain(place..end)),
            4 => bytes.extend_from_within(place..end),
            5 if place + 4 <= bytes.len() => {
                let number = random.choice(TURNING_POINTS).unwrap_or(0).wrapping_add_signed(random.i32(-1..=1));
                let number = if random.bool() { number.to_be_bytes() } else { number.to_le_bytes() };
                bytes[place..place + 4].copy_from_slice(&number);
            }
            _ => {
                let other = &files[random.usize(..files.len())].1;
                let from = random.usize(..=other.len());
                bytes.truncate(place);
                bytes.extend_from_slice(&other[from..]);
            }
        }
        bytes.truncate(LONGEST);
    }
    bytes
}

fn bounded_run(target: &str) {
    assert!(is_counting(), "allocations are not counted: no bound on them would fail");
    let (_, fuzzed) = *TARGETS.iter().find(|(name, _)| *name == target).unwrap();
    let files = corpus(target);
    for (name, bytes) in &files {
        play(target, fuzzed, name, bytes);
    }
    let began = Instant::now();
    for number in 0..VARIATIONS {
        let bytes = vary(&mut Rng::with_seed(SEED + number), &files);
        play(target, fuzzed, &format!("seed {:#x}", SEED + number), &bytes);
        if began.elapsed() > MOST_TIME {
            assert!(number > 50, "only {number} variations of {target} in {MOST_TIME:?}");
            break;
        }
    }
}

#[test]
fn frames_on_the_channel() {
    bounded_run("channel");
}

#[test]
fn requests_and_replies() {
    bounded_run("request");
}

#[test]
fn a_handshake_without_the_secret() {
    bounded_run("handshake");
}

#[test]
fn a_session_that_was_granted_nothing() {
    bounded_run("session");
}

#[test]
fn calls_to_the_export() {
    bounded_run("export");
}

#[test]
fn runs_of_other_nodes() {
    bounded_run("node");
}

#[test]
fn limits_of_a_fleet() {
    bounded_run("accepted");
}

#[test]
fn files_in_which_a_mesh_meets() {
    bounded_run("meeting");
}

#[test]
fn words_of_the_tasks_of_a_mesh() {
    bounded_run("member");
}

#[test]
fn results_of_a_mesh() {
    bounded_run("mesh");
}

#[test]
fn every_target_has_a_corpus_and_no_corpus_is_without_a_target() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let mut found: Vec<String> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    found.sort();
    let mut known: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    known.sort_unstable();
    assert_eq!(found, known);
}

#[test]
fn what_is_held_beyond_a_bound_is_seen() {
    let held = |bytes: usize| catch_unwind(|| bounded(4096, || drop(std::hint::black_box(vec![1_u8; bytes])))).is_ok();
    assert!(held(4000) && !held(5000));
    let grown = || {
        let mut bytes = Vec::with_capacity(3000);
        bytes.resize(3000, 1_u8);
        bytes.reserve_exact(1000);
        bytes
    };
    assert!(catch_unwind(|| bounded(4096, || drop(std::hint::black_box(grown())))).is_err(), "both are there");
}
