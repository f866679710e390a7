//! # Question
//!
//! What does it cost to send bytes through a pipe or a socket of this machine, without the switch to another task?
//!
//! # Method
//!
//! One task writes bytes to a channel and reads them back, in ordinary work, from loops at drawn places (as in os.system_call). What
//! the same work takes without the two calls is taken off. The rest divided by the operations is the cost of one write and
//! one read, in core cycles by the clock probes around each batch.
//!
//! - **pipe**: pipe(2). A FIFO is the same with a name.
//! - **unix_stream**, **unix_datagram**: a pair of UNIX sockets, by write(2) and read(2).
//! - **udp**: a UDP socket that is connected to itself. **tcp**: two TCP sockets, both over the loopback interface.
//! - **eventfd**: the counter of eventfd(2), which has eight bytes.
//! - **unix_connection**: transfers no bytes. The task makes a UNIX stream socket, connects it to a listening socket of the same task,
//!   accepts the connection, and closes both ends. The calls are those of the C library, in a function.
//! - **tcp_connection**: the same with TCP over the loopback interface. It ends with a reset, so that no port stays in use.
//!
//! Every return value is compared with the number of bytes, without a branch. The descriptors do not block, or wait at
//! most 1 s (udp, tcp). A channel that is too small for the bytes therefore fails, and does not hang. The same launch times getppid(2) in the same way, as the lower limit of the
//! gates.
//!
//! # Prediction
//!
//! Two kernel entries cost as much as two calls of getppid(2). Counted instructions run at the pace of the system calls of this run. The
//! bytes are copied twice. In a large transfer, each page has its own allocation and release.
//!
//! # What could fool us
//!
//! - Between two tasks, a wake-up and a switch come on top (os.context_switch), or the reader runs on another CPU.
//! - The bytes stay in the first or second cache. A program that reads new data waits for memory, too.
//! - A pipe of 64 KiB is full with one write. A user with many pipes gets smaller ones (pipe-user-pages-soft), and the write fails.
//! - Packets within a machine pass its firewall. The task that sends also does the kernel's work of receiving, without a wake-up.
//! - Sockets count their memory. With a small limit (net.core.wmem_default) a large write fails.
//!
//! # References
//!
//! - pipe(7), unix(7), eventfd(2)
//! - Linux fs/pipe.c, net/unix/af_unix.c
//! - McVoy & Staelin, USENIX 1996 (lat_pipe, lat_unix, bw_pipe, bw_unix)

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::pipe2;

use super::operation::Operations;
use super::row::Row;
use crate::experiments::prelude::*;
use crate::results::wording::times;
use crate::rig::placed::WORK_LONGER;
use crate::sys::operation::Operation;

/// The row of the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "os.channel",
    title: "Channels",
    measures: "a write and a read through pipes, sockets and eventfd, by bytes",
    words: &["channels", "pipes", "ipc", "eventfd"],
    method_version: 1,
    precision: Precision { target: 0.08, between: 0.05, busy: 0.05 },
    source: heading!("channel.rs"),
    uses: &["cpu.cycle_time", "os.system_call.time"],
    words_of: |key, value| OPERATIONS.phrase(key, value),
    publishes: &[Publication::cost(
        TIME,
        Unit::Nanoseconds,
        "one write and one read of these bytes by the same task, or one connection",
    )
    .in_summary()],
    seconds: |_| 0.2,
    time_out: 10.0,
    predict: |by| OPERATIONS.predict(by),
    measure: |rig| OPERATIONS.measure(rig),
    figures: |study, findings| OPERATIONS.figures(study, findings),
    explain,
    ..Experiment::DEFAULT
};

const TIME: &str = "os.channel.time";
const PIPE: &str = "pipe";
const STREAM: &str = "unix_stream";
const DATAGRAM: &str = "unix_datagram";
/// Bytes of a page on most machines, and of a pipe without a larger limit.
const BLOCK: u64 = 4096;
const FULL: u64 = 16 * BLOCK;
const UNIX_CONNECTION: &str = "unix_connection";
const TCP_CONNECTION: &str = "tcp_connection";
/// How long a socket of the network waits for its bytes.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

pub(in crate::experiments) static OPERATIONS: Operations = Operations {
    metric: TIME,
    label: "through",
    rows: &[
        row((PIPE, PIPE), 1, 900.0, || pipe(1)),
        row((PIPE, PIPE), BLOCK, 1100.0, || pipe(BLOCK)),
        row((PIPE, PIPE), FULL, 12_000.0, || pipe(FULL)),
        row((STREAM, "UNIX stream socket"), 1, 4200.0, || sockets(SockType::Stream, 1)),
        row((STREAM, "UNIX stream socket"), BLOCK, 4800.0, || sockets(SockType::Stream, BLOCK)),
        row((STREAM, "UNIX stream socket"), FULL, 12_000.0, || sockets(SockType::Stream, FULL)),
        row((DATAGRAM, "UNIX datagram socket"), 1, 4500.0, || sockets(SockType::Datagram, 1)),
        row((DATAGRAM, "UNIX datagram socket"), BLOCK, 5000.0, || sockets(SockType::Datagram, BLOCK)),
        row(("udp", "UDP socket"), 1, 6500.0, udp),
        row(("tcp", "TCP socket"), 1, 16_000.0, || tcp(1)),
        row(("tcp", "TCP socket"), BLOCK, 16_500.0, || tcp(BLOCK)),
        row(("eventfd", "eventfd"), 8, 700.0, || {
            let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
            Ok(Operation::two_on_files(event, |event| {
                [Operation::write(event.as_fd(), 8, 1), Operation::read(event.as_fd(), 8)]
            }))
        }),
        Row {
            entries: 5.0,
            ..connection(UNIX_CONNECTION, "connection of UNIX stream sockets", 16_000.0, Operation::unix_connection)
        },
        Row { entries: 6.0, ..connection(TCP_CONNECTION, "connection by TCP", 64_000.0, Operation::tcp_connection) },
    ],
    sizing: Sizing::ByTimes(WORK_LONGER),
    placed_since: 1,
};

/// A channel with a number of bytes.
const fn row(
    (name, phrase): (&'static str, &'static str),
    bytes: u64,
    instructions: f64,
    make: fn() -> io::Result<[Operation<'static>; 2]>,
) -> Row {
    Row {
        size: Some(("bytes", bytes)),
        ..Row::pair(
            name,
            phrase,
            "file or socket layer, memory for the bytes, and look for a waiting task",
            instructions,
            make,
        )
    }
}

/// A connection without bytes.
const fn connection(
    name: &'static str,
    phrase: &'static str,
    instructions: f64,
    make: fn() -> io::Result<Operation<'static>>,
) -> Row {
    let one = Row::call(name, phrase, "two sockets, a connection, and its end", instructions, make);
    Row { size: Some(("bytes", 0)), ..one }
}

/// A UDP socket that is connected to itself.
fn udp() -> io::Result<[Operation<'static>; 2]> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(socket.local_addr()?)?;
    socket.set_read_timeout(Some(LONGEST_WAIT))?;
    Ok(transfer((socket.try_clone()?, socket), 1))
}

/// A pair of TCP sockets.
fn tcp(bytes: u64) -> io::Result<[Operation<'static>; 2]> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let writer = TcpStream::connect(listener.local_addr()?)?;
    let (reader, _) = listener.accept()?;
    writer.set_nodelay(true)?;
    writer.set_write_timeout(Some(LONGEST_WAIT))?;
    reader.set_read_timeout(Some(LONGEST_WAIT))?;
    Ok(transfer((reader, writer), bytes))
}

/// A pipe, and both ends of it.
fn pipe(bytes: u64) -> io::Result<[Operation<'static>; 2]> {
    Ok(transfer(pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?, bytes))
}

/// A pair of UNIX sockets.
fn sockets(kind: SockType, bytes: u64) -> io::Result<[Operation<'static>; 2]> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    Ok(transfer(socketpair(AddressFamily::Unix, kind, None, flags)?, bytes))
}

/// A write to the second end, and a read from the first.
fn transfer<T: AsFd + Send + Sync + 'static>(ends: (T, T), bytes: u64) -> [Operation<'static>; 2] {
    Operation::two_on_files(ends, |(reader, writer)| {
        [Operation::write_zeros(writer.as_fd(), bytes as usize), Operation::read(reader.as_fd(), bytes as usize)]
    })
}

fn explain(_: &Study<'_>, findings: &mut Findings) {
    let time = |through: &str, bytes: u64| {
        let labels = Labels::of([("through", through)]).with("bytes", bytes);
        findings.metric(TIME, &labels).cloned()
    };
    let (unix, tcp) = (time(UNIX_CONNECTION, 0), time(TCP_CONNECTION, 0));
    let (Some(one), Some(full), Some(stream)) = (time(PIPE, 1), time(PIPE, FULL), time(STREAM, FULL)) else { return };
    findings.say(format!(
        "One byte through a pipe and back to the same task costs {}. 64 KiB cost {} through a pipe, and {} through a UNIX socket.",
        one.shown(),
        full.shown(),
        stream.shown()
    ));
    if let (Some(unix), Some(tcp)) = (unix, tcp) {
        findings.say(format!(
            "A connection within the machine costs {} by UNIX sockets and {} by TCP. One task makes at most {} TCP connections per second.",
            unix.shown(),
            tcp.shown(),
            times(1e9 / tcp.value)
        ));
    }
}
