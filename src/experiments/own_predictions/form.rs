//! The form: each figure with its plain name, its unit, and empty fields.

use super::figures;
use crate::experiments::costs;
use crate::experiments::experiment::Experiment;
use crate::experiments::figure_name::FigureName;
use crate::experiments::phrases::phrase;
use crate::results::prediction::Prediction;
use crate::results::quantity::{Labels, Unit};
use crate::setup::Setup;

/// What stands above the figures.
const HEAD: &str = "\
# Your own predictions of the costs of this machine. Fill them in before you measure:
#
#   sysdyno run --predictions FILE
#
# - value: what you expect, in the unit of the entry. You can change the unit.
# - low, high: a range in which you expect the result with a probability of 90 %. It contains the value.
# - reason: what the value consists of, in a few words.
#
# Entries that you leave blank do not count. You can also remove them.
author = \"\"
";

/// Headline results that a course asks for in addition to the costs of the screen.
const ALSO: &[FigureName] = &[
    FigureName::of("cpu.procedure_call.time args=7 chain=throughput code=memory"),
    FigureName::of("os.thread_creation.time by=kernel child=same_cpu how=create_join"),
    FigureName::of("memory.bandwidth.rate level=DRAM operation=write threads=1"),
    FigureName::of("memory.bandwidth.rate level=DRAM operation=copy threads=1"),
    FigureName::of("memory.page_fault.time kind=file_cached"),
    FigureName::of("network.round_trip.time protocol=udp bytes=1 ip=4 path=loopback placement=same_cpu quantile=p50"),
    FigureName::of("network.connection.time ip=4 phase=close placement=other_cpu"),
    FigureName::of("file.cache_size.bytes mode=bounded"),
    FigureName::of("file.read.rate cache=warm order=sequential bytes=67108864"),
    FigureName::of("file.read.rate cache=direct order=sequential bytes=67108864"),
    FigureName::of("file.contention.rate order=random processes=2"),
    FigureName::of("file.contention.block_time order=random processes=2"),
];

/// Which figures a form has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// The costs that a course asks for.
    Costs,
    /// Every figure that can be predicted.
    All,
}

/// The form for the figures of these experiments on a machine.
pub fn form(experiments: &[&'static Experiment], setup: &Setup, shown: Shown) -> String {
    let figures = figures(setup);
    let is_shown = |place: usize| shown == Shown::All || asked().any(|name| first(&name, &figures) == Some(place));
    let mut text = HEAD.to_owned();
    let mut chapter = "";
    for experiment in experiments {
        for (place, (labels, prediction)) in figures.iter().enumerate() {
            if experiment.publication(&prediction.metric).is_none() || !is_shown(place) {
                continue;
            }
            if chapter != experiment.chapter() {
                chapter = experiment.chapter();
                text += &format!("\n# ── {chapter} {}\n", "─".repeat(60 - chapter.len()));
            }
            text += &entry(&prediction.metric, labels, prediction.unit);
        }
    }
    text
}

fn asked() -> impl Iterator<Item = FigureName> {
    costs::asked().map(|asked| asked.figure).chain(ALSO.iter().copied())
}

/// The first figure with a name.
fn first(name: &FigureName, figures: &[(Labels, Prediction)]) -> Option<usize> {
    figures.iter().position(|(labels, prediction)| name.is(&prediction.metric, labels))
}

fn entry(metric: &str, labels: &Labels, unit: Unit) -> String {
    let pairs: Vec<String> = labels.pairs().map(|(key, value)| format!("{key} = {value:?}")).collect();
    let pairs = if pairs.is_empty() { String::new() } else { format!("labels = {{ {} }}\n", pairs.join(", ")) };
    format!(
        "\n# {}\n[[prediction]]\nmetric = \"{metric}\"\n{pairs}unit = \"{}\"\nvalue = \"\"\nlow = \"\"\nhigh = \"\"\nreason = \"\"\n",
        phrase(metric, labels),
        usual(unit),
    )
}

/// The scale of a form, which is the same for each figure: the scale of the result would be a part of the answer.
fn usual(unit: Unit) -> &'static str {
    match unit {
        Unit::Hertz => "GHz",
        Unit::Bytes => "MiB",
        Unit::BytesPerSecond => "GB/s",
        other => other.symbol(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::TABLE;

    #[test]
    fn every_asked_metric_exists_and_has_one_unit_of_a_form() {
        for name in asked() {
            let publication = TABLE.iter().find_map(|experiment| experiment.publication(name.metric()));
            let unit = publication.unwrap_or_else(|| panic!("{}", name.metric())).unit;
            assert_eq!(Unit::read(usual(unit)).map(|(found, _)| found), Some(unit));
        }
    }
}
