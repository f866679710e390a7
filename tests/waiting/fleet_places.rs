//! Runs of nodes in the directory of a fleet: one directory a run, what the engine says, and going on after an interruption.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::runs::{PROGRAM, ended, lines, records, state, sysdyno, text, told, wait_until};

/// A command that Slurm started on a node.
fn on_node(node: &str, words: &[&str]) -> Command {
    let mut command = sysdyno(words);
    command
        .env("SLURM_JOB_ID", "17")
        .env("SLURMD_NODENAME", node)
        .env("SLURM_TOPOLOGY_ADDR", format!("spine.leaf1.{node}"));
    command.env("SLURM_JOB_USER", "somebody");
    command
}

/// The runs of a node.
fn runs(fleet: &Path, node: &str) -> Vec<PathBuf> {
    let Ok(entries) = fleet.join("nodes").join(node).read_dir() else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn names(place: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        place.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_run_of_a_node_is_one_line_and_one_file() {
    let keep = tempfile::tempdir().unwrap();
    let fleet = keep.path().join("fleet");
    let words = [
        "run",
        "cpu.loop",
        "--quick",
        "--time=1s",
        "--into",
        fleet.to_str().unwrap(),
        "--keep",
        "node",
        "--label",
        "rack=r12",
    ];
    let output = on_node("n7", &words).output().unwrap();
    assert!(ended(&output), "{}", told(&output));
    let said = text(&output.stdout);
    assert!(said.starts_with("n7: ") && said.lines().count() == 1, "{}", told(&output));
    let found = runs(&fleet, "n7");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(said.trim().ends_with(found[0].to_str().unwrap()), "{said}");
    assert_eq!(names(&found[0]), ["node.json"]);
    let node: Value = serde_json::from_slice(&fs::read(found[0].join("node.json")).unwrap()).unwrap();
    assert_eq!(node["node"]["name"], "n7");
    assert_eq!(node["node"]["labels"]["rack"], "r12");
    assert_eq!(node["engine"]["kind"], "slurm");
    assert_eq!(node["engine"]["facts"]["topology"], "spine.leaf1.n7");
    assert!(!node.to_string().contains("somebody"), "only known variables are kept");
    assert_eq!(node["run"]["binary"].as_str().unwrap().len(), 16);
}

#[test]
fn an_unfinished_run_goes_on_for_its_node_alone() {
    let keep = tempfile::tempdir().unwrap();
    let fleet = keep.path().join("fleet");
    let words = ["run", "cpu.loop", "--into", fleet.to_str().unwrap(), "--keep", "log", "--cpu", "0", "--time", "4s"];
    let going = on_node("n1", &words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let place = wait_until("a launch in the log", Duration::from_mins(1), || {
        let place = runs(&fleet, "n1").pop()?;
        let begun = fs::read_to_string(place.join("log.jsonl")).is_ok_and(|log| log.contains("\"evidence\""));
        begun.then_some(place)
    });
    kill(Pid::from_raw(going.id() as i32), Signal::SIGTERM).unwrap();
    let stopped = going.wait_with_output().unwrap();
    assert_eq!(stopped.status.code(), Some(130), "{}", told(&stopped));
    assert!(text(&stopped.stderr).contains("the same command on this node"), "{}", told(&stopped));

    // Another node, and another request of the same node, begin runs of their own.
    let other = on_node("n2", &words).output().unwrap();
    assert!(ended(&other), "{}", told(&other));
    let quick: Vec<&str> = words.into_iter().chain(["--quick"]).collect();
    let quick = on_node("n1", &quick).output().unwrap();
    assert!(ended(&quick), "{}", told(&quick));
    assert_eq!((runs(&fleet, "n1").len(), runs(&fleet, "n2").len()), (2, 1));
    assert!(records(&lines(&place), "resumed").is_empty());

    let again = on_node("n1", &words).output().unwrap();
    assert!(ended(&again), "{}", told(&again));
    assert_eq!(runs(&fleet, "n1").len(), 2, "the run went on in its directory");
    assert_eq!(records(&lines(&place), "resumed").len(), 1);
    assert_eq!(names(&place), ["log.jsonl", "node.json"]);
}

#[test]
fn a_node_without_shared_storage_answers_in_one_line_of_json() {
    let keep = tempfile::tempdir().unwrap();
    let place = keep.path().join("run");
    let words = ["run", "--quick", "--time=1s", "--output", place.to_str().unwrap(), "--json", "node", "-", "cpu.loop"];
    let output = on_node("n9", &words).output().unwrap();
    assert!(ended(&output), "{}", told(&output));
    let said = text(&output.stdout);
    assert_eq!(said.lines().count(), 1);
    let node: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(node["format"], "sysdyno-node/1");
    assert_eq!(node["node"]["name"], "n9");
}

#[test]
fn names_that_are_paths_and_labels_that_are_none_are_refused() {
    let keep = tempfile::tempdir().unwrap();
    let fleet = keep.path().join("fleet");
    for label in ["rack", "=r1", "a b=c", "rack=", "rack=a\nb"] {
        let output =
            sysdyno(&["run", "cpu.loop", "--into", fleet.to_str().unwrap(), "--label", label]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{label}: {}", told(&output));
    }
    // A name from the environment is no path: the host's own name is used.
    let words = ["run", "cpu.loop", "--quick", "--time=1s", "--into", fleet.to_str().unwrap(), "--keep", "node"];
    let output = on_node("../../outside", &words).output().unwrap();
    assert!(ended(&output), "{}", told(&output));
    assert!(!keep.path().join("outside").exists());
    assert_eq!(names(&fleet.join("nodes")).len(), 1);
}

/// A shared directory that is full from the beginning, and one that fills up during a run. What is there stays, and the same command
/// goes on after space was made.
#[test]
fn a_full_directory_of_a_fleet_loses_nothing() {
    let keep = tempfile::tempdir().unwrap();
    let script = r#"mkdir small; mount -t tmpfs -o size=1m none small
        step() { name=$1; shift; code=0; "$@" >"$name.said" 2>&1 || code=$?; echo "$name $code" >>codes; }
        quick="$PROGRAM run cpu.loop --quick --time 3s --into small --keep node"
        step first $quick
        $PROGRAM fleet small --format json >before.json || true
        echo old >small/page.html
        cat /dev/zero >small/fill 2>/dev/null || true
        step full $quick
        find small -type d -empty -printf '%f\n' >empty
        step mesh $PROGRAM mesh small/mesh --rank 0 --size 2 --patience 1
        step page $PROGRAM fleet small --format html -o small/page.html
        cat small/page.html >page; $PROGRAM fleet small --format json >after.json || true
        rm small/fill; dd if=/dev/zero of=small/fill bs=1k count=$((1024 - 40 - $(du -sk small | cut -f1))) 2>/dev/null
        long="$PROGRAM run cpu.loop --time 4s --into small --keep log"
        step middle $long
        rm small/fill
        step on $long
        cp small/nodes/n1/*/log.jsonl ."#;
    let output = Command::new("unshare")
        .args(["--mount", "--", "bash", "-euc", script])
        .envs([("PROGRAM", PROGRAM), ("SLURM_JOB_ID", "17"), ("SLURMD_NODENAME", "n1")])
        .env("XDG_STATE_HOME", state())
        .current_dir(keep.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "root is needed here: {}", told(&output));
    let read = |name: &str| fs::read_to_string(keep.path().join(name)).unwrap();
    assert_eq!(read("codes"), "first 0\nfull 2\nmesh 2\npage 2\nmiddle 1\non 0\n", "{}", read("full.said"));
    for name in ["full", "mesh", "page", "middle"] {
        let said = read(&format!("{name}.said"));
        let clear = said.contains("No space left on device") && said.to_lowercase().contains("free ");
        assert!(clear && said.contains("hint: ") && !said.contains("panicked"), "{name}: {said}");
    }
    assert_eq!((read("page").as_str(), read("empty").as_str()), ("old\n", ""), "what was there stays as it was");
    assert_eq!(read("before.json"), read("after.json"));
    assert_eq!(records(&lines(keep.path()), "resumed").len(), 1, "the run went on");
}
