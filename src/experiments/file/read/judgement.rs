//! What must be true of reads, whoever measures them.

use super::{COLD, DIRECT, Order, SIZES, TOUCH_RATIO, WARM, labels, nanoseconds, proof_labels};
use crate::evaluate::estimate::Estimate;
use crate::evaluate::gates;
use crate::evaluate::study::Study;
use crate::experiments::file::{BLOCK, Class, NO_DEVICE, taken};
use crate::results::quantity::{Labels, Unit};
use crate::results::verdict::{Gate, Severity};
use crate::results::wording::{factor, launches, percent, quantity};
use crate::rig::ground::{Caveat, Ground};
use crate::statistics::summary::median;
use crate::sys::memory::page_size;

/// A cold read may be less than a direct one by this share before one of them is doubted.
const COLD_SLACK: f64 = 0.9;
/// A random read may be faster than the next in order by this share.
const RANDOM_SLACK: f64 = 1.1;
/// What a read out of the cache takes above a refused system call at least, and at most by itself (nanoseconds).
const COPY_FLOOR: f64 = 40.0;
const WARM_CEILING: f64 = 10_000.0;
/// How far reads of files of different sizes may be apart.
const BY_SIZE: f64 = 0.2;
/// What devices may have read beyond what was asked for, as a share and in bytes: descriptions of where the file lies.
const READ_AHEAD: f64 = 0.02;
const DESCRIPTIONS: f64 = 1_048_576.0;
/// How far a rate may be above what its interface carries: the grain of clocks.
const INTERFACE_SLACK: f64 = 1.02;

/// The gates of single shots and passes.
pub(super) fn common(study: &Study<'_>, estimate: &Estimate) -> Vec<Gate> {
    gates::of_shots(study, estimate, Some(taken(study)))
}

/// The gates of a time.
pub(super) fn of_time(study: &Study<'_>, order: Order, cache: &str, bytes: u64, estimate: &Estimate) -> Vec<Gate> {
    let own = nanoseconds(study, order, cache, bytes).unwrap_or(estimate.value);
    if cache == WARM {
        let mut gates = resident(study, bytes);
        gates.push(warm_floor(study, own));
        gates.push(Gate::of(
            "G8",
            Severity::Noisy,
            own <= WARM_CEILING,
            format!("{} out of the cache; at most {}", time(own), time(WARM_CEILING)),
        ));
        return gates;
    }
    let mut gates = common(study, estimate);
    gates.extend(proofs(study, order, cache));
    if (order, cache) == (Order::Random, DIRECT) {
        gates.extend(of_device(study, own));
        gates.extend(by_size(study, bytes, own));
    }
    if cache == DIRECT || order == Order::Random {
        gates.push(Gate::of(
            "G8",
            Severity::Hard,
            own >= NO_DEVICE,
            format!("{}; below {} no device was asked", time(own), time(NO_DEVICE)),
        ));
    }
    if let Some(direct) = nanoseconds(study, order, DIRECT, bytes)
        && (order, cache) == (Order::Random, COLD)
    {
        gates.push(Gate::of(
            "G20",
            Severity::Hard,
            own >= direct * COLD_SLACK,
            format!("cold {} against direct {}: the same device and more work", time(own), time(direct)),
        ));
    }
    if let Some(next) = nanoseconds(study, Order::Sequential, cache, bytes)
        && order == Order::Random
    {
        gates.push(Gate::of(
            "G34",
            Severity::Noisy,
            own * RANDOM_SLACK >= next,
            format!("random {} against the next in order {}: order never hurts", time(own), time(next)),
        ));
    }
    gates
}

/// The gates of a rate, beside those of the time behind it.
pub(super) fn of_rate(study: &Study<'_>, order: Order, cache: &str, bytes: u64) -> Vec<Gate> {
    if cache == WARM {
        return resident(study, bytes);
    }
    let mut gates = Vec::new();
    if order == Order::Random {
        let sample = study
            .sample_of("read", &labels(order, cache, bytes), Unit::Nanoseconds, |ticks, _| study.nanoseconds(ticks));
        if let Some(estimate) = sample.as_ref().and_then(Estimate::median) {
            gates.extend(common(study, &estimate));
        }
    }
    gates.extend(proofs(study, order, cache));
    let ceiling = study.remarks("interface").first().and_then(|found| found.parse::<f64>().ok());
    let request = if order == Order::Random { BLOCK } else { super::LARGE };
    let found = if order == Order::Random {
        nanoseconds(study, order, cache, bytes)
    } else {
        median(&study.values("pass", &super::pass_labels(order, cache, bytes, request)))
    };
    if let (Some(ceiling), Some(found)) = (ceiling, found) {
        let rate = request as f64 * 1e9 / found;
        gates.push(Gate::of(
            "G34",
            Severity::Hard,
            rate <= ceiling * INTERFACE_SLACK,
            format!(
                "{} through an interface of {}",
                quantity(rate, Unit::BytesPerSecond),
                quantity(ceiling, Unit::BytesPerSecond)
            ),
        ));
    }
    gates
}

/// The gates of many reads under way.
pub(super) fn of_depth(study: &Study<'_>, estimate: &Estimate) -> Vec<Gate> {
    let mut gates = common(study, estimate);
    gates.extend(proofs(study, Order::Random, DIRECT));
    gates
}

fn time(value: f64) -> String {
    quantity(value, Unit::Nanoseconds)
}

/// True where a program provides the files: then the kernel asks no device for them.
fn no_device_counts(study: &Study<'_>) -> bool {
    let ground = study.machine.scratch().map(Ground::of_storage);
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
        gates.push(Gate::of(
            "G33",
            Severity::Remark,
            false,
            "a program provides the files: the kernel asks no device, and only the stamps prove what was read",
        ));
    } else if counted_in == 0 {
        gates.push(Gate::of("G33", Severity::Noisy, false, "the kernel does not account what devices read"));
    } else {
        // Read-ahead in the order of the file may go on beyond the end of a pass.
        let upper = order == Order::Sequential || most <= 1.0 + READ_AHEAD;
        gates.push(Gate::of(
            "G33",
            Severity::Hard,
            least >= 1.0 && upper,
            format!(
                "{} asked for in {}, {} read by devices for this process",
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
        let evidence = format!("no page cached before; {} cold reads left {} pages in the cache", sums.0, sums.1);
        // More pages than reads: something was read ahead. None at all: the reads went past the cache.
        let alone = |&(wanted, found): &(f64, f64)| found > 0.0 && found <= wanted * (1.0 + READ_AHEAD);
        gates.push(Gate::of("G23", Severity::Hard, !counts.is_empty() && counts.iter().all(alone), evidence));
        // A kernel that takes pages back early changes no cold read, but fewer pages prove it.
        let taken_back = (sums.0 - sums.1).max(0.0);
        let reason = format!("{taken_back} of {} pages were taken back before they were counted", sums.0);
        gates.push(Gate::of("G23", Severity::Noisy, taken_back <= 0.0, reason));
    }
    if cache == DIRECT {
        let faults: f64 = study.evidence().map(|found| found.major_faults as f64).sum();
        gates.push(Gate::of(
            "G40",
            Severity::Noisy,
            faults * page_size() as f64 <= read.max(DESCRIPTIONS),
            format!("{faults} major faults of a page each, {} read by devices", counted(read)),
        ));
    }
    gates
}

/// A read out of the cache is a system call and a copy.
fn warm_floor(study: &Study<'_>, own: f64) -> Gate {
    let refused = Labels::of([("call", "enosys")]);
    let entry = study.known.iter().find(|metric| metric.name == "os.system_call.time" && metric.labels == refused);
    let entry = entry.map_or(0.0, |found| found.value);
    Gate::of(
        "G8",
        Severity::Hard,
        own >= entry + COPY_FLOOR,
        format!(
            "{}; a refused system call takes {} and a copy of a block {} at least",
            time(own),
            time(entry),
            time(COPY_FLOOR)
        ),
    )
}

/// The file was in the cache before the reads. Where the kernel took pages of it back meanwhile, some reads were not warm.
fn resident(study: &Study<'_>, bytes: u64) -> Vec<Gate> {
    let found = study.series("resident", &Labels::none().with("bytes", bytes));
    let held = !found.is_empty()
        && found.iter().all(|series| matches!(series.values[..], [pages, before, _, _] if before >= pages));
    let sum = |count: fn(&[f64]) -> f64| -> f64 {
        found.iter().filter(|series| series.values.len() == 4).map(|series| count(&series.values)).sum()
    };
    let lost = sum(|values| (values[0] - values[2]).max(0.0));
    let read = sum(|values| values[3]);
    vec![
        Gate::of("G23", Severity::Hard, held, format!("all pages cached before in {}", launches(found.len()))),
        Gate::of(
            "G23",
            Severity::Contaminates,
            lost <= 0.0 && read <= 0.0,
            format!("{lost} pages missing after the reads, {} read by devices meanwhile", quantity(read, Unit::Bytes)),
        ),
    ]
}

/// G34 and G35: the device's floor, and caches below the kernel.
fn of_device(study: &Study<'_>, own: f64) -> Vec<Gate> {
    let mut gates = Vec::new();
    if let Some((floor, why)) = Class::of(study.machine).floor() {
        let shown = if floor.is_finite() { time(floor) } else { "no hardware".to_owned() };
        gates.push(Gate::of(
            "G34",
            Severity::Remark,
            own >= floor,
            format!("{} against {shown}; below that served by a cache below the kernel: {why}", time(own)),
        ));
    }
    if let Some(ratio) = touch_ratio(study) {
        gates.push(Gate::of(
            "G35",
            Severity::Remark,
            ratio <= TOUCH_RATIO,
            format!(
                "first touch over second {}; more than {} is a cache below the kernel",
                factor(ratio),
                factor(TOUCH_RATIO)
            ),
        ));
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
    (bytes >= 16 << 20).then(|| {
        Gate::of(
            "G20",
            Severity::Remark,
            (own / largest - 1.0).abs() <= BY_SIZE,
            format!("{} here, {} in the largest file: within {}", time(own), time(largest), percent(BY_SIZE)),
        )
    })
}
