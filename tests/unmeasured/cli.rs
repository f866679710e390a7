//! The command line, by the real program: what each verb prints, where it prints it, and how it ends.
//!
//! Exit codes: 0 done, 2 the command was wrong. Data goes to standard output, talk to standard error, and every
//! complaint says what to do about it. `run` and `report` have a file of their own.
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::runs::{self, finished_run, output, sysdyno, text, told};
use crate::support::trees::{MACHINES, tree};
use serde_json::Value;
use sysdyno::testing::experiments;

const VERBS: [&str; 10] =
    ["run", "list", "explain", "machine", "doctor", "neighbours", "predict", "report", "completions", "man"];

/// The program accepts the words and says nothing but data.
fn data(words: &[&str]) -> String {
    let output = output(words);
    assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {}", told(&output));
    text(&output.stdout)
}

fn json(words: &[&str]) -> Value {
    serde_json::from_str(&data(words)).unwrap()
}

/// The program refuses the words: exit code 2, no data, a complaint with a hint.
fn refusal(words: &[&str]) -> String {
    let output = output(words);
    assert_eq!(output.status.code(), Some(2), "{words:?}: {}", told(&output));
    assert!(output.stdout.is_empty(), "{words:?}: {}", told(&output));
    let complaint = text(&output.stderr);
    assert!(complaint.starts_with("error: "), "{words:?}: {complaint}");
    assert!(complaint.lines().any(|line| line.starts_with("hint: ") && line.len() > 10), "{words:?}: {complaint}");
    complaint
}

#[test]
fn complaints_fit_the_terminal() {
    for words in [&["run", "--time", "x"][..], &["run", "--no-such-option"], &["run", "cpu.lop"]] {
        let output = sysdyno(words).env("COLUMNS", "60").output().unwrap();
        let complaint = text(&output.stderr);
        assert!(complaint.contains("\nhint: ") && complaint.lines().all(|line| line.len() <= 60), "{complaint}");
        let whole = text(&sysdyno(words).env_remove("COLUMNS").output().unwrap().stderr);
        assert_eq!(complaint.replace('\n', " "), whole.replace('\n', " "));
        assert_eq!(whole.lines().count(), 2);
    }
}

#[test]
fn help_names_every_verb_and_the_exit_codes() {
    for words in [&["--help"][..], &["-h"]] {
        let help = data(words);
        for verb in VERBS {
            assert!(help.lines().any(|line| line.trim_start().starts_with(verb)), "{verb} in {help}");
        }
        assert!(help.contains("Exit codes: 0") && help.contains("Examples:"), "{help}");
        assert!(!help.contains("launch "), "`launch` is not for people: {help}");
    }
    for verb in VERBS {
        let help = data(&[verb, "--help"]);
        assert!(help.contains(&format!("Usage: sysdyno {verb}")), "{help}");
    }
}

#[test]
fn every_line_of_help_fits_a_terminal() {
    for verb in VERBS {
        for line in data(&[verb, "--help"]).lines() {
            assert!(line.chars().count() <= 100, "{verb}: {line}");
        }
    }
}

#[test]
fn the_version_is_the_packages() {
    assert_eq!(data(&["-V"]), format!("sysdyno {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn no_arguments_show_the_help_as_an_error() {
    let output = output(&[]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    let first = text(&output.stderr);
    assert!(output.stdout.is_empty() && first.contains("Usage: sysdyno"), "{}", told(&output));
    assert!(first.lines().count() <= 20 && first.lines().all(|line| line.chars().count() <= 80), "{first}");
}

#[test]
fn verbs_of_other_tools_lead_to_ours_and_inner_ones_are_not_named() {
    for (typed, verb) in [("diff", "compare"), ("show", "report"), ("info", "machine"), ("bench", "run")] {
        assert!(data(&[typed, "--help"]).contains(&format!("Usage: sysdyno {verb}")), "{typed}");
    }
    for typed in ["lunch", "launc", "launches", "start"] {
        assert!(!refusal(&[typed]).contains("'launch'"), "{typed}");
    }
}

#[test]
fn without_a_run_the_newest_is_taken_and_named() {
    let here = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| sysdyno(words).current_dir(here.path()).output().unwrap();
    for words in [&["report"][..], &["compare"], &["predict", "--from"]] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        assert!(text(&output.stderr).contains("no run is named, and sysdyno-runs"), "{}", told(&output));
    }
    for name in ["older", "newer"] {
        let place = here.path().join("sysdyno-runs").join(name);
        fs::create_dir_all(&place).unwrap();
        fs::copy(finished_run().join("log.jsonl"), place.join("log.jsonl")).unwrap();
        let log = fs::File::options().append(true).open(place.join("log.jsonl")).unwrap();
        let since = if name == "older" { 7200 } else { 3600 };
        log.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(since)).unwrap();
    }
    let report = run(&["report", "--format", "summary"]);
    assert!(report.status.success(), "{}", told(&report));
    assert!(text(&report.stderr).contains("the newest run: sysdyno-runs/newer"), "{}", told(&report));
    let compared = run(&["compare"]);
    let named = "comparing sysdyno-runs/older with sysdyno-runs/newer";
    assert!(text(&compared.stderr).contains(named), "{}", told(&compared));
    let compared = run(&["compare", "sysdyno-runs/newer"]);
    let named = "comparing sysdyno-runs/newer with sysdyno-runs/older";
    assert!(text(&compared.stderr).contains(named), "another run than the named one: {}", told(&compared));
    let predicted = run(&["predict", "--from"]);
    assert!(text(&predicted.stdout).contains("From the results of the run"), "{}", told(&predicted));
}

#[test]
fn listings_fit_one_screen_and_have_the_rest_behind_an_option() {
    for (words, all) in [(&["list"][..], "--all"), (&["machine"], "--all"), (&["predict", "--claims"], "--all")] {
        let screen = data(words);
        assert!((5..=24).contains(&screen.lines().count()), "{words:?}: {screen}");
        assert!(screen.lines().all(|line| line.chars().count() <= 80), "{words:?}: {screen}");
        assert!(screen.contains(all), "{words:?}: {screen}");
        assert!(data(&[words, &[all]].concat()).lines().count() > 2 * screen.lines().count(), "{words:?}");
    }
}

#[test]
fn unknown_verbs_and_flags_are_refused() {
    refusal(&["measure"]);
    refusal(&["run", "--fast"]);
    refusal(&["explain"]);
    refusal(&["run", "--quick", "--rigorous"]);
    refusal(&["run", "--cpu", "one"]);
    refusal(&["run", "--seed", "-1"]);
    refusal(&["run", "--clock", "sundial"]);
    refusal(&["run", "--resume", "x", "--seed", "1"]);
    refusal(&["completions", "cmd.exe"]);
    assert!(refusal(&["reprot"]).contains("report"), "the nearest verb is named");
    assert!(refusal(&["run", "--time", "5parsecs"]).contains("90s"), "a right duration is shown");
    assert!(refusal(&["run", "--time", "0"]).contains("positive"));
}

#[test]
fn an_unknown_experiment_is_answered_with_near_names() {
    for verb in ["run", "explain", "predict"] {
        let complaint = refusal(&[verb, "cpu.tmier"]);
        assert!(complaint.contains("'cpu.tmier'") && complaint.contains("cpu.timer"), "{complaint}");
    }
    assert!(refusal(&["run", "zzz"]).contains("sysdyno list"));
    assert!(refusal(&["run", "cpu.loop", "xyzzy"]).contains("xyzzy"), "one wrong word of two");
    refusal(&["explain", "zzz"]);
    refusal(&["run", ""]);
}

#[test]
fn a_chapter_is_explained_experiment_by_experiment() {
    let pages = data(&["explain", "cpu"]);
    for experiment in experiments::TABLE.iter().filter(|experiment| experiment.chapter() == "cpu") {
        assert!(pages.contains(&format!("{}: {}", experiment.id, experiment.title)), "{}", experiment.id);
    }
}

#[test]
fn gates_and_constants_are_explained() {
    let tables = data(&["explain", "--gates", "--constants"]);
    assert!(tables.contains("| G11 | the result has at least 5 launches |"), "{tables}");
    assert!(tables.contains("| COUNTER_READING | 30 | 15 to 60 | cycles |"), "{tables}");
    refusal(&["explain", "cpu", "--gates"]);
}

#[test]
fn the_list_has_every_experiment() {
    let listing = data(&["list"]);
    let entries = json(&["list", "--json"]);
    let entries = entries.as_array().unwrap();
    assert_eq!(entries.len(), experiments::TABLE.len());
    for (entry, experiment) in entries.iter().zip(experiments::TABLE) {
        assert!(listing.contains(experiment.id), "{listing}");
        assert_eq!(entry["id"], experiment.id);
        assert_eq!(entry["chapter"], experiment.chapter());
        assert_eq!(entry["metrics"].as_array().unwrap().len(), experiment.publishes.len());
        let runs = entry["runs_here"].as_bool().unwrap();
        assert_eq!(runs, entry["reason"].is_null(), "what cannot run here says why: {entry}");
    }
}

#[test]
fn the_machine_is_described_in_words_and_in_json() {
    let description = data(&["machine", "--all"]);
    assert!(description.contains("fingerprint") && description.contains("/proc/cpuinfo"), "{description}");
    let machine = json(&["machine", "--json"]);
    for part in ["fingerprint", "cpu", "caches", "memory", "storage", "network", "kernel", "limits"] {
        assert!(!machine[part].is_null(), "{part}");
    }
    assert!(description.contains(machine["fingerprint"].as_str().unwrap()));
}

#[test]
fn captured_machines_are_described() {
    for name in MACHINES {
        let root = tree(name);
        let machine = json(&["machine", "--json", "--root", root.to_str().unwrap(), "--scratch", "/home"]);
        let description = data(&["machine", "--root", root.to_str().unwrap(), "--scratch", "/home"]);
        assert!(description.contains(machine["fingerprint"].as_str().unwrap()), "{name}: {description}");
    }
    let empty = tempfile::tempdir().unwrap();
    data(&["machine", "--root", empty.path().to_str().unwrap()]);
    refusal(&["machine", "--root", "/no/such/directory"]);
    refusal(&["machine", "--root", "/proc/cpuinfo"]);
}

#[test]
fn the_doctor_looks_and_changes_nothing() {
    let here = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| sysdyno(words).current_dir(here.path()).output().unwrap();
    let _alone = runs::measuring();
    let spoken = run(&["doctor"]);
    assert!(spoken.status.success(), "{}", told(&spoken));
    assert!(text(&spoken.stdout).contains("Nothing was changed"), "{}", told(&spoken));
    let printed = run(&["doctor", "--json"]);
    let checks: Value = serde_json::from_slice(&printed.stdout).unwrap();
    for check in checks.as_array().unwrap() {
        let (ok, known) = (check["ok"].as_bool().unwrap(), check["known"].as_bool().unwrap());
        assert!(!ok || known, "what could not be looked at is not fine: {check}");
        assert!(check["detail"].as_str().unwrap().len() > 5, "{check}");
        assert!(text(&spoken.stdout).contains(check["check"].as_str().unwrap()), "{check}");
    }
    for name in ["governor", "load", "steal", "quota", "affinity", "noise", "neighbours", "clock", "mitigations"] {
        assert!(checks.as_array().unwrap().iter().any(|check| check["check"] == name), "{name}");
    }
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0, "nothing was written");
    refusal(&["doctor", "--cpu", "9999"]);
}

#[test]
fn predictions_come_without_measuring() {
    let printed = json(&["predict", "--claims", "--json"]);
    assert!(printed.as_array().unwrap().len() > 50);
    let spoken = data(&["predict", "cpu.loop", "--claims"]);
    assert!(spoken.contains("cpu.loop.overhead") && !spoken.contains("cpu.timer"), "{spoken}");
    assert!(spoken.contains("code=registers"), "{spoken}");
    refusal(&["predict", "--cpu", "9999"]);
}

#[test]
fn predictions_from_a_run_use_its_figures() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("records/guest-zen4-2cpu-chapters");
    let bases = |words: &[&str]| {
        let printed = json(words);
        printed.as_array().unwrap().iter().flat_map(|one| one["terms"].as_array().unwrap().clone()).collect::<Vec<_>>()
    };
    let log = place.join("log.jsonl");
    for from in [&place, &log] {
        let known = json(&["predict", "cpu.loop", "--json", "--from", from.to_str().unwrap()]);
        let bare = json(&["predict", "cpu.loop", "--claims", "--json"]);
        assert_ne!(known, bare, "the measured cycle time replaces the claimed one");
    }
    assert!(!bases(&["predict", "cpu.loop", "--claims", "--json"]).is_empty());
    refusal(&["predict", "--from", "/no/such/run"]);
}

#[test]
fn predictions_from_a_run_use_what_it_measured_for_predictions_alone() {
    let golden = include_str!("../golden/complete.jsonl");
    let is_of = |line: &Value| line["experiment"] == "cpu.frequency";
    // The same run of `cpu.loop` alone.
    let lines = golden.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let alone = lines.filter(|line| line["record"] != "prediction" || !is_of(line)).map(|mut line| {
        if let Some(steps) = line["steps"].as_array_mut() {
            steps.retain(|step| !is_of(step));
        }
        if line["record"] == "launch" && is_of(&line) {
            line["first"] = true.into();
        }
        format!("{line}\n")
    });
    let from = |log: &str| {
        let run = tempfile::tempdir().unwrap();
        fs::write(run.path().join("log.jsonl"), log).unwrap();
        json(&["predict", "cpu.loop", "--json", "--from", run.path().to_str().unwrap()])
    };
    assert_eq!(from(&alone.collect::<String>()), from(golden));
}

#[test]
fn completions_name_the_verbs_and_flags_of_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = data(&["completions", shell]);
        for word in ["sysdyno", "explain", "rigorous", "resume"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

/// Feeds text to a program and returns what it says.
fn feed(program: &str, words: &[&str], input: &str) -> Output {
    let started =
        Command::new(program).args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.unwrap_or_else(|error| panic!("{program} is needed by this test: {error}"));
    let mut pipe = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || pipe.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join();
    output
}

#[test]
fn the_completions_of_bash_are_a_program_that_bash_accepts() {
    let output = feed("bash", &["-n"], &data(&["completions", "bash"]));
    assert!(output.status.success() && output.stderr.is_empty(), "{}", told(&output));
}

#[test]
fn the_manual_renders_without_warnings() {
    let manual = data(&["man"]);
    let rendered = feed("groff", &["-man", "-ww", "-Tutf8", "-K", "utf8", "-P-cbou"], &manual);
    assert!(rendered.status.success(), "{}", told(&rendered));
    assert_eq!(text(&rendered.stderr), "", "groff warns");
    let page = text(&rendered.stdout);
    for verb in VERBS {
        assert!(page.contains(&format!("SYSDYNO {}", verb.to_uppercase())), "{verb}");
    }
    let example =
        page.lines().any(|line| line.contains("sysdyno run cpu --json -  ") && line.contains("standard output"));
    assert!(example, "an example keeps its line");
    assert!(page.contains("--rigorous") && page.contains("--resume"), "flags are in the manual");
}

#[test]
fn each_verb_has_a_page_of_the_manual() {
    for verb in VERBS {
        let page = data(&["man", verb]);
        assert!(page.starts_with(".ie") && page.contains(&format!(".TH sysdyno-{verb} 1")), "{page}");
        let rendered = feed("groff", &["-man", "-ww", "-Tutf8", "-K", "utf8", "-P-cbou"], &page);
        assert_eq!(text(&rendered.stderr), "", "{verb}: groff warns");
        assert!(text(&rendered.stdout).contains("SEE ALSO"), "{verb}");
    }
    for unknown in ["nothing", "launch"] {
        let refused = output(&["man", unknown]);
        assert_eq!(refused.status.code(), Some(2), "{}", told(&refused));
        assert!(text(&refused.stderr).contains("hint: "), "{}", told(&refused));
    }
}

#[test]
fn the_version_names_the_target() {
    let long = data(&["--version"]);
    let target = format!("target: {}-", std::env::consts::ARCH);
    assert_eq!(long.lines().next(), Some(concat!("sysdyno ", env!("CARGO_PKG_VERSION"))), "{long}");
    assert!(long.lines().any(|line| line.starts_with(&target)), "{long}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let report = finished_run().to_str().unwrap();
    for words in [&["explain", "cpu.timer"][..], &["list"], &["machine", "--json"], &["report", report]] {
        let mut child = sysdyno(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0_u8; 1];
        let mut pipe = child.stdout.take().unwrap();
        pipe.read_exact(&mut first).unwrap();
        drop(pipe);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {}", told(&output));
    }
}

#[test]
fn a_reader_that_was_never_there_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = sysdyno(&["machine", "--json"]).stdout(writer).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", told(&output));
}

#[test]
fn an_answer_that_does_not_arrive_accuses_no_node() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let unheard = sysdyno(&["check", "--time", "0.1s"]).stdout(full).output().unwrap();
    assert_eq!(unheard.status.code(), Some(3), "{}", told(&unheard));
    // Code 2 of a plug-in is critical.
    let unwritten = output(&["check", "--time", "0.1s", "--nagios", "--textfile", "/proc/no/file"]);
    assert_eq!(unwritten.status.code(), Some(3), "{}", told(&unwritten));
    assert!(text(&unwritten.stdout).starts_with("SYSDYNO UNKNOWN"), "{}", told(&unwritten));
}

#[test]
fn a_full_standard_output_is_a_failure() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = sysdyno(&["list", "--json"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(text(&output.stderr).contains("cannot write to standard output"), "{}", told(&output));
}

#[test]
fn a_launch_by_hand_is_refused_with_advice() {
    for input in ["", "{}", "the request is invalid", &"x".repeat(3 << 20)] {
        let output = feed(runs::PROGRAM, &["launch"], input);
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        assert!(text(&output.stderr).contains("hint: "), "{}", told(&output));
    }
}

#[test]
fn nothing_is_written_beside_what_was_asked_for() {
    let here = tempfile::tempdir().unwrap();
    let quiet = [
        &["list"][..],
        &["machine"],
        &["predict", "--claims"],
        &["explain", "cpu.loop"],
        &["man"],
        &["run", "--dry-run"],
    ];
    for words in quiet {
        let output = sysdyno(words).current_dir(here.path()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", told(&output));
        assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0, "{words:?} wrote something");
    }
}

#[test]
fn own_predictions_have_a_form_and_are_refused_before_anything_is_measured() {
    let blank = data(&["predict", "--blank"]);
    // A form asks for no cost of a device that few machines have.
    for chapter in experiments::chapters().into_iter().filter(|chapter| *chapter != "gpu") {
        assert!(blank.contains(&format!("\n# ── {chapter} ─")), "{chapter} in {blank}");
    }
    let of_os = data(&["predict", "os", "--blank"]);
    assert!(of_os.contains("\n# system call, ") && !of_os.contains("\"memory."), "{of_os}");
    let count = |form: &str| form.matches("[[prediction]]").count();
    assert!((2..count(&blank)).contains(&count(&of_os)), "{of_os}");
    assert!(count(&data(&["predict", "os", "--blank", "--all"])) > 3 * count(&of_os));
    refusal(&["predict", "--blank", "--json"]);
    let course = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/course.md")).unwrap();
    let example = course.lines().find(|line| line.starts_with("labels = ")).unwrap();
    assert!(data(&["predict", "os.system_call", "--blank", "--all"]).contains(example), "{example}");

    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("mine.toml");
    let path = file.to_str().unwrap();
    let words = ["run", "--dry-run", "--predictions", path];
    assert!(refusal(&words).contains("cannot read the predictions"));
    fs::write(&file, &blank).unwrap();
    assert!(refusal(&words).contains("each entry is blank"));
    let fields = "value = \"\"\nlow = \"\"\nhigh = \"\"\nreason = \"\"";
    let filled = "value = 5\nlow = 1\nhigh = 9\nreason = \"a guess\"";
    fs::write(&file, of_os.replace(fields, filled)).unwrap();
    let said = data(&words);
    let filled_in = count(&of_os);
    assert!(said.contains(&format!("{filled_in} predictions in the file of --predictions, 0 not measured")), "{said}");
    let of_signals = data(&["run", "os.signal", "--dry-run", "--predictions", path]);
    let others = of_os.matches("[[prediction]]").count() - of_os.matches("metric = \"os.signal.").count();
    assert!(of_signals.contains(&format!("{others} not measured by this run")), "{of_signals}");
    fs::write(&file, of_os.replacen(fields, &filled.replace("= 9", "= 4"), 1)).unwrap();
    let complaint = refusal(&words);
    let line = 1 + of_os.lines().position(|line| line.starts_with("metric")).unwrap();
    assert!(complaint.contains(&format!("line {line}: ")) && complaint.contains("outside its range"), "{complaint}");
    let run = place.path().join("run");
    let words = ["run", "os.signal", "--quick", "--predictions", path, "-o", run.to_str().unwrap()];
    assert!(refusal(&words).contains("outside its range") && !run.exists());
    refusal(&["run", "--resume", run.to_str().unwrap(), "--predictions", path]);
}

#[test]
fn a_report_can_leave_its_analysis_out_and_show_it_later() {
    let run = finished_run().to_str().unwrap();
    let report = |words: &[&str]| data(&[&["report", run], words].concat());
    let verdict = "Verdict. ";
    assert!(report(&[]).contains(verdict) && !report(&["--hide-analysis"]).contains(verdict));
    for format in ["html", "summary"] {
        let [shown, hidden] = [&["--format", format][..], &["--format", format, "--hide-analysis"]]
            .map(|words| data(&[&["report", run], words].concat()));
        assert!(hidden.len() < shown.len() && hidden.contains("measured"), "{format}");
    }
    assert!(report(&[]).contains(verdict));
    assert!(refusal(&["report", run, "--hide-analysis", "--format", "json"]).contains("this format has data"));
}
