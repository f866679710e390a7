//! What must be true of reads, whichever experiment measures them.

use super::{
    CACHES, COLD, DEPTH_RATE, DEPTHS, DIRECT, LARGE, Order, RATE, SIZES, TIME, TOUCH_RATIO, WARM, labels, pass_labels,
    proof_labels,
};
use crate::experiments::file::file_system::{Caveat, FileSystem};
use crate::experiments::file::{BLOCK, COPY_FLOOR, DeviceClass, NO_DEVICE, taken};
use crate::experiments::limits;
use crate::experiments::os::system_call::paid;
use crate::experiments::prelude::*;
use crate::results::wording::launches;
use std::collections::BTreeMap;

pub(super) fn figures(study: &Study<'_>, findings: &mut Findings) {
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
            findings.publish(study, figure.gates(of_depth(study, estimate.value)));
        }
    }
    findings.curves.extend(curves(findings));
}

/// The time of a read of one kind, in the unit in which it is known best.
pub(super) fn time_of(study: &Study<'_>, order: Order, cache: &str, bytes: u64) -> Option<Estimate> {
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
pub(super) fn nanoseconds(study: &Study<'_>, order: Order, cache: &str, bytes: u64) -> Option<f64> {
    let found = time_of(study, order, cache, bytes)?;
    Some(match (found.unit, study.core) {
        (Unit::Cycles, Some(core)) => found.value * core.period().0,
        _ => found.value,
    })
}

pub(super) fn publish(study: &Study<'_>, findings: &mut Findings, order: Order, cache: &str, bytes: u64) {
    let own = labels(order, cache, bytes);
    let Some(time) = time_of(study, order, cache, bytes) else { return };
    let gates = of_time(study, order, cache, bytes, &time);
    if cache == WARM {
        findings.publish(study, Figure::batches(TIME, own, &time).gates(gates));
    } else {
        let others = Some(taken(study));
        findings.publish(study, Figure::shots(TIME, own, &time, others).gates(gates));
    }
    publish_rates(study, findings, order, cache, bytes);
}

/// The rate: large requests in the order of the file; what blocks at random come to.
pub(super) fn publish_rates(study: &Study<'_>, findings: &mut Findings, order: Order, cache: &str, bytes: u64) {
    let own = labels(order, cache, bytes);
    let request = if order == Order::Random { BLOCK } else { LARGE };
    let mut gates = of_rate(study, order, cache, bytes);
    if cache == WARM {
        let Some(sample) = study.sample("warm", &own.clone().with("request", request)) else { return };
        findings.publish(study, Figure::rate(RATE, own, &sample, request as f64).gates(gates));
        return;
    }
    let times = match order {
        Order::Random => study.sample_of("read", &own, Unit::Nanoseconds, |ticks, _| study.nanoseconds(ticks)),
        Order::Sequential => study.plain_sample("pass", &pass_labels(order, cache, bytes, request)),
    };
    let rates = times.map(|times| times.as_rates(request as f64 * 1e9, Unit::BytesPerSecond));
    let Some(estimate) = rates.as_ref().and_then(Estimate::median) else { return };
    let reads = (order == Order::Random).then_some(estimate.value / BLOCK as f64);
    gates.extend(limits::of_reads(&study.setup.machine, reads, estimate.value));
    findings.publish(study, Figure::shots(RATE, own, &estimate, Some(taken(study))).gates(gates));
}

/// Time of a block against the size of the file, for every order and cache.
pub(super) fn curves(findings: &Findings) -> Vec<Curve> {
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
                    words: BTreeMap::new(),
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
            words: BTreeMap::new(),
            x: Axis { label: "reads in flight".to_owned(), unit: Unit::One },
            y: Axis { label: "rate".to_owned(), unit: Unit::BytesPerSecond },
            points: depths,
        });
    }
    curves
}

/// A cold read may be less than a direct one by this share before one of them is doubted.
const COLD_SLACK: f64 = 0.9;

/// A random read may be faster than the next in order by this share.
const RANDOM_SLACK: f64 = 1.1;

/// What a read out of the cache takes at most by itself (nanoseconds).
const WARM_CEILING: f64 = 10_000.0;

/// Share of the launches in which devices may read during warm reads.
const FEW_READ: f64 = 0.2;

/// How far reads of files of different sizes may be apart.
const BY_SIZE: f64 = 0.2;

/// What devices may have read beyond what was asked for, as a share and in bytes: descriptions of where the file lies.
const READ_AHEAD: f64 = 0.02;

const DESCRIPTIONS: f64 = 1_048_576.0;

/// How far a rate may be above what its interface carries: the grain of clocks.
const INTERFACE_SLACK: f64 = 1.02;

rules! {
    DEVICE: "G8" Hard "`file.read`", "a direct read and a random cold read take at least {}, because no device answers \
                                      faster", time(NO_DEVICE);
    WARM_FLOOR: "G8" Hard "`file.read` cache=warm", "at least a rejected system call and {}", time(COPY_FLOOR);
    WARM_MOST: "G8" Noisy "`file.read` cache=warm", "a read from the cache takes at most {}", time(WARM_CEILING);
    COLD_SLOWER: "G20" Hard "`file.read.block_time`", "a random cold read takes at least {} times a direct read", plain(COLD_SLACK);
    ANY_SIZE: "G20" Remark "`file.read.block_time`", "direct random reads of files from 16 MiB are within {} of those \
                                                      of the largest file", share(BY_SIZE);
    COLD_COUNT: "G23" Hard "`file.read`", "no page was cached before. Afterwards pages are cached, at most as many as \
                                           there were cold reads (plus {})", share(READ_AHEAD);
    STILL_CACHED: "G23" Noisy "`file.read`", "all pages of cold reads are still in the cache afterwards";
    WARM_BEFORE: "G23" Hard "`file.read` cache=warm", "warm files are completely cached before the reads";
    WARM_AFTER: "G23" Contaminates "`file.read` cache=warm", "in at most {} of the launches pages of a warm file are \
                                                              missing after the reads, or devices read during them", share(FEW_READ);
    READ_ASKED: "G33" Hard "`file.read`", "devices read for the process what it requested, plus at most {} and {} (no \
                                           upper limit for sequential reads)", share(READ_AHEAD), bytes(DESCRIPTIONS);
    ACCOUNTED: "G33" Noisy "`file.read`", "the kernel counts what devices read";
    READ_BY_PROGRAM: "G33" Remark "`file.read`", "no program provides the files";
    INTERFACE: "G34" Hard "`file.read.rate`", "a rate is at most {} times what the interface carries, where that is known", plain(INTERFACE_SLACK);
    ORDER: "G34" Noisy "`file.read.block_time`", "a random read takes at least 1/{} of a sequential read", plain(RANDOM_SLACK);
    CLASS: "G34" Remark "`file.read.block_time`", "a direct random read takes at least as long as on the fastest device (1 ms rotating, 40 µs SATA or virtual, 20 µs NVMe). A faster read is called served by a cache";
    TOUCHES: "G35" Remark "`file.read.block_time`", "the second read of the same places is at most {} times as fast as the first", plain(TOUCH_RATIO);
    FAULTS: "G40" Noisy "`file.read.block_time` cache=direct", "major faults, one page each, are at most what devices \
                                                                read";
}

/// The gates of a time.
pub(super) fn of_time(study: &Study<'_>, order: Order, cache: &str, bytes: u64, estimate: &Estimate) -> Vec<Gate> {
    let own = nanoseconds(study, order, cache, bytes).unwrap_or(estimate.value);
    if cache == WARM {
        let mut gates = resident(study, bytes);
        gates.push(warm_floor(study, own));
        gates.push(Gate::at_most(&WARM_MOST, Number::time(own).named("{} from the cache"), WARM_CEILING));
        return gates;
    }
    let mut gates = proofs(study, order, cache);
    let (reads, is_request) = (1e9 / own, order == Order::Random || cache == DIRECT);
    gates.extend(limits::of_reads(&study.setup.machine, is_request.then_some(reads), reads * BLOCK as f64));
    if (order, cache) == (Order::Random, DIRECT) {
        gates.extend(of_device(study, own));
        gates.extend(by_size(study, bytes, own));
    }
    if cache == DIRECT || order == Order::Random {
        gates.push(
            Gate::at_least(&DEVICE, Number::time(own).named("{}"), NO_DEVICE).because("no device answers faster"),
        );
    }
    if let Some(direct) = nanoseconds(study, order, DIRECT, bytes)
        && (order, cache) == (Order::Random, COLD)
    {
        let reason = format!("{COLD_SLACK} times a direct read: the same device and more work");
        gates.push(
            Gate::at_least(&COLD_SLOWER, Number::time(own).named("cold {}"), direct * COLD_SLACK).because(reason),
        );
    }
    if let Some(next) = nanoseconds(study, Order::Sequential, cache, bytes)
        && order == Order::Random
    {
        let reason = format!("a sequential read divided by {RANDOM_SLACK}, because sequential order is never slower");
        gates.push(Gate::at_least(&ORDER, Number::time(own).named("random {}"), next / RANDOM_SLACK).because(reason));
    }
    gates
}

/// The gates of a rate, in addition to those of the time behind it.
pub(super) fn of_rate(study: &Study<'_>, order: Order, cache: &str, bytes: u64) -> Vec<Gate> {
    if cache == WARM {
        return resident(study, bytes);
    }
    let mut gates = proofs(study, order, cache);
    let ceiling = study.remarks("interface").first().and_then(|found| found.parse::<f64>().ok());
    let request = if order == Order::Random { BLOCK } else { super::LARGE };
    let found = if order == Order::Random {
        nanoseconds(study, order, cache, bytes)
    } else {
        median(&study.values("pass", &super::pass_labels(order, cache, bytes, request)))
    };
    if let (Some(ceiling), Some(found)) = (ceiling, found) {
        let rate = request as f64 * 1e9 / found;
        let reason = format!("{INTERFACE_SLACK} times what the interface carries");
        gates
            .push(Gate::at_most(&INTERFACE, Number::rate(rate).named("{}"), ceiling * INTERFACE_SLACK).because(reason));
    }
    gates
}

/// The gates of many reads under way.
pub(super) fn of_depth(study: &Study<'_>, bytes_per_second: f64) -> Vec<Gate> {
    let mut gates = proofs(study, Order::Random, DIRECT);
    let reads = Some(bytes_per_second / BLOCK as f64);
    gates.extend(limits::of_reads(&study.setup.machine, reads, bytes_per_second));
    gates
}

fn time(value: f64) -> String {
    quantity(value, Unit::Nanoseconds)
}

/// True where a program provides the files: then the kernel asks no device for them.
fn no_device_counts(study: &Study<'_>) -> bool {
    let ground = study.setup.machine.scratch().map(FileSystem::of_storage);
    ground.is_some_and(|ground| ground.caveats.contains(&Caveat::Program))
}

/// G23 and G33: devices read what was asked for, and cold reads left their pages in the cache.
fn proofs(study: &Study<'_>, order: Order, cache: &str) -> Vec<Gate> {
    let mut gates = Vec::new();
    let all = study.series("proof", &proof_labels(order, cache));
    let (mut asked, mut read, mut counted_in) = (0.0, 0.0, 0);
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for series in &all {
        if let [wanted, found] = series.values[..] {
            asked += wanted;
            read += found;
            counted_in += 1;
            least = least.min(found / wanted.max(1.0));
            most = most.max((found - DESCRIPTIONS) / wanted.max(1.0));
        }
    }
    let counted = |value: f64| quantity(value, Unit::Bytes);
    if no_device_counts(study) {
        let why = "a program provides the files. The kernel does not ask a device, and only the stamps prove what was \
                   read";
        gates.push(Gate::holds(&READ_BY_PROGRAM, false, why));
    } else if counted_in == 0 {
        gates.push(Gate::holds(&ACCOUNTED, false, "the kernel does not count what devices read"));
    } else {
        // Read-ahead in the order of the file may go on beyond the end of a pass.
        let upper = order == Order::Sequential || most <= 1.0 + READ_AHEAD;
        gates.push(Gate::holds(
            &READ_ASKED,
            least >= 1.0 && upper,
            format!(
                "{} requested in {}, {} read by devices for this process",
                counted(asked),
                launches(counted_in),
                counted(read)
            ),
        ));
    }
    if (order, cache) == (Order::Random, COLD) {
        let pages = study.series("cached_after", &Labels::none());
        let counts: Vec<(f64, f64)> = pages
            .iter()
            .filter_map(|series| match series.values[..] {
                [wanted, found] => Some((wanted, found)),
                _ => None,
            })
            .collect();
        let sums = counts.iter().fold((0.0, 0.0), |sums, one| (sums.0 + one.0, sums.1 + one.1));
        let evidence = format!("no page cached before, and {} cold reads left {} pages in the cache", sums.0, sums.1);
        // More pages than reads: something was read ahead. None: the reads went past the cache.
        let alone = |&(wanted, found): &(f64, f64)| found > 0.0 && found <= wanted * (1.0 + READ_AHEAD);
        gates.push(Gate::holds(&COLD_COUNT, !counts.is_empty() && counts.iter().all(alone), evidence));
        // A kernel that takes pages back early changes no cold read, but fewer pages prove it.
        let taken_back =
            Number::plain((sums.0 - sums.1).max(0.0)).named("{} pages were reclaimed before they were counted");
        gates.push(Gate::at_most(&STILL_CACHED, taken_back, 0.0).because(format!("of {}", sums.0)));
    }
    if cache == DIRECT {
        let faults: f64 = study.evidence().map(|found| found.major_faults as f64).sum();
        let paged = Number::bytes(faults * page_size() as f64).named("{} by major faults of one page each");
        let reason = format!("{faults} faults, {} read by devices", counted(read));
        gates.push(Gate::at_most(&FAULTS, paged, read.max(DESCRIPTIONS)).because(reason));
    }
    gates
}

/// A read out of the cache is a system call and a copy.
fn warm_floor(study: &Study<'_>, own: f64) -> Gate {
    let entry = paid(study.known, "enosys");
    let entry = entry.map_or(0.0, |found| found.value);
    let reason = format!("a rejected system call takes {} and a copy of a block {COPY_FLOOR} ns", time(entry));
    Gate::at_least(&WARM_FLOOR, Number::time(own).named("{}"), entry + COPY_FLOOR).because(reason)
}

/// The file was in the cache before the reads. Where the kernel took pages of it back during that time, some reads were not warm.
fn resident(study: &Study<'_>, bytes: u64) -> Vec<Gate> {
    let found = study.series("resident", &Labels::none().with("bytes", bytes));
    let held = !found.is_empty()
        && found.iter().all(|series| matches!(series.values[..], [pages, before, _, _] if before >= pages));
    // The median over launches ignores a few. A program whose code was not in memory reads it in a first launch.
    let disturbed = found
        .iter()
        .filter(|series| matches!(series.values[..], [pages, _, after, read] if after < pages || read > 0.0))
        .count();
    vec![
        Gate::holds(&WARM_BEFORE, held, format!("all pages cached before in {}", launches(found.len()))),
        Gate::few(
            &WARM_AFTER,
            "pages missing after the reads, or reads of devices during them, in {} of the launches",
            disturbed as f64,
            found.len() as f64,
            FEW_READ,
        ),
    ]
}

/// G34 and G35: the device's floor, and caches below the kernel.
fn of_device(study: &Study<'_>, own: f64) -> Vec<Gate> {
    let mut gates = Vec::new();
    if let Some((floor, why)) = DeviceClass::of(&study.setup.machine).floor() {
        let shown = if floor.is_finite() { "" } else { "not hardware, " };
        let reason = format!("{shown}below that a cache below the kernel serves reads: {why}");
        gates.push(Gate::at_least(&CLASS, Number::time(own).named("{}"), floor).because(reason));
    }
    if let Some(ratio) = touch_ratio(study) {
        let ratio = Number::plain(ratio).named("first touch divided by second touch {}");
        gates.push(Gate::at_most(&TOUCHES, ratio, TOUCH_RATIO).because("above that a cache below the kernel answers"));
    }
    gates
}

/// The first touch of a place over the second, in medians over launches.
pub(super) fn touch_ratio(study: &Study<'_>) -> Option<f64> {
    let of = |which: &str| {
        let sample = study.plain_sample("touch", &Labels::of([("touch", which)]))?;
        Estimate::median(&sample).map(|found| found.value)
    };
    Some(of("first")? / of("second")?)
}

/// The time does not depend on the size of the file beyond hidden caches.
fn by_size(study: &Study<'_>, bytes: u64, own: f64) -> Option<Gate> {
    let largest = SIZES.into_iter().rev().find_map(|bytes| nanoseconds(study, Order::Random, DIRECT, bytes))?;
    let gate =
        || Gate::near(&ANY_SIZE, Number::time(own).named("{} here"), largest, BY_SIZE).because("the largest file");
    (bytes >= 16 << 20).then(gate)
}
