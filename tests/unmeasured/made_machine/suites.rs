//! What lmbench times, and which result here answers the same question, as docs/lmbench.md has it.

use std::fs;
use std::path::Path;

use sysdyno::testing::assemble;

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
const PIPE: [(&str, &str); 2] = [("through", "pipe"), ("placement", "same_cpu")];
const DRAM: (&str, &str) = ("level", "DRAM");
const LATER: &str = "not built";

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

/// The document, whose results are those of the made machine.
fn page() -> String {
    let document = assemble::document(&run(description()));
    let published = |metric: &str, labels: &[(&str, &str)]| {
        let all = document.experiments.iter().flat_map(|section| &section.metrics);
        let fits = |found: &&sysdyno::testing::results::document::Metric| {
            found.name == metric && labels.iter().all(|(key, value)| found.labels.get(key) == Some(value))
        };
        all.filter(fits).count() > 0
    };
    let mut rows = String::new();
    let mut answered = 0;
    for (program, here) in LMBENCH {
        match here {
            Result(metric, labels, differs) => {
                assert!(published(metric, labels), "{program}: no {metric} {labels:?}");
                answered += 1;
                let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                rows += &format!(
                    "| `{program}` | `{}` | {differs} |\n",
                    [&[(*metric).to_owned()], &labels[..]].concat().join(" ")
                );
            }
            Absent(why) => rows += &format!("| `{program}` | – | {why} |\n"),
        }
    }
    format!(
        "# What lmbench times\n\n\
         {answered} of {} things that lmbench times have a result here. The method is another one: an operation runs in ordinary work,\n\
         from code at drawn places, without neighbours on the core ([methodology](../METHODOLOGY.md)). The figures can therefore differ\n\
         from those of lmbench, which repeats an operation in a loop.\n\n\
         | lmbench | result here | what differs |\n| --- | --- | --- |\n{rows}",
        LMBENCH.len()
    )
}

#[test]
fn the_page_of_lmbench_names_results_that_exist() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/lmbench.md");
    let page = page();
    if std::env::var_os("SYSDYNO_WRITE_METHODOLOGY").is_some() {
        fs::write(&place, &page).unwrap();
    }
    assert_eq!(fs::read_to_string(place).unwrap(), page, "SYSDYNO_WRITE_METHODOLOGY=1 cargo test --test unmeasured");
}
