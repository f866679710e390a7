//! What can be typed after `sysdyno compare`.

use std::path::PathBuf;

use clap::Args;

use super::answer_options::AnswerOptions;
use super::values::{new_directory, parse_duration};

/// Runs to compare, how, and what to make of it.
#[derive(Debug, Args)]
#[command(
    after_help = concat!(
        "A side is a run directory, a log, a node.json, a directory of runs, or a quoted pattern such as 'runs/a-*'.\n\n",
        "With --live, BASE and NEW are shell commands for two conditions. One that prepares is run before each run. ",
        "One that wraps runs names the run by {}, or the arguments of another sysdyno by {args}. ",
        "The machine is left in the condition of BASE, also after a signal. ",
        "Without experiments, sysdyno measures those that fit into --time and names the others. The word all selects everything.\n\n",
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
    /// Run or runs to compare with (default: the newest run in sysdyno-runs but one), or with --live the command for the first
    /// condition
    #[arg(value_name = "BASE", required_if_eq("live", "true"))]
    pub base: Option<PathBuf>,
    /// Run or runs that may have changed (default: the newest run), or with --live the command for the second condition
    #[arg(value_name = "NEW", required_if_eq("live", "true"))]
    pub new: Option<PathBuf>,
    /// With --live: experiments or chapters, or all (default: the experiments that fit into --time). With --across: the runs of a third
    /// machine
    #[arg(value_name = "EXPERIMENT|CHAPTER")]
    pub selection: Vec<String>,
    /// Measure two conditions alternately, round by round, and compare them within rounds
    #[arg(long, conflicts_with = "across")]
    pub live: bool,
    /// With --live: add no round after this time. At least four rounds are measured (default: 50s)
    #[arg(long, value_name = "LIMIT", value_parser = parse_duration, requires = "live", allow_negative_numbers = true)]
    pub time: Option<f64>,
    /// With --live: measure on this CPU (default: as in `run`)
    #[arg(long, value_name = "N", requires = "live", allow_negative_numbers = true)]
    pub cpu: Option<u32>,
    /// With --live: directory for the runs (default: sysdyno-runs/live-HOST-TIME)
    #[arg(long, value_name = "DIR", requires = "live", value_parser = new_directory("Did you mean `--format json`?"))]
    pub runs: Option<PathBuf>,
    /// With --live: more options of `run`, such as --scratch DIR
    #[arg(last = true, value_name = "RUN OPTION", requires = "live", allow_hyphen_values = true)]
    pub run_options: Vec<String>,
    /// Compare runs of different machines, peers or methods
    #[arg(long)]
    pub across: bool,
    #[command(flatten)]
    pub answer: AnswerOptions,
}
