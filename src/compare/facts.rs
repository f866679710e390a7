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
fn machine(run: &Compact) -> String {
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

/// Every fact that differs, the most important first.
pub(super) fn differences(base: &[PlacedRun], new: &[PlacedRun]) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut look = |fact: &str, of: &dyn Fn(&Compact) -> String| {
        let (one, other) = (values(base, of), values(new, of));
        if one != other {
            found.push(Difference { fact: fact.to_owned(), base: joined(&one), new: joined(&other) });
        }
    };
    look("machine", &machine);
    look("CPU", &|run| run.run.cpu.to_string());
    look("profile", &|run| run.run.profile.clone());
    look("sysdyno", &|run| {
        let binary = run.run.binary.as_ref().map_or_else(String::new, |binary| format!(", binary {binary}"));
        format!("{} ({}{binary})", run.run.version, run.run.build)
    });
    look("boot", &|run| run.node.boot.clone().unwrap_or_default());
    let names: BTreeSet<&str> =
        base.iter().chain(new).flat_map(|placed| placed.run.facts.keys()).map(|name| kind(name)).collect();
    for name in names {
        let facts = |run: &Compact| {
            run.facts.iter().filter(|(fact, _)| kind(fact) == name).map(|(_, value)| value.clone()).collect::<Vec<_>>()
        };
        look(name, &|run| facts(run).join(", "));
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
        found.push(Difference { fact, base: text(least, most_other), new: text(least_other, most) });
    }
    let rank = |fact: &str| FIRST.iter().position(|first| fact.starts_with(first)).unwrap_or(FIRST.len());
    found.sort_by_key(|difference| rank(&difference.fact));
    found
}
