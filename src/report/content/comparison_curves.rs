//! Results of both sides that differ in one number, such as a size: two curves in one drawing.

use std::collections::BTreeMap;

use crate::report::drawing::{CurvePlot, Drawing, Plot, PlotLine, PlotPoint};
use crate::report::page::Table;
use crate::results::comparison::{ComparedResult, SideValue};
use crate::results::document::Axis;
use crate::results::drawing_note::{DrawingNote, Join, Scale};
use crate::results::quantity::{Labels, Unit};
use crate::results::wording::{count, measured};

/// Labels whose values are numbers along which results form a curve, with words for them and the unit of the numbers.
const PARAMETERS: [(&str, &str, Unit); 7] = [
    ("bytes", "size", Unit::Bytes),
    ("args", "arguments", Unit::One),
    ("depth", "reads in flight", Unit::One),
    ("path_depth", "directories in the path", Unit::One),
    ("processes", "processes", Unit::One),
    ("streams", "streams", Unit::One),
    ("threads", "threads", Unit::One),
];
/// Points from which a curve is drawn.
const LEAST_POINTS: usize = 3;
/// Most drawings.
const MOST: usize = 6;

/// Results along one parameter: metric, parameter, and labels that all have.
type Along<'a> = BTreeMap<(&'a str, &'a str, String), Vec<(f64, &'a ComparedResult)>>;

/// Two curves for each set of results along a parameter in which a result changed, the largest change first.
/// `table` lists results for readers who do not see the drawing.
pub(super) fn drawings(rows: &[ComparedResult], table: impl Fn(&[&ComparedResult]) -> Table) -> Vec<Drawing> {
    let mut along: Along<'_> = BTreeMap::new();
    for row in rows {
        for (key, ..) in PARAMETERS {
            let number = row.labels.get(key).and_then(|value| value.parse::<f64>().ok());
            if let Some(number) = number.filter(|number| *number > 0.0) {
                let rest = row.labels.without(key).to_string();
                along.entry((&row.metric, key, rest)).or_default().push((number, row));
            }
        }
    }
    along.retain(|_, points| points.len() >= LEAST_POINTS && points.iter().any(|(_, row)| row.is_changed()));
    let largest = |points: &[(f64, &ComparedResult)]| {
        let changed = points.iter().filter(|(_, row)| row.is_changed());
        changed.map(|(_, row)| row.change.ln_1p().abs()).fold(0.0, f64::max)
    };
    let mut sets: Vec<_> = along.into_iter().collect();
    sets.sort_by(|one, other| largest(&other.1).total_cmp(&largest(&one.1)));
    sets.truncate(MOST);
    sets.into_iter().enumerate().map(|(number, ((_, key, _), points))| drawing(number, key, points, &table)).collect()
}

fn drawing<'a>(
    number: usize,
    key: &'a str,
    mut points: Vec<(f64, &'a ComparedResult)>,
    table: &impl Fn(&[&ComparedResult]) -> Table,
) -> Drawing {
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    let first = points[0].1;
    let rows: Vec<&ComparedResult> = points.iter().map(|(_, row)| *row).collect();
    let line = |name: &str, of: fn(&ComparedResult) -> SideValue| PlotLine {
        name: name.to_owned(),
        labels: Labels::default(),
        points: points
            .iter()
            .map(|(x, row)| {
                let side = of(row);
                let title = format!("{}, {name}: {}", row.phrase, measured(side.value, side.interval, row.unit));
                PlotPoint { x: *x, y: side.value, interval: side.interval, predicted: None, title }
            })
            .collect(),
    };
    let quantity = first.phrase.split(", ").next().unwrap_or(&first.phrase);
    let changed = rows.iter().filter(|row| row.is_changed()).count() as u64;
    // What all of their names have in common.
    let in_all = |words: &&str| rows.iter().all(|row| row.phrase.split(", ").any(|other| other == *words));
    let what: Vec<&str> = first.phrase.split(", ").filter(in_all).collect();
    let what = what.join(", ");
    let (_, parameter, unit) =
        PARAMETERS.into_iter().find(|(known, ..)| *known == key).unwrap_or((key, key, Unit::One));
    let caption =
        format!("{what}, by {parameter}: {changed} of {} changed.", count(rows.len() as u64, "result", "results"));
    Drawing {
        id: format!("curves-{}", number + 1),
        alt: format!("{caption} Two curves, base and new."),
        caption,
        plot: Plot::Curves(CurvePlot {
            x: Axis { label: parameter.to_owned(), unit },
            y: Axis { label: quantity.to_owned(), unit: first.unit },
            note: DrawingNote {
                curve: String::new(),
                caption: None,
                finding: None,
                x_scale: Scale::Automatic,
                y_scale: Scale::Automatic,
                join: Join::Line,
                divided_by: None,
                marks: Vec::new(),
            },
            lines: vec![line("base", |row| row.base), line("new", |row| row.new)],
        }),
        values: table(&rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::comparison::Finding;
    use crate::results::quantity::Better;

    fn row(bytes: &str, change: f64, finding: Finding) -> ComparedResult {
        let side = |value: f64| SideValue { value, interval: [value * 0.99, value * 1.01], launches: 8, runs: 4 };
        ComparedResult {
            experiment: "network.round_trip".to_owned(),
            metric: "network.round_trip.time".to_owned(),
            labels: Labels::parse(&format!("bytes={bytes} protocol=tcp")).unwrap(),
            phrase: format!("TCP round trip, other CPU, {bytes} B"),
            unit: Unit::Nanoseconds,
            better: Better::Lower,
            headline: true,
            base: side(100.0),
            new: side(100.0 * (1.0 + change)),
            change,
            interval: [change - 0.01, change + 0.01],
            threshold: 0.05,
            p: 0.001,
            adjusted_p: 0.01,
            finding,
            launches_needed: None,
            runs_needed: None,
            explanation: None,
        }
    }

    #[test]
    fn results_along_a_number_are_two_curves_where_one_changed() {
        let same = |bytes: &str| row(bytes, 0.0, Finding::Equivalent);
        let rows = [same("1"), row("65536", 0.3, Finding::Worse), same("1024")];
        let table = |_: &[&ComparedResult]| Table::new("", &[]);
        let drawn = drawings(&rows, table);
        assert_eq!(drawn.len(), 1);
        assert_eq!(drawn[0].caption, "TCP round trip, other CPU, by size: 1 of 3 results changed.");
        let Plot::Curves(plot) = &drawn[0].plot else { panic!("curves") };
        let of = |line: &PlotLine| line.points.iter().map(|point| (point.x, point.y)).collect::<Vec<_>>();
        assert_eq!(of(&plot.lines[0]), [(1.0, 100.0), (1024.0, 100.0), (65536.0, 100.0)]);
        assert_eq!(of(&plot.lines[1]), [(1.0, 100.0), (1024.0, 100.0), (65536.0, 130.0)]);
        assert!(drawings(&[same("1"), same("2"), same("4")], table).is_empty(), "nothing changed");
        assert!(drawings(&rows[..2], table).is_empty(), "two points are no curve");
    }
}
