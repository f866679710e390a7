//! Runs that are kept for later ones, in a state directory of each test's own: what is stored, for whom, and that nothing that
//! stands there already ends a run or is followed elsewhere.
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::runs::{finished_run, lines, measuring, metrics, output, records, result, sysdyno, text, told};
use serde_json::{Value, json};

/// A quick run with a state directory, the words behind it, and what it said of the history.
fn run(state: &Path, place: &Path, words: &[&str]) -> (Output, Vec<String>) {
    let mut command = sysdyno(&["run", "cpu.loop", "--quick", "--time=1s", "--seed", "11", "--no-progress", "-o"]);
    command.arg(place).args(words).env("XDG_STATE_HOME", state);
    // Beside a build, runs take the quieter CPU, and runs of different CPUs do not repeat each other.
    let cpu = result(finished_run())["run"]["cpu"].to_string();
    let output = command.args(["--cpu", &cpu]).output().unwrap();
    assert!(output.status.code().is_some_and(|code| code < 2), "{}", told(&output));
    let said = text(&output.stderr).lines().filter(|line| line.contains("history")).map(str::to_owned).collect();
    (output, said)
}

fn compact(run: &Path) -> Value {
    serde_json::from_slice(&fs::read(run.join("node.json")).unwrap()).unwrap()
}

/// Where runs of this machine are kept; none where it has no identifier. To be asked before a test measures: the finished run that
/// tells it may have to be made.
fn folder(state: &Path) -> Option<PathBuf> {
    let machine = compact(finished_run())["node"]["machine"].as_str()?.to_owned();
    assert!(machine.len() == 16, "{machine}");
    Some(state.join("sysdyno/runs").join(machine))
}

/// Names of the runs that are kept; none where no run had a figure.
fn names(folder: &Path) -> Vec<String> {
    let Ok(kept) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> = kept.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Puts earlier runs into the history: the finished one with all of its figures multiplied.
fn earlier(folder: &Path, factors: &[f64]) {
    fs::create_dir_all(folder).unwrap();
    for (number, factor) in factors.iter().enumerate() {
        let mut run = compact(finished_run());
        for metric in run["experiments"][0]["metrics"].as_array_mut().unwrap() {
            for figure in metric["figures"].as_array_mut().unwrap() {
                let value = figure["value"].as_f64().unwrap() * factor;
                figure["value"] = value.into();
                figure["interval"] = json!([value, value]);
                figure["trust"] = "clean".into();
                if let Some(cycles) = figure["cycles"].as_f64() {
                    figure["cycles"] = (cycles * factor).into();
                }
            }
        }
        let name = format!("20260101T00000{number}Z-{number:016x}.json");
        fs::write(folder.join(name), run.to_string()).unwrap();
    }
}

#[test]
fn a_complete_run_is_kept_for_this_user_alone_and_printed_again_to_the_byte() {
    let keep = tempfile::tempdir().unwrap();
    let (state, place) = (keep.path().join("new/state"), keep.path().join("run"));
    let Some(folder) = folder(&state) else { return };
    let _alone = measuring();
    let (_, said) = run(&state, &place, &[]);
    assert!(said.is_empty(), "{said:?}");
    let kept = names(&folder);
    assert_eq!(kept.len(), usize::from(!metrics(&result(&place)).is_empty()), "{kept:?}");
    let written = fs::read(place.join("node.json")).unwrap();
    for name in &kept {
        assert_eq!(fs::read(folder.join(name)).unwrap(), written);
        let mode = |place: &Path| fs::metadata(place).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder.join(name)), 0o600);
        for place in folder.ancestors().take(5) {
            assert_eq!(mode(place), 0o700, "{}", place.display());
        }
    }
    let log = lines(&place);
    assert_eq!(records(&log, "history"), [&json!({"record": "history", "runs": 0, "figures": []})]);
    let report = output(&["report", place.to_str().unwrap(), "--format", "compact"]);
    assert!(report.stdout == written, "{}", told(&report));
}

#[test]
fn without_history_nothing_is_read_and_nothing_written() {
    let keep = tempfile::tempdir().unwrap();
    let (state, place) = (keep.path().join("state"), keep.path().join("run"));
    let _alone = measuring();
    let (_, said) = run(&state, &place, &["--no-history"]);
    assert!(said.is_empty() && !state.exists(), "{said:?}");
    assert!(records(&lines(&place), "history").is_empty());
    assert!(place.join("node.json").exists());
}

#[test]
fn five_earlier_runs_say_how_far_their_figures_scatter() {
    let keep = tempfile::tempdir().unwrap();
    let (state, place) = (keep.path().join("state"), keep.path().join("run"));
    let Some(folder) = folder(&state) else { return };
    earlier(&folder, &[0.98, 0.99, 1.0, 1.01, 1.02]);
    let _alone = measuring();
    let (_, said) = run(&state, &place, &["--keep", "all"]);
    assert!(said.is_empty(), "{said:?}");
    let log = lines(&place);
    let records = records(&log, "history");
    assert_eq!((records.len(), &records[0]["runs"]), (1, &json!(5)));
    let figures = records[0]["figures"].as_array().unwrap();
    assert_eq!(figures.len(), metrics(&result(finished_run())).len());
    for figure in figures {
        // Deviations of 0, 1, 1, 2 and 2 %: 80 % of the runs are within 2 %.
        let expected = 0.02 / 1.281_55 * 1.2;
        assert_eq!(figure["runs"], 5);
        assert!((figure["relative"].as_f64().unwrap() - expected).abs() < 1e-5, "{figure}");
    }
    // The record is enough: the history may go, the result stays.
    fs::remove_dir_all(&state).unwrap();
    let report = output(&["report", place.to_str().unwrap(), "--format", "json"]);
    assert!(report.stdout == fs::read(place.join("result.json")).unwrap(), "{}", told(&report));
    for metric in metrics(&result(&place)) {
        let known = figures.iter().any(|figure| figure["labels"] == metric["labels"]);
        assert_eq!(metric["between_runs"]["runs"] == 5, known, "{metric}");
    }
}

#[test]
fn runs_that_asked_another_question_do_not_count() {
    let keep = tempfile::tempdir().unwrap();
    let (state, place) = (keep.path().join("state"), keep.path().join("run"));
    let Some(folder) = folder(&state) else { return };
    earlier(&folder, &[1.0; 6]);
    let change = |number: usize, pointer: &str, to: Value| {
        let place = folder.join(&names(&folder)[number]);
        let mut run: Value = serde_json::from_slice(&fs::read(&place).unwrap()).unwrap();
        *run.pointer_mut(pointer).unwrap() = to;
        fs::write(place, run.to_string()).unwrap();
    };
    change(0, "/run/profile", "default".into());
    change(1, "/node/machine", "0123456789abcdef".into());
    change(2, "/node/fingerprint", "0123456789abcdef".into());
    change(3, "/run/cpu", 4095.into());
    change(4, "/experiments/0/method_version", 4095.into());
    let _alone = measuring();
    let (_, said) = run(&state, &place, &[]);
    assert!(said.is_empty(), "{said:?}");
    let log = lines(&place);
    // The one with another method is a run, but its figures are others.
    assert_eq!(records(&log, "history"), [&json!({"record": "history", "runs": 2, "figures": []})]);
}

#[test]
fn what_is_no_run_is_left_aside_in_one_line() {
    let keep = tempfile::tempdir().unwrap();
    let (state, place) = (keep.path().join("state"), keep.path().join("run"));
    let Some(folder) = folder(&state) else { return };
    earlier(&folder, &[1.0; 5]);
    let there = names(&folder);
    let (good, wrong) = (folder.join(&there[0]), |number: usize| folder.join(&there[number]));
    let other_format = fs::read_to_string(&good).unwrap().replace("sysdyno-node/1", "sysdyno-node/99");
    for number in 1..5 {
        fs::remove_file(wrong(number)).unwrap();
    }
    nix::unistd::mkfifo(&wrong(1), nix::sys::stat::Mode::S_IRWXU).unwrap();
    symlink(&good, wrong(2)).unwrap();
    fs::write(wrong(3), "{\"format\":[[[[").unwrap();
    fs::write(wrong(4), other_format).unwrap();
    fs::create_dir(folder.join("20260101T000009Z-0123456789abcdef.json")).unwrap();
    fs::write(folder.join("20260101T000008Z-0123456789abcdef.json"), vec![b' '; 2 << 20]).unwrap();
    fs::write(folder.join("notes of mine"), "kept").unwrap();
    let _alone = measuring();
    let (_, said) = run(&state, &place, &[]);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("warning: ") && said[0].contains(": 6 not readable as runs"), "{said:?}");
    assert_eq!(records(&lines(&place), "history")[0]["runs"], 1);
    assert_eq!(fs::read_to_string(folder.join("notes of mine")).unwrap(), "kept");
}

#[test]
fn a_state_directory_that_leads_elsewhere_is_not_used() {
    let machine = folder(Path::new(""));
    let _alone = measuring();
    for hostile in ["link", "file", "fifo"] {
        if machine.is_none() {
            return;
        }
        let keep = tempfile::tempdir().unwrap();
        let (state, place) = (keep.path().join("state"), keep.path().join("run"));
        let elsewhere = keep.path().join("elsewhere");
        fs::create_dir_all(state.join("sysdyno")).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        let runs = state.join("sysdyno/runs");
        match hostile {
            "link" => symlink(&elsewhere, &runs).unwrap(),
            "file" => fs::write(&runs, "").unwrap(),
            _ => nix::unistd::mkfifo(&runs, nix::sys::stat::Mode::S_IRWXU).unwrap(),
        }
        let (_, said) = run(&state, &place, &[]);
        assert_eq!(said.len(), 1, "{hostile}: {said:?}");
        assert!(said[0].starts_with("warning: the history ") && said[0].contains("is not used"), "{said:?}");
        assert!(names(&elsewhere).is_empty(), "{hostile}");
        assert_eq!(lines(&place).last().unwrap()["complete"], true);
    }
}

#[test]
fn a_history_that_cannot_be_written_is_one_line() {
    let keep = tempfile::tempdir().unwrap();
    let place = keep.path().join("run");
    let machine = folder(keep.path());
    let _alone = measuring();
    // A home of this user that has no room for files: nothing can be made in /proc/self.
    let (_, said) = run(Path::new("/proc/self/fdinfo/state"), &place, &[]);
    if machine.is_some() && !metrics(&result(&place)).is_empty() {
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("is not added to the history"), "{said:?}");
    }
}
