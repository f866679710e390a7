//! What differs between the machines and conditions of two sides.

use std::collections::BTreeSet;

use super::PlacedRun;
use crate::results::compact::Compact;
use crate::results::comparison::Difference;
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
    let mut look = |what: &str, of: &dyn Fn(&Compact) -> String| {
        let (one, other) = (values(base, of), values(new, of));
        if one != other {
            unlike.push(format!("{what}: {} and {}", joined(&one), joined(&other)));
        }
    };
    look("they ran on different machines", &machine);
    look("they measured with different peers", &|run| run.run.peer.clone().unwrap_or_default());
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

/// Which machine it was: by its identity, or by its model where the record has none.
pub(super) fn machine(run: &Compact) -> String {
    let name = run.node.name.clone().unwrap_or_else(|| run.run.id.clone());
    let identity = run.node.machine.clone().unwrap_or_else(|| format!("of model {}", run.node.fingerprint));
    format!("{name} ({identity})")
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

/// A fact and how a run answers it.
type Question = (String, Box<dyn Fn(&Compact) -> String>);

/// Every fact that one of the runs has.
fn questions<'a>(runs: impl Iterator<Item = &'a PlacedRun>) -> Vec<Question> {
    let mut asked: Vec<Question> = vec![
        ("machine".to_owned(), Box::new(machine)),
        ("CPU".to_owned(), Box::new(|run| run.run.cpu.to_string())),
        ("profile".to_owned(), Box::new(|run| run.run.profile.clone())),
        ("sysdyno".to_owned(), Box::new(program)),
        ("boot".to_owned(), Box::new(|run| run.node.boot.clone().unwrap_or_default())),
    ];
    let names: BTreeSet<String> =
        runs.flat_map(|placed| placed.run.facts.keys()).map(|name| kind(name).to_owned()).collect();
    asked.extend(names.into_iter().map(|name| {
        let of = name.clone();
        let answer = move |run: &Compact| {
            let found = run.facts.iter().filter(|(fact, _)| kind(fact) == of).map(|(_, value)| value.clone());
            found.collect::<Vec<_>>().join(", ")
        };
        (name, Box::new(answer) as Box<dyn Fn(&Compact) -> String>)
    }));
    asked
}

/// Whether facts about the machine, its kernel or the tool differ between two runs.
pub(super) fn machine_differs(before: &PlacedRun, after: &PlacedRun) -> bool {
    let asked = questions([before, after].into_iter());
    let of_the_machine = |question: &&Question| !OF_THE_RUN.iter().any(|begin| question.0.starts_with(begin));
    asked.iter().filter(of_the_machine).any(|(_, of)| of(&before.run) != of(&after.run))
}

/// Facts that changed between the last run of one stretch and the first run of the next one, and have no value in common between the
/// two stretches. The most important first.
pub(super) fn lasting(before: &[PlacedRun], after: &[PlacedRun]) -> Vec<Difference> {
    let (Some(last), Some(first)) = (before.last(), after.first()) else { return Vec::new() };
    let mut found = Vec::new();
    for (fact, of) in questions([last, first].into_iter()) {
        let [one, other] = [last, first].map(|run| of(&run.run));
        if one != other && values(before, &of).is_disjoint(&values(after, &of)) {
            let known = |value: String| if value.is_empty() { "none".to_owned() } else { value };
            found.push(Difference { fact, base: known(one), new: known(other) });
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
    for (fact, of) in questions(base.iter().chain(new)) {
        let (one, other) = (values(base, &of), values(new, &of));
        if one != other {
            found.push(Difference { fact, base: joined(&one), new: joined(&other) });
        }
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
