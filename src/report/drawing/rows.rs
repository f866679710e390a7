//! Rows of marks on one axis: a range and a measured value for each figure, or many machines for each operation.

use super::axis::PlotAxis;
use super::canvas::Ink;
use super::{BELOW, BELOW_MARKS, ChartLayout, DrawnFor, Frame, LETTER, SERIES, at, legend, sign, text_at};
use crate::results::drawing_note::Scale;
use crate::results::quantity::Unit;

/// Height of a row.
const ROW: u32 = 20;
/// Height of a row whose name is above its marks.
const TALL_ROW: u32 = 36;
/// Letters of a row's name that are shown; the rest is in the table.
const LONGEST: usize = 56;
/// Letters of a name above the marks.
const LONGEST_ABOVE: usize = 50;
/// Number of the series whose sign is a diamond.
pub const DIAMOND: usize = 3;

/// Rows on a common axis.
#[derive(Debug, Clone)]
pub struct RowPlot {
    /// What is along the axis.
    pub label: String,
    /// In which unit.
    pub unit: Unit,
    pub scale: Scale,
    /// Names of the series of marks, in the order of their numbers.
    pub series: Vec<String>,
    /// What the diamonds are, where there are any.
    pub diamonds: Option<String>,
    /// What the bars are, where there are any.
    pub bars: Option<String>,
    /// What hollow marks are, where there are any.
    pub hollow: Option<String>,
    /// Whether the axis reaches hollow marks. Where it does not, those beyond it stand at its edge.
    pub reaches_hollow: bool,
    /// A value of the axis that every row is compared with.
    pub reference: Option<f64>,
    /// The rows from top to bottom.
    pub rows: Vec<PlotRow>,
}

/// One row.
#[derive(Debug, Clone)]
pub struct PlotRow {
    pub name: String,
    /// True for a heading of the rows below it.
    pub head: bool,
    /// A range.
    pub bar: Option<[f64; 2]>,
    pub marks: Vec<PlotMark>,
}

/// One mark.
#[derive(Debug, Clone)]
pub struct PlotMark {
    /// Where it stands.
    pub value: f64,
    pub interval: Option<[f64; 2]>,
    /// Number of its series.
    pub series: usize,
    /// True where it is doubted.
    pub hollow: bool,
    /// True where it is what the reader looks for among the others.
    pub strong: bool,
    /// What it says when it is touched.
    pub title: String,
}

impl PlotRow {
    /// A heading of the rows below it.
    pub fn head(name: &str) -> Self {
        PlotRow { name: name.to_owned(), head: true, bar: None, marks: Vec::new() }
    }
}

impl RowPlot {
    /// The values that the axis reaches.
    fn reach(&self) -> Vec<f64> {
        let of = |doubted: bool| -> Vec<f64> {
            let marks = self.rows.iter().flat_map(|row| &row.marks).filter(|mark| doubted || !mark.hollow);
            let marks = marks.flat_map(|mark| mark.interval.into_iter().flatten().chain([mark.value]));
            marks.chain(self.rows.iter().filter_map(|row| row.bar).flatten()).chain(self.reference).collect()
        };
        let sure = of(self.reaches_hollow);
        if sure.is_empty() { of(true) } else { sure }
    }

    pub(super) fn draw(&self, ink: &Ink, form: DrawnFor) -> (u32, u32) {
        let width = form.width();
        let count = self.rows.len().max(1) as f64;
        let y = PlotAxis {
            label: String::new(),
            unit: Unit::One,
            logarithmic: false,
            low: 0.0,
            high: count,
            marks: Vec::new(),
        };
        let reach = self.reach();
        let low = reach.iter().copied().fold(f64::INFINITY, f64::min);
        let high = reach.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let clipped = self.rows.iter().flat_map(|row| &row.marks).any(|mark| mark.value < low || mark.value > high);
        let (legend, tall) = self.legend(clipped, f64::from(width) - 20.0);
        let top = tall + 10;
        let below = if self.label.is_empty() { BELOW_MARKS } else { BELOW };
        let row = if form.is_narrow() { TALL_ROW } else { ROW };
        let height = top + self.rows.len().max(1) as u32 * row + below;
        let names_of_rows = self.rows.iter().filter(|row| !row.head);
        let longest = names_of_rows.map(|row| row.name.chars().count().min(LONGEST)).max().unwrap_or(0).max(12);
        let left = if form.is_narrow() { 20 } else { (longest as f64 * LETTER) as u32 + 16 };
        // The widest marks take some eighty pixels.
        let marks = (width - left) as usize / 80;
        let x = PlotAxis::over(&self.label, self.unit, reach.into_iter(), self.scale, marks);
        let space = ChartLayout { width, height, top, left, below, vertical_marks: false };
        let frame = Frame::draw(ink, &space, x, y);
        let mut out = ink.borrow_mut();
        *out += &legend;
        if let Some(reference) = self.reference {
            let (x, top, bottom) = (at(frame.x(reference)), at(frame.corner.1), at(frame.origin.1));
            *out += &format!("<path class=\"claim\" d=\"M{x} {top}V{bottom}\"/>");
        }
        for (index, row) in self.rows.iter().enumerate() {
            let y = frame.y(count - index as f64 - 0.5);
            *out += &draw_row(&frame, row, y, form);
        }
        (width, height)
    }

    /// What the signs are, and the height of that.
    fn legend(&self, clipped: bool, width: f64) -> (String, u32) {
        let arrow = if clipped { ", arrow: beyond the axis" } else { "" };
        let hollow = self.hollow.as_ref().map(|words| format!("{words}{arrow}"));
        let series = self.series.iter().enumerate();
        let mut items: Vec<(String, LegendSign)> =
            series.map(|(index, name)| (name.clone(), LegendSign::Series(index, false))).collect();
        items.extend(self.diamonds.clone().map(|name| (name, LegendSign::Series(DIAMOND, false))));
        items.extend(self.bars.clone().map(|name| (name, LegendSign::Bar)));
        items.extend(hollow.map(|name| (name, LegendSign::Series(0, true))));
        let most = ((width - 40.0) / LETTER) as usize;
        let names: Vec<String> = items.iter().map(|(name, _)| cut(name, most)).collect();
        let (places, tall) = legend(&names, width);
        let mut out = String::new();
        for (((left, line), name), (_, shape)) in places.into_iter().zip(&names).zip(&items) {
            let (x, y) = (left + 8.0, 14.0 + line);
            out += &match shape {
                LegendSign::Series(number, hollow) => sign(*number, *hollow, x + 13.0, y),
                LegendSign::Bar => format!("<path class=\"range\" d=\"M{} {}h26v12h-26z\"/>", at(x), at(y - 6.0)),
            };
            out += &text_at(x + 31.0, y + 4.5, "text", name);
        }
        (out, tall)
    }
}

/// A sign of the legend.
enum LegendSign {
    /// The number of a series, and whether the sign is hollow.
    Series(usize, bool),
    /// A range.
    Bar,
}

/// Text of at most this many letters.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

fn draw_row(frame: &Frame, row: &PlotRow, y: f64, form: DrawnFor) -> String {
    if row.head {
        // A heading may be longer than the names below it: it stands over the line.
        return text_at(2.0, y + if form.is_narrow() { 8.0 } else { 4.5 }, "text head", &row.name);
    }
    let (y, name) = if form.is_narrow() {
        (y + 8.0, text_at(2.0, y - 5.0, "text", &cut(&row.name, LONGEST_ABOVE)))
    } else {
        (y, text_at(frame.origin.0 - 8.0, y + 4.5, "text end", &cut(&row.name, LONGEST)))
    };
    let mut out = format!("<path class=\"grid\" d=\"M{} {}H{}\"/>", at(frame.origin.0), at(y), at(frame.corner.0));
    out += &name;
    if let Some(bar) = row.bar {
        let (from, to) = (frame.x(bar[0]), frame.x(bar[1]));
        let wide = (to - from).max(2.0);
        out += &format!("<path class=\"range\" d=\"M{} {}h{}v12h-{}z\"/>", at(from), at(y - 6.0), at(wide), at(wide));
    }
    for mark in &row.marks {
        let x = frame.x(mark.value);
        let mut content = String::new();
        if let Some([low, high]) = mark.interval {
            let (from, to) = (frame.x(low), frame.x(high));
            if to - from > 9.0 {
                let (y, from, to) = (at(y), at(from), at(to));
                content += &format!(
                    "<path class=\"w s{}\" d=\"M{from} {y}H{to}m0-4v8M{from} {y}m0-4v8\"/>",
                    mark.series % SERIES
                );
            }
        }
        content += &if let Some(edge) = beyond(frame, mark.value) {
            edge_sign(mark, x, y, edge)
        } else if mark.strong {
            format!("<circle class=\"f s{} us\" cx=\"{}\" cy=\"{}\" r=\"6\"/>", mark.series % SERIES, at(x), at(y))
        } else {
            sign(mark.series, mark.hollow, x, y)
        };
        out += &form.touchable(&mark.title, &content);
    }
    out
}

/// On which side of the axis a value lies that has no place on it: −1 or 1.
fn beyond(frame: &Frame, value: f64) -> Option<f64> {
    let place = if frame.x.logarithmic { value.max(f64::MIN_POSITIVE).log10() } else { value };
    if place > frame.x.high {
        Some(1.0)
    } else if place < frame.x.low {
        Some(-1.0)
    } else {
        None
    }
}

/// A sign next to the edge, and a point towards where it would stand.
fn edge_sign(mark: &PlotMark, x: f64, y: f64, side: f64) -> String {
    let (tip, back) = (at(x - 1.0 * side), at(-5.0 * side));
    let sign = sign(mark.series, mark.hollow, x - 12.0 * side, y);
    let class = mark.series % SERIES;
    format!("{sign}<path class=\"w s{class}\" d=\"M{tip} {}m{back} -4.5L{tip} {}l{back} 4.5\"/>", at(y), at(y))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    fn mark(value: f64, hollow: bool) -> PlotMark {
        PlotMark { value, interval: None, series: 0, hollow, strong: false, title: format!("value {value}") }
    }

    fn drawn(marks: Vec<PlotMark>) -> String {
        let rows = vec![PlotRow { name: "one".to_owned(), head: false, bar: None, marks }];
        let (label, series) = (String::new(), vec!["a report".to_owned()]);
        let plot = RowPlot {
            label,
            unit: Unit::Nanoseconds,
            scale: Scale::Logarithmic,
            series,
            diamonds: None,
            bars: None,
            hollow: Some("hollow: doubtful".to_owned()),
            reaches_hollow: false,
            reference: None,
            rows,
        };
        let ink: Ink = Rc::new(RefCell::new(String::new()));
        plot.draw(&ink, DrawnFor::Page);
        ink.take()
    }

    #[test]
    fn a_doubted_value_stretches_no_axis() {
        // 34 days next to microseconds.
        let text = drawn(vec![mark(4e3, false), mark(9e5, false), mark(2.9e15, true), mark(1e-3, true)]);
        assert!(text.contains("1 ms") || text.contains("100 µs"), "{text}");
        assert!(!text.contains(">1000000 s<") && !text.contains("1 s<"), "the axis ends where sure values end: {text}");
        assert_eq!(text.matches("class=\"w s0\"").count(), 2, "both are marked at an edge: {text}");
        assert!(text.contains("arrow"), "the legend says so: {text}");
        let alone = drawn(vec![mark(4e3, true), mark(9e5, true)]);
        assert_eq!(alone.matches("class=\"w s0\"").count(), 0, "doubted values alone have an axis: {alone}");
    }
}
