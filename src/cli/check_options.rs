//! What can be typed after `sysdyno check`.

use std::path::PathBuf;

use clap::Args;

use super::values::parse_duration;

/// Limits, time, and the form of the answer.
#[derive(Debug, Args)]
#[command(
    after_help = "The answer is one line of at most 80 characters. Without --accepted, results are judged by their predictions.\n\n\
Exit codes: 0 as accepted, 1 a fact or a result is not accepted, 2 wrong command, 3 undecided (--lenient: 0).\n\
With --nagios: 0 OK, 2 CRITICAL, 3 UNKNOWN."
)]
pub(super) struct CheckOptions {
    /// Limits and facts that `sysdyno fleet --accepted FILE` wrote
    #[arg(long, value_name = "FILE")]
    pub accepted: Option<PathBuf>,
    /// Check the facts alone, in less than a second
    #[arg(long, requires = "accepted")]
    pub facts: bool,
    /// Time for all measurements
    #[arg(long, value_name = "LIMIT", value_parser = parse_duration, default_value = "18s", allow_negative_numbers = true)]
    pub time: f64,
    /// Wait for a random part of this time first, so that not all nodes measure at once
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_negative_numbers = true)]
    pub splay: Option<f64>,
    /// End with exit code 0 where undecided
    #[arg(long)]
    pub lenient: bool,
    /// Answer as a plug-in of Nagios, with performance data
    #[arg(long)]
    pub nagios: bool,
    /// Also write the state for the textfile collector of Prometheus
    #[arg(long, value_name = "FILE")]
    pub textfile: Option<PathBuf>,
    /// Directory for the files of file experiments (default: the directory for temporary files)
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Show every fact and result that is not accepted, below the line
    #[arg(long)]
    pub all: bool,
}
