//! Which machine this is among others of its model, and since when it runs: what decides whether a run that was begun can go
//! on here. The fingerprint says the model only.

use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::engine::Engine;
use super::tree::Tree;
use crate::sys::process;

/// Files with an identifier of the machine, the first that has one counts: the installed system's, then the firmware's.
const IDENTIFIERS: [&str; 3] = ["/etc/machine-id", "/var/lib/dbus/machine-id", "/sys/class/dmi/id/product_uuid"];

/// What is hashed with the identifier as the key. The identifier itself is confidential (machine-id(5)).
const APPLICATION: &[u8] = b"sysdyno run identity 1";

/// Who a machine is. In a log the boot is the kernel's own identifier, which decides whether a run can go on; what is published has
/// [`Identity::published`] instead.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    /// Name of the node: the engine's that started the run, or the host name.
    pub node: String,
    /// Keyed hash of the machine's identifier, in what is published together with the name of the node; absent where the machine
    /// has no identifier that can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// This boot: in a log the kernel's identifier, in what is published a keyed hash of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
}

/// How the machine of a record stands to another machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineRelation {
    /// The same, and it was not restarted in between.
    Same,
    /// The same as far as can be known, restarted in between.
    Restarted,
    /// Another one.
    Other,
}

impl Identity {
    /// The identity of the machine whose files lie under `root`.
    pub fn read(root: &Path) -> Identity {
        let tree = Tree::at(root);
        // The host name of a container changes with each container, the engine's name of the node stays.
        let engine = Engine::here();
        Identity {
            node: engine.as_ref().and_then(Engine::node).map_or_else(process::host_name, str::to_owned),
            machine: IDENTIFIERS.iter().find_map(|path| hashed(&tree.trimmed(path)?)),
            boot: tree.trimmed("/proc/sys/kernel/random/boot_id"),
        }
    }

    /// The first 16 hexadecimal digits of the SHA-256 of the running binary: two builds of one version can differ.
    pub fn of_binary() -> Option<String> {
        let hash = Sha256::digest(std::fs::read("/proc/self/exe").ok()?);
        Some(hash.iter().take(8).fold(String::new(), |text, byte| text + &format!("{byte:02x}")))
    }

    /// The identity as a result and the compact form publish it: 16 hexadecimal digits each for the machine, the same from boot
    /// to boot, and for this boot of it. Machines that were installed from one image can share an identifier, so the name of
    /// the node is in both.
    #[must_use]
    pub fn published(&self) -> Identity {
        let short = |text: &str| keyed(APPLICATION, text.as_bytes(), 8);
        let machine = self.machine.as_ref().and_then(|machine| short(&format!("{machine} {}", self.node)));
        let known = self.machine.as_deref().unwrap_or_default();
        let boot = self.boot.as_ref().and_then(|boot| short(&format!("{known} {} {boot}", self.node)));
        Identity { node: self.node.clone(), machine, boot }
    }

    /// How the machine of a record stands to this machine.
    ///
    /// One boot has one kernel and so one machine, whatever a container is called. Machines that were installed from one image can
    /// share an identifier, so that beyond one boot the name of the node must also agree.
    pub fn relation_to(&self, other: &Identity) -> MachineRelation {
        let known_to_differ = |one: &Option<String>, other: &Option<String>| {
            one.as_ref().zip(other.as_ref()).is_some_and(|(one, other)| one != other)
        };
        let same_boot = self.boot.is_some() && self.boot == other.boot;
        if known_to_differ(&self.machine, &other.machine) || !same_boot && self.node != other.node {
            MachineRelation::Other
        } else if known_to_differ(&self.boot, &other.boot) {
            MachineRelation::Restarted
        } else {
            MachineRelation::Same
        }
    }
}

/// The keyed hash of an identifier, 32 hexadecimal digits; none of one that was never set.
fn hashed(identifier: &str) -> Option<String> {
    let digits: String = identifier.chars().filter(|&letter| letter != '-').collect::<String>().to_ascii_lowercase();
    let set = digits.len() == 32
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        // Firmware without its own identity says nothing but zeros or ones.
        && digits.bytes().any(|byte| byte != digits.as_bytes()[0]);
    if set { keyed(digits.as_bytes(), APPLICATION, 16) } else { None }
}

/// The first bytes of a keyed hash, in hexadecimal.
fn keyed(key: &[u8], text: &[u8], bytes: usize) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(text);
    let hash = mac.finalize().into_bytes();
    Some(hash.iter().take(bytes).fold(String::new(), |text, byte| text + &format!("{byte:02x}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(node: &str, machine: Option<&str>, boot: Option<&str>) -> Identity {
        Identity { node: node.to_owned(), machine: machine.map(str::to_owned), boot: boot.map(str::to_owned) }
    }

    #[test]
    fn machines_are_told_apart_and_restarts_are_seen() {
        let begun = identity("n3", Some("a"), Some("1"));
        for (here, relation) in [
            (begun.clone(), MachineRelation::Same),
            (identity("n3", Some("a"), Some("2")), MachineRelation::Restarted),
            // Another identifier, whatever else agrees.
            (identity("n3", Some("b"), Some("1")), MachineRelation::Other),
            (identity("n3", Some("b"), Some("2")), MachineRelation::Other),
            // Installed from one image.
            (identity("n4", Some("a"), Some("2")), MachineRelation::Other),
            // Another container of one host.
            (identity("n4", Some("a"), Some("1")), MachineRelation::Same),
            (identity("n4", None, Some("1")), MachineRelation::Same),
            // Nothing but the name is known.
            (identity("n3", None, None), MachineRelation::Same),
            (identity("n3", None, Some("2")), MachineRelation::Restarted),
            (identity("n4", None, None), MachineRelation::Other),
        ] {
            assert_eq!(begun.relation_to(&here), relation, "{here:?}");
            assert_eq!(here.relation_to(&begun), relation, "{here:?}");
        }
    }

    #[test]
    fn an_identifier_is_hashed_and_one_that_was_never_set_is_none() {
        let raw = "0123456789abcdef0123456789abcdef";
        let hash = hashed(raw).unwrap();
        assert_eq!(hash.len(), 32);
        assert_ne!(hash, raw);
        assert_eq!(hashed("01234567-89AB-CDEF-0123-456789ABCDEF"), Some(hash));
        for unset in ["uninitialized", "", "00000000-0000-0000-0000-000000000000", &"f".repeat(32), &raw[1..]] {
            assert_eq!(hashed(unset), None, "{unset}");
        }
    }

    #[test]
    fn what_is_published_tells_machines_and_boots_apart_and_no_identifier() {
        let own = identity("n3", Some("a"), Some("1")).published();
        let digits = |text: &Option<String>| text.as_ref().is_some_and(|text| text.len() == 16);
        assert!(digits(&own.machine) && digits(&own.boot) && own.machine != own.boot);
        let restarted = identity("n3", Some("a"), Some("2")).published();
        assert!(restarted.machine == own.machine && restarted.boot != own.boot);
        for other in [identity("n4", Some("a"), Some("1")), identity("n3", Some("b"), Some("1"))] {
            assert!(other.published().machine != own.machine && other.published().boot != own.boot);
        }
        let unknown = identity("n3", None, None).published();
        assert_eq!((unknown.machine, unknown.boot), (None, None));
    }

    #[test]
    fn the_first_identifier_that_is_set_counts() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Identity::read(root.path()).machine, None);
        for (path, text) in [
            ("etc/machine-id", "uninitialized\n"),
            ("sys/class/dmi/id/product_uuid", "0123456789abcdef0123456789abcdef\n"),
        ] {
            let place = root.path().join(path);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(place, text).unwrap();
        }
        let found = Identity::read(root.path());
        assert_eq!(found.machine, hashed("0123456789abcdef0123456789abcdef"));
        assert_eq!(found.boot, None);
    }
}
