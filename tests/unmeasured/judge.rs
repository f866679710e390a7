//! `sysdyno judge`, by the real program: its answer on one screen and as a page, a class, and what it refuses.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::support::runs::{output, text, told};
use crate::support::schemas::{assert_valid, validator};

/// A stored run.
const RUN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/records/guest-zen4-2cpu-quiet-hour/node.json");

/// What the program says of files with these tables, by a stored run.
fn judged(files: &[(&str, &str)], words: &[&str]) -> Output {
    let keep = tempfile::tempdir().unwrap();
    for (name, table) in files {
        fs::create_dir_all(keep.path().join(name).parent().unwrap()).unwrap();
        fs::write(keep.path().join(name), table).unwrap();
    }
    let place = match files {
        [(name, _)] => keep.path().join(name),
        _ => keep.path().to_owned(),
    };
    output(&[&["judge", place.to_str().unwrap(), "--run", RUN], words].concat())
}

/// A switch of 2.06 µs taken for 4.12 µs, a system call that agrees, and one number without a result.
const ONE: &str = "name,value,unit,labels\n\
    \"switch, same CPU\",4.12,us,\n\
    system call,80,ns,\n\
    network.round_trip.time,4,ms,path=remote\n";

#[test]
fn a_number_that_is_off_has_its_causes_on_the_screen() {
    let output = judged(&[("mine.csv", ONE)], &[]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let screen = text(&output.stdout);
    for part in [
        "3 numbers: 1 agree, 1 off, 0 doubtful, 1 without a result",
        "this run 2.062 µs (×2.00)",
        "likely: A round trip",
    ] {
        assert!(screen.contains(part), "{part} in\n{screen}");
    }
    assert!(screen.lines().count() <= 24 && screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    let all = text(&judged(&[("mine.csv", ONE)], &["--all"]).stdout);
    assert!(all.contains("system call 80.00 ns") && all.contains("no result"), "{all}");
}

#[test]
fn numbers_that_agree_are_no_failure() {
    let output = judged(&[("mine.csv", "name,value,unit\nsystem call,70,ns\n")], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
}

#[test]
fn a_class_names_files_and_mistakes() {
    let wrong = "name,value,unit\n\"switch, same CPU\",4.1,us\nL1 load,0.3,ns\n";
    let files =
        [("a.csv", wrong), ("b.csv", wrong), ("c.csv", "name,value,unit\nL1 load,1.1,ns\n"), ("d.csv", "nothing")];
    let screen = text(&judged(&files, &[]).stdout);
    for part in
        ["5 numbers in 3 files", "a.csv: 2 of 2 numbers", "2 files: The loads did not wait", "not read", "d.csv"]
    {
        assert!(screen.contains(part), "{part} in\n{screen}");
    }
    let page = text(&judged(&files, &["--format", "html"]).stdout);
    for part in ["Whose numbers are right?", "a.csv, b.csv", "independent loads", "d.csv"] {
        assert!(page.contains(part), "{part} in the page");
    }
    let value: Value = serde_json::from_slice(&judged(&files, &["--format", "json"]).stdout).unwrap();
    assert_valid(&validator("judgement.schema.json"), &value, "the judgement of a class");
    let markdown = text(&judged(&files, &["--format", "markdown"]).stdout);
    assert!(markdown.contains("| L1 load |"), "{markdown}");
}

#[test]
fn a_hand_in_is_a_directory_and_the_run_in_it_is_left_out() {
    let wrong = "name,value,unit\n\"switch, same CPU\",4.1,us\n";
    let run = fs::read_to_string(RUN).unwrap();
    let files = [
        ("student-1/mine.csv", wrong),
        ("student-1/node.json", &run),
        ("student-1/right.c", "int main(void) { return 0; }"),
        ("student-2/mine.csv", wrong),
    ];
    let screen = text(&judged(&files, &[]).stdout);
    for part in
        ["2 numbers in 2 files", "student-1/mine.csv: 1 of 1", "student-2/mine.csv", "left out", "student-1/node.json"]
    {
        assert!(screen.contains(part), "{part} in\n{screen}");
    }
    let page = text(&judged(&files, &["--format", "html"]).stdout);
    for part in ["student-1/mine.csv, student-2/mine.csv", "Left out: 1 run of sysdyno"] {
        assert!(page.contains(part), "{part} in the page");
    }
    let value: Value = serde_json::from_slice(&judged(&files, &["--format", "json"]).stdout).unwrap();
    assert_valid(&validator("judgement.schema.json"), &value, "the judgement of hand-ins");
    assert_eq!(value["left_out"][0], "student-1/node.json");
}

#[test]
fn what_published_prints_is_judged() {
    let keep = tempfile::tempdir().unwrap();
    let file = keep.path().join("002.json");
    fs::write(&file, output(&["published", "002", "--json"]).stdout).unwrap();
    let words = ["judge", file.to_str().unwrap(), "--run", RUN, "--other-machine", "--format", "json"];
    let value: Value = serde_json::from_slice(&output(&words).stdout).unwrap();
    let numbers = value["sources"][0]["numbers"].as_array().unwrap();
    assert!(numbers.len() > 50 && value["other_machine"] == true, "{} numbers", numbers.len());
    let first = numbers.iter().find(|number| number["name"] == "Load latency, L1").unwrap();
    assert_eq!(first["causes"][0]["trap"], "independent_loads", "{first}");
}

#[test]
fn what_cannot_be_judged_is_refused() {
    let refused = |output: Output, part: &str| {
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        assert!(output.stdout.is_empty() && said.contains(part) && said.contains("hint: "), "{said}");
    };
    refused(judged(&[("mine.csv", "name,value,unit\nsystem cal,1,ns\n")], &[]), "Did you mean 'system call'");
    let misspelt = "name,value,unit\nos.system_call.time call=getpidd,60,ns\n";
    refused(judged(&[("mine.csv", misspelt)], &[]), "has no call=getpidd. Did you mean 'call=getpid'");
    refused(judged(&[("mine.csv", "name,value,unit\ngetppid,60,ns\n")], &[]), "'os.system_call.time call=getppid'");
    refused(judged(&[("mine.csv", "")], &[]), "mine.csv is empty");
    refused(judged(&[("mine.csv", "name,value,unit\n")], &[]), "has no number");
    refused(output(&["judge", "/proc/nonexistent/mine.csv", "--run", RUN]), "cannot read");
    refused(
        output(&["judge", Path::new(RUN).parent().unwrap().join("no").to_str().unwrap(), "--run", RUN]),
        "cannot read",
    );
    let keep = tempfile::tempdir().unwrap();
    refused(output(&["judge", keep.path().to_str().unwrap(), "--run", RUN]), "no CSV and no JSON file");
    refused(output(&["judge"]), "required");
    let blank = output(&["judge", "--blank"]);
    assert!(blank.status.success() && text(&blank.stdout).contains("name,value,unit"), "{}", told(&blank));
}

#[test]
fn a_fleet_of_tables_is_sent_to_judge() {
    let keep = tempfile::tempdir().unwrap();
    let table = keep.path().join("student-1/mine.csv");
    fs::create_dir(table.parent().unwrap()).unwrap();
    fs::write(&table, ONE).unwrap();
    for place in [table.as_path(), table.parent().unwrap(), keep.path()] {
        let output = output(&["fleet", place.to_str().unwrap()]);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("hint: `sysdyno judge DIR`"), "{said}");
    }
    let of_fleet = output(&["fleet", keep.path().to_str().unwrap(), "--run", RUN, "--format", "markdown"]);
    let of_judge = output(&["judge", keep.path().to_str().unwrap(), "--run", RUN, "--format", "markdown"]);
    assert_eq!((text(&of_fleet.stdout), of_fleet.status), (text(&of_judge.stdout), of_judge.status));
    assert!(text(&of_fleet.stdout).contains("mine.csv"), "{}", told(&of_fleet));
    let table = output(&["fleet", keep.path().to_str().unwrap(), "--run", RUN, "--format", "csv"]);
    assert!(text(&table.stderr).contains("has no CSV form"), "{}", told(&table));
}
