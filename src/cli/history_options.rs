//! What can be typed after `sysdyno history`.

use std::path::PathBuf;

use clap::Args;

use super::answer_options::AnswerOptions;

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
    #[command(flatten)]
    pub answer: AnswerOptions,
}
