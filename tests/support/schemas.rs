//! The published JSON Schemas: `schemas/log.schema.json` for a line of the log, `schemas/result.schema.json` for the
//! result, `schemas/compact.schema.json` for the compact form.

use std::fs;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::Value;

pub fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas").join(name)
}

/// The committed schema, ready to judge.
pub fn validator(name: &str) -> Validator {
    let text = fs::read_to_string(place(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap()
}

pub fn assert_valid(validator: &Validator, value: &Value, what: &str) {
    let errors: Vec<String> =
        validator.iter_errors(value).map(|error| format!("{} at {}", error, error.instance_path())).take(5).collect();
    assert!(errors.is_empty(), "{what}: {}", errors.join("\n"));
}
