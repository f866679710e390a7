//! Who may write a run: one process at a time, on the machine that began it; and what is written when a run is complete but its
//! results are not.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use crate::support::runs::{
    Leashed, copy_of_finished_run, edit_log, finished_run, lines, log_text, measuring, output, records, refused,
    result, sysdyno, text, told, wait_until,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use sysdyno::testing::sys::process;
use tempfile::TempDir;

fn resume(place: &Path) -> Output {
    output(&["run", "--resume", place.to_str().unwrap()])
}

/// A run with launches in its log.
fn going() -> (Leashed, TempDir, PathBuf) {
    let keep = tempfile::tempdir().unwrap();
    let place = keep.path().join("run");
    let mut command = sysdyno(&["run", "cpu", "--quick", "--time=3s", "--no-progress", "-o", place.to_str().unwrap()]);
    let run = Leashed(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_until("a launch ends", Duration::from_secs(30), || log_text(&place).contains("launch_end").then_some(()));
    (run, keep, place)
}

#[test]
fn a_run_that_still_goes_is_not_written_by_another() {
    let _alone = measuring();
    let (mut run, _keep, place) = going();
    let number = run.0.id().to_string();
    let before = log_text(&place);
    for _ in 0..3 {
        for words in [["run", "--resume"], ["run", "-o"]] {
            let complaint = refused(&output(&[words[0], words[1], place.to_str().unwrap()]));
            assert!(complaint.contains("is still in progress"), "{complaint}");
            assert!(
                complaint.contains(&format!("process {number} ")),
                "the kernel shows who holds a lock: {complaint}"
            );
        }
    }
    let status = wait_until("the run ends", Duration::from_mins(1), || run.0.try_wait().unwrap());
    assert!(status.code().is_some_and(|code| code < 2), "{status}");
    assert!(log_text(&place).starts_with(&before));
    let log = lines(&place);
    assert_eq!(records(&log, "run").len(), 1);
    assert!(records(&log, "resumed").is_empty());
    assert_eq!(log.last().unwrap()["complete"], true);
}

#[test]
fn a_run_that_was_killed_is_free_at_once_and_two_do_not_go_on_with_it() {
    let _alone = measuring();
    let (mut run, _keep, place) = going();
    kill(Pid::from_raw(run.0.id() as i32), Signal::SIGKILL).unwrap();
    run.0.wait().unwrap();
    let start = || {
        let mut command = sysdyno(&["run", "--no-progress", "--resume", place.to_str().unwrap()]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let ends: Vec<Output> = [start(), start()].map(|run| run.wait_with_output().unwrap()).into();
    let (went_on, turned_away): (Vec<&Output>, Vec<&Output>) =
        ends.iter().partition(|end| end.status.code() != Some(2));
    assert_eq!((went_on.len(), turned_away.len()), (1, 1), "{}\n{}", told(&ends[0]), told(&ends[1]));
    assert!(refused(turned_away[0]).contains("is still in progress"));
    let log = lines(&place);
    assert_eq!(records(&log, "resumed").len(), 1);
    let mut numbers: Vec<u64> =
        records(&log, "launch").iter().map(|launch| launch["launch"].as_u64().unwrap()).collect();
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), count, "no number twice");
}

#[test]
fn results_that_are_missing_are_written_when_the_run_is_gone_on_with() {
    let copy = copy_of_finished_run();
    let place = copy.path();
    let log = fs::read(place.join("log.jsonl")).unwrap();
    let names = ["result.json", "node.json", "metrics.csv", "report.html", "appendix.html", "published.html"];
    let figure = fs::read_dir(finished_run().join("figures")).unwrap().next().map(|entry| entry.unwrap().file_name());
    let figure = figure.map(|name| Path::new("figures").join(name));
    let mut damages: Vec<Box<dyn Fn()>> = vec![Box::new(|| fs::remove_file(place.join("result.json")).unwrap())];
    damages.push(Box::new(|| {
        // As a machine that loses its power leaves a file.
        fs::write(place.join("result.json"), &fs::read(place.join("result.json")).unwrap()[..1000]).unwrap();
    }));
    damages.push(Box::new(|| fs::write(place.join("report.html"), "").unwrap()));
    damages.push(Box::new(|| fs::write(place.join("appendix.html"), "<html>").unwrap()));
    // What would be read for ever.
    damages.push(Box::new(|| {
        fs::remove_file(place.join("result.json")).unwrap();
        nix::unistd::mkfifo(&place.join("result.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    }));
    damages.push(Box::new(|| {
        fs::remove_file(place.join("metrics.csv")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", place.join("metrics.csv")).unwrap();
    }));
    if let Some(figure) = &figure {
        damages.push(Box::new(move || fs::remove_file(place.join(figure)).unwrap()));
    }
    for damage in damages {
        damage();
        let output = output(&["run", "--keep", "all", "--resume", place.to_str().unwrap()]);
        assert!(output.status.success(), "{}", told(&output));
        assert!(text(&output.stderr).contains("Writing them now"), "{}", told(&output));
        for name in names.map(PathBuf::from).iter().chain(&figure) {
            let found = fs::read(place.join(name)).unwrap();
            assert!(found == fs::read(finished_run().join(name)).unwrap(), "{} is as it should be", name.display());
        }
        let again = resume(place);
        assert!(again.status.success() && text(&again.stderr).contains("no launch is left to do"), "{}", told(&again));
    }
    assert_eq!(fs::read(place.join("log.jsonl")).unwrap(), log, "nothing is measured again");
}

/// A copy of the finished run without its end, and with another first line.
fn begun(change: impl Fn(&mut Value)) -> TempDir {
    let copy = copy_of_finished_run();
    edit_log(copy.path(), |line| {
        if line["record"] == "run" {
            change(line);
        }
    });
    let log = copy.path().join("log.jsonl");
    let kept: Vec<String> = fs::read_to_string(&log)
        .unwrap()
        .lines()
        .filter(|line| !line.contains("\"record\":\"finish\""))
        .map(|line| line.to_owned() + "\n")
        .collect();
    fs::write(log, kept.concat()).unwrap();
    copy
}

#[test]
fn a_run_says_where_it_was_begun_and_not_the_identifier_of_the_machine() {
    let log = lines(finished_run());
    assert_eq!(log[0]["identity"]["node"], process::host_name());
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert_eq!(log[0]["identity"]["boot"], boot.trim());
    for path in ["/etc/machine-id", "/sys/class/dmi/id/product_uuid"] {
        let identifier = fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let text = fs::read_to_string(finished_run().join("log.jsonl")).unwrap();
        assert!(identifier.len() < 32 || !text.contains(&identifier), "{path} is confidential");
    }
}

#[test]
fn another_machine_of_the_same_model_is_refused() {
    for (change, words) in [
        // Installed from one image: only name and boot differ.
        (
            &(|line: &mut Value| {
                line["identity"]["node"] = "n3".into();
                line["identity"]["boot"] = "another".into();
            }) as &dyn Fn(&mut Value),
            "another machine of the same model: on n3",
        ),
        (&|line: &mut Value| line["identity"] = serde_json::json!({"node": "n3"}), "on n3"),
    ] {
        let copy = begun(change);
        let before = fs::read(copy.path().join("log.jsonl")).unwrap();
        let complaint = refused(&resume(copy.path()));
        assert!(complaint.contains(words) && complaint.contains("tart a new run"), "{complaint}");
        assert_eq!(fs::read(copy.path().join("log.jsonl")).unwrap(), before, "a refusal changes nothing");
    }
}

#[test]
fn the_same_model_with_another_identifier_is_refused() {
    let copy = begun(|line| line["identity"]["machine"] = "0123456789abcdef0123456789abcdef".into());
    if lines(finished_run())[0]["identity"]["machine"].is_null() {
        return;
    }
    assert!(refused(&resume(copy.path())).contains("another machine of that name"));
}

#[test]
fn another_kernel_is_refused_and_a_restart_is_remarked() {
    let copy = begun(|_| {});
    edit_log(copy.path(), |line| {
        if line["record"] == "machine" {
            line["machine"]["kernel"]["release"]["value"] = "5.0.0".into();
        }
    });
    let complaint = refused(&resume(copy.path()));
    assert!(complaint.contains("begun with the kernel 5.0.0"), "{complaint}");
    let copy = begun(|line| line["identity"]["boot"] = "before".into());
    let _alone = measuring();
    let output = resume(copy.path());
    assert!(output.status.code().is_some_and(|code| code < 2), "{}", told(&output));
    assert!(text(&output.stderr).contains("warning: this machine was restarted"), "{}", told(&output));
    assert_eq!(result(copy.path())["run"]["resumed"], 1);
}

#[test]
fn a_log_without_an_identity_goes_on_as_before() {
    let copy = begun(|line| {
        line.as_object_mut().unwrap().remove("identity");
    });
    let _alone = measuring();
    let output = resume(copy.path());
    assert!(output.status.code().is_some_and(|code| code < 2), "{}", told(&output));
    assert!(!text(&output.stderr).contains("restarted"), "{}", told(&output));
}
