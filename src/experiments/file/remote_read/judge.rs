//! Which figures the reads of one way give, and what must hold of them.

use super::{
    COLD_SIZES, ORDERS, PENALTY, RANDOM, RemoteAccess, SEQUENTIAL, SIZES, TIME, carried, exchanges, labels, medians,
    time, trip, ways,
};
use crate::experiments::network::quantile_of_shots;
use crate::experiments::prelude::*;
use crate::results::wording::launches;
use crate::statistics::fit::relative_coefficients;
use crate::statistics::summary::mean;
use std::collections::BTreeMap;

pub(super) fn figures(study: &Study<'_>, findings: &mut Findings) {
    for way in ways(study.setup.peer.as_ref(), study.setup.remote.as_ref()) {
        publish(study, findings, way);
    }
}

/// No read goes to another machine in less (nanoseconds).
pub(super) const FLOOR: f64 = 2_000.0;

/// A read waits for its round trip: this share of the shortest ones at least (G27).
pub(super) const TRIPS: f64 = 0.9;

/// The intercept may be this many round trips (G36).
pub(super) const INTERCEPT: [f64; 2] = [0.9, 3.0];

/// The slope may differ from the inverse of the rate by this share (G36).
pub(super) const SLOPE: f64 = 0.3;

/// Slack of comparisons.
pub(super) const SLACK: f64 = 1.05;

/// A cold read that takes this many times as long as a warm one met something slower than memory.
pub(super) const COLDER: f64 = 1.3;

rules! {
    FLOOR_OF_READ: "G8" Hard "`file.remote_read.block_time`, `.intercept`", "a read from another machine takes at least {}", time(FLOOR);
    NOT_BELOW_LOCAL: "G20" Hard "`file.remote_read.block_time` server=warm", "a read from another machine takes at \
                                                                              least as long as a read from this \
                                                                              machine's page cache";
    FIRST_TOUCH: "G20" Remark "`file.remote_read.block_time` server=cold", "a first touch takes at least as long as a \
                                                                            second touch (factor {})", plain(SLACK);
    WAITS: "G27" Hard "`file.remote_read.block_time`, `.network_penalty`", "a read, and the penalty, take at least {} times the fastest tenth of empty exchanges with the server", plain(TRIPS);
    ONE_OF_SEVERAL: "G29" Remark "`file.remote_read.block_time` server=warm", "one read at a time carries at most {} \
                                                                               times the rate of several reads", plain(SLACK);
    COLD: "G35" Remark "`file.remote_read.block_time` server=cold", "a random first touch takes at least {} times a \
                                                                     second touch", plain(COLDER);
    ALIKE: "G36" Hard "`file.remote_read.network_penalty`", "the penalty compares the same size, order and moment in \
                                                             every launch, with both sides in memory";
    IN_TRIPS: "G36" Remark "`file.remote_read.intercept`", "the intercept is {} to {} round trips", plain(INTERCEPT[0]), plain(INTERCEPT[1]);
    OF_PATH: "G36" Remark "`file.remote_read.per_byte`", "the slope is within {} of the inverse of the path's rate", share(SLOPE);
}

/// Publishes everything about one way.
pub(super) fn publish(study: &Study<'_>, findings: &mut Findings, way: RemoteAccess<'_>) {
    let via = way.via();
    for order in ORDERS {
        for bytes in SIZES {
            warm(study, findings, way, order, bytes);
        }
        for bytes in COLD_SIZES {
            cold_read(study, findings, via, order, bytes);
        }
        for bytes in SIZES {
            penalty(study, findings, way, order, bytes);
        }
        line(study, findings, way, order);
    }
    findings.curves.extend(curves(findings, via));
}

pub(super) fn warm(study: &Study<'_>, findings: &mut Findings, way: RemoteAccess<'_>, order: &str, bytes: u32) {
    let via = way.via();
    let of = labels(via, order, bytes, "warm");
    let Some(estimate) = quantile_of_shots(study, "read", &of, 0.5) else { return };
    let mut all = vec![floor(&estimate)];
    if let Some((_, shortest)) = exchanges(study, via) {
        all.push(waits(estimate.value, shortest));
    }
    if let Some(here) = quantile_of_shots(study, "read", &labels(via, order, bytes, "here"), 0.5) {
        let gate = Gate::at_least(&NOT_BELOW_LOCAL, estimate.named("{}"), here.value);
        all.push(gate.because("from this machine's cache"));
    }
    if let Some(rate) = carried(study, via) {
        let own = f64::from(bytes) / estimate.value * 1e9;
        let own = Number::rate(own).named("one read at a time carries {}");
        let reason = format!("{SLACK} times the rate of several reads");
        all.push(Gate::at_most(&ONE_OF_SEVERAL, own, SLACK * rate).because(reason));
    }
    findings.publish(study, Figure::shots(TIME, of, &estimate, None).gates(all));
}

pub(super) fn floor(estimate: &Estimate) -> Gate {
    gates::floor(&FLOOR_OF_READ, estimate, FLOOR).because("a call leaves this machine and its answer returns")
}

/// G27: a read waits for its round trip.
pub(super) fn waits(value: f64, shortest: f64) -> Gate {
    let reason = format!("{TRIPS} times the fastest tenth of empty exchanges");
    Gate::at_least(&WAITS, Number::time(value).named("{}"), TRIPS * shortest).because(reason)
}

pub(super) fn cold_read(study: &Study<'_>, findings: &mut Findings, via: &str, order: &str, bytes: u32) {
    let of = labels(via, order, bytes, "cold");
    // What is read ahead of sequential reads makes some short and some long: together they take their mean.
    let estimate = if order == SEQUENTIAL {
        let means: Vec<f64> = study
            .series("read", &of)
            .iter()
            .filter_map(|series| mean(&series.values))
            .map(|ticks| study.nanoseconds(ticks))
            .collect();
        Estimate::over_launches(&means, Unit::Nanoseconds, "median over launches of the launch's mean")
    } else {
        quantile_of_shots(study, "read", &of, 0.5)
    };
    let Some(estimate) = estimate else { return };
    let mut all = vec![floor(&estimate)];
    if let Some(warm) = quantile_of_shots(study, "read", &labels(via, order, bytes, "warm"), 0.5) {
        let first = || estimate.named("{} at the first touch");
        let reason = format!("the second touch divided by {SLACK}");
        all.push(Gate::at_least(&FIRST_TOUCH, first(), warm.value / SLACK).because(reason));
        if order == RANDOM {
            let reason = format!(
                "{COLDER} times the second touch. Below that, part of the data may have been in the \
                                  server's memory"
            );
            all.push(Gate::at_least(&COLD, first(), COLDER * warm.value).because(reason));
        }
    }
    findings.publish(study, Figure::shots(TIME, of, &estimate, None).gates(all));
}

/// What the other machine adds, within each launch: the same size, order and moment, both sides warm.
pub(super) fn penalty(study: &Study<'_>, findings: &mut Findings, way: RemoteAccess<'_>, order: &str, bytes: u32) {
    let via = way.via();
    let of = Labels::of([("via", via), ("order", order)]).with("bytes", bytes);
    let (there, here) =
        (medians(study, &labels(via, order, bytes, "warm")), medians(study, &labels(via, order, bytes, "here")));
    let differences: Vec<f64> = there
        .iter()
        .filter_map(|(launch, there)| Some(there - here.iter().find(|(other, _)| other == launch)?.1))
        .collect();
    let name = "median over launches of the remote median minus the local median";
    let Some(estimate) = Estimate::over_launches(&differences, Unit::Nanoseconds, name) else { return };
    let mut all = vec![gates::resolved(&estimate)];
    let alike = format!(
        "{} of {} read both: {bytes} bytes, {order}, one at a time, from memory on both sides",
        differences.len(),
        launches(there.len())
    );
    all.push(Gate::holds(&ALIKE, differences.len() == there.len(), alike));
    if let Some((_, shortest)) = exchanges(study, via) {
        all.push(waits(estimate.value, shortest));
    }
    let mut figure = Figure::shots(PENALTY, of, &estimate, None);
    figure.gross = median(&there.iter().map(|(_, time)| *time).collect::<Vec<f64>>());
    findings.publish(study, figure.gates(all));
}

pub(super) fn line(study: &Study<'_>, findings: &mut Findings, way: RemoteAccess<'_>, order: &str) {
    let via = way.via();
    let sizes: Vec<(f64, Vec<(u32, f64)>)> =
        SIZES.iter().map(|&bytes| (f64::from(bytes), medians(study, &labels(via, order, bytes, "warm")))).collect();
    let Some((_, launches)) = sizes.first() else { return };
    let lines: Vec<(f64, f64)> = launches
        .iter()
        .filter_map(|(launch, _)| {
            let (bytes, times): (Vec<f64>, Vec<f64>) = sizes
                .iter()
                .filter_map(|(bytes, found)| Some((*bytes, found.iter().find(|(other, _)| other == launch)?.1)))
                .unzip();
            relative_coefficients(&bytes, &times)
        })
        .collect();
    let of = Labels::of([("via", via), ("order", order)]);
    let name = "median over launches of a line through the medians, weighted by their inverse squares";
    let intercepts: Vec<f64> = lines.iter().map(|line| line.1).collect();
    if let Some(estimate) = Estimate::over_launches(&intercepts, Unit::Nanoseconds, name) {
        let mut all = vec![floor(&estimate)];
        if let Some((trip, what)) = trip(study, way) {
            let trips = Number::plain(estimate.value / trip).named(format!("{{}} times {what}"));
            let reason = format!("{} of {}", time(estimate.value), time(trip));
            all.push(Gate::between(&IN_TRIPS, trips, INTERCEPT[0], INTERCEPT[1]).because(reason));
        }
        findings.publish(study, Figure::shots("file.remote_read.intercept", of.clone(), &estimate, None).gates(all));
    }
    let slopes: Vec<f64> = lines.iter().map(|line| line.0).collect();
    if let Some(estimate) = Estimate::over_launches(&slopes, Unit::Nanoseconds, name) {
        let mut all = Vec::new();
        if let Some(rate) = carried(study, via) {
            let reason = format!("{} with several reads in flight", quantity(rate, Unit::BytesPerSecond));
            all.push(Gate::near(&OF_PATH, estimate.named("{} for each byte"), 1e9 / rate, SLOPE).because(reason));
        }
        findings.publish(study, Figure::derived("file.remote_read.per_byte", of, &estimate).gates(all));
    }
}

/// Time against size, for each order and place that the bytes come from.
pub(super) fn curves(findings: &Findings, via: &str) -> Vec<Curve> {
    let mut curves = Vec::new();
    for order in ORDERS {
        for server in ["warm", "cold"] {
            let points: Vec<[f64; 4]> = SIZES
                .iter()
                .filter_map(|&bytes| {
                    let of = labels(via, order, bytes, server);
                    let metric = findings.metric(TIME, &of)?;
                    Some([f64::from(bytes), metric.value, metric.interval95[0], metric.interval95[1]])
                })
                .collect();
            if points.len() > 1 {
                curves.push(Curve {
                    name: "file.remote_read.by_size".to_owned(),
                    labels: Labels::of([("via", via), ("order", order), ("server", server)]),
                    words: BTreeMap::new(),
                    x: Axis { label: "read".to_owned(), unit: Unit::Bytes },
                    y: Axis { label: "time".to_owned(), unit: Unit::Nanoseconds },
                    points,
                });
            }
        }
    }
    curves
}
