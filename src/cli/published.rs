//! `sysdyno published`: figures that others published, next to those of a run.

use serde_json::{Value, json};

use super::published_options::PublishedOptions;
use super::{DONE, Failure, json as to_json, print, terminal_width};
use crate::assemble;
use crate::report::{content, text};
use crate::results::document::Document;
use crate::results::log;
use crate::results::problem::Problem;
use crate::results::published::Published;

pub(super) fn published(options: &PublishedOptions) -> Result<u8, Failure> {
    let all = Published::embedded();
    let ids: Vec<String> = all.reports.iter().map(|report| report.id.clone()).collect();
    if let Some(wanted) = options.report.as_ref().filter(|wanted| !ids.contains(wanted)) {
        return Err(Problem::new(format!("unknown report '{wanted}'"))
            .hint(format!("the reports are {}", ids.join(", ")))
            .into());
    }
    let found = all.filtered(options.report.as_deref(), options.operation.as_deref());
    if found.figures.is_empty() {
        let word = options.operation.as_deref().unwrap_or_default();
        return Err(Problem::new(format!("no published operation has '{word}' in its name"))
            .hint("`sysdyno published` lists all operations. Words are, for example, call, fault, bandwidth")
            .into());
    }
    let document = match &options.run {
        Some(run) => Some(assemble::document(&log::read(&super::report::place(run)?)?)),
        None => None,
    };
    if options.json {
        print(&to_json(&with_ours(&found, document.as_ref()))?)?;
    } else {
        let part = content::published(&found, document.as_ref());
        print(&text::render_part(&part, terminal_width()))?;
    }
    Ok(DONE)
}

/// The published data, and the figure of the run for each operation that has one.
fn with_ours(found: &Published, document: Option<&Document>) -> Value {
    let mut value = json!(found);
    if let (Some(document), Some(groups)) = (document, value["groups"].as_array_mut()) {
        for (group, entry) in found.groups.iter().zip(groups) {
            if let Some(metric) = group.ours(document) {
                entry["ours"] = json!({
                    "name": metric.name, "labels": metric.labels, "unit": metric.unit,
                    "value": metric.value, "interval95": metric.interval95, "verdict": metric.verdict,
                });
            }
        }
    }
    value
}
