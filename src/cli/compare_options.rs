//! What can be typed after `sysdyno compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::paint::ColourChoice;
use super::values::parse_duration;

/// Runs to compare, how, and what to make of it.
#[derive(Debug, Args)]
#[command(
    after_help = concat!(
        "A side is a run directory, a log, a node.json, a directory of runs, or a quoted pattern such as 'runs/a-*'.\n\n",
        "With --live, BASE and NEW are shell commands for two conditions. One that prepares is run before each run. ",
        "One that wraps runs names the run by {}, or the arguments of another sysdyno by {args}. ",
        "The machine is left in the condition of BASE, also after a signal.\n\n",
        "Examples:\n",
        "  sysdyno compare sysdyno-runs/before sysdyno-runs/after\n",
        "  sysdyno compare --live 'echo never >/sys/kernel/mm/transparent_hugepage/enabled' \\\n",
        "                         'echo madvise >/sys/kernel/mm/transparent_hugepage/enabled' memory.latency\n",
        "  sysdyno compare --live '{}' 'nice -n 10 {}' os.context_switch\n",
        "  sysdyno compare --live '{}' '/opt/old/sysdyno {args}' os.system_call\n\n",
        "Exit codes: 0 nothing is worse, 1 a result is worse, 2 wrong command, 3 undecided (--lenient: 0).",
    )
)]
pub(super) struct CompareOptions {
    /// Run or runs to compare with, or with --live the command for the first condition
    #[arg(value_name = "BASE")]
    pub base: PathBuf,
    /// Run or runs that may have changed, or with --live the command for the second condition
    #[arg(value_name = "NEW")]
    pub new: PathBuf,
    /// With --live: experiments or chapters (default: everything)
    #[arg(value_name = "EXPERIMENT|CHAPTER", requires = "live")]
    pub selection: Vec<String>,
    /// Measure two conditions in turn, round by round, and compare them within rounds
    #[arg(long, conflicts_with = "across")]
    pub live: bool,
    /// With --live: add no round after this time. At least four rounds are measured (default: 50s)
    #[arg(long, value_name = "LIMIT", value_parser = parse_duration, requires = "live", allow_negative_numbers = true)]
    pub time: Option<f64>,
    /// With --live: measure on this CPU (default: as in `run`)
    #[arg(long, value_name = "N", requires = "live", allow_negative_numbers = true)]
    pub cpu: Option<u32>,
    /// With --live: directory for the runs (default: sysdyno-runs/live-HOST-TIME)
    #[arg(long, value_name = "DIR", requires = "live")]
    pub runs: Option<PathBuf>,
    /// With --live: more options of `run`, such as --scratch DIR
    #[arg(last = true, value_name = "RUN OPTION", requires = "live", allow_hyphen_values = true)]
    pub run_options: Vec<String>,
    /// Compare runs of different machines, peers or methods
    #[arg(long)]
    pub across: bool,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = ComparisonForm::Text, value_name = "FORM")]
    pub format: ComparisonForm,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Show every result, not only headline results that changed
    #[arg(long)]
    pub all: bool,
    /// Judge only by changes for the worse of at least this size: worse:10% (slower:10% is the same)
    #[arg(long, value_name = "CHANGE", value_parser = parse_change)]
    pub fail_on: Option<f64>,
    /// End with exit code 0 where undecided
    #[arg(long)]
    pub lenient: bool,
    /// When to use colour
    #[arg(long, value_enum, default_value_t = ColourChoice::Auto, value_name = "WHEN")]
    pub color: ColourChoice,
}

/// Forms of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ComparisonForm {
    /// One screen
    Text,
    /// A page that a browser shows
    Html,
    /// For a pull request
    Markdown,
    /// For programs
    Json,
}

/// A relative change: 0.1 from `worse:10%`.
pub(super) fn parse_change(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is not a change. Examples: worse:10%, slower:2.5%");
    let (word, size) = text.split_once(':').ok_or_else(wrong)?;
    let size: f64 = size.trim().strip_suffix('%').ok_or_else(wrong)?.trim().parse().map_err(|_| wrong())?;
    let known = ["worse", "slower"].contains(&word);
    if known && size >= 0.0 && size.is_finite() { Ok(size / 100.0) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read() {
        assert_eq!(parse_change("worse:10%"), Ok(0.1));
        assert_eq!(parse_change("slower:2.5 %"), Ok(0.025));
        for wrong in ["10%", "worse:10", "worse:-1%", "better:3%", "worse:NaN%", "worse:inf%"] {
            assert!(parse_change(wrong).is_err(), "{wrong}");
        }
    }
}
