//! Two conditions in turn, as far as no figure counts: what the commands get, which signals reach them, and what is left.

use std::fs::{self, File};
use std::os::unix::fs::{chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, Uid};

use crate::support::runs::{Leashed, PROGRAM, measuring, sysdyno, text, told, wait_until};

/// Longer than a quick run of one experiment takes on any machine, and shorter than what must not be waited for.
const PATIENCE: Duration = Duration::from_mins(1);
/// A time whose runs no test waits for.
const LONG: &str = "1h";
/// A command that no test waits for.
const FOR_EVER: &str = "sleep 600";

/// A comparison of two conditions in a directory, in a process group of its own.
fn live(keep: &Path, conditions: [&str; 2], time: &str) -> Command {
    let words = ["compare", "--live", conditions[0], conditions[1], "cpu.loop", "--time", time, "--runs", "runs"];
    let mut command = sysdyno(&words);
    command.current_dir(keep).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    command
}

/// Waits until a file in the directory has a word.
fn wait_for(keep: &Path, file: &str, word: &str) {
    let place = keep.join(file);
    wait_until(word, PATIENCE, || fs::read_to_string(&place).unwrap_or_default().contains(word).then_some(()));
}

/// The end of a comparison, which has to come soon.
fn end(mut running: Leashed) -> (Option<i32>, String) {
    let status = wait_until("the comparison ends", PATIENCE, || running.0.try_wait().unwrap());
    let mut said = String::new();
    std::io::Read::read_to_string(running.0.stderr.as_mut().unwrap(), &mut said).unwrap();
    (status.code(), said)
}

/// Whether a process writes the log of a run.
fn is_written(log: &Path) -> bool {
    File::open(log).is_ok_and(|log| log.try_lock().is_err())
}

#[test]
fn commands_get_no_input() {
    let keep = tempfile::tempdir().unwrap();
    let script = "printf 'one\\ntwo\\n' | while read -r word; do \
                  \"$PROGRAM\" compare --live 'cat >>eaten; exit 3' 'true other' cpu.loop --runs runs; echo $word >>seen; done";
    let mut command = Command::new("bash");
    command.args(["-c", script]).env("PROGRAM", PROGRAM).current_dir(keep.path());
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(fs::read_to_string(keep.path().join("seen")).unwrap(), "one\ntwo\n", "{}", told(&output));
    assert_eq!(fs::read_to_string(keep.path().join("eaten")).unwrap(), "");
}

#[test]
fn a_signal_ends_a_command_that_prepares() {
    let keep = tempfile::tempdir().unwrap();
    let slow = format!("echo began >began; {FOR_EVER}; echo A >state");
    let running = Leashed(live(keep.path(), [&slow, "echo B >state"], "1s").spawn().unwrap());
    wait_for(keep.path(), "began", "began");
    kill(Pid::from_raw(running.0.id() as i32), Signal::SIGTERM).unwrap();
    let (code, said) = end(running);
    assert_eq!(code, Some(130), "{said}");
    assert!(!keep.path().join("state").exists(), "nothing was changed, so nothing is restored");
}

#[test]
fn no_signal_ends_the_command_that_restores() {
    let _turn = measuring();
    let keep = tempfile::tempdir().unwrap();
    let first = "echo first >>state; sleep 1; echo restored >>state";
    let second = format!("echo second >>state; {FOR_EVER}");
    let running = Leashed(live(keep.path(), [first, &second], "1s").spawn().unwrap());
    let group = Pid::from_raw(running.0.id() as i32);
    wait_for(keep.path(), "state", "second");
    kill(group, Signal::SIGTERM).unwrap();
    wait_for(keep.path(), "state", "second\nfirst");
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        killpg(group, signal).unwrap();
    }
    let (code, said) = end(running);
    assert_eq!(code, Some(130), "{said}");
    let state = fs::read_to_string(keep.path().join("state")).unwrap();
    assert!(state.ends_with("second\nfirst\nrestored\n"), "{state}");
}

#[test]
fn the_runs_of_a_shell_that_is_killed_end_with_it() {
    let _turn = measuring();
    let keep = tempfile::tempdir().unwrap();
    // A shell that cannot become the run, because it has something to do afterwards.
    let running = Leashed(live(keep.path(), ["echo $$ >shell; {}; true", "{}"], LONG).spawn().unwrap());
    let log = keep.path().join("runs/round-01-base/log.jsonl");
    wait_until("a run begins", PATIENCE, || is_written(&log).then_some(()));
    let shell: i32 = fs::read_to_string(keep.path().join("shell")).unwrap().trim().parse().unwrap();
    kill(Pid::from_raw(shell), Signal::SIGKILL).unwrap();
    let (code, said) = end(running);
    assert_eq!(code, Some(2), "{said}");
    assert!(!is_written(&log), "the run goes on");
}

#[test]
fn a_run_ends_with_the_comparison_that_is_killed() {
    let _turn = measuring();
    let keep = tempfile::tempdir().unwrap();
    let mut running = Leashed(live(keep.path(), ["{}", "{}"], LONG).spawn().unwrap());
    let log = keep.path().join("runs/round-01-base/log.jsonl");
    wait_until("a run begins", PATIENCE, || {
        fs::read_to_string(&log).unwrap_or_default().contains("launch_end").then_some(())
    });
    running.0.kill().unwrap();
    running.0.wait().unwrap();
    wait_until("the run ends", PATIENCE, || (!is_written(&log)).then_some(()));
    assert!(fs::read_to_string(&log).unwrap().contains("\"record\":\"finish\""), "it ends in an orderly way");
}

#[test]
fn a_check_that_is_killed_leaves_nothing_after_the_next_one() {
    let _turn = measuring();
    let keep = tempfile::tempdir().unwrap();
    let check = |time: &str| {
        let mut command = sysdyno(&["check", "--time", time]);
        command.env("TMPDIR", keep.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let logs = || -> Vec<PathBuf> {
        let places = fs::read_dir(keep.path()).unwrap().flatten().map(|entry| entry.path().join("first/log.jsonl"));
        places.filter(|log| log.exists()).collect()
    };
    let mut killed = check("600s").spawn().unwrap();
    let log = wait_until("a run begins", PATIENCE, || logs().into_iter().find(|log| is_written(log)));
    killed.kill().unwrap();
    killed.wait().unwrap();
    wait_until("the run ends", PATIENCE, || (!is_written(&log)).then_some(()));
    let next = check("1s").output().unwrap();
    let left: Vec<_> = fs::read_dir(keep.path()).unwrap().flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}: {}", told(&next));
}

#[test]
fn runs_are_not_written_to_a_directory_of_another_user() {
    if !Uid::effective().is_root() {
        return;
    }
    let keep = tempfile::tempdir().unwrap();
    let (victim, runs) = (keep.path().join("victim"), keep.path().join("runs"));
    fs::write(&victim, "precious").unwrap();
    fs::create_dir(&runs).unwrap();
    for name in ["round-01-base.txt", "round-01-new.txt"] {
        symlink(&victim, runs.join(name)).unwrap();
    }
    chown(&runs, Some(54_321), None).unwrap();
    let output = live(keep.path(), ["echo evil; {}", "{}"], "1s").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(text(&output.stderr).contains("it belongs to user 54321"), "{}", told(&output));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(fs::read_dir(&runs).unwrap().count(), 2, "a refusal leaves nothing");
}

#[test]
fn a_full_directory_for_temporary_files_is_named() {
    let keep = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=64k none \"$PLACE\"; ! head -c 1M /dev/zero >\"$PLACE/full\"; \
                  TMPDIR=\"$PLACE\" exec \"$PROGRAM\" check --time 2s --scratch /";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--", "bash", "-euc", script]).env("PROGRAM", PROGRAM).env("PLACE", keep.path());
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = text(&output.stdout);
    assert!(said.starts_with("sysdyno: undecided, cannot write in "), "{}", told(&output));
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
}
