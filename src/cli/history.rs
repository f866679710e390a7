//! `sysdyno history`: what changed in the runs of one machine over time.

use std::path::Path;

use super::answer::Answer;
use super::answer_options::{AnswerOptions, ComparisonForm};
use super::history_options::HistoryOptions;
use super::{DONE, Failure, WORSE, json, runs, terminal_width};
use crate::compare::PlacedRun;
use crate::compare::timeline::timeline;
use crate::conduct::history::Store;
use crate::machine::Identity;
use crate::report::content::history::{page, screen};
use crate::results::comparison::Finding;
use crate::results::problem::Problem;
use crate::results::timeline::{ResultTimeline, Timeline};

pub(super) fn history(options: &HistoryOptions) -> Result<u8, Failure> {
    let (runs, left_aside) = if options.runs.is_empty() { stored()? } else { (named(options)?, Vec::new()) };
    let found = timeline(runs, left_aside);
    let answer = match options.answer.format {
        ComparisonForm::Text => {
            let lines = screen(&found, terminal_width(), options.answer.all);
            Answer::of_screen(lines, options.answer.all, options.answer.color)
        }
        ComparisonForm::Html => Answer::Html(page(&found)),
        ComparisonForm::Markdown => Answer::Markdown(page(&found)),
        ComparisonForm::Json => Answer::Text(json(&found)?),
    };
    answer.show(options.answer.output.as_deref())?;
    Ok(exit_code(&found, &options.answer))
}

/// The runs that were named.
fn named(options: &HistoryOptions) -> Result<Vec<PlacedRun>, Problem> {
    let mut found = Vec::new();
    for name in &options.runs {
        found.extend(runs::named(name)?);
    }
    found.sort_by(|one, other| one.run.run.started.cmp(&other.run.run.started));
    Ok(found)
}

/// The runs of this machine that earlier commands kept, and what could not be read.
fn stored() -> Result<(Vec<PlacedRun>, Vec<String>), Problem> {
    let hint = "name a directory of runs, or a pattern in quotes: `sysdyno history sysdyno-runs`";
    let store = Store::of(&Identity::read(Path::new("/"))).ok_or_else(|| {
        Problem::new("this machine has no identifier or this user no home, so no runs are stored").hint(hint)
    })?;
    let place = store.place();
    let found = store.read().map_err(|error| {
        Problem::new(format!("cannot read the stored runs in {}: {error}", place.display())).hint(hint)
    })?;
    if found.runs.is_empty() {
        return Err(Problem::new(format!("no run of this machine is stored in {}", place.display()))
            .hint("each complete `sysdyno run` adds one, unless --no-history is given. Or name a directory of runs"));
    }
    let runs = found.runs.into_iter().map(|run| PlacedRun { place: run.run.id.clone(), run });
    Ok((runs.collect(), found.left_aside.into_iter().collect()))
}

/// 1 where a headline result is worse now than before, 3 where the runs are too few, 0 otherwise.
fn exit_code(found: &Timeline, options: &AnswerOptions) -> u8 {
    let least = options.least();
    let worse = |result: &ResultTimeline| result.finding == Finding::Worse && result.worsening() >= least;
    match () {
        () if found.headline().any(worse) => WORSE,
        () if !options.lenient && found.is_too_short() => super::FOUND,
        () => DONE,
    }
}
