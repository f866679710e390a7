//! Drawings: curves over a parameter, rows of marks on one axis, heat maps, and small series next to each other. plotters lays out axes, grid and labels; marks are
//! written directly, because each of them says its values when a pointer rests on it.
//!
//! A drawing names no colour. Inside a page the page's style sheet colours it. As a separate file it brings the same rules.

mod axis;
mod canvas;
mod curves;
mod heat;
mod labels;
mod panels;
mod rows;
mod strips;
mod style;

use std::cell::RefCell;
use std::rc::Rc;

use plotters::prelude::{ChartBuilder, IntoDrawingArea};
use plotters::style::{Color, IntoFont, TRANSPARENT, TextStyle};

use super::table::Table;
use crate::results::wording::capital;
use axis::PlotAxis;
use canvas::{AXIS, Canvas, GRID, Ink, TEXT, escaped};

pub use curves::{CurvePlot, PlotLine, PlotPoint};
pub use heat::HeatPlot;
pub use panels::{PanelLevel, PanelPlot, PlotPanel};
pub use rows::{DIAMOND, PlotMark, PlotRow, RowPlot};
pub use strips::{StripPlot, StripRow};

/// Rules that every drawing follows, on a page or alone.
pub const STYLE: &str = include_str!("drawing.css");

/// Size of letters.
const FONT: f64 = 13.0;
/// Width of a letter, about.
const LETTER: f64 = 7.3;
/// Space below a chart for marks and the name of the axis.
const BELOW: u32 = 52;
/// Space below a chart whose axis has no name.
const BELOW_MARKS: u32 = 28;
/// Height of a line of the legend.
const LEGEND_LINE: u32 = 20;

/// What a drawing is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrawnFor {
    /// A file that an image viewer shows: it brings its name space, style and background.
    File,
    /// A page on a screen or on paper.
    Page,
    /// The same page on a screen as narrow as that of a phone. The form for a page has the words of each point.
    Phone,
}

impl DrawnFor {
    /// Width in the drawing's own coordinates, which are pixels where it is shown at its natural size.
    fn width(self) -> u32 {
        if self == DrawnFor::Phone { 360 } else { 760 }
    }

    fn is_narrow(self) -> bool {
        self == DrawnFor::Phone
    }

    /// Something that shows its values when a pointer rests on it. The table below the drawing has them for the keyboard: a stop
    /// at every point would be thousands of stops.
    fn touchable(self, title: &str, content: &str) -> String {
        let title = if self.is_narrow() { String::new() } else { format!("<title>{}</title>", escaped(title)) };
        format!("<g class=\"pt\">{title}{content}</g>")
    }
}

/// A drawing with what a reader who does not see it needs.
#[derive(Debug, Clone)]
pub struct Drawing {
    /// Name of its file, without extension; unique in a report.
    pub id: String,
    pub caption: String,
    /// What it shows, in a sentence.
    pub alt: String,
    /// The drawing itself.
    pub plot: Plot,
    pub values: Table,
}

/// What is drawn.
#[derive(Debug, Clone)]
pub enum Plot {
    /// Curves over a parameter.
    Curves(CurvePlot),
    /// Rows of marks on one axis.
    Rows(RowPlot),
    /// Rows of ticks on one axis of ratios.
    Strips(StripPlot),
    /// Cells by row and column.
    Heat(HeatPlot),
    /// Small series next to each other, each with an axis.
    Panels(PanelPlot),
}

impl Plot {
    /// What is drawn, by the names of its axes. None for those of several runs.
    pub fn subject(&self) -> Option<String> {
        match self {
            Plot::Curves(plot) => Some(capital(&format!("{} by {}", plot.y.label, plot.x.label))),
            Plot::Rows(plot) => Some(capital(&plot.label)),
            Plot::Strips(_) | Plot::Heat(_) | Plot::Panels(_) => None,
        }
    }
}

impl Drawing {
    /// The drawing as an SVG element.
    pub fn svg(&self, form: DrawnFor) -> String {
        let ink: Ink = Rc::new(RefCell::new(String::new()));
        let (width, height) = match &self.plot {
            Plot::Curves(plot) => plot.draw(&ink, form),
            Plot::Heat(plot) => plot.draw(&ink, form),
            Plot::Rows(plot) => plot.draw(&ink, form),
            Plot::Panels(plot) => plot.draw(&ink, form),
            Plot::Strips(plot) => plot.draw(&ink, form),
        };
        let mut content = ink.take();
        if form == DrawnFor::File {
            content = style::with_halos(&content);
        }
        let ground = || {
            let style = style::for_file(&content);
            format!("<style>{style}</style><rect class=\"ground\" width=\"100%\" height=\"100%\"/>")
        };
        let (class, attributes, style) = match form {
            // An image viewer shows a drawing as wide as its coordinates say.
            DrawnFor::File => {
                let space = "xmlns=\"http://www.w3.org/2000/svg\"";
                ("drawing", format!(" {space} width=\"{width}\" height=\"{height}\""), ground())
            }
            // The height decides how far paper may shrink it.
            DrawnFor::Page => ("drawing wide", format!(" style=\"--tall:{height}px\""), String::new()),
            DrawnFor::Phone => ("drawing narrow", String::new(), String::new()),
        };
        format!(
            "<svg{attributes} class=\"{class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">{style}{content}</svg>",
            escaped(&self.alt)
        )
    }
}

/// Where the coordinates of a chart lie on the canvas.
struct Frame {
    origin: (f64, f64),
    corner: (f64, f64),
    x: PlotAxis,
    y: PlotAxis,
}

/// Space around a chart, in pixels.
struct ChartLayout {
    width: u32,
    height: u32,
    top: u32,
    left: u32,
    /// Space below it for marks and the name of the axis.
    below: u32,
    /// Whether the vertical axis has marks and a name.
    vertical_marks: bool,
}

impl Frame {
    /// Draws axes, grid and labels.
    fn draw(ink: &Ink, space: &ChartLayout, x: PlotAxis, y: PlotAxis) -> Frame {
        let area = Canvas::new((space.width, space.height), ink).into_drawing_area();
        let mut builder = ChartBuilder::on(&area);
        builder.margin_top(space.top).margin_right(28_u32).x_label_area_size(space.below).y_label_area_size(space.left);
        let Ok(mut chart) = builder.build_cartesian_2d(x.clone(), y.clone()) else {
            unreachable!("a canvas that cannot fail has room for a chart")
        };
        let label = TextStyle::from(("sans-serif", FONT).into_font()).color(&TEXT);
        let mut mesh = chart.configure_mesh();
        mesh.x_labels(x.marks.len().max(1))
            .y_labels(y.marks.len().max(1))
            .label_style(label.clone())
            .axis_desc_style(label)
            .axis_style(AXIS.stroke_width(1))
            .bold_line_style(GRID.stroke_width(1))
            .light_line_style(TRANSPARENT)
            .set_all_tick_mark_size(4)
            .x_desc(x.label.clone());
        if space.vertical_marks {
            mesh.y_desc(y.label.clone());
        } else {
            mesh.disable_y_axis().disable_y_mesh().y_labels(0);
        }
        let drawn = mesh.draw();
        debug_assert!(drawn.is_ok(), "writing to memory does not fail");
        let pixel = |place: (f64, f64)| {
            let (horizontal, vertical) = chart.plotting_area().map_coordinate(&place);
            (f64::from(horizontal), f64::from(vertical))
        };
        let (origin, corner) = (pixel((x.low, y.low)), pixel((x.high, y.high)));
        Frame { origin, corner, x, y }
    }

    /// Horizontal place of a value, in pixels.
    fn x(&self, value: f64) -> f64 {
        let share = (self.x.place(value) - self.x.low) / (self.x.high - self.x.low);
        self.origin.0 + share * (self.corner.0 - self.origin.0)
    }

    /// Vertical place of a value, in pixels.
    fn y(&self, value: f64) -> f64 {
        let share = (self.y.place(value) - self.y.low) / (self.y.high - self.y.low);
        self.origin.1 + share * (self.corner.1 - self.origin.1)
    }
}

/// Coordinates with one decimal: a tenth of a pixel is nothing that anybody sees.
fn at(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// A sign of a series: filled or hollow, of a shape that stays when the colours are gone.
fn sign(series: usize, hollow: bool, x: f64, y: f64) -> String {
    let class = if hollow { format!("o s{}", series % SERIES) } else { format!("f s{}", series % SERIES) };
    let (x, y) = (at(x), at(y));
    match series % 4 {
        0 => format!("<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"4\"/>"),
        1 => format!("<path class=\"{class}\" d=\"M{x} {y}m-4-4h8v8h-8z\"/>"),
        2 => format!("<path class=\"{class}\" d=\"M{x} {y}m0-5.5l5 9h-10z\"/>"),
        _ => format!("<path class=\"{class}\" d=\"M{x} {y}m0-5.5l5.5 5.5l-5.5 5.5l-5.5-5.5z\"/>"),
    }
}

/// Colours that there are; further series begin again with other dashes.
const SERIES: usize = 8;

fn text_at(x: f64, y: f64, class: &str, text: &str) -> String {
    format!("<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>", at(x), at(y), escaped(text))
}

/// Lays signs and names out in lines; gives their places and the height of all lines.
fn legend(names: &[String], width: f64) -> (Vec<(f64, f64)>, u32) {
    let (mut x, mut line) = (0.0, 0_u32);
    let mut places = Vec::new();
    for name in names {
        let long = 52.0 + name.chars().count() as f64 * LETTER;
        if x > 0.0 && x + long > width {
            x = 0.0;
            line += 1;
        }
        places.push((x, f64::from(line * LEGEND_LINE)));
        x += long;
    }
    (places, if names.is_empty() { 0 } else { (line + 1) * LEGEND_LINE })
}
