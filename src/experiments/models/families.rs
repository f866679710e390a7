//! Of what the figures of each chapter are composed.

use crate::experiments::prelude::*;
use crate::results::prediction::Part::{BaseHardware, SoftwareOverhead};

use super::model::Model;
use super::primitives::{
    AWAKE_WAKE_UP, CLOCK_CALL, CYCLE, DIRECT_READ, ECHO_ON_ONE_CPU, ECHO_ON_TWO_CPUS, IDLE_WAKE_UP, KERNEL_ENTRY,
    MEMORY_LOAD, READ_FAULT, SWITCH, WRITE_FAULT,
};

/// How a figure is composed; none where nothing is known that it follows from.
pub fn model(metric: &str, labels: &Labels) -> Option<Model> {
    let families = [processor, system_call, switch, thread, process, memory, page_fault, network, file];
    families.into_iter().find_map(|family| family(metric, labels))
}

/// Whether a figure has a label.
fn is(labels: &Labels, key: &str, value: &str) -> bool {
    labels.get(key) == Some(value)
}

fn processor(metric: &str, _: &Labels) -> Option<Model> {
    let known = [
        "cpu.timer.overhead",
        "cpu.loop.overhead",
        "cpu.procedure_call.time",
        "cpu.procedure_call.per_argument",
        "cpu.procedure_call.seventh_argument",
    ];
    known.contains(&metric).then(|| Model::of("the cycle count of this core design", BaseHardware, CYCLE))
}

fn system_call(metric: &str, labels: &Labels) -> Option<Model> {
    if metric == "os.system_call.time" && labels.get("call").is_some_and(|call| call.contains("vdso")) {
        return Some(Model::of("a call that stays in user mode", SoftwareOverhead, CYCLE));
    }
    if metric == "os.system_call.time" && is(labels, "call", "enosys") {
        return Some(Model::of("kernel entry and exit, scaled from a clock system call", BaseHardware, CLOCK_CALL));
    }
    ["os.system_call.time", "os.system_call.service"]
        .contains(&metric)
        .then(|| Model::of("the call, scaled from a clock system call", SoftwareOverhead, CLOCK_CALL))
}

fn switch(metric: &str, labels: &Labels) -> Option<Model> {
    Some(match metric {
        "os.context_switch.time" if SWITCH.has_labels(labels) => {
            Model::of("wake-up, switch and one byte, scaled from a clock system call", SoftwareOverhead, CLOCK_CALL)
                .entering(2.0)
        }
        "os.context_switch.time" if is(labels, "placement", "same_cpu") => {
            Model::of("wake-up, switch and token, scaled from a switch through a pipe", SoftwareOverhead, SWITCH)
        }
        "os.context_switch.time" if IDLE_WAKE_UP.has_labels(labels) || AWAKE_WAKE_UP.has_labels(labels) => {
            let what = if is(labels, "target", "awake") {
                "interrupt to the other CPU and a switch there, scaled from a clock system call"
            } else {
                "interrupt to the other CPU and its exit from idle, scaled from a clock system call"
            };
            Model::of(what, SoftwareOverhead, CLOCK_CALL).entering(2.0)
        }
        "os.context_switch.time" => {
            let wake_up = if is(labels, "target", "awake") { AWAKE_WAKE_UP } else { IDLE_WAKE_UP };
            Model::of("wake-up of the other CPU, scaled from one through a pipe", SoftwareOverhead, wake_up)
        }
        "os.context_switch.net" => {
            Model::of("wake-up and switch, scaled from a clock system call", SoftwareOverhead, CLOCK_CALL)
        }
        "os.context_switch.pipe_overhead" | "os.context_switch.eventfd_overhead" => {
            Model::of("file layer, lock, and one datum in and out", SoftwareOverhead, CLOCK_CALL).entering(2.0)
        }
        "os.cache_line_transfer.time" => Model::of("path between two cores of this design", BaseHardware, CYCLE),
        "os.signal.time" => Model::of("signal handling, scaled from a switch", SoftwareOverhead, SWITCH),
        _ => return None,
    })
}

fn thread(metric: &str, labels: &Labels) -> Option<Model> {
    if metric != "os.thread_creation.time" {
        return None;
    }
    if is(labels, "child", "free") {
        return Some(Model::of("a thread on another CPU, scaled from a wake-up there", SoftwareOverhead, IDLE_WAKE_UP));
    }
    let own = Model::of("creating and releasing the thread, scaled from a switch", SoftwareOverhead, SWITCH);
    Some(match labels.get("how") {
        Some("create_join") => own.entering(2.0).switching(2.0),
        Some("create_run") => own.entering(1.0).switching(1.0),
        _ => own.entering(1.0),
    })
}

fn process(metric: &str, labels: &Labels) -> Option<Model> {
    let how = labels.get("how").unwrap_or_default();
    let page = Model::of("copying page-table entries, scaled from a memory load", SoftwareOverhead, MEMORY_LOAD);
    if metric == "os.process_creation.per_page" {
        return Some(page);
    }
    if metric != "os.process_creation.time" {
        return None;
    }
    if is(labels, "pages", "4k") && how.contains("fork") && how != "vfork_wait" {
        let resident = labels.get("resident").and_then(|bytes| bytes.parse().ok()).unwrap_or(0.0);
        return Some(page.for_pages_of(resident));
    }
    let own = Model::of("creating and releasing the process, scaled from a switch", SoftwareOverhead, SWITCH);
    let returns = how.contains("wait") && is(labels, "child", "same_cpu");
    Some(if returns { own.entering(2.0).switching(2.0) } else { own.entering(1.0) })
}

fn memory(metric: &str, labels: &Labels) -> Option<Model> {
    let in_cache = ["L1", "L2", "L3"].iter().any(|level| is(labels, "level", level));
    Some(match metric {
        "memory.latency.level" | "memory.latency.translation" => {
            Model::of("the cycle count of this core design", BaseHardware, CYCLE)
        }
        "memory.bandwidth.rate" | "memory.bandwidth.bus_rate" if in_cache => {
            Model::of("bytes per cycle of this core design", BaseHardware, CYCLE).rate()
        }
        "memory.bandwidth.rate" | "memory.bandwidth.bus_rate" => {
            Model::of("cache lines in flight during one memory load", BaseHardware, MEMORY_LOAD).rate()
        }
        "memory.loaded_latency.time" => Model::of("a load that queues behind others", BaseHardware, MEMORY_LOAD),
        _ => return None,
    })
}

fn page_fault(metric: &str, labels: &Labels) -> Option<Model> {
    if metric != "memory.page_fault.time" {
        return None;
    }
    Some(match labels.get("kind") {
        Some("file_cold") => Model::of("reading the page from the device", BaseHardware, DIRECT_READ).and(
            "exception and mapping of the page",
            SoftwareOverhead,
            READ_FAULT,
            1.0,
        ),
        Some("anonymous_read" | "anonymous_write") => {
            Model::of("exception, page and table entry, scaled from kernel entry", SoftwareOverhead, KERNEL_ENTRY)
        }
        Some("huge_anonymous") => {
            Model::of("clearing a huge page, scaled from the fault of a small one", BaseHardware, WRITE_FAULT)
        }
        Some("copy_on_write") => {
            Model::of("copying a page, scaled from the fault that clears one", SoftwareOverhead, WRITE_FAULT)
        }
        _ => Model::of("finding pages in the cache, scaled from a read fault", SoftwareOverhead, READ_FAULT),
    })
}

fn network(metric: &str, labels: &Labels) -> Option<Model> {
    if !is(labels, "path", "loopback") {
        return None;
    }
    let other_cpu = is(labels, "placement", "other_cpu");
    Some(match metric {
        "network.round_trip.time" if is(labels, "protocol", "icmp") => {
            let primitive = if is(labels, "pacing", "idle") { IDLE_WAKE_UP } else { SWITCH };
            Model::of("the kernel's echo reply, scaled from a switch or a wake-up", SoftwareOverhead, primitive)
                .entering(2.0)
        }
        "network.round_trip.time" if is(labels, "pacing", "idle") => Model::of(
            "deeper sleep of both CPUs, and the protocol",
            SoftwareOverhead,
            IDLE_WAKE_UP,
        )
        .and("wake-up of an idle CPU", BaseHardware, IDLE_WAKE_UP, 2.0),
        "network.round_trip.time" if other_cpu => Model::of(
            "exit from idle, and the protocol",
            SoftwareOverhead,
            IDLE_WAKE_UP,
        )
        .and("wake-up of another CPU that is awake", BaseHardware, AWAKE_WAKE_UP, 2.0),
        "network.round_trip.time" => {
            Model::of("protocol in both directions, scaled from a switch", SoftwareOverhead, SWITCH).switching(2.0)
        }
        "network.connection.time" => {
            let echo = if other_cpu { ECHO_ON_TWO_CPUS } else { ECHO_ON_ONE_CPU };
            Model::of("packets that open or close a connection, scaled from an echo", SoftwareOverhead, echo)
        }
        "network.bandwidth.rate" => Model::of("bytes moved in the time of a switch", SoftwareOverhead, SWITCH).rate(),
        _ => return None,
    })
}

fn file(metric: &str, labels: &Labels) -> Option<Model> {
    let primitive = DIRECT_READ.has_labels(labels);
    Some(match metric {
        "file.read.block_time" if is(labels, "cache", "warm") => {
            Model::of("copy from the page cache, scaled from a switch", SoftwareOverhead, SWITCH).entering(1.0)
        }
        "file.read.rate" if is(labels, "cache", "warm") => {
            Model::of("bytes copied in the time of a switch", SoftwareOverhead, SWITCH).rate()
        }
        "file.read.block_time" | "file.read.rate" if primitive => return None,
        "file.read.block_time" if is(labels, "cache", "cold") && is(labels, "order", "random") => Model::of(
            "a page for the cache and the copy, scaled from a page fault",
            SoftwareOverhead,
            WRITE_FAULT,
        )
        .and("one block from the device", BaseHardware, DIRECT_READ, 1.0),
        "file.read.block_time" => {
            Model::of("one block from the device, scaled from a single read", BaseHardware, DIRECT_READ)
        }
        "file.read.rate" | "file.read.depth_rate" => {
            Model::of("bytes from the device in the time of a single read", BaseHardware, DIRECT_READ).rate()
        }
        "file.contention.block_time" => Model::of("reads that wait for each other", BaseHardware, DIRECT_READ),
        "file.contention.rate" => {
            Model::of("reads completed in the time of a single one", BaseHardware, DIRECT_READ).rate()
        }
        _ => return None,
    })
}
