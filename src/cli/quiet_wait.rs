//! Waiting for a quiet machine before a run: until other tasks and neighbours leave the measured core, or until a limit.

use std::path::Path;
use std::time::{Duration, Instant};

use super::quietest::{BUSY, SPAN};
use super::{doctor, neighbours, say};
use crate::machine::quiet::StatSample;
use crate::neighbour::presence::Presence;
use crate::results::wording::{duration, percent};
use crate::rig::watch::CoreWatch;
use crate::sys::talk;

/// Length of a look at the machine: a hundred ticks of the kernel's account.
const LOOK: Duration = Duration::from_secs(1);
/// Quiet looks in succession after which a run begins. A single one can lie between two programs of a queue.
const QUIET_LOOKS: u32 = 2;
/// Time between two looks at the core.
const PAUSE: Duration = Duration::from_millis(5);
/// Share of the looks with a neighbour beyond which most launches meet it.
const NEIGHBOUR: f64 = 0.1;
/// Share of the time of all CPUs beyond which other tasks disturb memory and partners of the measured CPU.
const OTHER_TASKS: f64 = 0.1;

/// What one look has found. None is what cannot be seen here.
#[derive(Debug, Clone, Copy, Default)]
struct Look {
    /// Share of the time in which the measured CPU did something else.
    lost: Option<f64>,
    /// Share of the time of all CPUs in which there was work.
    work: Option<f64>,
    /// Share of the time in which a neighbour used the core.
    neighbour: Option<f64>,
}

impl Look {
    /// What disturbs, in words. Nothing where the machine is quiet.
    fn disturbances(&self, cpu: u32) -> Vec<String> {
        let beyond = |share: Option<f64>, bound: f64| share.filter(|&share| share > bound).map(percent);
        let found = [
            beyond(self.lost, BUSY).map(|share| format!("CPU {cpu} is used otherwise for {share} of the time")),
            beyond(self.neighbour, NEIGHBOUR).map(|share| format!("a neighbour is on its core for {share}")),
            beyond(self.work, OTHER_TASKS).map(|share| format!("programs use {share} of all CPUs")),
        ];
        found.into_iter().flatten().collect()
    }
}

/// Waits until the machine is quiet for a run on this CPU, and at most this many seconds. Says what it waits for, and how it ended.
pub(super) fn wait(limit: f64, cpu: u32) {
    let began = Instant::now();
    let mut watch = neighbours::start(&[cpu], PAUSE).ok();
    let ended = until_quiet(
        cpu,
        || look(cpu, watch.as_mut()),
        || began.elapsed().as_secs_f64() >= limit,
        |busy| talk::line(format_args!("note: waiting at most {} for a quiet machine: {busy}", duration(limit))),
    );
    match ended {
        Ok(()) => talk::line(format_args!("note: quiet after {}", duration(began.elapsed().as_secs_f64()))),
        Err(busy) => {
            say(format_args!("warning: this machine was not quiet within {}: {busy}", duration(limit)));
            say(
                "hint: results that other work disturbs are marked. `sysdyno doctor` shows more, and a later hour may be quieter",
            );
        }
    }
}

/// Looks until the last looks are quiet, or until the time is over: then what disturbed in the last look that was not quiet.
fn until_quiet(
    cpu: u32,
    mut look: impl FnMut() -> Look,
    mut is_over: impl FnMut() -> bool,
    first: impl FnOnce(&str),
) -> Result<(), String> {
    let (mut quiet, mut last, mut first) = (0, String::new(), Some(first));
    while quiet < QUIET_LOOKS {
        let busy = look().disturbances(cpu).join(", ");
        quiet = if busy.is_empty() { quiet + 1 } else { 0 };
        if !busy.is_empty() {
            if let Some(first) = first.take() {
                first(&busy);
            }
            last = busy;
        }
        if quiet < QUIET_LOOKS && is_over() {
            return if last.is_empty() { Ok(()) } else { Err(last) };
        }
    }
    Ok(())
}

/// One look at the machine. This process sleeps for most of it.
fn look(cpu: u32, watch: Option<&mut CoreWatch>) -> Look {
    let account = || StatSample::read(Path::new("/")).map(|sample| sample.total);
    let before = account();
    std::thread::sleep(LOOK);
    let work = before.zip(account()).and_then(|(before, now)| {
        let wanted = now.wanted() - before.wanted();
        let all = wanted + now.idle - before.idle;
        (all > 0).then(|| wanted.max(0) as f64 / all as f64)
    });
    let seen = watch.map(CoreWatch::take);
    let neighbour = seen.and_then(|seen| Presence::default().add(&seen.first()?.looks).share_of_decided());
    Look { lost: doctor::lost_share(cpu, SPAN), work, neighbour }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Look = Look { lost: Some(0.01), work: Some(0.02), neighbour: Some(0.0) };

    /// Number of looks until a wait ends that has at most ten, its end, and what it waits for at first.
    fn waited(looks: &[Look]) -> (usize, Result<(), String>, String) {
        let (mut taken, mut said) = (0, String::new());
        let left = std::cell::Cell::new(10);
        let next = || {
            taken += 1;
            left.set(left.get() - 1);
            *looks.get(taken - 1).or(looks.last()).unwrap()
        };
        let ended = until_quiet(3, next, || left.get() == 0, |busy| busy.clone_into(&mut said));
        (taken, ended, said)
    }

    #[test]
    fn a_run_begins_after_quiet_looks_in_succession() {
        let busy = Look { lost: Some(0.5), ..QUIET };
        assert_eq!(waited(&[QUIET]), (2, Ok(()), String::new()));
        let why = "CPU 3 is used otherwise for 50 % of the time";
        assert_eq!(waited(&[busy, QUIET, busy, QUIET, QUIET]), (5, Ok(()), why.to_owned()));
        assert_eq!(waited(&[busy]), (10, Err(why.to_owned()), why.to_owned()));
    }

    #[test]
    fn each_kind_of_disturbance_is_named_beyond_its_bound() {
        let of = |look: Look| look.disturbances(0).join(", ");
        assert_eq!(of(Look::default()), "", "what cannot be seen is not waited for");
        assert_eq!(of(Look { lost: Some(BUSY), work: Some(OTHER_TASKS), neighbour: Some(NEIGHBOUR) }), "");
        assert_eq!(of(Look { neighbour: Some(0.62), ..QUIET }), "a neighbour is on its core for 62 %");
        assert_eq!(of(Look { work: Some(0.25), ..QUIET }), "programs use 25 % of all CPUs");
    }
}
