//! Every figure as one line of `metrics.csv`, for spreadsheets, data frames and databases. Numbers are full, not worded.

use crate::results::document::{Document, Metric};
use crate::results::trouble::Trouble;

/// Column heads.
const HEADS: [&str; 25] = [
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
];

/// The file.
pub fn render(document: &Document) -> Result<String, Trouble> {
    let cannot = |error: &dyn std::fmt::Display| Trouble::new(format!("cannot encode the figures: {error}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(HEADS).map_err(|error| cannot(&error))?;
    for section in &document.experiments {
        for metric in &section.metrics {
            let mut row = vec![document.run.id.clone(), section.id.clone(), section.method_version.to_string()];
            row.extend(fields(metric));
            writer.write_record(&row).map_err(|error| cannot(&error))?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| cannot(&error))?;
    String::from_utf8(bytes).map_err(|error| cannot(&error))
}

fn fields(metric: &Metric) -> Vec<String> {
    let known = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let prediction = metric.prediction.as_ref();
    let better = match metric.better {
        crate::results::quantity::Better::Lower => "lower",
        crate::results::quantity::Better::Higher => "higher",
    };
    let mut fields = vec![
        metric.name.clone(),
        metric.labels.to_string(),
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
    fields
}
