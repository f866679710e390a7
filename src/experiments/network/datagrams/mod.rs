//! # Question
//!
//! How many datagrams and bytes per second does a path carry? Which share is lost at the highest rate of one sender, and at lower rates?
//! Are datagrams reordered or repeated?
//!
//! # Method
//!
//! One sender writes UDP datagrams of one size, and one receiver reads them, one call for each. Each datagram has a number.
//! The receiver counts each number once. On the **loopback**, the other side is a process on another CPU. On the **remote** path it is
//! the peer, in both directions. There are three flows of each size, one after the other:
//!
//! - **offered=full**: as fast as the sender can, for 60 ms on the loopback and 150 ms to a peer. The **rate** is the payload that
//!   arrives in the second half, over the time between its first and last datagram. In the first half, queues fill and
//!   shapers use up their burst.
//! - **offered=0.9** and **offered=0.5**: the sender is paced to this share of the rate that arrived, for half as long. A short burst
//!   over the limit would only fill a queue, so a search for the highest rate without loss would find the queue.
//!
//! **delivered** is the share of the sent datagrams that arrive, over all launches. With `to=program` the program has read them. With
//! `to=socket` they reached the receiving machine: those that the kernel dropped because the receive buffer was full count as
//! arrived. The difference is what the receiver loses, and the rest is what the path loses.
//!
//! The share **in_order** counts the arrived datagrams that come before every datagram with a higher number (RFC 4737).
//!
//! The interval of a share is that of Clopper and Pearson, for as many independent datagrams as vary as much between launches as these
//! do. If n datagrams arrive and none is lost, the loss is at most 3.7/n with a confidence of 95 %.
//!
//! **bytes** is the payload. The larger size fills a packet of 1500 bytes, or of the interface's MTU if that is less. Datagrams are
//! not fragmented. Buffers have the size that the system gives to every program. A datagram that the queue of the own
//! machine refuses is not sent and not lost. The table counts it.
//!
//! # Prediction
//!
//! Loopback: a system call, the protocol, a copy, some cache lines between the CPUs, and a part of a switch for each datagram. The
//! sender does most of it, up to the queue of the receiver, and wakes a receiver that has read all.
//! Remote: the lower of that rate and the link rate less 66 bytes of headers and gap for each datagram. Without a narrower link behind the
//! first one, everything arrives. A narrower one lets its share through.
//!
//! # What could fool us
//!
//! - **Loss at the receiver.** The default buffer of 208 KiB holds 277 small datagrams. A receiver that waits 1 ms for
//!   its CPU loses the rest. The path is not to blame, and `to=socket` shows it.
//! - **A sender that waits.** A full queue of the own interface makes the sender wait, so that nothing is lost on the first link. A
//!   narrow link behind it loses datagrams.
//! - **Offload.** iperf3 and other programs can hand many datagrams to the kernel at a time (UDP_SEGMENT, sendmmsg). They show
//!   higher rates.
//! - **Bursts.** Clouds and shapers let bursts of seconds through. A flow of 150 ms may see no limit.
//! - **Several queues.** Interfaces with several queues keep the order of one flow, not that of several.
//! - A low rate has few datagrams, so the interval of its loss is wide.
//!
//! # References
//!
//! RFC 768 (UDP), RFC 2544 (throughput and frame loss rate), RFC 4737 (reordering), RFC 5560 (duplication). C. Clopper and E.
//! Pearson, "The use of confidence or fiducial limits", 1934. E. Korn and B. Graubard, "Confidence intervals for proportions with
//! small expected number of positive counts", 1998. udp(7), `SO_MEMINFO` in `linux/sock_diag.h`.

mod explain;
mod judge;
mod measure;
mod predict;

use super::{LOOPBACK, OTHER_CPU, interface};
use crate::experiments::prelude::*;
use crate::peer::protocol::Direction;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "network.datagrams",
    title: "UDP rate and loss",
    measures: "datagrams that arrive per second and the share that is lost, by size and offered rate",
    words: &["datagram", "loss"],
    method_version: 1,
    precision: Precision { target: 0.2, between: 0.1, busy: 0.2 },
    source: heading!("mod.rs"),
    needs: &[LOOPBACK],
    uses: &["os.system_call.time", "os.cache_line_transfer.time", "os.channel.time"],
    rules: judge::RULES,
    constants: predict::CONSTANTS,
    publishes: &[
        Publication::state(RATE, Unit::BytesPerSecond, "payload of datagrams that arrives per second").in_summary(),
        Publication::state(DELIVERED, Unit::One, "share of the sent datagrams that arrives")
            .in_summary_where(|labels| labels.get("to") == Some("program") && labels.get("offered") != Some("0.5")),
        Publication::state(IN_ORDER, Unit::One, "share of the arrived datagrams that arrives in order"),
    ],
    seconds: |setup| super::seconds(setup, 1.9, 0.35),
    time_out: 60.0,
    predict: predict::predict,
    measure: measure::measure,
    figures: judge::figures,
    explain: explain::explain,
    ..Experiment::DEFAULT
};

const RATE: &str = "network.datagrams.rate";
const DELIVERED: &str = "network.datagrams.delivered";
const IN_ORDER: &str = "network.datagrams.in_order";

/// Payload of a small datagram.
const SMALL: u16 = 64;

/// Bytes of a packet of an Ethernet, and of the headers of UDP and IP in it.
const PACKET: u32 = 1500;

const HEADERS: u32 = 28;

const HEADERS_6: u32 = 48;

/// Bytes around a packet on an Ethernet: its head and its checksum, preamble, gap.
const AROUND: f64 = 38.0;

/// Milliseconds of a flow at the full rate. A paced flow has half of them.
const LOOPBACK_MILLISECONDS: u32 = 60;

const REMOTE_MILLISECONDS: u32 = 150;

/// Rates that are offered. The full rate comes first, because the others are shares of what arrives then.
const OFFERED: [Offered; 3] = [Offered::Full, Offered::Share("0.9", 0.9), Offered::Share("0.5", 0.5)];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Offered {
    Full,
    /// The value of the label, and the share of the rate that arrives.
    Share(&'static str, f64),
}

impl Offered {
    fn label(self) -> &'static str {
        match self {
            Offered::Full => "full",
            Offered::Share(label, _) => label,
        }
    }
}

/// Datagrams of one size in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Case {
    direction: Direction,
    bytes: u16,
    ipv6: bool,
    remote: bool,
}

impl Case {
    fn labels(self) -> Labels {
        let path = if self.remote { "remote" } else { "loopback" };
        let labels = Labels::of([("direction", self.direction.label()), ("path", path)])
            .with("bytes", self.bytes)
            .with("ip", if self.ipv6 { 6 } else { 4 });
        if self.remote { labels } else { labels.with("placement", OTHER_CPU) }
    }

    fn offered(self, offered: Offered) -> Labels {
        self.labels().with("offered", offered.label())
    }

    /// Where what arrives is counted: what a machine sends to itself has no path.
    fn ends(self) -> &'static [&'static str] {
        if self.remote { &["program", "socket"] } else { &["program"] }
    }

    /// Payload per second of a link that moves this many bytes per second.
    fn framed(self, bytes_per_second: f64) -> f64 {
        let (payload, headers) = (f64::from(self.bytes), f64::from(if self.ipv6 { HEADERS_6 } else { HEADERS }));
        bytes_per_second * payload / (payload + headers + AROUND)
    }
}

/// The largest payload that fits into a packet of an Ethernet and of an interface.
fn largest(mtu: Option<u32>, ipv6: bool) -> u16 {
    let packet = mtu.unwrap_or(PACKET).min(PACKET);
    packet.saturating_sub(if ipv6 { HEADERS_6 } else { HEADERS }).max(u32::from(SMALL)) as u16
}

fn loopback_cases() -> Vec<Case> {
    let case = |bytes| Case { direction: Direction::Send, bytes, ipv6: false, remote: false };
    [SMALL, largest(None, false)].map(case).to_vec()
}

fn remote_cases(setup: &Setup) -> Vec<Case> {
    let Some(peer) = setup.peer.as_ref() else { return Vec::new() };
    let ipv6 = peer.is_ipv6();
    let mtu = interface(&setup.machine, peer).and_then(|found| found.mtu_bytes);
    let sizes = [SMALL, largest(mtu, ipv6)];
    let directions = [Direction::Send, Direction::Receive];
    let all =
        sizes.into_iter().flat_map(|bytes| directions.map(|direction| Case { direction, bytes, ipv6, remote: true }));
    all.collect()
}

fn cases(setup: &Setup) -> Vec<Case> {
    let mut cases = if setup.remote_only { Vec::new() } else { loopback_cases() };
    cases.extend(remote_cases(setup));
    cases
}

/// What the launches counted of flows of one kind, all together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counts {
    sent: f64,
    refused: f64,
    received: f64,
    repeated: f64,
    reordered: f64,
    /// None where the kernel does not count them.
    dropped: Option<f64>,
}

impl Counts {
    /// In the order in which a launch records them.
    fn of(values: &[f64]) -> Option<Self> {
        let &[sent, refused, received, repeated, reordered, ref dropped @ ..] = values else { return None };
        Some(Counts { sent, refused, received, repeated, reordered, dropped: dropped.first().copied() })
    }

    fn lost(self) -> f64 {
        self.sent - self.received
    }

    /// Those of each launch.
    fn by_launch(study: &Study<'_>, case: Case, offered: Offered) -> Vec<Counts> {
        let all = study.series("count", &case.offered(offered));
        all.into_iter().filter_map(|series| Counts::of(&series.values)).collect()
    }

    fn sum(all: &[Counts]) -> Counts {
        let sum = |of: &dyn Fn(&Counts) -> f64| all.iter().map(of).sum();
        Counts {
            sent: sum(&|found| found.sent),
            refused: sum(&|found| found.refused),
            received: sum(&|found| found.received),
            repeated: sum(&|found| found.repeated),
            reordered: sum(&|found| found.reordered),
            dropped: all.iter().map(|found| found.dropped).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_datagram_fills_a_packet_and_a_small_link() {
        assert_eq!([largest(None, false), largest(Some(1500), true)], [1472, 1452]);
        assert_eq!(
            [largest(Some(9000), false), largest(Some(1460), false), largest(Some(50), false)],
            [1472, 1432, 64]
        );
        // On an Ethernet, 64 bytes of payload take 130 bytes, and 1472 take 1538.
        let case = loopback_cases()[1];
        assert!((case.framed(125e6) / 125e6 - 1472.0 / 1538.0).abs() < 1e-12);
        assert!((Case { bytes: 64, ..case }.framed(130.0) - 64.0).abs() < 1e-12);
    }

    #[test]
    fn counts_add_up() {
        let one = Counts::of(&[10.0, 1.0, 8.0, 2.0, 3.0, 1.0]).unwrap();
        let sum = Counts::sum(&[one, one]);
        assert_eq!((sum.sent, sum.lost(), sum.dropped), (20.0, 4.0, Some(2.0)));
        let unknown = Counts::of(&[10.0, 1.0, 8.0, 2.0, 3.0]).unwrap();
        assert_eq!(Counts::sum(&[one, unknown]).dropped, None, "an unknown number is not 0");
        assert_eq!(Counts::of(&[1.0]), None);
    }
}
