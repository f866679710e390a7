//! What can be typed. Help, man page and completions are generated from these definitions.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::plan::{self, Profile};
use crate::sys::clock::Source;

const ABOUT: &str = "Puts a Linux machine and its operating system on the dyno";

const LONG_ABOUT: &str = "\
Measures the primitive costs of a Linux machine and its operating system. Each figure is predicted before it is measured, \
with reasons, and gets a verdict on whether it can be trusted.

It changes nothing on the machine, asks no question, and needs no privileges.";

const EXAMPLES: &str = "\
Examples:
  sysdyno run                     measure everything that this machine allows
  sysdyno run cpu --quick         a first look at one chapter, in seconds
  sysdyno run cpu --json -        the result as JSON on standard output
  sysdyno doctor                  what would spoil the figures here, and the command that changes it
  sysdyno explain cpu.timer       how a figure comes about and what could fool us
  sysdyno report sysdyno-runs/X   everything about a run, from its log

Exit codes: 0 done, 1 some experiment failed, 2 the command was wrong, 130 interrupted (what was measured is kept).";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "sysdyno", version, about = ABOUT, long_about = LONG_ABOUT, after_long_help = EXAMPLES, after_help = EXAMPLES)]
#[command(arg_required_else_help = true, max_term_width = 100, disable_help_subcommand = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub verb: Verb,
}

/// The definitions, for the man page and the completions.
pub fn command() -> clap::Command {
    Arguments::command()
}

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Measure, print the summary table, and write a run directory
    Run(RunOptions),
    /// Show every experiment: what it measures, what it needs, whether it can run here
    List(ListOptions),
    /// Print how an experiment measures, predicts, and could be fooled
    Explain(ExplainOptions),
    /// Describe this machine, every fact with the file that states it
    Machine(MachineOptions),
    /// Say what would spoil measurements here, how much, and the command that changes it
    Doctor(DoctorOptions),
    /// Print the predictions alone; nothing is timed
    Predict(PredictOptions),
    /// Render a run again from its log
    Report(ReportOptions),
    /// Print the completions of a shell
    Completions(CompletionOptions),
    /// Print the manual page
    Man,
    /// Measure one experiment once; `run` starts these
    #[command(hide = true)]
    Launch,
}

#[derive(Debug, Args)]
pub(super) struct RunOptions {
    /// Experiments or chapters (default: everything that this machine allows)
    #[arg(value_name = "EXPERIMENT|CHAPTER")]
    pub selection: Vec<String>,
    /// A first look: few launches, wide intervals, at most 30 s for everything
    #[arg(long, conflicts_with = "rigorous")]
    pub quick: bool,
    /// For publication and comparison: many launches, at most 15 min for everything
    #[arg(long)]
    pub rigorous: bool,
    /// Stop adding rounds when this much time is up: 90s, 5m, 1h
    #[arg(long, value_name = "LIMIT", value_parser = parse_duration)]
    pub time: Option<f64>,
    /// Measure on this CPU (default: the last of the fastest that is allowed)
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// Seed of every random choice (default: from the clock; it is written down)
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Clock that times everything
    #[arg(long, value_enum, default_value_t = ClockChoice::Auto, value_name = "CLOCK")]
    pub clock: ClockChoice,
    /// Directory for scratch files of experiments that read and write files (default: the current directory)
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Run directory to write (default: sysdyno-runs/HOST-TIME)
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Write the result as JSON to a file, or to standard output with -; the summary then goes to standard error
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Go on with an interrupted run
    #[arg(long, value_name = "RUN", conflicts_with_all = ["selection", "output", "seed", "cpu", "quick", "rigorous", "clock", "dry_run"])]
    pub resume: Option<PathBuf>,
    /// Print the plan and its time; measure nothing, write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Show no progress
    #[arg(long)]
    pub no_progress: bool,
}

impl RunOptions {
    pub fn profile(&self) -> Profile {
        match (self.quick, self.rigorous) {
            (true, _) => plan::QUICK,
            (_, true) => plan::RIGOROUS,
            _ => plan::DEFAULT,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ClockChoice {
    /// The architecture's counter where it can be used, else CLOCK_MONOTONIC_RAW
    Auto,
    /// The architecture's counter: the time-stamp counter, or CNTVCT
    #[value(alias = "tsc", alias = "cntvct")]
    Counter,
    /// CLOCK_MONOTONIC_RAW
    #[value(name = "monotonic_raw", alias = "monotonic-raw")]
    MonotonicRaw,
}

impl ClockChoice {
    pub fn source(self) -> Option<Source> {
        match self {
            ClockChoice::Auto => None,
            ClockChoice::Counter => Some(Source::Counter),
            ClockChoice::MonotonicRaw => Some(Source::MonotonicRaw),
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct ListOptions {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ExplainOptions {
    /// Experiment, such as cpu.timer, or a whole chapter
    #[arg(value_name = "EXPERIMENT|CHAPTER")]
    pub experiment: String,
}

#[derive(Debug, Args)]
pub(super) struct MachineOptions {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Describe the machine whose /proc, /sys and /etc were copied to this directory
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Describe the storage behind this directory
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct DoctorOptions {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Probe the noise of this CPU (default: the one that run would choose)
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// Look at the storage behind this directory
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct PredictOptions {
    /// Experiments or chapters (default: everything)
    #[arg(value_name = "EXPERIMENT|CHAPTER")]
    pub selection: Vec<String>,
    /// Predict from the figures of this run as well
    #[arg(long, value_name = "RUN")]
    pub from: Option<PathBuf>,
    /// Predict for this CPU (default: the one that run would choose)
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ReportOptions {
    /// Run directory, or the log in it
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Form of the report
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    pub format: Format,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Every section, for a terminal
    Terminal,
    /// The summary table alone
    Summary,
    /// result.json
    Json,
}

#[derive(Debug, Args)]
pub(super) struct CompletionOptions {
    /// Shell
    pub shell: clap_complete::Shell,
}

/// Seconds in `90`, `90s`, `5m`, `1h`.
fn parse_duration(text: &str) -> Result<f64, String> {
    let (digits, unit) = match text.find(|letter: char| letter.is_ascii_alphabetic()) {
        Some(end) => text.split_at(end),
        None => (text, "s"),
    };
    let factor = match unit {
        "ms" => 1e-3,
        "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("'{unit}' is no unit of time; use s, m or h, as in 90s or 5m")),
    };
    match digits.trim().parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number * factor),
        _ => Err("a time limit is a positive number with s, m or h, as in 90s or 5m".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        command().debug_assert();
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(parse_duration("90"), Ok(90.0));
        assert_eq!(parse_duration("1.5m"), Ok(90.0));
        assert_eq!(parse_duration("2h"), Ok(7200.0));
        assert!(parse_duration("0s").is_err());
        assert!(parse_duration("5 parsecs").is_err());
        assert!(parse_duration("").is_err());
    }
}
