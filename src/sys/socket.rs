//! Sockets: reads and writes made directly, echo sockets of the control protocol, what TCP knows of a connection.

use std::ffi::c_void;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::socket::{UnixAddr, bind};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::arch::system_call;
use super::operation::Operation;

/// read(2): bytes read, or a negative error number. No library stands in between, so nothing but the call is timed.
#[inline(always)]
pub fn read(from: BorrowedFd<'_>, into: &mut [u8]) -> i64 {
    // SAFETY: the kernel writes at most as many bytes as the buffer has.
    unsafe { system_call(libc::SYS_read, [i64::from(from.as_raw_fd()), into.as_mut_ptr() as i64, into.len() as i64]) }
}

/// write(2): bytes written, or a negative error number. The signal of a closed pipe is ignored in every Rust program.
#[inline(always)]
pub fn write(to: BorrowedFd<'_>, bytes: &[u8]) -> i64 {
    // SAFETY: the kernel reads at most as many bytes as the buffer has.
    unsafe { system_call(libc::SYS_write, [i64::from(to.as_raw_fd()), bytes.as_ptr() as i64, bytes.len() as i64]) }
}

/// Answer of [`read`] or [`write`] as a result.
pub fn answered(answer: i64) -> io::Result<usize> {
    if answer < 0 { Err(io::Error::from_raw_os_error(-answer as i32)) } else { Ok(answer as usize) }
}

/// Reads until the buffer is full. The end of the stream is a separate kind of error.
#[inline(always)]
pub fn read_all(from: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < into.len() {
        match answered(read(from, &mut into[filled..])) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes the whole buffer.
#[inline(always)]
pub fn write_all(to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        match answered(write(to, &bytes[written..])) {
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A socket that listens, and its address.
struct Listener {
    socket: OwnedFd,
    address: SockAddr,
}

/// Connects to a listener, accepts the connection, and closes both ends. The answer is 0.
extern "C" fn connect_and_accept(listener: *mut c_void) -> i64 {
    // SAFETY: the operation gives the address of a listener, which it holds.
    let listener = unsafe { &*listener.cast::<Listener>() };
    let address = &listener.address;
    // SAFETY: the address is valid for its length. Nothing else knows the two new descriptors.
    unsafe {
        let client = libc::socket(i32::from(address.family()), libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        let connected = libc::connect(client, address.as_ptr().cast(), address.len());
        if !address.is_unix() {
            reset_at_close(client);
        }
        let no_address: *mut c_void = std::ptr::null_mut();
        let server =
            libc::accept4(listener.socket.as_raw_fd(), no_address.cast(), no_address.cast(), libc::SOCK_CLOEXEC);
        i64::from(connected | server.min(0) | libc::close(client) | libc::close(server))
    }
}

/// Has a connection end with a reset, so that no port stays in use for a minute.
unsafe fn reset_at_close(socket: i32) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let bytes = size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: the kernel reads the option, which is as long as that.
    unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), bytes) };
}

impl Operation<'_> {
    /// A connection of a UNIX stream socket to another of the same task, its acceptance, and the closing of both ends. The answer is 0.
    ///
    /// # Errors
    ///
    /// The kernel refuses the listening socket.
    pub fn unix_connection() -> io::Result<Operation<'static>> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // The kernel chooses an abstract name, so that no file is made.
        bind(socket.as_raw_fd(), &UnixAddr::new_unnamed())?;
        Operation::connection(socket)
    }

    /// The same with TCP over the loopback interface. It ends with a reset.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn tcp_connection() -> io::Result<Operation<'static>> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        Operation::connection(socket)
    }

    fn connection(socket: Socket) -> io::Result<Operation<'static>> {
        socket.set_nonblocking(true)?;
        socket.listen(1)?;
        let address = socket.local_addr()?;
        // SAFETY: the function takes a listener.
        Ok(unsafe { Operation::on_value(Listener { socket: socket.into(), address }, connect_and_accept) })
    }
}

/// True for the errors that a time-out of a socket gives.
pub fn timed_out(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn set(socket: BorrowedFd<'_>, level: i32, option: i32, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads exactly the given bytes; the descriptor is borrowed and so open.
    let answer = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), value.len() as libc::socklen_t)
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the kernel send at most this many bytes per second on a socket.
pub fn limit_rate(socket: BorrowedFd<'_>, bytes_per_second: u64) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes_per_second.to_ne_bytes())
}

/// Has the kernel send datagrams of a socket in one packet each, and give an error for each that it refuses.
pub fn send_whole(socket: BorrowedFd<'_>, ipv6: bool) -> io::Result<()> {
    let (level, whole, errors, always) = if ipv6 {
        (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_RECVERR, libc::IPV6_PMTUDISC_DO)
    } else {
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_RECVERR, libc::IP_PMTUDISC_DO)
    };
    set(socket, level, whole, &always.to_ne_bytes())?;
    set(socket, level, errors, &1_i32.to_ne_bytes())
}

/// Datagrams that the kernel has dropped because the receive buffer of a socket was full; none where it does not count them.
pub fn dropped_at_receiver(socket: BorrowedFd<'_>) -> Option<u64> {
    /// `SO_MEMINFO` of `asm-generic/socket.h`, and the position `SK_MEMINFO_DROPS` of `linux/sock_diag.h`.
    const MEMORY: i32 = 55;
    const DROPS: usize = 8;
    let mut words = [0_u32; DROPS + 1];
    let mut length = size_of_val(&words) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into the words, which have that many.
    let answer = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, MEMORY, words.as_mut_ptr().cast(), &raw mut length)
    };
    (answer == 0 && length as usize == size_of_val(&words)).then(|| u64::from(words[DROPS]))
}

/// Binds a socket to an address and leaves the port to connect(2), which may take one that another destination has in use.
pub fn bind_address_alone(socket: &Socket, address: IpAddr) -> io::Result<()> {
    set(socket.as_fd(), libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &1_i32.to_ne_bytes())?;
    socket.bind(&SocketAddr::new(address, 0).into())
}

/// Which socket speaks ICMP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EchoSocket {
    /// The kernel fills in identifier and checksum and gives back this socket's replies only.
    Ping,
    /// Everything is the caller's; IPv4 replies come with their IP header.
    Raw,
}

/// A socket for ICMP echo with a host: unprivileged if the kernel allows it to this group, else raw, connected.
pub fn icmp_echo(to: IpAddr) -> io::Result<(Socket, EchoSocket)> {
    let (domain, protocol) =
        if to.is_ipv4() { (Domain::IPV4, Protocol::ICMPV4) } else { (Domain::IPV6, Protocol::ICMPV6) };
    let (socket, kind) = match Socket::new(domain, Type::DGRAM, Some(protocol)) {
        Ok(socket) => (socket, EchoSocket::Ping),
        Err(_) => (Socket::new(domain, Type::RAW, Some(protocol))?, EchoSocket::Raw),
    };
    if kind == EchoSocket::Raw {
        only_replies(socket.as_fd(), to)?;
    }
    socket.connect(&SocketAddr::new(to, 0).into())?;
    Ok((socket, kind))
}

/// A raw socket sees every ICMP message of the host, its own requests over loopback included: all but replies are filtered.
fn only_replies(socket: BorrowedFd<'_>, to: IpAddr) -> io::Result<()> {
    /// `ICMP_FILTER` of `linux/icmp.h` and `ICMPV6_FILTER` of `linux/icmpv6.h`.
    const FILTER: i32 = 1;
    /// Type of the reply in ICMPv6 (RFC 4443, 4.2).
    const ECHO_REPLY: usize = 129;
    if to.is_ipv4() {
        return set(socket, libc::SOL_RAW, FILTER, &(!1_u32).to_ne_bytes());
    }
    let mut blocked = [u32::MAX; 8];
    blocked[ECHO_REPLY / 32] &= !(1 << (ECHO_REPLY % 32));
    let bytes: Vec<u8> = blocked.iter().flat_map(|word| word.to_ne_bytes()).collect();
    set(socket, libc::IPPROTO_ICMPV6, FILTER, &bytes)
}

/// What TCP knows of a connection (`struct tcp_info` of `linux/tcp.h`); what an older kernel does not say is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// 1 is established.
    pub state: u8,
    /// Segments sent again since the connection began, SYN included.
    pub retransmissions: u32,
    /// Smoothed round trip in microseconds.
    pub round_trip: u32,
    /// Payload of a full segment that is sent, in bytes.
    pub segment: u32,
    /// Congestion window in segments.
    pub congestion_window: u32,
    /// Microseconds with data to send.
    pub busy: u64,
    /// Of these, microseconds in which the receiver's window was full.
    pub receiver_limited: u64,
    /// Of these, microseconds in which the send buffer was full.
    pub buffer_limited: u64,
    /// Window that the receiver offers, in bytes.
    pub offered_window: u32,
}

/// Reads it.
pub fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut bytes = [0_u8; 256];
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into the buffer, which has that many.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let long = |at: usize| {
        let mut eight = [0; 8];
        eight.copy_from_slice(&bytes[at..at + 8]);
        u64::from_ne_bytes(eight)
    };
    Ok(TcpInfo {
        state: bytes[0],
        segment: word(16),
        round_trip: word(68),
        congestion_window: word(80),
        retransmissions: word(100),
        busy: long(168),
        receiver_limited: long(176),
        buffer_limited: long(184),
        offered_window: word(228),
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn a_connection_leaves_no_descriptor_open() {
        let operations = [Operation::unix_connection().unwrap(), Operation::tcp_connection().unwrap()];
        let open = || std::fs::File::open("/dev/null").unwrap().as_raw_fd();
        let before = open();
        assert!((0..50).all(|_| Operation::work(&operations)));
        assert!(open() < before + 25);
    }

    #[test]
    fn a_full_receive_buffer_drops_datagrams_and_counts_them() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        send_whole(sender.as_fd(), false).unwrap();
        let Some(before) = dropped_at_receiver(receiver.as_fd()) else { return };
        for _ in 0..2_000 {
            sender.send(&[7; 1_400]).unwrap();
        }
        receiver.set_nonblocking(true).unwrap();
        let arrived = (0..2_000).filter(|_| receiver.recv(&mut [0; 2_000]).is_ok()).count() as u64;
        let dropped = dropped_at_receiver(receiver.as_fd()).unwrap() - before;
        assert!(dropped > 0 && arrived + dropped == 2_000, "{arrived} arrived, {dropped} dropped");
    }

    #[test]
    fn tcp_tells_of_an_established_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        write_all(stream.as_fd(), &[7; 1000]).unwrap();
        let mut bytes = [0; 1000];
        read_all(other.as_fd(), &mut bytes).unwrap();
        let info = tcp_info(stream.as_fd()).unwrap();
        assert_eq!((info.state, info.retransmissions), (1, 0));
        assert!(info.segment > 500 && info.congestion_window > 0 && info.round_trip > 0, "{info:?}");
        assert!(info.round_trip < 1_000_000 && info.offered_window > 1000, "{info:?}");
        drop(other);
        assert_eq!(read_all(stream.as_fd(), &mut bytes).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
