//! What a drawing of curves shows in addition to their points. Every curve is drawn without any of this. An experiment that found a
//! knee, a plateau or a limit says so here, in data, and no experiment draws.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantity::Labels;

/// Remarks on the drawing of all curves of one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DrawingNote {
    /// Name of the curves.
    pub curve: String,
    /// What the drawing shows; none means the labels of the axes say it.
    pub caption: Option<String>,
    /// What was found on the curves that have their own marks, in sentences. None means the ends of the curves say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<String>,
    /// Scale of the horizontal axis.
    pub x_scale: Scale,
    /// Scale of the vertical axis.
    pub y_scale: Scale,
    /// How points are joined.
    pub join: Join,
    /// Label by whose values the curves are divided into drawings; none means all in one, or where they are many by the label
    /// that divides them best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divided_by: Option<String>,
    /// Knees, plateaus, limits.
    pub marks: Vec<Mark>,
}

/// Scale of an axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Logarithmic where the values are positive and span more than a decade.
    #[default]
    Automatic,
    /// Linear.
    Linear,
    /// Logarithmic; linear where a value is not positive.
    Logarithmic,
}

/// How the points of a curve are joined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// By straight lines.
    #[default]
    Line,
    /// By steps: the value holds up to the next point.
    Step,
    /// Not joined.
    None,
}

/// Something that was found on a curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mark {
    /// Labels of the curve on which it was found; empty where it belongs to all.
    pub labels: Labels,
    /// What it is, in a few words.
    pub text: String,
    /// Where it is.
    pub place: MarkPlace,
}

/// Where a mark stands, in the units of the axes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MarkPlace {
    /// A change at a place along the horizontal axis, with the interval in which it lies.
    Knee {
        /// Best guess.
        at: f64,
        /// Lower end of its interval.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// A constant level over a part of the horizontal axis.
    Plateau {
        /// Where it begins.
        from: f64,
        /// Where it ends.
        to: f64,
        /// The level.
        level: f64,
    },
    /// A limit or claim across the whole drawing: a level of the vertical axis.
    Level {
        /// The level.
        at: f64,
    },
    /// A claim on the horizontal axis, such as a size that the kernel reports.
    Claim {
        /// Where it is.
        at: f64,
    },
}

impl DrawingNote {
    /// Nothing special about the curves of a name.
    pub fn of(curve: &str) -> Self {
        DrawingNote {
            curve: curve.to_owned(),
            caption: None,
            finding: None,
            x_scale: Scale::Automatic,
            y_scale: Scale::Automatic,
            join: Join::Line,
            divided_by: None,
            marks: Vec::new(),
        }
    }

    /// Adds a mark.
    pub fn mark(&mut self, labels: Labels, text: impl Into<String>, place: MarkPlace) -> &mut Self {
        self.marks.push(Mark { labels, text: text.into(), place });
        self
    }
}
