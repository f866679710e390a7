//! The catalogue against the stored runs: each is judged by machines that are not its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::built_in::{FILES, built_in};
use super::entry::{Entry, known};
use super::expectations::{self, Basis, expectations};
use super::kind::Kind;
use super::published::published;
use crate::experiments::costs;
use crate::experiments::models;
use crate::experiments::models::coefficients::{self, Host};
use crate::results::compact::Compact;
use crate::results::expectation::{Expectation, Ground};
use crate::results::quantity::{Labels, Unit};
use crate::sys::create::{self, Access};

/// Who measured the machines of the records.
const SOURCE: &str = "records of sysdyno";
/// Set to write the files of the catalogue instead of comparing them.
const REGENERATE: &str = "SYSDYNO_WRITE_CATALOGUE";
/// Share of the costs of stored runs that may be called unusual.
const UNUSUAL: f64 = 0.05;
/// Share of planted changes that must be.
const FOUND: f64 = 0.9;
/// A planted change, in widths of the kind: from its lowest to its highest tenth.
const PLANTED: f64 = 3.0;
/// Share of the costs that must have a range narrower than a factor of 4, on a design without a record.
const NARROW: f64 = 0.7;
/// The same of the design with the least.
const LEAST_NARROW: f64 = 0.45;

fn root(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Every stored run.
fn records() -> Vec<Compact> {
    let places = fs::read_dir(root("records")).unwrap().map(|entry| entry.unwrap().path().join("node.json"));
    let mut places: Vec<PathBuf> = places.filter(|place| place.exists()).collect();
    places.sort();
    places.iter().map(|place| Compact::parse(&fs::read(place).unwrap()).unwrap()).collect()
}

/// The entries of runs, by the fingerprint of the machine.
fn entries<'a>(runs: impl Iterator<Item = &'a Compact>) -> BTreeMap<String, Entry> {
    let mut of: BTreeMap<String, Vec<Compact>> = BTreeMap::new();
    for run in runs {
        of.entry(run.node.fingerprint.clone()).or_default().push(run.clone());
    }
    of.into_iter().map(|(machine, runs)| (machine, Entry::of(&runs, SOURCE).unwrap())).collect()
}

/// The name of a file: letters and digits of the kind.
fn file_name(Kind { design, environment, cpus, .. }: &Kind) -> String {
    let words = format!("{design} {cpus}cpu {environment}").to_lowercase();
    words.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect()
}

#[test]
fn the_catalogue_is_what_the_records_give() {
    let mut names: BTreeMap<String, u32> = BTreeMap::new();
    let mut files: Vec<(String, String)> = Vec::new();
    for entry in entries(records().iter()).values() {
        let name = file_name(&entry.kind);
        let number = names.entry(name.clone()).or_default();
        *number += 1;
        let name = if *number == 1 { name } else { format!("{name}-{number}") };
        assert!(entry.text().len() < 5000, "{name} has {} bytes", entry.text().len());
        assert_eq!(Entry::parse(&entry.text()).unwrap(), *entry);
        files.push((format!("{name}.json"), entry.text()));
    }
    files.sort();
    if std::env::var_os(REGENERATE).is_some() {
        for (name, text) in &files {
            let place = root("catalogue").join(name);
            let _ = fs::remove_file(&place);
            create::whole(&place, Access::Shared, text).unwrap();
        }
    }
    // Some records have no node.json: their entries are made of metrics.csv and say so.
    let is_of_records = |text: &str| Entry::parse(text).unwrap().source == SOURCE;
    let of_records = || FILES.iter().filter(|(_, text)| is_of_records(text));
    assert!(FILES.iter().all(|(name, _)| root("catalogue").join(name).is_file()));
    assert_eq!(fs::read_dir(root("catalogue")).unwrap().count(), FILES.len() + 1, "FILES and the published costs");
    let listed: Vec<String> = of_records().map(|(name, _)| (*name).to_owned()).collect();
    let made: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(listed, made, "FILES lists the files of the catalogue");
    for ((name, built_in), (_, text)) in of_records().zip(&files) {
        assert!(*built_in == text, "{name}: {REGENERATE}=1 cargo test --lib catalogue");
    }
}

/// The costs of a run with what other machines than its own say.
fn judged(run: &Compact, all: &[Compact]) -> Vec<(Expectation, f64)> {
    let others = entries(all.iter().filter(|other| other.node.fingerprint != run.node.fingerprint));
    // Entries without a node.json are of no machine that is left out.
    let design = Kind::of(&run.facts).design;
    let of_csv = built_in().iter().filter(|entry| entry.source != SOURCE && entry.kind.design != design);
    let machines: Vec<Entry> = others.into_values().chain(of_csv.cloned()).collect();
    let basis = Basis { machines: &machines, published: published() };
    let known = known(run);
    let per_nanosecond = run.practice.core_hertz.map(|[_, middle, _]| middle / 1e9);
    let value = |expectation: &Expectation| {
        let (.., unit, [_, value, _]) = known.iter().find(|(name, ..)| *name == expectation.cost)?;
        match (*unit, expectation.unit) {
            (unit, expected) if unit == expected => Some(*value),
            (Unit::Nanoseconds, Unit::Cycles) => Some(value * per_nanosecond?),
            _ => None,
        }
    };
    let expected = expectations(&Kind::of(&run.facts), basis).into_iter();
    expected.filter_map(|expectation| value(&expectation).map(|value| (expectation, value))).collect()
}

#[test]
fn few_costs_of_stored_runs_are_unusual_and_planted_changes_are() {
    let records = records();
    let (mut all, mut unusual, mut found) = (0, Vec::new(), 0);
    for run in &records {
        for (expectation, value) in judged(run, &records) {
            if expectation.ground != Ground::Kind {
                continue;
            }
            all += 1;
            let holds = |value: f64| (expectation.low..=expectation.high).contains(&value);
            if !holds(value) {
                unusual.push(format!("{} of {}: {value} and {expectation:?}", expectation.cost, run.run.id));
            }
            let decides = costs::asked().find(|asked| asked.name == expectation.cost).unwrap().decides;
            let planted = value * expectations::spread(decides).powf(PLANTED);
            found += u32::from(!holds(planted));
        }
    }
    let text = unusual.join("\n");
    assert!(all > 300 && unusual.len() as f64 <= UNUSUAL * f64::from(all), "{} of {all}:\n{text}", unusual.len());
    assert!(f64::from(found) >= FOUND * f64::from(all), "{found} of {all} planted changes are found");
}

/// The costs of a run that other figures of it predict within a factor of 4 where no record has the design of its core.
fn narrow_predictions(run: &Compact) -> Vec<&'static str> {
    let kind = Kind::of(&run.facts);
    let hypervisor = kind.environment.trim_end_matches(" guest").to_owned();
    let host = Host { design: "in no record".to_owned(), kernel: kind.kernel, hypervisor };
    let metrics = run.experiments.iter().flat_map(|experiment| &experiment.metrics);
    let figures = metrics.flat_map(|metric| metric.figures.iter().map(move |figure| (&metric.name, &figure.labels)));
    let narrow = |(metric, labels): (&String, &String)| {
        let labels = Labels::parse(labels).unwrap_or_default();
        let name = costs::name_of(metric, &labels)?;
        let ratio = coefficients::table().find(&models::key(metric, &labels), &host)?;
        (ratio.spread.powi(2) < 4.0).then_some(name)
    };
    figures.filter_map(narrow).collect()
}

#[test]
fn a_design_without_records_has_narrow_ranges_with_their_grounds() {
    let records = records();
    let design = |run: &Compact| Kind::of(&run.facts).design;
    let mut shares: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for run in &records {
        let others: Vec<Compact> = records.iter().filter(|other| design(other) != design(run)).cloned().collect();
        let with_own: Vec<Compact> = others.iter().chain([run]).cloned().collect();
        let expected = judged(run, &with_own);
        let names: Vec<&str> = known(run).iter().map(|(name, ..)| *name).collect();
        let composed = narrow_predictions(run);
        let is_narrow = |name: &&&str| {
            let is = |found: &Expectation| found.cost == **name && found.high < 4.0 * found.low;
            composed.contains(*name) || expected.iter().any(|(found, _)| is(found))
        };
        let narrow = names.iter().filter(is_narrow).count();
        let share = narrow as f64 / names.len() as f64;
        assert!(share >= LEAST_NARROW, "{}: {narrow} of {}", run.run.id, names.len());
        shares.entry(design(run)).or_default().push(share);
        assert!(expected.iter().all(|(found, _)| !found.basis.is_empty() && !found.machines.is_empty()));
    }
    // Each design counts once, because one more run of a design says nothing of another.
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let all = mean(&shares.values().map(|shares| mean(shares)).collect::<Vec<f64>>());
    assert!(all >= NARROW, "{all}: {shares:?}");
}

#[test]
fn published_costs_are_in_order_and_of_known_costs() {
    for found in published() {
        assert!(costs::asked().any(|asked| asked.name == found.cost), "{found:?}");
        assert!(0.0 < found.low && found.low <= found.value && found.value <= found.high, "{found:?}");
        assert!(found.models > 0 && !found.source.is_empty(), "{found:?}");
    }
    assert!(published().len() > 100);
}
