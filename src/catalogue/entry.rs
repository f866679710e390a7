//! An entry of the catalogue: what kind of machine it is and what its costs are.

use serde::{Deserialize, Serialize};

use super::kind::Kind;
use crate::experiments;
use crate::experiments::costs::{self, AskedCost};
use crate::results::compact::{Compact, CompactFigure, six_digits};
use crate::results::document::Grade;
use crate::results::problem::Problem;
use crate::results::quantity::{Labels, Unit};
use crate::results::wording::count;
use crate::statistics::summary::median;

/// The cost that is the core clock.
const CLOCK: &str = "core clock";
/// Version of the format.
const FORMAT: &str = "sysdyno-machine/1";

/// A machine of the catalogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Format version, `sysdyno-machine/1`.
    pub format: String,
    /// What kind of machine it is.
    pub kind: Kind,
    /// Who measured it.
    pub source: String,
    /// Days of its runs, ascending.
    pub runs: Vec<String>,
    /// Its costs, in the order of the report.
    pub costs: Vec<EntryCost>,
}

/// A cost of a machine of the catalogue, by one version of its method. In the file it is a list of these, so that a machine has 4 kB.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "CostLine", from = "CostLine")]
pub struct EntryCost {
    /// Short name.
    pub cost: String,
    /// Version of the method.
    pub method: u32,
    /// Unit of the numbers: core cycles where the result has them.
    pub unit: Unit,
    /// Median over the runs.
    pub value: f64,
    /// The least of the runs; of one run, the lower end of its interval.
    pub low: f64,
    /// The largest of the runs; of one run, the upper end of its interval.
    pub high: f64,
    /// Runs that have it.
    pub runs: usize,
}

type CostLine = (String, u32, Unit, f64, f64, f64, usize);

impl From<EntryCost> for CostLine {
    fn from(found: EntryCost) -> Self {
        (found.cost, found.method, found.unit, found.value, found.low, found.high, found.runs)
    }
}

impl From<CostLine> for EntryCost {
    fn from((cost, method, unit, value, low, high, runs): CostLine) -> Self {
        EntryCost { cost, method, unit, value, low, high, runs }
    }
}

impl Entry {
    /// The entry of a machine from its runs: what is good or rough in them.
    ///
    /// # Errors
    ///
    /// Where there is no run, runs are of several kinds of machines, or no cost is known.
    pub fn of(runs: &[Compact], source: &str) -> Result<Entry, Problem> {
        let first = runs.first().ok_or_else(|| Problem::new("an entry of the catalogue needs a run"))?;
        let kind = Kind::of(&first.facts);
        if let Some(other) = runs.iter().find(|run| run.node.fingerprint != first.node.fingerprint) {
            return Err(Problem::new(format!("{} and {} are of two machines", first.run.id, other.run.id))
                .hint("an entry is of one machine: give the runs of one"));
        }
        let mut days: Vec<String> = runs.iter().map(|run| run.run.started.chars().take(10).collect()).collect();
        days.sort();
        let costs = costs_of(runs);
        if costs.is_empty() {
            return Err(Problem::new("no cost of these runs is known well enough").hint("give a default run"));
        }
        Ok(Entry { format: FORMAT.to_owned(), kind, source: source.to_owned(), runs: days, costs })
    }

    /// An entry from its file.
    ///
    /// # Errors
    ///
    /// Why it is none, in words.
    pub fn parse(text: &str) -> Result<Entry, String> {
        let entry: Entry = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if entry.format != FORMAT {
            return Err(format!("it has format {}, and this build reads {FORMAT}", entry.format));
        }
        let is_possible = |cost: &EntryCost| {
            let ordered = 0.0 < cost.low && cost.low <= cost.value && cost.value <= cost.high;
            ordered && cost.high.is_finite() && cost.runs > 0
        };
        match entry.costs.iter().find(|cost| !is_possible(cost)) {
            Some(cost) => Err(format!("the numbers of {} are not in order", cost.cost)),
            None => Ok(entry),
        }
    }

    /// The file of an entry: a line for each cost.
    pub fn text(&self) -> String {
        let costs: Vec<String> = self.costs.iter().map(|cost| format!("  {}", line(cost))).collect();
        let [format, source] = [&self.format, &self.source].map(line);
        format!(
            "{{\n \"format\": {format},\n \"kind\": {},\n \"source\": {source},\n \"runs\": {},\n \"costs\": [\n{}\n ]\n}}\n",
            line(&self.kind),
            line(&self.runs),
            costs.join(",\n")
        )
    }

    /// What else is known of the machine, in words.
    pub fn about(&self) -> String {
        let Kind { kernel, mitigations, memory, .. } = &self.kind;
        let runs = count(self.runs.len() as u64, "run", "runs");
        let [first, last] = [self.runs.first(), self.runs.last()].map(|day| day.map_or("", String::as_str));
        let days = if first == last { first.to_owned() } else { format!("{first} to {last}") };
        format!("Linux {kernel}, mitigations: {mitigations}, {memory}. {runs}, {days}. Source: {}", self.source)
    }

    /// A cost for readers: time in place of core cycles, by the clock of the machine.
    pub fn shown(&self, name: &str) -> Option<(Unit, [f64; 3])> {
        let cost = self.cost(name)?;
        let values = [cost.low, cost.value, cost.high];
        if cost.unit != Unit::Cycles {
            return Some((cost.unit, values));
        }
        let hertz = self.cost(CLOCK).filter(|clock| clock.unit == Unit::Hertz)?.value;
        Some((Unit::Nanoseconds, values.map(|cycles| cycles * 1e9 / hertz)))
    }

    /// A cost by the newest method that is read as today's is.
    pub fn cost(&self, name: &str) -> Option<&EntryCost> {
        let of = |version: &u32| self.costs.iter().find(|cost| cost.cost == name && cost.method == *version);
        readable_versions(name).iter().rev().find_map(of)
    }
}

fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The versions of the method of a cost that are read alike, ascending.
fn readable_versions(name: &str) -> Vec<u32> {
    let metric = costs::asked().find(|asked| asked.name == name).map(|asked| asked.figure.metric());
    let of = |metric| experiments::TABLE.iter().find(|found| found.publication(metric).is_some());
    metric.and_then(of).map_or_else(Vec::new, |found| found.readable_versions())
}

/// The costs of the runs of a machine, each by its method and unit.
fn costs_of(runs: &[Compact]) -> Vec<EntryCost> {
    let found: Vec<(&str, u32, Unit, [f64; 3])> = runs.iter().flat_map(known).collect();
    let mut costs = Vec::new();
    for AskedCost { name, .. } in costs::asked() {
        let mut keys: Vec<(u32, Unit)> =
            found.iter().filter(|(of, ..)| *of == name).map(|&(_, method, unit, _)| (method, unit)).collect();
        keys.sort_unstable();
        keys.dedup();
        for (method, unit) in keys {
            let own = found.iter().filter(|(of, by, with, _)| (*of, *by, *with) == (name, method, unit));
            let values: Vec<[f64; 3]> = own.map(|(.., value)| *value).collect();
            let middles: Vec<f64> = values.iter().map(|[_, value, _]| *value).collect();
            let ends = |pick: fn(f64, f64) -> f64| middles.iter().copied().reduce(pick);
            let (Some(value), Some(low), Some(high)) = (median(&middles), ends(f64::min), ends(f64::max)) else {
                continue;
            };
            let [low, high] = if let [[low, _, high]] = values[..] { [low, high] } else { [low, high] };
            let cost = name.to_owned();
            let [low, value, high] = [low, value, high].map(six_digits);
            costs.push(EntryCost { cost, method, unit, value, low, high, runs: values.len() });
        }
    }
    costs
}

/// The costs of a run that are known well enough: method, unit, value and interval.
pub(super) fn known(run: &Compact) -> Vec<(&'static str, u32, Unit, [f64; 3])> {
    let mut found: Vec<(&str, u32, Unit, [f64; 3])> = Vec::new();
    for experiment in &run.experiments {
        for metric in &experiment.metrics {
            for figure in metric.figures.iter().filter(|figure| matches!(figure.grade, Grade::Good | Grade::Rough)) {
                let labels = Labels::parse(&figure.labels).unwrap_or_default();
                let Some(name) = costs::name_of(&metric.name, &labels) else { continue };
                // Of several distances the usual one comes first.
                if found.iter().all(|(of, ..)| *of != name) {
                    let (unit, value) = in_cycles(metric.unit, figure);
                    found.push((name, experiment.method_version, unit, value));
                }
            }
        }
    }
    found
}

/// Lower end, value and upper end of a figure, in core cycles where it has them.
fn in_cycles(unit: Unit, figure: &CompactFigure) -> (Unit, [f64; 3]) {
    let [low, high] = figure.interval;
    let value = [low.min(figure.value), figure.value, high.max(figure.value)];
    let per_unit = figure.cycles.map(|cycles| cycles / figure.value);
    per_unit.map_or((unit, value), |factor| (Unit::Cycles, value.map(|end| end * factor)))
}
