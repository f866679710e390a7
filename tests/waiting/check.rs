//! The check of one node: facts and results against limits that the test sets, and the forms of the answer.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::support::runs::{ended, measuring, output, sysdyno, text, told};

/// The compact form of a run of this machine.
fn node() -> &'static Value {
    static NODE: OnceLock<Value> = OnceLock::new();
    NODE.get_or_init(|| {
        let keep = tempfile::tempdir().unwrap();
        let place = keep.path().join("run");
        let words = ["run", "--quick", "--time=1s", "--no-history", "--json", "node", "-", "cpu.loop", "--output"];
        let output = sysdyno(&words).arg(&place).output().unwrap();
        assert!(ended(&output), "{}", told(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    })
}

/// Limits with one result, `factor` times what a loop may take here, and with facts.
fn limits(place: &Path, factor: f64, facts: &Value) -> PathBuf {
    limits_of(place, &json!({"code": "registers", "body": "empty"}), factor, facts)
}

fn limits_of(place: &Path, labels: &Value, factor: f64, facts: &Value) -> PathBuf {
    let limit = json!({
        "axis": "core", "metric": "cpu.loop.overhead", "labels": labels, "unit": "ns",
        "better": "lower", "low": 0.0001 * factor, "median": 100.0 * factor, "high": 1000.0 * factor,
    });
    let model = json!({
        "fingerprint": node()["node"]["fingerprint"], "model": "", "profile": "quick", "build": "", "methods": "", "nodes": 20,
        "limits": [limit], "facts": facts,
    });
    let file = place.join("accepted.json");
    fs::write(&file, json!({"format": "sysdyno-accepted/1", "models": [model]}).to_string()).unwrap();
    file
}

fn check(file: &Path, more: &[&str]) -> Output {
    let words: Vec<&str> = ["check", "--accepted", file.to_str().unwrap(), "--time", "4s"]
        .into_iter()
        .chain(more.iter().copied())
        .collect();
    output(&words)
}

fn assert_one_line(output: &Output, begins: &str) {
    let said = text(&output.stdout);
    assert!(said.starts_with(begins), "{}", told(output));
    assert_eq!(said.lines().count(), 1, "{}", told(output));
    let line = said.lines().next().unwrap();
    let line = line.split(" | ").next().unwrap();
    assert!(line.chars().count() <= 80, "{line}");
}

#[test]
fn a_fact_that_is_not_accepted_is_named_at_once() {
    let keep = tempfile::tempdir().unwrap();
    let release = node()["facts"]["Kernel: release"].as_str().unwrap();
    let facts = |value: &str| json!([{"fact": "Kernel: release", "values": [value]}]);
    let output = check(&limits(keep.path(), 1.0, &facts("0.0.1")), &["--facts"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert_one_line(&output, &format!("sysdyno: Kernel: release is {release}, not 0.0.1"));
    let output = check(&limits(keep.path(), 1.0, &facts(release)), &["--facts"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert_one_line(&output, "sysdyno: ok, 1 fact");
}

#[test]
fn limits_in_a_pipe_are_not_waited_for() {
    let keep = tempfile::tempdir().unwrap();
    let pipe = keep.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let output = check(&pipe, &[]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(text(&output.stderr).contains("it is not a regular file"), "{}", told(&output));
}

#[test]
fn what_is_missing_is_undecided() {
    let keep = tempfile::tempdir().unwrap();
    let file = limits(keep.path(), 1.0, &json!([]));
    let output = check(&file, &[]);
    assert_eq!(output.status.code(), Some(3), "no such labels: {}", told(&output));
    assert_one_line(&output, "sysdyno: undecided, 1 of 1 results missing");
    let other = fs::read_to_string(&file).unwrap().replace(node()["node"]["fingerprint"].as_str().unwrap(), "another");
    fs::write(&file, other).unwrap();
    for (more, code) in [(vec![], 3), (vec!["--lenient"], 0), (vec!["--nagios"], 3)] {
        let output = check(&file, &more);
        assert_eq!(output.status.code(), Some(code), "{}", told(&output));
        assert!(text(&output.stdout).contains("the limits know no machine of this model"), "{}", told(&output));
    }
}

/// A check that could not look: the answer is undecided in every form, and no old answer stays.
#[test]
fn what_was_not_looked_at_is_undecided_in_every_form() {
    let keep = tempfile::tempdir().unwrap();
    let file = keep.path().join("accepted.json");
    let state = keep.path().join("state.prom");
    let (file_word, state_word) = (file.to_str().unwrap(), state.to_str().unwrap());
    let no_time = output(&["check", "--time", "0.1s"]);
    assert_eq!(no_time.status.code(), Some(3), "{}", told(&no_time));
    assert_one_line(&no_time, "sysdyno: undecided, no experiment fits into 0.1 s");
    for limits in [None, Some("{"), Some("{\"format\": \"another\", \"models\": []}")] {
        if let Some(limits) = limits {
            fs::write(&file, limits).unwrap();
        }
        fs::write(&state, "sysdyno_check_status 0\n").unwrap();
        let plain = output(&["check", "--accepted", file_word, "--textfile", state_word]);
        assert_eq!(plain.status.code(), Some(2), "{}", told(&plain));
        assert!(fs::read_to_string(&state).unwrap().contains("\nsysdyno_check_status 3\n"), "{}", told(&plain));
        let plug_in = output(&["check", "--accepted", file_word, "--nagios"]);
        assert_eq!(plug_in.status.code(), Some(3), "{}", told(&plug_in));
        assert_one_line(&plug_in, "SYSDYNO UNKNOWN - undecided, cannot read the limits in ");
    }
    let limits = |facts: Value| limits(keep.path(), 1.0, &facts);
    let open = check(&limits(json!([{"fact": "Kernel: release", "values": []}])), &["--facts"]);
    assert_eq!(open.status.code(), Some(3), "{}", told(&open));
    assert_one_line(&open, "sysdyno: undecided, the limits accept no value of Kernel: release");
    let none = check(&limits(json!([])), &["--facts"]);
    assert_eq!(none.status.code(), Some(3), "{}", told(&none));
}

/// Busy tasks, which end with this value.
struct Spinners(Vec<Child>);

impl Spinners {
    fn start(count: usize) -> Self {
        let spin = |_| Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap();
        Spinners((0..count).map(spin).collect())
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for spinner in &mut self.0 {
            let _ = spinner.kill();
            let _ = spinner.wait();
        }
    }
}

/// No loop can keep these limits. A busy task leaves the loop a CPU of its own where there are two. Many busy tasks do not.
#[test]
fn a_disturbed_node_is_not_odd() {
    let keep = tempfile::tempdir().unwrap();
    let metrics =
        node()["experiments"].as_array().unwrap().iter().filter_map(|found| found["metrics"].as_array()).flatten();
    let figure = metrics.filter(|found| found["name"] == "cpu.loop.overhead").find_map(|found| found["figures"].get(0));
    let labels = figure.expect("a loop was measured")["labels"].as_str().unwrap();
    let labels: BTreeMap<&str, &str> = labels.split(' ').map(|pair| pair.split_once('=').unwrap()).collect();
    let file = limits_of(keep.path(), &json!(labels), 1e-6, &json!([]));
    let _turn = measuring();
    let quiet = check(&file, &[]);
    assert_ne!(quiet.status.code(), Some(0), "the limits cannot be kept: {}", told(&quiet));
    for count in [1, 8] {
        let _spinners = Spinners::start(count);
        let output = check(&file, &[]);
        assert_eq!(output.status.code(), Some(3), "{count}: {}", told(&output));
        assert_one_line(&output, "sysdyno: undecided, ");
    }
}

#[test]
fn without_limits_predictions_judge_and_nothing_stays() {
    let keep = tempfile::tempdir().unwrap();
    let output = sysdyno(&["check", "--time=3s"]).env("TMPDIR", keep.path()).output().unwrap();
    assert!(output.status.code().is_some_and(|code| [0, 1, 3].contains(&code)), "{}", told(&output));
    assert_one_line(&output, "sysdyno: ");
    assert_eq!(keep.path().read_dir().unwrap().count(), 0, "the directory of the check is removed");
}

#[test]
fn files_that_are_no_limits_are_refused() {
    let keep = tempfile::tempdir().unwrap();
    let file = keep.path().join("accepted.json");
    for (content, expected) in
        [("{", "cannot read the limits"), ("{\"format\":\"x\",\"models\":[]}", "its format is x")]
    {
        fs::write(&file, content).unwrap();
        let output = check(&file, &[]);
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        assert!(text(&output.stderr).contains(expected), "{}", told(&output));
    }
    let output = check(&keep.path().join("none"), &[]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    let output = sysdyno(&["check", "--facts"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "facts need limits: {}", told(&output));
    let output =
        check(&limits(keep.path(), 1.0, &json!([])), &["--facts", "--textfile", keep.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
}
