//! How `run` finds files on another machine: an address of an NFS server, or a directory that is mounted from one.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use super::Failure;
use super::arguments::RemoteChoice;
use super::peering::way;
use crate::peer::nfs::{PORT, Place, Reader};
use crate::peer::resolve;
use crate::results::remote::{NfsFile, Remote, RemoteDirectory};
use crate::results::trouble::Trouble;
use crate::rig::ground::Ground;

/// Smallest file that is worth reading over NFS: four of the longest reads.
const SMALLEST: u64 = 4 << 20;

/// Looks at what was named, if anything was.
pub(super) fn find(choice: &RemoteChoice) -> Result<Option<Remote>, Failure> {
    let directory = choice.remote_dir.as_deref().map(directory).transpose()?;
    let nfs = choice.nfs.as_deref().map(nfs).transpose()?;
    let remote = Remote { nfs, directory };
    Ok((remote.ways() > 0).then_some(remote))
}

/// What a dry run says of what was named. Addresses are understood and names resolved; no server is asked for a file.
pub(super) fn foresee(choice: &RemoteChoice) -> Result<String, Failure> {
    let mut text = String::new();
    if let Some(named) = &choice.remote_dir {
        let RemoteDirectory { directory, mount_point, file_system, .. } = directory(named)?;
        text +=
            &format!("remote directory: {directory}, below {mount_point} ({file_system}); no file was made there\n");
    }
    if let Some(url) = &choice.nfs {
        let Address { host, port, path, .. } = parse(url)?;
        let addresses = resolve::resolve(&host).map_err(Failure::while_working)?;
        let addresses: Vec<String> =
            addresses.into_iter().map(|address| SocketAddr::new(address, port).to_string()).collect();
        text += &format!(
            "NFS server: at {}; not contacted, because this is a dry run: whether {path} is there will show\n",
            addresses.join(" or ")
        );
    }
    Ok(text)
}

/// The same for a run that goes on: what it was begun with has to be named again.
pub(super) fn find_again(choice: &RemoteChoice, before: Option<&Remote>) -> Result<Option<Remote>, Failure> {
    let found = find(choice)?;
    let names = |remote: Option<&Remote>| {
        let nfs = remote.and_then(|remote| remote.nfs.as_ref()).map(|nfs| nfs.url.clone());
        (nfs, remote.and_then(|remote| remote.directory.as_ref()).map(|directory| directory.directory.clone()))
    };
    if names(found.as_ref()) == names(before) {
        return Ok(found);
    }
    let hint = match names(before) {
        (None, None) => "go on without --nfs and --remote-dir, or start a new run".to_owned(),
        (nfs, directory) => {
            let flags = [nfs.map(|url| format!("--nfs {url}")), directory.map(|place| format!("--remote-dir {place}"))];
            format!("give {}", flags.into_iter().flatten().collect::<Vec<_>>().join(" "))
        }
    };
    Err(Trouble::new("this run was begun with other files on another machine").hint(hint).into())
}

/// A directory, which has to be another machine's.
fn directory(directory: &Path) -> Result<RemoteDirectory, Trouble> {
    let ground = Ground::of(directory)?;
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
fn nfs(url: &str) -> Result<NfsFile, Failure> {
    let Address { host, port, mount_port, path } = parse(url)?;
    let addresses = resolve::resolve(&host).map_err(Failure::while_working)?;
    let mut last = Trouble::new(format!("{host} has no address"));
    for server in addresses {
        match Reader::open(&Place { server, port, mount_port, path: path.clone() }) {
            Ok(reader) => return describe(url, SocketAddr::new(server, port), mount_port, &reader),
            Err(trouble) => last = trouble,
        }
    }
    Err(Failure::while_working(last))
}

fn describe(url: &str, at: SocketAddr, mount_port: Option<u16>, reader: &Reader) -> Result<NfsFile, Failure> {
    if reader.bytes < SMALLEST {
        return Err(Failure::while_working(
            Trouble::new(format!("{} has {} bytes, less than {SMALLEST}", reader.path, reader.bytes))
                .hint("name a larger file, best of 64 MiB and more: each cold read needs bytes of its own"),
        ));
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

/// Parts of an address.
#[derive(Debug, PartialEq, Eq)]
struct Address {
    host: String,
    port: u16,
    mount_port: Option<u16>,
    path: String,
}

/// `nfs://HOST[:PORT]/path[?mountport=N]`, with an IPv6 address in brackets.
fn parse(url: &str) -> Result<Address, Trouble> {
    let wrong = |why: &str| {
        Trouble::new(format!("'{url}' is no address of a file on an NFS server: {why}"))
            .hint("write nfs://HOST[:PORT]/export/path, with ?mountport=N where no port mapper answers")
    };
    let rest = url.strip_prefix("nfs://").ok_or_else(|| wrong("it does not begin with nfs://"))?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut mount_port = None;
    for part in query.split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("mountport", port)) => {
                mount_port = Some(port.parse().map_err(|_| wrong("mountport is no port"))?);
            }
            _ => return Err(wrong("only mountport=N may follow the question mark")),
        }
    }
    let (host, path) = rest.split_once('/').ok_or_else(|| wrong("it has no path"))?;
    let bare_ipv6 = host.starts_with('[') && host.ends_with(']');
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) if !bare_ipv6 => {
            (host, port.parse().map_err(|_| wrong("what follows the colon is no port"))?)
        }
        _ => (host, PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err(wrong("it has no host"));
    }
    Ok(Address { host: host.to_owned(), port, mount_port, path: format!("/{path}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_a_path_and_maybe_ports() {
        let of = |host: &str, port, mount_port, path: &str| Address {
            host: host.to_owned(),
            port,
            mount_port,
            path: path.to_owned(),
        };
        assert_eq!(parse("nfs://server/export/file").unwrap(), of("server", 2049, None, "/export/file"));
        assert_eq!(parse("nfs://10.0.0.1:20490/a?mountport=99").unwrap(), of("10.0.0.1", 20490, Some(99), "/a"));
        assert_eq!(parse("nfs://[fd00::1]/a").unwrap(), of("fd00::1", 2049, None, "/a"));
        assert_eq!(parse("nfs://[fd00::1]:99/a/b").unwrap(), of("fd00::1", 99, None, "/a/b"));
        assert_eq!(parse("nfs://server/").unwrap(), of("server", 2049, None, "/"));
        for wrong in ["server:/export", "nfs:/server/a", "nfs://server", "nfs:///a", "nfs://s:x/a", "nfs://s/a?x=1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_local_directory_is_refused_by_name() {
        let refused = directory(Path::new("/dev")).unwrap_err();
        assert!(refused.what.contains("not a remote one"), "{refused}");
        assert!(directory(Path::new("/nonexistent")).is_err());
    }
}
