//! What can be typed after `sysdyno published`.

use std::path::PathBuf;

use clap::Args;

/// Which results of which reports.
#[derive(Debug, Args)]
pub(super) struct PublishedOptions {
    /// Only this report: 000 to 004
    #[arg(value_name = "REPORT")]
    pub report: Option<String>,
    /// Only operations with this word in their name, title or metric
    #[arg(long, value_name = "WORD")]
    pub operation: Option<String>,
    /// Show the results of this run next to them
    #[arg(long, value_name = "RUN")]
    pub run: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
