//! Figures that others are made of.

use crate::experiments::prelude::*;

/// A figure that others are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::experiments) struct Primitive {
    pub(in crate::experiments) metric: &'static str,
    /// Labels that it has among others.
    labels: &'static [(&'static str, &'static str)],
    /// The others, as most records have them.
    others: &'static [(&'static str, &'static str)],
}

pub(in crate::experiments) const CYCLE: Primitive = Primitive::of("cpu.cycle_time", &[]);
pub(in crate::experiments) const CLOCK_CALL: Primitive =
    Primitive::of("cpu.timer.overhead", &[("method", "clock_gettime_syscall")]);
pub(in crate::experiments) const KERNEL_ENTRY: Primitive =
    Primitive::of("os.system_call.time", &[("call", "enosys"), ("after", "same_call")]);
pub(in crate::experiments) const SWITCH: Primitive = Primitive::of(
    "os.context_switch.time",
    &[("between", "processes"), ("through", "pipe"), ("placement", "same_cpu")],
);
pub(in crate::experiments) const IDLE_WAKE_UP: Primitive =
    Primitive::of("os.context_switch.time", &[("between", "processes"), ("through", "pipe"), ("target", "idle")])
        .with(&[("placement", "same_cache")]);
pub(in crate::experiments) const AWAKE_WAKE_UP: Primitive =
    Primitive::of("os.context_switch.time", &[("between", "processes"), ("through", "pipe"), ("target", "awake")])
        .with(&[("placement", "same_cache")]);
pub(in crate::experiments) const MEMORY_LOAD: Primitive =
    Primitive::of("memory.latency.level", &[("level", "DRAM"), ("pages", "huge")]);
pub(in crate::experiments) const DIRECT_READ: Primitive =
    Primitive::of("file.read.block_time", &[("cache", "direct"), ("order", "random"), ("bytes", "16777216")]);
pub(in crate::experiments) const READ_FAULT: Primitive =
    Primitive::of("memory.page_fault.time", &[("kind", "anonymous_read")]);
pub(in crate::experiments) const WRITE_FAULT: Primitive =
    Primitive::of("memory.page_fault.time", &[("kind", "anonymous_write")]);
pub(in crate::experiments) const ECHO_ON_ONE_CPU: Primitive = Primitive::of(
    "network.round_trip.time",
    &[("protocol", "tcp"), ("bytes", "1"), ("ip", "4"), ("placement", "same_cpu"), ("quantile", "p50")],
)
.with(&[("pacing", "back_to_back"), ("path", "loopback")]);
pub(in crate::experiments) const ECHO_ON_TWO_CPUS: Primitive = Primitive::of(
    "network.round_trip.time",
    &[
        ("protocol", "tcp"),
        ("bytes", "1"),
        ("ip", "4"),
        ("placement", "other_cpu"),
        ("pacing", "back_to_back"),
        ("quantile", "p50"),
    ],
)
.with(&[("path", "loopback")]);

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
        Primitive { metric, labels, others: &[] }
    }

    /// With the labels that most records have besides.
    const fn with(self, others: &'static [(&'static str, &'static str)]) -> Self {
        Primitive { others, ..self }
    }

    /// All labels that it has in most records.
    pub(super) fn usual_labels(&self) -> Labels {
        self.labels.iter().chain(self.others).fold(Labels::none(), |labels, (key, value)| labels.with(key, value))
    }

    /// Whether a figure is this primitive, at any distance: the usual one stands first among the figures of a run.
    pub(in crate::experiments) fn is(&self, metric: &str, labels: &Labels) -> bool {
        metric == self.metric && self.has_labels(labels)
    }

    pub(in crate::experiments) fn has_labels(&self, labels: &Labels) -> bool {
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}
