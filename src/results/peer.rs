//! The other machine of a run: who it is and over which path it was measured.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// The peer as the run found it when it began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Peer {
    /// Its address as a number.
    pub address: String,
    /// Port of its control connection. Data connections use separate ports.
    pub port: u16,
    /// Address of this machine on the path.
    pub local_address: String,
    /// Interface that has this address; none where the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// True when the peer is on the same link: no router is in between.
    pub on_link: bool,
    /// How it was started: `by hand` or `ssh`.
    pub started: String,
    /// Version of the tool there.
    pub version: String,
    /// Its machine.
    pub machine: Machine,
}

impl Peer {
    /// True when its address is one of this machine: nothing that is measured to it crosses a network.
    pub fn is_here(&self) -> bool {
        self.address == self.local_address || self.address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// True when the path is IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.address.contains(':')
    }
}
