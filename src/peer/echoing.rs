//! Echo services: each blocks in a read of its connection and writes back what it read. Nothing stands in between: no poll, no
//! queue, no second thread.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::statistics::summary::median;
use crate::sys::clock::monotonic_raw;
use crate::sys::socket;

use super::data::{self, OPENING, Token};
use super::limits::MOST_RESIDENCES;
use super::protocol::Echoed;

/// Longest datagram.
const DATAGRAM: usize = 1 << 16;
/// Stack of a service: it holds no buffers.
const STACK: usize = 128 << 10;

/// How a service answers.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// Every echo is held this long, spinning.
    pub hold: Duration,
    /// Take the time between read and write: two readings of the clock in every exchange.
    pub residence: bool,
    /// Most bytes that are answered.
    pub bytes: u64,
}

/// Services that run.
#[derive(Debug, Default)]
pub struct Services {
    running: Vec<JoinHandle<Echoed>>,
    sockets: Vec<Arc<Socket>>,
    ending: Arc<AtomicBool>,
}

/// Counts of one service while it runs.
struct Count {
    manner: Manner,
    exchanges: u64,
    bytes: u64,
    residences: Vec<f64>,
    arrived: i64,
}

impl Count {
    fn new(manner: Manner) -> Self {
        Count { manner, exchanges: 0, bytes: 0, residences: Vec::new(), arrived: 0 }
    }

    /// Right after the read.
    #[inline(always)]
    fn arrived(&mut self) {
        if self.manner.residence {
            self.arrived = monotonic_raw();
        }
        if !self.manner.hold.is_zero() {
            let until = monotonic_raw() + self.manner.hold.as_nanos() as i64;
            while monotonic_raw() < until {
                std::hint::spin_loop();
            }
        }
    }

    /// Right before the write; false when the session has had its bytes.
    #[inline(always)]
    fn leaves(&mut self, bytes: usize) -> bool {
        if self.manner.residence && self.residences.len() < MOST_RESIDENCES {
            self.residences.push((monotonic_raw() - self.arrived) as f64);
        }
        self.exchanges += 1;
        self.bytes += bytes as u64;
        self.bytes <= self.manner.bytes
    }

    fn report(self, protocol: &str, bytes: u32) -> Echoed {
        Echoed {
            protocol: protocol.to_owned(),
            bytes,
            exchanges: self.exchanges,
            residence: median(&self.residences).map(|found| found as u64),
            longest_residence: self.residences.iter().copied().reduce(f64::max).map(|found| found as u64),
        }
    }
}

impl Services {
    /// Services that are open.
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Opens a TCP service for messages of one size on a separate port.
    pub fn open_tcp(
        &mut self,
        at: IpAddr,
        client: IpAddr,
        token: Token,
        bytes: u32,
        manner: Manner,
    ) -> io::Result<u16> {
        let listener = data::listen(at, None, None)?;
        let port = data::port(&listener)?;
        self.run(move || {
            let mut count = Count::new(manner);
            if let Ok(connection) = data::admit(&listener, client, &token, Instant::now() + OPENING) {
                // An idle client is the session's affair, which ends its services with itself.
                let _ = connection.set_read_timeout(None);
                echo_stream(connection.as_fd(), bytes, &mut count);
            }
            count.report("tcp", bytes)
        })?;
        Ok(port)
    }

    /// Opens a UDP service for one client's port.
    pub fn open_udp(&mut self, at: IpAddr, client: SocketAddr, manner: Manner) -> io::Result<u16> {
        let socket = UdpSocket::bind(SocketAddr::new(at, 0))?;
        socket.connect(client)?;
        let port = socket.local_addr()?.port();
        let socket = Arc::new(Socket::from(socket));
        self.sockets.push(Arc::clone(&socket));
        let ending = Arc::clone(&self.ending);
        self.run(move || {
            let mut count = Count::new(manner);
            echo_datagrams(&socket, &ending, &mut count);
            count.report("udp", 0)
        })?;
        Ok(port)
    }

    /// Serves one end of a pair of Unix sockets.
    pub fn open_unix(&mut self, end: OwnedFd, bytes: u32, manner: Manner) -> io::Result<()> {
        let socket = Arc::new(Socket::from(end));
        self.sockets.push(Arc::clone(&socket));
        self.run(move || {
            let mut count = Count::new(manner);
            echo_stream(socket.as_fd(), bytes, &mut count);
            count.report("unix", bytes)
        })
    }

    fn run(&mut self, service: impl FnOnce() -> Echoed + Send + 'static) -> io::Result<()> {
        self.running.push(Builder::new().stack_size(STACK).spawn(service)?);
        Ok(())
    }

    /// Ends all services and collects their counts. TCP services end with their connections, which the client has closed.
    pub fn end(&mut self) -> Vec<Echoed> {
        self.ending.store(true, Ordering::Relaxed);
        for socket in self.sockets.drain(..) {
            // Wakes who waits there; a client that is gone may have done so already.
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
        let counts = self.running.drain(..).filter_map(|service| service.join().ok()).collect();
        self.ending = Arc::default();
        counts
    }
}

fn echo_stream(stream: std::os::fd::BorrowedFd<'_>, bytes: u32, count: &mut Count) {
    let mut buffer = vec![0_u8; bytes as usize];
    loop {
        match socket::read_all(stream, &mut buffer) {
            Ok(()) => {}
            Err(error) if socket::timed_out(&error) => continue,
            Err(_) => return,
        }
        count.arrived();
        if !count.leaves(buffer.len()) || socket::write_all(stream, &buffer).is_err() {
            return;
        }
    }
}

fn echo_datagrams(socket: &Socket, ending: &AtomicBool, count: &mut Count) {
    let mut buffer = vec![0_u8; DATAGRAM];
    while !ending.load(Ordering::Relaxed) {
        // An absent client (ECONNREFUSED), not there yet or no longer, is not a reason to end: datagrams get lost.
        let Ok(length) = socket::answered(socket::read(socket.as_fd(), &mut buffer)) else { continue };
        count.arrived();
        if length > 0 && !count.leaves(length) {
            return;
        }
        let _ = socket::answered(socket::write(socket.as_fd(), &buffer[..length]));
    }
}
