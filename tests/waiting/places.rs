//! Bad places: a full disk, a read-only one, one CPU, half a CPU, a neighbour on the measured CPU, no privileges, tight
//! limits, no /proc. In each the program says clearly what is wrong, ends with the right code, and loses nothing.
//!
//! File systems are mounted in private namespaces that end with their process; control groups are made for the test and
//! removed. Where a place cannot be made the test fails and says why: a place that is not tried is not known.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::support::places::{Group, for_anybody, nobody};
use crate::support::runs::{
    Leashed, PROGRAM, accounted, copy_of_finished_run, ended, lines, measuring, metrics, processes_in, records, result,
    state, text, told, unspoilt, wait_until,
};
use crate::support::truth::{self, Judgement};
use nix::unistd::Uid;
use serde_json::Value;
use sysdyno::testing::sys::affinity;
use tempfile::TempDir;

/// A quick run that ends in a second or two where nothing is wrong.
const QUICK: &str = "run cpu.loop --quick --no-progress";

/// Runs a shell script in the place's directory with the program as `$PROGRAM`, in namespaces of its own where a file
/// system is to be mounted.
fn script(directory: &Path, namespaces: bool, script: &str) -> Output {
    let mut command = if namespaces {
        let mut unshare = Command::new("unshare");
        // Without privileges a user namespace gives the right to mount inside it.
        unshare.args(if Uid::effective().is_root() {
            &["--mount", "--"][..]
        } else {
            &["--mount", "--map-root-user", "--"]
        });
        unshare.arg("bash");
        unshare
    } else {
        Command::new("bash")
    };
    command
        .args(["-euc", script])
        .env("PROGRAM", PROGRAM)
        .env("XDG_STATE_HOME", state())
        .current_dir(directory)
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(!text(&output.stderr).contains("unshare:"), "namespaces are needed here: {}", told(&output));
    assert!(!text(&output.stderr).contains("mount:"), "the right to mount is needed here: {}", told(&output));
    output
}

/// Runs the program behind another one that changes its place, such as `taskset -c 0`.
fn behind(words: &[&str], place: &Path) -> Output {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(PROGRAM).args(QUICK.split(' ')).arg("-o").arg(place);
    command.env("XDG_STATE_HOME", state()).stdin(Stdio::null()).current_dir(place.parent().unwrap());
    command.output().unwrap_or_else(|error| panic!("{} is needed here: {error}", words[0]))
}

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("run");
    (directory, place)
}

fn check<'a>(result: &'a Value, name: &str) -> &'a Value {
    result["quiet"].as_array().unwrap().iter().find(|check| check["check"] == name).unwrap()
}

/// Reasons of failed launches.
fn failures(place: &Path) -> Vec<String> {
    let log = lines(place);
    let ends = records(&log, "launch_end");
    ends.iter().filter_map(|end| Some(end["failed"]["what"].as_str()?.to_owned())).collect()
}

fn assert_no_panic(output: &Output) {
    assert!(!text(&output.stderr).contains("panicked"), "{}", told(output));
    assert!(output.status.code().is_some(), "a signal ended it: {}", told(output));
}

#[test]
fn a_disk_that_fills_up_ends_the_run_and_keeps_the_log() {
    let (keep, _) = place();
    let _alone = measuring();
    let output = script(
        keep.path(),
        true,
        "mkdir small; mount -t tmpfs -o size=200k none small; code=0
         $PROGRAM run cpu.procedure_call --quick --no-progress -o small/run || code=$?
         $PROGRAM report small/run --format json > report.json; ls -A small/run > names; cp small/run/log.jsonl . ; exit $code",
    );
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let complaint = text(&output.stderr);
    assert!(complaint.contains("cannot write the log: No space left on device"), "{complaint}");
    assert!(complaint.contains("hint: ") && complaint.contains("the log keeps what was measured"), "{complaint}");
    // Every line that is there is whole.
    assert!(records(&lines(keep.path()), "series").len() > 10);
    assert_eq!(fs::read_to_string(keep.path().join("names")).unwrap(), "log.jsonl\n");
    let report: Value = serde_json::from_slice(&fs::read(keep.path().join("report.json")).unwrap()).unwrap();
    assert_eq!(report["run"]["complete"], false);
}

#[test]
fn a_result_that_cannot_be_written_leaves_the_log_and_says_so() {
    let (_keep, place) = place();
    fs::create_dir_all(place.join("report.html/in the way")).unwrap();
    let _alone = measuring();
    let output = behind(&["env"], &place);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(text(&output.stderr).contains("the log is complete"), "{}", told(&output));
    assert_eq!(lines(&place).last().unwrap()["complete"], true);
    assert!(!place.join(".report.html.partial").exists());
}

#[test]
fn a_log_that_cannot_be_compressed_stays() {
    let copy = copy_of_finished_run();
    fs::remove_file(copy.path().join("result.json")).unwrap();
    // Words that compression cannot shorten much.
    let mut random = fastrand::Rng::with_seed(11);
    let words: String = (0..2_000_000).map(|_| random.alphanumeric()).collect();
    let log = copy.path().join("log.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    let (start, end) = text.trim_end().rsplit_once('\n').unwrap();
    let line = format!(r#"{{"record":"resumed","at":"2026-01-31T12:00:00Z","command":["{words}"],"cut_bytes":0}}"#);
    fs::write(&log, format!("{start}\n{line}\n{end}\n")).unwrap();
    let output = script(
        copy.path(),
        true,
        "mkdir small; mount -t tmpfs -o size=3m none small; mkdir small/run; cp log.jsonl small/run; code=0
         $PROGRAM run --resume small/run 2> said || code=$?
         ls -A small/run > full; cmp log.jsonl small/run/log.jsonl
         $PROGRAM report small/run --format json > before
         mount -o remount,size=9m small; $PROGRAM run --resume small/run
         ls -A small/run > free; zcat small/run/log.jsonl.gz | cmp log.jsonl
         $PROGRAM report small/run --format json | cmp before; exit $code",
    );
    let [said, full, free] = ["said", "full", "free"].map(|name| fs::read_to_string(copy.path().join(name)).unwrap());
    assert_eq!(output.status.code(), Some(1), "{}\n{said}", told(&output));
    assert!(said.contains("cannot compress the log small/run/log.jsonl: No space left on device"), "{said}");
    assert!(said.contains("hint: log.jsonl is complete and stays. Free space"), "{said}");
    assert_eq!(full, "log.jsonl\nmetrics.csv\nnode.json\nreport.html\n");
    assert_eq!(free, "log.jsonl.gz\nmetrics.csv\nnode.json\nreport.html\n");
}

#[test]
fn a_read_only_place_is_refused_and_its_run_is_reported() {
    let copy = copy_of_finished_run();
    // A run that is complete would have nothing to write: take its last line away.
    let log = copy.path().join("log.jsonl");
    let unfinished: Vec<String> = std::fs::read_to_string(&log)
        .unwrap()
        .lines()
        .filter(|line| !line.contains("\"finish\""))
        .map(str::to_owned)
        .collect();
    std::fs::write(&log, unfinished.join("\n") + "\n").unwrap();
    let _alone = measuring();
    let read_only = |words: &str| {
        script(
            copy.path(),
            true,
            &format!("mount --bind . .; mount -o remount,bind,ro . ; cd \"$PWD\"; $PROGRAM {words}"),
        )
    };
    let refused = read_only(&format!("{QUICK} -o new"));
    assert_eq!(refused.status.code(), Some(2), "{}", told(&refused));
    let complaint = text(&refused.stderr);
    assert!(complaint.contains("Read-only file system") && complaint.contains("\nhint: "), "{complaint}");
    let default = read_only(QUICK);
    assert_eq!(default.status.code(), Some(2), "{}", told(&default));
    let resumed = read_only("run --resume .");
    assert!([Some(1), Some(2)].contains(&resumed.status.code()), "{}", told(&resumed));
    assert!(text(&resumed.stderr).contains("must be writable to resume"), "{}", told(&resumed));
    let report = read_only("report .");
    assert!(report.status.success() && text(&report.stdout).contains("cpu.loop.overhead"), "{}", told(&report));
}

#[test]
fn one_cpu_is_enough() {
    let cpu = affinity::allowed()[0].to_string();
    let keep = tempfile::tempdir().unwrap();
    let _alone = measuring();
    let (output, place) = unspoilt(keep.path(), |place| behind(&["taskset", "-c", &cpu], place));
    assert!(ended(&output), "{}", told(&output));
    let result = result(&place);
    assert_eq!(result["run"]["cpu"].to_string(), cpu);
    assert_eq!(accounted(&result), 3);
    if affinity::allowed().len() > 1 {
        assert_eq!(check(&result, "affinity")["ok"], false, "a mask narrower than the machine is named");
        let other = affinity::allowed()[1].to_string();
        let refused = Command::new("taskset").args(["-c", &cpu, PROGRAM, "run", "--cpu", &other, "--dry-run"]).output();
        let refused = refused.unwrap();
        assert_eq!(refused.status.code(), Some(2), "{}", told(&refused));
        assert!(text(&refused.stderr).contains(&format!("allowed here: {cpu}\n")), "{}", told(&refused));
    }
}

/// Core cycles of a turn of each loop, whether the tool trusts them or not, without those that the gates refused.
fn loops(result: &Value) -> Vec<(&Value, f64)> {
    metrics(result).into_iter().filter_map(|metric| Some((&metric["labels"], metric["cycles"].as_f64()?))).collect()
}

#[test]
fn half_a_cpu_is_named_and_does_not_hang() {
    let Some(group) = Group::of_half_a_cpu() else { return };
    let _alone = measuring();
    let compare = || -> Result<(), Judgement> {
        let (keep, place) = place();
        let whole = behind(&["env"], &keep.path().join("whole"));
        assert!(ended(&whole), "{}", told(&whole));
        let words = format!("echo $$ > {}/cgroup.procs; exec $PROGRAM {QUICK} -o run", group.place.display());
        let output = script(keep.path(), false, &words);
        // Throttling may leave too little that is clean. Then the figures are withheld with that reason.
        assert!([Some(0), Some(1)].contains(&output.status.code()), "{}", told(&output));
        let half = result(&place);
        let quota = check(&half, "quota");
        assert_eq!((&quota["ok"], &quota["known"]), (&Value::from(false), &Value::from(true)), "{quota}");
        assert!(quota["detail"].as_str().unwrap().contains("0.5") && quota["remedy"].is_string(), "{quota}");
        assert_eq!(half["run"]["complete"], true);
        assert_eq!(accounted(&half), 3);
        // Half a CPU shows in time, not in cycles, whatever the verdict: batches that the quota stopped do not count. A neighbour on
        // the core may double either of the two.
        let whole = result(&keep.path().join("whole"));
        let both: Vec<(f64, f64)> = loops(&half)
            .into_iter()
            .filter_map(|(labels, cycles)| Some((cycles, loops(&whole).into_iter().find(|(of, _)| *of == labels)?.1)))
            .collect();
        if both.is_empty() {
            return Err(Judgement::Disturbed("the gates refused every loop".to_owned()));
        }
        let compared = both.into_iter().try_for_each(|(half, whole)| truth::within(half / whole, 0.45, 2.2));
        compared.map_err(Judgement::Wrong)
    };
    truth::judged("half a CPU against a whole one", || compare().err().unwrap_or(Judgement::Right));
}

/// Cycles of the published figures of a run on a CPU by their labels, and what each is trusted. A figure has no cycles if no probe of
/// the core clock was left alone.
fn loop_on(cpu: &str, all: &str) -> BTreeMap<String, (Option<f64>, String)> {
    let (_keep, place) = place();
    // The calling thread keeps to the measured CPU, the program must not.
    let mut command = Command::new("taskset");
    command
        .args(["-c", all, PROGRAM, "run", "cpu.loop", "--quick", "--time=1s", "--no-progress", "--cpu", cpu, "-o"])
        .arg(&place);
    let output = command.env("XDG_STATE_HOME", state()).stdin(Stdio::null()).output().unwrap();
    assert!(ended(&output), "{}", told(&output));
    let result = result(&place);
    assert_eq!(accounted(&result), 3);
    let figure = |metric: &&Value| {
        let trust = metric["verdict"]["trust"].as_str().unwrap().to_owned();
        (metric["labels"].to_string(), (metric["cycles"].as_f64(), trust))
    };
    metrics(&result).iter().map(figure).collect()
}

#[test]
fn a_spinner_on_the_measured_cpu_contaminates_verdicts_and_not_figures() {
    let _alone = measuring();
    let allowed = affinity::allowed();
    let all = allowed.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let cpu = allowed.last().unwrap().to_string();
    affinity::restrict(&allowed[allowed.len() - 1..]).unwrap();
    // The loop in memory has two paces on a core that renames memory, whatever runs beside it.
    truth::timed("a spinner beside the loop in registers", || {
        let registers = r#"{"code":"registers"}"#;
        truth::watch();
        let alone = loop_on(&cpu, &all);
        truth::watch();
        let mut spinner = Command::new("taskset");
        spinner.args(["-c", &cpu, "bash", "-c", "while :; do :; done"]);
        let spinner = Leashed(spinner.spawn().unwrap());
        std::thread::sleep(Duration::from_millis(100));
        let beside = loop_on(&cpu, &all);
        drop(spinner);
        assert!(beside.values().all(|(_, trust)| trust == "contaminated"), "{beside:?}");
        let cycles = |found: &BTreeMap<String, (Option<f64>, String)>| {
            found.get(registers).and_then(|found| found.0).ok_or_else(|| "the figure has no cycles".to_owned())
        };
        truth::within(cycles(&beside)? / cycles(&alone)?, 0.95, 1.05)
    });
    affinity::restrict(&allowed).unwrap();
}

#[test]
fn a_run_waits_for_a_quiet_machine_up_to_its_limit_and_then_measures() {
    let _alone = measuring();
    let cpu = affinity::allowed().last().unwrap().to_string();
    let keep = tempfile::tempdir().unwrap();
    let mut spinner = Command::new("taskset");
    spinner.args(["-c", &cpu, "bash", "-c", "while :; do :; done"]);
    let _spinner = Leashed(spinner.spawn().unwrap());
    let began = std::time::Instant::now();
    let mut run = Command::new(PROGRAM);
    run.args(QUICK.split(' ')).args(["--cpu", &cpu, "--time=1s", "--wait-for-quiet=2s", "-o"]);
    let run = run.arg(keep.path().join("run")).env("XDG_STATE_HOME", state()).stdin(Stdio::null());
    let output = run.output().unwrap();
    assert!(ended(&output) && began.elapsed() > Duration::from_secs(3), "{}", told(&output));
    let said = text(&output.stderr);
    assert!(said.contains("note: waiting at most 2.0 s for a quiet machine: "), "{said}");
    assert!(said.contains(&format!("was not quiet within 2.0 s: CPU {cpu} is used otherwise for ")), "{said}");
}

/// A quick run without privileges, behind more words.
fn run_as_nobody(words: &[&str]) -> (Output, TempDir) {
    let (directory, program) = for_anybody();
    let mut all = nobody();
    all.extend(words);
    let mut command = Command::new(all[0]);
    command.args(&all[1..]).arg(program).args(QUICK.split(' ')).args(["-o", "run"]);
    let output = command.stdin(Stdio::null()).current_dir(directory.path()).output().unwrap();
    (output, directory)
}

#[test]
fn no_privilege_is_needed() {
    let _alone = measuring();
    let mut directories = Vec::new();
    let (output, _) = unspoilt(Path::new("."), |_| {
        let (output, directory) = run_as_nobody(&[]);
        directories.push(directory);
        output
    });
    assert!(ended(&output), "{}", told(&output));
    let result = result(&directories.last().unwrap().path().join("run"));
    assert_eq!(accounted(&result), 3);
    let (directory, program) = for_anybody();
    for verb in ["doctor", "machine", "list", "predict"] {
        let mut all = nobody();
        all.push(program.to_str().unwrap());
        let output = Command::new(all[0]).args(&all[1..]).arg(verb).current_dir(directory.path()).output().unwrap();
        assert!(output.status.success(), "{verb}: {}", told(&output));
    }
}

#[test]
fn a_place_that_belongs_to_somebody_else_is_refused() {
    if !Uid::effective().is_root() {
        // Only root can give something away; without it everything that is not ours already belongs to somebody else.
        let output = behind(&["env"], Path::new("/root/run"));
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        return;
    }
    let (directory, program) = for_anybody();
    let theirs = directory.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o755)).unwrap();
    chown(&theirs, Some(0), Some(0)).unwrap();
    let mut all = nobody();
    all.push(program.to_str().unwrap());
    let mut command = Command::new(all[0]);
    let output = command.args(&all[1..]).args(QUICK.split(' ')).arg("-o").arg(theirs.join("run")).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(text(&output.stderr).contains("Permission denied") && text(&output.stderr).contains("hint: "));
}

#[test]
fn a_limit_on_processes_makes_launches_fail_and_breeds_none() {
    let _alone = measuring();
    let (output, directory) = run_as_nobody(&["prlimit", "--nproc=1"]);
    assert_no_panic(&output);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let reasons = failures(&directory.path().join("run"));
    assert!(
        !reasons.is_empty() && reasons.iter().all(|reason| reason.contains("cannot start a launch")),
        "{reasons:?}"
    );
    assert!(text(&output.stdout).contains("ulimit -u"), "{}", told(&output));
    assert_eq!(processes_in(directory.path()), Vec::<i32>::new());
}

#[test]
fn a_limit_on_open_files_makes_launches_fail() {
    let (_keep, place) = place();
    let _alone = measuring();
    let output = behind(&["prlimit", "--nofile=7"], &place);
    assert_no_panic(&output);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(text(&output.stderr).contains("hint: ") || text(&output.stdout).contains("hint: "), "{}", told(&output));
}

#[test]
fn a_limit_on_the_size_of_files_ends_the_run_and_keeps_the_log() {
    let (_keep, place) = place();
    let _alone = measuring();
    let output = behind(&["prlimit", "--fsize=40000"], &place);
    assert_no_panic(&output);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(text(&output.stderr).contains("cannot write the log: File too large"), "{}", told(&output));
    assert!(records(&lines(&place), "series").len() > 3, "every line that is there is whole");
}

#[test]
fn without_proc_the_reason_is_given() {
    let (keep, place) = place();
    let _alone = measuring();
    let output = script(keep.path(), true, &format!("mount -t tmpfs none /proc; exec $PROGRAM {QUICK} -o run"));
    assert_no_panic(&output);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    let complaint = text(&output.stderr);
    assert!(complaint.contains("no launch can start") && complaint.contains("hint: mount"), "{complaint}");
    assert_eq!(complaint.lines().count(), 2, "one refusal: {complaint}");
    assert!(!place.exists());
}

#[test]
fn without_sys_it_measures_all_the_same() {
    let keep = tempfile::tempdir().unwrap();
    let _alone = measuring();
    let (output, place) = unspoilt(keep.path(), |place| {
        let name = place.file_name().unwrap().to_str().unwrap();
        script(keep.path(), true, &format!("mount -t tmpfs none /sys; exec $PROGRAM {QUICK} -o {name}"))
    });
    assert!(ended(&output), "{}", told(&output));
    assert_eq!(accounted(&result(&place)), 3);
    wait_until("launches end", Duration::from_secs(5), || processes_in(keep.path()).is_empty().then_some(()));
}
