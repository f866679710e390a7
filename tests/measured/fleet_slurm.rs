//! The odd nodes of a real Slurm cluster, measured and named by the commands of docs/fleets.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::cluster::{Cluster, NodeFault};
use crate::support::runs::{measuring, output, text, told};
use crate::support::truth::{Judgement, judged};

/// Nodes of the cluster: the fewest that are judged, and those with a fault.
const NODES: u32 = 10;
/// Nodes that are not as the others.
const ODD: [&str; 2] = ["n3", "n6"];
/// What shows both faults in about two seconds. The nodes share the CPUs of this machine, so they take turns.
const ENVIRONMENT: [(&str, &str); 2] = [
    ("SYSDYNO_OPTIONS", "--quick --time 1.5s cpu.frequency os.system_call memory.page_fault"),
    ("SYSDYNO_AT_ONCE", "1"),
];

/// The lines of each block of commands below a heading of the page.
fn commands(heading: &str) -> Vec<Vec<String>> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/fleets.md")).unwrap();
    let (_, below) = page.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading} on the page"));
    let section = below.split("\n### ").next().unwrap();
    let blocks = section.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.map(|block| block.lines().map(str::to_owned).collect()).collect()
}

/// Names of nodes with a verdict.
fn with_verdict(fleet: &Value, verdict: &str) -> BTreeSet<String> {
    let groups = fleet["groups"].as_array().unwrap();
    let nodes = groups.iter().flat_map(|group| group["nodes"].as_array().unwrap());
    nodes.filter(|node| node["verdict"] == verdict).map(|node| node["name"].as_str().unwrap().to_owned()).collect()
}

fn analysed(fleet: &Path) -> (Value, Output) {
    let output = output(&["fleet", fleet.to_str().unwrap(), "--format", "json"]);
    let found = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", told(&output)));
    (found, output)
}

#[test]
fn the_page_leads_to_the_odd_nodes_of_a_slurm_cluster() {
    let _turn = measuring();
    let blocks = commands("### Slurm");
    let [first, second, last] = blocks.as_slice() else { panic!("three blocks of commands: {blocks:?}") };
    let [name_odd, again] = last.as_slice() else { panic!("two commands: {last:?}") };
    let cluster = Cluster::start(NODES, &[(3, NodeFault::Filter), (6, NodeFault::NoHugePages)], "");
    let submit = |lines: &[String]| {
        for line in lines {
            let output = cluster.line(line, &ENVIRONMENT);
            assert!(output.status.success(), "{line}: {}\n{}", told(&output), cluster.logs());
        }
    };
    submit(first);
    submit(second);
    let fleet = cluster.work().join("sysdyno-fleet");
    let runs = |node: u32| fleet.join(format!("nodes/n{node}")).read_dir().map_or(0, Iterator::count);
    for node in 1..=NODES {
        assert_eq!(runs(node), 2, "n{node} was measured by both jobs\n{}", cluster.logs());
        assert!(cluster.left_on(node).is_empty(), "{:?}", cluster.left_on(node));
    }
    let mut begun = false;
    judged("the odd nodes of a cluster", || {
        // Each further try adds a run of the nodes that are open.
        if std::mem::replace(&mut begun, true) {
            submit(std::slice::from_ref(again));
        }
        let (found, output) = analysed(&fleet);
        let odd = with_verdict(&found, "odd");
        if odd == BTreeSet::from(ODD.map(str::to_owned)) {
            return Judgement::Right;
        }
        let answer = cluster.line(name_odd, &[]);
        if odd.iter().any(|node| !ODD.contains(&node.as_str())) {
            return Judgement::Wrong(format!("healthy nodes are odd: {odd:?}\n{}", told(&answer)));
        }
        let open = ["suspect", "undecided"].map(|verdict| with_verdict(&found, verdict));
        if ODD.iter().all(|node| odd.contains(*node) || open.iter().any(|open| open.contains(*node))) {
            return Judgement::Disturbed(format!("odd {odd:?}, suspect and undecided {open:?}"));
        }
        // Too few siblings are left to tell what is usual.
        if 3 * open[1].len() >= NODES as usize {
            return Judgement::Disturbed(format!("odd {odd:?}, undecided {:?}", open[1]));
        }
        Judgement::Wrong(format!("faults are not found: odd {odd:?}, {}\n{}", output.status, told(&answer)))
    });
    let answer = cluster.line(name_odd, &[]);
    if with_verdict(&analysed(&fleet).0, "odd").len() == ODD.len() {
        assert_eq!(answer.status.code(), Some(1), "{}", told(&answer));
        let said = text(&answer.stdout);
        assert!(said.contains("2 nodes are odd: n[3,6]") && said.contains("system calls"), "{}", told(&answer));
    }
    healthy_nodes_alone_have_no_odd_one(&fleet);
    a_missing_node_is_measured_again(&cluster, &fleet, again);
}

/// The same runs without the nodes with a fault.
fn healthy_nodes_alone_have_no_odd_one(fleet: &Path) {
    let keep = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").arg("-r").arg(fleet.join("nodes")).arg(keep.path()).output().unwrap();
    assert!(copied.status.success(), "{}", told(&copied));
    for node in ODD {
        fs::remove_dir_all(keep.path().join("nodes").join(node)).unwrap();
    }
    let (found, output) = analysed(keep.path());
    assert_eq!(with_verdict(&found, "odd"), BTreeSet::new(), "{}", told(&output));
    assert_ne!(output.status.code(), Some(1), "{}", told(&output));
}

fn a_missing_node_is_measured_again(cluster: &Cluster, fleet: &Path, again: &str) {
    let place = fleet.join("nodes/n9");
    for run in place.read_dir().unwrap() {
        fs::remove_dir_all(run.unwrap().path()).unwrap();
    }
    let quick = [("SYSDYNO_OPTIONS", "--quick --time 1s cpu.loop")];
    let output = cluster.line(again, &quick);
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(place.read_dir().unwrap().count(), 1, "{}\n{}", told(&output), cluster.logs());
}

/// The mesh of a job by the ready script: the sender and the uplink that are slow, and the result where `fleet` finds it.
#[test]
fn the_ready_script_finds_the_odd_links_of_a_slurm_cluster() {
    let _turn = measuring();
    let cluster = Cluster::start(4, &[], "");
    (1..=4).for_each(|node| cluster.shape(node, 400));
    cluster.shape_uplink(200);
    cluster.shape_sender(4, 100);
    let environment = [("SYSDYNO_NETWORK", "f0"), ("SYSDYNO_MESH_OPTIONS", "--all --alone --seed 5")];
    judged("the odd links of a cluster", || {
        let submitted = cluster.line("sysdyno script slurm-mesh | sbatch -N 4", &environment);
        assert!(submitted.status.success(), "{}\n{}", told(&submitted), cluster.logs());
        let (found, output) = analysed(&cluster.work().join("sysdyno-fleet"));
        let findings = found["mesh"]["findings"].as_array().unwrap_or_else(|| panic!("{found}\n{}", cluster.logs()));
        let is_named = |kind: &str, names: &[&str]| {
            findings.iter().any(|finding| finding["kind"] == kind && finding["names"] == serde_json::json!(names))
        };
        if is_named("bad_sender", &["n4"]) && is_named("slow_uplink", &["leaf1", "leaf2"]) {
            return Judgement::Right;
        }
        let why = format!("{}\n{}", told(&output), cluster.logs());
        // Pairs are missing where the machine was too busy for them.
        if found["mesh"]["verdict"] == "incomplete" { Judgement::Disturbed(why) } else { Judgement::Wrong(why) }
    });
    for node in 1..=4 {
        assert!(cluster.left_on(node).is_empty(), "{:?}", cluster.left_on(node));
    }
}

/// Nodes by their verdict, for one kind of nodes.
#[derive(Default)]
struct Verdicts {
    all: u32,
    odd: u32,
    open: u32,
}

impl Verdicts {
    fn add(&mut self, found: &Value, nodes: &[String]) {
        let count = |verdict: &str| {
            let named = with_verdict(found, verdict);
            nodes.iter().filter(|node| named.contains(*node)).count() as u32
        };
        self.all += nodes.len() as u32;
        self.odd += count("odd");
        self.open += count("suspect") + count("undecided");
    }
}

/// Prints how often nodes are named that have a fault, and healthy ones. `SYSDYNO_BENCH_TIMES` is the number of fleets. With
/// `SYSDYNO_BENCH_FAULTS=none` all nodes are healthy.
#[test]
#[ignore = "scripts/bench-fleet starts it"]
fn campaign() {
    let times: u32 = std::env::var("SYSDYNO_BENCH_TIMES").map_or(3, |times| times.parse().unwrap());
    let faulty = std::env::var("SYSDYNO_BENCH_FAULTS").is_err();
    let faults = [(3, NodeFault::Filter), (6, NodeFault::NoHugePages)];
    let cluster = Cluster::start(NODES, if faulty { &faults } else { &[] }, "");
    let name = |node: u32| format!("n{node}");
    let is_healthy = |node: &u32| !faulty || faults.iter().all(|(of, _)| of != node);
    let mut kinds = vec![("none", (1..=NODES).filter(is_healthy).map(name).collect())];
    if faulty {
        kinds.push(("system-call filter", vec![name(3)]));
        kinds.push(("no transparent huge pages", vec![name(6)]));
    }
    println!("| fault | runs | nodes | odd | open |\n| --- | --- | --- | --- | --- |");
    let mut rows: Vec<Vec<Verdicts>> = (0..2).map(|_| kinds.iter().map(|_| Verdicts::default()).collect()).collect();
    for time in 1..=times {
        let fleet = cluster.work().join(format!("fleet-{time}"));
        for row in &mut rows {
            let environment = [&ENVIRONMENT[..], &[("SYSDYNO_FLEET", fleet.to_str().unwrap())]].concat();
            cluster.line(&format!("sysdyno script slurm | sbatch -N {NODES}"), &environment);
            let (found, _) = analysed(&fleet);
            row.iter_mut().zip(&kinds).for_each(|(verdicts, (_, nodes))| verdicts.add(&found, nodes));
        }
    }
    for (runs, row) in (1..).zip(&rows) {
        for (Verdicts { all, odd, open }, (fault, _)) in row.iter().zip(&kinds) {
            println!("| {fault} | {runs} | {all} | {odd} | {open} |");
        }
    }
}
