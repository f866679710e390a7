//! Small series next to each other: a result over runs, with its levels and the places where they change.

use super::canvas::Ink;
use super::{DrawnFor, PlotPoint, at, sign, text_at};
use crate::results::quantity::Unit;
use crate::results::wording::significant;

/// Height of a panel.
const HEIGHT: f64 = 136.0;
/// Space around the series of a panel: for the values at its left, for its title, and for the runs below it.
const LEFT: f64 = 66.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 28.0;
const BELOW: f64 = 26.0;
/// Letters of a title.
const LONGEST: usize = 44;
/// Least height of the range of values, as a ratio: less is noise.
const LEAST_RANGE: f64 = 1.02;

/// Small series on axes of their runs.
#[derive(Debug, Clone)]
pub struct PanelPlot {
    /// The first and the last run that every panel shows, as numbers.
    pub ends: [f64; 2],
    /// The panels, row by row.
    pub panels: Vec<PlotPanel>,
}

/// One series.
#[derive(Debug, Clone)]
pub struct PlotPanel {
    /// What it is, and how it changed.
    pub title: String,
    /// Unit of the values.
    pub unit: Unit,
    /// The values over the numbers of their runs, above 0.
    pub points: Vec<PlotPoint>,
    /// Numbers of runs whose points take no part.
    pub hollow: Vec<f64>,
    pub levels: Vec<PanelLevel>,
    /// Places of changes, between runs.
    pub cuts: Vec<f64>,
}

/// A level of a series.
#[derive(Debug, Clone, Copy)]
pub struct PanelLevel {
    /// Numbers of its first and last run.
    pub ends: [f64; 2],
    pub value: f64,
}

/// Where a panel lies on the canvas.
struct PanelFrame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    runs: [f64; 2],
    values: [f64; 2],
}

impl PanelFrame {
    fn x(&self, run: f64) -> f64 {
        let share = (run - self.runs[0]) / (self.runs[1] - self.runs[0]).max(1.0);
        self.left + 8.0 + share * (self.right - self.left - 16.0)
    }

    /// Values are on a scale of ratios.
    fn y(&self, value: f64) -> f64 {
        let [low, high] = self.values.map(f64::ln);
        let share = (value.max(f64::MIN_POSITIVE).ln() - low) / (high - low);
        self.bottom - share.clamp(0.0, 1.0) * (self.bottom - self.top)
    }
}

impl PanelPlot {
    pub(super) fn draw(&self, ink: &Ink, form: DrawnFor) -> (u32, u32) {
        let across = if form == DrawnFor::Phone { 1 } else { 2 };
        let wide = f64::from(form.width()) / across as f64;
        for (place, panel) in self.panels.iter().enumerate() {
            let (left, top) = ((place % across) as f64 * wide, (place / across) as f64 * HEIGHT);
            let frame = PanelFrame {
                left: left + LEFT,
                right: left + wide - RIGHT,
                top: top + TOP,
                bottom: top + HEIGHT - BELOW,
                runs: self.ends,
                values: panel.range(),
            };
            ink.borrow_mut().push_str(&panel.draw(&frame, form));
        }
        (form.width(), (self.panels.len().div_ceil(across).max(1) as f64 * HEIGHT) as u32)
    }
}

impl PlotPanel {
    /// The range of values, with a little space.
    fn range(&self) -> [f64; 2] {
        let values = || self.points.iter().map(|point| point.y).filter(|value| *value > 0.0 && value.is_finite());
        let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        if low > high {
            return [1.0, LEAST_RANGE];
        }
        let space = (high / low).max(LEAST_RANGE).powf(0.1);
        let middle = (low * high).sqrt();
        let half = (high / low).max(LEAST_RANGE).sqrt() * space;
        [middle / half, middle * half]
    }

    fn draw(&self, frame: &PanelFrame, form: DrawnFor) -> String {
        let title: String = self.title.chars().take(LONGEST).collect();
        let cut = if title.len() < self.title.len() { "…" } else { "" };
        let mut out = text_at(frame.left - LEFT + 6.0, frame.top - 12.0, "text head", &format!("{title}{cut}"));
        let [left, right, top, bottom] = [frame.left, frame.right, frame.top, frame.bottom].map(at);
        out += &format!("<path class=\"axis\" fill=\"none\" d=\"M{left} {top}V{bottom}H{right}\"/>");
        for value in self.ends() {
            let y = frame.y(value);
            out += &text_at(frame.left - 6.0, y + 4.5, "text end", &significant(value, self.unit, 3));
            out += &format!("<path class=\"grid\" d=\"M{left} {}H{right}\"/>", at(y));
        }
        for (run, class) in [(frame.runs[0], "text"), (frame.runs[1], "text end")] {
            let x = if class == "text" { frame.left } else { frame.right };
            out += &text_at(x, frame.bottom + 16.0, class, &format!("run {run:.0}"));
        }
        for &place in &self.cuts {
            out += &format!("<path class=\"claim\" d=\"M{} {top}V{bottom}\"/>", at(frame.x(place)));
        }
        for level in &self.levels {
            let [from, to] = [level.ends[0] - 0.4, level.ends[1] + 0.4].map(|run| at(frame.x(run)));
            out += &format!("<path class=\"plateau s0\" d=\"M{from} {}H{to}\"/>", at(frame.y(level.value)));
        }
        for point in &self.points {
            let (x, y) = (frame.x(point.x), frame.y(point.y));
            let [low, high] = point.interval.map(|end| frame.y(end));
            let whisker = format!("<path class=\"w s0\" d=\"M{} {}V{}\"/>", at(x), at(low), at(high));
            let hollow = self.hollow.iter().any(|run| (run - point.x).abs() < 0.5);
            out += &form.touchable(&point.title, &(whisker + &sign(0, hollow, x, y)));
        }
        out
    }

    /// The values that are written at the axis: the lowest and the highest level, or one where they meet.
    fn ends(&self) -> Vec<f64> {
        let values = || self.levels.iter().map(|level| level.value);
        let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        match () {
            () if low > high => Vec::new(),
            () if high / low < LEAST_RANGE => vec![low],
            () => vec![low, high],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn points_stand_above_and_below_and_the_change_between_them() {
        let point = |x: f64, y: f64| PlotPoint {
            x,
            y,
            interval: [y * 0.99, y * 1.01],
            predicted: None,
            title: format!("run {x}"),
        };
        let panel = PlotPanel {
            title: "system call, getppid: +10 %".to_owned(),
            unit: Unit::Nanoseconds,
            points: vec![point(1.0, 100.0), point(2.0, 100.0), point(3.0, 110.0), point(4.0, 900.0)],
            hollow: vec![4.0],
            levels: vec![PanelLevel { ends: [1.0, 2.0], value: 100.0 }, PanelLevel { ends: [3.0, 3.0], value: 110.0 }],
            cuts: vec![2.5],
        };
        let ink: Ink = Rc::new(RefCell::new(String::new()));
        let plot = PanelPlot { ends: [1.0, 4.0], panels: vec![panel; 3] };
        assert_eq!(plot.draw(&ink, DrawnFor::Page), (760, 272));
        let drawn = ink.take();
        assert_eq!(drawn.matches("<circle class=\"f s0\"").count(), 9, "{drawn}");
        assert_eq!(drawn.matches("<circle class=\"o s0\"").count(), 3, "{drawn}");
        assert_eq!(drawn.matches("class=\"claim\"").count(), 3, "{drawn}");
        assert!(drawn.contains("100 ns") && drawn.contains("110 ns") && drawn.contains("run 4"), "{drawn}");
        assert!(!drawn.contains("NaN"), "{drawn}");
    }
}
