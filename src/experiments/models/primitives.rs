//! Figures that others are made of.

use crate::experiments::figure_name::FigureName;

pub(in crate::experiments) const CYCLE: FigureName = FigureName::of("cpu.cycle_time");
pub(in crate::experiments) const CLOCK_CALL: FigureName =
    FigureName::of("cpu.timer.overhead method=clock_gettime_syscall");
pub(in crate::experiments) const KERNEL_ENTRY: FigureName =
    FigureName::of("os.system_call.time call=enosys after=same_call");
pub(in crate::experiments) const SWITCH: FigureName =
    FigureName::of("os.context_switch.time between=processes through=pipe placement=same_cpu");
pub(in crate::experiments) const IDLE_WAKE_UP: FigureName =
    FigureName::of("os.context_switch.time between=processes through=pipe target=idle").with("placement=same_cache");
pub(in crate::experiments) const AWAKE_WAKE_UP: FigureName =
    FigureName::of("os.context_switch.time between=processes through=pipe target=awake").with("placement=same_cache");
pub(in crate::experiments) const MEMORY_LOAD: FigureName = FigureName::of("memory.latency.level level=DRAM pages=huge");
pub(in crate::experiments) const DIRECT_READ: FigureName =
    FigureName::of("file.read.block_time cache=direct order=random bytes=16777216");
pub(in crate::experiments) const READ_FAULT: FigureName = FigureName::of("memory.page_fault.time kind=anonymous_read");
pub(in crate::experiments) const WRITE_FAULT: FigureName =
    FigureName::of("memory.page_fault.time kind=anonymous_write");
pub(in crate::experiments) const ECHO_ON_ONE_CPU: FigureName =
    FigureName::of("network.round_trip.time protocol=tcp bytes=1 ip=4 placement=same_cpu quantile=p50")
        .with("pacing=back_to_back path=loopback");
pub(in crate::experiments) const ECHO_ON_TWO_CPUS: FigureName = FigureName::of(
    "network.round_trip.time protocol=tcp bytes=1 ip=4 placement=other_cpu pacing=back_to_back quantile=p50",
)
.with("path=loopback");

/// All of them, each after those that it is predicted from.
pub(in crate::experiments) const PRIMITIVES: [FigureName; 12] = [
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
