//! What becomes of a fleet where Slurm ends, moves or loses nodes, and health checks that Slurm starts. No result is compared.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::cluster::{Cluster, NodeFault};
use crate::support::runs::{PROGRAM, lines, records, text, told, wait_until};

/// The script of the job, in the directory where jobs are submitted.
fn job(cluster: &Cluster) {
    let output = cluster.line("sysdyno script slurm -o fleet.sbatch", &[]);
    assert!(output.status.success(), "{}", told(&output));
}

fn submit(cluster: &Cluster, options: &str, measured: &str) -> String {
    let line = format!("sbatch --parsable {options} fleet.sbatch");
    let output = cluster.head(&["bash", "-c", &line]).env("SYSDYNO_OPTIONS", measured).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    text(&output.stdout).trim().to_owned()
}

fn order(cluster: &Cluster, words: &[&str]) -> Output {
    let output = cluster.head(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", told(&output));
    output
}

/// The runs of a node.
fn runs(cluster: &Cluster, node: u32) -> Vec<PathBuf> {
    let place = cluster.work().join(format!("sysdyno-fleet/nodes/n{node}"));
    let mut found: Vec<PathBuf> =
        place.read_dir().map_or(Vec::new(), |entries| entries.map(|entry| entry.unwrap().path()).collect());
    found.sort();
    found
}

/// Waits until a node measures.
fn measures(cluster: &Cluster, node: u32) -> PathBuf {
    wait_until(&format!("n{node} measures\n{}", cluster.logs()), Duration::from_mins(1), || {
        runs(cluster, node).into_iter().find(|run| {
            let log = fs::read_to_string(run.join("log.jsonl")).unwrap_or_default();
            log.contains("\"evidence\"") && !run.join("node.json").exists()
        })
    })
}

fn job_log(cluster: &Cluster, job: &str) -> String {
    fs::read_to_string(cluster.work().join(format!("sysdyno-{job}.out"))).unwrap()
}

/// The exit code of a job, as Slurm keeps it.
fn exit_code(cluster: &Cluster, job: &str) -> String {
    let shown = text(&order(cluster, &["scontrol", "-o", "show", "job", job]).stdout);
    shown.split_whitespace().find_map(|word| word.strip_prefix("ExitCode=")).unwrap().to_owned()
}

#[test]
fn a_node_that_dies_is_missing_and_the_others_are_whole() {
    let mut cluster = Cluster::start(3, &[], "");
    job(&cluster);
    let id = submit(&cluster, "-N3", "cpu.loop --time 6s");
    (1..=3).for_each(|node| drop(measures(&cluster, node)));
    cluster.kill(3);
    cluster.wait_for_jobs("a node was killed");
    let log = job_log(&cluster, &id);
    assert!(
        log.contains("missing    1 node: n3") || log.contains("partial    1 node: n3"),
        "{log}\n{}",
        cluster.logs()
    );
    assert_eq!(exit_code(&cluster, &id), "3:0", "{log}");
    for node in 1..=2 {
        assert!(runs(&cluster, node)[0].join("node.json").exists(), "{log}");
        assert!(cluster.left_on(node).is_empty());
    }
    let missing = cluster.line("sysdyno fleet sysdyno-fleet --expect <(echo 'n[1-3]') --missing", &[]);
    assert_eq!(text(&missing.stdout), "n3\n", "{}", told(&missing));
    let gone = cluster.line("SYSDYNO=/no/such sbatch -N1 -w n1 fleet.sbatch", &[]);
    let id = text(&gone.stdout).trim().rsplit(' ').next().unwrap().to_owned();
    assert_eq!(exit_code(&cluster, &id), "2:0");
    assert!(
        job_log(&cluster, &id).starts_with("error: n1 has no program '/no/such'\nhint: "),
        "{}",
        job_log(&cluster, &id)
    );
}

#[test]
fn a_job_that_is_ended_goes_on_later_and_begins_anew_on_another_node() {
    let cluster = Cluster::start(2, &[], "");
    job(&cluster);
    let measured = "cpu.loop --time 20s";
    let id = submit(&cluster, "-N2", measured);
    let begun = [1, 2].map(|node| measures(&cluster, node));
    order(&cluster, &["scancel", "--signal=TERM", &id]);
    cluster.wait_for_jobs("a job was ended");
    let log = job_log(&cluster, &id);
    assert_eq!(exit_code(&cluster, &id), "3:0", "{log}");
    for run in &begun {
        let record = lines(run);
        assert!(log.contains("interrupted") && !records(&record, "launch_end").is_empty(), "{log}");
    }
    assert!((1..=2).all(|node| cluster.left_on(node).is_empty()), "the copies are removed");

    // The same request on the same node goes on. Moved to another node, which has an unfinished run of its own, it takes that.
    let id = submit(&cluster, "-N1 --requeue", measured);
    let resumed = |run: &Path| !records(&lines(run), "resumed").is_empty();
    wait_until("the run of n1 goes on", Duration::from_mins(1), || resumed(&begun[0]).then_some(()));
    fs::remove_dir_all(&begun[1]).unwrap();
    order(&cluster, &["scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test"]);
    order(&cluster, &["scontrol", "requeue", &id]);
    // Slurm would begin it two minutes later.
    wait_until("the job waits for its time", Duration::from_mins(1), || {
        let queue = cluster.head(&["squeue", "-h", "-o", "%r"]).output().unwrap();
        (text(&queue.stdout).trim() == "BeginTime").then_some(())
    });
    order(&cluster, &["scontrol", "update", &format!("JobId={id}"), "StartTime=now"]);
    let fresh = measures(&cluster, 2);
    assert!(!resumed(&fresh), "n2 does not go on with the run of n1");
    order(&cluster, &["scancel", "--signal=TERM", &id]);
    cluster.wait_for_jobs("a job was requeued");
    assert_eq!((runs(&cluster, 1), runs(&cluster, 2)), (vec![begun[0].clone()], vec![fresh.clone()]));
    assert_eq!(lines(&fresh)[0]["identity"]["node"], "n2");
}

/// Limits without results: what a fact of this machine may be. Without values it may be anything.
fn limits(place: &Path, machine: &Value, fact: &str, values: &[&str]) {
    let model = json!({
        "fingerprint": machine["fingerprint"], "model": "", "profile": "quick", "build": "", "methods": "", "nodes": 20,
        "limits": [], "facts": [{"fact": fact, "values": values}],
    });
    let fresh = place.join("fresh");
    fs::write(&fresh, json!({"format": "sysdyno-accepted/1", "models": [model]}).to_string()).unwrap();
    fs::rename(fresh, place.join("accepted.json")).unwrap();
}

/// A fact by which one kind of nodes differs, and its values.
const FACT: &str = "Memory: allowed to this process";
const BOTH: [&str; 2] = ["yes", "no: switched off for it by prctl"];

/// The ready health check as `program` in a directory, with limits that accept every value of the fact; and this machine.
fn health_check(options: &str) -> (TempDir, Value) {
    let keep = tempfile::tempdir().unwrap();
    fs::set_permissions(keep.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let at = keep.path().display();
    let write = |name: &str, text: &str| {
        fs::write(keep.path().join(name), text).unwrap();
        fs::set_permissions(keep.path().join(name), fs::Permissions::from_mode(0o755)).unwrap();
    };
    write("conf", &format!("SYSDYNO='{PROGRAM}'\nSYSDYNO_ACCEPTED='{at}/accepted.json'\n{options}\n"));
    let printed = crate::support::runs::output(&["script", "slurm-health"]);
    write("health", &text(&printed.stdout));
    write("program", &format!("#!/bin/sh\nSYSDYNO_HEALTH_CONF='{at}/conf' exec '{at}/health'\n"));
    let machine: Value = serde_json::from_slice(&crate::support::runs::output(&["machine", "--json"]).stdout).unwrap();
    limits(keep.path(), &machine, FACT, &BOTH);
    (keep, machine)
}

#[test]
fn an_epilog_drains_a_node_after_its_job_and_leaves_the_others() {
    let (keep, machine) = health_check("SYSDYNO_CHECK_OPTIONS=--no-such\nSYSDYNO_EPILOG_OPTIONS=--facts");
    limits(keep.path(), &machine, FACT, &["yes"]);
    let epilog = format!("Epilog={}/program", keep.path().display());
    let cluster = Cluster::start(2, &[(2, NodeFault::NoHugePages)], &epilog);
    assert_eq!([1, 2].map(|node| cluster.state(node).1), ["none", "none"], "no job has ended yet");
    order(&cluster, &["sbatch", "-N2", "--wrap", "srun true"]);
    cluster.wait_for_jobs("the job of both nodes");
    wait_until(&format!("n2 is drained\n{}", cluster.logs()), Duration::from_mins(1), || {
        let (state, reason) = cluster.state(2);
        (state == "drained" && reason.starts_with("sysdyno: Memory: allowed to this process is no")).then_some(())
    });
    wait_until(&format!("n1 is idle\n{}", cluster.logs()), Duration::from_mins(1), || {
        (cluster.state(1) == ("idle".to_owned(), "none".to_owned())).then_some(())
    });
}

#[test]
fn slurm_drains_a_node_that_is_not_as_accepted_and_resumes_it() {
    let (keep, machine) = health_check("SYSDYNO_CHECK_OPTIONS=--facts");
    let (at, fact) = (keep.path().display(), FACT);
    // A node that was resumed answers a ping before it is checked again. Pings wait for checks, so these leave them time.
    let more = format!("HealthCheckProgram={at}/program\nHealthCheckInterval=4\nHealthCheckNodeState=ANY");
    let cluster = Cluster::start(3, &[(2, NodeFault::NoHugePages)], &more);
    order(&cluster, &["scontrol", "update", "NodeName=n3", "State=DRAIN", "Reason=bad fan"]);
    limits(keep.path(), &machine, fact, &["yes"]);
    let until = |what: &str, node: u32, state: &str, reason: &str| {
        wait_until(
            &format!("n{node} {what}: {:?}\n{}", cluster.state(node), cluster.logs()),
            Duration::from_mins(1),
            || {
                let (found, because) = cluster.state(node);
                (found == state && because.starts_with(reason)).then_some(because)
            },
        )
    };
    let reason = until("is drained", 2, "drained", "sysdyno: ");
    assert!(reason.starts_with("sysdyno: Memory: allowed to this process is no"), "{reason}");
    assert_eq!(cluster.state(1), ("idle".to_owned(), "none".to_owned()));
    order(&cluster, &["scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=kept"]);
    limits(keep.path(), &machine, fact, &BOTH);
    until("is resumed", 2, "idle", "none");
    // Now no node is as accepted. Reasons of others stay all the time.
    limits(keep.path(), &machine, fact, &["neither"]);
    until("is drained again", 2, "drained", "sysdyno: ");
    assert_eq!(cluster.state(1), ("drained".to_owned(), "kept".to_owned()));
    assert_eq!(cluster.state(3), ("drained".to_owned(), "bad fan".to_owned()));
}
