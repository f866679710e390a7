//! The scripts that `sysdyno script` prints: each is accepted by what reads it, says what it needs, and decides as its page says.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::places::executable;
use crate::support::readers::reader;
use crate::support::runs::{output, text, told};

/// Scripts of a shell, with the shell.
const SHELL: [(&str, &str); 5] =
    [("slurm", "bash"), ("slurm-mesh", "bash"), ("slurm-health", "sh"), ("ssh", "bash"), ("nhc", "bash")];

/// All of them.
const SCRIPTS: [&str; 9] =
    ["slurm", "slurm-mesh", "slurm-health", "ssh", "kubernetes", "nhc", "npd", "prometheus", "prometheus-timer"];

fn script(name: &str) -> String {
    let output = output(&["script", name]);
    assert!(output.status.success() && output.stderr.is_empty(), "{name}: {}", told(&output));
    text(&output.stdout)
}

/// Feeds a text to a program.
fn feed(program: &str, words: &[&str], input: &str) -> Output {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{program} is needed by this test: {error}"));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// A program of a test: lines of a shell.
fn program(place: &Path, name: &str, lines: &str) -> PathBuf {
    let file = place.join(name);
    executable(&file, format!("#!/bin/sh\n{lines}\n").as_bytes());
    file
}

#[test]
fn every_script_is_listed_and_written() {
    let listing = text(&output(&["script"]).stdout);
    let listed: Vec<&str> =
        listing.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(listed, SCRIPTS);
    let keep = tempfile::tempdir().unwrap();
    for name in SCRIPTS {
        let file = keep.path().join("a name with spaces");
        let output = output(&["script", name, "-o", file.to_str().unwrap()]);
        assert!(output.status.success() && output.stdout.is_empty(), "{}", told(&output));
        assert_eq!(fs::read_to_string(&file).unwrap(), script(name));
    }
    for words in [&["script", "pbs"][..], &["script", "-o", "x"], &["script", "ssh", "-o", "/no/such/directory/x"]] {
        let output = output(words);
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        assert!(text(&output.stderr).starts_with("error: "), "{}", told(&output));
    }
}

#[test]
fn shells_accept_their_scripts() {
    for (name, shell) in SHELL {
        let script = script(name);
        for (program, words) in [(shell, &["-n"][..]), ("shellcheck", &["-s", shell, "-"])] {
            let output = feed(program, words, &script);
            assert!(output.status.success() && output.stderr.is_empty(), "{name}: {}", told(&output));
        }
    }
}

/// Names of variables of a text.
fn variables(text: &str) -> BTreeSet<&str> {
    let is_part = |letter: char| letter.is_ascii_uppercase() || letter == '_';
    text.match_indices("SYSDYNO")
        .map(|(place, _)| {
            let rest = &text[place..];
            rest.split(|letter: char| !is_part(letter)).next().unwrap_or(rest)
        })
        .collect()
}

#[test]
fn the_head_of_a_script_says_how_to_start_it_and_what_it_reads() {
    for name in SCRIPTS.into_iter().filter(|name| *name != "npd") {
        let script = script(name);
        let (head, body): (Vec<&str>, Vec<&str>) = script.lines().partition(|line| line.starts_with('#'));
        let (head, body) = (head.join("\n"), body.join("\n"));
        assert!(head.contains("sysdyno"), "{name} says how to start it");
        let (said, used) = (variables(&head), variables(&body));
        assert!(used.is_subset(&said), "{name}: {used:?} are not all in the head, which has {said:?}");
        assert!(!script.to_lowercase().contains("secret"), "{name} has no secrets");
    }
}

#[test]
fn kubernetes_accepts_the_job() {
    let keep = tempfile::tempdir().unwrap();
    // The server adds the name to what `kubectl create` sends, and the validator reads it.
    let job = script("kubernetes").replace("  generateName:", "  name: sysdyno-x7\n  generateName:");
    fs::write(keep.path().join("job.yaml"), &job).unwrap();
    let valid = reader("kubernetes-validate", &["--strict", "job.yaml"], keep.path());
    assert!(valid.status.success(), "{}", told(&valid));
    let wrong = job.replace("backoffLimitPerIndex", "backoffLimitByIndex");
    fs::write(keep.path().join("job.yaml"), wrong).unwrap();
    let refused = reader("kubernetes-validate", &["--strict", "job.yaml"], keep.path());
    assert!(!refused.status.success(), "the schema knows the fields: {}", told(&refused));
}

/// Seconds of a duration such as `60s` or `1h`, in the words of Go.
fn seconds(duration: &Value) -> u64 {
    let text = duration.as_str().unwrap();
    let (number, unit) = text.split_at(text.len() - 1);
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => panic!("{text} has no unit"),
    };
    number.parse::<u64>().unwrap() * factor
}

/// Fields of the configuration of a custom plug-in, by `pkg/custompluginmonitor/types` of node-problem-detector.
#[test]
fn node_problem_detector_knows_every_field() {
    let found: Value = serde_json::from_str(&script("npd")).unwrap();
    let known = |value: &Value, names: &[&str]| {
        for name in value.as_object().unwrap().keys() {
            assert!(names.contains(&name.as_str()), "{name} is unknown");
        }
    };
    known(&found, &["plugin", "pluginConfig", "source", "metricsReporting", "conditions", "rules"]);
    let global = &found["pluginConfig"];
    known(
        global,
        &[
            "invoke_interval",
            "timeout",
            "max_output_length",
            "concurrency",
            "enable_message_change_based_condition_update",
            "skip_initial_status",
        ],
    );
    assert_eq!(found["plugin"], "custom");
    // The line of an answer has 80 characters, and some have three bytes.
    assert!(global["max_output_length"].as_u64().unwrap() >= 160);
    for condition in found["conditions"].as_array().unwrap() {
        known(condition, &["type", "reason", "message"]);
    }
    for rule in found["rules"].as_array().unwrap() {
        known(rule, &["type", "condition", "reason", "path", "args", "timeout", "invoke_interval"]);
        assert_eq!(rule["type"], "permanent");
        let has = |condition: &Value| condition["type"] == rule["condition"];
        assert!(found["conditions"].as_array().unwrap().iter().any(has), "a permanent problem has a condition");
        assert!(seconds(&rule["timeout"]) <= seconds(&global["timeout"]), "Validate() refuses a longer one");
        assert!(Path::new(rule["path"].as_str().unwrap()).is_absolute());
    }
}

/// The lines of a unit of systemd, each with its section.
fn unit(text: &str) -> Vec<(String, String, String)> {
    let (mut section, mut lines) = (String::new(), Vec::new());
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.clone_into(&mut section);
        } else {
            let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("no assignment: {line}"));
            lines.push((section.clone(), key.to_owned(), value.to_owned()));
        }
    }
    lines
}

#[test]
fn the_units_fit_together_and_install_no_filter() {
    let (service, timer) = (unit(&script("prometheus")), unit(&script("prometheus-timer")));
    let has = |lines: &[(String, String, String)], wanted: [&str; 3]| {
        lines.iter().any(|(section, key, value)| [section.as_str(), key, value] == wanted)
    };
    assert!(has(&service, ["Service", "Type", "oneshot"]) && has(&service, ["Service", "SuccessExitStatus", "1 3"]));
    assert!(has(&timer, ["Install", "WantedBy", "timers.target"]));
    // Each of these has a filter of system calls behind it (systemd.exec(5)).
    let filters =
        ["SystemCall", "Restrict", "ProtectK", "ProtectC", "ProtectHostname", "Lock", "MemoryDeny", "PrivateDev"];
    for (_, key, _) in &service {
        assert!(!filters.iter().any(|filter| key.starts_with(filter)), "{key} would lengthen system calls");
    }
    // The timer names no unit, so it starts the service of its own name: both files are in the head with their names.
    assert!(!timer.iter().any(|(_, key, _)| key == "Unit"));
    for name in ["sysdyno-check.service", "sysdyno-check.timer"] {
        assert!(script("prometheus").contains(name));
    }
}

/// What the check of NHC does with an answer of sysdyno: its status, and what it said.
fn nhc(lines: &str) -> (bool, String) {
    let keep = tempfile::tempdir().unwrap();
    let fake = program(keep.path(), "fake sysdyno", lines);
    fs::write(keep.path().join("sysdyno.nhc"), script("nhc")).unwrap();
    let stub =
        "die() { echo \"die $1 $2\"; }; log() { echo \"log $*\"; }; . \"$1/sysdyno.nhc\"; check_sysdyno --time 18s";
    let mut command = Command::new("bash");
    let output = command.args(["-c", stub, "nhc"]).arg(keep.path()).env("SYSDYNO", fake).output().unwrap();
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn node_health_check_gets_the_line_as_its_reason() {
    let words = "[ \"$1 $2 $3 $4 $5\" = 'check --accepted /etc/sysdyno/accepted.json --time 18s' ] || exit 9\n";
    let (healthy, said) = nhc(&format!("{words}echo 'sysdyno: DRAM rate 12 GB/s, limit 20 GB/s'; exit 1"));
    assert!(!healthy, "{said}");
    assert_eq!(said, "die 1 check_sysdyno:  DRAM rate 12 GB/s, limit 20 GB/s\n");
    assert_eq!(nhc(&format!("{words}echo 'sysdyno: ok, 7 facts'")), (true, String::new()));
    for (lines, expected) in [
        ("echo 'sysdyno: undecided, no'; exit 3", "log check_sysdyno:  exit code 3, sysdyno: undecided, no"),
        ("echo 'error: no limits' >&2; exit 2", "log check_sysdyno:  exit code 2, error: no limits"),
        // A crash is no finding about the node.
        ("exit 1", "log check_sysdyno:  exit code 1, "),
    ] {
        let (healthy, said) = nhc(lines);
        assert!(healthy && said.trim_end() == expected.trim_end(), "{said}");
    }
}

/// What the health check of Slurm orders, after an answer of sysdyno and for a state and reason of the node. A node with jobs is
/// `busy`.
fn ordered(answer: &str, state: &str, busy: bool) -> String {
    let keep = tempfile::tempdir().unwrap();
    let at = keep.path().display();
    program(keep.path(), "fake sysdyno", answer);
    program(keep.path(), "sinfo", &format!("echo '{state}'"));
    program(keep.path(), "scontrol", &format!("printf '%s,' \"$@\" >>'{at}/orders'"));
    program(keep.path(), "logger", "exit 1");
    program(keep.path(), "pgrep", if busy { "exit 0" } else { "exit 1" });
    fs::write(keep.path().join("conf"), format!("SYSDYNO='{at}/fake sysdyno'\n")).unwrap();
    let file = program(keep.path(), "health", script("slurm-health").trim_start_matches("#!/bin/sh\n"));
    let path = format!("{at}:{}", std::env::var("PATH").unwrap());
    let mut command = Command::new(file);
    command.env("PATH", path).env("SLURMD_NODENAME", "n7").env("SYSDYNO_HEALTH_CONF", keep.path().join("conf"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    fs::read_to_string(keep.path().join("orders")).unwrap_or_default()
}

#[test]
fn slurm_health_drains_and_resumes_only_what_is_its_own() {
    let (bad, good) =
        ("echo 'sysdyno: DRAM rate 12 GB/s'; exit 1", "echo 'sysdyno: ok, 9 results and 7 facts as accepted'");
    let drain = "update,NodeName=n7,State=DRAIN,Reason=sysdyno: DRAM rate 12 GB/s,";
    let resume = "update,NodeName=n7,State=RESUME,";
    for (answer, state, expected) in [
        (bad, "idle|none", drain),
        (bad, "allocated|none", drain),
        // The reason follows the finding.
        (bad, "drained|sysdyno: Kernel: release is 6.1", drain),
        (bad, "drained|sysdyno: DRAM rate 12 GB/s", ""),
        (bad, "drained|bad fan", ""),
        (bad, "idle|kept by admin", ""),
        (good, "idle|none", ""),
        (good, "drained|sysdyno: DRAM rate 12 GB/s", resume),
        (good, "draining|sysdyno: DRAM rate 12 GB/s", resume),
        (good, "drained|bad fan", ""),
        (good, "down*|sysdyno: DRAM rate 12 GB/s", ""),
        ("echo 'sysdyno: ok, 7 facts'", "drained|sysdyno: DRAM rate 12 GB/s", ""),
        ("echo 'sysdyno: ok, 7 facts'", "drained|sysdyno: Kernel: release is 6.1", resume),
        ("echo 'sysdyno: undecided, nothing was compared'", "drained|sysdyno: DRAM rate 12 GB/s", ""),
        ("echo 'sysdyno: undecided, no'; exit 3", "drained|sysdyno: DRAM rate 12 GB/s", ""),
        ("echo 'error: x' >&2; exit 2", "idle|none", ""),
        ("exit 1", "idle|none", ""),
        (bad, "", ""),
    ] {
        assert_eq!(ordered(answer, state, false), expected, "{answer} for {state}");
    }
    // Beside a job only facts are checked. They do not show that a slow node is fast again.
    let facts = "[ \"$*\" = 'check --accepted /etc/sysdyno/accepted.json --facts' ] || exit 9\n";
    assert_eq!(ordered(&format!("{facts}{good}"), "draining|sysdyno: DRAM rate 12 GB/s", true), "");
    assert_eq!(ordered(&format!("{facts}{bad}"), "mixed|none", true), drain);
}

#[test]
fn a_script_in_the_wrong_place_says_what_to_do() {
    let in_shell = |name: &str, words: &[&str], environment: &[(&str, &str)]| {
        let keep = tempfile::tempdir().unwrap();
        let file = program(keep.path(), "script", &script(name));
        let mut command = Command::new("bash");
        command.arg(file).args(words).current_dir(keep.path()).env_remove("SLURM_JOB_ID");
        command.envs(environment.iter().copied()).output().unwrap()
    };
    for (output, expected) in [
        (in_shell("slurm", &[], &[]), "this is not a Slurm job"),
        (in_shell("slurm-mesh", &[], &[]), "this is not a Slurm job"),
        (in_shell("slurm", &[], &[("SLURM_JOB_ID", "1"), ("SYSDYNO", "/no/such")]), "has no program '/no/such'"),
        (in_shell("ssh", &[], &[]), "no node is named"),
        (in_shell("ssh", &["-oProxyCommand=x"], &[]), "is not the name of a node"),
        (in_shell("ssh", &["n1"], &[("SYSDYNO", "/no/such")]), "there is no program '/no/such'"),
        (in_shell("ssh", &["n1"], &[("SYSDYNO", "/bin/true"), ("SYSDYNO_AT_ONCE", "0")]), "SYSDYNO_AT_ONCE is '0'"),
    ] {
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        let said = text(&output.stderr);
        assert!(said.starts_with("error: ") && said.contains(expected) && said.contains("\nhint: "), "{said}");
    }
}
