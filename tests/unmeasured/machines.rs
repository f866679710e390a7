//! `sysdyno machines`: the list, the page, and the entry of a machine.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::runs::{output, text, told};

fn record(name: &str) -> String {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("records").join(name).join("node.json");
    place.to_str().unwrap().to_owned()
}

fn entries() -> Vec<Value> {
    serde_json::from_slice(&output(&["machines", "--json"]).stdout).unwrap()
}

#[test]
fn each_machine_has_a_line_and_nothing_identifies_it() {
    let listed = text(&output(&["machines"]).stdout);
    let entries = entries();
    assert!(entries.len() >= 7);
    for entry in &entries {
        let design = entry["kind"]["design"].as_str().unwrap();
        assert!(listed.lines().any(|line| line.contains(design)), "{design}: {listed}");
        let whole = entry.to_string();
        for word in ["30ee9efcec1edbff", "\"vm\"", "boot", "fingerprint"] {
            assert!(!whole.contains(word), "{word}: {whole}");
        }
    }
    let all = text(&output(&["machines", "--all"]).stdout);
    assert!(all.matches("system call").count() >= entries.len() - 1, "{all}");
}

#[test]
fn the_page_has_each_machine_and_asks_no_network() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("machines.html");
    assert!(output(&["machines", "--html", file.to_str().unwrap()]).status.success());
    let page = fs::read_to_string(&file).unwrap();
    assert!(!page.contains("http"), "no address");
    let data = page.split("<script id=\"data\" type=\"application/json\">").nth(1).unwrap();
    let data: Value = serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
    let machines = data["machines"].as_array().unwrap();
    assert_eq!(machines.len(), entries().len());
    for machine in machines {
        let costs = machine["costs"].as_object().unwrap();
        assert!(costs.len() >= 15, "{machine}");
        for (name, value) in costs {
            let of = |place: usize| value[place].as_f64().unwrap();
            assert!(of(1) <= of(0) && of(0) <= of(2), "{name} of {machine}");
        }
    }
    // A second page takes another name.
    let again = output(&["machines", "--html", file.to_str().unwrap()]);
    assert!(again.status.success() || told(&again).contains("hint"), "{}", told(&again));
}

#[test]
fn an_entry_has_the_costs_of_its_run_and_shows_each_byte() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("mine.json");
    let [one, other] = ["guest-zen5-2cpu-level-3", "guest-zen4-2cpu-one-line"].map(record);
    let made = output(&["machines", "add", &one, "--source", "a test", "-o", file.to_str().unwrap()]);
    assert!(made.status.success(), "{}", told(&made));
    assert_eq!(text(&made.stdout), fs::read_to_string(&file).unwrap());
    let entry: Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!((&entry["kind"]["design"], &entry["source"]), (&Value::from("AMD Zen 5"), &Value::from("a test")));
    // The result in core cycles, as the run has it.
    let run: Value = serde_json::from_str(&fs::read_to_string(&one).unwrap()).unwrap();
    let signal = run["experiments"].as_array().unwrap().iter().find(|found| found["id"] == "os.signal").unwrap();
    let figures = signal["metrics"][0]["figures"].as_array().unwrap();
    let delivered = figures.iter().find(|figure| figure["labels"] == "how=deliver_self").unwrap();
    let cost = entry["costs"].as_array().unwrap().iter().find(|cost| cost[0] == "signal").unwrap();
    let [found, cycles] = [&cost[3], &delivered["cycles"]].map(|value| value.as_f64().unwrap());
    assert!((found / cycles - 1.0).abs() < 1e-5, "{found} {cycles}");
    assert_eq!(cost[2], "cycles");
    let mixed = output(&["machines", "add", &one, &other]);
    assert_eq!(mixed.status.code(), Some(2));
    assert!(told(&mixed).contains("two machines") && told(&mixed).contains("hint: "), "{}", told(&mixed));
}
