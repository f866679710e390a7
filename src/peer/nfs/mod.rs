//! Reading a file over NFS version 3 from user space: no mount, no privileges, and no cache of this machine in between.
//!
//! The calls are those of a client library; beneath it lies a blocking stream, so a read is a write of the call, a wait in the
//! kernel, and the reads of its answer, on the thread that asked. The library waits on futures; over this stream each is ready
//! when it is first asked.

mod answers;
mod stream;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use nfs3_client::rpc::RpcClient;
use nfs3_types::mount::{self, MOUNT_PROGRAM, dirpath};
use nfs3_types::nfs3::{
    self, FSINFO3args, FSINFO3res, GETATTR3args, GETATTR3res, LOOKUP3args, NFS_PROGRAM, Nfs3Result, READ3args,
    READDIRPLUS3args, cookieverf3, diropargs3, filename3, ftype3, nfs_fh3, nfsstat3,
};
use nfs3_types::portmap::{self, IPPROTO_TCP, PMAP_PORT, PMAP_PROG, mapping};
use nfs3_types::rpc::{auth_unix, opaque_auth};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack, Void};

use crate::results::problem::Problem;
use crate::sys::process;
use answers::{Largest, Listed, LookedUp, MountReply, Read3};
use stream::{RpcStream, connect, now};

/// Port of NFS where the address names none.
pub const PORT: u16 = 2049;
/// Longest read that is asked for at once.
const LONGEST_READ: u32 = 1 << 20;
/// Most bytes of a directory that are looked at.
const LISTING: u32 = 32 << 10;
/// Time in which a file has to be found, from the first connection on.
const FINDING: Duration = Duration::from_secs(20);

/// Where a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileLocation {
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
    client: RpcClient<RpcStream>,
    /// When the file has to be found.
    due: Instant,
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
    pub fn open(place: &FileLocation) -> Result<Self, Problem> {
        let credential = || {
            let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
            let machinename = Opaque::owned(process::host_name().into_bytes());
            opaque_auth::auth_unix(&auth_unix { stamp: 0, machinename, uid, gid, gids: Vec::new() })
        };
        let server = format!("the NFS server {}", SocketAddr::new(place.server, place.port));
        let due = Instant::now() + FINDING;
        let mount_port = mount_port(place);
        let io = connect(SocketAddr::new(place.server, mount_port)).map_err(|error| unreachable(place, &error))?;
        let mut mounts = RpcClient::new_with_auth(io, credential(), opaque_auth::default());
        let (root, rest) = mount(&mut mounts, &place.path, due)?;
        let stream = connect(SocketAddr::new(place.server, place.port)).map_err(|error| unreachable(place, &error))?;
        let local = stream.tcp.local_addr().map_or(Ipv4Addr::UNSPECIFIED.into(), |local| local.ip().to_canonical());
        let client = RpcClient::new_with_auth(stream, credential(), opaque_auth::default());
        let path = place.path.clone();
        let mut reader = Reader { client, due, file: root, path, bytes: 0, longest: LONGEST_READ, local };
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
                Problem::new(format!("{} on {server} contains no file", place.path))
                    .hint("name a file of some MiB there. Nothing is written over NFS")
            })?;
            reader.path = format!("{}/{name}", place.path.trim_end_matches('/'));
            (reader.file, reader.bytes) = (file, bytes);
        } else if kind != ftype3::NF3REG {
            return Err(Problem::new(format!("{} on {server} is neither a file nor a directory", place.path)));
        }
        Ok(reader)
    }

    fn look_up(&mut self, name: &str) -> Result<nfs_fh3, Problem> {
        let what = diropargs3 { dir: self.file.clone(), name: filename3(Opaque::borrowed(name.as_bytes())) };
        let found: LookedUp = self.find(NFS_PROGRAM::NFSPROC3_LOOKUP, &LOOKUP3args { what })?;
        succeeded(found, &format!("look up {name}")).map(|found| found.0)
    }

    fn longest_read(&mut self) -> Result<Option<u32>, Problem> {
        let args = FSINFO3args { fsroot: self.file.clone() };
        let found: FSINFO3res = self.find(NFS_PROGRAM::NFSPROC3_FSINFO, &args)?;
        // A server may refuse to say this of a file; reads are then as long as is usual.
        Ok(match found {
            Nfs3Result::Ok(found) => Some(found.rtmax),
            Nfs3Result::Err(_) => None,
        })
    }

    fn attributes(&mut self) -> Result<(ftype3, u64), Problem> {
        let args = GETATTR3args { object: self.file.clone() };
        let found: GETATTR3res = self.find(NFS_PROGRAM::NFSPROC3_GETATTR, &args)?;
        succeeded(found, "read the attributes").map(|found| (found.obj_attributes.type_, found.obj_attributes.size))
    }

    /// The largest file in the first part of a directory.
    fn largest(&mut self) -> Result<Option<(String, nfs_fh3, u64)>, Problem> {
        let (cookie, cookieverf) = (0, cookieverf3([0; nfs3::NFS3_COOKIEVERFSIZE]));
        let args =
            READDIRPLUS3args { dir: self.file.clone(), cookie, cookieverf, dircount: LISTING / 4, maxcount: LISTING };
        let listed: Listed = self.find(NFS_PROGRAM::NFSPROC3_READDIRPLUS, &args)?;
        let Largest(found) = succeeded(listed, "list the directory")?;
        Ok(found.map(|(name, handle, bytes)| (String::from_utf8_lossy(&name).into_owned(), handle, bytes)))
    }

    /// A call on the way to the file.
    fn find<R: Unpack>(&mut self, procedure: NFS_PROGRAM, args: &(impl Pack + Send + Sync)) -> Result<R, Problem> {
        in_time(self.due)?;
        self.call(procedure, args).map_err(|why| {
            Problem::new(format!("cannot use the NFS server: {why}"))
                .hint("check that it serves NFS version 3 over TCP at this port and to this client")
        })
    }

    fn call<R: Unpack>(&mut self, procedure: NFS_PROGRAM, args: &(impl Pack + Send + Sync)) -> Result<R, String> {
        let answer = self.client.call(nfs3::PROGRAM, nfs3::VERSION, procedure as u32, args);
        now(answer)?.map_err(|error| error.to_string())
    }

    /// An empty call and its answer.
    pub fn exchange(&mut self) -> Result<(), String> {
        let answered = self.call::<Void>(NFS_PROGRAM::NFSPROC3_NULL, &Void);
        answered.map(|_| ()).map_err(|error| format!("an empty call was not answered: {error}"))
    }

    /// Reads this many bytes, in as few calls as the server allows, one after the other. Every piece is handed on with its offset.
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
            let answer: Read3 = self
                .call(NFS_PROGRAM::NFSPROC3_READ, &args)
                .map_err(|error| format!("a read was not answered: {error}"))?;
            let found = match answer {
                Nfs3Result::Ok(found) => found,
                Nfs3Result::Err((status, _)) => return Err(format!("a read was refused: {status:?}")),
            };
            if found.data.len() != count as usize || found.count != count {
                return Err(format!("{} of {count} bytes arrived at offset {offset}", found.data.len()));
            }
            take(offset, &found.data)?;
            done += count;
        }
        Ok(())
    }
}

fn succeeded<T, E>(answer: Nfs3Result<T, E>, what: &str) -> Result<T, Problem> {
    match answer {
        Nfs3Result::Ok(found) => Ok(found),
        Nfs3Result::Err((status, _)) => {
            let hint = match status {
                nfsstat3::NFS3ERR_NOENT => "the path does not exist. Check it, including upper and lower case",
                nfsstat3::NFS3ERR_ACCES | nfsstat3::NFS3ERR_PERM => {
                    "the server does not let this user read it. When sysdyno runs as root, it reads from a privileged \
                     port"
                }
                _ => "RFC 1813 defines this error",
            };
            Err(Problem::new(format!("the NFS server refuses to {what}: {status:?}")).hint(hint))
        }
    }
}

/// Mounts the deepest directory of a path that the server exports; what is left of the path.
fn mount(mounts: &mut RpcClient<RpcStream>, path: &str, due: Instant) -> Result<(nfs_fh3, Vec<String>), Problem> {
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let mut denied = None;
    for depth in (0..=names.len()).rev() {
        let above = format!("/{}", names[..depth].join("/"));
        let (what, procedure) = (dirpath(Opaque::owned(above.into_bytes())), MOUNT_PROGRAM::MOUNTPROC3_MNT as u32);
        in_time(due)?;
        match now(mounts.call(mount::PROGRAM, mount::VERSION, procedure, &what)).map_err(Problem::new)? {
            Ok(MountReply(Ok(found))) => {
                let rest = names[depth..].iter().map(|&name| name.to_owned()).collect();
                return Ok((found, rest));
            }
            Ok(MountReply(Err(why))) => {
                denied.get_or_insert(why);
            }
            Err(error) => {
                return Err(Problem::new(format!("the NFS server does not answer a mount request: {error}"))
                    .hint("name the port of its mount service: nfs://HOST:PORT/path?mountport=N"));
            }
        }
    }
    let why = denied.map_or_else(String::new, |why| format!(": {why:?}"));
    Err(Problem::new(format!("the NFS server exports no part of {path} to this client{why}"))
        .hint("list its exports: showmount -e HOST"))
}

/// The port of the mount service: as given, else by the port mapper, else the port of NFS.
fn mount_port(place: &FileLocation) -> u16 {
    if let Some(port) = place.mount_port {
        return port;
    }
    let mapped = connect(SocketAddr::new(place.server, PMAP_PORT)).map_err(|error| error.to_string()).and_then(|io| {
        let asked = mapping { prog: mount::PROGRAM, vers: mount::VERSION, prot: IPPROTO_TCP, port: 0 };
        let mut mapper = RpcClient::new(io);
        let answer = mapper.call(portmap::PROGRAM, portmap::VERSION, PMAP_PROG::PMAPPROC_GETPORT as u32, &asked);
        let port: u32 = now(answer)?.map_err(|error| error.to_string())?;
        u16::try_from(port).ok().filter(|&port| port > 0).ok_or_else(|| format!("port {port}"))
    });
    // Servers that serve both on one port need no port mapper; whether this is one shows when it is asked.
    mapped.unwrap_or(place.port)
}

/// Whether there is time for another call.
fn in_time(due: Instant) -> Result<(), Problem> {
    if Instant::now() < due {
        return Ok(());
    }
    Err(Problem::new(format!("the NFS server is too slow. It gave no file within {} s", FINDING.as_secs()))
        .hint("name a file instead of a directory, and check the load of the server"))
}

fn unreachable(place: &FileLocation, error: &io::Error) -> Problem {
    Problem::new(format!("cannot reach the NFS server {}: {error}", SocketAddr::new(place.server, place.port)))
        .hint("check the address, that NFS version 3 listens there over TCP, and that firewalls leave the port open")
}
