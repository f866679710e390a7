//! Control groups: how much of the machine this process may use.

use std::path::PathBuf;

use procfs_core::FromRead;
use procfs_core::{ProcessCGroup, ProcessCGroups};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cpu_list::CpuList;
use super::fact::Fact;
use super::mount::{self, Mount};
use super::tree::Tree;
use super::wording::bytes;

/// The control group that each process names.
const GROUPS: &str = "/proc/self/cgroup";

/// What the control groups allow; absent where they do not restrict.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Restrictions {
    /// `v1`, `v2` or `v1 and v2`.
    pub version: Option<Fact<String>>,
    /// CPU time per time, in CPUs.
    pub quota_cpus: Option<Fact<f64>>,
    pub memory_bytes: Option<Fact<u64>>,
    /// Memory that file data may have within the limits.
    pub memory_room_bytes: Option<Fact<u64>>,
    /// Memory within the limits that nothing uses.
    pub memory_unused_bytes: Option<u64>,
    pub processes: Option<Fact<u64>>,
    pub cpus: Option<Fact<CpuList>>,
}

/// Work that a control group limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitedWork {
    /// Requests that read.
    Reads,
    /// Bytes that are read.
    ReadBytes,
    /// Requests that write.
    Writes,
    /// Bytes that are written.
    WrittenBytes,
}

/// A limit of a control group on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceLimit {
    /// What is limited.
    pub work: LimitedWork,
    /// How many of it are allowed per second, above 0.
    pub per_second: u64,
    /// The file with the limit.
    pub source: String,
}

impl DeviceLimit {
    /// In words, with the source.
    pub fn text(&self) -> String {
        let (count, work) = match self.work {
            LimitedWork::Reads => (self.per_second.to_string(), "reads"),
            LimitedWork::Writes => (self.per_second.to_string(), "writes"),
            LimitedWork::ReadBytes => (bytes(self.per_second), "read"),
            LimitedWork::WrittenBytes => (bytes(self.per_second), "written"),
        };
        format!("{count} {work} per second ({})", self.source)
    }
}

/// The control groups for memory of this process, in the hierarchy that has the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryGroups {
    /// Version of the interface, 1 or 2.
    pub version: u32,
    /// Their directories, from its own group to the widest that is visible.
    pub directories: Vec<PathBuf>,
}

/// Finds them; none where memory is in no hierarchy that is mounted.
pub(super) fn memory_groups(tree: &Tree) -> Option<MemoryGroups> {
    let (version, directories) = Places::read(tree).hierarchies("memory").into_iter().next()?;
    Some(MemoryGroups { version, directories: directories.into_iter().map(PathBuf::from).collect() })
}

/// The groups of this process, and where their hierarchies are mounted.
struct Places {
    mounts: Vec<Mount>,
    groups: Vec<ProcessCGroup>,
}

impl Places {
    fn read(tree: &Tree) -> Places {
        let groups = tree.bytes(GROUPS).and_then(|bytes| ProcessCGroups::from_read(bytes.as_slice()).ok());
        Places { mounts: mount::read(tree), groups: groups.map(|groups| groups.0).unwrap_or_default() }
    }

    /// Versions that have a controller, each with the directories of its group and of all groups above it.
    fn hierarchies(&self, controller: &str) -> Vec<(u32, Vec<String>)> {
        let Places { mounts, groups } = self;
        let of_one = groups.iter().find(|group| group.controllers.iter().any(|name| name == controller));
        let first = of_one.and_then(|group| Some((1, hierarchy(mounts, controller)?, group)));
        let unified = groups.iter().find(|group| group.hierarchy == 0);
        let second =
            unified.and_then(|group| Some((2, mounts.iter().find(|mount| mount.file_system == "cgroup2")?, group)));
        let found = [first, second].into_iter().flatten();
        found.map(|(version, mount, group)| (version, directories(mount, &group.pathname))).collect()
    }

    /// The directories of both versions.
    fn levels(&self, controller: &str) -> Vec<String> {
        self.hierarchies(controller).into_iter().flat_map(|(_, directories)| directories).collect()
    }
}

/// The limits on a device with this number (`major:minor`), the narrowest of each kind.
pub(super) fn device_limits(tree: &Tree, number: &str) -> Vec<DeviceLimit> {
    /// Files of version 1, and the words for the same in `io.max` of version 2.
    const FILES: [(LimitedWork, &str, &str); 4] = [
        (LimitedWork::Reads, "blkio.throttle.read_iops_device", "riops="),
        (LimitedWork::ReadBytes, "blkio.throttle.read_bps_device", "rbps="),
        (LimitedWork::Writes, "blkio.throttle.write_iops_device", "wiops="),
        (LimitedWork::WrittenBytes, "blkio.throttle.write_bps_device", "wbps="),
    ];
    let levels = Places::read(tree).levels("blkio");
    let of = |path: String, word: &str| {
        let text = tree.text(&path)?;
        let line = text.lines().find_map(|line| line.strip_prefix(number)?.strip_prefix(' '))?;
        let value = line.split_whitespace().find_map(|value| value.strip_prefix(word))?.parse::<u64>().ok();
        value.filter(|value| *value > 0).map(|value| Fact::new(value, path))
    };
    let found = FILES.into_iter().filter_map(|(work, file, word)| {
        let first = levels.iter().map(|level| of(format!("{level}/{file}"), ""));
        let second = levels.iter().map(|level| of(format!("{level}/io.max"), word));
        let narrow = narrowest(first.chain(second))?;
        Some(DeviceLimit { work, per_second: narrow.value, source: narrow.source })
    });
    found.collect()
}

/// Reads the restrictions of this process's groups and of all groups above them, of which the narrowest counts.
pub(super) fn read(tree: &Tree) -> Restrictions {
    let places = Places::read(tree);
    let levels = |controller: &str| places.levels(controller);
    let memory = levels("memory");
    Restrictions {
        memory_room_bytes: narrowest(memory.iter().map(|level| room(tree, level))),
        memory_unused_bytes: memory.iter().filter_map(|level| unused(tree, level)).min(),
        version: version(&places.groups, &places.mounts),
        quota_cpus: narrowest(levels("cpu").iter().flat_map(|level| [quota_v2(tree, level), quota_v1(tree, level)])),
        memory_bytes: narrowest(memory.iter().map(|level| memory_limit(tree, level))),
        processes: narrowest(levels("pids").iter().map(|level| tree.parsed::<u64>(&format!("{level}/pids.max")))),
        cpus: levels("cpuset").iter().find_map(|level| {
            ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"].iter().find_map(|file| {
                let path = format!("{level}/{file}");
                tree.cpu_list(&path).filter(|list| !list.is_empty()).map(|list| Fact::new(list, path))
            })
        }),
    }
}

/// The limit of one group; none where it has none.
fn memory_limit(tree: &Tree, level: &str) -> Option<Fact<u64>> {
    // Version 1 writes the largest multiple of a page below 2^63 when there is no limit.
    let limit = |file: &str| tree.parsed::<u64>(&format!("{level}/{file}")).filter(|fact| fact.value < 1 << 60);
    limit("memory.max").or_else(|| limit("memory.limit_in_bytes"))
}

fn memory_usage(tree: &Tree, level: &str) -> Option<u64> {
    let number = |file: &str| tree.parsed(&format!("{level}/{file}")).map(|fact| fact.value);
    number("memory.current").or_else(|| number("memory.usage_in_bytes"))
}

/// What the limit of a group leaves to file data: all that is not charged for something else.
fn room(tree: &Tree, level: &str) -> Option<Fact<u64>> {
    let limit = memory_limit(tree, level)?;
    let usage = memory_usage(tree, level)?;
    let statistics = tree.text(&format!("{level}/memory.stat"))?;
    let counted = |key: &str| -> Option<u64> {
        statistics.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
    };
    let file = counted("total_cache").or_else(|| counted("file"))?;
    let source = format!("{} − (usage − file data)", limit.source);
    Some(Fact::new(limit.value.saturating_sub(usage.saturating_sub(file)), source))
}

/// What a group may still take before the kernel takes back something of it: also below a limit that only slows it down.
fn unused(tree: &Tree, level: &str) -> Option<u64> {
    let limits = [memory_limit(tree, level), tree.parsed(&format!("{level}/memory.high"))];
    let least = limits.into_iter().flatten().map(|fact| fact.value).min()?;
    Some(least.saturating_sub(memory_usage(tree, level)?))
}

fn narrowest<T: PartialOrd>(limits: impl Iterator<Item = Option<Fact<T>>>) -> Option<Fact<T>> {
    limits.flatten().reduce(|narrow, other| if other.value < narrow.value { other } else { narrow })
}

fn version(groups: &[ProcessCGroup], mounts: &[Mount]) -> Option<Fact<String>> {
    let mounted = |kind: &str| mounts.iter().any(|mount| mount.file_system == kind);
    let first = groups.iter().any(|group| group.hierarchy != 0) && mounted("cgroup");
    let second = groups.iter().any(|group| group.hierarchy == 0) && mounted("cgroup2");
    let version = match (first, second) {
        (true, true) => "v1 and v2",
        (true, false) => "v1",
        (false, true) => "v2",
        (false, false) => return None,
    };
    Some(Fact::new(version.to_owned(), format!("{GROUPS}, {}", mount::MOUNTS)))
}

/// The mount of a version 1 controller.
fn hierarchy<'a>(mounts: &'a [Mount], controller: &str) -> Option<&'a Mount> {
    let has = |mount: &&Mount| mount.super_options.split(',').any(|option| option == controller);
    mounts.iter().filter(|mount| mount.file_system == "cgroup").find(has)
}

/// The directories of a group and of all groups above it that are visible, from the narrowest to the widest.
fn directories(mount: &Mount, path: &str) -> Vec<String> {
    // In a container the mount begins at the container's own group, and the path may be given from the host's root.
    let below = path.strip_prefix(mount.root.trim_end_matches('/')).unwrap_or_default();
    let point = mount.point.to_string_lossy();
    let mut found = vec![point.trim_end_matches('/').to_owned()];
    for part in below.split('/').filter(|part| !part.is_empty() && *part != "..") {
        found.insert(0, format!("{}/{part}", found[0]));
    }
    found
}

fn quota_v2(tree: &Tree, level: &str) -> Option<Fact<f64>> {
    tree.fact(&format!("{level}/cpu.max"))?.filter_map(|text| parse_cpu_max(&text))
}

fn quota_v1(tree: &Tree, level: &str) -> Option<Fact<f64>> {
    let quota = tree.parsed::<i64>(&format!("{level}/cpu.cfs_quota_us"))?;
    let period = tree.parsed::<i64>(&format!("{level}/cpu.cfs_period_us"))?.value;
    quota.filter_map(|quota| cpus(quota, period))
}

/// CPUs of a `cpu.max` such as `50000 100000`; `None` when it says `max`.
fn parse_cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    cpus(quota.parse().ok()?, period.trim().parse().ok()?)
}

/// Quota by period, to a millionth; -1 stands for "no quota".
fn cpus(quota: i64, period: i64) -> Option<f64> {
    (quota > 0 && period > 0).then(|| (quota as f64 / period as f64 * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_max_is_a_number_of_cpus() {
        assert_eq!(parse_cpu_max("50000 100000"), Some(0.5));
        assert_eq!(parse_cpu_max("max 100000"), None);
        assert_eq!(parse_cpu_max("100000 0"), None);
        assert_eq!(parse_cpu_max("-1 100000"), None);
        assert_eq!(parse_cpu_max(""), None);
    }

    #[test]
    fn room_for_file_data_is_the_limit_less_everything_else() {
        let keep = tempfile::tempdir().unwrap();
        let files = [
            ("two/memory.max", "1000\n"),
            ("two/memory.current", "700\n"),
            ("two/memory.stat", "anon 300\nfile 350\nfile_mapped 9\n"),
            ("one/memory.limit_in_bytes", "2000\n"),
            ("one/memory.usage_in_bytes", "1500\n"),
            ("one/memory.stat", "cache 1\nrss 2\ntotal_cache 600\n"),
            ("none/memory.max", "max\n"),
            ("none/memory.current", "700\n"),
            ("none/memory.stat", "file 350\n"),
        ];
        for (path, text) in files {
            let path = keep.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let tree = Tree::at(keep.path());
        assert_eq!(room(&tree, "/two").map(|fact| fact.value), Some(650));
        assert_eq!(room(&tree, "/one").map(|fact| fact.value), Some(1100));
        assert_eq!(room(&tree, "/none"), None);
        assert_eq!(
            [unused(&tree, "/two"), unused(&tree, "/one"), unused(&tree, "/none")],
            [Some(300), Some(500), None]
        );
        std::fs::write(keep.path().join("two/memory.high"), "800\n").unwrap();
        assert_eq!(unused(&tree, "/two"), Some(100));
    }

    #[test]
    fn a_group_is_looked_up_below_what_is_mounted() {
        let mount = |root: &str| Mount {
            device: "0:1".to_owned(),
            root: root.to_owned(),
            point: "/sys/fs/cgroup/cpu".into(),
            options: String::new(),
            file_system: "cgroup".to_owned(),
            source: String::new(),
            super_options: "rw,cpu,cpuacct".to_owned(),
        };
        assert_eq!(
            directories(&mount("/"), "/a/b"),
            ["/sys/fs/cgroup/cpu/a/b", "/sys/fs/cgroup/cpu/a", "/sys/fs/cgroup/cpu"]
        );
        assert_eq!(directories(&mount("/docker/x"), "/docker/x"), ["/sys/fs/cgroup/cpu"]);
        assert_eq!(directories(&mount("/"), "/../../etc"), ["/sys/fs/cgroup/cpu/etc", "/sys/fs/cgroup/cpu"]);
        assert!(hierarchy(&[mount("/")], "cpuacct").is_some());
    }
}
