//! Figures that others are made of.

use crate::experiments::prelude::*;

/// A figure that others are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::experiments) struct Primitive {
    pub(in crate::experiments) metric: &'static str,
    /// Labels that it has among others.
    labels: &'static [(&'static str, &'static str)],
}

pub(in crate::experiments) const CYCLE: Primitive = Primitive { metric: "cpu.cycle_time", labels: &[] };
pub(in crate::experiments) const CLOCK_CALL: Primitive =
    Primitive { metric: "cpu.timer.overhead", labels: &[("method", "clock_gettime_syscall")] };
pub(in crate::experiments) const KERNEL_ENTRY: Primitive =
    Primitive { metric: "os.system_call.time", labels: &[("call", "enosys"), ("after", "same_call")] };
pub(in crate::experiments) const SWITCH: Primitive = Primitive {
    metric: "os.context_switch.time",
    labels: &[("between", "processes"), ("through", "pipe"), ("placement", "same_cpu")],
};
pub(in crate::experiments) const IDLE_WAKE_UP: Primitive = Primitive {
    metric: "os.context_switch.time",
    labels: &[("between", "processes"), ("through", "pipe"), ("target", "idle")],
};
pub(in crate::experiments) const AWAKE_WAKE_UP: Primitive = Primitive {
    metric: "os.context_switch.time",
    labels: &[("between", "processes"), ("through", "pipe"), ("target", "awake")],
};
pub(in crate::experiments) const MEMORY_LOAD: Primitive =
    Primitive { metric: "memory.latency.level", labels: &[("level", "DRAM"), ("pages", "huge")] };
pub(in crate::experiments) const DIRECT_READ: Primitive = Primitive {
    metric: "file.read.block_time",
    labels: &[("cache", "direct"), ("order", "random"), ("bytes", "16777216")],
};
pub(in crate::experiments) const READ_FAULT: Primitive =
    Primitive { metric: "memory.page_fault.time", labels: &[("kind", "anonymous_read")] };
pub(in crate::experiments) const WRITE_FAULT: Primitive =
    Primitive { metric: "memory.page_fault.time", labels: &[("kind", "anonymous_write")] };
pub(in crate::experiments) const ECHO_ON_ONE_CPU: Primitive = Primitive {
    metric: "network.round_trip.time",
    labels: &[("protocol", "tcp"), ("bytes", "1"), ("ip", "4"), ("placement", "same_cpu"), ("quantile", "p50")],
};
pub(in crate::experiments) const ECHO_ON_TWO_CPUS: Primitive = Primitive {
    metric: "network.round_trip.time",
    labels: &[
        ("protocol", "tcp"),
        ("bytes", "1"),
        ("ip", "4"),
        ("placement", "other_cpu"),
        ("pacing", "back_to_back"),
        ("quantile", "p50"),
    ],
};

/// All of them, each after those that it is predicted from.
pub(in crate::experiments) const PRIMITIVES: [Primitive; 12] = [
    CYCLE,
    CLOCK_CALL,
    KERNEL_ENTRY,
    SWITCH,
    IDLE_WAKE_UP,
    AWAKE_WAKE_UP,
    MEMORY_LOAD,
    DIRECT_READ,
    READ_FAULT,
    WRITE_FAULT,
    ECHO_ON_ONE_CPU,
    ECHO_ON_TWO_CPUS,
];

impl Primitive {
    /// The figure with a name and some labels.
    pub(in crate::experiments) const fn of(
        metric: &'static str,
        labels: &'static [(&'static str, &'static str)],
    ) -> Self {
        Primitive { metric, labels }
    }

    /// Whether a figure is this primitive, at any distance: the usual one stands first among the figures of a run.
    pub(in crate::experiments) fn is(&self, metric: &str, labels: &Labels) -> bool {
        metric == self.metric && self.has_labels(labels)
    }

    pub(in crate::experiments) fn has_labels(&self, labels: &Labels) -> bool {
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}
