//! One session: requests of one client, served one after the other.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::machine;
use crate::sys::clock::process_cpu_time;
use crate::sys::counters;

use super::accepting;
use super::channel::{Channel, Silence};
use super::data::{self, OPENING, STALLED, Token};
use super::echoing::{Manner, Services};
use super::export::Export;
use super::export::answers::NAME;
use super::flow::{self, Bounds, Streams};
use super::limits::{Pretence, SessionLimits};
use super::protocol::{Direction, FlowOrder, MOST_SERVICES, PeerRequest, Reply};

/// What a session may use.
#[derive(Debug)]
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
}

/// Serves a client until it leaves, is silent for too long, or breaks the protocol.
pub fn serve(channel: &mut Channel, setting: SessionContext) -> Result<(), Silence> {
    let mut session = Session { setting, services: Services::default(), export: None };
    loop {
        let request: PeerRequest = match channel.receive(session.setting.limits.idle) {
            Ok(request) => request,
            Err(Silence::Closed) => return Ok(()),
            Err(silence) => return Err(silence),
        };
        let outcome = match request.check() {
            Ok(()) => session.answer(channel, request)?,
            Err(why) => Err(io::Error::other(format!("out of bounds: {why}"))),
        };
        match outcome {
            Ok(Some(reply)) => channel.send(&reply, STALLED)?,
            Ok(None) => {}
            Err(error) => channel.send(&Reply::Cannot { reason: error.to_string() }, STALLED)?,
        }
    }
}

struct Session {
    setting: SessionContext,
    services: Services,
    export: Option<Export>,
}

/// What a request leads to: a reply, nothing more to say, or a reason.
type RequestResult = io::Result<Option<Reply>>;

impl Session {
    fn answer(&mut self, channel: &mut Channel, request: PeerRequest) -> Result<RequestResult, Silence> {
        match request {
            PeerRequest::Describe {} => Ok(Ok(Some(Reply::Description {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                machine: Box::new(machine::detect(Path::new("/"), Path::new("/"))),
            }))),
            PeerRequest::Echo { ipv6, tcp, udp, unix } => Ok(self.open(ipv6, &tcp, udp, unix)),
            PeerRequest::EndEcho {} => Ok(Ok(Some(self.end()))),
            PeerRequest::Accept { ipv6, connections } => self.accept(channel, ipv6, connections),
            PeerRequest::Flow(order) => self.flow(channel, &order),
            PeerRequest::Export { ipv6, bytes } => Ok(self.export(ipv6, bytes)),
            PeerRequest::Forget { ahead } => Ok(self.forget(ahead)),
            PeerRequest::EndExport {} => Ok(self.end_export()),
        }
    }

    /// The own address and the client's in one family.
    fn addresses(&self, ipv6: bool) -> io::Result<(IpAddr, IpAddr)> {
        self.setting.addresses.iter().copied().find(|(own, _)| own.is_ipv6() == ipv6).ok_or_else(|| {
            io::Error::other(format!("this session has no {} address", if ipv6 { "IPv6" } else { "IPv4" }))
        })
    }

    fn open(&mut self, ipv6: bool, tcp: &[u32], udp: Option<u16>, unix: bool) -> RequestResult {
        if self.services.len() + tcp.len() + usize::from(udp.is_some()) > MOST_SERVICES {
            return Err(io::Error::other(format!("at most {MOST_SERVICES} services at once")));
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
            return Err(io::Error::other("end the echo services first"));
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

    fn forget(&mut self, ahead: bool) -> RequestResult {
        let export = self.export.as_ref().ok_or_else(|| io::Error::other("no file is exported"))?;
        Ok(Some(Reply::Forgotten { resident: export.forget(ahead)? }))
    }

    fn end_export(&mut self) -> RequestResult {
        let export = self.export.take().ok_or_else(|| io::Error::other("no file is exported"))?;
        let mut exported = export.end();
        exported.residence = exported.residence.map(|time| self.setting.pretence.shown(time as i64) as u64);
        Ok(Some(Reply::Exported(exported)))
    }

    fn accept(&mut self, channel: &mut Channel, ipv6: bool, connections: u32) -> Result<RequestResult, Silence> {
        let pretence = self.setting.pretence;
        let queue = pretence.never_accept.then_some(0);
        let prepared = self.addresses(ipv6).and_then(|(own, client)| {
            let listener = data::listen(own, queue, None)?;
            Ok((data::port(&listener)?, listener, client))
        });
        let (port, listener, client) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(error)),
        };
        let listener = (!pretence.closed_port).then_some(listener);
        channel.send(&Reply::Listening { tcp: vec![port], udp: None, token: String::new() }, STALLED)?;
        let Some(listener) = listener else { return Ok(Ok(None)) };
        if pretence.never_accept {
            accepting::never(channel, &listener);
        } else {
            accepting::accept(channel, &listener, client, connections, &self.setting.limits, &pretence)?;
        }
        Ok(Ok(None))
    }

    fn flow(&mut self, channel: &mut Channel, order: &FlowOrder) -> Result<RequestResult, Silence> {
        let prepared = self.addresses(order.ipv6).and_then(|(own, client)| {
            let listener = data::listen(own, None, self.setting.pretence.receive_buffer)?;
            Ok((data::port(&listener)?, listener, client, data::token()?))
        });
        let (port, listener, client, token) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(error)),
        };
        let listening = Reply::Listening { tcp: vec![port], udp: None, token: data::token_text(&token) };
        channel.send(&listening, STALLED)?;
        let streams = match admit(&listener, client, &token, order) {
            Ok(streams) => streams,
            Err(error) => return Ok(Err(error)),
        };
        channel.send(&Reply::Ready {}, STALLED)?;
        let bounds = Bounds { bytes: self.setting.limits.bytes, rate: self.setting.limits.rate };
        Ok(flow::run(streams, order, bounds).map(|flowed| Some(Reply::Flowed(self.setting.pretence.told(flowed)))))
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
