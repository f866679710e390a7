//! Who may measure: both sides prove that they know a secret, without sending it.
//!
//! Each side contributes 32 random bytes; proofs and the key of the session are keyed hashes (HMAC-SHA-256, RFC 2104) over
//! both. No clock has to be right and no certificate has to be kept. The client proves first: who scans ports gets nothing
//! to guess the secret from. A recorded proof is worth nothing, because the peer's random bytes are new each time.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::results::problem::Problem;
use crate::sys::process;

/// Bytes of random numbers, proofs and keys.
pub const BYTES: usize = 32;

/// Shortest secret: one that can be guessed offline from a proof protects nothing.
pub const SHORTEST_SECRET: usize = 16;

pub const LONGEST_SECRET: usize = 1024;

/// A shared secret. It is never printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Secret")
    }
}

impl Secret {
    /// A secret that a user chose. Blanks around it do not belong to it.
    pub fn of(text: &str) -> Result<Self, Problem> {
        let text = text.trim();
        if (SHORTEST_SECRET..=LONGEST_SECRET).contains(&text.len()) {
            Ok(Secret(text.to_owned()))
        } else {
            Err(Problem::new(format!(
                "a secret has {SHORTEST_SECRET} to {LONGEST_SECRET} characters, and this secret has {}",
                text.len()
            ))
            .hint("use the secret that `sysdyno peer` prints, or `head -c 16 /dev/urandom | base64`"))
        }
    }

    /// A fresh one of 128 random bits.
    pub fn fresh() -> Result<Self, Problem> {
        let bytes = random()?;
        Ok(Secret(hexadecimal(&bytes[..16])))
    }

    /// Its text, to be handed to the other side.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Bytes as two digits each.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// Random bytes from the kernel.
pub fn random() -> Result<[u8; BYTES], Problem> {
    let mut bytes = [0; BYTES];
    process::random_bytes(&mut bytes)
        .map_err(|error| Problem::new(format!("the kernel provides no random bytes: {error}")))?;
    Ok(bytes)
}

/// What a keyed hash is for: the same input gives another hash for another purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The client's proof.
    Client,
    /// The peer's proof.
    Peer,
    /// The key of the session.
    Session,
}

/// Random bytes of both sides and the version that they speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Challenge {
    /// Protocol version.
    pub version: u16,
    /// The client's random bytes.
    pub client: [u8; BYTES],
    /// The peer's random bytes.
    pub peer: [u8; BYTES],
}

impl Challenge {
    fn hash(&self, secret: &Secret, purpose: Purpose) -> Hmac<Sha256> {
        let mut hash = keyed(secret.0.as_bytes());
        hash.update(match purpose {
            Purpose::Client => b"sysdyno client ",
            Purpose::Peer => b"sysdyno peer   ",
            Purpose::Session => b"sysdyno session",
        });
        hash.update(&self.version.to_le_bytes());
        hash.update(&self.client);
        hash.update(&self.peer);
        hash
    }

    /// The proof of one side, or the key of the session.
    pub fn proof(&self, secret: &Secret, purpose: Purpose) -> [u8; BYTES] {
        self.hash(secret, purpose).finalize().into_bytes().into()
    }

    /// Whether a proof is right; takes the same time whatever it holds.
    pub fn proves(&self, secret: &Secret, purpose: Purpose, proof: &[u8]) -> bool {
        self.hash(secret, purpose).verify_slice(proof).is_ok()
    }
}

/// A keyed hash without content yet.
pub(super) fn keyed(key: &[u8]) -> Hmac<Sha256> {
    // HMAC takes keys of every length; the empty key cannot fail either.
    Hmac::new_from_slice(key).unwrap_or_else(|_| Hmac::new(&hmac::digest::Key::<Hmac<Sha256>>::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge() -> Challenge {
        Challenge { version: 1, client: [1; BYTES], peer: [2; BYTES] }
    }

    #[test]
    fn the_keyed_hash_is_that_of_the_standard() {
        // RFC 4231, test case 2.
        let mut hash = keyed(b"Jefe");
        hash.update(b"what do ya want for nothing?");
        assert_eq!(
            hexadecimal(&hash.finalize().into_bytes()),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn a_proof_holds_for_its_secret_its_challenge_and_its_side() {
        let secret = Secret::of("sixteen letters!").unwrap();
        let proof = challenge().proof(&secret, Purpose::Client);
        assert!(challenge().proves(&secret, Purpose::Client, &proof));
        assert!(!challenge().proves(&secret, Purpose::Peer, &proof));
        assert!(!challenge().proves(&Secret::of("sixteen letters?").unwrap(), Purpose::Client, &proof));
        for other in [
            Challenge { version: 2, ..challenge() },
            Challenge { client: [3; BYTES], ..challenge() },
            Challenge { peer: [3; BYTES], ..challenge() },
        ] {
            assert!(!other.proves(&secret, Purpose::Client, &proof));
        }
        assert!(!challenge().proves(&secret, Purpose::Client, &proof[..31]));
        assert!(!challenge().proves(&secret, Purpose::Client, &[]));
    }

    #[test]
    fn fresh_secrets_differ_and_short_ones_are_refused() {
        let (one, other) = (Secret::fresh().unwrap(), Secret::fresh().unwrap());
        assert!(one != other && one.text().len() == 32);
        assert!(Secret::of("too short").is_err());
        assert!(Secret::of(&"x".repeat(2000)).is_err());
        assert_eq!(format!("{one:?}"), "Secret");
    }
}
