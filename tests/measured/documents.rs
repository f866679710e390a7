//! A quick run of everything: its log and its result are valid by the published schemas, and hold what the contract with other
//! programs promises beyond a schema.

use std::fs;
use std::sync::OnceLock;

use serde_json::Value;
use sysdyno::testing::experiments;

use crate::support::runs::{ended, finished_run, lines, measuring, metrics, output, result, told};
use crate::support::schemas::{assert_valid, validator};

/// A quick run of all chapters. Other tests make do with one experiment, and here each has to show its records.
fn whole_run() -> &'static (Vec<Value>, Value) {
    static RUN: OnceLock<(Vec<Value>, Value)> = OnceLock::new();
    RUN.get_or_init(|| {
        let _alone = measuring();
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("run");
        let words = ["run", "--quick", "-o", place.to_str().unwrap()];
        let output = output(&[&words, &experiments::chapters()[..]].concat());
        assert!(ended(&output), "{}", told(&output));
        (lines(&place), result(&place))
    })
}

#[test]
fn every_line_of_a_run_is_valid() {
    let validator = validator("log.schema.json");
    for (index, line) in whole_run().0.iter().chain(&lines(finished_run())).enumerate() {
        assert_valid(&validator, line, &format!("line {}", index + 1));
    }
}

#[test]
fn the_result_of_a_run_is_valid() {
    let validator = validator("result.schema.json");
    for result in [&whole_run().1, &result(finished_run())] {
        assert_valid(&validator, result, "result.json");
    }
}

#[test]
fn the_compact_form_of_a_run_is_valid() {
    let text = fs::read_to_string(finished_run().join("node.json")).unwrap();
    assert_valid(&validator("compact.schema.json"), &serde_json::from_str(&text).unwrap(), "node.json");
}

#[test]
fn a_schema_tells_right_from_wrong() {
    let (of_line, of_result) = (validator("log.schema.json"), validator("result.schema.json"));
    let line = whole_run().0.iter().find(|line| line["record"] == "series").unwrap();
    for (field, wrong) in [("record", Value::from("song")), ("launch", Value::from("one")), ("values", Value::Null)] {
        let mut changed = line.clone();
        changed[field] = wrong;
        assert!(!of_line.is_valid(&changed), "{field}");
    }
    let mut changed = whole_run().1.clone();
    changed["experiments"][0]["metrics"][0]["value"] = Value::Null;
    assert!(!of_result.is_valid(&changed));
    changed = whole_run().1.clone();
    changed["experiments"][0]["outcome"] = Value::from("guessed");
    assert!(!of_result.is_valid(&changed));
}

#[test]
fn the_result_has_the_fields_that_others_rely_on() {
    let result = &whole_run().1;
    let has = |value: &Value, fields: &[&str]| {
        for field in fields {
            assert!(value.get(field).is_some(), "{field} is missing in {value}");
        }
    };
    has(result, &["schema", "run", "machine", "quiet", "experiments"]);
    has(
        &result["run"],
        &["id", "started", "finished", "command", "seed", "version", "complete", "rounds", "wall_seconds"],
    );
    has(&result["machine"], &["fingerprint", "cpu", "caches", "memory", "storage", "network", "kernel", "limits"]);
    has(&result["quiet"][0], &["check", "ok", "detail"]);
    for section in result["experiments"].as_array().unwrap() {
        has(
            section,
            &[
                "id",
                "chapter",
                "title",
                "method_version",
                "outcome",
                "reason",
                "launches",
                "wall_seconds",
                "metrics",
                "series",
            ],
        );
    }
    for metric in metrics(result) {
        has(
            metric,
            &[
                "name",
                "labels",
                "unit",
                "better",
                "value",
                "interval95",
                "typical",
                "stddev",
                "quantiles",
                "cycles",
                "cycles_interval95",
                "at_core_hz",
                "estimator",
                "launches",
                "samples",
                "void",
                "prediction",
                "gross",
                "verdict",
            ],
        );
        has(&metric["verdict"], &["trust", "against_prediction", "gates"]);
        if metric["prediction"].is_object() {
            has(&metric["prediction"], &["value", "low", "high", "base_hardware", "software_overhead", "terms"]);
            has(&metric["prediction"]["terms"][0], &["what", "value", "basis"]);
        }
    }
    let curve = &result["experiments"].as_array().unwrap().iter().find_map(|section| section["series"].get(0)).unwrap();
    has(curve, &["name", "x", "y", "points"]);
    assert_eq!(curve["points"][0].as_array().unwrap().len(), 4);
}

#[test]
fn every_figure_is_a_number_inside_its_interval() {
    let metrics = metrics(&whole_run().1);
    assert!(metrics.len() > 60, "{} figures", metrics.len());
    for metric in metrics {
        let about = format!("{} {}", metric["name"], metric["labels"]);
        let value = metric["value"].as_f64().unwrap_or_else(|| panic!("{about}: {}", metric["value"]));
        assert!(value.is_finite() && value > 0.0, "{about}: {value}");
        let (low, high) = (metric["interval95"][0].as_f64().unwrap(), metric["interval95"][1].as_f64().unwrap());
        assert!(low <= high, "{about}: {low} … {high}");
        let level = metric["interval_level"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&level), "{about}: {level}");
        assert!(["clean", "noisy", "contaminated"].contains(&metric["verdict"]["trust"].as_str().unwrap()), "{about}");
        assert!(!metric["verdict"]["gates"].as_array().unwrap().is_empty(), "{about}: judged by nothing");
        assert!(metric["launches"].as_u64().unwrap() > 0 && metric["samples"].as_u64().unwrap() > 0, "{about}");
        // Where there are cycles there is the frequency that made time of them, and the two agree.
        if let (Some(cycles), Some(hertz)) = (metric["cycles"].as_f64(), metric["at_core_hz"].as_f64()) {
            assert!((cycles / hertz * 1e9 / value - 1.0).abs() < 1e-9, "{about}");
        }
    }
}

#[test]
fn what_is_rejected_says_why() {
    for section in whole_run().1["experiments"].as_array().unwrap() {
        if section["outcome"] == "skipped" {
            assert!(section["reason"].as_str().unwrap().len() > 10 && section["hint"].is_string(), "{section}");
            continue;
        }
        // A neighbour may have left nothing of an experiment.
        let why = section["reason"].as_str().unwrap_or_default();
        let no_clean_batch = why.contains("gave no result from their batches") && !why.contains("clean");
        let others = why.contains("G14:") || why.contains("G16:") || no_clean_batch;
        assert!(section["outcome"] == "measured" || others, "{}: {}", section["id"], section["reason"]);
        for rejected in section["rejected"].as_array().unwrap() {
            assert!(rejected["reason"].as_str().unwrap().len() > 10, "{rejected}");
        }
    }
}

#[test]
fn predictions_are_written_before_the_first_sample_of_their_experiment() {
    let mut launched = 0;
    for lines in [&whole_run().0, &lines(finished_run())] {
        let of = |line: &Value, kind: &str, id: &str| line["record"] == kind && line["experiment"] == id;
        let plan = lines.iter().find(|line| line["record"] == "plan").unwrap();
        for step in plan["steps"].as_array().unwrap().iter().filter(|step| step["skipped"].is_null()) {
            let id = step["experiment"].as_str().unwrap();
            let whole = |line: &Value| of(line, "launch", id) && line["first"].is_null();
            // Where the machine is busy, the time of the run may end before its last experiments.
            let Some(launch) = lines.iter().position(whole) else { continue };
            let last = lines.iter().rposition(|line| of(line, "prediction", id)).expect("every experiment predicts");
            launched += 1;
            let number = &lines[launch]["launch"];
            // An experiment of which no figure can be had here has no series.
            let is_first = |line: &Value| of(line, "series", id) && line["launch"] == *number;
            let Some(series) = lines.iter().position(is_first) else { continue };
            assert!(last < launch && launch < series, "{id}: {last} {launch} {series}");
            // What is measured before the others is predicted before it.
            for (at, prediction) in lines.iter().enumerate().filter(|(_, line)| of(line, "prediction", id)) {
                let same = |line: &Value| {
                    of(line, "series", id) && line["series"]["labels"] == prediction["prediction"]["labels"]
                };
                let sampled = lines.iter().position(|line| same(line) && !prediction["prediction"]["labels"].is_null());
                assert!(sampled.is_none_or(|sampled| at < sampled), "{id}: {prediction} after its samples");
            }
        }
    }
    assert!(launched > 10, "{launched} experiments of two runs were launched");
}
