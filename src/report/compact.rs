//! The compact form of a run as one line of JSON.

use crate::results::compact::Compact;
use crate::results::document::Document;
use crate::results::problem::Problem;
use crate::sys::foreign;

/// The file.
pub fn render(document: &Document) -> Result<String, Problem> {
    let text = serde_json::to_string(&Compact::of(document))
        .map_err(|error| Problem::new(format!("cannot encode the compact form: {error}")))?;
    Ok(foreign::escaped(&text).into_owned() + "\n")
}
