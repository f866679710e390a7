//! What costs are expected to be, from other machines. The nearest kind of which a machine is known decides. The fewer machines, the wider
//! the range, because one machine does not show how much its kind varies.

use std::collections::BTreeMap;

use super::entry::{Entry, EntryCost};
use super::kind::{Kind, Level};
use super::published::Published;
use crate::experiments::costs::{self, AskedCost, Decides};
use crate::results::expectation::{Expectation, Ground};
use crate::results::quantity::Unit;
use crate::results::wording::count;
use crate::statistics::distribution::student_quantile;
use crate::statistics::summary::mean;

/// Share of machines that a range holds.
const SHARE: f64 = 0.95;
/// Standard deviations between the quantiles of 10 % and 90 %.
const DEVIATIONS: f64 = 2.563;
/// How many machines the spread of published measurements counts for, where machines of the catalogue show another spread. The tests
/// over all stored runs, which are guests of one provider, hold from 4 to 16.
const PRIOR: f64 = 8.0;
/// Runs of one machine differ by this share at least.
const BETWEEN_RUNS: f64 = 0.02;

/// What costs of a machine are expected from.
#[derive(Debug, Clone, Copy)]
pub struct Basis<'a> {
    /// Machines of the catalogue.
    pub machines: &'a [Entry],
    /// Published costs.
    pub published: &'a [Published],
}

/// The factor between the lowest and the highest tenth of machines with one core design, as published measurements have it: L1 and L2
/// loads and counter reads 1.01 to 1.1 in cycles, L3 loads 1.05 to 1.75, cache lines 2, calls, pipes and forks 1.5 to 2 where
/// mitigations and kernel are alike, memory 1.6, bandwidth 2 to 5, wake-ups 5 to 10. Faults and disks have no published spread.
pub(super) fn spread(decides: Decides) -> f64 {
    match decides {
        Decides::Core => 1.1,
        Decides::Kernel | Decides::Clock => 1.5,
        Decides::Memory => 1.6,
        Decides::Cache | Decides::Pages => 1.75,
        Decides::Line => 2.0,
        Decides::Bandwidth => 3.0,
        Decides::WakeUp | Decides::Device => 6.0,
    }
}

/// How much wider the spread is where less is alike, chosen with the same tests. Calls differ by 5.3 between all mitigations and kernels, and by 1.75 within one.
fn wider(level: Level) -> f64 {
    match level {
        Level::Alike => 1.0,
        Level::Environment | Level::VendorAlike => 1.2,
        Level::Design => 1.5,
        Level::Vendor => 1.7,
        Level::Any => 2.0,
    }
}

/// What is expected of the costs of a machine.
pub fn expectations(kind: &Kind, basis: Basis<'_>) -> Vec<Expectation> {
    let of = |AskedCost { name, decides, .. }: AskedCost| {
        let kin = of_kind(name, decides, kind, basis.machines);
        kin.into_iter().chain(of_design(name, decides, kind, basis.published))
    };
    costs::asked().flat_map(of).collect()
}

/// What is published of the core design, or of the environment where no design decides.
fn of_design(name: &str, decides: Decides, kind: &Kind, published: &[Published]) -> Option<Expectation> {
    let is_guest = kind.environment != "bare metal";
    let environment = if is_guest { "guest" } else { "bare metal" };
    let is_x86 = kind.design.starts_with("AMD ") || kind.design.starts_with("Intel ");
    let is_of = |found: &&Published| {
        let is_design = if found.design.is_empty() { is_x86 } else { found.design == kind.design };
        found.cost == name && is_design && (found.environment.is_empty() || found.environment == environment)
    };
    let found = published.iter().find(is_of)?;
    // The range of few models is widened by what models of a design differ.
    let half = spread(decides).ln() / DEVIATIONS;
    let models = f64::from(found.models);
    let margin = half * student_quantile(f64::midpoint(SHARE, 1.0), PRIOR + models - 1.0)? / models.sqrt();
    let machines = if found.design.is_empty() { format!("x86-64 cores, {environment}") } else { found.design.clone() };
    Some(Expectation {
        cost: name.to_owned(),
        ground: Ground::Design,
        unit: found.unit,
        value: found.value,
        low: found.low * (-margin).exp(),
        high: found.high * margin.exp(),
        machines,
        basis: format!("published: {}, {}", found.source, count(found.models.into(), "model", "models")),
    })
}

/// What machines of the nearest kind say.
fn of_kind(name: &str, decides: Decides, kind: &Kind, machines: &[Entry]) -> Option<Expectation> {
    let known: Vec<(&Entry, &EntryCost)> =
        machines.iter().filter_map(|entry| Some((entry, entry.cost(name)?))).collect();
    Level::ALL.into_iter().find_map(|level| {
        let key = level.key(kind)?;
        let kin: Vec<&(&Entry, &EntryCost)> =
            known.iter().filter(|(entry, _)| level.key(&entry.kind).as_ref() == Some(&key)).collect();
        let unit = kin.first()?.1.unit;
        let kin: Vec<&EntryCost> = kin.into_iter().map(|(_, cost)| *cost).filter(|cost| cost.unit == unit).collect();
        let centre = mean(&kin.iter().map(|cost| cost.value.ln()).collect::<Vec<f64>>())?;
        let (between, degrees) = between_machines(level, decides, unit, &known);
        let variance = between * (1.0 + 1.0 / kin.len() as f64) + within_machines(&known);
        let half = student_quantile(f64::midpoint(SHARE, 1.0), degrees)? * variance.sqrt();
        let runs: usize = kin.iter().map(|cost| cost.runs).sum();
        Some(Expectation {
            cost: name.to_owned(),
            ground: Ground::Kind,
            unit,
            value: centre.exp(),
            low: (centre - half).exp(),
            high: (centre + half).exp(),
            machines: level.machines(kind),
            basis: format!(
                "{} of {}",
                count(runs as u64, "run", "runs"),
                count(kin.len() as u64, "machine", "machines")
            ),
        })
    })
}

/// Variance of the logarithms between machines that are alike at a level, and its degrees of freedom: what the catalogue shows, and the
/// published spread for as much as it counts.
fn between_machines(level: Level, decides: Decides, unit: Unit, known: &[(&Entry, &EntryCost)]) -> (f64, f64) {
    let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (entry, cost) in known.iter().filter(|(_, cost)| cost.unit == unit) {
        if let Some(key) = level.key(&entry.kind) {
            groups.entry(key).or_default().push(cost.value.ln());
        }
    }
    let prior = (spread(decides).ln() / DEVIATIONS * wider(level)).powi(2);
    let (mut squares, mut degrees) = (PRIOR * prior, PRIOR);
    for values in groups.values().filter(|values| values.len() > 1) {
        let middle = mean(values).unwrap_or_default();
        squares += values.iter().map(|value| (value - middle).powi(2)).sum::<f64>();
        degrees += (values.len() - 1) as f64;
    }
    (squares / degrees, degrees)
}

/// Variance of the logarithms between runs of one machine: from the ranges of machines with several runs.
fn within_machines(known: &[(&Entry, &EntryCost)]) -> f64 {
    let several: Vec<&EntryCost> = known.iter().map(|(_, cost)| *cost).filter(|cost| cost.runs > 1).collect();
    // The range of a few normal values is about the square root of their number times the standard deviation.
    let deviations = several.iter().map(|cost| ((cost.high / cost.low).ln() / (cost.runs as f64).sqrt()).powi(2));
    let variances: Vec<f64> = deviations.collect();
    mean(&variances).unwrap_or_default().max(BETWEEN_RUNS.powi(2))
}
