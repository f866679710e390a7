//! # Question
//!
//! What does it cost to read a block of a file, and how many bytes come per second: from the device past the cache, through an
//! empty cache, and out of a full one; in the order of the file and at random; in files of 1 MiB to 1 GiB?
//!
//! # Method
//!
//! The files lie in the run's own directory, written once with bytes that nothing compresses. Every 4 KiB block carries a
//! stamp (file, block, run), which every read compares; FIEMAP and SEEK_HOLE must find every byte on the device.
//!
//! - **direct**: O_DIRECT, the device and the way to it. **cold**: through the page cache after the file was dropped from it
//!   and the kernel said that no page of it was there. **warm**: all of it in the cache, by the kernel's count.
//! - **random**: 4 KiB by a random permutation, each place once in a launch; read-ahead is off (POSIX_FADV_RANDOM). Each
//!   read is timed by itself: between the two clock reads lie pread(2) and the comparison of the stamp. All sizes, direct
//!   and cold, take turns in bursts of ten, the first of which does not count. Warm reads are too short for that: they are
//!   timed in batches.
//! - **sequential**: 4 KiB after 4 KiB for the time of a block, 1 MiB after 1 MiB for the rate, whole passes over clock
//!   reads; with the kernel's usual read-ahead. The figure is time over requests; direct reads of 4 KiB, which nothing
//!   reads ahead, are timed by themselves, after six milliseconds of them that do not count. A pass ends with the file or
//!   when its time is up.
//!
//! Direct and cold reads are proven by what block devices read for this process (`/proc/self/io`): their bytes, no fewer; cold
//! ones leave exactly their pages in the cache. During warm ones that count stands still. Figures are medians over
//! launches of the launch's median; warm ones are undisturbed costs in core cycles.
//!
//! **depth_rate** keeps 1 to 32 random reads of a block under way (io_uring): where it stops rising, the device is
//! saturated. **Hidden caches**: two hundred places are read twice past the cache; if the second time is much faster,
//! something below the kernel remembered them.
//!
//! # Prediction
//!
//! Direct: what a cold page fault took of this device in this run, else the way into the kernel, a request, the answer of a
//! device of this kind, and the switch back. Cold: also a page, its place in the cache, a copy. Warm: the way in, the
//! lookup, the copy. Rates: the bytes at the rate of such a device, or the copy, whichever takes longer.
//!
//! # What could fool us
//!
//! - A file that was allocated but never written, or has holes: the kernel gives zeros without asking the device. Refused.
//! - A file that is still cached. Dropping it does nothing to pages that are mapped, dirty, or on their way.
//! - Read-ahead makes megabytes of a random read of 4 KiB; here it is off for random order and on for the other.
//! - **Caches below the kernel**: of the drive, of a controller, of a virtual disk's host. What was just written is in them. A
//!   figure faster than its kind of device can be is called served by a cache; a disk of a guest is called virtual.
//! - Many reads under way hide their latency. A data sheet's IOPS are at depth 32 or more and are no latency.
//! - `rotational`, `read_ahead_kb` and the like are claims of a driver; in guests they are often wrong.
//! - Picking places with rand() repeats some: those come from a cache.
//! - The span of a file is a fraction of the device: a short stroke on a disk that turns.
//!
//! # References
//!
//! open(2) (O_DIRECT), posix_fadvise(2), cachestat(2), proc_pid_io(5), statx(2); Linux Documentation/filesystems/fiemap.rst,
//! mm/filemap.c, mm/readahead.c, fs/iomap/direct-io.c; io_uring(7); fio, HOWTO.

mod expectation;
mod judgement;
mod passes;

use super::{BLOCK, Class, DISK, Order, PLACE, taken};
use crate::evaluate::estimate::Estimate;
use crate::evaluate::figure::Figure;
use crate::evaluate::findings::Findings;
use crate::evaluate::study::Study;
use crate::experiments::{Experiment, Nature, Publication};
use crate::results::document::{Axis, Curve};
use crate::results::quantity::{Labels, Unit};
use crate::results::trouble::Trouble;
use crate::results::wording::{factor, percent, quantity};
use crate::rig::Rig;
use crate::statistics::summary::median;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "file.read",
    title: "Local file reads",
    measures: "a block of a local file: direct, cold and warm, sequential and random, by file size",
    method_version: 1,
    source: include_str!("read.rs"),
    needs: &[PLACE, DISK],
    uses: &["cpu.cycle_time", "os.system_call.time", "memory.page_fault.time"],
    rules: judgement::RULES,
    constants: &[],
    publishes: &[
        Publication {
            metric: TIME,
            unit: Unit::Nanoseconds,
            meaning: "one read of 4 KiB",
            nature: Nature::State,
            headline: |labels| labels.get("bytes") == Some(HEADLINE),
        },
        Publication {
            metric: RATE,
            unit: Unit::BytesPerSecond,
            meaning: "bytes read per second, one request after the other",
            nature: Nature::State,
            headline: |labels| labels.get("bytes") == Some(HEADLINE) && labels.get("order") == Some("sequential"),
        },
        Publication {
            metric: DEPTH_RATE,
            unit: Unit::BytesPerSecond,
            meaning: "random reads of 4 KiB past the cache with so many under way",
            nature: Nature::State,
            headline: |labels| labels.get("depth") == Some("32"),
        },
    ],
    every: |_| 4,
    seconds: |_| 1.6,
    time_out: 300.0,
    memory: |_| 8 << 20,
    predict: expectation::predict,
    measure,
    figures,
    explain,
};

const TIME: &str = "file.read.block_time";
const RATE: &str = "file.read.rate";
/// A depth saturates a device when no other brings this many times its rate.
const SATURATED: f64 = 1.05;
const DEPTH_RATE: &str = "file.read.depth_rate";

/// Sizes of files: steps of four.
const SIZES: [u64; 6] = [1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30];
/// The size that the summary shows.
const HEADLINE: &str = "67108864";
/// Bytes of a request of a rate.
const LARGE: u64 = 1 << 20;
/// Reads under way.
const DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Caches, as labels.
const DIRECT: &str = "direct";
const COLD: &str = "cold";
const WARM: &str = "warm";
const CACHES: [&str; 3] = [DIRECT, COLD, WARM];
/// A second touch that is faster than the first by more shows a cache below the kernel (G35).
const TOUCH_RATIO: f64 = 1.3;

/// Labels of a figure.
fn labels(order: Order, cache: &str, bytes: u64) -> Labels {
    Labels::of([("order", order.name()), ("cache", cache)]).with("bytes", bytes)
}

/// The same for passes by requests of one size.
fn pass_labels(order: Order, cache: &str, bytes: u64, request: u64) -> Labels {
    labels(order, cache, bytes).with("request", request)
}

/// Labels of what proves reads: random ones, direct and cold, are proven together.
fn proof_labels(order: Order, cache: &str) -> Labels {
    match order {
        Order::Random => Labels::of([("order", order.name())]),
        Order::Sequential => Labels::of([("order", order.name()), ("cache", cache)]),
    }
}

fn measure(rig: &mut Rig<'_>) -> Result<(), Trouble> {
    let targets = passes::prepare(rig)?;
    passes::shoot(rig, &targets)?;
    passes::run_direct(rig, &targets)?;
    passes::touch_twice(rig, &targets)?;
    passes::run_depths(rig, &targets)?;
    let resident = passes::run_cold(rig, &targets)?;
    passes::run_warm(rig, &targets, &resident)
}

fn figures(study: &Study<'_>, findings: &mut Findings) {
    for bytes in SIZES {
        for order in Order::ALL {
            for cache in CACHES {
                publish(study, findings, order, cache, bytes);
            }
        }
    }
    for bytes in SIZES {
        for depth in DEPTHS {
            let labels = Labels::none().with("bytes", bytes).with("depth", depth);
            let Some(sample) = study.plain_sample("depth", &labels) else { continue };
            let Some(estimate) = Estimate::median(&sample.as_rates(BLOCK as f64 * 1e9, Unit::BytesPerSecond)) else {
                continue;
            };
            let figure = Figure::shots(DEPTH_RATE, labels, &estimate, Some(taken(study)));
            findings.publish(study, figure.gates(judgement::of_depth(study)));
        }
    }
    findings.curves.extend(curves(findings));
}

/// The time of a read of one kind, in the unit in which it is known best.
fn time_of(study: &Study<'_>, order: Order, cache: &str, bytes: u64) -> Option<Estimate> {
    let own = labels(order, cache, bytes);
    match (order, cache) {
        (_, WARM) => Estimate::undisturbed(&study.sample("warm", &own.with("request", BLOCK))?),
        (Order::Random, _) => {
            Estimate::median(&study.sample_of("read", &own, Unit::Nanoseconds, |ticks, _| study.nanoseconds(ticks))?)
        }
        (Order::Sequential, _) => Estimate::median(&study.plain_sample("pass", &own.with("request", BLOCK))?),
    }
}

/// The same in nanoseconds.
fn nanoseconds(study: &Study<'_>, order: Order, cache: &str, bytes: u64) -> Option<f64> {
    let found = time_of(study, order, cache, bytes)?;
    Some(match (found.unit, study.core) {
        (Unit::Cycles, Some(core)) => found.value * core.period().0,
        _ => found.value,
    })
}

fn publish(study: &Study<'_>, findings: &mut Findings, order: Order, cache: &str, bytes: u64) {
    let own = labels(order, cache, bytes);
    let Some(time) = time_of(study, order, cache, bytes) else { return };
    let gates = judgement::of_time(study, order, cache, bytes, &time);
    if cache == WARM {
        findings.publish(study, Figure::batches(TIME, own, &time).gates(gates));
    } else {
        let others = Some(taken(study));
        findings.publish(study, Figure::shots(TIME, own, &time, others).gates(gates));
    }
    publish_rates(study, findings, order, cache, bytes);
}

/// The rate: large requests in the order of the file; what blocks at random come to.
fn publish_rates(study: &Study<'_>, findings: &mut Findings, order: Order, cache: &str, bytes: u64) {
    let own = labels(order, cache, bytes);
    let request = if order == Order::Random { BLOCK } else { LARGE };
    let gates = judgement::of_rate(study, order, cache, bytes);
    match (order, cache) {
        (_, WARM) => {
            let Some(sample) = study.sample("warm", &own.clone().with("request", request)) else { return };
            findings.publish(study, Figure::rate(RATE, own, &sample, request as f64).gates(gates));
        }
        (Order::Random, _) => {
            let sample = study.sample_of("read", &own, Unit::Nanoseconds, |ticks, _| study.nanoseconds(ticks));
            let rates = sample.map(|found| found.as_rates(request as f64 * 1e9, Unit::BytesPerSecond));
            let Some(estimate) = rates.as_ref().and_then(Estimate::median) else { return };
            findings.publish(study, Figure::own(RATE, own, &estimate).gates(gates));
        }
        (Order::Sequential, _) => {
            let Some(sample) = study.plain_sample("pass", &pass_labels(order, cache, bytes, request)) else { return };
            let rates = sample.as_rates(request as f64 * 1e9, Unit::BytesPerSecond);
            let Some(estimate) = Estimate::median(&rates) else { return };
            let figure = Figure::shots(RATE, own, &estimate, Some(taken(study)));
            findings.publish(study, figure.gates(gates));
        }
    }
}

/// Time of a block against the size of the file, for every order and cache.
fn curves(findings: &Findings) -> Vec<Curve> {
    let mut curves = Vec::new();
    for order in Order::ALL {
        for cache in CACHES {
            let of = |bytes: u64| {
                let metric = findings.metric(TIME, &labels(order, cache, bytes))?;
                Some([bytes as f64, metric.value, metric.interval95[0], metric.interval95[1]])
            };
            let points: Vec<[f64; 4]> = SIZES.into_iter().filter_map(of).collect();
            if points.len() > 1 {
                curves.push(Curve {
                    name: "file.read.by_size".to_owned(),
                    labels: Labels::of([("order", order.name()), ("cache", cache)]),
                    x: Axis { label: "file".to_owned(), unit: Unit::Bytes },
                    y: Axis { label: "read of 4 KiB".to_owned(), unit: Unit::Nanoseconds },
                    points,
                });
            }
        }
    }
    let depths: Vec<[f64; 4]> = findings
        .metrics
        .iter()
        .filter(|metric| metric.name == DEPTH_RATE)
        .filter_map(|metric| {
            let depth: f64 = metric.labels.get("depth")?.parse().ok()?;
            Some([depth, metric.value, metric.interval95[0], metric.interval95[1]])
        })
        .collect();
    if depths.len() > 1 {
        curves.push(Curve {
            name: "file.read.by_depth".to_owned(),
            labels: Labels::of([("order", "random"), ("cache", DIRECT)]),
            x: Axis { label: "reads under way".to_owned(), unit: Unit::One },
            y: Axis { label: "rate".to_owned(), unit: Unit::BytesPerSecond },
            points: depths,
        });
    }
    curves
}

fn explain(study: &Study<'_>, findings: &mut Findings) {
    findings.figure("file.read.by_size").caption = Some("Time of a read of 4 KiB by the size of the file".to_owned());
    let complete = SIZES.into_iter().rev().find(|&bytes| {
        CACHES.iter().all(|cache| findings.metric(TIME, &labels(Order::Random, cache, bytes)).is_some())
    });
    if let Some(bytes) = complete {
        decompose(study, findings, bytes);
    }
    explain_device(study, findings);
    let depth = |depth: u32| {
        findings
            .metrics
            .iter()
            .find(|metric| metric.name == DEPTH_RATE && metric.labels.get("depth") == Some(depth.to_string().as_str()))
    };
    let rates: Vec<f64> = DEPTHS.into_iter().filter_map(|of| Some(depth(of)?.value)).collect();
    if let (Some(one), Some(most)) = (depth(1), depth(32)) {
        let text = format!(
            "With one random read under way {} come, with 32 {} ({}): {} reads per second instead of {}. The latency of a read \
             does not follow from the larger number.",
            one.text(),
            most.text(),
            factor(most.value / one.value),
            (most.value / BLOCK as f64).round(),
            (one.value / BLOCK as f64).round(),
        );
        findings.say(text);
    }
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let saturated = rates.iter().position(|&rate| rate >= highest / SATURATED);
    if let Some(saturated) = saturated.filter(|_| rates.len() == DEPTHS.len()) {
        findings.say(match DEPTHS[saturated] {
            32 => "The rate still rises from 16 reads under way to 32: the device is not saturated by then.".to_owned(),
            depth => format!(
                "More than {depth} under way bring less than {} more: that saturates the device or the path to it.",
                percent(SATURATED - 1.0)
            ),
        });
    }
}

/// What a read consists of: the parts that follow from the figures.
fn decompose(study: &Study<'_>, findings: &mut Findings, bytes: u64) {
    let value =
        |order: Order, cache: &str| findings.metric(TIME, &labels(order, cache, bytes)).map(|found| found.value);
    let refused = Labels::of([("call", "enosys")]);
    let entry = study.known.iter().find(|metric| metric.name == "os.system_call.time" && metric.labels == refused);
    let shown = |value: f64| quantity(value, Unit::Nanoseconds);
    let (direct, cold, warm) = (value(Order::Random, DIRECT), value(Order::Random, COLD), value(Order::Random, WARM));
    let next = value(Order::Sequential, COLD);
    let mut rows = Vec::new();
    if let (Some(warm), Some(entry)) = (warm, entry) {
        rows.push(vec![
            "warm, less a refused system call".to_owned(),
            shown(warm - entry.value),
            "finding the page and copying it".to_owned(),
        ]);
    }
    if let (Some(warm), Some(cold)) = (warm, cold) {
        rows.push(vec![
            "cold, less warm".to_owned(),
            shown(cold - warm),
            "the device, a new page, two switches".to_owned(),
        ]);
    }
    // Both are medians of a device that scatters: where the difference is lost in that, it is none.
    if let (Some(direct), Some(cold)) = (direct, cold)
        && cold > direct
    {
        rows.push(vec![
            "cold, less direct".to_owned(),
            shown(cold - direct),
            "what the page cache adds to a miss".to_owned(),
        ]);
    }
    if !rows.is_empty() {
        findings.tabulate(
            &format!("What a random read of 4 KiB consists of, in a file of {}", quantity(bytes as f64, Unit::Bytes)),
            &["difference", "time", "what it is"],
            rows,
        );
    }
    if let (Some(cold), Some(warm)) = (cold, warm) {
        findings.say(format!(
            "A random read that misses the cache takes {}, one that hits it {}: {}.",
            shown(cold),
            shown(warm),
            factor(cold / warm)
        ));
    }
    if let (Some(random), Some(next)) = (cold, next) {
        findings.say(format!(
            "In the order of the file a cold block takes {}, {} of a random one: the kernel reads ahead.",
            shown(next),
            percent(next / random)
        ));
    }
}

/// What the device is taken for, and whether something below the kernel answered in its place.
fn explain_device(study: &Study<'_>, findings: &mut Findings) {
    let class = Class::of(&study.setup.machine);
    let device = study.setup.machine.scratch().and_then(|storage| storage.device.as_ref());
    let random: Vec<(u64, f64)> = SIZES
        .into_iter()
        .filter_map(|bytes| Some((bytes, findings.metric(TIME, &labels(Order::Random, DIRECT, bytes))?.value)))
        .collect();
    let Some(&(largest, slowest)) = random.last() else { return };
    let name = device.map_or_else(String::new, |device| format!(" {}", device.name));
    if let Some((floor, why)) = class.floor()
        && slowest < floor
    {
        findings.say(format!(
            "The {}{name} answers in {}; these reads were served by a cache below the kernel or by memory: {why}.",
            class.word(),
            quantity(slowest, Unit::Nanoseconds)
        ));
    }
    if let Some(reason) = study.remarks("below").first() {
        findings.say(format!("Below the {}{name}: {reason}.", class.word()));
    }
    if class == Class::Virtual {
        findings.say(format!(
            "The disk{name} is virtual: that nothing was cached is proven for this kernel only. The files were written minutes ago at most, and the host may have kept them."
        ));
    }
    if let Some(ratio) = judgement::touch_ratio(study) {
        findings.say(if ratio > TOUCH_RATIO {
            format!(
                "A second read of the same places past the cache takes {} of the first: something below the kernel remembers. Direct and cold figures are of first touches.",
                percent(1.0 / ratio)
            )
        } else {
            format!(
                "A second read of the same places past the cache takes {} of the first: no cache below the kernel shows between the two.",
                percent(1.0 / ratio)
            )
        });
    }
    if let Some(&(least, fastest)) = random.first().filter(|(bytes, _)| *bytes < largest) {
        findings.say(format!(
            "A direct random read takes {} in a file of {} and {} in one of {}.",
            quantity(fastest, Unit::Nanoseconds),
            quantity(least as f64, Unit::Bytes),
            quantity(slowest, Unit::Nanoseconds),
            quantity(largest as f64, Unit::Bytes)
        ));
    }
    let written: Vec<f64> = study.values("writing", &Labels::none());
    if let Some(rate) = median(&written) {
        findings.say(format!("The files were written at {}.", quantity(rate, Unit::BytesPerSecond)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_rise_in_steps_of_four_and_the_headline_is_one_of_them() {
        assert!(SIZES.windows(2).all(|pair| pair[1] == 4 * pair[0]));
        assert!(SIZES.iter().any(|bytes| bytes.to_string() == HEADLINE));
    }
}
