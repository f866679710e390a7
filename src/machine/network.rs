//! The network interfaces.

use nix::net::if_::if_nametoindex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::io_bus::{self, IoBus};
use super::storage::device_driver;
use super::tree::Tree;
use crate::sys::queueing::{self, Queue};

const INTERFACES: &str = "/sys/class/net";

/// One network interface (`/sys/class/net/NAME`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interface {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Link rate in bits per second, above 0; absent where the driver has none (virtual devices, links that are down).
    pub bits_per_second: Option<u64>,
    /// Largest packet in bytes.
    pub mtu_bytes: Option<u32>,
    /// Driver; absent for interfaces without a device.
    pub driver: Option<String>,
    /// What connects it with the processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<IoBus>,
    /// `up`, `down`, `unknown` (a loopback never says more).
    pub state: Option<String>,
    /// What it is made of.
    pub kind: InterfaceKind,
    /// What holds packets back before they leave; live machine only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shaper: Option<Shaper>,
    /// Directory of these facts.
    pub source: String,
}

/// A queueing discipline that delays packets on purpose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shaper {
    /// Its kind, such as `tbf`.
    pub kind: String,
    /// Bits per second that it lets through, where it has such a limit.
    pub bits_per_second: Option<u64>,
}

impl Shaper {
    /// In words, on an interface of this name.
    pub fn text(&self, interface: &str) -> String {
        let rate = self.bits_per_second.map(|bits| format!(", {} Mbit/s", bits as f64 / 1e6)).unwrap_or_default();
        format!("{} on {interface}{rate}", self.kind)
    }
}

/// Kinds that shape by what they are. Others do where they have a rate.
const SHAPERS: [&str; 5] = ["tbf", "htb", "hfsc", "cbq", "netem"];

/// The shaper among the disciplines of an interface.
fn shaper(queues: &[Queue], interface: u32) -> Option<Shaper> {
    let own = queues.iter().filter(|queue| queue.interface == interface);
    let shaping = own.filter(|queue| SHAPERS.contains(&queue.kind.as_str()) || queue.bytes_per_second.is_some());
    let narrow = shaping.min_by_key(|queue| queue.bytes_per_second.unwrap_or(u64::MAX))?;
    Some(Shaper {
        kind: narrow.kind.clone(),
        bits_per_second: narrow.bytes_per_second.and_then(|bytes| bytes.checked_mul(8)),
    })
}

/// What an interface is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InterfaceKind {
    /// The machine talking to itself.
    Loopback,
    /// A cable, or what the driver presents as one.
    #[default]
    Wired,
    /// A radio: its rate and latency change by the second.
    Wireless,
    /// A device that a hypervisor provides.
    Paravirtual,
    /// Software alone: bridge, tunnel, virtual pair.
    Virtual,
}

/// All interfaces, by name.
pub(super) fn read(tree: &Tree) -> Vec<Interface> {
    let is_interface = |name: &String| tree.exists(&format!("{INTERFACES}/{name}/type"));
    let queues = if tree.is_live() && !tree.is_filtered() { queueing::queues() } else { Vec::new() };
    tree.names(INTERFACES).into_iter().filter(is_interface).map(|name| read_one(tree, name, &queues)).collect()
}

fn read_one(tree: &Tree, name: String, queues: &[Queue]) -> Interface {
    /// `ARPHRD_LOOPBACK` of `linux/if_arp.h`.
    const LOOPBACK: &str = "772";
    let source = format!("{INTERFACES}/{name}");
    let text = |file: &str| tree.trimmed(&format!("{source}/{file}"));
    let exists = |file: &str| tree.exists(&format!("{source}/{file}"));
    let driver = device_driver(tree, &format!("{source}/device"));
    let paravirtual =
        |driver: &str| ["virtio_net", "xen", "vif", "hv_netvsc", "vmxnet3"].iter().any(|name| driver.starts_with(name));
    let kind = if text("type").as_deref() == Some(LOOPBACK) {
        InterfaceKind::Loopback
    } else if exists("wireless") || exists("phy80211") {
        InterfaceKind::Wireless
    } else if driver.as_deref().is_some_and(paravirtual) {
        InterfaceKind::Paravirtual
    } else if exists("device") {
        InterfaceKind::Wired
    } else {
        InterfaceKind::Virtual
    };
    Interface {
        // -1 is "not known"; software interfaces such as TUN claim a rate that means nothing.
        bits_per_second: text("speed")
            .and_then(|text| text.parse::<u64>().ok())
            .filter(|megabits| *megabits > 0 && kind != InterfaceKind::Virtual)
            .and_then(|megabits| megabits.checked_mul(1_000_000)),
        mtu_bytes: text("mtu").and_then(|text| text.parse().ok()),
        driver,
        bus: io_bus::read(tree, &format!("{source}/device")),
        state: text("operstate"),
        // By the kernel's word: /sys can be that of another network namespace.
        shaper: queues.first().and_then(|_| shaper(queues, if_nametoindex(name.as_str()).ok()?)),
        kind,
        name,
        source,
    }
}
