//! `sysdyno predict`: every figure of this machine from a few seconds of primitives, without measuring the rest.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::arguments::PredictOptions;
use super::{DONE, Failure, json, print, terminal_width};
use crate::assemble;
use crate::conduct::directory::RunDirectory;
use crate::experiments::PredictionInput;
use crate::experiments::models::{self, coefficients};
use crate::machine;
use crate::plan;
use crate::report::terminal::plain_table;
use crate::results::document::{Document, Metric};
use crate::results::log;
use crate::results::prediction::{Part, Prediction};
use crate::results::problem::Problem;
use crate::results::wording::{count, factor, interval, percent, quantity};
use crate::setup::{Profile, Setup};
use crate::sys::affinity;

pub(super) fn predict(options: &PredictOptions) -> Result<u8, Failure> {
    let selected = plan::select(&options.selection)?;
    let machine = machine::detect(Path::new("/"), Path::new("."));
    let allowed = affinity::allowed();
    let cpu = plan::choose_cpu(options.cpu, &allowed, &machine)?;
    let setup = Setup::of(machine, cpu, allowed, Profile::Default);
    let document = match &options.from {
        Some(run) => Some(assemble::document(&log::read(&RunDirectory::open(run)?.log())?)),
        None if options.claims => None,
        None => Some(primitives(options.cpu)?),
    };
    let known: Vec<Metric> = document.iter().flat_map(Document::metrics).cloned().collect();
    let by = PredictionInput { setup: &setup, known: &known };
    let predictions: Vec<Prediction> = selected.iter().flat_map(|experiment| experiment.predictions(&by)).collect();
    if options.json {
        print(&json(&predictions)?)?;
        return Ok(DONE);
    }
    let rows = predictions.iter().map(row).collect();
    let text = plain_table(&["result", "predicted", "range", "terms"], rows, terminal_width());
    print(&format!("{text}\n\n{}\n", basis(options, document.as_ref(), &predictions)))?;
    Ok(DONE)
}

/// What the predictions are made from, and how good such predictions are.
fn basis(options: &PredictOptions, document: Option<&Document>, predictions: &[Prediction]) -> String {
    let mut text = match (document, &options.from) {
        (None, _) => {
            "From the machine's claims and the constants table only. Without --claims sysdyno measures \
                      primitives for a few seconds, which narrows the ranges."
        }
        (_, None) => "From primitives measured now, and coefficients fitted on records of other runs.",
        (_, Some(_)) => "From the results of the run, and coefficients fitted on records of other runs.",
    }
    .to_owned();
    let narrow = predictions.iter().filter(|prediction| prediction.says_something()).count();
    text += &format!(
        " {narrow} of {} are narrower than a factor of 4. Wider ranges give little information.",
        count(predictions.len() as u64, "range", "ranges")
    );
    if let (Some(score), Some(_)) = (coefficients::table().left_out, document) {
        text += &format!(
            " For records outside the fit, the median error was {}. {} of the results were inside their ranges, whose \
             median width was {}.",
            factor(score.error),
            percent(score.inside),
            factor(score.width)
        );
    }
    let measured = document.filter(|_| options.from.is_some()).and_then(|document| document.prediction_score(None));
    measured.map_or(text.clone(), |score| format!("{text}\nThe run's own predictions: {}", score.text()))
}

/// Seconds that primitives may take.
const SECONDS: &str = "8s";

/// The primitives of this machine, by a short run of their experiments.
fn primitives(cpu: Option<u32>) -> Result<Document, Failure> {
    let problem = |what: &str, why: &dyn std::fmt::Display| {
        Failure::from(
            Problem::new(format!("cannot measure primitives: {what}: {why}"))
                .hint("predict without measuring, with --claims"),
        )
    };
    let place = std::env::temp_dir().join(format!("sysdyno-predict-{}", std::process::id()));
    // A new directory for this user's eyes: one that somebody else prepared is neither read nor removed.
    let made = DirBuilder::new().mode(0o700).create(&place);
    made.map_err(|error| problem(&format!("cannot make {}", place.display()), &error))?;
    let run = place.join("run");
    let program = std::env::current_exe().map_err(|error| problem("cannot find this program", &error))?;
    let mut command = Command::new(program);
    command.arg("run").args(models::in_seconds().iter().map(|experiment| experiment.id));
    command.args(["--quick", "--no-history", "--no-progress", "--time", SECONDS]);
    command.args(cpu.iter().flat_map(|cpu| ["--cpu".to_owned(), cpu.to_string()]));
    let ended = command.arg("-o").arg(&run).stdin(Stdio::null()).output();
    let log = ended.map_err(|error| problem("cannot start a run", &error)).and_then(|ended| {
        let last = String::from_utf8_lossy(&ended.stderr).lines().next().unwrap_or("it ended early").to_owned();
        log::read(&run.join("log.jsonl")).map_err(|_| problem("a short run failed", &last))
    });
    // What is left behind would only be in the way.
    let _ = std::fs::remove_dir_all(&place);
    Ok(assemble::document(&log?))
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
