//! The document as `result.json`.

use crate::results::document::Document;
use crate::results::problem::Problem;
use crate::sys::foreign;

/// The document as indented JSON with a final newline.
pub fn render(document: &Document) -> Result<String, Problem> {
    let mut text = serde_json::to_string_pretty(document)
        .map_err(|error| Problem::new(format!("cannot encode the result: {error}")))?;
    text.push('\n');
    Ok(foreign::escaped(&text).into_owned())
}
