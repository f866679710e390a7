//! What the network, the bytes and the disk of the other machine take of a read.

use super::{PENALTY, RANDOM, RemoteAccess, SIZES, TIME, carried, cold, labels, time, trip, ways};
use crate::experiments::network::{quantile_of_shots, remote_rate};
use crate::experiments::prelude::*;
use crate::results::document::Rejected;
use crate::results::ratio::in_brackets;
use crate::results::wording::{capital, mark, times};

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
pub(super) fn compare_ways(study: &Study<'_>, findings: &mut Findings) {
    let (mut added, mut here) = (Vec::new(), Vec::new());
    for way in ways(study.setup.peer.as_ref(), study.setup.remote.as_ref()) {
        let of = Labels::of([("via", way.via()), ("order", RANDOM)]).with("bytes", SIZES[0]);
        let Some(penalty) = findings.metric(PENALTY, &of) else { continue };
        let words = match way {
            RemoteAccess::Mount(_) => "through the mount",
            RemoteAccess::Nfs(_) => "over NFS",
            RemoteAccess::Peer(_) => "from the peer",
        };
        added.push(format!("{} more {words}", penalty.shown()));
        here.extend(quantile_of_shots(study, "read", &labels(way.via(), RANDOM, SIZES[0], "here"), 0.5));
    }
    let here: Vec<f64> = here.iter().map(|found| found.value).collect();
    if let (Some(here), [first, .., _]) = (median(&here), &added[..]) {
        findings.say(format!(
            "A random block takes {} from this machine's memory, {first}, {}.",
            Shown::of(here, Unit::Nanoseconds),
            added[1..].join(", ")
        ));
    }
}

/// Where the bytes come from.
pub(super) fn introduction(study: &Study<'_>, way: RemoteAccess<'_>) -> String {
    match way {
        RemoteAccess::Mount(mount) => {
            let counts: Vec<f64> =
                study.series("client", &Labels::of([("via", "mount")])).iter().fold(vec![0.0; 5], |sums, series| {
                    sums.iter().zip(&series.values).map(|(sum, count)| sum + count).collect()
                });
            let counted = if counts[0] > 0.0 {
                format!(
                    " The client counted {} calls. The server answered {} after a call left, and a whole call took {}.",
                    counts[0],
                    Shown::of(counts[3] / counts[0] * 1e6, Unit::Nanoseconds),
                    Shown::of(counts[4] / counts[0] * 1e6, Unit::Nanoseconds)
                )
            } else {
                String::new()
            };
            format!(
                "Through the mount: {} at {} is {} of {} ({}).{counted}",
                mount.directory, mount.mount_point, mount.file_system, mount.what, mount.options
            )
        }
        RemoteAccess::Nfs(file) => format!(
            "Over NFS: {} of {} bytes on {} port {}, from {}{}. The server returns at most {} at once.",
            file.path,
            file.bytes,
            file.server,
            file.port,
            file.local_address,
            if file.on_link { " on the same link" } else { "" },
            mark(f64::from(file.longest_read), Unit::Bytes)
        ),
        RemoteAccess::Peer(peer) => {
            let residence = median(&study.values("residence", &Labels::of([("via", "peer")])));
            let kept = residence.map_or_else(String::new, |kept| {
                format!(
                    " The peer needed {} (median over all sizes) from the arrival of a call to its answer.",
                    Shown::of(kept, Unit::Nanoseconds)
                )
            });
            let on = study.remarks("peer.file_system");
            let on = on.first().map_or_else(String::new, |found| format!(" on {found}"));
            format!("From the peer at {}: an unlinked file of random bytes{on}.{kept}", peer.address)
        }
    }
}

pub(super) fn tabulate(study: &Study<'_>, findings: &mut Findings, way: RemoteAccess<'_>) {
    let via = way.via();
    let trip = trip(study, way);
    let there = |bytes: &u32| findings.metric(TIME, &labels(via, RANDOM, *bytes, "warm"));
    let of = |bytes: &u32| Labels::of([("via", via), ("order", RANDOM)]).with("bytes", *bytes);
    let penalty = |bytes: &u32| findings.metric(PENALTY, &of(bytes));
    let here = |bytes: &u32| quantile_of_shots(study, "read", &labels(via, RANDOM, *bytes, "here"), 0.5);
    let trips = |bytes: &u32| Some(number(penalty(bytes)?.value / trip.as_ref()?.0));
    let is_known = |bytes: &u32| there(bytes).is_some() && penalty(bytes).is_some() && here(bytes).is_some();
    let table = pivot(
        &format!("A random read (via {via}) from the memory of the other machine and of this machine"),
        SIZES.into_iter().filter(is_known),
        &[
            ("read", &|bytes| Some(quantity(f64::from(*bytes), Unit::Bytes))),
            ("other machine", &|bytes| Some(there(bytes)?.text())),
            ("this machine", &|bytes| Some(time(here(bytes)?.value))),
            ("penalty", &|bytes| Some(penalty(bytes)?.text())),
            ("round trips", &|bytes| trips(bytes).or_else(|| Some("unknown".to_owned()))),
        ],
    );
    findings.analysis.extend(table);
}

/// Round trip and rate in the line over sizes.
pub(super) fn explain_line(study: &Study<'_>, findings: &mut Findings, way: RemoteAccess<'_>) {
    let via = way.via();
    let of = Labels::of([("via", via), ("order", RANDOM)]);
    let value = |name: &str| findings.metric(name, &of).map(Metric::shown);
    let (Some(intercept), Some(slope)) = (value("file.remote_read.intercept"), value("file.remote_read.per_byte"))
    else {
        return;
    };
    let mut text = format!(
        "A random read (via {via}) has a fixed cost of {} and takes {} more for each byte, a rate of {} in one stream.",
        intercept,
        slope,
        Shown::of(1e9 / slope.value, Unit::BytesPerSecond)
    );
    if let Some((trip, what)) = trip(study, way) {
        let trip = Shown::of(trip, Unit::Nanoseconds);
        text += &format!(
            " {} is {trip}, and the fixed cost is {} times as long.",
            capital(what),
            times(intercept.value / trip.value)
        );
    }
    if let Some(rate) = carried(study, via) {
        let share = 1e9 / rate / slope.value;
        text += &format!(
            " With several reads in flight the path carried {}. The path is therefore {} of the cost of a byte.",
            Shown::of(rate, Unit::BytesPerSecond),
            percent(share.min(1.0))
        );
    }
    if let RemoteAccess::Peer(_) = way
        && let Some((rate, name)) = remote_rate(study.known)
    {
        text += &format!(" {name} of this run is {}.", Shown::of(rate, Unit::BytesPerSecond));
    }
    findings.say(text);
}

pub(super) fn explain_disk(findings: &mut Findings, way: RemoteAccess<'_>) {
    let via = way.via();
    let value = |server: &str| {
        let of = labels(via, RANDOM, SIZES[0], server);
        findings.metric(TIME, &of).cloned()
    };
    let no_cold_read = |found: &&Rejected| found.gates.is_empty() && found.labels.includes(&cold(via));
    if let (Some(cold), Some(warm)) = (value("cold"), value("warm")) {
        let what = match way {
            RemoteAccess::Peer(_) => "proven to be outside the peer's page cache",
            _ => "read for the first time in this run",
        };
        findings.say(format!(
            "A random block (via {via}) {what} takes {}, and one in the server's memory {}{}.",
            cold.shown(),
            warm.shown(),
            in_brackets(&cold, &warm)
        ));
    } else if let Some(missing) = findings.rejected.iter().find(no_cold_read) {
        let text = format!("No cold reads via {via}: {}.", missing.reason);
        findings.say(text);
    }
}
