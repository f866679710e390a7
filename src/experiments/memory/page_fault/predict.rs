//! What each kind of page fault is expected to cost.

use crate::experiments::constants::{
    Constant, EXCEPTION, FILE_PAGE_LOOKUP, FLUSH_ENTRY, PAGE_ALLOCATION, PAGE_CLEAR, PAGE_COPY, PAGE_TABLE_ENTRY,
    PAGES_AROUND, disk_read,
};
use crate::experiments::memory::touching::labels;
use crate::experiments::models::composed;
use crate::experiments::prelude::*;
use crate::results::prediction::AS_PREDICTED;
use crate::sys::fault::HUGE_PAGE;

use super::{
    CACHED, COLD, COPY, FIRST_TOUCH, HUGE, KINDS, LARGE, MEBIBYTE, READ, SINGLE, SMALL, SYSTEM, TIME, WRITE,
    touch_labels,
};

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
    let one = composed(by, fault(by, kind)?);
    let range = (one.value * faults, one.low * faults, one.high * faults);
    let basis = Basis::counted(&format!("{TIME} {}{AS_PREDICTED}", labels(kind)), faults);
    let prediction = Prediction::of(FIRST_TOUCH, touch_labels(pages), Unit::Nanoseconds);
    // Most of the time of a huge page is its clearing.
    Some(if huge { prediction.hardware(what, range, basis) } else { prediction.software(what, range, basis) })
}

/// One fault of a kind. None where nothing is known of the device that it waits for.
fn fault(by: &PredictionInput<'_>, kind: &str) -> Option<Prediction> {
    let cycle = CycleTime::known(by);
    let of = |constant: Constant, count: f64| {
        let range = constant.times(count);
        if constant.unit == "cycles" { cycle.of(range) } else { range }
    };
    let small_per_huge = HUGE_PAGE as f64 / page_size() as f64;
    let parts: Vec<(&str, Constant, f64)> = match kind {
        WRITE => vec![
            ("a page from the allocator", PAGE_ALLOCATION, 1.0),
            ("clearing it", PAGE_CLEAR, 1.0),
            ("mapping it", PAGE_TABLE_ENTRY, 1.0),
        ],
        READ => vec![("mapping the page of zeros", PAGE_TABLE_ENTRY, 1.0)],
        CACHED => vec![
            ("finding the page in the cache", FILE_PAGE_LOOKUP, 1.0),
            ("mapping the surrounding pages", PAGES_AROUND, 1.0),
        ],
        SINGLE => {
            vec![("finding the page in the cache", FILE_PAGE_LOOKUP, 1.0), ("mapping it", PAGE_TABLE_ENTRY, 1.0)]
        }
        COPY => vec![
            ("a page from the allocator", PAGE_ALLOCATION, 1.0),
            ("copying into it", PAGE_COPY, 1.0),
            ("mapping it instead of the shared one", PAGE_TABLE_ENTRY, 1.0),
            ("flushing the old entry", FLUSH_ENTRY, 1.0),
        ],
        COLD => match disk_read(&by.setup.machine) {
            Some(read) => vec![
                ("reading 4 KiB from the device", read, 1.0),
                ("a page from the allocator, and finding it in the cache", FILE_PAGE_LOOKUP, 2.0),
                ("mapping it", PAGE_TABLE_ENTRY, 1.0),
            ],
            None => return None,
        },
        _ => vec![
            ("a huge page from the allocator", PAGE_ALLOCATION, 3.0),
            ("clearing it", PAGE_CLEAR, small_per_huge),
            ("mapping it", PAGE_TABLE_ENTRY, 1.0),
        ],
    };
    let prediction = Prediction::of(TIME, labels(kind), Unit::Nanoseconds).hardware(
        "exception entry and exit",
        of(EXCEPTION, 1.0),
        EXCEPTION.basis(),
    );
    let add = |prediction: Prediction, (what, constant, count): (&str, Constant, f64)| {
        let hardware = [PAGE_CLEAR, PAGE_COPY].contains(&constant) || constant.name.starts_with("DISK");
        let (range, basis) = (of(constant, count), constant.basis());
        if hardware { prediction.hardware(what, range, basis) } else { prediction.software(what, range, basis) }
    };
    Some(parts.into_iter().fold(prediction, add))
}
