//! What must be true of readers that share a device.

use super::{CPU_BOUND, CPU_SHARE, FAIRNESS, KNEE, PER_READER, PROCESSES, RATE, TIME, cpu_shares, labels, rate, time};
use crate::experiments::file::BLOCK;
use crate::experiments::file::file_system::{Caveat, FileSystem};
use crate::experiments::file::parallel_readers::{self};
use crate::experiments::file::{DeviceClass, NO_DEVICE, Order};
use crate::experiments::limits;
use crate::experiments::prelude::*;
use crate::results::drawing_note::{Mark, MarkPlace};
use crate::results::series::Series;
use crate::results::wording::count;
use crate::statistics::fit::{Hinge, hinge};
use std::collections::BTreeMap;

pub(super) fn figures(study: &Study<'_>, findings: &mut Findings) {
    for order in Order::ALL {
        for processes in PROCESSES {
            publish(study, findings, order, processes);
        }
        publish_growth(study, findings, order);
    }
    findings.curves.extend(curves(findings));
}

pub(super) fn publish(study: &Study<'_>, findings: &mut Findings, order: Order, processes: usize) {
    let own = labels(order, processes);
    let (Some(time), Some(rate)) = (time(study, order, processes), rate(study, order, processes)) else { return };
    let shared = common_gates(study, order, processes);
    let of_time = of_time(study, order, processes, &time);
    findings.publish(study, Figure::shots(TIME, own.clone(), &time, None).gates(of_time));
    let mut growth = growth(study, order, processes, rate.value);
    let reads = (order == Order::Random).then_some(rate.value / BLOCK as f64);
    growth.extend(limits::of_reads(&study.setup.machine, reads, rate.value));
    findings.publish(study, Figure::shots(RATE, own.clone(), &rate, None).gates(shared).gates(growth));
    let reads = study.series("reads", &own);
    let even: Vec<f64> = reads.iter().filter_map(|series| parallel_readers::fairness(&series.values)).collect();
    if let Some(found) = Estimate::over_launches(&even, Unit::One, "median over launches of Jain's index") {
        let least = 1.0 / processes as f64;
        let index = Number::plain(found.value).named("Jain's index {}");
        let bounds = Gate::between(&INDEX, index, least * (1.0 - 1e-9), 1.0 + 1e-9);
        findings.publish(study, Figure::fact(FAIRNESS, own.clone(), &found).higher_is_better().gates(vec![bounds]));
    }
    let name = "median over launches of the CPU time divided by window and CPUs";
    if let Some(found) = Estimate::over_launches(&cpu_shares(study, order, processes), Unit::One, name) {
        findings.publish(study, Figure::shots(CPU_SHARE, own, &found, None));
    }
}

pub(super) fn curves(findings: &Findings) -> Vec<Curve> {
    let mut curves = Vec::new();
    for order in Order::ALL {
        let of = |processes: usize| {
            let metric = findings.metric(TIME, &labels(order, processes))?;
            Some([processes as f64, metric.value, metric.interval95[0], metric.interval95[1]])
        };
        let points: Vec<[f64; 4]> = PROCESSES.into_iter().filter_map(of).collect();
        if points.len() > 1 {
            curves.push(Curve {
                name: CURVE.to_owned(),
                labels: Labels::of([("order", order.name())]),
                words: BTreeMap::new(),
                x: Axis { label: "processes".to_owned(), unit: Unit::One },
                y: Axis { label: "read of 4 KiB".to_owned(), unit: Unit::Nanoseconds },
                points,
            });
        }
    }
    curves
}

/// A fit needs a time of this many processes: most devices serve fewer at once, and no line is visible.
const ENOUGH: usize = 64;

pub(super) fn of_order(order: Order) -> Labels {
    Labels::of([("order", order.name())])
}

/// The series of each launch, by its number.
type ByLaunch<'a> = Vec<(u32, &'a Series)>;

/// Publishes the slope and the knee of an order: the medians of those that each launch has. The fit to the medians over launches shows
/// whether the times follow a level and a line.
fn publish_growth(study: &Study<'_>, findings: &mut Findings, order: Order) {
    let series = PROCESSES.map(|processes| (processes, study.numbered_series("times", &labels(order, processes))));
    let measured: Vec<_> = series.iter().filter(|(_, series)| !series.is_empty()).collect();
    let Some((_, last)) = measured.last().filter(|(processes, _)| *processes >= ENOUGH) else { return };
    let x: Vec<f64> = measured.iter().map(|(processes, _)| *processes as f64).collect();
    let fit = |time: &dyn Fn(&ByLaunch<'_>) -> Option<f64>| {
        let y: Option<Vec<f64>> = measured.iter().map(|(_, series)| time(series)).collect();
        hinge(&x, &y?)
    };
    let of_launch = |number: u32| {
        fit(&|series| series.iter().find(|(other, _)| *other == number).and_then(|(_, found)| median(&found.values)))
    };
    let launches: Vec<Hinge> = last.iter().filter_map(|(number, _)| of_launch(*number)).collect();
    let middle = |series: &ByLaunch<'_>| {
        median(&series.iter().filter_map(|(_, found)| median(&found.values)).collect::<Vec<f64>>())
    };
    let Some(worst) = fit(&middle).map(|hinge| hinge.worst) else { return };
    let estimate = |value: fn(&Hinge) -> f64, unit, what: &str| {
        let estimator = format!("median over launches of {what} of a level and a line that are fitted to the times");
        Estimate::over_launches(&launches.iter().map(value).collect::<Vec<f64>>(), unit, &estimator)
    };
    let slope = estimate(|hinge| hinge.slope, Unit::Nanoseconds, "the slope");
    let knee = estimate(|hinge| hinge.knee, Unit::One, "the knee");
    let (Some(slope), Some(knee)) = (slope, knee) else { return };
    let followed = Gate::at_most(&FOLLOWED, Number::share(worst).named("the furthest time is {} from the fit"), NEAR);
    let rises = gates::resolved(&slope);
    if rises.pass && followed.pass {
        findings.figure(CURVE).marks.push(Mark {
            labels: of_order(order),
            text: "knee".to_owned(),
            place: MarkPlace::Knee { at: knee.value, low: knee.interval[0], high: knee.interval[1] },
        });
    }
    let gates = || vec![followed.clone(), rises.clone()];
    findings.publish(study, Figure::derived(PER_READER, of_order(order), &slope).gates(gates()));
    findings.publish(study, Figure::derived(KNEE, of_order(order), &knee).higher_is_better().gates(gates()));
}

/// What all read may fall by when they become more, and a read be faster than alone.
const SLACK: f64 = 0.05;

const FASTER: f64 = 0.9;

/// Largest distance of a time from the fitted level and line, as a share of the time.
pub(super) const NEAR: f64 = 0.1;

/// What devices may have read beyond what was asked for: descriptions of where files lie.
const BEYOND: f64 = 0.02;

const DESCRIPTIONS: f64 = 1_048_576.0;

/// The curve of a read's time by processes.
const CURVE: &str = "file.contention.by_processes";

/// Share of the time that the hypervisor has the CPU while readers read, from which it is said.
const STOPPED_SHARE: f64 = 0.05;

rules! {
    DEVICE: "G8" Hard "`file.contention.block_time`", "a read takes at least {}, because no device answers faster", time(NO_DEVICE);
    INDEX: "G8" Hard "`file.contention.fairness`", "Jain's index is between one divided by the processes and 1";
    STRAYS: "G15" Hard "`file.contention`", "every read ended on the CPU of its process";
    STOPPED: "G16" Remark "`file.contention`", "the hypervisor had the CPU for at most {} of the time while the processes \
        read, or the result contains this time", share(STOPPED_SHARE);
    ALONE: "G20" Noisy "`file.contention.block_time`", "a read among others takes at least {} times a read alone", plain(FASTER);
    MORE_READERS: "G20" Noisy "`file.contention.rate`", "more readers together read no less ({})", share(SLACK);
    MORE_READERS_TURNING: "G20" Remark "`file.contention.rate` of rotating disks", "more readers together read no \
        less ({})", share(SLACK);
    FOLLOWED: "linear" Hard "`file.contention.per_reader`, `file.contention.knee`", "each time is within {} of the fitted level \
        and line", share(NEAR);
    READ_ASKED: "G33" Hard "`file.contention`", "devices read for the processes what they requested, plus at most {} \
                                                 and {}", share(BEYOND), bytes(DESCRIPTIONS);
    READ_BY_PROGRAM: "G33" Remark "`file.contention`", "the kernel counts what devices read, so no program provides \
                                                        the files";
    DEEPEST: "G34" Remark "`file.contention.rate`", "all processes together read at most {} times what one process \
                                                     reads with 32 reads in flight", plain(1.0 + SLACK);
    CPU: "G37" Remark "`file.contention`", "the processes use less than {} of their CPUs, or the result is called \
                                            CPU-bound", share(CPU_BOUND);
}

/// G15, G16, G33, G37.
pub(super) fn common_gates(study: &Study<'_>, order: Order, processes: usize) -> Vec<Gate> {
    let own = labels(order, processes);
    let strays: f64 = study.values("strays", &own).iter().sum();
    let strays = Number::plain(strays).named("{} reads ended on a CPU other than that of their process");
    let share = Number::share(median(&cpu_shares(study, order, processes)).unwrap_or(0.0));
    let used = share.named("the processes used {} of their CPUs");
    let mut gates = vec![
        Gate::at_most(&STRAYS, strays, 0.0),
        Gate::less_than(&CPU, used, CPU_BOUND).because("above that the CPUs limit the rate"),
    ];
    if let Some(stopped) = super::stopped(study, order, processes) {
        let stopped = Number::share(stopped).named("the hypervisor had the CPU for {} of the time");
        gates.push(Gate::at_most(&STOPPED, stopped, STOPPED_SHARE).because("the result contains this time"));
    }
    let (mut asked, mut read) = (0.0, 0.0);
    for series in study.series("proof", &own) {
        if let [wanted, found] = series.values[..] {
            (asked, read) = (asked + wanted, read + found);
        }
    }
    let program = study.setup.machine.scratch().map(FileSystem::of_storage);
    if program.is_some_and(|ground| ground.caveats.contains(&Caveat::Program)) {
        let why = "a program provides the files. The kernel does not ask a device, and only the stamps prove what was \
                   read";
        gates.push(Gate::holds(&READ_BY_PROGRAM, false, why));
    } else if asked > 0.0 {
        let most = asked * (1.0 + BEYOND) + DESCRIPTIONS;
        let read = Number::bytes(read).named("{} read by devices for all processes");
        gates.push(Gate::between(&READ_ASKED, read, asked, most).because("from what they requested"));
    }
    gates
}

/// What all read does not fall, and is not more than the device does.
pub(super) fn growth(study: &Study<'_>, order: Order, processes: usize, own: f64) -> Vec<Gate> {
    let rate_of_all =
        || Number::rate(own).named(format!("{{}} by {}", count(processes as u64, "process", "processes")));
    let mut gates = Vec::new();
    let mut fewer = PROCESSES.into_iter().rev().filter(|&fewer| fewer < processes);
    if let Some((fewer, before)) = fewer.find_map(|fewer| Some((fewer, rate(study, order, fewer)?.value))) {
        // A head that moves between files reads less of all of them.
        let turning = DeviceClass::of(&study.setup.machine) == DeviceClass::Turning;
        let rule = if turning { &MORE_READERS_TURNING } else { &MORE_READERS };
        let reason =
            format!("{} by {fewer}, minus {}", quantity(before, Unit::BytesPerSecond), Number::share(SLACK).text());
        gates.push(Gate::at_least(rule, rate_of_all(), before * (1.0 - SLACK)).because(reason));
    }
    let deepest = study.known.iter().filter(|metric| metric.name == "file.read.depth_rate").map(|metric| metric.value);
    if let Some(most) = deepest.reduce(f64::max) {
        let most = most * (1.0 + SLACK);
        let reason = "one process with many reads in flight plus 5 %, which may be the limit of that process";
        gates.push(Gate::at_most(&DEEPEST, rate_of_all(), most).because(reason));
    }
    gates
}

/// The gates of a read's time.
pub(super) fn of_time(study: &Study<'_>, order: Order, processes: usize, time: &Estimate) -> Vec<Gate> {
    let mut of_time = common_gates(study, order, processes);
    of_time.push(Gate::at_least(&DEVICE, time.named("{}"), NO_DEVICE).because("no device answers faster"));
    if let Some(alone) = super::time(study, order, 1).filter(|_| processes > 1) {
        let reason = format!("{FASTER} times a read alone, because other readers do not make a read faster");
        of_time.push(Gate::at_least(&ALONE, time.named("{}"), alone.value * FASTER).because(reason));
    }
    of_time
}
