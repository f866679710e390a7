//! How a figure is composed: some primitives, each a number of times, and one more times a coefficient that is fitted on records.

use crate::results::prediction::Part;

use super::primitives::{KERNEL_ENTRY, SWITCH};
use crate::experiments::figure_name::FigureName;

/// Expected, lowest, highest.
pub type Range = (f64, f64, f64);

/// A term whose count is known: a number of times a primitive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub(super) what: &'static str,
    pub(super) part: Part,
    pub(super) primitive: FigureName,
    pub(super) count: f64,
}

/// How the last term goes with its primitive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scaling {
    /// A cost: as the primitive.
    With,
    /// A rate: as one over the primitive.
    Against,
}

/// How a figure is composed.
#[derive(Debug, Clone)]
pub struct Model {
    pub(super) counted: Vec<Counted>,
    pub(super) what: &'static str,
    pub(super) part: Part,
    pub(super) primitive: FigureName,
    pub(super) scaling: Scaling,
    /// How often the last term is paid.
    pub(super) times: f64,
}

impl Model {
    pub(super) const fn of(what: &'static str, part: Part, primitive: FigureName) -> Model {
        Model { counted: Vec::new(), what, part, primitive, scaling: Scaling::With, times: 1.0 }
    }

    /// With a last term that is paid for each page of some bytes.
    pub(super) fn for_pages_of(self, bytes: f64) -> Model {
        Model { times: bytes / crate::sys::memory::page_size() as f64, ..self }
    }

    /// A rate.
    pub(super) fn rate(self) -> Model {
        Model { scaling: Scaling::Against, ..self }
    }

    /// With the ways into the kernel and out of it.
    pub(super) fn entering(self, times: f64) -> Model {
        self.and("entering and leaving the kernel", Part::BaseHardware, KERNEL_ENTRY, times)
    }

    /// With switches to another task of the same CPU, each with a byte through a pipe.
    pub(super) fn switching(self, times: f64) -> Model {
        let what = if times > 1.0 { "switches of task, with a byte each" } else { "a switch of task and one byte" };
        self.and(what, Part::SoftwareOverhead, SWITCH, times)
    }

    /// With one more counted term.
    pub(super) fn and(mut self, what: &'static str, part: Part, primitive: FigureName, count: f64) -> Model {
        self.counted.push(Counted { what, part, primitive, count });
        self
    }

    /// All primitives that it needs.
    pub(super) fn primitives(&self) -> impl Iterator<Item = FigureName> {
        self.counted.iter().map(|term| term.primitive).chain([self.primitive])
    }

    /// What the counted terms come to, and what the last term is times one, by figures that are known; none where one is missing
    /// that the figure needs.
    pub(super) fn known(&self, find: &impl Fn(&FigureName) -> Option<f64>) -> Option<(f64, f64)> {
        let counted: Option<f64> =
            self.counted.iter().map(|term| Some(find(&term.primitive)? * term.count)).sum::<Option<f64>>();
        let primitive = find(&self.primitive).filter(|value| *value > 0.0)?;
        let scale = self.times * if self.scaling == Scaling::With { primitive } else { 1.0 / primitive };
        Some((counted?, scale))
    }

    /// The ranges of the counted terms that count and of the last term, by those of the primitives. The coefficient has a spread,
    /// the factor from it to either end of its range. A primitive and the coefficient err independently, so the logarithms of
    /// their spreads add as squares.
    pub(super) fn ranges(
        &self,
        ratio: f64,
        spread: f64,
        of: &impl Fn(&FigureName) -> Option<Range>,
    ) -> Option<(Vec<Range>, Range)> {
        let apart = |factor: f64| if factor > 1.0 { spread.ln().hypot(factor.ln()).exp() } else { spread };
        let ranged = |(value, low, high): Range| (value, value / apart(value / low), value * apart(high / value));
        let counted = self.counted.iter().filter(|term| term.count > 0.0).map(|term| {
            let (value, low, high) = of(&term.primitive)?;
            Some(ranged((value * term.count, low * term.count, high * term.count)))
        });
        let scale = |end: fn(Range) -> f64| Some(self.known(&|primitive| Some(end(of(primitive)?)))?.1);
        let (value, one, other) = (scale(|range| range.0)?, scale(|range| range.1)?, scale(|range| range.2)?);
        let last = ranged((ratio * value, ratio * one.min(other), ratio * one.max(other)));
        Some((counted.collect::<Option<_>>()?, last))
    }
}
