//! What the scatter from run to run is, by earlier runs of the same machine.
//!
//! A run's interval describes its own minutes. Runs of different hours differ by more: another state of the host, of the memory,
//! of the layout that the kernel chose. Only several runs show how much.

use std::collections::BTreeMap;

use crate::results::between::{BetweenRuns, FigureBetween, History, LEAST_RUNS};
use crate::results::compact::{Compact, CompactFigure};
use crate::results::quantity::Labels;
use crate::results::verdict::Trust;
use crate::statistics::distribution::normal_factor;
use crate::statistics::summary::{median, quantile};

use super::estimate::LEVEL;
use super::precision::Precision;
use super::study::Study;

/// The deviation that this share of the runs stays within makes the scatter. A bad hour in every fifth run does not count. Two
/// states of a machine both do, as long as the rarer one has a fifth of the runs.
const WITHIN: f64 = 0.8;

impl Study<'_> {
    /// Scatter of a figure between earlier runs of the machine: how many runs, and the relative standard deviation. None where
    /// fewer than five are known.
    pub fn between_runs(&self, metric: &str, labels: &Labels) -> Option<BetweenRuns> {
        self.history?.between(metric, labels)
    }

    /// What is asked of a figure, and how far it moves between runs: by earlier runs, or else as its class does with such neighbours.
    pub fn precision_of(&self, metric: &str, labels: &Labels, class: Precision) -> Precision {
        let found = self.between_runs(metric, labels).zip(normal_factor(LEVEL));
        let between = found.map(|(found, factor)| found.relative * factor);
        Precision { between: between.unwrap_or(class.beside(self.shared).between), ..class }
    }
}

/// What runs that repeat each other say, for figures of experiments with these versions of their methods.
pub fn history(runs: &[Compact], methods: &BTreeMap<String, u32>) -> History {
    let mut values: BTreeMap<(&str, &str), Vec<&CompactFigure>> = BTreeMap::new();
    let experiments = runs.iter().flat_map(|run| &run.experiments);
    for experiment in experiments.filter(|found| methods.get(&found.id) == Some(&found.method_version)) {
        for metric in &experiment.metrics {
            for figure in metric.figures.iter().filter(|figure| counts(figure)) {
                values.entry((&metric.name, &figure.labels)).or_default().push(figure);
            }
        }
    }
    let figures = values.into_iter().filter_map(|((metric, labels), figures)| {
        let between = between(&figures)?;
        Some(FigureBetween { metric: metric.to_owned(), labels: Labels::parse(labels)?, between })
    });
    History { runs: runs.len() as u32, figures: figures.collect() }
}

/// Whether a stored figure is a repetition of what a good run would publish.
fn counts(figure: &CompactFigure) -> bool {
    let numbers = [figure.value, figure.interval[0], figure.interval[1]];
    numbers.iter().all(|number| number.is_finite())
        && figure.value > 0.0
        && !figure.at_least
        && figure.trust < Trust::Contaminated
}

/// The scatter of a figure beyond what its intervals explain. Costs that all runs have in core cycles are compared in core cycles:
/// a run states its clock, and times of runs at different clocks follow from it.
fn between(figures: &[&CompactFigure]) -> Option<BetweenRuns> {
    let runs = u32::try_from(figures.len()).ok().filter(|&runs| runs >= LEAST_RUNS)?;
    let cycles: Option<Vec<f64>> = figures.iter().map(|figure| figure.cycles).collect();
    let values = cycles.unwrap_or_else(|| figures.iter().map(|figure| figure.value).collect());
    let middle = median(&values)?;
    let deviations: Vec<f64> = values.iter().map(|value| (value / middle - 1.0).abs()).collect();
    // Deviations from the runs' own median are too small by about this factor.
    let few = 1.0 + 1.0 / f64::from(runs);
    let whole = quantile(&deviations, WITHIN)? / normal_factor(WITHIN)? * few;
    let errors: Vec<f64> = figures.iter().filter_map(|figure| standard_error(figure)).collect();
    let within = median(&errors).unwrap_or(0.0);
    let relative = (whole.powi(2) - within.powi(2)).max(0.0).sqrt();
    relative.is_finite().then(|| BetweenRuns { runs, relative: (relative * 1e6).round() / 1e6 })
}

/// Relative standard error by the interval of a figure.
fn standard_error(figure: &CompactFigure) -> Option<f64> {
    let (half_width, level) = figure.half_width();
    Some(half_width / normal_factor(level)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::document::Grade;
    use crate::statistics::synthetic::{assert_close, normal_draw};

    fn figure(value: f64, half_width: f64) -> CompactFigure {
        CompactFigure {
            labels: String::new(),
            value,
            headline: false,
            at_least: false,
            interval: [value * (1.0 - half_width), value * (1.0 + half_width)],
            level: None,
            cycles: None,
            launches: 6,
            trust: Trust::Clean,
            between: 0.0,
            clock: 0.0,
            grade: Grade::Good,
            shared: None,
            predicted: None,
            against: None,
        }
    }

    fn scatter(values: &[f64], half_width: f64) -> Option<f64> {
        let figures: Vec<CompactFigure> = values.iter().map(|&value| figure(value, half_width)).collect();
        between(&figures.iter().collect::<Vec<_>>()).map(|found| found.relative)
    }

    #[test]
    fn fewer_than_five_runs_say_nothing_and_equal_ones_that_there_is_no_scatter() {
        assert_eq!(scatter(&[1.0, 2.0, 3.0, 4.0], 0.0), None);
        assert_eq!(scatter(&[7.0; 5], 0.0), Some(0.0));
        assert_eq!(scatter(&[1.0, 1.001, 0.999, 1.0, 1.002], 0.1), Some(0.0), "the intervals explain it");
    }

    #[test]
    fn a_clock_that_moves_between_runs_is_no_scatter_of_costs_in_cycles() {
        let clocks = [3.1, 3.7, 4.1, 4.2, 3.9];
        let mut figures = clocks.map(|clock| CompactFigure { cycles: Some(250.0), ..figure(250.0 / clock, 0.001) });
        let found = |figures: &[CompactFigure]| between(&figures.iter().collect::<Vec<_>>()).unwrap().relative;
        assert!(found(&figures) < 1e-9);
        figures[2].cycles = None;
        assert!(found(&figures) > 0.05, "one run without cycles: times are compared");
    }

    #[test]
    fn a_known_scatter_is_found_whatever_the_number_of_runs() {
        let mut random = fastrand::Rng::with_seed(16);
        for runs in [5, 10, 50] {
            let found: Vec<f64> = (0..400)
                .map(|_| {
                    let values: Vec<f64> = (0..runs).map(|_| 90.0 * (1.0 + 0.01 * normal_draw(&mut random))).collect();
                    scatter(&values, 0.0).unwrap()
                })
                .collect();
            assert_close(found.iter().sum::<f64>() / found.len() as f64, 0.01, 0.08);
        }
    }

    #[test]
    fn what_the_intervals_explain_is_taken_off() {
        let mut random = fastrand::Rng::with_seed(17);
        let found: Vec<f64> = (0..200)
            .map(|_| {
                let values: Vec<f64> = (0..50).map(|_| 1.0 + 0.05 * normal_draw(&mut random)).collect();
                // Within runs 3 %, so 4 % are left between them.
                scatter(&values, 0.03 * 1.959_964).unwrap()
            })
            .collect();
        assert_close(found.iter().sum::<f64>() / found.len() as f64, 0.04, 0.05);
    }

    #[test]
    fn one_bad_hour_in_ten_hardly_counts_and_two_states_do() {
        let calm: Vec<f64> = (0..9).map(|step| 1.0 + 0.001 * f64::from(step)).collect();
        let before = scatter(&calm, 0.0).unwrap();
        let after = scatter(&[&calm[..], &[3.0]].concat(), 0.0).unwrap();
        assert!(after < 2.0 * before, "{before} {after}");
        // Two caches, six hours to four: an estimate that looks at half of the runs would find nothing.
        let states = [30.0, 30.1, 30.0, 29.9, 30.0, 30.1, 150.0, 151.0, 150.0, 149.0];
        assert!(scatter(&states, 0.0).unwrap() > 1.0);
    }

    #[test]
    fn lower_bounds_and_what_others_disturbed_do_not_count() {
        assert!(counts(&figure(1.0, 0.1)));
        for wrong in [
            CompactFigure { at_least: true, ..figure(1.0, 0.1) },
            CompactFigure { trust: Trust::Contaminated, ..figure(1.0, 0.1) },
            figure(0.0, 0.1),
            figure(-1.0, 0.1),
        ] {
            assert!(!counts(&wrong), "{wrong:?}");
        }
    }
}
