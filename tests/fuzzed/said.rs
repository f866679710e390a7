//! What is said on a control channel: its frames, its content, and a session that hears it.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use sysdyno::testing::peer::channel::{Channel, LONGEST_REPLY, LONGEST_REQUEST, Side, Silence};
use sysdyno::testing::peer::limits::SessionLimits;
use sysdyno::testing::peer::protocol::{self, Direction, PeerRequest, Reply};
use sysdyno::testing::peer::session::{self, Membership, SessionContext};

use super::MOST_PLAYED;
use super::allocation::bounded;

/// Nothing is waited for: all bytes are there, and then the end of the stream.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes held for each byte of a content while it is parsed: an array of one digit takes four bytes, and of memory one place
/// in its parent and four of its own, 32 bytes each; a growing array is there twice.
pub(super) const HELD_PER_BYTE: usize = 128;
/// What is held beside that.
pub(super) const SLACK: usize = 8 << 10;

/// How one record of an input is put on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// As it should be.
    Sealed,
    /// Its bytes, without a frame.
    Bare,
    /// With the number of another message.
    Renumbered,
    /// As if the receiver had sent it.
    Turned,
    /// With another length in its head than in its seal.
    Relabelled,
}

/// Takes an input apart: a byte for the manner, two for the length, the content.
pub(super) fn records(mut bytes: &[u8]) -> Vec<(Manner, &[u8])> {
    let mut records = Vec::new();
    while let Some((&[manner, low, high], rest)) = bytes.split_first_chunk::<3>() {
        let manner = match manner {
            b'b' => Manner::Bare,
            b'n' => Manner::Renumbered,
            b't' => Manner::Turned,
            b'l' => Manner::Relabelled,
            _ => Manner::Sealed,
        };
        let (content, left) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes([low, high]))));
        records.push((manner, content));
        bytes = left;
    }
    records
}

/// A key that no search through inputs meets, and the same for the same input.
pub(super) fn key_of(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest([b"key of an input", bytes].concat()).into()
}

/// A frame as the protocol describes it, made without the code that is fuzzed.
pub(super) fn frame(key: &[u8; 32], from: Side, manner: Manner, number: u64, content: &[u8]) -> Vec<u8> {
    if manner == Manner::Bare {
        return content.to_vec();
    }
    let from_peer = (from == Side::Peer) != (manner == Manner::Turned);
    let number = number ^ u64::from(manner == Manner::Renumbered);
    let length = (content.len() as u32).to_le_bytes();
    let mut seal = Hmac::<Sha256>::new_from_slice(key).unwrap();
    seal.update(&[u8::from(from_peer)]);
    seal.update(&number.to_le_bytes());
    seal.update(&length);
    seal.update(content);
    let head = (content.len() as u32 ^ u32::from(manner == Manner::Relabelled)).to_le_bytes();
    [&head[..], &seal.finalize().into_bytes(), content].concat()
}

/// A channel of one side on which everything has come.
fn channel_with(bytes: &[u8], key: [u8; 32], side: Side) -> Channel {
    let (mut other, own) = UnixStream::pair().unwrap();
    other.write_all(bytes).unwrap();
    other.shutdown(Shutdown::Write).unwrap();
    // What is sent back is not read; the stream holds what a session has to say here.
    Channel::new(own.into(), key, side)
}

/// Bytes as frames, before a key is known and after. What is not sealed with the key of the session is not even parsed, and a
/// message says what its sealed content says.
pub fn channel(bytes: &[u8]) {
    let Some((&side, bytes)) = bytes[..bytes.len().min(MOST_PLAYED)].split_first() else { return };
    if side & 1 == 0 {
        hear::<PeerRequest>(bytes, Side::Peer, LONGEST_REQUEST);
    } else {
        hear::<Reply>(bytes, Side::Client, LONGEST_REPLY);
    }
}

pub(super) fn hear<M: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    side: Side,
    longest: usize,
) {
    let key = key_of(bytes);
    let most = longest + SLACK + HELD_PER_BYTE * bytes.len().min(longest);
    let mut keyless = channel_with(bytes, key, side);
    let refused = bounded(longest + SLACK, || keyless.receive::<serde_json::Value>(PATIENCE).is_err());
    assert!(refused, "bytes without a seal passed for a message");

    let from = if side == Side::Peer { Side::Client } else { Side::Peer };
    let records = records(bytes);
    let mut wire = Vec::new();
    for (number, (manner, content)) in records.iter().enumerate() {
        wire.extend(frame(&key, from, *manner, number as u64, content));
    }
    let mut channel = channel_with(&wire, key, side);
    for (manner, content) in records {
        let found = bounded(most, || channel.receive::<M>(PATIENCE));
        match (manner, found) {
            (Manner::Sealed, Ok(found)) => {
                assert!(content.len() <= longest, "a message beyond the bound was taken");
                assert_eq!(Some(found), serde_json::from_slice(content).ok(), "another message than was sealed");
            }
            (Manner::Sealed, Err(silence)) => {
                let is_message = content.len() <= longest && serde_json::from_slice::<M>(content).is_ok();
                assert!(!is_message, "a message was refused: {silence:?}");
                return;
            }
            // Nothing of it went into the stream.
            (Manner::Bare, found) if content.is_empty() => {
                assert!(found.is_err() || !wire.is_empty());
                return;
            }
            (_, found) => {
                assert!(found.is_err(), "{manner:?} passed for a message");
                return;
            }
        }
    }
    assert!(matches!(channel.receive::<M>(PATIENCE), Err(Silence::Closed)), "something is left");
}

/// Content of a message. Whatever is a request is told from one beyond the bounds, and says the same when it is written again.
pub fn request(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(LONGEST_REQUEST)];
    let most = SLACK + HELD_PER_BYTE * bytes.len();
    if let Ok(request) = bounded(most, || serde_json::from_slice::<PeerRequest>(bytes)) {
        assert_eq!(request.check().is_ok(), is_bounded(&request), "{request:?}");
        let again = serde_json::to_vec(&request).unwrap();
        assert!(again.len() <= LONGEST_REQUEST, "a request that was taken can be sent");
        assert_eq!(serde_json::from_slice::<PeerRequest>(&again).unwrap(), request);
    }
    if let Ok(reply) = bounded(most, || serde_json::from_slice::<Reply>(bytes)) {
        // A number beyond the range of its type is none; everything else comes back as it was.
        let again = serde_json::to_vec(&reply).unwrap();
        assert_eq!(serde_json::to_vec(&serde_json::from_slice::<Reply>(&again).unwrap()).unwrap(), again);
    }
}

/// The bounds of the protocol in other words than its own.
fn is_bounded(request: &PeerRequest) -> bool {
    match request {
        PeerRequest::Describe {}
        | PeerRequest::EndEcho {}
        | PeerRequest::Forget { .. }
        | PeerRequest::EndExport {}
        | PeerRequest::Join {}
        | PeerRequest::Clock {}
        | PeerRequest::Still {}
        | PeerRequest::End { .. } => true,
        PeerRequest::Pair(order) => (1..=16).contains(&order.streams),
        PeerRequest::Export { bytes, .. } => *bytes >= 1 << 20 && *bytes <= 256 << 20,
        PeerRequest::Echo { tcp, udp, .. } => {
            tcp.len() <= 8 && *udp != Some(0) && tcp.iter().all(|&bytes| bytes > 0 && bytes <= 1 << 20)
        }
        PeerRequest::Accept { connections, .. } => *connections > 0 && *connections <= 4096,
        PeerRequest::Flow(order) => {
            (1..=16).contains(&order.streams)
                && (1..=1 << 20).contains(&order.message)
                && order.milliseconds <= 120_000
                && order.window > 0
                && order.window <= order.milliseconds
                && order.milliseconds / order.window <= 10_000
        }
        PeerRequest::Datagrams(order) => {
            order.direction != Direction::Both
                && order.bytes >= 20
                && order.bytes <= 65_507
                && order.rate <= 100_000_000
                && order.milliseconds > 0
                && order.milliseconds <= 2_000
                && order.port > 0
        }
    }
}

/// Requests to a session that was granted nothing: no address, no socket, no directory.
pub fn session(bytes: &[u8]) {
    serve_all(bytes, Side::Peer, None);
}

/// Requests to a session of one side of a channel. Each but two kinds is answered once, in its order. An end ends it, and so does the
/// first that is none.
pub(super) fn serve_all(bytes: &[u8], side: Side, member: Option<Membership>) {
    let bytes = &bytes[..bytes.len().min(MOST_PLAYED)];
    let (other, longest) = match side {
        Side::Peer => (Side::Client, LONGEST_REQUEST),
        Side::Client => (Side::Peer, LONGEST_REPLY),
    };
    let key = key_of(bytes);
    let mut wire = Vec::new();
    let mut expected = Vec::new();
    let (mut breaks, mut end) = (false, None);
    let mut number = 0;
    for (manner, content) in records(bytes) {
        let request = serde_json::from_slice::<PeerRequest>(content).ok().filter(|_| content.len() <= longest);
        // Describing this machine takes longer than all the rest, and a pair needs a process with one thread.
        let left_out = match request {
            Some(PeerRequest::Describe {}) => true,
            Some(PeerRequest::Pair(_)) => member.is_some(),
            _ => content.is_empty(),
        };
        if left_out {
            continue;
        }
        if number == 64 {
            break;
        }
        wire.extend(frame(&key, other, manner, number, content));
        number += 1;
        match request.filter(|_| manner == Manner::Sealed) {
            None => breaks = true,
            Some(PeerRequest::End { refused }) => end = Some(refused),
            Some(PeerRequest::Still {}) => continue,
            Some(request) => {
                expected.push(request);
                continue;
            }
        }
        break;
    }
    let (mut client, own) = UnixStream::pair().unwrap();
    client.write_all(&wire).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut channel = Channel::new(own.into(), key, side);
    let limits = SessionLimits { idle: PATIENCE, ..SessionLimits::default() };
    let setting = SessionContext { limits, member, ..SessionContext::default() };
    let most = longest + HELD_PER_BYTE * bytes.len().min(longest) + SLACK;
    let served = bounded(most, || session::serve(&mut channel, setting));
    let fits = match &served {
        Ok(refused) => end.as_ref() == Some(refused),
        Err(Silence::Closed) => !breaks && end.is_none(),
        Err(_) => breaks,
    };
    assert!(fits, "{served:?}, but the end is {end:?}");
    drop(channel);
    let mut answers = Channel::new(client.into(), key, other);
    for request in &expected {
        let reply = answers.receive::<Reply>(PATIENCE).unwrap_or_else(|why| panic!("{request:?}: {}", why.words()));
        assert!(is_harmless(request, &reply), "{request:?} was answered {reply:?}");
    }
    assert!(answers.receive::<Reply>(PATIENCE).is_err(), "more answers than requests");
}

/// Whether an answer is one of a session that has nothing to give.
fn is_harmless(request: &PeerRequest, reply: &Reply) -> bool {
    match (request, reply) {
        (_, Reply::Cannot { .. })
        | (PeerRequest::Join {}, Reply::Joining(_))
        | (PeerRequest::Clock {}, Reply::Clock { .. }) => true,
        (PeerRequest::EndEcho {}, Reply::Echoed { services, .. }) => services.is_empty(),
        (PeerRequest::Echo { tcp: sizes, udp: None, .. }, Reply::Listening { tcp, udp: None, .. }) => {
            sizes.is_empty() && tcp.is_empty() && is_bounded(request)
        }
        _ => false,
    }
}

const _: () = assert!(LONGEST_REQUEST < MOST_PLAYED && protocol::MOST_SIZES == 8);
