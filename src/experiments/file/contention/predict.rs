//! What readers of a shared device are expected to get.

use super::super::{BLOCK, Order, predict_direct};
use super::{FAIRNESS, FILE, KNEE, PER_READER, RATE, TIME, labels, races};
use crate::experiments::constants::BLOCK_LAYER;
use crate::experiments::prelude::*;

pub(super) fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let mut all = Vec::new();
    for (order, processes) in races(by.setup.profile) {
        let time = predict_time(by, order, processes);
        let count = processes as f64;
        let rate = (count * BLOCK as f64 * 1e9 / time.value, count * BLOCK as f64 * 1e9 / time.high, {
            count * BLOCK as f64 * 1e9 / time.low.max(f64::MIN_POSITIVE)
        });
        let basis = Basis::guess("a closed system: a fixed number of readers, each with one read in flight");
        all.push(Prediction::of(RATE, labels(order, processes), Unit::BytesPerSecond).hardware(
            &format!("{processes} blocks in the predicted time of a read"),
            rate,
            basis,
        ));
        if processes == 1 {
            all.extend(growth(by, order, &time));
        }
        all.push(time);
        all.push(Prediction::of(FAIRNESS, labels(order, processes), Unit::One).software(
            "round-robin queues",
            (0.99, (1.0 / count).min(0.99), 1.0),
            Basis::guess("equal readers on an undisturbed machine. One reader may do all reads"),
        ));
    }
    all
}

/// Reads that a device serves at once, where no run of one process with many reads in flight tells.
const AT_ONCE: f64 = 8.0;

/// A read of one of several: as alone, and what it waits for the others.
pub(super) fn predict_time(by: &PredictionInput<'_>, order: Order, processes: usize) -> Prediction {
    let prediction = Prediction::of(TIME, labels(order, processes), Unit::Nanoseconds);
    let own = Labels::of([("order", order.name()), ("cache", "direct")]).with("bytes", FILE);
    let alone = match by.metric("file.read.block_time", &own) {
        Some(found) => {
            let range = (found.value, found.value * 0.8, found.value * 1.3);
            prediction.hardware(
                "a read by one process alone",
                range,
                Basis::metric(&format!("file.read.block_time {own}")),
            )
        }
        None => predict_direct(by, order, prediction),
    };
    if processes == 1 {
        return alone;
    }
    let count = processes as f64;
    let (each, basis) = served(by, alone.value);
    let device = alone.value.max(count * each);
    let cpus = by.setup.machine.available_cpus().max(1.0);
    let work = BLOCK_LAYER.times(count / cpus);
    let longest = device.max(work.0);
    // Between no process waiting and all waiting in one queue.
    let waiting = longest - alone.value;
    let waiting = (waiting, 0.0, ((count - 1.0) * alone.high).max(waiting));
    alone.software(&format!("queue behind {} others", processes - 1), waiting, basis)
}

/// Time in which the device serves one of many reads.
fn served(by: &PredictionInput<'_>, alone: f64) -> (f64, Basis) {
    let deepest = by.known.iter().filter(|metric| metric.name == "file.read.depth_rate").map(|metric| metric.value);
    match deepest.reduce(f64::max) {
        Some(rate) => (BLOCK as f64 * 1e9 / rate, Basis::metric("file.read.depth_rate, the highest")),
        None => (alone / AT_ONCE, Basis::guess("a device serves about eight reads at once")),
    }
}

/// How a read of one process grows with the others: each of them adds the device's time for one read, after as many as it serves at once.
fn growth(by: &PredictionInput<'_>, order: Order, alone: &Prediction) -> [Prediction; 2] {
    let of = |metric, unit| Prediction::of(metric, Labels::of([("order", order.name())]), unit);
    let (each, basis) = served(by, alone.value);
    let slope = of(PER_READER, Unit::Nanoseconds);
    let slope =
        slope.hardware("the device's time for one of many reads", (each, each / 2.0, alone.high), basis.clone());
    let most = alone.value / each;
    let knee = of(KNEE, Unit::One).hardware("reads that the device serves at once", (most, 1.0, 2.0 * most), basis);
    [slope, knee]
}
