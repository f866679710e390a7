//! `sysdyno judge`: whether the numbers of others agree with a run, and which mistakes explain those that do not.

use std::path::{Path, PathBuf};

use super::answer::Answer;
use super::answer_options::ComparisonForm;
use super::judge_options::JudgeOptions;
use super::{DONE, Failure, WORSE, json, runs, terminal_width};
use crate::judge::{self, number};
use crate::report::content::judgement::{page, screen};
use crate::results::compact::bytes_of;
use crate::results::problem::Problem;

/// Most files of a class.
const MOST_FILES: usize = 1000;
/// Endings of files with numbers in a directory.
const ENDINGS: [&str; 2] = ["csv", "json"];

pub(super) fn judge(options: &JudgeOptions) -> Result<u8, Failure> {
    if options.blank {
        Answer::Text(number::blank()).show(options.output.as_deref())?;
        return Ok(DONE);
    }
    let places = places(&options.files)?;
    let run = runs::one(&runs::or_newest(options.run.as_deref())?)?;
    let (mut sources, mut left_aside) = (Vec::new(), Vec::new());
    for place in &places {
        match read(place) {
            Ok(found) => sources.extend(found),
            // One of many files does not hide the others.
            Err(problem) if places.len() > 1 => left_aside.push(problem.what),
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

/// The files, and those in directories by their names.
fn places(files: &[PathBuf]) -> Result<Vec<PathBuf>, Problem> {
    let mut places = Vec::new();
    for file in files {
        if !file.is_dir() {
            places.push(file.clone());
            continue;
        }
        let cannot = |error| Problem::new(format!("cannot read {}: {error}", file.display()));
        let entries = file.read_dir().map_err(cannot)?.flatten().map(|entry| entry.path());
        let is_one = |place: &PathBuf| {
            place.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known)) && place.is_file()
        };
        let mut found: Vec<PathBuf> = entries.filter(is_one).collect();
        if found.is_empty() {
            return Err(Problem::new(format!("{} has no CSV and no JSON file", file.display()))
                .hint("name the directory with the files of the class"));
        }
        found.sort();
        places.extend(found);
    }
    if places.len() > MOST_FILES {
        return Err(Problem::new(format!("{} files are too many, at most {MOST_FILES} are judged", places.len()))
            .hint("judge them in several calls"));
    }
    Ok(places)
}

/// The numbers in a file, by the name of the file without its directory.
fn read(place: &Path) -> Result<Vec<number::Source>, Problem> {
    let name = place.file_name().unwrap_or(place.as_os_str()).to_string_lossy();
    let bytes = bytes_of(place).map_err(|why| {
        Problem::new(format!("cannot read {}: {why}", place.display())).hint("numbers stand in a CSV table or in JSON")
    })?;
    number::read(&name, &bytes)
}
