//! The rules. Numbers are those of the catalogue in docs/reference.md.

use super::{Invariant, Operand, Relation, Requirement};
use crate::experiments::figure_name::FigureName;
use crate::experiments::models::primitives::{DIRECT_READ, MEMORY_LOAD, SWITCH, WRITE_FAULT};
use crate::experiments::prelude::*;

const ENOSYS: FigureName = FigureName::of("os.system_call.time call=enosys");
const CALL: FigureName = FigureName::of("cpu.procedure_call.time args=0 chain=throughput code=registers");
const FORK_WAIT: FigureName = FigureName::of("os.process_creation.time how=fork_wait resident=0 child=same_cpu");
const NET: FigureName = FigureName::of("os.context_switch.net between=processes through=pipe placement=same_cpu");
const PIPE: FigureName = FigureName::of("os.context_switch.pipe_overhead");
const COPY: FigureName = FigureName::of("memory.bandwidth.rate operation=copy threads=1 level=L2");
const WRITE: FigureName = FigureName::of("memory.bandwidth.rate operation=write threads=1 level=L2");
const LOOPBACK_TRIP: FigureName =
    FigureName::of("network.round_trip.time protocol=tcp path=loopback pacing=back_to_back quantile=p50");
const REMOTE_TRIP: FigureName =
    FigureName::of("network.round_trip.time protocol=tcp path=remote pacing=back_to_back quantile=p50");
const SETUP: FigureName = FigureName::of("network.connection.time phase=setup path=remote");
const CACHE: FigureName = FigureName::of("file.cache_size.bytes mode=full");
const MEMORY: Operand =
    Operand::Machine("memory of the machine", |machine| Some(machine.memory.total_bytes.as_ref()?.value as f64));
const GROUP_LIMIT: Operand = Operand::Machine("memory limit of the control group", |machine| {
    Some(machine.limits.memory_bytes.as_ref()?.value as f64)
});
const LENT_INTERCEPT: FigureName = FigureName::of("file.remote_read.intercept order=random via=peer");
const REMOTE_RECEIVE: FigureName = FigureName::of("network.bandwidth.rate direction=receive path=remote streams=1");

macro_rules! pair {
    ([$($left:expr),+] $relation:ident $(($slack:expr))? [$($right:expr),+]) => {
        Requirement { left: &[$($left),+], relation: Relation::$relation $(($slack))?, right: &[$($right),+] }
    };
}

macro_rules! latency {
    ($level:literal, $pages:literal) => {
        Operand::of(concat!("memory.latency.level level=", $level, " pages=", $pages))
    };
}

macro_rules! bandwidth {
    ($level:literal, $operation:literal) => {
        Operand::of(concat!("memory.bandwidth.rate threads=1 level=", $level, " operation=", $operation))
    };
}

macro_rules! levels {
    ($($near:literal, $far:literal);+) => {
        &[
            $(
                pair!([latency!($near, "4k")] Below [latency!($far, "4k")]),
                pair!([latency!($near, "huge")] Below [latency!($far, "huge")]),
                pair!([bandwidth!($far, "read")] Below [bandwidth!($near, "read")]),
                pair!([bandwidth!($far, "write")] Below [bandwidth!($near, "write")]),
                pair!([bandwidth!($far, "copy")] Below [bandwidth!($near, "copy")]),
            )+
            // One miss after the other is the least that a core can keep in flight.
            pair!([bandwidth!("DRAM", "read")] AtLeast(0.0) [Operand::Rate(64.0, MEMORY_LOAD)]),
        ]
    };
}

/// Every rule, in the order of the catalogue.
pub(super) const RULES: &[Invariant] = &[
    Invariant {
        id: "C1",
        rule: "A loop iteration takes at least half a cycle, and a call at least a cycle. Entering the kernel takes \
               at least as long as ten calls. No system call is cheaper than a refused one. A switch takes at least \
               as long as two refused calls",
        pairs: &[
            pair!([Operand::Cycles(1.0, FigureName::of("cpu.loop.overhead code=registers"))] AtLeast(0.0)
                [Operand::Number(0.5, Unit::Cycles)]),
            pair!([Operand::Cycles(1.0, CALL)] AtLeast(0.0) [Operand::Number(1.0, Unit::Cycles)]),
            pair!([Operand::one(ENOSYS)] AtLeast(0.0) [Operand::Figure(10.0, CALL)]),
            pair!([Operand::of("os.system_call.time call=getppid")] AtLeast(0.03) [Operand::one(ENOSYS)]),
            pair!([Operand::one(NET)] AtLeast(0.0) [Operand::Figure(2.0, ENOSYS)]),
        ],
    },
    Invariant {
        id: "C2",
        rule: "Latency rises and bandwidth falls from the first cache to memory. Memory delivers at least one line \
               per latency",
        pairs: levels!("L1", "L2"; "L2", "L3"; "L3", "DRAM"),
    },
    Invariant {
        id: "C3",
        rule: "A thread is cheaper than a process, and a process is cheaper than one that executes another program",
        pairs: &[
            pair!([Operand::of("os.thread_creation.time how=create_join")] Below [Operand::one(FORK_WAIT)]),
            pair!([Operand::one(FORK_WAIT)] Below [Operand::of("os.process_creation.time how=fork_exec_wait image=static child=same_cpu")]),
        ],
    },
    Invariant {
        id: "C4",
        rule: "A fault takes at least as long as a kernel entry. A fault from disk takes a direct read plus a fault \
               on a cached page. Copy-on-write takes at least a zero-filled page with a copy in place of the \
               clearing",
        pairs: &[
            pair!([Operand::one(WRITE_FAULT)] AtLeast(0.0) [Operand::one(ENOSYS)]),
            // A device answers in other times a minute later. G40 compares with reads right next to the faults.
            pair!([Operand::of("memory.page_fault.time kind=file_cold")] Near(0.5)
                [Operand::one(DIRECT_READ), Operand::of("memory.page_fault.time kind=file_cached_single")]),
            pair!([Operand::of("memory.page_fault.time kind=copy_on_write")] AtLeast(0.3)
                [Operand::one(WRITE_FAULT), Operand::Transfer(1.0, 4096.0, COPY), Operand::Transfer(-1.0, 4096.0, WRITE)]),
        ],
    },
    Invariant {
        id: "C5",
        rule: "Copying the table entry of a page costs less than faulting the page in",
        pairs: &[pair!([Operand::of("os.process_creation.per_page how=fork")] Below [Operand::one(WRITE_FAULT)])],
    },
    Invariant {
        id: "C6",
        rule: "A handoff through a pipe costs the switch plus the pipe. A round trip over loopback takes at least \
               two handoffs",
        pairs: &[
            pair!([Operand::one(SWITCH)] Near(0.05) [Operand::one(NET), Operand::one(PIPE)]),
            pair!([Operand::one(LOOPBACK_TRIP)] AtLeast(0.0) [Operand::Figure(2.0, SWITCH)]),
        ],
    },
    Invariant {
        id: "C7",
        rule: "A remote round trip takes longer than one over loopback. Connection setup takes about one round trip, \
               and an orderly close at least one",
        pairs: &[
            pair!([Operand::one(LOOPBACK_TRIP)] Below [Operand::one(REMOTE_TRIP)]),
            pair!([Operand::one(SETUP)] AtLeast(0.1) [Operand::one(REMOTE_TRIP)]),
            pair!([Operand::one(SETUP)] Below [Operand::Figure(1.5, REMOTE_TRIP)]),
            pair!([Operand::of("network.connection.time phase=teardown path=remote")] AtLeast(0.1) [Operand::one(REMOTE_TRIP)]),
        ],
    },
    Invariant {
        id: "C8",
        rule: "Loopback moves bytes no faster than the second-level cache copies them",
        pairs: &[
            pair!([Operand::one(COPY)] AtLeast(0.0) [Operand::of("network.bandwidth.rate direction=receive path=loopback streams=1 bytes=131072")]),
            pair!([Operand::one(COPY)] AtLeast(0.0) [Operand::of("network.bandwidth.rate direction=send path=loopback streams=1 bytes=131072")]),
        ],
    },
    Invariant {
        id: "C9",
        rule: "A cached file is read no faster than the second-level cache copies",
        pairs: &[pair!([Operand::one(COPY)] AtLeast(0.1)
            [Operand::of("file.read.rate order=sequential cache=warm")])],
    },
    Invariant {
        id: "C10",
        rule: "The file cache fits into memory and into the limit of the control group",
        pairs: &[
            pair!([MEMORY] AtLeast(0.0) [Operand::one(CACHE)]),
            pair!([GROUP_LIMIT] AtLeast(0.0) [Operand::one(CACHE)]),
            pair!([Operand::Number(67_108_864.0, Unit::Bytes)] AtLeast(0.0) [Operand::of("file.cache_size.bytes mode=bounded limit=67108864")]),
            pair!([Operand::Number(134_217_728.0, Unit::Bytes)] AtLeast(0.0) [Operand::of("file.cache_size.bytes mode=bounded limit=134217728")]),
            pair!([Operand::Number(268_435_456.0, Unit::Bytes)] AtLeast(0.0) [Operand::of("file.cache_size.bytes mode=bounded limit=268435456")]),
        ],
    },
    Invariant {
        id: "C11",
        rule: "Each block read from another machine waits for a round trip, and for its bytes at the rate of the \
               path",
        pairs: &[
            pair!([Operand::of("file.remote_read.network_penalty order=random via=peer bytes=4096")] AtLeast(0.1) [Operand::one(REMOTE_TRIP)]),
            pair!([Operand::one(LENT_INTERCEPT)] AtLeast(0.1) [Operand::one(REMOTE_TRIP)]),
            pair!([Operand::one(LENT_INTERCEPT)] Below [Operand::Figure(3.0, REMOTE_TRIP)]),
            // What a byte adds in addition to the path, such as copies, has no bound. What the path takes has one.
            pair!([Operand::of("file.remote_read.per_byte order=random via=peer")] AtLeast(0.3)
                [Operand::Transfer(1.0, 1.0, REMOTE_RECEIVE)]),
        ],
    },
    Invariant {
        id: "C12",
        rule: "One process alone reads about as fast as the experiment on file reads. A shared disk may change between the two \
               experiments",
        pairs: &[
            pair!([Operand::of("file.contention.block_time order=sequential processes=1")] Near(0.5)
                [Operand::of("file.read.block_time order=sequential cache=direct bytes=16777216")]),
            pair!([Operand::of("file.contention.block_time order=random processes=1")] Near(0.5)
                [Operand::one(DIRECT_READ)]),
        ],
    },
    Invariant {
        id: "C13",
        rule: "A cycle lasts one period of the core clock. The same clock read costs about the same in two \
               experiments, regardless of the state of the branch predictors",
        pairs: &[
            pair!([Operand::of("cpu.cycle_time")] Near(0.01)
                [Operand::Period(1.0, FigureName::of("cpu.frequency.core"))]),
            pair!([Operand::of("os.system_call.time call=clock_gettime")] Near(0.6)
                [Operand::of("cpu.timer.overhead method=clock_gettime_syscall")]),
        ],
    },
    Invariant {
        id: "C14",
        rule: "A write and a read through a channel take at least as long as two kernel entries, and more bytes take longer. \
               They cost about the same in two experiments. Bytes through a channel are copied twice",
        pairs: &[
            pair!([Operand::of("os.channel.time through=pipe bytes=1")] AtLeast(0.0) [Operand::Figure(2.0, ENOSYS)]),
            // Seen within 5 % on one core design, so other designs get room.
            pair!([Operand::of("os.channel.time through=pipe bytes=1")] Near(0.5) [Operand::one(PIPE)]),
            pair!([Operand::of("os.channel.time through=eventfd bytes=8")] Near(0.5) [Operand::of("os.context_switch.eventfd_overhead")]),
            pair!([Operand::of("os.channel.time through=pipe bytes=1")] Below [Operand::of("os.channel.time through=pipe bytes=65536")]),
            pair!([Operand::of("os.channel.time through=unix_stream bytes=1")] Below [Operand::of("os.channel.time through=unix_stream bytes=65536")]),
            pair!([Operand::of("os.channel.time through=pipe bytes=65536")] AtLeast(0.5) [Operand::Transfer(2.0, 65_536.0, COPY)]),
            pair!([Operand::of("os.channel.time through=unix_stream bytes=65536")] AtLeast(0.5) [Operand::Transfer(2.0, 65_536.0, COPY)]),
        ],
    },
    Invariant {
        id: "C15",
        rule: "A lock in user mode costs less than a kernel entry, and a lock on a file costs more. A signal that a handler catches \
               takes at least as long as two kernel entries",
        pairs: &[
            pair!([Operand::of("os.lock.time what=mutex")] Below [Operand::one(ENOSYS)]),
            pair!([Operand::of("os.lock.time what=file_lock")] AtLeast(0.0) [Operand::one(ENOSYS)]),
            pair!([Operand::of("os.lock.time what=range_lock")] AtLeast(0.0) [Operand::one(ENOSYS)]),
            pair!([Operand::of("os.signal.time how=deliver_self")] AtLeast(0.0) [Operand::Figure(2.0, ENOSYS)]),
        ],
    },
];
