//! The command line: one file per verb. A verb checks what was typed, calls the rest, and says how it ended.
//!
//! Data goes to standard output, talk to standard error. Exit codes: 0 done, 1 some experiment failed, 2 the command was
//! wrong, 3 a figure is in a state that was to fail the run, 130 interrupted.

mod answer;
mod answer_options;
mod arguments;
mod check;
mod check_options;
mod compare;
mod compare_options;
mod completions;
mod doctor;
mod explain;
mod fleet;
mod fleet_options;
mod footing;
mod hand_ins;
mod history;
mod history_options;
mod json_target;
mod judge;
mod judge_options;
mod launch;
mod list;
mod machine;
mod machines;
mod mesh;
mod mesh_options;
mod neighbours;
mod pager;
mod paint;
mod peer;
mod peer_options;
mod predict;
mod predict_options;
mod published;
mod published_options;
mod quiet_wait;
mod quietest;
mod remote_options;
mod report;
mod run;
mod runs;
mod script;
mod values;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

use crate::report::{screen, terminal};
use crate::results::problem::Problem;
use crate::sys::{create, foreign, talk};

use arguments::Verb;

/// Everything went as asked; skips with a reason included.
const DONE: u8 = 0;
/// Some experiment failed, or a result could not be kept.
const FAILED: u8 = 1;
/// A result of a comparison or of a history is worse.
const WORSE: u8 = 1;
/// The command was wrong.
const WRONG_COMMAND: u8 = 2;
/// A headline figure is in a state that the caller wanted to fail on, or the data do not decide.
const FOUND: u8 = 3;
/// A signal ended the run; what was measured is kept.
const INTERRUPTED: u8 = 130;

/// Problem with the exit code it deserves.
struct Failure {
    code: u8,
    problem: Problem,
}

impl From<Problem> for Failure {
    /// What verbs refuse by themselves is a wrong command; what went wrong later says so explicitly.
    fn from(problem: Problem) -> Self {
        Failure { code: WRONG_COMMAND, problem }
    }
}

impl Failure {
    fn while_working(problem: Problem) -> Self {
        Failure { code: FAILED, problem }
    }
}

/// Parses, acts, and returns the exit code. The commit is that of the sources, if the build knew it.
pub fn main(words: impl Iterator<Item = OsString>, commit: Option<&str>) -> ExitCode {
    if let Err(problem) = footing::has_stack() {
        complain(&problem);
        return ExitCode::from(WRONG_COMMAND);
    }
    let typed: Vec<OsString> = words.collect();
    // Not for people, so no help and no suggestion names it.
    if let [_, verb] = typed.as_slice()
        && verb == "launch"
    {
        return code(launch::launch());
    }
    if typed.len() < 2 {
        talk::line(arguments::first().trim_end());
        return ExitCode::from(WRONG_COMMAND);
    }
    let arguments = match arguments::parse(&typed, commit) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are data and no error.
            match refusal(&error, &typed) {
                Some(problem) => complain(&problem),
                None => drop(error.print()),
            }
            return ExitCode::from(if error.use_stderr() { WRONG_COMMAND } else { DONE });
        }
    };
    let command: Vec<String> = typed.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let outcome = match arguments.verb {
        Verb::Run(options) => run::run(&options.settled(), &command),
        Verb::List(options) => list::list(&options),
        Verb::Explain(options) => explain::explain(&options),
        Verb::Machine(options) => machine::machine(&options),
        Verb::Doctor(options) => doctor::doctor(&options),
        Verb::Neighbours(options) => neighbours::neighbours(&options),
        Verb::Predict(options) => predict::predict(&options),
        Verb::Report(options) => report::report(&options),
        Verb::Check(options) => check::check(&options),
        Verb::Compare(options) => compare::compare(&options),
        Verb::Fleet(options) => fleet::fleet(&options),
        Verb::Mesh(options) => mesh::mesh(&options),
        Verb::History(options) => history::history(&options),
        Verb::Machines(options) => machines::machines(&options),
        Verb::Judge(options) => judge::judge(&options),
        Verb::Published(options) => published::published(&options),
        Verb::Script(options) => script::script(&options),
        Verb::Completions(options) => completions::completions(&options),
        Verb::Man(options) => completions::manual(&options),
        Verb::Peer(options) => peer::peer(&options),
    };
    code(outcome)
}

/// The exit code of a verb. A failure is printed.
fn code(outcome: Result<u8, Failure>) -> ExitCode {
    ExitCode::from(outcome.unwrap_or_else(|failure| {
        complain(&failure.problem);
        failure.code
    }))
}

/// Why the words were refused, in the form of all errors. None where help or the version was asked for.
fn refusal(error: &clap::Error, typed: &[OsString]) -> Option<Problem> {
    let text = error.to_string();
    let parts: Vec<Vec<&str>> = text.split("\n\n").map(|part| part.trim().lines().map(str::trim).collect()).collect();
    let what = parts.first()?.join(" ").strip_prefix("error: ")?.to_owned();
    let find = |mark: &str| {
        let found = parts.iter().find(|part| part.first().is_some_and(|line| line.starts_with(mark)))?;
        Some(found.iter().map(|line| line.trim_start_matches(mark)).collect::<Vec<_>>())
    };
    let tip = find("tip: ").map(|tips| tips.join(", or ") + ". ");
    let usage = find("Usage: ").map(|usages| format!("type `{}`. ", usages.join("` or `")));
    let verb = typed[1].to_str().filter(|verb| arguments::command().find_subcommand(verb).is_some());
    let help = verb.map_or_else(|| "sysdyno --help".to_owned(), |verb| format!("sysdyno {verb} --help"));
    Some(Problem::new(what).hint(format!("{}`{help}` has more", tip.or(usage).unwrap_or_default())))
}

fn complain(problem: &Problem) {
    say(format_args!("error: {problem}"));
}

/// Says an error, a warning or a hint on standard error, in the width of its terminal.
fn say(words: impl Display) {
    talk::text(terminal::folded(&words.to_string(), width_of(&std::io::stderr()).map_or(usize::MAX, usize::from)));
}

/// Writes data to standard output. A reader that has gone away (`| head`) does not count as an error. Words of others are in nearly everything:
/// of a log, of a peer, of a server, of a mount. What in them would give orders to a terminal is taken out here.
fn print(text: &str) -> Result<(), Failure> {
    let shown = foreign::shown(text);
    if pager::show(&shown) { Ok(()) } else { print_painted(&shown).map(drop) }
}

/// The same for a verb that goes on printing: whether there still is a reader.
fn print_on(text: &str) -> Result<bool, Failure> {
    print_painted(&foreign::shown(text))
}

/// The same for text whose words of others are harmless already, and which may have colours.
fn print_painted(text: &str) -> Result<bool, Failure> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::while_working(Problem::new(format!("cannot write to standard output: {error}")))),
        Ok(()) => Ok(true),
    }
}

/// Writes a file that a user named with this option. What was there stays if the text does not fit.
fn write_file(file: &Path, text: &str, option: &str) -> Result<(), Problem> {
    create::named(file, text).map_err(|error| {
        Problem::new(format!("cannot write {}: {error}", file.display()))
            .hint(create::hint(&error, &format!("choose another file with {option}")))
    })
}

/// Width of the terminal that standard output is, if it is one.
fn terminal_width() -> Option<u16> {
    width_of(&std::io::stdout())
}

/// Width of the terminal that a stream is, if it is one.
fn width_of(stream: &impl AsFd) -> Option<u16> {
    // Scripts and pagers say how wide they are in COLUMNS.
    let said = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal_size::terminal_size_of(stream).map(|(width, _)| width.0).or_else(said)
}

/// A line that fits the terminal, cut at its end where it is longer.
fn cut(line: &str) -> String {
    screen::cut(line, usize::from(terminal_width().unwrap_or(screen::WIDTH)))
}

/// A value as indented JSON with a final newline.
fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value)
        .map(|text| foreign::escaped(&text).into_owned() + "\n")
        .map_err(|error| Failure::while_working(Problem::new(format!("cannot encode: {error}"))))
}
