//! A fleet as a table: one line for each axis of each node.

use super::csv::word;
use crate::results::fleet::{AxisState, Fleet, FleetNode, NodeAxis, NodeGroup, NodeVerdict};
use crate::results::problem::Problem;

const HEADS: [&str; 14] = [
    "fingerprint",
    "node",
    "rack",
    "verdict",
    "cause",
    "runs",
    "complete",
    "axis",
    "state",
    "effect",
    "z",
    "runs_decided",
    "reason",
    "binary",
];

/// The table.
pub fn render(fleet: &Fleet) -> Result<String, Problem> {
    let cannot = |error: &dyn std::fmt::Display| Problem::new(format!("cannot encode the fleet: {error}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(HEADS).map_err(|error| cannot(&error))?;
    for (group, node) in fleet.groups.iter().flat_map(|group| group.nodes.iter().map(move |node| (group, node))) {
        if node.axes.is_empty() {
            writer.write_record(row(group, node, None)).map_err(|error| cannot(&error))?;
        }
        for axis in &node.axes {
            writer.write_record(row(group, node, Some(axis))).map_err(|error| cannot(&error))?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| cannot(&error))?;
    String::from_utf8(bytes).map_err(|error| cannot(&error))
}

fn row(group: &NodeGroup, node: &FleetNode, axis: Option<&NodeAxis>) -> [String; 14] {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.6}"));
    [
        word(&group.fingerprint),
        word(&node.name),
        word(node.rack.as_deref().unwrap_or_default()),
        verdict(node.verdict).to_owned(),
        word(node.cause.as_deref().unwrap_or_default()),
        node.runs.to_string(),
        node.complete.to_string(),
        axis.map_or_else(String::new, |axis| axis.axis.name().to_owned()),
        axis.map_or_else(String::new, |axis| state(axis.state).to_owned()),
        number(axis.and_then(|axis| axis.effect)),
        number(axis.and_then(|axis| axis.z)),
        axis.map_or_else(String::new, |axis| axis.runs.to_string()),
        word(axis.and_then(|axis| axis.reason.as_deref()).unwrap_or_default()),
        word(group.binary.as_deref().unwrap_or_default()),
    ]
}

/// A verdict as the schema names it.
pub fn verdict(verdict: NodeVerdict) -> &'static str {
    match verdict {
        NodeVerdict::Odd => "odd",
        NodeVerdict::Suspect => "suspect",
        NodeVerdict::Undecided => "undecided",
        NodeVerdict::Healthy => "healthy",
        NodeVerdict::NotJudged => "not_judged",
    }
}

fn state(state: AxisState) -> &'static str {
    match state {
        AxisState::Usual => "usual",
        AxisState::Odd => "odd",
        AxisState::Suspect => "suspect",
        AxisState::Undecided => "undecided",
    }
}
