//! How far results move between runs of one machine, where the runs' own histories do not say more.
//!
//! The numbers are relative standard deviations beyond what the intervals within the runs explain. They come from ten quick runs
//! over an hour and four default runs of one day (`records/guest-zen4-2cpu-quiet-hour`). In these runs, 3 to 71 % of the batches
//! had neighbours. They also come from ten quick runs on a guest whose clock moves (`records/guest-golden-cove-2cpu-held`). Those
//! of page faults and of switches on one CPU come from ten quick runs in blocks after random branches
//! (`records/guest-zen4-2cpu-forget`).

use crate::results::quantity::Labels;

/// Beginning of the metric's name, a label that the result has (none: any), and the standard deviation.
type Row = (&'static str, Option<(&'static str, &'static str)>, f64);

/// The first row that fits holds.
const SCATTER: [Row; 30] = [
    // The clock moves in steps of 100 MHz from hour to hour.
    ("cpu.frequency.core", None, 0.03),
    ("cpu.cycle_time", None, 0.03),
    // A hypervisor answers CPUID.
    ("cpu.timer.overhead", Some(("method", "cpuid_rdtsc")), 0.08),
    // The host moves virtual CPUs between caches, and lets them sleep in different states.
    ("os.cache_line_transfer.", None, 0.5),
    ("os.context_switch.", Some(("distance", "far")), 0.17),
    ("os.context_switch.", Some(("placement", "same_cpu")), 0.01),
    ("os.context_switch.pipe_overhead", None, 0.01),
    ("os.context_switch.", None, 0.13),
    ("os.thread_creation.", Some(("child", "same_cpu")), 0.01),
    ("os.thread_creation.", Some(("placement", "same_cpu")), 0.01),
    ("os.thread_creation.", None, 0.07),
    ("os.process_creation.per_page", None, 0.29),
    ("os.process_creation.", Some(("resident", "0")), 0.03),
    ("os.process_creation.", None, 0.15),
    ("os.system_call.service", None, 0.01),
    // The memory of a guest is nested in that of its host, which decides about pages.
    ("memory.page_fault.", Some(("kind", "file_cold")), 0.1),
    ("memory.page_fault.", Some(("kind", "huge_anonymous")), 0.15),
    ("memory.page_fault.", Some(("pages", "huge")), 0.15),
    ("memory.page_fault.", None, 0.03),
    ("memory.latency.translation", None, 0.15),
    ("memory.latency.by_rule", None, 0.06),
    ("memory.latency.", None, 0.03),
    ("memory.loaded_latency.", None, 0.1),
    ("memory.", None, 0.06),
    // The placement of tasks and flows changes from run to run.
    ("network.bandwidth.", None, 0.2),
    ("network.round_trip.", Some(("distance", "far")), 0.2),
    ("network.", None, 0.15),
    ("file.cache_size.", None, 0.02),
    ("file.contention.", None, 0.12),
    ("file.", None, 0.15),
];

/// The relative standard deviation of a result between runs, as far as records say; 0 where they say nothing.
pub(super) fn between(metric: &str, labels: &Labels) -> f64 {
    let fits = |(name, label, _): &&Row| {
        metric.starts_with(name) && label.is_none_or(|(key, value)| labels.get(key) == Some(value))
    };
    SCATTER.iter().find(fits).map_or(0.0, |(.., found)| *found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_row_that_fits_holds() {
        assert!((between("os.context_switch.time", &Labels::of([("placement", "same_cpu")])) - 0.01).abs() < 1e-12);
        assert!((between("os.context_switch.time", &Labels::of([("placement", "other_cpu")])) - 0.13).abs() < 1e-12);
        assert!((between("os.system_call.time", &Labels::none()) - 0.0).abs() < 1e-12);
    }
}
