//! `run` and `report`, by the real program: what they write and where, what they refuse before measuring, and how a log
//! that is foreign, damaged or of another format is met.
use std::fs;
use std::path::Path;
use std::process::Output;

use crate::support::runs::{
    accounted, copy_of_finished_run, edit_log, ended, finished_run, lines, measuring, metrics, output, records,
    refused, result, sysdyno, text, told,
};
use serde_json::Value;
use sysdyno::testing::report::terminal;
use tempfile::TempDir;

fn place() -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run").to_str().unwrap().to_owned();
    (directory, run)
}

/// A quick run of one experiment with more words.
fn run(words: &[&str]) -> Output {
    let _alone = measuring();
    output(&[&["run", "cpu.loop", "--quick", "--time=1s"], words].concat())
}

fn report(words: &[&str]) -> Output {
    output(&[&["report"], words].concat())
}

#[test]
fn a_run_leaves_four_small_files() {
    let (keep, place) = place();
    let words = ["run", "cpu.loop", "os.signal", "--quick", "-o", &place];
    let output = sysdyno(&words).current_dir(keep.path()).output().unwrap();
    assert!(ended(&output), "{}", told(&output));
    let place = Path::new(&place);
    assert_eq!(names(place), ["log.jsonl.gz", "metrics.csv", "node.json", "report.html"]);
    let page = fs::read_to_string(place.join("report.html")).unwrap();
    assert!(!page.contains("href=\"appendix") && !page.contains("href=\"published"), "no link leads nowhere");
    assert!(page.contains("sysdyno report RUN --format html --full -o appendix.html"), "the command is named");
    // The other pages are made on demand, and the page beside them links to both.
    let file = keep.path().join("page.html");
    let made = report(&[place.to_str().unwrap(), "--format", "html", "-o", file.to_str().unwrap()]);
    assert!(made.status.success(), "{}", told(&made));
    let page = fs::read_to_string(file).unwrap();
    for name in ["appendix.html", "published.html"] {
        assert!(page.contains(&format!("href=\"{name}")) && keep.path().join(name).exists(), "{name}");
    }
}

fn names(place: &Path) -> Vec<String> {
    let entries = fs::read_dir(place).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_run_that_keeps_all_leaves_its_log_and_what_is_computed_from_it_and_nothing_else() {
    assert_eq!(
        names(finished_run()),
        [
            "appendix.html",
            "figures",
            "log.jsonl",
            "metrics.csv",
            "node.json",
            "published.html",
            "report.html",
            "result.json"
        ]
    );
    let result = result(finished_run());
    assert_eq!(result["schema"], "sysdyno-result/1");
    assert_eq!(result["run"]["seed"], 11);
    assert_eq!(result["run"]["complete"], true);
    assert_eq!(accounted(&result), 3, "one figure for each kind of code, or why it is not there");
    assert!(!metrics(&result).is_empty());
}

/// Whether this is the screen of a run of the loop, with results or without.
fn is_screen(said: &[u8]) -> bool {
    ["loop iteration", "Nothing was measured"].iter().any(|words| text(said).contains(words))
}

#[test]
fn talk_and_data_are_kept_apart() {
    let (_keep, place) = place();
    let output = run(&["-o", &place]);
    // Where others have the CPU, nothing can be published.
    assert!(ended(&output), "{}", told(&output));
    assert!(is_screen(&output.stdout), "it is data: {}", told(&output));
    let talk = text(&output.stderr);
    assert!(talk.contains(&format!("run directory: {place}")), "{talk}");
    assert!(!talk.contains("rounds  "), "no progress where there is no terminal: {talk}");
}

#[test]
fn the_result_goes_to_standard_output_as_pure_json() {
    let (_keep, place) = place();
    let output = run(&["--json", "-", "-o", &place]);
    assert!(ended(&output), "{}", told(&output));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed, result(Path::new(&place)));
    assert!(is_screen(&output.stderr), "the screen turns into talk: {}", told(&output));
}

#[test]
fn the_result_goes_to_a_file() {
    let (keep, place) = place();
    let file = keep.path().join("copy.json");
    let output = run(&["--json", file.to_str().unwrap(), "-o", &place]);
    assert!(ended(&output), "{}", told(&output));
    let copy: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(copy, result(Path::new(&place)));
}

#[test]
fn a_dry_run_prints_the_plan_and_writes_nothing() {
    let here = tempfile::tempdir().unwrap();
    let output =
        sysdyno(&["run", "cpu", "--dry-run", "-o", "run", "--json", "out.json"]).current_dir(here.path()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let plan = text(&output.stdout);
    assert!(plan.contains("cpu.timer") && plan.contains("8 launches") && plan.contains("About"), "{plan}");
    assert!(plan.contains("Up to 1.000 MiB of memory"), "{plan}");
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0, "nothing was written");
}

#[test]
fn a_directory_that_holds_a_run_is_refused_and_kept() {
    let copy = copy_of_finished_run();
    let before = fs::read(copy.path().join("log.jsonl")).unwrap();
    let complaint = refused(&run(&["-o", copy.path().to_str().unwrap()]));
    assert!(complaint.contains("already contains a run") && complaint.contains("--resume"), "{complaint}");
    assert_eq!(fs::read(copy.path().join("log.jsonl")).unwrap(), before);
}

#[test]
fn places_that_cannot_be_written_are_refused_before_measuring() {
    let here = tempfile::tempdir().unwrap();
    let file = here.path().join("file");
    fs::write(&file, "in the way").unwrap();
    let below = file.join("run");
    refused(&run(&["-o", below.to_str().unwrap()]));
    refused(&run(&["-o", file.to_str().unwrap()]));
    refused(&run(&["-o", "/proc/run"]));
    let (_keep, place) = place();
    for target in [below.to_str().unwrap(), here.path().to_str().unwrap(), "/proc/result.json"] {
        let complaint = refused(&run(&["--json", target, "-o", &place]));
        assert!(complaint.contains(target), "{complaint}");
    }
    assert!(!Path::new(&place).exists(), "a refused command leaves nothing");
    assert_eq!(fs::read_to_string(&file).unwrap(), "in the way");
}

#[test]
fn a_cpu_that_does_not_exist_is_refused_with_those_that_do() {
    let complaint = refused(&run(&["--cpu", "9999"]));
    assert!(complaint.contains("9999") && complaint.contains("allowed here: "), "{complaint}");
}

#[test]
fn the_cpu_asked_for_is_the_one_that_measures() {
    let (_keep, place) = place();
    let output = run(&["--cpu", "0", "-o", &place]);
    assert!(ended(&output), "{}", told(&output));
    let lines = lines(Path::new(&place));
    assert_eq!(lines[0]["cpu"], 0);
    assert!(records(&lines, "evidence").iter().all(|evidence| evidence["cpu"] == 0));
}

#[test]
fn a_time_too_short_for_one_round_is_refused_with_the_time_it_takes() {
    let complaint = refused(&output(&["run", "--time", "1ms"]));
    assert!(complaint.contains("too short") && complaint.contains("allow --time"), "{complaint}");
}

#[test]
fn a_short_time_cuts_rounds_and_says_so() {
    let output = output(&["run", "cpu", "--time", "2s", "--dry-run"]);
    assert!(output.status.success(), "{}", told(&output));
    assert!(text(&output.stdout).contains("intervals will be wider"), "{}", told(&output));
    let (_keep, place) = place();
    let _alone = measuring();
    let output = crate::support::runs::output(&["run", "cpu.loop", "--time", "600ms", "-o", &place]);
    assert!(ended(&output), "{}", told(&output));
    assert!(text(&output.stderr).contains("warning: the time limit of"), "{}", told(&output));
    let result = result(Path::new(&place));
    assert!(result["run"]["rounds"].as_u64().unwrap() < 30, "{}", result["run"]);
}

#[test]
fn a_scratch_directory_that_is_not_there_is_refused() {
    assert!(refused(&run(&["--scratch", "/no/such/place"])).contains("/no/such/place"));
    let complaint = refused(&run(&["--scratch", "/proc/cpuinfo", "--dry-run"]));
    assert!(complaint.contains("/proc/cpuinfo is not a directory") && complaint.contains("--scratch"), "{complaint}");
    assert!(refused(&run(&["--scratch", "/proc/cpuinfo/below", "--dry-run"])).contains("cannot inspect"));
    assert!(refused(&run(&["--scratch-limit", "9000000G", "--dry-run"])).contains("are free there"));
}

#[test]
fn a_dry_run_understands_addresses_and_contacts_nobody() {
    // Somebody would notice being contacted.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (nfs, peer) = (format!("nfs://localhost:{port}/export/file"), format!("localhost:{port}"));
    let plan = |words: &[&str]| output(&[&["run", "file.remote_read", "--dry-run"], words].concat());
    let planned = plan(&["--nfs", &nfs, "--peer", &peer, "--peer-secret", &"s".repeat(32)]);
    assert!(planned.status.success(), "{}", told(&planned));
    let said = text(&planned.stdout);
    for words in
        [format!("NFS server: at 127.0.0.1:{port}"), "/export/file".to_owned(), "peer: at 127.0.0.1:".to_owned()]
    {
        assert!(said.contains(&words), "{words}: {said}");
    }
    assert_eq!(said.matches("ontacted in a dry run").count(), 2, "{said}");
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    for (words, complaint) in [
        (["--nfs", "nfs://server"], "has no path"),
        (["--nfs", "nfs://server:port/a"], "not a valid port"),
        (["--nfs", "server:/export"], "does not begin with nfs://"),
        (["--remote-dir", "/"], "not of another machine"),
        (["--peer", "ssh://-oProxyCommand=true"], "does not begin with '-'"),
        (["--peer", "ssh://"], "is not empty"),
        (["--peer", "nowhere"], "a secret"),
    ] {
        let said = refused(&plan(&words));
        assert!(said.contains(complaint) && said.contains("hint: "), "{words:?}: {said}");
    }
}

/// The experiments of a log in the order in which they were launched, interference probes included, without what others are predicted from.
fn order(run: &Path) -> Vec<String> {
    let planned = |launch: &&&Value| launch["first"].is_null();
    records(&lines(run), "launch")
        .iter()
        .filter(planned)
        .map(|launch| launch["experiment"].as_str().unwrap().to_owned())
        .collect()
}

/// Launches of three rounds of two experiments, interference probes included.
const THREE_ROUNDS: usize = 9;

/// The first launches of a run with a seed, of three rounds as far as its time allows them.
fn order_within(time: &str, seed: &str) -> Vec<String> {
    let (_keep, place) = place();
    let _alone = measuring();
    let output = output(&["run", "cpu.procedure_call", "cpu.loop", "--time", time, "--seed", seed, "-o", &place]);
    assert!(ended(&output), "{}", told(&output));
    let mut order = order(Path::new(&place));
    assert_eq!(order[..2], ["cpu.loop", "cpu.procedure_call"], "the first round goes in the table's order");
    order.truncate(THREE_ROUNDS);
    order
}

#[test]
fn a_seed_decides_the_order_of_launches() {
    // From the fifth round on, what launches took and found decides.
    let within = |time: &str| ["7", "7", "9"].map(|seed| order_within(time, seed));
    let are_whole = |orders: &[Vec<String>; 3]| orders.iter().all(|order| order.len() == THREE_ROUNDS);
    // On a machine that is busy with other tests, a short time ends before the third round.
    let orders = Some(within("6s")).filter(are_whole).unwrap_or_else(|| within("40s"));
    assert!(are_whole(&orders), "{orders:?}");
    assert_eq!(orders[0], orders[1]);
    assert_ne!(orders[0], orders[2], "these seeds agree in neither the second round nor the third");
}

#[test]
fn the_kernels_clock_measures_too() {
    let (_keep, place) = place();
    let _alone = measuring();
    let words =
        ["run", "cpu.loop", "cpu.procedure_call", "--quick", "--time=1s", "--clock", "monotonic_raw", "-o", &place];
    let output = output(&words);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let result = result(Path::new(&place));
    assert_eq!(result["run"]["clock"]["source"], "monotonic_raw");
    for experiment in ["cpu.loop", "cpu.procedure_call"] {
        let section = result["experiments"].as_array().unwrap().iter().find(|section| section["id"] == experiment);
        assert_eq!(section.unwrap()["outcome"], "measured", "{}", section.unwrap()["reason"]);
    }
}

#[test]
fn a_report_comes_from_a_directory_or_its_log() {
    let run = finished_run();
    let log = run.join("log.jsonl");
    let (by_directory, by_log) = (report(&[run.to_str().unwrap()]), report(&[log.to_str().unwrap()]));
    assert!(by_directory.status.success() && by_directory.stderr.is_empty(), "{}", told(&by_directory));
    assert_eq!(by_directory.stdout, by_log.stdout);
    let printed = report(&[run.to_str().unwrap(), "--format", "json"]);
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(printed, result(run), "a log gives the same result whenever it is read");
    let summary = report(&[run.to_str().unwrap(), "--format", "summary"]);
    assert!(text(&summary.stdout).contains("loop iteration"), "{}", told(&summary));
    assert!(summary.stdout.len() < by_log.stdout.len());
}

#[test]
fn a_report_goes_to_a_file() {
    let here = tempfile::tempdir().unwrap();
    let (file, run) = (here.path().join("report.txt"), finished_run().to_str().unwrap());
    let written = report(&[run, "-o", file.to_str().unwrap()]);
    assert!(written.status.success() && written.stdout.is_empty(), "{}", told(&written));
    assert_eq!(fs::read(&file).unwrap(), report(&[run]).stdout);
    assert_eq!(report(&[run, "-o", "-"]).stdout, report(&[run]).stdout);
    refused(&report(&[run, "-o", "/proc/report.txt"]));
    refused(&report(&[run, "-o", here.path().to_str().unwrap()]));
}

#[test]
fn what_is_no_run_is_refused() {
    let here = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let file = here.path().join(name);
        fs::write(&file, bytes).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let foreign = [
        write("empty", b""),
        write("prose", b"Once upon a time\nthere was no log.\n"),
        write("json", b"{\"record\":\"finish\",\"at\":\"x\",\"complete\":true,\"reason\":\"\",\"seconds\":1}\n"),
        write("binary", &[0xff, 0x00, 0x0a, 0xfe, 0x0a]),
        "/no/such/run".to_owned(),
        here.path().to_str().unwrap().to_owned(),
        "/dev/null".to_owned(),
    ];
    for file in &foreign {
        refused(&report(&[file]));
        refused(&output(&["predict", "--from", file]));
        refused(&output(&["run", "--resume", file]));
    }
    let header = fs::read_to_string(finished_run().join("log.jsonl")).unwrap();
    let alone = write("header", header.lines().next().unwrap().as_bytes());
    assert!(refused(&report(&[&alone])).contains("nothing was measured"));
}

#[test]
fn a_log_of_another_format_is_refused_with_both_versions() {
    let copy = copy_of_finished_run();
    edit_log(copy.path(), |line| {
        if line["record"] == "run" {
            line["log"] = "sysdyno-log/99".into();
        }
    });
    let complaint = refused(&report(&[copy.path().to_str().unwrap()]));
    assert!(
        complaint.contains("sysdyno-log/99") && complaint.contains("sysdyno-log/1,") || complaint.contains("reads")
    );
    refused(&output(&["run", "--resume", copy.path().to_str().unwrap()]));
}

#[test]
fn a_truncated_last_line_costs_that_line_only() {
    let copy = copy_of_finished_run();
    let log = copy.path().join("log.jsonl");
    let whole = fs::read(&log).unwrap();
    // Inside the last line, and inside a line of the last launch. The launches before it have a result on a slow machine, too.
    let series = String::from_utf8_lossy(&whole).rfind("{\"record\":\"series\"");
    let line = series.expect("a run has series");
    for length in [whole.len() - 20, line + 20] {
        fs::write(&log, &whole[..length]).unwrap();
        let output = report(&[copy.path().to_str().unwrap()]);
        assert!(output.status.success(), "{}", told(&output));
        assert!(text(&output.stderr).contains("warning: line"), "{}", told(&output));
        let page = text(&output.stdout);
        assert!(page.contains("cpu.loop.overhead") && page.contains("The log is damaged"), "{page}");
        assert!(page.contains("not complete"), "{page}");
    }
}

#[test]
fn a_broken_line_in_the_middle_is_not_passed_over() {
    let copy = copy_of_finished_run();
    let log = copy.path().join("log.jsonl");
    let mut lines: Vec<String> = fs::read_to_string(&log).unwrap().lines().map(str::to_owned).collect();
    let middle = lines.len() / 2;
    lines[middle].truncate(30);
    fs::write(&log, lines.join("\n") + "\n").unwrap();
    let complaint = refused(&report(&[copy.path().to_str().unwrap()]));
    assert!(complaint.contains(&format!("line {}", middle + 1)), "{complaint}");
}

#[test]
fn folded_text_keeps_its_words() {
    let folded = terminal::folded("one two three four", 9);
    assert_eq!(folded, "one two\nthree\nfour\n");
}

#[test]
fn scratch_in_memory_is_said_at_once() {
    let _alone = measuring();
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let words = [
        "run",
        "cpu.loop",
        "--quick",
        "--time=1s",
        "--no-progress",
        "--scratch",
        "/dev/shm",
        "-o",
        run.to_str().unwrap(),
    ];
    let output = output(&words);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let talk = text(&output.stderr);
    assert!(talk.contains("warning: ") && talk.contains("tmpfs") && talk.contains("hint: "), "{talk}");
}
