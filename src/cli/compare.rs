//! `sysdyno compare`: what changed between two sides of runs.

use super::answer::{self, Answer};
use super::compare_options::CompareOptions;
use super::{DONE, FOUND, Failure, WORSE, json, runs, terminal_width};
use crate::compare;
use crate::report::comparison_screen;
use crate::report::content::comparison::page;
use crate::results::comparison::{ComparedResult, Comparison, Finding};

pub(super) fn compare(options: &CompareOptions) -> Result<u8, Failure> {
    let (base, new) = (runs::named(&options.base)?, runs::named(&options.new)?);
    let comparison = compare::compare(&base, &new, options.across)?;
    show(&comparison, options)?;
    Ok(exit_code(&comparison, options))
}

fn show(comparison: &Comparison, options: &CompareOptions) -> Result<(), Failure> {
    answer::show(&Answer {
        screen: &|| comparison_screen::screen(comparison, terminal_width(), options.all),
        page: &|| page(comparison),
        json: &|| json(comparison),
        form: options.format,
        output: options.output.as_deref(),
        all: options.all,
        colour: options.color,
    })
}

/// 1 where a headline result is worse, 3 where the data leave that open, 0 otherwise.
fn exit_code(comparison: &Comparison, options: &CompareOptions) -> u8 {
    let least = options.fail_on.unwrap_or(0.0);
    let worse = |row: &ComparedResult| row.finding == Finding::Worse && row.worsening() >= least;
    let open = |row: &ComparedResult| row.finding == Finding::Inconclusive && row.worst() >= least.max(row.threshold);
    match () {
        () if comparison.headline().any(worse) => WORSE,
        () if !options.lenient && comparison.headline().any(open) => FOUND,
        () => DONE,
    }
}
