//! Data connections: opened by a token of the session, from the address of its client only.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::PollFlags;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::sys::socket;

use super::authentication::{hexadecimal, random};
use super::channel;

/// Bytes of a token.
pub const TOKEN: usize = 16;
/// Opens a data connection.
pub type Token = [u8; TOKEN];

/// Time for a data connection to come and to show its token.
pub const OPENING: Duration = Duration::from_secs(5);
/// A read or write of payload that takes longer than this has lost its other side.
pub const STALLED: Duration = Duration::from_secs(3);
/// Connections that may wait to be accepted.
const QUEUE: i32 = 1024;

/// A fresh token.
pub fn token() -> io::Result<Token> {
    let bytes = random().map_err(|problem| io::Error::other(problem.what))?;
    let mut token = [0; TOKEN];
    token.copy_from_slice(&bytes[..TOKEN]);
    Ok(token)
}

/// A token as text.
pub fn token_text(token: &Token) -> String {
    hexadecimal(token)
}

/// A token from its text.
pub fn token_of(text: &str) -> Option<Token> {
    if text.len() != 2 * TOKEN || !text.is_ascii() {
        return None;
    }
    let mut token = [0; TOKEN];
    for (index, byte) in token.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(token)
}

fn stream_socket(address: IpAddr) -> io::Result<Socket> {
    Socket::new(if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 }, Type::STREAM, None)
}

/// A listener on a port of the kernel's choice. The receive buffer has to be set before the handshake offers a window.
pub fn listen(address: IpAddr, queue: Option<i32>, receive_buffer: Option<u32>) -> io::Result<Socket> {
    let listener = stream_socket(address)?;
    if let Some(bytes) = receive_buffer {
        listener.set_recv_buffer_size(bytes as usize)?;
    }
    listener.bind(&SockAddr::from(SocketAddr::new(address, 0)))?;
    listener.listen(queue.unwrap_or(QUEUE))?;
    Ok(listener)
}

/// The port of a bound socket.
pub fn port(socket: &Socket) -> io::Result<u16> {
    socket.local_addr()?.as_socket().map(|address| address.port()).ok_or_else(|| io::Error::other("no IP socket"))
}

/// Waits for something to read; false when time is up.
pub fn comes(socket: impl AsFd, within: Duration) -> bool {
    channel::wait(socket, PollFlags::POLLIN, Instant::now() + within).is_ok()
}

/// Accepts the next connection that comes from the client's address and shows the token, by a deadline. Others are closed.
pub fn admit(listener: &Socket, client: IpAddr, token: &Token, deadline: Instant) -> io::Result<Socket> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || !comes(listener, left) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let (connection, from) = listener.accept()?;
        if from.as_socket().map(|address| address.ip().to_canonical()) != Some(client.to_canonical()) {
            continue;
        }
        let mut shown = [0; TOKEN];
        let soon = Instant::now() + Duration::from_secs(1);
        // Which byte of a random token is wrong cannot be timed over a network in one try, and there is one try.
        if channel::fill(&connection, &mut shown, soon.min(deadline)).is_ok() && shown == *token {
            prepare(&connection)?;
            return Ok(connection);
        }
    }
}

/// What every data connection has: small messages leave at once, and no read or write waits for ever.
pub fn prepare(connection: &Socket) -> io::Result<()> {
    connection.set_tcp_nodelay(true)?;
    connection.set_read_timeout(Some(STALLED))?;
    connection.set_write_timeout(Some(STALLED))
}

/// Opens a data connection.
pub fn open(to: SocketAddr, token: &Token, receive_buffer: Option<u32>) -> io::Result<Socket> {
    let socket = stream_socket(to.ip())?;
    if let Some(bytes) = receive_buffer {
        socket.set_recv_buffer_size(bytes as usize)?;
    }
    socket.connect_timeout(&SockAddr::from(to), STALLED)?;
    prepare(&socket)?;
    socket::write_all(socket.as_fd(), token)?;
    Ok(socket)
}

/// Connects the control stream.
pub fn connect(to: SocketAddr, within: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, within)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_their_text() {
        let token = token().unwrap();
        assert_eq!(token_of(&token_text(&token)), Some(token));
        for wrong in ["", "00", &"zz".repeat(TOKEN), &"é".repeat(TOKEN)] {
            assert_eq!(token_of(wrong), None);
        }
    }

    #[test]
    fn only_the_token_opens() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let listener = listen(here, None, None).unwrap();
        let to = SocketAddr::new(here, port(&listener).unwrap());
        let token = token().unwrap();
        let wrong = open(to, &[0; TOKEN], None).unwrap();
        let right = open(to, &token, None).unwrap();
        let admitted = admit(&listener, here, &token, Instant::now() + OPENING).unwrap();
        let own = right.local_addr().unwrap().as_socket();
        assert_eq!(admitted.peer_addr().unwrap().as_socket(), own);
        assert!(comes(&wrong, OPENING), "the other one is closed");
        let stranger = IpAddr::from([127, 0, 0, 9]);
        let _right = open(to, &token, None).unwrap();
        assert!(admit(&listener, stranger, &token, Instant::now() + Duration::from_millis(100)).is_err());
    }
}
