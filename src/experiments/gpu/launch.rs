//! # Question
//!
//! What does it cost to launch a kernel on the GPU, and how long does it take until it has ended?
//!
//! # Method
//!
//! A separate program loads the driver (libcuda.so.1) and launches a kernel with one thread by cuLaunchKernel. The kernel adds 1 to a
//! number in the memory of the device. After each batch that number must be the number of launches. The label **how** says what is timed:
//!
//! - **launch**: 128 and 256 launches in a row, and a wait for the last. The difference, divided by 128, is the time of one more launch.
//!   It is the longer of two times. The driver needs one to hand a kernel over, and the device the other to run it.
//! - **launch_wait**: a launch and cuStreamSynchronize, until the kernel has ended, 16 times.
//!
//! That program runs on the CPU of the launch and reads the same clock around the batch. A batch in which another task had the CPU counts as
//! preempted. The driver polls while it waits, which is its default for one context. It keeps no cache of kernels on disk.
//!
//! # Prediction
//!
//! A launch makes no system call. The driver writes a command to memory, and tells the device by one write over the link. With a wait, the
//! device also reads the command over the link, runs the kernel, and writes to memory that it has ended.
//!
//! # What could fool us
//!
//! - A kernel with many arguments, or a driver with more devices and streams, takes longer to launch.
//! - An idle device lowers its clock and its link. The warm-up of the launch raises them in part.
//! - A profiler, a debugger or the error checks of the device (ECC) add to each launch.
//! - A program that sleeps while it waits pays for an interrupt and a wake-up too.
//!
//! # References
//!
//! - CUDA Driver API (cuLaunchKernel, cuStreamSynchronize)
//! - Gray, "Getting Started with CUDA Graphs", NVIDIA 2019
//! - Neugebauer et al., "Understanding PCIe performance for end host networking", SIGCOMM 2018

use super::{GPU, begin, sample, workload};
use crate::experiments::prelude::*;
use crate::sys::gpu::Task;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "gpu.launch",
    title: "Kernel launch",
    measures: "a kernel that is launched on the GPU, with and without a wait",
    words: &["kernel_launch", "cuda", "doorbell"],
    method_version: 1,
    precision: Precision { target: 0.15, between: 0.1, busy: 0.15 },
    source: heading!("launch.rs"),
    needs: &[GPU],
    words_of: |key, value| match (key, value) {
        ("how", LAUNCH) => Some("in a row"),
        ("how", LAUNCH_WAIT) => Some("until it has ended"),
        _ => None,
    },
    rules: RULES,
    constants: CONSTANTS,
    publishes: &[Publication::cost(TIME, Unit::Nanoseconds, "one launch of a kernel with one thread").in_summary()],
    seconds: |_| 0.6,
    time_out: 60.0,
    memory: |setup, _| (96 << 20).min(setup.machine.launch_memory_bytes()),
    predict,
    measure,
    figures,
    explain,
    ..Experiment::DEFAULT
};

const TIME: &str = "gpu.launch.time";
/// Values of the label.
const LAUNCH: &str = "launch";
const LAUNCH_WAIT: &str = "launch_wait";
/// Series of launches in a row, and of launches with a wait.
const LONG: &str = "long";
const SHORT: &str = "short";
const WAITED: &str = "waited";
/// Launches in the short batch. Twice as many are fewer than the queue of a driver holds, which is about a thousand.
const LAUNCHES: u64 = 128;
/// The long batch has this many times as many.
const TIMES: u64 = 2;
/// Launches with a wait in a batch.
const WAITS: u64 = 16;
/// Nanoseconds that no launch goes below: some hundred instructions and an uncached store.
const LEAST: f64 = 100.0;
/// Nanoseconds that no launch with a wait goes below: a read over the link, and a write back.
const LEAST_WAIT: f64 = 500.0;

constants! {
    /// What the driver does to launch one of many kernels, or the device to run one.
    GPU_LAUNCH = 2_500.0 in 1_300.0 ..= 5_000.0 "ns",
        "Gray, NVIDIA 2019: at most 3.8 µs with a kernel of 2.9 µs on a V100. Newer drivers and CPUs take 2 µs";
    /// From the write over the link until the driver sees that the kernel has ended.
    GPU_COMPLETION = 5_000.0 in 2_500.0 ..= 9_500.0 "ns",
        "Gray, NVIDIA 2019: 9.6 µs for launch, kernel of 2.9 µs and wait. Neugebauer, SIGCOMM 2018: a read over the link takes 0.5 to 1 µs";
}

rules! {
    FLOOR: "G8" Hard "`gpu.launch.time`", "at least {} in a row, and {} with a wait", time(LEAST), time(LEAST_WAIT);
    ORDER: "G20" Noisy "`gpu.launch.time`", "a launch with a wait takes at least the time of one in a row";
}

fn labels(how: &str) -> Labels {
    Labels::of([("how", how)])
}

fn predict(_: &PredictionInput<'_>) -> Vec<Prediction> {
    let launch = |how| {
        Prediction::of(TIME, labels(how), Unit::Nanoseconds).software(
            "handing a kernel over",
            GPU_LAUNCH.times(1.0),
            GPU_LAUNCH.basis(),
        )
    };
    let completion = GPU_COMPLETION.times(1.0);
    vec![
        launch(LAUNCH),
        launch(LAUNCH_WAIT).hardware("start, end and report of the kernel", completion, GPU_COMPLETION.basis()),
    ]
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let driver = begin(rig, 0)?;
    let workloads = vec![
        workload(rig, SHORT, Labels::none(), &driver, Task::Launch)?.sized(Sizing::Exactly(LAUNCHES)),
        workload(rig, LONG, Labels::none(), &driver, Task::Launch)?.sized(Sizing::TimesThat(TIMES, 0)),
        workload(rig, WAITED, Labels::none(), &driver, Task::LaunchWait)?.sized(Sizing::Exactly(WAITS)),
    ];
    sample(rig, &driver, workloads)
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    let batches = |name| study.sample(name, &Labels::none());
    let in_a_row = batches(LONG).zip(batches(SHORT));
    let in_a_row = in_a_row.and_then(|(long, short)| Estimate::difference(&long, &short, TIMES as f64));
    if let Some(launch) = &in_a_row {
        let own = vec![gates::floor(&FLOOR, launch, LEAST), gates::resolved(launch)];
        findings.publish(study, Figure::batches(TIME, labels(LAUNCH), launch).gates(own));
    }
    let Some(waited) = batches(WAITED).as_ref().and_then(Estimate::median) else { return };
    let order = in_a_row.map(|launch| {
        let slack = 3.0 * (launch.standard_error() + waited.standard_error());
        Gate::at_least(&ORDER, waited.named("{}"), launch.value - slack).because("one in a row, less three errors")
    });
    let own = order.into_iter().chain([gates::floor(&FLOOR, &waited, LEAST_WAIT)]).collect::<Vec<_>>();
    findings.publish(study, Figure::batches(TIME, labels(LAUNCH_WAIT), &waited).gates(own));
}

fn explain(_: &Study<'_>, findings: &mut Findings) {
    let of = |how| findings.metric(TIME, &labels(how)).cloned();
    let (Some(launch), Some(waited)) = (of(LAUNCH), of(LAUNCH_WAIT)) else { return };
    findings.say(format!(
        "One of many launches costs {}. A program that waits for each kernel pays {}, so that shorter kernels leave the device idle for \
         most of the time.",
        launch.shown(),
        waited.shown()
    ));
}
