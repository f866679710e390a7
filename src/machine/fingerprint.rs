//! Which machine this is: a short hash of facts that survive a reboot, an upgrade and a change of user.
//!
//! In it: instruction set; maker, family, model, stepping and product name of the processor; a fixed choice of its
//! instruction-set extensions; whether a hypervisor is below; numbers of packages, cores, CPUs and NUMA nodes; level,
//! kind, size and sharing of the caches; the memory, rounded up to an eighth of a power of two.
//!
//! Not in it: frequencies, bogomips, microcode, host name, kernel, disks, interfaces, limits, anything that only root can
//! read, anything that CPUID says and a file does not. A drifting clock in the identity of a machine once turned sixteen
//! of seventeen comparisons of another tool into false alarms.

use sha2::{Digest, Sha256};

use super::cpu::Cpu;
use super::cpuinfo::CPUINFO;
use super::fact::Fact;
use super::tree::{Access, Tree};
use super::{CPUS, Machine};

/// The extensions that distinguish processors and that every kernel since 5.0 names alike. The whole list of flags is no
/// identity: newer kernels name more of them, and mitigations add their own.
const EXTENSIONS: &[&str] =
    &["sse4_2", "avx", "avx2", "avx512f", "amx_tile", "sha_ni", "asimd", "atomics", "sve", "sve2"];

/// Sixteen hexadecimal digits.
pub(super) fn of(machine: &Machine) -> String {
    let digest = Sha256::digest(description(machine).as_bytes());
    let first = digest.iter().take(8).fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    format!("{first:016x}")
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
