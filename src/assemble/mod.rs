//! From a log to the document: every experiment analyses its launches; what was skipped or failed says why.

mod practice;

use std::path::Path;

use crate::evaluate::distance::told_apart;
use crate::evaluate::findings::Findings;
use crate::evaluate::missing::name_missing;
use crate::evaluate::study::{Study, WholeRun};
use crate::evaluate::unavailable::name_unavailable;
use crate::experiments::costs::costs;
use crate::experiments::highlights::highlights;
use crate::experiments::phrases::{self, phrase};
use crate::experiments::{self, Experiment, consistency, models};
use crate::machine::Identity;
use crate::results::document::{Document, Meaning, Metric, Outcome, Run, SCHEMA, Section};
use crate::results::log::{self, Launch, Log, Step};
use crate::results::prediction::Prediction;
use crate::results::problem::Problem;
use crate::results::quantity::Labels;
use crate::setup::{Profile, Setup};

/// How the reason begins for which a run ended that had no time left.
pub const OUT_OF_TIME: &str = "the time limit was reached";

/// The document of a log file, with the checksum of the file.
pub fn document_of(path: &Path) -> Result<Document, Problem> {
    let mut document = document(&log::read(path)?);
    document.run.log_sha256 = Some(log::checksum(path)?);
    Ok(document)
}

/// The document of a log.
pub fn document(log: &Log) -> Document {
    let (mut sections, _) = sections(log, Wanted::All);
    let misses = models::misses::say(&sections, &log.machine, log.header.cpu);
    for (section, sentences) in sections.iter_mut().zip(misses) {
        section.misses = sentences;
    }
    for own in log.own_predictions.iter().flat_map(|own| &own.predictions) {
        // Of two distances the near one, which stands first.
        let mut metrics = sections.iter_mut().flat_map(|section| &mut section.metrics);
        if let Some(metric) = metrics.find(|metric| own.is_for(&metric.name, &metric.labels)) {
            metric.own_prediction = Some(own.clone());
        }
    }
    let metrics: Vec<&Metric> = sections.iter().flat_map(|section| &section.metrics).collect();
    let checks = consistency::checks(&metrics, &log.machine);
    Document {
        schema: SCHEMA.to_owned(),
        run: run(log),
        machine: log.machine.clone(),
        peer: log.peer.clone(),
        remote: log.remote.clone(),
        quiet: log.quiet.clone(),
        practice: practice::practice(log),
        highlights: highlights(&sections, &checks, &log.machine, log.header.cpu, &log.expectations),
        costs: costs(&sections),
        expectations: log.expectations.clone(),
        own_predictions: log.own_predictions.clone(),
        experiments: sections,
        checks,
    }
}

/// What is wanted of an experiment: a run looks at its figures often, and at what they mean once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Figures,
    All,
}

/// The sections of a log with their figures only.
pub fn figures(log: &Log) -> Vec<Section> {
    sections(log, Wanted::Figures).0
}

/// The sections of the plan, and every figure that the log supports: of what was measured only because others are predicted from it too.
fn sections(log: &Log, wanted: Wanted) -> (Vec<Section>, Vec<Metric>) {
    let (setup, whole) = (Setup::logged(log), WholeRun::of(log));
    let mut known: Vec<Metric> = Vec::new();
    for step in steps_besides_the_plan(log) {
        known.extend(section(&setup, log, &whole, &step, &known, Wanted::Figures).metrics);
    }
    let mut sections = Vec::new();
    for step in &log.steps {
        let section = section(&setup, log, &whole, step, &known, wanted);
        known.extend(section.metrics.iter().cloned());
        sections.push(section);
    }
    (sections, known)
}

/// Experiments with launches of which the plan has none.
fn steps_besides_the_plan(log: &Log) -> impl Iterator<Item = Step> {
    let launched = |id: &str| log.launches.iter().any(|launch| launch.experiment == id);
    let planned = |id: &str| log.steps.iter().any(|step| step.experiment == id);
    experiments::TABLE.iter().filter(move |found| launched(found.id) && !planned(found.id)).map(|found| Step {
        experiment: found.id.to_owned(),
        method_version: found.method_version,
        launches: 0,
        skipped: None,
    })
}

/// Every figure that a log supports so far: what later predictions are made from.
pub fn known_metrics(log: &Log) -> Vec<Metric> {
    sections(log, Wanted::Figures).1
}

fn run(log: &Log) -> Run {
    let (finished, complete, ended) = match &log.finish {
        Some((at, complete, reason)) => (Some(at.clone()), *complete, reason.clone()),
        None => (None, false, "its log has no last line, so the run did not end normally".to_owned()),
    };
    Run {
        id: log.header.id.clone(),
        started: log.header.started.clone(),
        finished,
        command: log.header.command.clone(),
        seed: log.header.seed,
        version: log.header.version.clone(),
        build: log.header.build.clone(),
        profile: log.header.profile.clone(),
        complete,
        ended,
        rounds: log.rounds,
        disturbed_rounds: log.disturbed_rounds.clone(),
        resumed: log.resumed,
        wall_seconds: log.seconds,
        cpu: log.header.cpu,
        clock: log.clock.clone(),
        damage: log.damage.clone(),
        log_sha256: None,
        identity: log.header.identity.as_ref().map(Identity::published),
        binary: log.header.binary.clone(),
        engine: log.header.engine.clone(),
        labels: log.header.labels.clone(),
        earlier_runs: log.history.as_ref().map(|history| history.runs),
        left_out: left_out(log),
    }
}

/// Experiments that a quick run without a selection leaves out, where this run is one.
fn left_out(log: &Log) -> Option<u32> {
    let is_quick = Profile::named(&log.header.profile).is_some_and(Profile::is_quick);
    let is_planned = |experiment: &Experiment| log.steps.iter().any(|step| step.experiment == experiment.id);
    let is_whole = experiments::TABLE.iter().all(|experiment| is_planned(experiment) == experiment.in_quick);
    (is_quick && is_whole).then(|| experiments::TABLE.iter().filter(|experiment| !experiment.in_quick).count() as u32)
}

fn section(setup: &Setup, log: &Log, whole: &WholeRun, step: &Step, known: &[Metric], wanted: Wanted) -> Section {
    let launches: Vec<&Launch> = log.launches.iter().filter(|launch| launch.experiment == step.experiment).collect();
    let experiment = experiments::find(&step.experiment);
    let mut section = Section {
        id: step.experiment.clone(),
        chapter: step.experiment.split('.').next().unwrap_or_default().to_owned(),
        title: experiment.map_or_else(|| step.experiment.clone(), |found| found.title.to_owned()),
        measures: experiment.map_or_else(String::new, |found| found.measures.to_owned()),
        method_version: step.method_version,
        methodology: experiment.map_or_else(String::new, Experiment::methodology),
        meanings: experiment.map_or_else(Vec::new, meanings),
        outcome: Outcome::Failed,
        reason: None,
        hint: None,
        launches: launches.iter().filter(|launch| launch.succeeded()).count() as u32,
        failed_launches: launches.iter().filter_map(|launch| failure(launch)).collect(),
        wall_seconds: launches.iter().filter_map(|launch| launch.seconds).sum(),
        metrics: Vec::new(),
        rejected: Vec::new(),
        unmet: Vec::new(),
        series: Vec::new(),
        figures: Vec::new(),
        analysis: Vec::new(),
        misses: Vec::new(),
    };
    if let Some(problem) = &step.skipped {
        section.outcome = Outcome::Skipped;
        section.reason = Some(problem.what.clone());
        section.hint.clone_from(&problem.hint);
        return section;
    }
    let apart = told_apart(&log.launches, &step.experiment);
    let material = apart.as_ref().unwrap_or(&log.launches);
    let study = experiment
        .and_then(|found| Some((found, Study::of(setup, log, whole, material, found.id, found.precision, known)?)))
        .map(|(found, study)| (found, Study { clock_share: models::clock_share(known), ..study }))
        .filter(|(_, study)| !study.launches.is_empty());
    match (experiment, study) {
        (_, Some((experiment, study))) => {
            let mut findings = Findings::default();
            (experiment.figures)(&study, &mut findings);
            findings.settle_curves();
            name_unavailable(&study, &mut findings);
            for metric in &mut findings.metrics {
                metric.phrase = phrase(&metric.name, &metric.labels);
            }
            if wanted == Wanted::All {
                for text in experiment.needs.iter().flat_map(|need| (need.caveats)(setup)) {
                    findings.say(text);
                }
                (experiment.explain)(&study, &mut findings);
                findings.say_modes();
                findings.say_host_load();
                findings.say_predictions();
                name_missing(&study, &mut findings);
            }
            fill(&mut section, experiment, findings, &study.launches);
        }
        (None, _) => {
            section.reason = Some(format!("this version of sysdyno has no experiment {}", step.experiment));
            section.hint = Some("read the log with the version of sysdyno that wrote it".to_owned());
        }
        (_, None)
            if launches.is_empty()
                && log.finish.as_ref().is_some_and(|(.., reason)| reason.starts_with(OUT_OF_TIME)) =>
        {
            section.outcome = Outcome::Skipped;
            section.reason = Some(format!("{OUT_OF_TIME} before its first launch"));
            section.hint = Some("allow more time with --time, or stop other work on this machine".to_owned());
        }
        (_, None) => {
            section.reason = Some(why_nothing(&section, &launches));
            section.hint = launches.iter().rev().find_map(|launch| launch.failed.as_ref()?.hint.clone());
        }
    }
    let met = |metric: &Metric, prediction: &Prediction| prediction.is_for(&metric.name, &metric.labels);
    let of_this = log.predictions.iter().filter(|(id, _)| *id == step.experiment).map(|(_, prediction)| prediction);
    section.unmet = of_this.filter(|found| !section.metrics.iter().any(|metric| met(metric, found))).cloned().collect();
    section
}

fn meanings(experiment: &Experiment) -> Vec<Meaning> {
    let meaning = |metric: &str, meaning: &str| Meaning { metric: metric.to_owned(), meaning: meaning.to_owned() };
    experiment.publishes.iter().map(|found| meaning(found.metric, found.meaning)).collect()
}

/// A method that has changed since cannot judge what an older one measured; its figures would carry the wrong version.
fn fill(section: &mut Section, experiment: &Experiment, findings: Findings, launches: &[&Launch]) {
    if !experiment.analyses(section.method_version) {
        let versions: Vec<String> = experiment.readable_versions().iter().map(u32::to_string).collect();
        section.reason = Some(format!(
            "not shown. The log has method version {}, and this build reads {}",
            section.method_version,
            match versions.split_last() {
                Some((own, older)) if !older.is_empty() => format!("{} and {own}", older.join(", ")),
                _ => versions.concat(),
            }
        ));
        section.hint = Some("read the log with the version of sysdyno that wrote it".to_owned());
        return;
    }
    let is_headline = |name: &str, labels: &Labels| {
        experiment.publication(name).is_some_and(|publication| (publication.headline)(labels))
    };
    section.metrics = findings.metrics;
    for metric in &mut section.metrics {
        metric.headline &= is_headline(&metric.name, &metric.labels);
    }
    // In the order of the table's publications, figures of one metric together.
    let rank = |name: &str| experiment.publishes.iter().position(|publication| publication.metric == name);
    section.metrics.sort_by_key(|metric| rank(&metric.name));
    section.rejected = findings.rejected;
    for rejected in &mut section.rejected {
        rejected.headline = is_headline(&rejected.name, &rejected.labels);
        rejected.phrase = phrase(&rejected.name, &rejected.labels);
    }
    section.series = findings.curves;
    for curve in &mut section.series {
        let words = |(key, value): (&str, &str)| (key.to_owned(), phrases::label(&curve.name, key, value));
        curve.words = curve.labels.pairs().map(words).collect();
    }
    section.figures = findings.figures;
    section.analysis = findings.analysis;
    if section.metrics.is_empty() {
        // A figure without gates was never taken: the machine does not give it.
        let refused = !section.rejected.is_empty() && section.rejected.iter().all(|figure| figure.gates.is_empty());
        if refused {
            section.outcome = Outcome::Skipped;
            section.hint = section.rejected.iter().find_map(|figure| figure.hint.clone());
        }
        let why = if refused { "no result is available here" } else { "every result failed a gate" };
        section.reason =
            Some(section.rejected.first().map_or_else(
                || no_result(launches),
                |rejected| format!("{why}; {}: {}", rejected.name, rejected.reason),
            ));
    } else {
        section.outcome = Outcome::Measured;
    }
}

/// What became of the batches of launches that gave no result.
fn no_result(launches: &[&Launch]) -> String {
    let counts: Vec<String> =
        practice::batches(launches).iter().map(|of| format!("{} {}", of.count, of.class)).collect();
    let batches = if counts.is_empty() { String::new() } else { format!(" from their batches: {}", counts.join(", ")) };
    format!("the launches gave no result{batches}")
}

fn failure(launch: &Launch) -> Option<String> {
    match (&launch.failed, launch.seconds) {
        (Some(problem), _) => Some(format!("launch {}: {}", launch.number, problem.what)),
        (None, None) => Some(format!("launch {}: the run ended during it", launch.number)),
        (None, Some(_)) if !launch.interrupted && !launch.succeeded() => {
            Some(format!("launch {}: it ended without evidence", launch.number))
        }
        _ => None,
    }
}

fn why_nothing(section: &Section, launches: &[&Launch]) -> String {
    match section.failed_launches.last() {
        _ if launches.is_empty() => "the run ended before its first launch".to_owned(),
        Some(last) => format!("every launch failed. The last: {last}"),
        None => "every launch failed".to_owned(),
    }
}
