//! What explains a change, as far as facts of the machines do.

use crate::results::comparison::{ComparedResult, Difference};
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
/// Facts that a single sentence names.
const MOST_FACTS: usize = 3;

/// The reason of a change: the core clock, where the result is the same in cycles, or facts that differ and are known to move such
/// results.
pub(super) fn explanation(
    row: &ComparedResult,
    in_cycles: Option<[f64; 2]>,
    differences: &[Difference],
) -> Option<String> {
    if let Some([before, after]) = in_cycles
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
