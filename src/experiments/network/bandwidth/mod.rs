//! # Question
//!
//! How many bytes of payload arrive per second, by direction, number of connections and write size? And which part of
//! the system limits the rate?
//!
//! # Method
//!
//! A sender writes messages of one size as fast as the socket accepts them, and a receiver reads up to 128 KiB at a
//! time. Bytes are counted **at the receiver**, whose clock is read at the end of each window. The rate is the bytes
//! that arrived from the first window of the steady part to the last, divided by the time between them. Bytes at the
//! sender are not the rate, because they fill buffers first. At the end, the totals of both sides are compared.
//!
//! - **loopback**: 80 ms per case in windows of 5 ms. The first half is omitted, because the receive buffer and the
//!   congestion control adapt in that time. The other side is a process on another CPU or on the same CPU
//!   (`placement`).
//! - **remote**: 2.5 s per case in windows of 100 ms. The first second or twenty round trips are omitted, because a
//!   connection needs that time to reach its rate. A burst in the first third of the rest is omitted too: its bytes
//!   waited at the receiver for a lost segment.
//! - **direction**: send (from this machine), receive, or both at once. The rate of both is the sum.
//! - **streams**: concurrent connections per direction, each with a separate thread on both sides.
//! - **bytes**: size of a write.
//!
//! A quick run omits writes of 16 KiB and two and four streams on the loopback, and several streams to a peer.
//!
//! Receive buffers tune themselves, as in any program that does not set them. Each sender reports from TCP_INFO how
//! long the receiver's window or the send buffer blocked it, and both sides report their CPU time. The limit is the
//! first of these that applies:
//!
//! - A CPU was busy at least 90 % of the time.
//! - The receiver's window stopped the sender for more than half of the time. On a remote path, data in flight that
//!   fills three quarters of the window counts too.
//! - The send buffer stopped the sender for more than half of the time.
//! - Otherwise, the path and its congestion control, or on the loopback the handoffs between the sides.
//!
//! # Prediction
//!
//! Loopback: each 64 KiB is copied in and out and needs a buffer, and small writes add their system calls. On two
//! CPUs both copies run at the same time, on one CPU alternately. Remote: the lowest of three rates. These are the
//! link rate less headers, the largest receive buffer over the round trip, and the rate of the loopback.
//!
//! # What could fool us
//!
//! - The first second includes TCP slow start, and burst credit from cloud providers and traffic shapers. On the
//!   loopback, the rate is not stable in the first 50 ms.
//! - Congestion control also works on the loopback. BBR, which paces, may carry less than half of what CUBIC carries.
//!   Small differences then decide, such as how a receiver reads. Compare machines with the same congestion control.
//! - A loopback result is a copy benchmark with system calls. It shows only how fast the machine could feed a
//!   network.
//! - One thread for both sides, or both sides on one CPU, halves the rate.
//! - A fixed receive buffer turns off tuning. The rate is then window over round trip, whatever the link can carry.
//! - On a virtual machine, the reported link rate may be wrong or missing.
//!
//! # References
//!
//! RFC 9293 (TCP), RFC 7323 (windows, time stamps), RFC 6349 (throughput testing). tcp(7), `struct tcp_info` in
//! `linux/tcp.h`.

mod explain;
mod judge;
mod measure;
mod outcomes;
mod predict;

use super::{LOOPBACK, OTHER_CPU, SAME_CPU};
use crate::experiments::prelude::*;
use crate::peer::protocol::{Direction, FlowOrder};

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "network.bandwidth",
    title: "Peak bandwidth",
    measures: "payload per second at the receiver, by direction, streams and size of writes",
    words: &["iperf", "throughput"],
    method_version: 1,
    precision: Precision { target: 0.2, between: 0.1, busy: 0.2 },
    source: heading!("mod.rs"),
    needs: &[LOOPBACK],
    uses: &["os.system_call.time", "network.round_trip.time"],
    rules: judge::RULES,
    constants: predict::CONSTANTS,
    publishes: &[Publication::state("network.bandwidth.rate", Unit::BytesPerSecond, "payload that arrives per second")
        .in_summary_where(common_case)],
    seconds: |setup| super::seconds(setup, 13.5, 1.3),
    time_out: 120.0,
    predict: predict::predict,
    measure: measure::measure,
    figures: judge::figures,
    explain: explain::explain,
    ..Experiment::DEFAULT
};

const RATE: &str = "network.bandwidth.rate";

/// Size of a write where it is not the parameter: what tools of this kind write by default.
const WRITE: u32 = 128 << 10;

/// Sizes of writes.
const WRITES: [u32; 4] = [1 << 10, 16 << 10, WRITE, 1 << 20];

/// Duration of a loopback case and of its windows in milliseconds.
const LOOPBACK_MILLISECONDS: u32 = 80;

const LOOPBACK_WINDOW: u32 = 5;

/// Duration of a remote case and of its windows in milliseconds.
const REMOTE_MILLISECONDS: u32 = 2_500;

const REMOTE_WINDOW: u32 = 100;

/// A CPU that is busy for this share of the time is the limit.
const BUSY: f64 = 0.9;

/// Bytes of a full frame in addition to its payload: IP, TCP with time stamps, within the MTU, and around it on an Ethernet.
const WITHIN: f64 = 52.0;

const AROUND: f64 = 38.0;

/// One flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Case {
    direction: Direction,
    streams: u8,
    bytes: u32,
    ipv6: bool,
    /// None on a remote path.
    placement: Option<&'static str>,
}

impl Case {
    fn labels(self) -> Labels {
        let path = if self.placement.is_some() { "loopback" } else { "remote" };
        let labels = Labels::of([("direction", self.direction.label()), ("path", path)])
            .with("streams", self.streams)
            .with("bytes", self.bytes)
            .with("ip", if self.ipv6 { 6 } else { 4 });
        self.placement.map_or(labels.clone(), |placement| labels.with("placement", placement))
    }

    fn order(self) -> FlowOrder {
        let (milliseconds, window) = match self.placement {
            Some(_) => (LOOPBACK_MILLISECONDS, LOOPBACK_WINDOW),
            None => (REMOTE_MILLISECONDS, REMOTE_WINDOW),
        };
        FlowOrder {
            ipv6: self.ipv6,
            direction: self.direction,
            streams: self.streams,
            message: self.bytes,
            milliseconds,
            window,
        }
    }
}

/// Whether a launch in a hurry leaves a case out: on the loopback what others stand for, and many streams to a peer.
fn can_wait(case: Case) -> bool {
    match case.placement {
        Some(_) => case.bytes == 16 << 10 || [2, 4].contains(&case.streams),
        None => case.streams > 1,
    }
}

const PLAIN: Case =
    Case { direction: Direction::Send, streams: 1, bytes: WRITE, ipv6: false, placement: Some(OTHER_CPU) };

fn loopback_cases() -> Vec<Case> {
    let mut cases: Vec<Case> = WRITES.into_iter().map(|bytes| Case { bytes, ..PLAIN }).collect();
    cases.extend([Direction::Receive, Direction::Both].map(|direction| Case { direction, ..PLAIN }));
    cases.extend([2, 4, 8].map(|streams| Case { streams, ..PLAIN }));
    cases.push(Case { placement: Some(SAME_CPU), ..PLAIN });
    cases.push(Case { ipv6: true, ..PLAIN });
    cases
}

fn remote_cases(ipv6: bool) -> Vec<Case> {
    let plain = Case { ipv6, placement: None, ..PLAIN };
    let mut cases: Vec<Case> =
        [Direction::Send, Direction::Receive, Direction::Both].map(|direction| Case { direction, ..plain }).to_vec();
    cases.extend([4, 8].map(|streams| Case { streams, ..plain }));
    cases
}

fn cases(setup: &Setup) -> Vec<Case> {
    let mut cases = if setup.remote_only { Vec::new() } else { loopback_cases() };
    cases.extend(setup.peer.as_ref().map(|peer| remote_cases(peer.is_ipv6())).unwrap_or_default());
    cases
}

/// The summary shows writes of the common size over IPv4, and everything remote.
fn common_case(labels: &Labels) -> bool {
    let loopback = labels.get("path") == Some("loopback");
    labels.get("bytes") == Some("131072") && (!loopback || labels.get("ip") == Some("4"))
}

/// Payload of an Ethernet that moves this many bytes per second.
fn framed(bytes_per_second: f64, mtu: Option<u32>) -> f64 {
    let mtu = f64::from(mtu.unwrap_or(1500));
    bytes_per_second * (mtu - WITHIN) / (mtu + AROUND)
}

/// The median over launches of one number of a series.
fn middle(study: &Study<'_>, name: &str, labels: &Labels, position: usize) -> Option<f64> {
    let values: Vec<f64> =
        study.series(name, labels).iter().filter_map(|series| series.values.get(position).copied()).collect();
    median(&values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ethernet_of_one_gigabit_carries_941_megabits() {
        assert!((framed(125e6, None) * 8.0 / 1e6 - 941.5).abs() < 0.1);
    }
}
