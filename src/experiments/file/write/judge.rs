//! What must be true of writes.

use super::{APPEND, BYTES, HOWS, How, OVERWRITE, RATE, TIME, rate_labels};
use crate::experiments::file::{BLOCK, COPY_FLOOR, taken};
use crate::experiments::limits;
use crate::experiments::network::{quantile_label, quantile_of_shots};
use crate::experiments::os::system_call::paid;
use crate::experiments::prelude::*;

/// A durable write may take less than a write into the cache by this share before one of them is doubted.
const ORDER_SLACK: f64 = 0.9;
/// Share of the writes that a device must have completed: the last ones are counted a moment later.
const COUNTED: f64 = 0.9;
/// No core copies bytes faster (bytes per second).
const COPY_RATE: f64 = 1e11;

rules! {
    WRITE_FLOOR: "G8" Hard "`file.write.time`", "at least a rejected system call and {}", time(COPY_FLOOR);
    WRITE_RATE: "G8" Hard "`file.write.rate`", "at most {}, because no core copies faster", rate(COPY_RATE);
    DURABLE_SLOWER: "G20" Hard "`file.write.time`", "a durable write takes at least {} times the same write into the cache", plain(ORDER_SLACK);
    DEVICE_WRITES: "G33" Remark "`file.write.time`", "the device completes a write for at least {} of the writes that wait for it", share(COUNTED);
}

pub(super) fn figures(study: &Study<'_>, findings: &mut Findings) {
    let others = Some(taken(study));
    for how in &HOWS {
        for &quantile in how.quantiles() {
            let Some(estimate) = quantile_of_shots(study, "write", &how.labels(), quantile) else { continue };
            let labels = how.labels().with("quantile", quantile_label(quantile));
            let gates = of_time(study, how, &estimate, quantile);
            findings.publish(study, Figure::shots(TIME, labels, &estimate, others).gates(gates));
        }
    }
    let passes = study.plain_sample("pass", &rate_labels());
    let rates = passes.map(|passes| passes.as_rates(BYTES as f64 * 1e9, Unit::BytesPerSecond));
    let Some(estimate) = rates.as_ref().and_then(Estimate::median) else { return };
    let mut gates = limits::of_writes(&study.setup.machine, None, estimate.value);
    gates.push(Gate::at_most(&WRITE_RATE, estimate.named("{}"), COPY_RATE).because("no core copies faster"));
    findings.publish(study, Figure::shots(RATE, rate_labels(), &estimate, others).gates(gates));
}

fn of_time(study: &Study<'_>, how: &How, estimate: &Estimate, quantile: f64) -> Vec<Gate> {
    let entry = paid(study.known, "enosys").map_or(0.0, |found| found.value);
    let reason = format!(
        "a rejected system call takes {} and a copy of a block {COPY_FLOOR} ns",
        quantity(entry, Unit::Nanoseconds)
    );
    let mut gates = vec![Gate::at_least(&WRITE_FLOOR, estimate.named("{}"), entry + COPY_FLOOR).because(reason)];
    if !how.waits() {
        return gates;
    }
    let writes = 1e9 / estimate.value;
    if quantile <= 0.5 {
        gates.extend(limits::of_writes(&study.setup.machine, Some(writes), writes * BLOCK as f64));
    }
    if how.is_durable()
        && let plain = if how.appends { &APPEND } else { &OVERWRITE }
        && let Some(plain) = quantile_of_shots(study, "write", &plain.labels(), 0.5)
    {
        let reason = format!("{ORDER_SLACK} times the same write into the cache, because it is a part");
        gates.push(
            Gate::at_least(&DURABLE_SLOWER, estimate.named("durable {}"), plain.value * ORDER_SLACK).because(reason),
        );
    }
    gates.extend(device_writes(study).map(|(asked, counted)| {
        let counted = Number::plain(counted).named("the device completed {} writes");
        Gate::at_least(&DEVICE_WRITES, counted, asked * COUNTED).because(format!("{asked} writes waited for it"))
    }));
    gates
}

/// Writes that waited for the device, and writes that the device completed in that time. None where no device counts.
pub(super) fn device_writes(study: &Study<'_>) -> Option<(f64, f64)> {
    let found = study.series("device", &Labels::none());
    let pairs = found.iter().filter_map(|series| match series.values[..] {
        [asked, counted] => Some((asked, counted)),
        _ => None,
    });
    pairs.reduce(|sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// Whether the device completed a write for nearly each of those that waited for it.
pub(super) fn are_counted((asked, counted): (f64, f64)) -> bool {
    counted >= asked * COUNTED
}
