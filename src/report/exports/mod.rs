//! A run in the forms that other programs read: benchmark comparison, trackers, monitoring, and CI.
//!
//! Every form is made from the compact form of a run and from nothing else, so that a stored `node.json` is as good as a log.
//! Results that a comparison would mislead are left out: contaminated ones, and lower bounds. `docs/exports.md` says what is in each.

mod bencher;
mod github_action_benchmark;
mod go;
mod google_benchmark;
mod junit;
mod names;
mod open_metrics;
mod otava;

use serde::Serialize;

use crate::results::between::with_part;
use crate::results::compact::{Absent, Compact, CompactFigure, six_digits};
use crate::results::problem::Problem;
use crate::results::quantity::{Better, Unit};
use crate::results::verdict::Trust;
use crate::sys::foreign;

/// Bytes of the piece whose time stands for a rate, where a form has times only: 1 MiB.
const PIECE: f64 = 1_048_576.0;

/// The forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Google Benchmark, JSON.
    GoogleBenchmark,
    /// Go benchmark text.
    Go,
    /// Bencher Metric Format.
    Bencher,
    /// github-action-benchmark, `customSmallerIsBetter`.
    GithubActionBenchmark,
    /// A row of a table for Apache Otava.
    Otava,
    /// OpenMetrics text.
    OpenMetrics,
    /// JUnit XML.
    Junit,
}

/// Which results are in a form that can have all or the headline results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The results of the summary table.
    Headlines,
    /// Every result.
    All,
}

/// A run in a form.
pub fn render(form: Form, run: &Compact, scope: Scope) -> Result<String, Problem> {
    match form {
        Form::GoogleBenchmark => google_benchmark::render(run),
        Form::Go => Ok(go::render(run)),
        Form::Bencher => bencher::render(run, scope),
        Form::GithubActionBenchmark => github_action_benchmark::render(run, scope),
        Form::Otava => otava::render(run, scope),
        Form::OpenMetrics => Ok(open_metrics::render(run)),
        Form::Junit => Ok(junit::render(run, scope)),
    }
}

/// A result with what its metric says of it.
struct Entry<'a> {
    metric: &'a str,
    unit: Unit,
    better: Better,
    figure: &'a CompactFigure,
}

impl Entry<'_> {
    /// Its name in every form but OpenMetrics.
    fn name(&self) -> String {
        names::name(self.metric, &self.figure.labels)
    }

    /// Its interval, with what it varies from run to run. None where too few launches give none.
    fn interval(&self) -> Option<[f64; 2]> {
        let CompactFigure { value, interval, between, clock, level, .. } = *self.figure;
        let has_one = level.is_none_or(|level| level > 0.0);
        has_one.then(|| with_part(value, interval, between.hypot(clock)).map(six_digits))
    }

    /// Half of that interval over the value.
    fn uncertainty(&self) -> Option<f64> {
        let [low, high] = self.interval()?;
        Some(six_digits((high - low) / 2.0 / self.figure.value.abs()))
    }

    /// Nanoseconds that stand for it: its time, or for a rate the time of a piece. None where it has no time.
    fn nanoseconds(&self) -> Option<f64> {
        match self.unit {
            Unit::Nanoseconds => Some(self.figure.value),
            Unit::BytesPerSecond if self.figure.value > 0.0 => Some(six_digits(PIECE / self.figure.value * 1e9)),
            _ => None,
        }
    }

    /// Whether it can be compared with the same result of another run.
    fn is_comparable(&self) -> bool {
        self.is_finite() && !self.figure.at_least && self.figure.trust < Trust::Contaminated
    }

    fn is_finite(&self) -> bool {
        [self.figure.value, self.figure.interval[0], self.figure.interval[1], self.figure.between]
            .iter()
            .all(|number| number.is_finite())
    }
}

/// Every result of a run, also those that forms leave out.
fn results(run: &Compact) -> impl Iterator<Item = Entry<'_>> {
    run.experiments.iter().flat_map(|experiment| {
        experiment.metrics.iter().flat_map(|metric| {
            metric.figures.iter().map(|figure| Entry {
                metric: &metric.name,
                unit: metric.unit,
                better: metric.better,
                figure,
            })
        })
    })
}

/// The results that can be compared, as far as a scope goes.
fn comparable(run: &Compact, scope: Scope) -> impl Iterator<Item = Entry<'_>> {
    let all = has_all(run, scope);
    results(run).filter(move |entry| entry.is_comparable() && (all || entry.figure.headline))
}

/// Whether a scope takes all results. Files of earlier versions do not say which ones are in the summary.
fn has_all(run: &Compact, scope: Scope) -> bool {
    let marked = |absent: &Absent| absent.headline;
    let says = results(run).any(|entry| entry.figure.headline)
        || run.experiments.iter().any(|experiment| experiment.absent.iter().any(marked));
    scope == Scope::All || !says
}

/// Indented JSON with a final newline.
fn json(value: &impl Serialize) -> Result<String, Problem> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Problem::new(format!("cannot encode the results: {error}")))?;
    Ok(foreign::escaped(&text).into_owned() + "\n")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const FORMS: [Form; 7] = [
        Form::GoogleBenchmark,
        Form::Go,
        Form::Bencher,
        Form::GithubActionBenchmark,
        Form::Otava,
        Form::OpenMetrics,
        Form::Junit,
    ];

    /// A run with one result of each unit.
    pub(super) fn run() -> Compact {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exports/node.json"));
        serde_json::from_str(&text.unwrap()).unwrap()
    }

    fn names(run: &Compact, scope: Scope) -> Vec<String> {
        comparable(run, scope).map(|entry| entry.name()).collect()
    }

    #[test]
    fn results_that_mislead_are_in_no_comparison() {
        let mut run = run();
        let all = names(&run, Scope::All);
        assert_eq!(all.len(), results(&run).count());
        let metric = &mut run.experiments[0].metrics[0];
        metric.figures[0].at_least = true;
        assert!(!names(&run, Scope::All).contains(&all[0]));
        let figure = &mut run.experiments[0].metrics[0].figures[0];
        (figure.at_least, figure.trust) = (false, Trust::Contaminated);
        assert!(!names(&run, Scope::All).contains(&all[0]));
        let figure = &mut run.experiments[0].metrics[0].figures[0];
        (figure.trust, figure.value) = (Trust::Noisy, f64::NAN);
        assert_eq!(names(&run, Scope::All), all[1..]);
    }

    #[test]
    fn a_file_without_headlines_counts_as_a_whole() {
        let mut run = run();
        assert!(names(&run, Scope::Headlines).len() < names(&run, Scope::All).len());
        for experiment in &mut run.experiments {
            experiment.absent.clear();
            for figure in experiment.metrics.iter_mut().flat_map(|metric| &mut metric.figures) {
                figure.headline = false;
            }
        }
        assert_eq!(names(&run, Scope::Headlines), names(&run, Scope::All));
    }

    #[test]
    fn an_interval_has_both_parts() {
        let mut run = run();
        let figure = &mut run.experiments[0].metrics[0].figures[0];
        (figure.value, figure.interval, figure.between) = (100.0, [97.0, 103.0], 0.04);
        let entry = results(&run).next().unwrap();
        assert_eq!((entry.interval(), entry.uncertainty()), (Some([95.0, 105.0]), Some(0.05)));
        // A time is not negative, whatever its part between runs.
        let figure = &mut run.experiments[0].metrics[0].figures[0];
        (figure.interval, figure.between) = ([2.0, 130.0], 0.4);
        assert!(results(&run).next().unwrap().interval().unwrap()[0] >= 0.0);
        run.experiments[0].metrics[0].figures[0].level = Some(0.0);
        assert_eq!(results(&run).next().unwrap().interval(), None, "one launch");
    }

    #[test]
    fn a_run_without_results_has_every_form() {
        let mut run = run();
        run.experiments.clear();
        for form in FORMS {
            assert!(render(form, &run, Scope::Headlines).unwrap().ends_with('\n'), "{form:?}");
        }
    }
}
