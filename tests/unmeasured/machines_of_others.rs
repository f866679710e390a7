//! Machines that are described by fewer, other or contradicting files than a Linux server has.
use std::fs;
use std::path::Path;

use crate::support::trees::{copy_of, tree};
use sysdyno::testing::machine::quiet::{self, Check};
use sysdyno::testing::machine::{Claims, CpuList, Machine, detect};

const CPUS: &str = "sys/devices/system/cpu";

fn described(root: &Path) -> Machine {
    detect(root, Path::new("/home/user"))
}

fn list(text: &str) -> CpuList {
    CpuList::parse(text).unwrap()
}

fn best<T: Clone>(claims: &Claims<T>) -> Option<T> {
    claims.best().map(|fact| fact.value.clone())
}

/// The value and the note of a row.
fn row(machine: &Machine, name: &str) -> Option<(String, String)> {
    let rows = machine.sections().into_iter().flat_map(|section| section.rows);
    rows.into_iter().find(|row| row.name == name).map(|row| (row.value, row.note.unwrap_or_default()))
}

fn check(root: &Path, name: &str) -> Check {
    quiet::checks(root, &described(root)).into_iter().find(|check| check.check == name).unwrap()
}

/// A captured tree with other contents of some files. A file without content is taken away.
fn changed(name: &str, files: &[(&str, Option<&str>)]) -> tempfile::TempDir {
    let copy = copy_of(name);
    for (path, content) in files {
        let place = copy.path().join(path);
        match content {
            Some(content) => {
                fs::create_dir_all(place.parent().unwrap()).unwrap();
                fs::write(place, content).unwrap();
            }
            None if place.is_dir() => fs::remove_dir_all(place).unwrap(),
            None => fs::remove_file(place).unwrap(),
        }
    }
    copy
}

#[test]
fn a_list_of_cpus_that_a_container_made_does_not_count() {
    for (online, mask, cpus) in [
        // Disjoint, overlapping, and more than the list has.
        ("8-9", "4-5", "4-5"),
        ("0-5", "4-7", "4-7"),
        ("0-1", "0-7", "0-7"),
        ("0-1", "5", "5"),
        // CPUs that are not there.
        ("0-1", "100-101", "100-101"),
    ] {
        let status = format!("Name:\tsysdyno\nCpus_allowed_list:\t{mask}\n");
        let online = format!("{online}\n");
        let (status, online_file) = (status.as_str(), format!("{CPUS}/online"));
        let root = changed("desktop-hybrid", &[("proc/self/status", Some(status)), (&online_file, Some(&online))]);
        let machine = described(root.path());
        assert_eq!((machine.cpu.online(), machine.usable_cpus()), (list(cpus), list(cpus)), "{online} {mask}");
        assert_eq!(best(&machine.cpu.count), Some(list(cpus).len() as u32));
        assert_eq!(machine.cpu.virtual_online.as_ref().map(|fact| &fact.value), Some(&list(&online)));
        assert!(row(&machine, "CPUs").unwrap().1.contains("virtual"));
        assert!(machine.contradictions().iter().any(|found| found.question == "numbers of the CPUs"));
        let affinity = check(root.path(), "affinity");
        assert!(affinity.detail.contains("virtual") && affinity.remedy.is_none(), "{affinity:?}");
        if mask == "4-5" {
            let last = machine.last_level_cache(4).unwrap();
            assert_eq!((last.level, machine.cpu(5).unwrap().siblings.clone()), (3, list("5")));
        }
    }
}

#[test]
fn a_mask_with_cpus_that_are_not_plugged_in_is_no_other_list() {
    let status = "Name:\tsysdyno\nCpus_allowed_list:\t0-127\n";
    let root = changed("desktop-hybrid", &[("proc/self/status", Some(status))]);
    let machine = described(root.path());
    assert_eq!((machine.cpu.online(), machine.cpu.virtual_online.clone()), (list("0-7"), None));
    assert!(check(root.path(), "affinity").ok);
}

#[test]
fn a_mask_restricts_and_contradicts_nothing() {
    let root = changed("desktop-hybrid", &[("proc/self/status", Some("Cpus_allowed:\t00000000,00000011\n"))]);
    let machine = described(root.path());
    assert_eq!((machine.cpu.online(), machine.usable_cpus()), (list("0-7"), list("0,4")));
    assert_eq!(machine.contradictions(), []);
    assert_eq!(row(&machine, "CPUs").unwrap(), ("8".to_owned(), String::new()), "equal claims once");
    assert!(check(root.path(), "affinity").detail.contains("only CPUs 0,4 of 0-7"));
}

#[test]
fn without_files_the_mask_counts() {
    let missing = [("proc/cpuinfo", None), (CPUS, None)];
    let root = changed("desktop-hybrid", &missing);
    let machine = described(root.path());
    assert_eq!((machine.cpu.online(), best(&machine.cpu.count)), (list("0-7"), Some(8)));
    assert!(machine.summary_line().contains("8 CPUs"), "{}", machine.summary_line());
    assert_eq!(row(&machine, "topology").unwrap().0, "packages unknown, cores unknown, CPUs 8");
}

#[test]
fn every_type_of_core_is_named_with_its_cpus() {
    let machine = described(&tree("arm-board"));
    let expected = "Arm Cortex-A510, capacity 280: CPUs 0-2; Arm Cortex-A715, capacity 855: CPUs 3-4; \
                    Arm Cortex-A710, capacity 855: CPUs 5-6; Arm Cortex-X3, capacity 1024: CPUs 7";
    assert_eq!(row(&machine, "core types").unwrap().0, expected);
    assert_eq!(machine.cpu.microarchitecture.class.name(), "Arm Cortex-X3");
    let allowed: Vec<u32> = machine.usable_cpus().iter().collect();
    assert!(machine.places(7, &allowed).iter().all(|place| place.placement.ends_with("_other_type")));
    // Without parts the capacity tells them apart.
    let status = fs::read_to_string(tree("arm-board").join("proc/cpuinfo")).unwrap();
    let without: Vec<&str> = status.lines().filter(|line| !line.starts_with("CPU part")).collect();
    let without = without.join(
        "
",
    );
    let root = changed("arm-board", &[("proc/cpuinfo", Some(&without))]);
    let types = row(&described(root.path()), "core types").unwrap().0;
    assert!(types.contains("CPUs 0-2") && types.contains("CPUs 3-6") && types.contains("CPUs 7"), "{types}");
    // A part that no table has hides no other.
    let root = changed("arm-board", &[("proc/cpuinfo", Some(&status.replace("0xd4e", "0xfff")))]);
    let machine = described(root.path());
    assert!(row(&machine, "core types").unwrap().0.ends_with("implementer 0x41 part 0xfff, capacity 1024: CPUs 7"));
    assert_eq!(machine.cpu.microarchitecture.class.name(), "Arm Cortex-A710");
    // Two clusters of one part and almost one size are one type, with both capacities.
    let root = changed("arm-board", &[(&format!("{CPUS}/cpu4/cpu_capacity"), Some("780\n"))]);
    let types = row(&described(root.path()), "core types").unwrap().0;
    assert!(types.contains("Arm Cortex-A715, capacity 780 to 855: CPUs 3-4;"), "{types}");
}

#[test]
fn a_board_without_a_model_is_called_by_its_cores() {
    let root = changed("arm-board", &[("proc/device-tree/model", None)]);
    let name = described(root.path()).processor_name();
    assert_eq!(name, "Arm Cortex-A510 + Arm Cortex-A715 + Arm Cortex-A710 + Arm Cortex-X3");
}

#[test]
fn a_sandbox_that_answers_system_calls_is_named() {
    let machine = described(&tree("gvisor-sandbox"));
    let summary = machine.summary_line();
    assert!(summary.contains("gVisor (claims Linux 4.4.0)"), "{summary}");
    assert!(!summary.contains("unknown"), "{summary}");
    assert!(
        machine.tsc_hertz_claims().is_empty() && machine.nominal_hertz().is_none(),
        "its bogomips are no counter's"
    );
    assert_eq!(row(&machine, "topology").unwrap().0, "packages 1, cores 2, CPUs 2");
    assert!(!check(&tree("gvisor-sandbox"), "container").ok);
    let masks = [0, 1].map(|cpu| format!("{CPUS}/cpu{cpu}/topology/core_cpus"));
    let root = changed("gvisor-sandbox", &[(&masks[0], None), (&masks[1], None), ("proc/version", None)]);
    let machine = described(root.path());
    assert_eq!(row(&machine, "topology").unwrap().0, "packages 1, cores unknown, CPUs 2");
    assert!(machine.kernel.emulator.is_some() && machine.tsc_hertz_claims().is_empty());
}

#[test]
fn a_clock_of_the_moment_is_no_nominal_frequency() {
    let machine = described(&tree("server-memory-node"));
    let nominal = machine.nominal_hertz().unwrap();
    assert!(
        (nominal.value - 3_699_945_000.0).abs() < 1.0 && nominal.source.contains("the counter's rate"),
        "{nominal:?}"
    );
    assert_eq!(machine.contradictions(), []);
    let text = fs::read_to_string(tree("server-memory-node").join("proc/cpuinfo")).unwrap();
    let unknown = text.replace("1200.000", "Unknown");
    let root = changed("server-memory-node", &[("proc/cpuinfo", Some(&unknown))]);
    let machine = described(root.path());
    assert!((machine.nominal_hertz().unwrap().value - 3_699_945_000.0).abs() < 1.0);
    assert!(machine.cpu.momentary_hertz.is_empty());
    // Without the flag the kernel prints the counter's rate.
    let calibrated = text.replace(" aperfmperf", "").replace("1200.000", "3699.945");
    let root = changed("server-memory-node", &[("proc/cpuinfo", Some(&calibrated))]);
    assert!(described(root.path()).nominal_hertz().unwrap().source.starts_with("/proc/cpuinfo cpu MHz"));
}

#[test]
fn channels_with_two_digits_are_as_many_as_there_are() {
    let memory = described(&tree("server-memory-node")).memory;
    assert_eq!((best(&memory.channels), memory.peak_bytes_per_second.unwrap().value), (Some(12), 460_800_000_000));
}

#[test]
fn a_node_without_cpus_is_memory_only() {
    let machine = described(&tree("server-memory-node"));
    assert_eq!(row(&machine, "node 1").unwrap().0, "memory only, 15 GiB, distances 255 10");
    assert_eq!(row(&machine, "node 0").unwrap().0, "CPUs 0-3, 740.1 GiB, distances 10 255");
}

#[test]
fn an_unsupported_architecture_is_named_with_its_processor() {
    let machine = described(&tree("riscv-board"));
    assert_eq!(row(&machine, "architecture").unwrap().0, "riscv64 (not supported)");
    assert_eq!(row(&machine, "model").unwrap().0, "sifive,u74-mc");
    let summary = machine.summary_line();
    assert!(summary.starts_with("sifive,u74-mc, architecture riscv64 (not supported), 4 CPUs"), "{summary}");
}

#[test]
fn priorities_are_facts_and_have_an_effect() {
    let stat = |nice: i32, policy: u32| {
        format!("7 (sysdyno) R {}{nice}{}{policy} 0\n", "0 ".repeat(15), " 0".repeat(21) + " ")
    };
    let described_with = |text: &str, slack: &str| {
        let files = [("proc/self/stat", Some(text)), ("proc/self/timerslack_ns", Some(slack))];
        let root = changed("desktop-hybrid", &files);
        (described(root.path()), check(root.path(), "priority"))
    };
    let (machine, usual) = described_with(&stat(0, 0), "50000\n");
    assert!(usual.ok, "{usual:?}");
    assert_eq!(row(&machine, "scheduling policy").unwrap().0, "SCHED_OTHER");
    for (nice, policy, slack, named) in [
        (0, 5, "50000", "policy SCHED_IDLE"),
        (19, 0, "50000", "nice value 19"),
        (0, 3, "1", "policy SCHED_BATCH, timer slack 0.001 µs"),
    ] {
        let (machine, found) = described_with(&stat(nice, policy), slack);
        assert_eq!((found.ok, found.known, found.detail.as_str()), (false, true, named));
        assert!(found.effect.is_some() && found.remedy.is_some());
        assert_eq!(row(&machine, "nice value").unwrap().0, nice.to_string());
    }
    let root = changed("desktop-hybrid", &[]);
    assert!(!check(root.path(), "priority").known, "nothing is known");
}

#[test]
fn a_limit_of_file_size_bounds_scratch_files() {
    let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                  Max file size             2097152              unlimited            bytes     \n";
    let root = changed("desktop-hybrid", &[("proc/self/limits", Some(limits))]);
    assert_eq!(described(root.path()).limits.file_bytes(), Some(2 << 20));
    let scratch = check(root.path(), "scratch");
    assert!(!scratch.ok && scratch.remedy.unwrap().contains("ulimit -f"));
}

#[test]
fn limits_of_control_groups_on_the_disk_are_facts() {
    let device = ("sys/block/vda/dev", Some("254:0\n"));
    let first = "sys/fs/cgroup/blkio/blkio.throttle.read_iops_device";
    let mounts = fs::read_to_string(tree("guest-false-model").join("proc/self/mountinfo")).unwrap();
    let mounts = mounts + "90 1 0:40 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n";
    let groups = fs::read_to_string(tree("guest-false-model").join("proc/self/cgroup")).unwrap() + "9:blkio:/job\n";
    let files = [
        device,
        ("proc/self/mountinfo", Some(mounts.as_str())),
        ("proc/self/cgroup", Some(groups.as_str())),
        (first, Some("8:0 7\n254:0 1500\n")),
        ("sys/fs/cgroup/blkio/job/blkio.throttle.read_iops_device", Some("254:0 2000\n")),
        ("sys/fs/cgroup/blkio/job/io.max", Some("254:0 rbps=max wbps=1048576 riops=max wiops=max\n")),
    ];
    let root = changed("guest-false-model", &files);
    let machine = detect(root.path(), Path::new("/"));
    let value = row(&machine, "its limits").unwrap().0;
    let job = "/sys/fs/cgroup/blkio/job/io.max";
    assert_eq!(value, format!("1500 reads per second (/{first}), 1 MiB written per second ({job})"));
}

#[test]
fn a_fingerprint_from_hidden_facts_is_not_that_of_another_machine() {
    let (one, other) = (described(&tree("desktop-hybrid")), described(&tree("two-socket")));
    assert!(one.differs_from(&other) && !one.differs_from(&one));
    let mut value = serde_json::to_value(&other).unwrap();
    value["hidden"] = serde_json::json!([{ "value": "/proc/cpuinfo", "source": "permission denied" }]);
    let hidden: Machine = serde_json::from_value(value).unwrap();
    assert!(!one.differs_from(&hidden) && !hidden.differs_from(&one));
    assert!(hidden.summary_line().ends_with("facts are hidden"));
    assert!(row(&hidden, "fingerprint").unwrap().1.contains("/proc/cpuinfo"));
}
