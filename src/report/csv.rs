//! Every figure as one line of `metrics.csv`, for spreadsheets, data frames and databases. Numbers are full, not worded.
//!
//! A spreadsheet takes a cell that begins with `=`, `+`, `-`, `@` for a formula, and runs it. Words can come from elsewhere,
//! so such a word begins with a single quote, which spreadsheets show as text; a number never does.

use crate::results::document::{Document, Metric};
use crate::results::problem::Problem;
use crate::sys::foreign;

/// Column heads.
const HEADS: [&str; 32] = [
    "run",
    "experiment",
    "method_version",
    "name",
    "labels",
    "unit",
    "better",
    "headline",
    "value",
    "low",
    "high",
    "interval_level",
    "typical",
    "stddev",
    "cycles",
    "at_core_hz",
    "launches",
    "samples",
    "predicted",
    "predicted_low",
    "predicted_high",
    "base_hardware",
    "software_overhead",
    "trust",
    "against_prediction",
    "at_least",
    "within_run_low",
    "within_run_high",
    "between_share",
    "grade",
    "shared_value",
    "shared_share",
];

/// The file.
pub fn render(document: &Document) -> Result<String, Problem> {
    let cannot = |error: &dyn std::fmt::Display| Problem::new(format!("cannot encode the results: {error}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(HEADS).map_err(|error| cannot(&error))?;
    for section in &document.experiments {
        for metric in &section.metrics {
            let mut row = vec![word(&document.run.id), word(&section.id), section.method_version.to_string()];
            row.extend(fields(metric));
            writer.write_record(&row).map_err(|error| cannot(&error))?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| cannot(&error))?;
    String::from_utf8(bytes).map_err(|error| cannot(&error))
}

/// A cell of words: no formula, and no control characters.
pub fn word(text: &str) -> String {
    const FORMULA: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
    // Blanks before a formula do not keep it from being one.
    let begins = text.trim_start_matches(|letter: char| letter.is_whitespace() || letter.is_control());
    let shown = foreign::shown(text);
    if begins.starts_with(FORMULA) { format!("'{shown}") } else { shown.into_owned() }
}

fn fields(metric: &Metric) -> Vec<String> {
    let known = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let prediction = metric.prediction.as_ref();
    let better = match metric.better {
        crate::results::quantity::Better::Lower => "lower",
        crate::results::quantity::Better::Higher => "higher",
    };
    let mut fields = vec![
        word(&metric.name),
        word(&metric.labels.to_string()),
        metric.unit.to_string(),
        better.to_owned(),
        metric.headline.to_string(),
    ];
    fields.extend(
        [metric.value, metric.interval95[0], metric.interval95[1], metric.interval_level].map(|n| n.to_string()),
    );
    fields.extend([known(metric.typical), metric.stddev.to_string(), known(metric.cycles), known(metric.at_core_hz)]);
    fields.extend([metric.launches.to_string(), metric.samples.to_string()]);
    fields.extend([
        known(prediction.map(|found| found.value)),
        known(prediction.map(|found| found.low)),
        known(prediction.map(|found| found.high)),
        known(prediction.map(|found| found.base_hardware)),
        known(prediction.map(|found| found.software_overhead)),
    ]);
    fields.extend([metric.verdict.trust.word().to_owned(), metric.verdict.against_prediction.word().to_owned()]);
    fields.push(metric.at_least.to_string());
    let within = metric.within_run.unwrap_or(metric.interval95);
    fields.extend(within.map(|end| end.to_string()));
    fields.extend([metric.between_share.to_string(), metric.grade.word().to_owned()]);
    fields.extend([known(metric.shared.map(|found| found.value)), known(metric.shared.map(|found| found.share))]);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_is_a_formula() {
        for formula in ["=HYPERLINK(\"http://x\",\"y\")", "+1", "-1+2", "@SUM(A1)", "\t=1", "\r=1", "  =1", "＝1"] {
            assert!(word(formula).starts_with('\''), "{formula}");
        }
        for plain in ["", "guest-20260101T120000Z", "cpu.loop.overhead", "code=registers", "1-2"] {
            assert_eq!(word(plain), plain);
        }
    }
}
