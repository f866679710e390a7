//! The commands in scripts that `sysdyno script` prints, run as their engine runs them. No result is compared.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::places;
use crate::support::readers::python;
use crate::support::runs::{PROGRAM, ended, output, state, sysdyno, text, told};

fn script(name: &str) -> String {
    text(&output(&["script", name]).stdout)
}

fn executable(place: &Path, name: &str, lines: &str) -> String {
    let file = place.join(name);
    places::executable(&file, lines.as_bytes());
    file.to_str().unwrap().to_owned()
}

/// Limits with one fact of this machine.
fn limits(place: &Path, release: &str) -> String {
    let machine: Value = serde_json::from_slice(&output(&["machine", "--json"]).stdout).unwrap();
    let model = json!({
        "fingerprint": machine["fingerprint"], "model": "", "profile": "quick", "build": "", "methods": "", "nodes": 20,
        "limits": [], "facts": [{"fact": "Kernel: release", "values": [release]}],
    });
    let file = place.join("accepted.json");
    fs::write(&file, json!({"format": "sysdyno-accepted/1", "models": [model]}).to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

/// The script for ssh with nodes that are directories of this machine. `down` cannot be reached.
fn through_ssh(place: &Path, hosts: &[&str], more: &[(&str, &str)]) -> Output {
    // The words after the host are one command, as for ssh.
    let ssh = executable(
        place,
        "ssh",
        "#!/bin/sh\n[ \"$1\" != down ] || { echo 'no route to host' >&2; exit 255; }\n\
         [ \"$1\" != hangs ] || exec sleep 300\n\
         exec unshare --uts sh -c 'hostname \"$1\"; exec sh -c \"$2\"' sh \"node-${1#*@}\" \"$2\"\n",
    );
    let file = executable(place, "measure nodes", &script("ssh"));
    let scratch = place.join("it's scratch");
    fs::create_dir_all(&scratch).unwrap();
    let mut command = Command::new("bash");
    command.arg(file).args(hosts).current_dir(place).env("SYSDYNO", PROGRAM).env("SYSDYNO_SSH", ssh);
    command.env("SYSDYNO_SCRATCH", &scratch).env("SYSDYNO_FLEET", place.join("a fleet"));
    command.env("SYSDYNO_OPTIONS", "--quick --time 1s cpu.loop --label rack=r3");
    let output = command.envs(more.iter().copied()).output().unwrap();
    assert_eq!(scratch.read_dir().unwrap().count(), 0, "each node removes its directory: {}", told(&output));
    output
}

#[test]
fn nodes_are_measured_and_gathered_through_ssh() {
    let keep = tempfile::tempdir().unwrap();
    let output = through_ssh(keep.path(), &["a", "root@b", "down"], &[("SYSDYNO_AT_ONCE", "2")]);
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    assert!(text(&output.stderr).contains("down: no route to host"), "{}", told(&output));
    let said = text(&output.stdout);
    assert!(said.contains("Of 3 expected nodes") && said.contains("missing    1 node: down"), "{}", told(&output));
    let mut names: Vec<String> = keep
        .path()
        .join("a fleet")
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[0].starts_with("a-20") && names[1].starts_with("root_b-20"), "{names:?}");
    let node: Value = serde_json::from_slice(&fs::read(keep.path().join("a fleet").join(&names[1])).unwrap()).unwrap();
    assert_eq!((&node["node"]["name"], &node["node"]["labels"]["rack"]), (&"node-b".into(), &"r3".into()));
}

/// By the commands of docs/fleets.md. The worker `exec` of ClusterShell runs a command here for each node.
#[test]
fn clush_gathers_the_results_of_nodes() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/fleets.md")).unwrap();
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let commands = blocks.into_iter().find(|block| block.contains("clush -w @compute")).unwrap();
    let commands = commands
        .replace("clush -w @compute", "clush -R exec -w n[1-2]")
        .replace("sysdyno run", "NODE=%host sysdyno run");
    let keep = tempfile::tempdir().unwrap();
    // The program measures one experiment, on a node with its own host name.
    let program = format!(
        "#!/bin/sh\nshift\nexec unshare --uts sh -c 'hostname \"$0\"; exec \"$@\"' \"$NODE\" '{PROGRAM}' run cpu.loop --time 1s \"$@\"\n"
    );
    executable(keep.path(), "sysdyno", &program);
    let path = format!("{}:{}", keep.path().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.args(["-euc", &commands]).current_dir(keep.path()).env("PATH", path).env("XDG_STATE_HOME", state());
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let fleet = keep.path().join("sysdyno-fleet");
    let expected = keep.path().join("nodes");
    fs::write(&expected, "n[1-2]").unwrap();
    let words = ["fleet", fleet.to_str().unwrap(), "--expect", expected.to_str().unwrap(), "--missing"];
    let missing = crate::support::runs::output(&words);
    assert_eq!(text(&missing.stdout), "", "{}\n{}", told(&missing), told(&output));
}

#[test]
fn a_node_that_hangs_is_given_up() {
    let keep = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let output = through_ssh(keep.path(), &["hangs"], &[("SYSDYNO_LIMIT", "1s")]);
    assert!((1.0..60.0).contains(&began.elapsed().as_secs_f64()), "{:?}", began.elapsed());
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    assert!(text(&output.stdout).contains("missing    1 node: hangs"), "{}", told(&output));
}

#[test]
fn the_pod_prints_its_result_in_one_line() {
    let keep = tempfile::tempdir().unwrap();
    fs::write(keep.path().join("job.yaml"), script("kubernetes")).unwrap();
    // The reader of Kubernetes brings its own reader of YAML.
    let program = "import json, yaml; print(json.dumps(yaml.safe_load(open('job.yaml'))))";
    let job: Value = serde_json::from_str(&python(program, keep.path())).unwrap();
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    let scratch = keep.path().to_str().unwrap();
    let words =
        container["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().replace("/scratch", scratch));
    let mut command = sysdyno(&[]);
    command.args(words).args(["cpu.loop", "--time=1s"]).current_dir(scratch);
    for variable in container["env"].as_array().unwrap() {
        let field = &variable["valueFrom"]["fieldRef"]["fieldPath"];
        let value = match field.as_str() {
            Some("spec.nodeName") => "worker-7",
            Some("metadata.name") => "sysdyno-abcde-0-xyz",
            _ => scratch,
        };
        command.env(variable["name"].as_str().unwrap(), value);
    }
    let output = command.env("KUBERNETES_SERVICE_HOST", "10.0.0.1").env("JOB_COMPLETION_INDEX", "0").output().unwrap();
    assert!(ended(&output), "{}", told(&output));
    let all = text(&output.stdout) + &text(&output.stderr);
    let results: Vec<&str> = all.lines().filter(|line| line.starts_with('{')).collect();
    assert_eq!(results.len(), 1, "{}", told(&output));
    let node: Value = serde_json::from_str(results[0]).unwrap();
    assert_eq!((&node["node"]["name"], &node["engine"]["kind"]), (&"worker-7".into(), &"kubernetes".into()));
}

#[test]
fn the_plug_in_of_node_problem_detector_ends_with_its_codes() {
    let keep = tempfile::tempdir().unwrap();
    let found: Value = serde_json::from_str(&script("npd")).unwrap();
    let run = |file: &str| {
        let words = found["rules"][0]["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        let words =
            words.map(|word| word.replace("/etc/sysdyno/accepted.json", file)).filter(|word| !word.contains("splay"));
        sysdyno(&[]).args(words).output().unwrap()
    };
    let odd = run(&limits(keep.path(), "0.0.1"));
    assert_eq!(odd.status.code(), Some(1), "{}", told(&odd));
    assert!(text(&odd.stdout).starts_with("sysdyno: Kernel: release is ") && odd.stderr.is_empty(), "{}", told(&odd));
    assert_eq!(run("/no/such/file").status.code(), Some(2), "unknown to node-problem-detector");
}

#[test]
fn prometheus_reads_the_file_of_the_service() {
    let keep = tempfile::tempdir().unwrap();
    let accepted = limits(keep.path(), "0.0.1");
    let file = keep.path().join("sysdyno.prom");
    let service = script("prometheus");
    let command = service.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/sysdyno ")).unwrap();
    let words = command.split(' ').map(|word| match word {
        "${SYSDYNO_ACCEPTED}" => accepted.clone(),
        "${SYSDYNO_TEXTFILE}" => file.to_str().unwrap().to_owned(),
        _ => word.to_owned(),
    });
    let output = sysdyno(&[]).args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let program = "from prometheus_client.openmetrics.parser import text_string_to_metric_families as read\n\
                   print({s.name: s.value for f in read(open('sysdyno.prom').read()) for s in f.samples})";
    let samples = python(program, keep.path());
    assert!(
        samples.contains("'sysdyno_check_status': 1,") && samples.contains("'sysdyno_check_differing_facts': 1}"),
        "{samples}"
    );
}
