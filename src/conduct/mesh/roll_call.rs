//! Greets those who come: each connection has a thread, so that one that is silent keeps no other waiting.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::messages::{Joining, LeadWord, MemberWord};
use crate::peer::authentication::Secret;
use crate::peer::channel::{Channel, Silence};
use crate::peer::handshake::{self, Admission};
use crate::peer::limits::PROVING;
use crate::sys::talk;

/// Connections that are greeted at once. Further ones are closed, and members come again.
const MOST_AT_ONCE: usize = 64;
/// Longest wait for a connection until it is looked whether more are wanted, in milliseconds.
const LOOK: u16 = 200;
/// Time for a message of a member that comes.
const ANSWERING: Duration = Duration::from_secs(5);
/// Readings of a clock; the one with the shortest way counts.
const CLOCKS: usize = 3;
/// Stack of a thread that greets.
const STACK: usize = 256 << 10;

/// A member that came.
#[derive(Debug)]
pub struct Arrived {
    pub who: Joining,
    pub channel: Channel,
    /// Seconds by which its clock is ahead, and the largest error of this.
    pub clock: Option<[f64; 2]>,
}

/// Greets until it is to end.
pub fn greet(
    listener: TcpListener,
    secret: Secret,
    ending: Arc<AtomicBool>,
    arrived: Sender<Arrived>,
) -> std::io::Result<JoinHandle<()>> {
    listener.set_nonblocking(true)?;
    let (greeting, warned) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    Builder::new().spawn(move || {
        while !ending.load(Ordering::Relaxed) {
            let mut waited = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
            if poll(&mut waited, PollTimeout::from(LOOK)).unwrap_or(0) == 0 {
                continue;
            }
            let Ok((stream, from)) = listener.accept() else { continue };
            if greeting.fetch_add(1, Ordering::Relaxed) >= MOST_AT_ONCE {
                greeting.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (secret, arrived) = (secret.clone(), arrived.clone());
            let (counted, warned) = (Arc::clone(&greeting), Arc::clone(&warned));
            let one = move || {
                if let Some(member) = admit(stream, from, &secret, &warned) {
                    // Nobody waits any more where the roll call is over.
                    let _ = arrived.send(member);
                }
                counted.fetch_sub(1, Ordering::Relaxed);
            };
            if Builder::new().stack_size(STACK).spawn(one).is_err() {
                greeting.fetch_sub(1, Ordering::Relaxed);
            }
        }
    })
}

fn admit(stream: TcpStream, from: SocketAddr, secret: &Secret, warned: &AtomicBool) -> Option<Arrived> {
    // Small messages leave at once; where that is refused they leave later.
    let _ = stream.set_nodelay(true);
    stream.set_nonblocking(true).ok()?;
    let refused = || {
        if !warned.swap(true, Ordering::Relaxed) {
            talk::line(format_args!("warning: wrong secret from {}", from.ip().to_canonical()));
        }
    };
    let channel = handshake::answer_or_note(stream.into(), secret, PROVING, || Admission::Welcome, refused)?;
    introduced(channel)
}

/// Lets somebody who has proved the secret say who it is.
pub fn introduced(mut channel: Channel) -> Option<Arrived> {
    let Ok(MemberWord::Join { who }) = channel.receive::<MemberWord>(ANSWERING) else { return None };
    let clock = offset(&mut channel).ok()?;
    Some(Arrived { who: *who, channel, clock })
}

/// How far the clock of a member is ahead.
fn offset(channel: &mut Channel) -> Result<Option<[f64; 2]>, Silence> {
    let mut best: Option<[f64; 2]> = None;
    for _ in 0..CLOCKS {
        let before = now();
        channel.send(&LeadWord::Clock {}, ANSWERING)?;
        let MemberWord::Clock { nanoseconds } = channel.receive(ANSWERING)? else { return Ok(None) };
        let after = now();
        let error = (after - before) / 2.0;
        let offset = nanoseconds as f64 / 1e9 - f64::midpoint(before, after);
        if best.is_none_or(|found| error < found[1]) {
            best = Some([offset, error]);
        }
    }
    Ok(best)
}

/// Seconds since 1970: to a quarter of a microsecond, which is finer than any way through a network.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
