//! `sysdyno predict`: every figure of this machine from a few seconds of primitives, without measuring the rest.

use std::path::{Path, PathBuf};

use super::predict_options::PredictOptions;
use super::{DONE, Failure, INTERRUPTED, json, print, runs, terminal_width};
use crate::assemble;
use crate::conduct::directory::RunDirectory;
use crate::conduct::interrupt::Interrupt;
use crate::conduct::live::{self, Condition};
use crate::conduct::scratch::{self, Temporary};
use crate::experiments::gpu;
use crate::experiments::models::{self, coefficients};
use crate::experiments::own_predictions::{self, Shown};
use crate::experiments::{PredictionInput, costs};
use crate::machine;
use crate::plan;
use crate::report::screen;
use crate::report::terminal::{folded, plain_table};
use crate::results::document::{Document, Metric};
use crate::results::log::{self, Log};
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
    let mut setup = Setup::of(machine, cpu, allowed, Profile::Default);
    if options.blank {
        let shown = if options.all { Shown::All } else { Shown::Costs };
        // The room decides the sizes of files, which are labels.
        let setup = Setup { room: scratch::room(&setup.machine, None), ..setup };
        print(&own_predictions::form(&selected, &setup, shown))?;
        return Ok(DONE);
    }
    gpu::describe(&mut setup, &selected);
    let log = match &options.from {
        Some(run) => Some(log::read(&RunDirectory::open(&runs::or_newest(run.first().map(PathBuf::as_path))?)?.log())?),
        None if options.claims => None,
        None => Some(primitives(options.cpu)?),
    };
    let document = log.as_ref().map(assemble::document);
    // Also what the run measured for its predictions alone.
    let known: Vec<Metric> = log.as_ref().map_or_else(Vec::new, assemble::known_metrics);
    let by = PredictionInput { setup: &setup, known: &known };
    let predictions: Vec<Prediction> = selected.iter().flat_map(|experiment| experiment.predictions(&by)).collect();
    if options.json {
        print(&json(&predictions)?)?;
        return Ok(DONE);
    }
    let text = if options.all || !options.selection.is_empty() {
        let rows = predictions.iter().map(row).collect();
        plain_table(&["result", "predicted", "range", "terms"], rows, terminal_width())
    } else {
        let rows = costs::predicted(&predictions, ROWS).into_iter().map(|(name, found)| {
            let range = interval([found.low, found.high], found.unit);
            vec![name.to_owned(), quantity(found.value, found.unit), range]
        });
        let table = plain_table(&["cost", "predicted", "range"], rows.collect(), terminal_width());
        format!("{table}\nAll {} predictions with their terms: --all.", predictions.len())
    };
    let basis = basis(options, document.as_ref(), &predictions);
    print(&format!("{text}\n\n{}", folded(&basis, usize::from(terminal_width().unwrap_or(screen::WIDTH)))))?;
    Ok(DONE)
}

/// Costs that fit one screen, with what the predictions are made from.
const ROWS: usize = 12;

/// What the predictions are made from, and how good such predictions are.
fn basis(options: &PredictOptions, document: Option<&Document>, predictions: &[Prediction]) -> String {
    let mut text = match (document, &options.from) {
        (None, _) => {
            "From the machine's claims, the constants table, and coefficients fitted on records of other runs. Without \
             --claims sysdyno measures primitives for a few seconds, which narrows the ranges."
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
fn primitives(cpu: Option<u32>) -> Result<Log, Failure> {
    let problem_of = |why: &str| {
        Problem::new(format!("cannot measure primitives: {why}")).hint("predict without measuring, with --claims")
    };
    let place = Temporary::for_runs()?;
    let run = place.join("run");
    let ids = models::in_seconds().into_iter().map(|experiment| experiment.id.to_owned());
    let fixed = ["--time".to_owned(), SECONDS.to_owned()];
    let cpu = cpu.iter().flat_map(|cpu| ["--cpu".to_owned(), cpu.to_string()]);
    let words: Vec<String> = ids.chain(fixed).chain(cpu).collect();
    let interrupt = Interrupt::watch()?;
    let ended = live::run_into(&Condition::none(), &words, &run, &interrupt);
    if let Some(signal) = ended.map_err(|problem| problem_of(&problem.what))? {
        return Err(Failure { code: INTERRUPTED, problem: Problem::new(format!("interrupted by {signal}")) });
    }
    let log = RunDirectory::open(&run).and_then(|run| log::read(&run.log()));
    log.map_err(|problem| problem_of(&problem.what).into())
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
