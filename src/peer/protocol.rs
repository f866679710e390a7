//! What a client may ask and a peer answers. Every number of a request has a bound that is checked before anything is done.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::machine::{Machine, Storage};
use crate::results::mesh::MeshLink;

/// Version of the protocol: sides of different versions refuse each other by name.
pub const VERSION: u16 = 4;

/// First bytes of both sides.
pub const MAGIC: [u8; 8] = *b"sysdyno\n";

/// Longest message that is echoed, and longest that a flow writes at once, in bytes.
pub const LONGEST_MESSAGE: u32 = 1 << 20;
/// Most echo services of one request.
pub const MOST_SIZES: usize = 8;
/// Echo services of a session that are open at once.
pub const MOST_SERVICES: usize = 32;
/// Most streams of a flow in one direction.
pub const MOST_STREAMS: u8 = 16;
/// Longest flow in milliseconds.
pub const LONGEST_FLOW: u32 = 120_000;
/// Most windows of a flow.
pub const MOST_WINDOWS: u32 = 10_000;
/// Most connections of one request.
pub const MOST_CONNECTIONS: u32 = 4096;

/// Bytes of a datagram of a flow: at least its token and its number, at most what IPv4 carries.
pub const DATAGRAMS: std::ops::RangeInclusive<u16> = 20..=65_507;
/// Longest flow of datagrams in milliseconds.
pub const LONGEST_DATAGRAMS: u32 = 2_000;
/// Highest number of datagrams per second that is asked for.
pub const MOST_DATAGRAM_RATE: u32 = 100_000_000;
/// Most datagrams of a flow.
pub const MOST_DATAGRAMS: u32 = 1 << 24;
/// Most bytes of a flow of datagrams.
pub const MOST_DATAGRAM_BYTES: u64 = 1 << 30;

/// Smallest and largest file that is exported, in bytes.
pub const EXPORTS: std::ops::RangeInclusive<u64> = 1 << 20..=256 << 20;

/// Which way the bytes of a flow go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The client sends.
    Send,
    /// The client receives.
    Receive,
    /// Both at once.
    Both,
}

impl Direction {
    /// The value of the label.
    pub fn label(self) -> &'static str {
        match self {
            Direction::Send => "send",
            Direction::Receive => "receive",
            Direction::Both => "both",
        }
    }
}

/// A stream of bytes to be timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowOrder {
    /// Over IPv6.
    pub ipv6: bool,
    /// Which way.
    pub direction: Direction,
    /// Connections in each direction.
    pub streams: u8,
    /// Bytes of one write.
    pub message: u32,
    /// How long the senders send.
    pub milliseconds: u32,
    /// Length of a window at the receiver, in milliseconds.
    pub window: u32,
}

/// A flow of datagrams to be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatagramOrder {
    /// Over IPv6.
    pub ipv6: bool,
    /// Which way: one of both.
    pub direction: Direction,
    /// Payload of a datagram.
    pub bytes: u16,
    /// Datagrams that are offered per second; 0 is as many as the sender can.
    pub rate: u32,
    /// How long the sender sends.
    pub milliseconds: u32,
    /// UDP port of the client.
    pub port: u16,
}

/// Longest reason, in letters.
const LONGEST_REASON: usize = 200;

/// The beginning of a reason: it fits into a message, and into one that passes it on.
pub fn brief(reason: &str) -> String {
    reason.chars().take(LONGEST_REASON).collect()
}

/// Who a member of a mesh is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Joining {
    /// Version of sysdyno.
    pub version: String,
    pub rank: u32,
    pub size: u32,
    /// Name of its node.
    pub node: String,
    pub rack: Option<String>,
    /// The network that it is measured on.
    pub link: MeshLink,
    /// Port of its server there.
    pub port: u16,
    /// Other networks of the node.
    pub others: Vec<MeshLink>,
}

/// A pair of members, for its caller to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairOrder {
    /// The other member's server.
    pub to: SocketAddr,
    /// Connections of a flow.
    pub streams: u8,
}

/// What a pair measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairResult {
    /// From the caller to the other, and back, in bytes per second.
    pub there: u64,
    pub back: u64,
    /// Median, 10th and 99th percentile of the round trips, in nanoseconds.
    pub round_trip: u64,
    pub fast_round_trip: u64,
    pub slow_round_trip: u64,
}

/// What a client asks. The client of a member of a mesh is its rank 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum PeerRequest {
    /// Who are you?
    Describe {},
    /// Open echo services, each on a separate connection.
    Echo {
        /// Over IPv6.
        ipv6: bool,
        /// Message sizes of TCP services.
        tcp: Vec<u32>,
        /// The client's UDP port, for a UDP service.
        udp: Option<u16>,
        /// Serve the Unix sockets that the session was started with.
        unix: bool,
    },
    /// Close them all and report.
    EndEcho {},
    /// Accept connections, one after the other: answer bytes, close when the client closes, say so.
    Accept {
        /// Over IPv6.
        ipv6: bool,
        /// How many.
        connections: u32,
    },
    /// Send, receive, or both.
    Flow(FlowOrder),
    /// Send or receive datagrams, once one of the client has come from its port. What the client says next ends the receiving.
    Datagrams(DatagramOrder),
    /// Write a file and serve it over NFS.
    Export {
        /// Over IPv6.
        ipv6: bool,
        /// Size of the file.
        bytes: u64,
    },
    /// Drop the exported file from the page cache.
    Forget {
        /// Read ahead of sequential reads from now on.
        ahead: bool,
    },
    /// End the export and report.
    EndExport {},
    /// As which member do you come?
    Join {},
    /// What does your clock say? An idle member answers at once, so this shows too that it is there.
    Clock {},
    /// The client is still there. This has no answer.
    Still {},
    /// Measure a pair.
    Pair(PairOrder),
    /// The session is over. This has no answer.
    End {
        /// Why the client refuses this side, where it does.
        refused: Option<String>,
    },
}

impl PeerRequest {
    /// Whether every number is within its bounds.
    pub fn check(&self) -> Result<(), String> {
        let within = |what: &str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(format!("{what} of {value}, outside {low} to {high}"))
            }
        };
        match self {
            PeerRequest::Describe {}
            | PeerRequest::EndEcho {}
            | PeerRequest::Forget { .. }
            | PeerRequest::EndExport {}
            | PeerRequest::Join {}
            | PeerRequest::Clock {}
            | PeerRequest::Still {}
            | PeerRequest::End { .. } => Ok(()),
            PeerRequest::Pair(order) => within("streams", u64::from(order.streams), 1, u64::from(MOST_STREAMS)),
            PeerRequest::Export { bytes, .. } => within("file", *bytes, *EXPORTS.start(), *EXPORTS.end()),
            PeerRequest::Echo { tcp, udp, .. } => {
                within("services", tcp.len() as u64, 0, MOST_SIZES as u64)?;
                within("UDP port", u64::from(udp.unwrap_or(1)), 1, 65_535)?;
                tcp.iter().try_for_each(|&bytes| within("message", u64::from(bytes), 1, u64::from(LONGEST_MESSAGE)))
            }
            PeerRequest::Accept { connections, .. } => {
                within("connections", u64::from(*connections), 1, u64::from(MOST_CONNECTIONS))
            }
            PeerRequest::Flow(order) => {
                within("streams", u64::from(order.streams), 1, u64::from(MOST_STREAMS))?;
                within("message", u64::from(order.message), 1, u64::from(LONGEST_MESSAGE))?;
                within("duration", u64::from(order.milliseconds), 1, u64::from(LONGEST_FLOW))?;
                within("window", u64::from(order.window), 1, u64::from(order.milliseconds))?;
                let windows = order.milliseconds / order.window;
                within("windows", u64::from(windows), 1, u64::from(MOST_WINDOWS))
            }
            PeerRequest::Datagrams(order) => {
                if order.direction == Direction::Both {
                    return Err("datagrams in both directions at once".to_owned());
                }
                let bytes = (u64::from(*DATAGRAMS.start()), u64::from(*DATAGRAMS.end()));
                within("datagram", u64::from(order.bytes), bytes.0, bytes.1)?;
                within("rate", u64::from(order.rate), 0, u64::from(MOST_DATAGRAM_RATE))?;
                within("duration", u64::from(order.milliseconds), 1, u64::from(LONGEST_DATAGRAMS))?;
                within("UDP port", u64::from(order.port), 1, 65_535)
            }
        }
    }
}

/// One echo service, when it has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Echoed {
    /// `tcp`, `udp` or `unix`.
    pub protocol: String,
    /// Message size; 0 where it is the client's choice.
    pub bytes: u32,
    /// Messages answered.
    pub exchanges: u64,
    /// Median time from the return of the read to the call of the write, in nanoseconds; none where it was not taken.
    pub residence: Option<u64>,
    /// The longest.
    pub longest_residence: Option<u64>,
}

/// What one side of a flow saw.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Flowed {
    /// Payload sent.
    pub sent: u64,
    /// Payload received.
    pub received: u64,
    /// Bytes received so far and nanoseconds of this side's clock, window after window.
    pub windows: Vec<(u64, i64)>,
    /// CPU time of this side in nanoseconds, from the first window to the last.
    pub cpu_time: i64,
    /// Nanoseconds in that span.
    pub span: i64,
    /// What TCP says of each stream that this side sent on.
    pub senders: Vec<Sender>,
}

/// What the sender of datagrams saw. The second half of the time counts for the rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatagramsSent {
    /// Datagrams that the kernel took.
    pub sent: u64,
    /// Datagrams that it refused, for lack of room in a queue of this machine.
    pub refused: u64,
    /// Nanoseconds from the first to the last.
    pub span: i64,
    /// Datagrams of the second half, and its nanoseconds.
    pub late: u64,
    pub late_span: i64,
}

/// What their receiver saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatagramsArrived {
    /// Datagrams, each counted once.
    pub received: u64,
    /// Datagrams that came again.
    pub repeated: u64,
    /// Datagrams that came after one with a higher number (RFC 4737).
    pub reordered: u64,
    /// Datagrams that belong to no number of this flow.
    pub foreign: u64,
    /// Datagrams that the kernel dropped because the receive buffer was full; none where it does not count them.
    pub dropped: Option<u64>,
    /// Bytes of the receive buffer.
    pub buffer: u64,
    /// The highest number, from 0; none where nothing came.
    pub highest: Option<u32>,
    /// Nanoseconds from the first to the last.
    pub span: i64,
    /// Datagrams after half of the ordered time, and the nanoseconds in which they came.
    pub late: u64,
    pub late_span: i64,
}

/// What limited a sender, from TCP_INFO.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// Segments sent again.
    pub retransmissions: u32,
    /// Smoothed round trip in microseconds.
    pub round_trip: u32,
    /// Payload of a segment.
    pub segment: u32,
    /// Congestion window in segments.
    pub congestion_window: u32,
    /// Window that the receiver offered, in bytes.
    pub offered_window: u32,
    /// Microseconds with data to send.
    pub busy: u64,
    /// Of these, with the receiver's window full.
    pub receiver_limited: u64,
    /// Of these, with the send buffer full.
    pub buffer_limited: u64,
}

/// What became of an export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exported {
    /// Reads answered.
    pub reads: u64,
    /// Bytes of the file in them.
    pub bytes: u64,
    /// Calls and connections refused.
    pub refused: u64,
    /// Median time from a read's call to its answer at the server, in nanoseconds.
    pub residence: Option<u64>,
}

/// What a peer answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Reply {
    /// Who it is.
    Description {
        /// Version of the tool.
        version: String,
        /// Its machine.
        machine: Box<Machine>,
    },
    /// Ports on which it listens, and the token that opens a data connection.
    Listening {
        /// TCP ports, in the order of the request.
        tcp: Vec<u16>,
        /// UDP port.
        udp: Option<u16>,
        /// Token, as hexadecimal digits.
        token: String,
    },
    /// A port for datagrams.
    Datagrams {
        /// UDP port.
        port: u16,
        /// Token that each datagram begins with, as hexadecimal digits.
        token: String,
        /// Most bytes per second that this side takes; none is as fast as it goes.
        rate: Option<u64>,
    },
    /// All streams of a flow are there, or the first datagram: begin.
    Ready {},
    /// Echo services have ended.
    Echoed {
        /// In the order in which they were opened.
        services: Vec<Echoed>,
        /// CPU time of the session so far, in nanoseconds.
        cpu_time: i64,
        /// Nanoseconds that the session was runnable and waited for a CPU, so far.
        run_delay: Option<i64>,
    },
    /// A connection was closed after the client closed it.
    Closed {
        /// Nanoseconds from seeing the client's end to having closed.
        residence: i64,
        /// True when the client aborted it.
        reset: bool,
    },
    /// All connections of a request are closed: what TCP counted on this side during that time.
    Accepted {
        /// Names and differences of counters.
        counters: Vec<(String, u64)>,
    },
    /// A flow has ended.
    Flowed(Flowed),
    /// All datagrams are sent.
    Sent(DatagramsSent),
    /// No more datagrams come.
    Arrived(DatagramsArrived),
    /// A file is served.
    Exporting {
        /// Port of NFS and of its mount service.
        port: u16,
        /// Path of the directory that holds it.
        path: String,
        /// What the stamps of its blocks say.
        identity: u64,
        /// What it lies on.
        storage: Option<Box<Storage>>,
    },
    /// A file was dropped from the page cache.
    Forgotten {
        /// Bytes that stayed there nevertheless.
        resident: u64,
    },
    /// An export has ended.
    Exported(Exported),
    /// Which member it is.
    Joining(Box<Joining>),
    /// Its clock.
    Clock {
        /// Nanoseconds since 1970.
        nanoseconds: i64,
    },
    /// What a pair measured.
    Pair(PairResult),
    /// It cannot or must not be done.
    Cannot {
        /// Why.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::super::channel::LONGEST_REQUEST;
    use super::*;

    fn flow() -> FlowOrder {
        FlowOrder { ipv6: false, direction: Direction::Send, streams: 1, message: 1024, milliseconds: 100, window: 10 }
    }

    fn datagrams() -> DatagramOrder {
        DatagramOrder { ipv6: true, direction: Direction::Receive, bytes: 64, rate: 0, milliseconds: 100, port: 9 }
    }

    fn pair(streams: u8) -> PeerRequest {
        PeerRequest::Pair(PairOrder { to: SocketAddr::from(([10, 0, 0, 1], 4000)), streams })
    }

    #[test]
    fn a_long_reason_fits_into_a_message() {
        let reply = Reply::Cannot { reason: brief(&"\u{1b}".repeat(100_000)) };
        assert!(serde_json::to_string(&reply).unwrap().len() < LONGEST_REQUEST);
        assert_eq!(brief("short"), "short");
    }

    #[test]
    fn every_number_has_bounds() {
        let good = [
            PeerRequest::Describe {},
            PeerRequest::Echo { ipv6: false, tcp: vec![1, LONGEST_MESSAGE], udp: Some(9), unix: true },
            PeerRequest::Accept { ipv6: true, connections: MOST_CONNECTIONS },
            PeerRequest::Flow(flow()),
            PeerRequest::Datagrams(datagrams()),
            PeerRequest::Datagrams(DatagramOrder { bytes: 65_507, rate: MOST_DATAGRAM_RATE, ..datagrams() }),
            PeerRequest::Export { ipv6: false, bytes: 16 << 20 },
            pair(MOST_STREAMS),
            PeerRequest::End { refused: Some("two tasks are rank 1".to_owned()) },
        ];
        assert!(good.iter().all(|request| request.check().is_ok()));
        let bad = [
            PeerRequest::Echo { ipv6: false, tcp: vec![0], udp: None, unix: false },
            PeerRequest::Echo { ipv6: false, tcp: vec![LONGEST_MESSAGE + 1], udp: None, unix: false },
            PeerRequest::Echo { ipv6: false, tcp: vec![1; MOST_SIZES + 1], udp: None, unix: false },
            PeerRequest::Echo { ipv6: false, tcp: vec![], udp: Some(0), unix: false },
            PeerRequest::Accept { ipv6: false, connections: 0 },
            PeerRequest::Accept { ipv6: false, connections: MOST_CONNECTIONS + 1 },
            PeerRequest::Export { ipv6: false, bytes: 0 },
            PeerRequest::Export { ipv6: false, bytes: u64::MAX },
            pair(0),
            pair(MOST_STREAMS + 1),
            PeerRequest::Flow(FlowOrder { streams: 0, ..flow() }),
            PeerRequest::Flow(FlowOrder { streams: MOST_STREAMS + 1, ..flow() }),
            PeerRequest::Flow(FlowOrder { message: 0, ..flow() }),
            PeerRequest::Flow(FlowOrder { milliseconds: LONGEST_FLOW + 1, ..flow() }),
            PeerRequest::Flow(FlowOrder { window: 0, ..flow() }),
            PeerRequest::Flow(FlowOrder { window: 101, ..flow() }),
            PeerRequest::Flow(FlowOrder { milliseconds: 100_000, window: 1, ..flow() }),
            PeerRequest::Datagrams(DatagramOrder { direction: Direction::Both, ..datagrams() }),
            PeerRequest::Datagrams(DatagramOrder { bytes: 19, ..datagrams() }),
            PeerRequest::Datagrams(DatagramOrder { bytes: 65_508, ..datagrams() }),
            PeerRequest::Datagrams(DatagramOrder { rate: MOST_DATAGRAM_RATE + 1, ..datagrams() }),
            PeerRequest::Datagrams(DatagramOrder { milliseconds: 0, ..datagrams() }),
            PeerRequest::Datagrams(DatagramOrder { milliseconds: LONGEST_DATAGRAMS + 1, ..datagrams() }),
            PeerRequest::Datagrams(DatagramOrder { port: 0, ..datagrams() }),
        ];
        assert!(bad.iter().all(|request| request.check().is_err()));
    }

    #[test]
    fn requests_survive_the_wire_and_strangers_do_not() {
        for request in [
            PeerRequest::Flow(flow()),
            PeerRequest::Datagrams(datagrams()),
            pair(1),
            PeerRequest::End { refused: None },
        ] {
            let text = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<PeerRequest>(&text).unwrap(), request);
        }
        for strange in [
            "{}",
            "{\"ask\":\"read_file\",\"path\":\"/etc/passwd\"}",
            "{\"ask\":\"describe\",\"more\":1}",
            "{\"ask\":\"accept\",\"ipv6\":false,\"connections\":-1}",
            "{\"ask\":\"datagrams\",\"ipv6\":false,\"direction\":\"send\",\"bytes\":64,\"rate\":0,\"milliseconds\":9}",
            "{\"ask\":\"accept\",\"ipv6\":false,\"connections\":99999999999999999999}",
        ] {
            assert!(serde_json::from_str::<PeerRequest>(strange).is_err(), "{strange}");
        }
        for strange in ["{\"answer\":\"pair\",\"there\":-1}", "{\"answer\":\"joining\",\"rank\":1}"] {
            assert!(serde_json::from_str::<Reply>(strange).is_err(), "{strange}");
        }
    }
}
