//! Little memory: in a control group, and in a container's view of one without privileges. What fits is measured, what does not
//! has its reason, and the limit is kept.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::support::places::{Group, for_anybody, nobody};
use crate::support::runs::{ended, measuring, of_others, program, result, script, text, told};
use nix::sys::prctl;
use serde_json::Value;

const RUN: &str = "run memory --quick --time 5 --no-progress";

fn section<'a>(result: &'a Value, id: &str) -> &'a Value {
    result["experiments"].as_array().unwrap().iter().find(|section| section["id"] == id).unwrap()
}

/// Figures of an experiment that are published or that neighbours spoiled, of those that `of` is content with.
fn measured(section: &Value, of: impl Fn(&Value) -> bool) -> usize {
    let spoilt = |figure: &&Value| of_others(figure["reason"].as_str().unwrap());
    let published = section["metrics"].as_array().unwrap().iter().filter(|figure| of(figure)).count();
    published + section["rejected"].as_array().unwrap().iter().filter(spoilt).filter(|figure| of(figure)).count()
}

/// What a run with a quarter of 256 MiB found.
fn assert_kept_to(result: &Value) {
    let of = |level: &'static str| move |figure: &Value| figure["labels"]["level"] == level;
    let latency = section(result, "memory.latency");
    // Neighbours on the same core make a latency that the gates refuse; it is told all the same.
    let refused = |figure: &&Value| figure["reason"].as_str().is_some_and(|why| why.starts_with('G'));
    let told = latency["metrics"].as_array().unwrap().iter().filter(|figure| of("L1")(figure)).count();
    let rejected = latency["rejected"].as_array().unwrap().iter().filter(refused);
    assert!(told + rejected.filter(|figure| of("L1")(figure)).count() >= 2, "{latency}");
    let caches = result["machine"]["caches"].as_array().unwrap();
    let last = caches.iter().filter_map(|cache| cache["size_bytes"][0]["value"].as_u64()).max().unwrap();
    if last * 4 > 64 << 20 {
        let published = |section: &Value| section["metrics"].as_array().unwrap().iter().any(of("DRAM"));
        assert!(!published(latency) && !published(section(result, "memory.bandwidth")), "nothing here is DRAM");
        let rejected = latency["rejected"].as_array().unwrap();
        let mut reasons = rejected.iter().filter(|figure| of("DRAM")(figure)).map(|figure| figure["reason"].as_str());
        assert!(reasons.all(|why| why.is_some_and(|why| why.contains("not measured") || of_others(why))), "{latency}");
        assert!(rejected.iter().any(of("DRAM")), "{latency}");
        let loaded = section(result, "memory.loaded_latency");
        assert_eq!(loaded["outcome"], "skipped", "{loaded}");
        assert!(loaded["hint"].as_str().unwrap().contains("memory limit"), "{loaded}");
    }
    let streams = section(result, "memory.bandwidth");
    assert!(measured(streams, |figure| figure["labels"]["operation"] == "read") >= 3, "{streams}");
    let faults = section(result, "memory.page_fault");
    assert!(measured(faults, |figure| figure["name"] == "memory.page_fault.time") >= 5, "{faults}");
}

#[test]
fn little_memory_is_kept_to_and_what_it_does_not_reach_has_a_reason() {
    let Some(group) = Group::of_little_memory() else { return };
    let keep = tempfile::tempdir().unwrap();
    let _alone = measuring();
    let words = format!(
        "echo $$ > {}/cgroup.procs; $PROGRAM {RUN} --dry-run > plan; exec $PROGRAM {RUN} -o run",
        group.place.display()
    );
    let output = script(keep.path(), &words);
    assert!(ended(&output), "{}", told(&output));
    let plan = fs::read_to_string(keep.path().join("plan")).unwrap();
    let (number, unit) =
        plan.split_once("Up to ").unwrap().1.split_once(" of memory").unwrap().0.split_once(' ').unwrap();
    assert!(unit == "MiB" && number.parse::<f64>().unwrap() <= 64.0, "a quarter of the limit: {plan}");
    assert_kept_to(&result(&keep.path().join("run")));
}

#[test]
fn a_container_sees_its_own_limit_and_needs_no_privilege() {
    let Some(group) = Group::of_little_memory() else { return };
    let (keep, program) = for_anybody();
    let _alone = measuring();
    // As container engines do: the group is the root of what can be seen, and nothing of the groups above it.
    let (mount, kind) = if Path::new("/sys/fs/cgroup/memory/cgroup.procs").exists() {
        ("/sys/fs/cgroup/memory", "cgroup -o memory,ro")
    } else {
        ("/sys/fs/cgroup", "cgroup2 -o ro")
    };
    let inside = format!(
        "mount -t proc none /proc; umount -l {mount}; mount -t {kind} none {mount}; grep -q :/$ /proc/self/cgroup
         exec {} {} {RUN} -o run",
        nobody().join(" "),
        program.display()
    );
    fs::write(keep.path().join("inside"), inside).unwrap();
    let words = format!(
        "echo $$ > {}/cgroup.procs; exec unshare --cgroup --mount --pid --fork bash -eu inside",
        group.place.display()
    );
    let output = script(keep.path(), &words);
    assert!(ended(&output) && !text(&output.stderr).contains("mount:"), "{}", told(&output));
    assert_kept_to(&result(&keep.path().join("run")));
}

#[test]
fn huge_pages_that_are_switched_off_for_a_process_are_named() {
    let _alone = measuring();
    let directory = tempfile::tempdir().unwrap();
    // Children inherit it; the other tests of this program wait.
    prctl::set_thp_disable(true).unwrap();
    let told_off = fs::read_to_string("/proc/self/status").unwrap().contains("THP_enabled:\t0");
    let doctor = program().args(["doctor", "--json"]).output().unwrap();
    let words = ["run", "memory.page_fault", "--quick", "--time=4s", "--no-progress", "-o", "run"];
    let run = program().args(words).current_dir(directory.path()).stdin(Stdio::null()).output().unwrap();
    prctl::set_thp_disable(false).unwrap();
    assert!(told_off, "the kernel tells it since Linux 5.0");
    let checks: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let check = checks.as_array().unwrap().iter().find(|check| check["check"] == "huge_pages").unwrap();
    assert_eq!((&check["ok"], &check["known"]), (&Value::from(false), &Value::from(true)), "{check}");
    assert!(check["detail"].as_str().unwrap().contains("PR_SET_THP_DISABLE") && check["remedy"].is_string(), "{check}");
    assert!(ended(&run), "{}", told(&run));
    let result = result(&directory.path().join("run"));
    assert_eq!(result["machine"]["memory"]["transparent_allowed"]["value"], false);
    let section = section(&result, "memory.page_fault");
    assert!(section.to_string().contains("PR_SET_THP_DISABLE"), "{section}");
    // What the system gives are small pages then.
    let first_touch = |pages: &str| {
        let is_it =
            |figure: &&Value| figure["name"] == "memory.page_fault.first_touch" && figure["labels"]["pages"] == pages;
        section["metrics"].as_array().unwrap().iter().find(is_it).map(|figure| figure["value"].as_f64().unwrap())
    };
    assert_eq!(first_touch("huge"), None, "{section}");
    if let (Some(small), Some(system)) = (first_touch("4k"), first_touch("system")) {
        assert!((0.5..2.0).contains(&(system / small)), "{system} ns and {small} ns");
    }
}
