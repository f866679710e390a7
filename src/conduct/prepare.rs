//! What a run finds before it begins: the machine with its place for files, and a clock that can be used.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use crate::machine::{self, Machine};
use crate::results::problem::Problem;
use crate::rig::clock;
use crate::setup::Setup;
use crate::sys::clock::Source;
use crate::sys::{affinity, talk};

/// Describes this machine, with a directory for files or the current one.
pub fn look_at_machine(scratch: Option<&Path>) -> Result<Machine, Problem> {
    Ok(machine::detect(Path::new("/"), &scratch_directory(scratch)?))
}

/// Where files go. A directory that was named is inspected before anything is measured. Without a name it is the current directory,
/// and the experiments report what they miss there.
fn scratch_directory(named: Option<&Path>) -> Result<PathBuf, Problem> {
    let Some(directory) = named else { return Ok(PathBuf::from(".")) };
    let here = directory.display();
    // Logs are text: another name would stand in them for the name of this directory.
    if std::fs::canonicalize(directory).is_ok_and(|place| place.to_str().is_none()) {
        return Err(Problem::new(format!("the name of the scratch directory {here} is not UTF-8"))
            .hint("choose a directory with a UTF-8 path, with --scratch DIR"));
    }
    match std::fs::metadata(directory) {
        Ok(found) if !found.is_dir() => Err(Problem::new(format!("{here} is not a directory")).hint(
            "choose a directory for files with --scratch \
                                                                         DIR",
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Problem::new(format!("the scratch directory {here} does not exist"))
                .hint("create it, or choose another directory with --scratch DIR"))
        }
        Err(error) => Err(Problem::new(format!("cannot inspect the scratch directory {here}: {error}"))
            .hint("choose another directory with --scratch DIR")),
        Ok(_) => {
            access(directory, AccessFlags::W_OK | AccessFlags::X_OK).map(|()| directory.to_owned()).map_err(|error| {
                Problem::new(format!("cannot make files in the scratch directory {here}: {}", error.desc()))
                    .hint("choose a writable directory with --scratch DIR")
            })
        }
    }
}

/// The counter if it can be used, else the kernel's clock, as asked.
pub fn clock_source(asked: Option<Source>, setup: &Setup) -> Result<Source, Problem> {
    match asked {
        Some(Source::MonotonicRaw) => Ok(Source::MonotonicRaw),
        Some(Source::Counter) => counter_usable(setup.cpu).map(|()| Source::Counter),
        None => {
            if let Some(why) = setup.machine.counter_doubt() {
                talk::line(format_args!("warning: {why}. Using CLOCK_MONOTONIC_RAW instead"));
                return Ok(Source::MonotonicRaw);
            }
            Ok(match counter_usable(setup.cpu) {
                Ok(()) => Source::Counter,
                Err(problem) => {
                    talk::line(format_args!("warning: {problem}"));
                    Source::MonotonicRaw
                }
            })
        }
    }
}

/// Whether the counter can be used on a CPU, tried there.
pub fn counter_usable(cpu: u32) -> Result<(), Problem> {
    affinity::restored(|| clock::counter_usable(cpu))
}
