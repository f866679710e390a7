//! The handshake, met by somebody who does not know the secret: in the place of the client, and in the place of the peer.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use sysdyno::testing::peer::authentication::Secret;
use sysdyno::testing::peer::handshake::{self, Admission};
use sysdyno::testing::peer::protocol::{MAGIC, VERSION};

use super::MOST_PLAYED;
use super::allocation::bounded;

/// Nothing is waited for: all bytes are there, and then the end of the stream.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a greeting: magic, version, random bytes.
const GREETING: usize = 8 + 2 + 32;
/// Bytes of a proof.
const PROOF: usize = 32;
/// A handshake needs words for a reason and nothing else.
const MOST_HELD: usize = 4 << 10;

/// A stream on which all bytes have come, and its other end.
fn played(bytes: &[u8]) -> (UnixStream, UnixStream) {
    let (mut stranger, own) = UnixStream::pair().unwrap();
    stranger.write_all(&bytes[..bytes.len().min(MOST_PLAYED)]).unwrap();
    stranger.shutdown(Shutdown::Write).unwrap();
    (own, stranger)
}

/// What was said to the stranger.
fn heard(mut stranger: UnixStream) -> Vec<u8> {
    let mut said = Vec::new();
    // A side that closes without reading everything resets the stream behind what it said.
    let mut part = [0; 256];
    while let Ok(count @ 1..) = stranger.read(&mut part) {
        said.extend(&part[..count]);
    }
    said
}

/// Bytes of a stranger in both places. Neither side must take them for its partner, ask for a place in their name, or tell
/// more than the protocol has a stranger told.
pub fn handshake(bytes: &[u8]) {
    let secret = Secret::fresh().unwrap();
    let (own, stranger) = played(bytes);
    let mut asked = false;
    let admitted = bounded(MOST_HELD, || {
        let admit = || {
            asked = true;
            Admission::Welcome
        };
        handshake::answer(own.into(), &secret, PATIENCE, admit, || {})
    });
    assert!(admitted.is_none() && !asked, "a stranger was admitted");
    let said = heard(stranger);
    let greeted = bytes.len() >= GREETING && bytes[..MAGIC.len()] == MAGIC;
    assert_eq!(said.len(), if greeted { GREETING } else { 0 }, "what a stranger is told");

    let (own, stranger) = played(bytes);
    let problem = bounded(MOST_HELD, || handshake::ask(own.into(), &secret, PATIENCE).err());
    assert!(problem.is_some_and(|problem| !problem.what.contains(secret.text())), "a stranger passed for a peer");
    let said = heard(stranger);
    let speaks = greeted && bytes[MAGIC.len()..GREETING - 32] == VERSION.to_le_bytes();
    assert_eq!(said.len(), GREETING + if speaks { PROOF } else { 0 }, "what is told to who may be the peer");
}
