//! SIGINT, SIGTERM and SIGHUP: remembered, so that a run ends with a valid log instead of in the middle of a line. SIGCONT:
//! remembered, because a conductor that was stopped did not see how a launch ended in its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nix::sys::signal::Signal;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::results::problem::Problem;
use crate::sys::process;

/// Watches for signals that ask to end.
#[derive(Debug, Clone)]
pub struct Interrupt {
    signal: Arc<AtomicUsize>,
    continued: Arc<AtomicBool>,
}

/// The signals that ask to end. One that was ignored when this process began stays ignored. A user who started it with nohup, or in
/// the background of a script, wants it to outlive that signal.
pub fn signals_that_end() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !process::ignores(signal))
}

impl Interrupt {
    /// Begins to watch. A second signal while the first is being dealt with changes nothing.
    pub fn watch() -> Result<Self, Problem> {
        let signal = Arc::new(AtomicUsize::new(0));
        for number in signals_that_end() {
            flag::register_usize(number, Arc::clone(&signal), number as usize).map_err(|error| unwatchable(&error))?;
        }
        let continued = Arc::new(AtomicBool::new(false));
        flag::register(SIGCONT, Arc::clone(&continued)).map_err(|error| unwatchable(&error))?;
        outlive_size_limit()?;
        Ok(Interrupt { signal, continued })
    }

    /// Whether this process was stopped and continued since the last call.
    pub fn was_stopped(&self) -> bool {
        self.continued.swap(false, Ordering::Relaxed)
    }

    /// The signal that came, if one did.
    pub fn caught(&self) -> Option<&'static str> {
        match self.signal.load(Ordering::Relaxed) as i32 {
            SIGINT => Some("SIGINT"),
            SIGTERM => Some("SIGTERM"),
            SIGHUP => Some("SIGHUP"),
            _ => None,
        }
    }
}

/// A limit on the size of files (ulimit -f) kills a process that reaches it. Caught, the write fails instead, and a run or a launch
/// ends with a reason.
pub fn outlive_size_limit() -> Result<(), Problem> {
    flag::register(Signal::SIGXFSZ as i32, Arc::default()).map(drop).map_err(|error| unwatchable(&error))
}

fn unwatchable(error: &std::io::Error) -> Problem {
    Problem::new(format!("cannot watch for signals: {error}")).hint("run sysdyno where signal handlers are allowed")
}
