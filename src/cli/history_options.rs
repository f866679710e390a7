//! What can be typed after `sysdyno history`.

use std::path::PathBuf;

use clap::Args;

use super::compare_options::{ComparisonForm, parse_change};
use super::paint::ColourChoice;

/// Runs of one machine, how to show them, and what to make of it.
#[derive(Debug, Args)]
#[command(
    after_help = "DIR is a directory of runs, a quoted pattern such as 'runs/a-*', or several of both. Four runs are the least, ten are useful.\n\n\
Exit codes: 0 nothing is worse now than before, 1 a result is worse, 2 wrong command, 3 too few runs (--lenient: 0)."
)]
pub(super) struct HistoryOptions {
    /// Runs of one machine (default: the runs of this machine in the user's state directory)
    #[arg(value_name = "DIR")]
    pub runs: Vec<PathBuf>,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = ComparisonForm::Text, value_name = "FORM")]
    pub format: ComparisonForm,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Show every moment and every result, not only headline results that changed
    #[arg(long)]
    pub all: bool,
    /// Judge only by changes for the worse of at least this size: worse:10% (slower:10% is the same)
    #[arg(long, value_name = "CHANGE", value_parser = parse_change)]
    pub fail_on: Option<f64>,
    /// End with exit code 0 where the runs are too few
    #[arg(long)]
    pub lenient: bool,
    /// When to use colour
    #[arg(long, value_enum, default_value_t = ColourChoice::Auto, value_name = "WHEN")]
    pub color: ColourChoice,
}
