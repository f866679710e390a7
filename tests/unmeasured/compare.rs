//! Comparing runs: what changed is found with its size, nothing else is, and foreign files are refused with a reason.
use std::fs;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::support::runs::{output, text, told};

/// A quick run of everything.
const RECORD: &str = "records/guest-zen4-2cpu-quiet-hour/node.json";

/// Runs in a directory that goes when the test ends.
pub(super) struct Runs {
    pub keep: tempfile::TempDir,
    run: Value,
}

impl Runs {
    pub(super) fn new() -> Self {
        let record = Path::new(env!("CARGO_MANIFEST_DIR")).join(RECORD);
        Runs { keep: tempfile::tempdir().unwrap(), run: serde_json::from_slice(&fs::read(record).unwrap()).unwrap() }
    }

    /// The run with a change, as a file.
    pub(super) fn with(&self, name: &str, change: impl Fn(&mut Value)) -> PathBuf {
        let mut run = self.run.clone();
        change(&mut run);
        let place = self.keep.path().join(name);
        fs::write(&place, run.to_string()).unwrap();
        place
    }
}

/// Every result of a compact run, with the name of its metric.
pub(super) fn figures(run: &mut Value) -> Vec<(String, &mut Value)> {
    let experiments = run["experiments"].as_array_mut().unwrap().iter_mut();
    let metrics = experiments.filter_map(|experiment| experiment.get_mut("metrics")?.as_array_mut()).flatten();
    metrics
        .flat_map(|metric| {
            let name = metric["name"].as_str().unwrap().to_owned();
            metric["figures"].as_array_mut().unwrap().iter_mut().map(move |figure| (name.clone(), figure))
        })
        .collect()
}

/// Makes every result well known, so that a comparison can decide.
pub(super) fn sharpen(run: &mut Value) {
    for (_, figure) in figures(run) {
        let value = figure["value"].as_f64().unwrap();
        figure["interval"] = json!([value * 0.9999, value * 1.0001]);
        figure["between"] = json!(0.0001);
        figure["launches"] = json!(20);
        for field in ["trust", "level"] {
            figure.as_object_mut().unwrap().remove(field);
        }
    }
}

/// Multiplies a result with its interval.
pub(super) fn times(figure: &mut Value, by: f64) {
    for place in ["/value", "/interval/0", "/interval/1"] {
        let value = figure.pointer_mut(place).unwrap();
        *value = json!(value.as_f64().unwrap() * by);
    }
}

/// Multiplies the results of metrics whose names begin so, in cycles too.
pub(super) fn scale(run: &mut Value, begin: &str, by: f64) {
    for (name, figure) in figures(run) {
        if name.starts_with(begin) {
            times(figure, by);
            if let Some(cycles) = figure["cycles"].as_f64() {
                figure["cycles"] = json!(cycles * by);
            }
        }
    }
}

/// Runs everything that costs core cycles at a slower core clock.
fn slow_the_clock(run: &mut Value, by: f64) {
    for (_, figure) in figures(run).into_iter().filter(|(_, figure)| !figure["cycles"].is_null()) {
        times(figure, by);
    }
}

fn compare(words: &[&str], base: &Path, new: &Path) -> (i32, Value) {
    let sides = [base.to_str().unwrap(), new.to_str().unwrap()];
    let found = output(&[&["compare", "--format", "json"], words, &sides].concat());
    let code = found.status.code().unwrap();
    (code, serde_json::from_slice(&found.stdout).unwrap_or_else(|_| panic!("{}", told(&found))))
}

fn changed(comparison: &Value) -> Vec<&Value> {
    let rows = comparison["rows"].as_array().unwrap().iter();
    rows.filter(|row| ["worse", "better"].contains(&row["finding"].as_str().unwrap())).collect()
}

#[test]
fn a_run_against_itself_has_not_changed() {
    let runs = Runs::new();
    let one = runs.with("a.json", sharpen);
    let (code, found) = compare(&["--lenient"], &one, &one);
    assert_eq!((code, changed(&found).len()), (0, 0));
    assert!(found["rows"].as_array().unwrap().len() > 200);
    let findings: Vec<&str> =
        found["rows"].as_array().unwrap().iter().map(|row| row["finding"].as_str().unwrap()).collect();
    assert!(
        findings.contains(&"equivalent") && findings.contains(&"inconclusive"),
        "some are decided, and some cannot be"
    );
}

#[test]
fn a_run_against_itself_is_explained() {
    let runs = Runs::new();
    let one = runs.with("a.json", |_| ());
    let found = output(&["compare", one.to_str().unwrap(), one.to_str().unwrap()]);
    let screen = text(&found.stdout).replace('\n', " ");
    assert_eq!(found.status.code(), Some(3), "{}", told(&found));
    assert!(screen.starts_with("Both sides are the same run, "), "{screen}");
    assert!(!screen.contains("undecided results would be decided"), "{screen}");
}

/// Machines have names, and changes of both signs are shown where there are many of each.
#[test]
fn two_machines_are_named_and_both_signs_are_shown() {
    let runs = Runs::new();
    let base = runs.with("a.json", sharpen);
    let other = runs.with("b.json", |run| {
        sharpen(run);
        scale(run, "os.", 2.0);
        scale(run, "cpu.", 3.5);
        scale(run, "memory.latency.", 0.5);
        run["node"]["fingerprint"] = json!("another");
        run["facts"]["Processor: microarchitecture"] = json!("Intel Golden Cove (not certain)");
        run["facts"]["Processor: CPUs"] = json!("16");
    });
    let sides = [base.to_str().unwrap(), other.to_str().unwrap()];
    let found = output(&[&["compare", "--across"], &sides[..]].concat());
    let screen = text(&found.stdout);
    assert!(
        screen.starts_with("A  AMD Zen 4, 2 CPUs, KVM guest\nB  Intel Golden Cove, 16 CPUs, KVM guest\n"),
        "{screen}"
    );
    let answer = |cost: &str| screen.lines().find(|line| line.starts_with(cost)).unwrap().trim_end().to_owned();
    assert!(answer("core clock").ends_with("B 3.50×") && answer("loop iteration").ends_with("A 3.50×"), "{screen}");
    assert!(answer("L1 load").ends_with("B 2.00×") && answer("memory read").ends_with(" ="), "{screen}");
    assert!(screen.contains("many small processes A ") && screen.contains("A is better at "), "{screen}");
    let three = output(&[&["compare", "--across"], &sides[..], &sides[..1]].concat());
    assert!(text(&three.stdout).contains("\nC  AMD Zen 4, 2 CPUs, KVM guest\n"), "{}", text(&three.stdout));
    let whole = text(&output(&[&["compare", "--across", "--all"], &sides[..]].concat()).stdout);
    assert!(whole.contains("base  AMD Zen 4, 2 CPUs: ") && whole.contains(" worse\n"), "{whole}");
    let too_many = output(&[&["compare"], &sides[..], &sides[..1]].concat());
    assert!(told(&too_many).contains("one too many") && too_many.status.code() == Some(2), "{}", told(&too_many));
    let page = text(&output(&[&["compare", "--across", "--format", "html"], &sides[..]].concat()).stdout);
    let drawing =
        page.split("role=\"img\" aria-label=\"Changed results").nth(1).unwrap().split("</svg>").next().unwrap();
    for sign in ["×3.50", "−50 %"] {
        assert!(drawing.contains(sign), "{sign} is not drawn");
    }
}

/// Numbers that only say that nothing is known are short.
#[test]
fn what_nothing_is_known_of_is_many() {
    let runs = Runs::new();
    let wide = |run: &mut Value| {
        for (_, figure) in figures(run) {
            let value = figure["value"].as_f64().unwrap();
            figure["interval"] = json!([value * 0.5, value * 1.5]);
            figure["between"] = json!(5.0);
            figure["launches"] = json!(20);
        }
    };
    let (base, new) = (
        runs.with("a.json", wide),
        runs.with("b.json", |run| {
            wide(run);
            run["run"]["id"] = json!("another");
        }),
    );
    let (_, found) = compare(&["--lenient"], &base, &new);
    let rows = found["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["runs_needed"] == 100), "none needs many runs");
    for row in rows {
        assert!(
            row["runs_needed"].as_u64().unwrap_or(0) <= 100 && row["launches_needed"].as_u64().unwrap_or(0) <= 1000
        );
        for (value, interval) in [("/base/value", "/base/interval"), ("/new/value", "/new/interval")] {
            let value = row.pointer(value).unwrap().as_f64().unwrap();
            let ends = [0, 1].map(|end| row.pointer(interval).unwrap()[end].as_f64().unwrap() / value);
            assert!(0.0099 < ends[0] && ends[1] < 101.0, "{row}");
        }
    }
    let page =
        text(&output(&["compare", "--format", "markdown", base.to_str().unwrap(), new.to_str().unwrap()]).stdout);
    assert!(page.contains("needs many runs"), "{page}");
}

#[test]
fn exactly_what_was_changed_is_found_with_its_size() {
    let runs = Runs::new();
    let base = runs.with("a.json", sharpen);
    let slower = runs.with("b.json", |run| {
        sharpen(run);
        scale(run, "os.system_call.time", 1.05);
    });
    let (code, found) = compare(&[], &base, &slower);
    let rows = changed(&found);
    assert_eq!(code, 1);
    assert!(rows.len() > 5 && rows.iter().all(|row| row["metric"] == "os.system_call.time"), "{rows:#?}");
    for row in rows {
        assert_eq!(row["finding"], "worse");
        let [low, high] = [0, 1].map(|end| row["interval"][end].as_f64().unwrap());
        assert!(low <= 0.05 && 0.05 <= high && high - low < 0.05, "{row}");
    }
    assert_eq!(found["groups"][0]["what"], "system call");
    // The other direction is better, and a rate that falls is worse.
    let (code, found) = compare(&["--lenient"], &slower, &base);
    assert!(code == 0 && changed(&found).iter().all(|row| row["finding"] == "better"), "{code}");
    let less = runs.with("c.json", |run| {
        sharpen(run);
        scale(run, "memory.bandwidth.rate", 0.5);
    });
    let (code, found) = compare(&[], &base, &less);
    assert!(code == 1 && changed(&found).iter().all(|row| row["finding"] == "worse"), "{code}");
}

#[test]
fn a_limit_decides_what_fails() {
    let runs = Runs::new();
    let base = runs.with("a.json", sharpen);
    let slower = runs.with("b.json", |run| {
        sharpen(run);
        scale(run, "os.system_call.time", 1.05);
    });
    for (words, code) in [
        (vec![], 1),
        (vec!["--fail-on", "worse:3%"], 1),
        (vec!["--fail-on", "slower:10%", "--lenient"], 0),
        (vec!["--fail-on", "slower:10%"], 3),
    ] {
        assert_eq!(compare(&words, &base, &slower).0, code, "{words:?}");
    }
}

#[test]
fn several_runs_of_a_side_outweigh_what_is_assumed_of_one() {
    let runs = Runs::new();
    for (side, factor) in [("a", 1.0), ("b", 1.4)] {
        fs::create_dir(runs.keep.path().join(side)).unwrap();
        for number in 0..6 {
            let jitter = 1.0 + 0.002 * f64::from(number);
            runs.with(&format!("{side}/{number}.json"), |run| {
                sharpen(run);
                run["run"]["id"] = json!(format!("{side}-{number}"));
                scale(run, "network.round_trip.time", factor * jitter);
            });
        }
    }
    let [one, other] = ["a", "b"].map(|side| runs.keep.path().join(side));
    let (code, found) = compare(&[], &one, &other);
    assert!(code == 1 && changed(&found).iter().all(|row| row["metric"] == "network.round_trip.time"), "{code}");
    assert_eq!(found["base"].as_array().unwrap().len(), 6);
    // A copy of a run is no further run.
    let copy = one.join("copy.json");
    fs::copy(one.join("0.json"), &copy).unwrap();
    let (_, again) = compare(&[], &one, &other);
    assert_eq!((again["base"].as_array().unwrap().len(), &again["rows"]), (6, &found["rows"]));
    fs::remove_file(copy).unwrap();
    // One run of each side does not decide it, and the comparison says how many would.
    let (_, found) = compare(&[], &one.join("0.json"), &other.join("0.json"));
    let open = found["rows"].as_array().unwrap().iter().find(|row| row["metric"] == "network.round_trip.time").unwrap();
    assert!(open["finding"] == "inconclusive" && open["runs_needed"].as_u64().unwrap() > 1, "{open}");
    // A pattern in quotes names the same runs.
    let (_, found) = compare(&[], &one.join("[0-2].json"), &other);
    assert_eq!(found["base"].as_array().unwrap().len(), 3);
}

#[test]
fn unlike_runs_are_refused_unless_they_are_meant() {
    let runs = Runs::new();
    let base = runs.with("a.json", sharpen);
    let machine = runs.with("b.json", |run| {
        sharpen(run);
        run["node"]["fingerprint"] = json!("0123456789abcdef");
        run["node"]["machine"] = json!("another");
        run["facts"]["Processor: microcode"] = json!("0xffffffff");
    });
    let method = runs.with("c.json", |run| run["experiments"][0]["method_version"] = json!(77));
    for (other, why) in [(&machine, "different machines"), (&method, "the method of")] {
        let found = output(&["compare", base.to_str().unwrap(), other.to_str().unwrap()]);
        assert!(
            found.status.code() == Some(2) && told(&found).contains(why) && told(&found).contains("--across"),
            "{}",
            told(&found)
        );
        let (_, found) = compare(&["--across", "--lenient"], &base, other);
        assert_eq!(found["across"], true);
    }
    let (_, found) = compare(&["--across", "--lenient"], &base, &machine);
    let facts: Vec<&str> = found["differences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|difference| difference["fact"].as_str().unwrap())
        .collect();
    assert!(facts.contains(&"machine") && facts.contains(&"Processor: microcode"), "{facts:?}");
}

#[test]
fn what_cannot_be_compared_has_a_reason() {
    let runs = Runs::new();
    let base = runs.with("a.json", sharpen);
    let spoilt = runs.with("b.json", |run| {
        sharpen(run);
        for (name, figure) in figures(run) {
            match name.as_str() {
                "os.system_call.time" => figure["trust"] = json!("contaminated"),
                "memory.bandwidth.rate" => figure["at_least"] = json!(true),
                "memory.page_fault.time" => {
                    figure["value"] = json!(-1.0);
                    figure["interval"] = json!([-1.0, -1.0]);
                }
                _ => {}
            }
        }
        let experiments = run["experiments"].as_array_mut().unwrap();
        experiments.retain(|experiment| experiment["id"] != "os.thread_creation");
    });
    let (_, found) = compare(&["--lenient"], &base, &spoilt);
    let apart = found["not_compared"].as_array().unwrap();
    for (metric, why) in [
        ("os.system_call.time", "contaminated"),
        ("memory.bandwidth.rate", "lower bound"),
        ("memory.page_fault.time", "not a positive number"),
        ("os.thread_creation.time", "missing in the new runs"),
    ] {
        let is_it = |entry: &&Value| entry["metric"] == metric && entry["reason"].as_str().unwrap().contains(why);
        assert!(apart.iter().any(|entry| is_it(&entry)), "{metric}: {why}");
        assert!(found["rows"].as_array().unwrap().iter().all(|row| row["metric"] != metric), "{metric}");
    }
    // The screen counts them by reason.
    let bounds = apart.iter().filter(|entry| entry["reason"] == "lower bound in the new runs").count();
    let sides = [base.to_str().unwrap(), spoilt.to_str().unwrap()];
    let screen = text(&output(&[&["compare", "--lenient"], &sides[..]].concat()).stdout).replace('\n', " ");
    assert!(screen.contains(&format!("{} results not compared: ", apart.len())), "{screen}");
    assert!(screen.contains(&format!("lower bound in the new runs ({bounds})")), "{screen}");
}

#[test]
fn a_clock_that_changed_changes_no_cost_and_explains_times() {
    let runs = Runs::new();
    let base = runs.with("a.json", sharpen);
    let slower = runs.with("b.json", |run| {
        sharpen(run);
        slow_the_clock(run, 1.25);
    });
    let (_, found) = compare(&["--lenient"], &base, &slower);
    assert!(changed(&found).is_empty(), "{:?}", changed(&found));
    let [before, after] = [0, 1].map(|side| found["core_hz"][side].as_f64().unwrap());
    assert!((before / after - 1.25).abs() < 0.001, "{before} {after}");
    let screen = text(&output(&["compare", base.to_str().unwrap(), slower.to_str().unwrap()]).stdout);
    assert!(screen.replace('\n', " ").contains("The core clock was"), "{screen}");
    // Between machines the clock is a part of the answer.
    let other = runs.with("c.json", |run| {
        sharpen(run);
        slow_the_clock(run, 1.25);
        run["node"]["fingerprint"] = json!("0123456789abcdef");
        run["node"]["machine"] = json!("another");
    });
    let (_, found) = compare(&["--across", "--lenient"], &base, &other);
    let reasons: Vec<&str> = changed(&found).iter().filter_map(|row| row["explanation"].as_str()).collect();
    assert!(!reasons.is_empty() && reasons.iter().all(|reason| reason.contains("core clock")), "{reasons:?}");
}

#[test]
fn every_form_says_the_same() {
    let runs = Runs::new();
    let base = runs.with("a.json", sharpen);
    let slower = runs.with("b.json", |run| {
        sharpen(run);
        scale(run, "os.system_call.time", 1.05);
    });
    let (_, found) = compare(&[], &base, &slower);
    let schema =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/comparison.schema.json")).unwrap();
    let schema: Validator = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    assert!(schema.is_valid(&found));
    let sides = [base.to_str().unwrap(), slower.to_str().unwrap()];
    let of = |words: &[&str]| text(&output(&[&["compare"], words, &sides].concat()).stdout);
    let screen = of(&[]);
    assert!(screen.lines().count() <= 24 && screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    let answer = screen.split(". ").next().unwrap().replace('\n', " ");
    for words in [&["--format", "markdown"][..], &["--format", "html"], &["--all"]] {
        let form = of(words).replace('\n', " ");
        assert!(form.contains(&answer) && form.contains("+5.0 %") && form.contains("getppid"), "{words:?}: {answer}");
    }
    let place = runs.keep.path().join("c.md");
    let words = ["compare", "--format", "markdown", "-o", place.to_str().unwrap(), sides[0], sides[1]];
    assert_eq!(output(&words).status.code(), Some(1));
    assert!(fs::read_to_string(&place).unwrap().contains("figures/changes.svg"));
    assert!(runs.keep.path().join("figures/changes.svg").exists());
}

#[test]
fn foreign_files_are_refused_with_a_reason() {
    let runs = Runs::new();
    let good = runs.with("a.json", sharpen);
    let keep = runs.keep.path();
    fs::write(keep.join("empty.json"), "").unwrap();
    fs::write(keep.join("deep.json"), "[".repeat(100_000)).unwrap();
    fs::write(keep.join("large.json"), " ".repeat((1 << 20) + 1)).unwrap();
    fs::create_dir(keep.join("none")).unwrap();
    runs.with("format.json", |run| run["format"] = json!("sysdyno-node/99"));
    for name in ["empty.json", "deep.json", "large.json", "format.json", "none", "missing", "x*.json", "/dev/zero"] {
        let found = output(&["compare", good.to_str().unwrap(), keep.join(name).to_str().unwrap()]);
        assert!(found.status.code() == Some(2) && told(&found).contains("hint: "), "{name}: {}", told(&found));
    }
    // Orders for the terminal in words of a run are shown, and not given.
    let orders = runs.with("orders.json", |run| {
        sharpen(run);
        run["facts"]["Kernel: release"] = json!("\u{1b}]0;title\u{7}</script><b>");
    });
    for form in ["text", "html", "markdown", "json"] {
        let found = output(&["compare", "--format", form, good.to_str().unwrap(), orders.to_str().unwrap()]);
        let shown = text(&found.stdout);
        assert!(!shown.contains('\u{7}') && (form != "html" || !shown.contains("</script><b>")), "{form}");
        assert!(!shown.contains('\u{1b}'), "{form}");
    }
}
