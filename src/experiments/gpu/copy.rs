//! # Question
//!
//! How long does it take to copy bytes between the memory of the host and that of the GPU? At which rate do many bytes go?
//!
//! # Method
//!
//! A separate program loads the driver (libcuda.so.1) and copies by cuMemcpyHtoD and cuMemcpyDtoH, which return when the copy is done. One
//! driver thread copies 4 B to 64 MiB. Small copies are made 16 times in a row, long ones once.
//!
//! - **direction**: to the device, or from it.
//! - **memory**: **pinned** memory of the host comes from cuMemAllocHost. The device reads and writes it by itself. **pageable** memory is
//!   ordinary, and its pages are there. The driver copies it through a separate pinned part.
//!
//! Before each batch the source gets another content, and after each batch all of the target is compared with it. So a copy that did
//! nothing or too little is refused. That program runs on the CPU of the launch and reads the same clock around the batch. The rate is that of
//! the longest copy.
//!
//! # Prediction
//!
//! A fixed cost, and the bytes at the rate of the device's link. In a guest the link is not known, because a hypervisor can claim any.
//! Pageable bytes also go through the memory of the host, at the rate of copies of this run (memory.bandwidth), in part at the same time.
//!
//! # What could fool us
//!
//! - A copy of pageable memory to the device can return before the device has it. The driver has its own copy then. For small copies this is
//!   what a program waits for.
//! - An idle device lowers its link, which a short copy does not raise again.
//! - Memory on the other socket is further away from the device. All is on the node where the CPU of the run touched it.
//! - The host has written or read the bytes shortly before, so small ones come from its caches.
//! - An address translation for devices (IOMMU) can halve the rate of the link.
//!
//! # References
//!
//! - CUDA Driver API (cuMemcpyHtoD, cuMemcpyDtoH: behaviour of synchronous copies)
//! - PCI Express base specification (encoding, packets). nvbandwidth and bandwidthTest of NVIDIA
//! - Boyer, "Memory Transfer Overhead", University of Virginia
//! - Wu et al., arXiv 2602.21548 (section 5.2)

use super::{GPU, begin, sample, workload};
use crate::experiments::constants::Constant;
use crate::experiments::figure_name::FigureName;
use crate::experiments::prelude::*;
use crate::sys::gpu::{Direction, HostMemory, Task};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "gpu.copy",
    title: "Copies to and from the GPU",
    measures: "copies of 4 B to 64 MiB to and from the GPU",
    words: &["cudamemcpy", "pcie", "host_to_device", "device_to_host"],
    method_version: 1,
    precision: Precision { target: 0.2, between: 0.12, busy: 0.2 },
    source: heading!("copy.rs"),
    needs: &[GPU],
    uses: &["memory.bandwidth.rate"],
    words_of: |key, value| match (key, value) {
        ("direction", TO_DEVICE) => Some("to the GPU"),
        ("direction", FROM_DEVICE) => Some("from the GPU"),
        ("memory", PINNED) => Some("pinned memory"),
        ("memory", PAGEABLE) => Some("pageable memory"),
        _ => None,
    },
    rules: RULES,
    constants: CONSTANTS,
    publishes: &[
        Publication::cost(TIME, Unit::Nanoseconds, "one copy between the host and the GPU")
            .in_summary_where(|labels| labels.get("bytes") == Some("4")),
        Publication::cost(RATE, Unit::BytesPerSecond, "rate of the longest copy between the host and the GPU")
            .in_summary(),
    ],
    seconds: |_| 2.5,
    time_out: 90.0,
    memory: |setup, _| memory_of(largest(setup)).min(setup.machine.launch_memory_bytes()),
    predict,
    measure,
    figures,
    explain,
    ..Experiment::DEFAULT
};

const TIME: &str = "gpu.copy.time";
const RATE: &str = "gpu.copy.rate";
/// Series of the copies.
const COPY: &str = "copy";
/// The remark with the rate of the link.
const LINK: &str = "link";
/// Values of the labels.
const TO_DEVICE: &str = "to_device";
const FROM_DEVICE: &str = "from_device";
const PINNED: &str = "pinned";
const PAGEABLE: &str = "pageable";

/// Bytes of a copy, and how many copies a batch has.
const SIZES: [(u64, u64); 6] = [(4, 16), (4 << 10, 16), (64 << 10, 16), (1 << 20, 2), (16 << 20, 1), (MOST_BYTES, 1)];
const MOST_BYTES: u64 = 64 << 20;
/// Copies from here on are made fewer times, as each takes milliseconds, and more to check its content.
const LONG_BYTES: u64 = 16 << 20;
const MOST_LONG: u32 = 3;
/// Bytes that the driver takes, and the program that loads it.
const OF_DRIVER: u64 = 96 << 20;
/// Nanoseconds that no copy goes below: a call of the driver.
const LEAST: f64 = 50.0;
/// Share of the link that a copy may seem to have: clocks of links may be faster by 300 parts per million, and those of runs err.
const WHOLE_LINK: f64 = 1.01;
/// A copy takes this share of the time of a shorter one, at least.
const SHORTER: f64 = 0.8;
/// Copies of memory to memory by one thread.
const MEMORY_COPY: FigureName = FigureName::of("memory.bandwidth.rate level=DRAM operation=copy threads=1");

constants! {
    /// The call of the driver, and the way of a command to the device and of its end back.
    GPU_COPY_CALL = 8_000.0 in 4_000.0 ..= 15_000.0 "ns",
        "Boyer, University of Virginia: some 10 µs for each copy on PCI Express 2.0. Wu et al., arXiv 2602.21548: 5 to 7 µs to submit one";
    /// 1 MiB over a link whose rate is not known. The range is that of most links, because a wider one would predict nothing.
    GPU_LINK = 48_000.0 in 24_000.0 ..= 96_000.0 "ns", "PCI Express base specification: 16 lanes of 8 to 32 GT/s carry 16 to 63 GB/s, less packets";
    /// Part of a link that copies get.
    GPU_LINK_SHARE = 0.82 in 0.4 ..= 0.98 "times",
        "PCI Express base specification: 24 bytes around each packet of 128 to 256 bytes. The slot may have half of the best rate";
    /// 1 MiB copied in memory, where this run has no rate of that.
    GPU_STAGING = 105_000.0 in 52_000.0 ..= 210_000.0 "ns",
        "one thread copies 5 to 20 GB/s. Boyer, University of Virginia: pinned memory has 2.4 times the rate of pageable memory";
    /// The copy through pinned memory, over the rate at which a thread copies in memory: the pinned pieces stay in the caches.
    GPU_STAGING_SHARE = 1.2 in 0.6 ..= 2.5 "times", "CUDA Driver API: pageable memory is copied through pinned memory of the driver";
}

rules! {
    FLOOR: "G8" Hard "`gpu.copy.time`", "at least {}", time(LEAST);
    LINKED: "G8" Hard "`gpu.copy.rate`", "at most {} of the rate of the device's link, where no hypervisor can claim one", plain(WHOLE_LINK);
    LONGER: "G20" Noisy "`gpu.copy.time`", "at least {} times as long as the next shorter copy", plain(SHORTER);
}

/// Bytes of memory for copies of at most some bytes: pinned and pageable.
fn memory_of(bytes: u64) -> u64 {
    2 * bytes + OF_DRIVER
}

/// The longest copy for which a launch has memory, and the shortest one where it has none.
fn largest(setup: &Setup) -> u64 {
    let fits = |bytes: &u64| memory_of(*bytes) <= setup.machine.launch_memory_bytes();
    SIZES.iter().map(|(bytes, _)| *bytes).filter(fits).max().unwrap_or(SIZES[0].0)
}

/// A way of bytes.
type Way = (&'static str, Direction, &'static str, HostMemory);

const WAYS: [Way; 4] = [
    (TO_DEVICE, Direction::ToDevice, PINNED, HostMemory::Pinned),
    (TO_DEVICE, Direction::ToDevice, PAGEABLE, HostMemory::Pageable),
    (FROM_DEVICE, Direction::FromDevice, PINNED, HostMemory::Pinned),
    (FROM_DEVICE, Direction::FromDevice, PAGEABLE, HostMemory::Pageable),
];

fn labels((direction, _, memory, _): Way, bytes: u64) -> Labels {
    Labels::of([("direction", direction), ("memory", memory)]).with("bytes", bytes)
}

/// Nanoseconds of some bytes at a part of a rate: usual, least, most.
fn at_rate(bytes: u64, rate: f64, part: Constant) -> (f64, f64, f64) {
    let whole = bytes as f64 * 1e9 / rate;
    (whole / part.value, whole / part.high, whole / part.low)
}

fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    const MIB: f64 = 1024.0 * 1024.0;
    let link = |bytes: u64| match by.setup.machine.gpu_link_rate() {
        Some(rate) => (at_rate(bytes, rate as f64, GPU_LINK_SHARE), Basis::machine("link of the GPU in /sys")),
        None => (GPU_LINK.times(bytes as f64 / MIB), GPU_LINK.basis()),
    };
    let staging = |bytes: u64| match MEMORY_COPY.find(by.known) {
        Some(found) => {
            (at_rate(bytes, found.value, GPU_STAGING_SHARE), Basis::metric("memory.bandwidth.rate operation=copy"))
        }
        None => (GPU_STAGING.times(bytes as f64 / MIB), GPU_STAGING.basis()),
    };
    let time = |way: Way, bytes: u64| {
        let prediction = Prediction::of(TIME, labels(way, bytes), Unit::Nanoseconds)
            .software("call and command", GPU_COPY_CALL.times(1.0), GPU_COPY_CALL.basis())
            .hardware("bytes over the link", link(bytes).0, link(bytes).1);
        if way.3 == HostMemory::Pinned {
            return prediction;
        }
        // At best the way through the memory is at the same time as the way over the link.
        let ((usual, _, most), basis) = staging(bytes);
        prediction.software("through pinned memory of the driver", (usual, 0.0, most), basis)
    };
    let mut predictions: Vec<Prediction> =
        WAYS.iter().flat_map(|way| SIZES.map(|(bytes, _)| time(*way, bytes))).collect();
    predictions.extend(WAYS.iter().map(|way| rate_by(&time(*way, MOST_BYTES), *way, link(MOST_BYTES).1)));
    predictions
}

/// The rate of a copy by its time.
fn rate_by(time: &Prediction, way: Way, basis: Basis) -> Prediction {
    let rate = |nanoseconds: f64| MOST_BYTES as f64 * 1e9 / nanoseconds;
    Prediction::of(RATE, labels(way, MOST_BYTES), Unit::BytesPerSecond).hardware(
        "64 MiB in the time of the copy",
        (rate(time.value), rate(time.high), rate(time.low)),
        basis,
    )
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    if let Some(rate) = rig.setup().machine.gpu_link_rate() {
        rig.remark(LINK, &rate);
    }
    let largest = largest(rig.setup());
    let driver = begin(rig, largest)?;
    let mut workloads = Vec::new();
    for way in WAYS {
        for (bytes, count) in SIZES {
            if bytes > largest {
                let why = format!("a launch may take {} of memory", quantity(rig.memory() as f64, Unit::Bytes));
                rig.unavailable(TIME, &labels(way, bytes), &why);
                rig.unavailable(RATE, &labels(way, bytes), &why);
                continue;
            }
            let task = Task::Copy(way.1, way.3, bytes);
            let workload = workload(rig, COPY, labels(way, bytes), &driver, task)?.sized(Sizing::Exactly(count));
            workloads.push(if bytes >= LONG_BYTES { workload.at_most(MOST_LONG) } else { workload });
        }
    }
    sample(rig, &driver, workloads)
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    let links = study.remarks(LINK).into_iter().filter_map(|rate| rate.parse::<f64>().ok());
    let link = links.reduce(f64::max);
    for way in WAYS {
        let mut shorter: Option<Estimate> = None;
        for (bytes, _) in SIZES {
            let Some(sample) = study.sample(COPY, &labels(way, bytes)) else { continue };
            let Some(time) = Estimate::median(&sample) else { continue };
            let longer = shorter.map(|shorter| {
                Gate::at_least(&LONGER, time.named("{}"), shorter.value * SHORTER).because("the next shorter copy")
            });
            let own = longer.into_iter().chain([gates::floor(&FLOOR, &time, LEAST)]).collect::<Vec<_>>();
            findings.publish(study, Figure::batches(TIME, labels(way, bytes), &time).gates(own));
            if bytes == MOST_BYTES {
                let rate = Number::of(bytes as f64 * 1e9 / time.value, Unit::BytesPerSecond);
                let most = link.map(|link| {
                    Gate::at_most(&LINKED, rate.named("{}"), link * WHOLE_LINK)
                        .because("the link of the device in /sys")
                });
                let figure = Figure::rate(RATE, labels(way, bytes), &sample, bytes as f64);
                findings.publish(study, figure.gates(most));
            }
            shorter = Some(time);
        }
    }
}

fn explain(_: &Study<'_>, findings: &mut Findings) {
    let time =
        |way: Way, bytes: u64| findings.metric(TIME, &labels(way, bytes)).map(|metric| metric.shown().to_string());
    let table = pivot(
        "Time of a copy by its size, direction and memory of the host.",
        SIZES.map(|(bytes, _)| bytes),
        &[
            ("bytes", &|bytes| Some(quantity(*bytes as f64, Unit::Bytes))),
            ("to the GPU, pinned", &|bytes| time(WAYS[0], *bytes)),
            ("to the GPU, pageable", &|bytes| time(WAYS[1], *bytes)),
            ("from the GPU, pinned", &|bytes| time(WAYS[2], *bytes)),
            ("from the GPU, pageable", &|bytes| time(WAYS[3], *bytes)),
        ],
    );
    findings.analysis.extend(table);
    let rate = |way: Way| findings.metric(RATE, &labels(way, MOST_BYTES)).cloned();
    let (Some(pinned), Some(pageable)) = (rate(WAYS[0]), rate(WAYS[1])) else { return };
    findings.say(format!(
        "Long copies to the GPU have {} from pinned memory and {} from pageable memory.",
        pinned.shown(),
        pageable.shown()
    ));
}
