//! `sysdyno explain`: the methodology of an experiment, in the words of its source file, and the tables of gates, constants and mistakes.

use super::arguments::ExplainOptions;
use super::{DONE, Failure, print, terminal_width};
use crate::experiments::{Experiment, catalogue};
use crate::judge;
use crate::plan;
use crate::report::text;
use crate::results::wording::percent;

pub(super) fn explain(options: &ExplainOptions) -> Result<u8, Failure> {
    let mut pages: Vec<String> = Vec::new();
    if let Some(experiment) = &options.experiment {
        pages.extend(plan::select(std::slice::from_ref(experiment))?.into_iter().map(page));
    }
    pages.extend(options.gates.then(|| format!("{}\n{}", catalogue::gates(), catalogue::targets())));
    pages.extend(options.constants.then(catalogue::constants));
    pages.extend(options.mistakes.then(judge::mistakes));
    let pages = pages.join("\n\n");
    // A file gets the Markdown itself, which other tools render.
    print(&terminal_width().map_or_else(|| pages.clone(), |width| text::markdown_text(&pages, width)))?;
    Ok(DONE)
}

fn page(experiment: &Experiment) -> String {
    let mut text = format!("{}: {}\n\n{}\n# Metrics\n\n", experiment.id, experiment.title, experiment.methodology());
    for publication in experiment.publishes {
        text += &format!("- {} [{}]: {}\n", publication.metric, publication.unit, publication.meaning);
    }
    text + &format!(
        "\nHalf of the 95 % interval of a good result is at most {} of its value. Some results have other targets.\n",
        percent(experiment.precision.target)
    )
}
