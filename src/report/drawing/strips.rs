//! Strips: many values on one axis, each a tick, a row for each quantity. Ten thousand ticks cost no more than the pixels
//! they fill.

use std::collections::BTreeSet;

use super::axis::PlotAxis;
use super::canvas::Ink;
use super::{BELOW, ChartLayout, DrawnFor, Frame, LETTER, at, text_at};
use crate::results::drawing_note::Scale;
use crate::results::quantity::Unit;

/// Height of a row.
const ROW: u32 = 34;
/// Height of a row with its name above it.
const TALL_ROW: u32 = 54;
/// Half of the height of a tick.
const TICK: f64 = 6.0;
/// Least distance of two names in pixels.
const NAME_SPACE: f64 = 8.0;
/// Ratios that the axis reaches at most.
const REACH: [f64; 2] = [0.4, 2.0];

/// Rows of ticks on a logarithmic axis of ratios.
#[derive(Debug, Clone)]
pub struct StripPlot {
    /// What is along the axis.
    pub label: String,
    pub rows: Vec<StripRow>,
}

/// One row.
#[derive(Debug, Clone)]
pub struct StripRow {
    pub name: String,
    /// The range that counts as alike.
    pub band: [f64; 2],
    /// A ratio for each tick, all of them above zero.
    pub ticks: Vec<f64>,
    /// Ratios that are named.
    pub named: Vec<(f64, String)>,
}

impl StripPlot {
    pub(super) fn draw(&self, ink: &Ink, form: DrawnFor) -> (u32, u32) {
        let width = form.width();
        let row = if form.is_narrow() { TALL_ROW } else { ROW };
        let count = self.rows.len().max(1) as f64;
        let height = 10 + self.rows.len().max(1) as u32 * row + BELOW;
        let longest = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).max(12);
        let left = if form.is_narrow() { 20 } else { (longest as f64 * LETTER) as u32 + 16 };
        let named = self.rows.iter().flat_map(|row| row.named.iter().map(|(ratio, _)| *ratio));
        let all = self.rows.iter().flat_map(|row| row.ticks.iter().copied().chain(row.band)).chain(named);
        let all = all.map(|ratio| ratio.clamp(REACH[0], REACH[1]));
        let x = PlotAxis::over(&self.label, Unit::One, all, Scale::Logarithmic, ((width - left) / 80) as usize);
        let y = PlotAxis {
            label: String::new(),
            unit: Unit::One,
            logarithmic: false,
            low: 0.0,
            high: count,
            marks: Vec::new(),
        };
        let space = ChartLayout { width, height, top: 10, left, below: BELOW, vertical_marks: false };
        let frame = Frame::draw(ink, &space, x, y);
        let mut out = ink.borrow_mut();
        for (index, row) in self.rows.iter().enumerate() {
            *out += &draw_row(&frame, row, frame.y(count - index as f64 - 0.5), form);
        }
        (width, height)
    }
}

fn draw_row(frame: &Frame, row: &StripRow, y: f64, form: DrawnFor) -> String {
    let place = |ratio: f64| frame.x(ratio.clamp(REACH[0], REACH[1]));
    let (y, mut out) = if form.is_narrow() {
        (y + 12.0, text_at(2.0, y - 12.0, "text", &row.name))
    } else {
        (y, text_at(frame.origin.0 - 8.0, y + 4.5, "text end", &row.name))
    };
    let (from, to) = (place(row.band[0]), place(row.band[1]));
    let wide = (to - from).max(1.0);
    out += &format!("<path class=\"range\" d=\"M{} {}h{}v18h-{}z\"/>", at(from), at(y - 9.0), at(wide), at(wide));
    // Half a pixel apart is one tick.
    let pixels: BTreeSet<i64> = row.ticks.iter().map(|ratio| (2.0 * place(*ratio)).round() as i64).collect();
    let ticks: String = pixels.iter().map(|pixel| at(*pixel as f64 / 2.0)).fold(String::new(), |mut path, x| {
        path += &format!("M{x} {}v{}", at(y - TICK), at(2.0 * TICK));
        path
    });
    out += &format!("<path class=\"w s0\" d=\"{ticks}\"/>");
    let mut named: Vec<&(f64, String)> = row.named.iter().collect();
    named.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut free = f64::NEG_INFINITY;
    for (ratio, name) in named {
        let x = place(*ratio);
        let mut content = format!("<path class=\"w s1\" d=\"M{} {}v{}\"/>", at(x), at(y - 9.0), at(18.0));
        let half = name.chars().count() as f64 * LETTER / 2.0;
        if x - half > free && x + half < frame.corner.0 + 28.0 {
            content += &text_at(x - half, y - 10.0, "note", name);
            free = x + half + NAME_SPACE;
        }
        out += &form.touchable(name, &content);
    }
    out
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    fn drawn(ticks: Vec<f64>, named: Vec<(f64, String)>) -> String {
        let rows = vec![StripRow { name: "disk".to_owned(), band: [0.98, 1.02], ticks, named }];
        let ink: Ink = Rc::new(RefCell::new(String::new()));
        StripPlot { label: "ratio".to_owned(), rows }.draw(&ink, DrawnFor::Page);
        ink.take()
    }

    #[test]
    fn many_ticks_take_no_more_than_the_pixels_that_they_fill() {
        let many = drawn((0..10_000).map(|number| 0.9 + 2e-5 * f64::from(number)).collect(), Vec::new());
        assert!(many.len() < 40_000, "{}", many.len());
        let wild = drawn(vec![1e-12, 1.0, 1e12], Vec::new());
        assert!(!wild.contains("NaN") && !wild.contains("inf"), "{wild}");
    }

    #[test]
    fn names_that_would_overlap_stay_where_a_pointer_finds_them() {
        let named = (0..20).map(|number| (0.7 + 1e-4 * f64::from(number), format!("node{number:02}")));
        let text = drawn(vec![1.0], named.collect());
        assert_eq!(text.matches("<title>").count(), 20);
        assert!(text.matches("class=\"note\"").count() < 4, "{text}");
    }
}
