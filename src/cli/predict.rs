//! `sysdyno predict`: what would be written down before measuring. Nothing is timed.

use std::path::Path;

use super::arguments::PredictOptions;
use super::{DONE, Failure, json, print, terminal_width};
use crate::assemble;
use crate::conduct::directory::RunDirectory;
use crate::experiments::PredictionInput;
use crate::machine;
use crate::plan;
use crate::report::terminal::plain_table;
use crate::results::log;
use crate::results::prediction::{Part, Prediction};
use crate::results::wording::{interval, quantity};
use crate::setup::{Profile, Setup};
use crate::sys::affinity;

pub(super) fn predict(options: &PredictOptions) -> Result<u8, Failure> {
    let selected = plan::select(&options.selection)?;
    let known = match &options.from {
        Some(run) => assemble::known_metrics(&log::read(&RunDirectory::open(run)?.log())?),
        None => Vec::new(),
    };
    let machine = machine::detect(Path::new("/"), Path::new("."));
    let allowed = affinity::allowed();
    let cpu = plan::choose_cpu(options.cpu, &allowed, &machine)?;
    let setup = Setup::of(machine, cpu, allowed, Profile::Default);
    let by = PredictionInput { setup: &setup, known: &known };
    let predictions: Vec<Prediction> = selected.iter().flat_map(|experiment| (experiment.predict)(&by)).collect();
    if options.json {
        print(&json(&predictions)?)?;
        return Ok(DONE);
    }
    let rows = predictions.iter().map(row).collect();
    let text = plain_table(&["figure", "predicted", "range", "terms"], rows, terminal_width());
    let basis = if known.is_empty() {
        "From the machine's claims and the constants table alone; --from RUN adds the figures of a run, as `run` itself does."
    } else {
        "From the machine's claims, the constants table, and the figures of the run."
    };
    print(&format!("{text}\n\n{basis}\n"))?;
    Ok(DONE)
}

fn row(prediction: &Prediction) -> Vec<String> {
    let figure = if prediction.labels.is_empty() {
        prediction.metric.clone()
    } else {
        format!("{}  {}", prediction.metric, prediction.labels)
    };
    let terms: Vec<String> = prediction
        .terms
        .iter()
        .map(|term| {
            let part = if term.part == Part::SoftwareOverhead { "software: " } else { "" };
            format!("{part}{} {} [{}]", term.what, quantity(term.value, prediction.unit), term.basis.text())
        })
        .collect();
    vec![
        figure,
        quantity(prediction.value, prediction.unit),
        interval([prediction.low, prediction.high], prediction.unit),
        terms.join("\n"),
    ]
}
