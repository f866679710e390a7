//! What can be typed. Help, man page and completions are generated from these definitions.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use super::check_options::CheckOptions;
use super::compare_options::CompareOptions;
use super::fleet_options::FleetOptions;
use super::history_options::HistoryOptions;
use super::judge_options::JudgeOptions;
use super::machines::MachinesOptions;
use super::mesh_options::MeshOptions;
use super::paint::ColourChoice;
use super::predict_options::PredictOptions;
use super::published_options::PublishedOptions;
use super::script::ScriptOptions;
use super::values::{new_directory, parse_bytes, parse_cpus, parse_duration, parse_interval, parse_label};
use crate::conduct::directory::Kept;
use crate::experiments::names;
use crate::machine::CpuList;
use crate::peer::limits::Pretence;
use crate::report::page::Analysis;
use crate::setup::{FillWith, Profile};
use crate::sys::clock::Source;

const ABOUT: &str = "Measures the primitive costs of a Linux machine and its operating system";

const LONG_ABOUT: &str = "\
Measures the primitive costs of a Linux machine and its operating system. Each result is predicted before it is \
measured, with reasons, and graded by how reliable it is.

The command is not interactive and needs no privileges. It leaves only the run directory and, in the user's state \
directory, a small copy of each complete run (--no-history: none).";

const EXAMPLES: &str = concat!(
    "Examples:\n",
    "  sysdyno run                     measure everything that this machine allows\n",
    "  sysdyno run cpu --quick         a first look at one chapter, in seconds\n",
    "  sysdyno run cpu --json -        the result as JSON on standard output\n",
    "  sysdyno doctor                  what disturbs results here, and the command that changes it\n",
    "  sysdyno explain cpu.timer       the method of an experiment and what could fool us\n",
    "  sysdyno report                  the full report of the newest run, from its log\n",
    "  sysdyno compare                 what changed between the two newest runs\n",
    "  sysdyno run network --peer ssh://HOST   also the path to another machine\n",
    "  sysdyno history                 what changed in the runs of this machine over time\n",
    "  sysdyno neighbours --for 1m     neighbours on the cores, second by second\n",
    "\n",
    "Exit codes: 0 done, 1 an experiment failed, 2 wrong command, 3 a state of --fail-on was found,\n",
    "130 interrupted (the log keeps what was measured).",
);

/// What is printed where nothing was typed: a line for each of these, a command and what it is for.
const FIRST: [(&str, &str); 10] = [
    ("run --quick", "a first look, in 20 seconds"),
    ("run", "everything that this machine allows, in 2 minutes"),
    ("run syscall", "one experiment, until its results are good"),
    ("report", "the full report of the newest run"),
    ("compare", "what changed between the two newest runs"),
    ("compare --live A B", "what a setting costs, measured in turns"),
    ("doctor", "what disturbs results here, and what to do"),
    ("list", "every experiment"),
    ("explain syscall", "how it is measured, and what could fool it"),
    ("--help", "all commands and the exit codes"),
];

/// The text for those who typed nothing.
pub(super) fn first() -> String {
    let line = |(words, about): &(&str, &str)| format!("  sysdyno {words:<20} {about}\n");
    let lines: String = FIRST.iter().map(line).collect();
    format!("{ABOUT}.\n\nUsage: sysdyno <COMMAND> [OPTIONS]\n\n{lines}")
}

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "sysdyno", version, about = ABOUT, long_about = LONG_ABOUT, after_long_help = EXAMPLES, after_help = EXAMPLES)]
#[command(max_term_width = 100)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub verb: Verb,
}

/// The definitions, for the man page and the completions.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// What was typed. `--version` also prints what the program was built for and from, `-V` only the version.
pub(super) fn parse(typed: &[OsString], commit: Option<&str>) -> Result<Arguments, clap::Error> {
    // Definitions of clap own no text.
    static BUILT: OnceLock<String> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let version = env!("CARGO_PKG_VERSION");
        let commit = commit.map_or_else(String::new, |commit| format!("\ncommit: {commit}"));
        format!("{version}\ntarget: {}{commit}\ncompiler: {}", env!("SYSDYNO_TARGET"), env!("SYSDYNO_RUSTC"))
    });
    let mut command = command().long_version(built.as_str());
    let matches = command.try_get_matches_from_mut(typed)?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Measure, print the answer on one screen, and write a run directory
    #[command(alias = "bench")]
    Run(Box<RunOptions>),
    /// Show every experiment and whether it can run here (--all: what it measures and needs)
    List(ListOptions),
    /// Print how an experiment measures and predicts and what could fool it, or all gates or constants
    Explain(ExplainOptions),
    /// Describe this machine (--all: each fact with its source file)
    #[command(alias = "info")]
    Machine(MachineOptions),
    /// Show what disturbs measurements here, by how much, and the command that changes it
    Doctor(DoctorOptions),
    /// Watch the cores: the share of time in which a neighbour uses their other hardware thread
    Neighbours(NeighbourOptions),
    /// Print predictions without a full run
    Predict(PredictOptions),
    /// Render the report of a run from its log
    #[command(alias = "show")]
    Report(ReportOptions),
    /// Check this node in seconds: facts and key results against limits, in one line
    Check(CheckOptions),
    /// Compare two runs, or runs with runs: what changed, by how much, how sure
    #[command(alias = "diff")]
    Compare(CompareOptions),
    /// Find the odd nodes of many, from the node files of their runs
    Fleet(FleetOptions),
    /// Measure the network between the nodes of a job, and find bad senders, receivers and uplinks
    Mesh(MeshOptions),
    /// Show what changed in the runs of this machine over time, and at which run
    History(HistoryOptions),
    /// Show what costs are on other machines, and make the entry of one
    Machines(MachinesOptions),
    /// Judge numbers that you measured yourself: which agree with a run, and which mistake explains the others
    Judge(JudgeOptions),
    /// Show the results published in five reports, next to those of a run
    Published(PublishedOptions),
    /// Serve the network and remote-file experiments of another machine
    Peer(PeerOptions),
    /// Print a ready script for an engine: Slurm, ssh, Kubernetes, or a health check
    Script(ScriptOptions),
    /// Print completions for a shell
    Completions(CompletionOptions),
    /// Print the manual page of the program, or of one command
    Man(ManualOptions),
}

#[derive(Debug, Clone, Args)]
pub(super) struct RunOptions {
    /// Experiments or chapters (default: everything that this machine allows)
    #[arg(value_name = "EXPERIMENT|CHAPTER")]
    pub selection: Vec<String>,
    /// A first look: few launches, wide intervals, at most 20 s. Without a selection, ten experiments
    #[arg(long, conflicts_with = "rigorous")]
    pub quick: bool,
    /// For publication and comparison: many launches, at most 15 min for everything
    #[arg(long)]
    pub rigorous: bool,
    /// Stop adding rounds after this time: 90s, 5m, 1h
    #[arg(long, value_name = "LIMIT", value_parser = parse_duration, allow_negative_numbers = true)]
    pub time: Option<f64>,
    /// Measure on this CPU alone. Default: the last of the fastest allowed CPUs, or a quieter one. Equal CPUs replace
    /// it while a neighbour is on its core
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub cpu: Option<u32>,
    /// Seed of every random choice (default: from the clock, recorded in the log)
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Clock that times everything
    #[arg(long, value_enum, default_value_t = ClockChoice::Auto, value_name = "CLOCK")]
    pub clock: ClockChoice,
    /// Directory for the files of file experiments (default: the current directory)
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Limit on the bytes of all scratch files: 500M, 4G (default: a tenth of the free space, at most 2 GiB)
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, allow_negative_numbers = true)]
    pub scratch_limit: Option<u64>,
    /// Also fill the file cache of the whole machine to measure its size. Evicts what other programs have cached. Reads
    /// holes of a sparse file, or files written for this
    #[arg(long, value_enum, value_name = "WITH", num_args = 0..=1, require_equals = true, default_missing_value = "holes")]
    pub full_cache: Option<FullCacheChoice>,
    /// Run directory to write (default: sysdyno-runs/HOST-TIME)
    #[arg(short, long, value_name = "DIR", value_parser = new_directory("Did you mean `--json -`?"))]
    pub output: Option<PathBuf>,
    /// Directory of a fleet: write to FLEET/nodes/NODE/TIME, or go on with the unfinished run of this node there
    #[arg(long, value_name = "FLEET", conflicts_with_all = ["output", "resume"], value_parser = new_directory("Did you mean `--json -`?"))]
    pub into: Option<PathBuf>,
    /// Label of this node for comparisons in a fleet, such as rack=r12 (repeatable)
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    pub labels: Vec<(String, String)>,
    /// Files to keep of a complete run (default: report, or what a resumed run has)
    #[arg(long, value_enum, value_name = "FILES")]
    pub keep: Option<KeptChoice>,
    /// Write the result as JSON to a file, or to standard output with - (summary on standard error). The form
    /// --json node FILE writes node.json in one line
    #[arg(long, value_name = "FILE|-", num_args = 1..=2)]
    pub json: Vec<PathBuf>,
    /// True where the JSON is node.json instead of result.json.
    #[arg(skip)]
    pub json_node: bool,
    /// Resume an interrupted run
    #[arg(long, value_name = "RUN", conflicts_with_all = ["selection", "output", "seed", "cpu", "quick", "rigorous", "clock", "dry_run"])]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    pub peer: PeerChoice,
    #[command(flatten)]
    pub remote: RemoteChoice,
    /// Your own predictions, which the report scores next to those of sysdyno: a filled form of `sysdyno predict --blank`
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    pub predictions: Option<PathBuf>,
    /// Wait until other tasks and neighbours leave the measured core, at most for LIMIT: 90s, 5m, 1h. Then measure in any case
    #[arg(long, value_name = "LIMIT", value_parser = parse_duration, num_args = 0..=1, require_equals = true, default_missing_value = "10m")]
    pub wait_for_quiet: Option<f64>,
    /// Print the plan and its duration, without measuring or writing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Neither read earlier runs of this machine from the user's state directory nor add this run
    #[arg(long)]
    pub no_history: bool,
    /// Show no progress
    #[arg(long)]
    pub no_progress: bool,
    /// End with exit code 3 if a headline result is contaminated, unresolved, or outside its predicted range
    #[arg(long, value_enum, value_name = "STATE", value_delimiter = ',')]
    pub fail_on: Vec<FailOn>,
    #[command(flatten)]
    pub screen: ScreenOptions,
}

/// Files of a run directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum KeptChoice {
    /// The compressed log, node.json (the compact form), report.html and metrics.csv
    Report,
    /// The log without compression, and every file that can be computed from it
    All,
    /// The log without compression, and node.json
    Log,
    /// node.json alone
    Node,
}

impl KeptChoice {
    pub fn kept(self) -> Kept {
        match self {
            KeptChoice::Report => Kept::Report,
            KeptChoice::All => Kept::All,
            KeptChoice::Log => Kept::Log,
            KeptChoice::Node => Kept::Node,
        }
    }
}

/// What a run prints at its end.
#[derive(Debug, Clone, Args)]
pub(super) struct ScreenOptions {
    /// Print a table of all headline results instead of one screen
    #[arg(long)]
    pub all: bool,
    /// Show numbers, tables and figures without the sentences that explain them, on the screen and in reports
    #[arg(long)]
    pub hide_analysis: bool,
    /// Use colour
    #[arg(long, value_enum, default_value_t = ColourChoice::Auto, value_name = "WHEN")]
    pub color: ColourChoice,
}

impl ScreenOptions {
    pub fn analysis(&self) -> Analysis {
        if self.hide_analysis { Analysis::Hidden } else { Analysis::Shown }
    }
}

/// States of a headline result that can fail a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FailOn {
    /// Something disturbed it
    Contaminated,
    /// Its interval is too wide
    Unresolved,
    /// It is outside its predicted range
    Outside,
}

/// How the other machine is reached.
#[derive(Debug, Clone, Args)]
pub(super) struct PeerChoice {
    /// Also measure the path to a `sysdyno peer`, or copy one to HOST through ssh
    #[arg(long, value_name = "HOST:PORT|ssh://HOST")]
    pub peer: Option<String>,
    /// The secret that the peer printed (or environment variable SYSDYNO_PEER_SECRET)
    #[arg(long, value_name = "SECRET", conflicts_with = "peer_secret_file")]
    pub peer_secret: Option<String>,
    /// File with the secret
    #[arg(long, value_name = "FILE")]
    pub peer_secret_file: Option<PathBuf>,
    /// Paths of the network experiments
    #[arg(long, value_enum, default_value_t = PathChoice::All, value_name = "PATH", requires = "peer", conflicts_with = "resume")]
    pub path: PathChoice,
}

/// Paths of the network experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum PathChoice {
    /// The loopback, and the path to the peer if there is one
    All,
    /// The path to the peer alone
    Remote,
}

/// Files on another machine.
#[derive(Debug, Clone, Args)]
pub(super) struct RemoteChoice {
    /// Write, read and remove a file of another machine in this mounted directory (NFS, SMB, sshfs, 9p and others)
    #[arg(long, value_name = "DIR")]
    pub remote_dir: Option<PathBuf>,
    /// Read a file of an NFS server (version 3), or the largest file of a directory. Needs no mount, writes nothing
    #[arg(long, value_name = "nfs://HOST[:PORT]/PATH")]
    pub nfs: Option<String>,
}

impl RemoteChoice {
    /// How many were named.
    pub fn ways(&self) -> u32 {
        u32::from(self.remote_dir.is_some()) + u32::from(self.nfs.is_some())
    }
}

#[derive(Debug, Args)]
pub(super) struct PeerOptions {
    /// Listen here (port 0: any free port)
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Read the secret from a file, or from the first line of standard input with - (default: environment variable
    /// SYSDYNO_PEER_SECRET, else a new secret, which is printed)
    #[arg(long, value_name = "FILE|-")]
    pub secret_file: Option<PathBuf>,
    /// Clients at once (further clients are refused as busy)
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub sessions: u16,
    /// Longest session: 90s, 5m, 1h
    #[arg(long, value_name = "LIMIT", default_value = "15m", value_parser = parse_duration)]
    pub session_time: f64,
    /// End the session of a client after this silence
    #[arg(long, value_name = "LIMIT", default_value = "60s", value_parser = parse_duration)]
    pub idle: f64,
    /// Limit on the payload of a session, in each direction: 500M, 10G
    #[arg(long, value_name = "BYTES", default_value = "1024G", value_parser = parse_bytes)]
    pub bytes: u64,
    /// Limit on the bytes per second of a flow (default: none)
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, allow_negative_numbers = true)]
    pub rate: Option<u64>,
    /// Directory for the file that clients read over NFS (default: the current directory, else /var/tmp)
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Inject a fault, to test that the other side detects it: hold=MICROSECONDS, never_accept, closed_port,
    /// receive_buffer=BYTES, clock=PERCENT
    #[arg(long, value_name = "FAULT")]
    pub pretend: Option<Pretence>,
    /// End when standard input ends
    #[arg(long)]
    pub until_input_ends: bool,
    /// Remove the copy that this process runs from
    #[arg(long, hide = true)]
    pub remove_program: bool,
}

impl RunOptions {
    /// The options with the words of `--json` in their places: it takes one word or two, and the second can be an experiment.
    pub fn settled(mut self) -> Self {
        if let [first, second] = self.json.as_slice() {
            let word = second.to_string_lossy().into_owned();
            let selects = names::is_exact(&word);
            if first.as_os_str() == "node" && !selects {
                self.json_node = true;
                self.json = vec![second.clone()];
            } else {
                self.json.truncate(1);
                self.selection.insert(0, word);
            }
        }
        self
    }

    pub fn full_cache(&self) -> Option<FillWith> {
        self.full_cache.map(|choice| match choice {
            FullCacheChoice::Holes => FillWith::Holes,
            FullCacheChoice::Files => FillWith::Files,
        })
    }

    pub fn profile(&self) -> Profile {
        match (self.quick, self.rigorous) {
            (true, _) => Profile::Quick,
            (_, true) => Profile::Rigorous,
            _ => Profile::Default,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FullCacheChoice {
    /// Pages of zeros: fast, no space on the device, capacity only
    Holes,
    /// Real bytes: needs as much space as the memory holds (see --scratch-limit)
    Files,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ClockChoice {
    /// The architecture's counter where it can be used, else CLOCK_MONOTONIC_RAW
    Auto,
    /// The architecture's counter: the TSC on x86_64, CNTVCT on aarch64
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
    /// Also print what each experiment measures and needs
    #[arg(long, conflicts_with = "json")]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ExplainOptions {
    /// Experiment, such as cpu.timer, or a whole chapter
    #[arg(value_name = "EXPERIMENT|CHAPTER", required_unless_present_any = ["gates", "constants", "mistakes"])]
    pub experiment: Option<String>,
    /// Print the rules that results must pass, with their bounds
    #[arg(long, conflicts_with = "experiment")]
    pub gates: bool,
    /// Print the numbers that predictions take from the literature, with their sources
    #[arg(long, conflicts_with = "experiment")]
    pub constants: bool,
    /// Print the typical mistakes of programs that measure, which `judge` looks for
    #[arg(long, conflicts_with = "experiment")]
    pub mistakes: bool,
}

#[derive(Debug, Args)]
pub(super) struct MachineOptions {
    /// Print every fact with its source
    #[arg(long, conflicts_with = "json")]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Describe the machine whose /proc, /sys and /etc are copied in this directory
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
    /// Measure the noise of this CPU (default: the CPU that `run` would choose)
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub cpu: Option<u32>,
    /// Check the storage behind this directory
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct NeighbourOptions {
    /// Interval between two lines of a CPU, 500ms to 10m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval, allow_negative_numbers = true)]
    pub interval: f64,
    /// CPUs to watch, such as 0-3,8 (default: all that are allowed)
    #[arg(long, value_name = "LIST", value_parser = parse_cpus, allow_negative_numbers = true)]
    pub cpu: Option<CpuList>,
    /// End after this time: 90s, 5m, 1h (default: at Ctrl-C or SIGTERM)
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, allow_negative_numbers = true)]
    pub time: Option<f64>,
    /// Also write the last interval to this file as OpenMetrics (for the textfile collector of Prometheus)
    #[arg(long, value_name = "FILE")]
    pub textfile: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ReportOptions {
    /// Run directory, its log, or its node.json, which has the results and no reasons (default: the newest run in sysdyno-runs)
    #[arg(value_name = "RUN")]
    pub run: Option<PathBuf>,
    /// Form of the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Print the appendix instead of the report: every result, term, check and remark. In formats for other programs: every result
    #[arg(long)]
    pub full: bool,
    /// Print the page of published results, next to this run's results, instead of the report
    #[arg(long, conflicts_with = "full")]
    pub published: bool,
    /// Show the costs of another run next to those of RUN, in the report and in the summary. REFERENCE is a run directory, its log or
    /// its node.json, also of another machine
    #[arg(long, value_name = "REFERENCE", conflicts_with_all = ["full", "published", "all"])]
    pub reference: Option<PathBuf>,
    /// Write to a file instead of standard output (Markdown: figures in the folder figures/ next to it)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub screen: ScreenOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// The report as plain text
    #[value(alias = "terminal")]
    Text,
    /// One screen: verdict, costs, insights (--all: a table of all headline results)
    Summary,
    /// One self-contained file
    Html,
    /// For a Git hosting page
    #[value(alias = "md")]
    Markdown,
    /// result.json
    Json,
    /// node.json: every result and the facts that comparisons need, in one small file
    #[value(alias = "node")]
    Compact,
    /// One line for each result
    Csv,
    /// Google Benchmark JSON: every time, and the time of 1 MiB for each rate
    GoogleBenchmark,
    /// Go benchmark text for benchstat: every result
    Go,
    /// Bencher Metric Format: headline results (--full: every result)
    Bencher,
    /// github-action-benchmark, customSmallerIsBetter: headline times and rates (--full: all)
    GithubActionBenchmark,
    /// A CSV row for Apache Otava: headline results (--full: every result)
    Otava,
    /// OpenMetrics text, also for the node_exporter textfile collector: every result
    #[value(name = "openmetrics")]
    OpenMetrics,
    /// JUnit XML: one test case for each headline result (--full: for every result)
    Junit,
}

#[derive(Debug, Args)]
pub(super) struct CompletionOptions {
    /// Shell
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(super) struct ManualOptions {
    /// Command that the page describes; without it, the page describes all
    pub command: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        command().debug_assert();
    }
}
