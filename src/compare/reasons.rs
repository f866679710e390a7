//! What explains a change, as far as facts of the machines do.

use super::PlacedRun;
use crate::results::compact::Compact;
use crate::results::comparison::{ComparedResult, Difference};
use crate::results::quantity::Labels;
use crate::results::wording::percent;

/// Facts that move results, by the beginnings of the names of metric and fact.
const MOVED_BY: [(&str, &[&str]); 8] = [
    (
        "os.",
        &[
            "Kernel: release",
            "Kernel: s",
            "Kernel: m",
            "Kernel: preemption",
            "Kernel: idle",
            "Limits: hypervisor",
            "Limits: system-call filter",
        ],
    ),
    ("memory.page_fault.", &["Memory: transparent huge pages", "Limits: hypervisor", "Kernel: release"]),
    (
        "memory.",
        &["Caches:", "Memory: transparent huge pages", "Memory: peak bandwidth", "Memory: node", "Processor: model"],
    ),
    ("network.", &["Network:", "Kernel: release", "Kernel: idle", "Limits: hypervisor"]),
    ("file.", &["Storage:", "Kernel: release", "Limits: hypervisor"]),
    ("cpu.timer.", &["Processor: counter", "Processor: model", "Limits: hypervisor"]),
    ("cpu.", &["Processor: model", "Processor: microcode"]),
    ("", &["sysdyno", "profile"]),
];
/// Facts that one sentence names.
const MOST_FACTS: usize = 3;

/// The reason of a change: the core clock, where the result is the same in cycles, or facts that differ and are known to move such
/// results.
pub(super) fn explanation(
    row: &ComparedResult,
    base: &[PlacedRun],
    new: &[PlacedRun],
    differences: &[Difference],
) -> Option<String> {
    if let Some([before, after]) = in_cycles(row, base, new)
        && (after / before).ln().abs() < row.threshold.ln_1p()
    {
        let change = (after / before - 1.0).abs();
        return Some(format!("the core clock: in cycles it changed by {} only", percent(change)));
    }
    let facts = MOVED_BY.iter().filter(|(metric, _)| row.metric.starts_with(metric)).flat_map(|(_, facts)| *facts);
    let mut named: Vec<&str> = Vec::new();
    for fact in facts {
        for difference in differences.iter().filter(|difference| difference.fact.starts_with(fact)) {
            let name = difference.fact.rsplit(": ").next().unwrap_or(&difference.fact);
            if !named.contains(&name) {
                named.push(name);
            }
        }
    }
    named.truncate(MOST_FACTS);
    (!named.is_empty()).then(|| format!("these differ: {}", named.join(", ")))
}

/// The result in core cycles on both sides, the mean over the runs.
fn in_cycles(row: &ComparedResult, base: &[PlacedRun], new: &[PlacedRun]) -> Option<[f64; 2]> {
    let mean = |runs: &[PlacedRun]| {
        let cycles: Vec<f64> = runs.iter().filter_map(|placed| cycles(row, &placed.run)).collect();
        (!cycles.is_empty()).then(|| cycles.iter().sum::<f64>() / cycles.len() as f64)
    };
    Some([mean(base)?, mean(new)?])
}

fn cycles(row: &ComparedResult, run: &Compact) -> Option<f64> {
    let metrics = run.experiments.iter().filter(|found| found.id == row.experiment).flat_map(|found| &found.metrics);
    let mut figures = metrics.filter(|metric| metric.name == row.metric).flat_map(|metric| &metric.figures);
    let is_it = |labels: &str| Labels::parse(labels).is_some_and(|labels| labels.same_figure(&row.labels));
    figures.find(|figure| is_it(&figure.labels))?.cycles
}
