//! Calls of ONC RPC (RFC 5531), taken apart with bounds on every length before a byte is kept, and the heads of answers.
//!
//! Lengths come from a stranger until the handle proves otherwise, so nothing is ever made as large as a length says.

use nfs3_types::rpc::{accept_stat_data, accepted_reply, fragment_header, msg_body, opaque_auth, reply_body, rpc_msg};
use nfs3_types::xdr_codec::Pack;

/// Longest call in bytes, without the word before it: a path of 1024 bytes and credentials of twice 400 fit.
pub const LONGEST_CALL: usize = 2048;
/// Longest credentials (RFC 5531, 8.2).
const LONGEST_CREDENTIALS: usize = 400;
/// The version of the protocol.
const RPC_VERSION: u32 = 2;

/// What an arriving stream has at its head.
#[derive(Debug, PartialEq, Eq)]
pub enum Framed {
    /// Not yet a whole call.
    Incomplete,
    /// A call of this many bytes behind the word before it.
    Whole(usize),
    /// Something that no client of ours sends: the connection is closed.
    Refused,
}

/// Looks at the word before a call. A call in several pieces is refused, as is one that is longer than any of ours.
pub fn framed(arrived: &[u8]) -> Framed {
    let Some(head) = arrived.first_chunk::<4>() else { return Framed::Incomplete };
    let header = fragment_header::from(*head);
    let length = header.fragment_length() as usize;
    if !header.eof() || length > LONGEST_CALL {
        Framed::Refused
    } else if arrived.len() < 4 + length {
        Framed::Incomplete
    } else {
        Framed::Whole(length)
    }
}

/// Words of XDR (RFC 4506), read one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a>(pub &'a [u8]);

impl<'a> Words<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.0.split_at_checked(count)?;
        self.0 = left;
        Some(taken)
    }

    /// A number of 32 bits.
    pub fn word(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(*self.bytes(4)?.first_chunk()?))
    }

    /// A number of 64 bits.
    pub fn double(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(*self.bytes(8)?.first_chunk()?))
    }

    /// Bytes with their length before and padding behind them, of a length up to a bound.
    pub fn opaque(&mut self, most: usize) -> Option<&'a [u8]> {
        let length = self.word()? as usize;
        if length > most {
            return None;
        }
        let bytes = self.bytes(length)?;
        self.bytes(length.next_multiple_of(4) - length)?;
        Some(bytes)
    }
}

#[derive(Debug)]
pub struct RpcCall<'a> {
    /// Number that its answer carries.
    pub number: u32,
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// Procedure of the program.
    pub procedure: u32,
    pub arguments: Words<'a>,
}

impl<'a> RpcCall<'a> {
    /// Takes a call apart. Credentials are skipped: what opens a file here is its handle.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        let mut words = Words(bytes);
        let number = words.word()?;
        let (kind, rpc) = (words.word()?, words.word()?);
        if kind != 0 || rpc != RPC_VERSION {
            return None;
        }
        let (program, version, procedure) = (words.word()?, words.word()?, words.word()?);
        for _ in 0..2 {
            words.word()?;
            words.opaque(LONGEST_CREDENTIALS)?;
        }
        Some(RpcCall { number, program, version, procedure, arguments: words })
    }
}

/// Begins an answer in a buffer: room for the word before it, and its head.
pub fn begin(answer: &mut Vec<u8>, number: u32, status: accept_stat_data) {
    answer.clear();
    answer.extend([0; 4]);
    let accepted = accepted_reply { verf: opaque_auth::default(), reply_data: status };
    add(answer, &rpc_msg { xid: number, body: msg_body::REPLY(reply_body::MSG_ACCEPTED(accepted)) });
}

/// Adds a value to an answer.
pub fn add(answer: &mut Vec<u8>, value: &impl Pack) {
    // Writing into memory does not fail, and no value here is longer than its length field can say.
    let _ = value.pack(answer);
}

/// Ends an answer: its length is known.
pub fn end(answer: &mut [u8]) {
    let length = (answer.len() - 4) as u32;
    answer[..4].copy_from_slice(&fragment_header::new(length, true).into_xdr_buf());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn a_call_is_taken_apart() {
        // Credentials of five bytes, padded to eight; no verifier; one argument.
        let mut bytes = words(&[7, 0, 2, 100_003, 3, 6, 1, 5]);
        bytes.extend(b"abcde\0\0\0");
        bytes.extend(words(&[0, 0, 99]));
        let mut call = RpcCall::of(&bytes).unwrap();
        assert_eq!((call.number, call.program, call.version, call.procedure), (7, 100_003, 3, 6));
        assert_eq!((call.arguments.word(), call.arguments.word()), (Some(99), None));
    }

    #[test]
    fn lengths_beyond_their_bounds_are_refused_before_anything_is_kept() {
        assert_eq!(Words(&words(&[u32::MAX])).opaque(64), None);
        assert_eq!(Words(&words(&[65])).opaque(64), None);
        // The length is allowed, but the bytes or their padding are missing.
        assert_eq!(Words(&words(&[8, 1])).opaque(64), None);
        assert_eq!(Words(&[0, 0, 0, 1, 9]).opaque(64), None);
        assert!(RpcCall::of(&words(&[7, 0, 2, 100_003, 3, 6, 1, 401])).is_none());
        assert!(
            RpcCall::of(&words(&[7, 1, 2, 100_003, 3, 6, 0, 0, 0, 0])).is_none(),
            "an answer is not taken for a call"
        );
    }

    #[test]
    fn frames_are_whole_short_and_in_one_piece() {
        assert_eq!(framed(&[0x80, 0, 0]), Framed::Incomplete);
        assert_eq!(framed(&[0x80, 0, 0, 4, 1, 2, 3]), Framed::Incomplete);
        assert_eq!(framed(&[0x80, 0, 0, 4, 1, 2, 3, 4, 5]), Framed::Whole(4));
        assert_eq!(framed(&[0, 0, 0, 4]), Framed::Refused, "one piece of several");
        assert_eq!(framed(&[0xff; 4]), Framed::Refused, "two gibibytes");
        assert_eq!(framed(b"GET / HTTP/1.1"), Framed::Refused);
    }

    #[test]
    fn an_answer_says_its_length() {
        let mut answer = Vec::new();
        begin(&mut answer, 5, accept_stat_data::SUCCESS);
        add(&mut answer, &77_u32);
        end(&mut answer);
        let expected = words(&[0x8000_001c, 5, 1, 0, 0, 0, 0, 77]);
        assert_eq!(answer, expected);
    }
}
