//! From curves to figures: the gates of the cache's size.

use super::{BYTES, LIMITS, SLOWER, SWEEP, bounded, full};
use crate::experiments::prelude::*;
use crate::results::wording::interval;
use crate::statistics::summary::quantile;
use std::collections::BTreeMap;

/// Curves of one limit or of the machine over all launches: bytes read with bytes resident.
pub(super) struct ResidencyCurves {
    pub(super) labels: Labels,
    /// `(read, resident)` of every launch.
    pub(super) launches: Vec<Vec<(f64, f64)>>,
}

impl ResidencyCurves {
    pub(super) fn of(study: &Study<'_>, labels: Labels) -> Option<Self> {
        let (read, resident) = (study.series("read", &labels), study.series("resident", &labels));
        let launches: Vec<Vec<(f64, f64)>> = read
            .iter()
            .zip(&resident)
            .map(|(read, resident)| read.values.iter().copied().zip(resident.values.iter().copied()).collect())
            .filter(|points: &Vec<(f64, f64)>| !points.is_empty())
            .collect();
        (!launches.is_empty()).then_some(ResidencyCurves { labels, launches })
    }

    /// The largest size that was whole, the median over launches, and the most that was ever resident. A median, because pages
    /// of a file that fits may be taken for reasons that have nothing to do with its size.
    pub(super) fn bounds(&self) -> (f64, f64) {
        let whole = |points: &[(f64, f64)]| {
            // Sizes after the first that was not whole were so by luck.
            points.iter().take_while(|(read, resident)| resident >= read).map(|(read, _)| *read).last().unwrap_or(0.0)
        };
        let wholes: Vec<f64> = self.launches.iter().map(|points| whole(points)).collect();
        let low = median(&wholes).unwrap_or(0.0);
        let high = self.launches.iter().flatten().map(|(_, resident)| *resident).fold(0.0, f64::max);
        (low, high)
    }

    pub(super) fn curve(&self) -> Curve {
        let first = self.launches.first().map_or(&[][..], Vec::as_slice);
        let points = first
            .iter()
            .enumerate()
            .filter_map(|(index, (read, _))| {
                let at: Vec<f64> = self.launches.iter().filter_map(|points| Some(points.get(index)?.1)).collect();
                Some([*read, median(&at)?, quantile(&at, 0.0)?, quantile(&at, 1.0)?])
            })
            .collect();
        Curve {
            name: SWEEP.to_owned(),
            labels: self.labels.clone(),
            words: BTreeMap::new(),
            x: Axis { label: "bytes read once".to_owned(), unit: Unit::Bytes },
            y: Axis { label: "bytes still cached".to_owned(), unit: Unit::Bytes },
            points,
        }
    }
}

pub(super) fn figures(study: &Study<'_>, findings: &mut Findings) {
    for limit in LIMITS {
        if let Some(swept) = ResidencyCurves::of(study, bounded(limit)) {
            publish_bounded(study, findings, limit, &swept);
        }
    }
    if let Some(swept) = ResidencyCurves::of(study, full()) {
        publish_full(study, findings, &swept);
    }
}

/// What was read beyond this many limits must have evicted something.
const BEYOND: f64 = 1.05;

/// A cache smaller than this share of what it may have was held down by something else.
const LEAST_SHARE: f64 = 0.5;

/// Widest interval, as a share of the limit: two looks, or what the kernel takes back at once.
const WIDEST: f64 = 0.05;

/// Standard errors by which the share of cached blocks may differ from that of resident pages, and what the probes change.
const ERRORS: f64 = 4.0;

const PROBED: f64 = 0.02;

/// Share of the pages that were read which the kernel may have forgotten.
const FORGOTTEN: f64 = 0.05;

/// Widest interval on the whole machine, in steps of the pass.
const STEPS: f64 = 2.0;

rules! {
    WITHIN_LIMIT: "G38" Hard "`file.cache_size.bytes`", "the size has an interval and does not exceed the limit or the \
                                                         memory. The interval begins at the largest size that was \
                                                         still whole (median over launches, 0 where none was whole). \
                                                         On the whole machine it begins at the least size after growth \
                                                         stopped. It ends at the most that was ever resident";
    PAGES_READ: "G38" Hard "`file.cache_size.bytes` mode=bounded", "resident and evicted pages together are at most \
                                                                    the pages that were read";
    HALF: "G38" Noisy "`file.cache_size.bytes` mode=bounded", "at least {} of the limit", share(LEAST_SHARE);
    PROBES: "G38" Noisy "`file.cache_size.bytes` mode=bounded", "the share of random blocks that the cache answers is \
                                                                 the share of resident pages (within {} standard \
                                                                 errors and {})", plain(ERRORS), share(PROBED);
    GREW_NO_MORE: "G38" Noisy "`file.cache_size.bytes` mode=full", "growth stopped with no unused memory, or the \
                                                                    result is \"at least\"";
    REMEMBERED: "G38" Remark "`file.cache_size.bytes` mode=bounded", "the kernel remembers at least {} of the pages that were read, as resident or evicted", share(1.0 - FORGOTTEN);
    NARROW: "interval" Noisy "`file.cache_size.bytes` mode=bounded", "bounds at most {} of the limit apart", share(WIDEST);
    STEPS_APART: "interval" Noisy "`file.cache_size.bytes` mode=full", "bounds at most {} steps apart", plain(STEPS);
    SLOWER_MISS: "time" Remark "`file.cache_size.bytes` mode=bounded", "a block that is not cached takes more than {} times as long", plain(SLOWER);
}

pub(super) fn publish_bounded(study: &Study<'_>, findings: &mut Findings, limit: u64, swept: &ResidencyCurves) {
    let most = limit as f64;
    let of_launch = |points: &Vec<(f64, f64)>| {
        let beyond = points.iter().filter(|(read, _)| *read >= most * BEYOND).map(|(_, resident)| *resident);
        median(&beyond.collect::<Vec<f64>>())
    };
    let sizes: Vec<f64> = swept.launches.iter().filter_map(of_launch).collect();
    let what = "median over launches of the median resident beyond the limit. Bounds: largest whole size, most \
                resident";
    let Some(mut estimate) = Estimate::over_launches(&sizes, Unit::Bytes, what) else { return };
    let (whole, high) = swept.bounds();
    estimate.interval = [whole.min(estimate.value), high.max(estimate.value)];
    let width = (estimate.interval[1] - estimate.interval[0]) / most;
    let mut gates = vec![
        // None was whole where something takes pages back early. That widens the interval, and the size still holds.
        within_limit(high, most, format!("interval {}, by residency", interval(estimate.interval, Unit::Bytes))),
        Gate::at_least(&HALF, Number::share(estimate.value / most).named("{} of the limit"), LEAST_SHARE),
        Gate::at_most(&NARROW, Number::share(width).named("bounds {} of the limit apart"), WIDEST),
    ];
    gates.extend(of_pages(study, &swept.labels));
    gates.extend(of_probes(study, &swept.labels));
    gates.extend(of_time(study, &swept.labels));
    findings.publish(study, Figure::bounds(BYTES, swept.labels.clone(), &estimate).gates(gates));
    findings.curves.push(swept.curve());
}

/// What is resident and what was evicted are what was read.
fn of_pages(study: &Study<'_>, labels: &Labels) -> Vec<Gate> {
    let last = |name: &str| -> Vec<f64> {
        study.series(name, labels).iter().filter_map(|series| series.values.last().copied()).collect()
    };
    let (read, resident, evicted) = (last("read"), last("resident"), last("evicted"));
    if evicted.len() != read.len() {
        return Vec::new();
    }
    let sums: Vec<(f64, f64)> =
        read.iter().zip(resident.iter().zip(&evicted)).map(|(read, (in_it, gone))| (*read, in_it + gone)).collect();
    let Some(share) = median(&sums.iter().map(|(read, sum)| sum / read).collect::<Vec<f64>>()) else {
        return Vec::new();
    };
    let what = "resident and evicted pages are {} of the pages that were read";
    vec![
        Gate::holds(&PAGES_READ, sums.iter().all(|(read, sum)| sum <= read), what.replace("{}", &percent(share))),
        // The kernel prunes its memory of evicted pages where they are many.
        Gate::at_least(&REMEMBERED, Number::share(share).named(what), 1.0 - FORGOTTEN),
    ]
}

/// Reads that are answered from the cache alone say the same as the count of its pages.
fn of_probes(study: &Study<'_>, labels: &Labels) -> Option<Gate> {
    let (mut hits, mut probes) = (0.0, 0.0);
    for series in study.series("hits", labels) {
        hits += series.values.first()?;
        probes += series.values.get(1)?;
    }
    let (read, resident) = (study.series("read", labels), study.series("resident", labels));
    let shares: Vec<f64> = read
        .iter()
        .zip(&resident)
        .filter_map(|(read, resident)| Some(resident.values.last()? / read.values.last()?))
        .collect();
    let expected = median(&shares)?;
    if probes <= 0.0 {
        return None;
    }
    let error = (expected * (1.0 - expected) / probes).max(0.0).sqrt();
    let apart = Number::share((hits / probes - expected).abs());
    let [answered, resident] = [hits / probes, expected].map(percent);
    let reason = format!("{hits} of {probes} were answered ({answered}), and {resident} of the pages are resident");
    let what = "the shares of answered blocks and of resident pages differ by {}";
    Some(Gate::at_most(&PROBES, apart.named(what), ERRORS * error + PROBED).because(reason))
}

/// The size is no more than it can be, and there was one.
fn within_limit(high: f64, most: f64, bounds: String) -> Gate {
    Gate::at_most(&WITHIN_LIMIT, Number::bytes(high).named("most resident {}"), most)
        .because(bounds)
        .and(Gate::more_than(&WITHIN_LIMIT, Number::bytes(high).named("it is {}"), 0.0))
}

/// A block that is not cached takes longer.
fn of_time(study: &Study<'_>, labels: &Labels) -> Option<Gate> {
    let (hit, miss) = (median(&study.values("hit", labels))?, median(&study.values("miss", labels))?);
    let [hit, miss] = [hit, miss].map(|ticks| study.nanoseconds(ticks));
    let reason = format!("{SLOWER} times a cached block");
    Some(Gate::more_than(&SLOWER_MISS, Number::time(miss).named("a block took {}"), SLOWER * hit).because(reason))
}

pub(super) fn publish_full(study: &Study<'_>, findings: &mut Findings, swept: &ResidencyCurves) {
    let remark = |what: &str| study.remarks(what).first().copied();
    let (with, ended) =
        (remark("full.with").unwrap_or("data"), remark("full.ended").unwrap_or("the log does not give the reason"));
    let is_size = remark("full.bound") == Some("size");
    let (_, high) = swept.bounds();
    let plateau = median(&study.values("plateau", &full())).filter(|_| is_size).unwrap_or(high).min(high);
    let what = if is_size {
        format!("most resident at once, one pass of {with}. Bounds: least after growth stopped, most resident")
    } else {
        format!("at least: most resident at once, one pass of {with} that ended before the cache was full")
    };
    let Some(mut estimate) = Estimate::over_launches(&[high], Unit::Bytes, &what) else { return };
    estimate.interval = [plateau, high];
    let memory = &study.setup.machine.memory;
    let total = memory.total_bytes.as_ref().map(|fact| fact.value as f64);
    let limit = study.setup.machine.limits.memory_bytes.as_ref().map(|fact| fact.value as f64);
    let most = [total, limit].into_iter().flatten().fold(f64::INFINITY, f64::min);
    let step = median(&study.values("step", &full())).unwrap_or(0.0);
    let gates = vec![
        within_limit(high, most, "by residency, and what memory and limits allow".to_owned()),
        Gate::holds(
            &GREW_NO_MORE,
            is_size,
            format!(
                "the pass ended because {ended}. The result is a size, not a lower bound, only where growth stopped \
                 with no unused memory"
            ),
        ),
        Gate::at_most(&STEPS_APART, Number::bytes(high - plateau).named("bounds {} apart"), STEPS * step)
            .because(format!("{STEPS} steps")),
    ];
    if is_size {
        findings.publish(study, Figure::own(BYTES, full(), &estimate).gates(gates));
    } else {
        findings.publish(study, Figure::own(BYTES, full(), &estimate).lower_bound().gates(gates));
    }
    findings.curves.push(swept.curve());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_whole_size_is_before_the_first_that_is_not() {
        let swept = ResidencyCurves {
            labels: full(),
            launches: vec![
                vec![(10.0, 10.0), (20.0, 20.0), (30.0, 25.0), (40.0, 40.0)],
                vec![(10.0, 10.0), (20.0, 19.0), (30.0, 26.0)],
                vec![(10.0, 10.0), (20.0, 19.0), (30.0, 26.0)],
            ],
        };
        assert_eq!(swept.bounds(), (10.0, 40.0));
        let curve = swept.curve();
        assert_eq!(curve.points[1].to_vec(), vec![20.0, 19.0, 19.0, 20.0]);
        assert_eq!(curve.points.len(), 4);
    }
}
