//! What can be typed after `sysdyno judge`.

use std::path::PathBuf;

use clap::Args;

use super::answer_options::ComparisonForm;
use super::paint::ColourChoice;

/// Which numbers, by which run.
#[derive(Debug, Args)]
pub(super) struct JudgeOptions {
    /// Tables with numbers (CSV), outputs of `sysdyno published --json`, node.json files, or directories of them
    #[arg(value_name = "FILE", required_unless_present = "blank")]
    pub files: Vec<PathBuf>,
    /// The run to judge by (default: the newest run)
    #[arg(long, value_name = "RUN")]
    pub run: Option<PathBuf>,
    /// The numbers are of another machine than the run: only large differences count
    #[arg(long)]
    pub other_machine: bool,
    /// Print a table to fill in
    #[arg(long, conflicts_with_all = ["run", "other_machine", "all"])]
    pub blank: bool,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = ComparisonForm::Text, value_name = "FORM")]
    pub format: ComparisonForm,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Show every number
    #[arg(long)]
    pub all: bool,
    /// When to use colour
    #[arg(long, value_enum, default_value_t = ColourChoice::Auto, value_name = "WHEN")]
    pub color: ColourChoice,
}
