//! What this process may use and do: control groups, affinity, resource limits, privileges, containers, hypervisors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cgroup::Restrictions;
use super::cpu_list::CpuList;
use super::fact::{Claims, Fact};
use super::row::{FactRow, facts};
use super::scheduling::Scheduling;
use super::tree::{Tree, value_of};
use super::virtualisation;
use super::wording::bytes;

const STATUS: &str = "/proc/self/status";
const LIMITS: &str = "/proc/self/limits";

/// What stands between this process and the whole machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Versions of control groups in use: `v1`, `v2` or `v1 and v2`.
    pub cgroup_version: Option<Fact<String>>,
    /// CPU time that the control groups allow, in CPUs, above 0; absent without a quota.
    pub cpu_quota: Option<Fact<f64>>,
    /// Memory that the control groups allow, in bytes; absent without a limit.
    pub memory_bytes: Option<Fact<u64>>,
    /// Memory that the limits of the control groups leave to file data, in bytes; absent without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_room_bytes: Option<Fact<u64>>,
    /// Number of processes that the control groups allow; absent without a limit.
    pub processes: Option<Fact<u64>>,
    /// CPUs that the control groups allow.
    pub group_cpus: Option<Fact<CpuList>>,
    /// CPUs that this process may run on.
    pub affinity: Claims<CpuList>,
    /// Resource limits of this process.
    pub resources: Vec<ResourceLimit>,
    /// How the kernel treats this process among others.
    #[serde(default)]
    pub scheduling: Scheduling,
    /// Effective user.
    pub user: Option<Fact<u32>>,
    /// System-call filter: 0 none, 1 strict, 2 a filter program.
    pub seccomp: Option<Fact<u32>>,
    /// True when no exec can give more privileges.
    pub no_new_privileges: Option<Fact<bool>>,
    /// Effective capabilities, by name (`capabilities(7)`, without `CAP_`).
    pub capabilities: Option<Fact<Vec<String>>>,
    /// Process that traces this process.
    pub tracer: Option<Fact<u32>>,
    /// Signs of a container.
    pub container: Claims<String>,
    /// Signs of a hypervisor.
    pub hypervisor: Claims<String>,
}

/// A resource limit (`getrlimit(2)`); an absent value is unlimited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceLimit {
    /// Name as in `/proc/self/limits`, without `Max`.
    pub name: String,
    /// Value in force.
    pub soft: Option<u64>,
    /// Value that the process may raise it to.
    pub hard: Option<u64>,
    /// Unit, empty for priorities.
    pub unit: String,
    /// Who states it.
    pub source: String,
}

impl Limits {
    /// Most bytes of a file that this process may write (`ulimit -f`), if that is limited.
    pub fn file_bytes(&self) -> Option<u64> {
        self.resources.iter().find(|limit| limit.name == "file size")?.soft
    }

    /// True when the process has this capability; false also when no file shows it.
    pub fn is_capable(&self, capability: &str) -> bool {
        self.capabilities.as_ref().is_some_and(|fact| fact.value.iter().any(|name| name == capability))
    }
}

/// The CPUs that this process may run on.
pub(super) fn affinity(tree: &Tree) -> Claims<CpuList> {
    let listed = field(tree, "Cpus_allowed_list").and_then(|fact| fact.filter_map(|text| CpuList::parse(&text)));
    let masked = || field(tree, "Cpus_allowed").and_then(|fact| fact.filter_map(|text| CpuList::parse_mask(&text)));
    let claims = [asked_affinity(tree), listed.or_else(masked)];
    Claims::of(claims.map(|claim| claim.filter(|fact| !fact.value.is_empty())))
}

/// A field of the status of this process.
fn field(tree: &Tree, key: &str) -> Option<Fact<String>> {
    value_of(&tree.text(STATUS)?, key).map(|value| Fact::new(value.to_owned(), format!("{STATUS} {key}")))
}

fn number(tree: &Tree, key: &str) -> Option<Fact<u32>> {
    field(tree, key)?.filter_map(|text| text.parse().ok())
}

/// What the limits are read from. The mask and the hypervisor were read earlier, because the processor's facts need them.
pub(super) struct Sources<'a> {
    pub tree: &'a Tree,
    pub groups: Restrictions,
    pub affinity: Claims<CpuList>,
    pub hypervisor: Claims<String>,
}

facts! {
    limits: Limits, from: &Sources<'_>;
    hypervisor = from.hypervisor.clone(), "hypervisor" Report;
    container = virtualisation::containers(from.tree), "container";
    cgroup_version = from.groups.version.clone(), "control groups" Screen;
    cpu_quota = from.groups.quota_cpus.clone(), "CPU quota" Report, |cpus| format!("{cpus} CPUs");
    memory_bytes = from.groups.memory_bytes.clone(), "memory limit", |size| bytes(*size);
    memory_room_bytes = from.groups.memory_room_bytes.clone();
    processes = from.groups.processes.clone(), "process limit";
    group_cpus = from.groups.cpus.clone(), "CPUs of the control group";
    affinity = from.affinity.clone(), "CPUs of the affinity mask" Screen;
    scheduling = Scheduling::read(from.tree) => limits.scheduling.rows();
    user = field(from.tree, "Uid").and_then(|fact| fact.filter_map(|text| text.split_whitespace().nth(1)?.parse().ok())),
        "user";
    seccomp = number(from.tree, "Seccomp"), "system-call filter" Screen,
        |mode| ["none", "strict"].get(*mode as usize).copied().unwrap_or("filter program").to_owned();
    no_new_privileges = number(from.tree, "NoNewPrivs").map(|fact| fact.map(|value| value != 0)), "no new privileges";
    capabilities = capabilities(from.tree), "capabilities",
        |names| if names.is_empty() { "none".to_owned() } else { names.join(" ") };
    tracer = number(from.tree, "TracerPid").filter(|fact| fact.value > 0), "traced by process";
    resources = resources(from.tree) => limits.resources.iter().filter_map(ResourceLimit::row);
}

impl ResourceLimit {
    /// A row where it limits something.
    fn row(&self) -> Option<FactRow> {
        let hard = self.hard.map_or_else(|| "unlimited".to_owned(), |hard| hard.to_string());
        let value = format!("{} {} (hard: {hard})", self.soft?, self.unit);
        Some(FactRow::new(&format!("limit of {}", self.name), value, self.source.as_str()))
    }
}

fn capabilities(tree: &Tree) -> Option<Fact<Vec<String>>> {
    field(tree, "CapEff")?.filter_map(|text| u64::from_str_radix(&text, 16).ok().map(capability_names))
}

fn asked_affinity(tree: &Tree) -> Option<Fact<CpuList>> {
    use nix::sched::{CpuSet, sched_getaffinity};

    let own_thread = nix::unistd::Pid::from_raw(0);
    let set = tree.is_live().then(|| sched_getaffinity(own_thread).ok()).flatten()?;
    let cpus = (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).map(|cpu| cpu as u32);
    Some(Fact::new(CpuList::of(cpus), "sched_getaffinity"))
}

fn resources(tree: &Tree) -> Vec<ResourceLimit> {
    let listed: Vec<ResourceLimit> = tree.text(LIMITS).unwrap_or_default().lines().filter_map(parse_limit).collect();
    if listed.is_empty() && tree.is_live() { asked_limits() } else { listed }
}

/// A line of `/proc/self/limits`; the heading and anything else is none.
fn parse_limit(line: &str) -> Option<ResourceLimit> {
    let mut columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
    let name = columns.next()?.strip_prefix("Max ")?.to_owned();
    let mut value = || match columns.next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    };
    let (soft, hard) = (value()?, value()?);
    let unit = columns.next().unwrap_or_default().to_owned();
    Some(ResourceLimit { name, soft, hard, unit, source: LIMITS.to_owned() })
}

/// The limits that experiments depend on, for a machine whose `/proc` is not mounted.
fn asked_limits() -> Vec<ResourceLimit> {
    use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

    let finite = |value: u64| (value != RLIM_INFINITY).then_some(value);
    [
        ("open files", "files", Resource::RLIMIT_NOFILE),
        ("locked memory", "bytes", Resource::RLIMIT_MEMLOCK),
        ("processes", "processes", Resource::RLIMIT_NPROC),
        ("address space", "bytes", Resource::RLIMIT_AS),
        ("file size", "bytes", Resource::RLIMIT_FSIZE),
        ("stack size", "bytes", Resource::RLIMIT_STACK),
    ]
    .into_iter()
    .filter_map(|(name, unit, resource)| {
        let (soft, hard) = getrlimit(resource).ok()?;
        let (name, unit, source) = (name.to_owned(), unit.to_owned(), "getrlimit".to_owned());
        Some(ResourceLimit { name, soft: finite(soft), hard: finite(hard), unit, source })
    })
    .collect()
}

/// Capabilities in the order of their bits (`linux/capability.h`), those of one hexadecimal digit together.
const CAPABILITIES: [&str; 11] = [
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER",
    "FSETID KILL SETGID SETUID",
    "SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST",
    "NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER",
    "SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE",
    "SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE",
    "SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD",
    "LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP",
    "MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM",
    "BLOCK_SUSPEND AUDIT_READ PERFMON BPF",
    "CHECKPOINT_RESTORE",
];

fn capability_names(bits: u64) -> Vec<String> {
    let names = CAPABILITIES.iter().flat_map(|digit| digit.split(' ')).enumerate();
    names.filter(|(bit, _)| bits & 1 << bit != 0).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_with_and_without_units() {
        let limit =
            parse_limit("Max locked memory         8388608              unlimited            bytes     ").unwrap();
        assert_eq!((limit.name.as_str(), limit.soft, limit.hard), ("locked memory", Some(8_388_608), None));
        assert_eq!(limit.unit, "bytes");
        let priority = parse_limit("Max nice priority         0                    0                    ").unwrap();
        assert_eq!((priority.soft, priority.unit.as_str()), (Some(0), ""));
        assert_eq!(parse_limit("Limit                     Soft Limit           Hard Limit           Units     "), None);
        assert_eq!(parse_limit("Max open files  many  20000  files"), None);
    }

    #[test]
    fn capabilities_are_named_by_their_bits() {
        assert_eq!(capability_names(1 << 21 | 1 << 38), ["SYS_ADMIN", "PERFMON"]);
        assert_eq!(capability_names(u64::MAX).len(), 41);
        assert_eq!(capability_names(1 << 12 | 1 << 14 | 1 << 23), ["NET_ADMIN", "IPC_LOCK", "SYS_NICE"]);
    }
}
