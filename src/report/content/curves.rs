//! Drawings of curves: those of one name share axes; many of them are divided by one of their labels.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::anchor;
use crate::report::drawing::{CurvePlot, Drawing, Plot, PlotLine, PlotPoint};
use crate::report::page::{Cell, Table};
use crate::results::document::{Curve, Section};
use crate::results::drawing_note::DrawingNote;
use crate::results::quantity::{Labels, Unit};
use crate::results::wording::{factor, interval, mark, measured, measured_interval};

/// Curves in one drawing beyond which they are divided, if they differ in more than one label.
const MOST_CURVES: usize = 4;

/// Curves of one family, which differ in one label only, that a single drawing holds: as many as there are colours.
const MOST_OF_A_FAMILY: usize = 8;

/// The drawings of all curves of a section.
pub(super) fn drawings(section: &Section) -> Vec<Drawing> {
    let mut names: Vec<&str> = Vec::new();
    for curve in section.series.iter().filter(|curve| is_drawn(curve)) {
        if !names.contains(&curve.name.as_str()) {
            names.push(&curve.name);
        }
    }
    names.into_iter().flat_map(|name| of_name(section, name)).collect()
}

/// A single point is not drawn as a curve.
fn is_drawn(curve: &Curve) -> bool {
    curve.points.len() > 1
}

fn of_name(section: &Section, name: &str) -> Vec<Drawing> {
    let curves: Vec<&Curve> = section.series.iter().filter(|curve| curve.name == name && is_drawn(curve)).collect();
    let note = section.figures.iter().find(|note| note.curve == name).cloned();
    let note = note.unwrap_or_else(|| DrawingNote::of(name));
    let divided = divided(&curves, note.divided_by.as_deref());
    divided.into_iter().map(|(common, curves)| drawing(section, name, &note, &common, &curves)).collect()
}

/// Curves by the values of the label that was named or divides them best. All together where they are few or one family. Every
/// curve is in one of the parts: those without that label are a separate part.
fn divided<'a>(curves: &[&'a Curve], by: Option<&str>) -> Vec<(Labels, Vec<&'a Curve>)> {
    let keys: BTreeSet<&str> = curves.iter().flat_map(|curve| curve.labels.pairs().map(|(key, _)| key)).collect();
    let varying: Vec<&str> = keys.into_iter().filter(|key| parted(curves, key).len() > 1).collect();
    let together = curves.len() <= MOST_CURVES || varying.len() == 1 && curves.len() <= MOST_OF_A_FAMILY;
    // The fewest drawings of which none is too full, and rather by a label that all have.
    let cost = |key: &&str| {
        let parts = parted(curves, key);
        let fullest = parts.iter().map(|(_, part)| part.len()).max().unwrap_or(0);
        (fullest > MOST_OF_A_FAMILY, parts.iter().any(|(value, _)| value.is_none()), parts.len())
    };
    let best = varying.iter().copied().min_by_key(cost).filter(|_| !together);
    let Some(key) = by.filter(|key| varying.contains(key)).or(best) else {
        return vec![(Labels::none(), curves.to_vec())];
    };
    let named = |value: Option<&str>| value.map_or_else(Labels::none, |value| Labels::of([(key, value)]));
    parted(curves, key).into_iter().map(|(value, part)| (named(value), part)).collect()
}

/// Curves by the values of a label, in order of appearance.
fn parted<'a>(curves: &[&'a Curve], key: &str) -> Vec<(Option<&'a str>, Vec<&'a Curve>)> {
    let mut parts: Vec<(Option<&str>, Vec<&Curve>)> = Vec::new();
    for &curve in curves {
        let value = curve.labels.get(key);
        match parts.iter_mut().find(|(of, _)| *of == value) {
            Some((_, part)) => part.push(curve),
            None => parts.push((value, vec![curve])),
        }
    }
    parts
}

fn drawing(section: &Section, name: &str, note: &DrawingNote, common: &Labels, curves: &[&Curve]) -> Drawing {
    let first = curves[0];
    let mut curves = curves.to_vec();
    curves.sort_by(|one, other| by_number(&one.labels, &other.labels));
    let own = |curve: &Curve| -> Vec<String> {
        // The usual case is left out where no other case is drawn.
        let usual = |key: &str| curve.words.get(key).is_some_and(String::is_empty);
        let differs = |key: &str, value: &str| {
            curves.iter().any(|other| other.labels.get(key).is_some_and(|other| other != value))
        };
        let own = curve
            .labels
            .pairs()
            .filter(|(key, value)| common.get(key).is_none() && (!usual(key) || differs(key, value)));
        own.map(|(key, value)| words(curve, key, value)).collect()
    };
    let title = |curve: &Curve| own(curve).join(", ");
    let what = note.caption.clone().unwrap_or_else(|| format!("{} by {}", first.y.label, first.x.label));
    let mut of = vec![capitalised(&what)];
    of.extend(common.pairs().map(|(key, value)| words(first, key, value)));
    let mut caption = format!("{}: {}.", of.join(", "), finding(&curves, &title));
    let is_marked = |curve: &&Curve| note.marks.iter().any(|mark| mark.labels == curve.labels);
    if let Some(found) = note.finding.as_ref().filter(|_| curves.iter().any(is_marked)) {
        caption = format!("{found} {caption}");
    }
    let suffix = if common.is_empty() { String::new() } else { format!("-{}", common.to_string().replace('=', "-")) };
    let mut note = note.clone();
    note.marks.retain(|mark| mark.labels.is_empty() || curves.iter().any(|curve| curve.labels == mark.labels));
    Drawing {
        id: anchor(name) + &suffix,
        alt: format!("{caption} {} with at most {} points each", curves_in_words(curves.len()), longest(&curves)),
        caption,
        values: values(&curves, &title),
        plot: Plot::Curves(CurvePlot {
            x: first.x.clone(),
            y: first.y.clone(),
            note,
            lines: curves.iter().map(|curve| line(section, curve, &title(curve))).collect(),
        }),
    }
}

/// Curves of one label whose values are numbers are in the order of these numbers, all others as they came.
fn by_number(one: &Labels, other: &Labels) -> Ordering {
    let number = |value: &str| value.parse::<f64>().ok();
    let differing = one.pairs().find_map(|(key, value)| {
        let against = other.get(key).filter(|against| *against != value)?;
        number(value)?.partial_cmp(&number(against)?)
    });
    differing.unwrap_or(Ordering::Equal)
}

/// A label in plain words. In a legend the usual case has a name too.
fn words(curve: &Curve, key: &str, value: &str) -> String {
    let said = curve.words.get(key).filter(|words| !words.is_empty());
    said.cloned().unwrap_or_else(|| match value.parse::<f64>() {
        Ok(_) => format!("{} {value}", key.replace('_', " ")),
        Err(_) => value.replace('_', " "),
    })
}

fn capitalised(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(first) = text.get_mut(0..1) {
        first.make_ascii_uppercase();
    }
    text
}

/// What the curves show: the largest change from the first to the last point that the intervals of both leave no doubt about.
fn finding(curves: &[&Curve], title: &impl Fn(&Curve) -> String) -> String {
    let change = |curve: &&Curve| {
        let ([_, before, low_before, high_before], [_, after, low_after, high_after]) =
            (*curve.points.first()?, *curve.points.last()?);
        // One launch has no interval.
        let known = low_before < high_before && low_after < high_after;
        let apart = known && (low_after > high_before || low_before > high_after);
        (apart && before > 0.0 && after > 0.0).then(|| after / before)
    };
    let changes = curves.iter().filter_map(|curve| Some((*curve, change(curve)?)));
    let largest = changes.max_by(|(_, one), (_, other)| one.ln().abs().total_cmp(&other.ln().abs()));
    let Some((curve, ratio)) = largest else {
        return "no change from the first to the last point is beyond the intervals".to_owned();
    };
    let ends = [curve.points.first(), curve.points.last()].map(|point| point.map_or(0.0, |point| point[0]));
    let [from, to] = ends.map(|end| mark(end, curve.x.unit));
    let which = if curves.len() > 1 { format!(" ({})", title(curve)) } else { String::new() };
    format!("{} from {from} to {to}{which}", factor(ratio))
}

fn curves_in_words(count: usize) -> String {
    if count == 1 { "one curve".to_owned() } else { format!("{count} curves") }
}

fn longest(curves: &[&Curve]) -> usize {
    curves.iter().map(|curve| curve.points.len()).max().unwrap_or(0)
}

fn line(section: &Section, curve: &Curve, name: &str) -> PlotLine {
    let points = curve.points.iter().map(|&[x, y, low, high]| {
        let found = predicted(section, curve, y);
        let mut title = format!(
            "{}{}: {}, interval {}",
            if name.is_empty() { String::new() } else { format!("{name}, ") },
            mark(x, curve.x.unit),
            measured(y, [low, high], curve.y.unit),
            ends(y, [low, high], curve.y.unit)
        );
        if let Some(range) = found {
            title += &format!(", predicted {}", interval(range, curve.y.unit));
        }
        PlotPoint { x, y, interval: [low, high], predicted: found, title }
    });
    PlotLine { points: points.collect(), name: name.to_owned(), labels: curve.labels.clone() }
}

/// The range that was predicted for a point: that of the figure which is the point.
fn predicted(section: &Section, curve: &Curve, y: f64) -> Option<[f64; 2]> {
    let found = curve.metric_at(y, &section.metrics)?.prediction.as_ref()?;
    (found.unit == curve.y.unit).then_some([found.low, found.high])
}

/// The interval of a point; none where one launch has it.
fn ends(y: f64, interval: [f64; 2], unit: Unit) -> String {
    if interval[0] < interval[1] { measured_interval(y, interval, unit) } else { "–".to_owned() }
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
                Cell::of(ends(y, [low, high], curve.y.unit)),
            ]);
        }
    }
    table
}
