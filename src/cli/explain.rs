//! `sysdyno explain`: the methodology of an experiment, in the words of its source file.

use super::arguments::ExplainOptions;
use super::{DONE, Failure, print};
use crate::experiments::Experiment;
use crate::plan;

pub(super) fn explain(options: &ExplainOptions) -> Result<u8, Failure> {
    let pages: Vec<String> = plan::select(std::slice::from_ref(&options.experiment))?.into_iter().map(page).collect();
    print(&pages.join("\n\n"))?;
    Ok(DONE)
}

fn page(experiment: &Experiment) -> String {
    let mut text = format!("{}: {}\n\n{}\n# Metrics\n\n", experiment.id, experiment.title, experiment.methodology());
    for publication in experiment.publishes {
        text += &format!("- {} [{}]: {}\n", publication.metric, publication.unit, publication.meaning);
    }
    text
}
