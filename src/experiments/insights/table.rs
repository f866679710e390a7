//! Insights that are one comparison each.

use crate::experiments::prelude::*;

use super::super::consistency::Operand;
use super::super::figure_name::FigureName;
use super::super::models::primitives::{
    DIRECT_READ, ECHO_ON_ONE_CPU, ECHO_ON_TWO_CPUS, IDLE_WAKE_UP, KERNEL_ENTRY, MEMORY_LOAD, SWITCH, WRITE_FAULT,
};
use super::Clause::{Always, By, Guest, NoGuest, When, With};
use super::{Found, Insight, ROW};

const FORK_SLOPE: FigureName = FigureName::of("os.process_creation.per_page how=fork_wait");
const SPAWN: FigureName =
    FigureName::of("os.process_creation.time how=posix_spawn_wait image=static resident=67108864");
const SMALL_FORK: Operand = Operand::of("os.process_creation.time how=fork_wait resident=0 child=same_cpu");
const LEAST_SLACK: FigureName = FigureName::of("os.sleep.oversleep requested=100000 quantile=p50 slack=least");
const DURABLE: Operand = Operand::of("file.write.time how=overwrite_fdatasync quantile=p50");
const DURABLE_LATE: Operand = Operand::of("file.write.time how=overwrite_fdatasync quantile=p99");
/// etcd documentation, FAQ: the 99th percentile of wal_fsync_duration_seconds should be below 10 ms.
const ETCD: Operand = Operand::Number(10e6, Unit::Nanoseconds);

/// A sync that is over before a disk can have the block on its medium.
const EARLY_SYNC: Insight = Insight {
    usual: 1.2,
    weight: [0.7, 1.0],
    why: &[
        When(
            |machine| write_cache(machine) == Some("write through"),
            "The disk claims that it has no volatile write cache, so the kernel sends no flush.",
        ),
        When(
            |machine| write_cache(machine) == Some("write back"),
            "The disk has a write cache. Either its memory is protected, or it ignores the flush.",
        ),
        When(|machine| write_cache(machine).is_none(), "A cache below the file system answers in place of the medium."),
        Guest(" In a virtual machine it can be the memory of the host."),
    ],
    advice: &[Always("Find out whether acknowledged writes survive a loss of power before you rely on them.")],
    ..ROW
};

const FORK: Insight = Insight {
    // The pages of a gibibyte, over 10 ms.
    of: &[
        Operand::Figure(262_144.0, FORK_SLOPE),
        Operand::Number(10e6, Unit::Nanoseconds),
        Operand::of("os.process_creation.time how=fork_wait resident=268435456 pages=4k"),
        SMALL_FORK,
    ],
    text: "fork and wait take {2} in a parent with 256 MiB on 4 KiB pages, and {3} in a small one.",
    why: &[
        Always("fork copies the page table of the parent, and the exit of the child removes it."),
        With(" Up to 64 MiB, that takes {0} for each page.", &[FORK_SLOPE]),
        With(" posix_spawn from a parent of 64 MiB takes {0}.", &[SPAWN]),
    ],
    advice: &[Always("Use posix_spawn in large processes.")],
    kind: Some(["fork, 256 MiB", "fork + wait"]),
    ..ROW
};

pub(super) const ROWS: &[Insight] = &[
    Insight {
        of: &[Operand::one(IDLE_WAKE_UP), Operand::one(SWITCH)],
        usual: 3.0,
        text: "Waking a sleeping CPU takes {0}, {ratio} times a switch on the same CPU ({1}).",
        why: &[
            Guest(
                "An idle CPU of a virtual machine usually returns to the hypervisor, which has to schedule it again.",
            ),
            NoGuest("An idle CPU has to leave its sleep state first."),
            With(
                " A TCP round trip on the loopback takes {0} with both sides on one CPU and {1} on two.",
                &[ECHO_ON_ONE_CPU, ECHO_ON_TWO_CPUS],
            ),
            By(slow_wake_ups),
            When(
                |machine| machine.kernel.idle_driver.as_ref().is_some_and(|driver| driver.value == "haltpoll"),
                " A larger guest_halt_poll_ns keeps idle CPUs awake, and that uses CPU time.",
            ),
        ],
        advice: &[Always("Pin tasks that exchange messages to the same CPU.")],
        kind: Some(["wake idle CPU", "switch, same CPU"]),
        ..ROW
    },
    Insight {
        of: &[
            Operand::of("memory.map.time what=map_write_unmap pages=1 other_threads=1"),
            Operand::of("memory.map.time what=map_write_unmap pages=1 other_threads=0"),
        ],
        usual: 2.0,
        weight: [0.0, 1.0],
        text: "Mapping, writing and unmapping a page takes {0} while another thread of the process runs, and {1} alone.",
        why: &[
            Always("The kernel interrupts each CPU on which a thread of the process runs, and waits for it."),
            Guest(" In a guest, such an interrupt can be an exit to the hypervisor."),
        ],
        advice: &[Always("Keep and reuse memory in programs with several threads, and give it back in large pieces.")],
        ..ROW
    },
    Insight {
        of: &[
            Operand::of("memory.shared_line.time what=atomic_add apart=0 threads=2"),
            Operand::of("memory.shared_line.time what=atomic_add apart=256 threads=2"),
        ],
        usual: 5.0,
        weight: [0.0, 0.5],
        text: "Two threads that add to one word pay {0} for each addition, and {1} with words on separate cache lines.",
        why: &[Always(
            "The line moves between the caches of their cores. It does so too if the words differ and the line is the same.",
        )],
        advice: &[Always(
            "Give each thread a separate counter on a separate line, and add them up when they are read.",
        )],
        ..ROW
    },
    // Of 1 GiB.
    Insight {
        of: &[
            Operand::Figure(1024.0, FigureName::of("memory.page_fault.first_touch pages=4k")),
            Operand::Figure(1024.0, FigureName::of("memory.page_fault.first_touch pages=huge")),
        ],
        usual: 1.5,
        text: "The first touch of 1 GiB takes about {0} with 4 KiB pages and {1} with huge pages, {ratio} times less.",
        why: &[
            Guest("Each page costs a fault, which in a guest can also need work of the hypervisor."),
            NoGuest("Each page costs a fault, and a huge page takes the place of many small ones."),
            When(no_huge_pages, " Programs get no huge pages here (/sys/kernel/mm/transparent_hugepage/enabled)."),
            When(|machine| huge_pages(machine) == Some("madvise"), " Only programs that ask get huge pages here."),
        ],
        advice: &[
            When(always_huge_pages, "Align large buffers to the size of a huge page."),
            When(no_huge_pages, "Allow huge pages: set them to madvise."),
            When(
                |machine| !always_huge_pages(machine) && !no_huge_pages(machine),
                "Use madvise(MADV_HUGEPAGE) for large buffers.",
            ),
        ],
        ..ROW
    },
    Insight {
        of: &[Operand::one(WRITE_FAULT), Operand::one(KERNEL_ENTRY)],
        usual: 8.0,
        text: "The first write to a page takes {0}, as long as {ratio} empty system calls ({1}).",
        why: &[
            Guest("The hypervisor's page tables probably make each fault slower."),
            NoGuest("The kernel clears the page and changes the page table."),
        ],
        advice: &[Always("Reuse memory.")],
        kind: Some(["page fault", "system call"]),
        otherwise: true,
        ..ROW
    },
    Insight {
        of: &[
            Operand::of("file.read.block_time cache=cold order=random bytes=67108864"),
            Operand::of("file.read.block_time cache=cold order=sequential bytes=67108864"),
        ],
        usual: 5.0,
        weight: [0.0, 0.5],
        text: "Reading 4 KiB that are not cached takes {0} in random order and {1} in sequential order.",
        why: &[Always("In sequential order the kernel reads"), By(read_ahead), Always(" ahead.")],
        advice: &[Always(
            "Read files in order, or announce random reads with posix_fadvise and keep several in flight.",
        )],
        ..ROW
    },
    Insight {
        of: &[
            Operand::of("memory.bandwidth.rate level=DRAM operation=write_nt threads=1"),
            Operand::of("memory.bandwidth.rate level=DRAM operation=write threads=1"),
        ],
        usual: 1.5,
        text: "One CPU writes {1} to memory, and {0} with stores that bypass the caches ({ratio} times).",
        why: &[Always("An ordinary store reads its cache line first, so it needs the memory twice.")],
        advice: &[Always("Use non-temporal stores for large data that is not read again soon.")],
        ..ROW
    },
    Insight {
        of: &[Operand::of("file.write.time how=direct quantile=p50"), DURABLE],
        text: "fdatasync does not wait for the disk: with an overwrite of 4 KiB it takes {1}, and a direct write takes {0}.",
        ..EARLY_SYNC
    },
    Insight {
        of: &[Operand::one(DIRECT_READ), DURABLE],
        text: "fdatasync does not wait for the medium of the disk: with an overwrite of 4 KiB it takes {1}, and a direct read \
               takes {0}.",
        otherwise: true,
        ..EARLY_SYNC
    },
    Insight {
        of: &[DURABLE_LATE, ETCD],
        weight: [1.0, 1.0],
        text: "The disk is too slow for etcd: one in a hundred writes with fdatasync takes {0} or more.",
        why: &[Always("Its documentation asks for less than 10 ms in 99 of 100 writes of the log.")],
        advice: &[Always("Give databases with a log a separate disk that has protected memory.")],
        ..ROW
    },
    Insight {
        of: &[ETCD, DURABLE_LATE],
        weight: [0.0, 0.0],
        text: "The disk is fast enough for etcd: one in a hundred writes with fdatasync takes {1} or more, and {0} are allowed.",
        why: &[Always("Its documentation asks for less than 10 ms in 99 of 100 writes of the log.")],
        advice: &[Always("Measure again with the usual load, because other writes share the disk.")],
        ..ROW
    },
    // Over the timer slack that the kernel gives a task (man 2 prctl, PR_SET_TIMERSLACK).
    Insight {
        of: &[
            Operand::of("os.sleep.oversleep requested=100000 quantile=p50 slack=default"),
            Operand::Number(50_000.0, Unit::Nanoseconds),
        ],
        text: "A sleep of 100 µs ends {0} late.",
        why: &[
            Always("The kernel adds a timer slack, and an idle CPU takes time to wake."),
            With(" With the least slack it ends {0} late.", &[LEAST_SLACK]),
        ],
        advice: &[Always(
            "Set a smaller slack with prctl(PR_SET_TIMERSLACK), and wait for events in place of short sleeps.",
        )],
        ..ROW
    },
    Insight {
        of: &[
            Operand::of("os.channel.time through=unix_stream bytes=1"),
            Operand::of("os.channel.time through=pipe bytes=1"),
        ],
        usual: 1.5,
        weight: [0.0, 0.5],
        text: "A byte through a UNIX stream socket takes {0}, {ratio} times as long as through a pipe ({1}).",
        why: &[Always(
            "A socket makes a buffer for each message and accounts for it. A pipe writes into a page that it keeps.",
        )],
        advice: &[Always("Use a pipe between two processes of one machine, or send many small messages in one call.")],
        ..ROW
    },
    FORK,
    Insight {
        of: &[
            FORK.of[0],
            FORK.of[1],
            Operand::of("os.process_creation.time how=fork_wait resident=67108864 pages=4k"),
            SMALL_FORK,
        ],
        text: "fork and wait take {2} in a parent with 64 MiB on 4 KiB pages, and {3} in a small one.",
        kind: None,
        otherwise: true,
        ..FORK
    },
    Insight {
        of: &[
            Operand::of("os.process_creation.time how=fork_exec_wait image=dynamic child=same_cpu"),
            Operand::of("os.process_creation.time how=fork_exec_wait image=static child=same_cpu"),
        ],
        usual: 2.0,
        weight: [0.0, 0.6],
        text: "Starting a dynamically linked program takes {0}, {ratio} times as long as a static one ({1}).",
        why: &[Always(
            "The loader maps libraries and resolves symbols, and libraries start up. The static program has two instructions.",
        )],
        advice: &[Always("Statically link tools that run often and briefly, or keep them running.")],
        ..ROW
    },
    Insight {
        of: &[Operand::one(MEMORY_LOAD), Operand::of("memory.latency.level level=L1")],
        usual: 100.0,
        always: true,
        weight: [0.3, 1.0],
        text: "A load from memory takes {0}, as long as {ratio} L1 loads ({1}).",
        why: &[Always("The load misses every cache level.")],
        advice: &[Always("Keep data that is used together in the same cache lines, and working sets in the caches.")],
        ..ROW
    },
    Insight {
        of: &[Operand::of("memory.latency.level level=DRAM pages=4k"), Operand::one(MEMORY_LOAD)],
        usual: 1.15,
        weight: [0.0, 2.0],
        text: "Huge pages make random loads from memory {ratio} times faster ({1} against {0}).",
        why: &[Always("With 4 KiB pages most loads also miss the TLB.")],
        advice: &[Always("Use madvise(MADV_HUGEPAGE) for large heaps with random access.")],
        ..ROW
    },
    Insight {
        of: &[Operand::of("file.read.depth_rate depth=32"), Operand::of("file.read.depth_rate depth=1")],
        usual: 2.0,
        weight: [0.0, 0.5],
        text: "The device serves 32 concurrent reads {ratio} times as fast as one read at a time ({0}, not {1}).",
        why: &[Always("A single reader waits each time for the whole path to the device.")],
        advice: &[Always("Keep several reads in flight: io_uring, threads, or read-ahead.")],
        ..ROW
    },
    Insight {
        of: &[
            Operand::of("cpu.timer.overhead method=clock_gettime"),
            Operand::Figure(0.5, FigureName::of("cpu.timer.overhead method=clock_gettime_syscall")),
        ],
        weight: [1.0, 1.0],
        text: "Reading the clock takes {0}, about as long as a system call.",
        why: &[Always("Usually the kernel does not trust the time-stamp counter, so the vDSO cannot answer.")],
        advice: &[Always(
            "Check /sys/devices/system/clocksource/clocksource0/current_clocksource, and choose tsc if it is reliable.",
        )],
        ..ROW
    },
    Insight {
        of: &[Operand::of("cpu.timer.resolution method=clock_gettime"), Operand::of("memory.latency.level level=L1")],
        usual: 5.0,
        weight: [0.0, 0.5],
        text: "The clock of the system advances in steps of {0}, as long as {ratio} L1 loads. It cannot time a single shorter event.",
        why: &[Always("The counter behind it has this step, whatever unit the clock is read in.")],
        advice: &[Always("Time many operations together, and divide.")],
        ..ROW
    },
];

/// What a wake-up takes at its worst, where that is far from its middle.
fn slow_wake_ups(found: &Found<'_>) -> Option<String> {
    let there = found.settled(IDLE_WAKE_UP)?;
    let quantiles = there.quantiles.filter(|quantiles| quantiles.p99 > 1.5 * there.value)?;
    Some(format!(" In 1 % of the batches a wake-up took {} or more.", Shown::of(quantiles.p99, there.unit)))
}

fn read_ahead(found: &Found<'_>) -> Option<String> {
    let bytes = found.machine.scratch()?.device.as_ref()?.read_ahead_bytes?;
    Some(format!(" up to {}", Shown::of(bytes as f64, Unit::Bytes)))
}

/// What the disk of the test files claims of its write cache.
fn write_cache(machine: &Machine) -> Option<&str> {
    machine.scratch()?.device.as_ref()?.write_cache.as_deref()
}

/// The setting of transparent huge pages.
fn huge_pages(machine: &Machine) -> Option<&str> {
    machine.memory.transparent_huge_pages.as_ref().map(|fact| fact.value.as_str())
}

fn no_huge_pages(machine: &Machine) -> bool {
    huge_pages(machine) == Some("never")
}

fn always_huge_pages(machine: &Machine) -> bool {
    huge_pages(machine) == Some("always")
}
