//! JSON of github-action-benchmark, tool `customSmallerIsBetter`: one file for one step of a workflow.
//!
//! The action takes one direction for a file. A rate is there as the time of 1 MiB, so that smaller is better for it too, and says
//! the rate in `extra`. Results that have no time are left out.

use serde::Serialize;

use super::{Entry, Scope, comparable, json, names};
use crate::results::compact::{Compact, six_digits};
use crate::results::problem::Problem;
use crate::results::quantity::Unit;
use crate::results::wording::{percent, quantity};

#[derive(Serialize)]
struct Benchmark {
    name: String,
    unit: &'static str,
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    extra: String,
}

/// The file.
pub(super) fn render(run: &Compact, scope: Scope) -> Result<String, Problem> {
    let benchmarks: Vec<Benchmark> = comparable(run, scope).filter_map(|entry| benchmark(run, &entry)).collect();
    json(&benchmarks)
}

fn benchmark(run: &Compact, entry: &Entry<'_>) -> Option<Benchmark> {
    let value = entry.nanoseconds()?;
    let is_rate = entry.unit == Unit::BytesPerSecond;
    let uncertainty = entry.uncertainty();
    let mut extra = vec![
        format!("run: {}", names::one_line(&run.run.id)),
        format!("grade: {}", entry.figure.grade.word()),
        format!("launches: {}", entry.figure.launches),
    ];
    extra.extend(uncertainty.map(|uncertainty| format!("uncertainty: ±{}", percent(uncertainty))));
    if is_rate {
        extra.push(format!("rate: {}", quantity(entry.figure.value, entry.unit)));
    }
    Some(Benchmark {
        name: entry.name(),
        unit: if is_rate { "ns/MiB" } else { "ns" },
        value,
        range: uncertainty.map(|uncertainty| format!("± {}", six_digits(value * uncertainty))),
        extra: extra.join("\n"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::tests::run;
    use super::*;

    #[test]
    fn everything_is_smaller_if_better() {
        let file: Value = serde_json::from_str(&render(&run(), Scope::Headlines).unwrap()).unwrap();
        let found = file.as_array().unwrap();
        let of = |name: &str| found.iter().find(|found| found["name"] == name).unwrap();
        let time = of("cpu.timer.overhead/clock=tsc");
        assert_eq!((&time["unit"], &time["value"], &time["range"]), (&"ns".into(), &12.5.into(), &"± 0.5".into()));
        let rate = of("memory.bandwidth.rate/threads=1");
        assert_eq!((&rate["unit"], &rate["value"]), (&"ns/MiB".into(), &Value::from(5e5)));
        assert!(rate["extra"].as_str().unwrap().contains("rate: 2.097 GB/s"), "{rate}");
        assert!(found.iter().all(|found| found["unit"].as_str().unwrap().starts_with("ns")), "{file}");
    }
}
