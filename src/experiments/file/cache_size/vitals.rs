//! What the kernel says of the memory while the cache is filled.

use crate::experiments::prelude::*;
use crate::machine;
use std::fs;

/// What the kernel says of the memory at a moment.
pub(super) struct Vitals {
    /// Bytes of all memory.
    pub total: Option<u64>,
    /// Bytes that programs could have, file data that is cached among them.
    pub available: Option<u64>,
    /// Bytes that could be taken before the kernel has to take back something: on the machine above the watermarks of its
    /// zones, and within the limits of the control groups.
    pub unused: Option<u64>,
    /// Pages written to swap since boot.
    pub swapped: Option<u64>,
    /// Percent of the last ten seconds in which some task waited for memory.
    pub pressure: Option<f64>,
}

impl Vitals {
    pub(super) fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let meminfo = text("/proc/meminfo");
        let kibibytes = |key: &str| -> Option<u64> {
            let rest = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            Some(rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
        };
        let kept = watermarks(&text("/proc/zoneinfo")) * page_size() as u64;
        let free = kibibytes("MemFree").map(|free| free.saturating_sub(kept));
        Vitals {
            total: kibibytes("MemTotal"),
            available: kibibytes("MemAvailable"),
            unused: [free, machine::memory_unused_bytes()].into_iter().flatten().min(),
            swapped: text("/proc/vmstat").lines().find_map(|line| line.strip_prefix("pswpout ")?.parse().ok()),
            pressure: average(&text("/proc/pressure/memory")),
        }
    }
}

/// Pages that the kernel keeps free: it reclaims until every zone has as many as its high watermark.
fn watermarks(zones: &str) -> u64 {
    // Lines of the lists of each CPU have a colon behind the word.
    zones.lines().filter_map(|line| line.trim_start().strip_prefix("high ")?.trim().parse::<u64>().ok()).sum()
}

/// The ten-second average of the line `some` of a pressure file, in percent.
fn average(pressure: &str) -> Option<f64> {
    let line = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("avg10=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_read_from_the_line_of_some() {
        let text = "some avg10=12.50 avg60=1.00 avg300=0.10 total=99\nfull avg10=3.00 avg60=0.00 avg300=0.00 total=1\n";
        assert_eq!(average(text), Some(12.5));
        assert_eq!(average("full avg10=3.00"), None);
    }

    #[test]
    fn watermarks_of_all_zones_are_kept() {
        let zones = "Node 0, zone DMA\n  pages free 3840\n        min      18\n        high     26\n  pagesets\n    cpu: 0\n\
                     \x20             count:    0\n              high:     378\nNode 0, zone Normal\n        high     5498\n";
        assert_eq!(watermarks(zones), 26 + 5498);
        assert_eq!(watermarks(""), 0);
    }
}
