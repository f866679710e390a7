//! Runs over time: what changed is found at its run with what else changed there, nothing else is, and too few runs say so.
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::compare::{Runs, figures, scale, sharpen, times};
use crate::support::runs::{output, sysdyno, text, told};

/// Results that are slower in these tests, and how slow that is.
const SLOWER: &str = "os.system_call.time";
const FACTOR: f64 = 1.15;

/// Runs of consecutive days in a directory, each with small noise of its own, changed by their numbers from 0.
fn series(runs: &Runs, name: &str, count: u64, change: impl Fn(u64, &mut Value)) -> PathBuf {
    let directory = runs.keep.path().join(name);
    fs::create_dir(&directory).unwrap();
    for number in 0..count {
        runs.with(&format!("{name}/{number:02}.json"), |run| one_of(run, number, &change));
    }
    directory
}

fn one_of(run: &mut Value, number: u64, change: &impl Fn(u64, &mut Value)) {
    let mut random = fastrand::Rng::with_seed(number);
    sharpen(run);
    for (_, figure) in figures(run) {
        let noise = 1.0 + 0.004 * (random.f64() - 0.5);
        times(figure, noise);
    }
    run["run"]["id"] = json!(format!("vm-{number}"));
    run["run"]["started"] = json!(format!("2026-10-{:02}T09:00:00Z", number + 1));
    change(number, run);
}

fn history(words: &[&str], place: &Path) -> (i32, Value) {
    let found = output(&[&["history", "--format", "json"], words, &[place.to_str().unwrap()]].concat());
    let code = found.status.code().unwrap();
    (code, serde_json::from_slice(&found.stdout).unwrap_or_else(|_| panic!("{}", told(&found))))
}

/// Results with change points or a drift.
fn changed(history: &Value) -> Vec<&Value> {
    let results = history["results"].as_array().unwrap().iter();
    results.filter(|result| !result["changes"].as_array().unwrap().is_empty() || result["drift"].is_object()).collect()
}

fn new_kernel(run: &mut Value) {
    run["facts"]["Kernel: release"] = json!("6.19.0");
    run["facts"]["Kernel: spectre_v2"] = json!("Mitigation: Enhanced IBRS");
}

/// Slower system calls with a new kernel from run 7 of 12 on.
fn update(number: u64, run: &mut Value) {
    if number >= 6 {
        scale(run, SLOWER, FACTOR);
        new_kernel(run);
    }
}

#[test]
fn runs_that_did_not_change_have_no_change_point() {
    let runs = Runs::new();
    let (code, found) = history(&[], &series(&runs, "same", 12, |_, _| {}));
    assert!(code == 0 && changed(&found).is_empty() && found["moments"] == json!([]), "{code}");
    assert!(found["results"].as_array().unwrap().len() > 200);
}

#[test]
fn a_change_is_found_at_its_run_with_its_size_and_what_else_changed() {
    let runs = Runs::new();
    let directory = series(&runs, "update", 12, update);
    let (code, found) = history(&[], &directory);
    let results = changed(&found);
    assert!(code == 1 && results.len() > 5, "{code}");
    for result in &results {
        assert!(result["metric"] == SLOWER && result["finding"] == "worse" && result["drift"].is_null(), "{result}");
        let [change] = result["changes"].as_array().unwrap().as_slice() else { panic!("one change: {result}") };
        assert!(change["before"] == 5 && change["after"] == 6 && change["finding"] == "worse", "{change}");
        let [low, high] = [0, 1].map(|end| change["interval"][end].as_f64().unwrap());
        assert!(low <= 0.15 && 0.15 <= high && high - low < 0.02, "{change}");
        assert!(change["adjusted_p"].as_f64().unwrap() <= 0.01, "{change}");
    }
    let [moment] = found["moments"].as_array().unwrap().as_slice() else { panic!("one moment: {found}") };
    assert!(moment["before"] == 5 && moment["after"] == 6 && moment["results"] == results.len(), "{moment}");
    let facts: Vec<&str> =
        moment["differences"].as_array().unwrap().iter().map(|found| found["fact"].as_str().unwrap()).collect();
    assert_eq!(facts, ["Kernel: release", "Kernel: spectre_v2"]);
    assert_eq!(moment["groups"][0]["what"], "system call");
    assert_eq!(history(&["--fail-on", "worse:10%"], &directory).0, 1);
    assert_eq!(history(&["--fail-on", "slower:20%"], &directory).0, 0);
    // What became faster is better, and what came back is not worse than before.
    let faster = series(&runs, "faster", 12, |number, run| {
        if number < 6 {
            scale(run, SLOWER, FACTOR);
        }
    });
    let (code, found) = history(&[], &faster);
    assert!(
        code == 0 && changed(&found).len() > 5 && changed(&found).iter().all(|result| result["finding"] == "better")
    );
    let back = series(&runs, "back", 15, |number, run| {
        if (5..10).contains(&number) {
            scale(run, SLOWER, FACTOR);
        }
    });
    let (code, found) = history(&[], &back);
    assert_eq!(found["moments"].as_array().unwrap().len(), 2);
    assert!(code == 0 && changed(&found).iter().all(|result| result["levels"].as_array().unwrap().len() == 3));
}

#[test]
fn one_wild_run_and_contaminated_runs_are_no_change() {
    let runs = Runs::new();
    let wild = series(&runs, "wild", 12, |number, run| {
        if number == 4 {
            scale(run, "", 3.0);
        }
    });
    let (code, found) = history(&[], &wild);
    assert!(code == 0 && changed(&found).is_empty(), "{:?}", changed(&found));
    let screen = text(&output(&["history", wild.to_str().unwrap()]).stdout).replace('\n', " ");
    assert!(screen.contains("Run 5 of 2026-10-05 09:00 deviates from its neighbours in"), "{screen}");
    let spoilt = series(&runs, "spoilt", 12, |number, run| {
        for (_, figure) in figures(run).into_iter().filter(|_| number >= 8) {
            times(figure, 4.0);
            figure["trust"] = json!("contaminated");
        }
    });
    let (code, found) = history(&[], &spoilt);
    assert!(code == 0 && changed(&found).is_empty());
    assert!(found["results"].as_array().unwrap().iter().all(|result| result["points"].as_array().unwrap().len() == 8));
}

#[test]
fn a_slow_trend_is_one_drift() {
    let runs = Runs::new();
    let slow = series(&runs, "slow", 16, |number, run| scale(run, SLOWER, 1.01_f64.powf(number as f64)));
    let (code, found) = history(&[], &slow);
    let results = changed(&found);
    assert!(code == 1 && results.len() > 5 && found["moments"] == json!([]), "{code}");
    for result in results {
        let change = result["drift"]["change"].as_f64().unwrap();
        assert!(result["metric"] == SLOWER && (change - 0.16).abs() < 0.01, "{result}");
    }
    assert_eq!(found["drifts"][0]["what"], "system call");
    let screen = text(&output(&["history", slow.to_str().unwrap()]).stdout);
    assert!(screen.contains("drifts worse"), "{screen}");
}

#[test]
fn too_few_runs_say_how_many_are_needed() {
    let runs = Runs::new();
    let few = series(&runs, "few", 3, update);
    let (code, found) = history(&[], &few);
    assert!(code == 3 && found["results"] == json!([]) && found["runs_needed"] == 4, "{code}");
    assert_eq!(history(&["--lenient"], &few).0, 0);
    let screen = text(&output(&["history", few.to_str().unwrap()]).stdout);
    assert!(screen.starts_with("3 runs cannot show a change point: 4 are needed. Make 1 more run."), "{screen}");
    // A result that fewer runs have than others is not judged, and says so.
    let gaps = series(&runs, "gaps", 8, |number, run| {
        let experiments = run["experiments"].as_array_mut().unwrap();
        experiments.retain(|experiment| number < 3 || experiment["id"] != "os.thread_creation");
    });
    let (code, found) = history(&[], &gaps);
    let apart = found["not_judged"].as_array().unwrap();
    let is_it = |entry: &&Value| entry["metric"] == "os.thread_creation.time";
    let reason = apart.iter().find(is_it).unwrap()["reason"].as_str().unwrap();
    assert!(code == 0 && reason == "3 of 3 runs can be used, and 4 are needed", "{code} {reason}");
}

#[test]
fn runs_of_another_kind_are_left_aside_and_a_new_method_begins_anew() {
    let runs = Runs::new();
    let mixed = series(&runs, "mixed", 14, |number, run| {
        if number % 7 == 3 {
            run["node"]["machine"] = json!("another");
            scale(run, "", 2.0);
        }
        if number == 5 {
            run["run"]["profile"] = json!("default");
        }
    });
    fs::copy(mixed.join("00.json"), mixed.join("copy.json")).unwrap();
    let (code, found) = history(&[], &mixed);
    assert!(code == 0 && changed(&found).is_empty());
    assert_eq!(found["runs"].as_array().unwrap().len(), 11);
    assert_eq!(found["left_aside"], json!(["1 copy of a run", "2 runs of other machines", "1 run of another profile"]));
    let method = series(&runs, "method", 12, |number, run| {
        let experiments = run["experiments"].as_array_mut().unwrap().iter_mut();
        let calls = experiments.filter(|experiment| experiment["id"] == "os.system_call");
        calls.for_each(|experiment| experiment["method_version"] = json!(if number < 5 { 77 } else { 78 }));
        scale(run, "os.system_call.", if number < 5 { 1.0 } else { 1.5 });
    });
    let (code, found) = history(&[], &method);
    assert!(code == 0 && changed(&found).is_empty(), "{:?}", changed(&found));
    let reason = "the method changed from version 77 to 78";
    let anew = json!([{ "experiment": "os.system_call", "from": 5, "earlier": 5, "reason": reason }]);
    assert_eq!(found["begun_anew"], anew);
    let screen = text(&output(&["history", method.to_str().unwrap()]).stdout).replace('\n', " ");
    assert!(screen.contains("os.system_call begins anew with run 6 of 2026-10-06 09:00: the method"), "{screen}");
    // Whatever begins anew with one run is one line.
    let methods = series(&runs, "methods", 12, |number, run| {
        for experiment in run["experiments"].as_array_mut().unwrap().iter_mut() {
            experiment["method_version"] = json!(if number < 5 { 77 } else { 78 });
        }
    });
    let screen = text(&output(&["history", methods.to_str().unwrap()]).stdout);
    assert!(screen.contains(" experiments begin anew with run 6 of 2026-10-06 09:00"), "{screen}");
    assert_eq!(screen.matches("anew").count(), 1, "{screen}");
}

#[test]
fn every_form_says_the_same() {
    let runs = Runs::new();
    let directory = series(&runs, "update", 12, |number, run| {
        update(number, run);
        // Words of a run give no orders to a terminal or a page.
        run["node"]["name"] = json!("\u{1b}]0;title\u{7}</script><b>");
        scale(run, "memory.latency.", if number < 9 { 1.0 } else { 1.4 });
        scale(run, "memory.bandwidth.", if number < 3 { 1.0 } else { 0.5 });
    });
    let (_, found) = history(&[], &directory);
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/history.schema.json");
    let schema: Validator =
        jsonschema::validator_for(&serde_json::from_slice(&fs::read(schema).unwrap()).unwrap()).unwrap();
    assert!(schema.is_valid(&found));
    assert_eq!(found["moments"].as_array().unwrap().len(), 3);
    let of = |words: &[&str]| {
        let shown = text(&output(&[&["history"], words, &[directory.to_str().unwrap()]].concat()).stdout);
        assert!(!shown.contains('\u{7}') && !shown.contains('\u{1b}'), "{words:?}");
        shown
    };
    let screen = of(&[]);
    assert!(screen.lines().count() <= 24 && screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    assert!(screen.contains("Kernel: release") && screen.contains("6.19.0"), "{screen}");
    let answer = screen.split(". ").next().unwrap().replace('\n', " ");
    for words in [&["--format", "markdown"][..], &["--format", "html"], &["--all"]] {
        let form = of(words).replace(['\n', '\u{a0}'], " ");
        assert!(form.contains(&answer) && form.contains("+15 %") && form.contains("getppid"), "{words:?}: {answer}");
        assert!(form.contains("6.19.0") && (!words.contains(&"html") || !form.contains("</script><b>")), "{words:?}");
    }
    let place = runs.keep.path().join("h.md");
    let words = ["history", "--format", "markdown", "-o", place.to_str().unwrap(), directory.to_str().unwrap()];
    assert_eq!(output(&words).status.code(), Some(1));
    assert!(fs::read_to_string(&place).unwrap().contains("figures/moment-1.svg"));
    assert!(fs::read_to_string(runs.keep.path().join("figures/moment-2.svg")).unwrap().contains("getppid"));
}

#[test]
fn without_a_name_the_stored_runs_are_read() {
    let runs = Runs::new();
    let state = runs.keep.path().join("state");
    let of = |words: &[&str]| sysdyno(&[&["history"], words].concat()).env("XDG_STATE_HOME", &state).output().unwrap();
    let none = of(&[]);
    assert!(none.status.code() == Some(2) && told(&none).contains("hint: "), "{}", told(&none));
    // A machine without an identifier stores nothing.
    let said = text(&none.stderr);
    let Some((_, place)) = said.lines().next().unwrap().split_once("is stored in ") else { return };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(place).unwrap();
    for number in 0..12 {
        let made = runs.with("one.json", |run| one_of(run, number, &update));
        let name = format!("202610{:02}T090000Z-0123456789abcdef.json", number + 1);
        fs::copy(made, Path::new(place).join(name)).unwrap();
    }
    fs::write(Path::new(place).join("20261101T090000Z-0123456789abcdef.json"), "no run").unwrap();
    let found = of(&["--format", "json"]);
    assert_eq!(found.status.code(), Some(1), "{}", told(&found));
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert!(found["runs"].as_array().unwrap().len() == 12 && found["moments"][0]["after"] == 6);
    assert!(found["left_aside"][0].as_str().unwrap().contains("1 not readable"), "{}", found["left_aside"]);
}

#[test]
fn wrong_names_and_files_are_refused_with_a_hint() {
    let runs = Runs::new();
    let keep = runs.keep.path();
    fs::create_dir(keep.join("none")).unwrap();
    fs::write(keep.join("bad.json"), "{}").unwrap();
    for name in ["none", "missing", "x*.json", "bad.json", "/dev/zero"] {
        let found = output(&["history", keep.join(name).to_str().unwrap()]);
        assert!(found.status.code() == Some(2) && told(&found).contains("hint: "), "{name}: {}", told(&found));
    }
    // One bad file among others is named and stops nothing.
    let good = series(&runs, "good", 5, |_, _| ());
    fs::copy(keep.join("bad.json"), good.join("bad.json")).unwrap();
    let found = output(&["history", "--lenient", good.to_str().unwrap()]);
    assert!(found.status.success() && text(&found.stderr).contains("left aside: cannot read "), "{}", told(&found));
    assert!(text(&found.stdout).contains("5 quick runs"), "{}", told(&found));
    for words in [&["--fail-on", "10%"][..], &["--format", "csv"], &["--across"]] {
        assert_eq!(output(&[&["history"], words].concat()).status.code(), Some(2), "{words:?}");
    }
}
