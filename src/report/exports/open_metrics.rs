//! OpenMetrics text (openmetrics.io, version 1.0), which the textfile collector of the Prometheus node_exporter also reads. It has
//! gauges in base units, a family for each metric, and a sample for each combination of labels.
//!
//! The older text format, which that collector knows, takes `# UNIT` and `# EOF` for comments. It has no `info` and no units.

use std::collections::{BTreeMap, BTreeSet};

use super::names::{encoded, pairs};
use super::{Entry, Scope, comparable, results};
use crate::results::compact::{Compact, six_digits};
use crate::results::document::Grade;
use crate::results::quantity::{Better, Unit};
use crate::sys::foreign;

/// The relative width of the interval of each result: one family for all, because it has no unit.
const UNCERTAINTY: &str = "sysdyno_result_uncertainty_ratio";

/// Samples with the same name, unit and meaning.
struct Family {
    unit: &'static str,
    help: String,
    samples: Vec<(String, f64)>,
    seen: BTreeSet<String>,
}

impl Family {
    fn new(unit: &'static str, help: impl Into<String>) -> Self {
        Family { unit, help: help.into(), samples: Vec::new(), seen: BTreeSet::new() }
    }

    /// A sample, unless its labels are there already, which no reader would accept.
    fn push(&mut self, labels: String, value: f64) {
        if value.is_finite() && self.seen.insert(labels.clone()) {
            self.samples.push((labels, value));
        }
    }
}

/// The file.
pub(super) fn render(run: &Compact) -> String {
    let mut families = of_run(run);
    for entry in comparable(run, Scope::All) {
        let better = if entry.better == Better::Lower { "Lower" } else { "Higher" };
        let metric = encoded(entry.metric);
        let ends = entry.interval().into_iter().flat_map(|[low, high]| {
            [
                ("_low", low, format!("Low end of the interval of {metric}.")),
                ("_high", high, format!("High end of the interval of {metric}.")),
            ]
        });
        let value = ("", entry.figure.value, format!("Result {metric}. {better} is better."));
        for (end, value, help) in std::iter::once(value).chain(ends) {
            let (unit, value) = base(entry.unit, value);
            families
                .entry(format!("sysdyno_{}{end}_{unit}", letters(entry.metric)))
                .or_insert_with(|| Family::new(unit, help))
                .push(labels(&pairs(&entry.figure.labels)), value);
        }
        if let Some((family, uncertainty)) = families.get_mut(UNCERTAINTY).zip(entry.uncertainty()) {
            family.push(labels(&with_metric(&entry)), uncertainty);
        }
    }
    let mut text = String::new();
    for (name, family) in families.iter().filter(|(_, family)| !family.samples.is_empty()) {
        text += &format!("# HELP {name} {}\n# TYPE {name} gauge\n", family.help);
        if !family.unit.is_empty() {
            text += &format!("# UNIT {name} {}\n", family.unit);
        }
        for (labels, value) in &family.samples {
            text += &format!("{name}{labels} {value}\n");
        }
    }
    text + "# EOF\n"
}

/// What is said of the run as a whole, and the family of the intervals.
fn of_run(run: &Compact) -> BTreeMap<String, Family> {
    let mut complete = Family::new("", "Whether everything planned was measured.");
    complete.push(String::new(), f64::from(u8::from(run.complete)));
    let mut started = Family::new("seconds", "Start of the run, Unix time.");
    if let Ok(time) = run.run.started.parse::<jiff::Timestamp>() {
        started.push(String::new(), time.as_second() as f64);
    }
    let mut duration = Family::new("seconds", "Duration of the run.");
    duration.push(String::new(), run.run.seconds);
    let mut grades =
        Family::new("", "Results of the run by grade. Disturbed and contaminated results have no value here.");
    for grade in Grade::ALL {
        let count = results(run).filter(|entry| entry.figure.grade == grade).count();
        grades.push(labels(&[("grade".to_owned(), grade.word().to_owned())]), count as f64);
    }
    let help = "Half of the interval of a result, including the scatter between runs, divided by its value.";
    BTreeMap::from(
        [
            ("sysdyno_run_complete", complete),
            ("sysdyno_run_start_time_seconds", started),
            ("sysdyno_run_duration_seconds", duration),
            ("sysdyno_run_results", grades),
            (UNCERTAINTY, Family::new("ratio", help)),
        ]
        .map(|(name, family)| (name.to_owned(), family)),
    )
}

fn with_metric(entry: &Entry<'_>) -> Vec<(String, String)> {
    let mut pairs = pairs(&entry.figure.labels);
    pairs.insert(0, ("metric".to_owned(), entry.metric.to_owned()));
    pairs
}

/// A value in the base unit of its unit.
fn base(unit: Unit, value: f64) -> (&'static str, f64) {
    match unit {
        Unit::Nanoseconds => ("seconds", six_digits(value * 1e-9)),
        Unit::Hertz => ("hertz", value),
        Unit::Bytes => ("bytes", value),
        Unit::BytesPerSecond => ("bytes_per_second", value),
        Unit::Cycles => ("cycles", value),
        Unit::Ticks => ("ticks", value),
        Unit::One => ("ratio", value),
    }
}

/// Labels in braces, or nothing. Names that become the same get a number, since a sample has each label once.
fn labels(pairs: &[(String, String)]) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let mut names = BTreeSet::new();
    let labels: Vec<String> = pairs
        .iter()
        .map(|(key, value)| {
            let plain = letters(key);
            // Names with a digit or two underlines at their beginning are refused or reserved.
            let plain = if plain.starts_with(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_uppercase())
            {
                plain
            } else {
                format!("label_{plain}")
            };
            let numbered = (2..).map(|number| format!("{plain}_{number}"));
            let name = std::iter::once(plain.clone()).chain(numbered).find(|name| names.insert(name.clone()));
            format!("{}=\"{}\"", name.unwrap_or(plain), escaped(value))
        })
        .collect();
    format!("{{{}}}", labels.join(","))
}

/// Text with an underline for every letter that a name cannot have.
fn letters(text: &str) -> String {
    text.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect()
}

/// The value of a label.
fn escaped(value: &str) -> String {
    foreign::shown(value).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    #[test]
    fn results_are_gauges_in_base_units() {
        let text = render(&run());
        for line in [
            "# HELP sysdyno_cpu_timer_overhead_seconds Result cpu.timer.overhead. Lower is better.",
            "# TYPE sysdyno_cpu_timer_overhead_seconds gauge",
            "# UNIT sysdyno_cpu_timer_overhead_seconds seconds",
            "sysdyno_cpu_timer_overhead_seconds{clock=\"tsc\"} 0.0000000125",
            "# UNIT sysdyno_cpu_timer_overhead_low_seconds seconds",
            "sysdyno_cpu_timer_overhead_low_seconds{clock=\"tsc\"} 0.000000012",
            "sysdyno_cpu_timer_overhead_high_seconds{clock=\"tsc\"} 0.000000013",
            "sysdyno_memory_bandwidth_rate_bytes_per_second{threads=\"1\"} 2097152000",
            "sysdyno_result_uncertainty_ratio{metric=\"cpu.timer.overhead\",clock=\"tsc\"} 0.04",
            "sysdyno_run_start_time_seconds 1795440625",
            "sysdyno_run_results{grade=\"good\"} 6",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(text.ends_with("\n# EOF\n"));
    }

    #[test]
    fn labels_are_quoted_and_have_names_of_their_own() {
        let found = labels(&pairs("a-b=1 a_b=2 a.b=3 1st=x __x=\"}\\"));
        assert_eq!(found, "{label_1st=\"x\",label___x=\"\\\"}\\\\\",a_b=\"1\",a_b_2=\"3\",a_b_3=\"2\"}");
        assert_eq!(escaped("a\nb\u{1b}\r"), "a\\nb\u{fffd}\u{fffd}");
    }

    #[test]
    fn no_sample_is_there_twice() {
        let mut run = run();
        let figures = &mut run.experiments[0].metrics[0].figures;
        figures[1].labels = figures[0].labels.clone();
        let text = render(&run);
        assert_eq!(text.matches("sysdyno_cpu_timer_overhead_seconds{").count(), 1, "{text}");
    }
}
