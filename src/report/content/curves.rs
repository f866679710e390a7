//! Drawings of curves: those of one name share axes; many of them are divided by one of their labels.

use super::anchor;
use crate::report::drawing::{CurvePlot, Drawing, Line, Plot, Point};
use crate::report::page::{Cell, Table};
use crate::results::document::{Curve, Metric, Section};
use crate::results::figure::FigureNote;
use crate::results::quantity::Labels;
use crate::results::wording::{interval, mark, measured, measured_interval};

/// Curves in one drawing beyond which nobody tells them apart.
const MOST_CURVES: usize = 4;

/// The drawings of all curves of a section.
pub(super) fn drawings(section: &Section) -> Vec<Drawing> {
    let mut names: Vec<&str> = Vec::new();
    for curve in section.series.iter().filter(|curve| !curve.points.is_empty()) {
        if !names.contains(&curve.name.as_str()) {
            names.push(&curve.name);
        }
    }
    names.into_iter().flat_map(|name| of_name(section, name)).collect()
}

fn of_name(section: &Section, name: &str) -> Vec<Drawing> {
    let curves: Vec<&Curve> =
        section.series.iter().filter(|curve| curve.name == name && !curve.points.is_empty()).collect();
    let note = section.figures.iter().find(|note| note.curve == name).cloned();
    let note = note.unwrap_or_else(|| FigureNote::of(name));
    divided(&curves).into_iter().map(|(common, curves)| drawing(section, name, &note, &common, &curves)).collect()
}

/// Curves by the values of the label that divides them best; all together where there are few.
fn divided<'a>(curves: &[&'a Curve]) -> Vec<(Labels, Vec<&'a Curve>)> {
    let values = |key: &str| {
        let mut values: Vec<&str> = Vec::new();
        for value in curves.iter().filter_map(|curve| curve.labels.get(key)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    };
    let keys: Vec<&str> =
        curves.first().map_or_else(Vec::new, |curve| curve.labels.pairs().map(|(key, _)| key).collect());
    let dividing = keys.into_iter().filter(|key| values(key).len() > 1).min_by_key(|key| values(key).len());
    match dividing {
        Some(key) if curves.len() > MOST_CURVES => values(key)
            .into_iter()
            .map(|value| {
                let of: Vec<&Curve> =
                    curves.iter().copied().filter(|curve| curve.labels.get(key) == Some(value)).collect();
                (Labels::of([(key, value)]), of)
            })
            .collect(),
        _ => vec![(Labels::none(), curves.to_vec())],
    }
}

fn drawing(section: &Section, name: &str, note: &FigureNote, common: &Labels, curves: &[&Curve]) -> Drawing {
    let first = curves[0];
    let title = |curve: &Curve| {
        let own = curve.labels.pairs().filter(|(key, _)| common.get(key).is_none());
        own.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    let what = note.caption.clone().unwrap_or_else(|| format!("{} by {}", first.y.label, first.x.label));
    let caption = if common.is_empty() { what } else { format!("{what} ({common})") };
    let suffix = if common.is_empty() { String::new() } else { format!("-{}", common.to_string().replace('=', "-")) };
    let mut note = note.clone();
    note.marks.retain(|mark| mark.labels.is_empty() || curves.iter().any(|curve| curve.labels == mark.labels));
    for mark in &mut note.marks {
        // Marks find their curve by the name that the legend gives it.
        let own = mark.labels.pairs().filter(|(key, _)| common.get(key).is_none());
        mark.labels = own.fold(Labels::none(), |labels, (key, value)| labels.with(key, value));
    }
    Drawing {
        id: anchor(name) + &suffix,
        alt: format!("{caption}: {} with {} points each at most", curves_in_words(curves.len()), longest(curves)),
        caption,
        values: values(curves, &title),
        plot: Plot::Curves(CurvePlot {
            x: first.x.clone(),
            y: first.y.clone(),
            note,
            lines: curves.iter().map(|curve| line(section, curve, &title(curve))).collect(),
        }),
    }
}

fn curves_in_words(count: usize) -> String {
    if count == 1 { "one curve".to_owned() } else { format!("{count} curves") }
}

fn longest(curves: &[&Curve]) -> usize {
    curves.iter().map(|curve| curve.points.len()).max().unwrap_or(0)
}

fn line(section: &Section, curve: &Curve, name: &str) -> Line {
    let points = curve.points.iter().map(|&[x, y, low, high]| {
        let found = predicted(section, curve, y);
        let mut title = format!(
            "{}{}: {}, interval {}",
            if name.is_empty() { String::new() } else { format!("{name}, ") },
            mark(x, curve.x.unit),
            measured(y, [low, high], curve.y.unit),
            measured_interval(y, [low, high], curve.y.unit)
        );
        if let Some(range) = found {
            title += &format!(", predicted {}", interval(range, curve.y.unit));
        }
        Point { x, y, interval: [low, high], predicted: found, title }
    });
    Line { points: points.collect(), name: name.to_owned() }
}

/// The range that was predicted for a point: that of the figure which is the point.
fn predicted(section: &Section, curve: &Curve, y: f64) -> Option<[f64; 2]> {
    let is_point = |metric: &&Metric| {
        metric.unit == curve.y.unit
            && (metric.value - y).abs() <= f64::EPSILON * y.abs()
            && metric.labels.includes(&curve.labels)
    };
    let found = section.metrics.iter().find(is_point)?.prediction.as_ref()?;
    (found.unit == curve.y.unit).then_some([found.low, found.high])
}

/// Every point of the curves.
fn values(curves: &[&Curve], title: &impl Fn(&Curve) -> String) -> Table {
    let first = curves[0];
    let heads =
        ["curve".to_owned(), format!(">{}", first.x.label), format!(">{}", first.y.label), ">interval".to_owned()];
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new("", &heads);
    for curve in curves {
        for &[x, y, low, high] in &curve.points {
            table.row(vec![
                Cell::of(title(curve)),
                Cell::of(mark(x, curve.x.unit)),
                Cell::of(measured(y, [low, high], curve.y.unit)),
                Cell::of(measured_interval(y, [low, high], curve.y.unit)),
            ]);
        }
    }
    table
}
