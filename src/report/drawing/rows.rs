//! Rows of marks on one axis: a range and a measured value for each figure, or many machines for each operation.

use super::axis::PlotAxis;
use super::canvas::Ink;
use super::{BELOW, ChartLayout, Frame, LETTER, SERIES, WIDTH, at, legend, sign, text_at, touchable};
use crate::results::drawing_note::Scale;
use crate::results::quantity::Unit;

/// Height of a row.
const ROW: u32 = 24;
/// Letters of a row's name that are shown; the rest is in the table.
const LONGEST: usize = 50;

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
    /// What the bars are, where there are any.
    pub bars: Option<String>,
    /// What hollow marks are, where there are any.
    pub hollow: Option<String>,
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
    pub(super) fn draw(&self, ink: &Ink) -> (u32, u32) {
        let values = self.rows.iter().flat_map(|row| {
            let marks = row.marks.iter().flat_map(|mark| mark.interval.into_iter().flatten().chain([mark.value]));
            marks.chain(row.bar.into_iter().flatten())
        });
        let count = self.rows.len().max(1) as f64;
        let y = PlotAxis {
            label: String::new(),
            unit: Unit::One,
            logarithmic: false,
            low: 0.0,
            high: count,
            marks: Vec::new(),
        };
        let mut names = self.series.clone();
        names.extend(self.bars.clone());
        names.extend(self.hollow.clone());
        let (places, tall) = legend(&names, f64::from(WIDTH) - 20.0);
        let top = tall + 10;
        let height = top + self.rows.len().max(1) as u32 * ROW + BELOW;
        let names_of_rows = self.rows.iter().filter(|row| !row.head);
        let longest = names_of_rows.map(|row| row.name.chars().count().min(LONGEST)).max().unwrap_or(0).max(12);
        let left = (longest as f64 * LETTER) as u32 + 16;
        // The widest marks take some eighty pixels.
        let marks = (WIDTH - left) as usize / 80;
        let x = PlotAxis::over(&self.label, self.unit, values.chain(self.reference), self.scale, marks);
        let space = ChartLayout { width: WIDTH, height, top, left, vertical_marks: false };
        let frame = Frame::draw(ink, &space, x, y);
        let mut out = ink.borrow_mut();
        for (index, ((left, line), name)) in places.into_iter().zip(&names).enumerate() {
            let (x, y) = (left + 8.0, 14.0 + line);
            *out += &if index < self.series.len() {
                sign(index, false, x + 13.0, y)
            } else if self.bars.is_some() && index == self.series.len() {
                format!("<path class=\"range\" d=\"M{} {}h26v12h-26z\"/>", at(x), at(y - 6.0))
            } else {
                sign(0, true, x + 13.0, y)
            };
            *out += &text_at(x + 31.0, y + 4.5, "text", name);
        }
        if let Some(reference) = self.reference {
            let (x, top, bottom) = (at(frame.x(reference)), at(frame.corner.1), at(frame.origin.1));
            *out += &format!("<path class=\"claim\" d=\"M{x} {top}V{bottom}\"/>");
        }
        for (index, row) in self.rows.iter().enumerate() {
            let y = frame.y(count - index as f64 - 0.5);
            *out += &draw_row(&frame, row, y);
        }
        (WIDTH, height)
    }
}

fn draw_row(frame: &Frame, row: &PlotRow, y: f64) -> String {
    let mut out = format!("<path class=\"grid\" d=\"M{} {}H{}\"/>", at(frame.origin.0), at(y), at(frame.corner.0));
    let name: String = if row.name.chars().count() > LONGEST {
        row.name.chars().take(LONGEST - 1).chain(['…']).collect()
    } else {
        row.name.clone()
    };
    if row.head {
        // A heading may be longer than the names below it: it stands over the line.
        return text_at(2.0, y + 8.0, "text head", &row.name);
    }
    out += &text_at(frame.origin.0 - 8.0, y + 4.5, "text end", &name);
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
        content += &if mark.strong {
            format!("<circle class=\"f s{} us\" cx=\"{}\" cy=\"{}\" r=\"6\"/>", mark.series % SERIES, at(x), at(y))
        } else {
            sign(mark.series, mark.hollow, x, y)
        };
        out += &touchable(&mark.title, &content);
    }
    out
}
