//! The constants table: numbers that predictions take from the literature, each with its range and its source.
//!
//! A prediction prefers a fact of this machine or a figure of this run; a constant is what is left. All are overridden by
//! measurement as soon as an experiment publishes the quantity.

use crate::machine::{CoreClass, Machine, Medium};
use crate::results::prediction::Basis;
use crate::results::quantity::{Labels, Nanoseconds};

use super::Foreknowledge;

/// One number with its range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constant {
    /// Name in prediction terms.
    pub name: &'static str,
    /// Expected value, in `unit`.
    pub value: f64,
    /// Lowest value that would not surprise; at most `value`.
    pub low: f64,
    /// Highest value that would not surprise; at least `value`.
    pub high: f64,
    /// Unit: `cycles`, `ns`, or a count: `lines`, `per cycle`, `B/cycle`, `times`.
    pub unit: &'static str,
    /// Where it is from.
    pub source: &'static str,
}

macro_rules! constants {
    ($($(#[$about:meta])* $name:ident = $value:literal in $low:literal ..= $high:literal $unit:literal, $source:literal;)+) => {
        $($(#[$about])* pub const $name: Constant = Constant {
            name: stringify!($name), value: $value, low: $low, high: $high, unit: $unit, source: $source,
        };)+
        /// Every constant, in the order of this file.
        pub const ALL: &[Constant] = &[$($name),+];
    };
}

constants! {
    /// One reading of the time-stamp counter, back to back.
    COUNTER_READING = 30.0 in 15.0 ..= 60.0 "cycles", "uops.info: RDTSC, Intel 18–42, AMD Zen 35–41 cycles";
    /// The same on AMD Zen.
    COUNTER_READING_ZEN = 36.0 in 30.0 ..= 45.0 "cycles", "uops.info: RDTSC, AMD Zen 35–41 cycles";
    /// What RDTSCP adds to RDTSC: waiting for earlier instructions, reading TSC_AUX.
    ORDERED_READING = 18.0 in 2.0 ..= 45.0 "cycles", "uops.info: RDTSCP against RDTSC";
    /// An LFENCE with nothing in flight but the instruction before it.
    LOAD_FENCE = 15.0 in 4.0 ..= 40.0 "cycles", "uops.info: LFENCE; grows with what is in flight";
    /// CPUID on the hardware itself.
    CPUID = 120.0 in 70.0 ..= 250.0 "cycles", "Agner Fog, instruction tables: CPUID 100–250 cycles";
    /// CPUID in a guest: an exit to the hypervisor and back.
    CPUID_EXIT = 3000.0 in 1200.0 ..= 40_000.0 "cycles", "Intel SDM vol. 3, 26.1.2: CPUID exits unconditionally; exit round trips of 1000–3000 cycles, many times that under nested virtualisation";
    /// Arithmetic of the vDSO clock around its counter reading: sequence check, scale, add.
    VDSO_ARITHMETIC = 25.0 in 8.0 ..= 60.0 "cycles", "Linux lib/vdso/gettimeofday.c: about 40 instructions";
    /// The coarse clock: the same without a counter reading.
    VDSO_COARSE = 12.0 in 4.0 ..= 40.0 "cycles", "Linux lib/vdso/gettimeofday.c, do_coarse";
    /// Entering and leaving the kernel.
    KERNEL_ROUND_TRIP = 120.0 in 60.0 ..= 1500.0 "cycles", "70–150 cycles without page-table isolation; 200–400 more with it, and more again under nested virtualisation";
    /// What the kernel does for clock_gettime between entry and exit.
    KERNEL_CLOCK_SERVICE = 150.0 in 50.0 ..= 900.0 "cycles", "Linux kernel/time/posix-timers.c: counter reading, copy to user space; mitigations at indirect calls multiply it";
    /// Part of a clock read by real system call that entering and leaving the kernel takes: what slows the way in, such as
    /// mitigations, slows the way through the kernel too, so the part is steadier than the difference.
    KERNEL_ENTRY_SHARE = 0.35 in 0.15 ..= 0.7 "times", "refused calls of 60–100 ns beside clock_gettime calls of 170–300 ns on kernels with mitigations; nearer two thirds without";
    /// The first return after the kernel ran: nothing where return predictions survive, else a wrong prediction, and where
    /// returns are untrained on every entry a wait for the address besides.
    RETURN_AFTER_KERNEL = 30.0 in 0.0 ..= 250.0 "cycles", "Linux Documentation/admin-guide/hw-vuln/srso.rst; a mispredicted branch costs 10 to 25 cycles";
    /// Step of the time-stamp counter on AMD Zen: the counter is a reference clock of 100 MHz times a whole number.
    COUNTER_STEP_ZEN = 10.0 in 0.2 ..= 10.5 "ns", "AMD PPR, P0 frequency in units of the reference clock; seen as steps of 22 to 38 ticks";
    /// Step of the time-stamp counter on Intel: interpolated from a crystal to single ticks or pairs of them.
    COUNTER_STEP_INTEL = 0.7 in 0.2 ..= 45.0 "ns", "Intel SDM vol. 3B, 19.7.3: crystal of 19.2 to 38.4 MHz, scaled";
    /// Step of a counter of which nothing else is known.
    COUNTER_STEP_UNKNOWN = 10.0 in 0.2 ..= 60.0 "ns", "Arm generic timers of 25 MHz to 1 GHz";
    /// Finest step that the kernel's clocks express.
    NANOSECOND = 1.0 in 1.0 ..= 1.0 "ns", "clock_gettime(2): struct timespec counts nanoseconds";
    /// Step of the coarse clocks: one tick of the kernel.
    KERNEL_TICK = 4_000_000.0 in 1_000_000.0 ..= 10_000_000.0 "ns", "Linux kernel/Kconfig.hz: HZ of 100 to 1000";
    /// Conversion of a timespec into an Instant and a difference.
    INSTANT_ARITHMETIC = 8.0 in 0.0 ..= 30.0 "cycles", "Rust std, sys/pal/unix/time.rs: checks and a 128-bit sum";
    /// A taken branch, predicted.
    TAKEN_BRANCH = 1.0 in 0.5 ..= 2.0 "cycles", "Agner Fog, microarchitecture: one taken branch per 1–2 cycles, two in the newest cores for short loops";
    /// A register addition.
    ADDITION = 1.0 in 0.9 ..= 1.1 "cycles", "Agner Fog, instruction tables: ADD r, r";
    /// A store whose value is loaded right back, forwarded by the store buffer.
    STORE_FORWARD = 4.5 in 3.5 ..= 6.0 "cycles", "Agner Fog, microarchitecture: 4–6 cycles";
    /// The same on a core that renames memory: the load takes its value from the store's register.
    STORE_FORWARD_RENAMED = 0.5 in 0.0 ..= 1.5 "cycles", "Agner Fog, microarchitecture: 0–1 cycles on Zen 2 and later";
    /// The same on a core that renames memory now and then: where it does not, the load waits for the store.
    STORE_FORWARD_SOMETIMES = 3.0 in 0.0 ..= 6.5 "cycles", "own runs on a Golden Cove guest: under 1 cycle where it renames, 5 to 6 where it does not";
    /// The same where the core's design is not known.
    STORE_FORWARD_UNKNOWN = 4.0 in 0.0 ..= 6.0 "cycles", "Agner Fog, microarchitecture: 0–6 cycles over all cores";
    /// A call and its return, both predicted, of a function that does nothing.
    CALL_AND_RETURN = 3.0 in 1.0 ..= 5.0 "cycles", "Agner Fog, instruction tables: two taken branches of 1–2 cycles each; own runs on a Golden Cove guest: 4 to 5";
    /// The same where the core's design is not known.
    CALL_AND_RETURN_UNKNOWN = 2.5 in 1.0 ..= 5.0 "cycles", "Agner Fog, instruction tables, over all cores";
    /// The same on AMD Zen: CALL and RET are 2 cycles each.
    CALL_AND_RETURN_ZEN = 4.0 in 2.0 ..= 5.0 "cycles", "Agner Fog, instruction tables, Zen 1–4: CALL near 2, RET near 2";
    /// One micro-operation of a full pipeline.
    PIPELINE_SLOT = 0.2 in 0.12 ..= 0.34 "cycles", "issue width 3 to 8";
    /// One store of a full pipeline.
    STORE_SLOT = 0.75 in 0.5 ..= 1.1 "cycles", "one or two stores per cycle";
    /// A 64-bit multiply.
    MULTIPLY = 3.0 in 3.0 ..= 4.0 "cycles", "Agner Fog: IMUL r64, 3 cycles (Intel since Nehalem, AMD since Zen), 4 before";
    /// One instruction of kernel code that is in the caches.
    KERNEL_INSTRUCTION = 0.5 in 0.25 ..= 1.5 "cycles", "two instructions per cycle; less with mitigations at indirect calls";
    /// Saving all registers of a thread on its stack for a signal handler, and restoring them.
    SIGNAL_FRAME = 500.0 in 150.0 ..= 2000.0 "cycles", "Linux arch/x86/kernel/fpu/signal.c: XSAVE and XRSTOR of 0.5 to 2.7 KiB of user memory";
    /// Copying one entry of a page table for a child, and taking it away again from the parent's writable ones.
    FORK_PAGE = 30.0 in 5.0 ..= 60.0 "ns", "Linux mm/memory.c, copy_page_range: 20–45 ns for a mapped page of 4 KiB";
    /// The same in a guest, whose page tables and page records lie behind a second set of tables.
    FORK_PAGE_GUEST = 60.0 in 10.0 ..= 150.0 "ns", "Linux mm/memory.c, copy_page_range under nested paging: 40–100 ns for a mapped page of 4 KiB";
    /// Taking one page of a child away at its end.
    EXIT_PAGE = 35.0 in 5.0 ..= 80.0 "ns", "Linux mm/memory.c, zap_pte_range: 20–60 ns for a mapped page";
    /// The same in a guest.
    EXIT_PAGE_GUEST = 60.0 in 10.0 ..= 150.0 "ns", "Linux mm/memory.c, zap_pte_range under nested paging: 40–100 ns for a mapped page";
    /// Copying the entry of a huge page: a table is made for it, should it be split later.
    FORK_HUGE_PAGE = 600.0 in 60.0 ..= 2500.0 "ns", "Linux mm/huge_memory.c, copy_huge_pmd: allocates and clears a page of tables";
    /// Taking a huge page of a child away, and its table.
    EXIT_HUGE_PAGE = 400.0 in 40.0 ..= 2000.0 "ns", "Linux mm/huge_memory.c, zap_huge_pmd: frees the page of tables";
    /// Making a child that has nothing: task, tables, areas of a small process.
    FORK_BASE = 45_000.0 in 12_000.0 ..= 150_000.0 "ns", "Linux kernel/fork.c: copies of task, files, signals and areas; 20–60 µs on bare metal, more in guests";
    /// Running a child to its end and reaping it.
    CHILD_LIFE = 45_000.0 in 8_000.0 ..= 200_000.0 "ns", "two switches, a few copied pages, exit and wait";
    /// A child that borrows memory instead of copying it: task and switch only.
    VFORK_BASE = 30_000.0 in 6_000.0 ..= 120_000.0 "ns", "Linux kernel/fork.c with CLONE_VM";
    /// Replacing a child's memory by a static image, and its page faults.
    EXEC_STATIC = 100_000.0 in 25_000.0 ..= 400_000.0 "ns", "Linux fs/exec.c: new tables, a handful of faults";
    /// What a dynamic loader adds: mapping and relocating the C library.
    DYNAMIC_LOADER = 400_000.0 in 150_000.0 ..= 1_200_000.0 "ns", "ld.so(8): some 60 faults and 20 system calls";
    /// Changing the page table, and the translations that are gone with it.
    PAGE_TABLE_SWITCH = 250.0 in 50.0 ..= 1500.0 "cycles", "Intel SDM vol. 3, 4.10.4; Linux arch/x86/mm/tlb.c: 100–300 cycles with address-space numbers, and the walks after it";
    /// An interrupt from one CPU to another.
    RESCHEDULE_INTERRUPT = 600.0 in 150.0 ..= 2500.0 "ns", "Linux arch/x86/kernel/smp.c; interrupts between cores take 0.3–1 µs";
    /// A CPU's way out of its shallow idle state.
    IDLE_EXIT = 1500.0 in 100.0 ..= 60_000.0 "ns", "Linux drivers/idle: exit latencies of 1–2 µs for C1, up to 100 µs and more for deep states";
    /// Leaving a guest for its hypervisor and coming back.
    GUEST_EXIT = 1200.0 in 300.0 ..= 12_000.0 "ns", "exit round trips of 1000–3000 cycles, many times that under nested virtualisation";
    /// A cache line's way between two threads of one core.
    LINE_SIBLING = 8.0 in 2.0 ..= 40.0 "ns", "first-level cache of the same core: some tens of cycles with the ordering of memory";
    /// A cache line's way between two cores that share a last-level cache.
    LINE_SAME_CACHE = 50.0 in 10.0 ..= 150.0 "ns", "published core-to-core latencies: 20–30 ns in one complex of AMD Zen, 40–90 ns on rings and meshes";
    /// A cache line's way between cores that share none.
    LINE_OTHER_SOCKET = 150.0 in 50.0 ..= 400.0 "ns", "published core-to-core latencies: 80–120 ns between complexes, 130–300 ns between sockets";
    /// The kernel's part of creating a thread: task, stack of the kernel, place in the queue.
    THREAD_TASK = 4000.0 in 1200.0 ..= 15_000.0 "ns", "Linux kernel/fork.c, copy_process without copies: 3–8 µs with the call, more in guests";
    /// The way to a new thread's first instruction.
    THREAD_SWITCH = 1500.0 in 400.0 ..= 6000.0 "ns", "Linux kernel/sched/core.c: one switch, first return from the kernel";
    /// The end of a thread, the wake-up of who waits for it, and the switch back.
    THREAD_END = 4500.0 in 1200.0 ..= 20_000.0 "ns", "Linux kernel/exit.c, kernel/futex: release of the task, wake-up, one switch";
    /// Mapping a stack and its guard, and the first fault on it.
    STACK_MAPPING = 5000.0 in 1500.0 ..= 15_000.0 "ns", "glibc nptl/allocatestack.c: mmap, mprotect; one fault of 1–3 µs";
    /// Unmapping a stack with a page or two in it.
    STACK_UNMAPPING = 3000.0 in 800.0 ..= 10_000.0 "ns", "Linux mm/mmap.c, mm/memory.c: unmapping, flushing, freeing the pages";
    /// Waking another CPU that may be asleep.
    WAKE_OTHER_CPU = 8000.0 in 500.0 ..= 60_000.0 "ns", "interrupt and wake-up, 1–5 µs on bare metal; in a guest the hypervisor wakes the CPU, tens of µs";
    /// Vectors that a core loads from its nearest cache in a cycle.
    VECTOR_LOADS = 2.0 in 1.8 ..= 2.05 "per cycle", "Agner Fog, microarchitecture: two loads a cycle, Intel since Sandy Bridge, AMD since Zen 2";
    /// The same where the core's design is not known.
    VECTOR_LOADS_UNKNOWN = 2.0 in 0.5 ..= 4.0 "per cycle", "Agner Fog, microarchitecture, and Arm optimisation guides: one to three loads a cycle";
    /// Vectors that a core stores in a cycle.
    VECTOR_STORES = 1.0 in 0.8 ..= 2.05 "per cycle", "Agner Fog, microarchitecture: one vector store a cycle, two of 256 bits on Golden Cove";
    /// Bytes that a core loads from its second cache in a cycle.
    NEAR_CACHE_READ = 36.0 in 14.0 ..= 66.0 "B/cycle", "Intel optimization manual, cache parameters: 64 B/cycle peak, about 48 sustained; AMD optimization guides: 32 B/cycle";
    /// Bytes that a core stores to its second cache in a cycle.
    NEAR_CACHE_WRITE = 22.0 in 6.0 ..= 40.0 "B/cycle", "Agner Fog, microarchitecture: evictions share the path of fills; 16 to 32 B/cycle";
    /// Bytes that a core loads from the cache that cores share in a cycle.
    SHARED_CACHE_READ = 14.0 in 3.0 ..= 34.0 "B/cycle", "Intel optimization manual: 5 to 15 B/cycle per core on meshes and rings; AMD optimization guides: 32 B/cycle peak";
    /// Bytes that a core stores to the cache that cores share in a cycle.
    SHARED_CACHE_WRITE = 10.0 in 1.5 ..= 34.0 "B/cycle", "fills and evictions share one path: half to all of the read rate";
    /// A load from memory with nothing else under way.
    MEMORY_LATENCY = 110.0 in 60.0 ..= 220.0 "ns", "Intel MLC and lmbench on servers and desktops since 2015: 60 to 150 ns, more in guests";
    /// Lines that one core has under way to or from memory at once: line-fill buffers, and what prefetchers of the second cache add.
    LINES_IN_FLIGHT = 28.0 in 10.0 ..= 80.0 "lines", "Intel optimization manual: 10 to 16 line-fill buffers, 48 of the second cache; AMD Zen 2 to 4: 22 to 24 and as many of the second cache as 64";
    /// Rate of plain stores over that of loads, each line being read before it is written: half, more where whole lines are recognised.
    WRITE_OVER_READ = 0.55 in 0.3 ..= 1.0 "times", "McCalpin, STREAM: read-for-ownership doubles the traffic of stores";
    /// Rate of stores past the caches over that of loads.
    STREAMED_WRITE_OVER_READ = 0.8 in 0.35 ..= 1.3 "times", "McCalpin, notes on non-temporal stores: write-combining buffers are fewer than line-fill buffers";
    /// Rate of copying (each byte counted once) over that of loads: a read, a read for ownership, a write.
    COPY_OVER_READ = 0.45 in 0.22 ..= 0.75 "times", "McCalpin, STREAM: three transfers for each copied byte";
    /// The same with stores past the caches: a read and a write.
    STREAMED_COPY_OVER_READ = 0.6 in 0.3 ..= 0.95 "times", "McCalpin, STREAM: two transfers for each copied byte";
    /// Share of the peak of all channels that reads reach.
    CHANNEL_EFFICIENCY = 0.82 in 0.6 ..= 0.95 "times", "JEDEC DDR4 and DDR5: refresh, turn-around and row misses take 5 to 40 per cent";
    /// What a second thread adds to the rate of the memory, in shares of a first.
    THREAD_SHARE = 0.75 in 0.1 ..= 1.02 "times", "threads add up until channels are full; where that is cannot be seen from a guest";
    /// Latency under half of the load of all other cores, over idle.
    HALF_LOADED = 1.15 in 0.97 ..= 2.5 "times", "Intel MLC, loaded-latency curves: flat until the knee at 60 to 80 per cent of the peak";
    /// Latency under the full load of all other cores, over idle.
    FULLY_LOADED = 1.5 in 0.98 ..= 6.0 "times", "Intel MLC, loaded-latency curves: two- to fivefold at the peak, little where one core cannot fill the channels";
    /// An exception from user code into the kernel and back, with the search for the area that the address lies in.
    EXCEPTION = 450.0 in 150.0 ..= 1500.0 "cycles", "Linux arch/x86/mm/fault.c; 200–500 cycles for entry and exit, more with mitigations";
    /// A page from the allocator, charged to its control group.
    PAGE_ALLOCATION = 450.0 in 150.0 ..= 1800.0 "cycles", "Linux mm/page_alloc.c, mm/memcontrol.c: per-CPU lists and charges";
    /// Clearing a page of 4 KiB.
    PAGE_CLEAR = 60.0 in 20.0 ..= 220.0 "ns", "4096 bytes at 20 to 200 GB/s: Linux arch/x86/lib/clear_page_64.S";
    /// Copying a page of 4 KiB.
    PAGE_COPY = 130.0 in 40.0 ..= 400.0 "ns", "4096 bytes at 10 to 100 GB/s: Linux arch/x86/lib/copy_page_64.S";
    /// An entry in the page table, with its place in the lists of mapped and of reclaimable pages.
    PAGE_TABLE_ENTRY = 300.0 in 80.0 ..= 1000.0 "cycles", "Linux mm/memory.c: set_pte_range, folio_add_new_anon_rmap, folio_add_lru";
    /// Finding a page of a file in the page cache, with its locks and references.
    FILE_PAGE_LOOKUP = 500.0 in 120.0 ..= 2000.0 "cycles", "Linux mm/filemap.c: filemap_fault";
    /// The further pages that a fault on a file maps: 15 of a window of 64 KiB, or a whole large folio of up to 512.
    PAGES_AROUND = 600.0 in 0.0 ..= 40_000.0 "cycles", "Linux mm/filemap.c: filemap_map_pages and fault_around_bytes, 20 to 80 cycles a page";
    /// Flushing the entry of a page from the translation buffer of this CPU.
    FLUSH_ENTRY = 250.0 in 60.0 ..= 1200.0 "cycles", "Linux arch/x86/mm/tlb.c: INVLPG 100 to 300 cycles";
    /// A read of 4 KiB, one at a time, from an NVMe disk.
    DISK_READ_NVME = 80_000.0 in 8_000.0 ..= 250_000.0 "ns", "data sheets: 60–100 µs of flash, 10 µs of Optane and of a drive's own cache";
    /// The same from a solid-state disk behind another interface.
    DISK_READ_SOLID = 120_000.0 in 40_000.0 ..= 500_000.0 "ns", "data sheets: SATA 80–150 µs";
    /// The same from a disk that turns, or from its cache.
    DISK_READ = 4_000_000.0 in 60_000.0 ..= 25_000_000.0 "ns", "data sheets: seek 4–10 ms and half a turn of 2–4 ms; less within its cache";
    /// The same from a disk that a hypervisor provides.
    DISK_READ_VIRTUAL = 100_000.0 in 8_000.0 ..= 3_000_000.0 "ns", "two exits and the host's cache 10–30 µs; network storage of clouds 0.2–2 ms";
    /// The same from a place of which nothing is known.
    DISK_READ_UNKNOWN = 200_000.0 in 5_000.0 ..= 30_000_000.0 "ns", "anything from a host's memory to a disk that turns";
    /// A read of 4 KiB behind another: from the buffer of a disk that turns, or a turn later.
    DISK_NEXT = 200_000.0 in 30_000.0 ..= 12_000_000.0 "ns", "drives read ahead into their buffer; a request that comes too late waits for a turn of 8 ms";
    /// A byte of a long transfer from an NVMe disk.
    DISK_BYTE_NVME = 0.3 in 0.06 ..= 1.0 "ns", "data sheets: 1–14 GB/s, PCIe 3.0 x2 to 5.0 x4";
    /// The same from a solid-state disk behind another interface.
    DISK_BYTE_SOLID = 1.9 in 1.6 ..= 5.0 "ns", "data sheets: SATA 3 moves 600 MB/s at most, 540 in practice";
    /// The same from a disk that turns.
    DISK_BYTE = 6.0 in 3.0 ..= 20.0 "ns", "data sheets: 80–280 MB/s, from inner to outer tracks";
    /// The same from a disk that a hypervisor provides.
    DISK_BYTE_VIRTUAL = 1.0 in 0.1 ..= 20.0 "ns", "the host's memory 2–8 GB/s; network storage of clouds from 50 MB/s";
    /// The same from a place of which nothing is known.
    DISK_BYTE_UNKNOWN = 2.0 in 0.06 ..= 40.0 "ns", "anything from memory to a disk that turns";
    /// Making, queueing and completing a request to a block device, and the interrupt at its end.
    BLOCK_LAYER = 4_000.0 in 1_000.0 ..= 12_000.0 "ns", "Linux block/blk-mq.c and fs/iomap/direct-io.c: 2–5 µs, an exit or two more in a guest";
    /// Handing a token from one process to another on the same CPU: a wake-up, a switch, a read and a write.
    CONTEXT_SWITCH = 2_000.0 in 600.0 ..= 6_000.0 "ns", "McVoy and Staelin, USENIX 1996, and lmbench results since: 1–5 µs for a pipe token";
    /// Waking a task that sleeps on another CPU: an interrupt between processors, and the way out of its idle state.
    FOREIGN_WAKE_UP = 5_000.0 in 1_000.0 ..= 40_000.0 "ns", "1–3 µs on bare metal; 5–50 µs in guests, where a halted CPU has exited to the hypervisor";
    /// What TCP and IP do for one small message, from the write of one side to the read of the other on loopback.
    STACK_TCP = 3_500.0 in 1_000.0 ..= 8_000.0 "ns", "Linux net/ipv4/tcp_output.c and tcp_input.c: one segment, its checks and its acknowledgement";
    /// The same for UDP.
    STACK_UDP = 2_000.0 in 600.0 ..= 5_000.0 "ns", "Linux net/ipv4/udp.c: no state, no acknowledgement";
    /// The same for ICMP echo, which the kernel answers itself.
    STACK_ICMP = 1_800.0 in 400.0 ..= 6_000.0 "ns", "Linux net/ipv4/icmp.c: the reply is made while the request is received";
    /// The same for a Unix stream socket: a queue in memory.
    STACK_UNIX = 700.0 in 200.0 ..= 2_500.0 "ns", "Linux net/unix/af_unix.c: one buffer, one lock, one wake-up";
    /// Copying one byte between a program and the kernel, including the share of its buffer's making.
    COPY_BYTE = 0.12 in 0.03 ..= 0.35 "ns", "3–30 GB/s for copies of some KiB, cache to cache or CPU to CPU";
    /// Making, queueing and freeing one buffer of up to 64 KiB.
    BUFFER = 3_000.0 in 800.0 ..= 10_000.0 "ns", "Linux net/core/skbuff.c: 16 pages and a head for each";
    /// Adding a small write to the last buffer of a socket.
    APPEND = 250.0 in 60.0 ..= 2_500.0 "ns", "Linux net/ipv4/tcp.c, tcp_sendmsg_locked: lock, checks, release; a segment of its own where nothing waits";
    /// State of a new connection on both sides: sockets, hashes, timers.
    CONNECTION_STATE = 4_000.0 in 1_000.0 ..= 15_000.0 "ns", "Linux net/ipv4/inet_hashtables.c and tcp_minisocks.c";
    /// What close does before it returns: a segment on its way, the descriptor gone.
    CLOSE_CALL = 4_000.0 in 800.0 ..= 15_000.0 "ns", "Linux net/ipv4/tcp.c, tcp_close: the FIN is sent inside the call";
    /// Telling a sleeping process that something has come, without waiting for it.
    WAKING = 5_000.0 in 500.0 ..= 25_000.0 "ns", "Linux kernel/sched/core.c, try_to_wake_up; the interrupt to another CPU is an exit in a guest";
    /// An interface, its interrupt and the driver, one way.
    LINK_CROSSING = 12_000.0 in 2_000.0 ..= 60_000.0 "ns", "5–20 µs on wired interfaces, less on virtual ones, more with interrupt moderation";
    /// The same for a radio, with its contention for the air.
    RADIO_CROSSING = 1_000_000.0 in 300_000.0 ..= 4_000_000.0 "ns", "IEEE 802.11: backoff, frame, acknowledgement; 0.5–2 ms";
    /// What a server does for one read, beside the disk.
    SERVER_READ = 35_000.0 in 5_000.0 ..= 150_000.0 "ns", "20–50 µs: a wake-up, a call taken apart, a file looked up, an answer sent; more in user space";
    /// A program between a file system and the network (FUSE), both ways.
    PROGRAM_BETWEEN = 80_000.0 in 15_000.0 ..= 400_000.0 "ns", "Vangoor et al., FAST 2017: two hand-overs to the program and two back, and its own work";
    /// Encrypting a byte and decrypting it again.
    CIPHER_BYTE = 2.0 in 0.5 ..= 8.0 "ns", "openssl speed: AES-GCM 1–5 GB/s, ChaCha20-Poly1305 0.5–2 GB/s, and the copies of ssh";
    /// One byte on a path of which nothing is known.
    BYTE_ON_PATH = 8.5 in 0.1 ..= 800.0 "ns", "1 Gbit/s carries 117 MB/s; from 100 Gbit/s to 10 Mbit/s";
    /// One byte read from a disk, where reads are long.
    STORED_BYTE = 2.0 in 0.1 ..= 15.0 "ns", "data sheets: 7 GB/s of NVMe, 0.5 GB/s of SATA, 70–250 MB/s of disks that turn";
    /// The way there and back through routers, where nothing is known of the distance.
    PATH_BEYOND_LINK = 10_000_000.0 in 100_000.0 ..= 300_000_000.0 "ns", "light in glass: 10 µs for a kilometre there and back; 0.1 ms within a site, 150 ms across an ocean";
    /// Waking up after a pause: idle states of both CPUs, their clocks, cold caches.
    PAUSE = 20_000.0 in 2_000.0 ..= 400_000.0 "ns", "exit latencies of idle states: 1–200 µs each; a halted guest exits to its hypervisor";
    /// A load that the first-level cache serves, simplest addressing: Apple's cores.
    L1_LOAD_THREE = 3.0 in 2.9 ..= 4.1 "cycles", "dougallj, Apple M1 microarchitecture notes: 3 to 4 cycles";
    /// The same on Intel up to Skylake, on AMD Zen and on Arm's larger cores.
    L1_LOAD_FOUR = 4.0 in 3.9 ..= 4.1 "cycles", "Agner Fog, instruction tables: MOV r64,[r64] 4 cycles; Arm Neoverse N1/V1 optimisation guides: 4 cycles";
    /// The same on Intel since Ice Lake.
    L1_LOAD_FIVE = 5.0 in 4.9 ..= 5.1 "cycles", "uops.info: MOV r64,[r64] 5 cycles on Ice Lake, Tiger Lake, Golden Cove";
    /// The same where the core's design is not known.
    L1_LOAD_UNKNOWN = 4.0 in 2.9 ..= 6.1 "cycles", "Agner Fog, microarchitecture: 3 to 6 cycles over all cores";
    /// A load that the second-level cache serves: Intel from Nehalem to Skylake.
    L2_LOAD_SKYLAKE = 12.0 in 10.0 ..= 14.5 "cycles", "Intel optimisation manual: 12 cycles, 14 with 1 MiB in servers; 10 on Nehalem";
    /// The same on Ice Lake and Tiger Lake.
    L2_LOAD_LAKE = 13.5 in 12.5 ..= 15.5 "cycles", "Intel optimisation manual: 13 to 14 cycles";
    /// The same on Golden Cove and Redwood Cove.
    L2_LOAD_COVE = 15.5 in 14.0 ..= 17.5 "cycles", "Intel optimisation manual: 14 to 16 cycles, 2 MiB";
    /// The same on AMD Zen 1 to 3.
    L2_LOAD_ZEN = 12.0 in 11.5 ..= 17.5 "cycles", "AMD optimisation guides, families 17h and 19h: 12 cycles; 17 on the first Zen";
    /// The same on AMD Zen 4 and 5.
    L2_LOAD_ZEN4 = 14.0 in 13.0 ..= 15.5 "cycles", "AMD optimisation guide, family 19h model 10h and later: 14 cycles";
    /// The same on Arm's larger cores.
    L2_LOAD_NEOVERSE = 12.0 in 9.0 ..= 15.0 "cycles", "Arm technical reference manuals of Neoverse and Cortex: 9 to 13 cycles";
    /// The same where the core's design is not known.
    L2_LOAD_UNKNOWN = 14.0 in 8.0 ..= 26.0 "cycles", "Agner Fog, microarchitecture: 8 to 25 cycles over all cores";
    /// A load that the third-level cache serves, on a ring of a few cores.
    L3_LOAD_RING = 42.0 in 32.0 ..= 75.0 "cycles", "Intel optimisation manual: 40 to 50 cycles in clients, up to 75 in servers";
    /// The same on a mesh of many cores.
    L3_LOAD_MESH = 70.0 in 48.0 ..= 125.0 "cycles", "Chips and Cheese, Sapphire Rapids: 70 cycles of a slow core, 120 of a fast one; clients 60 to 75";
    /// The same in a core complex of AMD Zen.
    L3_LOAD_ZEN = 48.0 in 35.0 ..= 65.0 "cycles", "AMD optimisation guides: 39 (Zen 2), 46 (Zen 3), 50 (Zen 4) cycles on average";
    /// The same on Arm servers.
    L3_LOAD_ARM = 65.0 in 30.0 ..= 130.0 "cycles", "Chips and Cheese, Ampere Altra and Graviton: 30 (private slice) to 120 cycles";
    /// The same where the core's design is not known.
    L3_LOAD_UNKNOWN = 50.0 in 20.0 ..= 130.0 "cycles", "20 to 120 cycles over all cores, more on large meshes";
    /// From the last cache to the memory controller and back, on a client.
    FABRIC_CLIENT = 30.0 in 12.0 ..= 50.0 "ns", "memory latencies of 60 to 90 ns in clients, less their cache and their rows";
    /// The same on a server.
    FABRIC_SERVER = 60.0 in 35.0 ..= 95.0 "ns", "memory latencies of 90 to 130 ns in servers, less their cache and their rows";
    /// The same where it is not known what this is.
    FABRIC_UNKNOWN = 45.0 in 12.0 ..= 95.0 "ns", "clients and servers together";
    /// Opening a row of memory and reading a column.
    MEMORY_ROW = 28.0 in 22.0 ..= 45.0 "ns", "JEDEC DDR4 and DDR5: tRCD + tCL of 27 to 34 ns, tRP more when another row is open";
    /// Moving a line over the memory bus.
    LINE_TRANSFER = 3.0 in 1.5 ..= 5.0 "ns", "64 bytes over one channel of DDR4-3200 or one half of DDR5-4800";
    /// What neighbours of a guest add to its loads from memory.
    GUEST_MEMORY = 5.0 in 0.0 ..= 25.0 "ns", "queues at a memory controller that others use";
    /// A translation that the first-level buffer does not have, over a footprint of some MiB.
    TRANSLATION_NEAR = 2.5 in 0.5 ..= 12.0 "ns", "a second-level translation buffer answers in 7 to 9 cycles (Agner Fog); walks whose tables are cached in 10 to 30 ns";
    /// A walk through the page tables for a load from memory.
    TRANSLATION_WALK = 20.0 in 0.0 ..= 70.0 "ns", "up to 4 references on bare metal, up to 24 in a guest (Bhargava et al., ASPLOS 2008), most of them cached";
    /// What a control group is charged for else than file data, as a share of its limit of 64 MiB and more.
    CHARGED_ELSE = 0.006 in 0.0005 ..= 0.03 "times", "Linux lib/xarray.c: a node of 576 bytes finds 64 pages (0.2 %); mm/memcontrol.c: page tables, stacks; mm/vmscan.c reclaims 32 pages and more at once";
    /// Core clock when nothing about this machine says what it is.
    CORE_CYCLE = 0.33 in 0.16 ..= 1.0 "ns", "cores of servers, desktops and laptops since 2010: 1–6 GHz";
}

/// Units of constants.
pub const UNITS: [&str; 6] = ["cycles", "ns", "lines", "per cycle", "B/cycle", "times"];

impl Constant {
    /// The basis of a term that uses this constant.
    pub fn basis(&self) -> Basis {
        Basis::constant(self.name, self.source)
    }

    /// `(value, low, high)` times a number.
    pub fn times(&self, count: f64) -> (f64, f64, f64) {
        (self.value * count, self.low * count, self.high * count)
    }
}

/// What forwarding a store to a load costs on this core.
pub fn store_forwarding(by: &Foreknowledge<'_>) -> Constant {
    match by.setup.machine.core_class(by.setup.cpu) {
        CoreClass::AmdZen2 | CoreClass::AmdZen3 | CoreClass::AmdZen4 | CoreClass::AmdZen5 => STORE_FORWARD_RENAMED,
        CoreClass::IntelGoldenCove | CoreClass::IntelRedwoodCove | CoreClass::IntelLionCove => STORE_FORWARD_SOMETIMES,
        CoreClass::Unknown => STORE_FORWARD_UNKNOWN,
        _ => STORE_FORWARD,
    }
}

/// What copying one small page's entry for a child and taking it away again cost on this machine.
pub fn page_of_child(by: &Foreknowledge<'_>) -> (Constant, Constant) {
    if by.setup.machine.is_guest() { (FORK_PAGE_GUEST, EXIT_PAGE_GUEST) } else { (FORK_PAGE, EXIT_PAGE) }
}

/// What a reading of the counter costs on this processor.
pub fn counter_reading(by: &Foreknowledge<'_>) -> Constant {
    match by.setup.machine.cpu.vendor.as_ref().map(|vendor| vendor.value.as_str()) {
        Some("AuthenticAMD" | "HygonGenuine") => COUNTER_READING_ZEN,
        _ => COUNTER_READING,
    }
}

/// Step of the counter on this processor.
pub fn counter_step(by: &Foreknowledge<'_>) -> Constant {
    match by.setup.machine.cpu.vendor.as_ref().map(|vendor| vendor.value.as_str()) {
        Some("AuthenticAMD" | "HygonGenuine") => COUNTER_STEP_ZEN,
        Some("GenuineIntel") => COUNTER_STEP_INTEL,
        _ => COUNTER_STEP_UNKNOWN,
    }
}

/// What a call and its return cost on this core.
pub fn call_and_return(by: &Foreknowledge<'_>) -> Constant {
    match by.setup.machine.core_class(by.setup.cpu) {
        CoreClass::AmdZen1 | CoreClass::AmdZen2 | CoreClass::AmdZen3 | CoreClass::AmdZen4 => CALL_AND_RETURN_ZEN,
        CoreClass::Unknown => CALL_AND_RETURN_UNKNOWN,
        _ => CALL_AND_RETURN,
    }
}

/// What leaving a guest for its hypervisor and coming back costs, in nanoseconds: from CPUID, which does nothing else there,
/// where this run has timed it.
pub fn guest_exit(by: &Foreknowledge<'_>) -> ((f64, f64, f64), Basis) {
    match by.metric("cpu.timer.overhead", &Labels::of([("method", "cpuid_rdtsc")])) {
        Some(timed) => (
            (timed.value, timed.value * 0.5, timed.value * 2.0),
            Basis::metric("cpu.timer.overhead method=cpuid_rdtsc"),
        ),
        None => (GUEST_EXIT.times(1.0), GUEST_EXIT.basis()),
    }
}

/// What a read of 4 KiB takes from a device like the one behind the scratch directory; none where none is behind it.
pub fn disk_read(machine: &Machine) -> Option<Constant> {
    let storage = machine.scratch()?;
    if storage.mount.as_ref().is_some_and(|mount| mount.medium == Medium::Memory) {
        return None;
    }
    Some(match &storage.device {
        Some(device) if device.is_virtual => DISK_READ_VIRTUAL,
        Some(device) if device.name.starts_with("nvme") => DISK_READ_NVME,
        Some(device) if device.rotational == Some(true) => DISK_READ,
        Some(device) if device.rotational == Some(false) => DISK_READ_SOLID,
        _ => DISK_READ_UNKNOWN,
    })
}

/// What a byte of a long transfer takes from a device like the one behind the scratch directory.
pub fn disk_byte(by: &Foreknowledge<'_>) -> Constant {
    match by.setup.machine.scratch().and_then(|storage| storage.device.as_ref()) {
        Some(device) if device.is_virtual => DISK_BYTE_VIRTUAL,
        Some(device) if device.name.starts_with("nvme") => DISK_BYTE_NVME,
        Some(device) if device.rotational == Some(true) => DISK_BYTE,
        Some(device) if device.rotational == Some(false) => DISK_BYTE_SOLID,
        _ => DISK_BYTE_UNKNOWN,
    }
}

/// Duration of a core cycle, with its range and where it is from.
#[derive(Debug, Clone, PartialEq)]
pub struct CycleTime {
    /// Expected.
    pub value: Nanoseconds,
    /// Shortest.
    pub low: Nanoseconds,
    /// Longest.
    pub high: Nanoseconds,
    /// Where it is from.
    pub basis: Basis,
}

impl CycleTime {
    /// The best that is known: this run's figure, else the machine's claims, else the constant.
    pub fn known(by: &Foreknowledge<'_>) -> Self {
        if let Some(metric) = by.metric("cpu.cycle_time", &Labels::none()) {
            // The clock wanders between the first round and the last: 3 % is what turbo bins do within minutes.
            let range = |factor: f64| Nanoseconds(metric.value * factor);
            return CycleTime {
                value: range(1.0),
                low: range(0.97),
                high: range(1.03),
                basis: Basis::metric("cpu.cycle_time"),
            };
        }
        let period = |hertz: f64| Nanoseconds(1e9 / hertz);
        match (by.setup.machine.maximum_core_hertz(by.setup.cpu), by.setup.machine.nominal_core_hertz(by.setup.cpu)) {
            (Some(maximum), nominal) => CycleTime {
                value: period(maximum.value),
                low: period(maximum.value * 1.02),
                high: period(nominal.map_or(maximum.value * 0.5, |found| found.value.min(maximum.value) * 0.98)),
                basis: Basis::machine(&maximum.source),
            },
            // A nominal clock is a floor on most machines: turbo adds up to two thirds.
            (None, Some(nominal)) => CycleTime {
                value: period(nominal.value * 1.2),
                low: period(nominal.value * 1.7),
                high: period(nominal.value * 0.98),
                basis: Basis::guess(&format!(
                    "a fifth above the nominal {:.3} GHz of {}, for turbo",
                    nominal.value / 1e9,
                    nominal.source
                )),
            },
            (None, None) => CycleTime {
                value: Nanoseconds(CORE_CYCLE.value),
                low: Nanoseconds(CORE_CYCLE.low),
                high: Nanoseconds(CORE_CYCLE.high),
                basis: CORE_CYCLE.basis(),
            },
        }
    }

    /// Cycles `(value, low, high)` as nanoseconds, the ranges of both multiplied.
    pub fn of(&self, (value, low, high): (f64, f64, f64)) -> (f64, f64, f64) {
        (value * self.value.0, low * self.low.0, high * self.high.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_has_an_ordered_range_a_known_unit_and_a_source() {
        for constant in ALL {
            assert!(constant.low <= constant.value && constant.value <= constant.high, "{}", constant.name);
            assert!(UNITS.contains(&constant.unit), "{}", constant.name);
            assert!(constant.source.len() > 10, "{}", constant.name);
        }
    }
}
