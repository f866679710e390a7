//! `sysdyno judge`: whether the numbers of others agree with a run, and which mistakes explain those that do not.

use std::path::Path;

use super::answer::Answer;
use super::answer_options::ComparisonForm;
use super::hand_ins::{self, HandIns};
use super::judge_options::JudgeOptions;
use super::{DONE, Failure, WORSE, json, runs, terminal_width};
use crate::conduct::scratch;
use crate::judge::names::Names;
use crate::judge::{self, Source, reading, table};
use crate::machine;
use crate::plan;
use crate::report::content::judgement::{page, screen};
use crate::results::compact::bytes_of;
use crate::results::problem::Problem;
use crate::setup::{Profile, Setup};
use crate::sys::affinity;

pub(super) fn judge(options: &JudgeOptions) -> Result<u8, Failure> {
    if options.blank {
        Answer::Text(table::blank()).show(options.output.as_deref())?;
        return Ok(DONE);
    }
    let HandIns { files, left_out } = hand_ins::find(&options.files)?;
    let run = runs::one(&runs::or_newest(options.run.as_deref())?)?;
    let names = Names::of(here().as_ref(), &run.run, options.other_machine);
    let (mut sources, mut left_aside) = (Vec::new(), Vec::new());
    for (place, name) in &files {
        match read(place, name, &names) {
            Ok(found) => sources.extend(found),
            // One of many files does not hide the others.
            Err(problem) if files.len() > 1 => left_aside.push(problem.what),
            Err(problem) => return Err(problem.into()),
        }
    }
    if sources.is_empty() {
        return Err(Problem::new(format!("no file can be read. {}", left_aside.join(". ")))
            .hint("`sysdyno judge --blank` prints a table to fill in")
            .into());
    }
    let mut judgement = judge::judge(&sources, &run.place, &run.run, options.other_machine);
    judgement.left_aside = left_aside;
    judgement.left_out = left_out;
    let answer = match options.format {
        ComparisonForm::Text => {
            Answer::of_screen(screen(&judgement, terminal_width(), options.all), options.all, options.color)
        }
        ComparisonForm::Html => Answer::Html(page(&judgement)),
        ComparisonForm::Markdown => Answer::Markdown(page(&judgement)),
        ComparisonForm::Json => Answer::Text(json(&judgement)?),
    };
    answer.show(options.output.as_deref())?;
    Ok(if judgement.bad().next().is_some() { WORSE } else { DONE })
}

/// This machine, where a run of it would find a CPU: its figures are names, also where the run has no result of them.
fn here() -> Option<Setup> {
    let (machine, allowed) = (machine::detect(Path::new("/"), Path::new(".")), affinity::allowed());
    let cpu = plan::choose_cpu(None, &allowed, &machine).ok()?;
    let setup = Setup::of(machine, cpu, allowed, Profile::Default);
    Some(Setup { room: scratch::room(&setup.machine, None), ..setup })
}

/// The numbers in a file, by a name for the file.
fn read(place: &Path, name: &str, names: &Names) -> Result<Vec<Source>, Problem> {
    let bytes = bytes_of(place).map_err(|why| {
        Problem::new(format!("cannot read {}: {why}", place.display())).hint("numbers stand in a CSV table or in JSON")
    })?;
    reading::read(name, &bytes, names)
}
