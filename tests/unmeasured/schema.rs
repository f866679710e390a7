//! The published JSON Schemas are what the types say, and every stored log and what is made of it is valid by them.

use std::fs;
use std::path::Path;

use serde_json::Value;
use sysdyno::testing::report::compact;
use sysdyno::testing::results::schema;
use sysdyno::testing::{assemble, results::log};

use crate::support::schemas::{assert_valid, place, validator};

/// Set to write the schemas instead of comparing them.
const REGENERATE: &str = "SYSDYNO_WRITE_SCHEMAS";

fn generated() -> [(&'static str, Value); 9] {
    [
        ("log.schema.json", serde_json::to_value(schema::of_log_line()).unwrap()),
        ("result.schema.json", serde_json::to_value(schema::of_result()).unwrap()),
        ("compact.schema.json", serde_json::to_value(schema::of_compact()).unwrap()),
        ("comparison.schema.json", serde_json::to_value(schema::of_comparison()).unwrap()),
        ("fleet.schema.json", serde_json::to_value(schema::of_fleet()).unwrap()),
        ("mesh.schema.json", serde_json::to_value(schema::of_mesh()).unwrap()),
        ("accepted.schema.json", serde_json::to_value(schema::of_accepted()).unwrap()),
        ("judgement.schema.json", serde_json::to_value(schema::of_judgement()).unwrap()),
        ("history.schema.json", serde_json::to_value(schema::of_history()).unwrap()),
    ]
}

#[test]
fn the_committed_schemas_are_what_the_types_say() {
    for (name, schema) in generated() {
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os(REGENERATE).is_some() {
            fs::create_dir_all(place("")).unwrap();
            fs::write(place(name), &text).unwrap();
        }
        let committed = fs::read_to_string(place(name)).unwrap_or_default();
        assert!(
            committed == text,
            "schemas/{name} is not what the types say. If the change is meant: {REGENERATE}=1 cargo test --test unmeasured schema"
        );
    }
}

#[test]
fn the_schemas_describe_what_they_name() {
    for (name, schema) in generated() {
        assert!(jsonschema::meta::is_valid(&schema), "{name} is no valid schema");
        let text = schema.to_string();
        assert!(text.matches("\"description\"").count() > 30, "{name}: fields say what they are");
    }
}

#[test]
fn stored_logs_and_their_results_are_valid() {
    let (of_line, of_result) = (validator("log.schema.json"), validator("result.schema.json"));
    let of_compact = validator("compact.schema.json");
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut seen = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        // An unfinished last line is no record.
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            assert_valid(&of_line, &serde_json::from_str(line).unwrap(), &path.display().to_string());
        }
        let document = assemble::document(&log::read(&path).unwrap());
        assert_valid(&of_result, &serde_json::to_value(&document).unwrap(), &path.display().to_string());
        let compact = serde_json::from_str(&compact::render(&document).unwrap()).unwrap();
        assert_valid(&of_compact, &compact, &path.display().to_string());
        seen += 1;
    }
    assert!(seen >= 4, "{seen} stored logs");
}
