//! The process that listens: one child for each connection, a bounded number of them, and nothing else to do.
//!
//! It accepts, forks, and sleeps. It never reads a byte that a stranger sent. A child that proves to know the secret asks for a
//! place. The others are killed when their time is up or when a newer connection comes. So idle connections, port scans and
//! browsers cost a slot for seconds and no memory for longer.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::results::problem::Problem;
use crate::sys::process::{self, Forked};
use crate::sys::socket;

use super::authentication::Secret;
use super::channel::Silence;
use super::handshake::{self, Admission};
use super::limits::{PROVING, Pretence, SessionLimits, UNPROVEN};
use super::session::{self, SessionContext};

/// How often children that ended are looked for while there are any.
const LOOK: Duration = Duration::from_millis(250);
/// Longest sleep in milliseconds: a signal that comes right before it is noticed after it.
const REST: u16 = 10_000;
/// Exit status of a session that broke the protocol or lost its client.
const BROKEN: i32 = 3;
/// A child asks for a place with this byte; it is answered with 1 for yes and 0 for no.
const ASKING: u8 = b'?';
/// A child whose client has shown a wrong proof says so with this byte.
const REFUSING: u8 = b'!';
/// A wrong proof costs this much: on one connection ten secrets can be tried in a second. Others are served during that time.
const PENALTY: Duration = Duration::from_millis(100);
/// Longest wait for a place where all are taken: a session whose client has just left holds its place until its process ends.
const FOR_A_PLACE: Duration = Duration::from_secs(1);
/// Time between two lines about wrong secrets, however many there are.
const BETWEEN_WORDS: Duration = Duration::from_mins(1);

/// What a peer is started with.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    secret: Secret,
    limits: SessionLimits,
    pretence: Pretence,
    scratch: Option<PathBuf>,
}

/// A child.
#[derive(Debug)]
struct Served {
    process: Forked,
    line: UnixStream,
    from: IpAddr,
    since: Instant,
    standing: Standing,
}

/// What a child has asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Standing {
    /// Nothing: its client has not proved anything.
    Unproven,
    /// A place, at this time.
    Asking(Instant),
    /// It has had its answer.
    Answered { serves: bool },
}

impl Served {
    fn unproven(&self) -> bool {
        self.standing == Standing::Unproven
    }
}

/// Wrong secrets so far, and when the last line about them was written.
#[derive(Debug, Default)]
struct Refusals {
    unsaid: u64,
    said: Option<Instant>,
}

impl Refusals {
    /// Notes one; the line to be written, if one is due.
    fn note(&mut self, from: IpAddr) -> Option<String> {
        self.unsaid += 1;
        if self.said.is_some_and(|said| said.elapsed() < BETWEEN_WORDS) {
            return None;
        }
        self.said = Some(Instant::now());
        let count = std::mem::take(&mut self.unsaid);
        let since = if count == 1 { String::new() } else { format!(" ({count} since the last line of this kind)") };
        Some(format!("wrong secret from {from}{since}"))
    }
}

impl Server {
    /// Begins to listen. `scratch` is where a file to be exported is written; without one, none is exported.
    pub fn listen(
        at: SocketAddr,
        secret: Secret,
        limits: SessionLimits,
        pretence: Pretence,
        scratch: Option<PathBuf>,
    ) -> Result<Self, Problem> {
        let listener = TcpListener::bind(at).map_err(|error| {
            Problem::new(format!("cannot listen at {at}: {error}"))
                .hint("choose an address of this machine and a free port with --listen ADDR:PORT")
        })?;
        listener.set_nonblocking(true).map_err(|error| Problem::new(format!("cannot listen at {at}: {error}")))?;
        Ok(Server { listener, secret, limits, pretence, scratch })
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr, Problem> {
        self.listener.local_addr().map_err(|error| Problem::new(format!("the listener has no address: {error}")))
    }

    /// The socket on which it listens.
    pub fn listening(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Serves until a stop is requested, or until a lifeline ends. The calling process must have one thread. `say` is given a line where
    /// the owner of the peer has to know something: of wrong secrets one a minute at most.
    pub fn serve(&self, stop: &Arc<AtomicBool>, lifeline: Option<BorrowedFd<'_>>, say: &dyn Fn(&str)) {
        let mut children: Vec<Served> = Vec::new();
        let mut refusals = Refusals::default();
        while !stop.load(Ordering::Relaxed) {
            let ready = self.wait(&children, lifeline);
            if ready.lifeline && lifeline.is_some_and(ended) {
                break;
            }
            for index in ready.children {
                if Self::hear(&mut children, index)
                    && let Some(line) = refusals.note(children[index].from)
                {
                    say(&line);
                }
            }
            if ready.listener {
                self.take(&mut children);
            }
            children = reap(children);
            self.place(&mut children);
        }
        for child in children {
            child.process.kill();
        }
    }

    fn wait(&self, children: &[Served], lifeline: Option<BorrowedFd<'_>>) -> Ready {
        let mut waited = vec![PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        waited.extend(children.iter().map(|child| PollFd::new(child.line.as_fd(), PollFlags::POLLIN)));
        waited.extend(lifeline.map(|end| PollFd::new(end, PollFlags::POLLIN)));
        let patience =
            if children.is_empty() { PollTimeout::from(REST) } else { PollTimeout::from(LOOK.as_millis() as u16) };
        // An error is an interrupted wait: the caller looks whether it shall stop.
        if poll(&mut waited, patience).is_err() {
            return Ready::default();
        }
        let ready: Vec<bool> = waited.iter().map(|end| end.any().unwrap_or(true)).collect();
        Ready {
            listener: ready[0],
            children: (0..children.len()).filter(|index| ready[1 + index]).collect(),
            lifeline: ready.get(1 + children.len()).copied().unwrap_or(false),
        }
    }

    /// Accepts one connection and gives it a child.
    fn take(&self, children: &mut Vec<Served>) {
        let Ok((stream, from)) = self.listener.accept() else { return };
        let unproven = children.iter().filter(|child| child.unproven()).count();
        if unproven >= UNPROVEN {
            let oldest = children.iter().position(Served::unproven);
            if let Some(oldest) = oldest {
                children.remove(oldest).process.kill();
            }
        }
        let Ok((line, theirs)) = UnixStream::pair() else { return };
        let kept = [stream.as_raw_fd(), theirs.as_raw_fd()];
        let process = process::fork_keeping(&kept, || {
            process::end_after(self.limits.session_time.as_secs() as u32);
            self.child(stream, from, &theirs)
        });
        // Where no child can be made the connection is dropped; the client hears that it was closed.
        if let Ok(process) = process {
            let from = from.ip().to_canonical();
            children.push(Served { process, line, from, since: Instant::now(), standing: Standing::Unproven });
        }
    }

    /// What a child does, to its end.
    fn child(&self, stream: TcpStream, from: SocketAddr, line: &UnixStream) -> i32 {
        let Ok(own) = stream.local_addr() else { return BROKEN };
        // Small answers leave at once; where that is refused they leave later.
        let _ = stream.set_nodelay(true);
        let admitted = || {
            let mut answer = [0];
            let asked = socket::write_all(line.as_fd(), &[ASKING]);
            let heard = asked.and_then(|()| socket::read_all(line.as_fd(), &mut answer));
            if heard.is_ok() && answer[0] == 1 { Admission::Welcome } else { Admission::Busy }
        };
        if stream.set_nonblocking(true).is_err() {
            return BROKEN;
        }
        // A client that closes early, or is closed for a newer one, has not been answered any sooner.
        let refused = || {
            let _ = socket::write_all(line.as_fd(), &[REFUSING]);
            std::thread::sleep(PENALTY);
        };
        let Some(mut channel) = handshake::answer(stream.into(), &self.secret, PROVING, admitted, refused) else {
            return BROKEN;
        };
        let setting = SessionContext {
            addresses: vec![(own.ip().to_canonical(), from.ip().to_canonical())],
            residence: true,
            scratch: self.scratch.clone(),
            limits: self.limits,
            pretence: self.pretence,
            ..SessionContext::default()
        };
        match session::serve(&mut channel, setting) {
            Ok(_) | Err(Silence::Closed) => 0,
            Err(_) => BROKEN,
        }
    }

    /// A child has proved its client, has refused it, or has gone; whether it has refused it.
    fn hear(children: &mut [Served], index: usize) -> bool {
        let mut word = [0];
        let line = children[index].line.as_fd();
        if !socket::answered(socket::read(line, &mut word)).is_ok_and(|count| count == 1) {
            return false;
        }
        if word[0] != ASKING {
            return word[0] == REFUSING;
        }
        children[index].standing = Standing::Asking(Instant::now());
        false
    }

    /// Gives the free places to those that asked, the first first. Where none becomes free in time the answer is no.
    fn place(&self, children: &mut [Served]) {
        let mut taken = children.iter().filter(|child| child.standing == Standing::Answered { serves: true }).count();
        for child in children {
            let Standing::Asking(since) = child.standing else { continue };
            let serves = taken < self.limits.sessions;
            if !serves && since.elapsed() < FOR_A_PLACE {
                continue;
            }
            taken += usize::from(serves);
            child.standing = Standing::Answered { serves };
            // A child that is gone by then needs no answer.
            let _ = socket::write_all(child.line.as_fd(), &[u8::from(serves)]);
        }
    }
}

/// Who has something to say.
#[derive(Debug, Default)]
struct Ready {
    listener: bool,
    children: Vec<usize>,
    lifeline: bool,
}

/// Whether the other end of a lifeline is closed.
fn ended(lifeline: BorrowedFd<'_>) -> bool {
    let mut bytes = [0; 64];
    !socket::answered(socket::read(lifeline, &mut bytes)).is_ok_and(|count| count > 0)
}

/// Takes leave of children that ended, and ends those that did not prove themselves in time.
fn reap(children: Vec<Served>) -> Vec<Served> {
    let mut left = Vec::with_capacity(children.len());
    for child in children {
        if child.process.ended() {
            continue;
        }
        if child.unproven() && child.since.elapsed() > PROVING + Duration::from_secs(1) {
            child.process.kill();
        } else {
            left.push(child);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_secrets_are_one_line_and_then_a_count() {
        let from = IpAddr::from([10, 0, 0, 7]);
        let mut refusals = Refusals::default();
        assert_eq!(refusals.note(from).as_deref(), Some("wrong secret from 10.0.0.7"));
        assert!((0..1000).all(|_| refusals.note(from).is_none()), "a flood of refusals does not flood the output");
        refusals.said = refusals.said.and_then(|said| said.checked_sub(BETWEEN_WORDS));
        assert!(refusals.note(from).is_some_and(|line| line.contains("1001 since the last line of this kind")));
    }
}
