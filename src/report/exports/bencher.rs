//! Bencher Metric Format, which the `json` adapter of `bencher run` reads: the name of a result, the slug of a measure, the value
//! and its interval.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Scope, comparable, json};
use crate::results::compact::Compact;
use crate::results::problem::Problem;
use crate::results::quantity::Unit;

/// Bencher refuses longer names.
const LONGEST_NAME: usize = 1024;

#[derive(Serialize)]
struct Measured {
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper_value: Option<f64>,
}

/// The file.
pub(super) fn render(run: &Compact, scope: Scope) -> Result<String, Problem> {
    let mut results: BTreeMap<String, BTreeMap<&str, Measured>> = BTreeMap::new();
    for entry in comparable(run, scope) {
        let [lower_value, upper_value] = entry.interval().map_or([None; 2], |ends| ends.map(Some));
        let measured = Measured { value: entry.figure.value, lower_value, upper_value };
        results.entry(entry.name()).or_default().insert(slug(entry.unit), measured);
    }
    results.retain(|name, _| name.len() <= LONGEST_NAME);
    json(&results)
}

/// The measure of a unit. `latency` exists in every project of Bencher and has nanoseconds.
fn slug(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "latency",
        Unit::BytesPerSecond => "bytes-per-second",
        Unit::Hertz => "frequency",
        Unit::Bytes => "bytes",
        Unit::Cycles => "cycles",
        Unit::Ticks => "ticks",
        Unit::One => "ratio",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::run;
    use super::*;

    #[test]
    fn a_result_has_a_measure_with_its_interval() {
        let file: Value = serde_json::from_str(&render(&run(), Scope::Headlines).unwrap()).unwrap();
        assert_eq!(
            file["cpu.timer.overhead/clock=tsc"],
            json!({"latency": {"value": 12.5, "lower_value": 12.0, "upper_value": 13.0}})
        );
        assert!(file["memory.bandwidth.rate/threads=1"]["bytes-per-second"]["value"].is_f64(), "{file}");
    }

    #[test]
    fn names_are_not_longer_than_bencher_takes() {
        let mut run = run();
        run.experiments[0].metrics[0].figures[0].labels = format!("a={}", "é".repeat(200));
        let file: Value = serde_json::from_str(&render(&run, Scope::All).unwrap()).unwrap();
        assert!(file.as_object().unwrap().keys().all(|name| name.len() <= LONGEST_NAME));
    }
}
