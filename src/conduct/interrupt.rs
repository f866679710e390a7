//! SIGINT and SIGTERM: remembered, so that a run ends with a valid log instead of in the middle of a line.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::signal::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::results::trouble::Trouble;

/// Watches for signals that ask to end.
#[derive(Debug, Clone)]
pub struct Interrupt {
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Begins to watch. A second signal while the first is being dealt with changes nothing.
    pub fn watch() -> Result<Self, Trouble> {
        let signal = Arc::new(AtomicUsize::new(0));
        for number in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_usize(number, Arc::clone(&signal), number as usize).map_err(|error| unwatchable(&error))?;
        }
        outlive_size_limit()?;
        Ok(Interrupt { signal })
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

/// A limit on the size of files (ulimit -f) kills whoever reaches it. Caught, the write fails instead, and a run or a launch
/// ends with a reason.
pub fn outlive_size_limit() -> Result<(), Trouble> {
    flag::register(Signal::SIGXFSZ as i32, Arc::default()).map(drop).map_err(|error| unwatchable(&error))
}

fn unwatchable(error: &std::io::Error) -> Trouble {
    Trouble::new(format!("cannot watch for signals: {error}")).hint("run it where signal handlers are allowed")
}
