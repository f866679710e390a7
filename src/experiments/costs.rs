//! The costs that every reader asks for first, with the names that the field has for them. The screen and the front page show these.

use crate::experiments::prelude::*;
use crate::results::document::{Cost, Section};

use super::figure_name::FigureName;
use super::models::primitives::{IDLE_WAKE_UP, MEMORY_LOAD, SWITCH, WRITE_FAULT};

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

/// Short name, what decides the cost, rank as [`Cost`] has it, and the figure, in the order of the chapters.
const ASKED: &[(&str, Decides, u32, FigureName)] = &[
    ("core clock", Clock, 0, FigureName::of("cpu.frequency.core")),
    ("read the clock", Core, 2, FigureName::of("cpu.timer.overhead method=clock_gettime")),
    ("counter read", Core, 12, FigureName::of("cpu.timer.overhead method=rdtsc")),
    ("loop iteration", Core, 10, FigureName::of("cpu.loop.overhead code=registers")),
    ("function call", Core, 0, FigureName::of("cpu.procedure_call.time args=0 chain=throughput code=registers")),
    ("system call", Kernel, 0, FigureName::of("os.system_call.time call=enosys")),
    ("getcwd", Kernel, 11, FigureName::of("os.system_call.time call=getcwd")),
    ("switch, same CPU", Kernel, 0, SWITCH),
    ("wake idle CPU", WakeUp, 0, IDLE_WAKE_UP),
    ("line, 2 CPUs", Line, 8, FigureName::of("os.cache_line_transfer.time")),
    ("signal", Kernel, 9, FigureName::of("os.signal.time how=deliver_self")),
    ("thread", Kernel, 1, FigureName::of("os.thread_creation.time by=pthread child=same_cpu how=create_join")),
    ("fork + wait", Kernel, 0, FigureName::of("os.process_creation.time how=fork_wait resident=0 child=same_cpu")),
    (
        "fork + exec",
        Kernel,
        0,
        FigureName::of("os.process_creation.time how=fork_exec_wait image=static child=same_cpu"),
    ),
    ("fork, 256 MiB", Pages, 5, FigureName::of("os.process_creation.time how=fork_wait resident=268435456 pages=4k")),
    ("L1 load", Core, 0, FigureName::of("memory.latency.level level=L1")),
    ("L2 load", Core, 7, FigureName::of("memory.latency.level level=L2")),
    ("L3 load", Cache, 0, FigureName::of("memory.latency.level level=L3")),
    ("memory load", Memory, 0, MEMORY_LOAD),
    ("memory read", Bandwidth, 0, FigureName::of("memory.bandwidth.rate level=DRAM operation=read threads=1")),
    ("page fault", Pages, 0, WRITE_FAULT),
    ("huge page fault", Pages, 4, FigureName::of("memory.page_fault.time kind=huge_anonymous")),
    (
        "TCP, same CPU",
        Kernel,
        0,
        FigureName::of(
            "network.round_trip.time protocol=tcp bytes=1 ip=4 path=loopback placement=same_cpu quantile=p50",
        ),
    ),
    (
        "TCP, 2 CPUs",
        WakeUp,
        0,
        FigureName::of(
            "network.round_trip.time protocol=tcp bytes=1 ip=4 path=loopback placement=other_cpu pacing=back_to_back quantile=p50",
        ),
    ),
    (
        "TCP to the peer",
        Device,
        0,
        FigureName::of("network.round_trip.time protocol=tcp bytes=1 path=remote pacing=back_to_back quantile=p50"),
    ),
    ("TCP connect", WakeUp, 3, FigureName::of("network.connection.time ip=4 phase=setup placement=other_cpu")),
    (
        "TCP throughput",
        Bandwidth,
        0,
        FigureName::of("network.bandwidth.rate bytes=131072 direction=send ip=4 placement=other_cpu streams=1"),
    ),
    ("4 KiB cached", Kernel, 0, FigureName::of("file.read.block_time cache=warm order=random bytes=67108864")),
    ("4 KiB from disk", Device, 0, FigureName::of("file.read.block_time cache=direct order=random bytes=67108864")),
    ("4 KiB durable", Device, 3, FigureName::of("file.write.time how=overwrite_fdatasync quantile=p50")),
    ("disk, 32 deep", Device, 6, FigureName::of("file.read.depth_rate depth=32")),
    ("remote 4 KiB", Device, 0, FigureName::of("file.remote_read.block_time order=random")),
];

/// The costs that have a prediction, with their short names. Above `most`, those of the highest rank are left out.
pub fn predicted(predictions: &[Prediction], most: usize) -> Vec<(&'static str, &Prediction)> {
    let of = |asked: AskedCost| {
        let is = |found: &&Prediction| asked.figure.is(&found.metric, &found.labels);
        Some((asked, predictions.iter().find(is)?))
    };
    let mut found: Vec<_> = asked().filter_map(of).collect();
    while found.len() > most {
        // Of several with this rank, the last one.
        let least = (0..found.len()).max_by_key(|&place| found[place].0.rank).unwrap_or(0);
        found.remove(least);
    }
    found.into_iter().map(|(asked, prediction)| (asked.name, prediction)).collect()
}

/// A cost that is asked for.
#[derive(Debug, Clone, Copy)]
pub struct AskedCost {
    /// Short name.
    pub name: &'static str,
    /// What decides it.
    pub decides: Decides,
    /// As [`Cost`] has it.
    rank: u32,
    /// Its figure.
    pub figure: FigureName,
}

/// Every cost that is asked for.
pub fn asked() -> impl Iterator<Item = AskedCost> {
    ASKED.iter().map(|&(name, decides, rank, figure)| AskedCost { name, decides, rank, figure })
}

/// The short name of a result of one of these costs.
pub fn name_of(found: &str, labels: &Labels) -> Option<&'static str> {
    asked().find(|asked| asked.figure.is(found, labels)).map(|asked| asked.name)
}

/// Which figures of a run they are. Of two distances the near one is.
pub fn costs(sections: &[Section]) -> Vec<Cost> {
    let of = |AskedCost { name, rank, figure, .. }| {
        let found = figure.find(sections.iter().flat_map(|section| &section.metrics))?;
        Some(Cost { name: name.to_owned(), rank, metric: found.name.clone(), labels: found.labels.clone() })
    };
    asked().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::TABLE;

    #[test]
    fn short_names_fit_and_metrics_exist() {
        for AskedCost { name, figure, .. } in asked() {
            assert!(name.chars().count() <= 16, "{name}");
            let metric = figure.metric();
            assert!(TABLE.iter().any(|experiment| experiment.publication(metric).is_some()), "{metric}");
        }
    }
}
