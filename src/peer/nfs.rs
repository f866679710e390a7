//! Reading a file over NFS version 3 from user space: no mount, no privileges, and no cache of this machine in between.
//!
//! The calls are those of a client library; beneath it lies a blocking stream, so a read is a write of the call, a wait in the
//! kernel, and the reads of its answer, on the thread that asked. The library waits on futures; over this stream each is ready
//! when it is first asked.

use std::future::Future;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use nfs3_client::io::{AsyncRead, AsyncWrite};
use nfs3_client::{MountClient, MountError, Nfs3Client, PortmapperClient};
use nfs3_types::mount::{self, dirpath};
use nfs3_types::nfs3::{
    self, FSINFO3args, GETATTR3args, LOOKUP3args, Nfs3Option, Nfs3Result, READ3args, READDIRPLUS3args, cookieverf3,
    diropargs3, filename3, ftype3, nfs_fh3, nfsstat3,
};
use nfs3_types::portmap::{IPPROTO_TCP, PMAP_PORT};
use nfs3_types::rpc::{auth_unix, fragment_header, opaque_auth};
use nfs3_types::xdr_codec::Opaque;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::results::trouble::Trouble;
use crate::sys::process;
use crate::sys::socket;

/// Port of NFS where the address names none.
pub const PORT: u16 = 2049;
/// Longest wait for a connection, and for any answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest answer that is believed: the longest read of any server, and its head.
const LONGEST_ANSWER: usize = (4 << 20) + 4096;
/// Longest read that is asked for at once.
const LONGEST_READ: u32 = 1 << 20;
/// Most bytes of a directory that are looked at.
const LISTING: u32 = 32 << 10;
/// Ports from which only root can send; many servers answer nobody else. Tried from the highest.
const PRIVILEGED: std::ops::Range<u16> = 665..1023;

/// A blocking stream under the client library.
#[derive(Debug)]
struct Stream {
    tcp: TcpStream,
    /// Bytes of the answer that are still to come.
    left: usize,
}

impl AsyncRead for Stream {
    async fn async_read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.tcp.read(into)
    }

    /// The library asks for the word before an answer and then for as many bytes as it says, so the word is checked here.
    async fn async_read_exact(&mut self, into: &mut [u8]) -> io::Result<()> {
        socket::read_all(self.tcp.as_fd(), into)?;
        if self.left > 0 {
            self.left = self.left.saturating_sub(into.len());
        } else if let Ok(head) = <[u8; 4]>::try_from(&*into) {
            self.left = fragment_header::from(head).fragment_length() as usize;
            if self.left > LONGEST_ANSWER {
                return Err(io::Error::new(ErrorKind::InvalidData, format!("an answer of {} bytes", self.left)));
            }
        }
        Ok(())
    }
}

impl AsyncWrite for Stream {
    async fn async_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tcp.write(bytes)
    }

    async fn async_write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        socket::write_all(self.tcp.as_fd(), bytes)
    }
}

/// The outcome of a future that never waits for anything but calls of the kernel.
fn now<T>(future: impl Future<Output = T>) -> Result<T, String> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Ok(outcome),
        Poll::Pending => Err("the client waits for something that is not the network".to_owned()),
    }
}

/// Where a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The server.
    pub server: IpAddr,
    /// Port of NFS.
    pub port: u16,
    /// Port of MOUNT; none where the port mapper has to be asked.
    pub mount_port: Option<u16>,
    /// Path of a file, or of a directory with files.
    pub path: String,
}

/// A file that can be read.
#[derive(Debug)]
pub struct Reader {
    client: Nfs3Client<Stream>,
    file: nfs_fh3,
    /// Path of the file.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Longest read that the server answers at once.
    pub longest: u32,
    /// Own address on the way to the server.
    pub local: IpAddr,
}

impl Reader {
    /// Connects, mounts what holds the path, and finds the file: in a directory the largest one.
    pub fn open(place: &Place) -> Result<Self, Trouble> {
        let credential = || {
            let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
            let machinename = Opaque::owned(process::host_name().into_bytes());
            opaque_auth::auth_unix(&auth_unix { stamp: 0, machinename, uid, gid, gids: Vec::new() })
        };
        let server = format!("the NFS server {}", SocketAddr::new(place.server, place.port));
        let mount_port = mount_port(place);
        let io = connect(SocketAddr::new(place.server, mount_port)).map_err(|error| unreachable(place, &error))?;
        let mut mounts = MountClient::new_with_auth(io, credential(), opaque_auth::default());
        let (root, rest) = mount(&mut mounts, &place.path)?;
        let stream = connect(SocketAddr::new(place.server, place.port)).map_err(|error| unreachable(place, &error))?;
        let local = stream.tcp.local_addr().map_or(Ipv4Addr::UNSPECIFIED.into(), |local| local.ip().to_canonical());
        let client = Nfs3Client::new_with_auth(stream, credential(), opaque_auth::default());
        let mut reader =
            Reader { client, file: root, path: place.path.clone(), bytes: 0, longest: LONGEST_READ, local };
        for name in rest {
            reader.file = reader.look_up(&name)?;
        }
        if let Some(longest) = reader.longest_read()? {
            reader.longest = longest.clamp(512, LONGEST_READ);
        }
        let (kind, bytes) = reader.attributes()?;
        reader.bytes = bytes;
        if kind == ftype3::NF3DIR {
            let (name, file, bytes) = reader.largest()?.ok_or_else(|| {
                Trouble::new(format!("{} on {server} holds no file", place.path))
                    .hint("name a file of some MiB there; nothing is written over NFS")
            })?;
            reader.path = format!("{}/{name}", place.path.trim_end_matches('/'));
            (reader.file, reader.bytes) = (file, bytes);
        } else if kind != ftype3::NF3REG {
            return Err(Trouble::new(format!("{} on {server} is neither a file nor a directory", place.path)));
        }
        Ok(reader)
    }

    fn look_up(&mut self, name: &str) -> Result<nfs_fh3, Trouble> {
        let what = diropargs3 { dir: self.file.clone(), name: filename3(Opaque::borrowed(name.as_bytes())) };
        let found = self.call(|client| now(client.lookup(&LOOKUP3args { what })))?;
        succeeded(found, &format!("look up {name}")).map(|found| found.object)
    }

    fn longest_read(&mut self) -> Result<Option<u32>, Trouble> {
        let args = FSINFO3args { fsroot: self.file.clone() };
        let found = self.call(|client| now(client.fsinfo(&args)))?;
        // A server may refuse to say this of a file; reads are then as long as is usual.
        Ok(match found {
            Nfs3Result::Ok(found) => Some(found.rtmax),
            Nfs3Result::Err(_) => None,
        })
    }

    fn attributes(&mut self) -> Result<(ftype3, u64), Trouble> {
        let args = GETATTR3args { object: self.file.clone() };
        let found = self.call(|client| now(client.getattr(&args)))?;
        succeeded(found, "read the attributes").map(|found| (found.obj_attributes.type_, found.obj_attributes.size))
    }

    /// The largest file in the first part of a directory.
    fn largest(&mut self) -> Result<Option<(String, nfs_fh3, u64)>, Trouble> {
        let (cookie, cookieverf) = (0, cookieverf3([0; nfs3::NFS3_COOKIEVERFSIZE]));
        let args =
            READDIRPLUS3args { dir: self.file.clone(), cookie, cookieverf, dircount: LISTING / 4, maxcount: LISTING };
        let found = succeeded(self.call(|client| now(client.readdirplus(&args)))?, "list the directory")?;
        let files = found.reply.entries.0.into_iter().filter_map(|entry| {
            let (Nfs3Option::Some(facts), Nfs3Option::Some(handle)) = (entry.name_attributes, entry.name_handle) else {
                return None;
            };
            let name = String::from_utf8_lossy(entry.name.as_ref()).into_owned();
            (facts.type_ == ftype3::NF3REG).then_some((name, handle, facts.size))
        });
        Ok(files.max_by_key(|(_, _, bytes)| *bytes))
    }

    fn call<T, E: std::fmt::Display>(
        &mut self,
        call: impl FnOnce(&mut Nfs3Client<Stream>) -> Result<Result<T, E>, String>,
    ) -> Result<T, Trouble> {
        let lost = |why: String| {
            Trouble::new(format!("the NFS server cannot be spoken to: {why}"))
                .hint("does it serve version 3 over TCP at this port, and to this client?")
        };
        call(&mut self.client).map_err(lost)?.map_err(|error| lost(error.to_string()))
    }

    /// An empty call and its answer.
    pub fn exchange(&mut self) -> Result<(), String> {
        now(self.client.null())?.map_err(|error| format!("an empty call was not answered: {error}"))
    }

    /// Reads so many bytes, in as few calls as the server allows, one after the other. Every piece is handed on with its offset.
    pub fn read(
        &mut self,
        offset: u64,
        bytes: u32,
        mut take: impl FnMut(u64, &[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut done = 0;
        while done < bytes {
            let (offset, count) = (offset + u64::from(done), (bytes - done).min(self.longest));
            let args = READ3args { file: self.file.clone(), offset, count };
            let answer = now(self.client.read(&args))?.map_err(|error| format!("a read was not answered: {error}"))?;
            let found = match answer {
                Nfs3Result::Ok(found) => found,
                Nfs3Result::Err((status, _)) => return Err(format!("a read was refused: {status:?}")),
            };
            if found.data.len() != count as usize || found.count != count {
                return Err(format!("{} of {count} bytes came at offset {offset}", found.data.len()));
            }
            take(offset, &found.data)?;
            done += count;
        }
        Ok(())
    }
}

fn succeeded<T, E>(answer: Nfs3Result<T, E>, what: &str) -> Result<T, Trouble> {
    match answer {
        Nfs3Result::Ok(found) => Ok(found),
        Nfs3Result::Err((status, _)) => {
            let hint = match status {
                nfsstat3::NFS3ERR_NOENT => "it is not there: check the path, and the case of its letters",
                nfsstat3::NFS3ERR_ACCES | nfsstat3::NFS3ERR_PERM => {
                    "the server does not let this user read it; as root the reads come from a privileged port"
                }
                _ => "the word is that of RFC 1813",
            };
            Err(Trouble::new(format!("the NFS server refuses to {what}: {status:?}")).hint(hint))
        }
    }
}

/// Mounts the deepest directory of a path that the server exports; what is left of the path.
fn mount(mounts: &mut MountClient<Stream>, path: &str) -> Result<(nfs_fh3, Vec<String>), Trouble> {
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let mut denied = None;
    for depth in (0..=names.len()).rev() {
        let above = format!("/{}", names[..depth].join("/"));
        let outcome = now(mounts.mnt(dirpath(Opaque::owned(above.into_bytes())))).map_err(Trouble::new)?;
        match outcome {
            Ok(found) => {
                let rest = names[depth..].iter().map(|&name| name.to_owned()).collect();
                return Ok((nfs_fh3 { data: found.fhandle.0 }, rest));
            }
            Err(MountError::Denied(why)) => {
                denied.get_or_insert(why);
            }
            Err(error) => {
                return Err(Trouble::new(format!("the NFS server does not answer a mount: {error}"))
                    .hint("name the port of its mount service: nfs://HOST:PORT/path?mountport=N"));
            }
        }
    }
    let why = denied.map_or_else(String::new, |why| format!(": {why:?}"));
    Err(Trouble::new(format!("the NFS server exports nothing of {path} to this client{why}"))
        .hint("ask it what it exports: showmount -e HOST"))
}

/// The port of the mount service: as given, else by the port mapper, else the port of NFS.
fn mount_port(place: &Place) -> u16 {
    if let Some(port) = place.mount_port {
        return port;
    }
    let mapped = connect(SocketAddr::new(place.server, PMAP_PORT)).map_err(|error| error.to_string()).and_then(|io| {
        now(PortmapperClient::new(io).getport(mount::PROGRAM, mount::VERSION, IPPROTO_TCP))?
            .map_err(|error| error.to_string())
    });
    // Servers that serve both on one port need no port mapper; whether this is one shows when it is asked.
    mapped.unwrap_or(place.port)
}

fn unreachable(place: &Place, error: &io::Error) -> Trouble {
    Trouble::new(format!("the NFS server {} cannot be reached: {error}", SocketAddr::new(place.server, place.port)))
        .hint("is the address right, does NFS version 3 listen there over TCP, and is the port open on the way?")
}

/// Connects; as root from a privileged port, because many servers answer nobody else.
fn connect(to: SocketAddr) -> io::Result<Stream> {
    let mut last = None;
    let first = fastrand::u16(PRIVILEGED);
    let privileged = (PRIVILEGED.start..=first).rev().chain((first + 1..PRIVILEGED.end).rev()).map(Some).take(40);
    let ports: Vec<Option<u16>> =
        if nix::unistd::geteuid().is_root() { privileged.chain([None]).collect() } else { vec![None] };
    for port in ports {
        let domain = if to.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let socket = Socket::new(domain, Type::STREAM, None)?;
        if let Some(port) = port {
            let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            // A port that is taken, or that may not be had, is passed over.
            if socket.bind(&SockAddr::from(SocketAddr::new(any, port))).is_err() {
                continue;
            }
        }
        match socket.connect_timeout(&SockAddr::from(to), PATIENCE) {
            Ok(()) => {
                socket.set_tcp_nodelay(true)?;
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.set_write_timeout(Some(PATIENCE))?;
                return Ok(Stream { tcp: socket.into(), left: 0 });
            }
            // The same pair of ports may still be closing.
            Err(error) if [ErrorKind::AddrInUse, ErrorKind::AddrNotAvailable].contains(&error.kind()) => {
                last = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::other("no port of this machine is free")))
}
