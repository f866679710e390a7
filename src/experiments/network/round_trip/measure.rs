//! The exchanges of a launch: volleys on the loopback and to a peer, back to back and after pauses.

use std::time::Duration;

use super::super::exchanges::{
    Kind, Link, PATIENCE, SIZES, TIME, exchange, icmp_lines, kind, lines_to, loopback_kinds, paused_lines,
    remote_kinds, with_every_datagram,
};
use super::super::{OTHER_CPU, SAME_CPU, Watch, on_loopback, other_cpu, partner_elsewhere, remark_placement};
use super::GAP;
use crate::peer::client::Partner;
use crate::results::problem::Problem;
use crate::results::quantity::{Labels, Unit};
use crate::rig::Rig;
use crate::rig::shots::{Interleaved, Shot};
use crate::sys::spinner::{Duty, Spinner};

/// Shots of one kind in a launch, for each batch that the profile asks for.
const SHOTS_PER_BATCH: u32 = 8;
/// Batches of the profile for each idle-paced shot.
const BATCHES_PER_PAUSE: u32 = 7;
/// Longest time of a volley on loopback and on a path.
const LOOPBACK_TIME: Duration = Duration::from_secs(3);
const REMOTE_TIME: Duration = Duration::from_millis(2500);

pub(super) fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let access = rig.setup().access.as_ref();
    let shots = SHOTS_PER_BATCH * rig.batches();
    let interleaved =
        Interleaved { name: "exchange", shots, burst: 20, lead: 2, gap: None, within: LOOPBACK_TIME, looks: true };
    let paused = Interleaved {
        shots: (rig.batches() / BATCHES_PER_PAUSE).max(3),
        burst: 1,
        lead: 0,
        gap: Some(GAP),
        looks: false,
        ..interleaved
    };
    on_loopback(rig, TIME, |rig| measure_loopback(rig, &interleaved, &paused))?;
    match partner_elsewhere(access)? {
        Some(partner) => measure_remote(rig, partner, &interleaved, &paused),
        None => Ok(()),
    }
}

fn measure_loopback(rig: &mut Rig<'_>, interleaved: &Interleaved, paused: &Interleaved) -> Result<(), Problem> {
    let other = other_cpu(rig.setup());
    remark_placement(rig, TIME, other);
    // Without it the distance of the two CPUs is not known, which no figure needs. Before there are sockets, of which a process made
    // later would hold copies.
    let spinner = other.and_then(|cpu| Spinner::new(cpu, Duty::Answer).ok());
    let mut same = Partner::on_loopback(Some(rig.setup().cpu), &SIZES)?;
    let near = lines_to(rig, &mut same, SAME_CPU);
    shoot(rig, near, None, interleaved)?;
    same.end_echo()?;
    drop(same);
    let mut far = Vec::new();
    let mut away = match other {
        Some(cpu) => Some(Partner::on_loopback(Some(cpu), &SIZES)?),
        None => None,
    };
    if let Some(partner) = away.as_mut() {
        far = lines_to(rig, partner, OTHER_CPU);
    }
    far.extend(icmp_lines(rig, &loopback_kinds(), |ipv6| {
        if ipv6 { std::net::Ipv6Addr::LOCALHOST.into() } else { std::net::Ipv4Addr::LOCALHOST.into() }
    }));
    let watch = Watch::start();
    let far = shoot(rig, far, spinner.as_ref(), interleaved)?;
    watch.record(rig)?;
    shoot(rig, paused_lines(far, &loopback_kinds()), spinner.as_ref(), paused)?;
    if let Some(partner) = away.as_mut() {
        partner.end_echo()?;
    }
    Ok(())
}

/// Fires a volley along all lines and gives them back.
fn shoot(
    rig: &mut Rig<'_>,
    lines: Vec<Link>,
    partner: Option<&Spinner>,
    interleaved: &Interleaved,
) -> Result<Vec<Link>, Problem> {
    for line in &lines {
        line.socket
            .set_read_timeout(Some(PATIENCE))
            .map_err(|error| Problem::new(format!("cannot prepare a socket: {error}")))?;
    }
    let mut shots: Vec<Shot<'_>> = lines
        .iter()
        .map(|line| {
            let across = line.kind.placement.is_some();
            Shot { labels: line.kind.labels(), across, fire: exchange(line) }
        })
        .collect();
    rig.shoot_across(partner, &mut shots, interleaved)?;
    drop(shots);
    Ok(lines)
}

/// The same exchanges with the peer, as many as their time allows.
fn measure_remote(
    rig: &mut Rig<'_>,
    mut partner: Partner,
    interleaved: &Interleaved,
    paused: &Interleaved,
) -> Result<(), Problem> {
    let ipv6 = partner.is_ipv6();
    let address = partner.address(ipv6);
    let found = partner.echo(ipv6, &SIZES, true)?;
    let wanted = remote_kinds(ipv6);
    let remote = |protocol, bytes| Kind { ipv6, remote: true, ..kind(protocol, bytes, None) };
    let mut lines: Vec<Link> = Vec::new();
    for (bytes, socket) in found.tcp {
        lines.push(Link { kind: remote("tcp", bytes), socket, echo: None });
    }
    lines.extend(found.udp.map(|socket| Link { kind: remote("udp", 1), socket, echo: None }));
    let mut lines = with_every_datagram(lines);
    lines.extend(icmp_lines(rig, &wanted, |_| address).into_iter().filter(|line| line.kind.ipv6 == ipv6));
    // A long way leaves time for few exchanges: one each in turn then, so that every kind has as many.
    let interleaved = Interleaved { burst: 5, lead: 1, within: REMOTE_TIME, looks: false, ..*interleaved };
    let lines = shoot(rig, lines, None, &interleaved)?;
    let within = REMOTE_TIME / 4;
    let lines = shoot(rig, paused_lines(lines, &wanted), None, &Interleaved { within, ..*paused })?;
    drop(lines);
    let end = partner.end_echo()?;
    for service in end.services {
        let labels = Labels::of([("protocol", &service.protocol)]).with("bytes", service.bytes);
        let residence = [service.residence, service.longest_residence];
        let values: Vec<f64> = residence.into_iter().flatten().map(|found| found as f64).collect();
        if !values.is_empty() {
            rig.record("peer.residence", labels, Unit::Nanoseconds, values)?;
        }
    }
    rig.record("peer.cpu_time", Labels::none(), Unit::Nanoseconds, vec![end.cpu_time as f64])?;
    if let Some(delay) = end.run_delay {
        rig.record("peer.run_delay", Labels::none(), Unit::Nanoseconds, vec![delay as f64])?;
    }
    Ok(())
}
