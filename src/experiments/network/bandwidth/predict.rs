//! What a flow is expected to carry: copies and system calls on loopback, the link and its frames beyond it.

use super::super::{OTHER_CPU, SAME_CPU, Terms, interface, round_trip};
use super::{Case, RATE, cases, framed};
use crate::experiments::constants::COPY_BYTE;
use crate::experiments::prelude::*;
use crate::peer::protocol::Direction;
use crate::sys::tcp_counters::largest_receive_buffer;

constants! {
    /// Making, queueing and freeing one buffer of up to 64 KiB.
    BUFFER = 3_000.0 in 800.0 ..= 10_000.0 "ns", "Linux net/core/skbuff.c: 16 pages and a head for each";
    /// Adding a small write to the last buffer of a socket.
    APPEND = 250.0 in 60.0 ..= 2_500.0 "ns",
        "Linux net/ipv4/tcp.c, tcp_sendmsg_locked: lock, checks, release, and a separate segment where nothing waits";
}

pub(super) fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let terms = Terms::known(by);
    cases(by.setup).into_iter().map(|case| predict_case(by, &terms, case)).collect()
}

/// What one CPU or two move: nanoseconds for 64 KiB as `(value, low, high)`.
pub(super) fn loopback_time(terms: &Terms, bytes: u32, placement: &str) -> (f64, f64, f64) {
    const UNIT: f64 = 65_536.0;
    // Small writes are put together in the socket, each for the price of its call and of its way to the last buffer.
    let calls = (UNIT / f64::from(bytes)).max(0.5);
    let (copy, buffer, entry, append) = (COPY_BYTE.times(UNIT), BUFFER.times(1.0), terms.entry.0, APPEND.times(1.0));
    let one = |copy: f64, buffer: f64, entry: f64, append: f64| copy + buffer + calls * (entry + append);
    let sides = if placement == SAME_CPU { 2.0 } else { 1.0 };
    let time = (
        one(copy.0, buffer.0, entry.0, append.0) * sides,
        one(copy.1, buffer.1, entry.1, append.1) * sides,
        one(copy.2, buffer.2, entry.2, append.2) * sides,
    );
    (time.0 / UNIT, time.1 / UNIT, time.2 / UNIT)
}

pub(super) fn predict_case(by: &PredictionInput<'_>, terms: &Terms, case: Case) -> Prediction {
    let prediction = Prediction::of(RATE, case.labels(), Unit::BytesPerSecond);
    let (value, low, high) = loopback_time(terms, case.bytes, case.placement.unwrap_or(OTHER_CPU));
    let local = (1e9 / value, 1e9 / high, 1e9 / low);
    let Some(peer) = by.setup.peer.as_ref().filter(|_| case.placement.is_none()) else {
        // Both directions of two CPUs, or many streams, share the same two CPUs.
        return prediction.software("copies, buffers and calls of the busier side", local, COPY_BYTE.basis());
    };
    let both = if case.direction == Direction::Both { 2.0 } else { 1.0 };
    let mut bound = (local, "the rate of the two machines' software", COPY_BYTE.basis());
    let facts = interface(&by.setup.machine, peer);
    if let Some(rate) = facts.and_then(|found| found.bits_per_second) {
        let link = framed(rate as f64 / 8.0, facts.and_then(|found| found.mtu_bytes)) * both;
        if link < bound.0.0 {
            let basis = Basis::machine("link rate and MTU in /sys/class/net");
            bound = ((link, link * 0.6, link * 1.005), "the link rate less headers", basis);
        }
    }
    if let (Some(window), Some((round_trip, _))) = (largest_receive_buffer(), round_trip(by.known, peer)) {
        // Half of the buffer is kept for the kernel's own structures.
        let limit = window as f64 / 2.0 / (round_trip / 1e9) * f64::from(case.streams) * both;
        if limit < bound.0.0 {
            let basis = Basis::machine("/proc/sys/net/ipv4/tcp_rmem and network.round_trip.time");
            bound = ((limit, limit * 0.1, limit * 2.0), "the receive buffer over the round trip", basis);
        }
    }
    let ((value, low, high), what, basis) = bound;
    // A path that states no rate may be narrower than anything known here.
    let low = if facts.and_then(|found| found.bits_per_second).is_some() { low } else { low.min(1e5) };
    prediction.hardware(what, (value, low, high), basis)
}
