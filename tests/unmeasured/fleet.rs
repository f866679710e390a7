//! Fleets on disk: node files from a real run with known changes, read and judged by the program.
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::support::runs::{output, program, sysdyno, text, told};

/// A quick run of everything.
const RECORD: &str = "records/guest-zen4-2cpu-quiet-hour/node.json";
/// Nodes of most tests.
const NODES: usize = 12;
/// Nodes of the largest fleet.
const MANY: usize = 10_000;
/// CPU time for ten times as many nodes, at most. A fleet that compares all nodes with all would take a hundred times as long.
const MOST_GROWTH: f64 = 20.0;
/// Most memory for it, in KiB.
const MOST_MEMORY: u64 = 1 << 20;

/// A fleet in a directory that goes when the test ends.
struct OnDisk {
    keep: tempfile::TempDir,
    run: Value,
}

/// Every result of a run, with the name of its metric.
fn figures(run: &mut Value) -> impl Iterator<Item = (String, &mut Value)> {
    let experiments = run["experiments"].as_array_mut().unwrap().iter_mut();
    let metrics = experiments.filter_map(|experiment| experiment.get_mut("metrics")?.as_array_mut()).flatten();
    metrics.flat_map(|metric| {
        let name = metric["name"].as_str().unwrap().to_owned();
        metric["figures"].as_array_mut().unwrap().iter_mut().map(move |figure| (name.clone(), figure))
    })
}

/// Multiplies a result, also in cycles, with its interval.
fn times(figure: &mut Value, by: f64) {
    for place in ["/value", "/cycles", "/interval/0", "/interval/1"] {
        if let Some(value) = figure.pointer_mut(place).filter(|value| value.is_number()) {
            *value = json!(value.as_f64().unwrap() * by);
        }
    }
}

/// Multiplies the results of metrics whose names begin so, in cycles too.
fn scale(run: &mut Value, begin: &str, by: f64) {
    for (_, figure) in figures(run).filter(|(name, _)| name.starts_with(begin)) {
        times(figure, by);
    }
}

impl OnDisk {
    fn new() -> Self {
        let record = Path::new(env!("CARGO_MANIFEST_DIR")).join(RECORD);
        OnDisk { keep: tempfile::tempdir().unwrap(), run: serde_json::from_slice(&fs::read(record).unwrap()).unwrap() }
    }

    fn place(&self) -> &str {
        self.keep.path().to_str().unwrap()
    }

    /// One run of a node, with a spread that its number decides, and a change.
    fn run(&self, node: usize, round: usize, change: impl Fn(&mut Value)) -> Value {
        let mut run = self.run.clone();
        let mut random = Rng::with_seed((node * 1000 + round) as u64);
        run["node"]["name"] = json!(format!("n{node:02}"));
        run["node"]["machine"] = json!(format!("{node:016x}"));
        run["node"]["labels"] = json!({"rack": format!("r{}", node / 6)});
        run["run"]["id"] = json!(format!("n{node:02}-{round}"));
        run["run"]["started"] = json!(format!("2026-11-2{round}T00:00:00Z"));
        for (_, figure) in figures(&mut run) {
            times(figure, 1.0 + 0.002 * (random.f64() - 0.5));
            figure.as_object_mut().unwrap().remove("trust");
        }
        change(&mut run);
        run
    }

    fn write(&self, node: usize, round: usize, run: &Value) -> PathBuf {
        let place = self.keep.path().join(format!("nodes/n{node:02}/{round}"));
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("node.json"), run.to_string()).unwrap();
        place.join("node.json")
    }

    /// Nodes with two runs each; node 7 with a change.
    fn filled(change: impl Fn(&mut Value)) -> Self {
        let fleet = OnDisk::new();
        for (node, round) in (1..=NODES).flat_map(|node| [(node, 0), (node, 1)]) {
            let run = fleet.run(node, round, |run| {
                if node == 7 {
                    change(run);
                }
            });
            fleet.write(node, round, &run);
        }
        fleet
    }
}

fn fleet(words: &[&str]) -> (i32, String) {
    let found = output(&[&["fleet"], words].concat());
    (found.status.code().unwrap(), text(&found.stdout))
}

fn as_json(words: &[&str]) -> (i32, Value) {
    let found = output(&[&["fleet", "--format", "json"], words].concat());
    let answer = serde_json::from_slice(&found.stdout).unwrap_or_else(|_| panic!("{}", told(&found)));
    (found.status.code().unwrap(), answer)
}

#[test]
fn alike_nodes_are_not_odd() {
    let on_disk = OnDisk::filled(|_| ());
    let (code, answer) = as_json(&[on_disk.place()]);
    assert_eq!((code, &answer["verdict"], &answer["again"]), (0, &json!("nothing_odd"), &json!([])), "{answer:#}");
    let (_, screen) = fleet(&[on_disk.place()]);
    assert!(screen.starts_with("No node is odd. All 12 nodes are complete."), "{screen}");
}

#[test]
fn the_changed_node_is_named_with_what_it_looks_like() {
    let on_disk = OnDisk::filled(|run| {
        scale(run, "os.system_call.time", 1.4);
        scale(run, "os.signal.time", 1.4);
        run["facts"]["Limits: system-call filter"] = json!("filter");
    });
    let (code, screen) = fleet(&[on_disk.place()]);
    assert_eq!(code, 1, "{screen}");
    assert!(screen.starts_with("1 node is odd: n07."), "{screen}");
    for part in
        ["n07 (rack r1): looks like a system-call filter", "system calls 40 % worse", "filter on n07, else none"]
    {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    assert!(screen.lines().count() <= 24 && screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    let (code, page) = fleet(&[on_disk.place(), "--format", "html"]);
    assert!(code == 1 && page.contains("<svg") && page.contains("n07"), "{code}");
    let (_, table) = fleet(&[on_disk.place(), "--format", "csv"]);
    assert!(table.contains(",n07,r1,odd,") && table.lines().count() > NODES * 10, "{table}");
    let (_, markdown) = fleet(&[on_disk.place(), "--format", "markdown"]);
    assert!(markdown.contains("| n07 | r1 | **odd** |"), "{markdown}");
}

#[test]
fn a_latency_that_rose_is_worse_by_that_much_in_every_form() {
    let on_disk = OnDisk::filled(|run| {
        for metric in ["memory.latency", "memory.loaded_latency"] {
            scale(run, metric, 1.3);
        }
    });
    for form in ["text", "html", "markdown"] {
        let (code, answer) = fleet(&[on_disk.place(), "--format", form]);
        assert!(code == 1 && answer.contains("DRAM latency 30 % worse"), "{form}: {answer}");
        assert!(!answer.contains("−23 %") && !answer.contains("23 % worse"), "{form}: {answer}");
    }
}

#[test]
fn an_axis_that_is_contaminated_on_every_node_is_not_decided() {
    let on_disk = OnDisk::new();
    for (node, round) in (1..=NODES).flat_map(|node| [(node, 0), (node, 1)]) {
        let run = on_disk.run(node, round, |run| {
            for (_, figure) in figures(run).filter(|(name, _)| name == "os.context_switch.time") {
                figure["trust"] = json!("contaminated");
            }
        });
        on_disk.write(node, round, &run);
    }
    let (code, answer) = as_json(&[on_disk.place()]);
    assert_eq!((code, &answer["verdict"]), (3, &json!("undecided")), "{answer:#}");
    let axes = answer["groups"][0]["axes"].as_array().unwrap();
    let axis = axes.iter().find(|axis| axis["axis"] == "switching").unwrap();
    assert_eq!((axis["decided"].as_u64(), axis["undecided"].as_u64()), (Some(0), Some(NODES as u64)), "{axis:#}");
    let node = &answer["groups"][0]["nodes"][0];
    let open = node["axes"].as_array().unwrap().iter().find(|axis| axis["axis"] == "switching").unwrap();
    assert_eq!((&node["verdict"], &open["reason"]), (&json!("undecided"), &json!("contaminated")), "{node:#}");
    let (_, page) = fleet(&[on_disk.place(), "--format", "markdown"]);
    assert!(!page.contains("every axis is decided"), "{page}");
    assert!(page.contains("| context switches | contaminated | 12 | n\\[01-12\\] |"), "{page}");
    let (code, screen) = fleet(&[on_disk.place()]);
    let line = "context switches: contaminated on each of 12 nodes";
    assert!(code == 3 && screen.contains("12 must be measured again") && screen.contains(line), "{screen}");
    // Without a peer no node measured the link, and nothing is open there.
    assert!(axes.iter().all(|axis| !axis["axis"].as_str().unwrap().starts_with("link")), "{answer:#}");
}

#[test]
fn an_axis_that_is_refused_on_every_node_is_not_decided() {
    let on_disk = OnDisk::new();
    for node in 1..=NODES {
        let run = on_disk.run(node, 0, |run| {
            for experiment in run["experiments"].as_array_mut().unwrap() {
                if experiment["id"] == "os.context_switch" {
                    let metrics = experiment["metrics"].as_array_mut().unwrap();
                    metrics.retain(|metric| metric["name"] != "os.context_switch.time");
                    let labels = "placement=same_cpu";
                    experiment["absent"] = json!([{"name": "os.context_switch.time", "labels": labels,
                        "reason": "it failed a check", "refused": true}]);
                }
            }
        });
        on_disk.write(node, 0, &run);
    }
    let (code, answer) = as_json(&[on_disk.place()]);
    let axes = answer["groups"][0]["nodes"][0]["axes"].as_array().unwrap();
    let open = axes.iter().find(|axis| axis["axis"] == "switching").unwrap();
    assert_eq!((code, &open["state"], &open["reason"]), (3, &json!("undecided"), &json!("refused")), "{open:#}");
}

#[test]
fn groups_of_two_binaries_are_told_apart() {
    let on_disk = OnDisk::new();
    for node in 1..=2 * NODES {
        let run = on_disk.run(node, 0, |run| {
            run["run"]["binary"] = json!(if node % 2 == 0 { "aaaaaaaaaaaaaaaa" } else { "bbbbbbbbbbbbbbbb" });
        });
        on_disk.write(node, 0, &run);
    }
    let (code, screen) = fleet(&[on_disk.place()]);
    let lines: Vec<&str> = screen.lines().filter(|line| line.starts_with("group")).collect();
    assert_eq!((code, lines.len()), (0, 2), "{screen}");
    for (line, binary) in lines.iter().zip(["aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"]) {
        assert!(line.contains(&format!("12 nodes of binary {binary}, AMD EPYC")), "{screen}");
    }
    let (_, answer) = as_json(&[on_disk.place()]);
    assert_eq!(answer["groups"][0]["binary"], "aaaaaaaaaaaaaaaa");
    let (_, page) = fleet(&[on_disk.place(), "--format", "markdown"]);
    assert!(page.matches("of binary bbbbbbbbbbbbbbbb").count() > 1, "{page}");
    let (_, table) = fleet(&[on_disk.place(), "--format", "csv"]);
    let row = table.lines().find(|line| line.contains(",n02,")).unwrap();
    assert!(row.ends_with(",aaaaaaaaaaaaaaaa"), "{row}");
}

#[test]
fn a_capability_that_is_gone_is_found() {
    let on_disk = OnDisk::filled(|run| {
        for experiment in run["experiments"].as_array_mut().unwrap() {
            for metric in experiment.get_mut("metrics").and_then(Value::as_array_mut).into_iter().flatten() {
                let figures = metric["figures"].as_array_mut().unwrap();
                figures.retain(|figure| !figure["labels"].as_str().is_some_and(|labels| labels.contains("pages=huge")));
            }
        }
    });
    let (code, answer) = as_json(&[on_disk.place()]);
    let node = &answer["groups"][0]["nodes"][6];
    assert_eq!((code, &node["verdict"]), (1, &json!("odd")), "{node:#}");
    assert_eq!(node["cause"], "transparent huge pages off");
}

#[test]
fn one_run_makes_a_suspect_and_the_list_for_the_next_job() {
    let on_disk = OnDisk::filled(|run| scale(run, "memory.bandwidth.rate", 0.9));
    for node in 1..=NODES {
        fs::remove_dir_all(on_disk.keep.path().join(format!("nodes/n{node:02}/1"))).unwrap();
    }
    fs::create_dir_all(on_disk.keep.path().join("nodes/n13")).unwrap();
    let (code, answer) = as_json(&[on_disk.place()]);
    assert_eq!((code, &answer["verdict"], &answer["missing"]), (3, &json!("undecided"), &json!(["n13"])));
    let (code, again) = fleet(&[on_disk.place(), "--again"]);
    assert_eq!(code, 3);
    assert!(again.contains("07") && again.contains("13") && again.lines().count() == 1, "{again}");
    // The open nodes, and as many healthy ones; the same ones each time.
    assert_eq!(answer["again"].as_array().unwrap().len(), 4, "{again}");
    assert_eq!(fleet(&[on_disk.place(), "--again"]).1, again);
    assert_eq!(fleet(&[on_disk.place(), "--missing"]), (3, "n13\n".to_owned()));
}

#[test]
fn completeness_is_the_expected_list_against_the_files() {
    let on_disk = OnDisk::filled(|_| ());
    let list = on_disk.keep.path().join("expected");
    fs::write(&list, "n[01-14]\n").unwrap();
    let list = list.to_str().unwrap();
    assert_eq!(fleet(&[on_disk.place(), "--expect", list, "--missing"]), (3, "n[13-14]\n".to_owned()));
    let (_, screen) = fleet(&[on_disk.place(), "--expect", list]);
    assert!(screen.starts_with("No node is odd. Of 14 expected nodes, 2 have no complete run."), "{screen}");
    fs::write(list, "n[01-11]").unwrap();
    let (code, screen) = fleet(&[on_disk.place(), "--expect", list]);
    assert!(code == 0 && screen.starts_with("No node is odd. All 12 nodes are complete."), "{screen}");
    fs::write(list, "n[01-12]").unwrap();
    let (_, screen) = fleet(&[on_disk.place(), "--expect", list]);
    assert!(screen.starts_with("No node is odd. All 12 expected nodes are complete."), "{screen}");
    assert_eq!(fleet(&[on_disk.place(), "--expect", list, "--missing"]), (0, String::new()));
    fs::write(list, "n[1-").unwrap();
    let found = output(&["fleet", on_disk.place(), "--expect", list]);
    assert!(found.status.code() == Some(2) && text(&found.stderr).contains("not closed"), "{}", told(&found));
    // From standard input.
    let place = on_disk.keep.path().join("expected-2");
    fs::write(&place, "n01\nn99\n").unwrap();
    let found = sysdyno(&["fleet", on_disk.place(), "--expect", "-", "--missing"])
        .stdin(fs::File::open(&place).unwrap())
        .output()
        .unwrap();
    assert_eq!((found.status.code(), text(&found.stdout)), (Some(3), "n99\n".to_owned()));
}

#[test]
fn broken_files_are_left_aside_and_named() {
    let on_disk = OnDisk::filled(|_| ());
    let nodes = on_disk.keep.path().join("nodes");
    fs::write(nodes.join("n01/1/node.json"), "{\"format\":\"sysdyno-no").unwrap();
    fs::write(nodes.join("n02/1/node.json"), vec![b' '; (1 << 20) + 1]).unwrap();
    fs::create_dir_all(nodes.join("n;rm/0")).unwrap();
    fs::create_dir_all(nodes.join("n03/2")).unwrap();
    std::os::unix::fs::symlink(nodes.join("n04/0/node.json"), nodes.join("n03/2/node.json")).unwrap();
    let mut foreign = on_disk.run(5, 1, |_| ());
    foreign["node"]["name"] = json!("$(reboot)");
    on_disk.write(5, 1, &foreign);
    let (code, answer) = as_json(&[on_disk.place()]);
    let aside = answer["left_aside"].as_array().unwrap();
    assert_eq!((code, aside.len()), (0, 5), "{aside:#?}");
    let reason = |part: &str| {
        let found = aside.iter().find(|found| found["place"].as_str().unwrap().contains(part)).unwrap();
        found["reason"].as_str().unwrap().to_owned()
    };
    assert!(reason("n02/1").contains("1 MiB") && reason("n05/1").contains("other characters"), "{aside:#?}");
    assert!(reason("n;rm").contains("name of a node") && reason("n03/2").contains("symbolic link"), "{aside:#?}");
    assert!(reason("n01/1").starts_with("it is not JSON: EOF"), "{aside:#?}");
}

#[test]
fn runs_that_are_of_another_machine_are_left_aside_and_the_rest_is_shown() {
    let on_disk = OnDisk::filled(|_| ());
    let mut other = on_disk.run(3, 2, |_| ());
    other["node"]["machine"] = json!("ffffffffffffffff");
    on_disk.write(3, 2, &other);
    // A slow run of node 5 in the directory of node 4.
    let slow = on_disk.run(5, 2, |run| scale(run, "os.system_call.time", 2.0));
    on_disk.write(4, 2, &slow);
    // Node 6 has other hardware since its last run.
    let changed = on_disk.run(6, 2, |run| run["node"]["fingerprint"] = json!("0123456789abcdef"));
    on_disk.write(6, 2, &changed);
    let (code, answer) = as_json(&[on_disk.place()]);
    let aside = answer["left_aside"].as_array().unwrap();
    assert_eq!((code, aside.len()), (3, 6), "{aside:#?}");
    for (place, reason) in [
        ("n03/0", "two machines have the name n03, the other one in "),
        ("n03/2", "n03/0/node.json. Give the nodes different names"),
        ("n04/2", "it is a run of n05 in the directory of n04"),
        ("n06/0", "n06 has other hardware now"),
        ("n06/1", "and is 0123456789abcdef since"),
    ] {
        let found = aside.iter().find(|found| found["place"].as_str().unwrap().contains(place)).unwrap();
        assert!(found["reason"].as_str().unwrap().contains(reason), "{found}");
    }
    assert_eq!(answer["missing"], json!(["n03"]));
    let groups = answer["groups"].as_array().unwrap().iter().map(|group| group["nodes"].as_array().unwrap().len());
    assert_eq!(groups.collect::<Vec<_>>(), [NODES - 2, 1], "each other node once");
    assert!(!fleet(&[on_disk.place()]).1.contains("odd        "), "no node is accused of a run of another one");
}

/// One file with thousands of facts and results of its own makes no report of many nodes large.
#[test]
fn one_file_with_many_facts_costs_little() {
    let on_disk = OnDisk::filled(|_| ());
    let size = || output(&["fleet", "--format", "json", on_disk.place()]).stdout.len();
    let before = size();
    let many = on_disk.run(1, 1, |run| {
        for number in 0..4_900 {
            run["facts"][format!("a{number}")] = json!("");
        }
    });
    on_disk.write(1, 1, &many);
    let after = size();
    assert!(after < 2 * before + 100_000, "{before} bytes, then {after}");
    let (_, answer) = as_json(&[on_disk.place()]);
    let odd: Vec<&Value> = answer["groups"][0]["odd_facts"].as_array().unwrap().iter().collect();
    assert!(odd.len() <= 300 && odd.iter().all(|fact| fact["value"] == "" || fact["value"] == "(absent)"), "{odd:?}");
    let too_many = on_disk.run(1, 1, |run| {
        for number in 0..5_000 {
            run["facts"][format!("a{number}")] = json!("");
        }
    });
    on_disk.write(1, 1, &too_many);
    let (_, answer) = as_json(&[on_disk.place()]);
    assert!(answer["left_aside"][0]["reason"].as_str().unwrap().contains("facts, and at most 5000 are read"));
}

#[test]
fn gathered_files_and_few_nodes_are_read_and_not_judged() {
    let on_disk = OnDisk::new();
    for node in 1..=5 {
        let run = on_disk.run(node, 0, |_| ());
        fs::write(on_disk.keep.path().join(format!("out-{node}.json")), run.to_string()).unwrap();
    }
    let (code, answer) = as_json(&[on_disk.place()]);
    assert_eq!((code, &answer["groups"][0]["judged"]), (3, &json!(false)));
    assert_eq!(answer["groups"][0]["nodes"].as_array().unwrap().len(), 5);
    // The same files in two directories count once.
    let (_, twice) = as_json(&[on_disk.place(), on_disk.place()]);
    assert_eq!(twice["runs"], 5);
    let empty = tempfile::tempdir().unwrap();
    let found = output(&["fleet", empty.path().to_str().unwrap()]);
    assert!(found.status.code() == Some(2) && text(&found.stderr).contains("hint:"), "{}", told(&found));
}

#[test]
fn an_upgrade_is_shown_with_its_size_and_the_facts_that_changed() {
    let (before, now) = (OnDisk::filled(|_| ()), OnDisk::new());
    for node in 1..=NODES {
        let run = now.run(node, 3, |run| {
            scale(run, "os.system_call.time", 1.01);
            run["facts"]["Kernel: release"] = json!("6.99");
        });
        now.write(node, 3, &run);
    }
    let (code, answer) = as_json(&[now.place(), "--before", before.place()]);
    let upgrade = &answer["before"];
    let changed: Vec<&Value> =
        upgrade["axes"].as_array().unwrap().iter().filter(|axis| axis["changed"] == true).collect();
    assert_eq!((code, upgrade["nodes"].as_u64(), changed.len()), (1, Some(12), 1), "{upgrade:#}");
    assert_eq!(changed[0]["axis"], "system_calls");
    assert!((changed[0]["effect"].as_f64().unwrap() + 0.0099).abs() < 0.001, "{upgrade:#}");
    assert_eq!(
        (&upgrade["facts"][0]["fact"], &upgrade["facts"][0]["now"]),
        (&json!("Kernel: release"), &json!("6.99"))
    );
    let (_, screen) = fleet(&[now.place(), "--before", before.place()]);
    assert!(screen.contains("1 axis changed, 1 for the worse"), "{screen}");
    assert!(screen.contains("system calls 1.0") && screen.contains("% worse, 95 % interval"), "{screen}");
    for node in 6..=NODES {
        fs::remove_dir_all(now.keep.path().join(format!("nodes/n{node:02}"))).unwrap();
    }
    let (code, screen) = fleet(&[now.place(), "--before", before.place()]);
    assert!(code == 3 && screen.contains("a change needs 10 or more"), "{screen}");
}

#[test]
fn limits_hold_what_healthy_nodes_have() {
    let on_disk = OnDisk::filled(|run| scale(run, "memory.latency.level", 1.5));
    let place = on_disk.keep.path().join("accepted.json");
    let (code, _) = fleet(&[on_disk.place(), "--accepted", place.to_str().unwrap()]);
    assert_eq!(code, 1);
    let accepted: Value = serde_json::from_slice(&fs::read(&place).unwrap()).unwrap();
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/accepted.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_slice(&fs::read(schema).unwrap()).unwrap()).unwrap();
    assert!(schema.is_valid(&accepted), "{accepted:#}");
    let model = &accepted["models"][0];
    assert_eq!(model["nodes"], 11);
    let limits = model["limits"].as_array().unwrap();
    assert!(limits.len() > 60);
    for limit in limits {
        let [low, median, high] = ["low", "median", "high"].map(|field| limit[field].as_f64().unwrap());
        assert!(low <= median / 1.049 && high >= median * 1.049 && low > 0.0, "{limit}");
    }
    let facts = model["facts"].as_array().unwrap();
    assert!(
        facts.iter().any(|fact| fact["fact"] == "Kernel: release" && fact["values"].as_array().unwrap().len() == 1)
    );
    let (_, answer) = as_json(&[on_disk.place()]);
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/fleet.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_slice(&fs::read(schema).unwrap()).unwrap()).unwrap();
    assert!(schema.is_valid(&answer));
}

/// Node files come from other machines. Whatever is in them, the program ends with an answer or an error.
#[test]
fn changed_bytes_stop_nothing() {
    let on_disk = OnDisk::new();
    let original = on_disk.run(1, 0, |_| ()).to_string().into_bytes();
    let mut random = Rng::with_seed(0x666c_6565_7400);
    for number in 0..300 {
        let mut bytes = original.clone();
        for _ in 0..random.usize(1..6) {
            let place = random.usize(..bytes.len());
            match random.u8(..5) {
                0 => bytes[place] = random.u8(..),
                1 => bytes.truncate(place.max(1)),
                2 => drop(bytes.drain(place..(place + random.usize(..200)).min(bytes.len()))),
                3 => bytes.splice(place..place, b"1e308".iter().copied()).for_each(drop),
                _ => {
                    // Another number in place of one: of a size, a sign or a kind that no run has.
                    let number: &[u8] =
                        random.choice([b"-1.0".as_slice(), b"0.0", b"1e300", b"5e-324", b"null"]).unwrap();
                    let start =
                        bytes[place..].windows(8).position(|found| found == b"\"value\":").map(|at| place + at + 8);
                    if let Some(start) = start {
                        let end =
                            bytes[start..].iter().position(|byte| b",}".contains(byte)).map_or(start, |at| start + at);
                        bytes.splice(start..end, number.iter().copied()).for_each(drop);
                    }
                }
            }
        }
        fs::write(on_disk.keep.path().join(format!("x{number:03}.json")), bytes).unwrap();
    }
    for form in ["json", "html", "csv", "text"] {
        let found = output(&["fleet", on_disk.place(), "--format", form]);
        assert!(found.status.code().is_some_and(|code| code < 4), "{}", told(&found));
        assert!(!text(&found.stdout).contains("NaN"), "{form}");
    }
}

/// Largest memory that a process had so far, in KiB.
fn most_memory(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Seconds of CPU time that a process had so far, in its own code. The kernel counts hundredths (proc_pid_stat(5)).
fn cpu_time(process: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let after_name = stat.rsplit_once(')')?.1;
    Some(after_name.split_whitespace().nth(11)?.parse::<f64>().ok()? / 100.0)
}

/// The fleet verb on this many nodes: seconds of CPU time, and most memory in KiB.
fn cost_of(nodes: usize) -> (f64, u64) {
    let on_disk = OnDisk::new();
    // A few different files under many names: the directory names the node where the file does not.
    let originals: Vec<PathBuf> = (0..16)
        .map(|number| {
            let mut run = on_disk.run(number, 0, |_| ());
            for field in ["name", "machine"] {
                run["node"].as_object_mut().unwrap().remove(field);
            }
            let place = on_disk.keep.path().join(format!("original-{number}"));
            fs::write(&place, run.to_string()).unwrap();
            place
        })
        .collect();
    for node in 0..nodes {
        let directory = on_disk.keep.path().join(format!("nodes/m{node}/0"));
        fs::create_dir_all(&directory).unwrap();
        fs::hard_link(&originals[node % originals.len()], directory.join("node.json")).unwrap();
    }
    let mut child = program().args(["fleet", on_disk.place()]).stdout(std::process::Stdio::null()).spawn().unwrap();
    let (mut memory, mut time) = (0, 0.0);
    while child.try_wait().unwrap().is_none() {
        memory = most_memory(child.id()).unwrap_or(memory);
        time = cpu_time(child.id()).unwrap_or(time);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    println!("{nodes} nodes: {time:.1} s of CPU time, at most {} MiB", memory >> 10);
    (time, memory)
}

#[test]
fn ten_thousand_nodes_take_ten_times_as_long_as_a_thousand() {
    let (few, _) = cost_of(MANY / 10);
    let (many, memory) = cost_of(MANY);
    assert!(many < MOST_GROWTH * few.max(0.1), "{many} s for ten times the nodes of {few} s");
    assert!(memory < MOST_MEMORY, "{memory} KiB");
}
