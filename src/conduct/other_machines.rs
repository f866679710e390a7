//! The other machines of a run: the peer, an NFS server, and the server of a mounted directory. Each of them is found before
//! anything is measured.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;

use crate::experiments::file::file_system::FileSystem;
use crate::peer::authentication::Secret;
use crate::peer::client::Partner;
use crate::peer::nfs::{FileLocation, Reader};
use crate::peer::resolve;
use crate::peer::ssh::{self, Brought};
use crate::results::peer::Peer;
use crate::results::problem::Problem;
use crate::results::remote::{NfsFile, RemoteDirectory};
use crate::setup::PeerAccess;
use crate::sys::talk;

/// Smallest file that is worth reading over NFS: four of the longest reads.
const SMALLEST: u64 = 4 << 20;

/// A peer that was named.
pub enum PeerTarget {
    /// To be brought along to a host through ssh.
    Ssh(String),
    /// It listens on a host and a port already.
    At(String, u16, Secret),
}

/// A peer that answered. One that was brought along ends with this value.
#[derive(Debug)]
pub struct Connected {
    /// Who it is.
    pub facts: Peer,
    /// How launches reach it.
    pub access: PeerAccess,
    _brought: Option<Brought>,
}

/// A file on an NFS server that was named.
#[derive(Debug, PartialEq, Eq)]
pub struct NfsTarget {
    /// Host, by name or number.
    pub host: String,
    /// Port of NFS.
    pub port: u16,
    /// Port of the mount service. Without one the port mapper is asked.
    pub mount_port: Option<u16>,
    /// Path of the file, or of a directory with files.
    pub path: String,
}

/// Connects to a peer, which says who it is.
pub fn connect(target: &PeerTarget) -> Result<Connected, Problem> {
    match target {
        PeerTarget::Ssh(host) => {
            let brought = ssh::bring(host)?;
            let (address, secret) = (brought.address, brought.secret.clone());
            greet(&[address], &secret, "ssh", Some(brought))
        }
        PeerTarget::At(host, port, secret) => greet(&addresses(host, *port)?, secret, "by hand", None),
    }
}

/// The addresses of a host, with a port.
pub fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, Problem> {
    Ok(resolve::resolve(host)?.into_iter().map(|address| SocketAddr::new(address, port)).collect())
}

/// The first of the addresses at which a peer answers.
fn greet(
    addresses: &[SocketAddr],
    secret: &Secret,
    started: &str,
    brought: Option<Brought>,
) -> Result<Connected, Problem> {
    let mut last = Problem::new("the host has no address");
    for &address in addresses {
        match Partner::elsewhere(address, secret) {
            Ok(mut partner) => {
                let (version, machine) = partner.describe()?;
                if version != env!("CARGO_PKG_VERSION") {
                    talk::line(format_args!(
                        "warning: the peer runs version {version}, this machine version {}",
                        env!("CARGO_PKG_VERSION")
                    ));
                }
                let local = partner.local_address();
                let (interface, on_link) = local.map_or((None, false), |local| way(local, address.ip().to_canonical()));
                let facts = Peer {
                    address: address.ip().to_canonical().to_string(),
                    port: address.port(),
                    local_address: local.map_or_else(|| "unknown".to_owned(), |local| local.to_string()),
                    interface,
                    on_link,
                    started: started.to_owned(),
                    version,
                    machine,
                };
                let access = PeerAccess { address, secret: secret.text().to_owned() };
                return Ok(Connected { facts, access, _brought: brought });
            }
            Err(problem) => last = problem,
        }
    }
    Err(last)
}

/// A directory, which has to be another machine's.
pub fn remote_directory(directory: &Path) -> Result<RemoteDirectory, Problem> {
    let ground = FileSystem::of(directory)?;
    ground.is_remote()?;
    let storage = crate::machine::storage_at(directory);
    let mount = storage.and_then(|storage| storage.mount);
    Ok(RemoteDirectory {
        directory: directory.to_string_lossy().into_owned(),
        mount_point: mount.map_or_else(String::new, |mount| mount.mount_point),
        file_system: ground.file_system,
        options: ground.options,
        what: ground.what,
    })
}

/// The file at an address, tried at each address of the host.
pub fn nfs_file(url: &str, target: &NfsTarget) -> Result<NfsFile, Problem> {
    let NfsTarget { host, port, mount_port, path } = target;
    let mut last = Problem::new(format!("{host} has no address"));
    for at in addresses(host, *port)? {
        match Reader::open(&FileLocation { server: at.ip(), port: *port, mount_port: *mount_port, path: path.clone() })
        {
            Ok(reader) => return describe(url, at, *mount_port, &reader),
            Err(problem) => last = problem,
        }
    }
    Err(last)
}

fn describe(url: &str, at: SocketAddr, mount_port: Option<u16>, reader: &Reader) -> Result<NfsFile, Problem> {
    if reader.bytes < SMALLEST {
        return Err(Problem::new(format!("{} has {} bytes, less than {SMALLEST}", reader.path, reader.bytes))
            .hint("name a larger file, preferably of 64 MiB or more, because each cold read needs separate bytes"));
    }
    let server: IpAddr = at.ip().to_canonical();
    let (interface, on_link) = way(reader.local, server);
    Ok(NfsFile {
        url: url.to_owned(),
        server: server.to_string(),
        port: at.port(),
        mount_port,
        path: reader.path.clone(),
        bytes: reader.bytes,
        longest_read: reader.longest,
        local_address: reader.local.to_string(),
        interface,
        on_link,
    })
}

/// The interface that has an own address, and whether another address is on its link.
fn way(local: IpAddr, other: IpAddr) -> (Option<String>, bool) {
    let ip = |storage: &SockaddrStorage| -> Option<IpAddr> {
        storage
            .as_sockaddr_in()
            .map(|address| IpAddr::V4(address.ip()))
            .or_else(|| storage.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
    };
    let Ok(interfaces) = getifaddrs() else { return (None, false) };
    for interface in interfaces {
        if interface.address.as_ref().and_then(ip) != Some(local) {
            continue;
        }
        let mask = interface.netmask.as_ref().and_then(ip);
        let on_link = local == other || mask.is_some_and(|mask| same_network(local, other, mask));
        return (Some(interface.interface_name), on_link);
    }
    (None, local == other)
}

fn same_network(one: IpAddr, other: IpAddr, mask: IpAddr) -> bool {
    match (one, other, mask) {
        (IpAddr::V4(one), IpAddr::V4(other), IpAddr::V4(mask)) => {
            u32::from(one) & u32::from(mask) == u32::from(other) & u32::from(mask)
        }
        (IpAddr::V6(one), IpAddr::V6(other), IpAddr::V6(mask)) => {
            u128::from(one) & u128::from(mask) == u128::from(other) & u128::from(mask)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_tells_the_link() {
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(same_network(at("10.1.2.3"), at("10.1.9.9"), at("255.255.0.0")));
        assert!(!same_network(at("10.1.2.3"), at("10.2.9.9"), at("255.255.0.0")));
        assert!(same_network(at("fd00::1"), at("fd00::2"), at("ffff:ffff:ffff:ffff::")));
        assert!(!same_network(at("10.1.2.3"), at("fd00::2"), at("255.255.0.0")));
    }

    #[test]
    fn a_local_directory_is_refused_by_name() {
        let refused = remote_directory(Path::new("/dev")).unwrap_err();
        assert!(refused.what.contains("not of another machine"), "{refused}");
        assert!(remote_directory(Path::new("/proc/nonexistent")).is_err());
    }
}
