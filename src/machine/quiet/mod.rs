//! What would spoil a measurement on this machine, by how much, and what would change it.
//!
//! Every check reads; none changes a setting and none takes a time. A check that cannot look says so: it is neither passed
//! nor hidden.

mod clocks;
mod load;
mod sample;
mod surroundings;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Machine;
use super::tree::Tree;

pub use sample::{CpuTicks, StatSample};

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Stable name, such as `governor`.
    pub check: String,
    /// True when the check looked and found nothing that spoils a figure.
    pub ok: bool,
    /// False when the check could not look; then it is not `ok` either.
    pub known: bool,
    /// What is.
    pub detail: String,
    /// What that does to figures; also given for conditions that are normal but cost something.
    pub effect: Option<Effect>,
    /// A shell command that would change it, or what else to do.
    pub remedy: Option<String>,
}

/// How much a condition does to which figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// The figures.
    pub spoils: String,
    /// Smallest effect, in `unit`; not negative.
    pub low: f64,
    /// Largest effect, in `unit`; not below `low`.
    pub high: f64,
    /// Unit of both.
    pub unit: EffectUnit,
    /// Where the range is from.
    pub reason: String,
}

/// Unit of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EffectUnit {
    /// Per cent of the figure.
    #[serde(rename = "%")]
    Percent,
    /// Core cycles for each operation.
    #[serde(rename = "cycles")]
    Cycles,
    /// Microseconds for each operation.
    #[serde(rename = "us")]
    Microseconds,
}

impl std::fmt::Display for Effect {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let unit = match self.unit {
            EffectUnit::Percent => "%",
            EffectUnit::Cycles => "cycles",
            EffectUnit::Microseconds => "µs",
        };
        write!(out, "{} to {} {unit} on {}: {}", self.low, self.high, self.spoils, self.reason)
    }
}

impl Check {
    fn of(ok: bool, known: bool, detail: impl Into<String>) -> Check {
        Check { check: String::new(), ok, known, detail: detail.into(), effect: None, remedy: None }
    }

    /// Nothing that spoils. With [`Check::spoils`] it is a normal condition that costs something.
    fn fine(detail: impl Into<String>) -> Check {
        Check::of(true, true, detail)
    }

    /// Something that spoils.
    fn problem(detail: impl Into<String>) -> Check {
        Check::of(false, true, detail)
    }

    /// The check could not look.
    fn unknown(detail: impl Into<String>) -> Check {
        Check::of(false, false, detail)
    }

    /// With its effect on figures.
    fn spoils(self, figures: &str, (low, high): (f64, f64), unit: EffectUnit, reason: &str) -> Check {
        // Three decimals are more than any of these ranges is known to.
        let round = |value: f64| (value * 1e3).round() / 1e3;
        let (low, high) = (round(low), round(high.max(low)));
        let effect = Effect { spoils: figures.to_owned(), low, high, unit, reason: reason.to_owned() };
        Check { effect: Some(effect), ..self }
    }

    /// With what would change it.
    fn fix(self, remedy: impl Into<String>) -> Check {
        Check { remedy: Some(remedy.into()), ..self }
    }
}

/// What the checks look at.
struct View<'a> {
    tree: Tree,
    machine: &'a Machine,
    sample: Option<StatSample>,
}

type Look = fn(&View<'_>) -> Check;

/// Every check, in the order in which they are reported.
const CHECKS: &[(&str, Look)] = &[
    ("governor", clocks::governor),
    ("turbo", clocks::turbo),
    ("clock", clocks::clock),
    ("idle", clocks::idle),
    ("tick", clocks::tick),
    ("power", clocks::power),
    ("siblings", load::siblings),
    ("steal", load::steal),
    ("load", load::load),
    ("pressure", load::pressure),
    ("quota", load::quota),
    ("affinity", load::affinity),
    ("priority", load::priority),
    ("swap", load::swap),
    ("reclaim", load::reclaim),
    ("numa_balancing", load::numa_balancing),
    ("huge_pages", surroundings::huge_pages),
    ("mitigations", surroundings::mitigations),
    ("privileges", surroundings::privileges),
    ("perf_events", surroundings::perf_events),
    ("scratch", surroundings::scratch),
    ("hypervisor", surroundings::hypervisor),
    ("container", surroundings::container),
    ("seccomp", surroundings::seccomp),
    ("tracing", surroundings::tracing),
];

/// All checks on a machine that was described from the same `root`.
pub fn checks(root: &Path, machine: &Machine) -> Vec<Check> {
    let view = View { tree: Tree::at(root), machine, sample: StatSample::read(root) };
    CHECKS.iter().map(|(name, look)| Check { check: (*name).to_owned(), ..look(&view) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_check_has_its_own_well_formed_name() {
        let names: HashSet<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), CHECKS.len());
        for name in names {
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        }
    }

    #[test]
    fn a_check_that_cannot_look_is_never_passed() {
        let empty = tempfile::tempdir().unwrap();
        let machine = super::super::detect(empty.path(), Path::new("/tmp"));
        for check in checks(empty.path(), &machine) {
            assert!(check.known || !check.ok, "{check:?}");
            assert!(!check.detail.is_empty(), "{check:?}");
        }
    }
}
