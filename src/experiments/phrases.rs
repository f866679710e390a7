//! What figures are called where people read: one table from metrics and labels to plain words. Keys stand in data only.

use crate::experiments::TABLE;
use crate::experiments::prelude::*;
use crate::results::wording::mark;

/// The metric in words.
const METRICS: &[(&str, &str)] = &[
    ("cpu.frequency.tsc", "time-stamp counter"),
    ("cpu.frequency.core", "core clock"),
    ("cpu.frequency.core_by_chain", "core clock by instruction chain"),
    ("cpu.cycle_time", "core cycle"),
    ("cpu.timer.overhead", "clock read"),
    ("cpu.timer.bias", "clock bias"),
    ("cpu.timer.resolution", "clock resolution"),
    ("cpu.loop.overhead", "loop iteration"),
    ("cpu.procedure_call.time", "function call"),
    ("cpu.procedure_call.per_argument", "function call, each argument"),
    ("cpu.procedure_call.seventh_argument", "function call, seventh argument"),
    ("cpu.arithmetic.time", "arithmetic"),
    ("cpu.sharing.share", "share of time"),
    ("cpu.sharing.stretch", "length of a stay"),
    ("os.system_call.time", "system call"),
    ("os.system_call.service", "system call without kernel entry"),
    ("os.process_creation.time", "process"),
    ("os.process_creation.per_page", "fork, each resident page"),
    ("os.container.time", "process of a container"),
    ("os.thread_creation.time", "thread"),
    ("os.context_switch.time", "context switch"),
    ("os.context_switch.net", "context switch without its system calls"),
    ("os.context_switch.pipe_overhead", "one byte through a pipe"),
    ("os.context_switch.eventfd_overhead", "one event through an eventfd"),
    ("os.cache_line_transfer.time", "cache line transfer"),
    ("os.signal.time", "signal"),
    ("os.channel.time", "write and read"),
    ("os.poll.time", "wait for descriptors"),
    ("os.poll.per_descriptor", "wait for descriptors, each"),
    ("os.lock.time", "lock"),
    ("os.scaling.time", "system call of several tasks"),
    ("os.sleep.oversleep", "oversleep"),
    ("memory.latency.level", "memory load"),
    ("memory.latency.level_size", "size of a cache"),
    ("memory.latency.translation", "address translation"),
    ("memory.latency.translation_reach", "reach of the TLB"),
    ("memory.latency.by_rule", "memory load in a fixed pattern"),
    ("memory.latency.node", "memory load from a node"),
    ("memory.bandwidth.rate", "memory bandwidth"),
    ("memory.bandwidth.bus_rate", "memory bus traffic"),
    ("memory.bandwidth.node", "memory bandwidth to a node"),
    ("memory.loaded_latency.time", "memory load during traffic"),
    ("memory.page_fault.time", "page fault"),
    ("memory.page_fault.pages_per_fault", "pages mapped by a fault"),
    ("memory.page_fault.first_touch", "first touch of 1 MiB"),
    ("memory.map.time", "mapping"),
    ("memory.shared_line.time", "operation of several threads"),
    ("memory.shared_line.size", "size of a cache line"),
    ("network.round_trip.time", "round trip"),
    ("network.round_trip.net", "round trip without the peer"),
    ("network.round_trip.network_share", "share of the network in a round trip"),
    ("network.bandwidth.rate", "TCP throughput"),
    ("network.datagrams.rate", "UDP throughput"),
    ("network.datagrams.delivered", "share of UDP datagrams that arrives"),
    ("network.datagrams.in_order", "share of UDP datagrams in order"),
    ("network.connection.time", "TCP connection"),
    ("network.connection.net", "TCP connection without the peer"),
    ("file.metadata.time", "file metadata"),
    ("gpu.launch.time", "kernel launch"),
    ("gpu.copy.time", "copy between host and GPU"),
    ("gpu.copy.rate", "rate between host and GPU"),
    ("file.cache_size.bytes", "size of the file cache"),
    ("file.read.block_time", "4 KiB file read"),
    ("file.read.rate", "file read rate"),
    ("file.read.depth_rate", "4 KiB reads in parallel"),
    ("file.write.time", "4 KiB file write"),
    ("file.write.rate", "file write rate"),
    ("file.contention.block_time", "4 KiB read among other readers"),
    ("file.contention.rate", "read rate of all readers"),
    ("file.contention.per_reader", "4 KiB read, each further reader"),
    ("file.contention.knee", "readers without mutual waits"),
    ("file.contention.fairness", "fairness of the readers"),
    ("file.contention.cpu_share", "CPU time of the readers"),
    ("file.remote_read.block_time", "remote file read"),
    ("file.remote_read.network_penalty", "remote read over local read"),
    ("file.remote_read.intercept", "remote read, fixed part"),
    ("file.remote_read.per_byte", "remote read, each byte"),
];

/// A label in words: what metrics begin with, key, value, words. The first that fits counts. Without words the label is the usual
/// case and is left out. `#` stands for the value, `@` for the value as a size.
const LABELS: &[(&str, &str, &str, &str)] = &[
    ("cpu.timer.", "method", "*", "#"),
    ("cpu.", "code", "registers", ""),
    ("cpu.", "code", "memory", "through memory"),
    ("cpu.", "code", "compiled", "compiled code"),
    ("cpu.", "chain", "throughput", "independent"),
    ("cpu.", "chain", "latency", "dependent"),
    ("cpu.", "args", "0", "no argument"),
    ("cpu.", "args", "1", "1 argument"),
    ("cpu.", "args", "*", "# arguments"),
    ("cpu.sharing.", "state", "alone", "core to itself"),
    ("cpu.sharing.", "state", "shared", "core shared"),
    ("cpu.sharing.", "beside", "others", ""),
    ("cpu.sharing.", "beside", "own_cpu", "of this machine"),
    ("os.system_call.", "order", "sweep", "among other calls"),
    ("os.system_call.", "after", "work", ""),
    ("os.system_call.", "after", "same_call", "repeated"),
    ("os.system_call.", "after", "other_calls", "among other calls"),
    ("", "path_depth", "*", ""),
    ("os.process_creation.", "child", "same_cpu", ""),
    ("os.process_creation.", "child", "free", "child on any CPU"),
    ("os.process_creation.", "how", "fork", "fork"),
    ("os.process_creation.", "how", "first_instruction", "fork until the child runs"),
    ("os.process_creation.", "how", "fork_wait", "fork and wait"),
    ("os.process_creation.", "how", "library_fork_wait", "fork by the C library, and wait"),
    ("os.process_creation.", "how", "vfork_wait", "vfork and wait"),
    ("os.process_creation.", "how", "fork_exec_wait", "fork, exec and wait"),
    ("os.process_creation.", "how", "posix_spawn_wait", "posix_spawn and wait"),
    ("os.process_creation.", "image", "static", "static program"),
    ("os.process_creation.", "image", "dynamic", "dynamic program"),
    ("os.process_creation.", "image", "shell", "shell"),
    ("os.process_creation.", "resident", "0", ""),
    ("os.process_creation.", "resident", "*", "parent of @"),
    ("", "pages", "4k", "4 KiB pages"),
    ("", "pages", "system", "default pages"),
    ("", "pages", "huge", "huge pages"),
    ("os.thread_creation.", "by", "pthread", "pthread"),
    ("os.thread_creation.", "by", "pthread_fresh", "pthread with a new stack"),
    ("os.thread_creation.", "by", "kernel", "clone"),
    ("os.thread_creation.", "child", "same_cpu", "same CPU"),
    ("os.thread_creation.", "child", "free", "any CPU"),
    ("os.thread_creation.", "how", "create", "create"),
    ("os.thread_creation.", "how", "create_run", "create until it runs"),
    ("os.thread_creation.", "how", "create_join", "create and join"),
    ("os.context_switch.", "processes", "*", "# processes"),
    ("os.", "between", "processes", ""),
    ("os.", "between", "threads", "threads"),
    ("", "placement", "same_cpu", "same CPU"),
    ("", "placement", "same_core", "sibling CPU"),
    ("", "placement", "same_cache", "other CPU"),
    ("", "placement", "same_package", "other cache"),
    ("", "placement", "other_package", "other package"),
    ("", "placement", "other_cpu", "other CPU"),
    ("", "target", "idle", "asleep"),
    ("", "target", "awake", "awake"),
    ("", "distance", "near", "near"),
    ("", "distance", "far", "far"),
    ("", "distance", "core", "on one core"),
    ("os.poll.", "descriptors", "1", "1 descriptor"),
    ("os.poll.", "descriptors", "*", "# descriptors"),
    ("os.channel.", "bytes", "0", ""),
    ("os.channel.", "bytes", "*", "@"),
    ("os.sleep.", "requested", "1000", "1 µs"),
    ("os.sleep.", "requested", "100000", "100 µs"),
    ("os.sleep.", "requested", "1000000", "1 ms"),
    ("os.sleep.", "load", "busy", "all CPUs busy"),
    ("os.sleep.", "slack", "default", ""),
    ("os.sleep.", "slack", "least", "least timer slack"),
    ("memory.", "footprint", "*", ""),
    ("memory.", "level", "DRAM", "DRAM"),
    ("memory.", "operation", "read", "read"),
    ("memory.", "operation", "write", "write"),
    ("memory.", "operation", "copy", "copy"),
    ("memory.", "operation", "write_nt", "write bypassing the caches"),
    ("memory.", "operation", "copy_nt", "copy bypassing the caches"),
    ("memory.map.", "pages", "1", "1 page"),
    ("memory.map.", "pages", "*", "# pages"),
    ("memory.", "other_threads", "0", ""),
    ("memory.", "other_threads", "1", "1 other thread"),
    ("memory.", "other_threads", "*", "# other threads"),
    ("os.scaling.", "what", "open_close", "open and close"),
    ("os.scaling.", "what", "map_write_unmap", "map, write and unmap a page"),
    ("os.scaling.", "what", "file_lock", "lock of a file"),
    ("os.scaling.", "threads", "1", "one thread"),
    ("os.scaling.", "threads", "*", "# threads"),
    ("os.scaling.", "processes", "*", "# processes"),
    ("memory.shared_line.", "apart", "0", ""),
    ("memory.shared_line.", "apart", "*", "# B apart"),
    ("memory.shared_line.", "what", "atomic_add", "atomic addition"),
    ("memory.shared_line.", "threads", "1", "one thread"),
    ("memory.", "threads", "1", ""),
    ("memory.", "threads", "*", "# threads"),
    ("memory.loaded_latency.", "load", "idle", "no traffic"),
    ("memory.loaded_latency.", "load", "half", "half the traffic"),
    ("memory.loaded_latency.", "load", "full", "full traffic"),
    ("memory.page_fault.", "kind", "anonymous_write", "first write to a page"),
    ("memory.page_fault.", "kind", "anonymous_read", "first read of a page"),
    ("memory.page_fault.", "kind", "file_cached", "mapped file in the cache"),
    ("memory.page_fault.", "kind", "file_cached_single", "mapped file in the cache, page by page"),
    ("memory.page_fault.", "kind", "file_cold", "mapped file on the device"),
    ("memory.page_fault.", "kind", "copy_on_write", "copy on write"),
    ("memory.page_fault.", "kind", "huge_anonymous", "first write to a huge page"),
    ("", "protocol", "tcp", "TCP"),
    ("", "protocol", "udp", "UDP"),
    ("", "protocol", "unix", "Unix socket"),
    ("", "protocol", "icmp", "ICMP"),
    ("network.", "path", "loopback", "loopback"),
    ("network.", "path", "*", "#"),
    ("network.", "ip", "4", ""),
    ("network.", "ip", "6", "IPv6"),
    ("network.", "pacing", "back_to_back", ""),
    ("network.", "pacing", "idle", "after a pause"),
    ("", "quantile", "p50", ""),
    ("", "quantile", "p90", "90th percentile"),
    ("", "quantile", "p99", "99th percentile"),
    ("network.bandwidth.", "bytes", "*", "writes of @"),
    ("network.datagrams.", "bytes", "*", "datagrams of @"),
    ("network.datagrams.", "offered", "full", "full rate"),
    ("network.datagrams.", "offered", "0.9", "0.9 of the rate"),
    ("network.datagrams.", "offered", "0.5", "half of the rate"),
    ("network.datagrams.", "to", "program", ""),
    ("network.datagrams.", "to", "socket", "with what the receiver drops"),
    ("network.", "bytes", "1", ""),
    ("network.", "bytes", "*", "@"),
    ("network.", "streams", "1", ""),
    ("network.", "streams", "*", "# streams"),
    ("network.", "direction", "send", "send"),
    ("network.", "direction", "receive", "receive"),
    ("network.", "direction", "both", "both directions"),
    ("network.connection.", "phase", "setup", "open"),
    ("network.connection.", "phase", "first_byte", "open until the first byte"),
    ("network.connection.", "phase", "close", "close"),
    ("network.connection.", "phase", "teardown", "shutdown until the other side's end"),
    ("network.connection.", "phase", "abort", "reset"),
    ("file.", "cache", "direct", "from the device"),
    ("file.", "cache", "cold", "not cached"),
    ("file.", "cache", "warm", "cached"),
    ("file.read.", "bytes", "*", "file of @"),
    ("file.write.", "bytes", "*", "@"),
    ("file.remote_read.", "bytes", "*", "@"),
    ("file.", "depth", "*", "# in flight"),
    ("file.", "processes", "1", "1 reader"),
    ("file.", "processes", "*", "# readers"),
    ("file.cache_size.", "mode", "*", ""),
    ("file.cache_size.", "limit", "*", "group of @"),
];

/// The order in which labels read best; those that are not here follow by name.
const ORDER: &[&str] = &[
    "call",
    "method",
    "by",
    "how",
    "image",
    "phase",
    "kind",
    "protocol",
    "level",
    "operation",
    "direction",
    "order",
    "cache",
    "between",
    "placement",
    "target",
    "child",
    "through",
    "requested",
    "bytes",
    "resident",
    "depth",
    "processes",
    "streams",
    "threads",
];

/// A figure in plain words: the metric, then what its labels say, the usual cases left out.
pub fn phrase(metric: &str, labels: &Labels) -> String {
    let known = METRICS.iter().find(|(name, _)| *name == metric);
    let mut words = vec![known.map_or_else(|| metric.replace(['.', '_'], " "), |(_, words)| (*words).to_owned())];
    let rank = |key: &str| ORDER.iter().position(|known| *known == key).unwrap_or(ORDER.len());
    let mut pairs: Vec<(&str, &str)> = labels.pairs().collect();
    pairs.sort_by_key(|(key, _)| rank(key));
    words.extend(pairs.iter().map(|(key, value)| label(metric, key, value)).filter(|words| !words.is_empty()));
    words.join(", ")
}

/// A label in plain words; empty where it is the usual case.
pub fn label(metric: &str, key: &str, value: &str) -> String {
    let experiment = TABLE.iter().find(|found| found.publication(metric).is_some());
    if let Some(words) = experiment.and_then(|experiment| (experiment.words_of)(key, value)) {
        return words.to_owned();
    }
    let fits = |(begins, of, is, _): &&(&str, &str, &str, &str)| {
        metric.starts_with(begins) && *of == key && (*is == value || *is == "*")
    };
    let size = || value.parse().map_or_else(|_| value.to_owned(), |bytes| mark(bytes, Unit::Bytes));
    match LABELS.iter().find(fits) {
        Some((.., words)) => words.replace('@', &size()).replace('#', value),
        None if value.chars().all(|letter| letter.is_ascii_digit() || letter == '.') => format!("{key} {value}"),
        None => value.replace('_', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_names_of_the_field() {
        let labels = Labels::of([("between", "processes"), ("placement", "same_cpu"), ("through", "pipe")]);
        assert_eq!(phrase("os.context_switch.time", &labels), "context switch, same CPU, pipe");
        let labels = Labels::of([("order", "random"), ("cache", "direct"), ("bytes", "67108864")]);
        assert_eq!(phrase("file.read.block_time", &labels), "4 KiB file read, random, from the device, file of 64 MiB");
        let labels = Labels::of([("how", "fork_wait"), ("resident", "0"), ("child", "same_cpu")]);
        assert_eq!(phrase("os.process_creation.time", &labels), "process, fork and wait");
        assert_eq!(phrase("some.new_metric", &Labels::of([("size", "3")])), "some new metric, size 3");
    }

    #[test]
    fn every_metric_has_words() {
        for publication in TABLE.iter().flat_map(|experiment| experiment.publishes) {
            assert!(METRICS.iter().any(|(name, _)| *name == publication.metric), "{} has no words", publication.metric);
        }
    }
}
