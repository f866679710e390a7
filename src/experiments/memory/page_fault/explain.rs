//! What the costs of page faults mean.

use crate::experiments::limits;
use crate::experiments::memory::footprint::MEMORY;
use crate::experiments::memory::streams;
use crate::experiments::memory::touching::labels;
use crate::experiments::prelude::*;
use crate::results::ratio::scaled;
use crate::results::wording::count;
use crate::sys::fault::HUGE_PAGE;
use crate::sys::stream::Operation;

use super::judge::footprint;
use super::{
    CACHED, COLD, DIRECT, FIRST_TOUCH, HUGE, KINDS, LARGE, PAGES, SINGLE, SMALL, SYSTEM, TIME, TOUCH, WRITE,
    touch_labels,
};

pub(super) fn explain(study: &Study<'_>, findings: &mut Findings) {
    let time = |findings: &Findings, kind: &str| findings.metric(TIME, &labels(kind)).map(|metric| metric.value);
    let pages = |findings: &Findings, kind: &str| findings.metric(PAGES, &labels(kind)).map(|metric| metric.value);
    let page = page_size() as f64;
    let rate = study.metric("memory.bandwidth.rate", &streams::labels(Operation::Read, MEMORY, 1));
    let own = |kind: &str| time(findings, kind);
    let mapped = |kind: &str| pages(findings, kind);
    let each = |kind: &str| Some(own(kind)? / mapped(kind)?);
    let table = pivot(
        "Cost of a fault, and the pages that it maps. The last two columns hold for programs that use every mapped \
         byte, so compare them with a bandwidth. A program that touches one byte waits for one fault.",
        KINDS.into_iter().filter(|kind| each(kind).is_some()),
        &[
            ("kind", &|kind| Some((*kind).to_owned())),
            ("one fault", &|kind| Some(quantity(own(kind)?, Unit::Nanoseconds))),
            ("pages", &|kind| Some(number(mapped(kind)?))),
            ("one page", &|kind| Some(quantity(each(kind)?, Unit::Nanoseconds))),
            ("ns per byte, if all are used", &|kind| Some(number(each(kind)? / page))),
            ("× time to read the same bytes from memory", &|kind| {
                Some(number(each(kind)? / (page / rate?.value * 1e9)))
            }),
        ],
    );
    findings.analysis.extend(table);
    let found = |findings: &Findings, kind: &str| findings.metric(TIME, &labels(kind)).cloned();
    if let (Some(around), Some(mapped), Some(single)) =
        (found(findings, CACHED), pages(findings, CACHED), found(findings, SINGLE))
    {
        let (around, mapped) = (around.shown(), Shown::of(mapped, Unit::One));
        findings.say(format!(
            "A fault on a cached file maps {mapped} pages and takes {around}, or {} per page. A fault that can map \
             only one page takes {}.",
            around.alike(around.value / mapped.value),
            single.shown()
        ));
    }
    if let (Some(small), Some(huge)) = (found(findings, WRITE), found(findings, HUGE)) {
        let small_ones = scaled(&small, HUGE_PAGE as f64 / page);
        let longer = Ratio::of(&small_ones, &huge, 1.0);
        let longer = longer.map_or_else(String::new, |ratio| format!(", {} times as long", ratio.text()));
        findings.say(format!(
            "A fault for a huge page takes {}. Faults for the small pages of the same 2 MiB take {}{longer}. A \
             program that touches only one byte still waits for the whole huge page.",
            huge.shown(),
            small_ones.shown(),
        ));
    }
    if let Some([small, huge]) = footprint(study, WRITE).zip(footprint(study, HUGE)).map(<[f64; 2]>::from) {
        findings.say(format!(
            "The faults of a batch clear {} in small pages and {} in huge ones, all of which this process freed shortly \
             before. What the caches no longer hold is part of the cost.",
            quantity(small, Unit::Bytes),
            quantity(huge, Unit::Bytes)
        ));
    }
    say_first_touch(study, findings);
    let direct = study.sample(DIRECT, &Labels::none()).as_ref().and_then(Estimate::median);
    if let (Some(cold), Some(direct), Some(single)) = (found(findings, COLD), direct, found(findings, SINGLE)) {
        let (cold, direct) = (cold.shown(), Shown::measured(direct.value, direct.interval, Unit::Nanoseconds));
        let single = single.shown();
        findings.say(format!(
            "A major fault takes {cold}. A read of one of the same pages past the cache takes {direct} and a minor \
             fault {single}, together {}.",
            direct.alike(direct.value + single.value)
        ));
    }
    if time(findings, COLD).is_some() {
        for text in limits::of_place(&study.setup.machine) {
            findings.say(text);
        }
    }
    let device = study.setup.machine.scratch().and_then(|storage| storage.device.as_ref());
    if let Some(device) = device.filter(|device| device.is_virtual && time(findings, COLD).is_some()) {
        findings.say(format!(
            "The disk {} is virtual. The checks prove only that this kernel had nothing cached. The host may have \
             answered from its memory.",
            device.name
        ));
    }
}

/// What huge pages save of the first touch, and which pages the system gives.
fn say_first_touch(study: &Study<'_>, findings: &mut Findings) {
    let of = |pages: &str| findings.metric(FIRST_TOUCH, &touch_labels(pages)).map(Metric::shown);
    let [small, huge, system] = [SMALL, LARGE, SYSTEM].map(of);
    let Some(system) = system else { return };
    let by_pages = [(small, "4 KiB pages"), (huge, "huge pages")].into_iter();
    let known: Vec<String> = by_pages.filter_map(|(shown, words)| Some(format!("{} with {words}", shown?))).collect();
    let middle = |series: &str| median(&study.values(series, &labels(TOUCH)));
    let mapped = middle("pages").zip(middle("faults")).map_or(0.0, |(pages, faults)| pages / faults);
    findings.say(format!(
        "For each MiB, the first touch of a large buffer takes {system} with default pages, where a fault maps {}{}{}.",
        count(mapped.round() as u64, "small page", "small pages"),
        if known.is_empty() { "" } else { ". It takes " },
        known.join(" and ")
    ));
}
