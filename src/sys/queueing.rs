//! The queueing disciplines of network interfaces, asked of the kernel by route netlink (`rtnetlink(7)`, `tc(8)`).

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto, setsockopt, socket,
    sockopt,
};
use nix::sys::time::TimeVal;
use std::os::fd::{AsRawFd, OwnedFd};

/// `RTM_GETTCLASS` and `RTM_GETQDISC` of `linux/rtnetlink.h`.
const GET_CLASS: u16 = 42;
const GET_QUEUE: u16 = 38;
/// Types of attributes: the kind of a discipline, and its own options.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
/// Bytes of `struct nlmsghdr`, and of `struct tcmsg` behind it.
const HEADER: usize = 16;
const MESSAGE: usize = 20;

/// A queueing discipline of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// Number of the interface.
    pub interface: u32,
    /// Its kind, such as `fq_codel` or `tbf`.
    pub kind: String,
    /// Bytes per second that it lets through; none where it has no limit, or has one that is not known here.
    pub bytes_per_second: Option<u64>,
}

/// Every discipline of this network namespace; empty where the kernel does not answer.
pub fn queues() -> Vec<Queue> {
    let Some(mut queues) = dump(GET_QUEUE, 0) else { return Vec::new() };
    for queue in queues.iter_mut().filter(|queue| queue.kind == "htb") {
        // An `htb` queue limits by classes. What the widest class lets through is the most that the interface can send.
        let classes = dump(GET_CLASS, queue.interface).unwrap_or_default();
        let rates = classes.iter().filter(|class| class.kind == "htb").filter_map(|class| class.bytes_per_second);
        queue.bytes_per_second = rates.max();
    }
    queues
}

fn dump(what: u16, interface: u32) -> Option<Vec<Queue>> {
    /// The kernel answers at once or never.
    const PATIENCE: TimeVal = TimeVal::new(1, 0);
    /// `NLMSG_DONE`, `NLMSG_ERROR`.
    const ENDS: [u16; 2] = [3, 2];
    let open = || {
        let kind = (SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute);
        let opened = socket(AddressFamily::Netlink, kind.0, kind.1, kind.2)?;
        setsockopt(&opened, sockopt::ReceiveTimeout, &PATIENCE)?;
        bind(opened.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        sendto(opened.as_raw_fd(), &request(what, interface), &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        nix::Result::<OwnedFd>::Ok(opened)
    };
    let socket = open().ok()?;
    let mut found = Vec::new();
    let mut answer = vec![0; 1 << 16];
    loop {
        let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty()).ok()?;
        for (kind, body) in messages(&answer[..length]) {
            if ENDS.contains(&kind) {
                return Some(found);
            }
            found.extend(queue(body));
        }
        if length == 0 {
            return Some(found);
        }
    }
}

/// `struct nlmsghdr` and `struct tcmsg` of a dump.
fn request(what: u16, interface: u32) -> Vec<u8> {
    /// `NLM_F_REQUEST | NLM_F_DUMP`.
    const FLAGS: u16 = 0x301;
    let mut bytes = Vec::with_capacity(HEADER + MESSAGE);
    bytes.extend(((HEADER + MESSAGE) as u32).to_ne_bytes());
    bytes.extend(what.to_ne_bytes());
    bytes.extend(FLAGS.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([0; 4]);
    bytes.extend(interface.to_ne_bytes());
    bytes.resize(HEADER + MESSAGE, 0);
    bytes
}

/// The types and bodies of the messages of an answer.
fn messages(mut answer: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    while let (Some(length), Some(kind)) = (word(answer, 0), short(answer, 4)) {
        let Some(body) = answer.get(HEADER..length as usize) else { break };
        found.push((kind, body));
        answer = answer.get((length as usize).next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

fn queue(body: &[u8]) -> Option<Queue> {
    let interface = word(body, 4)?;
    let attributes = attributes(body.get(MESSAGE..)?);
    let value = |kind: u16| attributes.iter().find(|(found, _)| *found == kind).map(|(_, value)| *value);
    let name = String::from_utf8_lossy(value(KIND)?);
    let kind = name.trim_end_matches('\0').to_owned();
    let bytes_per_second = value(OPTIONS).and_then(|options| rate(&kind, options));
    Some(Queue { interface, kind, bytes_per_second })
}

/// The rate in the options of a discipline or class. A `struct tc_ratespec` ends with a rate of 32 bits, beyond which another attribute
/// has 64 bits (`linux/pkt_sched.h`).
fn rate(kind: &str, options: &[u8]) -> Option<u64> {
    const NETEM_OPTIONS: usize = 24;
    const RATE: usize = 8;
    const CEILING: usize = 20;
    let options = if kind == "netem" { options.get(NETEM_OPTIONS..)? } else { options };
    let (short_form, at, long_form) = match kind {
        "tbf" => (1, RATE, 4),
        "htb" => (1, CEILING, 7),
        "netem" => (6, 0, 8),
        "cake" => (0, 0, 2),
        _ => return None,
    };
    let attributes = attributes(options);
    let value = |kind: u16| attributes.iter().find(|(found, _)| *found == kind).map(|(_, value)| *value);
    let long = value(long_form).and_then(|value| Some(u64::from_ne_bytes(value.get(..8)?.try_into().ok()?)));
    let short = value(short_form).and_then(|value| word(value, at)).map(u64::from);
    long.or(short).filter(|rate| *rate > 0)
}

/// Types and values of attributes.
fn attributes(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    /// The upper bits say that attributes are nested, and in which order bytes stand.
    const TYPE: u16 = 0x3fff;
    let mut found = Vec::new();
    while let (Some(length), Some(kind)) = (short(bytes, 0), short(bytes, 2)) {
        let Some(value) = bytes.get(4..usize::from(length)) else { break };
        found.push((kind & TYPE, value));
        bytes = bytes.get(usize::from(length).next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn discipline(kind: &str, options: &[u8]) -> Option<Queue> {
        let mut body = vec![0; MESSAGE];
        body[4] = 7;
        body.extend(attribute(KIND, format!("{kind}\0").as_bytes()));
        body.extend(attribute(OPTIONS, options));
        queue(&body)
    }

    #[test]
    fn shapers_have_their_rates() {
        let mut parameters = vec![0; 36];
        parameters[8..12].copy_from_slice(&1_250_000_u32.to_ne_bytes());
        parameters[20..24].copy_from_slice(&2_500_000_u32.to_ne_bytes());
        let long = attribute(4, &5_000_000_000_u64.to_ne_bytes());
        let netem = [vec![0; 24], attribute(6, &parameters[8..24])].concat();
        for (kind, options, rate) in [
            ("tbf", attribute(1, &parameters), Some(1_250_000)),
            ("tbf", [attribute(1, &parameters), long].concat(), Some(5_000_000_000)),
            ("htb", attribute(1, &parameters), Some(2_500_000)),
            ("netem", netem, Some(1_250_000)),
            ("cake", attribute(2, &0_u64.to_ne_bytes()), None),
            ("fq_codel", attribute(1, &parameters), None),
        ] {
            let found = discipline(kind, &options).unwrap();
            assert_eq!((found.interface, found.bytes_per_second), (7, rate), "{kind}");
        }
    }

    #[test]
    fn this_kernel_answers_or_not() {
        assert!(queues().iter().all(|queue| !queue.kind.is_empty()));
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(answer in proptest::collection::vec(any::<u8>(), 0..200)) {
            for (_, body) in messages(&answer) {
                let _ = queue(body);
            }
            let _ = (discipline("netem", &answer), discipline("tbf", &answer));
        }
    }
}
