//! The flows of a launch, and the steady part of their windows.

use super::super::{OTHER_CPU, SAME_CPU, on_loopback, other_cpu, partner_elsewhere, remark_placement};
use super::outcomes::{CaseResult, keep};
use super::{Case, RATE, can_wait, loopback_cases, remote_cases};
use crate::experiments::prelude::*;
use crate::peer::client::Partner;
use crate::peer::plausible;
use crate::peer::protocol::{Flowed, Sender};
use crate::sys::tcp_counters::congestion_control;
use std::time::Duration;

/// Nanoseconds that are left out at the beginning of a remote case, and round trips.
pub(super) const LEFT_OUT: f64 = 1e9;

pub(super) const LEFT_OUT_ROUND_TRIPS: f64 = 20.0;

/// Share of a loopback case that is left out at its beginning.
pub(super) const LEFT_OUT_SHARE: f64 = 0.5;

pub(super) fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let access = rig.setup().access.as_ref();
    if let Some(name) = congestion_control() {
        rig.remark("congestion_control", &name);
    }
    rig.has_partners();
    // A quick run leaves some cases out.
    let all = !rig.setup().profile.is_quick();
    let mut outcomes = Vec::new();
    on_loopback(rig, RATE, |rig| measure_loopback(rig, all, &mut outcomes))?;
    if let Some(partner) = partner_elsewhere(access)? {
        outcomes.extend(measure_remote(rig, partner, all)?);
    }
    keep(rig, outcomes)
}

/// The flows on the loopback. One without a result costs no other its result.
fn measure_loopback(rig: &mut Rig<'_>, all: bool, outcomes: &mut Vec<CaseResult>) -> Result<(), Problem> {
    let other = other_cpu(rig.setup());
    remark_placement(rig, RATE, other);
    let mut order = loopback_cases();
    order.retain(|&case| all || !can_wait(case));
    rig.random().shuffle(&mut order);
    for placement in [SAME_CPU, OTHER_CPU] {
        let cpu = if placement == SAME_CPU { Some(rig.setup().cpu) } else { other };
        let Some(cpu) = cpu else { continue };
        let mut partner = Partner::on_loopback(Some(cpu), &[])?;
        for case in order.iter().filter(|case| case.placement == Some(placement)) {
            let flow = partner.flow(&case.order());
            if flow.is_err() {
                // A partner that was left in the middle of its work is of no more use.
                partner = Partner::on_loopback(Some(cpu), &[])?;
            }
            outcomes.push(flow.and_then(|seen| record(rig, *case, &seen)).map_err(|problem| (*case, problem)));
        }
    }
    Ok(())
}

/// The flows to a peer. One that cannot be judged is that case's affair, a peer that is lost is the launch's.
pub(super) fn measure_remote(rig: &mut Rig<'_>, mut partner: Partner, all: bool) -> Result<Vec<CaseResult>, Problem> {
    let mut order = remote_cases(partner.is_ipv6());
    order.retain(|&case| all || !can_wait(case));
    rig.random().shuffle(&mut order);
    let mut outcomes = Vec::new();
    for case in order {
        let seen = partner.flow(&case.order())?;
        outcomes.push(record(rig, case, &seen).map_err(|problem| (case, problem)));
    }
    Ok(outcomes)
}

/// A window with this many times the median of a flow brought bytes that had waited for a lost segment. TCP waits at least
/// 200 ms before it repeats one that was lost twice: two windows to a peer.
pub(super) const BURST: f64 = 1.5;

/// Writes down what both sides saw of a case, if what the other side says of it can be.
pub(super) fn record(
    rig: &mut Rig<'_>,
    case: Case,
    (own, theirs, lasted): &(Flowed, Flowed, Duration),
) -> Result<(), Problem> {
    let labels = case.labels();
    // On the loopback both sides are one program with one clock.
    if case.placement.is_none() {
        plausible::flow(&case.order(), theirs, *lasted)?;
    }
    let round_trip = own.senders.iter().chain(&theirs.senders).map(|sender| sender.round_trip).max().unwrap_or(0);
    let mut rate = 0.0;
    let mut windows: Vec<f64> = Vec::new();
    for receiver in [own, theirs].into_iter().filter(|side| side.windows.len() > 1) {
        let steady = steady_part(case, &receiver.windows, f64::from(round_trip) * 1e3);
        rate += rate_of(steady).ok_or_else(|| Problem::new(format!("no window of the flow remains ({labels})")))?;
        let rates: Vec<f64> = steady.windows(2).filter_map(rate_of).collect();
        windows = if windows.is_empty() { rates } else { together(&windows, &rates) };
    }
    if rate <= 0.0 {
        return Err(Problem::new(format!("no data arrived, so the other side hangs or is unreachable ({labels})"))
            .hint("check that the other side still runs and that no device on the path drops its packets"));
    }
    rig.record("rate", labels.clone(), Unit::BytesPerSecond, vec![rate])?;
    rig.record("window", labels.clone(), Unit::BytesPerSecond, windows)?;
    let totals = [own.sent, own.received, theirs.sent, theirs.received];
    rig.record("total", labels.clone(), Unit::Bytes, totals.map(|total| total as f64).to_vec())?;
    let busy = [own, theirs].map(|side| side.cpu_time as f64 / side.span.max(1) as f64);
    rig.record("busy", labels.clone(), Unit::One, busy.to_vec())?;
    for (side, flowed) in [("own", own), ("other", theirs)] {
        for sender in flowed.senders.iter().take(1) {
            rig.record("sender", labels.clone().with("side", side), Unit::One, numbers(sender))?;
        }
    }
    Ok(())
}

/// Windows of two directions as one: they end at the same times but for the difference of two clocks' sleeps, and one may begin later.
fn together(one: &[f64], other: &[f64]) -> Vec<f64> {
    let both = one.len().min(other.len());
    let last = |rates: &[f64]| rates[rates.len() - both..].to_vec();
    last(one).into_iter().zip(last(other)).map(|(one, other)| one + other).collect()
}

/// Busy, receiver-limited and buffer-limited time, segments sent again, round trip, congestion window, segment, window.
pub(super) fn numbers(sender: &Sender) -> Vec<f64> {
    vec![
        sender.busy as f64,
        sender.receiver_limited as f64,
        sender.buffer_limited as f64,
        f64::from(sender.retransmissions),
        f64::from(sender.round_trip),
        f64::from(sender.congestion_window),
        f64::from(sender.segment),
        f64::from(sender.offered_window),
    ]
}

/// The windows after the start and before the last, which the end of the flow may have cut.
pub(super) fn steady_part(case: Case, windows: &[(u64, i64)], round_trip: f64) -> &[(u64, i64)] {
    let (Some(first), Some(last)) = (windows.first(), windows.last()) else { return windows };
    let whole = (last.1 - first.1) as f64;
    let left_out = match case.placement {
        Some(_) => whole * LEFT_OUT_SHARE,
        // Never more than two thirds: something has to be left.
        None => LEFT_OUT.max(LEFT_OUT_ROUND_TRIPS * round_trip).min(whole * 0.67),
    };
    let from = windows.iter().position(|window| (window.1 - first.1) as f64 >= left_out).unwrap_or(0);
    let part = &windows[from..windows.len().saturating_sub(1).max(from + 1)];
    if case.placement.is_some() { part } else { after_burst(part) }
}

/// A part without a burst in its first third, and without what is before that. The bytes of such a burst crossed the path before
/// the part began, so they would count for a time in which they did not arrive.
fn after_burst(part: &[(u64, i64)]) -> &[(u64, i64)] {
    let rates: Vec<f64> = part.windows(2).filter_map(rate_of).collect();
    let Some(middle) = median(&rates) else { return part };
    let burst = rates.iter().take(rates.len() / 3).rposition(|&rate| rate >= BURST * middle);
    burst.map_or(part, |window| &part[window + 1..])
}

/// Bytes per second from the first window of a part to its last.
pub(super) fn rate_of(part: &[(u64, i64)]) -> Option<f64> {
    let (first, last) = (part.first()?, part.last()?);
    let span = last.1 - first.1;
    (span > 0).then(|| last.0.saturating_sub(first.0) as f64 / span as f64 * 1e9)
}

#[cfg(test)]
mod tests {
    use super::super::PLAIN;
    use super::*;

    #[test]
    fn the_start_and_the_cut_end_do_not_count() {
        // 10 bytes per nanosecond after a slow start of 20 windows, a last window cut short.
        let remote = Case { placement: None, ..PLAIN };
        let mut windows: Vec<(u64, i64)> = Vec::new();
        let (mut bytes, mut time) = (0_u64, 0_i64);
        for number in 0..60 {
            bytes += if number < 20 { 10_000_000 } else { 1_000_000_000 };
            time += 100_000_000;
            windows.push((bytes, time));
        }
        windows.push((bytes, time + 50_000_000));
        let rate = rate_of(steady_part(remote, &windows, 150e6)).unwrap();
        assert!((rate / 10e9 - 1.0).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn bytes_that_waited_for_a_lost_segment_do_not_count() {
        // 2.5 bytes per microsecond cross the path. For 350 ms before the part that counts a segment is missing, so all that
        // comes waits for it, and then everything is read at once.
        let remote = Case { placement: None, ..PLAIN };
        let missing = 8..12;
        let windows: Vec<(u64, i64)> = (1..=25)
            .map(|number| {
                let crossed = if missing.contains(&number) { missing.start - 1 } else { number };
                (crossed * 250_000, number as i64 * 100_000_000)
            })
            .collect();
        let rate = rate_of(steady_part(remote, &windows, 6e7)).unwrap();
        assert!((rate / 2.5e6 - 1.0).abs() < 1e-9, "{rate}");
        // The same within the part takes nothing from the rate and adds nothing.
        let missing = 18..20;
        let windows: Vec<(u64, i64)> = windows
            .iter()
            .zip(1..)
            .map(|(window, number)| {
                let crossed = if missing.contains(&number) { missing.start - 1 } else { number };
                (crossed * 250_000, window.1)
            })
            .collect();
        let rate = rate_of(steady_part(remote, &windows, 6e7)).unwrap();
        assert!((rate / 2.5e6 - 1.0).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn a_direction_that_begins_later_leaves_no_half_windows() {
        assert_eq!(together(&[9.0, 1.0, 2.0], &[10.0, 20.0]), [11.0, 22.0]);
        assert!(together(&[1.0], &[]).is_empty());
    }

    #[test]
    fn something_is_left_of_the_slowest_path_and_nothing_of_nothing() {
        let remote = Case { placement: None, ..PLAIN };
        let windows: Vec<(u64, i64)> = (0..25).map(|number| (number * 100, number as i64 * 100_000_000)).collect();
        assert!(rate_of(steady_part(remote, &windows, 5e9)).is_some());
        assert_eq!(rate_of(steady_part(remote, &windows[..1], 0.0)), None);
        assert_eq!(rate_of(&[]), None);
    }
}
