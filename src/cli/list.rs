//! `sysdyno list`: every experiment, and whether it can run here.

use std::path::Path;

use serde::Serialize;

use super::arguments::ListOptions;
use super::{DONE, Failure, json, print, terminal_width};
use crate::experiments::{self, Experiment};
use crate::machine;
use crate::report::terminal::{folded, plain_table};
use crate::results::problem::Problem;
use crate::setup::{Profile, Setup};
use crate::sys::affinity;

/// One experiment in the listing.
#[derive(Serialize)]
struct ListedExperiment {
    id: &'static str,
    chapter: &'static str,
    title: &'static str,
    measures: &'static str,
    method_version: u32,
    needs: Vec<&'static str>,
    metrics: Vec<&'static str>,
    /// Whether a quick run without a selection has it.
    in_quick: bool,
    runs_here: bool,
    reason: Option<Problem>,
}

pub(super) fn list(options: &ListOptions) -> Result<u8, Failure> {
    let machine = machine::detect(Path::new("/"), Path::new("."));
    let setup = Setup::of(machine, 0, affinity::allowed(), Profile::Default);
    let entries: Vec<ListedExperiment> =
        experiments::TABLE.iter().map(|experiment| entry(experiment, &setup)).collect();
    if options.json {
        print(&json(&entries)?)?;
        return Ok(DONE);
    }
    if options.all {
        let rows = entries.iter().map(row).collect();
        let text = plain_table(&["experiment", "measures", "needs", "quick", "here"], rows, terminal_width());
        print(&format!("{text}\n\nSelect by experiment or by chapter ({}).\n", experiments::chapters().join(", ")))?;
        return Ok(DONE);
    }
    let mut text = String::new();
    for chapter in experiments::chapters() {
        let of_chapter = entries.iter().filter(|entry| entry.chapter == chapter).map(|entry| entry.id);
        text += &format!("{}\n", of_chapter.collect::<Vec<&str>>().join(", "));
    }
    for (entry, reason) in entries.iter().filter_map(|entry| Some((entry, entry.reason.as_ref()?))) {
        text += &format!("Not here: {}, because {}.\n", entry.id, reason.what);
    }
    let quick: Vec<&str> = entries.iter().filter(|entry| entry.in_quick).map(|entry| entry.id).collect();
    text += &format!("Without a selection, a quick run has {}.\n", quick.join(", "));
    text += "Select by experiment or by chapter. What each measures and needs: --all.";
    print(&folded(&text, usize::from(terminal_width().unwrap_or(80))))?;
    Ok(DONE)
}

fn entry(experiment: &Experiment, setup: &Setup) -> ListedExperiment {
    let reason = experiment.unmet(setup);
    ListedExperiment {
        id: experiment.id,
        chapter: experiment.chapter(),
        title: experiment.title,
        measures: experiment.measures,
        method_version: experiment.method_version,
        needs: experiment.needs.iter().map(|need| need.what).collect(),
        metrics: experiment.publishes.iter().map(|publication| publication.metric).collect(),
        in_quick: experiment.in_quick,
        runs_here: reason.is_none(),
        reason,
    }
}

fn row(entry: &ListedExperiment) -> Vec<String> {
    let needs = if entry.needs.is_empty() { "no condition".to_owned() } else { entry.needs.join(", ") };
    let here = entry.reason.as_ref().map_or_else(|| "yes".to_owned(), |reason| format!("no: {}", reason.what));
    let quick = if entry.in_quick { "yes" } else { "" };
    vec![entry.id.to_owned(), entry.measures.to_owned(), needs, quick.to_owned(), here]
}
