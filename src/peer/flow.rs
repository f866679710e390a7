//! Flows of bytes, counted where they arrive. Both sides run this code.
//!
//! A sender writes messages until its time is up and then closes its direction; a receiver reads until that end. Bytes are
//! counted at the receiver, window after window, with the clock of the receiver, so no byte that waits in a buffer counts.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::sys::clock::{monotonic_raw, process_cpu_time};
use crate::sys::socket;

use super::data::{STALLED, comes};
use super::protocol::{FlowOrder, Flowed, Sender};

/// Bytes of one read. Large enough that the call is a small part of its copying, small enough for a second-level cache.
const READ: usize = 128 << 10;
/// Stack of a stream's thread: it holds no buffers.
const STACK: usize = 128 << 10;

/// Bounds of a flow on one side.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Most bytes in each direction.
    pub bytes: u64,
    /// Most bytes per second in each direction.
    pub rate: Option<u64>,
}

/// Streams of one side of a flow.
#[derive(Debug, Default)]
pub struct Streams {
    /// Streams to send on.
    pub sending: Vec<Socket>,
    /// Streams to receive from.
    pub receiving: Vec<Socket>,
}

/// Sends and receives until all streams have ended.
pub fn run(streams: Streams, order: &FlowOrder, bounds: Bounds) -> io::Result<Flowed> {
    let began = Instant::now();
    let until = began + Duration::from_millis(u64::from(order.milliseconds));
    let counted = Arc::new(AtomicU64::new(0));
    let share = |count: usize| Bounds {
        bytes: bounds.bytes / count.max(1) as u64,
        rate: bounds.rate.map(|rate| (rate / count.max(1) as u64).max(1)),
    };
    let senders: Vec<JoinHandle<(u64, Sender)>> = {
        let share = share(streams.sending.len());
        let message = order.message as usize;
        let start =
            |stream: Socket| Builder::new().stack_size(STACK).spawn(move || send(&stream, message, until, share));
        streams.sending.into_iter().map(start).collect::<io::Result<_>>()?
    };
    let receivers: Vec<JoinHandle<u64>> = {
        let share = share(streams.receiving.len());
        let start = |stream: Socket| {
            let counted = Arc::clone(&counted);
            Builder::new().stack_size(STACK).spawn(move || receive(&stream, &counted, share))
        };
        streams.receiving.into_iter().map(start).collect::<io::Result<_>>()?
    };
    let mut flowed = Flowed::default();
    let window = Duration::from_millis(u64::from(order.window));
    let (mut first, mut first_cpu) = (monotonic_raw(), process_cpu_time());
    // The first half holds the start of the flow: no CPU time is counted there.
    let settled = began + (until - began) / 2;
    let mut next = began + window;
    while Instant::now() < until {
        std::thread::sleep(next.min(until).saturating_duration_since(Instant::now()));
        let now = monotonic_raw();
        if !receivers.is_empty() {
            flowed.windows.push((counted.load(Ordering::Relaxed), now));
        }
        if Instant::now() < settled {
            (first, first_cpu) = (now, process_cpu_time());
        }
        next += window;
    }
    flowed.span = monotonic_raw() - first;
    flowed.cpu_time = process_cpu_time() - first_cpu;
    for sender in senders {
        if let Ok((sent, facts)) = sender.join() {
            flowed.sent += sent;
            flowed.senders.push(facts);
        }
    }
    flowed.received = receivers.into_iter().filter_map(|receiver| receiver.join().ok()).sum();
    Ok(flowed)
}

/// Writes messages until the time is up; returns bytes written and what TCP says then.
fn send(stream: &Socket, message: usize, until: Instant, bounds: Bounds) -> (u64, Sender) {
    if let Some(rate) = bounds.rate {
        // Where the kernel cannot pace, the flow is only bounded by its bytes.
        let _ = socket::limit_rate(stream.as_fd(), rate);
    }
    // As programs do that move bulk: small writes may be put together.
    let _ = stream.set_tcp_nodelay(false);
    let buffer: Vec<u8> = (0..message).map(|index| index as u8).collect();
    let mut sent = 0_u64;
    let mut writes = 0_u32;
    // The clock is read once in a while: it costs as much as a small message.
    let between = (READ / message.max(1)).clamp(1, 64) as u32;
    while (!writes.is_multiple_of(between) || Instant::now() < until) && sent < bounds.bytes {
        match socket::answered(socket::write(stream.as_fd(), &buffer)) {
            Ok(count) => sent += count as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
        writes = writes.wrapping_add(1);
    }
    let facts = socket::tcp_info(stream.as_fd()).unwrap_or_default();
    let _ = stream.shutdown(std::net::Shutdown::Write);
    // The other side closes when it has read everything: until then the bytes are on their way.
    let mut rest = [0_u8; 1];
    let _ = socket::answered(socket::read(stream.as_fd(), &mut rest));
    let sender = Sender {
        retransmissions: facts.retransmissions,
        round_trip: facts.round_trip,
        segment: facts.segment,
        congestion_window: facts.congestion_window,
        offered_window: facts.offered_window,
        busy: facts.busy,
        receiver_limited: facts.receiver_limited,
        buffer_limited: facts.buffer_limited,
    };
    (sent, sender)
}

/// Reads until the end; adds every read to the common count.
///
/// It waits for bytes, then reads until its buffer is full or nothing is left. A read that blocks returns with the first
/// part of what is on its way; receivers that read on carried a few percent more under BBR, presumably for how
/// the bytes are acknowledged.
fn receive(stream: &Socket, counted: &AtomicU64, bounds: Bounds) -> u64 {
    if stream.set_nonblocking(true).is_err() {
        return 0;
    }
    let mut buffer = vec![0_u8; READ];
    let began = Instant::now();
    let mut received = 0_u64;
    'flow: while received < bounds.bytes && comes(stream, STALLED) {
        let mut filled = 0;
        while filled < READ {
            match socket::answered(socket::read(stream.as_fd(), &mut buffer[filled..])) {
                Ok(0) => break 'flow,
                Ok(count) => {
                    filled += count;
                    received += count as u64;
                    counted.fetch_add(count as u64, Ordering::Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => break 'flow,
            }
        }
        if let Some(rate) = bounds.rate {
            let due = Duration::from_secs_f64(received as f64 / rate as f64);
            std::thread::sleep(due.saturating_sub(began.elapsed()).min(STALLED));
        }
    }
    received
}
