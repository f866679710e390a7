//! Curves over a parameter: lines, intervals as whiskers, predicted ranges as bands, knees, plateaus and limits.

use super::axis::PlotAxis;
use super::canvas::{Ink, escaped};
use super::labels::{LabelAnchor, LabelPlaces};
use super::{BELOW, ChartLayout, DrawnFor, Frame, SERIES, at, legend, sign, text_at};
use crate::results::document;
use crate::results::drawing_note::{DrawingNote, Join, MarkPlace};
use crate::results::quantity::Labels;

/// Height of a drawing of curves, legend left out.
const HEIGHT: u32 = 400;
/// Height of one for narrow screens.
const LOW: u32 = 320;

/// Curves on common axes.
#[derive(Debug, Clone)]
pub struct CurvePlot {
    /// The parameter.
    pub x: document::Axis,
    /// The figure.
    pub y: document::Axis,
    /// Scales, joins and marks.
    pub note: DrawingNote,
    /// The curves, in the order of the legend.
    pub lines: Vec<PlotLine>,
}

/// One curve.
#[derive(Debug, Clone)]
pub struct PlotLine {
    /// Its name in the legend.
    pub name: String,
    /// Labels by which marks find it.
    pub labels: Labels,
    /// Its points, ordered by x.
    pub points: Vec<PlotPoint>,
}

/// One point.
#[derive(Debug, Clone)]
pub struct PlotPoint {
    /// The parameter.
    pub x: f64,
    /// The figure.
    pub y: f64,
    pub interval: [f64; 2],
    /// The predicted range, where there is one.
    pub predicted: Option<[f64; 2]>,
    /// What it says when it is touched.
    pub title: String,
}

impl CurvePlot {
    pub(super) fn draw(&self, ink: &Ink, form: DrawnFor) -> (u32, u32) {
        let (width, narrow) = (form.width(), form.is_narrow());
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let levels = self.note.marks.iter().filter_map(|mark| match mark.place {
            MarkPlace::Level { at } => Some(at),
            _ => None,
        });
        let claims = self.note.marks.iter().filter_map(|mark| match mark.place {
            MarkPlace::Claim { at } => Some(at),
            _ => None,
        });
        let x = PlotAxis::over(
            &self.x.label,
            self.x.unit,
            points().map(|point| point.x).chain(claims),
            self.note.x_scale,
            if narrow { 4 } else { 8 },
        );
        let banded = self.has_bands();
        let heights = points().flat_map(|point| {
            // A range that is not drawn, or near which nothing was measured, must not make the curve small.
            let predicted = point.predicted.into_iter().flatten().filter(|_| banded);
            predicted
                .filter(|end| (point.y / 20.0..=point.y * 5.0).contains(end))
                .chain([point.y])
                .chain(point.interval)
        });
        let y = PlotAxis::beside(
            &x,
            &self.y.label,
            self.y.unit,
            heights.chain(levels),
            self.note.y_scale,
            if narrow { 7 } else { 9 },
        );
        let mut names: Vec<String> = self.lines.iter().map(|line| line.name.clone()).collect();
        if banded {
            names.push("predicted range".to_owned());
        }
        let shown = names.len() > 1 || !names.first().is_none_or(String::is_empty);
        let names = if shown { names } else { Vec::new() };
        let (places, tall) = legend(&names, f64::from(width) - if narrow { 10.0 } else { 100.0 });
        let top = tall + 34;
        let height = tall + if narrow { LOW } else { HEIGHT };
        let space = ChartLayout { width, height, top, left: 84, below: BELOW, vertical_marks: true };
        let frame = Frame::draw(ink, &space, x, y);
        let mut out = ink.borrow_mut();
        for (index, ((left, line), name)) in places.into_iter().zip(&names).enumerate() {
            let (x, y) = (left + if narrow { 4.0 } else { frame.origin.0 }, 16.0 + line);
            *out += &if index < self.lines.len() {
                format!("<path class=\"l s{} d{}\" d=\"M{} {}h26\"/>", index % SERIES, index / SERIES, at(x), at(y))
                    + &sign(index, false, x + 13.0, y)
            } else {
                format!("<path class=\"band s0\" d=\"M{} {}h26v12h-26z\"/>", at(x), at(y - 6.0))
            };
            *out += &text_at(x + 31.0, y + 4.5, "text", name);
        }
        if banded {
            self.lines.iter().enumerate().for_each(|(index, line)| *out += &band(&frame, index, line));
        }
        let (shapes, words) = self.marks(&frame);
        *out += &shapes;
        for (index, line) in self.lines.iter().enumerate() {
            *out += &self.line(&frame, index, line, form);
        }
        // Above the curves, which would hide them.
        *out += &words;
        (width, height)
    }

    /// Bands of many curves would cover each other; then only points say what was predicted.
    fn has_bands(&self) -> bool {
        self.lines.len() <= 3
            && self.lines.iter().any(|line| line.points.iter().filter(|point| point.predicted.is_some()).count() > 1)
    }

    fn line(&self, frame: &Frame, index: usize, line: &PlotLine, form: DrawnFor) -> String {
        let mut out = String::new();
        let mut path = String::new();
        let mut last: Option<f64> = None;
        for point in &line.points {
            let (x, y) = (at(frame.x(point.x)), at(frame.y(point.y)));
            path += &match (self.note.join, last) {
                (_, None) => format!("M{x} {y}"),
                (Join::Step, Some(_)) => format!("H{x}V{y}"),
                _ => format!("L{x} {y}"),
            };
            last = Some(point.y);
        }
        if self.note.join != Join::None {
            out += &format!("<path class=\"l s{} d{}\" d=\"{path}\"/>", index % SERIES, index / SERIES);
        }
        let crowded = line.points.len() > 60;
        for point in &line.points {
            let (x, y) = (frame.x(point.x), frame.y(point.y));
            let (low, high) = (frame.y(point.interval[0]), frame.y(point.interval[1]));
            let mut content = String::new();
            // A whisker shorter than the sign on it shows nothing.
            if low - high > 9.0 {
                let (low, high, x) = (at(low), at(high), at(x));
                content +=
                    &format!("<path class=\"w s{}\" d=\"M{x} {low}V{high}m-4 0h8M{x} {low}m-4 0h8\"/>", index % SERIES);
            }
            content += &if crowded {
                format!("<circle class=\"f s{}\" cx=\"{}\" cy=\"{}\" r=\"2.5\"/>", index % SERIES, at(x), at(y))
            } else {
                sign(index, false, x, y)
            };
            out += &form.touchable(&point.title, &content);
        }
        out
    }

    /// Knees, plateaus, limits and claims, and the words of each.
    fn marks(&self, frame: &Frame) -> (String, String) {
        let (mut shapes, mut texts) = (String::new(), String::new());
        let pixels = |line: &PlotLine| {
            line.points.iter().map(|point| (frame.x(point.x), frame.y(point.y))).collect::<Vec<(f64, f64)>>()
        };
        let curves: Vec<Vec<(f64, f64)>> = self.lines.iter().map(pixels).collect();
        let mut labels = LabelPlaces::new(frame, &curves);
        for mark in &self.note.marks {
            let series = self.series_of(mark);
            let (top, bottom) = (frame.corner.1, frame.origin.1);
            let (named, content) = match mark.place {
                MarkPlace::Knee { at: place, low, high } => {
                    let (x, from, to) = (frame.x(place), frame.x(low), frame.x(high));
                    let wide = (to - from).max(1.0);
                    let zone = format!(
                        "<path class=\"zone\" d=\"M{} {}h{}V{}h-{}z\"/>",
                        at(from),
                        at(top),
                        at(wide),
                        at(bottom),
                        at(wide)
                    );
                    let line = format!("<path class=\"knee {series}\" d=\"M{} {}V{}\"/>", at(x), at(top), at(bottom));
                    (LabelAnchor::FromTop(x), zone + &line)
                }
                MarkPlace::Claim { at: place } => {
                    let x = frame.x(place);
                    let line = format!("<path class=\"claim\" d=\"M{} {}V{}\"/>", at(x), at(top), at(bottom));
                    (LabelAnchor::FromBottom(x), line)
                }
                MarkPlace::Plateau { from, to, level } => {
                    let (from, to, y) = (frame.x(from), frame.x(to), frame.y(level));
                    let line = format!("<path class=\"plateau {series}\" d=\"M{} {}H{}\"/>", at(from), at(y), at(to));
                    (LabelAnchor::Along(from, to, y), line)
                }
                MarkPlace::Level { at: level } => {
                    let (from, to, y) = (frame.origin.0, frame.corner.0, frame.y(level));
                    let line = format!("<path class=\"claim\" d=\"M{} {}H{}\"/>", at(from), at(y), at(to));
                    (LabelAnchor::Along(from, to, y), line)
                }
            };
            texts += &labels.place(named, &mark.text);
            shapes += &format!("<g class=\"mark\"><title>{}</title>{content}</g>", escaped(&mark.text));
        }
        (shapes, texts)
    }

    fn series_of(&self, mark: &crate::results::drawing_note::Mark) -> String {
        let index = self.lines.iter().position(|line| !mark.labels.is_empty() && line.labels == mark.labels);
        index.map_or_else(String::new, |index| format!("s{}", index % SERIES))
    }
}

/// The predicted range along a curve.
fn band(frame: &Frame, index: usize, line: &PlotLine) -> String {
    let known: Vec<(f64, [f64; 2])> =
        line.points.iter().filter_map(|point| Some((point.x, point.predicted?))).collect();
    if known.len() < 2 {
        return String::new();
    }
    let upper = known.iter().map(|(x, range)| (frame.x(*x), frame.y(range[1])));
    let lower = known.iter().rev().map(|(x, range)| (frame.x(*x), frame.y(range[0])));
    let points: Vec<String> = upper.chain(lower).map(|(x, y)| format!("{},{}", at(x), at(y))).collect();
    format!("<polygon class=\"band s{}\" points=\"{}\"/>", index % SERIES, points.join(" "))
}
