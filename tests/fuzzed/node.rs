//! Files that other nodes leave for `fleet` and `check`: runs in the compact form, and limits.

use std::collections::BTreeMap;

use sysdyno::testing::fleet::check::{check_facts, check_results};
use sysdyno::testing::fleet::reading::{Names, NodeRun, Reading};
use sysdyno::testing::results::accepted::Accepted;
use sysdyno::testing::results::compact::Compact;

use super::MOST_PLAYED;
use super::allocation::bounded;

/// Bytes held for each byte of a file: a result of a few letters has its numbers, a name, and places in lists that grow.
const HELD_PER_BYTE: usize = 256;
/// What is held beside that.
const SLACK: usize = 64 << 10;
/// A run whose results are held against limits.
const RUN: &[u8] = include_bytes!("../../fuzz/corpus/node/run.json");
/// Limits against which runs are held.
const LIMITS: &[u8] = include_bytes!("../../fuzz/corpus/accepted/limits.json");

/// A run of a node. What is kept of it is usable numbers, each result once, and the same when it is read again.
pub fn node(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(MOST_PLAYED)];
    let read = || NodeRun::of(bytes, Some("n1"), "n1.json").map(|run| (Reading::of(&run, &Names::default()), run));
    let Ok((reading, run)) = bounded(SLACK + HELD_PER_BYTE * bytes.len(), read) else { return };
    assert!(!reading.node.is_empty() && !reading.node.contains(['/', '\n', ' ']), "{:?}", reading.node);
    for pair in reading.keys.windows(2) {
        assert!(pair[0].name < pair[1].name, "{} is there twice", pair[1].name.text());
    }
    for key in &reading.keys {
        let numbers = [Some(key.value), key.by_clock];
        assert!(numbers.into_iter().flatten().all(|number| number.is_finite() && number > 0.0), "{key:?}");
        assert!(key.error.is_finite() && key.error >= 0.0, "{key:?}");
    }
    let again = serde_json::to_vec(&run.run).unwrap();
    assert!(Compact::parse(&again).is_ok(), "what was read cannot be written");
    let limits = Accepted::parse(LIMITS).unwrap();
    check_facts(&limits.models[0], &run.run.facts);
    check_results(&limits.models[0], run.run, |_| Some("an experiment"));
}

/// Limits of a fleet. Each limit of a known result gives one answer.
pub fn accepted(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(MOST_PLAYED)];
    let Ok(limits) = bounded(SLACK + HELD_PER_BYTE * bytes.len(), || Accepted::parse(bytes)) else { return };
    for model in &limits.models {
        let differing = check_facts(model, &BTreeMap::new());
        assert!(differing.len() <= model.facts.len());
        let answers = check_results(model, Compact::parse(RUN).unwrap(), |_| Some("an experiment"));
        assert_eq!(answers.len(), model.limits.len());
    }
}
