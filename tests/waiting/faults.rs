//! What happens when something goes wrong in the middle: the run is killed or interrupted, a launch dies or hangs, a run
//! goes on after all that. Nothing measured is lost, the log says what happened, and no process is left behind.
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::runs::{
    Leashed, copy_of_finished_run, edit_log, ended as finished, launches_in, lines, log_text, measuring, output,
    records, result, sysdyno, text, told, wait_until,
};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// Long enough for anything that a healthy run does, on a machine where everything else runs as well.
const PATIENCE: Duration = Duration::from_mins(1);

/// A run that goes on while the test interferes.
struct Going {
    child: Leashed,
    directory: TempDir,
}

impl Going {
    /// Starts `run` with more words; its own process group, as a shell would.
    fn start(words: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("run");
        let mut command = sysdyno(&[&["run", "-o", place.to_str().unwrap()], words].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).current_dir(directory.path());
        Going { child: Leashed(command.spawn().unwrap()), directory }
    }

    fn place(&self) -> std::path::PathBuf {
        self.directory.path().join("run")
    }

    fn process(&self) -> Pid {
        Pid::from_raw(self.child.0.id() as i32)
    }

    /// Text of the log so far.
    fn log(&self) -> String {
        log_text(&self.place())
    }

    /// Waits until so many rounds have ended.
    fn wait_for_rounds(&self, rounds: usize) {
        wait_until("rounds", PATIENCE, || {
            (self.log().matches("\"record\":\"round_end\"").count() >= rounds).then_some(())
        });
    }

    /// A launch of this run that is there right now.
    fn launch(&self) -> Option<Pid> {
        launches_in(self.directory.path())
            .into_iter()
            .find(|&number| parent(number) == Some(self.process().as_raw()))
            .map(Pid::from_raw)
    }

    /// Waits for the end; a run that hangs is killed and fails the test.
    fn end(mut self) -> (Output, TempDir) {
        wait_until("the run ends", PATIENCE, || self.child.0.try_wait().unwrap());
        let child = &mut self.child.0;
        let read = |stream: Option<&mut dyn std::io::Read>| {
            let mut bytes = Vec::new();
            stream.unwrap().read_to_end(&mut bytes).unwrap();
            bytes
        };
        let stdout = read(child.stdout.as_mut().map(|stream| stream as &mut dyn std::io::Read));
        let stderr = read(child.stderr.as_mut().map(|stream| stream as &mut dyn std::io::Read));
        (Output { status: child.wait().unwrap(), stdout, stderr }, self.directory)
    }
}

fn parent(process: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    status.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn assert_nothing_left(directory: &Path) {
    let started_in = directory.parent().unwrap();
    wait_until("launches end", Duration::from_secs(5), || launches_in(started_in).is_empty().then_some(()));
    for entry in fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let made = ["log.jsonl", "log.jsonl.gz", "metrics.csv", "node.json", "report.html"];
        assert!(made.contains(&name.as_str()), "{name} is left behind");
    }
}

/// The reasons of launches that failed.
fn failures(log: &[Value]) -> Vec<String> {
    records(log, "launch_end").iter().filter_map(|end| Some(end["failed"]["what"].as_str()?.to_owned())).collect()
}

fn resume(place: &Path) -> Output {
    output(&["run", "--resume", place.to_str().unwrap()])
}

#[test]
fn a_run_that_was_killed_is_reported_and_goes_on() {
    let _alone = measuring();
    let going = Going::start(&["cpu.loop", "cpu.procedure_call", "--quick", "--time=8s", "--seed", "3"]);
    going.wait_for_rounds(2);
    kill(going.process(), Signal::SIGKILL).unwrap();
    let (killed, directory) = going.end();
    assert_eq!(killed.status.signal(), Some(9), "{}", told(&killed));
    let place = directory.path().join("run");
    // Launches die with their conductor, even with one that had no time to say so.
    assert_nothing_left(&place);
    let report = output(&["report", place.to_str().unwrap()]);
    assert!(report.status.success(), "{}", told(&report));
    let page = text(&report.stdout);
    assert!(
        page.contains("loop iteration")
            && page.replace('\n', " ").contains("The run is not complete: its log has no last line"),
        "{page}"
    );
    assert!(page.contains("--resume"), "{page}");
    // The kill may have hit the middle of a line; make sure of it.
    let mut log = OpenOptions::new().append(true).open(place.join("log.jsonl")).unwrap();
    log.write_all(b"{\"record\":\"ser").unwrap();
    drop(log);
    let resumed = resume(&place);
    assert!(finished(&resumed), "{}", told(&resumed));
    assert!(text(&resumed.stderr).contains("that line is removed"), "{}", told(&resumed));
    assert!(text(&resumed.stdout).contains("The run was resumed 1 time"), "{}", told(&resumed));
    assert_nothing_left(&place);
    let log = lines(&place);
    let cut = records(&log, "resumed")[0];
    assert!(cut["cut_bytes"].as_u64().unwrap() >= 14 && cut["command"][2] == "--resume", "{cut}");
    let result = result(&place);
    assert_eq!((&result["run"]["complete"], &result["run"]["resumed"]), (&Value::from(true), &Value::from(1)));
    // Two rounds had ended at least, and the kill took one launch of one experiment.
    assert!(result["run"]["rounds"].as_u64().unwrap() > 2, "{}", result["run"]);
    for id in ["cpu.loop", "cpu.procedure_call"] {
        let begun = records(&log, "launch").iter().filter(|launch| launch["experiment"] == id).count();
        let ends = records(&log, "launch_end");
        let measured = ends.iter().filter(|end| end["experiment"] == id && end["failed"].is_null()).count();
        assert!(measured >= 3 && measured + 1 >= begun, "{id}: {measured} of {begun}");
    }
    assert_eq!(records(&log, "plan").len(), 1, "the plan holds");
    let predicted: Vec<String> =
        records(&log, "prediction").iter().map(|one| format!("{} {}", one["metric"], one["labels"])).collect();
    let mut once = predicted.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), predicted.len(), "nothing is predicted twice: it would be predicted after measuring");
}

fn assert_interrupted(signal: Signal, send: impl Fn(&Going)) {
    let _alone = measuring();
    let going = Going::start(&["cpu", "--quick", "--time=40s", "--no-progress"]);
    going.wait_for_rounds(2);
    let sent = Instant::now();
    send(&going);
    let (ended, directory) = going.end();
    assert_eq!(ended.status.code(), Some(130), "{signal}: {}", told(&ended));
    assert!(sent.elapsed() < Duration::from_secs(10), "{signal}: took {:?}", sent.elapsed());
    let place = directory.path().join("run");
    assert_nothing_left(&place);
    assert!(text(&ended.stderr).contains("--resume"), "{signal}: {}", told(&ended));
    let screen = text(&ended.stdout);
    assert!(
        screen.contains("The run is not complete: interrupted by"),
        "{signal}: the screen says it: {}",
        told(&ended)
    );
    let log = lines(&place);
    let last = log.last().unwrap();
    assert_eq!((&last["record"], &last["complete"]), (&Value::from("finish"), &Value::from(false)));
    assert_eq!(last["reason"], format!("interrupted by {signal}"));
    let interrupted = result(&place);
    assert_eq!(interrupted["run"]["complete"], false);
    for section in interrupted["experiments"].as_array().unwrap() {
        assert!(section["failed_launches"].as_array().unwrap().is_empty(), "an interrupt is no failure: {section}");
    }
    let rounds = interrupted["run"]["rounds"].as_u64().unwrap();
    assert!((2..6).contains(&rounds), "{rounds}");
    let resumed = resume(&place);
    assert!(finished(&resumed), "{signal}: {}", told(&resumed));
    assert_eq!(result(&place)["run"]["complete"], true);
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    assert_interrupted(Signal::SIGINT, |going| kill(going.process(), Signal::SIGINT).unwrap());
}

#[test]
fn a_request_to_end_keeps_what_was_measured() {
    assert_interrupted(Signal::SIGTERM, |going| kill(going.process(), Signal::SIGTERM).unwrap());
}

#[test]
fn an_interrupt_from_a_terminal_keeps_what_was_measured() {
    // A terminal signals the whole group; launches are in groups of their own and are ended by the conductor alone.
    assert_interrupted(Signal::SIGINT, |going| killpg(going.process(), Signal::SIGINT).unwrap());
}

#[test]
fn an_interrupt_at_any_moment_leaves_a_log_that_can_be_read() {
    let _alone = measuring();
    for milliseconds in [0, 30, 90, 180, 270, 400, 600] {
        let going = Going::start(&["cpu.loop", "--quick", "--time=3s"]);
        let log = going.place().join("log.jsonl");
        wait_until("a log", PATIENCE, || log.exists().then_some(()));
        std::thread::sleep(Duration::from_millis(milliseconds));
        let _ = kill(going.process(), Signal::SIGINT);
        let (ended, directory) = going.end();
        let place = directory.path().join("run");
        assert!([Some(0), Some(130)].contains(&ended.status.code()), "{milliseconds} ms: {}", told(&ended));
        assert_nothing_left(&place);
        assert_eq!(lines(&place).last().unwrap()["record"], "finish", "{milliseconds} ms");
        let report = output(&["report", place.to_str().unwrap()]);
        assert!(report.status.success(), "{milliseconds} ms: {}", told(&report));
        let resumed = resume(&place);
        assert!(finished(&resumed), "{milliseconds} ms: {}", told(&resumed));
    }
}

#[test]
fn a_launch_that_is_killed_fails_and_the_run_goes_on() {
    let _alone = measuring();
    let going = Going::start(&["cpu.procedure_call", "--quick", "--time=10s"]);
    going.wait_for_rounds(1);
    wait_until("a launch to kill", PATIENCE, || {
        if let Some(launch) = going.launch() {
            let _ = kill(launch, Signal::SIGKILL);
        }
        // A launch may end before its signal comes.
        going.log().contains("SIGKILL").then_some(())
    });
    let (ended, directory) = going.end();
    assert_eq!(ended.status.code(), Some(0), "{}", told(&ended));
    let place = directory.path().join("run");
    assert_nothing_left(&place);
    let failures = failures(&lines(&place));
    assert!(failures.iter().all(|reason| reason == "the launch was killed by SIGKILL"), "{failures:?}");
    let section = &result(&place)["experiments"][0];
    assert_eq!(section["outcome"], "measured", "{section}");
}

#[test]
fn a_launch_that_hangs_is_killed_in_its_time_and_the_run_goes_on() {
    let _alone = measuring();
    let going = Going::start(&["cpu.procedure_call", "--quick", "--time=30s"]);
    going.wait_for_rounds(1);
    let stopped = wait_until("a launch to stop", PATIENCE, || {
        let launch = going.launch()?;
        kill(launch, Signal::SIGSTOP).ok()?;
        // Stopped, not dead already: a stopped process stays.
        std::thread::sleep(Duration::from_millis(100));
        let state = fs::read_to_string(format!("/proc/{launch}/stat")).ok()?;
        state.rsplit_once(')')?.1.trim_start().starts_with('T').then_some(launch)
    });
    let (ended, directory) = going.end();
    assert_eq!(ended.status.code(), Some(0), "{}", told(&ended));
    assert!(!Path::new(&format!("/proc/{stopped}")).exists(), "the stopped launch is still there");
    let place = directory.path().join("run");
    assert_nothing_left(&place);
    let log = lines(&place);
    let hung: Vec<&Value> = records(&log, "launch_end").into_iter().filter(|end| !end["failed"].is_null()).collect();
    assert_eq!(hung.len(), 1, "{hung:?}");
    assert!(hung[0]["failed"]["what"].as_str().unwrap().contains("exceeded its time limit"), "{}", hung[0]);
    assert!(hung[0]["failed"]["hint"].is_string(), "{}", hung[0]);
    let seconds = hung[0]["seconds"].as_f64().unwrap();
    assert!((9.9..20.0).contains(&seconds), "killed after {seconds} s");
    let ends = records(&log, "launch_end");
    let measured = ends.iter().filter(|end| end["experiment"] == "cpu.procedure_call" && end["failed"].is_null());
    assert!(measured.count() >= 5, "the run went on");
}

#[test]
fn an_experiment_whose_launches_all_die_is_given_up_and_fails() {
    let _alone = measuring();
    let mut going = Going::start(&["cpu.procedure_call", "--rigorous"]);
    wait_until("the run gives up", PATIENCE, || {
        if let Some(launch) = going.launch() {
            let _ = kill(launch, Signal::SIGKILL);
        }
        going.child.0.try_wait().unwrap()
    });
    let (ended, directory) = going.end();
    assert_eq!(ended.status.code(), Some(1), "{}", told(&ended));
    assert!(text(&ended.stderr).contains("3 launches failed in a row"), "{}", told(&ended));
    let place = directory.path().join("run");
    assert_nothing_left(&place);
    let section = &result(&place)["experiments"][0];
    assert_eq!(section["outcome"], "failed");
    assert!(section["reason"].as_str().unwrap().contains("SIGKILL"), "{section}");
    let report = output(&["report", place.to_str().unwrap()]);
    assert!(text(&report.stdout).contains("(cpu.procedure_call) failed: "), "{}", told(&report));
}

fn assert_not_resumed(change: impl Fn(&mut Value), words: &str) {
    let copy = copy_of_finished_run();
    edit_log(copy.path(), change);
    let before = fs::read(copy.path().join("log.jsonl")).unwrap();
    let output = resume(copy.path());
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    let complaint = text(&output.stderr);
    assert!(complaint.contains(words) && complaint.contains("hint: "), "{words}: {complaint}");
    assert_eq!(fs::read(copy.path().join("log.jsonl")).unwrap(), before, "a refused log is not touched");
}

#[test]
fn a_complete_run_has_nothing_to_go_on_with() {
    let copy = copy_of_finished_run();
    let before = fs::read(copy.path().join("log.jsonl")).unwrap();
    let output = resume(copy.path());
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(text(&output.stderr).contains("is complete"), "{}", told(&output));
    assert_eq!(fs::read(copy.path().join("log.jsonl")).unwrap(), before, "its log is not touched");
}

#[test]
fn a_run_does_not_go_on_where_it_cannot() {
    assert_not_resumed(
        |line| {
            if line["record"] == "machine" {
                line["machine"]["fingerprint"] = "0000000000000000".into();
            }
        },
        "another machine",
    );
    assert_not_resumed(
        |line| {
            if line["record"] == "plan" {
                line["steps"][0]["method_version"] = 99.into();
            }
        },
        "method version 99",
    );
    assert_not_resumed(
        |line| {
            if line["record"] == "plan" {
                line["steps"][0]["experiment"] = "cpu.nonsense".into();
            }
        },
        "cpu.nonsense",
    );
    assert_not_resumed(
        |line| {
            if line["record"] == "run" {
                line["cpu"] = 4095.into();
            }
        },
        "CPU 4095",
    );
}

#[test]
fn a_finished_run_may_go_on_and_stays_finished() {
    let copy = copy_of_finished_run();
    let _alone = measuring();
    let before = fs::read(copy.path().join("log.jsonl")).unwrap();
    let resumed = resume(copy.path());
    assert!(resumed.status.success(), "{}", told(&resumed));
    let after = fs::read(copy.path().join("log.jsonl")).unwrap();
    assert!(after.starts_with(&before), "a log is only ever added to");
    assert_eq!(result(copy.path())["run"]["complete"], true);
}
