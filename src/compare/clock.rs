//! One core clock for all runs: a cost in core cycles takes another time in every hour in which the core runs at another clock.

use super::{Pair, PlacedRun};
use crate::results::compact::{Compact, CompactFigure};
use crate::results::quantity::Unit;
use crate::statistics::summary::median;

/// Core cycles per nanosecond in the base, where every run of both sides has the result in core cycles.
pub(super) fn of_base(pair: &Pair<'_>) -> Option<f64> {
    let base = of_runs(pair.facts.unit, &pair.base);
    base.filter(|_| of_runs(pair.facts.unit, &pair.new).is_some())
}

/// Core cycles per nanosecond, the median over the runs, where each of them has the result in core cycles.
pub(super) fn of_runs(unit: Unit, figures: &[(usize, &CompactFigure)]) -> Option<f64> {
    let clocks: Option<Vec<f64>> = figures.iter().map(|(_, figure)| of_figure(figure)).collect();
    median(&clocks?).filter(|_| unit == Unit::Nanoseconds)
}

/// The result in core cycles on both sides, the mean over the runs that have it so.
pub(super) fn in_cycles(pair: &Pair<'_>) -> Option<[f64; 2]> {
    let mean = |figures: &[(usize, &CompactFigure)]| {
        let cycles: Vec<f64> = figures.iter().filter_map(|(_, figure)| figure.cycles).collect();
        (!cycles.is_empty()).then(|| cycles.iter().sum::<f64>() / cycles.len() as f64)
    };
    Some([mean(&pair.base)?, mean(&pair.new)?])
}

/// The value at this clock, where one is given, else as it was measured.
pub(super) fn at(clock: Option<f64>, figure: &CompactFigure) -> f64 {
    figure.cycles.zip(clock).map_or(figure.value, |(cycles, clock)| cycles / clock)
}

/// Core clock of each side in hertz, the median over its runs, where the results of both sides show it.
pub(super) fn of_sides(base: &[PlacedRun], new: &[PlacedRun]) -> Option<[f64; 2]> {
    let side = |runs: &[PlacedRun]| {
        let clocks: Vec<f64> = runs.iter().filter_map(|placed| of_run(&placed.run)).collect();
        median(&clocks)
    };
    Some([side(base)? * 1e9, side(new)? * 1e9])
}

fn of_run(run: &Compact) -> Option<f64> {
    let metrics = run.experiments.iter().flat_map(|experiment| &experiment.metrics);
    let figures = metrics.filter(|metric| metric.unit == Unit::Nanoseconds).flat_map(|metric| &metric.figures);
    median(&figures.filter_map(of_figure).collect::<Vec<_>>())
}

fn of_figure(figure: &CompactFigure) -> Option<f64> {
    let clock = figure.cycles? / figure.value;
    (clock.is_finite() && clock > 0.0).then_some(clock)
}
