//! Where the time of a read goes, and what stands below the file.

use super::super::{BLOCK, DeviceClass, Order};
use super::{CACHES, COLD, DEPTH_RATE, DEPTHS, DIRECT, SIZES, TIME, TOUCH_RATIO, WARM, judge, labels};
use crate::evaluate::findings::Findings;
use crate::evaluate::study::Study;
use crate::results::quantity::{Labels, Unit};
use crate::results::wording::{factor, percent, quantity};
use crate::statistics::summary::median;

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
    let rates: Vec<f64> = DEPTHS.into_iter().filter_map(|of| Some(depth(of)?.value)).collect();
    if let (Some(one), Some(most)) = (depth(1), depth(32)) {
        let text = format!(
            "One random read in flight gives {}, and 32 in flight give {} ({}). That is {} reads per second instead of \
             {}. The latency of a read does not follow from the larger number.",
            one.text(),
            most.text(),
            factor(most.value / one.value),
            (most.value / BLOCK as f64).round(),
            (one.value / BLOCK as f64).round(),
        );
        findings.say(text);
    }
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let saturated = rates.iter().position(|&rate| rate >= highest / SATURATED);
    if let Some(saturated) = saturated.filter(|_| rates.len() == DEPTHS.len()) {
        findings.say(match DEPTHS[saturated] {
            32 => {
                "The rate still rises from 16 reads in flight to 32, so the device is not saturated at 16.".to_owned()
            }
            depth => format!(
                "More than {depth} reads in flight raise the rate by less than {}. At that depth the device or the \
                 path to it is saturated.",
                percent(SATURATED - 1.0)
            ),
        });
    }
}

/// What a read consists of: the parts that follow from the figures.
pub(super) fn decompose(study: &Study<'_>, findings: &mut Findings, bytes: u64) {
    let value =
        |order: Order, cache: &str| findings.metric(TIME, &labels(order, cache, bytes)).map(|found| found.value);
    let refused = Labels::of([("call", "enosys")]);
    let entry = study.metric("os.system_call.time", &refused);
    let shown = |value: f64| quantity(value, Unit::Nanoseconds);
    let (direct, cold, warm) = (value(Order::Random, DIRECT), value(Order::Random, COLD), value(Order::Random, WARM));
    let next = value(Order::Sequential, COLD);
    let mut rows = Vec::new();
    if let (Some(warm), Some(entry)) = (warm, entry) {
        rows.push(vec![
            "warm − rejected system call".to_owned(),
            shown(warm - entry.value),
            "page lookup and copy".to_owned(),
        ]);
    }
    if let (Some(warm), Some(cold)) = (warm, cold) {
        rows.push(vec![
            "cold − warm".to_owned(),
            shown(cold - warm),
            "the device, a new page, two switches".to_owned(),
        ]);
    }
    // Both are medians of a device that scatters: where the difference is lost in that, it is none.
    if let (Some(direct), Some(cold)) = (direct, cold)
        && cold > direct
    {
        rows.push(vec![
            "cold − direct".to_owned(),
            shown(cold - direct),
            "cost of the page cache on a miss".to_owned(),
        ]);
    }
    if !rows.is_empty() {
        findings.tabulate(
            &format!("Components of a random read of 4 KiB in a file of {}", quantity(bytes as f64, Unit::Bytes)),
            &["difference", "time", "component"],
            rows,
        );
    }
    if let (Some(cold), Some(warm)) = (cold, warm) {
        findings.say(format!(
            "A random read takes {} on a cache miss and {} on a hit ({}).",
            shown(cold),
            shown(warm),
            factor(cold / warm)
        ));
    }
    if let (Some(random), Some(next)) = (cold, next) {
        findings.say(format!(
            "In sequential order a cold block takes {}, {} of a random block, because the kernel reads ahead.",
            shown(next),
            percent(next / random)
        ));
    }
}

/// What the device is taken for, and whether something below the kernel answered in its place.
pub(super) fn explain_device(study: &Study<'_>, findings: &mut Findings) {
    let class = DeviceClass::of(&study.setup.machine);
    let device = study.setup.machine.scratch().and_then(|storage| storage.device.as_ref());
    let random: Vec<(u64, f64)> = SIZES
        .into_iter()
        .filter_map(|bytes| Some((bytes, findings.metric(TIME, &labels(Order::Random, DIRECT, bytes))?.value)))
        .collect();
    let Some(&(largest, slowest)) = random.last() else { return };
    let name = device.map_or_else(String::new, |device| format!(" {}", device.name));
    if let Some((floor, why)) = class.floor()
        && slowest < floor
    {
        findings.say(format!(
            "The {}{name} answers in {}. A cache below the kernel or memory served these reads: {why}.",
            class.word(),
            quantity(slowest, Unit::Nanoseconds)
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
                percent(1.0 / ratio)
            )
        } else {
            format!(
                "A second direct read of the same places takes {} of the first. No cache below the kernel is visible \
                 between the two.",
                percent(1.0 / ratio)
            )
        });
    }
    if let Some(&(least, fastest)) = random.first().filter(|(bytes, _)| *bytes < largest) {
        findings.say(format!(
            "A direct random read takes {} in a file of {} and {} in one of {}.",
            quantity(fastest, Unit::Nanoseconds),
            quantity(least as f64, Unit::Bytes),
            quantity(slowest, Unit::Nanoseconds),
            quantity(largest as f64, Unit::Bytes)
        ));
    }
    let written: Vec<f64> = study.values("writing", &Labels::none());
    if let Some(rate) = median(&written) {
        findings.say(format!("The files were written at {}.", quantity(rate, Unit::BytesPerSecond)));
    }
}
