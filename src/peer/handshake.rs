//! How a session begins: both sides name the protocol, exchange random bytes, and prove that they know the secret.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::results::problem::Problem;

use super::authentication::{BYTES, Challenge, Purpose, Secret, random};
use super::channel::{Channel, Side, Silence, fill, put};
use super::protocol::{MAGIC, VERSION};

/// What is wrong where the peer does not accept the secret.
pub const REFUSED: &str = "the peer refuses the secret";

/// Bytes of a greeting: magic, version, random bytes.
const GREETING: usize = MAGIC.len() + 2 + BYTES;

/// What a peer says to a client who proved to know the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It is served.
    Welcome,
    /// It must wait: all sessions are taken.
    Busy,
}

fn greeting(random: [u8; BYTES]) -> [u8; GREETING] {
    let mut bytes = [0; GREETING];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes[10..].copy_from_slice(&random);
    bytes
}

/// Version and random bytes of a greeting.
fn greeted(bytes: &[u8; GREETING]) -> Result<(u16, [u8; BYTES]), String> {
    if bytes[..8] != MAGIC {
        return Err("it does not use this protocol".to_owned());
    }
    let mut random = [0; BYTES];
    random.copy_from_slice(&bytes[10..]);
    Ok((u16::from_le_bytes([bytes[8], bytes[9]]), random))
}

/// The client's side.
pub fn ask(stream: OwnedFd, secret: &Secret, within: Duration) -> Result<Channel, Problem> {
    let deadline = Instant::now() + within;
    let lost = |silence: Silence| {
        Problem::new(format!("cannot exchange messages with a peer there: {}", silence.words()))
            .hint("check that `sysdyno peer` listens at this address and port")
    };
    let own = random()?;
    put(stream.as_fd(), &greeting(own), deadline).map_err(lost)?;
    let mut bytes = [0; GREETING];
    fill(stream.as_fd(), &mut bytes, deadline).map_err(lost)?;
    let (version, peers) = greeted(&bytes).map_err(|why| lost(Silence::Broken(why)))?;
    if version != VERSION {
        return Err(Problem::new(format!(
            "the peer uses version {version} of the protocol, and this machine version {VERSION}"
        ))
        .hint("use the same version of sysdyno on both machines"));
    }
    let challenge = Challenge { version, client: own, peer: peers };
    put(stream.as_fd(), &challenge.proof(secret, Purpose::Client), deadline).map_err(lost)?;
    let mut answer = [0; 1 + BYTES];
    fill(stream.as_fd(), &mut answer, deadline).map_err(|silence| match silence {
        Silence::Closed => Problem::new(REFUSED)
            .hint("give the secret that the peer printed at its start, with --peer-secret or --peer-secret-file"),
        silence => lost(silence),
    })?;
    if !challenge.proves(secret, Purpose::Peer, &answer[1..]) {
        return Err(Problem::new("the answering program cannot prove the secret, so it is not your peer")
            .hint("check the address. Another machine may intercept the connection"));
    }
    if answer[0] != 0 {
        return Err(Problem::new("the peer is busy, because all its sessions are in use").hint(
            "try again when a session has \
            ended",
        ));
    }
    let key = challenge.proof(secret, Purpose::Session);
    Ok(Channel::new(stream, key, Side::Client))
}

/// The peer's side. `admit` is asked once the client has proved itself, and `refused` is called before a connection with a wrong
/// proof is closed. None when the client may not or need not be served; one that does not know the secret gets no answer.
pub fn answer(
    stream: OwnedFd,
    secret: &Secret,
    within: Duration,
    admit: impl FnOnce() -> Admission,
    refused: impl FnOnce(),
) -> Option<Channel> {
    let deadline = Instant::now() + within;
    let mut bytes = [0; GREETING];
    fill(stream.as_fd(), &mut bytes, deadline).ok()?;
    let (version, clients) = greeted(&bytes).ok()?;
    let own = random().ok()?;
    put(stream.as_fd(), &greeting(own), deadline).ok()?;
    if version != VERSION {
        return None;
    }
    let challenge = Challenge { version, client: clients, peer: own };
    let mut proof = [0; BYTES];
    fill(stream.as_fd(), &mut proof, deadline).ok()?;
    if !challenge.proves(secret, Purpose::Client, &proof) {
        refused();
        return None;
    }
    let verdict = admit();
    let mut reply = [0; 1 + BYTES];
    reply[0] = u8::from(verdict == Admission::Busy);
    reply[1..].copy_from_slice(&challenge.proof(secret, Purpose::Peer));
    put(stream.as_fd(), &reply, deadline).ok()?;
    let key = challenge.proof(secret, Purpose::Session);
    (verdict == Admission::Welcome).then(|| Channel::new(stream, key, Side::Peer))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    const SOON: Duration = Duration::from_millis(500);

    fn secret() -> Secret {
        Secret::of("a secret of some length").unwrap()
    }

    fn meet(clients: &Secret, verdict: Admission) -> (Result<Channel, Problem>, Option<Channel>) {
        let (one, other) = UnixStream::pair().unwrap();
        let peer = std::thread::spawn(move || answer(other.into(), &secret(), SOON, || verdict, || {}));
        let asked = ask(one.into(), clients, SOON);
        (asked, peer.join().unwrap())
    }

    #[test]
    fn who_knows_the_secret_is_served() {
        let (client, peer) = meet(&secret(), Admission::Welcome);
        let (mut client, mut peer) = (client.unwrap(), peer.unwrap());
        client.send(&1, SOON).unwrap();
        assert_eq!(peer.receive::<i32>(SOON).unwrap(), 1);
    }

    #[test]
    fn others_are_refused_with_a_reason_that_helps_its_owner() {
        let (client, peer) = meet(&Secret::of("another secret, as long").unwrap(), Admission::Welcome);
        assert!(peer.is_none());
        assert!(client.unwrap_err().what.contains("refuses the secret"));
        let (client, peer) = meet(&secret(), Admission::Busy);
        assert!(peer.is_none());
        assert!(client.unwrap_err().what.contains("busy"));
    }

    #[test]
    fn another_version_is_named() {
        let (one, mut other) = UnixStream::pair().unwrap();
        let old = std::thread::spawn(move || {
            let mut bytes = [0; GREETING];
            other.read_exact(&mut bytes).unwrap();
            bytes[8] = 77;
            other.write_all(&bytes).unwrap();
        });
        assert!(ask(one.into(), &secret(), SOON).unwrap_err().what.contains("version 77"));
        old.join().unwrap();
    }

    #[test]
    fn a_recorded_proof_is_worth_nothing() {
        let record = |proof: Option<Vec<u8>>| {
            let (mut one, other) = UnixStream::pair().unwrap();
            let peer = std::thread::spawn(move || answer(other.into(), &secret(), SOON, || Admission::Welcome, || {}));
            one.write_all(&greeting([9; BYTES])).unwrap();
            let mut bytes = [0; GREETING];
            one.read_exact(&mut bytes).unwrap();
            let (version, peers) = greeted(&bytes).unwrap();
            let challenge = Challenge { version, client: [9; BYTES], peer: peers };
            let sent = proof.unwrap_or_else(|| challenge.proof(&secret(), Purpose::Client).to_vec());
            one.write_all(&sent).unwrap();
            (sent, peer.join().unwrap().is_some())
        };
        let (proof, served) = record(None);
        assert!(served);
        assert!(!record(Some(proof)).1);
    }

    #[test]
    fn strangers_and_the_slow_are_dropped_in_time() {
        for words in [&b"GET / HTTP/1.1\r\nHost: peer.example\r\nAccept: */*\r\n\r\n"[..], &[0; 200], b"", b"sysdyno\n"]
        {
            let (mut one, other) = UnixStream::pair().unwrap();
            one.write_all(words).unwrap();
            let began = Instant::now();
            assert!(answer(other.into(), &secret(), SOON, || Admission::Welcome, || {}).is_none());
            assert!(began.elapsed() < 3 * SOON);
        }
    }

    #[test]
    fn an_impostor_does_not_get_a_client() {
        let (one, mut other) = UnixStream::pair().unwrap();
        let impostor = std::thread::spawn(move || {
            let mut bytes = [0; GREETING];
            other.read_exact(&mut bytes).unwrap();
            other.write_all(&greeting([1; BYTES])).unwrap();
            let mut proof = [0; BYTES];
            other.read_exact(&mut proof).unwrap();
            other.write_all(&[0; 1 + BYTES]).unwrap();
        });
        assert!(ask(one.into(), &secret(), SOON).unwrap_err().what.contains("cannot prove the secret"));
        impostor.join().unwrap();
    }
}
