//! The client's side of a session: what an experiment asks of its partner.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::machine::{Machine, Storage};
use crate::results::problem::Problem;
use crate::sys::affinity;
use crate::sys::process::{self, Forked};

use super::authentication::Secret;
use super::channel::{Channel, Silence};
use super::data::{self, STALLED, Token};
use super::datagrams;
use super::flow::{self, Bounds, Streams};
use super::handshake;
use super::limits::{MOST_RESIDENCES, PROVING};
use super::nfs::FileLocation;
use super::plausible;
use super::protocol::{
    DatagramOrder, DatagramsArrived, DatagramsSent, Direction, Echoed, Exported, FlowOrder, Flowed, PeerRequest, Reply,
};
use super::session::{self, SessionContext};

/// An answer that takes longer than this does not come any more.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time to write a file and to wait until it is stored.
const WRITING: Duration = Duration::from_secs(20);
/// A launch's own partner ends by itself after this many seconds, whatever happens.
const PARTNER_SECONDS: u32 = 120;
/// The first port that needs no privilege.
const UNPRIVILEGED: u16 = 1024;

/// The other side of an experiment.
#[derive(Debug)]
pub struct Partner {
    channel: Channel,
    child: Option<Forked>,
    address: Option<IpAddr>,
    /// When the session began.
    began: Instant,
    /// When the services or the export that are open were asked for.
    opened: Option<Instant>,
    /// Own ends of Unix socket pairs, with their message sizes.
    unix: Vec<(u32, Socket)>,
}

/// Connections to echo services.
#[derive(Debug, Default)]
pub struct EchoLines {
    /// TCP connections with their message sizes.
    pub tcp: Vec<(u32, Socket)>,
    /// A connected UDP socket.
    pub udp: Option<Socket>,
}

/// A file that the other side exports.
#[derive(Debug, Clone)]
pub struct Lent {
    /// Where it is read.
    pub place: FileLocation,
    /// What the stamps of its blocks say.
    pub identity: u64,
    /// What it lies on.
    pub storage: Option<Storage>,
}

/// What echo services report at their end.
#[derive(Debug, Clone)]
pub struct EchoEnd {
    /// Each service.
    pub services: Vec<Echoed>,
    /// CPU time of the session in nanoseconds.
    pub cpu_time: i64,
    /// Nanoseconds for which it waited for a CPU.
    pub run_delay: Option<i64>,
}

impl Partner {
    /// A child of this process on the loopback, pinned to a CPU if one is given, with Unix sockets for messages of some
    /// sizes. The calling process must have one thread.
    pub fn on_loopback(cpu: Option<u32>, unix: &[u32]) -> Result<Self, Problem> {
        let cannot = |error: io::Error| Problem::new(format!("cannot start the other side on the loopback: {error}"));
        let (channel, mut theirs) = Channel::pair().map_err(cannot)?;
        let (mut own_unix, mut their_unix) = (Vec::new(), Vec::new());
        for &bytes in unix {
            let (one, other) = UnixStream::pair().map_err(cannot)?;
            own_unix.push((bytes, Socket::from(one)));
            their_unix.push((bytes, OwnedFd::from(other)));
        }
        // Ends of connections that the other side does not use would keep them open.
        let mut kept: Vec<i32> = their_unix.iter().map(|(_, end)| end.as_raw_fd()).collect();
        kept.push(theirs.stream().as_raw_fd());
        let child = process::fork_keeping(&kept, move || {
            process::end_after(PARTNER_SECONDS);
            if let Some(cpu) = cpu
                && affinity::restrict(&[cpu]).is_err()
            {
                return 1;
            }
            let (v4, v6) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST));
            let setting =
                SessionContext { addresses: vec![(v4, v4), (v6, v6)], unix: their_unix, ..SessionContext::default() };
            i32::from(session::serve(&mut theirs, setting).is_err())
        })
        .map_err(cannot)?;
        Ok(Partner { channel, child: Some(child), address: None, began: Instant::now(), opened: None, unix: own_unix })
    }

    /// A session of a peer elsewhere.
    pub fn elsewhere(at: SocketAddr, secret: &Secret) -> Result<Self, Problem> {
        let stream = data::connect(at, STALLED).map_err(|error| {
            Problem::new(format!("cannot reach the peer at {at}: {error}")).hint(
                "check that `sysdyno peer` runs there, that it listens on more than its loopback, and that firewalls \
                 leave the port open",
            )
        })?;
        let channel = handshake::ask(stream.into(), secret, PROVING)?;
        let address = Some(at.ip().to_canonical());
        Ok(Partner { channel, child: None, address, began: Instant::now(), opened: None, unix: Vec::new() })
    }

    /// Address of the other side in one family.
    pub fn address(&self, ipv6: bool) -> IpAddr {
        self.address.unwrap_or(if ipv6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() })
    }

    /// Own address on the way to the peer.
    pub fn local_address(&self) -> Option<IpAddr> {
        self.channel.local_address()
    }

    /// True when the only family is IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.address.is_some_and(|address| address.is_ipv6())
    }

    fn ask(&mut self, request: &PeerRequest, within: Duration) -> Result<Reply, Problem> {
        self.channel.send(request, STALLED)?;
        self.hear(within)
    }

    fn hear(&mut self, within: Duration) -> Result<Reply, Problem> {
        match self.channel.receive::<Reply>(within) {
            Ok(Reply::Cannot { reason }) => Err(Problem::new(format!("the other side cannot do this: {reason}"))),
            Ok(reply) => Ok(reply),
            Err(silence) => Err(silence.into()),
        }
    }

    /// Who the other side is.
    pub fn describe(&mut self) -> Result<(String, Machine), Problem> {
        match self.ask(&PeerRequest::Describe {}, PATIENCE)? {
            Reply::Description { version, machine } => Ok((version, *machine)),
            other => Err(unexpected(&other)),
        }
    }

    /// Opens echo services and connects to them.
    pub fn echo(&mut self, ipv6: bool, tcp: &[u32], udp: bool) -> Result<EchoLines, Problem> {
        let cannot = |error: io::Error| Problem::new(format!("cannot connect to an echo service: {error}"));
        let address = self.address(ipv6);
        let own = udp
            .then(|| {
                let any: IpAddr = if ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
                UdpSocket::bind(SocketAddr::new(any, 0))
            })
            .transpose()
            .map_err(cannot)?;
        let port = own.as_ref().and_then(|socket| socket.local_addr().ok()).map(|local| local.port());
        let request = PeerRequest::Echo { ipv6, tcp: tcp.to_vec(), udp: port, unix: false };
        self.opened.get_or_insert_with(Instant::now);
        let (ports, udp_port, token) = self.listening(&request)?;
        let token = data::token_of(&token).ok_or_else(|| Problem::new("the peer sent an invalid token"))?;
        let mut lines = EchoLines::default();
        for (&bytes, port) in tcp.iter().zip(ports) {
            let line = data::open(SocketAddr::new(address, port), &token, None).map_err(cannot)?;
            // Nothing is on its way when it is closed: an abort then holds no port for a minute.
            line.set_linger(Some(Duration::ZERO)).map_err(cannot)?;
            lines.tcp.push((bytes, line));
        }
        if let (Some(own), Some(port)) = (own, udp_port) {
            own.connect(SocketAddr::new(address, port)).map_err(cannot)?;
            lines.udp = Some(Socket::from(own));
        }
        Ok(lines)
    }

    /// Has the Unix sockets served, and gives this side's ends; without any where there are none.
    pub fn echo_unix(&mut self) -> Result<Vec<(u32, Socket)>, Problem> {
        if self.unix.is_empty() {
            return Ok(Vec::new());
        }
        self.opened.get_or_insert_with(Instant::now);
        self.listening(&PeerRequest::Echo { ipv6: false, tcp: Vec::new(), udp: None, unix: true })?;
        for (_, line) in &self.unix {
            line.set_read_timeout(Some(STALLED))
                .map_err(|error| Problem::new(format!("cannot prepare a Unix socket: {error}")))?;
        }
        Ok(std::mem::take(&mut self.unix))
    }

    /// Ends all echo services; their connections must be closed already.
    pub fn end_echo(&mut self) -> Result<EchoEnd, Problem> {
        match self.ask(&PeerRequest::EndEcho {}, PATIENCE)? {
            Reply::Echoed { services, cpu_time, run_delay } => {
                let session = self.began.elapsed();
                let open = self.opened.take().map_or(session, |opened| opened.elapsed());
                plausible::echoes(&services, cpu_time, run_delay, session, open)?;
                Ok(EchoEnd { services, cpu_time, run_delay })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Has that many connections accepted; gives the port.
    pub fn accept(&mut self, ipv6: bool, connections: u32) -> Result<u16, Problem> {
        let (ports, ..) = self.listening(&PeerRequest::Accept { ipv6, connections })?;
        ports.first().copied().ok_or_else(|| Problem::new("the other side names no port"))
    }

    /// Waits until the other side has closed a connection, which this side began to close at a time; its residence in
    /// nanoseconds, and whether it saw an abort. A residence that does not fit into that span is refused.
    pub fn closed(&mut self, closing: Instant) -> Result<(i64, bool), Problem> {
        match self.hear(PATIENCE)? {
            Reply::Closed { residence, reset } => {
                plausible::time("a residence", residence, closing.elapsed())?;
                Ok((residence, reset))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// After the last connection: counters of the other side.
    pub fn accepted(&mut self) -> Result<Vec<(String, u64)>, Problem> {
        match self.hear(PATIENCE)? {
            Reply::Accepted { counters } => plausible::counters(&counters).map(|()| counters),
            other => Err(unexpected(&other)),
        }
    }

    /// Has a file of this many bytes written and served over NFS.
    pub fn export(&mut self, ipv6: bool, bytes: u64) -> Result<Lent, Problem> {
        self.opened = Some(Instant::now());
        match self.ask(&PeerRequest::Export { ipv6, bytes }, WRITING)? {
            Reply::Exporting { port, path, identity, storage } => {
                self.announced(&[port])?;
                let place = FileLocation { server: self.address(ipv6), port, mount_port: Some(port), path };
                Ok(Lent { place, identity, storage: storage.map(|found| *found) })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Has the exported file dropped from the other side's page cache; the bytes that stayed there nevertheless.
    /// From then on it reads ahead of sequential reads, or nothing but what is asked.
    pub fn forget(&mut self, ahead: bool) -> Result<u64, Problem> {
        match self.ask(&PeerRequest::Forget { ahead }, PATIENCE)? {
            Reply::Forgotten { resident } => Ok(resident),
            other => Err(unexpected(&other)),
        }
    }

    /// Ends the export.
    pub fn end_export(&mut self) -> Result<Exported, Problem> {
        match self.ask(&PeerRequest::EndExport {}, WRITING)? {
            Reply::Exported(exported) => {
                let open = self.opened.take().unwrap_or(self.began).elapsed();
                if let Some(residence) = exported.residence {
                    plausible::median("a residence", residence, exported.reads.min(MOST_RESIDENCES as u64), open)?;
                }
                Ok(exported)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Runs a flow of datagrams; what its sender and its receiver saw. The port of the order is chosen here.
    pub fn datagrams(&mut self, order: &DatagramOrder) -> Result<(DatagramsSent, DatagramsArrived), Problem> {
        let cannot = |error: io::Error| Problem::new(format!("cannot exchange datagrams: {error}"));
        let began = Instant::now();
        let any: IpAddr = if order.ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let socket = datagrams::bind(any).map_err(cannot)?;
        let order = DatagramOrder { port: data::port(&socket).map_err(cannot)?, ..*order };
        let (port, token, rate) = match self.ask(&PeerRequest::Datagrams(order), PATIENCE)? {
            Reply::Datagrams { port, token, rate } => (port, data::token_of(&token), rate),
            other => return Err(unexpected(&other)),
        };
        self.announced(&[port])?;
        let token = token.ok_or_else(|| Problem::new("the peer sent an invalid token"))?;
        socket.connect(&SocketAddr::new(self.address(order.ipv6), port).into()).map_err(cannot)?;
        let (sent, arrived) = if order.direction == Direction::Receive {
            self.receive_datagrams(&socket, &token, &order)?
        } else {
            datagrams::greet_until(&socket, &token, || self.channel.is_waiting());
            self.ready()?;
            let sent = datagrams::send(&socket, &token, &datagrams::limited(&order, rate), u64::MAX);
            // The receiver waits for this, whatever came of the sending.
            self.channel.send(&PeerRequest::Still {}, STALLED)?;
            match self.hear(PATIENCE)? {
                Reply::Arrived(arrived) => (sent.map_err(cannot)?, arrived),
                other => return Err(unexpected(&other)),
            }
        };
        if self.child.is_none() {
            plausible::datagrams(&order, &sent, &arrived, began.elapsed())?;
        }
        Ok((sent, arrived))
    }

    fn ready(&mut self) -> Result<(), Problem> {
        match self.hear(PATIENCE)? {
            Reply::Ready {} => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Receives from the start on, as the first datagrams can overtake the word that they come.
    fn receive_datagrams(
        &mut self,
        socket: &Socket,
        token: &Token,
        order: &DatagramOrder,
    ) -> Result<(DatagramsSent, DatagramsArrived), Problem> {
        let (mut is_ready, mut outcome) = (false, None);
        let arrived = datagrams::receive(socket, token, order, |arrivals| {
            if !is_ready && arrivals.is_empty() {
                datagrams::greet(socket, token);
            }
            if !self.channel.is_waiting() {
                return Ok(false);
            }
            outcome = match self.hear(PATIENCE) {
                Ok(Reply::Ready {}) if !is_ready => {
                    is_ready = true;
                    return Ok(false);
                }
                other => Some(other),
            };
            Ok(true)
        });
        let sent = match outcome.unwrap_or_else(|| self.hear(PATIENCE))? {
            Reply::Sent(sent) => sent,
            other => return Err(unexpected(&other)),
        };
        Ok((sent, arrived.map_err(|error| Problem::new(format!("cannot receive datagrams: {error}")))?))
    }

    /// Runs a flow; gives what this side and the other one saw, and how long it took from the order to the report.
    pub fn flow(&mut self, order: &FlowOrder) -> Result<(Flowed, Flowed, Duration), Problem> {
        let cannot = |error: io::Error| Problem::new(format!("cannot open a stream: {error}"));
        let began = Instant::now();
        let (ports, _, token) = self.listening(&PeerRequest::Flow(*order))?;
        let token = data::token_of(&token).ok_or_else(|| Problem::new("the peer sent an invalid token"))?;
        let port = ports.first().copied().ok_or_else(|| Problem::new("the other side names no port"))?;
        let to = SocketAddr::new(self.address(order.ipv6), port);
        let open = || (0..order.streams).map(|_| data::open(to, &token, None)).collect::<io::Result<Vec<Socket>>>();
        let mut streams = Streams::default();
        if order.direction != Direction::Receive {
            streams.sending = open().map_err(cannot)?;
        }
        if order.direction != Direction::Send {
            streams.receiving = open().map_err(cannot)?;
        }
        self.ready()?;
        let own = flow::run(streams, order, Bounds { bytes: u64::MAX, rate: None }).map_err(cannot)?;
        match self.hear(PATIENCE)? {
            Reply::Flowed(theirs) => Ok((own, theirs, began.elapsed())),
            other => Err(unexpected(&other)),
        }
    }
}

impl Partner {
    /// Asks for something that listens: its ports and the token that opens it.
    fn listening(&mut self, request: &PeerRequest) -> Result<(Vec<u16>, Option<u16>, String), Problem> {
        match self.ask(request, PATIENCE)? {
            Reply::Listening { tcp, udp, token } => {
                let ports: Vec<u16> = tcp.iter().copied().chain(udp).collect();
                self.announced(&ports)?;
                Ok((tcp, udp, token))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Refuses ports of a peer elsewhere that its kernel does not give to a program that asks for any port: below 1024 are
    /// the services of its system, and a client that is root would be sent to them from a port that they trust.
    fn announced(&self, ports: &[u16]) -> Result<(), Problem> {
        match ports.iter().find(|&&port| port < UNPRIVILEGED) {
            Some(port) if self.child.is_none() => {
                Err(Problem::new(format!("the peer names port {port}, which belongs to a service of its system"))
                    .hint("use the same version of sysdyno on both machines, and a peer that you trust"))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            child.kill();
        }
    }
}

fn unexpected(reply: &Reply) -> Problem {
    let text = format!("{reply:?}");
    let what: String = text.chars().take_while(|letter| letter.is_alphanumeric()).collect();
    Silence::Broken(format!("the answer belongs to another request: {what}")).into()
}
