//! The size of the file cache against a truth that the test sets: the limit of a control group, for the groups that the program
//! makes and for a whole machine that is no larger than its group.
//!
//! Control groups are made for the tests and removed. Where they cannot be made the tests fail and say so, unless no version has the
//! controller.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::places::{Group, for_anybody, nobody};
use crate::support::runs::{edit_log, measuring, metrics, result, script, text, told};
use crate::support::truth::{self, Judgement};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// A place for a run and its files, on the disk that holds the build.
fn place() -> (TempDir, PathBuf) {
    let keep = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let place = keep.path().join("run");
    fs::create_dir(keep.path().join("files")).unwrap();
    (keep, place)
}

/// The figures of a run with their bytes, by mode and limit.
fn sizes(result: &Value) -> Vec<(String, Option<u64>, &Value)> {
    let of = |metric: &'static str| move |found: &&Value| found["name"] == metric;
    let found = metrics(result).into_iter().filter(of("file.cache_size.bytes"));
    found
        .map(|metric| {
            let label = |name: &str| metric["labels"][name].as_str().map(str::to_owned);
            (label("mode").unwrap(), label("limit").map(|limit| limit.parse().unwrap()), metric)
        })
        .collect()
}

/// Within 2 % or 1 MiB below the limit, and never above it.
fn is_limit(metric: &Value, limit: u64) -> bool {
    let (bytes, limit) = (metric["value"].as_f64().unwrap(), limit as f64);
    bytes <= limit && limit - bytes <= (0.02 * limit).max(MIB as f64)
}

/// Runs a shell script in a group. What it makes there must be gone at its end.
fn script_in(group: &Group, directory: &Path, words: &str) -> Output {
    let inner = group.inner();
    let output = script(directory, &format!("echo $$ > {}/cgroup.procs; {words}", inner.display()));
    let left: Vec<PathBuf> = fs::read_dir(&group.place)
        .unwrap()
        .chain(fs::read_dir(&inner).unwrap())
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir() && *path != inner)
        .collect();
    assert!(left.is_empty(), "{left:?}");
    output
}

/// Compares the figures of a run with the limits of its groups.
fn of_limits(result: &Value) -> Result<(), Judgement> {
    for limit in [64 * MIB, 128 * MIB] {
        let labels = [("mode", "bounded"), ("limit", &*limit.to_string())];
        let metric = truth::trusted(result, "file.cache_size.bytes", &labels)?;
        // The bounds hold the limit between them but for what else is charged.
        let [whole, most] = [0, 1].map(|end| metric["interval95"][end].as_f64().unwrap());
        let bounds = whole <= most && most <= limit as f64 && whole >= 0.9 * limit as f64;
        let early = result["machine"]["memory"]["reclaimers"].as_array().is_some_and(|found| !found.is_empty());
        let wide = metric["verdict"]["gates"].as_array().unwrap().iter().find(|gate| gate["id"] == "interval").unwrap();
        if early && wide["pass"] == false {
            return Err(Judgement::Disturbed(format!("memory is taken back early here: {}", wide["evidence"])));
        }
        if !is_limit(metric, limit) || !bounds || metric["verdict"]["against_prediction"] != "as predicted" {
            return Err(Judgement::Wrong(metric.to_string()));
        }
        // What is beyond the limit was evicted: the curve rises to the limit and stays.
        let curves = result["experiments"][0]["series"].as_array().unwrap();
        let curve = curves.iter().find(|curve| curve["labels"]["limit"] == limit.to_string().as_str()).unwrap();
        for point in curve["points"].as_array().unwrap() {
            let (read, resident) = (point[0].as_f64().unwrap(), point[1].as_f64().unwrap());
            assert!(resident <= read && resident <= limit as f64, "{point}");
            assert!(read > 0.9 * limit as f64 || resident >= read, "{point}");
        }
    }
    Ok(())
}

#[test]
fn groups_of_known_size_have_caches_of_that_size() {
    // The program makes groups like this one.
    let Some(_) = Group::of_memory(64) else { return };
    let _alone = measuring();
    truth::judged("groups of 64 and 128 MiB", || {
        let (keep, place) = place();
        let output = script(keep.path(), "exec $PROGRAM run file.cache_size --no-progress --scratch files -o run");
        assert!(output.status.success(), "{}", told(&output));
        let result = result(&place);
        if let Err(not_right) = of_limits(&result) {
            return not_right;
        }
        // Nobody asked for the whole machine; what it would be is predicted.
        assert!(sizes(&result).iter().all(|(mode, ..)| mode == "bounded"));
        let checks = result["checks"].as_array().unwrap();
        assert_eq!(checks.iter().find(|check| check["id"] == "C10").unwrap()["outcome"], "holds", "{checks:?}");
        assert_eq!(fs::read_dir(keep.path().join("files")).unwrap().count(), 0);
        Judgement::Right
    });
}

#[test]
fn pages_that_are_taken_back_early_widen_the_interval_of_a_group_and_no_more() {
    // The program makes groups like this one.
    let Some(_) = Group::of_memory(64) else { return };
    let (keep, place) = place();
    let _alone = measuring();
    let (files, over) = (keep.path().join("files"), AtomicBool::new(false));
    let output = std::thread::scope(|scope| {
        // The first pages of the file are gone again and again while it is read.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for run in fs::read_dir(&files).unwrap().flatten() {
                    if let Ok(file) = fs::File::open(run.path().join("cache")) {
                        let _ = posix_fadvise(&file, 0, MIB as i64, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let words = "$PROGRAM run file.cache_size --quick --no-progress --scratch files -o run";
        let output = script(keep.path(), words);
        over.store(true, Ordering::Relaxed);
        output
    });
    assert!(output.status.success(), "{}", told(&output));
    let result = result(&place);
    let found = sizes(&result);
    let (.., metric) = found.first().unwrap_or_else(|| panic!("{}", result["experiments"][0]["rejected"]));
    assert!(is_limit(metric, 64 * MIB), "{metric}");
    assert_eq!(metric["interval95"][0], 0.0, "the rig took nothing: {metric}");
    // What makes room in the cache may also use the CPU of the launch: contaminated is as right.
    assert_ne!(metric["verdict"]["trust"], "clean", "{metric}");
}

#[test]
fn a_machine_no_larger_than_its_group_is_filled_to_the_limit() {
    let limit = 384;
    let Some(group) = Group::of_memory(limit) else { return };
    for (with, words) in
        [("holes of a sparse file", "--full-cache"), ("files written", "--full-cache=files --scratch-limit 750M")]
    {
        let (keep, place) = place();
        let _alone = measuring();
        let words = format!("$PROGRAM run file.cache_size --quick --no-progress {words} --scratch files -o run");
        let output = script_in(&group, keep.path(), &words);
        assert!(output.status.success(), "{}", told(&output));
        assert!(text(&output.stderr).contains("warning: --full-cache"), "{}", told(&output));
        let result = result(&place);
        let found = sizes(&result);
        let (_, _, metric) =
            found.iter().find(|(mode, ..)| mode == "full").unwrap_or_else(|| panic!("{}", result["experiments"][0]));
        // The conducting process and the launch are in the group as well.
        let (bytes, allowed) = (metric["value"].as_f64().unwrap(), (limit * MIB) as f64);
        assert!(bytes <= allowed && bytes >= 0.93 * allowed, "{metric}");
        assert!(metric["estimator"].as_str().unwrap().contains(with), "{metric}");
        assert_eq!(metric["at_least"], Value::Null, "{metric}");
        assert!(text(&output.stderr).contains("filling up to"), "how long it takes is said: {}", told(&output));
        // The groups that the program makes are inside and smaller.
        assert!(found.iter().any(|(_, of, metric)| of.is_some_and(|of| is_limit(metric, of))), "{found:?}");
        assert_eq!(fs::read_dir(keep.path().join("files")).unwrap().count(), 0);
        // A log that does not say that the cache was full, as those of the first method, tells a lower bound.
        edit_log(&place, |record| {
            if let Some(remarks) = record.get_mut("remarks").and_then(Value::as_array_mut) {
                remarks.retain(|remark| remark["what"] != "full.bound");
            }
        });
        let report = crate::support::runs::output(&["report", place.to_str().unwrap(), "--format", "json"]);
        let result: Value = serde_json::from_slice(&report.stdout).unwrap_or_else(|_| panic!("{}", told(&report)));
        assert_eq!(of_machine(&result)["at_least"], true, "{}", of_machine(&result));
    }
}

/// How the kernel is asked to take back memory of a group that is not short of it, and what is charged to that group.
struct Reclaim<'a>(&'a Group);

impl Reclaim<'_> {
    /// Takes back what it can. The kernel complains where that is not all.
    fn now(&self) {
        let _ = fs::write(self.0.place.join("memory.force_empty"), "0");
        let _ = fs::write(self.0.place.join("memory.reclaim"), format!("{}M", 4096));
    }

    fn charged(&self) -> u64 {
        let of = |file: &str| fs::read_to_string(self.0.place.join(file)).ok()?.trim().parse().ok();
        of("memory.usage_in_bytes").or_else(|| of("memory.current")).unwrap()
    }

    /// Waits until a filling has charged so many bytes; false where the run ended before.
    fn wait(&self, files: &Path, bytes: u64, over: &AtomicBool) -> bool {
        while !over.load(Ordering::Relaxed) {
            let fills = fs::read_dir(files).unwrap().flatten().any(|entry| entry.path().join("fill-0").exists());
            if fills && self.charged() >= bytes {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }
}

/// Runs the program in a group while something else goes on, which is given the directory for files and whether the run is over.
fn beside(group: &Group, keep: &Path, words: &str, other: impl FnOnce(&Path, &AtomicBool) + Send) -> Output {
    let (files, over) = (keep.join("files"), AtomicBool::new(false));
    let words = format!("$PROGRAM run file.cache_size --quick --no-progress {words} --scratch files -o run");
    std::thread::scope(|scope| {
        scope.spawn(|| other(&files, &over));
        let output = script_in(group, keep, &words);
        over.store(true, Ordering::Relaxed);
        output
    })
}

/// The figure of the whole machine.
fn of_machine(result: &Value) -> &Value {
    let found = sizes(result).into_iter().find(|(mode, ..)| mode == "full");
    found.unwrap_or_else(|| panic!("{}", result["experiments"][0])).2
}

#[test]
fn what_is_taken_back_early_is_not_the_end_of_the_cache() {
    let limit = 384 * MIB;
    let Some(group) = Group::of_memory(limit / MIB) else { return };
    let (keep, place) = place();
    let _alone = measuring();
    let reclaim = Reclaim(&group);
    let output = beside(&group, keep.path(), "--full-cache", |files, over| {
        // All of it, once when half of the group is full and once nearly at its end.
        for share in [2, 3] {
            if reclaim.wait(files, limit * share / 4, over) {
                reclaim.now();
            }
        }
    });
    assert!(output.status.success(), "{}", told(&output));
    let result = result(&place);
    let section = &result["experiments"][0];
    let said = section["analysis"].to_string();
    assert!(said.contains("although memory was unused"), "the rig took nothing: {said}");
    // What a plain read leaves in the same group is the truth; processes of the run take a part of theirs.
    let plain = format!(
        "truncate -s {} plain; cat plain > /dev/null; fincore --bytes --noheadings --output RES plain",
        2 * limit
    );
    let output = script_in(&group, keep.path(), &plain);
    assert!(output.status.success(), "{}", told(&output));
    let truth: f64 = text(&output.stdout).trim().parse().unwrap_or_else(|_| panic!("{}", told(&output)));
    let metric = of_machine(&result);
    let bytes = metric["value"].as_f64().unwrap();
    assert!((bytes - truth).abs() <= 0.07 * limit as f64, "fincore counts {truth} bytes: {metric}");
    assert_eq!(metric["at_least"], Value::Null, "{metric}");
}

#[test]
fn a_cache_that_is_held_down_is_a_lower_bound() {
    let limit = 384 * MIB;
    let Some(group) = Group::of_memory(limit / MIB) else { return };
    let (keep, place) = place();
    let _alone = measuring();
    let reclaim = Reclaim(&group);
    let output = beside(&group, keep.path(), "--full-cache", |files, over| {
        while reclaim.wait(files, limit / 2, over) {
            reclaim.now();
        }
    });
    assert!(output.status.success(), "{}", told(&output));
    let result = result(&place);
    let metric = of_machine(&result);
    assert_eq!(metric["at_least"], true, "{metric}");
    // What makes room in the cache may also use the CPU of the launch: contaminated is as right.
    assert_ne!(metric["verdict"]["trust"], "clean", "{metric}");
    let evidence = metric["verdict"]["gates"].to_string();
    assert!(evidence.contains("added nothing") && evidence.contains("unused"), "{evidence}");
}

#[test]
fn a_filling_that_ends_for_want_of_time_says_at_least() {
    let limit = 384 * MIB;
    let Some(group) = Group::of_memory(limit / MIB) else { return };
    let (keep, place) = place();
    let _alone = measuring();
    let (reclaim, inner) = (Reclaim(&group), group.place.join("inner/cgroup.procs"));
    let output = beside(&group, keep.path(), "--full-cache --time 2s", |files, over| {
        if !reclaim.wait(files, limit / 4, over) {
            return;
        }
        // Its time goes by while it stands still.
        let members = fs::read_to_string(inner).unwrap();
        let is_launch = |number: &i32| {
            let words = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            words.split(|&byte| byte == 0).nth(1) == Some(b"launch")
        };
        let launch = members.lines().filter_map(|line| line.parse().ok()).find(is_launch).expect("a launch that fills");
        kill(Pid::from_raw(launch), Signal::SIGSTOP).unwrap();
        std::thread::sleep(Duration::from_secs(3));
        kill(Pid::from_raw(launch), Signal::SIGCONT).unwrap();
    });
    assert!(output.status.success(), "{}", told(&output));
    assert!(text(&output.stderr).contains("the result is 'at least'"), "said beforehand: {}", told(&output));
    assert!(text(&output.stdout).contains('≥'), "{}", told(&output));
    let result = result(&place);
    let metric = of_machine(&result);
    assert_eq!(metric["at_least"], true, "{metric}");
    assert!(metric["value"].as_f64().unwrap() < 0.9 * limit as f64, "{metric}");
    assert_eq!(metric["verdict"]["against_prediction"], "none", "{metric}");
    assert!(metric["verdict"]["gates"].to_string().contains("see --time"), "{metric}");
}

#[test]
fn files_for_the_whole_cache_need_the_room_that_was_allowed() {
    let (keep, place) = place();
    let _alone = measuring();
    let words = "exec $PROGRAM run file.cache_size --quick --no-progress --full-cache=files --scratch-limit 100M \
                 --scratch files -o run";
    let output = script(keep.path(), words);
    assert!(output.status.success(), "{}", told(&output));
    let result = result(&place);
    let rejected = result["experiments"][0]["rejected"].as_array().unwrap();
    let full = rejected.iter().find(|figure| figure["labels"]["mode"] == "full").unwrap();
    let reason = full["reason"].as_str().unwrap();
    assert!(reason.contains("--scratch-limit") && reason.contains("--full-cache=holes"), "{reason}");
}

#[test]
fn an_ordinary_user_learns_what_is_missing() {
    let (keep, program) = for_anybody();
    let _alone = measuring();
    let words = nobody();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(&program).args(["run", "file.cache_size", "--quick", "--no-progress", "-o", "run"]);
    let output = command.current_dir(keep.path()).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let result = result(&keep.path().join("run"));
    let section = &result["experiments"][0];
    assert_eq!(section["outcome"], "skipped", "{section}");
    let reason = section["reason"].as_str().unwrap();
    assert!(reason.contains("cannot make a control group here"), "{reason}");
    assert!(reason.contains("Permission denied"), "{reason}");
    assert!(section["hint"].as_str().unwrap().contains("systemd-run --user --scope"), "{section}");
    assert!(
        fs::read_dir(keep.path())
            .unwrap()
            .flatten()
            .all(|entry| !entry.file_name().to_string_lossy().starts_with(".sysdyno-scratch"))
    );
}
