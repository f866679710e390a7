//! What streams are expected to move, level by level and thread by thread.

use super::{BUS_RATE, IN_CACHE, ON_SMALL_PAGES, RATE};
use crate::experiments::memory::footprint::{self};
use crate::experiments::memory::streams;
use crate::experiments::prelude::*;
use crate::sys::stream::Operation;

pub(super) fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let (caches, memory) = (&by.setup.machine.caches, by.setup.machine.launch_memory_bytes());
    let cpus = footprint::cpus_of(by.setup);
    let of = |metric: &str, labels: Labels| Prediction::of(metric, labels, Unit::BytesPerSecond);
    let mut all = Vec::new();
    for level in footprint::cache_levels(caches, by.setup.cpu) {
        for operation in IN_CACHE {
            let expected = streams::expected_in_cache(by, &level.name, operation);
            let labels = streams::labels(operation, &level.name, 1);
            all.push(of(RATE, labels).hardware(&expected.what, expected.rate, expected.basis));
        }
    }
    for threads in streams::sizes_from_one(cpus.len()) {
        let Ok(level) = footprint::memory_level(by.setup, &cpus[..threads], memory) else { continue };
        for operation in Operation::ALL {
            if !streams::is_measured(operation, threads, cpus.len()) {
                continue;
            }
            let labels = streams::labels(operation, &level.name, threads);
            let factor = operation.bus_factor();
            let expected = || streams::expected_in_memory(by, operation, threads);
            let (value, low, high) = expected().rate;
            if threads == 1 && ON_SMALL_PAGES.contains(&operation) {
                let rate = (value * 0.9, low * 0.6, high);
                all.push(of(RATE, labels.clone().with("pages", "4k")).hardware(
                    &format!("{}, less a share for small pages", expected().what),
                    rate,
                    expected().basis,
                ));
            }
            all.push(of(RATE, labels.clone()).hardware(&expected().what, expected().rate, expected().basis));
            let bus = (value * factor, low * factor, high * factor);
            let what = format!("{} transfers for each byte: {}", number(factor), expected().what);
            all.push(of(BUS_RATE, labels).hardware(&what, bus, expected().basis));
        }
    }
    all
}
