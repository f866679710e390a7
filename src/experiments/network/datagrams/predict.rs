//! What is expected to arrive: the work of the two sides, the link and its frames.

use super::super::{Terms, interface};
use super::{Case, DELIVERED, IN_ORDER, OFFERED, Offered, RATE, cases};
use crate::experiments::constants::COPY_BYTE;
use crate::experiments::prelude::*;
use crate::peer::protocol::Direction;
use crate::results::peer::Peer;

constants! {
    /// Sending a datagram, in addition to the system call and the copy.
    DATAGRAM_SENT = 1_800.0 in 500.0 ..= 8_000.0 "ns",
        "Linux net/ipv4/udp.c: a buffer, its headers and its way, on the loopback up to the queue of the receiver";
    /// Taking it from the queue of a socket.
    DATAGRAM_TAKEN = 700.0 in 200.0 ..= 3_000.0 "ns", "Linux net/ipv4/udp.c, udp_recvmsg: a queue, a lock, and the freeing of the buffer";
    /// Part of sending in sending and receiving a datagram.
    SENDING = 0.7 in 0.45 ..= 0.9 "times", "Linux net/ipv4/udp.c: the sender makes the buffer and brings it to the queue of the receiver";
    /// Cache lines that move between the CPUs of the two sides for each datagram.
    LINES_MOVED = 8.0 in 2.0 ..= 20.0 "lines",
        "Linux net/ipv4/udp.c: the lock, the list and the counts of the queue, the buffer with its data, and the list that it is freed to";
    /// Switches that a sender pays for each datagram, to wake a receiver on another CPU that has read all.
    RECEIVER_WOKEN = 0.4 in 0.0 ..= 1.5 "times", "Linux kernel/sched/core.c, try_to_wake_up: the queue of the other CPU, and an interrupt to it if it sleeps";
    /// Datagrams that arrive where the rate is below the one that arrives at full rate.
    BELOW_RATE = 1.0 in 0.97 ..= 1.0 "times", "RFC 2544: below its throughput, a device forwards every frame";
    /// The same up to the program, which loses what comes while it has no CPU and the receive buffer is full.
    READ_BELOW_RATE = 1.0 in 0.8 ..= 1.0 "times", "udp(7): the usual buffer of 208 KiB holds 277 small datagrams, which come in 1 ms";
    /// Datagrams in order on a path with one queue.
    ONE_QUEUE = 1.0 in 0.999 ..= 1.0 "times", "RFC 4737: parallel paths reorder, and a queue does not";
}

pub(super) fn predict(by: &PredictionInput<'_>) -> Vec<Prediction> {
    let terms = Terms::known(by);
    let mut predictions = Vec::new();
    for case in cases(by.setup) {
        let rates = Rates::of(by, &terms, case);
        let (range, what, basis) = rates.arriving();
        predictions.push(Prediction::of(RATE, case.labels(), Unit::BytesPerSecond).hardware(what, range, basis));
        for offered in OFFERED {
            for end in case.ends() {
                let of = Prediction::of(DELIVERED, case.offered(offered).with("to", end), Unit::One);
                predictions.push(match offered {
                    Offered::Full => rates.delivered(of, end),
                    Offered::Share(..) => {
                        let share = if *end == "program" { READ_BELOW_RATE } else { BELOW_RATE };
                        of.software("queues that hold what is late", share.times(1.0), share.basis())
                    }
                });
            }
        }
        let of = Prediction::of(IN_ORDER, case.labels(), Unit::One);
        predictions.push(of.hardware("one queue after the other", ONE_QUEUE.times(1.0), ONE_QUEUE.basis()));
    }
    predictions
}

/// Rates of one case as `(value, low, high)`, in bytes per second.
struct Rates {
    sending: (f64, f64, f64),
    receiving: (f64, f64, f64),
    basis: Basis,
    /// Of the first link, and of the last.
    links: [Option<f64>; 2],
}

impl Rates {
    fn of(by: &PredictionInput<'_>, terms: &Terms, case: Case) -> Self {
        let bytes = f64::from(case.bytes);
        let rate = |extra: (f64, f64, f64)| {
            let (entry, copy) = (terms.entry.0, COPY_BYTE.times(bytes));
            let time = [entry.0 + copy.0 + extra.0, entry.1 + copy.1 + extra.1, entry.2 + copy.2 + extra.2];
            (bytes / time[0] * 1e9, bytes / time[2] * 1e9, bytes / time[1] * 1e9)
        };
        let channel = by
            .known
            .iter()
            .find(|metric| metric.name == "os.channel.time" && metric.labels.get("through") == Some("udp"));
        let links = links(by.setup, case).map(|link| link.map(|link| case.framed(link)));
        let Some(channel) = channel else {
            let [sending, receiving] = [rate(DATAGRAM_SENT.times(1.0)), rate(DATAGRAM_TAKEN.times(1.0))];
            return Rates { sending, receiving, basis: DATAGRAM_SENT.basis(), links };
        };
        // The calls of the channel are in its time.
        let part = SENDING.times(channel.value);
        let without = |time: f64, entry: f64| (time - entry).max(0.0);
        let entry = terms.entry.0;
        let moved = moved(by, case);
        let with = |one: (f64, f64, f64), other: (f64, f64, f64)| (one.0 + other.0, one.1 + other.1, one.2 + other.2);
        let sending = (without(part.0, entry.0), without(part.1, entry.2), without(part.2, entry.1) * 1.5);
        let sending = with(with(sending, moved), waking(terms, case));
        let rest = (channel.value - part.0, channel.value - part.2, channel.value - part.1);
        let receiving = (without(rest.0, entry.0), without(rest.1, entry.2), without(rest.2, entry.1) * 1.5);
        let receiving = with(receiving, moved);
        let basis = Basis::metric(&format!("{} {}", channel.name, channel.labels));
        Rates { sending: rate(sending), receiving: rate(receiving), basis, links }
    }

    /// What arrives, what decides it, and the source.
    fn arriving(&self) -> ((f64, f64, f64), &'static str, Basis) {
        let is_sender = self.sending.0 <= self.receiving.0;
        let what = if is_sender { "the work of the sender" } else { "the work of the receiver" };
        let slower = if is_sender { self.sending } else { self.receiving };
        let narrow = self.links.into_iter().flatten().reduce(f64::min);
        match narrow.filter(|&link| link < slower.0) {
            Some(link) => {
                let basis = Basis::machine("link rate in /sys/class/net");
                ((link, link * 0.6, link * 1.005), "the link rate less headers", basis)
            }
            None => (slower, what, self.basis.clone()),
        }
    }

    /// What arrives of all that is sent at the full rate. The first link makes its sender wait, one behind it does not.
    fn delivered(&self, of: Prediction, end: &str) -> Prediction {
        let offered = self.links[0].map_or(self.sending.0, |first| first.min(self.sending.0));
        let link = self.links[1].map_or(1.0, |last| (last / offered).min(1.0));
        let of_link = (link, link * 0.7, (link * 1.3).min(1.0));
        let receiver = (self.receiving.0 / offered.min(self.sending.0)).min(1.0);
        if end == "program" && receiver < link {
            let range = (receiver, receiver * 0.4, 1.0);
            return of.software("a receiver that is slower than its sender", range, self.basis.clone());
        }
        let range = if end == "program" { (link, link * 0.5, of_link.2) } else { of_link };
        of.hardware("the last link over what the sender offers", range, Basis::machine("link rates in /sys/class/net"))
    }
}

/// Nanoseconds of the lines that a datagram moves between the CPUs of this machine. The channel of one task moves none.
fn moved(by: &PredictionInput<'_>, case: Case) -> (f64, f64, f64) {
    let line = by.known.iter().find(|metric| metric.name == "os.cache_line_transfer.time").filter(|_| !case.remote);
    line.map_or((0.0, 0.0, 0.0), |line| LINES_MOVED.times(line.value))
}

/// Nanoseconds that the sender needs to wake the receiver on this machine.
fn waking(terms: &Terms, case: Case) -> (f64, f64, f64) {
    let (hop, low, high) = terms.hop.0;
    if case.remote {
        (0.0, 0.0, 0.0)
    } else {
        (RECEIVER_WOKEN.times(hop).0, RECEIVER_WOKEN.times(low).1, RECEIVER_WOKEN.times(high).2)
    }
}

/// Bytes per second of the links that datagrams cross first and last, where they have a stated rate.
fn links(setup: &Setup, case: Case) -> [Option<f64>; 2] {
    let Some(peer) = setup.peer.as_ref().filter(|_| case.remote) else { return [None; 2] };
    let own = interface(&setup.machine, peer).and_then(|found| found.bits_per_second);
    let links = [own, of_peer(peer)].map(|bits| bits.map(|bits| bits as f64 / 8.0));
    if case.direction == Direction::Receive { [links[1], links[0]] } else { links }
}

/// The link rate of a peer that has one interface with a stated rate. Of several, nothing says which has the path.
fn of_peer(peer: &Peer) -> Option<u64> {
    let mut rates = peer.machine.network.iter().filter_map(|found| found.bits_per_second);
    rates.next().filter(|_| rates.next().is_none())
}
