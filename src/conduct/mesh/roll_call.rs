//! Greets those who come: each connection has a thread, so that a silent connection keeps no other waiting.

use std::collections::VecDeque;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::peer::authentication::Secret;
use crate::peer::channel::{Channel, Silence};
use crate::peer::data;
use crate::peer::handshake::{self, Admission};
use crate::peer::limits::PROVING;
use crate::peer::protocol::{Joining, PeerRequest, Reply};
use crate::sys::talk;

/// Connections that have proved nothing yet. A further one takes the place of the oldest, as it does at a peer. Here all members come at
/// once.
const MOST_UNPROVEN: usize = 128;
/// Longest wait for a connection until it is looked whether more are wanted.
const LOOK: Duration = Duration::from_millis(200);
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
    let (unproven, warned) = (Unproven::default(), Arc::new(AtomicBool::new(false)));
    Builder::new().spawn(move || {
        while !ending.load(Ordering::Relaxed) {
            if !data::comes(&listener, LOOK) {
                continue;
            }
            let Ok((stream, from)) = listener.accept() else { continue };
            let Ok(place) = unproven.enter(&stream) else { continue };
            let (secret, arrived, warned) = (secret.clone(), arrived.clone(), Arc::clone(&warned));
            let one = move || {
                if let Some(member) = admit(stream, from, &secret, &warned, place) {
                    // Nothing waits any more where the roll call is over.
                    let _ = arrived.send(member);
                }
            };
            // Where no thread can be made the connection is closed, and the member comes again.
            let _ = Builder::new().stack_size(STACK).spawn(one);
        }
    })
}

/// Connections that have proved nothing yet, the oldest first.
#[derive(Debug, Clone, Default)]
struct Unproven(Arc<Mutex<VecDeque<Weak<TcpStream>>>>);

impl Unproven {
    /// Enters a connection until the returned value is dropped. Where there are too many, the oldest is closed.
    fn enter(&self, stream: &TcpStream) -> std::io::Result<Arc<TcpStream>> {
        let entered = Arc::new(stream.try_clone()?);
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|other| other.strong_count() > 0);
        waiting.push_back(Arc::downgrade(&entered));
        let oldest = if waiting.len() > MOST_UNPROVEN { waiting.pop_front() } else { None };
        if let Some(oldest) = oldest.and_then(|oldest| oldest.upgrade()) {
            // Its thread then reads the end of the connection.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        Ok(entered)
    }
}

fn admit(
    stream: TcpStream,
    from: SocketAddr,
    secret: &Secret,
    warned: &AtomicBool,
    place: Arc<TcpStream>,
) -> Option<Arrived> {
    // Small messages leave at once; where that is refused they leave later.
    let _ = stream.set_nodelay(true);
    stream.set_nonblocking(true).ok()?;
    let refused = || {
        if !warned.swap(true, Ordering::Relaxed) {
            talk::line(format_args!("warning: wrong secret from {}", from.ip().to_canonical()));
        }
    };
    let proved = || {
        drop(place);
        Admission::Welcome
    };
    let channel = handshake::answer(stream.into(), secret, PROVING, proved, refused)?;
    introduced(channel)
}

/// Has a process that has proved the secret introduce itself.
pub fn introduced(mut channel: Channel) -> Option<Arrived> {
    channel.send(&PeerRequest::Join {}, ANSWERING).ok()?;
    let Ok(Reply::Joining(who)) = channel.receive(ANSWERING) else { return None };
    let clock = offset(&mut channel).ok()?;
    Some(Arrived { who: *who, channel, clock })
}

/// How far the clock of a member is ahead.
fn offset(channel: &mut Channel) -> Result<Option<[f64; 2]>, Silence> {
    let mut best: Option<[f64; 2]> = None;
    for _ in 0..CLOCKS {
        let before = now();
        channel.send(&PeerRequest::Clock {}, ANSWERING)?;
        let Reply::Clock { nanoseconds } = channel.receive(ANSWERING)? else { return Ok(None) };
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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn strangers_that_are_silent_keep_no_member_out() {
        let secret = Secret::fresh().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (ending, (arrived, _arrivals)) = (Arc::new(AtomicBool::new(false)), mpsc::channel());
        let greeting = greet(listener, secret.clone(), Arc::clone(&ending), arrived).unwrap();
        let mut silent: Vec<TcpStream> =
            (0..MOST_UNPROVEN + 10).map(|_| TcpStream::connect(address).unwrap()).collect();
        let member = TcpStream::connect(address).unwrap();
        member.set_nonblocking(true).unwrap();
        handshake::ask(member.into(), &secret, PROVING).unwrap();
        silent[0].set_read_timeout(Some(PROVING)).unwrap();
        assert_eq!(silent[0].read(&mut [0]).unwrap(), 0, "the oldest is closed");
        ending.store(true, Ordering::Relaxed);
        greeting.join().unwrap();
    }
}
