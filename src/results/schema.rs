//! The JSON Schemas of all files and answers, generated from the types that write them.

use schemars::{Schema, schema_for};

use super::accepted::Accepted;
use super::compact::Compact;
use super::comparison::Comparison;
use super::document::Document;
use super::fleet::Fleet;
use super::judgement::Judgement;
use super::log::Record;
use super::mesh::Mesh;
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

/// Schema of `sysdyno fleet --format json`.
pub fn of_fleet() -> Schema {
    schema_for!(Fleet)
}

/// Schema of the file that `sysdyno mesh` writes.
pub fn of_mesh() -> Schema {
    schema_for!(Mesh)
}

/// Schema of `sysdyno fleet --accepted FILE`.
pub fn of_accepted() -> Schema {
    schema_for!(Accepted)
}

/// Schema of `sysdyno history --format json`.
pub fn of_history() -> Schema {
    schema_for!(Timeline)
}

/// Schema of `sysdyno judge --format json`.
pub fn of_judgement() -> Schema {
    schema_for!(Judgement)
}
