//! The page of a run of which only node.json is left: its results, what the machine is, and what was not measured.

use std::collections::BTreeMap;

use crate::report::page::{Cell, Page, PagePart, Piece, Table};
use crate::results::compact::{Compact, CompactFigure, CompactMetric};
use crate::results::document::Outcome;
use crate::results::wording::{count, duration, interval, measured, share};

/// Which results a page has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// The headline results alone, without the machine.
    Headlines,
    /// The headline results, the machine, and what was not measured.
    Page,
    /// The same with every result.
    Everything,
}

/// The page.
pub fn page(run: &Compact, shown: Shown) -> Page {
    let mut parts = vec![results(run, shown)];
    if shown != Shown::Headlines {
        parts.push(missing(run));
        parts.push(machine(&run.facts));
    }
    let node = run.node.name.as_deref().unwrap_or("without a name");
    Page { title: format!("Costs of the machine {node}"), subtitle: about(run), parts }
}

/// The machine and the run in one line.
fn about(run: &Compact) -> String {
    let fact = |name: &str| run.facts.get(name).map(String::as_str);
    let machine = [fact("Processor: model"), fact("Processor: microarchitecture"), fact("Memory: total")];
    let kernel = run.node.kernel.as_deref().map(|kernel| format!("Linux {kernel}"));
    let machine: Vec<String> = machine.into_iter().flatten().map(str::to_owned).chain(kernel).collect();
    let ran = format!("{} run of {}, {}", run.run.profile, run.run.started, duration(run.run.seconds));
    let state = if run.complete { "" } else { ", not complete" };
    format!("{}, {ran}{state}", machine.join(", "))
}

fn results(run: &Compact, shown: Shown) -> PagePart {
    let mut part = PagePart::new("results", "Results", 2);
    let columns = ["result", ">measured", ">±", "predicted", "grade"];
    let mut table =
        Table::new("Values with half of their 95 % intervals, and the ranges that were predicted.", &columns);
    for experiment in &run.experiments {
        let figures = experiment.metrics.iter().flat_map(|metric| metric.figures.iter().map(move |one| (metric, one)));
        let figures: Vec<_> = figures.filter(|(_, one)| one.headline || shown == Shown::Everything).collect();
        if !figures.is_empty() {
            table.group(&experiment.id);
        }
        for (metric, figure) in figures {
            table.row(row(metric, figure));
        }
    }
    if table.is_empty() {
        part.say("The run has no results.");
    } else {
        part.add(Piece::Table(table));
    }
    part
}

fn row(metric: &CompactMetric, figure: &CompactFigure) -> Vec<Cell> {
    let title =
        if figure.labels.is_empty() { metric.name.clone() } else { format!("{}  {}", metric.name, figure.labels) };
    let at_least = if figure.at_least { "≥ " } else { "" };
    let value = format!("{at_least}{}", measured(figure.value, figure.interval, metric.unit));
    let record = format!("{}{{{}}}.value", metric.name, figure.labels.replace(' ', ","));
    vec![
        Cell::of(title),
        Cell::datum(value, record, figure.value),
        Cell::of(share(figure.half_width().0)),
        figure.predicted.map_or_else(Cell::none, |ends| Cell::of(interval(ends, metric.unit))),
        Cell::of(figure.grade.word()),
    ]
}

/// What has no result, with the reason.
fn missing(run: &Compact) -> PagePart {
    let mut part = PagePart::new("missing", "Not measured, or rejected", 2);
    for experiment in run.experiments.iter().filter(|experiment| experiment.outcome != Outcome::Measured) {
        part.say(format!("{}: {}.", experiment.id, experiment.reason.as_deref().unwrap_or("without a reason")));
    }
    let absent = run.experiments.iter().flat_map(|experiment| &experiment.absent).filter(|absent| absent.headline);
    for absent in absent {
        part.say(format!("{} {}: {}.", absent.name, absent.labels, absent.reason));
    }
    if part.pieces.is_empty() {
        part.say("Nothing.");
    }
    part
}

fn machine(facts: &BTreeMap<String, String>) -> PagePart {
    let mut part = PagePart::new("machine", "The machine", 2);
    let caption = count(facts.len() as u64, "fact", "facts");
    let rows = facts.iter().map(|(name, value)| vec![name.clone(), value.clone()]);
    part.add(Piece::Table(Table::of_texts(&caption, &["fact", "value"], rows)));
    part
}
