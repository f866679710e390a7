//! The costs next to those of other machines: what was expected of them before they were measured.

use crate::report::page::{Cell, PagePart, Piece, Table};
use crate::results::document::{Document, Metric};
use crate::results::expectation::{Expectation, Ground};
use crate::results::expected::{Expected, Fit};
use crate::results::wording::{factor, interval, quantity};

/// A row for each cost with an expectation; none where the log has no expectations.
pub(super) fn part(document: &Document) -> Option<PagePart> {
    let [kind, design] = [Ground::Kind, Ground::Design].map(|ground| document.expected(ground));
    if kind.is_empty() && design.is_empty() {
        return None;
    }
    let mut part = PagePart::new("other-machines", "Costs of other machines", 2);
    part.say(
        "Each cost has up to three expectations, all written before the first sample. The run's own prediction follows from other results \
         of this run. The usual range is that of machines of the nearest kind in the catalogue (`sysdyno machines`). It is meant to hold \
         95 % of such machines, and it is wide where few are known. The published range is that of the core design, or of x86-64 machines where it says so.",
    );
    let heads = ["cost", "measured", "own prediction", "usual", "of", "published", "source"];
    let mut table = Table::new("", &heads);
    for cost in &document.costs {
        let Some(metric) = document.metric(&cost.metric, &cost.labels) else { continue };
        let [usual, published] =
            [&kind, &design].map(|ground| ground.iter().find(|found| found.cost.name == cost.name).copied());
        let Some(any) = usual.or(published) else { continue };
        table.row(vec![
            Cell::of(&cost.name),
            Cell::of(measured(metric, any.expectation)),
            Cell::of(predicted(metric)),
            Cell::of(range(usual)),
            Cell::of(usual.map_or_else(String::new, |found| {
                format!("{} ({})", found.expectation.machines, found.expectation.basis)
            })),
            Cell::of(range(published)),
            Cell::of(published.map_or_else(String::new, |found| {
                format!("{} ({})", found.expectation.machines, found.expectation.basis.replace("published: ", ""))
            })),
        ]);
    }
    part.add(Piece::Table(table));
    Some(part)
}

/// A result, in core cycles too where the expectation has them.
fn measured(metric: &Metric, expectation: &Expectation) -> String {
    let value = quantity(metric.value, metric.unit);
    match metric.cycles.filter(|_| expectation.unit != metric.unit) {
        Some(cycles) => format!("{value} ({})", quantity(cycles, expectation.unit)),
        None => value,
    }
}

fn predicted(metric: &Metric) -> String {
    let said = metric.prediction.as_ref().filter(|found| found.says_something());
    said.map_or_else(|| "–".to_owned(), |found| interval([found.low, found.high], found.unit))
}

/// A range, and how far beyond it the result is.
fn range(found: Option<Expected<'_>>) -> String {
    let Some(found) = found else { return "–".to_owned() };
    let range = interval([found.expectation.low, found.expectation.high], found.expectation.unit);
    let by = factor(found.ratio.max(1.0 / found.ratio));
    match found.fit {
        Fit::Within => range,
        Fit::Open => format!("{range}, not decided"),
        Fit::Better => format!("{range}, {by} better"),
        Fit::Worse => format!("{range}, {by} worse"),
    }
}
