//! The costs that every reader asks for first, with the names that the field has for them. The screen and the front page show these.

use crate::experiments::prelude::*;
use crate::results::document::{Cost, Section};

use super::models::primitives::Primitive;

/// Short name, what decides the cost, metric, labels that the figure has among others.
type Asked = (&'static str, Decides, &'static str, &'static [(&'static str, &'static str)]);

/// What decides a cost: how much it differs among machines with cores of one design.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decides {
    /// The core alone.
    Core,
    /// The clock of the core, which products and load decide.
    Clock,
    /// The last cache, which a design has in several sizes.
    Cache,
    /// The way of a cache line between two cores.
    Line,
    /// The memory modules and their number.
    Memory,
    /// The rate of copies and of the memory.
    Bandwidth,
    /// Code of the kernel on one CPU.
    Kernel,
    /// Page tables and the clearing of pages, below a hypervisor twice.
    Pages,
    /// The state of an idle CPU, and the hypervisor that wakes it.
    WakeUp,
    /// A disk or another machine.
    Device,
}
use Decides::{Bandwidth, Cache, Clock, Core, Device, Kernel, Line, Memory, Pages, WakeUp};

/// In the order of the chapters.
const ASKED: &[Asked] = &[
    ("core clock", Clock, "cpu.frequency.core", &[]),
    ("read the clock", Core, "cpu.timer.overhead", &[("method", "clock_gettime")]),
    ("counter read", Core, "cpu.timer.overhead", &[("method", "rdtsc")]),
    ("loop iteration", Core, "cpu.loop.overhead", &[("code", "registers")]),
    (
        "function call",
        Core,
        "cpu.procedure_call.time",
        &[("args", "0"), ("chain", "throughput"), ("code", "registers")],
    ),
    ("system call", Kernel, "os.system_call.time", &[("call", "enosys")]),
    ("getcwd", Kernel, "os.system_call.time", &[("call", "getcwd")]),
    (
        "switch, same CPU",
        Kernel,
        "os.context_switch.time",
        &[("between", "processes"), ("through", "pipe"), ("placement", "same_cpu")],
    ),
    (
        "wake idle CPU",
        WakeUp,
        "os.context_switch.time",
        &[("between", "processes"), ("through", "pipe"), ("target", "idle")],
    ),
    ("line, 2 CPUs", Line, "os.cache_line_transfer.time", &[]),
    ("signal", Kernel, "os.signal.time", &[("how", "deliver_self")]),
    ("thread", Kernel, "os.thread_creation.time", &[("by", "pthread"), ("child", "same_cpu"), ("how", "create_join")]),
    (
        "fork + wait",
        Kernel,
        "os.process_creation.time",
        &[("how", "fork_wait"), ("resident", "0"), ("child", "same_cpu")],
    ),
    (
        "fork + exec",
        Kernel,
        "os.process_creation.time",
        &[("how", "fork_exec_wait"), ("image", "static"), ("child", "same_cpu")],
    ),
    (
        "fork, 256 MiB",
        Pages,
        "os.process_creation.time",
        &[("how", "fork_wait"), ("resident", "268435456"), ("pages", "4k")],
    ),
    ("L1 load", Core, "memory.latency.level", &[("level", "L1")]),
    ("L2 load", Core, "memory.latency.level", &[("level", "L2")]),
    ("L3 load", Cache, "memory.latency.level", &[("level", "L3")]),
    ("memory load", Memory, "memory.latency.level", &[("level", "DRAM"), ("pages", "huge")]),
    ("memory read", Bandwidth, "memory.bandwidth.rate", &[("level", "DRAM"), ("operation", "read"), ("threads", "1")]),
    ("page fault", Pages, "memory.page_fault.time", &[("kind", "anonymous_write")]),
    ("huge page fault", Pages, "memory.page_fault.time", &[("kind", "huge_anonymous")]),
    (
        "TCP, same CPU",
        Kernel,
        "network.round_trip.time",
        &[
            ("protocol", "tcp"),
            ("bytes", "1"),
            ("ip", "4"),
            ("path", "loopback"),
            ("placement", "same_cpu"),
            ("quantile", "p50"),
        ],
    ),
    (
        "TCP, 2 CPUs",
        WakeUp,
        "network.round_trip.time",
        &[
            ("protocol", "tcp"),
            ("bytes", "1"),
            ("ip", "4"),
            ("path", "loopback"),
            ("placement", "other_cpu"),
            ("pacing", "back_to_back"),
            ("quantile", "p50"),
        ],
    ),
    (
        "TCP to the peer",
        Device,
        "network.round_trip.time",
        &[("protocol", "tcp"), ("bytes", "1"), ("path", "peer"), ("pacing", "back_to_back"), ("quantile", "p50")],
    ),
    ("TCP connect", WakeUp, "network.connection.time", &[("ip", "4"), ("phase", "setup"), ("placement", "other_cpu")]),
    (
        "TCP throughput",
        Bandwidth,
        "network.bandwidth.rate",
        &[("bytes", "131072"), ("direction", "send"), ("ip", "4"), ("placement", "other_cpu"), ("streams", "1")],
    ),
    ("4 KiB cached", Kernel, "file.read.block_time", &[("cache", "warm"), ("order", "random"), ("bytes", "67108864")]),
    (
        "4 KiB from disk",
        Device,
        "file.read.block_time",
        &[("cache", "direct"), ("order", "random"), ("bytes", "67108864")],
    ),
    ("disk, 32 deep", Device, "file.read.depth_rate", &[("depth", "32")]),
    ("remote 4 KiB", Device, "file.remote_read.block_time", &[("order", "random")]),
];

/// Those that are left out where there is little room, the first first.
const LEFT_OUT: &[&str] = &[
    "counter read",
    "getcwd",
    "loop iteration",
    "signal",
    "line, 2 CPUs",
    "L2 load",
    "disk, 32 deep",
    "fork, 256 MiB",
    "huge page fault",
    "TCP connect",
    "read the clock",
    "thread",
];

/// The rank of a cost, as [`Cost`] has it.
fn rank(name: &str) -> u32 {
    LEFT_OUT.iter().rev().position(|left_out| *left_out == name).map_or(0, |place| place as u32 + 1)
}

/// The costs that have a prediction, with their short names. Above `most`, those of the highest rank are left out.
pub fn predicted(predictions: &[Prediction], most: usize) -> Vec<(&'static str, &Prediction)> {
    let of = |&(name, _, metric, labels): &Asked| {
        let asked = Primitive::of(metric, labels);
        Some((name, predictions.iter().find(|found| asked.is(&found.metric, &found.labels))?))
    };
    let mut found: Vec<_> = ASKED.iter().filter_map(of).collect();
    while found.len() > most {
        // Of several with this rank, the last one.
        let least = (0..found.len()).max_by_key(|&place| rank(found[place].0)).unwrap_or(0);
        found.remove(least);
    }
    found
}

/// A cost that is asked for.
#[derive(Debug, Clone, Copy)]
pub struct AskedCost {
    /// Short name.
    pub name: &'static str,
    /// What decides it.
    pub decides: Decides,
    /// Its metric.
    pub metric: &'static str,
    /// Labels that its result has among others.
    pub labels: &'static [(&'static str, &'static str)],
}

/// Every cost that is asked for.
pub fn asked() -> impl Iterator<Item = AskedCost> {
    ASKED.iter().map(|&(name, decides, metric, labels)| AskedCost { name, decides, metric, labels })
}

/// The short name of a result of one of these costs.
pub fn name_of(found: &str, labels: &Labels) -> Option<&'static str> {
    let is = |(_, _, metric, with): &&Asked| Primitive::of(metric, with).is(found, labels);
    ASKED.iter().find(is).map(|(name, ..)| *name)
}

/// Which figures of a run they are. Of two distances the near one is.
pub fn costs(sections: &[Section]) -> Vec<Cost> {
    let of = |&(name, _, metric, labels): &Asked| {
        let asked = Primitive::of(metric, labels);
        let is = |found: &&Metric| asked.is(&found.name, &found.labels);
        let found = sections.iter().flat_map(|section| &section.metrics).find(is)?;
        Some(Cost { name: name.to_owned(), rank: rank(name), metric: found.name.clone(), labels: found.labels.clone() })
    };
    ASKED.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::TABLE;

    #[test]
    fn short_names_fit_and_metrics_exist() {
        assert!(LEFT_OUT.iter().all(|name| ASKED.iter().any(|(asked, ..)| asked == name)));
        for (name, _, metric, _) in ASKED {
            assert!(name.chars().count() <= 16, "{name}");
            assert!(TABLE.iter().any(|experiment| experiment.publication(metric).is_some()), "{metric}");
        }
    }
}
