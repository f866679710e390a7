//! Places that somebody else prepared, streams that take nothing, signals that are to be ignored, and limits under which a run
//! would die in the middle: nothing of others is touched, nothing hangs, and what cannot work is refused before measuring.
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::places::{Group, for_anybody, nobody};
use crate::support::runs::{
    Leashed, PROGRAM, copy_of_finished_run, ended, finished_run, lines, log_text, measuring, output, refused, state,
    sysdyno, text, told, wait_until,
};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, Uid, mkfifo};
use tempfile::TempDir;

/// Longer than a quick run of one experiment takes on any machine.
const PATIENCE: Duration = Duration::from_mins(1);

fn place() -> (TempDir, PathBuf) {
    let keep = tempfile::tempdir().unwrap();
    let place = keep.path().join("run");
    fs::create_dir(&place).unwrap();
    (keep, place)
}

/// A quick run that does not hang.
fn quick(words: &[&OsStr]) -> Output {
    let mut command = sysdyno(&["run", "cpu.loop", "--quick", "--time=1s", "--no-progress"]);
    finished(command.args(words))
}

fn finished(command: &mut Command) -> Output {
    command.env("XDG_STATE_HOME", state());
    let mut run = Leashed(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let status = wait_until("the run ends", PATIENCE, || run.0.try_wait().unwrap());
    let read = |stream: &mut dyn std::io::Read| {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    };
    let stdout = read(run.0.stdout.as_mut().unwrap());
    Output { status, stdout, stderr: read(run.0.stderr.as_mut().unwrap()) }
}

#[test]
fn links_and_pipes_in_a_run_directory_are_neither_followed_nor_opened() {
    let (keep, place) = place();
    let victim = keep.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    for name in [".writable", ".result.json.partial", "result.json", "metrics.csv"] {
        symlink(&victim, place.join(name)).unwrap();
    }
    mkfifo(&place.join(".report.html.partial"), Mode::S_IRWXU).unwrap();
    mkfifo(&place.join("report.html"), Mode::S_IRWXU).unwrap();
    let _alone = measuring();
    let output = quick(&["--keep".as_ref(), "all".as_ref(), "-o".as_ref(), place.as_ref()]);
    assert!(ended(&output), "{}", told(&output));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    for name in ["result.json", "metrics.csv", "report.html", "appendix.html", "published.html"] {
        let found = place.join(name).symlink_metadata().unwrap();
        assert!(found.is_file() && found.len() > 100, "{name} is a file of its own");
    }
}

#[test]
fn a_folder_of_figures_that_is_a_link_is_not_written_to() {
    let copy = copy_of_finished_run();
    let victim = tempfile::tempdir().unwrap();
    symlink(victim.path(), copy.path().join("figures")).unwrap();
    let output = output(&["run", "--resume", copy.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(text(&output.stderr).contains("is a link"), "{}", told(&output));
    assert_eq!(fs::read_dir(victim.path()).unwrap().count(), 0);
}

#[test]
fn a_log_that_is_a_link_or_a_pipe_is_refused() {
    let (keep, place) = place();
    let victim = keep.path().join("victim");
    fs::write(&victim, "").unwrap();
    symlink(&victim, place.join("log.jsonl")).unwrap();
    refused(&quick(&["-o".as_ref(), place.as_ref()]));
    fs::remove_file(place.join("log.jsonl")).unwrap();
    mkfifo(&place.join("log.jsonl"), Mode::S_IRWXU).unwrap();
    refused(&quick(&["-o".as_ref(), place.as_ref()]));
    assert_eq!(fs::read(&victim).unwrap(), b"");
}

#[test]
fn a_directory_of_another_user_is_refused_even_by_root() {
    if !Uid::effective().is_root() {
        // Only root can give a directory away; /tmp belongs to root.
        refused(&quick(&["-o".as_ref(), "/tmp".as_ref()]));
        return;
    }
    let (_keep, place) = place();
    chown(&place, Some(54_321), None).unwrap();
    fs::set_permissions(&place, Permissions::from_mode(0o777)).unwrap();
    let complaint = refused(&quick(&["-o".as_ref(), place.as_ref()]));
    assert!(complaint.contains("it belongs to user 54321"), "{complaint}");
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "a refusal leaves nothing");
    // The same of the place of runs that nobody named.
    let runs = place.join("sysdyno-runs");
    fs::create_dir(&runs).unwrap();
    chown(&runs, Some(54_321), None).unwrap();
    let words = ["run", "cpu.loop", "--quick", "--time=1s", "--no-progress"];
    let output = sysdyno(&words).current_dir(&place).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert_eq!(fs::read_dir(&runs).unwrap().count(), 0, "a refusal leaves nothing");
}

#[test]
fn runs_of_a_fleet_are_not_written_to_places_of_another_user() {
    if !Uid::effective().is_root() {
        return;
    }
    let (keep, fleet) = place();
    let elsewhere = keep.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let into = || {
        let mut command =
            sysdyno(&["run", "cpu.loop", "--quick", "--time=1s", "--no-progress", "--into", fleet.to_str().unwrap()]);
        refused(&command.env("SLURM_JOB_ID", "17").env("SLURMD_NODENAME", "n1").output().unwrap())
    };
    let nodes = fleet.join("nodes");
    // The directory of all nodes, and that of this node, as links of another user.
    symlink(&elsewhere, &nodes).unwrap();
    lchown(&nodes, Some(54_321), None).unwrap();
    assert!(into().contains("it is a link of user 54321"));
    fs::remove_file(&nodes).unwrap();
    fs::create_dir(&nodes).unwrap();
    symlink(&elsewhere, nodes.join("n1")).unwrap();
    lchown(nodes.join("n1"), Some(54_321), None).unwrap();
    assert!(into().contains("it belongs to user 54321"));
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    // A run in a directory of another user is not resumed.
    let copy = copy_of_finished_run();
    chown(copy.path(), Some(54_321), None).unwrap();
    let complaint = refused(&output(&["run", "--resume", copy.path().to_str().unwrap()]));
    assert!(complaint.contains("it belongs to user 54321"), "{complaint}");
}

#[test]
fn under_sudo_runs_belong_to_the_user_who_called_it() {
    if !Uid::effective().is_root() {
        return;
    }
    let _alone = measuring();
    let (keep, program) = for_anybody();
    chown(keep.path(), Some(54_321), Some(54_321)).unwrap();
    let run = |before: &[&str], variables: &[(&str, &str)]| {
        let words =
            [before, &[program.to_str().unwrap(), "run", "cpu.loop", "--quick", "--time=1s", "--no-history"]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).envs(variables.iter().copied()).current_dir(keep.path());
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(ended(&output), "{}", told(&output));
    };
    let under_sudo = [("SUDO_UID", "54321"), ("SUDO_GID", "54321")];
    run(&["env"], &under_sudo);
    let mut places = vec![keep.path().join("sysdyno-runs")];
    while let Some(place) = places.pop() {
        let found = place.symlink_metadata().unwrap();
        assert_eq!((found.uid(), found.gid()), (54_321, 54_321), "{}", place.display());
        if found.is_dir() {
            places.extend(fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    run(&["env"], &under_sudo);
    run(&nobody(), &[]);
}

fn full() -> Stdio {
    Stdio::from(File::options().write(true).open("/dev/full").unwrap())
}

#[test]
fn talk_that_cannot_be_written_ends_nothing() {
    let (_keep, place) = place();
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    for (words, code) in
        [(&["run", "nosuch"][..], 2), (&["run", "--fast"], 2), (&["report", "/no/such/run"], 2), (&["machine"], 0)]
    {
        for stream in [full(), closed()] {
            let status = sysdyno(words).stderr(stream).stdout(Stdio::null()).status().unwrap();
            assert_eq!(status.code(), Some(code), "{words:?}: {status}");
        }
    }
    let _alone = measuring();
    for (number, stream) in [full(), closed()].into_iter().enumerate() {
        let place = place.join(number.to_string());
        // A time so short that there is a warning before the first launch.
        let mut command = sysdyno(&["run", "cpu.loop", "--time", "900ms", "-o", place.to_str().unwrap()]);
        let status = command.stderr(stream).stdout(Stdio::null()).status().unwrap();
        assert!(status.code().is_some_and(|code| code < 2), "{status}");
        assert_eq!(lines(&place).last().unwrap()["complete"], true);
        assert!(place.join("report.html").exists());
    }
}

#[test]
fn data_that_cannot_be_written_is_an_error_and_a_reader_that_goes_is_none() {
    let run = finished_run().to_str().unwrap();
    let status = sysdyno(&["report", run]).stdout(full()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(1));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = sysdyno(&["report", run]).stdout(writer).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn signals_that_were_ignored_at_the_start_stay_ignored() {
    let _alone = measuring();
    let (_keep, place) = place();
    // As nohup starts a program, and a script one in its background.
    let script = "trap '' HUP INT; exec \"$PROGRAM\" run cpu --quick --no-progress -o \"$PLACE\"";
    let mut command = Command::new("bash");
    command
        .args(["-euc", script])
        .env("PROGRAM", PROGRAM)
        .env("XDG_STATE_HOME", state())
        .env("PLACE", &place)
        .stdin(Stdio::null());
    let mut run = Leashed(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let number = Pid::from_raw(run.0.id() as i32);
    for _ in 0..3 {
        wait_until("a launch ends", PATIENCE, || log_text(place.as_ref()).contains("launch_end").then_some(()));
        kill(number, Signal::SIGHUP).unwrap();
        kill(number, Signal::SIGINT).unwrap();
    }
    let status = wait_until("the run ends", PATIENCE, || run.0.try_wait().unwrap());
    assert!(status.code().is_some_and(|code| code < 2), "{status}");
    assert_eq!(lines(&place).last().unwrap()["complete"], true);
}

#[test]
fn a_small_stack_is_refused_before_measuring() {
    let (_keep, place) = place();
    let mut command = Command::new("prlimit");
    command
        .args(["--stack=65536:65536", PROGRAM, "run", "cpu", "os", "--quick", "--time=4s", "-o"])
        .arg(place.join("new"));
    let complaint = refused(&finished(&mut command));
    assert!(complaint.contains("64 KiB") && complaint.contains("ulimit -s"), "{complaint}");
    assert!(!place.join("new").exists());
}

#[test]
fn the_stack_that_is_asked_for_is_enough() {
    let (_keep, place) = place();
    let mut command = Command::new("prlimit");
    command.args(["--stack=65536:65536", PROGRAM, "run", "--dry-run"]);
    let complaint = refused(&finished(&mut command));
    let kibibytes: u64 = complaint.split("ulimit -s ").nth(1).unwrap().trim().parse().unwrap();
    let bytes = kibibytes << 10;
    let _alone = measuring();
    let mut command = Command::new("prlimit");
    command.arg(format!("--stack={bytes}:{bytes}")).arg(PROGRAM);
    command.args(["run", "cpu", "os", "memory", "--quick", "--time", "10s", "--no-progress", "-o"]);
    command.arg(place.join("new"));
    let output = finished(&mut command);
    assert!(output.status.code().is_some_and(|code| code < 2), "{}", told(&output));
    let report = Command::new("prlimit")
        .arg(format!("--stack={bytes}:{bytes}"))
        .args([PROGRAM, "report"])
        .arg(place.join("new"))
        .output()
        .unwrap();
    assert!(report.status.success(), "{}", told(&report));
}

#[test]
fn a_group_with_too_little_memory_is_refused_before_measuring() {
    let Some(group) = Group::of_too_little_memory() else { return };
    let (_keep, place) = place();
    let script = "echo $$ > \"$GROUP/cgroup.procs\"; exec \"$PROGRAM\" run cpu.loop --quick -o \"$PLACE\"";
    let mut command = Command::new("bash");
    command
        .args(["-euc", script])
        .env("PROGRAM", PROGRAM)
        .env("XDG_STATE_HOME", state())
        .env("GROUP", &group.place)
        .env("PLACE", place.join("new"));
    let complaint = refused(&finished(&mut command));
    assert!(complaint.contains("16.00 MiB of memory") && complaint.contains("A run needs"), "{complaint}");
    assert!(!place.join("new").exists());
}

#[test]
fn a_scratch_directory_whose_name_is_no_text_is_refused() {
    let (keep, place) = place();
    let odd = keep.path().join(OsStr::from_bytes(b"odd-\xff"));
    fs::create_dir(&odd).unwrap();
    // Its name with the odd letter replaced, as it would stand in a log.
    fs::create_dir(keep.path().join("odd-\u{fffd}")).unwrap();
    let output = quick(&["--scratch".as_ref(), odd.as_ref(), "-o".as_ref(), place.join("new").as_ref()]);
    assert!(refused(&output).contains("is not UTF-8"), "{}", told(&output));
    assert!(!place.join("new").exists());
}

#[test]
fn json_goes_to_no_link_without_a_target_and_no_pipe_without_a_reader() {
    let (keep, place) = place();
    let (link, pipe) = (keep.path().join("link"), keep.path().join("pipe"));
    symlink(keep.path().join("nothing"), &link).unwrap();
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let run = place.join("new");
    for (target, words) in [(&link, "a dangling link"), (&pipe, "no process reads")] {
        let began = Instant::now();
        let output = quick(&["--json".as_ref(), target.as_ref(), "-o".as_ref(), run.as_ref()]);
        assert!(refused(&output).contains(words), "{}", told(&output));
        assert!(began.elapsed() < PATIENCE / 2);
        assert!(!run.exists() && target.symlink_metadata().is_ok(), "nothing is made, nothing is removed");
    }
    assert!(link.is_symlink() && !keep.path().join("nothing").exists());
}

#[test]
fn a_narrow_terminal_gets_names_and_figures() {
    let summary = |columns: &str| {
        let run = finished_run().to_str().unwrap();
        let output = sysdyno(&["report", run, "--format", "summary"]).env("COLUMNS", columns).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        text(&output.stdout)
    };
    let narrow = summary("40");
    let table: Vec<&str> = narrow.lines().take_while(|line| !line.is_empty()).collect();
    assert!(table.iter().all(|line| line.chars().count() <= 40), "{narrow}");
    assert!(table.iter().any(|line| line.contains("loop iteration")), "names are not cut into letters: {narrow}");
    for columns in ["40", "80", "120", "200"] {
        let screen = summary(columns);
        assert!(screen.lines().count() <= 21, "one screen at every width: {screen}");
        let fits = |line: &str| line.chars().count() <= columns.parse().unwrap();
        assert!(screen.lines().all(fits), "{columns}: {screen}");
    }
}

#[test]
fn a_directory_that_nobody_named_is_a_new_one() {
    let keep = tempfile::tempdir().unwrap();
    let _alone = measuring();
    let start = || {
        let mut command = sysdyno(&["run", "cpu.loop", "--quick", "--time=1s", "--no-progress"]);
        command.current_dir(keep.path()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let ends = [start(), start(), start()].map(|run| run.wait_with_output().unwrap());
    assert!(ends.iter().all(|end| end.status.code().is_some_and(|code| code < 2)), "{}", told(&ends[1]));
    let runs: Vec<PathBuf> =
        fs::read_dir(keep.path().join("sysdyno-runs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(runs.len(), 3, "{runs:?}");
    for run in &runs {
        assert_eq!(lines(run)[0]["id"], run.file_name().unwrap().to_str().unwrap());
    }
}

#[test]
fn a_planted_log_of_nothing_hides_no_run() {
    let (_keep, place) = place();
    fs::write(place.join("log.jsonl"), "").unwrap();
    let _alone = measuring();
    let output = quick(&["-o".as_ref(), place.as_ref()]);
    assert!(ended(&output), "what a run that was killed at once left is no run: {}", told(&output));
    assert!(Path::new(&place).join("node.json").exists());
}
