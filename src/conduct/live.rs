//! Two conditions measured in turn: each round has one run of both, so that what changes with time is in both.
//!
//! ```text
//! round 1   prepare A · run    prepare B · run
//! round 2   prepare B · run    prepare A · run
//! round 3   prepare A · run    prepare B · run     …     at the end, and after a signal: prepare A
//! ```
//!
//! A condition is a shell command. One that prepares is run before each of its runs. One that wraps names the run by `{}`, or the
//! arguments of another sysdyno by `{args}`. Each command has a separate process group, as launches have, and no standard input. A
//! signal is passed on to what prepares and to what measures. What restores the first condition gets none.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::directory::{self, COMPACT};
use super::interrupt::Interrupt;
use crate::results::problem::Problem;
use crate::results::wording::{count, duration};
use crate::statistics::compare::LEAST_ROUNDS;
use crate::sys::{create, process, talk};

/// Most rounds.
const MOST_ROUNDS: u32 = 30;
/// Where in a command the run stands, and where the arguments of a run.
const WHOLE: &str = "{}";
const ARGUMENTS: &str = "{args}";
/// Commands that do nothing.
const NOTHING: [&str; 3] = ["", ":", "true"];
/// How often a run is looked at. Nothing else happens here while it measures.
const LOOK: Duration = Duration::from_millis(50);
/// Time for what is left of a run to end by itself: a run removes its files.
const ENDING: Duration = Duration::from_secs(5);
/// Most bytes of the words of a failed run that are read.
const MOST_WORDS: usize = 1 << 16;
/// Lines of a failed run that are shown.
const SHOWN_LINES: usize = 6;
/// Names this binary. The shell that starts a run needs its path.
const PROGRAM: &str = "/proc/self/exe";
/// Names the variable by which a run knows that it is to end with the process that started it.
pub const FOLLOWED: &str = "SYSDYNO_FOLLOWED";

/// A condition, as it was typed.
#[derive(Debug, Clone)]
pub struct Condition(pub String);

/// What to measure in turn.
#[derive(Debug, Clone)]
pub struct LiveRequest {
    /// The two conditions. The machine is left in the first.
    pub conditions: [Condition; 2],
    /// Arguments of every run behind those that are always the same.
    pub arguments: Vec<String>,
    /// Seconds after which no round is added.
    pub seconds: f64,
    /// Directory for the runs.
    pub place: PathBuf,
}

/// What was measured.
#[derive(Debug)]
pub struct Alternated {
    /// Directories of the runs of each round: the first condition, the second.
    pub rounds: Vec<[PathBuf; 2]>,
    /// Seconds that they took.
    pub seconds: f64,
    /// Signal that ended it, if one did.
    pub interrupted: Option<&'static str>,
}

impl Condition {
    /// The machine as it is.
    pub fn none() -> Self {
        Condition(String::new())
    }

    /// Whether it wraps runs. Otherwise it prepares the machine for them.
    pub fn wraps(&self) -> bool {
        self.0.contains(WHOLE) || self.0.contains(ARGUMENTS)
    }

    fn is_nothing(&self) -> bool {
        NOTHING.contains(&self.0.trim())
    }

    /// Whether the machine is different after it.
    pub fn changes_the_machine(&self) -> bool {
        !self.wraps() && !self.is_nothing()
    }

    /// The shell command of a run.
    fn run(&self, arguments: &[String]) -> String {
        let quoted: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
        let quoted = quoted.join(" ");
        let own = std::fs::read_link(PROGRAM).unwrap_or_else(|_| PathBuf::from(PROGRAM));
        let whole = format!("{} {quoted}", self::quoted(&own.to_string_lossy()));
        if !self.wraps() {
            // Without a shell in between it hears when this process ends.
            return format!("exec {whole}");
        }
        // What is filled in is not looked at again: an argument may contain braces.
        let parts: Vec<String> = self.0.split(WHOLE).map(|part| part.replace(ARGUMENTS, &quoted)).collect();
        parts.join(&whole)
    }
}

/// A word that the shell reads as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl LiveRequest {
    /// Refuses conditions that could not be distinguished, or that leave the machine changed.
    pub fn check(&self) -> Result<(), Problem> {
        let [first, second] = &self.conditions;
        let stays = second.changes_the_machine() && !first.changes_the_machine();
        if stays || first.changes_the_machine() && second.is_nothing() {
            let changes = if stays { second } else { first };
            return Err(Problem::new(format!(
                "'{}' changes the machine, and the other command does not change it back",
                changes.0
            ))
            .hint("give a command for each condition. The machine is left in the condition of the first"));
        }
        Ok(())
    }

    /// Measures the conditions in turn until the time is spent, a signal comes, or a command fails. Then it restores the first
    /// condition, whatever happened.
    pub fn alternate(&self, interrupt: &Interrupt) -> Result<Alternated, Problem> {
        self.check()?;
        directory::own(&self.place, "--runs DIR")?;
        let mut machine = MachineCondition { first: &self.conditions[0], as_first: true };
        let measured = self.rounds(&mut machine, interrupt);
        machine.restore()?;
        measured
    }

    fn rounds(&self, machine: &mut MachineCondition<'_>, interrupt: &Interrupt) -> Result<Alternated, Problem> {
        let began = Instant::now();
        let mut done = Alternated { rounds: Vec::new(), seconds: 0.0, interrupted: None };
        for round in 1..=MOST_ROUNDS {
            let taken = began.elapsed().as_secs_f64();
            let each = taken / f64::from((round - 1).max(1));
            if done.rounds.len() >= LEAST_ROUNDS && taken + each > self.seconds {
                break;
            }
            if round == 2 {
                self.foretell(each);
            }
            let places = ["base", "new"].map(|side| self.place.join(format!("round-{round:02}-{side}")));
            // The order alternates, so that a drift within rounds is in both conditions.
            for index in if round % 2 == 1 { [0, 1] } else { [1, 0] } {
                let signal = self.measure(index, &places[index], machine, interrupt)?;
                if signal.is_some() {
                    return Ok(Alternated { interrupted: signal, ..done });
                }
            }
            done.rounds.push(places);
            done.seconds = began.elapsed().as_secs_f64();
        }
        Ok(done)
    }

    /// Says after the first round how long all will take.
    fn foretell(&self, each: f64) {
        let rounds = ((self.seconds / each) as u64).clamp(LEAST_ROUNDS as u64, u64::from(MOST_ROUNDS));
        talk::line(format_args!(
            "a round takes {}: about {}, {} in all",
            duration(each),
            count(rounds, "round", "rounds"),
            duration(each * rounds as f64)
        ));
    }

    /// One run of a condition; the signal that ended it, if one did.
    fn measure(
        &self,
        index: usize,
        place: &Path,
        machine: &mut MachineCondition<'_>,
        interrupt: &Interrupt,
    ) -> Result<Option<&'static str>, Problem> {
        if let Some(signal) = interrupt.caught() {
            return Ok(Some(signal));
        }
        let condition = &self.conditions[index];
        if condition.changes_the_machine() {
            machine.as_first &= index == 0;
            let ended = prepare(condition, Some(interrupt))?;
            machine.as_first |= index == 0 && ended.success();
            if let Some(signal) = interrupt.caught() {
                return Ok(Some(signal));
            }
            if !ended.success() {
                return Err(Problem::new(format!("the command '{}' failed: {ended}", condition.0))
                    .hint("what it printed is above. Try it alone, with the privileges that it needs"));
            }
        }
        run_into(condition, &self.arguments, place, interrupt)
    }
}

/// A quick run under a condition, into a directory that is new. The signal that ended it, if one did.
pub fn run_into(
    condition: &Condition,
    arguments: &[String],
    place: &Path,
    interrupt: &Interrupt,
) -> Result<Option<&'static str>, Problem> {
    let fixed = ["run", "--quick", "--keep", "log", "--no-history", "--no-progress", "--output"];
    let place_word = place.to_string_lossy().into_owned();
    let words: Vec<String> =
        fixed.map(str::to_owned).into_iter().chain([place_word]).chain(arguments.iter().cloned()).collect();
    let said =
        create::in_memory(c"sysdyno-run").map_err(|error| Problem::new(format!("cannot start a run: {error}")))?;
    let run = start(&condition.run(&words), &said)?;
    let group = run.id();
    let ended = follow(condition, run, Some(interrupt));
    // A shell that was killed leaves its run, and a run its launches.
    end_group(group);
    let ended = ended?;
    if let Some(signal) = interrupt.caught() {
        return Ok(Some(signal));
    }
    // By the rule of shells a higher code is that of a signal. What was measured until then is not the whole run.
    let is_whole = ended.code().is_some_and(|code| code <= 128);
    // A run in which an experiment failed has the results of the others.
    if is_whole && place.join(COMPACT).is_file() {
        return Ok(None);
    }
    Err(failed(condition, ended, &said))
}

/// Which condition the machine is in.
struct MachineCondition<'a> {
    first: &'a Condition,
    as_first: bool,
}

impl MachineCondition<'_> {
    /// Leaves the machine in the first condition.
    fn restore(&mut self) -> Result<(), Problem> {
        self.as_first = self.as_first || prepare(self.first, None)?.success();
        if self.as_first {
            return Ok(());
        }
        Err(Problem::new(format!("the first condition is not restored, because '{}' failed", self.first.0))
            .hint("the machine is in the second condition. Run that command by hand"))
    }
}

impl Drop for MachineCondition<'_> {
    fn drop(&mut self) {
        // Only a panic leaves this to be done.
        let _ = self.restore();
    }
}

/// Runs a command that prepares a condition. Its words go to standard error. Without an interrupt no signal ends it.
fn prepare(condition: &Condition, interrupt: Option<&Interrupt>) -> Result<ExitStatus, Problem> {
    let cannot = |error: std::io::Error| {
        Problem::new(format!("cannot run the command '{}': {error}", condition.0)).hint("is there a /bin/sh?")
    };
    let words = std::io::stderr().as_fd().try_clone_to_owned().map_err(cannot)?;
    follow(condition, shell(&condition.0).stdout(words).spawn().map_err(cannot)?, interrupt)
}

/// A shell in a separate process group: a terminal's interrupt reaches this process alone, which passes it on.
fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).process_group(0);
    shell
}

/// Starts a run. Its words go to a file.
fn start(command: &str, said: &File) -> Result<Child, Problem> {
    let streams = said.try_clone().and_then(|output| Ok((output, said.try_clone()?)));
    let started =
        streams.and_then(|(output, errors)| shell(command).env(FOLLOWED, "1").stdout(output).stderr(errors).spawn());
    started.map_err(|error| Problem::new(format!("cannot start a run: {error}")))
}

/// Waits for a command. A signal is passed on once to its process group. A run then ends by itself with a valid log.
fn follow(condition: &Condition, mut command: Child, interrupt: Option<&Interrupt>) -> Result<ExitStatus, Problem> {
    let mut passed = false;
    loop {
        match command.try_wait() {
            Ok(Some(ended)) => return Ok(ended),
            Ok(None) => {}
            Err(error) => return Err(Problem::new(format!("cannot follow a command: {error}"))),
        }
        if process::waits_for_terminal(command.id()) {
            process::kill_group(command.id());
            let _ = command.wait();
            return Err(Problem::new(format!(
                "'{}' was ended because it asked for input from the terminal",
                condition.0
            ))
            .hint("run sysdyno itself with the privileges that the command needs, for example with sudo"));
        }
        if !passed && interrupt.is_some_and(|interrupt| interrupt.caught().is_some()) {
            process::terminate_group(command.id());
            passed = true;
        }
        std::thread::sleep(LOOK);
    }
}

/// Ends what is left of a process group.
fn end_group(leader: u32) {
    let began = Instant::now();
    process::terminate_group(leader);
    while process::has_group(leader) && began.elapsed() < ENDING {
        std::thread::sleep(LOOK);
    }
    process::kill_group(leader);
}

/// A run that left no result.
fn failed(condition: &Condition, ended: ExitStatus, said: &File) -> Problem {
    let mut text = vec![0; MOST_WORDS];
    let length = said.read_at(&mut text, 0).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[..length]);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let error = lines.iter().position(|line| line.starts_with("error:"));
    if let (true, Some(error)) = (condition.is_nothing(), error) {
        return Problem::new(lines[error].trim_start_matches("error: "));
    }
    let begin = error.unwrap_or_else(|| lines.len().saturating_sub(SHOWN_LINES));
    let shown: Vec<&str> = lines[begin..].iter().take(SHOWN_LINES).copied().collect();
    let shown = shown.join("\n  ");
    let under = if condition.is_nothing() { String::new() } else { format!(" under '{}'", condition.0) };
    Problem::new(format!("a run{under} left no result ({ended}):\n  {shown}"))
        .hint("a command that wraps a run must pass on its arguments, and `{}` or `{args}` must be separate words")
}

/// The directory for the runs, where none was named.
pub fn usual_place() -> PathBuf {
    Path::new(directory::RUNS).join(format!("live-{}", directory::identifier(&process::host_name())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(first: &str, second: &str) -> LiveRequest {
        LiveRequest {
            conditions: [first, second].map(|command| Condition(command.to_owned())),
            arguments: Vec::new(),
            seconds: 0.0,
            place: PathBuf::new(),
        }
    }

    #[test]
    fn a_change_without_a_way_back_is_refused() {
        for (first, second) in
            [(":", "sysctl x=1"), ("sysctl x=1", ""), ("true", "echo 1 >f"), ("nice {}", "sysctl x=1")]
        {
            assert!(request(first, second).check().is_err(), "{first} {second}");
        }
        for (first, second) in [("sysctl x=0", "sysctl x=1"), (":", "nice {}"), ("sysctl x=0", "nice {}"), ("", "")] {
            assert!(request(first, second).check().is_ok(), "{first} {second}");
        }
    }

    #[test]
    fn runs_are_wrapped_where_the_command_says() {
        let arguments = ["run", "it's"].map(str::to_owned);
        let run = |command: &str| Condition(command.to_owned()).run(&arguments);
        assert_eq!(run("/old/sysdyno {args} --cpu 1"), r"/old/sysdyno 'run' 'it'\''s' --cpu 1");
        assert!(run("nice -n 5 {}").starts_with("nice -n 5 '/"));
        assert!(run("echo 1 >f").ends_with(r"' 'run' 'it'\''s'"), "the run is itself where the command prepares");
        // What is filled in may contain the words that are replaced.
        let braces = Condition("x {args}; {}".to_owned()).run(&["a{}b{args}".to_owned()]);
        assert!(braces.starts_with("x 'a{}b{args}'; '/") && braces.ends_with("' 'a{}b{args}'"), "{braces}");
    }
}
