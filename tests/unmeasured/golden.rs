//! Stored logs of every format version, and what is made of them today.
//!
//! `tests/golden/*.jsonl` are logs of real runs, shortened; names and times are neutral and the machine is one of the
//! captured ones. They are never changed: a log that was readable stays readable, and a new format version adds logs.
//! The snapshots beside them are what this version makes of them. A change of theirs is a change that users see; when it
//! is meant, `INSTA_UPDATE=always cargo test --test unmeasured golden` writes it down.
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sysdyno::testing::assemble;
use sysdyno::testing::report::page::{Page, Piece};
use sysdyno::testing::report::{content, csv, html, json, markdown, terminal, text};
use sysdyno::testing::results::document::{Document, Outcome};
use sysdyno::testing::results::evidence::Remark;
use sysdyno::testing::results::log::{self, Log, LogWriter};
use sysdyno::testing::results::problem::Problem;
use sysdyno::testing::results::quantity::Labels;

/// Every stored log.
const LOGS: [&str; 5] = ["complete", "died", "failed_launch", "skipped_step", "truncated"];

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.jsonl"))
}

fn read(name: &str) -> Log {
    log::read(&place(name)).unwrap_or_else(|problem| panic!("{name} is not readable any more: {problem}"))
}

fn document(name: &str) -> Document {
    assemble::document(&read(name))
}

/// A report without what is not computed from the log: methodology texts, the captured machine.
fn short(name: &str) -> Page {
    let mut page = content::page(&document(name));
    page.parts.retain(|part| part.id != "machine");
    for part in &mut page.parts {
        part.pieces.retain(|piece| !matches!(piece, Piece::Prose(_)));
    }
    page
}

fn compare(check: impl FnOnce()) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(check);
}

#[test]
fn every_stored_log_is_looked_at() {
    let mut stored: Vec<String> = fs::read_dir(place("x").parent().unwrap())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".jsonl").map(str::to_owned))
        .collect();
    stored.sort();
    assert_eq!(stored, LOGS);
}

/// Words with the form of a metric's name: at least three lower-case parts between full stops.
fn keys(text: &str) -> Vec<&str> {
    let is_part = |part: &str| {
        let letters = part.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_');
        !part.is_empty() && letters
    };
    let words = text.split(|letter: char| letter.is_whitespace() || "()[]`,;:".contains(letter));
    // Names of files have keys, and slashes or endings.
    words
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| word.split('.').count() > 2 && word.split('.').all(is_part))
        .collect()
}

#[test]
fn the_main_document_names_results_in_words() {
    assert_eq!(keys("The key os.context_switch.time. Not a.b, /x/y.z.w or v1.2.3."), ["os.context_switch.time"]);
    for name in LOGS {
        let text = text::render(&content::brief(&document(name), None, content::OtherPages::Beside), None);
        assert_eq!(keys(&text), Vec::<&str>::new(), "{name}");
    }
}

#[test]
fn the_result_of_a_complete_log() {
    let mut value: Value = serde_json::to_value(document("complete")).unwrap();
    // The machine is repeated as it stands in the log; the sentences stand in the report.
    value.as_object_mut().unwrap().remove("machine");
    for section in value["experiments"].as_array_mut().unwrap() {
        section.as_object_mut().unwrap().remove("analysis");
    }
    compare(|| insta::assert_json_snapshot!("result_of_complete", value));
}

#[test]
fn reports_of_all_stored_logs() {
    for name in LOGS {
        compare(|| {
            insta::assert_snapshot!(format!("report_of_{name}"), text::render(&short(name), None));
        });
    }
}

#[test]
fn one_report_in_every_form() {
    let page = short("failed_launch");
    compare(|| {
        insta::assert_snapshot!("html_of_failed_launch", html::render(&page).replace("><", ">\n<"));
        insta::assert_snapshot!("markdown_of_failed_launch", markdown::render(&page));
        insta::assert_snapshot!("csv_of_failed_launch", csv::render(&document("failed_launch")).unwrap());
    });
}

#[test]
fn the_summary_of_a_complete_log() {
    compare(|| insta::assert_snapshot!("summary_of_complete", terminal::summary(&document("complete"), None)));
}

#[test]
fn a_complete_log_has_everything() {
    let log = read("complete");
    assert_eq!((log.rounds, log.resumed, log.damage.as_deref()), (6, 0, None));
    assert!(log.finish.as_ref().unwrap().1);
    assert!(log.launches.iter().all(log::Launch::succeeded));
    let document = document("complete");
    assert!(document.run.complete);
    assert!(document.experiments.iter().all(|section| section.outcome == Outcome::Measured));
}

#[test]
fn a_log_that_ends_in_the_middle_says_so_and_keeps_its_figures() {
    let log = read("died");
    assert!(log.finish.is_none() && log.damage.is_none());
    let document = document("died");
    assert!(!document.run.complete && document.run.finished.is_none());
    assert!(document.run.ended.contains("no last line"), "{}", document.run.ended);
    assert_eq!(document.run.rounds, 2);
    assert!(document.experiments.iter().all(|section| !section.metrics.is_empty()));
    assert!(terminal::summary(&document, None).contains("The run is not complete"));
}

#[test]
fn a_failed_launch_is_named_and_does_not_count() {
    let document = document("failed_launch");
    let section = document.experiments.iter().find(|section| section.id == "cpu.loop").unwrap();
    assert_eq!((section.outcome, section.launches), (Outcome::Measured, 1));
    assert!(section.failed_launches[0].contains("SIGKILL"), "{:?}", section.failed_launches);
    assert!(terminal::summary(&document, None).contains("the launch was killed by SIGKILL"));
}

#[test]
fn a_skipped_step_has_its_reason_and_its_hint() {
    let document = document("skipped_step");
    let section = document.experiments.iter().find(|section| section.id == "cpu.loop").unwrap();
    assert_eq!((section.outcome, section.metrics.len()), (Outcome::Skipped, 0));
    assert_eq!(section.reason.as_deref(), Some("this machine has no loop"));
    let summary = terminal::summary(&document, None);
    assert!(summary.contains("cpu.loop skipped: this machine has no loop\n  hint: buy another"), "{summary}");
}

#[test]
fn a_figure_that_launches_could_not_take_has_their_reason() {
    let mut log = read("complete");
    for launch in log.launches.iter_mut().filter(|launch| launch.experiment == "cpu.loop") {
        launch.series.retain(|series| series.labels.get("code") != Some("memory"));
        let remarks = &mut launch.evidence.as_mut().unwrap().remarks;
        for (code, why) in [("memory", "there is no memory"), ("memory", "a later reason"), ("registers", "measured")] {
            remarks.push(Remark::unavailable("cpu.loop.overhead", &Labels::of([("code", code)]), &Problem::new(why)));
        }
        // So older versions wrote it, of a part that was measured and of one that was not.
        for (what, why) in [("cannot.compiled", "measured"), ("cannot.other_loop", "there is no such loop")] {
            remarks.push(Remark::of(what, &why));
        }
    }
    let document = assemble::document(&log);
    let section = document.experiments.iter().find(|section| section.id == "cpu.loop").unwrap();
    let found = section.rejected.iter().map(|found| format!("{} {}: {}", found.name, found.labels, found.reason));
    let expected =
        ["cpu.loop.overhead code=memory: there is no memory", "cpu.loop part=other_loop: there is no such loop"];
    assert_eq!(found.collect::<Vec<String>>(), expected);
}

#[test]
fn a_section_without_any_figure_has_the_hint_of_the_first_that_has_one() {
    let mut log = read("complete");
    let hints = [("memory", None), ("registers", Some("buy another")), ("compiled", Some("a later hint"))];
    for launch in log.launches.iter_mut().filter(|launch| launch.experiment == "cpu.loop") {
        launch.series.clear();
        let remarks = hints.iter().map(|&(code, hint)| {
            let why = Problem { what: format!("there is no {code}"), hint: hint.map(str::to_owned) };
            Remark::unavailable("cpu.loop.overhead", &Labels::of([("code", code)]), &why)
        });
        launch.evidence.as_mut().unwrap().remarks.extend(remarks);
    }
    let document = assemble::document(&log);
    let section = document.experiments.iter().find(|section| section.id == "cpu.loop").unwrap();
    assert_eq!((section.outcome, section.hint.as_deref()), (Outcome::Skipped, Some("buy another")), "{section:?}");
    assert!(section.reason.as_ref().unwrap().ends_with("there is no memory"), "{:?}", section.reason);
    assert_eq!(section.rejected[1].why(), "there is no registers (buy another)");
}

#[test]
fn a_truncated_line_is_damage_and_no_error() {
    let log = read("truncated");
    let lines = fs::read_to_string(place("truncated")).unwrap().lines().count();
    assert!(log.damage.as_ref().unwrap().starts_with(&format!("line {lines} ")), "{:?}", log.damage);
    assert!(terminal::summary(&document("truncated"), None).contains("The log is damaged"));
}

#[test]
fn a_truncated_line_is_cut_off_before_going_on() {
    let copy = tempfile::tempdir().unwrap();
    let file = copy.path().join("log.jsonl");
    fs::copy(place("truncated"), &file).unwrap();
    let before = fs::metadata(&file).unwrap().len();
    let cut = LogWriter::reopen(&file).unwrap().cut_unfinished().unwrap();
    assert!(cut > 0);
    assert_eq!(fs::metadata(&file).unwrap().len(), before - cut);
    assert_eq!(log::read(&file).unwrap().damage, None);
}

#[test]
fn the_same_log_gives_the_same_bytes() {
    for name in LOGS {
        assert_eq!(json::render(&document(name)).unwrap(), json::render(&document(name)).unwrap(), "{name}");
    }
}

#[test]
fn a_result_survives_being_read_back() {
    for name in LOGS {
        let document = document(name);
        let text = json::render(&document).unwrap();
        assert_eq!(serde_json::from_str::<Document>(&text).unwrap(), document, "{name}");
    }
}
