//! JSON as Google Benchmark writes it with `--benchmark_format=json`: for `compare.py` of that project, and for everything that
//! reads its files.
//!
//! A benchmark there is a time, so results without a time are left out. A rate has the time of 1 MiB and, as Google Benchmark
//! itself gives rates, `bytes_per_second`. sysdyno measures real time only: `cpu_time` repeats it.

use serde::Serialize;

use super::{Entry, Scope, comparable, json, names};
use crate::results::compact::Compact;
use crate::results::problem::Problem;
use crate::results::quantity::Unit;

#[derive(Serialize)]
struct File<'a> {
    context: Context<'a>,
    benchmarks: Vec<Benchmark>,
}

#[derive(Serialize)]
struct Context<'a> {
    date: &'a str,
    host_name: &'a str,
    executable: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_cpus: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mhz_per_cpu: Option<u64>,
    library_version: &'a str,
    library_build_type: &'static str,
    json_schema_version: u32,
    sysdyno_run: &'a str,
    sysdyno_profile: &'a str,
    kernel: &'a str,
}

#[derive(Serialize)]
struct Benchmark {
    name: String,
    family_index: usize,
    per_family_instance_index: usize,
    run_name: String,
    run_type: &'static str,
    repetitions: u32,
    repetition_index: u32,
    threads: u32,
    iterations: u32,
    real_time: f64,
    cpu_time: f64,
    time_unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cycles: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uncertainty: Option<f64>,
}

/// The file.
pub(super) fn render(run: &Compact) -> Result<String, Problem> {
    let mut benchmarks: Vec<Benchmark> = Vec::new();
    let (mut family, mut last) = ((0, 0), None);
    for entry in comparable(run, Scope::All) {
        let Some(nanoseconds) = entry.nanoseconds() else { continue };
        family = match last {
            None => (0, 0),
            Some(metric) if metric == entry.metric => (family.0, family.1 + 1),
            Some(_) => (family.0 + 1, 0),
        };
        last = Some(entry.metric);
        benchmarks.push(benchmark(&entry, nanoseconds, family));
    }
    json(&File { context: context(run), benchmarks })
}

fn context(run: &Compact) -> Context<'_> {
    Context {
        date: &run.run.started,
        host_name: run.node.name.as_deref().unwrap_or_default(),
        executable: "sysdyno",
        num_cpus: run.facts.get("Processor: CPUs").and_then(|count| count.parse().ok()),
        mhz_per_cpu: run.practice.core_hertz.map(|[_, median, _]| (median / 1e6).round() as u64),
        library_version: &run.run.version,
        library_build_type: "release",
        json_schema_version: 1,
        sysdyno_run: &run.run.id,
        sysdyno_profile: &run.run.profile,
        kernel: run.node.kernel.as_deref().unwrap_or_default(),
    }
}

fn benchmark(entry: &Entry<'_>, nanoseconds: f64, (family, instance): (usize, usize)) -> Benchmark {
    let name = names::name(entry.metric, &entry.figure.labels);
    Benchmark {
        run_name: name.clone(),
        name,
        family_index: family,
        per_family_instance_index: instance,
        run_type: "iteration",
        repetitions: 1,
        repetition_index: 0,
        threads: 1,
        iterations: entry.figure.launches.max(1),
        real_time: nanoseconds,
        cpu_time: nanoseconds,
        time_unit: "ns",
        bytes_per_second: (entry.unit == Unit::BytesPerSecond).then_some(entry.figure.value),
        cycles: entry.figure.cycles,
        uncertainty: entry.uncertainty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::tests::run;
    use super::*;

    #[test]
    fn times_are_times_and_rates_have_the_time_of_a_piece() {
        let file: Value = serde_json::from_str(&render(&run()).unwrap()).unwrap();
        let benchmarks = file["benchmarks"].as_array().unwrap();
        let of = |name: &str| benchmarks.iter().find(|found| found["name"] == name).unwrap();
        let time = of("cpu.timer.overhead/clock=tsc");
        assert_eq!((&time["real_time"], &time["cpu_time"]), (&Value::from(12.5), &Value::from(12.5)));
        assert_eq!((&time["time_unit"], &time["iterations"]), (&Value::from("ns"), &Value::from(28)));
        let rate = of("memory.bandwidth.rate/threads=1");
        assert_eq!((&rate["bytes_per_second"], &rate["real_time"]), (&Value::from(2_097_152_000.0), &Value::from(5e5)));
        assert!(benchmarks.iter().all(|found| found["real_time"].is_f64()), "{benchmarks:?}");
        assert_eq!(file["context"]["num_cpus"], 2);
    }

    #[test]
    fn a_metric_is_a_family() {
        let file: Value = serde_json::from_str(&render(&run()).unwrap()).unwrap();
        let place = |index: usize| {
            let found = &file["benchmarks"][index];
            (found["family_index"].as_u64().unwrap(), found["per_family_instance_index"].as_u64().unwrap())
        };
        assert_eq!([place(0), place(1), place(2)], [(0, 0), (0, 1), (1, 0)]);
    }
}
