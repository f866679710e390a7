//! Which machine this is among others of its model, and since when it runs: what decides whether a run that was begun can go
//! on here. The fingerprint says the model only.

use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::cpu::Cpu;
use super::cpuinfo::CPUINFO;
use super::engine::Engine;
use super::fact::Fact;
use super::tree::{Access, Tree};
use super::{CPUS, Machine};
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
        Some(hexadecimal(&Sha256::digest(std::fs::read("/proc/self/exe").ok()?)[..8]))
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
    Some(hexadecimal(&mac.finalize().into_bytes()[..bytes]))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// The extensions that distinguish processors and that every kernel since 5.0 names alike. The whole list of flags is no
/// identity: newer kernels name more of them, and mitigations add their own.
const EXTENSIONS: &[&str] =
    &["sse4_2", "avx", "avx2", "avx512f", "amx_tile", "sha_ni", "asimd", "atomics", "sve", "sve2"];

/// Which model of machine this is: a short hash of facts that survive a reboot, an upgrade and a change of user.
///
/// In it: instruction set; maker, family, model, stepping and product name of the processor; a fixed choice of its
/// instruction-set extensions; whether a hypervisor is below; numbers of packages, cores, CPUs and NUMA nodes; level,
/// kind, size and sharing of the caches; the memory, rounded up to an eighth of a power of two.
///
/// Not in it: frequencies, bogomips, microcode, host name, kernel, disks, interfaces, limits, anything that only root can
/// read, anything that CPUID says and a file does not. A drifting clock in the identity of a machine once turned sixteen
/// of seventeen comparisons of another tool into false alarms.
pub(super) fn fingerprint(machine: &Machine) -> String {
    hexadecimal(&Sha256::digest(description(machine).as_bytes())[..8])
}

/// The files of these facts that may not be read, as on hardened systems. On the running machine every kernel has them, so that an
/// absent file is also hidden.
pub(super) fn hidden(tree: &Tree, cpu: &Cpu) -> Vec<Fact<String>> {
    let first = cpu.logical.first().map_or(0, |entry| entry.cpu);
    let mut files = vec![CPUINFO.to_owned(), "/proc/meminfo".to_owned(), CPUS.to_owned()];
    files.extend(["topology", "cache"].map(|directory| format!("{CPUS}/cpu{first}/{directory}")));
    let mut found: Vec<Fact<String>> = Vec::new();
    for (position, file) in files.into_iter().enumerate() {
        let reason = match tree.access(&file) {
            Access::Denied => "permission denied",
            Access::Absent if tree.is_live() && position < 3 => "absent",
            _ => continue,
        };
        if !found.iter().any(|above| file.starts_with(&above.value)) {
            found.push(Fact::new(file, reason));
        }
    }
    found
}

/// The text that is hashed, one fact a line.
fn description(machine: &Machine) -> String {
    let cpu = &machine.cpu;
    let text = |fact: Option<&Fact<String>>| fact.map(|fact| fact.value.clone()).unwrap_or_default();
    let number = |fact: Option<&Fact<u32>>| fact.map(|fact| fact.value.to_string()).unwrap_or_default();
    let from_files = cpu.model_name.all().iter().find(|fact| !fact.source.starts_with("CPUID"));
    let topology = cpu.topology();
    let mut lines = vec![
        format!("architecture {}", text(cpu.architecture.as_ref())),
        format!("vendor {}", text(cpu.vendor.as_ref())),
        format!("name {}", text(from_files)),
        format!("family {}", number(cpu.family.as_ref())),
        format!("model {}", number(cpu.model.as_ref())),
        format!("stepping {}", number(cpu.stepping.as_ref())),
        format!("hypervisor {}", cpu.hypervisor.as_ref().is_some_and(|fact| fact.value)),
        format!("packages {} cores {} cpus {}", topology.packages, topology.cores, topology.logical),
        format!("nodes {}", machine.memory.nodes.len()),
        format!("memory {}", machine.memory.total_bytes.as_ref().map_or(0, |fact| coarse(fact.value))),
    ];
    lines.extend(EXTENSIONS.iter().filter(|name| cpu.has_feature(name)).map(|name| format!("extension {name}")));
    let mut caches: Vec<String> = machine
        .caches
        .iter()
        .map(|cache| {
            let size = cache.size_bytes.all().iter().find(|fact| !fact.source.starts_with("CPUID"));
            let shared: Vec<usize> = cache.instances.iter().map(super::CpuList::len).collect();
            format!("cache {} size {} shared {shared:?}", cache.name(), size.map_or(0, |fact| fact.value))
        })
        .collect();
    caches.sort();
    lines.extend(caches);
    lines.join("\n")
}

/// Rounds up to an eighth of the power of two below. What the kernel manages is what is installed less one to four per
/// cent, which vary with the kernel; installed sizes lie on these steps themselves, so rounding up finds them again.
fn coarse(bytes: u64) -> u64 {
    let step = (1u64 << bytes.max(8).ilog2()) / 8;
    bytes.div_ceil(step).saturating_mul(step)
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

    #[test]
    fn memory_less_what_a_kernel_keeps_is_the_installed_size() {
        let gibibyte = 1u64 << 30;
        for (managed, installed) in [
            (16_303_428 * 1024, 16 * gibibyte),
            (16_100_000 * 1024, 16 * gibibyte),
            (8 * gibibyte, 8 * gibibyte),
            (263_800_000 * 1024, 256 * gibibyte),
            (32_700_000 * 1024, 32 * gibibyte),
        ] {
            assert_eq!(coarse(managed), installed, "{managed}");
        }
        assert_eq!(coarse(0), 0);
        assert!(coarse(u64::MAX) > 0);
    }
}
