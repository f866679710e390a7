//! What can be typed after `sysdyno fleet`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::paint::ColourChoice;

/// Nodes to judge, against what, and the form of the answer.
#[derive(Debug, Args)]
#[command(after_help = "DIR holds nodes/NODE/TIME/node.json, or one gathered file for each run, such as n17.json,\n\
and mesh/mesh-TIME.json from `sysdyno mesh`.\n\
Run `sysdyno run` on each node at least twice: one run makes suspects, and a second run confirms them.\n\n\
Exit codes: 0 nothing is odd, 1 a node or a link is odd or an axis is worse, 2 wrong command, 3 undecided or missing.")]
pub(super) struct FleetOptions {
    /// Directories with node files
    #[arg(value_name = "DIR", required = true)]
    pub directories: Vec<PathBuf>,
    /// Names of the nodes that should be there, one a line or as n[1-4,7], from a file or standard input
    #[arg(long, value_name = "FILE|-")]
    pub expect: Option<PathBuf>,
    /// Print only the expected nodes without a complete run
    #[arg(long, conflicts_with = "again")]
    pub missing: bool,
    /// Print only the nodes to measure again: open ones and as many healthy ones
    #[arg(long)]
    pub again: bool,
    /// Judge tables with numbers of a class by this run, as `sysdyno judge` does
    #[arg(long, value_name = "RUN", conflicts_with_all = ["expect", "missing", "again", "before", "accepted"])]
    pub run: Option<PathBuf>,
    /// Show what changed since this earlier state of the fleet
    #[arg(long, value_name = "DIR")]
    pub before: Option<PathBuf>,
    /// Also write limits from healthy nodes to this file, for checks of a node
    #[arg(long, value_name = "FILE")]
    pub accepted: Option<PathBuf>,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = FleetForm::Text, value_name = "FORM", conflicts_with_all = ["missing", "again"])]
    pub format: FleetForm,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Show every finding, not only one screen
    #[arg(long)]
    pub all: bool,
    /// When to use colour
    #[arg(long, value_enum, default_value_t = ColourChoice::Auto, value_name = "WHEN")]
    pub color: ColourChoice,
}

/// Forms of the answer about a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FleetForm {
    /// One screen
    Text,
    /// A page that a browser shows
    Html,
    /// For a ticket
    Markdown,
    /// One line for each axis of each node
    Csv,
    /// For programs
    Json,
}
