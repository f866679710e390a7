//! The blocking stream beneath the client library. What a server sends is bounded here before the library sees it: how long an
//! answer is, how long it takes altogether, and the one length in its head for which the library would take memory.

use std::future::Future;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use nfs3_client::io::{AsyncRead, AsyncWrite};
use nfs3_types::rpc::fragment_header;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::sys::socket;

/// Longest wait for a connection, and for any answer to be there whole.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Longest answer that is believed: the longest read of any server, and its head.
const LONGEST_ANSWER: usize = (4 << 20) + 4096;
/// Longest verifier in the head of an answer (RFC 5531, 8.2).
const LONGEST_VERIFIER: u32 = 400;
/// Ports from which only root can send. Many servers answer no other port. Tried from the highest.
const PRIVILEGED: std::ops::Range<u16> = 665..1023;

/// A blocking stream under the client library.
#[derive(Debug)]
pub(super) struct RpcStream {
    pub tcp: TcpStream,
    /// Bytes of the answer that are still to come.
    left: usize,
    /// When the answer has to be there.
    due: Instant,
}

fn wrong(why: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

impl RpcStream {
    /// Reads by the time at which the answer is due. A read of the socket waits for [`PATIENCE`] at most; where bytes come in
    /// drops, the clock is looked at between them, so one read of a whole answer costs no look.
    fn fill(&mut self, into: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < into.len() {
            match socket::answered(socket::read(self.tcp.as_fd(), &mut into[filled..])) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if filled < into.len() && Instant::now() > self.due {
                let words = format!("the answer was incomplete after {} s", PATIENCE.as_secs());
                return Err(io::Error::new(ErrorKind::TimedOut, words));
            }
        }
        Ok(())
    }
}

impl AsyncRead for RpcStream {
    async fn async_read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.tcp.read(into)
    }

    /// The library asks for the word before an answer and then for as many bytes as it says, so both are checked here.
    async fn async_read_exact(&mut self, into: &mut [u8]) -> io::Result<()> {
        self.fill(into)?;
        if self.left > 0 {
            self.left = self.left.saturating_sub(into.len());
            return check_head(into);
        }
        if let Ok(head) = <[u8; 4]>::try_from(&*into) {
            self.left = fragment_header::from(head).fragment_length() as usize;
            if self.left > LONGEST_ANSWER {
                return Err(wrong(format!("an answer of {} bytes", self.left)));
            }
        }
        Ok(())
    }
}

impl AsyncWrite for RpcStream {
    async fn async_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tcp.write(bytes)
    }

    async fn async_write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.due = Instant::now() + PATIENCE;
        socket::write_all(self.tcp.as_fd(), bytes)
    }
}

/// The head of an answer: number, kind, whether it was accepted, verifier. The library would take memory for a call's
/// credentials, and for a verifier, as long as they say they are.
fn check_head(answer: &[u8]) -> io::Result<()> {
    const REPLY: u32 = 1;
    const ACCEPTED: u32 = 0;
    let word = |number: usize| {
        let bytes = answer.get(4 * number..4 * number + 4)?;
        bytes.try_into().ok().map(u32::from_be_bytes)
    };
    if word(1) != Some(REPLY) {
        return Err(wrong("the received data is not an answer to a call".to_owned()));
    }
    if word(2) == Some(ACCEPTED) && word(4).is_none_or(|length| length > LONGEST_VERIFIER) {
        return Err(wrong(format!("an answer with a verifier of {} bytes", word(4).unwrap_or(0))));
    }
    Ok(())
}

/// The outcome of a future that never waits for anything but calls of the kernel.
pub(super) fn now<T>(future: impl Future<Output = T>) -> Result<T, String> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Ok(outcome),
        Poll::Pending => Err("the client waits for something other than the network".to_owned()),
    }
}

/// Connects, as root from a privileged port, because many servers answer no other port.
pub(super) fn connect(to: SocketAddr) -> io::Result<RpcStream> {
    let mut last = None;
    let first = fastrand::u16(PRIVILEGED);
    let privileged = (PRIVILEGED.start..=first).rev().chain((first + 1..PRIVILEGED.end).rev()).map(Some).take(40);
    let ports: Vec<Option<u16>> =
        if nix::unistd::geteuid().is_root() { privileged.chain([None]).collect() } else { vec![None] };
    for port in ports {
        let domain = if to.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let socket = Socket::new(domain, Type::STREAM, None)?;
        if let Some(port) = port {
            let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            // A port that is taken, or that may not be had, is passed over.
            if socket.bind(&SockAddr::from(SocketAddr::new(any, port))).is_err() {
                continue;
            }
        }
        match socket.connect_timeout(&SockAddr::from(to), PATIENCE) {
            Ok(()) => {
                socket.set_tcp_nodelay(true)?;
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.set_write_timeout(Some(PATIENCE))?;
                return Ok(RpcStream { tcp: socket.into(), left: 0, due: Instant::now() + PATIENCE });
            }
            // The same pair of ports may still be closing.
            Err(error) if [ErrorKind::AddrInUse, ErrorKind::AddrNotAvailable].contains(&error.kind()) => {
                last = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::other("this machine has no free port")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn heads_with_lengths_beyond_reason_are_refused() {
        assert!(check_head(&words(&[7, 1, 0, 0, 0, 0])).is_ok());
        assert!(check_head(&words(&[7, 1, 0, 0, 400, 0])).is_ok());
        assert!(check_head(&words(&[7, 1, 1, 1, 0x7fff_ffff])).is_ok(), "a refusal has no verifier");
        for wrong in [&[7, 1, 0, 0, 0x7fff_fff0][..], &[7, 1, 0, 0], &[7, 0, 2, 3, 3, 1, 0, u32::MAX], &[7], &[]] {
            assert!(check_head(&words(wrong)).is_err(), "{wrong:?}");
        }
    }
}
