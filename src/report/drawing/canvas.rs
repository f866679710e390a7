//! A plotters backend that writes SVG with classes instead of colours, so that the same drawing serves light and dark pages and
//! print. The red channel of a colour is the number of a class.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

use plotters::style::RGBColor;
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind, FontTransform,
};

/// Class names by number; the style sheet gives them colours.
const CLASSES: [&str; 3] = ["text", "grid", "axis"];

/// Labels.
pub(super) const TEXT: RGBColor = RGBColor(0, 0, 0);
/// Grid lines.
pub(super) const GRID: RGBColor = RGBColor(1, 0, 0);
/// Axes and their ticks.
pub(super) const AXIS: RGBColor = RGBColor(2, 0, 0);

/// What has been drawn; shared, because the chart keeps the backend while marks are drawn directly.
pub(super) type Ink = Rc<RefCell<String>>;

/// The backend.
pub(super) struct Canvas {
    size: (u32, u32),
    ink: Ink,
}

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

impl Canvas {
    pub(super) fn new(size: (u32, u32), ink: &Ink) -> Self {
        Canvas { size, ink: Rc::clone(ink) }
    }

    fn write(&self, text: &str) {
        self.ink.borrow_mut().push_str(text);
    }
}

fn class(color: BackendColor) -> &'static str {
    CLASSES.get(usize::from(color.rgb.0)).copied().unwrap_or("text")
}

/// Text safe between tags and in attributes.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl DrawingBackend for Canvas {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, _: BackendCoord, _: BackendColor) -> Drawn {
        // Nothing here is made of pixels.
        Ok(())
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn {
        let color = style.color();
        if color.alpha > 0.0 {
            self.write(&format!(
                "<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
                class(color),
                from.0,
                from.1,
                to.0,
                to.1
            ));
        }
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Drawn {
        let points: Vec<BackendCoord> = path.into_iter().collect();
        points.windows(2).try_for_each(|ends| self.draw_line(ends[0], ends[1], style))
    }

    fn draw_text<T: BackendTextStyle>(&mut self, text: &str, style: &T, at: BackendCoord) -> Drawn {
        let anchor = style.anchor();
        let horizontal = match anchor.h_pos {
            HPos::Left => "",
            HPos::Right => " text-anchor=\"end\"",
            HPos::Center => " text-anchor=\"middle\"",
        };
        // Baselines differ between viewers: shifts in em are understood by all of them.
        let shift = match anchor.v_pos {
            VPos::Top => 0.8,
            VPos::Center => 0.3,
            VPos::Bottom => -0.2,
        };
        let turn = match style.transform() {
            FontTransform::Rotate90 => 90,
            FontTransform::Rotate180 => 180,
            FontTransform::Rotate270 => 270,
            FontTransform::None => 0,
        };
        // Turned text at the edge would lean out of the picture.
        let at = if turn == 0 { at } else { (at.0 + 4, at.1) };
        let turned = if turn == 0 { String::new() } else { format!(" transform=\"rotate({turn} {} {})\"", at.0, at.1) };
        self.write(&format!(
            "<text class=\"text\" x=\"{}\" y=\"{}\" dy=\"{shift}em\"{horizontal}{turned}>{}</text>",
            at.0,
            at.1,
            escaped(text)
        ));
        Ok(())
    }

    fn estimate_text_size<T: BackendTextStyle>(
        &self,
        text: &str,
        style: &T,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        // No font is asked: letters of a sans-serif face are a little over half as wide as high.
        Ok(((text.chars().count() as f64 * style.size() * 0.55) as u32, style.size() as u32))
    }
}
