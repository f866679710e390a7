//! From shots to figures: medians, the penalty like for like, the line over sizes, and what must hold between them and the path.

use super::{COLD_SIZES, ORDERS, PENALTY, RANDOM, SEQUENTIAL, SIZES, TIME, Way, labels, ways};
use crate::evaluate::estimate::Estimate;
use crate::evaluate::figure::Figure;
use crate::evaluate::findings::Findings;
use crate::evaluate::gate::{Number, rules};
use crate::evaluate::gates;
use crate::evaluate::study::Study;
use crate::experiments::network::{quantile_of_shots, remote_rate, round_trip};
use crate::results::document::{Axis, Curve, Rejected};
use crate::results::quantity::{Labels, Unit};
use crate::results::verdict::Gate;
use crate::results::wording::{factor, launches, number, percent, quantity};
use crate::statistics::fit::relative_coefficients;
use crate::statistics::summary::{mean, median};

/// No read goes to another machine in less (nanoseconds).
const FLOOR: f64 = 2_000.0;
/// A read waits for its round trip: this share of the shortest ones at least (G27).
const TRIPS: f64 = 0.9;
/// The intercept may be so many round trips (G36).
const INTERCEPT: [f64; 2] = [0.9, 3.0];
/// The slope may differ from the inverse of the rate by this share (G36).
const SLOPE: f64 = 0.3;
/// Slack of comparisons.
const SLACK: f64 = 1.05;
/// A cold read that takes so many times a warm one met something slower than memory.
const COLDER: f64 = 1.3;

rules! {
    FLOOR_OF_READ: "G8" Hard "`file.remote_read.block_time`, `.intercept`", "a read from another machine takes at least {}", time(FLOOR);
    NOT_BELOW_LOCAL: "G20" Hard "`file.remote_read.block_time` server=warm", "a read from another machine takes no less than one from this machine's page cache";
    FIRST_TOUCH: "G20" Remark "`file.remote_read.block_time` server=cold", "a first touch is no faster than a second (factor {})", plain(SLACK);
    WAITS: "G27" Hard "`file.remote_read.block_time`, `.network_penalty`", "a read, and the penalty, take at least {} times the fastest tenth of empty exchanges with the server", plain(TRIPS);
    ONE_OF_SEVERAL: "G29" Remark "`file.remote_read.block_time` server=warm", "one read at a time carries at most {} times what several carry", plain(SLACK);
    COLD: "G35" Remark "`file.remote_read.block_time` server=cold", "a random first touch takes at least {} times a second one", plain(COLDER);
    ALIKE: "G36" Hard "`file.remote_read.network_penalty`", "the penalty compares the same size, order and moment, both sides from memory, in every launch";
    IN_TRIPS: "G36" Remark "`file.remote_read.intercept`", "the intercept is {} to {} round trips", plain(INTERCEPT[0]), plain(INTERCEPT[1]);
    OF_PATH: "G36" Remark "`file.remote_read.per_byte`", "the slope is within {} of the inverse of the rate of the path", share(SLOPE);
}

/// Median of the empty exchanges of a way, and the fastest tenth of them.
fn exchanges(study: &Study<'_>, via: &str) -> Option<(f64, f64)> {
    let estimate = quantile_of_shots(study, "read", &Labels::of([("via", via), ("what", "exchange")]), 0.5)?;
    Some((estimate.value, estimate.quantiles?.p10))
}

/// Bytes per second that the path was seen to carry.
fn carried(study: &Study<'_>, via: &str) -> Option<f64> {
    median(&study.values("carried", &Labels::of([("via", via)])))
}

/// The round trip that a call is compared with, in words: of TCP where this run has it, else of the empty exchange.
fn trip(study: &Study<'_>, way: Way<'_>) -> Option<(f64, &'static str)> {
    let tcp = match way {
        Way::Peer(peer) => round_trip(study.known, peer).map(|(time, _)| (time, "a round trip of TCP")),
        _ => None,
    };
    tcp.or_else(|| exchanges(study, way.via()).map(|(time, _)| (time, "an empty exchange with the server")))
}

/// Publishes everything about one way.
pub(super) fn publish(study: &Study<'_>, findings: &mut Findings, way: Way<'_>) {
    let via = way.via();
    for order in ORDERS {
        for bytes in SIZES {
            warm(study, findings, way, order, bytes);
        }
        for bytes in COLD_SIZES {
            cold(study, findings, via, order, bytes);
        }
        for bytes in SIZES {
            penalty(study, findings, way, order, bytes);
        }
        line(study, findings, way, order);
    }
    findings.curves.extend(curves(findings, via));
}

fn warm(study: &Study<'_>, findings: &mut Findings, way: Way<'_>, order: &str, bytes: u32) {
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
        let reason = format!("{SLACK} times what several carry");
        all.push(Gate::at_most(&ONE_OF_SEVERAL, own, SLACK * rate).because(reason));
    }
    findings.publish(study, Figure::shots(TIME, of, &estimate, None).gates(all));
}

fn floor(estimate: &Estimate) -> Gate {
    gates::floor(&FLOOR_OF_READ, estimate, FLOOR).because("a call leaves this machine and its answer comes back")
}

/// G27: a read waits for its round trip.
fn waits(value: f64, shortest: f64) -> Gate {
    let reason = format!("{TRIPS} times what the fastest tenth of empty exchanges took");
    Gate::at_least(&WAITS, Number::time(value).named("{}"), TRIPS * shortest).because(reason)
}

fn time(nanoseconds: f64) -> String {
    quantity(nanoseconds, Unit::Nanoseconds)
}

fn cold(study: &Study<'_>, findings: &mut Findings, via: &str, order: &str, bytes: u32) {
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
        let reason = format!("a second one over {SLACK}");
        all.push(Gate::at_least(&FIRST_TOUCH, first(), warm.value / SLACK).because(reason));
        if order == RANDOM {
            let reason = format!("{COLDER} times a second one; less may have been in the server's memory");
            all.push(Gate::at_least(&COLD, first(), COLDER * warm.value).because(reason));
        }
    }
    findings.publish(study, Figure::shots(TIME, of, &estimate, None).gates(all));
}

/// The median of one series in each launch, in nanoseconds.
fn medians(study: &Study<'_>, of: &Labels) -> Vec<(u32, f64)> {
    let series = study.numbered_series("read", of);
    series.into_iter().filter_map(|(launch, found)| Some((launch, study.nanoseconds(median(&found.values)?)))).collect()
}

/// What the other machine adds, within each launch: the same size, order and moment, both sides warm.
fn penalty(study: &Study<'_>, findings: &mut Findings, way: Way<'_>, order: &str, bytes: u32) {
    let via = way.via();
    let of = Labels::of([("via", via), ("order", order)]).with("bytes", bytes);
    let (there, here) =
        (medians(study, &labels(via, order, bytes, "warm")), medians(study, &labels(via, order, bytes, "here")));
    let differences: Vec<f64> = there
        .iter()
        .filter_map(|(launch, there)| Some(there - here.iter().find(|(other, _)| other == launch)?.1))
        .collect();
    let name = "median over launches of the remote median less the local one";
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

fn line(study: &Study<'_>, findings: &mut Findings, way: Way<'_>, order: &str) {
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
            let reason = format!("with several reads under way {}", quantity(rate, Unit::BytesPerSecond));
            all.push(Gate::near(&OF_PATH, estimate.named("{} for each byte"), 1e9 / rate, SLOPE).because(reason));
        }
        findings.publish(study, Figure::fact("file.remote_read.per_byte", of, &estimate).gates(all));
    }
}

/// Time against size, for each order and place that the bytes come from.
fn curves(findings: &Findings, via: &str) -> Vec<Curve> {
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
                    x: Axis { label: "read".to_owned(), unit: Unit::Bytes },
                    y: Axis { label: "time".to_owned(), unit: Unit::Nanoseconds },
                    points,
                });
            }
        }
    }
    curves
}

/// Says what the figures mean.
pub(super) fn explain(study: &Study<'_>, findings: &mut Findings) {
    for way in ways(study.setup.peer.as_ref(), study.setup.remote.as_ref()) {
        findings.say(introduction(study, way));
        tabulate(study, findings, way);
        explain_line(study, findings, way);
        explain_disk(findings, way);
    }
    compare_ways(study, findings);
}

/// Where a run has several ways: what each adds to the same read from this machine's memory.
fn compare_ways(study: &Study<'_>, findings: &mut Findings) {
    let (mut added, mut here) = (Vec::new(), Vec::new());
    for way in ways(study.setup.peer.as_ref(), study.setup.remote.as_ref()) {
        let of = Labels::of([("via", way.via()), ("order", RANDOM)]).with("bytes", SIZES[0]);
        let Some(penalty) = findings.metric(PENALTY, &of) else { continue };
        let words = match way {
            Way::Mount(_) => "through the mount",
            Way::Nfs(_) => "over NFS",
            Way::Peer(_) => "from the peer",
        };
        added.push(format!("{} more {words}", penalty.text()));
        here.extend(quantile_of_shots(study, "read", &labels(way.via(), RANDOM, SIZES[0], "here"), 0.5));
    }
    let here: Vec<f64> = here.iter().map(|found| found.value).collect();
    if let (Some(here), [first, .., _]) = (median(&here), &added[..]) {
        findings.say(format!(
            "A random block takes {} from this machine's memory, and {first}, {}.",
            time(here),
            added[1..].join(", ")
        ));
    }
}

/// Where the bytes come from.
fn introduction(study: &Study<'_>, way: Way<'_>) -> String {
    match way {
        Way::Mount(mount) => {
            let counts: Vec<f64> =
                study.series("client", &Labels::of([("via", "mount")])).iter().fold(vec![0.0; 5], |sums, series| {
                    sums.iter().zip(&series.values).map(|(sum, count)| sum + count).collect()
                });
            let counted = if counts[0] > 0.0 {
                format!(
                    " The client counted {} calls; an answer took {} from the leaving of its call, and a call {} in all.",
                    counts[0],
                    time(counts[3] / counts[0] * 1e6),
                    time(counts[4] / counts[0] * 1e6)
                )
            } else {
                String::new()
            };
            format!(
                "Through the mount: {} at {} is {} of {} ({}).{counted}",
                mount.directory, mount.mount_point, mount.file_system, mount.what, mount.options
            )
        }
        Way::Nfs(file) => format!(
            "Over NFS: {} of {} bytes on {} port {}, from {}{}; the server answers at most {} at once.",
            file.path,
            file.bytes,
            file.server,
            file.port,
            file.local_address,
            if file.on_link { " on the same link" } else { "" },
            quantity(f64::from(file.longest_read), Unit::Bytes)
        ),
        Way::Peer(peer) => {
            let residence = median(&study.values("residence", &Labels::of([("via", "peer")])));
            let kept = residence.map_or_else(String::new, |kept| {
                format!(" The peer kept a call for {} (median over all sizes) before its answer left.", time(kept))
            });
            let on = study.remarks("peer.file_system");
            let on = on.first().map_or_else(String::new, |found| format!(" on {found}"));
            format!("From the peer at {}: a nameless file of random bytes{on}.{kept}", peer.address)
        }
    }
}

fn tabulate(study: &Study<'_>, findings: &mut Findings, way: Way<'_>) {
    let via = way.via();
    let trip = trip(study, way);
    let mut rows = Vec::new();
    for bytes in SIZES {
        let of = Labels::of([("via", via), ("order", RANDOM)]).with("bytes", bytes);
        let there = findings.metric(TIME, &labels(via, RANDOM, bytes, "warm"));
        let penalty = findings.metric(PENALTY, &of);
        let here = quantile_of_shots(study, "read", &labels(via, RANDOM, bytes, "here"), 0.5);
        let (Some(there), Some(penalty), Some(here)) = (there, penalty, here) else { continue };
        rows.push(vec![
            quantity(f64::from(bytes), Unit::Bytes),
            there.text(),
            time(here.value),
            penalty.text(),
            trip.map_or_else(|| "unknown".to_owned(), |(trip, _)| number(penalty.value / trip)),
        ]);
    }
    if !rows.is_empty() {
        let caption = format!("A random read (via {via}) from the other machine's memory and from this machine's");
        let columns = ["read", "other machine", "this machine", "penalty", "round trips"];
        findings.tabulate(&caption, &columns, rows);
    }
}

/// Round trip and rate in the line over sizes.
fn explain_line(study: &Study<'_>, findings: &mut Findings, way: Way<'_>) {
    let via = way.via();
    let of = Labels::of([("via", via), ("order", RANDOM)]);
    let value = |name: &str| findings.metric(name, &of).map(|metric| (metric.value, metric.text()));
    let (Some(intercept), Some(slope)) = (value("file.remote_read.intercept"), value("file.remote_read.per_byte"))
    else {
        return;
    };
    let mut text = format!(
        "A random read (via {via}) takes {} however small it is, and {} more for each byte: {} alone with its path.",
        intercept.1,
        slope.1,
        quantity(1e9 / slope.0, Unit::BytesPerSecond)
    );
    if let Some((trip, what)) = trip(study, way) {
        text += &format!(" {} is {}: the first is {} of it.", capital(what), time(trip), factor(intercept.0 / trip));
    }
    if let Some(rate) = carried(study, via) {
        let share = 1e9 / rate / slope.0;
        text += &format!(
            " With more under way the path carried {}, so {} of what a byte adds is the path.",
            quantity(rate, Unit::BytesPerSecond),
            percent(share.min(1.0))
        );
    }
    if let Way::Peer(_) = way
        && let Some((rate, name)) = remote_rate(study.known)
    {
        text += &format!(" {name} of this run is {}.", quantity(rate, Unit::BytesPerSecond));
    }
    findings.say(text);
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn explain_disk(findings: &mut Findings, way: Way<'_>) {
    let via = way.via();
    let value = |server: &str| {
        let of = labels(via, RANDOM, SIZES[0], server);
        findings.metric(TIME, &of).map(|metric| metric.value)
    };
    let no_cold_read = |found: &&Rejected| found.gates.is_empty() && found.labels.includes(&super::cold(via));
    if let (Some(cold), Some(warm)) = (value("cold"), value("warm")) {
        let what = match way {
            Way::Peer(_) => "proven to be out of the peer's page cache",
            _ => "read for the first time by this run",
        };
        findings.say(format!(
            "A random block (via {via}) {what} takes {}, {} of one in the server's memory ({}).",
            time(cold),
            factor(cold / warm),
            time(warm)
        ));
    } else if let Some(missing) = findings.rejected.iter().find(no_cold_read) {
        let text = format!("No cold reads via {via}: {}.", missing.reason);
        findings.say(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_begin_with_a_capital() {
        assert_eq!((capital("a trip").as_str(), capital("").as_str()), ("A trip", ""));
    }
}
