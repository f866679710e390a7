//! Lines: the ways along which a message goes to the other side and back, how it goes along each of them, and how often.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::{OTHER_CPU, SAME_CPU, Watch, on_loopback, other_cpu, partner_elsewhere, remark_placement};
use crate::experiments::prelude::*;
use crate::peer::client::Partner;
use crate::rig::shots::{Answer, Interleaved, Shot};
use crate::sys::socket::{self, EchoSocket, bind_address_alone, icmp_echo};
use crate::sys::spinner::{Duty, Spinner};

/// The metric of exchanges.
pub(super) const TIME: &str = "network.round_trip.time";
/// Message sizes: a byte, a small message, one packet of an Ethernet, several packets, what one buffer holds at most.
pub(super) const SIZES: [u32; 5] = [1, 64, 1400, 16 << 10, 64 << 10];
/// Longest datagram among them: UDP and ICMP carry at most 65507 bytes over IPv4.
pub(super) const LONGEST_DATAGRAM: u32 = 16 << 10;
/// An answer that takes longer is lost.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// Shots of one kind in a launch, for each batch that the profile asks for.
const SHOTS_PER_BATCH: u32 = 8;
/// Batches of the profile for each idle-paced shot.
const BATCHES_PER_PAUSE: u32 = 7;
/// Longest time of a volley on loopback and on a path.
const LOOPBACK_TIME: Duration = Duration::from_secs(3);
const REMOTE_TIME: Duration = Duration::from_millis(2500);
/// Pause before an idle-paced exchange: long enough for idle states and for radios to sleep.
pub(super) const GAP: Duration = Duration::from_millis(10);
/// One kind of exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    pub protocol: &'static str,
    pub ipv6: bool,
    pub bytes: u32,
    /// None on a remote path, and for ICMP, which no process answers.
    pub placement: Option<&'static str>,
    pub remote: bool,
    pub idle: bool,
}

impl Kind {
    pub(super) fn labels(self) -> Labels {
        let pacing = if self.idle { "idle" } else { "back_to_back" };
        self.way().with("pacing", pacing).with("bytes", self.bytes)
    }

    /// Labels that exchanges of all sizes have in common.
    fn way(self) -> Labels {
        let path = if self.remote { "remote" } else { "loopback" };
        let labels = Labels::of([("protocol", self.protocol), ("path", path)]);
        let labels = if self.protocol == "unix" { labels } else { labels.with("ip", if self.ipv6 { 6 } else { 4 }) };
        self.placement.map_or(labels.clone(), |placement| labels.with("placement", placement))
    }

    fn is_datagram(self) -> bool {
        ["udp", "icmp"].contains(&self.protocol)
    }
}

pub(super) fn kind(protocol: &'static str, bytes: u32, placement: Option<&'static str>) -> Kind {
    Kind { protocol, ipv6: false, bytes, placement, remote: false, idle: false }
}

/// Every kind on the loopback.
pub(super) fn loopback_kinds() -> Vec<Kind> {
    let mut kinds = Vec::new();
    for placement in [SAME_CPU, OTHER_CPU] {
        for protocol in ["tcp", "udp", "unix"] {
            let sizes = SIZES.into_iter().filter(|&bytes| protocol != "udp" || bytes <= LONGEST_DATAGRAM);
            kinds.extend(sizes.map(|bytes| kind(protocol, bytes, Some(placement))));
        }
        kinds.extend(["tcp", "udp"].map(|protocol| Kind { ipv6: true, ..kind(protocol, 1, Some(placement)) }));
    }
    kinds.extend(SIZES.into_iter().filter(|&bytes| bytes <= LONGEST_DATAGRAM).map(|bytes| kind("icmp", bytes, None)));
    kinds.push(Kind { ipv6: true, ..kind("icmp", 1, None) });
    for protocol in ["tcp", "udp", "unix"] {
        kinds.push(Kind { idle: true, ..kind(protocol, 1, Some(OTHER_CPU)) });
    }
    kinds.push(Kind { idle: true, ..kind("icmp", 1, None) });
    kinds
}

/// Every kind on the path to a peer.
pub(super) fn remote_kinds(ipv6: bool) -> Vec<Kind> {
    let mut kinds = Vec::new();
    for protocol in ["tcp", "udp", "icmp"] {
        let sizes = SIZES.into_iter().filter(|&bytes| protocol == "tcp" || bytes <= LONGEST_DATAGRAM);
        kinds.extend(sizes.map(|bytes| Kind { ipv6, remote: true, ..kind(protocol, bytes, None) }));
        kinds.push(Kind { ipv6, remote: true, idle: true, ..kind(protocol, 1, None) });
    }
    kinds
}

pub(super) fn kinds(setup: &Setup) -> Vec<Kind> {
    let mut kinds = if setup.remote_only { Vec::new() } else { loopback_kinds() };
    kinds.extend(setup.peer.as_ref().map(|peer| remote_kinds(peer.is_ipv6())).unwrap_or_default());
    kinds
}

/// A connected way to the other side.
pub(super) struct Link {
    pub kind: Kind,
    pub socket: Socket,
    /// For ICMP.
    pub echo: Option<EchoSocket>,
}

/// Addresses of the loopback from which connections come.
const ADDRESSES: u32 = 64;
/// Longest wait for a handshake. A SYN that was lost is sent again after one second and after three.
const HANDSHAKE: Duration = Duration::from_secs(4);

/// A socket that is to be connected; `spread` binds it to one of many addresses of the loopback, by number.
pub(super) fn to_connect(ipv6: bool, spread: Option<u32>) -> io::Result<Socket> {
    let socket = Socket::new(if ipv6 { Domain::IPV6 } else { Domain::IPV4 }, Type::STREAM, None)?;
    if let Some(number) = spread {
        let address = u32::from(Ipv4Addr::LOCALHOST) + number % ADDRESSES;
        bind_address_alone(&socket, IpAddr::V4(Ipv4Addr::from(address)))?;
    }
    socket.set_tcp_nodelay(true)?;
    // Also bounds the connect call.
    socket.set_write_timeout(Some(HANDSHAKE))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Whether a connect call ended because its time was over.
pub(super) fn handshake_timed_out(error: &io::Error) -> bool {
    socket::timed_out(error) || error.raw_os_error() == Some(nix::errno::Errno::EINPROGRESS as i32)
}

/// TCP, UDP and Unix lines to a partner on the loopback. What cannot be had is noted with its reason.
pub(super) fn lines_to(rig: &mut Rig<'_>, partner: &mut Partner, placement: &'static str) -> Vec<Link> {
    let mut lines = Vec::new();
    for ipv6 in [false, true] {
        let sizes: &[u32] = if ipv6 { &SIZES[..1] } else { &SIZES };
        match partner.echo(ipv6, sizes, true) {
            Ok(found) => {
                for (bytes, socket) in found.tcp {
                    lines.push(Link { kind: Kind { ipv6, ..kind("tcp", bytes, Some(placement)) }, socket, echo: None });
                }
                if let Some(socket) = found.udp {
                    lines.push(Link { kind: Kind { ipv6, ..kind("udp", 1, Some(placement)) }, socket, echo: None });
                }
            }
            Err(problem) => {
                for protocol in ["tcp", "udp"] {
                    let missing = Kind { ipv6, ..kind(protocol, 1, Some(placement)) };
                    rig.unavailable_for(TIME, &missing.way(), &problem);
                }
            }
        }
    }
    match partner.echo_unix() {
        Ok(found) => lines.extend(found.into_iter().map(|(bytes, socket)| Link {
            kind: kind("unix", bytes, Some(placement)),
            socket,
            echo: None,
        })),
        Err(problem) => rig.unavailable_for(TIME, &kind("unix", 1, Some(placement)).way(), &problem),
    }
    with_every_datagram(lines)
}

/// One datagram socket serves all sizes: a line for each, over copies of its descriptor.
pub(super) fn with_every_datagram(lines: Vec<Link>) -> Vec<Link> {
    let mut all = Vec::new();
    for line in lines {
        if line.kind.is_datagram() && (line.kind.remote || !line.kind.ipv6) {
            for bytes in SIZES.into_iter().filter(|&bytes| bytes != line.kind.bytes && bytes <= LONGEST_DATAGRAM) {
                if let Ok(socket) = line.socket.try_clone() {
                    all.push(Link { kind: Kind { bytes, ..line.kind }, socket, echo: line.echo });
                }
            }
        }
        all.push(line);
    }
    all
}

/// ICMP lines for the kinds that want them.
pub(super) fn icmp_lines(rig: &mut Rig<'_>, wanted: &[Kind], address: impl Fn(bool) -> IpAddr) -> Vec<Link> {
    let mut lines = Vec::new();
    for ipv6 in [false, true] {
        let first = wanted.iter().find(|kind| kind.protocol == "icmp" && kind.ipv6 == ipv6 && !kind.idle);
        let Some(first) = first else { continue };
        match icmp_echo(address(ipv6)) {
            Ok((socket, echo)) => {
                rig.remark("icmp", &if echo == EchoSocket::Ping { "ping socket" } else { "raw socket" });
                lines.push(Link { kind: *first, socket, echo: Some(echo) });
            }
            Err(error) => rig.unavailable(TIME, &first.way(), &refused_icmp(&error)),
        }
    }
    with_every_datagram(lines)
}

fn refused_icmp(error: &io::Error) -> String {
    if [io::ErrorKind::PermissionDenied].contains(&error.kind()) {
        "this user may not send ICMP echo (as root: sysctl -w net.ipv4.ping_group_range=\"0 2147483647\")".to_owned()
    } else {
        format!("cannot open a socket for ICMP echo: {error}")
    }
}

/// The lines whose kinds are paced by pauses too.
pub(super) fn paused_lines(lines: Vec<Link>, wanted: &[Kind]) -> Vec<Link> {
    let paused = |line: Link| Link { kind: Kind { idle: true, ..line.kind }, ..line };
    lines.into_iter().map(paused).filter(|line| wanted.contains(&line.kind)).collect()
}

type Exchange<'a> = Box<dyn FnMut() -> Result<Answer, String> + 'a>;

pub(super) fn exchange(line: &Link) -> Exchange<'_> {
    match (line.kind.protocol, line.echo) {
        ("udp", _) => exchange_datagrams(line),
        (_, Some(echo)) => exchange_echoes(line, echo),
        _ => exchange_stream(line),
    }
}

/// A message there, the same number of bytes back. A stream that fails cannot be used again.
fn exchange_stream(line: &Link) -> Exchange<'_> {
    let message: Vec<u8> = (0..line.kind.bytes).map(|index| index as u8).collect();
    let mut answer = vec![0_u8; message.len()];
    Box::new(move || {
        let socket = line.socket.as_fd();
        let outcome = socket::write_all(socket, &message).and_then(|()| socket::read_all(socket, &mut answer));
        match outcome {
            Ok(()) => Ok(Answer::Came),
            Err(error) if socket::timed_out(&error) => Err(format!(
                "no answer arrived within {} s, so the other side hangs or is unreachable",
                PATIENCE.as_secs()
            )),
            Err(error) => Err(format!("the connection to the other side failed: {error}")),
        }
    })
}

/// Reads until `is_mine` recognises the answer or time is up: answers to earlier, lost messages may come first.
fn await_datagram(line: &Link, buffer: &mut [u8], is_mine: impl Fn(&[u8]) -> bool) -> Result<Answer, String> {
    loop {
        match socket::answered(socket::read(line.socket.as_fd(), buffer)) {
            Ok(length) if is_mine(&buffer[..length]) => return Ok(Answer::Came),
            Ok(_) => {}
            Err(error) if socket::timed_out(&error) => return Ok(Answer::Lost),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The port is closed there: so says ICMP.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(Answer::Lost),
            Err(error) => return Err(format!("the connection to the other side failed: {error}")),
        }
    }
}

fn sent(line: &Link, message: &[u8]) -> Result<bool, String> {
    match socket::answered(socket::write(line.socket.as_fd(), message)) {
        Ok(length) => Ok(length == message.len()),
        // What an earlier message met on the way. This message has not been sent.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(false),
        Err(error) => Err(format!("cannot send: {error}")),
    }
}

fn exchange_datagrams(line: &Link) -> Exchange<'_> {
    let mut message = vec![0_u8; line.kind.bytes as usize];
    let mut answer = vec![0_u8; message.len() + 1];
    let mut number = 0_u32;
    Box::new(move || {
        number = number.wrapping_add(1);
        let stamp = number.to_be_bytes();
        let stamped = message.len().min(stamp.len());
        message[..stamped].copy_from_slice(&stamp[stamp.len() - stamped..]);
        if !sent(line, &message)? {
            return Ok(Answer::Lost);
        }
        let expected = &message[..];
        await_datagram(line, &mut answer, |found| {
            found.len() == expected.len() && found[..stamped] == expected[..stamped]
        })
    })
}

/// Identifier of our echo requests; a ping socket puts its own in its place.
fn identifier() -> u16 {
    std::process::id() as u16
}

/// An echo request (RFC 792; RFC 4443 4.1, where the kernel fills in the checksum).
fn echo_request(message: &mut [u8], ipv6: bool, number: u16) {
    const ECHO_REQUEST: u8 = 8;
    const ECHO_REQUEST_6: u8 = 128;
    message[0] = if ipv6 { ECHO_REQUEST_6 } else { ECHO_REQUEST };
    message[1..4].fill(0);
    message[4..6].copy_from_slice(&identifier().to_be_bytes());
    message[6..8].copy_from_slice(&number.to_be_bytes());
    if !ipv6 {
        let sum = internet_checksum(message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
}

/// RFC 1071.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Whether a packet is the reply with a number; a raw IPv4 socket gives its IP header too.
fn is_reply(packet: &[u8], echo: EchoSocket, ipv6: bool, number: u16) -> bool {
    const ECHO_REPLY: u8 = 0;
    const ECHO_REPLY_6: u8 = 129;
    let header = match packet.first() {
        Some(first) if echo == EchoSocket::Raw && !ipv6 => usize::from(first & 0xf) * 4,
        _ => 0,
    };
    let Some(reply) = packet.get(header..header + 8) else { return false };
    let mine = echo == EchoSocket::Ping || reply[4..6] == identifier().to_be_bytes();
    reply[0] == if ipv6 { ECHO_REPLY_6 } else { ECHO_REPLY } && mine && reply[6..8] == number.to_be_bytes()
}

fn exchange_echoes(line: &Link, echo: EchoSocket) -> Exchange<'_> {
    const HEADER: usize = 8;
    /// Longest header of IPv4.
    const IP_HEADER: usize = 60;
    let mut message = vec![0_u8; HEADER + line.kind.bytes as usize];
    let mut answer = vec![0_u8; message.len() + IP_HEADER];
    let ipv6 = line.kind.ipv6;
    let mut number = 0_u16;
    Box::new(move || {
        number = number.wrapping_add(1);
        echo_request(&mut message, ipv6, number);
        if !sent(line, &message)? {
            return Ok(Answer::Lost);
        }
        await_datagram(line, &mut answer, |found| is_reply(found, echo, ipv6, number))
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_kinds_share_their_labels() {
        let mut all: Vec<Labels> = loopback_kinds().into_iter().chain(remote_kinds(false)).map(Kind::labels).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        // RFC 1071, section 3: the sum of these bytes is ddf2.
        assert_eq!(internet_checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        let mut message = [7_u8; 13];
        echo_request(&mut message, false, 5);
        assert_eq!(internet_checksum(&message), 0);
    }

    #[test]
    fn only_the_awaited_reply_counts() {
        let mut packet = vec![0x45_u8; 20];
        packet.extend([0, 0, 0, 0]);
        packet.extend(identifier().to_be_bytes());
        packet.extend(9_u16.to_be_bytes());
        assert!(is_reply(&packet, EchoSocket::Raw, false, 9));
        assert!(!is_reply(&packet, EchoSocket::Raw, false, 8));
        assert!(is_reply(&packet[20..], EchoSocket::Ping, false, 9));
        packet[24] ^= 1;
        assert!(!is_reply(&packet, EchoSocket::Raw, false, 9));
        for length in 0..27 {
            assert!(!is_reply(&packet[..length], EchoSocket::Raw, false, 9));
        }
    }
}
