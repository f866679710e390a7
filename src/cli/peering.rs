//! How `run` finds its peer: names become addresses, a peer is brought along where that is asked for, and the one that
//! answers says who it is before anything is planned.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;

use super::Failure;
use super::arguments::PeerChoice;
use crate::peer::authentication::{LONGEST_SECRET, Secret};
use crate::peer::client::Partner;
use crate::peer::resolve;
use crate::peer::ssh::{self, Brought};
use crate::results::peer::Peer;
use crate::results::trouble::Trouble;
use crate::rig::order::PeerAccess;
use crate::sys::talk;

/// Where the secret may stand in the environment.
pub(super) const VARIABLE: &str = "SYSDYNO_PEER_SECRET";

/// A peer that answered. One that was brought along ends with this value.
#[derive(Debug)]
pub(super) struct Met {
    facts: Peer,
    access: PeerAccess,
    _brought: Option<Brought>,
}

impl Met {
    /// What a run has to know of it.
    pub fn told(&self) -> (Peer, PeerAccess) {
        (self.facts.clone(), self.access.clone())
    }
}

/// What was typed about a peer, once it makes sense.
enum Wanted {
    /// To be brought along to a host.
    Brought(String),
    /// It listens at one of these already.
    There(Vec<SocketAddr>, Secret),
}

/// Understands what was typed. Names are resolved; the peer is not spoken to.
fn understand(choice: &PeerChoice) -> Result<Option<Wanted>, Failure> {
    let Some(wanted) = &choice.peer else {
        return if choice.peer_secret.is_some() || choice.peer_secret_file.is_some() {
            Err(Trouble::new("a secret was given, but no peer").hint("name it with --peer HOST:PORT").into())
        } else {
            Ok(None)
        };
    };
    if let Some(host) = wanted.strip_prefix("ssh://") {
        let host = host.trim_end_matches('/');
        ssh::check_host(host)?;
        return Ok(Some(Wanted::Brought(host.to_owned())));
    }
    let secret = secret(choice)?;
    let (host, port) = resolve::split(wanted)?;
    let addresses = resolve::resolve(&host).map_err(Failure::while_working)?;
    let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect();
    Ok(Some(Wanted::There(addresses, secret)))
}

/// What a dry run says of the peer: it is not spoken to.
pub(super) fn foresee(choice: &PeerChoice) -> Result<Option<String>, Failure> {
    let at = match understand(choice)? {
        None => return Ok(None),
        Some(Wanted::Brought(host)) => format!("would be brought along to {host} through ssh"),
        Some(Wanted::There(addresses, _)) => {
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            format!("at {}", addresses.join(" or "))
        }
    };
    Ok(Some(format!("peer: {at}; not contacted, because this is a dry run\n")))
}

/// Meets the peer that was asked for, if one was.
pub(super) fn meet(choice: &PeerChoice) -> Result<Option<Met>, Failure> {
    let met = match understand(choice)? {
        None => return Ok(None),
        Some(Wanted::Brought(host)) => ssh::bring(&host).and_then(|brought| {
            let (address, secret) = (brought.address, brought.secret.clone());
            greet(&[address], &secret, "ssh", Some(brought))
        }),
        Some(Wanted::There(addresses, secret)) => greet(&addresses, &secret, "by hand", None),
    };
    met.map(Some).map_err(Failure::while_working)
}

/// Meets the peer of a run that goes on; it has to be the same machine.
pub(super) fn meet_again(choice: &PeerChoice, before: Option<&Peer>) -> Result<Option<Met>, Failure> {
    let met = meet(choice)?;
    match (&met, before) {
        (None, Some(before)) => {
            Err(Trouble::new(format!("this run was measured against a peer at {}", before.address))
                .hint("start `sysdyno peer` there again and give --peer HOST:PORT with its secret")
                .into())
        }
        (Some(_), None) => Err(Trouble::new("this run was begun without a peer")
            .hint("go on without --peer, or start a new run")
            .into()),
        (Some(met), Some(before)) if met.facts.machine.fingerprint != before.machine.fingerprint => {
            Err(Trouble::new(format!(
                "this run was begun with another machine as its peer ({}), this one is {}",
                before.machine.fingerprint, met.facts.machine.fingerprint
            ))
            .hint("figures of two paths do not belong into one run: start a new one")
            .into())
        }
        _ => Ok(met),
    }
}

fn secret(choice: &PeerChoice) -> Result<Secret, Trouble> {
    if let Some(text) = &choice.peer_secret {
        return Secret::of(text);
    }
    if let Some(file) = &choice.peer_secret_file {
        return read_secret(Path::new(file));
    }
    match std::env::var(VARIABLE) {
        Ok(text) => Secret::of(&text),
        Err(_) => Err(Trouble::new("the peer asks for a secret")
            .hint(format!("give the one that it printed with --peer-secret, --peer-secret-file, or {VARIABLE}"))),
    }
}

/// A secret from a file, or the first line of standard input. Not a byte more is read: the rest of the input is the
/// lifeline.
pub(super) fn read_secret(file: &Path) -> Result<Secret, Trouble> {
    let cannot = |error: std::io::Error| {
        Trouble::new(format!("cannot read the secret from {}: {error}", file.display()))
            .hint("give a file that holds the secret alone, or - for standard input")
    };
    if file.as_os_str() != "-" {
        let mut text = String::new();
        std::fs::File::open(file)
            .and_then(|opened| opened.take(2 * LONGEST_SECRET as u64).read_to_string(&mut text))
            .map_err(cannot)?;
        return Secret::of(&text);
    }
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() <= LONGEST_SECRET {
        let count = nix::unistd::read(std::io::stdin().as_fd(), &mut byte).map_err(|error| cannot(error.into()))?;
        if count == 0 || byte[0] == b'\n' {
            break;
        }
        line.push(byte[0]);
    }
    Secret::of(&String::from_utf8_lossy(&line))
}

/// The first of the addresses at which a peer answers.
fn greet(addresses: &[SocketAddr], secret: &Secret, started: &str, brought: Option<Brought>) -> Result<Met, Trouble> {
    let mut last = Trouble::new("the host has no address");
    for &address in addresses {
        match Partner::elsewhere(address, secret) {
            Ok(mut partner) => {
                let (version, machine) = partner.describe()?;
                if version != env!("CARGO_PKG_VERSION") {
                    talk::line(format_args!(
                        "warning: the peer runs version {version}, this is {}",
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
                return Ok(Met { facts, access, _brought: brought });
            }
            Err(trouble) => last = trouble,
        }
    }
    Err(last)
}

/// The interface that has an own address, and whether another address is on its link.
pub(super) fn way(local: IpAddr, other: IpAddr) -> (Option<String>, bool) {
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

/// The command as typed, for the record, without the secret.
pub(super) fn without_secret(command: &[String]) -> Vec<String> {
    const FLAG: &str = "--peer-secret";
    let mut hidden = false;
    command
        .iter()
        .map(|word| {
            let hide = std::mem::replace(&mut hidden, word == FLAG);
            match word.split_once('=') {
                _ if hide => "…".to_owned(),
                Some((FLAG, _)) => format!("{FLAG}=…"),
                _ => word.clone(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_written_down() {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<String>>();
        let typed = words(&["sysdyno", "run", "--peer-secret", "hush", "--peer", "a:1"]);
        assert_eq!(without_secret(&typed), words(&["sysdyno", "run", "--peer-secret", "…", "--peer", "a:1"]));
        assert_eq!(without_secret(&words(&["--peer-secret=hush"])), words(&["--peer-secret=…"]));
        assert_eq!(without_secret(&words(&["--peer-secret-file", "f"])), words(&["--peer-secret-file", "f"]));
    }

    #[test]
    fn a_mask_tells_the_link() {
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(same_network(at("10.1.2.3"), at("10.1.9.9"), at("255.255.0.0")));
        assert!(!same_network(at("10.1.2.3"), at("10.2.9.9"), at("255.255.0.0")));
        assert!(same_network(at("fd00::1"), at("fd00::2"), at("ffff:ffff:ffff:ffff::")));
        assert!(!same_network(at("10.1.2.3"), at("fd00::2"), at("255.255.0.0")));
    }
}
