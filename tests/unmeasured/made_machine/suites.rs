//! What suites of micro-benchmarks time, and which result here answers the same question, as docs/suites.md has it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use sysdyno::testing::assemble;
use sysdyno::testing::results::document::Document;

use super::{description, run};

/// Where the result is.
enum Here {
    /// A metric, some of its labels, and what differs.
    Result(&'static str, &'static [(&'static str, &'static str)], &'static str),
    /// Nowhere, and the reason.
    Absent(&'static str),
}
use Here::{Absent, Result};

const CALL: &str = "os.system_call.time";
const RATE: &str = "memory.bandwidth.rate";
const TRIP: &str = "network.round_trip.time";
const SWITCH: &str = "os.context_switch.time";
const CHILD: &str = "os.process_creation.time";
const LOCK: &str = "os.lock.time";
const PIPE: [(&str, &str); 2] = [("through", "pipe"), ("placement", "same_cpu")];
const DRAM: (&str, &str) = ("level", "DRAM");
const LATER: &str = "not built";
/// Why functions of a library have no result.
const LIBRARY: &str = "a function of the C library. This binary has another one";
/// Why a queue of tasks at one lock has no result.
const CASCADE: &str = "a chain of tasks that wait for locks";

/// A suite: its name, what its parts are called, and the parts.
struct Suite {
    name: &'static str,
    parts: &'static [(&'static str, Here)],
}

/// Programs of lmbench 3 with their modes.
const LMBENCH: &[(&str, Here)] = &[
    ("lat_syscall null", Result(CALL, &[("call", "getppid")], "")),
    ("lat_syscall read", Result(CALL, &[("call", "read_dev_zero")], "")),
    ("lat_syscall write", Result(CALL, &[("call", "write_dev_null")], "")),
    ("lat_syscall stat", Result(CALL, &[("call", "stat")], "a path of two parts")),
    ("lat_syscall fstat", Result(CALL, &[("call", "fstat")], "")),
    ("lat_syscall open", Result(CALL, &[("call", "open_close")], "a path of two parts")),
    (
        "lat_select",
        Result(
            "os.poll.time",
            &[("by", "select"), ("descriptors", "100")],
            "a call that may wait. lmbench gives it no time",
        ),
    ),
    ("lat_sig install", Result("os.signal.time", &[("how", "install")], "")),
    ("lat_sig catch", Result("os.signal.time", &[("how", "deliver_self")], "")),
    ("lat_sig prot", Result("os.signal.time", &[("how", "deliver_fault")], "")),
    ("lat_pipe", Result(SWITCH, &PIPE, "half of the round trip")),
    ("lat_ctx", Result(SWITCH, &PIPE, "with working sets as a curve")),
    ("lat_fifo", Result("os.channel.time", &[("through", "pipe")], "a FIFO is a pipe with a name. One task")),
    ("lat_sem", Absent("semaphores of System V outlive a process that is killed")),
    ("lat_fcntl", Result("os.lock.time", &[("what", "range_lock")], "no other task wants the lock")),
    ("lat_unix", Result(TRIP, &[("protocol", "unix")], "")),
    ("lat_tcp", Result(TRIP, &[("protocol", "tcp")], "")),
    ("lat_udp", Result(TRIP, &[("protocol", "udp")], "")),
    ("lat_connect", Result("network.connection.time", &[("phase", "setup")], "")),
    ("lat_unix_connect", Result("os.channel.time", &[("through", "unix_connection")], "one task connects and accepts")),
    ("lat_rpc", Absent("few programs use this protocol")),
    ("lat_http", Absent("it times a server program")),
    ("lat_proc fork", Result("os.process_creation.time", &[("how", "fork_wait")], "")),
    ("lat_proc exec", Result("os.process_creation.time", &[("how", "fork_exec_wait"), ("image", "static")], "")),
    (
        "lat_proc exec, dynamic",
        Result("os.process_creation.time", &[("how", "fork_exec_wait"), ("image", "dynamic")], ""),
    ),
    (
        "lat_proc shell",
        Result(
            "os.process_creation.time",
            &[("how", "fork_exec_wait"), ("image", "shell")],
            "the shell executes no program",
        ),
    ),
    ("lat_proc procedure", Result("cpu.procedure_call.time", &[("args", "0")], "")),
    (
        "lat_mmap",
        Result(
            "memory.map.time",
            &[("what", "map_read_unmap_file"), ("pages", "64")],
            "an area without neighbours to join",
        ),
    ),
    ("lat_pagefault", Result("memory.page_fault.time", &[("kind", "file_cached_single")], "")),
    ("lat_fs create, delete", Absent("the cost depends on what was removed in the last minutes (LIMITS)")),
    ("lat_usleep", Result("os.sleep.oversleep", &[("requested", "1000")], "")),
    ("lat_mem_rd", Result("memory.latency.level", &[DRAM], "")),
    ("tlb", Result("memory.latency.translation", &[], "")),
    ("cache", Result("memory.latency.level_size", &[("level", "L2")], "")),
    ("line", Result("memory.shared_line.size", &[], "by two threads that add to words of one line")),
    ("lat_dram_page", Absent(LATER)),
    ("lat_ops", Result("cpu.arithmetic.time", &[("chain", "latency")], "no single precision, no remainder")),
    ("par_ops", Result("cpu.arithmetic.time", &[("chain", "throughput")], "the time of each independent operation")),
    ("mhz", Result("cpu.frequency.core", &[], "")),
    ("timing_o", Result("cpu.timer.overhead", &[], "")),
    ("loop_o", Result("cpu.loop.overhead", &[], "")),
    ("bw_mem rd", Result(RATE, &[DRAM, ("operation", "read")], "")),
    ("bw_mem wr", Result(RATE, &[DRAM, ("operation", "write")], "")),
    ("bw_mem cp", Result(RATE, &[DRAM, ("operation", "copy")], "")),
    ("par_mem", Result(RATE, &[DRAM, ("threads", "2")], "by number of threads")),
    ("bw_file_rd", Result("file.read.rate", &[("cache", "warm")], "")),
    ("bw_mmap_rd", Result("memory.map.time", &[("what", "map_sum_unmap_file")], "the time for 64 pages")),
    ("bw_pipe", Result("os.channel.time", &[("through", "pipe"), ("bytes", "65536")], "one task writes and reads")),
    (
        "bw_unix",
        Result("os.channel.time", &[("through", "unix_stream"), ("bytes", "65536")], "one task writes and reads"),
    ),
    ("bw_tcp", Result("network.bandwidth.rate", &[("streams", "1")], "")),
    ("disk, lmdd", Result("file.read.rate", &[("cache", "direct"), ("order", "sequential")], "reads only")),
];

/// Benchmarks of perf 6.
const PERF_BENCH: &[(&str, Here)] = &[
    ("sched pipe", Result(SWITCH, &PIPE, "half of a turn")),
    (
        "sched messaging",
        Result(SWITCH, &PIPE, "two tasks. The benchmark has groups of 40, so that queues of the scheduler count"),
    ),
    ("sched seccomp-notify", Absent(LATER)),
    ("syscall basic", Result(CALL, &[("call", "getppid")], "")),
    ("syscall getpgid", Result(CALL, &[("call", "getppid")], "the same kind of call")),
    ("syscall fork", Result(CHILD, &[("how", "fork_wait")], "")),
    ("syscall execve", Result(CHILD, &[("how", "fork_exec_wait"), ("image", "dynamic")], "")),
    ("mem memcpy", Result(RATE, &[("operation", "copy")], "by levels of the caches")),
    ("mem memset", Result(RATE, &[("operation", "write")], "by levels of the caches")),
    ("mem mmap", Result("memory.map.time", &[("what", "map_write_unmap")], "1 and 64 pages")),
    ("mem find_bit", Absent("a function of the kernel's library, compiled into perf")),
    ("numa mem", Result("memory.latency.node", &[], "where it has several nodes")),
    ("futex hash", Result(CALL, &[("call", "futex_mismatch")], "one thread")),
    ("futex wake", Result(CALL, &[("call", "futex_wake")], "no task waits. A handoff is in os.context_switch")),
    ("futex wake-parallel", Absent(LATER)),
    ("futex requeue", Result(CALL, &[("call", "futex_requeue")], "no task waits")),
    ("futex lock-pi", Result(LOCK, &[("what", "inheriting_lock")], "no other task wants the lock")),
    ("epoll wait", Result("os.poll.time", &[("by", "epoll")], "one thread")),
    ("epoll ctl", Result(CALL, &[("call", "epoll_ctl")], "changes an entry")),
    ("internals", Absent("parts of perf itself")),
    ("breakpoint", Absent("few programs set breakpoints of the processor")),
    ("uprobe", Absent("it changes the kernel's state for all processes")),
];

/// Benchmarks of libMicro.
const LIBMICRO: &[(&str, Here)] = &[
    ("atomic", Result(LOCK, &[("what", "atomic_add")], "")),
    ("bind", Result(CALL, &[("call", "socket_bind_close")], "with socket and close")),
    ("cachetocache", Result("os.cache_line_transfer.time", &[], "")),
    ("cascade_cond", Result(SWITCH, &[("through", "condition_variable")], "two threads")),
    ("cascade_fcntl", Absent(CASCADE)),
    ("cascade_flock", Absent(CASCADE)),
    ("cascade_lockf", Absent(CASCADE)),
    ("cascade_mutex", Result("memory.shared_line.time", &[("what", "mutex")], "all threads want one mutex")),
    ("chdir", Result(CALL, &[("call", "chdir")], "to the same directory")),
    ("clock_gettime", Result("cpu.timer.overhead", &[("method", "clock_gettime")], "")),
    ("clock_nanosleep", Result("os.sleep.oversleep", &[], "the time above the requested one")),
    ("close", Result(CALL, &[("call", "dup_close")], "with dup")),
    ("close_tcp", Result("network.connection.time", &[("phase", "close")], "")),
    ("connection", Result("network.connection.time", &[("phase", "setup")], "")),
    ("dup", Result(CALL, &[("call", "dup_close")], "with close")),
    ("exec", Result(CHILD, &[("how", "fork_exec_wait")], "with fork and wait")),
    ("execw", Result(CHILD, &[("how", "fork_exec_wait")], "")),
    ("exit", Result(CHILD, &[("how", "fork_wait")], "with fork and wait")),
    ("exp", Absent(LIBRARY)),
    ("fcntl", Result(CALL, &[("call", "fcntl_getfl")], "")),
    ("fcntl_ndelay", Result(CALL, &[("call", "fcntl_setfl")], "sets the flags that the file has")),
    ("file_lock", Result(LOCK, &[("what", "range_lock")], "")),
    ("fork", Result(CHILD, &[("how", "fork")], "")),
    ("getcontext", Absent(LIBRARY)),
    ("getenv", Absent(LIBRARY)),
    ("getpeername", Result(CALL, &[("call", "getpeername")], "UDP")),
    ("getpid", Result(CALL, &[("call", "getpid")], "")),
    ("getrusage", Result(CALL, &[("call", "getrusage")], "")),
    ("getsockname", Result(CALL, &[("call", "getsockname")], "UDP")),
    ("gettimeofday", Result("cpu.timer.overhead", &[("method", "clock_gettime")], "the same clock with another unit")),
    ("isatty", Result(CALL, &[("call", "isatty")], "of a file")),
    ("listen", Result(CALL, &[("call", "listen")], "on a socket that listens")),
    ("localtime_r", Absent(LIBRARY)),
    ("log", Absent(LIBRARY)),
    ("longjmp", Absent(LIBRARY)),
    ("lrand48", Absent(LIBRARY)),
    ("lseek", Result(CALL, &[("call", "lseek")], "")),
    ("malloc", Absent(LIBRARY)),
    ("memcpy", Result(RATE, &[("operation", "copy")], "as a rate, by levels of the caches")),
    ("memmove", Result(RATE, &[("operation", "copy")], "as a rate, by levels of the caches")),
    ("memrand", Result("memory.latency.level", &[DRAM], "a chain of loads")),
    ("memset", Result(RATE, &[("operation", "write")], "as a rate, by levels of the caches")),
    ("mktime", Absent(LIBRARY)),
    ("mmap", Result("memory.map.time", &[("what", "map_unmap")], "with munmap")),
    ("mmap_frag", Absent(LATER)),
    ("munmap_frag", Absent(LATER)),
    ("mprotect", Result("memory.map.time", &[("what", "protect")], "")),
    ("msync", Absent("not built. `file.write` has fsync and fdatasync")),
    ("munmap", Result("memory.map.time", &[("what", "map_write_unmap")], "with mmap and page faults")),
    ("mutex", Result(LOCK, &[("what", "mutex")], "")),
    ("nanosleep", Result("os.sleep.oversleep", &[], "the time above the requested one")),
    ("nop", Result("cpu.loop.overhead", &[], "")),
    ("open", Result(CALL, &[("call", "open_close")], "with close")),
    ("pipe", Result(SWITCH, &PIPE, "half of the round trip")),
    ("poll", Result("os.poll.time", &[("by", "poll_at_once")], "")),
    ("posix_spawn", Result(CHILD, &[("how", "posix_spawn_wait")], "with wait")),
    ("pread", Result(CALL, &[("call", "pread_1")], "and 4 KiB")),
    ("pthread_create", Result("os.thread_creation.time", &[("how", "create")], "and with join")),
    ("pwrite", Result(CALL, &[("call", "pwrite_1")], "and 4 KiB")),
    ("read", Result(CALL, &[("call", "read_dev_zero")], "")),
    ("realpath", Absent(LIBRARY)),
    ("recurse", Result("cpu.procedure_call.time", &[("args", "0")], "not nested")),
    ("sched_yield", Result(CALL, &[("call", "sched_yield")], "no other task runs")),
    ("select", Result("os.poll.time", &[("by", "select")], "a call that may wait")),
    ("semop", Absent("semaphores of System V outlive a process that is killed")),
    ("setcontext", Absent(LIBRARY)),
    ("setsockopt", Result(CALL, &[("call", "setsockopt")], "")),
    ("sigaction", Result("os.signal.time", &[("how", "install")], "")),
    ("siglongjmp", Absent(LIBRARY)),
    ("signal", Result("os.signal.time", &[("how", "deliver_self")], "")),
    ("sigprocmask", Result(CALL, &[("call", "sigprocmask")], "")),
    ("socket", Result(CALL, &[("call", "socket_close")], "with close")),
    ("socketpair", Result(CALL, &[("call", "socketpair_close")], "with two closes")),
    ("stat", Result(CALL, &[("call", "stat")], "a path of two parts")),
    ("strcasecmp", Absent(LIBRARY)),
    ("strchr", Absent(LIBRARY)),
    ("strcmp", Absent(LIBRARY)),
    ("strcpy", Absent(LIBRARY)),
    ("strftime", Absent(LIBRARY)),
    ("strlen", Absent(LIBRARY)),
    ("strtol", Absent(LIBRARY)),
    ("system", Result(CHILD, &[("how", "fork_exec_wait"), ("image", "shell")], "the shell executes no program")),
    ("time", Result("cpu.timer.overhead", &[("method", "clock_gettime_coarse")], "a clock of the same precision")),
    ("times", Result(CALL, &[("call", "times")], "")),
    ("write", Result(CALL, &[("call", "write_dev_null")], "")),
    ("writev", Result(CALL, &[("call", "writev_10")], "ten buffers")),
];

/// Programs of NVIDIA for the costs of a device.
const NVIDIA: &[(&str, Here)] = &[
    (
        "nvbandwidth host_to_device_memcpy_ce",
        Result("gpu.copy.rate", &[("direction", "to_device"), ("memory", "pinned")], "64 MiB, until the copy is done"),
    ),
    (
        "nvbandwidth device_to_host_memcpy_ce",
        Result(
            "gpu.copy.rate",
            &[("direction", "from_device"), ("memory", "pinned")],
            "64 MiB, until the copy is done",
        ),
    ),
    ("nvbandwidth host_to_device_bidirectional_memcpy_ce", Absent(LATER)),
    ("nvbandwidth device_to_device_memcpy_read_ce", Absent("sysdyno measures one device")),
    (
        "bandwidthTest --memory=pageable",
        Result("gpu.copy.rate", &[("direction", "to_device"), ("memory", "pageable")], "64 MiB"),
    ),
    ("bandwidthTest --mode=shmoo", Result("gpu.copy.time", &[("bytes", "4096")], "six sizes")),
    ("p2pBandwidthLatencyTest", Absent("sysdyno measures one device")),
];

const SUITES: [Suite; 4] = [
    Suite { name: "lmbench", parts: LMBENCH },
    Suite { name: "perf bench", parts: PERF_BENCH },
    Suite { name: "libMicro", parts: LIBMICRO },
    Suite { name: "NVIDIA", parts: NVIDIA },
];

/// The table of a suite, by the document whose results are those of the made machine.
fn table(document: &Document, suite: &Suite) -> String {
    let published = |metric: &str, labels: &[(&str, &str)]| {
        let mut all = document.experiments.iter().flat_map(|section| &section.metrics);
        all.any(|found| found.name == metric && labels.iter().all(|(key, value)| found.labels.get(key) == Some(value)))
    };
    let mut rows = String::new();
    let mut answered = 0;
    for (program, here) in suite.parts {
        let _ = match here {
            Result(metric, labels, differs) => {
                assert!(published(metric, labels), "{program}: no {metric} {labels:?}");
                answered += 1;
                let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
                let name: Vec<String> = std::iter::once((*metric).to_owned()).chain(labels).collect();
                writeln!(rows, "| `{program}` | `{}` | {differs} |", name.join(" "))
            }
            Absent(why) => writeln!(rows, "| `{program}` | – | {why} |"),
        };
    }
    let (name, all) = (suite.name, suite.parts.len());
    format!(
        "\n## {name}\n\n{answered} of {all} have a result here.\n\n\
         | {name} | result here | what differs |\n| --- | --- | --- |\n{rows}"
    )
}

#[test]
fn the_page_of_suites_names_results_that_exist() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/suites.md");
    let document = assemble::document(&run(description()));
    let tables: String = SUITES.iter().map(|suite| table(&document, suite)).collect();
    let page = format!(
        "# What other suites time\n\n\
         These tables name the result here that answers the question of each benchmark of four suites. The method is another one:\n\
         an operation runs in ordinary work, from code at drawn places, without neighbours on the core\n\
         ([methodology](../METHODOLOGY.md)). The figures can therefore differ from those of a suite, which repeats an operation in a loop.\n\
         {tables}"
    );
    if std::env::var_os("SYSDYNO_WRITE_METHODOLOGY").is_some() {
        fs::write(&place, &page).unwrap();
    }
    assert_eq!(fs::read_to_string(place).unwrap(), page, "SYSDYNO_WRITE_METHODOLOGY=1 cargo test --test unmeasured");
}
