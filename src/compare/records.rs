//! Runs of machines that were installed from one image, with one identifier and one name.

use std::fs;
use std::path::Path;

use super::timeline::timeline;
use super::{PlacedRun, compare};
use crate::results::compact::Compact;
use crate::results::machines::hardware;

/// Every stored run with its core design and number of CPUs.
fn records() -> Vec<(String, PlacedRun)> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("records");
    let places = fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path().join("node.json"));
    let read = |place: &Path| {
        let run = Compact::parse(&fs::read(place).unwrap()).unwrap();
        (hardware(&run), PlacedRun { place: place.display().to_string(), run })
    };
    places.filter(|place| place.exists()).map(|place| read(&place)).collect()
}

#[test]
fn machines_of_different_designs_are_never_taken_for_one() {
    let records = records();
    let mut pairs = 0;
    for (design, one) in &records {
        for (_, other) in records.iter().filter(|(found, _)| found != design) {
            pairs += 1;
            let refused = compare(std::slice::from_ref(one), std::slice::from_ref(other), false).unwrap_err();
            assert!(refused.what.contains("different machines"), "{} {}: {refused}", one.place, other.place);
            let mut runs = [one.clone(), other.clone()].to_vec();
            runs.sort_by(|one, other| one.run.run.started.cmp(&other.run.run.started));
            let found = timeline(runs, Vec::new());
            assert_eq!(found.runs.len(), 1, "{} {}", one.place, other.place);
            assert!(found.left_aside[0].starts_with("1 run "), "{:?}", found.left_aside);
        }
    }
    assert!(pairs > 150, "{pairs} pairs");
}

#[test]
fn a_history_of_clones_is_of_the_newest_hardware_and_names_the_rest() {
    let mut runs: Vec<PlacedRun> = records().into_iter().map(|(_, run)| run).collect();
    runs.retain(|placed| placed.run.node.machine.is_some());
    runs.sort_by(|one, other| one.run.run.started.cmp(&other.run.run.started));
    let newest = runs.last().unwrap().run.clone();
    let all = runs.len();
    let found = timeline(runs, Vec::new());
    assert!(found.runs.len() > 1 && found.runs.len() < all, "{} of {all}", found.runs.len());
    assert!(found.machine.contains(&newest.node.fingerprint), "{}", found.machine);
    let aside = found.left_aside.join(". ");
    for design in ["AMD Zen 3, 2 CPUs", "Intel Golden Cove, 2 CPUs", &format!("now {}", hardware(&newest))] {
        assert!(aside.contains(design), "{design}: {aside}");
    }
}
