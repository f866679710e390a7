//! Calls to the export: bytes on a connection, in the pieces in which they may come.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use sysdyno::testing::peer::export::answers::{CallResult, HANDLE, Heard, LONGEST_ANSWER, LONGEST_READ, Shelf};
use sysdyno::testing::peer::export::blocks::Blocks;
use sysdyno::testing::peer::export::calls::LONGEST_CALL;

use super::MOST_PLAYED;
use super::allocation::bounded;

/// Bytes of the file: enough that a longest read is shorter.
const BYTES: usize = (LONGEST_READ as usize) + (64 << 10);
/// What stands before the bytes of a read: record mark, head of an accepted reply, status, attributes, count, end, length.
const BEFORE_BYTES: usize = 4 + 24 + 4 + 88 + 12;
/// Handles and path are known here, so that a search comes past them; what was given away without them shows nevertheless.
const DIRECTORY: [u8; HANDLE] = *b"DirectoryHandle!";
const FILE: [u8; HANDLE] = *b"The file's own!!";
const PATH: &str = "/path";
/// What is held beside the answer: the beginning of a call, all that comes at once, and their growth.
const MOST_HELD: usize = 6 * (4 + LONGEST_CALL);

/// A file that is lent, what it must contain, and what the kernel said of it when it had been written.
struct Lent {
    shelf: Shelf,
    content: Vec<u8>,
    file: File,
    state: (u64, i64, i64, i64, i64),
}

fn state(file: &File) -> (u64, i64, i64, i64, i64) {
    let found = file.metadata().unwrap();
    (found.len(), found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec())
}

/// The file has no name, so the directory in which it was made is gone before the first byte is played.
fn lent() -> &'static Lent {
    static LENT: OnceLock<Lent> = OnceLock::new();
    LENT.get_or_init(|| {
        let directory = std::env::temp_dir().join(format!("sysdyno-fuzz-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let blocks = Blocks::write(&directory, BYTES as u64, 7).unwrap();
        std::fs::remove_dir(&directory).unwrap();
        let mut content = vec![0; BYTES];
        assert_eq!(blocks.read(&mut content, 0).unwrap(), BYTES);
        let file = File::from(blocks.as_fd().try_clone_to_owned().unwrap());
        let shelf = Shelf { blocks, path: PATH.to_owned(), directory: DIRECTORY, file: FILE };
        Lent { shelf, content, state: state(&file), file }
    })
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Bytes on a connection. The first two bytes are the size of the pieces. The file stays as it is, nothing but its bytes is
/// read, and only for who has its handle; an answer fits into the memory that is there for it.
pub fn export(bytes: &[u8]) {
    let lent = lent();
    let Some((size, stream)) = bytes[..bytes.len().min(MOST_PLAYED)].split_first_chunk::<2>() else { return };
    let piece = 1 + usize::from(u16::from_le_bytes(*size)) % (4 + LONGEST_CALL);
    // A connection that comes in single bytes says the same as one of somewhat longer pieces, slowly.
    let piece = piece.max(stream.len() / 64);
    let mut answer = Vec::with_capacity(LONGEST_ANSWER);
    let mut arrived = Vec::new();
    let mut heard_so_far = 0;
    for part in stream.chunks(piece) {
        heard_so_far += part.len();
        let said = &stream[..heard_so_far];
        let heard = bounded(MOST_HELD, || {
            arrived.extend_from_slice(part);
            lent.shelf.converse(&mut arrived, &mut answer, |outcome, answer| {
                is_allowed(lent, said, outcome, answer);
                true
            })
        });
        assert!(heard != Heard::Unsent && arrived.len() < 4 + LONGEST_CALL || heard == Heard::NoCall);
        assert!(answer.capacity() == LONGEST_ANSWER, "an answer has grown beyond its bound");
        if heard == Heard::NoCall {
            break;
        }
    }
    assert_eq!(state(&lent.file), lent.state, "the file has changed");
}

/// Whether an answer tells nobody what he may not know.
fn is_allowed(lent: &Lent, said: &[u8], outcome: CallResult, answer: &[u8]) {
    let word = |place: usize| u32::from_be_bytes(answer[place..place + 4].try_into().unwrap());
    assert_eq!(word(0), 0x8000_0000 | (answer.len() - 4) as u32, "an answer says its length");
    let head = &answer[..answer.len().min(512)];
    let knows_directory = contains(said, &DIRECTORY) || contains(said, PATH.as_bytes());
    assert!(!contains(head, &DIRECTORY) || knows_directory, "the directory's handle was given away");
    assert!(!contains(head, &FILE) || contains(said, &DIRECTORY), "the file's handle was given away");
    if let CallResult::Read(count) = outcome {
        let count = count as usize;
        assert!(contains(said, &FILE), "bytes were read without the handle");
        assert!(count <= LONGEST_READ as usize && answer.len() == BEFORE_BYTES + count.next_multiple_of(4));
        assert_eq!(word(BEFORE_BYTES - 4) as usize, count);
        let found = &answer[BEFORE_BYTES..BEFORE_BYTES + count];
        // The offset stands behind the handle in one of the calls.
        let offsets = said.windows(HANDLE + 8).filter_map(|window| window.strip_prefix(FILE.as_slice())?.first_chunk());
        let mut offsets = offsets.map(|offset| u64::from_be_bytes(*offset).min(BYTES as u64) as usize);
        let is_from = offsets.any(|offset| lent.content[offset..].starts_with(found));
        assert!(is_from, "bytes that are not the file's");
    } else {
        assert!(answer.len() <= 1024, "{outcome:?} in {} bytes", answer.len());
    }
}
