//! The course page as a student follows it: every command, in an empty directory.

use std::fs;
use std::process::{Command, Stdio};

use crate::support::runs::{PROGRAM, state, told};

/// The blocks of the page in their order, each with its language and the last words before it.
fn blocks(page: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once("\n```") {
        let (language, body) = after.split_once('\n').unwrap();
        let (text, end) = body.split_once("\n```").unwrap();
        let line = before.trim_end().lines().last().unwrap_or_default();
        found.push((language.to_owned(), text.to_owned(), line.to_owned()));
        rest = end;
    }
    found
}

/// The file that a line before a block names: "Save this as `wrong.c`:".
fn file_of(line: &str) -> Option<&str> {
    line.split_once("Save this as `")?.1.split_once('`').map(|(name, _)| name)
}

#[test]
fn every_command_of_the_course_works() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/course.md")).unwrap();
    let keep = tempfile::tempdir().unwrap();
    let tools = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(PROGRAM, tools.path().join("sysdyno")).unwrap();
    let path = format!("{}:{}", tools.path().display(), std::env::var("PATH").unwrap());
    let mut commands = 0;
    for (language, text, line) in blocks(&page) {
        if let Some(name) = file_of(&line) {
            fs::write(keep.path().join(name), &text).unwrap();
        } else if language == "toml" {
            fs::write(keep.path().join("mine.toml"), &text).unwrap();
        }
        if language != "sh" {
            continue;
        }
        commands += text.lines().count();
        // A lock of its own: the one of the page can be in use.
        let text = text.replace("/srv/course", ".");
        let mut command = Command::new("bash");
        command.args(["-euc", &text]).current_dir(keep.path()).env("PATH", &path).env("XDG_STATE_HOME", state());
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{text}\n{}", told(&output));
    }
    assert!(commands > 12, "{commands} commands");
    let report = |words: &[&str]| {
        let output = Command::new(PROGRAM).args(words).current_dir(keep.path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(
        report(&["report", "predicted", "--format", "text"]).contains("student 7"),
        "the report scores the predictions"
    );
    let judged: serde_json::Value =
        serde_json::from_str(&report(&["judge", "mine.csv", "--run", "predicted", "--format", "json"])).unwrap();
    let numbers = judged["sources"][0]["numbers"].as_array().unwrap();
    let ratio = |place: usize| numbers[place]["ratio"].as_f64().unwrap();
    // One call with the clock around it costs more than a call among 10,000, on any machine.
    assert!(numbers.len() == 2 && ratio(0) > ratio(1), "{judged}");
    let class = fs::read_to_string(keep.path().join("class.html")).unwrap();
    assert!(class.contains("student-7/mine.csv"), "the page of the class names its files");
}
