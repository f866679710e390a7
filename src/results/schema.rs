//! The JSON Schemas of the log, of the result, of the compact form and of a comparison and of a history, generated from the types that write them.

use schemars::{Schema, schema_for};

use super::compact::Compact;
use super::comparison::Comparison;
use super::document::Document;
use super::log::Record;
use super::timeline::Timeline;

/// Schema of one line of `log.jsonl`.
pub fn of_log_line() -> Schema {
    schema_for!(Record)
}

/// Schema of `result.json`.
pub fn of_result() -> Schema {
    schema_for!(Document)
}

/// Schema of `node.json`.
pub fn of_compact() -> Schema {
    schema_for!(Compact)
}

/// Schema of `sysdyno compare --format json`.
pub fn of_comparison() -> Schema {
    schema_for!(Comparison)
}

/// Schema of `sysdyno history --format json`.
pub fn of_history() -> Schema {
    schema_for!(Timeline)
}
