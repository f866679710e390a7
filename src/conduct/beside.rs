//! How much CPU time other processes of this machine use during a run.

use std::path::Path;
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::machine::quiet::StatSample;

/// Everything used so far, by all and by this run, and when that was read.
#[derive(Debug)]
pub struct Beside {
    at: Instant,
    /// Seconds of all CPUs of this machine.
    all: f64,
    /// Seconds of this process and of its children that have ended.
    own: f64,
}

impl Beside {
    /// Reads it now; none where the kernel does not say.
    pub fn start() -> Option<Beside> {
        let hertz = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten()?;
        let total = StatSample::read(Path::new("/"))?.total;
        let own = [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].map(|who| {
            let usage = getrusage(who).ok()?;
            Some((usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 * 1e-6)
        });
        let own = own.into_iter().sum::<Option<f64>>()?;
        let all = (total.user + total.system + total.interrupts) as f64 / hertz as f64;
        Some(Beside { at: Instant::now(), all, own })
    }

    /// CPUs that others used since then, at least 0.
    pub fn until(&self, now: &Beside) -> Option<f64> {
        let seconds = (now.at - self.at).as_secs_f64();
        (seconds > 0.0).then(|| (((now.all - self.all) - (now.own - self.own)) / seconds).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_this_run_uses_is_not_that_of_others() {
        let at = Instant::now();
        let before = Beside { at, all: 100.0, own: 10.0 };
        let after = Beside { at: at + Duration::from_secs(2), all: 103.0, own: 11.5 };
        assert_eq!(before.until(&after), Some(0.75));
        let idle = Beside { at: at + Duration::from_secs(2), all: 101.0, own: 11.5 };
        assert_eq!(before.until(&idle), Some(0.0), "ticks are coarse");
        assert_eq!(before.until(&before), None);
    }

    #[test]
    fn this_machine_says_it() {
        assert!(Beside::start().is_some_and(|now| now.all > 0.0));
    }
}
