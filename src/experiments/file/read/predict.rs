//! What reads are expected to take.

use super::{BLOCK, COLD, DEPTH_RATE, DEPTHS, DIRECT, LARGE, Order, RATE, TIME, WARM, labels, wanted};
use crate::experiments::constants::{COPY_BYTE, FILE_PAGE_LOOKUP, PAGE_ALLOCATION, disk_byte};
use crate::experiments::file::{as_rate, entered, predict_direct, rate_of};
use crate::experiments::prelude::*;

/// Predicts every size that a run wants, whatever it will have space for.
pub(super) fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let mut all = Vec::new();
    for bytes in wanted(by.setup.profile) {
        for order in Order::ALL {
            for cache in [DIRECT, COLD, WARM] {
                let time = Prediction::of(TIME, labels(order, cache, bytes), Unit::Nanoseconds);
                let time = block_time(by, order, cache, time);
                if order == Order::Random {
                    all.push(rate_of(&time, BLOCK, labels(order, cache, bytes), RATE));
                } else {
                    let large = Prediction::of(TIME, Labels::none(), Unit::Nanoseconds);
                    all.push(rate_of(&large_time(by, cache, large), LARGE, labels(order, cache, bytes), RATE));
                }
                all.push(time);
            }
        }
        for depth in DEPTHS {
            let labels = Labels::none().with("bytes", bytes).with("depth", depth);
            let one = block_time(by, Order::Random, DIRECT, Prediction::of(TIME, Labels::none(), Unit::Nanoseconds));
            let rate = as_rate(BLOCK as f64, (one.value, one.low, one.high));
            // A device serves between one and all of what is under way at the same time.
            let depth = f64::from(depth);
            let range = (rate.0 * depth.powf(0.7), rate.1, rate.2 * depth);
            let basis = Basis::guess("a device serves between one and all of the requested reads at once");
            let what = format!("{depth} reads in flight, each as long as one alone");
            all.push(Prediction::of(DEPTH_RATE, labels, Unit::BytesPerSecond).hardware(&what, range, basis));
        }
    }
    all
}

/// One read of a block.
fn block_time(by: &PredictionInput<'_>, order: Order, cache: &str, prediction: Prediction) -> Prediction {
    let cycle = CycleTime::known(by);
    let copy = COPY_BYTE.times(BLOCK as f64);
    let lookup = |prediction: Prediction| {
        let lookup = cycle.of(FILE_PAGE_LOOKUP.times(1.0));
        prediction.software("page lookup", lookup, FILE_PAGE_LOOKUP.basis()).hardware("copy", copy, COPY_BYTE.basis())
    };
    let page = |prediction: Prediction| {
        let page = cycle.of(PAGE_ALLOCATION.times(1.0));
        prediction.software("a new page", page, PAGE_ALLOCATION.basis())
    };
    match (order, cache) {
        (_, DIRECT) => predict_direct(by, order, prediction),
        (Order::Random, COLD) => page(lookup(predict_direct(by, order, prediction))),
        (Order::Sequential, COLD) => {
            let byte = disk_byte(by);
            let (value, _, high) = byte.times(BLOCK as f64);
            // Read ahead while the copy goes on: the device may cost nothing.
            page(lookup(entered(
                by,
                prediction.hardware("its bytes from the device, with read-ahead", (value, 0.0, high), byte.basis()),
            )))
        }
        _ => lookup(entered(by, prediction)),
    }
}

/// One request of a mebibyte.
fn large_time(by: &PredictionInput<'_>, cache: &str, prediction: Prediction) -> Prediction {
    let cycle = CycleTime::known(by);
    let pages = LARGE as f64 / BLOCK as f64;
    let byte = disk_byte(by);
    let device = byte.times(LARGE as f64);
    let copied = |prediction: Prediction| {
        // Large folios are found once; single pages one by one.
        let (value, _, high) = cycle.of(FILE_PAGE_LOOKUP.times(pages));
        prediction.software("page lookups", (value * 0.3, 0.0, high), FILE_PAGE_LOOKUP.basis()).hardware(
            "copies",
            COPY_BYTE.times(LARGE as f64),
            COPY_BYTE.basis(),
        )
    };
    match cache {
        DIRECT => predict_direct(by, Order::Sequential, prediction).hardware(
            "its bytes from the device",
            device,
            byte.basis(),
        ),
        COLD => copied(prediction.hardware(
            "its bytes from the device, with read-ahead",
            (device.0, 0.0, device.2),
            byte.basis(),
        )),
        _ => copied(entered(by, prediction)),
    }
}
