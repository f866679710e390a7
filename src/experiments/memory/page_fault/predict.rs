//! What each kind of page fault is expected to cost.

use crate::experiments::constants::disk_read;
use crate::experiments::memory::touching::labels;
use crate::experiments::models::composed;
use crate::experiments::prelude::*;
use crate::results::prediction::AS_PREDICTED;
use crate::sys::fault::HUGE_PAGE;

use super::{COLD, FIRST_TOUCH, HUGE, KINDS, LARGE, MEBIBYTE, SMALL, SYSTEM, TIME, WRITE, touch_labels};

pub(super) fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let faults = KINDS.iter().filter_map(|kind| fault(by, kind));
    faults.chain([SMALL, LARGE, SYSTEM].iter().filter_map(|pages| first_touch(by, pages))).collect()
}

/// The first touch of a mebibyte of some pages: its faults, as they are predicted.
fn first_touch(by: &PredictionInput<'_>, pages: &str) -> Option<Prediction> {
    let memory = &by.setup.machine.memory;
    let always = memory.transparent_huge_pages.as_ref().is_some_and(|mode| mode.value == "always");
    let huge = pages == LARGE || pages == SYSTEM && always && !memory.refused_huge_pages();
    let (kind, bytes, what) =
        if huge { (HUGE, HUGE_PAGE, "faults for huge pages") } else { (WRITE, page_size(), "faults for small pages") };
    let faults = MEBIBYTE as f64 / bytes as f64;
    let one = fault(by, kind)?;
    let range = (one.value * faults, one.low * faults, one.high * faults);
    let basis = Basis::counted(&format!("{TIME} {}{AS_PREDICTED}", labels(kind)), faults);
    let prediction = Prediction::of(FIRST_TOUCH, touch_labels(pages), Unit::Nanoseconds);
    // Most of the time of a huge page is its clearing.
    Some(if huge { prediction.hardware(what, range, basis) } else { prediction.software(what, range, basis) })
}

/// One fault of a kind. None where no device would be waited for.
fn fault(by: &PredictionInput<'_>, kind: &str) -> Option<Prediction> {
    let waits = kind != COLD || disk_read(&by.setup.machine).is_some();
    waits.then(|| composed(by, Prediction::of(TIME, labels(kind), Unit::Nanoseconds)))
}
