//! Meshes on disk, read by `fleet`, and what `mesh` refuses.
use std::fs;

use serde_json::{Value, json};

use crate::support::runs::{output, sysdyno, text, told};

/// A mesh of nodes in racks of eight, in which node 3 sends half of what the others send.
fn mesh(members: u64) -> Value {
    let rack = |rank: u64| format!("leaf{}", rank / 8);
    let member = |rank: u64| {
        let address = format!("10.1.{}.{}", rank / 250, rank % 250 + 1);
        let link =
            json!({"interface": "ib0", "address": address, "prefix": 16, "bits_per_second": 100_000_000_000_u64});
        let send = if rank == 3 { -0.5 } else { 0.0 };
        let (node, rack) = (format!("n{rank}"), rack(rank));
        json!({"rank": rank, "node": node, "rack": rack, "link": link, "send": send, "receive": 0.0, "latency": 0.0})
    };
    let rate = |from: u64| if from == 3 { 6_000_000_000_u64 } else { 12_000_000_000 };
    let pairs: Vec<Value> = (0..members)
        .flat_map(|one| (one + 1..members).map(move |other| (one, other)))
        .map(|(one, other)| {
            json!({"round": 1, "caller": one, "callee": other, "there": rate(one), "back": rate(other),
                "round_trip": 9000, "fast_round_trip": 8000, "slow_round_trip": 20000})
        })
        .collect();
    json!({
        "format": "sysdyno-mesh/1", "version": "0.1.0", "started": "2026-11-21T00:00:00Z", "seconds": 24.0,
        "plan": {"size": members, "mode": "together", "rounds": members - 1, "seed": 1, "streams": 1},
        "verdict": "odd",
        "findings": [{"kind": "bad_sender", "names": ["n3"], "effect": -0.5, "z": -30.0, "values": 7, "typical": 6e9}],
        "undecided": [], "warnings": [],
        "typical": {"rate": [6e9, 12e9, 12e9], "round_trip": [9e-6, 9e-6, 9e-6], "rate_scatter": 0.03, "round_trip_scatter": 0.1},
        "members": (0..members).map(member).collect::<Vec<Value>>(),
        "pairs": pairs,
    })
}

/// A directory with one mesh.
fn on_disk(mesh: &Value) -> tempfile::TempDir {
    let keep = tempfile::tempdir().unwrap();
    fs::create_dir(keep.path().join("mesh")).unwrap();
    fs::write(keep.path().join("mesh/mesh-20261121T000000Z.json"), mesh.to_string()).unwrap();
    keep
}

fn fleet(place: &std::path::Path, words: &[&str]) -> (i32, String) {
    let found = output(&[&["fleet", place.to_str().unwrap()], words].concat());
    (found.status.code().unwrap(), text(&found.stdout))
}

#[test]
fn a_mesh_alone_is_an_answer_with_a_page() {
    let keep = on_disk(&mesh(16));
    let (code, screen) = fleet(keep.path(), &[]);
    assert_eq!(code, 1, "{screen}");
    for part in ["Network between 16 nodes: bad sender n3 (120 pairs).", "bad sender n3: 6.00 GB/s, −50 % (z −30.0)"]
    {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    assert!(screen.lines().count() <= 24, "{screen}");
    let (_, page) = fleet(keep.path(), &["--format", "html"]);
    for part in ["id=\"drawing-mesh-rates\"", "id=\"drawing-mesh-round-trips\"", "Which link is odd?", "class=\"q q1\""]
    {
        assert!(page.contains(part), "{part}");
    }
    let (_, answer) = fleet(keep.path(), &["--format", "json"]);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["mesh"]["findings"][0]["names"], json!(["n3"]));
    assert_eq!((&answer["mesh"]["pairs"], &answer["mesh"]["missing"]), (&json!(120), &json!(0)));
}

#[test]
fn large_meshes_are_drawn_in_blocks_of_bounded_size() {
    let keep = on_disk(&mesh(200));
    let (code, page) = fleet(keep.path(), &["--format", "html"]);
    assert_eq!(code, 1);
    assert!(page.contains("median of several of 200 nodes") && page.contains("leaf24"), "rows are racks");
    assert!(page.matches('<').count() < 5000, "{}", page.matches('<').count());
}

#[test]
fn the_newest_mesh_counts_and_broken_ones_are_left_aside() {
    let mut old = mesh(8);
    old["findings"][0]["names"] = json!(["n7"]);
    let keep = on_disk(&old);
    let place = |time: &str| keep.path().join(format!("mesh/mesh-{time}.json"));
    fs::write(place("20261122T000000Z"), mesh(8).to_string()).unwrap();
    let change = |time: &str, change: &dyn Fn(&mut Value)| {
        let mut mesh = mesh(8);
        change(&mut mesh);
        fs::write(place(time), mesh.to_string()).unwrap();
    };
    change("20261123T000001Z", &|mesh| mesh["pairs"][0]["callee"] = json!(8));
    change("20261123T000002Z", &|mesh| mesh["members"][2]["node"] = json!("$(reboot)"));
    change("20261123T000003Z", &|mesh| mesh["format"] = json!("sysdyno-mesh/9"));
    change("20261123T000004Z", &|mesh| mesh["members"][2]["rank"] = json!(7));
    fs::write(place("20261123T000005Z"), "{\"format\":").unwrap();
    std::os::unix::fs::symlink(place("20261122T000000Z"), place("20261123T000006Z")).unwrap();
    let (code, answer) = fleet(keep.path(), &["--format", "json"]);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((code, &answer["mesh"]["findings"][0]["names"]), (1, &json!(["n3"])), "{answer:#}");
    assert_eq!(answer["left_aside"].as_array().unwrap().len(), 6, "{answer:#}");
}

#[test]
fn a_mesh_without_findings_is_done_and_one_with_holes_is_open() {
    let mut healthy = mesh(8);
    (healthy["findings"], healthy["verdict"]) = (json!([]), json!("nothing_odd"));
    let (code, screen) = fleet(on_disk(&healthy).path(), &[]);
    assert!(code == 0 && screen.contains("nothing odd (28 pairs)"), "{code}: {screen}");
    healthy["verdict"] = json!("incomplete");
    for key in ["there", "back", "round_trip", "fast_round_trip", "slow_round_trip"] {
        healthy["pairs"][0].as_object_mut().unwrap().remove(key);
    }
    healthy["pairs"][0]["reason"] = json!("refused");
    let keep = on_disk(&healthy);
    let (code, screen) = fleet(keep.path(), &[]);
    assert!(code == 3 && screen.contains("27 pairs, 1 missing"), "{code}: {screen}");
    let (_, page) = fleet(keep.path(), &["--format", "html"]);
    assert!(page.contains("n0–n1: refused"));
}

#[test]
fn a_task_that_does_not_know_its_place_is_refused() {
    let refused = |words: &[&str], variables: &[(&str, &str)], part: &str| {
        let mut command = sysdyno(&[&["mesh", "/proc/nonexistent/mesh"], words].concat());
        let found = command.envs(variables.iter().copied()).output().unwrap();
        let said = text(&found.stderr);
        assert!(found.status.code() == Some(2) && said.contains(part), "{}", told(&found));
        assert!(said.contains("hint: "), "{}", told(&found));
    };
    refused(&[], &[], "the rank of this task is unknown");
    refused(&["--rank", "0", "--size", "1"], &[], "two nodes or more");
    refused(&["--rank", "4", "--size", "4"], &[], "rank 4 is not below the size 4");
    refused(&["--rank", "0"], &[], "--rank needs --size");
    refused(&[], &[("JOB_COMPLETION_INDEX", "1")], "the size is unknown");
    let both = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("PMI_RANK", "2"), ("PMI_SIZE", "4")];
    refused(&[], &both, "PMI_RANK and PMI_SIZE say rank 2 of 4");
    refused(&["--rank", "1", "--size", "2", "--network", "10.0.0.0/40"], &[], "from 0 to 32");
    refused(&["--rank", "1", "--size", "2", "--meet", "host:1"], &[], "--meet requires a secret");
    refused(&["--rank", "1", "--size", "2", "--label", "rack=a b"], &[], "cannot be the name of a rack");
    refused(&["--rank", "0", "--size", "4096", "--all"], &[], "are too many for one result");
}
