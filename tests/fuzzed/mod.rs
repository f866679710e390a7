//! What is fuzzed, with what must hold whatever the bytes: the targets of `fuzz/` and the bounded run of `tests/fuzz.rs` call
//! the same functions. Each panics when the code did what it must not do.
#![allow(dead_code, reason = "each program uses its own part")]
#![allow(unsafe_code, reason = "an allocator that counts")]
#![allow(clippy::unwrap_used, reason = "what fails to unwrap is a finding")]

pub mod allocation;
mod exported;
mod meeting;
mod met;
mod node;
mod said;

pub use exported::export;
pub use meeting::{meeting, member, mesh};
pub use met::handshake;
pub use node::{accepted, node};
pub use said::{channel, request, session};

/// A function that takes any bytes.
pub type Fuzzed = fn(&[u8]);

/// Every target, by its name.
pub const TARGETS: [(&str, Fuzzed); 10] = [
    ("channel", channel),
    ("request", request),
    ("handshake", handshake),
    ("session", session),
    ("export", export),
    ("node", node),
    ("accepted", accepted),
    ("meeting", meeting),
    ("member", member),
    ("mesh", mesh),
];

/// More bytes than this are not played: longer inputs find nothing that shorter ones do not, and a pair of sockets takes them
/// without a reader.
const MOST_PLAYED: usize = 16 << 10;
