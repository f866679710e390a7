//! The JSON Schemas of the log and of the result, generated from the types that write them.

use schemars::{Schema, schema_for};

use super::document::Document;
use super::log::Record;

/// Schema of one line of `log.jsonl`.
pub fn of_log_line() -> Schema {
    schema_for!(Record)
}

/// Schema of `result.json`.
pub fn of_result() -> Schema {
    schema_for!(Document)
}
