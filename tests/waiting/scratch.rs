//! The life of the directory for files: one per run, bounded, gone at every exit; what a run that was killed leaves is gone
//! after the next start, and nothing else was touched.
//!
//! File systems are mounted in private namespaces that end with their process. Where a place cannot be made the test fails and
//! says why.
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::fuse::{Slow, own_mounts};
use crate::support::places::{Group, for_anybody, nobody};
use crate::support::runs::{
    PROGRAM, ended, in_the_foreground, lines, program, records, result, state, sysdyno, text, told, wait_until,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use serde_json::Value;
use sysdyno::testing::sys::naming::Maker;
use tempfile::TempDir;

/// Beginning of the names of directories for files.
const PREFIX: &str = ".sysdyno-scratch-";

/// A directory on the disk that holds the build, with one for files in it, in which something of the user's lies.
fn place() -> (TempDir, PathBuf) {
    let keep = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let files = keep.path().join("files");
    fs::create_dir(&files).unwrap();
    fs::write(files.join("precious"), "a user's").unwrap();
    fs::create_dir(files.join(".sysdyno-scratch-of-mine")).unwrap();
    (keep, files)
}

fn names(directory: &Path) -> BTreeSet<String> {
    fs::read_dir(directory).unwrap().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Directories of runs.
fn ours(files: &Path) -> Vec<String> {
    names(files).into_iter().filter(|name| maker(name).is_some()).collect()
}

/// Whose directory a name is.
fn maker(name: &str) -> Option<Maker> {
    Maker::of(name.strip_prefix(PREFIX)?)
}

/// The directory of the run that a process conducts, once it is there.
fn directory_of(conductor: u32, files: &Path) -> PathBuf {
    wait_until("the run has its directory", Duration::from_secs(30), || {
        let name = ours(files).into_iter().find(|name| maker(name).unwrap().process == conductor)?;
        Some(files.join(name))
    })
}

/// The name of a directory that a process of this node made; no process has such a number.
fn dead(number: u32) -> String {
    let here = Maker::here();
    format!("{PREFIX}{}-{}-{}-0123abcd", here.node, here.namespace, 4_194_304 + number)
}

/// Control groups of the run that a process conducted.
fn groups(conductor: u32) -> Vec<PathBuf> {
    let prefix = format!("sysdyno-{conductor}-");
    let mut waiting = vec![PathBuf::from("/sys/fs/cgroup")];
    let mut found = Vec::new();
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with(&prefix) {
                    found.push(entry.path());
                }
                waiting.push(entry.path());
            }
        }
    }
    found
}

/// A run that makes files and control groups.
fn begin(keep: &Path, output: &str) -> Child {
    in_the_foreground();
    let words = ["run", "file.cache_size", "--no-progress", "--scratch", "files", "-o", output];
    let mut command = program();
    command.args(words).current_dir(keep).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.process_group(0).spawn().unwrap()
}

/// A run of something else with the same place for files.
fn next_start(keep: &Path, output: &str) -> Output {
    let words = ["run", "cpu.loop", "--quick", "--time=1s", "--no-progress", "--scratch", "files", "-o", output];
    program().args(words).current_dir(keep).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_signal_ends_the_run_and_nothing_is_left() {
    if !is_limited() {
        return;
    }
    let (keep, files) = place();
    let before = names(&files);
    for (number, signal) in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().enumerate() {
        let output = format!("run-{number}");
        let run = begin(keep.path(), &output);
        let conductor = run.id();
        // At three moments: when the directory is there, when the file is, while launches follow each other.
        let directory = directory_of(conductor, &files);
        let wanted = directory.join(["", "cache", "cache"][number]);
        wait_until("the run has its directory", Duration::from_secs(30), || wanted.exists().then_some(()));
        std::thread::sleep(Duration::from_millis(700 * number as u64));
        kill(Pid::from_raw(conductor as i32), signal).unwrap();
        let ended = run.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(130), "{}", told(&ended));
        assert_eq!(names(&files), before, "{signal}");
        assert_eq!(groups(conductor), Vec::<PathBuf>::new(), "{signal}");
    }
}

#[test]
fn what_a_killed_run_leaves_is_gone_after_the_next_start() {
    if !is_limited() {
        return;
    }
    let (keep, files) = place();
    let before = names(&files);
    let mut random = fastrand::Rng::new();
    let (mut left_something, mut said) = (0, 0);
    for turn in 0..6 {
        let mut run = begin(keep.path(), &format!("run-{turn}"));
        let conductor = run.id();
        wait_until("the run has its directory", Duration::from_secs(30), || (!ours(&files).is_empty()).then_some(()));
        let pause = random.u64(0..1500);
        std::thread::sleep(Duration::from_millis(pause));
        // As if the power had failed: the run and its launches, all at once, at any moment.
        let _ = kill(Pid::from_raw(-(conductor as i32)), Signal::SIGKILL);
        let _ = run.wait();
        left_something += usize::from(!ours(&files).is_empty());
        let next = next_start(keep.path(), &format!("next-{turn}"));
        assert!(ended(&next), "{}", told(&next));
        said += usize::from(text(&next.stderr).contains("left by a killed run"));
        assert_eq!(names(&files), before, "killed after {pause} ms: {}", told(&next));
        assert_eq!(groups(conductor), Vec::<PathBuf>::new(), "killed after {pause} ms");
    }
    assert_eq!((left_something, said), (6, 6), "a run that is killed cannot tidy up; the next one says that it did");
}

#[test]
fn a_run_that_lives_keeps_its_files_while_another_starts() {
    if !is_limited() {
        return;
    }
    let (keep, files) = place();
    let run = begin(keep.path(), "run");
    let conductor = run.id();
    let directory = directory_of(conductor, &files);
    wait_until("the run has its file", Duration::from_secs(30), || directory.join("cache").exists().then_some(()));
    let other = next_start(keep.path(), "other");
    assert!(ended(&other), "{}", told(&other));
    assert!(!text(&other.stderr).contains("left by a killed run"), "{}", told(&other));
    assert!(directory.join("cache").exists());
    kill(Pid::from_raw(conductor as i32), Signal::SIGTERM).unwrap();
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(130));
    assert!(ours(&files).is_empty());
}

#[test]
fn runs_with_one_process_number_share_a_place() {
    let (keep, files) = place();
    let before = names(&files);
    // As two containers on one file system: each is process 1 of its own namespace.
    let start = |output: &str| {
        let mut command = Command::new("unshare");
        command.args([
            "--pid",
            "--fork",
            "--mount-proc",
            "--",
            PROGRAM,
            "run",
            "file.read",
            "--quick",
            "--time=4s",
            "--no-progress",
        ]);
        command
            .args(["--scratch", "files", "-o", output])
            .env("XDG_STATE_HOME", state())
            .current_dir(keep.path())
            .stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let ends = [start("one"), start("other")].map(|run| run.wait_with_output().unwrap());
    for (end, output) in ends.iter().zip(["one", "other"]) {
        assert!(!text(&end.stderr).contains("unshare:"), "namespaces are needed here: {}", told(end));
        assert!(ended(end), "{}", told(end));
        let section = result(&keep.path().join(output))["experiments"][0].to_string();
        assert!(!section.contains("cannot make the directory"), "{section}");
    }
    assert_eq!(names(&files), before, "both have tidied up");
}

#[test]
fn links_and_things_of_others_are_not_followed_and_not_removed() {
    let (keep, files) = place();
    let treasure = keep.path().join("treasure");
    fs::create_dir(&treasure).unwrap();
    fs::write(treasure.join("gold"), "heavy").unwrap();
    // A dead run's directory with a link out of it, and a link of such a name.
    let left_behind = files.join(dead(1));
    fs::create_dir(&left_behind).unwrap();
    std::os::unix::fs::symlink(&treasure, left_behind.join("out")).unwrap();
    std::os::unix::fs::symlink(&treasure, files.join(dead(2))).unwrap();
    if Uid::effective().is_root() {
        let foreign = files.join(dead(3));
        fs::create_dir(&foreign).unwrap();
        std::os::unix::fs::chown(&foreign, Some(54_321), None).unwrap();
    }
    let next = next_start(keep.path(), "next");
    assert!(ended(&next), "{}", told(&next));
    assert_eq!(fs::read_to_string(treasure.join("gold")).unwrap(), "heavy");
    assert_eq!(fs::read_to_string(files.join("precious")).unwrap(), "a user's");
    let left = names(&files);
    assert!(!left.contains(&dead(1)) && left.contains(&dead(2)), "{left:?}");
    assert_eq!(left.contains(&dead(3)), Uid::effective().is_root(), "{left:?}");
}

/// Runs a shell script in a directory and in a mount namespace of its own, with an ext4 file system of so many MiB on a loop
/// device at `small`. The device goes with the namespace.
fn on_a_small_disk(keep: &Path, mebibytes: u32, words: &str) -> Output {
    let script = format!(
        "truncate -s {mebibytes}M disk; mkfs.ext4 -q -m 0 disk; mkdir -p small; mount -o loop disk small; {words}"
    );
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--", "bash", "-euc", &script])
        .env("PROGRAM", PROGRAM)
        .env("XDG_STATE_HOME", state())
        .current_dir(keep);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let complaint = text(&output.stderr);
    assert!(!complaint.contains("mount:") && !complaint.contains("unshare:"), "root is needed here: {}", told(&output));
    output
}

const CACHE: &str = "$PROGRAM run file.cache_size --quick --no-progress --scratch small -o run";

/// Whether the experiment can make its own group. Where it cannot, that is noted.
fn is_limited() -> bool {
    Group::of_memory(64).is_some()
}

fn section(keep: &Path) -> Value {
    result(&keep.join("run"))["experiments"][0].clone()
}

#[test]
fn a_small_disk_is_not_filled() {
    if !is_limited() {
        return;
    }
    let (keep, _) = place();
    let output = on_a_small_disk(keep.path(), 200, &format!("{CACHE}; ls -A small > names"));
    assert!(output.status.success(), "{}", told(&output));
    let section = section(keep.path());
    assert_eq!(section["outcome"], "skipped", "{section}");
    let reason = section["reason"].as_str().unwrap();
    assert!(reason.contains("needs a file of 96"), "{reason}");
    assert!(section["hint"].as_str().unwrap().contains("--scratch-limit"), "{section}");
    assert_eq!(fs::read_to_string(keep.path().join("names")).unwrap(), "lost+found\n");
}

#[test]
fn a_limit_beyond_what_is_free_is_refused_and_one_within_is_kept_to() {
    if !is_limited() {
        return;
    }
    let (keep, _) = place();
    let output = on_a_small_disk(keep.path(), 200, &format!("{CACHE} --scratch-limit 1G; ls -A small > names"));
    let complaint = told(&output);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    let hint = complaint.split("hint: give --scratch-limit ").nth(1).unwrap_or_default();
    let most: u64 = hint.split("M or less").next().unwrap().parse().unwrap_or_else(|_| panic!("{complaint}"));
    assert!(complaint.contains("allows files of 953.7 MiB together, but only") && (100..200).contains(&most));
    assert!(!keep.path().join("run").exists(), "a refused command leaves nothing");
    let output = on_a_small_disk(keep.path(), 200, &format!("{CACHE} --dry-run --scratch-limit {most}M"));
    assert!(output.status.success(), "what the hint says is accepted: {}", told(&output));
    let (keep, _) = place();
    let began = Instant::now();
    let (output, largest) = watched(keep.path(), 200, &format!("{CACHE} --scratch-limit 120M"));
    assert!(output.status.success(), "{} after {:?}", told(&output), began.elapsed());
    assert!((90_000..=120 << 10).contains(&largest), "{largest} KiB");
    assert_eq!(section(keep.path())["outcome"], "measured", "{}", section(keep.path()));
    assert_eq!(fs::read_to_string(keep.path().join("names")).unwrap(), "lost+found\n");
}

/// Runs a command on a small disk, where nothing is left afterwards; and the most KiB that files of the run had together.
fn watched(keep: &Path, mebibytes: u32, words: &str) -> (Output, u64) {
    let watch = "( while sleep 0.02; do du -sk small/.sysdyno-scratch-* 2>/dev/null || true; done > usage ) & \
                 trap \"kill $!\" EXIT;";
    let output = on_a_small_disk(
        keep,
        mebibytes,
        &format!("{watch} {words} || code=$?; ls -A small > names; exit ${{code:-0}}"),
    );
    assert_eq!(fs::read_to_string(keep.join("names")).unwrap(), "lost+found\n");
    let usage = fs::read_to_string(keep.join("usage")).unwrap();
    let sizes = usage.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok());
    (output, sizes.max().unwrap())
}

#[test]
fn all_experiments_together_keep_to_the_limit() {
    if !is_limited() {
        return;
    }
    let (keep, _) = place();
    let run = "$PROGRAM run file --quick --no-progress --scratch small -o run --scratch-limit 150M";
    let (output, largest) = watched(keep.path(), 300, run);
    assert!(ended(&output), "{}", told(&output));
    // Beside the files there are directories and an empty file.
    let limit = 150_000_000 / 1024 + 64;
    assert!((110_000..=limit).contains(&largest), "{largest} KiB of {limit}");
    let result = result(&keep.path().join("run"));
    let sections = result["experiments"].as_array().unwrap();
    let contention = sections.iter().find(|section| section["id"] == "file.contention").unwrap().to_string();
    assert!(contention.contains("1 files of 16.00 MiB fit into the remaining scratch space"), "{contention}");
}

#[test]
fn a_quota_and_a_full_file_system_are_named_and_nothing_is_left() {
    own_mounts();
    let (keep, files) = place();
    for (error, words, advice) in [
        (libc::EDQUOT, "Disk quota exceeded", "the quota there is used up"),
        (libc::ENOSPC, "No space left", "free space"),
    ] {
        // There is room, says the file system, but this user's share of it ends sooner.
        let slow = Slow::mount(&files, Duration::ZERO, 2, 8 << 30);
        slow.set_quota(8 << 20, error);
        let run = keep.path().join(format!("run-{error}"));
        let output = sysdyno(&["run", "file", "--quick", "--time=4s", "--no-progress", "--scratch"])
            .args([&files, Path::new("-o"), &run])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        assert!(slow.names().is_empty(), "left behind: {:?}", slow.names());
        assert!(text(&output.stdout).contains(words), "the summary says why: {}", told(&output));
        let result = result(&run);
        for id in ["file.read", "file.contention"] {
            let sections = result["experiments"].as_array().unwrap();
            let section = sections.iter().find(|section| section["id"] == id).unwrap();
            assert_eq!(section["outcome"], "failed", "{section}");
            let said = section.to_string();
            assert!(said.contains("cannot write the test file") && said.contains(words), "{said}");
            assert!(said.contains(advice), "{said}");
        }
    }
}

#[test]
fn a_disk_that_fills_up_meanwhile_has_a_clear_end() {
    if !is_limited() {
        return;
    }
    // Somebody else takes the space as soon as the run has made its directory.
    let words = format!(
        "( until ls small/.sysdyno-scratch-*/owner >/dev/null 2>&1; do :; done; fallocate -l 90M small/other || true ) & \
         {CACHE} --scratch-limit 110M"
    );
    let (keep, _) = place();
    let output =
        on_a_small_disk(keep.path(), 160, &format!("code=0; ( {words} ) || code=$?; ls -A small > names; exit $code"));
    let ends: Vec<String> = records(&lines(&keep.path().join("run")), "launch_end")
        .iter()
        .filter_map(|end| Some(end["failed"]["what"].as_str()?.to_owned()))
        .collect();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let known = |end: &String| end.contains("cannot write the test file") && end.contains("No space left on device");
    assert!(!ends.is_empty() && ends.iter().all(known), "{ends:?}");
    let left = fs::read_to_string(keep.path().join("names")).unwrap();
    assert!(left.lines().all(|name| ["lost+found", "other"].contains(&name)), "{left}");
}

#[test]
fn a_limit_on_file_sizes_bounds_the_files_and_is_named() {
    let (keep, _) = place();
    let output = on_a_small_disk(keep.path(), 160, &format!("ulimit -f 40000; {CACHE} --scratch-limit 110M"));
    let reason = section(keep.path()).to_string();
    assert!(reason.contains("needs a file of 96") && reason.contains("ulimit -f"), "{reason}: {}", told(&output));
}

#[test]
fn a_read_only_place_and_memory_are_no_places_and_say_so() {
    let (keep, _) = place();
    let output = on_a_small_disk(keep.path(), 200, &format!("mount -o remount,ro small; {CACHE}"));
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    let complaint = text(&output.stderr);
    assert!(complaint.contains("small: Read-only file system") && complaint.contains("hint: "), "{complaint}");
    assert!(!keep.path().join("run").exists(), "a refused command leaves nothing");
    // Nobody chose the current directory for files: what needs them is skipped, the rest is not.
    let here = CACHE.replace("--scratch small -o run", "-o ../run");
    let output = on_a_small_disk(keep.path(), 200, &format!("mount -o remount,ro small; cd small; {here}"));
    assert!(output.status.success(), "{}", told(&output));
    assert!(section(keep.path())["reason"].as_str().unwrap().contains("mounted read-only"), "{}", section(keep.path()));
    let (keep, _) = place();
    let output = on_a_small_disk(keep.path(), 20, &format!("mount -t tmpfs none small; {CACHE}; ls -A small > names"));
    assert!(output.status.success(), "{}", told(&output));
    let section = section(keep.path());
    assert_eq!(section["outcome"], "skipped", "{section}");
    assert!(section["reason"].as_str().unwrap().contains("memory"), "{section}");
    assert_eq!(fs::read_to_string(keep.path().join("names")).unwrap(), "");
}

#[test]
fn a_current_directory_that_takes_no_files_skips_what_needs_them() {
    let (keep, program) = for_anybody();
    let (here, there) = (keep.path().join("theirs"), keep.path().join("run"));
    fs::create_dir(&here).unwrap();
    fs::set_permissions(&here, fs::Permissions::from_mode(0o555)).unwrap();
    let words = nobody();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(&program).args([
        "run",
        "file",
        "memory.page_fault",
        "--quick",
        "--time=4s",
        "--no-progress",
        "-o",
    ]);
    let output = command.arg(&there).current_dir(&here).stdin(Stdio::null()).output().unwrap();
    assert!(ended(&output), "{}", told(&output));
    let result = result(&there);
    for section in result["experiments"].as_array().unwrap() {
        let id = section["id"].as_str().unwrap();
        if ["file.read", "file.contention", "file.cache_size"].contains(&id) {
            assert_eq!(section["outcome"], "skipped", "{section}");
            let reason = section["reason"].as_str().unwrap();
            assert!(reason.contains("cannot make files in") && reason.contains("Permission denied"), "{reason}");
        }
        if id == "memory.page_fault" {
            let rejected = section["rejected"].to_string();
            assert!(rejected.contains("file_cold") && rejected.contains("Permission denied"), "{rejected}");
        }
    }
}

#[test]
fn files_of_a_moment_keep_to_the_limit_as_well() {
    let (_keep, files) = place();
    let words =
        ["run", "memory.page_fault", "--quick", "--time=4s", "--no-progress", "--scratch-limit", "1M", "--scratch"];
    let output = tempfile::tempdir().unwrap();
    let run = output.path().join("run");
    let ran = sysdyno(&words).arg(&files).arg("-o").arg(&run).output().unwrap();
    assert!(ended(&ran), "{}", told(&ran));
    let rejected = result(&run)["experiments"][0]["rejected"].to_string();
    assert!(rejected.contains("of scratch space that is left") && rejected.contains("--scratch-limit"), "{rejected}");
}
