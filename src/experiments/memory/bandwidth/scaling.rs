//! The curves over threads.

use super::RATE;
use crate::experiments::memory::footprint::MEMORY;
use crate::experiments::prelude::*;
use crate::sys::stream::Operation;
use std::collections::BTreeMap;

/// What several threads move, operation by operation.
pub(super) fn curves(study: &Study<'_>, findings: &Findings) -> Vec<Curve> {
    Operation::ALL
        .into_iter()
        .filter_map(|operation| {
            let mut points: Vec<[f64; 4]> = findings
                .metrics
                .iter()
                .filter(|metric| metric.name == RATE && metric.labels.get("pages").is_none())
                .filter(|metric| metric.labels.get("operation") == Some(operation.name()))
                .filter(|metric| metric.labels.get("level") == Some(MEMORY))
                // One point for each number of threads: where the host moved a pair of CPUs, the usual one.
                .filter(|metric| study.is_usual(&metric.labels))
                .filter_map(|metric| {
                    let threads: f64 = metric.labels.get("threads")?.parse().ok()?;
                    Some([threads, metric.value, metric.interval95[0], metric.interval95[1]])
                })
                .collect();
            points.sort_by(|one, other| one[0].total_cmp(&other[0]));
            (points.len() >= 2).then(|| Curve {
                name: "memory.bandwidth.scaling".to_owned(),
                labels: Labels::of([("operation", operation.name()), ("level", MEMORY)]),
                words: BTreeMap::new(),
                x: Axis { label: "threads, each on a separate CPU".to_owned(), unit: Unit::One },
                y: Axis { label: "application bytes per second".to_owned(), unit: Unit::BytesPerSecond },
                points,
            })
        })
        .collect()
}
