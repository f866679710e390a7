//! What differs between the machines and conditions of two sides.

use std::collections::{BTreeMap, BTreeSet};

use super::PlacedRun;
use crate::results::compact::Compact;
use crate::results::comparison::Difference;
use crate::results::machines;
use crate::results::wording::percent;

/// Facts that come first, by the beginning of their names; all others follow by name.
const FIRST: [&str; 14] = [
    "machine",
    "Processor: model",
    "Kernel: release",
    "Kernel: version",
    "Processor: microcode",
    "Kernel: s",
    "Kernel: m",
    "Memory: transparent huge pages",
    "Limits: hypervisor",
    "CPU",
    "sysdyno",
    "profile",
    "neighbour",
    "boot",
];

/// What makes two sides unlike: other machines, other peers, other methods. Empty where they are comparable. Another CPU of the same
/// machine is a difference only, because `run` itself takes the quieter one.
pub(super) fn unlike(base: &[PlacedRun], new: &[PlacedRun]) -> Vec<String> {
    let mut unlike = Vec::new();
    let peers = [base, new].map(|runs| values(runs, &|run| run.run.peer.clone().unwrap_or_default()));
    for (what, [one, other]) in
        [("they ran on different machines", machine_titles(base, new)), ("they measured with different peers", peers)]
    {
        if one != other {
            unlike.push(format!("{what}: {} and {}", joined(&one), joined(&other)));
        }
    }
    for experiment in methods(base).intersection(&methods(new)) {
        let version = |run: &Compact| {
            let found = run.experiments.iter().find(|found| found.id == *experiment);
            found.map_or_else(String::new, |found| format!("version {}", found.method_version))
        };
        let (one, other) = (values(base, &version), values(new, &version));
        if one != other {
            unlike.push(format!("the method of {experiment} differs: {} and {}", joined(&one), joined(&other)));
        }
    }
    unlike
}

/// Experiments that have results.
fn methods(runs: &[PlacedRun]) -> BTreeSet<String> {
    let found = runs.iter().flat_map(|placed| &placed.run.experiments).filter(|found| !found.metrics.is_empty());
    found.map(|found| found.id.clone()).collect()
}

/// The machines of each side. Each has one title, also where hidden files gave some of its runs another fingerprint.
fn machine_titles(base: &[PlacedRun], new: &[PlacedRun]) -> [BTreeSet<String>; 2] {
    let mut known: Vec<&Compact> = Vec::new();
    [base, new].map(|runs| {
        let titles = runs.iter().map(|placed| {
            let found = known.iter().copied().find(|run| machines::is_same(run, &placed.run));
            machines::title(found.unwrap_or_else(|| {
                known.push(&placed.run);
                &placed.run
            }))
        });
        titles.collect()
    })
}

/// The different values of a side.
fn values(runs: &[PlacedRun], of: &dyn Fn(&Compact) -> String) -> BTreeSet<String> {
    runs.iter().map(|placed| of(&placed.run)).filter(|value| !value.is_empty()).collect()
}

fn joined(values: &BTreeSet<String>) -> String {
    if values.is_empty() { "none".to_owned() } else { values.iter().cloned().collect::<Vec<_>>().join(", ") }
}

/// The name of a fact without the place that it is about: scratch directories have other names in each run.
fn kind(fact: &str) -> &str {
    fact.find(" of /").map_or(fact, |end| &fact[..end])
}

/// Beginnings of facts about a run: they change from run to run, and mean little for its results.
const OF_THE_RUN: [&str; 2] = ["CPU", "boot"];

/// Every fact of a run by its kind, with the values of all that are of one kind.
fn facts(run: &Compact) -> BTreeMap<&str, String> {
    let mut found: BTreeMap<&str, String> = BTreeMap::from([
        ("CPU", run.run.cpu.to_string()),
        ("profile", run.run.profile.clone()),
        ("sysdyno", program(run)),
        ("boot", run.node.boot.clone().unwrap_or_default()),
    ]);
    for (fact, value) in &run.facts {
        let known = found.entry(kind(fact)).or_default();
        if !known.is_empty() {
            known.push_str(", ");
        }
        known.push_str(value);
    }
    found
}

/// The different values of each fact that a side has.
fn all_values(runs: &[PlacedRun]) -> BTreeMap<&str, BTreeSet<String>> {
    let mut all: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (fact, value) in runs.iter().flat_map(|placed| facts(&placed.run)).filter(|(_, value)| !value.is_empty()) {
        all.entry(fact).or_default().insert(value);
    }
    all
}

/// Names of facts of either side.
fn names<'a, V>(one: &BTreeMap<&'a str, V>, other: &BTreeMap<&'a str, V>) -> BTreeSet<&'a str> {
    one.keys().chain(other.keys()).copied().collect()
}

/// Whether facts about the machine, its kernel or the tool differ between two runs.
pub(super) fn machine_differs(before: &PlacedRun, after: &PlacedRun) -> bool {
    let (one, other) = (facts(&before.run), facts(&after.run));
    let of_the_machine = |name: &&str| !OF_THE_RUN.iter().any(|begin| name.starts_with(begin));
    names(&one, &other).into_iter().filter(of_the_machine).any(|name| one.get(name) != other.get(name))
}

/// Facts that changed between the last run of one stretch and the first run of the next one, and have no value in common between the
/// two stretches. The most important first.
pub(super) fn lasting(before: &[PlacedRun], after: &[PlacedRun]) -> Vec<Difference> {
    let (Some(last), Some(first)) = (before.last(), after.first()) else { return Vec::new() };
    let (one, other) = (facts(&last.run), facts(&first.run));
    let (all_before, all_after) = (all_values(before), all_values(after));
    let mut found = Vec::new();
    for fact in names(&one, &other).into_iter().filter(|fact| one.get(fact) != other.get(fact)) {
        let shared = all_before.get(fact).zip(all_after.get(fact)).is_some_and(|(one, other)| !one.is_disjoint(other));
        if !shared {
            let known = |found: &BTreeMap<&str, String>| {
                found.get(fact).filter(|value| !value.is_empty()).cloned().unwrap_or_else(|| "none".to_owned())
            };
            found.push(Difference { fact: fact.to_owned(), base: known(&one), new: known(&other) });
        }
    }
    found.sort_by_key(|difference| rank(&difference.fact));
    found
}

/// The tool that measured: two builds of one version can differ.
fn program(run: &Compact) -> String {
    let binary = run.run.binary.as_ref().map_or_else(String::new, |binary| format!(", binary {binary}"));
    format!("{} ({}{binary})", run.run.version, run.run.build)
}

/// Every fact that differs, the most important first.
pub(super) fn differences(base: &[PlacedRun], new: &[PlacedRun]) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut compare = |fact: &str, one: &BTreeSet<String>, other: &BTreeSet<String>| {
        if one != other {
            found.push(Difference { fact: fact.to_owned(), base: joined(one), new: joined(other) });
        }
    };
    let [one, other] = machine_titles(base, new);
    compare("machine", &one, &other);
    let (one, other, none) = (all_values(base), all_values(new), BTreeSet::new());
    for fact in names(&one, &other) {
        compare(fact, one.get(fact).unwrap_or(&none), other.get(fact).unwrap_or(&none));
    }
    let shares = |runs: &[PlacedRun]| {
        let mut shares: Vec<f64> = runs.iter().filter_map(|placed| placed.run.practice.shared_share).collect();
        shares.sort_by(f64::total_cmp);
        shares
    };
    let (one, other) = (shares(base), shares(new));
    if let (Some(&least), Some(&most)) = (one.first(), other.last())
        && let (Some(&least_other), Some(&most_other)) = (other.first(), one.last())
        && (most + 0.01 < least || most_other + 0.01 < least_other || one.len() + other.len() == 2)
        && one != other
    {
        let text = |low: f64, high: f64| {
            let [low, high] = [low, high].map(percent);
            if low == high {
                format!("during {low} of the batches")
            } else {
                format!("during {low} to {high} of the batches")
            }
        };
        let fact = "neighbour on the core".to_owned();
        let (base, new) = (text(least, most_other), text(least_other, most));
        // A difference that no reader sees is none.
        if base != new {
            found.push(Difference { fact, base, new });
        }
    }
    found.sort_by_key(|difference| rank(&difference.fact));
    found
}

/// Place of a fact among all.
fn rank(fact: &str) -> usize {
    FIRST.iter().position(|first| fact.starts_with(first)).unwrap_or(FIRST.len())
}
