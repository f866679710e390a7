//! The machine description, through the public interface: captured trees of other machines, hostile trees, this machine.
use std::fs;
use std::path::Path;

use crate::support::trees::{MACHINES, files, tree};
use proptest::prelude::*;
use sysdyno::testing::machine::quiet::{self, Check};
use sysdyno::testing::machine::{
    CacheKind, Claims, CoreClass, CoreType, CpuList, InterfaceKind, Machine, Medium, detect,
};

fn machine(name: &str) -> Machine {
    detect(&tree(name), Path::new("/home/user/scratch"))
}

fn check(name: &str, check: &str) -> Check {
    let checks = quiet::checks(&tree(name), &machine(name));
    checks.into_iter().find(|entry| entry.check == check).unwrap()
}

fn list(text: &str) -> CpuList {
    CpuList::parse(text).unwrap()
}

fn best<T: Clone>(claims: &Claims<T>) -> Option<T> {
    claims.best().map(|fact| fact.value.clone())
}

fn questions(machine: &Machine) -> Vec<String> {
    machine.contradictions().into_iter().map(|found| found.question).collect()
}

/// Copies a captured tree and changes the text of each file on the way.
fn copy(name: &str, change: impl Fn(&str, String) -> String) -> tempfile::TempDir {
    let (from, to) = (tree(name), tempfile::tempdir().unwrap());
    for path in files(&from) {
        let relative = path.strip_prefix(&from).unwrap();
        let target = to.path().join(relative);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        match fs::read_to_string(&path) {
            Ok(text) => fs::write(target, change(&format!("/{}", relative.display()), text)).unwrap(),
            Err(_) => drop(fs::copy(&path, target).unwrap()),
        }
    }
    to
}

#[test]
fn equal_cpus_have_other_cores_of_the_same_type_and_cache() {
    let equal = |name: &str, cpu: u32| {
        let machine = machine(name);
        let allowed: Vec<u32> = machine.usable_cpus().iter().collect();
        machine.equal_cpus(cpu, &allowed)
    };
    // Two threads a core: one of each other core of the package.
    assert_eq!(equal("two-socket", 11), [0, 1, 2]);
    assert_eq!(equal("two-socket", 4), [5, 6, 7]);
    // Two performance cores with two threads, four efficiency cores.
    assert_eq!(equal("desktop-hybrid", 0), [2]);
    assert_eq!(equal("desktop-hybrid", 7), [4, 5, 6]);
    assert_eq!(equal("guest-false-model", 1), [0]);
    assert_eq!(machine("two-socket").equal_cpus(11, &[3, 11, 12]), [0; 0], "a sibling and the other package");
}

#[test]
fn a_hybrid_desktop_has_two_kinds_of_cores_with_their_own_caches() {
    let machine = machine("desktop-hybrid");
    assert_eq!(machine.cpu(1).unwrap().core_type.value, CoreType::Performance);
    assert_eq!(machine.cpu(6).unwrap().core_type.value, CoreType::Efficiency);
    assert_eq!(machine.core_class(0), CoreClass::IntelGoldenCove);
    assert_eq!(machine.core_class(7), CoreClass::IntelGracemont);
    assert!(machine.cpu.microarchitecture.certain);
    assert_eq!(machine.cpu(0).unwrap().siblings, list("0-1"));
    assert_eq!(machine.cpu(4).unwrap().siblings, list("4"));
    let size = |cpu, level| best(&machine.data_cache(cpu, level).unwrap().size_bytes).unwrap();
    assert_eq!((size(0, 1), size(0, 2), size(0, 3)), (48 << 10, 1280 << 10, 20 << 20));
    assert_eq!((size(5, 1), size(5, 2), size(5, 3)), (32 << 10, 2 << 20, 20 << 20));
    assert_eq!(machine.data_cache(5, 2).unwrap().shared_with(5), Some(&list("4-7")));
    assert_eq!(machine.caches_of(5).len(), 4);
    assert!(machine.share_core(0, 1) && !machine.share_core(1, 2));
    assert!(machine.share_last_level_cache(0, 7));
}

#[test]
fn a_hybrid_desktop_states_frequencies_for_each_core() {
    let machine = machine("desktop-hybrid");
    let maximum = machine.maximum_core_hertz(5).unwrap();
    assert!((maximum.value - 3.6e9).abs() < 1.0);
    assert_eq!(maximum.source, "/sys/devices/system/cpu/cpu5/cpufreq/cpuinfo_max_freq");
    assert!((machine.maximum_core_hertz(0).unwrap().value - 4.9e9).abs() < 1.0);
    assert!((machine.nominal_core_hertz(5).unwrap().value - 2.8e9).abs() < 1.0);
    let counter = machine.tsc_hertz_claims();
    assert!((counter.best().unwrap().value - 3_686_398_000.0).abs() < 1.0);
    assert_eq!(counter.all().len(), 2);
    assert!(machine.cpu.counter_is_invariant());
    assert_eq!(questions(&machine), Vec::<String>::new());
    assert!(!machine.is_guest());
}

#[test]
fn a_desktops_memory_and_devices_are_described() {
    let machine = machine("desktop-hybrid");
    let memory = &machine.memory;
    assert_eq!(memory.modules.len(), 2);
    assert_eq!(memory.peak_bytes_per_second.as_ref().unwrap().value, 2 * 8 * 3_200_000_000);
    assert_eq!(memory.transparent_huge_pages.as_ref().unwrap().value, "madvise");
    let scratch = machine.scratch().unwrap();
    assert_eq!(scratch.mount.as_ref().unwrap().file_system.value, "ext4");
    let device = scratch.device.as_ref().unwrap();
    assert_eq!((device.name.as_str(), device.partition.as_deref()), ("nvme0n1", Some("nvme0n1p2")));
    assert_eq!((device.driver.as_deref(), device.rotational), (Some("nvme"), Some(false)));
    assert_eq!((device.scheduler.as_deref(), device.read_ahead_bytes), (Some("none"), Some(128 << 10)));
    assert_eq!(machine.storage[1].device.as_ref().unwrap().name, "sda");
    let kinds: Vec<_> = machine.network.iter().map(|interface| interface.kind).collect();
    assert_eq!(kinds, [InterfaceKind::Wired, InterfaceKind::Loopback, InterfaceKind::Wireless]);
    assert_eq!(machine.network[0].bits_per_second, Some(1_000_000_000));
    assert_eq!(machine.kernel.tick_hertz.as_ref().unwrap().value, 1000);
    assert_eq!(machine.kernel.idle_states.len(), 4);
}

#[test]
fn a_scratch_directory_in_memory_is_named_so() {
    let machine = detect(&tree("desktop-hybrid"), Path::new("/tmp/x"));
    let scratch = machine.scratch().unwrap();
    assert_eq!(scratch.mount.as_ref().unwrap().medium, Medium::Memory);
    assert!(scratch.device.is_none() && scratch.device_unknown.is_some());
    let checks = quiet::checks(&tree("desktop-hybrid"), &machine);
    assert!(!checks.iter().find(|check| check.check == "scratch").unwrap().ok);
}

#[test]
fn two_sockets_have_two_nodes_and_two_last_level_caches() {
    let machine = machine("two-socket");
    let topology = machine.cpu.topology();
    assert_eq!((topology.packages, topology.cores, topology.logical), (2, 8, 16));
    assert_eq!(machine.cpu(12).unwrap().numa_node, Some(1));
    assert_eq!(machine.memory.nodes[1].distances, [21, 10]);
    assert!(machine.share_core(3, 11) && machine.share_last_level_cache(0, 10) && machine.share_package(0, 11));
    assert!(!machine.share_last_level_cache(0, 4) && !machine.share_package(0, 4));
    let last = machine.last_level_cache(0).unwrap();
    assert_eq!((last.kind, last.instances.len(), last.ways), (CacheKind::Unified, 2, Some(11)));
    assert_eq!(machine.cpu.microarchitecture.class, CoreClass::IntelSkylake);
    assert_eq!(best(&machine.memory.channels), Some(12));
    assert!(machine.memory.peak_unknown.is_some(), "no speed is known");
    assert_eq!(machine.kernel.isolated.as_ref().unwrap().value, list("7,15"));
    assert_eq!(best(&machine.kernel.preemption).as_deref(), Some("voluntary"));
    let device = machine.scratch().unwrap().device.as_ref().unwrap();
    assert_eq!((device.name.as_str(), device.below.as_slice()), ("dm-0", ["sda3".to_owned()].as_slice()));
}

#[test]
fn a_busy_server_with_a_slow_clock_is_not_quiet() {
    for (name, ok) in [
        ("governor", true),
        ("turbo", true),
        ("clock", false),
        ("load", false),
        ("siblings", false),
        ("numa_balancing", false),
        ("huge_pages", false),
        ("steal", true),
        ("hypervisor", true),
    ] {
        assert_eq!(check("two-socket", name).ok, ok, "{name}");
    }
    assert!(check("two-socket", "load").detail.starts_with("8 other tasks"));
    assert!(check("two-socket", "tick").detail.contains("7,15"));
    let mitigations = check("two-socket", "mitigations");
    assert!(mitigations.ok && mitigations.effect.unwrap().low >= 200.0, "page-table isolation has its price");
}

#[test]
fn an_arm_server_is_known_by_its_part_number() {
    let machine = machine("arm-server");
    assert_eq!(machine.cpu.architecture.as_ref().unwrap().value, "aarch64");
    assert_eq!(machine.core_class(2), CoreClass::ArmNeoverseN1);
    assert!(machine.cpu.microarchitecture.certain);
    assert_eq!(best(&machine.memory.page_bytes), Some(64 << 10));
    assert_eq!(machine.memory.huge_pages.iter().map(|pool| pool.page_bytes >> 20).max(), Some(16 << 10));
    let nominal = machine.nominal_core_hertz(3).unwrap();
    assert!((nominal.value - 3e9).abs() < 1.0);
    assert_eq!(nominal.source, "/sys/devices/system/cpu/cpu3/acpi_cppc/nominal_freq");
    assert!(machine.maximum_core_hertz(3).is_none());
    assert!((machine.tsc_hertz_claims().best().unwrap().value - 25e6).abs() < 1.0);
    assert!(machine.cpu.counter_is_invariant());
    assert!(machine.cpu.has_feature("atomics") && machine.cpu.hypervisor.is_none());
    // btrfs has no device number of its own: the disk is found by its name.
    assert_eq!(machine.scratch().unwrap().device.as_ref().unwrap().name, "nvme0n1");
    assert_eq!(questions(&machine), Vec::<String>::new());
    assert!(check("arm-server", "clock").ok);
    assert!(!check("arm-server", "huge_pages").ok);
}

#[test]
fn a_container_sees_more_than_it_may_use() {
    let machine = machine("container-quota");
    assert_eq!(machine.cpu.online().len(), 64);
    assert_eq!(machine.usable_cpus(), list("0-3"));
    assert!((machine.available_cpus() - 0.5).abs() < 1e-9);
    assert_eq!(machine.available_memory_bytes().unwrap().value, 512 << 20);
    assert_eq!(machine.limits.processes.as_ref().unwrap().value, 1024);
    assert_eq!(machine.limits.seccomp.as_ref().unwrap().value, 2);
    assert!(machine.limits.is_capable("NET_RAW") && !machine.limits.is_capable("SYS_ADMIN"));
    assert_eq!(best(&machine.limits.container).as_deref(), Some("docker"));
    assert_eq!(best(&machine.limits.hypervisor).as_deref(), Some("Google Compute Engine"));
    assert_eq!(machine.scratch().unwrap().mount.as_ref().unwrap().medium, Medium::Overlay);
    assert_eq!(questions(&machine), Vec::<String>::new(), "what restricts contradicts nothing");
}

#[test]
fn a_container_is_told_what_spoils_its_figures() {
    for name in
        ["quota", "affinity", "steal", "pressure", "scratch", "hypervisor", "container", "seccomp", "privileges"]
    {
        let check = check("container-quota", name);
        assert!(check.known && !check.ok, "{check:?}");
    }
    let quota = check("container-quota", "quota");
    assert!((quota.effect.unwrap().high - 100.0).abs() < 1e-9, "half a CPU doubles the time");
    assert!(quota.remedy.unwrap().contains("/sys/fs/cgroup/cpu.max"));
    let governor = check("container-quota", "governor");
    assert!(!governor.known && !governor.ok);
    assert!(check("container-quota", "clock").ok, "kvm-clock is read without a system call");
    let mounted = detect(&tree("container-quota"), Path::new("/data"));
    assert_eq!(mounted.scratch().unwrap().mount.as_ref().unwrap().file_system.value, "ext4");
}

#[test]
fn a_false_model_number_is_found_out_by_the_features() {
    let machine = machine("guest-false-model");
    let found = &machine.cpu.microarchitecture;
    assert_eq!(found.class, CoreClass::IntelGoldenCove);
    assert_eq!(found.by_model.as_ref().unwrap().value, CoreClass::IntelIceLake);
    assert!(found.contradictory() && !found.certain);
    let expected = ["microarchitecture", "nominal frequency", "size of L3", "whether vda is a rotating disk"];
    assert_eq!(questions(&machine), expected);
    for contradiction in machine.contradictions() {
        assert!(contradiction.claims.len() > 1, "{contradiction}");
        assert!(contradiction.claims.iter().all(|claim| !claim.source.is_empty()), "{contradiction}");
    }
}

#[test]
fn limits_of_the_groups_above_count_too() {
    let limits = machine("guest-false-model").limits;
    assert_eq!(limits.cgroup_version.unwrap().value, "v1");
    let quota = limits.cpu_quota.unwrap();
    assert!((quota.value - 1.5).abs() < 1e-9);
    assert_eq!(quota.source, "/sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us");
    assert_eq!(limits.memory_bytes.unwrap().value, 2 << 30);
    assert_eq!(limits.tracer.unwrap().value, 77);
    assert!(!check("guest-false-model", "tracing").ok);
    assert!(!check("guest-false-model", "swap").ok);
}

#[test]
fn the_fingerprint_survives_a_reboot_and_an_upgrade() {
    for name in MACHINES {
        let before = machine(name).fingerprint;
        assert!(before.len() == 16 && before.bytes().all(|byte| byte.is_ascii_hexdigit()), "{before}");
        let later = copy(name, |path, text| match path {
            "/proc/cpuinfo" => {
                let changed = |line: &str| match line.split_once(':') {
                    Some((key, _)) if key.starts_with("cpu MHz") => format!("{key}: 1234.567"),
                    Some((key, _)) if key.to_lowercase().starts_with("bogomips") => format!("{key}: 4321.09"),
                    Some((key, _)) if key.starts_with("microcode") => format!("{key}: 0xffff"),
                    Some((key, flags)) if key.starts_with("flags") => {
                        format!("{key}: {flags} a_flag_of_a_newer_kernel")
                    }
                    _ => line.to_owned(),
                };
                text.lines().map(changed).collect::<Vec<_>>().join("\n") + "\n"
            }
            // Another kernel keeps some other megabytes for itself.
            "/proc/meminfo" => text.replace("00 kB", "99 kB").replace("MemAvailable:   2", "MemAvailable:   1"),
            "/proc/version" | "/proc/sys/kernel/osrelease" => "7.0.0-rc1".to_owned(),
            "/proc/stat" | "/proc/loadavg" => String::new(),
            path if path.starts_with("/boot") || path.starts_with("/sys/firmware") || path.contains("cpufreq") => {
                String::new()
            }
            _ => text,
        });
        fs::create_dir_all(later.path().join("proc/sys/kernel")).unwrap();
        fs::write(later.path().join("proc/sys/kernel/hostname"), "another-name").unwrap();
        fs::write(later.path().join("proc/uptime"), "12345.67 9876.54").unwrap();
        assert_eq!(detect(later.path(), Path::new("/elsewhere")).fingerprint, before, "{name}");
    }
}

#[test]
fn the_fingerprint_tells_machines_apart() {
    let changes: [(&str, &str, &str); 5] = [
        ("/proc/cpuinfo", "model\t\t: 151", "model\t\t: 183"),
        ("/proc/cpuinfo", "i5-12600K", "i5-12600"),
        ("/proc/meminfo", "MemTotal:       32583120", "MemTotal:       65400000"),
        ("/sys/devices/system/cpu/online", "0-7", "0-3"),
        ("/sys/devices/system/cpu/cpu0/cache/index3/size", "20480K", "16384K"),
    ];
    let before = machine("desktop-hybrid").fingerprint;
    for (path, from, to) in changes {
        // A CPU that is offline is in no mask.
        let status = path.ends_with("/online").then_some("/proc/self/status");
        let is_changed = |file: &str| file == path || Some(file) == status;
        let other = copy("desktop-hybrid", |file, text| if is_changed(file) { text.replace(from, to) } else { text });
        assert_ne!(detect(other.path(), Path::new("/")).fingerprint, before, "{path} {to}");
    }
}

#[test]
fn an_empty_directory_is_a_machine_of_which_nothing_is_known() {
    let empty = tempfile::tempdir().unwrap();
    let machine = detect(empty.path(), Path::new("/tmp"));
    assert!(machine.cpu.logical.is_empty() && machine.cpu.model_name.is_empty());
    assert!(machine.memory.total_bytes.is_none() && machine.memory.page_bytes.is_empty());
    assert!(machine.caches.is_empty() && machine.storage.is_empty() && machine.network.is_empty());
    assert!(machine.limits.affinity.is_empty() && machine.kernel.release.is_none());
    assert!(machine.contradictions().is_empty());
    assert!(!machine.summary_line().is_empty());
    assert!(quiet::checks(empty.path(), &machine).iter().filter(|check| check.ok).count() <= 1, "only: no battery");
    assert_eq!(detect(Path::new("/no/such/directory"), Path::new("x")).cpu.logical.len(), 0);
}

#[test]
fn this_machine_is_described_and_reads_back() {
    let scratch = tempfile::tempdir().unwrap();
    let machine = detect(Path::new("/"), scratch.path());
    assert!(!machine.cpu.logical.is_empty());
    assert!(!machine.usable_cpus().is_empty() && machine.available_cpus() > 0.0);
    assert!(machine.memory.total_bytes.is_some() && best(&machine.memory.page_bytes).is_some());
    assert!(machine.scratch().is_some());
    assert_eq!(machine.fingerprint, detect(Path::new("/"), Path::new("/")).fingerprint);
    let text = serde_json::to_string(&machine).unwrap();
    assert_eq!(serde_json::from_str::<Machine>(&text).unwrap(), machine);
    let checks = quiet::checks(Path::new("/"), &machine);
    let text = serde_json::to_string(&checks).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Check>>(&text).unwrap(), checks);
}

#[test]
fn the_result_has_exactly_the_promised_fields_and_fits_its_schema() {
    let schema = serde_json::to_value(schemars::schema_for!(Machine)).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for name in MACHINES {
        let machine = machine(name);
        let value = serde_json::to_value(&machine).unwrap();
        let fields: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let promised = ["caches", "cpu", "fingerprint", "kernel", "limits", "memory", "network", "storage"];
        assert_eq!(fields, promised, "{name}");
        assert!(validator.is_valid(&value), "{name}: {:?}", validator.iter_errors(&value).next());
        assert_eq!(serde_json::from_value::<Machine>(value).unwrap(), machine, "{name}");
    }
}

#[test]
fn every_row_of_the_description_names_its_source_or_gives_a_reason() {
    for name in MACHINES {
        for section in machine(name).sections() {
            assert!(!section.rows.is_empty() && !section.title.is_empty(), "{name}");
            for row in section.rows {
                assert!(!row.name.is_empty() && !row.value.is_empty(), "{name}: {row:?}");
                assert!(!row.source.is_empty() || row.note.is_some(), "{name}: {row:?}");
            }
        }
    }
}

#[test]
fn every_effect_is_a_range_and_every_trouble_can_be_acted_on() {
    for name in MACHINES {
        for check in quiet::checks(&tree(name), &machine(name)) {
            if let Some(effect) = &check.effect {
                assert!(effect.low >= 0.0 && effect.high >= effect.low && effect.high.is_finite(), "{name}: {check:?}");
            }
            let actionable = check.remedy.is_some() || check.effect.is_some();
            assert!(check.ok || !check.known || actionable, "{name}: {check:?}");
        }
    }
}

/// What a file of a hostile tree may hold.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(Vec::new()),
        proptest::collection::vec(any::<u8>(), 0..200),
        "[-0-9]{1,25}\n".prop_map(String::into_bytes),
        "[0-9,:/-]{1,20}\n".prop_map(String::into_bytes),
        "(processor|flags|cpu|MemTotal|Seccomp|some|Max a  )[ \t:=0-9a-z.]{0,40}\n".prop_map(String::into_bytes),
        Just(b"18446744073709551615 18446744073709551615\n".to_vec()),
        Just(b"99999999999999999999999K".to_vec()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_content_of_the_files_makes_it_panic(
        contents in proptest::collection::vec(garbage(), 20..60),
        spared in 1usize..7,
        name in prop_oneof![Just("guest-false-model"), Just("container-quota"), Just("arm-server")],
    ) {
        let hostile = copy(name, |_, text| text);
        // Some files stay as they are, so that what is read behind them is reached.
        for (position, path) in files(hostile.path()).into_iter().enumerate().filter(|(position, _)| position % 7 >= spared) {
            fs::write(path, &contents[position % contents.len()]).unwrap();
        }
        let machine = detect(hostile.path(), Path::new("/home/user"));
        let value = serde_json::to_value(&machine).unwrap();
        prop_assert!(serde_json::from_value::<Machine>(value).is_ok());
        let _ = (machine.sections(), machine.summary_line(), machine.contradictions());
        for check in quiet::checks(hostile.path(), &machine) {
            if let Some(effect) = check.effect {
                prop_assert!(effect.low.is_finite() && effect.high.is_finite());
            }
        }
        for cpu in machine.cpu.online().iter() {
            let _ = (machine.maximum_core_hertz(cpu), machine.core_class(cpu), machine.caches_of(cpu).len());
        }
    }
}
