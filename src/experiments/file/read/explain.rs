//! Where the time of a read goes, and what stands below the file.

use super::super::{BLOCK, DeviceClass, Order};
use super::{CACHES, COLD, DEPTH_RATE, DEPTHS, DIRECT, SIZES, TIME, TOUCH_RATIO, WARM, judge, labels};
use crate::experiments::os::system_call::paid;
use crate::experiments::prelude::*;
use crate::results::document::Grade;
use crate::results::ratio::{in_brackets, scaled};
use crate::results::wording::{mark, share};

/// A depth saturates a device when no other brings this many times its rate.
pub(super) const SATURATED: f64 = 1.05;

pub(super) fn explain(study: &Study<'_>, findings: &mut Findings) {
    findings.figure("file.read.by_size").caption = Some("Time of a read of 4 KiB by the size of the file".to_owned());
    let complete = SIZES.into_iter().rev().find(|&bytes| {
        CACHES.iter().all(|cache| findings.metric(TIME, &labels(Order::Random, cache, bytes)).is_some())
    });
    if let Some(bytes) = complete {
        decompose(study, findings, bytes);
    }
    explain_device(study, findings);
    let depth = |depth: u32| {
        findings
            .metrics
            .iter()
            .find(|metric| metric.name == DEPTH_RATE && metric.labels.get("depth") == Some(depth.to_string().as_str()))
    };
    let rates: Vec<Metric> = DEPTHS.into_iter().filter_map(|of| depth(of).cloned()).collect();
    if let (Some(one), Some(most)) = (depth(1), depth(32)) {
        let reads = |rate: Shown| Shown::of(rate.value / BLOCK as f64, Unit::One);
        let text = format!(
            "One random read in flight gives {}, and 32 in flight give {}{}. These are {} and {} reads per second. The \
             latency of a read does not follow from the number for 32.",
            one.shown(),
            most.shown(),
            in_brackets(most, one),
            reads(one.shown()),
            reads(most.shown()),
        );
        findings.say(text);
    }
    if let Some(text) = saturation(&rates).filter(|_| rates.len() == DEPTHS.len()) {
        findings.say(text);
    }
}

/// From which depth on more reads in flight bring nothing, as far as the intervals of the rates decide that.
fn saturation(rates: &[Metric]) -> Option<String> {
    let [.., before, last] = rates else { return None };
    if Ratio::of(last, before, 1.0).is_some() {
        return Some(
            "The rate still rises from 16 reads in flight to 32, so the device is not saturated at 16.".to_owned(),
        );
    }
    // At this depth no other rate is this many times as high, beyond doubt.
    let saturates = |rate: &Metric| rates.iter().all(|other| Ratio::of(&scaled(rate, SATURATED), other, 1.0).is_some());
    let depth = DEPTHS[rates.iter().position(saturates)?];
    Some(format!(
        "More than {depth} reads in flight raise the rate by less than {}. At that depth the device or the path to it \
         is saturated.",
        share(SATURATED - 1.0)
    ))
}

/// What a read consists of: the parts that follow from the figures.
pub(super) fn decompose(study: &Study<'_>, findings: &mut Findings, bytes: u64) {
    let value = |order: Order, cache: &str| findings.metric(TIME, &labels(order, cache, bytes)).cloned();
    let entry = paid(study.known, "enosys");
    let shown = |value: f64| quantity(value, Unit::Nanoseconds);
    let (direct, cold, warm) = (value(Order::Random, DIRECT), value(Order::Random, COLD), value(Order::Random, WARM));
    let next = value(Order::Sequential, COLD);
    // Both are medians of a device that scatters: where the difference is lost in that, it is none.
    let part = |difference: &str, long: Option<&Metric>, short: Option<&Metric>, component: &str| {
        let (long, short) = long.zip(short).filter(|(long, short)| Ratio::of(long, short, 1.0).is_some())?;
        Some(vec![difference.to_owned(), shown(long.value - short.value), component.to_owned()])
    };
    let parts = [
        part("warm − rejected system call", warm.as_ref(), entry, "page lookup and copy"),
        part("cold − warm", cold.as_ref(), warm.as_ref(), "the device, a new page, two switches"),
        part("cold − direct", cold.as_ref(), direct.as_ref(), "cost of the page cache on a miss"),
    ];
    let rows = parts.into_iter().flatten().collect();
    findings.tabulate(
        &format!("Components of a random read of 4 KiB in a file of {}", mark(bytes as f64, Unit::Bytes)),
        &["difference", "time", "component"],
        rows,
    );
    if let (Some(cold), Some(warm)) = (&cold, &warm) {
        findings.say(format!(
            "In a file of {}, a random read takes {} on a cache miss and {} on a hit{}.",
            mark(bytes as f64, Unit::Bytes),
            cold.shown(),
            warm.shown(),
            in_brackets(cold, warm)
        ));
    }
    let is_settled = |next: &&Metric| next.grade != Grade::Unresolved;
    if let (Some(random), Some(next)) = (&cold, next.as_ref().filter(is_settled)) {
        let share = Ratio::of(random, next, 1.0).map_or_else(String::new, |ratio| {
            format!(", {} of a random block, because the kernel reads ahead", share(1.0 / ratio.value))
        });
        findings.say(format!("In sequential order a cold block takes {}{share}.", next.shown()));
    }
}

/// What the device is taken for, and whether something below the kernel answered in its place.
pub(super) fn explain_device(study: &Study<'_>, findings: &mut Findings) {
    let class = DeviceClass::of(&study.setup.machine);
    let device = study.setup.machine.scratch().and_then(|storage| storage.device.as_ref());
    let random: Vec<(u64, Metric)> = SIZES
        .into_iter()
        .filter_map(|bytes| Some((bytes, findings.metric(TIME, &labels(Order::Random, DIRECT, bytes))?.clone())))
        .collect();
    let Some((largest, slowest)) = random.last() else { return };
    let name = device.map_or_else(String::new, |device| format!(" {}", device.name));
    if let Some((floor, why)) = class.floor()
        && slowest.interval95[1] < floor
    {
        findings.say(format!(
            "The {}{name} answers in {}. A cache below the kernel or memory served these reads: {why}.",
            class.word(),
            slowest.shown()
        ));
    }
    if let Some(reason) = study.remarks("below").first() {
        findings.say(format!("Below the {}{name}: {reason}.", class.word()));
    }
    if class == DeviceClass::Virtual {
        findings.say(format!(
            "The disk{name} is virtual. Only this kernel's cache is proven empty. The files were written during this \
             run, and the host may have cached them."
        ));
    }
    if let Some(ratio) = judge::touch_ratio(study) {
        findings.say(if ratio > TOUCH_RATIO {
            format!(
                "A second direct read of the same places takes {} of the first, so a cache below the kernel answers. \
                 Direct and cold results are first touches.",
                share(1.0 / ratio)
            )
        } else {
            format!(
                "A second direct read of the same places takes {} of the first. No cache below the kernel is visible \
                 between the two.",
                share(1.0 / ratio)
            )
        });
    }
    if let Some((least, fastest)) = random.first().filter(|(bytes, _)| bytes < largest) {
        findings.say(format!(
            "A direct random read takes {} in a file of {} and {} in one of {}.",
            fastest.shown(),
            mark(*least as f64, Unit::Bytes),
            slowest.shown(),
            mark(*largest as f64, Unit::Bytes)
        ));
    }
    let written: Vec<f64> = study.values("writing", &Labels::none());
    if let Some(rate) = median(&written) {
        findings.say(format!("The files were written at {}.", Shown::of(rate, Unit::BytesPerSecond)));
    }
}
