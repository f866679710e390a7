//! The control channel: messages of bounded length, each sealed with the key of the session and counted.
//!
//! ```text
//! length of the content, 4 bytes, little-endian │ seal, 32 bytes │ content
//! ```
//!
//! The seal is a keyed hash over the direction, the number of the message, its length and its content: a message that was
//! changed, cut short, replayed, reordered or turned round breaks it. A length beyond the receiver's bound is refused
//! before memory is taken, and a message has one deadline for all of its bytes, however slowly they come.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use hmac::Mac;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::results::problem::Problem;
use crate::sys::socket;

use super::authentication::{BYTES, keyed, random};

/// Which side a channel belongs to. In a mesh the members connect and serve, and the lead asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It connected and has proved the secret first.
    Client,
    /// It accepted the connection.
    Peer,
}

/// Longest message of the side that connected: requests are small, and so are the answers of a member.
pub const LONGEST_REQUEST: usize = 4 << 10;
/// Longest message of the side that accepted: machine descriptions and windows of a flow.
pub const LONGEST_REPLY: usize = 1 << 20;
/// Bytes before the content.
const HEAD: usize = 4 + BYTES;

/// Why no message came.
#[derive(Debug)]
pub enum Silence {
    /// The other side closed the channel between two messages.
    Closed,
    /// Nothing came in time.
    TimedOut,
    /// What came is not a message of this session.
    Broken(String),
}

impl Silence {
    /// In words.
    pub fn words(&self) -> String {
        match self {
            Silence::Closed => "it closed the connection".to_owned(),
            Silence::TimedOut => "it does not answer".to_owned(),
            Silence::Broken(why) => format!("the connection failed: {why}"),
        }
    }
}

/// One end of a control channel.
#[derive(Debug)]
pub struct Channel {
    stream: OwnedFd,
    key: [u8; BYTES],
    side: Side,
    sent: u64,
    received: u64,
}

impl Channel {
    /// A channel over a connected stream.
    pub fn new(stream: OwnedFd, key: [u8; BYTES], side: Side) -> Self {
        // A write that could block would not see its deadline; a stream that refuses this only loses that.
        let _ = socket2::SockRef::from(&stream).set_nonblocking(true);
        Channel { stream, key, side, sent: 0, received: 0 }
    }

    /// Both ends of a channel between this process and a child.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = UnixStream::pair()?;
        let key = random().map_err(|problem| io::Error::other(problem.what))?;
        Ok((Channel::new(one.into(), key, Side::Client), Channel::new(other.into(), key, Side::Peer)))
    }

    /// The stream.
    pub fn stream(&self) -> &OwnedFd {
        &self.stream
    }

    /// Own address on the way to the other side.
    pub fn local_address(&self) -> Option<IpAddr> {
        let local = socket2::SockRef::from(&self.stream).local_addr().ok()?;
        local.as_socket().map(|local| local.ip().to_canonical())
    }

    /// Sends one message.
    pub fn send(&mut self, message: &impl Serialize, within: Duration) -> Result<(), Silence> {
        let content = serde_json::to_vec(message).map_err(|error| Silence::Broken(error.to_string()))?;
        let longest = if self.side == Side::Client { LONGEST_REQUEST } else { LONGEST_REPLY };
        if content.len() > longest {
            return Err(Silence::Broken(format!("a message of {} bytes is too long", content.len())));
        }
        let mut bytes = Vec::with_capacity(HEAD + content.len());
        bytes.extend_from_slice(&(content.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.seal(self.side, self.sent, &content).finalize().into_bytes());
        bytes.extend_from_slice(&content);
        self.sent += 1;
        put(self.stream.as_fd(), &bytes, Instant::now() + within)
    }

    /// Receives one message.
    pub fn receive<M: DeserializeOwned>(&mut self, within: Duration) -> Result<M, Silence> {
        let deadline = Instant::now() + within;
        let mut head = [0_u8; HEAD];
        fill(self.stream.as_fd(), &mut head, deadline)?;
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let longest = if self.side == Side::Client { LONGEST_REPLY } else { LONGEST_REQUEST };
        if length > longest {
            return Err(Silence::Broken(format!(
                "a message of {length} bytes was announced, and the limit is {longest}"
            )));
        }
        let mut content = vec![0_u8; length];
        match fill(self.stream.as_fd(), &mut content, deadline) {
            Err(Silence::Closed) if length > 0 => return Err(Silence::Broken("a message ended early".to_owned())),
            other => other?,
        }
        let other = if self.side == Side::Client { Side::Peer } else { Side::Client };
        self.seal(other, self.received, &content)
            .verify_slice(&head[4..])
            .map_err(|_| Silence::Broken("the authentication code of a message is wrong".to_owned()))?;
        self.received += 1;
        serde_json::from_slice(&content).map_err(|error| Silence::Broken(format!("the message is invalid: {error}")))
    }

    /// Whether something has come, or the other side has gone, without waiting.
    pub fn is_waiting(&self) -> bool {
        let mut waited = [PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)];
        poll(&mut waited, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }

    fn seal(&self, from: Side, number: u64, content: &[u8]) -> hmac::Hmac<sha2::Sha256> {
        let mut seal = keyed(&self.key);
        seal.update(&[u8::from(from == Side::Peer)]);
        seal.update(&number.to_le_bytes());
        seal.update(&(content.len() as u32).to_le_bytes());
        seal.update(content);
        seal
    }
}

impl From<Silence> for Problem {
    fn from(silence: Silence) -> Self {
        Problem::new(format!("the connection to the peer is lost: {}", silence.words()))
            .hint("check that the peer still runs and that the machines still reach each other")
    }
}

/// Fills a buffer by a deadline. The end of the stream before its first byte is [`Silence::Closed`].
pub(super) fn fill(stream: impl AsFd, into: &mut [u8], deadline: Instant) -> Result<(), Silence> {
    let mut filled = 0;
    while filled < into.len() {
        wait(stream.as_fd(), PollFlags::POLLIN, deadline)?;
        match part(socket::read(stream.as_fd(), &mut into[filled..]))? {
            Some(0) if filled == 0 => return Err(Silence::Closed),
            Some(0) => return Err(Silence::Broken("a message ended early".to_owned())),
            count => filled += count.unwrap_or(0),
        }
    }
    Ok(())
}

/// Writes all bytes by a deadline.
pub(super) fn put(stream: impl AsFd, bytes: &[u8], deadline: Instant) -> Result<(), Silence> {
    let mut written = 0;
    while written < bytes.len() {
        wait(stream.as_fd(), PollFlags::POLLOUT, deadline)?;
        written += part(socket::write(stream.as_fd(), &bytes[written..]))?.unwrap_or(0);
    }
    Ok(())
}

/// Waits until a stream is ready for something, by a deadline.
pub(super) fn wait(stream: impl AsFd, for_what: PollFlags, deadline: Instant) -> Result<(), Silence> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Silence::TimedOut);
        }
        let milliseconds = left.as_millis().clamp(1, 60_000) as u16;
        let mut waited = [PollFd::new(stream.as_fd(), for_what)];
        match poll(&mut waited, PollTimeout::from(milliseconds)) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(Silence::Broken(error.to_string())),
        }
    }
}

/// Bytes moved; none when the call has to be made again.
fn part(answer: i64) -> Result<Option<usize>, Silence> {
    match socket::answered(answer) {
        Ok(count) => Ok(Some(count)),
        Err(error) => match error.kind() {
            io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => Ok(None),
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Err(Silence::Closed),
            _ => Err(Silence::Broken(error.to_string())),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const SOON: Duration = Duration::from_millis(200);

    fn pair() -> (Channel, Channel, UnixStream) {
        let (one, other) = UnixStream::pair().unwrap();
        let raw = one.try_clone().unwrap();
        let client = Channel::new(one.into(), [5; BYTES], Side::Client);
        (client, Channel::new(other.into(), [5; BYTES], Side::Peer), raw)
    }

    #[test]
    fn messages_arrive_in_their_order() {
        let (mut client, mut peer, _) = pair();
        for number in 0..3 {
            client.send(&number, SOON).unwrap();
        }
        for number in 0..3 {
            assert_eq!(peer.receive::<i32>(SOON).unwrap(), number);
        }
        peer.send(&"yes", SOON).unwrap();
        assert_eq!(client.receive::<String>(SOON).unwrap(), "yes");
        drop(peer);
        assert!(matches!(client.receive::<String>(SOON), Err(Silence::Closed)));
    }

    /// The bytes of one message of a client.
    fn recorded() -> Vec<u8> {
        let (mut client, peer, _) = pair();
        client.send(&"go", SOON).unwrap();
        let mut bytes = vec![0; HEAD + 4];
        fill(peer.stream(), &mut bytes, Instant::now() + SOON).unwrap();
        bytes
    }

    #[test]
    fn replayed_turned_changed_and_cut_messages_are_refused() {
        let message = recorded();
        let (_client, mut peer, mut raw) = pair();
        raw.write_all(&message).unwrap();
        assert_eq!(peer.receive::<String>(SOON).unwrap(), "go");
        raw.write_all(&message).unwrap();
        assert!(
            matches!(peer.receive::<String>(SOON), Err(Silence::Broken(why)) if why.contains("authentication code"))
        );
        for position in 0..message.len() {
            let (_client, mut peer, mut raw) = pair();
            let mut changed = message.clone();
            changed[position] ^= 1;
            raw.write_all(&changed).unwrap();
            raw.shutdown(std::net::Shutdown::Write).unwrap();
            assert!(peer.receive::<String>(SOON).is_err(), "byte {position}");
        }
        for length in 0..message.len() {
            let (_client, mut peer, mut raw) = pair();
            raw.write_all(&message[..length]).unwrap();
            raw.shutdown(std::net::Shutdown::Write).unwrap();
            assert!(peer.receive::<String>(SOON).is_err(), "cut to {length}");
        }
        let (mut client, _peer, _) = pair();
        let (_, other) = UnixStream::pair().unwrap();
        let mut turned = Channel::new(other.into(), [5; BYTES], Side::Peer);
        std::mem::swap(&mut client.stream, &mut turned.stream);
        assert!(turned.receive::<String>(SOON).is_err());
    }

    #[test]
    fn long_and_slow_messages_are_refused() {
        let (_client, mut peer, mut raw) = pair();
        raw.write_all(&u32::MAX.to_le_bytes()).unwrap();
        raw.write_all(&[0; BYTES]).unwrap();
        assert!(matches!(peer.receive::<String>(SOON), Err(Silence::Broken(why)) if why.contains("the limit is")));
        let (_client, mut peer, mut raw) = pair();
        let message = recorded();
        let slow = std::thread::spawn(move || {
            for byte in message {
                std::thread::sleep(Duration::from_millis(30));
                if raw.write_all(&[byte]).is_err() {
                    return;
                }
            }
        });
        let began = Instant::now();
        assert!(matches!(peer.receive::<String>(SOON), Err(Silence::TimedOut)));
        assert!(began.elapsed() < 3 * SOON);
        drop(peer);
        slow.join().unwrap();
    }
}
