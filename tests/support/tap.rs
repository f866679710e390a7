//! A tap on a network device: when the kernel handed packets to the device and took them from it.
//!
//! The time between a packet that goes and its answer that comes is all that a network and its other end take, with every late
//! wake-up of the rig. What a figure has above it is the work of the tool's own side, and one wake-up.

#![allow(unsafe_code, reason = "a packet socket is bound to a device")]

use std::collections::HashMap;
use std::fs::File;
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, setsockopt, sockopt};

use sysdyno::testing::statistics::summary::median;
use sysdyno::testing::sys::affinity;

use super::namespaces::{NEAR, beside_the_measured_cpu};

/// Bytes of a packet that are read: its headers.
const HEADERS: usize = 128;

/// Watches a device from its making on, until the exchanges are asked for.
pub struct Tap {
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Passage>>>,
}

/// What a packet is, by its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    /// Its sender.
    pub source: [u8; 4],
    /// Of the IP header: 1 is ICMP, 6 TCP, 17 UDP.
    pub protocol: u8,
    /// The ports of its sender and its receiver; of ICMP, the identifier twice.
    pub ports: [u16; 2],
    /// Bytes behind the headers of IP and of the transport.
    pub payload: usize,
    /// A packet of TCP that begins a connection, there or back.
    pub begins: bool,
}

impl Headers {
    /// Of the first bytes of a packet; none of what has no header of IPv4.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.first()? >> 4 != 4 {
            return None;
        }
        let word = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
        let begin = usize::from(bytes[0] & 0xf) * 4;
        let protocol = *bytes.get(9)?;
        let (header, begins) = match protocol {
            6 => (usize::from(bytes.get(begin + 12)? >> 4) * 4, bytes.get(begin + 13)? & 2 != 0),
            _ => (8, false),
        };
        let ports = if protocol == 1 { [word(begin + 4)?; 2] } else { [word(begin)?, word(begin + 2)?] };
        let payload = usize::from(word(2)?).checked_sub(begin + header)?;
        let source = bytes.get(12..16)?.try_into().ok()?;
        Some(Headers { source, protocol, ports, payload, begins })
    }
}

/// A packet that passed, and when, in nanoseconds of the kernel's clock.
#[derive(Debug, Clone, Copy)]
struct Passage {
    at: u64,
    headers: Headers,
}

/// What one side asked, and what came back until it asked again.
#[derive(Debug, Clone, Copy)]
pub struct Exchange {
    pub protocol: u8,
    /// Of the far end.
    pub port: u16,
    /// The handshake of a connection.
    pub begins: bool,
    /// Bytes of payload of the question and of its answer.
    pub asked: usize,
    pub answered: usize,
    /// Milliseconds from the last packet of the question to the first and the last of its answer.
    pub first: f64,
    pub last: f64,
}

impl Tap {
    /// Begins to watch `t0` of a namespace.
    pub fn watch(namespace: &str) -> Self {
        let socket = open(namespace);
        let ending = Arc::new(AtomicBool::new(false));
        let is_ending = Arc::clone(&ending);
        let thread = std::thread::spawn(move || {
            let _ = affinity::restrict(&beside_the_measured_cpu());
            let mut passages = Vec::new();
            while !is_ending.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
                receive(&socket, &mut passages);
            }
            passages
        });
        Tap { ending, thread: Some(thread) }
    }

    /// Every question that was answered. Packets without payload belong to none of them, but those of a handshake do.
    pub fn exchanges(mut self) -> Vec<Exchange> {
        self.ending.store(true, Ordering::Relaxed);
        let passages = self.thread.take().unwrap().join().unwrap();
        let near: std::net::Ipv4Addr = NEAR.parse().unwrap();
        let mut flows: HashMap<(u8, [u16; 2]), Vec<Passage>> = HashMap::new();
        for passage in passages {
            let Headers { protocol, ports: [from, to], payload, begins, source } = passage.headers;
            if payload > 0 || begins {
                let ends = if source == near.octets() { [from, to] } else { [to, from] };
                flows.entry((protocol, ends)).or_default().push(passage);
            }
        }
        let mut exchanges = Vec::new();
        for ((protocol, [_, port]), flow) in &flows {
            let goes = |passage: &Passage| passage.headers.source == near.octets();
            let same =
                |one: &Passage, other: &Passage| goes(one) == goes(other) && one.headers.begins == other.headers.begins;
            let sides: Vec<&[Passage]> = flow.chunk_by(same).collect();
            for pair in sides.windows(2).filter(|pair| goes(&pair[0][0]) && !goes(&pair[1][0])) {
                let [question, answer] = [pair[0], pair[1]];
                let bytes = |side: &[Passage]| side.iter().map(|passage| passage.headers.payload).sum();
                let since = |passage: &Passage| (passage.at - question.last().unwrap().at) as f64 / 1e6;
                exchanges.push(Exchange {
                    protocol: *protocol,
                    port: *port,
                    begins: question[0].headers.begins,
                    asked: bytes(question),
                    answered: bytes(answer),
                    first: since(&answer[0]),
                    last: since(answer.last().unwrap()),
                });
            }
        }
        exchanges
    }
}

/// Milliseconds until the whole answer to questions of a kind was there: the median.
pub fn answered(exchanges: &[Exchange], kind: impl Fn(&Exchange) -> bool) -> f64 {
    let times: Vec<f64> = exchanges.iter().filter(|exchange| kind(exchange)).map(|exchange| exchange.last).collect();
    median(&times).unwrap_or_else(|| panic!("the tap saw no such exchange among {}", exchanges.len()))
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
    }
}

/// A socket that hears everything on `t0` of a namespace, both ways, with the kernel's times.
fn open(namespace: &str) -> OwnedFd {
    let path = format!("/run/netns/{namespace}");
    std::thread::spawn(move || {
        // Only this thread enters the namespace, and it ends right after.
        setns(File::open(path).unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
        let socket = nix::sys::socket::socket(
            nix::sys::socket::AddressFamily::Packet,
            SockType::Datagram,
            SockFlag::SOCK_NONBLOCK,
            None,
        )
        .unwrap();
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true).unwrap();
        setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20)).unwrap();
        // SAFETY: all zeros is a valid value of the plain structure.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = nix::net::if_::if_nametoindex("t0").unwrap() as i32;
        // SAFETY: the address is as long as is said and outlives the call.
        let bound = unsafe {
            libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as u32)
        };
        assert_eq!(bound, 0, "{}", std::io::Error::last_os_error());
        socket
    })
    .join()
    .unwrap()
}

/// Takes every packet that is waiting.
fn receive(socket: &OwnedFd, passages: &mut Vec<Passage>) {
    let mut bytes = [0_u8; HEADERS];
    let mut space = nix::cmsg_space!(nix::sys::time::TimeSpec);
    loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let Ok(message) = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::empty()) else {
            return;
        };
        let at = message.cmsgs().ok().and_then(|mut controls| {
            controls.find_map(|control| match control {
                ControlMessageOwned::ScmTimestampns(at) => {
                    Some(at.tv_sec() as u64 * 1_000_000_000 + at.tv_nsec() as u64)
                }
                _ => None,
            })
        });
        let length = message.bytes;
        passages.extend(at.zip(Headers::of(&bytes[..length])).map(|(at, headers)| Passage { at, headers }));
    }
}
