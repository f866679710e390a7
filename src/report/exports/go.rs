//! Benchmark text of Go (golang.org/design/14313-benchmark-format), which benchstat compares.
//!
//! A run has one value of each result, so each result is one line. benchstat takes the lines of several files or of one file with
//! several runs as samples. It makes a table for each combination of configuration lines: only what Go itself writes is one, and
//! what distinguishes runs is in comments.

use super::names::{encoded, one_line};
use super::{Entry, Scope, comparable};
use crate::results::compact::Compact;
use crate::results::quantity::{Better, Unit};

/// The file.
pub(super) fn render(run: &Compact) -> String {
    let mut text = String::new();
    for (key, value) in [
        ("run", Some(run.run.id.as_str())),
        ("version", Some(run.run.version.as_str())),
        ("node", run.node.name.as_deref()),
        ("kernel", run.node.kernel.as_deref()),
        ("profile", Some(run.run.profile.as_str())),
    ] {
        if let Some(value) = value {
            text += &format!("# {key}: {}\n", one_line(value));
        }
    }
    text += &format!("goos: linux\ngoarch: {}\npkg: sysdyno\n", architecture(&run.run.build));
    if let Some(model) = run.facts.get("Processor: model") {
        text += &format!("cpu: {}\n", one_line(model));
    }
    for unit in [Unit::BytesPerSecond, Unit::Hertz, Unit::Bytes] {
        text += &format!("Unit {} better=higher\n", symbol(unit, Better::Higher));
    }
    text += &format!("Unit {} better=higher\n", symbol(Unit::One, Better::Higher));
    text += &format!("Unit {} better=lower\n", symbol(Unit::One, Better::Lower));
    for entry in comparable(run, Scope::All) {
        text += &line(&entry);
    }
    text
}

/// `Benchmark`, the name with a capital letter, and the number of CPUs at its end: without one, digits at the end of a label
/// would be taken for it.
fn line(entry: &Entry<'_>) -> String {
    let name = entry.name();
    let (first, rest) = name.split_at(name.len().min(1));
    let figure = entry.figure;
    let mut line = format!(
        "Benchmark{}{rest}-1 {} {} {}",
        first.to_ascii_uppercase(),
        figure.launches.max(1),
        figure.value,
        symbol(entry.unit, entry.better)
    );
    if let Some(cycles) = figure.cycles.filter(|cycles| cycles.is_finite() && entry.unit == Unit::Nanoseconds) {
        line += &format!(" {cycles} cycles/op");
    }
    line + "\n"
}

/// A unit as benchstat scales it. A share of which more is better needs a separate unit: Go says so of units, not of benchmarks.
fn symbol(unit: Unit, better: Better) -> &'static str {
    match (unit, better) {
        (Unit::Nanoseconds, _) => "ns/op",
        (Unit::Cycles, _) => "cycles/op",
        (Unit::Ticks, _) => "ticks/op",
        (Unit::Hertz, _) => "Hz",
        (Unit::Bytes, _) => "B",
        (Unit::BytesPerSecond, _) => "B/s",
        (Unit::One, Better::Lower) => "ratio",
        (Unit::One, Better::Higher) => "share",
    }
}

/// The processor architecture as Go calls it, from the target at the end of the build.
fn architecture(build: &str) -> String {
    let target = build.split_whitespace().last().unwrap_or_default();
    match target.split('-').next().unwrap_or_default() {
        "x86_64" => "amd64".to_owned(),
        "aarch64" => "arm64".to_owned(),
        other => encoded(other),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    #[test]
    fn a_result_is_a_line() {
        let text = render(&run());
        for line in [
            "goarch: amd64",
            "pkg: sysdyno",
            "BenchmarkCpu.timer.overhead/clock=tsc-1 28 12.5 ns/op 46.2 cycles/op",
            "BenchmarkMemory.bandwidth.rate/threads=1-1 16 2097152000 B/s",
            "Unit B/s better=higher",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }

    #[test]
    fn words_of_others_add_no_line() {
        let mut run = run();
        let lines = render(&run).lines().count();
        "x\nBenchmarkFake 1 1 ns/op".clone_into(&mut run.run.id);
        run.facts.insert("Processor: model".to_owned(), "a\r\nb: c".to_owned());
        "a=1\nBenchmarkFake 1 1 ns/op".clone_into(&mut run.experiments[0].metrics[0].figures[0].labels);
        let text = render(&run);
        assert_eq!(text.lines().count(), lines, "{text}");
        assert!(!text.lines().any(|line| line.starts_with("BenchmarkFake")), "{text}");
    }
}
