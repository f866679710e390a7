//! The axes: what can be wrong with a node, and which results decide it.
//!
//! Key results are floors and headlines, no differences of results and no tails. A fault moves all key results of its axis,
//! and other faults move few of them.

use crate::results::fleet::Axis;
use crate::results::quantity::Unit;

/// An axis with its key results.
pub struct AxisRow {
    pub axis: Axis,
    /// Smallest difference that counts, as a logarithm.
    pub least: f64,
    keys: &'static [Key],
}

/// Results of one metric whose labels have all of some pairs and none of others.
struct Key {
    metric: &'static str,
    with: &'static [&'static str],
    without: &'static [&'static str],
}

const fn key(metric: &'static str, with: &'static [&'static str]) -> Key {
    Key { metric, with, without: &[] }
}

const fn key_without(metric: &'static str, with: &'static [&'static str], without: &'static [&'static str]) -> Key {
    Key { metric, with, without }
}

const fn row(axis: Axis, keys: &'static [Key]) -> AxisRow {
    AxisRow { axis, least: 0.02, keys }
}

/// The axes in the order of reports.
pub const ROWS: [AxisRow; 17] = [
    // Clocks move in steps of 100 MHz. Two steps are a state of the hour, and as many siblings agree to the last digit.
    AxisRow { axis: Axis::Clock, least: 0.08, keys: &[key("cpu.frequency.core", &[])] },
    row(
        Axis::Core,
        &[
            key("cpu.loop.overhead", &[]),
            key("cpu.procedure_call.time", &["chain=latency", "code=registers"]),
            key("cpu.procedure_call.time", &["chain=latency", "code=memory"]),
        ],
    ),
    row(
        Axis::SystemCalls,
        &[
            key_without("os.system_call.time", &[], &["order=sweep", "after=other_calls", "call=clock_gettime_vdso"]),
            key("os.signal.time", &["how=deliver_self"]),
        ],
    ),
    row(Axis::Switching, &[key("os.context_switch.time", &["placement=same_cpu"])]),
    row(
        Axis::Processes,
        &[
            key("os.process_creation.time", &["child=same_cpu", "resident=0"]),
            key("os.thread_creation.time", &["child=same_cpu"]),
        ],
    ),
    row(
        Axis::PageFaults,
        &[
            key("memory.page_fault.time", &["kind=anonymous_write"]),
            key("memory.page_fault.time", &["kind=anonymous_read"]),
            key("memory.page_fault.time", &["kind=file_cached_single"]),
            key("memory.page_fault.time", &["kind=copy_on_write"]),
        ],
    ),
    row(
        Axis::CacheLatency,
        &[
            key("memory.latency.level", &["level=L1", "pages=4k"]),
            key("memory.latency.level", &["level=L2", "pages=4k"]),
            key("memory.latency.level", &["level=L3", "pages=4k"]),
        ],
    ),
    row(
        Axis::DramLatency,
        &[
            key("memory.latency.level", &["level=DRAM"]),
            key("memory.loaded_latency.time", &["load=idle"]),
            key("memory.latency.by_rule", &["pattern=random"]),
        ],
    ),
    row(
        Axis::CacheRate,
        &[
            key("memory.bandwidth.rate", &["level=L1", "threads=1"]),
            key("memory.bandwidth.rate", &["level=L2", "threads=1"]),
            key("memory.bandwidth.rate", &["level=L3", "threads=1"]),
        ],
    ),
    row(Axis::DramRateOne, &[key("memory.bandwidth.rate", &["level=DRAM", "threads=1"])]),
    row(Axis::DramRateAll, &[key_without("memory.bandwidth.rate", &["level=DRAM"], &["threads=1"])]),
    row(Axis::LinkRate, &[key("network.bandwidth.rate", &["path=remote"])]),
    row(
        Axis::LinkLatency,
        &[
            key("network.round_trip.time", &["path=remote", "quantile=p50", "pacing=back_to_back"]),
            key("network.connection.time", &["path=remote", "phase=setup"]),
        ],
    ),
    row(
        Axis::Loopback,
        &[
            key("network.round_trip.time", &["path=loopback", "quantile=p50", "pacing=back_to_back"]),
            key("network.bandwidth.rate", &["path=loopback"]),
            key("network.connection.time", &["path=loopback", "phase=setup"]),
        ],
    ),
    row(
        Axis::Disk,
        &[
            key("file.read.block_time", &["cache=direct", "order=random"]),
            key("file.read.rate", &["cache=direct", "order=sequential"]),
            key("file.read.depth_rate", &[]),
        ],
    ),
    row(Axis::CachedFiles, &[key("file.read.block_time", &["cache=warm"])]),
    row(Axis::Readers, &[key_without("file.contention.rate", &[], &["processes=1"])]),
];

/// Rates of memory that the core clock decides: they are taken per cycle.
const BY_THE_CLOCK: [&str; 2] = ["level=L1", "level=L2"];

/// The axis that a result decides.
pub fn axis_of(metric: &str, labels: &str) -> Option<Axis> {
    let has = |wanted: &&str| labels.split(' ').any(|pair| pair == *wanted);
    let fits = |key: &Key| key.metric == metric && key.with.iter().all(has) && !key.without.iter().any(has);
    ROWS.iter().find(|row| row.keys.iter().any(fits)).map(|row| row.axis)
}

/// The core clock itself: the result that other results are divided by.
pub fn is_clock(metric: &str) -> bool {
    ROWS[0].keys.iter().any(|key| key.metric == metric)
}

/// Whether a rate is taken per cycle.
pub fn is_by_the_clock(unit: Unit, labels: &str) -> bool {
    unit == Unit::BytesPerSecond && labels.split(' ').any(|pair| BY_THE_CLOCK.contains(&pair))
}

/// Smallest difference that counts, as a logarithm.
pub fn least(axis: Axis) -> f64 {
    ROWS.iter().find(|row| row.axis == axis).map_or(0.02, |row| row.least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::TABLE;

    #[test]
    fn key_results_are_metrics_that_experiments_publish() {
        let known: Vec<&str> = TABLE.iter().flat_map(|row| row.publishes.iter().map(|found| found.metric)).collect();
        for key in ROWS.iter().flat_map(|row| row.keys) {
            assert!(known.contains(&key.metric), "{} is published by no experiment", key.metric);
        }
        assert_eq!(ROWS.map(|row| row.axis), Axis::ALL);
    }

    #[test]
    fn a_result_belongs_to_the_axis_of_its_labels() {
        assert_eq!(axis_of("cpu.frequency.core", ""), Some(Axis::Clock));
        assert_eq!(axis_of("os.system_call.time", "call=enosys"), Some(Axis::SystemCalls));
        assert_eq!(axis_of("os.system_call.time", "call=enosys order=sweep"), None);
        let rate = |labels| axis_of("memory.bandwidth.rate", labels);
        assert_eq!(rate("level=DRAM operation=read threads=1"), Some(Axis::DramRateOne));
        assert_eq!(rate("level=DRAM operation=read threads=16"), Some(Axis::DramRateAll));
        assert_eq!(rate("level=L2 operation=read threads=1"), Some(Axis::CacheRate));
        assert_eq!(axis_of("memory.page_fault.time", "kind=huge_anonymous"), None);
    }
}
