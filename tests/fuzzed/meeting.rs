//! The tasks of a mesh: the file in which they meet, what they say to each other, and the file with the result.

use std::fs;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use sysdyno::testing::conduct::mesh::meeting::{MOST_BYTES, look};
use sysdyno::testing::conduct::mesh::roll_call::introduced;
use sysdyno::testing::peer::authentication::Secret;
use sysdyno::testing::peer::channel::{Channel, LONGEST_REPLY, LONGEST_REQUEST, Side};
use sysdyno::testing::peer::protocol::{PeerRequest, Reply};
use sysdyno::testing::peer::session::Membership;
use sysdyno::testing::results::mesh::Mesh;

use super::MOST_PLAYED;
use super::allocation::bounded;
use super::said::{HELD_PER_BYTE, Manner, PATIENCE, SLACK, frame, hear, key_of, records, serve_all};

/// A result with all its lists in their largest form, for each byte of a file. The judge holds a few numbers for each pair of members.
const HELD_BY_JUDGE: usize = 4096;
/// Members of a result that is judged: the judge looks at all pairs of members.
const MOST_JUDGED: usize = 64;

/// A place for the meeting file, which is removed with this value.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A file in the place of the meeting file. What is not one is an error in a line that names the file and nothing of its content.
pub fn meeting(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(MOST_PLAYED)];
    let name = format!("sysdyno-fuzzed-{}-{:?}.json", std::process::id(), std::thread::current().id());
    let place = Place(std::env::temp_dir().join(name));
    fs::write(&place.0, bytes).unwrap();
    let most = SLACK + (MOST_BYTES as usize) * 4;
    match bounded(most, || look(&place.0)) {
        Ok((address, secret)) => {
            assert!(bytes.len() <= MOST_BYTES as usize, "a file beyond the bound was taken");
            assert!(Secret::of(secret.text()).is_ok(), "{address}");
        }
        Err(why) => {
            let path = place.0.display().to_string();
            assert!(why.contains(&path) && !why.contains('\n'), "{why}");
            assert!(why.len() < path.len() + 100, "{why}");
        }
    }
}

/// Bytes on the connections of a mesh. The first byte chooses who hears them: rank 0 or a member, as messages and then in full.
pub fn member(bytes: &[u8]) {
    let Some((&who, bytes)) = bytes[..bytes.len().min(MOST_PLAYED)].split_first() else { return };
    match who % 4 {
        0 => hear::<Reply>(bytes, Side::Peer, LONGEST_REQUEST),
        1 => hear::<PeerRequest>(bytes, Side::Client, LONGEST_REPLY),
        2 => come(bytes),
        _ => serve_all(bytes, Side::Client, Some(membership())),
    }
}

/// A member that measures nothing.
fn membership() -> Membership {
    let link = serde_json::json!({"interface": "f0", "address": "10.79.0.2", "prefix": 24});
    let who = serde_json::json!({
        "version": "0.1.0", "rank": 1, "size": 4, "node": "n2", "rack": null, "link": link, "port": 4000, "others": [],
    });
    Membership {
        who: serde_json::from_value(who).unwrap(),
        secret: Secret::fresh().unwrap(),
        measure: |_, _, _| panic!("no pair is ordered"),
        within: PATIENCE,
    }
}

/// Somebody who has the secret calls at rank 0. It is seated as who it says, or not at all.
fn come(bytes: &[u8]) {
    let key = key_of(bytes);
    let records = records(bytes);
    let mut wire = Vec::new();
    for (number, (manner, content)) in records.iter().enumerate() {
        wire.extend(frame(&key, Side::Client, *manner, number as u64, content));
    }
    let (mut stranger, own) = UnixStream::pair().unwrap();
    stranger.write_all(&wire).unwrap();
    stranger.shutdown(Shutdown::Write).unwrap();
    let most = SLACK + LONGEST_REQUEST * (1 + HELD_PER_BYTE);
    let arrived = bounded(most, || introduced(Channel::new(own.into(), key, Side::Peer)));
    let first =
        records.first().filter(|(manner, content)| *manner == Manner::Sealed && content.len() <= LONGEST_REQUEST);
    let said = first.and_then(|(_, content)| serde_json::from_slice::<Reply>(content).ok());
    if let Some(arrived) = arrived {
        assert_eq!(said, Some(Reply::Joining(Box::new(arrived.who))), "another task than the one that came");
        assert!(arrived.clock.into_iter().flatten().all(f64::is_finite), "{:?}", arrived.clock);
    }
}

/// The result of a mesh, as `fleet` reads it. Whatever can be read can be judged.
pub fn mesh(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(MOST_PLAYED)];
    let Ok(mut mesh) = bounded(SLACK + HELD_BY_JUDGE * bytes.len(), || Mesh::parse(bytes)) else { return };
    if mesh.members.len() > MOST_JUDGED {
        return;
    }
    let before = mesh.members.len();
    let most = SLACK + HELD_BY_JUDGE * (bytes.len() + before * before);
    bounded(most, || sysdyno::testing::mesh::judge(&mut mesh));
    for finding in &mesh.findings {
        assert!(!finding.names.is_empty(), "{finding:?}");
    }
    for member in &mesh.members {
        let effects = [member.send, member.receive, member.latency];
        assert!(effects.into_iter().flatten().all(f64::is_finite), "{member:?}");
    }
    assert!(sysdyno::testing::mesh::doubtful(&mesh).iter().all(|(one, other)| one != other));
    assert!(Mesh::parse(&serde_json::to_vec(&mesh).unwrap()).is_ok(), "what was judged cannot be read again");
}
