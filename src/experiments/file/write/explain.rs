//! What a durable write costs, and what stands below the file.

use super::{FDATASYNC, How, OVERWRITE, TIME, judge};
use crate::experiments::file::DeviceClass;
use crate::experiments::prelude::*;
use crate::results::ratio::in_brackets;

pub(super) fn explain(study: &Study<'_>, findings: &mut Findings) {
    let time = |how: &How, quantile: &str| findings.metric(TIME, &how.labels().with("quantile", quantile)).cloned();
    let mut said = Vec::new();
    if let (Some(cached), Some(durable)) = (time(&OVERWRITE, "p50"), time(&FDATASYNC, "p50")) {
        said.push(format!(
            "An overwrite of 4 KiB takes {}, and until fdatasync has made it durable {}{}.",
            cached.shown(),
            durable.shown(),
            in_brackets(&durable, &cached)
        ));
    }
    if let Some(slow) = time(&FDATASYNC, "p99") {
        said.push(format!(
            "In the median launch, one in a hundred overwrites with fdatasync takes {} or more.",
            slow.shown()
        ));
    }
    let class = DeviceClass::of(&study.setup.machine);
    let device = study.setup.machine.scratch().and_then(|storage| storage.device.as_ref());
    let name = device.map_or_else(String::new, |device| format!(" {}", device.name));
    if let Some((asked, counted)) = judge::device_writes(study).filter(|counts| !judge::are_counted(*counts)) {
        said.push(format!(
            "The {}{name} completed {counted} writes while {asked} writes waited. So they do not wait for it: a filter of \
             system calls or the file system leaves out the sync.",
            class.word()
        ));
    }
    if class == DeviceClass::Virtual {
        said.push(format!(
            "The disk{name} is virtual. What it has acknowledged may still be in the memory of the host."
        ));
    }
    if let Some(cache) = device.and_then(|device| device.write_cache.as_deref()) {
        let flush = if cache == "write through" { "sends no flush" } else { "sends a flush with each sync" };
        said.push(format!(
            "The {}{name} claims a write cache of the kind {cache}, so the kernel {flush}.",
            class.word()
        ));
    }
    for text in said {
        findings.say(text);
    }
}
