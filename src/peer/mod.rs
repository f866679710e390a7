//! The other side of network measurements: a process that echoes, sends, receives and accepts on request.
//!
//! On loopback it is a child of the launch, spoken to through a pair of sockets; elsewhere it is `sysdyno peer` on another
//! machine, spoken to through an authenticated connection. Both run the same [`session`], so a figure of the loopback and
//! one of a path differ by the path and by nothing else.
//!
//! ```text
//! client (launch)                              session (peer)
//!   hello, nonce ────────────────────────────▶
//!                ◀──────────────────────────── hello, nonce
//!   proof of the secret over both nonces ────▶  wrong: closed, nothing else is said
//!                ◀──────────────────────────── verdict, the peer's own proof
//!   request, sealed and counted ─────────────▶
//!                ◀──────────────────────────── reply, sealed and counted
//!   data connections, each opened by a token of this session
//! ```
//!
//! A member of a mesh connects to its rank 0 and proves the secret. From then on it is the peer, and rank 0 is the client.
//!
//! A session measures and reports. It reads no file of its user but what the kernel says of itself, and runs no command. The
//! one file that it makes, to be read over the network ([`export`]), has no name and holds random bytes.

pub mod accepting;
pub mod authentication;
pub mod channel;
pub mod client;
pub mod data;
pub mod datagrams;
pub mod echoing;
pub mod export;
pub mod flow;
pub mod handshake;
pub mod limits;
pub mod nfs;
pub mod plausible;
pub mod protocol;
pub mod resolve;
pub mod server;
pub mod session;
pub mod ssh;
