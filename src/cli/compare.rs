//! `sysdyno compare`: what changed between two sides of runs.

use std::path::Path;

use super::compare_options::{CompareOptions, ComparisonForm};
use super::paint::painted;
use super::{DONE, Failure, json, print, print_painted, runs, terminal_width};
use crate::compare;
use crate::conduct::figures;
use crate::report::content::comparison::page;
use crate::report::{comparison_screen, html, markdown, screen};
use crate::results::comparison::{ComparedResult, Comparison, Finding};
use crate::results::problem::Problem;

/// A result is worse.
const WORSE: u8 = 1;
/// The data do not decide.
const UNDECIDED: u8 = 3;

pub(super) fn compare(options: &CompareOptions) -> Result<u8, Failure> {
    let (base, new) = (runs::named(&options.base)?, runs::named(&options.new)?);
    let comparison = compare::compare(&base, &new, options.across)?;
    show(&comparison, options)?;
    Ok(exit_code(&comparison, options))
}

fn show(comparison: &Comparison, options: &CompareOptions) -> Result<(), Failure> {
    let file = options.output.as_deref().filter(|file| file.as_os_str() != "-");
    let text = match options.format {
        ComparisonForm::Text => {
            let lines = comparison_screen::screen(comparison, terminal_width(), options.all);
            if file.is_none() && !options.all {
                return print_painted(&painted(&lines, options.color)).map(drop);
            }
            screen::plain(&lines)
        }
        ComparisonForm::Html => html::render(&page(comparison)),
        ComparisonForm::Markdown => {
            let page = page(comparison);
            if let Some(file) = file {
                figures::write(file.parent().unwrap_or(Path::new("")), &page).map_err(Failure::from)?;
            }
            markdown::render(&page)
        }
        ComparisonForm::Json => json(comparison)?,
    };
    match file {
        None => print(&text),
        Some(file) => std::fs::write(file, &text).map_err(|error| {
            Problem::new(format!("cannot write {}: {error}", file.display()))
                .hint("choose another file with --output")
                .into()
        }),
    }
}

/// 1 where a headline result is worse, 3 where the data leave that open, 0 otherwise.
fn exit_code(comparison: &Comparison, options: &CompareOptions) -> u8 {
    let least = options.fail_on.unwrap_or(0.0);
    let worse = |row: &ComparedResult| row.finding == Finding::Worse && row.worsening() >= least;
    let open = |row: &ComparedResult| row.finding == Finding::Inconclusive && row.worst() >= least.max(row.threshold);
    match () {
        () if comparison.headline().any(worse) => WORSE,
        () if !options.lenient && comparison.headline().any(open) => UNDECIDED,
        () => DONE,
    }
}
