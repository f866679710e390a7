//! The size of the file cache against a truth that the test sets: the limit of a control group, for the groups that the program
//! makes and for a whole machine that is no larger than its group.
//!
//! Control groups are made for the tests and removed. Where they cannot be made the tests fail and say so.
#![allow(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use support::places::{for_anybody, nobody};
use support::runs::{PROGRAM, measuring, metrics, result, text, told};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// A place for a run and its files, on the disk that holds the build.
fn place() -> (TempDir, PathBuf) {
    let keep = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let place = keep.path().join("run");
    fs::create_dir(keep.path().join("files")).unwrap();
    (keep, place)
}

/// Runs a shell script in a directory, with the program as `$PROGRAM`.
fn script(directory: &Path, words: &str) -> Output {
    let mut command = Command::new("bash");
    command.args(["-euc", words]).env("PROGRAM", PROGRAM).current_dir(directory).stdin(Stdio::null());
    command.output().unwrap()
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

/// A control group with a limit on memory; removed at the end.
struct Group(PathBuf);

impl Group {
    fn of(mebibytes: u64) -> Self {
        let name = format!("sysdyno-test-cache-{}-{mebibytes}", std::process::id());
        let places = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        for (mount, file) in places {
            let group = Path::new(mount).join(&name);
            if fs::create_dir(&group).is_ok() {
                // From here on dropping it removes it.
                let group = Group(group);
                if fs::write(group.0.join(file), (mebibytes * MIB).to_string()).is_ok() {
                    // Version 2 gives the controller to children where that is switched on.
                    let _ = fs::write(group.0.join("cgroup.subtree_control"), "+memory");
                    return group;
                }
            }
        }
        panic!("a control group with a limit is needed here, as root");
    }

    /// Runs a script in it; a group below it holds the processes, so that version 2 lets others be made beside that one.
    fn script(&self, directory: &Path, words: &str) -> Output {
        let inner = self.0.join("inner");
        fs::create_dir_all(&inner).unwrap();
        let output = script(directory, &format!("echo $$ > {}/cgroup.procs; {words}", inner.display()));
        let left: Vec<PathBuf> = fs::read_dir(&self.0)
            .unwrap()
            .chain(fs::read_dir(&inner).unwrap())
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_dir() && *path != inner)
            .collect();
        assert!(left.is_empty(), "{left:?}");
        output
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for directory in [self.0.join("inner"), self.0.clone()] {
            // Processes that have just ended may count for a moment.
            for _ in 0..50 {
                if !directory.exists() || fs::remove_dir(&directory).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

#[test]
fn groups_of_known_size_have_caches_of_that_size() {
    let (keep, place) = place();
    let _alone = measuring();
    let output = script(keep.path(), "exec $PROGRAM run file.cache_size --no-progress --scratch files -o run");
    assert!(output.status.success(), "{}", told(&output));
    let result = result(&place);
    let found = sizes(&result);
    for limit in [64 * MIB, 128 * MIB, 256 * MIB] {
        let (_, _, metric) = found.iter().find(|(mode, of, _)| mode == "bounded" && *of == Some(limit)).unwrap();
        assert!(is_limit(metric, limit), "{metric}");
        assert!(["clean", "noisy"].contains(&metric["verdict"]["trust"].as_str().unwrap()), "{metric}");
        assert_eq!(metric["verdict"]["against_prediction"], "as predicted", "{metric}");
        // The bounds hold the limit between them but for what else is charged.
        let [whole, most] = [0, 1].map(|end| metric["interval95"][end].as_f64().unwrap());
        assert!(whole <= most && most <= limit as f64 && whole >= 0.9 * limit as f64, "{metric}");
        // What is beyond the limit was evicted: the curve rises to the limit and stays.
        let curves = result["experiments"][0]["series"].as_array().unwrap();
        let curve = curves.iter().find(|curve| curve["labels"]["limit"] == limit.to_string().as_str()).unwrap();
        for point in curve["points"].as_array().unwrap() {
            let (read, resident) = (point[0].as_f64().unwrap(), point[1].as_f64().unwrap());
            assert!(resident <= read && resident <= limit as f64, "{point}");
            assert!(read > 0.9 * limit as f64 || resident >= read, "{point}");
        }
    }
    // Nobody asked for the whole machine; what it would be is predicted.
    assert!(found.iter().all(|(mode, ..)| mode == "bounded"));
    let checks = result["checks"].as_array().unwrap();
    assert_eq!(checks.iter().find(|check| check["id"] == "C10").unwrap()["outcome"], "holds", "{checks:?}");
    assert_eq!(fs::read_dir(keep.path().join("files")).unwrap().count(), 0);
}

#[test]
fn a_machine_no_larger_than_its_group_is_filled_to_the_limit() {
    let limit = 384;
    let group = Group::of(limit);
    for (with, words) in
        [("holes of a sparse file", "--full-cache"), ("files written", "--full-cache=files --scratch-limit 750M")]
    {
        let (keep, place) = place();
        let _alone = measuring();
        let words = format!("$PROGRAM run file.cache_size --quick --no-progress {words} --scratch files -o run");
        let output = group.script(keep.path(), &words);
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
        // The groups that the program makes are inside and smaller.
        assert!(found.iter().any(|(_, of, metric)| of.is_some_and(|of| is_limit(metric, of))), "{found:?}");
        assert_eq!(fs::read_dir(keep.path().join("files")).unwrap().count(), 0);
    }
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
    assert!(reason.contains("no control group with a limit on memory can be made here"), "{reason}");
    assert!(reason.contains("Permission denied") && reason.contains("systemd-run --user --scope"), "{reason}");
    assert!(
        fs::read_dir(keep.path())
            .unwrap()
            .flatten()
            .all(|entry| !entry.file_name().to_string_lossy().starts_with(".sysdyno-scratch"))
    );
}
