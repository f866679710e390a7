//! JUnit XML, which CI systems show as a list of tests: a test suite for each experiment, a test case for each headline result.
//!
//! A test case fails if the result is contaminated or if a hard gate refused it, and is skipped if the machine cannot give it. A
//! result outside its predicted range does not fail: a better machine is also outside. The output of the case has the range.

use super::names::{name, one_line};
use super::{Entry, Scope, has_all};
use crate::results::compact::{Absent, Compact, CompactExperiment};
use crate::results::document::Outcome;
use crate::results::verdict::{AgainstPrediction, Trust};
use crate::results::wording::{count, measured, measured_interval, rough};

/// What became of a test case.
enum Ending {
    Passed { output: String },
    Failed { kind: &'static str, message: String },
    Broken { message: String },
    Skipped { message: String },
}

struct Case {
    name: String,
    ending: Ending,
}

/// The file.
pub(super) fn render(run: &Compact, scope: Scope) -> String {
    let all = has_all(run, scope);
    let suites: Vec<(&CompactExperiment, Vec<Case>)> =
        run.experiments.iter().map(|experiment| (experiment, cases(experiment, all))).collect();
    let whole: Vec<&Case> = suites.iter().flat_map(|(_, cases)| cases).collect();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"sysdyno\" {} time=\"{}\">\n",
        counts(&whole),
        run.run.seconds
    );
    for (experiment, cases) in &suites {
        text += &suite(run, experiment, cases);
    }
    text + "</testsuites>\n"
}

fn suite(run: &Compact, experiment: &CompactExperiment, cases: &[Case]) -> String {
    let host = run.node.name.as_deref().unwrap_or_default();
    let mut text = format!(
        "  <testsuite name=\"{}\" {} timestamp=\"{}\" hostname=\"{}\">\n    <properties>\n",
        escaped(&experiment.id),
        counts(&cases.iter().collect::<Vec<_>>()),
        // The usual schema has a time without its zone.
        escaped(run.run.started.trim_end_matches('Z')),
        escaped(host),
    );
    let method = experiment.method_version.to_string();
    for (key, value) in [("run", run.run.id.as_str()), ("version", &run.run.version), ("method_version", &method)] {
        text += &format!("      <property name=\"{key}\" value=\"{}\"/>\n", escaped(value));
    }
    text += "    </properties>\n";
    for case in cases {
        let (name, class) = (escaped(&case.name), escaped(&experiment.id));
        text += &format!("    <testcase name=\"{name}\" classname=\"{class}\" time=\"0\">");
        text += &match &case.ending {
            Ending::Passed { output } => format!("<system-out>{}</system-out>", escaped(output)),
            Ending::Failed { kind, message } => {
                format!("<failure type=\"{kind}\" message=\"{}\"/>", escaped(message))
            }
            Ending::Broken { message } => format!("<error type=\"failed\" message=\"{}\"/>", escaped(message)),
            Ending::Skipped { message } => format!("<skipped message=\"{}\"/>", escaped(message)),
        };
        text += "</testcase>\n";
    }
    text + "  </testsuite>\n"
}

fn counts(cases: &[&Case]) -> String {
    let count = |is: fn(&Ending) -> bool| cases.iter().filter(|case| is(&case.ending)).count();
    format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"",
        cases.len(),
        count(|ending| matches!(ending, Ending::Failed { .. })),
        count(|ending| matches!(ending, Ending::Broken { .. })),
        count(|ending| matches!(ending, Ending::Skipped { .. })),
    )
}

fn cases(experiment: &CompactExperiment, all: bool) -> Vec<Case> {
    let reason = || experiment.reason.clone().unwrap_or_else(|| "no reason is stored".to_owned());
    let whole = |ending| Case { name: experiment.id.clone(), ending };
    match experiment.outcome {
        Outcome::Skipped => return vec![whole(Ending::Skipped { message: reason() })],
        Outcome::Failed => return vec![whole(Ending::Broken { message: reason() })],
        Outcome::Measured => {}
    }
    let mut cases = Vec::new();
    for metric in &experiment.metrics {
        for figure in metric.figures.iter().filter(|figure| all || figure.headline) {
            let entry = Entry { metric: &metric.name, unit: metric.unit, better: metric.better, figure };
            cases.push(Case { name: entry.name(), ending: ending(&entry) });
        }
    }
    cases.extend(
        experiment
            .absent
            .iter()
            .filter(|absent| all || absent.headline)
            .map(|absent| Case { name: name(&absent.name, &absent.labels), ending: of_absent(absent) }),
    );
    cases
}

fn ending(entry: &Entry<'_>) -> Ending {
    let message = match entry.figure.trust {
        Trust::Clean | Trust::Noisy => return Ending::Passed { output: output(entry) },
        Trust::Contaminated => "another task or tenant used the CPU or its core",
        Trust::Impossible => "a hard gate failed",
    };
    Ending::Failed { kind: entry.figure.trust.word(), message: format!("{message}: {}", output(entry)) }
}

fn of_absent(absent: &Absent) -> Ending {
    let message = absent.reason.clone();
    if absent.refused { Ending::Failed { kind: "refused", message } } else { Ending::Skipped { message } }
}

/// The result, its interval, its grade and its prediction.
fn output(entry: &Entry<'_>) -> String {
    let figure = entry.figure;
    let bound = if figure.at_least { "at least " } else { "" };
    let value = match entry.interval() {
        Some(ends) => {
            let interval = measured_interval(figure.value, ends, entry.unit);
            format!("{} ({interval})", measured(figure.value, ends, entry.unit))
        }
        None => rough(figure.value, entry.unit),
    };
    let launches = count(u64::from(figure.launches), "launch", "launches");
    let mut text = format!("{bound}{value}, {}, {launches}", figure.grade.word());
    if let Some([low, high]) = figure.predicted {
        let against = figure.against.map_or("", AgainstPrediction::word);
        let against = if against.is_empty() { String::new() } else { format!(": {against}") };
        let range = measured_interval(f64::midpoint(low, high), [low, high], entry.unit);
        text += &format!(", predicted {range}{against}");
    }
    text
}

/// Text inside of an element or of quotes. XML has no control characters, not even escaped.
fn escaped(text: &str) -> String {
    one_line(text)
        .replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&apos;")
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    #[test]
    fn cases_pass_fail_and_are_skipped() {
        let mut run = run();
        run.experiments[0].metrics[0].figures[0].trust = Trust::Contaminated;
        let text = render(&run, Scope::Headlines);
        for part in [
            "<testsuites name=\"sysdyno\" tests=\"7\" failures=\"2\" errors=\"0\" skipped=\"2\" time=\"118.702\">",
            "<testsuite name=\"cpu.timer\" tests=\"4\" failures=\"2\" errors=\"0\" skipped=\"1\" timestamp=\"2026-11-23T13:30:25\"",
            "<failure type=\"contaminated\" message=\"another task",
            "<failure type=\"refused\" message=\"G8: 1 ns, at least 2 ns\"/>",
            "<skipped message=\"no file on another machine is named\"/>",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_result_outside_its_range_passes_and_says_so() {
        let text = render(&run(), Scope::Headlines);
        assert!(text.contains("<system-out>12.50 ns (12.00 … 13.00 ns), good, 28 launches, predicted"), "{text}");
        assert!(text.contains(": slower</system-out>"), "{text}");
    }

    #[test]
    fn words_of_others_stay_words() {
        assert_eq!(escaped("</a>&\"'\u{0}\u{ffff}\n"), "&lt;/a&gt;&amp;&quot;&apos;\u{fffd}\u{fffd} ");
    }
}
