//! The compact form of a run: all of its figures, small, from the log alone; and what earlier runs say, as the log has it.
use std::path::Path;

use serde_json::{Value, json};
use sysdyno::testing::assemble;
use sysdyno::testing::report::compact;
use sysdyno::testing::results::compact::{Compact, FORMAT};
use sysdyno::testing::results::document::Document;
use sysdyno::testing::results::log;
use sysdyno::testing::results::quantity::Labels;

fn place(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn document(name: &str) -> Document {
    assemble::document(&log::read(&place(name)).unwrap())
}

fn rendered(document: &Document) -> (String, Value) {
    let text = compact::render(document).unwrap();
    let value = serde_json::from_str(&text).unwrap();
    (text, value)
}

#[test]
fn every_figure_is_in_it_with_what_a_comparison_needs() {
    let document = document("records/guest-golden-cove-2cpu/log.jsonl");
    let (text, value) = rendered(&document);
    assert_eq!(value["format"], FORMAT);
    assert_eq!((text.lines().count(), text.ends_with('\n')), (1, true));
    let mut figures = 0;
    for experiment in value["experiments"].as_array().unwrap() {
        for metric in experiment["metrics"].as_array().into_iter().flatten() {
            for figure in metric["figures"].as_array().unwrap() {
                let labels = Labels::parse(figure["labels"].as_str().unwrap_or_default()).unwrap();
                let name = metric["name"].as_str().unwrap();
                let whole = document.metric(name, &labels).unwrap_or_else(|| panic!("{name} {labels}"));
                let near = |found: &Value, whole: f64| (found.as_f64().unwrap() / whole - 1.0).abs() < 1e-5;
                assert!(near(&figure["value"], whole.value), "{name} {labels}");
                assert!(near(&figure["interval"][1], whole.within_run.unwrap()[1]), "{name} {labels}");
                assert_eq!(figure["trust"].as_str().unwrap_or("clean"), whole.verdict.trust.word());
                assert_eq!(figure["launches"], whole.launches);
                assert_eq!(figure["predicted"].is_array(), whole.prediction.is_some(), "{name} {labels}");
                // Whether a range inside which it lies is too wide shows in the range.
                let against = figure["against"].as_str();
                let word = whole.verdict.against_prediction.word();
                assert_eq!(against, Some(word).filter(|word| ["faster", "slower"].contains(word)), "{name} {labels}");
                figures += 1;
            }
        }
    }
    assert_eq!(figures, document.metrics().count());
    assert!(text.len() < 12_000 + 270 * figures, "{} bytes for {figures} figures", text.len());
}

#[test]
fn costs_next_to_a_neighbour_are_in_it() {
    let document = document("tests/made/runs/guest-zen5-2cpu-calm.jsonl.gz");
    let (_, value) = rendered(&document);
    let mut figures = 0;
    let experiments = value["experiments"].as_array().unwrap().iter();
    for metric in experiments.flat_map(|found| found["metrics"].as_array().into_iter().flatten()) {
        for figure in metric["figures"].as_array().unwrap() {
            let labels = Labels::parse(figure["labels"].as_str().unwrap_or_default()).unwrap();
            let whole = document.metric(metric["name"].as_str().unwrap(), &labels).unwrap();
            assert_eq!(figure["shared"].is_number(), whole.shared.is_some(), "{labels}");
            if let Some(shared) = whole.shared {
                assert!((figure["shared"].as_f64().unwrap() / shared.value - 1.0).abs() < 1e-3, "{labels}");
                figures += 1;
            }
        }
    }
    assert!(figures > 10, "{figures} figures");
}

#[test]
fn it_is_read_as_it_was_written() {
    for name in ["complete", "died", "failed_launch", "skipped_step", "truncated"] {
        let (text, _) = rendered(&document(&format!("tests/golden/{name}.jsonl")));
        let read: Compact = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap() + "\n", text, "{name}");
    }
}

#[test]
fn what_earlier_runs_say_stands_beside_the_figure() {
    let text = std::fs::read_to_string(place("tests/golden/complete.jsonl")).unwrap();
    let before = document("tests/golden/complete.jsonl");
    let figure = before.metrics().find(|metric| !metric.labels.is_empty()).unwrap();
    let record = json!({"record": "history", "runs": 9, "figures": [
        {"metric": figure.name, "labels": figure.labels, "runs": 6, "relative": 0.0125}]});
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.insert(2, record.to_string());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines.join("\n") + "\n").unwrap();
    let after = assemble::document(&log::read(file.path()).unwrap());
    assert_eq!((before.run.earlier_runs, after.run.earlier_runs), (None, Some(9)));
    let told: Vec<_> = after.metrics().filter_map(|metric| Some((&metric.name, metric.between_runs?))).collect();
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].0, told[0].1.runs, told[0].1.relative), (&figure.name, 6, 0.0125));
}
