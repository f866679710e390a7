//! One session: requests of one client, served one after the other.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::machine;
use crate::results::problem::Problem;
use crate::sys::clock::process_cpu_time;
use crate::sys::counters;
use crate::sys::process::{self, Forked};

use super::accepting;
use super::authentication::Secret;
use super::channel::{Channel, Silence};
use super::data::{self, OPENING, STALLED, Token};
use super::datagrams;
use super::echoing::{Manner, Services};
use super::export::Export;
use super::export::answers::NAME;
use super::flow::{self, Bounds, Streams};
use super::limits::{Pretence, SessionLimits};
use super::protocol::{
    DatagramOrder, Direction, FlowOrder, Joining, MOST_SERVICES, PairOrder, PairResult, PeerRequest, Reply, brief,
};

/// Longest wait of a member that measures until it looks whether its client still is there, in milliseconds.
const LOOK: u16 = 250;

/// What a session may use.
#[derive(Debug, Default)]
pub struct SessionContext {
    /// Own addresses, each with the address of the client that it serves.
    pub addresses: Vec<(IpAddr, IpAddr)>,
    /// Ends of Unix socket pairs with their message sizes: on the same machine only.
    pub unix: Vec<(u32, OwnedFd)>,
    /// Take the residence of echoes: on a path, where it is a small part.
    pub residence: bool,
    /// Where a file to be exported is written; none where none is.
    pub scratch: Option<PathBuf>,
    /// Bounds.
    pub limits: SessionLimits,
    /// Faults.
    pub pretence: Pretence,
    /// Who this is in a mesh, where the client is its rank 0.
    pub member: Option<Membership>,
}

/// A member of a mesh, and how it measures a pair.
#[derive(Debug)]
pub struct Membership {
    /// What it says of itself.
    pub who: Joining,
    /// The secret of all members.
    pub secret: Secret,
    /// Measures a pair from the own address.
    pub measure: fn(PairOrder, IpAddr, &Secret) -> Result<PairResult, Problem>,
    /// What takes longer than this has failed.
    pub within: Duration,
}

/// Serves a client until it ends the session, leaves, is silent for too long, or breaks the protocol. Where the client refuses this
/// side, its reason is returned.
pub fn serve(channel: &mut Channel, setting: SessionContext) -> Result<Option<String>, Silence> {
    let mut session = Session { setting, services: Services::default(), export: None };
    loop {
        let request: PeerRequest = channel.receive(session.setting.limits.idle)?;
        if let PeerRequest::End { refused } = request {
            return Ok(refused);
        }
        let outcome = match request.check() {
            Ok(()) => session.answer(channel, request),
            Err(why) => Err(Failure::Refused(io::Error::other(format!("out of bounds: {why}")))),
        };
        match outcome {
            Ok(Some(reply)) => channel.send(&reply, STALLED)?,
            Ok(None) => {}
            Err(Failure::Refused(why)) => channel.send(&Reply::Cannot { reason: brief(&why.to_string()) }, STALLED)?,
            Err(Failure::Silent(silence)) => return Err(silence),
        }
    }
}

struct Session {
    setting: SessionContext,
    services: Services,
    export: Option<Export>,
}

/// Why a request is not done: the client hears the reason and goes on, or the session is over.
enum Failure {
    Refused(io::Error),
    Silent(Silence),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Refused(error)
    }
}

impl From<Silence> for Failure {
    fn from(silence: Silence) -> Self {
        Failure::Silent(silence)
    }
}

/// What a request leads to: a reply, nothing more to say, or a failure.
type RequestResult = Result<Option<Reply>, Failure>;

impl Session {
    fn answer(&mut self, channel: &mut Channel, request: PeerRequest) -> RequestResult {
        match request {
            PeerRequest::Describe {} => Ok(Some(Reply::Description {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                machine: Box::new(machine::detect(Path::new("/"), Path::new("/"))),
            })),
            PeerRequest::Echo { ipv6, tcp, udp, unix } => self.open(ipv6, &tcp, udp, unix),
            PeerRequest::EndEcho {} => Ok(Some(self.end())),
            PeerRequest::Accept { ipv6, connections } => self.accept(channel, ipv6, connections),
            PeerRequest::Flow(order) => self.flow(channel, &order),
            PeerRequest::Datagrams(order) => self.datagrams(channel, &order),
            PeerRequest::Export { ipv6, bytes } => self.export(ipv6, bytes),
            PeerRequest::Forget { ahead } => {
                Ok(Some(Reply::Forgotten { resident: self.export.as_ref().ok_or_else(no_export)?.forget(ahead)? }))
            }
            PeerRequest::EndExport {} => self.end_export(),
            PeerRequest::Join {} => Ok(Some(Reply::Joining(Box::new(self.member()?.who.clone())))),
            PeerRequest::Clock {} => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Ok(Some(Reply::Clock { nanoseconds: since.as_nanos() as i64 }))
            }
            PeerRequest::Pair(order) => self.pair(channel, order),
            PeerRequest::Still {} | PeerRequest::End { .. } => Ok(None),
        }
    }

    fn member(&self) -> io::Result<&Membership> {
        self.setting.member.as_ref().ok_or_else(|| io::Error::other("this peer is no member of a mesh"))
    }

    /// Measures a pair in a child, while the client is there. The calling process must have one thread.
    fn pair(&self, channel: &mut Channel, order: PairOrder) -> RequestResult {
        let member = self.member()?;
        let (child, mut line) = member.start(order)?;
        let outcome = watch(channel, &mut line, member.within);
        child.kill();
        outcome
    }

    /// The own address and the client's in one family.
    fn addresses(&self, ipv6: bool) -> io::Result<(IpAddr, IpAddr)> {
        self.setting.addresses.iter().copied().find(|(own, _)| own.is_ipv6() == ipv6).ok_or_else(|| {
            io::Error::other(format!("this session has no {} address", if ipv6 { "IPv6" } else { "IPv4" }))
        })
    }

    fn open(&mut self, ipv6: bool, tcp: &[u32], udp: Option<u16>, unix: bool) -> RequestResult {
        if self.services.len() + tcp.len() + usize::from(udp.is_some()) > MOST_SERVICES {
            return Err(io::Error::other(format!("at most {MOST_SERVICES} services at once")).into());
        }
        let manner = Manner {
            hold: self.setting.pretence.hold,
            residence: self.setting.residence,
            bytes: self.setting.limits.bytes,
        };
        let token = data::token()?;
        let (mut tcp_ports, mut udp_port) = (Vec::new(), None);
        if !tcp.is_empty() || udp.is_some() {
            let (own, client) = self.addresses(ipv6)?;
            for &bytes in tcp {
                tcp_ports.push(self.services.open_tcp(own, client, token, bytes, manner)?);
            }
            if let Some(port) = udp {
                udp_port = Some(self.services.open_udp(own, SocketAddr::new(client, port), manner)?);
            }
        }
        if unix {
            for (bytes, end) in self.setting.unix.drain(..) {
                self.services.open_unix(end, bytes, manner)?;
            }
        }
        Ok(Some(Reply::Listening { tcp: tcp_ports, udp: udp_port, token: data::token_text(&token) }))
    }

    fn end(&mut self) -> Reply {
        let pretence = self.setting.pretence;
        let shown = |time: Option<u64>| time.map(|time| pretence.shown(time as i64) as u64);
        let mut services = self.services.end();
        for service in &mut services {
            service.residence = shown(service.residence);
            service.longest_residence = shown(service.longest_residence);
        }
        Reply::Echoed {
            services,
            cpu_time: process_cpu_time(),
            run_delay: counters::run_delay().map(|delay| delay as i64),
        }
    }

    /// Serves a file. Only one at a time, and without any other service: what serves it is a copy of this process.
    fn export(&mut self, ipv6: bool, bytes: u64) -> RequestResult {
        if !self.services.is_empty() {
            return Err(io::Error::other("end the echo services first").into());
        }
        let directory = self.setting.scratch.clone().ok_or_else(|| io::Error::other("this session exports no file"))?;
        self.export = None;
        let export = Export::open(&directory, bytes, self.addresses(ipv6)?, self.setting.limits)?;
        let reply = Reply::Exporting {
            port: export.port,
            path: format!("{}/{NAME}", export.path),
            identity: export.identity(),
            storage: machine::detect(Path::new("/"), &directory).scratch().cloned().map(Box::new),
        };
        self.export = Some(export);
        Ok(Some(reply))
    }

    fn end_export(&mut self) -> RequestResult {
        let export = self.export.take().ok_or_else(no_export)?;
        let mut exported = export.end();
        exported.residence = exported.residence.map(|time| self.setting.pretence.shown(time as i64) as u64);
        Ok(Some(Reply::Exported(exported)))
    }

    fn accept(&mut self, channel: &mut Channel, ipv6: bool, connections: u32) -> RequestResult {
        let pretence = self.setting.pretence;
        let (own, client) = self.addresses(ipv6)?;
        let listener = data::listen(own, pretence.never_accept.then_some(0), None)?;
        let port = data::port(&listener)?;
        let listener = (!pretence.closed_port).then_some(listener);
        channel.send(&Reply::Listening { tcp: vec![port], udp: None, token: String::new() }, STALLED)?;
        let Some(listener) = listener else { return Ok(None) };
        if pretence.never_accept {
            accepting::never(channel, &listener);
        } else {
            accepting::accept(channel, &listener, client, connections, &self.setting.limits, &pretence)?;
        }
        Ok(None)
    }

    fn flow(&mut self, channel: &mut Channel, order: &FlowOrder) -> RequestResult {
        let (own, client) = self.addresses(order.ipv6)?;
        let listener = data::listen(own, None, self.setting.pretence.receive_buffer)?;
        let (tcp, token) = (vec![data::port(&listener)?], data::token()?);
        channel.send(&Reply::Listening { tcp, udp: None, token: data::token_text(&token) }, STALLED)?;
        let streams = admit(&listener, client, &token, order)?;
        channel.send(&Reply::Ready {}, STALLED)?;
        let bounds = Bounds { bytes: self.setting.limits.bytes, rate: self.setting.limits.rate };
        Ok(Some(Reply::Flowed(self.setting.pretence.told(flow::run(streams, order, bounds)?))))
    }

    /// Nothing is sent, and nothing is counted, until the client's port has shown the token.
    fn datagrams(&mut self, channel: &mut Channel, order: &DatagramOrder) -> RequestResult {
        let (own, client) = self.addresses(order.ipv6)?;
        let socket = datagrams::bind(own)?;
        socket.connect(&SocketAddr::new(client, order.port).into())?;
        let (port, token) = (data::port(&socket)?, data::token()?);
        let SessionLimits { bytes, rate, .. } = self.setting.limits;
        channel.send(&Reply::Datagrams { port, token: data::token_text(&token), rate }, STALLED)?;
        if !datagrams::greeted(&socket, &token)? {
            return Err(io::Error::other("no datagram of the client arrived, as where a firewall drops UDP").into());
        }
        channel.send(&Reply::Ready {}, STALLED)?;
        let pretence = self.setting.pretence;
        if order.direction == Direction::Receive {
            let mut sent = datagrams::send(&socket, &token, &datagrams::limited(order, rate), bytes)?;
            (sent.span, sent.late_span) = (pretence.shown(sent.span), pretence.shown(sent.late_span));
            return Ok(Some(Reply::Sent(sent)));
        }
        let mut arrived = datagrams::receive(&socket, &token, order, |_| Ok(channel.is_waiting()))?;
        (arrived.span, arrived.late_span) = (pretence.shown(arrived.span), pretence.shown(arrived.late_span));
        Ok(Some(Reply::Arrived(arrived)))
    }
}

fn no_export() -> io::Error {
    io::Error::other("no file is exported")
}

impl Membership {
    fn start(&self, order: PairOrder) -> io::Result<(Forked, Channel)> {
        let (line, mut theirs) = Channel::pair()?;
        let child = process::fork_keeping(&[theirs.stream().as_raw_fd()], move || {
            let outcome = (self.measure)(order, self.who.link.address, &self.secret).map_err(|problem| problem.what);
            i32::from(theirs.send(&outcome, STALLED).is_err())
        });
        Ok((child.map_err(|error| io::Error::other(format!("cannot start a process: {error}")))?, line))
    }
}

/// Waits for the result of a pair, and for the end of its time or of the client.
fn watch(channel: &mut Channel, line: &mut Channel, within: Duration) -> RequestResult {
    let until = Instant::now() + within;
    loop {
        if line.is_waiting() {
            let failed = |silence: Silence| Err(format!("the measuring process failed: {}", silence.words()));
            let outcome = line.receive::<Result<PairResult, String>>(STALLED).unwrap_or_else(failed);
            return Ok(Some(Reply::Pair(outcome.map_err(io::Error::other)?)));
        }
        if Instant::now() > until {
            return Err(io::Error::other(format!("no result within {:.1} s", within.as_secs_f64())).into());
        }
        if channel.is_waiting() && channel.receive::<PeerRequest>(STALLED)? != (PeerRequest::Still {}) {
            return Err(Silence::Broken("a request came while a pair was measured".to_owned()).into());
        }
        let mut ends = [line.stream(), channel.stream()].map(|end| PollFd::new(end.as_fd(), PollFlags::POLLIN));
        // An error is an interrupted wait.
        let _ = poll(&mut ends, PollTimeout::from(LOOK));
    }
}

/// All streams of a flow: first those on which the client sends, then those on which it receives.
fn admit(listener: &socket2::Socket, client: IpAddr, token: &Token, order: &FlowOrder) -> io::Result<Streams> {
    let deadline = Instant::now() + OPENING;
    let mut streams = Streams::default();
    for _ in 0..order.streams {
        if order.direction != Direction::Receive {
            streams.receiving.push(data::admit(listener, client, token, deadline)?);
        }
    }
    for _ in 0..order.streams {
        if order.direction != Direction::Send {
            streams.sending.push(data::admit(listener, client, token, deadline)?);
        }
    }
    Ok(streams)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::thread::JoinHandle;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// A session in a thread, and a client's channel to it.
    fn session(limits: SessionLimits) -> (Channel, JoinHandle<Result<Option<String>, Silence>>) {
        let (client, mut own) = Channel::pair().unwrap();
        let setting = SessionContext { addresses: vec![(HERE, HERE)], limits, ..SessionContext::default() };
        (client, std::thread::spawn(move || serve(&mut own, setting)))
    }

    /// Asks for datagrams to a socket: the peer's port, and the token.
    fn ask(client: &mut Channel, socket: &UdpSocket, bytes: u16) -> (SocketAddr, Token) {
        let port = socket.local_addr().unwrap().port();
        let order =
            DatagramOrder { ipv6: false, direction: Direction::Receive, bytes, rate: 0, milliseconds: 20, port };
        client.send(&PeerRequest::Datagrams(order), STALLED).unwrap();
        match client.receive::<Reply>(STALLED).unwrap() {
            Reply::Datagrams { port, token, .. } => (SocketAddr::new(HERE, port), data::token_of(&token).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    fn greeting(token: Token) -> Vec<u8> {
        [&token[..], &u32::MAX.to_ne_bytes()].concat()
    }

    #[test]
    fn a_port_that_has_not_shown_the_token_gets_no_datagram() {
        let (mut client, served) = session(SessionLimits::default());
        let victim = UdpSocket::bind((HERE, 0)).unwrap();
        let (peer, token) = ask(&mut client, &victim, 64);
        // The right token from another port, and a wrong one from the right port.
        UdpSocket::bind((HERE, 0)).unwrap().send_to(&greeting(token), peer).unwrap();
        victim.send_to(&greeting([0; 16]), peer).unwrap();
        victim.send_to(&token, peer).unwrap();
        let answer = client.receive::<Reply>(OPENING).unwrap();
        assert!(matches!(answer, Reply::Cannot { .. }), "{answer:?}");
        victim.set_nonblocking(true).unwrap();
        assert!(victim.recv(&mut [0; 64]).is_err(), "nothing was sent to it");
        drop(client);
        assert!(served.join().unwrap().is_err_and(|silence| matches!(silence, Silence::Closed)));
    }

    #[test]
    fn datagrams_go_to_the_port_that_has_shown_the_token_within_the_grant() {
        let limits = SessionLimits { bytes: 6_400, rate: Some(64_000_000), ..SessionLimits::default() };
        let (mut client, _served) = session(limits);
        let receiver = UdpSocket::bind((HERE, 0)).unwrap();
        let (peer, token) = ask(&mut client, &receiver, 64);
        receiver.send_to(&greeting(token), peer).unwrap();
        assert!(matches!(client.receive::<Reply>(OPENING).unwrap(), Reply::Ready {}));
        let Reply::Sent(sent) = client.receive::<Reply>(OPENING).unwrap() else { panic!("another answer") };
        assert_eq!(sent.sent, 100, "6400 bytes are 100 datagrams");
        receiver.set_nonblocking(true).unwrap();
        let mut buffer = [0; 65];
        let all: Vec<usize> = std::iter::from_fn(|| receiver.recv(&mut buffer).ok()).collect();
        assert_eq!(all, [64; 100]);
    }

    #[test]
    fn an_order_beyond_the_bounds_opens_no_port() {
        let (mut client, _served) = session(SessionLimits::default());
        let order = DatagramOrder {
            ipv6: false,
            direction: Direction::Receive,
            bytes: 64,
            rate: 0,
            milliseconds: 2_001,
            port: 9,
        };
        client.send(&PeerRequest::Datagrams(order), STALLED).unwrap();
        let answer = client.receive::<Reply>(STALLED).unwrap();
        assert!(matches!(&answer, Reply::Cannot { reason } if reason.contains("duration of 2001")), "{answer:?}");
    }
}
