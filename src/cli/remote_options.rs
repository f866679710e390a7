//! What was typed about files on another machine: an address of an NFS server, or a directory that is mounted from one.

use super::Failure;
use super::arguments::RemoteChoice;
use super::peer_options::any_of;
use crate::conduct::other_machines::{NfsTarget, addresses, nfs_file, remote_directory};
use crate::peer::nfs::PORT;
use crate::results::problem::Problem;
use crate::results::remote::{Remote, RemoteDirectory};

/// Finds what was named, if anything was.
pub(super) fn find(choice: &RemoteChoice) -> Result<Option<Remote>, Failure> {
    let directory = choice.remote_dir.as_deref().map(remote_directory).transpose()?;
    let target = choice.nfs.as_deref().map(parse).transpose()?;
    let nfs = choice.nfs.as_deref().zip(target).map(|(url, target)| nfs_file(url, &target));
    let remote = Remote { nfs: nfs.transpose().map_err(Failure::while_working)?, directory };
    Ok((remote.ways() > 0).then_some(remote))
}

/// What a dry run says of what was named. Addresses are understood and names resolved; no server is asked for a file.
pub(super) fn foresee(choice: &RemoteChoice) -> Result<String, Failure> {
    let mut text = String::new();
    if let Some(named) = &choice.remote_dir {
        let RemoteDirectory { directory, mount_point, file_system, .. } = remote_directory(named)?;
        text +=
            &format!("remote directory: {directory}, below {mount_point} ({file_system}). No file was made there\n");
    }
    if let Some(url) = &choice.nfs {
        let NfsTarget { host, port, path, .. } = parse(url)?;
        let addresses = addresses(&host, port).map_err(Failure::while_working)?;
        text += &format!(
            "NFS server: at {}. It is not contacted in a dry run, so {path} is not checked\n",
            any_of(&addresses)
        );
    }
    Ok(text)
}

/// `nfs://HOST[:PORT]/path[?mountport=N]`, with an IPv6 address in brackets.
fn parse(url: &str) -> Result<NfsTarget, Problem> {
    let wrong = |why: &str| {
        Problem::new(format!("'{url}' is not a valid address of a file on an NFS server: {why}"))
            .hint("write nfs://HOST[:PORT]/export/path, with ?mountport=N for a server without a port mapper")
    };
    let rest = url.strip_prefix("nfs://").ok_or_else(|| wrong("it does not begin with nfs://"))?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut mount_port = None;
    for part in query.split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("mountport", port)) => {
                mount_port = Some(port.parse().map_err(|_| wrong("mountport is not a valid port"))?);
            }
            _ => return Err(wrong("only mountport=N may follow the question mark")),
        }
    }
    let (host, path) = rest.split_once('/').ok_or_else(|| wrong("it has no path"))?;
    let bare_ipv6 = host.starts_with('[') && host.ends_with(']');
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) if !bare_ipv6 => {
            (host, port.parse().map_err(|_| wrong("the part after the colon is not a valid port"))?)
        }
        _ => (host, PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err(wrong("it has no host"));
    }
    Ok(NfsTarget { host: host.to_owned(), port, mount_port, path: format!("/{path}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_a_path_and_maybe_ports() {
        let of = |host: &str, port, mount_port, path: &str| NfsTarget {
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
}
