//! The networks of this node, and the address that a member listens on.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;

use crate::machine::{self, Interface};
use crate::results::mesh::MeshLink;
use crate::results::problem::Problem;

/// Interfaces of programs on this machine: no network between nodes.
const INSIDE: [&str; 8] = ["docker", "virbr", "br-", "cni", "cali", "flannel", "podman", "lxc"];
/// An address of a network for documentation (RFC 5737). It is asked for its route; nothing is sent to it.
const ELSEWHERE: &str = "192.0.2.1:9";
/// Other networks of a node that are written down.
const MOST_OTHERS: usize = 8;

/// A network that a member is to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkChoice {
    /// Addresses with these leading bits.
    Addresses(IpAddr, u8),
    /// An interface.
    Interface(String),
}

impl NetworkChoice {
    /// From `10.1.0.0/16`, `fd00::/64`, an address, or the name of an interface.
    pub fn of(text: &str) -> Result<Self, String> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let Ok(address) = address.parse::<IpAddr>() else {
            let is_name = bits.is_none() && (1..=15).contains(&text.len()) && !text.contains(char::is_whitespace);
            return is_name
                .then(|| NetworkChoice::Interface(text.to_owned()))
                .ok_or_else(|| "give a network such as 10.1.0.0/16, or an interface such as ib0".to_owned());
        };
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse::<u8>().map_err(|_| ())).ok().filter(|bits| *bits <= most);
        bits.map(|bits| NetworkChoice::Addresses(address, bits))
            .ok_or_else(|| format!("the number after / is from 0 to {most}"))
    }

    fn has(&self, link: &MeshLink) -> bool {
        match self {
            NetworkChoice::Interface(name) => *name == link.interface,
            NetworkChoice::Addresses(address, bits) => {
                let of = |address: IpAddr| MeshLink { address, prefix: *bits, ..link.clone() }.network();
                address.is_ipv4() == link.address.is_ipv4() && of(*address) == of(link.address)
            }
        }
    }

    /// As it was typed, or the same in other words.
    pub fn text(&self) -> String {
        match self {
            NetworkChoice::Interface(name) => name.clone(),
            NetworkChoice::Addresses(address, bits) => format!("{address}/{bits}"),
        }
    }
}

/// The networks of this node: addresses of interfaces that are up, without its loopback and without addresses of one link only.
pub fn own() -> Vec<MeshLink> {
    let facts = machine::interfaces();
    let Ok(found) = getifaddrs() else { return Vec::new() };
    let up = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
    found
        .filter(|entry| entry.flags.contains(up) && !entry.flags.contains(InterfaceFlags::IFF_LOOPBACK))
        .filter_map(|entry| {
            let address = ip(entry.address.as_ref()?)?;
            let prefix = entry.netmask.as_ref().and_then(ip).map_or(32, bits);
            Some(link(&entry.interface_name, address, prefix, &facts))
        })
        .filter(|link| match link.address {
            IpAddr::V4(address) => !address.is_link_local(),
            IpAddr::V6(address) => !address.is_unicast_link_local(),
        })
        .collect()
}

fn ip(storage: &SockaddrStorage) -> Option<IpAddr> {
    let four = || storage.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
    let six = || storage.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip()));
    four().or_else(six)
}

/// The leading ones of a mask.
fn bits(mask: IpAddr) -> u8 {
    match mask {
        IpAddr::V4(mask) => u32::from(mask).leading_ones() as u8,
        IpAddr::V6(mask) => u128::from(mask).leading_ones() as u8,
    }
}

fn link(interface: &str, address: IpAddr, prefix: u8, facts: &[Interface]) -> MeshLink {
    let found = facts.iter().find(|found| found.name == interface);
    MeshLink {
        interface: interface.to_owned(),
        address,
        prefix,
        bits_per_second: found.and_then(|found| found.bits_per_second),
        mtu_bytes: found.and_then(|found| found.mtu_bytes),
    }
}

/// The address of a network that was asked for.
pub fn chosen(choice: &NetworkChoice, own: &[MeshLink]) -> Result<MeshLink, Problem> {
    own.iter().find(|link| choice.has(link)).cloned().ok_or_else(|| {
        let names: Vec<String> = own.iter().map(|link| format!("{} ({})", link.network(), link.interface)).collect();
        let has = if names.is_empty() { "no network".to_owned() } else { names.join(", ") };
        Problem::new(format!("no address of this node belongs to the network {}", choice.text()))
            .hint(format!("choose a network that all nodes have with --network. This node has {has}"))
    })
}

/// The link of an own address. One that no interface has any more keeps its address alone.
pub fn of_address(address: IpAddr, own: &[MeshLink]) -> MeshLink {
    let unknown = || link("unknown", address, if address.is_ipv4() { 32 } else { 128 }, &[]);
    own.iter().find(|link| link.address == address).cloned().unwrap_or_else(unknown)
}

/// The address of a node that nothing was asked of: the one that faces most of the world, else the first.
pub fn usual(own: &[MeshLink]) -> Result<MeshLink, Problem> {
    let facing = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect(ELSEWHERE)?;
        socket.local_addr()
    });
    let facing = facing.ok().map(|address: SocketAddr| address.ip());
    let found = own.iter().find(|link| Some(link.address) == facing).or_else(|| own.first());
    found.cloned().ok_or_else(|| {
        Problem::new("this node has no network: no interface that is up has an address")
            .hint("check `ip address`, or choose a network with --network")
    })
}

/// Other networks of the node that may be the better choice: faster ones, or all others where a speed is unknown.
pub fn others(used: &MeshLink, own: &[MeshLink]) -> Vec<MeshLink> {
    let inside = |name: &str| INSIDE.iter().any(|prefix| name.starts_with(prefix));
    let mut found: Vec<MeshLink> = Vec::new();
    for link in own.iter().filter(|link| link.interface != used.interface && !inside(&link.interface)) {
        let slower = matches!((link.bits_per_second, used.bits_per_second), (Some(other), Some(own)) if other <= own);
        if !slower && !found.iter().any(|known| known.interface == link.interface) {
            found.push(link.clone());
        }
    }
    found.truncate(MOST_OTHERS);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(interface: &str, address: &str, speed: Option<u64>) -> MeshLink {
        MeshLink { bits_per_second: speed, ..link(interface, address.parse().unwrap(), 24, &[]) }
    }

    #[test]
    fn choices_are_networks_or_interfaces() {
        let own = [network("m0", "10.1.0.4", None), network("ib0", "10.2.7.4", None), network("e1", "fd00::4", None)];
        let found = |text: &str| chosen(&NetworkChoice::of(text).unwrap(), &own).map(|link| link.interface);
        assert_eq!(found("10.2.0.0/16").unwrap(), "ib0");
        assert_eq!(found("10.1.0.4").unwrap(), "m0");
        assert_eq!(found("ib0").unwrap(), "ib0");
        assert_eq!(found("fd00::/64").unwrap(), "e1");
        let refused = found("10.3.0.0/16").unwrap_err().to_string();
        assert!(refused.contains("10.2.7.0/24 (ib0)"), "{refused}");
        for wrong in ["10.1.0.0/33", "fd00::/129", "10.1.0.0/x", "", "a b", "no/where"] {
            assert!(NetworkChoice::of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn slower_networks_are_not_worth_a_word() {
        let gigabit = Some(1_000_000_000);
        let used = network("m0", "10.1.0.4", gigabit);
        let own = [
            used.clone(),
            network("ib0", "10.2.0.4", Some(100_000_000_000)),
            network("e2", "10.3.0.4", gigabit),
            network("v0", "10.4.0.4", None),
            network("docker0", "172.17.0.1", None),
        ];
        let names: Vec<String> = others(&used, &own).into_iter().map(|link| link.interface).collect();
        assert_eq!(names, ["ib0", "v0"]);
    }
}
