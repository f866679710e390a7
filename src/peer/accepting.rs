//! Accepting connections, one after the other: answer bytes until the client closes, close too, say so.
//!
//! The client opens the next connection when it has heard that the last one is closed, so nothing queues up and no close
//! of one connection is timed with the opening of another.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::sys::clock::monotonic_raw;
use crate::sys::socket;
use crate::sys::tcp_counters::tcp_counters;

use super::channel::{Channel, Silence};
use super::data::{STALLED, comes};
use super::limits::{Pretence, SessionLimits};
use super::protocol::Reply;

/// How often a listener that waits looks whether its client still is there.
const LOOK: Duration = Duration::from_millis(50);
/// A peer that never accepts says nothing for this long at most.
const SULK: Duration = Duration::from_secs(30);

/// Serves that many connections of one client.
pub fn accept(
    channel: &mut Channel,
    listener: &Socket,
    client: IpAddr,
    connections: u32,
    limits: &SessionLimits,
    pretence: &Pretence,
) -> Result<(), Silence> {
    let before = tcp_counters();
    for _ in 0..connections {
        let deadline = Instant::now() + limits.idle;
        let connection = loop {
            if comes(listener, LOOK) {
                match listener.accept() {
                    Ok((connection, from)) if from.as_socket().is_some_and(|from| is_client(from.ip(), client)) => {
                        break connection;
                    }
                    _ => {}
                }
            } else if channel.is_waiting() {
                // The client asks for something else, or is gone: it has given up on this request.
                return Ok(());
            } else if Instant::now() > deadline {
                return Err(Silence::TimedOut);
            }
        };
        let (residence, reset) = serve_one(connection);
        let residence = pretence.shown(residence);
        channel.send(&Reply::Closed { residence, reset }, STALLED)?;
    }
    let counters = match (before, tcp_counters()) {
        (Some(before), Some(after)) => {
            after.since(&before).pairs().map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
        }
        _ => Vec::new(),
    };
    channel.send(&Reply::Accepted { counters }, STALLED)
}

/// On loopback a client comes from many addresses, so that none of them runs out of ports.
fn is_client(from: IpAddr, client: IpAddr) -> bool {
    let (from, client) = (from.to_canonical(), client.to_canonical());
    from == client || from.is_loopback() && client.is_loopback()
}

/// Answers every byte until the client ends, then closes. Returns the time from seeing the end to having closed, and
/// whether the client aborted.
fn serve_one(connection: Socket) -> (i64, bool) {
    // Without time-outs a vanished client would keep this session for ever.
    let _ = connection.set_read_timeout(Some(STALLED));
    let _ = connection.set_tcp_nodelay(true);
    let mut byte = [0_u8; 1];
    let end = loop {
        match socket::answered(socket::read(connection.as_fd(), &mut byte)) {
            Ok(1) => {
                if socket::write_all(connection.as_fd(), &byte).is_err() {
                    break true;
                }
            }
            Ok(_) => break false,
            Err(_) => break true,
        }
    };
    let began = monotonic_raw();
    drop(connection);
    (monotonic_raw() - began, end)
}

/// Listens and never accepts, until the client gives up.
pub fn never(channel: &Channel, _listener: &Socket) {
    let deadline = Instant::now() + SULK;
    while !channel.is_waiting() && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
}
