//! Whether a hypervisor or a container stands between this program and the machine.

use super::cpuid::Cpuid;
use super::fact::{Claims, Fact};
use super::mount;
use super::tree::Tree;

/// Words in the firmware's names of maker and product that only virtual machines have. Both names are looked at as one
/// text, because `Google` and `Microsoft Corporation` also make real machines.
const VIRTUAL_PRODUCTS: &[(&str, &str)] = &[
    ("QEMU", "QEMU"),
    ("KVM", "KVM"),
    ("VMware", "VMware"),
    ("innotek", "VirtualBox"),
    ("VirtualBox", "VirtualBox"),
    ("Xen", "Xen"),
    ("Parallels", "Parallels"),
    ("Bochs", "Bochs"),
    ("BHYVE", "bhyve"),
    ("Virtual Machine", "Hyper-V"),
    ("Apple Virtualization", "Apple Virtualization"),
    ("Google Compute Engine", "Google Compute Engine"),
    ("Amazon EC2", "Amazon EC2"),
    ("Alibaba Cloud", "Alibaba Cloud"),
    ("OpenStack", "OpenStack"),
    ("DigitalOcean", "DigitalOcean"),
    ("vServer", "Hetzner vServer"),
    ("Firecracker", "Firecracker"),
];

/// Words in the path of a control group that container engines put there.
const CONTAINER_GROUPS: &[&str] = &["docker", "kubepods", "containerd", "libpod", "lxc", "crio", "garden", "nspawn"];

/// Everything that speaks of a hypervisor, by its name where it is reported.
pub(super) fn hypervisors(tree: &Tree, cpuid: &Cpuid) -> Claims<String> {
    let flag = || {
        let text = tree.text(super::cpuinfo::CPUINFO)?;
        let flags = text.lines().find(|line| line.starts_with("flags"))?;
        let source = format!("{} flag hypervisor", super::cpuinfo::CPUINFO);
        flags.split_whitespace().any(|flag| flag == "hypervisor").then(|| Fact::new("unnamed".to_owned(), source))
    };
    Claims::of([
        cpuid.hypervisor.clone(),
        tree.fact("/sys/hypervisor/type"),
        firmware(tree),
        tree.fact("/proc/device-tree/hypervisor/compatible"),
        flag(),
    ])
}

fn firmware(tree: &Tree) -> Option<Fact<String>> {
    const NAMES: [&str; 2] = ["/sys/class/dmi/id/sys_vendor", "/sys/class/dmi/id/product_name"];
    let names: Vec<String> = NAMES.iter().filter_map(|path| tree.trimmed(path)).collect();
    let text = names.join(" ");
    // Bare-metal instances carry their cloud's name like all others, and `.metal` in their own.
    if text.contains(".metal") {
        return None;
    }
    let product = VIRTUAL_PRODUCTS.iter().find(|(word, _)| text.contains(word))?.1;
    Some(Fact::new(product.to_owned(), format!("{} ({text:?})", NAMES.join(", "))))
}

/// Everything that speaks of a container, by the engine's name where it is reported.
pub(super) fn containers(tree: &Tree) -> Claims<String> {
    let marker = |path: &str, engine: &str| tree.exists(path).then(|| Fact::new(engine.to_owned(), path));
    Claims::of([
        tree.fact("/run/systemd/container"),
        environment(tree),
        marker("/run/.containerenv", "podman"),
        marker("/.dockerenv", "docker"),
        control_group(tree),
        overlay_root(tree),
    ])
}

fn environment(tree: &Tree) -> Option<Fact<String>> {
    const ENVIRONMENT: &str = "/proc/1/environ";
    let text = tree.text(ENVIRONMENT)?;
    let value = text.split('\0').find_map(|variable| variable.strip_prefix("container="))?;
    Some(Fact::new(value.to_owned(), format!("{ENVIRONMENT} container")))
}

fn control_group(tree: &Tree) -> Option<Fact<String>> {
    const GROUPS: &str = "/proc/self/cgroup";
    let text = tree.text(GROUPS)?;
    let engine = CONTAINER_GROUPS.iter().find(|engine| text.contains(**engine))?;
    Some(Fact::new((*engine).to_owned(), GROUPS))
}

fn overlay_root(tree: &Tree) -> Option<Fact<String>> {
    let mounts = mount::read(tree);
    let root = mount::holding(&mounts, std::path::Path::new("/"))?;
    (root.file_system == "overlay").then(|| Fact::new("root on overlay".to_owned(), mount::MOUNTS))
}
