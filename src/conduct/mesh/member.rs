//! A member of a mesh: finds rank 0, serves it as its client, and serves the pairs in which others call.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::networks::{self, NetworkChoice};
use super::seat::Seat;
use super::{ALIKE, MeshFailure, SILENCE, meeting, pair};
use crate::conduct::other_machines::addresses;
use crate::peer::authentication::Secret;
use crate::peer::channel::Channel;
use crate::peer::data;
use crate::peer::handshake::{self, REFUSED};
use crate::peer::limits::{Pretence, SessionLimits};
use crate::peer::protocol::Joining;
use crate::peer::server::Server;
use crate::peer::session::{self, Membership, SessionContext};
use crate::results::mesh::MeshLink;
use crate::results::problem::Problem;
use crate::sys::process::{self, Forked};
use crate::sys::talk;

/// Time to connect to rank 0, and to prove the secret: rank 0 may have thousands of members to greet.
const CONNECTING: Duration = Duration::from_secs(5);
/// Pause until rank 0 is looked for again, in milliseconds.
const PAUSE: std::ops::Range<u64> = 750..1250;
/// A session of a pair ends by itself after this long, and after this silence.
const SESSION: Duration = Duration::from_mins(1);
const IDLE: Duration = Duration::from_secs(15);

/// Where rank 0 is.
#[derive(Debug, Clone)]
pub enum Rendezvous {
    /// In this file.
    File(PathBuf),
    /// At a host and a port, with a secret that all members have.
    At(String, u16, Secret),
}

/// What a member is.
#[derive(Debug, Clone)]
pub struct MemberSetting {
    pub seat: Seat,
    /// Name of its node.
    pub node: String,
    pub rack: Option<String>,
    pub network: Option<NetworkChoice>,
    /// Most bytes per second of a flow.
    pub rate: Option<u64>,
    /// How long it looks for rank 0.
    pub patience: Duration,
}

/// Takes part to the end. The calling process must have one thread.
pub fn take_part(setting: &MemberSetting, at: &Rendezvous) -> Result<(), MeshFailure> {
    let own = networks::own();
    // A network that this node does not have is an error at once, and not after the wait for rank 0.
    let wanted = setting.network.as_ref().map(|choice| networks::chosen(choice, &own)).transpose();
    let wanted = wanted.map_err(MeshFailure::Wrong)?;
    let (mut channel, secret) = meet(setting, at)?;
    let facing = || channel.local_address().map(|address| networks::of_address(address, &own));
    let link = wanted.or_else(facing).ok_or_else(|| lost("the connection to rank 0 has no address"))?;
    let (server, port, _lifeline) = serve(&link, &secret, setting.rate)?;
    let who = Joining {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        rank: setting.seat.rank,
        size: setting.seat.size,
        node: setting.node.clone(),
        rack: setting.rack.clone(),
        others: if setting.network.is_some() { Vec::new() } else { networks::others(&link, &own) },
        port,
        link,
    };
    let member = Membership { who, secret, measure: pair::measure, within: pair::LIMIT };
    let limits = SessionLimits { idle: SILENCE, ..SessionLimits::default() };
    let context = SessionContext { limits, member: Some(member), ..SessionContext::default() };
    let outcome = session::serve(&mut channel, context);
    server.kill();
    match outcome {
        Ok(None) => Ok(()),
        Ok(Some(reason)) => {
            Err(MeshFailure::Wrong(Problem::new(format!("rank 0 refuses this task: {reason}")).hint(ALIKE)))
        }
        Err(silence) => Err(lost(&format!("rank 0 is lost: {}", silence.words()))),
    }
}

fn lost(why: &str) -> MeshFailure {
    MeshFailure::Lost(
        Problem::new(why).hint("look at the messages of rank 0. The pairs of this member are missing from the result"),
    )
}

/// Connects to rank 0, again and again: it may begin later, and a file may be one that a dead mesh left.
fn meet(setting: &MemberSetting, at: &Rendezvous) -> Result<(Channel, Secret), MeshFailure> {
    let deadline = Instant::now() + setting.patience;
    loop {
        let last = match ask(at) {
            Ok(met) => return Ok(met),
            Err(problem) => problem,
        };
        // A secret that the user gave does not change.
        if last.what == REFUSED && matches!(at, Rendezvous::At(..)) {
            let hint = "give all tasks the same secret with --peer-secret-file or SYSDYNO_PEER_SECRET";
            return Err(MeshFailure::Wrong(Problem::new("rank 0 refuses the secret").hint(hint)));
        }
        if Instant::now() > deadline {
            let seconds = setting.patience.as_secs_f64();
            let what = format!("rank 0 was not found within {seconds:.0} s: {}", last.what);
            let hint =
                "check that rank 0 runs with the same directory or address, and that firewalls leave its port open";
            return Err(MeshFailure::Lost(Problem::new(what).hint(hint)));
        }
        std::thread::sleep(Duration::from_millis(fastrand::u64(PAUSE)));
    }
}

fn ask(at: &Rendezvous) -> Result<(Channel, Secret), Problem> {
    let (places, secret): (Vec<SocketAddr>, Secret) = match at {
        Rendezvous::File(path) => {
            meeting::look(path).map(|(address, secret)| (vec![address], secret)).map_err(Problem::new)?
        }
        Rendezvous::At(host, port, secret) => (addresses(host, *port)?, secret.clone()),
    };
    let mut last = Problem::new("rank 0 has no address");
    for place in places {
        let connected = data::connect(place, CONNECTING)
            .map_err(|error| Problem::new(format!("cannot connect to rank 0 at {place}: {error}")));
        match connected.and_then(|stream| handshake::ask(stream.into(), &secret, CONNECTING)) {
            Ok(channel) => return Ok((channel, secret)),
            Err(problem) => last = problem,
        }
    }
    Err(last)
}

/// Starts the server for pairs in a child, which ends with this process or with the other end of its lifeline.
fn serve(link: &MeshLink, secret: &Secret, rate: Option<u64>) -> Result<(Forked, u16, UnixStream), MeshFailure> {
    let limits = SessionLimits { session_time: SESSION, idle: IDLE, rate, ..SessionLimits::default() };
    let at = SocketAddr::new(link.address, 0);
    let server = Server::listen(at, secret.clone(), limits, Pretence::default(), None).map_err(MeshFailure::Lost)?;
    let port = server.address().map_err(MeshFailure::Lost)?.port();
    let cannot = |error: std::io::Error| MeshFailure::Lost(Problem::new(format!("cannot start a process: {error}")));
    let (lifeline, end) = UnixStream::pair().map_err(cannot)?;
    let kept = [server.listening().as_raw_fd(), end.as_raw_fd()];
    let child = process::fork_keeping(&kept, || {
        let never = Arc::new(AtomicBool::new(false));
        server.serve(&never, Some(end.as_fd()), &|line| talk::line(format_args!("warning: {line}")));
        0
    })
    .map_err(cannot)?;
    Ok((child, port, lifeline))
}
