//! Figures that others are made of.

use crate::experiments::figure_name::FigureName;

pub const CYCLE: FigureName = FigureName::of("cpu.cycle_time");
pub const CLOCK_CALL: FigureName = FigureName::of("cpu.timer.overhead method=clock_gettime_syscall");
pub const KERNEL_ENTRY: FigureName = FigureName::of("os.system_call.time call=enosys after=same_call");
pub const SWITCH: FigureName =
    FigureName::of("os.context_switch.time between=processes through=pipe placement=same_cpu");
pub const IDLE_WAKE_UP: FigureName =
    FigureName::of("os.context_switch.time between=processes through=pipe target=idle").with("placement=same_cache");
pub const AWAKE_WAKE_UP: FigureName =
    FigureName::of("os.context_switch.time between=processes through=pipe target=awake").with("placement=same_cache");
pub const MEMORY_LOAD: FigureName = FigureName::of("memory.latency.level level=DRAM pages=huge");
pub const DIRECT_READ: FigureName = FigureName::of("file.read.block_time cache=direct order=random bytes=16777216");
pub const READ_FAULT: FigureName = FigureName::of("memory.page_fault.time kind=anonymous_read");
pub const WRITE_FAULT: FigureName = FigureName::of("memory.page_fault.time kind=anonymous_write");
pub const ECHO_ON_ONE_CPU: FigureName =
    FigureName::of("network.round_trip.time protocol=tcp bytes=1 ip=4 placement=same_cpu quantile=p50")
        .with("pacing=back_to_back path=loopback");
pub const ECHO_ON_TWO_CPUS: FigureName = FigureName::of(
    "network.round_trip.time protocol=tcp bytes=1 ip=4 placement=other_cpu pacing=back_to_back quantile=p50",
)
.with("path=loopback");

/// All of them, each after those that it is predicted from.
pub const PRIMITIVES: [FigureName; 12] = [
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
