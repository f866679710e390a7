//! A file that a peer lends for reading: over NFS version 3, to one client, for as long as that client's session lasts.
//!
//! A session that is asked for it writes a nameless file of stamped blocks and starts a process that serves it and does nothing
//! else. The process listens on a separate port, takes connections from the client's address only, and answers clients that know
//! the path. The path is 128 random bits that went through the sealed channel of the session. The process reads the one file and
//! nothing else, changes nothing, and ends with the session.
//!
//! Existing server libraries make room for as many bytes as a stranger's first four say and answer every client that connects. So
//! only the formats come from a library here. What is taken from a connection is bounded first ([`calls`]).

pub mod answers;
pub mod blocks;
pub mod calls;

use std::io;
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::Socket;

use crate::statistics::summary::median;
use crate::sys::clock::monotonic_raw;
use crate::sys::process::{self, Forked};
use crate::sys::socket;

use super::authentication::{hexadecimal, random};
use super::channel::Channel;
use super::data::{self, STALLED};
use super::limits::{MOST_RESIDENCES, SessionLimits};
use super::protocol::Exported;
use answers::{CallResult, HANDLE, Heard, LONGEST_ANSWER, Shelf};
use blocks::Blocks;
use calls::LONGEST_CALL;

/// Connections at once: a reader has two, and some open one for each of several reads in flight.
const CONNECTIONS: usize = 8;
/// Time for the serving process to report in.
const REPORTING: Duration = Duration::from_secs(5);

/// An export that is served.
#[derive(Debug)]
pub struct Export {
    blocks: Blocks,
    /// Port on which it is served.
    pub port: u16,
    /// Path of its directory.
    pub path: String,
    process: Option<Forked>,
    line: Channel,
}

impl Export {
    /// Writes the file and has it served. The calling process must have one thread.
    pub fn open(
        directory: &Path,
        bytes: u64,
        (own, client): (IpAddr, IpAddr),
        limits: SessionLimits,
    ) -> io::Result<Self> {
        let fresh = || random().map_err(|problem| io::Error::other(problem.what));
        let (handles, name) = (fresh()?, fresh()?);
        let mut shelf_directory = [0; HANDLE];
        let mut shelf_file = [0; HANDLE];
        shelf_directory.copy_from_slice(&handles[..HANDLE]);
        shelf_file.copy_from_slice(&handles[HANDLE..2 * HANDLE]);
        let path = format!("/{}", hexadecimal(&name[..HANDLE]));
        let mut identity = [0; 8];
        identity.copy_from_slice(&name[HANDLE..HANDLE + 8]);
        let write = || Blocks::write(directory, bytes, u64::from_le_bytes(identity));
        let blocks = write()?;
        let listener = data::listen(own, Some(CONNECTIONS as i32), None)?;
        let port = data::port(&listener)?;
        let (line, mut theirs) = Channel::pair()?;
        let kept = [listener.as_raw_fd(), theirs.stream().as_raw_fd(), blocks.as_fd().as_raw_fd()];
        let process = process::fork_keeping(&kept, || {
            process::end_after(limits.session_time.as_secs() as u32);
            let Ok(blocks) = blocks.shared() else { return 1 };
            let shelf = Shelf { blocks, path: path.clone(), directory: shelf_directory, file: shelf_file };
            let exported = Serving::new(&shelf, client, limits).serve(&listener, &theirs);
            i32::from(theirs.send(&exported, REPORTING).is_err())
        })?;
        Ok(Export { blocks, port, path, process: Some(process), line })
    }

    /// What the stamps of its blocks say.
    pub fn identity(&self) -> u64 {
        self.blocks.identity()
    }

    /// Drops the file from the page cache; the bytes that stay there nevertheless.
    pub fn forget(&self, ahead: bool) -> io::Result<u64> {
        self.blocks.forget(ahead)
    }

    /// Ends it; what became of it.
    pub fn end(mut self) -> Exported {
        let asked = self.line.send(&(), REPORTING);
        let exported = asked.and_then(|()| self.line.receive(REPORTING)).unwrap_or_default();
        self.stop();
        exported
    }

    fn stop(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A connection with what has arrived of its next call.
struct Connection {
    stream: TcpStream,
    arrived: Vec<u8>,
}

struct Serving<'a> {
    shelf: &'a Shelf,
    client: IpAddr,
    limits: SessionLimits,
    connections: Vec<Connection>,
    answer: Vec<u8>,
    exported: Exported,
    residences: Vec<f64>,
}

impl<'a> Serving<'a> {
    fn new(shelf: &'a Shelf, client: IpAddr, limits: SessionLimits) -> Self {
        let answer = Vec::with_capacity(LONGEST_ANSWER);
        let exported = Exported::default();
        Serving { shelf, client, limits, connections: Vec::new(), answer, exported, residences: Vec::new() }
    }

    /// Serves until the session says something on the line, or is gone.
    fn serve(mut self, listener: &Socket, line: &Channel) -> Exported {
        loop {
            let ready = self.wait(listener.as_fd(), line.stream().as_fd());
            if ready.first() == Some(&true) {
                break;
            }
            // From the last to the first: closing one leaves the numbers of those before it.
            for index in (0..self.connections.len()).rev() {
                if ready.get(2 + index) == Some(&true) && !self.hear(index) {
                    self.connections.remove(index);
                }
            }
            if ready.get(1) == Some(&true) {
                self.take(listener);
            }
        }
        self.exported.residence = median(&self.residences).map(|found| found as u64);
        self.exported
    }

    fn wait(&self, listener: BorrowedFd<'_>, line: BorrowedFd<'_>) -> Vec<bool> {
        let mut waited = vec![PollFd::new(line, PollFlags::POLLIN), PollFd::new(listener, PollFlags::POLLIN)];
        waited.extend(self.connections.iter().map(|open| PollFd::new(open.stream.as_fd(), PollFlags::POLLIN)));
        match poll(&mut waited, PollTimeout::NONE) {
            Ok(_) => waited.iter().map(|end| end.any().unwrap_or(true)).collect(),
            Err(_) => Vec::new(),
        }
    }

    /// Takes a connection of the client; strangers are closed unheard.
    fn take(&mut self, listener: &Socket) {
        let Ok((stream, from)) = listener.accept() else { return };
        let from = from.as_socket().map(|address| address.ip().to_canonical());
        if from != Some(self.client.to_canonical()) {
            self.exported.refused += 1;
            return;
        }
        if self.connections.len() >= CONNECTIONS {
            self.connections.remove(0);
        }
        if let Some(rate) = self.limits.rate {
            // Where the kernel cannot, the rate of flows would not hold either.
            let _ = socket::limit_rate(stream.as_fd(), rate);
        }
        if data::prepare(&stream).is_ok() {
            self.connections.push(Connection { stream: stream.into(), arrived: Vec::new() });
        }
    }

    /// Hears what came on a connection and answers every whole call; false when the connection shall be closed.
    fn hear(&mut self, index: usize) -> bool {
        let Connection { stream, arrived } = &mut self.connections[index];
        let mut bytes = [0; 4 + LONGEST_CALL];
        let count = match socket::answered(socket::read(stream.as_fd(), &mut bytes)) {
            Ok(count) if count > 0 => count,
            _ => return false,
        };
        let began = monotonic_raw();
        arrived.extend(&bytes[..count]);
        let (exported, residences) = (&mut self.exported, &mut self.residences);
        let heard = self.shelf.converse(arrived, &mut self.answer, |outcome, answer| {
            if let CallResult::Read(bytes) = outcome {
                exported.reads += 1;
                exported.bytes += bytes;
                if residences.len() < MOST_RESIDENCES {
                    residences.push((monotonic_raw() - began) as f64);
                }
            }
            exported.refused += u64::from(outcome == CallResult::Refused);
            exported.bytes <= self.limits.bytes && write(stream, answer).is_ok()
        });
        self.exported.refused += u64::from(heard == Heard::NoCall);
        heard == Heard::All
    }
}

/// Writes a whole answer; a client that does not take it in time has lost it.
fn write(stream: &TcpStream, answer: &[u8]) -> io::Result<()> {
    debug_assert!(stream.write_timeout().is_ok_and(|limit| limit == Some(STALLED)));
    socket::write_all(stream.as_fd(), answer)
}
